//! `ut-decode decode --resume` decodes again what changed, and nothing else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::{
    Folder, TABLES, end, json_of, read, run_to, sample, says, shell, tool, write,
};

const FILES: &str = "a.mdf b.mdf.zst c.mep";

/// Makes a directory with three inputs and their tables.
fn inputs() -> Folder {
    let directory = sample();
    for (seed, name) in [("2", "a.mdf"), ("3", "b.mdf.zst"), ("4", "c.mep")] {
        run_to(
            0,
            &directory,
            format!("generate --events 4 --seed {seed} --output made"),
        );
        run_to(
            0,
            &directory,
            format!("convert made/events.mdf --output {name}"),
        );
    }
    fs::remove_dir_all(directory.join("made")).unwrap();
    directory
}

fn resume(directory: &Path, files: &str, options: &str) -> (Value, String) {
    json_of(
        0,
        directory,
        (
            "decode --resume --output hits/ --format csv",
            files,
            options,
            TABLES,
        ),
    )
}

/// Returns the names of the outputs that a job wrote, without folder and extension, separated by
/// spaces.
fn written(json: &Value) -> String {
    let names = json["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap());
    names
        .map(|name| name.trim_start_matches("hits/").trim_end_matches(".csv"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Contents of the files in a folder by name, hidden ones left out.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let named = files.map(|path| {
        (
            path.file_name().unwrap().to_str().unwrap().to_owned(),
            fs::read(path).unwrap(),
        )
    });
    named.filter(|(name, _)| !name.starts_with('.')).collect()
}

/// Dates a file to before 1970, as a copy from a disk without a clock is.
fn set_modified(path: &Path, seconds_before: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH - Duration::from_secs(seconds_before))
        .unwrap();
}

/// Walks one folder through a chain of changes. After each change three things must hold: exactly
/// the named inputs are decoded, a second run decodes none, and the folder has the bytes of a fresh
/// one. The third catches what the first cannot, an output that was rightly skipped by its name but
/// belongs to other options.
///
/// Skipping too little only costs time, but skipping too much leaves stale hits among new ones. So
/// the harmless changes here (threads, backend, layout, a comment in the mask, another spelling of
/// a path) are few, and the fresh folder shows of each that the bytes are the same.
#[test]
fn only_new_changed_or_differently_decoded_inputs_are_decoded_again() {
    let directory = &inputs();
    let mut all = contents(directory);
    let again = |what: &str, files: &str, options: &str, expected: &str| {
        let (json, err) = resume(directory, files, options);
        assert_eq!(written(&json), expected, "{what}: {err}");
        let n_files = files.split_whitespace().count();
        let skipped = n_files - expected.split_whitespace().count();
        assert_eq!(json["skipped_files"], skipped, "{what}");
        let said = format!("skipped {skipped} of {n_files} file");
        assert_eq!(err.contains(&said), skipped > 0, "{what}: {err}");
        assert!(!err.contains(".ut-decode.json"), "{what}: {err}");
        // Nothing is left for the next run, and what was skipped is what a job without --resume
        // writes.
        assert!(
            written(&resume(directory, files, options).0).is_empty(),
            "{what}"
        );
        run_to(
            0,
            directory,
            (
                "decode --output fresh/ --format csv",
                files,
                options,
                TABLES,
            ),
        );
        for (name, bytes) in contents(&directory.join("fresh")) {
            assert!(
                read(directory, &format!("hits/{name}")) == bytes,
                "{what}: {name}"
            );
        }
        fs::remove_dir_all(directory.join("fresh")).unwrap();
    };
    again("some inputs", "a.mdf", "", "a");
    again("new inputs", FILES, "", "b c");
    again(
        "what changes no hit",
        FILES,
        "--threads 1 --backend reference --set layout=mep",
        "",
    );
    again(
        "the same by another name",
        "./a.mdf b.mdf.zst c.mep",
        "",
        "",
    );
    for seconds in [1, 2] {
        set_modified(&directory.join("b.mdf.zst"), seconds);
        again("an input with another time", FILES, "", "b");
    }
    let longer = [
        &all.remove("a.mdf").unwrap()[..],
        &all.remove("events.mdf").unwrap(),
    ]
    .concat();
    write(directory, "a.mdf", &longer);
    set_modified(&directory.join("a.mdf"), 1);
    again("an input that has grown", FILES, "", "a");
    fs::create_dir(directory.join("other")).unwrap();
    fs::rename(directory.join("a.mdf"), directory.join("other/a.mdf")).unwrap();
    again(
        "another input of the same name",
        "other/a.mdf b.mdf.zst",
        "",
        "a",
    );
    fs::rename(directory.join("other/a.mdf"), directory.join("a.mdf")).unwrap();
    again("the first again", FILES, "", "a");
    fs::remove_file(directory.join("hits/a.csv")).unwrap();
    again("an output that is missing", FILES, "", "a");
    let cut = read(directory, "hits/c.csv").len() as u64 - 9;
    File::options()
        .write(true)
        .open(directory.join("hits/c.csv"))
        .unwrap()
        .set_len(cut)
        .unwrap();
    again("an output that was cut", FILES, "", "c");
    set_modified(&directory.join("hits/b.csv"), 5);
    again("an output that something else wrote", FILES, "", "b");
    for options in [
        "--flip 512",
        "--columns detector",
        "--run 1",
        "--no-checksum",
        "",
    ] {
        again("other options", FILES, options, "a b c");
    }
    write(directory, "mask.txt", b"board 3\n");
    again("a mask", FILES, "--mask mask.txt", "a b c");
    write(
        directory,
        "mask.txt",
        b"board 3 # a comment changes no strip\n",
    );
    again("the same mask", FILES, "--mask mask.txt", "");
    write(directory, "mask.txt", b"board 4\n");
    again("another mask", FILES, "--mask mask.txt", "a b c");
    again("other groups", FILES, "--grouping unique-x", "a b c");
    let geometry = read(directory, "geometry.bin");
    let mut other = geometry.clone();
    other[geometry.len() - 4] ^= 1;
    for (what, bytes) in [("other tables", &other), ("the first tables", &geometry)] {
        write(directory, "geometry.bin", bytes);
        again(what, FILES, "--trust-tables", "a b c");
    }
}

#[test]
fn a_damaged_manifest_is_reported_and_everything_is_decoded_again() {
    let directory = &inputs();
    resume(directory, FILES, "");
    let manifest = String::from_utf8(read(directory, "hits/.ut-decode.json")).unwrap();
    for bad in [
        "",
        "{}",
        &manifest[..manifest.len() / 2],
        &manifest.replace("\"version\": 1", "\"version\": 2"),
    ] {
        write(directory, "hits/.ut-decode.json", bad.as_bytes());
        let (json, err) = resume(directory, FILES, "");
        assert!(
            err.contains("warning: hits/.ut-decode.json: ") && err.contains("decoding all"),
            "{err}"
        );
        assert_eq!(written(&json), "a b c");
        assert!(written(&resume(directory, FILES, "").0).is_empty());
    }
}

#[test]
fn a_truncated_input_is_tried_again_each_time_and_a_pipe_is_always_decoded() {
    let directory = &inputs();
    let whole = read(directory, "a.mdf");
    write(directory, "a.mdf", &whole[..whole.len() - 3]);
    let args = "decode a.mdf c.mep --resume --keep-going --output hits/ --format csv";
    for expected in ["a c", "a"] {
        let (json, err) = json_of(1, directory, (args, TABLES));
        assert_eq!(written(&json), expected, "{err}");
    }
    write(directory, "a.mdf", &whole);
    assert_eq!(written(&resume(directory, FILES, "").0), "a b");
    let line =
        format!("cat a.mdf | ut-decode decode - --resume -o hits/ --format csv {TABLES} --json -");
    for _ in 0..2 {
        let (out, _) = shell(0, directory, &line);
        assert_eq!(written(&serde_json::from_str(&out).unwrap()), "stdin");
    }
}

/// Kills the job eight times, 40 to 160 ms after its start, which is in the middle of other work
/// each time. From one kill to the next, the number of files may fall by two at most, which leaves
/// room for temporary files but not for the loss of outputs. A stray temporary file, as an older
/// process would leave it, is removed.
#[test]
fn a_job_that_is_killed_repeatedly_ends_with_the_outputs_of_an_undisturbed_job() {
    let directory = &inputs();
    fs::create_dir(directory.join("raw")).unwrap();
    for i in 0..40 {
        let input = ["a.mdf", "b.mdf.zst"][i % 2];
        fs::copy(
            directory.join(input),
            directory.join(format!("raw/{i:02}.mdf")),
        )
        .unwrap();
    }
    let into = |folder: &str| {
        tool(
            directory,
            (
                format!(
                    "decode raw --allow-repeated --resume --threads 2 --format parquet --output {folder}"
                ),
                TABLES,
            ),
        )
    };
    let mut most = 0;
    for i in 0..8 {
        let mut tool = into("killed/")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(40 * (i % 4 + 1)));
        let _ = tool.kill();
        tool.wait().unwrap();
        let n = fs::read_dir(directory.join("killed")).map_or(0, Iterator::count);
        assert!(n + 2 >= most, "{n} files after {most}");
        most = n;
    }
    write(directory, "killed/.ut-decode-dead.part", b"left");
    for folder in ["killed/", "undisturbed/"] {
        end(0, &mut into(folder));
    }
    let [killed, undisturbed] =
        ["killed", "undisturbed"].map(|folder| contents(&directory.join(folder)));
    assert!(killed == undisturbed && killed.len() == 40);
    let hidden = fs::read_dir(directory.join("killed"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(
        hidden
            .filter(|name| name.to_string_lossy().starts_with('.'))
            .count(),
        1,
        "the manifest alone"
    );
}

#[test]
fn resuming_needs_a_folder_with_one_file_per_input_and_all_events() {
    let directory = &inputs();
    let folder = "--resume --output hits/ --format csv";
    for (options, message) in [("--output hits.csv", "name a folder"), ("", "--output")] {
        says(2, directory, ("decode a.mdf --resume", options), message);
    }
    for (option, value) in [
        ("events", "3"),
        ("shard", "1/2"),
        ("skip", "1"),
        ("limit", "1"),
    ] {
        let line = format!("decode a.mdf {folder} --{option} {value}");
        says(2, directory, line, &format!("--{option}"));
    }
    // Two inputs would get the same file, and one input is done: the other does not replace its
    // output.
    fs::create_dir(directory.join("other")).unwrap();
    fs::copy(directory.join("a.mdf"), directory.join("other/a.raw")).unwrap();
    resume(directory, "a.mdf", "");
    says(
        2,
        directory,
        ("decode a.mdf other/a.raw", folder, TABLES),
        "two inputs",
    );
    write(directory, "hits/.ut-decode.json", b"my mask");
    says(
        2,
        directory,
        ("decode a.mdf @hits/.ut-decode.json", folder, TABLES),
        "would overwrite",
    );
}
