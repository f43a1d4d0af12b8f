//! `ut-decode inspect` on damaged files: troubles counted, listed and cut out.

use crate::support::{
    ONE_HIT, bank, empty, event, event_with, json_of, read, run, run_to, says, shell, shows,
    unchecked, write,
};
use serde_json::{Value, json};
use ut_decoding::input::{Bank, EventHeader};

/// Three events: a good one; one with a bad header, a truncated bank and two kinds of error banks;
/// a damaged one. Event numbers 10, 11, and none.
fn troubled() -> Vec<u8> {
    let mut bad = ONE_HIT;
    bad[5] = 255;
    let error = Bank {
        kind: 68,
        ..bank(5 << 11 | 4, &ONE_HIT)
    };
    let missing = Bank {
        kind: 92,
        version: Some(0),
        source_id: 6 << 11 | 1 << 10 | 2,
        payload: &[1, 2, 3, 4, 5],
    };
    let of_others = Bank {
        kind: 89,
        version: Some(0),
        source_id: 0x4801,
        payload: &[],
    };
    let mut twelve = ONE_HIT;
    twelve[4] = 12;
    let banks = [bank(2, &bad), bank(3, &twelve), error, missing, of_others];
    [
        numbered(10, &[bank(2, &ONE_HIT)]),
        numbered(11, &banks),
        damaged(),
    ]
    .concat()
}

fn numbered(number: u64, banks: &[Bank<'_>]) -> Vec<u8> {
    event_with(
        EventHeader {
            number: Some(number),
            ..EventHeader::default()
        },
        banks,
    )
}

/// Makes an event whose second bank does not begin like a bank.
fn damaged() -> Vec<u8> {
    let mut damaged = unchecked(event(&[bank(0, &ONE_HIT), bank(1, &ONE_HIT)]));
    damaged[48 + 40] = 0;
    damaged
}

#[test]
fn the_overview_counts_troubles_by_kind_and_board_and_names_the_first_event() {
    let directory = &empty();
    write(directory, "a.mdf", &troubled());
    let (out, _) = run_to(0, directory, "inspect a.mdf");
    let row = |name: &str| {
        out.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name} in {out}"))
    };
    let fields = |name: &str| {
        row(name)
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .join(" ")
    };
    // Bank 0 of the event is ODIN's.
    assert_eq!(fields("bad_header"), "bad_header 1 1 1, bank 1 2 (1)");
    assert_eq!(fields("truncated"), "truncated 1 1 1, bank 2 3 (1)");
    assert_eq!(fields("broken_event"), "broken_event 1 1 2, bank 1");
    for part in [
        "UTError (68), sourceID 0x2804, board 6 (Run 3 numbering: A side, TELL40 4, data flow 0): 1 banks of 32 bytes",
        "1 0 0 0 0 0 hits of lanes 0 to 5; bytes 2 and 3, 0x00 0x00",
        "DaqErrorFragmentMissing (92), sourceID 0x3402, board 3",
        "it begins with 01 02 03 04 05\n",
        "DaqErrorFragmentThrottled (89), sourceID 0x4801, not known to be the UT's",
        "The contents of DaqError banks are not known",
        "without a board table",
    ] {
        assert!(out.contains(part), "{part} in\n{out}");
    }
    let (json, _) = json_of(0, directory, "inspect a.mdf a.mdf");
    assert_eq!(json["events"], 6);
    let bad = &json["troubles"]
        .as_array()
        .unwrap()
        .iter()
        .find(|kind| kind["kind"] == "bad_header")
        .unwrap();
    let first =
        json!({"event": 1, "file": "a.mdf", "event_of_file": 1, "event_number": 11, "bank": 1});
    assert_eq!(
        (&bad["count"], &bad["events"], &bad["first"]),
        (&2.into(), &2.into(), &first)
    );
    assert_eq!(
        bad["boards"],
        json!([{"source_id": 2, "board": 2, "count": 2}])
    );
    let errors = json["error_banks"].as_array().unwrap();
    let boards: Vec<_> = errors
        .iter()
        .map(|bank| (bank["name"].as_str().unwrap(), &bank["board"]))
        .collect();
    let expected = [
        ("UTError", &json!(6)),
        ("DaqErrorFragmentThrottled", &Value::Null),
        ("DaqErrorFragmentMissing", &json!(3)),
    ];
    assert_eq!(boards, expected);
}

