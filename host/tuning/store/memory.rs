//! The stores as an on-line tuner's memory.
//!
//! A tuner starts from what matches best: a pin is used and nothing else is tried; what matches in everything is used at
//! once; what matches nearly is used while the first scan checks it. What a tuner found is kept as a run with all its
//! samples. A decision, which every later lookup would find, needs evidence: a comparison with the default
//! ([`StoreMemory::confirm`]), else the tuner's own samples, judged as such. Where these cannot tell, the run keeps its
//! samples and decides nothing.

use std::time::Duration;

use super::{Contender, Evidence, Found, Layers, Locations, Observation, Origin, Plan, Store, Task};
use crate::tuning::compare::Comparison;
use crate::tuning::online::{Memory, Recalled, Report};
use crate::tuning::session::of_samples;
use crate::tuning::verdict::{Rules, Side, Verdict, judge_apart};
use crate::tuning::{Config, Outcome};

/// How long another process' lock is waited for: real work has been done and must not wait long to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was kept of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The run in the store.
    pub run: i64,
    /// What it decided, if anything.
    pub decided: Option<Config>,
    /// Why, in words.
    pub verdict: String,
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
    /// The memory for `task`, whose space has all configurations of the tuner. Nothing is opened yet.
    pub const fn new(locations: Locations, task: Task<'a>, default: Config) -> Self {
        Self { locations, task, default, comparison: None, found: None, kept: None }
    }

    /// What the tuner started from.
    pub const fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// What was kept.
    pub const fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }

    /// Takes a comparison of the default (A) with what the tuner chose (B): it alone decides what is kept.
    pub fn confirm(&mut self, comparison: Comparison) {
        self.comparison = Some(comparison);
    }

    /// What to decide, and why.
    fn conclude(&self, report: &Report) -> (Option<Config>, String) {
        if report.config == self.default {
            return (Some(self.default.clone()), "the default stays: nothing was faster on-line".to_owned());
        }
        let judgement = match &self.comparison {
            Some(comparison) => comparison.judgement.clone(),
            None => {
                let singly = |samples: &[f64]| samples.iter().map(|sample| vec![*sample]).collect::<Vec<_>>();
                let default = report.others.iter().find(|(config, _)| *config == self.default);
                let default = default.map(|(_, samples)| singly(samples)).unwrap_or_default();
                let chosen = singly(&report.samples);
                let rules = Rules::default().fixed(default.len().min(chosen.len()));
                judge_apart(&default, &chosen, &rules)
            }
        };
        let percent = |share: f64| format!("{:.2} %", 100.0 * share.abs());
        match judgement.verdict {
            Verdict::Better(Side::B) => {
                let (by, from, to) = (percent(judgement.difference), percent(judgement.high), percent(judgement.low));
                (Some(report.config.clone()), format!("better than the default: {by} faster (from {from} to {to})"))
            }
            Verdict::Better(Side::A) => {
                (Some(self.default.clone()), "the default stays: what was chosen on-line is slower".to_owned())
            }
            Verdict::Same => {
                (Some(self.default.clone()), "the default stays: what was chosen on-line is the same".to_owned())
            }
            undecided @ Verdict::CannotTell(_) => (None, format!("nothing is decided: {undecided}")),
        }
    }

    fn observations(&self, report: &Report) -> Vec<Observation> {
        let times = |config: &Config, samples: &[f64]| Observation {
            config: config.clone(),
            launches: samples.len(),
            outcome: Outcome::Times(samples.to_vec()),
            took_ms: samples.iter().sum(),
        };
        let mut all = Vec::new();
        for (config, samples) in std::iter::once((&report.config, &report.samples))
            .chain(report.others.iter().map(|(config, samples)| (config, samples)))
        {
            if !samples.is_empty() {
                all.push(times(config, samples));
            }
        }
        for (config, failure) in &report.failed {
            let outcome = Outcome::Failed(failure.clone());
            all.push(Observation { config: config.clone(), launches: 1, outcome, took_ms: 0.0 });
        }
        for block in self.comparison.iter().flat_map(|comparison| &comparison.blocks) {
            let sides = [(&self.default, &block.a), (&report.config, &block.b)];
            all.extend(sides.iter().filter(|(_, times)| !times.is_empty()).map(|(config, of)| times(config, of)));
        }
        all
    }

    /// A configuration with all samples in the comparison, else with those of the tuner.
    fn contender(&self, report: &Report, config: &Config) -> Option<Contender> {
        let of_tuner = || {
            let others = report.others.iter().map(|(config, samples)| (config, samples));
            let mut known = std::iter::once((&report.config, &report.samples)).chain(others);
            known.find(|(other, _)| *other == config).map(|(_, samples)| samples.clone())
        };
        let compared = self.comparison.as_ref().map(|comparison| {
            let default = *config == self.default;
            let side = comparison.blocks.iter().flat_map(|block| if default { &block.a } else { &block.b });
            side.copied().collect::<Vec<f64>>()
        });
        let finalist = *config == self.default || *config == report.config;
        let samples = compared.filter(|samples| finalist && !samples.is_empty()).or_else(of_tuner)?;
        (!samples.is_empty()).then(|| of_samples(config, &samples))
    }
}

