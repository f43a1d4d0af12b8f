//! What a server says of itself: on one screen, as JSON, and as metrics in Prometheus' text format.
//!
//! All are files, written whole by rename: a server listens on no socket.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::journal::{Entry, Sums};
use crate::cli::output::{count, in_one_line};
use crate::decoder::{Count, Kind};

/// The state of a running server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub pid: u32,
    pub watch: String,
    /// Seconds since this server began.
    pub up_seconds: f64,
    /// Files that wait for their turn.
    pub waiting: usize,
    /// Files that may still be written to.
    pub unsettled: usize,
    /// Paths that could not be looked at, and the first of them with the reason.
    pub unread: usize,
    pub unread_paths: Vec<(String, String)>,
    /// Files that are being decoded, and for how many seconds.
    pub running: Vec<(String, f64)>,
    /// What it waits for: the disk, a folder; `None` where it doesn't.
    pub blocked: Option<String>,
    /// Files this server decoded, and events in them.
    pub files_since_start: u64,
    pub events_since_start: u64,
}

impl State {
    /// Its file in the folder that a server keeps for itself.
    pub const FILE: &str = "state.json";

    /// What the last server wrote into that folder.
    pub fn read(own: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(own.join(Self::FILE)).ok()?).ok()
    }
}

/// State and sums as one JSON object.
pub fn json(state: &State, sums: &Sums) -> serde_json::Value {
    json!({ "server": state, "sums": sums })
}

/// The same as metrics.
pub fn metrics(state: &State, sums: &Sums) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP ut_decode_{name} {help}\n# TYPE ut_decode_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "ut_decode_{name}{labels} {value}");
        }
    };
    let one = |value: f64| vec![(String::new(), value)];
    metric("files_done_total", "counter", "Files decoded to their end.", &one(sums.done as f64));
    metric("files_failed_total", "counter", "Files that could not be decoded to their end.", &one(sums.failed as f64));
    metric("input_bytes_total", "counter", "Bytes of those files.", &one(sums.bytes as f64));
    metric("events_total", "counter", "Events decoded.", &one(sums.events as f64));
    metric("hits_total", "counter", "Hits in them.", &one(sums.hits as f64));
    metric("decode_seconds_total", "counter", "Time of all processes that decoded.", &one(sums.seconds));
    let troubles: Vec<_> = Count::ALL
        .into_iter()
        .filter(|count| count.kind() == Kind::Trouble)
        .map(|count| {
            let n = sums.troubles.get(count.name()).copied().unwrap_or_default();
            (format!("{{kind=\"{}\"}}", count.name()), n as f64)
        })
        .collect();
    metric("troubles_total", "counter", "Troubles in the data, by the names of the policy.", &troubles);
    metric("files_waiting", "gauge", "Complete files that wait for their turn.", &one(state.waiting as f64));
    metric("files_unsettled", "gauge", "Files that may still be written to.", &one(state.unsettled as f64));
    metric("paths_unread", "gauge", "Paths that could not be looked at.", &one(state.unread as f64));
    metric("files_running", "gauge", "Files that are being decoded.", &one(state.running.len() as f64));
    metric(
        "blocked",
        "gauge",
        "1 while the server waits for a disk or a folder.",
        &one(f64::from(state.blocked.is_some())),
    );
    metric("up_seconds", "gauge", "Time since the server began.", &one(state.up_seconds));
    text
}

