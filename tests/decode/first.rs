//! Begin here: one bank, byte by byte, and its hits by hand. Then small cases of what can be wrong with a bank.
//!
//! `docs/format.md` says what the bytes mean. Every backend decodes every case.

use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::decoder::{Count, Kind};
use ut_decoding::detector::{BankVersion, Boards, Lane, Slot};
use ut_decoding::{BatchReport, DecodeOptions, DetectorTables, Grouping, Position, UtHits};

use crate::suite::backends::{backends, compare, decode};
use crate::suite::events::{Bank, Event, allen_batch, mep_batch, tables, v4_payload, v5_payload};

/// A v5 bank with three hits on lane 0: strips 100 and 101, which are one cluster, and strip 300.
#[rustfmt::skip]
const BANK: [u8; 72] = [
    // Header: hits of lanes 4 and 5, two bytes of other information, hits of lanes 0, 1, 2, 3.
    0, 0,  0, 0,  3, 0, 0, 0,
    // First row, hits 0 and 1 of each lane: lanes 5, 4, 3, 2, 1, then 0, then four bytes twice that belong to no lane.
    0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,
    0x8A, 0x0C,     // 100 << 5 | 10: strip 100, ADC 10
    0xBE, 0x0C,     // 101 << 5 | 30: strip 101, ADC 30
    0, 0, 0, 0,  0, 0, 0, 0,
    // Second row, hits 2 and 3.
    0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,
    0x87, 0x25,     // 300 << 5 | 7: strip 300, ADC 7
    0, 0,
    0, 0, 0, 0,  0, 0, 0, 0,
];

/// A detector whose sector on lane 0 of board 0 has round numbers, and the ChannelID of that sector's strip 0.
fn detector(version: BankVersion) -> (DetectorTables, u32) {
    let (boards, mut geometry) = ut_decoding::synth::detector(version, 1);
    let lane = boards.lanes[0];
    let id = ut_decoding::detector::sector_id(&lane).expect("the lane is connected");
    let sector = &mut geometry.sectors[usize::from(id)];
    (sector.p0_x, sector.p0_y, sector.p0_z, sector.dy) = (10.0, 5.0, 2000.0, 100.0);
    (sector.dp0di_x, sector.dp0di_y, sector.dp0di_z) = (0.125, 0.25, -0.5);
    (sector.pitch, sector.dx_dy, sector.first_strip) = (0.5, 0.0625, 0);
    let tables = DetectorTables::trusting(boards, geometry, Grouping::YRows).expect("a good detector");
    (tables, lane.chan_id & !0x1FF)
}

/// Hits and report of an event, which every backend must make alike, in both layouts.
fn decoded(tables: &DetectorTables, event: Event) -> (UtHits, BatchReport) {
    decoded_with(DecodeOptions::default(), tables, event)
}

fn decoded_with(options: DecodeOptions, tables: &DetectorTables, event: Event) -> (UtHits, BatchReport) {
    let events = [event];
    let batches = [allen_batch(&events), mep_batch(&events)];
    let mut all = backends().into_iter().flat_map(|(name, make)| {
        let mut decoder = make(tables, options);
        batches.each_ref().map(|batch| (name, batch.layout, decode(&mut *decoder, tables, batch.view())))
    });
    let (_, _, first) = all.next().expect("there is the reference");
    for (name, layout, other) in all {
        assert_eq!(other, first, "{name}, {layout:?}");
    }
    first
}

fn v5(source_id: u16, payload: &[u8]) -> Bank {
    Bank { kind: 66, version: 4, source_id, payload: payload.to_vec() }
}

#[test]
fn a_bank_gives_the_hits_worked_out_by_hand() {
    let (tables, channel) = detector(BankVersion::V5);
    let (hits, report) = decoded(&tables, vec![v5(0, &BANK)]);
    // The first cluster lies at (10 * 100 + 30 * 101) / (10 + 30) = 100.75, its nearest strip is 101; the second at 300.
    assert_eq!(hits.id(), [3 << 28 | (channel + 101), 3 << 28 | (channel + 300)]);
    // Each coordinate is the sector's, plus the position times the step from strip to strip.
    assert_eq!(hits.x_at_y_eq0(), [10.0 + 100.75 * 0.125, 10.0 + 300.0 * 0.125]);
    assert_eq!(hits.z_at_y_eq0(), [2000.0 - 100.75 * 0.5, 2000.0 - 300.0 * 0.5]);
    assert_eq!(hits.y_begin(), [5.0 + 100.75 * 0.25, 5.0 + 300.0 * 0.25]);
    assert_eq!(hits.y_end(), [130.1875, 180.0]);
    assert_eq!(hits.dx_dy(), [0.0625; 2]);
    // 12 / pitch².
    assert_eq!(hits.weight(), [48.0; 2]);
    let group = usize::from(tables.slots()[0].group);
    assert_eq!(hits.range(0, group), 0..2);
    assert_eq!([Count::Banks, Count::Strips].map(|count| report.total(count)), [1, 3]);
    assert!(!report.has_trouble());
}

