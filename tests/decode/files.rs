//! Hits into files and out of them again: what is known of some events and not of others, several files, and tables that
//! other programs wrote.

use std::path::{Path, PathBuf};

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use ut_decoding::detector::BankVersion;
use ut_decoding::input::Origin;
use ut_decoding::output::diff::{Diff, DiffOptions, diff};
use ut_decoding::output::read::{Cell, EventOfFile, HitReader, Names};
use ut_decoding::output::{Columns, CsvWriter, DetectorColumn, HitFormat, HitStyle, Packing, Provenance, Rows};
use ut_decoding::{DetectorTables, EventMeta, Grouping, LhcbId, UtHits};

const FORMATS: [HitFormat; 3] = [HitFormat::Csv, HitFormat::Numpy, HitFormat::Parquet];

fn tables(version: BankVersion) -> DetectorTables {
    let (boards, geometry) = ut_decoding::synth::detector(version, 1);
    DetectorTables::new(boards, geometry, Grouping::YRows).unwrap()
}

/// What a test says of an event: its hits, all in the first group, file, and number in the file; run and event number.
#[derive(Clone, Copy)]
struct Event {
    hits: usize,
    file: u32,
    place: u64,
    run: Option<u32>,
    number: Option<u64>,
}

/// Hits of strips 0, 1, 2, … of a channel.
fn hits_of(tables: &DetectorTables, channel: u32, events: &[Event]) -> UtHits {
    let n = events.iter().map(|event| event.hits).sum();
    let mut hits = UtHits::with_capacity(events.len(), tables.n_groups(), n);
    let to = hits.begin(events.len(), tables.n_groups()).unwrap();
    let (mut ends, mut at) = (to.offsets[1..].chunks_mut(tables.n_groups()), 0);
    for event in events {
        for i in 0..event.hits {
            to.id[at] = channel + i as u32;
            at += 1;
        }
        ends.next().unwrap().fill(at as u32);
    }
    hits
}

/// Writes batches into a file in `folder`; its path.
fn write(folder: &Path, format: HitFormat, inputs: &[&str], columns: &Columns, batches: &[(u32, &[Event])]) -> PathBuf {
    let tables = tables(BankVersion::V5);
    let path = folder.join(format!("hits.{}", format.name()));
    let inputs: Vec<PathBuf> = inputs.iter().map(PathBuf::from).collect();
    let style = HitStyle::new(&path, format, Packing::Zstd, &inputs, columns.clone()).unwrap();
    let (mut encoder, mut file) = (style.encoder(), style.create(&path).unwrap());
    for (channel, events) in batches {
        let hits = hits_of(&tables, *channel, events);
        let origin = |event: &Event| Origin { file: event.file, event: event.place, place: 0 };
        let meta = |event: &Event| EventMeta { run: event.run, event: event.number, ..EventMeta::default() };
        let (origins, meta): (Vec<_>, Vec<_>) =
            (events.iter().map(origin).collect(), events.iter().map(meta).collect());
        let rows = Rows { files: &[], origins: &origins, meta: &meta, hits: &hits, tables: &tables };
        file.append(encoder.encode(&rows).unwrap()).unwrap();
    }
    file.finish(&Provenance::default()).unwrap();
    path
}

/// A UT channel of a sector that the detector has.
fn channel() -> u32 {
    LhcbId::of(tables(BankVersion::V5).places()[500].channel).0
}

/// File, event and the values of some columns, hit by hit.
fn read(path: &Path, columns: &[&str]) -> Vec<((u64, u64), Vec<Cell>)> {
    let mut reader = HitReader::open(path, &Names::default()).unwrap();
    let at: Vec<usize> =
        columns.iter().map(|name| reader.columns().iter().position(|column| column.name == *name).unwrap()).collect();
    let (mut hits, mut event) = (Vec::new(), EventOfFile::default());
    while reader.next_event(&mut event).unwrap() {
        let n = event.columns[0].len();
        hits.extend((0..n).map(|i| (event.place, at.iter().map(|&at| event.columns[at][i]).collect())));
    }
    hits
}

