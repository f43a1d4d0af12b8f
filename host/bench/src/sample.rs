//! The events that are decoded again and again, and the results that they must give.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use ut_data::detector::DetectorTables;
use ut_data::input::{Bank, BatchBuilder, BatchView, EventBatch, banks_of};
use ut_data::memory;
use ut_decoders::reference::ReferenceDecoder;
use ut_decoders::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};

/// Number of events below which a branch predictor begins to learn them.
pub const ENOUGH_DISTINCT: usize = 1000;

/// Events of one pass, in batches. They are decoded again and again.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Batches in the order in which they are decoded.
    pub batches: Vec<EventBatch>,
    /// Number of events in a pass.
    pub events: usize,
    /// Number of different events among them; the others are repetitions.
    pub distinct_events: usize,
    /// Number of bytes in a pass: raw banks with their sourceIDs, and the tables of banks.
    pub bytes: usize,
}

impl Sample {
    /// Makes batches of `batch` events (at least 1) from `batches`, repeated until a pass has
    /// [`ENOUGH_DISTINCT`] events and one batch is full. Without events, the sample is empty.
    pub fn new(batches: &[EventBatch], batch: usize) -> Self {
        let n_events = batches.iter().map(|batch| batch.n_events).sum();
        Self::of(batches, batch, Self::enough(n_events, batch))
    }

    /// Returns the number of events in a pass over `n_events` in batches of `batch`: all events,
    /// but at least [`ENOUGH_DISTINCT`] and at least one batch.
    pub fn enough(n_events: usize, batch: usize) -> usize {
        n_events.max(ENOUGH_DISTINCT).max(batch)
    }

