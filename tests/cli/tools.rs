//! `ut-decode inspect`, `generate`, `convert`, `throughput` and `share`, end to end.

use crate::support::{
    ONE_HIT, TABLES, bank, empty, event, json_of, read, run, run_to, sample, says, shows,
    unchecked, write,
};
use ut_decoding::input::{Bank, Events, kind, write_allen_dump};

#[test]
fn generate_gives_the_same_bytes_for_the_same_seed() {
    let directory = &empty();
    let names = ["events.mdf", "boards.bin", "geometry.bin"];
    let files = |seed: &str, format: &str, output: &str| {
        run_to(
            0,
            directory,
            format!("generate --events 2 --seed {seed} --format {format} --output {output}"),
        );
        names.map(|name| read(directory, &format!("{output}/{name}")))
    };
    let first = files("7", "v5", "a/b");
    assert!(first == files("7", "v5", "c"));
    assert!(first[0] != files("8", "v5", "d")[0]);
    assert!(first[0] != files("7", "v4", "e")[0]);
    let mut reader = Events::new([directory.join("c/events.mdf")]);
    for number in 0..2 {
        let event = reader.next_event().unwrap().unwrap();
        assert!(event.is_generated() && event.damage.is_none());
        assert_eq!(event.number, Some(number));
    }
    run_to(2, directory, "generate --profile no-such --output f");
    run_to(2, directory, "generate");
    write(directory, "file", b"");
    says(1, directory, "generate --output file", "cannot write file");
}

/// Puts one bank of each fate into an event: a good one, a bad header (a count of 255 in lane 1,
/// byte 5), a bank cut to 26 of its 32 bytes, and a sourceID that names no board. The third has the
/// same sourceID as the second, so it must say both that it is truncated and that its board has
/// sent a bank already.
///
/// The good bank has sourceID `5 << 11 | 1 << 10 | 3`, 0x2c03: UT on the A side, TELL40 card 3,
/// data flow 1. Cards count from 1, so this is board (3 - 1) * 2 + 1 = 5.
#[test]
fn inspect_shows_one_event_and_one_bank() {
    let directory = &empty();
    let mut bad = ONE_HIT;
    bad[5] = 255;
    let banks = [
        bank(5 << 11 | 1 << 10 | 3, &ONE_HIT),
        bank(2, &bad),
        bank(2, &ONE_HIT[..26]),
        bank(6 << 11, &[0; 8]),
    ];
    write(directory, "a.mdf", &event(&banks));
    let (out, _) = run_to(0, directory, "inspect a.mdf --event 0");
    let row = |number: &str| {
        out.lines()
            .skip_while(|line| !line.starts_with("bank"))
            .find(|line| line.starts_with(number))
            .unwrap()
    };
    assert!(
        row("0 ").contains("0x2c03") && row("0 ").contains("  5  "),
        "{out}"
    );
    assert!(
        row("1 ").contains("255") && row("1 ").contains("dropped whole"),
        "{out}"
    );
    assert!(
        row("2 ").contains("truncated") && row("2 ").contains("has sent a bank already"),
        "{out}"
    );
    assert!(row("3 ").contains("no board has this sourceID"), "{out}");
    let out = shows(
        directory,
        "inspect a.mdf --bank 0",
        "board 5 (Run 3 numbering: A side, TELL40 3, data flow 1)",
    );
    assert!(
        out.contains("lane 0: 5:9") && out.contains("lane 1: -"),
        "{out}"
    );
    for choice in ["event 1", "bank 4"] {
        says(
            1,
            directory,
            format!("inspect a.mdf --{choice}"),
            &format!("there is no {choice}"),
        );
    }
}

