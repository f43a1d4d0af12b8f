//! Results that are kept, and those that a lookup finds.

use rusqlite::Connection;
use tuner::space::Space;
use tuner::store::contents::Prune;
use tuner::store::{DeviceIdentity, Found, Observation, Store, StoreError, Workload};
use tuner::{Config, Failure, FailureKind, Outcome, Value};

use super::{Folder, Key, config, evidence, place, plan, times};

type Change = fn(&mut DeviceIdentity);

/// Change of a key, and the largest difference that is found.
type Other = (fn(&mut Key), Option<u8>);

#[test]
fn measurements_and_decisions_are_there_after_reopening() {
    let folder = Folder::new();
    let key = Key::new();
    let observations = [
        times(config(32, "a"), &[0.1, f64::MIN_POSITIVE, 1e300]),
        Observation {
            config: config(64, "b"),
            launches: 3,
            outcome: Outcome::Failed(Failure {
                kind: FailureKind::WrongResult,
                message: "hit 3, ü".to_owned(),
            }),
            took_ms: 0.0,
        },
        times(config(64, "a"), &[0.5, 0.7]),
        times(config(32, "a"), &[]),
    ];
    let id = {
        let mut store = folder.store();
        let mut run = store.begin(&key.task(), &plan()).unwrap();
        for observation in &observations {
            store.record(&mut run, observation).unwrap();
        }
        let id = run.id();
        store
            .finish(run, Some(&evidence(config(32, "a"), 0.1)))
            .unwrap();
        id
    };
    let store = Store::open_existing(&folder.file()).unwrap();
    assert_eq!(store.observations(id).unwrap(), observations);
    let record = store.run_record(id).unwrap();
    assert_eq!(
        (record.device, record.tunable, record.workload),
        (key.device, key.tunable, key.workload)
    );
    assert_eq!(record.plan, plan());
    assert_eq!(record.decision, Some(evidence(config(32, "a"), 0.1)));
    assert!(folder.locks() == 0, "a run that is over leaves no lock");
}

