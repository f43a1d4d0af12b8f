//! `ut-decode serve`: files in, hits out, whatever happens to the server.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use crate::support::{ONE_HIT, bank, event, json_of, run_to, sample};

/// Starts a server on `in` and `out` of `directory`. What it says goes to `said.txt`.
fn start(directory: &Path, options: &[&str]) -> Child {
    let mut tool = Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"));
    tool.current_dir(directory).env("UT_DECODE_CONFIG", "").args(["serve", "--watch", "in", "--output", "out"]);
    tool.args(["--settle", "0.2"]).args(options).args(DECODE);
    let said = fs::File::create(directory.join("said.txt")).unwrap();
    tool.stdout(Stdio::null()).stderr(said).spawn().unwrap()
}

/// What the server that was started last has said.
fn said(directory: &Path) -> String {
    fs::read_to_string(directory.join("said.txt")).unwrap()
}

/// The server that ends when all is done, which must end with `code`; what it said.
#[track_caller]
fn once(code: i32, directory: &Path, options: &[&str]) -> String {
    let serve = ["serve", "--watch", "in", "--output", "out", "--settle", "0", "--once"];
    run_to(code, directory, &[&serve, options, &DECODE].concat()).1
}

/// The tables of [`sample`], beside the watched folder.
const DECODE: [&str; 5] = ["--", "--boards", "boards.bin", "--geometry", "geometry.bin"];

/// Files below `folder` by name, those of servers left out.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(inside) = folders.pop() {
        for path in fs::read_dir(inside).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with(".serve") {
                folders.push(path);
            } else if path.is_file() {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

/// Puts `n` files of one event each, a truncated one and one that is not MDF into `in`; names of the good ones.
fn feed(directory: &Path, n: usize) -> Vec<String> {
    let events = fs::read(directory.join("events.mdf")).unwrap();
    let size = u32::from_le_bytes(events[..4].try_into().unwrap()) as usize;
    fs::create_dir_all(directory.join("in/night")).unwrap();
    let put = |name: &str, bytes: &[u8]| {
        // As a careful writer does.
        let hidden = directory.join("in/.writing");
        fs::write(&hidden, bytes).unwrap();
        fs::rename(hidden, directory.join("in").join(name)).unwrap();
    };
    let names: Vec<String> = (0..n).map(|i| format!("{}{i}.mdf", if i % 3 == 0 { "night/" } else { "" })).collect();
    for name in &names {
        put(name, &events[..size]);
    }
    put("cut.mdf", &events[..size + 100]);
    put("night/text.mdf", b"this is text, not raw data");
    names
}

/// Waits until `done`, or fails.
#[track_caller]
fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_mins(2), "{what} did not happen");
        sleep(Duration::from_millis(20));
    }
}

