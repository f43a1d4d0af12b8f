//! Outliers of a run: lanes, chips and strips that are dead, quiet or hot, or fail for some of the events.
//!
//! By symmetry, a lane should have as many hits as those at the mirrored places ([`Neighbours`]). The run itself tells
//! how a lane's hits vary from event to event, and how far lanes are off for geometric reasons.

use super::compare::mean_charge;
use super::in_time::{LaneOf, failing_for_a_while};
use super::run::RunView;
use super::shape::Neighbours;
use ut_data::detector::{ChannelId, DetectorTables, LANES_PER_BOARD, LhcbId, Mask, N_SECTORS, STRIPS_PER_SECTOR};

/// A lane below this share of its expectation is dead; so is a chip, strip or board.
pub const DEAD: f64 = 0.1;

/// A lane below this share of its expectation is quiet.
pub const QUIET: f64 = 0.5;

/// A lane above this many times its expectation is hot.
pub const HOT: f64 = 2.0;

/// Least deviation from the expectation, in standard deviations.
pub const SIGMAS: f64 = 6.0;

/// Minimum hits of a hot strip.
pub const STRIP_HITS: u64 = 10;

/// Minimum hits of a hot strip, in units of the mean of its lane's other strips.
pub const STRIP_FACTOR: f64 = 10.0;

/// Least expected hits of a board or lane in a bin of events, to be judged there.
pub const SILENT_EXPECTED: f64 = 50.0;

/// A lane above this many times its usual hits, for some of the events, is noisy.
pub const NOISY: f64 = 1.5;

/// A lane whose mean charge is below this share of its neighbours' has a low charge.
pub const LOW_CHARGE: f64 = 0.7;

/// Least number of events to judge lanes, chips and strips: fewer do not show how much a lane varies.
pub const LEAST_EVENTS: u64 = 20;

/// Way in which something stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutlierKind {
    /// A board without hits in some of the events, and with hits in others.
    SilentBoard,
    /// A lane without hits, or nearly so.
    DeadLane,
    /// A lane without hits in some of the events, and with hits in others.
    SilentLane,
    /// A chip, 128 strips, without hits in a lane with hits.
    DeadChip,
    /// Strips without hits in a chip with hits.
    DeadStrip,
    /// A lane with far fewer hits than expected.
    QuietLane,
    /// A lane with far more hits than expected.
    HotLane,
    /// A lane with more hits than usual in some of the events.
    NoisyLane,
    /// A strip with far more hits than the others of its lane.
    HotStrip,
    /// A lane whose hits have far less charge than those of its neighbours.
    LowCharge,
}

impl OutlierKind {
    /// Kinds with their names, in the order of lists.
    pub const ALL: [(Self, &str); 10] = [
        (Self::SilentBoard, "silent board"),
        (Self::DeadLane, "dead lane"),
        (Self::SilentLane, "silent lane"),
        (Self::DeadChip, "dead chip"),
        (Self::DeadStrip, "dead strip"),
        (Self::QuietLane, "quiet lane"),
        (Self::HotLane, "hot lane"),
        (Self::NoisyLane, "noisy lane"),
        (Self::HotStrip, "hot strip"),
        (Self::LowCharge, "low-charge lane"),
    ];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A part that stands out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlier {
    /// Kind of fault.
    pub kind: OutlierKind,
    /// Board number.
    pub board: usize,
    /// Lane, 0…5; `None` for a board.
    pub lane: Option<usize>,
    /// Sector id; `None` for a board.
    pub sector: Option<usize>,
    /// First and last strip of the sector, of strips and chips.
    pub strips: Option<(usize, usize)>,
    /// Number of hits; of [`OutlierKind::LowCharge`] their mean charge, ADC counts.
    pub hits: u64,
    /// Expected value of `hits`.
    pub expected: f64,
    /// Difference of the two in standard deviations; infinite if chance cannot cause it.
    pub sigmas: f64,
    /// First and last number of the events of a fault that lasts for a part of the run.
    pub events: Option<(u64, u64)>,
}

impl Outlier {
    /// Creates the outlier of a whole lane for the whole run.
    pub(super) fn of_lane(
        kind: OutlierKind,
        slot: usize,
        sector: usize,
        (hits, expected): (u64, f64),
        sigmas: f64,
    ) -> Self {
        let (board, lane) = (slot / LANES_PER_BOARD, Some(slot % LANES_PER_BOARD));
        Self { kind, board, lane, sector: Some(sector), strips: None, hits, expected, sigmas, events: None }
    }

