//! `ut-decode report` finds the faults of a run and shows them on the page.

use std::path::Path;

use crate::support::{
    TABLES, bank, empty, event_with, json_of, read, run_to, says, shell, shows, write,
};
use serde_json::{Value, json};
use ut_decoding::detector::BankVersion;
use ut_decoding::input::{Bank, EventHeader, Events, GENERATED_MASK, MdfWriter};
use ut_decoding::synth::{Generator, Profile};

/// Faults of sectors that one lane reads each: 500 has three hits more in each event.
const PLANTS: [&str; 5] = [
    "sector=300:dead",
    "sector=360/9:hot",
    "sector=500:hot",
    "sector=500:hot",
    "sector=500:hot",
];

/// Board without hits in the second half of a faulty run.
const DYING: usize = 1;

/// Makes a clean run; or, if `faulty`, a run with [`PLANTS`], a dying board, one bank in 100 events
/// with a bad header, and a UTError.
fn run_with(faulty: bool, seed: u64, n: u64) -> Vec<u8> {
    let plants = if faulty { &PLANTS[..] } else { &[] };
    let plants = plants.iter().map(|plant| plant.parse().unwrap()).collect();
    let generator = Generator::new(Profile::PpLow, BankVersion::V5, seed).plant(plants);
    let mut writer = MdfWriter::new(Vec::new());
    for index in 0..n {
        let mut event = generator.event(index);
        if faulty && index >= n / 2 {
            event.banks[DYING].1 = vec![0; 24];
        }
        if faulty && index % 100 == 7 {
            event.banks[3].1[5] = 255;
        }
        let header = EventHeader {
            trigger_mask: GENERATED_MASK,
            run: event.run,
            number: Some(1000 + event.event),
        };
        let banks = event
            .banks
            .iter()
            .enumerate()
            .map(|(board, (source_id, payload))| Bank {
                kind: if faulty && index == 5 && board == 4 {
                    68
                } else {
                    66
                },
                version: Some(4),
                source_id: u32::from(*source_id),
                payload,
            });
        writer.write(&header, banks).unwrap();
    }
    writer.finish().unwrap()
}

fn page(directory: &Path, name: &str) -> String {
    String::from_utf8(read(directory, name)).unwrap()
}

fn of_kind<'a>(json: &'a Value, kind: &str) -> Vec<&'a Value> {
    json["outliers"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|outlier| outlier["kind"] == kind)
        .collect()
}