/// The lines of the journal.
fn journal(directory: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(directory.join("out/.serve/journal.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn status(directory: &Path) -> serde_json::Value {
    json_of(0, directory, &["serve", "--output", "out", "--status"]).0
}

#[test]
fn good_files_become_hits_and_bad_ones_are_listed_and_cost_only_themselves() {
    let directory = sample();
    let directory = directory.path();
    let names = feed(directory, 4);
    let said = once(1, directory, &["--by-run", "--metrics", "state.prom", "--format", "csv"]);
    assert!(said.contains("cut.mdf") && said.contains("night/text.mdf"), "{said}");
    let written = files(&directory.join("out"));
    let mut expected: Vec<String> = names.iter().map(|name| format!("run=1/{name}.csv")).collect();
    expected.push("incomplete/run=1/cut.mdf.csv".to_owned());
    expected.sort();
    assert_eq!(written.keys().cloned().collect::<Vec<_>>(), expected);
    run_to(0, directory, &[&["decode", "in/1.mdf", "-o", "plain.csv"], &DECODE[1..]].concat());
    assert_eq!(written["run=1/1.mdf.csv"], fs::read(directory.join("plain.csv")).unwrap());

    let state = status(directory);
    assert_eq!(
        (&state["alive"], &state["sums"]["done"], &state["sums"]["failed"]),
        (&false.into(), &4.into(), &2.into())
    );
    assert_eq!(state["sums"]["events"], 5);
    let failed: Vec<_> =
        state["failures"].as_array().unwrap().iter().map(|entry| entry["file"].as_str().unwrap()).collect();
    assert_eq!(failed.len(), 2);
    let reason = |file: &str| {
        let entry = state["failures"].as_array().unwrap().iter().find(|entry| entry["file"] == file).unwrap();
        entry["reason"].as_str().unwrap().to_owned()
    };
    assert!(
        reason("cut.mdf").starts_with("in/cut.mdf") && !reason("cut.mdf").contains("warning"),
        "{}",
        reason("cut.mdf")
    );
    let metrics = fs::read_to_string(directory.join("state.prom")).unwrap();
    assert!(
        metrics.contains("ut_decode_files_done_total 4\n") && metrics.contains("ut_decode_events_total 5\n"),
        "{metrics}"
    );
    let (screen, _) = run_to(0, directory, &["serve", "--output", "out", "--status"]);
    assert!(screen.contains("not running") && screen.contains("cut.mdf"), "{screen}");

    // What is done stays done; what failed is tried again when asked for; what changed is decoded again.
    let before = files(&directory.join("out"));
    once(0, directory, &["--by-run", "--format", "csv"]);
    once(1, directory, &["--by-run", "--format", "csv", "--retry-failed"]);
    assert_eq!(files(&directory.join("out")), before);
    assert_eq!(status(directory)["sums"]["failed"], 4);
    fs::copy(directory.join("events.mdf"), directory.join("in/cut.mdf")).unwrap();
    once(0, directory, &["--by-run", "--format", "csv"]);
    assert!(files(&directory.join("out")).contains_key("run=1/cut.mdf.csv"));
}

#[test]
fn a_name_with_a_line_end_is_shown_in_one_line() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    fs::write(directory.join("in/a\nerror: b.mdf"), "x").unwrap();
    let said = once(1, directory, &[]);
    assert!(said.contains("warning: a\\nerror: b.mdf: "), "{said}");
    let (screen, _) = run_to(0, directory, &["serve", "--output", "out", "--status"]);
    assert!(screen.contains("a\\nerror: b.mdf: "), "{screen}");
}

#[test]
fn a_server_that_is_killed_again_and_again_ends_with_the_outputs_of_one_that_is_not() {
    let directory = sample();
    let directory = directory.path();
    let names = feed(directory, 60);
    once(1, directory, &[]);
    let clean = files(&directory.join("out"));
    assert_eq!(clean.len(), names.len() + 1);
    fs::remove_dir_all(directory.join("out")).unwrap();
    for kill in 0..12 {
        let mut server = start(directory, &["--jobs", "3"]);
        // Earlier and later, in the middle of anything.
        sleep(Duration::from_millis(30 + kill * 37));
        server.kill().unwrap();
        server.wait().unwrap();
        for (name, bytes) in
            if directory.join("out").exists() { files(&directory.join("out")) } else { BTreeMap::new() }
        {
            assert!(clean[&name] == bytes, "{name} is not whole after kill {kill}");
        }
    }
    once(1, directory, &[]);
    assert!(files(&directory.join("out")) == clean);
    let state = status(directory);
    assert_eq!((&state["sums"]["done"], &state["sums"]["failed"]), (&60.into(), &2.into()));
    // Nothing is left of the work.
    let own: Vec<PathBuf> =
        fs::read_dir(directory.join("out/.serve")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(own.iter().all(|path| !path.to_str().unwrap().contains("work-")), "{own:?}");
}

#[test]
fn a_running_server_takes_files_as_they_come_waits_for_growing_ones_and_ends_on_sigterm() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    let mut server = start(directory, &[]);
    wait_until("the start", || directory.join("out/.serve/state.json").exists());
    let events = fs::read(directory.join("events.mdf")).unwrap();
    let path = directory.join("in/growing.mdf");
    for part in 1..=4 {
        fs::write(&path, &events[..events.len() * part / 4]).unwrap();
        sleep(Duration::from_millis(60));
    }
    let out = directory.join("out/growing.mdf.parquet");
    wait_until("the output", || out.exists());
    // Another server is refused while this one lives.
    let refused = once(1, directory, &[]);
    assert!(refused.contains("another server"), "{refused}");
    wait_until("the entry", || status(directory)["sums"]["done"] == 1);
    assert_eq!(status(directory)["alive"], true);
    assert_eq!(status(directory)["sums"]["events"], 5);
    // A file that changes is decoded again, by the same server.
    fs::write(&path, [&events[..], &events[..]].concat()).unwrap();
    wait_until("the second entry", || status(directory)["sums"]["done"] == 2);
    assert_eq!(status(directory)["sums"]["events"], 15);
    wait_until("the count since the start", || status(directory)["server"]["events_since_start"] == 15);
    let ended = Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(ended.success());
    server.wait().unwrap();
    assert_eq!(status(directory)["alive"], false);
    assert!(!directory.join("out/incomplete").exists());
    assert!(said(directory).contains("stopped after 2 files"), "{}", said(directory));
}

#[test]
fn an_output_that_cannot_be_written_and_a_folder_that_is_gone_are_waited_for() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    let mut server = start(directory, &[]);
    wait_until("the start", || directory.join("out/.serve/state.json").exists());
    let work = directory.join(format!("out/.serve/work-{}", server.id()));
    fs::rename(&work, directory.join("work")).unwrap();
    feed(directory, 2);
    wait_until("the pause", || status(directory)["server"]["blocked"].as_str().is_some());
    fs::rename(directory.join("work"), &work).unwrap();
    wait_until("the output", || status(directory)["sums"]["done"] == 2 && status(directory)["sums"]["failed"] == 2);
    let words = said(directory);
    assert_eq!(words.matches("warning: cannot begin work in").count(), 1, "{words}");
    assert!(words.contains("; waiting") && words.contains("writing again"), "{words}");
    fs::rename(directory.join("in"), directory.join("away")).unwrap();
    let blocked = || status(directory)["server"]["blocked"].as_str().map(str::to_owned);
    // The state may still tell of the pause.
    wait_until("the word that it is gone", || blocked().is_some_and(|why| why == "in cannot be listed"));
    fs::copy(directory.join("events.mdf"), directory.join("away/late.mdf")).unwrap();
    fs::rename(directory.join("away"), directory.join("in")).unwrap();
    wait_until("the late file", || directory.join("out/late.mdf.parquet").exists());
    wait_until("the end of the warning", || blocked().is_none());
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn the_oldest_files_are_decoded_first_and_odd_things_are_left_alone() {
    use std::os::unix::ffi::OsStrExt;
    let directory = sample();
    let directory = directory.path();
    fs::create_dir_all(directory.join("in/.hidden")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("in/.hidden/no.mdf")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(directory.join("in/socket.mdf")).unwrap();
    fs::write(directory.join("in").join(std::ffi::OsStr::from_bytes(b"\xff.mdf")), "").unwrap();
    for (name, age) in [("a.mdf", 10), ("b.mdf", 30), ("c.mdf", 20)] {
        let path = directory.join("in").join(name);
        fs::copy(directory.join("events.mdf"), &path).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    fs::write(directory.join("in").join(std::ffi::OsStr::from_bytes(b"\xff.log")), "").unwrap();
    // It may be an input, and is not decoded.
    let said = once(1, directory, &["--jobs", "1", "--match", "*.mdf"]);
    assert_eq!(said.matches("its name is not UTF-8").count(), 1, "{said}");
    assert!(said.contains("1 path could not be looked at"), "{said}");
    let order: Vec<_> = journal(directory).iter().map(|entry| entry["file"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, ["b.mdf", "c.mdf", "a.mdf"]);
    let journal = journal(directory);
    assert!(journal.iter().all(|entry| entry["troubles"].as_object().unwrap().is_empty()), "{journal:?}");
}

#[test]
fn a_file_whose_hits_can_have_no_name_costs_only_itself() {
    let directory = sample();
    let directory = directory.path();
    let long = "n".repeat(250);
    let names =
        ["a.mdf", "a.mdf.parquet/b.mdf", "c.mdf.parquet/b.mdf", "c.mdf", "cannot write.mdf", &long, "night/d.mdf"];
    for (i, name) in names.into_iter().enumerate() {
        let path = directory.join("in").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let events = fs::read(directory.join("events.mdf")).unwrap();
        fs::write(&path, if name == "cannot write.mdf" { b"text" } else { &events[..] }).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(i as u64);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    fs::create_dir(directory.join("out")).unwrap();
    let said = once(1, directory, &["--jobs", "1"]);
    assert!(said.contains("4 files could not be decoded to the end"), "{said}");
    let written: Vec<_> = files(&directory.join("out")).into_keys().collect();
    assert_eq!(written, ["a.mdf.parquet", "c.mdf.parquet/b.mdf.parquet", "night/d.mdf.parquet"]);
    let state = status(directory);
    let failures = state["failures"].as_array().unwrap();
    let failed: Vec<_> = failures.iter().map(|entry| entry["file"].as_str().unwrap()).collect();
    assert_eq!(failed, ["a.mdf.parquet/b.mdf", "c.mdf", "cannot write.mdf", &long]);
    for entry in failures.iter().filter(|entry| entry["file"] != "cannot write.mdf") {
        let name = format!("cannot write {}.parquet: ", entry["file"].as_str().unwrap());
        assert!(entry["reason"].as_str().unwrap().starts_with(&name), "{entry}");
    }
}

#[test]
fn hits_never_replace_those_of_another_input() {
    let directory = sample();
    let directory = directory.path();
    let events = fs::read(directory.join("events.mdf")).unwrap();
    fs::create_dir_all(directory.join("in/incomplete")).unwrap();
    fs::write(directory.join("in/x.mdf"), &events[..events.len() - 1]).unwrap();
    fs::write(directory.join("in/incomplete/x.mdf"), &events).unwrap();
    let said = once(1, directory, &[]);
    assert!(said.contains("incomplete/x.mdf: cannot write") && said.contains("another one"), "{said}");
    let written: Vec<_> = files(&directory.join("out")).into_keys().collect();
    assert_eq!(written, ["incomplete/x.mdf.parquet"]);
    assert_eq!(journal(directory).iter().filter(|entry| entry["file"] == "x.mdf").count(), 1);
    let of = |file: &str| journal(directory).into_iter().find(|entry| entry["file"] == file).unwrap();
    assert_eq!(of("x.mdf")["output"], "incomplete/x.mdf.parquet");
    assert!(of("incomplete/x.mdf")["output"].is_null());
    // By run, the whole file's hits are elsewhere.
    fs::remove_dir_all(directory.join("out")).unwrap();
    once(1, directory, &["--by-run"]);
    let written: Vec<_> = files(&directory.join("out")).into_keys().collect();
    assert_eq!(written, ["incomplete/run=1/x.mdf.parquet", "run=1/incomplete/x.mdf.parquet"]);
}

#[test]
fn hits_never_replace_an_input() {
    let directory = sample();
    let directory = directory.path();
    let names = feed(directory, 2);
    let inputs = files(&directory.join("in"));
    for output in ["in", "in/../in/"] {
        let (_, said) = run_to(2, directory, &["serve", "--watch", "in", "--output", output, "--once"]);
        assert!(said.contains("--output is the watched folder"), "{said}");
    }
    // A link among the hits leads back, and hits of a folder called `in` would lie in the watched one.
    fs::create_dir(directory.join("out")).unwrap();
    std::os::unix::fs::symlink("../in/night", directory.join("out/night")).unwrap();
    let said = once(1, directory, &[]);
    assert!(said.contains("night/0.mdf: cannot write") && said.contains("inside the watched folder"), "{said}");
    fs::create_dir(directory.join("in/in")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("in/in").join(&names[1])).unwrap();
    let above = ["serve", "--watch", "in", "--output", ".", "--settle", "0", "--once"];
    let (_, said) = run_to(1, directory, &[&above[..], &DECODE].concat());
    assert!(said.contains("in/1.mdf: cannot write"), "{said}");
    fs::remove_dir_all(directory.join("in/in")).unwrap();
    assert!(files(&directory.join("in")) == inputs);
}

#[test]
fn what_cannot_be_looked_at_is_warned_of_and_fails() {
    let directory = sample();
    let directory = directory.path();
    feed(directory, 1);
    for name in ["cut.mdf", "night/text.mdf"] {
        fs::remove_file(directory.join("in").join(name)).unwrap();
    }
    std::os::unix::fs::symlink("circle.mdf", directory.join("in/circle.mdf")).unwrap();
    let said = once(1, directory, &[]);
    assert_eq!(said.matches("circle.mdf is left out: ").count(), 1, "{said}");
    assert!(said.contains("1 path could not be looked at"), "{said}");
    let status = status(directory);
    assert_eq!(status["sums"]["done"], 1);
    assert_eq!(status["server"]["unread"], 1);
    assert!(status["server"]["unread_paths"][0][0].as_str().unwrap().ends_with("in/circle.mdf"), "{status}");
}

#[test]
fn a_file_that_takes_too_long_is_tried_three_times() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("in/a.mdf")).unwrap();
    let said = once(1, directory, &["--time-out", "0.001", "--verbose"]);
    assert_eq!(said.matches("took longer than 0.001 s; trying again").count(), 2, "{said}");
    assert!(said.contains("warning: a.mdf: took longer than 0.001 s"), "{said}");
    let state = status(directory);
    assert_eq!((&state["sums"]["done"], &state["sums"]["failed"]), (&0.into(), &1.into()));
    assert_eq!(state["failures"][0]["reason"], "took longer than 0.001 s");
    assert!(files(&directory.join("out")).is_empty());
}

#[test]
fn hits_of_a_file_that_changes_meanwhile_do_not_appear() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    let events = fs::read(directory.join("events.mdf")).unwrap();
    let path = directory.join("in/a.mdf");
    fs::write(&path, &events).unwrap();
    let mut server = start(directory, &[]);
    let work = || {
        fs::read_dir(directory.join("out/.serve"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.path().join("1").exists())
    };
    let start = Instant::now();
    while !work() {
        assert!(start.elapsed() < Duration::from_mins(2), "no work is begun");
        std::hint::spin_loop();
    }
    // Its process has not started yet.
    fs::write(&path, [&events[..], &events[..]].concat()).unwrap();
    wait_until("the entry", || status(directory)["sums"]["events"] == 10);
    server.kill().unwrap();
    server.wait().unwrap();
    let journal = journal(directory);
    assert_eq!((journal.len(), &journal[0]["size"]), (1, &(2 * events.len()).into()), "{journal:?}");
}

#[test]
fn to_ask_for_the_state_changes_nothing_and_stands_in_nobodys_way() {
    let directory = sample();
    let directory = directory.path();
    feed(directory, 1);
    once(1, directory, &[]);
    // A server that is writing a line at the moment.
    let path = directory.join("out/.serve/journal.jsonl");
    let begun = [fs::read(&path).unwrap(), b"{\"file\":".to_vec()].concat();
    fs::write(&path, &begun).unwrap();
    assert_eq!(status(directory)["sums"]["done"], 1);
    assert!(fs::read(&path).unwrap() == begun);
    // Who asks has the lock for a moment.
    let lock = fs::File::open(directory.join("out/.serve/lock")).unwrap();
    lock.lock_shared().unwrap();
    let asks = std::thread::spawn(move || {
        sleep(Duration::from_millis(150));
        drop(lock);
    });
    once(0, directory, &[]);
    asks.join().unwrap();
}

#[test]
fn a_file_that_is_new_is_waited_for_until_it_has_settled() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("in/new.mdf")).unwrap();
    let serve = ["serve", "--watch", "in", "--output", "out", "--settle", "0.3", "--once"];
    run_to(0, directory, &[&serve[..], &DECODE].concat());
    assert_eq!(status(directory)["sums"]["done"], 1);
}

#[test]
fn tables_that_are_not_there_are_each_files_reason() {
    let directory = sample();
    let directory = directory.path();
    feed(directory, 1);
    let serve = ["serve", "--watch", "in", "--output", "out", "--settle", "0", "--once"];
    run_to(1, directory, &[&serve[..], &["--", "--boards", "absent.bin", "--geometry", "geometry.bin"]].concat());
    let state = status(directory);
    assert_eq!(state["sums"]["failed"], 3);
    for entry in state["failures"].as_array().unwrap() {
        assert!(entry["reason"].as_str().unwrap().contains("absent.bin"), "{entry}");
    }
}

/// The state of a server with a limit of `ulimit`, once it waits.
#[cfg(unix)]
#[track_caller]
fn limited(limit: &str, directory: &Path) -> serde_json::Value {
    let tool = assert_cmd::cargo::cargo_bin!("ut-decode").display();
    let decode = DECODE.join(" ");
    let serve = format!("ulimit {limit}; exec {tool} serve --watch in --output out --settle 0 {decode}");
    let mut shell = Command::new("sh");
    shell.current_dir(directory).env("UT_DECODE_CONFIG", "").args(["-c", &serve]);
    let mut server = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the pause", || {
        directory.join("out/.serve/state.json").exists() && status(directory)["server"]["blocked"].as_str().is_some()
    });
    let state = status(directory);
    server.kill().unwrap();
    server.wait().unwrap();
    state
}

