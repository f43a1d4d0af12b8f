//! Files into batches: what is read, what is refused, and what a damaged event costs.

use std::io::Cursor;
use std::path::PathBuf;

use proptest::prelude::*;
use ut_decoding::input::{
    Bank, BatchBuilder, BatchView, BuildError, Damage, EventBatch, EventHeader, EventMeta, Events, InputError,
    InputPart, Layout, MdfWriter, MepWriter, banks_of, checksum, to_allen, to_mep, write_allen_dump,
};

use super::reading::{bank, file, mdf, ut};
use crate::suite::data::needed;
use crate::suite::events::{self as suite, Event, borrowed};

const HEADERS: usize = 48;

fn event(header: &EventHeader, banks: &[Bank<'_>]) -> Vec<u8> {
    let mut writer = MdfWriter::new(Vec::new());
    writer.write(header, banks.iter().copied()).unwrap();
    writer.finish().unwrap()
}

/// An event of three UT banks whose checksum is not checked, so that a test can damage the rest.
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

/// Banks and damage of the first event, and whether the second follows unharmed.
fn first_of_two(first: &[u8]) -> (usize, Option<Damage>) {
    let second = unchecked_event();
    let mut reader = reader(&[first, &second].concat());
    let (banks, damage) = {
        let event = reader.next_event().unwrap().unwrap();
        (event.entries.len(), event.damage.cloned())
    };
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!((event.index, event.offset, event.entries.len()), (1, first.len() as u64, 3));
    assert!(event.damage.is_none());
    assert!(reader.next_event().unwrap().is_none());
    (banks, damage)
}

/// Events before the error of a file, or of bytes whose number is unknown.
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
    assert!(reader.next_event().unwrap().is_none(), "nothing follows an error");
    (events, error)
}

#[test]
fn run_and_event_number_come_from_odin_before_the_sub_header() {
    let mut odin6 = [0u8; 40];
    odin6[0..4].copy_from_slice(&11u32.to_le_bytes());
    odin6[12..16].copy_from_slice(&2u32.to_le_bytes());
    odin6[16..20].copy_from_slice(&3u32.to_le_bytes());
    let odin = |version, payload| Bank { kind: 16, version: Some(version), source_id: 0, payload };
    let numbers = |header: EventHeader, banks: &[Bank<'_>]| {
        let mut reader = reader(&event(&header, banks));
        let event = reader.next_event().unwrap().unwrap();
        (event.run, event.number)
    };
    let header = EventHeader { run: 5, ..EventHeader::default() };
    assert_eq!(numbers(header, &[]), (Some(5), None));
    assert_eq!(numbers(header, &[odin(6, &odin6)]), (Some(11), Some(2 << 32 | 3)));
    assert_eq!(numbers(header, &[odin(6, &odin6[..16])]), (Some(5), None), "an ODIN bank too short for the number");
    assert_eq!(numbers(header, &[odin(5, &odin6)]), (Some(5), None), "an unknown ODIN version");
    let number = 1 << 40 | 9;
    assert_eq!(numbers(EventHeader { number: Some(number), ..header }, &[]), (Some(5), Some(number)));
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
        assert_eq!(event.banks().next().unwrap().payload, payload, "{words} words");
        assert_eq!(event.run, (words >= 5).then_some(5));
        assert_eq!(event.trigger_mask.is_some(), words >= 4);
    }
}

#[test]
fn checksum_takes_bytes_as_signed() {
    // By hand: h = -1; h += h << 10 -> 0xfffffbff; h ^= h >> 6 -> 0xfc000010; then the three closing steps.
    let mut h = 0xffff_ffffu32.wrapping_add(0xffff_ffffu32 << 10);
    h ^= h >> 6;
    h = h.wrapping_add(h << 3);
    h ^= h >> 11;
    h = h.wrapping_add(h << 15);
    assert_eq!(checksum(&[0xff]), h);
    assert_eq!(checksum(&[]), 0);
}

#[test]
fn a_wrong_checksum_costs_the_event_and_no_other() {
    let mut bytes = mdf(7, &[ut(1, &[1; 24])]);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let (banks, damage) = first_of_two(&bytes);
    assert_eq!(banks, 0);
    assert!(matches!(damage, Some(Damage::Checksum { .. })));
}

