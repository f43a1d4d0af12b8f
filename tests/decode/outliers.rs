//! Outliers in a run, and differences between two: views made by hand, in which every lane does the
//! same but for what a test changes.

use std::ops::Range;
use std::sync::LazyLock;

use ut_decoding::detector::{BankVersion, Lane, N_SECTORS};
use ut_decoding::views::{
    self, Against, N_CHIPS, Neighbours, Outlier, OutlierKind, OutlierPart, RunView, Span, Verdicts,
    chips_of_lanes,
};
use ut_decoding::{DetectorTables, Grouping};

use crate::suite::events::tables;

static TABLES: LazyLock<DetectorTables> = LazyLock::new(|| tables(BankVersion::V5));

fn sector_of(slot: usize) -> usize {
    usize::from(TABLES.slots()[slot].sector)
}

fn connected() -> impl Iterator<Item = usize> {
    (0..TABLES.slots().len()).filter(|&slot| TABLES.slots()[slot].is_connected())
}

fn lanes_of(sector: usize) -> Vec<usize> {
    connected()
        .filter(|&slot| sector_of(slot) == sector)
        .collect()
}

fn strips_of(slot: usize) -> Range<usize> {
    match lanes_of(sector_of(slot)).len() {
        1 => 0..512,
        _ if TABLES.slots()[slot].chan_id & 256 == 0 => 0..256,
        _ => 256..512,
    }
}

/// Gives a lane `hits` hits in all, spread evenly over events and, as nearly as possible, over
/// strips.
fn set_lane(view: &mut RunView, slot: usize, hits: u64) {
    let (sector, strips) = (sector_of(slot), strips_of(slot));
    let n = strips.len() as u64;
    // The differences of rounded-down sums add up to `hits` exactly: 5 hits on 3 strips are 1, 2
    // and 2.
    for (i, strip) in (0..).zip(strips) {
        view.strips[sector * 512 + strip] = (i + 1) * hits / n - i * hits / n;
    }
    view.lanes[slot] = hits;
    view.lane_squares[slot] = hits * hits / view.events;
}

/// View in which every lane has `hits` hits.
fn steady(events: u64, hits: u64) -> RunView {
    let mut view = RunView::new(&TABLES, Against::Number);
    view.events = events;
    connected().for_each(|slot| set_lane(&mut view, slot, hits));
    view
}

fn verdicts(view: &RunView, tables: &DetectorTables) -> Verdicts {
    views::outliers(view, tables, None)
}

fn outliers(view: &RunView) -> Vec<Outlier> {
    verdicts(view, &TABLES).outliers
}

/// Returns the slot of the lane that an outlier is about.
fn slot_of(outlier: &Outlier) -> usize {
    outlier.slot().unwrap()
}

/// Returns lanes far from each other that each read a whole sector.
fn single_lanes() -> Vec<usize> {
    connected()
        .filter(|&slot| strips_of(slot).len() == 512)
        .step_by(37)
        .collect()
}

/// Returns a lane that reads the second half of a sector.
fn second_half() -> usize {
    connected()
        .find(|&slot| strips_of(slot).start == 256)
        .unwrap()
}

#[test]
fn equal_lanes_are_as_expected() {
    let found = verdicts(&steady(1000, 5000), &TABLES);
    assert_eq!(found.outliers, []);
    // The least spread: lanes that are alike to the last hit must not make the next one stand out.
    assert_eq!(found.spread, [0.03, 0.03]);
    assert!(found.judged.iter().all(|judged| *judged));
    for (sector, expected) in found.expected.iter().enumerate() {
        assert_eq!(
            *expected,
            Some(5000.0 * lanes_of(sector).len() as f64),
            "{sector}"
        );
    }
}

#[test]
fn only_differences_beyond_chance_stand_out() {
    let slot = single_lanes()[1];
    for (events, each, hits, expected) in [
        // Fewer than a tenth, fewer than half, and more than twice as many: 5.9 standard deviations
        // at most, by the √40 of chance. None at all is 6.3 away.
        (40, 40, 3, None),
        (40, 40, 19, None),
        (40, 40, 81, None),
        (40, 40, 0, Some(OutlierKind::Dead)),
        (1000, 5000, 300, Some(OutlierKind::Dead)),
        (1000, 5000, 2000, Some(OutlierKind::Quiet)),
        (1000, 5000, 15_000, Some(OutlierKind::Hot)),
    ] {
        let mut view = steady(events, each);
        set_lane(&mut view, slot, hits);
        let found = verdicts(&view, &TABLES);
        // Of 40 hits, a dead lane cannot be recognised if the others have fewer.
        assert_eq!(found.judged[0], each > 40, "{hits} of {each}");
        let kinds: Vec<_> = found
            .outliers
            .iter()
            .map(|found| (found.kind, slot_of(found), found.seen))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|kind| (kind, slot, hits as f64))
            .collect();
        assert_eq!(kinds, expected, "{hits} of {each}");
    }
    let mut view = steady(1000, 5000);
    set_lane(&mut view, slot, 15_000);
    // √(5000 + (3 % of 5000)²) is one standard deviation.
    assert!((outliers(&view)[0].sigmas - 10_000.0 / 27_500_f64.sqrt()).abs() < 1e-9);
    // Five hits in 999 events, and ten thousand more in the last.
    view.lane_squares[slot] = 999 * 25 + 10_005 * 10_005;
    assert_eq!(outliers(&view), []);
}

