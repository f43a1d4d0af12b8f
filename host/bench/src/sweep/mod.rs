//! Measures every combination of some parameters' values: the tuner's exhaustive search in rounds.
//!
//! A visit makes the decoder anew, warms it up and times one repetition. A point's first hits and reports are compared
//! with the reference's; with other bits it is out, and named. The `emulated` backend counts the work, once, as counts
//! do not spread.

pub mod axis;
mod page;
pub mod plan;
pub mod report;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::plan::{Plan, Point};
use super::decoding::variant;
use super::modes::Mode;
use super::sample::{Expected, Sample};
use super::timing::REPETITION;
use super::work::{METRICS, Work};
use tuner::rounds::Rounds;
use tuner::session::TuneError;
use tuner::store::{DeviceIdentity, Store, StoreError, Task, TunableIdentity, Workload};
use tuner::{Config, Device, Failure, FailureKind, Outcome};
use ut_data::detector::DetectorTables;
use ut_data::input::Layout;
use ut_decoders::emulated::EmulatedConfig;
use ut_decoders::{Backend, DecodeError, DecodeOptions, Parameters};

/// Number of batch sizes and layouts whose sample and expected hits are kept.
const KEPT_SAMPLES: usize = 4;

/// Reason for ending a sweep early.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum SweepError {
    #[error(transparent)]
    Journal(#[from] TuneError),
    #[error(
        "{file} belongs to another sweep: its {what} is {there}, now it would be {here}; choose another folder, or remove this one"
    )]
    Other { file: String, what: String, there: String, here: String },
    #[error("batches of {batch} events: {message}")]
    Sample { batch: usize, message: String },
    #[error("the reference")]
    Reference(#[source] DecodeError),
    /// The default does not decode as the reference does: nothing can be compared with it.
    #[error("the default fails: {0}")]
    Default(String),
}

/// Makes the sample in the batches of a configuration.
pub type Samples<'a> = dyn Fn(&Parameters) -> Result<Sample, String> + 'a;

/// A sweep.
#[expect(missing_docs, reason = "the names say it")]
pub struct Sweep<'a> {
    pub backend: Backend,
    pub tables: &'a DetectorTables,
    pub options: DecodeOptions,
    pub plan: &'a Plan,
    /// Number of rounds; counted work needs one.
    pub rounds: usize,
    /// Seed of the orders.
    pub seed: u64,
    pub samples: &'a Samples<'a>,
    pub mode: Mode,
}

/// Samples by batch size and layout, with their expected hits.
#[derive(Default)]
struct Kept {
    samples: HashMap<(usize, bool), (Sample, Expected)>,
}

impl Kept {
    fn of(&mut self, sweep: &Sweep<'_>, parameters: &Parameters) -> Result<&(Sample, Expected), SweepError> {
        let batch = parameters.batch() as usize;
        let key = (batch, parameters.layout() == Layout::Mep);
        if !self.samples.contains_key(&key) {
            if self.samples.len() >= KEPT_SAMPLES {
                self.samples.clear();
            }
            let sample = (sweep.samples)(parameters).map_err(|message| SweepError::Sample { batch, message })?;
            let expected = Expected::of(&sample, sweep.tables, sweep.options).map_err(SweepError::Reference)?;
            self.samples.insert(key, (sample, expected));
        }
        Ok(&self.samples[&key])
    }
}

impl From<StoreError> for SweepError {
    fn from(error: StoreError) -> Self {
        Self::Journal(error.into())
    }
}

/// Measurements of a sweep so far, in a store of the tuner, so that a killed sweep continues.
#[derive(Debug)]
pub struct Journal {
    file: PathBuf,
    device: DeviceIdentity,
    tunable: TunableIdentity,
    workload: Workload,
}

