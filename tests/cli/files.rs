//! Files when things go wrong: written whole or not at all, never over an input, and reported with a name.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{ONE_HIT, TABLES, bank, event, read, run, run_to, sample, shell, write};

/// The names of the files in `directory`, sorted.
fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Runs lines of shell in which `TOOL` is the tool: each would overwrite something, is refused, and touches none of the files.
fn refused(directory: &Path, files: &[&str], lines: &[String]) {
    let contents = || files.iter().map(|name| read(directory, name)).collect::<Vec<_>>();
    let (before, there) = (contents(), names(directory));
    for line in lines {
        let (code, _, err) = shell(directory, &line.replace("TOOL", "\"$TOOL\""));
        assert_eq!(code, Some(2), "{line}: {err}");
        assert!(err.contains("overwrite") || err.contains("are the same file"), "{line}: {err}");
        assert!(contents() == before && names(directory) == there, "{line}");
    }
}

#[test]
fn an_output_that_is_an_input_a_table_or_another_output_is_refused_and_nothing_is_touched() {
    let directory = &sample();
    fs::hard_link(directory.join("events.mdf"), directory.join("same.csv")).unwrap();
    symlink("events.mdf", directory.join("link.csv")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("1_0.bin")).unwrap();
    write(directory, "list", b"events.mdf\n");
    let (folder, tables) = (directory.file_name().unwrap().to_str().unwrap(), TABLES.join(" "));
    let files = ["events.mdf", "boards.bin", "geometry.bin", "1_0.bin", "list"];
    let lines = [
        "TOOL decode events.mdf --json events.mdf".to_owned(),
        "TOOL decode events.mdf --json ./events.mdf".to_owned(),
        "TOOL decode events.mdf --output same.csv".to_owned(),
        "TOOL decode events.mdf --output link.csv".to_owned(),
        "TOOL decode events.mdf --output new.csv --json new.csv".to_owned(),
        format!("TOOL decode events.mdf --output new.csv --json ../{folder}/new.csv"),
        format!("TOOL decode events.mdf {tables} --json boards.bin"),
        format!("TOOL decode events.mdf {tables} --json geometry.bin"),
        "TOOL inspect events.mdf --json events.mdf".to_owned(),
        "TOOL throughput events.mdf --duration 0 --json events.mdf".to_owned(),
        // A file behind standard input or output.
        format!("TOOL decode - {tables} --format csv --output events.mdf < events.mdf"),
        format!("TOOL decode - {tables} --json events.mdf < events.mdf"),
        format!("TOOL decode /dev/stdin {tables} --format csv --output events.mdf < events.mdf"),
        format!("TOOL decode events.mdf {tables} --format csv --output - >> events.mdf"),
        format!("TOOL decode . {tables} --json - >> events.mdf"),
        format!("TOOL decode @- {tables} --json list < list"),
        "TOOL convert - --output events.mdf < events.mdf".to_owned(),
        "TOOL inspect - --json events.mdf < events.mdf".to_owned(),
        "TOOL inspect - --event 0 --extract events.mdf < events.mdf".to_owned(),
    ];
    refused(directory, &files, &lines);
    // The name is made from what is in the file.
    let before = read(directory, "1_0.bin");
    let (_, err) = run_to(1, directory, &["convert", "1_0.bin", "--output", "."]);
    assert!(err.contains("is an input") && read(directory, "1_0.bin") == before, "{err}");
}

#[test]
fn what_is_read_without_being_named_is_not_written_over() {
    let directory = &sample();
    fs::create_dir(directory.join("day")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("day/a.mdf")).unwrap();
    write(directory, "ut-decode.toml", b"boards = \"boards.bin\"\ngeometry = \"geometry.bin\"\n");
    write(directory, "tune.sqlite", b"store");
    let files = ["day/a.mdf", "boards.bin", "geometry.bin", "ut-decode.toml", "tune.sqlite"];
    let variables = "UT_DECODE_CONFIG=ut-decode.toml UT_DECODE_TUNE_DB=tune.sqlite TOOL";
    let lines = [
        "decode events.mdf --json boards.bin",
        "report events.mdf --output geometry.bin",
        "inspect events.mdf --json ut-decode.toml",
        "decode events.mdf --json tune.sqlite",
        "tune store export --output tune.sqlite",
        "generate --events 1 --format v4 -o .",
        "inspect day --json day/a.mdf",
        "inspect 'day/*' --event 0 --extract day/a.mdf",
    ];
    refused(directory, &files, &lines.map(|line| format!("{variables} {line}")));
    // More events of the same detector leave its tables as they are.
    let before = files.map(|name| read(directory, name));
    run_to(0, directory, &["generate", "--events", "6", "-o", "."]);
    assert!(files.map(|name| read(directory, name)) == before);
}

