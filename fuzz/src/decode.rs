//! Raw banks in memory, decoded in every way: the same hits and the same report, or it is a bug.

use std::cell::RefCell;
use std::num::NonZeroU32;

use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cpu::{CpuConfig, CpuDecoder, Simd};
use ut_decoding::decoder::emulated::{EmulatedConfig, EmulatedDecoder};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::input::to_mep;
use ut_decoding::{
    Bank, BankVersion, BatchBuilder, BatchReport, BatchView, DecodeOptions, Decoder, DetectorTables, EventBatch,
    EventMeta, Flip, Grouping, Layout, Position, UtHits, synth,
};

use crate::Bytes;

/// Hits that there is room for: an input whose fragments do not overlap has fewer.
const MAX_HITS: usize = 1 << 13;

/// Events of a batch at most.
const MAX_EVENTS: usize = 4;

/// Bits of an input's choice.
const FUSED: u16 = 1 << 12;
const MEP: u16 = 1 << 13;

/// Launch parameters of the emulated decoders.
const SMALL_BLOCKS: [(&str, u32); 8] = [
    ("count.block_x", 32),
    ("scan.block_x", 32),
    ("cluster.block_y", 1),
    ("compress.block_x", 32),
    ("sort.block_x", 32),
    ("sort.run", 32),
    ("decode.block_x", 32),
    ("fused.block_x", 64),
];

/// A decoder, and what it decodes into: the next batch finds what the last one left.
struct OneOf {
    name: &'static str,
    decoder: Box<dyn Decoder>,
    hits: UtHits,
    report: BatchReport,
}

/// The decoders that must agree, for one set of options; the reference comes first.
struct Decoders(Vec<OneOf>);

