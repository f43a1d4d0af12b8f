//! Results of `throughput` for people.
//!
//! A rate is shown as a median with quartiles: half of the repetitions lie between them. Everything
//! that makes a rate doubtful (few distinct events, single passes, a debug build, events with
//! trouble) is a note above it, so that a copied result has its caveats with it.

use std::fmt::Write as _;

use ut_bench::environment::{Environment, GpuReport};
use ut_bench::modes::{KernelTime, Mode};
use ut_bench::throughput::{ModeResult, Throughput};
use ut_bench::timing::MIN_ROUNDS;
use ut_bench::{ENOUGH_DISTINCT, Machine, Spread};
use ut_decoders::Backend;

use super::Args;
use crate::output::count;
use crate::table::table;
use ut_decoders::parameters::layout_name;

fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<20}{value}");
}

fn spread(s: &Spread, digits: usize) -> String {
    format!(
        "{:.digits$}   (half of them {:.digits$} to {:.digits$}; {:.digits$} to {:.digits$})",
        s.median, s.q1, s.q3, s.min, s.max
    )
}

pub fn head(
    args: &Args,
    variant: Option<&str>,
    results: &[Throughput],
    machine: &Machine,
    source: &str,
    environment: &mut Environment,
) -> String {
    let mut text = String::new();
    let Some(result) = results.first() else {
        return text;
    };
    let mut row = |name: &str, value: String| row(&mut text, name, &value);
    row("sample", source.to_owned());
    let layout = layout_name(args.backend.layout().unwrap_or_default());
    for Throughput {
        events,
        distinct_events,
        batch,
        ..
    } in results
    {
        row(
            "events",
            format!("{events} in batches of {batch} ({layout} layout), {distinct_events} distinct"),
        );
    }
    let [strips, hits, bytes] = [
        result.strips_per_event,
        result.hits_per_event,
        result.bytes_per_event,
    ];
    row(
        "per event",
        format!("{strips:.0} strips, {hits:.0} hits, {bytes:.0} bytes"),
    );
    let set = [String::new()]
        .into_iter()
        .chain(args.backend.set.iter().cloned())
        .collect::<Vec<_>>()
        .join(", ");
    let thread = if args.backend.backend == Backend::Cuda {
        "stream"
    } else {
        "thread"
    };
    let variant = variant.map_or(String::new(), |name| format!(" ({name})"));
    row(
        "backend",
        format!(
            "{}{variant}, {}{set}",
            result.backend,
            count(result.threads, thread)
        ),
    );
    row(
        "cpu",
        format!(
            "{}, {}",
            machine.cpu.as_deref().unwrap_or("unknown"),
            count(machine.cores, "core")
        ),
    );
    for (name, value) in environment.in_words() {
        row(name, value);
    }
    row("version", crate::output::version_in_words());
    row("repetitions", result.repetitions.to_string());
    if result.repetitions < MIN_ROUNDS {
        row(
            "note",
            "single passes without warm-up: these rates show only that it works; use --duration 1 or more".to_owned(),
        );
    }
    let distinct = result.distinct_events;
    if distinct < ENOUGH_DISTINCT {
        row(
            "note",
            format!(
                "only {}, repeated: that flatters branch predictors and caches",
                count(distinct, "distinct event")
            ),
        );
    }
    if result.events_with_trouble > 0 {
        let n = result.events_with_trouble;
        row(
            "note",
            format!("{n} of the events have trouble (see decode): what is skipped takes no time"),
        );
    }
    if !machine.optimised {
        row(
            "note",
            "built without optimisation: for numbers that count, cargo run --release".to_owned(),
        );
    }
    text
}

pub fn one(result: &Throughput) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| row(&mut text, name, &value);
    row("events/s", spread(&result.events_per_second, 0));
    row(
        "events/s per thread",
        format!("{:.0}", result.events_per_second_per_thread),
    );
    row(
        "10^6 strips/s",
        spread(&result.strips_per_second.times(1e-6), 1),
    );
    row("GB/s of raw banks", spread(&result.gigabytes_per_second, 3));
    row("a batch takes, us", spread(&result.latency.us, 1));
    text
}

pub fn several(results: &[Throughput]) -> String {
    let head = [
        "batch",
        "events/s",
        "half of them",
        "a batch takes, us",
        "half of them",
        "99 % at most",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for result in results {
        let (rate, latency) = (&result.events_per_second, &result.latency);
        rows.push(vec![
            result.batch.to_string(),
            format!("{:.0}", rate.median),
            format!("{:.0} to {:.0}", rate.q1, rate.q3),
            format!("{:.1}", latency.us.median),
            format!("{:.1} to {:.1}", latency.us.q1, latency.us.q3),
            format!("{:.1}", latency.p99_us),
        ]);
    }
    format!(
        "\n{}\na batch alone, on one decoder; events/s of all decoders together\n",
        table(&rows)
    )
}

pub fn on_gpu(result: &Throughput, gpu: Option<&GpuReport>) -> String {
    let unknown = || "unknown".to_owned();
    let share = |bytes: f64, peak: Option<f64>| {
        peak.map_or_else(unknown, |peak| format!("{:.1} %", 100.0 * bytes / peak))
    };
    let peak = gpu.and_then(|gpu| gpu.peak_bandwidth);
    let link = gpu.and_then(|gpu| gpu.link?.peak_bandwidth());
    let [read, written] = [result.bytes_in_per_event, result.bytes_out_per_event];
    let head = [
        "mode",
        "events/s",
        "half of them",
        "a batch takes, us",
        "GB/s read",
        "GB/s written",
        "of memory",
        "of link in",
        "of link out",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for ModeResult {
        mode,
        events_per_second: rate,
        latency,
        ..
    } in &result.modes
    {
        let (none, median) = (String::new(), rate.median);
        rows.push(vec![
            mode.name().to_owned(),
            format!("{median:.0}"),
            format!("{:.0} to {:.0}", rate.q1, rate.q3),
            format!("{:.1}", latency.us.median),
            format!("{:.3}", median * read * 1e-9),
            format!("{:.3}", median * written * 1e-9),
            share(median * (read + written), peak),
            if matches!(mode, Mode::DeviceResident | Mode::Sequence) {
                none.clone()
            } else {
                share(median * read, link)
            },
            if *mode == Mode::EndToEnd {
                share(median * written, link)
            } else {
                none
            },
        ]);
    }
    let mut text = format!("\nbatches of {}\n{}", result.batch, table(&rows));
    let _ = writeln!(
        text,
        "per event: {read:.0} bytes read, {written:.0} written"
    );
    let mut rows = vec![
        ["kernel", "ns per event", "half of them", "share"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for KernelTime {
        kernel,
        ns_per_event: time,
        share,
    } in &result.kernels
    {
        let half = format!("{:.1} to {:.1}", time.q1, time.q3);
        rows.push(vec![
            kernel.clone(),
            format!("{:.1}", time.median),
            half,
            format!("{:.1} %", 100.0 * share),
        ]);
    }
    let _ = write!(
        text,
        "\nby the device's clock, one batch at a time\n{}",
        table(&rows)
    );
    text
}
