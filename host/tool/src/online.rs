//! `ut-decode throughput --tune online`: the on-line tuner at work.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use tuner::compare::{Plan, compare};
use tuner::online::{Elapsed, Options, Tuner};
use tuner::store::{Finding, Found, Locations, Store, StoreError, Task};
use tuner::watch::Limits;
use tuner::{Config, Device, Outcome, Space};
use ut_bench::decoding::DecodeDevice;
use ut_bench::environment::watch;
use ut_bench::tunable::Subject;
use ut_bench::{Machine, Varied, tunable};
use ut_data::DecodeOptions;
use ut_data::detector::DetectorTables;
use ut_data::input::EventBatch;

use crate::output::{print_beside, say, write_json};
use crate::paths::APPLICATION;
use crate::progress::Progress;
use crate::trial::evidence;
use crate::tuned::TunedArgs;
use crate::{Failure, usage};

/// Time that another process' lock is waited for: real work has been done and must not wait long to
/// end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Options of the on-line tuner.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On-line tuning")]
pub struct OnlineArgs {
    /// Let the on-line tuner choose the batch and the backend's parameters while decoding for the
    /// duration, then compare what it chose with the default. It starts from what was tuned before,
    /// and keeps what it finds. --batch is not used.
    #[arg(long, value_name = "HOW", value_parser = ["online"], conflicts_with = "batches")]
    pub tune: Option<String>,
}

pub struct Work<'t> {
    pub subject: Subject,
    pub tables: &'t DetectorTables,
    pub options: DecodeOptions,
    pub events: Vec<EventBatch>,
    pub default: String,
    pub source: String,
    pub duration: Duration,
}

/// Decodes with the on-line tuner, and judges what it chose. A store that cannot be read or written
/// costs a warning.
pub fn run(tuned: &TunedArgs, work: Work<'_>, json: Option<&Path>) -> Result<(), Failure> {
    let Subject { backend, pipeline } = work.subject;
    let this = tunable::device(backend)?;
    let varied = Varied {
        others: tunable::base(work.subject),
        ..Varied::all(backend)
    };
    let default = varied
        .parse(&work.default)
        .unwrap_or_else(|error| usage(&error.to_string()));
    let configs = Varied::all(backend).choices(pipeline, &default);
    let names: Vec<String> = varied
        .parameters
        .iter()
        .map(|one| one.name.to_owned())
        .collect();
    let rows: Vec<_> = configs.iter().map(|config| config.0.clone()).collect();
    let (space, _) = Space::recorded(&names, &rows)?;
    let (thing, workload) = (
        tunable::tunable(work.subject),
        tuned.tuned_for(work.tables, &work.options)?,
    );
    let task = Task {
        device: &this,
        tunable: &thing,
        workload: &workload,
        space: &space,
    };
    let locations = Locations::choose(APPLICATION)?;

    // The default is the first of the choices.
    let tuner = Tuner::new(configs.clone(), 0, Options::default())?;
    let started = if tuned.untuned {
        "the default, as asked".to_owned()
    } else {
        start(&tuner, locations.find(&task), |config| varied.name(config))
    };
    let mut device = DecodeDevice::new(work.tables, work.options, work.events, varied.clone());
    let mean_ms = drive(&tuner, &mut device, work.duration)
        .map_err(|failure| format!("{}: {}", varied.name(&default), failure.message))?;

    let chosen = tuner.best();
    let comparison = if chosen == default {
        None
    } else {
        let found = compare(
            &mut device,
            &default,
            &chosen,
            &Plan::default(),
            &mut *watch(backend, Limits::default()),
        );
        Some(found.map_err(|dropped| dropped.failure.message)?)
    };
    let kept = match tuner.report() {
        None => "nothing: tuning is not complete".to_owned(),
        Some(report) => {
            let finding = Finding::of_online(&report, &default, comparison.clone());
            keep(&locations, &task, &finding)
        }
    };

    let (counters, complete) = (tuner.counters(), tuner.is_complete());
    if let Some(path) = json {
        let online = json!({ "chosen": chosen, "complete": complete, "counters": counters, "mean_ms": mean_ms });
        let value = json!({
            "configurations": configs.len(), "started_from": started, "online": online, "comparison": comparison,
            "kept": kept, "sample": work.source, "machine": Machine::this(),
        });
        write_json(path, &value)?;
    }
    let mut text = format!(
        "sample              {}\nconfigurations      {}\nstarted from        {started}\n\
         passes              {}, of which {} explored; tuning is {}\n\
         default             {}\nchosen              {}\n\
         events/s            {:.0} on average, exploring included\n",
        work.source,
        configs.len(),
        counters.launches,
        counters.explored,
        if complete {
            "complete"
        } else {
            "not complete: give it a longer --duration"
        },
        varied.name(&default),
        varied.name(&chosen),
        1e6 / mean_ms
    );
    match comparison {
        None => text += "verdict             the default stays\n",
        Some(comparison) => {
            text += &evidence(&comparison.judgement);
            let _ = writeln!(
                text,
                "verdict             {} (A: default, B: chosen)",
                comparison.judgement.verdict
            );
        }
    }
    let _ = writeln!(text, "kept                {kept}");
    print_beside(json, &text)?;
    Ok(())
}

