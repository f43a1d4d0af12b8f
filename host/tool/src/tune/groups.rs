//! `ut-decode tune groups`: tunes kernels that share a step together, and judges the whole chain.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tuner::budget::Budget;
use tuner::chain::{ChainDecision, ChainFile, DeviceChain, Group, Kernel, KernelEntry, WorkloadEntry};
use tuner::chain::{default_of, joined};
use tuner::cli::ProgramArgs;
use tuner::compare;
use tuner::session::{Session, TuneError};
use tuner::store::{DeviceIdentity, Evidence, Finding, Kept, Plan, Store, Task, TunableIdentity, Workload};
use tuner::strategy::StrategyKind;
use tuner::tune_watched;
use tuner::verdict::Rules;
use tuner::watch::{NoWatch, Watch};
use tuner::{Config, Device, Noise, Replay, Space, Value};
use ut_bench::{Machine, tunable};
use ut_data::input::EventBatch;
use ut_decoders::Backend;
use ut_report::Detector;

use crate::output::{print_beside, say, write_json};
use crate::paths::{Protected, named};
use crate::trial::{self, EventsArgs, MethodArgs, WatchArgs, evidence};
use crate::tune::run_args::DeviceSpec;
use crate::tune::store::{open, open_to_measure};
use crate::tune::target::Target;
use crate::{Failure, usage};
use tuner::report::words::in_words;

/// Rounds of a block of programs, which take as long as they like.
const ROUNDS_OF_PROGRAMS: usize = 2;

/// Time limit of a program's launch.
const TIME_OUT: Duration = Duration::from_mins(1);

const FILE: &str = "\
GROUPS is a TOML file (docs/tuning.md, tuner/examples/chain/chain.toml). Groups
of a decoder consist of parameters; `cluster` means all that begin with
`cluster.`:

  [[group]]
  together = [\"batch\", \"threads\"]

[default] (block = 128) replaces values of the device's default. Groups can also
consist of kernels that are measured by themselves ([[kernel]]). Parameters and
kernels in no group are tuned by themselves.";

/// Tune a chain in groups: kernels that share a step together, the others separately; then judge the whole chain.
///
/// The search of a group measures the time of its step, with all other groups at their defaults, and is kept in the
/// store. In the end the chain with all chosen values is measured against all defaults. Only that verdict counts.
#[derive(Debug, clap::Args)]
#[command(after_help = FILE)]
pub struct Args {
    /// File of groups.
    #[arg(value_name = "GROUPS")]
    file: PathBuf,
    /// Device to tune if GROUPS names no kernels: cpu, cuda, emulated or replay:FILE, as for `tune run`.
    #[arg(long, value_name = "BACKEND", default_value = "cpu")]
    backend: DeviceSpec,
    /// Budget of each group's search, as for `tune run`.
    #[arg(long, value_name = "BUDGET", default_value = "evaluations=40")]
    budget: Budget,
    /// Write groups, verdict and the chain's samples as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    sample: EventsArgs,
}

/// Sample that a decoder is tuned on.
type Loaded = (Detector, Vec<EventBatch>, String);

/// Chain with its identity in a store, and the space of all configurations, if it can be listed.
struct Whole<'d> {
    chain: DeviceChain<'d>,
    identity: DeviceIdentity,
    tunable: TunableIdentity,
    workload: Workload,
    /// Measured sample, where the workload does not name it.
    sample: String,
    space: Option<Space>,
}

