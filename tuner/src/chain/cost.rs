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
#[expect(missing_docs, reason = "the names say it")]
pub struct Costs {
    pub matrix: Matrix,
    /// Relative standard error of an entry; the median over all entries.
    pub error: f64,
    /// Set, workload and failure of each missing entry.
    pub failures: Vec<(usize, usize, Failure)>,
}

impl Costs {
    /// Returns the matrix with times within two standard errors of the first set's (the default's) replaced by it, so
    /// that choices rest on differences that were shown.
    pub fn shown(&self) -> Matrix {
        let mut matrix = self.matrix.clone();
        let zone = 2.0 * std::f64::consts::SQRT_2 * self.error;
        let Some(first) = self.matrix.times.first() else { return matrix };
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

/// Rounds that are tried for each round that counts.
const TRIES: usize = 3;

/// Measures `sets` on each of `workloads` (names and devices) in `rounds` interleaved rounds, so that slow changes of
/// the machine affect all alike. A round with other load does not count. `tick` is told how many rounds are over.
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
    let mut times: Vec<Vec<Result<Vec<f64>, Failure>>> = vec![vec![Ok(Vec::new()); workloads.len()]; sets.len()];
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
            times[set][workload].iter_mut().for_each(|samples| samples.extend(&new));
        }
        tick(round);
        round += 1;
        if round > rounds {
            break;
        }
    }
    if round < 2 && rounds > 0 && times.iter().flatten().any(Result::is_ok) {
        let what = format!("cannot tell what the sets cost: {}", watch.look().trouble(&limits));
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
                    errors.push(1.2533 * robust_spread(&samples) / middle / (samples.len() as f64).sqrt());
                }
                Ok(_) => {}
                Err(failure) => failures.push((set, workload, failure)),
            }
        }
    }
    let workloads = workloads.iter().map(|(name, _)| name.clone()).collect();
    let matrix = Matrix { workloads, sets: sets.to_vec(), times: medians };
    matrix.check()?;
    Ok(Costs { matrix, error: median(&errors), failures })
}

/// Several devices as one: a launch runs on each, and its time is the weighted mean of theirs, each in a unit of its
/// own, so that a larger workload does not count more.
pub struct Mix<'w, 'd> {
    parts: &'w mut [(String, &'d mut dyn Device)],
    weights: Vec<f64>,
    units: Vec<f64>,
}

impl<'w, 'd> Mix<'w, 'd> {
    /// Mixes devices with a weight and a unit in ms for each.
    pub fn new(parts: &'w mut [(String, &'d mut dyn Device)], weights: &[f64], units: &[f64]) -> Self {
        Self { parts, weights: weights.to_vec(), units: units.to_vec() }
    }
}

impl Device for Mix<'_, '_> {
    fn name(&self) -> String {
        self.parts.first().map(|(_, device)| device.name()).unwrap_or_default()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let mut sums = vec![0.0; launches];
        let all: f64 = self.weights.iter().sum();
        for ((name, device), (weight, unit)) in self.parts.iter_mut().zip(self.weights.iter().zip(&self.units)) {
            if *weight == 0.0 {
                continue;
            }
            match device.measure(config, launches) {
                Outcome::Times(times) => {
                    for (sum, time) in sums.iter_mut().zip(times) {
                        *sum += weight / all * time / unit;
                    }
                }
                Outcome::Failed(Failure { kind, message }) => {
                    return Outcome::Failed(Failure { kind, message: format!("{name}: {message}") });
                }
            }
        }
        Outcome::Times(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::NoWatch;
    use crate::{FailureKind, Value};

    /// A set runs in `base` ms times its distance from `best`, plus 1; set 9 fails.
    struct Line {
        best: i64,
        base: f64,
        measured: usize,
    }

    impl Device for Line {
        fn name(&self) -> String {
            "line".into()
        }

        fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
            self.measured += launches;
            let Value::Int(set) = config.0[0] else { panic!() };
            if set == 9 {
                return Outcome::Failed(Failure { kind: FailureKind::Launch, message: "too much".into() });
            }
            Outcome::Times(vec![self.base * (1.0 + (set - self.best).abs() as f64); launches])
        }
    }

    fn sets(all: &[i64]) -> Vec<Config> {
        all.iter().map(|set| Config(vec![Value::Int(*set)])).collect()
    }

    #[test]
    fn every_set_is_measured_on_every_workload_and_failures_are_kept() {
        let (mut a, mut b) = (Line { best: 1, base: 1.0, measured: 0 }, Line { best: 3, base: 10.0, measured: 0 });
        let mut workloads: [(String, &mut dyn Device); 2] = [("a".into(), &mut a), ("b".into(), &mut b)];
        let mut rounds = 0;
        let costs = measure(&mut workloads, &sets(&[1, 3, 9]), 5, 1, &mut NoWatch, |_| rounds += 1).unwrap();
        let [a_only, b_only] = [(1.0, 30.0), (3.0, 10.0)].map(|(a, b)| vec![Some(a), Some(b)]);
        assert_eq!(costs.matrix.times, [a_only, b_only, vec![None, None]]);
        assert_eq!((costs.error, rounds), (0.0, 6));
        assert_eq!(costs.failures.len(), 2);
        assert_eq!(costs.matrix.workloads, ["a", "b"]);
        // Five rounds and one to warm up for two sets; the failing one once.
        assert_eq!((a.measured, b.measured), (13, 13));
        let mut alone: [(String, &mut dyn Device); 1] = [("a".into(), &mut a)];
        assert!(measure(&mut alone, &sets(&[9]), 2, 1, &mut NoWatch, |_| ()).is_err());
    }

    #[test]
    fn what_lies_within_its_error_of_the_default_is_not_recommended() {
        let costs = |error: f64| Costs {
            matrix: Matrix {
                workloads: vec!["pp".to_owned(), "pbpb".to_owned()],
                sets: sets(&[0, 1]),
                times: vec![vec![Some(1.212), Some(1.0)], vec![Some(1.0), Some(1.05)]],
            },
            error,
            failures: Vec::new(),
        };
        let chosen = |error: f64| {
            let shown = costs(error).shown();
            (shown.by_mean(&[1.0, 1.0]).unwrap().0, shown.of_workload().unwrap())
        };
        // 21.2 % with a standard error of 20.2 %: the default stays for all; with one of 1 % it was shown.
        assert_eq!(chosen(0.202), (0, vec![0, 0]));
        assert_eq!(chosen(0.01), (1, vec![1, 0]));
    }

    #[test]
    fn a_mix_weighs_workloads_and_not_their_size() {
        let (mut a, mut b) = (Line { best: 1, base: 1.0, measured: 0 }, Line { best: 1, base: 1000.0, measured: 0 });
        let mut parts: [(String, &mut dyn Device); 2] = [("a".into(), &mut a), ("b".into(), &mut b)];
        let time = |parts: &mut [(String, &mut dyn Device)], weights: &[f64], set: i64| {
            Mix::new(parts, weights, &[1.0, 1000.0]).measure(&sets(&[set])[0], 2)
        };
        assert_eq!(time(&mut parts, &[1.0, 1.0], 2), Outcome::Times(vec![2.0, 2.0]));
        assert_eq!(time(&mut parts, &[1.0, 3.0], 1), Outcome::Times(vec![1.0, 1.0]));
        assert!(
            matches!(time(&mut parts, &[0.0, 1.0], 9), Outcome::Failed(failure) if failure.message == "b: too much")
        );
    }
}
