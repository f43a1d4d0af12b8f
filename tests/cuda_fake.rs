//! The whole way to a GPU, cudarc included, with a fake driver in place of `libcuda`: the same bits as the reference.
//!
//! `tests/ptx_run.rs` runs the host code above the driver; here what talks to the driver runs too, in child processes.
#![cfg(target_os = "linux")]

mod fake_driver;
mod suite;

use std::collections::VecDeque;
use std::num::NonZeroU32;

use fake_driver::{complaints, on_the_fake, well_on_the_fake};
use suite::backends::decode;
use suite::data::rows;
use suite::events::{Bank, Event, allen_batch, fits_mep, mep_batch, v5_payload};
use ut_decoding::backend::Pipeline;
use ut_decoding::backend::cuda::{CudaConfig, CudaDecoder, DeviceHits, HostHits, Ticket, Want};
use ut_decoding::backend::launch::LaunchParams;
use ut_decoding::backend::reference::ReferenceDecoder;
use ut_decoding::synth::{self, Generator, Profile};
use ut_decoding::{
    BatchReport, BatchView, DecodeError, DecodeOptions, Decoder, DetectorTables, EventBatch, Grouping, Position, UtHits,
};
use ut_kernels::detector::BankVersion;

/// Says in a child process which kernels are meant.
const PIPELINE: &str = "UT_DECODE_TEST_PIPELINE";

/// Orders in which the fake does what it was asked for (as late as can be, and two that run ahead), with either pipeline.
const RUNS: [[(&str, &str); 2]; 4] = [
    [("FAKE_CUDA_SEED", "0"), (PIPELINE, "allen")],
    [("FAKE_CUDA_SEED", "1"), (PIPELINE, "allen")],
    [("FAKE_CUDA_SEED", "0"), (PIPELINE, "fused")],
    [("FAKE_CUDA_SEED", "2"), (PIPELINE, "fused")],
];

const VERSIONS: [BankVersion; 2] = [BankVersion::V4, BankVersion::V5];

fn detector(version: BankVersion, grouping: Grouping) -> DetectorTables {
    let (boards, geometry) = synth::detector(version, 1);
    DetectorTables::new(boards, geometry, grouping).expect("they go together")
}

/// `n` events, one after the other from a seed.
fn events(version: BankVersion, seed: u64, n: usize) -> Vec<Event> {
    let bank = |(source_id, payload)| Bank { kind: 66, version: version.byte(), source_id, payload };
    let events = Generator::new(Profile::PpLow, version, seed).take(n);
    events.map(|event| event.banks.into_iter().map(bank).collect()).collect()
}

/// Holds what a decoder makes of a batch against the reference.
#[track_caller]
fn compare(decoder: &mut dyn Decoder, tables: &DetectorTables, options: DecodeOptions, batch: BatchView<'_>) {
    let (expected, expected_report) = decode(&mut ReferenceDecoder::new(tables, options), tables, batch);
    let (hits, report) = decode(decoder, tables, batch);
    assert_eq!(report, expected_report);
    assert_eq!(hits.offsets(), expected.offsets());
    assert!(rows(&hits) == rows(&expected), "hits differ");
}

fn cuda(tables: &DetectorTables, options: DecodeOptions) -> CudaDecoder {
    let pipeline = std::env::var(PIPELINE).map_or(Pipeline::default(), |name| name.parse().expect("a pipeline"));
    CudaDecoder::new(tables, options, CudaConfig { pipeline, ..CudaConfig::default() }).expect("the fake is a GPU")
}

