//! Tunes a chain, which one file describes: `tuner chain`, and a decoder's `tune chain`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tuner::budget::Budget;
use tuner::chain::file::{ChainFile, KernelEntry, WorkloadEntry};
use tuner::chain::tune::{ChainTuning, ForAll, Settings, Subject, tune_chain, tune_for_all};
use tuner::chain::{Chain, Member};
use tuner::compare::Plan;
use tuner::fnv::Fnv;
use tuner::objective::Objective;
use tuner::store::{DeviceIdentity, Store, TunableIdentity, Workload};
use tuner::verdict::Method;
use tuner::watch::Watch;
use tuner::watch::cpu::{CpuWatch, System};
use tuner::{Space, space_of_table};
use tuner_score::interchange::read_recording;
use tuner_score::replay::{Noise, Replay};

use crate::chain_text::{ChainResults, page, text};
use crate::output::say;
use crate::program::ProgramArgs;
use crate::progress::Progress;
use crate::session::{check_outputs, time_out};
use crate::store::open_to_measure;
use crate::watcher::Watcher;
use crate::{Failure, Host, WatchArgs, signals};

/// Contents of the file, for the help of a command.
pub const FILE: &str = "\
FILE is TOML (docs/tuning-programs.md, tuner/examples/chain/chain.toml):

  [[kernel]]            name, program (options as on the command line) or replay,
                        space, at, set_per_place, apart
  [[group]]             name, together, concurrent
  [[shared]]            name, parameters
  [[constraint]]        when
  [[workload]]          name, weight, and values of places in the commands
  [default]             values of the chain's parameters";

/// Tune a chain, for each of its workloads: kernels that share a step together, the others one by
/// one; then judge the whole.
///
/// The search of a group measures the time of its steps, with all other groups at their defaults,
/// and is kept in the store. In the end the chain with all chosen values is measured against all
/// defaults. Only that verdict counts. With several workloads, all sets then take turns on all of
/// them: what a set costs on the others, and one set for all, follow from that.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "chain")]
pub struct Args {
    /// File of the chain.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Budget of each group's search: evaluations=N (or N), launches=N, time=SECONDS (or 90s,
    /// 10min, 1h).
    #[arg(long, value_name = "BUDGET", default_value = "evaluations=40")]
    budget: Budget,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Rounds in which every set is measured on every workload.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..))]
    rounds: u16,
    /// Compare the one set for all workloads (by weighted mean, or by smallest worst cost) with the
    /// default on all of them, and keep it if it is better.
    #[arg(long, value_name = "HOW", value_parser = ["mean", "worst"])]
    for_all: Option<String>,
    /// Weigh evidence by the variance between interleaved blocks (blocks), or by the 95 % interval
    /// of the difference of the means of all samples (alice), as ALICE does, which alarms too often
    /// on free clocks.
    #[arg(long, default_value = "blocks", value_parser = ["blocks", "alice"])]
    rule: String,
    /// Time limit of a program's launch in seconds.
    #[arg(long, value_name = "S", default_value = "60", value_parser = time_out)]
    timeout: Duration,
    /// Write groups, verdicts and samples as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write chain.html (one self-contained page) and chain.json into this folder, which is made if
    /// missing.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    watch: WatchArgs,
}

impl Args {
    /// Returns the time limit of a program's launch.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the load at which the machine is too busy.
    pub fn watch(&self) -> WatchArgs {
        self.watch
    }
}

/// Maker of the chain for a workload.
pub trait Make<'d> {
    /// Makes it; `None` where the file has no workload.
    fn subject(
        &mut self,
        args: &Args,
        file: &ChainFile,
        load: Option<&WorkloadEntry>,
    ) -> Result<Subject<'d>, Failure>;

    /// Returns the key of the one set for all workloads.
    fn any(&self, args: &Args, file: &ChainFile) -> Result<Workload, Failure> {
        let _ = args;
        described(file, None)
    }

    /// Returns the number of rounds in a block when the whole chain is compared.
    fn rounds(&self) -> usize;

    /// Makes a watch over the machine.
    fn watch(&self, args: &Args) -> Box<dyn Watch> {
        Box::new(CpuWatch::new(System, args.watch.limits()))
    }
}

