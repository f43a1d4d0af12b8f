//! Exports of a store, which can be imported again.

use std::path::Path;

use proptest::prelude::*;
use tuner::interchange::{read_import, store_json};
use tuner::space::Space;
use tuner::store::contents::{RunRecord, SpaceRecord};
use tuner::store::{
    Contender, DeviceIdentity, Evidence, Observation, Plan, Store, StoreError, Task, TunableIdentity, Workload,
};
use tuner::{Config, Failure, FailureKind, Outcome, Value};

use super::CACHE;

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (any::<f64>().prop_filter("finite", |x| x.is_finite())).prop_map(|x| Value::Float(x + 0.0)),
        ".{0,8}".prop_map(Value::Text),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    use FailureKind::{Compile, Constraint, Declined, Launch, TimeOut, WrongResult};
    let kind = prop::sample::select(vec![Compile, Constraint, Declined, Launch, TimeOut, WrongResult]);
    prop_oneof![
        3 => prop::collection::vec(any::<f64>().prop_filter("finite", |x| x.is_finite()), 0..5).prop_map(Outcome::Times),
        1 => (kind, ".{0,20}").prop_map(|(kind, message)| Outcome::Failed(Failure { kind, message })),
    ]
}

prop_compose! {
    fn device()(name in ".{0,12}", uuid in "[a-f0-9]{0,4}", cc in "[0-9.]{0,4}", sm_count: u32, driver in ".{0,4}") -> DeviceIdentity {
        DeviceIdentity { uuid, compute_capability: cc, sm_count, driver, ..DeviceIdentity::named(name, "test") }
    }
}

prop_compose! {
    fn workload()(keys in prop::collection::btree_map(".{0,5}", value(), 0..4), place in ".{0,6}") -> Workload {
        keys.into_iter().fold(Workload::new().at(place), |workload, (name, value)| workload.with(name, value).unwrap())
    }
}

prop_compose! {
    /// A run over a space of two parameters, with the indices of what was measured.
    fn run()(
        device in device(),
        name in ".{1,6}",
        version: u32,
        workload in workload(),
        values in prop::collection::vec(value(), 1..5),
        measured in prop::collection::vec((any::<prop::sample::Index>(), 0usize..9, outcome(), 0.0..1e9f64), 0..12),
        seed: u64,
        uid in "[a-f0-9]{32}",
        decided: bool,
    ) -> RunRecord {
        let values = values.into_iter().fold(Vec::new(), |mut distinct: Vec<Value>, value| {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
            distinct
        });
        let measurements: Vec<Observation> = measured
            .into_iter()
            .map(|(index, launches, outcome, took_ms)| {
                let config = Config(vec![Value::Int(1), values[index.index(values.len())].clone()]);
                Observation { config, launches, outcome, took_ms }
            })
            .collect();
        let decision = measurements.first().filter(|_| decided).map(|measurement| Evidence {
            chosen: Contender { config: measurement.config.clone(), time_ms: 0.1, interval_ms: None, samples: 1 },
            default: None,
            runner_up: None,
            tried: 1,
            failed: 0,
            valid: 2,
            launches: 3,
            stopped: "b".to_owned(),
            expected_gain: Some(1.0 / 3.0),
            verdict: "v".to_owned(),
            details: None,
        });
        RunRecord {
            run: 0,
            uid,
            device,
            tunable: TunableIdentity::new(name, version),
            workload,
            space: SpaceRecord {
                hash: format!("{values:?}"),
                valid: values.len() as u64,
                parameters: vec![("a".to_owned(), vec![Value::Int(1)]), ("b".to_owned(), values)],
            },
            plan: Plan { strategy: "s".to_owned(), seed, budget: "b".to_owned(), ..Plan::default() },
            started: "2026-01-02T03:04:05.678Z".to_owned(),
            finished: decision.is_some().then(|| "2026-01-02T04:00:00.000Z".to_owned()),
            decision,
            measurements,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_store_that_is_exported_and_imported_is_the_same_and_importing_again_changes_nothing(
        runs in prop::collection::vec(run(), 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Store::open(&folder.path().join("first")).unwrap();
        first.import(&runs).unwrap();
        let export = store_json::export(&first, &[]).unwrap();
        prop_assert_eq!(export.runs.len(), runs.len());
        for (exported, run) in export.runs.iter().zip(&runs) {
            prop_assert_eq!(&RunRecord { run: 0, ..exported.clone() }, run);
        }
        let mut bytes = Vec::new();
        store_json::write(&export, &mut bytes).unwrap();
        let read = store_json::parse(std::str::from_utf8(&bytes).unwrap()).unwrap();
        prop_assert_eq!(&read, &export);
        let mut second = Store::open(&folder.path().join("second")).unwrap();
        for expected in [true, false] {
            let imported = second.import(&read.runs).unwrap();
            prop_assert_eq!(imported.runs == runs.len(), expected || runs.is_empty());
            prop_assert_eq!(&store_json::export(&second, &[]).unwrap(), &export);
        }
    }
}

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
fn an_export_that_contradicts_itself_or_what_is_here_is_refused_whole() {
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
    let wrong: [Wrong; 7] = [
        (|runs| runs[2].measurements[0].config.0[0] = Value::Int(33), "does not have the values 33"),
        (|runs| runs[2].measurements[0].config.0.truncate(1), "does not have the values 32"),
        (|runs| runs[2].measurements[0].config.0.push(Value::from("x")), "does not have the values 32,x,x"),
        (|runs| runs[1].measurements[0].outcome = Outcome::Times(vec![f64::NAN]), "NaN"),
        (|runs| runs[1].measurements[0].launches = usize::MAX, "number of launches"),
        (|runs| runs[1].uid = runs[2].uid.clone(), "by its uid it is run 2 here"),
        (
            |runs| {
                runs[1].uid = "another".to_owned();
                runs[1].space.parameters[0].1.push(Value::Int(128));
            },
            "run 2 cannot be stored: the space ",
        ),
    ];
    wrong.into_iter().for_each(|wrong| refused(&mut other, wrong));
    other.import(&export.runs).unwrap();
    refused(&mut other, (|runs| runs[1].device.name = "elsewhere".to_owned(), "by its uid it is run 2 here"));
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

/// The fuzzer found it: keys of a workload are compared as texts, and 0 has two.
#[test]
fn a_run_for_minus_zero_is_one_for_zero_and_is_imported_once() {
    let folder = tempfile::tempdir().unwrap();
    let export = store_json::export(&small_store(folder.path()), &[]).unwrap();
    let mut text = Vec::new();
    store_json::write(&export, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\"keys\":{}"));
    let mut other = Store::open(&folder.path().join("other.sqlite")).unwrap();
    for (keys, runs) in [(r#"{"n":-0}"#, 3), (r#"{"n":-0.0}"#, 0), (r#"{"n":0.0}"#, 0)] {
        let read = store_json::parse(&text.replace("\"keys\":{}", &format!("\"keys\":{keys}"))).unwrap();
        assert_eq!(other.import(&read.runs).unwrap().runs, runs, "{keys}");
    }
}
