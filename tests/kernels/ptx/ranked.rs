//! The committed PTX of the ranked pipeline, run on a machine that understands it: the same bits as
//! the reference.
//!
//! Blocks run one after the other, in turned orders: the block that another looks back at has
//! ended. What happens while blocks wait for each other is the executor's to test.

use super::decoder::decoder;
use super::{detectors, params};
use crate::suite::backends::{as_reference, up_to};
use crate::suite::data::Real;
use crate::suite::events::{Event, allen_batch, fits_mep, mep_batch, v5, v5_payload};
use crate::suite::nasty::{self, check};
use proptest::sample::select;
use ut_decoding::decoder::cuda::CudaConfig;
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::{BatchView, DecodeOptions, DetectorTables, Grouping, Position};
use ut_kernels::detector::LANES_PER_BOARD;

fn compare(
    tables: &DetectorTables,
    options: DecodeOptions,
    params: Parameters,
    batch: BatchView<'_>,
    turn: u32,
) -> Result<(), String> {
    let case = |what| format!("turn {turn}, {params:?}: {what}");
    as_reference(
        &mut decoder(tables, options, CudaConfig::of(&params), turn),
        tables,
        options,
        batch,
    )
    .map_err(case)
}

/// Decodes with different launches, in both layouts.
fn with_all_assignments(tables: &DetectorTables, events: &[Event]) {
    let assignments: [&[&str]; 3] = [
        &[],
        &["ranked.sort_block_x=64", "scan.block_x=1024"],
        &[
            "ranked.make_hits_grid=1",
            "ranked.sort_grid=1",
            "ranked.sort_block_x=32",
            "scan.block_x=32",
        ],
    ];
    assert!(fits_mep(events), "one sequence of sourceIDs");
    for (turn, assignments) in assignments.into_iter().enumerate() {
        let (params, options) = (params(assignments), DecodeOptions::default());
        compare(
            tables,
            options,
            params,
            allen_batch(events).view(),
            turn as u32,
        )
        .unwrap();
        compare(tables, options, params, mep_batch(&events[1..]).view(), 5).unwrap();
    }
}

#[test]
fn events_come_out_as_from_the_reference_with_any_launches() {
    for (tables, events) in detectors(Grouping::UniqueX) {
        with_all_assignments(&tables, &events);
    }
}

#[test]
fn clusters_of_all_sizes_across_the_parts_of_warps_come_out_as_from_the_reference() {
    let (tables, _) = detectors(Grouping::UniqueX).nth(1).expect("v5");
    // On every connected lane of the first boards two clusters, with the largest charge, of sizes
    // up to `most`.
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
    let events = [128, 250].map(|most| (0..12).map(|board| bank(board, most)).collect::<Event>());
    let default = DecodeOptions::default();
    let geometric = default.with_position(Position::Geometric);
    for options in [default, geometric, up_to(1000), up_to(2)] {
        compare(
            &tables,
            options,
            params(&[]),
            allen_batch(&events).view(),
            1,
        )
        .unwrap();
    }
}

#[test]
fn an_interval_a_list_and_one_version_for_all_banks_come_out_as_from_the_reference() {
    for (tables, events) in detectors(Grouping::UniqueX) {
        for batch in [allen_batch(&events), mep_batch(&events)] {
            let all = batch.view();
            for (turn, part) in [
                BatchView {
                    first_event: 1,
                    n_events: 2,
                    ..all
                },
                BatchView {
                    selected: Some(&[2, 0, 2]),
                    ..all
                },
                BatchView {
                    first_event: 1,
                    n_events: 2,
                    selected: Some(&[1]),
                    ..all
                },
                BatchView {
                    versions: None,
                    version: Some(tables.boards().version.byte()),
                    ..all
                },
                BatchView {
                    versions: None,
                    version: Some(9),
                    ..all
                },
            ]
            .into_iter()
            .enumerate()
            {
                compare(
                    &tables,
                    DecodeOptions::default(),
                    params(&[]),
                    part,
                    turn as u32,
                )
                .unwrap();
            }
        }
    }
}

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_events_come_out_as_from_the_reference_with_any_launches() {
    for (tables, events) in [Real::V4, Real::V5].map(|real| real.needed(Grouping::YRows)) {
        with_all_assignments(&tables, &events[..3]);
    }
}

#[test]
fn nasty_and_corrupted_events_do_what_the_reference_does_and_nothing_out_of_bounds() {
    for (tables, _) in detectors(Grouping::UniqueX) {
        let batches = (
            nasty::aligned_events(tables.boards(), 1..4),
            nasty::corruptions(),
        );
        let assignments = select(vec![
            &["ranked.sort_block_x=96"][..],
            &["ranked.sort_block_x=32", "scan.block_x=32"],
        ]);
        check(
            &(batches, nasty::options(), assignments),
            8,
            |((events, corruptions), options, assignments)| {
                for mut batch in [allen_batch(&events), mep_batch(&events)] {
                    nasty::corrupt(&mut batch, &corruptions);
                    compare(&tables, options, params(assignments), batch.view(), 3)?;
                }
                Ok(())
            },
        );
    }
}
