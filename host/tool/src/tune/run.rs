//! `ut-decode tune run`: find good launch parameters, and keep them.

use std::path::Path;

use serde_json::json;
use tuner::report::Report;
use tuner::report::explain::explain;
use tuner::session::Session;
use tuner::store::{Store, Task};
use tuner::strategy::StrategyKind;
use tuner::{Config, tune_watched};

use super::run_args::{Args, DeviceSpec};
use super::store::{open, open_to_measure};
use super::target::Target;
use super::watcher::Watcher;
use crate::output::{print_beside, say, write_json};
use crate::paths::Protected;
use crate::{Failure, signals, usage};

pub fn run(args: &Args) -> Result<(), Failure> {
    let kernels = matches!(args.backend, DeviceSpec::Decoder(backend) if backend.runs_kernels());
    if args.pipeline.is_some() && !kernels {
        usage("--pipeline chooses between kernels, for --backend cuda and emulated");
    }
    if let Some(directory) = &args.report {
        check_report(args, directory);
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
    let (mut store, _alone) = match args.backend {
        // A replay measures nothing.
        DeviceSpec::Replay(_) => (open()?, None),
        DeviceSpec::Decoder(_) => open_to_measure()?,
    };
    let session = Session {
        launches: usize::from(args.launches),
        finalists: usize::from(args.finalists),
        default: target.default.clone(),
        sample: target.sample.clone(),
        seeds: if args.no_seeds { Vec::new() } else { seeds(&store, &task)? },
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
    target.space.report().warnings().for_each(|warning| say(&format!("warning: {warning}")));
    let mut watcher = Watcher::new(target.objective);
    signals::keeps("every finished measurement is kept; the same command goes on from here");
    let mut watch = Target::watch(args);
    let tuning = tune_watched(&session, device, &mut store, &mut *watch, &mut |step| {
        watcher.step(step, |config| target.space.named(config).to_string());
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
                "store": store.file().display().to_string(),
                "parameters": target.space.names(),
                "decision": tuning.evidence,
            }),
        )?;
    }
    if let Some(directory) = &args.report {
        let report = Report::of(&record, target.default.clone());
        let written = report.write(directory, &format!("run-{}", tuning.run));
        let [page, ..] = written.map_err(|error| format!("{}: {error}", directory.display()))?;
        say(&format!("report: {}", page.display()));
    }
    print_beside(args.json.as_deref(), &explain(&record))?;
    Ok(())
}

/// Returns the chosen configuration and the runner-up of the closest match: another device, driver or version of this
/// program.
fn seeds(store: &Store, task: &Task<'_>) -> Result<Vec<Config>, Failure> {
    // An exact match is no seed: the search has to find it again.
    let nearest = store.find(task)?.into_iter().find(|found| found.step() > 0);
    let Some(nearest) = nearest else { return Ok(Vec::new()) };
    say(&format!("beginning with the best of {}: {}", nearest.device, nearest.in_words()));
    let runner_up = nearest.evidence.runner_up.map(|contender| contender.config);
    Ok([nearest.config].into_iter().chain(runner_up).collect())
}

/// Ends the program if the report could overwrite an input. The number of the run is not known yet, so no input may
/// have the name of any run's report.
fn check_report(args: &Args, directory: &Path) {
    let mut protected = Protected::inputs(&args.sample.files);
    let recording = if let DeviceSpec::Replay(file) = &args.backend { Some(file) } else { None };
    protected.add(args.program.space.iter().chain(recording), "which is named by another option");
    protected.add_unnamed();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b"run-") {
            protected.check(&entry.path()).unwrap_or_else(|message| usage(&format!("--report: {message}")));
        }
    }
}
