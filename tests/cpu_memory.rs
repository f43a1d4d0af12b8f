//! What memory the CPU decoder takes, counted by the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ut_decoding::decoder::cpu::{CpuConfig, CpuDecoder};
use ut_decoding::detector::BankVersion;
use ut_decoding::input::{Bank, BatchBuilder};
use ut_decoding::{
    BatchReport, DecodeOptions, Decoder, DetectorTables, EventBatch, EventMeta, Grouping, UtHits, input,
};

/// The most that a thread may take.
const LIMIT: usize = 8 << 20;

/// The system's allocator, counting.
struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);
static MOST_BYTES: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        let now = BYTES.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST_BYTES.fetch_max(now, Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Events in which each board sends `payload`, and with `trouble`, one that is not there an empty one.
fn batch(tables: &DetectorTables, payload: &[u8], n_events: usize, trouble: bool) -> EventBatch {
    let version = tables.boards().version.byte();
    let bank = |source_id| Bank { kind: 66, version: Some(version), source_id, payload };
    let mut builder = BatchBuilder::new();
    for _ in 0..n_events {
        let boards = tables.boards().strips_per_hybrid.iter().enumerate().filter(|&(_, &strips)| strips > 0);
        let banks = boards.map(|(board, _)| bank(board as u32)).chain(trouble.then(|| bank(2047)));
        builder.push(EventMeta::default(), banks).expect("there is room");
    }
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    batch
}

/// The payload with the most hits that a bank can have.
fn fullest(version: BankVersion) -> Vec<u8> {
    match version {
        BankVersion::V5 => {
            let mut payload = vec![254, 254, 0, 0, 254, 254, 254, 254];
            for row in 0..127u16 {
                for place in 0..16 {
                    payload.extend(((4 * row + 2 * (place % 2)) << 5 | 31).to_le_bytes());
                }
            }
            payload
        }
        BankVersion::V4 => {
            let words = 3072u16;
            let mut payload = Vec::from(u32::from(words).to_le_bytes());
            payload.extend((0..words).flat_map(|channel| (channel << 2).to_le_bytes()));
            payload
        }
    }
}

// One test alone: the counts are those of the whole process.
#[test]
fn a_thread_takes_no_more_than_it_says_and_nothing_for_the_second_batch() {
    for version in [BankVersion::V5, BankVersion::V4] {
        let (boards, geometry) = ut_decoding::synth::detector(version, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("a good detector");
        let allen = batch(&tables, &fullest(version), 3, true);
        let small = batch(&tables, &[0; 8], 40, false);
        let mep = input::to_mep(small.view()).expect("a good batch");
        let mut hits = UtHits::with_capacity(40, tables.n_groups(), allen.view().max_hits());
        let mut report = BatchReport::new();
        report.reset(40);

        let before = BYTES.load(Relaxed);
        MOST_BYTES.store(before, Relaxed);
        let config = CpuConfig { threads: 1, ..CpuConfig::default() };
        let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default(), config).expect("a decoder");
        for round in 0..2 {
            let allocations = ALLOCATIONS.load(Relaxed);
            for batch in [&allen, &small, &mep[0]] {
                decoder.decode(batch.view(), &mut hits, &mut report).expect("the batch fits");
                assert_eq!(report.has_trouble(), batch.n_events == 3, "{version:?}, {:?}", batch.layout);
            }
            assert!(round == 0 || ALLOCATIONS.load(Relaxed) == allocations, "{version:?}: allocated on the way");
        }
        let most = MOST_BYTES.load(Relaxed) - before;
        eprintln!("{version:?}: {most} bytes");
        assert!(most <= LIMIT, "{version:?}: {most} bytes");
    }
}
