//! Files cut into sections: together they are the file, wherever the cuts are.

use std::path::Path;

use ut_decoding::input::{
    Events, InputError, InputPart, Section, count_events, count_readable, sections,
    write_allen_dump,
};

use super::reading::{file, packet_of, ut};

/// Payloads of different lengths, so that events are not all alike.
fn payload(event: usize) -> Vec<u8> {
    vec![event as u8; 24 + 8 * (event % 5)]
}

fn mdf(n: usize) -> Vec<u8> {
    (0..n)
        .flat_map(|event| super::reading::mdf(7, &[ut(1, &payload(event))]))
        .collect()
}

/// Packets of these numbers of events.
fn mep(packets: &[usize]) -> Vec<u8> {
    let firsts = packets
        .iter()
        .scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n)));
    firsts
        .zip(packets)
        .flat_map(|(first, &n)| packet_of(n, |event| payload(first + event)))
        .collect()
}

/// Cuts a file; returns the byte range of each section, the number of events before it, and its
/// number of events.
fn cut(path: &Path, events: u64) -> Vec<(u64, u64, u64, Option<u64>)> {
    let of = |s: Section| (s.bytes.start, s.bytes.end, s.first_event, s.n_events);
    sections(path, events)
        .unwrap()
        .into_iter()
        .map(of)
        .collect()
}

/// Event of the file and payload of its bank, for every event of some parts; the error after which
/// there are no more.
fn read(parts: Vec<InputPart>) -> (Vec<(u64, Vec<u8>)>, Option<InputError>) {
    let (mut events, mut found) = (Events::new(parts), Vec::new());
    loop {
        match events.next_event() {
            Ok(Some(event)) => {
                let payload = event.banks().next().map(|bank| bank.payload.to_vec());
                found.push((event.index, payload.unwrap_or_default()));
            }
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error)),
        }
    }
}

fn read_sections(path: &Path, events: u64) -> (Vec<(u64, Vec<u8>)>, Option<InputError>) {
    let mut all = Vec::new();
    for section in sections(path, events).unwrap() {
        let (mut found, error) = read(vec![InputPart::section(path, section)]);
        all.append(&mut found);
        if error.is_some() {
            return (all, error);
        }
    }
    (all, None)
}

#[test]
fn sections_are_together_the_file_wherever_it_is_cut() {
    for (name, bytes, n) in [
        ("run.mdf", mdf(20), 20u64),
        ("run.mep", mep(&[3, 1, 7, 9]), 20),
    ] {
        let (_folder, path) = file(name, &bytes);
        let (whole, error) = read(vec![InputPart::file(&path)]);
        assert!(error.is_none() && whole.len() == 20);
        for events in [1, 2, 3, 7, 10, 19, 20, 21, u64::MAX] {
            let found = cut(&path, events);
            assert_eq!((found[0].0, found[0].2), (0, 0));
            assert_eq!(found.last().unwrap().1, bytes.len() as u64);
            for pair in found.windows(2) {
                assert_eq!(pair[0].1, pair[1].0, "{name}: bytes");
                assert_eq!(pair[0].2 + pair[0].3.unwrap(), pair[1].2, "{name}: events");
                assert!(pair[0].3.unwrap() >= events, "{name}: {pair:?}");
            }
            assert_eq!(
                found.iter().map(|section| section.3.unwrap()).sum::<u64>(),
                n
            );
            assert!(
                read_sections(&path, events).0 == whole,
                "{name} by {events}"
            );
        }
    }
}

#[test]
fn mdf_is_cut_after_a_number_of_events_and_packets_stay_whole() {
    let (_folder, path) = file("run.mdf", &mdf(20));
    let counts = |events| {
        cut(&path, events)
            .iter()
            .map(|section| section.3.unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(7), [7, 7, 6]);
    assert_eq!(counts(10), [10, 10]);
    assert_eq!(counts(20), [20]);
    // 0 is taken for 1.
    assert_eq!(counts(0), [1; 20]);
    let (_folder, packets) = file("run.mep", &mep(&[3, 1, 7, 9]));
    let counts: Vec<_> = cut(&packets, 4)
        .iter()
        .map(|section| section.3.unwrap())
        .collect();
    assert_eq!(counts, [4, 7, 9]);
    let (_folder, empty) = file("empty.mdf", &[]);
    assert_eq!(cut(&empty, 5), [(0, 0, 0, Some(0))]);
}

#[cfg(feature = "containers")]
#[test]
fn a_file_that_cannot_be_cut_is_one_section_with_an_unknown_number_of_events() {
    let packed = zstd::encode_all(&mdf(20)[..], 1).unwrap();
    let (_folder, path) = file("run.mdf.zst", &packed);
    assert_eq!(cut(&path, 3), [(0, packed.len() as u64, 0, None)]);
    assert_eq!(read_sections(&path, 3).0.len(), 20);
    let mut dump = Vec::new();
    write_allen_dump(&mut dump, [ut(1, &[1; 24])]).unwrap();
    let (_folder, path) = file("7_1.bin", &dump);
    assert_eq!(cut(&path, 3), [(0, dump.len() as u64, 0, None)]);
    assert_eq!(read_sections(&path, 3).0.len(), 1);
}

#[test]
fn damage_is_in_the_last_section_and_found_at_its_place() {
    let good = mdf(20);
    let (_folder, path) = file("good.mdf", &good);
    let at = cut(&path, 12)[1].0;
    let mut sizes = good.clone();
    sizes[at as usize] ^= 1;
    for (name, bytes, readable) in [
        ("sizes.mdf", sizes, 12),
        ("cut.mdf", good[..good.len() - 1].to_vec(), 19),
    ] {
        let (_folder, path) = file(name, &bytes);
        let found = cut(&path, 5);
        let last = found.last().unwrap();
        assert_eq!((last.1, last.3), (bytes.len() as u64, None), "{name}");
        assert!(
            found[..found.len() - 1]
                .iter()
                .all(|section| section.3 == Some(5)),
            "{name}: {found:?}"
        );
        let (events, error) = read_sections(&path, 5);
        let error = error.unwrap();
        let place = error.place().unwrap();
        assert_eq!(
            (events.len() as u64, place.event),
            (readable, readable),
            "{name}: {error}"
        );
        if name == "sizes.mdf" {
            assert_eq!(place.byte, at);
        }
        let part = InputPart::file(&path);
        let (n, error) = count_readable(&part);
        assert!(n == readable && error.is_some(), "{name}: {n}");
        assert!(count_events(&[part]).is_err());
    }
}
