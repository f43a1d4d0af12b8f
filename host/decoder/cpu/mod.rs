//! The decoder for CPUs: a vectorised path (`fast`, where the essay is) for events as they should be, and an ordinary
//! one for the others.
#![allow(clippy::inline_always, reason = "what is not inlined has not the instructions of its level: see `simd`")]
#![allow(clippy::needless_bitwise_bool, reason = "checks are collected without branches, and decided once")]

mod bank_order;
mod banks;
mod cluster;
mod copy;
mod fast;
mod headers;
mod hits;
pub(super) mod lanes;
mod make_hits;
mod ordinary;
mod schedule;
mod scratch;
mod simd;
mod stages;

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use self::fast::Fast;
use self::lanes::LaneOrder;
use self::ordinary::Ordinary;
use self::schedule::{Job, Worker};
use self::simd::Level;
pub use self::stages::{Stage, StageTimes};
use super::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};
use crate::detector::DetectorTables;
use crate::input::BatchView;

/// Which vector instructions the decoder uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Simd {
    /// The widest that this CPU has.
    #[default]
    Auto,
    /// None by name: portable code.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VBMI2.
    Avx512,
    /// NEON, of 64-bit ARM.
    Neon,
}

impl Simd {
    /// What `Auto` stands for on this CPU; `None` where the CPU lacks what was asked for.
    pub fn resolve(self) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        let (avx2, avx512) = (
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt"),
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi2"),
        );
        #[cfg(not(target_arch = "x86_64"))]
        let (avx2, avx512) = (false, false);
        // Part of every such CPU.
        let neon = cfg!(all(target_arch = "aarch64", target_endian = "little"));
        match self {
            Self::Auto if avx2 && avx512 => Some(Self::Avx512),
            Self::Auto if avx2 => Some(Self::Avx2),
            Self::Auto if neon => Some(Self::Neon),
            Self::Auto | Self::Scalar => Some(Self::Scalar),
            Self::Avx2 => avx2.then_some(self),
            Self::Avx512 => (avx2 && avx512).then_some(self),
            Self::Neon => neon.then_some(self),
        }
    }
}

fn level_of(simd: Simd) -> Level {
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => simd::avx512::LEVEL,
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => simd::avx2::LEVEL,
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        Simd::Neon => simd::neon::LEVEL,
        _ => simd::portable::LEVEL,
    }
}

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

/// An estimate of the bytes that a [`CpuDecoder`] with so many threads takes, stacks included; it is above what they take.
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
        let simd = config.simd.resolve().ok_or_else(|| failure(format!("this CPU has no {:?}", config.simd)))?;
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
        let ordinary = Ordinary::new(tables, options);
        Ok(Self {
            fast: Fast::new(LaneOrder::new(tables, options), options, level_of(simd)),
            workers: (0..threads).map(|_| Mutex::new(Worker::new(ordinary.clone(), chunk))).collect(),
            pool,
            chunk,
        })
    }

    /// Decodes as [`Decoder::decode`] does, with one thread, and says where the time went.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_in_stages(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHits,
        report: &mut BatchReport,
    ) -> Result<StageTimes, DecodeError> {
        let mut times = StageTimes::start();
        report.reset(batch.n_events);
        let mut out = hits.begin(batch.n_events, self.fast.lanes.n_groups())?;
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
        let mut out = hits.begin(batch.n_events, self.fast.lanes.n_groups())?;
        match &self.pool {
            // A chunk or less is not worth waking anybody.
            Some(pool) if batch.n_events > self.chunk => {
                let job = Job::new(&self.fast, batch, &mut out, &mut report.events, Some(self.chunk));
                pool.broadcast(|thread| {
                    // A worker in which a thread panicked has nothing that the next batch does not set anew.
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
