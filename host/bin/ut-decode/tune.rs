//! `ut-decode tune`: find good launch parameters, and keep them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use ut_decoding::backend::Backend;
use ut_decoding::bench::cpu_tunable;
use ut_decoding::tuning::budget::Budget;
use ut_decoding::tuning::interchange::read_recording;
use ut_decoding::tuning::process::{ProcessDevice, serve_standard_streams};
use ut_decoding::tuning::report::{Evaluation, Report};
use ut_decoding::tuning::session::{Progress as Step, Session, Tuning, tune};
use ut_decoding::tuning::store::contents::RunRecord;
use ut_decoding::tuning::store::{DeviceIdentity, Observation, Store, Task, TunableIdentity, Workload};
use ut_decoding::tuning::strategy::StrategyKind;
use ut_decoding::tuning::synthetic::{Faults, Synthetic};
use ut_decoding::tuning::{Config, Device, Noise, Replay, Space};

use crate::args::one_of;
use crate::output::{print_beside, say, write_json};
use crate::progress::Progress;
use crate::store::{StoreArgs, in_words, milliseconds};
use crate::trial::SampleArgs;
use crate::{Failure, explain, usage};

/// The budget of a search where none is given.
const BUDGET: &str = "evaluations=220,no-gain=50+gain=0.001";

/// The same for the CPU decoder.
const CPU_BUDGET: &str = "evaluations=100,no-gain=30+gain=0.002,time=120";

/// Find good launch parameters and keep them, where `decode` and `throughput` find them by themselves.
///
/// Every measurement is kept as soon as it is complete: killed at any moment, the same command goes on where it was. The
/// winner of the search is measured again beside the default, and replaces it only if it is faster again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to tune: cpu (the CPU decoder, here and now), replay:FILE (a recorded space: Kernel Tuner cache, T4, compact
    /// CSV, store or its export; FILE#RUN for one run of a store), or synthetic:SPEC (like
    /// synthetic:seed=7,noise=0.02,fail=0.1).
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: DeviceSpec,
    /// How to search; by default exhaustive for small spaces, else bayesian.
    #[arg(long, value_parser = one_of!(StrategyKind::ALL, StrategyKind::name))]
    strategy: Option<StrategyKind>,
    /// When to stop: evaluations=N, launches=N, time=SECONDS, no-gain=N (evaluations without a better one), gain=X (less
    /// than this share expected from searching on); a,b is whichever comes first, a+b both; a number alone is evaluations.
    #[arg(long, value_name = "BUDGET")]
    budget: Option<Budget>,
    /// Seed of all that is random: the same seed and the same times give the same proposals.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Launches of each configuration while searching.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    launches: u16,
    /// The best so many of the search are measured against the default; 0: the search alone decides.
    #[arg(long, value_name = "N", default_value_t = 3)]
    finalists: u16,
    /// Begin anew even where an unfinished run could be continued.
    #[arg(long)]
    fresh: bool,
    /// A synthetic device is measured in a process of its own, which is killed when a measurement takes longer than this
    /// (seconds).
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    time_out: f64,
    /// Write the decision as JSON here; - is standard output.
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Write what was measured and decided as run-N.html (one self-contained page), run-N.csv and run-N.json into this
    /// folder, which is made if need be.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    sample: SampleArgs,
}

/// A device by name.
#[derive(Clone, Debug)]
pub enum DeviceSpec {
    Cpu,
    Replay(PathBuf),
    Synthetic(String),
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "synthetic" => Ok(Self::Synthetic(String::new())),
            Some(("replay", file)) if !file.is_empty() => Ok(Self::Replay(file.into())),
            Some(("synthetic", spec)) => spec.parse::<Faults>().map(|_| Self::Synthetic(spec.to_owned())),
            _ => Err("none of cpu, replay:FILE, synthetic:SPEC".to_owned()),
        }
    }
}

