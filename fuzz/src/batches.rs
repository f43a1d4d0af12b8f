//! Batches with any content in their arrays: all decoders must agree on them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ptr::{null, null_mut};

use ut_decoding::decoder::emulated::{EmulatedConfig, EmulatedDecoder};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::decoder::{Parameters, Pipeline, cpu::Simd};
use ut_decoding::{
    BankVersion, BatchReport, BatchView, CpuDecoder, DecodeOptions, Decoder, DetectorTables, Flip,
    Grouping, Layout, Position, UtHits, synth,
};
use ut_decoding_c::{
    UT_HIT_BYTES, UT_INTERNAL, UT_OK, UtBatch, UtDecoder, ut_decoder_count, ut_decoder_decode,
    ut_decoder_new, ut_hits_in, ut_tables_from_memory,
};

use crate::Bytes;

/// Capacity for hits. An input whose fragments do not overlap has fewer.
const MAX_HITS: usize = 1 << 13;

const MAX_EVENTS: usize = 4;

/// Bits of an input's first word that select tables, options and pipeline.
const CHOICES: u16 = 0x10ff;

/// Decoder with the memory that it decodes into, which keeps the results of the batch before.
type Made = (Box<dyn Decoder>, UtHits, BatchReport);

fn tables(choice: u16) -> DetectorTables {
    let version = if choice & 1 == 0 {
        BankVersion::V5
    } else {
        BankVersion::V4
    };
    let (boards, geometry) = synth::detector(version, 1);
    let grouping = if choice & 2 == 0 {
        Grouping::YRows
    } else {
        Grouping::UniqueX
    };
    DetectorTables::new(boards, geometry, grouping).expect("the synthetic detector is sound")
}

/// Makes the decoders that must agree; the reference comes first.
fn decoders(choice: u16) -> Vec<Made> {
    let tables = tables(choice);
    let most = NonZeroU32::new([128, 1, 2, 4][usize::from(choice >> 4 & 3)]).expect("none is 0");
    let options = DecodeOptions::default()
        .with_clustering(choice & 4 == 0)
        .with_position(if choice & 8 == 0 {
            Position::Adc
        } else {
            Position::Geometric
        })
        .with_max_cluster_size(most)
        .with_save_above_max(choice & 64 != 0)
        .with_flip(if choice & 128 == 0 {
            Flip::From512
        } else {
            Flip::From511
        });
    let mut all: Vec<Box<dyn Decoder>> = vec![Box::new(ReferenceDecoder::new(&tables, options))];
    for simd in [Simd::Scalar, Simd::Avx2, Simd::Avx512]
        .into_iter()
        .filter(|of| of.resolve().is_some())
    {
        all.push(Box::new(
            CpuDecoder::with_simd(&tables, options, simd).expect("the CPU has this level"),
        ));
    }
    // Blocks are small, since the executor's time grows with the number of threads.
    let mut parameters = Parameters::default();
    for name in [
        "count.block_x",
        "scan.block_x",
        "compress.block_x",
        "sort.block_x",
        "decode.block_x",
    ] {
        parameters.set(name, 32).expect("a warp");
    }
    parameters.set("ranked.sort_block_x", 32).expect("a warp");
    let pipeline = if choice & 1 << 12 == 0 {
        Pipeline::Allen
    } else {
        Pipeline::Ranked
    };
    let config = EmulatedConfig::of(&parameters.with_pipeline(pipeline));
    all.push(Box::new(
        EmulatedDecoder::new(&tables, options, config).expect("these parameters are sound"),
    ));
    let hits = || UtHits::with_capacity(MAX_EVENTS, tables.n_groups(), MAX_HITS);
    all.into_iter()
        .map(|decoder| (decoder, hits(), BatchReport::new()))
        .collect()
}