/// Plants six faults of six kinds in 600 events and wants six lines, no more: a report that also
/// finds things in good parts is one that shifters learn to ignore. Events are numbered from 1,000,
/// so that a place in the file cannot be taken for an event number. The board dies at event 1,300;
/// the report may say so up to 20 events early, as it only knows in which bin of events the hits
/// end.
#[test]
fn exactly_the_broken_parts_are_found_and_marked() {
    let directory = &empty();
    write(directory, "faulty.mdf", &run_with(true, 1, 600));
    let (json, err) = json_of(
        0,
        directory,
        "report faulty.mdf --output faulty.html --mask-out found.mask",
    );
    let only = |kind: &str| match of_kind(&json, kind)[..] {
        [one] => one,
        ref all => panic!("{kind}: {all:#?}"),
    };
    assert_eq!(
        (
            &only("dead lane")["sector_id"],
            &only("hot lane")["sector_id"]
        ),
        (&json!(300), &json!(500))
    );
    let strip = only("hot strip");
    assert_eq!(
        (&strip["sector_id"], &strip["first_strip"]),
        (&json!(360), &json!(9))
    );
    let silent = only("silent board");
    assert_eq!(silent["board"], DYING);
    let [first, last] = ["first_event", "last_event"].map(|key| silent[key].as_u64().unwrap());
    assert!((1280..=1300).contains(&first) && last == 1599, "{silent}");
    // A board with a bad header in one bank of a hundred, one with a UTError: each is a line, and
    // nothing else is. Six cases are too few to say that they came throughout the run.
    assert_eq!(
        (&only("troubles")["board"], &only("error banks")["board"]),
        (&json!(3), &json!(4))
    );
    assert_eq!(json["outliers"].as_array().unwrap().len(), 6, "{json:#}");
    assert_eq!(json["report"]["bad_header"], 6);
    assert_eq!(
        (
            &json["troubles"][0]["board"],
            &json["troubles"][0]["first_event"]
        ),
        (&json!(3), &json!(7))
    );
    assert_eq!(json["error_banks"][0]["type"], 68);
    assert!(
        err.contains("6 things stand out")
            && err.contains("board 3, 6 bad_header of 600 banks, between events 1,000 and 1,511"),
        "{err}"
    );
    // All of it is on the page.
    let html = page(directory, "faulty.html");
    assert!(
        html.contains("board 46 lane 3, sector 300 (UTaU C stave 4 face 1 module 6 sector 0)<")
    );
    assert!(html.contains(&format!(
        "between events 1,{} and 1,599, the last",
        first - 1000
    )));
    // A mask of it is one: what it leaves has no lane and no strip that is hot.
    let (masked, _) = json_of(0, directory, "decode faulty.mdf --mask found.mask");
    let hot = only("hot lane")["hits"].as_u64().unwrap() + strip["hits"].as_u64().unwrap();
    let masked = masked["masked_hits"].as_u64().unwrap();
    assert!(masked.abs_diff(hot) < hot / 10, "{masked} of {hot}");
    // With it, the report is silent on what it knew; the data are as wrong as before.
    let (known, err) = json_of(
        1,
        directory,
        "report faulty.mdf --mask found.mask --strict -o known.html",
    );
    let kinds = ["dead lane", "hot lane", "hot strip"].map(|kind| of_kind(&known, kind).len());
    assert_eq!(
        (kinds, of_kind(&known, "silent board").len()),
        ([0; 3], 1),
        "{known:#}"
    );
    assert_eq!(known["sectors"].as_array().unwrap().len(), 1048);
    assert_eq!(
        known["hits"].as_u64().unwrap() + masked,
        json["hits"].as_u64().unwrap()
    );
    assert!(
        err.contains("--strict was given") && known["provenance"]["mask"] == "found.mask",
        "{err}"
    );
    assert!(page(directory, "known.html").contains("<dt>mask</dt><dd>found.mask</dd>"));
}

#[test]
fn planted_chips_and_strips_are_found_and_can_be_masked() {
    let directory = &empty();
    // Sectors near the beam, where a strip has enough hits to be judged.
    // A chip reads 128 strips, so that the first two plants are the second and the fourth chip of
    // their sectors.
    let plants = "--plant sector=112/128-255:dead --plant sector=110/384-511:dead --plant sector=135/77:dead";
    run_to(
        0,
        directory,
        (
            "generate --events 3000 --profile pp-high --output .",
            plants,
        ),
    );
    let report = |more: &str| {
        json_of(
            0,
            directory,
            ("report events.mdf --mask-out found.mask", TABLES, more),
        )
        .0
    };
    let places = |json: &Value| -> Vec<String> {
        let all = json["outliers"].as_array().unwrap().iter();
        all.map(|one| {
            format!(
                "{} {} {}",
                one["kind"].as_str().unwrap(),
                one["sector_id"],
                one["first_strip"]
            )
        })
        .collect()
    };
    assert_eq!(
        places(&report("")),
        [
            "dead chip 112 128",
            "dead chip 110 384",
            "dead strip 135 77"
        ]
    );
    std::fs::rename(directory.join("found.mask"), directory.join("known.mask")).unwrap();
    let text = String::from_utf8(read(directory, "known.mask")).unwrap();
    assert!(
        text.contains("sector 112 strips 128-255 ") && text.contains("sector 135 strips 77 "),
        "{text}"
    );
    assert_eq!(places(&report("--mask known.mask")), [""; 0]);
    // The strips that a mask leaves are judged as before.
    write(
        directory,
        "half.mask",
        b"sector 112 strips 0-100\nsector 135 strips 256-500\nsector 300 strips 0-480\n",
    );
    assert_eq!(
        places(&report("--mask half.mask")),
        [
            "dead chip 112 128",
            "dead chip 110 384",
            "dead strip 135 77"
        ]
    );
    // Outliers that a good run has, too, are known.
    run_to(0, directory, ("report events.mdf --sums good.sums", TABLES));
    let json = report("--reference good.sums");
    assert_eq!(
        (places(&json).len(), json["known"].as_array().unwrap().len()),
        (0, 3),
        "{json}"
    );
}

