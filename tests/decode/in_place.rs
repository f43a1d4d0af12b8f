//! MDF whose banks are decoded where they were read: the same batches as event by event, and as copied together.

use ut_decoding::EventMeta;
use ut_decoding::input::{
    Apart, Bank, Chunks, EventHeader, InputError, InputPart, MdfReader, MdfWriter, MepWriter, Origin, Parser, Part,
    Seen, Select, banks_of,
};

/// A bank of a batch: sourceID, type, version, payload.
type Found = (u32, u8, Option<u8>, Vec<u8>);

/// An event of [`events`] with `n` of the UT's banks, ODIN and one of another detector. Every third is of another run, and every
/// fourth has the wrong checksum.
fn event(e: usize, n: usize) -> Vec<u8> {
    let mut odin = [0; 40];
    odin[0] = 7 + u8::from(e % 3 == 2);
    odin[32..36].copy_from_slice(&(1000 + e as u32).to_le_bytes());
    let payloads: Vec<Vec<u8>> = (0..n).map(|b| vec![(e + b) as u8; (e * 7919 + b * 613) % 91]).collect();
    let mut banks: Vec<Bank<'_>> = payloads
        .iter()
        .enumerate()
        .map(|(b, payload)| Bank {
            kind: 66 + (b % 5 == 4) as u8,
            version: Some(4),
            source_id: 0x2800 + b as u32,
            payload,
        })
        .collect();
    banks.insert(n / 2, Bank { kind: 16, version: Some(7), source_id: 0, payload: &odin });
    banks.push(Bank { kind: 9, version: Some(2), source_id: 0x1000, payload: &[9; 5] });
    let mut writer = MdfWriter::new(Vec::new());
    writer.write(&EventHeader { run: 7, ..EventHeader::default() }, banks).unwrap();
    let mut bytes = writer.finish().unwrap();
    match e % 4 {
        3 => bytes[12] ^= 1,
        // Without the padding of the last bank: what follows does not begin at a word.
        2 => {
            bytes.truncate(bytes.len() - 3);
            bytes.splice(..12, (bytes.len() as u32).to_le_bytes().repeat(3));
            bytes[12..16].fill(0);
        }
        _ => {}
    }
    bytes
}

/// Events of 0 to 290 banks, more than there is room for in front of one.
fn events() -> Vec<u8> {
    (0..40).flat_map(|e| event(e, [3, 0, 216, 1, 290][e % 5])).collect()
}

/// A packet of three events, in a frame of MDF.
fn packet() -> Vec<u8> {
    let mut writer = MepWriter::new(Vec::new(), 3);
    for e in 0..3 {
        writer.write(e, [Bank { kind: 66, version: Some(4), source_id: 0x2800, payload: &[1; 24] }]).unwrap();
    }
    let body = writer.finish().unwrap();
    let mut frame = (20 + body.len() as u32).to_le_bytes().repeat(3);
    frame.extend([0, 0, 0, 0, 0, 0, 2, 0]);
    frame.extend(body);
    frame
}

/// The events as one reads them one by one.
fn expected(mdf: &[u8]) -> Vec<(u64, Option<u64>, bool, Vec<Found>)> {
    let mut reader = MdfReader::new(mdf, "x.mdf", Some(mdf.len() as u64));
    let mut all = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let ut = event.banks().filter(|bank| matches!(bank.kind, 66..=69));
        let banks = ut.map(|bank| (bank.source_id, bank.kind, bank.version, bank.payload.to_vec())).collect();
        all.push((event.index, event.number, event.damage.is_some(), banks));
    }
    all
}

/// The events of the batches of a part, how many batches there were, what was seen, and bytes of payload that were copied.
#[allow(clippy::type_complexity, reason = "what a test compares")]
fn read(
    part: InputPart,
    n: usize,
    (select, apart, together, look): (&Select, Apart, bool, bool),
) -> (Vec<(Origin, EventMeta, Vec<Found>)>, usize, String, u64) {
    let mut chunks = Chunks::new([part], n, true, select.clone()).apart(apart);
    let mut parser = Parser::new(true, select.clone()).apart(apart).together(together);
    let (mut found, mut n_batches, mut seen, mut looked) = (Vec::new(), 0, Seen::default(), Vec::new());
    while let Some(chunk) = chunks.next_chunk().unwrap() {
        let take = |(view, origins, max_hits): Part<'_>| {
            let mut bytes = 0;
            assert_eq!(view.n_events, origins.len());
            for (e, &origin) in origins.iter().enumerate() {
                let mut banks = Vec::new();
                assert!(banks_of(view, e, &mut banks), "event {e}");
                bytes += banks.iter().map(|bank| bank.payload.len()).sum::<usize>();
                let banks = banks.iter().map(|b| (b.source_id, b.kind, b.version, b.payload.to_vec()));
                found.push((origin, view.meta_of(e), banks.collect()));
            }
            n_batches += 1;
            assert!(max_hits >= bytes / 2 && view.n_events <= n);
            Ok::<(), InputError>(())
        };
        if look {
            let look = &mut |event: &ut_decoding::input::RawEvent<'_>, origin: Origin| {
                looked.push((origin, event.banks().map(|bank| bank.payload.len()).sum::<usize>()));
            };
            parser.parse_looking(chunk, &mut seen, look, take).unwrap();
        } else {
            parser.parse(chunk, &mut seen, take).unwrap();
        }
    }
    if look {
        assert!(looked.iter().map(|(origin, _)| *origin).eq(found.iter().map(|(origin, ..)| *origin)));
    }
    (found, n_batches, format!("{seen:?}"), parser.copied())
}

