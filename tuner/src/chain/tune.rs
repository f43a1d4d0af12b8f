//! Tunes a chain: its groups one by one, then the whole, for each workload; and one set for all
//! workloads.

use serde::{Deserialize, Serialize};

use super::cost::{Costs, Mix, measure};
use super::workloads::Matrix;
use super::{Chain, Group};
use crate::budget::Budget;
use crate::compare::{self, Comparison, compare};
use crate::session::{Progress, Session};
use crate::store::{
    DeviceIdentity, Evidence, Finding, Kept, Plan, Store, Task, TunableIdentity, Workload,
};
use crate::strategy::StrategyKind;
use crate::tune_watched;
use crate::verdict::{Side, Verdict};
use crate::watch::Watch;
use crate::{Config, Device, Error, Failure, Outcome, Space};

/// Number of launches of the defaults where nothing is compared with them, for their times.
const LAUNCHES: usize = 5;

/// Settings of the tuning of a chain.
pub struct Settings<'a> {
    /// Plan of the comparison of the whole chain, with the seed of all random choices.
    pub plan: compare::Plan,
    /// Budget of each group's search.
    pub budget: Budget,
    /// Number of rounds in which all sets are measured on all workloads.
    pub rounds: usize,
    /// Keeps the one set for all workloads if it is better than the default; see [`Matrix`].
    pub for_all: Option<ForAll>,
    /// Makes a watch over the machine.
    pub watch: &'a dyn Fn() -> Box<dyn Watch>,
}

/// Rule by which one set is chosen for all workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForAll {
    /// Smallest weighted mean of the costs beyond each workload's best.
    Mean,
    /// Smallest worst cost beyond a workload's best.
    Worst,
}

/// Chain for one workload, with its identity in a store.
pub struct Subject<'d> {
    /// Chain.
    pub chain: Chain<'d>,
    /// Name of the workload; empty without workloads.
    pub load: String,
    /// Weight of the workload.
    pub weight: f64,
    /// Device that measures.
    pub device: DeviceIdentity,
    /// Name of the chain.
    pub tunable: TunableIdentity,
    /// Workload under which the store keeps the result.
    pub workload: Workload,
    /// Measured sample, where the workload does not name it.
    pub sample: String,
    /// All configurations, if they can be listed.
    pub space: Option<Space>,
}

/// Search of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupTuning {
    /// Name of the group.
    pub group: String,
    /// Number of configurations.
    pub configurations: usize,
    /// Names of its parameters.
    pub parameters: Vec<String>,
    /// Number of the run in the store.
    pub run: i64,
    /// Decision of the search.
    pub decision: Evidence,
}

/// Result of a chain on one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainTuning {
    /// Chain and workload.
    pub what: String,
    /// Name of the workload; empty without workloads.
    pub load: String,
    /// Result of the search of each group.
    pub groups: Vec<GroupTuning>,
    /// Names of the chain's parameters.
    pub parameters: Vec<String>,
    /// Default.
    pub default: Config,
    /// Values that the groups chose.
    pub proposed: Config,
    /// Configuration to use: what was proposed if the whole chain is faster with it, else the
    /// default.
    pub chosen: Config,
    /// Comparison of the whole chain with the default (A) and as proposed (B); `None` if both are
    /// equal.
    pub comparison: Option<Comparison>,
    /// Failure of the chain as proposed.
    pub failure: Option<Failure>,
    /// Median times in ms of kernels and concurrent steps in the whole chain: with the default, and
    /// as proposed.
    pub times: Vec<(String, Option<f64>, Option<f64>)>,
    /// Verdict that the store keeps, and the number of its run.
    pub kept: Option<(i64, String)>,
}