impl Journal {
    /// Opens or makes the journal at `path` for a sweep of `plan` described by `facts`.
    pub fn open(path: &Path, plan: &Plan, mut facts: BTreeMap<String, String>) -> Result<Self, SweepError> {
        let store = Store::open(path)?;
        facts.insert("axes".to_owned(), plan.axes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        facts.insert("default".to_owned(), format!("{:?}", plan.points[plan.default].values));
        let mut workload = Workload::new();
        for (name, value) in facts {
            workload = workload.with(name, value)?;
        }
        for run in store.runs()? {
            let there = run.record.workload;
            let names = workload.keys().keys().chain(there.keys().keys());
            let other = names.into_iter().find(|name| workload.keys().get(*name) != there.keys().get(*name));
            if let Some(name) = other {
                let text =
                    |of: &Workload| of.keys().get(name).map_or_else(|| "missing".to_owned(), ToString::to_string);
                return Err(SweepError::Other {
                    file: path.display().to_string(),
                    what: name.clone(),
                    there: text(&there),
                    here: text(&workload),
                });
            }
        }
        let (device, tunable) = (DeviceIdentity::named("this machine", "sweep"), TunableIdentity::new("sweep", 1));
        Ok(Self { file: path.to_owned(), device, tunable, workload })
    }

    fn task<'a>(&'a self, plan: &'a Plan) -> Task<'a> {
        Task { device: &self.device, tunable: &self.tunable, workload: &self.workload, space: &plan.space }
    }
}

/// The points of a sweep as a device of the tuner. Times are in ms an event; on the emulated backend they are the
/// counts of [`METRICS`].
struct Points<'s> {
    sweep: &'s Sweep<'s>,
    kept: Kept,
    checked: HashSet<Vec<u32>>,
}

impl Device for Points<'_> {
    fn name(&self) -> String {
        self.sweep.backend.name().to_owned()
    }

    fn measure(&mut self, config: &Config, _: usize) -> Outcome {
        let failed = |kind, message| Outcome::Failed(Failure { kind, message });
        let Some(point) = self.sweep.plan.point_of(config) else {
            return failed(FailureKind::Constraint, "not a point of the sweep".to_owned());
        };
        match self.kept.of(self.sweep, &point.parameters) {
            Ok(sample) => self.sweep.visit(point, sample, self.checked.insert(point.values.clone())),
            Err(error) => failed(FailureKind::Launch, error.to_string()),
        }
    }
}