#[test]
fn inspect_shows_v4_clusters() {
    let directory = &empty();
    // Hybrid 1, strip 3 (from 1), 2 quarters; charge of two strips. Then a cluster on hybrid 6,
    // which is not there.
    // The first two words are the header: two clusters, then the PCN with the error flag. A cluster
    // word has two bits of quarters, twelve of the channel, and bit 15 for a high threshold, which
    // must not reach the channel. Channel 514 is 512 + 2, strip index 2 of hybrid 1; 3072 is 6 *
    // 512.
    let words = [2u16, 0x0180, 514 << 2 | 2 | 1 << 15, 3072 << 2];
    let mut payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    payload.extend([0xff, 11, 0x8c, 4, 0x8d]);
    let mut v4 = bank(9, &payload);
    v4.version = Some(3);
    write(directory, "a.mdf", &event(&[v4]));
    let (out, _) = run_to(0, directory, "inspect a.mdf --bank 0");
    for expected in [
        "2 clusters, PCN 128, error flag 1",
        "error flag is set",
        "hybrids 6 and 7",
    ] {
        assert!(out.contains(expected), "{expected} in\n{out}");
    }
    let fields: Vec<_> = out
        .lines()
        .find(|line| line.starts_with("0 "))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        fields,
        ["0", "514", "1", "3", "2", "0", "1", "-1", "11", "12"]
    );
}

/// Strings three events together: a good one, one whose first bank has lost half of its magic
/// number (byte 48 is the first behind header and sub-header), and a third that ends after 70
/// bytes. The second is counted, and reading goes on; the third ends the file, so that the summary
/// must say that it is not complete, and still give the counts of what came before.
#[test]
fn inspect_names_every_problem() {
    let directory = &empty();
    let good = unchecked(event(&[bank(0, &ONE_HIT)]));
    let mut magic = good.clone();
    magic[48] = 0;
    write(
        directory,
        "a.mdf",
        &[&good[..], &magic, &good[..70]].concat(),
    );
    let (out, err) = run_to(1, directory, "inspect a.mdf");
    assert!(
        out.contains("0xcb00 instead of 0xcbcb") && out.contains("1 damaged event"),
        "{out}"
    );
    assert!(
        err.contains("event 2") && err.contains("beyond the file"),
        "{err}"
    );
    shows(directory, "inspect a.mdf --event 1", "DAMAGED");
    let (json, _) = json_of(1, directory, "inspect a.mdf");
    assert_eq!(
        (&json["events"], &json["complete"]),
        (&2.into(), &false.into())
    );
    assert_eq!(
        (&json["types"][0]["type"], &json["types"][0]["banks"]),
        (&66.into(), &1.into())
    );
    assert_eq!(json["damaged_events"][0]["event"], 1);
    let (_, err) = run_to(1, directory, "inspect absent.mdf");
    assert!(
        err.contains("cannot open absent.mdf") && err.contains("because: No such file"),
        "{err}"
    );
}

/// Goes around a circle: MDF to dumps of one event each, and back to MDF. An Allen-layout dump has
/// no field for the version of a bank. A conversion that guessed it would be right for today's data
/// and silently wrong for v4. So the first text must ask to note the version, the second must say
/// that it was given, and hits must be equal in all three files.
#[test]
fn converting_to_dumps_and_back_keeps_the_hits_and_says_what_is_lost() {
    let directory = &sample();
    let (out, _) = run_to(0, directory, "convert events.mdf --output dumps");
    for expected in ["5 events", "keep a note of their version, 4"] {
        assert!(out.contains(expected), "{expected} in\n{out}");
    }
    let dumps = "dumps/1_0.bin dumps/1_1.bin dumps/1_2.bin dumps/1_3.bin dumps/1_4.bin";
    let (out, _) = run_to(
        0,
        directory,
        ("convert --format v5 --output back.mdf", dumps),
    );
    assert!(
        out.contains("5 events") && out.contains("that was given"),
        "{out}"
    );
    let hits = |files: &str| {
        run_to(0, directory, ("decode --output hits.csv", files, TABLES));
        let text = String::from_utf8(read(directory, "hits.csv")).unwrap();
        // Event and file differ: each dump is a file of one event.
        text.lines()
            .map(|row| row.split(',').skip(1).take(8).collect::<Vec<_>>().join(","))
            .collect::<Vec<_>>()
    };
    let expected = hits("events.mdf");
    assert!(hits("back.mdf") == expected);
    assert!(hits(dumps) == expected);
    let mut reader = Events::new([directory.join("back.mdf")]);
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!(
        (event.run, event.number, event.is_generated()),
        (Some(1), Some(0), true)
    );
}

