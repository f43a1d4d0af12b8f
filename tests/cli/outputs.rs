//! Outputs of `ut-decode decode`: a folder with one file per input, and hits under a mask.

use std::fs;
use std::path::Path;

use crate::support::{
    Line, ONE_HIT, TABLES, bank, event, json_of, read, run_to, sample, says, tree, write,
};

fn text(directory: &Path, name: &str) -> String {
    String::from_utf8(read(directory, name)).unwrap()
}

fn decode(directory: &Path, args: impl Line) -> (String, String) {
    run_to(0, directory, ("decode", args, TABLES))
}

#[test]
fn a_folder_gets_one_file_per_input_as_if_each_were_decoded_alone() {
    let directory = &sample();
    for (seed, name) in [("2", "b.mdf.zst"), ("3", "c.mep")] {
        run_to(
            0,
            directory,
            format!("generate --events 7 --seed {seed} --output made"),
        );
        run_to(
            0,
            directory,
            format!("convert made/events.mdf --output {name} --packet-events 3"),
        );
    }
    let files = ["events.mdf", "b.mdf.zst", "c.mep"];
    let stems = ["events", "b", "c"];
    for (format, options) in [
        ("csv", ""),
        ("parquet", "--batch 3"),
        ("csv", "--set layout=mep"),
    ] {
        let args = format!("decode --output new --format {format} --threads 3 {options}");
        let (json, _) = json_of(0, directory, (args, files, TABLES));
        let names = ["b", "c", "events"].map(|stem| format!("{stem}.{format}"));
        assert_eq!(tree(&directory.join("new")), names);
        assert_eq!(
            json["outputs"],
            serde_json::json!(names.map(|name| format!("new/{name}")))
        );
        for (file, stem) in files.iter().zip(stems) {
            let alone = format!("alone.{format}");
            decode(directory, format!("{file} --output {alone} {options}"));
            let (found, expected) = (
                read(directory, &format!("new/{stem}.{format}")),
                read(directory, &alone),
            );
            // The place of a file among the inputs is not in its hits.
            assert!(found == expected, "{file} as {format}");
        }
        fs::remove_dir_all(directory.join("new")).unwrap();
    }
    // A folder that is there, whatever is called how in it, or a name that ends as one.
    fs::create_dir_all(directory.join("there.d/hits")).unwrap();
    for folder in ["there.d", "not/yet/", "csv"] {
        decode(
            directory,
            format!("events.mdf --output {folder} --format csv"),
        );
        assert_eq!(tree(&directory.join(folder)), ["events.csv"]);
    }
}

#[test]
fn a_file_is_named_after_its_input_without_the_endings_of_the_format() {
    let directory = &sample();
    let inputs = [
        "run1.MDF.ZST",
        "run.1.mep.gz",
        "1_2.bin",
        "plain",
        "a.zst",
        "b.bin.zst.gz",
        ".mdf",
        "data.dat",
    ];
    for name in inputs {
        fs::copy(directory.join("events.mdf"), directory.join(name)).unwrap();
    }
    decode(
        directory,
        (inputs, "--allow-repeated --output new --format csv"),
    );
    let mut expected = [
        "run1", "run.1", "1_2", "plain", "a", "b", ".mdf", "data.dat",
    ]
    .map(|stem| format!("{stem}.csv"));
    expected.sort();
    assert_eq!(tree(&directory.join("new")), expected);
}

#[test]
fn shards_share_a_folder_and_are_together_the_whole() {
    let directory = &sample();
    fs::copy(directory.join("events.mdf"), directory.join("other.mdf")).unwrap();
    let args = "--allow-repeated events.mdf other.mdf --output new/ --format csv";
    for shard in ["", "--shard 1/3", "--shard 2/3", "--shard 3/3"] {
        decode(directory, (args, shard));
    }
    let rows = |name: &str| {
        text(directory, name)
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for stem in ["events", "other"] {
        let shards: Vec<_> = (1..=3)
            .map(|i| format!("new/{stem}-{i}-of-3.csv"))
            .collect();
        let shards = shards
            .iter()
            .filter(|shard| directory.join(shard).exists())
            .flat_map(|shard| rows(shard));
        assert!(shards.eq(rows(&format!("new/{stem}.csv"))), "{stem}");
    }
}

#[test]
fn names_that_collide_and_outputs_that_are_inputs_are_refused_before_anything_is_written() {
    let directory = &sample();
    fs::create_dir(directory.join("sub")).unwrap();
    fs::copy(
        directory.join("events.mdf"),
        directory.join("sub/events.raw"),
    )
    .unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("a.csv")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("a.raw")).unwrap();
    let before = tree(directory);
    for (args, message) in [
        (
            "events.mdf sub/events.raw --output new/ --format csv",
            "two inputs",
        ),
        (
            "events.mdf events.mdf --output new/ --format csv",
            "two inputs",
        ),
        (
            "a.raw a.csv --output . --format csv",
            "would overwrite a.csv, which is an input",
        ),
        (
            "a.raw events.mdf --output . --format csv --json a.csv",
            "would overwrite a.csv",
        ),
        ("events.mdf --output new/", "--format csv or parquet"),
    ] {
        says(2, directory, ("decode", args, TABLES), message);
    }
    assert_eq!(tree(directory), before);
    says(
        1,
        directory,
        ("decode events.mdf --output a.raw/x/ --format csv", TABLES),
        "cannot write a.raw/x",
    );
}