#[test]
fn results_in_a_folder_are_not_written_over_what_is_read() {
    let directory = &sample();
    fs::create_dir(directory.join("new")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("new/sweep.csv")).unwrap();
    fs::copy(directory.join("boards.bin"), directory.join("new/sweep.html")).unwrap();
    write(directory, "new/run-1.json", b"[parameters]\nx = [1]\n");
    write(directory, "tables.toml", b"boards = \"new/sweep.html\"\ngeometry = \"geometry.bin\"\n");
    let sweep = "-o new --backend emulated --axis cluster.block_x=32 --events 1";
    let lines = [
        format!("sweep new/sweep.csv {sweep}"),
        format!("sweep events.mdf {sweep} --config tables.toml"),
        "tune run --space new/run-1.json --command true --report new".to_owned(),
        "tune run --backend replay:new/run-1.json#1 --report new".to_owned(),
    ];
    let lines = lines.map(|line| format!("UT_DECODE_TUNE_DB=tune.sqlite TOOL {line}"));
    refused(directory, &["new/sweep.csv", "new/sweep.html", "new/run-1.json"], &lines);
    assert_eq!(names(&directory.join("new")), ["run-1.json", "sweep.csv", "sweep.html"]);
}

#[test]
fn what_lies_at_a_name_that_once_was_temporary_is_not_touched() {
    let directory = &sample();
    write(directory, "precious", b"precious");
    for name in ["hits.csv.part", "summary.json.part"] {
        symlink("precious", directory.join(name)).unwrap();
    }
    run_to(0, directory, &["decode", "events.mdf", "--output", "hits.csv", "--json", "summary.json"]);
    assert_eq!(read(directory, "precious"), b"precious");
    assert!(names(directory).iter().any(|name| name == "hits.csv"));
}

#[test]
fn a_json_path_that_cannot_be_written_is_noticed_before_the_work() {
    let directory = &sample();
    for json in ["absent/summary.json", "."] {
        let (_, err) = run_to(1, directory, &["decode", "events.mdf", "--output", "hits.csv", "--json", json]);
        assert!(err.contains(&format!("cannot write {json}")), "{err}");
        assert!(!directory.join("hits.csv").exists());
    }
}

#[test]
fn beyond_the_limit_on_file_sizes_the_old_files_stay_and_the_message_names_the_new_one() {
    let directory = &sample();
    let files = ["boards.bin", "events.mdf", "geometry.bin"];
    let before = files.map(|name| read(directory, name));
    let (code, _, err) = shell(directory, "ulimit -f 8; \"$TOOL\" generate --events 9 --seed 2 --output .");
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("cannot write ./boards.bin"), "{err}");
    let (code, _, err) = shell(directory, "ulimit -f 1; \"$TOOL\" decode events.mdf --output hits.csv");
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("cannot write hits.csv"), "{err}");
    assert!(files.map(|name| read(directory, name)) == before);
    assert_eq!(names(directory), files);
}

#[test]
fn a_signal_ends_the_tool_without_a_half_written_file() {
    let directory = &sample();
    let made = Command::new("mkfifo").arg(directory.join("pipe")).status().unwrap();
    assert!(made.success());
    let mut tool = Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"))
        .args(["decode", "pipe", "--output", "hits.csv"])
        .args(TABLES)
        .current_dir(directory)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Opening waits for the reader; kept open, the reader waits for events.
    let pipe = fs::OpenOptions::new().write(true).open(directory.join("pipe")).unwrap();
    while !names(directory).iter().any(|name| name.contains(".part")) {
        assert!(tool.try_wait().unwrap().is_none(), "the tool ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-TERM", &tool.id().to_string()]).status().unwrap().success());
    let status = tool.wait().unwrap();
    assert!(!status.success());
    drop(pipe);
    assert_eq!(names(directory), ["boards.bin", "events.mdf", "geometry.bin", "pipe"]);
}

