//! Data that cannot be right: the account of what was lost, its thresholds, and exit code 7.
//!
//! The account itself, which counters make up a loss and from which share on it matters, is in
//! `docs/policy.md`. These tests damage whole files and look at the three things that a script
//! sees: the exit code, the last line on standard error, and `loss` in the JSON. A generated event
//! has 216 UT banks, one per board, so that 20 events are the 4,320 banks of most messages here and
//! 40 events are 8,640.
//!
//! Exit code 7 must be neither too eager nor too shy. A job that loses half its banks to a wrong
//! table of boards still produces thousands of plausible hits, and only this code keeps a script
//! from going on with them. But a file with one truncated bank in ten thousand is normal, and must
//! end with 0.

use std::path::Path;

use serde_json::Value;
use ut_decoding::input::{Bank, EventHeader, Events, GENERATED_MASK, MdfWriter};
use ut_decoding::synth::encode::encode_v5;

use crate::support::{
    ONE_HIT, TABLES, bank, data, empty, event, event_with, json_of, read, run_to, says, small,
    unchecked, write,
};

/// A bank of an event that a test damages.
struct Owned {
    kind: u8,
    version: u8,
    source_id: u32,
    payload: Vec<u8>,
}

/// Writes the events of `from` without checksums, and with what `damage` makes of their UT banks:
/// it gets the event, the place of the bank among the UT banks of the event, and the bank.
fn damaged(from: &Path, to: &Path, damage: impl Fn(u64, usize, &mut Owned)) {
    let (mut events, mut bytes) = (Events::new([from]), Vec::new());
    while let Some(event) = events.next_event().unwrap() {
        let mut b = 0;
        let banks = event.banks().map(|bank| {
            let Bank {
                kind,
                version,
                source_id,
                payload,
            } = bank;
            let mut owned = Owned {
                kind,
                version: version.unwrap(),
                source_id,
                payload: payload.to_vec(),
            };
            if kind == 66 {
                damage(event.index, b, &mut owned);
                b += 1;
            }
            owned
        });
        let banks: Vec<Owned> = banks.collect();
        let banks = banks.iter().map(|bank| Bank {
            kind: bank.kind,
            version: Some(bank.version),
            source_id: bank.source_id,
            payload: &bank.payload,
        });
        let trigger_mask = event.trigger_mask.unwrap_or(GENERATED_MASK);
        let mut writer = MdfWriter::new(Vec::new());
        writer
            .write(
                &EventHeader {
                    trigger_mask,
                    run: 1,
                    number: None,
                },
                banks,
            )
            .unwrap();
        bytes.extend(unchecked(writer.finish().unwrap()));
    }
    std::fs::write(to, bytes).unwrap();
}

/// Returns the events of an MDF file, one by one.
///
/// Follows the sizes: the first word of an event is its size in bytes, header included, so no other
/// field is needed to find the next event.
fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut events = Vec::new();
    while let Some((size, _)) = bytes.split_first_chunk() {
        let (event, rest) = bytes.split_at(u32::from_le_bytes(*size) as usize);
        events.push(event.to_vec());
        bytes = rest;
    }
    events
}

/// Pads each bank of an MDF event to a multiple of `unit` bytes.
///
/// MDF pads banks to 4 bytes. The header and sub-header end at byte `20 + 4 * words`, which the low
/// four bits of byte 17 give. A reader that expects 4 finds a zero in place of the next magic
/// number and takes the event for damaged from there on, so that only the first bank or banks
/// survive.
fn padded(event: &[u8], unit: usize) -> Vec<u8> {
    let body = 20 + 4 * usize::from(event[17] & 15);
    let (mut out, mut at) = (event[..body].to_vec(), body);
    while at < event.len() {
        let size = usize::from(u16::from_le_bytes([event[at + 2], event[at + 3]]));
        out.extend(&event[at..at + size]);
        out.resize(body + (out.len() - body).next_multiple_of(unit), 0);
        at += size.next_multiple_of(4);
    }
    let size = (out.len() as u32).to_le_bytes();
    for word in 0..3 {
        out[4 * word..][..4].copy_from_slice(&size);
    }
    out
}