#[test]
#[cfg(unix)]
fn a_disk_that_is_full_is_not_a_files_fault() {
    let directory = sample();
    let directory = directory.path();
    feed(directory, 1);
    // Files of at most 8 blocks of 512 bytes: room for the journal, and not for hits.
    let state = limited("-f 8", directory);
    assert!(state["server"]["blocked"].as_str().unwrap().contains("cannot write"), "{state}");
    assert!(state["failures"].as_array().unwrap().iter().all(|entry| entry["file"] == "night/text.mdf"), "{state}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_lack_of_memory_is_waited_for() {
    let directory = sample();
    let directory = directory.path();
    feed(directory, 1);
    let state = limited("-v 100000", directory);
    assert!(state["server"]["blocked"].as_str().unwrap().contains("would take about"), "{state}");
    assert_eq!(state["sums"]["failed"], 0);
}

#[test]
fn hits_of_what_a_file_held_before_go() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    let whole = fs::read(directory.join("events.mdf")).unwrap();
    let cut = &whole[..whole.len() - 1];
    let of_run_7 = event(&[bank(0, &ONE_HIT)]);
    let retry = ["--by-run", "--retry-failed"];
    for (bytes, code, options, written) in [
        (&whole[..], 0, &[][..], &["a.mdf.parquet"][..]),
        (cut, 1, &[], &["incomplete/a.mdf.parquet"]),
        (&whole, 0, &["--retry-failed"], &["a.mdf.parquet"]),
        (b"text", 1, &[], &[]),
        (&whole, 0, &["--by-run"], &["run=1/a.mdf.parquet"]),
        (&of_run_7, 0, &["--by-run"], &["run=7/a.mdf.parquet"]),
        (cut, 1, &["--by-run"], &["incomplete/run=1/a.mdf.parquet"]),
        // The same again: its hits stay.
        (cut, 1, &retry, &["incomplete/run=1/a.mdf.parquet"]),
    ] {
        if !fs::read(directory.join("in/a.mdf")).is_ok_and(|there| there == bytes) {
            fs::write(directory.join("in/a.mdf"), bytes).unwrap();
        }
        once(code, directory, options);
        assert_eq!(files(&directory.join("out")).into_keys().collect::<Vec<_>>(), written, "{options:?}");
    }
}

