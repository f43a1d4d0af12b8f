//! Progress of a tuning on standard error.

use tuner::Config;
use tuner::objective::Objective;
use tuner::session::{Phase, Progress as Step};

use crate::progress::Progress;

/// Shows the progress of a session.
pub struct Watcher {
    objective: Objective,
    bar: Progress,
    best: f64,
    replayed: usize,
    phase: Phase,
    /// State of the busy machine that was last reported.
    trouble: String,
}

impl Watcher {
    /// Begins to show a tuning with this objective.
    pub fn new(objective: Objective) -> Self {
        Self {
            objective,
            bar: Progress::new(1000, "{wide_bar} {msg}"),
            best: f64::INFINITY,
            replayed: 0,
            phase: Phase::Searching,
            trouble: String::new(),
        }
    }

    /// Shows a step; `words` describes a configuration.
    pub fn step(&mut self, step: &Step<'_>, words: impl Fn(&Config) -> String) {
        if step.replayed {
            self.replayed += 1;
            self.best = step.best.map_or(self.best, |(_, time)| time);
            self.bar.message(&format!(
                "going through what run {} measured: {}",
                step.run, self.replayed
            ));
            return;
        }
        if self.replayed > 0 {
            let (run, replayed) = (step.run, self.replayed);
            self.bar.say(&format!(
                "continuing run {run}: {replayed} measurements were already made"
            ));
            self.replayed = 0;
        }
        if let Some(trouble) = step.trouble
            && (self.trouble.is_empty() || step.phase == Phase::Waiting && self.trouble != trouble)
        {
            trouble.clone_into(&mut self.trouble);
            self.bar.say(&format!("warning: {trouble}"));
        }
        let left = step
            .left_ms
            .map_or_else(String::new, |ms| format!(", {} left", seconds(ms / 1e3)));
        if let Some((config, time)) = step.best
            && time < self.best
        {
            self.best = time;
            let n = step.spent.evaluations;
            self.bar.say(&format!(
                "{n:>6} tried, best {}  {}{left}",
                self.objective.words(time),
                words(config)
            ));
        }
        if step.phase != self.phase {
            let before = std::mem::replace(&mut self.phase, step.phase);
            match step.phase {
                Phase::Racing => self.bar.say("racing the best ones"),
                Phase::Deciding if before == Phase::Waiting => {}
                Phase::Deciding => self
                    .bar
                    .say("measuring the best ones again, against the default"),
                Phase::Waiting => self.bar.say("waiting: other processes use this machine"),
                _ => {}
            }
        }
        if let Some(left) = step.left_ms {
            let share = step.spent.ms / (step.spent.ms + left).max(1e-9);
            self.bar.set((1000.0 * share) as u64);
        }
        let best = if self.best.is_finite() {
            self.objective.words(self.best)
        } else {
            "nothing yet".to_owned()
        };
        self.bar.message(&format!(
            "{} tried, best {best}{left}",
            step.spent.evaluations
        ));
    }
}

fn seconds(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    if whole < 100 {
        format!("{whole} s")
    } else {
        format!("{} min", whole.div_ceil(60))
    }
}
