//! Several objectives at once: time and energy, rate and size.
//!
//! What is made small is the geometric mean of the costs, each to the power of its weight: a choice that does not depend
//! on units, in which 1 % of the one is worth as much as 1 % of the other where the weights are equal. Other weights would
//! choose otherwise, so the configurations that no other beats in everything, the *front*, are kept beside the choice.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::objective::Objective;
use crate::statistics::median;
use crate::{Config, Outcome};

/// One of several objectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// What it is called.
    pub name: String,
    /// What its numbers are.
    pub objective: Objective,
    /// How much it counts, above 0.
    pub weight: f64,
}

impl FromStr for Goal {
    type Err = String;

    /// `kind`, `name=kind`, and with `*weight` after either: `energy=smaller*0.5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, weight) = match text.split_once('*') {
            Some((rest, weight)) => (rest, weight.trim().parse().ok()),
            None => (text, Some(1.0)),
        };
        let weight = weight.filter(|weight: &f64| *weight > 0.0 && *weight <= 1e6);
        let weight = weight.ok_or_else(|| format!("{text:?}: a weight is a number above 0 and at most a million"))?;
        let (name, kind) = rest.split_once('=').unwrap_or((rest, rest));
        let (name, kind) = (name.trim(), kind.trim());
        let objective = Objective::named(kind).filter(|objective| *objective != Objective::Weighted);
        let objective = objective.ok_or_else(|| format!("{kind:?} is none of time, rate, smaller, larger"))?;
        if name.is_empty() || name.contains([',', '=', '*']) {
            return Err(format!("{text:?}: a name without , = *"));
        }
        Ok(Self { name: name.to_owned(), objective, weight })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}*{}", self.name, self.objective, self.weight)
    }
}

impl Goal {
    /// A cost in words: the objective's name and value.
    pub fn words(&self, cost: f64) -> String {
        format!("{} {}", self.name, self.objective.words(cost))
    }
}

/// The mean that is made small: of one cost for each weight.
pub fn weighted(costs: &[f64], weights: &[f64]) -> f64 {
    let all: f64 = weights.iter().sum();
    (costs.iter().zip(weights).map(|(cost, weight)| weight * cost.ln()).sum::<f64>() / all).exp()
}

/// The outcome by other weights, for a measurement whose costs are `parts`, one list for each objective.
pub fn reweighted(outcome: &Outcome, parts: &[Vec<f64>], weights: &[f64]) -> Outcome {
    match outcome {
        Outcome::Times(times) if parts.len() == weights.len() => {
            let launch = |at: usize| parts.iter().map(|of| of.get(at).copied()).collect::<Option<Vec<f64>>>();
            Outcome::Times((0..times.len()).filter_map(launch).map(|costs| weighted(&costs, weights)).collect())
        }
        other => other.clone(),
    }
}

/// The costs of one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trade {
    /// The configuration.
    pub config: Config,
    /// The median of each objective's costs.
    pub costs: Vec<f64>,
}

/// What a run with several objectives found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Front {
    /// The objectives.
    pub goals: Vec<Goal>,
    /// Every configuration that worked.
    pub tried: Vec<Trade>,
    /// Numbers of those that no other one beats in everything, by the first objective's cost.
    pub front: Vec<usize>,
}

impl Front {
    /// Of the samples of each configuration, one list for each objective.
    pub fn new(goals: &[Goal], samples: &[(Config, Vec<Vec<f64>>)]) -> Self {
        let trade = |(config, parts): &(Config, Vec<Vec<f64>>)| Trade {
            config: config.clone(),
            costs: parts.iter().map(|costs| median(costs)).collect(),
        };
        let complete = |(_, parts): &&(Config, Vec<Vec<f64>>)| {
            parts.len() == goals.len() && parts.iter().all(|costs| !costs.is_empty())
        };
        let tried: Vec<Trade> = samples.iter().filter(complete).map(trade).collect();
        let beats = |a: &Trade, b: &Trade| {
            let mut pairs = a.costs.iter().zip(&b.costs);
            a.costs != b.costs && pairs.all(|(a, b)| a <= b)
        };
        let mut front: Vec<usize> =
            (0..tried.len()).filter(|&at| !tried.iter().any(|other| beats(other, &tried[at]))).collect();
        front.sort_by(|&a, &b| tried[a].costs[0].total_cmp(&tried[b].costs[0]));
        Self { goals: goals.to_vec(), tried, front }
    }

