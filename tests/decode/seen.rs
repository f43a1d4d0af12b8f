//! Findings in files while they are read, and rare contents of packets.

use ut_decoding::EventMeta;
use ut_decoding::input::{EventHeader, Events, InputPart, MdfWriter, MepWriter, Odin, Seen};

use super::reading::{Found, How, bank, odin, read_all};

/// Reads the events, and what was seen in each chunk.
fn read(name: &str, bytes: &[u8]) -> (Vec<(EventMeta, Vec<Found>)>, Vec<Seen>) {
    let read = read_all(InputPart::memory(name, bytes.to_vec()), 3, &How::default());
    (
        read.events()
            .into_iter()
            .map(|(_, meta, banks)| (meta, banks))
            .collect(),
        read.seen,
    )
}

/// Packets of two events each, whose runs are 1, 1, 2, 1, 2, 2: ODIN, twice with other numbers, two
/// sources of the UT with payloads of one length, and a source of another detector.
fn packets() -> Vec<u8> {
    let mut writer = MepWriter::new(Vec::new(), 2);
    for (e, run) in [1, 1, 2, 1, 2, 2].into_iter().enumerate() {
        let (first, second) = (odin(run, 100 + e as u64), odin(9, 900));
        let payloads = [1, 2, 3].map(|i| [10 * i + e as u8; 24]);
        let banks = [
            bank(16, 7, 0, &first),
            bank(66, 4, 0x2801, &payloads[0]),
            bank(9, 2, 0x1000, &payloads[2]),
            bank(66, 4, 0x2802, &payloads[1]),
            bank(16, 7, 1, &second),
        ];
        writer.write(e as u64, banks).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn all_packets_behind_their_padding_are_read_with_the_first_odin_and_the_number_of_other_banks() {
    let (events, seen) = read("a.mep", &packets());
    assert_eq!(events.len(), 6);
    for (e, ((meta, banks), run)) in events.into_iter().zip([1, 1, 2, 1, 2, 2]).enumerate() {
        let odin = Odin::of(Some(7), &odin(run, 100 + e as u64));
        let expected = EventMeta {
            run: Some(run),
            event: Some(100 + e as u64),
            other_banks: 3,
            odin,
            ..EventMeta::default()
        };
        let bank = |i: u8| {
            (
                0x2800 + u32::from(i),
                66,
                Some(4),
                vec![10 * i + e as u8; 24],
            )
        };
        assert_eq!((meta, banks), (expected, vec![bank(1), bank(2)]));
    }
    assert_eq!(
        seen.iter()
            .map(|seen| (seen.events, seen.measured))
            .collect::<Vec<_>>(),
        [(2, 2); 3]
    );
    let mut reader = Events::new([InputPart::memory("a.mep", packets())]);
    let event = reader.next_event().unwrap().unwrap();
    // Both sources of ODIN banks are read. The source that is skipped sends other banks.
    assert_eq!(
        (event.entries.len(), event.skipped, event.meta().other_banks),
        (4, 1, 3)
    );
}

#[test]
fn sources_may_lie_in_another_order_than_the_table_names_them() {
    let mut bytes = packets();
    bytes.truncate(bytes.len().min(4096));
    let straight = read("a.mep", &bytes).0;
    // The places of the UT's two sources, the second and the fourth of five, and their bytes, which
    // are as many.
    let place = |i: usize| 8 + 2 * 6 + 4 * i;
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    };
    let [a, next, b, end] = [1, 2, 3, 4].map(|i| 4 * word(&bytes, place(i)));
    assert_eq!(next - a, end - b);
    for i in 0..next - a {
        bytes.swap(a + i, b + i);
    }
    for i in 0..4 {
        bytes.swap(place(1) + i, place(3) + i);
    }
    assert_eq!(read("a.mep", &bytes).0, straight);
}

#[test]
fn events_banks_by_version_and_at_most_16_damages_are_counted() {
    let mut writer = MdfWriter::new(Vec::new());
    for e in 0..20 {
        let header = EventHeader {
            run: 1,
            number: Some(e),
            ..EventHeader::default()
        };
        // Neighbours of one version, and of others.
        let versions: &[u8] = if e == 0 { &[4, 4, 5, 4] } else { &[4] };
        let payload = [0; 8];
        writer
            .write(
                &header,
                versions
                    .iter()
                    .map(|&version| bank(66, version, 1, &payload)),
            )
            .unwrap();
    }
    let good = writer.finish().unwrap();
    let size = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    };
    let mut bad = good.clone();
    let mut at = 0;
    while at < bad.len() {
        bad[at + 12] ^= 1;
        at += size(&good, at);
    }
    let seen = |bytes: &[u8]| {
        let mut all = Seen::default();
        read("a.mdf", bytes)
            .1
            .into_iter()
            .for_each(|seen| all.merge(seen));
        all
    };
    let all = seen(&good);
    assert_eq!(
        (all.events, all.measured, all.generated, all.damages.len()),
        (20, 20, 0, 0)
    );
    assert_eq!(all.files.len(), 1);
    assert_eq!(
        all.files[0].versions.iter().collect::<Vec<_>>(),
        [(&Some(4), &22), (&Some(5), &1)]
    );
    let all = seen(&bad);
    assert_eq!((all.events, all.measured, all.damages.len()), (20, 0, 16));
}
