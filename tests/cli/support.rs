//! Command lines, folders and events for the end-to-end tests of the tool.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use tuner::store::Store;
use ut_decoding::input::{Bank, EventHeader, MdfWriter};

/// Part of a command line: text is split at spaces, arguments in an array are taken as they are.
pub trait Line {
    fn push_to(&self, args: &mut Vec<String>);
}

impl Line for str {
    fn push_to(&self, args: &mut Vec<String>) {
        args.extend(
            self.split(' ')
                .filter(|arg| !arg.is_empty())
                .map(str::to_owned),
        );
    }
}

impl Line for String {
    fn push_to(&self, args: &mut Vec<String>) {
        self.as_str().push_to(args);
    }
}

impl<S: AsRef<str>> Line for [S] {
    fn push_to(&self, args: &mut Vec<String>) {
        args.extend(self.iter().map(|arg| arg.as_ref().to_owned()));
    }
}

impl<S: AsRef<str>, const N: usize> Line for [S; N] {
    fn push_to(&self, args: &mut Vec<String>) {
        self[..].push_to(args);
    }
}

impl<L: Line + ?Sized> Line for &L {
    fn push_to(&self, args: &mut Vec<String>) {
        (**self).push_to(args);
    }
}

impl<A: Line, B: Line> Line for (A, B) {
    fn push_to(&self, args: &mut Vec<String>) {
        self.0.push_to(args);
        self.1.push_to(args);
    }
}

impl<A: Line, B: Line, C: Line> Line for (A, B, C) {
    fn push_to(&self, args: &mut Vec<String>) {
        ((&self.0, &self.1), &self.2).push_to(args);
    }
}

impl<A: Line, B: Line, C: Line, D: Line> Line for (A, B, C, D) {
    fn push_to(&self, args: &mut Vec<String>) {
        ((&self.0, &self.1), (&self.2, &self.3)).push_to(args);
    }
}

/// Returns the tool, run in `directory`, where its store of tunings lies, too. The settings of the
/// user who runs the tests have no effect.
pub fn tool(directory: &Path, line: impl Line) -> Command {
    let mut args = Vec::new();
    line.push_to(&mut args);
    let mut tool = Command::new(env!("CARGO_BIN_EXE_ut-decode"));
    tool.current_dir(directory)
        .args(args)
        .env("UT_DECODE_CONFIG", "");
    tool.env("UT_DECODE_TUNE_DB", directory.join(STORE));
    tool
}

pub const STORE: &str = "tune.sqlite";

pub fn store(directory: &Path) -> Store {
    Store::open(&directory.join(STORE)).unwrap()
}

pub fn run(directory: &Path, line: impl Line) -> Output {
    tool(directory, line).output().unwrap()
}

/// Runs a line of shell in `directory`, where `ut-decode` is the tool; the line must end with
/// `code`.
#[track_caller]
pub fn shell(code: i32, directory: &Path, line: &str) -> (String, String) {
    let tool = Path::new(env!("CARGO_BIN_EXE_ut-decode"))
        .parent()
        .unwrap()
        .to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(tool).chain(std::env::split_paths(&path))).unwrap();
    let mut shell = Command::new("bash");
    shell
        .current_dir(directory)
        .args(["-c", line])
        .env("PATH", path)
        .env("UT_DECODE_CONFIG", "");
    end(code, shell.env("UT_DECODE_TUNE_DB", directory.join(STORE)))
}

/// Runs a command, which must end with `code`; what it printed, to standard output and standard
/// error.
#[track_caller]
pub fn end(code: i32, command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}\n--- stdout\n{out}\n--- stderr\n{err}"
    );
    (out, err)
}

/// Runs the tool, which must end with `code`; what it printed, to standard output and standard
/// error.
#[track_caller]
pub fn run_to(code: i32, directory: &Path, line: impl Line) -> (String, String) {
    end(code, &mut tool(directory, line))
}

