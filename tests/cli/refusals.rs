//! Inputs that cannot be right are refused: no plausible hits with exit code 0.

use std::path::Path;

use serde_json::Value;
use ut_decoding::input::{Bank, EventHeader, Events, MARKED_BYTE};

use crate::support::{
    Folder, ONE_HIT, TABLES, bank, data, empty, event, event_with, json_of, read, run_to, sample,
    says, shell, shows, write,
};

/// Generated events of both formats as MDF, MEP packets and dumps, with their tables: `v4`, `v5`,
/// `v4.mep`, `v4-dumps` …; `real.mdf`, whose event bears the mark of a trigger; `unmarked.mdf`,
/// which bears none; `real.mep` and `real-dumps`, whose banks do not bear the mark of generated
/// ones.
fn both() -> Folder {
    let folder = empty();
    let at = folder.path();
    for format in ["v4", "v5"] {
        run_to(
            0,
            at,
            format!("generate --n-events 3 --bank-format {format} --output {format}"),
        );
        for output in [".mep", "-dumps"] {
            run_to(
                0,
                at,
                format!("convert {format}/events.mdf -o {format}{output}"),
            );
        }
    }
    let one = bank(0, &ONE_HIT);
    let of_trigger = EventHeader {
        trigger_mask: [u32::MAX; 4],
        ..EventHeader::default()
    };
    write(at, "real.mdf", &event_with(of_trigger, &[one]));
    write(at, "unmarked.mdf", &event(&[one]));
    // The generated events without their mark.
    let (mut events, mut all) = (Events::new([at.join("v5/events.mdf")]), Vec::new());
    while let Some(event) = events.next_event().unwrap() {
        let payloads: Vec<Vec<u8>> = event.banks().map(|bank| bank.payload.to_vec()).collect();
        let banks = event.banks().zip(payloads).map(|(bank, mut payload)| {
            payload[MARKED_BYTE] &= if bank.kind == 66 { 1 } else { 255 };
            (bank, payload)
        });
        let banks: Vec<_> = banks.collect();
        let banks: Vec<_> = banks
            .iter()
            .map(|(bank, payload)| Bank { payload, ..*bank })
            .collect();
        all.extend(event_with(of_trigger, &banks));
    }
    write(at, "all.mdf", &all);
    for output in ["real.mep", "real-dumps"] {
        run_to(0, at, format!("convert all.mdf -o {output}"));
    }
    folder
}

/// Checks that `decode` fails with each line of options, names the problem, and leaves no hits.
#[track_caller]
fn refused(folder: &Path, cases: &[(&str, &str)]) {
    for (line, part) in cases {
        let err = says(1, folder, ("decode -o hits.parquet", line), part);
        // If all banks of a file are of another version, a file without hits is written.
        assert!(
            !folder.join("hits.parquet").exists() || err.contains("board table's version"),
            "{line}: {err}"
        );
        let _ = std::fs::remove_file(folder.join("hits.parquet"));
    }
}

#[test]
fn tables_that_do_not_fit_each_other_are_refused_unless_they_are_trusted() {
    let at = &both();
    refused(
        at,
        &[
            (
                "v5/events.mdf --boards v5/boards.bin --geometry v4/geometry.bin",
                "it marks 0 sectors as flipped",
            ),
            (
                "v4/events.mdf --boards v4/boards.bin --geometry v5/geometry.bin",
                "it marks 524 sectors as flipped",
            ),
            (
                "v5/events.mdf --boards v5/geometry.bin --geometry v5/boards.bin",
                "this is a geometry file",
            ),
            (
                "v5/events.mdf --boards v5/boards.bin --geometry v5/boards.bin",
                "v5/boards.bin: this is a boards file",
            ),
            (
                "v5/events.mdf --boards v5/events.mdf --geometry v5/geometry.bin",
                "v5/events.mdf",
            ),
        ],
    );
    let unfit = "--boards v5/boards.bin --geometry v4/geometry.bin";
    let (_, err) = run_to(0, at, ("decode v5/events.mdf --trust-tables", unfit));
    assert!(!err.contains("error"), "{err}");
    let (out, _) = run_to(1, at, ("tables", unfit));
    assert!(
        out.contains("does not fit boards of format v5") && out.contains("524 are expected"),
        "{out}"
    );
    shows(at, ("tables --trust-tables", unfit), "Nothing is odd");
    says(
        1,
        at,
        ("report v5/events.mdf -o page.html", unfit),
        "does not fit",
    );
}

