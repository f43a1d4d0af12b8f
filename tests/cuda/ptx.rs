//! The committed PTX gives the bits of the reference, with any launches, whatever a batch holds.
//!
//! The executor runs the source of the kernels. Here an interpreter under the fake driver runs the
//! output of the compiler, with the arguments and in the memory that the GPU's decoder gives. It is
//! slow, so that there are fewer cases than in the suite of all backends. Blocks run one after the
//! other, in turned orders: the block that another looks back at has ended. What happens while
//! blocks wait for each other is the executor's to test.

use proptest::sample::select;
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::{CudaConfig, CudaDecoder, CudaDevice};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::{Backend, BatchView, DecodeOptions, DetectorTables, Flip, Grouping, Position};
use ut_kernels::detector::{BankVersion, LANES_PER_BOARD};
use ut_kernels::switches::{Layout, Switches};

use crate::fake_driver::{on_the_fakes, well_on_the_fake};
use crate::suite::backends::{as_reference, up_to};
use crate::suite::data::Real;
use crate::suite::events::{
    Event, VERSIONS, allen_batch, fits_mep, generated_as, mep_batch, tables_in, v5, v5_payload,
};
use crate::suite::nasty::{self, check};
use crate::{RUNS, pipeline};
use ut_decoding::synth::Profile;

/// Either pipeline, with blocks and lanes in turned orders.
const TURNED: [[(&str, &str); 2]; 2] = [RUNS[0], RUNS[1]];

/// Launches of the pipeline to test, the default first.
fn launches() -> Vec<&'static str> {
    match pipeline() {
        Pipeline::Allen => vec![
            "",
            "count.block_x=32,count.bins=8,scan.block_x=32,cluster.block_y=1,sort.run=32",
            "count.block_x=1024,scan.block_x=1024,cluster.block_x=256,cluster.block_y=4,decode.block_x=1024",
            "count.block_x=96,cluster.block_x=8,cluster.block_y=12,compress.block_x=32,sort.block_x=1024",
            "count.block_x=512,cluster.block_x=96,cluster.block_y=1,decode.block_x=32,compress.block_x=1024",
        ],
        Pipeline::Ranked => vec![
            "",
            "ranked.sort_block_x=96",
            "ranked.sort_block_x=64,scan.block_x=1024",
            "ranked.make_hits_grid=1,ranked.sort_grid=1,ranked.sort_block_x=32,scan.block_x=32",
        ],
    }
}

/// Returns tables and synthetic events of both formats, v4 first.
fn detectors(grouping: Grouping) -> impl Iterator<Item = (DetectorTables, Vec<Event>)> {
    VERSIONS.into_iter().map(move |version| {
        let events = generated_as(Profile::PpNominal, version, 1, 3);
        (tables_in(version, grouping), events)
    })
}

fn v5_detector() -> (DetectorTables, Vec<Event>) {
    detectors(Grouping::YRows).nth(1).expect("two of them")
}

/// Runs `body` with either pipeline on a fake GPU that stays open, so that its modules are read
/// once.
macro_rules! with_either_pipeline {
    ($body:expr) => {
        on_the_fakes(&TURNED, || {
            let _open = CudaDevice::new(0, 0).expect("the fake is a GPU");
            $body
        })
    };
}

fn decode_with(
    config: CudaConfig,
    tables: &DetectorTables,
    options: DecodeOptions,
    batch: BatchView<'_>,
) -> Result<(), String> {
    let mut decoder = CudaDecoder::new(tables, options, config).expect("the fake is a GPU");
    as_reference(&mut decoder, tables, options, batch)
}

fn compare(
    launch: &str,
    tables: &DetectorTables,
    options: DecodeOptions,
    batch: BatchView<'_>,
) -> Result<(), String> {
    let launch = Parameters::default()
        .with_pipeline(pipeline())
        .with(Backend::Cuda, launch)
        .expect("valid assignments");
    decode_with(CudaConfig::of(&launch), tables, options, batch)
        .map_err(|what| format!("{launch:?}: {what}"))
}

/// Compares events in both layouts with the default launches.
fn compare_events(tables: &DetectorTables, options: DecodeOptions, events: &[Event]) {
    compare("", tables, options, allen_batch(events).view()).unwrap();
    if fits_mep(events) {
        compare("", tables, options, mep_batch(events).view()).unwrap();
    }
}

/// Compares events in both layouts with all launches.
fn compare_launches(tables: &DetectorTables, events: &[Event]) {
    assert!(fits_mep(events), "one sequence of sourceIDs");
    for launch in launches() {
        for batch in [allen_batch(events), mep_batch(&events[1..])] {
            compare(launch, tables, DecodeOptions::default(), batch.view()).unwrap();
        }
    }
}

#[test]
fn hits_depend_neither_on_launches_nor_on_the_order_of_blocks() {
    with_either_pipeline!({
        for (tables, events) in detectors(Grouping::UniqueX) {
            compare_launches(&tables, &events[..2]);
        }
    });
}

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_events_come_out_as_from_the_reference_with_any_launches() {
    with_either_pipeline!({
        for grouping in [Grouping::YRows, Grouping::UniqueX] {
            for (tables, events) in [Real::V4, Real::V5].map(|real| real.needed(grouping)) {
                compare_launches(&tables, &events[..3]);
            }
        }
    });
}

