//! What people look at: troubles bank by bank, and what the hits of a run add up to.

use crate::suite::backends::decode;
use crate::suite::events::{Event, allen_batch, generated};
use crate::suite::nasty;
use proptest::test_runner::TestRunner;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::decoder::{Count, EventReport, Kind};
use ut_decoding::detector::BankVersion;
use ut_decoding::views::{self, Against, BankTrouble, MOST_BINS, Neighbours, RunFiller, RunView};
use ut_decoding::{Bank, BatchReport, CpuConfig, CpuDecoder, DecodeOptions, Decoder, DetectorTables, Grouping, UtHits};

fn tables(version: BankVersion) -> DetectorTables {
    let (boards, geometry) = ut_decoding::synth::detector(version, 1);
    DetectorTables::new(boards, geometry, Grouping::YRows).unwrap()
}

/// The banks of an event as the library takes them.
fn banks(event: &Event) -> impl Iterator<Item = Bank<'_>> {
    event.iter().map(|bank| Bank {
        kind: bank.kind,
        version: Some(bank.version),
        source_id: u32::from(bank.source_id),
        payload: &bank.payload,
    })
}

#[test]
fn troubles_by_bank_add_up_to_what_the_reference_counts() {
    for version in [BankVersion::V4, BankVersion::V5] {
        let tables = tables(version);
        let mut runner = TestRunner::deterministic();
        let mut seen = EventReport::default();
        let strategy = nasty::events(tables.boards(), 1..6);
        for _ in 0..60 {
            let events = proptest::strategy::Strategy::new_tree(&strategy, &mut runner).unwrap();
            let events = proptest::strategy::ValueTree::current(&events);
            let mut reference = ReferenceDecoder::new(&tables, DecodeOptions::default());
            let (_, report) = decode(&mut reference, &tables, allen_batch(&events).view());
            for (event, expected) in events.iter().zip(&report.events) {
                let mut found = EventReport::default();
                views::troubles(tables.boards(), banks(event), |trouble: BankTrouble| {
                    let bank = &event[trouble.bank];
                    assert_eq!(trouble.source_id, u32::from(bank.source_id));
                    assert!(trouble.byte <= bank.payload.len(), "{trouble:?}");
                    found.add(trouble.count, trouble.n);
                });
                for count in Count::ALL.into_iter().filter(|count| count.kind() == Kind::Trouble) {
                    assert_eq!(found.get(count), expected.get(count), "{count:?} of {event:?}");
                    seen.add(count, found.get(count));
                }
            }
        }
        let v4 = [Count::Short, Count::BadHeader, Count::UnsortedLanes];
        for count in Count::ALL.into_iter().filter(|count| count.kind() == Kind::Trouble) {
            let possible = count != Count::BrokenEvent && (version == BankVersion::V5 || !v4.contains(&count));
            assert_eq!(seen.get(count) > 0, possible, "{count:?} in {version:?}");
        }
    }
}

#[test]
fn without_a_table_boards_are_known_by_number_and_all_lanes_are_connected() {
    let payload = |counts: [u8; 8]| {
        let mut payload = counts.to_vec();
        payload.resize(64, 0);
        payload
    };
    // Lane 0 of board 5 has strip 0 twice; board 216 does not exist; board 7 has a bad count.
    let good = payload([0, 0, 0, 0, 2, 0, 0, 0]);
    let bad = payload([0, 255, 0, 0, 0, 0, 0, 0]);
    let bank = |source_id, version, payload| Bank { kind: 66, version, source_id, payload };
    let all = [bank(5, Some(4), &good[..]), bank(216, Some(4), &good), bank(7, None, &bad), bank(8, Some(9), &bad)];
    let find = |format| {
        let mut found = Vec::new();
        views::troubles_without_table(format, all, |trouble| found.push((trouble.bank, trouble.count, trouble.byte)));
        found
    };
    let expected = [
        // Strip 0, twice: the second hit of lane 0 is the half-word after the first.
        (0, Count::UnsortedLanes, 8 + 2 * 11),
        (1, Count::UnknownBoard, 0),
        (2, Count::BadHeader, 1),
        (3, Count::WrongVersion, 0),
    ];
    assert_eq!(find(Some(BankVersion::V5)), expected);
    assert_eq!(find(None), [expected[0], expected[1], expected[3]]);
}

