//! The decoder for CPUs: a vectorised path (`fast`, which says how it works) for nearly all events, and the
//! `fallback` for the others.
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
mod prefetch;
mod schedule;
mod scratch;
mod setup;
mod simd;
mod stages;
#[cfg(all(test, feature = "synth"))]
mod tests;

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use self::fallback::Fallback;
use self::fast::Fast;
use self::lanes::LaneOrder;
use self::level::Level;
pub use self::level::Simd;
use self::policy::Policy;
use self::schedule::{Job, Worker};
use self::setup::Setup;
#[doc(hidden)]
pub use self::stages::{Stage, StageTimes};
use super::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};
use crate::detector::DetectorTables;
use crate::input::BatchView;

/// Largest chunk that a thread takes.
const MAX_CHUNK: usize = 1024;

/// How a [`CpuDecoder`] works; nothing here changes its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuConfig {
    /// Threads; 0: as many as the machine has cores.
    pub threads: usize,
    /// Vector instructions.
    pub simd: Simd,
    /// Events that a thread takes at a time, 1 to 1024; one thread alone takes them one by one.
    pub chunk: usize,
}

impl Default for CpuConfig {
    fn default() -> Self {
        Self { threads: 0, simd: Simd::Auto, chunk: 16 }
    }
}

/// An estimate of the bytes that a [`CpuDecoder`] with this many threads takes, stacks included; an upper bound.
pub const fn memory_of_threads(threads: usize) -> u64 {
    (threads as u64).saturating_mul(12 << 20)
}

/// Decodes on the CPU, with one thread or several.
///
/// Memory: at most 7 MB a thread, whatever the batches hold.
#[derive(Debug)]
pub struct CpuDecoder {
    fast: Fast,
    /// One a thread.
    workers: Vec<Mutex<Worker>>,
    /// With more than one thread.
    pool: Option<ThreadPool>,
    chunk: usize,
}

impl CpuDecoder {
    /// A decoder for one detector and one set of options.
    ///
    /// # Errors
    /// When the CPU lacks the instructions that `config.simd` asks for, or threads cannot be started.
    pub fn new(tables: &DetectorTables, options: DecodeOptions, config: CpuConfig) -> Result<Self, DecodeError> {
        let failure = |message: String| DecodeError::Device { backend: "cpu", message };
        let level = Level::new(config.simd).ok_or_else(|| failure(format!("this CPU has no {:?}", config.simd)))?;
        let threads = match config.threads {
            0 => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            threads => threads,
        };
        let chunk = config.chunk.clamp(1, MAX_CHUNK);
        let pool = match threads {
            1 => None,
            _ => Some(
                ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .thread_name(|i| format!("ut-decode-{i}"))
                    .build()
                    .map_err(|error| failure(error.to_string()))?,
            ),
        };
        let fallback = Fallback::new(tables, options);
        Ok(Self {
            fast: Fast::new(Setup::new(LaneOrder::new(tables, options), options), level),
            workers: (0..threads)
                .map(|_| Mutex::new(Worker::new(fallback.clone(), Policy::new(tables), chunk)))
                .collect(),
            pool,
            chunk,
        })
    }

    /// Decodes as [`Decoder::decode`] does, with one thread, and says where the time went.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    #[doc(hidden)]
    pub fn decode_in_stages(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHits,
        report: &mut BatchReport,
    ) -> Result<StageTimes, DecodeError> {
        let mut times = StageTimes::start();
        report.reset(batch.n_events);
        let mut out = hits.begin_with_clusters(batch.n_events, self.fast.n_groups(), self.fast.version())?;
        let job = Job::new(&self.fast, batch, &mut out, &mut report.events, None);
        job.work(self.workers[0].get_mut().unwrap_or_else(PoisonError::into_inner), &mut times);
        job.finish()?;
        Ok(times)
    }

    /// Threads that decode.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }
}

impl Decoder for CpuDecoder {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        report.reset(batch.n_events);
        let mut out = hits.begin_with_clusters(batch.n_events, self.fast.n_groups(), self.fast.version())?;
        match &self.pool {
            // A chunk or less is not worth waking the others.
            Some(pool) if batch.n_events > self.chunk => {
                let job = Job::new(&self.fast, batch, &mut out, &mut report.events, Some(self.chunk));
                pool.broadcast(|thread| {
                    // A worker in which a thread panicked has nothing that the next batch does not set again.
                    let mut worker = self.workers[thread.index()].lock().unwrap_or_else(PoisonError::into_inner);
                    job.work(&mut worker, &mut ());
                });
                job.finish()
            }
            _ => {
                let job = Job::new(&self.fast, batch, &mut out, &mut report.events, None);
                job.work(self.workers[0].get_mut().unwrap_or_else(PoisonError::into_inner), &mut ());
                job.finish()
            }
        }
    }
}
