//! Results that are kept, and those that a lookup finds.

use tuner::compare::Comparison;
use tuner::online::{Elapsed, Options, Tuner};
use tuner::store::contents::Prune;
use tuner::store::{Contender, Finding, Found, Observation};

use super::{config, evidence, launch, place, plan, times, without};
use crate::prelude::*;

type Change = fn(&mut DeviceIdentity);

/// Change of a key, and the largest difference that is found.
type Other = (fn(&mut Key), Option<u8>);

#[test]
fn measurements_and_decisions_are_there_after_reopening() {
    let (folder, key, mut store) = place();
    let outcome = Failed(FailureKind::WrongResult.because("hit 3, ü"));
    let observations = [
        times(config(32, "a"), &[0.1, f64::MIN_POSITIVE, 1e300]),
        Observation {
            config: config(64, "b"),
            launches: 3,
            outcome,
            took_ms: 0.0,
        },
        times(config(64, "a"), &[0.5, 0.7]),
        times(config(32, "a"), &[]),
    ];
    let mut run = key.begin(&mut store);
    for observation in &observations {
        store.record(&mut run, observation).unwrap();
    }
    let (id, found) = (run.id(), evidence(config(32, "a"), 0.1));
    store.finish(run, Some(&found)).unwrap();
    drop(store);
    let store = Store::open_existing(&folder.file()).unwrap();
    assert_eq!(store.observations(id).unwrap(), observations);
    let record = store.run_record(id).unwrap();
    assert_eq!((record.device, record.tunable), (key.device, key.tunable));
    assert_eq!((record.workload, record.plan), (key.workload, plan()));
    assert_eq!(record.decision, Some(found));
    assert!(folder.locks() == 0, "a run that is over leaves no lock");
}

#[test]
fn another_device_is_near_but_another_code_or_workload_is_not() {
    let (_folder, key, mut store) = place();
    key.decided(&mut store, 64);
    let changes: [Other; 5] = [
        (|key| key.device.uuid = "GPU-2".to_owned(), Some(0)),
        (|key| key.device.platform = "HIP".to_owned(), Some(2)),
        (|key| *key = key.clone().with("events", 2000), None),
        (|key| key.tunable.version += 1, None),
        (|key| key.tunable.kernel_hash = "abc".to_owned(), None),
    ];
    for (change, step) in changes {
        let mut other = key.clone();
        change(&mut other);
        assert_eq!(
            store.find(&other.task()).unwrap().first().map(Found::step),
            step
        );
    }
}

#[test]
fn the_last_decision_counts_whatever_the_clock_says() {
    let (folder, key, mut store) = place();
    let first = key.begin(&mut store);
    let (earlier, later) = (first.id(), key.decided(&mut store, 64));
    store
        .finish(first, Some(&evidence(config(32, "a"), 1.0)))
        .unwrap();
    assert_eq!(key.found(&store).unwrap().0, Value::Int(32));
    let found = store.find(&key.task()).unwrap();
    assert!(found.iter().map(|found| found.run).eq([earlier, later]));
    let ahead = "UPDATE runs SET finished = '2099-01-01T00:00:00.000Z'";
    folder.sql().execute(ahead, []).unwrap();
    key.decided(&mut store, 128);
    assert_eq!(key.found(&store), Some((Value::Int(128), vec![])));
}

#[test]
fn nearest_takes_the_closest_match_and_names_the_difference() {
    let steps: [(u8, Change, &str); 5] = [
        (
            4,
            |device| device.compute_capability = "8.0".to_owned(),
            "compute capability 8.0 instead of 9.0",
        ),
        (
            3,
            |device| device.name = "NVIDIA H100".to_owned(),
            "device NVIDIA H100 instead of NVIDIA H200",
        ),
        (
            3,
            |device| device.sm_count = 66,
            "device NVIDIA H200 (66 SMs) instead of NVIDIA H200 (132 SMs)",
        ),
        (
            2,
            |device| device.runtime = "12.8".to_owned(),
            "runtime 12.8 instead of 13.0",
        ),
        (
            1,
            |device| device.driver = "575".to_owned(),
            "driver 575 instead of 580.1",
        ),
    ];
    let (_folder, here, mut store) = place();
    // The farthest first: each nearer one, and of two as far the newer one, takes its place.
    let mut blocks = [32, 64, 128].into_iter().cycle();
    for (step, change, words) in steps {
        let mut other = here.clone();
        change(&mut other.device);
        let block = blocks.next().unwrap();
        other.decided(&mut store, block);
        let found = store.find(&here.task()).unwrap();
        assert_eq!(found[0].config, config(block, "a"), "step {step}");
        assert_eq!(found[0].relaxed, [(step, words.to_owned())]);
        assert!(found.is_sorted_by_key(Found::step));
    }
    // A nearer one that is older still comes first, and an exact one before all.
    here.decided(&mut store, 128);
    let mut far = here.clone();
    far.device.name = "NVIDIA H100".to_owned();
    far.decided(&mut store, 32);
    assert_eq!(here.found(&store), Some((Value::Int(128), vec![])));
}