#[test]
fn hits_of_the_same_content_stay_when_another_attempt_gives_none() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    let events = fs::read(directory.join("events.mdf")).unwrap();
    fs::write(directory.join("in/a.mdf"), &events[..events.len() - 1]).unwrap();
    once(1, directory, &[]);
    let before = files(&directory.join("out"));
    assert_eq!(before.len(), 1);
    once(1, directory, &["--retry-failed", "--time-out", "0.001"]);
    assert!(files(&directory.join("out")) == before);
    let last = journal(directory).pop().unwrap();
    assert_eq!((&last["events"], &last["output"]), (&0.into(), &"incomplete/a.mdf.parquet".into()));
    // Of another content they go.
    fs::write(directory.join("in/a.mdf"), "text").unwrap();
    once(1, directory, &[]);
    assert!(files(&directory.join("out")).is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_that_is_killed_takes_the_processes_that_decode_with_it() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("in/a.mdf")).unwrap();
    // A process that opens its mask waits there for ever.
    assert!(Command::new("mkfifo").arg(directory.join("mask")).status().unwrap().success());
    let mut tool = Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"));
    tool.current_dir(directory).env("UT_DECODE_CONFIG", "").args(["serve", "--watch", "in", "--output", "out"]);
    tool.args(["--settle", "0"]).args(DECODE).args(["--mask", "mask"]);
    let mut server = tool.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // State and parent of a process; `None` once it is gone.
    let stat = |process: u32| -> Option<(String, u32)> {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let mut words = text.rsplit_once(')')?.1.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    let lives = |process: u32| stat(process).is_some_and(|(state, _)| state != "Z");
    let child = || {
        let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        let mut processes = names.filter_map(|name| name.parse().ok());
        processes.find(|&process| stat(process).is_some_and(|(_, parent)| parent == server.id()))
    };
    wait_until("the process", || child().is_some());
    let child = child().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let start = Instant::now();
    while lives(child) && start.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(20));
    }
    let stays = lives(child);
    if stays {
        Command::new("kill").args(["-9", &child.to_string()]).status().unwrap();
    }
    assert!(!stays, "process {child} lives on");
}