/// Lane 0 with these hits.
fn lane_0(hits: impl IntoIterator<Item = (u16, u8)>) -> Bank {
    let mut lanes: [Vec<(u16, u8)>; 6] = Default::default();
    lanes[0] = hits.into_iter().collect();
    v5(0, &v5_payload(&lanes))
}

#[test]
fn a_position_is_the_mean_of_the_strips_whatever_their_charge_or_each_strip_as_one_asks() {
    let geometric = DecodeOptions { position: Position::Geometric, ..DecodeOptions::default() };
    let unclustered = DecodeOptions { clustering: false, ..DecodeOptions::default() };
    // So many strips that several warps read them, each with another charge than the one before.
    let long = lane_0((100..220).map(|strip| (strip, 1 + (strip * strip % 31) as u8)));
    for (options, bank, strips) in [
        (geometric, v5(0, &BANK), &[100.5, 300.0][..]),
        (geometric, long, &[159.5]),
        (unclustered, v5(0, &BANK), &[100.0, 101.0, 300.0]),
    ] {
        let (hits, _) = decoded_with(options, &detector(BankVersion::V5).0, vec![bank]);
        let expected: Vec<f32> = strips.iter().map(|strip| 10.0 + strip * 0.125).collect();
        assert_eq!(hits.x_at_y_eq0(), expected);
    }
}

#[test]
fn clusters_of_more_strips_than_usual_are_hits_where_they_may_be_as_long() {
    // On twelve lanes, so that a warp has a whole one.
    let bank = |board: u16| {
        let lane = |lane: u16| (100 + 10 * lane + board..354 + 10 * lane + board).map(|strip| (strip, 31)).collect();
        v5(board, &v5_payload(&[lane(0), lane(1), lane(2), lane(3), vec![], vec![]]))
    };
    for (max_cluster_size, n_hits) in [(253, 0), (254, 12)] {
        let max_cluster_size = max_cluster_size.try_into().expect("not 0");
        let options = DecodeOptions { max_cluster_size, ..DecodeOptions::default() };
        let (hits, report) = decoded_with(options, &detector(BankVersion::V5).0, (0..3).map(bank).collect());
        assert_eq!((hits.len(), report.has_trouble()), (n_hits, false));
    }
}

#[test]
fn a_detector_whose_lanes_the_threads_of_a_block_share_evenly_is_decoded() {
    let (mut boards, geometry) = ut_decoding::synth::detector(BankVersion::V5, 1);
    let connected: Vec<usize> = (0..boards.lanes.len()).filter(|&slot| boards.lanes[slot].is_connected()).collect();
    // A multiple of 128.
    for &slot in &connected[1152..] {
        boards.lanes[slot] = Lane::default();
    }
    let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("a good detector");
    assert_eq!(decoded(&tables, vec![v5(0, &BANK), v5(150, &BANK)]).0.len(), 4);
}

#[test]
fn a_v4_bank_gives_a_hit_a_cluster_word() {
    let (tables, channel) = detector(BankVersion::V4);
    // Channel 77 and two quarters of a strip; strips count from 1.
    let bank = Bank { kind: 66, version: 3, source_id: 0, payload: v4_payload(&[77 << 2 | 2]) };
    let (hits, report) = decoded(&tables, vec![bank]);
    assert_eq!(hits.id(), [3 << 28 | (channel + 77)]);
    assert_eq!(hits.x_at_y_eq0(), [10.0 + 78.5 * 0.125]);
    assert!(!report.has_trouble());
}

#[test]
fn v4_words_of_a_lane_that_comes_twice_are_all_hits() {
    let payload = v4_payload(&[77 << 2, 600 << 2, 78 << 2]);
    let bank = Bank { kind: 66, version: 3, source_id: 0, payload };
    let (hits, report) = decoded(&detector(BankVersion::V4).0, vec![bank]);
    assert_eq!((hits.len(), report.has_trouble()), (3, false));
}

