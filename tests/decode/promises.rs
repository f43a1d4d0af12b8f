//! Promises of the owner's card, a test each.

use std::path::{Path, PathBuf};

use serde_json::Value;
use simt::executor::{EmulatedBlock, Executor};
use simt::{Block, FULL_MASK, GlobalMut};

use super::backends::detectors;
use crate::suite::backends::{All, backends, compare};
use crate::suite::events::{allen_batch, mep_batch};
use crate::suite::nasty::{self, check};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns names and texts of the files below a folder of the repository.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut folders = vec![root().join(folder)];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty(), "{folder} is empty");
    files
        .iter()
        .map(|path| {
            (
                path.display().to_string(),
                std::fs::read_to_string(path).unwrap_or_default(),
            )
        })
        .collect()
}

/// "Property tests compare every backend with an independent CPU reference, bit for bit": random
/// events with every kind of trouble, in both layouts, on the CPU and in the executor; on a GPU
/// where there is one.
#[test]
fn c1_random_events_have_the_bits_of_the_independent_reference_on_every_backend() {
    let names: Vec<&str> = backends().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[0], "reference");
    for kind in ["cpu", "emulated"] {
        assert!(
            names.iter().filter(|name| name.starts_with(kind)).count() > 0,
            "{kind} is not in {names:?}"
        );
    }
    // (It shares no parsing, clustering or sorting with the others.)
    for (name, text) in sources("host/decoders/src/reference") {
        for other in [
            "ut_kernels",
            "crate::cpu",
            "crate::cuda",
            "crate::emulated",
            "simt",
        ] {
            assert!(!text.contains(other), "{name} uses {other}");
        }
    }
    for tables in detectors() {
        check(
            &(nasty::events(tables.boards(), 0..6), nasty::options()),
            8,
            |(events, options)| compare(&tables, options, allen_batch(&events).view()),
        );
        check(
            &(
                nasty::aligned_events(tables.boards(), 0..6),
                nasty::options(),
            ),
            6,
            |(events, options)| {
                let mut all = All::new(&tables, options);
                all.compare(mep_batch(&events).view())?;
                all.compare(allen_batch(&events).view())
            },
        );
    }
}

/// "Events per second on a GPU, in a committed result with machine, commit and command". A GPU has
/// made it; the test only reads it.
#[test]
fn c2_a_committed_result_has_events_per_second_of_a_gpu_with_machine_commit_and_command() {
    let mut n_results = 0;
    for (name, text) in sources("benches/results") {
        if Path::new(&name)
            .extension()
            .is_none_or(|extension| extension != "json")
        {
            continue;
        }
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let Some(gpu) = value["environment"]["gpu"]["name"].as_str() else {
            continue;
        };
        n_results += 1;
        assert!(gpu.contains("NVIDIA"), "{name}: {gpu}");
        assert!(
            value["machine"].is_object()
                && value["commit"].as_str().is_some_and(|of| of.len() >= 7),
            "{name}"
        );
        for batch in value["batches"].as_array().expect("batches") {
            assert_eq!(batch["backend"], "cuda", "{name}");
            for mode in batch["modes"].as_array().expect("modes") {
                assert!(
                    mode["events_per_second"]["median"]
                        .as_f64()
                        .is_some_and(|rate| rate > 1e5),
                    "{name}: {mode}"
                );
            }
        }
        // The summary in the same folder has the commands of all steps, one of which made this
        // file.
        let summary = Path::new(&name).with_file_name("summary.md");
        let summary = std::fs::read_to_string(&summary)
            .unwrap_or_else(|e| panic!("{}: {e}", summary.display()));
        let step = Path::new(&name)
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a name");
        let command = summary
            .lines()
            .find(|line| line.starts_with(&format!("| {step} |")) && line.contains("`ut-decode "));
        assert!(
            command
                .is_some_and(|line| line.contains("throughput") && line.contains("--backend cuda")),
            "{step}"
        );
    }
    assert!(n_results > 0, "no result of a GPU in benches/results");
}

/// "bytemuck, criterion, proptest, cust (a feature), `cuda_std`'s names; Cargo.toml, README.md,
/// kernels, host, build.rs, tests, benches, fixtures at the top".
#[test]
fn c3_the_repository_has_the_card_s_crates_names_and_files() {
    for name in ["Cargo.toml", "README.md", "build.rs"] {
        assert!(root().join(name).is_file(), "{name}");
    }
    for name in ["kernels", "host", "tests", "benches", "fixtures"] {
        assert!(root().join(name).is_dir(), "{name}");
    }
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    for line in ["bytemuck", "criterion", "proptest", "cust"] {
        let is_dependency =
            |of: &str| of.starts_with(&format!("{line} =")) || of.starts_with(&format!("{line}."));
        assert!(
            manifest.lines().any(is_dependency),
            "{line} is no dependency"
        );
    }
    let features = manifest
        .split("[features]")
        .nth(1)
        .and_then(|text| text.split("\n[").next())
        .expect("features");
    assert!(
        features.lines().any(|line| line.starts_with("cust =")),
        "cust is no feature"
    );

    // (Names of `cuda_std::thread` and `cuda_std::warp`.)
    let names = |block: &EmulatedBlock<'_>, sums: GlobalMut<'_, u32>| {
        let i = block.block_idx_x() * block.block_dim_x() + block.thread_idx_x();
        let _ = (
            block.block_idx_y(),
            block.block_dim_y(),
            block.thread_idx_y(),
            block.grid_dim_x(),
            block.grid_dim_y(),
        );
        block.sync_threads();
        block.sync_warp(FULL_MASK);
        if block.lane_id() == 0 {
            block.atomic_add(sums, i / 32, 1);
        }
    };
    let mut sums = [0u32; 4];
    let mut executor = Executor::new(0);
    let view = executor.writable(&mut sums);
    executor
        .launch("names", 2, (64, 1), 0, |block| names(block, view))
        .expect("it runs");
    assert_eq!(sums, [1; 4]);
}
