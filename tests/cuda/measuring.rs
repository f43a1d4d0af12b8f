//! `throughput`, `ablation`, `sweep` and `compare` with `--backend cuda`, end to end, on a fake driver: what they say,
//! not how fast it is.

use serde_json::Value;
use tempfile::TempDir;

use crate::fake_driver::{FakeDriver, tool as run};

/// Folder with `n` small events, `events.mdf`, and its path.
fn small(n: usize) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display().to_string();
    run(0, &[], &format!("generate --events {n} --profile pp-low --output {at}"));
    (folder, at)
}

fn json(line: &str) -> (Value, String) {
    let (out, err) = run(0, &[("FAKE_CUDA_SEED", "1")], &format!("{line} --backend cuda --json -"));
    (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in {out}")), err)
}

fn median(value: &Value) -> f64 {
    value["median"].as_f64().unwrap_or_else(|| panic!("no median in {value}"))
}

#[test]
fn throughput_measures_three_modes_in_turn_and_the_kernels_of_either_pipeline() {
    let args = "throughput --events 2 --profile pp-low --batch 1 --threads 2 --duration 0 --pipeline";
    let (result, text) = json(&format!("{args} allen --set count.block_x=64"));
    let modes = result["modes"].as_array().unwrap();
    let names: Vec<&str> = modes.iter().map(|mode| mode["mode"].as_str().unwrap()).collect();
    assert_eq!(names, ["device-resident", "hits-on-device", "end-to-end"]);
    for mode in modes {
        assert!(median(&mode["events_per_second"]) > 0.0 && median(&mode["latency"]["us"]) > 0.0, "{mode}");
        assert_eq!(mode["repetitions"], result["repetitions"], "interleaved");
    }
    assert_eq!(result["events_per_second"], modes[2]["events_per_second"], "the whole way is the result");
    let kernels = result["kernels"].as_array().unwrap();
    let share: f64 = kernels.iter().map(|kernel| kernel["share"].as_f64().unwrap()).sum();
    assert!(kernels.len() >= 3 && (share - 1.0).abs() < 1e-9, "{kernels:?}");
    let [read, written] = ["bytes_in_per_event", "bytes_out_per_event"].map(|name| result[name].as_f64().unwrap());
    assert!(read > result["bytes_per_event"].as_f64().unwrap());
    assert!(written > 28.0 * result["hits_per_event"].as_f64().unwrap());
    // Facts that the fake does not tell are unknown, not made up.
    let gpu = &result["environment"]["gpu"];
    assert!(gpu["name"].is_string() && gpu["peak_bandwidth"].is_null() && gpu["link"].is_null(), "{gpu}");
    assert!(text.contains("memory unknown; link unknown") && text.contains("by the device's clock"), "{text}");
    assert!(text.contains("2 streams, count.block_x=64"), "{text}");

    let (allen, (fused, _)) = (&result, json(&format!("{args} fused")));
    let kernels = fused["kernels"].as_array().unwrap().iter();
    let names: Vec<&str> = kernels.map(|kernel| kernel["kernel"].as_str().unwrap()).collect();
    assert!(names.contains(&"fused") && names.iter().all(|name| name.starts_with("fused")), "{names:?}");
    assert_eq!(fused["digest"], allen["digest"], "the same bits");
}

#[test]
fn the_ladder_is_measured_rung_by_rung_and_kernel_by_kernel() {
    let (_folder, at) = small(1);
    let (result, text) = json(&format!("ablation {at}/events.mdf --set batch=1 --set streams=1 --duration 0"));
    let rungs = result["rungs"].as_array().unwrap();
    assert_eq!(rungs.len(), 11);
    for (i, rung) in rungs.iter().enumerate() {
        let measured = &rung["measured"];
        assert!(median(&measured["events_per_second"]) > 0.0 && rung["work"].is_null(), "{rung}");
        assert_eq!(measured["change"].is_null(), i == 0, "{rung}");
        let kernel = if i < 7 { "cluster_and_predecode" } else { "fused" };
        assert!(measured["kernels"].as_array().unwrap().iter().any(|of| of["kernel"] == kernel), "{rung}");
        let resources = rung["resources"].as_array().unwrap();
        assert!(!resources.is_empty() && resources.iter().all(|of| of["occupancy"].as_f64().unwrap() > 0.0), "{rung}");
    }
    let arch = result["arch"].as_str().unwrap();
    assert!(
        arch.starts_with(result["environment"]["gpu"]["name"].as_str().unwrap()) && arch.contains(", as sm_"),
        "{arch}"
    );
    assert!(text.contains("195834"), "{text}");
}

#[test]
fn a_ladder_that_was_not_compiled_is_refused() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");
    for other in ["v4/events.mdf", "v5/events.mdf --set layout=mep"] {
        let (_, err) = run(1, &[], &format!("ablation --backend cuda {fixtures}/{other}"));
        assert!(err.contains("compiled for v5 banks in Allen layout"), "{err}");
    }
}

#[test]
fn a_sweep_measures_points_on_the_gpu_and_skips_what_it_cannot_run() {
    let (folder, path) = small(1);
    let at = |name: &str| folder.path().join(name);
    let few = format!("{path}/events.mdf --set batch=1 --backend cuda --rounds 1");
    let line = |name: &str, more: &str| format!("sweep --output {} {few} {more}", at(name).display());
    let report =
        |name: &str| -> Value { serde_json::from_slice(&std::fs::read(at(name).join("sweep.json")).unwrap()).unwrap() };
    let blocks = "--set cluster.block_y=1 --axis cluster.block_x=16,32 --axis streams=1";
    for (mode, axes, n_points, n_skipped) in
        [("device-resident", blocks, 2, 1), ("end-to-end", "--axis pipeline=fused,allen", 2, 0)]
    {
        run(0, &[], &line(mode, &format!("{axes} --mode {mode}")));
        let report = report(mode);
        // With the default, of other blocks and three streams; both pipelines in one process.
        let points = report["points"].as_array().unwrap();
        assert_eq!(points.len(), n_points);
        assert!(points.iter().all(|point| median(&point["measured"]) > 0.0), "{points:?}");
        assert_eq!(report["skipped"].as_array().unwrap().len(), n_skipped, "half a warp");
        assert_eq!(report["about"]["unit"], format!("events/s {mode}"));
        let page = std::fs::read_to_string(at(mode).join("sweep.html")).unwrap();
        assert!(page.contains("while measured") && page.contains("compute capability"), "the environment is told");
    }
}

#[test]
fn launch_parameters_of_a_gpu_can_be_compared() {
    let (input, at) = small(1);
    let settings = format!("boards = '{at}/boards.bin'\ngeometry = '{at}/geometry.bin'\n");
    std::fs::write(input.path().join("tables.toml"), settings).unwrap();
    let compare = |sets: &str| format!("compare --backend cuda {sets} {at}/events.mdf --config {at}/tables.toml");
    let (_, err) = run(2, &[], &compare("batch=1 cpu.simd=avx2"));
    assert!(err.contains("cuda has no parameter called \"cpu.simd\""), "{err}");
    let sets = compare("batch=1,streams=1 batch=1,streams=1,block_y=2");
    let output = FakeDriver::new().run_tool(&[], &format!("{sets} --looks 4 --rounds 2 --json -"));
    assert!([0, 3, 4].contains(&output.status.code().unwrap()), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["result"]["blocks"].as_array().unwrap().len() >= 4);
}
