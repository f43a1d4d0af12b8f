//! `ut-decode tune workloads`: one parameter set for each kind of data, and one for all.

mod describe;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use tuner::budget::Budget;
use tuner::cli::ProgramArgs;
use tuner::compare::{Plan, compare};
use tuner::cost::{Mix, measure};
use tuner::session::Session;
use tuner::store::{DeviceIdentity, Evidence, Finding, Plan as StorePlan, Store, Task, TunableIdentity, Workload};
use tuner::strategy::StrategyKind;
use tuner::tune_watched;
use tuner::workloads::Matrix;
use tuner::{Config, Device, Space, Value};
use ut_bench::decoding::DecodeDevice;
use ut_bench::{Machine, tunable};
use ut_data::input::EventBatch;
use ut_data::synth::Profile;
use ut_decoders::Backend;
use ut_report::Detector;

use crate::args::{DetectorArgs, one_of, seconds};
use crate::config;
use crate::output::{print_beside, say, write_json};
use crate::progress::Progress;
use crate::sample::{MAX_EVENTS, Synthetic, embedded, identity, read};
use crate::trial::{WatchArgs, evidence};
use crate::tune::store::open_to_measure;
use crate::{Failure, usage};
use describe::{Found, text};

/// Largest batch: a batch of lead collisions takes half a megabyte an event, and several sets are held.
const LARGEST_BATCH: i64 = 1024;

/// Number of strips for which events of a profile are made.
const STRIPS: usize = 2_000_000;

/// Tune a decoder or a program for several workloads, and say what each parameter set costs on each of them.
///
/// Each workload is tuned by itself, and the decision is kept in the store under its name: only `decode --workload
/// NAME` uses it. Then all sets take turns on all workloads. The matrix says what a set costs beyond the best one
/// there; from it follow the best set of each workload and one set for all.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profiles of synthetic events (pp-low, pp-nominal, pp-high, pbpb-low, pbpb-high) or files of events, with the
    /// tables of ut-decode.toml or --config. For a program NAME=INPUT, where {workload} in its commands stands for
    /// INPUT.
    #[arg(value_name = "WORKLOAD", default_values = ["pp-low", "pp-nominal", "pbpb-high"])]
    workloads: Vec<String>,
    /// Weight of each workload in the mean, for example how often it occurs [default: all equal].
    #[arg(long, value_name = "X,…", value_delimiter = ',')]
    weights: Vec<f64>,
    /// Budget of each workload's search, as for `tune run`.
    #[arg(long, value_name = "BUDGET", default_value = "evaluations=30,time=60")]
    budget: Budget,
    /// Rounds in which every set is measured on every workload.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..))]
    rounds: u16,
    /// Compare the one set for all (by weighted mean, or by smallest worst regret) with the default on all workloads,
    /// and keep it for every workload if it is better: `decode` then uses it without --workload.
    #[arg(long, value_name = "HOW", value_parser = ["mean", "worst"])]
    for_all: Option<String>,
    /// Write costs, decisions and choices as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Decoder to tune.
    #[arg(long, default_value = "cpu", value_parser = one_of!(Backend::ALL, Backend::name), conflicts_with = "command")]
    backend: Backend,
    /// Give up a launch of a program that takes longer than this (seconds).
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    timeout: f64,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Seed of all random choices.
const SEED: u64 = 1;

/// Name and events of a workload; a program has no events.
struct Load {
    name: String,
    /// Profile, or file with a hash that tells it from others of the same name.
    source: String,
    events: Vec<EventBatch>,
    workload: Workload,
}

/// Loads the detector and the events.
fn load(args: &Args) -> Result<(Detector, Vec<Load>), Failure> {
    let profile = |name: &String| Profile::ALL.into_iter().find(|profile| profile.name() == name);
    let files: Vec<PathBuf> = args.workloads.iter().filter(|name| profile(name).is_none()).map(PathBuf::from).collect();
    let default = DetectorArgs::default();
    let detector = default.load(&files)?;
    let mut loads: Vec<Load> = Vec::new();
    for text in &args.workloads {
        let (name, source, events) = if let Some(profile) = profile(text) {
            let events = Synthetic { profile, ..Synthetic::default() };
            let few = embedded(events, 10)?;
            // A strip is 2 bytes.
            let n = (20 * STRIPS / few.raw.len().max(1)).clamp(50, 1000);
            (text.clone(), identity(text, &[], &detector), vec![embedded(events, n)?])
        } else {
            let file = [PathBuf::from(text)];
            let name = file[0].file_stem().map_or_else(|| text.clone(), |stem| stem.to_string_lossy().into_owned());
            (name, identity(text, &file, &detector), read(&file, &detector, MAX_EVENTS)?)
        };
        if loads.iter().any(|load| load.name == name) {
            usage(&format!("there are two workloads called {name}"));
        }
        if events.iter().all(|batch| batch.n_events == 0) {
            return Err(format!("{name}: there is no event").into());
        }
        let workload = tunable::workload_of(&detector.tables, &config::options(), &name)?;
        loads.push(Load { name, source, events, workload });
    }
    Ok((detector, loads))
}

