//! Configurations, outcomes and differences in words.

use crate::objective::{Objective, is_cost};
use crate::store::contents::RunRecord;
use crate::store::{Observation, Workload};
use crate::verdict::Judgement;
use crate::{Config, FailureKind, Outcome, Value};

/// A configuration as `name=value name=value`.
pub fn in_words(parameters: &[(String, Vec<Value>)], config: &Config) -> String {
    let named = parameters.iter().zip(&config.0).map(|((name, _), value)| format!("{name}={value}"));
    named.collect::<Vec<_>>().join(" ")
}

/// The outcomes of a configuration in a run, joined.
pub struct Tried<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// All its samples, in ms.
    pub times: Vec<f64>,
    /// Last failure.
    pub failure: Option<(FailureKind, &'a str)>,
}

impl Tried<'_> {
    /// The median of its samples, in ms.
    pub fn median(&self) -> Option<f64> {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        let middle = times.len() / 2;
        match times.len() {
            0 => None,
            n if n % 2 == 1 => Some(times[middle]),
            _ => Some(f64::midpoint(times[middle - 1], times[middle])),
        }
    }
}

/// Lists what a run tried, the fastest median first, failures last.
pub fn tried(measurements: &[Observation]) -> Vec<Tried<'_>> {
    let mut tried: Vec<Tried<'_>> = Vec::new();
    let mut seen = std::collections::HashMap::new();
    for measurement in measurements {
        let words: Vec<String> = measurement.config.0.iter().map(|value| format!("{value:?}")).collect();
        let place = *seen.entry(words).or_insert_with(|| {
            tried.push(Tried { config: &measurement.config, times: Vec::new(), failure: None });
            tried.len() - 1
        });
        match &measurement.outcome {
            Outcome::Times(times) => tried[place].times.extend(times),
            Outcome::Failed(failure) => tried[place].failure = Some((failure.kind, &failure.message)),
        }
    }
    // A time below 0, which no search takes for one, is not the fastest.
    let key = |tried: &Tried<'_>| {
        tried.median().filter(|&median| tried.failure.is_none() && is_cost(median)).unwrap_or(f64::INFINITY)
    };
    tried.sort_by(|a, b| key(a).total_cmp(&key(b)));
    tried
}

/// A kind of failure in a word.
pub const fn word(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Constraint => "constraint",
        FailureKind::Compile => "does not compile",
        FailureKind::Launch => "does not run",
        FailureKind::WrongResult => "wrong result",
        FailureKind::TimeOut => "timed out",
        FailureKind::Declined => "declined",
    }
}

/// A relative difference in %.
pub fn percent(x: f64) -> String {
    if x.is_finite() { format!("{:+.3} %", 100.0 * x) } else { "unknown".to_owned() }
}

/// Difference and interval of a judgement, its smaller end first, as changes of the objective's value.
pub fn changes(objective: Objective, judgement: &Judgement) -> [f64; 3] {
    let [centre, low, high] = [judgement.difference, judgement.low, judgement.high].map(|by| objective.change(by));
    if objective.more_is_better() { [centre, high, low] } else { [centre, low, high] }
}

/// Tells by which factor B is better, with the interval.
pub fn gain(objective: Objective, judgement: &Judgement) -> String {
    let [centre, low, high] =
        [judgement.difference, judgement.high, judgement.low].map(|of_cost| format!("{:.3}", 1.0 / (1.0 + of_cost)));
    let how = match objective {
        Objective::Time | Objective::Rate => "as fast",
        Objective::Larger => "as large",
        Objective::Smaller => "as small",
    };
    format!("{centre} times {how} (from {low} to {high})")
}

/// Returns the meaning of the numbers of a run.
pub fn objective_of(record: &RunRecord) -> Objective {
    objective_for(&record.workload)
}

/// Returns the meaning of the numbers of a workload.
pub fn objective_for(workload: &Workload) -> Objective {
    match workload.keys().get("objective") {
        Some(Value::Text(name)) => Objective::named(name).unwrap_or_default(),
        _ => Objective::Time,
    }
}

#[cfg(test)]
mod tests {
    use super::tried;
    use crate::store::Observation;
    use crate::{Config, Outcome, Value};

    #[test]
    fn a_time_that_is_none_is_not_listed_as_the_fastest() {
        let measured = |x: i64, time: f64| Observation {
            config: Config(vec![Value::Int(x)]),
            launches: 1,
            outcome: Outcome::Times(vec![time]),
            took_ms: 1.0,
        };
        let all = [measured(1, -1.0), measured(2, 5.0), measured(3, 4.0)];
        let order: Vec<_> = tried(&all).iter().map(|tried| tried.config.0[0].clone()).collect();
        assert_eq!(order, [Value::Int(3), Value::Int(2), Value::Int(1)]);
    }
}
