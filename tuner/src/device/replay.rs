//! A recorded space as a device: the tuner runs against what a real GPU once did, so that all of it can be tested
//! without one.

use crate::space::{ConfigIndex, Space};
use crate::strategy::draw::mix;
use crate::{Config, Device, Failure, FailureKind, Outcome, Value};

pub use super::replay_csv::parse_csv;

/// A search space that was measured once, whole or in part.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The device's name; some recordings have none.
    pub device: String,
    /// The kernel's name.
    pub kernel: String,
    /// The size of the problem, as the file puts it.
    pub problem: String,
    /// Parameters that had one value throughout, where the form keeps them apart.
    pub fixed: Vec<(String, Value)>,
    /// The configurations that were tried, failed ones included.
    pub space: Space,
    /// Results, by [`ConfigIndex`]: as many as configurations.
    pub records: Vec<Record>,
}

/// Recorded result of one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Times, or the failure.
    pub measured: Measured,
    /// Time of its compilation, ms.
    pub compile_ms: Option<f64>,
}

/// The times of one configuration, as detailed as the recording has them.
#[derive(Clone, Debug, PartialEq)]
pub enum Measured {
    /// All samples, in ms, in the order of the launches.
    Samples(Vec<f64>),
    /// Their summary only.
    Summary(Summary),
    /// No time.
    Failed(Failure),
}

/// A summary of samples, in ms.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    /// Mean of all samples.
    pub mean_ms: f64,
    /// Median of all samples.
    pub median_ms: f64,
    /// The smallest.
    pub min_ms: f64,
    /// Their standard deviation.
    pub sd_ms: f64,
    /// Number of samples.
    pub samples: usize,
}

impl Record {
    /// The time by which the recording ranks this configuration: the mean of its samples, in ms.
    pub fn mean_ms(&self) -> Option<f64> {
        match &self.measured {
            Measured::Samples(samples) if samples.is_empty() => None,
            Measured::Samples(samples) => Some(samples.iter().sum::<f64>() / samples.len() as f64),
            Measured::Summary(summary) => Some(summary.mean_ms),
            Measured::Failed(_) => None,
        }
    }

    /// The mean of the samples without the first, which pays for caches and clocks (of all, where there is but one or a
    /// summary only): the truth that racing is judged by, in ms.
    pub fn settled_mean_ms(&self) -> Option<f64> {
        match &self.measured {
            Measured::Samples(samples) if samples.len() > 1 => {
                Some(samples[1..].iter().sum::<f64>() / (samples.len() - 1) as f64)
            }
            _ => self.mean_ms(),
        }
    }
}

/// Result of a replayed launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Always the recorded mean.
    Mean,
    /// A recorded sample but the first, drawn with replacement; a summary gives its mean. Launch n of a configuration is
    /// the same for the same seed, whatever else was launched.
    Resampled {
        /// Chooses the samples.
        seed: u64,
        /// True if a configuration's first launch is the recorded first one, as slow as that was.
        first: bool,
    },
}

/// A recording that measures.
#[derive(Clone, Debug)]
pub struct Replay {
    recording: Recording,
    noise: Noise,
    launched: Vec<u64>,
}

impl Replay {
    /// Replays `recording` with `noise`.
    pub fn new(recording: Recording, noise: Noise) -> Self {
        let launched = vec![0; recording.space.len()];
        Self { recording, noise, launched }
    }

    /// Returns the recording.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The launches so far, of all configurations.
    pub fn launches(&self) -> u64 {
        self.launched.iter().sum()
    }

    /// Runs configuration `index` of the recording's space `launches` times.
    pub fn measure_index(&mut self, index: ConfigIndex, launches: usize) -> Outcome {
        let Some(record) = self.recording.records.get(index) else {
            return declined(format!("the recording has no configuration {index}"));
        };
        let first = self.launched[index];
        let time = |launch: u64| match (&record.measured, self.noise) {
            (Measured::Samples(samples), Noise::Resampled { seed, first }) => match samples.as_slice() {
                [] => None,
                [only] => Some(*only),
                [slow, ..] if first && launch == 0 => Some(*slow),
                [_, rest @ ..] => {
                    let drawn = mix(mix(seed ^ mix(index as u64)) ^ launch);
                    // The high half of the product is uniform over the samples (bias below 2^-50).
                    let place = (u128::from(drawn) * rest.len() as u128) >> 64;
                    Some(rest[place as usize])
                }
            },
            _ => record.mean_ms(),
        };
        if let Measured::Failed(failure) = &record.measured {
            self.launched[index] += 1;
            return Outcome::Failed(failure.clone());
        }
        match (first..first + launches as u64).map(time).collect() {
            Some(times) => {
                self.launched[index] += launches as u64;
                Outcome::Times(times)
            }
            None => declined("the recording has no sample of this configuration".to_owned()),
        }
    }
}

impl Device for Replay {
    fn name(&self) -> String {
        self.recording.device.clone()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        match self.recording.space.index_of(config) {
            Some(index) => self.measure_index(index, launches),
            None => declined("the recording does not have this configuration".to_owned()),
        }
    }
}

fn declined(message: String) -> Outcome {
    Outcome::Failed(Failure { kind: FailureKind::Declined, message })
}