#[test]
#[cfg(target_os = "linux")]
fn metrics_are_a_regular_file_and_none_of_the_servers_own() {
    let directory = sample();
    let directory = directory.path();
    feed(directory, 1);
    let serve = ["serve", "--watch", "in", "--output", "out", "--settle", "0", "--once", "--metrics"];
    let refused = |metrics: &str, why: &str| {
        let (_, said) = run_to(2, directory, &[&serve[..], &[metrics], &DECODE].concat());
        assert!(said.contains(why), "{metrics}: {said}");
    };
    assert!(Command::new("mkfifo").arg(directory.join("pipe")).status().unwrap().success());
    // Held open, so that to write into it would not wait.
    let _pipe = fs::File::options().read(true).write(true).open(directory.join("pipe")).unwrap();
    refused("pipe", "not a regular file");
    // Before there is such a folder, and after.
    refused("out/.serve/journal.jsonl", "keeps for itself");
    once(1, directory, &[]);
    let before = fs::read(directory.join("out/.serve/journal.jsonl")).unwrap();
    std::os::unix::fs::symlink("out/.serve/journal.jsonl", directory.join("journal")).unwrap();
    std::os::unix::fs::symlink("in/cut.mdf", directory.join("input")).unwrap();
    refused("out/.serve/journal.jsonl", "keeps for itself");
    refused("journal", "keeps for itself");
    refused("input", "inside the watched folder");
    let (_, said) = run_to(1, directory, &[&serve[..], &["absent/state.prom"], &DECODE].concat());
    assert!(said.contains("absent"), "{said}");
    assert!(fs::read(directory.join("out/.serve/journal.jsonl")).unwrap() == before);
}

