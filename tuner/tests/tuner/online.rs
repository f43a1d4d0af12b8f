//! The on-line tuner at work on synthetic devices with fixed seeds.
//!
//! The rates are printed (`-- --nocapture`): they are the tables of the documentation.

use chacha20::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, StandardNormal};
use std::cell::Cell;
use std::rc::Rc;
use tuner::online::{Again, Elapsed, Event, Options, Progress, Tuner, Worker, grid};
use tuner::{Config, Failure, FailureKind, Value};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// Normal, with this relative spread.
    Normal(f64),
    /// Normal 0.5 %, and one launch in fifty takes five times as long.
    Spikes,
    /// 0.3 %, and one launch in four takes 12 % longer.
    TwoModes,
    /// 0.3 %, on a clock that goes its own way by 2 % in stretches of 25 launches.
    Wandering,
}

/// A device with 8 x 8 configurations whose times are a bowl around an optimum, at least 3 % apart
/// from the second best.
pub(crate) struct Machine {
    pub(crate) optimum: (i64, i64),
    noise: Noise,
    lot: ChaCha8Rng,
    pub(crate) launches: Rc<Cell<u64>>,
    latency: u64,
    level: f64,
}

/// Finished once the machine has made `due` launches.
pub(crate) struct Later {
    due: u64,
    launches: Rc<Cell<u64>>,
    time: f64,
}

impl Event for Later {
    fn poll(&mut self) -> Progress {
        if self.launches.get() >= self.due {
            Progress::Done(self.time)
        } else {
            Progress::Running
        }
    }
}

impl Machine {
    pub(crate) fn new(optimum: (i64, i64), noise: Noise, latency: u64, seed: u64) -> Self {
        let lot = ChaCha8Rng::seed_from_u64(seed);
        Self {
            optimum,
            noise,
            lot,
            launches: Rc::new(Cell::new(0)),
            latency,
            level: 1.0,
        }
    }

    pub(crate) fn truth(&self, config: &Config) -> f64 {
        let [Value::Int(x), Value::Int(y)] = config.0[..] else {
            panic!("{config:?}")
        };
        let (dx, dy) = ((x - self.optimum.0) as f64, (y - self.optimum.1) as f64);
        self.level * (1.0 + 0.03 * dx.abs() + 0.04 * dy.abs() + 0.01 * dx * dx)
    }

    fn best(&self) -> f64 {
        self.level
    }

    pub(crate) fn launch(&mut self, config: &Config) -> Later {
        let count = self.launches.get() + 1;
        self.launches.set(count);
        let z: f64 = StandardNormal.sample(&mut self.lot);
        let factor = match self.noise {
            Noise::Normal(spread) => 1.0 + spread * z,
            Noise::Spikes => {
                (1.0 + 0.005 * z)
                    * if self.lot.random_range(0..50) == 0 {
                        5.0
                    } else {
                        1.0
                    }
            }
            Noise::TwoModes => {
                (1.0 + 0.003 * z)
                    * if self.lot.random_range(0..4) == 0 {
                        1.12
                    } else {
                        1.0
                    }
            }
            Noise::Wandering => (1.0 + 0.003 * z) * if (count / 25) % 7 < 3 { 1.02 } else { 1.0 },
        };
        Later {
            due: count + self.latency,
            launches: Rc::clone(&self.launches),
            time: self.truth(config) * factor.max(0.1),
        }
    }
}

pub(crate) fn eight_by_eight() -> Vec<Config> {
    let axis = || (0..8).map(Value::Int).collect::<Vec<_>>();
    grid(&[("block", axis()), ("items", axis())], |_| true).unwrap()
}

