//! Recorded spaces in other programs' forms: what real files do, and what comes out again of what was written.

use std::path::Path;

use tuner::interchange::{kernel_tuner, read_import, read_recording, t4};
use tuner::replay::{Measured, Recording, Summary};
use tuner::{Config, FailureKind, Value};

use crate::recordings::{find, recorded};

fn counts(recording: &Recording) -> [usize; 3] {
    let kind = |kind| {
        let of_kind = |measured: &Measured| matches!(measured, Measured::Failed(failure) if failure.kind == kind);
        recording.records.iter().filter(|record| of_kind(&record.measured)).count()
    };
    let samples = recording.records.iter().filter(|record| matches!(record.measured, Measured::Samples(_))).count();
    [samples, kind(FailureKind::Compile), kind(FailureKind::Launch)]
}

/// Of two recordings the same, configuration by configuration.
fn assert_same(one: &Recording, other: &Recording) {
    assert_eq!(one.space.parameters(), other.space.parameters());
    assert_eq!(one.space.len(), other.space.len());
    for index in 0..one.space.len() {
        assert_eq!(one.space.config(index), other.space.config(index));
        assert_eq!(one.records[index], other.records[index], "{:?}", one.space.config(index));
    }
}

fn written(recording: &Recording, write: impl Fn(&Recording, &mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(recording, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
#[ignore = "needs the recorded spaces"]
fn a_cache_gives_every_configuration_with_all_its_samples() {
    for (name, device, counted, per_config) in [
        ("convolution_milo_A100", "NVIDIA A100-PCIE-40GB", [4201, 6, 155], 32),
        ("convolution_RTX_3090", "NVIDIA GeForce RTX 3090", [5220, 1426, 122], 10),
        ("dedispersion_milo_A6000", "NVIDIA RTX A6000", [11130, 0, 0], 32),
    ] {
        let path = recorded(&format!("raw/{name}.json.gz"));
        let recording = read_recording(&path).unwrap();
        assert_eq!(recording.device, device);
        assert_eq!(counts(&recording), counted);
        assert_eq!(recording.records.len(), counted.iter().sum::<usize>());
        assert!(recording.records.iter().all(|record| match &record.measured {
            Measured::Samples(samples) => samples.len() == per_config,
            _ => true,
        }));
    }
}

#[test]
#[ignore = "needs the recorded spaces"]
fn a_cache_and_its_compact_form_agree() {
    let raw = recorded("raw/convolution_milo_A100.json.gz");
    let compact = recorded("compact/convolution_milo_A100.csv.gz");
    let (raw, compact) = (read_recording(&raw).unwrap(), read_recording(&compact).unwrap());
    assert_eq!((&raw.device, &raw.kernel, &raw.problem), (&compact.device, &compact.kernel, &compact.problem));
    for index in 0..compact.space.len() {
        let mut values = compact.space.config(index).0;
        values.extend([Value::Int(1), Value::Int(15), Value::Int(15)]);
        let record = &raw.records[raw.space.index_of(&Config(values)).unwrap()];
        match (record.mean_ms(), compact.records[index].mean_ms()) {
            (Some(raw), Some(compact)) => assert!((raw - compact).abs() <= 1e-6 * raw, "{raw} {compact}"),
            (raw, compact) => assert_eq!(raw, compact),
        }
    }
}

#[test]
#[ignore = "needs the recorded spaces"]
fn a_t4_file_and_the_cache_it_was_made_of_agree() {
    let cache = recorded("raw/convolution_milo_A100.json.gz");
    let t4 = recorded("raw/convolution_milo_A100_T4.json.gz");
    assert_same(&read_recording(&cache).unwrap(), &read_recording(&t4).unwrap());
}

#[test]
#[ignore = "needs the recorded spaces"]
fn a_cache_that_a_kill_left_unclosed_is_read_up_to_the_last_entry() {
    let path = recorded("raw/expdist_A4000_partial_2885_of_which_1380_failed.json.gz");
    let recording = read_recording(&path).unwrap();
    assert_eq!(counts(&recording), [1505, 1380, 0]);
    assert_eq!(recording.problem, "callable");
}

const CACHE: &str = r#"{"device_name": "", "kernel_name": "k", "problem_size": [8, 8], "tune_params_keys": ["b", "a", "mode"],
"tune_params": {"b": [1, 2, 4], "a": [0.5], "mode": ["x", "y"]}, "objective": "GFLOP/s", "cache": {
"1,0.5,x": {"a": 0.5, "b": 1, "mode": "x", "time": 2.0, "times": [3.0, 2.0, 1.0], "GFLOP/s": 7, "compile_time": 12.5},
"2,0.5,x": {"a": 0.5, "b": 2, "mode": "x", "GFLOP/s": "InvalidConfig"},
"4,0.5,x": {"a": 0.5, "b": 4, "mode": "x", "time": "RuntimeFailedConfig"},
"1,0.5,y": {"a": 0.5, "b": 1, "mode": "y", "time": 1e20},
"2,0.5,y": {"a": 0.5, "b": 2, "mode": "y", "time": 1.25, "GFLOP/s": NaN},
"4,0.5,y": {"a": 0.5, "b": 4, "mode": "y", "time": 9.0, "times": [9.0]},
"4,0.5,y": {"a": 0.5, "b": 4, "mode": "y", "time": 8.0, "times": [8.0]}}}"#;

fn parsed(text: &str) -> Result<Recording, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.json");
    std::fs::write(&path, text).unwrap();
    read_recording(&path).map_err(|error| error.to_string())
}

fn at<'a>(recording: &'a Recording, b: i64, mode: &str) -> &'a Measured {
    let config = Config(vec![Value::Int(b), Value::Float(0.5), Value::Text(mode.to_owned())]);
    &recording.records[recording.space.index_of(&config).unwrap()].measured
}