#[test]
fn hot_strips_are_found_next_to_hotter_ones_and_do_not_make_their_lane_hot() {
    let slot = second_half();
    let sector = sector_of(slot);
    let mut view = steady(1000, 5000);
    for (strip, hits) in [(310, 10_000), (300, 1_000_000)] {
        view.lanes[slot] += hits - view.strips[sector * 512 + strip];
        view.strips[sector * 512 + strip] = hits;
    }
    let found = outliers(&view);
    let places: Vec<_> = found
        .iter()
        .map(|found| (found.name(), found.strips, found.seen))
        .collect();
    let hot = |strip, hits| ("hot strip".to_owned(), Some((strip, strip)), hits);
    assert_eq!(places, [hot(300, 1e6), hot(310, 1e4)]);
    assert!(
        found
            .iter()
            .all(|found| slot_of(found) == slot && found.sector == Some(sector))
    );
    // Nine hits on a strip are few, however empty the others are.
    let mut view = steady(1000, 0);
    view.strips[sector * 512 + 300] = 9;
    assert_eq!(outliers(&view), []);
    view.strips[sector * 512 + 300] = 10;
    assert_eq!(outliers(&view).len(), 1);
}

#[test]
fn the_most_striking_of_a_kind_comes_first() {
    let lanes = single_lanes();
    let mut view = steady(1000, 5000);
    for (slot, hits) in lanes.iter().zip([300, 0, 15_000, 50_000]) {
        set_lane(&mut view, *slot, hits);
    }
    let order: Vec<f64> = outliers(&view).iter().map(|found| found.seen).collect();
    assert_eq!(order, [0.0, 300.0, 50_000.0, 15_000.0]);
}

#[test]
fn a_sector_is_compared_with_the_middle_of_those_neighbours_that_are_read() {
    let neighbours = Neighbours::new(&TABLES);
    let (sector, alike) = (300, neighbours.of(300));
    // The verdicts on a run of the detector without the lanes of some sectors, where others have
    // more hits.
    let without = |missing: &[u16], more: &[u16]| {
        let mut boards = TABLES.boards().clone();
        let mut view = steady(1000, 5000);
        let mut set = |sectors: &[u16], hits| {
            let slots = sectors.iter().flat_map(|&sector| lanes_of(sector.into()));
            slots
                .inspect(|&slot| set_lane(&mut view, slot, hits))
                .collect::<Vec<_>>()
        };
        set(more, 6000);
        for slot in set(missing, 0) {
            boards.lanes[slot] = Lane::default();
        }
        verdicts(
            &view,
            &DetectorTables::new(boards, TABLES.geometry().clone(), Grouping::YRows).unwrap(),
        )
    };
    // The number of neighbours is even, and half of the neighbours have more hits.
    let (last, others) = alike.split_last().unwrap();
    assert!(others.len().is_multiple_of(2), "{alike:?}");
    let found = without(&[*last], &others[..others.len() / 2]);
    assert_eq!(
        found.expected[sector],
        Some(5500.0 * lanes_of(sector).len() as f64)
    );
    // No neighbour is read: there is nothing to compare with.
    let found = without(alike, &[]);
    assert_eq!(
        (found.expected[sector], found.judged[sector]),
        (None, false)
    );
    assert_eq!(found.outliers, []);
}

#[test]
fn lanes_that_read_half_a_sector_are_compared_with_their_own_spread() {
    let mut view = steady(1000, 5000);
    for sector in 0..N_SECTORS {
        if let [slot] = lanes_of(sector)[..] {
            // No pattern that the detector's symmetry has.
            let more = (sector * 2_654_435_761) >> 7 & 1 == 1;
            set_lane(&mut view, slot, if more { 7000 } else { 3000 });
        }
    }
    let spread = verdicts(&view, &TABLES).spread;
    assert!(spread[0] > 0.3, "{spread:?}");
    assert_eq!(spread[1], 0.03);
    // 2.5 times as many are ten times three per cent, and less than twice the others' spread.
    let slot = second_half();
    set_lane(&mut view, slot, 12_500);
    let found = outliers(&view);
    assert_eq!(found.iter().map(slot_of).collect::<Vec<_>>(), [slot]);
}