/// Makes the damaged files of `events`, v5 banks, in `directory`, and returns the names.
///
/// The names stand for mistakes that happen between a detector and a file:
///
/// * `charge`: the five bits of ADC of each hit word are cleared, so each cluster has charge 0.
/// * `detector`: the sourceIDs are another detector's, `0x1000 + b`. With their top five bits not
///   0, the low byte counts TELL40 cards from 1, and `b` becomes board `2 * (b - 1)`. For 216 banks
///   that is a board of the table for `b` from 1 to 108, and none for the other half.
/// * `swapped`: the bytes of each word are in the other order, as on a big-endian computer.
/// * `version`: every second bank announces the other format.
/// * `errors`: all banks have the type of a UTError.
/// * `padding` and `wide`: banks are padded to 16 and 32 bytes.
/// * `checksum`: the word of the checksum is 1 in place of 0, which would mean none.
///
/// `clean.mdf` is the control: the same way through `damaged` without a change must lose nothing.
/// `v4.mdf` is used with the real events only.
fn damage_all(directory: &Path, events: &Path) -> Vec<&'static str> {
    let make = |name: &str, damage: &dyn Fn(u64, usize, &mut Owned)| {
        damaged(events, &directory.join(name), damage);
    };
    make("clean.mdf", &|_, _, _| {});
    make("charge.mdf", &|_, _, bank| {
        for word in bank
            .payload
            .get_mut(8..)
            .unwrap_or_default()
            .chunks_exact_mut(2)
        {
            word[0] &= !31;
        }
    });
    make("detector.mdf", &|_, b, bank| {
        bank.source_id = 0x1000 + b as u32;
    });
    make("swapped.mdf", &|_, _, bank| {
        bank.payload.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    });
    make("version.mdf", &|_, b, bank| {
        bank.version = if b % 2 == 1 { 3 } else { 4 }
    });
    make("errors.mdf", &|_, _, bank| bank.kind = 68);
    make("v4.mdf", &|_, _, bank| bank.version = 3);
    let clean = split(&read(directory, "clean.mdf"));
    let all =
        |change: &dyn Fn(&Vec<u8>) -> Vec<u8>| clean.iter().flat_map(change).collect::<Vec<u8>>();
    write(directory, "padding.mdf", &all(&|event| padded(event, 16)));
    write(directory, "wide.mdf", &all(&|event| padded(event, 32)));
    let wrong = all(&|event| {
        let mut event = event.clone();
        event[12] = 1;
        event
    });
    write(directory, "checksum.mdf", &wrong);
    vec![
        "charge.mdf",
        "detector.mdf",
        "swapped.mdf",
        "version.mdf",
        "errors.mdf",
        "padding.mdf",
        "wide.mdf",
        "checksum.mdf",
    ]
}

#[test]
fn losing_most_of_the_data_exits_with_7_and_a_last_line_with_the_reason() {
    let at = &small(20);
    for name in damage_all(at, &at.join("events.mdf")) {
        let err = says(
            7,
            at,
            ("decode -o hits.csv", name, TABLES),
            "more of the data was lost than --max-loss allows",
        );
        let last = err.lines().last().unwrap();
        // The share of `swapped` is left open: it depends on how the reversed headers come out.
        let (n, why) = match name {
            "charge.mdf" => ("100 %", "zero charge"),
            "detector.mdf" => ("50 %", "unknown board"),
            "swapped.mdf" => ("", "unsorted lane"),
            "version.mdf" => ("2,160 of 4,320 banks (50 %)", "wrong version"),
            "errors.mdf" => ("4,320 of 4,320 banks (100 %)", "board reported in error"),
            "checksum.mdf" => ("4,320 of 4,320 banks (100 %)", "wrong checksum"),
            _ => ("of 4,320 banks", "damaged event"),
        };
        assert!(
            last.starts_with("lost: ") && last.contains(n) && last.contains(why),
            "{name}: {err}"
        );
        assert!(!read(at, "hits.csv").is_empty(), "the output is written");
        let quiet = says(7, at, ("decode --quiet", name, TABLES), "lost: ");
        assert_eq!(quiet.lines().last(), Some(last));
        run_to(1, at, ("decode --strict", name, TABLES));
        run_to(0, at, ("decode --max-loss 100%", name, TABLES));
        // Every backend gives the same account.
        for backend in [
            "reference",
            "emulated --set cluster.block_x=64",
            "cpu --set layout=mep",
        ] {
            let err = says(
                7,
                at,
                ("decode", name, TABLES, format!("--backend {backend}")),
                "lost: ",
            );
            assert_eq!(err.lines().last(), Some(last), "{name}, {backend}");
        }
    }
    let (_, err) = run_to(0, at, ("decode --strict clean.mdf", TABLES));
    assert!(err.is_empty(), "{err}");
}

