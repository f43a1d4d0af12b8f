//! Memory of the CPU decoder, counted by the allocator.

use ut_decoding::decoder::cpu::CpuDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::{
    BatchReport, BatchView, DecodeOptions, Decoder, DetectorTables, EventBatch, EventReport,
    UtHits, input,
};

use crate::suite::allocations::{ALLOCATIONS, BYTES, Counting, MOST_BYTES};
use crate::suite::events::{Bank, Event, VERSIONS, allen_batch, tables, v4_payload, v5_payload};

/// Maximum number of bytes that a decoder may take.
const LIMIT: isize = 4 << 20;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Makes events in which each board sends `payload`, and with `trouble`, a board that does not
/// exist sends an empty bank.
fn batch(tables: &DetectorTables, payload: &[u8], n_events: usize, trouble: bool) -> EventBatch {
    let bank =
        |board: u16, payload: &[u8]| Bank::new(tables.boards().version, board, payload.to_vec());
    let boards = tables
        .boards()
        .strips_per_hybrid
        .iter()
        .zip(0..)
        .filter(|&(&strips, _)| strips > 0);
    let banks = boards
        .map(|(_, board)| bank(board, payload))
        .chain(trouble.then(|| bank(2047, &[])));
    let event: Event = banks.collect();
    allen_batch(&vec![event; n_events])
}

/// Returns the payload with the maximum number of hits.
fn fullest(version: BankVersion) -> Vec<u8> {
    match version {
        BankVersion::V5 => v5_payload(&std::array::from_fn(|_| {
            (0..254).map(|i| (2 * i, 31)).collect()
        })),
        BankVersion::V4 => v4_payload(&(0..3072).map(|channel| channel << 2).collect::<Vec<_>>()),
    }
}

#[test]
fn a_decoder_allocates_at_most_what_it_states_and_nothing_for_the_second_batch() {
    for version in VERSIONS {
        let tables = tables(version);
        let allen = batch(&tables, &fullest(version), 3, true);
        let small = batch(&tables, &[0; 8], 40, false);
        let mep = input::to_mep(small.view()).expect("a good batch");
        let mut hits = UtHits::with_capacity(40, tables.n_groups(), allen.view().max_hits());
        let mut report = BatchReport::new();
        report.reset(40);

        let before = BYTES.get();
        MOST_BYTES.set(before);
        let mut decoder = CpuDecoder::new(&tables, DecodeOptions::default());
        let mut own = (
            vec![0; 40 * tables.n_groups() + 1],
            vec![EventReport::default(); 40],
        );
        for round in 0..2 {
            let allocations = ALLOCATIONS.get();
            for batch in [&allen, &small, &mep[0]] {
                decoder
                    .decode(batch.view(), &mut hits, &mut report)
                    .expect("the batch fits");
                assert_eq!(
                    report.has_trouble(),
                    batch.n_events == 3,
                    "{version:?}, {:?}",
                    batch.layout
                );
                // Into memory of the caller, and some of the events.
                let some = BatchView {
                    selected: Some(&[2, 0]),
                    ..batch.view()
                };
                let n = decoder
                    .count(some, &mut own.0, &mut own.1)
                    .expect("places for all events");
                let mut out = hits
                    .begin(batch.n_events, tables.n_groups())
                    .expect("places for all events");
                assert_eq!(
                    decoder
                        .decode_into(some, &mut out, &mut own.1)
                        .expect("the batch fits"),
                    n
                );
            }
            assert!(
                round == 0 || ALLOCATIONS.get() == allocations,
                "{version:?}: allocated on the way"
            );
        }
        let most = MOST_BYTES.get() - before;
        assert!(
            (1 << 10..=LIMIT).contains(&most),
            "{version:?}: {most} bytes"
        );
    }
}
