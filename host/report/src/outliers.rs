//! Outliers in a run: lanes that are dead, quiet or hot, dead chips, dead and hot strips, and boards that fall silent.
//!
//! The detector is its own yardstick: by its symmetry, a lane should have as many hits as those at the mirrored places
//! ([`Neighbours`]). How far honest lanes are from that is measured in the run itself: how much a lane's hits vary from
//! event to event, and by how much lanes differ from their expectation for reasons of geometry.

use super::run::{RunView, Span};
use super::shape::Neighbours;
use super::sums::both;
use ut_data::detector::{DetectorTables, LANES_PER_BOARD, N_SECTORS, STRIPS_PER_SECTOR};

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// A lane below this share of its expectation is dead.
    pub dead: f64,
    /// A lane below this share of its expectation is quiet.
    pub quiet: f64,
    /// A lane above so many times its expectation is hot.
    pub hot: f64,
    /// Standard deviations that it must be away besides.
    pub sigmas: f64,
    /// Hits that a hot strip has, at least.
    pub strip_hits: u64,
    /// How many times the mean of its lane's other strips a hot strip has, at least.
    pub strip_factor: f64,
    /// Hits that a chip or strip must be expected to have, to be called dead below the share [`dead`](Self::dead).
    pub part_expected: f64,
    /// Hits that a board must be expected to have in a bin of events, to be called silent there.
    pub silent_expected: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            dead: 0.1,
            quiet: 0.5,
            hot: 2.0,
            sigmas: 6.0,
            strip_hits: 10,
            strip_factor: 10.0,
            part_expected: 50.0,
            silent_expected: 50.0,
        }
    }
}

/// Way in which something stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutlierKind {
    /// A board without hits in some of the events, and with hits in others.
    SilentBoard,
    /// A lane without hits, or nearly so.
    DeadLane,
    /// A chip of 128 strips without hits, or nearly so, in a lane that has some.
    DeadChip,
    /// A lane with far fewer hits than expected.
    QuietLane,
    /// A lane with far more hits than expected.
    HotLane,
    /// A strip without hits, or nearly so, in a chip that has some.
    DeadStrip,
    /// A strip with far more hits than the others of its lane.
    HotStrip,
}

impl OutlierKind {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 7] = [
        Self::SilentBoard,
        Self::DeadLane,
        Self::DeadChip,
        Self::QuietLane,
        Self::HotLane,
        Self::DeadStrip,
        Self::HotStrip,
    ];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SilentBoard => "silent board",
            Self::DeadLane => "dead lane",
            Self::DeadChip => "dead chip",
            Self::QuietLane => "quiet lane",
            Self::HotLane => "hot lane",
            Self::DeadStrip => "dead strip",
            Self::HotStrip => "hot strip",
        }
    }
}

/// Something that stands out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlier {
    /// In which way.
    pub kind: OutlierKind,
    /// The board.
    pub board: usize,
    /// The lane, 0…5, but for boards.
    pub lane: Option<usize>,
    /// The sector, but for boards.
    pub sector: Option<usize>,
    /// The strip, or the first of a chip.
    pub strip: Option<usize>,
    /// Hits.
    pub hits: u64,
    /// Hits that were expected.
    pub expected: f64,
    /// Standard deviations between them; infinite where it is no matter of chance.
    pub sigmas: f64,
    /// Of boards: the first and the last number of the events that are known to be without hits.
    pub events: Option<(u64, u64)>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdicts {
    /// What stands out, by kind, and among a kind the most striking first.
    pub outliers: Vec<Outlier>,
    /// By sector: the hits that were expected; `None` where nothing can be compared or no lane reads it.
    pub expected: Vec<Option<f64>>,
    /// By sector: whether the run has enough hits to tell a dead lane from chance.
    pub judged: Vec<bool>,
    /// By how much lanes differ from their expectation, relatively, for other reasons than chance: sectors with one lane,
    /// and those with two.
    pub spread: [f64; 2],
}

/// Lanes below this expectation say nothing of the spread.
const SPREAD_FROM: f64 = 200.0;

/// The spread where it cannot be measured, and the least.
const SPREAD: (f64, f64) = (0.15, 0.03);

/// Standard deviations of a normal distribution a median absolute deviation.
const SIGMAS_PER_MAD: f64 = 1.4826;

/// Strips that a chip reads.
pub const CHIP: usize = 128;

/// Bins of events with fewer are put together.
const LEAST_BINS: usize = 8;

/// A lane in use.
struct LaneSum {
    slot: usize,
    sector: usize,
    hits: u64,
    variance: f64,
}

