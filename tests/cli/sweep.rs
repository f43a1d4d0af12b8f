//! `ut-decode sweep`, end to end.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;
use tuner::store::Store;

fn sweep(folder: &Path, more: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(cargo_bin!("ut-decode"));
    command
        .args(["sweep", "--profile", "pp-low", "--events", "2", "--set", "batch=2", "--output"])
        .arg(folder)
        .args(more);
    command
}

fn json(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("sweep.json")).unwrap()).unwrap()
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Returns how many measurements the journal of a sweep holds.
fn measured(folder: &Path) -> usize {
    let Ok(store) = Store::open_read_only(&folder.join("journal.sqlite")) else { return 0 };
    let runs = store.runs().unwrap_or_default();
    runs.iter().map(|run| store.observations(run.record.run).map_or(0, |found| found.len())).sum()
}

#[test]
fn emulated_work_is_counted_and_reported_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let axes = ["--backend", "emulated", "--axis", "cluster.block_x=16,32", "--axis", "cluster.block_y=1,4"];
    sweep(folder.path(), &axes).assert().success().stdout(contains("Best: "));
    let report = json(folder.path());
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    assert!(points.iter().all(|point| point["measured"]["median"].as_f64().unwrap() > 0.0), "{points:?}");
    assert_eq!(report["skipped"][0]["values"], serde_json::json!([16, 1]));
    assert!(report["skipped"][0]["reason"].as_str().unwrap().contains("multiple of 32"));
    assert_eq!(lines(&folder.path().join("sweep.csv")).len(), 1 + 3 + 1);
    let page = std::fs::read_to_string(folder.path().join("sweep.html")).unwrap();
    assert!(page.contains("\"heat\":{") && page.contains("default") && page.contains("multiple of 32"));
    assert!(folder.path().join("journal.sqlite").exists());
    // Counts are the same every time.
    let again = tempfile::tempdir().unwrap();
    sweep(again.path(), &axes).assert().success();
    assert_eq!(report["points"], json(again.path())["points"]);
}

#[test]
fn cpu_rates_are_measured_in_rounds_and_the_default_is_among_them() {
    let folder = tempfile::tempdir().unwrap();
    let axes = ["--axis", "batch[pow2]=0:1:1", "--axis", "cpu.chunk=1,16", "--set", "threads=1", "--rounds", "2"];
    sweep(folder.path(), &axes).assert().success();
    let report = json(folder.path());
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    assert!(points.iter().all(|point| point["repetitions"] == 2), "{points:?}");
    let default = report["default"].as_u64().unwrap() as usize;
    assert_eq!(points[default]["values"], serde_json::json!([2, 16]));
    assert_eq!(report["about"]["unit"], "events/s");
}