#[test]
fn the_quirks_of_caches_have_a_meaning_each() {
    let recording = parsed(CACHE).unwrap();
    assert_eq!((recording.device.as_str(), recording.problem.as_str()), ("", "[8, 8]"));
    assert_eq!(recording.space.names(), ["b", "a", "mode"]);
    let kind = |measured: &Measured| match measured {
        Measured::Failed(failure) => Some(failure.kind),
        _ => None,
    };
    assert_eq!(at(&recording, 1, "x"), &Measured::Samples(vec![3.0, 2.0, 1.0]));
    assert_eq!(kind(at(&recording, 2, "x")), Some(FailureKind::Constraint));
    assert_eq!(kind(at(&recording, 4, "x")), Some(FailureKind::Launch));
    assert_eq!(kind(at(&recording, 1, "y")), Some(FailureKind::Launch));
    let mean_only = Summary { mean_ms: 1.25, median_ms: 1.25, min_ms: 1.25, sd_ms: 0.0, samples: 1 };
    assert_eq!(at(&recording, 2, "y"), &Measured::Summary(mean_only));
    assert_eq!(at(&recording, 4, "y"), &Measured::Samples(vec![8.0]), "the later of two entries counts");
    let recording = parsed(&CACHE.replace("[3.0, 2.0, 1.0]", "[3.0, NaN, 1.0]").replace("[8.0]", "[NaN]")).unwrap();
    assert_eq!(at(&recording, 1, "x"), &Measured::Samples(vec![3.0, 1.0]), "NaN counts as no number");
    assert_eq!(kind(at(&recording, 4, "y")), Some(FailureKind::Launch));
}

#[test]
fn a_parameter_that_is_called_as_a_result_is_in_no_cache() {
    for name in ["time", "times", "failure", "compile_time"] {
        let text = format!("# device=D; kernel=k; problem_size=7\n{name},status,mean_ms\n1,ok,2\n2,ok,1\n");
        let recording = parsed(&text).unwrap();
        let error = kernel_tuner::write(&recording, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains(&format!("a parameter is called {name}")), "{error}");
    }
}

/// The fuzzer found it: in the cache the problem is nested one level deeper than alone, and JSON's reader takes 127.
#[test]
fn a_problem_nested_as_deep_as_json_may_be_can_be_read_from_the_cache_that_is_written() {
    for depth in [1, 126, 127, 128] {
        let problem = format!("{}8{}", "[".repeat(depth), "]".repeat(depth));
        let recording =
            parsed(&format!("# device=D; kernel=k; problem_size={problem}\nx,status,mean_ms\n1,ok,2\n")).unwrap();
        let again = kernel_tuner::parse(&written(&recording, kernel_tuner::write)).unwrap();
        assert_eq!(again.problem, problem);
    }
}