/// Finds what stands out in `view`, which is of `tables`.
pub fn outliers(view: &RunView, tables: &DetectorTables, rules: &Rules) -> Verdicts {
    let (mut outliers, without_hot) = parts_of_lanes(view, tables, rules);
    let events = view.events.max(1) as f64;
    let lanes: Vec<LaneSum> = tables
        .slots()
        .iter()
        .enumerate()
        .filter(|(_, slot)| slot.chan_id != 0)
        .map(|(i, slot)| {
            let (n, hot) = (view.lanes[i] as f64, view.lanes[i] - without_hot[i]);
            // What hot strips add varies little.
            let variance = (view.lane_squares[i] as f64 - n * n / events).max(1.0);
            LaneSum { slot: i, sector: usize::from(slot.sector), hits: view.lanes[i] - hot, variance }
        })
        .collect();
    let mut of_sector: Vec<Vec<usize>> = vec![Vec::new(); N_SECTORS];
    for (i, lane) in lanes.iter().enumerate() {
        of_sector[lane.sector].push(i);
    }
    let neighbours = Neighbours::new(tables);
    // Expectation of a lane and its variance, by sector.
    let expected: Vec<Option<(f64, f64)>> = (0..N_SECTORS)
        .map(|sector| {
            let alike = neighbours.of(sector).iter().map(|&other| &of_sector[usize::from(other)]);
            let alike: Vec<&Vec<usize>> = alike.filter(|others| !others.is_empty()).collect();
            let mean = |value: &dyn Fn(&LaneSum) -> f64| {
                median(
                    alike
                        .iter()
                        .map(|others| others.iter().map(|&i| value(&lanes[i])).sum::<f64>() / others.len() as f64),
                )
            };
            let (hits, variance) = (mean(&|lane| lane.hits as f64)?, mean(&|lane| lane.variance)?);
            (!of_sector[sector].is_empty()).then_some((hits, variance.max(hits)))
        })
        .collect();
    let spread = [1, 2].map(|n| {
        let away = lanes.iter().filter(|lane| of_sector[lane.sector].len() == n).filter_map(|lane| {
            let (expected, _) = expected[lane.sector].filter(|(expected, _)| *expected >= SPREAD_FROM)?;
            Some((lane.hits as f64 / expected - 1.0).abs())
        });
        median(away).map_or(SPREAD.0, |mad| (SIGMAS_PER_MAD * mad).max(SPREAD.1))
    });
    let mut judged = vec![false; N_SECTORS];
    for lane in &lanes {
        let Some((expected, variance)) = expected[lane.sector] else { continue };
        let n = lane.hits as f64;
        judged[lane.sector] = expected * (1.0 - rules.dead) >= rules.sigmas * variance.sqrt();
        let wide = spread[usize::from(of_sector[lane.sector].len() > 1)] * expected;
        let away = n - expected;
        let chance = away / variance.sqrt();
        let all = away / (variance.max(lane.variance) + wide * wide).sqrt();
        let (kind, sigmas) = if n < rules.dead * expected && chance <= -rules.sigmas {
            (OutlierKind::DeadLane, chance)
        } else if n < rules.quiet * expected && all <= -rules.sigmas {
            (OutlierKind::QuietLane, all)
        } else if n > rules.hot * expected && all >= rules.sigmas {
            (OutlierKind::HotLane, all)
        } else {
            continue;
        };
        outliers.push(Outlier {
            kind,
            board: lane.slot / LANES_PER_BOARD,
            lane: Some(lane.slot % LANES_PER_BOARD),
            sector: Some(lane.sector),
            strip: None,
            hits: lane.hits,
            expected,
            sigmas,
            events: None,
        });
    }
    let dead: Vec<_> = outliers.iter().filter(|o| o.kind == OutlierKind::DeadLane).map(|o| (o.board, o.lane)).collect();
    let is_part = |kind| matches!(kind, OutlierKind::DeadChip | OutlierKind::DeadStrip);
    outliers.retain(|o| !(is_part(o.kind) && dead.contains(&(o.board, o.lane))));
    // A chip says more than the lane that is quiet by it.
    let chips: Vec<_> =
        outliers.iter().filter(|o| o.kind == OutlierKind::DeadChip).map(|o| (o.board, o.lane)).collect();
    outliers.retain(|o| o.kind != OutlierKind::QuietLane || !chips.contains(&(o.board, o.lane)));
    outliers.extend(silent_boards(view, rules));
    let striking = |outlier: &Outlier| -outlier.sigmas.abs();
    outliers.sort_by(|a, b| a.kind.cmp(&b.kind).then(striking(a).total_cmp(&striking(b))));
    let expected = (0..N_SECTORS).map(|s| expected[s].map(|(hits, _)| hits * of_sector[s].len() as f64)).collect();
    Verdicts { outliers, expected, judged, spread }
}

