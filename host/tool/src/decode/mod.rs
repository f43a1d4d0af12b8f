//! `ut-decode decode`: files in, hits out.

mod job;
mod outputs;
mod resume;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use self::job::{Running, Task, story};
use self::outputs::{OutputOptions, Outputs, Plan};
use self::resume::made_with;
use self::work::Worker;
use crate::args::{BackendArgs, ClusterArgs, DetectorArgs};
use crate::inputs::{InputArgs, check_once};
use crate::loss::{Account, LossArgs};
use crate::output::{count, detail, number, on_stdout, say};
use crate::paths::Protected;
use crate::signals;
use crate::summary::Totals;
use crate::tuned::TunedArgs;
use crate::{Failure, end, usage};
use clap::builder::PossibleValuesParser;
use ut_bench::tunable::Subject;
use ut_data::DetectorTables;
use ut_data::detector::Mask;
use ut_data::input::InputPart;
use ut_data::job::{BATCH_SIZE, Job, LARGE_BATCH_SIZE};
use ut_data::pipeline::Flow;
use ut_decoders::{Backend, DecodeError, Parameters, threads};
use ut_files::{Columns, EventTable, HitFormat};
use ut_report::Detector;

/// Decode files into hits.
///
/// Reads MDF files, MEP packets and Allen-layout dumps, in zstd or gzip or not, as one job:
/// reading, decoding and writing share all threads, and the output does not depend on their number.
/// Prints a summary, and what was wrong with the data by the names of the policy: troubles cost
/// only themselves. If a file cannot be read further, the command fails, and keeps the hits of the
/// events before.
#[derive(Debug, clap::Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Args {
    /// Write the hits here: .csv, or .parquet (with run and event numbers, and metadata on how they
    /// were made); - is standard output. A folder (it exists, or the name ends in / or has no
    /// extension) gets one file per input.
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Leave out inputs whose hits an earlier run with --resume has written whole, with the same
    /// tables, mask, options and version of the tool; needs a folder of one file per input.
    #[arg(long, requires = "output", conflicts_with_all = ["events", "shard", "skip", "limit"])]
    resume: bool,
    /// The output's format, if its name does not end in it.
    #[arg(long, value_name = "NAME", requires = "output", value_parser = PossibleValuesParser::new(["csv", "parquet"]))]
    format: Option<String>,
    /// Extra columns, comma-separated: detector for layer, side, stave, face, module, sector,
    /// strip, board, lane, charge, n_strips, first_strip and flipped, or some of these by name;
    /// sector_id; in CSV also run, event_number, file.
    #[arg(long, value_name = "LIST", requires = "output")]
    columns: Option<Columns>,
    /// Write the summary as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a table with one row per event here, .csv or .parquet, with or without hits: file, run,
    /// number, ODIN's time, bunch crossing, trigger, orbit and TCK, and the numbers of hits, banks
    /// and troubles.
    #[arg(long, value_name = "PATH", conflicts_with = "resume")]
    event_table: Option<PathBuf>,
    #[command(flatten)]
    loss: LossArgs,
    /// Leave out and count hits on the strips, sectors, lanes and boards that this text file names
    /// (docs/tables.md).
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// Skip checksum verification.
    #[arg(long)]
    no_checksum: bool,
    /// Events decoded at a time [default: as tuned, else 64; 256 on a device and for Parquet].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: Option<u32>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    detector: DetectorArgs,
    #[command(flatten)]
    clustering: ClusterArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    tuned: TunedArgs,
}

/// Reads a mask, which names at least one strip.
pub fn read_mask(path: &Path, tables: &DetectorTables) -> Result<Mask, Failure> {
    let mask = Mask::read(path, tables)?;
    if mask.n_strips() == 0 {
        return Err(format!(
            "{}: the mask names no strip: leave --mask out",
            path.display()
        )
        .into());
    }
    detail(&format!(
        "mask: {}, {}",
        path.display(),
        count(mask.n_strips(), "strip")
    ));
    Ok(mask)
}

