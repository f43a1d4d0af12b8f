//! Batches that contradict themselves, one place at a time: where a size, an offset or a byte is off by the least that
//! matters. Random ones are in [`super::backends`]; these are few, and the same each time.

use ut_decoding::decoder::Count;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::{BatchView, DecodeOptions, EventBatch, Layout};

use crate::suite::backends::{backends, compare, decode};
use crate::suite::events::{Bank, Event, allen_batch, mep_batch, tables as detector, v4_payload, v5_payload};

const VERSIONS: [BankVersion; 2] = [BankVersion::V4, BankVersion::V5];
const LAYOUTS: [Layout; 2] = [Layout::Allen, Layout::Mep];

/// Banks of an event.
const N_BANKS: usize = 4;

/// A bank with three hits on each of four lanes, two of them a cluster, so that the last row is half full (v5), or one (v4).
/// Those lanes are connected on all boards: an event without trouble takes the fused kernels' short way.
fn bank(version: BankVersion, board: u16) -> Bank {
    let payload = match version {
        BankVersion::V5 => v5_payload(&std::array::from_fn(|lane| {
            let first = 40 * lane as u16 + board;
            if lane < 4 { vec![(first, 9), (first + 1, 4), (first + 7, 30)] } else { vec![] }
        })),
        BankVersion::V4 => v4_payload(&[0u16, 1, 2, 3].map(|lane| (512 * lane + 17 + board) << 2 | 2)),
    };
    Bank { kind: 66, version: version.byte(), source_id: board, payload }
}

/// Events of these boards, in a batch.
fn batch(version: BankVersion, layout: Layout, n_events: usize, first_board: u16) -> EventBatch {
    let boards = first_board..first_board + N_BANKS as u16;
    let events: Vec<Event> =
        (0..n_events).map(|_| boards.clone().map(|board| bank(version, board)).collect()).collect();
    if layout == Layout::Allen { allen_batch(&events) } else { mep_batch(&events) }
}

/// The entry of a table of halves or bytes: of a bank of an event.
fn entry<T: bytemuck::Pod>(layout: Layout, words: &mut [u32], event: usize, bank: usize) -> &mut T {
    let (row, column) = if layout == Layout::Allen { (event, bank) } else { (bank, event) };
    let at = words[row] as usize + column;
    &mut bytemuck::cast_slice_mut::<u32, T>(words)[at]
}

/// Changes an event for each of `cases`, and compares all backends; the last event stays as it is.
fn check<C: Copy + std::fmt::Debug>(
    version: BankVersion,
    layout: Layout,
    cases: &[C],
    change: impl Fn(&mut EventBatch, usize, C),
) {
    let mut batch = batch(version, layout, cases.len() + 1, 2);
    for (event, &case) in cases.iter().enumerate() {
        change(&mut batch, event, case);
    }
    let compared = compare(&detector(version), DecodeOptions::default(), batch.view());
    compared.unwrap_or_else(|error| panic!("{version:?}, {layout:?}, events with {cases:?}: {error}"));
}

#[test]
fn sizes_that_differ_from_the_fragments_are_taken_as_the_reference_takes_them() {
    let changes = [-60, -4, -2, -1, 1, 2, 4, 5, 20_000i16];
    let cases: Vec<(usize, i16)> = [1, 3].into_iter().flat_map(|bank| changes.map(|by| (bank, by))).collect();
    for version in VERSIONS {
        for layout in LAYOUTS {
            check(version, layout, &cases, |batch, event, (bank, by)| {
                let size = entry::<u16>(layout, &mut batch.sizes, event, bank);
                *size = size.saturating_add_signed(by);
            });
            // At the end of the bytes.
            for by in [1, 4, 5] {
                let mut batch = batch(version, layout, 1, 2);
                *entry::<u16>(layout, &mut batch.sizes, 0, N_BANKS - 1) += by;
                compare(&detector(version), DecodeOptions::default(), batch.view()).unwrap();
            }
        }
    }
}

