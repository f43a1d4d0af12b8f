//! Costs of the kernels, counted by the machine that runs their PTX: the counters themselves, and the table of
//! `docs/fused.md`.

use serde_json::{Value, json};

use super::decoder::{Launched, PtxDecoder};
use crate::suite::backends::decode;
use crate::suite::data::Real;
use crate::suite::events::{Event, allen_batch, generated_as, mep_batch, tables_in};
use ptx_machine::{Counts, Issued, Launch, Memory, Program};
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::CudaConfig;
use ut_decoding::synth::Profile;
use ut_decoding::{DecodeOptions, DetectorTables, EventBatch, Grouping, Layout};
use ut_kernels::detector::BankVersion;

/// Counts of one block of 64 threads that runs these instructions; `%rd1` is the address of 256 words, all zero.
fn counts(instructions: &str) -> Counts {
    let launch = Launch { grid: 1, block: (64, 1), shared_bytes: 8192, turn: 0, counts: true };
    let blocks = counts_of(launch, instructions);
    assert_eq!(blocks.len(), 1);
    blocks[0]
}

fn counts_of(launch: Launch, instructions: &str) -> Vec<Counts> {
    let text = format!(
        ".visible .entry test(\n.param .u64 words\n)\n{{\nld.param.u64 %rd1, [words];\n{instructions}\nret;\n}}\n"
    );
    let mut memory = Memory::default();
    let words = memory.allocate(1024);
    memory.store(words, &[0; 1024]).expect("room for them");
    Program::new(&text).launch(&mut memory, "test", launch, &[words.to_le_bytes().to_vec()])
}

#[test]
fn the_critical_path_is_the_longest_warp_of_each_interval() {
    // Warp 0 issues three more before the barrier, warp 1 two more behind it.
    let counts = counts(
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n@!%p1 bra BEHIND;\nadd.s32 %r2, %r1, 1;\n\
         add.s32 %r2, %r2, 1;\nadd.s32 %r2, %r2, 1;\nBEHIND:\nbar.sync 0;\n@%p1 bra END;\nadd.s32 %r2, %r1, 1;\n\
         add.s32 %r2, %r1, 1;\nEND:",
    );
    // Before: four, then three of warp 0 alone, and the barrier. Behind: the branch, two of warp 1 alone, the end.
    assert_eq!((counts.barriers, counts.issued), (1, 8 + 5 + 2 + 4));
    assert_eq!(counts.path, 8 + 4);
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
    let wide = counts("mov.u32 %r1, %laneid;\nshl.b32 %r2, %r1, 3;\nmov.u64 %rd2, 0;\nst.shared.u64 [%r2], %rd2;");
    assert_eq!((wide.shared, wide.conflicts), (2, 0));
}

/// `chain` and `waits`.
fn loads(instructions: &str) -> (u64, u64) {
    let counts = counts(instructions);
    (counts.chain, counts.waits)
}

/// A load whose address is made from `$from`, a word that was loaded.
const FOLLOW: &str =
    "cvt.u64.u32 %rd2, %r1;\nadd.s64 %rd3, %rd1, %rd2;\nld.global.u32 %r2, [%rd3];\nadd.s32 %r3, %r2, 1;\n";

#[test]
fn a_load_whose_address_was_loaded_makes_the_chain_longer() {
    assert_eq!(loads("mov.u32 %r1, 0;"), (0, 0));
    assert_eq!(loads("ld.global.u32 %r1, [%rd1];\nadd.s32 %r2, %r1, 1;"), (1, 1));
    assert_eq!(loads(&format!("ld.global.u32 %r1, [%rd1];\n{FOLLOW}")), (2, 2));
    // A load that nothing uses is not waited for.
    assert_eq!(loads("ld.global.u32 %r1, [%rd1];"), (1, 0));
    // Also an atomic brings a word, and a pair is one load.
    assert_eq!(loads(&format!("atom.global.add.u32 %r1, [%rd1], 0;\n{FOLLOW}")), (2, 2));
    assert_eq!(loads("ld.global.v2.u32 {%r1, %r2}, [%rd1];\nadd.s32 %r3, %r1, %r2;"), (1, 1));
}

