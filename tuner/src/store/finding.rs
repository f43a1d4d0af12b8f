//! Keeps results that were not found by a session: on-line, in groups, over workloads.
//!
//! All samples go into a run. A decision, which later lookups find, needs a comparison with the
//! default as evidence. Without one that can tell, the run keeps its samples and decides nothing.

use super::{Contender, Evidence, Observation, Plan, Store, StoreError, Task};
use crate::compare::Comparison;
use crate::objective::Objective;
use crate::online::Report;
use crate::verdict::{Side, Verdict};
use crate::{Config, Failure, Outcome};

/// Result of a tuning outside a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Strategy, seed and budget, which the store keeps with the run.
    pub plan: Plan,
    /// Configuration in use before the tuning.
    pub default: Config,
    /// Best configuration found; equal to `default` if nothing seemed better.
    pub proposed: Config,
    /// Samples in ms, by configuration.
    pub samples: Vec<(Config, Vec<f64>)>,
    /// Configurations that failed, with their failures.
    pub failed: Vec<(Config, Failure)>,
    /// Comparison of the default (A) with the proposed configuration (B).
    pub comparison: Option<Comparison>,
    /// Number of launches of real work, or of measurements of a chain, discarded ones included.
    pub launches: usize,
    /// Reason why the tuning ended.
    pub stopped: String,
}

/// Run that keeps a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Number of the run.
    pub run: i64,
    /// Configuration that the run decided for, if any.
    pub decided: Option<Config>,
    /// Reason, in words.
    pub verdict: String,
}

impl Finding {
    /// Makes a finding of an on-line tuner's report. A report without samples is kept only with a
    /// `comparison`.
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
            samples: chosen
                .into_iter()
                .chain(report.others.iter().cloned())
                .collect(),
            failed: report.failed.clone(),
            comparison,
            launches: report.counters.launches as usize,
            stopped: "the work ended".to_owned(),
        }
    }

    /// Returns the configuration to decide for, if any, and the reason.
    fn conclude(&self) -> (Option<Config>, String) {
        let default = |why: &str| {
            (
                Some(self.default.clone()),
                format!("the default stays: {why}"),
            )
        };
        if self.proposed == self.default {
            return default("nothing was faster");
        }
        let Some(comparison) = &self.comparison else {
            return (
                None,
                "nothing is decided: it was not compared with the default".to_owned(),
            );
        };
        match comparison.judgement.verdict {
            Verdict::Better(Side::B) => {
                let gain = comparison.judgement.gain(Objective::Time);
                (
                    Some(self.proposed.clone()),
                    format!("better than the default: {gain}"),
                )
            }
            Verdict::Better(Side::A) => default("the proposed configuration is slower"),
            Verdict::Same => default("the proposed configuration is the same"),
            verdict @ Verdict::CannotTell(_) => (None, format!("nothing is decided: {verdict}")),
        }
    }

    /// Lists the blocks of the comparison as samples of its two sides.
    fn compared(&self) -> Vec<(&Config, &Vec<f64>)> {
        let blocks = self
            .comparison
            .iter()
            .flat_map(|comparison| &comparison.blocks);
        blocks
            .flat_map(|block| [(&self.default, &block.a), (&self.proposed, &block.b)])
            .collect()
    }

    fn observations(&self) -> Vec<Observation> {
        let times = |(config, samples): (&Config, &Vec<f64>)| Observation {
            config: config.clone(),
            launches: samples.len(),
            outcome: Outcome::Times(samples.clone()),
            took_ms: samples.iter().sum(),
        };
        let samples = self
            .samples
            .iter()
            .map(|(config, samples)| times((config, samples)));
        let failed = self.failed.iter().map(|(config, failure)| {
            let outcome = Outcome::Failed(failure.clone());
            Observation {
                config: config.clone(),
                launches: 1,
                outcome,
                took_ms: 0.0,
            }
        });
        let all = samples
            .chain(failed)
            .chain(self.compared().into_iter().map(times));
        all.filter(|observation| observation.launches > 0).collect()
    }

    /// Estimates a configuration's time from the comparison's samples, else from the other samples.
    fn contender(&self, config: &Config) -> Option<Contender> {
        let of = |all: Vec<(&Config, &Vec<f64>)>| -> Vec<f64> {
            all.into_iter()
                .filter(|(other, _)| *other == config)
                .flat_map(|(_, samples)| samples.clone())
                .collect()
        };
        let mut samples = of(self.compared());
        if samples.is_empty() {
            samples = of(self
                .samples
                .iter()
                .map(|(config, samples)| (config, samples))
                .collect());
        }
        (!samples.is_empty()).then(|| Contender::of_samples(config, &samples))
    }

    fn evidence(&self, decided: &Config, verdict: &str, valid: usize) -> Option<Evidence> {
        let rivals = self.samples.iter().map(|(config, _)| config);
        let rivals = rivals.filter(|config| ![&self.default, decided].contains(config));
        Some(Evidence {
            chosen: self.contender(decided)?,
            default: self.contender(&self.default),
            runner_up: rivals
                .filter_map(|c| self.contender(c))
                .min_by(|a, b| a.time_ms.total_cmp(&b.time_ms)),
            tried: self.samples.len() + self.failed.len(),
            failed: self.failed.len(),
            valid,
            launches: self.launches,
            stopped: self.stopped.clone(),
            verdict: verdict.to_owned(),
            details: None,
        })
    }
}

impl Store {
    /// Keeps a finding as a run of `task`; `None` if it has no sample.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn keep(&mut self, task: &Task<'_>, finding: &Finding) -> Result<Option<Kept>, StoreError> {
        let observations = finding.observations();
        if observations.is_empty() {
            return Ok(None);
        }
        let (decided, verdict) = finding.conclude();
        let evidence =
            decided.and_then(|config| finding.evidence(&config, &verdict, task.space.len()));
        let id = self.keep_run(task, &finding.plan, &observations, evidence.as_ref())?;
        Ok(Some(Kept {
            run: id,
            decided: evidence.map(|evidence| evidence.chosen.config),
            verdict,
        }))
    }
}