#[test]
fn fragments_that_are_elsewhere_are_taken_as_the_reference_takes_them() {
    let changes = [1, 2, 4, u32::MAX, u32::MAX - 3, 1 << 31, 1 << 30];
    let cases: Vec<(usize, u32)> = (0..=N_BANKS).flat_map(|word| changes.map(|by| (word, by))).collect();
    for version in VERSIONS {
        check(version, Layout::Allen, &cases, |batch, event, (word, by)| {
            let at = batch.offsets[event] as usize + 4 * (1 + word);
            let bytes = &mut batch.raw[at..at + 4];
            let rel = u32::from_le_bytes(bytes.try_into().expect("four bytes")).wrapping_add(by);
            bytes.copy_from_slice(&rel.to_le_bytes());
        });
        check(version, Layout::Mep, &cases[..changes.len() * N_BANKS], |batch, event, (bank, by)| {
            // sourceIDs first, then the places of each event's fragments.
            let at = 2 + N_BANKS * (1 + event) + bank;
            batch.offsets[at] = batch.offsets[at].wrapping_add(by);
        });
        // The last fragment of all, which ends with the bytes.
        for by in [1, 4, 1 << 31] {
            let mut batch = batch(version, Layout::Allen, 1, 2);
            let at = 4 * (1 + N_BANKS);
            let end = u32::from_le_bytes(batch.raw[at..at + 4].try_into().expect("four bytes")).wrapping_add(by);
            batch.raw[at..at + 4].copy_from_slice(&end.to_le_bytes());
            compare(&detector(version), DecodeOptions::default(), batch.view()).unwrap();
        }
    }
}

#[test]
fn bytes_that_end_early_cost_what_the_reference_says() {
    for version in VERSIONS {
        let tables = detector(version);
        let same = |batch: &EventBatch| compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
        for layout in LAYOUTS {
            for missing in [1, 2, 3, 4, 5, 8, 64] {
                let mut batch = batch(version, layout, 1, 2);
                batch.raw.truncate(batch.raw.len() - missing.min(batch.raw.len()));
                same(&batch);
            }
        }
        // Within the table of the event's banks.
        for kept in (0..4 * (N_BANKS + 4)).step_by(2) {
            let mut batch = batch(version, Layout::Allen, 1, 2);
            batch.raw.truncate(kept);
            same(&batch);
        }
        let counts = [0, 3, 5, 300, u32::MAX, u32::MAX / 4, u32::MAX - 1];
        check(version, Layout::Allen, &counts, |batch, event, n_banks: u32| {
            let at = batch.offsets[event] as usize;
            batch.raw[at..at + 4].copy_from_slice(&n_banks.to_le_bytes());
        });
        check(version, Layout::Allen, &[1, 2, 1 << 30, u32::MAX], |batch, event, further: u32| {
            batch.offsets[event] = batch.offsets[event].wrapping_add(further);
        });
        for n_banks in [0, 3, 5, u32::MAX] {
            let mut batch = batch(version, Layout::Mep, 1, 2);
            batch.offsets[0] = n_banks;
            same(&batch);
        }
    }
}

#[test]
fn a_bank_of_another_kind_version_or_board_costs_only_itself() {
    let bytes = [0u8, 3, 4, 16, 67, 68, 255];
    let cases: Vec<(usize, u8)> = [0, 3].into_iter().flat_map(|bank| bytes.map(|byte| (bank, byte))).collect();
    for version in VERSIONS {
        for layout in LAYOUTS {
            check(version, layout, &cases, |batch, event, (bank, byte)| {
                *entry::<u8>(layout, &mut batch.types, event, bank) = byte;
            });
            check(version, layout, &cases, |batch, event, (bank, byte)| {
                let versions = batch.versions.as_mut().expect("a version of each");
                *entry::<u8>(layout, versions, event, bank) = byte;
            });
        }
        // Of the board of the bank before, of a number that no board has, of no number, of a later one.
        let tables = detector(version);
        for source_id in [4, 2047, 5 << 11, 9] {
            let event: Event = [2, 3, 4, source_id].map(|board| Bank { source_id: board, ..bank(version, 5) }).into();
            let events = [event.clone(), (2..6).map(|board| bank(version, board)).collect()];
            compare(&tables, DecodeOptions::default(), allen_batch(&events).view()).unwrap();
            compare(&tables, DecodeOptions::default(), mep_batch(&[event.clone(), event]).view()).unwrap();
        }
    }
}