impl Sweep<'_> {
    fn search<'a>(&'a self, journal: &'a Journal) -> Rounds<'a> {
        let launches = if self.backend == Backend::Emulated { METRICS.len() } else { 1 };
        Rounds { task: journal.task(self.plan), rounds: self.rounds, launches, seed: self.seed }
    }

    /// Number of measurements if no point fails.
    pub fn visits(&self) -> usize {
        self.plan.points.len() * self.rounds
    }

    /// Number of measurements in the journal.
    pub fn done(&self, journal: &Journal) -> Result<usize, SweepError> {
        let mut store = Store::open(&journal.file)?;
        Ok(self.search(journal).done(&mut store)?)
    }

    /// Times a visit by the default.
    pub fn probe(&self) -> Result<Duration, SweepError> {
        let mut kept = Kept::default();
        let point = &self.plan.points[self.plan.default];
        let sample = kept.of(self, &point.parameters)?;
        let start = Instant::now();
        match self.visit(point, sample, true) {
            Outcome::Times(_) => Ok(start.elapsed()),
            Outcome::Failed(failure) => Err(SweepError::Default(failure.message)),
        }
    }

    /// Makes the measurements that the journal lacks. Returns the outcomes of each point, round by round, in the order
    /// of the plan. `tick` gets the number of [`visits`](Self::visits) done.
    ///
    /// # Errors
    /// If the journal cannot be written, or the default fails. Another point that fails is an outcome.
    pub fn run(&self, journal: &Journal, mut tick: impl FnMut(usize)) -> Result<Vec<Vec<Outcome>>, SweepError> {
        let mut store = Store::open(&journal.file)?;
        let mut points = Points { sweep: self, kept: Kept::default(), checked: HashSet::new() };
        let mut tell = |visited: usize| {
            tick(visited);
            true
        };
        let found = self.search(journal).measure(&mut points, &mut store, &mut tell)?;
        let mut outcomes = vec![Vec::new(); self.plan.points.len()];
        for (index, of_point) in found.into_iter().enumerate() {
            outcomes[self.plan.places[index]] = of_point;
        }
        Ok(outcomes)
    }

    fn visit(&self, point: &Point, (sample, expected): &(Sample, Expected), check: bool) -> Outcome {
        let parameters = &point.parameters;
        let outcome = if self.backend == Backend::Emulated {
            Work::count(sample, self.tables, self.options, EmulatedConfig::of(parameters), expected)
                .map(|work| work.map(|work| METRICS.iter().map(|metric| work.per_event(metric)).collect()))
        } else {
            let expected = check.then_some(expected);
            let of = (self.tables, self.options);
            let variant = variant(self.backend, self.mode, parameters, sample, of, expected);
            variant.and_then(|variant| match variant {
                Ok(variant) => variant.warmed(REPETITION)?.repetition().map(|rate| Ok(vec![1e3 / rate])),
                Err(difference) => Ok(Err(difference)),
            })
        };
        let failed = |kind, message| Outcome::Failed(Failure { kind, message });
        match outcome {
            Ok(Ok(values)) => Outcome::Times(values),
            Ok(Err(difference)) => failed(FailureKind::WrongResult, difference),
            Err(error) => failed(FailureKind::Launch, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decoding::laid_out;
    use super::super::sample::synthetic;
    use super::axis::parse_all;
    use super::plan::Limits;
    use super::*;
    use crate::chip::Chip;
    use ut_data::Grouping;
    use ut_data::detector::BankVersion;
    use ut_data::synth::Profile;
    use ut_decoders::occupancy::Architecture;

    fn with_sweep(backend: Backend, axes: &[&str], rounds: usize, test: impl Fn(&Sweep<'_>)) {
        let tables = DetectorTables::synthetic(BankVersion::V5, Grouping::default());
        let base = Parameters::default().with_batches(3, Layout::Allen);
        let limits = Limits {
            backend,
            tables: &tables,
            chip: &Chip::of(Architecture::named("sm_86").unwrap()),
            bytes_per_event: 1e4,
            max_bytes: 1e9,
        };
        let plan = Plan::new(parse_all(backend, axes).unwrap(), &base, &limits).unwrap();
        let events = [synthetic(Profile::PpLow, 3)];
        let samples = |parameters: &Parameters| laid_out(parameters, &events, 3);
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

    fn journal(folder: &tempfile::TempDir, plan: &Plan) -> Journal {
        Journal::open(&folder.path().join("journal.sqlite"), plan, BTreeMap::new()).unwrap()
    }

    fn all(sweep: &Sweep<'_>) -> Vec<Vec<Outcome>> {
        let folder = tempfile::tempdir().unwrap();
        sweep.run(&journal(&folder, sweep.plan), |_| ()).unwrap()
    }

    #[test]
    fn each_point_is_visited_once_a_round_and_counts_are_the_same_every_time() {
        with_sweep(Backend::Emulated, &["count.block_x=32,64,96,128", "batch=1,3"], 3, |sweep| {
            let outcomes = all(sweep);
            assert_eq!(outcomes.len(), 8);
            assert!(outcomes.iter().all(|rounds| rounds.len() == 3 && rounds[0] == rounds[2]), "{outcomes:?}");
            assert!(matches!(&outcomes[0][0], Outcome::Times(counts) if counts.len() == METRICS.len()));
            assert_eq!(all(sweep), outcomes);
        });
    }

    #[test]
    fn a_sweep_goes_on_where_it_was_and_takes_more_rounds() {
        with_sweep(Backend::Emulated, &["count.block_x=32,64,128"], 2, |sweep| {
            let folder = tempfile::tempdir().unwrap();
            let journal = journal(&folder, sweep.plan);
            let one = Sweep { rounds: 1, ..*sweep };
            assert_eq!(one.run(&journal, |_| ()).unwrap().concat().len(), 3);
            assert_eq!(sweep.done(&journal).unwrap(), 3);
            assert_eq!(sweep.run(&journal, |_| ()).unwrap(), all(sweep));
            assert_eq!(sweep.done(&journal).unwrap(), 6);
        });
    }

    #[test]
    fn another_sample_than_the_one_expected_is_found_out() {
        with_sweep(Backend::Cpu, &["cpu.simd=scalar"], 1, |sweep| {
            let sample = (sweep.samples)(&sweep.plan.points[0].parameters).unwrap();
            let mut other = sample.clone();
            other.batches[0].raw.fill(0xFF);
            let expected = Expected::of(&other, sweep.tables, sweep.options).unwrap();
            for check in [true, false] {
                let outcome = sweep.visit(&sweep.plan.points[0], &(sample.clone(), expected.clone()), check);
                let wrong = matches!(&outcome, Outcome::Failed(failure) if failure.kind == FailureKind::WrongResult);
                assert_eq!(wrong, check, "{outcome:?}");
            }
        });
    }
}