#[test]
#[cfg(unix)]
fn hits_are_not_overwritten_by_those_of_another_folder_but_a_folder_may_be_renamed() {
    let directory = sample();
    let directory = directory.path();
    feed(directory, 1);
    once(1, directory, &[]);
    let before = files(&directory.join("out"));
    fs::create_dir(directory.join("other")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("other/f0.mdf")).unwrap();
    let other = ["serve", "--watch", "other", "--output", "out", "--settle", "0", "--once"];
    let (_, said) = run_to(1, directory, &[&other[..], &DECODE].concat());
    assert!(said.contains("out has the hits of /") && said.contains("/in, and files of the same name"), "{said}");
    assert!(files(&directory.join("out")) == before);
    fs::remove_dir_all(directory.join("other")).unwrap();
    fs::rename(directory.join("in"), directory.join("other")).unwrap();
    run_to(0, directory, &[&other[..], &DECODE].concat());
    // A link to the same folder, then to one of another day.
    let today = ["serve", "--watch", "today", "--output", "out", "--settle", "0", "--once"];
    let link = |to: &str| {
        let _ = fs::remove_file(directory.join("today"));
        std::os::unix::fs::symlink(to, directory.join("today")).unwrap();
        run_to(0, directory, &[&today[..], &DECODE].concat());
    };
    link("other");
    fs::create_dir(directory.join("later")).unwrap();
    link("later");
}

