//! `ut-decode sweep`: every combination of values.

use std::path::{Path, PathBuf};

use ut_bench::Machine;
use ut_bench::environment::Environment;
use ut_bench::modes::Mode;
use ut_bench::sweep::Sweep;
use ut_bench::sweep::axis::parse_all;
use ut_bench::sweep::plan::Plan;
use ut_bench::sweep::report::{About, Report};
use ut_bench::work::METRICS;
use ut_decoders::parameters::Parameter;
use ut_decoders::{Backend, Parameters};

use crate::args::{ParameterArgs, one_of};
use crate::output::{print, say, write_file, write_json};
use crate::paths::Protected;
use crate::progress::Progress;
use crate::sample::Loaded;
use crate::table::table;
use crate::trial::EventsArgs;
use crate::{Failure, config, signals, usage};
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Seed of the orders in which points are measured.
const SEED: u64 = 1;

const SHOWN_POINTS: usize = 10;

/// Files in the folder.
const RESULTS: [&str; 3] = ["sweep.json", "sweep.csv", "sweep.html"];

/// Measure every combination of some parameters' values.
///
/// An axis is written as --axis cluster.block_x=32,64,128 or as --axis count.block_x=128:512:64
/// (from, to, step); a name alone stands for the parameter's candidates. What cannot run is
/// skipped, and listed with the reason. Every point's hits are compared with the reference's before
/// it counts. Points are measured in rounds, each in a new order; with --backend emulated their
/// work is counted instead. Results go to a folder after each round: sweep.csv, sweep.json, and
/// sweep.html, which needs no other file.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    sample: EventsArgs,
    /// A parameter and its values; once for each axis.
    #[arg(
        long = "axis",
        value_name = "NAME=VALUES",
        required_unless_present = "list"
    )]
    axes: Vec<String>,
    /// List the backend's parameters and exit.
    #[arg(long)]
    list: bool,
    /// Folder for the results.
    #[arg(long, short, value_name = "DIR", default_value = "ut-decode-sweep")]
    output: PathBuf,
    /// Rounds: how often each point is measured (emulated: counted once).
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Compare this count on the emulated backend; all counts are in sweep.json.
    #[arg(long, value_name = "NAME", default_value = "global_sectors", value_parser = PossibleValuesParser::new(METRICS.map(|metric| metric.name)))]
    metric: String,
    /// Measure the kernels alone, the kernels and the copies in, or end to end, on the cuda
    /// backend.
    #[arg(long, value_name = "MODE", default_value = "device-resident", value_parser = one_of!(Mode::ALL, Mode::name))]
    mode: Mode,
    #[command(flatten)]
    backend: ParameterArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let backend = args.backend.backend;
    let base = args.backend.parameters();
    if args.list {
        return print(&list(backend, &base));
    }
    let axes = parse_all(backend, &args.axes);
    let axes = axes.unwrap_or_else(|error| usage(&format!("--axis: {error}")));
    let Loaded {
        detector,
        events,
        wanted,
        sample,
        source,
    } = Loaded::all(&args.sample.files, backend, &base)?;
    let mut environment = Environment::of(backend);
    let plan = Plan::new(
        axes,
        &base,
        backend,
        sample.bytes as f64 / sample.events.max(1) as f64,
    );
    let plan = plan.unwrap_or_else(|message| usage(&message));
    let mut protected = Protected::inputs(&args.sample.files);
    protected.add(
        [&detector.boards, &detector.geometry].into_iter().flatten(),
        "a table",
    );
    protected.add_unnamed();
    for name in RESULTS {
        protected.refuse(&args.output.join(name));
    }
    let is_counted = backend == Backend::Emulated;
    let sweep = Sweep {
        backend,
        tables: &detector.tables,
        options: config::options(),
        plan: &plan,
        rounds: if is_counted { 1 } else { args.rounds as usize },
        seed: SEED,
        events: &events,
        wanted,
        mode: args.mode,
    };
    let metric = METRICS
        .iter()
        .position(|metric| metric.name == args.metric)
        .unwrap_or_default();
    let about = About {
        command: command(),
        backend: backend.name().to_owned(),
        sample: source,
        events: wanted,
        unit: match backend {
            Backend::Emulated => format!("{} per event", METRICS[metric].name),
            Backend::Cuda => format!("events/s {}", args.mode.name()),
            Backend::Reference | Backend::Cpu => "events/s".to_owned(),
        },
        less_is_better: is_counted,
        rounds: sweep.rounds,
        seed: SEED,
        machine: Machine::this(),
        environment: Vec::new(),
    };
    let folder = |error| format!("cannot make the folder {}: {error}", args.output.display());
    std::fs::create_dir_all(&args.output).map_err(folder)?;
    let n_points = plan.points.len();
    say(&format!(
        "{n_points} points ({} skipped), {} measurements",
        plan.skipped.len(),
        sweep.visits()
    ));
    let mut progress = Progress::new(
        sweep.visits() as u64,
        "{pos} of {len} {wide_bar} {eta} left",
    );
    signals::keeps("the folder has the results of every finished round");
    let mut last = None;
    sweep.run(|visited, outcomes| -> Result<(), Failure> {
        progress.set(visited as u64);
        environment.tick();
        if visited % n_points == 0 {
            let about = About {
                environment: environment.in_words(),
                ..about.clone()
            };
            let report = Report::new(about, &plan, outcomes, is_counted.then_some(metric));
            write(&args.output, &report)?;
            last = Some(report);
        }
        Ok(())
    })?;
    drop(progress);
    last.map_or(Ok(()), |report| print(&text(&report, &args.output)))
}