/// Steady view with bins from `first` on, each of `events` events; a board has `hits` hits in each.
fn in_bins(first: u64, events: &[u64], hits: impl Fn(usize, usize) -> u64) -> RunView {
    let mut view = steady(1000, 5000);
    for (bin, &events) in events.iter().enumerate() {
        let mut chips = vec![0; N_CHIPS];
        for (board, lanes) in chips_of_lanes(&TABLES).chunks(6).enumerate() {
            let of_board = if events > 0 { hits(board, bin) } else { 0 };
            let lanes: Vec<_> = lanes.iter().filter(|lane| !lane.is_empty()).collect();
            let n = lanes.len() as u64;
            (0..).zip(lanes).for_each(|(i, lane)| {
                chips[lane.start] = ((i + 1) * of_board / n - i * of_board / n) as u32;
            });
        }
        let key = first + bin as u64;
        *view.spans.at(key) = Span {
            events,
            numbers: (events > 0).then_some((key, key)),
            chips,
            ..Span::default()
        };
    }
    assert_eq!((view.spans.width(), view.spans.len()), (1, events.len()));
    view
}

/// Returns the silent boards, each with its first and last event.
fn silent(view: &RunView) -> Vec<(usize, (u64, u64))> {
    let is_silent =
        |found: &Outlier| found.kind == OutlierKind::Silent && found.part == OutlierPart::Board;
    let found = outliers(view).into_iter().filter(is_silent);
    found
        .map(|found| (found.board.unwrap(), found.when.hull().unwrap()))
        .collect()
}

#[test]
fn boards_are_silent_from_and_to_the_events_of_their_bins() {
    // No hit of board 5 where it is dead.
    let dead = |is_dead: fn(usize) -> bool, hits: u64| {
        move |board: usize, bin: usize| if board == 5 && is_dead(bin) { 0 } else { hits }
    };
    let alike = [100; 64];
    let of = |events: &[u64], is_dead: fn(usize) -> bool, hits| {
        silent(&in_bins(0, events, dead(is_dead, hits)))
    };
    assert_eq!(
        of(&alike, |bin| bin < 40, 300),
        [(5, (0, 39))],
        "most of the time"
    );
    assert_eq!(
        of(&alike, |bin| bin >= 32, 20),
        [(5, (32, 63))],
        "bins are put together"
    );
    assert_eq!(
        of(&alike, |bin| bin >= 32, 5),
        [(5, (32, 63))],
        "forty hits in an eighth of the events"
    );
    assert_eq!(of(&alike, |bin| bin >= 32, 1), [], "too few hits");
    let gaps: Vec<u64> = (0..127)
        .map(|bin| if bin % 2 == 0 { 100 } else { 0 })
        .collect();
    assert_eq!(
        of(&gaps, |bin| (40..=60).contains(&bin), 300),
        [(5, (40, 60))],
        "numbers with gaps"
    );
    assert_eq!(
        of(&gaps, |bin| bin < 80, 300),
        [(5, (0, 78))],
        "numbers with gaps, most of the time"
    );
    let greatest = in_bins(u64::MAX - 63, &alike, dead(|bin| bin > 50, 300));
    assert_eq!(silent(&greatest), [(5, (u64::MAX - 12, u64::MAX))]);
    // No board has a hit in the three events of the last bin. Board 9 had none before, either.
    // Board 11 has some again.
    let mut short = alike;
    short[63] = 3;
    let found = silent(&in_bins(0, &short, |board, bin| match (board, bin) {
        (11, 63) => 9,
        (9 | 11, 60..=62) | (_, 63) => 0,
        _ => 300,
    }));
    assert_eq!(found, [(9, (60, 63)), (11, (60, 62))]);
    // The time without any hit is the more striking one.
    let twice = in_bins(1000, &alike, |board, bin| match (board, bin) {
        (7, 20..=30) => 5,
        (7, 40..=50) => 0,
        _ => 300,
    });
    // One line, whose most striking time is the one without any hit.
    assert_eq!(silent(&twice), [(7, (1020, 1050))]);
    let found = &outliers(&twice)[0];
    assert_eq!((found.seen, found.sigmas), (55.0, -(3300_f64.sqrt())));
    assert_eq!(
        found.when.text(&twice),
        "between events 1,020 and 1,030, and 1,040 and 1,050"
    );
}

