//! The decoder for CPUs: `fast`, a vectorised path for nearly all events, which explains how it
//! works, and `fallback` for the rest.
#![allow(
    clippy::inline_always,
    reason = "what is not inlined has not the instructions of its level: see `simd`"
)]
#![allow(
    clippy::needless_bitwise_bool,
    reason = "checks are collected without branches, and decided once"
)]

mod bank_order;
mod banks;
mod copy_lanes;
mod describe;
mod events;
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
mod scratch;
mod selection;
mod setup;
mod simd;
#[cfg(test)]
mod tests;

use self::events::{BatchOutput, Worker};
use self::fast::Fast;
use self::lanes::LaneOrder;
use self::level::Level;
pub use self::level::Simd;
use self::selection::Selection;
use self::setup::Setup;
use super::{BatchReport, DecodeError, DecodeOptions, Decoder, EventReport, UtHits, UtHitsMut};
use ut_data::detector::{BankVersion, DetectorTables};
use ut_data::hits::BatchCheck;
use ut_data::input::BatchView;

/// Estimates the largest number of bytes that this many threads take, each with a [`CpuDecoder`]
/// and a stack.
pub const fn memory_of_threads(threads: usize) -> u64 {
    (threads as u64).saturating_mul(12 << 20)
}

/// Decoder for CPUs. It works in the calling thread: a program with several threads makes one
/// decoder per thread.
///
/// It takes at most 4 MB of memory, whatever the batches hold, plus one bit per event if events are
/// selected. Once it has seen the largest batch and a batch with trouble, it allocates nothing
/// more.
///
/// A framework that owns its memory calls [`decode_into`](Self::decode_into). To allocate exactly
/// as much as the hits need, it calls [`count`](Self::count) first.
///
/// ```
/// use ut_data::{BankVersion, BatchView, DecodeOptions, DetectorTables, Grouping};
/// use ut_decoders::cpu::CpuDecoder;
/// use ut_decoders::{BatchReport, Decoder, UtHits};
///
/// let tables = ut_data::synth::tables(BankVersion::V5, Grouping::YRows);
/// let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default());
/// let (mut hits, mut report) = (UtHits::with_capacity(256, 72, 100_000), BatchReport::new());
/// // `BatchView` describes the batch that a framework holds; this one has no events.
/// decoder.decode(BatchView::default(), &mut hits, &mut report)?;
/// assert!(hits.is_empty());
/// # Ok::<(), ut_decoders::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct CpuDecoder {
    fast: Fast,
    check: BatchCheck,
    selection: Selection,
    worker: Worker,
}

impl CpuDecoder {
    /// Creates a decoder for one detector and one set of options, with the widest vector
    /// instructions of this CPU.
    pub fn new(tables: &DetectorTables, options: DecodeOptions) -> Self {
        Self::with_level(tables, options, Level::widest())
    }

    /// Creates a decoder with other vector instructions, which change no hit.
    ///
    /// # Errors
    /// If this CPU lacks them.
    pub fn with_simd(
        tables: &DetectorTables,
        options: DecodeOptions,
        simd: Simd,
    ) -> Result<Self, DecodeError> {
        let message = || format!("this CPU has no {} instructions", simd.name());
        let level = Level::new(simd).ok_or_else(|| DecodeError::Device {
            backend: "cpu",
            message: message(),
        })?;
        Ok(Self::with_level(tables, options, level))
    }

    fn with_level(tables: &DetectorTables, options: DecodeOptions, level: Level) -> Self {
        Self {
            fast: Fast::new(Setup::new(LaneOrder::new(tables, options), options), level),
            check: BatchCheck::new(tables),
            selection: Selection::default(),
            worker: Worker::new(tables, options),
        }
    }

    /// Returns the number of sector groups of an event.
    pub fn n_groups(&self) -> usize {
        self.fast.n_groups()
    }

    /// Returns the bank format of the tables.
    pub const fn version(&self) -> BankVersion {
        self.fast.version()
    }