#[test]
fn batches_are_the_events_one_by_one_whether_their_banks_are_copied_or_stay() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.mdf");
    let mdf = [events(), packet(), packet(), event(1, 216), packet(), event(5, 2)].concat();
    std::fs::write(&path, &mdf).unwrap();
    let expected = expected(&mdf);
    let all = Select::default();
    for n in [1, 2, 5, 64] {
        let of = |part: InputPart, together, look| read(part, n, (&all, Apart::Nothing, together, look));
        let (found, _, seen, copied) = of(InputPart::file(&path), false, false);
        let flat = found.iter().map(|(origin, meta, banks)| (origin.event, meta.event, meta.broken, banks.clone()));
        assert_eq!(flat.collect::<Vec<_>>(), expected, "by {n}");
        // A single event with more banks than there is room for.
        assert_eq!(copied > 0, n == 1, "by {n}");
        // From memory the events are read one by one.
        let memory = of(InputPart::memory(&path, mdf.clone()), false, true);
        assert!((&memory.0, &memory.2) == (&found, &seen), "by {n}, from memory");
        let together = of(InputPart::file(&path), true, false);
        assert!((&together.0, &together.2) == (&found, &seen), "by {n}, together");
        assert!(together.3 > copied);
    }
}

#[test]
fn runs_and_numbers_are_chosen_and_kept_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.mdf");
    let mdf = events();
    std::fs::write(&path, &mdf).unwrap();
    let all = Select::default();
    let (whole, ..) = read(InputPart::file(&path), 64, (&all, Apart::Nothing, false, false));
    let selections = [
        all.clone().run(Some(7)),
        all.clone().number(Some(1004)),
        all.clone().places(&"1,3-5,38-39".parse().unwrap()),
        all.clone().window(33, Some(4)),
        all.clone().run(Some(9)),
    ];
    for select in &selections {
        let wanted = |(origin, meta, _): &&(Origin, EventMeta, _)| {
            select.takes(origin.place) && select.takes_numbers(meta.run, meta.event)
        };
        let some: Vec<_> = whole.iter().filter(wanted).cloned().collect();
        for apart in [Apart::Nothing, Apart::Runs] {
            let (found, n_batches, ..) = read(InputPart::file(&path), 7, (select, apart, false, false));
            assert!(found == some, "{select:?}");
            assert!(apart == Apart::Nothing || n_batches >= found.chunk_by(|a, b| a.1.run == b.1.run).count());
        }
    }
}

#[test]
fn a_file_that_cannot_be_followed_gives_what_came_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.mdf");
    let whole = events();
    let (last, second) = (event(39, 290).len(), event(0, 3).len());
    let mut unequal = whole.clone();
    let at = whole.len() - last + 8;
    unequal[at] ^= 1;
    let cases = [
        (whole[..whole.len() - 1].to_vec(), 39),
        (whole[..whole.len() - last + 11].to_vec(), 39),
        (unequal, 39),
        (whole[..=second].to_vec(), 1),
    ];
    for (bytes, n) in cases {
        std::fs::write(&path, &bytes).unwrap();
        let mut chunks = Chunks::new([&path], 64, true, Select::default());
        let (mut parser, mut found) = (Parser::new(true, Select::default()), 0);
        let error = loop {
            match chunks.next_chunk() {
                Ok(Some(chunk)) => {
                    let take = |(view, ..): Part<'_>| {
                        found += view.n_events;
                        Ok::<(), InputError>(())
                    };
                    parser.parse(chunk, &mut Seen::default(), take).unwrap();
                }
                Ok(None) => panic!("no error"),
                Err(error) => break error.to_string(),
            }
        };
        assert_eq!(found, n, "{error}");
        assert!(error.contains("x.mdf") && error.contains(&format!("event {n}")), "{error}");
        assert!(chunks.next_chunk().unwrap().is_none());
        assert_eq!(chunks.read().load(std::sync::atomic::Ordering::Relaxed), 16 + bytes.len() as u64);
    }
}
