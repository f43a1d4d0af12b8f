//! Text and JSON to standard output and files.

use std::borrow::Cow;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use crate::input::WriteError;
use crate::output::NewFile;
use serde::Serialize;

use crate::cli::Failure;

/// Prints to standard output. A reader that has gone (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(escaped(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Prints what a person reads: to standard output, or to standard error when JSON goes to standard output.
pub fn print_beside(json: Option<&Path>, text: &str) -> Result<(), Failure> {
    if json.is_some_and(is_stdout) {
        say(text.trim_end());
        return Ok(());
    }
    print(text)
}

/// Prints a line to standard error. Where that is closed, the exit code is all there is to tell.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", escaped(line));
}

/// The text with every control character but line ends and tabs escaped, and those that turn the direction of writing:
/// names of files and fields of data reach a terminal only so.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let acts = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// The failure to write to `path`.
pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    format!("cannot write {}: {error}", path.display()).into()
}

/// The failure of an MDF writer on the file at `path`.
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

/// Writes `value` as JSON into a file, or to standard output when the path is `-`.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    if is_stdout(path) {
        return print(&text);
    }
    write_file(path, text)
}

/// Whether an option's file is standard output.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// An error and its causes, the outermost first. A cause that the message before it already tells is left out.
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !texts.iter().any(|said| said.contains(&text)) {
            texts.push(text);
        }
        cause = error.source();
    }
    texts
}

/// An error and its causes, in one line.
pub fn with_causes(error: &dyn Error) -> String {
    causes(error).join(": ")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_acts_on_a_terminal_is_escaped() {
        assert_eq!(escaped("a\tb\nµ 日"), "a\tb\nµ 日");
        assert_eq!(escaped("\x1b[31m\r\x07\u{9b}\u{202e}"), "\\u{1b}[31m\\r\\u{7}\\u{9b}\\u{202e}");
    }
}
