//! The committed PTX of the one launch, run on a machine that understands it: the same bits as the reference.
//!
//! Arguments are laid out as in a GPU backend. Blocks run one by one, in turned orders: what a
//! block looks back at has ended. What happens while blocks wait for each other is the executor's to test.

mod suite;

use proptest::test_runner::{Config, TestCaseError, TestRunner};
use ptx_machine::{Launch, Memory, Program, bytes_of};
use simt::Global;
use suite::backends::decode;
use suite::data::{Real, rows};
use suite::events::{Event, allen_batch, fits_mep, mep_batch};
use suite::nasty;
use ut_decoding::decoder::launch::LaunchParams;
use ut_decoding::decoder::plan::{DeviceTables, Plan, cluster_options};
use ut_decoding::decoder::ptx::{Kernel, Unit};
use ut_decoding::decoder::rank_tables::RankTables;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::synth::{self, Generator, Profile};
use ut_decoding::{BatchView, DecodeOptions, DetectorTables, Grouping, Layout, UtHits};
use ut_kernels::bank::layout::Batch;
use ut_kernels::fused::tables::LaneTables;
use ut_kernels::fused::{FusedInput, FusedOptions, FusedOutput, Room};
use ut_kernels::hit::HitArrays;
use ut_kernels::report::N_COUNTS;
use ut_kernels::switches::BatchLayout;

/// Offsets, counters and hits of a batch: six floats as bits, and the id.
#[derive(Debug, PartialEq)]
struct Decoded {
    offsets: Vec<u32>,
    report: Vec<u32>,
    hits: Vec<[u32; 7]>,
    status: u32,
}

impl Decoded {
    fn expected(tables: &DetectorTables, options: DecodeOptions, batch: BatchView<'_>) -> Self {
        let (hits, report) = decode(&mut ReferenceDecoder::new(tables, options), tables, batch);
        Self {
            offsets: hits.offsets().to_vec(),
            report: report.events.iter().flat_map(|event| event.counts).collect(),
            hits: words(&hits),
            status: 0,
        }
    }
}

fn words(hits: &UtHits) -> Vec<[u32; 7]> {
    let row = |row: suite::data::Row| {
        let [x, z, y_begin, y_end, dx_dy, weight] = row.floats;
        [y_begin, y_end, z, x, dx_dy, weight, row.id]
    };
    rows(hits).into_iter().map(row).collect()
}

/// The one launch on the machine, with the launches before it where the parameters want them.
fn run(
    tables: &DetectorTables,
    options: DecodeOptions,
    params: LaunchParams,
    batch: BatchView<'_>,
    turn: u32,
) -> Decoded {
    let layout = match batch.layout {
        Layout::Allen => BatchLayout::Allen,
        Layout::Mep => BatchLayout::Mep,
    };
    let unit = Unit::fused(tables.boards().version, layout);
    let program = Program::new(unit.text);
    let plan = Plan::new(&DeviceTables::new("ptx", tables).expect("few slots"), params, batch.n_events);
    let ranks = RankTables::new("ptx", tables, options).expect("few lanes");
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
    let device_batch = Batch {
        raw: m.put(batch.raw, false).global(),
        offsets: m.put(batch.offsets, false).global(),
        sizes: m.put(batch.sizes, false).global(),
        types: m.put(batch.types, false).global(),
        versions: m.put(batch.versions.unwrap_or(&[]), false).global(),
        has_versions: u32::from(batch.versions.is_some()),
    };
    // Fragments that overlap hold more hits than bytes.
    let capacity = batch.max_hits() + (1 << 16);
    let n_events = batch.n_events;
    let arrays: Vec<_> = (0..7).map(|_| m.put(&vec![0xA5A5_A5A5u32; capacity], true)).collect();
    let offsets = m.put(&vec![u32::MAX; n_events * tables.n_groups() + 1], true);
    let report = m.put(&vec![u32::MAX; n_events * N_COUNTS], true);
    let status = m.put(&[0u32], true);
    let look_back = m.put(&vec![0u32; 1 + n_events], true);
    let fused_options = FusedOptions {
        cluster: cluster_options(&options),
        flip_origin: options.flip.origin(),
        room: params.fused_room(),
    };
    let launch = |memory: &mut Memory, kernel: Kernel, over_events: bool, arguments: &[Vec<u8>]| {
        let shape = if over_events { plan.shape_over_events(kernel) } else { plan.shape(kernel) };
        let launch =
            Launch { grid: shape.grid, block: shape.block, shared_bytes: shape.shared_bytes, turn, counts: false };
        program.launch(memory, &kernel.entry(unit.name), launch, arguments);
    };
    let mut bank_words = Global::from_slice(&[]);
    if layout == BatchLayout::Mep {
        let words = m.put(&vec![u32::MAX; batch.offsets.len()], true);
        let arguments = [bytes_of(&device_batch), bytes_of(&(n_events as u32)), bytes_of(&words.global_mut::<u32>())];
        launch(m, Kernel::GatherBanks, false, &arguments);
        bank_words = words.global();
    }
    let input = FusedInput { batch: device_batch, bank_words };
    let mut bases = Global::from_slice(&[]);
    if params.fused_count_first() {
        let counts = m.put(&vec![u32::MAX; n_events], true);
        let sums = m.put(&vec![u32::MAX; n_events + 1], true);
        let totals = m.put(&vec![u32::MAX; n_events], true);
        let room = Room { tile: 0, ..fused_options.room };
        let arguments = [
            bytes_of(&FusedOptions { room, ..fused_options }),
            bytes_of(&input),
            bytes_of(&lane_tables),
            bytes_of(&counts.global_mut::<u32>()),
        ];
        launch(m, Kernel::CountClusters, false, &arguments);
        let (from, to, between) = (counts.global::<u32>(), sums.global_mut::<u32>(), totals.global_mut::<u32>());
        launch(m, Kernel::PrefixSumTiles, true, &[bytes_of(&from), bytes_of(&to), bytes_of(&between)]);
        let (n, between) = (n_events as u32, totals.global::<u32>());
        launch(m, Kernel::PrefixSumOffsets, true, &[bytes_of(&n), bytes_of(&between), bytes_of(&to)]);
        bases = sums.global();
    }
    let output = FusedOutput {
        hits: HitArrays {
            y_begin: arrays[0].global_mut(),
            y_end: arrays[1].global_mut(),
            z_at_y_eq0: arrays[2].global_mut(),
            x_at_y_eq0: arrays[3].global_mut(),
            dx_dy: arrays[4].global_mut(),
            weight: arrays[5].global_mut(),
            id: arrays[6].global_mut(),
        },
        offsets: offsets.global_mut(),
        report: report.global_mut(),
        status: status.global_mut(),
        look_back: look_back.global_mut(),
        bases,
    };
    let arguments = [bytes_of(&fused_options), bytes_of(&input), bytes_of(&lane_tables), bytes_of(&output)];
    launch(m, Kernel::Fused, false, &arguments);
    let offsets: Vec<u32> = m.get(offsets);
    let arrays: Vec<Vec<u32>> = arrays.into_iter().map(|array| m.get(array)).collect();
    let n_hits = offsets.last().map_or(0, |&end| end as usize);
    Decoded {
        report: m.get(report),
        hits: (0..n_hits).map(|i| std::array::from_fn(|array| arrays[array][i])).collect(),
        status: m.get::<u32>(status)[0],
        offsets,
    }
}

