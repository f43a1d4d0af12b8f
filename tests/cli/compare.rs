//! `ut-decode compare`: what a CI relies on.

use assert_cmd::Command;
use predicates::prelude::*;
use std::path::PathBuf;

fn tool() -> Command {
    Command::cargo_bin("ut-decode").unwrap()
}

#[test]
fn what_cannot_be_compared_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("notes.txt");
    std::fs::write(&file, "1.0 2.0\n").unwrap();
    tool().arg("compare").args([&file, &file]).assert().code(1).stderr(predicate::str::contains("notes.txt"));
    let usage = |arguments: &[&str], part: &str| {
        tool().arg("compare").args(arguments).assert().code(2).stderr(predicate::str::contains(part));
    };
    usage(&["", "smid=avx2"], "no parameter called \"smid\"");
    usage(&["", "batch=0"], "1048576");
    usage(&["", file.to_str().unwrap()], "must both be");
    usage(&["", "", "--looks", "20,10"], "ascending");
    usage(&["", "", "--zone=-1"], "--zone");
}

#[test]
fn configurations_are_measured_and_judged_whatever_this_machine_is_like() {
    let run = tool()
        .args(["compare", "", "threads=1", "--looks", "4", "--rounds", "2", "--profile", "pp-low", "--json", "-"])
        .assert()
        .code(predicate::in_iter([0, 3, 4]));
    let value: serde_json::Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    assert!(value["result"]["blocks"].as_array().is_some_and(|blocks| blocks.len() >= 4));
}

#[test]
fn on_line_tuning_works_with_a_store_that_cannot_be_used_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("tune.sqlite");
    let online = |more: &[&str]| {
        let mut tool = tool();
        tool.args(["throughput", "--tune", "online", "--duration", "0", "--profile", "pp-low", "--threads", "1"]);
        tool.env("UT_DECODE_TUNE_DB", &store).args(more).assert().code(0)
    };
    online(&[])
        .stdout(predicate::str::contains("started from        the default: nothing is known that fits"))
        .stdout(predicate::str::contains("kept                nothing: tuning is not complete"));
    assert!(!store.exists());
    std::fs::write(&store, "my notes").unwrap();
    online(&[])
        .stdout(predicate::str::contains("events/s"))
        .stderr(predicate::str::contains("warning: ").and(predicate::str::contains("not an SQLite")));
    online(&["--untuned"]).stderr(predicate::str::is_empty());
    let elsewhere = directory.path().join("other.sqlite");
    online(&["--tune-db", elsewhere.to_str().unwrap()]).stderr(predicate::str::is_empty());
}

/// A script that says what `throughput --json -` would say.
#[cfg(unix)]
fn build(directory: &tempfile::TempDir, name: &str, rate: f64, more: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.path().join(name);
    let json = format!("{{\"hits_per_event\": 10.0, \"events_per_second\": {{\"median\": {rate}}}{more}}}");
    std::fs::write(&path, format!("#!/bin/sh\necho '{json}'\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[cfg(unix)]
#[test]
fn builds_give_the_documented_exit_codes_and_one_of_other_bits_is_never_promoted_however_fast() {
    let directory = tempfile::tempdir().unwrap();
    let build = |name: &str, rate: f64, more: &str| build(&directory, name, rate, more);
    let old = build("old", 100.0, ", \"digest\": \"00ff\"");
    let of = |a: &PathBuf, b: &PathBuf, more: &[&str]| {
        let mut tool = tool();
        tool.arg("compare").args([a, b]).args(["--looks", "4", "--others", "100"]).args(more).assert()
    };
    let compare = |b: &PathBuf| of(&old, b, &[]);
    let faster = build("faster", 110.0, ", \"digest\": \"00ff\"");
    compare(&faster)
        .code(0)
        .stdout(predicate::str::contains("the same bits").and(predicate::str::contains("B is better")));
    of(&faster, &old, &[]).code(3).stdout(predicate::str::contains("A is better"));
    of(&old, &faster, &["--require-better"]).code(0);
    of(&old, &old, &[]).code(0).stdout(predicate::str::contains("verdict             same"));
    of(&old, &old, &["--require-better"]).code(5);
    // The zone of indifference decides what matters.
    of(&old, &faster, &["--zone", "15"]).code(0).stdout(predicate::str::contains("same"));
    of(&old, &faster, &["--rule", "alice"]).code(0).stdout(predicate::str::contains("B is better"));
    let run = of(&old, &faster, &["--json", "-"]).code(0);
    let value: serde_json::Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let judgement = &value["result"]["judgement"];
    assert_eq!((judgement["verdict"].as_str(), judgement["detail"].as_str()), (Some("better"), Some("b")));
    assert!(judgement["high"].as_f64().unwrap() < 0.0 && judgement["low"].as_f64().unwrap() < -0.08);
    let other = build("other", 200.0, ", \"digest\": \"00fe\"");
    compare(&other).code(6).stderr(predicate::str::contains("their digest is 00fe, there 00ff"));
    let fewer = build("fewer", 200.0, ", \"digest\": \"00ff\", \"hits_per_event\": 9.0");
    compare(&fewer).code(6).stderr(predicate::str::contains("9 hits an event, but 10 with"));
    let silent = build("silent", 110.0, "");
    compare(&silent).code(0).stdout(predicate::str::contains("only the number of hits was compared"));
    let broken = build("broken", 110.0, "");
    std::fs::write(&broken, "#!/bin/sh\nexit 3\n").unwrap();
    compare(&broken).code(1);
}

#[cfg(unix)]
#[test]
fn a_build_that_prints_without_end_is_an_error_and_fills_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let endless = build(&directory, "endless", 100.0, "");
    std::fs::write(&endless, "#!/bin/sh\nexec cat /dev/zero\n").unwrap();
    let mut tool = tool();
    let compared = tool.arg("compare").args([&endless, &endless]).args(["--looks", "4", "--others", "100"]).assert();
    compared.code(1).stderr(predicate::str::contains("printed more than 16 MiB"));
}

#[cfg(unix)]
#[test]
fn builds_are_run_with_the_options_of_the_comparison() {
    let directory = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| build(&directory, name, 100.0, ""));
    for path in [&a, &b] {
        let script = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, script.replace("#!/bin/sh\n", "#!/bin/sh\necho \"$@\" >\"$0.said\"\n")).unwrap();
    }
    let said = |more: &[&str]| {
        let mut tool = tool();
        tool.arg("compare").args([&a, &b]).args(["--looks", "4", "--others", "100"]).args(more).assert().code(0);
        let said = [&a, &b].map(|path| std::fs::read_to_string(path.with_extension("said")).unwrap());
        assert_eq!(said[0], said[1]);
        said[0].clone()
    };
    assert!(said(&[]).ends_with("--backend cpu\n"));
    assert!(
        said(&["--backend", "emulated", "--profile", "pp-low"])
            .contains("--profile pp-low --format v5 --backend emulated\n")
    );
}