/// The same on one screen. `alive`: whether a server holds the output folder; `age`: seconds since it last said so.
pub fn text(state: Option<&State>, sums: &Sums, failures: &[Entry], alive: bool, age: Option<f64>) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<13}{value}");
    };
    match (alive, state) {
        (true, Some(state)) => {
            let age = age.map_or_else(String::new, |age| format!(", said {age:.0} s ago"));
            row("server", format!("process {}, up for {}{age}", state.pid, duration(state.up_seconds)));
            row("watches", state.watch.clone());
            row("blocked", state.blocked.clone().unwrap_or_else(|| "no".to_owned()));
            let (waiting, unsettled) = (state.waiting, state.unsettled);
            row("waiting", format!("{waiting} files, and {unsettled} that may still be written to"));
            let rate = state.events_since_start as f64 / state.up_seconds.max(1e-9);
            row(
                "since start",
                format!("{} files, {} events, {rate:.0} events/s", state.files_since_start, state.events_since_start),
            );
            if state.unread > 0 {
                row("left out", format!("{} that could not be looked at", count(state.unread, "path")));
            }
            for (path, why) in &state.unread_paths {
                row("", format!("{}: {why}", in_one_line(path)));
            }
            for (file, seconds) in &state.running {
                row("decoding", format!("{} ({seconds:.0} s)", in_one_line(file)));
            }
        }
        (true, None) => row("server", "starting".to_owned()),
        (false, _) => row("server", "not running".to_owned()),
    }
    row("done", format!("{} files, {} events, {} hits", sums.done, sums.events, sums.hits));
    let troubles: Vec<String> = sums.troubles.iter().map(|(name, n)| format!("{name} {n}")).collect();
    row("troubles", if troubles.is_empty() { "none".to_owned() } else { troubles.join(", ") });
    row("failed", format!("{} times", sums.failed));
    for entry in failures {
        row("", format!("{}: {}", in_one_line(&entry.file), entry.reason.as_deref().unwrap_or_default()));
    }
    text
}

fn duration(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min", s / 60),
        7200..172_800 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} days {} h", s / 86_400, s / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Kind, State, Sums, duration, metrics, text};

    #[test]
    fn metrics_are_in_prometheus_format_and_name_every_trouble() {
        let mut sums = Sums { done: 3, failed: 4, bytes: 5, events: 7, hits: 8, seconds: 1.5, ..Sums::default() };
        sums.troubles.insert("truncated".to_owned(), 2);
        let running = vec![("a".to_owned(), 1.0)];
        let blocked = Some("disk full".to_owned());
        let state =
            State { waiting: 10, unsettled: 11, unread: 12, running, blocked, up_seconds: 0.5, ..State::default() };
        let text = metrics(&state, &sums);
        for (name, value) in [
            ("files_done_total", "3"),
            ("files_failed_total", "4"),
            ("input_bytes_total", "5"),
            ("events_total", "7"),
            ("hits_total", "8"),
            ("decode_seconds_total", "1.5"),
            ("troubles_total{kind=\"truncated\"}", "2"),
            ("files_waiting", "10"),
            ("files_unsettled", "11"),
            ("paths_unread", "12"),
            ("files_running", "1"),
            ("blocked", "1"),
            ("up_seconds", "0.5"),
        ] {
            let line = format!("ut_decode_{name} {value}");
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
        assert!(metrics(&State::default(), &sums).contains("\nut_decode_blocked 0\n"));
        assert_eq!(
            text.matches("troubles_total{").count(),
            Count::ALL.iter().filter(|n| n.kind() == Kind::Trouble).count()
        );
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("ut_decode_") && value.parse::<f64>().is_ok(), "{line}");
            let bare = name.split('{').next().unwrap();
            assert!(text.contains(&format!("# TYPE {bare} ")), "{line}");
        }
    }

    #[test]
    fn a_long_time_is_said_in_two_units() {
        for (seconds, said) in
            [(119.9, "119 s"), (120.0, "2 min"), (7199.0, "119 min"), (9000.0, "2 h 30 min"), (266_400.0, "3 days 2 h")]
        {
            assert_eq!(duration(seconds), said);
        }
    }

    #[test]
    fn the_screen_tells_a_running_server_from_one_that_is_gone() {
        let unread_paths = vec![("in/closed\n".to_owned(), "permission denied".to_owned())];
        let blocked = Some("disk full".to_owned());
        let state = State { pid: 42, blocked, unread: 11, unread_paths, ..State::default() };
        let alive = text(Some(&state), &Sums::default(), &[], true, Some(1.0));
        assert!(alive.contains("process 42") && alive.contains("disk full"), "{alive}");
        assert!(
            alive.contains("11 paths that could not") && alive.contains("in/closed\\n: permission denied"),
            "{alive}"
        );
        let gone = text(Some(&state), &Sums::default(), &[], false, Some(1.0));
        assert!(gone.contains("not running") && !gone.contains("42"), "{gone}");
    }
}
