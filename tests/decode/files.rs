//! Hits written to files: facts known for some events only, several files, and the metadata of each
//! format.

use std::path::{Path, PathBuf};

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use ut_decoding::detector::BankVersion;
use ut_decoding::input::Origin;
use ut_decoding::output::{Columns, DetectorColumn, HitFormat, HitStyle, Provenance, Rows};
use ut_decoding::{DetectorTables, EventMeta, LhcbId, UtHits};

use crate::suite::events::tables;
use crate::suite::table;

const FORMATS: [HitFormat; 2] = [HitFormat::Csv, HitFormat::Parquet];

/// Event of a test: its hits, all in the first group, file, and number in the file; run and event
/// number.
#[derive(Clone, Copy)]
struct Event {
    hits: usize,
    file: u32,
    place: u64,
    run: Option<u32>,
    number: Option<u64>,
}

/// Makes hits on strips 0, 1, 2, … of a channel.
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
fn write(
    folder: &Path,
    format: HitFormat,
    inputs: &[&str],
    columns: &Columns,
    batches: &[(u32, &[Event])],
) -> PathBuf {
    let tables = tables(BankVersion::V5);
    let path = folder.join(format!("hits.{}", format.name()));
    let inputs: Vec<PathBuf> = inputs.iter().map(PathBuf::from).collect();
    let style = HitStyle::new(&path, format, &inputs, columns.clone()).unwrap();
    let (mut encoder, mut file) = (style.encoder(), style.create(&path).unwrap());
    for (channel, events) in batches {
        let hits = hits_of(&tables, *channel, events);
        let origin = |event: &Event| Origin {
            file: event.file,
            event: event.place,
            place: 0,
        };
        let meta = |event: &Event| EventMeta {
            run: event.run,
            event: event.number,
            ..EventMeta::default()
        };
        let (origins, meta): (Vec<_>, Vec<_>) = (
            events.iter().map(origin).collect(),
            events.iter().map(meta).collect(),
        );
        let rows = Rows {
            files: &[],
            origins: &origins,
            meta: &meta,
            hits: &hits,
            tables: &tables,
        };
        file.append(encoder.encode(&rows).unwrap()).unwrap();
    }
    file.finish(&Provenance::default()).unwrap();
    path
}

/// Returns a UT channel of a sector that the detector has.
fn channel() -> u32 {
    LhcbId::of(tables(BankVersion::V5).places()[500].channel).0
}

/// Reads the values of some columns, hit by hit.
fn read<const N: usize>(path: &Path, columns: [&str; N]) -> Vec<[Option<u64>; N]> {
    let table = table::read(path);
    let value = |name: &str, i: usize| table[name][i].as_ref().map(|text| text.parse().unwrap());
    (0..table["event"].len())
        .map(|i| columns.map(|name| value(name, i)))
        .collect()
}

