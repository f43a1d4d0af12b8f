//! Statistics of the decisions: quantiles, Student's t, sign tests.
//!
//! Samples are small (ten blocks, five launches), so Student's t and exact sign tests replace
//! normal approximations.

use chacha20::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

/// Returns the arithmetic mean; NaN for an empty slice.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the unbiased variance; 0 for fewer than two values.
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let centre = mean(values);
    values
        .iter()
        .map(|v| (v - centre) * (v - centre))
        .sum::<f64>()
        / (values.len() - 1) as f64
}

/// Returns the median (mean of the two middle values of an even number); NaN for an empty slice.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns the quantile at `p` in 0..=1, linear between order statistics; NaN for an empty slice.
///
/// For example, the quantile at 0.9 of 10, 20, 30 lies at place 0.9 · 2 = 1.8, and is 20 + 0.8 · 10
/// = 28.
pub fn quantile(values: &[f64], p: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = p.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Returns the median absolute deviation, scaled to the standard deviation of normal noise.
///
/// For example, 1, 2, 3, 4 and 100 have the median 3, the deviations 2, 1, 0, 1 and 97, of which
/// the median is 1, and so a spread of 1.48; their standard deviation is 44.
pub fn robust_spread(values: &[f64]) -> f64 {
    let centre = median(values);
    let away: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    1.4826 * median(&away)
}

/// Returns the correlation of each value with its successor, about the common mean; 0 for fewer
/// than three values, or if all are equal.
///
/// 1 means that each value repeats the deviation of the value before, 0 that it does not depend on
/// it, -1 that it has the opposite one.
pub fn lag_one(values: &[f64]) -> f64 {
    if values.len() < 3 {
        return 0.0;
    }
    let centre = mean(values);
    let power: f64 = values.iter().map(|v| (v - centre) * (v - centre)).sum();
    // The mean of equal values is rounded: the residues have the same sign, and look perfectly
    // correlated.
    let rounding = values.len() as f64 * f64::EPSILON * centre.abs();
    if power <= values.len() as f64 * rounding * rounding {
        return 0.0;
    }
    let product: f64 = values
        .windows(2)
        .map(|w| (w[0] - centre) * (w[1] - centre))
        .sum();
    (product / power).clamp(-1.0, 1.0)
}

/// Returns the number of independent values that a correlated series is worth: n (1 - r) / (1 + r)
/// with the lag-one correlation r, as for a process of first order.
///
/// The estimate of r from n values is too low by about (1 + 3 r) / n, which is added.
/// Anticorrelation is not credited: it would narrow intervals on too little evidence.
pub fn effective_count(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let seen = lag_one(values);
    if values.len() < 4 || seen <= 0.0 {
        return n;
    }
    let r = ((seen * n + 1.0) / (n - 3.0).max(1.0)).min(0.9);
    // The correction sets in smoothly between one and two standard errors of r: below, it would add
    // noise.
    let weight = ((seen * n.sqrt()) - 1.0).clamp(0.0, 1.0);
    n * (1.0 - weight * (1.0 - (1.0 - r) / (1.0 + r)))
}

/// Returns the chance that Student's t with `freedom` degrees lies beyond ±`t`.
pub fn student_two_sided(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { 1.0 } else { 0.0 };
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5).clamp(0.0, 1.0)
}

/// Returns the value that Student's |t| with `freedom` degrees exceeds with chance `alpha` (0 <
/// alpha < 1).
pub fn student_critical(alpha: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 2.0);
    while student_two_sided(high, freedom) > alpha && high < 1e12 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if student_two_sided(middle, freedom) > alpha {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-12 * high {
            break;
        }
    }
    high
}

/// Computes the regularised incomplete beta function I_x(a, b) by its continued fraction (modified
/// Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges fast on one side of the mean; the other side follows by symmetry.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..=300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let step = d * c;
        value *= step;
        if (step - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// Computes ln Γ(x) for x > 0 by Stirling's series, after moving x above 10 by the recurrence.
fn log_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut product = 1.0_f64;
    while x < 10.0 {
        product *= x;
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series =
        inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - product.ln()
}

/// Maximum number of differences of which all sign patterns are tried; of more, [`FLIPS`] random
/// ones.
const EXACT_FLIPS: usize = 14;
const FLIPS: u32 = 19_999;

/// Returns the chance that `differences` with random signs have a sum at least as far from 0
/// (two-sided).
///
/// Exact for any distribution, drift or correlation of the noise if the order of the two sides was
/// random in every block: with two identical sides, every pattern of signs was equally likely.
///
/// For example, of the 8 patterns of signs of 1, 2 and 3, two have a sum of at least 6 in either
/// direction (+++ and ---), so that the chance is 2/8. All patterns are tried for up to 14 values
/// (16 384 patterns); beyond that, random patterns estimate the chance.
pub fn sign_flip(differences: &[f64]) -> f64 {
    let n = differences.len();
    if n == 0 {
        return 1.0;
    }
    let seen = differences.iter().sum::<f64>().abs();
    // Sums of the same terms in another order differ in their last bits.
    let threshold = seen - 1e-9 * differences.iter().map(|d| d.abs()).sum::<f64>();
    if n <= EXACT_FLIPS {
        let patterns = 1_u32 << n;
        let beyond = (0..patterns)
            .filter(|pattern| {
                let sum: f64 = differences
                    .iter()
                    .enumerate()
                    .map(|(i, d)| if pattern >> i & 1 == 1 { -d } else { *d })
                    .sum();
                sum.abs() >= threshold
            })
            .count();
        return beyond as f64 / f64::from(patterns);
    }
    // A fixed seed, so that the same samples give the same verdict.
    let mut coins = ChaCha8Rng::seed_from_u64(n as u64);
    let mut beyond = 0_u32;
    for _ in 0..FLIPS {
        let mut sum = 0.0;
        for chunk in differences.chunks(64) {
            let bits: u64 = coins.random();
            for (i, d) in chunk.iter().enumerate() {
                sum += if bits >> i & 1 == 1 { -d } else { *d };
            }
        }
        beyond += u32::from(sum.abs() >= threshold);
    }
    // The observed pattern counts, too.
    f64::from(beyond + 1) / f64::from(FLIPS + 1)
}

/// Returns the smallest chance that [`sign_flip`] can return for `n` differences.
pub fn smallest_sign_flip(n: usize) -> f64 {
    if n <= EXACT_FLIPS {
        2.0 / f64::from(1_u32 << n)
    } else {
        1.0 / f64::from(FLIPS + 1)
    }
}
