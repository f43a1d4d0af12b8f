//! Text to standard output and standard error.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicI8, Ordering::Relaxed};

use anstyle::{AnsiColor, Effects};

use crate::Failure;

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

/// Verbosity: -1 quiet, 0, 1 verbose.
static VERBOSITY: AtomicI8 = AtomicI8::new(0);

/// Sets how much [`say`] and [`detail`] print.
pub fn set_verbosity(quiet: bool, verbose: bool) {
    VERBOSITY.store(i8::from(verbose) - i8::from(quiet), Relaxed);
}

/// Returns true with `--quiet`.
pub fn is_quiet() -> bool {
    VERBOSITY.load(Relaxed) < 0
}

/// Prints a line to standard error; with `--quiet` only losses, warnings and errors, which begin
/// with that word.
pub fn say(line: &str) {
    let line = shortened(line);
    let line = escaped(&line);
    let styled = [
        ("error:", AnsiColor::Red),
        ("lost:", AnsiColor::Red),
        ("warning:", AnsiColor::Yellow),
    ];
    let found = styled
        .iter()
        .find_map(|(word, color)| Some((word, color, line.strip_prefix(word)?)));
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

/// Maximum number of characters in a printed line.
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
        let (begin, end) = (
            line.chars().take(LONGEST / 2),
            line.chars().skip(n - LONGEST / 4),
        );
        format!(
            "{} [{} characters] {}",
            begin.collect::<String>(),
            n - 3 * LONGEST / 4,
            end.collect::<String>()
        )
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
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) {
            escape(c, &mut safe);
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Writes a count with the right plural: `1 run`, `2 runs`.
pub fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Writes `value` as JSON into a file, whole or not at all, or to standard output when the path is
/// `-`.
pub fn write_json(path: &Path, value: &serde_json::Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    if path.as_os_str() == "-" {
        return print_data(&escaped_json(&text)).map(|_| ());
    }
    let cannot = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    // With the mode of the umask: tempfile's own excludes other users.
    let create = |path: &Path| {
        std::fs::File::options()
            .write(true)
            .create_new(true)
            .open(path)
    };
    let mut file = tempfile::Builder::new()
        .prefix(".tuner-")
        .make_in(folder, create)
        .map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(cannot)?;
    file.persist(path).map_err(|error| cannot(error.error))?;
    Ok(())
}
