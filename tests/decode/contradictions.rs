//! Batches that contradict themselves, one place at a time: where a size, an offset or a byte is
//! off by the least that matters. Random ones are in [`super::backends`]; these are few, and the
//! same each time.

use ut_decoding::decoder::Count;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::{BatchView, DecodeOptions, EventBatch, Layout};

use crate::suite::backends::{All, compare, decode};
use crate::suite::events::{
    Bank, Event, VERSIONS, allen_batch, mep_batch, tables, v4_payload, v5_payload,
};

const N_BANKS: usize = 4;

/// Makes a bank: for v5 with three hits on each of four lanes, of which two form a cluster, so that
/// the last row is half full; for v4 with one hit. The lanes are connected on all boards, so an
/// event without trouble takes the ranked kernels' short way.
fn bank(version: BankVersion, board: u16) -> Bank {
    let payload = match version {
        BankVersion::V5 => v5_payload(&std::array::from_fn(|lane| {
            let first = 40 * lane as u16 + board;
            if lane < 4 {
                vec![(first, 9), (first + 1, 4), (first + 7, 30)]
            } else {
                vec![]
            }
        })),
        BankVersion::V4 => {
            v4_payload(&[0u16, 1, 2, 3].map(|lane| (512 * lane + 17 + board) << 2 | 2))
        }
    };
    Bank::new(version, board, payload)
}

fn batch(version: BankVersion, layout: Layout, n_events: usize, first_board: u16) -> EventBatch {
    let event: Event = (first_board..first_board + N_BANKS as u16)
        .map(|board| bank(version, board))
        .collect();
    let events = vec![event; n_events];
    if layout == Layout::Allen {
        allen_batch(&events)
    } else {
        mep_batch(&events)
    }
}

/// Returns the entry for a bank of an event in a table of halves or bytes.
fn entry<T: bytemuck::Pod>(layout: Layout, words: &mut [u32], event: usize, bank: usize) -> &mut T {
    let (row, column) = if layout == Layout::Allen {
        (event, bank)
    } else {
        (bank, event)
    };
    let at = words[row] as usize + column;
    &mut bytemuck::cast_slice_mut::<u32, T>(words)[at]
}

fn word(batch: &mut EventBatch, at: usize, change: impl FnOnce(u32) -> u32) {
    let bytes: &mut [u8; 4] = (&mut batch.raw[at..at + 4]).try_into().expect("four bytes");
    *bytes = change(u32::from_le_bytes(*bytes)).to_le_bytes();
}

/// A change by which an event of a batch contradicts itself.
type Change = Box<dyn Fn(&mut EventBatch, usize)>;

/// Changes of sizes, types and versions, and of where banks and events lie.
fn changes(layout: Layout) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    for bank in [1, 3] {
        for by in [-60, -4, -2, -1, 1, 2, 4, 5, 20_000i16] {
            all.push(Box::new(move |batch, event| {
                let size = entry::<u16>(layout, &mut batch.sizes, event, bank);
                *size = size.saturating_add_signed(by);
            }));
        }
    }
    for (bank, byte) in [0, 3]
        .into_iter()
        .flat_map(|bank| [0u8, 3, 4, 16, 67, 68, 255].map(|byte| (bank, byte)))
    {
        all.push(Box::new(move |batch, event| {
            *entry::<u8>(layout, &mut batch.types, event, bank) = byte;
        }));
        all.push(Box::new(move |batch, event| {
            *entry::<u8>(
                layout,
                batch.versions.as_mut().expect("a version of each"),
                event,
                bank,
            ) = byte;
        }));
    }
    let by = [1, 2, 4, u32::MAX, u32::MAX - 3, 1 << 31, 1 << 30];
    // Places that would wrap lie beyond the batch.
    let last = [0, 3, 39].map(|less| u32::MAX - less);
    for bank in 0..=N_BANKS {
        for (add, value) in by
            .map(|by| (true, by))
            .into_iter()
            .chain(last.map(|place| (false, place)))
        {
            let change = move |old: u32| if add { old.wrapping_add(value) } else { value };
            match layout {
                Layout::Allen => all.push(Box::new(move |batch, event| {
                    let at = batch.offsets[event] as usize;
                    word(batch, at + 4 * (1 + bank), change);
                })),
                // sourceIDs first, then the places of each event's fragments.
                Layout::Mep if bank < N_BANKS => all.push(Box::new(move |batch, event| {
                    let at = &mut batch.offsets[2 + N_BANKS * (1 + event) + bank];
                    *at = change(*at);
                })),
                Layout::Mep => {}
            }
        }
    }
    if layout == Layout::Allen {
        for n_banks in [0, 3, 5, 300, u32::MAX, u32::MAX / 4, u32::MAX - 1] {
            all.push(Box::new(move |batch, event| {
                let at = batch.offsets[event] as usize;
                word(batch, at, |_| n_banks);
            }));
        }
        for further in [1, 2, 1 << 30, u32::MAX] {
            all.push(Box::new(move |batch, event| {
                batch.offsets[event] = batch.offsets[event].wrapping_add(further);
            }));
        }
        all.extend(last.map(|place| {
            Box::new(move |b: &mut EventBatch, e: usize| b.offsets[e] = place) as Change
        }));
    }
    all
}

