//! Measures every combination of some knobs' values.
//!
//! A round visits every point once, in an order that the seed shuffles for each round: a machine that slows down
//! slows all points alike, and no point always follows the same other one. A visit makes a new decoder, warms it up
//! and times one repetition. Before a point's first measurement counts, its hits and reports are compared with the
//! reference's: a point with other bits is out, and named. On the `emulated` backend the work is counted, once, for
//! counts do not spread.

pub mod axis;
mod chart;
pub mod journal;
mod page;
pub mod plan;
pub mod report;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use self::journal::{JournalError, Outcome, Record};
use self::plan::{Plan, Point};
use super::modes::Mode;
use super::sample::{Expected, Sample};
use super::setting::Setting;
use super::work::{METRICS, Work};
use crate::decoder::emulated::EmulatedConfig;
use crate::decoder::{Backend, DecodeError, DecodeOptions, Knobs};
use crate::detector::DetectorTables;
use crate::input::Layout;

/// Batch sizes and layouts whose sample and expected hits are kept.
const KEPT_SAMPLES: usize = 4;

/// Why a sweep ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The events cannot be put into batches.
    #[error("batches of {batch} events: {message}")]
    Sample {
        /// Events of a batch.
        batch: usize,
        /// Why.
        message: String,
    },
    /// The reference failed.
    #[error("the reference")]
    Reference(#[source] DecodeError),
    /// The default does not decode as the reference does: nothing can be compared with it.
    #[error("the default fails: {0}")]
    Default(String),
}

/// Makes the sample in the batches of a setting.
pub type Samples<'a> = dyn Fn(&Setting) -> Result<Sample, String> + 'a;

/// A sweep.
pub struct Sweep<'a> {
    /// The backend.
    pub backend: Backend,
    /// The detector.
    pub tables: &'a DetectorTables,
    /// Clustering.
    pub options: DecodeOptions,
    /// What is run.
    pub plan: &'a Plan,
    /// Rounds; counted work needs one.
    pub rounds: usize,
    /// Seed of the orders.
    pub seed: u64,
    /// The events.
    pub samples: &'a Samples<'a>,
    /// What is measured on a GPU.
    pub mode: Mode,
}

/// Samples by batch size and layout, with what must come out.
#[derive(Default)]
struct Kept {
    samples: HashMap<(usize, bool), (Sample, Expected)>,
}

impl Kept {
    fn of(&mut self, sweep: &Sweep<'_>, setting: &Setting) -> Result<&(Sample, Expected), SweepError> {
        let batch = setting.batch;
        let key = (batch, setting.layout == Layout::Mep);
        if !self.samples.contains_key(&key) {
            if self.samples.len() >= KEPT_SAMPLES {
                self.samples.clear();
            }
            let sample = (sweep.samples)(setting).map_err(|message| SweepError::Sample { batch, message })?;
            let expected = Expected::of(&sample, sweep.tables, sweep.options).map_err(SweepError::Reference)?;
            self.samples.insert(key, (sample, expected));
        }
        Ok(&self.samples[&key])
    }
}