#[test]
fn a_decoder_forgets_the_boards_of_the_batch_before() {
    for version in VERSIONS {
        let tables = detector(version);
        for layout in LAYOUTS {
            let batches = [2, 12, 2].map(|first| batch(version, layout, 2, first));
            for (name, make) in backends() {
                let mut decoder = make(&tables, DecodeOptions::default());
                for batch in &batches {
                    let mut reference = ReferenceDecoder::new(&tables, DecodeOptions::default());
                    let expected = decode(&mut reference, &tables, batch.view());
                    assert!(expected.0.len() >= 2 * N_BANKS && !expected.1.has_trouble());
                    assert!(decode(&mut *decoder, &tables, batch.view()) == expected, "{name}");
                }
            }
        }
    }
}

#[test]
fn fragments_that_are_not_aligned_but_have_room_are_decoded_where_they_are() {
    for version in VERSIONS {
        let tables = detector(version);
        for by in 1..4u32 {
            let mut first = bank(version, 2);
            if version == BankVersion::V5 {
                first.payload = v5_payload(&[vec![], vec![(100, 9)], vec![], vec![], vec![], vec![]]);
                first.payload[2..4].fill(0);
            }
            // Three bytes that the fragment has no use for.
            first.payload.resize(first.payload.len().next_multiple_of(4) + 1, 0);
            let mut batch = allen_batch(&[vec![first, bank(version, 3)], vec![bank(version, 4)]]);
            batch.raw[4..8].copy_from_slice(&by.to_le_bytes());
            compare(&tables, DecodeOptions::default(), batch.view()).unwrap();
        }
    }
}

#[test]
fn places_that_would_wrap_lie_beyond_the_batch() {
    let last = [0, 3, 39].map(|less| u32::MAX - less);
    for version in VERSIONS {
        let cases: Vec<(usize, u32)> = (0..=N_BANKS).flat_map(|word| last.map(|place| (word, place))).collect();
        check(version, Layout::Allen, &cases, |batch, event, (word, place)| {
            let at = batch.offsets[event] as usize + 4 * (1 + word);
            batch.raw[at..at + 4].copy_from_slice(&place.to_le_bytes());
        });
        check(version, Layout::Allen, &last, |batch, event, place| batch.offsets[event] = place);
        check(version, Layout::Mep, &last, |batch, event, place| batch.offsets[2 + N_BANKS * (1 + event)] = place);
    }
}

#[test]
fn tables_that_end_early_cost_what_the_reference_says() {
    for version in VERSIONS {
        let tables = detector(version);
        for layout in LAYOUTS {
            let whole = batch(version, layout, 2, 2);
            let parts: [fn(&mut EventBatch) -> &mut Vec<u32>; 4] = [
                |batch| &mut batch.offsets,
                |batch| &mut batch.sizes,
                |batch| &mut batch.types,
                |batch| batch.versions.get_or_insert_default(),
            ];
            for part in parts {
                let len = part(&mut whole.clone()).len();
                for kept in [0, 1, len - 1] {
                    let mut cut = whole.clone();
                    part(&mut cut).truncate(kept);
                    compare(&tables, DecodeOptions::default(), cut.view()).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_row_that_is_missing_is_not_that_of_another_bank() {
    let version = BankVersion::V4;
    let event: Event = (2..15).map(|board| bank(version, board)).collect();
    let mut whole = mep_batch(&[event.clone(), event]);
    whole.raw.extend([0; 16]);
    // Twelve rows for thirteen banks, and all in the words that say where they are: the second event has 21 for each size, or
    // 3 for each version, and what comes first in the table would do for the last bank, too.
    for cut in [
        EventBatch { sizes: vec![21; 12], ..whole.clone() },
        EventBatch { versions: Some(vec![3; 12]), ..whole.clone() },
    ] {
        let second = BatchView { first_event: 1, n_events: 1, ..cut.view() };
        let mut reference = ReferenceDecoder::new(&detector(version), DecodeOptions::default());
        let (hits, report) = decode(&mut reference, &detector(version), second);
        assert_eq!((hits.len(), report.total(Count::BrokenEvent)), (12 * 4, 1));
        compare(&detector(version), DecodeOptions::default(), second).unwrap();
    }
}
