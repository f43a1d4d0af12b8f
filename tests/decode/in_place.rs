//! MDF whose banks are decoded where they were read: the same batches as event by event, and as
//! copied together.

use ut_decoding::input::{Events, InputPart};

use super::reading::{Found, How, bank, file, mdf, odin, packet_of, read_all};

/// Makes an event of [`events`] with `n` UT banks, an ODIN bank, and a bank of another detector.
/// Every third event belongs to another run, and every fourth has a wrong checksum.
fn event(e: usize, n: usize) -> Vec<u8> {
    let odin = odin(7 + u32::from(e % 3 == 2), 1000 + e as u64);
    let payloads: Vec<Vec<u8>> = (0..n)
        .map(|b| vec![(e + b) as u8; (e * 7919 + b * 613) % 91])
        .collect();
    let of_ut = payloads
        .iter()
        .enumerate()
        .map(|(b, p)| bank(66 + u8::from(b % 5 == 4), 4, 0x2800 + b as u32, p));
    let mut banks: Vec<_> = of_ut.collect();
    banks.insert(n / 2, bank(16, 7, 0, &odin));
    banks.push(bank(9, 2, 0x1000, &[9; 5]));
    let mut bytes = mdf(7, &banks);
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

/// Makes events of 0 to 290 banks, more than there is room for in front of an event.
fn events() -> Vec<u8> {
    (0..40)
        .flat_map(|e| event(e, [3, 0, 216, 1, 290][e % 5]))
        .collect()
}

/// Makes a packet of three events, in a frame of MDF.
fn packet() -> Vec<u8> {
    let body = packet_of(3, |_| vec![1; 24]);
    let mut frame = (20 + body.len() as u32).to_le_bytes().repeat(3);
    frame.extend([0, 0, 0, 0, 0, 0, 2, 0]);
    frame.extend(body);
    frame
}

/// Returns the events as a reader gives them one at a time.
fn expected(mdf: &[u8]) -> Vec<(u64, Option<u64>, bool, Vec<Found>)> {
    let mut reader = Events::new([InputPart::memory("x.mdf", mdf.to_vec())]);
    let mut all = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let ut = event.banks().filter(|bank| matches!(bank.kind, 66..=69));
        let banks = ut
            .map(|bank| {
                (
                    bank.source_id,
                    bank.kind,
                    bank.version,
                    bank.payload.to_vec(),
                )
            })
            .collect();
        all.push((event.index, event.number, event.damage.is_some(), banks));
    }
    all
}

#[test]
fn batches_hold_the_same_events_whether_banks_are_copied_or_in_place() {
    let mdf = [
        events(),
        packet(),
        packet(),
        event(1, 216),
        packet(),
        event(5, 2),
    ]
    .concat();
    let (_folder, path) = file("x.mdf", &mdf);
    let expected = expected(&mdf);
    for n in [1, 2, 5, 64] {
        let of = |part: InputPart, together, look| {
            read_all(
                part,
                n,
                &How {
                    together,
                    look,
                    ..How::default()
                },
            )
        };
        let file = of(InputPart::file(&path), false, false);
        let found = file.events();
        let flat = found
            .iter()
            .map(|(origin, meta, banks)| (origin.event, meta.event, meta.broken, banks.clone()));
        assert_eq!(flat.collect::<Vec<_>>(), expected, "by {n}");
        // A single event with more banks than there is room for.
        assert_eq!(file.copied > 0, n == 1, "by {n}");
        // From memory the events are read one by one.
        let memory = of(InputPart::memory(&path, mdf.clone()), false, true);
        let together = of(InputPart::file(&path), true, false);
        for (other, what) in [(&memory, "from memory"), (&together, "together")] {
            assert!(
                (other.events(), other.seen()) == (found.clone(), file.seen()),
                "by {n}, {what}"
            );
        }
        assert!(together.copied > file.copied);
    }
}
