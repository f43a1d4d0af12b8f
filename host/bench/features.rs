//! What a batch looks like, for the rule that picks a parameter set.

use crate::decoder::{BatchReport, Count, UtHits};
use crate::detector::LANES_PER_BOARD;
use crate::tuning::workloads::Features;

/// The look of a batch that has been decoded: strips a lane of its banks (v4: cluster words), and hits an event.
pub fn features(hits: &UtHits, report: &BatchReport) -> Features {
    let lanes = report.total(Count::Banks) as f64 * LANES_PER_BOARD as f64;
    Features {
        mean_lane_length: report.total(Count::Strips) as f64 / lanes.max(1.0),
        hits_per_event: hits.len() as f64 / (report.events.len() as f64).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sample::{Sample, synthetic};
    use crate::decoder::reference::ReferenceDecoder;
    use crate::decoder::{DecodeOptions, Decoder};
    use crate::detector::{BankVersion, DetectorTables};
    use crate::synth::{self, Profile};

    #[test]
    fn busier_events_look_busier_and_nothing_looks_like_nothing() {
        let (boards, geometry) = synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, crate::Grouping::YRows).unwrap();
        let look = |profile| {
            let sample = Sample::of(&[synthetic(profile, 5)], 5, 5);
            let view = sample.batches[0].view();
            let mut hits = UtHits::with_capacity(5, tables.n_groups(), view.max_hits());
            let mut report = BatchReport::new();
            ReferenceDecoder::new(&tables, DecodeOptions::default()).decode(view, &mut hits, &mut report).unwrap();
            features(&hits, &report)
        };
        let (low, high) = (look(Profile::PpLow), look(Profile::PpHigh));
        assert!(high.mean_lane_length > 2.0 * low.mean_lane_length && high.hits_per_event > 2.0 * low.hits_per_event);
        let nothing = features(&UtHits::with_capacity(1, tables.n_groups(), 1), &BatchReport::new());
        assert_eq!((nothing.mean_lane_length, nothing.hits_per_event), (0.0, 0.0));
    }
}