#[test]
fn keys_are_numbers_strings_and_the_place_of_the_call() {
    let (_folder, _, mut store) = place();
    let empty = || Key {
        workload: Workload::new(),
        ..Key::new()
    };
    let base = || empty().with("n", 5).with("x", 0.5);
    let mut at = base();
    at.workload = at.workload.at("first kernel");
    says(&at.workload, " at first kernel");
    for key in [
        base(),
        base().with("layout", "mep"),
        base().with("layout", "allen"),
        base().with("layout", 1),
        base().with("layout", true),
        at,
        base().with("n", 5.0),
    ] {
        assert_eq!(key.found(&store), None, "{}", key.workload);
        key.decided(&mut store, 32);
    }
    // The order in which keys are given does not matter.
    assert!(empty().with("x", 0.5).with("n", 5).found(&store).is_some());
    // Keys are compared as texts, and 0 has two.
    empty().with("zero", -0.0).decided(&mut store, 32);
    assert!(empty().with("zero", 0.0).found(&store).is_some());
    assert!(Workload::new().with("x", f64::NAN).is_err());
}

#[test]
fn a_configuration_is_found_by_parameter_names_if_the_space_still_has_it() {
    let (_folder, key, mut store) = place();
    key.decided(&mut store, 64);
    let (a, b, block) = (|| Value::from("a"), || Value::from("b"), Value::Int);
    for (names, rows, found) in [
        (
            &["mode", "block"][..],
            vec![vec![a(), block(64)], vec![b(), block(32)]],
            true,
        ),
        (
            &["mode", "block"],
            vec![vec![a(), block(32)], vec![b(), block(64)]],
            false,
        ),
        (&["mode", "blocks"], vec![vec![a(), block(64)]], false),
        (&["block"], vec![vec![block(64)]], false),
    ] {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let space = Space::recorded(&names, &rows).unwrap().0;
        let key = Key {
            space,
            ..Key::new()
        };
        let configs = store
            .find(&key.task())
            .unwrap()
            .into_iter()
            .map(|found| found.config);
        let expected = found.then(|| Config(vec![a(), block(64)]));
        assert!(configs.eq(expected), "{names:?}");
    }
}

#[test]
fn pruning_removes_the_named_runs_and_none_still_in_progress() {
    let (folder, key, mut store) = place();
    let (mut newer, mut other) = (key.clone(), key.clone());
    newer.tunable.version += 1;
    other.tunable.name = "sort".to_owned();
    let old = key.decided(&mut store, 32);
    let (new, sort) = (
        newer.decided(&mut store, 64),
        other.decided(&mut store, 128),
    );
    let run = newer.begin(&mut store);
    let id = run.id();
    let unfinished = Prune {
        unfinished: true,
        ..Prune::default()
    };
    let these = |runs: &[i64]| Prune {
        runs: runs.to_vec(),
        ..Prune::default()
    };
    assert_eq!(store.prune(&unfinished).unwrap(), [0; 0]);
    let named = store.prune(&these(&[id])).unwrap_err();
    says(
        named,
        &format!("run {id} is being continued by another process"),
    );
    drop(run);
    assert_eq!(store.prune(&unfinished).unwrap(), [id]);
    assert_eq!(store.prune(&these(&[sort])).unwrap(), [sort]);
    assert!(matches!(
        store.prune(&these(&[sort])),
        Err(StoreError::Missing { .. })
    ));
    assert_eq!(store.prune(&these(&[old, new])).unwrap(), [old, new]);
    assert!(store.runs().unwrap().is_empty() && folder.locks() == 0);
    let rows = "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM measurements)";
    assert_eq!(folder.sql().query_row(rows, [], |row| row.get(0)), Ok(0));
}

#[test]
fn values_that_cannot_be_stored_exactly_are_refused() {
    let (_folder, key, mut store) = place();
    let mut run = key.begin(&mut store);
    for observation in [
        times(config(32, "a"), &[1.0, f64::NAN]),
        times(Config(vec![f64::INFINITY.into(), "a".into()]), &[1.0]),
        Observation {
            took_ms: f64::NAN,
            ..launch(32)
        },
    ] {
        let refused = store.record(&mut run, &observation);
        assert!(matches!(refused, Err(StoreError::Wrong(_))));
    }
    assert_eq!(run.measurements(), 0);
}