#[test]
fn what_is_not_known_of_some_events_is_null_for_them_alone_wherever_they_come() {
    let event =
        |place, hits, run: Option<u32>| Event { hits, file: 0, place, run, number: run.map(|run| 10 * u64::from(run)) };
    let batches: [&[Event]; 5] = [
        &[event(0, 2, Some(1)), event(1, 3, Some(2))],
        &[event(2, 1, Some(3)), event(3, 2, None), event(4, 0, None), event(5, 3, Some(4))],
        &[event(6, 2, Some(5))],
        &[event(7, 1, None)],
        &[event(8, 2, Some(6))],
    ];
    let expected: Vec<_> = batches
        .iter()
        .flat_map(|events| events.iter())
        .flat_map(|event| {
            let values = vec![event.run.map(u64::from), event.number, Some(event.place)];
            std::iter::repeat_n(((0, event.place), values), event.hits)
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let columns = Columns { run: true, event_number: true, ..Columns::default() };
    let channel = channel();
    for format in FORMATS {
        let path = write(folder.path(), format, &["a.mdf"], &columns, &batches.map(|events| (channel, events)));
        assert_eq!(read(&path, &["run", "event_number", "event"]), expected, "{}", format.name());
    }
}

#[test]
fn what_the_tables_do_not_say_of_a_hit_is_null_for_it_alone() {
    let event = |place, hits| Event { hits, file: 0, place, run: None, number: None };
    // Channels of no sector: face 1 and module 3 of a stave far from the beam is not there.
    let nowhere = (0..1 << 12).map(|bits| 2 << 21 | bits << 9);
    let tables = tables(BankVersion::V5);
    let nowhere = nowhere.map(ut_decoding::ChannelId).find(|channel| tables.sector_of(*channel).is_none()).unwrap();
    let (here, nowhere) = (channel(), LhcbId::of(nowhere).0);
    let folder = tempfile::tempdir().unwrap();
    let columns = Columns { detector: vec![DetectorColumn::SectorId], ..Columns::default() };
    let (first, second, third) = ([event(0, 2)], [event(1, 1)], [event(2, 2)]);
    // The last two hits of a batch may be of two sectors: strip 511, and what follows.
    let batches = [(here, &first[..]), (nowhere, &second), (here, &third), (here + 511, &[event(3, 2)])];
    for format in FORMATS {
        let path = write(folder.path(), format, &["a.mdf"], &columns, &batches);
        let found: Vec<Cell> = read(&path, &["sector_id"]).into_iter().map(|(_, values)| values[0]).collect();
        let after = tables.sector_of(LhcbId(here + 512).channel()).map(u64::from);
        let sector = Some(500);
        assert_eq!(found, [sector, sector, None, sector, sector, sector, after], "{}", format.name());
    }
}

#[test]
fn events_of_the_same_number_are_kept_apart_by_their_files() {
    let event = |file, place, hits| Event { hits, file, place, run: None, number: None };
    let events = [event(0, 4, 2), event(1, 4, 1), event(2, 4, 3), event(2, 5, 1), event(3, 0, 2)];
    let places = [(0, 4), (0, 4), (1, 4), (2, 4), (2, 4), (2, 4), (2, 5), (3, 0), (3, 0)];
    let folder = tempfile::tempdir().unwrap();
    let columns = Columns { file: true, ..Columns::default() };
    let inputs = ["a,b.mdf", "c \"d\".mdf", "e\rf.mdf", "g\nh.mdf"];
    for format in FORMATS {
        let path = write(folder.path(), format, &inputs, &columns, &[(channel(), &events)]);
        let found: Vec<_> = read(&path, &[]).into_iter().map(|(place, _)| place).collect();
        assert_eq!(found, places, "{}", format.name());
    }
    // Without names, a file begins where the numbers fall.
    let path = folder.path().join("falls.csv");
    std::fs::write(&path, "event,lhcb_id\n4,1\n5,1\n5,2\n1,1\n2,1\n0,1\n0,2\n").unwrap();
    let found: Vec<_> = read(&path, &[]).into_iter().map(|(place, _)| place).collect();
    assert_eq!(found, [(0, 4), (0, 5), (0, 5), (1, 1), (1, 2), (2, 0), (2, 0)]);
}

/// The values of an array in a file of arrays, which has 8 bytes a value.
fn array(path: &Path, name: &str) -> Vec<u64> {
    let bytes = std::fs::read(path).unwrap();
    let find = |what: &[u8], from: usize| from + bytes[from..].windows(what.len()).position(|at| at == what).unwrap();
    let header = find(b"\x93NUMPY", find(name.as_bytes(), 0));
    let start = header + 10 + usize::from(u16::from_le_bytes([bytes[header + 8], bytes[header + 9]]));
    let text = String::from_utf8_lossy(&bytes[header + 10..start]);
    let shape = text.split_once("'shape': (").unwrap().1;
    let n: usize = shape.split_once(',').unwrap().0.parse().unwrap();
    bytes[start..start + 8 * n].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn the_offsets_of_a_file_of_arrays_go_on_from_batch_to_batch() {
    let event = |place, hits| Event { hits, file: 0, place, run: None, number: None };
    let folder = tempfile::tempdir().unwrap();
    let (first, second, third) = ([event(0, 2), event(1, 0)], [event(2, 3)], [event(3, 1)]);
    let batches = [&first[..], &second, &third].map(|events| (channel(), events));
    let path = write(folder.path(), HitFormat::Numpy, &["a.mdf"], &Columns::default(), &batches);
    let groups = tables(BankVersion::V5).n_groups();
    let ends = [2, 2, 5, 6].into_iter().flat_map(|end| std::iter::repeat_n(end, groups));
    assert_eq!(array(&path, "offsets.npy"), std::iter::once(0).chain(ends).collect::<Vec<u64>>());
}

#[test]
fn many_inputs_do_not_fill_the_metadata_of_a_file_of_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hits.npz");
    let inputs = ["a.mdf", "b.mdf"].map(PathBuf::from);
    let style = HitStyle::new(&path, HitFormat::Numpy, Packing::Zstd, &inputs, Columns::default()).unwrap();
    let entries = [("grouping", "y-rows"), ("inputs", "a.mdf\nb.mdf")].map(|(key, value)| (key.into(), value.into()));
    style.create(&path).unwrap().finish(&Provenance { entries: entries.into(), incomplete: None }).unwrap();
    let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
    // Names of the inputs, five characters each; metadata as long as "grouping".
    assert!(text.contains("'<U5', 'fortran_order': False, 'shape': (2,)") && text.contains("'<U8'"));
    assert!(text.contains("'shape': (2, 2)"), "grouping and complete");
}

#[test]
fn a_row_group_leaves_no_index_of_its_pages_behind() {
    let folder = tempfile::tempdir().unwrap();
    let events = [Event { hits: 2, file: 0, place: 0, run: None, number: None }];
    let batches = [(channel(), &events[..]); 2];
    let path = write(folder.path(), HitFormat::Parquet, &["a.mdf"], &Columns::default(), &batches);
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let groups = reader.metadata().row_groups();
    assert_eq!(groups.len(), 2);
    for column in groups.iter().flat_map(RowGroupMetaData::columns) {
        assert_eq!((column.offset_index_offset(), column.column_index_offset()), (None, None));
        // What readers pass over row groups by.
        assert!(column.statistics().is_some());
    }
}

#[test]
fn partitions_by_run_have_no_column_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let columns = Columns { run: true, event_number: true, ..Columns::default() };
    for format in [HitFormat::Csv, HitFormat::Parquet] {
        let path = folder.path().join(format!("hits.{}", format.name()));
        let style = HitStyle::new(&path, format, Packing::Zstd, &[], columns.clone()).unwrap().without_run().unwrap();
        style.create(&path).unwrap().finish(&Provenance::default()).unwrap();
        let reader = HitReader::open(&path, &Names::default()).unwrap();
        let names: Vec<&str> = reader.columns().iter().map(|column| column.name).collect();
        assert!(!names.contains(&"run") && names.contains(&"event_number"), "{}: {names:?}", format.name());
    }
}

#[test]
fn zeros_of_text_keep_their_sign() {
    let mut hits = UtHits::with_capacity(1, 1, 3);
    let to = hits.begin(1, 1).unwrap();
    to.dx_dy[1] = -0.0;
    to.offsets[1] = 3;
    let mut writer = CsvWriter::new(Vec::new()).unwrap();
    writer.write(0, &hits).unwrap();
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    let slopes: Vec<&str> = text.lines().skip(1).map(|row| row.split(',').nth(7).unwrap()).collect();
    assert_eq!(slopes, ["0", "-0", "0"]);
}

#[test]
fn the_extension_says_the_format_in_capitals_too() {
    for (path, format) in [("A.CSV", HitFormat::Csv), ("a.Npz", HitFormat::Numpy), ("a.b.PARQUET", HitFormat::Parquet)]
    {
        assert_eq!(HitFormat::of(Path::new(path)).unwrap(), format);
    }
    assert!(HitFormat::of(Path::new("csv")).is_err());
}

/// Compares two tables as text.
fn compare(folder: &Path, a: &str, b: &str, first: usize) -> Diff {
    let [mut a, mut b] = [("a", a), ("b", b)].map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        HitReader::open(&path, &Names::default()).unwrap()
    });
    diff(&mut a, &mut b, DiffOptions { any_order: false, first }).unwrap()
}