/// Makes a chain of the parameters of one device.
fn of_device<'d>(args: &'d Args, file: &ChainFile, loaded: Option<&'d Loaded>) -> Result<Whole<'d>, Failure> {
    let (target, device): (_, Box<dyn Device + Send + 'd>) = match (&args.backend, loaded) {
        (DeviceSpec::Replay(file), _) => replayed(file)?,
        (DeviceSpec::Decoder(backend), Some((detector, events, _))) => {
            let target = Target::decoder(*backend, &args.sample, detector)?;
            let varied = tunable::varied(*backend, &target.space)?;
            (target, Box::new(trial::device(varied, detector, events.clone())))
        }
        (DeviceSpec::Decoder(backend), None) => return Err(format!("{backend}: there is no sample").into()),
    };
    let Target { device: identity, tunable, workload, space, default, sample, .. } = target;
    let default = default_of(&tunable.name, &space, default.as_ref(), &file.default)?;
    let kernel = Kernel { name: tunable.name.clone(), device, space: space.clone(), default };
    let chain = DeviceChain::new(vec![kernel], true, &file.groups)?;
    Ok(Whole { chain, identity, tunable, workload, sample, space: Some(space) })
}

fn replayed(file: &Path) -> Result<(Target, Box<dyn Device + Send>), Failure> {
    let (target, recording) = Target::recorded(file)?;
    Ok((target, Box::new(Replay::new(recording, Noise::Resampled { seed: 1 }))))
}

/// Makes a chain of devices, for one of the workloads if there are any.
fn of_kernels(file: &ChainFile, load: Option<&WorkloadEntry>) -> Result<Whole<'static>, Failure> {
    let (mut kernels, mut samples, mut workload) = (Vec::new(), Vec::new(), Workload::new());
    let none = BTreeMap::new();
    let values = load.map_or(&none, |load| &load.values);
    if let Some(load) = load {
        workload = workload.with("workload", load.name.as_str())?;
    }
    for (name, value) in values {
        workload = workload.with(name.as_str(), value.clone())?;
    }
    for KernelEntry { name, device, program, default } in &file.kernels {
        let (device, space, base, sample) = if let Some(table) = program {
            workload = workload.with(name.as_str(), serde_json::to_string(table)?)?;
            let wrong = |error: toml::de::Error| format!("program of {name}: {}", error.message());
            let mut options: ProgramArgs = table.clone().try_into().map_err(wrong)?;
            options.constants.clone_from(values);
            let program = options.program()?.ok_or_else(|| format!("program of {name}: it has space and command"))?;
            (options.device(&program, TIME_OUT)?, program.space, program.default, program.sample)
        } else {
            let device = device.as_deref().unwrap_or_default();
            workload = workload.with(name.as_str(), device)?;
            let file = match device.parse::<DeviceSpec>()? {
                DeviceSpec::Replay(file) => file,
                DeviceSpec::Decoder(backend) => {
                    let how = format!("it is tuned with --backend {backend}");
                    return Err(format!("the {backend} decoder is not a kernel of a chain: {how}").into());
                }
            };
            let (Target { space, default, sample, .. }, device) = replayed(&file)?;
            (device, space, default, sample)
        };
        let default = default_of(name, &space, base.as_ref(), default)?;
        samples.extend(Some(sample).filter(|sample| !sample.is_empty() && !samples.contains(sample)));
        kernels.push(Kernel { name: name.clone(), device, space, default });
    }
    let names: Vec<&str> = file.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let tunable = TunableIdentity::new(format!("chain of {}", names.join(", ")), 0);
    let chain = DeviceChain::new(kernels, false, &file.groups)?;
    let identity = DeviceIdentity::named(chain.name(), "chain");
    Ok(Whole { chain, identity, tunable, workload, sample: samples.join(" and "), space: None })
}

/// Search of a group.
struct Searched {
    group: String,
    configurations: usize,
    names: Vec<String>,
    run: i64,
    evidence: Evidence,
}

