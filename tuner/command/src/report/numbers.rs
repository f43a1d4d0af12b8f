//! Numbers behind the charts.

use super::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tuner::statistics::{mean, median, quantile, variance};
use tuner::store::Observation;
use tuner::{Config, Failure, FailureKind, Outcome, Value};

/// Effect of one value of a parameter, over all configurations that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Value that the configurations have in common.
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

/// Importance of a parameter in the search.
///
/// All parameters are fitted at once: the logarithm of a time is a sum of one number for each
/// value. A search tries good values more often than others, so the times with one value also
/// depend on the values that came with it; the fit takes that out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Importance {
    /// Name of the parameter.
    pub parameter: String,
    /// Share of the variance of log times that it explains by itself, corrected for the number of
    /// its values, 0..=1; `None` from too few configurations to tell.
    pub share: Option<f64>,
    /// Time with its worst value over the time with its best, all else equal, less 1; `None` as for
    /// `share`.
    pub range: Option<f64>,
    /// Effects of the values.
    pub effects: Vec<Effect>,
}

/// Two parameters, and the share of the variance that they explain only together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// Names of the parameters.
    pub parameters: [String; 2],
    /// Share of the variance of log times beyond what both explain by themselves, corrected for
    /// chance, 0..=1.
    pub share: f64,
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
    /// Median over configurations of the relative standard deviation of their samples; `None` with
    /// single samples only.
    pub noise: Option<f64>,
    /// Best median time in ms after each evaluation; `None` before the first success.
    pub best_so_far: Vec<Option<f64>>,
    /// Parameters, the most important first.
    pub importance: Vec<Importance>,
    /// Share of the variance of log times that no parameter explains by itself: interactions, and
    /// the noise of a median; `None` from too few configurations to tell.
    pub together: Option<f64>,
    /// Pairs of parameters with such a share, the largest first.
    pub interactions: Vec<Interaction>,
}

/// Returns the median time of an outcome, if it has one.
pub(super) fn time(outcome: &Outcome) -> Option<f64> {
    match outcome {
        Outcome::Times(times) => Some(median(times)).filter(|time| time.is_finite() && *time > 0.0),
        Outcome::Failed(_) => None,
    }
}

