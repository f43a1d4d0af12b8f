//! Raw banks in memory, decoded in every way: the same hits and the same report, or it is a bug.

use std::cell::RefCell;
use std::num::NonZeroU32;

use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cpu::{CpuConfig, CpuDecoder, Simd};
use ut_decoding::decoder::emulated::{EmulatedConfig, EmulatedDecoder};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::input::to_mep;
use ut_decoding::{
    Bank, BankVersion, BatchBuilder, BatchReport, BatchView, DecodeOptions, Decoder, DetectorTables, EventBatch,
    EventMeta, Flip, Grouping, Layout, Position, UtHits, synth,
};

use crate::Bytes;

/// Hits of an input are far fewer.
const MAX_HITS: usize = 1 << 20;

/// Events of a batch at most.
const MAX_EVENTS: usize = 4;

/// The decoders that must agree, for one set of options.
struct Decoders {
    tables: DetectorTables,
    all: Vec<(&'static str, Box<dyn Decoder>)>,
}

impl Decoders {
    /// Everything that an input's first two bytes choose. The reference comes first.
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
            for (name, pipeline) in [("emulated", Pipeline::Allen), ("emulated, fused", Pipeline::Fused)] {
                let config = EmulatedConfig { pipeline, ..EmulatedConfig::default() };
                let decoder = EmulatedDecoder::new(&tables, options, config).expect("the defaults are sound");
                all.push((name, Box::new(decoder)));
            }
        } else {
            let levels =
                [("scalar", Simd::Scalar), ("AVX2", Simd::Avx2), ("AVX-512", Simd::Avx512), ("NEON", Simd::Neon)];
            for (name, simd) in levels.into_iter().filter(|(_, simd)| simd.resolve().is_some()) {
                let config = CpuConfig { threads: 1, simd, ..CpuConfig::default() };
                let decoder = CpuDecoder::new(&tables, options, config).expect("the level is there");
                all.push((name, Box::new(decoder)));
            }
        }
        Self { tables, all }
    }

    fn compare(&mut self, batch: BatchView<'_>) {
        let mut expected = None;
        for (name, decoder) in &mut self.all {
            let mut hits =
                UtHits::with_capacity(batch.n_events, self.tables.n_groups(), batch.max_hits().min(MAX_HITS));
            let mut report = BatchReport::new();
            let result = decoder.decode(batch, &mut hits, &mut report).map_err(|error| error.to_string());
            // Fragments that overlap may hold more hits than there is room for: any way may say so.
            let Ok(()) = result else { return };
            let (wanted, wanted_report) = expected.get_or_insert_with(|| (hits.clone(), report.clone()));
            assert_eq!(report.events, wanted_report.events, "{name}: another report");
            assert!(hits == *wanted, "{name}: other hits");
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
    let key = (choice & 0xff, emulated);
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
    for _ in 0..usize::from(choice >> 8 & 3) + 1 {
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
        if builder.push(meta, banks.into_iter()).is_err() {
            break;
        }
    }
    builder.finish(&mut batch);
    compare(choice, emulated, batch.view());
    for mep in to_mep(batch.view()).unwrap_or_default() {
        compare(choice, emulated, mep.view());
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
