//! Costs of the kernels, counted by the interpreter under the fake driver: the table of
//! `docs/ranked.md`.

use std::collections::BTreeMap;

use ptx_machine::Counts;
use serde_json::{Value, json};

use crate::fake_driver::{complaints, on_the_fake};
use crate::suite::backends::decode;
use crate::suite::data::Real;
use crate::suite::events::{Event, allen_batch, generated_as, mep_batch, tables_in};
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::{CudaConfig, CudaDecoder};
use ut_decoding::synth::Profile;
use ut_decoding::{DecodeOptions, DetectorTables, Grouping, Layout};
use ut_kernels::detector::BankVersion;

/// Names the file to which the fake appends the counts of each launch.
const COUNTS: &str = "FAKE_CUDA_COUNTS";

/// Costs of the blocks of a kernel, launch after launch.
#[derive(Default)]
struct Launched {
    blocks: Vec<Counts>,
    /// Each instruction of the kernel with the number of its issues.
    instructions: Vec<(String, u64)>,
}

/// Reads the file of counts: the costs of each kernel.
fn launched(text: &str) -> BTreeMap<String, Launched> {
    let mut all: BTreeMap<String, Launched> = BTreeMap::new();
    let mut entry = "";
    for line in text.lines() {
        let (what, rest) = line.split_once(' ').expect("a word first");
        if what == "kernel" {
            // What was issued is the sum of all launches.
            all.entry(rest.to_owned()).or_default().instructions.clear();
            entry = rest;
            continue;
        }
        let of = all.get_mut(entry).expect("the kernel comes first");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        if what == "block" {
            let numbers: Vec<u64> = rest.split(' ').map(number).collect();
            let [issued, path, lanes, barriers, shared, conflicts, sectors] = numbers[..] else {
                panic!("seven counts: {line}")
            };
            of.blocks.push(Counts {
                issued,
                path,
                lanes,
                barriers,
                shared,
                conflicts,
                sectors,
            });
        } else {
            of.instructions.push((rest.to_owned(), number(what)));
        }
    }
    all
}

/// Runs `body` on a fake that counts, and prints its output.
fn counting<F: Fn()>(body: F) {
    let folder = tempfile::tempdir().expect("room for a file");
    let file = folder.path().join("counts");
    let settings = [(COUNTS, file.to_str().expect("a path in UTF-8"))];
    if let Some(output) = on_the_fake(&settings, &body) {
        assert_eq!(complaints(&output), [""; 0]);
        println!("{}", String::from_utf8_lossy(&output.stdout));
    }
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
    let file = std::env::var(COUNTS).expect("the fake has it, too");
    std::fs::write(&file, "").expect("a file for the counts");
    let mut decoder = CudaDecoder::new(tables, options, config).expect("the fake is a GPU");
    let (hits, report) = decode(&mut decoder, tables, batch.view());
    let all = launched(&std::fs::read_to_string(&file).expect("the fake has written it"));
    let strips: u32 = report.events.iter().map(|event| event.counts[1]).sum();
    let n = events.len() as f64;
    // (A hundredth is more than is known.)
    let mean = |sum: u64| (sum as f64 / n * 100.0).round() / 100.0;
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
fn the_committed_counts_belong_to_the_committed_kernels() {
    counting(|| {
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
    });
}

#[test]
#[ignore = "needs the real events (UT_DECODE_DATA) and minutes of counting: benches/kernel-counts.sh"]
fn table() {
    counting(|| {
        println!(
            "| events, grouping, pipeline | strips | hits | instructions | lanes | path | sectors |"
        );
        println!("|{}", "---|".repeat(7));
        let wanted = std::env::var("UT_DECODE_COUNTS").unwrap_or_default();
        let mut rows = Vec::new();
        for sample in samples() {
            for layout in [Layout::Allen, Layout::Mep] {
                let mut hits = None;
                for pipeline in Pipeline::ALL {
                    let title =
                        format!("{} {} {layout:?} {pipeline}", sample.name, sample.grouping);
                    if !wanted.split(',').all(|word| title.contains(word)) {
                        continue;
                    }
                    let (row, kernels) = row(&sample, layout, pipeline);
                    println!("{}", markdown(&row));
                    assert_eq!(
                        *hits.get_or_insert(row["hits"].clone()),
                        row["hits"],
                        "{title}"
                    );
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
        assert!(!rows.is_empty(), "no row's title has the words {wanted}");
        if wanted.is_empty() {
            let text = serde_json::to_string_pretty(&json!({ "rows": rows })).expect("numbers");
            let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/ptx/counts.json");
            std::fs::write(committed, text + "\n").expect("a place in the source");
        }
    });
}