#[test]
fn a_temporary_failure_is_found_once_with_its_events_and_clean_runs_have_none() {
    let directory = &empty();
    let generate = |profile: &str, events: &str, seed: &str, plant: &str| {
        let args =
            format!("generate --profile {profile} --n-events {events} --seed {seed} --output .");
        run_to(0, directory, (args, plant));
    };
    let report = || json_of(0, directory, "report events.mdf --mask-out found.mask");
    // From a single event nothing but boards is judged.
    for (profile, events, seed) in [
        ("pp-nominal", "400", "2"),
        ("pp-low", "1000", "3"),
        ("pp-nominal", "1", "2"),
    ] {
        generate(profile, events, seed, "");
        assert_eq!(
            report().0["outliers"],
            json!([]),
            "{profile}, {events} events, seed {seed}"
        );
    }
    let plants = "sector=112:dead@1200,sector=360/9:hot@800-1299,sector=110:half@1500,sector=700:half,\
                  sector=500:noise@600-900,sector=160/128-255:dead@1400,sector=505/0-127:noise@300-599,\
                  sector=830/0-127:noise";
    generate("pp-nominal", "2000", "5", &format!("--plant {plants}"));
    let (json, err) = report();
    let found = |kind: &str| -> Vec<(u64, Option<[u64; 2]>)> {
        let of = |one: &Value| {
            let window = one["events"]
                .get(0)
                .map(|window| [0, 1].map(|end| window[end].as_u64().unwrap()));
            (one["sector_id"].as_u64().unwrap(), window)
        };
        let mut found: Vec<_> = of_kind(&json, kind).into_iter().map(of).collect();
        found.sort_unstable();
        found
    };
    // The event in which it begins is in the bin in which the window begins. Two lanes read sectors
    // 110 and 112.
    for (kind, sector, planted) in [
        ("silent sector", 112, Some([1200, 1999])),
        ("low-charge sector", 110, Some([1500, 1999])),
        ("low-charge lane", 700, None),
        ("noisy lane", 500, Some([600, 900])),
        // Parts of few hits.
        ("silent chip", 160, Some([1400, 1999])),
        ("noisy chip", 505, Some([300, 599])),
        ("hot chip", 830, None),
    ] {
        let of_kind = found(kind);
        assert_eq!(of_kind.len(), 1, "{kind}: {err}");
        let near = |window: [u64; 2], planted: [u64; 2]| {
            (0..=32).contains(&planted[0].abs_diff(window[0]))
                && planted[1].abs_diff(window[1]) <= 32
        };
        let fits = of_kind[0]
            .1
            .zip(planted)
            .map_or(of_kind[0].1.is_none() && planted.is_none(), |(a, b)| {
                near(a, b)
            });
        assert!(of_kind[0].0 == sector && fits, "{kind}: {of_kind:?}: {err}");
    }
    assert!(
        err.contains("(12:00:0") && err.contains("throughout the run"),
        "{err}"
    );
    assert_eq!(json["outliers"].as_array().unwrap().len(), 8, "{err}");
    // Strips that have good hits, too, are not masked, but for hot ones.
    let mask = String::from_utf8(read(directory, "found.mask")).unwrap();
    assert_eq!(
        mask.lines().filter(|line| !line.starts_with('#')).count(),
        2,
        "{mask}"
    );
}