#[test]
fn a_command_that_is_stopped_at_a_pipe_is_not_beyond_its_end() {
    let directory = &sample();
    let one = u32::from_le_bytes(*read(directory, "events.mdf").first_chunk().unwrap()) as usize;
    write(directory, "one.mdf", &read(directory, "events.mdf")[..one]);
    // Descriptor 5 keeps the pipe open behind five events, where one is all that files are known to have.
    let line = "mkfifo fifo; exec 5<>fifo; cat events.mdf >fifo 5>&- & \"$TOOL\" inspect fifo one.mdf 5>&- & \
                sleep 1; kill -TERM $!; wait $!";
    let (_, _, err) = shell(directory, line);
    let share = err.split_once("stopped at ").and_then(|(_, rest)| rest.split_once(" %"));
    assert!(err.contains("stopped") && share.is_none_or(|(share, _)| share.parse::<u32>().unwrap() <= 100), "{err}");
}

#[test]
fn zeros_are_no_dump_whatever_their_number() {
    let directory = &sample();
    File::create(directory.join("sparse.bin")).unwrap().set_len(30 << 30).unwrap();
    let mut many = vec![0xff; 4];
    many.resize(64, 0);
    write(directory, "many.bin", &many);
    for (file, message) in [("sparse.bin", "goes on"), ("/dev/zero", "goes on"), ("many.bin", "4294967295 banks")] {
        let tables = TABLES.join(" ");
        let line = format!("ulimit -v 1000000; \"$TOOL\" decode {file} --threads 1 {tables}");
        let (code, _, err) = shell(directory, &line);
        assert_eq!(code, Some(1), "{file}: {err}");
        assert!(err.contains(file) && err.contains(message) && err.contains("not an Allen-layout dump"), "{err}");
    }
}

#[test]
fn what_does_not_fit_into_memory_is_refused_with_the_figure() {
    let directory = &sample();
    for line in [
        "ulimit -v 6000000; \"$TOOL\" decode events.mdf --threads 1024",
        "ulimit -v 6000000; \"$TOOL\" throughput events.mdf --duration 0 --threads 1024",
        "ulimit -v 4000000; \"$TOOL\" throughput events.mdf --duration 0 --threads 1 --events 200000",
    ] {
        let (code, _, err) = shell(directory, line);
        assert_eq!(code, Some(1), "{line}: {err}");
        assert!(err.contains("would take about") && err.contains(" GB"), "{line}: {err}");
    }
    // Not enough for what the reference finds, for the synthetic events, and for a batch of any size.
    for (line, message) in [
        ("ulimit -v 300000; \"$TOOL\" throughput events.mdf --duration 0 --threads 2", "would take about"),
        ("ulimit -v 60000; \"$TOOL\" throughput --duration 0", "would take about"),
        ("ulimit -v 60000; \"$TOOL\" tune run --budget 2 --tune-db tune.sqlite", "would take about"),
        ("ulimit -v 200000; \"$TOOL\" tune run --budget 2 --tune-db tune.sqlite", "no memory for"),
    ] {
        let (code, _, err) = shell(directory, line);
        assert_eq!(code, Some(1), "{line}: {err}");
        assert!(err.contains(message) && !err.contains("memory allocation"), "{line}: {err}");
    }
}

#[test]
fn messages_name_the_file_once_and_cannot_act_on_a_terminal() {
    let directory = &sample();
    let name = "a\u{1b}[31m\r.mdf";
    write(directory, name, &event(&[bank(0, &ONE_HIT)])[..50]);
    for (args, shown) in [
        (&["decode", name][..], "a\\u{1b}[31m\\r.mdf"),
        (&["inspect", name], "a\\u{1b}[31m\\r.mdf"),
        // The option parser leaves out what begins with an escape.
        (&["decode", "events.mdf", "--backend", name], "a\\r.mdf"),
    ] {
        let output = run(directory, args);
        assert!(!output.status.success());
        let text = [output.stdout, output.stderr].concat();
        assert!(!text.contains(&0x1b) && !text.contains(&b'\r'), "{args:?}");
        assert!(String::from_utf8(text).unwrap().contains(shown), "{args:?}");
    }
    write(directory, "zeros", &vec![0; 100_000]);
    let (_, err) = run_to(1, directory, &["decode", "@zeros"]);
    assert!(err.len() < 20_000 && err.contains(" characters] "), "{} characters", err.len());
    for args in [
        &["decode", "events.mdf", "--boards", "absent.bin", "--geometry", "geometry.bin"][..],
        &["decode", "absent.bin", "--boards", "boards.bin", "--geometry", "geometry.bin"],
        &["tune", "groups", "absent.bin"],
    ] {
        let (_, err) = run_to(1, directory, args);
        assert_eq!(err.matches("No such file").count(), 1, "{err}");
        assert!(err.contains("absent.bin"), "{err}");
    }
    for command in ["decode events.mdf", "inspect events.mdf"] {
        let (code, _, err) = shell(directory, &format!("\"$TOOL\" {command} >/dev/full"));
        assert_eq!(code, Some(1), "{command}");
        assert!(err.contains("standard output") && err.contains("No space left"), "{command}: {err}");
    }
}

