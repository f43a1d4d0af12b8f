//! Files read into batches: valid and invalid files, and the events lost to damage.

use std::io::{self, Cursor, Read};
use std::path::PathBuf;

use proptest::prelude::*;
use ut_decoding::input::{
    Bank, BatchBuilder, BatchView, BuildError, Damage, EventBatch, EventHeader, EventMeta, Events,
    InputError, InputPart, Layout, MdfWriter, MepWriter, banks_of, checksum, to_allen, to_mep,
    write_allen_dump,
};

use super::reading::{bank, file, mdf, ut};
use crate::suite::data::needed;
use crate::suite::events::{self as suite, Event, borrowed};

const HEADERS: usize = 48;

/// Makes an event of three UT banks whose checksum is not checked, so that a test can damage the
/// rest.
fn unchecked_event() -> Vec<u8> {
    let banks = [ut(1, &[1; 24]), ut(2, &[2; 30]), ut(3, &[3; 8])];
    let mut bytes = mdf(7, &banks);
    bytes[12..16].fill(0);
    bytes
}

/// Has the header of an event say that all bytes are its own, and have no checksum.
fn set_size(bytes: &mut [u8]) {
    let size = (bytes.len() as u32).to_le_bytes();
    bytes[..16].copy_from_slice(&[size, size, size, [0; 4]].concat());
}

fn reader(bytes: &[u8]) -> Events {
    Events::new([InputPart::memory("test.mdf", bytes.to_vec())])
}

fn packets(bytes: &[u8]) -> Events {
    Events::new([InputPart::memory("a.mep", bytes.to_vec())])
}

fn mep_of(events: &[Event], max_events: usize) -> Vec<u8> {
    let mut writer = MepWriter::new(Vec::new(), max_events);
    for (banks, number) in events.iter().zip(100..) {
        writer.write(number, borrowed(banks)).unwrap();
    }
    writer.finish().unwrap()
}

/// Returns the number of banks and the damage of the first event, after checking that the second
/// event is unharmed.
fn first_of_two(first: &[u8]) -> (usize, Option<Damage>) {
    let second = unchecked_event();
    let mut reader = reader(&[first, &second].concat());
    let (banks, damage) = {
        let event = reader.next_event().unwrap().unwrap();
        (event.entries.len(), event.damage.cloned())
    };
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!(
        (event.index, event.offset, event.entries.len()),
        (1, first.len() as u64, 3)
    );
    assert!(event.damage.is_none());
    assert!(reader.next_event().unwrap().is_none());
    (banks, damage)
}

/// Returns the number of events before the error in a file, or in a stream of unknown length, and
/// the error.
fn error_of(bytes: &[u8], is_stream: bool) -> (usize, InputError) {
    let stream = || Events::new([InputPart::stream("test.mdf", Cursor::new(bytes.to_vec()))]);
    let mut reader = if is_stream { stream() } else { reader(bytes) };
    let mut events = 0;
    let error = loop {
        match reader.next_event() {
            Ok(Some(_)) => events += 1,
            Ok(None) => panic!("no error"),
            Err(error) => break error,
        }
    };
    assert!(
        reader.next_event().unwrap().is_none(),
        "nothing follows an error"
    );
    (events, error)
}

#[test]
fn a_sub_header_of_another_length_is_followed() {
    let payload = [9u8; 24];
    let long = mdf(5, &[ut(1, &payload)]);
    for words in [0usize, 3, 4, 5, 15] {
        let mut bytes = long[..20].to_vec();
        let mut sub = long[20..48].to_vec();
        sub.resize(4 * words, 0);
        bytes.extend(&sub[..4 * words]);
        bytes.extend(&long[48..]);
        set_size(&mut bytes);
        bytes[17] = 0x30 | words as u8;
        let mut reader = reader(&bytes);
        let event = reader.next_event().unwrap().unwrap();
        assert_eq!(
            event.banks().next().unwrap().payload,
            payload,
            "{words} words"
        );
        assert_eq!(event.run, (words >= 5).then_some(5));
        assert_eq!(event.trigger_mask.is_some(), words >= 4);
    }
}