#[test]
fn every_cut_of_a_cache_reads_as_its_complete_entries_or_is_refused() {
    let mut entries = 0;
    for end in 0..CACHE.len() {
        match parsed(&CACHE[..end]) {
            Ok(recording) => {
                assert!(recording.space.len() >= entries, "fewer entries in a longer piece, {end} bytes");
                entries = recording.space.len();
            }
            Err(_) => assert_eq!(entries, 0, "a longer piece is refused, {end} bytes"),
        }
    }
    assert_eq!(entries, 6);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_the_place() {
    for (from, to, said) in [
        ("\"b\": 2, \"mode\": \"x\"", "\"mode\": \"x\"", "2,0.5,x\": has no parameter \"b\""),
        ("[3.0, 2.0, 1.0]", "[3.0, -2.0, 1.0]", "1,0.5,x\": times: -2.0 is not a time"),
        ("[3.0, 2.0, 1.0]", "[3.0, \"soon\"]", "1,0.5,x\": times: \"soon\" is not a time"),
        ("\"tune_params_keys\"", "\"keys\"", "tune_params_keys"),
        ("\"cache\"", "\"kash\"", "neither"),
    ] {
        let error = parsed(&CACHE.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    for (text, said) in [
        (r#"{"results": [{"configuration": {"a": 1}, "times": {}, "invalidity": "odd", "correctness": 1}]}"#, "odd"),
        (r#"{"metadata": {"timeunit": "fortnights"}, "results": []}"#, "fortnights"),
        (
            r#"{"results": [{"configuration": {"a": 1}, "times": {}, "invalidity": "timeout", "correctness": 0},
                {"configuration": {"a": 2, "b": 3}, "times": {}, "invalidity": "timeout", "correctness": 0}]}"#,
            "result 1: 2 parameters, the first has 1",
        ),
    ] {
        let error = parsed(text).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn t4_times_are_taken_in_their_unit_and_repeated_configurations_are_joined() {
    let recording = parsed(
        r#"{"metadata": {"timeunit": "microseconds"}, "schema_version": "1.0.0", "results": [
        {"configuration": {"a": 1}, "times": {"compilation": 3, "runtimes": [1000, 3000]}, "invalidity": "correct", "correctness": 1},
        {"configuration": {"a": 2}, "times": {"compilation": 0}, "invalidity": "correct", "correctness": 1,
         "measurements": [{"name": "time", "value": 2, "unit": "s"}]},
        {"configuration": {"a": 3}, "times": {"compilation": -1}, "invalidity": "timeout", "correctness": 0},
        {"configuration": {"a": 1}, "times": {"runtimes": [2000]}, "invalidity": "correct", "correctness": 1}]}"#,
    )
    .unwrap();
    assert_eq!(recording.records[0].measured, Measured::Samples(vec![1.0, 3.0, 2.0]));
    // A negative time is no time.
    let compile_ms: Vec<Option<f64>> = recording.records.iter().map(|record| record.compile_ms).collect();
    assert_eq!(compile_ms, [Some(0.003), Some(0.0), None]);
    assert_eq!(recording.records[1].mean_ms(), Some(2000.0));
    assert!(matches!(&recording.records[2].measured, Measured::Failed(f) if f.kind == FailureKind::TimeOut));
}

#[test]
fn a_written_cache_and_a_written_t4_file_read_back_the_same() {
    let mut recordings = vec![parsed(CACHE).unwrap()];
    for name in ["raw/convolution_milo_A100.json.gz", "compact/pnpoly_RTX_3090.csv.gz"] {
        recordings.extend(find(name).map(|path| read_recording(&path).unwrap()));
    }
    for recording in recordings {
        let cache = kernel_tuner::parse(&written(&recording, kernel_tuner::write)).unwrap();
        assert_same(&recording, &cache);
        assert_eq!((cache.device, cache.kernel), (recording.device.clone(), recording.kernel.clone()));
        assert_eq!(cache.problem, recording.problem);
    }
    let recording = parsed(CACHE).unwrap();
    // Kernel Tuner's own readers ask for these.
    let cache: serde_json::Value = serde_json::from_str(&written(&recording, kernel_tuner::write)).unwrap();
    for (key, entry) in cache["cache"].as_object().unwrap() {
        for name in ["verification_time", "benchmark_time", "strategy_time", "framework_time"] {
            assert!(entry[name].is_number(), "{key}: {name}");
        }
    }
    assert_same(&recording, &t4::parse(&written(&recording, t4::write)).unwrap());
    // A fixed parameter that is varied, too, is what it is in each configuration.
    let mut fixed = recording.clone();
    fixed.fixed.push((recording.space.parameters()[0].name().to_owned(), Value::Int(99)));
    assert_same(&recording, &t4::parse(&written(&fixed, t4::write)).unwrap());
    assert_same(&recording, &kernel_tuner::parse(&written(&fixed, kernel_tuner::write)).unwrap());
}

/// What the T4 schema uses of JSON Schema: type, properties, required, items, enum, pattern.
fn violations(schema: &serde_json::Value, value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        other => panic!("the schema has the type {other:?}"),
    };
    let allowed = match &schema["type"] {
        serde_json::Value::String(kind) => is(kind),
        serde_json::Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
        _ => true,
    };
    if !allowed {
        found.push(format!("{at}: not of type {}", schema["type"]));
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        found.push(format!("{at}: {value} is not among {}", schema["enum"]));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            found.push(format!("{at}: no {name}"));
        }
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            violations(inner, value, &format!("{at}/{name}"), found);
        }
    }
    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
        violations(&schema["items"], value, &format!("{at}/{index}"), found);
    }
}

