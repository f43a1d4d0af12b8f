//! Whole tunings: the result, the stored decision, and interruptions, which change nothing.

use std::time::Duration;

use tuner::budget::Budget;
use tuner::session::{Session, TuneError, Tuning};
use tuner::store::{DeviceIdentity, Store, Task, TunableIdentity, Workload};
use tuner::strategy::StrategyKind;
use tuner::{Config, Device, Failure, FailureKind, Outcome, tune};
use tuner_score::synthetic::Synthetic;

use crate::made;
use crate::store::Folder;

pub(crate) struct Place {
    device: DeviceIdentity,
    tunable: TunableIdentity,
    workload: Workload,
    pub(crate) synthetic: Synthetic,
    folder: Folder,
}

impl Place {
    pub(crate) fn new(spec: &str) -> Self {
        let synthetic = Synthetic::new(spec.parse().unwrap());
        let device = DeviceIdentity {
            driver: "1".to_owned(),
            ..DeviceIdentity::named(synthetic.name(), "synthetic")
        };
        let (tunable, workload) = (TunableIdentity::new("kernel", 1), Workload::new());
        Self {
            device,
            tunable,
            workload,
            synthetic,
            folder: Folder::new(),
        }
    }

    pub(crate) fn session(&self, strategy: StrategyKind, budget: &str) -> Session<'_> {
        let task = Task {
            device: &self.device,
            tunable: &self.tunable,
            workload: &self.workload,
            space: self.synthetic.space(),
        };
        Session::new(task, strategy, 5, budget.parse::<Budget>().unwrap())
    }

    pub(crate) fn store(&self) -> Store {
        self.folder.store()
    }

    pub(crate) fn run(&self, session: &Session<'_>) -> Result<Tuning, TuneError> {
        self.interrupted(session, usize::MAX)
    }

    /// Tunes until this many new measurements have been made.
    fn interrupted(&self, session: &Session<'_>, most: usize) -> Result<Tuning, TuneError> {
        // Every sample is a configuration's first: a process that continues cannot know how often
        // another launched it.
        let mut device = made(|config, launches| self.synthetic.clone().measure(config, launches));
        let mut measured = 0;
        tune(session, &mut device, &mut self.store(), &mut |progress| {
            measured += usize::from(!progress.replayed);
            measured < most
        })
    }
}

/// Tunes with a new store.
pub(crate) fn tuned(session: &Session<'_>, device: &mut dyn Device) -> Tuning {
    tune(session, device, &mut Folder::new().store(), &mut |_| true).unwrap()
}

#[test]
fn a_noisy_device_with_failures_is_tuned_close_to_its_optimum() {
    let place = Place::new("seed=2,noise=0.02,outliers=0.02,fail=0.1,wrong=0.05");
    let default = place.synthetic.space().config(0);
    let session = Session {
        default: Some(default.clone()),
        ..place.session(StrategyKind::Bayesian, "120")
    };
    let mut device = place.synthetic.clone();
    let mut store = place.store();
    let mut told = 0;
    let tuning = tune(&session, &mut device, &mut store, &mut |_| {
        told += 1;
        true
    })
    .unwrap();
    let truth = |config: &Config| {
        place
            .synthetic
            .true_ms(place.synthetic.space().index_of(config).unwrap())
            .unwrap()
    };
    let evidence = &tuning.evidence;
    let optimum = place
        .synthetic
        .true_ms(place.synthetic.optimum().unwrap())
        .unwrap();
    assert!(
        truth(&evidence.chosen.config) < 1.1 * optimum,
        "{evidence:?}"
    );
    assert!(
        evidence.verdict.starts_with("better than the default"),
        "{}",
        evidence.verdict
    );
    let (low, high) = evidence.chosen.interval_ms.unwrap();
    assert!(low < evidence.chosen.time_ms && evidence.chosen.time_ms < high);
    assert_eq!(evidence.default.as_ref().unwrap().config, default);
    assert_eq!((evidence.tried, evidence.valid), (120, 1152));
    assert!(evidence.failed > 0 && evidence.stopped.contains("evaluations=120"));
    let record = store.run_record(tuning.run).unwrap();
    assert_eq!(record.measurements.len(), told);
    assert_eq!(record.decision.as_ref(), Some(evidence));
}

