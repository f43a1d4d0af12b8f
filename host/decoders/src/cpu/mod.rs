//! The decoder for CPUs: a vectorised path for nearly all events, `fast`, which says how it works, and the `fallback`.
#![allow(clippy::inline_always, reason = "what is not inlined has not the instructions of its level: see `simd`")]
#![allow(clippy::needless_bitwise_bool, reason = "checks are collected without branches, and decided once")]

mod bank_order;
mod banks;
mod copy_lanes;
mod describe;
mod fallback;
mod fast;
mod find_clusters;
mod find_lanes;
mod hits;
pub(super) mod lanes;
mod level;
mod make_hits;
mod policy;
mod pool;
mod prefetch;
mod schedule;
mod scratch;
mod selection;
mod setup;
mod simd;
mod stages;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use self::banks::EventBanks;
use self::fallback::Fallback;
use self::fast::Fast;
use self::hits::EventHits;
use self::lanes::LaneOrder;
use self::level::Level;
pub use self::level::Simd;
use self::policy::{HIT_BANKS, Policy};
use self::pool::Pool;
use self::schedule::{Job, Output, Worker};
use self::selection::Selection;
use self::setup::Setup;
#[doc(hidden)]
pub use self::stages::{Stage, StageTimes};
use super::{BatchReport, DecodeError, DecodeOptions, Decoder, EventReport, UtHits, UtHitsMut};
use ut_data::detector::{BankVersion, DetectorTables};
use ut_data::input::BatchView;

/// Largest chunk of events that a thread takes.
pub(super) const MAX_CHUNK: usize = 1024;

/// Settings of a [`CpuDecoder`]; none changes a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CpuConfig {
    /// Threads, at most 65535; 0: one a core.
    pub threads: usize,
    pub simd: Simd,
    /// Events that a thread takes at a time, clamped to 1…1024; one thread alone takes them one by one.
    pub chunk: usize,
}

impl Default for CpuConfig {
    fn default() -> Self {
        Self { threads: 0, simd: Simd::Auto, chunk: 16 }
    }
}

/// Estimates the bytes that a [`CpuDecoder`] with this many threads takes at most, stacks included.
pub const fn memory_of_threads(threads: usize) -> u64 {
    (threads as u64).saturating_mul(12 << 20)
}

/// Decodes on the CPU, with one thread or several.
///
/// Memory: at most 7 MB a thread, whatever the batches hold, and a bit an event where events are selected. One thread,
/// the caller's, allocates nothing after the largest batch and one with trouble.
///
/// A forked process lacks the threads of its parent: there, a decoder with several threads returns
/// [`DecodeError::Forked`], and can be dropped.
///
/// A framework with memory of its own calls [`decode_into`](Self::decode_into), and to allocate exactly as much as
/// there are hits, [`count`](Self::count) before.
#[derive(Debug)]
pub struct CpuDecoder {
    fast: Fast,
    options: DecodeOptions,
    selection: Selection,
    /// One a thread.
    workers: Vec<Mutex<Worker>>,
    /// With more than one thread.
    pool: Option<Pool>,
    chunk: usize,
}

impl CpuDecoder {
    /// Creates a decoder for one detector and one set of options.
    pub fn new(tables: &DetectorTables, options: DecodeOptions, config: CpuConfig) -> Result<Self, DecodeError> {
        let failure = |message: String| DecodeError::Device { backend: "cpu", message };
        let level = Level::new(config.simd)
            .ok_or_else(|| failure(format!("this CPU has no {} instructions", config.simd.name())))?;
        let threads = match config.threads {
            0 => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            threads => threads,
        };
        let chunk = config.chunk.clamp(1, MAX_CHUNK);
        let pool = match threads {
            1 => None,
            _ => Some(Pool::new(threads).map_err(failure)?),
        };
        Ok(Self {
            fast: Fast::new(Setup::new(LaneOrder::new(tables, options), options), level),
            options,
            selection: Selection::default(),
            workers: workers(tables, options, threads, chunk),
            pool,
            chunk,
        })
    }

    /// Replaces the tables, for a new run, and keeps the threads. Output that was made for another number of groups is
    /// refused afterwards.
    pub fn set_tables(&mut self, tables: &DetectorTables) {
        self.fast = self.fast.with_setup(Setup::new(LaneOrder::new(tables, self.options), self.options));
        self.workers = workers(tables, self.options, self.workers.len(), self.chunk);
    }

    /// Sector groups of an event.
    pub fn n_groups(&self) -> usize {
        self.fast.n_groups()
    }

    /// Bank format of the tables.
    pub const fn version(&self) -> BankVersion {
        self.fast.version()
    }

    /// The most hits that any decoder can make of a batch, from the sizes of its banks. Takes about as long as
    /// counting; [`BatchView::max_hits`] is larger, and takes no time.
    pub fn max_hits(&mut self, batch: BatchView<'_>) -> Result<usize, DecodeError> {
        let selected = self.selection.of(&batch)?;
        let version = self.fast.version();
        let hits_of = |event: usize| {
            let banks = batch.first_event.checked_add(event).and_then(|event| EventBanks::new(batch, event));
            let Some(banks) = banks else { return 0 };
            let banks = (0..banks.n_banks()).map_while(|bank| banks.bank(bank));
            banks.filter(|bank| HIT_BANKS.contains(&bank.kind)).map(|bank| most_hits(version, bank.payload.len())).sum()
        };
        let events = (0..batch.n_events).filter(|&event| selected.is_none_or(|selected| selected.has(event)));
        Ok(events.map(hits_of).fold(0, usize::saturating_add))
    }