/// What is to be tuned, with all that a store knows it by.
struct Target {
    device: DeviceIdentity,
    tunable: TunableIdentity,
    workload: Workload,
    space: Space,
    default: Option<Config>,
    budget: &'static str,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.device {
        DeviceSpec::Cpu => {
            let (detector, events, _) = args.sample.load()?;
            let device = cpu_tunable::device();
            let target = Target {
                tunable: cpu_tunable::tunable(),
                workload: cpu_tunable::workload(&detector.tables, &args.sample.clustering.options())?,
                space: cpu_tunable::space(device.sm_count as usize)?,
                default: Some(cpu_tunable::default_config()?),
                device,
                budget: CPU_BUDGET,
            };
            tune_target(args, &target, &mut args.sample.device(Backend::Cpu, &detector, events))
        }
        DeviceSpec::Replay(file) => {
            let recording = read_recording(file)?;
            let mut workload = Workload::new();
            if !recording.problem.is_empty() {
                workload = workload.with("problem_size", recording.problem.as_str())?;
            }
            for (name, value) in &recording.fixed {
                workload = workload.with(name.as_str(), value.clone())?;
            }
            let target = Target {
                device: DeviceIdentity::named(recording.device.clone(), "replay"),
                // Not the kernel's own name: what a replay decides must never be taken for a measurement.
                tunable: TunableIdentity::new(format!("replay of {}", recording.kernel), 0),
                workload,
                space: recording.space.clone(),
                default: None,
                budget: BUDGET,
            };
            tune_target(args, &target, &mut Replay::new(recording, Noise::Resampled { seed: args.seed, first: true }))
        }
        DeviceSpec::Synthetic(spec) => {
            let Ok(time_out) = Duration::try_from_secs_f64(args.time_out) else {
                usage("--time-out must be a number of seconds, not negative");
            };
            let synthetic = Synthetic::new(spec.parse()?);
            let name = synthetic.name();
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["measure", &format!("synthetic:{spec}")]);
            let target = Target {
                device: DeviceIdentity::named(name.clone(), "synthetic"),
                tunable: TunableIdentity::new("synthetic", 0),
                workload: Workload::new().with("spec", spec.as_str())?,
                default: Some(synthetic.space().config(0)),
                space: synthetic.space().clone(),
                budget: BUDGET,
            };
            tune_target(args, &target, &mut ProcessDevice::new(name, command, time_out))
        }
    }
}

fn tune_target(args: &Args, target: &Target, device: &mut dyn Device) -> Result<(), Failure> {
    let budget = match &args.budget {
        Some(budget) => budget.clone(),
        None => target.budget.parse()?,
    };
    let kind = StrategyKind::default_for(target.space.len(), budget.most_evaluations());
    let task =
        Task { device: &target.device, tunable: &target.tunable, workload: &target.workload, space: &target.space };
    let session = Session {
        launches: usize::from(args.launches),
        finalists: usize::from(args.finalists),
        default: target.default.clone(),
        fresh: args.fresh,
        ..Session::new(task, args.strategy.unwrap_or(kind), args.seed, budget)
    };
    let mut store = Store::open(&args.store.locations(None)?.user)?;
    say(&format!(
        "{} for {} on {}: {} configurations, {}, until {}",
        target.tunable,
        target.workload,
        target.device,
        target.space.len(),
        session.strategy,
        session.budget
    ));
    let parameters: Vec<_> = target
        .space
        .parameters()
        .iter()
        .map(|parameter| (parameter.name().to_owned(), parameter.values().to_vec()))
        .collect();
    let mut watcher =
        Watcher { bar: Progress::new(1000, "{wide_bar} {msg}"), best: f64::INFINITY, replayed: 0, deciding: false };
    let tuning = tune(&session, device, &mut store, &mut |step| {
        watcher.step(step, |config| in_words(&parameters, config));
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
                "store": store.file(),
                "parameters": target.space.names(),
                "decision": tuning.evidence,
            }),
        )?;
    }
    if let Some(directory) = &args.report {
        let observations = store.observations(tuning.run)?;
        let name = format!("run-{}", tuning.run);
        let [page, ..] = report(&record, target, &tuning, observations)
            .write(directory, &name)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        say(&format!("report: {}", page.display()));
    }
    print_beside(args.json.as_deref(), &explain::explain(&record))?;
    Ok(())
}