#[test]
fn any_number_of_interruptions_leaves_the_result_unchanged() {
    let new = || Place::new("seed=4,noise=0.05,fail=0.15");
    let place = new();
    let default = place.synthetic.space().config(300);
    let mut session = Session {
        default: Some(default),
        ..place.session(StrategyKind::Bayesian, "30")
    };
    session.rounds.rules.looks = vec![4, 5];
    let undisturbed = place.run(&session).unwrap();
    let observations = place.store().observations(undisturbed.run).unwrap();
    for most in [1, 7, 23] {
        let (place, mut interruptions) = (new(), 0);
        let tuning = loop {
            match place.interrupted(&session, most) {
                Err(TuneError::Interrupted { run }) => assert_eq!(run, 1),
                other => break other.unwrap(),
            }
            interruptions += 1;
            if most == 1 && interruptions == 40 {
                break place.run(&session).unwrap();
            }
        };
        assert!(interruptions > 0 && tuning.resumed > 0);
        assert_eq!(tuning.evidence, undisturbed.evidence, "{most}");
        let store = place.store();
        assert_eq!(store.runs().unwrap().len(), 1);
        let again = store.observations(tuning.run).unwrap();
        assert_eq!(again.len(), observations.len());
        for (again, undisturbed) in again.iter().zip(&observations) {
            assert_eq!(
                (&again.config, &again.outcome),
                (&undisturbed.config, &undisturbed.outcome)
            );
        }
    }
}

#[test]
fn another_seed_launch_count_or_sample_is_another_run_and_a_finished_run_is_not_continued() {
    let place = Place::new("seed=4");
    let session = place.session(StrategyKind::Random, "5");
    let interrupted = |session: &Session<'_>| place.interrupted(session, 2).unwrap_err();
    interrupted(&session);
    interrupted(&Session {
        seed: 6,
        ..session.clone()
    });
    interrupted(&Session {
        launches: 4,
        ..session.clone()
    });
    interrupted(&Session {
        sample: "other.mdf".to_owned(),
        ..session.clone()
    });
    interrupted(&Session {
        fresh: true,
        ..session.clone()
    });
    assert_eq!(place.store().runs().unwrap().len(), 5);
    // The budget may grow: the search is the same, only longer.
    let longer = Session {
        budget: Budget::evaluations(9),
        ..session.clone()
    };
    let tuning = place.run(&longer).unwrap();
    assert_eq!(
        (tuning.run, tuning.resumed, tuning.evidence.tried),
        (5, 2, 9)
    );
    assert_eq!(place.run(&session).unwrap().run, 1);
    assert_eq!(place.run(&session).unwrap().run, 6);
}

#[test]
fn a_search_begins_with_its_seeds_and_is_continued_with_those_that_it_began_with() {
    let place = Place::new("seed=2,noise=0.01,fail=0.1");
    let configs = [7, 300, 40]
        .map(|index| place.synthetic.space().config(index))
        .to_vec();
    let session = |seeds: &[Config]| Session {
        seeds: seeds.to_vec(),
        ..place.session(StrategyKind::Random, "10")
    };
    place.interrupted(&session(&configs), 2).unwrap_err();
    // Meanwhile others are better elsewhere.
    let tuning = place.run(&session(&configs[2..])).unwrap();
    assert_eq!((tuning.run, tuning.resumed), (1, 2));
    let record = place.store().run_record(1).unwrap();
    assert_eq!(record.plan.seeds, configs);
    let measured: Vec<&Config> = record
        .measurements
        .iter()
        .map(|measurement| &measurement.config)
        .take(3)
        .collect();
    assert_eq!(measured, configs.iter().collect::<Vec<_>>());
}

