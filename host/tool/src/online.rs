//! `ut-decode throughput --tune online`: the on-line tuner at work.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tuner::compare::{Comparison, Plan, compare};
use tuner::online::{ByWorkload, Driven, OnlineError, Options, Piece, Recalled, Tuner, drive};
use tuner::store::{Locations, StoreMemory, Task};
use tuner::watch::Limits;
use tuner::workloads::Features;
use tuner::{Config, Space};
use ut_bench::decoding::DecodeDevice;
use ut_bench::environment::watch;
use ut_bench::tunable::Subject;
use ut_bench::{Machine, Varied, tunable};
use ut_data::DecodeOptions;
use ut_data::detector::DetectorTables;
use ut_data::input::EventBatch;
use ut_decoders::Backend;

use crate::output::{print_beside, say, write_json};
use crate::progress::Progress;
use crate::trial::evidence;
use crate::tuned::TunedArgs;
use crate::{Failure, usage};

/// Passes over a piece before the next one comes; there is one.
const STRETCH: u32 = 10;

/// Options of the on-line tuner.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On-line tuning")]
pub struct OnlineArgs {
    /// Let the on-line tuner choose the batch and the backend's parameters while decoding for the duration, then
    /// compare what it chose with the default. It starts from what was tuned before, and keeps what it finds. --batch
    /// is not used, and on the cpu backend the threads are those of one decoder.
    #[arg(long, value_name = "HOW", value_parser = ["online"], conflicts_with = "batches")]
    pub tune: Option<String>,
}

/// Events that are decoded, and how long.
pub struct Work<'t> {
    pub subject: Subject,
    pub tables: &'t DetectorTables,
    pub options: DecodeOptions,
    pub events: Vec<EventBatch>,
    /// The default, as text.
    pub default: String,
    pub source: String,
    pub duration: Duration,
}

/// Result of tuning.
struct Outcome {
    default: Config,
    configurations: usize,
    started: String,
    run: Driven,
    comparison: Option<Comparison>,
    kept: String,
}

/// Decodes with the on-line tuner, and judges what it chose. A store that cannot be read or written costs a warning.
pub fn run(args: &TunedArgs, work: &Work<'_>, json: Option<&Path>) -> Result<(), Failure> {
    let Subject { backend, pipeline, .. } = work.subject;
    let this = tunable::device(backend)?;
    let varied = Varied { others: tunable::base(work.subject), ..Varied::all(backend) };
    let default = varied.parse(&work.default).unwrap_or_else(|error| usage(&error.to_string()));
    let workload = args.tuned_for(work.tables, &work.options)?;
    let configs = Varied::all(backend).choices(pipeline, &default);
    let names: Vec<String> = varied.parameters.iter().map(|one| one.name.to_owned()).collect();
    let rows: Vec<_> = configs.iter().map(|config| config.0.clone()).collect();
    let (space, _) = Space::recorded(&names, &rows)?;
    let configurations = configs.len();
    let first = configs.iter().position(|config| *config == default).unwrap_or(0);
    let mut tuner = ByWorkload::from(Tuner::new(configs, first, Options::default())?);
    let tunable = tunable::tunable(work.subject);
    let locations = Locations::choose(crate::tune::store::APPLICATION, args.tune_db.clone(), None)?;
    let task = Task { device: &this, tunable: &tunable, workload: &workload, space: &space };
    let mut memory = StoreMemory::new(locations, task, default.clone());
    let started =
        if args.untuned { "the default, as asked".to_owned() } else { start(backend, &tuner.tuners()[0], &mut memory) };
    let mut device = DecodeDevice::new(work.tables, work.options, work.events.clone(), varied.clone());
    let mut progress = Progress::new(work.duration.as_millis() as u64, "tuning while decoding {wide_bar} {eta} left");
    let tick = |elapsed: Duration| progress.set(elapsed.as_millis() as u64);
    let mut pieces = [Piece { device: &mut device, looks: Features::default() }];
    let driven = drive(&mut tuner, &mut pieces, STRETCH, work.duration, tick);
    drop(progress);
    let mut driven = driven.map_err(|error| match error {
        OnlineError::Banned { config, failure } => format!("{}: {}", varied.name(&config), failure.message),
        other => other.to_string(),
    })?;
    let run = driven.of.remove(0);
    let comparison = if run.chosen == default {
        None
    } else {
        let watch = &mut *watch(backend, Limits::default());
        let found = compare(&mut device, &default, &run.chosen, &Plan::default(), watch);
        Some(found.map_err(|dropped| dropped.failure.message)?)
    };
    if let Some(comparison) = &comparison {
        memory.confirm(comparison.clone());
    }
    let kept = keep(&tuner.tuners()[0], &mut memory);
    let outcome = Outcome { default, configurations, started, run, comparison, kept };
    if let Some(path) = json {
        let Outcome { configurations, started, run, comparison, kept, .. } = &outcome;
        let value = json!({
            "configurations": configurations, "started_from": started, "online": run, "comparison": comparison,
            "kept": kept, "sample": work.source, "machine": Machine::this(),
        });
        write_json(path, &value)?;
    }
    print_beside(json, &format!("sample              {}\n{}", work.source, outcome.text(backend)))
}

impl Outcome {
    fn text(&self, backend: Backend) -> String {
        let Self { default, configurations, started, run, comparison, kept } = self;
        let counters = run.counters;
        let mut text = format!(
            "configurations      {configurations}\nstarted from        {started}\npasses              {}, of which {} \
             explored\n",
            counters.launches, counters.explored
        );
        // Writing to a String cannot fail.
        let _ = match (counters.first_tuning, run.complete) {
            (0, false) => writeln!(text, "converged           not yet: give it a longer --duration"),
            (0, true) => writeln!(text, "converged           before: nothing was to be tuned"),
            (launches, _) => writeln!(
                text,
                "converged           after {launches} passes; {} explored since, {} scans, {} for drift",
                counters.explored_after, counters.scans, counters.drifts
            ),
        };
        let name = |config| Varied::all(backend).name(config);
        let _ = writeln!(text, "default             {}\nchosen              {}", name(default), name(&run.chosen));
        if run.mean_ms > 0.0 {
            let _ = writeln!(text, "events/s            {:.0} in the mean, exploring included", 1e6 / run.mean_ms);
        }
        match comparison {
            None => text += "verdict             the default stays\n",
            Some(comparison) => {
                text += &evidence(&comparison.judgement);
                let _ = writeln!(text, "verdict             {} (A: default, B: chosen)", comparison.judgement.verdict);
            }
        }
        let _ = writeln!(text, "kept                {kept}");
        text
    }
}

/// Starts the tuner from its memory; returns in words what it started from.
fn start(backend: Backend, tuner: &Tuner, memory: &mut StoreMemory<'_>) -> String {
    let used = tuner.start_from(memory);
    let of = |config: &Config| {
        let origin = memory.found().map(|found| format!(", {}", found.in_words())).unwrap_or_default();
        format!("{}{origin}", Varied::all(backend).name(config))
    };
    match used {
        Ok(None) => "the default: nothing is known that fits".to_owned(),
        Ok(Some(Recalled::Exact(config))) => of(&config),
        Ok(Some(Recalled::Nearest { config, .. })) => format!("{}; it is checked first", of(&config)),
        Err(error) => {
            say(&format!("warning: {error}"));
            "the default: the store cannot be read".to_owned()
        }
    }
}

/// Reports to the memory; returns in words what was kept.
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
