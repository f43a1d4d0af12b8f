//! Strategies, which choose the next configuration to measure.
//!
//! A proposal ([`propose`](Strategy::propose)) is a function of the space, the seed and the
//! observations so far ([`observe`](Strategy::observe)) in their order: asked twice, a strategy
//! proposes the same, and told the observations of an earlier run, it goes on like that run.

mod bayesian;
pub mod draw;
mod gp;
mod gp_learn;
mod shuffled;

pub use bayesian::Bayesian;
pub use shuffled::Shuffled;

use super::objective::is_cost;
use super::space::{ConfigIndex, Space};
use super::{Error, Outcome};

/// Chooses configurations.
pub trait Strategy {
    /// Returns the next configuration to measure, which was not observed yet; `None` if none is
    /// left.
    fn propose(&mut self) -> Option<ConfigIndex>;

    /// Takes the outcome of a configuration, proposed or not.
    fn observe(&mut self, index: ConfigIndex, outcome: &Outcome);
}

/// Strategy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StrategyKind {
    /// All configurations in a random order, for spaces that can be tried whole.
    Exhaustive,
    /// All configurations in a random order.
    Random,
    /// Gaussian process on the logarithm of the time.
    Bayesian,
}

impl StrategyKind {
    /// All strategies.
    pub const ALL: [Self; 3] = [Self::Exhaustive, Self::Random, Self::Bayesian];

    /// Returns the default for a space of this size and a budget of evaluations. Without such a
    /// budget the search may end before everything was tried, so only a very small space is tried
    /// whole.
    pub fn default_for(configurations: usize, budget: Option<usize>) -> Self {
        if configurations <= budget.unwrap_or(32).min(256) {
            Self::Exhaustive
        } else {
            Self::Bayesian
        }
    }

    /// Starts the strategy on `space`.
    pub fn start(self, space: &Space, seed: u64) -> Box<dyn Strategy + '_> {
        match self {
            Self::Exhaustive | Self::Random => Box::new(Shuffled::new(space, seed)),
            Self::Bayesian => Box::new(Bayesian::new(space, seed)),
        }
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exhaustive => "exhaustive",
            Self::Random => "random",
            Self::Bayesian => "bayesian",
        }
    }
}

impl std::fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for StrategyKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| {
            Error::request(format!(
                "{name:?} is not a strategy; there are exhaustive, random, bayesian"
            ))
        })
    }
}

/// Returns the median of an outcome's samples in ms, by which a search ranks it: neither a slow
/// first launch nor an outlier moves it. `None` for failures, and for samples that are not times.
pub fn search_time(outcome: &Outcome) -> Option<f64> {
    let Outcome::Times(times) = outcome else {
        return None;
    };
    let mut times = times.clone();
    if times.is_empty() || !times.iter().all(|&time| is_cost(time)) {
        return None;
    }
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    Some(if times.len() % 2 == 1 {
        times[middle]
    } else {
        f64::midpoint(times[middle - 1], times[middle])
    })
}