#[test]
fn a_closed_standard_error_changes_nothing() {
    let directory = &sample();
    let (code, out, _) = shell(directory, "\"$TOOL\" decode events.mdf --backend auto 2>&-");
    assert_eq!(code, Some(0));
    assert!(out.contains("events                5"), "{out}");
    let (code, _, _) = shell(directory, "\"$TOOL\" decode absent.mdf 2>&-");
    assert_eq!(code, Some(1));
}

#[test]
fn a_reader_that_leaves_ends_the_job_without_a_word_and_a_full_disk_is_told_as_the_system_tells_it() {
    let directory = &sample();
    // More than a pipe holds.
    run_to(0, directory, &["generate", "--events", "40", "--output", "."]);
    for format in ["csv", "parquet"] {
        let decode = format!("\"$TOOL\" decode events.mdf --batch 4 --format {format} --output");
        let (_, codes, err) = shell(directory, &format!("{decode} - | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"));
        assert_eq!((codes.trim(), err.as_str()), ("0", ""), "{format}");
        let (code, _, err) = shell(directory, &format!("{decode} /dev/full"));
        assert_eq!(code, Some(1), "{format}");
        assert_eq!(err, "error: cannot write /dev/full\n  because: No space left on device (os error 28)\n");
        let (_, _, err) = shell(directory, &format!("{decode} - >/dev/full"));
        assert_eq!(
            err.lines().find(|line| line.contains("error")),
            Some("error: cannot write to standard output"),
            "{err}"
        );
    }
    let summary = "--json summary.json | head -c 1 >/dev/null; echo ${PIPESTATUS[0]}";
    let (_, code, _) = shell(directory, &format!("\"$TOOL\" decode events.mdf --output - --format csv {summary}"));
    let json: serde_json::Value = serde_json::from_slice(&read(directory, "summary.json")).unwrap();
    assert_eq!((code.trim(), &json["complete"]), ("1", &false.into()));
}

#[test]
fn a_reader_that_leaves_hides_no_file_that_could_not_be_read() {
    let directory = &sample();
    run_to(0, directory, &["generate", "--events", "40", "--output", "."]);
    let mdf = read(directory, "events.mdf");
    let one = u32::from_le_bytes(*mdf.first_chunk().unwrap()) as usize;
    write(directory, "one.mdf", &mdf[..one]);
    write(directory, "text.mdf", b"this is text, not raw data");
    // Hits of many events are written at once; those of one stay in the buffer to the end.
    for file in ["events.mdf", "one.mdf"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut tool = Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"));
        tool.current_dir(directory).env("UT_DECODE_CONFIG", "").stdout(writer);
        tool.args(["decode", "--keep-going", "text.mdf", file, "--format", "csv", "--output", "-"]).args(TABLES);
        let output = tool.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{file}: {err}");
        assert!(err.contains("error: text.mdf") && !err.contains("Broken pipe"), "{file}: {err}");
    }
}

#[test]
fn a_file_behind_standard_output_goes_on_where_the_shell_left_it() {
    let directory = &sample();
    let tables = TABLES.join(" ");
    let decode = format!("\"$TOOL\" decode events.mdf {tables} --format csv --output");
    run_to(0, directory, &[&["decode", "events.mdf", "--output", "hits.csv"][..], &TABLES].concat());
    let hits = String::from_utf8(read(directory, "hits.csv")).unwrap();
    symlink("/dev/stdout", directory.join("link.csv")).unwrap();
    symlink("link.csv", directory.join("second.csv")).unwrap();
    for output in ["-", "/dev/stdout", "/dev/fd/1", "link.csv", "second.csv"] {
        for redirect in [">>", ">"] {
            write(directory, "all.csv", b"precious\n");
            let line = format!("{{ echo before; {decode} {output}; echo after; }} {redirect} all.csv");
            let (code, _, err) = shell(directory, &line);
            assert!(code == Some(0) && err.contains("clusters (hits)"), "the summary is elsewhere: {line}: {err}");
            let kept = if redirect == ">>" { "precious\n" } else { "" };
            let all = String::from_utf8(read(directory, "all.csv")).unwrap();
            assert!(all == format!("{kept}before\n{hits}after\n"), "{line}: {}", &all[..40]);
        }
    }
    for line in [
        format!("{decode} /dev/fd/7 7>> all.csv"),
        format!("{decode} /dev/stderr 2>> all.csv"),
        format!("\"$TOOL\" decode events.mdf {tables} --json /dev/fd/7 7>> all.csv"),
        "\"$TOOL\" inspect events.mdf --event 0 --extract /dev/fd/7 7>> all.csv".to_owned(),
    ] {
        write(directory, "all.csv", b"precious\n");
        let (code, _, err) = shell(directory, &line);
        assert_eq!(code, Some(0), "{line}: {err}");
        let all = read(directory, "all.csv");
        assert!(all.starts_with(b"precious\n") && all.len() > 100, "{line}");
    }
    assert!(names(directory).iter().all(|name| !name.contains(".part")));
}

