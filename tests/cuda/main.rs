//! The GPU backend with a stand-in for `libcuda`, in child processes: the same bits as the
//! reference, and an error for whatever safe code must not do.
//!
//! Nothing else stands between the decoder and a GPU: the fake runs the committed PTX on an
//! interpreter.
#![cfg(target_os = "linux")]

mod cli;
mod counts;
mod decoding;
mod device;
mod fake_driver;
mod interop;
mod measuring;
mod promises;
mod ptx;
mod refusals;
mod sequence;
mod stand_in;
mod streams;
#[path = "../suite/mod.rs"]
mod suite;

use std::ops::{Deref, DerefMut};

use suite::backends::{as_reference, decode};
use suite::events::{
    Event, VERSIONS, allen_batch, generated_as, tables_in as detector, v5, v5_payload,
};
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::{CudaConfig, CudaDecoder, Ticket};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::synth::Profile;
use ut_decoding::{
    BatchReport, DecodeError, DecodeOptions, DetectorTables, EventBatch, Grouping, UtHits,
};
use ut_kernels::detector::BankVersion;

/// Names the pipeline to test in a child process.
const KERNELS: &str = "UT_DECODE_TEST_KERNELS";

/// Orders in which the fake does its work (some that run ahead, and as late as possible), with
/// either pipeline.
const RUNS: [[(&str, &str); 2]; 4] = [
    [("FAKE_CUDA_SEED", "1"), (KERNELS, "allen")],
    [("FAKE_CUDA_SEED", "2"), (KERNELS, "ranked")],
    [("FAKE_CUDA_SEED", "0"), (KERNELS, "allen")],
    [("FAKE_CUDA_SEED", "0"), (KERNELS, "ranked")],
];

/// Two of [`RUNS`] in which either pipeline, and either order of work, is there once.
const PAIR: [[(&str, &str); 2]; 2] = [RUNS[1], RUNS[2]];

/// `n` events, one after the other from a seed.
fn events(version: BankVersion, seed: u64, n: usize) -> Vec<Event> {
    generated_as(Profile::PpLow, version, seed, n)
}

/// Pipeline that [`KERNELS`] names, or the default.
fn pipeline() -> Pipeline {
    std::env::var(KERNELS).map_or(Pipeline::default(), |name| {
        name.parse().expect("a pipeline")
    })
}

/// A decoder with default options, whose hits are compared with the reference's.
struct Checked {
    tables: DetectorTables,
    decoder: CudaDecoder,
}

impl Checked {
    /// Runs the [pipeline to test](KERNELS).
    fn new(version: BankVersion, grouping: Grouping) -> Self {
        Self::with(
            detector(version, grouping),
            CudaConfig::default().with_pipeline(pipeline()),
        )
    }

    fn v5() -> Self {
        Self::new(BankVersion::V5, Grouping::YRows)
    }

    fn with(tables: DetectorTables, config: CudaConfig) -> Self {
        let made = CudaDecoder::new(&tables, DecodeOptions::default(), config);
        Self {
            tables,
            decoder: made.expect("the fake is a GPU"),
        }
    }

    fn reference(&self, batch: &EventBatch) -> (UtHits, BatchReport) {
        let mut reference = ReferenceDecoder::new(&self.tables, DecodeOptions::default());
        decode(&mut reference, &self.tables, batch.view())
    }

    /// Compares what it makes of a batch.
    #[track_caller]
    fn compare(&mut self, batch: &EventBatch) {
        as_reference(
            &mut self.decoder,
            &self.tables,
            DecodeOptions::default(),
            batch.view(),
        )
        .unwrap();
    }

    /// Collects a batch and compares its result with the expected one.
    #[track_caller]
    fn check(&mut self, ticket: Ticket, batch: &EventBatch) {
        let (expected, expected_report) = self.reference(batch);
        let found = self.decoder.collect(ticket).unwrap();
        assert_eq!(
            (found.len(), found.offsets()),
            (expected.len(), expected.offsets())
        );
        let mut hits = UtHits::with_capacity(batch.n_events, self.tables.n_groups(), found.len());
        let mut report = BatchReport::new();
        found.copy_to(&mut hits, &mut report).unwrap();
        assert_eq!(report, expected_report);
        assert!(hits == expected, "hits differ");
    }
}

/// Checks that a call is refused, with `part` in what it says.
#[track_caller]
fn says<T>(result: Result<T, DecodeError>, part: &str) {
    let error = result.err().expect("it is refused").to_string();
    assert!(error.contains(part), "{part:?} is not in {error}");
}

impl Deref for Checked {
    type Target = CudaDecoder;

    fn deref(&self) -> &CudaDecoder {
        &self.decoder
    }
}

impl DerefMut for Checked {
    fn deref_mut(&mut self) -> &mut CudaDecoder {
        &mut self.decoder
    }
}

/// Makes a batch with more strips than its bytes have room for: every event overlaps the first
/// event.
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