#[test]
fn the_overview_counts_each_event_once_names_the_worst_board_first_and_lists_damage_wherever_it_is()
{
    let directory = &empty();
    let mut bad = ONE_HIT;
    bad[5] = 255;
    let mut events = vec![
        event(&[bank(3, &bad), bank(5, &bad)]),
        event(&[bank(5, &bad)]),
    ];
    events.resize(
        22,
        event(&[Bank {
            version: Some(3),
            ..bank(7, &[0; 4])
        }]),
    );
    events.push(damaged());
    write(directory, "a.mdf", &events.concat());
    let (out, _) = run_to(0, directory, "inspect a.mdf");
    let fields: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let row = |name: &str| {
        fields
            .iter()
            .find(|row| row.first() == Some(&name))
            .map(|row| row.join(" "))
    };
    assert_eq!(
        row("bad_header").as_deref(),
        Some("bad_header 3 2 0, bank 0 5 (2), 3 (1)"),
        "{out}"
    );
    let listed: Vec<_> = fields
        .iter()
        .filter_map(|row| row.first()?.parse::<u64>().ok().filter(|_| row.len() > 6))
        .collect();
    assert!(
        listed.contains(&19) && !listed.contains(&21) && listed.contains(&22),
        "{listed:?}"
    );
}

#[test]
fn troubles_are_listed_as_a_table_and_as_json_lines() {
    let directory = &empty();
    write(directory, "a,b.mdf", &troubled());
    let (out, err) = run_to(0, directory, "inspect a,b.mdf --troubles");
    assert_eq!(out.lines().count(), 4, "{out}");
    assert!(err.contains("3 troubles in 3 events"), "{err}");
    let (out, _) = run_to(0, directory, "inspect a,b.mdf --troubles=jsonl");
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // The event's headers take 48 bytes, ODIN's bank 48, its own header 8; lane 1's count is byte
    // 5.
    assert_eq!(
        lines[0],
        json!({"file": "a,b.mdf", "event": 1, "run": 7, "event_number": 11, "bank": 1, "source_id": 2, "board": 2,
            "lane": 1, "byte": 48 + 48 + 8 + 5, "kind": "bad_header", "count": 1, "what": "a count of 255"})
    );
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["bad_header", "truncated", "broken_event"]);
    // The second bank's header, after the event's 48 bytes and a bank of 8 + 32.
    assert_eq!(
        (&lines[2]["bank"], &lines[2]["byte"]),
        (&1.into(), &(48 + 40).into())
    );
    // Troubles before the end of a cut file are listed; the exit code says that it is cut.
    write(directory, "cut.mdf", &troubled()[..troubled().len() - 1]);
    let (out, err) = run_to(1, directory, "inspect cut.mdf --troubles=jsonl");
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(
        err.contains("2 troubles in 2 events") && err.contains("cut.mdf: event 2"),
        "{err}"
    );
    run_to(2, directory, "inspect a,b.mdf --troubles=xml");
    run_to(2, directory, "inspect a,b.mdf --troubles --event 1");
}

#[test]
fn machine_readable_output_is_json_for_every_file_name_and_free_of_messages() {
    let directory = &empty();
    let name = "del\u{7f}\u{9b}\u{202e}.mdf";
    write(directory, name, &troubled());
    let (out, _) = run_to(0, directory, format!("inspect {name} --troubles=jsonl"));
    assert!(!out.contains(['\u{7f}', '\u{9b}', '\u{202e}']), "{out:?}");
    for line in out.lines() {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["file"], name);
    }
    let (json, _) = json_of(0, directory, format!("inspect {name}"));
    assert_eq!(json["troubles"][0]["first"]["file"], name);
    // An event on standard output, chosen or with a trouble, is nothing but the event.
    for (options, to) in [("--event 0", "-"), ("--event 0", "/dev/stdout"), ("", "-")] {
        let output = run(
            directory,
            format!("inspect {name} --extract {to} {options}"),
        );
        assert!(
            output.status.success()
                && troubled()
                    .windows(output.stdout.len())
                    .any(|bytes| bytes == output.stdout)
        );
        assert!(String::from_utf8_lossy(&output.stderr).contains("written to"));
    }
    // The message of what was wrong has its cause in JSON, too.
    let packed = zstd::encode_all(&troubled()[..], 1).unwrap();
    write(directory, "cut.zst", &packed[..packed.len() - 1]);
    let (json, _) = json_of(1, directory, "inspect cut.zst");
    assert!(
        json["error"]
            .as_str()
            .unwrap()
            .contains("the zstd stream ends before its last frame"),
        "{json}"
    );
}

