//! What the kernels cost, counted by the machine that runs their PTX: the counters themselves, and the table of
//! `docs/kernel-counts.md`.

use std::fmt::Write as _;

use super::decoder::PtxDecoder;
use crate::suite::backends::decode;
use crate::suite::data::Real;
use crate::suite::events::{Event, allen_batch, generated_as, mep_batch};
use ptx_machine::{Counts, Launch, Memory, Program};
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::DeviceConfig;
use ut_decoding::synth::{self, Profile};
use ut_decoding::{DecodeOptions, DetectorTables, Grouping, Layout};
use ut_kernels::detector::BankVersion;

/// Counts of one block of 64 threads that runs these instructions.
fn counts(instructions: &str) -> Counts {
    let text = format!(".visible .entry test(\n)\n{{\n{instructions}\nret;\n}}\n");
    let launch = Launch { grid: 1, block: (64, 1), shared_bytes: 8192, turn: 0, counts: true };
    let blocks = Program::new(&text).launch(&mut Memory::default(), "test", launch, &[]);
    assert_eq!(blocks.len(), 1);
    blocks[0]
}

#[test]
fn the_critical_path_is_the_longest_warp_of_each_interval() {
    // Warp 0 issues three more before the barrier, warp 1 two more behind it.
    let counts = counts(
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n@!%p1 bra BEHIND;\nadd.s32 %r2, %r1, 1;\n\
         add.s32 %r2, %r2, 1;\nadd.s32 %r2, %r2, 1;\nBEHIND:\nbar.sync 0;\n@%p1 bra END;\nadd.s32 %r2, %r1, 1;\n\
         add.s32 %r2, %r1, 1;\nEND:",
    );
    // Before: three, then three of warp 0 alone, and the barrier. Behind: the branch, two of warp 1 alone, the end.
    assert_eq!((counts.barriers, counts.issued), (1, 7 + 4 + 2 + 4));
    assert_eq!(counts.path, 7 + 4);
}

#[test]
fn lanes_that_meet_in_a_bank_take_turns_and_those_that_want_the_same_word_do_not() {
    let store = |shift: u32| {
        let address = format!("mov.u32 %r1, %laneid;\nshl.b32 %r2, %r1, {shift};\n");
        counts(&format!("{address}st.shared.u32 [%r2], %r1;"))
    };
    // Words side by side; every second word; all in one bank.
    for (shift, conflicts) in [(2, 0), (3, 1), (7, 31)] {
        let counts = store(shift);
        assert_eq!((counts.shared, counts.conflicts), (2, 2 * conflicts), "shift {shift}");
    }
    let same = counts("mov.u32 %r1, 0;\nst.shared.u32 [%r1], %r1;\nld.shared.u32 %r2, [%r1];");
    assert_eq!((same.shared, same.conflicts), (4, 0));
    // Eight bytes a lane are two halves of the warp.
    let wide = counts("mov.u32 %r1, %laneid;\nshl.b32 %r2, %r1, 3;\nmov.u64 %rd1, 0;\nst.shared.u64 [%r2], %rd1;");
    assert_eq!((wide.shared, wide.conflicts), (2, 0));
}

/// Events of a kind, and the detector that they are of.
struct Sample {
    name: &'static str,
    tables: DetectorTables,
    events: Vec<Event>,
}

fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (name, real) in [("real v5", Real::V5), ("real v4", Real::V4)] {
        let (tables, events) = real.needed(Grouping::YRows);
        samples.push(Sample { name, tables, events });
    }
    for (name, profile) in
        [("pp-nominal", Profile::PpNominal), ("pp-high", Profile::PpHigh), ("pbpb-low", Profile::PbpbLow)]
    {
        let version = BankVersion::V5;
        let (boards, geometry) = synth::detector(version, 1);
        let events = generated_as(profile, version, 1, 10);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("they go together");
        samples.push(Sample { name, tables, events });
    }
    samples
}

/// A row of the table: a mean event in one of the pipelines.
fn row(sample: &Sample, layout: Layout, pipeline: Pipeline) -> String {
    let Sample { name, tables, events } = sample;
    let options = DecodeOptions::default();
    let batch = if layout == Layout::Allen { allen_batch(events) } else { mep_batch(events) };
    let config = DeviceConfig { pipeline, ..DeviceConfig::default() };
    let (mut decoder, all) = PtxDecoder::counting(tables, options, config);
    let (hits, report) = decode(&mut decoder, tables, batch.view());
    let strips: u32 = report.events.iter().map(|event| event.counts[1]).sum();
    let all = all.lock().expect("no thread panicked");
    let mut sum = Counts::default();
    all.values().flatten().for_each(|block| sum.add(block));
    // Of the kernel with a block an event.
    let one = |kernel: &str| all.iter().find(|(entry, _)| entry.starts_with(kernel)).map(|(_, blocks)| blocks);
    let worst = one("fused__").map(|blocks| blocks.iter().map(|block| block.path).max().unwrap_or(0));
    let path = one("fused__").map(|blocks| blocks.iter().map(|block| block.path).sum::<u64>());
    let n = events.len() as u64;
    let or_dash = |number: Option<u64>| number.map_or("–".to_owned(), |number| number.to_string());
    let mut row =
        format!("| {name} | {layout:?} | {pipeline} | {} | {} ", u64::from(strips) / n, hits.len() as u64 / n);
    for number in [
        Some(sum.issued / n),
        path.map(|path| path / n),
        worst,
        one("fused__").map(|blocks| blocks.iter().map(|block| block.barriers).sum::<u64>() / n),
        Some(sum.shared / n),
        Some(sum.conflicts / n),
        Some(sum.sectors / n),
        // Of the second kernel a block an event that is left: the others pass no barrier.
        one("fused_others__").map(|blocks| blocks.iter().filter(|block| block.barriers > 0).count() as u64),
    ] {
        _ = write!(row, "| {} ", or_dash(number));
    }
    row + "|"
}

#[test]
#[ignore = "needs the real events (UT_DECODE_DATA) and minutes of counting; prints the table of docs/kernel-counts.md"]
fn table() {
    println!(
        "| events | layout | pipeline | strips | hits | issued | path | worst | barriers | shared | conflicts | sectors | left |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for sample in samples() {
        for layout in [Layout::Allen, Layout::Mep] {
            for pipeline in Pipeline::ALL {
                println!("{}", row(&sample, layout, pipeline));
            }
        }
    }
}