/// View in which every lane has `hits` hits that vary from event to event; `variance` is the sum
/// over events.
fn varying(events: u64, hits: u64, variance: u64) -> RunView {
    let mut view = steady(events, hits);
    let lanes = view
        .lane_squares
        .iter_mut()
        .zip(TABLES.slots())
        .filter(|(_, slot)| slot.is_connected());
    lanes.for_each(|(squares, _)| *squares += variance);
    view
}

#[test]
fn sectors_differ_by_their_share_of_the_hits_in_standard_deviations() {
    let sectors: Vec<usize> = single_lanes().iter().map(|&slot| sector_of(slot)).collect();
    // 20 and 10 hits per event; 20 ± 0.4 are expected of the run, which has 20 ± 0.15.
    let [mut reference, mut run] = [varying(100, 1000, 400), varying(200, 4000, 900)];
    let set = |view: &mut RunView, sector: usize, hits: u64| {
        let slot = lanes_of(sector)[0];
        let variance = view.lane_squares[slot] - view.lanes[slot] * view.lanes[slot] / view.events;
        set_lane(view, slot, hits);
        view.lane_squares[slot] += if hits > 0 { variance } else { 0 };
    };
    set(&mut run, sectors[0], 4400);
    set(&mut run, sectors[1], 0);
    set(&mut reference, sectors[2], 0);
    set(&mut reference, sectors[3], 0);
    set(&mut run, sectors[3], 0);
    let all = views::differences(&run, &reference, &TABLES);
    let near = |sector: usize, hits: [f64; 2], sigmas: f64| {
        let found = &all[sectors[sector]];
        assert_eq!((found.sector, found.hits), (sectors[sector], hits));
        assert!(
            (found.sigmas - sigmas).abs() < 1e-6 * sigmas.abs(),
            "{found:?}, and not {sigmas}"
        );
    };
    near(0, [22.0, 10.0], 2.0 / (0.4_f64 * 0.4 + 0.15 * 0.15).sqrt());
    assert!((all[sectors[0]].ratio - 1.1).abs() < 1e-9);
    // No hit is known no better than one: ± 1 / 200 in the run, and ± 1 / 100 in the reference, of
    // which the run should have twice as many. A newly dead sector is one with less.
    near(
        1,
        [0.0, 10.0],
        -20.0 / (0.4_f64 * 0.4 + 0.005 * 0.005).sqrt(),
    );
    near(
        2,
        [20.0, 0.0],
        20.0 / (0.02_f64 * 0.02 + 0.15 * 0.15).sqrt(),
    );
    assert_eq!(
        (all[sectors[1]].ratio, all[sectors[2]].ratio),
        (0.0, f64::INFINITY)
    );
    assert!(all[sectors[3]].sigmas.is_nan() && !all[sectors[3]].is_marked());
    let others = all
        .iter()
        .filter(|found| !sectors[..4].contains(&found.sector));
    assert!(
        others
            .into_iter()
            .all(|found| found.sigmas == 0.0 && found.ratio == 1.0)
    );
}

#[test]
fn sectors_missing_in_one_run_do_not_shift_the_comparison() {
    let whole = steady(100, 1000);
    let mut part = whole.clone();
    connected()
        .filter(|&slot| sector_of(slot) < 600)
        .for_each(|slot| set_lane(&mut part, slot, 0));
    for (run, reference, ratio) in [(&part, &whole, 0.0), (&whole, &part, f64::INFINITY)] {
        for found in views::differences(run, reference, &TABLES) {
            assert_eq!(
                found.ratio,
                if found.sector < 600 { ratio } else { 1.0 },
                "{found:?}"
            );
        }
    }
}

#[test]
fn charges_differ_by_the_error_of_their_means_where_clusters_are_known() {
    let sector = sector_of(single_lanes()[0]);
    let with_charge = |mut view: RunView, mean: u64, variance: u64| {
        let n = view.hits_of_sector(sector);
        view.clusters = n;
        (view.charge[sector], view.charge_squares[sector]) =
            (n * mean, n * (mean * mean + variance));
        view
    };
    let [a, b] = [
        with_charge(steady(100, 1000), 20, 16),
        with_charge(steady(200, 4000), 21, 25),
    ];
    let found = &views::differences(&b, &a, &TABLES)[sector];
    assert_eq!(found.charge, [21.0, 20.0]);
    let sigmas = 1.0 / (16.0_f64 / 1000.0 + 25.0 / 4000.0).sqrt();
    assert!((found.charge_sigmas - sigmas).abs() < 1e-9, "{found:?}");
    // v4 banks have no charge.
    let unknown = &views::differences(&a, &steady(200, 4000), &TABLES)[sector];
    assert!(
        unknown.charge[1].is_nan() && unknown.charge_sigmas.is_nan(),
        "{unknown:?}"
    );
}
