//! `ut-decode tune workloads`: one parameter set for each kind of data, one for all, or a few and a rule that picks.

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
use tuner::verdict::Rules;
use tuner::workloads::{Features, Matrix, Picker, Tuned};
use tuner::{Config, Device, Space, Value};
use ut_bench::decoding::DecodeDevice;
use ut_bench::{Machine, looks, tunable};
use ut_data::detector::BankVersion;
use ut_data::input::EventBatch;
use ut_data::synth::Profile;
use ut_decoders::Backend;
use ut_report::Detector;

use crate::args::{DetectorArgs, bank_format, one_of, seconds};
use crate::config;
use crate::output::{print_beside, say, write_json};
use crate::progress::Progress;
use crate::sample::{MAX_EVENTS, embedded, identity, read};
use crate::sets_file::{SetOf, SetsFile};
use crate::trial::{WatchArgs, evidence};
use crate::tune::store::StoreArgs;
use crate::{Failure, usage};
use describe::{Found, text};

/// Largest batch that is tried: a batch of lead collisions takes half a megabyte an event, and several sets are held.
const LARGEST_BATCH: i64 = 1024;

/// As many events of a profile are made as have about this many strips in all.
const STRIPS: usize = 2_000_000;

/// Events of the batches that the rule is tried on.
const RULE_BATCH: usize = 50;

/// Batches of a workload before the next one comes, when the rule is tried.
const STRETCH: usize = 12;

/// Tune a decoder or a program for several workloads, and say what each parameter set costs on each of them.
///
/// Each workload is tuned by itself, and the decision is kept in the store under its name: only `decode --workload NAME`
/// uses it. Then all sets take turns on all workloads. The matrix says what a set costs beyond
/// the best one there; from it follow one set for all, and a small portfolio with a rule that picks by what a batch
/// looks like.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profiles of synthetic events (pp-low, pp-nominal, pp-high, pbpb-low, pbpb-high) or files of events, with the tables of
    /// ut-decode.toml or --config. Of a program: NAME=INPUT, where {workload} in its commands stands for INPUT.
    #[arg(value_name = "WORKLOAD", default_values = ["pp-low", "pp-nominal", "pbpb-high"])]
    workloads: Vec<String>,
    /// How much each workload counts in the mean, for example how often it occurs [default: all equally].
    #[arg(long, value_name = "X,…", value_delimiter = ',')]
    weights: Vec<f64>,
    /// When the search for each workload ends, as for `tune run`.
    #[arg(long, value_name = "BUDGET", default_value = "evaluations=30,no-gain=15+gain=0.002,time=60")]
    budget: Budget,
    /// Rounds in which every set is measured on every workload.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..))]
    rounds: u16,
    /// Most sets of the portfolio.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    portfolio: u8,
    /// Compare the one set for all (that of the smallest weighted mean, or of the smallest worst regret) with the
    /// default on all workloads, and keep it for every workload if it is better: `decode` then uses it by itself.
    #[arg(long, value_name = "HOW", value_parser = ["mean", "worst"])]
    for_all: Option<String>,
    /// Write everything as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The decoder.
    #[arg(long, default_value = "cpu", value_parser = one_of!(Backend::ALL, Backend::name), conflicts_with = "command")]
    backend: Backend,
    /// Bank format of the synthetic events.
    #[arg(long = "bank-format", alias = "format", value_name = "FORMAT", default_value = "v5", value_parser = bank_format())]
    format: BankVersion,
    /// Give up a launch of a program that takes longer than this (seconds).
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    timeout: f64,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Seed of all that is random.
const SEED: u64 = 1;

/// A workload: its name, its events, and what they look like; a program has neither.
struct Load {
    name: String,
    /// A profile, or a file with a hash that tells it from others of the same name.
    source: String,
    events: Vec<EventBatch>,
    looks: Vec<Features>,
    workload: Workload,
}

impl Load {
    /// Returns what its batches look like in the mean.
    fn features(&self) -> Features {
        Features::mean(&self.looks)
    }
}

