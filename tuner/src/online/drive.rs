//! Real work with on-line tuners, where the work is a [`Device`].

use super::{ByWorkload, Counters, Elapsed, OnlineError, Tuner, Worker};
use crate::workloads::Features;
use crate::{Config, Device, Outcome};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Result of a tuner's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Driven {
    /// Configuration used in the end.
    pub chosen: Config,
    /// True if the tuner has locked a configuration.
    pub complete: bool,
    /// Work done.
    pub counters: Counters,
    /// Mean time of a launch, exploring ones included, ms; 0 if there was none.
    pub mean_ms: f64,
    /// Launches of each piece of work.
    pub pieces: Vec<u64>,
}

/// Work of one sort, and what its batches look like.
pub struct Piece<'d> {
    /// Device that launches.
    pub device: &'d mut dyn Device,
    /// The look of its batches.
    pub looks: Features,
}

/// Results of all tuners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drive {
    /// Result of each, in their order.
    pub of: Vec<Driven>,
    /// Number of changes from one to another.
    pub changes: u64,
    /// Launches whose work looked like none of the workloads.
    pub strange: u64,
}

/// Launches for `duration`, and at least once, with what the tuner of the workload chooses each time. The pieces take
/// turns of `stretch` launches; what a launch looks like decides about the next one. `tick` is told how much of the
/// duration is over.
///
/// # Errors
/// [`OnlineError::Banned`]: the default of a workload failed. Any other configuration that fails is only not used again.
pub fn drive(
    tuners: &mut ByWorkload,
    pieces: &mut [Piece<'_>],
    stretch: u32,
    duration: Duration,
    mut tick: impl FnMut(Duration),
) -> Result<Drive, OnlineError> {
    let mut workers: Vec<Worker<Elapsed>> = tuners.tuners().iter().map(Tuner::worker).collect();
    let mut sums = vec![(0.0, 0_u32, vec![0; pieces.len()]); workers.len()];
    let (mut changes, mut strange) = (0, 0);
    let start = Instant::now();
    let mut launches = 0_u64;
    while !pieces.is_empty() && (launches == 0 || start.elapsed() < duration) {
        let piece = (launches / u64::from(stretch.max(1))) as usize % pieces.len();
        let Piece { device, looks } = &mut pieces[piece];
        let (_, number) = tuners.current();
        sums[number].2[piece] += 1;
        let config = workers[number].begin().clone();
        let outcome = device.measure(&config, 1);
        let fit = tuners.fit(looks);
        match outcome {
            Outcome::Times(times) if fit.nearest == number => {
                let time = times.first().copied().unwrap_or(f64::NAN);
                sums[number].0 += time;
                sums[number].1 += 1;
                workers[number].end(Elapsed(time));
            }
            // A time of another workload: as if the launch had not been.
            Outcome::Times(_) => (),
            Outcome::Failed(failure) if config == *tuners.tuners()[number].default_config() => {
                return Err(OnlineError::Banned { config, failure });
            }
            Outcome::Failed(failure) => workers[number].fail(failure),
        }
        launches += 1;
        changes += u64::from(fit.changed);
        strange += u64::from(fit.strange);
        tick(start.elapsed());
    }
    workers.iter_mut().for_each(Worker::poll);
    let driven = |(tuner, (sum, launches, pieces)): (&Tuner, (f64, u32, Vec<u64>))| Driven {
        chosen: tuner.best(),
        complete: tuner.is_complete(),
        counters: tuner.counters(),
        mean_ms: sum / f64::from(launches.max(1)),
        pieces,
    };
    Ok(Drive { of: tuners.tuners().iter().zip(sums).map(driven).collect(), changes, strange })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::online::Options;
    use crate::workloads::Tuned;
    use crate::{Failure, FailureKind, Value};

    /// One time for each configuration; no time for what is missing.
    struct Table(Vec<f64>);

    impl Device for Table {
        fn name(&self) -> String {
            "table".to_owned()
        }

        fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
            let [Value::Int(i)] = config.0[..] else { panic!("{config:?}") };
            match self.0.get(i as usize) {
                Some(time) => Outcome::Times(vec![*time; launches]),
                None => Outcome::Failed(Failure { kind: FailureKind::Launch, message: "there is none".to_owned() }),
            }
        }
    }

    fn looks(hits: f64) -> Features {
        Features::from([("hits", hits)])
    }

    fn tuners(hits: &[f64], default: usize) -> ByWorkload {
        let configs: Vec<Config> = (0..4).map(|i| Config(vec![Value::Int(i)])).collect();
        let of = |hits: &f64| {
            let (config, device) = (configs[default].clone(), "here".to_owned());
            let set = Tuned { config, device, workload: format!("of {hits}"), features: looks(*hits) };
            (set, Tuner::new(configs.clone(), default, Options::default()).unwrap())
        };
        ByWorkload::new(hits.iter().map(of).collect(), "here").unwrap()
    }

    #[test]
    fn each_workload_gets_its_own_best_though_one_is_easier_with_anything() {
        // 1 is best for the quiet one, 2 for the busy one, and every time of the quiet one beats all of the busy one.
        let (mut quiet, mut busy) = (Table(vec![2.0, 1.0, 3.0, 2.5]), Table(vec![20.0, 40.0, 10.0, 25.0]));
        let mut tuners = tuners(&[100.0, 5000.0], 0);
        let mut pieces =
            [Piece { device: &mut quiet, looks: looks(90.0) }, Piece { device: &mut busy, looks: looks(6000.0) }];
        let mut launches = 0;
        let count = |_| launches += 1;
        let drive = drive(&mut tuners, &mut pieces, 50, Duration::from_millis(200), count).unwrap();
        let chosen: Vec<_> = drive.of.iter().map(|driven| driven.chosen.0[0].clone()).collect();
        assert_eq!(chosen, [Value::Int(1), Value::Int(2)], "{drive:?}");
        assert!(drive.of.iter().all(|driven| driven.complete) && drive.changes > 1 && drive.strange == 0);
        assert_eq!(drive.of.iter().flat_map(|driven| &driven.pieces).sum::<u64>(), launches);
        // Launches between the change of the work and that of the tuner count for neither.
        assert!(drive.of.iter().all(|driven| driven.pieces.iter().all(|launches| *launches > 0)), "{drive:?}");
        for (tuner, range) in tuners.tuners().iter().zip([1.0..=3.0, 10.0..=40.0]) {
            let samples = (0..4).flat_map(|i| tuner.samples(&Config(vec![Value::Int(i)])).unwrap());
            assert!(samples.into_iter().all(|time| range.contains(&time)));
        }
    }

    #[test]
    fn work_like_none_is_counted_and_a_default_that_fails_ends_it() {
        let mut strange = Table(vec![1.0; 4]);
        let mut pieces = [Piece { device: &mut strange, looks: looks(1e6) }];
        let drive_for = |tuners: &mut ByWorkload, pieces: &mut [Piece<'_>]| {
            drive(tuners, pieces, 1, Duration::ZERO, |_| {}).map(|drive| (drive.of[0].counters.launches, drive.strange))
        };
        assert_eq!(drive_for(&mut tuners(&[100.0, 200.0], 0), &mut pieces).unwrap(), (1, 1));
        let mut short = Table(vec![1.0]);
        let mut pieces = [Piece { device: &mut short, looks: looks(100.0) }];
        assert!(matches!(drive_for(&mut tuners(&[100.0], 3), &mut pieces), Err(OnlineError::Banned { .. })));
        assert_eq!(drive_for(&mut tuners(&[100.0], 3), &mut []).unwrap(), (0, 0));
    }

    #[test]
    fn sets_of_no_device_or_another_are_refused() {
        assert!(matches!(ByWorkload::new(Vec::new(), "here"), Err(OnlineError::Sets(_))));
        let tuner = Tuner::new(vec![Config(vec![Value::Int(0)])], 0, Options::default()).unwrap();
        let set = Tuned {
            config: Config(vec![Value::Int(0)]),
            device: "there".to_owned(),
            workload: "any".to_owned(),
            features: Features::default(),
        };
        assert!(matches!(ByWorkload::new(vec![(set, tuner)], "here"), Err(OnlineError::Sets(_))));
    }
}
