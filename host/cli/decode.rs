//! `ut-decode decode`: files in, hits out.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::bench::{Machine, Setting};
use crate::decoder::cpu::memory_of_threads;
use crate::decoder::emulated::{EmulatedConfig, EmulatedDecoder};
use crate::decoder::{Backend, DecodeError, Decoder, Knobs};
use crate::input::{Batches, EventBatch, Events, to_mep};
use crate::output::{HitFile, Provenance};
use crate::{BatchReport, BatchView, DetectorTables, Layout, UtHits, memory};
use serde_json::{Map, Value, json};

use crate::cli::args::{BackendArgs, ClusterArgs, DetectorArgs, flip_name, layout_name, position_name};
use crate::cli::detector::{Detector, SYNTHETIC, version_in_words};
use crate::cli::output::{print_beside, say, with_causes, write_json};
use crate::cli::progress::Progress;
use crate::cli::summary::Totals;
use crate::cli::tuned::TunedArgs;
use crate::cli::{Failure, usage};

/// Raw banks of a batch, at the most; the work buffers are a few times as large.
const BATCH_BYTES: usize = 16 << 20;

/// Events of a batch where nothing is tuned and nothing is asked for.
const BATCH_SIZE: usize = 256;

/// Hits that a bank can give, at the most: cluster words of two bytes in a payload of 64 KiB.
const HITS_OF_BANK: usize = 1 << 15;

/// Decode files into hits.
///
/// Reads MDF files and Allen-layout dumps, one after the other and in pieces, so that files of any size do. Prints a
/// summary, and what was wrong with the data by the names of the policy: troubles cost only themselves. Where the
/// container itself cannot be followed any more the command fails, and keeps the hits of the events before.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// MDF files or Allen-layout dumps (<run>_<event>.bin).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the hits here: .csv, or .parquet (with run and event numbers, and metadata on how they were made).
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Write the summary as JSON here; - is standard output.
    #[arg(long, value_name = "F")]
    json: Option<PathBuf>,
    /// Fail (exit code 1) when anything is wrong with the data.
    #[arg(long)]
    strict: bool,
    /// Events that are decoded at a time [default: as tuned, else 256].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch_size: Option<u32>,
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

pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(path) = &args.output
        && let Err(error) = HitFile::check(path)
    {
        usage(&format!("--output {error}"));
    }
    let mut knobs = args.backend.knobs(usize::from(args.backend.threads));
    let start = Instant::now();
    let detector = Detector::load(&args.detector, &args.files)?;
    let events = Events::new(&args.files);
    // Who sets a knob by hand wants to see what it does.
    let by_hand = !args.backend.settings.is_empty();
    let tuned =
        || args.tuned.setting((args.backend.backend, knobs.pipeline), &detector.tables, &args.clustering.options());
    let tuned = if by_hand { None } else { tuned() };
    if let Some(Setting { knobs: Knobs { cpu, launch, registers, graph, .. }, .. }) = tuned {
        (knobs.launch, knobs.registers, knobs.graph) = (launch, registers, graph);
        knobs.cpu.chunk = cpu.chunk;
        if args.backend.threads == 0 {
            knobs.cpu.threads = cpu.threads;
        }
    }
    if args.backend.backend == Backend::Cpu {
        memory::check(format!("decoding with {} threads", knobs.cpu.threads), memory_of_threads(knobs.cpu.threads))?;
    }
    let batch_size = args.batch_size.map(|size| size as usize).or(tuned.map(|tuned| tuned.batch));
    let mut run = Run {
        decoder: decoder(args, &detector.tables, &knobs)?,
        layout: args.backend.layout,
        n_boards: detector.tables.boards().n_boards(),
        hits: UtHits::with_capacity(0, detector.tables.n_groups(), 0),
        report: BatchReport::new(),
        totals: Totals::new(&detector.tables),
        file: args.output.as_ref().map(HitFile::create).transpose()?,
        progress: Progress::new(events.total_bytes(), "decoding {wide_bar} {bytes}/{total_bytes}, {eta} left"),
        batches: Batches::new(events, batch_size.unwrap_or(BATCH_SIZE), BATCH_BYTES),
        warned: !detector.is_embedded(),
    };
    let mut failure = run.all_batches().err();
    let Run { mut file, totals, batches, progress, .. } = run;
    drop(progress);
    let elapsed = start.elapsed();
    let seen = batches.seen();
    for (place, damage) in &seen.damages {
        say(&format!("warning: {place}: {damage}; the rest of the event is given up"));
    }
    if failure.is_none() {
        failure = detector.check_versions(seen).err();
    }
    if seen.events == 0 && failure.is_none() {
        say("warning: there is no event in the input");
    }
    let synthetic = detector.is_embedded() && seen.measured > 0;
    let provenance = Provenance {
        entries: entries(args, &detector, synthetic),
        incomplete: failure.as_ref().map(|error| with_causes(error.as_ref())),
    };
    // A file without a single hit, of a run that failed, is of no use to anybody.
    if failure.is_some() && totals.hits == 0 {
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
        json.insert("complete".to_owned(), failure.is_none().into());
        json.insert("error".to_owned(), json!(provenance.incomplete));
        write_json(path, &json)?;
    }
    if failure.is_none() || totals.events > 0 {
        print_beside(args.json.as_deref(), &totals.text(elapsed))?;
    }
    if let Some(failure) = failure {
        if let Some(path) = args.output.as_ref().filter(|_| kept) {
            let n = totals.events;
            say(&format!("warning: {} is incomplete: it holds the hits of the first {n} events", path.display()));
        }
        return Err(failure);
    }
    if args.strict && totals.has_trouble() {
        return Err("there is trouble in the data (see the summary), and --strict was given".into());
    }
    Ok(())
}