/// The views of parts of a run: each batch by a filler of its own, with event numbers from `first`.
fn parts(tables: &DetectorTables, against: Against) -> Vec<(RunView, UtHits, BatchReport)> {
    let mut decoder = CpuDecoder::new(tables, DecodeOptions::default(), CpuConfig::default()).unwrap();
    let events = generated(tables.boards().version, 30);
    let part = |(first, events): (u64, &[Event])| {
        let batch = allen_batch(events);
        let hits = UtHits::with_capacity(events.len(), tables.n_groups(), batch.view().max_hits());
        let (mut hits, mut report) = (hits.with_clusters(), BatchReport::new());
        decoder.decode(batch.view(), &mut hits, &mut report).unwrap();
        let mut filler = RunFiller::new(tables, against);
        // Numbers far apart, so that bins have to merge; every seventh event has none.
        filler.add(&hits, &report, |e| Some(first + 1000 * e as u64).filter(|_| e % 7 != 6));
        filler.add_trouble(Count::Truncated, 2, Some(5), first + 3);
        (filler.finish(), hits, report)
    };
    [0, 5_000_000, 77].into_iter().zip(events.chunks(10)).map(part).collect()
}

#[test]
fn a_view_counts_what_the_hits_say_one_by_one() {
    for version in [BankVersion::V4, BankVersion::V5] {
        let tables = tables(version);
        for (view, hits, report) in parts(&tables, Against::Number) {
            let mut strips = vec![0u64; 1048 * 512];
            let (mut charge, mut of_charge, mut of_size) = (vec![0u64; 1048], vec![0u64; 4], vec![0u64; 4]);
            let mut lanes = vec![0u64; tables.slots().len()];
            let mut lane_hits = vec![vec![0u64; 256]; 4];
            let mut squares = lanes.clone();
            for e in 0..hits.n_events() {
                let mut of_event = vec![0u64; lanes.len()];
                for hit in hits.of_event(e) {
                    let place = &tables.places()[usize::from(tables.sector_of(hit.id.channel()).unwrap())];
                    let lane = place.lane_of(hit.id.channel().strip()).unwrap();
                    of_event[usize::from(lane.board) * 6 + usize::from(lane.lane)] += 1;
                }
                for (slot, &n) in of_event.iter().enumerate().filter(|(_, n)| **n > 0) {
                    squares[slot] += n * n;
                    lane_hits[tables.boards().lanes[slot].layer as usize][n.min(255) as usize] += 1;
                }
            }
            for hit in &hits {
                let channel = hit.id.channel();
                let sector = usize::from(tables.sector_of(channel).unwrap());
                strips[sector * 512 + usize::from(channel.strip())] += 1;
                let lane = tables.places()[sector].lane_of(channel.strip()).unwrap();
                lanes[usize::from(lane.board) * 6 + usize::from(lane.lane)] += 1;
                if let Some(cluster) = hit.cluster {
                    charge[sector] += u64::from(cluster.charge());
                    of_charge[usize::from(channel.layer())] += 1;
                    of_size[usize::from(channel.layer())] += u64::from(cluster.n_strips() == 1);
                }
            }
            assert_eq!((view.events, view.hits), (10, hits.len() as u64));
            assert_eq!(view.clusters, if version == BankVersion::V5 { view.hits } else { 0 });
            assert!(view.strips == strips && view.charge == charge && view.lanes == lanes);
            assert!(view.lane_squares == squares && view.lane_hits_of_layer == lane_hits);
            let sums = |layers: &[Vec<u64>]| layers.iter().map(|bins| bins.iter().sum()).collect::<Vec<u64>>();
            assert_eq!(sums(&view.charge_of_layer), of_charge);
            assert_eq!(view.size_of_layer.iter().map(|bins| bins[1]).collect::<Vec<_>>(), of_size);
            // Every lane with hits is counted once an event, and its hits are those of the lane.
            let weighted = |bins: &Vec<u64>| bins.iter().zip(0u64..).map(|(n, hits)| n * hits).sum::<u64>();
            assert_eq!(view.lane_hits_of_layer.iter().map(weighted).sum::<u64>(), view.hits);
            assert_eq!(view.hits_of_event[4].iter().map(|(_, n)| n).sum::<u64>(), 10);
            assert_eq!(view.spans.iter().map(|(_, span)| span.events).sum::<u64>(), 9);
            assert_eq!(view.count(Count::Banks), report.total(Count::Banks));
        }
    }
}

