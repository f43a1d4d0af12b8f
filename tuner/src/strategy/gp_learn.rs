//! Learns length-scales and noise of a Gaussian process: the maximum of the likelihood times a wide
//! prior.
//!
//! The prior mean and the scale of the variance have closed forms, so one number a column and one
//! for the noise are left. Resilient propagation improves them: each has its own step, which grows
//! while the slope keeps its sign and shrinks when it turns. It needs no line search, tolerates
//! that each observation changes the function a little, and can stop after any number of steps.

use crate::strategy::gp::{Factor, Hyper, Point, kernel, kernel_slope, square};

/// Range of ln(1 / length-scale²): length-scales from 1/20 to 50 times the range of a column.
const WEIGHTS: (f64, f64) = (-7.8, 6.0);
/// Range of ln of the noise over the variance.
const NOISE: (f64, f64) = (-9.2, 0.0);

/// Length-scale of the prior, over the root of the number of columns, in ranges of a column.
const PRIOR_SCALE: f64 = 0.8;
/// ln of the noise over the variance, of the prior.
const PRIOR_NOISE: f64 = -3.0;
/// Variances of the prior, for the two kinds of hyper-parameters.
const WEIGHT_VARIANCE: f64 = 4.5;
const NOISE_VARIANCE: f64 = 2.25;

/// Improves hyper-parameters step by step.
#[derive(Clone, Debug)]
pub(crate) struct Learner {
    pub(crate) hyper: Hyper,
    steps: Vec<f64>,
    slopes: Vec<f64>,
    prior_weight: f64,
    categories: Vec<bool>,
}

impl Learner {
    /// Begins with the prior, for points of these columns.
    pub(crate) fn new(categories: &[bool]) -> Self {
        let columns = categories.len();
        // Length-scales grow with the root of the number of columns, as typical distances do.
        let prior_weight = -2.0 * (PRIOR_SCALE * (columns.max(1) as f64).sqrt()).ln();
        let hyper = Hyper {
            log_weights: vec![prior_weight; columns],
            log_noise: PRIOR_NOISE,
        };
        Self {
            hyper,
            steps: vec![0.3; columns + 1],
            slopes: vec![0.0; columns + 1],
            prior_weight,
            categories: categories.to_vec(),
        }
    }

    /// Takes one step, for `values` at `points`. Does nothing with fewer than three.
    pub(crate) fn step(&mut self, points: &[&Point], values: &[f64]) {
        if points.len() < 3 {
            return;
        }
        let slopes = self.objective_slopes(points, values);
        let columns = self.hyper.log_weights.len();
        for (at, slope) in slopes.into_iter().enumerate() {
            if !slope.is_finite() {
                continue;
            }
            let turned = slope * self.slopes[at];
            self.steps[at] =
                (self.steps[at] * if turned < 0.0 { 0.5 } else { 1.2 }).clamp(0.01, 1.0);
            self.slopes[at] = if turned < 0.0 { 0.0 } else { slope };
            let (target, bounds) = if at < columns {
                (&mut self.hyper.log_weights[at], WEIGHTS)
            } else {
                (&mut self.hyper.log_noise, NOISE)
            };
            *target = (*target
                - self.steps[at]
                    * self.slopes[at].signum()
                    * f64::from(u8::from(self.slopes[at] != 0.0)))
            .clamp(bounds.0, bounds.1);
        }
    }
}