fn decoder(args: &Args, tables: &DetectorTables, knobs: &Knobs) -> Result<Box<dyn Decoder>, DecodeError> {
    let options = args.clustering.options();
    if args.backend.backend == Backend::Emulated {
        let config = EmulatedConfig {
            schedule_seed: args.schedule_seed,
            launch: knobs.launch,
            pipeline: knobs.pipeline,
            ..EmulatedConfig::default()
        };
        return Ok(Box::new(EmulatedDecoder::new(tables, options, config)?));
    }
    args.backend.backend.decoder_with(tables, options, knobs)
}

/// Everything that goes from batch to batch.
struct Run {
    batches: Batches,
    decoder: Box<dyn Decoder>,
    layout: Layout,
    n_boards: usize,
    hits: UtHits,
    report: BatchReport,
    totals: Totals,
    file: Option<HitFile>,
    progress: Progress,
    /// Whether the user was told that the detector is synthetic, or it is not.
    warned: bool,
}

impl Run {
    fn all_batches(&mut self) -> Result<(), Failure> {
        let mut batch = EventBatch::default();
        while self.batches.next_into(&mut batch)? {
            self.progress.set(self.batches.events().bytes_read());
            if self.batches.seen().measured > 0 && !self.warned {
                self.progress.say(&format!("warning: {SYNTHETIC}"));
                self.warned = true;
            }
            match self.layout {
                Layout::Allen => self.decode(batch.view())?,
                Layout::Mep => {
                    for mep in to_mep(batch.view())? {
                        self.decode(mep.view())?;
                    }
                }
            }
        }
        Ok(())
    }

    fn decode(&mut self, batch: BatchView<'_>) -> Result<(), Failure> {
        let bound = batch.n_events.saturating_mul(self.n_boards * HITS_OF_BANK);
        self.hits.reserve(batch.n_events, batch.max_hits().min(bound));
        let start = Instant::now();
        self.decoder.decode(batch, &mut self.hits, &mut self.report)?;
        let taken: Duration = start.elapsed();
        if let Some(file) = &mut self.file {
            // A file that cannot be written is not completed either.
            if let Err(error) = file.write(self.totals.events, batch.meta, &self.hits) {
                self.file = None;
                return Err(error.into());
            }
        }
        self.totals.add(&self.hits, &self.report, taken);
        Ok(())
    }
}

/// How the hits were made, for the output's metadata.
fn entries(args: &Args, detector: &Detector, synthetic: bool) -> Vec<(String, String)> {
    let options = args.clustering.options();
    let table = |path: &Option<PathBuf>| {
        path.as_deref().map_or_else(|| "embedded synthetic detector".to_owned(), |path| path.display().to_string())
    };
    let inputs: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let mut entries = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", Machine::this().commit.unwrap_or_default()),
        ("backend", args.backend.backend.name().to_owned()),
        ("layout", layout_name(args.backend.layout).to_owned()),
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
