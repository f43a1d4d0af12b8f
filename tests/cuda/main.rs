//! The GPU backend with a stand-in for `libcuda`, in child processes: the same bits as the reference, and an error for
//! whatever safe code must not do.
//!
//! `tests/kernels/ptx/allen.rs` runs the host code above the driver; here the code that calls the driver runs as well.
#![cfg(target_os = "linux")]

mod cli;
mod decoding;
mod device;
mod fake_driver;
mod graphs;
mod interop;
mod measuring;
mod refusals;
mod sequence;
mod stand_in;
mod streams;
#[path = "../suite/mod.rs"]
mod suite;

use suite::backends::{as_reference, cuda_config, decode};
use suite::events::{Event, VERSIONS, allen_batch, generated_as, tables_in as detector, v5, v5_payload};
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::{CudaDecoder, Ticket};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::synth::Profile;
use ut_decoding::{BatchReport, BatchView, DecodeOptions, Decoder, DetectorTables, EventBatch, UtHits};
use ut_kernels::detector::BankVersion;

/// Says in a child process which kernels are meant, and whether they are launched as graphs.
const KERNELS: &str = "UT_DECODE_TEST_KERNELS";

/// Orders in which the fake does its work (as late as possible, and some that run ahead), with either pipeline,
/// launch by launch and as graphs.
const RUNS: [[(&str, &str); 2]; 4] = [
    [("FAKE_CUDA_SEED", "1"), (KERNELS, "allen")],
    [("FAKE_CUDA_SEED", "2"), (KERNELS, "fused")],
    [("FAKE_CUDA_SEED", "0"), (KERNELS, "allen graph")],
    [("FAKE_CUDA_SEED", "3"), (KERNELS, "fused graph")],
];

/// `n` events, one after the other from a seed.
fn events(version: BankVersion, seed: u64, n: usize) -> Vec<Event> {
    generated_as(Profile::PpLow, version, seed, n)
}

/// Compares what a decoder makes of a batch with the reference.
#[track_caller]
fn compare(decoder: &mut dyn Decoder, tables: &DetectorTables, options: DecodeOptions, batch: BatchView<'_>) {
    as_reference(decoder, tables, options, batch).unwrap();
}

/// The kernels that are meant, and whether they are launched as graphs.
fn pipeline() -> (Pipeline, bool) {
    let kernels = std::env::var(KERNELS).unwrap_or_default();
    let mut words = kernels.split_whitespace();
    let pipeline = words.next().map_or(Pipeline::default(), |name| name.parse().expect("a pipeline"));
    (pipeline, words.next() == Some("graph"))
}

fn cuda(tables: &DetectorTables, options: DecodeOptions) -> CudaDecoder {
    let (pipeline, graph) = pipeline();
    CudaDecoder::new(tables, options, cuda_config(pipeline, graph)).expect("the fake is a GPU")
}

/// A batch with more strips than its bytes have room for: all its events are the first one.
fn overlapping() -> EventBatch {
    let lane: Vec<(u16, u8)> = (0..60).map(|i| (2 * i, 31)).collect();
    let payload = v5_payload(&std::array::from_fn(|_| lane.clone()));
    let event = vec![v5(0, &payload)];
    let mut batch = allen_batch(&[event.clone(), event.clone(), event]);
    let one = batch.offsets[1];
    batch.raw.truncate(one as usize);
    batch.offsets = vec![0, 0, 0, one];
    batch
}

/// Compares what is collected with the reference.
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
    let mut hits = UtHits::with_capacity(batch.n_events, tables.n_groups(), found.len());
    let mut report = BatchReport::new();
    found.copy_to(&mut hits, &mut report).unwrap();
    assert_eq!(report, expected_report);
    assert!(hits == expected, "hits differ");
}
