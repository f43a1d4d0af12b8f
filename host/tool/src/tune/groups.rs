//! `ut-decode tune groups`: kernels that share the time of a step are tuned together, and the whole chain has the last
//! word.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;
use tuner::budget::Budget;
use tuner::chain::{ChainFile, DeviceChain, Group, Kernel, default_of};
use tuner::session::{Session, TuneError};
use tuner::store::{DeviceIdentity, Evidence, Finding, Plan, Store, Task, TunableIdentity, Workload};
use tuner::strategy::StrategyKind;
use tuner::tune;
use tuner::watch::{NoWatch, Watch};
use tuner::{Config, Device, Noise, Replay, Space, Value};
use ut_bench::{Machine, tunable};
use ut_data::input::EventBatch;

use crate::config;
use crate::detector::Detector;
use crate::output::{print_beside, say, write_json};
use crate::paths::{Protected, named};
use crate::trial::{self, RuleArgs, SampleArgs, evidence, trouble};
use crate::tune::run_args::DeviceSpec;
use crate::tune::store::StoreArgs;
use crate::tune::target::Target;
use crate::{Failure, usage};
use tuner::report::words::in_words;

const FILE: &str = "\
GROUPS is a TOML file. The groups of one decoder are made of its parameters;
`cluster` means all that begin with `cluster.`:

  [[group]]
  together = [\"batch\", \"cpu.chunk\"]

Or each kernel of the chain is measured by itself, and the groups are made of
kernels:

  [[kernel]]
  name = \"cluster\"
  device = \"replay:cluster.json\"
  default = { block = 128 }        # what it runs with now; else its first valid one

  [[group]]
  name = \"first step\"              # may be left out
  together = [\"cluster\", \"scan\"]
  concurrent = true                # at once: the step takes as long as the slowest

What no group names is tuned by itself. A device without a default of its own
takes it from [default] (block = 128).";

/// Tune a chain in groups: what shares the time of a step together, the rest separately; then judge the whole chain.
///
/// Each group is searched on the time of its step, all others at their defaults, and its search is kept in the store.
/// In the end the chain is measured with everything that was chosen against all defaults. Only that verdict counts.
#[derive(Debug, clap::Args)]
#[command(after_help = FILE)]
pub struct Args {
    /// The groups.
    #[arg(value_name = "GROUPS")]
    file: PathBuf,
    /// What to tune where GROUPS names no kernels: cpu, cuda, emulated or replay:FILE, as for `tune run`.
    #[arg(long, value_name = "BACKEND", default_value = "cpu")]
    backend: DeviceSpec,
    /// When the search of each group ends, as for `tune run`.
    #[arg(long, value_name = "BUDGET", default_value = "evaluations=60,no-gain=25+gain=0.002")]
    budget: Budget,
    /// Write the groups, the verdict and every sample of the chain as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    sample: SampleArgs,
}

/// A device with what a store knows it by.
struct Opened<'d> {
    device: Box<dyn Device + 'd>,
    space: Space,
    default: Option<Config>,
    identity: DeviceIdentity,
    tunable: TunableIdentity,
    workload: Workload,
    sample: String,
}

impl<'d> Opened<'d> {
    fn new(target: Target, device: impl Device + 'd) -> Self {
        let Target { device: identity, tunable, workload, space, default, sample, .. } = target;
        Self { device: Box::new(device), space, default, identity, tunable, workload, sample }
    }
}

/// Opens a device in this process.
fn open<'d>(
    args: &'d Args,
    spec: &DeviceSpec,
    loaded: Option<&'d (Detector, Vec<EventBatch>, String)>,
) -> Result<Opened<'d>, Failure> {
    match (spec, loaded) {
        (DeviceSpec::Decoder(backend), Some((detector, events, _))) => {
            let identity = tunable::device(*backend)?;
            let space = tunable::space(*backend, identity.sm_count as usize)?;
            let varied = tunable::varied(*backend, &space)?;
            Ok(Opened {
                default: Some(varied.default()),
                tunable: tunable::tunable(*backend),
                workload: tunable::workload(&detector.tables, &config::options())?,
                device: Box::new(trial::device(varied, detector, events.clone())),
                sample: args.sample.identity(detector),
                space,
                identity,
            })
        }
        (DeviceSpec::Decoder(backend), None) => {
            Err(format!("the {backend} decoder is not a kernel of a chain: it is tuned with --backend {backend}")
                .into())
        }
        (DeviceSpec::Replay(file), _) => {
            let (target, recording) = Target::recorded(file)?;
            Ok(Opened::new(target, Replay::new(recording, Noise::Resampled { seed: 1, first: true })))
        }
    }
}

/// The chain, with what a store knows it by and the space of all its configurations, where that can be listed.
struct Whole<'d> {
    chain: DeviceChain<'d>,
    identity: DeviceIdentity,
    tunable: TunableIdentity,
    workload: Workload,
    /// What is measured, where the workload does not say it.
    sample: String,
    space: Option<Space>,
}

