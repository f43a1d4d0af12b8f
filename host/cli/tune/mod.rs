//! `ut-decode tune`: find good launch parameters, and keep them.

mod target;
mod watcher;

use std::path::PathBuf;
use std::time::Duration;

use crate::decoder::Pipeline;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use tuner::Config;
use tuner::budget::Budget;
use tuner::cli::ProgramArgs;
use tuner::report::explain::explain;
use tuner::report::words::in_words;
use tuner::report::{Evaluation, Report};
use tuner::session::Session;
use tuner::store::contents::RunRecord;
use tuner::store::{Evidence, Layers, Locations, Observation, Seeds, Store, Task};
use tuner::strategy::StrategyKind;
use tuner::tune;

use crate::cli::args::{one_of, seconds};
use crate::cli::output::{print_beside, say, write_json};
use crate::cli::store::StoreArgs;
use crate::cli::trial::SampleArgs;
use crate::cli::{Failure, usage};
use target::Target;
use watcher::Watcher;

pub use target::{DeviceSpec, cut_short, measure};

/// Find good launch parameters and keep them, where `decode` and `throughput` find them by themselves.
///
/// Every measurement is kept as soon as it is complete: killed at any moment, the same command goes on where it was.
/// The winner of the search is measured again beside the default, and replaces it only if it is faster again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to tune: cpu (the CPU decoder, here and now), cuda (the kernels, on the first NVIDIA GPU), emulated (the
    /// kernels run on the CPU: for trying out), replay:FILE (a recorded space: Kernel Tuner cache, T4, compact CSV,
    /// store or its export; FILE#RUN for one run of a store), or synthetic:SPEC (like
    /// synthetic:seed=7,noise=0.02,fail=0.1).
    #[arg(long, visible_alias = "backend", value_name = "DEVICE", default_value = "cpu", conflicts_with = "command")]
    device: DeviceSpec,
    /// Which kernels of cuda and emulated [default: allen]: fused, one launch, or allen, seven launches.
    #[arg(long, value_name = "NAME", value_parser = one_of!(Pipeline::ALL, Pipeline::name))]
    pipeline: Option<Pipeline>,
    /// How to search; by default exhaustive for small spaces, else bayesian.
    #[arg(long, value_parser = one_of!(StrategyKind::ALL, StrategyKind::name))]
    strategy: Option<StrategyKind>,
    /// When to stop: evaluations=N, launches=N, time=SECONDS, no-gain=N (evaluations without a better one), gain=X
    /// (less than this share expected from searching on); a,b is whichever comes first, a+b both; a number alone is
    /// evaluations.
    #[arg(long, value_name = "BUDGET")]
    budget: Option<Budget>,
    /// Seed of all that is random: the same seed and the same times give the same proposals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Launches of each configuration while searching.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    launches: u16,
    /// How many of the best of the search are measured against the default; 0: the search alone decides.
    #[arg(long, value_name = "N", default_value_t = 3)]
    finalists: u16,
    /// Do not begin with what was best on the nearest other device (or driver, or version of this program).
    #[arg(long)]
    no_seeds: bool,
    /// Start from the beginning even if an unfinished run could be continued.
    #[arg(long)]
    fresh: bool,
    /// A configuration is given up when measuring it takes longer than this (seconds). Everything is measured in a
    /// process of its own, which is then killed and started again.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    time_out: f64,
    /// Write the decision as JSON here; - is standard output.
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Write what was measured and decided as run-N.html (one self-contained page), run-N.csv and run-N.json into this
    /// folder, which is made if need be.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    sample: SampleArgs,
}

