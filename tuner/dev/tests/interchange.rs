//! Recorded spaces in other programs' forms: what real files do.

use tuner::store::{RECORDED, Store};
use tuner::{Config, FailureKind, Outcome, Value};
use tuner_score::interchange::{import, read_recording};
use tuner_score::replay::Recording;

fn kind(outcome: &Outcome) -> Option<FailureKind> {
    if let Outcome::Failed(failure) = outcome {
        Some(failure.kind)
    } else {
        None
    }
}

/// Of two recordings the same, configuration by configuration.
fn assert_same(one: &Recording, other: &Recording) {
    assert_eq!(one.space.parameters(), other.space.parameters());
    assert_eq!(one.space.len(), other.space.len());
    for index in 0..one.space.len() {
        assert_eq!(one.space.config(index), other.space.config(index));
        assert_eq!(
            one.outcomes[index],
            other.outcomes[index],
            "{:?}",
            one.space.config(index)
        );
    }
}

const CACHE: &str = r#"{"device_name": "", "kernel_name": "k", "problem_size": [8, 8], "tune_params_keys": ["b", "a", "mode"],
"tune_params": {"b": [1, 2, 4], "a": [0.5], "mode": ["x", "y"]}, "objective": "GFLOP/s", "cache": {
"1,0.5,x": {"a": 0.5, "b": 1, "mode": "x", "time": 2.0, "times": [3.0, 2.0, 1.0], "GFLOP/s": 7, "compile_time": 12.5},
"2,0.5,x": {"a": 0.5, "b": 2, "mode": "x", "GFLOP/s": "InvalidConfig"},
"4,0.5,x": {"a": 0.5, "b": 4, "mode": "x", "time": "RuntimeFailedConfig"},
"1,0.5,y": {"a": 0.5, "b": 1, "mode": "y", "time": 1e20},
"2,0.5,y": {"a": 0.5, "b": 2, "mode": "y", "time": 1.25, "GFLOP/s": null},
"4,0.5,y": {"a": 0.5, "b": 4, "mode": "y", "time": 9.0, "times": [9.0]},
"4,0.5,y": {"a": 0.5, "b": 4, "mode": "y", "time": 8.0, "times": [8.0]}}}"#;

fn parsed(text: &str) -> Result<Recording, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.json");
    std::fs::write(&path, text).unwrap();
    read_recording(&path).map_err(|error| error.to_string())
}

fn at<'a>(recording: &'a Recording, b: i64, mode: &str) -> &'a Outcome {
    let config = Config(vec![
        Value::Int(b),
        Value::Float(0.5),
        Value::Text(mode.to_owned()),
    ]);
    &recording.outcomes[recording.space.index_of(&config).unwrap()]
}

fn times(times: &[f64]) -> Outcome {
    Outcome::Times(times.to_vec())
}

#[test]
fn each_quirk_of_a_cache_is_interpreted() {
    let recording = parsed(CACHE).unwrap();
    assert_eq!(
        (recording.device.as_str(), recording.problem.as_str()),
        ("", "[8, 8]")
    );
    assert_eq!(recording.space.names(), ["b", "a", "mode"]);
    assert_eq!(at(&recording, 1, "x"), &times(&[3.0, 2.0, 1.0]));
    assert_eq!(kind(at(&recording, 2, "x")), Some(FailureKind::Constraint));
    assert_eq!(kind(at(&recording, 4, "x")), Some(FailureKind::Launch));
    assert_eq!(kind(at(&recording, 1, "y")), Some(FailureKind::Launch));
    assert_eq!(at(&recording, 2, "y"), &times(&[1.25]));
    assert_eq!(
        at(&recording, 4, "y"),
        &times(&[8.0]),
        "the later of two entries counts"
    );
    let recording = parsed(
        &CACHE
            .replace("[3.0, 2.0, 1.0]", "[3.0, null, 1.0]")
            .replace("[8.0]", "[null]"),
    )
    .unwrap();
    assert_eq!(
        at(&recording, 1, "x"),
        &times(&[3.0, 1.0]),
        "null counts as no number"
    );
    assert_eq!(kind(at(&recording, 4, "y")), Some(FailureKind::Launch));
    let recording = parsed(
        &CACHE
            .replace("[3.0, 2.0, 1.0]", "[0, 1.5]")
            .replace("[8.0]", "[0, 0.0]"),
    )
    .unwrap();
    assert_eq!(at(&recording, 1, "x"), &times(&[0.0, 1.5]));
    assert_eq!(
        kind(at(&recording, 4, "y")),
        Some(FailureKind::Launch),
        "times of nothing but zero"
    );
}

