//! Exports of a store, which can be imported again.

use std::path::Path;

use tuner::interchange::{read_import, store_json};
use tuner::space::Space;
use tuner::store::contents::{RunRecord, SpaceRecord};
use tuner::store::{DeviceIdentity, Evidence, Observation, Plan, Store, StoreError, Task, TunableIdentity, Workload};
use tuner::{Config, Failure, FailureKind, Outcome, Value};

use super::CACHE;
use crate::store::evidence;

fn small_store(folder: &Path) -> Store {
    let names = ["block", "mode"].map(str::to_owned);
    let rows = [[Value::Int(32), Value::from("x")], [Value::Int(64), Value::from("x")]].map(Vec::from);
    let (space, _) = Space::recorded(&names, &rows).unwrap();
    let device = DeviceIdentity::named("gpu", "CUDA");
    let mut store = Store::open(&folder.join("tune.sqlite")).unwrap();
    for (name, offset) in [("decode", 0.0), ("decode", 1.0), ("sort", 2.0)] {
        let (tunable, workload) = (TunableIdentity::new(name, 1), Workload::new());
        let task = Task { device: &device, tunable: &tunable, workload: &workload, space: &space };
        let plan = Plan { strategy: "s".to_owned(), ..Plan::default() };
        let mut run = store.begin(&task, &plan).unwrap();
        for index in 0..2 {
            let outcome = Outcome::Times(vec![index as f64 + 1.0 + offset]);
            store
                .record(&mut run, &Observation { config: space.config(index), launches: 1, outcome, took_ms: 0.0 })
                .unwrap();
        }
    }
    store
}

/// A run with whatever is hard to write down.
fn odd(run: &RunRecord) -> RunRecord {
    let values = vec![Value::Bool(true), Value::Int(i64::MIN), Value::Float(-5e-324), Value::from("é\"\\\n\u{1}")];
    let times = Outcome::Times(vec![f64::MAX, f64::MIN_POSITIVE / 3.0, 0.1 + 0.2, -0.0]);
    let failures = FailureKind::ALL.map(|kind| Outcome::Failed(Failure { kind, message: "no\n\"room\"".to_owned() }));
    let outcomes = [times, Outcome::Times(Vec::new())].into_iter().chain(failures);
    let measurement = |(at, outcome): (usize, Outcome)| {
        let config = Config(vec![values[at % values.len()].clone()]);
        Observation { config, launches: at, outcome, took_ms: 1e9 / 3.0 }
    };
    let measurements: Vec<Observation> = outcomes.enumerate().map(measurement).collect();
    let workload = [("", Value::Float(0.1)), ("ü", Value::Int(i64::MAX)), ("z", Value::from(""))]
        .into_iter()
        .fold(Workload::new().at("a, \"b\""), |workload, (name, value)| workload.with(name, value).unwrap());
    RunRecord {
        uid: "odd".to_owned(),
        device: DeviceIdentity { sm_count: u32::MAX, ..DeviceIdentity::named("'GPU'\t", "test") },
        workload,
        plan: Plan { seed: u64::MAX, seeds: vec![measurements[1].config.clone()], ..run.plan.clone() },
        space: SpaceRecord { hash: "odd".to_owned(), valid: 4, parameters: vec![("b".to_owned(), values.clone())] },
        finished: Some("2026-01-02T04:00:00.000Z".to_owned()),
        decision: Some(Evidence { expected_gain: Some(1.0 / 3.0), ..evidence(measurements[0].config.clone(), 0.1) }),
        measurements,
        ..run.clone()
    }
}

#[test]
fn a_store_that_is_exported_and_imported_is_the_same_and_importing_again_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = small_store(folder.path());
    let odd = odd(&first.run_record(1).unwrap());
    first.import(std::slice::from_ref(&odd)).unwrap();
    let export = store_json::export(&first, &[]).unwrap();
    assert_eq!(RunRecord { run: odd.run, ..export.runs[3].clone() }, odd);
    let mut bytes = Vec::new();
    store_json::write(&export, &mut bytes).unwrap();
    let read = store_json::parse(std::str::from_utf8(&bytes).unwrap()).unwrap();
    assert_eq!(read, export);
    // -0.0 and 0.0 are equal.
    let Outcome::Times(times) = &read.runs[3].measurements[0].outcome else { panic!() };
    assert_eq!(times[3].to_bits(), (-0.0_f64).to_bits());
    let mut second = Store::open(&folder.path().join("second")).unwrap();
    for new in [4, 0] {
        assert_eq!(second.import(&read.runs).unwrap().runs, new);
        assert_eq!(store_json::export(&second, &[]).unwrap(), export);
    }
    assert_eq!(store_json::export(&second, &[2]).unwrap().runs, export.runs[1..2]);
}

#[test]
fn recordings_that_differ_in_anything_are_runs_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let mut store = Store::open(&folder.path().join("tune.sqlite")).unwrap();
    let changes =
        [("", ""), ("[3.0, 2.0, 1.0]", "[3.0, 123.5]"), ("8.0", "7.0"), ("\"k\"", "\"other\""), ("\"\"", "\"gpu\"")];
    let texts = changes.map(|(from, to)| if from.is_empty() { CACHE.to_owned() } else { CACHE.replace(from, to) });
    for (n, text) in texts.iter().chain(&texts).enumerate() {
        std::fs::write(&file, text).unwrap();
        store.import(&read_import(&file).unwrap().runs).unwrap();
        assert_eq!(store.runs().unwrap().len(), (n + 1).min(texts.len()));
    }
}

/// An export that was changed, and what is said of it.
type Wrong = (fn(&mut Vec<RunRecord>), &'static str);

#[test]
fn an_export_that_contradicts_itself_is_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let export = store_json::export(&small_store(folder.path()), &[]).unwrap();
    let mut other = Store::open(&folder.path().join("other.sqlite")).unwrap();
    let refused = |other: &mut Store, (change, said): Wrong| {
        let before = other.runs().unwrap().len();
        let mut runs = export.runs.clone();
        change(&mut runs);
        let error = other.import(&runs).unwrap_err();
        assert!(matches!(error, StoreError::BadKey { .. }) && error.to_string().contains(said), "{said}: {error}");
        assert_eq!(other.runs().unwrap().len(), before, "{said}");
    };
    let wrong: [Wrong; 6] = [
        (|runs| runs[2].measurements[0].config.0[0] = Value::Int(33), "does not have the values 33"),
        (|runs| runs[2].measurements[0].config.0.truncate(1), "does not have the values 32"),
        (|runs| runs[2].measurements[0].config.0.push(Value::from("x")), "does not have the values 32,x,x"),
        (|runs| runs[1].measurements[0].outcome = Outcome::Times(vec![f64::NAN]), "NaN"),
        (|runs| runs[1].measurements[0].launches = usize::MAX, "number of launches"),
        (
            |runs| {
                runs[1].uid = "another".to_owned();
                runs[1].space.parameters[0].1.push(Value::Int(128));
            },
            "run 2 cannot be stored: the space ",
        ),
    ];
    for wrong in wrong {
        refused(&mut other, wrong);
    }
    let mut text = Vec::new();
    store_json::write(&export, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for (from, to, said) in [
        ("\"version\": 1", "\"version\": 2", "version 2"),
        ("\"version\": 1", "\"version\": 0", "version 0"),
        ("tuning store", "shopping list", "shopping"),
    ] {
        assert!(store_json::parse(&text.replacen(from, to, 1)).unwrap_err().contains(said));
    }
}
