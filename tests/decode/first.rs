//! Begin here: one bank, byte by byte, and its hits by hand. Then small cases of what can be wrong
//! with a bank.
//!
//! `docs/format.md` says what the bytes mean. Every backend decodes every case.

use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::decoder::{Count, Kind};
use ut_decoding::detector::{BankVersion, Boards, Lane, Slot, sector_id};
use ut_decoding::{BatchReport, DecodeOptions, DetectorTables, EventReport, Position, UtHits};

use crate::suite::backends::{backends, compare, decode};
use crate::suite::events::{
    Bank, Event, VERSIONS, allen_batch, changed, mep_batch, tables, v4_payload, v5, v5_lane,
    v5_payload,
};

/// A v5 bank with three hits on lane 0: strips 100 and 101, which are one cluster, and strip 300.
#[rustfmt::skip]
const BANK: [u8; 72] = [
    // Header: hits of lanes 4 and 5, two bytes of other information, hits of lanes 0, 1, 2, 3.
    0, 0,  0, 0,  3, 0, 0, 0,
    // First row, hits 0 and 1 of each lane: lanes 5, 4, 3, 2, 1, then 0, then four bytes twice that
    // belong to no lane.
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

/// Makes a detector whose sector on lane 0 of board 0 has round numbers; also returns the ChannelID
/// of strip 0 of this sector.
fn detector(version: BankVersion) -> (DetectorTables, u32) {
    let tables = changed(version, |boards, geometry| {
        let id = sector_id(&boards.lanes[0]).expect("the lane is connected");
        let sector = &mut geometry.sectors[usize::from(id)];
        (sector.p0_x, sector.p0_y, sector.p0_z, sector.dy) = (10.0, 5.0, 2000.0, 100.0);
        (sector.dp0di_x, sector.dp0di_y, sector.dp0di_z) = (0.125, 0.25, -0.5);
        (sector.pitch, sector.dx_dy, sector.first_strip) = (0.5, 0.0625, 0);
    });
    let channel = tables.boards().lanes[0].chan_id & !0x1FF;
    (tables, channel)
}

/// Returns the hits and the report of an event after checking that every backend gives the same, in
/// both layouts.
fn decoded(tables: &DetectorTables, event: Event) -> (UtHits, BatchReport) {
    decoded_with(DecodeOptions::default(), tables, event)
}

fn decoded_with(
    options: DecodeOptions,
    tables: &DetectorTables,
    event: Event,
) -> (UtHits, BatchReport) {
    let events = [event];
    let batches = [allen_batch(&events), mep_batch(&events)];
    let mut all = backends().into_iter().flat_map(|(name, make)| {
        let mut decoder = make(tables, options);
        batches.each_ref().map(|batch| {
            (
                name,
                batch.layout,
                decode(&mut *decoder, tables, batch.view()),
            )
        })
    });
    let (_, _, first) = all.next().expect("there is the reference");
    for (name, layout, other) in all {
        assert_eq!(other, first, "{name}, {layout:?}");
    }
    first
}

#[test]
fn a_bank_gives_the_hits_worked_out_by_hand() {
    let (tables, channel) = detector(BankVersion::V5);
    let (hits, report) = decoded(&tables, vec![v5(0, &BANK)]);
    // The first cluster lies at (10 * 100 + 30 * 101) / (10 + 30) = 100.75, its nearest strip is
    // 101; the second at 300.
    assert_eq!(
        hits.id(),
        [3 << 28 | (channel + 101), 3 << 28 | (channel + 300)]
    );
    // Each coordinate is the sector's, plus the position times the step from strip to strip.
    assert_eq!(
        hits.x_at_y_eq0(),
        [10.0 + 100.75 * 0.125, 10.0 + 300.0 * 0.125]
    );
    assert_eq!(
        hits.z_at_y_eq0(),
        [2000.0 - 100.75 * 0.5, 2000.0 - 300.0 * 0.5]
    );
    assert_eq!(hits.y_begin(), [5.0 + 100.75 * 0.25, 5.0 + 300.0 * 0.25]);
    assert_eq!(hits.y_end(), [130.1875, 180.0]);
    assert_eq!(hits.dx_dy(), [0.0625; 2]);
    // 12 / pitch².
    assert_eq!(hits.weight(), [48.0; 2]);
    let group = usize::from(tables.slots()[0].group);
    assert_eq!(hits.range(0, group), 0..2);
    assert_eq!(
        [Count::Banks, Count::Strips].map(|count| report.total(count)),
        [1, 3]
    );
    assert!(!report.has_trouble());
}

fn lane_0(hits: impl IntoIterator<Item = (u16, u8)>) -> Bank {
    v5(0, &v5_lane(0, hits))
}

#[test]
fn geometric_positions_are_the_mean_of_the_strips_and_without_clustering_each_strip_counts() {
    let geometric = DecodeOptions::default().with_position(Position::Geometric);
    let unclustered = DecodeOptions::default().with_clustering(false);
    // Several warps read these strips, and neighbouring strips have different charges.
    // 120 strips are almost four warps; the mean of the strips is (100 + 219) / 2 = 159.5, and the
    // mean by charge is another.
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

/// Covers the last round of a loop over lanes. The detector has 1,192 of these, 9 * 128 + 40, so
/// that in rounds of 128 the last one is never full. With 1,152 lanes it is, and a loop that ends
/// one round early or late shows.
#[test]
fn a_detector_whose_lanes_fill_a_block_evenly_is_decoded() {
    let tables = changed(BankVersion::V5, |boards, _| {
        let connected: Vec<usize> = (0..boards.lanes.len())
            .filter(|&slot| boards.lanes[slot].is_connected())
            .collect();
        // A multiple of 128.
        connected[1152..]
            .iter()
            .for_each(|&slot| boards.lanes[slot] = Lane::default());
    });
    assert_eq!(
        decoded(&tables, vec![v5(0, &BANK), v5(150, &BANK)]).0.len(),
        4
    );
}

fn v4(source_id: u16, words: &[u16]) -> Bank {
    Bank::new(BankVersion::V4, source_id, v4_payload(words))
}

#[test]
fn a_v4_bank_gives_one_hit_per_cluster_word() {
    let (tables, channel) = detector(BankVersion::V4);
    // Channel 77 and two quarters of a strip; strips count from 1.
    let (hits, report) = decoded(&tables, vec![v4(0, &[77 << 2 | 2])]);
    assert_eq!(hits.id(), [3 << 28 | (channel + 77)]);
    assert_eq!(hits.x_at_y_eq0(), [10.0 + 78.5 * 0.125]);
    assert!(!report.has_trouble());
    // Cut within its words it is dropped.
    for (kept, n_hits) in [(10, 3), (9, 0), (8, 0), (4, 0), (3, 0)] {
        let mut bank = v4(0, &[77 << 2, 78 << 2, 79 << 2]);
        bank.payload.truncate(kept);
        let (hits, report) = decoded(&tables, vec![bank]);
        assert_eq!(
            (hits.len(), report.total(Count::Truncated)),
            (n_hits, u64::from(n_hits == 0)),
            "{kept} bytes"
        );
    }
}

/// Found by fuzzing: AVX2 and AVX-512 look at 16 words at a time, and missed that the lane falls
/// between two such vectors.
#[test]
fn v4_words_with_one_lane_out_of_order_are_hits_of_their_lanes() {
    let (tables, _) = detector(BankVersion::V4);
    let board = tables
        .slots()
        .chunks(6)
        .position(|slots| slots.iter().all(Slot::is_connected))
        .expect("six lanes");
    let hits = |words: &[u16]| decoded(&tables, vec![v4(board as u16, words)]).0;
    for n in [1, 15, 16, 17, 31, 32, 33, 48, 64] {
        let [lower, upper] = [512, 3 * 512].map(|lane| (0..n).map(move |i| (lane + 2 * i) << 2));
        let [ordered, swapped] =
            [lower.clone().chain(upper.clone()), upper.chain(lower)].map(Vec::from_iter);
        assert!(
            hits(&swapped) == hits(&ordered),
            "{n} words of a lane before {n} of one before it"
        );
    }
}

/// Returns the number of hits of each event and its counts of trouble by name: decoded in one
/// batch, and checked event by event in MEP layout.
fn outcomes(events: &[Event]) -> Vec<(usize, Vec<(&'static str, u32)>)> {
    let (tables, mut expected) = (tables(BankVersion::V5), None);
    let trouble = |report: &EventReport| {
        let troubles = Count::ALL
            .into_iter()
            .filter(|count| count.kind() == Kind::Trouble);
        troubles
            .map(|count| (count.name(), report.get(count)))
            .filter(|(_, n)| *n > 0)
            .collect::<Vec<_>>()
    };
    for (name, make) in backends() {
        let mut decoder = make(&tables, DecodeOptions::default());
        let (hits, report) = decode(&mut *decoder, &tables, allen_batch(events).view());
        let all: Vec<_> = report
            .events
            .iter()
            .enumerate()
            .map(|(e, of)| (hits.of_event(e).len(), trouble(of)))
            .collect();
        for (event, expected) in events.iter().zip(&all) {
            let (hits, report) = decode(
                &mut *decoder,
                &tables,
                mep_batch(std::slice::from_ref(event)).view(),
            );
            assert_eq!(
                (hits.len(), trouble(&report.events[0])),
                *expected,
                "{name}, {event:?}"
            );
        }
        let expected = expected.get_or_insert_with(|| (hits.clone(), all.clone()));
        assert!(*expected == (hits, all), "{name}");
    }
    expected.expect("there is the reference").1
}

type Case = (Event, usize, &'static [(&'static str, u32)]);

#[test]
fn every_row_of_the_policy_table_is_followed() {
    let n_boards = tables(BankVersion::V5).boards().n_boards() as u16;
    let mut count_255 = BANK;
    count_255[1] = 255;
    // A count of 255 is bad even if 255 hits are there; 508 << 5 | 9 is the last one.
    let mut long = v5_lane(0, (0..254).map(|i| (2 * i, 9)));
    long.extend([0; 32]);
    long[8 + 32 * 127 + 20..][..2].copy_from_slice(&[0x89, 0x3F]);
    long[4] = 255;
    // Each of the six counts, alone.
    let headers = [0, 1, 4, 5, 6, 7]
        .into_iter()
        .zip(0..)
        .map(|(byte, board)| {
            let mut header = [0; 8];
            header[byte] = 1;
            v5(board, &header)
        });
    let good = || v5(0, &BANK);
    let surplus = (0..n_boards + 5)
        .map(|i| v5(i % n_boards, &[0; 8]))
        .collect();
    let mut behind = vec![
        Bank {
            kind: 16,
            ..v5(0, &[])
        };
        300
    ];
    behind.push(good());
    // The first of more banks than a small block has threads.
    let mut first = (0..100).map(|board| v5(board, &[0; 8])).collect::<Event>();
    first[0] = v5(0, &BANK[..63]);
    let cases: [Case; 24] = [
        (vec![], 0, &[]),
        (vec![v5(0, &[0; 8])], 0, &[]),
        (vec![v5(0, &[])], 0, &[]),
        // Bytes 2 and 3 of the header count nothing.
        (vec![v5(0, &[0, 0, 9, 9, 0, 0, 0, 0])], 0, &[]),
        (
            vec![v5(0, &BANK[..63]), v5(1, &BANK)],
            2,
            &[("truncated", 1)],
        ),
        // The last four bytes of a row belong to no lane, and 64 bytes hold two rows.
        (vec![v5(0, &BANK[..64])], 2, &[]),
        (vec![v5(0, &BANK[..23])], 0, &[("short", 1)]),
        (vec![v5(0, &BANK[..24])], 0, &[("truncated", 1)]),
        (headers.collect(), 0, &[("short", 6)]),
        (
            vec![v5(0, &count_255), v5(1, &BANK)],
            2,
            &[("bad_header", 1)],
        ),
        (vec![v5(0, &long), v5(1, &BANK)], 2, &[("bad_header", 1)]),
        (vec![good(), good()], 4, &[("repeated_board", 1)]),
        (surplus, 0, &[("surplus_banks", 5)]),
        (behind, 2, &[]),
        (first, 0, &[("truncated", 1)]),
        // The first number that no board has, and a large one.
        (
            vec![v5(n_boards, &BANK), good()],
            2,
            &[("unknown_board", 1)],
        ),
        (vec![v5(2047, &BANK), good()], 2, &[("unknown_board", 1)]),
        (
            vec![Bank {
                version: 3,
                ..good()
            }],
            0,
            &[("wrong_version", 1)],
        ),
        (vec![Bank { kind: 16, ..good() }], 0, &[]),
        // UTError banks are decoded as UT banks are.
        (vec![Bank { kind: 68, ..good() }], 2, &[]),
        // Strips that descend, one that comes twice, and both.
        (
            vec![lane_0([(101, 30), (100, 10)])],
            2,
            &[("unsorted_lanes", 1)],
        ),
        (
            vec![lane_0([(100, 10), (100, 10)])],
            2,
            &[("unsorted_lanes", 1)],
        ),
        (
            vec![lane_0([(101, 30), (100, 10), (100, 10)])],
            3,
            &[("unsorted_lanes", 1)],
        ),
        // A good one is not hurt by those before it.
        (vec![good()], 2, &[]),
    ];
    let events = cases.each_ref().map(|(event, ..)| event.clone());
    for (found, (event, hits, trouble)) in outcomes(&events).into_iter().zip(cases) {
        assert_eq!(
            found,
            (hits, trouble.to_vec()),
            "{} banks, {:?}",
            event.len(),
            event.first()
        );
    }
}

#[test]
fn hundreds_of_events_with_trouble_are_decoded_one_by_one() {
    // There are more events than blocks at work, so blocks take several events, and must find
    // nothing left over from the previous event.
    let event = |i: u16| {
        let lanes = std::array::from_fn(|lane| {
            (0..(i + lane as u16) % 4)
                .map(|strip| (9 * strip + i, 9))
                .collect()
        });
        let bank = v5(i % 3, &v5_payload(&lanes));
        vec![bank.clone(), bank, v5(150, &BANK[..63])]
    };
    let batch = allen_batch(&(0..300).map(event).collect::<Vec<_>>());
    compare(
        &tables(BankVersion::V5),
        DecodeOptions::default(),
        batch.view(),
    )
    .unwrap();
}

#[test]
fn an_invalid_cluster_is_counted_and_the_next_cluster_is_decoded() {
    let strips = |range: std::ops::Range<u16>| range.map(|strip| (strip, 1)).collect::<Vec<_>>();
    let counts = [Count::OversizedClusters, Count::ZeroChargeClusters];
    for (what, hits, n_hits, expected) in [
        (
            "a cluster without charge",
            vec![(100, 0), (101, 0), (200, 5)],
            1,
            [0, 1],
        ),
        ("the longest cluster", strips(0..128), 1, [0, 0]),
        ("a strip too many", strips(0..129), 0, [1, 0]),
        (
            "a strip too many, and another cluster",
            [strips(0..140), strips(150..152)].concat(),
            1,
            [1, 0],
        ),
        ("the longest lane", strips(0..254), 0, [1, 0]),
        (
            "the longest lane with a gap",
            [strips(0..127), strips(128..255)].concat(),
            2,
            [0, 0],
        ),
    ] {
        let (hits, report) = decoded(&tables(BankVersion::V5), vec![lane_0(hits)]);
        assert_eq!(
            (hits.len(), counts.map(|count| report.total(count))),
            (n_hits, expected),
            "{what}"
        );
        assert!(!report.has_trouble(), "{what}");
    }
    // Unsorted, without charge, too long: then as many good strips as a lane can have.
    for fault in [
        vec![(1, 9), (0, 9)],
        vec![(1, 0)],
        (0..129).map(|strip| (strip, 9)).collect(),
    ] {
        let good = (fault.len() as u16..250).map(|i| (2 * i, 9));
        decoded(
            &tables(BankVersion::V5),
            vec![lane_0(fault.into_iter().chain(good))],
        );
    }
}

/// Makes a detector and two lanes of one group, whose sectors begin at these x and have a strip
/// every eighth of a millimetre. The first lane has the smaller ids.
fn two_lanes_of_a_group(p0_x: [f32; 2]) -> (DetectorTables, [usize; 2]) {
    let tables = tables(BankVersion::V5);
    let (lanes, group) = (&tables.boards().lanes, tables.slots()[0].group);
    let of_group = |slot: &usize| tables.slots()[*slot].group == group && lanes[*slot].chan_id != 0;
    let mut slots: Vec<usize> = (0..lanes.len()).filter(of_group).collect();
    slots.sort_by_key(|&slot| lanes[slot].channel());
    slots.dedup_by_key(|slot| lanes[*slot].channel());
    let tables = changed(BankVersion::V5, |boards, geometry| {
        for (&slot, p0_x) in slots[..2].iter().zip(p0_x) {
            let id = sector_id(&boards.lanes[slot]).expect("the lane is connected");
            let sector = &mut geometry.sectors[usize::from(id)];
            (sector.p0_x, sector.dp0di_x, sector.p0_z, sector.first_strip) =
                (p0_x, 0.125, 2000.0, 0);
        }
    });
    (tables, [slots[0], slots[1]])
}

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
fn hits_of_lanes_that_overlap_are_ordered_by_x_and_by_id_wherever_a_lane_or_a_window_ends() {
    let every_second = |from: u16, to: u16| (from..to).map(|i| 2 * i).collect::<Vec<u16>>();
    // Any number of hits before the only one of the second lane that has a smaller x than the one
    // before it; and others behind, so that a warp has more than 32.
    let behind = || [vec![0], every_second(150, 210)].concat();
    let any = (1..=70)
        .map(|n| [every_second(101 - n, 101), behind()])
        .collect();
    // Strip `s` of a lane lies at `p0_x + s / 8`, which is exact in an `f32`, so that equal x are
    // equal bits. In the first case, strip 100 of the lane at 10.5 and strip 104 of the lane at 10
    // both have an x of 23. In the second, strip 0 of the first lane meets strip 62 of the second,
    // which is hit 31 of that lane, the last in a run of 32. In the third, 400 strips are more than
    // a window of 256, and strip 0 of the second lane falls between strips 396 and 398 of the
    // first. In the last, it falls between strips 198 and 200.
    for (p0_x, cases) in [
        // Equal x: the lane with the larger ids begins at a smaller x, so that its hits are made
        // first.
        ([10.5, 10.0], vec![[vec![100], vec![104]]]),
        // Equal x at the ends of two runs of 32.
        (
            [20.0 + 62.0 / 8.0, 20.0],
            vec![[vec![0, 100], every_second(0, 40)]],
        ),
        // More hits than a window of 256 strips takes of both lanes.
        (
            [20.0, 20.0 + 397.0 / 8.0],
            vec![[every_second(0, 200), every_second(0, 200)]],
        ),
        ([20.0, 20.0 + 199.0 / 8.0], any),
    ] {
        let (tables, lanes) = two_lanes_of_a_group(p0_x);
        let events: Vec<Event> = cases
            .into_iter()
            .map(|strips| on_lanes(lanes, strips))
            .collect();
        let batch = allen_batch(&events);
        compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
        let mut reference = ReferenceDecoder::new(&tables, DecodeOptions::default());
        let (hits, report) = decode(&mut reference, &tables, batch.view());
        let ordered = |e| {
            hits.of_event(e)
                .is_sorted_by_key(|hit| (hit.x_at_y_eq0.to_bits(), hit.id.0))
        };
        assert!(
            !report.has_trouble() && (0..events.len()).all(ordered),
            "{p0_x:?}"
        );
    }
}

#[test]
fn two_lanes_of_a_sector_may_see_the_same_strip_among_many_others() {
    let tables = tables(BankVersion::V5);
    let lanes = &tables.boards().lanes;
    let channel = |slot: &usize| lanes[*slot].channel();
    let mut slots: Vec<usize> = (0..lanes.len())
        .filter(|&slot| lanes[slot].is_connected())
        .collect();
    slots.sort_by_key(channel);
    let pairs: Vec<[usize; 2]> = slots
        .windows(2)
        .filter(|pair| channel(&pair[0]) == channel(&pair[1]))
        .map(|pair| [pair[0], pair[1]])
        .collect();
    let many = || (0..45).map(|i| 4 * i).collect();
    for [a, b] in [pairs[0], pairs[pairs.len() - 1]] {
        // (Which of the two comes first, and which of its strips: from all sides.)
        let events = [
            [vec![0], many()],
            [many(), vec![0]],
            [vec![176], many()],
            [many(), vec![176]],
        ];
        let batch = allen_batch(&events.map(|strips| on_lanes([a, b], strips)));
        compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
    }
    // In two groups of an event.
    let group = |pair: &[usize; 2]| tables.slots()[pair[0]].group;
    let boards_of = |pair: &[usize; 2]| pair.map(|slot| slot / 6);
    let other = pairs.iter().find(|other| {
        group(other) != group(&pairs[0])
            && boards_of(other)
                .iter()
                .all(|board| !boards_of(&pairs[0]).contains(board))
    });
    let both = [pairs[0], *other.expect("there are many")]
        .map(|pair| on_lanes(pair, [vec![7], vec![7]]))
        .concat();
    compare(
        &tables,
        DecodeOptions::default(),
        allen_batch(&[both, vec![v5(0, &BANK)]]).view(),
    )
    .unwrap();
}

#[test]
fn of_two_hits_with_equal_keys_the_smaller_position_comes_first() {
    let tables = changed(BankVersion::V5, |boards, geometry| {
        let id = sector_id(&boards.lanes[0]).expect("the lane is connected");
        let sector = &mut geometry.sectors[usize::from(id)];
        // One x for all strips, but each its own y.
        (sector.p0_x, sector.dp0di_x, sector.p0_y, sector.dp0di_y) = (10.0, 1e-9, 5.0, 0.25);
    });
    // Means of 100.75 and 100.67: strip 101 both times. The board comes twice, so that one event
    // can have both.
    let banks = [30, 20].map(|adc| lane_0([(100, 10), (101, adc)]));
    for order in [[0, 1], [1, 0]] {
        let (hits, _) = decoded(&tables, order.map(|i| banks[i].clone()).to_vec());
        assert_eq!(
            (hits.id()[0], hits.x_at_y_eq0()[0]),
            (hits.id()[1], hits.x_at_y_eq0()[1])
        );
        assert!(hits.y_begin()[0] < hits.y_begin()[1], "{order:?}");
    }
}

#[test]
fn events_without_hits_do_not_move_the_hits_of_later_events() {
    for version in VERSIONS {
        let (boards, _) = ut_decoding::synth::detector(version, 1);
        let in_use = |boards: &Boards, board: usize| {
            boards.strips_per_hybrid.get(board).is_some_and(|&n| n > 0)
        };
        // A lane to which nothing is connected, on a board before one with something on its first.
        let is_wanted = |slot: &usize| {
            let board = slot / 6;
            let (lane, next) = (boards.lanes[*slot], boards.lanes.get(6 * (board + 1)));
            in_use(&boards, board) && !lane.is_connected() && next.is_some_and(Lane::is_connected)
        };
        let slot = (0..boards.lanes.len())
            .find(is_wanted)
            .expect("such a lane");
        let (board, lane) = ((slot / 6) as u16, slot % 6);
        let unused = if board > 1 { 1 } else { 4 };
        let n_boards = boards.n_boards() as u16;
        let tables = changed(version, |boards, _| {
            boards.strips_per_hybrid[usize::from(unused)] = 0;
        });
        let bank = |source_id, payload: &[u8]| Bank::new(version, source_id, payload.to_vec());
        let (good, unconnected, no_lane, nothing) = match version {
            BankVersion::V4 => {
                // Lanes 6 and 7 are of no board.
                let words = [lane as u16, 6, 7].map(|lane| (512 * lane + 100) << 2);
                (
                    v4_payload(&[77 << 2, 78 << 2]),
                    v4_payload(&words[..1]),
                    v4_payload(&words),
                    v4_payload(&[]),
                )
            }
            BankVersion::V5 => {
                let no_charge = (100..103).map(|strip| (strip, 0));
                let too_long = (200..340).map(|strip| (strip, 1));
                let lost = v5_lane(0, no_charge.chain(too_long));
                (
                    BANK.to_vec(),
                    v5_lane(lane, [(100, 9)]),
                    BANK[..8].to_vec(),
                    lost,
                )
            }
        };
        let without = [
            bank(board, &unconnected),
            bank(board, &no_lane),
            bank(0, &nothing),
            bank(unused, &good),
            bank(n_boards, &good),
            bank(0, &good[..good.len() - good.len().div_ceil(8)]),
            Bank {
                version: 7,
                ..bank(0, &good)
            },
            Bank {
                kind: 16,
                ..bank(0, &good)
            },
        ];
        let events: Vec<Event> = without
            .into_iter()
            .flat_map(|bad| [vec![bad], vec![bank(0, &good)]])
            .collect();
        let batch = allen_batch(&events);
        compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
        let (hits, _) = decode(
            &mut ReferenceDecoder::new(&tables, DecodeOptions::default()),
            &tables,
            batch.view(),
        );
        assert_eq!(
            hits.len(),
            2 * events.len() / 2,
            "{version:?}: two hits in every second event"
        );
    }
}
