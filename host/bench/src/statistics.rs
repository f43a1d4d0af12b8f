//! Spread of repeated measurements, and the significance of a change between two series.

use tuner::statistics::{median, quantile};
use tuner::verdict::{Block, Rules, Verdict, judge};

/// Spread of repeated measurements.
///
/// ```
/// use ut_bench::Spread;
///
/// let spread = Spread::of(&[3.0, 1.0, 2.0]);
/// assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
/// assert_eq!(spread.times(10.0).median, 20.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// First quartile.
    pub q1: f64,
    /// Third quartile.
    pub q3: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Spread {
    /// Computes the spread of `values`, which must not be NaN, with interpolated quantiles. Without
    /// values, all fields are 0.
    pub fn of(values: &[f64]) -> Self {
        let at = |p: f64| {
            if values.is_empty() {
                0.0
            } else {
                quantile(values, p)
            }
        };
        Self {
            median: at(0.5),
            q1: at(0.25),
            q3: at(0.75),
            min: at(0.0),
            max: at(1.0),
        }
    }

    /// Multiplies all values by a positive `factor`.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let Self {
            median,
            q1,
            q3,
            min,
            max,
        } = self;
        let [median, q1, q3, min, max] = [median, q1, q3, min, max].map(|value| value * factor);
        Self {
            median,
            q1,
            q3,
            min,
            max,
        }
    }
}

/// Relative difference of two contestants, measured in the same rounds, by the tuner's rules.
///
/// The percentage is the ratio of two medians, and so one bad round does not move it. The interval
/// is of the mean over blocks, and one bad round makes it wide. A wide interval around a large
/// percentage says that the measurement was disturbed, and not that there is no difference.
///
/// *Example.* Values of 40,000, 23,777 and 23,500 before and 28,657, 29,000 and 28,000 after: the
/// change is 28,657 / 23,777, or +20.5 %. The mean of the three ratios would be +4.3 %, because of
/// one odd round.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Change {
    /// Change of the medians of all rounds, in %.
    pub percent: f64,
    /// Confidence interval of the mean change over the blocks, in %, at 95 % for the whole family
    /// of comparisons; `None` with too few blocks.
    pub interval: Option<[f64; 2]>,
    /// Reason why the blocks do not show a difference; `None` if they do.
    pub doubt: Option<String>,
    /// Number of whole blocks that were judged; rounds left over count in `percent` only.
    pub blocks: usize,
}

impl Change {
    /// Computes the change from `before` to `after`, positive values of the same rounds, in order.
    /// A block is `block` rounds that were ordered together. `family` is the number of comparisons
    /// made together, which share the error. Returns `None` if either side has no values, or one
    /// that is not positive.
    pub fn between(before: &[f64], after: &[f64], block: usize, family: usize) -> Option<Self> {
        let good = |values: &[f64]| {
            !values.is_empty() && values.iter().all(|value| value.is_finite() && *value > 0.0)
        };
        if !(good(before) && good(after)) {
            return None;
        }
        let whole = |values: &[f64]| {
            values
                .chunks_exact(block.max(1))
                .map(<[f64]>::to_vec)
                .collect::<Vec<_>>()
        };
        let pairs = whole(before).into_iter().zip(whole(after));
        let blocks: Vec<Block> = pairs
            .map(|(a, b)| Block {
                a,
                b,
                ..Block::default()
            })
            .collect();
        let judgement = judge(
            &blocks,
            &Rules::default().of_family(family).fixed(blocks.len()),
        );
        let ends = [100.0 * judgement.low, 100.0 * judgement.high];
        Some(Self {
            percent: 100.0 * (median(after) / median(before) - 1.0),
            interval: ends.iter().all(|end| end.is_finite()).then_some(ends),
            // The rules call the smaller side better, but here more can be better. So only the
            // statement that the sides differ is taken.
            doubt: match judgement.verdict {
                Verdict::Better(_) => None,
                doubt => Some(doubt.to_string()),
            },
            blocks: judgement.blocks,
        })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:+.1} %", self.percent)?;
        match self.interval {
            Some([low, high]) => write!(f, " [{low:+.1}, {high:+.1}]"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated_in_sorted_order() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            spread,
            Spread {
                median: 2.5,
                q1: 1.75,
                q3: 3.25,
                min: 1.0,
                max: 4.0
            }
        );
        assert_eq!(spread.times(2.0).q3, 6.5);
    }

    #[test]
    fn the_spread_of_one_value_is_that_value_and_of_no_values_is_0() {
        let one = Spread::of(&[7.0]);
        assert_eq!(
            (one.min, one.q1, one.median, one.q3, one.max),
            (7.0, 7.0, 7.0, 7.0, 7.0)
        );
        assert_eq!(Spread::of(&[]), Spread::default());
    }

    #[test]
    fn the_change_is_the_ratio_of_the_medians() {
        // Only the default was slow in the first round: the mean of the ratios would say otherwise.
        let change = Change::between(
            &[40_000.0, 23_777.0, 23_500.0],
            &[28_657.0, 29_000.0, 28_000.0],
            1,
            1,
        )
        .unwrap();
        assert!(
            (change.percent - 100.0 * (28_657.0 / 23_777.0 - 1.0)).abs() < 1e-9,
            "{change}"
        );
        assert_eq!(
            (change.interval, change.doubt.as_deref()),
            (None, Some("cannot tell: too few blocks"))
        );
        assert_eq!(change.to_string(), "+20.5 %");
    }

    #[test]
    fn the_interval_of_a_clear_change_excludes_0_and_widens_with_the_family() {
        let before: Vec<f64> = (0..8).map(|i| 100.0 + f64::from(i % 3)).collect();
        let after: Vec<f64> = (0..8).map(|i| 120.0 + f64::from(i % 2)).collect();
        let alone = Change::between(&before, &after, 2, 1).unwrap();
        let [low, high] = alone.interval.unwrap();
        assert_eq!((alone.blocks, &alone.doubt), (4, &None));
        assert!(
            0.0 < low && low < alone.percent && alone.percent < high,
            "{alone}"
        );
        let [wider, _] = Change::between(&before, &after, 2, 100)
            .unwrap()
            .interval
            .unwrap();
        assert!(wider < low);
    }

    #[test]
    fn series_that_cannot_be_compared_have_no_change() {
        assert_eq!(Change::between(&[], &[1.0], 1, 1), None);
        assert_eq!(Change::between(&[0.0], &[1.0], 1, 1), None);
        assert_eq!(Change::between(&[1.0], &[f64::NAN], 1, 1), None);
        assert_eq!(
            Change::between(&[1.0], &[3.0], 1, 1).unwrap().to_string(),
            "+200.0 %"
        );
    }
}
