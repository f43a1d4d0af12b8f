//! What `workloads` says to a person.

use std::fmt::Write as _;

use tuner::Config;
use tuner::cost::Costs;
use tuner::store::Evidence;
use ut_bench::{HITS_PER_EVENT, MEAN_LANE_LENGTH};

use super::{Chosen, Load, RuleTrial};
use crate::Failure;
use crate::table::table;

/// All that was found.
pub struct Found<'a> {
    pub loads: &'a [Load],
    /// The names of the parameters.
    pub names: &'a [String],
    pub default: &'a Config,
    /// What each workload by itself decided.
    pub decided: &'a [Evidence],
    pub costs: &'a Costs,
    pub chosen: &'a Chosen,
    pub rule: Option<&'a RuleTrial>,
    /// What was kept for all workloads, if requested.
    pub kept: Option<&'a str>,
}

/// Returns what differs from the default, in words.
fn in_short(names: &[String], default: &Config, config: &Config) -> String {
    let parts = names.iter().zip(default.0.iter().zip(&config.0)).filter(|(_, (default, value))| default != value);
    let parts: Vec<String> = parts.map(|(name, (_, value))| format!("{name}={value}")).collect();
    if parts.is_empty() { "default".to_owned() } else { parts.join(" ") }
}

pub fn text(found: &Found<'_>) -> Result<String, Failure> {
    let Found { loads, names, default, decided, costs, chosen, rule, kept } = *found;
    let matrix = &costs.matrix;
    let percent = |share: f64| if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { "fails".to_owned() };
    let mut text = String::from("Each workload by itself\n");
    for (load, evidence) in loads.iter().zip(decided) {
        let look = load.features();
        let (mean_lane_length, hits_per_event) = (look.get(MEAN_LANE_LENGTH), look.get(HITS_PER_EVENT));
        let look = format!(" ({mean_lane_length:.2} strips a lane, {hits_per_event:.0} hits an event)");
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {}{}: {}\n    {}",
            load.name,
            if rule.is_some() { look } else { String::new() },
            in_short(names, default, &evidence.chosen.config),
            evidence.verdict
        );
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
    let of = if rule.is_some() { "best, for 1000 events" } else { "best" };
    rows.push([of.to_owned()].into_iter().chain(best).collect());
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
    let _ = writeln!(text, "Portfolio             {}", pairs.collect::<Vec<_>>().join(", "));
    if let (Some(rule), true) = (rule, chosen.portfolio.len() > 1) {
        let _ = writeln!(
            text,
            "Rule                  picks by strips a lane and hits an event of the batch before; on {} batches of all \
             workloads in turn\n                      {} had the set of their workload, with {} changes",
            rule.batches, rule.right, rule.changes
        );
    } else if rule.is_some() {
        text += "Rule                  none: one set does for all\n";
    }
    if let Some(kept) = kept {
        let _ = writeln!(text, "Kept for all          {kept}");
    }
    Ok(text)
}
