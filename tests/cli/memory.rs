//! The memory that `ut-decode decode` takes: `tests/bounded-memory.sh` has streams of gigabytes,
//! here are many files at once and the fullest events.
//!
//! Anonymous memory counts, which the kernel cannot take back: `RssAnon` of /proc, looked at all
//! the while.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use ut_decoding::synth::encode::encode_v5;

use crate::formats::{packed, zlib_block};
use crate::support::{TABLES, bank, empty, event, read, run_to, tool, write};

/// Anonymous memory that a job with 4 threads may take.
const MOST: u64 = 512 << 20;

/// Maximum memory of one thread, if every event has as many hits as an event can have.
const MOST_OF_THREAD: u64 = 384 << 20;

/// Anonymous memory of a process, in bytes; `None` once it has ended.
fn anonymous(process: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Returns the largest amount of anonymous memory, in bytes, that a process was seen to use until
/// it ended. Fails if it ends badly.
fn most_of(tool: &mut Child) -> u64 {
    let mut most = 0;
    let end = loop {
        if let Some(end) = tool.try_wait().unwrap() {
            break end;
        }
        most = most.max(anonymous(tool).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(end.success() && most > 1 << 20, "{end}, {most} bytes");
    most
}

#[test]
fn memory_does_not_grow_with_files_that_are_unpacked_at_once() {
    let directory = &empty();
    let (n, files) = (4000, 8);
    run_to(
        0,
        directory,
        format!("generate --events {n} --pack zstd --output ."),
    );
    write(
        directory,
        "list",
        "events.mdf.zst\n".repeat(files).as_bytes(),
    );
    let args = "decode @list --allow-repeated --threads 4 --json summary.json --quiet";
    let most = most_of(&mut tool(directory, (args, TABLES)).spawn().unwrap());
    let json: serde_json::Value = serde_json::from_slice(&read(directory, "summary.json")).unwrap();
    assert_eq!(json["events"], n * files);
    println!("{files} files of zstd: at most {} MB", most >> 20);
    assert!(most < MOST, "{} MB", most >> 20);
}

/// Makes an event with the maximum number of hits: 254 on each lane of each board, on every second
/// strip.
fn fullest_event(boards: u32) -> Vec<u8> {
    let lane: Vec<_> = (0..254).map(|i| (2 * i, 31)).collect();
    let payload = encode_v5([&lane[..]; 6]);
    event(
        &(0..boards)
            .map(|board| bank(board, &payload))
            .collect::<Vec<_>>(),
    )
}

#[test]
fn memory_is_bounded_however_many_hits_the_events_have_and_however_small_they_are_packed() {
    let directory = &empty();
    run_to(0, directory, "generate --events 1 --output .");
    let one = fullest_event(216);
    let n = 40;
    write(directory, "full.mdf", &one.repeat(n));
    let blocks = packed(&one, 1 << 20, zlib_block);
    write(directory, "blocks.mdf", &blocks.repeat(n));
    run_to(0, directory, "convert full.mdf --output full.mep");
    let bounded = |file: &str| {
        let args = format!(
            "decode {file} --allow-repeated --trust-tables --threads 2 --format csv --output - --quiet"
        );
        let mut tool = tool(directory, (args, TABLES))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut rows = tool.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            // Meanwhile the others go on until something holds them up.
            std::thread::sleep(Duration::from_secs(3));
            std::io::copy(&mut rows, &mut std::io::sink()).unwrap()
        });
        let most = most_of(&mut tool);
        let bytes = reader.join().unwrap();
        println!(
            "{file}: {} MB of rows, at most {} MB",
            bytes >> 20,
            most >> 20
        );
        assert!(bytes > (n as u64) << 24, "{file}: {bytes} bytes of rows");
        assert!(most < 2 * MOST_OF_THREAD, "{file}: {} MB", most >> 20);
    };
    std::thread::scope(|scope| {
        for file in ["full.mdf", "full.mep", "blocks.mdf"] {
            scope.spawn(move || bounded(file));
        }
    });
}