#[test]
fn two_runs_are_drawn_side_by_side_and_the_broken_sectors_differ() {
    let directory = &empty();
    write(directory, "a.mdf", &run_with(false, 3, 300));
    write(directory, "b.mdf", &run_with(true, 4, 300));
    let (json, err) = json_of(
        0,
        directory,
        "report b.mdf --reference a.mdf --output both.html",
    );
    let html = page(directory, "both.html");
    assert!(
        html.len() < 2_000_000 && html.contains("What differs: b.mdf (A) from a.mdf (B)"),
        "{} bytes",
        html.len()
    );
    // Terminal and program hear of the same sectors. One that died has less than the reference.
    let differences = json["differences"].as_array().unwrap();
    let most = &differences[0];
    let name = format!(
        "sector {} ({})",
        most["sector_id"],
        most["sector"].as_str().unwrap()
    );
    assert!(
        err.contains(&format!(
            "{} sectors differ by 5 σ or more:\n  {name}",
            differences.len()
        )),
        "{err}"
    );
    let of = |sector: u64| {
        differences
            .iter()
            .find(|d| d["sector_id"] == sector)
            .unwrap()
    };
    assert!(of(300)["ratio"].as_f64() == Some(0.0) && of(300)["sigmas"].as_f64().unwrap() < -5.0);
    assert!(
        [360, 500]
            .iter()
            .all(|&sector| of(sector)["sigmas"].as_f64().unwrap() > 5.0)
    );
    assert!(differences.len() < 20, "{}", differences.len());
    // A run does not differ from itself, and no two of its pictures are called the same.
    let (json, _) = json_of(
        0,
        directory,
        "report a.mdf --reference a.mdf --output same.html",
    );
    assert_eq!(json["differences"], json!([]));
    let html = page(directory, "same.html");
    let names: Vec<&str> = html
        .split(" role=\"img\" aria-label=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let once: std::collections::BTreeSet<_> = names.iter().collect();
    assert!(names.len() > 20 && once.len() == names.len(), "{names:?}");
}

#[test]
fn a_report_on_no_events_or_broken_files_fails_with_the_reason_and_leaves_no_partial_page() {
    let directory = &empty();
    write(directory, "empty.mdf", b"");
    says(
        1,
        directory,
        "report empty.mdf --output empty.html",
        "empty.mdf: the file has 0 bytes",
    );
    assert!(!directory.join("empty.html").exists());
    let (out, err) = run_to(
        1,
        directory,
        "report /dev/null --synthetic-detector --output empty.html",
    );
    assert!(
        err.contains("no event") && out.contains("no event to look at"),
        "{out}{err}"
    );
    let html = page(directory, "empty.html");
    assert!(
        html.contains("no event to look at")
            && !html.contains("<figure")
            && !out.contains("stands out"),
        "{out}"
    );
    // An event in which every bank is empty is not healthy.
    let generated = EventHeader {
        trigger_mask: GENERATED_MASK,
        ..EventHeader::default()
    };
    run_to(0, directory, "generate --events 1 --output .");
    let mut events = Events::new([directory.join("events.mdf")]);
    let sound = events.next_event().unwrap().unwrap();
    let odin = sound.banks().find(|bank| bank.kind == 16).unwrap();
    write(
        directory,
        "hitless.mdf",
        &event_with(generated, &[odin, bank(0x2801, &[0; 24])]),
    );
    shows(
        directory,
        "report hitless.mdf --output hitless.html",
        "no hit to look at",
    );
    assert!(page(directory, "hitless.html").contains("no hit to look at"));
    // One event cannot tell that anything is dead.
    write(directory, "one.mdf", &run_with(false, 1, 1));
    let message = "1,048 of 1,048 sectors have so few hits expected in 1 event ";
    shows(directory, "report one.mdf --output one.html", message);
    says(
        1,
        directory,
        "report absent.mdf --output absent.html",
        "cannot open absent.mdf",
    );
    assert!(!directory.join("absent.html").exists());
    let whole = run_with(false, 1, 3);
    write(directory, "cut.mdf", &whole[..whole.len() - 100]);
    let (_, err) = run_to(1, directory, "report cut.mdf --output cut.html");
    assert!(
        err.contains("truncated?") && err.contains("could be read"),
        "{err}"
    );
    assert!(page(directory, "cut.html").contains("Incomplete: "));
    // A typo in the last of the names is noticed before the first file is worked through, and what
    // was there stays.
    write(directory, "one.html", b"before");
    for typo in [
        "absent.mdf",
        "--reference absent.mdf",
        "cut.html",
        "--reference cut.html",
    ] {
        let (out, err) = run_to(1, directory, ("report one.mdf --output one.html", typo));
        assert!(
            err.contains(typo.rsplit(' ').next().unwrap()) && !out.contains("hits"),
            "{out}{err}"
        );
        assert_eq!(read(directory, "one.html"), b"before");
    }
    says(
        2,
        directory,
        "report one.mdf --output one.pdf",
        "one.pdf: the page is HTML",
    );
    says(2, directory, "report cut.mdf --output cut.mdf", "input");
    says(
        1,
        directory,
        "report cut.mdf --output no/such/folder.html",
        "no/such/folder.html",
    );
}

/// Protects the way in which a farm makes one page of a run: each node sums up its share, and a
/// last one merges. Sums must be associative to the last bit, since the pages are compared byte by
/// byte. A mean kept as a float, or a list in the order in which threads finish, would fail here.
#[test]
fn sums_of_shards_and_any_number_of_threads_make_the_page_of_the_whole_run() {
    let directory = &empty();
    write(directory, "a.mdf", &run_with(true, 1, 300));
    write(directory, "b.mdf", &run_with(false, 2, 50));
    run_to(0, directory, "generate --events 1 --output .");
    run_to(
        0,
        directory,
        ("report a.mdf b.mdf --output whole.html --threads 3", TABLES),
    );
    for i in 1..=3 {
        let args = format!("report a.mdf b.mdf --shard {i}/3 --sums {i}.sums --threads 1");
        shows(directory, (args, TABLES), &format!("{i}.sums written"));
    }
    let (out, _) = run_to(
        0,
        directory,
        "report --merge 1.sums 2.sums 3.sums --output merged.html",
    );
    assert!(
        out.contains("350 events") && out.contains("things stand out"),
        "{out}"
    );
    assert!(page(directory, "merged.html") == page(directory, "whole.html"));
    shell(
        0,
        directory,
        "cat 1.sums | ut-decode report --merge - 2.sums 3.sums --output piped.html",
    );
    assert!(page(directory, "piped.html") == page(directory, "whole.html"));
}

/// Checks that an error of a file is one error, however many parts come upon it. Both files have
/// nine events and break off in the last, so event 8 of `a.mdf` fails in part 2, which comes to the
/// end of this file, and in part 3, which does so again.
#[test]
fn sums_of_shards_of_cut_files_make_the_page_of_the_whole_run() {
    let directory = &empty();
    run_to(
        0,
        directory,
        "generate --events 9 --corrupt cut=1 --output .",
    );
    std::fs::rename(directory.join("events.mdf"), directory.join("a.mdf")).unwrap();
    std::fs::copy(directory.join("a.mdf"), directory.join("b.mdf")).unwrap();
    let args = "report a.mdf b.mdf --allow-repeated --keep-going";
    run_to(1, directory, (args, "--output whole.html"));
    // The second part comes to the end of the first file, the third does so again.
    for (shard, code) in [("1/3", 0), ("2/3", 1), ("3/3", 1)] {
        let sums = format!("{}.sums", &shard[..1]);
        run_to(
            code,
            directory,
            (args, format!("--shard {shard} --sums {sums}")),
        );
    }
    let (_, err) = run_to(
        1,
        directory,
        "report --allow-repeated --merge 1.sums 2.sums 3.sums --output merged.html",
    );
    for file in ["a.mdf", "b.mdf"] {
        assert_eq!(
            err.matches(&format!("error: {file}: event 8")).count(),
            1,
            "{err}"
        );
    }
    assert!(page(directory, "merged.html") == page(directory, "whole.html"));
}

#[test]
fn repeated_parts_are_refused_and_missing_parts_are_a_warning() {
    let directory = &empty();
    write(directory, "run.mdf", &run_with(false, 2, 20));
    for i in ["1", "2", "3", "4"] {
        run_to(
            0,
            directory,
            format!("report run.mdf --shard {i}/4 --sums {i}.sums"),
        );
    }
    let merge = |code: i32, sums: &str| {
        run_to(
            code,
            directory,
            ("report --output merged.html --merge", sums),
        )
        .1
    };
    assert!(!merge(0, "1.sums 2.sums 3.sums 4.sums").contains("missing"));
    let err = merge(0, "4.sums 1.sums");
    assert!(
        err.contains("of run.mdf, 2 of 4 parts are missing, the first of them 2/4"),
        "{err}"
    );
    std::fs::copy(directory.join("2.sums"), directory.join("again.sums")).unwrap();
    let err = merge(1, "1.sums 2.sums 3.sums 4.sums again.sums");
    assert!(
        err.contains(
            "again.sums: these sums do not belong together: both contain part 2 of 4 of run.mdf"
        ),
        "{err}"
    );
}

#[test]
fn invalid_or_mismatched_sums_are_refused() {
    let directory = &empty();
    write(directory, "run.mdf", &run_with(false, 2, 20));
    for (sums, more) in [("good", "--threads 1"), ("strips", "--no-clustering")] {
        run_to(
            0,
            directory,
            (format!("report run.mdf --sums {sums}"), more),
        );
    }
    let good = read(directory, "good");
    write(directory, "cut", &good[..good.len() / 2]);
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    write(directory, "flipped", &flipped);
    write(directory, "text", b"events 3");
    let text = zstd::decode_all(&good[..]).unwrap();
    let text = String::from_utf8(text).unwrap();
    let pack = |name: &str, text: &str| {
        write(
            directory,
            name,
            &zstd::encode_all(text.as_bytes(), 1).unwrap(),
        );
    };
    pack(
        "format",
        &text.replace("ut-decode sums 7", "ut-decode sums 6"),
    );
    pack(
        "strips_missing",
        &text.replace("\"strips\":[", "\"strips\":[],\"other\":["),
    );
    pack(
        "too_many",
        &text.replace("\"events\":20,", "\"events\":18446744073709551615,"),
    );
    for name in [
        "cut",
        "flipped",
        "text",
        "format",
        "strips_missing",
        "too_many",
        "run.mdf",
        "absent",
    ] {
        let (_, err) = run_to(
            1,
            directory,
            format!("report --merge good {name} --output run.html"),
        );
        assert!(
            err.contains("not sums of ut-decode report") && err.contains(name),
            "{name}: {err}"
        );
    }
    pack("large", &" ".repeat((64 << 20) + 1));
    says(
        1,
        directory,
        "report --merge good large --output run.html",
        "larger than 64 MiB",
    );
    says(
        1,
        directory,
        "report --merge good strips --output run.html",
        "different clustering",
    );
    // Runs of two detectors, or with other clustering, are not compared, either: the page says
    // these once.
    run_to(0, directory, "generate --events 1 --format v4 --output .");
    run_to(0, directory, "report events.mdf --sums v4");
    for (name, why) in [
        ("v4", "different detectors"),
        ("strips", "different clustering"),
    ] {
        let err = says(
            1,
            directory,
            format!("report --merge good --reference {name} --output run.html"),
            why,
        );
        assert!(err.contains("do not belong together"), "{name}: {err}");
    }
    assert!(!directory.join("run.html").exists());
    for args in [
        "report run.mdf",
        "report --merge good --output run.html --shard 1/2",
        "report run.mdf --sums run.mdf",
    ] {
        run_to(2, directory, args);
    }
}

#[test]
fn a_strict_report_fails_after_its_page_if_the_data_are_wrong_or_missing() {
    let directory = &empty();
    write(directory, "good.mdf", &run_with(false, 1, 20));
    write(directory, "bad.mdf", &run_with(true, 1, 20));
    let strict = |status: i32, input: &str, more: &str| {
        let args = (format!("report {input} --strict --output page.html"), more);
        let (_, err) = run_to(status, directory, &args);
        std::fs::remove_file(directory.join("page.html")).unwrap();
        err
    };
    strict(0, "good.mdf", "");
    assert!(strict(1, "bad.mdf", "").contains("trouble in the data"));
    assert!(strict(1, "/dev/null", "--synthetic-detector").contains("no event in the input"));
    // A part of a job may be empty.
    strict(0, "good.mdf", "--shard 30/32");
}

/// The chip of sector 700 has few hits of other strips, so that it shows when the strip was hot; the
/// chip of sector 360, near the beam, has too many, and no time is better than a wrong one.
#[test]
fn a_hot_strip_has_a_time_only_where_its_chip_shows_it() {
    let directory = &empty();
    for (plant, expected) in [
        ("sector=700/17:hot@300-599", "strip 17, between events 2"),
        ("sector=360/9:hot@800-1299", "strip 9, 515 hits"),
    ] {
        let plant = format!("--plant {plant}");
        run_to(0, directory, ("generate --n-events 2000 --output .", plant));
        let (_, err) = json_of(0, directory, "report events.mdf --output page.html");
        assert!(
            err.contains("1 thing stands out:") && err.contains(expected),
            "{err}"
        );
    }
}

/// Ties each kind of plant to one line of the report, with the numbers that follow from the plant:
/// `/7` hits every seventh event from the first on, 86 of 600, and `odin:crossing/20` hits 30. A
/// second line would mean that one cause is reported twice under different names, as a dead board
/// would be if its lanes were listed, too.
#[test]
fn every_planted_fault_is_one_line_with_its_time() {
    let directory = &empty();
    for (plant, expected) in [
        (
            "board=40:dead@300-419",
            "silent board: board 40, between events 29",
        ),
        ("board=40:dead", "dead board: board 40, throughout the run"),
        (
            "board=9:missing@200-399",
            "missing banks: board 9, no bank in 200 of 600 events (33.3 %), between events 200 and 399",
        ),
        (
            "board=12:truncated/4",
            "troubles: board 12, 69 short, 51 truncated of 600 banks, throughout the run",
        ),
        (
            "board=30:error/7",
            "error banks: board 30, UTError in 86 of 600 events (14.3 %), throughout the run",
        ),
        (
            "board=31:version",
            "troubles: board 31, 600 wrong_version of 600 banks, throughout the run",
        ),
        (
            "board=4:repeat@200-599",
            "repeated banks: board 4, the bank of the event before in 400 of 600 events",
        ),
        ("all:busy@300-319", "hits per event: "),
        ("all:fade@0-599", "hits per event: fall steadily from "),
        ("all:weak@400", "mean charge: "),
        ("sector=110/0-127:stuck", "odd-charge chip: board "),
        ("sector=110/128-255:full", "every hit has ADC 31"),
        ("sector=112/128-255:dead@300", "silent chip: board "),
        ("sector=110:quiet", "quiet sector: sector 110 "),
        // Too few events for the chip to show when.
        ("sector=700/17:hot@200-399", "strip 17, 200 hits for 0.70"),
        (
            "odin:none/5",
            "ODIN: no ODIN bank in 120 of 600 events (20.0 %)",
        ),
        (
            "odin:short@100-200",
            "ODIN: an ODIN bank that is too short in 101 of 600 events",
        ),
        (
            "odin:layout",
            "ODIN: an ODIN bank of unknown version 9 in 600 of 600 events",
        ),
        (
            "odin:run@300",
            "mixed runs: in one file, run 1: 300 events, run 2: 300 events",
        ),
        (
            "odin:number@500-599",
            "repeated event numbers: 50 of 600 events (8.33 %), with numbers from 500 to 598",
        ),
        (
            "odin:crossing/20",
            "wrong bunch crossings: not from 1 to 3,564 in 30 of 600 events",
        ),
        (
            "odin:type/3",
            "wrong bunch crossings: another type than usual at the same crossing in ",
        ),
    ] {
        run_to(
            0,
            directory,
            (
                "generate --n-events 600 --output .",
                format!("--plant {plant}"),
            ),
        );
        let (_, err) = json_of(0, directory, "report events.mdf --output page.html");
        assert!(
            err.contains("1 thing stands out:") && err.contains(expected),
            "{plant}: {err}"
        );
    }
}