#[test]
fn a_truncated_input_affects_its_own_file_only() {
    let directory = &sample();
    let mdf = read(directory, "events.mdf");
    write(directory, "cut.mdf", &mdf[..mdf.len() - 3]);
    write(directory, "nothing.mdf", &mdf[..30]);
    let files = [
        "events.mdf",
        "cut.mdf",
        "nothing.mdf",
        "absent.mdf",
        "last.mdf",
    ];
    fs::copy(directory.join("events.mdf"), directory.join("last.mdf")).unwrap();
    let (json, err) = json_of(
        1,
        directory,
        (
            "decode --allow-repeated --keep-going --output new --format csv",
            files,
            TABLES,
        ),
    );
    assert_eq!(
        tree(&directory.join("new")),
        ["cut.csv", "events.csv", "last.csv"]
    );
    assert_eq!(
        (&json["failed_files"], &json["complete"]),
        (&3.into(), &false.into())
    );
    assert_eq!(err.matches("is incomplete").count(), 1, "{err}");
    assert!(err.contains("new/cut.csv is incomplete"), "{err}");
    let whole = text(directory, "new/events.csv");
    assert!(
        whole == text(directory, "new/last.csv")
            && whole.starts_with(&text(directory, "new/cut.csv"))
    );
    fs::remove_dir_all(directory.join("new")).unwrap();
    // Without --keep-going nothing is made of the inputs after the failure, nor of any if one is
    // not there.
    let args = "decode --output new --format csv";
    says(1, directory, (args, files, TABLES), "absent.mdf");
    assert!(!directory.join("new").exists());
    let (_, err) = run_to(1, directory, (args, &files[..3], &files[4..], TABLES));
    assert_eq!(
        tree(&directory.join("new")),
        ["cut.csv", "events.csv"],
        "{err}"
    );
}

#[test]
fn an_input_that_was_not_opened_gets_no_file() {
    let directory = &sample();
    for name in ["b.mdf", "c.mdf"] {
        fs::copy(directory.join("events.mdf"), directory.join(name)).unwrap();
    }
    let args = "decode --allow-repeated events.mdf b.mdf c.mdf --output new --format csv";
    let cases: [(&str, &[&str]); 4] = [
        ("--limit 0", &[]),
        ("--limit 5", &["events.csv"]),
        ("--events 6", &["b.csv", "events.csv"]),
        ("--limit 15", &["b.csv", "c.csv", "events.csv"]),
    ];
    for (options, expected) in cases {
        let (json, _) = json_of(0, directory, (args, options, TABLES));
        assert_eq!(
            json["outputs"].as_array().unwrap().len(),
            expected.len(),
            "{options}"
        );
        assert!(
            expected.is_empty() || tree(&directory.join("new")) == expected,
            "{options}"
        );
    }
}

/// Splits a row of hits into its first columns and the last two, sector id and strip.
fn place_of(row: &str) -> (&str, u32, u32) {
    let mut fields = row.rsplitn(3, ',');
    let [sector, strip] = [(); 2].map(|()| fields.next().unwrap().parse().unwrap());
    (fields.next().unwrap(), sector, strip)
}

