//! Meaning of the numbers that a device returns.
//!
//! The tuner minimises *costs*, positive numbers; the cost of a time is its milliseconds. An
//! [`Objective`] turns a program's number into a cost, and a cost back into words.

use serde::{Deserialize, Serialize};

use crate::Error;

/// Largest cost. The square of a larger one, which decisions need, is infinite.
const MOST_COST: f64 = 1e150;

/// Shortest time in ms that a clock can tell from none: a nanosecond.
pub(crate) const RESOLUTION: f64 = 1e-6;

/// Returns true if a number is a cost: positive, and neither too large nor too small to compute
/// with.
pub(crate) fn is_cost(number: f64) -> bool {
    (1.0 / MOST_COST..=MOST_COST).contains(&number)
}

/// Measured quantity, and its better direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Objective {
    /// Time in ms; less is better. The cost is the time.
    #[default]
    Time,
    /// Things a second; more is better. The cost is the time of one thing in ms.
    Rate,
    /// Any positive number; less is better. The cost is the number.
    Smaller,
    /// Any positive number; more is better. The cost is one over the number.
    Larger,
}

impl Objective {
    /// All objectives.
    pub const ALL: [Self; 4] = [Self::Time, Self::Rate, Self::Smaller, Self::Larger];

    /// Returns the name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "rate",
            Self::Smaller => "smaller",
            Self::Larger => "larger",
        }
    }

    /// Returns true if larger values are better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Rate | Self::Larger)
    }

    /// Returns the cost of a value.
    ///
    /// # Errors
    /// If the value is not positive, because decisions rest on ratios, a time is below a
    /// nanosecond, the resolution of a clock, or value or cost is not within 1e-150 to 1e150.
    pub fn cost(self, value: f64) -> Result<f64, Error> {
        let cost = match self {
            Self::Time | Self::Smaller => value,
            Self::Rate => 1e3 / value,
            Self::Larger => 1.0 / value,
        };
        if is_cost(value) && is_cost(cost) && (self != Self::Time || value >= RESOLUTION) {
            return Ok(cost);
        }
        Err(Error::request(
            if self == Self::Time && value > 0.0 && value < RESOLUTION {
                format!("{value:e} ms is not a time: no clock resolves less than a nanosecond")
            } else if value > 0.0 && value.is_finite() {
                format!("{value:e} is too large or too small to compare")
            } else {
                format!("{value} is not a positive number")
            },
        ))
    }

    /// Returns the value of a cost.
    pub fn value(self, cost: f64) -> f64 {
        match self {
            Self::Time | Self::Smaller => cost,
            Self::Rate => 1e3 / cost,
            Self::Larger => 1.0 / cost,
        }
    }

    /// Returns the label of a chart's axis.
    pub const fn axis(self) -> &'static str {
        match self {
            Self::Time => "time, ms",
            Self::Rate => "rate, per second",
            Self::Smaller | Self::Larger => "value",
        }
    }

    /// Describes a cost: its value with four digits and the unit.
    pub fn words(self, cost: f64) -> String {
        let value = self.value(cost);
        let digits = if value > 0.0 {
            (3 - value.log10().floor() as i32).clamp(0, 9) as usize
        } else {
            0
        };
        match self {
            Self::Time => format!("{value:.digits$} ms"),
            Self::Rate => format!("{value:.digits$}/s"),
            Self::Smaller | Self::Larger => format!("{value:.digits$}"),
        }
    }

    /// Converts a relative change of the cost to a relative change of the value.
    pub fn change(self, of_cost: f64) -> f64 {
        if self.more_is_better() {
            1.0 / (1.0 + of_cost) - 1.0
        } else {
            of_cost
        }
    }

    /// Returns the word for the value.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Rate => "rate",
            Self::Smaller | Self::Larger => "value",
        }
    }

    /// Returns the words for a smaller and for a larger cost.
    pub const fn comparatives(self) -> [&'static str; 2] {
        match self {
            Self::Time | Self::Rate => ["faster", "slower"],
            Self::Smaller | Self::Larger => ["better", "worse"],
        }
    }
}

impl std::str::FromStr for Objective {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let named = Self::ALL
            .into_iter()
            .find(|objective| objective.name() == text);
        named.ok_or_else(|| {
            Error::request(format!("{text:?} is none of time, rate, smaller, larger"))
        })
    }
}

impl std::fmt::Display for Objective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
