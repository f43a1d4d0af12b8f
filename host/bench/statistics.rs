//! Order statistics of repeated measurements, and what a change between two of them is worth.

/// How measurements of the same thing spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// A quarter lies below.
    pub q1: f64,
    /// A quarter lies above.
    pub q3: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`, of which none may be NaN; quantiles between two values are interpolated. All 0 when
    /// there are no values.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let quantile = |q: f64| {
            let place = q * sorted.len().saturating_sub(1) as f64;
            let [below, above] =
                [place.floor(), place.ceil()].map(|i| sorted.get(i as usize).copied().unwrap_or_default());
            below + (above - below) * place.fract()
        };
        Self { median: quantile(0.5), q1: quantile(0.25), q3: quantile(0.75), min: quantile(0.0), max: quantile(1.0) }
    }

    /// The spread of the values multiplied by a positive `factor`.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let Self { median, q1, q3, min, max } = self;
        let [median, q1, q3, min, max] = [median, q1, q3, min, max].map(|value| value * factor);
        Self { median, q1, q3, min, max }
    }
}

/// How much more one contestant makes than another, from rounds in which both were measured.
///
/// Two rounds, one in each order, are a block: a machine that slows down evenly slows both contestants of a block alike.
/// The change is the geometric mean of the blocks' ratios, the interval that of Student's t over the blocks. Consecutive
/// samples are correlated, so that the variance inside a block says nothing: only blocks count.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Change {
    /// The change in %.
    pub percent: f64,
    /// Lower and upper end of its 95 % interval, in %; `None` with fewer than two blocks.
    pub interval: Option<[f64; 2]>,
    /// Blocks.
    pub blocks: usize,
}

impl Change {
    /// The change from `before` to `after`: positive values of the same rounds, in order. `None` when there is no round
    /// that has both.
    pub fn between(before: &[f64], after: &[f64]) -> Option<Self> {
        let rounds = before.len().min(after.len());
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        // A last round without its counterpart is left out, unless it is all there is.
        let blocks = before[..rounds].chunks(2).zip(after[..rounds].chunks(2));
        let logs: Vec<f64> = blocks
            .filter(|(block, _)| block.len() == 2 || rounds == 1)
            .map(|(before, after)| (mean(after) / mean(before)).ln())
            .filter(|log| log.is_finite())
            .collect();
        let n = logs.len();
        if n == 0 {
            return None;
        }
        let centre = mean(&logs);
        let percent = |log: f64| 100.0 * log.exp_m1();
        let interval = (n >= 2).then(|| {
            let variance = logs.iter().map(|log| (log - centre).powi(2)).sum::<f64>() / (n - 1) as f64;
            let half = t_975(n - 1) * (variance / n as f64).sqrt();
            [percent(centre - half), percent(centre + half)]
        });
        Some(Self { percent: percent(centre), interval, blocks: n })
    }

    /// Whether the interval leaves no doubt about the sign.
    pub fn is_clear(&self) -> bool {
        self.interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
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

/// The 97.5 % point of Student's t with `freedom` degrees of freedom, at least 1.
fn t_975(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    // Beyond the table the first two terms of Cornish and Fisher's expansion are good to three decimals.
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or_else(|| 1.960 + 2.372 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated_in_sorted_order() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.5, q1: 1.75, q3: 3.25, min: 1.0, max: 4.0 });
        assert_eq!(spread.times(2.0).q3, 6.5);
    }

    #[test]
    fn one_value_is_all_of_its_spread_and_none_is_0() {
        assert_eq!(Spread::of(&[7.0]), Spread { median: 7.0, q1: 7.0, q3: 7.0, min: 7.0, max: 7.0 });
        assert_eq!(Spread::of(&[]), Spread::default());
    }

    #[test]
    fn a_drift_that_hits_both_cancels_in_a_block() {
        // The machine loses 1 a measurement: A B, B A, A B, B A.
        let (a, b) = ([100.0, 97.0, 96.0, 93.0], [99.0, 98.0, 95.0, 94.0]);
        let change = Change::between(&a, &b).unwrap();
        assert!(change.percent.abs() < 1e-12, "{change:?}");
        assert_eq!(change.blocks, 2);
        assert!(!change.is_clear());
    }

    #[test]
    fn the_interval_is_that_of_students_t_over_the_blocks() {
        let before = [1.0; 6];
        let after = [1.0, 1.0, 1.1, 1.1, 1.2, 1.2];
        let change = Change::between(&before, &after).unwrap();
        // Logs 0, 0.09531, 0.18232: mean 0.09254, sd 0.09119, half-width 4.303 sd / sqrt 3 = 0.22656.
        let [low, high] = change.interval.unwrap();
        assert!((change.percent - 9.696).abs() < 0.001, "{change:?}");
        assert!((low + 12.54).abs() < 0.01 && (high - 37.59).abs() < 0.01, "{change:?}");
    }

    #[test]
    fn one_round_gives_a_change_without_an_interval_and_none_gives_no_change() {
        assert_eq!(Change::between(&[2.0], &[3.0]).unwrap().interval, None);
        assert_eq!(Change::between(&[], &[1.0]), None);
        // The third round has no counterpart.
        let change = Change::between(&[1.0, 1.0, 1.0], &[2.0, 2.0, 9.0]).unwrap();
        assert!((change.percent - 100.0).abs() < 1e-9, "{change:?}");
        assert_eq!(change.blocks, 1);
    }

    #[test]
    fn the_interval_narrows_with_the_blocks() {
        assert!(t_975(1) > t_975(30) && t_975(30) > t_975(31) && t_975(10_000) < 1.9605);
    }
}
