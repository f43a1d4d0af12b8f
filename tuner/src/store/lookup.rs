//! Finding what was tuned.
//!
//! A lookup asks for a tunable thing (name, version and code hash: all must be the same), a workload (all keys and the
//! place) and a device. [`Matching::Exact`] wants the same device name, compute capability, SM count, driver, runtime
//! and platform. [`Matching::Nearest`] relaxes, in this order, until something is there:
//!
//! 1. the driver;
//! 2. the runtime and the platform;
//! 3. the device, within the same compute capability;
//! 4. the device, any.
//!
//! Every step keeps what the steps before it gave up, and prefers, among what it finds, fewer differences, then the
//! newer result. What was relaxed is said ([`Relaxed`]): a configuration that is good elsewhere may be slow here, or
//! not launch at all.
//!
//! What a person has pinned for this device (whatever its driver and runtime) comes before everything that was
//! measured.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use rusqlite::params;

use super::rows::{ParameterRow, json_of};
use super::{DeviceIdentity, Evidence, Store, StoreError, Task};
use crate::space::Space;
use crate::{Config, Value};

/// How alike a stored result must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Matching {
    /// In everything.
    Exact,
    /// As far as possible.
    #[default]
    Nearest,
}

impl FromStr for Matching {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "exact" => Ok(Self::Exact),
            "nearest" => Ok(Self::Nearest),
            other => Err(format!("{other:?} is neither \"exact\" nor \"nearest\"")),
        }
    }
}

/// One thing in which a found result differs from the request: what it has, and what is here.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "relaxed")]
pub enum Relaxed {
    /// Another driver.
    Driver {
        /// The result's.
        stored: String,
        /// This one.
        here: String,
    },
    /// Another runtime.
    Runtime {
        /// The result's.
        stored: String,
        /// This one.
        here: String,
    },
    /// Another platform.
    Platform {
        /// The result's.
        stored: String,
        /// This one.
        here: String,
    },
    /// Another device of the same compute capability (or as many multiprocessors more or fewer).
    Device {
        /// The result's.
        stored: String,
        /// This one.
        here: String,
    },
    /// A device of another compute capability.
    ComputeCapability {
        /// The result's.
        stored: String,
        /// This one.
        here: String,
    },
}

impl Relaxed {
    /// The step of the order that allows it, from 1.
    pub fn step(&self) -> u8 {
        match self {
            Self::Driver { .. } => 1,
            Self::Runtime { .. } | Self::Platform { .. } => 2,
            Self::Device { .. } => 3,
            Self::ComputeCapability { .. } => 4,
        }
    }
}

impl fmt::Display for Relaxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, stored, here) = match self {
            Self::Driver { stored, here } => ("driver", stored, here),
            Self::Runtime { stored, here } => ("runtime", stored, here),
            Self::Platform { stored, here } => ("platform", stored, here),
            Self::Device { stored, here } => ("device", stored, here),
            Self::ComputeCapability { stored, here } => ("compute capability", stored, here),
        };
        let word = |text: &String| if text.is_empty() { "unknown".to_owned() } else { text.clone() };
        write!(f, "{what} {} instead of {}", word(stored), word(here))
    }
}

/// In what `stored` differs from `here`, in the order of the steps.
pub fn differences(stored: &DeviceIdentity, here: &DeviceIdentity) -> Vec<Relaxed> {
    let mut found = Vec::new();
    let both = |a: &String, b: &String| (a.clone(), b.clone());
    if stored.driver != here.driver {
        let (stored, here) = both(&stored.driver, &here.driver);
        found.push(Relaxed::Driver { stored, here });
    }
    if stored.runtime != here.runtime {
        let (stored, here) = both(&stored.runtime, &here.runtime);
        found.push(Relaxed::Runtime { stored, here });
    }
    if stored.platform != here.platform {
        let (stored, here) = both(&stored.platform, &here.platform);
        found.push(Relaxed::Platform { stored, here });
    }
    if (&stored.name, stored.sm_count) != (&here.name, here.sm_count) {
        let describe = |device: &DeviceIdentity, other: &DeviceIdentity| {
            if device.name == other.name {
                format!("{} ({} SMs)", device.name, device.sm_count)
            } else {
                device.name.clone()
            }
        };
        found.push(Relaxed::Device { stored: describe(stored, here), here: describe(here, stored) });
    }
    if stored.compute_capability != here.compute_capability {
        let (stored, here) = both(&stored.compute_capability, &here.compute_capability);
        found.push(Relaxed::ComputeCapability { stored, here });
    }
    found
}