#[cfg(unix)]
#[test]
fn a_list_of_troubles_ends_when_its_pipe_is_closed() {
    let directory = &empty();
    write(directory, "a.mdf", &troubled());
    // An endless input; the exit code that the shell prints comes from `inspect`.
    let line = "while cat a.mdf; do :; done | (timeout 60 ut-decode inspect - --troubles; echo $? >code) | head -1";
    shell(0, directory, line);
    assert_eq!(read(directory, "code"), b"0\n");
}

#[test]
fn the_board_table_reveals_troubles_that_numbers_alone_do_not() {
    let directory = &empty();
    run_to(0, directory, "generate --events 1 --output .");
    let lanes = ut_decoding::synth::detector(ut_decoding::detector::BankVersion::V5, 1)
        .0
        .lanes;
    let slot = (0..1296).find(|&slot| !lanes[slot].is_connected()).unwrap();
    let mut payload = ONE_HIT;
    payload[[4, 5, 6, 7, 0, 1][slot % 6]] = 2;
    write(
        directory,
        "a.mdf",
        &event(&[bank(slot as u32 / 6, &payload), bank(300, &ONE_HIT)]),
    );
    let (out, _) = run_to(0, directory, "inspect a.mdf");
    assert!(
        !out.contains("unconnected_hits") && out.contains("unknown_board"),
        "{out}"
    );
    let (out, _) = run_to(0, directory, "inspect a.mdf --boards boards.bin");
    assert!(
        out.contains("unconnected_hits") && out.contains("unknown_board"),
        "{out}"
    );
    assert!(out.contains("by the board table boards.bin"), "{out}");
    let (json, _) = json_of(0, directory, "inspect a.mdf --boards boards.bin");
    let troubles = json["troubles"].as_array().unwrap();
    let unconnected = troubles
        .iter()
        .find(|kind| kind["kind"] == "unconnected_hits")
        .unwrap();
    assert_eq!(
        (&unconnected["count"], &unconnected["events"]),
        (&2.into(), &1.into())
    );
    shows(directory, "inspect events.mdf", "troubles  none");
    // Generated events are found in any file, whatever the settings say.
    write(
        directory,
        "my.toml",
        b"boards = \"absent.bin\"\ngeometry = \"absent.bin\"\n",
    );
    shows(
        directory,
        "inspect --config my.toml events.mdf",
        "by the board table of the embedded synthetic detector",
    );
    // Banks that do not state a format have the named format, so a table of the other format does
    // not match.
    run_to(0, directory, "convert a.mdf --output dumps");
    says(
        2,
        directory,
        "inspect dumps --format v4 --boards boards.bin",
        "--bank-format is v4, but boards.bin is a table for v5 banks",
    );
    write(
        directory,
        "my.toml",
        b"boards = \"boards.bin\"\ngeometry = \"geometry.bin\"\n",
    );
    for (format, is_used) in [("v4", false), ("v5", true)] {
        let (out, _) = run_to(
            0,
            directory,
            format!("inspect dumps --config my.toml --format {format}"),
        );
        assert_eq!(out.contains("by the board table"), is_used, "{out}");
    }
}

