//! Every format of input gives the same hits; messages name formats that cannot be read, and
//! damage.

use std::io::{Cursor, Write};

use crate::support::{
    ONE_HIT, TABLES, bank, empty, event, json_of, read, run_to, sample, shell, write,
};
use ut_decoding::input::{Damage, Events, InputError, InputPart, checksum};

/// An MFP: types and payloads of one source.
struct Mfp<'a> {
    source_id: u16,
    version: u8,
    fragments: Vec<(u8, &'a [u8])>,
}

/// Makes a packet as its description says, independently of the library's writer.
///
/// Written from `docs/format.md` line by line: a writer and a reader that share code can agree on a
/// mistake. The packet's own header is 8 bytes, then come the sourceIDs, then for each source where
/// its part begins, in 32-bit words; the size of the packet is in words, too, and the size of a
/// part in bytes.
fn packet(first: u64, align: u8, mfps: &[Mfp<'_>]) -> Vec<u8> {
    let pad =
        |bytes: &mut Vec<u8>, unit: usize| bytes.resize(bytes.len().next_multiple_of(unit), 0);
    let bodies: Vec<Vec<u8>> = mfps
        .iter()
        .map(|mfp| {
            let n = mfp.fragments.len();
            let mut body = vec![0; 20];
            body.extend(mfp.fragments.iter().map(|(kind, _)| kind));
            pad(&mut body, 4);
            body.extend(
                mfp.fragments
                    .iter()
                    .flat_map(|(_, payload)| (payload.len() as u16).to_le_bytes()),
            );
            pad(&mut body, 4);
            for (_, payload) in &mfp.fragments {
                let begin = body.len();
                body.extend(*payload);
                body.resize(begin + payload.len().next_multiple_of(1 << align), 0);
            }
            let size = body.len() as u32;
            body[..2].copy_from_slice(&0x40CEu16.to_le_bytes());
            body[2..4].copy_from_slice(&(n as u16).to_le_bytes());
            body[4..8].copy_from_slice(&size.to_le_bytes());
            body[8..16].copy_from_slice(&first.to_le_bytes());
            body[16..18].copy_from_slice(&mfp.source_id.to_le_bytes());
            (body[18], body[19]) = (align, mfp.version);
            body
        })
        .collect();
    let mut bytes = 0xCEFAu16.to_le_bytes().to_vec();
    bytes.extend((mfps.len() as u16).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(mfps.iter().flat_map(|mfp| mfp.source_id.to_le_bytes()));
    pad(&mut bytes, 4);
    let mut at = bytes.len() + 4 * mfps.len();
    for body in &bodies {
        bytes.extend(((at / 4) as u32).to_le_bytes());
        at += body.len().next_multiple_of(4);
    }
    for body in bodies {
        bytes.extend(body);
        pad(&mut bytes, 4);
    }
    let words = (bytes.len() / 4) as u32;
    bytes[4..8].copy_from_slice(&words.to_le_bytes());
    bytes
}

/// Makes a packet of three events, each with one hit from each of two sources.
fn two_sources() -> Vec<u8> {
    let of = |source_id: u16| Mfp {
        source_id,
        version: 4,
        fragments: vec![(66, &ONE_HIT[..]); 3],
    };
    packet(1, 2, &[of(5 << 11 | 1), of(5 << 11 | 2)])
}

/// Makes an MDF event around `body`, with a checksum.
fn frame(body: &[u8], compression: u8, data_type: u8) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes.extend([compression, 0x37, data_type, 0]);
    bytes.extend([0; 28]);
    bytes.extend(body);
    let size = bytes.len() as u32;
    let sum = checksum(&bytes[16..]);
    for (at, word) in [(0, size), (4, size), (8, size), (12, sum)] {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Makes a block as ROOT does.
fn block(algorithm: &[u8; 3], size: usize, data: &[u8]) -> Vec<u8> {
    let u24 = |n: usize| (n as u32).to_le_bytes()[..3].to_vec();
    [
        algorithm.to_vec(),
        u24(data.len()),
        u24(size),
        data.to_vec(),
    ]
    .concat()
}

pub fn zlib_block(bytes: &[u8]) -> Vec<u8> {
    block(b"ZL\x08", bytes.len(), &zlib(bytes))
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Makes an lz4 block as ROOT does: with the xxHash64 of the compressed bytes, big-endian, in front
/// of the bytes.
fn lz4(bytes: &[u8]) -> Vec<u8> {
    let packed = lz4_flex::block::compress(bytes);
    let sum = twox_hash::XxHash64::oneshot(0, &packed).to_be_bytes();
    block(b"L4\x01", bytes.len(), &[&sum[..], &packed].concat())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// Returns the bytes of each event of an MDF file.
fn events_of(mdf: &[u8]) -> Vec<&[u8]> {
    let mut events = Vec::new();
    let mut rest = mdf;
    while let Some(size) = rest.first_chunk::<4>() {
        let (event, after) = rest.split_at(u32::from_le_bytes(*size) as usize);
        events.push(event);
        rest = after;
    }
    events
}

/// Compresses the bodies of events by `pack` in blocks of `n` bytes.
pub fn packed(mdf: &[u8], n: usize, pack: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let events = events_of(mdf).into_iter().map(|event| {
        let mut packed = frame(
            &event[48..].chunks(n).flat_map(&pack).collect::<Vec<u8>>(),
            0x11,
            1,
        );
        // The sub-header, and the checksum with it.
        packed[20..48].copy_from_slice(&event[20..48]);
        let sum = checksum(&packed[16..]);
        packed[12..16].copy_from_slice(&sum.to_le_bytes());
        packed
    });
    events.flatten().collect()
}

/// Wraps the same five events in thirteen ways and wants the same rows and the same report from
/// each. The names ending in `.any` say nothing about their contents, so the first bytes must.
/// `several.any` and `gzipped.any` are two streams back to back, which a reader that stops at the
/// first end would cut in half without an error. `pzstd.any` has a skippable frame before each
/// stream, as parallel compressors write it. Blocks of 7,000 and 9,000 bytes end in the middle of
/// banks.
#[test]
fn every_container_gives_the_same_hits_as_the_plain_file() {
    let directory = &sample();
    let mdf = read(directory, "events.mdf");
    let half = events_of(&mdf)[..2].concat().len();
    for name in ["again.mdf", "written.mdf.zst", "written.mep"] {
        run_to(0, directory, format!("convert events.mdf --output {name}"));
    }
    run_to(
        0,
        directory,
        "convert events.mdf --output small.mep --packet-events 2",
    );
    assert!(read(directory, "again.mdf") == mdf);
    let mep = read(directory, "written.mep");
    write(
        directory,
        "small.mep.gz",
        &gzip(&read(directory, "small.mep")),
    );
    write(directory, "frames.mdf", &frame(&mep, 0, 2));
    write(
        directory,
        "several.any",
        &[zstd(&mdf[..half]), zstd(&mdf[half..])].concat(),
    );
    let skippable = [
        &0x184d_2a50u32.to_le_bytes()[..],
        &4u32.to_le_bytes(),
        b"size",
    ]
    .concat();
    write(
        directory,
        "pzstd.any",
        &[
            &skippable,
            &zstd(&mdf[..half])[..],
            &skippable,
            &zstd(&mdf[half..]),
        ]
        .concat(),
    );
    write(
        directory,
        "gzipped.any",
        &[gzip(&mdf[..half]), gzip(&mdf[half..])].concat(),
    );
    write(directory, "twice.any", &gzip(&zstd(&mdf)));
    write(directory, "zlib.mdf", &packed(&mdf, 7000, zlib_block));
    write(
        directory,
        "zstd.mdf",
        &packed(&mdf, 7000, |bytes| {
            block(b"ZS\x01", bytes.len(), &zstd(bytes))
        }),
    );
    write(directory, "lz4.mdf", &packed(&mdf, 1 << 20, lz4));
    let blocks: Vec<u8> = mep.chunks(9000).flat_map(lz4).collect();
    write(directory, "packed.mdf", &frame(&blocks, 0x11, 2));
    let hits = |name: &str| {
        let (json, err) = json_of(
            0,
            directory,
            (format!("decode {name} --output hits.csv --strict"), TABLES),
        );
        assert_eq!(
            (&json["events"], err.contains("warning")),
            (&5.into(), false),
            "{name}: {err}"
        );
        (json["report"].clone(), read(directory, "hits.csv"))
    };
    let expected = hits("events.mdf");
    let names = "written.mdf.zst written.mep small.mep small.mep.gz frames.mdf several.any pzstd.any gzipped.any twice.any zlib.mdf \
                 zstd.mdf lz4.mdf packed.mdf";
    for name in names.split_whitespace() {
        assert!(hits(name) == expected, "{name}");
        let (json, _) = json_of(0, directory, format!("inspect {name}"));
        assert_eq!(
            (&json["events"], &json["complete"]),
            (&5.into(), &true.into()),
            "{name}"
        );
    }
    for name in ["events.mdf", "written.mdf.zst", "small.mep"] {
        shell(
            0,
            directory,
            &format!("cat {name} | ut-decode decode - --output piped.csv {TABLES}"),
        );
        assert!(read(directory, "piped.csv") == expected.1, "{name}");
    }
}

#[test]
fn unsupported_and_truncated_formats_are_named() {
    let directory = &sample();
    let mdf = read(directory, "events.mdf");
    let (zstd, gzip) = (zstd(&mdf), gzip(&mdf));
    let mut damaged = zstd.clone();
    damaged[4] = 0xff;
    let mep = {
        run_to(0, directory, "convert events.mdf --output a.mep");
        read(directory, "a.mep")
    };
    // A frame that begins with a window of 1 GiB.
    let window: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0x01, 0, 0];
    let cases: [(&str, &[u8], &str); 11] = [
        ("window.zst", window, "has a window of more than 128 MiB"),
        ("a.xz", b"\xfd7zXZ\0and more than that", "an xz stream"),
        ("a.root", b"root\0\0\xf6\x78 and more of it", "a ROOT file"),
        ("a.bz2", b"BZh91AY&SY and more", "a bzip2 stream"),
        (
            "cut.zst",
            &zstd[..zstd.len() - 9],
            "zstd stream ends before",
        ),
        ("cut.gz", &gzip[..gzip.len() - 9], "gzip stream ends before"),
        ("damaged.zst", &damaged, "zstd stream is damaged"),
        (
            "cut.mep",
            &mep[..mep.len() - 5],
            "in a MEP packet at its byte 4",
        ),
        ("short.mep", &mep[..7], "in a MEP packet at its byte 7"),
        (
            "other.mep",
            b"not a packet at all",
            "begins with 0x6f6e instead of 0xcefa",
        ),
        ("frame.mdf", &frame(&mep[..100], 0, 2), "in a MEP packet"),
    ];
    for (name, bytes, message) in cases {
        write(directory, name, bytes);
        let (_, err) = run_to(
            1,
            directory,
            (format!("decode {name} --output hits.csv"), TABLES),
        );
        assert!(err.contains(name) && err.contains(message), "{name}: {err}");
    }
}

/// Guards against a collision of two kinds of first bytes. An MDF file begins with the size of its
/// first event, and a size may look like the magic number of a compression: 0x8b1f is the event of
/// 35,615 bytes whose file begins with `1f 8b`, as a gzip stream does. Only the two words after the
/// first, which repeat the size, tell these apart. Sizes of more than a hundred megabytes are not
/// built whole: that the event reaches beyond the file is enough to show that it was read as MDF.
#[test]
fn the_size_of_an_event_is_not_taken_for_a_compression() {
    let directory = &sample();
    let mdf = read(directory, "events.mdf");
    // First bytes of gzip (twice), zstd, a skippable frame of zstd, and bzip2.
    for (size, code) in [
        (0x8b1f, 0),
        (0x08_8b1f, 0),
        (0xfd2f_b528, 1),
        (0x184d_2a50, 1),
        (0x68_5a42, 0),
    ] {
        let body = vec![0; if code == 0 { size as usize - 48 } else { 100 }];
        let mut event = frame(&body, 0, 1);
        event.splice(..12, u32::to_le_bytes(size).repeat(3));
        write(directory, "size.mdf", &[&event, &mdf[..]].concat());
        let (_, err) = run_to(code, directory, ("decode size.mdf", TABLES));
        let message = if code == 0 {
            "event 0 at byte 0: bank 0"
        } else {
            "reaches beyond the file"
        };
        assert!(err.contains(message), "{size:x}: {err}");
    }
}

/// Type, sourceID and payload of each bank.
type Banks = Vec<(u8, u32, Vec<u8>)>;

fn of_packets(bytes: &[u8]) -> Events {
    Events::new([InputPart::memory("a.mep", bytes.to_vec())])
}

/// Reads MDF as if it came from a pipe, so that its length is unknown.
fn of_mdf(bytes: &[u8]) -> Events {
    Events::new([InputPart::stream("a.mdf", Cursor::new(bytes.to_vec()))])
}

/// Returns the banks of every event of a file, and the event's damage.
fn all(bytes: &[u8]) -> Result<Vec<(Banks, Option<Damage>)>, InputError> {
    let mut reader = of_packets(bytes);
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        let banks = event
            .banks()
            .map(|bank| (bank.kind, bank.source_id, bank.payload.to_vec()))
            .collect();
        events.push((banks, event.damage.cloned()));
    }
    Ok(events)
}

#[test]
fn fragments_are_found_at_every_alignment_and_other_detectors_are_left_out() {
    let mut odin = [0; 40];
    odin[0] = 9;
    odin[32] = 77;
    let payloads = [&[1u8, 2, 3, 4][..], &[5; 5], &[6; 8], &[7; 9], &[8; 12]];
    for align in 0..=4 {
        let of = |source_id: u16, version: u8, kinds: [u8; 5]| Mfp {
            source_id,
            version,
            fragments: kinds.into_iter().zip(payloads).collect(),
        };
        let mfps = [
            of(2 << 11, 2, [63; 5]),
            Mfp {
                source_id: 0,
                version: 7,
                fragments: vec![(16, &odin); 5],
            },
            of(5 << 11 | 1, 4, [66, 66, 92, 68, 66]),
            of(6 << 11 | 1, 4, [66; 5]),
        ];
        let one = packet(10, align, &mfps);
        let mut bytes = one.clone();
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes.extend(&one);
        let events = all(&bytes).unwrap();
        assert_eq!(events.len(), 10);
        for (i, (banks, damage)) in events.iter().enumerate() {
            let payload = payloads[i % 5].to_vec();
            let error = [66, 66, 92, 68, 66][i % 5];
            let expected = [
                (16, 0, odin.to_vec()),
                (error, 5 << 11 | 1, payload.clone()),
                (66, 6 << 11 | 1, payload),
            ];
            assert_eq!(
                (&banks[..], damage),
                (&expected[..], &None),
                "align {align}, event {i}"
            );
        }
        let mut reader = of_packets(&bytes);
        let event = reader.next_event().unwrap().unwrap();
        assert_eq!(
            (event.run, event.number, event.skipped),
            (Some(9), Some(77), 1)
        );
        assert_eq!(event.meta().other_banks, 2);
    }
}

#[test]
fn the_last_fragment_of_a_source_may_do_without_its_padding() {
    let of = |source_id: u16| Mfp {
        source_id,
        version: 4,
        fragments: vec![(66, &[1; 4]), (66, &[5; 5])],
    };
    let mut bytes = packet(1, 3, &[of(5 << 11 | 1), of(5 << 11 | 2)]);
    let whole = all(&bytes).unwrap();
    // The first MFP begins after the packet's header, two sourceIDs and two offsets; its size is
    // its second word.
    let size = 8 + 4 + 8 + 4;
    // With fragments aligned to 8 bytes, the last fragment of 5 bytes has 3 of padding. All of the
    // padding may be missing; a part of it is a size that no writer makes, and a fourth byte would
    // be the fragment's.
    for (left_out, is_well) in [(3, true), (2, false), (4, false)] {
        bytes[size] -= left_out;
        let events = all(&bytes).unwrap();
        assert_eq!(events == whole, is_well, "{left_out} bytes");
        assert_eq!(
            events.iter().all(|(_, damage)| damage.is_none()),
            is_well,
            "{left_out} bytes"
        );
        bytes[size] += left_out;
    }
}

#[test]
fn events_beyond_the_largest_number_have_no_number() {
    let mfp = Mfp {
        source_id: 5 << 11 | 1,
        version: 4,
        fragments: vec![(66, &ONE_HIT[..]); 3],
    };
    let bytes = packet(u64::MAX - 1, 2, &[mfp]);
    let mut reader = of_packets(&bytes);
    for number in [Some(u64::MAX - 1), Some(u64::MAX), None] {
        assert_eq!(reader.next_event().unwrap().unwrap().number, number);
    }
}

#[test]
fn a_damaged_source_loses_only_its_own_fragments_and_is_reported() {
    let good = two_sources();
    // Two sourceIDs, two offsets, then the MFPs.
    let first = 8 + 4 + 8;
    let second = first + (good.len() - first) / 2;
    let changed = |at: usize, new: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    for (what, bytes) in [
        ("begins with 0x40cf", changed(second, &[0xcf])),
        (
            "fragments take 64 bytes, but it has 100",
            changed(second + 2, &[2]),
        ),
        ("3 events from 2", changed(second + 8, &[2])),
        ("its size is 19", changed(second + 4, &[19, 0])),
        ("its tables take 32", changed(second + 4, &[0xff, 0xff])),
        ("sourceID 0x2803", changed(second + 16, &[3])),
        ("2^13 bytes; at most 2^12", changed(second + 18, &[13])),
        ("fragments take", changed(second + 24, &[1])),
    ] {
        let events = all(&bytes).unwrap();
        assert_eq!(events.len(), 3, "{what}");
        for (banks, damage) in events {
            assert_eq!(banks, [(66, 5 << 11 | 1, ONE_HIT.to_vec())], "{what}");
            let message = damage.unwrap().to_string();
            assert!(
                message.contains("MFP 1 of the packet, sourceID 0x2802") && message.contains(what),
                "{message}"
            );
        }
    }
    for (what, bytes) in [
        ("begins with", changed(0, &[0])),
        ("its size is", changed(4, &[1, 0])),
        ("its size is", changed(4, &[0xff, 0xff])),
        ("MFP 0 is out of order", changed(12, &[1, 0])),
        ("of 276", changed(16, &[0xff, 0xff])),
    ] {
        let error = all(&bytes).unwrap_err();
        assert!(
            matches!(error, InputError::Bad { .. }) && error.to_string().contains(what),
            "{what}: {error}"
        );
    }
}

#[test]
fn a_compressed_event_with_a_wrong_size_is_dropped_and_the_next_is_read() {
    let good = event(&[bank(0, &ONE_HIT)]);
    let body = &good[48..];
    let zlib = zlib(body);
    let whole = zlib_block(body);
    let mut wrong_sum = lz4(body);
    wrong_sum[9] ^= 1;
    let cases: [(&str, Vec<u8>); 8] = [
        ("checksum 0x", wrong_sum),
        (
            "no room for the checksum",
            block(b"L4\x01", body.len(), &[0; 7]),
        ),
        (
            "3 bytes are left, but a block's header takes 9",
            [&whole[..], b"ZL\x08"].concat(),
        ),
        ("are left of the event", whole[..whole.len() - 1].to_vec()),
        ("its header says 41", block(b"ZL\x08", 41, &zlib)),
        ("zlib", block(b"ZL\x08", body.len(), &zlib[2..])),
        ("zstd", block(b"ZS\x01", body.len(), &zlib)),
        ("no known algorithm", block(b"CS\x01", body.len(), &zlib)),
    ];
    for (what, packed) in cases {
        let bytes = [&frame(&packed, 0x11, 1)[..], &good].concat();
        let mut reader = of_mdf(&bytes);
        let damage = reader
            .next_event()
            .unwrap()
            .unwrap()
            .damage
            .unwrap()
            .to_string();
        assert!(
            damage.contains("of the compressed event") && damage.contains(what),
            "{what}: {damage}"
        );
        let next = reader.next_event().unwrap().unwrap();
        assert_eq!((next.entries.len(), next.damage), (1, None));
    }
}

#[test]
fn an_extracted_event_stays_compressed_with_its_damage() {
    let directory = &empty();
    let good = packed(
        &event(&[bank(1, &ONE_HIT), bank(2, &ONE_HIT)]),
        40,
        zlib_block,
    );
    // A wrong checksum; and a last block that cannot be unpacked, where checksums are not compared.
    let (mut sum, mut block) = (good.clone(), good.clone());
    sum[12] ^= 1;
    block[12..16].fill(0);
    *block.last_mut().unwrap() ^= 1;
    for damaged in [good, sum, block] {
        write(directory, "packed.mdf", &damaged);
        run_to(
            0,
            directory,
            "inspect packed.mdf --extract cut.mdf --event 0",
        );
        assert!(read(directory, "cut.mdf") == damaged);
    }
}

#[test]
fn an_empty_block_is_skipped() {
    let whole = event(&[bank(0, &ONE_HIT)]);
    let empty = block(b"ZS\x01", 0, &[]);
    let bytes = packed(&whole, whole.len(), |body| {
        [&empty[..], &zlib_block(body)].concat()
    });
    let mut reader = of_mdf(&bytes);
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!((event.entries.len(), event.damage), (1, None));
}

#[test]
fn a_damaged_compressed_packet_ends_the_file_after_earlier_events() {
    let good = event(&[bank(0, &ONE_HIT)]);
    let mep = two_sources();
    let whole = frame(&zlib_block(&mep), 0x11, 2);
    let read_all = |bytes: &[u8]| {
        let mut reader = of_mdf(bytes);
        let mut events = Vec::new();
        loop {
            match reader.next_event() {
                Ok(Some(event)) => events.push((event.entries.len(), event.damage.cloned())),
                Ok(None) => return (events, None),
                Err(error) => return (events, Some(error)),
            }
        }
    };
    let (events, error) = read_all(&[&good[..], &whole, &good].concat());
    assert!(error.is_none());
    assert_eq!(
        events,
        [(1, None), (2, None), (2, None), (2, None), (1, None)]
    );
    // A checksum of the frame that does not match costs the packet's events, and no others.
    let mut changed = whole.clone();
    changed[12] ^= 1;
    let (events, error) = read_all(&[&changed[..], &good].concat());
    assert!(error.is_none() && events.len() == 4);
    assert!(events[..3].iter().all(|(n, damage)| {
        *n == 0
            && damage
                .as_ref()
                .is_some_and(|of| of.what.contains("checksum"))
    }));
    let mut cut = zlib_block(&mep);
    cut.truncate(cut.len() - 1);
    for (what, bytes) in [
        (
            "a compressed MEP packet: block 0 of the compressed event, at byte 48",
            frame(&cut, 0x11, 2),
        ),
        (
            "a compressed MEP packet: block 0",
            frame(b"what is this", 0x11, 2),
        ),
        ("compressed with xz", frame(b"XZ\0 and more", 0x11, 2)),
        (
            "in a MEP packet at its byte 4",
            frame(&zlib_block(&mep[..mep.len() - 4]), 0x11, 2),
        ),
        ("in a MEP packet at its byte 0", frame(&[], 0x11, 2)),
        ("reaches beyond the file", whole[..whole.len() - 1].to_vec()),
    ] {
        let (events, error) = read_all(&[&good[..], &bytes].concat());
        let error = error.unwrap();
        let source = std::error::Error::source(&error)
            .map_or_else(String::new, |source| format!(": {source}"));
        let message = format!("{error}{source}");
        assert!(
            events.len() == 1
                && message.starts_with("a.mdf: event 1 at byte")
                && message.contains(what),
            "{message}"
        );
    }
}

#[test]
fn a_wrong_checksum_costs_the_events_of_a_packet_and_a_checksum_of_zero_is_not_compared() {
    let whole = frame(&two_sources(), 0, 2);
    let computed = checksum(&whole[16..]);
    for (sum, n_banks) in [(computed, 2), (0, 2), (computed ^ 1, 0)] {
        let mut bytes = [&whole[..], &event(&[bank(0, &ONE_HIT)])].concat();
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        let mut reader = of_mdf(&bytes);
        for _ in 0..3 {
            let event = reader.next_event().unwrap().unwrap();
            assert_eq!(event.entries.len(), n_banks, "0x{sum:08x}");
            let is_damaged = event.damage.is_some_and(|damage| damage.is_checksum);
            assert_eq!(is_damaged, n_banks == 0, "0x{sum:08x}");
        }
        let next = reader.next_event().unwrap().unwrap();
        assert_eq!((next.entries.len(), next.damage), (1, None));
    }
}

#[test]
fn a_packet_without_sources_is_skipped_to_its_end() {
    let mep = two_sources();
    // The magic number, no sources, four words.
    let none = [&mep[..2], &[0, 0, 4, 0, 0, 0], &[1; 8]].concat();
    let packets = [&mep[..], &none, &mep].concat();
    assert_eq!(all(&packets).unwrap().len(), 6);
    assert_eq!(of_packets(&none).next_event().unwrap().map(|_| ()), None);
}

#[test]
fn only_complete_zero_padding_may_follow_the_packet_of_an_event() {
    let mep = two_sources();
    let frames = |more: &[u8]| {
        let body = [&mep[..], more].concat();
        [frame(&body, 0, 2), frame(&zlib_block(&body), 0x11, 2)]
    };
    for bytes in frames(&[0; 8]) {
        let mut reader = of_mdf(&bytes);
        let event = reader.next_event().unwrap().unwrap();
        assert_eq!((event.entries.len(), event.damage), (2, None));
    }
    let [whole, _] = frames(&[0; 8]);
    for there in whole.len() - 8..whole.len() {
        let error = of_mdf(&whole[..there]).next_event().unwrap_err();
        let beyond = format!(
            "size of {} bytes reaches beyond the file, which has {there} bytes",
            whole.len()
        );
        assert!(error.to_string().contains(&beyond), "{error}");
    }
    // Events there are not lost silently.
    for bytes in [&mep[..], &[0, 0, 0, 1]].into_iter().flat_map(frames) {
        let error = of_mdf(&bytes).next_event().unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("in a MEP packet at its byte {}:", mep.len())),
            "{error}"
        );
    }
}

#[test]
fn only_zero_padding_to_the_end_of_a_page_may_lie_between_packets() {
    let mep = two_sources();
    let mut page = mep.clone();
    page.resize(4096, 0);
    assert_eq!(all(&[&page[..], &mep].concat()).unwrap().len(), 6);
    for at in [mep.len() + 1, 4095] {
        let mut changed = page.clone();
        changed[at] = 1;
        let error = all(&[&changed[..], &mep].concat()).unwrap_err().to_string();
        assert!(
            error.contains("bytes that are neither zeros nor a packet"),
            "{at}: {error}"
        );
    }
}

#[test]
fn an_event_that_would_grow_without_end_is_given_up() {
    let zeros = zlib(&vec![0; 0xff_ffff]);
    let packed = block(b"ZL\x08", 0xff_ffff, &zeros).repeat(5);
    let mut reader = of_mdf(&frame(&packed, 0x11, 1));
    let damage = reader
        .next_event()
        .unwrap()
        .unwrap()
        .damage
        .unwrap()
        .to_string();
    assert!(
        damage.contains("block 3") && damage.contains("64 MiB"),
        "{damage}"
    );
}