/// Where a found configuration comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A person fixed it.
    Pinned {
        /// Why.
        reason: String,
    },
    /// A run decided for it.
    Decided {
        /// The run's number.
        run: i64,
        /// Why.
        evidence: Box<Evidence>,
    },
}

/// A stored configuration that answers a lookup.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The configuration, in the order of the asked space.
    pub config: Config,
    /// How it differs from the request; empty if it does not.
    pub relaxed: Vec<Relaxed>,
    /// Where it comes from.
    pub origin: Origin,
    /// The device that it was measured on or pinned for.
    pub device: DeviceIdentity,
    /// When.
    pub at: String,
    /// The store that it is in.
    pub file: PathBuf,
}

impl Found {
    /// The last step of the relaxation that it needed; 0 for an exact match.
    pub fn step(&self) -> u8 {
        self.relaxed.iter().map(Relaxed::step).max().unwrap_or(0)
    }

    /// Where it comes from, in words.
    pub fn in_words(&self) -> String {
        match &self.origin {
            Origin::Pinned { reason } => format!("pinned ({reason})"),
            Origin::Decided { run, .. } => {
                let relaxed: Vec<String> = self.relaxed.iter().map(ToString::to_string).collect();
                let of = if relaxed.is_empty() { String::new() } else { format!(", for {}", relaxed.join(", ")) };
                let day = self.at.get(..10).unwrap_or(&self.at);
                format!("tuned {day} (run {run} of {}){of}", self.file.display())
            }
        }
    }

    /// The order in which results are preferred: pins, then fewer steps, then fewer differences.
    pub(super) fn rank(&self) -> (bool, u8, usize) {
        (!matches!(self.origin, Origin::Pinned { .. }), self.step(), self.relaxed.len())
    }
}

impl Store {
    /// All that answers, best first; see the module's text. Configurations that the task's space does not have (any
    /// more) are left out.
    ///
    /// # Errors
    /// Those of reading; rows that cannot be understood.
    pub fn find(&self, task: &Task<'_>, matching: Matching) -> Result<Vec<Found>, StoreError> {
        let mut found = self.pinned(task)?;
        let decisions = self.decided(task)?.into_iter();
        found.extend(decisions.filter(|found| matching == Matching::Nearest || found.relaxed.is_empty()));
        // The rows come newest first, and the sort keeps that among equals.
        found.sort_by_key(Found::rank);
        Ok(found)
    }

    fn decided(&self, task: &Task<'_>) -> Result<Vec<Found>, StoreError> {
        let rows = self.candidates(
            "SELECT runs.id, evidence, decisions.at, value, parameters,
                    devices.name, uuid, compute_capability, sm_count, driver, runtime, platform
             FROM decisions JOIN runs ON runs.id = run_id
             JOIN configurations ON configurations.id = decisions.configuration_id
             JOIN devices ON devices.id = device_id JOIN tunables ON tunables.id = tunable_id
             JOIN spaces ON spaces.id = configurations.space_id JOIN workloads ON workloads.id = workload_id
             WHERE tunables.name = ?1 AND version = ?2 AND kernel_hash = ?3 AND keys = ?4 AND place = ?5
             ORDER BY decisions.at DESC, decisions.id DESC",
            task,
        )?;
        let mut found = Vec::new();
        for Candidate { number, text, at, values, parameters, device } in rows {
            let wrong = |error: serde_json::Error| self.bad_row(format!("decision of run {number}"), &error);
            let evidence: Evidence = serde_json::from_str(&text).map_err(wrong)?;
            let parameters: Vec<ParameterRow> = serde_json::from_str(&parameters).map_err(wrong)?;
            let values: Config = serde_json::from_str(&values).map_err(wrong)?;
            if let Some(config) = in_space(&parameters, values, task.space) {
                let relaxed = differences(&device, task.device);
                let origin = Origin::Decided { run: number, evidence: Box::new(evidence) };
                found.push(Found { config, relaxed, origin, device, at, file: self.file.clone() });
            }
        }
        Ok(found)
    }

