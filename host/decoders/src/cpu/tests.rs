//! The fast path against the reference on lanes that are hard to cluster. Small and always the
//! same, so that a wrong comparison shows here first, and that an interpreter such as Miri can run
//! them.

use std::num::NonZeroU32;

use super::fast::Fast;
use super::lanes::LaneOrder;
use super::level::Level;
use super::policy::Policy;
use super::scratch::Scratch;
use super::setup::Setup;
use super::{CpuDecoder, Simd};
use crate::reference::ReferenceDecoder;
use ut_data::detector::{BankVersion, DetectorTables, Grouping, LANES_PER_BOARD};
use ut_data::input::{self, BatchBuilder, BatchView, EventBatch, EventMeta, Layout, to_mep};
use ut_data::synth::{Generator, Profile};
use ut_data::{BatchReport, DecodeOptions, Decoder, Position, UtHits};
use ut_format::report::{Count, EventReport, Kind};

/// Number of boards in an event; more under Miri would take minutes.
const N_BANKS: usize = if cfg!(miri) { 4 } else { 24 };

const SIMD: [Simd; 3] = [Simd::Scalar, Simd::Avx2, Simd::Avx512];

#[derive(Clone)]
struct Bank {
    source_id: u32,
    payload: Vec<u8>,
}

fn tables() -> DetectorTables {
    ut_data::synth::tables(BankVersion::V5, Grouping::YRows)
}

/// Makes a v5 payload of six lanes of (strip, ADC).
fn v5_payload(lanes: &[Vec<(u16, u16)>; LANES_PER_BOARD]) -> Vec<u8> {
    let counts = [4, 5, 0, 0, 0, 1, 2, 3].map(|lane: usize| lanes[lane].len() as u8);
    let rows = lanes.iter().map(Vec::len).max().unwrap_or(0).div_ceil(2);
    let mut words = vec![0u16; 16 * rows];
    for (lane, hits) in lanes.iter().enumerate() {
        for (i, (strip, adc)) in hits.iter().enumerate() {
            words[16 * (i / 2) + 2 * (5 - lane) + i % 2] = strip << 5 | adc;
        }
    }
    let mut payload = counts.to_vec();
    (payload[2], payload[3]) = (0xAA, 0x55);
    payload.extend(words.into_iter().flat_map(u16::to_le_bytes));
    payload
}

/// Makes a bank of each of the first boards, with the same hits on each connected lane.
fn event_of_lanes(tables: &DetectorTables, hits: &[(u16, u16)]) -> Vec<Bank> {
    let in_use = (0..)
        .zip(&tables.boards().strips_per_hybrid)
        .filter(|&(_, &strips)| strips != 0);
    let bank = |(board, _): (usize, _)| {
        let slots = &tables.slots()[LANES_PER_BOARD * board..][..LANES_PER_BOARD];
        let hits = |lane: usize| {
            if slots[lane].is_connected() {
                hits.to_vec()
            } else {
                Vec::new()
            }
        };
        Bank {
            source_id: board as u32,
            payload: v5_payload(&std::array::from_fn(hits)),
        }
    };
    in_use.take(N_BANKS).map(bank).collect()
}

/// Makes a batch of one event.
fn batch(event: &[Bank], layout: Layout) -> EventBatch {
    let banks = event.iter().map(|Bank { source_id, payload }| input::Bank {
        kind: 66,
        version: Some(4),
        source_id: *source_id,
        payload,
    });
    let (mut builder, mut batch) = (BatchBuilder::new(), EventBatch::default());
    builder
        .push(EventMeta::default(), banks)
        .expect("a small event");
    builder.finish(&mut batch);
    match layout {
        Layout::Allen => batch,
        Layout::Mep => to_mep(batch.view()).expect("one event").remove(0),
    }
}

fn decode(
    decoder: &mut dyn Decoder,
    tables: &DetectorTables,
    batch: BatchView<'_>,
) -> (UtHits, EventReport) {
    let mut hits = UtHits::with_capacity(1, tables.n_groups(), batch.max_hits()).with_clusters();
    let mut report = BatchReport::new();
    let batch = BatchView {
        checked: true,
        ..batch
    };
    decoder
        .decode(batch, &mut hits, &mut report)
        .expect("the batch fits");
    (hits, report.events[0])
}

fn check(tables: &DetectorTables, event: &[Bank], what: &str) -> EventReport {
    check_with(DecodeOptions::default(), tables, event, what)
}