/// Guards against a conversion that launders data. Writing a new checksum over bytes that did not
/// match the old one would turn a detected fault into a silent one. So MDF to MDF copies the
/// damaged event bit for bit, and formats that cannot hold it, packets and dumps, refuse unless
/// `--drop-damaged` asks for less.
///
/// Of the three events one is good, one has a flipped bit in its checksum (byte 12), and one has
/// lost the magic number of its second bank. Header and sub-header have 48 bytes and the first bank
/// 8 + 32, so that the second bank begins at byte 88. The three events have 6 banks: the second
/// event loses its 2, the third the bank with the fault.
#[test]
fn a_conversion_copies_damaged_events_or_drops_them_but_never_hides_the_damage() {
    let at = &empty();
    let good = event(&[bank(0, &ONE_HIT), bank(1, &ONE_HIT)]);
    let mut wrong = good.clone();
    wrong[12] ^= 1;
    let mut magic = unchecked(good.clone());
    magic[48 + 40] = 0;
    write(at, "a.mdf", &[&good[..], &wrong, &magic].concat());
    let text = shows(at, "convert a.mdf -o b.mdf", "b.mdf: 3 events");
    assert!(
        text.contains("copied as they are: 2 damaged events"),
        "{text}"
    );
    let copied = read(at, "b.mdf");
    assert!(copied.ends_with(&[wrong, magic].concat()));
    run_to(0, at, "convert a.mdf -o b.mdf.zst");
    let lost = "lost: 3 of 6 banks (50 %): 2 wrong checksum, 1 damaged event";
    for name in ["a.mdf", "b.mdf", "b.mdf.zst"] {
        says(0, at, ("decode --synthetic-detector", name), lost);
    }
    for (output, written) in [
        ("c.mep", "c.mep: 1 event"),
        ("dumps", "dumps: 1 event"),
        ("d.mdf", "d.mdf: 1 event"),
    ] {
        if output != "d.mdf" {
            let err = says(
                1,
                at,
                ("convert a.mdf -o", output),
                "a.mdf: event 1 at byte 128: checksum",
            );
            assert!(
                err.contains("--drop-damaged leaves damaged events out"),
                "{err}"
            );
        }
        let text = shows(at, ("convert --drop-damaged a.mdf -o", output), written);
        assert!(text.contains("left out: 2 damaged events"), "{text}");
    }
    says(0, at, "decode --synthetic-detector --strict d.mdf", "");
}

#[test]
fn a_conversion_numbers_events_without_a_number_and_leaves_out_what_a_packet_cannot_hold() {
    let directory = &empty();
    let broken_odin = Bank {
        kind: kind::ODIN,
        payload: &[0; 4],
        ..bank(0, &[])
    };
    let error_bank = Bank {
        kind: kind::UT_ERROR,
        ..bank(2, &[0; 8])
    };
    // None of the four has a number, and the third has no banks.
    let events = [
        &[bank(1, &[0; 7])][..],
        &[error_bank],
        &[],
        &[broken_odin, bank(1, &[0; 8])],
    ];
    write(directory, "odd.mdf", &events.map(event).concat());
    let mut dump = Vec::new();
    write_allen_dump(&mut dump, [bank(1, &[0; 8])]).unwrap();
    write(directory, "1_9.bin", &dump);
    let both = "odd.mdf 1_9.bin --format v4 --output";
    shows(directory, ("convert", both, "all.mdf"), "all.mdf: 5 events");
    let text = shows(directory, ("convert", both, "all.mep"), "all.mep: 4 events");
    assert!(text.contains("left out: 1 event without banks"), "{text}");
    let mut events = Events::new(&[directory.join("all.mep")]);
    let mut numbers = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        numbers.push(event.number.unwrap());
    }
    assert_eq!(numbers, [0, 1, 3, 9]);
    shows(
        directory,
        "convert odd.mdf --output dumps",
        "dumps: 4 events",
    );
    for place in 0..4 {
        assert!(
            directory.join(format!("dumps/7_{place}.bin")).exists(),
            "{place}"
        );
    }
}

