//! What a search may begin with: configurations that were good on a sibling.
//!
//! A sibling is a run of the same tunable thing and workload that decided something on another device, or here under
//! another driver or runtime. The best configuration of another device is often slow here, or does not launch; but on
//! devices that are close, one of its five best is near the optimum here, and trying five costs a search little.

use super::lookup::{Found, Origin, in_space};
use super::{Layers, Matching, Store, StoreError, Task};
use crate::strategy::search_time;
use crate::{Config, Outcome};

/// Configurations that are enough to begin with.
const SEEDS: usize = 5;

/// Seeds, and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Seeds {
    /// The configurations, the fastest there first, in the order of the task's space.
    pub configs: Vec<Config>,
    /// The sibling's decision.
    pub sibling: Found,
}

impl Store {
    /// The configurations of a run that worked, the fastest first, as far as the task's space has them.
    fn fastest(&self, run: i64, task: &Task<'_>) -> Result<Vec<Config>, StoreError> {
        let record = self.run_record(run)?;
        let mut times: Vec<(Config, Vec<f64>)> = Vec::new();
        let mut failed = Vec::new();
        for measurement in record.measurements {
            match measurement.outcome {
                Outcome::Times(more) => match times.iter_mut().find(|(config, _)| *config == measurement.config) {
                    Some((_, times)) => times.extend(more),
                    None => times.push((measurement.config, more)),
                },
                Outcome::Failed(_) => failed.push(measurement.config),
            }
        }
        times.retain(|(config, _)| !failed.contains(config));
        let timed =
            times.into_iter().filter_map(|(config, times)| Some((search_time(&Outcome::Times(times))?, config)));
        let mut timed: Vec<(f64, Config)> = timed.collect();
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(timed.into_iter().filter_map(|(_, config)| in_space(&record.space.parameters, config, task.space)).collect())
    }
}

impl Layers {
    /// The five best configurations of the nearest sibling; `None` without one. Results of this very device are no
    /// seeds: a search is to find again what it found before.
    ///
    /// # Errors
    /// Those of reading; rows that cannot be understood.
    pub fn seeds(&self, task: &Task<'_>) -> Result<Option<Seeds>, StoreError> {
        let mut siblings: Vec<(Found, &Store)> = Vec::new();
        for store in self.stores() {
            siblings.extend(store.find(task, Matching::Nearest)?.into_iter().map(|found| (found, store)));
        }
        siblings.retain(|(found, _)| found.step() > 0);
        siblings.sort_by_key(|(found, _)| found.rank());
        for (sibling, store) in siblings {
            let Origin::Decided { run, .. } = sibling.origin else { continue };
            let mut configs = store.fastest(run, task)?;
            configs.truncate(SEEDS);
            if !configs.is_empty() {
                return Ok(Some(Seeds { configs, sibling }));
            }
        }
        Ok(None)
    }
}
