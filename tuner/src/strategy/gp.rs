//! Gaussian process over a finite list of points, grown one observation at a time.
//!
//! With the Cholesky factor L of the observations' covariance R (noise included), the posterior of
//! the candidates needs only `V = L⁻¹ k(X, candidates)`: mean and variance are sums over its rows.
//! An observation appends one row to L and one to V, with `rows × candidates` products in single
//! precision and without branches, for SIMD. L is in double precision.
//!
//! The covariance is Matérn 5/2 with a length-scale per column. The prior mean and the scale of the
//! variance take their maximum-likelihood values.

/// Point, as one number a column.
pub(crate) type Point = Vec<f32>;

/// Candidates, by columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    /// True for a column whose different values are all 1 apart.
    pub(crate) categories: Vec<bool>,
    /// Values of the candidates, by column.
    pub(crate) columns: Vec<Vec<f32>>,
    pub(crate) count: usize,
}

impl Candidates {
    /// Makes candidates of `points`.
    pub(crate) fn new(categories: Vec<bool>, points: impl Iterator<Item = Point>) -> Self {
        let mut columns = vec![Vec::new(); categories.len()];
        let mut count = 0;
        for point in points {
            columns
                .iter_mut()
                .zip(point)
                .for_each(|(column, value)| column.push(value));
            count += 1;
        }
        Self {
            categories,
            columns,
            count,
        }
    }
}

/// Computes the square distance of two values of a column.
#[inline]
pub(crate) fn square(category: bool, a: f32, b: f32) -> f64 {
    let apart = f64::from(a - b);
    if category {
        f64::from(u8::from(apart != 0.0))
    } else {
        apart * apart
    }
}

/// Hyperparameters of a process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hyper {
    /// ln(1 / length-scale²) of each column.
    pub(crate) log_weights: Vec<f64>,
    /// ln of the noise's variance over the process's.
    pub(crate) log_noise: f64,
}

/// Computes √5 r of the kernel from the weighted square distance.
#[inline]
fn stretch(square: f64) -> f64 {
    (5.0 * square).sqrt()
}

/// Computes Matérn 5/2 of a weighted square distance.
#[inline]
pub(crate) fn kernel(square: f64) -> f64 {
    let s = stretch(square);
    (1.0 + s + s * s / 3.0) * (-s).exp()
}

/// Computes the kernel's derivative by the weighted square distance.
///
/// With s = √(5 q), the derivative by s is −(s / 3) (1 + s) e⁻ˢ, and ds / dq is 5 / (2 s). In the
/// product s cancels, so that equal points, where s = 0, need no special case.
#[inline]
pub(crate) fn kernel_slope(square: f64) -> f64 {
    let s = stretch(square);
    -5.0 / 6.0 * (1.0 + s) * (-s).exp()
}

/// Turns the `squares` of all candidates into covariances: Matérn 5/2 in single precision.
fn kernel_all(squares: &mut [f32]) {
    for square in squares {
        let s = (5.0 * *square).sqrt();
        *square = (1.0 + s + s * s * (1.0 / 3.0)) * exp_minus(s);
    }
}

/// Computes exp(−s) for s ≥ 0 with a relative error below 1e-5, without branches, so that the
/// compiler vectorises it.
///
/// For s = 3, the power of two is 3 / ln 2 = 4.328. The whole part is 4, and the series gives the
/// exponential of (4 - 4.328) ln 2 = −0.2274, which is 0.7966. Divided by 2⁴ this is 0.0498, as e⁻³
/// is. The power of two is made by writing the exponent of a float, which is 127 for 2⁰; up to 126,
/// it stays a normal number.
#[inline]
fn exp_minus(s: f32) -> f32 {
    // 2^(−whole) · 2^(−part) with part in 0 … 1, the latter by the Taylor series in part · ln 2.
    let scaled = (s * std::f32::consts::LOG2_E).min(126.0);
    let whole = scaled as i32;
    let x = (whole as f32 - scaled) * std::f32::consts::LN_2;
    let series = 1.0 / 5040.0;
    let series = series * x + 1.0 / 720.0;
    let series = series * x + 1.0 / 120.0;
    let series = series * x + 1.0 / 24.0;
    let series = series * x + 1.0 / 6.0;
    let series = series * x + 0.5;
    let series = series * x + 1.0;
    let series = series * x + 1.0;
    series * f32::from_bits(((127 - whole) as u32) << 23)
}

