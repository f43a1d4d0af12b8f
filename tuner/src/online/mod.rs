//! Tunes during real work, after HOOMD-blue's autotuner.
//!
//! Each kernel has a [`Tuner`], each thread that launches it a [`Worker`]:
//!
//! ```
//! # use tuner::{Config, Value, online::{Elapsed, Options, Tuner, grid}};
//! let configs = grid(&[("block", vec![Value::Int(64), Value::Int(128), Value::Int(256)])], |_| true)?;
//! let tuner = Tuner::new(configs, 0, Options::default())?;
//! let mut worker = tuner.worker::<Elapsed>();
//! while !tuner.is_complete() {
//!     let config = worker.begin();
//!     // … launch with `config`, and time it, here with a time that is made up:
//!     let time = if config.0 == [Value::Int(128)] { 1.0 } else { 2.0 };
//!     worker.end(Elapsed(time));
//! }
//! assert_eq!(tuner.best(), Config(vec![Value::Int(128)]));
//! # Ok::<(), tuner::online::OnlineError>(())
//! ```
//!
//! A launch waits neither for another worker's lock nor for an event: a worker that finds the tuner busy launches the
//! best known configuration, untimed.

mod scan;
mod worker;

pub use worker::{Elapsed, Event, Progress, Worker};

use super::{Config, Failure, Value};
use scan::Scan;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Reason of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    First,
    /// The times of the configuration in use moved.
    Drift,
    /// The period of launches or time was over.
    Period,
}

/// Settings of an on-line tuner.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Samples of each configuration (M), of which the median counts. Default 5.
    pub samples: usize,
    /// Samples of a round of the run-off between the most promising configurations; 0 for none, as in HOOMD-blue.
    /// Default 10.
    pub run_off: usize,
    /// Share of launches, and of their time, that may explore after the first tuning, except after drift. Default
    /// 0.002.
    pub explore_share: f64,
    /// Launches after which every configuration is sampled again; `None` for never. Default one million.
    pub rescan_after: Option<u64>,
    /// Time after which every configuration is sampled again; `None` for never. Default five minutes.
    pub rescan_every: Option<Duration>,
    /// Seed of the orders.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            samples: 5,
            run_off: 10,
            explore_share: 0.002,
            rescan_after: Some(1_000_000),
            rescan_every: Some(Duration::from_mins(5)),
            seed: 1,
        }
    }
}

/// Counters of an on-line tuner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Launches with a configuration of the tuner.
    pub launches: u64,
    /// Launches that explored: their configuration was not the one in use.
    pub explored: u64,
    /// Launches that explored after the first tuning.
    pub explored_after: u64,
    /// Launch that completed the first tuning; 0 before.
    pub first_tuning: u64,
    /// Scans started.
    pub scans: u64,
    /// Scans because of drift.
    pub drifts: u64,
    /// Scans after the first that changed the configuration in use.
    pub changes: u64,
}

/// Result of an on-line tuner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Configuration in use.
    pub config: Config,
    /// Samples of the configuration in use, in ms for a unit of work.
    pub samples: Vec<f64>,
    /// Samples of other configurations.
    pub others: Vec<(Config, Vec<f64>)>,
    /// Configurations that failed.
    pub failed: Vec<(Config, Failure)>,
    /// Counters at the time of the report.
    pub counters: Counters,
}

/// Error of a request to an on-line tuner, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OnlineError(String);

fn too_many(configs: usize) -> OnlineError {
    let why = "are too many for an on-line tuner";
    OnlineError(format!("{configs} or more configurations {why} (at most {MOST}); search off-line first"))
}

fn none_valid() -> OnlineError {
    OnlineError("no configuration is valid".to_owned())
}

/// Most configurations of a tuner: with five sweeps and 10 µs a launch, three seconds of real work.
pub const MOST: usize = 1 << 16;

