//! Configurations that occur more than once in a file, and times that are none.

use tuner::interchange::{kernel_tuner, store_json, t4};
use tuner::replay::{Measured, Record, Recording};
use tuner::store::{DeviceIdentity, Observation, Plan, Store, Task, TunableIdentity, Workload};
use tuner::{Config, Failure, FailureKind, Outcome, Space, Value};

fn is_failure(measured: &Measured, kind: FailureKind) -> bool {
    matches!(measured, Measured::Failed(failure) if failure.kind == kind)
}

/// T4 results of the parameter `a`, in seconds.
fn results(all: &[(&str, &str)]) -> Recording {
    let entry = |(a, rest): &(&str, &str)| format!(r#"{{"configuration": {{"a": {a}}}, "correctness": 1, {rest}}}"#);
    let all: Vec<String> = all.iter().map(entry).collect();
    t4::parse(&format!(r#"{{"metadata": {{"timeunit": "seconds"}}, "results": [{}]}}"#, all.join(","))).unwrap()
}

#[test]
fn in_t4_what_comes_later_replaces_a_failure_and_a_failure_what_came_before() {
    let times = r#""times": {"runtimes": [0.002]}, "invalidity": "correct""#;
    let failed = r#""times": {}, "invalidity": "runtime""#;
    let recording = results(&[("1", times), ("1", failed), ("2", failed), ("2", times)]);
    assert!(is_failure(&recording.records[0].measured, FailureKind::Launch), "{:?}", recording.records[0]);
    assert_eq!(recording.records[1].measured, Measured::Samples(vec![2.0]));
}

#[test]
fn in_t4_a_measurement_without_a_unit_is_in_that_of_the_file() {
    let time = r#""times": {}, "invalidity": "correct", "measurements": [{"name": "time", "value": 0.002}]"#;
    let in_ms = r#""times": {}, "invalidity": "correct", "measurements": [{"name": "time", "value": 2, "unit": "ms"}]"#;
    let recording = results(&[("1", time), ("2", in_ms)]);
    assert_eq!(recording.records.iter().map(Record::mean_ms).collect::<Vec<_>>(), [Some(2.0); 2]);
}

#[test]
fn zero_is_one_value_whatever_its_sign() {
    let times = r#""times": {"runtimes": [0.001]}, "invalidity": "correct""#;
    let recording = results(&[("0.0", times), ("-0.0", times)]);
    assert_eq!(recording.records.len(), 1);
    assert_eq!(recording.records[0].measured, Measured::Samples(vec![1.0, 1.0]));
}

#[test]
fn times_of_nothing_but_zero_are_a_failure() {
    let cache = |times: &str| {
        let entry = format!(r#"{{"a": 1, "time": 0, "times": {times}}}"#);
        kernel_tuner::parse(&format!(r#"{{"tune_params_keys": ["a"], "cache": {{"1": {entry}}}}}"#)).unwrap()
    };
    assert!(is_failure(&cache("[0, 0.0]").records[0].measured, FailureKind::Launch));
    assert_eq!(cache("[0, 1.5]").records[0].measured, Measured::Samples(vec![0.0, 1.5]));
}

#[test]
fn of_a_run_the_times_are_joined_and_a_later_failure_replaces_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("tune.sqlite")).unwrap();
    let (space, _) = Space::recorded(&["a".to_owned()], &[vec![Value::Int(1)], vec![Value::Int(2)]]).unwrap();
    let (device, tunable) = (DeviceIdentity::named("gpu", "CUDA"), TunableIdentity::new("sort", 1));
    let workload = Workload::new();
    let task = Task { device: &device, tunable: &tunable, workload: &workload, space: &space };
    let mut run = store.begin(&task, &Plan { strategy: "s".to_owned(), ..Plan::default() }).unwrap();
    let failure = Outcome::Failed(Failure { kind: FailureKind::WrongResult, message: "wrong".to_owned() });
    for (a, outcome) in
        [(1, Outcome::Times(vec![1.0])), (2, Outcome::Times(vec![2.0])), (1, failure), (2, Outcome::Times(vec![3.0]))]
    {
        let config = Config(vec![Value::Int(a)]);
        store.record(&mut run, &Observation { config, launches: 1, outcome, took_ms: 0.0 }).unwrap();
    }
    let recording = store_json::recording_of(&[store.run_record(run.id()).unwrap()]).unwrap();
    assert!(is_failure(&recording.records[0].measured, FailureKind::WrongResult));
    assert_eq!(recording.records[1].measured, Measured::Samples(vec![2.0, 3.0]));
}