impl Learner {
    /// Computes the derivatives of minus the log posterior by the hyper-parameters, the noise last.
    fn objective_slopes(&self, points: &[&Point], values: &[f64]) -> Vec<f64> {
        let n = points.len();
        let weights: Vec<f64> = self
            .hyper
            .log_weights
            .iter()
            .map(|weight| weight.exp())
            .collect();
        let squares_of = |a: usize, b: usize| {
            let pairs = points[a].iter().zip(points[b]).zip(&self.categories);
            pairs.map(|((&a, &b), &category)| square(category, a, b))
        };
        let mut factor = Factor::default();
        let mut squares = Vec::with_capacity(n * n / 2);
        for i in 0..n {
            let weighted = |j| {
                squares_of(i, j)
                    .zip(&weights)
                    .map(|(square, weight)| square * weight)
                    .sum::<f64>()
            };
            let mut row: Vec<f64> = (0..i).map(weighted).collect();
            squares.extend_from_slice(&row);
            for entry in &mut row {
                *entry = kernel(*entry);
            }
            row.push(1.0 + self.hyper.log_noise.exp());
            factor.push(row);
        }
        // R⁻¹, column by column.
        let mut inverse = vec![vec![0.0; n]; n];
        for (i, column) in inverse.iter_mut().enumerate() {
            column[i] = 1.0;
            factor.solve_lower(column);
            factor.solve_upper(column);
        }
        let ones: Vec<f64> = inverse.iter().map(|row| row.iter().sum()).collect();
        let mean = ones
            .iter()
            .zip(values)
            .map(|(one, value)| one * value)
            .sum::<f64>()
            / ones.iter().sum::<f64>();
        let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
        let dot = |row: &Vec<f64>| row.iter().zip(&centred).map(|(a, b)| a * b).sum::<f64>();
        let alpha: Vec<f64> = inverse.iter().map(dot).collect();
        let scale = (dot(&alpha) / n as f64).max(1e-12);

        // dL/dθ = ½ tr(R⁻¹ dR) − ½ αᵀ dR α / scale: a sum over the pairs, twice those below the
        // diagonal.
        let mut slopes = vec![0.0; weights.len() + 1];
        let mut at = 0;
        for i in 0..n {
            for j in 0..i {
                let pull =
                    (inverse[i][j] - alpha[i] * alpha[j] / scale) * kernel_slope(squares[at]);
                at += 1;
                for ((slope, square), weight) in
                    slopes.iter_mut().zip(squares_of(i, j)).zip(&weights)
                {
                    *slope += pull * weight * square;
                }
            }
        }
        let noise = self.hyper.log_noise.exp();
        slopes[weights.len()] = (0..n)
            .map(|i| 0.5 * (inverse[i][i] - alpha[i] * alpha[i] / scale) * noise)
            .sum();
        // The prior: normal in the logarithms.
        for (slope, weight) in slopes.iter_mut().zip(&self.hyper.log_weights) {
            *slope += (weight - self.prior_weight) / WEIGHT_VARIANCE;
        }
        slopes[weights.len()] += (self.hyper.log_noise - PRIOR_NOISE) / NOISE_VARIANCE;
        slopes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minus the log posterior, from the definition.
    fn objective(learner: &Learner, points: &[&Point], values: &[f64]) -> f64 {
        let n = points.len();
        let mut factor = Factor::default();
        let mut half_log_determinant = 0.0;
        for i in 0..n {
            let covariance = |j: usize| {
                let columns = points[i]
                    .iter()
                    .zip(points[j])
                    .zip(&learner.categories)
                    .zip(&learner.hyper.log_weights);
                kernel(
                    columns
                        .map(|(((&a, &b), &category), weight)| {
                            weight.exp() * square(category, a, b)
                        })
                        .sum(),
                )
            };
            let mut row: Vec<f64> = (0..i).map(covariance).collect();
            row.push(1.0 + learner.hyper.log_noise.exp());
            factor.push(row);
            let mut unit = vec![0.0; i + 1];
            unit[i] = 1.0;
            factor.solve_lower(&mut unit);
            half_log_determinant -= unit[i].ln();
        }
        let mut z = values.to_vec();
        factor.solve_lower(&mut z);
        let mut ones = vec![1.0; n];
        factor.solve_lower(&mut ones);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mean = dot(&z, &ones) / dot(&ones, &ones);
        let rest: Vec<f64> = z.iter().zip(&ones).map(|(z, one)| z - mean * one).collect();
        let likelihood =
            n as f64 / 2.0 * (dot(&rest, &rest) / n as f64).ln() + half_log_determinant;
        let weights = learner
            .hyper
            .log_weights
            .iter()
            .map(|weight| (weight - learner.prior_weight).powi(2));
        let noise = (learner.hyper.log_noise - PRIOR_NOISE).powi(2);
        likelihood + weights.sum::<f64>() / (2.0 * WEIGHT_VARIANCE) + noise / (2.0 * NOISE_VARIANCE)
    }

    fn sample() -> (Vec<Point>, Vec<f64>) {
        let points: Vec<Point> = (0..30u16)
            .map(|i| {
                vec![
                    f32::from(i % 6) / 5.0,
                    f32::from(i * 7 % 30) / 29.0,
                    f32::from(i % 2),
                ]
            })
            .collect();
        let values = points
            .iter()
            .map(|point| f64::from(3.0 * point[0] + 0.1 * (9.0 * point[1]).sin()))
            .collect();
        (points, values)
    }

    #[test]
    fn gradients_agree_with_the_objective() {
        let (points, values) = sample();
        let points: Vec<&Point> = points.iter().collect();
        let mut learner = Learner::new(&[false, false, true]);
        learner.hyper = Hyper {
            log_weights: vec![0.4, 1.1, -0.7],
            log_noise: -3.0,
        };
        let slopes = learner.objective_slopes(&points, &values);
        for (at, slope) in slopes.iter().enumerate() {
            let moved = |by: f64| {
                let mut learner = learner.clone();
                match learner.hyper.log_weights.get_mut(at) {
                    Some(weight) => *weight += by,
                    None => learner.hyper.log_noise += by,
                }
                objective(&learner, &points, &values)
            };
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!(
                (slope - difference).abs() < 1e-4 * (1.0 + slope.abs()),
                "{at}: {slope} instead of {difference}"
            );
        }
    }
}
