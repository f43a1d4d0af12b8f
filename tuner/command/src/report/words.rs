//! Words for configurations, failures and differences.

use tuner::objective::Objective;
use tuner::verdict::Judgement;
use tuner::{Config, Named, Value};

/// Writes a configuration as `name=value name=value`.
pub fn in_words(parameters: &[(String, Vec<Value>)], config: &Config) -> String {
    Named::of(parameters.iter().map(|(name, _)| name), config).to_string()
}

/// Writes a relative difference in %.
pub fn percent(x: f64) -> String {
    if x.is_finite() {
        format!("{:+.3} %", 100.0 * x)
    } else {
        "unknown".to_owned()
    }
}

/// Returns difference and interval of a judgement, the smaller end first, as changes of the
/// objective's value.
pub fn changes(objective: Objective, judgement: &Judgement) -> [f64; 3] {
    let [centre, low, high] =
        [judgement.difference, judgement.low, judgement.high].map(|by| objective.change(by));
    if objective.more_is_better() {
        [centre, high, low]
    } else {
        [centre, low, high]
    }
}