/// Ten blocks in which the default takes 2 ms, and the other side this time.
fn compared(time: f64) -> Comparison {
    let mut blocks = vec![block(&[2.0], &[time]); 10];
    let judgement = judge(&blocks, &Rules::default().fixed(10));
    blocks.push(Block::default());
    Comparison {
        judgement,
        blocks,
        trouble: None,
    }
}

#[test]
fn a_comparison_counts_for_its_two_sides_and_the_runner_up_is_neither() {
    let (_folder, key, mut store) = place();
    let [default, proposed, third] = [32, 64, 128].map(|block| config(block, "a"));
    let finding = Finding {
        plan: plan(),
        default: default.clone(),
        proposed: proposed.clone(),
        samples: vec![
            (default.clone(), vec![1.5]),
            (config(32, "b"), vec![4.0]),
            (third.clone(), vec![3.0, 3.0]),
            (config(64, "b"), vec![5.0]),
        ],
        failed: Vec::new(),
        comparison: Some(compared(1.0)),
        launches: 23,
        stopped: "the work ended".to_owned(),
    };
    let kept = store.keep(&key.task(), &finding).unwrap().unwrap();
    assert_eq!(kept.decided, Some(proposed.clone()), "{}", kept.verdict);
    let record = store.run_record(kept.run).unwrap();
    // Four series of samples, and ten blocks of two sides; of the empty one nothing.
    assert_eq!(record.measurements.len(), 4 + 20);
    let found = record.decision.unwrap();
    let of = |contender: Contender| (contender.config, contender.time_ms, contender.samples);
    assert_eq!(of(found.chosen), (proposed, 1.0, 10));
    assert_eq!(of(found.default.unwrap()), (default, 2.0, 10));
    assert_eq!(of(found.runner_up.unwrap()), (third, 3.0, 2));
}

#[test]
fn an_on_line_result_is_stored_after_its_comparison_with_the_default() {
    let (_folder, key, mut store) = place();
    let configs: Vec<Config> = (0..key.space.len())
        .map(|at| key.space.config(at))
        .collect();
    let new = || Tuner::new(configs.clone(), 0, Options::default()).unwrap();
    let tuner = new();
    let mut worker = tuner.worker();
    while !tuner.is_complete() {
        match configs.iter().position(|config| config == worker.begin()) {
            Some(2) => worker.fail(failed("unlucky")),
            at => worker.end(Elapsed(if at == Some(4) { 1.0 } else { 2.0 })),
        }
    }
    let report = tuner.report().unwrap();
    let default = &configs[0];
    // The samples that chose the best one show nothing.
    for (comparison, decided, said) in [
        (None, None, "not compared"),
        (Some(compared(3.0)), Some(default), "the default stays"),
        (
            Some(compared(1.0)),
            Some(&configs[4]),
            "better than the default: ",
        ),
    ] {
        let finding = Finding::of_online(&report, default, comparison);
        let kept = store.keep(&key.task(), &finding).unwrap().unwrap();
        assert_eq!(kept.decided.as_ref(), decided);
        says(kept.verdict, said);
        if decided == Some(&configs[4]) {
            let found = store.run_record(kept.run).unwrap().decision.unwrap();
            assert_eq!((found.tried, found.failed), (6, 1));
            assert_eq!(found.chosen.config, configs[4]);
        }
    }
    assert_eq!(store.find(&key.task()).unwrap()[0].config, configs[4]);
    // A tuner that only used what was found has learned nothing, and keeps nothing.
    let tuner = new();
    tuner.set(&configs[4]).unwrap();
    let finding = Finding::of_online(&tuner.report().unwrap(), default, None);
    assert_eq!(store.keep(&key.task(), &finding).unwrap(), None);
}

#[test]
fn a_run_of_a_space_with_other_valid_configurations_is_not_continued() {
    let (_folder, key, mut store) = place();
    drop(key.begin(&mut store));
    // The same parameters and values.
    let of = |left_out: &[(i64, &str)]| Key {
        space: without(left_out),
        ..Key::new()
    };
    let mut continued = |key: &Key| store.resume(&key.task(), &plan()).unwrap().is_some();
    let (one, other) = (of(&[(64, "b")]), of(&[(128, "b")]));
    assert_eq!(
        [&of(&[]), &one, &other].map(&mut continued),
        [true, false, false]
    );
    // The same number of configurations, but other ones.
    drop(one.begin(&mut store));
    let mut continued = |key: &Key| store.resume(&key.task(), &plan()).unwrap().is_some();
    assert_eq!([&other, &one].map(&mut continued), [false, true]);
}
