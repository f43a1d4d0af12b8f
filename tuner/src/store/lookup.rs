//! Lookup of decisions.
//!
//! A decision must have the same tunable (name, version and code hash) and workload (all keys and
//! the place) as the request. The decision that differs least comes first. A different driver
//! counts least, then a different runtime or platform, then another device, then another compute
//! capability. Among equals the newest comes first.
//!
//! For example, a cluster has the same GPU with two drivers. A decision made under driver 550
//! answers a request under driver 560 when the nearest match is allowed, with the remark "driver
//! 550 instead of 560". A decision for another workload never answers: the best block size for 1000
//! rows says little about a million.

use std::path::PathBuf;

use rusqlite::params;

use super::contents::ParameterRow;
use super::{DeviceIdentity, Evidence, Store, StoreError, Task, json_of};
use crate::space::Space;
use crate::{Config, Value};

/// Lists the differences between two devices in words, each with its weight, from 1 (driver) to 4
/// (compute capability).
fn differences(stored: &DeviceIdentity, here: &DeviceIdentity) -> Vec<(u8, String)> {
    let card = |device: &DeviceIdentity, other: &DeviceIdentity| {
        let same_name = device.name == other.name;
        if same_name {
            format!("{} ({} SMs)", device.name, device.sm_count)
        } else {
            device.name.clone()
        }
    };
    let both = |of: fn(&DeviceIdentity) -> &String| [of(stored).clone(), of(here).clone()];
    let all = [
        (1, "driver", both(|device| &device.driver)),
        (2, "runtime", both(|device| &device.runtime)),
        (2, "platform", both(|device| &device.platform)),
        (3, "device", [card(stored, here), card(here, stored)]),
        (
            4,
            "compute capability",
            both(|device| &device.compute_capability),
        ),
    ];
    let word = |text: String| {
        if text.is_empty() {
            "unknown".to_owned()
        } else {
            text
        }
    };
    let differ = all
        .into_iter()
        .filter(|(_, _, [stored, here])| stored != here);
    differ
        .map(|(step, what, [stored, here])| {
            (
                step,
                format!("{what} {} instead of {}", word(stored), word(here)),
            )
        })
        .collect()
}

/// Stored configuration that answers a lookup.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Configuration, in the order of the requested space.
    pub config: Config,
    /// Differences from the request in words, each with its weight.
    pub relaxed: Vec<(u8, String)>,
    /// Number of the run that decided.
    pub run: i64,
    /// Reasons for the decision; configurations in it are in the order of the stored space.
    pub evidence: Box<Evidence>,
    /// Device that the configuration was measured on.
    pub device: DeviceIdentity,
    /// Time of the decision (UTC).
    pub at: String,
    /// Store that has the run.
    pub file: PathBuf,
}

impl Found {
    /// Returns the weight of the largest difference; 0 for an exact match.
    pub fn step(&self) -> u8 {
        self.relaxed
            .iter()
            .map(|(step, _)| *step)
            .max()
            .unwrap_or(0)
    }

    /// Describes the origin and the differences.
    pub fn in_words(&self) -> String {
        let relaxed = self
            .relaxed
            .iter()
            .map(|(_, words)| words.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let of = if relaxed.is_empty() {
            String::new()
        } else {
            format!(", for {relaxed}")
        };
        let day = self.at.get(..10).unwrap_or(&self.at);
        format!(
            "tuned {day} (run {} of {}){of}",
            self.run,
            self.file.display()
        )
    }
}

impl Store {
    /// Finds the decisions for `task`, the closest match first; see the module's text. Leaves out
    /// configurations that the task's space does not have.
    ///
    /// # Errors
    /// If the store cannot be read, or a row is malformed.
    pub fn find(&self, task: &Task<'_>) -> Result<Vec<Found>, StoreError> {
        let records = self.heads(
            "WHERE evidence IS NOT NULL AND tunable = ?1 AND workload = ?2 ORDER BY ended DESC",
            params![json_of(task.tunable)?, json_of(task.workload)?],
        )?;
        let mut found = Vec::new();
        for record in records {
            let Some(evidence) = record.decision else {
                continue;
            };
            let relaxed = differences(&record.device, task.device);
            if let Some(config) = in_space(
                &record.space.parameters,
                &evidence.chosen.config,
                task.space,
            ) {
                found.push(Found {
                    config,
                    relaxed,
                    run: record.run,
                    evidence: Box::new(evidence),
                    device: record.device,
                    at: record.finished.unwrap_or_default(),
                    file: self.file.clone(),
                });
            }
        }
        // The rows come newest first; the stable sort keeps that order among equals.
        found.sort_by_key(|found| (found.step(), found.relaxed.len()));
        Ok(found)
    }
}

/// Puts the values of a stored configuration into the order of `space`; `None` if `space` does not
/// have it.
fn in_space(parameters: &[ParameterRow], config: &Config, space: &Space) -> Option<Config> {
    let mut named: Vec<(&String, &Value)> = parameters
        .iter()
        .map(|(name, _)| name)
        .zip(&config.0)
        .collect();
    let mut config = Vec::with_capacity(named.len());
    for parameter in space.parameters() {
        let place = named
            .iter()
            .position(|(name, _)| *name == parameter.name())?;
        config.push(named.swap_remove(place).1.clone());
    }
    let config = Config(config);
    (named.is_empty() && space.index_of(&config).is_some()).then_some(config)
}
