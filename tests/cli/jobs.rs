//! `ut-decode decode` on many files: one job, chosen events, the same output whatever the threads.

use std::fs;
use std::path::Path;

use crate::support::{
    Folder, Line, ONE_HIT, TABLES, bank, empty, event, json_of, read, run_to, sample, says, shell,
    unchecked, write,
};

/// Makes a folder with files of generated events in MDF (5 and 7 events), zstd (4) and MEP (6 in
/// packets of 4).
fn several() -> Folder {
    let directory = sample();
    let path = directory.path();
    for (seed, n, name) in [
        ("2", "7", "b.mdf"),
        ("3", "4", "c.mdf.zst"),
        ("4", "6", "d.mep"),
    ] {
        run_to(
            0,
            path,
            format!("generate --events {n} --seed {seed} --output made"),
        );
        run_to(
            0,
            path,
            format!("convert made/events.mdf --output {name} --packet-events 4"),
        );
    }
    fs::remove_dir_all(path.join("made")).unwrap();
    fs::rename(path.join("events.mdf"), path.join("a.mdf")).unwrap();
    directory
}

const FILES: [&str; 4] = ["a.mdf", "b.mdf", "c.mdf.zst", "d.mep"];
const EVENTS: [u64; 4] = [5, 7, 4, 6];

/// Decodes into CSV with the tables; the rows without the column names.
fn rows(directory: &Path, args: impl Line) -> Vec<String> {
    run_to(0, directory, ("decode --output hits.csv", args, TABLES));
    String::from_utf8(read(directory, "hits.csv"))
        .unwrap()
        .lines()
        .skip(1)
        .map(str::to_owned)
        .collect()
}

fn place(row: &str) -> (u64, String) {
    (
        row.split(',').next().unwrap().parse().unwrap(),
        row.rsplit(',').next().unwrap().to_owned(),
    )
}

/// Event and file of all events of [`several`].
fn places_of_all() -> impl Iterator<Item = (u64, String)> {
    FILES
        .iter()
        .zip(EVENTS)
        .flat_map(|(file, n)| (0..n).map(|event| (event, (*file).to_owned())))
}

/// Guards against an order that depends on which thread finishes first. The four files have 22
/// events, and only one file has to be unpacked; batches of 2 make many pieces.
#[test]
fn the_output_is_independent_of_threads_and_names_file_and_event() {
    let directory = &several();
    let expected = rows(directory, (&FILES, "--threads 1"));
    for options in [
        "--threads 2",
        "--threads 5",
        "--threads 3 --batch 2",
        "--set layout=mep",
    ] {
        assert!(rows(directory, (FILES, options)) == expected, "{options:?}");
    }
    let mut places: Vec<(u64, String)> = expected.iter().map(|row| place(row)).collect();
    places.dedup();
    assert!(places.into_iter().eq(places_of_all()));
    let parquet = |threads: &str| {
        let args = format!("decode --threads {threads} --output hits.parquet --batch 3");
        run_to(0, directory, (args, FILES, TABLES));
        read(directory, "hits.parquet")
    };
    assert!(parquet("1") == parquet("4"));
    // The files alone and in sequence hold the same hits.
    let alone = FILES.iter().flat_map(|file| rows(directory, *file));
    assert!(
        alone.eq(expected
            .iter()
            .map(|row| row.rsplit_once(',').unwrap().0.to_owned()))
    );
}

