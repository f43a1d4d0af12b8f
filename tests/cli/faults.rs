//! `ut-decode generate --corrupt`: every fault that was made is in the report, and whole banks give
//! what they gave.
//!
//! The generator knows what it broke, and writes that into `faults.json`: the counters to expect,
//! and which banks of which events are no longer whole. A test therefore needs no list of expected
//! numbers. It decodes the file with faults, and the same events without the touched banks, and
//! compares the rows of hits as multisets: all rows of the whole banks must be there, and more rows
//! only in events with a fault in spite of which a bank is decoded, such as a board that comes
//! twice.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use crate::support::{TABLES, empty, json_of, read, run_to, says, write};
use serde_json::Value;
use ut_decoding::input::{EventHeader, Events, GENERATED_MASK, MdfWriter};

const OF_BANKS: &str = "wrong_version=0.01 unknown_board=0.01 repeated_board=0.01 truncated=0.01 \
                        unconnected_hits=0.01 short=0.01 bad_header=0.01 unsorted_lanes=0.01 surplus_banks=0.3";

/// Generates the same events with faults and without, into `directory`; the ledger of the faults.
fn generate(directory: &Path, options: &str, faults: &str) -> Value {
    let is_of_container =
        |option: &&str| ["--mep", "--pack=blocks", "--pack=zstd"].contains(option);
    let format: Vec<&str> = options
        .split(' ')
        .filter(|option| !option.is_empty() && !is_of_container(option))
        .collect();
    run_to(0, directory, ("generate --output clean", &format[..]));
    // Several kinds at once, and the option again for the last one.
    let (others, last) = faults.rsplit_once(' ').unwrap_or((faults, faults));
    let listed = others.split_whitespace().collect::<Vec<_>>().join(",");
    let again = if others == last {
        String::new()
    } else {
        format!("--corrupt {last}")
    };
    run_to(
        0,
        directory,
        (
            "generate --output .",
            options,
            format!("--corrupt {listed}"),
            again,
        ),
    );
    serde_json::from_slice(&read(directory, "faults.json")).unwrap()
}

/// Returns the rows of a decoded file, each with the number of times it occurs, and the summary.
fn rows(directory: &Path, file: &str, code: i32, options: &str) -> (BTreeMap<String, u32>, Value) {
    let (json, _) = json_of(
        code,
        directory,
        (
            "decode --output hits.csv --max-loss 100%",
            file,
            options,
            TABLES,
        ),
    );
    let mut rows = BTreeMap::new();
    for row in String::from_utf8(read(directory, "hits.csv"))
        .unwrap()
        .lines()
        .skip(1)
    {
        *rows.entry(row.to_owned()).or_default() += 1;
    }
    (rows, json)
}