/// Catches a checksum that adds bytes as unsigned numbers. The two differ from 0x80 on: 0xff takes
/// one away instead of adding 255. Text and small numbers would never show it.
#[test]
fn checksum_takes_bytes_as_signed() {
    // By hand: h = -1; h += h << 10 -> 0xfffffbff; h ^= h >> 6 -> 0xfc000010; then the three
    // closing steps.
    let mut h = 0xffff_ffffu32.wrapping_add(0xffff_ffffu32 << 10);
    h ^= h >> 6;
    h = h.wrapping_add(h << 3);
    h ^= h >> 11;
    h = h.wrapping_add(h << 15);
    assert_eq!(checksum(&[0xff]), h);
    assert_eq!(checksum(&[]), 0);
}

/// Damages magic numbers and sizes one at a time. The event has 48 bytes of headers and banks of
/// 32, 38 (padded to 40) and 16 bytes with their headers; so the second begins at byte 80, the
/// third at 120, and the event ends at 136. A size of 17 for the third is one byte beyond that.
#[test]
fn a_damaged_bank_costs_the_rest_of_the_event() {
    let good = unchecked_event();
    let second = HEADERS + 32;
    let third = second + 40;
    assert_eq!(first_of_two(&good), (3, None));
    for (at, word, bank, what) in [
        (second, 0xcbca, 1, "begins with 0xcbca instead of 0xcbcb"),
        (second + 2, 7, 1, "has a size of 7 bytes"),
        (third + 2, 17, 2, "needs 17 bytes, the event has 16"),
        (
            third + 2,
            u16::MAX,
            2,
            "needs 65535 bytes, the event has 16",
        ),
    ] {
        let mut bytes = good.clone();
        bytes[at..at + 2].copy_from_slice(&word.to_le_bytes());
        let (banks, damage) = first_of_two(&bytes);
        let Damage {
            byte, what: found, ..
        } = damage.unwrap();
        assert_eq!((banks, byte), (bank, Some((at & !3) as u64)));
        assert!(
            found.starts_with(&format!("bank {bank} at byte ")) && found.contains(what),
            "{found}"
        );
    }
    let mut bytes = good;
    bytes.extend([0; 4]);
    set_size(&mut bytes);
    assert!(matches!(
        first_of_two(&bytes),
        (3, Some(Damage { bank: Some(3), .. }))
    ));
}

#[test]
fn a_damaged_container_is_an_error_and_the_events_before_it_are_kept() {
    let good = unchecked_event();
    let with = |at: usize, new: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        [&good[..], &bytes].concat()
    };
    let size_word = |size: u32| with(0, &[size.to_le_bytes(); 3].concat());
    for (what, bytes) in [
        ("size words differ", with(4, &[1])),
        ("size words differ", with(8, &[1])),
        ("size of 0 bytes is less", size_word(0)),
        ("size of 19 bytes is less", size_word(19)),
        ("size of 47 bytes is less than the 48 bytes", size_word(47)),
        (
            "size of 4294967295 bytes reaches beyond the file",
            size_word(u32::MAX),
        ),
        ("data type 3", with(18, &[3])),
    ] {
        for is_stream in [false, true] {
            let (events, error) = error_of(&bytes, is_stream);
            let message = error.to_string();
            let place = format!("test.mdf: event 1 at byte {}: ", good.len());
            assert!(
                events == 1 && message.starts_with(&place) && message.contains(what),
                "{what}: {message}"
            );
        }
    }
}

/// Cuts the second event after each of its bytes. Within the first 12 the three size words are not
/// there yet, and the message says how many of these bytes were found; from then on it says how
/// many bytes are left. A stream of unknown length must say the same as a file whose length is
/// known.
#[test]
fn a_file_cut_anywhere_gives_the_whole_events_and_an_error() {
    let good = unchecked_event();
    let two = [&good[..], &good].concat();
    for cut in good.len() + 1..two.len() {
        for is_stream in [false, true] {
            let (events, error) = error_of(&two[..cut], is_stream);
            assert_eq!(events, 1, "cut at {cut}");
            let left = format!("has {} bytes from there: truncated?", cut - good.len());
            let cut_header = format!("ends after {} of the 12 bytes", cut - good.len());
            let message = error.to_string();
            assert!(
                message.contains(&left) || message.contains(&cut_header),
                "{message}"
            );
        }
    }
}

