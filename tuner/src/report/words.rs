//! Words for configurations, failures and differences.

use crate::compare::Ruling;
use crate::objective::Objective;
use crate::store::Workload;
use crate::verdict::Judgement;
use crate::{Config, Value};

/// Writes a configuration as `name=value name=value`.
pub fn in_words(parameters: &[(String, Vec<Value>)], config: &Config) -> String {
    let named = parameters.iter().zip(&config.0).map(|((name, _), value)| format!("{name}={value}"));
    named.collect::<Vec<_>>().join(" ")
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

/// Names the configuration that the candidates are compared with.
pub(crate) fn rival(default: Option<&Config>, compared: &Config) -> &'static str {
    if default == Some(compared) { "the default" } else { "the search's best" }
}

/// Describes a ruling on `rival`; `better` is the word for a smaller cost.
pub(crate) fn ruling(ruling: &Ruling, rival: &str, better: &str) -> String {
    match ruling {
        Ruling::Promoted => format!("better than {rival}, and again on fresh samples"),
        Ruling::NoneBetter => format!("{rival} stays: nothing was shown to be {better}"),
        Ruling::NotConfirmed(verdict) => {
            format!("{rival} stays: what seemed {better} did not repeat it on fresh samples ({verdict})")
        }
        Ruling::NoDefault(failure) => format!("{rival} failed in the final rounds: {}", failure.message),
    }
}

/// Returns the objective of a workload.
pub fn objective_for(workload: &Workload) -> Objective {
    match workload.keys().get("objective") {
        Some(Value::Text(name)) => name.parse().unwrap_or_default(),
        _ => Objective::Time,
    }
}