/// Guards against a bank whose version and tables agree with each other but not with its bytes, so
/// that the check of versions lets it pass. The sizes that the bytes announce are then the last
/// defence: read as the other format, more banks are too short for their own counts than the limit
/// allows.
#[test]
fn banks_labelled_as_the_other_format_are_lost() {
    let at = &empty();
    run_to(0, at, "generate --events 20 --profile pp-low --output v5");
    run_to(
        0,
        at,
        "generate --events 10 --profile pp-low --format v4 --output v4",
    );
    for (from, to, version) in [("v5", "v4", 3), ("v4", "v5", 4)] {
        damaged(
            &at.join(from).join("events.mdf"),
            &at.join("other.mdf"),
            |_, _, bank| bank.version = version,
        );
        let tables = format!("--boards {to}/boards.bin --geometry {to}/geometry.bin");
        says(7, at, ("decode other.mdf", tables), "short or truncated");
    }
}

#[test]
fn a_small_loss_is_reported_and_from_one_percent_on_it_is_a_warning() {
    let at = &small(40);
    // All losses are in event 3, whose other banks are still decoded: so no event is lost, and the
    // share of the banks decides. Ten bytes of 1 have a count in byte 0, but are fewer than 24.
    let truncate = |banks: usize| {
        damaged(
            &at.join("events.mdf"),
            &at.join("loss.mdf"),
            |event, b, bank| {
                if event == 3 && b < banks {
                    bank.payload = vec![1; 10];
                }
            },
        );
    };
    // In shares: 1 / 8640 = 0.012 %, 90 / 8640 = 1.04 % and 200 / 8640 = 2.31 %. The second is just
    // above the limit of the warning.
    for (banks, quiet, line) in [
        (1, "", "lost: 1 of 8,640 banks (0.01 %): short or truncated"),
        (
            90,
            "warning: ",
            "lost: 90 of 8,640 banks (1.0 %): short or truncated",
        ),
        (
            200,
            "warning: ",
            "lost: 200 of 8,640 banks (2.3 %): short or truncated",
        ),
    ] {
        truncate(banks);
        let (found, err) = json_of(0, at, ("decode loss.mdf", TABLES));
        assert_eq!(err.lines().last(), Some(&*format!("{quiet}{line}")));
        let loss = &found["loss"];
        assert_eq!(
            loss["banks"],
            serde_json::json!({ "lost": banks, "of": 8640 })
        );
        assert_eq!(
            (&loss["causes"]["truncated"], &loss["max_loss"]),
            (&banks.into(), &0.1.into())
        );
        assert_eq!(format!("lost: {}", loss["lost"].as_str().unwrap()), line);
        let (_, err) = run_to(0, at, ("decode --quiet loss.mdf", TABLES));
        assert_eq!(err.contains("lost: "), !quiet.is_empty(), "{err}");
        says(7, at, ("decode --max-loss 0 loss.mdf", TABLES), line);
    }
    write(at, "settings.toml", b"max-loss = \"2 %\"\n");
    says(
        7,
        at,
        ("decode --config settings.toml loss.mdf", TABLES),
        "than --max-loss allows (2 %)",
    );
    run_to(
        0,
        at,
        (
            "decode --config settings.toml --max-loss 3% loss.mdf",
            TABLES,
        ),
    );
    write(at, "settings.toml", b"max-loss = 20\n");
    says(
        1,
        at,
        ("decode --config settings.toml loss.mdf", TABLES),
        "max-loss: expected a share from 0 to 1",
    );
    says(
        2,
        at,
        ("decode --max-loss 20 loss.mdf", TABLES),
        "expected a share from 0 to 1, as 0.1, or in per cent, as 10%",
    );
}

