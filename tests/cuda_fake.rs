//! The whole way to a GPU, cudarc included, with a fake driver in place of `libcuda`: the same bits as the reference.
//!
//! `tests/ptx_run.rs` runs the host code above the driver; here what talks to the driver runs too, in child processes.
#![cfg(target_os = "linux")]

mod fake_driver;
mod suite;

use std::num::NonZeroU32;

use fake_driver::{complaints, on_the_fake, well_on_the_fake};
use suite::backends::decode;
use suite::data::rows;
use suite::events::{Bank, Event, allen_batch, fits_mep, mep_batch, v5_payload};
use ut_decoding::backend::cuda::{Cuda, CudaConfig, CudaDecoder, choose};
use ut_decoding::backend::reference::ReferenceDecoder;
use ut_decoding::synth::{self, Generator, Profile};
use ut_decoding::{BatchView, DecodeOptions, Decoder, DetectorTables, Grouping, Position};
use ut_kernels::detector::BankVersion;

/// Orders in which the fake does what it was asked for: as late as can be, and two that run ahead.
const SEEDS: [&str; 3] = ["0", "1", "2"];

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
    CudaDecoder::new(tables, options, CudaConfig::default()).expect("the fake is a GPU")
}

#[test]
fn events_come_out_as_from_the_reference() {
    for seed in SEEDS {
        well_on_the_fake("events_come_out_as_from_the_reference", &[("FAKE_CUDA_SEED", seed)], || {
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
    well_on_the_fake("every_option_reaches_the_kernels", &[], || {
        let plain = DecodeOptions::default();
        let tables = detector(BankVersion::V5, Grouping::YRows);
        for options in [
            DecodeOptions { clustering: false, ..plain },
            DecodeOptions { position: Position::Geometric, ..plain },
            DecodeOptions { save_above_max: true, max_cluster_size: NonZeroU32::MIN, ..plain },
        ] {
            compare(&mut cuda(&tables, options), &tables, options, allen_batch(&events(BankVersion::V5, 7, 1)).view());
        }
    });
}

#[test]
fn more_strips_than_there_is_room_for_are_decoded_all_the_same() {
    well_on_the_fake("more_strips_than_there_is_room_for_are_decoded_all_the_same", &[], || {
        let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
        let lane: Vec<(u16, u8)> = (0..254).map(|i| (2 * i, 31)).collect();
        let payload = v5_payload(&std::array::from_fn(|_| lane.clone()));
        let event = (0..4).map(|board| Bank { kind: 66, version: 4, source_id: board, payload: payload.clone() });
        let mut batch = allen_batch(&[event.collect()]);
        // All banks begin where the first one does: more strips than bytes have room for.
        let n_banks = 4;
        for bank in 1..n_banks {
            batch.raw.copy_within(4..8, 4 + 4 * bank);
        }
        let one = batch.raw[4 * (n_banks + 2)..].len() / n_banks;
        batch.raw.truncate(4 * (n_banks + 2) + one);
        *batch.offsets.last_mut().expect("an end") = batch.raw.len() as u32;
        let mut decoder = cuda(&tables, options);
        compare(&mut decoder, &tables, options, batch.view());
        compare(&mut decoder, &tables, options, allen_batch(&events(BankVersion::V5, 7, 1)).view());
    });
}

#[test]
fn decoders_of_several_threads_do_not_disturb_each_other() {
    for seed in SEEDS {
        well_on_the_fake("decoders_of_several_threads_do_not_disturb_each_other", &[("FAKE_CUDA_SEED", seed)], || {
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

#[test]
fn it_cannot_be_mistaken_for_a_gpu() {
    well_on_the_fake("it_cannot_be_mistaken_for_a_gpu", &[], || {
        let gpu = choose(&Cuda, 0).expect("the fake is a GPU");
        assert!(gpu.name.starts_with("fake GPU") && gpu.name.contains("no GPU"), "{gpu:?}");
    });
}

#[test]
fn kernels_are_timed_in_the_order_of_launch() {
    well_on_the_fake("kernels_are_timed_in_the_order_of_launch", &[], || {
        let (tables, options) = (detector(BankVersion::V5, Grouping::YRows), DecodeOptions::default());
        let mut decoder = cuda(&tables, options);
        decoder.device().time_kernels(true);
        compare(&mut decoder, &tables, options, allen_batch(&events(BankVersion::V5, 1, 1)).view());
        let times = decoder.device().take_times().expect("they were recorded");
        let names: Vec<_> = times.iter().map(|(kernel, _)| kernel.name()).collect();
        assert_eq!(
            names,
            [
                "count_hits",
                "prefix_sum_tiles",
                "prefix_sum_offsets",
                "cluster_and_predecode",
                "prefix_sum_tiles",
                "prefix_sum_offsets",
                "compress_and_make_keys",
                "find_permutation",
                "decode_in_order"
            ]
        );
        assert!(times.iter().all(|(_, time)| *time > 0.0), "{times:?}");
        assert!(decoder.device().take_times().expect("nothing is there").is_empty());
    });
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
        let mut hits = ut_decoding::UtHits::with_capacity(60, tables.n_groups, large.view().max_hits());
        let error = decoder.decode(large.view(), &mut hits, &mut ut_decoding::BatchReport::new()).unwrap_err();
        assert!(error.to_string().contains("do not fit"), "{error}");
        compare(&mut decoder, &tables, options, allen_batch(&events(BankVersion::V5, 1, 1)).view());
    });
    assert!(output.is_none_or(|output| complaints(&output).is_empty()));
}