#[test]
fn loads_that_are_issued_before_one_is_used_are_waited_for_once() {
    let load = |to: u32, at: u32| format!("ld.global.u32 %r{to}, [%rd1+{at}];\n");
    let both = "add.s32 %r9, %r1, %r2;\n";
    assert_eq!(loads(&(load(1, 0) + &load(2, 4) + both)), (1, 1));
    let used_between = load(1, 0) + "add.s32 %r8, %r1, 1;\n" + &load(2, 4) + both;
    assert_eq!(loads(&used_between), (1, 2));
    // A turn of a loop loads, and uses it.
    let turn = "ld.global.u32 %r1, [%rd1];\nadd.s32 %r2, %r2, %r1;\nadd.s32 %r3, %r3, 1;\n";
    let looped = format!("mov.u32 %r2, 0;\nmov.u32 %r3, 0;\nAGAIN:\n{turn}setp.lt.u32 %p1, %r3, 5;\n@%p1 bra AGAIN;");
    assert_eq!(loads(&looped), (1, 5));
    // The condition of a branch must be known before the load behind it, though no address depends on it.
    let branch = load(1, 0) + "setp.eq.s32 %p1, %r1, 7;\n@%p1 bra END;\n" + &load(2, 4) + "add.s32 %r9, %r2, 1;\nEND:";
    assert_eq!(loads(&branch), (1, 2));
}

#[test]
fn chains_go_on_through_shared_memory_shuffles_and_barriers() {
    let load = "ld.global.u32 %r1, [%rd1];\n";
    let shared = "mov.u32 %r5, 16;\nst.shared.u32 [%r5], %r1;\nbar.sync 0;\nld.shared.u32 %r1, [%r5];\n";
    assert_eq!(loads(&format!("{load}{shared}{FOLLOW}")), (2, 2));
    // Another word of shared memory has nothing to do with it.
    let other = "mov.u32 %r5, 16;\nst.shared.u32 [%r5], %r1;\nmov.u32 %r1, 0;\n";
    assert_eq!(loads(&format!("{load}{other}{FOLLOW}")), (1, 2));
    // One lane loads; the others have it by a shuffle.
    let shuffle = "shfl.sync.idx.b32 %r1, %r1, 0, 31, 4294967295;\n";
    let one = "mov.u32 %r1, 0;\nmov.u32 %r4, %laneid;\nsetp.ne.s32 %p1, %r4, 0;\n@%p1 bra TOLD;\n";
    assert_eq!(loads(&format!("{one}{load}TOLD:\n{shuffle}{FOLLOW}")), (2, 2));
    // Behind a barrier no warp goes on before the last has come.
    let warp_0 = "mov.u32 %r4, %tid.x;\nsetp.ge.u32 %p1, %r4, 32;\n@%p1 bra AT;\n";
    let use_it = "add.s32 %r3, %r1, 1;\nAT:\nbar.sync 0;\nmov.u32 %r1, 0;\n";
    assert_eq!(loads(&format!("{warp_0}{load}{use_it}{FOLLOW}")), (1, 2));
}

#[test]
fn what_a_block_has_waited_for_when_it_tells_others_is_noted() {
    let first = "ld.global.u32 %r1, [%rd1];\nadd.s32 %r2, %r1, 1;\n";
    let told = counts(&format!("{first}bar.sync 0;\nst.relaxed.gpu.global.u32 [%rd1+512], %r2;\n{first}"));
    assert_eq!((told.told, told.chain_told, told.waits_told), (1, 1, 1));
    assert_eq!((told.chain, told.waits), (1, 2));
    assert_eq!(counts(first).told, 0);
}

#[test]
fn a_sector_is_fresh_once_in_a_launch_and_once_more_where_it_is_written() {
    let launch = Launch { grid: 3, block: (64, 1), shared_bytes: 0, turn: 0, counts: true };
    let fresh = |blocks: Vec<Counts>| blocks.iter().map(|block| block.fresh).collect::<Vec<_>>();
    // Each warp reads the same four sectors.
    let lane = "mov.u32 %r1, %laneid;\nshl.b32 %r2, %r1, 2;\ncvt.u64.u32 %rd2, %r2;\nadd.s64 %rd3, %rd1, %rd2;\n";
    let read = format!("{lane}ld.global.u32 %r3, [%rd3];");
    assert_eq!(fresh(counts_of(launch, &read)), [4, 0, 0]);
    assert_eq!(fresh(counts_of(launch, &format!("{read}\nst.global.u32 [%rd3], %r3;"))), [8, 0, 0]);
}

