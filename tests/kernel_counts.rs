//! What the kernels cost where there is no GPU: counted by the machine that runs their PTX, and by ptxas.
//!
//! One command makes the committed table anew: `cargo test --release --test kernel_counts -- --ignored --nocapture`.

mod suite;

use ptx_machine::{Counts, Launch, Memory, Program, bytes_of};
use suite::backends::decode;
use suite::data::Real;
use suite::events::{Bank, Event, allen_batch, mep_batch};
use ut_decoding::decoder::hit_tables::HitRecords;
use ut_decoding::decoder::plan::cluster_options;
use ut_decoding::decoder::rank_tables::RankTables;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::synth::{self, Generator, Profile};
use ut_decoding::{BatchView, DecodeOptions, DetectorTables, Grouping, Layout};
use ut_kernels::bank::layout::Batch;
use simt::Global;
use ut_kernels::fused::gather::{GATHER_THREADS, gather_blocks, gather_shared_bytes};
use ut_kernels::fused::tables::LaneTables;
use ut_kernels::fused::{FusedInput, FusedOptions, FusedOutput, Room, fused_shared_bytes};
use ut_kernels::hit::HitArrays;
use ut_kernels::hit_parallel::tables::HitTables;
use ut_kernels::hit_parallel::{HitOptions, HitOutput, HitRoom, hit_shared_bytes};
use ut_kernels::report::N_COUNTS;

