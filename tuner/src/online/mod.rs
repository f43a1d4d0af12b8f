//! Tuning during real work, after HOOMD-blue's autotuner.
//!
//! A [`Tuner`] for each kernel, a [`Worker`] for each thread that launches it:
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
//! The hot path takes no lock that another worker holds and waits for no event: a worker that comes at a bad moment
//! launches with the best that is known, untimed.

mod scan;
mod worker;

pub use worker::{Elapsed, Event, Progress, Worker};

use super::{Config, Failure, Value};
use scan::Scan;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why a scan was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The first tuning.
    First,
    /// The times of the configuration in use moved.
    Drift,
    /// The period was over.
    Period,
}

/// Settings of an on-line tuner.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Samples of each configuration (M), represented by their median. Default 5.
    pub samples: usize,
    /// Samples in a round of the run-off, which the most promising configurations have before one is locked; 0 for none,
    /// which is HOOMD-blue's way. Default 10.
    pub run_off: usize,
    /// Share of launches, and of their time, that may explore once tuning is complete (scans that drift calls for are not
    /// held to it). Default 0.002.
    pub explore_share: f64,
    /// Launches after which every configuration is sampled again; `None` for never. Default one million.
    pub rescan_after: Option<u64>,
    /// Time after which every configuration is sampled again; `None` for never. Default five minutes.
    pub rescan_every: Option<Duration>,
    /// Seed of the order inside a sweep.
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

/// Work that an on-line tuner has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Launches that it chose the configuration of.
    pub launches: u64,
    /// Launches that explored: their configuration was not the one in use.
    pub explored: u64,
    /// Launches that explored after the first tuning was complete.
    pub explored_after: u64,
    /// The launch with which the first tuning was complete; 0 before.
    pub first_tuning: u64,
    /// Scans that were started.
    pub scans: u64,
    /// Scans that drift called for.
    pub drifts: u64,
    /// Scans after the first that ended with another choice.
    pub changes: u64,
}

/// Result of an on-line tuner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The configuration in use.
    pub config: Config,
    /// Samples, ms (for a unit of work).
    pub samples: Vec<f64>,
    /// All other configurations that have samples, with them.
    pub others: Vec<(Config, Vec<f64>)>,
    /// Configurations that failed.
    pub failed: Vec<(Config, Failure)>,
    /// Work that it took.
    pub counters: Counters,
}

/// Errors of requests to an on-line tuner.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum OnlineError {
    /// There is nothing to choose from.
    #[error("no configuration is valid")]
    Empty,
    /// The default is not in the list.
    #[error("the default is number {default} of {configs} configurations")]
    NoDefault { default: usize, configs: usize },
    /// Too many to visit one by one.
    #[error("{0} or more configurations are too many for an on-line tuner (at most {MOST}); search off-line first")]
    TooMany(usize),
    /// A configuration that the tuner was not made with.
    #[error("{0:?} is not a configuration of this tuner")]
    Unknown(Config),
    /// A configuration that failed before.
    #[error("{config:?} failed before: {}", failure.message)]
    Banned { config: Config, failure: Failure },
}

/// Most configurations of one tuner: with five sweeps and 10 µs a launch, two seconds of real work.
pub const MOST: usize = 1 << 16;

/// All combinations of the dimensions' values that `valid` lets through, the last dimension varying fastest.
///
/// # Errors
/// [`OnlineError::Empty`] if none is left, [`OnlineError::TooMany`] above [`MOST`] before filtering.
pub fn grid(dimensions: &[(&str, Vec<Value>)], valid: impl Fn(&Config) -> bool) -> Result<Vec<Config>, OnlineError> {
    let all = dimensions.iter().try_fold(1_usize, |n, (_, values)| n.checked_mul(values.len())).unwrap_or(usize::MAX);
    if all > MOST {
        return Err(OnlineError::TooMany(all));
    }
    let mut configs = vec![Config(Vec::new())];
    for (_, values) in dimensions {
        let longer = |config: &Config, value: &Value| Config(config.0.iter().cloned().chain([value.clone()]).collect());
        configs = configs.iter().flat_map(|config| values.iter().map(move |value| longer(config, value))).collect();
    }
    configs.retain(valid);
    if configs.is_empty() { Err(OnlineError::Empty) } else { Ok(configs) }
}

struct Shared {
    configs: Vec<Config>,
    default: usize,
    begun: Instant,
    scan: Mutex<Scan>,
    /// The configuration in use, for workers that find the tuner busy.
    current: AtomicUsize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Scan> {
        self.scan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tuner of one kernel. Clones are the same tuner.
#[derive(Clone)]
pub struct Tuner {
    shared: Arc<Shared>,
}

impl Tuner {
    /// A tuner that chooses among `configs`, of which number `default` is used until more is known.
    ///
    /// # Errors
    /// An empty or too long list, or a default that is not in it.
    pub fn new(configs: Vec<Config>, default: usize, options: Options) -> Result<Self, OnlineError> {
        match configs.len() {
            0 => return Err(OnlineError::Empty),
            n if n > MOST => return Err(OnlineError::TooMany(n)),
            n if default >= n => return Err(OnlineError::NoDefault { default, configs: n }),
            _ => {}
        }
        let scan = Mutex::new(Scan::new(configs.len(), default, options));
        let (begun, current) = (Instant::now(), AtomicUsize::new(default));
        Ok(Self { shared: Arc::new(Shared { configs, default, begun, scan, current }) })
    }

    /// The configuration in use.
    pub fn best(&self) -> Config {
        let current = self.shared.lock().current();
        self.shared.configs[current].clone()
    }

    /// The default.
    pub fn default_config(&self) -> &Config {
        &self.shared.configs[self.shared.default]
    }

    /// Returns true if a configuration has been locked; stays true during later scans.
    pub fn is_complete(&self) -> bool {
        self.shared.lock().is_complete()
    }

    /// Returns true if a scan is going on.
    pub fn is_scanning(&self) -> bool {
        self.shared.lock().is_scanning()
    }

    /// Returns the work done so far.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters
    }

    /// Uses `config` as if a scan had found it: tuning is complete, and goes on with the period and on drift.
    ///
    /// # Errors
    /// [`OnlineError::Unknown`], [`OnlineError::Banned`].
    pub fn set(&self, config: &Config) -> Result<(), OnlineError> {
        self.change(config, Scan::set)
    }

    /// Uses `config` while the first scan goes on, which may find another.
    ///
    /// # Errors
    /// [`OnlineError::Unknown`], [`OnlineError::Banned`].
    pub fn prefer(&self, config: &Config) -> Result<(), OnlineError> {
        self.change(config, Scan::prefer)
    }

    /// Returns what was found; `None` before tuning is complete.
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
        let index = index.ok_or_else(|| OnlineError::Unknown(config.clone()))?;
        let mut scan = self.shared.lock();
        if let Some(failure) = scan.failure(index) {
            return Err(OnlineError::Banned { config: config.clone(), failure: failure.clone() });
        }
        change(&mut scan, index);
        self.shared.current.store(scan.current(), Relaxed);
        Ok(())
    }
}
