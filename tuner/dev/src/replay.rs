//! A recorded space as a device, so that tuning can be tested without the GPU that was recorded.

use tuner::strategy::draw::mix;
use tuner::{Config, ConfigIndex, Device, Error, FailureKind, Outcome, Space, Value};

/// Search space that was measured, whole or in part.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Name of the device, or empty.
    pub device: String,
    /// Name of the kernel.
    pub kernel: String,
    /// Size of the problem, as the file writes it.
    pub problem: String,
    /// Parameters with a single value, if the form keeps them apart.
    pub fixed: Vec<(String, Value)>,
    /// Configurations that were tried, failed ones included.
    pub space: Space,
    /// Results by [`ConfigIndex`]: all samples in the order of the launches, or their mean.
    pub outcomes: Vec<Outcome>,
}

impl Recording {
    /// Sets space and outcomes from `rows` of values, which differ.
    pub(crate) fn with_rows(
        mut self,
        names: &[String],
        rows: &[Vec<Value>],
        outcomes: Vec<Outcome>,
    ) -> Result<Self, Error> {
        let (space, indices) = Space::recorded(names, rows)?;
        let mut placed: Vec<Option<Outcome>> = vec![None; outcomes.len()];
        for (outcome, index) in outcomes.into_iter().zip(indices) {
            placed[index] = Some(outcome);
        }
        self.space = space;
        self.outcomes = placed.into_iter().flatten().collect();
        Ok(self)
    }
}

/// Returns the mean of a configuration's samples in ms, if there are any.
pub fn mean_ms(outcome: &Outcome) -> Option<f64> {
    match outcome {
        Outcome::Times(times) if !times.is_empty() => {
            Some(times.iter().sum::<f64>() / times.len() as f64)
        }
        _ => None,
    }
}

/// Time of a replayed launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Noise {
    /// Recorded mean.
    Mean,
    /// Recorded first sample, which may be slow, in a configuration's first launch; then one of the
    /// others, drawn with replacement. Launch n of a configuration depends only on the seed.
    Resampled {
        /// Seed of the choice of samples.
        seed: u64,
    },
}

/// Recording as a device.
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
        Self {
            recording,
            noise,
            launched,
        }
    }

    /// Runs configuration `index` of the recording's space `launches` times.
    pub fn measure_index(&mut self, index: ConfigIndex, launches: usize) -> Outcome {
        let samples = match self.recording.outcomes.get(index) {
            Some(Outcome::Times(samples)) => samples,
            Some(failed) => return failed.clone(),
            None => return declined(format!("the recording has no configuration {index}")),
        };
        let Some(mean) = mean_ms(&self.recording.outcomes[index]) else {
            return declined("the recording has no sample of this configuration".to_owned());
        };
        let time = |launch: u64| match (self.noise, samples.as_slice()) {
            (Noise::Resampled { .. }, [slow, _, ..]) if launch == 0 => *slow,
            (Noise::Resampled { seed }, [_, rest @ ..]) if !rest.is_empty() => {
                let drawn = mix(mix(seed ^ mix(index as u64)) ^ launch);
                // The high half of the product is uniform over the samples (bias below 2^-50).
                let place = (u128::from(drawn) * rest.len() as u128) >> 64;
                rest[place as usize]
            }
            _ => mean,
        };
        let first = self.launched[index];
        self.launched[index] += launches as u64;
        Outcome::Times((first..first + launches as u64).map(time).collect())
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
    Outcome::Failed(FailureKind::Declined.because(message))
}