/// The report of a run: from what the store keeps of it, and from its final rounds, which a run that is continued repeats
/// from the record. So it is reported as if it had not been interrupted.
fn report(record: &RunRecord, target: &Target, tuning: &Tuning, observations: Vec<Observation>) -> Report {
    let parameters = record.space.parameters.clone();
    let evidence = &tuning.evidence;
    let chosen = in_words(&parameters, &evidence.chosen.config);
    let facts = [
        ("workload", target.workload.to_string()),
        ("strategy", record.plan.strategy.clone()),
        ("seed", record.plan.seed.to_string()),
        ("budget", record.plan.budget.clone()),
        ("ended because", evidence.stopped.clone()),
        ("chosen", format!("{chosen}: {}", milliseconds(evidence.chosen.time_ms))),
        ("verdict", evidence.verdict.clone()),
    ];
    Report {
        title: target.tunable.to_string(),
        device: target.device.to_string(),
        facts: facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        parameters,
        default: target.default.clone(),
        evaluations: observations
            .into_iter()
            .map(|Observation { config, outcome, .. }| Evaluation { config, outcome })
            .collect(),
        decisions: tuning.decisions.clone(),
    }
}

/// Shows how the session is getting on.
struct Watcher {
    bar: Progress,
    best: f64,
    replayed: usize,
    deciding: bool,
}

impl Watcher {
    fn step(&mut self, step: &Step<'_>, words: impl Fn(&Config) -> String) {
        if step.replayed {
            self.replayed += 1;
            self.best = step.best.map_or(self.best, |(_, time)| time);
            return;
        }
        if self.replayed > 0 {
            let (run, replayed) = (step.run, self.replayed);
            self.bar.say(&format!("continuing run {run}: {replayed} measurements were already made"));
            self.replayed = 0;
        }
        let left = step.left_ms.map_or_else(String::new, |ms| format!(", {} left", seconds(ms / 1e3)));
        if let Some((config, time)) = step.best
            && time < self.best
        {
            self.best = time;
            let n = step.spent.evaluations;
            self.bar.say(&format!("{n:>6} tried, best {}  {}{left}", milliseconds(time), words(config)));
        }
        if step.deciding && !self.deciding {
            self.deciding = true;
            self.bar.say("deciding: the best ones again, beside the default");
        }
        if let Some(left) = step.left_ms {
            let share = step.spent.ms / (step.spent.ms + left).max(1e-9);
            self.bar.set((1000.0 * share) as u64);
        }
        let best = if self.best.is_finite() { milliseconds(self.best) } else { "nothing yet".to_owned() };
        self.bar.message(&format!("{} tried, best {best}{left}", step.spent.evaluations));
    }
}

fn seconds(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    if whole < 100 { format!("{whole} s") } else { format!("{} min", whole.div_ceil(60)) }
}

/// Measure on standard input's request: the other side of `tune`'s processes.
#[derive(Debug, clap::Args)]
pub struct MeasureArgs {
    /// The device.
    device: DeviceSpec,
}

pub fn measure(args: &MeasureArgs) -> Result<(), Failure> {
    match &args.device {
        DeviceSpec::Synthetic(spec) => Ok(serve_standard_streams(&mut Synthetic::new(spec.parse()?))?),
        DeviceSpec::Replay(file) => {
            let noise = Noise::Resampled { seed: 1, first: true };
            Ok(serve_standard_streams(&mut Replay::new(read_recording(Path::new(file))?, noise))?)
        }
        DeviceSpec::Cpu => Err("the CPU decoder is measured in tune's own process".into()),
    }
}
