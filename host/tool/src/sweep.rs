//! `ut-decode sweep`: every combination of values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tuner::Outcome;
use ut_bench::chip::Chip;
use ut_bench::decoding::laid_out;
use ut_bench::environment::Environment;
use ut_bench::modes::Mode;
use ut_bench::sweep::axis::{AxisError, parse_all};
use ut_bench::sweep::plan::{Limits, Plan};
use ut_bench::sweep::report::{About, Report};
use ut_bench::sweep::{Journal, Sweep};
use ut_bench::work::METRICS;
use ut_bench::{Machine, Sample};
use ut_decoders::parameters::{Parameter, ParameterError, value_text};
use ut_decoders::ptx::Unit;
use ut_decoders::{Backend, Parameters, Pipeline};

use crate::args::{DetectorArgs, ParameterArgs, one_of};
use crate::help::did_you_mean;
use crate::output::{print, say, write_file, write_json};
use crate::paths::Protected;
use crate::progress::Progress;
use crate::sample::{Feeding, Loaded, Wanted, identity};
use crate::table::table;
use crate::trial::EventsArgs;
use crate::{Failure, config, signals, usage};
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Seed of the orders in which points are measured.
const SEED: u64 = 1;

const SHOWN_POINTS: usize = 10;

/// Files in the folder, beside the journal.
const RESULTS: [&str; 3] = ["sweep.json", "sweep.csv", "sweep.html"];

const JOURNAL: &str = "journal.sqlite";

/// Memory that the batches of a point may take.
const MAX_BYTES: f64 = 4e9;

