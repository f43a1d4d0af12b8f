//! Keeping what was found by other ways than a session's: on-line, in groups, over workloads.
//!
//! All samples go into a run. A decision, which every later lookup would find, needs evidence: a comparison with the
//! default, else the samples themselves, judged as series that were measured apart, which share the error with all
//! others that could have been chosen. Where these cannot tell, the run keeps its samples and decides nothing.

use super::{Contender, Evidence, Observation, Plan, Store, StoreError, Task};
use crate::compare::Comparison;
use crate::verdict::{Judgement, Rules, Side, Verdict, judge_apart};
use crate::{Config, Failure, Outcome};

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// How.
    pub plan: Plan,
    /// What is used where nothing is tuned.
    pub default: Config,
    /// What shall be used.
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

/// What was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The run in the store.
    pub run: i64,
    /// What it decided, if anything.
    pub decided: Option<Config>,
    /// Why, in words.
    pub verdict: String,
}

impl Finding {
    /// What to decide, if anything, and why.
    pub fn conclude(&self) -> (Option<Config>, String) {
        let default = || Some(self.default.clone());
        if self.proposed == self.default {
            return (default(), "the default stays: nothing was faster".to_owned());
        }
        let percent = |share: f64| format!("{:.2} %", 100.0 * share.abs());
        let Judgement { verdict, difference, low, high, .. } = self.judgement();
        match verdict {
            Verdict::Better(Side::B) => {
                let (by, from, to) = (percent(difference), percent(high), percent(low));
                (Some(self.proposed.clone()), format!("better than the default: {by} faster (from {from} to {to})"))
            }
            Verdict::Better(Side::A) => (default(), "the default stays: what was proposed is slower".to_owned()),
            Verdict::Same => (default(), "the default stays: what was proposed is the same".to_owned()),
            Verdict::CannotTell(_) => (None, format!("nothing is decided: {verdict}")),
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
            parts: Vec::new(),
        };
        let mut all: Vec<Observation> = self.samples.iter().map(|(config, samples)| times(config, samples)).collect();
        for block in self.comparison.iter().flat_map(|comparison| &comparison.blocks) {
            all.extend([times(&self.default, &block.a), times(&self.proposed, &block.b)]);
        }
        all.retain(|observation| observation.launches > 0);
        all.extend(self.failed.iter().map(|(config, failure)| {
            let outcome = Outcome::Failed(failure.clone());
            Observation { config: config.clone(), launches: 1, outcome, took_ms: 0.0, parts: Vec::new() }
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
        match &evidence {
            Some(evidence) => self.decide(run, evidence)?,
            None => self.end(run)?,
        }
        Ok(Some(Kept { run: id, decided: evidence.map(|evidence| evidence.chosen.config), verdict }))
    }
}