/// Starts a sweep, and waits for its fourth measurement.
fn begun(folder: &Path, axes: &[&str]) -> Child {
    let mut child = Command::new(cargo_bin!("ut-decode"))
        .args(["sweep", "--profile", "pp-low", "--events", "2", "--set", "batch=2", "--output"])
        .arg(folder)
        .args(axes)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let patience = Instant::now();
    while measured(folder) < 4 && child.try_wait().unwrap().is_none() {
        assert!(patience.elapsed() < Duration::from_mins(2), "the sweep measures nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_sweep_that_runs_is_left_alone_and_one_that_was_killed_goes_on_and_loses_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let axes = ["--backend", "emulated", "--axis", "count.block_x=32:512:32", "--axis", "count.bins=8,16"];
    let mut child = begun(folder.path(), &axes);
    sweep(folder.path(), &axes).assert().code(1).stderr(contains("another process"));
    child.kill().unwrap();
    child.wait().unwrap();
    let before = measured(folder.path());
    assert!((4..32).contains(&before), "killed after {before} measurements");
    assert!(!folder.path().join("sweep.json").exists());
    sweep(folder.path(), &axes).assert().success().stderr(contains(format!("{before} are there already")));
    assert_eq!(measured(folder.path()), 32, "only the rest is measured");
    let whole = tempfile::tempdir().unwrap();
    sweep(whole.path(), &axes).assert().success();
    assert_eq!(json(folder.path())["points"], json(whole.path())["points"]);
    // All is there: nothing is measured again.
    sweep(folder.path(), &axes).assert().success();
    assert_eq!(measured(folder.path()), 32);
}

#[test]
fn the_folder_of_another_sweep_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let one = ["--backend", "emulated", "--axis", "count.bins=8"];
    let other = ["--backend", "emulated", "--axis", "count.bins=8,16"];
    sweep(folder.path(), &one).assert().success();
    sweep(folder.path(), &other)
        .assert()
        .code(1)
        .stderr(contains("belongs to another sweep").and(contains("another folder")));
    assert_eq!(measured(folder.path()), json(folder.path())["points"].as_array().unwrap().len());
}

#[test]
fn measurements_with_other_vector_instructions_are_those_of_another_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let axes = ["--axis", "batch=2", "--set", "threads=1", "--rounds", "1"];
    sweep(folder.path(), &[&axes[..], &["--set", "simd=scalar"]].concat()).assert().success();
    sweep(folder.path(), &axes).assert().code(1).stderr(contains("its cpu.simd is scalar, now it would be auto"));
    // The same by another name is the same.
    sweep(folder.path(), &[&axes[..], &["--set", "cpu.simd=scalar"]].concat()).assert().success();
}

#[test]
fn the_file_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.sqlite");
    std::fs::write(&journal, "my notes").unwrap();
    let axes = ["--backend", "emulated", "--axis", "count.bins=8"];
    sweep(folder.path(), &axes).assert().code(1).stderr(contains("not an SQLite file"));
    assert_eq!(std::fs::read_to_string(journal).unwrap(), "my notes");
}

#[test]
fn what_cannot_be_meant_is_a_usage_error_that_names_what_can() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |more: &[&str], message: &str| {
        sweep(folder.path(), more).assert().code(2).stderr(contains(message.to_owned()));
    };
    refused(
        &["--axis", "cluster.block_x=32"],
        "cpu has no parameter called \"cluster.block_x\"; there are cpu.threads",
    );
    refused(&["--backend", "emulated", "--axis", "batch=2:1"], "empty");
    refused(&["--axis", "batch=1", "--axis", "batch=2"], "twice");
    refused(&["--axis", "batch=1", "--set", "cpu.chunk=0"], "cpu.chunk = 0: must be from 1");
    refused(&["--axis", "batch=1", "--set", "cluster.block_x=64"], "cpu has no parameter called \"cluster.block_x\"");
    refused(&["--backend", "emulated", "--axis", "batch=1", "--set", "cluster.block_x=3"], "multiple of 32");
    refused(&["--axis", "batch=0"], "every combination of the axes is skipped");
    refused(&[], "--axis");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was begun");
}

#[test]
fn the_parameters_can_be_listed_and_the_plan_shown() {
    let folder = tempfile::tempdir().unwrap();
    sweep(folder.path(), &["--list", "--backend", "emulated"]).assert().success().stdout(contains("sort.run"));
    let listed = sweep(folder.path(), &["--list", "--set", "threads=1"]).assert().success();
    let listed = String::from_utf8(listed.get_output().stdout.clone()).unwrap();
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("layout").contains("allen, mep") && !line("layout").contains("0 to 1"), "{listed}");
    // The default is what a sweep with these options compares with.
    assert_eq!(line("batch ").split_whitespace().nth(1), Some("2"), "{listed}");
    let axes = ["--backend", "emulated", "--axis", "count.block_x=64,2048", "--dry-run"];
    let shown = sweep(folder.path(), &axes).assert().success().stdout(contains("skipped: "));
    let shown = String::from_utf8(shown.get_output().stdout.clone()).unwrap();
    assert!(shown.lines().any(|line| line.starts_with("128 ") && line.ends_with("default")), "{shown}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was begun");
}
