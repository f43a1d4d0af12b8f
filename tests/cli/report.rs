//! `ut-decode report`: what is broken in a run is found, and is on the page.
//!
//! `UT_DECODE_KEEP_PAGES=FOLDER` keeps the pages, to be looked at.

use std::fmt::Write as _;
use std::path::Path;

use crate::support::{TABLES, bank, empty, event_with, json_of, read, run, run_to, says, shell, shows, write};
use serde_json::Value;
use ut_decoding::detector::{BankVersion, Lane, sector_id};
use ut_decoding::input::{Bank, EventHeader, GENERATED_MASK, MdfWriter};
use ut_decoding::synth::{self, Generator, Plant, Profile};

const EVENTS: u64 = 600;

/// Faults of a run: slots of a dead and of a noisy lane, a slot with a hot strip, and a board that dies half-way.
struct Faults {
    dead: usize,
    noisy: usize,
    hot: (usize, u16),
    dying: usize,
}

impl Faults {
    /// On lanes that read whole sectors of different places.
    fn new() -> (Self, Vec<Lane>) {
        let lanes = synth::detector(BankVersion::V5, 1).0.lanes;
        let has_two = |slot: usize| {
            lanes.iter().any(|lane| lane.chan_id == lanes[slot].chan_id | 1 << 8 && lane.chan_id != lanes[slot].chan_id)
        };
        let inner = |layer: u32, skip: usize| {
            let of_layer = |slot: &usize| {
                let lane = lanes[*slot];
                lane.is_connected() && lane.layer == layer && lane.stave == 2 && lane.chan_id >> 8 & 1 == 0
            };
            (0..lanes.len()).filter(of_layer).filter(|&slot| !has_two(slot)).nth(skip).unwrap()
        };
        let faults = Self { dead: inner(0, 2), noisy: inner(1, 5), hot: (inner(2, 7), 100), dying: inner(3, 1) / 6 };
        (faults, lanes)
    }

    /// The faults of lanes and strips.
    fn plants(&self) -> Vec<Plant> {
        let (_, lanes) = Self::new();
        let sector = |slot: usize| sector_id(&lanes[slot]).unwrap();
        let noisy = format!("sector={}:hot", sector(self.noisy));
        let hot = format!("sector={}/{}:hot", sector(self.hot.0), self.hot.1);
        let all = [format!("sector={}:dead", sector(self.dead)), hot, noisy.clone(), noisy.clone(), noisy];
        all.iter().map(|plant| plant.parse().unwrap()).collect()
    }
}

/// A run of events with these faults, or none; one bank in 100 events has a bad header besides, one is a UTError.
fn run_with(faults: Option<&Faults>, seed: u64, n: u64) -> Vec<u8> {
    let plants = faults.map_or_else(Vec::new, Faults::plants);
    let generator = Generator::new(Profile::PpLow, BankVersion::V5, seed).plant(plants);
    let mut writer = MdfWriter::new(Vec::new());
    for index in 0..n {
        let mut event = generator.event(index);
        if let Some(faults) = faults {
            if index >= n / 2 {
                event.banks[faults.dying].1 = vec![0; 24];
            }
            if index % 100 == 7 {
                event.banks[3].1[5] = 255;
            }
        }
        let header = EventHeader { trigger_mask: GENERATED_MASK, run: event.run, number: Some(1000 + event.event) };
        let banks = event.banks.iter().enumerate().map(|(board, (source_id, payload))| Bank {
            kind: if faults.is_some() && index == 5 && board == 4 { 68 } else { 66 },
            version: Some(4),
            source_id: u32::from(*source_id),
            payload,
        });
        writer.write(&header, banks).unwrap();
    }
    writer.finish().unwrap()
}

/// The page of a report, kept where that is asked for.
fn page(directory: &Path, name: &str) -> String {
    let html = String::from_utf8(read(directory, name)).unwrap();
    if let Some(folder) = std::env::var_os("UT_DECODE_KEEP_PAGES") {
        std::fs::copy(directory.join(name), Path::new(&folder).join(name)).unwrap();
    }
    html
}