/// Lower triangular factor of a covariance that grows by rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Factor {
    /// Row i has i + 1 entries.
    rows: Vec<Vec<f64>>,
}

impl Factor {
    /// Appends the row of a new point: its covariances with the earlier ones, then its variance. A
    /// pivot that rounding makes too small is replaced.
    pub(crate) fn push(&mut self, mut row: Vec<f64>) {
        let size = self.rows.len();
        for i in 0..size {
            let earlier = &self.rows[i];
            let dot: f64 = row[..i].iter().zip(earlier).map(|(a, b)| a * b).sum();
            row[i] = (row[i] - dot) / earlier[i];
        }
        let rest = row[size] - row[..size].iter().map(|entry| entry * entry).sum::<f64>();
        row[size] = rest.max(1e-9).sqrt();
        self.rows.push(row);
    }

    /// Solves L x = b in place.
    pub(crate) fn solve_lower(&self, b: &mut [f64]) {
        for i in 0..b.len() {
            let dot: f64 = self.rows[i][..i]
                .iter()
                .zip(&b[..i])
                .map(|(a, b)| a * b)
                .sum();
            b[i] = (b[i] - dot) / self.rows[i][i];
        }
    }

    /// Solves Lᵀ x = b in place.
    pub(crate) fn solve_upper(&self, b: &mut [f64]) {
        for i in (0..b.len()).rev() {
            b[i] /= self.rows[i][i];
            let (head, tail) = b.split_at_mut(i);
            for (entry, factor) in head.iter_mut().zip(&self.rows[i]) {
                *entry -= factor * tail[0];
            }
        }
    }
}

/// Posterior of all candidates.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    hyper: Hyper,
    categories: Vec<bool>,
    /// Observed points, in order.
    observed: Vec<Point>,
    factor: Factor,
    /// V, by rows.
    rows: Vec<Vec<f32>>,
    /// L⁻¹ y and L⁻¹ 1 for the observed values y.
    z: Vec<f64>,
    ones: Vec<f64>,
    /// Sums over V's rows for each candidate: of the squares, with L⁻¹ y, with L⁻¹ 1.
    explained: Vec<f32>,
    with_z: Vec<f32>,
    with_ones: Vec<f32>,
}

/// Prior of maximum likelihood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prior {
    mean: f64,
    scale: f64,
    /// Precision of the mean.
    precision: f64,
}

impl Process {
    /// Makes a process without observations.
    pub(crate) fn new(candidates: &Candidates, hyper: Hyper) -> Self {
        Self {
            hyper,
            categories: candidates.categories.clone(),
            observed: Vec::new(),
            factor: Factor::default(),
            rows: Vec::new(),
            z: Vec::new(),
            ones: Vec::new(),
            explained: vec![0.0; candidates.count],
            with_z: vec![0.0; candidates.count],
            with_ones: vec![0.0; candidates.count],
        }
    }

    /// Returns the number of observations.
    pub(crate) fn len(&self) -> usize {
        self.observed.len()
    }

    /// Returns the products per candidate that the next observation takes.
    pub(crate) fn cost_of_next(&self) -> usize {
        self.len() + 4 * self.categories.len() + 16
    }

    /// Computes L⁻¹ k(X, point).
    fn whitened(&self, point: &[f32]) -> Vec<f64> {
        let weights: Vec<f64> = self
            .hyper
            .log_weights
            .iter()
            .map(|weight| weight.exp())
            .collect();
        let covariance = |earlier: &Point| {
            let columns = earlier
                .iter()
                .zip(point)
                .zip(&self.categories)
                .zip(&weights);
            kernel(
                columns
                    .map(|(((&a, &b), &category), weight)| weight * square(category, a, b))
                    .sum(),
            )
        };
        let mut row: Vec<f64> = self.observed.iter().map(covariance).collect();
        self.factor.solve_lower(&mut row);
        row
    }

