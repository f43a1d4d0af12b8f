//! Outliers of a run: lanes, chips and strips that are dead, quiet or hot, or fail for some of the
//! events.
//!
//! By symmetry, a lane should have as many hits as those at the mirrored places ([`Neighbours`]).
//! The run itself tells how a lane's hits vary from event to event, and how far lanes are off for
//! geometric reasons.
//!
//! No table of expected rates is needed, and none could be right for every run: beam conditions,
//! luminosity and the trigger change the rates, but they change them alike at places that mirror
//! each other. The expectation of a lane is the *median* of its partners, so that a dead or hot
//! partner does not spoil it.
//!
//! Two errors enter a deviation: the lane's own variance from event to event, which is larger than
//! that of independent hits, and the spread of healthy lanes round their expectations, which is
//! measured in this run from the lanes with enough hits.

use super::causes::causes;
use super::charge::of_spectra;
use super::in_time::{failing_for_a_while, is_of_chips};
use super::outlier::{
    DEAD, HOT, LEAST_EVENTS, Outlier, OutlierKind, Part, PartOf, QUIET, SIGMAS, STRIP_FACTOR,
    STRIP_HITS, median,
};
use super::run::{CHIP, CHIPS_PER_SECTOR, RunView, chips_of_lanes};
use super::shape::Neighbours;
use super::stream::of_stream;
use super::trend::of_detector;
use super::when::When;
use ut_data::detector::{ChannelId, DetectorTables, LhcbId, Mask, N_SECTORS, STRIPS_PER_SECTOR};

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
    /// Relative deviation of lanes from their expectation beyond chance: sectors with one lane, and
    /// with two.
    pub spread: [f64; 2],
}

/// Minimum expectation of the lanes from which the spread is measured.
///
/// With 200 expected hits, chance alone gives 7 %, and deviations from geometry begin to show.
const SPREAD_FROM: f64 = 200.0;

/// Spread where it cannot be measured, and the least.
///
/// The least keeps very long runs honest: with millions of hits the measured spread of a perfect
/// detector tends to 0, and every difference of a per cent would be significant.
const SPREAD: (f64, f64) = (0.15, 0.03);

/// Standard deviations of a normal distribution a median absolute deviation.
const SIGMAS_PER_MAD: f64 = 1.4826;

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