impl Args {
    fn time_out(&self) -> Duration {
        let time_out = seconds(self.time_out).unwrap_or_else(|error| usage(&format!("--time-out {error}")));
        if time_out.is_zero() {
            usage("--time-out must be above 0: nothing can be measured in no time");
        }
        time_out
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let kernels = matches!(args.device, DeviceSpec::Decoder(backend) if backend.runs_kernels());
    if args.pipeline.is_some() && !kernels {
        usage("--pipeline chooses between kernels, for --device cuda and emulated");
    }
    let target = Target::of(args)?;
    let device = &mut *target.process(args)?;
    let budget = match &args.budget {
        Some(budget) => budget.clone(),
        None => target.budget.parse()?,
    };
    let kind = StrategyKind::default_for(target.space.len(), budget.most_evaluations());
    let task =
        Task { device: &target.device, tunable: &target.tunable, workload: &target.workload, space: &target.space };
    let locations = args.store.locations(None)?;
    let mut store = Store::open(&locations.user)?;
    let seeds = if args.no_seeds { Vec::new() } else { seeds(&task, locations, args.fresh)? };
    let session = Session {
        launches: usize::from(args.launches),
        finalists: usize::from(args.finalists),
        default: target.default.clone(),
        seeds,
        fresh: args.fresh,
        ..Session::new(task, args.strategy.unwrap_or(kind), args.seed, budget)
    };
    say(&format!(
        "{} for {} on {}: {} configurations, {}, until {}",
        target.tunable,
        target.workload,
        target.device,
        target.space.len(),
        session.strategy,
        session.budget
    ));
    let parameters: Vec<_> = target
        .space
        .parameters()
        .iter()
        .map(|parameter| (parameter.name().to_owned(), parameter.values().to_vec()))
        .collect();
    let mut watcher = Watcher::new(target.objective);
    let tuning = tune(&session, device, &mut store, &mut |step| {
        watcher.step(step, |config| in_words(&parameters, config));
        true
    })?;
    drop(watcher);
    let record = store.run_record(tuning.run)?;
    if let Some(path) = &args.json {
        write_json(
            path,
            &json!({
                "run": tuning.run,
                "resumed": tuning.resumed,
                "store": store.file(),
                "parameters": target.space.names(),
                "decision": tuning.evidence,
            }),
        )?;
    }
    if let Some(directory) = &args.report {
        let observations = store.observations(tuning.run)?;
        let name = format!("run-{}", tuning.run);
        let [page, ..] = report(&record, &target, &tuning.evidence, observations)
            .write(directory, &name)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        say(&format!("report: {}", page.display()));
    }
    print_beside(args.json.as_deref(), &explain(&record))?;
    Ok(())
}

/// What was good on a sibling of the device, said where there is something.
fn seeds(task: &Task<'_>, locations: Locations, fresh: bool) -> Result<Vec<Config>, Failure> {
    let Some(Seeds { configs, sibling }) = Layers::open(locations)?.seeds(task, fresh)? else {
        return Ok(Vec::new());
    };
    say(&format!("beginning with the {} best of {}: {}", configs.len(), sibling.device, sibling.in_words()));
    Ok(configs)
}

/// The report of a run, from what the store keeps of it alone: a run that was continued is reported as if it had not
/// been interrupted.
fn report(record: &RunRecord, target: &Target, evidence: &Evidence, observations: Vec<Observation>) -> Report {
    let parameters = record.space.parameters.clone();
    let chosen = in_words(&parameters, &evidence.chosen.config);
    let facts = [
        ("workload", target.workload.to_string()),
        ("strategy", record.plan.strategy.clone()),
        ("seed", record.plan.seed.to_string()),
        ("budget", record.plan.budget.clone()),
        ("ended because", evidence.stopped.clone()),
        ("chosen", format!("{chosen}: {}", target.objective.words(evidence.chosen.time_ms))),
        ("verdict", evidence.verdict.clone()),
    ];
    Report {
        title: target.tunable.to_string(),
        device: target.device.to_string(),
        facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        parameters,
        default: target.default.clone(),
        evaluations: observations
            .into_iter()
            .map(|Observation { config, outcome, .. }| Evaluation { config, outcome })
            .collect(),
        searched: Some(evidence.tried),
        decisions: evidence.details.as_ref().map(|details| details.decisions.clone()).unwrap_or_default(),
        objective: target.objective,
    }
}