/// Measure every combination of some parameters' values.
///
/// Axes are written as in nvbench: --axis cluster.block_x=32,64,128, --axis count.block_x=128:512:64, --axis
/// "batch[pow2]=6:12:1"; a name alone stands for the parameter's candidates. What cannot run is skipped, and listed
/// with the reason. Every point's hits are compared with the reference's before it counts. Points are measured in
/// rounds, each in a new order; with --backend emulated their work is counted instead. Results go to a folder:
/// sweep.csv, sweep.json, sweep.html (self-contained). If a sweep is killed, the same command continues where it
/// stopped.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    sample: EventsArgs,
    /// A parameter and its values; once for each axis.
    #[arg(long = "axis", value_name = "NAME=VALUES", required_unless_present = "list")]
    axes: Vec<String>,
    /// List the backend's parameters and exit.
    #[arg(long)]
    list: bool,
    /// Show what would be run and what would be skipped, and exit.
    #[arg(long)]
    dry_run: bool,
    /// Folder for the results, and for the journal from which a killed sweep continues.
    #[arg(long, short, value_name = "DIR", default_value = "ut-decode-sweep")]
    output: PathBuf,
    /// Rounds: how often each point is measured (emulated: counted once).
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Compare this count on the emulated backend; all counts are in the files.
    #[arg(long, value_name = "NAME", default_value = "global_sectors", value_parser = PossibleValuesParser::new(METRICS.map(|metric| metric.name)))]
    metric: String,
    /// Measure the kernels alone, the kernels and the copies in, or end to end, on the cuda backend.
    #[arg(long, value_name = "MODE", default_value = "device-resident", value_parser = one_of!(Mode::ALL, Mode::name))]
    mode: Mode,
    #[command(flatten)]
    backend: ParameterArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let backend = args.backend.backend;
    let mut base = args.backend.parameters();
    if !args.backend.set.iter().any(|set| set.starts_with("pipeline=")) {
        base = base.with_pipeline(Pipeline::default_for(backend));
    }
    if args.list {
        return print(&list(backend, &base));
    }
    let axes = parse_all(backend, &args.axes).unwrap_or_else(|error| {
        let hint = match &error {
            AxisError::Parameter(ParameterError::Unknown { name, known, .. }) => {
                did_you_mean(name, known.iter().copied())
            }
            _ => String::new(),
        };
        usage(&format!("--axis: {error}{hint}"))
    });
    let (threads, layout, sizes) = (base.decoders(backend), base.layout(), &[base.batch()]);
    let feeding = Feeding { backend, threads, layout, sizes };
    let Loaded { detector, events, wanted, sample, source } =
        Loaded::new(Wanted::all(&args.sample.files), &DetectorArgs::default(), feeding)?;
    let mut environment = Environment::of(backend);
    let chip = Chip::of_environment(environment.facts(), &Unit::PRODUCTION);
    let limits = Limits {
        backend,
        tables: &detector.tables,
        chip: &chip,
        bytes_per_event: sample.bytes as f64 / sample.events.max(1) as f64,
        max_bytes: MAX_BYTES,
    };
    let plan = Plan::new(axes, &base, &limits).unwrap_or_else(|error| usage(&error.to_string()));
    if args.dry_run {
        return print(&dry_run(&plan));
    }
    let mut protected = Protected::inputs(&args.sample.files);
    protected.add([&detector.boards, &detector.geometry].into_iter().flatten(), "a table");
    protected.add_unnamed();
    for name in RESULTS.into_iter().chain([JOURNAL]) {
        protected.check(&args.output.join(name)).unwrap_or_else(|message| usage(&message));
    }
    // On the emulated backend a batch is never more than the sample: repeated events would only repeat the counts.
    let samples = |parameters: &Parameters| -> Result<Sample, String> {
        let more = if backend == Backend::Emulated { 0 } else { parameters.batch() as usize };
        laid_out(parameters, &events, wanted.max(more))
    };
    let options = config::options();
    let sweep = Sweep {
        backend,
        tables: &detector.tables,
        options,
        plan: &plan,
        rounds: if backend == Backend::Emulated { 1 } else { args.rounds as usize },
        seed: SEED,
        samples: &samples,
        mode: args.mode,
    };
    let metric = METRICS.iter().position(|metric| metric.name == args.metric).unwrap_or_default();
    let mut about = About {
        command: command(),
        backend: backend.name().to_owned(),
        sample: source,
        events: wanted,
        unit: match backend {
            Backend::Emulated => format!("{} an event", METRICS[metric].name),
            Backend::Cuda => format!("events/s {}", args.mode.name()),
            Backend::Reference | Backend::Cpu => "events/s".to_owned(),
        },
        less_is_better: backend == Backend::Emulated,
        rounds: sweep.rounds,
        seed: SEED,
        machine: Machine::this(),
        environment: Vec::new(),
    };
    let facts = json!({
        "backend": about.backend,
        "unit": about.unit,
        "gpu": environment.facts().map(|facts| &facts.gpu.name),
        "sample": identity(&about.sample, &args.sample.files, &detector),
        "events": about.events,
        "grouping": detector.tables.grouping().name(),
        "boards": detector.boards,
        "geometry": detector.geometry,
        "options": options,
        "seed": about.seed,
        "machine": about.machine,
    });
    let facts = facts.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.to_string()));
    // Parameters that no axis varies have the base's values.
    let fact = |name: &str| (name.to_owned(), value_text(name, base.get(name)));
    let facts = facts.chain(backend.all_parameters().map(|parameter| fact(parameter.name)));
    let outcomes = measure(args, &sweep, facts.collect(), &mut environment)?;
    about.environment = environment.in_words().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let report = Report::new(about, &plan, &outcomes, (backend == Backend::Emulated).then_some(metric));
    write(&args.output, &report)?;
    print(&text(&report, &args.output))
}