/// The data of the page's charts.
fn charts(html: &str) -> Vec<Value> {
    let data = html.split("<script type=\"application/json\" id=\"data-").skip(1);
    let text = data.map(|part| part.split_once('>').unwrap().1.split("</script>").next().unwrap());
    text.map(|text| serde_json::from_str(text).unwrap()).collect()
}

fn of_kind<'a>(json: &'a Value, kind: &str) -> Vec<&'a Value> {
    json["outliers"].as_array().unwrap().iter().filter(|outlier| outlier["kind"] == kind).collect()
}

#[test]
fn what_is_broken_is_found_and_marked_and_nothing_else() {
    let directory = &empty();
    let (faults, lanes) = Faults::new();
    write(directory, "faulty.mdf", &run_with(Some(&faults), 1, EVENTS));
    let (json, err) = json_of(0, directory, "report faulty.mdf --output faulty.html --mask-out found.mask");
    let place = |outlier: &Value| outlier["board"].as_u64().unwrap() * 6 + outlier["lane"].as_u64().unwrap();
    let only = |kind: &str| match of_kind(&json, kind)[..] {
        [one] => one,
        ref all => panic!("{kind}: {all:#?}"),
    };
    assert_eq!(place(only("dead lane")), faults.dead as u64);
    assert_eq!(place(only("hot lane")), faults.noisy as u64);
    let strip = only("hot strip");
    assert_eq!((place(strip), &strip["first_strip"]), (faults.hot.0 as u64, &faults.hot.1.into()));
    assert!(strip["hits"].as_u64().unwrap() >= EVENTS * 9 / 10, "{strip}");
    let silent = only("silent board");
    assert_eq!(silent["board"], faults.dying as u64);
    let [first, last] = ["first_event", "last_event"].map(|key| silent[key].as_u64().unwrap());
    assert!((1300..1340).contains(&first) && last == 1599, "{silent}");
    // The lanes of the board that dies have half of their hits; nothing else is quiet.
    let quiet = of_kind(&json, "quiet lane");
    assert!(quiet.iter().all(|lane| lane["board"] == faults.dying as u64), "{quiet:#?}");
    assert_eq!(json["report"]["bad_header"], 6);
    assert_eq!((&json["troubles"][0]["board"], &json["troubles"][0]["first_event"]), (&3.into(), &7.into()));
    assert_eq!((&json["error_banks"][0]["type"], &json["error_banks"][0]["banks"]), (&68.into(), &1.into()));
    assert!(err.contains("things stand out") && err.contains(" hits from event"), "{err}");
    // All of it is on the page.
    let html = page(directory, "faulty.html");
    let lane = lanes[faults.dead];
    let side = if lane.side == 1 { 'A' } else { 'C' };
    let name = format!("UTaX {side} stave 2 face {} module {} sector {}", lane.face, lane.module, lane.sector);
    let number = &only("dead lane")["sector_id"];
    let place = format!("board {} lane {}, sector {number} ({name})<", faults.dead / 6, faults.dead % 6);
    assert!(html.contains(&place), "{place}");
    assert!(html.contains(&format!("Silent: board {} from 1,{} to 1,599 at least", faults.dying, first - 1000)));
    let charts = charts(&html);
    assert_eq!(charts[4]["map"]["marks"][0]["name"], "dead");
    assert_eq!(charts[0]["map"]["hover"].as_array().unwrap().len(), 248);
    assert!(html.contains(&format!("{name})\\nboard")), "the sector is named for the pointer");
    // The sector with the hot strip can be chosen, and shows it.
    let strips = charts.iter().find(|chart| chart["choices"]["label"] == "Sector").unwrap();
    let (keys, strip) = (strips["choices"]["keys"].as_array().unwrap(), faults.hot.1);
    let chosen = keys.iter().position(|key| *key == only("hot strip")["sector_id"]).unwrap();
    assert!((chosen as u64) < strips["choices"]["marked"].as_u64().unwrap());
    let bins = chart_page::unpack(strips["choices"]["bins"].as_str().unwrap()).unwrap();
    assert!(bins[512 * chosen + usize::from(strip)] >= EVENTS * 9 / 10);
    // A mask of it is one: what it leaves has no lane and no strip that is hot.
    let (masked, _) = json_of(0, directory, "decode faulty.mdf --mask found.mask");
    let hot = only("hot lane")["hits"].as_u64().unwrap() + only("hot strip")["hits"].as_u64().unwrap();
    assert!(masked["masked_hits"].as_u64().unwrap().abs_diff(hot) < hot / 10, "{} of {hot}", masked["masked_hits"]);
    run_to(0, directory, "report faulty.mdf --mask-out again.mask");
    assert!(read(directory, "found.mask") == read(directory, "again.mask"));
    // With it, the report is silent on what it knew; the data are as wrong as before.
    let (known, err) = json_of(1, directory, "report faulty.mdf --mask found.mask --strict -o known.html");
    let kinds = ["dead lane", "hot lane", "hot strip"].map(|kind| of_kind(&known, kind).len());
    assert_eq!((kinds, of_kind(&known, "silent board").len()), ([0; 3], 1), "{known:#}");
    assert_eq!(
        known["hits"].as_u64().unwrap() + masked["masked_hits"].as_u64().unwrap(),
        json["hits"].as_u64().unwrap()
    );
    assert!(err.contains("--strict was given") && known["provenance"]["mask"] == "found.mask", "{err}");
    let html = page(directory, "known.html");
    assert!(html.contains("<p>Nothing stands out.</p>") == known["outliers"].as_array().unwrap().is_empty());
    assert!(html.contains("found.mask (") && !html.contains("Hot strip"));
}

