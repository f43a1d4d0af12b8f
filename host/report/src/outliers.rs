//! Outliers of a run: lanes, chips and strips that are dead, quiet or hot, or fail for some of the
//! events.
//!
//! By symmetry, a lane should have as many hits as the lanes at the mirrored places
//! ([`Neighbours`]). The run itself shows how a lane's hits vary from event to event, and how far
//! lanes are off for geometric reasons.
//!
//! No table of expected rates is needed, and none could be right for every run: beam conditions,
//! luminosity and the trigger change the rates, but they change them alike at places that mirror
//! each other. The expectation of a lane is the *median* of its partners, so that a dead or hot
//! partner does not spoil it.
//!
//! Two errors enter a deviation: the lane's own variance from event to event, which is larger than
//! for independent hits, and the spread of healthy lanes around their expectations, which is
//! measured in this run from the lanes with enough hits.

use std::ops::Range;

use super::causes::causes;
use super::charge::of_spectra;
use super::in_time::{MOSTLY, failing_for_a_while, is_of_chips};
use super::outlier::{
    DEAD, HOT, LEAST_EVENTS, NO_CHANCE, Outlier, OutlierKind, Part, PartOf, QUIET, SIGMAS,
    STRIP_FACTOR, STRIP_HITS, median,
};
use super::page::names::lanes_of_sectors;
use super::run::{CHIP, CHIPS_PER_SECTOR, RunView, chips_of_lanes};
use super::shape::Neighbours;
use super::stream::of_stream;
use super::trend::of_detector;
use super::when::When;
use ut_data::detector::{
    ChannelId, DetectorTables, LhcbId, Mask, N_SECTORS, STRIPS_PER_SECTOR, Slot,
};

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

/// Lanes that have strips without a mask, and what is expected of them.
struct Lanes {
    all: Vec<LaneSum>,
    /// Lanes of each sector, as places in `all`.
    of_sector: Vec<Vec<usize>>,
    /// Expectation of a lane with all strips and its variance, by sector.
    expected: Vec<Option<(f64, f64)>>,
    /// Relative deviation of lanes from their expectation beyond chance: sectors with one lane, and
    /// with two.
    spread: [f64; 2],
}

impl Lanes {
    /// Sums up the lanes; `cold` are the hits of their strips that are not hot, `left` the shares
    /// of their strips that are not masked.
    fn new(
        (view, tables): (&RunView, &DetectorTables),
        neighbours: &Neighbours,
        (cold, left): (&[u64], &[f64]),
    ) -> Self {
        let events = view.events.max(1) as f64;
        let lane = |(slot, of): (usize, &Slot)| {
            let n = view.lanes[slot] as f64;
            LaneSum {
                slot,
                sector: usize::from(of.sector),
                hits: cold[slot],
                // Hits of hot strips vary little.
                variance: (view.lane_squares[slot] as f64 - n * n / events).max(1.0),
                left: left[slot],
            }
        };
        let slots = tables.slots().iter().enumerate();
        let all: Vec<LaneSum> = slots.filter(|(i, _)| left[*i] > 0.0).map(lane).collect();
        let mut of_sector: Vec<Vec<usize>> = vec![Vec::new(); N_SECTORS];
        for (i, lane) in all.iter().enumerate() {
            of_sector[lane.sector].push(i);
        }
        let mut lanes = Self {
            all,
            of_sector,
            expected: Vec::new(),
            spread: [0.0; 2],
        };
        lanes.expected = (0..N_SECTORS)
            .map(|sector| lanes.expectation(sector, neighbours.of(sector)))
            .collect();
        lanes.spread = [1, 2].map(|n| lanes.spread_of(n));
        lanes
    }

    /// Returns the expectation of a lane of a sector with all strips and its variance.
    fn expectation(&self, sector: usize, neighbours: &[u16]) -> Option<(f64, f64)> {
        let alike = neighbours
            .iter()
            .map(|&other| &self.of_sector[usize::from(other)]);
        let alike: Vec<&Vec<usize>> = alike.filter(|others| !others.is_empty()).collect();
        let mean = |value: &dyn Fn(&LaneSum) -> f64| {
            median(alike.iter().map(|others| {
                let values = others
                    .iter()
                    .map(|&i| value(&self.all[i]) / self.all[i].left);
                values.sum::<f64>() / others.len() as f64
            }))
        };
        let (hits, variance) = (
            mean(&|lane| lane.hits as f64)?,
            mean(&|lane| lane.variance)?,
        );
        (!self.of_sector[sector].is_empty()).then_some((hits, variance.max(hits)))
    }