#[test]
fn tables_are_shown_and_inconsistent_tables_fail() {
    let directory = &sample();
    let (json, out) = json_of(0, directory, "tables");
    assert_eq!(
        (&json["boards"], &json["lanes"], &json["odd"]),
        (&216.into(), &1192.into(), &serde_json::json!([]))
    );
    assert!(out.contains("Nothing is odd"), "{out}");
    let (json, _) = json_of(0, directory, ("tables", TABLES));
    assert_eq!(
        (&json["layers"][0]["sectors"], &json["layers"][3]["sectors"]),
        (&248.into(), &276.into())
    );
    // A boards file has a header of two words, one word per board, and then eight arrays with one
    // word for each of the 6 * 216 slots. The same slot of each array is overwritten, so the lane
    // is a consistent copy, and only the comparison of lanes with each other can find it.
    // Replaces a lane by the next lane: words of the boards file after its header.
    let lanes = ut_decoding::synth::detector(ut_decoding::detector::BankVersion::V5, 1)
        .0
        .lanes;
    let slot = (0..1290)
        .find(|&slot| slot % 6 == 1 && [0, 1].iter().all(|i| lanes[slot + i].is_connected()))
        .unwrap();
    let mut boards = read(directory, "boards.bin");
    for array in 0..8 {
        let to = 4 * (2 + 216 + array * 6 * 216 + slot);
        boards.copy_within(to + 4..to + 8, to);
    }
    write(directory, "boards.bin", &boards);
    let (json, err) = json_of(1, directory, ("tables", TABLES));
    let odd = json["odd"].to_string();
    let board = slot / 6;
    assert!(
        odd.contains(&format!(
            "belongs to board {board} lane 1 and board {board} lane 2"
        )),
        "{odd}"
    );
    assert!(err.contains("odd"), "{err}");
    let (_, err) = run_to(
        1,
        directory,
        "tables --boards /dev/zero --geometry geometry.bin",
    );
    assert!(
        err.contains("/dev/zero") && err.contains("not a table"),
        "{err}"
    );
}

#[test]
fn the_tables_of_the_settings_are_shown_unless_a_format_is_asked_for() {
    let directory = &sample();
    write(
        directory,
        "set.toml",
        b"boards = \"boards.bin\"\ngeometry = \"geometry.bin\"\n",
    );
    let shown = |options: &str| json_of(0, directory, ("tables --config set.toml", options)).0;
    assert_eq!(shown("")["boards_file"], "boards.bin");
    let embedded = shown("--synthetic-detector=v4");
    assert_eq!(
        (&embedded["boards_file"], &embedded["format"]),
        (&serde_json::Value::Null, &"v4".into())
    );
}

/// Protects against `/dev/zero` in place of a file, by mistake or by malice. A reader that takes
/// the whole text into memory before it looks at it would use all memory of the machine, so each
/// kind of text has a limit of its size, and the message names it.
#[test]
fn endless_texts_and_tables_are_refused() {
    let directory = &sample();
    write(
        directory,
        "one.csv",
        b"event,layer,x_at_y_eq0,id\n0,0,1.5,7\n",
    );
    write(directory, "zeros.csv", &vec![0; 3 << 20]);
    write(directory, "list.txt", &vec![b'\n'; (1 << 20) + 1]);
    for (code, args, message) in [
        (
            1,
            "decode events.mdf --mask /dev/zero",
            "larger than 32 MiB",
        ),
        (
            1,
            "decode events.mdf --config /dev/zero",
            "larger than 1 MiB",
        ),
        (
            1,
            "report --merge zeros.csv -o page.html",
            "not sums of ut-decode report",
        ),
        (1, "decode @/dev/zero", "larger than 256 MiB"),
        (1, "decode @list.txt", "more than 1,048,576 lines"),
    ] {
        says(code, directory, args, message);
    }
}

#[test]
fn generate_feeds_a_pipe() {
    let directory = &sample();
    let output = run(directory, "generate --events 5 --output -");
    assert!(output.status.success() && output.stdout == read(directory, "events.mdf"));
    run_to(2, directory, "generate --events 5 --mep --output -");
}

#[test]
fn decode_says_which_stage_was_busy() {
    let directory = &sample();
    let (json, out) = json_of(0, directory, "decode events.mdf --threads 2");
    let stages = json["pipeline"]["stages"].as_array().unwrap();
    assert_eq!(
        stages
            .iter()
            .map(|stage| &stage["threads"])
            .collect::<Vec<_>>(),
        [1, 2, 1]
    );
    assert_eq!(
        stages
            .iter()
            .map(|stage| &stage["pieces"])
            .collect::<Vec<_>>(),
        [1, 1, 1]
    );
    assert!(
        stages
            .iter()
            .all(|stage| (0.0..=1.0).contains(&stage["busy"].as_f64().unwrap()))
    );
    assert!(
        out.contains("busy ") && out.contains("% of 2 threads"),
        "{out}"
    );
}