/// The detector and the events.
fn load(args: &Args) -> Result<(Detector, Vec<Load>), Failure> {
    let profile = |name: &String| Profile::ALL.into_iter().find(|profile| profile.name() == name);
    let files: Vec<PathBuf> = args.workloads.iter().filter(|name| profile(name).is_none()).map(PathBuf::from).collect();
    let default = DetectorArgs::default();
    let detector = if files.is_empty() { default.embedded(args.format) } else { default.load(&files)? };
    let mut loads: Vec<Load> = Vec::new();
    for text in &args.workloads {
        let (name, source, events) = if let Some(profile) = profile(text) {
            let few = embedded(profile, args.format, 10)?;
            // A strip is 2 bytes.
            let n = (20 * STRIPS / few.raw.len().max(1)).clamp(50, 1000);
            (text.clone(), identity(text, &[], &detector), vec![embedded(profile, args.format, n)?])
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
        let looks = looks(&events, &detector.tables, config::options(), RULE_BATCH, STRETCH)?;
        let workload = tunable::workload_of(&detector.tables, &config::options(), &name)?;
        loads.push(Load { name, source, events, looks, workload });
    }
    Ok((detector, loads))
}

/// The decoder's space, without batches that would fill the memory.
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

/// Makes the device of the workload with a number.
type MakeDevice<'d> = dyn Fn(usize) -> Result<Box<dyn Device + 'd>, Failure> + 'd;

/// What is tuned.
struct Subject<'d> {
    this: DeviceIdentity,
    identity: TunableIdentity,
    space: Space,
    default: Config,
    /// The workload of a set for all.
    any: Workload,
    loads: &'d [Load],
    /// Makes the device of a workload. Each holds every configuration that was tried.
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
        loads.push(Load { name, source, events: Vec::new(), looks: Vec::new(), workload });
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

/// Tunes for each workload, measures all sets on all, and says what follows.
fn tune_all(args: &Args, weights: &[f64], subject: &Subject<'_>) -> Result<(), Failure> {
    let Subject { this, identity, space, default, any, loads, device } = subject;
    let names = space.names();
    let (mut store, _alone) = args.store.to_measure()?;

    // Each by itself. The devices are dropped one by one: they hold every configuration that was tried.
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
    let chosen = Chosen::of(&costs.shown(), weights, usize::from(args.portfolio))?;
    // What the batches of a program look like is not known.
    let looks = loads.iter().all(|load| !load.looks.is_empty());
    let rule = if looks { Some(try_rule(loads, &costs.matrix, &chosen, &this.name)?) } else { None };

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
        let looks: Vec<_> =
            loads.iter().map(|load| json!({ "workload": load.name, "looks": load.features() })).collect();
        let mut value = json!({
            "matrix": costs.matrix, "error": costs.error, "decided": decided, "weights": weights, "looks": looks,
            "mean": chosen.mean, "worst": chosen.worst, "portfolio": chosen.portfolio, "of_workload": chosen.of_workload,
            "kept": kept, "machine": Machine::this(),
        });
        if let Some(rule) = &rule {
            value["rule"] = json!({ "batches": rule.batches, "right": rule.right, "changes": rule.changes });
            value["sets"] = json!(sets_file(args.backend, &this.name, space, loads, &costs.matrix, &chosen)?);
        }
        write_json(path, &value)?;
    }
    let found = Found {
        loads,
        names: &names,
        default,
        decided: &decided,
        costs: &costs,
        chosen: &chosen,
        rule: rule.as_ref(),
        kept: kept.as_deref(),
    };
    print_beside(args.json.as_deref(), &text(&found)?)?;
    Ok(())
}

/// The sets of the portfolio and what their workloads look like.
fn sets_file(
    backend: Backend,
    device: &str,
    space: &Space,
    loads: &[Load],
    matrix: &Matrix,
    chosen: &Chosen,
) -> Result<SetsFile, Failure> {
    let names = space.names();
    let varied: Vec<&str> = names.iter().map(String::as_str).collect();
    let of_space = tunable::varied(backend, space)?;
    let of = |(load, set): (&Load, &usize)| -> Result<SetOf, Failure> {
        let parameters = of_space.parameters_of(&matrix.sets[*set])?.text(varied.iter().copied());
        Ok(SetOf { workload: load.name.clone(), looks: load.features(), parameters })
    };
    let of = loads.iter().zip(&chosen.of_workload).map(of).collect::<Result<_, _>>()?;
    Ok(SetsFile { backend: backend.name().to_owned(), device: device.to_owned(), of })
}

/// What follows from the matrix, with what cannot be told from the default counted as equal to it: sets by number.
struct Chosen {
    mean: (usize, f64),
    worst: (usize, f64),
    portfolio: Vec<usize>,
    of_workload: Vec<usize>,
}

impl Chosen {
    fn of(matrix: &Matrix, weights: &[f64], most: usize) -> Result<Self, Failure> {
        let (mean, worst) = (matrix.by_mean(weights)?, matrix.by_worst()?);
        let (portfolio, of_workload) = matrix.portfolio(most, Rules::default().indifference)?;
        Ok(Self { mean: (mean.set, mean.cost), worst: (worst.set, worst.cost), portfolio, of_workload })
    }
}

/// What the rule did on batches of all workloads in turn.
struct RuleTrial {
    batches: usize,
    /// Batches that got the set of their own workload.
    right: usize,
    changes: usize,
}

/// Lets the rule pick for stretches of batches of one workload after the other. It sees each batch before the next one.
fn try_rule(loads: &[Load], matrix: &Matrix, chosen: &Chosen, here: &str) -> Result<RuleTrial, Failure> {
    let of = |(load, set): (&Load, &usize)| Tuned {
        config: matrix.sets[*set].clone(),
        device: here.to_owned(),
        workload: load.name.clone(),
        features: load.features(),
    };
    let tuned: Vec<Tuned> = loads.iter().zip(&chosen.of_workload).map(of).collect();
    let mut picker = Picker::new(tuned, here)?;
    let mut trial = RuleTrial { batches: 0, right: 0, changes: 0 };
    let mut last = matrix.sets[chosen.of_workload[0]].clone();
    let mut seen: Option<&Features> = None;
    for (load, set) in loads.iter().zip(&chosen.of_workload).cycle().take(3 * loads.len()) {
        for look in load.looks.iter().cycle().take(STRETCH) {
            if let Some(seen) = seen {
                let config = &picker.pick(seen).set.config;
                trial.changes += usize::from(*config != last);
                last.clone_from(config);
            }
            trial.batches += 1;
            trial.right += usize::from(last == matrix.sets[*set]);
            seen = Some(look);
        }
    }
    Ok(trial)
}

/// Compares a set with the default on all workloads together, and keeps what follows.
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
