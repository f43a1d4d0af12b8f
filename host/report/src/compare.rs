//! A run beside a reference: by how much they differ, and whether that can be chance.

use super::outliers::median;
use super::run::RunView;
use ut_data::detector::{DetectorTables, LAYER_NAMES, N_SECTORS};

/// Standard deviations from which a difference is marked: of a thousand sectors and two quantities, chance gives fewer than
/// one in a hundred runs.
pub const MARKED: f64 = 5.0;

/// Hits from which the mean of their charge has an error.
const CHARGE_HITS: u64 = 30;

/// Difference of a sector between a run and its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The sector.
    pub sector: usize,
    /// Hits an event in the run and in the reference.
    pub hits: [f64; 2],
    /// Hits in the run by hits in the reference, each as a share of what all sectors have: 1 where only the runs as a whole differ.
    pub ratio: f64,
    /// Standard deviations between the shares; not a number where both have no hit.
    pub sigmas: f64,
    /// Mean charge in the run and in the reference, ΣADC; not a number where there is none.
    pub charge: [f64; 2],
    /// Standard deviations between these; not a number where one is of few hits.
    pub charge_sigmas: f64,
}

impl Difference {
    /// True if the share of the hits differs by more than chance.
    pub fn is_marked(&self) -> bool {
        self.sigmas.abs() >= MARKED
    }

    /// True if the mean charge differs by more than chance.
    pub fn is_charge_marked(&self) -> bool {
        self.charge_sigmas.abs() >= MARKED
    }
}

/// By sector: how a run differs from a reference. The views must be of detectors with the same lanes as `tables`.
pub fn differences(run: &RunView, reference: &RunView, tables: &DetectorTables) -> Vec<Difference> {
    let runs = [run, reference];
    let mut variance = [vec![0.0; N_SECTORS], vec![0.0; N_SECTORS]];
    for (view, variance) in runs.iter().zip(&mut variance) {
        let events = view.events.max(1) as f64;
        for (i, slot) in tables.slots().iter().enumerate().filter(|(_, slot)| slot.chan_id != 0) {
            let n = view.lanes.get(i).copied().unwrap_or_default() as f64;
            let squares = view.lane_squares.get(i).copied().unwrap_or_default() as f64;
            variance[usize::from(slot.sector)] += (squares - n * n / events).max(0.0);
        }
    }
    let rates: Vec<[f64; 2]> = (0..N_SECTORS)
        .map(|sector| runs.map(|view| view.hits_of_sector(sector) as f64 / view.events.max(1) as f64))
        .collect();
    // What most sectors agree on is how much busier the run is; a few broken ones do not move it.
    let busier = median(rates.iter().filter(|[a, b]| *a > 0.0 && *b > 0.0).map(|[run, reference]| run / reference))
        .unwrap_or(1.0);
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
                charge_sigmas: (charges[0].0 - charges[1].0) / both(charges[0].1, charges[1].1),
            }
        })
        .collect()
}

/// Returns the mean charge of a sector's hits and its error: not a number where no cluster is known, or too few for an error.
pub fn mean_charge(view: &RunView, sector: usize) -> (f64, f64) {
    let hits = view.hits_of_sector(sector);
    if hits == 0 || view.clusters == 0 {
        return (f64::NAN, f64::NAN);
    }
    let n = hits as f64;
    let mean = view.charge[sector] as f64 / n;
    let variance = (view.charge_squares[sector] as f64 / n - mean * mean).max(0.0);
    (mean, if hits < CHARGE_HITS { f64::NAN } else { (variance.max(1.0) / n).sqrt() })
}

/// How a distribution differs between two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Name.
    pub name: String,
    /// χ² between them, as shares.
    pub chi2: f64,
    /// Degrees of freedom.
    pub freedom: usize,
    /// Standard deviations of a normal distribution that are as unlikely.
    pub sigmas: f64,
}