#[test]
fn events_that_cannot_be_converted_are_an_error() {
    let directory = &sample();
    run_to(0, directory, "convert events.mdf --output dumps");
    says(
        2,
        directory,
        "convert dumps/1_0.bin --output a.mdf",
        "--bank-format",
    );
    run_to(2, directory, "convert events.mdf");
    says(
        2,
        directory,
        "convert - - --output a.mdf",
        "standard input can be read only once",
    );
    for (output, message) in [
        ("a.mep.zst", "output is .mdf.zst"),
        ("a.zst", "output is .mdf.zst"),
        ("a.mdf.gz", "output is .mdf.zst"),
        ("-", "files only"),
    ] {
        says(
            2,
            directory,
            format!("convert events.mdf --output {output}"),
            message,
        );
        assert!(!directory.join(output).exists());
    }
    says(
        1,
        directory,
        "convert dumps/1_0.bin --output a",
        "nothing to convert",
    );
    assert!(!directory.join("a.mdf").exists());
    says(
        1,
        directory,
        "convert events.mdf events.mdf --output twice",
        "1_0.bin is the name of two events",
    );
    // An input that cannot be read: what came before is kept.
    write(directory, "bad.bin", &[1, 0, 0, 0]);
    let args = "convert dumps/1_0.bin bad.bin --format v5 --output a.mdf";
    let err = says(1, directory, args, "a.mdf is incomplete");
    assert!(err.contains("bad.bin: a table of"), "{err}");
    let (json, _) = json_of(0, directory, ("decode a.mdf", TABLES));
    assert_eq!(json["events"], 1);
    // If nothing was read before the failure, no file is left.
    run_to(1, directory, "convert bad.bin --format v5 --output b.mdf");
    assert!(!directory.join("b.mdf").exists());
    write(directory, "empty.mdf", b"");
    says(
        1,
        directory,
        "convert empty.mdf --output c.mdf",
        "empty.mdf: the file has 0 bytes",
    );
    assert!(!directory.join("c.mdf").exists());
}

