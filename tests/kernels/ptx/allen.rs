//! The committed PTX, run on an interpreter, gives the same bits as the reference.
//!
//! The executor runs the source of the kernels. The interpreter runs the output of the compiler,
//! entry by entry, with arguments laid out as a GPU backend lays them out. It is slow, so that
//! there are fewer cases than in the suite of all backends.

use super::decoder::decoder;
use super::{detectors, params};
use crate::suite::backends::{as_reference, up_to};
use crate::suite::data::Real;
use crate::suite::events::{Event, allen_batch, fits_mep, mep_batch, v5, v5_payload};
use crate::suite::nasty::{self, check};
use ptx_machine::{Launch, Memory, Program, bytes_of};
use ut_decoding::decoder::cuda::CudaConfig;
use ut_decoding::decoder::ptx::Unit;
use ut_decoding::{BatchView, DecodeOptions, DetectorTables, Flip, Grouping, Position};
use ut_kernels::detector::BankVersion;
use ut_kernels::switches::{Layout, Switches};

fn with_defaults(
    tables: &DetectorTables,
    options: DecodeOptions,
    events: &[Event],
) -> Result<(), String> {
    let mut ptx = decoder(tables, options, CudaConfig::default(), 0);
    as_reference(&mut ptx, tables, options, allen_batch(events).view())?;
    if fits_mep(events) {
        as_reference(&mut ptx, tables, options, mep_batch(events).view())?;
    }
    Ok(())
}

fn v5_detector() -> (DetectorTables, Vec<Event>) {
    detectors(Grouping::YRows).nth(1).expect("two of them")
}

#[test]
fn events_come_out_as_from_the_reference() {
    for grouping in [Grouping::YRows, Grouping::UniqueX] {
        for (tables, events) in detectors(grouping) {
            with_defaults(&tables, DecodeOptions::default(), &events[..3]).unwrap();
        }
    }
}

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_events_come_out_as_from_the_reference() {
    for grouping in [Grouping::YRows, Grouping::UniqueX] {
        for (tables, events) in [Real::V4, Real::V5].map(|real| real.needed(grouping)) {
            with_defaults(&tables, DecodeOptions::default(), &events[..3]).unwrap();
        }
    }
}

#[test]
fn every_option_reaches_the_kernels() {
    let plain = DecodeOptions::default();
    let all = [
        plain.with_clustering(false),
        plain.with_position(Position::Geometric),
        plain.with_flip(Flip::From512),
        up_to(2),
        up_to(2).with_save_above_max(true),
    ];
    let (tables, events) = v5_detector();
    for options in all {
        with_defaults(&tables, options, &events[..1]).unwrap();
    }
}

#[test]
fn hits_do_not_depend_on_block_shapes_size_classes_or_order() {
    let assignments: [&[&str]; 4] = [
        &[
            "count.block_x=32",
            "count.bins=8",
            "scan.block_x=32",
            "cluster.block_y=1",
            "sort.run=32",
        ],
        &[
            "count.block_x=1024",
            "scan.block_x=1024",
            "cluster.block_x=256",
            "cluster.block_y=4",
            "decode.block_x=1024",
        ],
        &[
            "count.block_x=96",
            "cluster.block_x=8",
            "cluster.block_y=12",
            "compress.block_x=32",
            "sort.block_x=1024",
        ],
        &[
            "count.block_x=512",
            "cluster.block_x=96",
            "cluster.block_y=1",
            "decode.block_x=32",
            "compress.block_x=1024",
        ],
    ];
    let options = DecodeOptions::default();
    for (tables, events) in detectors(Grouping::UniqueX) {
        for (turn, assignments) in assignments.into_iter().enumerate() {
            let launch = params(assignments);
            launch.validate().unwrap();
            let mut ptx = decoder(&tables, options, CudaConfig::of(&launch), 7 * turn as u32);
            as_reference(&mut ptx, &tables, options, allen_batch(&events[..2]).view()).unwrap();
        }
    }
}

#[test]
fn an_interval_and_one_version_for_all_banks_come_out_as_from_the_reference() {
    let options = DecodeOptions::default();
    for (tables, events) in detectors(Grouping::YRows) {
        let mut decoder = decoder(&tables, options, CudaConfig::default(), 0);
        for batch in [allen_batch(&events), mep_batch(&events)] {
            let interval = BatchView {
                first_event: 1,
                n_events: events.len() - 1,
                ..batch.view()
            };
            for version in [tables.boards().version.byte(), 9] {
                as_reference(&mut decoder, &tables, options, interval).unwrap();
                let view = BatchView {
                    versions: None,
                    version: Some(version),
                    ..interval
                };
                as_reference(&mut decoder, &tables, options, view).unwrap();
            }
        }
    }
}

#[test]
fn every_rung_of_the_ladder_gives_the_same_hits() {
    let rungs = 0..Switches::ladder(BankVersion::V5, Layout::Allen).len();
    let options = DecodeOptions::default();
    let (tables, events) = v5_detector();
    for rung in rungs {
        let config = CudaConfig::default().with_rung(format!("v5_allen__rung{rung}"));
        let mut ptx = decoder(&tables, options, config, 0);
        as_reference(&mut ptx, &tables, options, allen_batch(&events[..1]).view()).unwrap();
    }
}