#[test]
fn shards_together_are_the_whole_and_selections_its_parts() {
    let directory = &several();
    let with = |args: &str| rows(directory, (FILES, args));
    let whole = with("");
    for n in [1, 3, 5, 30] {
        let shards: Vec<String> = (1..=n)
            .flat_map(|i| with(&format!("--shard {i}/{n}")))
            .collect();
        assert!(shards == whole, "{n} shards");
    }
    // Places 4 to 5 cross the first files, 13 is of the third, 19 and 20 are of different packets.
    let all: Vec<(u64, String)> = places_of_all().collect();
    let at = |places: &[usize]| {
        let is_at = |row: &&String| places.iter().any(|&chosen| all[chosen] == place(row));
        whole.iter().filter(is_at).cloned().collect::<Vec<_>>()
    };
    assert!(with("--events 4-5,13,19-20") == at(&[4, 5, 13, 19, 20]));
    assert!(with("--skip 4 --limit 2") == at(&[4, 5]));
    assert!(with("--events 4-5,13,19-20 --skip 1 --limit 3") == at(&[5, 13, 19]));
    assert!(with("--event-number 5") == at(&[10, 21]));
    assert!(with("--run 1") == whole);
    says(
        0,
        directory,
        ("decode --run 2", &FILES, TABLES),
        "the selection matches no event in the input",
    );
    says(
        0,
        directory,
        ("decode --events 20-22", &FILES, TABLES),
        "--events names 3 events, the input has only 2 of them",
    );
    let (_, err) = run_to(0, directory, ("decode --events 19,20", &FILES, TABLES));
    assert!(!err.contains("--events names"), "{err}");
    let args = ("decode --run 2 --require-events", &FILES, TABLES);
    says(
        1,
        directory,
        args,
        "the selection matches no event in the input, and --require-events was given",
    );
    let err = says(
        1,
        directory,
        ("decode --events 22-24", &FILES, TABLES),
        "are beyond the end of the input",
    );
    assert!(!err.contains("warning: "), "{err}");
    says(
        1,
        directory,
        ("decode --skip 22", &FILES, TABLES),
        "--skip: the input has no more events than 22",
    );
    run_to(0, directory, ("decode --limit 0", &FILES, TABLES));
    let message = "/dev/null: --shard reads files twice, and this can be read only once";
    says(
        1,
        directory,
        ("decode /dev/null --shard 1/2", TABLES),
        message,
    );
    for wrong in ["0/3", "4/3", "1", "a/b"] {
        run_to(2, directory, format!("decode a.mdf --shard {wrong}"));
    }
}

#[test]
fn wrong_checksums_are_accepted_if_not_compared() {
    let directory = &empty();
    let good = event(&[bank(0, &ONE_HIT)]);
    let mut wrong = good.clone();
    wrong[12] ^= 1;
    let mut events = [unchecked(good.clone()), good.clone(), good]
        .concat()
        .repeat(14);
    let of_17 = 17 * wrong.len();
    events[of_17..of_17 + wrong.len()].copy_from_slice(&wrong);
    write(directory, "a.mdf", &events);
    let (json, err) = json_of(0, directory, "decode a.mdf --synthetic-detector");
    assert_eq!(
        (&json["hits"], &json["report"]["broken_event"]),
        (&41.into(), &1.into())
    );
    assert!(err.contains("event 17 at byte"), "{err}");
    let (json, _) = json_of(
        0,
        directory,
        "decode a.mdf --synthetic-detector --no-checksum",
    );
    assert_eq!(
        (&json["hits"], &json["trouble"]),
        (&42.into(), &false.into())
    );
}

#[test]
fn inputs_come_as_folders_and_lists() {
    let directory = &several();
    let expected = rows(directory, "a.mdf b.mdf");
    fs::create_dir(directory.join("folder")).unwrap();
    for name in ["a.mdf", "b.mdf"] {
        fs::copy(directory.join(name), directory.join("folder").join(name)).unwrap();
    }
    let folder = rows(directory, "folder");
    assert!(
        folder
            .iter()
            .map(|row| row.replace("folder/", ""))
            .eq(expected.iter().cloned())
    );
    write(directory, "list", b"a.mdf\n\nb.mdf\r\n");
    assert!(rows(directory, "@list") == expected);
    run_to(1, directory, "decode @absent");
    run_to(2, directory, "decode");
    says(
        2,
        directory,
        "decode @- -",
        "standard input can be read only once",
    );
    says(
        2,
        directory,
        "report - --reference - --output page.html",
        "standard input can be read only once",
    );
    // A dangling link is an error, not skipped.
    std::os::unix::fs::symlink("nowhere.mdf", directory.join("folder/c.mdf")).unwrap();
    fs::create_dir(directory.join("folder/d.mdf")).unwrap();
    let (json, err) = json_of(1, directory, ("decode folder --keep-going", TABLES));
    assert!(err.contains("folder/c.mdf"), "{err}");
    assert_eq!(
        (&json["files"], &json["failed_files"]),
        (&3.into(), &1.into())
    );
}