    /// Returns the spread of the lanes of sectors with `n` lanes.
    fn spread_of(&self, n: usize) -> f64 {
        let away = self
            .all
            .iter()
            .filter(|lane| self.of_sector[lane.sector].len() == n)
            .filter_map(|lane| {
                let (expected, _) =
                    self.expected[lane.sector].filter(|(expected, _)| *expected >= SPREAD_FROM)?;
                Some((lane.hits as f64 / (expected * lane.left) - 1.0).abs())
            });
        median(away).map_or(SPREAD.0, |mad| (SIGMAS_PER_MAD * mad).max(SPREAD.1))
    }

    /// Returns the expectation of the unmasked strips of a lane and its variance.
    fn expected(&self, lane: &LaneSum) -> Option<(f64, f64)> {
        let of_all = self.expected[lane.sector];
        of_all.map(|(hits, variance)| (hits * lane.left, variance * lane.left))
    }

    /// Finds dead, quiet and hot lanes. Also returns which sectors have enough hits to be judged.
    fn judge(&self, view: &RunView, chips: &[Range<usize>]) -> (Vec<Outlier>, Vec<bool>) {
        // A sector that is masked as a whole needs no verdict.
        let mut judged: Vec<bool> = self.of_sector.iter().map(Vec::is_empty).collect();
        let mut found = Vec::new();
        for lane in self.all.iter().filter(|_| view.events >= LEAST_EVENTS) {
            let Some((expected, variance)) = self.expected(lane) else {
                continue;
            };
            let n = lane.hits as f64;
            judged[lane.sector] = expected * (1.0 - DEAD) >= SIGMAS * variance.sqrt();
            let wide = self.spread[usize::from(self.of_sector[lane.sector].len() > 1)] * expected;
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
            let of_lane = Outlier::of_lane(kind, lane.slot, lane.sector, (n, expected), sigmas);
            let has_hot_strip = lane.hits < view.lanes[lane.slot];
            found.push(if kind == OutlierKind::Hot && !has_hot_strip {
                hot_chip(view, of_lane, chips[lane.slot].clone())
            } else {
                of_lane
            });
        }
        (found, judged)
    }

    /// Returns the lanes to judge in time; `clipped` are the mean charges of the sectors.
    fn parts(
        &self,
        view: &RunView,
        neighbours: &Neighbours,
        (chips, clipped): (&[Range<usize>], &[f64]),
    ) -> Vec<PartOf> {
        let part = |lane: &LaneSum| {
            let others = neighbours.of(lane.sector).iter();
            let charges = others.map(|&other| clipped[usize::from(other)]);
            PartOf {
                slot: lane.slot,
                sector: lane.sector,
                chips: chips[lane.slot].clone(),
                expected: self.expected(lane),
                variance: lane.variance,
                charge: median(charges.filter(|charge| charge.is_finite())),
                strips: None,
            }
        };
        let lanes = self.all.iter().filter(|_| view.events >= LEAST_EVENTS);
        lanes.map(part).collect()
    }
}

/// Finds the outliers of `view`, which is of `tables` and lacks the hits on the strips of `mask`.
/// Expectations are of unmasked strips; a lane without any is not judged.
pub fn outliers(view: &RunView, tables: &DetectorTables, mask: Option<&Mask>) -> Verdicts {
    let (mut outliers, cold, left) = strips(view, tables, mask);
    let is_chip = |of: &&Outlier| of.part == Part::Chip;
    let dead_chips: Vec<Outlier> = outliers.iter().filter(is_chip).cloned().collect();
    let (neighbours, chips) = (Neighbours::new(tables), chips_of_lanes(tables));
    let lanes = Lanes::new((view, tables), &neighbours, (&cold, &left));
    let (of_lanes, judged) = lanes.judge(view, &chips);
    // Beside a hot chip, the others of its lane look dead.
    let is_hot = |of: &Outlier, slot| of.part == Part::Chip && of.slot() == slot;
    outliers
        .retain(|of| of.part != Part::Chip || !of_lanes.iter().any(|lane| is_hot(lane, of.slot())));
    outliers.extend(of_lanes);
    let trends = of_detector(view);
    let is_odd = is_odd(view, &trends);
    let clipped = clipped_charges(view, &is_odd);
    let judged_lanes = lanes.parts(view, &neighbours, (&chips, &clipped));
    let judged_chips: Vec<PartOf> = judged_lanes
        .iter()
        .flat_map(|lane| chips_of(lane, tables, mask))
        .collect();
    let in_time = failing_for_a_while(
        (view, tables),
        (&judged_lanes, &judged_chips),
        (&outliers, &is_odd),
    );
    outliers.retain(|outlier| {
        let is_same = |other: &Outlier| other.is_same_as(outlier) || explains(other, outlier);
        !in_time.iter().any(is_same) && !dead_chips.iter().any(|chip| explains(chip, outlier))
    });
    let spectra = of_spectra(view, &judged_chips, &neighbours);
    add_charges(&mut outliers, (spectra, in_time), tables);
    outliers.extend(trends);
    outliers.extend(of_stream(view, tables));
    let mut outliers = causes(outliers, view, tables);
    let striking = |outlier: &Outlier| -outlier.sigmas.abs();
    outliers.sort_by(|a, b| {
        (a.kind, a.part)
            .cmp(&(b.kind, b.part))
            .then(striking(a).total_cmp(&striking(b)))
    });
    let left_of = |s: usize| {
        lanes.of_sector[s]
            .iter()
            .map(|&i| lanes.all[i].left)
            .sum::<f64>()
    };
    let expected = (0..N_SECTORS)
        .map(|s| lanes.expected[s].map(|(hits, _)| hits * left_of(s)))
        .collect();
    Verdicts {
        outliers,
        known: Vec::new(),
        expected,
        judged,
        spread: lanes.spread,
    }
}

