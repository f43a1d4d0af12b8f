//! Exports of a store, which can be imported again.

use tuner::interchange::{read_import, store_json};
use tuner::store::contents::{RunRecord, SpaceRecord};
use tuner::store::{DeviceIdentity, Evidence, Observation, Plan, Store, StoreError, TunableIdentity, Workload};
use tuner::{Config, Failure, FailureKind, Outcome, Value};

use super::CACHE;
use crate::store::{Folder, Key, config, evidence, place, plan, times};

/// A store with three runs of two measurements.
fn small_store() -> (Folder, Store) {
    let (folder, key, mut store) = place();
    for (name, offset) in [("decode", 0.0), ("decode", 1.0), ("sort", 2.0)] {
        let key = Key { tunable: TunableIdentity::new(name, 1), ..key.clone() };
        let mut run = store.begin(&key.task(), &plan()).unwrap();
        for (at, block) in [32, 64].into_iter().enumerate() {
            store.record(&mut run, &times(config(block, "a"), &[at as f64 + 1.0 + offset])).unwrap();
        }
    }
    (folder, store)
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
    let (folder, mut first) = small_store();
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
    let mut second = Store::open(&folder.path("second")).unwrap();
    for new in [4, 0] {
        assert_eq!(second.import(&read.runs).unwrap().runs, new);
        assert_eq!(store_json::export(&second, &[]).unwrap(), export);
    }
    assert_eq!(store_json::export(&second, &[2]).unwrap().runs, export.runs[1..2]);
}

#[test]
fn recordings_that_differ_in_anything_are_runs_of_their_own() {
    let folder = Folder::new();
    let (file, mut store) = (folder.path("recording"), folder.store());
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
    let (folder, store) = small_store();
    let export = store_json::export(&store, &[]).unwrap();
    let mut other = Store::open(&folder.path("other.sqlite")).unwrap();
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
        (|runs| runs[2].measurements[0].config.0.push(Value::from("x")), "does not have the values 32,a,x"),
        (|runs| runs[1].measurements[0].outcome = Outcome::Times(vec![f64::NAN]), "NaN"),
        (|runs| runs[1].measurements[0].launches = usize::MAX, "number of launches"),
        (
            |runs| {
                runs[1].uid = "another".to_owned();
                runs[1].space.parameters[0].1.push(Value::Int(256));
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
