//! `ut-decode throughput --tune online`: the on-line tuner at work.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tuner::compare::{Comparison, Plan, compare};
use tuner::online::{ByWorkload, Driven, OnlineError, Options, Piece, Recalled, Tuner, drive};
use tuner::store::{Locations, StoreMemory, Task, Workload};
use tuner::watch::Limits;
use tuner::workloads::Features;
use tuner::{Config, Space};
use ut_bench::decoding::DecodeDevice;
use ut_bench::environment::watch;
use ut_bench::tunable::Subject;
use ut_bench::{Machine, Varied, looks, tunable};
use ut_data::DecodeOptions;
use ut_data::detector::DetectorTables;
use ut_data::input::EventBatch;
use ut_decoders::Backend;

use crate::output::{print_beside, say, write_json};
use crate::progress::Progress;
use crate::sets_file::SetsFile;
use crate::trial::evidence;
use crate::tuned::TunedArgs;
use crate::{Failure, usage};

/// Passes over the events of a file before those of the next one come.
const STRETCH: u32 = 10;

/// Events and batches that say what the events of a file look like.
const LOOK: (usize, usize) = (50, 12);

/// Whether and how the on-line tuner works.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On-line tuning")]
pub struct OnlineArgs {
    /// Let the on-line tuner choose the batch and the backend's parameters while decoding for the duration, then
    /// compare what it chose with the default. It starts from what was tuned before, and keeps what it finds. --batch
    /// is not used, and on the cpu backend the threads are those of one decoder.
    #[arg(long, value_name = "HOW", value_parser = ["online"], conflicts_with = "batches")]
    pub tune: Option<String>,
    /// Tune each workload of this file (of `tune workloads --json`) by itself, starting from its set, while the events of
    /// several FILEs take turns: each goes to the tuner of the workload it looks like. Threads and layout are those of the
    /// sets.
    #[arg(long, value_name = "FILE", requires = "tune", conflicts_with = "workload")]
    pub sets: Option<PathBuf>,
}

/// What is decoded, and how long.
pub struct Work<'t> {
    pub subject: Subject,
    pub tables: &'t DetectorTables,
    pub options: DecodeOptions,
    /// The events, file by file where the tuner is to notice a change.
    pub pieces: Vec<Vec<EventBatch>>,
    /// The default, as text.
    pub default: String,
    pub source: String,
    pub duration: Duration,
}

/// A workload that is tuned for.
struct Target {
    /// Empty where there is one for everything.
    name: String,
    workload: Workload,
    default: Config,
    configs: Vec<Config>,
    space: Space,
}

impl Target {
    fn new(name: String, workload: Workload, default: Config, work: &Work<'_>) -> Result<Self, Failure> {
        let Subject { backend, pipeline, .. } = work.subject;
        let varied = Varied::all(backend);
        let configs = varied.choices(pipeline, &default);
        let names: Vec<String> = varied.parameters.iter().map(|one| one.name.to_owned()).collect();
        let rows: Vec<_> = configs.iter().map(|config| config.0.clone()).collect();
        let (space, _) = Space::recorded(&names, &rows)?;
        Ok(Self { name, workload, default, configs, space })
    }

    fn tuner(&self) -> Result<Tuner, OnlineError> {
        let first = self.configs.iter().position(|config| *config == self.default).unwrap_or(0);
        Tuner::new(self.configs.clone(), first, Options::default())
    }
}

/// What became of it.
struct Outcome<'t> {
    target: &'t Target,
    started: String,
    run: Driven,
    comparison: Option<Comparison>,
    kept: String,
}

