//! Order statistics of repeated measurements.

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
}
