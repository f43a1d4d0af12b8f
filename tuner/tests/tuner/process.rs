//! Devices in child processes: what a child answers, and how it ends.
#![cfg(unix)]

use std::process::Command;

use tuner::process::{ProcessDevice, serve};

use crate::prelude::*;

fn child(script: &str, time_out_ms: u64) -> ProcessDevice {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    ProcessDevice::new("script", command, Duration::from_millis(time_out_ms))
}

/// A child that says at once that it is ready.
fn device(script: &str, time_out_ms: u64) -> ProcessDevice {
    child(&format!("echo '\"ready\"'; {script}"), time_out_ms)
}

fn measure(device: &mut ProcessDevice) -> Outcome {
    device.measure(&ints(&[1]), 2)
}

fn one_ms() -> Outcome {
    Times(vec![1.0])
}

#[test]
fn a_child_answers_request_after_request() {
    let counts = "n=0; while read -r line; do n=$((n+1)); echo \"{\\\"times\\\":[$n.5]}\"; done";
    let mut device = device(counts, 20_000);
    assert_eq!(
        [(); 2].map(|()| measure(&mut device)),
        [1.5, 2.5].map(|time| Times(vec![time]))
    );
    // One that is slow to begin is waited for.
    let script = r#"sleep 0.5; echo '"ready"'; read -r line; echo '{"times":[1]}'; cat >/dev/null"#;
    assert_eq!(measure(&mut child(script, 300)), one_ms());
}

#[test]
fn a_child_that_hangs_is_killed_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "read -r line; if mkdir {}/once 2>/dev/null; then exec sleep 1000; fi; \
         echo '{{\"times\":[1]}}'; cat >/dev/null",
        folder.path().display()
    );
    let mut device = device(&script, 2_000);
    let begun = Instant::now();
    assert_eq!(failure(measure(&mut device)).kind, FailureKind::TimeOut);
    assert!(begun.elapsed() < Duration::from_secs(100));
    assert_eq!(measure(&mut device), one_ms());
}

#[test]
fn a_child_that_does_not_read_or_prints_endlessly_is_a_failed_launch() {
    let long = Config(vec!["x".repeat(1 << 20).into()]);
    let failed = failure(device("exec sleep 5", 50).measure(&long, 1));
    assert_eq!(failed.kind, FailureKind::TimeOut);
    let endless = measure(&mut device("read -r line; cat /dev/zero", 60_000));
    says(failure(endless).message, "longer than 16 MiB");
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
        match device.start() {
            Ok(()) => assert!(begins, "{script}"),
            Err(error) => says(error, if begins { "nothing" } else { said }),
        }
        for _ in 0..2 {
            let failure = failure(measure(&mut device));
            assert_eq!(failure.kind, FailureKind::Launch);
            says(failure.message, said);
        }
    }
}

#[test]
fn a_child_that_dies_after_its_answer_does_not_fail_the_next_configuration() {
    let mut ends = device("read -r line; echo '{\"times\":[1]}'; exit 3", 20_000);
    for _ in 0..3 {
        assert_eq!(measure(&mut ends), one_ms());
    }
    // A configuration that kills each child fails.
    let script = "while read -r line; do case $line in *7*) kill -9 $$;; esac; \
                  echo '{\"times\":[1]}'; done";
    let mut dies = device(script, 20_000);
    for value in [1, 7, 7, 2, 7, 1] {
        let outcome = dies.measure(&ints(&[value]), 1);
        assert_eq!(outcome == one_ms(), value != 7, "{value}: {outcome:?}");
    }
    // One that kills a new child is not asked again.
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let script = format!("echo >>{}; read -r line; exit 3", begun.display());
    let mut dies = device(&script, 20_000);
    for children in 1..=2 {
        failure(measure(&mut dies));
        assert_eq!(
            std::fs::read_to_string(&begun).unwrap().lines().count(),
            children
        );
    }
}

#[test]
fn a_child_survives_or_is_replaced_after_a_failed_launch_as_asked() {
    // The second answer of a child is a time.
    let script = "read -r line; echo '{\"failed\":{\"kind\":\"launch\",\"message\":\"no\"}}'; \
                  read -r line; echo '{\"times\":[1]}'; cat >/dev/null";
    let mut one = device(script, 20_000);
    assert_eq!(measure(&mut one), Failed(failed("no")));
    assert_eq!(measure(&mut one), one_ms());
    let mut fresh = device(script, 20_000).fresh_after_failures();
    for _ in 0..2 {
        assert_eq!(measure(&mut fresh), Failed(failed("no")));
    }
}

#[test]
fn the_served_side_answers_each_line_and_refuses_invalid_requests() {
    let mut double = made(|config, launches| Times(vec![2.0 * number(config) as f64; launches]));
    let request = || Ok(r#"{"config": [3], "launches": 2}"#.to_owned());
    let mut answers = Vec::new();
    serve(&mut double, [request(), request()], &mut answers).unwrap();
    let answer = "{\"times\":[6.0,6.0]}\n";
    assert_eq!(
        String::from_utf8(answers).unwrap(),
        format!("\"ready\"\n{answer}{answer}")
    );
    assert!(serve(&mut double, [Ok("{}".to_owned())], Vec::new()).is_err());
}