/// Returns the decoder's space, without batches that would fill the memory.
fn space(backend: Backend, cores: u32) -> Result<Space, Failure> {
    let all = tunable::space(backend, cores as usize)?;
    let names = all.names();
    let batch = names.iter().position(|name| name == "batch");
    let fits = |config: &Config| {
        batch.is_none_or(|place| matches!(config.0[place], Value::Int(batch) if batch <= LARGEST_BATCH))
    };
    let rows = (0..all.len()).map(|index| all.config(index)).filter(fits).map(|config| config.0);
    Ok(Space::recorded(&names, &rows.collect::<Vec<_>>())?.0)
}

/// Maker of the device of a workload, by number.
type MakeDevice<'d> = dyn Fn(usize) -> Result<Box<dyn Device + 'd>, Failure> + 'd;

/// Decoder or program that is tuned for its workloads.
struct Subject<'d> {
    this: DeviceIdentity,
    identity: TunableIdentity,
    space: Space,
    default: Config,
    /// Workload of a set for all.
    any: Workload,
    loads: &'d [Load],
    /// Makes the device of a workload, which holds every configuration that it measured.
    device: Box<MakeDevice<'d>>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let weights = if args.weights.is_empty() { vec![1.0; args.workloads.len()] } else { args.weights.clone() };
    let bad = |weight: &f64| !(weight.is_finite() && *weight >= 0.0);
    if weights.len() != args.workloads.len() || weights.iter().any(bad) || weights.iter().all(|weight| *weight == 0.0) {
        usage("--weights must be a number for each workload, none of them negative and not all 0");
    }
    if args.program.command.is_some() {
        return of_programs(args, &weights);
    }
    let (detector, loads) = load(args)?;
    let options = config::options();
    let this = tunable::device(args.backend)?;
    let space = space(args.backend, this.sm_count)?;
    let varied = tunable::varied(args.backend, &space)?;
    let made = varied.clone();
    let of_load = |load: usize| -> Result<Box<dyn Device + '_>, Failure> {
        Ok(Box::new(DecodeDevice::new(&detector.tables, options, loads[load].events.clone(), made.clone())))
    };
    tune_all(
        args,
        &weights,
        &Subject {
            this,
            identity: tunable::tunable(args.backend),
            space,
            default: varied.default(),
            any: tunable::workload(&detector.tables, &options)?,
            loads: &loads,
            device: Box::new(of_load),
        },
    )
}

/// Tunes a program for its inputs.
fn of_programs(args: &Args, weights: &[f64]) -> Result<(), Failure> {
    let time_out = seconds(args.timeout).unwrap_or_else(|error| usage(&format!("--timeout {error}")));
    let (mut loads, mut programs) = (Vec::<Load>::new(), Vec::new());
    for text in &args.workloads {
        let Some((name, input)) = text.split_once('=') else {
            usage(&format!("{text}: a workload of a program is NAME=INPUT"));
        };
        if loads.iter().any(|load| load.name == name) {
            usage(&format!("there are two workloads called {name}"));
        }
        let mut options = args.program.clone();
        options.constants.insert("workload".to_owned(), input.into());
        let program = options.program()?.ok_or("a program has --space and --command")?;
        let workload = program.workload.clone().with("workload", name)?;
        let (name, source) = (name.to_owned(), format!("{} with {input}", program.sample));
        loads.push(Load { name, source, events: Vec::new(), workload });
        programs.push((options, program));
    }
    let (_, first) = programs.first().ok_or("there is no workload")?;
    let of_load = |load: usize| -> Result<Box<dyn Device + '_>, Failure> {
        let (options, program) = &programs[load];
        Ok(options.device(program, time_out)?)
    };
    let subject = Subject {
        this: first.device.clone(),
        identity: first.tunable.clone(),
        space: first.space.clone(),
        default: first.default.clone().unwrap_or_else(|| first.space.config(0)),
        any: args.program.program()?.ok_or("a program has --space and --command")?.workload,
        loads: &loads,
        device: Box::new(of_load),
    };
    tune_all(args, weights, &subject)
}

