//! Strategies: which configuration to measure next.
//!
//! A strategy is asked ([`propose`](Strategy::propose)) and told ([`observe`](Strategy::observe)). What it proposes is a
//! function of its space, its seed and the observations so far, in their order: asked twice it proposes the same, and one
//! that is told the observations of an earlier run goes on as that run would have.

mod bayesian;
pub mod draw;
mod gp;
mod gp_learn;
mod shuffled;

pub use bayesian::Bayesian;
pub use shuffled::Shuffled;

use super::Outcome;
use super::objective::is_cost;
use super::space::{ConfigIndex, Space};

/// Chooses configurations.
pub trait Strategy {
    /// The next configuration to measure, one that was not observed yet; `None` when there is none left.
    fn propose(&mut self) -> Option<ConfigIndex>;

    /// Takes note of what a configuration gave, whether it was proposed or not.
    fn observe(&mut self, index: ConfigIndex, outcome: &Outcome);

    /// Returns how much faster the best configuration can be expected to become, as a fraction of its time, if the search
    /// went on to its end; `None` where the strategy cannot tell.
    fn remaining_gain(&mut self) -> Option<f64> {
        None
    }
}

/// The strategies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrategyKind {
    /// All, in a random order, for spaces that can be tried whole.
    Exhaustive,
    /// All, in a random order.
    Random,
    /// A Gaussian process on log time.
    Bayesian,
}

impl StrategyKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Exhaustive, Self::Random, Self::Bayesian];

    /// The default for a space of this size and a budget of this many evaluations. Where time or launches end the search, it
    /// may end before everything was tried: then only a very small space is tried whole.
    pub fn default_for(configurations: usize, budget: Option<usize>) -> Self {
        if configurations <= budget.unwrap_or(32).min(256) { Self::Exhaustive } else { Self::Bayesian }
    }

    /// The strategy itself, for `space`.
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
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| format!("{name:?} is not a strategy; there are exhaustive, random, bayesian"))
    }
}

/// The time by which a search ranks an outcome, in ms: the median of its samples, which neither a slow first launch nor
/// an outlier moves. `None` for failures and for samples that are not times.
pub fn search_time(outcome: &Outcome) -> Option<f64> {
    let Outcome::Times(times) = outcome else { return None };
    let mut times = times.clone();
    if times.is_empty() || !times.iter().all(|&time| is_cost(time)) {
        return None;
    }
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    Some(if times.len() % 2 == 1 { times[middle] } else { f64::midpoint(times[middle - 1], times[middle]) })
}
