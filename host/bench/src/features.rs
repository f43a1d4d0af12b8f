//! Features of a batch, for the rule that picks a parameter set.

use super::sample::Sample;
use tuner::workloads::Features;
use ut_data::detector::{DetectorTables, LANES_PER_BOARD};
use ut_data::input::EventBatch;
use ut_decoders::cpu::{CpuConfig, CpuDecoder};
use ut_decoders::{BatchReport, Count, DecodeError, DecodeOptions, Decoder as _, UtHits};

/// Name of a feature: mean number of strips in a lane.
pub const MEAN_LANE_LENGTH: &str = "mean_lane_length";

/// Name of a feature: hits an event (of the batch before, where this one's are not known yet).
pub const HITS_PER_EVENT: &str = "hits_per_event";

/// The look of a batch that has been decoded: strips a lane of its banks (v4: cluster words), and hits an event.
pub fn features(hits: &UtHits, report: &BatchReport) -> Features {
    let lanes = report.total(Count::Banks) as f64 * LANES_PER_BOARD as f64;
    Features::from([
        (MEAN_LANE_LENGTH, report.total(Count::Strips) as f64 / lanes.max(1.0)),
        (HITS_PER_EVENT, hits.len() as f64 / (report.events.len() as f64).max(1.0)),
    ])
}

/// Returns the features of the first `most` batches of `batch` events.
pub fn looks(
    events: &[EventBatch],
    tables: &DetectorTables,
    options: DecodeOptions,
    batch: usize,
    most: usize,
) -> Result<Vec<Features>, DecodeError> {
    let n_events: usize = events.iter().map(|batch| batch.n_events).sum();
    let sample = Sample::of(events, batch, n_events.min(most * batch));
    let mut decoder = CpuDecoder::new(tables, options, CpuConfig::default())?;
    let most_hits = sample.batches.iter().map(|batch| batch.view().max_hits()).max().unwrap_or_default();
    let mut hits = UtHits::with_capacity(batch, tables.n_groups(), most_hits);
    let mut report = BatchReport::new();
    let mut looks = Vec::new();
    for batch in &sample.batches {
        decoder.decode(batch.view(), &mut hits, &mut report)?;
        looks.push(features(&hits, &report));
    }
    Ok(looks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, synthetic};
    use ut_data::detector::{BankVersion, DetectorTables};
    use ut_data::synth::Profile;
    use ut_decoders::reference::ReferenceDecoder;
    use ut_decoders::{DecodeOptions, Decoder};

    #[test]
    fn busier_events_look_busier_and_nothing_looks_like_nothing() {
        let tables = DetectorTables::synthetic(BankVersion::V5, ut_data::Grouping::default());
        let look = |profile| {
            let sample = Sample::of(&[synthetic(profile, 5)], 5, 5);
            let view = sample.batches[0].view();
            let mut hits = UtHits::with_capacity(5, tables.n_groups(), view.max_hits());
            let mut report = BatchReport::new();
            ReferenceDecoder::new(&tables, DecodeOptions::default()).decode(view, &mut hits, &mut report).unwrap();
            features(&hits, &report)
        };
        let (low, high) = (look(Profile::PpLow), look(Profile::PpHigh));
        for name in [MEAN_LANE_LENGTH, HITS_PER_EVENT] {
            assert!(high.get(name) > 2.0 * low.get(name), "{name}");
        }
        let nothing = features(&UtHits::with_capacity(1, tables.n_groups(), 1), &BatchReport::new());
        assert_eq!((nothing.get(MEAN_LANE_LENGTH), nothing.get(HITS_PER_EVENT)), (0.0, 0.0));
    }
}