/// Runs the tool, which must end with `code` and name `part` on standard error; all that it printed
/// there.
#[track_caller]
pub fn says(code: i32, directory: &Path, line: impl Line, part: &str) -> String {
    let (_, err) = run_to(code, directory, &line);
    assert!(err.contains(part), "{part:?} is not in\n{err}");
    err
}

/// Runs the tool, which must succeed and print `part`; all that it printed to standard output.
#[track_caller]
pub fn shows(directory: &Path, line: impl Line, part: &str) -> String {
    let (out, _) = run_to(0, directory, &line);
    assert!(out.contains(part), "{part:?} is not in\n{out}");
    out
}

/// Runs the tool with `--json -`, which must end with `code`; the JSON, and what it printed to
/// standard error.
#[track_caller]
pub fn json_of(code: i32, directory: &Path, line: impl Line) -> (Value, String) {
    let (out, err) = run_to(code, directory, (line, "--json -"));
    (
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in {out}")),
        err,
    )
}

/// A directory that is removed when it is dropped.
pub struct Folder(TempDir);

impl Folder {
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.path()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self
    }
}

pub fn empty() -> Folder {
    Folder(tempfile::tempdir().unwrap())
}

/// Makes a directory with 5 generated v5 events (`events.mdf`) and their tables.
pub fn sample() -> Folder {
    let directory = empty();
    run_to(0, &directory, "generate --events 5 --output .");
    directory
}

/// Makes a directory with `n` small v5 events (`events.mdf`), their tables, and settings that name
/// them (`tables.toml`).
pub fn small(n: usize) -> Folder {
    let directory = empty();
    run_to(
        0,
        &directory,
        format!("generate --profile pp-low --events {n} --output ."),
    );
    write(
        &directory,
        "tables.toml",
        b"boards = \"boards.bin\"\ngeometry = \"geometry.bin\"\n",
    );
    directory
}

/// The options that name the tables of [`sample`].
pub const TABLES: &str = "--boards boards.bin --geometry geometry.bin";

/// Returns the names of all files below `directory`, relative to it and sorted, without folders.
pub fn tree(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![directory.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                names.push(
                    path.strip_prefix(directory)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }
    names.sort();
    names
}

pub fn write(directory: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(directory.join(name), bytes).unwrap();
}

pub fn read(directory: &Path, name: &str) -> Vec<u8> {
    std::fs::read(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the bytes of an MDF event without the mark of generated events.
pub fn event(banks: &[Bank<'_>]) -> Vec<u8> {
    event_with(EventHeader::default(), banks)
}

/// Returns the bytes of an MDF event with this header, but of run 7.
pub fn event_with(header: EventHeader, banks: &[Bank<'_>]) -> Vec<u8> {
    let mut writer = MdfWriter::new(Vec::new());
    writer
        .write(&EventHeader { run: 7, ..header }, banks.iter().copied())
        .unwrap();
    writer.finish().unwrap()
}

/// Removes the checksum of an event, so that its bytes may be changed.
pub fn unchecked(mut event: Vec<u8>) -> Vec<u8> {
    event[12..16].fill(0);
    event
}

/// Makes a UT bank of version 4.
pub fn bank(source_id: u32, payload: &[u8]) -> Bank<'_> {
    Bank {
        kind: 66,
        version: Some(4),
        source_id,
        payload,
    }
}

/// A v5 payload with one hit, strip 5 with ADC 9, on lane 0.
pub const ONE_HIT: [u8; 32] = {
    let mut payload = [0; 32];
    payload[4] = 1;
    [payload[28], payload[29]] = (5u16 << 5 | 9).to_le_bytes();
    payload
};

/// Returns where the real events are, for tests that are ignored without them.
#[track_caller]
pub fn data() -> PathBuf {
    let data = std::env::var_os("UT_DECODE_DATA")
        .map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(data);
    assert!(
        data.join("expected").is_dir(),
        "UT_DECODE_DATA says where the real events are: not in {}",
        data.display()
    );
    data
}
