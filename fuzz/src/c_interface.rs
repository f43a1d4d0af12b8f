//! Batches as a C program hands them over: what the interface takes must be what the library makes of the same batch.

use std::panic::{set_hook, take_hook};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, OnceLock, PoisonError};

use ut_decoding::{
    BankVersion, BatchView, CpuConfig, CpuDecoder, DecodeOptions, Decoder, DetectorTables, EventReport, Grouping,
    Layout, synth,
};
use ut_decoding_c::{
    UT_N_COUNTS, UT_OK, UtBatch, UtDecoder, UtHits, UtTables, ut_decoder_count, ut_decoder_decode, ut_decoder_max_hits,
    ut_decoder_new, ut_tables_from_memory,
};

use crate::Bytes;

/// Hits that there is room for: an input whose fragments do not overlap has no more.
const MAX_HITS: usize = 1 << 11;

/// Events of a batch at most.
const MAX_EVENTS: usize = 4;

/// A decoder of the interface, and what must give the same.
struct Made(*mut UtDecoder, Mutex<(CpuDecoder, ut_decoding::UtHits, ut_decoding::BatchReport)>);

// SAFETY: the interface takes any pointer to it from any thread, one at a time, and says so itself where that is not kept.
unsafe impl Sync for Made {}
// SAFETY: the interface binds a decoder to no thread: the one that made it may be another than those that use it.
unsafe impl Send for Made {}

fn made(version: BankVersion) -> &'static Made {
    static MADE: [OnceLock<Made>; 2] = [const { OnceLock::new() }; 2];
    MADE[usize::from(version == BankVersion::V4)].get_or_init(|| {
        let (boards, geometry) = synth::detector(version, 1);
        let (board_bytes, geometry_bytes) = (boards.to_bytes(), geometry.to_bytes());
        let hook = take_hook();
        let (mut tables, mut decoder): (*mut UtTables, *mut UtDecoder) = (null_mut(), null_mut());
        // SAFETY: the bytes can be read for their lengths, the place written; the tables are those just made, and the
        // options NULL.
        unsafe {
            let (at, n) = (board_bytes.as_ptr(), board_bytes.len());
            let (of, m) = (geometry_bytes.as_ptr(), geometry_bytes.len());
            assert_eq!(ut_tables_from_memory(at, n, of, m, 0, &raw mut tables), UT_OK);
            assert_eq!(ut_decoder_new(tables, null(), &raw mut decoder), UT_OK);
        }
        // The interface makes panics silent, and errors; here they are what is looked for.
        set_hook(hook);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("a good detector");
        let config = CpuConfig { threads: 1, ..CpuConfig::default() };
        let cpu = CpuDecoder::new(&tables, DecodeOptions::default(), config).expect("the defaults are sound");
        let hits = ut_decoding::UtHits::with_capacity(MAX_EVENTS, tables.n_groups(), MAX_HITS);
        Made(decoder, Mutex::new((cpu, hits, ut_decoding::BatchReport::new())))
    })
}

/// Whatever fields, whatever arrays, of as many words as the fields say or fewer fields.
pub fn batch(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.u16();
    let Made(decoder, same) = made(if choice & 1 == 0 { BankVersion::V5 } else { BankVersion::V4 });
    let [offsets, sizes, types, versions, selected] = std::array::from_fn(|_| bytes.words());
    let (first_event, n_events) = (u32::from(bytes.u8() & 3), u32::from(bytes.u8()) % (MAX_EVENTS as u32 + 1));
    let version = u32::from(bytes.u8());
    let raw = bytes.0;
    let at = |words: &[u32], bit: u32| if choice >> bit & 1 == 0 { words.as_ptr() } else { null() };
    let len = |words: &[u32], bit: u32| if choice >> bit & 1 == 0 { words.len() } else { 0 };
    let c_batch = UtBatch {
        size: if choice >> 8 & 7 == 7 { usize::from(version as u8) } else { size_of::<UtBatch>() },
        layout: u32::from(choice >> 1 & 1) + u32::from(choice >> 11 == 31),
        n_events,
        first_event,
        only_selected: u32::from(choice >> 2 & 1),
        selected: at(&selected, 3),
        n_selected: len(&selected, 3),
        raw: raw.as_ptr(),
        raw_bytes: raw.len(),
        offsets: offsets.as_ptr(),
        n_offsets: offsets.len(),
        sizes: sizes.as_ptr(),
        n_sizes: sizes.len(),
        types: types.as_ptr(),
        n_types: types.len(),
        versions: at(&versions, 4),
        n_versions: len(&versions, 4),
        version: if choice >> 5 & 1 == 0 { 0 } else { version },
        reserved: 0,
    };
    let mut same = same.lock().unwrap_or_else(PoisonError::into_inner);
    let (cpu, expected, expected_report) = &mut *same;
    let n_groups = expected.n_groups();
    let mut floats = vec![0f32; 6 * MAX_HITS];
    let (mut ids, mut c_offsets) = (vec![0u32; MAX_HITS], vec![0u32; n_events as usize * n_groups + 1]);
    let mut report = vec![0u32; n_events as usize * UT_N_COUNTS];
    let [y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight] = {
        let mut arrays = floats.chunks_exact_mut(MAX_HITS).map(<[f32]>::as_mut_ptr);
        std::array::from_fn(|_| arrays.next().expect("there are six"))
    };
    let mut hits = UtHits {
        size: size_of::<UtHits>(),
        max_hits: MAX_HITS,
        y_begin,
        y_end,
        z_at_y_eq0,
        x_at_y_eq0,
        dx_dy,
        weight,
        id: ids.as_mut_ptr(),
        clusters: null_mut(),
        offsets: c_offsets.as_mut_ptr(),
        n_offsets: c_offsets.len(),
        report: if report.is_empty() { null_mut() } else { report.as_mut_ptr() },
        n_report: report.len(),
        n_hits: 0,
    };
    let mut most = 0;
    // SAFETY: the decoder was made by the interface and is never freed. Every pointer is null, or a vector's that lives until
    // the end of this function and has as many words as is said; nothing else uses the arrays of the results.
    let (counted, n_counted, status) = unsafe {
        let _ = ut_decoder_max_hits(*decoder, &raw const c_batch, &raw mut most);
        let counted = ut_decoder_count(*decoder, &raw const c_batch, &raw mut hits);
        let n_counted = hits.n_hits;
        (counted, n_counted, ut_decoder_decode(*decoder, &raw const c_batch, &raw mut hits))
    };
    if status != UT_OK {
        return;
    }
    assert!(counted == UT_OK && n_counted == hits.n_hits && n_counted <= most, "{n_counted} counted, {most} at most");
    let view = BatchView {
        layout: if c_batch.layout == 0 { Layout::Allen } else { Layout::Mep },
        n_events: n_events as usize,
        first_event: first_event as usize,
        selected: (choice & 4 != 0).then_some(if choice & 8 == 0 { &selected[..] } else { &[] }),
        raw,
        offsets: &offsets,
        sizes: &sizes,
        types: &types,
        versions: (choice & 16 == 0).then_some(&versions[..]),
        version: (choice & 32 != 0 && version != 0).then_some(version as u8),
        meta: &[],
    };
    cpu.decode(view, expected, expected_report).expect("the interface took it");
    assert_eq!((&ids[..hits.n_hits], &c_offsets[..]), (expected.id(), expected.offsets()), "other hits");
    let counts: Vec<u32> = expected_report.events.iter().flat_map(|EventReport { counts }| *counts).collect();
    assert_eq!(report, counts, "another report");
}
