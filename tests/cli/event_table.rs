//! `ut-decode decode --event-table`, and what else is read from ODIN, end to end.

use std::fs::File;
use std::path::Path;

use crate::support::{
    ONE_HIT, TABLES, bank, event, json_of, read, run_to, sample, says, shows, write,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use ut_decoding::input::Bank;

/// 2024-08-01T12:00:00Z.
const NOON: u64 = 1_722_513_600_000_000;

/// Makes an ODIN bank of version 7.
fn odin(number: u32, time: u64, crossing: u32) -> Vec<u8> {
    let word = 0x63 | crossing << 12 | 4 << 23;
    let words = [
        8,
        0x10,
        time as u32,
        (time >> 32) as u32,
        0xAB,
        0,
        word,
        77,
        number,
        0,
    ];
    words
        .iter()
        .flat_map(|word: &u32| word.to_le_bytes())
        .collect()
}

fn other(kind: u8, version: u8, source_id: u32, payload: &[u8]) -> Bank<'_> {
    Bank {
        kind,
        version: Some(version),
        source_id,
        payload,
    }
}

/// Returns banks as they lie in MDF.
fn bytes_of(banks: &[Bank<'_>]) -> Vec<u8> {
    event(banks)[48..].to_vec()
}

/// Makes a table of the crossings that a TAE event holds: place, begin and length.
fn tae(rows: &[[u32; 3]]) -> Vec<u8> {
    rows.as_flattened()
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect()
}

/// Returns the values of the named columns of a CSV, row by row.
fn columns(csv: &[u8], names: &str) -> Vec<String> {
    let text = String::from_utf8(csv.to_vec()).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let place = |name| header.iter().position(|other| *other == name).unwrap();
    let places: Vec<usize> = names.split(' ').map(place).collect();
    lines
        .map(|row| {
            places
                .iter()
                .map(|&place| row[place])
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

const DECODE_ODIN: &str = "decode odin.mdf --event-table events.csv --output hits.csv";

/// Writes `odin.mdf`: events with ODIN banks of both layouts, of an unknown one, with error banks,
/// and two with several crossings, one of which does not say where its central crossing is.
fn write_events_with_odin(directory: &Path) {
    let hit = bank(0, &ONE_HIT);
    let odins = [
        odin(1, NOON, 3),
        odin(2, NOON + 5_000_000, 0),
        odin(3, 0, 1),
        odin(5, NOON + 9_000_000, 3),
    ];
    // The central crossing has one hit, its neighbours have more.
    let others = bytes_of(&[other(16, 7, 0, &odins[1]), hit, bank(1, &ONE_HIT)]);
    let central = bytes_of(&[other(16, 7, 0, &odins[3]), hit]);
    let (before, here) = (others.len() as u32, central.len() as u32);
    let of_tae = tae(&[
        [u32::MAX, 0, before],
        [0, before, here],
        [1, before + here, before],
    ]);
    let header = other(48, 1, 0, &of_tae);
    let lost = tae(&[[1, 0, before]]);
    let nest = |header: Bank<'_>| {
        let banks = [
            bytes_of(&[header]),
            others.clone(),
            central.clone(),
            others.clone(),
        ]
        .concat();
        let mut whole = event(&[]);
        whole.extend(banks);
        let size = (whole.len() as u32).to_le_bytes();
        (0..3).for_each(|i| whole[4 * i..4 * i + 4].copy_from_slice(&size));
        whole[12..16].fill(0);
        whole
    };
    let file = [
        event(&[other(16, 7, 0, &odins[0]), hit]),
        event(&[other(16, 7, 0, &odins[1])]),
        event(&[
            other(16, 7, 0, &odins[2]),
            hit,
            bank(1, &ONE_HIT),
            bank(2, &[0, 0, 0, 0, 9]),
        ]),
        event(&[
            other(16, 9, 0, &odins[0]),
            hit,
            other(92, 4, 0x2801, &[]),
            other(92, 4, 0x1000, &[]),
            other(68, 4, 3, &ONE_HIT),
        ]),
        nest(header),
        nest(other(48, 1, 0, &lost)),
    ];
    write(directory, "odin.mdf", &file.concat());
}

#[test]
fn a_table_has_a_row_for_every_event_with_its_odin_fields() {
    let directory = &sample();
    write_events_with_odin(directory);
    let (json, err) = json_of(0, directory, (DECODE_ODIN, TABLES));
    assert!(
        err.contains("ODIN banks of version 9: their layout is not known"),
        "{err}"
    );
    assert!(
        err.contains("does not say where the banks of the central crossing are"),
        "{err}"
    );
    assert_eq!(
        json["error_banks"],
        serde_json::json!({"DaqErrorFragmentMissing": 1, "UTError": 1})
    );
    let csv = read(directory, "events.csv");
    assert!(csv.starts_with(b"file,event,run,event_number,time,bcid,"));
    let facts = "event run event_number time bcid crossing trigger_type orbit tck odin_version";
    let noon = "2024-08-01T12:00:0";
    assert_eq!(
        columns(&csv, facts),
        [
            format!("0 8 1 {noon}0.000000Z 99 beam-crossing 4 77 171 7"),
            format!("1 8 2 {noon}5.000000Z 99 no-beam 4 77 171 7"),
            "2 8 3  99 beam1 4 77 171 7".to_owned(),
            "3 7        9".to_owned(),
            format!("4 8 5 {noon}9.000000Z 99 beam-crossing 4 77 171 7"),
            "5 7        ".to_owned(),
        ]
    );
    let counts = columns(&csv, "hits banks short other_types broken_event");
    assert_eq!(
        counts,
        [
            "1 1 0 1 0",
            "0 0 0 1 0",
            "2 2 1 1 0",
            "2 2 0 3 0",
            "1 1 0 2 0",
            "0 0 0 0 1"
        ]
    );
    assert_eq!(
        String::from_utf8(read(directory, "hits.csv"))
            .unwrap()
            .lines()
            .count(),
        1 + 6
    );
    let said = format!("time {noon}5.000000Z, bunch crossing 99 (no-beam), orbit 77");
    shows(directory, "inspect odin.mdf --event 1 --bank 0", &said);
    let (out, _) = run_to(0, directory, ("decode odin.mdf", TABLES));
    assert!(
        out.contains("error banks")
            && out.contains("DaqErrorFragmentMissing")
            && out.contains("flip"),
        "{out}"
    );
}

#[test]
fn events_are_chosen_by_time_and_crossing() {
    let directory = &sample();
    write_events_with_odin(directory);
    for (select, events) in [
        ("--crossing beam-crossing", "0 4"),
        ("--crossing beam1,no-beam", "1 2"),
        ("--time 2024-08-01T12:00:05..2024-08-01T12:01", "1 4"),
        ("--time ..2024-08-01T12:00:05", "0"),
        ("--crossing no-beam --time 2024-08-01..", "1"),
    ] {
        let (json, _) = json_of(0, directory, (DECODE_ODIN, TABLES, select));
        assert_eq!(
            columns(&read(directory, "events.csv"), "event").join(" "),
            events,
            "{select:?}"
        );
        assert_eq!(json["damaged_left_out"], 1, "{select:?}");
    }
    for wrong in [
        "--time noon",
        "--time 2024-08-02..2024-08-01",
        "--crossing both",
    ] {
        run_to(2, directory, ("decode odin.mdf", wrong));
    }
}

#[test]
fn a_parquet_table_has_types_and_provenance_and_is_complete_or_absent() {
    let directory = &sample();
    run_to(
        0,
        directory,
        "decode events.mdf --event-table events.parquet --threads 2 --batch 1",
    );
    let reader =
        SerializedFileReader::new(File::open(directory.join("events.parquet")).unwrap()).unwrap();
    let rows: Vec<String> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap().to_string())
        .collect();
    assert_eq!(rows.len(), 5);
    for (e, row) in rows.iter().enumerate() {
        let start = format!(
            "{{file: \"events.mdf\", event: {e}, run: 1, event_number: {e}, time: 2026-06-01 12:00:00.00"
        );
        let odin = "crossing: \"beam-crossing\", trigger_type: 0,";
        assert!(
            row.starts_with(&start) && row.contains(odin) && row.contains("banks: 216,"),
            "{row}"
        );
    }
    let metadata = reader
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .unwrap()
        .clone();
    assert!(
        metadata
            .iter()
            .any(|entry| entry.key == "ut-decode.flip" && entry.value.as_deref() == Some("511"))
    );

    for (code, wrong, part) in [
        (1, "--event-table events.txt", ".csv or .parquet"),
        (2, "--event-table a.csv --output a.csv", "same file"),
        (2, "--event-table events.mdf", "would overwrite"),
        (
            2,
            "--event-table a.csv --output all/ --format csv --resume",
            "cannot be used with",
        ),
    ] {
        says(code, directory, ("decode events.mdf", wrong), part);
    }
    assert!(!directory.join("a.csv").exists());
}

#[test]
fn lanes_and_sectors_are_looked_up_both_ways() {
    let directory = &sample();
    let lanes = |args: &str| {
        let json = json_of(0, directory, ("tables --synthetic-detector=v5", args)).0;
        json["lanes"].as_array().unwrap().clone()
    };
    let mut n = 0;
    for board in ["0", "100", "215"] {
        for lane in lanes(&format!("--board {board}")) {
            let back = lanes(&format!("--sector {}", lane["sector"]));
            assert!(back.contains(&lane), "{lane}");
            // One lane reads all strips, or two lanes read half the strips each.
            let strips = |lane: &serde_json::Value| {
                lane["last_strip"].as_u64().unwrap() - lane["first_strip"].as_u64().unwrap() + 1
            };
            assert_eq!(back.iter().map(strips).sum::<u64>(), 512);
            n += 1;
        }
    }
    assert!(n > 10);
    let (out, _) = run_to(0, directory, "tables --synthetic-detector=v5 --sector 112");
    assert!(out.contains("UTaX") && out.lines().count() >= 2, "{out}");
    run_to(1, directory, "tables --synthetic-detector=v5 --board 239");
    run_to(2, directory, "tables --synthetic-detector=v5 --sector 1048");
}