/// Compares four ways to the same numbers: `decode`, `report`, and `report --merge` of two parts in
/// either order. From event 20 of 40 on, every second bank has the wrong version, which is 20 * 108
/// = 2,160 banks. All are in the second part, whose share is 50 %; of the whole it is 25 %.
#[test]
fn a_report_and_its_sums_count_the_same_loss_as_decode() {
    let at = &small(40);
    let wrong = |from: u64| {
        damaged(
            &at.join("events.mdf"),
            &at.join("wrong.mdf"),
            |event, b, bank| {
                if event >= from && b % 2 == 0 {
                    bank.version = 3;
                }
            },
        );
    };
    wrong(20);
    let line = "lost: 2,160 of 8,640 banks (25 %): wrong version";
    let (of_decode, err) = json_of(7, at, ("decode wrong.mdf", TABLES));
    assert_eq!(err.lines().last(), Some(line));
    let (of_report, err) = json_of(7, at, ("report wrong.mdf -o whole.html", TABLES));
    assert_eq!(err.lines().last(), Some(line));
    assert_eq!(of_report["loss"], of_decode["loss"]);
    let html = String::from_utf8(read(at, "whole.html")).unwrap();
    assert!(html.contains("<p>Lost: 2,160 of 8,640 banks (25 %): wrong version.</p>"));
    assert!(html.contains("<dt>lost</dt><dd>2,160 of"));
    // The first part lost nothing.
    for (i, code) in [(1, 0), (2, 7)] {
        run_to(
            code,
            at,
            (
                format!("report wrong.mdf --shard {i}/2 --sums {i}.sums"),
                TABLES,
            ),
        );
    }
    for parts in ["1.sums 2.sums", "2.sums 1.sums"] {
        let (merged, err) = json_of(7, at, ("report -o merged.html --merge", parts));
        assert_eq!(
            (&merged["loss"], err.lines().last()),
            (&of_decode["loss"], Some(line))
        );
        assert!(read(at, "merged.html") == read(at, "whole.html"), "{parts}");
        run_to(
            0,
            at,
            ("report -o merged.html --max-loss 25% --merge", parts),
        );
        run_to(1, at, ("report -o merged.html --strict --merge", parts));
    }
    // Not the job, but one of its files lost too much.
    // Now 10 * 108 = 1,080 banks are lost: 12.5 % of this file's 8,640, above the limit of 10 %,
    // but 5 % of the 21,600 banks of both files, below it.
    wrong(30);
    run_to(
        0,
        at,
        "generate --events 60 --profile pp-low --seed 2 --output sound",
    );
    let err = says(
        7,
        at,
        ("report wrong.mdf sound/events.mdf -o page.html", TABLES),
        "1 file lost more than --max-loss",
    );
    assert!(
        err.contains("warning: wrong.mdf: lost 1,080 of 8,640 banks (12 %)"),
        "{err}"
    );
}

/// Walks along the two edges of the limit. One is the number of events: below 20, half may be lost,
/// since a few events say little about a run; from 20 on, 10 %. The other is the share: 108 of 216
/// banks are exactly half, which is allowed, and 109 are not.
///
/// For a job of several files a file above the limit counts if the job as a whole lost 1 % or more.
/// With 109 banks lost in each of 20 events, `half.mdf` loses 2,180. Next to 14 good files of 4,320
/// banks that is 2,180 / 64,800 = 3.4 %, next to 60 it is 2,180 / 263,520 = 0.8 %.
#[test]
fn half_of_a_few_events_may_be_lost_and_a_lost_file_fails_a_job_unless_below_one_percent() {
    let at = &small(20);
    let half = |of: usize, n: u64| {
        damaged(
            &at.join("events.mdf"),
            &at.join("half.mdf"),
            |_, b, bank| {
                if b < of {
                    bank.version = 3;
                }
            },
        );
        run_to(
            if of > 108 { 7 } else { 0 },
            at,
            ("decode half.mdf --limit 19", TABLES),
        );
        says(
            7,
            at,
            ("decode half.mdf --limit", n.to_string(), TABLES),
            "wrong version",
        );
    };
    half(108, 20);
    half(109, 19);
    let job = |n: usize| {
        format!(
            "decode --allow-repeated half.mdf {}",
            "events.mdf ".repeat(n)
        )
    };
    let err = says(
        7,
        at,
        (job(14), TABLES),
        "1 file lost more than --max-loss allows",
    );
    assert!(
        err.contains("warning: half.mdf: lost 2,180 of 4,320 banks (50 %): wrong version"),
        "{err}"
    );
    let (found, err) = json_of(0, at, (job(60), TABLES));
    assert!(err.contains("warning: half.mdf: lost"), "{err}");
    assert_eq!(
        (
            &found["loss"]["files_over_max_loss"],
            &found["loss"]["listed_files"][0]["file"]
        ),
        (&1.into(), &"half.mdf".into())
    );
}

