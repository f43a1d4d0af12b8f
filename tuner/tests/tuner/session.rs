//! Whole tunings: the result, the stored decision, and interruptions, which change nothing.

use tuner_score::synthetic::Synthetic;

use crate::prelude::*;
use crate::store::Folder;

/// A made device, and a store.
pub struct Place {
    pub key: Key,
    pub synthetic: Synthetic,
    folder: Folder,
}

impl Place {
    pub fn new(spec: &str) -> Self {
        let synthetic = Synthetic::new(spec.parse().unwrap());
        let (key, folder) = (Key::of(synthetic.space().clone()), Folder::new());
        Self {
            key,
            synthetic,
            folder,
        }
    }

    pub fn session(&self, strategy: StrategyKind, budget: &str) -> Session<'_> {
        self.key.session(strategy, budget)
    }

    /// A random search with a default.
    pub fn random(&self, default: &Config, budget: &str) -> Session<'_> {
        let default = Some(default.clone());
        Session {
            default,
            ..self.session(StrategyKind::Random, budget)
        }
    }

    pub fn at(&self, index: usize) -> Config {
        self.key.space.config(index)
    }

    pub fn true_ms(&self, config: &Config) -> f64 {
        let index = self.key.space.index_of(config).unwrap();
        self.synthetic.true_ms(index).unwrap()
    }

    pub fn optimum(&self) -> Config {
        self.at(self.synthetic.optimum().unwrap())
    }

    pub fn store(&self) -> Store {
        self.folder.store()
    }

    pub fn run(&self, session: &Session<'_>) -> Result<Tuning, TuneError> {
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
pub fn tuned(session: &Session<'_>, device: &mut dyn Device) -> Tuning {
    tune(session, device, &mut Folder::new().store(), &mut |_| true).unwrap()
}

/// Searches configurations numbered along a line exhaustively with one launch each, unless `change`
/// says otherwise. `time` gets the number of the configuration and of its earlier launches.
fn searched(
    (most, budget): (i64, &str),
    store: &mut Store,
    mut time: impl FnMut(i64, usize) -> f64,
    change: impl FnOnce(&mut Session<'_>),
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Tuning, TuneError> {
    let key = Key::of(line(most));
    let mut session = key.session(StrategyKind::Exhaustive, budget);
    (session.seed, session.launches) = (1, 1);
    change(&mut session);
    let mut launched = 0;
    let mut device = made(|config, launches| {
        launched += launches;
        let before = launched - launches..launched;
        Times(before.map(|before| time(number(config), before)).collect())
    });
    tune(&session, &mut device, store, &mut |_| go_on())
}

pub fn whole(
    line: (i64, &str),
    time: impl FnMut(i64, usize) -> f64,
    change: impl FnOnce(&mut Session<'_>),
) -> Tuning {
    searched(line, &mut Folder::new().store(), time, change, &mut || true).unwrap()
}

#[test]
fn the_runner_up_is_the_next_best_and_not_the_default() {
    // The default comes second.
    let time = |x: i64, _: usize| {
        if x > 7 {
            1.15 + x as f64 / 100.0
        } else {
            1.7 - 0.1 * x as f64
        }
    };
    let change = |session: &mut Session<'_>| session.default = Some(ints(&[6]));
    let evidence = whole((9, "10"), time, change).evidence;
    let found = [
        evidence.chosen,
        evidence.default.unwrap(),
        evidence.runner_up.unwrap(),
    ];
    assert_eq!(
        found.map(|contender| contender.config),
        [7, 6, 5].map(|x| ints(&[x]))
    );
}

#[test]
fn final_rounds_get_only_as_many_launches_as_they_can_use() {
    let time = |x: i64, _: usize| 1.0 + x as f64 / 1000.0;
    let change = |session: &mut Session<'_>| session.default = Some(ints(&[500]));
    let evidence = whole((999, "launches=800"), time, change).evidence;
    // Four sides of 41 launches, two of as many once more, and a race of 120: the search has the
    // rest.
    let (searched, all) = (evidence.details.unwrap().search_launches, evidence.launches);
    assert!(
        searched >= 800 - 6 * 41 - 120 && all <= 800,
        "{searched} of {all}"
    );
}

#[test]
fn launches_of_an_earlier_process_count_towards_the_budget() {
    let folder = Folder::new();
    let run = |most: usize| {
        let mut measured = 0;
        let mut go_on = || {
            measured += 1;
            measured < most
        };
        let change = |session: &mut Session<'_>| session.finalists = 0;
        searched(
            (19, "time=3600"),
            &mut folder.store(),
            |_, _| 1.0,
            change,
            &mut go_on,
        )
    };
    assert!(matches!(run(3), Err(TuneError::Interrupted { .. })));
    // Three measurements of 25 minutes are more than an hour, two are not.
    let slow = "UPDATE measurements SET observation = json_set(observation, '$.took_ms', 1.5e6)";
    assert_eq!(folder.sql().execute(slow, []).unwrap(), 3);
    let tuning = run(usize::MAX).unwrap();
    assert_eq!(
        (tuning.resumed, tuning.evidence.tried),
        (3, 3),
        "{:?}",
        tuning.evidence
    );
}

#[test]
fn a_noisy_device_with_failures_is_tuned_close_to_its_optimum() {
    let place = Place::new("seed=2,noise=0.02,outliers=0.02,fail=0.1,wrong=0.05");
    let strategy = StrategyKind::Bayesian;
    let session = Session {
        strategy,
        ..place.random(&place.at(0), "120")
    };
    let (mut store, mut told) = (place.store(), 0);
    let tuning = tune(
        &session,
        &mut place.synthetic.clone(),
        &mut store,
        &mut |_| {
            told += 1;
            true
        },
    )
    .unwrap();
    let evidence = &tuning.evidence;
    let (found, optimum) = (&evidence.chosen, place.true_ms(&place.optimum()));
    assert!(place.true_ms(&found.config) < 1.1 * optimum, "{evidence:?}");
    says(&evidence.verdict, "better than the default");
    let (low, high) = found.interval_ms.unwrap();
    assert!(low < found.time_ms && found.time_ms < high);
    assert_eq!(evidence.default.as_ref().unwrap().config, place.at(0));
    assert_eq!((evidence.tried, evidence.valid), (120, 1152));
    assert!(evidence.failed > 0 && evidence.stopped.contains("evaluations=120"));
    let record = store.run_record(tuning.run).unwrap();
    assert_eq!(
        (record.measurements.len(), record.decision.as_ref()),
        (told, Some(evidence))
    );
}

#[test]
fn any_number_of_interruptions_leaves_the_result_unchanged() {
    let new = || Place::new("seed=4,noise=0.05,fail=0.15");
    let place = new();
    let mut session = place.random(&place.at(300), "30");
    session.strategy = StrategyKind::Bayesian;
    session.rounds.rules.looks = vec![4, 5];
    let kept = |place: &Place| -> Vec<(Config, Outcome)> {
        let all = place.store().observations(1).unwrap();
        all.into_iter()
            .map(|kept| (kept.config, kept.outcome))
            .collect()
    };
    let undisturbed = place.run(&session).unwrap();
    let observations = kept(&place);
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
        assert_eq!(place.store().runs().unwrap().len(), 1);
        assert_eq!(kept(&place), observations, "{most}");
    }
}

#[test]
fn another_seed_launch_count_or_sample_is_another_run_and_a_finished_run_is_not_continued() {
    let place = Place::new("seed=4");
    let session = || place.session(StrategyKind::Random, "5");
    for other in [
        session(),
        Session {
            seed: 6,
            ..session()
        },
        Session {
            launches: 4,
            ..session()
        },
        Session {
            sample: "other.mdf".to_owned(),
            ..session()
        },
        Session {
            fresh: true,
            ..session()
        },
    ] {
        place.interrupted(&other, 2).unwrap_err();
    }
    assert_eq!(place.store().runs().unwrap().len(), 5);
    // The budget may grow: the search is the same, only longer.
    let tuning = place
        .run(&place.session(StrategyKind::Random, "9"))
        .unwrap();
    assert_eq!(
        (tuning.run, tuning.resumed, tuning.evidence.tried),
        (5, 2, 9)
    );
    assert_eq!([(); 2].map(|()| place.run(&session()).unwrap().run), [1, 6]);
}

#[test]
fn a_search_begins_with_its_seeds_and_continues_with_the_same() {
    let place = Place::new("seed=2,noise=0.01,fail=0.1");
    let configs = [7, 300, 40].map(|index| place.at(index));
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
    assert!(
        record
            .measurements
            .iter()
            .zip(configs)
            .all(|(made, seed)| made.config == seed)
    );
}

#[test]
fn a_space_without_a_configuration_is_an_error() {
    let mut place = Place::new("");
    place.key.space = Space::default();
    let run = |place: &Place| {
        place
            .run(&place.session(StrategyKind::Random, "10"))
            .unwrap_err()
    };
    assert!(matches!(run(&place), TuneError::EmptySpace(_)));
    // Which constraint is to blame.
    let builder = SpaceBuilder::new().ints("x", [1, 2, 3]);
    place.key.space = builder
        .constraint("x % 0 == 1")
        .constraint("x > 2")
        .build()
        .unwrap();
    says(
        run(&place),
        "3 combinations, 0 valid\n               3 rejected first by  x % 0 == 1",
    );
    let warnings: Vec<String> = place.key.space.report().warnings().collect();
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    says(
        warning,
        "combinations for which constraint \"x % 0 == 1\" cannot be evaluated are left out: ",
    );
}

#[test]
fn an_infinite_time_costs_only_its_configuration() {
    let place = Place::new("seed=1");
    let exhaustive = place.session(StrategyKind::Exhaustive, "4");
    let session = Session {
        finalists: 0,
        ..exhaustive
    };
    let mut store = place.store();
    let mut times = [f64::INFINITY, f64::NAN, 3.0, 2.0].into_iter();
    let mut odd = made(|_, launches| Times(vec![times.next().unwrap(); launches]));
    let found = tune(&session, &mut odd, &mut store, &mut |_| true).unwrap();
    let kept = store.observations(found.run).unwrap();
    let failures = [0, 1].map(|at| failure(kept[at].outcome.clone()));
    let expected = ["inf", "NaN"].map(|number| failed(format!("it ran and gave {number}")));
    assert_eq!(failures, expected);
    assert!(
        kept[2..]
            .iter()
            .all(|kept| matches!(kept.outcome, Times(_)))
    );
    // One that nothing can be computed with is none, and leaves the store readable.
    let session = Session {
        default: Some(place.at(0)),
        ..session
    };
    let mut vast = made(|_, launches| Times(vec![1.1e308; launches]));
    let tuned = tune(&session, &mut vast, &mut store, &mut |_| true);
    assert!(
        matches!(tuned, Err(TuneError::DefaultFailed(_))),
        "{tuned:?}"
    );
    assert_eq!(store.runs().unwrap().len(), 2);
}

#[test]
fn a_time_out_is_remembered_and_tried_again_only_with_another_limit_or_fewer_launches() {
    struct Slow(Duration, usize);
    impl Device for Slow {
        fn name(&self) -> String {
            "slow".to_owned()
        }

        fn measure(&mut self, _: &Config, launches: usize) -> Outcome {
            self.1 += 1;
            if self.0 >= Duration::from_millis(30) {
                return Times(vec![30.0; launches]);
            }
            let message = format!("killed after {:.3} s", self.0.as_secs_f64());
            Failed(FailureKind::TimeOut.because(message))
        }

        fn time_out(&self) -> Option<Duration> {
            Some(self.0)
        }
    }
    let (key, folder) = (Key::of(line(3)), Folder::new());
    for (sample, limit_ms, launches, asked, why) in [
        ("few events", 10, 3, 4, "nothing is known"),
        ("few events", 10, 3, 0, "known to take longer"),
        (
            "few events",
            10,
            5,
            0,
            "known still, though the last run did not wait",
        ),
        ("few events", 10, 2, 4, "two launches may end in time"),
        ("other events", 10, 3, 4, "nothing is known of other events"),
        ("few events", 50, 3, 4, "it may take longer now"),
    ] {
        let mut device = Slow(Duration::from_millis(limit_ms), 0);
        let session = Session {
            fresh: true,
            finalists: 0,
            launches,
            sample: sample.to_owned(),
            ..key.session(StrategyKind::Exhaustive, "4")
        };
        let found = tune(&session, &mut device, &mut folder.store(), &mut |_| true);
        assert_eq!((device.1, found.is_ok()), (asked, limit_ms == 50), "{why}");
    }
}
