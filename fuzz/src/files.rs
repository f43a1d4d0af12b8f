//! Files of raw data: read event by event, and in pieces on several threads. Both must see the same events.

use std::path::Path;

use ut_decoding::input::{Chunks, InputError, InputPart, Parser, Seen, Select, to_mep};
use ut_decoding::{EventBatch, Events};

use crate::{Bytes, file_of};

/// What one event holds, for comparing: place, run, number, banks with payloads.
type Event = (u64, Option<u32>, Option<u64>, Vec<(u8, Option<u8>, u32, Vec<u8>)>);

/// Whatever the content says the file is, compressed or not.
pub fn file(data: &[u8]) {
    // The extension decides where the content does not.
    let path = file_of(if data.first().is_some_and(|first| first & 1 == 1) { "x.bin" } else { "x.mdf" }, data);
    let mut one_by_one = Events::new([path.clone()]);
    let mut events = 0u64;
    let failed = loop {
        match one_by_one.next_event() {
            Ok(Some(event)) => {
                events += 1;
                // Names and places of an event are for messages.
                let _ = (event.place().to_string(), event.damage.map(ToString::to_string));
            }
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    let (in_pieces, failed_in_pieces) = pieces(&path);
    assert_eq!(events, in_pieces, "events one by one and in pieces");
    assert_eq!(failed, failed_in_pieces, "how the file ends");
}

/// Events in the batches of a file read in pieces, and the error at the end.
fn pieces(path: &Path) -> (u64, Option<String>) {
    let mut chunks = Chunks::new([path], 7, true, Select::default());
    let mut parser = Parser::new(true, Select::default());
    let mut seen = Seen::default();
    loop {
        let chunk = match chunks.next_chunk() {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return (seen.events, None),
            Err(error) => return (seen.events, Some(error.to_string())),
        };
        let parsed = parser.parse(chunk, &mut seen, |(batch, origins, _)| -> Result<(), InputError> {
            assert_eq!(batch.n_events, origins.len());
            // The other layout takes the same batch or says why not.
            let _ = to_mep(batch);
            Ok(())
        });
        if let Err(error) = parsed {
            return (seen.events, Some(error.to_string()));
        }
    }
}

/// MDF in memory.
pub fn mdf(data: &[u8]) {
    read("x.mdf", data);
}

/// MEP packets in memory.
pub fn packets(data: &[u8]) {
    read("x.mep", data);
}

fn read(name: &str, data: &[u8]) {
    let mut reader = Events::new([InputPart::memory(name, data.to_vec())]);
    let mut events: Vec<Event> = Vec::new();
    let mut builder = ut_decoding::BatchBuilder::new();
    while let Ok(Some(event)) = reader.next_event() {
        let banks = event.banks().map(|bank| (bank.kind, bank.version, bank.source_id, bank.payload.to_vec()));
        events.push((event.index, event.run, event.meta().event, banks.collect()));
        assert!(event.offset <= data.len() as u64);
        // What no batch takes is an error, not a panic.
        let _ = builder.push(event.meta(), event.banks());
        if events.len() > 1000 {
            break;
        }
    }
    let mut batch = EventBatch::default();
    builder.finish(&mut batch);
    assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0), "events ascend");
}

/// An MDF event of blocks as ROOT makes them, whose headers are sound or not.
pub fn blocks(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut body = Vec::new();
    while !bytes.is_empty() {
        let (how, size, n) = (bytes.u8(), bytes.u16(), bytes.u16());
        let packed = bytes.take(usize::from(n));
        let checked = how & 3 == 2;
        body.extend(match how & 3 {
            0 => *b"ZL\x08",
            1 => *b"ZS\x01",
            2 => *b"L4\x01",
            _ => [how, how, how],
        });
        let length = packed.len() as u32 + u32::from(checked) * 8 + u32::from(how >> 7) * u32::from(size);
        body.extend(&length.to_le_bytes()[..3]);
        body.extend(&(u32::from(size) << (how >> 2 & 8)).to_le_bytes()[..3]);
        if checked {
            let sum = twox_hash::XxHash64::oneshot(0, packed) ^ u64::from(how >> 6 & 1);
            body.extend(sum.to_be_bytes());
        }
        body.extend(packed);
    }
    let size = (48 + body.len()) as u32;
    let mut event: Vec<u8> = [size; 3].into_iter().flat_map(u32::to_le_bytes).collect();
    // No checksum; compressed; a sub-header of seven words; raw banks.
    event.extend([0, 0, 0, 0, 1, 0x37, 1, 0]);
    event.extend([0; 28]);
    event.extend(body);
    mdf(&event);
}