#[test]
fn strips_without_a_single_hit_end_with_7_unless_a_small_maximum_was_chosen() {
    let at = &empty();
    // A lane of 130 strips in a row: one cluster above the maximum.
    // 130 hits are 65 rows of 16 words. Hit `i` of lane 0 is word `16 * (i / 2) + 10 + i % 2`
    // after the header of 8 bytes, and byte 4 of the header is its count. The last row ends behind
    // lane 0: its four unused words are the 8 bytes that make the whole 32 * 65.
    let mut payload = vec![0; 32 * 65];
    payload[4] = 130;
    for i in 0..130_usize {
        let word = 16 * (i / 2) + 10 + i % 2;
        payload[8 + 2 * word..][..2].copy_from_slice(&((i as u16) << 5 | 9).to_le_bytes());
    }
    write(at, "long.mdf", &event(&[bank(0, &payload)]));
    says(
        7,
        at,
        "decode --synthetic-detector long.mdf",
        "there are strips, but not a single hit",
    );
    run_to(
        0,
        at,
        "decode --synthetic-detector --max-cluster-size 127 long.mdf",
    );
    write(at, "hit.mdf", &event(&[bank(0, &ONE_HIT)]));
    write(at, "mask.txt", b"board 0\n");
    let (found, err) = json_of(
        0,
        at,
        "decode --synthetic-detector --mask mask.txt --strict hit.mdf",
    );
    assert_eq!(
        (&found["hits"], &found["loss"]["share"]),
        (&0.into(), &0.0.into()),
        "masked hits are not lost: {err}"
    );
    let daq_error = Bank {
        kind: 92,
        version: Some(4),
        source_id: 5 << 11,
        payload: &[],
    };
    write(at, "lost.mdf", &event(&[bank(0, &ONE_HIT), daq_error]));
    let (found, _) = json_of(0, at, "decode --synthetic-detector lost.mdf");
    assert_eq!(
        found["loss"]["lost"],
        Value::from("1 of 2 banks (50 %): board reported in error")
    );
}

/// Protects sums over a run from counting events twice, which no plot shows: rates and shapes look
/// right, and only the errors come out too small. The edge is a share of 1 %. Beyond 300 different
/// events, 3 copies are 3 of 303 = 0.99 %, a warning; 4 are 4 of 304 = 1.3 %, an error.
///
/// The copies take three disguises: a second path to the same file, another file with the same
/// bytes, and a MEP packet of the same banks, which shares no byte of framing with the MDF file.
#[test]
fn repeated_events_are_refused_and_up_to_one_percent_a_warning() {
    let at = &small(300);
    std::fs::copy(at.join("events.mdf"), at.join("copy.mdf")).unwrap();
    run_to(
        0,
        at,
        "convert events.mdf --output copy.mep --packet-events 7",
    );
    let events = split(&read(at, "events.mdf"));
    for n in [3, 4] {
        write(at, &format!("{n}.mdf"), &events[..n].concat());
    }
    let outputs = || {
        ["hits.csv", "table.csv", "page.html"]
            .map(|name| at.join(name))
            .into_iter()
            .filter(|p| p.exists())
    };
    for command in [
        "decode --event-table table.csv -o hits.csv",
        "report -o page.html",
    ] {
        let options = (command, TABLES);
        for inputs in [
            "events.mdf ./events.mdf",
            "events.mdf events.mdf --events 1,301",
        ] {
            says(
                1,
                at,
                (options, inputs),
                "events.mdf: given twice, so its events would count twice",
            );
        }
        for (inputs, message) in [
            (
                "events.mdf copy.mdf",
                "300 of 600 events (50 %) have the UT banks of an earlier event",
            ),
            ("copy.mep events.mdf", "300 of 600 events (50 %)"),
            ("events.mdf 4.mdf", "4 of 304 events (1.3 %)"),
        ] {
            says(1, at, (options, inputs), &format!("error: {message}"));
            assert_eq!(outputs().next(), None, "{command} {inputs}");
            says(
                0,
                at,
                (options, inputs, "--allow-repeated --strict"),
                &format!("warning: {message}"),
            );
            outputs().for_each(|path| std::fs::remove_file(path).unwrap());
        }
        let warning = "warning: 3 of 303 events (0.99 %) have the UT banks of an earlier event";
        says(0, at, (options, "events.mdf 3.mdf --quiet"), warning);
        says(1, at, (options, "events.mdf 3.mdf --strict"), warning);
        let (_, err) = run_to(0, at, (options, "events.mdf --strict"));
        assert!(!err.contains("events ("), "{err}");
        outputs().for_each(|path| std::fs::remove_file(path).unwrap());
    }
    // A file of hits for each input: which of two is the copy, no one knows.
    let (json, _) = json_of(
        1,
        at,
        ("decode events.mdf copy.mdf --format csv -o hits/", TABLES),
    );
    assert_eq!(
        (&json["outputs"], &json["complete"]),
        (&serde_json::json!(["hits/events.csv"]), &false.into())
    );
    let repeated =
        serde_json::json!({ "events": 300, "of": 600, "share": 0.5, "estimated": false });
    assert_eq!(json["repeated"], repeated);
    // Some parts choose the same events as others.
    for (i, choice) in [
        "--limit 200",
        "--skip 150",
        "--events 0-149",
        "--events 0-151",
    ]
    .into_iter()
    .enumerate()
    {
        run_to(
            0,
            at,
            (format!("report events.mdf --sums {i}.sums"), choice, TABLES),
        );
    }
    let merge = "report -o page.html --merge";
    // Part 0 has events 0 to 199 and part 1 has 150 to 299: 350 events, 50 of which come twice.
    // Part 2 ends at 149, just before part 1 begins. Part 3 has 150 and 151, too: 2 of 302.
    for parts in ["0.sums 1.sums", "1.sums 0.sums"] {
        says(1, at, (merge, parts), "50 of 350 events (14 %) have");
        assert!(!at.join("page.html").exists());
        says(
            0,
            at,
            (merge, parts, "--allow-repeated"),
            "warning: 50 of 350 events (14 %) have",
        );
        let html = String::from_utf8(read(at, "page.html")).unwrap();
        assert!(html.contains(
            "<p>Repeated: 50 of 350 events (14 %) have the UT banks of another event.</p>"
        ));
        std::fs::remove_file(at.join("page.html")).unwrap();
    }
    run_to(0, at, (merge, "1.sums 2.sums"));
    says(
        0,
        at,
        (merge, "1.sums 3.sums"),
        "warning: 2 of 302 events (0.66 %) have",
    );
    // A run does not repeat its reference.
    run_to(
        0,
        at,
        (
            "report events.mdf --reference events.mdf -o page.html",
            TABLES,
        ),
    );
}

