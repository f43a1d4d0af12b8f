//! Colours of values, and the ticks of axes and colour bars.

use plotters::style::RGBColor;

/// Rule by which values become colours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Shading {
    /// In proportion.
    #[default]
    Linear,
    /// By the logarithm. Values that are not positive get the colour of none.
    Log,
    /// By the logarithm on both sides of 1, from a hundredth to a hundred; 0 and infinity count as
    /// these ends.
    Ratio,
    /// In proportion, less and more than the middle of the range.
    Signed,
}

/// Colours at equal distances, dark to light: distinguishable without seeing red and green, and in
/// a print without colours.
const SEQUENTIAL: [(u8, u8, u8); 9] = [
    (46, 8, 84),
    (63, 52, 125),
    (54, 94, 141),
    (40, 127, 142),
    (33, 159, 136),
    (66, 189, 112),
    (134, 212, 73),
    (198, 225, 44),
    (253, 231, 55),
];

/// Less is blue, as much is pale, more is red.
const DIVERGING: [(u8, u8, u8); 7] = [
    (25, 62, 130),
    (56, 116, 180),
    (146, 190, 220),
    (240, 240, 236),
    (240, 170, 130),
    (205, 85, 70),
    (125, 15, 40),
];

/// Number of distinguishable shades.
pub(crate) const SHADES: usize = 48;

impl Shading {
    pub(crate) fn colour(self, shade: usize) -> RGBColor {
        let colours: &[(u8, u8, u8)] = match self {
            Self::Linear | Self::Log => &SEQUENTIAL,
            Self::Ratio | Self::Signed => &DIVERGING,
        };
        let at = shade.min(SHADES - 1) as f64 / (SHADES - 1) as f64 * (colours.len() - 1) as f64;
        let low = (at as usize).min(colours.len() - 2);
        let mix = |a: u8, b: u8| {
            (f64::from(a) + (at - low as f64) * (f64::from(b) - f64::from(a))).round() as u8
        };
        let ((r, g, b), (r2, g2, b2)) = (colours[low], colours[low + 1]);
        RGBColor(mix(r, r2), mix(g, g2), mix(b, b2))
    }

    /// Shade of a value between these [ends](Self::ends), if it has one.
    pub(crate) fn shade(self, value: f64, (low, high): (f64, f64)) -> Option<usize> {
        let place = ((self.number(value) - low) / (high - low)).clamp(0.0, 1.0);
        place
            .is_finite()
            .then(|| (place * (SHADES - 1) as f64).round() as usize)
    }

    /// Returns the number that is in proportion to the colour; NaN for no colour.
    fn number(self, value: f64) -> f64 {
        match self {
            Self::Linear | Self::Signed => value,
            Self::Log if value > 0.0 => value.log10(),
            Self::Ratio if value >= 0.0 => value.clamp(0.01, 100.0).log10(),
            Self::Log | Self::Ratio => f64::NAN,
        }
    }

    /// Returns the numbers at the ends of the colours.
    pub(crate) fn ends(self, values: &[f64], range: Option<(f64, f64)>) -> (f64, f64) {
        let (low, high) = range.map_or_else(
            || extent(values.iter().map(|&value| self.number(value))),
            |(low, high)| (self.number(low), self.number(high)),
        );
        match self {
            _ if !(low.is_finite() && high.is_finite()) => (0.0, 1.0),
            Self::Ratio => {
                let most = low.abs().max(high.abs()).max(1e-9);
                (-most, most)
            }
            _ if low == high => (low - 0.5, high + 0.5),
            _ => (low, high),
        }
    }

    /// Ticks of the colour bar: their numbers and texts.
    pub(crate) fn ticks(self, (low, high): (f64, f64)) -> Vec<(f64, String)> {
        match self {
            Self::Linear | Self::Signed => linear_ticks(low, high, 6),
            Self::Log | Self::Ratio => {
                let ticks = log_ticks(10f64.powf(low), 10f64.powf(high));
                ticks
                    .into_iter()
                    .map(|(value, text)| (value.log10(), text))
                    .collect()
            }
        }
    }
}

