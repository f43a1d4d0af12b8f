//! A job: files in, results of each decoded batch out, in the order of the inputs. Each thread in
//! turn reads a piece of the inputs, then parses and decodes it and makes results of its batches by
//! [`Work`]. The caller's thread gets the results.

mod waiting;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use self::waiting::Waiting;
use crate::CapacityError;
use crate::error::WorkError;
use crate::input::{
    Chunk, Chunks, InputError, InputPart, Origin, Parser, Part, RawEvent, Seen, Select, to_allen,
    to_mep,
};
use crate::pipeline::{Flow, ordered};
use crate::{BatchReport, BatchView, DecodeError, Decoder, DetectorTables, Layout, UtHits};

/// Mean bytes of a piece of the inputs, with its hits in every form.
pub const CHUNK_MEMORY: u64 = 48 << 20;

/// Maximum number of batches in MEP layout into which a batch is split. One that would need more,
/// because many events lack banks, is decoded as it is: a backend would launch all its kernels for
/// each part.
const MOST_MEP_BATCHES: usize = 4;

/// Default number of events in a batch: a megabyte or so, which is read, checked and decoded in a
/// core's caches.
pub const BATCH_SIZE: usize = 64;

/// Number of events in a device's batch, and in a row group of Parquet.
pub const LARGE_BATCH_SIZE: usize = 256;

/// Maximum number of failed files that a job lists.
pub const LISTED_FAILURES: usize = 100;

/// A decoded batch.
pub struct Decoded<'a> {
    /// Batch that was decoded.
    pub batch: BatchView<'a>,
    /// File and place of each event.
    pub origins: &'a [Origin],
    /// Hits, which may be exchanged for others; the next batch uses those.
    pub hits: &'a mut UtHits,
    /// Counters of its events.
    pub report: &'a mut BatchReport,
    /// Time that decoding took.
    pub decoding: Duration,
}

/// Work of a thread on batches.
pub trait Work: Send {
    /// Result of a batch.
    type Made: Send;

    /// Is true if [`look`](Self::look) is called.
    const LOOKS: bool = false;

    /// Looks at an event before it is decoded, with the banks that are not decoded.
    fn look(&mut self, _event: &RawEvent<'_>, _origin: Origin) {}

    /// Makes room for a batch.
    fn reserve(
        &mut self,
        hits: &mut UtHits,
        n_events: usize,
        max_hits: usize,
    ) -> Result<(), CapacityError> {
        hits.try_reserve(n_events, max_hits)
    }

    /// Returns the decoder of the thread.
    fn decoder(&mut self) -> Result<&mut dyn Decoder, DecodeError>;

    /// Makes the result of a batch.
    fn make(&mut self, decoded: Decoded<'_>) -> Result<Self::Made, WorkError>;

    /// Returns the number of bytes that stay in memory until the caller has taken the result.
    fn bytes(_made: &Self::Made) -> u64 {
        0
    }
}

/// Result of a piece of the inputs.
#[derive(Debug)]
pub struct Done<T> {
    /// Problems that belong to a file and not to an event.
    pub seen: Seen,
    /// Result of each batch.
    pub made: Vec<T>,
    /// Number of bytes of payloads that were copied.
    pub copied: u64,
}

/// Position up to which the inputs were read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadPosition {
    /// Number of bytes on the disk.
    pub bytes: u64,
    /// Number of opened inputs; none is opened after the last wanted event.
    pub opened: usize,
    /// True if nothing more is read.
    pub ended: bool,
}

/// Files, and how they are decoded.
#[allow(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Job<'a> {
    /// Inputs, in order.
    pub parts: Vec<InputPart>,
    /// Selection of the events.
    pub select: Select,
    /// True to compare checksums.
    pub check: bool,
    /// True if a batch has events of one file only.
    pub by_file: bool,
    /// Layout that batches are converted to; `None` to leave them.
    pub layout: Option<Layout>,
    /// Puts a batch's payloads into one block, for a device.
    pub together: bool,
    /// Continues with the next file after one that cannot be read to its end.
    pub keep_going: bool,
    /// Number of events of the run that come before the inputs.
    pub first_place: u64,
    /// True to decode with clusters.
    pub clusters: bool,
    /// Tables of the detector.
    pub tables: &'a DetectorTables,
}

struct Worker<'a, W> {
    work: W,
    parser: Parser,
    hits: UtHits,
    report: BatchReport,
    layout: Option<Layout>,
    tables: &'a DetectorTables,
}