fn write(folder: &Path, report: &Report) -> Result<(), Failure> {
    let [json, csv, html] = RESULTS.map(|name| folder.join(name));
    write_json(&json, report)?;
    write_file(&csv, report.csv())?;
    write_file(&html, report.html())
}

fn text(report: &Report, folder: &Path) -> String {
    let mut lines = vec![points(report), report.verdict()];
    for (title, points) in report.others() {
        let all = points.len();
        lines.extend(
            points
                .into_iter()
                .take(SHOWN_POINTS)
                .map(|(point, why)| format!("{title}: {point}: {why}")),
        );
        lines.extend((all > SHOWN_POINTS).then(|| format!("({SHOWN_POINTS} of {all})")));
    }
    lines.push(format!(
        "Everything is in {}: sweep.html, sweep.csv, sweep.json",
        folder.display()
    ));
    lines.join("\n") + "\n"
}

/// Returns a table of the best points and the default, the best first.
fn points(report: &Report) -> String {
    let mut order = report.ranking();
    let median = |place: usize| {
        report.points[place]
            .measured
            .as_ref()
            .map_or(f64::NAN, |spread| spread.median)
    };
    let all = order.len();
    order.truncate(SHOWN_POINTS);
    if !order.contains(&report.default) && report.points[report.default].measured.is_some() {
        order.push(report.default);
    }
    let head = report
        .axes
        .iter()
        .map(|axis| axis.parameter.name.to_owned());
    let mut rows: Vec<Vec<String>> = vec![
        head.chain([report.about.unit.clone(), "to the default".to_owned()])
            .collect(),
    ];
    for place in order {
        let point = &report.points[place];
        let change = match &point.change {
            _ if place == report.default => "the default".to_owned(),
            Some(change) => change.to_string(),
            None => String::new(),
        };
        rows.push(
            report
                .texts(&point.values)
                .into_iter()
                .chain([format!("{:.0}", median(place)), change])
                .collect(),
        );
    }
    let more = if all > SHOWN_POINTS {
        format!("({SHOWN_POINTS} of {all} points)\n")
    } else {
        String::new()
    };
    format!("{}{more}", table(&rows))
}

fn list(backend: Backend, base: &Parameters) -> String {
    let mut rows = vec![
        ["parameter", "default", "valid"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut abouts = vec!["about"];
    for parameter in backend.all_parameters() {
        let &Parameter {
            name,
            about,
            min,
            max,
            step,
            words,
            ..
        } = parameter;
        // Values with names are shown by name: their numbers say nothing.
        let valid = match step {
            _ if !words.is_empty() => words.join(", "),
            1 => format!("{min} to {max}"),
            _ => format!("{min} to {max}, by {step}"),
        };
        rows.push(vec![name.to_owned(), parameter.text(base.get(name)), valid]);
        abouts.push(about);
    }
    // Text reads from the left, unlike the numbers of a table.
    let mut text = String::new();
    for (row, about) in table(&rows).lines().zip(abouts) {
        text += row;
        text += "  ";
        text += about;
        text.push('\n');
    }
    text
}

/// Returns the command line, the program's name without its path.
fn command() -> String {
    let mut words = vec!["ut-decode".to_owned()];
    let quoted = |word: String| {
        if word.contains([' ', '*', '"']) {
            format!("'{word}'")
        } else {
            word
        }
    };
    words.extend(std::env::args().skip(1).map(quoted));
    words.join(" ")
}
