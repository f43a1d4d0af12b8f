//! `ut-decode decode`: files in, hits out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::bench::{Configuration, Machine};
use crate::cli::args::{BackendArgs, ClusterArgs, DetectorArgs, flip_name, layout_name, position_name};
use crate::cli::detector::{Detector, SYNTHETIC, version_in_words};
use crate::cli::inputs::InputArgs;
use crate::cli::output::{is_quiet, is_stdout, print, say, with_causes, write_json};
use crate::cli::paths::same_file;
use crate::cli::progress::Progress;
use crate::cli::signals;
use crate::cli::summary::{Part, Totals};
use crate::cli::tuned::TunedArgs;
use crate::cli::{Failure, usage};
use crate::decoder::cpu::memory_of_threads;
use crate::decoder::emulated::{EmulatedConfig, EmulatedDecoder};
use crate::decoder::{Backend, DecodeError, Decoder, DecoderConfig};
use crate::input::{
    BuildError, Chunk, Chunks, InputError, Parser, Places, Seen, Select, count_events, to_allen, to_mep,
};
use crate::output::{Columns, Encoded, Encoder, HitFile, HitFormat, OutputError, Packing, Provenance, Rows};
use crate::pipeline::ordered;
use crate::{BatchReport, DetectorTables, Layout, UtHits, memory};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};

/// Events of a batch where nothing is tuned and nothing is asked for.
const BATCH_SIZE: usize = 256;

/// Hits that a bank can give, at most: cluster words of two bytes in a payload of 64 KiB.
const HITS_OF_BANK: usize = 1 << 15;

/// Bytes that a piece of the inputs takes, with its hits in every form, in the mean.
const CHUNK_MEMORY: u64 = 48 << 20;

/// Files that could not be read which are listed at the end.
const LISTED_FAILURES: usize = 100;

/// Runs that the summary lists.
const LISTED_RUNS: usize = 100;

/// Decode files into hits.
///
/// Reads MDF files, MEP packets and Allen-layout dumps, in zstd or gzip or not, as one job: reading, decoding and
/// writing share all threads, and the output does not depend on their number. Prints a summary, and what was wrong with
/// the data by the names of the policy: troubles cost only themselves. Where a container cannot be followed any more
/// the command fails, and keeps the hits of the events before.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Args {
    #[command(flatten)]
    inputs: InputArgs,
    /// Write the hits here: .csv, or .parquet (with run and event numbers, and metadata on how they were made); - is
    /// standard output.
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The output's format, where its name does not end in it.
    #[arg(long, value_name = "NAME", requires = "output", value_parser = PossibleValuesParser::new(["csv", "parquet"]))]
    format: Option<String>,
    /// Columns beside those that the output always has, with commas between them: detector for layer, side, stave, face,
    /// module, sector, strip, board, lane, charge, n_strips, first_strip and flipped, or some of these by name; sector_id;
    /// and in CSV run, event_number and file.
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
    /// Go on with the next file where one cannot be read further; say at the end which, and exit with 1.
    #[arg(long)]
    keep_going: bool,
    /// Believe the data: do not compare checksums.
    #[arg(long)]
    no_checksum: bool,
    #[command(flatten)]
    select: SelectArgs,
    /// Events that are decoded at a time [default: as tuned, else 256].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: Option<u32>,
    #[command(flatten)]
    detector: DetectorArgs,
    #[command(flatten)]
    clustering: ClusterArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// Seed of the order in which the emulated backend runs blocks, warps and lanes. Results are the same, or a kernel
    /// has a bug.
    #[arg(long, value_name = "N", default_value_t = 0)]
    schedule_seed: u64,
    #[command(flatten)]
    tuned: TunedArgs,
}

