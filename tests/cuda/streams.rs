//! Several batches at a time, wherever they lie.

use std::collections::VecDeque;

use ut_decoding::decoder::cuda::{CudaConfig, DeviceHits, HostHits, Readback};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::detector::BankVersion;
use ut_decoding::{Backend, BatchReport, DecodeError, EventBatch, Grouping, UtHits};

use crate::fake_driver::on_the_fakes;
use crate::suite::events::{allen_batch, mep_batch};
use crate::{Checked, PAIR, RUNS, detector, events, says};

#[test]
fn batches_in_flight_together_do_not_disturb_each_other() {
    on_the_fakes(&RUNS, || {
        let mut decoder = Checked::v5();
        assert_eq!(decoder.streams(), 3);
        let batches: Vec<_> = (0..7)
            .map(|i| allen_batch(&events(BankVersion::V5, i, 1)))
            .collect();
        let mut in_flight = VecDeque::new();
        for (i, batch) in batches.iter().enumerate() {
            if in_flight.len() == decoder.streams() {
                // Not always the oldest first.
                let (ticket, batch) = in_flight.remove(i % 3).unwrap();
                decoder.check(ticket, batch);
            }
            let mut copy = batch.clone();
            let ticket = decoder.submit(copy.view(), Readback::Hits).unwrap();
            // The host's batch is free at once.
            copy.raw.fill(0xEE);
            in_flight.push_back((ticket, batch));
        }
        says(
            decoder.submit(batches[0].view(), Readback::Hits),
            "collect one",
        );
        for (ticket, batch) in in_flight {
            decoder.check(ticket, batch);
        }
        let _ = decoder.submit(batches[0].view(), Readback::Hits).unwrap();
        // Dropped while a batch is in flight.
    });
}

#[test]
fn the_parameter_streams_gives_a_decoder_as_many_streams() {
    on_the_fakes(&PAIR, || {
        let parameters = Parameters::default().with(Backend::Cuda, "streams=2");
        let config = CudaConfig::of(&parameters.unwrap());
        for (config, streams) in [
            (config.clone(), 2),
            (config.clone().with_streams(5), 5),
            (config.with_streams(0), 1),
        ] {
            let mut decoder = Checked::with(detector(BankVersion::V5, Grouping::YRows), config);
            assert_eq!(decoder.streams(), streams);
            decoder.compare(&allen_batch(&events(BankVersion::V5, 3, 1)));
        }
    });
}

#[test]
fn pinned_and_resident_batches_give_the_same_hits_repeatedly() {
    on_the_fakes(&PAIR, || {
        let mut decoder = Checked::new(BankVersion::V4, Grouping::UniqueX);
        let events = events(BankVersion::V4, 3, 1);
        let batches = [allen_batch(&events), mep_batch(&events), allen_batch(&[])];
        for batch in &batches {
            let (expected, _) = decoder.reference(batch);
            let pinned = decoder.pin(batch.view()).unwrap();
            let resident = decoder.upload(batch.view()).unwrap();
            for _ in 0..2 {
                let one = decoder.submit(&pinned, Readback::Hits).unwrap();
                let two = decoder.submit(&resident, Readback::Hits).unwrap();
                // SAFETY: `resident` lives longer than the ticket.
                let three =
                    unsafe { decoder.submit_resident(&resident.batch(), Readback::None) }.unwrap();
                assert_eq!(decoder.collect_resident(three).unwrap().len, expected.len());
                decoder.check(two, batch);
                decoder.check(one, batch);
            }
            let before = decoder.moved();
            let ticket = decoder.submit(&resident, Readback::None).unwrap();
            says(decoder.collect(ticket), "stay on the device");
            let moved = decoder.moved();
            assert_eq!(
                moved.to_device, before.to_device,
                "a batch that lies there is not copied"
            );
            let status_and_total = if batch.n_events == 0 { 0 } else { 8 };
            assert_eq!(moved.from_device - before.from_device, status_and_total);
            let ticket = decoder.submit(&pinned, Readback::Hits).unwrap();
            drop(pinned);
            decoder.check(ticket, batch);
        }
    });
}

#[test]
fn batches_in_turn_come_out_in_order_and_an_error_leaves_nothing_in_flight() {
    on_the_fakes(&RUNS[1..], || {
        let mut decoder = Checked::v5();
        let batches: Vec<_> = (0..5)
            .map(|i| allen_batch(&events(BankVersion::V5, i, 1)))
            .collect();
        let expected: Vec<_> = batches
            .iter()
            .map(|batch| decoder.reference(batch).0)
            .collect();
        let (n_groups, mut found) = (decoder.tables.n_groups(), Vec::new());
        let each = |hits: HostHits<'_>| {
            let mut copy = UtHits::with_capacity(1, n_groups, hits.len());
            hits.copy_to(&mut copy, &mut BatchReport::new())?;
            found.push(copy);
            Ok(())
        };
        decoder
            .decode_all(batches.iter().map(EventBatch::view), each)
            .unwrap();
        assert!(found == expected);
        let pinned: Vec<_> = batches
            .iter()
            .map(|batch| decoder.pin(batch.view()).unwrap())
            .collect();
        let mut lens = Vec::new();
        let each = |hits: DeviceHits| {
            lens.push(hits.len);
            Ok(())
        };
        decoder.decode_all_and_leave(&pinned, each).unwrap();
        assert_eq!(lens, expected.iter().map(UtHits::len).collect::<Vec<_>>());
        let mut first = true;
        let stop = |_: HostHits<'_>| {
            let error = DecodeError::Device {
                backend: "test",
                message: "enough".to_owned(),
            };
            if std::mem::take(&mut first) {
                Err(error)
            } else {
                panic!("called after an error")
            }
        };
        says(decoder.decode_all(&pinned, stop), "enough");
        decoder.compare(&batches[0]);
    });
}

#[test]
fn decoders_of_several_threads_do_not_disturb_each_other() {
    on_the_fakes(&RUNS[1..], || {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    let mut decoder = Checked::v5();
                    for i in 0..2 {
                        let events = events(BankVersion::V5, 10 * thread + i, 1);
                        decoder.compare(&allen_batch(&events));
                    }
                });
            }
        });
    });
}