fn measure(
    args: &Args,
    sweep: &Sweep<'_>,
    facts: BTreeMap<String, String>,
    environment: &mut Environment,
) -> Result<Vec<Vec<Outcome>>, Failure> {
    let folder = |error| format!("cannot make the folder {}: {error}", args.output.display());
    std::fs::create_dir_all(&args.output).map_err(folder)?;
    let path = args.output.join(JOURNAL);
    let journal = Journal::open(&path, sweep.plan, facts)?;
    let (all, points, skipped) = (sweep.visits(), sweep.plan.points.len(), sweep.plan.skipped.len());
    let done = sweep.done(&journal)?;
    let left = all.saturating_sub(done);
    let there = if done == 0 { String::new() } else { format!(", {done} are there already") };
    let estimate = if left == 0 { Duration::ZERO } else { sweep.probe()? * u32::try_from(left).unwrap_or(u32::MAX) };
    say(&format!("{points} points ({skipped} skipped), {all} measurements{there}; about {} to go", in_words(estimate)));
    let mut progress = Progress::new(all as u64, "{pos} of {len} {wide_bar} {eta} left");
    let tick = |visited: usize| {
        progress.set(visited as u64);
        environment.tick();
    };
    signals::keeps("every finished measurement is in the journal; the same command goes on from here");
    let outcomes = sweep.run(&journal, tick)?;
    drop(progress);
    Ok(outcomes)
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        0 => "a second".to_owned(),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

fn write(folder: &Path, report: &Report) -> Result<(), Failure> {
    let [json, csv, html] = RESULTS.map(|name| folder.join(name));
    write_json(&json, report)?;
    write_file(&csv, report.csv())?;
    write_file(&html, report.html())
}

fn text(report: &Report, folder: &Path) -> String {
    let mut lines = vec![points(report), report.verdict()];
    for point in &report.points {
        if let Some(why) = &point.failure {
            lines.push(format!("Failed: {}: {why}", report.point_text(&point.values)));
        }
    }
    lines.push(format!("Everything is in {}: sweep.html, sweep.csv, sweep.json", folder.display()));
    lines.join("\n") + "\n"
}

/// Returns a table of the best points and the default, the best first.
fn points(report: &Report) -> String {
    let mut order: Vec<_> = (0..report.points.len()).filter(|&place| report.points[place].measured.is_some()).collect();
    let median = |place: usize| report.points[place].measured.as_ref().map_or(f64::NAN, |spread| spread.median);
    order.sort_by(|&a, &b| median(b).total_cmp(&median(a)));
    if report.about.less_is_better {
        order.reverse();
    }
    let all = order.len();
    order.truncate(SHOWN_POINTS);
    if !order.contains(&report.default) && report.points[report.default].measured.is_some() {
        order.push(report.default);
    }
    let head = report.axes.iter().map(|axis| axis.name.clone());
    let mut rows: Vec<Vec<String>> =
        vec![head.chain([report.about.unit.clone(), "to the default".to_owned()]).collect()];
    for place in order {
        let point = &report.points[place];
        let values = report.axes.iter().zip(&point.values);
        let values = values.map(|(axis, &value)| value_text(&axis.name, value));
        let change = match &point.change {
            _ if place == report.default => "the default".to_owned(),
            Some(change) => change.to_string(),
            None => String::new(),
        };
        rows.push(values.chain([format!("{:.0}", median(place)), change]).collect());
    }
    let more = if all > SHOWN_POINTS { format!("({SHOWN_POINTS} of {all} points)\n") } else { String::new() };
    format!("{}{more}", table(&rows))
}

fn list(backend: Backend, base: &Parameters) -> String {
    let mut rows = vec![["parameter", "default", "valid", "about"].map(str::to_owned).to_vec()];
    let text = value_text;
    for Parameter { name, about, min, max, step, .. } in backend.all_parameters() {
        let step = if *step == 1 { String::new() } else { format!(", by {step}") };
        // Values with names are shown by name: their numbers say nothing.
        let valid = if text(name, *min) == min.to_string() {
            format!("{min} to {max}{step}")
        } else {
            (*min..=*max).map(|value| text(name, value)).collect::<Vec<_>>().join(", ")
        };
        rows.push(vec![(*name).to_owned(), text(name, base.get(name)), valid, (*about).to_owned()]);
    }
    table(&rows)
}

fn dry_run(plan: &Plan) -> String {
    let names: Vec<String> = plan.axes.iter().map(|axis| axis.name.clone()).collect();
    let mut rows = vec![[names, vec![String::new()]].concat()];
    let texts = |values: &[u32]| -> Vec<String> {
        plan.axes.iter().zip(values).map(|(axis, &value)| value_text(&axis.name, value)).collect()
    };
    for (i, point) in plan.points.iter().enumerate() {
        rows.push([texts(&point.values), vec![if i == plan.default { "default" } else { "run" }.to_owned()]].concat());
    }
    for skipped in &plan.skipped {
        rows.push([texts(&skipped.values), vec![format!("skipped: {}", skipped.reason)]].concat());
    }
    table(&rows)
}

/// Returns the command line, the program's name without its path.
fn command() -> String {
    let mut words = vec!["ut-decode".to_owned()];
    let quoted = |word: String| if word.contains([' ', '[', '*', '"']) { format!("'{word}'") } else { word };
    words.extend(std::env::args().skip(1).map(quoted));
    words.join(" ")
}