#[test]
fn events_of_another_detector_than_the_tables_are_refused() {
    let at = &both();
    let (mut own, mut foreign) = (Vec::new(), Vec::new());
    for (format, other) in [("v4", "v5"), ("v5", "v4")] {
        for input in ["{}/events.mdf", "{}.mep", "{}-dumps"].map(|name| name.replace("{}", format))
        {
            own.push(format!(
                "{input} --boards {format}/boards.bin --geometry {format}/geometry.bin"
            ));
            foreign.push(format!(
                "{input} --boards {other}/boards.bin --geometry {other}/geometry.bin"
            ));
        }
    }
    let hits = |line: &str| {
        let (found, _) = json_of(0, at, ("decode", line));
        found["hits"].as_u64().unwrap()
    };
    let own: Vec<u64> = own.iter().map(|line| hits(line)).collect();
    let (v4, v5) = (own[0], own[3]);
    assert!(own == [v4, v4, v4, v5, v5, v5] && v4 > v5);
    let version = "none of its UT banks has the board table's version";
    refused(
        at,
        &foreign
            .iter()
            .map(|line| (line.as_str(), version))
            .collect::<Vec<_>>(),
    );
    let mut moved = ut_decoding::detector::Geometry::read(at.join("v5/geometry.bin")).unwrap();
    moved.sectors[0].p0_x += 1.0;
    moved.write(at.join("moved.bin")).unwrap();
    refused(
        at,
        &[
            (
                "v5/events.mdf --boards v5/boards.bin --geometry moved.bin",
                "ut-decode generate made",
            ),
            (
                "v5/events.mdf unmarked.mdf --boards v5/boards.bin --geometry moved.bin",
                "ut-decode generate made",
            ),
            (
                "real.mdf --boards v5/boards.bin --geometry v5/geometry.bin",
                "ut-decode generate did not make",
            ),
            ("real.mdf", "no tables are named"),
            ("unmarked.mdf", "no tables are named"),
            ("v5/events.mdf real.mdf", "real.mdf: as far as can be seen"),
            (
                "v5.mep --boards v5/boards.bin --geometry moved.bin",
                "ut-decode generate made",
            ),
            (
                "v5-dumps --boards v5/boards.bin --geometry moved.bin",
                "ut-decode generate made",
            ),
            (
                "v5.mep unmarked.mdf --boards v5/boards.bin --geometry moved.bin",
                "ut-decode generate made",
            ),
            ("real.mep", "no tables are named"),
            ("real-dumps", "no tables are named"),
            (
                "real.mep --boards v5/boards.bin --geometry v5/geometry.bin",
                "ut-decode generate did not make",
            ),
            (
                "real-dumps --boards v5/boards.bin --geometry v5/geometry.bin",
                "ut-decode generate did not make",
            ),
            ("-", "can be read only once"),
            ("v4/events.mdf --synthetic-detector=v5", version),
        ],
    );
    for (line, expected) in [
        (
            "unmarked.mdf --boards v5/boards.bin --geometry moved.bin",
            1,
        ),
        (
            "v5/events.mdf --boards v5/boards.bin --geometry moved.bin --trust-tables",
            v5,
        ),
        (
            "real.mdf --boards v5/boards.bin --geometry v5/geometry.bin --trust-tables",
            1,
        ),
        ("real.mdf --synthetic-detector", 1),
        ("v5.mep", v5),
        ("v5-dumps", v5),
        ("v4.mep", v4),
        ("v5.mep --synthetic-detector", v5),
        ("v5-dumps --synthetic-detector", v5),
        ("v4-dumps --synthetic-detector=v4", v4),
        ("v4-dumps --synthetic-detector", v4),
        ("v5/events.mdf", v5),
        ("v4/events.mdf", v4),
    ] {
        assert_eq!(hits(line), expected, "{line}");
    }
    let decode = "ut-decode decode - --synthetic-detector -o piped.csv";
    let (_, err) = shell(0, at, &format!("cat v5/events.mdf | {decode}"));
    assert!(err.is_empty() && at.join("piped.csv").exists(), "{err}");
    // The events are said to be generated, not to be of another format than they look like.
    let (_, err) = shell(1, at, &format!("cat v4-dumps/*_0.bin | {decode}"));
    assert!(err.contains(version), "{err}");
    says(
        7,
        at,
        "decode v4-dumps --boards v5/boards.bin --geometry v5/geometry.bin --trust-tables",
        "lost: ",
    );
    for command in ["report {} -o page.html", "throughput {} --duration 0"] {
        for (input, code) in [("v5/events.mdf", 0), ("real.mdf", 1)] {
            run_to(code, at, command.replace("{}", input));
        }
    }
    assert!(!at.join("hits.parquet").exists());
}

