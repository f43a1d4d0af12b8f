//! `ut-decode throughput`: events a second.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use ut_decoding::Layout;
use ut_decoding::bench::throughput::{ENOUGH_DISTINCT, Sample, Settings, Throughput, run as measure};
use ut_decoding::bench::{Machine, Spread};
use ut_decoding::detector::BankVersion;
use ut_decoding::input::{Bank, BatchBuilder, Batches, EventBatch, EventMeta, Events, kind, to_mep};
use ut_decoding::synth::{Generator, Profile};

use crate::args::{BackendArgs, ClusterArgs, DetectorArgs, bank_format, layout_name, one_of};
use crate::detector::{Detector, SYNTHETIC};
use crate::output::{print_beside, say, write_json};
use crate::progress::Progress;
use crate::{Failure, usage};
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Seed of the embedded sample.
const SEED: u64 = 1;

/// Events of the input that are kept in memory, at the most.
const MAX_EVENTS: usize = 10_000;

/// Raw banks of a batch while reading.
const BATCH_BYTES: usize = 16 << 20;

/// Measure how many events a second are decoded.
///
/// Each thread decodes the whole sample over and over, with a decoder and buffers of its own; the rate is that of all
/// threads together. Without FILE the sample is 1000 synthetic events. Fewer than 1000 distinct events flatter the
/// branch predictor: they are repeated to make 1000, and the result says so.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// MDF files or Allen-layout dumps; none: the embedded synthetic sample.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Events of a batch.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: u32,
    /// How long to measure, in seconds.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    duration: f64,
    /// Write the result as JSON here; - is standard output.
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// How busy the events of the embedded sample are.
    #[arg(long, default_value = "pp-nominal", value_parser = one_of!(Profile::ALL, Profile::name), conflicts_with = "files")]
    profile: Profile,
    /// Bank format of the embedded sample.
    #[arg(long, default_value = "v5", value_parser = bank_format(), conflicts_with = "files")]
    format: BankVersion,
    #[command(flatten)]
    detector: DetectorArgs,
    #[command(flatten)]
    clustering: ClusterArgs,
    #[command(flatten)]
    backend: BackendArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let Ok(duration) = Duration::try_from_secs_f64(args.duration) else {
        usage("--duration must be a number of seconds, not negative");
    };
    let (detector, events, source) = if args.files.is_empty() {
        let name = format!("embedded {} {} events, seed {SEED}", args.profile.name(), args.format.name());
        let events = vec![embedded_sample(args.profile, args.format)?];
        let detector = if args.detector.boards.is_some() {
            Detector::load(&args.detector, &[])?
        } else {
            Detector::embedded(args.format, &args.detector)?
        };
        (detector, events, name)
    } else {
        let detector = Detector::load(&args.detector, &args.files)?;
        let names: Vec<_> = args.files.iter().map(|file| file.display().to_string()).collect();
        let events = read(&args.files, &detector)?;
        (detector, events, names.join(" "))
    };
    let mut sample = Sample::new(&events, args.batch as usize);
    drop(events);
    if sample.events == 0 {
        return Err(format!("{source}: there is no event").into());
    }
    if args.backend.layout == Layout::Mep {
        sample = sample.transposed(to_mep)?;
    }
    let settings = Settings {
        backend: args.backend.backend,
        options: args.clustering.options(),
        threads: match args.backend.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            n => usize::from(n),
        },
        duration,
    };
    let mut progress = Progress::new(duration.as_millis() as u64, "measuring {wide_bar} {eta} left");
    let result = measure(&sample, &detector.tables, &settings, |elapsed| progress.set(elapsed.as_millis() as u64))?;
    drop(progress);
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
            map.insert("machine".to_owned(), json!(machine));
            map.insert("cpu".to_owned(), json!(machine.cpu));
            map.insert("commit".to_owned(), json!(machine.commit));
        }
        write_json(path, &value)?;
    }
    print_beside(args.json.as_deref(), &text(args, &result, &machine, &source))?;
    Ok(())
}

/// 1000 events of a profile, as one batch.
pub fn embedded_sample(profile: Profile, format: BankVersion) -> Result<EventBatch, Failure> {
    let mut builder = BatchBuilder::new();
    for event in Generator::new(profile, format, SEED).take(ENOUGH_DISTINCT) {
        let meta = EventMeta { run: Some(event.run), event: Some(event.event), ..EventMeta::default() };
        let banks = event.banks.iter().map(|(source_id, payload)| Bank {
            kind: kind::UT,
            version: Some(format.byte()),
            source_id: u32::from(*source_id),
            payload,
        });
        builder.push(meta, banks)?;
    }
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    Ok(batch)
}

/// The events of `files`, as far as they are to be kept in memory.
pub fn read(files: &[PathBuf], detector: &Detector) -> Result<Vec<EventBatch>, Failure> {
    let mut batches = Batches::new(Events::new(files), 100, BATCH_BYTES);
    let (mut all, mut events) = (Vec::new(), 0);
    loop {
        let mut batch = EventBatch::default();
        if !batches.next_into(&mut batch)? {
            break;
        }
        events += batch.n_events;
        all.push(batch);
        if events >= MAX_EVENTS {
            say(&format!("warning: there may be more events; the first {events} are measured"));
            break;
        }
    }
    // Banks that are skipped are decoded very fast.
    detector.check_versions(batches.seen())?;
    if detector.is_embedded() && batches.seen().measured > 0 {
        say(&format!("warning: {SYNTHETIC}"));
    }
    Ok(all)
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
    row("backend", format!("{}, {} threads", result.backend, result.threads));
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