/// Returns true if a lane is quiet or hot because of a dead chip or a fault in time.
fn explains(fault: &Outlier, lane: &Outlier) -> bool {
    let is_here =
        lane.slot() == fault.slot() || fault.part == Part::Board && lane.board == fault.board;
    matches!(lane.part, Part::Lane | Part::Chip)
        && is_here
        && match lane.kind {
            OutlierKind::Quiet => matches!(
                (fault.kind, fault.part),
                (OutlierKind::Silent | OutlierKind::Quiet, _) | (OutlierKind::Dead, Part::Chip)
            ),
            OutlierKind::Hot => fault.kind == OutlierKind::Noisy,
            _ => false,
        }
}

/// Adds the outliers of charge, those of the whole run and those in time: each once, and with its
/// time where it has one; and the other outliers in time.
fn add_charges(
    outliers: &mut Vec<Outlier>,
    (spectra, mut in_time): (Vec<Outlier>, Vec<Outlier>),
    tables: &DetectorTables,
) {
    in_time.retain(|of| {
        of.part != Part::Lane || !of.kind.is_of_charge() || !is_of_chips(of, &spectra, tables)
    });
    let is_hot = |of: &&Outlier| of.kind == OutlierKind::Hot;
    let hot: Vec<Outlier> = outliers.iter().filter(is_hot).cloned().collect();
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
        let mut windows = in_time
            .iter()
            .filter(is_told)
            .filter(|other| other.strips.is_none_or(|_| other.strips == outlier.strips));
        !in_time.iter().chain(&hot).any(is_noise)
            && !windows.any(|other| other.when != When::Throughout)
    }));
    let told: Vec<_> = outliers
        .iter()
        .filter(|other| other.kind.is_of_charge())
        .map(Outlier::slot)
        .collect();
    outliers.extend(in_time.into_iter().filter(|outlier| {
        !(outlier.kind.is_of_charge()
            && outlier.when == When::Throughout
            && told.contains(&outlier.slot()))
    }));
}

/// Returns the chip that has most of what a hot lane has too much, or the lane.
fn hot_chip(view: &RunView, lane: Outlier, chips: Range<usize>) -> Outlier {
    let expected = lane.expected / chips.len() as f64;
    let hits = |chip: usize| view.strips[chip * CHIP..][..CHIP].iter().sum::<u64>() as f64;
    let Some(chip) = chips
        .into_iter()
        .find(|&chip| hits(chip) - expected >= MOSTLY * (lane.seen - lane.expected))
    else {
        return lane;
    };
    let first = chip % CHIPS_PER_SECTOR * CHIP;
    Outlier {
        part: Part::Chip,
        strips: Some((first, first + CHIP - 1)),
        seen: hits(chip),
        expected,
        ..lane
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
    let lanes = lanes_of_sectors(tables);
    let mut found = Vec::new();
    let (mut others, mut shares) = (view.lanes.clone(), vec![0.0; slots.len()]);
    for (i, slot) in tables.connected() {
        let sector = usize::from(slot.sector);
        let (first, n) = match lanes[sector].len() {
            1 => (0, 2 * half),
            _ => (half * (slot.chan_id >> 8 & 1) as usize, half),
        };
        let channel = slot.chan_id & !(STRIPS_PER_SECTOR - 1);
        let id = |strip: usize| LhcbId::of(ChannelId(channel + strip as u32)).0;
        let is_left = |strip: usize| mask.is_none_or(|mask| !mask.contains(id(strip)));
        let of_sector = view.strips_of(sector);
        let mut lane = LaneStrips {
            slot: i,
            sector,
            first,
            hits: (first..first + n)
                .map(|strip| is_left(strip).then_some(of_sector[strip]))
                .collect(),
            found: &mut found,
        };
        shares[i] = lane.hits.iter().flatten().count() as f64 / n as f64;
        others[i] = others[i].saturating_sub(lane.find_hot());
        if view.events >= LEAST_EVENTS {
            let (hits, events) = (view.lanes[i] as f64, view.events as f64);
            let variance = view.lane_squares[i] as f64 - hits * hits / events;
            lane.find_dead((variance / hits.max(1.0)).max(1.0));
        }
    }
    (found, others, shares)
}

/// Strips of a lane.
struct LaneStrips<'a> {
    slot: usize,
    sector: usize,
    /// First strip of the lane in its sector.
    first: usize,
    /// Hits by strip; `None` for strips that are masked or were found to stand out.
    hits: Vec<Option<u64>>,
    found: &'a mut Vec<Outlier>,
}

