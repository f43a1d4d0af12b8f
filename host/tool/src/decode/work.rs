//! Work of a thread of `decode` on a batch.
//!
//! Everything that grows with the hits is done here, in parallel: hits are masked, summed up and
//! encoded as text or as a row group. The thread that takes the results only adds numbers and
//! writes bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::summary::Part;
use ut_data::DetectorTables;
use ut_data::detector::Mask;
use ut_data::error::WorkError;
use ut_data::hits::hashes;
use ut_data::job::{Decoded, Work};
use ut_data::output::EventRow;
use ut_decoders::{DecodeError, Decoder};
use ut_files::{Encoded, Encoder, Rows};

/// Decoder, encoder and tables of one thread. Threads share the tables and the mask, and nothing
/// that changes.
pub struct Worker<'a> {
    pub decoder: Box<dyn Decoder>,
    pub layers: Arc<[usize]>,
    pub tables: &'a DetectorTables,
    pub mask: Option<&'a Mask>,
    pub encoder: Option<Encoder>,
    pub has_table: bool,
}

/// Results of a batch, all that remains when its hits are gone.
pub struct Batch {
    pub part: Part,
    pub runs: BTreeSet<u32>,
    pub encoded: Option<Encoded>,
    /// Rows of the table of events, if it is wanted.
    pub rows: Vec<EventRow>,
}

impl Work for Worker<'_> {
    type Made = Batch;

    fn decoder(&mut self) -> Result<&mut dyn Decoder, DecodeError> {
        Ok(&mut *self.decoder)
    }

    fn make(&mut self, decoded: Decoded<'_>) -> Result<Batch, WorkError> {
        let Decoded {
            batch,
            origins,
            hits,
            report,
            decoding,
        } = decoded;
        // Masked hits are not lost.
        let losses = report.losses_of_files(origins, batch.meta, hits);
        let contents = hashes(batch, hits);
        let masked = self
            .mask
            .map_or(0, |mask| hits.retain(|id| !mask.contains(id)));
        let part = Part::of(
            &self.layers,
            origins,
            hits,
            report,
            (losses, contents),
            masked,
            decoding,
        );
        let rows = Rows {
            files: &[],
            origins,
            meta: batch.meta,
            hits,
            tables: self.tables,
        };
        let encoded = self
            .encoder
            .as_mut()
            .map(|encoder| encoder.encode(&rows))
            .transpose()?;
        let rows = if self.has_table {
            EventRow::of_batch(origins, batch.meta, hits, report).collect()
        } else {
            Vec::new()
        };
        let runs = batch.meta.iter().filter_map(|meta| meta.run).collect();
        Ok(Batch {
            part,
            runs,
            encoded,
            rows,
        })
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
