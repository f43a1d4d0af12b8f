//! Keeping what was found by other ways than a session's: on-line, in groups, over workloads.
//!
//! All samples go into a run. A decision, which every later lookup would find, needs evidence: a comparison with the
//! default, else the samples themselves, judged as series that were measured apart, which share the error with all
//! others that could have been chosen. Where these cannot tell, the run keeps its samples and decides nothing.
//!
//! [`StoreMemory`] is the memory of an on-line tuner: what matches in everything is used at once, what matches nearly is
//! used while the first scan checks it, and what was found is kept.

use std::time::Duration;

use super::{Contender, Evidence, Found, Locations, Observation, Plan, Store, StoreError, Task};
use crate::compare::Comparison;
use crate::objective::Objective;
use crate::online::{Memory, Recalled, Report};
use crate::report::words::gain;
use crate::verdict::{Judgement, Rules, Side, Verdict, judge_apart};
use crate::{Config, Failure, Outcome};

/// Time that another process' lock is waited for: real work has been done and must not wait long to end.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// Returns the configuration to decide for, if any, and why.
    pub fn conclude(&self) -> (Option<Config>, String) {
        let default = || Some(self.default.clone());
        if self.proposed == self.default {
            return (default(), "the default stays: nothing was faster".to_owned());
        }
        let judgement = self.judgement();
        match judgement.verdict {
            Verdict::Better(Side::B) => {
                let gain = gain(Objective::Time, &judgement);
                (Some(self.proposed.clone()), format!("better than the default: {gain}"))
            }
            Verdict::Better(Side::A) => (default(), "the default stays: what was proposed is slower".to_owned()),
            Verdict::Same => (default(), "the default stays: what was proposed is the same".to_owned()),
            verdict @ Verdict::CannotTell(_) => (None, format!("nothing is decided: {verdict}")),
        }
    }

    fn judgement(&self) -> Judgement {
        if let Some(comparison) = &self.comparison {
            return comparison.judgement.clone();
        }
        let singly = |config: &Config| {
            let samples = self.samples.iter().find(|(other, _)| other == config);
            samples
                .map(|(_, samples)| samples.iter().map(|sample| vec![*sample]).collect::<Vec<_>>())
                .unwrap_or_default()
        };
        let (default, proposed) = (singly(&self.default), singly(&self.proposed));
        // Its own samples made it the best of all that were tried: these comparisons share the error.
        let tried = self.samples.iter().filter(|(config, samples)| *config != self.default && !samples.is_empty());
        let rules = Rules::default().of_family(tried.count());
        judge_apart(&default, &proposed, &rules.fixed(default.len().min(proposed.len())))
    }

    fn observations(&self) -> Vec<Observation> {
        let times = |config: &Config, samples: &[f64]| Observation {
            config: config.clone(),
            launches: samples.len(),
            outcome: Outcome::Times(samples.to_vec()),
            took_ms: samples.iter().sum(),
        };
        let mut all: Vec<Observation> = self.samples.iter().map(|(config, samples)| times(config, samples)).collect();
        for block in self.comparison.iter().flat_map(|comparison| &comparison.blocks) {
            all.extend([times(&self.default, &block.a), times(&self.proposed, &block.b)]);
        }
        all.retain(|observation| observation.launches > 0);
        all.extend(self.failed.iter().map(|(config, failure)| {
            let outcome = Outcome::Failed(failure.clone());
            Observation { config: config.clone(), launches: 1, outcome, took_ms: 0.0 }
        }));
        all
    }

    /// A configuration with its samples in the comparison, else with the others.
    fn contender(&self, config: &Config) -> Option<Contender> {
        let mut samples: Vec<f64> = Vec::new();
        for block in self.comparison.iter().flat_map(|comparison| &comparison.blocks) {
            if *config == self.default {
                samples.extend(&block.a);
            } else if *config == self.proposed {
                samples.extend(&block.b);
            }
        }
        if samples.is_empty() {
            samples.extend(self.samples.iter().filter(|(other, _)| other == config).flat_map(|(_, samples)| samples));
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

/// The memory of the on-line tuner of one task.
#[derive(Debug)]
pub struct StoreMemory<'a> {
    locations: Locations,
    task: Task<'a>,
    default: Config,
    comparison: Option<Comparison>,
    found: Option<Found>,
    kept: Option<Kept>,
}

impl<'a> StoreMemory<'a> {
    /// Makes the memory for `task`, whose space has all configurations of the tuner. Nothing is opened yet.
    pub const fn new(locations: Locations, task: Task<'a>, default: Config) -> Self {
        Self { locations, task, default, comparison: None, found: None, kept: None }
    }

    /// The result that the tuner started from.
    pub const fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// The run that was kept.
    pub const fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    /// Takes a comparison of the default (A) with what the tuner chose (B): it alone decides what is kept.
    pub fn confirm(&mut self, comparison: Comparison) {
        self.comparison = Some(comparison);
    }
}

impl Memory for StoreMemory<'_> {
    fn recall(&mut self) -> Result<Option<Recalled>, Box<dyn std::error::Error + Send + Sync>> {
        self.found = self.locations.find(&self.task)?.into_iter().next();
        Ok(self.found.as_ref().map(|found| match found.step() {
            0 => Recalled::Exact(found.config.clone()),
            _ => Recalled::Nearest { config: found.config.clone(), relaxed: found.relaxed_in_words() },
        }))
    }

    /// Keeps `report` as a run. That of a tuner that only used what it had recalled has no samples and is not kept,
    /// unless there is a comparison.
    fn keep(&mut self, report: &Report) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let chosen = [(report.config.clone(), report.samples.clone())];
        let finding = Finding {
            plan: Plan {
                strategy: "on-line".to_owned(),
                budget: format!("{} launches of real work", report.counters.launches),
                ..Plan::default()
            },
            default: self.default.clone(),
            proposed: report.config.clone(),
            samples: chosen.into_iter().chain(report.others.iter().cloned()).collect(),
            failed: report.failed.clone(),
            comparison: self.comparison.clone(),
            launches: report.counters.launches as usize,
            stopped: "the work ended".to_owned(),
        };
        self.kept = Store::open_waiting(&self.locations.user, PATIENCE)?.keep(&self.task, &finding)?;
        Ok(())
    }
}