/// Guards against false alarms. Events with fewer than 8 hits may be equal by chance, as empty ones
/// always are. Test pulses hit the same strips in every event, and differ only in their charges:
/// here 31 events of 30 hits, one for each ADC from 1 to 31. With an eighth hit, a hundred equal
/// events are one event and 99 repetitions.
#[test]
fn small_and_empty_events_may_be_alike_and_pulses_hit_the_same_strips() {
    let at = &empty();
    let lane = |adc: u8, n: u16| -> Vec<(u16, u8)> { (0..n).map(|i| (3 * i, adc)).collect() };
    let pulsed = |adc: u8, n: u16| {
        event(&[bank(
            0,
            &encode_v5([&lane(adc, n), &[], &[], &[], &[], &[]]),
        )])
    };
    write(at, "few.mdf", &pulsed(9, 7).repeat(100));
    write(at, "none.mdf", &event(&[bank(0, &[0; 24])]).repeat(100));
    write(
        at,
        "pulses.mdf",
        &(1..32).flat_map(|adc| pulsed(adc, 30)).collect::<Vec<u8>>(),
    );
    for file in ["few.mdf", "none.mdf", "pulses.mdf"] {
        let (json, _) = json_of(0, at, ("decode --synthetic-detector", file));
        assert_eq!(json["repeated"]["events"], 0, "{file}");
    }
    write(at, "enough.mdf", &pulsed(9, 8).repeat(100));
    says(
        1,
        at,
        "decode --synthetic-detector enough.mdf",
        "99 of 100 events (99.00 %) have",
    );
}

#[test]
#[ignore = "needs the real events in ../shared/data"]
fn real_events_are_recognised_in_two_containers_and_none_is_repeated() {
    let (at, data) = (&empty(), data());
    let tables = |boards: &str, geometry: &str| {
        let tables = data.join("tables");
        format!(
            "--boards {0}/{boards} --geometry {0}/{geometry}",
            tables.display()
        )
    };
    let simulation = data
        .join("minibrunel/MiniBrunel_2018_minbias_10events.mdf")
        .display()
        .to_string();
    let v4 = tables("ut_boards_v4_240.bin", "ut_geometry_2018.bin");
    let dumps = data.join("minibrunel/allen-layout").display().to_string();
    says(
        1,
        at,
        ("decode", simulation.as_str(), dumps, v4.as_str()),
        "10 of 20 events (50 %) have",
    );
    let v5 = data
        .join("v5/ut_v5_minbias_20events.mdf")
        .display()
        .to_string();
    for (file, tables) in [
        (v5, tables("ut_boards_v5_216.bin", "ut_geometry_sim10.bin")),
        (simulation, v4),
    ] {
        assert_eq!(
            json_of(0, at, ("decode", file, tables)).0["repeated"]["events"],
            0
        );
    }
}