impl<W: Work> Worker<'_, W> {
    fn work(&mut self, chunk: Chunk) -> Result<Done<W::Made>, WorkError> {
        let Self {
            work,
            parser,
            hits,
            report,
            layout,
            tables,
        } = self;
        let (mut seen, mut made) = (Seen::default(), Vec::new());
        let before = parser.copied();
        let work = RefCell::new(work);
        let take = |(batch, origins, max_hits): Part<'_>| -> Result<(), WorkError> {
            let (mut first, mut work) = (0, work.borrow_mut());
            let mut decode = |batch: BatchView<'_>, max_hits: usize| -> Result<(), WorkError> {
                // Whole files are checked, by `seen`.
                let (batch, n) = (
                    BatchView {
                        checked: true,
                        ..batch
                    },
                    batch.n_events,
                );
                work.reserve(hits, n, tables.hits_at_most(n, max_hits))?;
                let start = Instant::now();
                work.decoder()?.decode(batch, hits, report)?;
                let decoding = start.elapsed();
                let origins = &origins[first..first + n];
                made.push(work.make(Decoded {
                    batch,
                    origins,
                    hits,
                    report,
                    decoding,
                })?);
                first += n;
                Ok(())
            };
            match (*layout, batch.layout) {
                (Some(Layout::Mep), Layout::Allen) => {
                    let meps = to_mep(batch)?;
                    if meps.len() > MOST_MEP_BATCHES {
                        return decode(batch, max_hits);
                    }
                    meps.iter()
                        .try_for_each(|mep| decode(mep.view(), mep.view().max_hits()))
                }
                (Some(Layout::Allen), Layout::Mep) => {
                    let allen = to_allen(batch)?;
                    decode(allen.view(), allen.view().max_hits())
                }
                _ => decode(batch, max_hits),
            }
        };
        let mut look = |event: &RawEvent<'_>, origin: Origin| work.borrow_mut().look(event, origin);
        parser.parse(
            chunk,
            &mut seen,
            if W::LOOKS { Some(&mut look) } else { None },
            take,
        )?;
        Ok(Done {
            seen,
            made,
            copied: parser.copied() - before,
        })
    }
}

impl Job<'_> {
    /// Does the job on a thread for each of `workers`. `next` is called before each piece of the
    /// inputs, and returns the most events of a batch, or `None` to end the job. `take` gets each
    /// piece with its file's place among the inputs, and returns false to end the job. After an
    /// error of an input nothing more is opened, unless the job keeps going: it may be a pipe
    /// without a writer.
    pub fn run<W: Work>(
        self,
        workers: Vec<W>,
        mut next: impl FnMut() -> Option<usize> + Send,
        mut take: impl FnMut(ReadPosition, usize, Result<Done<W::Made>, WorkError>) -> bool,
    ) -> (Flow, ReadPosition) {
        let Self {
            parts,
            select,
            check,
            by_file,
            layout,
            together,
            keep_going,
            first_place,
            clusters,
            tables,
        } = self;
        let n = workers.len();
        let waiting = &Waiting::new(n);
        let bytes_of = |done: &Done<W::Made>| done.made.iter().map(W::bytes).sum();
        let worker = |work: W| {
            let hits = UtHits::with_capacity(0, tables.n_groups(), 0);
            let mut worker = Worker {
                work,
                parser: Parser::new(check, select.clone()).together(together),
                hits: if clusters { hits.with_clusters() } else { hits },
                report: BatchReport::new(),
                layout,
                tables,
            };
            move |(file, chunk): (usize, Result<Chunk, InputError>)| {
                let done = chunk
                    .map_err(WorkError::Input)
                    .and_then(|chunk| worker.work(chunk));
                (file, done.inspect(|done| waiting.add(bytes_of(done))))
            }
        };
        let workers = workers.into_iter().map(worker).collect();
        let chunks = Chunks::new(parts, BATCH_SIZE, check, select.clone());
        let mut chunks = chunks
            .begin_at(first_place)
            .by_file(by_file)
            .unpack_at_once(n);
        let (read, opened, ended) = (chunks.read(), &AtomicUsize::new(0), &AtomicBool::new(false));
        let produce = || {
            waiting.wait();
            if ended.load(Ordering::SeqCst) {
                return None;
            }
            chunks.limit(next()?);
            let chunk = chunks.next_chunk().transpose();
            opened.store(chunks.opened(), Ordering::SeqCst);
            let chunk = chunk?;
            ended.store(chunk.is_err() && !keep_going, Ordering::SeqCst);
            Some((chunks.file(), chunk))
        };
        let reached = || ReadPosition {
            bytes: read.load(Ordering::Relaxed),
            opened: opened.load(Ordering::SeqCst),
            ended: ended.load(Ordering::SeqCst),
        };
        let flow = ordered(2 * n + 1, produce, workers, |(file, done)| {
            waiting.write(done.as_ref().map_or(0, bytes_of), || {
                take(reached(), file, done)
            })
        });
        (flow, reached())
    }
}
