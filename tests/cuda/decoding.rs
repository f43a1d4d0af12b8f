//! Hits and reports of batches, whatever they hold.

use ut_decoding::Grouping;
use ut_decoding::decoder::cuda::Readback;
use ut_decoding::detector::BankVersion;

use crate::fake_driver::on_the_fakes;
use crate::suite::events::{allen_batch, fits_mep, mep_batch};
use crate::{Checked, PAIR, VERSIONS, events, overlapping};

#[test]
fn events_come_out_as_from_the_reference() {
    on_the_fakes(&PAIR, || {
        for (version, grouping) in VERSIONS
            .into_iter()
            .zip([Grouping::YRows, Grouping::UniqueX])
        {
            let mut decoder = Checked::new(version, grouping);
            // Smaller and larger ones in turn: buffers are used again, and grow.
            for n in [1, 2, 1, 0] {
                let events = events(version, n, n as usize);
                decoder.compare(&allen_batch(&events));
                assert!(fits_mep(&events));
                decoder.compare(&mep_batch(&events));
            }
        }
    });
}

#[test]
fn more_strips_than_expected_are_decoded() {
    on_the_fakes(&PAIR, || {
        let batch = overlapping();
        let mut decoder = Checked::v5();
        let (expected, _) = decoder.reference(&batch);
        assert!(
            expected.len() > batch.raw.len() / 2,
            "{} hits, {} bytes",
            expected.len(),
            batch.raw.len()
        );
        let before = allen_batch(&events(BankVersion::V5, 7, 1));
        // With others in flight.
        let first = decoder.submit(before.view(), Readback::Hits).unwrap();
        let large = decoder.submit(batch.view(), Readback::Hits).unwrap();
        let third = decoder.submit(before.view(), Readback::Hits).unwrap();
        for (ticket, batch) in [(large, &batch), (third, &before), (first, &before)] {
            decoder.check(ticket, batch);
        }
        decoder.compare(&batch);
        decoder.compare(&before);
        let resident = decoder.upload(batch.view()).unwrap();
        // SAFETY: it lives until the end.
        let ticket = unsafe { decoder.submit_resident(&resident.batch(), Readback::None) }.unwrap();
        let hits = decoder.collect_resident(ticket).unwrap();
        assert_eq!(hits.len, expected.len());
    });
}