/// Lists the valid combinations of the dimensions' values, the last dimension varying fastest.
///
/// # Errors
/// If none is valid, or there are more than [`MOST`] combinations, valid or not.
pub fn grid(dimensions: &[(&str, Vec<Value>)], valid: impl Fn(&Config) -> bool) -> Result<Vec<Config>, OnlineError> {
    let all = dimensions.iter().try_fold(1_usize, |n, (_, values)| n.checked_mul(values.len())).unwrap_or(usize::MAX);
    if all > MOST {
        return Err(too_many(all));
    }
    let mut configs = vec![Config(Vec::new())];
    for (_, values) in dimensions {
        let longer = |config: &Config, value: &Value| Config(config.0.iter().cloned().chain([value.clone()]).collect());
        configs = configs.iter().flat_map(|config| values.iter().map(move |value| longer(config, value))).collect();
    }
    configs.retain(valid);
    if configs.is_empty() { Err(none_valid()) } else { Ok(configs) }
}

struct Shared {
    configs: Vec<Config>,
    default: usize,
    begun: Instant,
    scan: Mutex<Scan>,
    /// Configuration in use, for workers that find the tuner busy.
    current: AtomicUsize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Scan> {
        self.scan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tuner of one kernel. Clones share its state.
#[derive(Clone)]
pub struct Tuner {
    shared: Arc<Shared>,
}

impl Tuner {
    /// Makes a tuner that chooses among `configs`, and begins with number `default`.
    ///
    /// # Errors
    /// If the list is empty or too long, or the default is not in it.
    pub fn new(configs: Vec<Config>, default: usize, options: Options) -> Result<Self, OnlineError> {
        match configs.len() {
            0 => return Err(none_valid()),
            n if n > MOST => return Err(too_many(n)),
            n if default >= n => {
                return Err(OnlineError(format!("the default is number {default} of {n} configurations")));
            }
            _ => {}
        }
        let scan = Mutex::new(Scan::new(configs.len(), default, options));
        let (begun, current) = (Instant::now(), AtomicUsize::new(default));
        Ok(Self { shared: Arc::new(Shared { configs, default, begun, scan, current }) })
    }

    /// Returns the configuration in use.
    pub fn best(&self) -> Config {
        let current = self.shared.lock().current();
        self.shared.configs[current].clone()
    }

    /// Returns the default.
    pub fn default_config(&self) -> &Config {
        &self.shared.configs[self.shared.default]
    }

    /// Returns true once the first tuning is complete.
    pub fn is_complete(&self) -> bool {
        self.shared.lock().is_complete()
    }

    /// Returns true if a scan is going on.
    pub fn is_scanning(&self) -> bool {
        self.shared.lock().is_scanning()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters
    }

    /// Uses `config` as if the first tuning had found it.
    ///
    /// # Errors
    /// If the configuration is not one of this tuner, or failed before.
    pub fn set(&self, config: &Config) -> Result<(), OnlineError> {
        self.change(config, Scan::set)
    }

    /// Uses `config` during the first tuning, which may find another.
    ///
    /// # Errors
    /// If the configuration is not one of this tuner, or failed before.
    pub fn prefer(&self, config: &Config) -> Result<(), OnlineError> {
        self.change(config, Scan::prefer)
    }

    /// Returns the result; `None` before the first tuning is complete.
    pub fn report(&self) -> Option<Report> {
        let scan = self.shared.lock();
        let current = scan.current();
        let configs = &self.shared.configs;
        scan.is_complete().then(|| Report {
            config: configs[current].clone(),
            samples: scan.samples(current),
            others: (0..configs.len())
                .filter(|i| *i != current)
                .map(|i| (configs[i].clone(), scan.samples(i)))
                .filter(|(_, samples)| !samples.is_empty())
                .collect(),
            failed: (0..configs.len()).filter_map(|i| Some((configs[i].clone(), scan.failure(i)?.clone()))).collect(),
            counters: scan.counters,
        })
    }

    fn change(&self, config: &Config, change: impl FnOnce(&mut Scan, usize)) -> Result<(), OnlineError> {
        let index = self.shared.configs.iter().position(|known| known == config);
        let index = index.ok_or_else(|| OnlineError(format!("{config:?} is not a configuration of this tuner")))?;
        let mut scan = self.shared.lock();
        if let Some(failure) = scan.failure(index) {
            return Err(OnlineError(format!("{config:?} failed before: {}", failure.message)));
        }
        change(&mut scan, index);
        self.shared.current.store(scan.current(), Relaxed);
        Ok(())
    }
}
