//! The program `tuner`, as a person uses it.
#![cfg(all(unix, feature = "cli"))]

use std::process::{Command, Output};

fn tuner(folder: &std::path::Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn command(folder: &std::path::Path, arguments: &[&str]) -> Command {
    let space = "[[parameter]]\nname = \"tile\"\nvalues = [8, 16, 32, 64]\n\n[default]\ntile = 8\n";
    std::fs::write(folder.join("space.toml"), space).unwrap();
    let common = ["--db", "tune.sqlite", "--space", "space.toml", "--command", "echo 1{tile}", "--regex", "[0-9]+"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_tuner"));
    command.current_dir(folder).args(common).args(arguments);
    command
}

#[test]
fn what_it_prints_is_what_its_json_says() {
    let folder = tempfile::tempdir().unwrap();
    let done = tuner(folder.path(), &["--objective", "larger", "--json", "decision.json", "--timeout", "5"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json = std::fs::read_to_string(folder.path().join("decision.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let decision = &json["decision"];
    assert_eq!(
        (&json["parameters"], &decision["chosen"]["config"]),
        (&serde_json::json!(["tile"]), &serde_json::json!([64]))
    );
    assert!(text.contains("Chosen:\n  tile=64\n    164.0"), "{text}");
    assert!(text.contains(&format!("Verdict: {}.", decision["verdict"].as_str().unwrap())), "{text}");
    // The numbers are 18 and 164.
    assert!(text.contains("reaches 9.111 of its value") && text.contains(": 811.11 % more (from "), "{text}");
    assert!(text.contains("Tried 4 of 4 configurations (100.0 %)") && decision["tried"] == 4, "{text}");
}

#[test]
fn readers_that_have_gone_are_no_error() {
    let folder = tempfile::tempdir().unwrap();
    for json in [&[][..], &["--json", "-"]] {
        let gone = || std::io::pipe().unwrap().1;
        let mut tuner = command(folder.path(), json);
        let status = tuner.stdout(gone()).stderr(gone()).status().unwrap();
        assert!(status.success(), "{status}");
    }
}

#[test]
fn a_decision_replaces_the_file_of_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let [json, before] = ["decision.json", "before.json"].map(|name| folder.path().join(name));
    std::fs::write(&json, "before").unwrap();
    std::fs::hard_link(&json, &before).unwrap();
    assert!(tuner(folder.path(), &["--json", "decision.json"]).status.success());
    assert_eq!(std::fs::read_to_string(before).unwrap(), "before");
    assert!(std::fs::read_to_string(json).unwrap().ends_with("}\n"));
}

#[test]
fn wrong_options_are_said() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, said) in
        [(&["--timeout", "0"][..], "above 0"), (&["--objective", "rate", "--regex", "x"], "2 places")]
    {
        let done = tuner(folder.path(), arguments);
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && error.contains(said), "{arguments:?}: {error}");
    }
}
