//! `ut-decode throughput`: events a second.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use ut_decoding::backend::Backend;
use ut_decoding::backend::cpu::{CpuConfig, CpuDecoder, Stage};
use ut_decoding::backend::emulated::EmulatedConfig;
use ut_decoding::bench::decoding::{self, DecodeDevice};
use ut_decoding::bench::environment::{Environment, GpuReport};
use ut_decoding::bench::modes::{KernelTime, Mode};
use ut_decoding::bench::throughput::{ModeResult, Settings, Throughput, run as measure};
use ut_decoding::bench::tunable::{self, Subject};
use ut_decoding::bench::work::{self as counted, metric};
use ut_decoding::bench::{ENOUGH_DISTINCT, Expected, Machine, Sample, Setting, Spread};
use ut_decoding::{BatchReport, Layout, UtHits};

use crate::args::{BackendArgs, ClusterArgs, DetectorArgs, layout_name};
use crate::detector::Detector;
use crate::online::{self, OnlineArgs, Work};
use crate::output::{print_beside, write_json};
use crate::progress::Progress;
use crate::sample::{Loaded, SampleArgs};
use crate::table::table;
use crate::tuned::TunedArgs;
use crate::{Failure, usage};

/// Measure how many events a second are decoded.
///
/// Each thread decodes the whole sample over and over, with a decoder and buffers of its own; the rate is that of all
/// threads together. With --backend cuda three modes take turns: the kernels alone, with batches and hits on the device;
/// the same with the batches copied in; the whole way. --batch 1,10,100 measures several batch sizes in turn. Without FILE
/// the sample is 1000 synthetic events. Fewer than 1000 distinct events flatter the branch predictor: they are repeated to
/// make 1000, and the result says so.
///
/// Where `tune` has found something for this backend, machine and banks it is used, and said.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long to measure, in seconds.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    duration: f64,
    /// Also say where the time of the cpu backend goes, stage by stage, on one thread.
    #[arg(long, conflicts_with = "tune")]
    stages: bool,
    /// Write the result as JSON here; - is standard output.
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    #[command(flatten)]
    sample: SampleArgs,
    #[command(flatten)]
    detector: DetectorArgs,
    #[command(flatten)]
    clustering: ClusterArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    online: OnlineArgs,
    #[command(flatten)]
    tuned: TunedArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let Ok(duration) = Duration::try_from_secs_f64(args.duration) else {
        usage("--duration must be a number of seconds, not negative");
    };
    let loaded = Loaded::new(&args.sample, &args.detector, &args.backend)?;
    if args.online.tune.is_some() {
        let Loaded { detector, events, source, .. } = loaded;
        let backend = args.backend.backend;
        let mut default = vec![format!("layout={}", layout_name(args.backend.layout))];
        match (backend, args.backend.threads) {
            (Backend::Cpu, threads) => default.push(format!("cpu.threads={threads}")),
            (Backend::Cuda, streams @ 1..) => default.push(format!("streams={streams}")),
            _ => (),
        }
        default.extend(args.backend.settings.iter().cloned());
        let default = decoding::parse(backend, &default.join(",")).unwrap_or_else(|error| usage(&error.to_string()));
        let options = args.clustering.options();
        let subject = Subject { backend, pipeline: args.backend.pipeline.unwrap_or_default() };
        let names: Vec<&str> = decoding::knobs(backend).iter().map(|knob| knob.name).collect();
        let device = DecodeDevice::new(backend, &detector.tables, options, events);
        let work = Work {
            subject,
            device: device.with_knobs(&names, tunable::base(subject))?,
            workload: args.tuned.tuned_for(&detector.tables, &options)?,
            default,
            source: &source,
            duration,
        };
        return online::run(&args.tuned, work, args.json.as_deref());
    }
    if args.stages && args.backend.backend != Backend::Cpu {
        usage("--stages are those of --backend cpu");
    }
    let tuned = tuned(args, &loaded.detector);
    let settings = settings(args, tuned, duration);
    let expected = loaded.expected(args.backend.layout, settings.options)?;
    let batches = match tuned {
        Some(tuned) if args.sample.batches.is_empty() => vec![tuned.batch as u32],
        _ => args.sample.sizes(),
    };
    let samples = loaded.samples(&args.sample, &args.backend, &batches)?;
    let Loaded { detector, source, sample, .. } = loaded;
    let mut environment = Environment::of(settings.backend);
    let mut progress = Progress::new(duration.as_millis() as u64, "measuring {wide_bar} {eta} left");
    let tick = |elapsed: Duration| {
        progress.set(elapsed.as_millis() as u64);
        environment.tick();
    };
    let results = measure(&samples, &detector.tables, &expected, &settings, tick)?;
    drop(progress);
    let stages = if args.stages { Some(stage_times(&sample, &detector, &settings)?) } else { None };
    let asked = if matches!(settings.backend, Backend::Emulated | Backend::Cuda) {
        asked(&samples, &detector, &settings, &expected)
    } else {
        None
    };
    let machine = Machine::this();
    if let Some(path) = &args.json {
        // One batch size: its result is the object itself.
        let mut value = match &results[..] {
            [result] => serde_json::to_value(result)?,
            results => json!({ "batches": results }),
        };
        if let Value::Object(map) = &mut value {
            map.insert("sample".to_owned(), source.clone().into());
            map.insert("repeated_events".to_owned(), results.iter().any(|r| r.distinct_events < r.events).into());
            map.insert("layout".to_owned(), layout_name(args.backend.layout).into());
            map.insert("embedded_detector".to_owned(), detector.is_embedded().into());
            map.insert("grouping".to_owned(), detector.tables.grouping.name().into());
            map.insert("bank_version".to_owned(), detector.tables.boards.version.byte().into());
            map.insert("options".to_owned(), json!(settings.options));
            map.insert("set".to_owned(), json!(args.backend.settings));
            map.insert("tuned".to_owned(), tuned.is_some().into());
            if let Some(stages) = &stages {
                let micros = stages.iter().map(|(stage, time)| (stage.name().to_owned(), json!(time)));
                map.insert("stages_us_per_event".to_owned(), micros.collect());
            }
            map.insert("sector_bytes_per_event".to_owned(), json!(asked));
            map.insert("environment".to_owned(), environment.json());
            map.insert("machine".to_owned(), json!(machine));
            map.insert("cpu".to_owned(), json!(machine.cpu));
            map.insert("commit".to_owned(), json!(machine.commit));
        }
        write_json(path, &value)?;
    }
    let mut text = head(args, &results, &machine, &source, &mut environment);
    match &results[..] {
        [result] => text += &one(result),
        results => text += &several(results),
    }
    let (_, gpu) = environment.seen();
    for result in results.iter().filter(|result| !result.modes.is_empty()) {
        text += &on_gpu(result, gpu, asked);
    }
    if let Some(stages) = &stages {
        let total: f64 = stages.iter().map(|(_, time)| time).sum();
        text += "\nstages, on one thread, the clock's own time included\n";
        for (stage, time) in stages {
            let _ = writeln!(text, "  {:<18}{time:7.2} us an event  {:5.1} %", stage.name(), 100.0 * time / total);
        }
    }
    print_beside(args.json.as_deref(), &text)?;
    Ok(())
}