#[test]
fn lanes_that_leave_a_loop_by_two_ways_are_counted_apart_until_both_meet() {
    // Lane 0, 1, … leaves the loop in turn 1, 2, …: by the end, or in the middle, to `label`, where the count is `last`.
    let loop_with = |last: u32, label: &str| {
        counts(&format!(
            "mov.u32 %r1, %laneid;\nmov.u32 %r2, 0;\nAGAIN:\nsetp.eq.u32 %p2, %r2, {last};\n@%p2 bra {label};\n\
             add.s32 %r2, %r2, 1;\nsetp.le.u32 %p1, %r2, %r1;\n@%p1 bra AGAIN;\nBEHIND:\nadd.s32 %r3, %r2, 1;\nbra END;\n\
             EARLY:\nadd.s32 %r3, %r2, 2;\nEND:"
        ))
    };
    // Each of the two warps issues three before the loop, 32 turns of five, two behind it, one at the end.
    let one_way = loop_with(99, "BEHIND");
    assert_eq!((one_way.issued, one_way.reconverged), (2 * (3 + 32 * 5 + 2 + 1), 2 * (3 + 32 * 5 + 2 + 1)));
    let turns: u64 = (1..=32).sum();
    assert_eq!(one_way.lanes, 2 * (32 * 4 + 5 * turns + 2 * 32));
    // Two ways out meet at the end only: all lanes but the last sixteen do their last two instructions by themselves.
    let two_ways = loop_with(16, "EARLY");
    assert_eq!(two_ways.issued, 2 * (3 + 16 * 5 + 2 + 2 + 1 + 1));
    assert_eq!(two_ways.reconverged, 2 * (3 + 16 * 5 + 16 * 2 + 2 + 1 + 1));
    assert_eq!(two_ways.path_reconverged, two_ways.reconverged / 2);
}

/// Events of a kind, and the detector that they are of.
struct Sample {
    name: String,
    grouping: Grouping,
    tables: DetectorTables,
    events: Vec<Event>,
}

fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (name, real) in [("real v5", Real::V5), ("real v4", Real::V4)] {
        for grouping in [Grouping::YRows, Grouping::UniqueX] {
            let (tables, events) = real.needed(grouping);
            samples.push(Sample { name: name.to_owned(), grouping, tables, events });
        }
    }
    samples.extend(Profile::ALL.map(generated));
    samples
}

fn generated(profile: Profile) -> Sample {
    let (version, grouping) = (BankVersion::V5, Grouping::YRows);
    // (An event of the busiest profile is counted for a second.)
    let events = generated_as(profile, version, 1, if profile == Profile::PbpbHigh { 3 } else { 10 });
    Sample { name: profile.to_string(), grouping, tables: tables_in(version, grouping), events }
}

/// Bytes of a batch, with what says where its banks are.
fn bytes(batch: &EventBatch) -> usize {
    let versions = batch.versions.as_ref().map_or(0, Vec::len);
    batch.raw.len() + 4 * (batch.offsets.len() + batch.sizes.len() + batch.types.len() + versions)
}

/// Counts a mean event in one of the pipelines, as `kernels/ptx/counts.json` has it: of each kernel all launches. Also
/// returns how often each instruction of each kernel was issued in all.
fn row(sample: &Sample, layout: Layout, pipeline: Pipeline) -> (Value, Vec<Lines>) {
    let Sample { name, grouping, tables, events } = sample;
    let options = DecodeOptions::default();
    let batch = if layout == Layout::Allen { allen_batch(events) } else { mep_batch(events) };
    let config = CudaConfig { pipeline, ..CudaConfig::default() };
    let (mut decoder, all) = PtxDecoder::counting(tables, options, config);
    let (hits, report) = decode(&mut decoder, tables, batch.view());
    let strips: u32 = report.events.iter().map(|event| event.counts[1]).sum();
    let n = events.len() as f64;
    // (A hundredth is more than is known.)
    let mean = |sum: u64| (sum as f64 / n * 100.0).round() / 100.0;
    let all = all.lock().expect("no thread panicked");
    let kernels = all.iter().map(|(entry, Launched { threads, shared_bytes, blocks, .. })| {
        let mut sum = Counts::default();
        for block in blocks {
            sum.add(block);
        }
        json!({
            "kernel": entry,
            "threads": threads,
            "shared_bytes": shared_bytes,
            "blocks": blocks.len(),
            "issued": mean(sum.issued),
            "path": mean(sum.path),
            "path_worst": blocks.iter().map(|block| block.path).max().unwrap_or(0),
            "reconverged": mean(sum.reconverged),
            "path_reconverged": mean(sum.path_reconverged),
            // Lanes that do an instruction that a warp issues, where they meet at the post-dominator.
            "lanes": (sum.lanes as f64 / sum.reconverged as f64 * 100.0).round() / 100.0,
            "barriers": mean(sum.barriers),
            "shared": mean(sum.shared),
            "conflicts": mean(sum.conflicts),
            "sectors": mean(sum.sectors),
            "fresh": mean(sum.fresh),
            "chain": mean(sum.chain),
            "waits": mean(sum.waits),
            "chain_told": mean(sum.chain_told),
            "waits_told": mean(sum.waits_told),
        })
    });
    // A block of the second kernel passes barriers only if it has an event that was left.
    let others = all.iter().filter(|(entry, _)| entry.starts_with("fused_others__"));
    let left = others.flat_map(|(_, of)| &of.blocks).filter(|block| block.barriers > 0).count();
    let row = json!({
        "events": name,
        "grouping": grouping.name(),
        "layout": format!("{layout:?}"),
        "pipeline": pipeline.to_string(),
        "sample": events.len(),
        "strips": mean(strips.into()),
        "hits": mean(hits.len() as u64),
        "bytes_in": mean(bytes(&batch) as u64),
        // In the whole sample.
        "left": left,
        "kernels": kernels.collect::<Vec<_>>(),
    });
    let lines = all.iter().map(|(entry, of)| (entry.clone(), of.instructions.clone()));
    (row, lines.collect())
}