/// Which events.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Events (counted over all inputs from 0)")]
struct SelectArgs {
    /// Only these events, as 3,10-20.
    #[arg(long, value_name = "LIST")]
    events: Option<Places>,
    /// Only events of this run.
    #[arg(long, value_name = "N")]
    run: Option<u32>,
    /// Only events with this event number.
    #[arg(long, value_name = "N")]
    event_number: Option<u64>,
    /// Part i of n parts of all events: contiguous, and together the whole. The inputs are read once more to count
    /// them.
    #[arg(long, value_name = "i/n", value_parser = shard)]
    shard: Option<(u64, u64)>,
    /// Leave out the first N of these places.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Take at most N places.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

fn shard(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((i, n)) if 1 <= i && i <= n => Ok((i, n)),
        _ => Err("it is i/n with i from 1 to n".to_owned()),
    }
}

fn packing() -> impl TypedValueParser<Value = Packing> {
    let of = |name: String| if name == "lz4" { Packing::Lz4 } else { Packing::Zstd };
    PossibleValuesParser::new(["zstd", "lz4"]).map(of)
}

impl SelectArgs {
    fn select(&self, files: &[PathBuf]) -> Result<Select, Failure> {
        let mut select = Select::default().run(self.run).number(self.event_number);
        if let Some(places) = &self.events {
            select = select.places(places);
        }
        if let Some((i, n)) = self.shard {
            if let Some(pipe) = files.iter().find(|file| !file.is_file()) {
                return Err(
                    format!("{}: --shard reads files twice, and this can be read only once", pipe.display()).into()
                );
            }
            select = select.places(&Places::shard(i, n, count_events(files)?));
        }
        Ok(select.window(self.skip, self.limit))
    }
}

/// Whether a path is standard output.
fn goes_to_stdout(path: &Path) -> bool {
    is_stdout(path) || path == Path::new("/dev/stdout")
}