/// What the launches of a pipeline cost for a batch.
#[derive(Default)]
struct Cost {
    /// By launch, and in it by event (or block).
    launches: Vec<(&'static str, Vec<Counts>)>,
    n_others: u32,
    shared_bytes: u32,
    in_and_out: usize,
    strips: u32,
    hits: usize,
}

fn run(text: &str, unit: &str, tables: &DetectorTables, batch: BatchView<'_>, new: bool) -> Cost {
    let options = DecodeOptions::default();
    let (expected, report_expected) = decode(&mut ReferenceDecoder::new(tables, options), tables, batch);
    let program = Program::new(text);
    let ranks = RankTables::new("ptx", tables, options).expect("few lanes");
    let records = HitRecords::new(&ranks, tables.boards().version);
    eprintln!("classes {} lanes {} fits {}", records.classes.len(), records.lanes.len(), records.fits);
    let mut memory = Memory::default();
    let m = &mut memory;
    let lane_tables = LaneTables {
        ranks: m.put(&ranks.ranks, false).global(),
        first_ranks: m.put(&ranks.first_ranks, false).global(),
        strips_per_hybrid: m.put(&ranks.strips_per_hybrid, false).global(),
        chan_ids: m.put(&ranks.chan_ids, false).global(),
        first_channels: m.put(&ranks.first_channels, false).global(),
        p0_x: m.put(&ranks.p0_x, false).global(),
        p0_y: m.put(&ranks.p0_y, false).global(),
        p0_z: m.put(&ranks.p0_z, false).global(),
        classes: m.put(&ranks.classes, false).global(),
        constants: m.put(&ranks.constants, false).global(),
    };
    let words = |records: &[[u32; 4]]| records.iter().flatten().copied().collect::<Vec<u32>>();
    let boards: Vec<[u32; 4]> = records
        .boards
        .iter()
        .map(|b| {
            let [p, q, r, s, t, u] = b.ranks.map(u32::from);
            [p | q << 16, r | s << 16, t | u << 16, u32::from(b.strips_per_hybrid)]
        })
        .collect();
    let lanes: Vec<[u32; 4]> =
        records.lanes.iter().map(|l| [l.id, l.p0_x.to_bits(), l.p0_y.to_bits(), l.p0_z.to_bits()]).collect();
    let classes: Vec<[u32; 8]> = records
        .classes
        .iter()
        .map(|c| {
            let floats = [c.dp0di_x, c.dp0di_y, c.dp0di_z, c.dy, c.dx_dy, c.weight].map(f32::to_bits);
            let [x, y, z, dy, dx_dy, weight] = floats;
            [x, y, z, dy, dx_dy, weight, c.first_strip, c.flipped]
        })
        .collect();
    let words8 = |records: &[[u32; 8]]| records.iter().flatten().copied().collect::<Vec<u32>>();
    let hit_tables = HitTables {
        boards: m.put(&words(&boards), false).with_len(boards.len()).global(),
        lanes: m.put(&words(&lanes), false).with_len(lanes.len()).global(),
        groups: m.put(&records.groups, false).global(),
        classes: m.put(&words8(&classes), false).with_len(classes.len()).global(),
        n_groups: records.n_groups,
        fits: u32::from(records.fits),
    };
    let device_batch = Batch {
        raw: m.put(batch.raw, false).global(),
        offsets: m.put(batch.offsets, false).global(),
        sizes: m.put(batch.sizes, false).global(),
        types: m.put(batch.types, false).global(),
        versions: m.put(batch.versions.unwrap_or(&[]), false).global(),
        has_versions: u32::from(batch.versions.is_some()),
    };
    let capacity = batch.max_hits() + (1 << 16);
    let n_events = batch.n_events;
    let arrays: Vec<_> = (0..7).map(|_| m.put(&vec![0xA5A5_A5A5u32; capacity], true)).collect();
    let offsets = m.put(&vec![u32::MAX; n_events * tables.n_groups() + 1], true);
    let report = m.put(&vec![u32::MAX; n_events * N_COUNTS], true);
    let status = m.put(&[0u32], true);
    let look_back = m.put(&vec![0u32; 1 + n_events], true);
    let others = m.put(&vec![0u32; 1 + n_events], true);
    let hits = HitArrays {
        y_begin: arrays[0].global_mut(),
        y_end: arrays[1].global_mut(),
        z_at_y_eq0: arrays[2].global_mut(),
        x_at_y_eq0: arrays[3].global_mut(),
        dx_dy: arrays[4].global_mut(),
        weight: arrays[5].global_mut(),
        id: arrays[6].global_mut(),
    };
    let strips: u32 = report_expected.events.iter().map(|e| e.counts[1]).sum();
    let mut cost =
        Cost { in_and_out: batch.raw.len() + 28 * expected.len(), strips, hits: expected.len(), ..Cost::default() };
    let block = (threads(), 1);
    let mut launch = |memory: &mut Memory, name: &'static str, grid, block, shared_bytes, arguments: &[Vec<u8>]| {
        let launch = Launch { grid, block, shared_bytes, turn: 0, counts: true };
        let counts = program.launch(memory, &format!("{name}__{unit}"), launch, arguments);
        cost.launches.push((name, counts));
    };
    let mut bank_words = Global::from_slice(&[]);
    if batch.layout == Layout::Mep {
        let words = m.put(&vec![u32::MAX; batch.offsets.len()], true);
        let arguments = [bytes_of(&device_batch), bytes_of(&(n_events as u32)), bytes_of(&words.global_mut::<u32>())];
        let grid = gather_blocks(n_events as u32);
        launch(m, "gather_banks", grid, (GATHER_THREADS, 1), gather_shared_bytes(), &arguments);
        bank_words = words.global();
    }
    let input = FusedInput { batch: device_batch, bank_words };
    let (version, events) = (tables.boards().version, n_events as u32);
    let room = Room { tile: 1600, stage: 24 << 10 };
    let (cluster, flip_origin) = (cluster_options(&options), options.flip.origin());
    let fused_options = FusedOptions { cluster, flip_origin, room };
    let fused_output = FusedOutput {
        hits,
        offsets: offsets.global_mut(),
        report: report.global_mut(),
        status: status.global_mut(),
        look_back: look_back.global_mut(),
        bases: Global::from_slice(&[]),
    };
    let fused_shared = fused_shared_bytes(version, tables.boards().n_boards() as u32, tables.n_groups() as u32, room);
    if new {
        let options = HitOptions { cluster, flip_origin, strips: strips_room() };
        let output = HitOutput {
            hits,
            offsets: offsets.global_mut(),
            report: report.global_mut(),
            status: status.global_mut(),
            look_back: look_back.global_mut(),
            others: others.global_mut(),
        };
        let arguments =
            [bytes_of(&options), bytes_of(&input), bytes_of(&hit_tables), bytes_of(&lane_tables), bytes_of(&output)];
        let shared = hit_shared_bytes(HitRoom { version, threads: block.0, strips: options.strips });
        launch(m, "decode_ordinary", events, block, shared, &arguments);
        let arguments = [
            bytes_of(&fused_options),
            bytes_of(&input),
            bytes_of(&lane_tables),
            bytes_of(&fused_output),
            bytes_of(&events),
            bytes_of(&others.global::<u32>()),
        ];
        launch(m, "decode_others", 1, block, fused_shared, &arguments);
        cost.shared_bytes = shared;
    } else {
        let arguments =
            [bytes_of(&fused_options), bytes_of(&input), bytes_of(&lane_tables), bytes_of(&fused_output)];
        launch(m, "fused", events, (256, 1), fused_shared, &arguments);
        cost.shared_bytes = fused_shared;
    }
    cost.n_others = m.get::<u32>(others)[0];
    let got: Vec<u32> = m.get(offsets);
    assert_eq!(got, expected.offsets());
    assert_eq!(&m.get::<u32>(arrays[6])[..expected.len()], expected.id());
    let x: Vec<u32> = expected.x_at_y_eq0().iter().map(|x| x.to_bits()).collect();
    assert_eq!(&m.get::<u32>(arrays[3])[..expected.len()], &x[..]);
    let counts: Vec<u32> = report_expected.events.iter().flat_map(|event| event.counts).collect();
    assert_eq!(m.get::<u32>(report), counts);
    cost
}

