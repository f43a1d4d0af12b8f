//! Hits and reports of batches, whatever they hold.

use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::{CudaConfig, CudaDecoder, Readback};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::{DecodeOptions, Grouping};

use crate::fake_driver::{on_the_fakes, well_on_the_fake};
use crate::suite::backends::decode;
use crate::suite::events::{allen_batch, fits_mep, mep_batch};
use crate::{RUNS, VERSIONS, collect_as_reference, compare, cuda, detector, events, overlapping};
#[test]
fn events_come_out_as_from_the_reference() {
    on_the_fakes(&RUNS, || {
        for (version, grouping) in VERSIONS.into_iter().zip([Grouping::YRows, Grouping::UniqueX]) {
            let (tables, options) = (detector(version, grouping), DecodeOptions::default());
            let mut decoder = cuda(&tables, options);
            // Smaller and larger ones in turn: buffers are used again, and grow.
            for n in [1, 3, 2, 0] {
                let events = events(version, n, n as usize);
                compare(&mut decoder, &tables, options, allen_batch(&events).view());
                assert!(fits_mep(&events));
                compare(&mut decoder, &tables, options, mep_batch(&events).view());
            }
        }
    });
}

#[test]
fn the_fused_kernels_give_the_same_hits_in_windows_and_when_a_launch_counts_first() {
    well_on_the_fake(&[], || {
        let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
        for assignments in [["fused.strips=256", "fused.count_first=0"], ["fused.strips=256", "fused.count_first=1"]] {
            let mut launch = Parameters::default();
            for assignment in assignments {
                launch.set_from(ut_decoding::Backend::Emulated, assignment).expect("a valid assignment");
            }
            let config = CudaConfig { pipeline: Pipeline::Fused, launch, ..CudaConfig::default() };
            let mut decoder = CudaDecoder::new(&tables, options, config).expect("the fake is a GPU");
            for n in [2, 1, 3] {
                let batch = allen_batch(&events(BankVersion::V5, n, n as usize));
                compare(&mut decoder, &tables, options, batch.view());
            }
            compare(&mut decoder, &tables, options, overlapping().view());
        }
    });
}

#[test]
fn more_strips_than_there_is_room_for_are_decoded_all_the_same() {
    on_the_fakes(&RUNS, || {
        let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
        let batch = overlapping();
        let (expected, _) = decode(&mut ReferenceDecoder::new(&tables, options), &tables, batch.view());
        assert!(expected.len() > batch.raw.len() / 2, "{} hits, {} bytes", expected.len(), batch.raw.len());
        let mut decoder = cuda(&tables, options);
        let before = allen_batch(&events(BankVersion::V5, 7, 1));
        // With others in flight.
        let first = decoder.submit(before.view(), Readback::Hits).unwrap();
        let large = decoder.submit(batch.view(), Readback::Hits).unwrap();
        let third = decoder.submit(before.view(), Readback::Hits).unwrap();
        for (ticket, batch) in [(large, &batch), (third, &before), (first, &before)] {
            collect_as_reference(&mut decoder, ticket, &tables, options, batch);
        }
        let held = decoder.device_bytes();
        compare(&mut decoder, &tables, options, batch.view());
        compare(&mut decoder, &tables, options, before.view());
        let resident = decoder.upload(batch.view()).unwrap();
        // SAFETY: it lives until the end.
        let ticket = unsafe { decoder.submit_resident(&resident.batch(), Readback::None) }.unwrap();
        let hits = decoder.collect_resident(ticket).unwrap();
        assert_eq!(hits.len, expected.len());
        assert!(decoder.device_bytes() >= held);
    });
}
