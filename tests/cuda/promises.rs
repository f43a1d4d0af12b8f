//! Promises of the sources that need a GPU, a test each: Allen's merge request, and ALICE's grids
//! (`l3`), on the mock driver, whose kernels run on the interpreter of PTX. The others of the merge
//! request are in `tests/kernels/promises.rs`.

use std::sync::LazyLock;

use serde_json::Value;
use ut_decoding::bench::tunable;
use ut_decoding::decoder::cuda::CudaDevice;
use ut_decoding::decoder::occupancy::Multiprocessors;
use ut_decoding::decoder::plan::{DeviceTables, Plan};
use ut_decoding::decoder::ptx::Kernel;
use ut_decoding::decoder::{Parameters, Pipeline};
use ut_decoding::detector::BankVersion;
use ut_decoding::{Backend, Grouping};

use crate::fake_driver::{FakeDriver, on_the_fakes, tool as run, well_on_the_fake};
use crate::measuring::{json, median, small};
use crate::sequence::{SEEDS, check_all};
use crate::suite::events::{allen_batch, mep_batch};
use crate::{detector, events};

/// The ladder of the merge request's steps, measured once for all tests: its JSON, and its text.
static LADDER: LazyLock<(Value, String)> = LazyLock::new(|| {
    let (_folder, at) = small(1);
    json(&format!(
        "ablation {at}/events.mdf --set batch=1 --set streams=1 --duration 0"
    ))
});

/// Returns what the ladder says about a kernel before the step `narrow-sums`, and after it.
fn before_and_after_narrow_sums(kernel: &str, what: &str) -> [f64; 2] {
    ["binned", "narrow-sums"].map(|name| {
        let rungs = LADDER.0["rungs"].as_array().unwrap();
        let rung = rungs
            .iter()
            .find(|rung| rung["rung"] == name)
            .unwrap_or_else(|| panic!("no step {name}"));
        let resources = rung["resources"].as_array().unwrap();
        let of = resources
            .iter()
            .find(|of| of["kernel"] == kernel)
            .unwrap_or_else(|| panic!("no {kernel} in {rung}"));
        of[what]
            .as_f64()
            .unwrap_or_else(|| panic!("no {what} in {of}"))
    })
}

/// "16-bit integers in clustering; registers shown before and after". The step changes no hit: a
/// ladder with other hits ends with an error.
#[test]
fn a5_sums_of_16_bits_are_a_step_with_the_registers_before_and_after() {
    let [before, after] = before_and_after_narrow_sums("cluster_and_predecode", "registers");
    assert!(before > 0.0 && after > 0.0, "{before}, {after}");
    let text = &LADDER.1;
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.split_whitespace().next() == Some("narrow-sums"))
        .collect();
    assert_eq!(lines.len(), 2, "its rate, and its registers: {text}");
    assert!(
        lines.iter().any(|line| line.contains(&after.to_string())),
        "{after} registers: {lines:?}"
    );
}

/// "No loop over layers where hits are made; occupancy shown before and after".
#[test]
fn a6_hits_are_made_without_a_loop_over_layers_with_the_occupancy_before_and_after() {
    let [before, after] = before_and_after_narrow_sums("decode_in_order", "occupancy");
    assert!(
        before > 0.0 && after > 0.0 && after <= 1.0,
        "{before}, {after}"
    );
    // The loop has layers in its registers, too.
    let [before, after] = before_and_after_narrow_sums("decode_in_order", "registers");
    assert!(after < before, "{after} registers, {before} with the loop");
}

/// "A table in which each change stands on the one before, in events per second": on the mock
/// driver.
#[test]
fn a8_the_merge_requests_steps_are_measured_each_on_top_of_the_one_before() {
    let (result, text) = &*LADDER;
    let rungs = result["rungs"].as_array().unwrap();
    let names = rungs.iter().map(|rung| rung["rung"].as_str().unwrap());
    let steps = [
        "board-table",
        "flat-map",
        "zero-suppression",
        "warp-atomics",
        "binned",
        "narrow-sums",
        "opportunistic",
    ];
    assert!(names.take(steps.len()).eq(steps), "{result}");
    for (i, rung) in rungs.iter().enumerate() {
        let measured = &rung["measured"];
        assert!(
            median(&measured["events_per_second"]) > 0.0 && rung["work"].is_null(),
            "{rung}"
        );
        assert_eq!(measured["change"].is_null(), i == 0, "{rung}");
        let kernels = measured["kernels"].as_array().unwrap();
        assert!(
            i >= steps.len()
                || kernels
                    .iter()
                    .any(|of| of["kernel"] == "cluster_and_predecode"),
            "{rung}"
        );
        let resources = rung["resources"].as_array().unwrap();
        assert!(
            !resources.is_empty()
                && resources
                    .iter()
                    .all(|of| of["occupancy"].as_f64().unwrap() > 0.0),
            "{rung}"
        );
    }
    let arch = result["arch"].as_str().unwrap();
    let name = result["environment"]["gpu"]["name"].as_str().unwrap();
    assert!(
        arch.starts_with(name) && arch.contains(", as sm_"),
        "{arch}"
    );
    assert!(text.contains("195834"), "{text}");
}

/// "A stage of a trigger sequence: the framework's memory, stream and events": on the mock driver,
/// which notices memory that is not the caller's, and work on another stream.
#[test]
fn a9_a_stage_of_a_sequence_decodes_into_memory_of_exactly_its_size_on_the_callers_stream() {
    on_the_fakes(&SEEDS, || {
        for version in [BankVersion::V5, BankVersion::V4] {
            let tables = detector(version, Grouping::YRows);
            let mut events = events(version, 7, 3);
            let mep = mep_batch(&events[1..]);
            // One event with a bank twice.
            let twice = events[1][0].clone();
            events[1].push(twice);
            let batches = [
                allen_batch(&events),
                mep,
                allen_batch(&[]),
                allen_batch(&[vec![]]),
            ];
            check_all(&tables, &batches.each_ref().map(|batch| batch.view()));
        }
    });
}

