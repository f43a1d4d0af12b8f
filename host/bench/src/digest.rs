//! A digest of all hits and reports, by which the results of two programs are compared.

use ut_decoders::{BatchReport, Count, UtHits};

/// A running digest of hits and reports, event by event: every bit of every hit, the sizes of the
/// groups, and all counters that are not zero. The batching does not change it, nor does the
/// machine or a version of this program that decodes the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        // Initial value of FNV-1a.
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Digest {
    /// Adds a word by FNV-1a over 32-bit words, with a rotation, because a multiplication never
    /// moves a bit downwards.
    fn word(&mut self, word: u32) {
        self.0 = (self.0 ^ u64::from(word))
            .wrapping_mul(0x100_0000_01B3)
            .rotate_left(17);
    }

    /// Adds the events of a batch.
    pub fn add(&mut self, hits: &UtHits, report: &BatchReport) {
        for event in 0..hits.n_events() {
            for group in 0..hits.n_groups() {
                let range = hits.range(event, group);
                self.word(range.len() as u32);
                for i in range {
                    for array in hits.floats() {
                        self.word(array[i].to_bits());
                    }
                    self.word(hits.id()[i]);
                }
            }
            let counts = report.events.get(event);
            for count in Count::ALL {
                let value = counts.map_or(0, |counts| counts.get(count));
                // By name and without zeros: a new counter changes nothing for events without it.
                if value > 0 {
                    for byte in count.name().bytes() {
                        self.word(u32::from(byte));
                    }
                    self.word(value);
                }
            }
        }
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, synthetic};
    use ut_data::detector::BankVersion;
    use ut_data::synth::Profile;
    use ut_decoders::reference::ReferenceDecoder;
    use ut_decoders::{DecodeOptions, Decoder};

    #[test]
    fn the_digest_does_not_depend_on_batches_and_changes_with_one_bit() {
        let tables = ut_data::synth::tables(BankVersion::V5, ut_data::Grouping::default());
        let events = synthetic(Profile::PpLow, 6);
        let digest = |batch: usize, options: DecodeOptions, spoil: bool| {
            let mut decoder = ReferenceDecoder::new(&tables, options);
            let mut digest = Digest::default();
            for batch in &Sample::of(std::slice::from_ref(&events), batch, 6).batches {
                let mut hits = UtHits::with_capacity(6, tables.n_groups(), batch.view().max_hits());
                let mut report = BatchReport::new();
                decoder
                    .decode(batch.view(), &mut hits, &mut report)
                    .unwrap();
                if spoil {
                    report.events[0].add(Count::BadHeader, 1);
                }
                digest.add(&hits, &report);
            }
            digest.to_string()
        };
        let options = DecodeOptions::default();
        let whole = digest(6, options, false);
        assert_eq!(whole.len(), 16);
        assert_eq!(digest(1, options, false), whole);
        assert_eq!(digest(4, options, false), whole);
        assert_ne!(digest(6, options.with_clustering(false), false), whole);
        assert_ne!(digest(6, options, true), whole, "the report counts, too");
    }
}