impl Memory for StoreMemory<'_> {
    fn recall(&mut self) -> Result<Option<Recalled>, Box<dyn std::error::Error + Send + Sync>> {
        let found = Layers::open(self.locations.clone())?.find(&self.task)?.into_iter().next();
        self.found.clone_from(&found);
        Ok(found.map(|found| match &found.origin {
            Origin::Pinned { .. } => Recalled::Pinned(found.config),
            Origin::Decided { .. } if found.step() == 0 => Recalled::Exact(found.config),
            Origin::Decided { .. } => {
                let relaxed: Vec<String> = found.relaxed.iter().map(ToString::to_string).collect();
                Recalled::Nearest { config: found.config, relaxed: relaxed.join(", ") }
            }
        }))
    }

    /// Keeps `report` as a run. A report without samples, of a tuner that only used what it had recalled, is none; unless
    /// it was compared with the default.
    fn keep(&mut self, report: &Report) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let observations = self.observations(report);
        let (decided, verdict) = self.conclude(report);
        let chosen = decided.as_ref().and_then(|config| self.contender(report, config));
        let tried = report.others.len() + report.failed.len() + usize::from(!report.samples.is_empty());
        if observations.is_empty() {
            return Ok(());
        }
        let rivals =
            report.others.iter().filter(|(config, _)| *config != self.default && Some(config) != decided.as_ref());
        let runner_up = rivals.filter_map(|(config, _)| self.contender(report, config));
        let evidence = chosen.map(|chosen| Evidence {
            chosen,
            default: self.contender(report, &self.default),
            runner_up: runner_up.min_by(|a, b| a.time_ms.total_cmp(&b.time_ms)),
            tried,
            failed: report.failed.len(),
            valid: self.task.space.len(),
            launches: report.counters.launches as usize,
            stopped: "the work ended".to_owned(),
            expected_gain: None,
            verdict: verdict.clone(),
        });
        let mut store = Store::open_waiting(&self.locations.user, PATIENCE)?;
        let plan = Plan {
            strategy: "on-line".to_owned(),
            seed: 0,
            budget: format!("{} launches of real work", report.counters.launches),
        };
        let mut run = store.begin(&self.task, &plan)?;
        for observation in &observations {
            store.record(&mut run, observation)?;
        }
        let id = run.id();
        match &evidence {
            Some(evidence) => store.decide(run, evidence)?,
            None => store.end(run)?,
        }
        self.kept = Some(Kept { run: id, decided: evidence.map(|evidence| evidence.chosen.config), verdict });
        Ok(())
    }
}