/// Decodes with the on-line tuner, and judges what it chose. A store that cannot be read or written costs a warning.
pub fn run(args: &OnlineArgs, tuned: &TunedArgs, work: &Work<'_>, json: Option<&Path>) -> Result<(), Failure> {
    let backend = work.subject.backend;
    let this = tunable::device(backend)?;
    let varied = Varied { others: tunable::base(work.subject), ..Varied::all(backend) };
    let default = varied.parse(&work.default).unwrap_or_else(|error| usage(&error.to_string()));
    let (targets, mut tuners) = match &args.sets {
        None => {
            let workload = tuned.tuned_for(work.tables, &work.options)?;
            let target = Target::new(String::new(), workload, default, work)?;
            let tuner = target.tuner()?;
            (vec![target], ByWorkload::from(tuner))
        }
        Some(path) => SetsFile::read(path, |file| of_sets(&file, &this.name, work))?,
    };
    let tunable = tunable::tunable(work.subject);
    let locations = Locations::choose(crate::tune::store::APPLICATION, tuned.tune_db.clone(), None)?;
    let mut memories = Vec::new();
    for Target { workload, space, default, .. } in &targets {
        let task = Task { device: &this, tunable: &tunable, workload, space };
        memories.push(StoreMemory::new(locations.clone(), task, default.clone()));
    }
    let started = |(tuner, memory): (&Tuner, &mut StoreMemory<'_>)| {
        if tuned.untuned { "the default, as asked".to_owned() } else { start(backend, tuner, memory) }
    };
    let started: Vec<String> = tuners.tuners().iter().zip(&mut memories).map(started).collect();

    let mut devices = Vec::new();
    for events in &work.pieces {
        let looks = match args.sets {
            None => Features::default(),
            Some(_) => Features::mean(&looks(events, work.tables, work.options, LOOK.0, LOOK.1)?),
        };
        devices.push((DecodeDevice::new(work.tables, work.options, events.clone(), varied.clone()), looks));
    }
    let mut pieces: Vec<Piece<'_>> =
        devices.iter_mut().map(|(device, looks)| Piece { device, looks: looks.clone() }).collect();

    let mut progress = Progress::new(work.duration.as_millis() as u64, "tuning while decoding {wide_bar} {eta} left");
    let tick = |elapsed: Duration| progress.set(elapsed.as_millis() as u64);
    let drive = drive(&mut tuners, &mut pieces, STRETCH, work.duration, tick);
    drop(progress);
    let drive = drive.map_err(|error| match error {
        OnlineError::Banned { config, failure } => format!("{}: {}", varied.name(&config), failure.message),
        other => other.to_string(),
    })?;

    let mut all = Vec::new();
    for (number, (run, started)) in drive.of.into_iter().zip(started).enumerate() {
        let (target, memory) = (&targets[number], &mut memories[number]);
        // On the events that it decoded most of.
        let most = (0..pieces.len()).max_by_key(|piece| run.pieces[*piece]).unwrap_or_default();
        let comparison = if run.chosen == target.default {
            None
        } else {
            let watch = &mut *watch(backend, Limits::default());
            let found = compare(pieces[most].device, &target.default, &run.chosen, &Plan::default(), watch);
            Some(found.map_err(|dropped| dropped.failure.message)?)
        };
        if let Some(comparison) = &comparison {
            memory.confirm(comparison.clone());
        }
        let kept = keep(&tuners.tuners()[number], memory);
        all.push(Outcome { target, started, run, comparison, kept });
    }
    if let Some(path) = json {
        let mut value = match &all[..] {
            [one] if args.sets.is_none() => one.json(),
            all => json!({
                "workloads": all.iter().map(Outcome::json).collect::<Vec<_>>(),
                "changes": drive.changes, "strange": drive.strange,
            }),
        };
        value["sample"] = json!(work.source);
        value["machine"] = json!(Machine::this());
        write_json(path, &value)?;
    }
    let mut text = format!("sample              {}\n", work.source);
    for outcome in &all {
        text += &outcome.text(backend);
    }
    if args.sets.is_some() {
        let _ = writeln!(text, "\nchanges             {} from one workload to another", drive.changes);
        if drive.strange > 0 {
            let known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
            let (passes, known) = (drive.strange, known.join(", "));
            say(&format!("warning: {passes} passes over events that look like none of the workloads ({known})"));
        }
    }
    print_beside(json, &text)?;
    Ok(())
}

/// The workloads of a file of sets, and a tuner for each.
fn of_sets(file: &SetsFile, here: &str, work: &Work<'_>) -> Result<(Vec<Target>, ByWorkload), Failure> {
    let backend = work.subject.backend;
    file.check_backend(backend)?;
    let (mut targets, mut tuners) = (Vec::new(), Vec::new());
    for of in &file.of {
        let set = Varied::all(backend).parse(&of.parameters)?;
        let workload = tunable::workload_of(work.tables, &work.options, &of.workload)?;
        let target = Target::new(of.workload.clone(), workload, set.clone(), work)?;
        tuners.push((file.tuned(of, set), target.tuner()?));
        targets.push(target);
    }
    Ok((targets, ByWorkload::new(tuners, here)?))
}

impl Outcome<'_> {
    fn json(&self) -> Value {
        let Self { target, started, run, comparison, kept } = self;
        let mut value = json!({
            "configurations": target.configs.len(), "started_from": started, "online": run,
            "comparison": comparison, "kept": kept,
        });
        if !target.name.is_empty() {
            value["workload"] = json!(target.name);
        }
        value
    }

    fn text(&self, backend: Backend) -> String {
        let Self { target, started, run, comparison, kept } = self;
        let (mut text, counters) = (String::new(), run.counters);
        if !target.name.is_empty() {
            let _ = writeln!(text, "\nworkload            {}", target.name);
        }
        let _ = writeln!(
            text,
            "configurations      {}\nstarted from        {started}\npasses              {}, of which {} explored",
            target.configs.len(),
            counters.launches,
            counters.explored
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
        let varied = Varied::all(backend);
        let name = |config| varied.name(config);
        let _ =
            writeln!(text, "default             {}\nchosen              {}", name(&target.default), name(&run.chosen));
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

/// Starts the tuner from its memory; what it started from, in words.
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
