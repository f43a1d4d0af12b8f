//! `ut-decode ablation`: worth of each optimisation.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;
use ut_bench::ablation::{Ladder, PUBLISHED, RUNGS, Rung};
use ut_bench::chip::Chip;
use ut_bench::environment::Environment;
use ut_bench::work::METRICS;
use ut_bench::{Change, Machine, Spread};
use ut_decoders::Backend;
use ut_decoders::parameters::layout_name;

use crate::args::{ParameterArgs, seconds};
use crate::output::{print_beside, write_json};
use crate::progress::Progress;
use crate::sample::Loaded;
use crate::table::table;
use crate::trial::EventsArgs;
use crate::{Failure, config, usage};

const BEST_KNOWN: &str = "The published figures are of Allen's whole sequence trackmatching_veloscifi_and_utdecoding on an \
RTX A5000,\nof which the UT decoding is a part: compare the order of the steps, not the sizes.";

const TRAFFIC: &str =
    "traffic: bytes of the sectors, without tables that all events share, over the bytes in and out
distinct: the same, each sector counted once per launch, as if caches kept it until its last use";

/// Climb the ladder of optimisations of Allen merge request !1663, each building on the one before.
///
/// With --backend cuda the kernels of the rungs are measured in interleaved rounds, batches and
/// hits lying on the device. With --backend emulated the executor counts what each rung asks of a
/// GPU, with the same result on every machine: sectors of 32 bytes, collectives, atomics, barriers,
/// idle lanes. The table also has registers and occupancy from the compiled PTX, and the rates that
/// the merge request gives for an RTX A5000. The hits of every rung are compared with the reference
/// first.
#[derive(Debug, clap::Args)]
#[command(mut_arg("backend", |arg| arg.default_value("emulated")))]
pub struct Args {
    #[command(flatten)]
    sample: EventsArgs,
    /// Measure for this time, in seconds, on cuda (0: two single passes, which show only that it
    /// works); counting on emulated ignores it.
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    duration: f64,
    /// Write the result as JSON here, kernel by kernel; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    backend: ParameterArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let backend = args.backend.backend;
    if !matches!(backend, Backend::Emulated | Backend::Cuda) {
        usage(&format!(
            "the ladder consists of device kernels, which {backend} does not run: --backend \
             emulated counts their work, \
             --backend cuda measures them"
        ));
    }
    let Ok(duration) = seconds(args.duration) else {
        usage("--duration must be a number of seconds, not negative");
    };
    let (launch, options) = (args.backend.parameters(), config::options());
    let threads = launch.decoders(backend);
    let Loaded {
        detector,
        sample,
        source,
        ..
    } = Loaded::all(&args.sample.files, backend, &launch)?;
    let on_gpu = backend == Backend::Cuda;
    let mut environment = on_gpu.then(|| Environment::of(backend));
    let facts = environment.as_ref().and_then(Environment::facts);
    let chip = Chip::of_environment(facts);
    let ladder = Ladder {
        sample: &sample,
        tables: &detector.tables,
        options,
        launch,
        chip: &chip,
    };
    let rungs = if on_gpu {
        let mut progress = Progress::new(
            duration.as_millis() as u64,
            "measuring {wide_bar} {eta} left",
        );
        ladder.measure(threads, duration, |elapsed| {
            progress.set(elapsed.as_millis() as u64);
            environment.iter_mut().for_each(Environment::tick);
        })?
    } else {
        let mut progress = Progress::new(RUNGS as u64, "rung {pos} of {len} {wide_bar} {eta} left");
        ladder.count(|done| progress.set(done as u64))?
    };
    let machine = Machine::this();
    if let Some(path) = &args.json {
        let value = json!({
            "backend": backend.name(),
            "sample": source,
            "events": sample.events,
            "batch": launch.batch(),
            "layout": layout_name(launch.layout()),
            "grouping": detector.tables.grouping().name(),
            "bank_version": detector.tables.boards().version.byte(),
            "options": options,
            "set": args.backend.set,
            "arch": chip.name,
            "machine": machine,
            "environment": environment.as_mut().map(Environment::json),
            "metrics": METRICS.map(|metric| json!({ "name": metric.name, "about": metric.about })),
            "published": PUBLISHED,
            "rungs": rungs,
        });
        write_json(path, &value)?;
    }
    let mut head = format!(
        "sample          {source}, {} events\nbackend         {backend}\n",
        sample.events
    );
    for (name, value) in environment.iter_mut().flat_map(Environment::in_words) {
        let _ = writeln!(head, "{name:<16}{value}");
    }
    let text = head + "\n" + &tables(&rungs, threads, &chip.name);
    print_beside(args.json.as_deref(), &text)?;
    Ok(())
}

