//! Files of raw data: read event by event, and in pieces on several threads. Both must see the same events.

use std::io::Cursor;
use std::path::Path;

use ut_decoding::input::{Chunks, InputError, MdfReader, Parser, Seen, Select, to_mep};
use ut_decoding::{EventBatch, Events};

/// What one event holds, for comparing: place, run, number, banks with payloads.
type Event = (u64, Option<u32>, Option<u64>, Vec<(u8, Option<u8>, u32, Vec<u8>)>);

/// Whatever the content says the file is, compressed or not.
pub fn file(data: &[u8]) {
    let folder = folder();
    // The extension decides where the content does not.
    let path = folder.join(if data.first().is_some_and(|first| first & 1 == 1) { "x.bin" } else { "x.mdf" });
    std::fs::write(&path, data).expect("memory takes a small file");
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
        let parsed = parser.parse(&chunk, &mut seen, |(batch, origins, _)| -> Result<(), InputError> {
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
    read(MdfReader::new(Cursor::new(data), "x.mdf", Some(data.len() as u64)), data.len());
}

/// MEP packets in memory.
pub fn packets(data: &[u8]) {
    read(MdfReader::of_packets(Cursor::new(data), "x.mep", Some(data.len() as u64)), data.len());
}

fn read(mut reader: MdfReader<Cursor<&[u8]>>, length: usize) {
    let mut events: Vec<Event> = Vec::new();
    let mut builder = ut_decoding::BatchBuilder::new();
    while let Ok(Some(event)) = reader.next_event() {
        let banks = event.banks().map(|bank| (bank.kind, bank.version, bank.source_id, bank.payload.to_vec()));
        events.push((event.index, event.run, event.meta().event, banks.collect()));
        assert!(event.offset <= length as u64);
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

/// A folder of this process in memory, where there is one.
fn folder() -> &'static Path {
    use std::sync::OnceLock;
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let make = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    FOLDER.get_or_init(make).path()
}