/// The distributions of charge, cluster size and hits of a lane, by layer, as far as there are entries in both runs.
pub fn distributions(a: &RunView, b: &RunView) -> Vec<Distribution> {
    let pairs = [
        ("charge", &a.charge_of_layer, &b.charge_of_layer),
        ("cluster size", &a.size_of_layer, &b.size_of_layer),
        ("hits of a lane", &a.lane_hits_of_layer, &b.lane_hits_of_layer),
    ];
    let mut found = Vec::new();
    for (name, a, b) in pairs {
        for ((layer, a), b) in LAYER_NAMES.iter().zip(a).zip(b) {
            if let Some((chi2, freedom)) = chi2(a, b) {
                let name = format!("{name}, layer {layer}");
                found.push(Distribution { name, chi2, freedom, sigmas: sigmas_of_chi2(chi2, freedom) });
            }
        }
    }
    found
}

/// χ² between the shapes of two histograms and its degrees of freedom. Bins are put together until 10 entries are expected in
/// the smaller one, were the shapes the same: what is counted there may be nothing, and that says most.
fn chi2(a: &[u64], b: &[u64]) -> Option<(f64, usize)> {
    let [total_a, total_b] = [a, b].map(|bins| bins.iter().sum::<u64>() as f64);
    let smaller = total_a.min(total_b) / (total_a + total_b);
    let mut bins: Vec<(f64, f64)> = Vec::new();
    let (mut of_a, mut of_b) = (0.0, 0.0);
    for (&in_a, &in_b) in a.iter().zip(b) {
        (of_a, of_b) = (of_a + in_a as f64, of_b + in_b as f64);
        if (of_a + of_b) * smaller >= 10.0 {
            bins.push((of_a, of_b));
            (of_a, of_b) = (0.0, 0.0);
        }
    }
    // A tail that is too short for a bin of its own.
    if let Some(last) = bins.last_mut() {
        *last = (last.0 + of_a, last.1 + of_b);
    }
    let term = |&(of_a, of_b): &(f64, f64)| {
        let away = total_b.sqrt() / total_a.sqrt() * of_a - total_a.sqrt() / total_b.sqrt() * of_b;
        away * away / (of_a + of_b)
    };
    (bins.len() > 1).then(|| (bins.iter().map(term).sum(), bins.len() - 1))
}

/// Wilson and Hilferty's: the cube root of χ² by its degrees of freedom is nearly normal.
fn sigmas_of_chi2(chi2: f64, freedom: usize) -> f64 {
    let n = freedom as f64;
    ((chi2 / n).cbrt() - (1.0 - 2.0 / (9.0 * n))) / (2.0 / (9.0 * n)).sqrt()
}

/// The error of a difference of values with these errors. (`hypot` would ask for a newer C library than Enterprise Linux 9
/// has.)
fn both(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{chi2, sigmas_of_chi2};

    #[test]
    fn equal_shapes_do_not_differ_whatever_their_size() {
        let (sum, freedom) = chi2(&[100, 200, 300, 5, 5], &[1000, 2000, 3000, 50, 50]).unwrap();
        assert!(sum.abs() < 1e-9 && freedom == 3, "{sum} {freedom}");
        assert!(sigmas_of_chi2(sum, freedom) < 0.0);
        let (sum, freedom) = chi2(&[100, 200, 300], &[300, 200, 100]).unwrap();
        assert!(sigmas_of_chi2(sum, freedom) > 10.0, "{sum}");
        // The same shape elsewhere: no bin has entries of both.
        let (sum, freedom) = chi2(&[0, 500, 500, 0, 0], &[0, 0, 0, 500, 500]).unwrap();
        assert!(sigmas_of_chi2(sum, freedom) > 10.0, "{sum} {freedom}");
        // Too few for a bin of their own, but all in one of the two.
        let (without, freedom) = chi2(&[1000, 1000, 0], &[1000, 1000, 0]).unwrap();
        let (with, same) = chi2(&[1000, 1000, 0], &[1000, 1000, 19]).unwrap();
        assert!(without == 0.0 && with > 0.05 && freedom == same, "{with} {freedom} {same}");
        assert_eq!(chi2(&[], &[]), None);
        assert_eq!(chi2(&[100, 100], &[0, 0]), None);
        assert_eq!(chi2(&[100], &[100]), None);
    }

    #[test]
    fn as_many_sigmas_as_a_table_of_chi2_says() {
        // One in a hundred: 2.326 standard deviations on one side.
        for (chi2, freedom) in [(6.635, 1), (23.209, 10), (135.807, 100)] {
            assert!((sigmas_of_chi2(chi2, freedom) - 2.326).abs() < 0.15, "{chi2} {freedom}");
        }
    }
}