#[test]
fn a_clean_run_has_nothing_that_stands_out_and_threads_do_not_matter() {
    let directory = &empty();
    write(directory, "clean.mdf", &run_with(None, 7, EVENTS));
    run_to(0, directory, "generate --events 1 --output .");
    let report = |threads: &str, output: &str| {
        let args = format!("report clean.mdf --threads {threads} --output {output}");
        let (json, _) = json_of(0, directory, (args, TABLES));
        (json, page(directory, output))
    };
    let (json, html) = report("1", "clean.html");
    assert_eq!((&json["outliers"], &json["events"]), (&serde_json::json!([]), &EVENTS.into()));
    assert!(html.contains("<p>Nothing stands out.</p>"));
    let (more, other) = report("3", "other.html");
    assert_eq!(json, more);
    assert!(html == other);
}

#[test]
fn planted_chips_and_strips_are_found_and_can_be_masked() {
    let directory = &empty();
    // Sectors near the beam, where a strip has enough hits to be judged.
    let plants = "--plant sector=112/128-255:dead --plant sector=135/77:dead";
    run_to(0, directory, ("generate --events 3000 --profile pp-high --output .", plants));
    let report = |more: &str| json_of(0, directory, ("report events.mdf --mask-out found.mask", TABLES, more)).0;
    let places = |json: &Value| -> Vec<String> {
        let all = json["outliers"].as_array().unwrap().iter();
        all.map(|one| format!("{} {} {}", one["kind"].as_str().unwrap(), one["sector_id"], one["first_strip"]))
            .collect()
    };
    assert_eq!(places(&report("")), ["dead chip 112 128", "dead strip 135 77"]);
    std::fs::rename(directory.join("found.mask"), directory.join("known.mask")).unwrap();
    let text = String::from_utf8(read(directory, "known.mask")).unwrap();
    assert!(text.contains("sector 112 strips 128-255 ") && text.contains("sector 135 strips 77 "), "{text}");
    assert_eq!(places(&report("--mask known.mask")), [""; 0]);
    // The strips that a mask leaves are judged as before.
    let mut half = text;
    for (strips, sectors) in ["0-511", "0-480", "0-400", "0-127", "100-140"].into_iter().zip(300..) {
        for sector in [sectors, sectors + 120] {
            // Writing to a String cannot fail.
            let _ = writeln!(half, "sector {sector} strips {strips}");
        }
    }
    write(directory, "half.mask", half.as_bytes());
    assert_eq!(places(&report("--mask half.mask")), [""; 0]);
    write(directory, "half.mask", b"sector 112 strips 0-100\nsector 135 strips 256-500\n");
    assert_eq!(places(&report("--mask half.mask")), ["dead chip 112 128", "dead strip 135 77"]);
    // Outliers that a good run has, too, are known.
    run_to(0, directory, ("report events.mdf --sums good.sums", TABLES));
    let json = report("--reference good.sums");
    assert_eq!((places(&json).len(), json["known"].as_array().unwrap().len()), (0, 2), "{json}");
}

