//! Selections, `--keep-going` and `--strict`: the same in each command that reads events.

use std::path::Path;

use crate::support::{read, run_to, sample, says, small, write};

/// The commands, with an output each, and how each says the number of its events.
const COMMANDS: [(&str, &str); 4] = [
    (
        "decode --synthetic-detector --json out.json",
        "\"events\": ",
    ),
    ("inspect --json out.json", "\"events\": "),
    (
        "report --synthetic-detector --output out.html --json out.json",
        "\"events\": ",
    ),
    ("convert --output out.mdf", "out.mdf: "),
];

/// Returns the number of events that a command took, which must end with `code`.
#[track_caller]
fn taken(code: i32, at: &Path, (command, name): (&str, &str), args: &str) -> (u64, String) {
    let _ = std::fs::remove_file(at.join("out.json"));
    let (mut out, err) = run_to(code, at, (command, args));
    if command.contains("json") {
        out = String::from_utf8(read(at, "out.json")).unwrap();
    }
    let number = out.split(name).nth(1).unwrap_or_default();
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    (
        digits.parse().unwrap_or_else(|_| panic!("{out}\n{err}")),
        err,
    )
}

#[test]
fn each_command_takes_the_same_events() {
    let at = &sample();
    run_to(0, at, "convert events.mdf --output all.mep");
    for file in ["events.mdf", "all.mep"] {
        for (options, expected) in [
            ("", 5),
            ("--events 0,3-4", 3),
            ("--skip 1 --limit 2", 2),
            ("--shard 1/2", 2),
            ("--run 1", 5),
            ("--event-number 2", 1),
            ("--crossing beam-crossing,no-beam,beam1,beam2", 5),
            ("--time 2020-01-01T00:00..2100-01-01T00:00 --skip 4", 1),
        ] {
            for command in COMMANDS {
                let (n, err) = taken(0, at, command, &format!("{file} {options}"));
                assert_eq!(n, expected, "{command:?} {file} {options}: {err}");
            }
            let hits = |line: String| -> Vec<String> {
                let line = (line, "--synthetic-detector --output - --format csv");
                // All columns but the first, the place of the event in its file.
                let rows = run_to(0, at, line).0;
                let rows = rows.lines().map(|row| row.split_once(',').unwrap().1);
                rows.map(str::to_owned).collect()
            };
            let before = hits(format!("decode {file} {options}"));
            assert!(
                before == hits("decode out.mdf".to_owned()),
                "{file} {options}"
            );
        }
    }
}

#[test]
fn each_command_refuses_impossible_selections_and_warns_of_empty_ones() {
    let at = &sample();
    for (command, _) in COMMANDS {
        for (options, message) in [
            ("--skip 9", "--skip: the input has no more events than 9"),
            (
                "--events 7-8",
                "--events: all of these places are beyond the end",
            ),
        ] {
            says(1, at, (command, "events.mdf", options), message);
        }
        assert!(!at.join("out.mdf").exists() && !at.join("out.html").exists());
    }
    for command in [COMMANDS[0], COMMANDS[1], COMMANDS[3]] {
        let (n, err) = taken(0, at, command, "events.mdf --run 77");
        assert!(
            n == 0 && err.contains("warning: the selection matches no event in the input"),
            "{command:?}: {err}"
        );
        for option in ["--require-events", "--strict"] {
            says(
                1,
                at,
                (command.0, "events.mdf --run 77", option),
                &format!("matches no event in the input, and {option} was given"),
            );
        }
        let (n, err) = taken(0, at, command, "events.mdf --events 3-9");
        assert!(
            n == 2 && err.contains("names 7 events"),
            "{command:?}: {err}"
        );
    }
}

#[test]
fn each_command_goes_on_after_a_bad_file_if_asked_and_names_it_at_the_end() {
    let at = &sample();
    let events = read(at, "events.mdf");
    write(at, "cut.mdf", &events[..events.len() - 100]);
    write(at, "empty.mdf", b"");
    run_to(0, at, "generate --events 5 --seed 2 --output more");
    let files = "empty.mdf cut.mdf more/events.mdf --events 3-9";
    for (command, name) in COMMANDS {
        let text = "empty.mdf: the file has 0 bytes, so there is no event in the input";
        says(1, at, (command, files), text);
        let (n, err) = taken(1, at, (command, name), &format!("{files} --keep-going"));
        // The last event of the cut file is lost; the places of the next file go on behind it.
        assert_eq!(n, 6, "{command}: {err}");
        for part in [text, "cut.mdf: event 4"] {
            assert!(err.contains(part), "{command}: {err}");
        }
        if !command.contains("report") {
            assert!(
                err.contains("2 of 3 files could not be read to their end"),
                "{command}: {err}"
            );
        }
    }
}

#[test]
fn each_command_fails_for_a_damaged_event_if_it_is_strict() {
    let at = &sample();
    let mut events = read(at, "events.mdf");
    let last = events.len() - 1;
    events[last] ^= 1;
    write(at, "damaged.mdf", &events);
    for command in COMMANDS {
        let (n, _) = taken(0, at, command, "damaged.mdf");
        assert_eq!(n, 5);
        says(
            1,
            at,
            (command.0, "damaged.mdf --strict"),
            "--strict was given",
        );
        run_to(0, at, (command.0, "events.mdf --strict"));
    }
    // Each way to look at an event of its own, too.
    says(
        1,
        at,
        "inspect damaged.mdf --event 4 --strict",
        "--strict was given",
    );
    run_to(0, at, "inspect damaged.mdf --event 3 --strict");
    says(
        1,
        at,
        "inspect damaged.mdf --troubles --strict",
        "--strict was given",
    );
}

#[test]
fn boards_are_named_by_number_or_source_id_and_sectors_by_id_everywhere() {
    let at = &small(2);
    let (by_number, _) = run_to(0, at, "tables --board 3");
    for board in ["0x2c02", "11266"] {
        assert_eq!(run_to(0, at, ("tables --board", board)).0, by_number);
    }
    assert_eq!(
        run_to(0, at, "tables --sector 0x70").0,
        run_to(0, at, "tables --sector 112").0
    );
    says(
        2,
        at,
        "tables --board 0x2800",
        "no board has sourceID 0x2800",
    );
    let hits = |plant: &str| {
        run_to(
            0,
            at,
            format!("generate --events 2 --profile pp-low --output p --plant {plant}"),
        );
        read(at, "p/events.mdf")
    };
    for (one, other) in [
        ("board=3:dead", "board=0x2c02:dead"),
        ("lane=3.1:dead", "lane=0x2c02.1:dead"),
        ("sector=112:dead", "sector=0x70:dead"),
    ] {
        assert!(hits(one) == hits(other), "{one} {other}");
    }
    assert!(hits("board=3:dead") != read(at, "events.mdf"));
}
