//! Files when things go wrong: written whole or not at all, never over an input, and reported with
//! a name.
//!
//! A job that fails is run again, so each test asks two questions about the failure: is all that
//! was there before still there, bit for bit, and is there nothing new that looks complete? Names
//! are the difficult part. One file has many: relative ones, hard and symbolic links, `/dev/stdin`,
//! and redirections by the shell, which never show on the command line.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use ut_decoding::input::{EventHeader, GENERATED_MASK};

use crate::support::{
    Folder, ONE_HIT, TABLES, bank, end, event, event_with, read, run, run_to, sample, says, shell,
    tool, tree, write,
};

/// Makes a [`sample`] whose file of events is larger than the buffer of a pipe.
fn large() -> Folder {
    let directory = sample();
    run_to(0, &directory, "generate --events 40 --output .");
    directory
}

/// Writes the first event of the sample and `more` bytes of the second event into a file.
fn first_event(directory: &Path, name: &str, more: usize) {
    let mdf = read(directory, "events.mdf");
    let one = u32::from_le_bytes(*mdf.first_chunk().unwrap()) as usize;
    write(directory, name, &mdf[..one + more]);
}

/// Runs lines of shell, each of which would overwrite something, is refused, and touches none of
/// the files.
fn refused(directory: &Path, files: &[&str], lines: &[String]) {
    let contents = || {
        files
            .iter()
            .map(|name| read(directory, name))
            .collect::<Vec<_>>()
    };
    let (before, there) = (contents(), tree(directory));
    for line in lines {
        let (_, err) = shell(2, directory, line);
        assert!(
            err.contains("overwrite") || err.contains("are the same file"),
            "{line}: {err}"
        );
        assert!(contents() == before && tree(directory) == there, "{line}");
    }
}

#[test]
fn an_output_that_is_an_input_a_table_or_another_output_is_refused_and_nothing_is_touched() {
    let directory = &sample();
    fs::hard_link(directory.join("events.mdf"), directory.join("same.csv")).unwrap();
    symlink("events.mdf", directory.join("link.csv")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("1_0.bin")).unwrap();
    write(directory, "list", b"events.mdf\n");
    let folder = directory.file_name().unwrap().to_str().unwrap();
    let lines = [
        "decode events.mdf --json events.mdf".to_owned(),
        "decode events.mdf --json ./events.mdf".to_owned(),
        "decode events.mdf --output same.csv".to_owned(),
        "decode events.mdf --output link.csv".to_owned(),
        "decode events.mdf --output new.csv --json new.csv".to_owned(),
        format!("decode events.mdf --output new.csv --json ../{folder}/new.csv"),
        format!("decode events.mdf {TABLES} --json boards.bin"),
        format!("decode events.mdf {TABLES} --json geometry.bin"),
        "inspect events.mdf --json events.mdf".to_owned(),
        "throughput events.mdf --duration 0 --json events.mdf".to_owned(),
        // A file behind standard input or output.
        format!("decode - {TABLES} --format csv --output events.mdf < events.mdf"),
        format!("decode - {TABLES} --json events.mdf < events.mdf"),
        format!("decode /dev/stdin {TABLES} --format csv --output events.mdf < events.mdf"),
        format!("decode events.mdf {TABLES} --format csv --output - >> events.mdf"),
        format!("decode . {TABLES} --json - >> events.mdf"),
        format!("decode @- {TABLES} --json list < list"),
        "convert - --output events.mdf < events.mdf".to_owned(),
        "inspect - --json events.mdf < events.mdf".to_owned(),
        "inspect - --event 0 --extract events.mdf < events.mdf".to_owned(),
    ];
    let files = [
        "events.mdf",
        "boards.bin",
        "geometry.bin",
        "1_0.bin",
        "list",
    ];
    refused(
        directory,
        &files,
        &lines.map(|line| format!("ut-decode {line}")),
    );
    // The name is made from the contents of the file.
    let before = read(directory, "1_0.bin");
    says(1, directory, "convert 1_0.bin --output .", "is an input");
    assert!(read(directory, "1_0.bin") == before);
}

