//! `ut-decode decode`, end to end.

use std::fs::File;
use std::path::Path;

use crate::support::{
    ONE_HIT, TABLES, bank, empty, event, json_of, read, run_to, sample, says, unchecked, write,
};
use crate::table;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use ut_decoding::input::Bank;
use ut_decoding::synth::encode::encode_v5;

/// Returns the rows of a CSV, without the column names, that belong to events up to `last`.
fn rows_up_to(csv: &[u8], last: u64) -> Vec<String> {
    let text = String::from_utf8(csv.to_vec()).unwrap();
    let event = |row: &str| row.split(',').next().unwrap().parse::<u64>().unwrap();
    text.lines()
        .skip(1)
        .filter(|row| event(row) <= last)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_backend_decodes_generated_events_alike_without_a_warning() {
    let directory = &sample();
    let (json, err) = json_of(0, directory, "decode events.mdf --output hits.csv --strict");
    assert_eq!(err.lines().find(|line| line.contains("warning")), None);
    assert_eq!(json["events"], 5);
    assert_eq!(json["complete"], true);
    let csv = read(directory, "hits.csv");
    assert_eq!(json["hits"], rows_up_to(&csv, 4).len());
    let layers = json["hits_of_layer"]
        .as_object()
        .unwrap()
        .values()
        .map(|hits| hits.as_u64().unwrap());
    assert_eq!(json["hits"], layers.sum::<u64>());
    let report = json["report"].as_object().unwrap();
    assert_eq!(report.len(), 13);
    assert!(
        report
            .iter()
            .all(|(name, total)| total == if name == "other_types" { 5 } else { 0 })
    );
    let same = [
        "--backend reference",
        "--backend emulated",
        "--set layout=mep",
        "--batch 1",
        "--threads 2",
        TABLES,
    ];
    for options in same {
        run_to(
            0,
            directory,
            ("decode events.mdf --output same.csv", options),
        );
        assert!(read(directory, "same.csv") == csv, "{options:?}");
    }
}

/// Returns an entry of the key-value metadata of a Parquet file.
fn metadata_of(path: &Path, key: &str) -> Option<String> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let all = reader
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .unwrap()
        .clone();
    all.into_iter()
        .find(|entry| entry.key == format!("ut-decode.{key}"))?
        .value
}