/// Result of a chain.
struct Found {
    title: String,
    groups: Vec<Searched>,
    names: Vec<String>,
    default: Config,
    proposed: Config,
    decision: ChainDecision,
    kept: Option<Kept>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let file = ChainFile::read(&args.file)?;
    // The command line does not name these inputs.
    let devices = file.kernels.iter().filter_map(|kernel| kernel.device.as_deref());
    let devices = devices.flat_map(|device| named(device.as_ref())).collect::<Vec<_>>();
    let recordings = Protected::inputs(&devices);
    args.json.iter().for_each(|json| recordings.check(json).unwrap_or_else(|message| usage(&message)));
    let programs = file.kernels.iter().any(|kernel| kernel.program.is_some());
    let plan = compare::Plan::default();
    let rules = Rules { method: args.method.method(), ..plan.rules };
    let plan = compare::Plan { rules, rounds: if programs { ROUNDS_OF_PROGRAMS } else { plan.rounds }, ..plan };
    let backend = match args.backend {
        DeviceSpec::Decoder(backend) if file.kernels.is_empty() => Some(backend),
        _ => programs.then_some(Backend::Cpu),
    };
    let loaded = if backend.is_some() && !programs { Some(args.sample.load()?) } else { None };
    let (mut store, _alone) = match backend {
        Some(_) => open_to_measure()?,
        None => (open()?, None),
    };
    let loads: Vec<_> = file.workloads.iter().map(Some).collect();
    let mut found = Vec::new();
    for load in if loads.is_empty() { vec![None] } else { loads } {
        let whole =
            if file.kernels.is_empty() { of_device(args, &file, loaded.as_ref())? } else { of_kernels(&file, load)? };
        found.push(tune_chain(args, &plan, backend, &mut store, whole)?);
    }
    if let Some(path) = &args.json {
        let mut values = found.iter().map(json_of).collect::<Vec<_>>();
        let mut value = if file.workloads.is_empty() { values.remove(0) } else { json!({ "workloads": values }) };
        value["machine"] = json!(Machine::this());
        write_json(path, &value)?;
    }
    let text: Vec<String> = found.iter().map(text).collect();
    print_beside(args.json.as_deref(), &text.join("\n"))?;
    Ok(())
}

/// Tunes the groups of a chain, judges the whole, and keeps the result.
fn tune_chain(
    args: &Args,
    plan: &compare::Plan,
    backend: Option<Backend>,
    store: &mut Store,
    whole: Whole<'_>,
) -> Result<Found, Failure> {
    let Whole { mut chain, identity, tunable, workload, sample, space } = whole;
    let groups = chain.groups().to_vec();
    let defaults = chain.defaults();
    let mut spaces = Vec::new();
    for group in &groups {
        spaces.push((group.kernels.clone(), chain.names(&group.kernels), chain.space_of(&group.name, &group.kernels)?));
    }
    let (mut searched, mut broken) = (Vec::new(), None);
    let watch = || backend.map_or_else(|| Box::new(NoWatch) as Box<dyn Watch>, |backend| args.watch.watch(backend));
    let mut search = |group: &Group, device: &mut dyn Device, default: &Config| -> Result<Config, TuneError> {
        let known = spaces.iter().find(|(units, ..)| *units == group.kernels);
        let Some((_, names, space)) = known else { return Ok(default.clone()) };
        say(&format!("{}: {} configurations of {}", group.name, space.len(), names.join(", ")));
        let part = TunableIdentity { name: format!("{}: {}", tunable.name, group.name), ..tunable.clone() };
        let task = Task { device: &identity, tunable: &part, workload: &workload, space };
        let strategy = StrategyKind::default_for(space.len(), args.budget.most_evaluations());
        let mut session = Session {
            default: Some(default.clone()),
            sample: sample.clone(),
            ..Session::new(task, strategy, plan.seed, args.budget.clone())
        };
        session.rounds.rules.method = plan.rules.method;
        let tuning = tune_watched(&session, device, store, &mut *watch(), &mut |_| true)?;
        let chosen = tuning.evidence.chosen.config.clone();
        searched.push(Searched {
            group: group.name.clone(),
            configurations: space.len(),
            names: names.clone(),
            run: tuning.run,
            evidence: tuning.evidence,
        });
        Ok(chosen)
    };
    let mut choose = |group: &Group, device: &mut dyn Device, default: &Config| {
        if broken.is_some() {
            return default.clone();
        }
        search(group, device, default).unwrap_or_else(|error| {
            broken = Some(format!("{}: {error}", group.name));
            default.clone()
        })
    };
    let decision = chain.tune(plan, &mut *watch(), &mut choose)?;
    if let Some(error) = broken {
        return Err(error.into());
    }

    let units: Vec<usize> = (0..defaults.len()).collect();
    let names = chain.names(&units);
    let (default, proposed) = (joined(&defaults), joined(&decision.proposed));
    let finding = Finding {
        plan: Plan {
            strategy: "groups".to_owned(),
            seed: plan.seed,
            budget: args.budget.to_string(),
            ..Plan::default()
        },
        default: default.clone(),
        proposed: proposed.clone(),
        samples: Vec::new(),
        failed: decision.failure.iter().map(|failure| (proposed.clone(), failure.clone())).collect(),
        launches: decision.comparison.iter().map(|c| c.judgement.kept + c.judgement.discarded).sum(),
        comparison: decision.comparison.clone(),
        stopped: "the whole chain was compared".to_owned(),
    };
    // Without the product of all spaces, the space has the two configurations that were compared.
    let mut rows = vec![default.0.clone(), proposed.0.clone()];
    rows.dedup();
    let space = match space {
        Some(space) => space,
        None => Space::recorded(&names, &rows)?.0,
    };
    let kept =
        store.keep(&Task { device: &identity, tunable: &tunable, workload: &workload, space: &space }, &finding)?;
    let title = format!("{tunable} for {workload}");
    Ok(Found { title, groups: searched, names, default, proposed, decision, kept })
}

