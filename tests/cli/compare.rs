//! `ut-decode compare`: what a CI relies on.

use std::path::Path;

use crate::support::{STORE, empty, json_of, read, run, run_to, says, shows, small, write};

#[test]
fn incomparable_results_are_named() {
    let directory = &empty();
    write(directory, "notes.txt", b"1.0 2.0\n");
    says(1, directory, "compare notes.txt notes.txt", "notes.txt");
    for (args, part) in [
        (&["", "smid=avx2"][..], "no parameter called \"smid\""),
        (&["", "batch=0"], "1048576"),
        (&["", "notes.txt"], "must both be"),
        (&["", "", "--looks", "20,10"], "ascending"),
        (&["", "", "--zone=-1"], "--zone"),
    ] {
        says(2, directory, ("compare", args), part);
    }
}

#[test]
fn configurations_are_measured_and_judged_on_any_machine() {
    let args = [
        "compare",
        "",
        "threads=1",
        "events.mdf",
        "--looks",
        "4",
        "--rounds",
        "2",
        "--json",
        "-",
    ];
    let output = run(&small(5), args);
    assert!(
        [0, 3, 4].contains(&output.status.code().unwrap()),
        "{output:?}"
    );
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        value["result"]["blocks"]
            .as_array()
            .is_some_and(|blocks| blocks.len() >= 4)
    );
}

#[test]
fn on_line_tuning_works_with_a_store_that_cannot_be_used_and_says_so() {
    let directory = &empty();
    let online = "throughput --tune online --duration 0 --profile pp-low --events 5 --threads 1";
    let out = shows(
        directory,
        online,
        "started from        the default: nothing is known that fits",
    );
    assert!(
        out.contains("kept                nothing: tuning is not complete"),
        "{out}"
    );
    assert!(!directory.join(STORE).exists());
    write(directory, STORE, b"my notes");
    let err = says(0, directory, online, "warning: ");
    assert!(err.contains("not an SQLite"), "{err}");
    assert_eq!(run_to(0, directory, (online, "--untuned")).1, "");
}

/// Writes a script that takes the place of a build.
#[cfg(unix)]
fn script(directory: &Path, name: &str, lines: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    write(directory, name, format!("#!/bin/sh\n{lines}\n").as_bytes());
    std::fs::set_permissions(directory.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns a shell line that prints what `throughput --json -` would print.
#[cfg(unix)]
fn measured(rate: f64, digest: &str) -> String {
    format!("echo '{{\"events_per_second\": {{\"median\": {rate}}}, \"digest\": \"{digest}\"}}'")
}

#[cfg(unix)]
#[test]
fn builds_give_the_documented_exit_codes_and_json_with_verdict_and_interval() {
    let directory = &empty();
    script(directory, "base", &measured(100.0, "00ff"));
    script(directory, "faster", &measured(110.0, "00ff"));
    for (args, code, said) in [
        ("./base ./faster", 0, "B is better"),
        ("./faster ./base", 3, "A is better"),
        ("./base ./base", 0, "verdict             same"),
        ("./base ./base --require-better", 5, ""),
        ("./base ./faster --require-better", 0, ""),
        // The zone of indifference decides what matters.
        ("./base ./faster --zone 15", 0, "same"),
        ("./base ./faster --rule alice", 0, "B is better"),
    ] {
        let (out, _) = run_to(code, directory, ("compare --looks 4 --others 100", args));
        assert!(out.contains(said), "{args}: {out}");
    }
    let (value, _) = json_of(
        0,
        directory,
        "compare ./base ./faster --looks 4 --others 100",
    );
    let judgement = &value["result"]["judgement"];
    assert_eq!(
        (judgement["verdict"].as_str(), judgement["detail"].as_str()),
        (Some("better"), Some("b"))
    );
    assert!(
        judgement["high"].as_f64().unwrap() < 0.0 && judgement["low"].as_f64().unwrap() < -0.08
    );
}

#[cfg(unix)]
#[test]
fn a_build_that_decodes_other_bits_is_never_promoted_however_fast() {
    let directory = &empty();
    script(directory, "old", &measured(100.0, "00ff"));
    for (build, code, said) in [
        (
            measured(110.0, "00ff"),
            0,
            &["the same bits", "B is better"][..],
        ),
        (measured(200.0, "00fe"), 6, &["digest 00fe, there 00ff"]),
        ("exit 3".to_owned(), 1, &[]),
        // Endless output fills no memory.
        (
            "exec cat /dev/zero".to_owned(),
            1,
            &["printed more than 16 MiB"],
        ),
    ] {
        script(directory, "new", &build);
        let (out, err) = run_to(
            code,
            directory,
            "compare ./old ./new --looks 4 --others 100",
        );
        assert!(
            said.iter()
                .all(|said| out.contains(said) || err.contains(said)),
            "{build}: {out}{err}"
        );
    }
}

#[cfg(unix)]
#[test]
fn builds_are_run_with_the_options_of_the_comparison() {
    let directory = &empty();
    for name in ["a", "b"] {
        script(
            directory,
            name,
            &format!("echo \"$@\" >\"$0.said\"\n{}", measured(100.0, "00ff")),
        );
    }
    let said = |more: &str| {
        run_to(
            0,
            directory,
            ("compare ./a ./b --looks 4 --others 100", more),
        );
        let said =
            ["a.said", "b.said"].map(|name| String::from_utf8(read(directory, name)).unwrap());
        assert_eq!(said[0], said[1]);
        said[0].clone()
    };
    // Builds with other defaults, too, decode the same events.
    assert!(said("").ends_with("--profile pp-nominal --format v5 --backend cpu\n"));
    assert!(
        said("events.mdf --backend emulated").ends_with("--json - events.mdf --backend emulated\n")
    );
}