/// A kernel and its instructions.
type Lines = (String, Vec<(String, Issued)>);

/// A row of the table of `docs/fused.md`.
fn markdown(row: &Value) -> String {
    let kernels = row["kernels"].as_array().expect("a list");
    let number = |of: &Value, name: &str| of[name].as_f64().expect("a number");
    let sum = |name: &str| kernels.iter().map(|of| number(of, name)).sum::<f64>();
    let lanes = kernels.iter().map(|of| number(of, "lanes") * number(of, "reconverged")).sum::<f64>();
    // The kernel with a block an event.
    let fused = kernels.iter().find(|of| of["kernel"].as_str().is_some_and(|name| name.starts_with("fused__")));
    let [path, chain, waits] = ["path_reconverged", "chain_told", "waits"]
        .map(|name| fused.map_or("–".to_owned(), |of| format!("{:.0}", number(of, name))));
    let title = ["events", "grouping", "layout", "pipeline"].map(|name| row[name].as_str().expect("text")).join(", ");
    format!(
        "| {title} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {path} | {chain} | {waits} | {:.0} |",
        number(row, "strips"),
        number(row, "hits"),
        sum("issued"),
        sum("reconverged"),
        lanes / sum("reconverged"),
        sum("sectors"),
    )
}

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/ptx/counts.json");

#[test]
fn the_committed_counts_are_those_of_the_committed_kernels() {
    let sample = generated(Profile::PpLow);
    let text = std::fs::read_to_string(COMMITTED).expect("it is committed");
    let committed: Value = serde_json::from_str(&text).expect("JSON");
    for (layout, pipeline) in [(Layout::Allen, Pipeline::Fused), (Layout::Mep, Pipeline::Allen)] {
        let (row, _) = row(&sample, layout, pipeline);
        let same = |of: &&Value| ["events", "grouping", "layout", "pipeline"].iter().all(|key| of[key] == row[key]);
        let found = committed["rows"].as_array().and_then(|rows| rows.iter().find(same));
        assert_eq!(found, Some(&row), "the kernels have changed: docs/fused.md says how they are counted");
    }
}

#[test]
#[ignore = "needs the real events (UT_DECODE_DATA) and minutes of counting: benches/kernel-counts.sh"]
fn table() {
    println!(
        "| events, grouping, pipeline | strips | hits | at once | meeting | lanes | path | chain | waits | sectors |"
    );
    println!("|{}", "---|".repeat(10));
    let wanted = std::env::var("UT_DECODE_COUNTS").unwrap_or_default();
    let mut rows = Vec::new();
    for sample in samples() {
        for layout in [Layout::Allen, Layout::Mep] {
            for pipeline in Pipeline::ALL {
                let title = format!("{} {} {layout:?} {pipeline}", sample.name, sample.grouping);
                if !wanted.split(',').all(|word| title.contains(word)) {
                    continue;
                }
                let (row, kernels) = row(&sample, layout, pipeline);
                println!("{}", markdown(&row));
                rows.push(row);
                let events = sample.events.len() as f64;
                for (kernel, lines) in kernels.into_iter().filter(|_| !wanted.is_empty()) {
                    println!("{kernel}: at once, at the post-dominator, lanes an instruction");
                    for (line, Issued { at_once, reconverged, lanes }) in lines {
                        let (at_once, each) = (at_once as f64 / events, lanes as f64 / reconverged.max(1) as f64);
                        println!("{at_once:8.1} {:8.1} {each:5.1} {line}", reconverged as f64 / events);
                    }
                }
            }
        }
    }
    if wanted.is_empty() {
        let text = serde_json::to_string_pretty(&json!({ "rows": rows })).expect("numbers");
        std::fs::write(COMMITTED, text + "\n").expect("a place in the source");
    }
}