/// T4 results of the parameter `a`, in a unit of time.
fn results(unit: &str, all: &[(&str, &str)]) -> Vec<Outcome> {
    let entry = |(a, rest): &(&str, &str)| {
        format!(r#"{{"configuration": {{"a": {a}}}, "correctness": 1, {rest}}}"#)
    };
    let all: Vec<String> = all.iter().map(entry).collect();
    let text = format!(
        r#"{{"metadata": {{"timeunit": "{unit}"}}, "results": [{}]}}"#,
        all.join(",")
    );
    parsed(&text).unwrap().outcomes
}

#[test]
fn later_t4_records_join_or_replace_earlier_ones_and_times_have_a_unit() {
    let two_ms = r#""times": {"runtimes": [0.002]}, "invalidity": "correct""#;
    let failed = r#""times": {}, "invalidity": "runtime""#;
    let found = results(
        "seconds",
        &[("1", two_ms), ("1", failed), ("2", failed), ("2", two_ms)],
    );
    assert_eq!(
        (kind(&found[0]), &found[1]),
        (Some(FailureKind::Launch), &times(&[2.0]))
    );
    // Zero is one value, whatever its sign.
    assert_eq!(
        results("seconds", &[("0.0", two_ms), ("-0.0", two_ms)]),
        [times(&[2.0, 2.0])]
    );
    // A measurement without a unit has the file's unit.
    let time = r#""times": {}, "invalidity": "correct", "measurements": [{"name": "time", "value": 0.002}]"#;
    let in_ms = r#""times": {}, "invalidity": "correct", "measurements": [{"name": "time", "value": 2, "unit": "ms"}]"#;
    assert_eq!(
        results("seconds", &[("1", time), ("2", in_ms)]),
        [times(&[2.0]), times(&[2.0])]
    );
    let several =
        r#""times": {"compilation": 3, "runtimes": [1000, 3000]}, "invalidity": "correct""#;
    let late = r#""times": {"compilation": -1}, "invalidity": "timeout""#;
    let found = results("microseconds", &[("1", several), ("2", late)]);
    assert_eq!(
        (&found[0], kind(&found[1])),
        (&times(&[1.0, 3.0]), Some(FailureKind::TimeOut))
    );
}

#[test]
fn errors_in_a_file_are_reported_with_their_place() {
    for (from, to, said) in [
        (
            "\"b\": 2, \"mode\": \"x\"",
            "\"mode\": \"x\"",
            "2,0.5,x\": has no parameter \"b\"",
        ),
        (
            "[3.0, 2.0, 1.0]",
            "[3.0, -2.0, 1.0]",
            "1,0.5,x\": times: -2.0 is not a time",
        ),
        (
            "[3.0, 2.0, 1.0]",
            "[3.0, \"soon\"]",
            "1,0.5,x\": times: \"soon\" is not a time",
        ),
        ("\"tune_params_keys\"", "\"keys\"", "tune_params_keys"),
        ("\"cache\"", "\"kash\"", "neither"),
    ] {
        let error = parsed(&CACHE.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    for (text, said) in [
        (
            r#"{"results": [{"configuration": {"a": 1}, "times": {}, "invalidity": "odd", "correctness": 1}]}"#,
            "odd",
        ),
        (
            r#"{"metadata": {"timeunit": "fortnights"}, "results": []}"#,
            "fortnights",
        ),
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
fn a_gzipped_file_that_unpacks_without_bound_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bomb.json.gz");
    let mut gzip = flate2::write::GzEncoder::new(
        std::fs::File::create(&file).unwrap(),
        flate2::Compression::best(),
    );
    std::io::Write::write_all(&mut gzip, &vec![b' '; 64 << 20]).unwrap();
    gzip.finish().unwrap();
    let error = read_recording(&file).unwrap_err().to_string();
    assert!(
        error.contains("bomb.json.gz") && error.contains("unpacks to more than"),
        "{error}"
    );
    // A file that unpacks to sixty times its size is nothing unusual.
    let text = CACHE.to_owned() + &" \n".repeat(20_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    assert!(
        text.len() > 60 * packed.len(),
        "{} of {}",
        packed.len(),
        text.len()
    );
    std::fs::write(&file, packed).unwrap();
    assert_same(&read_recording(&file).unwrap(), &parsed(CACHE).unwrap());
}

#[test]
fn a_file_is_read_from_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let fed = |text: &'static str| {
        let to = pipe.clone();
        std::thread::spawn(move || std::fs::write(to, text).unwrap())
    };
    let feed = fed(CACHE);
    assert_same(&read_recording(&pipe).unwrap(), &parsed(CACHE).unwrap());
    feed.join().unwrap();
}

#[test]
fn a_recording_is_imported_once_and_any_difference_makes_it_a_new_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("tune.sqlite")).unwrap();
    let changes = [
        ("", ""),
        ("[3.0, 2.0, 1.0]", "[3.0, 123.5]"),
        ("8.0", "7.0"),
        ("\"k\"", "\"other\""),
        ("\"\"", "\"gpu\""),
    ];
    let texts = changes.map(|(from, to)| {
        if from.is_empty() {
            CACHE.to_owned()
        } else {
            CACHE.replace(from, to)
        }
    });
    for (n, text) in texts.iter().chain(&texts).enumerate() {
        let new = import(&mut store, &parsed(text).unwrap()).unwrap();
        assert_eq!(
            (new > 0, store.runs().unwrap().len()),
            (n < texts.len(), (n + 1).min(texts.len()))
        );
    }
    let (recording, run) = (parsed(CACHE).unwrap(), store.run_record(1).unwrap());
    assert_eq!(
        (
            run.plan.strategy.as_str(),
            run.finished.is_some(),
            run.decision
        ),
        (RECORDED, true, None)
    );
    let kept: Vec<Outcome> = run
        .measurements
        .into_iter()
        .map(|measurement| measurement.outcome)
        .collect();
    assert_eq!(kept, recording.outcomes);
}