#[test]
#[ignore = "needs the recorded spaces"]
fn a_written_t4_file_is_valid_by_the_schema() {
    let schema = recorded("t1/T4-results-schema-1.0.0.json");
    let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let mut recordings = vec![parsed(CACHE).unwrap()];
    recordings.extend(find("raw/convolution_RTX_3090.json.gz").map(|path| read_recording(&path).unwrap()));
    for recording in recordings {
        let text = written(&recording, t4::write);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut found = Vec::new();
        violations(&schema, &value, "", &mut found);
        assert_eq!(found, Vec::<String>::new());
        assert_eq!(value["results"].as_array().unwrap().len(), recording.space.len());
        // The validator sees what is wrong.
        let mut wrong = value.clone();
        wrong["results"][0]["invalidity"] = "odd".into();
        wrong["results"][0].as_object_mut().unwrap().remove("times");
        violations(&schema, &wrong, "", &mut found);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}

// ---- the store's own form ----

use proptest::prelude::*;
use tuner::interchange::{constants, store_json};
use tuner::space::Space;
use tuner::store::contents::{PinRecord, RunRecord, SpaceRecord};
use tuner::store::{
    Contender, DeviceIdentity, Evidence, Observation, Plan, Store, StoreError, Task, TunableIdentity, Workload,
};
use tuner::{Failure, Outcome};

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
                let parts = vec![vec![took_ms; launches]; launches % 3];
                Observation { config, launches, outcome, took_ms, parts }
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
            plan: Plan { strategy: "s".to_owned(), seed, budget: "b".to_owned() },
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
        pinned: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let pins: Vec<PinRecord> = runs
            .iter()
            .filter(|run| pinned && !run.measurements.is_empty())
            .map(|run| PinRecord {
                pin: 0,
                device: run.device.clone(),
                tunable: run.tunable.clone(),
                workload: run.workload.clone(),
                space: run.space.clone(),
                config: run.measurements[0].config.clone(),
                reason: "why\n".to_owned(),
                at: "2026-01-02T03:04:05.678Z".to_owned(),
            })
            .collect();
        let mut first = Store::open(&folder.path().join("first")).unwrap();
        first.import(&runs, &pins).unwrap();
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
            let imported = second.import(&read.runs, &read.pins).unwrap();
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
        let plan = Plan { strategy: "s".to_owned(), seed: 1, budget: String::new() };
        let mut run = store.begin(&task, &plan).unwrap();
        for index in 0..2 {
            let outcome = Outcome::Times(vec![index as f64 + 1.0 + offset]);
            store
                .record(
                    &mut run,
                    &Observation { config: space.config(index), launches: 1, outcome, took_ms: 0.0, parts: Vec::new() },
                )
                .unwrap();
        }
    }
    store
}