#[test]
fn what_fails_for_a_while_is_found_once_with_its_events_and_clean_runs_have_nothing() {
    let directory = &empty();
    let generate = |profile: &str, events: &str, seed: &str, plant: &str| {
        let args = format!("generate --profile {profile} --n-events {events} --seed {seed} --output .");
        run_to(0, directory, (args, plant));
    };
    let report = || json_of(0, directory, "report events.mdf --mask-out found.mask");
    // From a single event nothing but boards is judged.
    for (profile, events, seed) in [("pp-nominal", "400", "2"), ("pp-low", "1000", "3"), ("pp-nominal", "1", "2")] {
        generate(profile, events, seed, "");
        assert_eq!(report().0["outliers"], serde_json::json!([]), "{profile}, {events} events, seed {seed}");
    }
    let plants = "sector=112:dead@1200,sector=360/9:hot,sector=110:half@1500,sector=700:half,sector=500:noise@600-900";
    generate("pp-nominal", "2000", "5", &format!("--plant {plants}"));
    let (json, err) = report();
    let found = |kind: &str| -> Vec<[u64; 2]> {
        let mut found: Vec<[u64; 2]> = of_kind(&json, kind)
            .iter()
            .map(|one| ["sector_id", "first_event"].map(|key| one[key].as_u64().unwrap()))
            .collect();
        found.sort_unstable();
        found
    };
    let near = |found: &[[u64; 2]], planted: &[[u64; 2]]| {
        found.len() == planted.len()
            && found
                .iter()
                .zip(planted)
                .all(|(found, planted)| found[0] == planted[0] && found[1].abs_diff(planted[1]) < 256)
    };
    // Two lanes read sectors 110 and 112. Times are those of bins.
    for (kind, planted) in [
        ("silent lane", &[[112, 1200], [112, 1200]][..]),
        ("low-charge lane", &[[110, 1500], [110, 1500], [700, 0]]),
        ("noisy lane", &[[500, 600]]),
    ] {
        assert!(near(&found(kind), planted), "{kind}: {:?}: {err}", found(kind));
    }
    assert_eq!(of_kind(&json, "hot strip").len(), 1);
    assert_eq!(json["outliers"].as_array().unwrap().len(), 7, "{err}");
    // Strips that have good hits, too, are not masked.
    let mask = String::from_utf8(read(directory, "found.mask")).unwrap();
    assert_eq!(mask.lines().filter(|line| !line.starts_with('#')).count(), 1, "{mask}");
}

