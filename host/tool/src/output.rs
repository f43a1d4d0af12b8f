//! Text and JSON to standard output and files.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI8, Ordering::Relaxed};

use anstyle::{AnsiColor, Effects};
use serde::Serialize;
use ut_data::input::WriteError;
use ut_files::{NewFile, names_stdout};
pub use ut_report::whole as number;

use crate::decode::made_by;
use crate::{Failure, usage};

/// Prints to standard output. A reader that has gone (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    write_out(escaped(text).as_bytes(), &mut anstream::stdout().lock()).map(|_| ())
}

/// Prints what a program reads, byte for byte; returns false if the reader has gone.
pub fn print_data(text: &str) -> Result<bool, Failure> {
    write_out(text.as_bytes(), &mut io::stdout().lock())
}

fn write_out(bytes: &[u8], out: &mut impl Write) -> Result<bool, Failure> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write to standard output: {error}").into()),
    }
}

/// Prints text for a person: to standard output, or to standard error if `output`, such as JSON, goes there.
pub fn print_beside(output: Option<&Path>, text: &str) -> Result<(), Failure> {
    if output.is_some_and(names_stdout) {
        say(text.trim_end());
        return Ok(());
    }
    print(text)
}

/// Returns the output that is standard output, if one is; ends the program if two are.
pub fn on_stdout<'a>(outputs: impl IntoIterator<Item = &'a Option<PathBuf>>) -> Option<&'a Path> {
    let mut found = outputs.into_iter().filter_map(Option::as_deref).filter(|path| names_stdout(path));
    let first = found.next();
    if found.next().is_some() {
        usage("only one output can be standard output");
    }
    first
}

/// Verbosity: -1 quiet, 0, 1 verbose.
static VERBOSITY: AtomicI8 = AtomicI8::new(0);

pub fn set_verbosity(quiet: bool, verbose: bool) {
    VERBOSITY.store(i8::from(verbose) - i8::from(quiet), Relaxed);
}

pub fn is_quiet() -> bool {
    VERBOSITY.load(Relaxed) < 0
}

/// Prints a line to standard error; with `--quiet` only warnings and errors, which begin with that word.
pub fn say(line: &str) {
    let line = shortened(line);
    let line = escaped(&line);
    let styled = [("error:", AnsiColor::Red), ("warning:", AnsiColor::Yellow)];
    let found = styled.iter().find_map(|(word, color)| Some((word, color, line.strip_prefix(word)?)));
    let mut err = anstream::stderr();
    let _ = match found {
        Some((word, color, rest)) => {
            let style = color.on_default().effects(Effects::BOLD);
            writeln!(err, "{style}{word}{style:#}{rest}")
        }
        None if is_quiet() => Ok(()),
        None => writeln!(err, "{line}"),
    };
}

/// Characters of the longest line that is printed.
const LONGEST: usize = 2000;

/// Cuts the middle out of very long lines: messages quote lines of files, which can hold anything.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| {
        let n = line.chars().count();
        if n <= LONGEST {
            return line.to_owned();
        }
        let (begin, end) = (line.chars().take(LONGEST / 2), line.chars().skip(n - LONGEST / 4));
        format!("{} [{} characters] {}", begin.collect::<String>(), n - 3 * LONGEST / 4, end.collect::<String>())
    };
    Cow::Owned(text.split('\n').map(line).collect::<Vec<_>>().join("\n"))
}

/// Prints a line to standard error with `--verbose`.
pub fn detail(line: &str) {
    if VERBOSITY.load(Relaxed) > 0 {
        say(line);
    }
}

/// Escapes control characters but line ends and tabs, and those that turn the direction of writing.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_as(text, |c, safe| safe.extend(c.escape_default()))
}

/// Escapes the same characters as JSON does: they stand only in its strings.
pub fn escaped_json(text: &str) -> Cow<'_, str> {
    escaped_as(text, |c, safe| _ = write!(safe, "\\u{:04x}", u32::from(c)))
}

fn escaped_as(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let acts = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { escape(c, &mut safe) } else { safe.push(c) }
    }
    Cow::Owned(safe)
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

/// Writes a whole file, or leaves what is there as it is.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut file = NewFile::create(path)?;
    file.write_all(bytes.as_ref()).map_err(|error| file.cannot(error))?;
    Ok(file.finish()?)
}

/// Version of the JSON that commands write. It rises when a field goes or changes its meaning, not when one is added.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<'a, T> {
    schema_version: u32,
    made_by: serde_json::Map<String, serde_json::Value>,
    #[serde(flatten)]
    value: &'a T,
}

/// Writes `value`, which serializes as an object, as JSON into a file, or to standard output when the path is `-`.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let made_by = made_by().into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let mut text = serde_json::to_string_pretty(&Versioned { schema_version: SCHEMA_VERSION, made_by, value })?;
    text.push('\n');
    if is_stdout(path) {
        return print_data(&escaped_json(&text)).map(|_| ());
    }
    write_file(path, text)
}

pub fn count(n: usize, what: &str) -> String {
    ut_report::count(n as u64, what)
}

/// Returns a number from 0 on with thousands separators and one decimal.
pub fn decimal(value: f64) -> String {
    let text = format!("{value:.1}");
    let (whole, tenths) = text.split_once('.').unwrap_or((&text, "0"));
    format!("{}.{tenths}", number(whole.parse().unwrap_or_default()))
}

pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}