/// Chain of programs and recordings.
#[derive(Debug)]
pub struct Programs;

/// Describes a chain and its workload as a key of the store; of the kernels' descriptions it has a
/// hash.
fn described(file: &ChainFile, load: Option<&WorkloadEntry>) -> Result<Workload, Failure> {
    let mut hash = Fnv::default();
    for KernelEntry {
        name,
        program,
        replay,
        ..
    } in &file.kernels
    {
        hash.take(serde_json::to_string(&(name, program, replay))?.as_bytes());
    }
    let mut workload = Workload::new();
    if let Some(load) = load {
        workload = workload.with("workload", load.name.as_str())?;
        for (name, value) in &load.values {
            workload = workload.with(name.as_str(), value.clone())?;
        }
    }
    Ok(workload.with("kernels", hash.to_string())?)
}

/// Makes a kernel at a place, and returns it with its sample.
fn member(
    entry: &KernelEntry,
    place: Option<&String>,
    values: &BTreeMap<String, tuner::Value>,
    args: &Args,
) -> Result<(Member<'static>, String), Failure> {
    let KernelEntry {
        name,
        program,
        space,
        replay,
        set_per_place,
        apart,
        ..
    } = entry;
    let full = place.map_or_else(|| name.clone(), |place| format!("{name}@{place}"));
    let prefix = if *set_per_place {
        full.clone()
    } else {
        name.clone()
    };
    if let Some(file) = replay {
        let recording = read_recording(file)?;
        let (space, sample) = (recording.space.clone(), file.display().to_string());
        let device = Box::new(Replay::new(recording, Noise::Resampled { seed: args.seed }));
        return Ok((
            Member {
                name: full,
                prefix,
                device,
                space,
                default: None,
                apart: *apart,
            },
            sample,
        ));
    }
    let wrong = |error: String| format!("program of {name}: {error}");
    let table = program.clone().unwrap_or_default();
    let mut options: ProgramArgs = table
        .try_into()
        .map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
    options.constants.clone_from(values);
    options
        .constants
        .extend(place.map(|place| ("place".to_owned(), place.as_str().into())));
    if let Some(table) = space {
        options.given =
            Some(space_of_table(table.clone()).map_err(|error| wrong(error.to_string()))?);
    }
    let program = options
        .program()
        .map_err(|error| wrong(error.to_string()))?;
    let device = options
        .device(&program, args.timeout)
        .map_err(|error| wrong(error.to_string()))?;
    let (space, default) = (program.space, program.default);
    Ok((
        Member {
            name: full,
            prefix,
            device,
            space,
            default,
            apart: *apart,
        },
        program.sample,
    ))
}

impl Make<'static> for Programs {
    fn subject(
        &mut self,
        args: &Args,
        file: &ChainFile,
        load: Option<&WorkloadEntry>,
    ) -> Result<Subject<'static>, Failure> {
        if file.kernels.is_empty() {
            return Err("the chain has no [[kernel]]".into());
        }
        let none = BTreeMap::new();
        let values = load.map_or(&none, |load| &load.values);
        let (mut members, mut samples) = (Vec::new(), Vec::new());
        for entry in &file.kernels {
            let places = if entry.at.is_empty() {
                vec![None]
            } else {
                entry.at.iter().map(Some).collect()
            };
            for place in places {
                let (member, sample) = member(entry, place, values, args)?;
                members.push(member);
                samples.push(sample);
            }
        }
        samples.dedup();
        let chain = Chain::new(members, file, values)?;
        let names: Vec<&str> = file
            .kernels
            .iter()
            .map(|kernel| kernel.name.as_str())
            .collect();
        Ok(Subject {
            load: load.map(|load| load.name.clone()).unwrap_or_default(),
            weight: load.map_or(1.0, |load| load.weight),
            device: DeviceIdentity::named(chain.name(), "chain"),
            tunable: TunableIdentity::new(format!("chain of {}", names.join(", ")), 0),
            workload: described(file, load)?,
            sample: samples.join(" and "),
            space: None,
            chain,
        })
    }

    fn rounds(&self) -> usize {
        // Programs take as long as they like.
        2
    }
}

