//! `ut-decode ablation` and `--set`, end to end.

use std::path::Path;

use serde_json::Value;

use crate::support::{TABLES, json_of, read, run_to, says, small};

const FEW: &str = "ablation events.mdf";

fn json(folder: &Path, more: &str) -> Value {
    json_of(0, folder, (FEW, more)).0
}

fn count(report: &Value, rung: usize, metric: &str) -> f64 {
    let counts = report["rungs"][rung]["work"]["per_event"]
        .as_array()
        .unwrap();
    counts.iter().find(|count| count[0] == metric).unwrap()[1]
        .as_f64()
        .unwrap()
}

#[test]
fn the_ladder_has_the_steps_of_the_merge_request_with_their_counts() {
    let folder = &small(2);
    let (report, text) = json_of(0, folder, FEW);
    assert_eq!(report, json(folder, ""));
    assert!(
        text.contains("195834"),
        "the merge request's figures: {text}"
    );
    let allen = [
        "board-table",
        "flat-map",
        "zero-suppression",
        "warp-atomics",
        "binned",
        "narrow-sums",
        "opportunistic",
    ];
    for rung in allen {
        let lines = text
            .lines()
            .filter(|line| line.split_whitespace().next() == Some(rung))
            .count();
        assert_eq!(
            lines, 2,
            "{rung}: one line of counts, one of registers\n{text}"
        );
    }
    let of = |rung, metric| count(&report, rung, metric);
    assert!(
        of(1, "global_sectors") < of(0, "global_sectors"),
        "the flat map reads less than the board table"
    );
    assert!(
        of(3, "shared_atomics") < of(2, "shared_atomics"),
        "warp atomics are fewer"
    );
    assert!(
        of(3, "collectives") > of(2, "collectives"),
        "and are paid for with collectives"
    );
    let lanes = report["rungs"][3]["work"]["lanes_per_atomic"]
        .as_f64()
        .unwrap();
    assert!(lanes > 1.0, "{lanes}");
    assert_eq!(report["rungs"][2]["work"]["lanes_per_atomic"], 1.0);
    assert!(of(6, "table_sectors") > 0.0);
    let rungs = report["rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), allen.len());
    for rung in rungs {
        let resources = rung["resources"].as_array().unwrap();
        assert_eq!(resources.len(), 7, "{rung}");
        assert!(
            resources
                .iter()
                .all(|of| of["registers"].as_u64().unwrap() > 0)
        );
        let total: f64 = rung["work"]["per_event"].as_array().unwrap()[0][1]
            .as_f64()
            .unwrap();
        let kernels = rung["work"]["kernels"].as_array().unwrap();
        let sum: f64 = kernels
            .iter()
            .map(|kernel| kernel[1][0][1].as_f64().unwrap())
            .sum();
        assert!(
            (sum - total).abs() < 1e-6 * total,
            "the kernels add up to the whole: {sum}, {total}"
        );
    }
}

#[test]
fn launch_parameters_formats_and_layouts_reach_the_kernels() {
    let folder = &small(1);
    for threads in [64, 256] {
        let report = json(folder, &format!("--set count.block_x={threads}"));
        assert_eq!(report["rungs"][0]["resources"][0]["threads"], threads);
    }
    run_to(
        0,
        folder,
        "generate --format v4 --profile pp-low --events 1 --output v4",
    );
    let (report, _) = json_of(0, folder, "ablation v4/events.mdf --set layout=mep");
    assert_eq!(report["bank_version"], 3);
    assert!(count(&report, 6, "global_sectors") > 0.0);
    assert_eq!(
        report["rungs"][0]["resources"],
        serde_json::json!([]),
        "not compiled rung by rung"
    );
}

#[test]
fn a_backend_without_a_ladder_is_a_usage_error() {
    for backend in ["--backend cpu", "--backend reference"] {
        says(2, &small(1), (FEW, backend), "--backend emulated");
    }
}

#[test]
fn set_works_with_every_command_that_decodes_and_changes_no_hit() {
    let directory = &small(2);
    let decode = |options: &str| {
        run_to(
            0,
            directory,
            ("decode events.mdf --output hits.csv", options, TABLES),
        );
        read(directory, "hits.csv")
    };
    let expected = decode("--backend reference");
    assert!(expected.len() > 1000);
    for set in [
        "--backend emulated --set cluster.block_x=64 --set cluster.block_y=1 --set count.bins=8 --set sort.run=32 \
         --set scan.block_x=1024",
        "--backend cpu --set cpu.simd=scalar",
    ] {
        assert!(decode(set) == expected, "{set}");
    }
    for command in ["decode", "throughput", "ablation"] {
        let args = (
            command,
            "events.mdf --backend emulated --set cluster.block_z=1",
        );
        says(2, directory, args, "cluster.block_y");
    }
    let (json, _) = json_of(
        0,
        directory,
        "throughput --events 2 --duration 0 --threads 1 --set cpu.simd=scalar",
    );
    assert_eq!(json["set"], serde_json::json!(["cpu.simd=scalar"]));
}