    /// Returns true if the same part fails in the same way.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let part = |of: &Self| (of.kind, of.board, of.lane, of.strips);
        part(self) == part(other)
    }
}

/// Outliers of a run, and the expectations behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdicts {
    /// Outliers by kind, the most significant of a kind first.
    pub outliers: Vec<Outlier>,
    /// Outliers of the reference as well, taken out of `outliers`.
    pub known: Vec<Outlier>,
    /// Expected hits by sector; `None` where nothing can be compared or no lane reads it.
    pub expected: Vec<Option<f64>>,
    /// False for each sector with too few hits to tell a dead lane from chance.
    pub judged: Vec<bool>,
    /// Relative deviation of lanes from their expectation beyond chance: sectors with one lane, and with two.
    pub spread: [f64; 2],
}

/// Least expectation of lanes from which the spread is measured.
const SPREAD_FROM: f64 = 200.0;

/// Spread where it cannot be measured, and the least.
const SPREAD: (f64, f64) = (0.15, 0.03);

/// Standard deviations of a normal distribution a median absolute deviation.
const SIGMAS_PER_MAD: f64 = 1.4826;

/// Strips that a chip reads.
const CHIP: usize = 128;

struct LaneSum {
    slot: usize,
    sector: usize,
    hits: u64,
    variance: f64,
    /// Share of its strips that are not masked, above 0.
    left: f64,
}

impl LaneSum {
    /// Returns the expectation of its unmasked strips and the variance, from those by sector.
    fn expected(&self, of_sectors: &[Option<(f64, f64)>]) -> Option<(f64, f64)> {
        of_sectors[self.sector].map(|(hits, variance)| (hits * self.left, variance * self.left))
    }
}