/// Compares an event at every level and in both layouts with the reference, whose report it
/// returns.
fn check_with(
    options: DecodeOptions,
    tables: &DetectorTables,
    event: &[Bank],
    what: &str,
) -> EventReport {
    let mut report = EventReport::default();
    for layout in [Layout::Allen, Layout::Mep] {
        let batch = batch(event, layout);
        let expected = decode(
            &mut ReferenceDecoder::new(tables, options),
            tables,
            batch.view(),
        );
        for simd in SIMD {
            if simd.resolve().is_none() {
                continue;
            }
            let mut decoder =
                CpuDecoder::with_simd(tables, options, simd).expect("the CPU has the level");
            for time in ["first", "second"] {
                let got = decode(&mut decoder, tables, batch.view());
                assert_eq!(
                    got.1, expected.1,
                    "{what}, {simd:?}, {layout:?}, the {time} time"
                );
                assert!(
                    got.0 == expected.0,
                    "{what}, {simd:?}, {layout:?}, the {time} time: other hits"
                );
            }
        }
        report = expected.1;
    }
    report
}

#[test]
fn lanes_that_are_not_sorted_are_counted_once_each() {
    let tables = tables();
    let cases: [&[(u16, u16)]; 6] = [
        &[(7, 3), (5, 4)],
        // The same strip twice: two hits with one key.
        &[(7, 3), (7, 3)],
        &[
            (7, 3),
            (8, 3),
            (3, 1),
            (4, 0),
            (5, 2),
            (100, 31),
            (0, 31),
            (1, 0),
        ],
        &[(511, 1), (0, 1), (511, 1), (0, 1), (1, 1)],
        // Without charge, too.
        &[(20, 0), (10, 1), (9, 0)],
        &[
            (3, 1),
            (2, 1),
            (1, 1),
            (0, 1),
            (5, 1),
            (6, 1),
            (300, 1),
            (299, 1),
            (298, 1),
        ],
    ];
    for hits in cases {
        let event = event_of_lanes(&tables, hits);
        let counts = event.iter().flat_map(|bank| &bank.payload[..8]);
        let n_lanes = counts.filter(|&&n| usize::from(n) == hits.len()).count();
        let report = check(&tables, &event, &format!("{hits:?}"));
        let troubles = Count::ALL
            .into_iter()
            .filter(|count| count.kind() == Kind::Trouble);
        let troubles: Vec<_> = troubles
            .map(|count| (count, report.get(count)))
            .filter(|&(_, n)| n != 0)
            .collect();
        assert_eq!(
            troubles,
            [(Count::UnsortedLanes, n_lanes as u32)],
            "{hits:?}"
        );
    }
}

#[test]
fn an_unsorted_lane_does_not_hide_clusters_above_the_maximum_size() {
    let tables = tables();
    let options = DecodeOptions::default().with_max_cluster_size(NonZeroU32::new(4).unwrap());
    // Vectors have 4, 8 or 16 elements. Where that many elements behind the strip that makes the
    // cluster too long, a strip follows one that is less than four below it, the least distance in
    // that element is not four.
    let strips = [
        100, 101, 102, 103, 104, 110, 120, 130, 140, 150, 160, 170, 180, 190, 192, 194, 200, 300,
        310, 320, 202,
    ];
    let hits: Vec<_> = strips.map(|strip| (strip, 1)).into();
    let report = check_with(
        options,
        &tables,
        &event_of_lanes(&tables, &hits),
        "a cluster of five",
    );
    assert!(report.get(Count::OversizedClusters) > 0 && report.get(Count::UnsortedLanes) > 0);
}

/// Connected lanes from all over the detector, of both directions.
fn some_lanes(tables: &DetectorTables) -> impl Iterator<Item = usize> {
    (0..tables.slots().len())
        .filter(|&slot| tables.slots()[slot].is_connected())
        .step_by(301)
}

/// Makes a bank with hits on one lane. (On every lane, some would have the same x, which the
/// fallback path sorts.)
fn bank_of_lane(slot: usize, hits: &[(u16, u16)]) -> Bank {
    let mut lanes: [Vec<_>; LANES_PER_BOARD] = Default::default();
    lanes[slot % LANES_PER_BOARD] = hits.to_vec();
    Bank {
        source_id: (slot / LANES_PER_BOARD) as u32,
        payload: v5_payload(&lanes),
    }
}