#[test]
fn strict_fails_if_nothing_or_less_than_requested_was_decoded() {
    let at = &sample();
    write(at, "empty.mdf", b"");
    write(
        at,
        "odin.mdf",
        &event(&[Bank {
            kind: 16,
            ..bank(0, &ONE_HIT)
        }]),
    );
    says(
        1,
        at,
        ("decode empty.mdf", TABLES),
        "empty.mdf: the file has 0 bytes, so there is no event in the input",
    );
    for (line, part) in [
        ("odin.mdf", "no event of the input has a bank to decode"),
        (
            "events.mdf --run 2",
            "the selection matches no event in the input",
        ),
        (
            "events.mdf --events 3-9",
            "names 7 events, the input has only 2 of them",
        ),
    ] {
        let err = says(0, at, ("decode", line, TABLES), part);
        assert!(err.contains("warning: "), "{line}: {err}");
        says(
            1,
            at,
            ("decode --strict", line, TABLES),
            &format!("{part}, and --strict was given"),
        );
    }
    run_to(0, at, "decode events.mdf --strict");
    run_to(0, at, "decode events.mdf --strict --shard 6/6");
}

#[test]
fn everything_named_on_a_command_line_is_checked_before_the_first_event() {
    let at = &sample();
    write(at, "a.root", b"root, not raw");
    write(at, "page.html", b"mine");
    write(at, "hits.csv", b"mine");
    for (line, part) in [
        ("decode events.mdf absent.mdf -o hits.csv", "absent.mdf"),
        ("decode events.mdf a.root -o hits.csv", "a ROOT file"),
        ("decode events.mdf boards.bin -o hits.csv", "a boards file"),
        ("decode geometry.bin -o hits.csv", "a geometry file"),
        (
            "decode events.mdf --mask absent.txt -o hits.csv",
            "absent.txt",
        ),
        ("report events.mdf absent.mdf -o page.html", "absent.mdf"),
        (
            "report events.mdf --reference absent.mdf -o page.html",
            "absent.mdf",
        ),
        ("inspect absent.mdf", "absent.mdf"),
        ("convert events.mdf absent.mdf -o all.mdf", "absent.mdf"),
    ] {
        let (out, err) = run_to(1, at, line);
        assert!(
            out.is_empty() && err.contains(part) && !err.contains("incomplete"),
            "{line}: {out}{err}"
        );
    }
    assert!(
        read(at, "page.html") == b"mine"
            && read(at, "hits.csv") == b"mine"
            && !at.join("all.mdf").exists()
    );
    // One that is to be passed over is one of the files that could not be read.
    says(
        1,
        at,
        "decode absent.mdf events.mdf --keep-going",
        "1 of 2 files could not be read",
    );
}

#[test]
fn impossible_names_and_numbers_are_usage_errors() {
    let at = &sample();
    std::fs::create_dir(at.join("my.dumps")).unwrap();
    for (line, part) in [
        (
            "convert events.mdf -o x.parquet",
            "convert makes .mdf, .mdf.zst and .mep files",
        ),
        ("report events.mdf -o x.pdf", "the page is HTML"),
        (
            "decode events.mdf --max-cluster-size 0",
            "expected a number of strips, 1 to 4294967295",
        ),
    ] {
        says(2, at, line, part);
    }
    assert!(!at.join("x.parquet").exists() && !at.join("x.pdf").exists());
    for line in [
        "convert events.mdf -o my.dumps",
        "convert events.mdf -o new.dumps/",
    ] {
        run_to(0, at, line);
    }
    // A folder is an input of `convert`, too.
    run_to(0, at, "convert my.dumps --bank-format v5 -o back.mdf");
    assert_eq!(
        json_of(0, at, "decode back.mdf --synthetic-detector").0["events"],
        5
    );
}