fn threads() -> u32 {
    std::env::var("HIT_THREADS").map_or(256, |n| n.parse().expect("a number"))
}

fn strips_room() -> u32 {
    std::env::var("HIT_STRIPS").map_or(1856, |n| n.parse().expect("a number"))
}

fn samples() -> Vec<(&'static str, DetectorTables, Vec<Event>)> {
    let mut samples = Vec::new();
    for (name, real, n) in [("real v5", Real::V5, 20), ("real v4", Real::V4, 10)] {
        if let (Some(tables), Some(events)) = (real.tables(Grouping::YRows), real.events()) {
            samples.push((name, tables, events[..n].to_vec()));
        }
    }
    for (name, profile, n) in
        [("pp-nominal", Profile::PpNominal, 20), ("pp-high", Profile::PpHigh, 10), ("pbpb-low", Profile::PbpbLow, 10)]
    {
        let version = BankVersion::V5;
        let (boards, geometry) = synth::detector(version, 1);
        let bank = |(source_id, payload)| Bank { kind: 66, version: version.byte(), source_id, payload };
        let events = Generator::new(profile, version, 1).take(n);
        let events = events.map(|event| event.banks.into_iter().map(bank).collect()).collect();
        samples.push((name, DetectorTables::new(boards, geometry, Grouping::YRows).expect("a detector"), events));
    }
    samples
}

#[test]
#[ignore = "takes a minute, and measures rather than tests"]
fn count() {
    let only = std::env::var("HIT_ONLY").unwrap_or_default();
    for (name, tables, events) in samples() {
        if !name.contains(&only) {
            continue;
        }
        for layout in [Layout::Allen, Layout::Mep] {
            let batch = if layout == Layout::Allen { allen_batch(&events) } else { mep_batch(&events) };
            let version = tables.boards().version.name();
            let unit = format!("{version}_{}_fused", if layout == Layout::Allen { "allen" } else { "mep" });
            let folder = std::env::var("HIT_PTX").unwrap_or_else(|_| "kernels/ptx".into());
            let ending = if folder == "kernels/ptx" { "ptx" } else { "s" };
            let Ok(text) = std::fs::read_to_string(format!("{folder}/{unit}.{ending}")) else { continue };
            for new in [false, true] {
                let cost = run(&text, &unit, &tables, batch.view(), new);
                let n = events.len() as u64;
                println!(
                    "{name}, {layout:?}, {}: strips {} hits {} shared {} others {}",
                    if new { "new" } else { "old" },
                    u64::from(cost.strips) / n,
                    cost.hits as u64 / n,
                    cost.shared_bytes,
                    cost.n_others
                );
                for (launch, blocks) in &cost.launches {
                    let mut sum = Counts::default();
                    blocks.iter().for_each(|block| sum.add(block));
                    let worst = blocks.iter().map(|block| block.path).max().unwrap_or(0);
                    println!(
                        "    {launch}: issued {} path {} worst {worst} barriers {} shared {} conflicts {} sectors {} traffic {:.3}",
                        sum.issued / n,
                        sum.path / n,
                        sum.barriers / n,
                        sum.shared / n,
                        sum.conflicts / n,
                        sum.sectors / n,
                        sum.sectors as f64 * 32.0 / cost.in_and_out as f64
                    );
                    println!("        {:?}", sum.intervals.map(|issued| issued / n));
                }
            }
        }
    }
}