/// Keeps what was found, and says as what.
fn keep(locations: &Locations, task: &Task<'_>, finding: &Finding) -> String {
    let kept = Store::open_waiting(&locations.user, PATIENCE)
        .and_then(|mut store| store.keep(task, finding));
    match kept {
        Ok(Some(kept)) => format!("run {}: {}", kept.run, kept.verdict),
        Ok(None) => "nothing: it is known already".to_owned(),
        Err(error) => {
            say(&format!("warning: {error}"));
            "nothing: the store cannot be written".to_owned()
        }
    }
}

/// Starts the tuner from stored values, and describes them.
fn start(
    tuner: &Tuner,
    found: Result<Vec<Found>, StoreError>,
    name: impl Fn(&Config) -> String,
) -> String {
    let found = match found {
        Ok(found) => found.into_iter().next(),
        Err(error) => {
            say(&format!("warning: {error}"));
            return "the default: the store cannot be read".to_owned();
        }
    };
    let Some(found) = found else {
        return "the default: nothing is known that fits".to_owned();
    };
    let words = format!("{}, {}", name(&found.config), found.in_words());
    let (used, words) = match found.step() {
        0 => (tuner.set(&found.config), words),
        _ => (
            tuner.prefer(&found.config),
            format!("{words}; it is checked first"),
        ),
    };
    used.map_or_else(|error| format!("the default: {error}"), |()| words)
}

/// Launches with the tuner's choices for `duration`, and at least once. Returns the mean time of a
/// launch in ms, or the failure of the default.
fn drive(
    tuner: &Tuner,
    device: &mut dyn Device,
    duration: Duration,
) -> Result<f64, tuner::Failure> {
    let mut progress = Progress::new(
        duration.as_millis() as u64,
        "tuning while decoding {wide_bar} {eta} left",
    );
    let mut worker = tuner.worker();
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.is_empty() || start.elapsed() < duration {
        let config = worker.begin().clone();
        match device.measure(&config, 1) {
            Outcome::Times(new) => {
                let time = new.first().copied().unwrap_or(f64::NAN);
                times.push(time);
                worker.end(Elapsed(time));
            }
            Outcome::Failed(failure) if config == *tuner.default_config() => {
                return Err(failure);
            }
            // Any other configuration that fails is only not used again.
            Outcome::Failed(failure) => worker.fail(failure),
        }
        progress.set(start.elapsed().as_millis() as u64);
    }
    worker.poll();
    Ok(times.iter().sum::<f64>() / times.len() as f64)
}
