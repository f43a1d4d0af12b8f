//! Measurements of a session: the budget spent, and the configurations seen.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::session::{Phase, Progress, Session, TuneError};
use crate::budget::Spent;
use crate::compare;
use crate::space::ConfigIndex;
use crate::store::{Contender, Recorder};
use crate::strategy::search_time;
use crate::watch::Watch;
use crate::{Config, Device, Failure, FailureKind, Outcome};

/// Maximum number of launches in a race, as many as a few candidates take on a noisy device.
const RACE: usize = 120;

/// Mean launches of a racer on a noisy device.
const OF_A_RACER: usize = 5;

/// Minimum number of blocks in a comparison.
pub(super) const LEAST_BLOCKS: usize = 4;

/// Pause between looks at a busy machine.
const PAUSE: Duration = Duration::from_millis(250);

/// Returns the most launches of a decision between the default and `candidates`, with a horizon of
/// `blocks`: the first round, and the winner once more.
pub(super) fn decide_launches(plan: &compare::Plan, candidates: usize, blocks: usize) -> usize {
    let of = |sides: usize| sides * (plan.warm_up + blocks * plan.rounds);
    of(candidates + 1) + of(2)
}

/// Configuration that worked, with its time in the search.
pub(super) struct TimedConfig {
    pub index: ConfigIndex,
    pub time_ms: f64,
    samples: usize,
}

/// State of a session while it runs.
pub(super) struct Bench<'s, 'a> {
    pub session: &'s Session<'a>,
    pub recorder: Recorder<'s>,
    pub spent: Spent,
    pub seen: Vec<TimedConfig>,
    pub measured: HashSet<ConfigIndex>,
    pub failed: usize,
    pub last_failure: Option<Failure>,
    /// Number of launches of the search, set at its end.
    pub searched: usize,
    /// Number of launches after which nothing more is measured, set at the beginning of the final
    /// rounds.
    most: usize,
    watch: &'s mut dyn Watch,
    /// Time waited for a quiet machine.
    waited: Duration,
    /// State of a machine that others use, and the remedy, at the last look.
    trouble: Option<String>,
    /// State of a machine that stayed busy for too long: nothing can be decided.
    pub disturbed: Option<String>,
}

impl<'s, 'a> Bench<'s, 'a> {
    pub fn new(session: &'s Session<'a>, recorder: Recorder<'s>, watch: &'s mut dyn Watch) -> Self {
        Self {
            session,
            recorder,
            spent: Spent::default(),
            seen: Vec::new(),
            measured: HashSet::new(),
            failed: 0,
            last_failure: None,
            searched: 0,
            most: usize::MAX,
            watch,
            waited: Duration::ZERO,
            trouble: None,
            disturbed: None,
        }
    }