    /// Adds the observation of `value` at `point`.
    pub(crate) fn push(&mut self, candidates: &Candidates, point: Point, value: f64) {
        let before = self.whitened(&point);
        let noise = self.hyper.log_noise.exp();
        let rest = 1.0 + noise - before.iter().map(|entry| entry * entry).sum::<f64>();
        // Rounding must not take the variance below half the noise.
        let diagonal = rest.max(0.5 * noise).sqrt();

        let mut fresh = self.covariances(candidates, &point);
        // Four rows at a time, to read and write `fresh` a quarter as often.
        let mut at = 0;
        while at + 4 <= before.len() {
            let [a, b, c, d] = [
                before[at] as f32,
                before[at + 1] as f32,
                before[at + 2] as f32,
                before[at + 3] as f32,
            ];
            let rows = &self.rows[at..at + 4];
            let (p, q, r, s) = (&rows[0], &rows[1], &rows[2], &rows[3]);
            for ((((fresh, p), q), r), s) in fresh.iter_mut().zip(p).zip(q).zip(r).zip(s) {
                *fresh -= (a * p + b * q) + (c * r + d * s);
            }
            at += 4;
        }
        for (row, &factor) in self.rows[at..].iter().zip(&before[at..]) {
            let factor = factor as f32;
            for (fresh, entry) in fresh.iter_mut().zip(row) {
                *fresh -= factor * entry;
            }
        }
        let dot = |with: &[f64]| before.iter().zip(with).map(|(a, b)| a * b).sum::<f64>();
        let one = (1.0 - dot(&self.ones)) / diagonal;
        let z = (value - dot(&self.z)) / diagonal;
        let (scale, one_single, z_single) = (1.0 / diagonal as f32, one as f32, z as f32);
        let sums = self
            .explained
            .iter_mut()
            .zip(&mut self.with_ones)
            .zip(&mut self.with_z);
        for (fresh, ((explained, with_ones), with_z)) in fresh.iter_mut().zip(sums) {
            *fresh *= scale;
            *explained += *fresh * *fresh;
            *with_ones += *fresh * one_single;
            *with_z += *fresh * z_single;
        }
        let mut row = before;
        row.push(diagonal);
        self.factor.rows.push(row);
        self.ones.push(one);
        self.z.push(z);
        self.rows.push(fresh);
        self.observed.push(point);
    }

    /// Computes the prior covariances of all candidates with `point`.
    fn covariances(&self, candidates: &Candidates, point: &[f32]) -> Vec<f32> {
        let mut squares = vec![0.0f32; candidates.count];
        for (((column, &here), &category), weight) in candidates
            .columns
            .iter()
            .zip(point)
            .zip(&self.categories)
            .zip(&self.hyper.log_weights)
        {
            let weight = weight.exp() as f32;
            if category {
                for (square, &value) in squares.iter_mut().zip(column) {
                    *square += if value == here { 0.0 } else { weight };
                }
            } else {
                for (square, &value) in squares.iter_mut().zip(column) {
                    let apart = value - here;
                    *square += weight * apart * apart;
                }
            }
        }
        kernel_all(&mut squares);
        squares
    }

    /// Returns the prior of maximum likelihood. Needs an observation.
    pub(crate) fn prior(&self) -> Prior {
        let precision: f64 = self.ones.iter().map(|one| one * one).sum();
        let mean = self
            .z
            .iter()
            .zip(&self.ones)
            .map(|(z, one)| z * one)
            .sum::<f64>()
            / precision;
        let squares = self
            .z
            .iter()
            .zip(&self.ones)
            .map(|(z, one)| (z - mean * one).powi(2))
            .sum::<f64>();
        Prior {
            mean,
            scale: (squares / self.len() as f64).max(1e-12),
            precision,
        }
    }

    /// Returns posterior mean and standard deviation (without the noise) of a candidate.
    #[inline]
    pub(crate) fn posterior(&self, prior: &Prior, candidate: usize) -> (f64, f64) {
        let (explained, with_ones) = (
            f64::from(self.explained[candidate]),
            f64::from(self.with_ones[candidate]),
        );
        finish(
            prior,
            explained,
            with_ones,
            f64::from(self.with_z[candidate]),
        )
    }

    /// Returns posterior mean and standard deviation (without the noise) of any point.
    pub(crate) fn posterior_at(&self, prior: &Prior, point: &[f32]) -> (f64, f64) {
        let v = self.whitened(point);
        let dot = |with: &[f64]| v.iter().zip(with).map(|(a, b)| a * b).sum::<f64>();
        finish(prior, dot(&v), dot(&self.ones), dot(&self.z))
    }
}

