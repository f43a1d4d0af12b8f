//! Keeping what was found by other ways than a session's: on-line, in groups, over workloads.
//!
//! All samples go into a run. A decision, which every later lookup would find, needs evidence: a comparison with the
//! default. Without one that can tell, the run keeps its samples and decides nothing.

use super::{Contender, Evidence, Observation, Plan, Store, StoreError, Task};
use crate::compare::Comparison;
use crate::objective::Objective;
use crate::online::Report;
use crate::report::words::gain;
use crate::verdict::{Side, Verdict};
use crate::{Config, Failure, Outcome};

/// Finding of a tuner.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Plan of the tuning.
    pub plan: Plan,
    /// Configuration used where nothing is tuned.
    pub default: Config,
    /// Configuration that shall be used.
    pub proposed: Config,
    /// All samples by configuration, ms.
    pub samples: Vec<(Config, Vec<f64>)>,
    /// Configurations that failed.
    pub failed: Vec<(Config, Failure)>,
    /// The default (A) against what is proposed (B).
    pub comparison: Option<Comparison>,
    /// Launches altogether.
    pub launches: usize,
    /// Why it ended.
    pub stopped: String,
}

/// Record of what was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The run in the store.
    pub run: i64,
    /// Configuration it decided for, if any.
    pub decided: Option<Config>,
    /// Why, in words.
    pub verdict: String,
}

impl Finding {
    /// Describes what an on-line tuner found. One that only used what it was given has no samples; it is kept only if there
    /// is a `comparison`.
    pub fn of_online(report: &Report, default: &Config, comparison: Option<Comparison>) -> Self {
        let chosen = [(report.config.clone(), report.samples.clone())];
        Self {
            plan: Plan {
                strategy: "on-line".to_owned(),
                budget: format!("{} launches of real work", report.counters.launches),
                ..Plan::default()
            },
            default: default.clone(),
            proposed: report.config.clone(),
            samples: chosen.into_iter().chain(report.others.iter().cloned()).collect(),
            failed: report.failed.clone(),
            comparison,
            launches: report.counters.launches as usize,
            stopped: "the work ended".to_owned(),
        }
    }

    /// Returns the configuration to decide for, if any, and why.
    fn conclude(&self) -> (Option<Config>, String) {
        let default = |why: &str| (Some(self.default.clone()), format!("the default stays: {why}"));
        if self.proposed == self.default {
            return default("nothing was faster");
        }
        let Some(comparison) = &self.comparison else {
            return (None, "nothing is decided: it was not compared with the default".to_owned());
        };
        match comparison.judgement.verdict {
            Verdict::Better(Side::B) => {
                let gain = gain(Objective::Time, &comparison.judgement);
                (Some(self.proposed.clone()), format!("better than the default: {gain}"))
            }
            Verdict::Better(Side::A) => default("what was proposed is slower"),
            Verdict::Same => default("what was proposed is the same"),
            verdict @ Verdict::CannotTell(_) => (None, format!("nothing is decided: {verdict}")),
        }
    }

    /// Lists the blocks of the comparison as samples of its two sides.
    fn compared(&self) -> Vec<(&Config, &Vec<f64>)> {
        let blocks = self.comparison.iter().flat_map(|comparison| &comparison.blocks);
        blocks.flat_map(|block| [(&self.default, &block.a), (&self.proposed, &block.b)]).collect()
    }

    fn observations(&self) -> Vec<Observation> {
        let times = |(config, samples): (&Config, &Vec<f64>)| Observation {
            config: config.clone(),
            launches: samples.len(),
            outcome: Outcome::Times(samples.clone()),
            took_ms: samples.iter().sum(),
        };
        let samples = self.samples.iter().map(|(config, samples)| times((config, samples)));
        let failed = self.failed.iter().map(|(config, failure)| {
            let outcome = Outcome::Failed(failure.clone());
            Observation { config: config.clone(), launches: 1, outcome, took_ms: 0.0 }
        });
        let all = samples.chain(failed).chain(self.compared().into_iter().map(times));
        all.filter(|observation| observation.launches > 0).collect()
    }

    /// A configuration with its samples in the comparison, else with the others.
    fn contender(&self, config: &Config) -> Option<Contender> {
        let of = |all: Vec<(&Config, &Vec<f64>)>| -> Vec<f64> {
            all.into_iter().filter(|(other, _)| *other == config).flat_map(|(_, samples)| samples.clone()).collect()
        };
        let mut samples = of(self.compared());
        if samples.is_empty() {
            samples = of(self.samples.iter().map(|(config, samples)| (config, samples)).collect());
        }
        (!samples.is_empty()).then(|| Contender::of_samples(config, &samples))
    }

    fn evidence(&self, decided: &Config, verdict: &str, valid: usize) -> Option<Evidence> {
        let rivals = self.samples.iter().map(|(config, _)| config);
        let rivals = rivals.filter(|config| ![&self.default, decided].contains(config));
        Some(Evidence {
            chosen: self.contender(decided)?,
            default: self.contender(&self.default),
            runner_up: rivals.filter_map(|c| self.contender(c)).min_by(|a, b| a.time_ms.total_cmp(&b.time_ms)),
            tried: self.samples.len() + self.failed.len(),
            failed: self.failed.len(),
            valid,
            launches: self.launches,
            stopped: self.stopped.clone(),
            expected_gain: None,
            verdict: verdict.to_owned(),
            details: None,
        })
    }
}

impl Store {
    /// Keeps what was found as a run of `task`; `None` if there is no sample in it.
    ///
    /// # Errors
    /// Those of writing.
    pub fn keep(&mut self, task: &Task<'_>, finding: &Finding) -> Result<Option<Kept>, StoreError> {
        let observations = finding.observations();
        if observations.is_empty() {
            return Ok(None);
        }
        let (decided, verdict) = finding.conclude();
        let evidence = decided.and_then(|config| finding.evidence(&config, &verdict, task.space.len()));
        let mut run = self.begin(task, &finding.plan)?;
        for observation in &observations {
            self.record(&mut run, observation)?;
        }
        let id = run.id();
        self.finish(run, evidence.as_ref())?;
        Ok(Some(Kept { run: id, decided: evidence.map(|evidence| evidence.chosen.config), verdict }))
    }
}
