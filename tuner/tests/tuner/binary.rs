//! The program `tuner`, as a person uses it.
#![cfg(all(unix, feature = "cli"))]

use std::process::{Command, Output};

fn tuner(folder: &std::path::Path, arguments: &[&str]) -> Output {
    let space = "[[parameter]]\nname = \"tile\"\nvalues = [8, 16, 32, 64]\n\n[default]\ntile = 8\n";
    std::fs::write(folder.join("space.toml"), space).unwrap();
    let common = ["--db", "tune.sqlite", "--space", "space.toml", "--command", "echo 1{tile}", "--regex", "[0-9]+"];
    Command::new(env!("CARGO_BIN_EXE_tuner")).current_dir(folder).args(common).args(arguments).output().unwrap()
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