/// The format of the output; ends the program where nothing says it.
fn format_of(args: &Args) -> Option<HitFormat> {
    let path = args.output.as_ref()?;
    let named = args.format.as_ref().and_then(|name| name.parse().ok());
    Some(named.unwrap_or_else(|| HitFormat::of(path).unwrap_or_else(|error| usage(&format!("--output {error}")))))
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let format = format_of(args);
    let columns = args.columns.clone().unwrap_or_default();
    let clusters = columns.needs_clusters();
    if let (Some(column), Backend::Emulated | Backend::Cuda) = (clusters, args.backend.backend) {
        usage(&format!(
            "--columns: the backends reference and cpu give {}, {} does not",
            column.name(),
            args.backend.backend.name()
        ));
    }
    let to_stdout = [&args.output, &args.json].map(|path| path.as_deref().is_some_and(goes_to_stdout));
    if to_stdout == [true; 2] {
        usage("--output and --json both go to standard output");
    }
    let files = args.inputs.expand()?;
    for output in [&args.output, &args.json].into_iter().flatten() {
        if let Some(input) = files.iter().find(|file| same_file(file, output)) {
            usage(&format!("{} would overwrite {}, which is an input", output.display(), input.display()));
        }
    }
    let mut config = args.backend.config(usize::from(args.backend.threads()));
    let start = Instant::now();
    let detector = Detector::load(&args.detector, &files)?;
    // Who sets a parameter by hand wants to see what it does.
    let by_hand = !args.backend.set.is_empty();
    let tuned = || {
        args.tuned.configuration((args.backend.backend, config.pipeline), &detector.tables, &args.clustering.options())
    };
    let tuned = if by_hand { None } else { tuned() };
    if let Some(Configuration { decoder: DecoderConfig { cpu, launch, registers, graph, .. }, .. }) = tuned {
        (config.launch, config.registers, config.graph) = (launch, registers, graph);
        config.cpu.chunk = cpu.chunk;
        if args.backend.threads() == 0 {
            config.cpu.threads = cpu.threads;
        }
    }
    let batch_size = args.batch.map(|size| size as usize).or(tuned.map(|tuned| tuned.batch));
    let select = args.select.select(&files)?;
    let n_workers = n_workers(args, &mut config)?;
    let mut file = match (&args.output, format) {
        (Some(path), Some(format)) => Some(HitFile::create(path, format, args.compression, &files, columns)?),
        _ => None,
    };
    let check = !args.no_checksum;
    let mut chunks = Chunks::new(&files, batch_size.unwrap_or(BATCH_SIZE), check, select.clone());
    let mut totals = Totals::new(&detector.tables);
    let names = Arc::clone(chunks.files());
    let mut workers = Vec::new();
    for _ in 0..n_workers {
        let hits = UtHits::with_capacity(0, detector.tables.n_groups(), 0);
        let mut worker = Worker {
            parser: Parser::new(check, select.clone()),
            decoder: decoder(args, &detector.tables, &config)?,
            layout: args.backend.layout,
            n_boards: detector.tables.boards().n_boards(),
            layers: totals.layers(),
            hits: if clusters.is_some() { hits.with_clusters() } else { hits },
            tables: &detector.tables,
            report: BatchReport::new(),
            encoder: file.as_ref().map(HitFile::encoder),
        };
        workers.push(move |chunk: Result<Chunk, InputError>| worker.work(&chunk.map_err(WorkError::Input)?));
    }
    let total = files.iter().filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum();
    let template = "decoding {wide_bar} {bytes}/{total_bytes}, {msg}, {eta} left";
    let mut job = Job {
        detector: &detector,
        keep_going: args.keep_going,
        progress: (!is_quiet()).then(|| Progress::new(total, template)),
        read: chunks.read(),
        start,
        seen: Seen::default(),
        warned: !detector.is_embedded(),
        copied: 0,
        runs: BTreeSet::new(),
        failures: Vec::new(),
        failed: 0,
    };
    signals::end_gently();
    let produce = || chunks.next_chunk().transpose();
    ordered(2 * n_workers + 1, produce, workers, |done| job.take(done, &mut totals, &mut file));
    let Job { mut failures, failed, seen, progress, copied, runs, .. } = job;
    drop(progress);
    if signals::interrupted() {
        drop(file);
        let n = totals.events;
        let left =
            args.output.as_ref().map_or_else(String::new, |path| format!("; {} was not written", path.display()));
        say(&format!("interrupted after {n} events{left}"));
        signals::end();
    }
    let elapsed = start.elapsed();
    for (place, damage) in &seen.damages {
        say(&format!("warning: {place}: {damage}; the rest of the event is given up"));
    }
    if failures.is_empty() {
        failures.extend(detector.check_versions(&seen).err());
    }
    if seen.events == 0 && failures.is_empty() {
        say(if select == Select::default() {
            "warning: there is no event in the input"
        } else {
            "warning: no event of the input was selected"
        });
    }
    let synthetic = detector.is_embedded() && seen.measured > 0;
    let provenance = Provenance {
        entries: entries(args, &detector, &names, synthetic),
        incomplete: failures.first().map(|error| with_causes(error.as_ref())),
    };
    // A file without a single hit, of a run that failed, is of no use.
    if !failures.is_empty() && totals.hits == 0 {
        file = None;
    }
    let kept = file.is_some();
    if let Some(file) = file {
        file.finish(&provenance)?;
    }
    if let Some(path) = &args.json {
        let mut json = totals.json(elapsed);
        let entries = provenance.entries.into_iter().map(|(key, value)| (key, Value::String(value)));
        json.insert("provenance".to_owned(), Value::Object(entries.collect::<Map<_, _>>()));
        json.insert("complete".to_owned(), failures.is_empty().into());
        json.insert("error".to_owned(), json!(provenance.incomplete));
        json.insert("files".to_owned(), names.len().into());
        json.insert("failed_files".to_owned(), failed.into());
        json.insert("runs".to_owned(), json!(runs));
        json.insert("payload_bytes_copied".to_owned(), copied.into());
        write_json(path, &json)?;
    }
    if !is_quiet() && (failures.is_empty() || totals.events > 0) {
        let text = totals.text(elapsed);
        if to_stdout.contains(&true) { say(text.trim_end()) } else { print(&text)? }
    }
    if let Some(path) = args.output.as_ref().filter(|_| kept && !failures.is_empty()) {
        let n = totals.events;
        let which = if args.keep_going { "" } else { "first " };
        say(&format!("warning: {} is incomplete: it holds the hits of the {which}{n} events", path.display()));
    }
    if args.keep_going && failed > 0 {
        for failure in &failures {
            say(&format!("error: {}", with_causes(failure.as_ref())));
        }
        return Err(format!("{failed} of {} files could not be read to their end", names.len()).into());
    }
    if let Some(failure) = failures.into_iter().next() {
        return Err(failure);
    }
    if args.strict && totals.has_trouble() {
        return Err("there is trouble in the data (see the summary), and --strict was given".into());
    }
    Ok(())
}