#[test]
fn a_v4_bank_of_more_than_255_words_gives_them_all() {
    let (tables, _) = detector(BankVersion::V4);
    let board =
        (0..tables.boards().n_boards()).find(|board| tables.slots()[6 * board..][..6].iter().all(Slot::is_connected));
    // 60 words on each lane, and on each lane other strips: those of the last begin behind 300 words.
    let words: Vec<u16> = (0..6).flat_map(|lane| (0..60).map(move |i| (512 * lane + 8 * i + lane) << 2 | 1)).collect();
    let source_id = board.expect("a board with six lanes") as u16;
    let bank = Bank { kind: 66, version: 3, source_id, payload: v4_payload(&words) };
    let (hits, report) = decoded(&tables, vec![bank]);
    assert_eq!((hits.len(), report.has_trouble()), (360, false));
}

/// Found by fuzzing: AVX2 and AVX-512 look at 16 words at a time, and missed that the lane falls between two such vectors.
#[test]
fn v4_words_whose_lanes_are_in_order_but_for_one_step_are_all_hits_of_their_lanes() {
    let (tables, _) = detector(BankVersion::V4);
    let board =
        (0..tables.boards().n_boards()).find(|board| tables.slots()[6 * board..][..6].iter().all(Slot::is_connected));
    let source_id = board.expect("a board with six lanes") as u16;
    let hits =
        |words: &[u16]| decoded(&tables, vec![Bank { kind: 66, version: 3, source_id, payload: v4_payload(words) }]).0;
    for n in [1, 15, 16, 17, 31, 32, 33, 48, 64] {
        let [lower, upper] = [512, 3 * 512].map(|lane| (0..n).map(move |i| (lane + 2 * i) << 2));
        let [ordered, swapped] = [lower.clone().chain(upper.clone()), upper.chain(lower)].map(Vec::from_iter);
        assert!(hits(&swapped) == hits(&ordered), "{n} words of a lane before {n} of one before it");
    }
}

#[test]
fn a_v4_bank_cut_within_its_cluster_words_is_dropped() {
    let (tables, _) = detector(BankVersion::V4);
    let payload = v4_payload(&[77 << 2, 78 << 2, 79 << 2]);
    for (kept, n_hits) in [(10, 3), (9, 0), (8, 0), (4, 0), (3, 0)] {
        let bank = Bank { kind: 66, version: 3, source_id: 0, payload: payload[..kept].to_vec() };
        let (hits, report) = decoded(&tables, vec![bank]);
        assert_eq!((hits.len(), report.total(Count::Truncated)), (n_hits, u64::from(n_hits == 0)), "{kept} bytes");
    }
}