/// Returns the output that the user wants, checked before anything is read. Ends the program where
/// it makes no sense.
fn wanted(args: &Args) -> Option<OutputOptions<'_>> {
    let columns = args.columns.clone().unwrap_or_default();
    let backend = args.backend.backend;
    if let (Some(column), Backend::Emulated | Backend::Cuda) = (columns.needs_clusters(), backend) {
        let (column, backend) = (column.name(), backend.name());
        usage(&format!(
            "--columns: the backends reference and cpu give {column}, {backend} does not"
        ));
    }
    on_stdout([&args.output, &args.json]);
    let wanted = OutputOptions {
        path: args.output.as_ref()?,
        format: args.format.as_ref().map(|name| {
            let format = name.parse();
            format.unwrap_or_else(|error: String| usage(&format!("--format {error}")))
        }),
        columns,
        shard: args.inputs.select.shard,
        protected: Protected::default(),
        resume: args.resume,
    };
    if wanted.resume && !wanted.is_folder() {
        usage(
            "--resume writes a file per input: name a folder, as --output FOLDER/ --format parquet",
        );
    }
    Some(wanted)
}

/// Completes the parameters by tuned ones, also those that say how many threads decode; returns the
/// number of events in a batch, if one is known.
fn tuned(
    args: &Args,
    detector: &Detector,
    files: &[PathBuf],
    config: &mut Parameters,
) -> Option<usize> {
    let asked = args.backend.batch(args.batch).map(|size| size as usize);
    *config = config.with_threads(usize::from(args.backend.threads()));
    if args.backend.by_hand() {
        return asked;
    }
    let what = Subject {
        backend: args.backend.backend,
        pipeline: config.pipeline(),
    };
    args.tuned
        .tune_first(what, detector, args.clustering.options(), files);
    let tuned = args
        .tuned
        .configuration(what, &detector.tables, &args.clustering.options());
    if let Some(tuned) = &tuned {
        *config = config.tuned(tuned);
        if args.backend.threads() == 0 && what.backend == Backend::Cpu {
            *config = config.with_threads(tuned.threads() as usize);
        }
    }
    asked.or(tuned.map(|tuned| tuned.batch() as usize))
}

/// Returns the inputs as files that are not written over; ends the program if an output is one.
fn protected(args: &Args, files: &[PathBuf]) -> Protected {
    let protected = Protected::inputs(files);
    for output in [&args.output, &args.json, &args.event_table]
        .into_iter()
        .flatten()
    {
        protected.refuse(output);
    }
    protected
}

/// Plans the outputs of `files`, and takes off those whose hits are there already.
fn plan<'a>(
    args: &'a Args,
    mut wanted: OutputOptions<'a>,
    mut protected: Protected,
    detector: &Detector,
    mask: Option<&Mask>,
    files: &mut Vec<PathBuf>,
) -> (OutputOptions<'a>, Plan) {
    let what = "which is named by another option";
    let read = [&detector.boards, &detector.geometry, &args.mask];
    protected.add_unnamed();
    protected.add(read.into_iter().flatten().chain(&args.inputs.lists()), what);
    args.json
        .iter()
        .chain(&args.event_table)
        .for_each(|path| protected.add_output(path, what));
    wanted.protected = protected;
    let plan = wanted.plan(files, || made_with(args, detector, mask));
    (wanted, plan)
}