/// Searches one group; also returns false if the search could not tell.
fn tune_group(
    subject: &mut Subject<'_>,
    group: &Group,
    space: &Space,
    store: &mut Store,
    settings: &Settings<'_>,
    tell: &mut dyn FnMut(&Progress<'_>, &Space) -> bool,
) -> Result<(GroupTuning, bool), Error> {
    let all = subject.chain.default().clone();
    let part = TunableIdentity {
        name: format!("{}: {}", subject.tunable.name, group.name),
        ..subject.tunable.clone()
    };
    let task = Task {
        device: &subject.device,
        tunable: &part,
        workload: &subject.workload,
        space,
    };
    let strategy = StrategyKind::default_for(space.len(), settings.budget.most_evaluations());
    let mut session = Session {
        default: Some(subject.chain.of_group(&all, group)),
        sample: subject.sample.clone(),
        ..Session::new(task, strategy, settings.plan.seed, settings.budget.clone())
    };
    session.rounds.rules.method = settings.plan.rules.method;
    let mut device = subject.chain.part(group, all);
    let mut tell = |step: &Progress<'_>| tell(step, space);
    let tuning = tune_watched(
        &session,
        &mut device,
        store,
        &mut *(settings.watch)(),
        &mut tell,
    );
    let tuning = tuning.map_err(|error| Error::from(error).of(&group.name))?;
    let found = GroupTuning {
        group: group.name.clone(),
        configurations: space.len(),
        parameters: space.names(),
        run: tuning.run,
        decision: tuning.evidence,
    };
    Ok((found, tuning.decided))
}

fn defaults_fail(failure: &Failure) -> Error {
    Error::device(format!(
        "the chain fails with its defaults: {}",
        failure.message
    ))
}

/// Tunes the groups of a chain, judges the whole, and keeps the result. `tell` is called with the
/// name and the space of a group when it begins, and its progress, and ends the tuning by returning
/// false.
///
/// # Errors
/// If a group has too many configurations, the chain fails with its defaults, or the store cannot
/// be written.
pub fn tune_chain(
    subject: &mut Subject<'_>,
    store: &mut Store,
    settings: &Settings<'_>,
    tell: &mut dyn FnMut(&str, Option<&Progress<'_>>, &Space) -> bool,
) -> Result<ChainTuning, Error> {
    let default = subject.chain.default().clone();
    let mut spaces = Vec::new();
    for group in subject.chain.groups().to_vec() {
        let space = subject.chain.space_of(&group)?;
        spaces.extend((space.len() > 1).then_some((group, space)));
    }
    let (mut groups, mut proposed, mut all_decided) = (Vec::new(), default.clone(), true);
    for (group, space) in &spaces {
        tell(&group.name, None, space);
        let mut hear = |step: &Progress<'_>, space: &Space| tell(&group.name, Some(step), space);
        let (found, decided) = tune_group(subject, group, space, store, settings, &mut hear)?;
        all_decided &= decided;
        let put = subject
            .chain
            .put(&proposed, group, &found.decision.chosen.config);
        proposed = put.ok_or_else(|| {
            Error::request(format!(
                "group {}: another space was tuned before",
                group.name
            ))
        })?;
        groups.push(found);
    }
    let mut finding = finding(settings, "groups", &default, &proposed);
    if proposed == default {
        "every group kept its default".clone_into(&mut finding.stopped);
        match subject.chain.whole().measure(&default, LAUNCHES) {
            Outcome::Times(times) => finding.samples.push((default.clone(), times)),
            Outcome::Failed(failure) => return Err(defaults_fail(&failure)),
        }
    } else {
        let watch = &mut *(settings.watch)();
        let mut whole = subject.chain.whole();
        match compare(&mut whole, &default, &proposed, &settings.plan, watch) {
            Ok(found) => finding.comparison = Some(found),
            Err(dropped) if dropped.side == 0 => return Err(defaults_fail(&dropped.failure)),
            // The chain fails as proposed: the defaults stay.
            Err(dropped) => finding.failed.push((proposed.clone(), dropped.failure)),
        }
    }
    let comparison = finding.comparison.clone();
    let better = |found: &Comparison| found.judgement.verdict == Verdict::Better(Side::B);
    let chosen = if comparison.as_ref().is_some_and(better) {
        proposed.clone()
    } else {
        default.clone()
    };
    // If a search could not tell, the default was not shown to be best.
    let tells = all_decided || comparison.is_some();
    let kept = if tells {
        keep(subject, store, &subject.workload, &mut finding)?
    } else {
        None
    };
    let [of_default, of_proposed] =
        [&default, &proposed].map(|config| subject.chain.times_of(config));
    let names = if of_default.is_empty() {
        &of_proposed
    } else {
        &of_default
    };
    let time = |times: &[(String, f64)], at: usize| times.get(at).map(|(_, time)| *time);
    let row = |(at, (name, _)): (usize, &(String, f64))| {
        (name.clone(), time(&of_default, at), time(&of_proposed, at))
    };
    Ok(ChainTuning {
        what: format!("{} for {}", subject.tunable, subject.workload),
        load: subject.load.clone(),
        groups,
        parameters: subject.chain.names().to_vec(),
        times: names.iter().enumerate().map(row).collect(),
        default,
        proposed,
        chosen,
        comparison,
        failure: finding.failed.pop().map(|(_, failure)| failure),
        kept: kept.map(|kept| (kept.run, kept.verdict)),
    })
}

/// Makes a finding about a whole chain, for which nothing was measured yet.
fn finding(settings: &Settings<'_>, strategy: &str, default: &Config, set: &Config) -> Finding {
    Finding {
        plan: Plan {
            strategy: strategy.to_owned(),
            seed: settings.plan.seed,
            budget: settings.budget.to_string(),
            ..Plan::default()
        },
        default: default.clone(),
        proposed: set.clone(),
        samples: Vec::new(),
        failed: Vec::new(),
        launches: 0,
        comparison: None,
        stopped: "it was compared with the default".to_owned(),
    }
}

/// Keeps a finding about the whole chain, and counts its launches.
fn keep(
    subject: &Subject<'_>,
    store: &mut Store,
    workload: &Workload,
    finding: &mut Finding,
) -> Result<Option<Kept>, Error> {
    let compared = finding.comparison.iter().map(|found| &found.judgement);
    finding.launches = compared.map(|it| it.kept + it.discarded).sum::<usize>()
        + finding
            .samples
            .iter()
            .map(|(_, times)| times.len())
            .sum::<usize>()
        + finding.failed.len();
    let names = subject.chain.names();
    // Without the product of all spaces, the space has the two configurations that were compared.
    let mut rows = vec![finding.default.0.clone(), finding.proposed.0.clone()];
    rows.dedup();
    let space = match &subject.space {
        Some(space) => space.clone(),
        None => Space::recorded(names, &rows)?.0,
    };
    let task = Task {
        device: &subject.device,
        tunable: &subject.tunable,
        workload,
        space: &space,
    };
    Ok(store.keep(&task, finding)?)
}

/// Costs of the sets on all workloads, and what follows from them. Times that cannot be
/// distinguished from the default's count as equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllTuning {
    /// Times of the sets, of which the first is the default.
    pub matrix: Matrix,
    /// Relative standard error of a time; the median over all.
    pub error: f64,
    /// Set, workload and failure of each missing time.
    pub failures: Vec<(usize, usize, Failure)>,
    /// Weights of the workloads.
    pub weights: Vec<f64>,
    /// Set with the smallest weighted mean of the costs beyond the best, and that mean.
    pub mean: (usize, f64),
    /// Set with the smallest worst cost beyond the best, and that cost.
    pub worst: (usize, f64),
    /// Set for each workload.
    pub of_workload: Vec<usize>,
    /// Decision that the store keeps for all workloads, if it was asked for.
    pub kept: Option<String>,
}

/// Measures the default and the sets that each workload's tuning proposed on all workloads, and
/// chooses one for each and one for all. `any` is the key of the set for all. `tick` gets the
/// number of finished rounds.
///
/// # Errors
/// If the chains have other parameters or defaults, no set runs everywhere, or the store cannot be
/// written.
pub fn tune_for_all(
    subjects: &mut [Subject<'_>],
    tunings: &[ChainTuning],
    any: &Workload,
    store: &mut Store,
    settings: &Settings<'_>,
    tick: impl FnMut(usize),
) -> Result<AllTuning, Error> {
    let default = tunings
        .first()
        .map(|tuning| tuning.default.clone())
        .ok_or_else(|| Error::request("there is no workload"))?;
    if tunings.iter().any(|tuning| tuning.default != default) {
        let why =
            "the defaults differ by workload: one set for all cannot be compared with one default";
        return Err(Error::request(why));
    }
    let mut sets = vec![default.clone()];
    for set in tunings
        .iter()
        .flat_map(|tuning| [&tuning.chosen, &tuning.proposed])
    {
        sets.extend((!sets.contains(set)).then(|| set.clone()));
    }
    let weights: Vec<f64> = subjects.iter().map(|subject| subject.weight).collect();
    let names: Vec<String> = subjects
        .iter()
        .map(|subject| subject.load.clone())
        .collect();
    let mut wholes: Vec<_> = subjects
        .iter_mut()
        .map(|subject| subject.chain.whole())
        .collect();
    let mut parts: Vec<(String, &mut dyn Device)> = Vec::new();
    for (name, whole) in names.into_iter().zip(&mut wholes) {
        parts.push((name, whole));
    }
    let costs = measure(
        &mut parts,
        &sets,
        settings.rounds,
        settings.plan.seed,
        &mut *(settings.watch)(),
        tick,
    )?;
    let shown = costs.shown();
    let (mean, worst, of_workload) = (
        shown.by_mean(&weights)?,
        shown.by_worst()?,
        shown.of_workload()?,
    );
    let set = match settings.for_all {
        None => None,
        Some(ForAll::Mean) => Some(mean.0),
        Some(ForAll::Worst) => Some(worst.0),
    };
    let mut kept = None;
    if let Some(set) = set {
        let units: Vec<f64> = costs.matrix.times[0]
            .iter()
            .map(|time| time.unwrap_or(1.0))
            .collect();
        let mut mix = Mix::new(&mut parts, &weights, &units);
        let compared = if set == 0 {
            None
        } else {
            let found = compare(
                &mut mix,
                &default,
                &sets[set],
                &settings.plan,
                &mut *(settings.watch)(),
            );
            Some(found.map_err(|dropped| Error::device(dropped.failure.message))?)
        };
        drop(parts);
        drop(wholes);
        let mut finding = finding(settings, "one for all workloads", &default, &sets[set]);
        finding.comparison = compared;
        kept = Some(if set == 0 {
            "nothing: the default is the best one for all".to_owned()
        } else {
            keep(&subjects[0], store, any, &mut finding)?.map_or_else(
                || "nothing".to_owned(),
                |kept| format!("run {}: {}", kept.run, kept.verdict),
            )
        });
    }
    let Costs {
        matrix,
        error,
        failures,
    } = costs;
    Ok(AllTuning {
        matrix,
        error,
        failures,
        weights,
        mean,
        worst,
        of_workload,
        kept,
    })
}