/// What was tuned for this backend, unless something is set by hand: who does that wants to see what it does.
fn tuned(args: &Args, detector: &Detector) -> Option<Setting> {
    let by_hand = !args.backend.settings.is_empty() || args.backend.simd.is_some();
    let what = (args.backend.backend, args.backend.pipeline.unwrap_or_default());
    let tuned = || args.tuned.setting(what, &detector.tables, &args.clustering.options());
    if by_hand { None } else { tuned() }
}

/// How it is measured: with what was tuned, as far as options do not say otherwise.
fn settings(args: &Args, tuned: Option<Setting>, duration: Duration) -> Settings {
    let backend = args.backend.backend;
    let mut settings = Settings {
        backend,
        options: args.clustering.options(),
        knobs: args.backend.knobs(1),
        threads: args.backend.n_threads(),
        duration,
    };
    if let Some(tuned) = tuned {
        settings.knobs.launch = tuned.knobs.launch;
        settings.knobs.cpu.chunk = tuned.knobs.cpu.chunk;
        // The threads of one decoder are as many decoders of one thread here; a GPU has streams.
        let threads = match backend {
            Backend::Cpu => tuned.knobs.cpu.threads,
            Backend::Cuda => tuned.threads,
            Backend::Reference | Backend::Emulated => 0,
        };
        if args.backend.threads == 0 && threads > 0 {
            settings.threads = threads;
        }
    }
    settings
}