#[test]
fn another_device_is_near_and_another_code_or_workload_is_not_and_the_uuid_does_not_matter() {
    let (_folder, key, mut store) = place();
    key.decided(&mut store, 64);
    let changes: [Other; 5] = [
        (|key| key.device.uuid = "GPU-2".to_owned(), Some(0)),
        (|key| key.device.platform = "HIP".to_owned(), Some(2)),
        (
            |key| key.workload = key.workload.clone().with("events", 2000).unwrap(),
            None,
        ),
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
fn the_decision_that_was_made_last_counts_even_if_its_run_began_earlier_or_the_clock_was_ahead_before()
 {
    let (folder, key, mut store) = place();
    let first = store.begin(&key.task(), &plan()).unwrap();
    let (earlier, later) = (first.id(), key.decided(&mut store, 64));
    store
        .finish(first, Some(&evidence(config(32, "a"), 1.0)))
        .unwrap();
    assert_eq!(key.found(&store).unwrap().0, Value::Int(32));
    let runs = store
        .find(&key.task())
        .unwrap()
        .into_iter()
        .map(|found| found.run);
    assert_eq!(runs.collect::<Vec<_>>(), [earlier, later]);
    let connection = Connection::open(folder.file()).unwrap();
    connection
        .execute("UPDATE runs SET finished = '2099-01-01T00:00:00.000Z'", [])
        .unwrap();
    key.decided(&mut store, 128);
    assert_eq!(key.found(&store), Some((Value::Int(128), vec![])));
}

#[test]
fn nearest_takes_what_differs_least_and_says_in_what() {
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
    let folder = Folder::new();
    let mut store = folder.store();
    let here = Key::new();
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
        assert!(
            found
                .windows(2)
                .all(|pair| pair[0].step() <= pair[1].step())
        );
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
    let folder = Folder::new();
    let mut store = folder.store();
    let with = |workload: Workload| Key {
        workload,
        ..Key::new()
    };
    let base = || {
        Workload::new()
            .with("n", 5)
            .unwrap()
            .with("x", 0.5)
            .unwrap()
    };
    let workloads = [
        base(),
        base().with("layout", "mep").unwrap(),
        base().with("layout", "allen").unwrap(),
        base().with("layout", 1).unwrap(),
        base().with("layout", true).unwrap(),
        base().at("first kernel"),
        base().with("n", 5.0).unwrap(),
    ];
    for (at, workload) in workloads.iter().enumerate() {
        let key = with(workload.clone());
        assert_eq!(key.found(&store), None, "{at}: {workload}");
        key.decided(&mut store, 32);
    }
    // The order in which keys are given does not matter.
    let turned = Workload::new()
        .with("x", 0.5)
        .unwrap()
        .with("n", 5)
        .unwrap();
    assert!(with(turned).found(&store).is_some());
    // Keys are compared as texts, and 0 has two.
    with(Workload::new().with("zero", -0.0).unwrap()).decided(&mut store, 32);
    assert!(
        with(Workload::new().with("zero", 0.0).unwrap())
            .found(&store)
            .is_some()
    );
    assert!(
        workloads[5].to_string().ends_with(" at first kernel"),
        "{}",
        workloads[5]
    );
    assert!(Workload::new().with("x", f64::NAN).is_err());
}

#[test]
fn a_configuration_is_found_by_the_names_of_its_parameters_and_only_if_the_space_still_has_it() {
    let folder = Folder::new();
    let mut store = folder.store();
    Key::new().decided(&mut store, 64);
    let recorded = |names: [&str; 2], rows: &[[Value; 2]]| {
        let rows: Vec<Vec<Value>> = rows.iter().map(|row| row.to_vec()).collect();
        Key {
            space: Space::recorded(&names.map(str::to_owned), &rows).unwrap().0,
            ..Key::new()
        }
    };
    let (a, b) = (Value::from("a"), Value::from("b"));
    let turned = recorded(
        ["mode", "block"],
        &[[a.clone(), Value::Int(64)], [b.clone(), Value::Int(32)]],
    );
    let found = store.find(&turned.task()).unwrap();
    assert_eq!(found[0].config, Config(vec![a.clone(), Value::Int(64)]));
    let without = recorded(
        ["mode", "block"],
        &[[a.clone(), Value::Int(32)], [b, Value::Int(64)]],
    );
    assert!(store.find(&without.task()).unwrap().is_empty());
    let renamed = recorded(["mode", "blocks"], &[[a, Value::Int(64)]]);
    assert!(store.find(&renamed.task()).unwrap().is_empty());
    let fewer = Space::recorded(&["block".to_owned()], &[vec![Value::Int(64)]])
        .unwrap()
        .0;
    assert!(
        store
            .find(
                &Key {
                    space: fewer,
                    ..Key::new()
                }
                .task()
            )
            .unwrap()
            .is_empty()
    );
}

#[test]
fn pruning_removes_what_is_asked_and_nothing_that_is_still_measured() {
    let (folder, key, mut store) = place();
    let mut newer = key.clone();
    newer.tunable.version += 1;
    let mut other = key.clone();
    other.tunable.name = "sort".to_owned();
    let (old, new, sort) = (
        key.decided(&mut store, 32),
        newer.decided(&mut store, 64),
        other.decided(&mut store, 128),
    );
    let unfinished = store.begin(&newer.task(), &plan()).unwrap();
    assert_eq!(
        store
            .prune(&Prune {
                unfinished: true,
                ..Prune::default()
            })
            .unwrap(),
        [0; 0]
    );
    let id = unfinished.id();
    let named = store
        .prune(&Prune {
            runs: vec![id],
            ..Prune::default()
        })
        .unwrap_err()
        .to_string();
    assert!(
        named.contains(&format!("run {id} is being continued by another process")),
        "{named}"
    );
    drop(unfinished);
    assert_eq!(
        store
            .prune(&Prune {
                unfinished: true,
                ..Prune::default()
            })
            .unwrap(),
        [id]
    );
    assert_eq!(
        store
            .prune(&Prune {
                runs: vec![sort],
                ..Prune::default()
            })
            .unwrap(),
        [sort]
    );
    assert!(matches!(
        store.prune(&Prune {
            runs: vec![sort],
            ..Prune::default()
        }),
        Err(StoreError::Missing { .. })
    ));
    assert_eq!(
        store
            .prune(&Prune {
                runs: vec![old, new],
                ..Prune::default()
            })
            .unwrap(),
        [old, new]
    );
    assert!(store.runs().unwrap().is_empty() && folder.locks() == 0);
    let connection = Connection::open(folder.file()).unwrap();
    for table in ["runs", "measurements"] {
        let rows: i64 = connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[test]
fn values_that_cannot_be_stored_exactly_are_refused() {
    let (_folder, key, mut store) = place();
    let mut run = store.begin(&key.task(), &plan()).unwrap();
    for observation in [
        times(config(32, "a"), &[1.0, f64::NAN]),
        times(
            Config(vec![Value::Float(f64::INFINITY), Value::from("a")]),
            &[1.0],
        ),
        Observation {
            took_ms: f64::NAN,
            ..times(config(32, "a"), &[1.0])
        },
    ] {
        assert!(matches!(
            store.record(&mut run, &observation),
            Err(StoreError::Wrong(_))
        ));
    }
    assert_eq!(run.measurements(), 0);
}