#[inline]
fn finish(prior: &Prior, explained: f64, with_ones: f64, with_z: f64) -> (f64, f64) {
    // The uncertainty of the prior mean adds to the variance.
    let open = 1.0 - with_ones;
    let variance = (1.0 - explained).max(1e-7) + open * open / prior.precision;
    (prior.mean * open + with_z, (variance * prior.scale).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Solves a dense system by elimination; a covariance needs no pivots.
    fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
        for i in 0..b.len() {
            let (row, value) = (a[i].clone(), b[i]);
            for other in (0..b.len()).filter(|&other| other != i) {
                let factor = a[other][i] / row[i];
                (a[other].iter_mut().zip(&row)).for_each(|(entry, of)| *entry -= factor * of);
                b[other] -= factor * value;
            }
        }
        (0..b.len()).map(|i| b[i] / a[i][i]).collect()
    }

    fn points() -> Vec<Point> {
        (0..60u16)
            .map(|i| {
                vec![
                    f32::from(i % 5) / 4.0,
                    f32::from(i / 5) / 11.0,
                    f32::from(i * 7 % 3) / 2.0,
                ]
            })
            .collect()
    }

    #[test]
    fn the_posterior_agrees_with_the_textbook() {
        let points = points();
        let candidates = Candidates::new(vec![false, false, true], points.iter().cloned());
        let hyper = Hyper {
            log_weights: vec![0.3, 1.4, -0.5],
            log_noise: -4.0,
        };
        let weights: Vec<f64> = hyper
            .log_weights
            .iter()
            .map(|weight| weight.exp())
            .collect();
        let covariance = |a: &Point, b: &Point| {
            let category = f64::from(u8::from(a[2] != b[2]));
            let squares = [
                f64::from(a[0] - b[0]).powi(2),
                f64::from(a[1] - b[1]).powi(2),
                category,
            ];
            kernel(
                squares
                    .iter()
                    .zip(&weights)
                    .map(|(square, weight)| square * weight)
                    .sum(),
            )
        };
        let observed: Vec<usize> = (0..23).map(|at| at * 17 % 60).collect();
        let values: Vec<f64> = observed
            .iter()
            .map(|&at| (at as f64 * 0.37).sin() + 2.0)
            .collect();
        let mut process = Process::new(&candidates, hyper.clone());
        for (&at, &value) in observed.iter().zip(&values) {
            process.push(&candidates, points[at].clone(), value);
        }
        let n = observed.len();
        let noise = hyper.log_noise.exp();
        let matrix: Vec<Vec<f64>> = (0..n)
            .map(|i| {
                let entry = |j: usize| {
                    covariance(&points[observed[i]], &points[observed[j]])
                        + noise * f64::from(u8::from(i == j))
                };
                (0..n).map(entry).collect()
            })
            .collect();
        let ones = solve(matrix.clone(), vec![1.0; n]);
        let mean = ones
            .iter()
            .zip(&values)
            .map(|(one, value)| one * value)
            .sum::<f64>()
            / ones.iter().sum::<f64>();
        let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
        let alpha = solve(matrix.clone(), centred.clone());
        let scale = alpha.iter().zip(&centred).map(|(a, b)| a * b).sum::<f64>() / n as f64;
        let prior = process.prior();
        assert!((prior.mean - mean).abs() < 1e-9 && (prior.scale / scale - 1.0).abs() < 1e-9);
        for (at, point) in points.iter().enumerate() {
            let row: Vec<f64> = observed
                .iter()
                .map(|&other| covariance(&points[other], point))
                .collect();
            let weights = solve(matrix.clone(), row.clone());
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let open = 1.0 - weights.iter().sum::<f64>();
            let expected_mean = mean + dot(&row, &alpha);
            let expected_variance =
                (1.0 - dot(&row, &weights) + open * open / ones.iter().sum::<f64>()) * scale;
            for (mean, deviation) in [
                process.posterior(&prior, at),
                process.posterior_at(&prior, point),
            ] {
                assert!(
                    (mean - expected_mean).abs() < 1e-4,
                    "{at}: {mean} instead of {expected_mean}"
                );
                assert!(
                    (deviation - expected_variance.sqrt()).abs() < 1e-3,
                    "{at}: {deviation}, {expected_variance}"
                );
            }
        }
    }

    #[test]
    fn the_fast_exponential_agrees_with_exp() {
        for at in 0..20_000 {
            let s = at as f32 * 0.005;
            let exact = (-f64::from(s)).exp();
            assert!(
                (f64::from(exp_minus(s)) / exact - 1.0).abs() < 1e-5 || exact < 1e-37,
                "{s}"
            );
        }
        assert!(exp_minus(f32::MAX) < 1e-37);
    }
}