    /// Makes batches of `batch` events (at least 1) from `batches`, with `wanted` events in all,
    /// repeated if there are fewer. Without events, the sample is empty.
    pub fn of(batches: &[EventBatch], batch: usize, wanted: usize) -> Self {
        let mut sample = Self::default();
        if batches.iter().all(|batch| batch.n_events == 0) {
            return sample;
        }
        let batch = batch.max(1);
        let all = batches
            .iter()
            .flat_map(|batch| (0..batch.n_events).map(move |e| (batch.view(), e)));
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
            if builder.n_events() == batch
                || !agrees
                || builder.push(meta, banks.iter().copied()).is_err()
            {
                sample.close(&mut builder);
                // The event fits, since it came from a batch.
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

    /// Converts each batch by `change`, for instance to another layout.
    pub fn transposed<E>(
        &self,
        change: impl Fn(BatchView<'_>) -> Result<Vec<EventBatch>, E>,
    ) -> Result<Self, E> {
        let mut sample = Self {
            distinct_events: self.distinct_events,
            ..Self::default()
        };
        for batch in &self.batches {
            change(batch.view())?
                .into_iter()
                .for_each(|batch| sample.add(batch));
        }
        Ok(sample)
    }
}

/// Hits and reports of the reference for a sample, by event, whatever the batches.
#[derive(Clone, Debug)]
pub struct Expected {
    batches: Vec<(UtHits, BatchReport)>,
    /// Batch of each event, and its place there.
    places: Vec<(usize, usize)>,
}

impl Expected {
    /// Decodes `sample` with the reference.
    pub fn of(
        sample: &Sample,
        tables: &DetectorTables,
        options: DecodeOptions,
    ) -> Result<Self, DecodeError> {
        let mut decoder = ReferenceDecoder::new(tables, options);
        let bytes = sample
            .batches
            .iter()
            .map(|batch| 28 * batch.view().max_hits())
            .sum::<usize>();
        if memory::check_address_space("", bytes as u64).is_err() {
            let events = sample.batches.iter().map(|batch| batch.n_events).sum();
            return Err(DecodeError::NoMemory { events, bytes });
        }
        let decode = |batch: &EventBatch| {
            let view = batch.view();
            let mut hits = UtHits::with_capacity(view.n_events, tables.n_groups(), view.max_hits());
            let mut report = BatchReport::new();
            decoder.decode(view, &mut hits, &mut report)?;
            Ok((hits, report))
        };
        let batches = sample
            .batches
            .iter()
            .map(decode)
            .collect::<Result<Vec<_>, DecodeError>>()?;
        let place = |(b, (hits, _)): (usize, &(UtHits, BatchReport))| {
            (0..hits.n_events()).map(move |e| (b, e))
        };
        let places = batches.iter().enumerate().flat_map(place).collect();
        Ok(Self { batches, places })
    }

    /// Compares a decoder's results for a batch with the events `events` of a pass. After the
    /// sample's last event, a pass may begin again. The error describes the first difference.
    pub fn check(
        &self,
        events: Range<usize>,
        hits: &UtHits,
        report: &BatchReport,
    ) -> Result<(), String> {
        let found = [hits.n_events(), report.events.len()];
        if found != [events.len(); 2] {
            let [hits, report] = found;
            return Err(format!(
                "the result for {} events has hits of {hits} and counts of {report}",
                events.len()
            ));
        }
        for (i, event) in events.enumerate() {
            let Some(&(batch, place)) = event
                .checked_rem(self.places.len())
                .and_then(|e| self.places.get(e))
            else {
                return Err(format!("event {event} is not in the sample"));
            };
            let (expected, expected_report) = &self.batches[batch];
            if report.events[i] != expected_report.events[place] {
                return Err(format!(
                    "event {event}: the counts differ from the reference"
                ));
            }
            same_hits((hits, i), (expected, place))
                .map_err(|what| format!("event {event}: {what}"))?;
        }
        Ok(())
    }
}

/// Compares the groups of two events, bit for bit; the error is the difference.
fn same_hits(
    (hits, event): (&UtHits, usize),
    (expected, place): (&UtHits, usize),
) -> Result<(), &'static str> {
    let n_groups = expected.n_groups();
    let ends = |hits: &'_ UtHits, event: usize| -> Vec<u32> {
        let offsets = &hits.offsets()[event * n_groups..=(event + 1) * n_groups];
        offsets
            .iter()
            .map(|end| end.wrapping_sub(offsets[0]))
            .collect()
    };
    if hits.n_groups() != n_groups || ends(hits, event) != ends(expected, place) {
        return Err("the number of hits differs from the reference");
    }
    let range = |hits: &UtHits, event: usize| {
        hits.offsets()[event * n_groups] as usize..hits.offsets()[(event + 1) * n_groups] as usize
    };
    let (at, from) = (range(hits, event), range(expected, place));
    let bits = |hits: &'_ UtHits, range: &Range<usize>| {
        let bits = |floats: &[f32]| -> Vec<u32> {
            floats[range.clone()]
                .iter()
                .map(|float| float.to_bits())
                .collect()
        };
        hits.floats().map(bits)
    };
    let same = hits.id()[at.clone()] == expected.id()[from.clone()]
        && bits(hits, &at) == bits(expected, &from);
    if same {
        Ok(())
    } else {
        Err("the hits differ from the reference")
    }
}

