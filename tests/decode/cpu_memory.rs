//! Memory of the CPU decoder, counted by the allocator.

use ut_decoding::decoder::cpu::{CpuConfig, CpuDecoder};
use ut_decoding::detector::BankVersion;
use ut_decoding::input::{Bank, BatchBuilder};
use ut_decoding::{
    BatchReport, BatchView, DecodeOptions, Decoder, DetectorTables, EventBatch, EventMeta, EventReport, Grouping,
    UtHits, input,
};

use crate::suite::allocations::{ALLOCATIONS, BYTES, Counting, MOST_BYTES};

/// The most that a thread may take.
const LIMIT: isize = 8 << 20;

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

        let before = BYTES.get();
        MOST_BYTES.set(before);
        let config = CpuConfig { threads: 1, ..CpuConfig::default() };
        let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default(), config).expect("a decoder");
        let mut own = (vec![0; 40 * tables.n_groups() + 1], vec![EventReport::default(); 40]);
        for round in 0..2 {
            let allocations = ALLOCATIONS.get();
            for batch in [&allen, &small, &mep[0]] {
                decoder.decode(batch.view(), &mut hits, &mut report).expect("the batch fits");
                assert_eq!(report.has_trouble(), batch.n_events == 3, "{version:?}, {:?}", batch.layout);
                // Into memory of the caller, and some of the events.
                let some = BatchView { selected: Some(&[2, 0]), ..batch.view() };
                let n = decoder.count(some, &mut own.0, &mut own.1).expect("places for all events");
                assert!(n <= decoder.max_hits(some).expect("a good list"));
                let mut out = hits.begin(batch.n_events, tables.n_groups()).expect("places for all events");
                assert_eq!(decoder.decode_into(some, &mut out, &mut own.1).expect("the batch fits"), n);
            }
            assert!(round == 0 || ALLOCATIONS.get() == allocations, "{version:?}: allocated on the way");
        }
        let most = MOST_BYTES.get() - before;
        eprintln!("{version:?}: {most} bytes");
        // The decoder of one thread works in the thread that calls it.
        assert!((1 << 10..=LIMIT).contains(&most), "{version:?}: {most} bytes");
    }
}