#[test]
fn floats_differ_by_how_far_they_are_apart_over_zero_too_and_without_end_where_one_is_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let table = |values: &str| format!("event,lhcb_id,weight\n0,1,{values}\n");
    let tiny = f32::from_bits(2);
    for (a, b, most, ulps) in [
        ("1", "nan", f64::INFINITY, None),
        ("inf", "1", f64::INFINITY, None),
        ("0", "-0", 0.0, Some(0)),
        (&*format!("{tiny:e}"), &*format!("-{tiny:e}"), f64::from(tiny) * 2.0, Some(4)),
    ] {
        let found = compare(folder.path(), &table(a), &table(b), 1).columns[0];
        assert_eq!((found.hits, found.most), (1, most), "{a} {b}");
        assert!(ulps.is_none_or(|ulps| found.most_ulps == ulps), "{a} {b}: {found:?}");
    }
}

#[test]
fn another_order_is_told_where_it_is_one_and_values_are_those_of_the_same_hit() {
    let folder = tempfile::tempdir().unwrap();
    let table = |rows: &[(u64, u32)]| {
        let rows: Vec<String> = rows.iter().map(|(id, weight)| format!("0,{id},{weight}\n")).collect();
        format!("event,lhcb_id,weight\n{}", rows.concat())
    };
    // Ids that do not rise in either, of which B lacks one and has another: no other order.
    let a = table(&[(9, 1), (3, 2), (7, 3), (5, 4)]);
    let found = compare(folder.path(), &a, &table(&[(9, 1), (3, 2), (8, 3), (5, 4)]), 9);
    assert_eq!((found.other_order_events, found.different_events, found.first.len()), (0, 1, 2));
    assert_eq!((found.layers[4].same, found.layers[4].only_a, found.layers[4].only_b), (3, 1, 1));
    // The same hits turned round.
    let found = compare(folder.path(), &a, &table(&[(5, 4), (7, 3), (3, 2), (9, 1)]), 9);
    assert_eq!((found.other_order_events, found.columns[0].hits, found.layers[4].same), (1, 0, 4));
    // No more are kept than were asked for.
    assert_eq!(compare(folder.path(), &a, &table(&[(1, 1), (2, 1)]), 3).first.len(), 3);
}

