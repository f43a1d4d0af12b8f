//! Searches for good parameters of one thing, and keeps them: `run`, and what a decoder's
//! `tune run` shares with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use tuner::budget::Budget;
use tuner::objective::Objective;
use tuner::session::{Session, Tuning};
use tuner::store::{DeviceIdentity, Store, Task, TunableIdentity, Workload};
use tuner::strategy::StrategyKind;
use tuner::watch::Watch;
use tuner::{Config, Device, Space, tune_watched};

use crate::output::say;
use crate::report::Report;
use crate::report::explain::explain;
use crate::watcher::Watcher;
use crate::{Failure, Host, WatchArgs, signals};

/// Search, its end, and its results.
#[derive(Clone, Debug, clap::Args)]
pub struct SessionArgs {
    /// Strategy of the search [default: exhaustive for small spaces, else bayesian].
    #[arg(long, value_parser = strategy())]
    pub strategy: Option<StrategyKind>,
    /// End of the search: evaluations=N (or N), launches=N, time=SECONDS (or 90s, 10min, 1h), or
    /// several of them, joined by a comma: whichever comes first.
    #[arg(long, value_name = "BUDGET")]
    pub budget: Option<Budget>,
    /// Seed of all random choices: the same seed and the same times give the same proposals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Launches of each configuration in the search.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub launches: u16,
    /// Number of the search's best configurations that are measured against the default; 0: the
    /// search alone decides.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub finalists: u16,
    /// Do not start from the best configurations of the closest match (another device, driver or
    /// version of this program).
    #[arg(long)]
    pub no_seeds: bool,
    /// Begin a run even if an unfinished one could be continued.
    #[arg(long)]
    pub fresh: bool,
    /// Time limit of a configuration's measurement in seconds. What measures is then killed and
    /// replaced.
    #[arg(long, value_name = "S", default_value = "10", value_parser = time_out)]
    pub timeout: Duration,
    /// Write the decision as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write measurements and decision as run-N.html (one self-contained page) and run-N.json into
    /// this folder, which is made if missing.
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Load of the machine.
    #[command(flatten)]
    pub watch: WatchArgs,
}

fn strategy() -> impl TypedValueParser<Value = StrategyKind> {
    PossibleValuesParser::new(StrategyKind::ALL.map(StrategyKind::name))
        .try_map(|text: String| text.parse::<StrategyKind>())
}

/// Reads a time limit in seconds, above 0.
pub(crate) fn time_out(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a number of seconds above 0");
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| *seconds > 0.0)
        .ok_or_else(wrong)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Program, decoder or recording to be tuned, with its identity in a store.
pub struct Target {
    /// Device that measures.
    pub device: DeviceIdentity,
    /// Program or kernel.
    pub tunable: TunableIdentity,
    /// Key of the results.
    pub workload: Workload,
    /// Its configurations.
    pub space: Space,
    /// Configuration that stays unless another is shown to be better.
    pub default: Option<Config>,
    /// Measured sample, where the workload does not name it.
    pub sample: String,
    /// Budget if none is given.
    pub budget: &'static str,
    /// Meaning of the numbers.
    pub objective: Objective,
}

/// Tunes `target` on `device`, keeps the result in `store`, and explains it.
pub fn tune_target(
    host: &Host,
    args: &SessionArgs,
    target: &Target,
    device: &mut dyn Device,
    store: &mut Store,
    watch: &mut dyn Watch,
) -> Result<(), Failure> {
    let tuning = search(args, target, device, store, watch)?;
    let record = store.run_record(tuning.run)?;
    if let Some(path) = &args.json {
        let value = json!({
            "run": tuning.run,
            "resumed": tuning.resumed,
            "store": store.file().display().to_string(),
            "parameters": target.space.names(),
            "decision": tuning.evidence,
        });
        (host.write_json)(path, &value)?;
    }
    if let Some(directory) = &args.report {
        let report = Report::of(&record, target.default.clone());
        let written = report.write(directory, &format!("run-{}", tuning.run));
        let [page, ..] = written.map_err(|error| format!("{}: {error}", directory.display()))?;
        say(&format!("report: {}", page.display()));
    }
    host.print_beside(args.json.as_deref(), &explain(&record))
}

/// Tunes, and shows the progress.
pub fn search(
    args: &SessionArgs,
    target: &Target,
    device: &mut dyn Device,
    store: &mut Store,
    watch: &mut dyn Watch,
) -> Result<Tuning, Failure> {
    let budget = match &args.budget {
        Some(budget) => budget.clone(),
        None => target.budget.parse()?,
    };
    let kind = StrategyKind::default_for(target.space.len(), budget.most_evaluations());
    let task = Task {
        device: &target.device,
        tunable: &target.tunable,
        workload: &target.workload,
        space: &target.space,
    };
    let session = Session {
        launches: usize::from(args.launches),
        finalists: usize::from(args.finalists),
        default: target.default.clone(),
        sample: target.sample.clone(),
        seeds: if args.no_seeds {
            Vec::new()
        } else {
            seeds(store, &task)?
        },
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
    target
        .space
        .report()
        .warnings()
        .for_each(|warning| say(&format!("warning: {warning}")));
    let mut watcher = Watcher::new(target.objective);
    signals::keeps("every finished measurement is kept; the same command goes on from here");
    let tuned = tune_watched(&session, device, store, watch, &mut |step| {
        watcher.step(step, |config| target.space.named(config).to_string());
        true
    });
    Ok(tuned?)
}

/// Returns the chosen configuration and the runner-up of the closest match: another device, driver
/// or version of this program.
fn seeds(store: &Store, task: &Task<'_>) -> Result<Vec<Config>, Failure> {
    // An exact match is not a seed: the search has to find it again.
    let nearest = store.find(task)?.into_iter().find(|found| found.step() > 0);
    let Some(nearest) = nearest else {
        return Ok(Vec::new());
    };
    say(&format!(
        "beginning with the best of {}: {}",
        nearest.device,
        nearest.in_words()
    ));
    let runner_up = nearest.evidence.runner_up.map(|contender| contender.config);
    Ok([nearest.config].into_iter().chain(runner_up).collect())
}

/// Checks that no output is an input, before anything is measured: neither the file of `json`, nor
/// the files that `report` may write into its folder, whose number is not known yet.
pub fn check_outputs(
    json: Option<&Path>,
    report: Option<&Path>,
    inputs: &[&Path],
) -> Result<(), Failure> {
    let real = |path: &Path| path.canonicalize().ok();
    let inputs: Vec<PathBuf> = inputs.iter().filter_map(|path| real(path)).collect();
    let folder = report.and_then(real);
    let in_report = |input: &&PathBuf| folder.is_some() && input.parent() == folder.as_deref();
    let is_run = |input: &&PathBuf| {
        input
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"run-"))
    };
    let json = json.and_then(real);
    let meets = inputs
        .iter()
        .find(|input| json.as_ref() == Some(input) || (in_report(input) && is_run(input)));
    meets.map_or(Ok(()), |input| {
        Err(format!("{}: an output would overwrite this input", input.display()).into())
    })
}
