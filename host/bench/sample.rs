//! The events that are decoded over and over, and what must come out of them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::backend::reference::ReferenceDecoder;
use crate::backend::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};
use crate::detector::DetectorTables;
use crate::input::{Bank, BatchBuilder, BatchView, EventBatch, banks_of};

/// Events below which the branch predictor begins to know them by heart.
pub const ENOUGH_DISTINCT: usize = 1000;

/// The events that are decoded over and over.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The batches that make one pass.
    pub batches: Vec<EventBatch>,
    /// Events of a pass.
    pub events: usize,
    /// Events of a pass that differ from each other.
    pub distinct_events: usize,
    /// Bytes of a pass: the batches' `raw`, that is raw banks with their sourceIDs and the tables of banks.
    pub bytes: usize,
}

impl Sample {
    /// Batches of `batch` events (at least 1) from those of `batches`, which are repeated until a pass has at least
    /// [`ENOUGH_DISTINCT`] events or one batch is full. Empty when there is no event.
    pub fn new(batches: &[EventBatch], batch: usize) -> Self {
        let n_events: usize = batches.iter().map(|batch| batch.n_events).sum();
        Self::of(batches, batch, n_events.max(ENOUGH_DISTINCT).max(batch))
    }

    /// Batches of `batch` events (at least 1) from those of `batches`, `wanted` events altogether: repeated when there
    /// are fewer. Empty when there is no event.
    pub fn of(batches: &[EventBatch], batch: usize, wanted: usize) -> Self {
        let mut sample = Self::default();
        if batches.iter().all(|batch| batch.n_events == 0) {
            return sample;
        }
        let batch = batch.max(1);
        let all = batches.iter().flat_map(|batch| (0..batch.n_events).map(move |e| (batch.view(), e)));
        let mut different = HashSet::new();
        let mut builder = BatchBuilder::new();
        let mut banks: Vec<Bank<'_>> = Vec::new();
        for (view, e) in all.cycle().take(wanted) {
            banks_of(view, e, &mut banks);
            let mut hash = DefaultHasher::new();
            for bank in &banks {
                (bank.kind, bank.version, bank.source_id, bank.payload).hash(&mut hash);
            }
            different.insert(hash.finish());
            let meta = view.meta_of(e);
            let agrees = builder.agrees(banks.iter().copied());
            if builder.n_events() == batch || !agrees || builder.push(meta, banks.iter().copied()).is_err() {
                sample.close(&mut builder);
                // It came from a batch, so it fits into one.
                let _ = builder.push(meta, banks.iter().copied());
            }
        }
        sample.close(&mut builder);
        sample.distinct_events = different.len();
        sample
    }

    fn close(&mut self, builder: &mut BatchBuilder) {
        let mut batch = EventBatch::default();
        builder.finish(&mut batch);
        self.add(batch);
    }

    fn add(&mut self, batch: EventBatch) {
        self.events += batch.n_events;
        self.bytes += batch.raw.len();
        self.batches.push(batch);
    }

    /// The same events with each batch replaced by what `change` makes of it: for another layout.
    ///
    /// # Errors
    /// What `change` fails with.
    pub fn transposed<E>(&self, change: impl Fn(BatchView<'_>) -> Result<Vec<EventBatch>, E>) -> Result<Self, E> {
        let mut sample = Self { distinct_events: self.distinct_events, ..Self::default() };
        for batch in &self.batches {
            change(batch.view())?.into_iter().for_each(|batch| sample.add(batch));
        }
        Ok(sample)
    }
}

/// What the reference makes of a sample, batch by batch: the bits that count.
#[derive(Clone, Debug)]
pub struct Expected {
    batches: Vec<(UtHits, BatchReport)>,
}

impl Expected {
    /// Decodes `sample` with the reference.
    ///
    /// # Errors
    /// When the reference cannot decode it.
    pub fn of(sample: &Sample, tables: &DetectorTables, options: DecodeOptions) -> Result<Self, DecodeError> {
        let mut decoder = ReferenceDecoder::new(tables, options);
        let decode = |batch: &EventBatch| {
            let view = batch.view();
            let mut hits = UtHits::with_capacity(view.n_events, tables.n_groups, view.max_hits());
            let mut report = BatchReport::new();
            decoder.decode(view, &mut hits, &mut report)?;
            Ok((hits, report))
        };
        Ok(Self { batches: sample.batches.iter().map(decode).collect::<Result<_, DecodeError>>()? })
    }

