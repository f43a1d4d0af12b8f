//! The memory that `ut-decode decode` takes: the same for a stream of any length.
//!
//! Streams are written into its standard input, so that they need no room on a disk. What counts is anonymous memory,
//! which the kernel cannot take back: `RssAnon` of /proc, looked at all the while.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::formats::{block, packed, zlib};
use crate::support::{TABLES, bank, event, read, run_to, write};

/// Anonymous memory that a job with 4 threads may take.
const MOST: u64 = 512 << 20;

/// What one thread may take, if every event has as many hits as an event can have.
const MOST_OF_THREAD: u64 = 384 << 20;

/// Anonymous memory of a process, in bytes; `None` once it has ended.
fn anonymous(process: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// The most anonymous memory that is seen of a process until it ends.
fn most_of(tool: &mut Child) -> u64 {
    let mut most = 0;
    while tool.try_wait().unwrap().is_none() {
        most = most.max(anonymous(tool).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    most
}

/// Decodes `bytes`, over and over, up to a stream of `length` bytes; the most memory that was seen, and the events.
fn decode(directory: &Path, bytes: &[u8], length: usize, options: &[&str]) -> (u64, u64) {
    let mut tool = Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"))
        .args(["decode", "-", "--threads", "4", "--json", "summary.json", "--quiet"])
        .args(TABLES)
        .args(options)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = tool.stdin.take().unwrap();
    let most = std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..length.div_ceil(bytes.len()) {
                input.write_all(bytes).unwrap();
            }
        });
        most_of(&mut tool)
    });
    assert!(tool.wait().unwrap().success(), "{options:?}");
    let json: serde_json::Value = serde_json::from_slice(&read(directory, "summary.json")).unwrap();
    (most, json["events"].as_u64().unwrap())
}

/// Decodes streams of `length` bytes (before their compression) in every container and into Parquet.
fn stays_below_the_bound(length: usize) {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let n = 1000;
    run_to(0, directory, &["generate", "--events", &n.to_string(), "--output", "."]);
    for name in ["events.mdf.zst", "events.mep"] {
        run_to(0, directory, &["convert", "events.mdf", "--output", name]);
    }
    let mdf = read(directory, "events.mdf");
    let mut mep = read(directory, "events.mep");
    mep.resize(mep.len().next_multiple_of(4096), 0);
    write(directory, "events.mep", &mep);
    let zst = read(directory, "events.mdf.zst");
    let parquet = ["--output", "/dev/null", "--format", "parquet"];
    for (bytes, what, options) in
        [(&mdf, "MDF", &[][..]), (&zst, "zstd", &[]), (&mep, "MEP", &[]), (&mdf, "MDF to Parquet", &parquet)]
    {
        let times = length.div_ceil(mdf.len());
        let (most, events) = decode(directory, bytes, times * bytes.len(), options);
        println!("{what}: {} events, at most {} MB", events, most >> 20);
        assert_eq!(events, (n * times) as u64, "{what}");
        assert!(most > 1 << 20 && most < MOST, "{what}: {} MB", most >> 20);
    }
}

#[test]
fn memory_does_not_grow_with_the_stream() {
    stays_below_the_bound(500 << 20);
}

#[test]
fn memory_does_not_grow_with_files_that_are_unpacked_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (n, files) = (4000, 8);
    run_to(0, directory, &["generate", "--events", &n.to_string(), "--pack", "zstd", "--output", "."]);
    write(directory, "list", "events.mdf.zst\n".repeat(files).as_bytes());
    let mut tool = Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"))
        .args(["decode", "--files-from", "list", "--threads", "4", "--json", "summary.json", "--quiet"])
        .args(TABLES)
        .current_dir(directory)
        .spawn()
        .unwrap();
    let most = most_of(&mut tool);
    assert!(tool.wait().unwrap().success());
    let json: serde_json::Value = serde_json::from_slice(&read(directory, "summary.json")).unwrap();
    assert_eq!(json["events"], n * files);
    println!("{files} files of zstd: at most {} MB", most >> 20);
    assert!(most > 1 << 20 && most < MOST, "{} MB", most >> 20);
}

/// An event with as many hits as one can have: 254 on each lane of each board, every second strip.
fn fullest_event(boards: u32) -> Vec<u8> {
    let mut payload = vec![254, 254, 0, 0, 254, 254, 254, 254];
    for row in 0..127u16 {
        let words = [4 * row, 4 * row + 2].map(|strip| (strip << 5 | 31).to_le_bytes());
        payload.extend(words.concat().repeat(8));
    }
    event(&(0..boards).map(|board| bank(board, &payload)).collect::<Vec<_>>())
}

#[test]
fn memory_is_bounded_however_many_hits_the_events_have_and_however_small_they_are_packed() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    run_to(0, directory, &["generate", "--events", "1", "--output", "."]);
    let one = fullest_event(216);
    let n = 40;
    write(directory, "full.mdf", &one.repeat(n));
    let blocks = packed(&one, 1 << 20, |body| block(b"ZL\x08", body.len(), &zlib(body)));
    write(directory, "blocks.mdf", &blocks.repeat(n));
    let as_packet = ["convert", "full.mdf", "--output", "full.mep"];
    run_to(0, directory, &as_packet);
    for file in ["full.mdf", "full.mep", "blocks.mdf"] {
        let mut tool = Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"))
            .args(["decode", file, "--threads", "2", "--format", "csv", "--output", "-", "--quiet"])
            .args(TABLES)
            .current_dir(directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut rows = tool.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            // Meanwhile the others go on until something holds them up.
            std::thread::sleep(Duration::from_secs(2));
            std::io::copy(&mut rows, &mut std::io::sink()).unwrap()
        });
        let most = most_of(&mut tool);
        assert!(tool.wait().unwrap().success(), "{file}");
        let bytes = reader.join().unwrap();
        println!("{file}: {} MB of rows, at most {} MB", bytes >> 20, most >> 20);
        assert!(bytes > (n as u64) << 24, "{file}: {bytes} bytes of rows");
        assert!(most > 1 << 20 && most < 2 * MOST_OF_THREAD, "{file}: {} MB", most >> 20);
    }
}

/// `cargo test --release --test cli -- --ignored --nocapture twenty_gigabytes`
#[test]
#[ignore = "takes minutes: 20 GB in each container"]
fn memory_stays_bounded_over_twenty_gigabytes() {
    stays_below_the_bound(20_000_000_000);
}
