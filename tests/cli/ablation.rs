//! `ut-decode ablation` and `--set`, end to end.

use assert_cmd::cargo::cargo_bin;
use predicates::str::contains;
use serde_json::Value;

fn tool(args: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(cargo_bin!("ut-decode"));
    command.args(args);
    command
}

const FEW: [&str; 5] = ["ablation", "--profile", "pp-low", "--events", "3"];

fn json(more: &[&str]) -> Value {
    let output = tool(&[&FEW[..], &["--json", "-"], more].concat()).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

fn count(report: &Value, rung: usize, metric: &str) -> f64 {
    let counts = report["rungs"][rung]["work"]["per_event"].as_array().unwrap();
    counts.iter().find(|count| count[0] == metric).unwrap()[1].as_f64().unwrap()
}

#[test]
fn the_ladder_shows_the_merge_requests_steps_with_its_figures() {
    let output = tool(&FEW).assert().success().stdout(contains("registers")).stdout(contains("195834"));
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let allen =
        ["board-table", "flat-map", "zero-suppression", "warp-atomics", "binned", "narrow-sums", "opportunistic"];
    let rungs = allen.into_iter().chain(["fused-lanes", "fused-hits", "fused-ranks", "fused-look-back"]);
    for rung in rungs {
        let lines = text.lines().filter(|line| line.split_whitespace().next() == Some(rung)).count();
        assert_eq!(lines, 2, "{rung}: one line of counts, one of registers\n{text}");
    }
}

#[test]
fn counts_are_the_same_every_time_and_show_what_each_step_does() {
    let report = json(&[]);
    assert_eq!(report, json(&[]));
    let of = |rung, metric| count(&report, rung, metric);
    assert!(of(1, "global_sectors") < of(0, "global_sectors"), "the flat map reads less than the board table");
    assert!(of(3, "shared_atomics") < of(2, "shared_atomics"), "warp atomics are fewer");
    assert!(of(3, "collectives") > of(2, "collectives"), "and are paid for with collectives");
    let lanes = report["rungs"][3]["work"]["lanes_per_atomic"].as_f64().unwrap();
    assert!(lanes > 1.0, "{lanes}");
    assert_eq!(report["rungs"][2]["work"]["lanes_per_atomic"], 1.0);
    let traffic = |rung: usize| report["rungs"][rung]["work"]["traffic"].as_f64().unwrap();
    assert!(of(8, "global_sectors") < of(7, "global_sectors"), "neighbouring threads read neighbouring strips");
    assert!(of(9, "global_sectors") < of(8, "global_sectors"), "where the order is known, few hits are moved");
    assert!(traffic(10) < traffic(9), "without a launch that counts before, less is moved");
    assert!(2.0 * traffic(10) < traffic(6), "and less than half of what the seven kernels do: {}", traffic(10));
    assert!(of(10, "table_sectors") > 0.0 && of(10, "global_sectors") < of(6, "global_sectors"));
    for (rung, n_kernels) in report["rungs"].as_array().unwrap().iter().zip([7, 7, 7, 7, 7, 7, 7, 4, 4, 4, 2]) {
        let resources = rung["resources"].as_array().unwrap();
        assert_eq!(resources.len(), n_kernels, "{rung}");
        assert!(resources.iter().all(|of| of["registers"].as_u64().unwrap() > 0));
        let total: f64 = rung["work"]["per_event"].as_array().unwrap()[0][1].as_f64().unwrap();
        let kernels = rung["work"]["kernels"].as_array().unwrap();
        let sum: f64 = kernels.iter().map(|kernel| kernel[1][0][1].as_f64().unwrap()).sum();
        assert!((sum - total).abs() < 1e-6 * total, "the kernels add up to the whole: {sum}, {total}");
    }
}

#[test]
fn launch_parameters_reach_the_kernels() {
    let blocks = |set: &str| {
        let report = json(&["--set", set]);
        report["rungs"][0]["resources"][0]["threads"].as_u64().unwrap()
    };
    assert_eq!((blocks("count.block_x=64"), blocks("count.block_x=256")), (64, 256));
}

#[test]
fn v4_banks_in_mep_layout_climb_the_ladder_too() {
    let report = json(&["--format", "v4", "--set", "layout=mep"]);
    assert!(count(&report, 6, "global_sectors") > 0.0);
    assert_eq!(report["rungs"][0]["resources"], serde_json::json!([]), "not compiled rung by rung");
}

#[test]
fn a_backend_without_rungs_is_a_usage_error() {
    for backend in ["cpu", "reference"] {
        tool(&[&FEW[..], &["--backend", backend]].concat()).assert().code(2).stderr(contains("--backend emulated"));
    }
}

#[test]
fn set_works_wherever_there_is_decoding_and_changes_no_hit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    tool(&["generate", "--profile", "pp-low", "--events", "2", "--output", &path("sample")]).assert().success();
    let [boards, geometry] = ["sample/boards.bin", "sample/geometry.bin"].map(path);
    let decode = |backend: &str, set: &[&str], output: &str| {
        let (events, output) = (path("sample/events.mdf"), path(output));
        let tables = ["--boards", &boards, "--geometry", &geometry];
        let assignments: Vec<&str> = set.iter().flat_map(|assignment| ["--set", assignment]).collect();
        let base = ["decode", &events, "--backend", backend, "--output", &output];
        tool(&[&base[..], &tables, &assignments].concat()).assert().success();
        std::fs::read(output).unwrap()
    };
    let expected = decode("reference", &[], "reference.csv");
    assert!(expected.len() > 1000);
    let set = ["cluster.block_x=64", "cluster.block_y=1", "count.bins=8", "sort.run=32", "scan.block_x=1024"];
    assert!(decode("emulated", &set, "emulated.csv") == expected, "the same hits");
    assert!(decode("cpu", &["cpu.chunk=1", "cpu.simd=scalar"], "cpu.csv") == expected, "the same hits");
    for command in ["decode", "throughput", "ablation"] {
        let input = path("sample/events.mdf");
        tool(&[command, &input, "--backend", "emulated", "--set", "cluster.block_z=1"])
            .assert()
            .code(2)
            .stderr(contains("cluster.block_y"));
    }
    let throughput = ["throughput", "--events", "2", "--duration", "0", "--threads", "1", "--json", "-"];
    let output = tool(&[&throughput[..], &["--set", "cpu.chunk=4"]].concat()).assert().success();
    let json: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    assert_eq!(json["set"], serde_json::json!(["cpu.chunk=4"]));
}