#[test]
fn a_mask_removes_and_counts_its_hits_on_every_backend() {
    let directory = &sample();
    decode(
        directory,
        "events.mdf --output all.csv --columns sector_id,strip",
    );
    let all = text(directory, "all.csv");
    let rows: Vec<(&str, u32, u32)> = all.lines().skip(1).map(place_of).collect();
    // Half a sector, of the middle hit, and two single strips.
    let ((_, sector, _), single) = (
        rows[rows.len() / 2],
        [rows[0], rows[rows.len() - 1]].map(|(_, s, strip)| (s, strip)),
    );
    let masked = |(_, of, strip): &&(&str, u32, u32)| {
        (*of == sector && *strip < 256) || single.contains(&(*of, *strip))
    };
    let [first, last] = single.map(|(sector, strip)| format!("sector {sector} strips {strip}"));
    let mask = format!("sector {sector} strips 0-0xff # half\n\n{first}\n{last}\n");
    write(directory, "mask.txt", mask.as_bytes());
    let expected: Vec<&str> = rows
        .iter()
        .filter(|row| !masked(row))
        .map(|(row, ..)| *row)
        .collect();
    let n = rows.len() - expected.len();
    assert!(n > 2 && n < rows.len() / 2);
    let all = [
        "",
        "--backend reference",
        "--backend emulated",
        "--set layout=mep --threads 1",
        "--batch 1 --threads 4",
    ];
    for options in all {
        let args = (
            "decode events.mdf --mask mask.txt --output hits.csv",
            options,
            TABLES,
        );
        let (json, err) = json_of(0, directory, args);
        assert!(
            text(directory, "hits.csv")
                .lines()
                .skip(1)
                .eq(expected.iter().copied()),
            "{options:?}"
        );
        assert_eq!(
            (&json["masked_hits"], &json["hits"]),
            (&n.into(), &expected.len().into())
        );
        let layers: u64 = json["hits_of_layer"]
            .as_object()
            .unwrap()
            .values()
            .map(|n| n.as_u64().unwrap())
            .sum();
        assert_eq!(layers, expected.len() as u64);
        assert_eq!(json["provenance"]["mask"], "mask.txt");
        assert!(err.contains(&format!("masked hits           {n}")), "{err}");
    }
    // Chosen events and folders see the same mask.
    decode(
        directory,
        "events.mdf --mask mask.txt --events 2 --output two.csv",
    );
    let two = expected.iter().copied().filter(|row| row.starts_with("2,"));
    assert!(text(directory, "two.csv").lines().skip(1).eq(two));
    decode(
        directory,
        "events.mdf --mask mask.txt --output set/ --format csv",
    );
    assert!(
        text(directory, "set/events.csv")
            .lines()
            .skip(1)
            .eq(expected.iter().copied())
    );
    let (json, _) = json_of(0, directory, ("decode events.mdf", TABLES));
    assert_eq!(json["masked_hits"], 0);
}

#[test]
fn a_mask_that_names_nothing_is_an_error_with_its_line_before_anything_is_written() {
    let directory = &sample();
    for (mask, message) in [
        ("board 0x2801\nsektor 3\n", "mask.txt, line 2: a line is"),
        (
            "board 0x28ff",
            "mask.txt, line 1: no board of the board table has sourceID 0x28ff",
        ),
        ("sector 2000", "no sector 2000"),
    ] {
        write(directory, "mask.txt", mask.as_bytes());
        says(
            1,
            directory,
            (
                "decode events.mdf --mask mask.txt --output hits.csv",
                TABLES,
            ),
            message,
        );
        assert!(!directory.join("hits.csv").exists());
    }
    says(
        1,
        directory,
        ("decode events.mdf --mask absent", TABLES),
        "cannot read absent",
    );
    // The mask is an input: it is not written over.
    write(directory, "mask.csv", b"board 0x2801");
    run_to(
        2,
        directory,
        (
            "decode events.mdf --mask mask.csv --output mask.csv",
            TABLES,
        ),
    );
    assert_eq!(read(directory, "mask.csv"), b"board 0x2801");
    write(directory, "one.mdf", &event(&[bank(0x2801, &ONE_HIT)]));
    let (json, _) = json_of(0, directory, ("decode one.mdf --mask mask.csv", TABLES));
    assert_eq!(
        (&json["hits"], &json["masked_hits"], &json["strips"]),
        (&0.into(), &1.into(), &1.into())
    );
}

#[test]
fn outputs_in_a_folder_do_not_replace_other_files_of_the_job() {
    let directory = &sample();
    fs::copy(directory.join("events.mdf"), directory.join("other.mdf")).unwrap();
    let refused = |code: i32, args: &str, message: &str| {
        says(
            code,
            directory,
            ("decode --output new --format csv", args, TABLES),
            message,
        );
    };
    fs::create_dir(directory.join("new")).unwrap();
    // Another option names a file that is not there yet.
    refused(
        2,
        "events.mdf --json new/events.csv",
        "new/events.csv would overwrite new/events.csv",
    );
    // Files that the job reads.
    write(directory, "new/events.csv", b"events.mdf\n");
    refused(2, "@new/events.csv", "new/events.csv would overwrite");
    write(directory, "new/events.csv", b"grouping = \"y-rows\"\n");
    refused(2, "events.mdf --config new/events.csv", "the settings file");
    assert_eq!(text(directory, "new/events.csv"), "grouping = \"y-rows\"\n");
    fs::remove_file(directory.join("new/events.csv")).unwrap();
    // Links to one file that is not there.
    std::os::unix::fs::symlink(directory.join("one.csv"), directory.join("new/events.csv"))
        .unwrap();
    std::os::unix::fs::symlink("events.csv", directory.join("new/other.csv")).unwrap();
    refused(
        2,
        "events.mdf other.mdf",
        "would hold the hits of two inputs, events.mdf and other.mdf",
    );
    assert!(!directory.join("one.csv").exists());
}