#[test]
fn every_option_reaches_the_kernels() {
    with_either_pipeline!({
        let plain = DecodeOptions::default();
        let (tables, events) = v5_detector();
        for options in [
            plain.with_clustering(false),
            plain.with_position(Position::Geometric),
            plain.with_flip(Flip::From512),
            up_to(2),
            up_to(2).with_save_above_max(true),
        ] {
            compare_events(&tables, options, &events[..1]);
        }
    });
}

#[test]
fn an_interval_a_list_and_one_version_for_all_banks_come_out_as_from_the_reference() {
    with_either_pipeline!({
        for (tables, events) in detectors(Grouping::UniqueX) {
            for batch in [allen_batch(&events), mep_batch(&events)] {
                let all = batch.view();
                let interval = BatchView {
                    first_event: 1,
                    n_events: 2,
                    ..all
                };
                let one_version = |version| BatchView {
                    versions: None,
                    version: Some(version),
                    ..interval
                };
                let listed = |selected, view| BatchView {
                    selected: Some(selected),
                    ..view
                };
                let mut parts = vec![
                    interval,
                    one_version(tables.boards().version.byte()),
                    one_version(9),
                ];
                if pipeline() == Pipeline::Ranked {
                    parts.extend([listed(&[2, 0, 2], all), listed(&[1], interval)]);
                }
                for part in parts {
                    compare("", &tables, DecodeOptions::default(), part).unwrap();
                }
            }
        }
    });
}

#[test]
fn every_rung_of_the_ladder_gives_the_same_hits() {
    well_on_the_fake(&RUNS[0], || {
        let _open = CudaDevice::new(0, 0).expect("the fake is a GPU");
        let (tables, events) = v5_detector();
        let batch = allen_batch(&events[..1]);
        for rung in 0..Switches::ladder(BankVersion::V5, Layout::Allen).len() {
            let config = CudaConfig::default().with_rung(format!("v5_allen__rung{rung}"));
            decode_with(config, &tables, DecodeOptions::default(), batch.view()).unwrap();
        }
    });
}

#[test]
fn full_lanes_and_groups_of_thousands_of_hits_decode_as_with_the_reference() {
    with_either_pipeline!({
        let one_cluster: Vec<(u16, u8)> = (258..512).map(|strip| (strip, 31)).collect();
        let descending: Vec<(u16, u8)> = (0..254).rev().map(|i| (2 * i, 31)).collect();
        let payload = v5_payload(&std::array::from_fn(|lane| {
            [&one_cluster, &descending][usize::from(lane % 3 > 0)].clone()
        }));
        // Few boards, each several times: groups of a thousand hits and more, with equal keys.
        let event: Event = (0..12).map(|i| v5(i % 3, &payload)).collect();
        let (tables, _) = v5_detector();
        for options in [up_to(254), DecodeOptions::default().with_clustering(false)] {
            compare_events(&tables, options, std::slice::from_ref(&event));
        }
    });
}

#[test]
fn clusters_of_all_sizes_across_the_parts_of_warps_come_out_as_from_the_reference() {
    with_either_pipeline!({
        let (tables, _) = detectors(Grouping::UniqueX).nth(1).expect("v5");
        // On every connected lane of the first boards two clusters, with the largest charge, of
        // sizes up to `most`.
        let sizes = [1, 2, 3, 30, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 250];
        let bank = |board: usize, most: u16| {
            let lane = |lane: usize| {
                let is_connected = tables.slots()[LANES_PER_BOARD * board + lane].is_connected();
                let [first, second] = if is_connected {
                    [sizes[(6 * board + lane) % sizes.len()].min(most), 2]
                } else {
                    [0, 0]
                };
                (3..3 + first)
                    .chain(500..500 + second)
                    .map(|strip| (strip, 31))
                    .collect()
            };
            v5(board as u16, &v5_payload(&std::array::from_fn(lane)))
        };
        // An ordinary event, and one with clusters that are too large for the first kernel.
        let events = [128, 250].map(|most| (0..12).map(|board| bank(board, most)).collect());
        let geometric = DecodeOptions::default().with_position(Position::Geometric);
        for options in [DecodeOptions::default(), geometric, up_to(1000), up_to(2)] {
            compare("", &tables, options, allen_batch(&events).view()).unwrap();
        }
    });
}

#[test]
fn nasty_and_corrupted_events_do_what_the_reference_does_and_nothing_out_of_bounds() {
    with_either_pipeline!({
        for (tables, _) in detectors(Grouping::UniqueX) {
            let events = (
                nasty::events(tables.boards(), 0..4),
                nasty::aligned_events(tables.boards(), 0..4),
            );
            let strategy = (
                events,
                nasty::corruptions(),
                nasty::options(),
                select(launches()),
            );
            check(
                &strategy,
                8,
                |((events, aligned), corruptions, options, launch)| {
                    for mut batch in [allen_batch(&events), mep_batch(&aligned)] {
                        nasty::corrupt(&mut batch, &corruptions);
                        compare(launch, &tables, options, batch.view())?;
                    }
                    Ok(())
                },
            );
        }
    });
}