#[test]
fn implicitly_read_files_are_not_overwritten() {
    let directory = &sample();
    fs::create_dir(directory.join("day")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("day/a.mdf")).unwrap();
    write(
        directory,
        "ut-decode.toml",
        b"boards = \"boards.bin\"\ngeometry = \"geometry.bin\"\n",
    );
    write(directory, "tune.sqlite", b"store");
    let files = [
        "day/a.mdf",
        "boards.bin",
        "geometry.bin",
        "ut-decode.toml",
        "tune.sqlite",
    ];
    let lines = [
        "decode events.mdf --json boards.bin",
        "report events.mdf --output geometry.bin",
        "inspect events.mdf --json ut-decode.toml",
        "decode events.mdf --json tune.sqlite",
        "generate --events 1 --format v4 -o .",
        "inspect day --json day/a.mdf",
        "inspect day --event 0 --extract day/a.mdf",
    ];
    let variables = "UT_DECODE_CONFIG=ut-decode.toml UT_DECODE_TUNE_DB=tune.sqlite";
    refused(
        directory,
        &files,
        &lines.map(|line| format!("{variables} ut-decode {line}")),
    );
    // More events of the same detector leave its tables as they are.
    let before = files.map(|name| read(directory, name));
    run_to(0, directory, "generate --events 6 -o .");
    assert!(files.map(|name| read(directory, name)) == before);
}

#[test]
fn results_in_a_folder_do_not_replace_inputs() {
    let directory = &sample();
    fs::create_dir(directory.join("new")).unwrap();
    fs::copy(
        directory.join("events.mdf"),
        directory.join("new/sweep.json"),
    )
    .unwrap();
    fs::copy(
        directory.join("boards.bin"),
        directory.join("new/sweep.html"),
    )
    .unwrap();
    fs::copy(
        directory.join("events.mdf"),
        directory.join("new/run-1.json"),
    )
    .unwrap();
    write(
        directory,
        "tables.toml",
        b"boards = \"new/sweep.html\"\ngeometry = \"geometry.bin\"\n",
    );
    let sweep = "-o new --backend emulated --axis cluster.block_x=32";
    let lines = [
        format!("sweep new/sweep.json {sweep}"),
        format!("sweep events.mdf {sweep} --config tables.toml"),
        "tune run new/run-1.json --report new".to_owned(),
    ];
    let lines = lines.map(|line| format!("UT_DECODE_TUNE_DB=tune.sqlite ut-decode {line}"));
    refused(
        directory,
        &["new/sweep.json", "new/sweep.html", "new/run-1.json"],
        &lines,
    );
    assert_eq!(
        tree(&directory.join("new")),
        ["run-1.json", "sweep.html", "sweep.json"]
    );
}

#[test]
fn a_json_path_that_cannot_be_written_is_noticed_before_the_work() {
    let directory = &sample();
    for json in ["absent/summary.json", "."] {
        let cannot = format!("cannot write {json}");
        says(
            1,
            directory,
            ("decode events.mdf --output hits.csv --json", json),
            &cannot,
        );
        assert!(!directory.join("hits.csv").exists());
    }
}

#[test]
fn beyond_the_limit_on_file_sizes_the_old_files_stay_and_the_message_names_the_new_one() {
    let directory = &sample();
    let files = ["boards.bin", "events.mdf", "geometry.bin"];
    let before = files.map(|name| read(directory, name));
    for (line, part) in [
        (
            "ulimit -f 8; ut-decode generate --events 9 --seed 2 --output .",
            "cannot write ./events.mdf",
        ),
        (
            "ulimit -f 1; ut-decode decode events.mdf --output hits.csv",
            "cannot write hits.csv",
        ),
    ] {
        let (_, err) = shell(1, directory, line);
        assert!(err.contains(part), "{err}");
    }
    assert!(files.map(|name| read(directory, name)) == before);
    assert_eq!(tree(directory), files);
}