impl LaneStrips<'_> {
    fn add(
        &mut self,
        (kind, part): (OutlierKind, Part),
        (from, to): (usize, usize),
        (hits, expected, error): (u64, f64, f64),
    ) {
        let sigmas = (hits as f64 - expected) / error;
        let numbers = (hits as f64, expected);
        let lane = Outlier::of_lane(kind, self.slot, self.sector, numbers, sigmas);
        self.found.push(Outlier {
            part,
            strips: Some((self.first + from, self.first + to)),
            // A hot strip may owe all of its hits to a moment: only its chip can tell.
            when: if kind == OutlierKind::Hot {
                When::Unknown
            } else {
                lane.when
            },
            ..lane
        });
    }

    /// Finds hot strips, and returns their hits. They are compared with the mean of the strips that
    /// are not hot: the hottest goes first, until one is not hot.
    fn find_hot(&mut self) -> u64 {
        let n = self.hits.len();
        let mut order: Vec<usize> = (0..n).filter(|&strip| self.hits[strip].is_some()).collect();
        order.sort_by_key(|&strip| std::cmp::Reverse(self.hits[strip]));
        let all: u64 = self.hits.iter().flatten().sum();
        let mut left = all;
        for (out, &strip) in order.iter().enumerate() {
            let hits = self.hits[strip].unwrap_or_default();
            let mean = (left - hits) as f64 / (order.len() - out - 1).max(1) as f64;
            if hits < STRIP_HITS
                || (hits as f64) < STRIP_FACTOR * mean
                || !is_no_chance(hits as f64, mean)
            {
                break;
            }
            left -= hits;
            self.hits[strip] = None;
            let numbers = (hits, mean, mean.max(1.0).sqrt());
            self.add((OutlierKind::Hot, Part::Strip), (strip, strip), numbers);
        }
        all - left
    }

    /// Finds dead chips, and dead strips of others. Hits of a track come together: their variance
    /// is `clumps` times that of independent hits.
    fn find_dead(&mut self, clumps: f64) {
        let of_chip =
            |chip: &[Option<u64>]| (chip.iter().flatten().sum(), chip.iter().flatten().count());
        let of_chips: Vec<(u64, usize)> = self.hits.chunks(CHIP).map(of_chip).collect();
        let (all, n_all) = of_chips
            .iter()
            .fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let mut live = (0, 0);
        for (chip, &(hits, n)) in of_chips.iter().enumerate() {
            let expected = (all - hits) as f64 * n as f64 / (n_all - n).max(1) as f64;
            let range = CHIP * chip..CHIP * (chip + 1);
            let error = (expected * clumps).max(1.0).sqrt();
            if (hits as f64) < DEAD * expected && expected - hits as f64 >= SIGMAS * error {
                let strips = (range.start, range.end - 1);
                self.add(
                    (OutlierKind::Dead, Part::Chip),
                    strips,
                    (hits, expected, error),
                );
                self.hits[range].fill(None);
            } else {
                live = (live.0 + hits, live.1 + n);
            }
        }
        let mean = live.0 as f64 / live.1.max(1) as f64;
        let is_dead =
            |hits: u64| (hits as f64) < DEAD * mean && mean - hits as f64 >= SIGMAS * mean.sqrt();
        let mut strip = 0;
        while strip < self.hits.len() {
            let row = self.hits[strip..]
                .iter()
                .take_while(|hits| hits.is_some_and(is_dead))
                .count();
            if row > 0 {
                let hits = self.hits[strip..strip + row].iter().flatten().sum();
                let expected = row as f64 * mean;
                let strips = (strip, strip + row - 1);
                let numbers = (hits, expected, expected.sqrt());
                self.add((OutlierKind::Dead, Part::Strip), strips, numbers);
            }
            strip += row + 1;
        }
    }
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
    hits * (hits / mean).ln() - (hits - mean) >= NO_CHANCE
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