    fn pinned(&self, task: &Task<'_>) -> Result<Vec<Found>, StoreError> {
        let rows = self.candidates(
            "SELECT pins.id, reason, pins.at, value, parameters,
                    devices.name, uuid, compute_capability, sm_count, driver, runtime, platform
             FROM pins JOIN configurations ON configurations.id = configuration_id
             JOIN devices ON devices.id = device_id JOIN tunables ON tunables.id = tunable_id
             JOIN spaces ON spaces.id = configurations.space_id JOIN workloads ON workloads.id = workload_id
             WHERE tunables.name = ?1 AND version = ?2 AND kernel_hash = ?3 AND keys = ?4 AND place = ?5
             ORDER BY pins.at DESC, pins.id DESC",
            task,
        )?;
        let mut found = Vec::new();
        for Candidate { number, text, at, values, parameters, device } in rows {
            let wrong = |error: serde_json::Error| self.bad_row(format!("pin {number}"), &error);
            let parameters: Vec<ParameterRow> = serde_json::from_str(&parameters).map_err(wrong)?;
            let values: Config = serde_json::from_str(&values).map_err(wrong)?;
            let relaxed = differences(&device, task.device);
            let of_this_device =
                relaxed.iter().all(|relaxed| matches!(relaxed, Relaxed::Driver { .. } | Relaxed::Runtime { .. }));
            if of_this_device && let Some(config) = in_space(&parameters, values, task.space) {
                let origin = Origin::Pinned { reason: text };
                found.push(Found { config, relaxed: Vec::new(), origin, device, at, file: self.file.clone() });
            }
        }
        Ok(found)
    }

    fn candidates(&self, query: &str, task: &Task<'_>) -> Result<Vec<Candidate>, StoreError> {
        let rows: rusqlite::Result<Vec<Candidate>> = (|| {
            let mut statement = self.connection.prepare_cached(query)?;
            let keys = json_of(task.workload.keys())?;
            let tunable = task.tunable;
            let values = params![tunable.name, tunable.version, tunable.kernel_hash, keys, task.workload.place()];
            let rows = statement.query_map(values, |row| {
                Ok(Candidate {
                    number: row.get(0)?,
                    text: row.get(1)?,
                    at: row.get(2)?,
                    values: row.get(3)?,
                    parameters: row.get(4)?,
                    device: device_of(row, 5)?,
                })
            })?;
            rows.collect()
        })();
        rows.map_err(|error| self.failure(error))
    }
}

/// A row of a decision or a pin.
struct Candidate {
    number: i64,
    text: String,
    at: String,
    values: String,
    parameters: String,
    device: DeviceIdentity,
}

/// The device from seven columns of a row, beginning with column `at`.
pub(super) fn device_of(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<DeviceIdentity> {
    Ok(DeviceIdentity {
        name: row.get(at)?,
        uuid: row.get(at + 1)?,
        compute_capability: row.get(at + 2)?,
        sm_count: row.get(at + 3)?,
        driver: row.get(at + 4)?,
        runtime: row.get(at + 5)?,
        platform: row.get(at + 6)?,
    })
}

/// The stored configuration with its values in the order of `space`; `None` if it is none of `space`.
pub(super) fn in_space(parameters: &[ParameterRow], values: Config, space: &Space) -> Option<Config> {
    let mut named: Vec<(&String, Value)> = parameters.iter().map(|(name, _)| name).zip(values.0).collect();
    let mut config = Vec::with_capacity(named.len());
    for parameter in space.parameters() {
        let place = named.iter().position(|(name, _)| *name == parameter.name())?;
        config.push(named.swap_remove(place).1);
    }
    let config = Config(config);
    (named.is_empty() && space.index_of(&config).is_some()).then_some(config)
}