#[test]
fn shards_with_keep_going_share_the_readable_events() {
    let directory = &several();
    let mdf = read(directory, "a.mdf");
    write(directory, "cut.mdf", &mdf[..mdf.len() - 3]);
    let args = ["cut.mdf", "absent.mdf", "b.mdf", "--output", "hits.csv"];
    let rows = |options: &str| {
        run_to(1, directory, ("decode", args, options, TABLES));
        let text = String::from_utf8(read(directory, "hits.csv")).unwrap();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = rows("--keep-going");
    let shards = ["1/2", "2/2"].map(|shard| rows(&format!("--keep-going --shard {shard}")));
    assert!(shards.iter().all(|rows| !rows.is_empty()) && shards.concat() == whole);
    says(
        1,
        directory,
        ("decode cut.mdf b.mdf --shard 1/2", TABLES),
        "cut.mdf: event 4",
    );
}

#[test]
fn the_first_faulty_event_is_counted_over_all_inputs_for_any_selection() {
    let directory = &empty();
    run_to(
        0,
        directory,
        "generate --events 30 --output . --corrupt truncated=0.001 --seed 5",
    );
    // The faults are in the events 2, 8 and 22.
    let chosen = [
        ("--events", "0-29", 2),
        ("--events", "5-9", 8),
        ("--skip", "10", 22),
        ("--shard", "2/2", 22),
    ];
    for (option, value, first) in chosen {
        let (json, err) = json_of(0, directory, format!("decode events.mdf {option} {value}"));
        assert_eq!(
            json["first_event_with"]["truncated"], first,
            "{option} {value}"
        );
        assert_eq!(
            err.contains(&format!("(event {first})")),
            first > 2,
            "{err}"
        );
    }
}

#[test]
fn compressed_files_unpacked_in_parallel_come_in_order() {
    let directory = &several();
    for (seed, name) in [("5", "e.mdf.zst"), ("6", "f.mdf.zst"), ("7", "g.mep.zst")] {
        run_to(
            0,
            directory,
            format!("generate --events 9 --seed {seed} --output made"),
        );
        let plain = name.trim_end_matches(".zst");
        run_to(
            0,
            directory,
            format!("convert made/events.mdf --output {plain}"),
        );
        write(
            directory,
            name,
            &zstd::encode_all(&read(directory, plain)[..], 1).unwrap(),
        );
    }
    let (packed, cut) = (
        ["c.mdf.zst", "e.mdf.zst", "b.mdf", "f.mdf.zst", "g.mep.zst"],
        "cut.mdf.zst",
    );
    let expected = rows(directory, (&packed, "--threads 1"));
    for threads in ["2", "3", "8"] {
        assert!(
            rows(directory, (&packed, format!("--threads {threads}"))) == expected,
            "{threads} threads"
        );
        assert!(
            rows(
                directory,
                (&packed, format!("--threads {threads} --limit 17"))
            )
            .len()
                < expected.len()
        );
    }
    // One that breaks off, and one that is not there.
    let bytes = read(directory, "e.mdf.zst");
    write(directory, cut, &bytes[..bytes.len() - 20]);
    let files = ["c.mdf.zst", cut, "absent.mdf.zst", "f.mdf.zst"];
    let of = |threads: &str| {
        let args = format!("decode --keep-going --output hits.csv --threads {threads}");
        let (json, err) = json_of(1, directory, (args, files, TABLES));
        assert!(
            err.contains(cut) && err.contains("truncated?") && err.contains("absent.mdf.zst"),
            "{err}"
        );
        (json["events"].clone(), read(directory, "hits.csv"))
    };
    assert!(of("1") == of("4"));
}

#[test]
fn hits_go_to_standard_output_and_into_pipes() {
    let directory = &several();
    run_to(0, directory, ("decode a.mdf --output hits.csv", TABLES));
    let expected = read(directory, "hits.csv");
    let decode = format!("ut-decode decode {TABLES}");
    for line in [
        format!("{decode} a.mdf --output - --format csv"),
        format!("{decode} - --output - --format csv <a.mdf"),
        format!("{decode} a.mdf --output /dev/stdout --format csv | cat"),
        format!(
            "mkfifo pipe.csv; {decode} a.mdf --output pipe.csv >/dev/null & cat pipe.csv; wait"
        ),
    ] {
        let (out, err) = shell(0, directory, &line);
        assert!(out.as_bytes() == expected, "{line}: {err}");
    }
    shell(
        0,
        directory,
        &format!("ut-decode report - {TABLES} --output page.html --json - <a.mdf"),
    );
    shell(0, directory, &format!("{decode} - --json - <a.mdf"));
    says(2, directory, "decode a.mdf --output -", "--format csv");
    run_to(
        2,
        directory,
        "decode a.mdf --output - --format csv --json -",
    );
}