#[test]
fn unknown_facts_are_null_for_exactly_the_events_that_lack_them() {
    let event = |place, hits, run: Option<u32>| Event {
        hits,
        file: 0,
        place,
        run,
        number: run.map(|run| 10 * u64::from(run)),
    };
    let batches: [&[Event]; 5] = [
        &[event(0, 2, Some(1)), event(1, 3, Some(2))],
        &[
            event(2, 1, Some(3)),
            event(3, 2, None),
            event(4, 0, None),
            event(5, 3, Some(4)),
        ],
        &[event(6, 2, Some(5))],
        &[event(7, 1, None)],
        &[event(8, 2, Some(6))],
    ];
    let expected: Vec<_> = batches
        .iter()
        .flat_map(|events| events.iter())
        .flat_map(|event| {
            let values = [event.run.map(u64::from), event.number, Some(event.place)];
            std::iter::repeat_n(values, event.hits)
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let columns = Columns {
        run: true,
        event_number: true,
        ..Columns::default()
    };
    let channel = channel();
    for format in FORMATS {
        let path = write(
            folder.path(),
            format,
            &["a.mdf"],
            &columns,
            &batches.map(|events| (channel, events)),
        );
        assert_eq!(
            read(&path, ["run", "event_number", "event"]),
            expected,
            "{}",
            format.name()
        );
    }
}

#[test]
fn values_missing_from_the_tables_are_null_for_exactly_those_hits() {
    let event = |place, hits| Event {
        hits,
        file: 0,
        place,
        run: None,
        number: None,
    };
    // Channels of no sector: face 1 and module 3 of a stave far from the beam is not there.
    let nowhere = (0..1 << 12).map(|bits| 2 << 21 | bits << 9);
    let tables = tables(BankVersion::V5);
    let nowhere = nowhere
        .map(ut_decoding::ChannelId)
        .find(|channel| tables.sector_of(*channel).is_none())
        .unwrap();
    let (here, nowhere) = (channel(), LhcbId::of(nowhere).0);
    let folder = tempfile::tempdir().unwrap();
    let columns = Columns {
        detector: vec![DetectorColumn::SectorId],
        ..Columns::default()
    };
    let (first, second, third) = ([event(0, 2)], [event(1, 1)], [event(2, 2)]);
    // The last two hits of a batch may be of two sectors: strip 511, and what follows.
    let batches = [
        (here, &first[..]),
        (nowhere, &second),
        (here, &third),
        (here + 511, &[event(3, 2)]),
    ];
    for format in FORMATS {
        let path = write(folder.path(), format, &["a.mdf"], &columns, &batches);
        let found: Vec<_> = read(&path, ["sector_id"]).concat();
        let after = tables
            .sector_of(LhcbId(here + 512).channel())
            .map(u64::from);
        let sector = Some(500);
        assert_eq!(
            found,
            [sector, sector, None, sector, sector, sector, after],
            "{}",
            format.name()
        );
    }
}

#[test]
fn each_hit_names_its_file() {
    let event = |file, place, hits| Event {
        hits,
        file,
        place,
        run: None,
        number: None,
    };
    let events = [
        event(0, 4, 2),
        event(1, 4, 1),
        event(2, 5, 1),
        event(3, 0, 1),
    ];
    let folder = tempfile::tempdir().unwrap();
    let columns = Columns {
        file: true,
        ..Columns::default()
    };
    let inputs = ["a,b.mdf", "c \"d\".mdf", "e\rf.mdf", "g\nh.mdf"];
    let [csv, parquet] = FORMATS.map(|format| {
        write(
            folder.path(),
            format,
            &inputs,
            &columns,
            &[(channel(), &events)],
        )
    });
    let names: Vec<String> = table::read(&parquet)
        .remove("file")
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(names, [0, 0, 1, 2, 3].map(|file| inputs[file]));
    let text = std::fs::read_to_string(csv).unwrap();
    let quoted = [
        "\"a,b.mdf\"",
        "\"a,b.mdf\"",
        "\"c \"\"d\"\".mdf\"",
        "\"e\rf.mdf\"",
        "\"g\nh.mdf\"",
    ];
    let rest = quoted.iter().fold(&*text, |text, name| {
        text.split_once(&format!(",0,0,{name}\n")).unwrap().1
    });
    assert_eq!(rest, "");
}

#[test]
fn row_groups_have_no_page_index() {
    let folder = tempfile::tempdir().unwrap();
    let events = [Event {
        hits: 2,
        file: 0,
        place: 0,
        run: None,
        number: None,
    }];
    let batches = [(channel(), &events[..]); 2];
    let path = write(
        folder.path(),
        HitFormat::Parquet,
        &["a.mdf"],
        &Columns::default(),
        &batches,
    );
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let groups = reader.metadata().row_groups();
    assert_eq!(groups.len(), 2);
    for column in groups.iter().flat_map(RowGroupMetaData::columns) {
        assert_eq!(
            (column.offset_index_offset(), column.column_index_offset()),
            (None, None)
        );
        // Readers skip row groups by the statistics.
        assert!(column.statistics().is_some());
    }
}
