//! Files: raw data of any container, and detector tables.

use std::sync::OnceLock;

use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::input::{Chunks, InputError, Parser, Seen, Select, to_mep};
use ut_decoding::{
    Bank, BankVersion, BatchBuilder, BatchReport, Boards, CpuDecoder, DecodeOptions, Decoder,
    DetectorTables, EventBatch, EventMeta, Events, Geometry, Grouping, UtHits, synth,
};

use crate::{Bytes, file_of};

/// Reads a file event by event, and in pieces for several threads: both must see the same events
/// and the same end.
pub fn file(data: &[u8]) {
    // The extension decides on the format if the content does not.
    let path = file_of(
        if data.first().is_some_and(|first| first & 1 == 1) {
            "x.bin"
        } else {
            "x.mdf"
        },
        data,
    );
    let (mut one_by_one, mut events) = (Events::new([path.clone()]), 0);
    let end = loop {
        match one_by_one.next_event() {
            Ok(Some(event)) => {
                _ = (
                    event.place().to_string(),
                    event.damage.map(ToString::to_string),
                );
            }
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
        events += 1;
    };
    let mut chunks = Chunks::new([&path], 7, true, Select::default());
    let (mut parser, mut seen) = (Parser::new(true, Select::default()), Seen::default());
    let end_in_pieces = loop {
        let next = chunks.next_chunk().and_then(|chunk| {
            let Some(chunk) = chunk else { return Ok(false) };
            parser.parse(
                chunk,
                &mut seen,
                None,
                |(batch, origins, _)| -> Result<(), InputError> {
                    assert_eq!(batch.n_events, origins.len());
                    // The batch can be converted to the other layout, or there is an error.
                    _ = to_mep(batch);
                    Ok(())
                },
            )?;
            Ok(true)
        });
        match next {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    assert_eq!(
        (events, end),
        (seen.events, end_in_pieces),
        "one by one, in pieces"
    );
}

/// Returns boards and geometry files of the synthetic detector in one of its four versions.
fn sound(which: u8) -> (Vec<u8>, Vec<u8>) {
    static FILES: [OnceLock<(Vec<u8>, Vec<u8>)>; 4] = [const { OnceLock::new() }; 4];
    let make = || {
        let version = if which & 1 == 0 {
            BankVersion::V5
        } else {
            BankVersion::V4
        };
        let (boards, geometry) = synth::detector(version, (which >> 1).into());
        (boards.to_bytes(), geometry.to_bytes())
    };
    FILES[usize::from(which)].get_or_init(make).clone()
}

/// Changes words of good tables, or takes the bytes as tables. Decoding must be safe with all
/// tables that pass the checks.
pub fn tables(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.u8();
    let (mut boards, mut geometry) = sound(choice & 1 | choice >> 2 & 2);
    if choice & 4 != 0 {
        (boards, geometry) = (bytes.take(bytes.0.len()).to_vec(), geometry);
    }
    while !bytes.0.is_empty() {
        let (which, place) = (bytes.u8(), usize::from(bytes.u16()) * 4);
        let file = if which & 1 == 0 {
            &mut boards
        } else {
            &mut geometry
        };
        let word = bytes.take(4);
        if which & 2 != 0 {
            file.truncate(place.min(file.len()));
        } else if let Some(there) = file.get_mut(place..place + word.len()) {
            there.copy_from_slice(word);
        }
    }
    let (Ok(boards), Ok(geometry)) = (
        Boards::parse(&boards, "boards"),
        Geometry::parse(&geometry, "geometry"),
    ) else {
        return;
    };
    let grouping = if choice & 2 == 0 {
        Grouping::YRows
    } else {
        Grouping::UniqueX
    };
    let Ok(tables) = DetectorTables::trusting(boards, geometry, grouping) else {
        return;
    };
    let payload: Vec<u8> = (0..u8::MAX)
        .cycle()
        .skip(choice.into())
        .take(512)
        .map(|byte| byte & 0x1f)
        .collect();
    let bank = |source_id| Bank {
        kind: 66,
        version: None,
        source_id,
        payload: &payload,
    };
    let (mut builder, mut batch) = (BatchBuilder::new(), EventBatch::default());
    let banks = (0..tables.boards().n_boards().min(8) as u32).map(bank);
    builder
        .push(EventMeta::default(), banks)
        .expect("eight banks fit");
    builder.finish(&mut batch);
    let options = DecodeOptions::default();
    let cpu = CpuDecoder::new(&tables, options);
    let reference: Box<dyn Decoder> = Box::new(ReferenceDecoder::new(&tables, options));
    let [found, expected] = [Box::new(cpu), reference].map(|mut decoder: Box<dyn Decoder>| {
        let mut hits = UtHits::with_capacity(1, tables.n_groups(), batch.view().max_hits());
        let mut report = BatchReport::new();
        decoder
            .decode(batch.view(), &mut hits, &mut report)
            .expect("there is room");
        (hits, report.events)
    });
    assert!(
        found == expected,
        "the CPU decoder differs from the reference"
    );
}