/// Finds the outliers of `view`, which is of `tables` and lacks the hits on the strips of `mask`. Expectations are of
/// unmasked strips; a lane without any is not judged.
pub fn outliers(view: &RunView, tables: &DetectorTables, mask: Option<&Mask>) -> Verdicts {
    let (mut outliers, without_hot, left) = strips(view, tables, mask);
    let events = view.events.max(1) as f64;
    let lanes: Vec<LaneSum> = tables
        .slots()
        .iter()
        .enumerate()
        .filter(|(i, _)| left[*i] > 0.0)
        .map(|(i, slot)| {
            let (n, hot) = (view.lanes[i] as f64, view.lanes[i] - without_hot[i]);
            // Hits of hot strips vary little.
            let variance = (view.lane_squares[i] as f64 - n * n / events).max(1.0);
            let (sector, hits) = (usize::from(slot.sector), view.lanes[i] - hot);
            LaneSum { slot: i, sector, hits, variance, left: left[i] }
        })
        .collect();
    let mut of_sector: Vec<Vec<usize>> = vec![Vec::new(); N_SECTORS];
    for (i, lane) in lanes.iter().enumerate() {
        of_sector[lane.sector].push(i);
    }
    let neighbours = Neighbours::new(tables);
    // Expectation of a lane with all strips and its variance, by sector.
    let expected: Vec<Option<(f64, f64)>> = (0..N_SECTORS)
        .map(|sector| {
            let alike = neighbours.of(sector).iter().map(|&other| &of_sector[usize::from(other)]);
            let alike: Vec<&Vec<usize>> = alike.filter(|others| !others.is_empty()).collect();
            let mean = |value: &dyn Fn(&LaneSum) -> f64| {
                median(alike.iter().map(|others| {
                    others.iter().map(|&i| value(&lanes[i]) / lanes[i].left).sum::<f64>() / others.len() as f64
                }))
            };
            let (hits, variance) = (mean(&|lane| lane.hits as f64)?, mean(&|lane| lane.variance)?);
            (!of_sector[sector].is_empty()).then_some((hits, variance.max(hits)))
        })
        .collect();
    let spread = [1, 2].map(|n| {
        let away = lanes.iter().filter(|lane| of_sector[lane.sector].len() == n).filter_map(|lane| {
            let (expected, _) = expected[lane.sector].filter(|(expected, _)| *expected >= SPREAD_FROM)?;
            Some((lane.hits as f64 / (expected * lane.left) - 1.0).abs())
        });
        median(away).map_or(SPREAD.0, |mad| (SIGMAS_PER_MAD * mad).max(SPREAD.1))
    });
    // A sector that is masked as a whole needs no verdict.
    let mut judged: Vec<bool> = of_sector.iter().map(Vec::is_empty).collect();
    for lane in &lanes {
        let Some((expected, variance)) = lane.expected(&expected) else { continue };
        let n = lane.hits as f64;
        if view.events < LEAST_EVENTS {
            continue;
        }
        judged[lane.sector] = expected * (1.0 - DEAD) >= SIGMAS * variance.sqrt();
        let wide = spread[usize::from(of_sector[lane.sector].len() > 1)] * expected;
        let away = n - expected;
        let chance = away / variance.sqrt();
        let all = away / (variance.max(lane.variance) + wide * wide).sqrt();
        let (kind, sigmas) = if n < DEAD * expected && chance <= -SIGMAS {
            (OutlierKind::DeadLane, chance)
        } else if n < QUIET * expected && all <= -SIGMAS {
            (OutlierKind::QuietLane, all)
        } else if n > HOT * expected && all >= SIGMAS {
            (OutlierKind::HotLane, all)
        } else {
            continue;
        };
        outliers.push(Outlier::of_lane(kind, lane.slot, lane.sector, (lane.hits, expected), sigmas));
    }
    let of_lane = |lane: &LaneSum| {
        let charges = neighbours.of(lane.sector).iter().map(|&other| mean_charge(view, usize::from(other)).0);
        LaneOf {
            slot: lane.slot,
            sector: lane.sector,
            expected: lane.expected(&expected),
            variance: lane.variance,
            charge: median(charges.filter(|charge| charge.is_finite())),
        }
    };
    let judged_lanes = if view.events < LEAST_EVENTS { Vec::new() } else { lanes.iter().map(of_lane).collect() };
    let more = failing_for_a_while(view, &judged_lanes, &outliers);
    let chips: Vec<Outlier> = outliers.iter().filter(|of| of.kind == OutlierKind::DeadChip).cloned().collect();
    // A lane with a dead chip or a fault in time is not also quiet or hot.
    outliers.retain(|outlier| {
        let is_told = |other: &Outlier| {
            matches!(
                (outlier.kind, other.kind),
                (OutlierKind::QuietLane, OutlierKind::SilentLane | OutlierKind::DeadChip)
                    | (OutlierKind::HotLane, OutlierKind::NoisyLane)
            ) && (other.board, other.lane) == (outlier.board, outlier.lane)
        };
        !more.iter().chain(&chips).any(is_told)
    });
    outliers.extend(more);
    let striking = |outlier: &Outlier| -outlier.sigmas.abs();
    outliers.sort_by(|a, b| a.kind.cmp(&b.kind).then(striking(a).total_cmp(&striking(b))));
    let expected = (0..N_SECTORS)
        .map(|s| expected[s].map(|(hits, _)| hits * of_sector[s].iter().map(|&i| lanes[i].left).sum::<f64>()))
        .collect();
    Verdicts { outliers, known: Vec::new(), expected, judged, spread }
}

