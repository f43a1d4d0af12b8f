//! Sums of events that are made here, of which everything is known.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Detector, Gathered, Gatherer, Part, Sums};
use ut_data::detector::BankVersion;
use ut_data::input::{Bank, EventHeader, InputPart, MdfWriter, Select};
use ut_data::{Count, DecodeOptions, DetectorTables, Grouping, synth};
use ut_kernels::bank::v5::COUNT_BYTES;
use ut_report::{Against, TroubleSum};

fn tables() -> DetectorTables {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    DetectorTables::new(boards, geometry, Grouping::YRows).unwrap()
}

/// Events with these numbers, each with one UT bank.
fn mdf(numbers: &[u64], source_id: u32, version: u8, payload: &[u8]) -> Vec<u8> {
    let mut writer = MdfWriter::new(Vec::new());
    for &number in numbers {
        let header = EventHeader { run: 1, number: Some(number), ..EventHeader::default() };
        writer.write(&header, [Bank { kind: 66, version: Some(version), source_id, payload }]).unwrap();
    }
    writer.finish().unwrap()
}

fn gather(tables: &DetectorTables, files: &[(&str, Vec<u8>)], keep_going: bool) -> Gathered {
    let gatherer = Gatherer {
        tables,
        options: DecodeOptions::default(),
        threads: 1,
        against: Against::Number,
        check: false,
        keep_going,
        first_place: 0,
    };
    let parts: Vec<InputPart> = files.iter().map(|(name, bytes)| InputPart::memory(name, bytes.clone())).collect();
    gatherer.gather(&parts, &Select::default(), |_, _| true).unwrap()
}

#[test]
fn numbers_of_events_may_fall_and_troubles_have_their_board_and_how_often() {
    let tables = tables();
    let is_free = |slot: &usize| !tables.boards().lanes[*slot].is_connected();
    let is_used = |slot: &usize| tables.boards().strips_per_hybrid[slot / 6] > 0;
    let free = (0..tables.slots().len()).filter(is_free).find(is_used).unwrap();
    let (board, lane) = ((free / 6) as u32, free % 6);
    // Three hits on a lane that nothing is connected to.
    let mut payload = [0; 64];
    payload[COUNT_BYTES[lane]] = 3;
    let mut broken = mdf(&[4, 6], board, 4, &payload);
    // The magic number of the last event's UT bank.
    let at = broken.len() - 64 - 8;
    assert_eq!(broken[at..at + 2], [0xCB, 0xCB]);
    broken[at] = 0;
    let files = [("a.mdf", mdf(&[9, 3, 7], board, 4, &payload)), ("b.mdf", broken)];
    let gathered = gather(&tables, &files, false);
    assert_eq!((gathered.numbers, gathered.view.events), (Some((3, 9)), 5));
    let trouble = |count: Count, board, n, first| TroubleSum { kind: count as usize, board, count: n, first };
    let mut expected = [trouble(Count::BrokenEvent, None, 1, 4), trouble(Count::UnconnectedHits, Some(board), 12, 0)];
    expected.sort_by_key(|trouble| trouble.kind);
    assert_eq!(gathered.view.troubles, expected);
}

#[test]
fn a_file_that_breaks_off_ends_the_report_unless_it_is_to_go_on() {
    let tables = tables();
    let whole = mdf(&[1, 2], 0x2801, 4, &[0; 24]);
    let files = [("a.mdf", whole[..whole.len() - 9].to_vec()), ("b.mdf", whole)];
    for (keep_going, events) in [(false, 1), (true, 3)] {
        let gathered = gather(&tables, &files, keep_going);
        assert_eq!((gathered.view.events, gathered.failures.len()), (events, 1), "{keep_going}");
    }
}

#[test]
fn a_part_is_not_added_twice_whatever_it_was_added_to_before() {
    let folder = tempfile::tempdir().unwrap();
    let detector = Arc::new(Detector { tables: tables(), boards: None, geometry: None });
    let of = |name: &str, numbers: &[u64], shard: (u64, u64), section: Option<[u64; 3]>| {
        let files = [folder.path().join(name)];
        std::fs::write(&files[0], [0; 9]).unwrap();
        let bytes = mdf(numbers, 0x2801, 4, &[0; 24]);
        let gathered = gather(&detector.tables, &[(name, bytes)], false);
        let part = Part::of(&files, (shard, String::new()), section);
        assert!(part.is_some());
        Sums::new(&files, Arc::clone(&detector), DecodeOptions::default(), gathered).of_part(part)
    };
    let packed = |sums: &Sums| Sums::from_bytes(&sums.to_bytes().unwrap()[..], "x").unwrap();
    let all = [
        of("a.mdf", &[1, 2], (1, 2), None),
        of("a.mdf", &[3], (2, 2), None),
        of("a.mdf", &[1, 2, 3], (1, 1), None),
        of("b.mdf", &[4, 5], (1, 1), Some([0, 5, 0])),
        of("b.mdf", &[6, 7], (1, 1), Some([5, 9, 2])),
        // Another file of this name, and the same one again.
        of("b.mdf", &[8, 9], (1, 1), Some([0, 5, 0])),
        of("b.mdf", &[4, 5], (1, 1), Some([0, 5, 4])),
    ];
    let called = ["part 1 of 2 of a.mdf", "part 2 of 2 of a.mdf", "a.mdf", "bytes 0 to 5 of b.mdf"];
    let mut sum = all[0].clone();
    for one in &all[1..] {
        sum.add(&packed(one)).unwrap();
        sum = packed(&sum);
    }
    let before = sum.to_bytes().unwrap();
    for (i, one) in all.iter().enumerate() {
        let mut more = one.clone();
        let error = more.add(&sum).unwrap_err().to_string();
        assert_eq!(sum.add(one).unwrap_err().to_string(), error);
        let expected = called.get(i).map(|called| format!("both are sums of {called}, which would count twice"));
        assert!(expected.is_none_or(|expected| error == expected), "{error}");
        assert_eq!(more.view.events, one.view.events);
    }
    assert!(sum.to_bytes().unwrap() == before);
    // Nothing, and what nobody knows, may come as often as it wants.
    let nothing = of("c.mdf", &[], (1, 1), None);
    let unknown = of("c.mdf", &[1], (1, 1), None).of_part(None);
    for _ in 0..2 {
        sum.add(&nothing).unwrap();
        sum.add(&unknown).unwrap();
    }
    assert!(Part::of(&[folder.path().join("absent")], ((1, 1), String::new()), None).is_none());
    assert!(Part::of(&[folder.path().to_path_buf()], ((1, 1), String::new()), None).is_none());
}