impl Sweep<'_> {
    /// Measurements altogether, were no point to fail.
    pub fn visits(&self) -> usize {
        self.plan.points.len() * self.rounds
    }

    /// How long a visit takes, judged by the default; learns, too, that the default works.
    ///
    /// # Errors
    /// When it does not.
    pub fn probe(&self) -> Result<Duration, SweepError> {
        let mut kept = Kept::default();
        let point = &self.plan.points[self.plan.default];
        let sample = kept.of(self, &point.setting)?;
        let start = Instant::now();
        match self.visit(point, sample, true) {
            Outcome::Rate(_) | Outcome::Work(_) => Ok(start.elapsed()),
            Outcome::Wrong(what) | Outcome::Failed(what) => Err(SweepError::Default(what)),
        }
    }

    /// Makes the measurements that are not among `records`, and returns all of them. Each is handed to `keep` before
    /// the next begins. `tick` gets how many of [`visits`](Self::visits) are done.
    ///
    /// # Errors
    /// When `keep` fails, or there is nothing to compare with. A point that fails is an outcome.
    pub fn run(
        &self,
        mut records: Vec<Record>,
        mut keep: impl FnMut(&Record) -> Result<(), JournalError>,
        mut tick: impl FnMut(usize),
    ) -> Result<Vec<Record>, SweepError> {
        let done: HashSet<(Vec<u32>, usize)> = records.iter().map(|r| (r.point.clone(), r.round)).collect();
        let failure = |r: &&Record| matches!(r.outcome, Outcome::Wrong(_) | Outcome::Failed(_));
        let mut failed: HashSet<Vec<u32>> = records.iter().filter(failure).map(|r| r.point.clone()).collect();
        let mut checked: HashSet<Vec<u32>> = records.iter().map(|r| r.point.clone()).collect();
        let mut kept = Kept::default();
        let mut visited = 0;
        for round in 0..self.rounds {
            for i in self.order(round) {
                visited += 1;
                let point = &self.plan.points[i];
                if failed.contains(&point.values) || done.contains(&(point.values.clone(), round)) {
                    continue;
                }
                let sample = kept.of(self, &point.setting)?;
                let outcome = self.visit(point, sample, checked.insert(point.values.clone()));
                let record = Record { point: point.values.clone(), round, outcome };
                if failure(&&record) {
                    failed.insert(record.point.clone());
                }
                keep(&record)?;
                records.push(record);
                tick(visited);
            }
        }
        Ok(records)
    }

    /// The order of a round.
    fn order(&self, round: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.plan.points.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(round as u64);
        order.shuffle(&mut rng);
        order
    }

    fn visit(&self, point: &Point, (sample, expected): &(Sample, Expected), check: bool) -> Outcome {
        let setting = &point.setting;
        let outcome = if self.backend == Backend::Emulated {
            let Knobs { launch, pipeline, .. } = setting.knobs;
            let config = EmulatedConfig { pipeline, launch, ..EmulatedConfig::default() };
            Work::count(sample, self.tables, self.options, config, expected).map(|work| {
                work.map(|work| Outcome::Work(METRICS.iter().map(|metric| work.per_event(metric)).collect()))
            })
        } else {
            let expected = check.then_some(expected);
            let variant = setting.variant(self.backend, self.mode, sample, self.tables, self.options, expected);
            variant.and_then(|variant| match variant {
                Ok(variant) => variant.warmed()?.repetition().map(|rate| Ok(Outcome::Rate(rate))),
                Err(difference) => Ok(Err(difference)),
            })
        };
        match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(difference)) => Outcome::Wrong(difference),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::axis::parse_all;
    use super::plan::Limits;
    use super::*;
    use crate::Grouping;
    use crate::bench::chip::Chip;
    use crate::decoder::occupancy::Architecture;
    use crate::detector::BankVersion;
    use crate::input::{Bank, BatchBuilder, EventBatch, EventMeta};
    use crate::synth::{Generator, Profile};

    fn with_sweep(backend: Backend, axes: &[&str], rounds: usize, test: impl Fn(&Sweep<'_>)) {
        let (boards, geometry) = crate::synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).unwrap();
        let mut builder = BatchBuilder::new();
        for event in Generator::new(Profile::PpLow, BankVersion::V5, 1).take(3) {
            let bank = |(source_id, payload): &'_ (u16, Vec<u8>)| (u32::from(*source_id), payload.clone());
            let banks: Vec<_> = event.banks.iter().map(bank).collect();
            let banks = banks.iter().map(|(source_id, payload)| Bank {
                kind: 66,
                version: Some(4),
                source_id: *source_id,
                payload,
            });
            builder.push(EventMeta::default(), banks).unwrap();
        }
        let mut events = EventBatch::default();
        builder.finish(&mut events);
        let base = Setting { batch: 3, ..Setting::default() };
        let limits = Limits {
            backend,
            tables: &tables,
            chip: &Chip::of(Architecture::named("sm_86").unwrap()),
            bytes_per_event: 1e4,
            max_bytes: 1e9,
        };
        let plan = Plan::new(parse_all(backend, axes).unwrap(), &base, &limits).unwrap();
        let events = [events];
        let samples = |setting: &Setting| setting.sample(&events, 3);
        test(&Sweep {
            backend,
            tables: &tables,
            options: DecodeOptions::default(),
            plan: &plan,
            rounds,
            seed: 7,
            samples: &samples,
            mode: Mode::DeviceResident,
        });
    }

    fn all(sweep: &Sweep<'_>, before: Vec<Record>) -> (Vec<Record>, usize) {
        let mut new = 0;
        let count = |_: &Record| {
            new += 1;
            Ok(())
        };
        let records = sweep.run(before, count, |_| ()).unwrap();
        (records, new)
    }

    #[test]
    fn each_point_is_visited_once_a_round_in_an_order_of_the_seed() {
        with_sweep(Backend::Emulated, &["count.block_x=32,64,96,128", "batch=1,3"], 3, |sweep| {
            let (records, new) = all(sweep, Vec::new());
            assert_eq!((records.len(), new), (24, 24));
            let order = |round: usize| {
                let of = records.iter().filter(|record| record.round == round);
                of.map(|record| record.point.clone()).collect::<Vec<_>>()
            };
            let sorted = |mut points: Vec<Vec<u32>>| {
                points.sort();
                points
            };
            assert_eq!(sorted(order(0)), sorted(order(1)));
            assert_ne!(order(0), order(1));
            assert_eq!(all(sweep, Vec::new()).0, records, "counts and orders are the same every time");
        });
    }

    #[test]
    fn a_sweep_goes_on_where_it_was() {
        with_sweep(Backend::Emulated, &["count.block_x=32,64,128"], 2, |sweep| {
            let (whole, _) = all(sweep, Vec::new());
            for done in 0..=whole.len() {
                let (records, new) = all(sweep, whole[..done].to_vec());
                assert_eq!(new, whole.len() - done);
                assert_eq!(records, whole);
            }
        });
    }

    #[test]
    fn a_point_that_failed_is_not_tried_again() {
        with_sweep(Backend::Emulated, &["count.block_x=32,64,128"], 2, |sweep| {
            let failed = Record { point: vec![64], round: 0, outcome: Outcome::Wrong("all".to_owned()) };
            let (records, new) = all(sweep, vec![failed.clone()]);
            assert_eq!(new, 4);
            assert_eq!(records.iter().filter(|record| record.point == [64]).collect::<Vec<_>>(), [&failed]);
        });
    }

    #[test]
    fn rates_are_measured_on_the_cpu() {
        with_sweep(Backend::Cpu, &["cpu.simd=scalar"], 1, |sweep| {
            let (records, _) = all(sweep, Vec::new());
            assert!(records.iter().all(|record| matches!(record.outcome, Outcome::Rate(rate) if rate > 0.0)));
            assert!(sweep.probe().unwrap() > Duration::ZERO);
        });
    }

    #[test]
    fn another_sample_than_the_one_expected_is_found_out() {
        with_sweep(Backend::Cpu, &["cpu.chunk=16"], 1, |sweep| {
            let sample = (sweep.samples)(&sweep.plan.points[0].setting).unwrap();
            let mut other = sample.clone();
            other.batches[0].raw.fill(0xFF);
            let expected = Expected::of(&other, sweep.tables, sweep.options).unwrap();
            for check in [true, false] {
                let outcome = sweep.visit(&sweep.plan.points[0], &(sample.clone(), expected.clone()), check);
                assert_eq!(matches!(outcome, Outcome::Wrong(_)), check, "{outcome:?}");
            }
        });
    }
}