    /// Hits of the sample.
    pub fn hits(&self) -> usize {
        self.batches.iter().map(|(hits, _)| hits.len()).sum()
    }

    /// Holds what a decoder made of batch `i` of the sample against this. `Err` says, in words, what differs first.
    ///
    /// # Errors
    /// When a bit differs.
    pub fn check(&self, i: usize, hits: &UtHits, report: &BatchReport) -> Result<(), String> {
        let Some((expected, expected_report)) = self.batches.get(i) else {
            return Err(format!("batch {i} is not one of the sample's"));
        };
        let event = (0..report.events.len().max(expected_report.events.len()))
            .find(|&event| report.events.get(event) != expected_report.events.get(event));
        if let Some(event) = event {
            return Err(format!("batch {i}, event {event}: counts other than the reference's"));
        }
        if hits != expected {
            let n_groups = expected.n_groups().max(1);
            let place = hits.offsets().iter().zip(expected.offsets()).position(|(got, wanted)| got != wanted);
            return Err(match place {
                Some(place) => {
                    let event = place.saturating_sub(1) / n_groups;
                    format!("batch {i}, event {event}: another number of hits than the reference's")
                }
                None => format!("batch {i}: hits other than the reference's"),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::EventMeta;

    fn batch_of(n_events: u8) -> EventBatch {
        let mut builder = BatchBuilder::new();
        for e in 0..n_events {
            let bank = Bank { kind: 66, version: Some(4), source_id: u32::from(e), payload: &[e; 24] };
            builder.push(EventMeta::default(), [bank]).unwrap();
        }
        let mut batch = EventBatch::default();
        builder.finish(&mut batch);
        batch
    }

    #[test]
    fn a_small_sample_is_repeated_and_says_how_many_events_differ() {
        let sample = Sample::new(&[batch_of(3), batch_of(5)], 300);
        assert_eq!((sample.events, sample.distinct_events), (1000, 5));
        assert_eq!(sample.batches.iter().map(|batch| batch.n_events).collect::<Vec<_>>(), [300, 300, 300, 100]);
        let sample = Sample::new(&[batch_of(3)], 2000);
        assert_eq!((sample.events, sample.batches.len()), (2000, 1));
    }

    #[test]
    fn as_many_events_as_are_wanted_are_taken() {
        let sample = Sample::of(&[batch_of(3), batch_of(5)], 4, 7);
        assert_eq!((sample.events, sample.distinct_events, sample.batches.len()), (7, 4, 2));
    }

    #[test]
    fn another_count_or_another_hit_than_the_references_is_named() {
        let (boards, geometry) = crate::synth::detector(crate::detector::BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, crate::Grouping::YRows).unwrap();
        let sample = Sample::of(&[batch_of(3)], 3, 3);
        let options = DecodeOptions::default();
        let expected = Expected::of(&sample, &tables, options).unwrap();
        let mut hits = UtHits::with_capacity(3, tables.n_groups, 10_000);
        let mut report = BatchReport::new();
        ReferenceDecoder::new(&tables, options).decode(sample.batches[0].view(), &mut hits, &mut report).unwrap();
        assert_eq!(expected.check(0, &hits, &report), Ok(()));
        let mut other = report.clone();
        other.events[2].add(crate::backend::Count::Banks, 1);
        assert!(expected.check(0, &hits, &other).unwrap_err().contains("event 2"));
        let fewer = UtHits::with_capacity(3, tables.n_groups, 10_000);
        assert!(expected.check(0, &fewer, &report).is_err());
        assert!(expected.check(1, &hits, &report).is_err());
    }

    #[test]
    fn no_events_make_an_empty_sample() {
        let sample = Sample::new(&[EventBatch::default()], 10);
        assert_eq!((sample.events, sample.batches.len()), (0, 0));
    }

    #[test]
    fn another_layout_has_the_same_events() {
        let sample = Sample::new(&[batch_of(5)], 100);
        let mep = sample.transposed(crate::input::to_mep).unwrap();
        assert_eq!((mep.events, mep.distinct_events), (1000, 5));
        assert_eq!(mep.batches.len(), 1000, "a sourceID of its own in every event");
    }
}
