//! `ut-decode sweep`, end to end.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{read, run_to, says, shows, small};

/// A sweep over the two events of [`small`].
const SWEEP: &str = "sweep events.mdf --set batch=2 --output results";

fn result(folder: &Path) -> Value {
    serde_json::from_slice(&read(folder, "results/sweep.json")).unwrap()
}

#[test]
fn emulated_work_is_counted_and_reported_with_what_is_skipped() {
    let folder = &small(2);
    let axes = "--backend emulated --axis cluster.block_x=16,32 --axis cluster.block_y=1,4";
    let text = shows(folder, (SWEEP, axes), "Best: ");
    assert!(
        text.contains("Skipped: cluster.block_x=16 cluster.block_y=1: ")
            && text.contains("multiple of 32"),
        "{text}"
    );
    let report = result(folder);
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    assert!(
        points
            .iter()
            .all(|point| point["measured"]["median"].as_f64().unwrap() > 0.0),
        "{points:?}"
    );
    assert_eq!(report["skipped"][0]["values"], json!([16, 1]));
    let page = String::from_utf8(read(folder, "results/sweep.html")).unwrap();
    assert!(
        page.contains("\"heat\":{") && page.contains("default") && page.contains("multiple of 32")
    );
    let csv = String::from_utf8(read(folder, "results/sweep.csv")).unwrap();
    let columns: Vec<usize> = csv.lines().map(|row| row.split(',').count()).collect();
    assert!(
        columns.len() == 1 + 3 + 1 && columns[1..4].iter().all(|&n| n == columns[0]),
        "{csv}"
    );
    // Counts are the same every time.
    run_to(0, folder, (SWEEP, axes));
    assert_eq!(report["points"], result(folder)["points"]);
}

#[test]
fn cpu_rates_are_measured_in_rounds_and_the_default_is_among_them() {
    let folder = &small(2);
    run_to(
        0,
        folder,
        (SWEEP, "--axis batch=1,2 --set threads=1 --rounds 2"),
    );
    let report = result(folder);
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    assert!(
        points.iter().all(|point| point["repetitions"] == 2),
        "{points:?}"
    );
    let default = report["default"].as_u64().unwrap() as usize;
    assert_eq!(points[default]["values"], json!([2]));
    assert_eq!(report["about"]["unit"], "events/s");
}

#[test]
fn a_single_round_claims_no_gain() {
    let folder = &small(2);
    let args = "--axis batch=1,2 --set threads=1 --rounds 1";
    let text = shows(folder, (SWEEP, args), "Best: ");
    let is_default = text.contains("it is the default");
    assert!(is_default || text.contains("too few rounds"), "{text}");
    assert!(!text.contains(" %"), "{text}");
    let page = String::from_utf8(read(folder, "results/sweep.html")).unwrap();
    assert!(!page.contains("counted once"));
    let points = result(folder)["points"].clone();
    let mut changes = points.as_array().unwrap().iter().map(|p| &p["change"]);
    assert!(changes.all(Value::is_null), "{points}");
}

#[test]
fn impossible_options_are_usage_errors_that_name_the_possible_ones() {
    let folder = &small(2);
    for (args, message) in [
        (
            "--axis cluster.block_x=32",
            "cpu has no parameter called \"cluster.block_x\"; it has cpu.simd",
        ),
        ("--axis batch=1 --axis batch=2", "twice"),
        (
            "--axis batch=1 --set cpu.simd=mmx",
            "cpu.simd = mmx: must be",
        ),
        (
            "--backend emulated --axis batch=1 --set cluster.block_x=3",
            "multiple of 32",
        ),
        ("--axis batch=0", "every combination of the axes is skipped"),
        ("", "--axis"),
    ] {
        says(2, folder, (SWEEP, args), message);
    }
    assert!(!folder.join("results").exists(), "nothing was begun");
}

#[test]
fn the_parameters_can_be_listed() {
    let folder = &small(2);
    shows(folder, (SWEEP, "--list --backend emulated"), "sort.run");
    let listed = shows(folder, (SWEEP, "--list --set threads=1"), "layout");
    let line = |name: &str| {
        listed
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned()
    };
    assert!(
        line("layout").contains("allen, mep") && !line("layout").contains("0 to 1"),
        "{listed}"
    );
    // The default is what a sweep with these options compares with.
    assert_eq!(
        line("batch ").split_whitespace().nth(1),
        Some("2"),
        "{listed}"
    );
}
