//! Text and JSON to standard output and files.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::Failure;

/// Prints to standard output. A reader that has gone (`| head`) is no error.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints what a person reads: to standard output, or to standard error when JSON goes to standard output.
pub fn print_beside(json: Option<&Path>, text: &str) -> io::Result<()> {
    if json.is_some_and(is_stdout) {
        say(text.trim_end());
        return Ok(());
    }
    print(text)
}

/// Prints a line to standard error. Where that is closed, nobody wants to know.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes `value` as JSON into a file, or to standard output when the path is `-`.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    if is_stdout(path) {
        return Ok(print(&text)?);
    }
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}