/// Finds the outliers of `view`, which is of `tables` and lacks the hits on the strips of `mask`.
/// Expectations are of unmasked strips; a lane without any is not judged.
pub fn outliers(view: &RunView, tables: &DetectorTables, mask: Option<&Mask>) -> Verdicts {
    let (mut outliers, without_hot, left) = strips(view, tables, mask);
    let chips_found: Vec<Outlier> = outliers
        .iter()
        .filter(|of| of.part == Part::Chip)
        .cloned()
        .collect();
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
            LaneSum {
                slot: i,
                sector,
                hits,
                variance,
                left: left[i],
            }
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
            let alike = neighbours
                .of(sector)
                .iter()
                .map(|&other| &of_sector[usize::from(other)]);
            let alike: Vec<&Vec<usize>> = alike.filter(|others| !others.is_empty()).collect();
            let mean = |value: &dyn Fn(&LaneSum) -> f64| {
                median(alike.iter().map(|others| {
                    others
                        .iter()
                        .map(|&i| value(&lanes[i]) / lanes[i].left)
                        .sum::<f64>()
                        / others.len() as f64
                }))
            };
            let (hits, variance) = (
                mean(&|lane| lane.hits as f64)?,
                mean(&|lane| lane.variance)?,
            );
            (!of_sector[sector].is_empty()).then_some((hits, variance.max(hits)))
        })
        .collect();
    let spread = [1, 2].map(|n| {
        let away = lanes
            .iter()
            .filter(|lane| of_sector[lane.sector].len() == n)
            .filter_map(|lane| {
                let (expected, _) =
                    expected[lane.sector].filter(|(expected, _)| *expected >= SPREAD_FROM)?;
                Some((lane.hits as f64 / (expected * lane.left) - 1.0).abs())
            });
        median(away).map_or(SPREAD.0, |mad| (SIGMAS_PER_MAD * mad).max(SPREAD.1))
    });
    // A sector that is masked as a whole needs no verdict.
    let mut judged: Vec<bool> = of_sector.iter().map(Vec::is_empty).collect();
    for lane in &lanes {
        let Some((expected, variance)) = lane.expected(&expected) else {
            continue;
        };
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
            (OutlierKind::Dead, chance)
        } else if n < QUIET * expected && all <= -SIGMAS {
            (OutlierKind::Quiet, all)
        } else if n > HOT * expected && all >= SIGMAS {
            (OutlierKind::Hot, all)
        } else {
            continue;
        };
        outliers.push(Outlier::of_lane(
            kind,
            lane.slot,
            lane.sector,
            (lane.hits as f64, expected),
            sigmas,
        ));
    }
    let chips = chips_of_lanes(tables);
    let trends = of_detector(view);
    let is_odd = is_odd(view, &trends);
    let clipped = clipped_charges(view, &is_odd);
    let of_lane = |lane: &LaneSum| {
        let charges = neighbours
            .of(lane.sector)
            .iter()
            .map(|&other| clipped[usize::from(other)]);
        PartOf {
            slot: lane.slot,
            sector: lane.sector,
            chips: chips[lane.slot].clone(),
            expected: lane.expected(&expected),
            variance: lane.variance,
            charge: median(charges.filter(|charge| charge.is_finite())),
            strips: None,
        }
    };
    let judged_lanes: Vec<PartOf> = if view.events < LEAST_EVENTS {
        Vec::new()
    } else {
        lanes.iter().map(of_lane).collect()
    };
    let judged_chips: Vec<PartOf> = judged_lanes
        .iter()
        .flat_map(|lane| chips_of(lane, tables, mask))
        .collect();
    let more = failing_for_a_while(
        (view, tables),
        (&judged_lanes, &judged_chips),
        (&outliers, &is_odd),
    );
    // A lane with a dead chip or a fault in time is not also quiet or hot.
    outliers.retain(|outlier| {
        let is_told = |other: &Outlier| {
            outlier.part == Part::Lane
                && (outlier.slot() == other.slot()
                    || other.part == Part::Board && outlier.board == other.board)
                && match outlier.kind {
                    OutlierKind::Quiet => matches!(
                        (other.kind, other.part),
                        (OutlierKind::Silent | OutlierKind::Quiet, _)
                            | (OutlierKind::Dead, Part::Chip)
                    ),
                    OutlierKind::Hot => other.kind == OutlierKind::Noisy,
                    _ => false,
                }
        };
        !more.iter().any(is_told) && !chips_found.iter().any(is_told)
    });
    let spectra = of_spectra(view, &judged_chips, &neighbours);
    let mut more = more;
    more.retain(|of| {
        of.part != Part::Lane || !of.kind.is_of_charge() || !is_of_chips(of, &spectra, tables)
    });
    let hot: Vec<Outlier> = outliers
        .iter()
        .filter(|of| of.kind == OutlierKind::Hot)
        .cloned()
        .collect();
    // Outliers that are seen in time are listed with their time.
    outliers.extend(spectra.into_iter().filter(|outlier| {
        let is_told =
            |other: &&Outlier| other.slot() == outlier.slot() && other.kind.is_of_charge();
        let is_noise = |other: &Outlier| {
            matches!(other.kind, OutlierKind::Noisy | OutlierKind::Hot)
                && other.slot() == outlier.slot()
                && other
                    .strips
                    .zip(outlier.strips)
                    .is_none_or(|(of, chip)| chip.0 <= of.0 && of.1 <= chip.1)
        };
        if more.iter().chain(&hot).any(is_noise) {
            return false;
        }
        let windows = more
            .iter()
            .filter(is_told)
            .filter(|other| other.strips.is_none_or(|_| other.strips == outlier.strips));
        !windows.clone().any(|other| other.when != When::Throughout)
    }));
    let told: Vec<_> = outliers
        .iter()
        .filter(|other| other.kind.is_of_charge())
        .map(Outlier::slot)
        .collect();
    outliers.extend(more.into_iter().filter(|outlier| {
        !(outlier.kind.is_of_charge()
            && outlier.when == When::Throughout
            && told.contains(&outlier.slot()))
    }));
    outliers.extend(trends);
    outliers.extend(of_stream(view, tables));
    let mut outliers = causes(outliers, view, tables);
    let striking = |outlier: &Outlier| -outlier.sigmas.abs();
    outliers.sort_by(|a, b| {
        (a.kind, a.part)
            .cmp(&(b.kind, b.part))
            .then(striking(a).total_cmp(&striking(b)))
    });
    let expected = (0..N_SECTORS)
        .map(|s| {
            expected[s]
                .map(|(hits, _)| hits * of_sector[s].iter().map(|&i| lanes[i].left).sum::<f64>())
        })
        .collect();
    Verdicts {
        outliers,
        known: Vec::new(),
        expected,
        judged,
        spread,
    }
}

