//! `ut-decode sweep`, end to end.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tuner::store::Store;

use crate::support::{read, run_to, says, shows, small, tool, write};

/// A sweep over the two events of [`small`].
const SWEEP: &str = "sweep events.mdf --set batch=2 --output results";

fn json(folder: &Path) -> Value {
    serde_json::from_slice(&read(folder, "results/sweep.json")).unwrap()
}

/// Returns how many measurements the journal of a sweep holds.
fn measured(folder: &Path) -> usize {
    let Ok(store) = Store::open_existing(&folder.join("results/journal.sqlite")) else { return 0 };
    let runs = store.runs().unwrap_or_default();
    runs.iter().map(|run| store.observations(run.record.run).map_or(0, |found| found.len())).sum()
}

#[test]
fn emulated_work_is_counted_and_reported_in_every_form() {
    let folder = &small(2);
    let axes = "--backend emulated --axis cluster.block_x=16,32 --axis cluster.block_y=1,4";
    shows(folder, (SWEEP, axes), "Best: ");
    let report = json(folder);
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    assert!(points.iter().all(|point| point["measured"]["median"].as_f64().unwrap() > 0.0), "{points:?}");
    assert_eq!(report["skipped"][0]["values"], serde_json::json!([16, 1]));
    assert!(report["skipped"][0]["reason"].as_str().unwrap().contains("multiple of 32"));
    let [csv, page] =
        ["csv", "html"].map(|kind| String::from_utf8(read(folder, &format!("results/sweep.{kind}"))).unwrap());
    assert_eq!(csv.lines().count(), 1 + 3 + 1);
    assert!(page.contains("\"heat\":{") && page.contains("default") && page.contains("multiple of 32"));
    assert!(folder.join("results/journal.sqlite").exists());
    // Counts are the same every time.
    let again = &small(2);
    run_to(0, again, (SWEEP, axes));
    assert_eq!(report["points"], json(again)["points"]);
}

#[test]
fn cpu_rates_are_measured_in_rounds_and_the_default_is_among_them() {
    let folder = &small(2);
    run_to(0, folder, (SWEEP, "--axis batch[pow2]=0:1:1 --set threads=1 --rounds 2"));
    let report = json(folder);
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    assert!(points.iter().all(|point| point["repetitions"] == 2), "{points:?}");
    let default = report["default"].as_u64().unwrap() as usize;
    assert_eq!(points[default]["values"], serde_json::json!([2]));
    assert_eq!(report["about"]["unit"], "events/s");
}

/// Starts a sweep, and waits for its fourth measurement.
fn begun(folder: &Path, axes: &str) -> Child {
    let mut child = tool(folder, (SWEEP, axes)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let patience = Instant::now();
    while measured(folder) < 4 && child.try_wait().unwrap().is_none() {
        assert!(patience.elapsed() < Duration::from_mins(2), "the sweep measures nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_sweep_that_was_killed_goes_on_and_loses_no_measurement() {
    let (folder, whole) = (&small(2), &small(2));
    let axes = "--backend emulated --axis count.block_x=32:512:32 --axis count.bins=8,16";
    let mut child = begun(folder, axes);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = measured(folder);
    assert!((4..32).contains(&before), "killed after {before} measurements");
    assert!(!folder.join("results/sweep.json").exists());
    says(0, folder, (SWEEP, axes), &format!("{before} are there already"));
    assert_eq!(measured(folder), 32, "only the rest is measured");
    run_to(0, whole, (SWEEP, axes));
    assert_eq!(json(folder)["points"], json(whole)["points"]);
    // All is there: nothing is measured again.
    run_to(0, folder, (SWEEP, axes));
    assert_eq!(measured(folder), 32);
}

#[test]
fn the_folder_of_another_sweep_is_left_alone() {
    let folder = &small(2);
    let other = "--backend emulated --axis count.bins=8,16";
    run_to(0, folder, (SWEEP, "--backend emulated --axis count.bins=8"));
    let err = says(1, folder, (SWEEP, other), "belongs to another sweep");
    assert!(err.contains("another folder"), "{err}");
    assert_eq!(measured(folder), json(folder)["points"].as_array().unwrap().len());
    // Measurements with other vector instructions, too, are another sweep's; by another name they are the same.
    let (folder, axes) = (&small(2), "--axis batch=2 --set threads=1 --rounds 1");
    run_to(0, folder, (SWEEP, axes, "--set simd=scalar"));
    says(1, folder, (SWEEP, axes), "its cpu.simd is scalar, now it would be auto");
    run_to(0, folder, (SWEEP, axes, "--set cpu.simd=scalar"));
    // The file of another program stays.
    write(folder, "results/journal.sqlite", b"my notes");
    says(1, folder, (SWEEP, axes), "not an SQLite file");
    assert_eq!(read(folder, "results/journal.sqlite"), b"my notes");
}

#[test]
fn what_cannot_be_meant_is_a_usage_error_that_names_what_can() {
    let folder = &small(2);
    for (args, message) in [
        ("--axis cluster.block_x=32", "cpu has no parameter called \"cluster.block_x\"; there are cpu.simd"),
        ("--axis batch=1 --axis batch=2", "twice"),
        ("--axis batch=1 --set cpu.simd=mmx", "cpu.simd = mmx: must be one of auto"),
        ("--axis batch=1 --set cluster.block_x=64", "cpu has no parameter called \"cluster.block_x\""),
        ("--backend emulated --axis batch=1 --set cluster.block_x=3", "multiple of 32"),
        ("--axis batch=0", "every combination of the axes is skipped"),
        ("", "--axis"),
    ] {
        says(2, folder, (SWEEP, args), message);
    }
    assert!(!folder.join("results").exists(), "nothing was begun");
}

#[test]
fn a_sweep_goes_on_with_the_same_events_alone() {
    let folder = &small(2);
    let sweep = "sweep events.mdf --backend emulated --axis count.block_x=32,64 --output out";
    run_to(0, folder, sweep);
    says(0, folder, sweep, "3 are there already");
    // The same bytes, written at another time.
    write(folder, "events.mdf", &read(folder, "events.mdf"));
    says(1, folder, sweep, "belongs to another sweep: its sample is");
}

#[test]
fn the_parameters_can_be_listed_and_the_plan_shown() {
    let folder = &small(2);
    shows(folder, (SWEEP, "--list --backend emulated"), "sort.run");
    let listed = shows(folder, (SWEEP, "--list --set threads=1"), "layout");
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("layout").contains("allen, mep") && !line("layout").contains("0 to 1"), "{listed}");
    // The default is what a sweep with these options compares with.
    assert_eq!(line("batch ").split_whitespace().nth(1), Some("2"), "{listed}");
    let plan = "--backend emulated --axis count.block_x=64,2048 --dry-run";
    let shown = shows(folder, (SWEEP, plan), "skipped: ");
    assert!(shown.lines().any(|line| line.starts_with("128 ") && line.ends_with("default")), "{shown}");
    assert!(!folder.join("results").exists(), "nothing was begun");
}