/// Events on which the executor counts the sectors that the kernels ask for.
const COUNTED_EVENTS: usize = 20;

/// Bytes an event of the 32-byte sectors that the kernels' warps ask of global memory, as the executor counts them on some
/// of the events: what is moved, were there no caches. `None` where it cannot tell.
fn asked(samples: &[Sample], detector: &Detector, settings: &Settings, expected: &Expected) -> Option<f64> {
    let few = Sample::of(&samples.first()?.batches, COUNTED_EVENTS, COUNTED_EVENTS);
    if samples[0].batches[0].layout != Layout::Allen {
        return None;
    }
    let config = EmulatedConfig {
        launch: settings.knobs.launch,
        pipeline: settings.knobs.pipeline,
        ..EmulatedConfig::default()
    };
    let work = counted::Work::count(&few, &detector.tables, settings.options, config, expected).ok()?.ok()?;
    Some(32.0 * work.per_event(metric("global_sectors")?))
}

/// Passes over the sample that the stages are timed on; of each stage the fastest pass counts.
const STAGE_PASSES: usize = 20;

/// Microseconds an event that each stage of the CPU decoder takes.
fn stage_times(sample: &Sample, detector: &Detector, settings: &Settings) -> Result<Vec<(Stage, f64)>, Failure> {
    let config = CpuConfig { threads: 1, ..settings.knobs.cpu };
    let mut decoder = CpuDecoder::new(&detector.tables, settings.options, config)?;
    let max_events = sample.batches.iter().map(|batch| batch.n_events).max().unwrap_or_default();
    let max_hits = sample.batches.iter().map(|batch| batch.view().max_hits()).max().unwrap_or_default();
    let mut hits = UtHits::with_capacity(max_events, detector.tables.n_groups, max_hits);
    let mut report = BatchReport::new();
    let mut best = Stage::ALL.map(|stage| (stage, f64::INFINITY));
    for _ in 0..STAGE_PASSES {
        let mut pass = [0.0; Stage::ALL.len()];
        for batch in &sample.batches {
            let times = decoder.decode_in_stages(batch.view(), &mut hits, &mut report)?;
            for (sum, stage) in pass.iter_mut().zip(Stage::ALL) {
                *sum += times.of(stage).as_secs_f64() * 1e6;
            }
        }
        for ((_, best), time) in best.iter_mut().zip(pass) {
            *best = best.min(time / sample.events as f64);
        }
    }
    Ok(best.to_vec())
}

/// A name and a value.
fn row(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:<20}{value}");
}

fn spread(s: &Spread, digits: usize) -> String {
    format!(
        "{:.digits$}   (half of them {:.digits$} to {:.digits$}; {:.digits$} to {:.digits$})",
        s.median, s.q1, s.q3, s.min, s.max
    )
}

