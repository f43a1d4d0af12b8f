//! Files as hits, for programs that only want these.

use crate::cpu::CpuDecoder;
use crate::{BatchReport, DecodeOptions, Decoder, UtHits};
use ut_data::detector::DetectorTables;
use ut_data::error::WorkError;
use ut_data::input::{Events, InputPart, Origin};
use ut_data::job::BATCH_SIZE;

/// Reads files as hits, batch by batch, with the buffers that this takes: all in the thread that
/// calls.
///
/// ```no_run
/// use ut_data::{DecodeOptions, DetectorTables, Grouping};
/// use ut_decoders::HitReader;
///
/// let tables = DetectorTables::read("ut_boards.bin", "ut_geometry.bin", Grouping::YRows)?;
/// let mut run = HitReader::new(["run.mdf.zst"], &tables, DecodeOptions::default());
/// while let Some((hits, report)) = run.next()? {
///     println!("{} hits, trouble: {}", hits.len(), report.has_trouble());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct HitReader<'t, D = CpuDecoder> {
    events: Events,
    tables: &'t DetectorTables,
    decoder: D,
    batch: usize,
    hits: UtHits,
    report: BatchReport,
    origins: Vec<Origin>,
}

impl<'t> HitReader<'t> {
    /// Reads `files`, MDF, MEP packets or Allen-layout dumps, compressed or not, one after the
    /// other, on the CPU. Each is opened when its turn comes.
    pub fn new(
        files: impl IntoIterator<Item: Into<InputPart>>,
        tables: &'t DetectorTables,
        options: DecodeOptions,
    ) -> Self {
        Self::with_decoder(files, tables, CpuDecoder::new(tables, options))
    }
}

impl<'t, D: Decoder> HitReader<'t, D> {
    /// Reads files with a decoder of any backend, which was made for these tables.
    pub fn with_decoder(
        files: impl IntoIterator<Item: Into<InputPart>>,
        tables: &'t DetectorTables,
        decoder: D,
    ) -> Self {
        Self {
            events: Events::new(files),
            tables,
            decoder,
            batch: BATCH_SIZE,
            hits: UtHits::with_capacity(0, tables.n_groups(), 0),
            report: BatchReport::new(),
            origins: Vec::new(),
        }
    }

    /// Sets the number of events of a batch, at least 1. Default: [`BATCH_SIZE`].
    #[must_use]
    pub const fn with_batch(mut self, events: usize) -> Self {
        self.batch = events;
        self
    }

    /// Asks for the [clusters](UtHits::with_clusters) of the hits.
    #[must_use]
    pub fn with_clusters(mut self) -> Self {
        self.hits = self.hits.with_clusters();
        self
    }

    /// Returns the hits and the report of the next batch, which the batch after that replaces;
    /// `None` after the last.
    ///
    /// # Errors
    /// If a file cannot be read further, after the events before; if events do not belong to the
    /// tables, because of the versions of their banks or because one of both is synthetic; if there
    /// is no memory; if a device fails.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot lend its buffers"
    )]
    pub fn next(&mut self) -> Result<Option<(&UtHits, &BatchReport)>, WorkError> {
        let Self {
            events,
            tables,
            decoder,
            hits,
            report,
            origins,
            ..
        } = self;
        origins.clear();
        let Some((batch, of_events, max_hits)) = events.next_batch(self.batch)? else {
            events.seen().check(tables)?;
            return Ok(None);
        };
        origins.extend_from_slice(of_events);
        hits.try_reserve(
            batch.n_events,
            tables.hits_at_most(batch.n_events, max_hits),
        )?;
        decoder.decode(batch, hits, report)?;
        events.seen().check_makers(tables)?;
        Ok(Some((hits, report)))
    }

    /// Returns file and place of each event of the last batch.
    pub fn origins(&self) -> &[Origin] {
        &self.origins
    }
}