impl Decoders {
    /// Everything that an input's first two bytes choose.
    fn new(choice: u16, emulated: bool) -> Self {
        let version = if choice & 1 == 0 { BankVersion::V5 } else { BankVersion::V4 };
        let grouping = if choice & 2 == 0 { Grouping::YRows } else { Grouping::UniqueX };
        let (boards, geometry) = synth::detector(version, 1);
        let tables = DetectorTables::new(boards, geometry, grouping).expect("the synthetic detector is sound");
        let options = DecodeOptions {
            clustering: choice & 4 == 0,
            position: if choice & 8 == 0 { Position::Adc } else { Position::Geometric },
            max_cluster_size: NonZeroU32::new([128, 1, 2, 4][usize::from(choice >> 4 & 3)]).expect("none is 0"),
            save_above_max: choice & 64 != 0,
            flip: if choice & 128 == 0 { Flip::From512 } else { Flip::From511 },
        };
        let mut all: Vec<(&'static str, Box<dyn Decoder>)> =
            vec![("reference", Box::new(ReferenceDecoder::new(&tables, options)))];
        if emulated {
            // Small blocks: the executor's time goes with the number of threads. Other tests have the usual ones.
            let mut launch = Parameters::default();
            for (name, value) in SMALL_BLOCKS {
                launch.set(name, value).expect("a value that the parameter can have");
            }
            // One of them an input, which takes half of the time.
            let (name, pipeline) = match choice & FUSED {
                0 => ("emulated", Pipeline::Allen),
                _ => ("emulated, fused", Pipeline::Fused),
            };
            let config = EmulatedConfig { pipeline, launch, ..EmulatedConfig::default() };
            let decoder = EmulatedDecoder::new(&tables, options, config).expect("the defaults are sound");
            all.push((name, Box::new(decoder)));
        } else {
            let levels =
                [("scalar", Simd::Scalar), ("AVX2", Simd::Avx2), ("AVX-512", Simd::Avx512), ("NEON", Simd::Neon)];
            for (name, simd) in levels.into_iter().filter(|(_, simd)| simd.resolve().is_some()) {
                let config = CpuConfig { threads: 1, simd, ..CpuConfig::default() };
                let decoder = CpuDecoder::new(&tables, options, config).expect("the level is there");
                all.push((name, Box::new(decoder)));
            }
        }
        let n_groups = tables.n_groups();
        let with_room = |(name, decoder)| {
            let hits = UtHits::with_capacity(MAX_EVENTS, n_groups, MAX_HITS);
            OneOf { name, decoder, hits, report: BatchReport::new() }
        };
        Self(all.into_iter().map(with_room).collect())
    }

    fn compare(&mut self, batch: BatchView<'_>) {
        let results: Vec<_> =
            self.0.iter_mut().map(|of| of.decoder.decode(batch, &mut of.hits, &mut of.report)).collect();
        let (reference, others) = self.0.split_first().expect("the reference");
        for (other, result) in others.iter().zip(&results[1..]) {
            let name = other.name;
            assert_eq!(result.is_ok(), results[0].is_ok(), "{name}: {result:?} and not {:?}", results[0]);
            if result.is_ok() {
                assert_eq!(other.report.events, reference.report.events, "{name}: another report");
                assert!(other.hits == reference.hits, "{name}: other hits");
            }
        }
    }
}

thread_local! {
    /// By choice and kind; making them takes longer than decoding.
    static DECODERS: RefCell<Vec<((u16, bool), Decoders)>> = const { RefCell::new(Vec::new()) };
}

/// Sets of decoders that are kept.
const KEPT: usize = 32;

fn compare(choice: u16, emulated: bool, batch: BatchView<'_>) {
    let key = (choice & (0xff | if emulated { FUSED } else { 0 }), emulated);
    DECODERS.with_borrow_mut(|kept| {
        if !kept.iter().any(|(other, _)| *other == key) {
            if kept.len() == KEPT {
                kept.remove(0);
            }
            kept.push((key, Decoders::new(key.0, emulated)));
        }
        let (_, decoders) = kept.iter_mut().find(|(other, _)| *other == key).expect("it is there now");
        decoders.compare(batch);
    });
}

/// Banks with whatever content, in sound tables: both layouts.
pub fn banks(data: &[u8]) {
    with_banks(data, false);
}

/// The same, through the device's kernels.
pub fn banks_emulated(data: &[u8]) {
    with_banks(data, true);
}

fn with_banks(data: &[u8], emulated: bool) {
    let mut bytes = Bytes(data);
    let choice = bytes.u16();
    let version = if choice & 1 == 0 { 4 } else { 3 };
    let (mut builder, mut batch) = (BatchBuilder::new(), EventBatch::default());
    for _ in 0..=usize::from(choice >> 8 & 3) {
        let mut banks = Vec::new();
        for _ in 0..bytes.u8() % 8 {
            let (what, board, size) = (bytes.u8(), bytes.u16(), bytes.u8());
            let kind = [66, 66, 66, 68, 67, 16, 66, 66][usize::from(what & 7)];
            let version = [Some(version), Some(version), Some(what), None][usize::from(what >> 3 & 3)];
            banks.push(Bank {
                kind,
                version,
                source_id: u32::from(board),
                payload: bytes.take(usize::from(size) * 4 + usize::from(what >> 6)),
            });
        }
        let meta =
            EventMeta { other_banks: u32::from(choice >> 12), broken: choice & 1 << 11 != 0, ..EventMeta::default() };
        if builder.push(meta, banks).is_err() {
            break;
        }
    }
    builder.finish(&mut batch);
    // The executor is slow: it gets one of the layouts.
    let in_mep = choice & MEP != 0;
    if !emulated || !in_mep {
        compare(choice, emulated, batch.view());
    }
    if !emulated || in_mep {
        for mep in to_mep(batch.view()).unwrap_or_default() {
            compare(choice, emulated, mep.view());
        }
    }
}

/// Tables of a batch with whatever content.
pub fn batch(data: &[u8]) {
    with_batch(data, false);
}

/// The same, through the device's kernels.
pub fn batch_emulated(data: &[u8]) {
    with_batch(data, true);
}

fn with_batch(data: &[u8], emulated: bool) {
    let mut bytes = Bytes(data);
    let choice = bytes.u16();
    let [offsets, sizes, types, versions] = std::array::from_fn(|_| bytes.words());
    let raw = bytes.0;
    let view = BatchView {
        layout: if choice & 1 << 10 == 0 { Layout::Allen } else { Layout::Mep },
        n_events: usize::from(choice >> 8 & 3) % MAX_EVENTS + 1,
        raw,
        offsets: &offsets,
        sizes: &sizes,
        types: &types,
        versions: (choice & 1 << 11 != 0).then_some(&versions[..]),
        ..BatchView::default()
    };
    compare(choice, emulated, view);
}