/// Decodes a batch with the reference, with the CPU at each vector level and, one time in eight,
/// with the device's kernels.
pub fn decode(data: &[u8]) {
    thread_local!(static MADE: RefCell<HashMap<u16, Vec<Made>>> = RefCell::default());
    let mut bytes = Bytes(data);
    let choice = bytes.u16();
    let [offsets, sizes, types, versions] = std::array::from_fn(|_| bytes.words());
    let batch = BatchView {
        layout: if choice & 1 << 10 == 0 {
            Layout::Allen
        } else {
            Layout::Mep
        },
        n_events: usize::from(choice >> 8 & 3) + 1,
        raw: bytes.0,
        offsets: &offsets,
        sizes: &sizes,
        types: &types,
        versions: (choice & 1 << 11 != 0).then_some(&versions),
        checked: true,
        ..BatchView::default()
    };
    MADE.with_borrow_mut(|made| {
        // Each set of decoders takes tens of megabytes, so that only 16 are kept.
        if made.len() == 16 && !made.contains_key(&(choice & CHOICES)) {
            made.clear();
        }
        let decoders = made
            .entry(choice & CHOICES)
            .or_insert_with(|| decoders(choice));
        // The executor, which is last, takes a hundred times as long as the others: three bits
        // decide.
        let n = decoders.len() - usize::from(choice >> 13 != 0);
        let decode = |(of, hits, report): &mut Made| of.decode(batch, hits, report);
        let results: Vec<_> = decoders[..n].iter_mut().map(decode).collect();
        let (_, hits, report) = &decoders[0];
        for ((decoder, others, of_other), result) in decoders.iter().zip(&results) {
            let name = decoder.name();
            assert_eq!(
                result.is_ok(),
                results[0].is_ok(),
                "{name}: {result:?}, not {:?}",
                results[0]
            );
            assert!(
                result.is_err() || of_other.events == report.events,
                "{name}: another report"
            );
            assert!(result.is_err() || others == hits, "{name}: other hits");
        }
    });
}

/// Makes a decoder of the C interface, which is never freed, and one of the library with the same
/// tables.
fn of_both(choice: u16) -> (*mut UtDecoder, CpuDecoder, UtHits) {
    let tables = tables(choice & 1);
    let (boards, geometry) = (tables.boards().to_bytes(), tables.geometry().to_bytes());
    let (mut c_tables, mut decoder) = (null_mut(), null_mut());
    let hook = std::panic::take_hook();
    // SAFETY: the bytes can be read for their lengths; the results go to variables of this
    // function; options may be NULL.
    unsafe {
        let (b, g) = (boards.as_ptr(), geometry.as_ptr());
        assert_eq!(
            ut_tables_from_memory(b, boards.len(), g, geometry.len(), 0, &raw mut c_tables),
            UT_OK
        );
        assert_eq!(ut_decoder_new(c_tables, null(), &raw mut decoder), UT_OK);
    }
    // The interface silences panics, but a fuzzer must see them.
    std::panic::set_hook(hook);
    let cpu = CpuDecoder::new(&tables, DecodeOptions::default());
    (
        decoder,
        cpu,
        UtHits::with_capacity(MAX_EVENTS, tables.n_groups(), MAX_HITS),
    )
}

/// Counts and decodes a batch by the C interface. Returns the ids of the hits and the ends of the
/// groups, or nothing if the batch is refused.
///
/// # Safety
/// - The decoder was made by the interface, and was not freed.
/// - Every pointer of the batch is null, or points to as many elements as the batch says.
unsafe fn decode_in_c(
    decoder: *mut UtDecoder,
    batch: &UtBatch,
    n_ends: usize,
) -> Option<(Vec<u32>, Vec<u32>)> {
    let mut memory = vec![0_u32; UT_HIT_BYTES / 4 * MAX_HITS];
    let mut ends = vec![0; n_ends];
    // SAFETY: numbers and pointers, which may be null.
    let mut hits: ut_decoding_c::UtHits = unsafe { std::mem::zeroed() };
    hits.size = size_of::<ut_decoding_c::UtHits>();
    (hits.offsets, hits.n_offsets) = (ends.as_mut_ptr(), ends.len());
    // SAFETY: as the caller says, and `memory` and `ends` live until the calls return.
    let (counted, n_counted, status) = unsafe {
        let laid_out = ut_hits_in(
            memory.as_mut_ptr().cast(),
            4 * memory.len(),
            MAX_HITS,
            &raw mut hits,
        );
        assert_eq!(laid_out, UT_OK);
        let counted = ut_decoder_count(decoder, batch, &raw mut hits);
        let n_counted = hits.n_hits;
        let status = ut_decoder_decode(decoder, batch, &raw mut hits);
        (counted, n_counted, status)
    };
    assert!(status != UT_INTERNAL, "the interface caught a panic");
    if status != UT_OK {
        return None;
    }
    assert!(
        counted == UT_OK && n_counted == hits.n_hits,
        "{n_counted} counted"
    );
    Some((memory[6 * MAX_HITS..][..hits.n_hits].to_vec(), ends))
}