fn json_of(found: &Found) -> serde_json::Value {
    let of = |searched: &Searched| {
        json!({
            "group": searched.group, "configurations": searched.configurations, "parameters": searched.names,
            "run": searched.run, "decision": searched.evidence,
        })
    };
    let groups: Vec<_> = found.groups.iter().map(of).collect();
    let kept = found.kept.as_ref().map(|kept| json!({ "run": kept.run, "verdict": kept.verdict }));
    json!({
        "what": found.title, "groups": groups, "parameters": found.names, "chain": found.decision, "kept": kept,
    })
}

fn text(found: &Found) -> String {
    let words = |names: &[String], config: &Config| {
        let parameters: Vec<(String, Vec<Value>)> = names.iter().map(|name| (name.clone(), Vec::new())).collect();
        in_words(&parameters, config)
    };
    let Found { title, groups, names, default, proposed, decision, kept } = found;
    let mut text = format!("chain               {title}\n");
    for Searched { group, configurations, names, run, evidence } in groups {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\ngroup               {group} (run {run})\ntried               {} of {configurations}\n\
             chosen              {}\nverdict             {}\n",
            evidence.tried,
            words(names, &evidence.chosen.config),
            evidence.verdict
        );
    }
    let _ = write!(
        text,
        "\nwhole chain\nA, the defaults     {}\nB, what was chosen  {}\n",
        words(names, default),
        words(names, proposed)
    );
    match (&decision.comparison, &decision.failure) {
        (Some(comparison), _) => {
            let (judgement, used) = (&comparison.judgement, joined(&decision.configs));
            text += &evidence(judgement);
            let conclusion = if used == *default { "the defaults stay" } else { "use what was chosen" };
            let _ = writeln!(text, "verdict             {}: {conclusion}", judgement.verdict);
        }
        (None, Some(failure)) => {
            let _ = writeln!(
                text,
                "verdict             it fails with what was chosen: the defaults stay ({})",
                failure.message
            );
        }
        (None, None) => text += "verdict             every group keeps its default: there is nothing to compare\n",
    }
    let kept = kept.as_ref().map_or_else(|| "nothing".to_owned(), |kept| format!("run {}: {}", kept.run, kept.verdict));
    let _ = writeln!(text, "kept                {kept}");
    text
}