#[test]
fn parquet_holds_the_csv_columns_event_numbers_and_provenance() {
    let directory = &sample();
    for name in ["hits.csv", "hits.parquet"] {
        run_to(
            0,
            directory,
            (
                "decode events.mdf --flip 512 --max-cluster-size 4 --output",
                name,
            ),
        );
    }
    let path = directory.join("hits.parquet");
    let (parquet, csv) = (table::read(&path), table::read(&directory.join("hits.csv")));
    assert!(csv.len() == 9 && csv.iter().all(|(name, values)| parquet[name] == *values));
    assert!(parquet["run"].iter().all(|run| run.as_deref() == Some("1")));
    assert!(
        parquet["event_number"] == csv["event"],
        "generate numbers events from 0"
    );
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let row = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
    let columns: Vec<_> = row
        .get_column_iter()
        .take(5)
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    let names = ["event", "run", "event_number", "group", "lhcb_id"];
    assert!(columns.iter().map(|(name, _)| *name).eq(names));
    assert!(
        matches!(columns[1].1, Field::UInt(1)) && matches!(columns[3].1, Field::UShort(_)),
        "{columns:?}"
    );
    let expected = [
        ("flip", "512"),
        ("max_cluster_size", "4"),
        ("grouping", "y-rows"),
        ("complete", "true"),
    ];
    for (key, value) in expected {
        assert_eq!(metadata_of(&path, key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(metadata_of(&path, "warning"), None);
}

#[test]
fn synthetic_hits_are_labelled_unless_the_events_are_generated() {
    let directory = &sample();
    write(directory, "measured.mdf", &event(&[bank(0, &ONE_HIT)]));
    // More than one piece of the job is generated.
    run_to(
        0,
        directory,
        "generate --profile pp-low --events 600 --output many",
    );
    for files in [
        "measured.mdf",
        "events.mdf measured.mdf",
        "measured.mdf many/events.mdf",
    ] {
        let args = ("decode --output hits.parquet --synthetic-detector", files);
        says(
            0,
            directory,
            args,
            "warning: these are the hits of a synthetic detector",
        );
        let warning = metadata_of(&directory.join("hits.parquet"), "warning").unwrap();
        assert!(warning.contains("synthetic"), "{warning}");
    }
    let (_, err) = run_to(
        0,
        directory,
        ("decode measured.mdf --output hits.parquet", TABLES),
    );
    assert_eq!(err, "");
    let path = directory.join("hits.parquet");
    assert_eq!(metadata_of(&path, "warning"), None);
    // Not every input has event numbers: null.
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let row = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
    let columns: Vec<_> = row
        .get_column_iter()
        .map(|(_, field)| field.clone())
        .take(3)
        .collect();
    assert_eq!(columns, [Field::ULong(0), Field::UInt(7), Field::Null]);
}

#[test]
fn a_damaged_container_fails_and_the_events_before_the_damage_are_kept() {
    let directory = &empty();
    let good = unchecked(event(&[bank(0, &ONE_HIT)]));
    let mut differs = good.clone();
    differs[4] = 0xff;
    for (message, bad) in [
        ("differ", differs),
        ("beyond the file", good[..60].to_vec()),
        (
            "compressed with xz",
            [&good[..16], &[1], &good[17..48], b"XZ", &good[50..]].concat(),
        ),
    ] {
        // A good event follows, unless the file is cut, and cannot be found.
        let after = if bad.len() < good.len() {
            &[]
        } else {
            &good[..]
        };
        write(directory, "bad.mdf", &[&good[..], &bad, after].concat());
        let (json, err) = json_of(
            1,
            directory,
            "decode bad.mdf --synthetic-detector --output hits.csv",
        );
        let place = format!("bad.mdf: event 1 at byte {}", good.len());
        assert!(
            err.contains(&place) && err.contains(message),
            "{message}: {err}"
        );
        assert!(err.contains("hits.csv is incomplete"), "{err}");
        assert_eq!(
            rows_up_to(&read(directory, "hits.csv"), 9).len(),
            1,
            "{message}"
        );
        assert_eq!(
            (&json["events"], &json["hits"], &json["complete"]),
            (&1.into(), &1.into(), &false.into())
        );
        let (out, _) = run_to(
            1,
            directory,
            "decode bad.mdf --synthetic-detector --output hits.parquet",
        );
        assert!(out.contains("strips "), "{out}");
        let path = directory.join("hits.parquet");
        assert_eq!(metadata_of(&path, "complete").as_deref(), Some("false"));
        assert!(metadata_of(&path, "incomplete").unwrap().contains(message));
    }
    // Nothing came before: nothing is left.
    write(directory, "bad.mdf", &good[..30]);
    let (out, _) = run_to(1, directory, "decode bad.mdf --output none.csv");
    assert_eq!(out, "");
    run_to(1, directory, "decode absent.mdf --output none.csv");
    run_to(1, directory, "decode . --output none.csv");
    let names = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(
        names
            .into_iter()
            .all(|name| !name.contains("none") && !name.contains("part"))
    );
}

#[test]
fn troubles_and_statistics_are_counted_by_name_and_strict_accepts_neither_trouble_nor_loss() {
    let directory = &empty();
    let boards = ut_decoding::synth::detector(ut_decoding::detector::BankVersion::V5, 1).0;
    let free = (0..boards.n_boards() * 6)
        .find(|&slot| !boards.lanes[slot].is_connected())
        .unwrap();
    let on_lane = |lane: usize, hits: &[(u16, u8)]| {
        let mut lanes: [&[(u16, u8)]; 6] = [&[]; 6];
        lanes[lane] = hits;
        encode_v5(lanes)
    };
    let unconnected = on_lane(free % 6, &[(1, 1), (2, 1)]);
    let [chargeless, long] =
        [&[(3, 0)][..], &[(0, 1), (1, 1), (2, 1)]].map(|hits| on_lane(0, hits));
    for (name, total, is_trouble, bank) in [
        ("truncated", 1, true, bank(0, &ONE_HIT[..30])),
        (
            "unconnected_hits",
            2,
            true,
            bank((free / 6) as u32, &unconnected),
        ),
        (
            "other_types",
            1,
            false,
            Bank {
                kind: 67,
                ..bank(0, &[])
            },
        ),
        ("zero_charge_clusters", 1, true, bank(0, &chargeless)),
        ("oversized_clusters", 1, false, bank(0, &long)),
    ] {
        write(
            directory,
            "event.mdf",
            &event(&[bank, crate::support::bank(200, &ONE_HIT)]),
        );
        for backend in ["cpu", "reference", "emulated"] {
            let args = (
                "decode event.mdf --synthetic-detector --max-loss 1 --max-cluster-size 2 --backend",
                backend,
            );
            let (json, _) = json_of(0, directory, args);
            for (row, value) in json["report"].as_object().unwrap() {
                assert_eq!(
                    value,
                    if row == name { total } else { 0 },
                    "{row} in the case of {name}, {backend}"
                );
            }
            assert_eq!(json["trouble"], is_trouble, "{name}");
            run_to(i32::from(is_trouble), directory, (args, "--strict"));
        }
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    let directory = &sample();
    run_to(2, directory, "no-such-command");
    for options in [
        "--boards boards.bin",
        "--geometry geometry.bin",
        "--output hits.txt",
        "--output hits",
        "--max-cluster-size 0",
        "--backend abacus",
        "--flip 513",
        "--no-such-option",
    ] {
        let (out, err) = run_to(2, directory, ("decode events.mdf", options));
        assert!(
            out.is_empty() && err.contains("error: "),
            "{options}: {out}{err}"
        );
    }
}
