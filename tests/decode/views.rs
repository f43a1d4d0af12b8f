//! Views for people: troubles bank by bank, and the sums over the hits of a run.

use std::sync::Arc;

use crate::suite::backends::decode;
use crate::suite::events::{
    Event, VERSIONS, allen_batch, borrowed, changed, generated, tables, v4_payload,
};
use crate::suite::nasty;
use proptest::test_runner::TestRunner;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::decoder::{Cluster, Count, EventReport, Kind};
use ut_decoding::detector::{BankVersion, Lane, Slot, layer_of};
use ut_decoding::input::{
    BankEntry, EventHeader, Format, InputPart, MdfWriter, Origin, RawEvent, Select,
};
use ut_decoding::synth::encode::encode_v5;
use ut_decoding::views::{
    self, Against, BankTrouble, Detector, Gatherer, MOST_BINS, Neighbours, RunFiller, RunView, Sums,
};
use ut_decoding::{
    Bank, BatchReport, CpuDecoder, DecodeOptions, Decoder, DetectorTables, LhcbId, UtHits,
};

#[test]
fn troubles_by_bank_add_up_to_what_the_reference_counts() {
    for version in VERSIONS {
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
                views::troubles(tables.boards(), borrowed(event), |trouble: BankTrouble| {
                    let bank = &event[trouble.bank];
                    assert_eq!(trouble.source_id, u32::from(bank.source_id));
                    assert!(trouble.byte <= bank.payload.len(), "{trouble:?}");
                    found.add(trouble.count, trouble.n);
                });
                for count in Count::ALL
                    .into_iter()
                    .filter(|count| count.kind() == Kind::Trouble)
                {
                    assert_eq!(
                        found.get(count),
                        expected.get(count),
                        "{count:?} of {event:?}"
                    );
                    seen.add(count, found.get(count));
                }
            }
        }
        let v4 = [Count::Short, Count::BadHeader, Count::UnsortedLanes];
        for count in Count::ALL
            .into_iter()
            .filter(|count| count.kind() == Kind::Trouble)
        {
            let possible =
                count != Count::BrokenEvent && (version == BankVersion::V5 || !v4.contains(&count));
            assert_eq!(seen.get(count) > 0, possible, "{count:?} in {version:?}");
        }
    }
}

