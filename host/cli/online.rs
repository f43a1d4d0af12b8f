//! `ut-decode throughput --tune online`: the on-line tuner at work.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::bench::decoding::{self, DecodeDevice};
use crate::bench::environment::watch;
use crate::bench::tunable::Subject;
use crate::bench::{Machine, tunable};
use crate::decoder::Backend;
use serde_json::json;
use tuner::compare::{Plan, compare};
use tuner::online::{OnlineError, Options, Recalled, Tuner, drive};
use tuner::store::{Locations, StoreMemory, Task, Workload};
use tuner::watch::Limits;
use tuner::{Config, Space};

use crate::cli::Failure;
use crate::cli::output::{print_beside, say, write_json};
use crate::cli::progress::Progress;
use crate::cli::trial::evidence;
use crate::cli::tuned::TunedArgs;

/// Whether and how the on-line tuner works.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On-line tuning")]
pub struct OnlineArgs {
    /// Let the on-line tuner choose the batch and the backend's parameters while decoding for the duration, then
    /// compare what it chose with the default. It starts from what was tuned before, and keeps what it finds. --batch
    /// is not used, and on the cpu backend the threads are those of one decoder.
    #[arg(long, value_name = "HOW", value_parser = ["online"], conflicts_with = "batches")]
    pub tune: Option<String>,
}

/// What is decoded, and how long.
pub struct Work<'w, 't> {
    pub subject: Subject,
    pub device: DecodeDevice<'t>,
    pub workload: Workload,
    pub default: Config,
    pub source: &'w str,
    pub duration: Duration,
}

/// Decodes with the on-line tuner, and judges what it chose. A store that cannot be read or written costs a warning.
pub fn run(tuned: &TunedArgs, work: Work<'_, '_>, json: Option<&Path>) -> Result<(), Failure> {
    let Work { subject, mut device, workload, default, source, duration } = work;
    let backend = subject.backend;
    let configs = decoding::choices(backend, subject.pipeline, &default);
    let names: Vec<String> = decoding::parameters(backend).iter().map(|parameter| parameter.name.to_owned()).collect();
    let rows: Vec<_> = configs.iter().map(|config| config.0.clone()).collect();
    let (space, _) = Space::recorded(&names, &rows)?;
    let (this, tunable) = (tunable::device(backend)?, tunable::tunable(subject));
    let task = Task { device: &this, tunable: &tunable, workload: &workload, space: &space };
    let first = configs.iter().position(|config| *config == default).unwrap_or(0);
    let configurations = configs.len();
    let tuner = Tuner::new(configs, first, Options::default())?;
    let mut memory = StoreMemory::new(
        Locations::choose(crate::cli::tune::store::APPLICATION, tuned.tune_db.clone(), None)?,
        task,
        default.clone(),
    );
    let started = if tuned.untuned { "the default, as asked".to_owned() } else { start(backend, &tuner, &mut memory) };

    let mut progress = Progress::new(duration.as_millis() as u64, "tuning while decoding {wide_bar} {eta} left");
    let run = drive(&tuner, &mut device, duration, |elapsed| progress.set(elapsed.as_millis() as u64));
    drop(progress);
    let run = run.map_err(|error| match error {
        OnlineError::Banned { config, failure } => format!("{}: {}", decoding::name(backend, &config), failure.message),
        other => other.to_string(),
    })?;
    let comparison = if run.chosen == default {
        None
    } else {
        let found =
            compare(&mut device, &default, &run.chosen, &Plan::default(), &mut *watch(backend, Limits::default()));
        Some(found.map_err(|dropped| dropped.failure.message)?)
    };
    if let Some(comparison) = &comparison {
        memory.confirm(comparison.clone());
    }
    let kept = keep(&tuner, &mut memory);

    if let Some(path) = json {
        let value = json!({
            "sample": source, "configurations": configurations, "started_from": started, "online": run,
            "comparison": comparison, "kept": kept, "machine": Machine::this(),
        });
        write_json(path, &value)?;
    }
    let counters = run.counters;
    let mut text = format!(
        "sample              {source}\nconfigurations      {configurations}\nstarted from        {started}\n\
         passes              {}, of which {} explored\n",
        counters.launches, counters.explored
    );
    let _ = match (counters.first_tuning, run.complete) {
        (0, false) => writeln!(text, "converged           not yet: give it a longer --duration"),
        (0, true) => writeln!(text, "converged           before: nothing was to be tuned"),
        (launches, _) => writeln!(
            text,
            "converged           after {launches} passes; {} explored since, {} scans, {} for drift",
            counters.explored_after, counters.scans, counters.drifts
        ),
    };
    let _ = write!(
        text,
        "default             {}\nchosen              {}\nevents/s            {:.0} in the mean, exploring included\n",
        decoding::name(backend, &default),
        decoding::name(backend, &run.chosen),
        1e6 / run.mean_ms
    );
    match comparison {
        None => text += "verdict             the default stays\n",
        Some(comparison) => {
            text += &evidence(&comparison.judgement);
            let _ = writeln!(text, "verdict             {} (A: default, B: chosen)", comparison.judgement.verdict);
        }
    }
    let _ = writeln!(text, "kept                {kept}");
    print_beside(json, &text)?;
    Ok(())
}

/// Starts the tuner from its memory; what it started from, in words.
fn start(backend: Backend, tuner: &Tuner, memory: &mut StoreMemory<'_>) -> String {
    let used = tuner.start_from(memory);
    let of = |config: &Config| {
        let origin = memory.found().map(|found| format!(", {}", found.in_words())).unwrap_or_default();
        format!("{}{origin}", decoding::name(backend, config))
    };
    match used {
        Ok(None) => "the default: nothing is known that fits".to_owned(),
        Ok(Some(Recalled::Pinned(config))) => format!("{}; nothing else is tried", of(&config)),
        Ok(Some(Recalled::Exact(config))) => of(&config),
        Ok(Some(Recalled::Nearest { config, .. })) => format!("{}; it is checked first", of(&config)),
        Err(error) => {
            say(&format!("warning: {error}"));
            "the default: the store cannot be read".to_owned()
        }
    }
}

/// Reports to the memory; what was kept, in words.
fn keep(tuner: &Tuner, memory: &mut StoreMemory<'_>) -> String {
    match tuner.report_to(memory) {
        Ok(true) => match memory.kept() {
            Some(kept) => format!("run {}: {}", kept.run, kept.verdict),
            None => "nothing: it is known already".to_owned(),
        },
        Ok(false) => "nothing: tuning is not complete".to_owned(),
        Err(error) => {
            say(&format!("warning: {error}"));
            "nothing: the store cannot be written".to_owned()
        }
    }
}