#[test]
fn a_store_and_its_export_are_recordings_run_by_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = small_store(folder.path());
    let export = store_json::export(&store, &[]).unwrap();
    let mut bytes = Vec::new();
    store_json::write(&export, &mut bytes).unwrap();
    std::fs::write(folder.path().join("export.json"), bytes).unwrap();
    for name in ["tune.sqlite", "export.json"] {
        let path = |run: &str| folder.path().join(format!("{name}{run}"));
        let error = read_recording(&path("")).unwrap_err().to_string();
        assert!(error.contains("FILE#RUN: #1: decode v1"), "{error}");
        let recording = read_recording(&path("#2")).unwrap();
        assert_eq!((recording.device.as_str(), recording.kernel.as_str()), ("gpu", "decode"));
        assert_eq!(recording.records[1].measured, Measured::Samples(vec![3.0]));
        assert!(read_recording(&path("#9")).is_err());
    }
    // Runs of one thing are one recording.
    let joined = store_json::recording_of(&export.runs[..2]).unwrap();
    assert_eq!(joined.records[0].measured, Measured::Samples(vec![1.0, 2.0]));
}

#[test]
fn a_recording_that_was_imported_is_exported_for_the_same_problem() {
    let folder = tempfile::tempdir().unwrap();
    let fixed = "# device=gpu; kernel=k; problem_size=[8, 8]; fixed={\"f\": 3}\nb,status,mean_ms\n1,ok,2.0\n2,ok,3.0\n";
    for (name, text) in [("cache.json", CACHE), ("fixed.csv", fixed)] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let recording = read_recording(&file).unwrap();
        let mut store = Store::open(&folder.path().join(format!("{name}.sqlite"))).unwrap();
        store.import(&read_import(&file).unwrap().runs, &[]).unwrap();
        let again = store_json::recording_of(&store_json::export(&store, &[]).unwrap().runs).unwrap();
        assert_eq!((again.problem.as_str(), &again.fixed), ("[8, 8]", &recording.fixed), "{name}");
    }
}

#[test]
fn recordings_that_differ_in_anything_are_runs_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let mut store = Store::open(&folder.path().join("tune.sqlite")).unwrap();
    let changes: [fn(&mut Recording); 5] = [
        |_| (),
        |other| other.records[0].measured = Measured::Samples(vec![123.5]),
        |other| {
            let failure = Failure { kind: FailureKind::Launch, message: "no".to_owned() };
            other.records[1].measured = Measured::Failed(failure);
        },
        |other| other.device = "another".to_owned(),
        |other| other.kernel = "another".to_owned(),
    ];
    let texts = changes.map(|change| {
        let mut recording = parsed(CACHE).unwrap();
        change(&mut recording);
        written(&recording, kernel_tuner::write)
    });
    for (n, text) in texts.iter().chain(&texts).enumerate() {
        std::fs::write(&file, text).unwrap();
        store.import(&read_import(&file).unwrap().runs, &[]).unwrap();
        assert_eq!(store.runs().unwrap().len(), (n + 1).min(texts.len()));
    }
}

#[test]
fn a_store_with_a_time_below_0_is_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let mut export = store_json::export(&small_store(folder.path()), &[]).unwrap();
    export.runs[1].measurements[0].outcome = Outcome::Times(vec![1.0, -0.25]);
    assert_eq!(store_json::recording_of(&export.runs[1..2]).unwrap_err(), "run 2: -0.25 ms is not a time");
}