/// The hits of an event, and its counts of trouble by name.
fn outcome(event: Event) -> (usize, Vec<(&'static str, u64)>) {
    let (hits, report) = decoded(&detector(BankVersion::V5).0, event);
    (hits.len(), report.totals(Kind::Trouble).filter(|(_, n)| *n > 0).collect())
}

#[test]
fn an_event_without_banks_and_a_bank_without_hits_give_nothing() {
    assert_eq!(outcome(vec![]), (0, vec![]));
    assert_eq!(outcome(vec![v5(0, &[0; 8])]), (0, vec![]));
    assert_eq!(outcome(vec![v5(0, &[])]), (0, vec![]));
    // Bytes 2 and 3 of the header count nothing.
    assert_eq!(outcome(vec![v5(0, &[0, 0, 9, 9, 0, 0, 0, 0])]), (0, vec![]));
}

#[test]
fn a_bank_that_ends_too_early_costs_itself_and_no_other() {
    assert_eq!(outcome(vec![v5(0, &BANK[..63]), v5(1, &BANK)]), (2, vec![("truncated", 1)]));
    // The last four bytes of a row belong to no lane, and 64 bytes hold two rows.
    assert_eq!(outcome(vec![v5(0, &BANK[..64])]), (2, vec![]));
    assert_eq!(outcome(vec![v5(0, &BANK[..23])]), (0, vec![("short", 1)]));
    assert_eq!(outcome(vec![v5(0, &BANK[..24])]), (0, vec![("truncated", 1)]));
}

#[test]
fn a_bank_of_a_header_that_counts_anything_is_short() {
    // Each of the six counts, alone.
    let counts = [0, 1, 4, 5, 6, 7];
    let bank = |(board, &byte): (usize, &usize)| {
        let mut header = [0; 8];
        header[byte] = 1;
        v5(board as u16, &header)
    };
    assert_eq!(outcome(counts.iter().enumerate().map(bank).collect()), (0, vec![("short", 6)]));
}

#[test]
fn a_count_of_255_drops_the_bank() {
    let mut bank = BANK;
    bank[1] = 255;
    assert_eq!(outcome(vec![v5(0, &bank), v5(1, &BANK)]), (2, vec![("bad_header", 1)]));
    // Also where so many hits are there.
    let mut long = lane_0((0..254).map(|i| (2 * i, 9))).payload;
    long.extend([0; 32]);
    // 508 << 5 | 9: one hit more.
    long[8 + 32 * 127 + 20..][..2].copy_from_slice(&[0x89, 0x3F]);
    long[4] = 255;
    assert_eq!(outcome(vec![v5(0, &long), v5(1, &BANK)]), (2, vec![("bad_header", 1)]));
}

#[test]
fn a_board_that_comes_twice_is_decoded_twice_and_counted() {
    assert_eq!(outcome(vec![v5(0, &BANK), v5(0, &BANK)]), (4, vec![("repeated_board", 1)]));
}

#[test]
fn more_banks_than_the_detector_has_boards_cost_no_other_event() {
    let (tables, _) = detector(BankVersion::V5);
    let n = tables.boards().n_boards();
    let surplus = (0..n + 5).map(|i| v5((i % n) as u16, &BANK)).collect();
    let batch = allen_batch(&[surplus, vec![v5(0, &BANK)]]);
    compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
}

#[test]
fn each_hit_on_a_lane_to_which_nothing_is_connected_counts() {
    let (tables, _) = detector(BankVersion::V5);
    let payload = v5_payload(&std::array::from_fn(|lane| vec![(40 * lane as u16, 9)]));
    let event = (0..tables.boards().n_boards()).map(|board| v5(board as u16, &payload)).collect();
    let n_connected = tables.slots().iter().filter(|slot| slot.is_connected()).count();
    let (hits, report) = decoded(&tables, event);
    assert_eq!(hits.len(), n_connected);
    assert_eq!(report.total(Count::UnconnectedHits), (tables.slots().len() - n_connected) as u64);
}

#[test]
fn hundreds_of_events_with_trouble_are_decoded_one_by_one() {
    // More than blocks work on them at a time: each finds nothing of the one before.
    let (tables, _) = detector(BankVersion::V5);
    let event = |i: u16| {
        let lanes = std::array::from_fn(|lane| (0..(i + lane as u16) % 4).map(|strip| (9 * strip + i, 9)).collect());
        let bank = v5(i % 3, &v5_payload(&lanes));
        vec![bank.clone(), bank, v5(150, &BANK[..63])]
    };
    let batch = allen_batch(&(0..300).map(event).collect::<Vec<_>>());
    compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
}

#[test]
fn a_bank_behind_hundreds_of_other_types_is_decoded() {
    let mut event = vec![Bank { kind: 16, ..v5(0, &[]) }; 300];
    event.push(v5(0, &BANK));
    assert_eq!(outcome(event), (2, vec![]));
}

#[test]
fn banks_of_no_board_and_of_another_version_are_left_out() {
    // The first number that no board has, and a large one.
    for board in [detector(BankVersion::V5).0.boards().n_boards() as u16, 2047] {
        assert_eq!(outcome(vec![v5(board, &BANK), v5(0, &BANK)]), (2, vec![("unknown_board", 1)]));
    }
    assert_eq!(outcome(vec![Bank { version: 3, ..v5(0, &BANK) }]), (0, vec![("wrong_version", 1)]));
    assert_eq!(outcome(vec![Bank { kind: 16, ..v5(0, &BANK) }]), (0, vec![]));
    // UTError banks are decoded as UT banks are.
    assert_eq!(outcome(vec![Bank { kind: 68, ..v5(0, &BANK) }]), (2, vec![]));
}

#[test]
fn a_board_that_is_not_in_use_is_of_no_board() {
    let (mut boards, geometry) = ut_decoding::synth::detector(BankVersion::V5, 1);
    boards.strips_per_hybrid[1] = 0;
    let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("a good detector");
    let (hits, report) = decoded(&tables, vec![v5(1, &BANK), v5(0, &BANK)]);
    assert_eq!((hits.len(), report.total(Count::UnknownBoard)), (2, 1));
}

#[test]
fn what_is_no_good_cluster_is_counted_and_what_follows_is_a_cluster_again() {
    let strips = |range: std::ops::Range<u16>| range.map(|strip| (strip, 1)).collect::<Vec<_>>();
    let counts = [Count::UnsortedLanes, Count::OversizedClusters, Count::ZeroChargeClusters];
    for (what, hits, n_hits, expected) in [
        ("strips that descend, and one that comes twice", vec![(101, 30), (100, 10), (100, 10)], 3, [1, 0, 0]),
        ("strips that descend", vec![(101, 30), (100, 10)], 2, [1, 0, 0]),
        ("a strip that comes twice", vec![(100, 10), (100, 10)], 2, [1, 0, 0]),
        ("a cluster without charge", vec![(100, 0), (101, 0), (200, 5)], 1, [0, 0, 1]),
        ("the longest cluster", strips(0..128), 1, [0, 0, 0]),
        ("a strip too many", strips(0..129), 0, [0, 1, 0]),
        ("a strip too many, and another cluster", [strips(0..140), strips(150..152)].concat(), 1, [0, 1, 0]),
        ("the longest lane", strips(0..254), 0, [0, 1, 0]),
        ("the longest lane with a gap", [strips(0..127), strips(128..255)].concat(), 2, [0, 0, 0]),
    ] {
        let (hits, report) = decoded(&detector(BankVersion::V5).0, vec![lane_0(hits)]);
        assert_eq!((hits.len(), counts.map(|count| report.total(count))), (n_hits, expected), "{what}");
        assert_eq!(report.has_trouble(), expected[0] > 0, "{what}");
    }
}

/// A detector and two lanes of one group, whose sectors begin at these x and have a strip every eighth of a millimetre: the
/// first has the smaller ids.
fn two_lanes_of_a_group(p0_x: [f32; 2]) -> (DetectorTables, [usize; 2]) {
    let (boards, mut geometry) = ut_decoding::synth::detector(BankVersion::V5, 1);
    let tables = DetectorTables::new(boards.clone(), geometry.clone(), Grouping::YRows).expect("a good detector");
    let of_group =
        |slot: &usize| tables.slots()[*slot].group == tables.slots()[0].group && boards.lanes[*slot].chan_id != 0;
    let mut slots: Vec<usize> = (0..boards.lanes.len()).filter(of_group).collect();
    slots.sort_by_key(|&slot| boards.lanes[slot].channel());
    slots.dedup_by_key(|slot| boards.lanes[*slot].channel());
    for (&slot, p0_x) in slots[..2].iter().zip(p0_x) {
        let id = ut_decoding::detector::sector_id(&boards.lanes[slot]).expect("the lane is connected");
        let sector = &mut geometry.sectors[usize::from(id)];
        (sector.p0_x, sector.dp0di_x, sector.p0_z, sector.first_strip) = (p0_x, 0.125, 2000.0, 0);
    }
    let tables = DetectorTables::trusting(boards, geometry, Grouping::YRows).expect("a good detector");
    (tables, [slots[0], slots[1]])
}

/// An event with these strips on two lanes.
fn on_lanes([a, b]: [usize; 2], strips: [Vec<u16>; 2]) -> Event {
    let [of_a, of_b] = strips.map(|strips| strips.into_iter().map(|strip| (strip, 9)).collect());
    let mut payloads: [[Vec<(u16, u8)>; 6]; 2] = Default::default();
    payloads[0][a % 6] = of_a;
    payloads[usize::from(a / 6 != b / 6)][b % 6] = of_b;
    let mut event = vec![v5((a / 6) as u16, &v5_payload(&payloads[0]))];
    if a / 6 != b / 6 {
        event.push(v5((b / 6) as u16, &v5_payload(&payloads[1])));
    }
    event
}

#[test]
fn of_two_hits_with_the_same_x_that_with_the_smaller_id_comes_first() {
    // The one with the larger ids begins at a smaller x, so that its hits are made first.
    let (tables, lanes) = two_lanes_of_a_group([10.5, 10.0]);
    let (hits, _) = decoded(&tables, on_lanes(lanes, [vec![100], vec![104]]));
    assert_eq!(hits.x_at_y_eq0(), [10.0 + 104.0 * 0.125; 2]);
    assert!(hits.id()[0] < hits.id()[1]);
}

#[test]
fn hits_with_the_same_x_at_the_ends_of_two_runs_of_32_are_ordered_by_id() {
    // 40 hits, of which the 32nd lies at 20.0 + 62 / 8; then others from there on, with smaller ids.
    let (tables, lanes) = two_lanes_of_a_group([20.0 + 62.0 / 8.0, 20.0]);
    let (hits, report) = decoded(&tables, on_lanes(lanes, [vec![0, 100], (0..40).map(|i| 2 * i).collect()]));
    assert!(!report.has_trouble());
    assert_eq!(hits.x_at_y_eq0()[31..33], [20.0 + 62.0 / 8.0; 2]);
    assert!(hits.id()[31] < hits.id()[32]);
}

#[test]
fn lanes_that_overlap_are_in_order_where_one_ends_a_window() {
    // 200 hits each: more than a window of 256 strips takes of both. Only the first of the second lane has a smaller x than
    // the one before it.
    let (tables, lanes) = two_lanes_of_a_group([20.0, 20.0 + 397.0 / 8.0]);
    let strips = || (0..200).map(|i| 2 * i).collect();
    let (hits, report) = decoded(&tables, on_lanes(lanes, [strips(), strips()]));
    assert!(!report.has_trouble());
    assert!(hits.x_at_y_eq0().windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn lanes_that_overlap_are_in_order_wherever_one_ends() {
    let (tables, lanes) = two_lanes_of_a_group([20.0, 20.0 + 199.0 / 8.0]);
    // Every number of hits before the only one that has a smaller x than the one before it.
    // (And others behind, so that a warp has more than 32.)
    let behind = || (150..210).map(|i| 2 * i);
    let event =
        |n: u16| on_lanes(lanes, [(101 - n..101).map(|i| 2 * i).collect(), [0].into_iter().chain(behind()).collect()]);
    let batch = allen_batch(&(1..=70).map(event).collect::<Vec<_>>());
    compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
}

#[test]
fn two_lanes_of_a_sector_may_see_the_same_strip_among_many_others() {
    let tables = tables(BankVersion::V5);
    let lanes = &tables.boards().lanes;
    let channel = |slot: &usize| lanes[*slot].channel();
    let mut slots: Vec<usize> = (0..lanes.len()).filter(|&slot| lanes[slot].is_connected()).collect();
    slots.sort_by_key(channel);
    let pairs: Vec<[usize; 2]> =
        slots.windows(2).filter(|pair| channel(&pair[0]) == channel(&pair[1])).map(|pair| [pair[0], pair[1]]).collect();
    let many = || (0..45).map(|i| 4 * i).collect();
    for [a, b] in [pairs[0], pairs[pairs.len() - 1]] {
        // (Which of the two comes first, and which of its strips: from all sides.)
        let events = [[vec![0], many()], [many(), vec![0]], [vec![176], many()], [many(), vec![176]]];
        let batch = allen_batch(&events.map(|strips| on_lanes([a, b], strips)));
        compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
    }
    // In two groups of an event.
    let group = |pair: &[usize; 2]| tables.slots()[pair[0]].group;
    let boards_of = |pair: &[usize; 2]| pair.map(|slot| slot / 6);
    let other = pairs.iter().find(|other| {
        group(other) != group(&pairs[0]) && boards_of(other).iter().all(|board| !boards_of(&pairs[0]).contains(board))
    });
    let both = [pairs[0], *other.expect("there are many")].map(|pair| on_lanes(pair, [vec![7], vec![7]])).concat();
    compare(&tables, DecodeOptions::default(), allen_batch(&[both, vec![v5(0, &BANK)]]).view()).unwrap();
}

#[test]
fn a_fault_at_the_beginning_of_a_long_event_is_seen() {
    let good = |range: std::ops::Range<u16>| range.map(|i| (2 * i, 9));
    // Unsorted, without charge, too long: then as many good strips as a lane can have.
    for fault in [vec![(1, 9), (0, 9)], vec![(1, 0)], (0..129).map(|strip| (strip, 9)).collect()] {
        let used = fault.len() as u16;
        decoded(&detector(BankVersion::V5).0, vec![lane_0(fault.into_iter().chain(good(used..250)))]);
    }
    // The first of more banks than a small block has threads.
    let mut event: Event = (0..100).map(|board| v5(board, &[0; 8])).collect();
    event[0] = v5(0, &BANK[..63]);
    assert_eq!(outcome(event), (0, vec![("truncated", 1)]));
}

#[test]
fn of_two_hits_with_one_key_that_with_the_smaller_position_comes_first() {
    let (boards, mut geometry) = ut_decoding::synth::detector(BankVersion::V5, 1);
    let id = ut_decoding::detector::sector_id(&boards.lanes[0]).expect("the lane is connected");
    let sector = &mut geometry.sectors[usize::from(id)];
    // One x for all strips, but each its own y.
    (sector.p0_x, sector.dp0di_x, sector.p0_y, sector.dp0di_y) = (10.0, 1e-9, 5.0, 0.25);
    let tables = DetectorTables::trusting(boards, geometry, Grouping::YRows).expect("a good detector");
    // Means of 100.75 and 100.67: strip 101 both times. The board comes twice, so that one event can have both.
    let banks = [30, 20].map(|adc| lane_0([(100, 10), (101, adc)]));
    for order in [[0, 1], [1, 0]] {
        let (hits, _) = decoded(&tables, order.map(|i| banks[i].clone()).to_vec());
        assert_eq!((hits.id()[0], hits.x_at_y_eq0()[0]), (hits.id()[1], hits.x_at_y_eq0()[1]));
        assert!(hits.y_begin()[0] < hits.y_begin()[1], "{order:?}");
    }
}

#[test]
fn what_gives_no_hits_does_not_move_the_hits_of_the_events_behind() {
    for version in [BankVersion::V4, BankVersion::V5] {
        let (mut boards, geometry) = ut_decoding::synth::detector(version, 1);
        let in_use = |boards: &Boards, board: usize| boards.strips_per_hybrid.get(board).is_some_and(|&n| n > 0);
        // A lane to which nothing is connected, on a board before one with something on its first.
        let is_wanted = |slot: &usize| {
            let board = slot / 6;
            let (lane, next) = (boards.lanes[*slot], boards.lanes.get(6 * (board + 1)));
            in_use(&boards, board) && !lane.is_connected() && next.is_some_and(Lane::is_connected)
        };
        let slot = (0..boards.lanes.len()).find(is_wanted).expect("such a lane");
        let (board, lane) = ((slot / 6) as u16, slot % 6);
        let unused = if board > 1 { 1 } else { 4 };
        let n_boards = boards.n_boards() as u16;
        boards.strips_per_hybrid[usize::from(unused)] = 0;
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("a good detector");
        let bank = |source_id, payload: &[u8]| Bank { version: version.byte(), ..v5(source_id, payload) };
        let mut lanes: [Vec<(u16, u8)>; 6] = Default::default();
        lanes[lane] = vec![(100, 9)];
        let (good, unconnected, no_lane, nothing) = match version {
            BankVersion::V4 => {
                // Lanes 6 and 7 are of no board.
                let words = [lane as u16, 6, 7].map(|lane| (512 * lane + 100) << 2);
                (v4_payload(&[77 << 2, 78 << 2]), v4_payload(&words[..1]), v4_payload(&words), v4_payload(&[]))
            }
            BankVersion::V5 => {
                let no_charge = (100..103).map(|strip| (strip, 0));
                let too_long = (200..340).map(|strip| (strip, 1));
                let lost = [no_charge.chain(too_long).collect(), vec![], vec![], vec![], vec![], vec![]];
                (BANK.to_vec(), v5_payload(&lanes), BANK[..8].to_vec(), v5_payload(&lost))
            }
        };
        let without = [
            bank(board, &unconnected),
            bank(board, &no_lane),
            bank(0, &nothing),
            bank(unused, &good),
            bank(n_boards, &good),
            bank(0, &good[..good.len() - good.len().div_ceil(8)]),
            Bank { version: 7, ..bank(0, &good) },
            Bank { kind: 16, ..bank(0, &good) },
        ];
        let events: Vec<Event> = without.into_iter().flat_map(|bad| [vec![bad], vec![bank(0, &good)]]).collect();
        let batch = allen_batch(&events);
        compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
        let (hits, _) = decode(&mut ReferenceDecoder::new(&tables, DecodeOptions::default()), &tables, batch.view());
        assert_eq!(hits.len(), 2 * events.len() / 2, "{version:?}: two hits in every second event");
    }
}