/// Finds hot strips, dead chips and dead strips. Also returns, by lane slot, the hits of strips
/// that are not hot, and the share of strips that are not masked.
fn strips(
    view: &RunView,
    tables: &DetectorTables,
    mask: Option<&Mask>,
) -> (Vec<Outlier>, Vec<u64>, Vec<f64>) {
    let half = STRIPS_PER_SECTOR as usize / 2;
    let slots = tables.slots();
    let mut lanes_of = vec![0; N_SECTORS];
    slots
        .iter()
        .filter(|slot| slot.chan_id != 0)
        .for_each(|slot| lanes_of[usize::from(slot.sector)] += 1);
    let mut found = Vec::new();
    let (mut others, mut shares) = (view.lanes.clone(), vec![0.0; slots.len()]);
    for (i, slot) in slots
        .iter()
        .enumerate()
        .filter(|(_, slot)| slot.chan_id != 0)
    {
        let sector = usize::from(slot.sector);
        let first = if lanes_of[sector] > 1 {
            half * (slot.chan_id >> 8 & 1) as usize
        } else {
            0
        };
        let n = if lanes_of[sector] > 1 { half } else { 2 * half };
        let id = |strip: usize| {
            LhcbId::of(ChannelId(
                (slot.chan_id & !(STRIPS_PER_SECTOR - 1)) + strip as u32,
            ))
            .0
        };
        let is_left = |strip: usize| mask.is_none_or(|mask| !mask.contains(id(strip)));
        let hits = view.strips_of(sector);
        let mut strips: Vec<Option<u64>> = (first..first + n)
            .map(|strip| is_left(strip).then_some(hits[strip]))
            .collect();
        let n_left = strips.iter().flatten().count();
        shares[i] = n_left as f64 / n as f64;
        let mut find =
            |kind, part, (from, to): (usize, usize), hits: u64, expected: f64, error: f64| {
                let sigmas = (hits as f64 - expected) / error;
                let outlier = Outlier::of_lane(kind, i, sector, (hits as f64, expected), sigmas);
                found.push(Outlier {
                    part,
                    strips: Some((first + from, first + to)),
                    ..outlier
                });
            };
        // The mean of the strips that are not hot: the hottest goes first, until one is not hot.
        let mut order: Vec<usize> = (0..n).filter(|&strip| strips[strip].is_some()).collect();
        order.sort_by_key(|&strip| std::cmp::Reverse(strips[strip]));
        let mut left: u64 = strips.iter().flatten().sum();
        for (out, &strip) in order.iter().enumerate() {
            let hits = strips[strip].unwrap_or_default();
            let mean = (left - hits) as f64 / (n_left - out - 1).max(1) as f64;
            if hits < STRIP_HITS
                || (hits as f64) < STRIP_FACTOR * mean
                || !is_no_chance(hits as f64, mean)
            {
                break;
            }
            left -= hits;
            others[i] = others[i].saturating_sub(hits);
            strips[strip] = None;
            find(
                OutlierKind::Hot,
                Part::Strip,
                (strip, strip),
                hits,
                mean,
                mean.max(1.0).sqrt(),
            );
        }
        if view.events < LEAST_EVENTS {
            continue;
        }
        let (hits, events) = (view.lanes[i] as f64, view.events as f64);
        // Ratio of the variance to the variance of independent hits: hits of a track come together.
        let clumps =
            ((view.lane_squares[i] as f64 - hits * hits / events) / hits.max(1.0)).max(1.0);
        let of_chip =
            |chip: &[Option<u64>]| (chip.iter().flatten().sum(), chip.iter().flatten().count());
        let of_chips: Vec<(u64, usize)> = strips.chunks(CHIP).map(of_chip).collect();
        let n_cold: usize = of_chips.iter().map(|(_, n)| n).sum();
        let mut live = (0, 0);
        for (chip, &(hits, n)) in of_chips.iter().enumerate() {
            let expected = (left - hits) as f64 * n as f64 / (n_cold - n).max(1) as f64;
            let range = CHIP * chip..CHIP * (chip + 1);
            let error = (expected * clumps).max(1.0).sqrt();
            if (hits as f64) < DEAD * expected && expected - hits as f64 >= SIGMAS * error {
                find(
                    OutlierKind::Dead,
                    Part::Chip,
                    (range.start, range.end - 1),
                    hits,
                    expected,
                    error,
                );
                strips[range].fill(None);
            } else {
                live = (live.0 + hits, live.1 + n);
            }
        }
        let mean = live.0 as f64 / live.1.max(1) as f64;
        let is_dead =
            |hits: u64| (hits as f64) < DEAD * mean && mean - hits as f64 >= SIGMAS * mean.sqrt();
        let mut strip = 0;
        while strip < n {
            let row = strips[strip..]
                .iter()
                .take_while(|hits| hits.is_some_and(is_dead))
                .count();
            if row > 0 {
                let hits = strips[strip..strip + row].iter().flatten().sum();
                let expected = row as f64 * mean;
                find(
                    OutlierKind::Dead,
                    Part::Strip,
                    (strip, strip + row - 1),
                    hits,
                    expected,
                    expected.sqrt(),
                );
            }
            strip += row + 1;
        }
    }
    (found, others, shares)
}