/// Returns the number of events in a batch where neither the user nor a tuned value says it.
fn batch_of(format: Option<HitFormat>, backend: Backend) -> usize {
    match format {
        // A batch is a row group: the same from every backend.
        Some(HitFormat::Parquet) => LARGE_BATCH_SIZE,
        _ if backend.runs_kernels() => backend.batch(),
        _ => BATCH_SIZE,
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let wanted = wanted(args);
    let format = wanted.as_ref().map(OutputOptions::format);
    let mut files = args.inputs.expand()?;
    let protected = protected(args, &files);
    let (backend, layout) = (args.backend.backend, args.backend.layout());
    args.event_table
        .iter()
        .try_for_each(|table| HitFormat::of(table).map(|_| ()))?;
    let mut config = args.backend.config();
    let start = Instant::now();
    let detector = args.detector.load(&files)?;
    let tables = &detector.tables;
    ClusterArgs::check(tables.boards().version);
    let mask = args.mask.as_ref().map(|path| read_mask(path, tables));
    let mask = mask.transpose()?;
    let batch = tuned(args, &detector, &files, &mut config);
    let n_files = files.len();
    let planned = wanted.map(|wanted| {
        plan(
            args,
            wanted,
            protected,
            &detector,
            mask.as_ref(),
            &mut files,
        )
    });
    let n_skipped = n_files - files.len();
    if n_skipped > 0 {
        let n = number(n_skipped as u64);
        say(&format!(
            "skipped {n} of {}: the hits are there already",
            count(n_files, "file")
        ));
    }
    check_once(&files, &args.loss)?;
    args.inputs.check(&files)?;
    let keep_going = args.inputs.keep_going;
    let select = args.inputs.select.select(&files, keep_going)?;
    let n_workers = threads(backend, config.threads() as usize)?;
    let options = args.clustering.options();
    let files: Arc<[PathBuf]> = files.into();
    let mask_file = args.mask.as_deref().zip(mask.as_ref());
    let story = Arc::new(story(
        options,
        (backend, layout),
        &detector,
        mask_file,
        Arc::clone(&files),
    ));
    let outputs = planned
        .map(|(wanted, plan)| Outputs::begin(wanted, plan, Arc::clone(&story)))
        .transpose()?;
    let table = args
        .event_table
        .as_ref()
        .map(|path| EventTable::create(path, &files))
        .transpose()?;
    let batch = batch.unwrap_or_else(|| batch_of(format, backend));
    let job = Job {
        parts: files.iter().map(InputPart::file).collect(),
        select,
        check: !args.no_checksum,
        by_file: outputs.as_ref().is_some_and(Outputs::by_file),
        layout,
        together: backend.runs_kernels(),
        keep_going,
        first_place: 0,
        clusters: args
            .columns
            .as_ref()
            .is_some_and(|columns| columns.needs_clusters().is_some()),
        tables,
    };
    let totals = Totals::new(
        tables,
        options.flip(),
        mask.is_some(),
        Account::new(&args.loss),
    );
    let worker = |_| -> Result<_, DecodeError> {
        Ok(Worker {
            decoder: backend.decoder_with(tables, options, &config)?,
            layers: totals.layers(),
            tables,
            mask: mask.as_ref(),
            encoder: outputs.as_ref().map(Outputs::encoder),
            has_table: args.event_table.is_some(),
        })
    };
    let workers = (0..n_workers).map(worker).collect::<Result<Vec<_>, _>>()?;
    let task = Task {
        args,
        detector: &detector,
        story,
        n_skipped,
        start,
    };
    drive(
        job,
        workers,
        batch,
        Running::new(task, totals, outputs, table),
    )
}

/// Does the job in batches of at most `batch` events.
fn drive(
    job: Job<'_>,
    workers: Vec<Worker<'_>>,
    batch: usize,
    running: Running<'_>,
) -> Result<(), Failure> {
    signals::end_gently();
    let may_wait = running.task.story.files.iter().any(|file| !file.is_file());
    let mut state = Some(running);
    let (flow, reached) = job.run(
        workers,
        || Some(batch),
        |reached, file, done| {
            let Some(running) = &mut state else {
                return false;
            };
            let goes_on = running.take(reached, file, done);
            // The next byte of a pipe may never come.
            if !goes_on
                && may_wait
                && !reached.ended
                && let Some(running) = state.take()
            {
                end(running.end(&Flow::default(), reached));
            }
            goes_on
        },
    );
    state.map_or(Ok(()), |running| running.end(&flow, reached))
}
