//! Differences of a run from a reference, and their significance.
//!
//! Two runs never have the same number of events or the same luminosity. So the rates and the
//! charges of sectors are compared after the ratio that all sectors have in common is divided out
//! ([`Overall`], a median, which a few broken sectors do not move). What is left belongs to single
//! sectors. The common ratio is reported by itself: a change of gain everywhere should be one line
//! and not a thousand.

use super::outlier::median;
use super::run::RunView;
use ut_data::detector::{DetectorTables, N_SECTORS};

/// Standard deviations from which a difference is marked: of a thousand sectors and two quantities,
/// chance gives fewer than one in a hundred runs.
pub const MARKED: f64 = 5.0;

/// Minimum number of hits for an error of their mean charge.
const CHARGE_HITS: u64 = 30;

/// Difference of a sector between a run and its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The sector.
    pub sector: usize,
    /// Hits an event in the run and in the reference.
    pub hits: [f64; 2],
    /// Hits in the run by hits in the reference, as shares of all hits: 1 where only the runs as a
    /// whole differ.
    pub ratio: f64,
    /// Standard deviations between the shares; not a number without hits.
    pub sigmas: f64,
    /// Mean charge in the run and in the reference, ΣADC; not a number without hits.
    pub charge: [f64; 2],
    /// Standard deviations between the charges, but for the ratio that all sectors have; not a
    /// number where one is of few hits.
    pub charge_sigmas: f64,
}

impl Difference {
    /// Returns true if the share of the hits differs by more than chance.
    pub fn is_marked(&self) -> bool {
        self.sigmas.abs() >= MARKED
    }

    /// Returns true if the mean charge differs by more than chance.
    pub fn is_charge_marked(&self) -> bool {
        self.charge_sigmas.abs() >= MARKED
    }
}

/// Ratios of a run to a reference, of the sectors in the middle: a few broken ones do not move
/// them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overall {
    /// Hits an event.
    pub hits: f64,
    /// Mean charge of a hit; 1 if it differs by less than 2 %, or is known in few sectors.
    pub charge: f64,
}

/// Minimum number of sectors with a mean charge in both runs, for a common ratio.
const COMMON: usize = 20;

/// Relative difference of the mean charge of all sectors from which it is listed first.
const GAIN: f64 = 0.02;

fn rates(runs: [&RunView; 2]) -> Vec<[f64; 2]> {
    let rate = |view: &RunView, sector: usize| {
        view.hits_of_sector(sector) as f64 / view.events.max(1) as f64
    };
    (0..N_SECTORS)
        .map(|sector| runs.map(|view| rate(view, sector)))
        .collect()
}

/// Returns the ratios of a run to its reference.
pub fn overall(run: &RunView, reference: &RunView) -> Overall {
    let runs = [run, reference];
    let ratio =
        |[run, reference]: [f64; 2]| (run > 0.0 && reference > 0.0).then(|| run / reference);
    let hits = median(rates(runs).into_iter().filter_map(ratio)).unwrap_or(1.0);
    let charge = |sector: usize| {
        let charges = runs.map(|view| mean_charge(view, sector));
        if charges.iter().all(|(_, error)| error.is_finite()) {
            ratio(charges.map(|(mean, _)| mean))
        } else {
            None
        }
    };
    let charges: Vec<f64> = (0..N_SECTORS).filter_map(charge).collect();
    let is_common = |gain: &f64| charges.len() >= COMMON && (gain - 1.0).abs() >= GAIN;
    let charge = median(charges.iter().copied())
        .filter(is_common)
        .unwrap_or(1.0);
    Overall { hits, charge }
}

/// Returns the differences of a run from a reference, by sector. Both must have the lanes of
/// `tables`.
pub fn differences(run: &RunView, reference: &RunView, tables: &DetectorTables) -> Vec<Difference> {
    let runs = [run, reference];
    let mut variance = [vec![0.0; N_SECTORS], vec![0.0; N_SECTORS]];
    for (view, variance) in runs.iter().zip(&mut variance) {
        let events = view.events.max(1) as f64;
        for (i, slot) in tables.connected() {
            let n = view.lanes.get(i).copied().unwrap_or_default() as f64;
            let squares = view.lane_squares.get(i).copied().unwrap_or_default() as f64;
            variance[usize::from(slot.sector)] += (squares - n * n / events).max(0.0);
        }
    }
    let rates = rates(runs);
    let Overall {
        hits: busier,
        charge: gain,
    } = overall(run, reference);
    (0..N_SECTORS)
        .map(|sector| {
            let [of_run, of_reference] = rates[sector];
            let error = |run: usize| {
                let events = runs[run].events.max(1) as f64;
                // No hit is known no better than one.
                variance[run][sector].max(1.0).sqrt() / events
            };
            let sigmas = if of_run == 0.0 && of_reference == 0.0 {
                f64::NAN
            } else {
                (of_run - busier * of_reference) / both(error(0), busier * error(1))
            };
            let charges = runs.map(|view| mean_charge(view, sector));
            Difference {
                sector,
                hits: [of_run, of_reference],
                ratio: of_run / (busier * of_reference),
                sigmas,
                charge: charges.map(|(mean, _)| mean),
                charge_sigmas: (charges[0].0 - gain * charges[1].0)
                    / both(charges[0].1, gain * charges[1].1),
            }
        })
        .collect()
}

/// Returns the mean charge of a sector's hits and its error; not a number where clusters are
/// unknown or too few.
pub fn mean_charge(view: &RunView, sector: usize) -> (f64, f64) {
    let hits = view.hits_of_sector(sector);
    if hits == 0 || view.clusters == 0 {
        return (f64::NAN, f64::NAN);
    }
    let n = hits as f64;
    let mean = view.charge[sector] as f64 / n;
    let variance = (view.charge_squares[sector] as f64 / n - mean * mean).max(0.0);
    (
        mean,
        if hits < CHARGE_HITS {
            f64::NAN
        } else {
            (variance.max(1.0) / n).sqrt()
        },
    )
}

/// Returns the error of a difference. (`hypot` would need a newer C library than Enterprise Linux 9
/// has.)
fn both(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt()
}
