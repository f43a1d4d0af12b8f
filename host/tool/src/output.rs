//! Text and JSON to standard output and files.
//!
//! Standard output belongs to the data. If a command writes JSON or hits there, everything for a
//! person goes to standard error, so that `ut-decode … --json - | jq` works without further
//! options.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
pub use tuner_command::output::{
    detail, escaped, escaped_json, is_quiet, print, print_data, say, set_verbosity,
};
use ut_bench::Machine;
use ut_data::input::WriteError;
use ut_files::{NewFile, names_stdout};
pub use ut_report::whole as number;

use crate::{Failure, usage};

/// Prints text for a person: to standard output, or to standard error if `output`, such as JSON,
/// goes there.
pub fn print_beside(output: Option<&Path>, text: &str) -> Result<(), Failure> {
    if output.is_some_and(names_stdout) {
        say(text.trim_end());
        return Ok(());
    }
    print(text)
}

/// Returns the output that is standard output, if one is; ends the program if two are.
pub fn on_stdout<'a>(outputs: impl IntoIterator<Item = &'a Option<PathBuf>>) -> Option<&'a Path> {
    let mut found = outputs
        .into_iter()
        .filter_map(Option::as_deref)
        .filter(|path| names_stdout(path));
    let first = found.next();
    if found.next().is_some() {
        usage("only one output can be standard output");
    }
    first
}

pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    format!("cannot write {}: {error}", path.display()).into()
}

pub fn write_failure(path: &Path, error: WriteError) -> Failure {
    match error {
        WriteError::Io(error) => cannot_write(path, &error),
        error => format!("cannot write {}: {error}", path.display()).into(),
    }
}

/// Writes a complete file, or leaves an existing file unchanged.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes.as_ref())
        .map_err(|error| file.cannot(error))?;
    Ok(file.finish()?)
}

/// Version of the JSON that commands write. It rises when a field goes or changes its meaning, not
/// when one is added.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<'a, T> {
    schema_version: u32,
    made_by: serde_json::Map<String, serde_json::Value>,
    #[serde(flatten)]
    value: &'a T,
}

/// Writes `value`, which serializes as an object, as JSON into a file, or to standard output when
/// the path is `-`.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let made_by = made_by()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    let mut text = serde_json::to_string_pretty(&Versioned {
        schema_version: SCHEMA_VERSION,
        made_by,
        value,
    })?;
    text.push('\n');
    if is_stdout(path) {
        return print_data(&escaped_json(&text)).map(|_| ());
    }
    write_file(path, text)
}

pub fn count(n: impl TryInto<u64>, what: &str) -> String {
    ut_report::count(n.try_into().unwrap_or(u64::MAX), what)
}

/// Returns a number from 0 on with thousands separators and one decimal.
pub fn decimal(value: f64) -> String {
    let text = format!("{value:.1}");
    let (whole, tenths) = text.split_once('.').unwrap_or((&text, "0"));
    format!("{}.{tenths}", number(whole.parse().unwrap_or_default()))
}

/// Returns the events per second since `start`.
pub fn rate(events: u64, start: Instant) -> f64 {
    events as f64 / start.elapsed().max(Duration::from_millis(1)).as_secs_f64()
}

pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns version and commit of this program.
pub fn made_by() -> Vec<(&'static str, String)> {
    let commit = Machine::COMMIT.unwrap_or_default().to_owned();
    vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", commit),
    ]
}

/// Returns version and commit of this program in words.
pub fn version_in_words() -> String {
    format!(
        "{}, commit {}",
        env!("CARGO_PKG_VERSION"),
        Machine::COMMIT.unwrap_or("unknown")
    )
}

/// Returns true if an output is a pipe without a reader.
pub fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut error = Some(error);
    while let Some(this) = error {
        if this
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        {
            return true;
        }
        error = this.source();
    }
    false
}