#[test]
fn metrics_overwrite_nothing_that_the_processes_read() {
    let directory = sample();
    let directory = directory.path();
    feed(directory, 1);
    fs::write(directory.join("my.toml"), "boards = \"boards.bin\"\ngeometry = \"geometry.bin\"\n").unwrap();
    let before = files(directory);
    let serve = ["serve", "--watch", "in", "--output", "out", "--settle", "0", "--once", "--metrics"];
    for (metrics, options) in [
        ("boards.bin", &DECODE[1..]),
        ("boards.bin", &["--boards=boards.bin", "--geometry=geometry.bin"]),
        ("geometry.bin", &["--boards=boards.bin", "--geometry=./geometry.bin"]),
        ("my.toml", &["--config=my.toml"]),
        ("boards.bin", &["--config=my.toml"]),
    ] {
        let (_, said) = run_to(2, directory, &[&serve[..], &[metrics, "--"], options].concat());
        assert!(said.contains(&format!("--metrics {metrics} would overwrite")), "{options:?}: {said}");
        assert!(files(directory) == before, "{options:?}");
    }
}

#[test]
fn settings_are_those_that_the_server_began_with() {
    let directory = sample();
    let directory = directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    fs::create_dir(directory.join("elsewhere")).unwrap();
    fs::write(directory.join("elsewhere/my.toml"), "flip = 511\n").unwrap();
    let config = ["--config", "elsewhere/my.toml"];
    let decode = |name: &str, options: &[&str]| {
        let hits = ["decode", "events.mdf", "--output", name];
        run_to(0, directory, &[&hits[..], &DECODE[1..], options].concat());
        fs::read(directory.join(name)).unwrap()
    };
    let (plain, flipped) = (decode("plain.csv", &[]), decode("flipped.csv", &config));
    assert!(plain != flipped);
    fs::copy(directory.join("events.mdf"), directory.join("in/a.mdf")).unwrap();
    once(0, directory, &[&config[..], &["--format", "csv"]].concat());
    assert!(files(&directory.join("out"))["a.mdf.csv"] == flipped);
    let serve = ["serve", "--watch", "in", "--output", "out", "--once"];
    let (_, said) = run_to(2, directory, &[&serve[..], &config, &DECODE, &config].concat());
    assert!(said.contains("--config is given both before and after --"), "{said}");

    // A file that appears when the server runs changes nothing.
    fs::remove_dir_all(directory.join("out")).unwrap();
    fs::remove_file(directory.join("in/a.mdf")).unwrap();
    let mut tool = Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"));
    tool.current_dir(directory).env_remove("UT_DECODE_CONFIG").env("XDG_CONFIG_HOME", directory.join("none"));
    tool.args(["serve", "--watch", "in", "--output", "out", "--settle", "0", "--format", "csv"]).args(DECODE);
    let mut server = tool.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the start", || directory.join("out/.serve/state.json").exists());
    fs::copy(directory.join("elsewhere/my.toml"), directory.join("ut-decode.toml")).unwrap();
    fs::copy(directory.join("events.mdf"), directory.join("in/.part")).unwrap();
    fs::rename(directory.join("in/.part"), directory.join("in/a.mdf")).unwrap();
    wait_until("the output", || directory.join("out/a.mdf.csv").exists());
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(files(&directory.join("out"))["a.mdf.csv"] == plain);
}