/// What was measured, and on what.
fn head(args: &Args, results: &[Throughput], machine: &Machine, source: &str, environment: &mut Environment) -> String {
    let mut text = String::new();
    let Some(result) = results.first() else { return text };
    let mut row = |name: &str, value: String| row(&mut text, name, &value);
    row("sample", source.to_owned());
    let layout = layout_name(args.backend.layout);
    for Throughput { events, distinct_events, batch, .. } in results {
        row("events", format!("{events} in batches of {batch} ({layout} layout), {distinct_events} distinct"));
    }
    let [strips, hits, bytes] = [result.strips_per_event, result.hits_per_event, result.bytes_per_event];
    row("an event", format!("{strips:.0} strips, {hits:.0} hits, {bytes:.0} bytes"));
    let set = [String::new()].into_iter().chain(args.backend.settings.iter().cloned()).collect::<Vec<_>>().join(", ");
    let threads = if args.backend.backend == Backend::Cuda { "streams" } else { "threads" };
    row("backend", format!("{}, {} {threads}{set}", result.backend, result.threads));
    row("cpu", format!("{}, {} cores", machine.cpu.as_deref().unwrap_or("unknown"), machine.cores));
    for (name, value) in environment.in_words() {
        row(name, value);
    }
    row("version", format!("{}, commit {}", machine.version, machine.commit.as_deref().unwrap_or("unknown")));
    row("repetitions", result.repetitions.to_string());
    let distinct = result.distinct_events;
    if distinct < ENOUGH_DISTINCT {
        row("note", format!("only {distinct} distinct events, repeated: that flatters branch predictors and caches"));
    }
    if result.events_with_trouble > 0 {
        let n = result.events_with_trouble;
        row("note", format!("{n} of the events have trouble (see decode): what is skipped takes no time"));
    }
    if !machine.optimised {
        row("note", "built without optimisation: for numbers that count, cargo run --release".to_owned());
    }
    text
}

/// The result in batches of one size.
fn one(result: &Throughput) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| row(&mut text, name, &value);
    row("events/s", spread(&result.events_per_second, 0));
    row("events/s a thread", format!("{:.0}", result.events_per_second_per_thread));
    row("10^6 strips/s", spread(&result.strips_per_second.times(1e-6), 1));
    row("GB/s of raw banks", spread(&result.gigabytes_per_second, 3));
    row("a batch takes, us", spread(&result.latency.us, 1));
    text
}

/// The results in batches of several sizes.
fn several(results: &[Throughput]) -> String {
    let head = ["batch", "events/s", "half of them", "a batch takes, us", "half of them", "99 % at most"];
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
    format!("\n{}\na batch alone, on one decoder; events/s of all decoders together\n", table(&rows))
}

/// The three modes and the kernels. `asked`: bytes an event of the sectors that the kernels ask for.
fn on_gpu(result: &Throughput, gpu: Option<&GpuReport>, asked: Option<f64>) -> String {
    let unknown = || "unknown".to_owned();
    let share =
        |bytes: f64, peak: Option<f64>| peak.map_or_else(unknown, |peak| format!("{:.1} %", 100.0 * bytes / peak));
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
        "asked of memory",
        "of link in",
        "of link out",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for ModeResult { mode, events_per_second: rate, latency, .. } in &result.modes {
        let (none, median) = (String::new(), rate.median);
        rows.push(vec![
            mode.name().to_owned(),
            format!("{median:.0}"),
            format!("{:.0} to {:.0}", rate.q1, rate.q3),
            format!("{:.1}", latency.us.median),
            format!("{:.3}", median * read * 1e-9),
            format!("{:.3}", median * written * 1e-9),
            share(median * (read + written), peak),
            asked.map_or_else(unknown, |asked| share(median * asked, peak)),
            if *mode == Mode::DeviceResident { none.clone() } else { share(median * read, link) },
            if *mode == Mode::EndToEnd { share(median * written, link) } else { none },
        ]);
    }
    let mut text = format!("\nbatches of {}\n{}", result.batch, table(&rows));
    let asked = asked.map_or_else(unknown, |bytes| format!("{bytes:.0} bytes"));
    let _ = writeln!(
        text,
        "an event: {read:.0} bytes read, {written:.0} written; its kernels ask for sectors of {asked} (counted, no caches)"
    );
    let mut rows = vec![["kernel", "ns an event", "half of them", "share"].map(str::to_owned).to_vec()];
    for KernelTime { kernel, ns_per_event: time, share } in &result.kernels {
        let half = format!("{:.1} to {:.1}", time.q1, time.q3);
        rows.push(vec![kernel.clone(), format!("{:.1}", time.median), half, format!("{:.1} %", 100.0 * share)]);
    }
    let _ = write!(text, "\nby the device's clock, one batch at a time\n{}", table(&rows));
    text
}
