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
//! # Ok::<(), tuner::Error>(())
//! ```
//!
//! A launch waits neither for another worker's lock nor for an event: a worker that finds the tuner
//! busy launches the best known configuration, untimed. Once the best is locked, one launch in four
//! is timed, to notice a change of the workload; the others cost a counter.

mod scan;
mod worker;

pub use crate::decide::runoff::Statistic;
pub use worker::{Elapsed, Event, Progress, Worker};

use super::{Config, Error, Failure, Value};
use scan::Scan;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Reason of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanCause {
    First,
    /// The times of the configuration in use moved.
    Drift,
    /// The period of launches or time was over.
    Period,
}

/// Time after which every configuration is sampled again, one sample of each replaced.
///
/// The best configuration can change while a program runs: the data grow, the clock falls, another
/// program shares the device. Drift is noticed by itself. But a configuration that *became* the
/// fastest, while the one in use stays as it was, is only found by sampling all of them again. With
/// the default, if the best takes 1 ms and 100 configurations take twice as long on average, a scan
/// loses 100 ms, so that at least 50 s of launches must lie between two scans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Again {
    /// Five minutes; later if the launches since the last scan do not yet pay for the next: a scan
    /// loses at most 0.2 % of their time.
    #[default]
    Usual,
    /// This time, whatever a scan costs.
    After(Duration),
    /// This number of launches, whatever a scan costs.
    AfterLaunches(u64),
    /// Never.
    Never,
}

/// Settings of an on-line tuner, all at their defaults unless a method changes one.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    samples: usize,
    statistic: Statistic,
    run_off: usize,
    again: Again,
    seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            samples: 5,
            statistic: Statistic::Median,
            run_off: 10,
            again: Again::Usual,
            seed: 1,
        }
    }
}

impl Options {
    /// Takes `samples` of each configuration (M), at least 1, which the statistic sums up. Default
    /// 5.
    #[must_use]
    pub fn with_samples(self, samples: usize) -> Self {
        Self {
            samples: samples.max(1),
            ..self
        }
    }

    /// Compares configurations by this statistic of their samples. Default the median.
    #[must_use]
    pub fn with_statistic(self, statistic: Statistic) -> Self {
        Self { statistic, ..self }
    }

    /// Takes `samples` in the first round of the run-off between the most promising configurations;
    /// 0 for no run-off, as in HOOMD-blue. Default 10.
    #[must_use]
    pub fn with_run_off(self, samples: usize) -> Self {
        Self {
            run_off: samples,
            ..self
        }
    }

    /// Samples every configuration again after this period. Default [`Again::Usual`].
    #[must_use]
    pub fn with_again(self, again: Again) -> Self {
        Self { again, ..self }
    }