/// Decodes a batch as a C program does. If the interface accepts it, the result must be the
/// library's.
pub fn c_batch(data: &[u8]) {
    thread_local!(static MADE: RefCell<HashMap<u16, (*mut UtDecoder, CpuDecoder, UtHits)>> = RefCell::default());
    let mut bytes = Bytes(data);
    let choice = bytes.u16();
    let bit = |n: u16| choice >> n & 1 == 1;
    let [offsets, sizes, types, versions, selected] = std::array::from_fn(|_| bytes.words());
    let (first_event, n_events) = (
        usize::from(bytes.u8() & 3),
        usize::from(bytes.u8()) % (MAX_EVENTS + 1),
    );
    let (byte, raw) = (bytes.u8(), bytes.0);
    let version = if bit(5) { byte } else { 0 };
    // Now and then 2, which the interface refuses.
    let layout = u32::from(bit(1)) + u32::from(choice >> 11 == 31);
    let or_null = |words: &[u32], null_one: bool| {
        if null_one {
            (null(), 0)
        } else {
            (words.as_ptr(), words.len())
        }
    };
    let ((of_versions, n_versions), (of_selected, n_selected)) =
        (or_null(&versions, bit(4)), or_null(&selected, bit(3)));
    let batch = UtBatch {
        size: if choice >> 8 & 7 == 7 {
            usize::from(byte)
        } else {
            size_of::<UtBatch>()
        },
        layout,
        n_events: n_events as u32,
        first_event: first_event as u32,
        only_selected: bit(2).into(),
        selected: of_selected,
        n_selected,
        raw: raw.as_ptr(),
        raw_bytes: raw.len(),
        offsets: offsets.as_ptr(),
        n_offsets: offsets.len(),
        sizes: sizes.as_ptr(),
        n_sizes: sizes.len(),
        types: types.as_ptr(),
        n_types: types.len(),
        versions: of_versions,
        n_versions,
        version: version.into(),
        reserved: 0,
    };
    MADE.with_borrow_mut(|made| {
        let (decoder, cpu, expected) = made.entry(choice & 1).or_insert_with(|| of_both(choice));
        let n_ends = n_events * expected.n_groups() + 1;
        // SAFETY: the decoder was made by the interface and is never freed; every pointer of the
        // batch is null, or points to a vector of the given length, which lives until the end.
        let Some((ids, ends)) = (unsafe { decode_in_c(*decoder, &batch, n_ends) }) else {
            return;
        };
        let view = BatchView {
            layout: if layout == 1 {
                Layout::Mep
            } else {
                Layout::Allen
            },
            n_events,
            first_event,
            selected: bit(2).then_some(if bit(3) { &[] } else { &selected }),
            raw,
            offsets: &offsets,
            sizes: &sizes,
            types: &types,
            versions: (!bit(4)).then_some(&versions),
            version: (version != 0).then_some(version),
            ..BatchView::default()
        };
        cpu.decode(view, expected, &mut BatchReport::new())
            .expect("the interface took it");
        assert_eq!(
            (&ids[..], &ends[..]),
            (expected.id(), expected.offsets()),
            "other hits"
        );
    });
}
