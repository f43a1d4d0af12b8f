//! The project's own files: every backend gives the hits and counts that are written down for them.
//!
//! With `UT_DECODE_MAKE_FIXTURES` in the environment the digests are written again
//! (`fixtures/make.sh`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use ut_decoding::decoder::{Backend, BatchReport, Count, Kind};
use ut_decoding::detector::{Boards, DetectorTables, Geometry, Grouping};
use ut_decoding::input::{EventBatch, Events, to_allen, to_mep};
use ut_decoding::output::CsvWriter;
use ut_decoding::{DecodeOptions, UtHits};

const FILES: [&str; 3] = ["v4/events.mdf", "v5/events.mdf", "v5/troubles.mdf"];

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Expected {
    hits: BTreeMap<String, Hits>,
    report: BTreeMap<String, u64>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hits {
    number: usize,
    digest: String,
}

pub fn fixture(name: &str) -> PathBuf {
    // Elsewhere where the tests run on another machine than they were built on.
    let elsewhere = std::env::var_os("UT_DECODE_FIXTURES").map(PathBuf::from);
    elsewhere
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"))
        .join(name)
}

/// FNV-1a, 64 bits.
fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3)
    });
    format!("{hash:016x}")
}

fn tables(file: &str, grouping: Grouping) -> DetectorTables {
    let directory = fixture(file).parent().unwrap().to_owned();
    let boards = Boards::read(directory.join("boards.bin")).unwrap();
    let geometry = Geometry::read(directory.join("geometry.bin")).unwrap();
    DetectorTables::new(boards, geometry, grouping).unwrap()
}

/// Reads the file's events into one batch.
fn batch(file: &str) -> EventBatch {
    let mut events = Events::new([fixture(file)]);
    let batch = to_allen(events.next_batch(1000).unwrap().unwrap().0).unwrap();
    assert!(events.next_batch(1).unwrap().is_none());
    batch
}

fn decode(file: &str, backend: Backend, mep: bool) -> Expected {
    let batch = batch(file);
    let parts = if mep {
        to_mep(batch.view()).unwrap()
    } else {
        vec![batch]
    };
    let mut expected = Expected::default();
    for grouping in Grouping::ALL {
        let tables = tables(file, grouping);
        let mut decoder = backend.decoder(&tables, DecodeOptions::default()).unwrap();
        let mut csv = CsvWriter::new(Vec::new()).unwrap();
        let (mut events, mut number) = (0, 0);
        expected.report.clear();
        for part in &parts {
            let view = part.view();
            let mut hits = UtHits::with_capacity(view.n_events, tables.n_groups(), view.max_hits());
            let mut report = BatchReport::new();
            decoder.decode(view, &mut hits, &mut report).unwrap();
            csv.write(events, &hits).unwrap();
            events += view.n_events as u64;
            number += hits.len();
            for count in Count::ALL {
                *expected.report.entry(count.name().to_owned()).or_default() += report.total(count);
            }
        }
        let digest = digest(&csv.finish().unwrap());
        expected
            .hits
            .insert(grouping.to_string(), Hits { number, digest });
    }
    expected
}

fn written_down() -> BTreeMap<String, Expected> {
    serde_json::from_slice(&std::fs::read(fixture("expected.json")).unwrap()).unwrap()
}

fn gives_what_is_written_down(backend: Backend) {
    let expected = written_down();
    for file in FILES {
        for mep in [false, true] {
            assert_eq!(
                decode(file, backend, mep),
                expected[file],
                "{file}, {backend}, MEP: {mep}"
            );
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_gpu_gives_the_hits_and_counts_that_are_written_down() {
    gives_what_is_written_down(Backend::Cuda);
}

#[test]
fn every_backend_on_a_cpu_gives_the_hits_and_counts_that_are_written_down() {
    if std::env::var_os("UT_DECODE_MAKE_FIXTURES").is_some() {
        let all: BTreeMap<_, _> = FILES
            .map(|file| (file, decode(file, Backend::Reference, false)))
            .into();
        let json = serde_json::to_string_pretty(&all).unwrap() + "\n";
        std::fs::write(fixture("expected.json"), json).unwrap();
    }
    for backend in [Backend::Reference, Backend::Cpu, Backend::Emulated] {
        gives_what_is_written_down(backend);
    }
    let expected = written_down();
    assert!(expected.keys().eq(&FILES));
    // The digests are worth nothing if nothing happens in the files.
    for file in ["v4/events.mdf", "v5/events.mdf"] {
        assert!(expected[file].hits["y-rows"].number > 1000);
    }
    let report = &expected["v5/troubles.mdf"].report;
    for count in Count::ALL {
        assert!(
            report[count.name()] > 0,
            "troubles.mdf has no {}",
            count.name()
        );
        let generated = expected["v5/events.mdf"].report[count.name()];
        assert!(
            count.kind() != Kind::Trouble || generated == 0,
            "{}: {generated}",
            count.name()
        );
    }
}

#[cfg(feature = "cli")]
#[test]
fn generate_makes_the_same_files_again() {
    let output = tempfile::tempdir().unwrap();
    for (format, geometry_version) in [("v4", "0"), ("v5", "1")] {
        let mut tool = std::process::Command::new(env!("CARGO_BIN_EXE_ut-decode"));
        tool.args([
            "generate",
            "--profile",
            "pp-low",
            "--format",
            format,
            "--events",
            "4",
            "--seed",
            "1",
        ]);
        tool.args(["--geometry-version", geometry_version, "--output"])
            .arg(output.path());
        assert!(tool.status().unwrap().success(), "{format}");
        for file in ["events.mdf", "boards.bin", "geometry.bin"] {
            let made = std::fs::read(output.path().join(file)).unwrap();
            let kept = std::fs::read(fixture(&format!("{format}/{file}"))).unwrap();
            assert!(
                made == kept,
                "{format}/{file} differs from what generate makes"
            );
        }
    }
}