#[test]
fn clusters_above_the_maximum_size_are_dropped_or_cut_as_the_reference_does() {
    let tables = tables();
    let (mut mixed, mut strip) = (Vec::new(), 3);
    for size in [1, 5, 2, 4, 3, 6, 1, 9, 20, 40] {
        mixed.extend((0..size).map(|i| (strip + i, 1 + (strip + 7 * i) % 31)));
        strip += size + 1;
    }
    let long: Vec<_> = (0..254).map(|strip| (strip, 1 + strip % 5)).collect();
    for (hits, sizes) in [
        (mixed, [1, 2, 4, 39, 40]),
        (long, [100, 128, 252, 253, 254]),
    ] {
        for (bank, max_size) in
            some_lanes(&tables).flat_map(|slot| sizes.map(|size| (bank_of_lane(slot, &hits), size)))
        {
            for i in 0..8 {
                let options = DecodeOptions::default()
                    .with_max_cluster_size(NonZeroU32::new(max_size).unwrap())
                    .with_save_above_max(i & 1 != 0)
                    .with_position(if i & 2 == 0 {
                        Position::Adc
                    } else {
                        Position::Geometric
                    });
                // A board that comes twice is decoded by the fallback path.
                let event = vec![bank.clone(); if i & 4 == 0 { 1 } else { 2 }];
                check_with(
                    options,
                    &tables,
                    &event,
                    &format!("board {}, {options:?}", bank.source_id),
                );
            }
        }
    }
}

#[test]
fn strips_of_the_previous_event_do_not_cut_a_cluster() {
    let tables = tables();
    let options = DecodeOptions::default()
        .with_max_cluster_size(NonZeroU32::new(40).unwrap())
        .with_save_above_max(true);
    let lane: Vec<(u16, u16)> = (100..200).map(|strip| (strip, 1)).collect();
    for slot in some_lanes(&tables) {
        // Both begin with the same hits when read backwards.
        let event = |n: usize| [bank_of_lane(slot, &lane[100 - n..])];
        let (long, short) = (
            batch(&event(100), Layout::Allen),
            batch(&event(30), Layout::Allen),
        );
        let expected = decode(
            &mut ReferenceDecoder::new(&tables, options),
            &tables,
            short.view(),
        );
        for simd in SIMD.into_iter().filter(|s| s.resolve().is_some()) {
            let mut decoder =
                CpuDecoder::with_simd(&tables, options, simd).expect("the CPU has the level");
            decode(&mut decoder, &tables, long.view());
            assert!(
                decode(&mut decoder, &tables, short.view()) == expected,
                "slot {slot}, {simd:?}"
            );
        }
    }
}

/// The fallback gives the same hits, only slower, so that no comparison shows which path was taken.
#[test]
fn events_without_trouble_stay_on_the_fast_path() {
    let options = DecodeOptions::default();
    for version in [BankVersion::V4, BankVersion::V5] {
        let tables = ut_data::synth::tables(version, Grouping::YRows);
        let banks = Generator::new(Profile::PpLow, version, 1).event(0).banks;
        let event: Vec<Bank> = banks
            .into_iter()
            .map(|(source_id, payload)| Bank {
                source_id: source_id.into(),
                payload,
            })
            .collect();
        for (layout, simd) in [Layout::Allen, Layout::Mep]
            .into_iter()
            .flat_map(|layout| SIMD.map(|simd| (layout, simd)))
        {
            let Some(level) = Level::new(simd) else {
                continue;
            };
            let batch = batch(&event, layout);
            let view = BatchView {
                versions: None,
                ..batch.view()
            };
            let fast = Fast::new(Setup::new(LaneOrder::new(&tables, options), options), level);
            let mut scratch = Scratch::new(Policy::new(&tables));
            scratch.begin_batch(false);
            let (mut ends, mut report) = (vec![0; fast.n_groups()], EventReport::default());
            let n = fast.front(&mut scratch, view, (0, 1), &mut ends, &mut report);
            let n = n.unwrap_or_else(|_| panic!("{version:?}, {layout:?}, {simd:?}"));
            let mut hits = UtHits::with_capacity(1, tables.n_groups(), n);
            let mut all = hits
                .begin_with_clusters(1, tables.n_groups(), version)
                .expect("room for one event");
            // SAFETY: `front` of this path has just made the clusters, as many as there is room
            // for.
            let made = unsafe { fast.back(&mut scratch, &ends, &mut all.part(0..n)) };
            assert!(n > 0 && made.is_ok(), "{version:?}, {layout:?}, {simd:?}");
        }
    }
}