/// Returns hot strips, dead chips and dead strips, and by lane slot the hits of all strips that are not hot.
fn parts_of_lanes(view: &RunView, tables: &DetectorTables, rules: &Rules) -> (Vec<Outlier>, Vec<u64>) {
    let half = STRIPS_PER_SECTOR as usize / 2;
    let slots = tables.slots();
    let mut lanes_of = vec![0; N_SECTORS];
    slots.iter().filter(|slot| slot.chan_id != 0).for_each(|slot| lanes_of[usize::from(slot.sector)] += 1);
    let mut found = Vec::new();
    let mut others = view.lanes.clone();
    for (i, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.chan_id != 0) {
        let sector = usize::from(slot.sector);
        let first = if lanes_of[sector] > 1 { half * (slot.chan_id >> 8 & 1) as usize } else { 0 };
        let n = if lanes_of[sector] > 1 { half } else { 2 * half };
        let strips = &view.strips_of(sector)[first..first + n];
        // The mean of the strips that are not hot: the hottest goes first, until one is not hot.
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&strip| std::cmp::Reverse(strips[strip]));
        let mut left: u64 = strips.iter().sum();
        let mut cold = strips.to_vec();
        let part = |kind, strip, hits, expected: f64| Outlier {
            kind,
            board: i / LANES_PER_BOARD,
            lane: Some(i % LANES_PER_BOARD),
            sector: Some(sector),
            strip: Some(first + strip),
            hits,
            expected,
            sigmas: (hits as f64 - expected) / expected.max(1.0).sqrt(),
            events: None,
        };
        for (out, &strip) in order.iter().enumerate() {
            let hits = strips[strip];
            let mean = (left - hits) as f64 / (n - out - 1).max(1) as f64;
            if hits < rules.strip_hits || (hits as f64) < rules.strip_factor * mean {
                break;
            }
            left -= hits;
            others[i] = others[i].saturating_sub(hits);
            cold[strip] = 0;
            found.push(part(OutlierKind::HotStrip, strip, hits, mean));
        }
        let is_dead =
            |hits: u64, expected: f64| expected >= rules.part_expected && (hits as f64) < rules.dead * expected;
        let chips: Vec<u64> = cold.chunks(CHIP).map(|chip| chip.iter().sum()).collect();
        for (chip, &hits) in chips.iter().enumerate() {
            let expected = (left - hits) as f64 / (chips.len() - 1) as f64;
            if is_dead(hits, expected) {
                found.push(part(OutlierKind::DeadChip, chip * CHIP, hits, expected));
                continue;
            }
            let strips = &strips[chip * CHIP..(chip + 1) * CHIP];
            // Hot strips do not count.
            let expected = hits as f64 / CHIP as f64;
            let dead = strips.iter().enumerate().filter(|(_, hits)| is_dead(**hits, expected));
            found.extend(dead.map(|(strip, &hits)| part(OutlierKind::DeadStrip, chip * CHIP + strip, hits, expected)));
        }
    }
    (found, others)
}

/// Boards that have hits in some of the events, and none in a row of others.
fn silent_boards(view: &RunView, rules: &Rules) -> Vec<Outlier> {
    let spans: Vec<(u64, &Span)> = view.spans.iter().collect();
    let mut found = Vec::new();
    for board in 0..view.lanes.len() / LANES_PER_BOARD {
        let hits: Vec<u64> = spans.iter().map(|(_, span)| span.hits_of_board(board)).collect();
        // So few bins that the board is expected to have enough hits in each.
        let mut together = 1;
        let rate = |together: usize| {
            let rates = hits.chunks(together).zip(spans.chunks(together)).filter_map(|(hits, spans)| {
                let events: u64 = spans.iter().map(|(_, span)| span.events).sum();
                (events > 0).then(|| hits.iter().sum::<u64>() as f64 / events as f64)
            });
            upper_quartile(rates)
        };
        let events: u64 = spans.iter().map(|(_, span)| span.events).sum();
        while spans.len().div_ceil(2 * together) >= LEAST_BINS
            && rate(together) * events as f64 / (spans.len().div_ceil(together)) as f64 <= 2.0 * rules.silent_expected
        {
            together *= 2;
        }
        let rate = rate(together);
        let mut row: Option<Outlier> = None;
        for (hits, spans) in hits.chunks(together).zip(spans.chunks(together)) {
            let (n, events) = (hits.iter().sum::<u64>(), spans.iter().map(|(_, span)| span.events).sum::<u64>());
            let expected = rate * events as f64;
            // What is too short to be judged, as the last bin may be, does not end a row; it is of the row if it has no hit.
            let unknown = expected < rules.silent_expected;
            let silent = !unknown && (n as f64) < rules.dead * expected;
            // Of the events themselves: the edges of the bins may be beyond the run's.
            let numbers = spans.iter().filter_map(|(_, span)| span.numbers).fold(None, |all, one| both(all, Some(one)));
            if silent {
                let row = row.get_or_insert(Outlier {
                    kind: OutlierKind::SilentBoard,
                    board,
                    lane: None,
                    sector: None,
                    strip: None,
                    hits: 0,
                    expected: 0.0,
                    sigmas: 0.0,
                    events: None,
                });
                row.hits += n;
                row.expected += expected;
                row.events = both(row.events, numbers);
            } else if !unknown {
                found.extend(row.take());
            } else if n == 0
                && events > 0
                && let Some(row) = &mut row
            {
                row.events = both(row.events, numbers);
            }
        }
        found.extend(row);
    }
    for outlier in &mut found {
        outlier.sigmas = (outlier.hits as f64 - outlier.expected) / outlier.expected.sqrt();
    }
    found
}

/// The median; `None` of nothing.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        n if n % 2 == 1 => Some(values[n / 2]),
        n => Some(f64::midpoint(values[n / 2 - 1], values[n / 2])),
    }
}

/// Returns what a quarter of the values exceeds; 0 of nothing.
fn upper_quartile(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() * 3 / 4).copied().unwrap_or_default()
}