    /// Draws the orders of the sweeps from this seed. Default 1.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

/// Counters of an on-line tuner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Number of launches with a configuration of the tuner.
    pub launches: u64,
    /// Number of launches that explored: their configuration was not the one in use.
    pub explored: u64,
    /// Number of launches that explored after the first tuning.
    pub explored_after: u64,
    /// Launch that completed the first tuning; 0 before.
    pub first_tuning: u64,
    /// Number of scans started.
    pub scans: u64,
    /// Number of scans because of drift.
    pub drifts: u64,
    /// Number of scans after the first that changed the configuration in use.
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

fn too_many(configs: usize) -> Error {
    let why = "are too many for an on-line tuner";
    Error::request(format!(
        "{configs} or more configurations {why} (at most {MOST}); search off-line first"
    ))
}

fn none_valid() -> Error {
    Error::request("no configuration is valid")
}

/// Maximum number of configurations of a tuner: with five sweeps and 10 µs per launch, three
/// seconds of real work.
pub const MOST: usize = 1 << 16;

/// Lists the valid combinations of the dimensions' values, the last dimension varying fastest.
///
/// # Errors
/// If none is valid, or there are more than [`MOST`] combinations, valid or not.
pub fn grid(
    dimensions: &[(&str, Vec<Value>)],
    valid: impl Fn(&Config) -> bool,
) -> Result<Vec<Config>, Error> {
    let all = dimensions
        .iter()
        .try_fold(1_usize, |n, (_, values)| n.checked_mul(values.len()))
        .unwrap_or(usize::MAX);
    if all > MOST {
        return Err(too_many(all));
    }
    let mut configs = vec![Config(Vec::new())];
    for (_, values) in dimensions {
        let longer = |config: &Config, value: &Value| {
            Config(config.0.iter().cloned().chain([value.clone()]).collect())
        };
        configs = configs
            .iter()
            .flat_map(|config| values.iter().map(move |value| longer(config, value)))
            .collect();
    }
    configs.retain(valid);
    if configs.is_empty() {
        Err(none_valid())
    } else {
        Ok(configs)
    }
}

struct TunerState {
    configs: Vec<Config>,
    default: usize,
    begun: Instant,
    scan: Mutex<Scan>,
    /// Configuration in use, for workers that find the tuner busy or have nothing to ask it.
    current: AtomicUsize,
    /// True while no scan is going on.
    locked: AtomicBool,
    /// True once all configurations failed.
    failed: AtomicBool,
    /// Number of launches so far.
    launches: AtomicU64,
}

impl TunerState {
    fn lock(&self) -> MutexGuard<'_, Scan> {
        self.scan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the state of the scan to the workers.
    fn publish(&self, scan: &Scan) {
        self.current.store(scan.current(), Relaxed);
        self.locked.store(!scan.is_scanning(), Relaxed);
        self.failed.store(scan.last_failure().is_some(), Relaxed);
    }
}

/// Tuner of one kernel. Clones share its state.
#[derive(Clone)]
pub struct Tuner {
    shared: Arc<TunerState>,
}

impl Tuner {
    /// Makes a tuner that chooses among `configs`, and begins with number `default`.
    ///
    /// # Errors
    /// If the list is empty or too long, or the default is not in it.
    pub fn new(configs: Vec<Config>, default: usize, options: Options) -> Result<Self, Error> {
        match configs.len() {
            0 => return Err(none_valid()),
            n if n > MOST => return Err(too_many(n)),
            n if default >= n => {
                return Err(Error::request(format!(
                    "the default is number {default} of {n} configurations"
                )));
            }
            _ => {}
        }
        let scan = Mutex::new(Scan::new(configs.len(), default, options));
        let shared = TunerState {
            configs,
            default,
            begun: Instant::now(),
            scan,
            current: AtomicUsize::new(default),
            locked: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            launches: AtomicU64::new(0),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
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

    /// Returns true once the first tuning is complete; false if all configurations failed.
    pub fn is_complete(&self) -> bool {
        self.shared.lock().is_complete()
    }

    /// Returns the last failure if all configurations failed: then the default stays, and nothing
    /// is timed any more.
    pub fn failure(&self) -> Option<Failure> {
        self.shared
            .failed
            .load(Relaxed)
            .then(|| self.shared.lock().last_failure().cloned())
            .flatten()
    }

    /// Samples every configuration again, as after a period. Does nothing during a scan.
    pub fn scan_again(&self) {
        let mut scan = self.shared.lock();
        scan.scan_again();
        self.shared.publish(&scan);
    }

    /// Returns true if a scan is going on.
    pub fn is_scanning(&self) -> bool {
        self.shared.lock().is_scanning()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        Counters {
            launches: self.shared.launches.load(Relaxed),
            ..self.shared.lock().counters
        }
    }

    /// Uses `config` as if the first tuning had found it.
    ///
    /// # Errors
    /// If the configuration is not one of this tuner, or failed before.
    pub fn set(&self, config: &Config) -> Result<(), Error> {
        self.change(config, Scan::set)
    }

    /// Uses `config` during the first tuning, which may find another.
    ///
    /// # Errors
    /// If the configuration is not one of this tuner, or failed before.
    pub fn prefer(&self, config: &Config) -> Result<(), Error> {
        self.change(config, Scan::prefer)
    }

    /// Returns the result; `None` before the first tuning is complete.
    pub fn report(&self) -> Option<Report> {
        let counters = self.counters();
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
            failed: (0..configs.len())
                .filter_map(|i| Some((configs[i].clone(), scan.failure(i)?.clone())))
                .collect(),
            counters,
        })
    }

    fn change(&self, config: &Config, change: impl FnOnce(&mut Scan, usize)) -> Result<(), Error> {
        let index = self.shared.configs.iter().position(|known| known == config);
        let index = index.ok_or_else(|| {
            Error::request(format!("{config:?} is not a configuration of this tuner"))
        })?;
        let mut scan = self.shared.lock();
        if let Some(failure) = scan.failure(index) {
            return Err(Error::device(format!(
                "{config:?} failed before: {}",
                failure.message
            )));
        }
        change(&mut scan, index);
        self.shared.publish(&scan);
        Ok(())
    }
}