#[test]
fn a_damaged_bank_costs_the_rest_of_the_event() {
    let good = unchecked_event();
    let second = HEADERS + 32;
    let third = second + 40;
    assert_eq!(first_of_two(&good), (3, None));

    let mut bytes = good.clone();
    bytes[second] = 0xca;
    assert_eq!(first_of_two(&bytes), (1, Some(Damage::Magic { bank: 1, byte: second, magic: 0xcbca })));

    let mut bytes = good.clone();
    bytes[second + 2..second + 4].copy_from_slice(&7u16.to_le_bytes());
    assert_eq!(first_of_two(&bytes), (1, Some(Damage::BankTooSmall { bank: 1, byte: second, size: 7 })));

    for (size, whole) in [(16u16, true), (17, false), (u16::MAX, false)] {
        let mut bytes = good.clone();
        bytes[third + 2..third + 4].copy_from_slice(&size.to_le_bytes());
        let damage = Damage::BankBeyond { bank: 2, byte: third, needed: u64::from(size), left: 16 };
        assert_eq!(first_of_two(&bytes), if whole { (3, None) } else { (2, Some(damage)) }, "{size}");
    }
}

#[test]
fn bytes_behind_the_last_bank_that_are_no_bank_are_damage() {
    let mut bytes = unchecked_event();
    bytes.extend([0; 4]);
    set_size(&mut bytes);
    assert!(matches!(first_of_two(&bytes), (3, Some(Damage::BankBeyond { bank: 3, left: 4, .. }))));
}

type Check = fn(&InputError) -> bool;

