//! Budget of a tuning, which ends its search.
//!
//! A budget is a list of alternatives (`,`: whichever comes first) of limits that must all be reached (`+`):
//! `evaluations=220,time=60` ends after 220 configurations or a minute; `evaluations=50+no-gain=20` after at least 50,
//! once 20 in a row were no faster. A number alone means evaluations, a number with `s`, `min` or `h` a time. Launches
//! and time include race and final rounds.

use std::fmt;
use std::str::FromStr;

/// Longest time in seconds: a year.
pub const LONGEST: f64 = 365.0 * 86_400.0;

/// Part of a budget that was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Configurations measured.
    pub evaluations: usize,
    /// Launches; a failed measurement counts as one.
    pub launches: usize,
    /// Duration of the measurements in ms, those of an earlier process included.
    pub ms: f64,
    /// Evaluations since the best configuration was found.
    pub without_gain: usize,
    /// Expected gain of searching on, as a share of the time, if the strategy can tell.
    pub remaining_gain: Option<f64>,
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// `evaluations=N`: distinct configurations, failed ones included.
    Evaluations(usize),
    /// `launches=N`: launches, final rounds included.
    Launches(usize),
    /// `time=S`: seconds of measuring, final rounds included.
    Seconds(f64),
    /// `no-gain=N`: evaluations without a better one.
    NoGain(usize),
    /// `gain=X`: expected gain of searching on, as a share of the time.
    Gain(f64),
}

impl Limit {
    fn reached(self, spent: &Spent) -> bool {
        match self {
            Self::Evaluations(most) => spent.evaluations >= most,
            Self::Launches(most) => spent.launches >= most,
            Self::Seconds(most) => spent.ms >= most * 1e3,
            Self::NoGain(most) => spent.without_gain >= most,
            Self::Gain(least) => spent.remaining_gain.is_some_and(|gain| gain < least),
        }
    }

    /// Returns the time left by this limit in ms, at the pace so far; `None` if it is unknown.
    fn left_ms(self, spent: &Spent, ending_ms: f64) -> Option<f64> {
        let rate =
            |done: usize, most: usize| (done > 0).then(|| spent.ms / done as f64 * most.saturating_sub(done) as f64);
        match self {
            Self::Evaluations(most) => rate(spent.evaluations, most).map(|left| left + ending_ms),
            Self::Launches(most) => rate(spent.launches, most),
            Self::Seconds(most) => Some((most * 1e3 - spent.ms).max(0.0)),
            Self::NoGain(_) | Self::Gain(_) => None,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evaluations(most) => write!(f, "evaluations={most}"),
            Self::Launches(most) => write!(f, "launches={most}"),
            Self::Seconds(most) => write!(f, "time={most}"),
            Self::NoGain(most) => write!(f, "no-gain={most}"),
            Self::Gain(least) => write!(f, "gain={least}"),
        }
    }
}

/// Alternatives of limits; see the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    alternatives: Vec<Vec<Limit>>,
}

impl Budget {
    /// Returns the launches left until a limit of launches or time that stands alone; `None` without one. Time becomes
    /// launches by the mean duration so far.
    pub fn launches_left(&self, spent: &Spent) -> Option<usize> {
        let of_launch = spent.ms / spent.launches.max(1) as f64;
        let left = |limits: &Vec<Limit>| match limits[..] {
            [Limit::Launches(most)] => Some(most.saturating_sub(spent.launches)),
            [Limit::Seconds(most)] => Some(((most * 1e3 - spent.ms).max(0.0) / of_launch.max(1e-9)) as usize),
            _ => None,
        };
        self.alternatives.iter().filter_map(left).min()
    }

    /// Makes a budget of evaluations alone.
    pub fn evaluations(most: usize) -> Self {
        Self { alternatives: vec![vec![Limit::Evaluations(most)]] }
    }

    /// Returns the limits that were reached, as text; `None` to go on.
    pub fn reached(&self, spent: &Spent) -> Option<String> {
        let all = |limits: &&Vec<Limit>| limits.iter().all(|limit| limit.reached(spent));
        self.alternatives.iter().find(all).map(|limits| words(limits))
    }

    /// Returns the largest number of evaluations, if it is limited.
    pub fn most_evaluations(&self) -> Option<usize> {
        let most = |limits: &Vec<Limit>| match limits[..] {
            [Limit::Evaluations(most)] => Some(most),
            _ => None,
        };
        self.alternatives.iter().filter_map(most).min()
    }

    /// Returns true if a limit needs the expected gain, which takes a strategy some time.
    pub fn asks_for_gain(&self) -> bool {
        self.alternatives.iter().flatten().any(|limit| matches!(limit, Limit::Gain(_)))
    }

    /// Returns the most time left in ms, at the pace so far; `None` if it is unknown. Race and final rounds take
    /// `ending_ms`.
    pub fn left_ms(&self, spent: &Spent, ending_ms: f64) -> Option<f64> {
        let of_all = |limits: &Vec<Limit>| {
            limits
                .iter()
                .map(|limit| limit.left_ms(spent, ending_ms))
                .try_fold(0.0f64, |most, left| Some(most.max(left?)))
        };
        self.alternatives.iter().filter_map(of_all).min_by(f64::total_cmp)
    }
}

