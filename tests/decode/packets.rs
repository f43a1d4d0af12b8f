//! Large packets of files, which are read a slice of their events at a time: the same as packets
//! that are read whole.

use std::fs::OpenOptions;
use std::io::Write as _;

use ut_decoding::EventMeta;
use ut_decoding::input::{Chunks, Events, InputPart, MepWriter, Select};

use super::reading::{How, Read, bank, file, mdf, odin, packet_of, read_all, ut};

const N: usize = 700;

/// Makes a packet of [`N`] events, 6 MB, from ODIN, three UT sources with payloads of 0 to 4000
/// bytes, and a source of another detector. Every third event belongs to another run.
fn packet() -> Vec<u8> {
    let mut writer = MepWriter::new(Vec::new(), N);
    for e in 0..N {
        let odin = odin((e % 3 == 2).into(), 1000 + e as u64);
        let payload = |i: usize| vec![(e + i) as u8; (e * 7919 + i * 613) % 4001];
        let payloads = [payload(1), payload(2), payload(3), payload(4)];
        let ut = |i: usize, kind| bank(kind, 4, 0x2800 + i as u32, &payloads[i]);
        let banks = [
            bank(9, 2, 0x1000, &payloads[3]),
            bank(16, 7, 0, &odin),
            ut(0, 66),
            ut(1, if e % 5 == 0 { 68 } else { 66 }),
            ut(2, if e % 2 == 0 { 67 } else { 66 }),
        ];
        writer.write(e as u64, banks).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn slices_of_a_packet_hold_what_the_whole_packet_holds() {
    let bytes = packet();
    let (_folder, path) = file("large.mep", &bytes);
    let some = "0,3,250-330,699".parse().unwrap();
    for (batch, select, by_file, expected) in [
        (64, Select::default(), false, N),
        (7, Select::default(), true, N),
        (1000, Select::default(), false, N),
        (64, Select::default().places(&some), false, 84),
        (64, Select::default().number(Some(1400)), false, 1),
        (64, Select::default().run(Some(1)), false, N / 3),
    ] {
        let how = How {
            select,
            by_file,
            ..How::default()
        };
        let whole = read_all(InputPart::memory(&path, bytes.clone()), batch, &how);
        assert_eq!(whole.events().len(), expected);
        for look in [false, true] {
            let sliced = read_all(
                &path,
                batch,
                &How {
                    look,
                    ..how.clone()
                },
            );
            let same = (&sliced.batches, sliced.seen()) == (&whole.batches, whole.seen());
            assert!(
                same && sliced.copied == 0,
                "batch {batch}, {how:?}, look {look}"
            );
        }
    }
}

/// Returns where the MFP of each source of [`packet`] begins, with its sourceID.
fn sources(packet: &[u8]) -> Vec<(usize, u32)> {
    let half = |at: usize| u16::from_le_bytes([packet[at], packet[at + 1]]);
    let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
    let n = usize::from(half(2));
    (0..n)
        .map(|i| {
            (
                4 * word(8 + 2 * n.next_multiple_of(2) + 4 * i) as usize,
                half(8 + 2 * i).into(),
            )
        })
        .collect()
}

#[test]
fn one_wrong_header_costs_one_source() {
    let good = packet();
    let (_folder, path) = file("wrong.mep", &[]);
    let whole = read_all(InputPart::memory(&path, good.clone()), 64, &How::default()).events();
    for (begin, source_id) in sources(&good) {
        // ODIN gives run and number.
        let numbers = |meta: &EventMeta| (source_id != 0).then_some((meta.run, meta.event));
        // The magic number, fewer events, more, far fewer, another first event, another sourceID.
        for (byte, value) in [(0, 0), (2, 0xbb), (2, 0xbd), (3, 0), (8, 1), (16, 0xff)] {
            let mut bytes = good.clone();
            bytes[begin + byte] = value;
            std::fs::write(&path, &bytes).unwrap();
            let expected = whole.iter().map(|(origin, meta, banks)| {
                let others = banks
                    .iter()
                    .filter(|bank| bank.0 != source_id)
                    .cloned()
                    .collect::<Vec<_>>();
                (*origin, numbers(meta), others)
            });
            let expected: Vec<_> = expected.collect();
            for part in [InputPart::memory(&path, bytes), InputPart::file(&path)] {
                let read = read_all(part, 64, &How::default());
                let found = read
                    .events()
                    .into_iter()
                    .map(|(origin, meta, banks)| (origin, numbers(&meta), banks));
                assert!(
                    found.eq(expected.iter().cloned()),
                    "byte {byte} of source 0x{source_id:04x}"
                );
                let seen = read.seen();
                assert!(
                    seen.contains(&format!("of the packet, sourceID 0x{source_id:04x}")),
                    "{seen}"
                );
            }
        }
    }
}

#[test]
fn damaged_events_without_the_requested_run_are_counted() {
    let mut bytes = packet();
    let odin = sources(&bytes)
        .into_iter()
        .find(|(_, source_id)| *source_id == 0)
        .unwrap();
    bytes[odin.0] = 0;
    let (_folder, path) = file("wrong.mep", &bytes);
    let none = |read: Read, unidentified: usize| {
        let seen = read.seen();
        assert!(
            read.batches.is_empty() && seen.contains(&format!("unidentified: {unidentified}")),
            "{seen}"
        );
        assert_eq!(seen.contains("MFP"), unidentified > 0, "{seen}");
    };
    let select = Select::default().run(Some(1));
    for part in [
        InputPart::memory(&path, bytes.clone()),
        InputPart::file(&path),
    ] {
        for look in [false, true] {
            none(
                read_all(
                    part.clone(),
                    64,
                    &How {
                        select: select.clone(),
                        look,
                        ..How::default()
                    },
                ),
                N,
            );
        }
    }
    // The packet itself says which number its events have.
    let select = Select::default().number(Some(1400));
    none(
        read_all(
            &path,
            64,
            &How {
                select,
                ..How::default()
            },
        ),
        0,
    );
}

#[test]
fn bytes_appended_to_an_open_file_are_not_read() {
    let written = |n: usize| {
        let mut packets = MepWriter::new(Vec::new(), 1);
        (0..n).for_each(|e| packets.write(e as u64, [ut(0x2800, &[1; 20])]).unwrap());
        (
            mdf(0, &[ut(0x2800, &[1; 20])]).repeat(n),
            packets.finish().unwrap(),
        )
    };
    let ((two_events, two_packets), (events, packets)) = (written(2), written(3));
    // Packets may have zeros behind them.
    let padded = packets[..two_packets.len().next_multiple_of(4096)].to_vec();
    for (name, there, all) in [
        ("events.mdf", two_events, &events),
        ("packets.mep", two_packets, &packets),
        ("padded.mep", padded, &packets),
    ] {
        let (_folder, path) = file(name, &there);
        let mut reader = Events::new([&path]);
        assert!(reader.next_event().unwrap().is_some());
        OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(&all[there.len()..])
            .unwrap();
        assert!(
            reader.next_event().unwrap().is_some() && reader.next_event().unwrap().is_none(),
            "{name}"
        );
    }
}

#[test]
fn a_file_that_shrinks_to_an_event_boundary_is_an_error() {
    let events = mdf(0, &[ut(0x2800, &[1; 2000])]).repeat(100);
    let packets = packet_of(3, |_| vec![1; 2000]).repeat(33);
    for (name, bytes) in [("shrinks.mdf", events), ("shrinks.mep", packets)] {
        let (_folder, path) = file(name, &bytes);
        let mut chunks = Chunks::new([&path], 8, true, Select::default());
        assert!(chunks.next_chunk().unwrap().is_some());
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(0)
            .unwrap();
        let error = loop {
            match chunks.next_chunk() {
                Ok(chunk) => assert!(chunk.is_some(), "{name} is taken for whole"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(
            error.contains(name) && error.contains("more bytes when it was opened"),
            "{error}"
        );
        assert!(
            chunks.next_chunk().unwrap().is_none(),
            "an error comes once"
        );
    }
}
