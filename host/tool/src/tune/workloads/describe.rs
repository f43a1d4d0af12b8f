//! Text that `tune workloads` prints.

use std::fmt::Write as _;

use tuner::Config;
use tuner::cost::Costs;
use tuner::store::Evidence;

use super::{Chosen, Load};
use crate::Failure;
use crate::table::table;

/// Results of `tune workloads`.
pub struct Found<'a> {
    pub loads: &'a [Load],
    /// Names of the parameters.
    pub names: &'a [String],
    pub default: &'a Config,
    /// Decision of each workload's own search.
    pub decided: &'a [Evidence],
    pub costs: &'a Costs,
    pub chosen: &'a Chosen,
    /// Decision that was kept for all workloads, if requested.
    pub kept: Option<&'a str>,
}

/// Returns the parameters that differ from the default, as text.
fn in_short(names: &[String], default: &Config, config: &Config) -> String {
    let parts = names.iter().zip(default.0.iter().zip(&config.0)).filter(|(_, (default, value))| default != value);
    let parts: Vec<String> = parts.map(|(name, (_, value))| format!("{name}={value}")).collect();
    if parts.is_empty() { "default".to_owned() } else { parts.join(" ") }
}

pub fn text(found: &Found<'_>) -> Result<String, Failure> {
    let Found { loads, names, default, decided, costs, chosen, kept } = *found;
    let matrix = &costs.matrix;
    let percent = |share: f64| if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { "fails".to_owned() };
    let mut text = String::from("Each workload by itself\n");
    for (load, evidence) in loads.iter().zip(decided) {
        // Writing to a String cannot fail.
        let changed = in_short(names, default, &evidence.chosen.config);
        let _ = writeln!(text, "  {}: {changed}\n    {}", load.name, evidence.verdict);
    }
    text += "\nWhat each set costs beyond the best one, by workload\n";
    let head = ["set".to_owned()].into_iter().chain(matrix.workloads.iter().cloned());
    let mut rows: Vec<Vec<String>> = vec![head.collect()];
    for (set, config) in matrix.sets.iter().enumerate() {
        let regrets = matrix.regrets(set)?.into_iter().map(percent);
        rows.push([format!("{set}: {}", in_short(names, default, config))].into_iter().chain(regrets).collect());
    }
    let best: Vec<String> = (0..loads.len())
        .map(|workload| matrix.best(workload).map(|(_, time)| format!("{time:.2} ms")))
        .collect::<Result<_, _>>()?;
    rows.push(["best".to_owned()].into_iter().chain(best).collect());
    for line in table(&rows).lines() {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(
        text,
        "  (standard error of an entry: {:.2} %, in the median; what differs from set 0 by less than {:.2} % counts as equal \
         to it below)",
        100.0 * costs.error,
        200.0 * std::f64::consts::SQRT_2 * costs.error
    );
    for (set, workload, failure) in &costs.failures {
        let _ = writeln!(text, "  set {set} fails on {}: {}", matrix.workloads[*workload], failure.message);
    }
    let _ = writeln!(
        text,
        "\nOne for all           by weighted mean set {} ({} in the mean), by worst regret set {} ({} at worst)",
        chosen.mean.0,
        percent(chosen.mean.1),
        chosen.worst.0,
        percent(chosen.worst.1)
    );
    let pairs = matrix.workloads.iter().zip(&chosen.of_workload).map(|(name, set)| format!("{name} set {set}"));
    let _ = writeln!(text, "One for each          {}", pairs.collect::<Vec<_>>().join(", "));
    if let Some(kept) = kept {
        let _ = writeln!(text, "Kept for all          {kept}");
    }
    Ok(text)
}
