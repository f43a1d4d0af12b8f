//! The stores as an on-line tuner's memory.
//!
//! A tuner starts from what matches best: a pin is used and nothing else is tried; what matches in everything is used at
//! once; what matches nearly is used while the first scan checks it. What it found is kept as a run with all its samples,
//! and as a decision where there is evidence for it ([`Finding`]).

use std::time::Duration;

use super::finding::{Finding, Kept};
use super::{Found, Layers, Locations, Origin, Plan, Store, Task};
use crate::Config;
use crate::compare::Comparison;
use crate::online::{Memory, Recalled, Report};

/// How long another process' lock is waited for: real work has been done and must not wait long to end.
const PATIENCE: Duration = Duration::from_secs(2);

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

    /// Keeps `report` as a run. That of a tuner that only used what it had recalled has no samples and is not kept,
    /// unless there is a comparison.
    fn keep(&mut self, report: &Report) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let chosen = [(report.config.clone(), report.samples.clone())];
        let known = chosen.into_iter().chain(report.others.iter().cloned());
        let finding = Finding {
            plan: Plan {
                strategy: "on-line".to_owned(),
                seed: 0,
                budget: format!("{} launches of real work", report.counters.launches),
            },
            default: self.default.clone(),
            proposed: report.config.clone(),
            samples: known.collect(),
            failed: report.failed.clone(),
            comparison: self.comparison.clone(),
            launches: report.counters.launches as usize,
            stopped: "the work ended".to_owned(),
        };
        let mut store = Store::open_waiting(&self.locations.user, PATIENCE)?;
        self.kept = store.keep(&self.task, &finding)?;
        Ok(())
    }
}
