//! Sums of events that are made here, of which everything is known.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use ut_decoding::detector::BankVersion;
use ut_decoding::input::{Bank, EventHeader, InputPart, MdfWriter, Select};
use ut_decoding::views::{Detector, Gathered, Gatherer, Sums};
use ut_decoding::{CpuDecoder, DecodeOptions, DetectorTables, Grouping, synth};

fn tables() -> DetectorTables {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    DetectorTables::new(boards, geometry, Grouping::YRows).unwrap()
}

/// Makes events with these numbers, each with one UT bank.
fn mdf(numbers: &[u64], source_id: u32, version: u8, payload: &[u8]) -> Vec<u8> {
    let mut writer = MdfWriter::new(Vec::new());
    for &number in numbers {
        let header = EventHeader {
            run: 1,
            number: Some(number),
            ..EventHeader::default()
        };
        writer
            .write(
                &header,
                [Bank {
                    kind: 66,
                    version: Some(version),
                    source_id,
                    payload,
                }],
            )
            .unwrap();
    }
    writer.finish().unwrap()
}

fn gather(tables: &DetectorTables, files: &[(&str, Vec<u8>)]) -> Gathered {
    let gatherer = Gatherer {
        check: false,
        keep_going: true,
        ..Gatherer::new(tables, DecodeOptions::default())
    };
    let parts: Vec<InputPart> = files
        .iter()
        .map(|(name, bytes)| InputPart::memory(name, bytes.clone()))
        .collect();
    gatherer
        .gather(&parts, &Select::default(), CpuDecoder::new, |_, _| true)
        .unwrap()
}

#[test]
fn sums_of_parts_keep_the_facts_of_a_page() {
    let detector = Arc::new(Detector {
        tables: tables(),
        boards: None,
        geometry: None,
    });
    let sums = |files: &[(&str, Vec<u8>)]| {
        let paths: Vec<PathBuf> = files.iter().map(|(name, _)| name.into()).collect();
        let gathered = gather(&detector.tables, files);
        Sums::new(
            &paths,
            Arc::clone(&detector),
            DecodeOptions::default(),
            gathered,
        )
    };
    let whole = mdf(&[5, 8], 0x2801, 4, &[0; 24]);
    let mut damaged = mdf(&[2, 6], 0x2801, 3, &[0; 24]);
    let at = damaged.len() - 24 - 8;
    damaged[at] = 0;
    damaged.extend(&whole[..whole.len() / 2 - 9]);
    let (one, other) = (
        sums(&[("a.mdf", whole.clone()), ("b.mdf", whole)]),
        sums(&[("b.mdf", damaged)]),
    );
    assert_eq!(
        (
            one.warnings.len(),
            one.failures.len(),
            other.warnings.len(),
            other.failures.len()
        ),
        (0, 0, 1, 1)
    );
    let packed = |sums: &Sums| Sums::from_bytes(&sums.to_bytes().unwrap()[..], "x").unwrap();
    for (first, second) in [(&one, &other), (&other, &one)] {
        let mut all = packed(first);
        all.add(&packed(second)).unwrap();
        let mut names: Vec<_> = all
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        names.sort();
        assert_eq!(names, ["a.mdf", "b.mdf"]);
        assert_eq!(
            (all.view.numbers(), all.measured),
            (Some((2, 8)), one.measured + other.measured)
        );
        assert_eq!(
            (&all.warnings, &all.failures),
            (&other.warnings, &other.failures)
        );
        assert_eq!(all.versions[OsStr::new("b.mdf")], [Some(3), Some(4)].into());
        assert_eq!(all.troubles(), other.failures);
        // Of the other file, a bank has another version and one was damaged.
        let losses: Vec<_> = all
            .losses()
            .map(|(file, loss)| (file, loss.banks.lost, loss.banks.of))
            .collect();
        assert_eq!(
            losses,
            [(OsStr::new("a.mdf"), 0, 2), (OsStr::new("b.mdf"), 2, 4)]
        );
        assert_eq!((all.loss().banks.lost, all.loss().banks.of), (2, 6));
    }
    // In any order, the sums have the same bytes.
    let parts = [[1, 2], [5, 6], [9, 9]]
        .map(|numbers| sums(&[("a.mdf", mdf(&numbers, 0x2801, 3, &[1; 24]))]));
    let added = |order: [usize; 3]| {
        let mut all = parts[order[0]].clone();
        order[1..]
            .iter()
            .for_each(|&part| all.add(&parts[part]).unwrap());
        all.to_bytes().unwrap()
    };
    let bytes = added([0, 1, 2]);
    assert!(
        [[0, 2, 1], [1, 2, 0], [2, 1, 0]]
            .into_iter()
            .all(|order| added(order) == bytes)
    );
    // A name is kept as it is.
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt;
        let name = PathBuf::from(OsString::from_vec(b"run-\xff.mdf".to_vec()));
        let gathered = gather(&detector.tables, &[]);
        let detector = Arc::new(Detector {
            boards: Some(name.clone()),
            ..(*detector).clone()
        });
        let sums = Sums::new(
            std::slice::from_ref(&name),
            detector,
            DecodeOptions::default(),
            gathered,
        );
        let read = packed(&sums);
        assert_eq!(
            (&read.files[..], &read.detector.boards),
            (&[name.clone().into()][..], &Some(name))
        );
    }
    assert_eq!(one.wrong_version(), None);
    // If all banks of a part have the other version, the part has that error.
    let mut all = one;
    all.add(&sums(&[("c.mdf", mdf(&[1], 0x2801, 3, &[0; 24]))]))
        .unwrap();
    assert_eq!(all.troubles().len(), 1);
    assert!(all.troubles()[0].contains("c.mdf"), "{:?}", all.troubles());
}