fn whole<'d>(
    args: &'d Args,
    file: &ChainFile,
    loaded: Option<&'d (Detector, Vec<EventBatch>, String)>,
) -> Result<Whole<'d>, Failure> {
    if file.kernels.is_empty() {
        let Opened { device, space, default, identity, tunable, workload, sample } = open(args, &args.backend, loaded)?;
        let default = default_of(&tunable.name, &space, default.as_ref(), &file.default)?;
        let kernel = Kernel { name: tunable.name.clone(), device, space: space.clone(), default };
        let chain = DeviceChain::new(vec![kernel], true, &file.groups)?;
        return Ok(Whole { chain, identity, tunable, workload, sample, space: Some(space) });
    }
    let mut kernels = Vec::new();
    let mut workload = Workload::new();
    let mut samples = Vec::new();
    for entry in &file.kernels {
        let opened = open(args, &entry.device.parse::<DeviceSpec>()?, None)?;
        workload = workload.with(entry.name.as_str(), entry.device.as_str())?;
        let default = default_of(&entry.name, &opened.space, opened.default.as_ref(), &entry.default)?;
        let Opened { device, space, sample, .. } = opened;
        if !sample.is_empty() {
            samples.push(sample);
        }
        kernels.push(Kernel { name: entry.name.clone(), device, space, default });
    }
    let names: Vec<&str> = file.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let tunable = TunableIdentity::new(format!("chain of {}", names.join(", ")), 0);
    let chain = DeviceChain::new(kernels, false, &file.groups)?;
    let identity = DeviceIdentity::named(chain.name(), "chain");
    Ok(Whole { chain, identity, tunable, workload, sample: samples.join(" and "), space: None })
}

/// What became of a group.
struct Searched {
    group: String,
    configurations: usize,
    names: Vec<String>,
    run: i64,
    evidence: Evidence,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let plan = args.rules.plan(15);
    let file = ChainFile::read(&args.file)?;
    // The command line does not name these.
    let devices = file.kernels.iter().flat_map(|kernel| named(kernel.device.as_ref())).collect::<Vec<_>>();
    let recordings = Protected::inputs(&devices);
    args.json.iter().for_each(|json| recordings.check(json).unwrap_or_else(|message| usage(&message)));
    let backend = match args.backend {
        DeviceSpec::Decoder(backend) if file.kernels.is_empty() => Some(backend),
        _ => None,
    };
    let loaded = if backend.is_some() { Some(args.sample.load()?) } else { None };
    let Whole { mut chain, identity, tunable, workload, sample, space } = whole(args, &file, loaded.as_ref())?;
    let groups = chain.groups().to_vec();
    let defaults = chain.defaults();
    let mut spaces = Vec::new();
    for group in &groups {
        spaces.push((group.kernels.clone(), chain.names(&group.kernels), chain.space_of(&group.name, &group.kernels)?));
    }
    let mut store = Store::open(&args.store.locations(None)?.user)?;
    let (mut searched, mut broken) = (Vec::new(), None);
    let mut search = |group: &Group, device: &mut dyn Device, default: &Config| -> Result<Config, TuneError> {
        let known = spaces.iter().find(|(units, ..)| *units == group.kernels);
        let Some((_, names, space)) = known else { return Ok(default.clone()) };
        say(&format!("{}: {} configurations of {}", group.name, space.len(), names.join(", ")));
        let part = TunableIdentity { name: format!("{}: {}", tunable.name, group.name), ..tunable.clone() };
        let task = Task { device: &identity, tunable: &part, workload: &workload, space };
        let strategy = StrategyKind::default_for(space.len(), args.budget.most_evaluations());
        let session = Session {
            default: Some(default.clone()),
            sample: sample.clone(),
            ..Session::new(task, strategy, plan.seed, args.budget.clone())
        };
        let tuning = tune(&session, device, &mut store, &mut |_| true)?;
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
    let mut watch = args.rules.watch(backend.unwrap_or_default());
    let watching: &mut dyn Watch = if backend.is_some() { &mut *watch } else { &mut NoWatch };
    let decision = chain.tune(&plan, watching, &mut choose)?;
    if let Some(error) = broken {
        return Err(error.into());
    }

    let units: Vec<usize> = (0..defaults.len()).collect();
    let names = chain.names(&units);
    let joined = |configs: &[Config]| Config(configs.iter().flat_map(|config| config.0.iter().cloned()).collect());
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
    // The product of all spaces need not be listed to know the two that were compared.
    let mut rows = vec![default.0.clone(), proposed.0.clone()];
    rows.dedup();
    let space = match space {
        Some(space) => space,
        None => Space::recorded(&names, &rows)?.0,
    };
    let task = Task { device: &identity, tunable: &tunable, workload: &workload, space: &space };
    let kept = store.keep(&task, &finding)?;

    let words = |names: &[String], config: &Config| {
        let parameters: Vec<(String, Vec<Value>)> = names.iter().map(|name| (name.clone(), Vec::new())).collect();
        in_words(&parameters, config)
    };
    if let Some(path) = &args.json {
        let of = |searched: &Searched| {
            json!({
                "group": searched.group, "configurations": searched.configurations, "parameters": searched.names,
                "run": searched.run, "decision": searched.evidence,
            })
        };
        let groups: Vec<_> = searched.iter().map(of).collect();
        let kept = kept.as_ref().map(|kept| json!({ "run": kept.run, "verdict": kept.verdict }));
        let value = json!({
            "groups": groups, "parameters": names, "chain": decision, "kept": kept, "machine": Machine::this(),
        });
        write_json(path, &value)?;
    }
    let mut text = format!("chain               {tunable} for {workload}\n");
    for Searched { group, configurations, names, run, evidence } in &searched {
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
        words(&names, &default),
        words(&names, &proposed)
    );
    match (&decision.comparison, &decision.failure) {
        (Some(comparison), _) => {
            let (judgement, used) = (&comparison.judgement, joined(&decision.configs));
            text += &evidence(judgement);
            if backend.is_some() {
                text += &trouble(&mut *watch, judgement);
            }
            let conclusion = if used == default { "the defaults stay" } else { "use what was chosen" };
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
    let kept = kept.map_or_else(|| "nothing".to_owned(), |kept| format!("run {}: {}", kept.run, kept.verdict));
    let _ = writeln!(text, "kept                {kept}");
    print_beside(args.json.as_deref(), &text)?;
    Ok(())
}
