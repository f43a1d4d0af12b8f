//! The program `tuner`, as a person uses it.
#![cfg(all(unix, feature = "cli"))]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

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
    for (arguments, said) in [
        (&["--timeout", "0"][..], "above 0"),
        (&["--objective", "rate", "--regex", "x"], "2 places"),
        (&["--stays"], "--regex"),
    ] {
        let done = tuner(folder.path(), arguments);
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && error.contains(said), "{arguments:?}: {error}");
    }
}

#[test]
fn a_signal_ends_what_is_measured_too_and_leaves_no_build() {
    let folder = tempfile::tempdir().unwrap();
    let (space, pipe, temporary) =
        (folder.path().join("space.toml"), folder.path().join("pipe"), folder.path().join("t"));
    std::fs::write(&space, "[[parameter]]\nname = \"tile\"\nvalues = [8, 16]\n").unwrap();
    std::fs::create_dir(&temporary).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut tuning = Command::new(env!("CARGO_BIN_EXE_tuner"))
        .current_dir(folder.path())
        .env("TMPDIR", &temporary)
        .args(["--db", "tune.sqlite", "--space", "space.toml", "--build", "touch {build}/{tile}"])
        .args(["--command", "exec 3>pipe; echo begun >&3; (sleep 5; echo alive >&3) & wait"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(std::fs::File::open(&pipe).unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    assert!(Command::new("kill").arg(tuning.id().to_string()).status().unwrap().success());
    assert!(!tuning.wait().unwrap().success());
    // It ends with the last process that could write to it.
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    // What was ended is no failure of its configuration.
    let store = tuner::store::Store::open(&folder.path().join("tune.sqlite")).unwrap();
    assert!(store.observations(1).unwrap().is_empty());
}

#[test]
fn whatever_changes_the_numbers_of_a_program_is_part_of_its_workload() {
    #[derive(clap::Parser)]
    struct Args {
        #[command(flatten)]
        program: tuner::cli::ProgramArgs,
    }
    let folder = tempfile::tempdir().unwrap();
    let space = folder.path().join("space.toml");
    std::fs::write(&space, "[[parameter]]\nname = \"tile\"\nvalues = [8, 16]\n").unwrap();
    let parse = |more: &[&str]| {
        let common = ["tuner", "--command", "true", "--space", space.to_str().unwrap()];
        <Args as clap::Parser>::try_parse_from(common.iter().chain(more))
    };
    let workload = |more: &[&str]| parse(more).ok().unwrap().program.program().unwrap().unwrap().workload.to_string();
    assert_eq!(workload(&["--unit", "ms"]), workload(&[]));
    let all: Vec<String> =
        [&[][..], &["--unit", "s"], &["--same-output"], &["--stays"]].iter().map(|more| workload(more)).collect();
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one), "{one}");
    }
    assert!(parse(&["--stays", "--unit", "s"]).is_err());
    let several = |regex: &[&str]| workload(&regex.iter().flat_map(|regex| ["--regex", regex]).collect::<Vec<_>>());
    assert_ne!(several(&["a b", "c"]), several(&["a", "b c"]));
    // Its command may name other files in another folder.
    let folder = std::env::current_dir().unwrap().display().to_string();
    assert_eq!(parse(&[]).ok().unwrap().program.program().unwrap().unwrap().sample, folder);
    let alone = |option: &str, value: &str| <Args as clap::Parser>::try_parse_from(["tuner", option, value]);
    assert!(alone("--unit", "s").is_err() && alone("--objective", "larger").is_err());
}
