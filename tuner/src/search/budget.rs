//! Budget of a tuning, which ends its search.
//!
//! `evaluations=220,time=60` ends after 220 configurations or a minute, whichever comes first. A
//! number alone means evaluations, a number with `s`, `min` or `h` a time. Launches and time
//! include race and final rounds.
//!
//! ```
//! use tuner::budget::Budget;
//!
//! let budget: Budget = "evaluations=220,time=60".parse()?;
//! assert_eq!(budget.most_evaluations(), Some(220));
//! assert_eq!("200".parse::<Budget>()?, Budget::evaluations(200));
//! assert_eq!("10min".parse::<Budget>()?.to_string(), "time=600");
//! assert!("10 parsecs".parse::<Budget>().is_err());
//! # Ok::<(), tuner::Error>(())
//! ```

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Longest time in seconds: a year.
pub const LONGEST: f64 = 365.0 * 86_400.0;

/// Part of a budget that was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Number of configurations measured.
    pub evaluations: usize,
    /// Number of launches; a failed measurement counts as one.
    pub launches: usize,
    /// Duration of the measurements in ms, including measurements of an earlier process.
    pub ms: f64,
}

/// Limits, of which the first one that is reached ends a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// Distinct configurations, failed ones included.
    evaluations: Option<usize>,
    /// Launches, final rounds included.
    launches: Option<usize>,
    /// Seconds of measuring, final rounds included.
    seconds: Option<f64>,
}

impl Budget {
    /// Makes a budget of evaluations alone.
    pub fn evaluations(most: usize) -> Self {
        Self {
            evaluations: Some(most),
            ..Self::default()
        }
    }

    /// Returns the largest number of evaluations, if it is limited.
    pub fn most_evaluations(&self) -> Option<usize> {
        self.evaluations
    }

    /// Returns the launches left until the limit of launches or time; `None` without one. Time
    /// becomes launches by the mean duration so far.
    ///
    /// Race and final rounds plan in launches. If 500 launches took 10 s so far and 30 s are left,
    /// about 1500 more launches fit.
    pub fn launches_left(&self, spent: &Spent) -> Option<usize> {
        let of_launch = (spent.ms / spent.launches.max(1) as f64).max(1e-9);
        let of_time = self
            .seconds
            .map(|most| ((most * 1e3 - spent.ms).max(0.0) / of_launch) as usize);
        self.launches
            .map(|most| most.saturating_sub(spent.launches))
            .into_iter()
            .chain(of_time)
            .min()
    }

    /// Returns the limit that was reached, as text; `None` to go on.
    pub fn reached(&self, spent: &Spent) -> Option<String> {
        let reached = Self {
            evaluations: self.evaluations.filter(|&most| spent.evaluations >= most),
            launches: self.launches.filter(|&most| spent.launches >= most),
            seconds: self.seconds.filter(|most| spent.ms >= most * 1e3),
        };
        (reached != Self::default()).then(|| reached.to_string())
    }

    /// Returns the most time left in ms, at the pace so far; `None` if it is unknown. Race and
    /// final rounds take `ending_ms`.
    ///
    /// For the display of progress: the limit that will be reached first determines the time left.
    /// Before the first evaluation there is no pace, so that only a limit of time gives an answer.
    pub fn left_ms(&self, spent: &Spent, ending_ms: f64) -> Option<f64> {
        let left = |done: usize, most: usize| {
            (done > 0).then(|| spent.ms / done as f64 * most.saturating_sub(done) as f64)
        };
        let of_evaluations = self
            .evaluations
            .and_then(|most| Some(left(spent.evaluations, most)? + ending_ms));
        let of_launches = self.launches.and_then(|most| left(spent.launches, most));
        let of_time = self.seconds.map(|most| (most * 1e3 - spent.ms).max(0.0));
        [of_evaluations, of_launches, of_time]
            .into_iter()
            .flatten()
            .min_by(f64::total_cmp)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [
            self.evaluations.map(|most| format!("evaluations={most}")),
            self.launches.map(|most| format!("launches={most}")),
            self.seconds.map(|most| format!("time={most}")),
        ];
        f.write_str(&limits.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

/// Reads a time with its unit, as `10min`, in seconds.
fn seconds(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let unit = match unit {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(number.trim().parse::<f64>().ok()? * unit)
}

impl FromStr for Budget {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |what: String| Error::request(what);
        let mut budget = Self::default();
        for limit in text.split(',').map(str::trim) {
            let (name, value) = match limit.split_once('=') {
                Some(pair) => pair,
                None if seconds(limit).is_some() => ("time", limit),
                None => ("evaluations", limit),
            };
            let whole = || match value.parse::<usize>() {
                Ok(number) if number > 0 => Ok(Some(number)),
                _ => Err(wrong(format!(
                    "{name}: {value:?} is not a whole number above 0 (a time has a unit, as 10min)"
                ))),
            };
            match name {
                "evaluations" => budget.evaluations = whole()?,
                "launches" => budget.launches = whole()?,
                "time" => match value.parse().ok().or_else(|| seconds(value)) {
                    Some(number) if number > 0.0 && number <= LONGEST => {
                        budget.seconds = Some(number);
                    }
                    _ => {
                        return Err(wrong(format!(
                            "time: {value:?} is not a number above 0 and at most {LONGEST}"
                        )));
                    }
                },
                other => {
                    let known = "evaluations, launches, time; for instance 10min, 200, evaluations=200,time=60";
                    return Err(wrong(format!("{other:?} is none of {known}")));
                }
            }
        }
        Ok(budget)
    }
}