#[test]
fn a_container_that_cannot_be_followed_is_an_error_and_what_came_before_is_kept() {
    let good = unchecked_event();
    let with = |at: usize, new: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        [&good[..], &bytes].concat()
    };
    let size_word = |size: u32| with(0, &[size.to_le_bytes(); 3].concat());
    let cases: Vec<(&str, Vec<u8>, Check)> = vec![
        ("unequal", with(4, &[1]), |e| matches!(e, InputError::UnequalSizes { .. })),
        ("unequal, the third", with(8, &[1]), |e| matches!(e, InputError::UnequalSizes { .. })),
        ("zero", size_word(0), |e| matches!(e, InputError::TooSmall { size: 0, .. })),
        ("below the header", size_word(19), |e| matches!(e, InputError::TooSmall { size: 19, .. })),
        ("below the sub-header", size_word(47), |e| matches!(e, InputError::TooSmall { size: 47, headers: 48, .. })),
        ("huge", size_word(u32::MAX), |e| matches!(e, InputError::BeyondFile { size: u32::MAX, .. })),
        ("data type", with(18, &[3]), |e| matches!(e, InputError::DataType { data_type: 3, .. })),
    ];
    for (name, bytes, check) in cases {
        for is_stream in [false, true] {
            let (events, error) = error_of(&bytes, is_stream);
            assert_eq!(events, 1, "{name}");
            assert!(check(&error), "{name}: {error}");
            let place = format!("test.mdf: event 1 at byte {}", good.len());
            assert!(error.to_string().starts_with(&place), "{name}: {error}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_gives_the_whole_events_and_an_error() {
    let good = unchecked_event();
    let two = [&good[..], &good].concat();
    for cut in good.len() + 1..two.len() {
        for is_stream in [false, true] {
            let (events, error) = error_of(&two[..cut], is_stream);
            assert_eq!(events, 1, "cut at {cut}");
            assert!(matches!(error, InputError::CutHeader { .. } | InputError::BeyondFile { .. }), "{error}");
            if let InputError::BeyondFile { left, .. } = error {
                assert_eq!(left as usize, cut - good.len());
            }
        }
    }
}

#[test]
fn what_does_not_fit_mdf_is_not_written() {
    let mut out = Vec::new();
    let mut writer = MdfWriter::new(&mut out);
    let long = vec![0; 65528];
    assert!(writer.write(&EventHeader::default(), [ut(0, &long)]).is_err());
    assert!(writer.write(&EventHeader::default(), [ut(0x1_0000, &[])]).is_err());
    assert!(writer.write(&EventHeader::default(), [Bank { version: None, ..ut(0, &[]) }]).is_err());
    writer.write(&EventHeader::default(), [ut(0xffff, &long[..65527])]).unwrap();
    writer.finish().unwrap();
    let mut reader = reader(&out);
    assert_eq!(reader.next_event().unwrap().unwrap().entries[0].length, 65527);
    assert!(reader.next_event().unwrap().is_none());
}

/// Banks and damage of the event of a dump.
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
    let banks: Vec<_> = event.banks().map(|b| (b.kind, b.version, b.source_id, b.payload.to_vec())).collect();
    assert_eq!(banks, [(66, None, 70000, vec![1, 2, 3, 4]), (66, None, 2, vec![])]);
    assert!(event.damage.is_none());
    assert!(reader.next_event().unwrap().is_none());
}

#[test]
fn a_dump_whose_table_does_not_fit_is_an_error() {
    for words in [&[][..], &[0], &[1, 0], &[u32::MAX, 0], &[2, 0, 4]] {
        assert!(matches!(dump(words), Err(InputError::DumpTable { .. } | InputError::DumpBanks { .. })), "{words:?}");
    }
    assert_eq!(dump(&[0, 0]).unwrap(), (0, None));
    assert!(matches!(dump(&[1 << 17, 0]), Err(InputError::DumpBanks { banks: 131072, .. })));
    assert!(matches!(dump(&[0, 0, 0]), Err(InputError::DumpTrailing { end: 8, .. })));
    assert!(matches!(dump(&[1, 0, 8, 1, 2, 3]), Err(InputError::DumpTrailing { end: 20, .. })));
}

#[test]
fn a_dump_with_a_bank_that_is_not_there_is_broken_from_there() {
    let cases: [(&[u32], usize, Damage); 4] = [
        (&[2, 0, 8, 16, 1, 9, 2], 1, Damage::BankBeyond { bank: 1, byte: 24, needed: 8, left: 4 }),
        (&[2, 0, 8, 4, 1, 9, 2], 1, Damage::Entry { bank: 1, byte: 24, length: -4 }),
        (&[1, 0, 3, 1], 0, Damage::Entry { bank: 0, byte: 12, length: 3 }),
        (&[1, 0xffff_fff0, 0xffff_fffc, 1], 0, Damage::BankBeyond { bank: 0, byte: 0xffff_fffc, needed: 12, left: 0 }),
    ];
    for (words, banks, damage) in cases {
        assert_eq!(dump(words).unwrap(), (banks, Some(damage)));
    }
}

#[test]
fn the_builder_keeps_ut_banks_and_splits_before_it_mixes_versions() {
    let mut builder = BatchBuilder::new();
    let banks = [ut(1, &[1; 5]), bank(16, 4, 9, &[]), bank(69, 4, 2, &[2; 3])];
    builder.push(EventMeta { other_banks: 1, ..EventMeta::default() }, banks).unwrap();
    assert!(builder.agrees([ut(1, &[])]));
    assert!(!builder.agrees([Bank { version: None, ..ut(1, &[]) }]));
    assert!(builder.agrees([Bank { version: None, ..bank(16, 4, 1, &[]) }]), "only UT banks matter");
    let long = vec![0; 65536];
    let error = builder.push(EventMeta::default(), [ut(1, &[]), ut(1, &long)]);
    assert_eq!(error, Err(BuildError::Payload { bank: 1, bytes: 65536 }));
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

#[test]
fn batches_end_at_their_limits_and_at_a_change_of_format_and_before_an_error() {
    let good = unchecked_event();
    let mut dumped = Vec::new();
    write_allen_dump(&mut dumped, [ut(1, &[0; 24])]).unwrap();
    let broken = [&good[..], &good[..20]].concat();
    let (_folders, mut files): (Vec<_>, Vec<_>) =
        [file("a.mdf", &good.repeat(3)), file("1_2.bin", &dumped), file("b.raw", &broken)].into_iter().unzip();
    let batches = |files: &[PathBuf], max_events| {
        let (mut events, mut counts) = (Events::new(files), Vec::new());
        let error = loop {
            match events.next_batch(max_events) {
                Ok(Some((batch, origins, max_hits))) => {
                    assert_eq!((batch.n_events, max_hits <= batch.max_hits()), (origins.len(), true));
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
    assert!(matches!(error, Some(InputError::BeyondFile { .. })), "{error:?}");
    files.pop();
    assert!(matches!(batches(&files, 100), (counts, None) if counts == [3, 1]));
    files.push(files[0].with_file_name("absent.mdf"));
    assert!(matches!(batches(&files, 100), (_, Some(InputError::Open { .. }))));
}

#[test]
fn events_and_batches_can_be_taken_in_turn_and_a_stream_once() {
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
        assert_eq!(event.banks().filter(|bank| bank.kind == 66 && bank.version == Some(3)).count(), 180);
        // The dump of the same event has the same banks, their payloads cut to multiples of 4.
        let dump = needed(&format!("minibrunel/allen-layout/6718861_{}.bin", 6001 + n));
        let mut dump = Events::new([dump]);
        let dumped = dump.next_event().unwrap().unwrap();
        assert_eq!((dumped.run, dumped.number, dumped.damage), (event.run, event.number, None));
        let ut = event.banks().filter(|bank| bank.kind == 66);
        assert!(ut.map(|bank| bank.source_id).eq(dumped.banks().map(|bank| bank.source_id)));
        n += 1;
    }
    assert_eq!(n, 10);
    let mut reader = Events::new([needed("v5/ut_v5_minbias_20events.mdf")]);
    let mut n = 0;
    while let Some(event) = reader.next_event().unwrap() {
        assert_eq!((event.damage, event.entries.len(), event.run, event.number), (None, 216, Some(1), None));
        n += 1;
    }
    assert_eq!(n, 20);
}

fn any_event(n_banks: std::ops::Range<usize>) -> impl Strategy<Value = Event> {
    let kind = prop_oneof![Just(66u8), Just(68), Just(67), Just(16), Just(92)];
    let payload = proptest::collection::vec(any::<u8>(), 0..40);
    // Few sourceIDs, so that neighbouring events often have the same sequence.
    let bank = (kind, any::<u8>(), 5u16 << 11..(5 << 11) + 2, payload);
    let bank = bank.prop_map(|(kind, version, source_id, payload)| suite::Bank { kind, version, source_id, payload });
    proptest::collection::vec(bank, n_banks)
}

fn batch_of(events: &[Event]) -> EventBatch {
    let mut builder = BatchBuilder::new();
    for (i, banks) in events.iter().enumerate() {
        let meta = EventMeta { run: Some(1), event: Some(i as u64), broken: i % 5 == 4, ..EventMeta::default() };
        builder.push(meta, borrowed(banks)).unwrap();
    }
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    batch
}

#[test]
fn a_copy_in_another_layout_is_of_the_interval_with_the_version_of_all_banks() {
    let event = |tag: u8| vec![suite::Bank { kind: 68, version: 3, source_id: 7, payload: vec![tag; 5] }];
    let batch = batch_of(&[event(1), event(2), event(3), event(4)]);
    let interval = BatchView { first_event: 1, n_events: 2, versions: None, version: Some(3), ..batch.view() };
    let expected = EventBatch { meta: batch.meta[1..3].to_vec(), ..batch_of(&[event(2), event(3)]) };
    let mut meps = to_mep(interval).unwrap();
    assert_eq!(meps.len(), 1);
    assert_eq!(to_allen(meps.remove(0).view()).unwrap(), expected);
    assert_eq!(to_allen(interval).unwrap(), expected);
    // No event is there.
    let beyond = BatchView { first_event: usize::MAX, ..interval };
    assert!(to_allen(beyond).unwrap().meta.iter().all(|meta| meta.broken));
    // A list of events has no place in the copy.
    let listed = BatchView { selected: Some(&[0]), ..batch.view() };
    assert_eq!([to_allen(listed).err(), to_mep(listed).err()], [const { Some(BuildError::Selected) }; 2]);
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
    fn no_change_of_bytes_makes_the_packet_reader_panic_or_read_what_is_not_there(
        events in proptest::collection::vec(any_event(1..4), 1..6),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = mep_of(&events, 3);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let stream = InputPart::stream("a.mep", Cursor::new(bytes.clone()));
        for mut reader in [packets(&bytes), Events::new([stream])] {
            while let Ok(Some(event)) = reader.next_event() {
                prop_assert!(event.banks().count() == event.entries.len());
            }
        }
    }

    #[test]
    fn no_bytes_make_the_readers_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
        size in any::<bool>(),
        block in proptest::option::of(prop::sample::select(vec![b"ZL\x08", b"ZS\x01", b"L4\x01", b"CS\x01"])),
        words in proptest::collection::vec(0u32..40, 0..40),
    ) {
        if size && bytes.len() >= 20 {
            (bytes[16], bytes[18]) = (block.is_some().into(), 1);
            if let Some(algorithm) = block {
                // A compressed body of one block, which is to become 32 bytes.
                bytes = [&bytes[..20], &[0; 28], algorithm, b"\x10\0\0\x20\0\0", &bytes[20..]].concat();
                bytes[17] = 0x37;
            }
            set_size(&mut bytes);
        }
        let mut reader = reader(&bytes);
        while let Ok(Some(event)) = reader.next_event() {
            prop_assert!(event.banks().count() == event.entries.len());
        }
        let _ = dump(&words);
    }

    #[test]
    fn mep_and_back_is_the_identity(events in proptest::collection::vec(any_event(0..4), 0..12)) {
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