fn params(settings: &[&str]) -> LaunchParams {
    let mut params = LaunchParams::default();
    for setting in settings {
        params.set_from(setting).expect("a valid setting");
    }
    params
}

fn compare(
    tables: &DetectorTables,
    options: DecodeOptions,
    params: LaunchParams,
    batch: BatchView<'_>,
    turn: u32,
) -> Result<(), String> {
    let (got, expected) = (run(tables, options, params, batch, turn), Decoded::expected(tables, options, batch));
    if got == expected {
        return Ok(());
    }
    let hit = (0..got.hits.len()).find(|&i| got.hits.get(i) != expected.hits.get(i));
    Err(format!(
        "{options:?}, {:?}, turn {turn}: offsets {}, report {}, status {}, first other hit {hit:?}",
        batch.layout,
        got.offsets == expected.offsets,
        got.report == expected.report,
        got.status
    ))
}

/// Tables and events of both formats: made up, and real as far as the shared data are there.
fn detectors() -> impl Iterator<Item = (DetectorTables, Vec<Event>)> {
    let made_up = [BankVersion::V4, BankVersion::V5].into_iter().map(|version| {
        let (boards, geometry) = synth::detector(version, 1);
        let bank = |(source_id, payload)| suite::events::Bank { kind: 66, version: version.byte(), source_id, payload };
        let events = Generator::new(Profile::PpNominal, version, 1).take(3);
        let events = events.map(|event| event.banks.into_iter().map(bank).collect()).collect();
        let tables = DetectorTables::new(boards, geometry, Grouping::UniqueX).expect("they go together");
        (tables, events)
    });
    let real = [Real::V4, Real::V5].into_iter();
    made_up.chain(real.filter_map(|real| Some((real.tables(Grouping::YRows)?, real.events()?))))
}

#[test]
fn events_come_out_as_from_the_reference_whatever_is_kept() {
    let settings: [&[&str]; 3] = [
        &[],
        &["fused.block_x=64", "fused.tile=0", "fused.stage=0"],
        &["fused.block_x=1024", "fused.tile=768", "fused.stage=2048", "fused.count_first=1", "scan.block_x=32"],
    ];
    for (tables, events) in detectors() {
        let events = &events[..3];
        assert!(fits_mep(events), "one sequence of sourceIDs");
        for (turn, settings) in settings.into_iter().enumerate() {
            let (params, options) = (params(settings), DecodeOptions::default());
            compare(&tables, options, params, allen_batch(events).view(), turn as u32).unwrap();
            compare(&tables, options, params, mep_batch(&events[1..]).view(), 5).unwrap();
        }
    }
}

#[test]
fn nasty_and_corrupted_events_do_what_the_reference_does_and_nothing_out_of_bounds() {
    for (tables, _) in detectors().take(2) {
        let config = Config { cases: 16, failure_persistence: None, ..Config::default() };
        let strategy = (nasty::aligned_events(tables.boards(), 1..4), nasty::corruptions(), nasty::options());
        let result = TestRunner::new(config).run(&strategy, |(events, corruptions, options)| {
            for mut batch in [allen_batch(&events), mep_batch(&events)] {
                nasty::corrupt(&mut batch, &corruptions);
                // What the container knew is added by the host.
                batch.meta.clear();
                for settings in [&["fused.block_x=96"][..], &["fused.block_x=32", "fused.tile=64", "fused.stage=512"]] {
                    let params = params(settings);
                    compare(&tables, options, params, batch.view(), 3).map_err(TestCaseError::fail)?;
                }
            }
            Ok(())
        });
        assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}