#[test]
fn a_broken_input_is_told_although_nobody_writes_into_the_pipe_after_it() {
    let directory = &sample();
    let mdf = read(directory, "events.mdf");
    write(directory, "bad.mdf", &mdf[..mdf.len() - 3]);
    let tables = TABLES.join(" ");
    for threads in [1, 3] {
        let decode = format!("decode bad.mdf fifo {tables} --threads {threads} --output hits.csv");
        // Who hangs is ended, with status 124.
        let line = format!("mkfifo fifo; timeout 60 \"$TOOL\" {decode}; code=$?; rm fifo; exit $code");
        let (code, _, err) = shell(directory, &line);
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("error: bad.mdf"), "{err}");
        assert!(names(directory).iter().all(|name| !name.contains(".part")));
        fs::remove_file(directory.join("hits.csv")).unwrap();
    }
}

#[test]
fn an_output_that_fails_is_told_although_more_may_come_of_the_input() {
    let directory = &sample();
    run_to(0, directory, &["generate", "--events", "40", "--output", "."]);
    let tables = TABLES.join(" ");
    for (output, expected) in [("/dev/full", 1), ("- | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}", 0)] {
        let decode = format!("decode fifo {tables} --batch 4 --format csv --output {output}");
        // Descriptor 5 keeps the pipe open behind the events.
        let feed = "mkfifo fifo; exec 5<>fifo; cat events.mdf >&5 & feeder=$!";
        let end = "code=$?; kill $feeder 2>/dev/null; rm fifo; exit $code";
        let line = format!("{feed}; ( exec 5>&-; timeout 60 \"$TOOL\" {decode} ); {end}");
        let (code, _, err) = shell(directory, &line);
        assert_eq!(code, Some(expected), "{output}: {err}");
        assert_eq!(err.contains("error: cannot write /dev/full\n  because: No space left"), expected == 1, "{err}");
    }
}

#[test]
fn a_failure_at_the_end_hides_neither_what_was_wrong_with_the_input_nor_the_summary() {
    let directory = &sample();
    let mdf = read(directory, "events.mdf");
    // The hits of one event stay in the buffer to the end.
    let one = u32::from_le_bytes(*mdf.first_chunk().unwrap()) as usize;
    write(directory, "bad.mdf", &mdf[..one + 50]);
    let decode = format!("decode bad.mdf {} --output hits.csv --json -", TABLES.join(" "));
    let (code, out, err) = shell(directory, &format!("ulimit -f 8; \"$TOOL\" {decode}"));
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("error: bad.mdf") && err.contains("error: cannot write hits.csv"), "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json["events"], &json["complete"], &json["outputs"]),
        (&1.into(), &false.into(), &serde_json::json!([]))
    );
    assert!(json["error"].as_str().unwrap().contains("bad.mdf"), "{json}");
    assert!(!directory.join("hits.csv").exists());
}

#[test]
fn files_that_were_written_before_a_failure_are_listed() {
    let directory = &sample();
    write(directory, "a.mdf", b"");
    let decode = format!("decode a.mdf events.mdf {} --output new --format csv --json -", TABLES.join(" "));
    let (code, out, err) = shell(directory, &format!("ulimit -f 8; \"$TOOL\" {decode}"));
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("error: cannot write new/events.csv"), "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&json["complete"], &json["outputs"]), (&false.into(), &serde_json::json!(["new/a.csv"])));
    assert_eq!(names(&directory.join("new")), ["a.csv"]);
}