#[test]
fn an_export_that_contradicts_itself_or_is_of_another_version_is_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let export = store_json::export(&small_store(folder.path()), &[]).unwrap();
    let mut other = Store::open(&folder.path().join("other.sqlite")).unwrap();
    let mut wrong = export.clone();
    wrong.runs[2].measurements[0].config.0[0] = Value::Int(33);
    assert!(matches!(other.import(&wrong.runs, &[]), Err(StoreError::BadKey { .. })));
    for values in [1, 3] {
        let mut wrong = export.clone();
        wrong.runs[2].measurements[0].config.0.resize(values, Value::from("x"));
        assert!(matches!(other.import(&wrong.runs, &[]), Err(StoreError::BadKey { .. })), "{values} values");
    }
    let mut wrong = export.clone();
    wrong.runs[1].measurements[0].outcome = Outcome::Times(vec![f64::NAN]);
    assert!(matches!(other.import(&wrong.runs, &[]), Err(StoreError::BadKey { .. })));
    let mut twice = export.clone();
    twice.runs[1].uid = twice.runs[2].uid.clone();
    assert!(other.import(&twice.runs, &[]).is_err());
    assert!(other.runs().unwrap().is_empty());
    for (from, to, said) in [
        ("\"version\": 1", "\"version\": 2", "version 2"),
        ("\"version\": 1", "\"version\": 0", "version 0"),
        ("tuning store", "shopping list", "shopping"),
    ] {
        let mut bytes = Vec::new();
        store_json::write(&export, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap().replacen(from, to, 1);
        assert!(store_json::parse(&text).unwrap_err().contains(said));
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
        assert_eq!(other.import(&read.runs, &read.pins).unwrap().runs, runs, "{keys}");
    }
}

#[test]
fn an_import_that_could_not_be_read_again_or_contradicts_what_is_here_says_which_run_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let export = store_json::export(&small_store(folder.path()), &[]).unwrap();
    let mut other = Store::open(&folder.path().join("other.sqlite")).unwrap();
    let mut refused = |change: fn(&mut RunRecord), said: &str| {
        let mut wrong = export.clone();
        change(&mut wrong.runs[1]);
        let error = other.import(&wrong.runs, &[]).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        other.runs().unwrap().len()
    };
    assert_eq!(refused(|run| run.measurements[0].launches = usize::MAX, "number of launches"), 0);
    let another_space = |run: &mut RunRecord| {
        run.uid = "another".to_owned();
        run.space.parameters[0].1.push(Value::Int(128));
    };
    assert_eq!(refused(another_space, "run 2 cannot be stored: the space "), 0);
    Store::open(&folder.path().join("other.sqlite")).unwrap().import(&export.runs, &[]).unwrap();
    let elsewhere = |run: &mut RunRecord| run.device.name = "elsewhere".to_owned();
    assert_eq!(refused(elsewhere, "run 2 cannot be stored: by its uid it is run 2 here"), 3);
}

#[test]
fn a_summary_is_checked_as_times_are_and_samples_need_a_mean() {
    let entry = |result: &str| {
        format!("{{\"tune_params_keys\": [\"b\"], \"cache\": {{\"1\": {{\"b\": 1, \"time\": 1.0, {result}}}}}}}")
    };
    let summary = |mean: &str, median: &str, n: &str| {
        parsed(&entry(&format!(
            "\"summary\": {{\"mean_ms\": {mean}, \"median_ms\": {median}, \"min_ms\": 1, \"sd_ms\": 0, \"samples\": {n}}}"
        )))
    };
    assert!(matches!(summary("2", "2", "3").unwrap().records[0].measured, Measured::Summary(_)));
    for (mean, median, n) in [("0", "2", "3"), ("-2", "2", "3"), ("2", "-2", "3"), ("2", "2", "-3")] {
        let error = summary(mean, median, n).unwrap_err();
        assert!(error.contains("summary"), "{error}");
    }
    let endless = parsed(&entry("\"times\": [1e308, 1e308, 1e308]")).unwrap();
    assert!(matches!(endless.records[0].measured, Measured::Failed(_)), "{:?}", endless.records[0].measured);
}

