//! Measures the times of parameter sets on workloads, interleaved.

use super::workloads::Matrix;
use crate::compare::turns;
use crate::statistics::{median, robust_spread};
use crate::watch::Watch;
use crate::{Config, Device, Error, ErrorKind, Failure, Outcome};
use chacha20::ChaCha8Rng;
use rand::SeedableRng as _;

/// Matrix of median times, with its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Median times in ms; `None` for a set without samples on a workload.
    pub matrix: Matrix,
    /// Relative standard error of an entry; the median over all entries.
    pub error: f64,
    /// Set, workload and failure of each missing entry.
    pub failures: Vec<(usize, usize, Failure)>,
}

impl Costs {
    /// Returns the matrix with times within two standard errors of the first set's (the default's)
    /// replaced by it, so that choices rest on differences that were shown.
    pub fn shown(&self) -> Matrix {
        let mut matrix = self.matrix.clone();
        let zone = 2.0 * std::f64::consts::SQRT_2 * self.error;
        let Some(first) = self.matrix.times.first() else {
            return matrix;
        };
        for row in matrix.times.iter_mut().skip(1) {
            for (time, default) in row.iter_mut().zip(first) {
                if let (Some(time), Some(default)) = (time, default)
                    && (*time / default - 1.0).abs() <= zone
                {
                    *time = *default;
                }
            }
        }
        matrix
    }
}

/// Number of rounds that are tried for each round that counts.
const TRIES: usize = 3;

/// Measures `sets` on each of `workloads` (names and devices) in `rounds` interleaved rounds, so
/// that slow changes of the machine affect all alike. A round with other load does not count.
/// `tick` gets the number of finished rounds.
///
/// # Errors
/// If no set runs on a workload, or every round is disturbed.
pub fn measure(
    workloads: &mut [(String, &mut dyn Device)],
    sets: &[Config],
    rounds: usize,
    seed: u64,
    watch: &mut dyn Watch,
    mut tick: impl FnMut(usize),
) -> Result<Costs, Error> {
    let limits = watch.limits();
    let mut lot = ChaCha8Rng::seed_from_u64(seed);
    let mut times: Vec<Vec<Result<Vec<f64>, Failure>>> =
        vec![vec![Ok(Vec::new()); workloads.len()]; sets.len()];
    // The first round warms up.
    let mut round = 0;
    for turn in turns(sets.len() * workloads.len(), TRIES * rounds + 1, &mut lot) {
        let (mut fresh, mut quiet) = (Vec::new(), true);
        for place in turn {
            let (set, workload) = (place / workloads.len(), place % workloads.len());
            if times[set][workload].is_err() {
                continue;
            }
            match workloads[workload].1.measure(&sets[set], 1) {
                Outcome::Times(new) => fresh.push((set, workload, new)),
                Outcome::Failed(failure) => times[set][workload] = Err(failure),
            }
            quiet &= !watch.look().is_disturbed(&limits);
        }
        if round > 0 && !quiet {
            continue;
        }
        for (set, workload, new) in fresh.into_iter().filter(|_| round > 0) {
            times[set][workload]
                .iter_mut()
                .for_each(|samples| samples.extend(&new));
        }
        tick(round);
        round += 1;
        if round > rounds {
            break;
        }
    }
    if round < 2 && rounds > 0 && times.iter().flatten().any(Result::is_ok) {
        let what = format!(
            "cannot tell what the sets cost: {}",
            watch.look().trouble(&limits)
        );
        return Err(Error::new(ErrorKind::Busy, what));
    }
    let mut failures = Vec::new();
    let mut errors = Vec::new();
    let mut medians = vec![vec![None; workloads.len()]; sets.len()];
    for (set, row) in times.into_iter().enumerate() {
        for (workload, cell) in row.into_iter().enumerate() {
            match cell {
                Ok(samples) if !samples.is_empty() => {
                    let middle = median(&samples);
                    medians[set][workload] = Some(middle);
                    // 1.2533: a median's standard error over a mean's, on normal noise.
                    errors.push(
                        1.2533 * robust_spread(&samples) / middle / (samples.len() as f64).sqrt(),
                    );
                }
                Ok(_) => {}
                Err(failure) => failures.push((set, workload, failure)),
            }
        }
    }
    let workloads = workloads.iter().map(|(name, _)| name.clone()).collect();
    let matrix = Matrix {
        workloads,
        sets: sets.to_vec(),
        times: medians,
    };
    matrix.check()?;
    Ok(Costs {
        matrix,
        error: median(&errors),
        failures,
    })
}

/// Several devices that act as one. A launch runs on each device, and its time is the weighted mean
/// of their times. Each device has its own unit of time, so that a larger workload does not count
/// more.
pub struct Mix<'w, 'd> {
    parts: &'w mut [(String, &'d mut dyn Device)],
    weights: Vec<f64>,
    units: Vec<f64>,
}

impl<'w, 'd> Mix<'w, 'd> {
    /// Mixes devices with a weight and a unit in ms for each.
    pub fn new(
        parts: &'w mut [(String, &'d mut dyn Device)],
        weights: &[f64],
        units: &[f64],
    ) -> Self {
        Self {
            parts,
            weights: weights.to_vec(),
            units: units.to_vec(),
        }
    }
}

impl Device for Mix<'_, '_> {
    fn name(&self) -> String {
        self.parts
            .first()
            .map(|(_, device)| device.name())
            .unwrap_or_default()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let mut sums = vec![0.0; launches];
        let all: f64 = self.weights.iter().sum();
        for ((name, device), (weight, unit)) in self
            .parts
            .iter_mut()
            .zip(self.weights.iter().zip(&self.units))
        {
            if *weight == 0.0 {
                continue;
            }
            match device.measure(config, launches) {
                Outcome::Times(times) => {
                    for (sum, time) in sums.iter_mut().zip(times) {
                        *sum += weight / all * time / unit;
                    }
                }
                Outcome::Failed(failure) => return Outcome::Failed(failure.of(name)),
            }
        }
        Outcome::Times(sums)
    }
}
