//! The on-line tuner with the store as its memory.

use std::time::Duration;

use tuner::compare::{Plan as Comparing, compare};
use tuner::online::{Driven, OnlineError, Options, Piece, Recalled, Tuner, drive, grid};
use tuner::store::{DeviceIdentity, Locations, Matching, Store, StoreMemory, Task};
use tuner::store::{TunableIdentity, Workload};
use tuner::watch::NoWatch;
use tuner::workloads::Features;
use tuner::{Config, Device, Failure, FailureKind, Outcome, Space, Value};

/// Sixteen configurations, of which `best` is the fastest; times wobble by a fixed 1 %.
struct Bowl {
    best: i64,
    launches: u32,
    used: Vec<i64>,
}

fn number(config: &Config) -> i64 {
    let Value::Int(number) = config.0[0] else { panic!("{config:?}") };
    number
}

impl Device for Bowl {
    fn name(&self) -> String {
        "bowl".into()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let block = number(config);
        self.used.push(block);
        if block == 13 {
            return Outcome::Failed(Failure { kind: FailureKind::Launch, message: "unlucky".into() });
        }
        let mut one = || {
            self.launches += 1;
            let wobble = 0.01 * (f64::from(self.launches.wrapping_mul(2_654_435_769) >> 16) / 65536.0);
            1.0 + 0.1 * (block - self.best).abs() as f64 + wobble
        };
        Outcome::Times((0..launches).map(|_| one()).collect())
    }
}

/// A task with its own store.
struct Place {
    folder: tempfile::TempDir,
    device: DeviceIdentity,
    tunable: TunableIdentity,
    workload: Workload,
    space: Space,
    configs: Vec<Config>,
}

impl Place {
    fn new() -> Self {
        let configs = grid(&[("block", (0..16).map(Value::Int).collect())], |_| true).unwrap();
        let rows: Vec<_> = configs.iter().map(|config| config.0.clone()).collect();
        let (space, _) = Space::recorded(&["block".to_owned()], &rows).unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            device: DeviceIdentity { driver: "1".into(), ..DeviceIdentity::named("bowl", "test") },
            tunable: TunableIdentity::new("bowl", 1),
            workload: Workload::new(),
            space,
            configs,
        }
    }

    fn locations(&self) -> Locations {
        Locations { user: self.folder.path().join("tune.sqlite"), matching: Matching::Nearest }
    }

    fn memory(&self) -> StoreMemory<'_> {
        let task = Task { device: &self.device, tunable: &self.tunable, workload: &self.workload, space: &self.space };
        StoreMemory::new(self.locations(), task, self.configs[0].clone())
    }

    fn tuner(&self) -> Tuner {
        Tuner::new(self.configs.clone(), 0, Options::default()).unwrap()
    }

    fn store(&self) -> Store {
        Store::open(&self.locations().user).unwrap()
    }

    /// Returns what a lookup of this task finds.
    fn found(&self) -> Option<i64> {
        let task = Task { device: &self.device, tunable: &self.tunable, workload: &self.workload, space: &self.space };
        let found = self.locations().find(&task).unwrap();
        found.first().map(|found| number(&found.config))
    }
}

fn work(tuner: &Tuner, best: i64, launches: usize) -> (Driven, Vec<i64>) {
    let mut bowl = Bowl { best, launches: 0, used: Vec::new() };
    let mut one = || {
        let mut pieces = [Piece { device: &mut bowl, looks: Features::default() }];
        drive(&mut tuner.clone().into(), &mut pieces, 1, Duration::ZERO, |_| {}).unwrap().of.remove(0)
    };
    let mut driven = one();
    for _ in 1..launches {
        driven = one();
    }
    (driven, bowl.used)
}

#[test]
fn a_second_run_starts_from_the_first_ones_result() {
    let place = Place::new();
    let (tuner, mut memory) = (place.tuner(), place.memory());
    assert_eq!(tuner.start_from(&mut memory).unwrap(), None);
    let (driven, _) = work(&tuner, 9, 400);
    assert!(driven.complete && number(&driven.chosen) == 9);
    assert!(tuner.report_to(&mut memory).unwrap());
    let kept = memory.kept().unwrap();
    assert_eq!(kept.decided.as_ref().map(number), Some(9));
    assert!(kept.verdict.starts_with("better than the default: "), "{}", kept.verdict);

    // The run has every sample, and the failure; any other lookup finds the decision.
    let record = place.store().run_record(kept.run).unwrap();
    let evidence = record.decision.unwrap();
    assert_eq!((evidence.tried, evidence.failed, number(&evidence.chosen.config)), (16, 1, 9));
    assert_eq!(record.measurements.len(), 16);
    assert!(evidence.default.unwrap().time_ms > 1.8 && evidence.runner_up.unwrap().time_ms > evidence.chosen.time_ms);
    assert_eq!(place.found(), Some(9));

    let (second, mut memory) = (place.tuner(), place.memory());
    let used = second.start_from(&mut memory).unwrap();
    assert_eq!(used, Some(Recalled::Exact(place.configs[9].clone())));
    let (driven, used) = work(&second, 9, 100);
    assert!(driven.complete && used.iter().all(|used| *used == 9), "{used:?}");
    // It has learned nothing, and keeps nothing.
    assert!(second.report_to(&mut memory).unwrap() && memory.kept().is_none());
    assert_eq!(place.store().runs().unwrap().len(), 1);
}

