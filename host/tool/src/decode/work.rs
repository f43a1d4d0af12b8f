//! What a thread of `decode` does with a batch.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Args;
use super::sets::Sets;
use crate::summary::Part;
use ut_bench::features;
use ut_data::detector::Mask;
use ut_data::error::WorkError;
use ut_data::output::EventRow;
use ut_data::{BatchReport, BatchView, DetectorTables, UtHits};
use ut_decoders::emulated::{EmulatedConfig, EmulatedDecoder};
use ut_decoders::job::{Decoded, Work};
use ut_decoders::{Backend, DecodeError, Decoder, Parameters};
use ut_files::{Encoded, Encoder, Rows};

/// A decoder as it is asked for.
pub fn decoder(args: &Args, tables: &DetectorTables, config: &Parameters) -> Result<Box<dyn Decoder>, DecodeError> {
    let options = args.clustering.options();
    if args.backend.backend == Backend::Emulated {
        let config = EmulatedConfig { schedule_seed: args.schedule_seed, ..EmulatedConfig::of(config) };
        return Ok(Box::new(EmulatedDecoder::new(tables, options, config)?));
    }
    args.backend.backend.decoder_with(tables, options, config)
}

/// A thread that decodes, and what it works with.
pub struct Worker<'a> {
    pub args: &'a Args,
    pub config: Parameters,
    pub decoder: Box<dyn Decoder>,
    pub layers: Arc<[usize]>,
    pub tables: &'a DetectorTables,
    pub mask: Option<&'a Mask>,
    pub encoder: Option<Encoder>,
    /// The sets of several workloads, and which of them the decoder has.
    pub sets: Option<(&'a Sets, usize)>,
    /// Whether a table of the events is wanted.
    pub has_table: bool,
}

/// What became of a batch.
pub struct Batch {
    pub part: Part,
    /// The run of its first event.
    pub run: Option<u32>,
    pub runs: BTreeSet<u32>,
    pub encoded: Option<Encoded>,
    /// Rows of the table of events, if it is wanted.
    pub rows: Vec<EventRow>,
}

impl Work for Worker<'_> {
    type Made = Batch;

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        if let Some((sets, current)) = &mut self.sets
            && sets.current() != *current
        {
            *current = sets.current();
            self.config = self.config.tuned(sets.configuration(*current));
            self.decoder = decoder(self.args, self.tables, &self.config)?;
        }
        self.decoder.decode(batch, hits, report)
    }

    fn make(&mut self, decoded: Decoded<'_>) -> Result<Batch, WorkError> {
        let Decoded { batch, origins, hits, report, decoding } = decoded;
        if let Some((sets, current)) = self.sets
            && batch.n_events > 0
        {
            sets.look(current, &features(hits, report));
        }
        let masked = self.mask.map_or(0, |mask| hits.retain(|id| !mask.contains(id)));
        let part = Part::of(&self.layers, origins, hits, report, masked, decoding);
        let rows = Rows { files: &[], origins, meta: batch.meta, hits, tables: self.tables };
        let encoded = self.encoder.as_mut().map(|encoder| encoder.encode(&rows)).transpose()?;
        let table =
            if self.has_table { EventRow::of_batch(origins, batch.meta, hits, report).collect() } else { Vec::new() };
        let runs = batch.meta.iter().filter_map(|meta| meta.run).collect();
        Ok(Batch { part, run: batch.meta_of(0).run, runs, encoded, rows: table })
    }

    fn bytes(batch: &Batch) -> u64 {
        let of_rows = size_of_val(&batch.rows[..]) as u64;
        of_rows
            + match &batch.encoded {
                Some(Encoded::Text(text)) => text.len() as u64,
                // Seven columns, and some that were asked for.
                Some(Encoded::RowGroup(_)) => 40 * batch.part.hits(),
                None => 0,
            }
    }
}
