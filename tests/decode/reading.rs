//! Batches of some inputs, read as programs with several threads do.

use std::path::PathBuf;

use tempfile::TempDir;
use ut_decoding::EventMeta;
use ut_decoding::input::{
    Bank, Chunks, EventHeader, InputError, InputPart, Layout, MdfWriter, MepWriter, Origin, Parser,
    Part, RawEvent, Seen, Select, banks_of,
};

pub fn bank(kind: u8, version: u8, source_id: u32, payload: &[u8]) -> Bank<'_> {
    Bank {
        kind,
        version: Some(version),
        source_id,
        payload,
    }
}

/// Makes a UT bank of version 4.
pub fn ut(source_id: u32, payload: &[u8]) -> Bank<'_> {
    bank(66, 4, source_id, payload)
}

/// Makes the payload of an ODIN bank of version 7.
pub fn odin(run: u32, number: u64) -> Vec<u8> {
    let mut odin = vec![0; 40];
    odin[..4].copy_from_slice(&run.to_le_bytes());
    odin[32..].copy_from_slice(&number.to_le_bytes());
    odin
}

pub fn mdf(run: u32, banks: &[Bank<'_>]) -> Vec<u8> {
    let mut writer = MdfWriter::new(Vec::new());
    writer
        .write(
            &EventHeader {
                run,
                ..EventHeader::default()
            },
            banks.iter().copied(),
        )
        .unwrap();
    writer.finish().unwrap()
}

/// Makes a packet of `n` events with one bank each.
pub fn packet_of(n: usize, payload: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut writer = MepWriter::new(Vec::new(), n);
    for event in 0..n {
        writer
            .write(event as u64, [ut(0x2800, &payload(event))])
            .unwrap();
    }
    writer.finish().unwrap()
}

/// Writes a file with these bytes into a folder that is deleted when it is dropped.
pub fn file(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Bank of a batch: sourceID, type, version, payload.
pub type Found = (u32, u8, Option<u8>, Vec<u8>);

/// Settings of a reading.
#[derive(Clone, Debug, Default)]
pub struct How {
    pub select: Select,
    pub by_file: bool,
    pub together: bool,
    /// True if each event is looked at, too.
    pub look: bool,
}

/// Events and findings of a reading.
#[derive(Debug, Default)]
pub struct Read {
    pub batches: Vec<Vec<(Origin, EventMeta, Vec<Found>)>>,
    /// Findings of each chunk.
    pub seen: Vec<Seen>,
    pub copied: u64,
}

impl Read {
    pub fn events(&self) -> Vec<(Origin, EventMeta, Vec<Found>)> {
        self.batches.concat()
    }

    pub fn seen(&self) -> String {
        let mut all = Seen::default();
        self.seen.iter().for_each(|seen| all.merge(seen.clone()));
        format!("{all:?}")
    }
}

/// Reads a part to its end, in chunks of at most `n` events.
pub fn read_all(part: impl Into<InputPart>, n: usize, how: &How) -> Read {
    let mut chunks = Chunks::new([part], n, true, how.select.clone()).by_file(how.by_file);
    let mut parser = Parser::new(true, how.select.clone()).together(how.together);
    let (mut read, mut looked) = (Read::default(), Vec::new());
    while let Some(chunk) = chunks.next_chunk().unwrap() {
        let mut seen = Seen::default();
        let take = |(view, origins, max_hits): Part<'_>| {
            let (mut events, mut bytes) = (Vec::new(), 0);
            assert_eq!(view.n_events, origins.len());
            for (e, &origin) in origins.iter().enumerate() {
                let mut banks = Vec::new();
                assert!(banks_of(view, e, &mut banks), "event {e}");
                bytes += banks.iter().map(|bank| bank.payload.len()).sum::<usize>();
                let banks = banks
                    .iter()
                    .map(|b| (b.source_id, b.kind, b.version, b.payload.to_vec()));
                events.push((origin, view.meta_of(e), banks.collect()));
            }
            assert!(max_hits >= bytes / 2);
            if view.layout == Layout::Mep {
                let places = &view.offsets[2 + view.offsets[0] as usize..];
                assert!(
                    places.iter().all(|place| place % 4 == 0),
                    "the kernels read words"
                );
                assert_eq!(max_hits, bytes / 2);
            } else {
                assert!(view.n_events <= n);
            }
            read.batches.push(events);
            Ok::<(), InputError>(())
        };
        let mut look = |_: &RawEvent<'_>, origin: Origin| looked.push(origin);
        parser
            .parse(
                chunk,
                &mut seen,
                if how.look { Some(&mut look) } else { None },
                take,
            )
            .unwrap();
        read.seen.push(seen);
    }
    if how.look {
        assert!(
            looked
                .iter()
                .eq(read.batches.iter().flatten().map(|(origin, ..)| origin))
        );
    }
    read.copied = parser.copied();
    read
}
