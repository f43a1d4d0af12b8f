//! `ut-decode decode`: files in, hits out.

mod job;
mod outputs;
mod select;
pub mod sets;
mod waiting;
mod work;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use self::job::{Job, Stop};
pub use self::job::{LISTED_FAILURES, is_broken_pipe, story};
pub use self::outputs::Story;
use self::outputs::{Outputs, Wanted, Written};
pub use self::select::SelectArgs;
use self::sets::Sets;
use self::waiting::{Waiting, bytes_of};
pub use self::work::CHUNK_MEMORY;
use self::work::{Worker, decoder, n_workers};
use crate::bench::Configuration;
use crate::cli::args::{BackendArgs, ClusterArgs, DetectorArgs};
use crate::cli::detector::Detector;
use crate::cli::inputs::InputArgs;
use crate::cli::output::{count, detail, is_quiet, on_stdout, print_beside, say, write_json};
use crate::cli::paths::Protected;
use crate::cli::progress::Progress;
use crate::cli::signals;
use crate::cli::summary::{self, Totals};
use crate::cli::tuned::TunedArgs;
use crate::cli::{Failure, end, usage};
use crate::decoder::{Backend, DecoderConfig};
use crate::detector::Mask;
use crate::error::{WorkError, with_causes};
use crate::input::{Apart, Chunk, Chunks, InputError, Parser, Seen, Select};
use crate::output::{Columns, HitFormat, Packing};
use crate::pipeline::{Flow, ordered};
use crate::{BatchReport, UtHits};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};

/// Events of a batch where nothing is tuned and nothing is asked for: their bytes, a megabyte or so, are read, checked and
/// decoded while they are in a core's caches.
pub const BATCH_SIZE: usize = 64;

/// Those of a device's batch, and of a row group of Parquet.
const LARGE_BATCH_SIZE: usize = 256;

/// Outputs that lack hits which are listed at the end.
const LISTED: usize = 100;

/// Decode files into hits.
///
/// Reads MDF files, MEP packets and Allen-layout dumps, in zstd or gzip or not, as one job: reading, decoding and
/// writing share all threads, and the output does not depend on their number. Prints a summary, and what was wrong with
/// the data by the names of the policy: troubles cost only themselves. If a file cannot be read further, the command
/// fails, and keeps the hits of the events before.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Args {
    #[command(flatten)]
    inputs: InputArgs,
    /// Write the hits here: .csv, or .npz or .parquet (with run and event numbers, and metadata on how they were made); -
    /// is standard output. A folder (it exists, or the name ends in / or has no extension) gets one file per input.
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Write one file per run, run=N/hits.parquet in the folder that --output names, as a partitioned dataset; needs
    /// --format.
    #[arg(long, value_name = "BY", requires = "output", value_parser = ["run"])]
    partition: Option<String>,
    /// The output's format, if its name does not end in it.
    #[arg(long, value_name = "NAME", requires = "output", value_parser = PossibleValuesParser::new(["csv", "npz", "parquet"]))]
    format: Option<String>,
    /// Extra columns, comma-separated: detector for layer, side, stave, face, module, sector, strip, board, lane, charge,
    /// n_strips, first_strip and flipped, or some of these by name; sector_id; and in CSV run, event_number and file.
    #[arg(long, value_name = "LIST", requires = "output")]
    columns: Option<Columns>,
    /// How the pages of Parquet are compressed: zstd, or lz4, which is faster and larger.
    #[arg(long, value_name = "NAME", default_value = "zstd", value_parser = packing())]
    compression: Packing,
    /// Write the summary as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail (exit code 1) when anything is wrong with the data.
    #[arg(long)]
    strict: bool,
    /// If a file cannot be read to its end, go on with the next one; list such files at the end, and exit with 1.
    #[arg(long)]
    keep_going: bool,
    /// Leave out hits on the strips, sectors, lanes and boards that this text file names, and count them (docs/mask.md).
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// Skip checksum verification.
    #[arg(long)]
    no_checksum: bool,
    #[command(flatten)]
    select: SelectArgs,
    /// Events decoded at a time [default: as tuned, else 64; 256 on a device and for Parquet].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: Option<u32>,
    #[command(flatten)]
    detector: DetectorArgs,
    #[command(flatten)]
    clustering: ClusterArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// Seed of the order in which the emulated backend runs blocks, warps and threads. If the results differ, a kernel has
    /// a bug.
    #[arg(long, value_name = "N", default_value_t = 0)]
    schedule_seed: u64,
    #[command(flatten)]
    tuned: TunedArgs,
    /// Decode each batch with the parameters of the workload that the batches before it look like, from a file that
    /// `ut-decode tune workloads --json` wrote. Reports each change, and events that look like no workload.
    #[arg(long, value_name = "FILE", help_heading = "Tuning", conflicts_with_all = ["workload", "untuned", "batch", "set"])]
    sets: Option<PathBuf>,
}

