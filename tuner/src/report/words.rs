//! Words for configurations, failures and differences.

use crate::objective::Objective;
use crate::store::Workload;
use crate::store::contents::RunRecord;
use crate::verdict::Judgement;
use crate::{Config, FailureKind, Value};

/// Writes a configuration as `name=value name=value`.
pub fn in_words(parameters: &[(String, Vec<Value>)], config: &Config) -> String {
    let named = parameters.iter().zip(&config.0).map(|((name, _), value)| format!("{name}={value}"));
    named.collect::<Vec<_>>().join(" ")
}

/// Returns the words for a kind of failure.
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

/// Writes a relative difference in %.
pub fn percent(x: f64) -> String {
    if x.is_finite() { format!("{:+.3} %", 100.0 * x) } else { "unknown".to_owned() }
}

/// Returns difference and interval of a judgement, the smaller end first, as changes of the objective's value.
pub fn changes(objective: Objective, judgement: &Judgement) -> [f64; 3] {
    let [centre, low, high] = [judgement.difference, judgement.low, judgement.high].map(|by| objective.change(by));
    if objective.more_is_better() { [centre, high, low] } else { [centre, low, high] }
}

/// Writes the factor by which B is better, with the interval.
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

/// Returns the objective of a run.
pub fn objective_of(record: &RunRecord) -> Objective {
    objective_for(&record.workload)
}

/// Returns the objective of a workload.
pub fn objective_for(workload: &Workload) -> Objective {
    match workload.keys().get("objective") {
        Some(Value::Text(name)) => Objective::named(name).unwrap_or_default(),
        _ => Objective::Time,
    }
}