#[test]
fn events_come_out_as_from_the_reference() {
    for run in RUNS {
        well_on_the_fake("events_come_out_as_from_the_reference", &run, || {
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
}

#[test]
fn every_option_reaches_the_kernels() {
    for run in &RUNS[1..3] {
        well_on_the_fake("every_option_reaches_the_kernels", run, || {
            let plain = DecodeOptions::default();
            let tables = detector(BankVersion::V5, Grouping::YRows);
            for options in [
                DecodeOptions { clustering: false, ..plain },
                DecodeOptions { position: Position::Geometric, ..plain },
                DecodeOptions { save_above_max: true, max_cluster_size: NonZeroU32::MIN, ..plain },
            ] {
                let batch = allen_batch(&events(BankVersion::V5, 7, 1));
                compare(&mut cuda(&tables, options), &tables, options, batch.view());
            }
        });
    }
}

#[test]
fn the_one_launch_gives_the_same_hits_when_nothing_fits_and_when_a_launch_counts_first() {
    let name = "the_one_launch_gives_the_same_hits_when_nothing_fits_and_when_a_launch_counts_first";
    well_on_the_fake(name, &[], || {
        let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
        for settings in [["fused.tile=0", "fused.count_first=0"], ["fused.tile=0", "fused.count_first=1"]] {
            let mut launch = LaunchParams::default();
            for setting in settings {
                launch.set_from(setting).expect("a valid setting");
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

/// A batch with more strips than its bytes have room for: all its events are the first one.
fn overlapping() -> EventBatch {
    let lane: Vec<(u16, u8)> = (0..100).map(|i| (2 * i, 31)).collect();
    let payload = v5_payload(&std::array::from_fn(|_| lane.clone()));
    let event = vec![Bank { kind: 66, version: 4, source_id: 0, payload }];
    let mut batch = allen_batch(&[event.clone(), event.clone(), event]);
    let one = batch.offsets[1];
    batch.raw.truncate(one as usize);
    batch.offsets = vec![0, 0, 0, one];
    batch
}

#[test]
fn more_strips_than_there_is_room_for_are_decoded_all_the_same() {
    for run in RUNS {
        well_on_the_fake("more_strips_than_there_is_room_for_are_decoded_all_the_same", &run, || {
            let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
            let batch = overlapping();
            let (expected, _) = decode(&mut ReferenceDecoder::new(&tables, options), &tables, batch.view());
            assert!(expected.len() > batch.raw.len() / 2, "{} hits, {} bytes", expected.len(), batch.raw.len());
            let mut decoder = cuda(&tables, options);
            let before = allen_batch(&events(BankVersion::V5, 7, 1));
            // With others under way.
            let first = decoder.submit(before.view(), Want::Hits).unwrap();
            let large = decoder.submit(batch.view(), Want::Hits).unwrap();
            let third = decoder.submit(before.view(), Want::Hits).unwrap();
            for (ticket, batch) in [(large, &batch), (third, &before), (first, &before)] {
                collect_as_reference(&mut decoder, ticket, &tables, options, batch);
            }
            let held = decoder.device_bytes();
            compare(&mut decoder, &tables, options, batch.view());
            compare(&mut decoder, &tables, options, before.view());
            let resident = decoder.upload(batch.view()).unwrap();
            // SAFETY: it lives until the end.
            let hits = unsafe { decoder.decode_resident(&resident.batch()) }.unwrap();
            assert_eq!(hits.len, expected.len());
            assert!(decoder.device_bytes() >= held);
        });
    }
}

/// Holds what is collected against the reference.
#[track_caller]
fn collect_as_reference(
    decoder: &mut CudaDecoder,
    ticket: Ticket,
    tables: &DetectorTables,
    options: DecodeOptions,
    batch: &EventBatch,
) {
    let (expected, expected_report) = decode(&mut ReferenceDecoder::new(tables, options), tables, batch.view());
    let found = decoder.collect(ticket).unwrap();
    assert_eq!((found.len(), found.offsets()), (expected.len(), expected.offsets()));
    let mut hits = UtHits::with_capacity(batch.n_events, tables.n_groups, found.len());
    let mut report = BatchReport::new();
    found.copy_to(&mut hits, &mut report).unwrap();
    assert_eq!(report, expected_report);
    assert!(hits == expected, "hits differ");
}

#[test]
fn batches_under_way_at_the_same_time_do_not_disturb_each_other() {
    for run in RUNS {
        well_on_the_fake("batches_under_way_at_the_same_time_do_not_disturb_each_other", &run, || {
            let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
            let mut decoder = cuda(&tables, options);
            assert_eq!(decoder.streams(), 3);
            let batches: Vec<_> = (0..7).map(|i| allen_batch(&events(BankVersion::V5, i, 1))).collect();
            let mut under_way = VecDeque::new();
            for (i, batch) in batches.iter().enumerate() {
                if under_way.len() == decoder.streams() {
                    // Not always the oldest first.
                    let (ticket, batch) = under_way.remove(i % 3).unwrap();
                    collect_as_reference(&mut decoder, ticket, &tables, options, batch);
                }
                let mut copy = batch.clone();
                let ticket = decoder.submit(copy.view(), Want::Hits).unwrap();
                // The host's batch is free at once.
                copy.raw.fill(0xEE);
                under_way.push_back((ticket, batch));
            }
            let busy = decoder.submit(batches[0].view(), Want::Hits).unwrap_err().to_string();
            assert!(busy.contains("collect one"), "{busy}");
            for (ticket, batch) in under_way {
                collect_as_reference(&mut decoder, ticket, &tables, options, batch);
            }
            let _ = decoder.submit(batches[0].view(), Want::Hits).unwrap();
            // Dropped while a batch is under way.
        });
    }
}

#[test]
fn pinned_and_resident_batches_give_the_same_hits_as_often_as_one_likes() {
    for run in RUNS {
        well_on_the_fake("pinned_and_resident_batches_give_the_same_hits_as_often_as_one_likes", &run, || {
            let (tables, options) = (detector(BankVersion::V4, Grouping::UniqueX), DecodeOptions::default());
            let mut decoder = cuda(&tables, options);
            let events = events(BankVersion::V4, 3, 2);
            let batches = [allen_batch(&events), mep_batch(&events), allen_batch(&[])];
            for batch in &batches {
                let (expected, _) = decode(&mut ReferenceDecoder::new(&tables, options), &tables, batch.view());
                let pinned = decoder.pin(batch.view()).unwrap();
                let resident = decoder.upload(batch.view()).unwrap();
                for _ in 0..2 {
                    let one = decoder.submit(&pinned, Want::Hits).unwrap();
                    let two = decoder.submit(&resident, Want::Hits).unwrap();
                    // SAFETY: `resident` lives longer than the ticket.
                    let three = unsafe { decoder.submit_resident(&resident.batch(), Want::Nothing) }.unwrap();
                    assert_eq!(decoder.collect_resident(three).unwrap().len, expected.len());
                    collect_as_reference(&mut decoder, two, &tables, options, batch);
                    collect_as_reference(&mut decoder, one, &tables, options, batch);
                }
                let before = decoder.moved();
                let ticket = decoder.submit(&resident, Want::Nothing).unwrap();
                let error = decoder.collect(ticket).unwrap_err().to_string();
                assert!(error.contains("stay on the device"), "{error}");
                let moved = decoder.moved();
                assert_eq!(moved.to_device, before.to_device, "a batch that lies there is not copied");
                let status_and_total = if batch.n_events == 0 { 0 } else { 8 };
                assert_eq!(moved.from_device - before.from_device, status_and_total);
                let ticket = decoder.submit(&pinned, Want::Hits).unwrap();
                drop(pinned);
                collect_as_reference(&mut decoder, ticket, &tables, options, batch);
            }
        });
    }
}

#[test]
fn kernels_alone_are_repeated_and_leave_the_decoder_as_it_was() {
    for run in RUNS {
        well_on_the_fake("kernels_alone_are_repeated_and_leave_the_decoder_as_it_was", &run, || {
            let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
            let mut decoder = cuda(&tables, options);
            let small = allen_batch(&events(BankVersion::V5, 1, 1));
            let batches = [small, overlapping(), allen_batch(&[])];
            let resident: Vec<_> = batches.iter().map(|batch| decoder.upload(batch.view()).unwrap()).collect();
            assert!(decoder.repeat_resident(&resident, 2).unwrap() > 0.0);
            assert!(decoder.repeat_resident(&resident[..1], 2).unwrap() > 0.0);
            decoder.repeat_resident(&[], 2).unwrap();
            for (batch, resident) in batches.iter().zip(&resident) {
                let ticket = decoder.submit(resident, Want::Hits).unwrap();
                let busy = decoder.repeat_resident(&[], 1).unwrap_err().to_string();
                assert!(busy.contains("under way"), "{busy}");
                collect_as_reference(&mut decoder, ticket, &tables, options, batch);
            }
        });
    }
}

#[test]
fn batches_in_turn_come_out_in_order_and_an_error_leaves_nothing_under_way() {
    for run in RUNS {
        well_on_the_fake("batches_in_turn_come_out_in_order_and_an_error_leaves_nothing_under_way", &run, || {
            let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
            let mut decoder = cuda(&tables, options);
            let batches: Vec<_> = (0..5).map(|i| allen_batch(&events(BankVersion::V5, i, 1))).collect();
            let expected: Vec<_> = batches
                .iter()
                .map(|batch| decode(&mut ReferenceDecoder::new(&tables, options), &tables, batch.view()).0)
                .collect();
            let mut found = Vec::new();
            let each = |hits: HostHits<'_>| {
                let mut copy = UtHits::with_capacity(1, tables.n_groups, hits.len());
                hits.copy_to(&mut copy, &mut BatchReport::new())?;
                found.push(copy);
                Ok(())
            };
            decoder.decode_all(batches.iter().map(EventBatch::view), each).unwrap();
            assert!(found == expected);
            let pinned: Vec<_> = batches.iter().map(|batch| decoder.pin(batch.view()).unwrap()).collect();
            let mut lens = Vec::new();
            let each = |hits: DeviceHits| {
                lens.push(hits.len);
                Ok(())
            };
            decoder.decode_all_and_leave(&pinned, each).unwrap();
            assert_eq!(lens, expected.iter().map(UtHits::len).collect::<Vec<_>>());
            let mut first = true;
            let stop = |_: HostHits<'_>| {
                let error = DecodeError::Device { backend: "test", message: "enough".to_owned() };
                if std::mem::take(&mut first) { Err(error) } else { panic!("called after an error") }
            };
            let error = decoder.decode_all(&pinned, stop).unwrap_err().to_string();
            assert!(error.contains("enough"), "{error}");
            compare(&mut decoder, &tables, options, batches[0].view());
        });
    }
}

#[test]
fn a_ticket_is_good_for_one_decoder() {
    well_on_the_fake("a_ticket_is_good_for_one_decoder", &[], || {
        let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
        let batch = allen_batch(&events(BankVersion::V5, 1, 1));
        let [mut one, mut two] = [cuda(&tables, options), cuda(&tables, options)];
        let ticket = one.submit(batch.view(), Want::Hits).unwrap();
        let error = two.collect(ticket).unwrap_err().to_string();
        assert!(error.contains("another decoder"), "{error}");
    });
}

#[test]
fn a_device_that_fails_is_an_error_and_no_end_of_the_program() {
    let name = "a_device_that_fails_is_an_error_and_no_end_of_the_program";
    let output = on_the_fake(name, &[], || {
        let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
        let mut decoder = cuda(&tables, options);
        let batch = allen_batch(&events(BankVersion::V5, 1, 1));
        let gone = decoder.upload(batch.view()).unwrap().batch();
        // SAFETY: none: it was given back. The fake notices, and nothing else is there to suffer.
        let error = unsafe { decoder.decode_resident(&gone) }.unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
        let error = decoder.submit(batch.view(), Want::Hits).unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
    });
    let found = output.map(|output| complaints(&output));
    assert!(found.is_none_or(|found| found.iter().any(|line| line.contains("went wrong"))));
}

#[test]
fn decoders_of_several_threads_do_not_disturb_each_other() {
    for run in RUNS {
        well_on_the_fake("decoders_of_several_threads_do_not_disturb_each_other", &run, || {
            let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let tables = &tables;
                    scope.spawn(move || {
                        let mut decoder = cuda(tables, options);
                        for i in 0..2 {
                            let events = events(BankVersion::V5, 10 * thread + i, 1);
                            compare(&mut decoder, tables, options, allen_batch(&events).view());
                        }
                    });
                }
            });
        });
    }
}

/// Kernels in the order of launch.
const LAUNCHES: [(&str, &[&str]); 2] = [
    (
        "allen",
        &[
            "count_hits",
            "prefix_sum_tiles",
            "prefix_sum_offsets",
            "cluster_and_predecode",
            "prefix_sum_tiles",
            "prefix_sum_offsets",
            "compress_and_make_keys",
            "find_permutation",
            "decode_in_order",
        ],
    ),
    ("fused", &["fused"]),
];

#[test]
fn kernels_are_timed_in_the_order_of_launch() {
    for (pipeline, launches) in LAUNCHES {
        well_on_the_fake("kernels_are_timed_in_the_order_of_launch", &[(PIPELINE, pipeline)], || {
            // A child process runs the test from its beginning.
            let (_, launches) = *LAUNCHES
                .iter()
                .find(|(name, _)| std::env::var(PIPELINE).is_ok_and(|given| given == *name))
                .unwrap_or(&(pipeline, launches));
            let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
            let mut decoder = cuda(&tables, options);
            decoder.device().time_kernels(true);
            compare(&mut decoder, &tables, options, allen_batch(&events(BankVersion::V5, 1, 1)).view());
            let times = decoder.device().take_times().expect("they were recorded");
            assert_eq!(times.iter().map(|(kernel, _)| kernel.name()).collect::<Vec<_>>(), launches);
            assert!(times.iter().all(|(_, time)| *time > 0.0), "{times:?}");
            assert!(decoder.device().take_times().expect("nothing is there").is_empty());
        });
    }
}

#[test]
fn what_keeps_a_gpu_from_being_used_is_said() {
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("FAKE_CUDA_DEVICES", "0")], "finds no GPU"),
        (&[("FAKE_CUDA_VERSION", "12040")], "it knows CUDA 12.4, needed is 12.8"),
        (&[("FAKE_CUDA_CAPABILITY", "75")], "is of compute capability 7.5"),
        (&[("FAKE_CUDA_MEMORY", "1000")], "do not fit"),
    ];
    let fake = fake_driver::FakeDriver::new();
    for (settings, words) in cases {
        let args = |backend| ["throughput", "--events", "1", "--duration", "0", "--backend", backend];
        let output = fake.run_tool(settings, &args("cuda"));
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(words), "{words:?} is not in {err}");
    }
}

#[test]
fn a_device_whose_memory_is_used_up_says_so_and_the_decoder_recovers() {
    let memory = (3 << 20).to_string();
    let name = "a_device_whose_memory_is_used_up_says_so_and_the_decoder_recovers";
    let output = on_the_fake(name, &[("FAKE_CUDA_MEMORY", &memory)], || {
        let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
        let mut decoder = cuda(&tables, options);
        let large = allen_batch(&events(BankVersion::V5, 1, 60));
        let mut hits = UtHits::with_capacity(60, tables.n_groups, large.view().max_hits());
        let error = decoder.decode(large.view(), &mut hits, &mut BatchReport::new()).unwrap_err();
        assert!(error.to_string().contains("do not fit"), "{error}");
        compare(&mut decoder, &tables, options, allen_batch(&events(BankVersion::V5, 1, 1)).view());
    });
    assert!(output.is_none_or(|output| complaints(&output).is_empty()));
}
