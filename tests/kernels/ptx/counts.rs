//! Costs of the kernels, counted by the machine that runs their PTX: the counters themselves, and
//! the table of `docs/ranked.md`.

use serde_json::{Value, json};

use super::decoder::{Launched, counting};
use crate::suite::backends::decode;
use crate::suite::data::Real;
use crate::suite::events::{Event, allen_batch, generated_as, mep_batch, tables_in};
use ptx_machine::{Counts, Launch, Memory, Program};
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::CudaConfig;
use ut_decoding::synth::Profile;
use ut_decoding::{DecodeOptions, DetectorTables, Grouping, Layout};
use ut_kernels::detector::BankVersion;

/// Counts the work of one block of 64 threads that runs these instructions. `%rd1` is the address
/// of 256 words, all zero.
fn counts(instructions: &str) -> Counts {
    let launch = Launch {
        grid: 1,
        block: (64, 1),
        shared_bytes: 8192,
        turn: 0,
        counts: true,
    };
    let text = format!(
        ".visible .entry test(\n.param .u64 words\n)\n{{\nld.param.u64 %rd1, [words];\n{instructions}\nret;\n}}\n"
    );
    let mut memory = Memory::default();
    let words = memory.allocate(1024);
    memory.store(words, &[0; 1024]).expect("room for them");
    Program::new(&text).launch(&mut memory, "test", launch, &[words.to_le_bytes().to_vec()])[0]
}

#[test]
fn the_critical_path_is_the_longest_warp_of_each_interval() {
    // Warp 0 issues three more before the barrier, warp 1 two more behind it.
    let counts = counts(
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n@!%p1 bra BEHIND;\nadd.s32 %r2, %r1, 1;\n\
         add.s32 %r2, %r2, 1;\nadd.s32 %r2, %r2, 1;\nBEHIND:\nbar.sync 0;\n@%p1 bra END;\nadd.s32 %r2, %r1, 1;\n\
         add.s32 %r2, %r1, 1;\nEND:",
    );
    // Before: four, then three of warp 0 alone, and the barrier. Behind: the branch, two of warp 1
    // alone, the end.
    assert_eq!((counts.barriers, counts.issued), (1, 8 + 5 + 2 + 4));
    assert_eq!(counts.path, 8 + 4);
}

#[test]
fn warp_lanes_conflict_on_different_words_of_a_bank_but_not_on_the_same_word() {
    let store = |shift: u32| {
        let address = format!("mov.u32 %r1, %laneid;\nshl.b32 %r2, %r1, {shift};\n");
        counts(&format!("{address}st.shared.u32 [%r2], %r1;"))
    };
    // Words side by side; every second word; all in one bank.
    for (shift, conflicts) in [(2, 0), (3, 1), (7, 31)] {
        let counts = store(shift);
        assert_eq!(
            (counts.shared, counts.conflicts),
            (2, 2 * conflicts),
            "shift {shift}"
        );
    }
    let same = counts("mov.u32 %r1, 0;\nst.shared.u32 [%r1], %r1;\nld.shared.u32 %r2, [%r1];");
    assert_eq!((same.shared, same.conflicts), (4, 0));
    // Eight bytes a lane are two halves of the warp.
    let wide = counts(
        "mov.u32 %r1, %laneid;\nshl.b32 %r2, %r1, 3;\nmov.u64 %rd2, 0;\nst.shared.u64 [%r2], %rd2;",
    );
    assert_eq!((wide.shared, wide.conflicts), (2, 0));
}

#[test]
fn an_instruction_in_a_loop_is_issued_for_the_lane_with_the_most_iterations() {
    // Lane 0, 1, … leaves the loop in turn 1, 2, ….
    let counts = counts(
        "mov.u32 %r1, %laneid;\nmov.u32 %r2, 0;\nAGAIN:\nadd.s32 %r2, %r2, 1;\nsetp.le.u32 %p1, %r2, %r1;\n\
         @%p1 bra AGAIN;",
    );
    // Each of the two warps issues three before the loop, 32 turns of three, and the end.
    assert_eq!(counts.issued, 2 * (3 + 32 * 3 + 1));
    let turns: u64 = (1..=32).sum();
    assert_eq!(counts.lanes, 2 * (32 * 3 + 3 * turns + 32));
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
            samples.push(Sample {
                name: name.to_owned(),
                grouping,
                tables,
                events,
            });
        }
    }
    samples.extend(Profile::ALL.map(generated));
    for version in [BankVersion::V5, BankVersion::V4] {
        for grouping in [Grouping::YRows, Grouping::UniqueX] {
            if (version, grouping) != (BankVersion::V5, Grouping::YRows) {
                let (profile, tables) = (Profile::PbpbHigh, tables_in(version, grouping));
                let name = if version == BankVersion::V4 {
                    format!("{profile} v4")
                } else {
                    profile.to_string()
                };
                samples.push(Sample {
                    name,
                    grouping,
                    tables,
                    events: generated_as(profile, version, 1, 1),
                });
            }
        }
    }
    samples
}

fn generated(profile: Profile) -> Sample {
    let (version, grouping) = (BankVersion::V5, Grouping::YRows);
    // (An event of the busiest profile is counted for a second.)
    let events = generated_as(
        profile,
        version,
        1,
        if profile == Profile::PbpbHigh { 3 } else { 10 },
    );
    Sample {
        name: profile.to_string(),
        grouping,
        tables: tables_in(version, grouping),
        events,
    }
}