#[test]
fn options_and_folders_that_make_no_sense_end_the_server_at_once() {
    let directory = sample();
    let directory = directory.path();
    feed(directory, 1);
    let serve = ["serve", "--watch", "in", "--output", "out", "--settle", "0", "--once"];
    let (_, said) = run_to(2, directory, &[&serve[..], &["--", "--clusters", "many"]].concat());
    assert!(said.contains("--clusters"), "{said}");
    let (_, said) = run_to(2, directory, &[&serve[..], &DECODE, &["--format", "csv"]].concat());
    assert!(said.contains("--format cannot stand after --"), "{said}");
    assert!(!directory.join("out").exists());
    // What only `decode` itself finds out.
    let odd = ["--", "--columns", "charge", "--backend", "emulated"];
    let (_, said) = run_to(1, directory, &[&serve[..], &odd].concat());
    assert!(said.contains("--columns"), "{said}");
    let state = status(directory);
    assert_eq!((&state["sums"]["done"], &state["sums"]["failed"]), (&0.into(), &0.into()), "{said}");
    let (_, said) = run_to(2, directory, &[&serve[..], &["--metrics", "in/state.prom"]].concat());
    assert!(said.contains("inside the watched folder"), "{said}");
    let (_, said) = run_to(2, directory, &[&serve[..], &["--time-out", "0"]].concat());
    assert!(said.contains("must be above 0"), "{said}");
    let (_, said) = run_to(1, directory, &["serve", "--output", "absent", "--status"]);
    assert!(said.contains("absent"), "{said}");
    let (_, said) = run_to(1, directory, &["serve", "--watch", "absent", "--output", "out"]);
    assert!(said.contains("cannot watch absent"), "{said}");
}