/// Least and greatest of the finite numbers; without one, the first end is infinite.
pub(crate) fn extent(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = numbers.filter(|number| number.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
        (low.min(number), high.max(number))
    })
}

/// At most `most` round numbers from `low` to `high`, with their texts.
pub(crate) fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<(f64, String)> {
    use plotters::coord::ranged1d::{BoldPoints, Ranged as _};
    let ticks =
        plotters::coord::types::RangedCoordf64::from(low..high).key_points(BoldPoints(most));
    ticks
        .into_iter()
        .map(|tick| {
            if tick.abs() < 1e-9 * (high - low) {
                0.0
            } else {
                tick
            }
        })
        .map(|tick| (tick, text(tick)))
        .collect()
}

/// Round numbers at about equal distances on a logarithmic axis, with their texts.
pub(crate) fn log_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let (from, to) = (low.log10(), high.log10());
    let factors: &[f64] = match to - from {
        span if span > 2.5 => &[1.0],
        span if span > 1.0 => &[1.0, 3.0],
        span if span > 0.4 => &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
        _ => &[
            1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0,
        ],
    };
    let step = ((to - from) / 8.0).ceil().max(1.0) as usize;
    let decades = (from.floor() as i32..=to.ceil() as i32)
        .filter(|decade| decade.rem_euclid(step as i32) == 0);
    let all = decades.flat_map(|decade| {
        factors
            .iter()
            .map(move |factor| factor * 10f64.powi(decade))
    });
    all.filter(|value| (from - 1e-9..=to + 1e-9).contains(&value.log10()))
        .map(|value| (value, text(value)))
        .collect()
}

/// Writes a number with at most six digits, without trailing zeros.
pub(crate) fn text(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-6..1e7).contains(&size) {
        let (digits, exponent) = (format!("{value:.3e}"), format!("{value:e}"));
        let mantissa = digits
            .split('e')
            .next()
            .unwrap_or_default()
            .trim_end_matches('0')
            .trim_end_matches('.');
        return format!(
            "{mantissa}e{}",
            exponent.rsplit('e').next().unwrap_or_default()
        );
    }
    // At least one decimal: or trimming zeros would shorten whole numbers.
    let decimals = (5 - size.log10().floor() as i32).max(1) as usize;
    format!("{value:.decimals$}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::{SHADES, Shading, linear_ticks};

    #[test]
    fn ticks_label_numbers_of_any_size() {
        let texts =
            |ticks: Vec<(f64, String)>| ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(
            texts(Shading::Log.ticks((3.0, 7.0))),
            ["1000", "10000", "100000", "1000000", "1e7"]
        );
        assert_eq!(
            texts(Shading::Log.ticks((-5.0, -4.8)))[..3],
            ["0.00001", "0.000011", "0.0000125"]
        );
        assert_eq!(texts(linear_ticks(-0.3, 0.3, 5)), ["-0.2", "0", "0.2"]);
    }

    #[test]
    fn a_ratio_of_one_gets_the_middle_colour_and_a_ratio_to_zero_the_last() {
        let values = [f64::INFINITY, f64::NAN, 1.0, 0.5];
        let ends = Shading::Ratio.ends(&values, Some((0.5, 2.0)));
        assert_eq!(ends.0, -ends.1);
        let shades = values.map(|value| Shading::Ratio.shade(value, ends));
        assert_eq!(shades, [Some(SHADES - 1), None, Some(SHADES / 2), Some(0)]);
        // Colours of nothing, and of one value, have ends.
        assert_eq!(Shading::Linear.ends(&[], None), (0.0, 1.0));
        assert_eq!(
            Shading::Log.shade(10.0, Shading::Log.ends(&[10.0, 0.0], None)),
            Some(SHADES / 2)
        );
        assert_eq!(Shading::Log.shade(0.0, (0.0, 1.0)), None);
    }
}