/// Threads that decode, each with a decoder of its own; the decoders get one thread each.
fn n_workers(args: &Args, config: &mut DecoderConfig) -> Result<usize, Failure> {
    let n = match args.backend.backend {
        Backend::Cpu => std::mem::replace(&mut config.cpu.threads, 1),
        Backend::Reference => usize::from(args.backend.threads()),
        // The device is one, and its decoder keeps it busy.
        Backend::Emulated | Backend::Cuda => 1,
    };
    let n = if n == 0 { std::thread::available_parallelism().map_or(1, std::num::NonZero::get) } else { n };
    let needed = memory_of_threads(n) + 2 * n as u64 * CHUNK_MEMORY;
    memory::check(format!("decoding with {n} threads"), needed)?;
    Ok(n)
}

fn decoder(args: &Args, tables: &DetectorTables, config: &DecoderConfig) -> Result<Box<dyn Decoder>, DecodeError> {
    let options = args.clustering.options();
    if args.backend.backend == Backend::Emulated {
        let config = EmulatedConfig {
            schedule_seed: args.schedule_seed,
            launch: config.launch,
            pipeline: config.pipeline,
            ..EmulatedConfig::default()
        };
        return Ok(Box::new(EmulatedDecoder::new(tables, options, config)?));
    }
    args.backend.backend.decoder_with(tables, options, config)
}

/// Why a piece of the inputs gave no hits.
#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Layout(#[from] BuildError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// A thread that decodes, and what it works with.
struct Worker<'a> {
    parser: Parser,
    decoder: Box<dyn Decoder>,
    layout: Option<Layout>,
    n_boards: usize,
    layers: Arc<[usize]>,
    hits: UtHits,
    tables: &'a DetectorTables,
    report: BatchReport,
    encoder: Option<Encoder>,
}

/// What became of a piece of the inputs.
#[derive(Default)]
struct Done {
    seen: Seen,
    parts: Vec<Part>,
    encoded: Vec<Encoded>,
    copied: u64,
    runs: BTreeSet<u32>,
}

impl Worker<'_> {
    fn work(&mut self, chunk: &Chunk) -> Result<Done, WorkError> {
        let Self { parser, decoder, layout, n_boards, layers, hits, tables, report, encoder } = self;
        let mut done = Done::default();
        let Done { seen, parts, encoded, copied, runs } = &mut done;
        let before = parser.copied();
        parser.parse(chunk, seen, |(batch, origins, max_hits)| -> Result<(), WorkError> {
            let mut first = 0;
            let mut decode = |batch: crate::BatchView<'_>, max_hits: usize| -> Result<(), WorkError> {
                let bound = batch.n_events.saturating_mul(*n_boards * HITS_OF_BANK);
                hits.reserve(batch.n_events, max_hits.min(bound));
                runs.extend(batch.meta.iter().filter_map(|meta| meta.run));
                let start = Instant::now();
                decoder.decode(batch, hits, report)?;
                parts.push(Part::of(layers, hits, report, start.elapsed()));
                if let Some(encoder) = encoder {
                    let origins = &origins[first..first + batch.n_events];
                    encoded.push(encoder.encode(&Rows { files: &[], origins, meta: batch.meta, hits, tables })?);
                }
                first += batch.n_events;
                Ok(())
            };
            match (*layout, batch.layout) {
                (Some(Layout::Mep), Layout::Allen) => {
                    for mep in to_mep(batch)? {
                        decode(mep.view(), mep.view().max_hits())?;
                    }
                    Ok(())
                }
                (Some(Layout::Allen), Layout::Mep) => {
                    let allen = to_allen(batch)?;
                    decode(allen.view(), allen.view().max_hits())
                }
                _ => decode(batch, max_hits),
            }
        })?;
        *copied = parser.copied() - before;
        Ok(done)
    }
}