/// Returns the tables of what was counted, measured and compiled.
fn tables(rungs: &[Rung], threads: usize, arch: &str) -> String {
    let mut parts = Vec::new();
    if rungs.iter().any(|rung| rung.work.is_some()) {
        parts.push(format!(
            "mean counts per event, with the change from the previous rung\n{}\n{TRAFFIC}\n\n",
            work_table(rungs)
        ));
    }
    if rungs.iter().any(|rung| rung.measured.is_some()) {
        parts.push(format!(
            "events per second of the kernels alone, {} streams, with the change from the previous \
             rung\n{}\n",
            threads,
            rate_table(rungs)
        ));
    }
    parts.push(format!("{}\n{BEST_KNOWN}\n", resource_table(rungs, arch)));
    parts.concat()
}

const COLUMNS: [(&str, &str); 7] = [
    ("global_sectors", "sectors"),
    ("table_sectors", "of tables"),
    ("global_accesses", "global"),
    ("shared_accesses", "shared"),
    ("collectives", "collectives"),
    ("shared_atomics", "atomics"),
    ("barriers", "barriers"),
];

fn work_table(rungs: &[Rung]) -> String {
    let mut head = vec!["rung".to_owned()];
    for (_, short) in COLUMNS {
        head.extend([short.to_owned(), String::new()]);
    }
    head.extend(["lanes/atomic", "lanes/coll.", "idle", "traffic", "distinct"].map(str::to_owned));
    let mut rows = vec![head];
    for rung in rungs {
        let Some(work) = &rung.work else { continue };
        let mut row = vec![rung.rung.clone()];
        for (name, _) in COLUMNS {
            let count = work
                .per_event
                .iter()
                .find(|(metric, _)| metric == name)
                .map(|(_, count)| *count);
            let change = work
                .change_percent
                .iter()
                .find(|(metric, _)| metric == name)
                .and_then(|(_, change)| *change);
            row.push(count.map_or_else(String::new, number));
            row.push(change.map_or_else(String::new, percent));
        }
        row.push(format!("{:.2}", work.lanes_per_atomic));
        row.push(format!("{:.1}", work.lanes_per_collective));
        row.push(format!("{:.0} %", 100.0 * work.idle_share));
        row.push(format!("{:.2}", work.traffic));
        row.push(format!("{:.2}", work.distinct_traffic));
        rows.push(row);
    }
    table(&rows)
}

fn rate_table(rungs: &[Rung]) -> String {
    let head = [
        "rung",
        "events/s",
        "half of them",
        "to the previous rung (95 %)",
        "to the first (95 %)",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for rung in rungs {
        let Some(measured) = &rung.measured else {
            continue;
        };
        let Spread { median, q1, q3, .. } = measured.events_per_second;
        let change =
            |change: &Option<Change>| change.as_ref().map_or_else(String::new, Change::to_string);
        rows.push(vec![
            rung.rung.clone(),
            format!("{median:.0}"),
            format!("{q1:.0} to {q3:.0}"),
            change(&measured.change),
            change(&measured.change_to_first),
        ]);
    }
    table(&rows)
}

fn resource_table(rungs: &[Rung], arch: &str) -> String {
    let kernels = ["count_hits", "cluster_and_predecode", "decode_in_order"];
    let mut rows = vec![vec!["rung".to_owned()]];
    rows[0].extend(kernels.map(str::to_owned));
    rows[0].extend(["A5000, events/s".to_owned(), String::new()]);
    for rung in rungs {
        let mut row = vec![rung.rung.clone()];
        for kernel in kernels {
            let found = rung.resources.iter().find(|of| of.kernel == kernel);
            row.push(found.map_or_else(
                || "-".to_owned(),
                |of| format!("{} registers, {:.0} %", of.registers, 100.0 * of.occupancy),
            ));
        }
        row.push(
            rung.published_events_per_second
                .map_or_else(String::new, |rate| rate.to_string()),
        );
        row.push(
            rung.published_change_percent
                .map_or_else(String::new, percent),
        );
        rows.push(row);
    }
    format!(
        "registers per thread and occupancy on {arch}, next to the figures of !1663\n{}",
        table(&rows)
    )
}

fn number(value: f64) -> String {
    if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn percent(value: f64) -> String {
    // -0.0 would read as a change.
    if value.abs() < 0.05 {
        "=".to_owned()
    } else {
        format!("{value:+.1} %")
    }
}