/// Tunes for each workload, measures all sets on all workloads, and reports the choices.
fn tune_all(args: &Args, weights: &[f64], subject: &Subject<'_>) -> Result<(), Failure> {
    let Subject { this, identity, space, default, any, loads, device } = subject;
    let names = space.names();
    let (mut store, _alone) = open_to_measure()?;

    // Each workload by itself. A device holds every configuration that it measured, and is dropped after the search.
    let mut sets = vec![default.clone()];
    let mut decided: Vec<Evidence> = Vec::new();
    for (number, load) in loads.iter().enumerate() {
        say(&format!("tuning for {}", load.name));
        let task = Task { device: this, tunable: identity, workload: &load.workload, space };
        let kind = StrategyKind::default_for(space.len(), args.budget.most_evaluations());
        let session = Session {
            default: Some(default.clone()),
            sample: load.source.clone(),
            ..Session::new(task, kind, SEED, args.budget.clone())
        };
        let (mut device, mut watch) = (device(number)?, args.watch.watch(args.backend));
        let evidence = tune_watched(&session, &mut *device, &mut store, &mut *watch, &mut |_| true)?.evidence;
        for candidate in [Some(&evidence.chosen), evidence.runner_up.as_ref()].into_iter().flatten() {
            if !sets.contains(&candidate.config) {
                sets.push(candidate.config.clone());
            }
        }
        decided.push(evidence);
    }

    let mut devices = (0..loads.len()).map(device).collect::<Result<Vec<_>, _>>()?;
    let mut parts: Vec<(String, &mut dyn Device)> = Vec::new();
    for (load, device) in loads.iter().zip(&mut devices) {
        parts.push((load.name.clone(), &mut **device));
    }
    let mut watch = args.watch.watch(args.backend);
    let rounds = usize::from(args.rounds);
    let mut progress = Progress::new(rounds as u64, "measuring the matrix {wide_bar} {eta} left");
    let costs = measure(&mut parts, &sets, rounds, SEED, &mut *watch, |round| progress.set(round as u64))?;
    drop(progress);
    let chosen = Chosen::of(&costs.shown(), weights)?;

    let kept = match &args.for_all {
        None => None,
        Some(how) => {
            let set = if how == "mean" { chosen.mean.0 } else { chosen.worst.0 };
            let units: Vec<f64> = costs.matrix.times[0].iter().map(|time| time.unwrap_or(1.0)).collect();
            let mut mix = Mix::new(&mut parts, weights, &units);
            let task = Task { device: this, tunable: identity, workload: any, space };
            Some(keep_for_all(args, &mut store, &task, &mut mix, default, &sets[set])?)
        }
    };
    if let Some(path) = &args.json {
        let of_workload = loads.iter().zip(&chosen.of_workload).map(|(load, set)| {
            let parameters = names.iter().zip(&sets[*set].0).map(|(name, value)| format!("{name}={value}"));
            json!({ "workload": load.name, "set": set, "parameters": parameters.collect::<Vec<_>>().join(",") })
        });
        let value = json!({
            "matrix": costs.matrix, "error": costs.error, "decided": decided, "weights": weights, "mean": chosen.mean,
            "worst": chosen.worst, "of_workload": of_workload.collect::<Vec<_>>(), "kept": kept,
            "machine": Machine::this(),
        });
        write_json(path, &value)?;
    }
    let found = Found {
        loads,
        names: &names,
        default,
        decided: &decided,
        costs: &costs,
        chosen: &chosen,
        kept: kept.as_deref(),
    };
    print_beside(args.json.as_deref(), &text(&found)?)?;
    Ok(())
}

/// Sets that were chosen from the matrix, by number. Times that cannot be told from the default's count as equal to it.
struct Chosen {
    /// Set with the smallest weighted mean of the regrets, and that mean.
    mean: (usize, f64),
    /// Set with the smallest worst regret, and that regret.
    worst: (usize, f64),
    of_workload: Vec<usize>,
}

impl Chosen {
    fn of(matrix: &Matrix, weights: &[f64]) -> Result<Self, Failure> {
        Ok(Self { mean: matrix.by_mean(weights)?, worst: matrix.by_worst()?, of_workload: matrix.of_workload()? })
    }
}

/// Compares a set with the default on all workloads together, and keeps the decision.
fn keep_for_all(
    args: &Args,
    store: &mut Store,
    task: &Task<'_>,
    mix: &mut dyn Device,
    default: &Config,
    set: &Config,
) -> Result<String, Failure> {
    if set == default {
        return Ok("nothing: the default is the best one for all".to_owned());
    }
    let plan = Plan { rounds: 4, seed: SEED, ..Plan::default() };
    let found = compare(mix, default, set, &plan, &mut *args.watch.watch(args.backend));
    let comparison = found.map_err(|dropped| dropped.failure.message)?;
    say(evidence(&comparison.judgement).trim_end());
    let finding = Finding {
        plan: StorePlan {
            strategy: format!("one for all of {}", args.workloads.join(", ")),
            seed: SEED,
            budget: args.budget.to_string(),
            ..StorePlan::default()
        },
        default: default.clone(),
        proposed: set.clone(),
        samples: Vec::new(),
        failed: Vec::new(),
        launches: comparison.judgement.kept + comparison.judgement.discarded,
        comparison: Some(comparison),
        stopped: "it was compared with the default".to_owned(),
    };
    let kept = store.keep(task, &finding)?;
    Ok(kept.map_or_else(|| "nothing".to_owned(), |kept| format!("run {}: {}", kept.run, kept.verdict)))
}