#[test]
fn a_space_without_a_configuration_is_an_error() {
    let place = Place::new("");
    let empty = tuner::Space::default();
    let mut session = place.session(StrategyKind::Random, "10");
    session.task.space = &empty;
    assert!(matches!(place.run(&session), Err(TuneError::EmptySpace(_))));
    // Which constraint is to blame.
    let builder = tuner::SpaceBuilder::new().ints("x", [1, 2, 3]);
    let none = builder
        .constraint("x % 0 == 1")
        .constraint("x > 2")
        .build()
        .unwrap();
    session.task.space = &none;
    let error = place.run(&session).unwrap_err().to_string();
    assert!(
        error.contains("3 combinations, 0 valid\n               3 rejected first by  x % 0 == 1"),
        "{error}"
    );
    let warnings: Vec<String> = none.report().warnings().collect();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with(
            "combinations for which constraint \"x % 0 == 1\" cannot be evaluated are left out: "
        ),
        "{warnings:?}"
    );
}

#[test]
fn an_infinite_time_costs_only_its_configuration() {
    let place = Place::new("seed=1");
    let session = Session {
        finalists: 0,
        ..place.session(StrategyKind::Exhaustive, "4")
    };
    let mut store = place.store();
    let mut times = [f64::INFINITY, f64::NAN, 3.0, 2.0].into_iter();
    let mut odd = made(|_, launches| Outcome::Times(vec![times.next().unwrap(); launches]));
    let found = tune(&session, &mut odd, &mut store, &mut |_| true).unwrap();
    let failed = store
        .observations(found.run)
        .unwrap()
        .into_iter()
        .filter_map(|observation| match observation.outcome {
            Outcome::Failed(failure) => Some((failure.kind, failure.message)),
            Outcome::Times(_) => None,
        });
    let expected =
        ["inf", "NaN"].map(|number| (FailureKind::Launch, format!("it ran and gave {number}")));
    assert_eq!(failed.collect::<Vec<_>>(), expected);
    // One that nothing can be computed with is none, and leaves the store readable.
    let session = Session {
        default: Some(place.synthetic.space().config(0)),
        ..session
    };
    let mut vast = made(|_, launches| Outcome::Times(vec![1.1e308; launches]));
    let tuned = tune(&session, &mut vast, &mut store, &mut |_| true);
    assert!(
        matches!(tuned, Err(TuneError::DefaultFailed(_))),
        "{tuned:?}"
    );
    assert_eq!(store.runs().unwrap().len(), 2);
}

#[test]
fn a_time_out_is_remembered_and_tried_again_only_with_another_limit_or_fewer_launches() {
    struct Slow {
        limit: Duration,
        asked: usize,
    }
    impl Device for Slow {
        fn name(&self) -> String {
            "slow".to_owned()
        }

        fn measure(&mut self, _: &Config, launches: usize) -> Outcome {
            self.asked += 1;
            if self.limit >= Duration::from_millis(30) {
                return Outcome::Times(vec![30.0; launches]);
            }
            let message = format!("killed after {:.3} s", self.limit.as_secs_f64());
            Outcome::Failed(Failure {
                kind: FailureKind::TimeOut,
                message,
            })
        }

        fn time_out(&self) -> Option<Duration> {
            Some(self.limit)
        }
    }
    let place = Place::new("seed=1");
    let few = tuner::SpaceBuilder::new()
        .range("x", 1, 4, 1)
        .build()
        .unwrap();
    let run = |sample: &str, limit_ms: u64, launches: usize| {
        let mut device = Slow {
            limit: Duration::from_millis(limit_ms),
            asked: 0,
        };
        let mut session = Session {
            fresh: true,
            finalists: 0,
            launches,
            sample: sample.to_owned(),
            ..place.session(StrategyKind::Exhaustive, "4")
        };
        session.task.space = &few;
        let mut store = place.store();
        let found = tune(&session, &mut device, &mut store, &mut |_| true);
        (device.asked, found.is_ok())
    };
    assert_eq!(run("few events", 10, 3), (4, false));
    assert_eq!(run("few events", 10, 3), (0, false), "known to take longer");
    assert_eq!(
        run("few events", 10, 5),
        (0, false),
        "known still, though the last run did not wait"
    );
    assert_eq!(
        run("few events", 10, 2),
        (4, false),
        "two launches may end in time"
    );
    assert_eq!(
        run("other events", 10, 3),
        (4, false),
        "nothing is known of other events"
    );
    assert_eq!(
        run("few events", 50, 3),
        (4, true),
        "it may take longer now"
    );
}