    /// The costs of a configuration in words.
    pub fn words(&self, trade: &Trade) -> String {
        let parts = self.goals.iter().zip(&trade.costs).map(|(goal, cost)| goal.words(*cost));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The names and shares of the weights, as `time 0.67, energy 0.33`.
    pub fn weights(&self) -> String {
        let all: f64 = self.goals.iter().map(|goal| goal.weight).sum();
        let share = |goal: &Goal| format!("{} {:.2}", goal.name, goal.weight / all);
        self.goals.iter().map(share).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn config(at: i64) -> Config {
        Config(vec![Value::Int(at)])
    }

    #[test]
    fn a_goal_reads_back_as_it_was_written_and_nonsense_is_named() {
        for text in ["time=time*1", "energy=smaller*0.5"] {
            assert_eq!(text.parse::<Goal>().unwrap().to_string(), text);
        }
        assert_eq!("rate".parse::<Goal>().unwrap().to_string(), "rate=rate*1");
        for (text, said) in [("watt", "watt"), ("e=weighted", "weighted"), ("time*0", "above 0"), ("=time", "name")] {
            assert!(text.parse::<Goal>().unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn the_weighted_mean_is_free_of_units() {
        let [a, b] = [[2.0, 50.0], [3.0, 30.0]];
        let scaled = |costs: [f64; 2]| [costs[0] * 1000.0, costs[1] / 7.0];
        let weights = [2.0, 1.0];
        let ratio = weighted(&a, &weights) / weighted(&b, &weights);
        assert!((ratio - weighted(&scaled(a), &weights) / weighted(&scaled(b), &weights)).abs() < 1e-12);
        assert!((weighted(&[8.0, 1.0], &[1.0, 2.0]) - 2.0).abs() < 1e-12);
        let outcome = Outcome::Times(vec![1.0, 1.0]);
        let parts = [vec![2.0, 4.0], vec![5.0, 6.0]];
        assert_eq!(reweighted(&outcome, &parts, &[1.0, 0.0]), Outcome::Times(vec![2.0, 4.0]));
        assert_eq!(reweighted(&outcome, &[], &[1.0, 0.0]), outcome);
    }

    #[test]
    fn the_front_is_what_nothing_beats_in_everything() {
        let goals = ["time".parse::<Goal>().unwrap(), "energy=smaller".parse().unwrap()];
        let one = |at: i64, time: f64, energy: f64| (config(at), vec![vec![time], vec![energy]]);
        // 1 and 3 are the ends, 2 a compromise, 4 is beaten by 2, 5 equals 2, 6 gave nothing.
        let samples = [
            one(4, 2.5, 2.5),
            one(1, 1.0, 9.0),
            one(3, 9.0, 1.0),
            one(2, 2.0, 2.0),
            one(5, 2.0, 2.0),
            (config(6), vec![vec![], vec![]]),
        ];
        let front = Front::new(&goals, &samples);
        assert_eq!(front.tried.len(), 5);
        let numbers: Vec<&Config> = front.front.iter().map(|&at| &front.tried[at].config).collect();
        assert_eq!(numbers, [&config(1), &config(2), &config(5), &config(3)]);
        assert_eq!(front.words(&front.tried[1]), "time 1.000 ms, energy 9.000");
        assert_eq!(front.weights(), "time 0.50, energy 0.50");
        assert!(Front::new(&goals, &[]).front.is_empty());
    }
}