    /// Counts the hits of a batch, and writes everything that [`decode_into`](Self::decode_into)
    /// writes except the hits. It takes about two thirds of the time of decoding, and lets a
    /// program allocate exactly as much memory as the hits need.
    ///
    /// ```
    /// use ut_data::{BankVersion, BatchView, DecodeOptions, DetectorTables, EventReport, Grouping};
    /// use ut_decoders::cpu::CpuDecoder;
    ///
    /// let tables = ut_data::synth::tables(BankVersion::V5, Grouping::YRows);
    /// let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default());
    /// let batch = BatchView::default();
    /// let mut offsets = vec![0; batch.n_events * tables.n_groups() + 1];
    /// let mut reports = vec![EventReport::default(); batch.n_events];
    /// assert_eq!(decoder.count(batch, &mut offsets, &mut reports)?, 0);
    /// # Ok::<(), ut_decoders::DecodeError>(())
    /// ```
    ///
    /// # Errors
    /// If `offsets` or `reports` is too short, a selected event is not in the batch, all banks have
    /// another version than the tables, there are bytes and no bank, or the batch has more hits
    /// than 32 bits can number.
    pub fn count(
        &mut self,
        batch: BatchView<'_>,
        offsets: &mut [u32],
        reports: &mut [EventReport],
    ) -> Result<usize, DecodeError> {
        self.run(
            batch,
            BatchOutput {
                hits: None,
                offsets,
                reports,
            },
        )
    }

    /// Decodes all or the selected events of `batch` into the caller's memory, and returns the
    /// number of hits, `n`.
    ///
    /// The arrays may have any length. The first `n` elements are written, and `n_events * n_groups
    /// + 1` elements of `hits.offsets` and `n_events` of `reports`; the rest is unchanged, as is
    /// `hits.clusters` for v4 banks, which have no clusters.
    ///
    /// # Errors
    /// If the batch has more events or hits than the arrays have elements, a selected event is not
    /// in the batch, all banks have another version than the tables, or there are bytes and no
    /// bank. The contents of the arrays are then unspecified.
    pub fn decode_into(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHitsMut<'_>,
        reports: &mut [EventReport],
    ) -> Result<usize, DecodeError> {
        // v4 banks have none.
        let unused = hits
            .clusters
            .take_if(|_| self.fast.version() == BankVersion::V4);
        let room = hits.room();
        let mut arrays = hits.part(0..room);
        let offsets = std::mem::take(&mut arrays.offsets);
        let done = self.run(
            batch,
            BatchOutput {
                hits: Some(arrays),
                offsets,
                reports,
            },
        );
        hits.clusters = unused.or(hits.clusters.take());
        done
    }

    fn run(&mut self, batch: BatchView<'_>, out: BatchOutput<'_>) -> Result<usize, DecodeError> {
        let out = cut_to(&batch, self.fast.n_groups(), out)?;
        let selected = self.selection.of(&batch)?;
        self.check.check(&batch)?;
        self.worker.decode(&self.fast, batch, selected, out)
    }
}

impl Decoder for CpuDecoder {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn decode(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHits,
        report: &mut BatchReport,
    ) -> Result<(), DecodeError> {
        let mut out =
            hits.begin_with_clusters(batch.n_events, self.fast.n_groups(), self.fast.version())?;
        report.reset(batch.n_events);
        let result = self
            .decode_into(batch, &mut out, &mut report.events)
            .map(|_| ());
        hits.forget_on(result)
    }
}

/// Cuts offsets and reports to the events of the batch.
fn cut_to<'a>(
    batch: &BatchView<'_>,
    n_groups: usize,
    out: BatchOutput<'a>,
) -> Result<BatchOutput<'a>, DecodeError> {
    let BatchOutput {
        hits,
        offsets,
        reports,
    } = out;
    let capacity = (offsets.len().saturating_sub(1) / n_groups).min(reports.len());
    if batch.n_events > capacity || offsets.is_empty() {
        return Err(DecodeError::TooManyEvents {
            events: batch.n_events,
            capacity,
        });
    }
    let offsets = &mut offsets[..=batch.n_events * n_groups];
    Ok(BatchOutput {
        hits,
        offsets,
        reports: &mut reports[..batch.n_events],
    })
}