/// Counts the work for a mean event in one of the pipelines, summed over all launches of each
/// kernel, as in `kernels/ptx/counts.json`. Also returns how often each instruction of each kernel
/// was issued in total.
fn row(sample: &Sample, layout: Layout, pipeline: Pipeline) -> (Value, Vec<Lines>) {
    let Sample {
        name,
        grouping,
        tables,
        events,
    } = sample;
    let options = DecodeOptions::default();
    let batch = if layout == Layout::Allen {
        allen_batch(events)
    } else {
        mep_batch(events)
    };
    let config = CudaConfig::default().with_pipeline(pipeline);
    let (mut decoder, all) = counting(tables, options, config);
    let (hits, report) = decode(&mut decoder, tables, batch.view());
    let strips: u32 = report.events.iter().map(|event| event.counts[1]).sum();
    let n = events.len() as f64;
    // (A hundredth is more than is known.)
    let mean = |sum: u64| (sum as f64 / n * 100.0).round() / 100.0;
    let all = all.lock().expect("no thread panicked");
    let kernels = all.iter().map(|(entry, Launched { blocks, .. })| {
        let mut sum = Counts::default();
        for block in blocks {
            sum.add(block);
        }
        json!({
            "kernel": entry,
            "blocks": blocks.len(),
            "issued": mean(sum.issued),
            "path": mean(sum.path),
            // Lanes that do an instruction that a warp issues.
            "lanes": (sum.lanes as f64 / sum.issued as f64 * 100.0).round() / 100.0,
            "barriers": mean(sum.barriers),
            "shared": mean(sum.shared),
            "conflicts": mean(sum.conflicts),
            "sectors": mean(sum.sectors),
        })
    });
    // A block of this kernel passes barriers only if it has an event that was deferred.
    let others = all
        .iter()
        .filter(|(entry, _)| entry.starts_with("cluster_unusual__"));
    let left = others
        .flat_map(|(_, of)| &of.blocks)
        .filter(|block| block.barriers > 0)
        .count();
    let row = json!({
        "events": name,
        "grouping": grouping.name(),
        "layout": format!("{layout:?}"),
        "pipeline": pipeline.to_string(),
        "sample": events.len(),
        "strips": mean(strips.into()),
        "hits": mean(hits.len() as u64),
        // In the whole sample.
        "left": left,
        "kernels": kernels.collect::<Vec<_>>(),
    });
    let lines = all
        .iter()
        .map(|(entry, of)| (entry.clone(), of.instructions.clone()));
    (row, lines.collect())
}

/// A kernel and its instructions.
type Lines = (String, Vec<(String, u64)>);

/// Returns a row of the table in `docs/ranked.md`.
fn markdown(row: &Value) -> String {
    let kernels = row["kernels"].as_array().expect("a list");
    let number = |of: &Value, name: &str| of[name].as_f64().expect("a number");
    let sum = |name: &str| kernels.iter().map(|of| number(of, name)).sum::<f64>();
    let lanes = kernels
        .iter()
        .map(|of| number(of, "lanes") * number(of, "issued"))
        .sum::<f64>();
    // The kernel with one block per event.
    let cluster = kernels.iter().find(|of| {
        of["kernel"]
            .as_str()
            .is_some_and(|name| name.starts_with("cluster__"))
    });
    let path = cluster.map_or("–".to_owned(), |of| format!("{:.0}", number(of, "path")));
    let title = ["events", "grouping", "layout", "pipeline"]
        .map(|name| row[name].as_str().expect("text"))
        .join(", ");
    format!(
        "| {title} | {:.0} | {:.0} | {:.0} | {:.1} | {path} | {:.0} |",
        number(row, "strips"),
        number(row, "hits"),
        sum("issued"),
        lanes / sum("issued"),
        sum("sectors"),
    )
}

#[test]
fn the_committed_counts_are_those_of_the_committed_kernels() {
    let sample = generated(Profile::PpLow);
    let committed: Value = serde_json::from_str(ut_kernels::ptx::COUNTS).expect("JSON");
    for (layout, pipeline) in [
        (Layout::Allen, Pipeline::Ranked),
        (Layout::Mep, Pipeline::Allen),
    ] {
        let (row, _) = row(&sample, layout, pipeline);
        let same = |of: &&Value| {
            ["events", "grouping", "layout", "pipeline"]
                .iter()
                .all(|key| of[key] == row[key])
        };
        let found = committed["rows"]
            .as_array()
            .and_then(|rows| rows.iter().find(same));
        assert_eq!(
            found,
            Some(&row),
            "the kernels have changed: docs/ranked.md says how they are counted"
        );
    }
}

#[test]
#[ignore = "needs the real events (UT_DECODE_DATA) and minutes of counting: benches/kernel-counts.sh"]
fn table() {
    println!(
        "| events, grouping, pipeline | strips | hits | instructions | lanes | path | sectors |"
    );
    println!("|{}", "---|".repeat(7));
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
                    println!("{kernel}");
                    for (line, issued) in lines {
                        println!("{:8.1} {line}", issued as f64 / events);
                    }
                }
            }
        }
    }
    if wanted.is_empty() {
        let text = serde_json::to_string_pretty(&json!({ "rows": rows })).expect("numbers");
        let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/ptx/counts.json");
        std::fs::write(committed, text + "\n").expect("a place in the source");
    }
}
