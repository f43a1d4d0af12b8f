//! `ut-decode throughput`: events a second.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use ut_decoding::backend::Backend;
use ut_decoding::backend::cpu::{CpuConfig, CpuDecoder, Stage};
use ut_decoding::bench::decoding::{self, DecodeDevice};
use ut_decoding::bench::throughput::{Settings, Throughput, run as measure};
use ut_decoding::bench::{ENOUGH_DISTINCT, Machine, Sample, Setting, Spread};
use ut_decoding::{BatchReport, UtHits};

use crate::args::{BackendArgs, ClusterArgs, DetectorArgs, layout_name};
use crate::detector::Detector;
use crate::online::{self, OnlineArgs, Work};
use crate::output::{print_beside, write_json};
use crate::progress::Progress;
use crate::sample::{Loaded, SampleArgs};
use crate::tuned::TunedArgs;
use crate::{Failure, usage};

/// Measure how many events a second are decoded.
///
/// Each thread decodes the whole sample over and over, with a decoder and buffers of its own; the rate is that of all
/// threads together. Without FILE the sample is 1000 synthetic events. Fewer than 1000 distinct events flatter the
/// branch predictor: they are repeated to make 1000, and the result says so.
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
    let Loaded { detector, events, wanted, sample, source } = Loaded::new(&args.sample, &args.detector, &args.backend)?;
    if args.online.tune.is_some() {
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
        let work = Work {
            backend,
            device: DecodeDevice::new(backend, &detector.tables, options, events),
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
    let tuned = tuned(args, &detector);
    let sample = match (tuned, args.sample.batch) {
        (Some(tuned), None) => Setting { batch: tuned.batch, layout: args.backend.layout, ..tuned }
            .sample(&events, wanted.max(if args.sample.events.is_none() { tuned.batch } else { 0 }))?,
        _ => sample,
    };
    drop(events);
    let settings = settings(args, tuned, duration);
    let mut progress = Progress::new(duration.as_millis() as u64, "measuring {wide_bar} {eta} left");
    let result = measure(&sample, &detector.tables, &settings, |elapsed| progress.set(elapsed.as_millis() as u64))?;
    drop(progress);
    let stages = if args.stages { Some(stage_times(&sample, &detector, &settings)?) } else { None };
    let machine = Machine::this();
    if let Some(path) = &args.json {
        let mut value = serde_json::to_value(&result)?;
        if let Value::Object(map) = &mut value {
            map.insert("sample".to_owned(), source.clone().into());
            map.insert("repeated_events".to_owned(), (result.distinct_events < result.events).into());
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
            map.insert("machine".to_owned(), json!(machine));
            map.insert("cpu".to_owned(), json!(machine.cpu));
            map.insert("commit".to_owned(), json!(machine.commit));
        }
        write_json(path, &value)?;
    }
    let mut text = text(args, &result, &machine, &source);
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
    let tuned = || args.tuned.setting(args.backend.backend, &detector.tables, &args.clustering.options());
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
        // Threads of one decoder are decoders of one thread here; a GPU has streams.
        let threads = if backend == Backend::Cpu { tuned.knobs.cpu.threads } else { tuned.threads };
        if args.backend.threads == 0 && threads > 0 && backend != Backend::Emulated {
            settings.threads = threads;
        }
    }
    settings
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

fn text(args: &Args, result: &Throughput, machine: &Machine, source: &str) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<20}{value}");
    };
    let spread = |s: &Spread, digits: usize| {
        format!(
            "{:.digits$}   (half of them {:.digits$} to {:.digits$}; {:.digits$} to {:.digits$})",
            s.median, s.q1, s.q3, s.min, s.max
        )
    };
    row("sample", source.to_owned());
    let Throughput { events, distinct_events, batch, .. } = result;
    row(
        "events",
        format!(
            "{events} in batches of {batch} ({} layout), {distinct_events} distinct",
            layout_name(args.backend.layout)
        ),
    );
    let [strips, hits, bytes] = [result.strips_per_event, result.hits_per_event, result.bytes_per_event];
    row("an event", format!("{strips:.0} strips, {hits:.0} hits, {bytes:.0} bytes"));
    let set = [String::new()].into_iter().chain(args.backend.settings.iter().cloned()).collect::<Vec<_>>().join(", ");
    row("backend", format!("{}, {} threads{set}", result.backend, result.threads));
    row("cpu", format!("{}, {} cores", machine.cpu.as_deref().unwrap_or("unknown"), machine.cores));
    row("version", format!("{}, commit {}", machine.version, machine.commit.as_deref().unwrap_or("unknown")));
    row("repetitions", result.repetitions.to_string());
    row("events/s", spread(&result.events_per_second, 0));
    row("events/s a thread", format!("{:.0}", result.events_per_second_per_thread));
    row("10^6 strips/s", spread(&result.strips_per_second.times(1e-6), 1));
    row("GB/s of raw banks", spread(&result.gigabytes_per_second, 3));
    if distinct_events < &ENOUGH_DISTINCT {
        row("note", format!("only {distinct_events} distinct events, repeated: that flatters the branch predictor"));
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