/// Finds hot strips, dead chips and dead strips. Also returns, by lane slot, the hits of strips that are not hot, and
/// the share of strips that are not masked.
fn strips(view: &RunView, tables: &DetectorTables, mask: Option<&Mask>) -> (Vec<Outlier>, Vec<u64>, Vec<f64>) {
    let half = STRIPS_PER_SECTOR as usize / 2;
    let slots = tables.slots();
    let mut lanes_of = vec![0; N_SECTORS];
    slots.iter().filter(|slot| slot.chan_id != 0).for_each(|slot| lanes_of[usize::from(slot.sector)] += 1);
    let mut found = Vec::new();
    let (mut others, mut shares) = (view.lanes.clone(), vec![0.0; slots.len()]);
    for (i, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.chan_id != 0) {
        let sector = usize::from(slot.sector);
        let first = if lanes_of[sector] > 1 { half * (slot.chan_id >> 8 & 1) as usize } else { 0 };
        let n = if lanes_of[sector] > 1 { half } else { 2 * half };
        let id = |strip: usize| LhcbId::of(ChannelId((slot.chan_id & !(STRIPS_PER_SECTOR - 1)) + strip as u32)).0;
        let is_left = |strip: usize| mask.is_none_or(|mask| !mask.contains(id(strip)));
        let hits = view.strips_of(sector);
        let mut strips: Vec<Option<u64>> =
            (first..first + n).map(|strip| is_left(strip).then_some(hits[strip])).collect();
        let n_left = strips.iter().flatten().count();
        shares[i] = n_left as f64 / n as f64;
        let mut find = |kind, (from, to): (usize, usize), hits, expected: f64, error: f64| {
            let sigmas = (hits as f64 - expected) / error;
            let outlier = Outlier::of_lane(kind, i, sector, (hits, expected), sigmas);
            found.push(Outlier { strips: Some((first + from, first + to)), ..outlier });
        };
        // The mean of the strips that are not hot: the hottest goes first, until one is not hot.
        let mut order: Vec<usize> = (0..n).filter(|&strip| strips[strip].is_some()).collect();
        order.sort_by_key(|&strip| std::cmp::Reverse(strips[strip]));
        let mut left: u64 = strips.iter().flatten().sum();
        for (out, &strip) in order.iter().enumerate() {
            let hits = strips[strip].unwrap_or_default();
            let mean = (left - hits) as f64 / (n_left - out - 1).max(1) as f64;
            if hits < STRIP_HITS || (hits as f64) < STRIP_FACTOR * mean {
                break;
            }
            left -= hits;
            others[i] = others[i].saturating_sub(hits);
            strips[strip] = None;
            find(OutlierKind::HotStrip, (strip, strip), hits, mean, mean.max(1.0).sqrt());
        }
        if view.events < LEAST_EVENTS {
            continue;
        }
        let (hits, events) = (view.lanes[i] as f64, view.events as f64);
        // Ratio of the variance to that of independent hits: hits of a track come together.
        let clumps = ((view.lane_squares[i] as f64 - hits * hits / events) / hits.max(1.0)).max(1.0);
        let of_chip = |chip: &[Option<u64>]| (chip.iter().flatten().sum(), chip.iter().flatten().count());
        let of_chips: Vec<(u64, usize)> = strips.chunks(CHIP).map(of_chip).collect();
        let n_cold: usize = of_chips.iter().map(|(_, n)| n).sum();
        let mut live = (0, 0);
        for (chip, &(hits, n)) in of_chips.iter().enumerate() {
            let expected = (left - hits) as f64 * n as f64 / (n_cold - n).max(1) as f64;
            let range = CHIP * chip..CHIP * (chip + 1);
            let error = (expected * clumps).max(1.0).sqrt();
            if (hits as f64) < DEAD * expected && expected - hits as f64 >= SIGMAS * error {
                find(OutlierKind::DeadChip, (range.start, range.end - 1), hits, expected, error);
                strips[range].fill(None);
            } else {
                live = (live.0 + hits, live.1 + n);
            }
        }
        let mean = live.0 as f64 / live.1.max(1) as f64;
        let is_dead = |hits: u64| (hits as f64) < DEAD * mean && mean - hits as f64 >= SIGMAS * mean.sqrt();
        let mut strip = 0;
        while strip < n {
            let row = strips[strip..].iter().take_while(|hits| hits.is_some_and(is_dead)).count();
            if row > 0 {
                let hits = strips[strip..strip + row].iter().flatten().sum();
                let expected = row as f64 * mean;
                find(OutlierKind::DeadStrip, (strip, strip + row - 1), hits, expected, expected.sqrt());
            }
            strip += row + 1;
        }
    }
    (found, others, shares)
}

/// Returns the median; `None` of nothing.
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