    /// Measures until no other load disturbed the measurement; `None` once the patience is over.
    pub fn measure_undisturbed(
        &mut self,
        config: &Config,
        launches: usize,
        tell: &mut dyn FnMut(&Progress<'_>) -> bool,
    ) -> Result<Option<Outcome>, TuneError> {
        let limits = self.watch.limits();
        loop {
            let begun = Instant::now();
            let mut trouble = None;
            let mut quiet = || {
                let now = self.watch.look();
                trouble = now.is_disturbed(&limits).then(|| now.trouble(&limits));
                trouble.is_none()
            };
            if let Some(outcome) = self.recorder.measure_if(config, launches, &mut quiet) {
                self.trouble = None;
                return self.take(outcome).map(Some);
            }
            if self.waited >= self.session.patience {
                self.disturbed = trouble;
                return Ok(None);
            }
            self.trouble = trouble;
            self.tell(Phase::Waiting, tell)?;
            std::thread::sleep(PAUSE.min(self.session.patience));
            while self.watch.look().is_disturbed(&limits)
                && self.waited + begun.elapsed() < self.session.patience
            {
                std::thread::sleep(PAUSE.min(self.session.patience));
            }
            self.waited += begun.elapsed();
        }
    }

    pub fn measure(&mut self, config: &Config, launches: usize) -> Result<Outcome, TuneError> {
        let outcome = self.recorder.measure(config, launches);
        self.take(outcome)
    }

    fn take(&mut self, outcome: Outcome) -> Result<Outcome, TuneError> {
        if let Some(error) = self.recorder.take_error() {
            return Err(error.into());
        }
        self.spent.ms = self.recorder.spent_ms();
        match &outcome {
            Outcome::Times(times) => self.spent.launches += times.len().max(1),
            // Failures count, so that a budget of launches ends even if nothing works.
            Outcome::Failed(_) => self.spent.launches += 1,
        }
        Ok(outcome)
    }

    /// Measures a configuration for the search.
    pub fn evaluate(&mut self, index: ConfigIndex) -> Result<Outcome, TuneError> {
        let outcome = self.measure(
            &self.session.task.space.config(index),
            self.session.launches,
        )?;
        self.measured.insert(index);
        self.spent.evaluations += 1;
        // The search goes on, but it is reported at once that the final rounds will wait.
        let (state, limits) = (self.watch.look(), self.watch.limits());
        self.trouble = state.is_disturbed(&limits).then(|| state.trouble(&limits));
        match (&outcome, search_time(&outcome)) {
            (Outcome::Times(times), Some(time_ms)) => {
                self.seen.push(TimedConfig {
                    index,
                    time_ms,
                    samples: times.len(),
                });
            }
            (Outcome::Failed(failure), _) => {
                self.failed += 1;
                self.last_failure = Some(failure.clone());
            }
            (Outcome::Times(_), None) => {
                self.failed += 1;
                self.last_failure = Some(FailureKind::Launch.because("it ran and gave no time"));
            }
        }
        Ok(outcome)
    }

    /// Returns the search's estimate of a configuration.
    pub fn searched(&self, config: &Config) -> Contender {
        let index = self.session.task.space.index_of(config);
        let seen = self.seen.iter().find(|seen| Some(seen.index) == index);
        let (time_ms, samples) = seen.map_or((f64::MAX, 0), |seen| (seen.time_ms, seen.samples));
        Contender {
            config: config.clone(),
            time_ms,
            interval_ms: None,
            samples,
        }
    }

    /// Returns the number of configurations that would be raced if the search ended now; 0 if no
    /// place is contested.
    pub fn racers(&self) -> usize {
        let session = self.session;
        let allowed = self.most_of_race() / OF_A_RACER;
        let racers = self.seen.len().min(session.racers).min(allowed);
        if session.finalists == 0 || racers <= session.finalists {
            0
        } else {
            racers
        }
    }

    /// Launches that the race may take if the search ends now.
    pub fn race_launches(&self) -> usize {
        if self.racers() == 0 {
            0
        } else {
            self.most_of_race()
        }
    }

    /// Returns the most launches of a race: a third of those spent, within the budget.
    fn most_of_race(&self) -> usize {
        (self.spent.launches / 3).min(RACE).min(self.left())
    }

    /// Returns the number of launches left.
    pub fn left(&self) -> usize {
        let left = self
            .session
            .budget
            .launches_left(&self.spent)
            .unwrap_or(usize::MAX);
        left.min(self.most.saturating_sub(self.spent.launches))
    }

    /// Limits the final rounds to as many launches as the search took, but not to fewer than can
    /// decide.
    pub fn begin_final_rounds(&mut self) {
        let least = decide_launches(&self.session.rounds, 1, LEAST_BLOCKS);
        self.most = self.spent.launches + self.searched.max(least);
    }

    /// Returns the budget spent after race and final rounds, if the search ends now.
    pub fn with_ending(&self) -> Spent {
        let rounds = &self.session.rounds;
        let least = decide_launches(rounds, 1, LEAST_BLOCKS);
        let all = self
            .session
            .budget
            .launches_left(&self.spent)
            .map(|left| self.spent.launches + left);
        // If the search would get fewer launches than the shortest final rounds, it gets all.
        let too_few = all.is_some_and(|all| all < 2 * least);
        let finals = if self.session.finalists == 0 || self.seen.len() < 2 || too_few {
            0
        } else {
            // As many launches as the search took, up to the usual number.
            let usual = decide_launches(rounds, self.session.finalists, rounds.rules.horizon());
            self.spent.launches.min(usual).max(least)
        };
        // An evaluation is measured whole, or not at all.
        let rest = if self.spent.evaluations == 0 {
            0
        } else {
            self.session.launches.saturating_sub(1)
        };
        let more = self.race_launches() + finals + rest;
        let ms = self.spent.ms * (1.0 + more as f64 / self.spent.launches.max(1) as f64);
        Spent {
            launches: self.spent.launches + more,
            ms,
            ..self.spent
        }
    }

    fn best(&self) -> Option<&TimedConfig> {
        self.seen
            .iter()
            .min_by(|a, b| a.time_ms.total_cmp(&b.time_ms))
    }

    pub fn tell(
        &self,
        phase: Phase,
        tell: &mut dyn FnMut(&Progress<'_>) -> bool,
    ) -> Result<(), TuneError> {
        let best = self
            .best()
            .map(|seen| (self.session.task.space.config(seen.index), seen.time_ms));
        let ending_ms = self.with_ending().ms - self.spent.ms;
        let left_ms = self.session.budget.left_ms(&self.spent, ending_ms);
        let progress = Progress {
            spent: self.spent,
            best: best.as_ref().map(|(config, time)| (config, *time)),
            left_ms: left_ms.filter(|_| phase == Phase::Searching),
            phase,
            trouble: self.trouble.as_deref(),
            replayed: !self.recorder.is_live(),
            run: self.recorder.run(),
        };
        if tell(&progress) {
            Ok(())
        } else {
            Err(TuneError::Interrupted {
                run: self.recorder.run(),
            })
        }
    }
}
