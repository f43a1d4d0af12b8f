//! `ut-decode throughput`: rate of decoding.
//!
//! The order of `run` matters. The reference decodes the sample before anything is timed, so that a
//! decoder with wrong hits ends the command and has no rate. Tuned values are looked up before
//! samples are laid out, because the size of a batch may be tuned. The environment is watched from
//! before the first repetition to after the last one, since a machine that was busy for a part of
//! the time is a common reason for odd rates.

mod text;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use ut_bench::environment::Environment;
use ut_bench::throughput::{Measurement, run as measure};
use ut_bench::tunable::Subject;
use ut_bench::{ENOUGH_DISTINCT, Machine};
use ut_data::detector::BankVersion;
use ut_data::synth::Profile;
use ut_decoders::cpu::Simd;
use ut_decoders::parameters::layout_name;
use ut_decoders::{Backend, Parameters};
use ut_report::Detector;

use crate::args::{BackendArgs, ClusterArgs, DetectorArgs, bank_format, one_of, seconds};
use crate::online::{self, OnlineArgs, Work};
use crate::output::{print_beside, write_json};
use crate::progress::Progress;
use crate::sample::{Feeding, Loaded, SampleOptions, Synthetic};
use crate::trial::EventsArgs;
use crate::tuned::TunedArgs;
use crate::{Failure, usage};
use text::{head, on_gpu, one, several};

/// Measure how many events per second are decoded.
///
/// Each thread decodes the whole sample over and over, with its own decoder and buffers; the rate
/// counts all threads together. With --backend cuda several modes take turns: the kernels
/// alone, with batches and hits on the device; the same as a stage of a trigger sequence, which
/// counts the hits, waits for their number and then writes them (only with the pipeline ranked);
/// with the batches copied in; and end to end. --batch 1,10,100 measures several batch sizes in
/// turn. Without FILE the sample is 1000 synthetic events. Fewer than 1000 distinct events flatter
/// the branch predictor: they are repeated to make 1000, and the result says so.
///
/// Uses tuned values for this backend, machine and bank format if there are any, and says so.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure for this time, in seconds; 0: two single passes, which show only that it works.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    duration: f64,
    /// Events of a batch, or several sizes that are measured in turn [default: as tuned, else
    /// 256, on a GPU four times as many as it clusters at once, if that is more].
    #[arg(long = "batch", value_name = "N,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batches: Vec<u32>,
    /// Write the result as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
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

/// Which events are measured, and how many.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sample")]
struct SampleArgs {
    #[command(flatten)]
    of: EventsArgs,
    /// Profile of the synthetic events: how busy they are.
    #[arg(long, default_value = "pp-nominal", value_parser = one_of!(Profile::ALL, Profile::name), conflicts_with = "files")]
    profile: Profile,
    /// Bank format of the synthetic events.
    #[arg(long = "bank-format", alias = "format", value_name = "FORMAT", default_value = "v5", value_parser = bank_format(), conflicts_with = "files")]
    format: BankVersion,
    /// Events of a pass; repeated if there are fewer
    /// [default: all of FILE or 1000, whichever is more; at most 20 on the emulated backend].
    #[arg(long = "n-events", alias = "events", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    events: Option<u32>,
}