#[test]
fn two_runs_are_drawn_side_by_side_and_the_broken_sectors_differ() {
    let directory = &empty();
    let (faults, lanes) = Faults::new();
    write(directory, "a.mdf", &run_with(None, 3, 300));
    write(directory, "b.mdf", &run_with(Some(&faults), 4, 300));
    let (out, _) = run_to(0, directory, "report b.mdf --reference a.mdf --output both.html --json both.json");
    let html = page(directory, "both.html");
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    assert!(html.contains("What differs: b.mdf (A) from a.mdf (B)"));
    let table = html.split("aria-label=\"All sectors of A and B\"").nth(1).unwrap().split("</table>").next().unwrap();
    let marked: Vec<&str> = table.split("<tr class=\"marked\">").skip(1).collect();
    // A terminal and a program hear of the same sectors. One that died has less than the reference.
    let json: Value = serde_json::from_slice(&read(directory, "both.json")).unwrap();
    let differences = json["differences"].as_array().unwrap();
    assert_eq!(differences.len(), marked.len());
    let names = |d: &Value| format!("sector {} ({})", d["sector_id"], d["sector"].as_str().unwrap());
    assert!(differences.iter().all(|d| marked.iter().any(|row| row.contains(&names(d)))));
    assert!(
        out.contains(&format!("{} sectors differ by 5 σ or more:\n  {}", marked.len(), names(&differences[0]))),
        "{out}"
    );
    assert!(differences.iter().any(|d| d["ratio"].as_f64() == Some(0.0) && d["sigmas"].as_f64().unwrap() < -5.0));
    for slot in [faults.dead, faults.noisy, faults.hot.0] {
        let lane = lanes[slot];
        let name = format!("stave 2 face {} module {} sector {}", lane.face, lane.module, lane.sector);
        assert!(marked.iter().any(|row| row.contains(&name)), "{name} in {marked:?}");
    }
    assert!(marked.len() < 20, "{}", marked.len());
    // A run does not differ from itself.
    run_to(0, directory, "report a.mdf --reference a.mdf --output same.html");
    let html = page(directory, "same.html");
    assert!(html.contains("0 sectors with a larger share of the hits in A, 0 sectors with a smaller one, 0 sectors with another mean charge"));
    // And no two of its pictures are called the same.
    assert!(html.contains("What differs: a.mdf, first (A) from a.mdf, second (B)"));
    let mut names: Vec<&str> =
        html.split(" data-name=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(all > 20 && names.len() == all, "{names:?}");
}

#[test]
fn a_report_of_nothing_and_of_broken_files_says_so_and_leaves_no_half_page_nor_another() {
    let directory = &empty();
    write(directory, "empty.mdf", b"");
    let (out, err) = run_to(0, directory, "report empty.mdf --output empty.html");
    assert!(err.contains("no event") && out.contains("no event to look at"), "{out}{err}");
    let html = page(directory, "empty.html");
    assert!(html.contains("no event to look at") && charts(&html).is_empty() && !out.contains("stands out"), "{out}");
    // An event in which every bank is empty is not healthy.
    let generated = EventHeader { trigger_mask: GENERATED_MASK, ..EventHeader::default() };
    write(directory, "hitless.mdf", &event_with(generated, &[bank(0x2801, &[0; 24])]));
    shows(directory, "report hitless.mdf --output hitless.html", "no hit to look at");
    assert!(page(directory, "hitless.html").contains("no hit to look at"));
    // One event cannot tell that anything is dead.
    write(directory, "one.mdf", &run_with(None, 1, 1));
    let message = "1,048 of 1,048 sectors have so few hits expected in 1 event ";
    shows(directory, "report one.mdf --output one.html", message);
    let (json, _) = json_of(0, directory, "report one.mdf --output one.html");
    assert_eq!(json["unjudged_sectors"], 1048);
    says(1, directory, "report absent.mdf --output absent.html", "cannot open absent.mdf");
    assert!(!directory.join("absent.html").exists());
    let whole = run_with(None, 1, 3);
    write(directory, "cut.mdf", &whole[..whole.len() - 100]);
    let (_, err) = run_to(1, directory, "report cut.mdf --output cut.html");
    assert!(err.contains("truncated?") && err.contains("could be read"), "{err}");
    assert!(page(directory, "cut.html").contains("Incomplete: "));
    // A typo in the last of the names is noticed before the first file is worked through, and what was there stays.
    write(directory, "one.html", b"before");
    for typo in ["absent.mdf", "--reference absent.mdf", "cut.html", "--reference cut.html"] {
        let (out, err) = run_to(1, directory, ("report one.mdf --output one.html", typo));
        assert!(err.contains(typo.rsplit(' ').next().unwrap()) && !out.contains("hits"), "{out}{err}");
        assert_eq!(read(directory, "one.html"), b"before");
    }
    let (_, err) = run_to(2, directory, "report one.mdf --output one.pdf");
    assert!(err.contains("one.pdf") && err.contains(".html"), "{err}");
    says(2, directory, "report cut.mdf --output cut.mdf", "input");
    says(1, directory, "report cut.mdf --output no/such/folder.html", "no/such/folder.html");
}

#[test]
fn sums_of_shards_make_the_page_of_the_whole_run() {
    let directory = &empty();
    write(directory, "a.mdf", &run_with(Some(&Faults::new().0), 1, 300));
    write(directory, "b.mdf", &run_with(None, 2, 50));
    run_to(0, directory, "generate --events 1 --output .");
    for (report, names) in [("whole", "a.mdf b.mdf"), ("other", "b.mdf")] {
        let output = format!("{report}.html");
        run_to(0, directory, (format!("report --output {output}"), names, TABLES));
    }
    let part = |files: &str, shard: &str, sums: &str| {
        let args = format!("report {files} --shard {shard} --sums {sums} --threads 1");
        shows(directory, (args, TABLES), &format!("{sums} written"));
    };
    for i in 1..=3 {
        part("a.mdf b.mdf", &format!("{i}/3"), &format!("{i}.sums"));
    }
    let (out, _) = run_to(0, directory, "report --merge 1.sums 2.sums 3.sums --output merged.html");
    assert!(out.contains("350 events") && out.contains("things stand out"), "{out}");
    assert!(page(directory, "merged.html") == page(directory, "whole.html"));
    shell(0, directory, "cat 1.sums | ut-decode report --merge - 2.sums 3.sums --output piped.html");
    assert!(page(directory, "piped.html") == page(directory, "whole.html"));
    // Two runs that were summed up can be compared.
    part("b.mdf", "1/1", "b.sums");
    run_to(0, directory, "report --merge b.sums --reference 1.sums --output two.html");
    assert!(page(directory, "two.html").contains("What differs: b.mdf (A) from 2 files (B)"));
}

#[test]
fn sums_of_shards_of_cut_files_make_the_page_of_the_whole_run() {
    let directory = &empty();
    run_to(0, directory, "generate --events 9 --corrupt cut=1 --output .");
    std::fs::rename(directory.join("events.mdf"), directory.join("a.mdf")).unwrap();
    std::fs::copy(directory.join("a.mdf"), directory.join("b.mdf")).unwrap();
    let args = "report a.mdf b.mdf --keep-going";
    run_to(1, directory, (args, "--output whole.html"));
    // The second part comes to the end of the first file, the third does so again.
    for (shard, code) in [("1/3", 0), ("2/3", 1), ("3/3", 1)] {
        let sums = format!("{}.sums", &shard[..1]);
        run_to(code, directory, (args, format!("--shard {shard} --sums {sums}")));
    }
    let (_, err) = run_to(1, directory, "report --merge 1.sums 2.sums 3.sums --output merged.html");
    for file in ["a.mdf", "b.mdf"] {
        assert_eq!(err.matches(&format!("error: {file}: event 8")).count(), 1, "{err}");
    }
    assert!(page(directory, "merged.html") == page(directory, "whole.html"));
}

#[test]
fn a_part_that_comes_twice_is_refused_and_one_that_is_missing_is_warned_of() {
    let directory = &empty();
    write(directory, "run.mdf", &run_with(None, 2, 20));
    for i in ["1", "2", "3", "4"] {
        run_to(0, directory, format!("report run.mdf --shard {i}/4 --sums {i}.sums"));
    }
    let merge = |code: i32, sums: &str| run_to(code, directory, ("report --output merged.html --merge", sums)).1;
    assert!(!merge(0, "1.sums 2.sums 3.sums 4.sums").contains("missing"));
    let err = merge(0, "4.sums 1.sums");
    assert!(err.contains("4.sums is one of 4 parts. Missing: 2, the first of them 2/4"), "{err}");
    std::fs::copy(directory.join("2.sums"), directory.join("again.sums")).unwrap();
    let err = merge(1, "1.sums 2.sums 3.sums 4.sums again.sums");
    assert!(err.contains("2.sums and again.sums are sums of the same events"), "{err}");
}

#[test]
fn nothing_is_written_behind_sums_on_standard_output() {
    let directory = &empty();
    write(directory, "run.mdf", &run_with(None, 2, 20));
    write(directory, "run.sums", &run(directory, "report run.mdf --sums -").stdout);
    run_to(0, directory, "report --merge run.sums --output run.html");
    says(2, directory, "report run.mdf --output - --json -", "only one output can be standard output");
}

#[test]
fn what_is_no_sums_or_does_not_belong_together_is_refused() {
    let directory = &empty();
    write(directory, "run.mdf", &run_with(None, 2, 20));
    for (sums, more) in [("good", "--threads 1"), ("strips", "--no-clustering"), ("place", "--against place")] {
        run_to(0, directory, (format!("report run.mdf --sums {sums}"), more));
    }
    let good = read(directory, "good");
    write(directory, "cut", &good[..good.len() / 2]);
    assert!(good[4] & 4 != 0, "the frame of zstd has a checksum of its content");
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    write(directory, "flipped", &flipped);
    write(directory, "text", b"events 3");
    let text = zstd::decode_all(&good[..]).unwrap();
    let text = String::from_utf8(text).unwrap();
    let pack = |name: &str, text: &str| write(directory, name, &zstd::encode_all(text.as_bytes(), 1).unwrap());
    pack("format", &text.replace("ut-decode sums 4", "ut-decode sums 7"));
    pack("strips_missing", &text.replace("\"strips\":[", "\"strips\":[],\"other\":["));
    pack("too_many", &text.replace("\"events\":20,", "\"events\":18446744073709551615,"));
    for name in ["cut", "flipped", "text", "format", "strips_missing", "too_many", "run.mdf"] {
        let (_, err) = run_to(1, directory, format!("report --merge good {name} --output run.html"));
        assert!(err.contains("not sums of ut-decode report") && err.contains(name), "{name}: {err}");
    }
    pack("large", &" ".repeat((64 << 20) + 1));
    for (name, why) in [
        ("strips", "different clustering"),
        ("place", "by event number and by place"),
        ("absent", "cannot read absent"),
        ("large", "larger than 64 MiB"),
    ] {
        says(1, directory, format!("report --merge good {name} --output run.html"), why);
    }
    // Runs of two detectors, or with other clustering, are not compared, either: the page says these once.
    run_to(0, directory, "generate --events 1 --format v4 --output .");
    run_to(0, directory, "report events.mdf --sums v4");
    let text_of = |name: &str| String::from_utf8(zstd::decode_all(&read(directory, name)[..]).unwrap()).unwrap();
    let moved = text_of("good").replacen("\"grouping\":\"y-rows\"", "\"grouping\":\"unique-x\"", 1);
    assert_ne!(moved, text_of("good"));
    pack("moved", &moved);
    for (name, why) in
        [("v4", "different detectors"), ("moved", "different detectors"), ("strips", "different clustering")]
    {
        let err = says(1, directory, format!("report --merge good --reference {name} --output run.html"), why);
        assert!(err.contains("do not belong together"), "{name}: {err}");
    }
    assert!(!directory.join("run.html").exists());
    for args in [
        "report run.mdf",
        "report --merge good --sums more",
        "report --merge good --output run.html --shard 1/2",
        "report run.mdf --output run.html --sums more",
        "report run.mdf --sums run.mdf",
    ] {
        run_to(2, directory, args);
    }
}

#[test]
fn a_strict_report_fails_after_its_page_if_the_data_are_wrong_or_missing() {
    let directory = &empty();
    write(directory, "good.mdf", &run_with(None, 1, 20));
    write(directory, "bad.mdf", &run_with(Some(&Faults::new().0), 1, 20));
    write(directory, "empty.mdf", b"");
    let strict = |status: i32, input: &str, more: &str| {
        let args = (format!("report {input} --strict --output page.html"), more);
        let (_, err) = run_to(status, directory, &args);
        std::fs::remove_file(directory.join("page.html")).unwrap();
        err
    };
    strict(0, "good.mdf", "");
    assert!(strict(1, "bad.mdf", "").contains("trouble in the data"));
    assert!(strict(1, "empty.mdf", "").contains("no event in the input"));
    // A part of a job may be empty.
    strict(0, "good.mdf", "--shard 30/32");
}