/// Everything that goes from piece to piece, in their order.
struct Job<'a> {
    detector: &'a Detector,
    keep_going: bool,
    progress: Option<Progress>,
    read: Arc<std::sync::atomic::AtomicU64>,
    start: Instant,
    seen: Seen,
    /// Whether the user was told that the detector is synthetic, or it is not.
    warned: bool,
    copied: u64,
    runs: BTreeSet<u32>,
    failures: Vec<Failure>,
    failed: usize,
}

impl Job<'_> {
    /// Takes a result; whether to go on.
    fn take(&mut self, done: Result<Done, WorkError>, totals: &mut Totals, file: &mut Option<HitFile>) -> bool {
        let Done { seen, parts, encoded, copied, mut runs } = match done {
            Ok(done) => done,
            Err(error) => {
                let of_input = matches!(error, WorkError::Input(_));
                self.failed += usize::from(of_input);
                if self.failures.len() < LISTED_FAILURES {
                    self.failures.push(error.into());
                }
                if !of_input {
                    // Neither is the file completed.
                    *file = None;
                }
                return self.keep_going && of_input && !signals::interrupted();
            }
        };
        self.copied += copied;
        self.runs.append(&mut runs);
        while self.runs.len() > LISTED_RUNS {
            self.runs.pop_last();
        }
        self.seen.merge(seen);
        for part in parts {
            totals.add(&part);
        }
        if let Some(file_in_hand) = file {
            for encoded in encoded {
                // A file that cannot be written is not completed either.
                if let Err(error) = file_in_hand.append(encoded) {
                    *file = None;
                    self.failures.push(error.into());
                    return false;
                }
            }
        }
        let unwarned = self.seen.measured > 0 && !self.warned && self.detector.is_embedded();
        if unwarned {
            self.warned = true;
            let line = format!("warning: {SYNTHETIC}");
            self.progress.as_ref().map_or_else(|| say(&line), |progress| progress.say(&line));
        }
        if let Some(progress) = &mut self.progress {
            let rate = totals.events as f64 / self.start.elapsed().max(Duration::from_millis(1)).as_secs_f64();
            progress.message(&format!("{} files, {} events, {rate:.0}/s", self.seen.files.len(), totals.events));
            progress.set(self.read.load(Ordering::Relaxed));
        }
        !signals::interrupted()
    }
}

/// How the hits were made, for the output's metadata.
fn entries(args: &Args, detector: &Detector, files: &[PathBuf], synthetic: bool) -> Vec<(String, String)> {
    let options = args.clustering.options();
    let table = |path: &Option<PathBuf>| {
        path.as_deref().map_or_else(|| "embedded synthetic detector".to_owned(), |path| path.display().to_string())
    };
    let inputs: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let mut entries = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", Machine::this().commit.unwrap_or_default()),
        ("backend", args.backend.backend.name().to_owned()),
        ("layout", args.backend.layout.map_or("as read", layout_name).to_owned()),
        ("clustering", options.clustering.to_string()),
        ("position", position_name(options.position).to_owned()),
        ("max_cluster_size", options.max_cluster_size.to_string()),
        ("save_above_max", options.save_above_max.to_string()),
        ("flip", flip_name(options.flip).to_owned()),
        ("grouping", detector.tables.grouping().name().to_owned()),
        ("boards", table(&detector.boards)),
        ("geometry", table(&detector.geometry)),
        ("bank_version", version_in_words(detector.tables.boards().version.byte())),
        ("geometry_version", detector.tables.geometry().version.to_string()),
        ("inputs", inputs.join("\n")),
    ];
    if synthetic {
        entries.push(("warning", SYNTHETIC.to_owned()));
    }
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