#[test]
fn a_nearest_result_is_checked_before_it_is_trusted() {
    let mut place = Place::new();
    let (tuner, mut memory) = (place.tuner(), place.memory());
    work(&tuner, 9, 400);
    tuner.report_to(&mut memory).unwrap();

    place.device.driver = "2".into();
    let (tuner, mut memory) = (place.tuner(), place.memory());
    let used = tuner.start_from(&mut memory).unwrap();
    let relaxed = "driver 1 instead of 2".to_owned();
    assert_eq!(used, Some(Recalled::Nearest { config: place.configs[9].clone(), relaxed }));
    assert!(!tuner.is_complete() && number(&tuner.best()) == 9);
    // Here another one is best, which the first scan finds.
    work(&tuner, 4, 400);
    assert_eq!((tuner.is_complete(), number(&tuner.best())), (true, 4));
    tuner.report_to(&mut memory).unwrap();
    assert_eq!(place.found(), Some(4));
    place.device.driver = "1".into();
    assert_eq!(place.found(), Some(9), "the other driver keeps its own");
}

#[test]
fn a_comparison_with_the_default_has_the_last_word() {
    let place = Place::new();
    let (tuner, mut memory) = (place.tuner(), place.memory());
    work(&tuner, 9, 400);
    // Meanwhile the machine has changed, and the default is best.
    let mut bowl = Bowl { best: 0, launches: 0, used: Vec::new() };
    let (default, chosen) = (&place.configs[0], &place.configs[9]);
    memory.confirm(compare(&mut bowl, default, chosen, &Comparing::default(), &mut NoWatch).unwrap());
    tuner.report_to(&mut memory).unwrap();
    let kept = memory.kept().unwrap();
    assert!(kept.verdict.starts_with("the default stays"), "{}", kept.verdict);
    assert_eq!((kept.decided.as_ref().map(number), place.found()), (Some(0), Some(0)));
    // Its samples are kept, too: ten blocks of two sides.
    assert_eq!(place.store().observations(kept.run).unwrap().len(), 16 + 20);
}

#[test]
fn without_evidence_nothing_is_decided_and_the_samples_stay() {
    let place = Place::new();
    let (tuner, mut memory) = (place.tuner(), place.memory());
    work(&tuner, 9, 400);
    let mut bowl = Bowl { best: 9, launches: 0, used: Vec::new() };
    let (default, chosen) = (&place.configs[0], &place.configs[9]);
    let mut comparison = compare(&mut bowl, default, chosen, &Comparing::default(), &mut NoWatch).unwrap();
    comparison.judgement.verdict = tuner::verdict::Verdict::CannotTell(tuner::verdict::Reason::Throttled);
    memory.confirm(comparison);
    tuner.report_to(&mut memory).unwrap();
    let kept = memory.kept().unwrap();
    assert_eq!((kept.decided.clone(), place.found()), (None, None));
    assert!(kept.verdict.contains("cannot tell: throttled or disturbed"), "{}", kept.verdict);
    assert!(!place.store().observations(kept.run).unwrap().is_empty());
}

#[test]
fn a_store_that_cannot_be_read_or_written_stops_nothing() {
    let place = Place::new();
    let file = place.locations().user;
    let broken = |result: Result<(), OnlineError>, part: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    std::fs::write(&file, "my notes").unwrap();
    let (tuner, mut memory) = (place.tuner(), place.memory());
    broken(tuner.start_from(&mut memory).map(|_| ()), "not an SQLite file");
    let (driven, _) = work(&tuner, 9, 400);
    assert!(driven.complete && number(&driven.chosen) == 9);
    broken(tuner.report_to(&mut memory).map(|_| ()), "not an SQLite file");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "my notes");

    std::fs::remove_file(&file).unwrap();
    assert!(tuner.report_to(&mut memory).unwrap(), "later it works");
    assert_eq!(place.found(), Some(9));
}