/// Seeds of each noise; TUNER_SEEDS asks for more.
pub(crate) fn seeds() -> u64 {
    std::env::var("TUNER_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10)
}

/// Launches until a new tuner is complete; the number of launches.
pub(crate) fn first_tuning(machine: &mut Machine, options: Options) -> (Tuner, Worker<Later>, u64) {
    let tuner = Tuner::new(eight_by_eight(), 0, options).unwrap();
    let (mut worker, mut launches) = (tuner.worker(), 0);
    while !tuner.is_complete() {
        let config = worker.begin().clone();
        worker.end(machine.launch(&config));
        launches += 1;
        assert!(launches < 10_000, "the first tuning does not end");
    }
    (tuner, worker, launches)
}

/// Cost of many launches.
#[derive(Debug, Default)]
pub(crate) struct Toll {
    /// Share of launches whose configuration was slower than the best by more than 1 %.
    off: f64,
    /// Mean relative loss a launch.
    regret: f64,
}

pub(crate) fn run(launches: u64, worker: &mut Worker<Later>, machine: &mut Machine) -> Toll {
    let mut toll = Toll::default();
    for _ in 0..launches {
        let config = worker.begin().clone();
        worker.end(machine.launch(&config));
        let loss = machine.truth(&config) / machine.best() - 1.0;
        toll.off += f64::from(loss > 0.01) / launches as f64;
        toll.regret += loss / launches as f64;
    }
    toll
}

#[test]
fn after_convergence_few_launches_are_off_the_optimum_and_the_regret_is_small() {
    for noise in [
        Noise::Normal(0.001),
        Noise::Normal(0.01),
        Noise::Normal(0.03),
        Noise::Spikes,
        Noise::TwoModes,
        Noise::Wandering,
    ] {
        let (mut off, mut regret) = (Vec::new(), Vec::new());
        for seed in 0..seeds() {
            let mut machine = Machine::new((5, 2), noise, seed % 4, seed);
            let options = Options::default()
                .with_again(Again::AfterLaunches(300_000))
                .with_seed(seed);
            let (tuner, mut worker, _) = first_tuning(&mut machine, options);
            let toll = run(310_000, &mut worker, &mut machine);
            assert!(
                tuner.counters().scans > 1,
                "scans come with the period: {:?}",
                tuner.counters()
            );
            off.push(toll.off);
            regret.push(toll.regret);
        }
        off.sort_by(f64::total_cmp);
        regret.sort_by(f64::total_cmp);
        let (mean, last) = (
            regret.iter().sum::<f64>() / regret.len() as f64,
            regret.len() - 1,
        );
        eprintln!(
            "{noise:?}: launches off the optimum: median {:.3} %, worst {:.3} %; regret: mean {:.4} %, worst {:.4} %",
            100.0 * off[last / 2],
            100.0 * off[last],
            100.0 * mean,
            100.0 * regret[last]
        );
        assert!(mean <= 0.01, "{noise:?}: {mean}");
        assert!(
            off[last] <= 0.002 && regret[last] <= 0.01,
            "{noise:?}: {off:?} {regret:?}"
        );
    }
}

#[test]
fn a_step_of_the_workload_is_recovered_from_within_twice_the_first_tuning() {
    for noise in [
        Noise::Normal(0.001),
        Noise::Normal(0.02),
        Noise::Spikes,
        Noise::TwoModes,
        Noise::Wandering,
    ] {
        let mut worst = 0.0_f64;
        // With seed 16 two of the samples of the configuration in use are spikes, which hides no
        // drift.
        for seed in (0..seeds()).chain([16]) {
            let mut machine = Machine::new((5, 2), noise, seed % 4, seed);
            let (tuner, mut worker, first) =
                first_tuning(&mut machine, Options::default().with_seed(seed));
            run(5_000, &mut worker, &mut machine);
            // Another workload: everything takes longer, and the optimum is elsewhere.
            (machine.optimum, machine.level) = ((1, 6), 1.3);
            let mut needed = 0;
            while machine.truth(&tuner.best()) > 1.01 * machine.best() || tuner.is_scanning() {
                run(1, &mut worker, &mut machine);
                needed += 1;
                assert!(needed < 100 * first, "{noise:?}, seed {seed}: never");
            }
            worst = worst.max(needed as f64 / first as f64);
            let toll = run(50_000, &mut worker, &mut machine);
            assert!(toll.off <= 0.002, "{noise:?}, seed {seed}: {toll:?}");
        }
        eprintln!("{noise:?}: recovered within {worst:.2} of the first tuning");
        assert!(worst <= 2.0, "{noise:?}: {worst}");
    }
}

#[test]
fn a_change_of_level_alone_is_learned_to_be_harmless() {
    let mut machine = Machine::new((5, 2), Noise::Normal(0.005), 2, 1);
    let (tuner, mut worker, _) = first_tuning(&mut machine, Options::default());
    let mut launches = 0;
    // A clock that goes up and down every 2000 launches never changes which configuration is best.
    for half in 0..100 {
        machine.level = if half % 2 == 0 { 1.0 } else { 1.2 };
        run(2_000, &mut worker, &mut machine);
        launches += 2_000;
    }
    let counters = tuner.counters();
    let share = counters.explored_after as f64 / f64::from(launches);
    eprintln!(
        "a clock in two gears: {} drift scans in {launches} launches, {:.2} % explored",
        counters.drifts,
        100.0 * share
    );
    assert!((1..=2).contains(&counters.drifts), "{counters:?}");
    assert_eq!(machine.truth(&tuner.best()), machine.level);
}

pub(crate) fn three() -> Vec<Config> {
    (0..3).map(|i| Config(vec![Value::Int(i)])).collect()
}

pub(crate) fn number(config: &Config) -> i64 {
    let Value::Int(i) = config.0[0] else { panic!() };
    i
}

/// Launches until the first tuning is complete; `time` gives the time of a configuration's launch
/// by its number.
pub(crate) fn finish(tuner: &Tuner, time: impl Fn(i64) -> f64) {
    let mut worker = tuner.worker();
    while !tuner.is_complete() {
        let i = number(worker.begin());
        worker.end(Elapsed(time(i)));
    }
}

#[test]
fn a_scan_samples_every_configuration_once_before_it_samples_any_twice() {
    let options = Options::default().with_samples(4).with_run_off(0);
    let tuner = Tuner::new(three(), 0, options).unwrap();
    let mut worker = tuner.worker();
    for _ in 0..4 {
        let mut sweep: Vec<i64> = Vec::new();
        for _ in 0..3 {
            let i = number(worker.begin());
            assert!(worker.is_timed());
            worker.end(Elapsed(1.0 + i as f64));
            sweep.push(i);
        }
        sweep.sort_unstable();
        assert_eq!(sweep, [0, 1, 2]);
    }
    worker.poll();
    assert!(tuner.is_complete());
    assert_eq!(number(&tuner.best()), 0);
    let others = tuner.report().unwrap().others;
    assert_eq!(
        others,
        [1, 2].map(|i| (three()[i].clone(), vec![1.0 + i as f64; 4]))
    );
}

#[test]
fn the_default_stays_within_the_zone_of_indifference() {
    let tuner = Tuner::new(three(), 1, Options::default()).unwrap();
    finish(&tuner, |i| if i == 1 { 1.0009 } else { 1.0 });
    assert_eq!(number(&tuner.best()), 1);
}

#[test]
fn unfinished_launches_hold_nothing_up_and_lost_ones_are_repeated() {
    /// Never finishes before the test says so.
    struct Held(Rc<Cell<Option<Progress>>>);
    impl Event for Held {
        fn poll(&mut self) -> Progress {
            self.0.get().unwrap_or(Progress::Running)
        }
    }
    let tuner = Tuner::new(
        three(),
        0,
        Options::default().with_samples(2).with_run_off(0),
    )
    .unwrap();
    let mut worker = tuner.worker();
    let state = Rc::new(Cell::new(None));
    for launch in 0..1000 {
        let config = number(worker.begin());
        // The six samples are in flight; until they are back the default is used.
        assert!(launch < 6 || config == 0);
        worker.end(Held(Rc::clone(&state)));
    }
    assert!(!tuner.is_complete());
    state.set(Some(Progress::Lost));
    worker.poll();
    state.set(None);
    let repeated: Vec<i64> = (0..6)
        .map(|_| {
            let i = number(worker.begin());
            worker.end(Held(Rc::clone(&state)));
            i
        })
        .collect();
    assert_eq!(
        repeated.iter().filter(|i| **i == 2).count(),
        2,
        "{repeated:?}"
    );
    state.set(Some(Progress::Done(1.0)));
    worker.poll();
    assert!(tuner.is_complete());
}

#[test]
fn a_configuration_without_times_is_given_up_and_the_others_go_on() {
    struct Never(i64);
    impl Event for Never {
        fn poll(&mut self) -> Progress {
            if self.0 == 1 {
                Progress::Lost
            } else {
                Progress::Done(3.0 - self.0 as f64)
            }
        }
    }
    let tuner = Tuner::new(three(), 1, Options::default()).unwrap();
    let mut worker = tuner.worker();
    for _ in 0..200 {
        let i = number(worker.begin());
        worker.end(Never(i));
    }
    assert!(tuner.is_complete());
    assert_eq!(
        (number(&tuner.best()), tuner.report().unwrap().failed.len()),
        (2, 1)
    );
    // Where all fail, the default is left, and the tuner says so.
    let tuner = Tuner::new(three(), 1, Options::default()).unwrap();
    let mut worker = tuner.worker::<Elapsed>();
    for _ in 0..10 {
        worker.begin();
        worker.fail(Failure {
            kind: FailureKind::Launch,
            message: "no".into(),
        });
    }
    assert!(!tuner.is_complete() && !tuner.is_scanning() && tuner.report().is_none());
    assert_eq!(
        (
            number(&tuner.best()),
            tuner.failure().unwrap().message.as_str()
        ),
        (1, "no")
    );
}

#[test]
fn failing_and_wrong_configurations_are_never_used_again_and_are_named() {
    for default in 0..3 {
        let tuner = Tuner::new(three(), default, Options::default()).unwrap();
        let mut worker = tuner.worker();
        let mut failed = 0;
        for _ in 0..500 {
            let i = number(worker.begin());
            if i == 1 {
                failed += 1;
                worker.fail(Failure {
                    kind: FailureKind::WrongResult,
                    message: "hit 3 differs".into(),
                });
            } else {
                worker.end(Elapsed(if i == 0 { 2.0 } else { 1.0 }));
            }
        }
        assert_eq!((failed, number(&tuner.best())), (1, 2));
        let report = tuner.report().unwrap();
        assert_eq!(report.failed.len(), 1);
        assert_eq!(
            (number(&report.failed[0].0), report.failed[0].1.kind),
            (1, FailureKind::WrongResult)
        );
        assert!(
            tuner
                .set(&three()[1])
                .unwrap_err()
                .to_string()
                .ends_with(" failed before: hit 3 differs")
        );
    }
}

#[test]
fn grids_are_filtered_and_bounded() {
    let axis = |n: i64| (1..=n).map(Value::Int).collect::<Vec<_>>();
    let product = |c: &Config| {
        c.0.iter()
            .map(|v| if let Value::Int(i) = v { *i } else { 0 })
            .product::<i64>()
    };
    let configs = grid(&[("x", axis(8)), ("y", axis(8)), ("z", axis(2))], |c| {
        product(c) <= 8
    })
    .unwrap();
    assert!(configs.len() > 10 && configs.iter().all(|c| c.0.len() == 3 && product(c) <= 8));
    let refused = |dimensions: &[(&str, Vec<Value>)], valid: bool| {
        grid(dimensions, |_| valid).unwrap_err().to_string()
    };
    assert!(refused(&[("x", axis(8))], false).contains("no configuration is valid"));
    assert!(refused(&[("x", Vec::new())], true).contains("no configuration is valid"));
    assert!(refused(&[("x", axis(1000)), ("y", axis(1000))], true).contains("1000000 or more"));
    assert!(Tuner::new(Vec::new(), 0, Options::default()).is_err());
    assert!(Tuner::new(three(), 3, Options::default()).is_err());
    let single = Tuner::new(three()[..1].to_vec(), 0, Options::default()).unwrap();
    finish(&single, |_| 1.0);
}

#[test]
fn several_workers_share_samples() {
    let tuner = Tuner::new(eight_by_eight(), 0, Options::default()).unwrap();
    let launches = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (tuner, launches) = (tuner.clone(), &launches);
            scope.spawn(move || {
                let machine = Machine::new((5, 2), Noise::Normal(0.0), 0, thread);
                let mut worker = tuner.worker();
                while !tuner.is_complete() {
                    let config = worker.begin().clone();
                    worker.end(Elapsed(machine.truth(&config)));
                    launches.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(tuner.best(), Config(vec![Value::Int(5), Value::Int(2)]));
    let explored = tuner.counters().explored;
    // 64 configurations x 5 samples and 8 x 10 of the run-off, together and not each.
    assert!(explored <= 64 * 5 + 8 * 10, "{explored}");
}

#[test]
fn a_worker_that_stops_with_work_in_flight_does_not_block_the_others() {
    let tuner = Tuner::new(
        three(),
        0,
        Options::default().with_samples(1).with_run_off(0),
    )
    .unwrap();
    {
        let mut leaving = tuner.worker::<Later>();
        let mut machine = Machine::new((5, 2), Noise::Normal(0.0), 1000, 1);
        for _ in 0..2 {
            leaving.begin();
            let event = machine.launch(&Config(vec![Value::Int(1), Value::Int(1)]));
            leaving.end(event);
        }
        leaving.begin();
    }
    let mut staying = tuner.worker();
    for _ in 0..4 {
        let i = number(staying.begin());
        staying.end(Elapsed(2.0 + i as f64));
    }
    staying.poll();
    assert!(tuner.is_complete());
}

#[test]
fn work_makes_launches_of_different_size_comparable() {
    let tuner = Tuner::new(three(), 0, Options::default()).unwrap();
    let mut worker = tuner.worker();
    let mut lot = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..200 {
        let i = number(worker.begin());
        let events = f64::from(lot.random_range(0..1000_u32));
        worker.end_of(Elapsed(events * (1.1 - 0.05 * i as f64)), events);
    }
    assert!(tuner.is_complete());
    assert_eq!(number(&tuner.best()), 2);
}

#[test]
fn an_exact_match_is_used_at_once_and_the_nearest_match_is_checked() {
    let config = three()[1].clone();
    let tuner = Tuner::new(three(), 0, Options::default()).unwrap();
    tuner.set(&config).unwrap();
    assert!(tuner.is_complete() && tuner.best() == config);
    assert!(
        tuner.report().unwrap().samples.is_empty(),
        "it has learned nothing"
    );
    let tuner = Tuner::new(three(), 0, Options::default()).unwrap();
    tuner.prefer(&config).unwrap();
    assert!(!tuner.is_complete() && tuner.report().is_none() && tuner.best() == config);
    finish(&tuner, |i| 3.0 - i as f64);
    let report = tuner.report().unwrap();
    assert_eq!(number(&report.config), 2, "checked, and found wanting");
    assert!(!report.samples.is_empty() && report.others.len() == 2);
    let stranger = Config(vec![Value::Int(7)]);
    assert!(tuner.set(&stranger).is_err(), "the space has changed since");
}
