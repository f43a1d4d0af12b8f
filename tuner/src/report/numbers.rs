//! Numbers behind the charts.

use super::{Observation, Report};
use crate::statistics::{mean, median, quantile, variance};
use crate::{Config, Failure, FailureKind, Outcome, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Effect of one value of a parameter, over all configurations that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Effect {
    pub value: Value,
    /// Number of configurations with a time.
    pub count: usize,
    /// Number of failures.
    pub failed: usize,
    /// Best time in ms.
    pub best: Option<f64>,
    /// Median time in ms.
    pub median: Option<f64>,
}

/// Share of the variance of log times that a parameter explains by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Importance {
    /// Name of the parameter.
    pub parameter: String,
    /// Share of the variance of log times between its values, corrected for their number, 0..=1.
    pub share: f64,
    /// Effects of the values.
    pub effects: Vec<Effect>,
}

/// Summary of a tuning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of evaluations of the search.
    pub evaluations: usize,
    /// Number of failures, by kind.
    pub failures: BTreeMap<String, usize>,
    /// Fastest configuration, and its median time in ms.
    pub best: Option<(Config, f64)>,
    /// Median time of the default in ms.
    pub default: Option<f64>,
    /// Median over configurations of the relative standard deviation of their samples; `None` with single samples only.
    pub noise: Option<f64>,
    /// Best median time in ms after each evaluation; `None` before the first success.
    pub best_so_far: Vec<Option<f64>>,
    /// Parameters, the most important first.
    pub importance: Vec<Importance>,
}

/// Returns the median time of an outcome, if it has one.
pub(super) fn time(outcome: &Outcome) -> Option<f64> {
    match outcome {
        Outcome::Times(times) => Some(median(times)).filter(|time| time.is_finite() && *time > 0.0),
        Outcome::Failed(_) => None,
    }
}

/// Lists the kinds of failures of the search, with their number, and the first configuration and message.
pub(super) fn failures(report: &Report) -> Vec<(FailureKind, usize, &Config, &str)> {
    let mut kinds: Vec<(FailureKind, usize, &Config, &str)> = Vec::new();
    for Observation { config, outcome, .. } in report.search() {
        let Outcome::Failed(Failure { kind, message }) = outcome else { continue };
        match kinds.iter_mut().find(|(known, ..)| known == kind) {
            Some((_, count, ..)) => *count += 1,
            None => kinds.push((*kind, 1, config, message)),
        }
    }
    kinds
}

/// Returns the relative standard deviation of an outcome's samples, if there are several.
fn noise(outcome: &Outcome) -> Option<f64> {
    match outcome {
        Outcome::Times(times) if times.len() > 1 => {
            Some(variance(times).sqrt() / mean(times)).filter(|x| x.is_finite())
        }
        _ => None,
    }
}

impl Report {
    /// Computes the numbers that the page shows.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary { evaluations: self.search().len(), ..Summary::default() };
        let mut least: Option<f64> = None;
        for evaluation in self.search() {
            if let Some(time) = time(&evaluation.outcome) {
                if summary.best.as_ref().is_none_or(|(_, best)| time < *best) {
                    summary.best = Some((evaluation.config.clone(), time));
                }
                if summary.default.is_none() && self.default.as_ref() == Some(&evaluation.config) {
                    summary.default = Some(time);
                }
                least = Some(least.map_or(time, |least| least.min(time)));
            }
            summary.best_so_far.push(least);
        }
        summary.failures = failures(self).iter().map(|(kind, count, ..)| (kind.name().to_owned(), *count)).collect();
        let noises: Vec<f64> = self.search().iter().filter_map(|e| noise(&e.outcome)).collect();
        summary.noise = (!noises.is_empty()).then(|| quantile(&noises, 0.5));
        summary.importance = (0..self.parameters.len()).map(|parameter| importance(self, parameter)).collect();
        summary.importance.sort_by(|a, b| b.share.total_cmp(&a.share));
        summary
    }
}

fn importance(report: &Report, parameter: usize) -> Importance {
    let mut effects = Vec::new();
    let mut groups: Vec<Vec<f64>> = Vec::new();
    for value in report.parameters[parameter].1.clone() {
        let with: Vec<&Outcome> =
            report.search().iter().filter(|e| e.config.0.get(parameter) == Some(&value)).map(|e| &e.outcome).collect();
        let times: Vec<f64> = with.iter().filter_map(|outcome| time(outcome)).collect();
        effects.push(Effect {
            value,
            count: times.len(),
            failed: with.len() - times.len(),
            best: times.iter().copied().reduce(f64::min),
            median: (!times.is_empty()).then(|| median(&times)),
        });
        groups.push(times.iter().map(|time| time.ln()).collect());
    }
    groups.retain(|group| !group.is_empty());
    Importance { parameter: report.parameters[parameter].0.clone(), share: share(&groups), effects }
}

/// Returns the share of the variance between groups (ε²: corrected for chance).
fn share(groups: &[Vec<f64>]) -> f64 {
    let all = groups.concat();
    let (n, k) = (all.len() as f64, groups.len() as f64);
    let total = variance(&all) * (n - 1.0);
    if groups.len() < 2 || n - k < 1.0 || total <= 0.0 {
        return 0.0;
    }
    let within: f64 = groups.iter().map(|group| variance(group) * (group.len() - 1) as f64).sum();
    let of_chance = within / (n - k);
    ((total - within - (k - 1.0) * of_chance) / total).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn importance_is_the_share_between_groups() {
        assert_eq!(share(&[]), 0.0);
        assert_eq!(share(&[vec![1.0, 2.0]]), 0.0);
        assert_eq!(share(&[vec![1.0], vec![2.0]]), 0.0, "one each: nothing to compare with");
        assert_eq!(share(&[vec![1.0; 3], vec![2.0; 3]]), 1.0);
        assert_eq!(share(&[vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0]]), 0.0);
        let some = share(&[vec![1.0, 1.2, 1.1], vec![1.4, 1.3, 1.5]]);
        assert!(some > 0.7 && some < 0.95, "{some}");
    }
}