#[test]
fn a_filler_counts_the_same_however_many_hits_it_has_seen() {
    const TIMES: u64 = 300;
    let tables = tables(BankVersion::V5);
    let (once, hits, report) = parts(&tables, Against::Number).swap_remove(0);
    let mut filler = RunFiller::new(&tables, Against::Number);
    for _ in 0..TIMES {
        filler.add(&hits, &report, |e| Some(1000 * e as u64).filter(|_| e % 7 != 6));
    }
    let often = filler.finish();
    // More than a byte holds of one strip, and more than is added up without a flush.
    assert!(once.strips.iter().any(|&n| n > 0) && TIMES > 256 && often.hits > 1 << 20, "{}", often.hits);
    let times = |sums: &[u64]| sums.iter().map(|n| n * TIMES).collect::<Vec<u64>>();
    for (name, once, often) in [
        ("strips", &once.strips, &often.strips),
        ("lanes", &once.lanes, &often.lanes),
        ("squares of lanes", &once.lane_squares, &often.lane_squares),
        ("charge", &once.charge, &often.charge),
        ("squares of charge", &once.charge_squares, &often.charge_squares),
        ("sizes", &once.sizes, &often.sizes),
        ("charge of layer 3", &once.charge_of_layer[3], &often.charge_of_layer[3]),
        ("size of layer 0", &once.size_of_layer[0], &often.size_of_layer[0]),
        ("hits of lanes of layer 1", &once.lane_hits_of_layer[1], &often.lane_hits_of_layer[1]),
        (
            "lanes of the first bin",
            &once.spans.iter().next().unwrap().1.lanes,
            &often.spans.iter().next().unwrap().1.lanes,
        ),
    ] {
        assert!(times(once) == *often, "{name}");
    }
}

#[test]
fn views_merge_in_any_order_and_come_back_from_what_serde_wrote() {
    let (tables, v4) = (tables(BankVersion::V5), tables(BankVersion::V4));
    let views: Vec<RunView> = parts(&tables, Against::Number).into_iter().map(|(view, ..)| view).collect();
    let merged = |order: [usize; 3]| {
        let mut all = RunView::new(&tables, Against::Number);
        for i in order {
            all.merge(&views[i]).unwrap();
        }
        all
    };
    let expected = merged([0, 1, 2]);
    for order in [[2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        assert!(merged(order) == expected, "{order:?}");
    }
    // (a + b) + c as a + (b + c).
    let mut last = views[1].clone();
    last.merge(&views[2]).unwrap();
    let mut all = views[0].clone();
    all.merge(&last).unwrap();
    assert!(all == expected);
    assert_eq!((expected.events, expected.spans.len() <= MOST_BINS), (30, true));
    assert_eq!((expected.troubles[0].count, expected.troubles[0].first), (6, 3));
    let text = serde_json::to_string(&expected).unwrap();
    assert!(serde_json::from_str::<RunView>(&text).unwrap() == expected);
    // Views of other detectors, or against other numbers, are no part of it.
    let v4 = RunView::new(&v4, Against::Number);
    assert!(all.merge(&v4).is_err() && all.merge(&RunView::new(&tables, Against::Place)).is_err());
    assert!(all == expected);
}

#[test]
fn sectors_have_the_shape_that_hits_have_and_partners_on_all_sides() {
    let tables = tables(BankVersion::V5);
    let shapes = views::shapes(&tables);
    for (view, hits, _) in parts(&tables, Against::Place).into_iter().take(1) {
        assert!(view.hits > 1000);
        for hit in &hits {
            let shape = &shapes[usize::from(tables.sector_of(hit.id.channel()).unwrap())];
            let corners = shape.corners.iter();
            let y = f64::midpoint(hit.y_begin.into(), hit.y_end.into());
            let x = f64::from(hit.x_at_y_eq0) + f64::from(hit.dx_dy) * y;
            let range = |pick: fn(&(f32, f32)) -> f32| {
                let values = corners.clone().map(pick);
                (values.clone().fold(f32::INFINITY, f32::min) - 0.5, values.fold(f32::NEG_INFINITY, f32::max) + 0.5)
            };
            let (in_x, in_y) = (range(|corner| corner.0), range(|corner| corner.1));
            assert!(f64::from(in_x.0) < x && x < f64::from(in_x.1), "{x} {in_x:?}");
            assert!(f64::from(in_y.0) < y && y < f64::from(in_y.1), "{y} {in_y:?}");
        }
    }
    let neighbours = Neighbours::new(&tables);
    for sector in 0..1048 {
        let partners = neighbours.of(sector);
        assert!(partners.len() >= 3 && !partners.contains(&(sector as u16)), "{sector}: {partners:?}");
    }
}
