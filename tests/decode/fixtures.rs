//! The project's own files: every backend gives the hits and counts that are written down for them.
//!
//! With `UT_DECODE_MAKE_FIXTURES` in the environment the derived ones are made again instead (`fixtures/make.sh`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use ut_decoding::decoder::{Backend, BatchReport, Count, Kind};
use ut_decoding::detector::{Boards, DetectorTables, Geometry, Grouping, LANES_PER_BOARD};
use ut_decoding::input::{EventBatch, EventHeader, Events, GENERATED_MASK, MdfWriter, kind, to_allen, to_mep};
use ut_decoding::output::CsvWriter;
use ut_decoding::synth::encode::{Strip, encode_v5};
use ut_decoding::{DecodeOptions, UtHits};

use crate::suite::events::{Bank, borrowed, v5};

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
    elsewhere.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")).join(name)
}

fn making() -> bool {
    std::env::var_os("UT_DECODE_MAKE_FIXTURES").is_some()
}

/// FNV-1a, 64 bits.
fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    format!("{hash:016x}")
}

fn tables(file: &str, grouping: Grouping) -> DetectorTables {
    let directory = fixture(file).parent().unwrap().to_owned();
    let boards = Boards::read(directory.join("boards.bin")).unwrap();
    let geometry = Geometry::read(directory.join("geometry.bin")).unwrap();
    DetectorTables::new(boards, geometry, grouping).unwrap()
}

/// The file's events in one batch.
fn batch(file: &str) -> EventBatch {
    let mut events = Events::new([fixture(file)]);
    let batch = to_allen(events.next_batch(1000).unwrap().unwrap().0).unwrap();
    assert!(events.next_batch(1).unwrap().is_none());
    batch
}

fn decode(file: &str, backend: Backend, mep: bool) -> Expected {
    let batch = batch(file);
    let parts = if mep { to_mep(batch.view()).unwrap() } else { vec![batch] };
    let mut expected = Expected::default();
    for grouping in Grouping::ALL {
        let tables = tables(file, grouping);
        let mut decoder = backend.decoder(&tables, DecodeOptions::default(), 0).unwrap();
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
        expected.hits.insert(grouping.to_string(), Hits { number, digest });
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
            assert_eq!(decode(file, backend, mep), expected[file], "{file}, {backend}, MEP: {mep}");
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
    if making() {
        make_troubles();
        let all: BTreeMap<_, _> = FILES.map(|file| (file, decode(file, Backend::Reference, false))).into();
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
        assert!(report[count.name()] > 0, "troubles.mdf has no {}", count.name());
        let generated = expected["v5/events.mdf"].report[count.name()];
        assert!(count.kind() != Kind::Trouble || generated == 0, "{}: {generated}", count.name());
    }
}

#[cfg(feature = "cli")]
#[test]
fn generate_makes_the_same_files_again() {
    let output = tempfile::tempdir().unwrap();
    for (format, geometry_version) in [("v4", "0"), ("v5", "1")] {
        let mut tool = std::process::Command::new(env!("CARGO_BIN_EXE_ut-decode"));
        tool.args(["generate", "--profile", "pp-low", "--format", format, "--events", "4", "--seed", "1"]);
        tool.args(["--geometry-version", geometry_version, "--output"]).arg(output.path());
        assert!(tool.status().unwrap().success(), "{format}");
        for file in ["events.mdf", "boards.bin", "geometry.bin"] {
            let made = std::fs::read(output.path().join(file)).unwrap();
            let kept = std::fs::read(fixture(&format!("{format}/{file}"))).unwrap();
            assert!(made == kept, "{format}/{file} differs from what generate makes");
        }
    }
}

/// The v5 events, with every row of the policy table in them.
fn make_troubles() {
    let tables = tables("v5/events.mdf", Grouping::YRows);
    let unconnected = tables.slots().iter().position(|slot| !slot.is_connected()).unwrap();
    let mut writer = MdfWriter::new(Vec::new());
    let mut last = 0;
    let mut events = Events::new([fixture("v5/events.mdf")]);
    let mut index = 0;
    while let Some(event) = events.next_event().unwrap() {
        let banks = event.banks().filter(|bank| bank.kind == kind::UT);
        let mut banks: Vec<Bank> = banks.map(|bank| v5(bank.source_id as u16, bank.payload)).collect();
        match index {
            // Banks that are not what they should be.
            0 => {
                banks[3].kind = kind::UT_ERROR;
                banks[5].kind = kind::UT_FULL;
                banks[7].kind = 3;
                banks[10].version = 3;
                banks[20].source_id &= !0xFF;
                banks[30].source_id |= 0xFF;
                banks[40].source_id = banks[41].source_id;
                let first = banks[0].clone();
                banks.extend(vec![first; 3]);
            }
            // Payloads that contradict themselves.
            1 => {
                banks[10].payload = vec![0, 0, 0, 0, 2, 0, 0];
                banks[20].payload = vec![1];
                banks[30].payload = encode_v5([&[(1, 9)], &[], &[], &[], &[], &[]]);
                banks[30].payload[1] = 255;
                banks[40].payload = encode_v5([&[(1, 9), (5, 9), (9, 9)], &[], &[], &[], &[], &[]]);
                banks[40].payload.truncate(63);
                let mut lanes: [&[Strip]; 6] = [&[]; 6];
                lanes[unconnected % LANES_PER_BOARD] = &[(7, 7), (7, 0), (9, 9)];
                banks[unconnected / LANES_PER_BOARD].payload = encode_v5(lanes);
            }
            // Hits that make no good clusters.
            2 => {
                let long: Vec<_> = (100..100 + 129).map(|strip| (strip, 20)).collect();
                banks[10].payload = encode_v5([&long, &[(3, 9), (3, 9), (2, 9)], &[], &[], &[], &[]]);
                banks[20].payload = encode_v5([&[(3, 0), (4, 0), (9, 9), (11, 0)], &[], &[], &[], &[], &[]]);
            }
            // An event whose container is damaged, below.
            _ => last = index,
        }
        let header = EventHeader { trigger_mask: GENERATED_MASK, run: event.run.unwrap(), number: event.number };
        writer.write(&header, borrowed(&banks)).unwrap();
        index += 1;
    }
    assert_eq!(last, 3);
    let mut bytes = writer.finish().unwrap();
    let mut start = 0;
    for _ in 0..last {
        start += u32::from_le_bytes(bytes[start..start + 4].try_into().unwrap()) as usize;
    }
    // No checksum, and a bank in the second half that does not begin as one.
    bytes[start + 12..start + 16].fill(0);
    let half = start + (bytes.len() - start) / 2;
    let bank = (half..bytes.len()).find(|&at| bytes[at..at + 2] == [0xCB, 0xCB] && (at - start) % 4 == 0).unwrap();
    bytes[bank] = 0;
    std::fs::write(fixture("v5/troubles.mdf"), bytes).unwrap();
}
