//! What the end-to-end tests of the tool share.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use ut_decoding::input::{Bank, EventHeader, MdfWriter};

/// Runs the tool in `directory`.
pub fn run(directory: &Path, args: &[&str]) -> Output {
    let mut tool = assert_cmd::cargo::cargo_bin_cmd!("ut-decode");
    // The settings of who runs the tests must not matter.
    tool.current_dir(directory).env("UT_DECODE_CONFIG", "").args(args).output().unwrap()
}

/// Runs a line of shell in `directory`, where `$TOOL` is the tool; exit code, standard output and standard error.
pub fn shell(directory: &Path, line: &str) -> (Option<i32>, String, String) {
    let tool = assert_cmd::cargo::cargo_bin!("ut-decode");
    let output = Command::new("bash")
        .args(["-c", line])
        .env("TOOL", tool)
        .env("UT_DECODE_CONFIG", "")
        .current_dir(directory)
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, err)
}

/// Runs the tool, which must end with `code`; what it printed, to standard output and standard error.
#[track_caller]
pub fn run_to(code: i32, directory: &Path, args: &[&str]) -> (String, String) {
    let output = run(directory, args);
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(output.status.code(), Some(code), "{args:?}\n--- stdout\n{out}\n--- stderr\n{err}");
    (out, err)
}

/// Runs the tool with `--json -`, which must end with `code`; the JSON, and what it printed to standard error.
#[track_caller]
pub fn json_of(code: i32, directory: &Path, args: &[&str]) -> (Value, String) {
    let (out, err) = run_to(code, directory, &[args, &["--json", "-"]].concat());
    (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in {out}")), err)
}

/// A directory that goes when it is dropped.
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

/// An empty directory.
pub fn empty() -> Folder {
    Folder(tempfile::tempdir().unwrap())
}

/// A directory with 5 generated v5 events (`events.mdf`) and their tables.
pub fn sample() -> Folder {
    let directory = empty();
    run_to(0, &directory, &["generate", "--events", "5", "--output", "."]);
    directory
}

/// The options that name the tables of [`sample`].
pub const TABLES: [&str; 4] = ["--boards", "boards.bin", "--geometry", "geometry.bin"];

/// Writes `bytes` into a file of `directory`.
pub fn write(directory: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(directory.join(name), bytes).unwrap();
}

/// Reads a file of `directory`.
pub fn read(directory: &Path, name: &str) -> Vec<u8> {
    std::fs::read(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The bytes of an MDF event without the mark of generated ones.
pub fn event(banks: &[Bank<'_>]) -> Vec<u8> {
    let mut writer = MdfWriter::new(Vec::new());
    let header = EventHeader { run: 7, ..EventHeader::default() };
    writer.write(&header, banks.iter().copied()).unwrap();
    writer.finish().unwrap()
}

/// The same without a checksum, so that its bytes may be changed.
pub fn unchecked(mut event: Vec<u8>) -> Vec<u8> {
    event[12..16].fill(0);
    event
}

/// A UT bank of version 4.
pub fn bank(source_id: u32, payload: &[u8]) -> Bank<'_> {
    Bank { kind: 66, version: Some(4), source_id, payload }
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
    let data = std::env::var_os("UT_DECODE_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(data);
    assert!(data.join("expected").is_dir(), "UT_DECODE_DATA says where the real events are: not in {}", data.display());
    data
}