#[test]
fn sums_of_parts_keep_what_a_page_says_beside_the_numbers() {
    let detector = Arc::new(Detector { tables: tables(), boards: None, geometry: None });
    let sums = |files: &[(&str, Vec<u8>)]| {
        let paths: Vec<PathBuf> = files.iter().map(|(name, _)| name.into()).collect();
        let gathered = gather(&detector.tables, files, true);
        Sums::new(&paths, Arc::clone(&detector), DecodeOptions::default(), gathered)
    };
    let whole = mdf(&[5, 8], 0x2801, 4, &[0; 24]);
    let mut damaged = mdf(&[2, 6], 0x2801, 3, &[0; 24]);
    let at = damaged.len() - 24 - 8;
    damaged[at] = 0;
    damaged.extend(&whole[..whole.len() / 2 - 9]);
    let (one, other) = (sums(&[("a.mdf", whole.clone()), ("b.mdf", whole)]), sums(&[("b.mdf", damaged)]));
    assert_eq!((one.warnings.len(), one.failures.len(), other.warnings.len(), other.failures.len()), (0, 0, 1, 1));
    let packed = |sums: &Sums| Sums::from_bytes(&sums.to_bytes().unwrap()[..], "x").unwrap();
    for (first, second) in [(&one, &other), (&other, &one)] {
        let mut all = packed(first);
        all.add(&packed(second)).unwrap();
        let mut names: Vec<_> = all.files.iter().map(|file| file.display().to_string()).collect();
        names.sort();
        assert_eq!(names, ["a.mdf", "b.mdf"]);
        assert_eq!((all.numbers, all.measured), (Some((2, 8)), one.measured + other.measured));
        assert_eq!((&all.warnings, &all.failures), (&other.warnings, &other.failures));
        assert_eq!(all.versions[Path::new("b.mdf")], [(Some(3), 1), (Some(4), 2)].into());
        assert_eq!(all.troubles(), other.failures);
    }
    // A name is kept as it is.
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt;
        let name = PathBuf::from(OsString::from_vec(b"run-\xff.mdf".to_vec()));
        let gathered = gather(&detector.tables, &[], true);
        let detector = Arc::new(Detector { boards: Some(name.clone()), ..(*detector).clone() });
        let sums = Sums::new(std::slice::from_ref(&name), detector, DecodeOptions::default(), gathered);
        let read = packed(&sums);
        assert_eq!((&read.files[..], &read.detector.boards), (&[name.clone()][..], &Some(name)));
        // Two names that look alike are two files.
        let called = |name: &[u8], bytes: Vec<u8>| {
            let mut gathered = gather(&tables(), &[("x", bytes)], true);
            gathered.seen.files[0].file = OsString::from_vec(name.to_vec()).into();
            Sums::new(&[], Arc::clone(&one.detector), DecodeOptions::default(), gathered)
        };
        let mut all = called(b"\xff", mdf(&[1], 0x2801, 4, &[0; 24]));
        all.add(&called(b"\xfe", mdf(&[1], 0x2801, 3, &[0; 24]))).unwrap();
        assert!(all.wrong_version().is_some() && packed(&all).wrong_version().is_some());
    }
    // The third part adds to what the second said of the same file.
    let mut all = one.clone();
    all.add(&one).unwrap();
    assert_eq!((all.versions[Path::new("b.mdf")][&Some(4)], all.wrong_version()), (4, None));
    // Of a part whose banks are all of the other version, that is what is wrong.
    let mut all = one;
    all.add(&sums(&[("c.mdf", mdf(&[1], 0x2801, 3, &[0; 24]))])).unwrap();
    assert_eq!(all.troubles().len(), 1);
    assert!(all.troubles()[0].contains("c.mdf"), "{:?}", all.troubles());
}
