//! Choice of one parameter set for all workloads, or of one for each.
//!
//! A trigger sees pp at low and high rate and PbPb; the best set for one costs time on another. A
//! [`Matrix`] has the time of each set on each workload, as [`super::cost`] measures them.

use crate::{Config, Error};
use serde::{Deserialize, Serialize};

/// Times of parameter sets on workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Names of the workloads.
    pub workloads: Vec<String>,
    /// The sets.
    pub sets: Vec<Config>,
    /// `times[set][workload]` in ms; `None` where the set fails.
    pub times: Vec<Vec<Option<f64>>>,
}

impl Matrix {
    /// Checks shape and times.
    ///
    /// # Errors
    /// If the shape does not fit, a time is not positive, or no set runs on a workload.
    pub fn check(&self) -> Result<(), Error> {
        let (sets, workloads) = (self.sets.len(), self.workloads.len());
        if self.times.len() != sets || self.times.iter().any(|row| row.len() != workloads) {
            return Err(Error::request(format!(
                "expected {sets} rows of {workloads} times"
            )));
        }
        for (set, row) in self.times.iter().enumerate() {
            let wrong = row
                .iter()
                .position(|time| time.is_some_and(|time| !(time.is_finite() && time > 0.0)));
            if let Some(workload) = wrong {
                return Err(Error::request(format!(
                    "set {set} takes no positive time on {}",
                    self.workloads[workload]
                )));
            }
        }
        (0..workloads).try_for_each(|workload| self.best(workload).map(|_| ()))
    }

    /// Returns the best set for a workload, the first of several that are equally fast, and its
    /// time in ms.
    ///
    /// # Errors
    /// If no set runs on the workload.
    pub fn best(&self, workload: usize) -> Result<(usize, f64), Error> {
        let times = self
            .times
            .iter()
            .enumerate()
            .filter_map(|(set, row)| Some((set, row[workload]?)));
        let best = times.min_by(|a, b| a.1.total_cmp(&b.1));
        best.ok_or_else(|| Error::request(format!("no set runs on {}", self.workloads[workload])))
    }

    /// Returns the regret of `set` on each workload: its time beyond the best one there, relative;
    /// infinite if it fails.
    ///
    /// # Errors
    /// If no set runs on a workload.
    pub fn regrets(&self, set: usize) -> Result<Vec<f64>, Error> {
        (0..self.workloads.len())
            .map(|workload| {
                let (_, best) = self.best(workload)?;
                Ok(self.times[set][workload].map_or(f64::INFINITY, |time| time / best - 1.0))
            })
            .collect()
    }

    /// Returns the set with the smallest mean regret, and that mean; `weights` says how much each
    /// workload counts.
    ///
    /// # Errors
    /// If the matrix or a weight is wrong, or no set runs on all workloads whose weight is not 0.
    pub fn by_mean(&self, weights: &[f64]) -> Result<(usize, f64), Error> {
        let sum: f64 = weights.iter().sum();
        let bad = weights
            .iter()
            .any(|weight| !(weight.is_finite() && *weight >= 0.0));
        if weights.len() != self.workloads.len() || bad || sum <= 0.0 {
            let workloads = self.workloads.len();
            return Err(Error::request(format!(
                "expected {workloads} weights, none negative and not all 0"
            )));
        }
        // A weight of 0 forgives a failure, which 0 times infinity would not.
        self.one(|regrets| {
            let parts = regrets
                .iter()
                .zip(weights)
                .filter(|(_, weight)| **weight > 0.0);
            parts.map(|(regret, weight)| regret * weight / sum).sum()
        })
    }

    /// Returns the set whose largest regret is smallest, and that regret.
    ///
    /// # Errors
    /// If the matrix is wrong, or no set runs on all workloads.
    pub fn by_worst(&self) -> Result<(usize, f64), Error> {
        self.one(|regrets| regrets.iter().copied().fold(0.0, f64::max))
    }

    fn one(&self, cost: impl Fn(&[f64]) -> f64) -> Result<(usize, f64), Error> {
        self.check()?;
        let mut found: Option<(usize, f64)> = None;
        for set in 0..self.sets.len() {
            let cost = cost(&self.regrets(set)?);
            if cost.is_finite() && found.is_none_or(|(_, least)| cost < least) {
                found = Some((set, cost));
            }
        }
        found.ok_or_else(|| Error::request("no set runs on all workloads"))
    }

    /// Returns the number of the best set for each workload.
    ///
    /// # Errors
    /// If no set runs on a workload.
    pub fn of_workload(&self) -> Result<Vec<usize>, Error> {
        (0..self.workloads.len())
            .map(|workload| Ok(self.best(workload)?.0))
            .collect()
    }
}