    /// Counts the hits of a batch, and fills in everything of [`decode_into`](Self::decode_into) but the hits. It costs
    /// about two thirds of decoding, and comes first where memory is allocated for exactly the hits that there are.
    ///
    /// # Errors
    /// If `offsets` or `reports` is too short, a selected event is not in the batch, or the batch has more hits than 32
    /// bits can number.
    pub fn count(
        &mut self,
        batch: BatchView<'_>,
        offsets: &mut [u32],
        reports: &mut [EventReport],
    ) -> Result<usize, DecodeError> {
        self.run(batch, Output { hits: None, offsets, reports })
    }

    /// Decodes every event of `batch`, or those selected, into the caller's memory, and returns the number of hits `n`.
    /// Arrays may have any length: the first `n` places are written, as are `n_events * n_groups + 1` of `hits.offsets`
    /// and `n_events` of `reports`; the rest stays as it was. So does `hits.clusters` for v4 banks, which do not tell
    /// them.
    ///
    /// # Errors
    /// If the batch has more events or hits than there are places, or a selected event is not in it. The contents of
    /// the arrays are unspecified then.
    pub fn decode_into(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHitsMut<'_>,
        reports: &mut [EventReport],
    ) -> Result<usize, DecodeError> {
        let (mut hits, offsets) = EventHits::of_batch(hits);
        if self.fast.version() == BankVersion::V4 {
            hits.clusters = None;
        }
        self.run(batch, Output { hits: Some(hits), offsets, reports })
    }

    fn run(&mut self, batch: BatchView<'_>, out: Output<'_>) -> Result<usize, DecodeError> {
        let Self { fast, selection, workers, pool, chunk, .. } = self;
        // Refused also for batches too small to wake other threads: an error that depends on a batch's size is hard to
        // find.
        if pool.as_ref().is_some_and(|pool| !pool.is_here()) {
            return Err(DecodeError::Forked);
        }
        let out = cut_to(&batch, fast.n_groups(), out)?;
        let selected = selection.of(&batch)?;
        match pool {
            // A chunk or less is not worth waking the others.
            Some(pool) if batch.n_events > *chunk => {
                let job = Job::new(fast, batch, selected, out, Some(*chunk));
                pool.broadcast(|thread| {
                    // The next batch sets everything again that a thread left behind when it panicked.
                    let mut worker = workers[thread.index()].lock().unwrap_or_else(PoisonError::into_inner);
                    job.work(&mut worker, &mut ());
                });
                job.finish()
            }
            _ => {
                let job = Job::new(fast, batch, selected, out, None);
                job.work(workers[0].get_mut().unwrap_or_else(PoisonError::into_inner), &mut ());
                job.finish()
            }
        }
    }

    /// Decodes as [`Decoder::decode`] does, with one thread, and measures each stage.
    #[doc(hidden)]
    pub fn decode_in_stages(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHits,
        report: &mut BatchReport,
    ) -> Result<StageTimes, DecodeError> {
        let mut times = StageTimes::start();
        let selected = self.selection.of(&batch)?;
        let mut out = hits.begin_with_clusters(batch.n_events, self.fast.n_groups(), self.fast.version())?;
        report.reset(batch.n_events);
        let (columns, offsets) = EventHits::of_batch(&mut out);
        let out = Output { hits: Some(columns), offsets, reports: &mut report.events };
        let job = Job::new(&self.fast, batch, selected, out, None);
        job.work(self.workers[0].get_mut().unwrap_or_else(PoisonError::into_inner), &mut times);
        let result = job.finish();
        hits.forget_on(result.map(|_| times))
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }
}

impl Decoder for CpuDecoder {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        let mut out = hits.begin_with_clusters(batch.n_events, self.fast.n_groups(), self.fast.version())?;
        report.reset(batch.n_events);
        let result = self.decode_into(batch, &mut out, &mut report.events).map(|_| ());
        hits.forget_on(result)
    }
}

fn workers(tables: &DetectorTables, options: DecodeOptions, threads: usize, chunk: usize) -> Vec<Mutex<Worker>> {
    let fallback = Fallback::new(tables, options);
    (0..threads).map(|_| Mutex::new(Worker::new(fallback.clone(), Policy::new(tables), chunk))).collect()
}

/// Cuts offsets and reports to the batch's events.
fn cut_to<'a>(batch: &BatchView<'_>, n_groups: usize, out: Output<'a>) -> Result<Output<'a>, DecodeError> {
    let Output { hits, offsets, reports } = out;
    let capacity = (offsets.len().saturating_sub(1) / n_groups).min(reports.len());
    if batch.n_events > capacity || offsets.is_empty() {
        return Err(DecodeError::TooManyEvents { events: batch.n_events, capacity });
    }
    let offsets = &mut offsets[..=batch.n_events * n_groups];
    Ok(Output { hits, offsets, reports: &mut reports[..batch.n_events] })
}

/// Most hits of a bank with a payload of this many bytes.
const fn most_hits(version: BankVersion, bytes: usize) -> usize {
    match version {
        BankVersion::V4 => bytes.saturating_sub(4) / 2,
        // Two hits of each of six lanes a row of 32 bytes.
        BankVersion::V5 => bytes / 32 * 12,
    }
}