#[test]
fn an_event_is_found_by_its_number_and_cut_out_with_its_damage() {
    let directory = &empty();
    let all = troubled();
    write(directory, "a.mdf", &all);
    let (out, _) = run_to(0, directory, "inspect a.mdf --event-number 11");
    assert!(
        out.contains("event 1 at byte") && out.contains("event number 11"),
        "{out}"
    );
    says(
        1,
        directory,
        "inspect a.mdf --event-number 12",
        "no event with event number 12: the input has 3 events",
    );
    // Without a choice, the first with a trouble; bytes as they were.
    let (out, _) = run_to(0, directory, "inspect a.mdf --extract first.mdf");
    assert!(
        out.contains("event 1 (") && out.contains("bad_header, bank 1, board 2, lane 1"),
        "{out}"
    );
    run_to(0, directory, "inspect a.mdf --extract last.mdf --event 2");
    let parts = [read(directory, "first.mdf"), read(directory, "last.mdf")].concat();
    assert!(all.ends_with(&parts) && parts.len() > 200);
    says(2, directory, "inspect a.mdf --extract a.mdf", "overwrite");
    // From MEP and from dumps only the banks.
    write(
        directory,
        "good.mdf",
        &event(&[bank(2, &ONE_HIT), bank(3, &ONE_HIT)]),
    );
    for (packed, extra) in [("good.mep", ""), ("dumps", "--format v5")] {
        run_to(0, directory, format!("convert good.mdf --output {packed}"));
        says(
            1,
            directory,
            (format!("inspect {packed} --extract none.mdf"), extra),
            "no event with a trouble",
        );
        run_to(
            0,
            directory,
            (
                format!("inspect {packed} --extract back.mdf --event 0"),
                extra,
            ),
        );
        let (json, _) = json_of(0, directory, "inspect back.mdf");
        assert_eq!(
            (&json["events"], &json["source_ids"]),
            (&1.into(), &json!([2, 3])),
            "{packed}"
        );
        shows(directory, "inspect back.mdf --event 0", "event number 0");
    }
    // The number of an event with an ODIN bank is in that: there is no second one.
    run_to(0, directory, "convert a.mdf --output a.mep --drop-damaged");
    run_to(0, directory, "inspect a.mep --extract back.mdf --event 0");
    let (json, _) = json_of(0, directory, "inspect back.mdf");
    let odin: Vec<_> = json["types"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|of| of["name"] == "ODIN")
        .collect();
    assert_eq!((odin.len(), &odin[0]["banks"]), (1, &1.into()));
    // An event of a file that is compressed as a whole is written uncompressed.
    run_to(0, directory, "convert good.mdf --output good.mdf.zst");
    run_to(
        0,
        directory,
        "inspect good.mdf.zst --extract unpacked.mdf --event 0",
    );
    assert!(read(directory, "unpacked.mdf") == read(directory, "good.mdf"));
}

/// Compares a packet of two events with a packet of 80, which with fillers of 65,000 bytes has more
/// than 5 MB.
#[cfg(unix)]
#[test]
fn trouble_bytes_in_packets_count_from_the_packet_start() {
    let directory = &empty();
    let mut bad = ONE_HIT;
    bad[5] = 255;
    let filler = vec![0; 65_000];
    // A packet of megabytes in a file is read in slices.
    for n_events in [2, 80] {
        let full = Bank {
            kind: 67,
            ..bank(1, &filler)
        };
        let of = |number| {
            numbered(
                number,
                &[
                    full,
                    bank(
                        2,
                        if number + 1 == n_events {
                            &bad
                        } else {
                            &ONE_HIT
                        },
                    ),
                ],
            )
        };
        write(
            directory,
            "events.mdf",
            &(0..n_events).flat_map(of).collect::<Vec<_>>(),
        );
        run_to(
            0,
            directory,
            "convert events.mdf --output events.mep --packet-events 100",
        );
        let mep = read(directory, "events.mep");
        let payload = mep
            .windows(bad.len())
            .position(|bytes| bytes == bad)
            .unwrap();
        for source in ["events.mep", "-"] {
            let line = format!("ut-decode inspect {source} --troubles=jsonl < events.mep");
            let (troubles, _) = shell(0, directory, &line);
            let trouble: Value = serde_json::from_str(troubles.trim_end()).unwrap();
            assert_eq!(
                trouble["byte"],
                payload + 5,
                "{n_events} events, {source}: {trouble}"
            );
            assert_eq!(trouble["source_id"], 2);
        }
    }
}