#[test]
fn full_lanes_and_groups_of_thousands_of_hits_decode_as_with_the_reference() {
    let one_cluster: Vec<(u16, u8)> = (258..512).map(|strip| (strip, 31)).collect();
    let descending: Vec<(u16, u8)> = (0..254).rev().map(|i| (2 * i, 31)).collect();
    let payload = v5_payload(&std::array::from_fn(|lane| {
        [&one_cluster, &descending][usize::from(lane % 3 > 0)].clone()
    }));
    // Few boards, each several times: groups of a thousand hits and more, with equal keys.
    let event: Event = (0..12).map(|i| v5(i % 3, &payload)).collect();
    let (tables, _) = v5_detector();
    for options in [up_to(254), DecodeOptions::default().with_clustering(false)] {
        with_defaults(&tables, options, std::slice::from_ref(&event)).unwrap();
    }
}

#[test]
fn damaged_events_decode_as_with_the_reference_and_stay_in_bounds() {
    for (tables, _) in detectors(Grouping::YRows) {
        let events = (
            nasty::events(tables.boards(), 0..4),
            nasty::aligned_events(tables.boards(), 0..4),
        );
        let strategy = (events, nasty::corruptions(), nasty::options());
        check(
            &strategy,
            12,
            |((events, aligned), corruptions, options)| {
                for (mut batch, turn) in [(allen_batch(&events), 3), (mep_batch(&aligned), 5)] {
                    nasty::corrupt(&mut batch, &corruptions);
                    let mut ptx = decoder(&tables, options, CudaConfig::default(), turn);
                    as_reference(&mut ptx, &tables, options, batch.view())?;
                }
                Ok(())
            },
        );
    }
}

/// Runs the first prefix-sum kernel of a text that `change` was made to, over 0…99, in two blocks
/// of 64 threads.
fn scan(change: impl Fn(&str) -> String) -> Vec<u32> {
    let text = change(Unit::PRODUCTION[0].text);
    let mut memory = Memory::default();
    let counts = memory.put(&(0..100).collect::<Vec<u32>>(), false);
    let offsets = memory.put(&[0u32; 101], true);
    let totals = memory.put(&[0u32; 2], true);
    let arguments = [
        bytes_of(&counts.global::<u32>()),
        bytes_of(&offsets.global_mut::<u32>()),
        bytes_of(&totals.global_mut::<u32>()),
    ];
    let launch = Launch {
        grid: 2,
        block: (64, 1),
        shared_bytes: 128,
        turn: 0,
        counts: false,
    };
    Program::new(&text).launch(
        &mut memory,
        "prefix_sum_tiles__v4_allen",
        launch,
        &arguments,
    );
    memory.get(offsets)
}

/// Returns a change that replaces the first `from` in the first prefix-sum kernel.
fn planted(from: &str, to: &str) -> impl Fn(&str) -> String {
    let (from, to) = (from.to_owned(), to.to_owned());
    move |text| {
        let (before, kernel) = text
            .split_once(".visible .entry prefix_sum_tiles__v4_allen(")
            .unwrap();
        assert!(kernel.contains(&from), "{from}");
        format!(
            "{before}.visible .entry prefix_sum_tiles__v4_allen({}",
            kernel.replacen(&from, &to, 1)
        )
    }
}

#[test]
fn the_machine_runs_a_single_kernel() {
    let sum = |from: u32, to: u32| (from..to).sum::<u32>();
    let expected: Vec<u32> = (0..64)
        .map(|i| sum(0, i))
        .chain((64..100).map(|i| sum(64, i)))
        .chain([0])
        .collect();
    assert_eq!(scan(str::to_owned), expected);
}

#[test]
fn a_wrong_instruction_gives_wrong_numbers() {
    let right = scan(str::to_owned);
    for (from, to) in [
        ("shfl.sync.up.b32", "shfl.sync.down.b32"),
        ("min.u32", "max.u32"),
        (", 2, 0, -1", ", 3, 0, -1"),
    ] {
        let wrong = std::panic::catch_unwind(|| scan(planted(from, to)));
        assert!(
            wrong.is_err() || wrong.is_ok_and(|wrong| wrong != right),
            "{from} → {to}"
        );
    }
}

#[test]
fn the_machine_reports_undefined_behaviour() {
    // The register of the address has whatever number the compiler gave it.
    let (_, kernel) = Unit::PRODUCTION[0]
        .text
        .split_once(".visible .entry prefix_sum_tiles__v4_allen(")
        .unwrap();
    let (_, store) = kernel.split_once("st.global.u32 [").unwrap();
    let address = store.split(']').next().unwrap();
    let read_only = format!("ld.global.nc.u32 %r9999, [{address}];\n\tst.global.u32 [");
    let shuffle = "setp.eq.b32 %p999, %laneid, 5;\n\t@%p999 ret;\n\tshfl.sync.up.b32";
    let barrier = "setp.eq.b32 %p999, %tid.x, 63;\n\t@%p999 ret;\n\tbar.sync";
    for (from, to, said) in [
        // A collective that not all lanes of the mask reach, and a barrier that not all threads do.
        ("shfl.sync.up.b32", shuffle, "no thread can go on"),
        ("bar.sync", barrier, "no thread can go on"),
        ("1, 0, -1;", "1, 0, 1;", "not in its own mask"),
        // The check of the index lets one more pass.
        ("setp.ge.u32", "setp.gt.u32", "outside of global memory"),
        (
            "st.global.u32 [",
            &read_only,
            "written, and read through the read-only cache",
        ),
        (", block_shared;", ", 128;", "outside of shared"),
    ] {
        let panic = std::panic::catch_unwind(|| scan(planted(from, to))).expect_err(to);
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        assert!(
            message.is_some_and(|message| message.contains(said)),
            "{to}: {message:?}"
        );
    }
}