/// Lists the kinds of failures of the search, with their number, and the first configuration and
/// message.
pub(super) fn failures(report: &Report) -> Vec<(FailureKind, usize, &Config, &str)> {
    let mut kinds: Vec<(FailureKind, usize, &Config, &str)> = Vec::new();
    for Observation {
        config, outcome, ..
    } in report.search()
    {
        let Outcome::Failed(Failure { kind, message }) = outcome else {
            continue;
        };
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
        let mut summary = Summary {
            evaluations: self.search().len(),
            ..Summary::default()
        };
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
        summary.failures = failures(self)
            .iter()
            .map(|(kind, count, ..)| (kind.name().to_owned(), *count))
            .collect();
        let noises: Vec<f64> = self
            .search()
            .iter()
            .filter_map(|e| noise(&e.outcome))
            .collect();
        summary.noise = (!noises.is_empty()).then(|| quantile(&noises, 0.5));
        let fit = Fit::of(self);
        summary.importance = (0..self.parameters.len())
            .map(|parameter| importance(self, parameter, &fit))
            .collect();
        let worth = |of: &Importance| (of.share.unwrap_or_default(), of.range.unwrap_or_default());
        summary.importance.sort_by(|a, b| {
            let (a, b) = (worth(a), worth(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        summary.together = fit.together();
        summary.interactions = fit.interactions(self);
        summary
    }
}

fn importance(report: &Report, parameter: usize, fit: &Fit) -> Importance {
    let mut effects = Vec::new();
    for value in report.parameters[parameter].1.clone() {
        let with: Vec<&Outcome> = report
            .search()
            .iter()
            .filter(|e| e.config.0.get(parameter) == Some(&value))
            .map(|e| &e.outcome)
            .collect();
        let times: Vec<f64> = with.iter().filter_map(|outcome| time(outcome)).collect();
        effects.push(Effect {
            value,
            count: times.len(),
            failed: with.len() - times.len(),
            best: times.iter().copied().reduce(f64::min),
            median: (!times.is_empty()).then(|| median(&times)),
        });
    }
    let (share, range) = (fit.share(parameter), fit.range(parameter));
    Importance {
        parameter: report.parameters[parameter].0.clone(),
        share,
        range,
        effects,
    }
}

/// Maximum number of sweeps over all parameters until the effects stand still; few are needed.
const SWEEPS: usize = 60;

/// Minimum share of an interaction to be named.
const NAMED: f64 = 0.02;

/// Log times as a sum of an effect for each parameter's value, by least squares.
struct Fit {
    /// Number of the value of each parameter, by configuration that has a time.
    codes: Vec<Vec<usize>>,
    /// Effects by parameter and value; `None` for values without a time.
    effects: Vec<Vec<Option<f64>>>,
    /// Log times less all effects.
    rest: Vec<f64>,
    /// Sum of the squares of the log times round their mean.
    total: f64,
    /// Degrees of freedom that are left; 0 if nothing can be told.
    free: f64,
}

impl Fit {
    fn of(report: &Report) -> Self {
        let place = |(value, (_, values)): (&Value, &(String, Vec<Value>))| {
            values.iter().position(|known| known == value)
        };
        let row = |seen: &Observation| {
            let codes: Option<Vec<usize>> = seen
                .config
                .0
                .iter()
                .zip(&report.parameters)
                .map(place)
                .collect();
            Some((
                codes.filter(|codes| codes.len() == report.parameters.len())?,
                time(&seen.outcome)?.ln(),
            ))
        };
        let (codes, mut rest): (Vec<Vec<usize>>, Vec<f64>) =
            report.search().iter().filter_map(row).unzip();
        let middle = if rest.is_empty() { 0.0 } else { mean(&rest) };
        for log in &mut rest {
            *log -= middle;
        }
        let total = rest.iter().map(|log| log * log).sum();
        let mut effects: Vec<Vec<Option<f64>>> = report
            .parameters
            .iter()
            .map(|(_, values)| vec![None; values.len()])
            .collect();
        for _ in 0..SWEEPS {
            for (parameter, effects) in effects.iter_mut().enumerate() {
                let mut sums = vec![(0.0, 0usize); effects.len()];
                for (codes, rest) in codes.iter().zip(&rest) {
                    let sum = &mut sums[codes[parameter]];
                    *sum = (sum.0 + rest, sum.1 + 1);
                }
                let change = |value: usize| {
                    if sums[value].1 > 0 {
                        sums[value].0 / sums[value].1 as f64
                    } else {
                        0.0
                    }
                };
                for (codes, rest) in codes.iter().zip(&mut rest) {
                    *rest -= change(codes[parameter]);
                }
                for (value, effect) in effects.iter_mut().enumerate() {
                    if sums[value].1 > 0 {
                        *effect = Some(effect.unwrap_or_default() + change(value));
                    }
                }
            }
        }
        let taken: usize = effects
            .iter()
            .map(|of| of.iter().flatten().count().saturating_sub(1))
            .sum();
        let free = (codes.len() as f64 - 1.0 - taken as f64).max(0.0);
        Self {
            codes,
            effects,
            rest,
            total,
            free,
        }
    }

    /// Returns the variance that chance gives to each degree of freedom; `None` if nothing can be
    /// told.
    fn of_chance(&self) -> Option<f64> {
        let left = self.rest.iter().map(|rest| rest * rest).sum::<f64>();
        // Rounding does not count as variance.
        (self.free >= 1.0 && self.total > 1e-18).then(|| left / self.free)
    }

    fn share(&self, parameter: usize) -> Option<f64> {
        let of_chance = self.of_chance()?;
        let known =
            |codes: &Vec<usize>| self.effects[parameter][codes[parameter]].unwrap_or_default();
        let effects: Vec<f64> = self.codes.iter().map(known).collect();
        let values = self.effects[parameter].iter().flatten().count() as f64;
        let explained = variance(&effects) * (effects.len() as f64 - 1.0);
        Some(((explained - (values - 1.0).max(0.0) * of_chance) / self.total).clamp(0.0, 1.0))
    }

    fn range(&self, parameter: usize) -> Option<f64> {
        self.of_chance()?;
        let known = || self.effects[parameter].iter().flatten().copied();
        let (least, most) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
        Some((most - least).exp() - 1.0)
    }

    fn together(&self) -> Option<f64> {
        Some((self.of_chance()? * (self.codes.len() as f64 - 1.0) / self.total).clamp(0.0, 1.0))
    }

    /// Returns the pairs whose combinations differ beyond the sum of their effects.
    fn interactions(&self, report: &Report) -> Vec<Interaction> {
        let mut found = Vec::new();
        let n = self.effects.len();
        for (first, second) in
            (0..n).flat_map(|first| (first + 1..n).map(move |second| (first, second)))
        {
            let mut cells: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
            for (codes, rest) in self.codes.iter().zip(&self.rest) {
                cells
                    .entry((codes[first], codes[second]))
                    .or_default()
                    .push(*rest);
            }
            let values = |of: usize| self.effects[of].iter().flatten().count();
            // The sums of both parameters' effects take the others.
            let taken = (cells.len() + 1).saturating_sub(values(first) + values(second)) as f64;
            let within: f64 = cells
                .values()
                .map(|cell| variance(cell) * (cell.len() as f64 - 1.0))
                .sum();
            let left = self.rest.iter().map(|rest| rest * rest).sum::<f64>();
            if self.of_chance().is_none() || taken < 1.0 || self.free - taken < 1.0 {
                continue;
            }
            let of_chance = within / (self.free - taken);
            let share = ((left - within - taken * of_chance) / self.total).clamp(0.0, 1.0);
            if share >= NAMED {
                let parameters = [first, second].map(|of| report.parameters[of].0.clone());
                found.push(Interaction { parameters, share });
            }
        }
        found.sort_by(|a, b| b.share.total_cmp(&a.share));
        found
    }
}