/// Holds the tool in the middle of its work: the input is a named pipe that is open but never
/// written to. As soon as the temporary file is there, the tool gets SIGTERM, and must take the
/// file along.
#[test]
fn a_signal_ends_the_tool_without_a_half_written_file() {
    let directory = &sample();
    shell(0, directory, "mkfifo pipe");
    let mut tool = tool(directory, ("decode pipe --output hits.csv", TABLES))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Opening waits for the reader; kept open, the reader waits for events.
    let pipe = fs::OpenOptions::new()
        .write(true)
        .open(directory.join("pipe"))
        .unwrap();
    while !tree(directory).iter().any(|name| name.contains(".part")) {
        assert!(tool.try_wait().unwrap().is_none(), "the tool ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(
        Command::new("kill")
            .args(["-TERM", &tool.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert!(!tool.wait().unwrap().success());
    drop(pipe);
    assert_eq!(
        tree(directory),
        ["boards.bin", "events.mdf", "geometry.bin", "pipe"]
    );
}

/// Feeds inputs that announce more than they have. Zeros are a valid dump of no banks that is 8
/// bytes long, so a sparse file of 30 GiB must be refused because it goes on, and not be read to
/// its end. `many.bin` announces 2³² - 1 banks, whose table alone would have 16 GiB. The shell
/// allows the tool 1 GB of addresses, so that an attempt to hold either fails at once.
#[test]
fn any_number_of_zeros_is_not_a_dump() {
    let directory = &sample();
    File::create(directory.join("sparse.bin"))
        .unwrap()
        .set_len(30 << 30)
        .unwrap();
    let mut many = vec![0xff; 4];
    many.resize(64, 0);
    write(directory, "many.bin", &many);
    for (file, message) in [
        ("sparse.bin", "goes on"),
        ("/dev/zero", "goes on"),
        ("many.bin", "4294967295 banks"),
    ] {
        let decode = format!("ulimit -v 1000000; ut-decode decode {file} --threads 1 {TABLES}");
        let (_, err) = shell(1, directory, &decode);
        assert!(
            err.contains(file) && err.contains(message) && err.contains("not an Allen-layout dump"),
            "{err}"
        );
    }
}

#[test]
fn batches_that_exceed_the_memory_are_refused_with_the_size() {
    let directory = &sample();
    for (kilobytes, args, message) in [
        (6_000_000, "decode events.mdf --threads 1024", " GB"),
        (
            6_000_000,
            "throughput events.mdf --duration 0 --threads 1024",
            " GB",
        ),
        (
            4_000_000,
            "throughput events.mdf --duration 0 --threads 1 --events 200000",
            " GB",
        ),
        // Not enough for what the reference finds, for the synthetic events, and for a batch of any
        // size.
        (
            300_000,
            "throughput events.mdf --duration 0 --threads 2",
            "would take about",
        ),
        (60_000, "throughput --duration 0", "would take about"),
        (60_000, "tune run --budget 2", "would take about"),
        (200_000, "tune run --budget 2", "no memory for"),
    ] {
        let (_, err) = shell(
            1,
            directory,
            &format!("ulimit -v {kilobytes}; ut-decode {args}"),
        );
        assert!(
            err.contains(message) && !err.contains("memory allocation"),
            "{args}: {err}"
        );
        assert!(
            message != " GB" || err.contains("would take about"),
            "{args}: {err}"
        );
    }
}

/// Puts characters into a file name that a terminal obeys: an escape sequence that colours, a
/// carriage return that goes over the beginning of the line, 0x9b, which begins an escape sequence
/// by itself, and U+202E, from which on text runs from right to left. Whoever can name a file must
/// not be able to rewrite what the tool said about it.
#[test]
fn messages_name_the_file_once_and_cannot_act_on_a_terminal() {
    let directory = &sample();
    let name = "a\u{1b}[31m\r\u{9b}\u{202e}.mdf";
    write(directory, name, &event(&[bank(0, &ONE_HIT)])[..50]);
    for (args, shown) in [
        ("decode", "a\\u{1b}[31m\\r\\u{9b}\\u{202e}.mdf"),
        (
            "decode --quiet --json -",
            "a\\u001b[31m\\r\\u009b\\u202e.mdf",
        ),
        ("inspect", "a\\u{1b}[31m\\r\\u{9b}\\u{202e}.mdf"),
        // The option parser leaves out what begins with an escape.
        ("decode events.mdf --backend", "a\\r\\u{9b}\\u{202e}.mdf"),
    ] {
        let output = run(directory, (args, name));
        assert!(!output.status.success());
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(
            !text.contains(['\u{1b}', '\r', '\u{9b}', '\u{202e}']),
            "{args:?}"
        );
        assert!(text.contains(shown), "{args:?}");
    }
    write(directory, "zeros", &vec![0; 100_000]);
    let err = says(1, directory, "decode @zeros", " characters] ");
    assert!(err.len() < 20_000, "{} characters", err.len());
    for args in [
        "decode events.mdf --boards absent.bin --geometry geometry.bin",
        "decode absent.bin --boards boards.bin --geometry geometry.bin",
        "tune chain absent.bin",
    ] {
        let err = says(1, directory, args, "absent.bin");
        assert_eq!(err.matches("No such file").count(), 1, "{err}");
    }
    for command in ["decode", "inspect"] {
        let (_, err) = shell(
            1,
            directory,
            &format!("ut-decode {command} events.mdf >/dev/full"),
        );
        assert!(
            err.contains("standard output") && err.contains("No space left"),
            "{command}: {err}"
        );
    }
}

#[test]
fn a_closed_standard_error_changes_nothing() {
    let directory = &sample();
    let (out, _) = shell(
        0,
        directory,
        "ut-decode decode events.mdf --backend auto 2>&-",
    );
    assert!(out.contains("events                5"), "{out}");
    shell(1, directory, "ut-decode decode absent.mdf 2>&-");
}

#[test]
fn a_closed_output_pipe_ends_the_job_silently_and_a_full_disk_gives_the_systems_message() {
    let directory = &large();
    for format in ["csv", "parquet"] {
        let decode = format!("ut-decode decode events.mdf --batch 4 --format {format} --output");
        let (_, err) = shell(
            0,
            directory,
            &format!("{decode} - | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"),
        );
        assert_eq!(err, "", "{format}");
        let (_, err) = shell(1, directory, &format!("{decode} /dev/full"));
        assert_eq!(
            err,
            "error: cannot write /dev/full\n  because: No space left on device (os error 28)\n"
        );
        let (_, err) = shell(1, directory, &format!("{decode} - >/dev/full"));
        let error = err.lines().find(|line| line.contains("error"));
        assert_eq!(
            error,
            Some("error: cannot write to standard output"),
            "{err}"
        );
    }
    let decode = "ut-decode decode events.mdf --output - --format csv --json summary.json";
    shell(
        1,
        directory,
        &format!("{decode} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"),
    );
    let summary: Value = serde_json::from_slice(&read(directory, "summary.json")).unwrap();
    assert_eq!(summary["complete"], false);
}

#[test]
fn a_closed_output_pipe_hides_no_unreadable_file() {
    let directory = &large();
    first_event(directory, "one.mdf", 0);
    write(directory, "text.mdf", b"this is text, not raw data");
    // The hits of many events are written at once; the hits of one event stay in the buffer to the
    // end.
    for file in ["events.mdf", "one.mdf"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let args = (
            "decode --keep-going text.mdf",
            file,
            "--format csv --output -",
            TABLES,
        );
        let (_, err) = end(1, tool(directory, args).stdout(writer));
        assert!(
            err.contains("error: text.mdf") && !err.contains("Broken pipe"),
            "{file}: {err}"
        );
    }
}

#[test]
fn a_file_behind_standard_output_goes_on_where_the_shell_left_it() {
    let directory = &sample();
    let decode = format!("ut-decode decode events.mdf {TABLES}");
    run_to(
        0,
        directory,
        ("decode events.mdf --output hits.csv", TABLES),
    );
    let hits = String::from_utf8(read(directory, "hits.csv")).unwrap();
    symlink("/dev/stdout", directory.join("link.csv")).unwrap();
    symlink("link.csv", directory.join("second.csv")).unwrap();
    for output in ["-", "/dev/stdout", "/dev/fd/1", "link.csv", "second.csv"] {
        for (redirect, kept) in [(">>", "precious\n"), (">", "")] {
            write(directory, "all.csv", b"precious\n");
            let decode = format!("{decode} --format csv --output {output}");
            let (_, err) = shell(
                0,
                directory,
                &format!("{{ echo before; {decode}; echo after; }} {redirect} all.csv"),
            );
            assert!(
                err.contains("clusters (hits)"),
                "the summary is elsewhere: {output}: {err}"
            );
            let all = String::from_utf8(read(directory, "all.csv")).unwrap();
            assert!(
                all == format!("{kept}before\n{hits}after\n"),
                "{output} {redirect}: {}",
                &all[..40]
            );
        }
    }
    for line in [
        format!("{decode} --format csv --output /dev/fd/7 7>> all.csv"),
        format!("{decode} --format csv --output /dev/stderr 2>> all.csv"),
        format!("{decode} --json /dev/fd/7 7>> all.csv"),
        "ut-decode inspect events.mdf --event 0 --extract /dev/fd/7 7>> all.csv".to_owned(),
    ] {
        write(directory, "all.csv", b"precious\n");
        shell(0, directory, &line);
        let all = read(directory, "all.csv");
        assert!(all.starts_with(b"precious\n") && all.len() > 100, "{line}");
    }
    assert!(tree(directory).iter().all(|name| !name.contains(".part")));
}

#[test]
fn a_broken_input_is_reported_even_if_the_pipe_after_it_has_no_writer() {
    let directory = &sample();
    let mdf = read(directory, "events.mdf");
    write(directory, "bad.mdf", &mdf[..mdf.len() - 3]);
    for threads in [1, 3] {
        let decode = format!("decode bad.mdf fifo {TABLES} --threads {threads} --output hits.csv");
        // A tool that hangs is ended, with status 124.
        let line =
            format!("mkfifo fifo; timeout 60 ut-decode {decode}; code=$?; rm fifo; exit $code");
        let (_, err) = shell(1, directory, &line);
        assert!(err.contains("error: bad.mdf"), "{err}");
        assert!(tree(directory).iter().all(|name| !name.contains(".part")));
        fs::remove_file(directory.join("hits.csv")).unwrap();
    }
}

#[test]
fn a_failing_output_is_reported_before_the_input_ends() {
    let directory = &large();
    for (output, code) in [
        ("/dev/full", 1),
        ("- | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}", 0),
    ] {
        let decode = format!("decode fifo {TABLES} --batch 4 --format csv --output {output}");
        // Descriptor 5 keeps the pipe open after the events.
        let feed = "mkfifo fifo; exec 5<>fifo; cat events.mdf >&5 & feeder=$!";
        let end = "code=$?; kill $feeder 2>/dev/null; rm fifo; exit $code";
        let (_, err) = shell(
            code,
            directory,
            &format!("{feed}; ( exec 5>&-; timeout 60 ut-decode {decode} ); {end}"),
        );
        assert_eq!(
            err.contains("error: cannot write /dev/full\n  because: No space left"),
            code == 1,
            "{err}"
        );
    }
}

#[test]
fn a_failure_at_the_end_hides_no_earlier_trouble_summary_or_written_file() {
    let directory = &sample();
    // The hits of one event stay in the buffer to the end.
    first_event(directory, "bad.mdf", 50);
    let generated = EventHeader {
        trigger_mask: GENERATED_MASK,
        ..EventHeader::default()
    };
    write(directory, "a.mdf", &event_with(generated, &[]));
    let decode = |args: &str, parts: &[&str]| -> Value {
        let line = format!("ulimit -f 8; ut-decode decode {args} {TABLES} --json -");
        let (out, err) = shell(1, directory, &line);
        assert!(parts.iter().all(|part| err.contains(part)), "{err}");
        serde_json::from_str(&out).unwrap()
    };
    let summary = decode(
        "bad.mdf --output hits.csv",
        &["error: bad.mdf", "error: cannot write hits.csv"],
    );
    assert_eq!(
        (
            &summary["events"],
            &summary["complete"],
            &summary["outputs"]
        ),
        (&json!(1), &json!(false), &json!([]))
    );
    assert!(
        summary["error"].as_str().unwrap().contains("bad.mdf"),
        "{summary}"
    );
    assert!(!directory.join("hits.csv").exists());
    let summary = decode(
        "a.mdf events.mdf --output new --format csv",
        &["error: cannot write new/events.csv"],
    );
    assert_eq!(
        (&summary["complete"], &summary["outputs"]),
        (&json!(false), &json!(["new/a.csv"]))
    );
    assert_eq!(tree(&directory.join("new")), ["a.csv"]);
}