/// Checks report and hits of `file` against its ledger.
fn check(directory: &Path, file: &str, ledger: &Value, options: &str) {
    let cut = ["cut", "stream"]
        .iter()
        .filter_map(|fault| ledger["faults"][fault].as_u64())
        .sum::<u64>();
    let (found, json) = rows(directory, file, i32::from(cut > 0), options);
    for (counter, n) in ledger["report"].as_object().unwrap() {
        assert_eq!(&json["report"][counter], n, "{counter}, {options:?}");
    }
    assert_eq!(
        (&json["events"], &json["complete"]),
        (&ledger["events"], &(cut == 0).into())
    );
    // The clean events without the banks that are not whole.
    let n_events = ledger["events"].as_u64().unwrap();
    let mut touched = HashSet::new();
    for entry in ledger["entries"].as_array().unwrap() {
        let banks = entry["banks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bank| bank.as_u64().unwrap() as u32);
        touched.extend(banks.map(|bank| (entry["event"].as_u64().unwrap(), bank)));
    }
    let mut writer = MdfWriter::new(Vec::new());
    let mut events = Events::new([directory.join("clean/events.mdf")]);
    while let Some(event) = events.next_event().unwrap() {
        if event.index < n_events {
            let header = EventHeader {
                trigger_mask: GENERATED_MASK,
                run: 1,
                number: None,
            };
            let whole = event
                .banks()
                .filter(|bank| !touched.contains(&(event.index, bank.source_id)));
            writer.write(&header, whole).unwrap();
        }
    }
    write(directory, "whole.mdf", &writer.finish().unwrap());
    let (expected, _) = rows(directory, "whole.mdf", 0, "");
    for (row, n) in &expected {
        assert!(
            found.get(row).is_some_and(|found| found >= n),
            "{row} is lost, {options:?}"
        );
    }
    // More hits come only from banks that are decoded in spite of their faults.
    let decoded = ["repeated_board", "unconnected_hits", "unsorted_lanes"];
    let entries = ledger["entries"].as_array().unwrap().iter();
    let with_more: HashSet<String> = entries
        .filter(|entry| decoded.iter().any(|name| entry["fault"] == **name))
        .map(|entry| entry["event"].to_string())
        .collect();
    for (row, n) in &found {
        let more = n > expected.get(row).unwrap_or(&0);
        assert!(
            !more || with_more.contains(row.split(',').next().unwrap()),
            "{row} is too many, {options:?}"
        );
    }
}

/// Generates events with faults, each kind of which must be among them, and checks the report of
/// `file` however it is decoded.
fn accounts_for(file: &str, options: &str, faults: &str, decode: &[&str]) {
    let directory = &empty();
    let ledger = generate(directory, options, faults);
    for kind in faults
        .split(' ')
        .map(|fault| fault.split_once('=').unwrap().0)
    {
        assert!(
            ledger["faults"][kind].as_u64() > Some(0),
            "no fault {kind}: {}",
            ledger["faults"]
        );
    }
    for options in decode {
        check(directory, file, &ledger, options);
    }
}

#[test]
fn the_report_accounts_for_every_fault_of_banks_events_and_the_file() {
    let faults =
        format!("{OF_BANKS} checksum=0.05 bank_magic=0.05 bank_size=0.05 bank_beyond=0.05 cut=1");
    let decode = [
        "",
        "--backend reference",
        "--set layout=mep",
        "--threads 1 --batch 7",
    ];
    accounts_for("events.mdf", "--events 60 --seed 5", &faults, &decode);
    let packed = "--events 80 --seed 3 --pack=blocks";
    accounts_for(
        "events.mdf",
        packed,
        &format!("{faults} block=0.3"),
        &["", "--threads 1 --batch 7"],
    );
    let not_of_v4 = ["short=0.01", "bad_header=0.01", "unsorted_lanes=0.01"];
    let of_v4: Vec<&str> = OF_BANKS
        .split(' ')
        .filter(|fault| !not_of_v4.contains(fault))
        .collect();
    let faults = of_v4.join(" ") + " checksum=0.2 bank_size=0.2";
    accounts_for(
        "events.mdf",
        "--events 40 --format v4",
        &faults,
        &["", "--backend reference"],
    );
}

#[test]
fn the_report_accounts_for_faults_of_packets_and_of_files_that_are_compressed_as_a_whole() {
    let faults = format!("{OF_BANKS} fragments=0.003 cut=1");
    accounts_for(
        "events.mep",
        "--events 200 --mep --seed 2",
        &faults,
        &["", "--set layout=allen"],
    );
    let packed = "--events 80 --seed 4 --pack=zstd";
    for faults in ["bank_magic=0.1 stream=1", "bank_magic=0.1 cut=1"] {
        accounts_for("events.mdf.zst", packed, faults, &[""]);
    }
    accounts_for(
        "events.mep.zst",
        &format!("{packed} --mep"),
        "fragments=0.003 stream=1",
        &[""],
    );
}

#[test]
fn damaged_events_without_a_run_are_not_left_out_silently() {
    let directory = &empty();
    let ledger = generate(directory, "--events 40 --seed 5", "checksum=0.3");
    let broken = ledger["report"]["broken_event"].as_u64().unwrap();
    let decode = ("decode events.mdf --run 1", TABLES);
    let (json, err) = json_of(0, directory, decode);
    assert_eq!(
        (&json["events"], &json["damaged_left_out"]),
        (&(40 - broken).into(), &broken.into())
    );
    let warning = format!("warning: {broken} damaged events were left out");
    assert!(err.contains(&warning) && err.contains("checksum"), "{err}");
    json_of(1, directory, (decode, "--strict"));
    says(
        0,
        directory,
        "report events.mdf --run 1 --output page.html",
        &warning,
    );
}

#[test]
fn impossible_faults_are_refused() {
    let directory = &empty();
    for (args, message) in [
        ("--corrupt checksum", "KIND=RATE"),
        ("--corrupt nonsense=1", "there is no fault nonsense"),
        ("--corrupt cut=1.5", "from 0 to 1"),
        ("--corrupt cut=x", "not a number"),
        (
            "--corrupt short=1 --format v4",
            "cannot have the fault short",
        ),
        (
            "--corrupt checksum=1 --mep",
            "cannot have the fault checksum",
        ),
        ("--corrupt fragments=1", "cannot have the fault fragments"),
        (
            "--corrupt block=1",
            "MDF events with v5 banks cannot have the fault block",
        ),
        (
            "--corrupt stream=1 --pack blocks",
            "cannot have the fault stream",
        ),
        ("--pack blocks --mep", "--mep writes none"),
        (
            "--plant board=5:error,lane=0.1/0-63:hot",
            "failure 2 would change nothing",
        ),
    ] {
        says(2, directory, ("generate --output new", args), message);
        assert!(!directory.join("new").exists());
    }
}

#[test]
fn events_without_faults_remove_an_older_list_of_faults() {
    let directory = &empty();
    generate(directory, "", "cut=1");
    run_to(0, directory, "generate --output .");
    assert!(directory.join("events.mdf").exists() && !directory.join("faults.json").exists());
    // The list goes before the events are replaced: a run that is killed leaves no list next to
    // events that it does not belong to.
    let before = read(directory, "events.mdf");
    std::fs::create_dir(directory.join("faults.json")).unwrap();
    for faults in ["", "--corrupt cut=1"] {
        says(
            1,
            directory,
            ("generate --seed 2 --output .", faults),
            "cannot remove ./faults.json",
        );
        assert!(read(directory, "events.mdf") == before, "{faults:?}");
    }
}

#[test]
fn each_fault_alone_is_distinguished_from_the_others() {
    let directory = &empty();
    for fault in OF_BANKS.split(' ') {
        let (kind, _) = fault.split_once('=').unwrap();
        let ledger = generate(directory, "--events 4", &format!("{kind}=0.5"));
        for (counter, n) in ledger["report"].as_object().unwrap() {
            // A bank of another board can have hits on lanes which that does not have.
            let beside = kind == "repeated_board" && counter == "unconnected_hits";
            assert_eq!(
                n.as_u64() > Some(0),
                counter == kind || (beside && n != 0),
                "{fault}: {counter} {n}"
            );
        }
        check(directory, "events.mdf", &ledger, "");
    }
}