#[test]
fn a_run_is_summed_up_and_drawn_by_the_library_alone() {
    let detector = Arc::new(Detector {
        tables: tables(BankVersion::V5),
        boards: None,
        geometry: None,
    });
    let (options, events) = (DecodeOptions::default(), generated(BankVersion::V5, 5));
    let part = |events: &[Event]| {
        let (mut writer, header) = (MdfWriter::new(Vec::new()), EventHeader::default());
        for event in events {
            writer.write(&header, borrowed(event)).unwrap();
        }
        let parts = [InputPart::memory("run.mdf", writer.finish().unwrap())];
        let gatherer = Gatherer {
            threads: 2,
            ..Gatherer::new(&detector.tables, options)
        };
        let gathered = gatherer
            .gather(&parts, &Select::default(), CpuDecoder::new, |_, _| true)
            .unwrap();
        Sums::new(
            &["run.mdf".into()],
            Arc::clone(&detector),
            options,
            gathered,
        )
    };
    let (whole, mut first) = (part(&events), part(&events[..2]));
    first.add(&part(&events[2..])).unwrap();
    let sums = |sums: &Sums| (sums.view.events, sums.view.hits, sums.view.strips.clone());
    assert!(whole.view.events == 5 && sums(&first) == sums(&whole));
    let drawn = views::draw(&whole, None, None, "a program").unwrap();
    assert!(drawn.html.contains("a program") && drawn.json["provenance"]["grouping"] == "y-rows");
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
    let bank = |source_id, version, payload| Bank {
        kind: 66,
        version,
        source_id,
        payload,
    };
    let all = [
        bank(5, Some(4), &good[..]),
        bank(216, Some(4), &good),
        bank(7, None, &bad),
        bank(8, Some(9), &bad),
    ];
    let find = |format| {
        let mut found = Vec::new();
        views::troubles_without_table(format, all, |trouble| {
            found.push((trouble.bank, trouble.count, trouble.byte));
        });
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

#[test]
fn clusters_on_an_unconnected_hybrid_are_reported_at_the_first_cluster() {
    let slot = tables(BankVersion::V4)
        .slots()
        .iter()
        .position(Slot::is_connected)
        .unwrap();
    let tables = changed(BankVersion::V4, |boards, _| {
        boards.lanes[slot] = Lane::default();
    });
    // Strip 9 of a hybrid, in the upper 14 bits.
    let word = |lane: usize| ((512 * lane + 9) << 2) as u16;
    let other = (0..6)
        .find(|lane| tables.slots()[slot / 6 * 6 + lane].is_connected())
        .unwrap();
    let payload = v4_payload(&[word(other), word(other), word(slot % 6), word(slot % 6)]);
    let bank = Bank {
        kind: 66,
        version: Some(3),
        source_id: (slot / 6) as u32,
        payload: &payload,
    };
    let mut found = Vec::new();
    views::troubles(tables.boards(), [bank], |trouble| found.push(trouble));
    let place = |found: &BankTrouble| {
        (
            found.count,
            found.n,
            found.lane.map(usize::from),
            found.byte,
        )
    };
    assert_eq!(
        found.iter().map(place).collect::<Vec<_>>(),
        [(Count::UnconnectedHits, 2, Some(slot % 6), 8)]
    );
}

/// Makes the views of the parts of a run: each batch goes through its own filler, with event
/// numbers from `first`.
fn parts(tables: &DetectorTables) -> Vec<(RunView, UtHits, BatchReport)> {
    let mut decoder = CpuDecoder::new(tables, DecodeOptions::default());
    let events = generated(tables.boards().version, 30);
    let part = |(first, events): (u64, &[Event])| {
        let batch = allen_batch(events);
        let hits = UtHits::with_capacity(events.len(), tables.n_groups(), batch.view().max_hits());
        let (mut hits, mut report) = (hits.with_clusters(), BatchReport::new());
        decoder
            .decode(batch.view(), &mut hits, &mut report)
            .unwrap();
        let mut filler = RunFiller::new(tables, Against::Number);
        // Numbers far apart, so that bins have to merge; every seventh event has none.
        filler.add(&hits, &report, |e| {
            (
                Some(first + 1000 * e as u64).filter(|_| e % 7 != 6),
                Some(e as u16),
            )
        });
        filler.add_trouble(Count::Truncated, 2, Some(5), (first + 3, Some(first)));
        (filler.finish(), hits, report)
    };
    [0, 5_000_000, 77]
        .into_iter()
        .zip(events.chunks(10))
        .map(part)
        .collect()
}

#[test]
fn a_view_agrees_with_counting_hit_by_hit() {
    for version in VERSIONS {
        let tables = tables(version);
        for (view, hits, report) in parts(&tables) {
            let mut strips = vec![0u64; 1048 * 512];
            let (mut charge, mut of_charge, mut of_size) =
                (vec![0u64; 1048], vec![0u64; 4], vec![0u64; 4]);
            let mut lanes = vec![0u64; tables.slots().len()];
            let mut lane_hits = vec![vec![0u64; 256]; 4];
            let mut squares = lanes.clone();
            for e in 0..hits.n_events() {
                let mut of_event = vec![0u64; lanes.len()];
                for hit in hits.of_event(e) {
                    let place =
                        &tables.places()[usize::from(tables.sector_of(hit.id.channel()).unwrap())];
                    let lane = place.lane_of(hit.id.channel().strip()).unwrap();
                    of_event[usize::from(lane.board) * 6 + usize::from(lane.lane)] += 1;
                }
                for (slot, &n) in of_event.iter().enumerate().filter(|(_, n)| **n > 0) {
                    squares[slot] += n * n;
                    lane_hits[tables.boards().lanes[slot].layer as usize][n.min(255) as usize] += 1;
                }
            }
            for hit in hits.iter() {
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
            assert_eq!(
                view.clusters,
                if version == BankVersion::V5 {
                    view.hits
                } else {
                    0
                }
            );
            assert!(view.strips == strips && view.charge == charge && view.lanes == lanes);
            assert!(view.lane_squares == squares && view.lane_hits_of_layer == lane_hits[..]);
            let sums = |layers: &[Vec<u64>]| {
                layers
                    .iter()
                    .map(|bins| bins.iter().sum())
                    .collect::<Vec<u64>>()
            };
            assert_eq!(sums(&view.charge_of_layer), of_charge);
            assert_eq!(
                view.size_of_layer
                    .iter()
                    .map(|bins| bins[1])
                    .collect::<Vec<_>>(),
                of_size
            );
            // Each lane with hits is counted once per event, with the hits of this lane.
            let weighted = |bins: &Vec<u64>| {
                bins.iter()
                    .zip(0u64..)
                    .map(|(n, hits)| n * hits)
                    .sum::<u64>()
            };
            assert_eq!(
                view.lane_hits_of_layer.iter().map(weighted).sum::<u64>(),
                view.hits
            );
            // The bins have the chips of the strips, except for the event without a number.
            let of_chips: u64 = view.spans.iter().map(|(_, span)| span.hits()).sum();
            let last = hits.of_event(6).count() as u64;
            assert_eq!(of_chips + last, view.hits);
            let single = hits
                .iter()
                .filter(|hit| hit.cluster.is_some_and(|cluster| cluster.n_strips() == 1))
                .count();
            assert_eq!(view.adc.iter().sum::<u64>(), single as u64);
            assert_eq!(
                view.crossings.iter().sum::<u64>(),
                view.hits,
                "by bunch crossing"
            );
            assert_eq!(
                view.hits_of_event[4].iter().map(|(_, n)| n).sum::<u64>(),
                10
            );
            assert_eq!(
                view.spans.iter().map(|(_, span)| span.events).sum::<u64>(),
                9
            );
            assert_eq!(view.count(Count::Banks), report.total(Count::Banks));
        }
    }
}

#[test]
fn views_merge_in_any_order_and_survive_serialisation() {
    let tables = tables(BankVersion::V5);
    let views: Vec<RunView> = parts(&tables).into_iter().map(|(view, ..)| view).collect();
    let merged = |order: [usize; 3]| {
        let mut all = RunView::new(&tables, Against::Number);
        for i in order {
            all.merge(&views[i]);
        }
        all
    };
    let expected = merged([0, 1, 2]);
    for order in [[2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        assert!(merged(order) == expected, "{order:?}");
    }
    // (a + b) + c as a + (b + c).
    let mut last = views[1].clone();
    last.merge(&views[2]);
    let mut all = views[0].clone();
    all.merge(&last);
    assert!(all == expected);
    assert_eq!(
        (expected.events, expected.spans.len() <= MOST_BINS),
        (30, true)
    );
    let trouble = expected.troubles[&(Count::Truncated as usize, Some(5))];
    assert_eq!((trouble.count, trouble.first), (6, 3));
    let text = serde_json::to_string(&expected).unwrap();
    assert!(serde_json::from_str::<RunView>(&text).unwrap() == expected);
}

#[test]
fn sectors_have_the_shape_of_their_hits() {
    let tables = tables(BankVersion::V5);
    let shapes = views::shapes(&tables);
    let (view, hits, _) = parts(&tables).swap_remove(0);
    assert!(view.hits > 1000);
    for hit in hits.iter() {
        let shape = &shapes[usize::from(tables.sector_of(hit.id.channel()).unwrap())];
        let corners = shape.corners.iter();
        let y = f64::midpoint(hit.y_begin.into(), hit.y_end.into());
        let x = f64::from(hit.x_at_y_eq0) + f64::from(hit.dx_dy) * y;
        let range = |pick: fn(&(f32, f32)) -> f32| {
            let values = corners.clone().map(pick);
            (
                values.clone().fold(f32::INFINITY, f32::min) - 0.5,
                values.fold(f32::NEG_INFINITY, f32::max) + 0.5,
            )
        };
        let (in_x, in_y) = (range(|corner| corner.0), range(|corner| corner.1));
        assert!(
            f64::from(in_x.0) < x && x < f64::from(in_x.1),
            "{x} {in_x:?}"
        );
        assert!(
            f64::from(in_y.0) < y && y < f64::from(in_y.1),
            "{y} {in_y:?}"
        );
    }
}

/// Makes hits as a decoder would, for one sector: of each event a list of strip, charge and cluster
/// size.
fn hits_of(tables: &DetectorTables, sector: u16, events: &[Vec<(u16, u32, u32)>]) -> UtHits {
    let n = events.iter().map(Vec::len).sum();
    let mut hits = UtHits::with_capacity(events.len(), tables.n_groups(), n).with_clusters();
    let to = hits
        .begin_with_clusters(events.len(), tables.n_groups(), BankVersion::V5)
        .unwrap();
    let (channel, group) = (
        tables.places()[usize::from(sector)].channel,
        usize::from(tables.groups()[usize::from(sector)]),
    );
    let clusters = to.clusters.unwrap();
    let mut at = 0;
    for (e, event) in events.iter().enumerate() {
        let ends = &mut to.offsets[e * tables.n_groups() + 1..][..tables.n_groups()];
        ends[..group].fill(at as u32);
        for &(strip, charge, n_strips) in event {
            to.id[at] = LhcbId::of(channel).0 + u32::from(strip);
            clusters[at] = Cluster::new(charge, n_strips, strip.into());
            at += 1;
        }
        ends[group..].fill(at as u32);
    }
    hits
}

/// Makes the view of these hits, in which nothing else is counted. Events are numbered from 0.
fn view_of(tables: &DetectorTables, hits: &UtHits) -> RunView {
    let mut report = BatchReport::new();
    report.reset(hits.n_events());
    let mut filler = RunFiller::new(tables, Against::Number);
    filler.add(hits, &report, |e| (Some(e as u64), None));
    filler.finish()
}

fn filled(bins: &[u64]) -> Vec<(usize, u64)> {
    bins.iter()
        .copied()
        .enumerate()
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// Puts a value on, below and above the edge of each last bin: 255 of charge and of hits in a lane,
/// 63 of cluster size. The charge of 7,874 is the largest that 254 strips of ADC 31 can have. An
/// index that is not limited would be a panic in the one event of a run that is extreme.
#[test]
fn the_last_bins_take_everything_above() {
    let tables = tables(BankVersion::V5);
    let clusters = [(254, 62), (255, 63), (256, 64), (300, 65), (7874, 128)];
    let event: Vec<_> = clusters
        .map(|(charge, n_strips)| (7, charge, n_strips))
        .to_vec();
    let view = view_of(&tables, &hits_of(&tables, 0, &[event]));
    assert_eq!(filled(&view.charge_of_layer[0]), [(254, 1), (255, 4)]);
    assert_eq!(filled(&view.size_of_layer[0]), [(62, 1), (63, 4)]);
    // Lanes with 1 to 600 hits in one event: a board that comes twice can exceed the 254 hits of a
    // bank.
    let events = [1, 254, 255, 256, 257, 600].map(|n| vec![(7, 1, 1); n]);
    let view = view_of(&tables, &hits_of(&tables, 0, &events));
    assert_eq!(
        filled(&view.lane_hits_of_layer[0]),
        [(1, 1), (254, 1), (255, 4)]
    );
    // More hits than a byte holds are on one strip.
    assert_eq!(view.strips_of(0)[7], view.hits);
}

#[test]
fn every_bin_of_events_has_its_own_troubles() {
    let tables = tables(BankVersion::V5);
    let mut report = BatchReport::new();
    report.reset(3);
    report.events[0].add(Count::Truncated, 3);
    report.events[2].add(Count::Truncated, 2);
    let mut filler = RunFiller::new(&tables, Against::Number);
    filler.add(
        &hits_of(&tables, 0, &[vec![], vec![], vec![]]),
        &report,
        |e| (Some(e as u64), None),
    );
    let view = filler.finish();
    assert_eq!(view.count(Count::Truncated), 5);
    assert_eq!(
        view.spans
            .iter()
            .map(|(key, span)| (key, span.count(Count::Truncated)))
            .collect::<Vec<_>>(),
        [(0, 3), (1, 0), (2, 2)]
    );
}

/// Returns the place of an event of the first file.
fn at(event: u64) -> Origin {
    Origin {
        file: 0,
        event,
        place: event,
    }
}

/// Makes an event of a run with these banks.
fn event_of(run: u32, entries: &[BankEntry]) -> RawEvent<'_> {
    RawEvent {
        file: std::path::Path::new("a.mdf"),
        format: Format::Mdf,
        index: 0,
        offset: 0,
        run: Some(run),
        number: Some(11),
        odin: None,
        trigger_mask: None,
        data: &[],
        stored: &[],
        entries,
        skipped: 0,
        damage: None,
    }
}

#[test]
fn only_error_banks_of_the_ut_are_counted_by_board_and_event_number() {
    let tables = tables(BankVersion::V5);
    let entry = |kind, source_id| BankEntry {
        kind,
        version: Some(4),
        source_id,
        start: 0,
        byte: 0,
        length: 0,
    };
    // A UTError is of the UT whoever sent it; of a lost fragment the sourceID says it: 5 and 6 in
    // the upper bits are the UT's two sides, 1 is another detector.
    let entries = [
        entry(68, 0x2801),
        entry(68, 0x0007),
        entry(92, 0x2801),
        entry(92, 0x3001),
        entry(92, 0x0801),
        entry(66, 0x2801),
    ];
    let event = event_of(3, &entries);
    let mut filler = RunFiller::new(&tables, Against::Number);
    filler.add_banks(&event, at(0), Some(11));
    filler.add_banks(&event, at(1), Some(11));
    let mut view = filler.finish();
    assert_eq!(
        view.error_banks,
        [(68, 0x0007), (68, 0x2801), (92, 0x2801), (92, 0x3001)]
            .map(|key| (key, 2))
            .into()
    );
    assert_eq!(
        view.spans
            .iter()
            .map(|(_, span)| span.error_banks)
            .collect::<Vec<_>>(),
        [8]
    );
    // Nor are they lost where views are merged, or hits follow that the bin had none of before.
    let events = vec![vec![(7, 1, 1)]; 12];
    let with_hits = view_of(&tables, &hits_of(&tables, 0, &events));
    let mut other = with_hits.clone();
    other.merge(&view);
    view.merge(&with_hits);
    assert!(view == other);
    let last = view.spans.iter().last().unwrap();
    assert_eq!((last.0, last.1.hits(), last.1.error_banks), (11, 1, 8));
    assert_eq!((view.error_banks.len(), view.runs), (4, [(3, 2)].into()));
}

#[test]
fn mirror_partners_have_the_same_size_and_mirrored_positions() {
    let tables = tables(BankVersion::V5);
    let (shapes, neighbours) = (views::shapes(&tables), Neighbours::new(&tables));
    for sector in 0..1048 {
        // A parallelogram, or nearly so.
        let of = tables.geometry().sectors[sector];
        let by = shapes[sector].area() / (of.dy * of.dp0di_x * 512.0).abs();
        assert!((0.9..1.1).contains(&by), "{sector}: {by}");
        let partners = neighbours.of(sector);
        let mut once = partners.to_vec();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), partners.len(), "{sector}: {partners:?}");
        assert!(
            partners.len() >= 3 && !partners.contains(&(sector as u16)),
            "{sector}: {partners:?}"
        );
        // Partners lie in the same layer and in the other layer of the station.
        let layers: Vec<usize> = partners
            .iter()
            .map(|&other| layer_of(other.into()))
            .collect();
        assert!(
            layers.contains(&layer_of(sector)) && layers.contains(&(layer_of(sector) ^ 1)),
            "{sector}: {partners:?}"
        );
        for &other in partners {
            let by = shapes[usize::from(other)].area() / shapes[sector].area();
            assert!((0.8..1.2).contains(&by), "{sector} and {other}: {by}");
        }
    }
}

/// Makes banks of two boards with ten strips each in lane 0, the first of which is given by
/// `strips`.
fn banks_of(strips: [u16; 2]) -> (Vec<u8>, Vec<BankEntry>) {
    let (mut data, mut entries) = (Vec::new(), Vec::new());
    for (board, strip) in strips.into_iter().enumerate() {
        let hits: Vec<(u16, u8)> = (0..10).map(|i| (strip + 3 * i, 7)).collect();
        let payload = encode_v5([&hits, &[], &[], &[], &[], &[]]);
        let (start, length) = (data.len(), payload.len());
        let source_id = 0x2801 | (board as u32) << 10;
        entries.push(BankEntry {
            kind: 66,
            version: Some(4),
            source_id,
            start,
            byte: 0,
            length,
        });
        data.extend(payload);
    }
    (data, entries)
}

/// Counts what two neighbouring events have in common, which is the kind of number that goes wrong
/// at the seams of a divided file: the first event of a part has no event before it there. Parts
/// therefore keep their first and last event, and the count at a seam is made when both sides are
/// known, in whatever order they arrive.
#[test]
fn repeated_banks_and_changes_of_the_run_are_counted_however_a_file_is_divided() {
    let tables = tables(BankVersion::V5);
    // The second board repeats itself in events 2 and 3; the run changes before event 4.
    let events = [[0, 0], [1, 1], [2, 1], [3, 1], [4, 5]].map(banks_of);
    let runs = [8, 8, 8, 8, 9];
    let view_of = |parts: &[(usize, usize)]| {
        let mut all = RunView::new(&tables, Against::Number);
        for part in parts {
            let mut filler = RunFiller::new(&tables, Against::Number);
            for e in part.0..part.1 {
                let event = RawEvent {
                    data: &events[e].0,
                    ..event_of(runs[e], &events[e].1)
                };
                filler.add_banks(&event, at(e as u64), Some(e as u64));
            }
            filler
                .take_stretches()
                .into_iter()
                .for_each(|stretch| all.add_stretch(stretch));
            all.merge(&filler.finish());
        }
        all
    };
    let whole = view_of(&[(0, 5)]);
    let repeats: Vec<u64> = whole.boards.iter().map(|sum| sum.repeats).collect();
    assert_eq!((filled(&repeats), whole.run_changes), (vec![(1, 2)], 1));
    let of_bins = whole
        .spans
        .iter()
        .map(|(_, span)| span.board(1).repeats)
        .collect::<Vec<_>>();
    assert_eq!(of_bins, [0, 0, 1, 1, 0]);
    assert_eq!(whole.stretches.len(), 1);
    for parts in [
        &[(0, 2), (2, 5)][..],
        &[(3, 5), (0, 1), (1, 3)],
        &[(4, 5), (3, 4), (2, 3), (1, 2), (0, 1)],
    ] {
        assert!(view_of(parts) == whole, "{parts:?}");
    }
    // Events that are left out lie between.
    assert_eq!(view_of(&[(0, 2), (3, 5)]).boards[1].repeats, 0);
}