/// Returns true if chance gives one of half a million strips this number of hits in at most one of
/// a thousand runs.
///
/// The left side is the logarithm of how much less likely n hits are than the most likely number,
/// for a Poisson distribution with this mean (Chernoff's bound). e⁻²² is 3 · 10⁻¹⁰; times half a
/// million strips that is 1.4 · 10⁻⁴. The mean of a strip without hits is taken as 0.02, since
/// nothing is known to be exactly 0.
fn is_no_chance(hits: f64, mean: f64) -> bool {
    let mean = mean.max(0.02);
    hits * (hits / mean).ln() - (hits - mean) >= 22.0
}

/// Returns true for each bin in which the whole detector changes for a while.
fn is_odd(view: &RunView, trends: &[Outlier]) -> Vec<bool> {
    let windows = trends.iter().flat_map(|trend| match &trend.when {
        When::In(windows) => windows.as_slice(),
        _ => &[],
    });
    let windows: Vec<(u64, u64)> = windows.map(|window| window.numbers).collect();
    let is_in = |(from, to): (u64, u64)| {
        windows
            .iter()
            .any(|(first, last)| from <= *last && to >= *first)
    };
    view.spans
        .iter()
        .map(|(_, span)| span.numbers.is_some_and(is_in))
        .collect()
}

/// Returns the mean charge of the hits of each sector, of each `CLIPPED` at most.
fn clipped_charges(view: &RunView, is_odd: &[bool]) -> Vec<f64> {
    let mut sums = vec![[0.0; 2]; N_SECTORS];
    for (_, span) in view
        .spans
        .iter()
        .zip(is_odd)
        .filter(|(_, is_odd)| !**is_odd)
        .map(|(span, _)| span)
    {
        for (chip, (hits, charge)) in span.chips.iter().zip(&span.charge).enumerate() {
            let sum = &mut sums[chip / CHIPS_PER_SECTOR];
            *sum = [sum[0] + f64::from(*hits), sum[1] + f64::from(*charge)];
        }
    }
    sums.into_iter()
        .map(|[hits, charge]| charge / hits)
        .collect()
}

/// Returns the chips of a lane with their shares of its expectations; none of which all strips are
/// masked.
fn chips_of(lane: &PartOf, tables: &DetectorTables, mask: Option<&Mask>) -> Vec<PartOf> {
    let channel = tables.slots()[lane.slot].chan_id & !(STRIPS_PER_SECTOR - 1);
    let left = |chip: usize| {
        let strips = chip % CHIPS_PER_SECTOR * CHIP..(chip % CHIPS_PER_SECTOR + 1) * CHIP;
        let is_left = |strip: &usize| {
            mask.is_none_or(|mask| !mask.contains(LhcbId::of(ChannelId(channel + *strip as u32)).0))
        };
        strips.filter(is_left).count() as f64
    };
    let all: f64 = lane.chips.clone().map(left).sum();
    let of_chip = |chip: usize| {
        let share = left(chip) / all.max(1.0);
        let first = chip % CHIPS_PER_SECTOR * CHIP;
        (share > 0.0).then(|| PartOf {
            chips: chip..chip + 1,
            expected: lane
                .expected
                .map(|(hits, variance)| (hits * share, variance * share)),
            variance: lane.variance * share,
            strips: Some((first, first + CHIP - 1)),
            ..lane.clone()
        })
    };
    lane.chips.clone().filter_map(of_chip).collect()
}