#[test]
fn events_that_do_not_fit_mdf_are_not_written() {
    let mut out = Vec::new();
    let mut writer = MdfWriter::new(&mut out);
    let long = vec![0; 65528];
    assert!(
        writer
            .write(&EventHeader::default(), [ut(0, &long)])
            .is_err()
    );
    assert!(
        writer
            .write(&EventHeader::default(), [ut(0x1_0000, &[])])
            .is_err()
    );
    assert!(
        writer
            .write(
                &EventHeader::default(),
                [Bank {
                    version: None,
                    ..ut(0, &[])
                }]
            )
            .is_err()
    );
    writer
        .write(&EventHeader::default(), [ut(0xffff, &long[..65527])])
        .unwrap();
    writer.finish().unwrap();
    let mut reader = reader(&out);
    assert_eq!(
        reader.next_event().unwrap().unwrap().entries[0].length,
        65527
    );
    assert!(reader.next_event().unwrap().is_none());
}

/// Returns the number of banks and the damage of the event of a dump.
fn dump(words: &[u32]) -> Result<(usize, Option<Damage>), InputError> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut events = Events::new([InputPart::memory("6_31.bin", bytes)]);
    let event = events.next_event()?.expect("one event");
    assert_eq!(event.banks().count(), event.entries.len());
    Ok((event.entries.len(), event.damage.cloned()))
}

#[test]
fn a_dump_gives_back_what_was_written() {
    let mut bytes = Vec::new();
    write_allen_dump(&mut bytes, [ut(70000, &[1, 2, 3, 4]), bank(68, 4, 2, &[])]).unwrap();
    let mut reader = Events::new([InputPart::memory("dir/6718861_6001.bin", bytes)]);
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!((event.run, event.number), (Some(6718861), Some(6001)));
    let banks: Vec<_> = event
        .banks()
        .map(|b| (b.kind, b.version, b.source_id, b.payload.to_vec()))
        .collect();
    assert_eq!(
        banks,
        [(66, None, 70000, vec![1, 2, 3, 4]), (66, None, 2, vec![])]
    );
    assert!(event.damage.is_none());
    assert!(reader.next_event().unwrap().is_none());
}

#[test]
fn a_dump_whose_table_does_not_fit_is_an_error() {
    for words in [&[][..], &[0], &[1, 0], &[u32::MAX, 0], &[2, 0, 4]] {
        assert!(
            matches!(dump(words), Err(InputError::NotTaken { .. })),
            "{words:?}"
        );
    }
    assert_eq!(dump(&[0, 0]).unwrap(), (0, None));
    for (words, what) in [
        (&[1 << 17, 0][..], "announces 131072 banks"),
        (&[0, 0, 0], "ends at byte 8, the file goes on"),
        (&[1, 0, 8, 1, 2, 3], "ends at byte 20, the file goes on"),
    ] {
        assert!(
            dump(words).unwrap_err().to_string().contains(what),
            "{words:?}"
        );
    }
}