/// Makes `n` synthetic v5 events of a profile, for tests.
#[cfg(test)]
pub(super) fn synthetic(profile: ut_data::synth::Profile, n: usize) -> EventBatch {
    use ut_data::detector::BankVersion::V5;
    use ut_data::input::{EventMeta, kind};

    let mut builder = BatchBuilder::new();
    for event in ut_data::synth::Generator::new(profile, V5, 1).take(n) {
        let banks = event.banks.iter().map(|(source_id, payload)| Bank {
            kind: kind::UT,
            version: Some(V5.byte()),
            source_id: u32::from(*source_id),
            payload,
        });
        builder
            .push(EventMeta::default(), banks)
            .expect("room for a few events");
    }
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use ut_data::detector::BankVersion;
    use ut_data::input::EventMeta;
    use ut_data::synth::Profile;

    fn batch_of(n_events: u8) -> EventBatch {
        let mut builder = BatchBuilder::new();
        for e in 0..n_events {
            let bank = Bank {
                kind: 66,
                version: Some(4),
                source_id: u32::from(e),
                payload: &[e; 24],
            };
            builder.push(EventMeta::default(), [bank]).unwrap();
        }
        let mut batch = EventBatch::default();
        builder.finish(&mut batch);
        batch
    }

    #[test]
    fn a_small_sample_is_repeated_and_knows_its_distinct_events() {
        let sample = Sample::new(&[batch_of(3), batch_of(5)], 300);
        assert_eq!((sample.events, sample.distinct_events), (1000, 5));
        assert_eq!(
            sample
                .batches
                .iter()
                .map(|batch| batch.n_events)
                .collect::<Vec<_>>(),
            [300, 300, 300, 100]
        );
        let sample = Sample::new(&[batch_of(3)], 2000);
        assert_eq!((sample.events, sample.batches.len()), (2000, 1));
        let none = Sample::new(&[EventBatch::default()], 10);
        assert_eq!((none.events, none.batches.len()), (0, 0));
        let sample = Sample::of(&[batch_of(3), batch_of(5)], 4, 7);
        assert_eq!(
            (sample.events, sample.distinct_events, sample.batches.len()),
            (7, 4, 2)
        );
    }

    #[test]
    fn a_different_count_or_hit_is_reported() {
        let tables = ut_data::synth::tables(BankVersion::V5, ut_data::Grouping::default());
        let sample = Sample::of(&[batch_of(3)], 3, 3);
        let options = DecodeOptions::default();
        let expected = Expected::of(&sample, &tables, options).unwrap();
        let mut hits = UtHits::with_capacity(3, tables.n_groups(), 10_000);
        let mut report = BatchReport::new();
        ReferenceDecoder::new(&tables, options)
            .decode(sample.batches[0].view(), &mut hits, &mut report)
            .unwrap();
        assert_eq!(expected.check(0..3, &hits, &report), Ok(()));
        let mut other = report.clone();
        other.events[2].add(ut_decoders::Count::Banks, 1);
        assert_eq!(
            expected.check(0..3, &hits, &other),
            Err("event 2: the counts differ from the reference".to_owned())
        );
        let fewer = UtHits::with_capacity(3, tables.n_groups(), 10_000);
        assert!(
            expected
                .check(0..3, &fewer, &report)
                .unwrap_err()
                .contains("for 3 events")
        );
        assert!(
            expected
                .check(0..2, &hits, &report)
                .unwrap_err()
                .contains("for 2 events")
        );
        let none = Expected {
            batches: Vec::new(),
            places: Vec::new(),
        };
        assert!(
            none.check(0..3, &hits, &report)
                .unwrap_err()
                .contains("not in the sample")
        );
    }

    #[test]
    fn batches_of_any_size_and_layout_are_compared_with_the_same_events() {
        let tables = ut_data::synth::tables(BankVersion::V5, ut_data::Grouping::default());
        let events = synthetic(Profile::PpLow, 5);
        let events = [events];
        let options = DecodeOptions::default();
        let expected = Expected::of(&Sample::of(&events, 5, 5), &tables, options).unwrap();
        let mut decoder = ReferenceDecoder::new(&tables, options);
        for (batch, wanted) in [(1, 5), (2, 11), (7, 7)] {
            let allen = Sample::of(&events, batch, wanted);
            for sample in [&allen, &allen.transposed(ut_data::input::to_mep).unwrap()] {
                let mut first = 0;
                for batch in &sample.batches {
                    let mut hits = UtHits::with_capacity(
                        batch.n_events,
                        tables.n_groups(),
                        batch.view().max_hits(),
                    );
                    let mut report = BatchReport::new();
                    decoder
                        .decode(batch.view(), &mut hits, &mut report)
                        .unwrap();
                    let events = first..first + batch.n_events;
                    assert_eq!(expected.check(events.clone(), &hits, &report), Ok(()));
                    let shifted = events.start + 1..events.end + 1;
                    assert!(
                        expected.check(shifted, &hits, &report).is_err(),
                        "the events differ"
                    );
                    first = events.end;
                }
                assert_eq!(first, wanted);
            }
        }
    }
}