#[test]
fn events_with_one_wrong_word_or_byte_are_decoded_as_the_reference_does() {
    for version in VERSIONS {
        for layout in [Layout::Allen, Layout::Mep] {
            let changes = changes(layout);
            // The last event stays as it is.
            let mut batch = batch(version, layout, changes.len() + 1, 2);
            changes
                .iter()
                .enumerate()
                .for_each(|(event, change)| change(&mut batch, event));
            let compared = compare(&tables(version), DecodeOptions::default(), batch.view());
            compared.unwrap_or_else(|error| panic!("{version:?}, {layout:?}: {error}"));
        }
    }
}

#[test]
fn bytes_and_tables_that_end_early_or_late_are_decoded_as_the_reference_does() {
    for version in VERSIONS {
        let tables = tables(version);
        let mut all = All::new(&tables, DecodeOptions::default());
        for layout in [Layout::Allen, Layout::Mep] {
            let mut same = |n_events: usize, what: &str, change: &dyn Fn(&mut EventBatch)| {
                let mut batch = batch(version, layout, n_events, 2);
                change(&mut batch);
                let compared = all.compare(batch.view());
                compared.unwrap_or_else(|error| panic!("{version:?}, {layout:?}, {what}: {error}"));
            };
            for missing in [1, 2, 3, 4, 5, 8, 64] {
                same(1, "bytes", &|batch| {
                    batch.raw.truncate(batch.raw.len().saturating_sub(missing));
                });
            }
            for by in [1, 4, 5] {
                same(1, "last size", &|batch| {
                    *entry::<u16>(layout, &mut batch.sizes, 0, N_BANKS - 1) += by;
                });
            }
            let parts: [fn(&mut EventBatch) -> &mut Vec<u32>; 4] = [
                |batch| &mut batch.offsets,
                |batch| &mut batch.sizes,
                |batch| &mut batch.types,
                |batch| batch.versions.get_or_insert_default(),
            ];
            for (part, less) in parts
                .into_iter()
                .flat_map(|part| [usize::MAX, 2, 1].map(|less| (part, less)))
            {
                same(2, "tables", &|batch| {
                    let len = part(batch).len();
                    part(batch).truncate(len.saturating_sub(less));
                });
            }
            if layout == Layout::Allen {
                // Within the table of the event's banks, and the end of the last fragment.
                for kept in (0..4 * (N_BANKS + 4)).step_by(2) {
                    same(1, "table of banks", &|batch| batch.raw.truncate(kept));
                }
                for by in [1, 4, 1 << 31] {
                    same(1, "end", &|batch| {
                        word(batch, 4 * (1 + N_BANKS), |end| end.wrapping_add(by));
                    });
                }
            } else {
                for n_banks in [0, 3, 5, u32::MAX] {
                    same(1, "number of banks", &|batch| batch.offsets[0] = n_banks);
                }
            }
        }
    }
}

#[test]
fn a_missing_row_is_not_read_from_another_bank() {
    let (version, tables) = (BankVersion::V4, tables(BankVersion::V4));
    let event: Event = (2..15).map(|board| bank(version, board)).collect();
    let mut whole = mep_batch(&[event.clone(), event]);
    whole.raw.extend([0; 16]);
    // Twelve rows for thirteen banks, and all in the words that say where they are: the second
    // event has 21 for each size, or 3 for each version, and what comes first in the table would do
    // for the last bank, too.
    for cut in [
        EventBatch {
            sizes: vec![21; 12],
            ..whole.clone()
        },
        EventBatch {
            versions: Some(vec![3; 12]),
            ..whole.clone()
        },
    ] {
        let second = BatchView {
            first_event: 1,
            n_events: 1,
            ..cut.view()
        };
        let (hits, report) = decode(
            &mut ReferenceDecoder::new(&tables, DecodeOptions::default()),
            &tables,
            second,
        );
        assert_eq!((hits.len(), report.total(Count::BrokenEvent)), (12 * 4, 1));
        compare(&tables, DecodeOptions::default(), second).unwrap();
    }
}