#[test]
#[ignore = "needs the real events in ../shared/data"]
fn losing_most_of_the_real_events_exits_with_7() {
    let (at, data) = (&empty(), data());
    let tables = |boards: &str, geometry: &str| {
        let tables = data.join("tables");
        format!(
            "--boards {0}/{boards} --geometry {0}/{geometry}",
            tables.display()
        )
    };
    let v5 = tables("ut_boards_v5_216.bin", "ut_geometry_sim10.bin");
    let mut names = damage_all(at, &data.join("v5/ut_v5_minbias_20events.mdf"));
    let hits = |code, name: &str, tables: &str| {
        json_of(code, at, ("decode", name, tables)).0["hits"].clone()
    };
    assert_eq!(hits(0, "clean.mdf", &v5), 22637);
    names.sort_unstable();
    let found: Vec<Value> = names.iter().map(|name| hits(7, name, &v5)).collect();
    let expected = [
        ("charge.mdf", 0),
        ("checksum.mdf", 0),
        ("detector.mdf", 10947),
        ("errors.mdf", 22637),
        ("padding.mdf", 200),
    ];
    let more = [
        ("swapped.mdf", 10679),
        ("version.mdf", 12267),
        ("wide.mdf", 199),
    ];
    for ((name, found), (of, n)) in names
        .iter()
        .zip(&found)
        .zip(expected.into_iter().chain(more))
    {
        assert_eq!((*name, found), (of, &Value::from(n)));
    }
    let v4 = tables("ut_boards_v4_240.bin", "ut_geometry_2018.bin");
    assert_eq!(hits(7, "v4.mdf", &v4), 2271);
    let simulation = data.join("minibrunel/MiniBrunel_2018_minbias_10events.mdf");
    damaged(&simulation, &at.join("v5.mdf"), |_, _, bank| {
        bank.version = 4;
    });
    assert_eq!(hits(7, "v5.mdf", &v5), 0);
}

#[test]
fn options_and_selections_that_cannot_apply_are_errors() {
    let at = &empty();
    run_to(
        0,
        at,
        "generate --events 2 --profile pp-low --format v4 --output v4",
    );
    run_to(0, at, "generate --events 2 --profile pp-low --output v5");
    for option in [
        "--no-clustering",
        "--position adc",
        "--max-cluster-size 128",
        "--save-above-max",
        "--flip 511",
    ] {
        let name = option.split(' ').next().unwrap();
        for command in ["decode v4/events.mdf", "report v4/events.mdf -o page.html"] {
            says(
                2,
                at,
                (command, option),
                &format!("{name}: the tables are of format v4"),
            );
        }
        run_to(0, at, ("decode v5/events.mdf", option));
    }
    write(at, "settings.toml", b"flip = 512\n");
    run_to(0, at, "decode v4/events.mdf --config settings.toml");
    for option in [
        "--position adc",
        "--max-cluster-size 128",
        "--save-above-max",
    ] {
        says(
            2,
            at,
            ("decode v5/events.mdf --no-clustering", option),
            "cannot be used with",
        );
    }
    write(at, "plain.mdf", &event(&[bank(0, &ONE_HIT)]));
    for (option, what) in [
        (
            "--time 2026-01-01T00:00..",
            "--time: no event has a time: no ODIN bank",
        ),
        (
            "--crossing no-beam",
            "--crossing: no event has a type of bunch crossing: no ODIN bank",
        ),
        (
            "--event-number 1",
            "--event-number: no event has a number: no ODIN bank",
        ),
        ("--skip 1", "--skip: the input has no more events than 1"),
        (
            "--events 1,7",
            "--events: all of these places are beyond the end of the input",
        ),
    ] {
        says(
            1,
            at,
            ("decode plain.mdf --synthetic-detector", option),
            what,
        );
    }
    let numbered = event_with(
        EventHeader {
            number: Some(7),
            ..EventHeader::default()
        },
        &[bank(0, &ONE_HIT)],
    );
    write(at, "numbered.mdf", &numbered);
    says(
        0,
        at,
        "decode numbered.mdf --event-number 8 --synthetic-detector",
        "the selection matches no event",
    );
    write(at, "empty.mdf", b"");
    write(at, "empty.mask", b"# nothing\n");
    says(
        1,
        at,
        "decode v5/events.mdf empty.mdf",
        "empty.mdf: the file has 0 bytes",
    );
    says(
        1,
        at,
        "decode /dev/null --synthetic-detector",
        "the input has 0 bytes",
    );
    says(
        1,
        at,
        "decode v5/events.mdf --mask empty.mask",
        "empty.mask: the mask names no strip",
    );
}