#[test]
fn a_dump_that_cannot_be_read_to_its_end_is_an_error_at_its_beginning() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk"))
        }
    }
    let mut bytes = Vec::new();
    write_allen_dump(&mut bytes, [ut(1, &vec![7; 60_000])]).unwrap();
    for n in [bytes.len() / 2, bytes.len() - 1] {
        let input = Cursor::new(bytes[..n].to_vec()).chain(Broken);
        let mut events = Events::new([InputPart::stream("6_31.bin", input)]);
        let error = events.next_event().unwrap_err();
        assert!(matches!(error, InputError::Read { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            "6_31.bin: event 0 at byte 0: cannot read"
        );
    }
}

/// Reads dumps given as words: the number of banks, one more offset than banks, counted from the
/// end of this table, and then the banks. In the first, `2, 0, 8, 16` is a table of 16 bytes for
/// two banks of 8 bytes. The second bank begins at byte 16 + 8 = 24, where only one word is left.
/// In the second, offsets fall; in the fourth, they are so large that the end of the bank, counted
/// from the beginning of the file, needs more than 32 bits.
#[test]
fn a_dump_is_broken_from_a_missing_bank_onwards() {
    for (words, bank, byte, what) in [
        (
            &[2, 0, 8, 16, 1, 9, 2][..],
            1,
            24,
            "needs 8 bytes, the event has 4",
        ),
        (&[2, 0, 8, 4, 1, 9, 2], 1, 24, "has -4 bytes"),
        (&[1, 0, 3, 1], 0, 12, "has 3 bytes"),
        (
            &[1, 0xffff_fff0, 0xffff_fffc, 1],
            0,
            0xffff_fffc,
            "needs 12 bytes, the event has 0",
        ),
    ] {
        let (banks, damage) = dump(words).unwrap();
        let damage = damage.unwrap();
        assert_eq!(
            (banks, damage.bank, damage.byte),
            (bank, Some(bank), Some(byte))
        );
        assert!(damage.what.contains(what), "{damage}");
    }
}

#[test]
fn the_builder_keeps_ut_banks_and_splits_before_it_mixes_versions() {
    let mut builder = BatchBuilder::new();
    let banks = [ut(1, &[1; 5]), bank(16, 4, 9, &[]), bank(69, 4, 2, &[2; 3])];
    builder
        .push(
            EventMeta {
                other_banks: 1,
                ..EventMeta::default()
            },
            banks,
        )
        .unwrap();
    assert!(builder.agrees([ut(1, &[])]));
    assert!(!builder.agrees([Bank {
        version: None,
        ..ut(1, &[])
    }]));
    assert!(
        builder.agrees([Bank {
            version: None,
            ..bank(16, 4, 1, &[])
        }]),
        "only UT banks matter"
    );
    let long = vec![0; 65536];
    let error = builder.push(EventMeta::default(), [ut(1, &[]), ut(1, &long)]);
    assert_eq!(
        error,
        Err(BuildError::Payload {
            bank: 1,
            bytes: 65536
        })
    );
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    assert_eq!((batch.n_events, batch.layout), (1, Layout::Allen));
    let mut found = Vec::new();
    assert!(banks_of(batch.view(), 0, &mut found));
    assert_eq!(found, [banks[0], banks[2]]);
    builder.finish(&mut batch);
    assert_eq!(batch.n_events, 0);
    assert!(batch.raw.is_empty() && batch.offsets.is_empty() && batch.meta.is_empty());
}

/// Expects batches of 2, 1, 1 and 1 events: a limit of two parts the three events of `a.mdf`; the
/// dump stands alone, as its bank has no version; and the good event of `b.raw` is delivered before
/// the error of the cut event behind it, rather than lost with it.
#[test]
fn batches_end_at_their_limits_and_at_a_change_of_format_and_before_an_error() {
    let good = unchecked_event();
    let mut dumped = Vec::new();
    write_allen_dump(&mut dumped, [ut(1, &[0; 24])]).unwrap();
    let broken = [&good[..], &good[..20]].concat();
    let (_folders, mut files): (Vec<_>, Vec<_>) = [
        file("a.mdf", &good.repeat(3)),
        file("1_2.bin", &dumped),
        file("b.raw", &broken),
    ]
    .into_iter()
    .unzip();
    let batches = |files: &[PathBuf], max_events| {
        let (mut events, mut counts) = (Events::new(files), Vec::new());
        let error = loop {
            match events.next_batch(max_events) {
                Ok(Some((batch, origins, max_hits))) => {
                    assert_eq!(
                        (batch.n_events, max_hits <= batch.max_hits()),
                        (origins.len(), true)
                    );
                    counts.push(batch.n_events);
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        assert!(events.next_batch(max_events).unwrap().is_none());
        assert_eq!(events.seen().events as usize, counts.iter().sum::<usize>());
        (counts, error)
    };
    let (counts, error) = batches(&files, 2);
    assert_eq!(counts, [2, 1, 1, 1]);
    assert!(matches!(error, Some(InputError::Bad { .. })), "{error:?}");
    files.pop();
    assert!(matches!(batches(&files, 100), (counts, None) if counts == [3, 1]));
    files.push(files[0].with_file_name("absent.mdf"));
    assert!(matches!(
        batches(&files, 100),
        (_, Some(InputError::Open { .. }))
    ));
}

#[test]
fn events_and_batches_can_be_read_in_turn_and_a_stream_once() {
    let bytes: Vec<u8> = (0..7).flat_map(|run| mdf(run, &[])).collect();
    let stream = InputPart::stream("test.mdf", Cursor::new(bytes));
    let mut events = Events::new([stream.clone()]);
    let mut runs = vec![events.next_event().unwrap().unwrap().run];
    let (batch, ..) = events.next_batch(3).unwrap().unwrap();
    runs.extend((0..batch.n_events).map(|e| batch.meta_of(e).run));
    while let Some(event) = events.next_event().unwrap() {
        runs.push(event.run);
    }
    assert_eq!(runs, [0, 1, 2, 3, 4, 5, 6].map(Some));
    let error = Events::new([stream]).next_event().unwrap_err();
    assert!(matches!(error, InputError::Open { .. }), "{error}");
}

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_files_are_read_whole() {
    let mut reader = Events::new([needed("minibrunel/MiniBrunel_2018_minbias_10events.mdf")]);
    let mut n = 0;
    while let Some(event) = reader.next_event().unwrap() {
        assert!(event.damage.is_none());
        assert_eq!((event.run, event.number), (Some(6718861), Some(6001 + n)));
        assert_eq!(
            event
                .banks()
                .filter(|bank| bank.kind == 66 && bank.version == Some(3))
                .count(),
            180
        );
        // The dump of the same event has the same banks, their payloads cut to multiples of 4.
        let dump = needed(&format!("minibrunel/allen-layout/6718861_{}.bin", 6001 + n));
        let mut dump = Events::new([dump]);
        let dumped = dump.next_event().unwrap().unwrap();
        assert_eq!(
            (dumped.run, dumped.number, dumped.damage),
            (event.run, event.number, None)
        );
        let ut = event.banks().filter(|bank| bank.kind == 66);
        assert!(
            ut.map(|bank| bank.source_id)
                .eq(dumped.banks().map(|bank| bank.source_id))
        );
        n += 1;
    }
    assert_eq!(n, 10);
    let mut reader = Events::new([needed("v5/ut_v5_minbias_20events.mdf")]);
    let mut n = 0;
    while let Some(event) = reader.next_event().unwrap() {
        assert_eq!(
            (event.damage, event.entries.len(), event.run, event.number),
            (None, 216, Some(1), None)
        );
        n += 1;
    }
    assert_eq!(n, 20);
}

fn any_event(n_banks: std::ops::Range<usize>) -> impl Strategy<Value = Event> {
    let kind = prop_oneof![Just(66u8), Just(68), Just(67), Just(16), Just(92)];
    let payload = proptest::collection::vec(any::<u8>(), 0..40);
    // Few sourceIDs, so that neighbouring events often have the same sequence.
    let bank = (kind, any::<u8>(), 5u16 << 11..(5 << 11) + 2, payload);
    let bank = bank.prop_map(|(kind, version, source_id, payload)| suite::Bank {
        kind,
        version,
        source_id,
        payload,
    });
    proptest::collection::vec(bank, n_banks)
}

fn batch_of(events: &[Event]) -> EventBatch {
    let mut builder = BatchBuilder::new();
    for (i, banks) in events.iter().enumerate() {
        let meta = EventMeta {
            run: Some(1),
            event: Some(i as u64),
            broken: i % 5 == 4,
            ..EventMeta::default()
        };
        builder.push(meta, borrowed(banks)).unwrap();
    }
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    batch
}

#[test]
fn a_copy_in_another_layout_keeps_interval_and_version() {
    let event = |tag: u8| {
        vec![suite::Bank {
            kind: 68,
            version: 3,
            source_id: 7,
            payload: vec![tag; 5],
        }]
    };
    let batch = batch_of(&[event(1), event(2), event(3), event(4)]);
    let interval = BatchView {
        first_event: 1,
        n_events: 2,
        versions: None,
        version: Some(3),
        ..batch.view()
    };
    let expected = EventBatch {
        meta: batch.meta[1..3].to_vec(),
        ..batch_of(&[event(2), event(3)])
    };
    let mut meps = to_mep(interval).unwrap();
    assert_eq!(meps.len(), 1);
    assert_eq!(to_allen(meps.remove(0).view()).unwrap(), expected);
    assert_eq!(to_allen(interval).unwrap(), expected);
    // No event is there.
    let beyond = BatchView {
        first_event: usize::MAX,
        ..interval
    };
    assert!(
        to_allen(beyond)
            .unwrap()
            .meta
            .iter()
            .all(|meta| meta.broken)
    );
    // A list of events has no place in the copy.
    let listed = BatchView {
        selected: Some(&[0]),
        ..batch.view()
    };
    assert_eq!(
        [to_allen(listed).err(), to_mep(listed).err()],
        [const { Some(BuildError::Selected) }; 2]
    );
}

proptest! {
    #[test]
    fn mdf_gives_back_what_was_written(
        events in proptest::collection::vec((any_event(0..4), any::<u32>(), any::<[u32; 4]>()), 0..5),
    ) {
        let mut writer = MdfWriter::new(Vec::new());
        for (banks, run, trigger_mask) in &events {
            let header = EventHeader { run: *run, trigger_mask: *trigger_mask, number: None };
            writer.write(&header, borrowed(banks)).unwrap();
        }
        let mut reader = reader(&writer.finish().unwrap());
        for (banks, _, trigger_mask) in &events {
            let event = reader.next_event().unwrap().unwrap();
            prop_assert!(event.damage.is_none());
            prop_assert_eq!(event.trigger_mask, Some(*trigger_mask));
            prop_assert!(event.banks().eq(borrowed(banks)));
        }
        prop_assert!(reader.next_event().unwrap().is_none());
    }

    #[test]
    fn packets_give_back_what_was_written(
        events in proptest::collection::vec(any_event(1..4), 0..12),
        max_events in 1usize..5,
    ) {
        let mut reader = packets(&mep_of(&events, max_events));
        for banks in &events {
            let event = reader.next_event().unwrap().unwrap();
            prop_assert!(event.damage.is_none());
            prop_assert!(event.banks().eq(borrowed(banks)));
        }
        prop_assert!(reader.next_event().unwrap().is_none());
    }

    #[test]
    fn converting_to_mep_and_back_changes_nothing(events in proptest::collection::vec(any_event(0..4), 0..12)) {
        let batch = batch_of(&events);
        let meps = to_mep(batch.view()).unwrap();
        let mut joined = BatchBuilder::new();
        for (i, mep) in meps.iter().enumerate() {
            prop_assert_eq!(mep.layout, Layout::Mep);
            prop_assert_eq!(mep.meta.len(), mep.n_events);
            let n_banks = mep.offsets[0] as usize;
            prop_assert_eq!(mep.offsets.len(), 2 + n_banks * (1 + mep.n_events));
            if i > 0 {
                let ids = |mep: &EventBatch| mep.offsets[2..2 + mep.offsets[0] as usize].to_vec();
                prop_assert_ne!(ids(mep), ids(&meps[i - 1]), "split where nothing differs");
            }
            let allen = to_allen(mep.view()).unwrap();
            let mut banks = Vec::new();
            for e in 0..allen.n_events {
                prop_assert!(banks_of(allen.view(), e, &mut banks));
                joined.push(allen.meta[e], banks.iter().copied()).unwrap();
            }
        }
        let mut back = EventBatch::default();
        joined.finish(&mut back);
        prop_assert_eq!(back, batch);
    }

    #[test]
    fn a_damaged_batch_is_transposed_up_to_the_damage(
        events in proptest::collection::vec(any_event(0..4), 1..6),
        damage in proptest::collection::vec((0usize..5, any::<prop::sample::Index>(), any::<u32>()), 1..4),
    ) {
        let mut batch = batch_of(&events);
        for (array, index, value) in damage {
            match array {
                0 if !batch.raw.is_empty() => { let i = index.index(batch.raw.len()); batch.raw[i] = value as u8; }
                1 => { let i = index.index(batch.offsets.len()); batch.offsets[i] = value % 4096; }
                2 => { let i = index.index(batch.sizes.len()); batch.sizes[i] = value; }
                3 => { let i = index.index(batch.types.len()); batch.types[i] = value; }
                _ => { let n = index.index(batch.raw.len() + 1); batch.raw.truncate(n); }
            }
        }
        let mut from = Vec::new();
        let mut e = 0;
        for mep in to_mep(batch.view()).unwrap() {
            let mut to = Vec::new();
            for i in 0..mep.n_events {
                let whole = banks_of(batch.view(), e, &mut from);
                prop_assert!(banks_of(mep.view(), i, &mut to));
                prop_assert_eq!(&from, &to);
                prop_assert_eq!(mep.meta[i].broken, !whole || batch.meta[e].broken);
                e += 1;
            }
        }
        prop_assert_eq!(e, batch.n_events);
    }
}
