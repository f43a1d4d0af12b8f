//! The one list of backends that every test of the suite runs on.

use ut_decoding::backend::reference::ReferenceDecoder;
use ut_decoding::{BatchReport, BatchView, DecodeOptions, Decoder, DetectorTables, UtHits};

/// A backend of the list: what it is called here, and how it is made.
pub type Backend = (&'static str, fn(&DetectorTables, DecodeOptions) -> Box<dyn Decoder>);

/// Every backend that can run on this machine. The first one is the reference.
pub fn backends() -> Vec<Backend> {
    vec![("reference", |tables, options| Box::new(ReferenceDecoder::new(tables, options)))]
}

/// Hits and report of a batch.
pub fn decode(decoder: &mut dyn Decoder, tables: &DetectorTables, batch: BatchView<'_>) -> (UtHits, BatchReport) {
    let mut hits = UtHits::with_capacity(batch.n_events, tables.n_groups, batch.max_hits());
    let mut report = BatchReport::new();
    decoder.decode(batch, &mut hits, &mut report).expect("the batch fits");
    (hits, report)
}