/// Catches a boards file of another time: it has the right size and version, so only its cables can
/// contradict the data. One hit on lane 0 of each of 40 boards makes 40 strips; with every fourth
/// board unconnected, 10 are lost.
#[test]
fn strips_on_unconnected_lanes_are_loss_and_sectors_that_no_lane_reads_a_warning() {
    use ut_decoding::detector::{Boards, Lane};
    let at = &empty();
    run_to(0, at, "generate --events 0 --output .");
    let banks: Vec<Bank<'_>> = (0..40).map(|board| bank(board, &ONE_HIT)).collect();
    write(at, "events.mdf", &event(&banks));
    let boards = Boards::read(at.join("boards.bin")).unwrap();
    // Leaves every `n`th board unconnected.
    let without = |n: usize| {
        let mut boards = boards.clone();
        for lanes in boards.lanes.chunks_mut(6).step_by(n) {
            lanes.fill(Lane::default());
        }
        boards.write(at.join("less.bin")).unwrap();
        "decode events.mdf --boards less.bin --geometry geometry.bin"
    };
    // Of few events half may be lost, but not of the strips.
    let err = says(
        7,
        at,
        without(4),
        "a fifth of the strips or more are on lanes",
    );
    let last = err.lines().last().unwrap();
    assert_eq!(last, "lost: 10 of 40 strips (25 %): unconnected lane");
    run_to(0, at, (without(4), "--max-loss 50%"));
    write(at, "silent.mdf", &event(&[bank(0, &[0; 32])]));
    let line = ("decode silent.mdf", TABLES);
    says(0, at, line, "warning: no bank of the input has a strip");
    let err = says(0, at, without(100), "sectors that no lane reads out: ");
    let odd = |err: &str| {
        let is_odd = |line: &&str| line.starts_with("warning: less.bin: ");
        err.lines().filter(is_odd).count()
    };
    assert_eq!(odd(&err), 1, "{err}");
    let trusted = (without(100), "--trust-tables");
    assert_eq!(odd(&run_to(0, at, trusted).1), 0);
    let (_, err) = run_to(0, at, ("decode events.mdf", TABLES));
    assert!(!err.contains("warning"), "{err}");
}

/// Feeds tables whose numbers are valid one by one but describe no possible detector. They would
/// all decode, into hits that are a little or very much out of place. Each change is a mistake that
/// a conversion script can make: another unit (ten times the pitch), two columns exchanged, a
/// constant in place of a column, a stale step from strip to strip, and misplaced layers or
/// sectors.
#[test]
fn tables_that_cannot_be_right_are_refused_by_every_command() {
    use ut_decoding::detector::{Boards, Geometry, Sector, sectors_of_layer};
    type Change = fn(&mut Sector);
    let at = &small(2);
    let geometry = Geometry::read(at.join("geometry.bin")).unwrap();
    let of_layer = sectors_of_layer(2);
    let cases: [(&str, std::ops::Range<usize>, Change, &str); 7] = [
        (
            "ten times the pitch",
            0..1048,
            |sector| sector.pitch *= 10.0,
            "has a pitch of",
        ),
        (
            "pitch and cos exchanged",
            0..1048,
            |s| std::mem::swap(&mut s.pitch, &mut s.cos),
            "has a pitch of",
        ),
        (
            "one pitch everywhere",
            0..1048,
            |sector| sector.pitch = 0.0936,
            "has a pitch of",
        ),
        (
            "nine tenths of the step",
            0..1048,
            |sector| sector.dp0di_x *= 0.9,
            "has a pitch of",
        ),
        (
            "a layer is 100 mm off",
            of_layer,
            |sector| sector.p0_z += 100.0_f32.copysign(sector.p0_z),
            "and its layer is near",
        ),
        (
            "a sector is moved in x",
            100..101,
            |sector| sector.p0_x += 20.0,
            "20 mm in x from the place that the others of its stave",
        ),
        (
            "a sector is moved in y",
            100..101,
            |sector| sector.p0_y -= 20.0,
            "20 mm in y from the place that the others of its stave",
        ),
    ];
    for (what, sectors, change, message) in cases {
        let mut wrong = geometry.clone();
        wrong.sectors[sectors].iter_mut().for_each(change);
        wrong.write(at.join("wrong.bin")).unwrap();
        let err = says(
            1,
            at,
            "decode events.mdf --boards boards.bin --geometry wrong.bin",
            message,
        );
        assert!(err.contains("--trust-tables"), "{what}: {err}");
        run_to(1, at, "tables --boards boards.bin --geometry wrong.bin");
    }
    let mut boards = Boards::read(at.join("boards.bin")).unwrap();
    let connected: Vec<usize> = (0..boards.lanes.len())
        .filter(|&lane| boards.lanes[lane].is_connected())
        .collect();
    boards.lanes[connected[1]] = boards.lanes[connected[0]];
    boards.write(at.join("twice.bin")).unwrap();
    for command in ["decode events.mdf", "tables"] {
        let args = format!("{command} --boards twice.bin --geometry geometry.bin");
        let (out, err) = run_to(1, at, &args);
        assert!(
            (out + &err).contains("belongs to board 0 lane 0 and board"),
            "{args}: {err}"
        );
    }
}
