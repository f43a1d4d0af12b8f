//! `throughput`, `ablation`, `sweep` and `compare` with `--backend cuda`, end to end, on a fake
//! driver: what they say, not how fast it is.

use serde_json::Value;
use tempfile::TempDir;

use crate::fake_driver::{FakeDriver, tool as run};

/// Folder with `n` small events, `events.mdf`, and its path.
pub fn small(n: usize) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display().to_string();
    run(
        0,
        &[],
        &format!("generate --events {n} --profile pp-low --output {at}"),
    );
    (folder, at)
}

pub fn json(line: &str) -> (Value, String) {
    let (out, err) = run(
        0,
        &[("FAKE_CUDA_SEED", "1")],
        &format!("{line} --backend cuda --json -"),
    );
    (
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in {out}")),
        err,
    )
}

pub fn median(value: &Value) -> f64 {
    value["median"]
        .as_f64()
        .unwrap_or_else(|| panic!("no median in {value}"))
}

#[test]
fn throughput_measures_the_modes_of_either_pipeline_in_turn_and_its_kernels() {
    let args =
        "throughput --events 2 --profile pp-low --batch 1 --threads 2 --duration 0 --pipeline";
    let (result, text) = json(&format!("{args} allen --set count.block_x=64"));
    let modes = result["modes"].as_array().unwrap();
    let names: Vec<&str> = modes
        .iter()
        .map(|mode| mode["mode"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["device-resident", "hits-on-device", "end-to-end"]);
    for mode in modes {
        assert!(
            median(&mode["events_per_second"]) > 0.0 && median(&mode["latency"]["us"]) > 0.0,
            "{mode}"
        );
        assert_eq!(mode["repetitions"], result["repetitions"], "interleaved");
    }
    assert_eq!(
        result["events_per_second"], modes[2]["events_per_second"],
        "the whole way is the result"
    );
    let kernels = result["kernels"].as_array().unwrap();
    let share: f64 = kernels
        .iter()
        .map(|kernel| kernel["share"].as_f64().unwrap())
        .sum();
    assert!(
        kernels.len() >= 3 && (share - 1.0).abs() < 1e-9,
        "{kernels:?}"
    );
    let [read, written] =
        ["bytes_in_per_event", "bytes_out_per_event"].map(|name| result[name].as_f64().unwrap());
    assert!(read > result["bytes_per_event"].as_f64().unwrap());
    assert!(written > 28.0 * result["hits_per_event"].as_f64().unwrap());
    // Facts that the fake does not give are unknown, not made up.
    let gpu = &result["environment"]["gpu"];
    assert!(
        gpu["name"].is_string() && gpu["peak_bandwidth"].is_null() && gpu["link"].is_null(),
        "{gpu}"
    );
    assert!(
        text.contains("memory unknown; link unknown") && text.contains("by the device's clock"),
        "{text}"
    );
    assert!(text.contains("2 streams, count.block_x=64"), "{text}");

    let (allen, (ranked, _)) = (&result, json(&format!("{args} ranked")));
    let kernels = ranked["kernels"].as_array().unwrap().iter();
    let names: Vec<&str> = kernels
        .map(|kernel| kernel["kernel"].as_str().unwrap())
        .collect();
    let of_ranked = [
        "cluster",
        "cluster_unusual",
        "sort_groups",
        "scan",
        "make_hits",
    ];
    assert!(
        names.contains(&"make_hits") && names.iter().all(|name| of_ranked.contains(name)),
        "{names:?}"
    );
    assert_eq!(ranked["digest"], allen["digest"], "the same bits");
}

#[test]
fn a_sequence_is_measured_in_either_format_and_layout_only_if_its_hits_are_right() {
    let args = "throughput --events 5 --profile pp-low --batch 2 --duration 0 --threads";
    for more in ["1 --bank-format v4", "2 --set layout=mep", "3"] {
        let (result, text) = json(&format!("{args} {more}"));
        let of = result["modes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|mode| mode["mode"] == "sequence")
            .unwrap();
        assert!(
            median(&of["events_per_second"]) > 0.0 && text.contains("sequence"),
            "{of} {text}"
        );
    }
    let broken = [("FAKE_CUDA_BREAK", "make_hits=wrong")];
    let run = |pipeline: &str| {
        FakeDriver::new().run_tool(
            &broken,
            &format!("{args} 1 --backend cuda --pipeline {pipeline}"),
        )
    };
    let output = run("ranked");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && said.contains("other bits"),
        "{said}"
    );
    // The other pipeline has nothing of it.
    assert!(run("allen").status.success());
}

#[test]
fn a_ladder_that_was_not_compiled_is_refused() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");
    for other in ["v4/events.mdf", "v5/events.mdf --set layout=mep"] {
        let (_, err) = run(
            1,
            &[],
            &format!("ablation --backend cuda {fixtures}/{other}"),
        );
        assert!(
            err.contains("compiled for v5 banks in Allen layout"),
            "{err}"
        );
    }
}

#[test]
fn launch_parameters_of_a_gpu_can_be_compared() {
    let (input, at) = small(1);
    let settings = format!("boards = '{at}/boards.bin'\ngeometry = '{at}/geometry.bin'\n");
    std::fs::write(input.path().join("tables.toml"), settings).unwrap();
    let compare = |sets: &str| {
        format!("compare --backend cuda {sets} {at}/events.mdf --config {at}/tables.toml")
    };
    let (_, err) = run(2, &[], &compare("batch=1 cpu.simd=avx2"));
    assert!(
        err.contains("cuda has no parameter called \"cpu.simd\""),
        "{err}"
    );
    let sets = compare("batch=1,streams=1 batch=1,streams=1,block_y=2");
    let output = FakeDriver::new().run_tool(&[], &format!("{sets} --looks 4 --rounds 2 --json -"));
    assert!(
        [0, 3, 4].contains(&output.status.code().unwrap()),
        "{output:?}"
    );
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["result"]["blocks"].as_array().unwrap().len() >= 4);
}