fn packing() -> impl TypedValueParser<Value = Packing> {
    let of = |name: String| if name == "lz4" { Packing::Lz4 } else { Packing::Zstd };
    PossibleValuesParser::new(["zstd", "lz4"]).map(of)
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let columns = args.columns.clone().unwrap_or_default();
    let clusters = columns.needs_clusters();
    if let (Some(column), Backend::Emulated | Backend::Cuda) = (clusters, args.backend.backend) {
        usage(&format!(
            "--columns: the backends reference and cpu give {}, {} does not",
            column.name(),
            args.backend.backend.name()
        ));
    }
    let to_stdout = on_stdout([&args.output, &args.json]);
    let wanted = args.output.as_ref().map(|path| Wanted {
        path,
        format: args.format.as_ref().and_then(|name| name.parse().ok()),
        packing: args.compression,
        columns,
        n_groups: 0,
        by_run: args.partition.is_some(),
        shard: args.select.shard,
        protected: Protected::default(),
    });
    // Said before anything is read.
    let format = wanted.as_ref().map(Wanted::format);
    if format == Some(HitFormat::Numpy) && args.partition.is_some() {
        usage("--partition run: nothing reads NumPy files as one dataset; take --format csv or parquet");
    }
    let files = args.inputs.expand()?;
    let mut protected = Protected::inputs(&files);
    for output in [&args.output, &args.json].into_iter().flatten() {
        protected.check(output).unwrap_or_else(|message| usage(&message));
    }
    let mut config = args.backend.config(usize::from(args.backend.threads()));
    let start = Instant::now();
    let detector = Detector::load(&args.detector, &files)?;
    config.pipeline = args.backend.pipeline(&detector.tables);
    let mask = match &args.mask {
        Some(path) => Some(Arc::new(Mask::read(path, &detector.tables)?)),
        None => None,
    };
    if let (Some(path), Some(mask)) = (&args.mask, &mask) {
        detail(&format!("mask: {}, {} strips", path.display(), mask.n_strips()));
    }
    let tuned = || {
        args.tuned.configuration((args.backend.backend, config.pipeline), &detector.tables, &args.clustering.options())
    };
    let sets = match &args.sets {
        Some(path) => Some(Arc::new(Sets::read(path, args.backend.backend)?)),
        None => None,
    };
    let tuned = match &sets {
        Some(sets) => Some(*sets.configuration(0)),
        None if args.backend.by_hand() => None,
        None => tuned(),
    };
    if let Some(Configuration { decoder: DecoderConfig { cpu, launch, registers, carve_out, graph, .. }, .. }) = tuned {
        config = DecoderConfig { launch, registers, carve_out, graph, ..config };
        config.cpu.chunk = cpu.chunk;
        if args.backend.threads() == 0 {
            config.cpu.threads = cpu.threads;
        }
    }
    let batch_size = args.batch.map(|size| size as usize).or(tuned.map(|tuned| tuned.batch));
    let select = args.select.select(&files, args.keep_going)?;
    let n_workers = n_workers(args, &mut config)?;
    let is_told = args.json.is_some() || format.is_some_and(|format| format != HitFormat::Csv);
    let story = Arc::new(story(
        args.clustering.options(),
        (args.backend.backend, args.backend.layout),
        &detector,
        args.mask.as_deref(),
        files.clone().into(),
        is_told,
    ));
    let outputs = match wanted {
        Some(wanted) => {
            let what = "which is named by another option";
            let read = [&detector.boards, &detector.geometry, &args.mask, &args.sets, &args.inputs.files_from];
            protected.add_unnamed();
            protected.add(read.into_iter().chain([&args.tuned.tune_db]).flatten(), what);
            args.json.iter().for_each(|json| protected.add_output(json, what));
            Some(Outputs::begin(
                Wanted { protected, n_groups: detector.tables.n_groups(), ..wanted },
                Arc::clone(&story),
            )?)
        }
        None => None,
    };
    let apart = outputs.as_ref().map(Outputs::apart).unwrap_or_default();
    let check = !args.no_checksum;
    let is_device = matches!(args.backend.backend, Backend::Emulated | Backend::Cuda);
    let is_large = is_device || format == Some(HitFormat::Parquet);
    let batch_size = batch_size.unwrap_or(if is_large { LARGE_BATCH_SIZE } else { BATCH_SIZE });
    let mut chunks = Chunks::new(&files, batch_size, check, select.clone()).apart(apart).unpack_at_once(n_workers);
    let totals = Totals::new(&detector.tables, mask.is_some());
    let again = |set: &Configuration| {
        // Threads, kernels and layout stay; what belongs to a decoder changes.
        let mut config = config;
        (config.launch, config.registers, config.graph) =
            (set.decoder.launch, set.decoder.registers, set.decoder.graph);
        config.cpu.chunk = set.decoder.cpu.chunk;
        decoder(args, &detector.tables, &config)
    };
    let waiting = &Waiting::new(n_workers);
    let mut workers = Vec::new();
    for _ in 0..n_workers {
        let hits = UtHits::with_capacity(0, detector.tables.n_groups(), 0);
        let mut worker = Worker {
            parser: Parser::new(check, select.clone()).apart(apart).together(is_device),
            decoder: decoder(args, &detector.tables, &config)?,
            layout: args.backend.layout,
            layers: totals.layers(),
            hits: if clusters.is_some() { hits.with_clusters() } else { hits },
            tables: &detector.tables,
            report: BatchReport::new(),
            mask: mask.clone(),
            encoder: outputs.as_ref().map(Outputs::encoder),
            sets: sets.as_deref().map(|sets| (sets, 0)),
            again: &again,
        };
        workers.push(move |(file, chunk): (usize, Result<Chunk, InputError>)| {
            let done = chunk.map_err(WorkError::Input).and_then(|chunk| worker.work(chunk));
            (file, done.inspect(|done| waiting.add(done)))
        });
    }
    let total = files.iter().filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum();
    let template = "decoding {wide_bar} {bytes}/{total_bytes}, {msg}, {eta} left";
    let job = Job {
        detector: &detector,
        keep_going: args.keep_going,
        sets: sets.clone(),
        outputs,
        written: Written::default(),
        totals,
        progress: (!is_quiet()).then(|| Progress::new(total, template)),
        read: chunks.read(),
        start,
        seen: Seen::default(),
        warned: !detector.is_embedded(),
        copied: 0,
        runs: BTreeSet::new(),
        failures: Vec::new(),
        failed: 0,
        last_failed: None,
        stop: None,
    };
    signals::end_gently();
    // Open nothing after a failure: it may be a pipe without a writer, which would block.
    let ended = &AtomicBool::new(false);
    let opened = &AtomicUsize::new(0);
    let produce = || {
        waiting.wait();
        if let Some(sets) = &sets {
            chunks.limit(sets.configuration(sets.current()).batch);
        }
        if ended.load(Ordering::SeqCst) {
            return None;
        }
        let chunk = chunks.next_chunk().transpose();
        opened.store(chunks.opened(), Ordering::SeqCst);
        let chunk = chunk?;
        ended.store(chunk.is_err() && !args.keep_going, Ordering::SeqCst);
        Some((chunks.file(), chunk))
    };
    let conclude = |job: Job<'_>, flow: &Flow| -> Result<(), Failure> {
        let Job { outputs, mut written, totals, mut failures, failed, seen, progress, copied, runs, stop, .. } = job;
        drop(progress);
        if signals::interrupted() {
            let n = totals.events;
            let left = match (&args.output, outputs.as_ref().map_or(0, Outputs::written)) {
                (None, _) => String::new(),
                (Some(path), 0) => format!("; {} was not written", path.display()),
                (Some(path), n) => {
                    format!("; {} in {} are whole, the rest was not written", count(n, "file"), path.display())
                }
            };
            drop(outputs);
            say(&format!("interrupted after {n} events{left}"));
            signals::end();
        }
        // As for what is printed, a reader that has gone (`| head`) is not an error. But a summary that was asked for is
        // written, and files that could not be read are reported.
        if stop == Some(Stop::ReaderLeft) && args.json.is_none() {
            if failed == 0 {
                return Ok(());
            }
            failures.retain(|failure| !is_broken_pipe(failure.as_ref()));
        }
        let elapsed = start.elapsed();
        for warning in seen.warnings() {
            say(&format!("warning: {warning}"));
        }
        detector.check_generated(seen.generated).iter().for_each(|warning| say(&format!("warning: {warning}")));
        failures.extend(detector.check_versions(&seen).take(LISTED_FAILURES));
        if seen.events == 0 && failures.is_empty() {
            say(if select == Select::default() {
                "warning: there is no event in the input"
            } else {
                "warning: the selection matches no event in the input"
            });
        }
        if failures.is_empty() && stop.is_none() {
            args.select.warning(seen.events).iter().for_each(|warning| say(&format!("warning: {warning}")));
        }
        let incomplete = failures.first().map(|error| with_causes(error.as_ref()));
        let provenance = story.provenance(&files, seen.measured > 0, incomplete.clone());
        if let Some(mut outputs) = outputs {
            let opened = stop.is_none().then(|| opened.load(Ordering::SeqCst));
            match outputs.finish(incomplete.as_ref(), opened, |file| detector.check_file(&seen, file)) {
                Ok(()) => {}
                Err(error) if is_broken_pipe(&error) && args.json.is_none() => {
                    if failures.is_empty() {
                        return Ok(());
                    }
                }
                Err(error) => failures.push(error.into()),
            }
            written = outputs.into_written();
        }
        let Written { files: written, incomplete: cut } = written;
        if let Some(path) = &args.json {
            let mut json = totals.json(elapsed);
            let entries = provenance.entries.into_iter().map(|(key, value)| (key, Value::String(value)));
            json.insert("provenance".to_owned(), Value::Object(entries.collect::<Map<_, _>>()));
            json.insert("complete".to_owned(), failures.is_empty().into());
            json.insert("error".to_owned(), json!(failures.first().map(|error| with_causes(error.as_ref()))));
            json.insert("files".to_owned(), files.len().into());
            let written: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
            json.insert("outputs".to_owned(), written.into());
            json.insert("failed_files".to_owned(), failed.into());
            json.insert("damaged_left_out".to_owned(), seen.unidentified.into());
            json.insert("runs".to_owned(), json!(runs));
            if let Some(sets) = &sets {
                json.insert("sets".to_owned(), sets.json());
            }
            json.insert("payload_bytes_copied".to_owned(), copied.into());
            json.insert("pipeline".to_owned(), summary::flow_json(flow));
            write_json(path, &json)?;
        }
        if !is_quiet() && (failures.is_empty() || totals.events > 0) {
            print_beside(to_stdout, &totals.text(elapsed, flow))?;
        }
        for path in cut.iter().take(LISTED) {
            let holds = match apart {
                Apart::Files => "the hits of an input that could not be read to its end".to_owned(),
                _ if args.keep_going => format!("the hits of {}", count(totals.events as usize, "event")),
                _ => format!("the hits of the first {}", count(totals.events as usize, "event")),
            };
            say(&format!("warning: {} is incomplete: it holds {holds}", path.display()));
        }
        if args.keep_going && failed > 0 {
            for failure in &failures {
                say(&format!("error: {}", with_causes(failure.as_ref())));
            }
            return Err(format!("{failed} of {} files could not be read to their end", files.len()).into());
        }
        let mut failures = failures.into_iter();
        if let Some(failure) = failures.next() {
            // That hits could not be written, beside what was wrong with the input.
            failures.for_each(|other| say(&format!("error: {}", with_causes(other.as_ref()))));
            return Err(failure);
        }
        if args.strict && (totals.has_trouble() || seen.unidentified > 0) {
            return Err("there is trouble in the data (see the summary), and --strict was given".into());
        }
        Ok(())
    };
    // Of a pipe, the next byte may never come.
    let may_wait = files.iter().any(|file| !file.is_file());
    let mut job = Some(job);
    let flow = ordered(2 * n_workers + 1, produce, workers, |(file, done)| {
        let Some(running) = &mut job else { return false };
        let goes_on = waiting.write(done.as_ref().map_or(0, bytes_of), || running.take((file, done)));
        if !goes_on
            && may_wait
            && !ended.load(Ordering::SeqCst)
            && let Some(job) = job.take()
        {
            end(conclude(job, &Flow::default()));
        }
        goes_on
    });
    job.map_or(Ok(()), |job| conclude(job, &flow))
}