#[test]
fn events_are_matched_by_file_and_number() {
    let folder = tempfile::tempdir().unwrap();
    let a = "event,lhcb_id,file\n0,1,x\n3,1,x\n0,1,y\n";
    let b = "event,lhcb_id,file\n0,1,x\n0,1,y\n3,1,y\n";
    let found = compare(folder.path(), a, b, 9);
    assert_eq!((found.same_events, found.different_events, found.only_a_events, found.only_b_events), (2, 0, 1, 1));
    assert_eq!(found.first.iter().map(|first| first.place).collect::<Vec<_>>(), [(0, 3), (1, 3)]);
}

#[test]
fn tables_of_text_may_have_blanks_and_words_for_flags_and_no_row_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hits.csv");
    std::fs::write(&path, "event , lhcb_id,flipped, run\r\n 1, 2 ,True,\r\n1,3, false ,4\r\n1,4,true,\t\r\n").unwrap();
    let row = |id, flipped, run| ((0, 1), vec![Some(id), Some(flipped), run]);
    assert_eq!(read(&path, &["lhcb_id", "flipped", "run"]), [row(2, 1, None), row(3, 0, Some(4)), row(4, 1, None)]);
    // A device of zeros has no end of line; quotes that are not closed may have many.
    for endless in [vec![b'7'; 3 << 20], [b"1,\"".to_vec(), b"777\n".repeat(3 << 18)].concat()] {
        std::fs::write(&path, [b"event,lhcb_id\n1,2\n".to_vec(), endless].concat()).unwrap();
        let mut reader = HitReader::open(&path, &Names::default()).unwrap();
        let mut event = EventOfFile::default();
        let error = std::iter::from_fn(|| Some(reader.next_event(&mut event))).find_map(Result::err).unwrap();
        assert!(error.to_string().contains("a row of more than 1 MiB"), "{error}");
    }
    std::fs::write(&path, [b"event,\"lhcb_id\n".to_vec(), b"777\n".repeat(3 << 18)].concat()).unwrap();
    let error = HitReader::open(&path, &Names::default()).err().unwrap().to_string();
    assert!(error.contains("a row of more than 1 MiB"), "{error}");
    // Many rows are no long one.
    std::fs::write(&path, [b"event,lhcb_id\n".to_vec(), b"1,2\n".repeat(3 << 18)].concat()).unwrap();
    assert_eq!(read(&path, &["lhcb_id"])[0].1.len(), 1);
}