/// Holds the numbers against each other, since none can be known beforehand: quartiles ascend, the
/// rate per thread times the threads is the rate, and there are more strips than events. Only the
/// text about 5 distinct events and single passes keeps a reader from comparing this run with a
/// real measurement.
#[test]
fn throughput_says_what_was_measured() {
    let directory = &sample();
    let (json, err) = json_of(
        0,
        directory,
        "throughput events.mdf --duration 0 --threads 2",
    );
    assert_eq!(json["backend"], "cpu");
    assert_eq!(
        (&json["threads"], &json["events"], &json["distinct_events"]),
        (&2.into(), &1000.into(), &5.into())
    );
    let rate = |name: &str| json["events_per_second"][name].as_f64().unwrap();
    assert!(0.0 < rate("q1") && rate("q1") <= rate("median") && rate("median") <= rate("q3"));
    let per_thread = json["events_per_second_per_thread"].as_f64().unwrap();
    assert!((per_thread * 2.0 - rate("median")).abs() < 1e-6 * rate("median"));
    assert!(json["strips_per_second"]["median"].as_f64().unwrap() > rate("median"));
    assert!(json["gigabytes_per_second"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(json["repeated_events"], true);
    for note in ["only 5 distinct events", "single passes without warm-up"] {
        assert!(err.contains(note), "{err}");
    }
    let (json, _) = json_of(
        0,
        directory,
        "throughput events.mdf --duration 0 --threads 1 --set layout=mep --batch 100",
    );
    let said = |json: &serde_json::Value| {
        ["layout", "batch", "events", "threads"].map(|name| json[name].clone())
    };
    assert_eq!(
        serde_json::json!(said(&json)),
        serde_json::json!(["mep", 100, 1000, 1])
    );
    let (set, _) = json_of(
        0,
        directory,
        "throughput events.mdf --duration 0 --set layout=mep --set threads=1 --set batch=100",
    );
    // `--batch 100` and `--set batch=100` are two names for one setting. Giving both is an error
    // even where they agree: a script that sets both has one that does not do what it says.
    assert_eq!(said(&set), said(&json), "options and parameters");
    let (set, _) = json_of(
        0,
        directory,
        "throughput events.mdf --duration 0 --set layout=mep,threads=1,batch=100",
    );
    assert_eq!(said(&set), said(&json), "parameters in one option");
    for twice in ["--threads 1 --set threads=1", "--batch 9 --set batch=9"] {
        for command in ["throughput", "decode"] {
            says(
                2,
                directory,
                (command, "events.mdf", twice),
                "leave one out",
            );
        }
    }
}

#[test]
fn throughput_without_a_file_measures_1000_embedded_events() {
    let directory = &empty();
    let (json, err) = json_of(0, directory, "throughput --duration 0 --threads 1");
    assert_eq!(
        (&json["events"], &json["distinct_events"]),
        (&1000.into(), &1000.into())
    );
    assert!(!err.contains("distinct events, repeated"), "{err}");
    let simd = json["simd"].as_str().unwrap();
    assert!(err.contains(&format!("cpu ({simd}), 1 thread\n")), "{err}");
    assert!(json["pipeline"].is_null(), "{json}");
    let args = "throughput --duration 0 --events 1 --backend emulated";
    let (json, err) = json_of(0, directory, args);
    assert_eq!(
        (&json["pipeline"], &json["simd"]),
        (&"ranked".into(), &serde_json::Value::Null)
    );
    assert!(err.contains("emulated (ranked), "), "{err}");
}

/// Measures batches of 1, 10 and 40 with `--events 20`. The last is larger than the number of
/// events, which grows to fill one batch. Sizes are measured in turn rather than one after another,
/// so that a machine that becomes slower during the run slows all of these down alike.
#[test]
fn several_batch_sizes_are_measured_in_turn_with_latencies() {
    let directory = &sample();
    let args = "throughput events.mdf --duration 0 --threads 1 --events 20 --batch 1,10 --batch 40";
    let (json, err) = json_of(0, directory, args);
    let results = json["batches"].as_array().unwrap();
    let of = |name: &str| {
        results
            .iter()
            .map(|result| result[name].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (of("batch"), of("events")),
        (vec![1, 10, 40], vec![20, 20, 40])
    );
    for result in results {
        let latency = |name: &str| result["latency"]["us"][name].as_f64().unwrap();
        assert!(
            0.0 < latency("min") && latency("median") <= latency("max"),
            "{result}"
        );
        assert!(
            result["latency"]["p99_us"].as_f64().unwrap() >= latency("median"),
            "{result}"
        );
        assert_eq!(result["repetitions"], results[0]["repetitions"]);
    }
    assert!(
        json["environment"]["seen"]["looks"].as_u64().unwrap() >= 2
            && json["environment"]["gpu"].is_null()
    );
    assert!(
        err.contains("a batch takes, us") && err.contains("while measured"),
        "{err}"
    );
}

#[test]
fn throughput_of_no_events_fails() {
    let directory = &empty();
    write(directory, "empty.mdf", b"");
    says(1, directory, "throughput empty.mdf", "no event");
    run_to(1, directory, "throughput absent.mdf");
    // Banks that would all be skipped.
    run_to(0, directory, "generate --format v4 --events 1 --output .");
    write(directory, "v5.mdf", &event(&[bank(0, &ONE_HIT)]));
    says(
        1,
        directory,
        ("throughput v5.mdf", TABLES),
        "none of its UT banks has the board table's version",
    );
    run_to(2, directory, "throughput --duration=-1");
    run_to(2, directory, "throughput --batch 0");
}

#[test]
fn manual_pages_and_completions_are_installed_in_the_usual_places() {
    let directory = &empty();
    shows(
        directory,
        "share prefix/share",
        "files written to prefix/share",
    );
    let page =
        |name: &str| String::from_utf8(read(directory, &format!("prefix/share/{name}"))).unwrap();
    for (manual, word) in [
        ("ut-decode", "Upstream Tracker"),
        ("ut-decode-decode", "keep"),
        ("ut-decode-tune-run", "tune"),
    ] {
        let page = page(&format!("man/man1/{manual}.1"));
        assert!(
            page.contains(".SH SYNOPSIS") && page.contains(word),
            "{page}"
        );
    }
    for script in [
        "bash-completion/completions/ut-decode",
        "zsh/site-functions/_ut-decode",
        "fish/vendor_completions.d/ut-decode.fish",
    ] {
        assert!(page(script).contains("throughput"), "{script}");
    }
    write(directory, "file", b"");
    says(1, directory, "share file", "cannot make file");
}
