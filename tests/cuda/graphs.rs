//! Batches whose kernels are launched as CUDA graphs. That they give the same hits is tested with everything else.

use ut_decoding::decoder::cuda::{GraphUse, Readback};
use ut_decoding::detector::BankVersion;
use ut_decoding::{EventBatch, Grouping};

use crate::fake_driver::{on_the_fakes, well_on_the_fake};
use crate::suite::events::allen_batch;
use crate::{Checked, KERNELS, events};

/// Both pipelines, as graphs.
const GRAPHS: [(&str, &str); 2] = [(KERNELS, "allen graph"), (KERNELS, "fused graph")];

/// Batches of one and of two events, three of each.
fn batches() -> Vec<EventBatch> {
    (0..6).map(|i| allen_batch(&events(BankVersion::V5, i, 1 + i as usize % 2))).collect()
}

fn used(decoder: &mut Checked) -> GraphUse {
    decoder.device().graph_use().cloned().unwrap_or_default()
}

/// Decodes a batch on the device twice, hits to the host and left there.
fn decode(decoder: &mut Checked, batch: &EventBatch) {
    let resident = decoder.upload(batch.view()).unwrap();
    let ticket = decoder.submit(&resident, Readback::Hits).unwrap();
    decoder.check(ticket, batch);
    let ticket = decoder.submit(&resident, Readback::None).unwrap();
    decoder.collect_resident(ticket).unwrap();
}

#[test]
fn batches_of_as_many_events_share_a_graph_whatever_is_in_them() {
    on_the_fakes(&GRAPHS.map(|graphs| [graphs]), || {
        let mut decoder = Checked::v5();
        // The buffers grow to what they are for good.
        let batches = batches();
        for batch in &batches {
            decode(&mut decoder, batch);
        }
        let before = used(&mut decoder);
        for _ in 0..3 {
            for batch in &batches {
                decode(&mut decoder, batch);
            }
        }
        let after = used(&mut decoder);
        // One or two events, with hits and without; all on the first stream, one after the other.
        assert!(after.made - before.made <= 4 && after.made <= 8, "{before:?} {after:?}");
        assert!(after.launched - before.launched >= 3 * 2 * 6 - 4, "{before:?} {after:?}");
        assert!(after.changed > before.changed, "batches lie elsewhere each time");
        assert_eq!(after.refused, None);
    });
}

#[test]
fn a_batch_that_stays_where_it_is_is_one_launch_each_time() {
    on_the_fakes(&GRAPHS.map(|graphs| [graphs]), || {
        let mut decoder = Checked::v5();
        let batch = allen_batch(&events(BankVersion::V5, 1, 2));
        let resident = [decoder.upload(batch.view()).unwrap()];
        // Often enough that every stream has seen twice what is decoded before the clock runs, and what after.
        for _ in 0..2 {
            decoder.repeat_resident(&resident, 6).unwrap();
        }
        let before = used(&mut decoder);
        let (streams, passes) = (decoder.streams() as u64, 12);
        decoder.repeat_resident(&resident, passes).unwrap();
        let after = used(&mut decoder);
        assert_eq!(after.made, before.made);
        // On every stream once before the clock runs.
        assert_eq!(after.launched - before.launched, passes as u64 + streams);
        decoder.compare(&batch);
    });
}

#[test]
fn more_kinds_of_batches_than_are_remembered_are_decoded_all_the_same() {
    on_the_fakes(&GRAPHS.map(|graphs| [graphs]), || {
        let mut decoder = Checked::new(BankVersion::V4, Grouping::YRows);
        let kinds: Vec<_> = (1..7).map(|n| allen_batch(&events(BankVersion::V4, n, n as usize))).collect();
        for batch in kinds.iter().chain(&kinds) {
            decoder.compare(batch);
            decoder.compare(batch);
        }
        assert!(used(&mut decoder).made > 4);
    });
}

#[test]
fn a_driver_that_refuses_is_used_without_graphs_and_its_words_are_kept() {
    let functions =
        ["cuStreamBeginCapture", "cuStreamGetCaptureInfo", "cuGraphInstantiate", "cuGraphExecKernelNodeSetParams"];
    for (function, pipeline) in functions.into_iter().zip(GRAPHS.into_iter().cycle()) {
        well_on_the_fake(&[pipeline, ("FAKE_CUDA_REFUSE", function)], || {
            let mut decoder = Checked::v5();
            // The buffers grow no more after the first two, and the others lie elsewhere.
            let batches = batches();
            for batch in &batches {
                decode(&mut decoder, batch);
            }
            let refused = used(&mut decoder).refused.expect("the driver refuses");
            assert!(refused.contains("CUDA_ERROR_NOT_SUPPORTED"), "{refused}");
            let before = used(&mut decoder);
            decode(&mut decoder, &batches[0]);
            assert_eq!(used(&mut decoder), before, "it is not asked again");
        });
    }
}

#[test]
fn kernels_that_are_timed_are_launched_one_by_one() {
    well_on_the_fake(&GRAPHS[..1], || {
        let mut decoder = Checked::v5();
        let batch = allen_batch(&events(BankVersion::V5, 1, 1));
        for _ in 0..3 {
            decoder.compare(&batch);
        }
        let before = used(&mut decoder);
        assert!(before.launched > 0);
        decoder.time_kernels(true);
        decoder.compare(&batch);
        assert_eq!(decoder.take_times().unwrap().len(), 9);
        assert_eq!(used(&mut decoder), before);
    });
}