/// Checks that no output is one of the files that the chain reads.
fn check_files(args: &Args, file: &ChainFile) -> Result<(), Failure> {
    let mut inputs = vec![args.file.clone()];
    for kernel in &file.kernels {
        let program = kernel.program.as_ref();
        let space = program.and_then(|table| table.get("space")?.as_str());
        inputs.extend(space.map(PathBuf::from));
        inputs.extend(kernel.replay.clone());
    }
    let inputs: Vec<_> = inputs.iter().map(PathBuf::as_path).collect();
    check_outputs(args.json.as_deref(), None, &inputs)
}

/// Returns the plan of the comparison of the whole chain.
fn plan(args: &Args, rounds: usize) -> Plan {
    let mut plan = Plan {
        seed: args.seed,
        rounds,
        ..Plan::default()
    };
    if args.rule == "alice" {
        plan.rules.method = Method::Alice;
    }
    plan
}

/// Tunes the chain for one workload, and shows how far it is.
fn tune_one(
    subject: &mut Subject<'_>,
    store: &mut Store,
    settings: &Settings<'_>,
) -> Result<ChainTuning, Failure> {
    if !subject.load.is_empty() {
        say(&format!("tuning for {}", subject.load));
    }
    let mut watcher = Watcher::new(Objective::Time);
    let mut tell = |group: &str, step: Option<&tuner::session::Progress<'_>>, space: &Space| {
        if let Some(step) = step {
            watcher.step(step, |config| space.named(config).to_string());
        } else {
            watcher = Watcher::new(Objective::Time);
            let names = space.names().join(", ");
            say(&format!(
                "{group}: {} configurations of {names}",
                space.len()
            ));
        }
        true
    };
    Ok(tune_chain(subject, store, settings, &mut tell)?)
}

/// Tunes the chain of a file; `make` makes it for each workload.
pub fn run(host: &Host, args: &Args, make: &mut dyn Make<'_>) -> Result<(), Failure> {
    let file = ChainFile::read(&args.file)?;
    check_files(args, &file)?;
    let mut loads: Vec<_> = file.workloads.iter().map(Some).collect();
    if loads.is_empty() {
        loads.push(None);
    }
    let subjects = loads
        .into_iter()
        .map(|load| make.subject(args, &file, load));
    let mut subjects = subjects.collect::<Result<Vec<_>, _>>()?;
    let (any, rounds) = (make.any(args, &file)?, usize::from(args.rounds));
    let settings = Settings {
        plan: plan(args, make.rounds()),
        budget: args.budget.clone(),
        rounds,
        for_all: args.for_all.as_deref().map(|how| match how {
            "mean" => ForAll::Mean,
            _ => ForAll::Worst,
        }),
        watch: &|| make.watch(args),
    };
    let (mut store, _alone) = open_to_measure(host)?;
    signals::keeps("every finished measurement is kept; the same command goes on from here");
    let tunings = subjects
        .iter_mut()
        .map(|subject| tune_one(subject, &mut store, &settings));
    let tunings = tunings.collect::<Result<Vec<_>, _>>()?;
    let mut all = None;
    if subjects.len() > 1 {
        let shown = "measuring all sets on all workloads {wide_bar} {eta} left";
        let mut progress = Progress::new(rounds as u64, shown);
        let tick = |round: usize| progress.set(round as u64);
        let found = tune_for_all(&mut subjects, &tunings, &any, &mut store, &settings, tick);
        all = Some(found?);
    }
    let found = ChainResults {
        file: args.file.display().to_string(),
        tunings,
        all,
    };
    write(host, args, &found)
}

/// Writes the results where they were asked for, and prints them.
fn write(host: &Host, args: &Args, found: &ChainResults) -> Result<(), Failure> {
    let value = json!({ "chain": found.file, "workloads": found.tunings, "all": found.all });
    if let Some(path) = &args.json {
        (host.write_json)(path, &value)?;
    }
    if let Some(folder) = &args.report {
        let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(cannot)?;
        (host.write_json)(&folder.join("chain.json"), &value)?;
        let html = folder.join("chain.html");
        std::fs::write(&html, page(found)).map_err(cannot)?;
        say(&format!("report: {}", html.display()));
    }
    host.print_beside(args.json.as_deref(), &text(found))
}
