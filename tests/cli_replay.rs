//! `ut-decode replay`: recorded spaces scored from the command line.

use assert_cmd::Command;
use predicates::prelude::*;

/// A folder with one recorded space of 200 configurations, as CSV.
fn folder() -> tempfile::TempDir {
    let row = |x: i32, y: i32| match (x * y) % 11 {
        10 => format!("{x},{y},runtime,\n"),
        _ => format!("{x},{y},ok,{}\n", 1.0 + f64::from((x - 13) * (x - 13) + (y - 4) * (y - 4)) / 100.0),
    };
    let rows: String = (0..200).map(|at| row(at / 10, at % 10)).collect();
    let text = format!("x,y,status,mean_ms\n{rows}");
    let folder = tempfile::tempdir().expect("there is room");
    std::fs::write(folder.path().join("bowl.csv"), text).expect("there is room");
    folder
}

fn tool() -> Command {
    let mut command = Command::cargo_bin("ut-decode").expect("the tool is built");
    command.arg("replay");
    command
}

#[test]
fn the_tool_scores_strategies_over_a_folder() {
    let folder = folder();
    let json = folder.path().join("report.txt");
    let strategies = ["--strategy", "random,bayesian", "--seeds", "3", "--budget", "60", "--json"];
    let run = tool().arg("--score").arg(folder.path()).args(strategies).arg(&json).assert().success();
    run.stdout(
        predicate::str::contains("bowl")
            .and(predicate::str::contains("bayesian"))
            .and(predicate::str::contains("mean")),
    );
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).expect("it was written")).expect("it is JSON");
    assert_eq!(report["scores"].as_array().map(Vec::len), Some(2));
    let runs = &report["scores"][1]["runs"];
    assert_eq!(runs.as_array().map(Vec::len), Some(3));
    assert!(runs[0]["score"].as_f64().is_some_and(|score| score > 0.3), "{runs}");
}

#[test]
fn the_tool_says_what_it_cannot_replay() {
    let folder = folder();
    let file = folder.path().join("bowl.csv");
    // Summaries cannot be raced.
    tool().arg("--race").arg(&file).assert().code(2).stderr(predicate::str::contains("bowl.csv"));
    tool().assert().code(2);
    tool().args(["--score", "nowhere.csv"]).assert().code(1).stderr(predicate::str::contains("nowhere.csv"));
    tool().arg("--score").arg(&file).args(["--budget", "19"]).assert().code(2);
    std::fs::write(&file, "x,status,mean_ms\n1,ok,nothing\n").expect("there is room");
    tool().arg("--score").arg(&file).assert().code(1).stderr(predicate::str::contains("line 2"));
}