impl SampleArgs {
    fn wanted(&self) -> SampleOptions<'_> {
        SampleOptions {
            files: &self.of.files,
            synthetic: Synthetic {
                profile: self.profile,
                format: self.format,
            },
            events: self.events,
            least: ENOUGH_DISTINCT,
        }
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let duration =
        seconds(args.duration).unwrap_or_else(|error| usage(&format!("--duration {error}")));
    let (threads, layout) = (
        args.backend.n_threads(),
        args.backend.layout().unwrap_or_default(),
    );
    let set = args.backend.batch(args.batches.first().copied());
    let default = [set.unwrap_or_else(|| args.backend.backend.batch() as u32)];
    let sizes = if args.batches.is_empty() {
        &default[..]
    } else {
        &args.batches
    };
    let feeding = Feeding {
        backend: args.backend.backend,
        threads,
        layout,
        sizes,
    };
    let loaded = Loaded::new(args.sample.wanted(), &args.detector, feeding)?;
    if args.online.tune.is_some() {
        return tune_online(args, loaded, duration);
    }
    let tuned = tuned(args, &loaded.detector);
    let measurement = measurement(args, tuned, duration);
    let expected = loaded.expected(layout, measurement.options)?;
    let as_tuned = tuned.filter(|_| set.is_none()).map(|tuned| [tuned.batch()]);
    let sizes = as_tuned.as_ref().map_or(sizes, |sizes| &sizes[..]);
    let samples = loaded.samples(args.sample.events, Feeding { sizes, ..feeding })?;
    let Loaded {
        detector, source, ..
    } = loaded;
    let mut environment = Environment::of(measurement.backend);
    let mut progress = Progress::new(
        duration.as_millis() as u64,
        "measuring {wide_bar} {eta} left",
    );
    let tick = |elapsed: Duration| {
        progress.set(elapsed.as_millis() as u64);
        environment.tick();
    };
    let results = measure(&samples, &detector.tables, &expected, &measurement, tick)?;
    drop(progress);
    let machine = Machine::this();
    let variant = variant(&measurement);
    if let Some(path) = &args.json {
        // The result of one batch size is the object itself.
        let mut value = match &results[..] {
            [result] => serde_json::to_value(result)?,
            results => json!({ "batches": results }),
        };
        let tables = &detector.tables;
        let more = json!({
            "sample": source,
            "repeated_events": results.iter().any(|r| r.distinct_events < r.events),
            "layout": layout_name(layout),
            "embedded_detector": detector.is_embedded(),
            "grouping": tables.grouping().name(),
            "bank_version": tables.boards().version.byte(),
            "options": measurement.options,
            "set": args.backend.set,
            "simd": variant.filter(|_| measurement.backend == Backend::Cpu),
            "pipeline": variant.filter(|_| measurement.backend.runs_kernels()),
            "tuned": tuned.is_some(),
            "environment": environment.json(),
            "machine": machine,
            "cpu": machine.cpu,
            "commit": machine.commit,
        });
        if let (Value::Object(map), Value::Object(more)) = (&mut value, more) {
            map.extend(more);
            let facts = detector.facts().into_iter();
            map.extend(facts.map(|(key, value)| (format!("detector_{key}"), value.into())));
        }
        write_json(path, &value)?;
    }
    let mut text = head(args, variant, &results, &machine, &source, &mut environment);
    match &results[..] {
        [result] => text += &one(result),
        results => text += &several(results),
    }
    let (_, gpu) = environment.seen();
    for result in results.iter().filter(|result| !result.modes.is_empty()) {
        text += &on_gpu(result, gpu);
    }
    print_beside(args.json.as_deref(), &text)?;
    Ok(())
}

/// Measures while the on-line tuner chooses the parameters.
fn tune_online(args: &Args, loaded: Loaded, duration: Duration) -> Result<(), Failure> {
    let Loaded {
        detector,
        events,
        source,
        ..
    } = loaded;
    let backend = args.backend.backend;
    let layout = args.backend.layout().unwrap_or_default();
    let mut default = vec![format!("layout={}", layout_name(layout))];
    match (backend, args.backend.threads()) {
        (Backend::Cpu, threads) => default.push(format!("threads={threads}")),
        (Backend::Cuda, streams @ 1..) => default.push(format!("streams={streams}")),
        _ => (),
    }
    let pipeline = args.backend.pipeline();
    if backend.runs_kernels() {
        default.push(format!("pipeline={pipeline}"));
    }
    default.extend(args.backend.assignments().cloned());
    let work = Work {
        subject: Subject { backend, pipeline },
        tables: &detector.tables,
        options: args.clustering.options(),
        events,
        default: default.join(","),
        source,
        duration,
    };
    online::run(&args.tuned, work, args.json.as_deref())
}

/// Returns the tuned values for this backend, unless a parameter is set by hand.
fn tuned(args: &Args, detector: &Detector) -> Option<Parameters> {
    let (what, options) = (
        (args.backend.backend, args.backend.pipeline()),
        args.clustering.options(),
    );
    let find = || args.tuned.configuration(what, &detector.tables, &options);
    (!args.backend.by_hand()).then(find).flatten()
}

/// Returns the variant of the decoder: vector instructions of a CPU, or the pipeline of kernels.
fn variant(measurement: &Measurement) -> Option<&'static str> {
    let decoder = &measurement.decoder;
    match measurement.backend {
        Backend::Cpu => decoder.simd().resolve().map(Simd::name),
        Backend::Emulated | Backend::Cuda => Some(decoder.pipeline().name()),
        Backend::Reference => None,
    }
}

/// Returns the plan, with tuned values where no option says otherwise.
fn measurement(args: &Args, tuned: Option<Parameters>, duration: Duration) -> Measurement {
    let backend = args.backend.backend;
    let mut measurement = Measurement {
        backend,
        options: args.clustering.options(),
        decoder: args.backend.config(),
        threads: args.backend.n_threads(),
        duration,
    };
    if let Some(tuned) = tuned {
        measurement.decoder = measurement.decoder.tuned(&tuned);
        if args.backend.threads() == 0 && matches!(backend, Backend::Cpu | Backend::Cuda) {
            measurement.threads = tuned.decoders(backend);
        }
    }
    measurement
}