#[test]
fn outputs_name_their_tables_and_the_program() {
    let at = &sample();
    write(at, "mask.txt", b"sector 5");
    let of = |args: &str| json_of(0, at, (args, TABLES)).0;
    let (decoded, masked) = (
        of("decode events.mdf"),
        of("decode events.mdf --mask mask.txt"),
    );
    write(at, "mask.txt", b"sector 6");
    let other = of("decode events.mdf --mask mask.txt");
    let (tables, report) = (of("tables"), of("report events.mdf -o page.html"));
    let is_hash = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| text.len() == 22 && text.starts_with("xxh64:"))
    };
    for key in ["boards_hash", "geometry_hash"] {
        assert!(is_hash(&decoded["provenance"][key]));
        assert_eq!(decoded["provenance"][key], tables[key]);
        assert_eq!(decoded["provenance"][key], report["provenance"][key]);
        let page = String::from_utf8(read(at, "page.html")).unwrap();
        assert!(page.contains(tables[key].as_str().unwrap()));
    }
    assert!(is_hash(&masked["provenance"]["mask_hash"]));
    assert_ne!(
        masked["provenance"]["mask_hash"],
        other["provenance"]["mask_hash"]
    );
    assert_eq!(
        (
            &decoded["provenance"]["flip"],
            &report["provenance"]["flip"]
        ),
        (&"511".into(), &"511".into())
    );
    let inspected = json_of(0, at, "inspect events.mdf").0;
    let throughput = of("throughput --duration 0 --n-events 20");
    assert_eq!(throughput["detector_boards_hash"], tables["boards_hash"]);
    for value in [&decoded, &tables, &report, &inspected, &throughput] {
        assert_eq!(
            value["made_by"]["version"],
            env!("CARGO_PKG_VERSION"),
            "{value}"
        );
        assert!(value["made_by"]["commit"].is_string());
    }
    let (version, _) = run_to(0, at, "--version");
    assert!(
        version.starts_with(concat!(
            "ut-decode ",
            env!("CARGO_PKG_VERSION"),
            ", commit "
        )),
        "{version}"
    );
}

/// Real tables and events that do not belong together.
#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_tables_and_events_that_do_not_belong_together_give_no_hits() {
    let (at, data) = (&both(), data());
    for (name, path) in [
        ("b4", "tables/ut_boards_v4_240.bin"),
        ("g4", "tables/ut_geometry_2018.bin"),
        ("b5", "tables/ut_boards_v5_216.bin"),
        ("g5", "tables/ut_geometry_sim10.bin"),
        ("e4", "minibrunel/MiniBrunel_2018_minbias_10events.mdf"),
        ("e5", "v5/ut_v5_minbias_20events.mdf"),
        ("d4", "minibrunel/allen-layout"),
    ] {
        std::os::unix::fs::symlink(std::path::absolute(data.join(path)).unwrap(), at.join(name))
            .unwrap();
    }
    for (from, to) in [("e4", "m4.mep"), ("e5", "m5.mep"), ("e5", "d5")] {
        run_to(0, at, format!("convert {from} -o {to}"));
    }
    let [s4, t4, s5, t5] = [
        "v4/boards.bin",
        "v4/geometry.bin",
        "v5/boards.bin",
        "v5/geometry.bin",
    ];
    // Boards, geometry, their events, and events that do not show that they are of another detector
    // of the format.
    let belong = [
        ("b4", "g4", "e4 m4.mep d4", ""),
        ("b5", "g5", "e5 m5.mep d5", ""),
        ("b4", "g5", "", ""),
        ("b5", "g4", "", ""),
        (s4, t4, "v4/events.mdf", "m4.mep d4"),
        (s5, t5, "v5/events.mdf", "m5.mep d5"),
        (s4, "g4", "", "m4.mep d4"),
        ("b5", t5, "", "m5.mep d5"),
    ];
    let inputs = [
        "e4",
        "m4.mep",
        "d4",
        "v4/events.mdf",
        "e5",
        "m5.mep",
        "d5",
        "v5/events.mdf",
    ];
    let mut refusals = 0;
    for (boards, geometry, own, unseen) in belong {
        let of = |list: &str, input: &str| list.split(' ').any(|name| name == input);
        for input in inputs.into_iter().filter(|input| !of(unseen, input)) {
            let code = i32::from(!of(own, input));
            run_to(
                code,
                at,
                format!("decode {input} --boards {boards} --geometry {geometry}"),
            );
            refusals += code;
        }
    }
    for input in inputs.iter().filter(|input| !input.starts_with('v')) {
        run_to(1, at, format!("decode {input}"));
    }
    // Eight pairs of tables times eight inputs are 64. Of these, 8 are `unseen` and left out, and 8
    // are the own events of their tables, which decode. All others must be refused.
    assert_eq!(refusals, 48);
}