/// "Events per second under a sweep of launch parameters, each point's hits compared first": on the
/// mock driver.
#[test]
fn a10_a_sweep_measures_launch_parameters_and_skips_what_the_gpu_cannot_run() {
    let (folder, path) = small(1);
    let at = |name: &str| folder.path().join(name);
    let few = format!("{path}/events.mdf --set batch=1 --backend cuda --rounds 1");
    let line =
        |name: &str, more: &str| format!("sweep --output {} {few} {more}", at(name).display());
    let report = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(at(name).join("sweep.json")).unwrap()).unwrap()
    };
    let blocks = "--set cluster.block_y=1 --axis cluster.block_x=16,32 --axis streams=1";
    let pipelines = format!(
        "--axis pipeline={}",
        Pipeline::ALL.map(|pipeline| pipeline.to_string()).join(",")
    );
    for (mode, axes, n_points, n_skipped) in [
        ("device-resident", blocks, 2, 1),
        ("end-to-end", &*pipelines, Pipeline::ALL.len(), 0),
    ] {
        run(0, &[], &line(mode, &format!("{axes} --mode {mode}")));
        let report = report(mode);
        // With the default, of other blocks and three streams; all pipelines in one process.
        let points = report["points"].as_array().unwrap();
        assert_eq!(points.len(), n_points);
        assert!(
            points.iter().all(|point| median(&point["measured"]) > 0.0),
            "{points:?}"
        );
        assert_eq!(
            report["skipped"].as_array().unwrap().len(),
            n_skipped,
            "half a warp"
        );
        assert_eq!(report["about"]["unit"], format!("events/s {mode}"));
        let page = std::fs::read_to_string(at(mode).join("sweep.html")).unwrap();
        assert!(
            page.contains("while measured") && page.contains("compute capability"),
            "the environment is told"
        );
    }
    // A kernel with wrong hits is not a fast point: its hits are compared before it is timed.
    let broken = [("FAKE_CUDA_BREAK", "decode_in_order=wrong")];
    let axes = "--set pipeline=allen --axis count.block_x=64,96 --mode device-resident";
    let output = FakeDriver::new().run_tool(&broken, &line("broken", axes));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && said.contains("its hits differ from the reference"),
        "{said}"
    );
}

/// Launch parameters of
/// [`l3`](l3_our_kernels_are_swept_over_blocks_of_warps_and_grids_of_multiprocessors).
const BLOCK_AND_GRID: [&str; 2] = ["ranked.sort_block_x", "ranked.sort_grid"];

/// "A grid over (block, grid): blocks in multiples of the warp, grids in multiples of the
/// multiprocessors or depending on the data, for our own kernels too": the sort of groups on the
/// mock driver, which has two multiprocessors.
#[test]
fn l3_our_kernels_are_swept_over_blocks_of_warps_and_grids_of_multiprocessors() {
    let (folder, path) = small(5);
    let to = folder.path().join("result");
    let [block, grid] = BLOCK_AND_GRID;
    let axes = format!("--axis {block}=32,96,256 --axis {grid}=1,2,0");
    let line = format!(
        "sweep {path}/events.mdf --backend cuda --rounds 1 --output {} {axes}",
        to.display()
    );
    run(
        0,
        &[],
        &format!("{line} --set batch=5 --set streams=1 --set pipeline=ranked"),
    );
    // The bits of each point were compared with the reference's before it was timed.
    let report: Value =
        serde_json::from_slice(&std::fs::read(to.join("sweep.json")).unwrap()).unwrap();
    let points = report["points"].as_array().unwrap();
    assert!(
        points.len() == 9 && points.iter().all(|point| median(&point["measured"]) > 0.0),
        "{points:?}"
    );

    let space = tunable::space((Backend::Cuda, Pipeline::Ranked), 1).unwrap();
    assert!(
        BLOCK_AND_GRID
            .iter()
            .all(|name| space.names().contains(&(*name).to_owned())),
        "{:?}",
        space.names()
    );
    well_on_the_fake(&[], || {
        let device = CudaDevice::new(0, 0).unwrap().multiprocessors();
        assert_eq!(device.number, 2);
        for (blocks, threads) in [(1, 32), (3, 96), (64, 256)] {
            let shape = sort_shape(device, blocks, threads, 1000);
            assert_eq!((shape.grid, shape.block), (2 * blocks, (threads, 1)));
        }
        // By default all slots are filled, and no event gets more than a block.
        assert_eq!(sort_shape(device, 0, 256, 1000).grid, 2 * 8);
        assert_eq!(sort_shape(device, 0, 256, 5).grid, 5);
    });
}

/// Shape of the sort's launch for a batch.
fn sort_shape(
    device: Multiprocessors,
    blocks: u32,
    threads: u32,
    n_events: usize,
) -> ut_decoding::decoder::plan::Shape {
    let tables = DeviceTables::new("cuda", &detector(BankVersion::V5, Grouping::YRows)).unwrap();
    let set = format!(
        "{}={threads},{}={blocks}",
        BLOCK_AND_GRID[0], BLOCK_AND_GRID[1]
    );
    let parameters = Parameters::default().with(Backend::Cuda, &set).unwrap();
    Plan::new(&tables, parameters, n_events, device).shape(Kernel::SortGroups)
}