#[test]
fn generated_constants_compile_whatever_the_names_are() {
    let entry = |tunable: &str, names: &[&str], values: Vec<Value>| constants::Constants {
        tunable: TunableIdentity::new(tunable, 2),
        workload: Workload::new().with("why", "a */ b\n/* c \\").unwrap(),
        device: DeviceIdentity::named("NVIDIA H200", "CUDA"),
        names: names.iter().map(|&name| name.to_owned()).collect(),
        config: Config(values),
        origin: "run 5".to_owned(),
    };
    let all = [
        entry(
            "decode",
            &["block", "is fast", "x.y", "x y"],
            vec![Value::Int(128), Value::Bool(true), 0.1.into(), 3.into()],
        ),
        entry("decode", &["block"], vec![Value::Int(i64::MIN)]),
        entry("fn", &["", "7"], vec![Value::from("a\"b\\c\n??/é"), Value::Float(1e300)]),
    ];
    let rust = constants::rust("my-tool", &all);
    assert!(rust.contains("pub mod decode {") && rust.contains("pub mod decode_2 {") && rust.contains("pub mod fn_ {"));
    assert!(rust.contains("pub const BLOCK: i64 = 128;") && rust.contains("pub const X_Y_2: i64 = 3;"), "{rust}");
    let header = constants::c_header("my-tool", &all);
    assert!(header.contains("chosen by my-tool's tuner") && header.contains("#ifndef MY_TOOL_TUNED_H\n"), "{header}");
    assert!(header.contains("#define DECODE_BLOCK 128\n") && header.contains("#define DECODE_IS_FAST 1\n"), "{header}");
    let folder = tempfile::tempdir().unwrap();
    let compile = |program: &str, source: &str, text: &str, arguments: &[&str]| {
        std::fs::write(folder.path().join(source), text).unwrap();
        let output =
            std::process::Command::new(program).current_dir(folder.path()).args(arguments).arg(source).output();
        let output = output.unwrap_or_else(|error| panic!("{program}, which built this program, too: {error}"));
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    let arguments = ["--crate-type=lib", "--edition=2024", "--emit=metadata", "-Dwarnings"];
    compile("rustc", "constants.rs", &format!("//! Test.\n#![deny(missing_docs)]\n{rust}"), &arguments);
    let using = format!(
        "{header}\nlong long a = DECODE_BLOCK + DECODE_2_BLOCK; double b = DECODE_X_Y; const char *c = FN__P_;\n"
    );
    compile("cc", "constants.c", &using, &["-c", "-Wall", "-Werror", "-pedantic", "-std=c99"]);
}

#[test]
fn a_cut_cache_is_said_and_anything_else_that_is_cut_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.json");
    let read = |text: &str| {
        std::fs::write(&file, text).unwrap();
        read_recording(&file)
    };
    let whole = parsed(CACHE).unwrap();
    assert!(!read(CACHE).unwrap().cut);
    let end = CACHE.rfind('}').unwrap();
    let open = &CACHE[..CACHE[..end].rfind('}').unwrap()];
    let recording = read(open).unwrap();
    assert!(recording.cut && recording.records.len() <= whole.records.len());
    let t4 = written(&whole, t4::write);
    assert!(!read(&t4).unwrap().cut);
    for keep in [t4.len() - 2, t4.len() * 3 / 4] {
        let error = read(&t4[..keep]).unwrap_err().to_string();
        assert!(error.contains("recording.json") && (error.contains("cut short") || error.contains("JSON")), "{error}");
    }
}

#[test]
fn a_gzipped_file_that_unpacks_without_bound_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bomb.json.gz");
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(&file).unwrap(), flate2::Compression::best());
    std::io::Write::write_all(&mut gzip, &vec![b' '; 64 << 20]).unwrap();
    gzip.finish().unwrap();
    let error = read_recording(&file).unwrap_err().to_string();
    assert!(error.contains("bomb.json.gz") && error.contains("unpacks to more than"), "{error}");
    // A file that unpacks to sixty times its size is nothing unusual.
    let text = CACHE.to_owned() + &" \n".repeat(20_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    assert!(text.len() > 60 * packed.len(), "{} of {}", packed.len(), text.len());
    std::fs::write(&file, packed).unwrap();
    assert_same(&read_recording(&file).unwrap(), &parsed(CACHE).unwrap());
}

#[test]
fn a_file_is_read_out_of_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let fed = |text: &'static str| {
        let to = pipe.clone();
        std::thread::spawn(move || std::fs::write(to, text).unwrap())
    };
    let feed = fed(CACHE);
    assert_same(&read_recording(&pipe).unwrap(), &parsed(CACHE).unwrap());
    feed.join().unwrap();
    let feed = fed(CACHE);
    let runs = serde_json::to_value(read_import(&pipe).unwrap()).unwrap();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    feed.join().unwrap();
}
