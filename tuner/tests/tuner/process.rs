//! Devices in child processes: what a child answers, and how it ends.
#![cfg(unix)]

use std::process::Command;
use std::time::{Duration, Instant};

use tuner::process::{ProcessDevice, serve};
use tuner::{Config, Device, Failure, FailureKind, Outcome, Value, from_fn};

fn child(script: &str, time_out_ms: u64) -> ProcessDevice {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    ProcessDevice::new("script", command, Duration::from_millis(time_out_ms))
}

fn device(script: &str, time_out_ms: u64) -> ProcessDevice {
    child(&format!("echo '\"ready\"'; {script}"), time_out_ms)
}

fn measure(device: &mut ProcessDevice) -> Outcome {
    device.measure(&Config(vec![Value::Int(1)]), 2)
}

fn failure(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => failure,
        Outcome::Times(times) => panic!("{times:?}"),
    }
}

#[test]
fn a_child_answers_request_after_request() {
    let mut device = device(
        "n=0; while read -r line; do n=$((n+1)); echo \"{\\\"times\\\":[$n.5]}\"; done",
        20_000,
    );
    assert_eq!(measure(&mut device), Outcome::Times(vec![1.5]));
    assert_eq!(measure(&mut device), Outcome::Times(vec![2.5]));
    // One that is slow to begin is waited for.
    let script = r#"sleep 0.5; echo '"ready"'; read -r line; echo '{"times":[1]}'; cat >/dev/null"#;
    assert_eq!(measure(&mut child(script, 300)), Outcome::Times(vec![1.0]));
}

#[test]
fn a_child_that_hangs_is_killed_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let once = folder.path().join("once");
    let script = format!(
        "read -r line; if mkdir {0} 2>/dev/null; then exec sleep 1000; fi; echo '{{\"times\":[1]}}'; cat >/dev/null",
        once.display()
    );
    let mut device = device(&script, 2_000);
    let begun = Instant::now();
    assert_eq!(failure(measure(&mut device)).kind, FailureKind::TimeOut);
    assert!(begun.elapsed() < Duration::from_secs(100));
    assert_eq!(measure(&mut device), Outcome::Times(vec![1.0]));
}

#[test]
fn a_child_that_does_not_read_a_long_request_is_killed_in_time() {
    let mut device = device("exec sleep 5", 50);
    let long = Config(vec![Value::Text("x".repeat(1 << 20))]);
    assert_eq!(failure(device.measure(&long, 1)).kind, FailureKind::TimeOut);
}

#[test]
fn a_child_that_prints_without_end_is_a_failed_launch() {
    let mut endless = device("read -r line; cat /dev/zero", 60_000);
    let said = failure(measure(&mut endless));
    assert!(
        said.message.contains("longer than 16 MiB"),
        "{}",
        said.message
    );
}

#[test]
fn a_child_that_dies_or_answers_nonsense_is_a_failed_launch_with_the_reason() {
    for (script, begins, said) in [
        ("read -r line; kill -9 $$", true, "signal: 9"),
        ("read -r line; exit 3", true, "exit status: 3"),
        ("read -r line; echo hello", true, "answered \"hello\""),
        (r#"echo '{"failed":"no such file"}'"#, false, "no such file"),
        ("exit 3", false, "died: exit status: 3"),
        ("echo hello", false, "answered \"hello\""),
    ] {
        let mut device = if begins {
            device(script, 20_000)
        } else {
            child(script, 20_000)
        };
        assert_eq!(
            device
                .start()
                .map_err(|error| error.to_string().contains(said)),
            if begins { Ok(()) } else { Err(true) }
        );
        for _ in 0..2 {
            let failure = failure(measure(&mut device));
            assert_eq!(failure.kind, FailureKind::Launch);
            assert!(failure.message.contains(said), "{}", failure.message);
        }
    }
}

#[test]
fn a_child_that_dies_after_its_answer_does_not_fail_the_next_configuration() {
    let mut ends = device("read -r line; echo '{\"times\":[1]}'; exit 3", 20_000);
    for _ in 0..3 {
        assert_eq!(measure(&mut ends), Outcome::Times(vec![1.0]));
    }
    // A configuration that kills each child fails.
    let script = r#"while read -r line; do case $line in *7*) kill -9 $$;; esac; echo '{"times":[1]}'; done"#;
    let mut dies = device(script, 20_000);
    for (value, works) in [
        (1, true),
        (7, false),
        (7, false),
        (2, true),
        (7, false),
        (1, true),
    ] {
        let outcome = dies.measure(&Config(vec![Value::Int(value)]), 1);
        assert_eq!(
            matches!(outcome, Outcome::Times(_)),
            works,
            "{value}: {outcome:?}"
        );
    }
    // One that kills a new child is not asked again.
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let mut dies = device(
        &format!("echo >>{}; read -r line; exit 3", begun.display()),
        20_000,
    );
    for children in 1..=2 {
        failure(measure(&mut dies));
        assert_eq!(
            std::fs::read_to_string(&begun).unwrap().lines().count(),
            children
        );
    }
}

#[test]
fn a_child_lives_on_after_a_failed_launch_or_is_replaced_as_asked() {
    // The second answer of a child is a time.
    let script = r#"read -r line; echo '{"failed":{"kind":"launch","message":"no"}}'; read -r line; \
            echo '{"times":[1]}'; cat >/dev/null"#;
    let mut one = device(script, 20_000);
    assert_eq!(failure(measure(&mut one)).message, "no");
    assert_eq!(measure(&mut one), Outcome::Times(vec![1.0]));
    let mut fresh = device(script, 20_000).fresh_after_failures();
    for _ in 0..2 {
        assert_eq!(failure(measure(&mut fresh)).message, "no");
    }
}

#[test]
fn the_served_side_answers_each_line_and_refuses_what_is_no_request() {
    let mut double = from_fn("double", |config, launches| {
        let Value::Int(x) = config.0[0] else { panic!() };
        Outcome::Times(vec![2.0 * x as f64; launches])
    });
    let request = r#"{"config": [3], "launches": 2}"#.to_owned();
    let mut answers = Vec::new();
    serve(
        &mut double,
        [Ok(request.clone()), Ok(request)],
        &mut answers,
    )
    .unwrap();
    assert_eq!(
        answers,
        b"\"ready\"\n{\"times\":[6.0,6.0]}\n{\"times\":[6.0,6.0]}\n"
    );
    assert!(serve(&mut double, [Ok("{}".to_owned())], Vec::new()).is_err());
}
