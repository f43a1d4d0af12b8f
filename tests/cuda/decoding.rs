//! Hits and reports of batches, whatever they hold.

use ut_decoding::Grouping;
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::{CudaConfig, Readback};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::detector::BankVersion;

use crate::fake_driver::{on_the_fakes, well_on_the_fake};
use crate::suite::events::{allen_batch, fits_mep, mep_batch};
use crate::{Checked, PAIR, VERSIONS, detector, events, overlapping};

#[test]
fn events_come_out_as_from_the_reference() {
    on_the_fakes(&PAIR, || {
        for (version, grouping) in VERSIONS.into_iter().zip([Grouping::YRows, Grouping::UniqueX]) {
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
fn the_fused_kernels_give_the_same_hits_in_windows_and_when_a_launch_counts_first() {
    well_on_the_fake(&[], || {
        for assignments in [["fused.strips=256", "fused.count_first=0"], ["fused.strips=256", "fused.count_first=1"]] {
            let mut launch = Parameters::default();
            for assignment in assignments {
                launch.set_from(ut_decoding::Backend::Emulated, assignment).expect("a valid assignment");
            }
            let config = CudaConfig::of(&launch).with_pipeline(Pipeline::Fused);
            let mut decoder = Checked::with(detector(BankVersion::V5, Grouping::YRows), config);
            for n in [2, 1, 3] {
                let batch = allen_batch(&events(BankVersion::V5, n, n as usize));
                decoder.compare(&batch);
            }
            decoder.compare(&overlapping());
        }
    });
}

#[test]
fn more_strips_than_there_is_room_for_are_decoded_all_the_same() {
    on_the_fakes(&PAIR, || {
        let batch = overlapping();
        let mut decoder = Checked::v5();
        let (expected, _) = decoder.reference(&batch);
        assert!(expected.len() > batch.raw.len() / 2, "{} hits, {} bytes", expected.len(), batch.raw.len());
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