fn words(limits: &[Limit]) -> String {
    limits.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.alternatives.iter().map(|limits| words(limits)).collect::<Vec<_>>().join(","))
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
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = |text: &str| -> Result<Limit, String> {
            let text = text.trim();
            let (name, value) = match text.split_once('=') {
                Some(pair) => pair,
                None if seconds(text).is_some() => ("time", text),
                None => ("evaluations", text),
            };
            let whole = || match value.parse::<usize>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("{name}: {value:?} is not a whole number above 0 (a time has a unit, as 10min)")),
            };
            let above_0 = |number: Option<f64>| match number {
                Some(number) if number > 0.0 && number <= LONGEST => Ok(number),
                _ => Err(format!("{name}: {value:?} is not a number above 0 and at most {LONGEST}")),
            };
            let real = || value.parse().ok();
            match name {
                "evaluations" => Ok(Limit::Evaluations(whole()?)),
                "launches" => Ok(Limit::Launches(whole()?)),
                "time" => Ok(Limit::Seconds(above_0(real().or_else(|| seconds(value)))?)),
                "no-gain" => Ok(Limit::NoGain(whole()?)),
                "gain" => Ok(Limit::Gain(above_0(real())?)),
                other => Err(format!(
                    "{other:?} is none of evaluations, launches, time, no-gain, gain; for instance 10min, 200, \
                     evaluations=200,time=60"
                )),
            }
        };
        let alternative = |text: &str| text.split('+').map(limit).collect::<Result<Vec<_>, _>>();
        Ok(Self { alternatives: text.split(',').map(alternative).collect::<Result<Vec<_>, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_end_at_the_first_and_sums_at_the_last() {
        let budget: Budget = "evaluations=50+no-gain=20,time=3".parse().unwrap();
        let spent = |evaluations, without_gain, ms| Spent { evaluations, ms, without_gain, ..Spent::default() };
        assert_eq!(budget.reached(&spent(49, 30, 2999.0)), None);
        assert_eq!(budget.reached(&spent(60, 19, 2999.0)), None);
        assert_eq!(budget.reached(&spent(50, 20, 0.0)).unwrap(), "evaluations=50+no-gain=20");
        assert_eq!(budget.reached(&spent(1, 0, 3000.0)).unwrap(), "time=3");
        let gain = "gain=0.01".parse::<Budget>().unwrap();
        for (remaining_gain, ends) in [(None, false), (Some(0.02), false), (Some(0.005), true)] {
            assert_eq!(gain.reached(&Spent { remaining_gain, ..Spent::default() }).is_some(), ends);
        }
    }

    #[test]
    fn what_is_left_of_launches_and_time_is_known_in_launches() {
        let spent = Spent { launches: 40, ms: 2000.0, ..Spent::default() };
        let left = |text: &str| text.parse::<Budget>().unwrap().launches_left(&spent);
        assert_eq!(left("launches=100"), Some(60));
        assert_eq!(left("time=5"), Some(60));
        assert_eq!(left("launches=10,time=5"), Some(0));
        assert_eq!(left("evaluations=5,launches=10+no-gain=3"), None);
    }

    #[test]
    fn what_is_left_is_estimated_from_the_pace() {
        let budget: Budget = "100,time=10".parse().unwrap();
        let spent = Spent { evaluations: 25, ms: 2000.0, ..Spent::default() };
        // Final rounds come on top of evaluations, and not of a time.
        assert_eq!(budget.left_ms(&spent, 1000.0), Some(7000.0));
        assert_eq!(budget.left_ms(&spent, 9000.0), Some(8000.0));
        assert_eq!("no-gain=5".parse::<Budget>().unwrap().left_ms(&spent, 0.0), None);
        assert_eq!(budget.most_evaluations(), Some(100));
    }

    #[test]
    fn a_budget_reads_back_as_it_was_written_and_nonsense_is_named() {
        for text in ["evaluations=220", "launches=5+no-gain=3,time=1.5,gain=0.01"] {
            assert_eq!(text.parse::<Budget>().unwrap().to_string(), text);
        }
        for (text, seconds) in [("90s", "90"), ("10min", "600"), ("time=1.5h", "5400"), ("evaluations=3,2 min", "120")]
        {
            let read = text.parse::<Budget>().unwrap().to_string();
            assert!(read.ends_with(&format!("time={seconds}")), "{text}: {read}");
        }
        for (text, said) in [
            ("-1min", "above 0"),
            ("10 parsecs", "whole number"),
            ("", "evaluations"),
            ("0", "above 0"),
            ("time=-1", "time"),
            ("time=1e300", "at most 31536000"),
            ("time=inf", "time"),
            ("patience=3", "patience"),
        ] {
            assert!(text.parse::<Budget>().unwrap_err().contains(said));
        }
    }
}
