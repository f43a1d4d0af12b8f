//! Text and JSON to standard output and files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::Failure;

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

/// A file in the making, called `PATH.part` until [`Self::finish`] gives it its name: what is at the path itself was
/// written to its end. Dropped before that, it leaves nothing behind.
pub struct NewFile {
    path: PathBuf,
    part: PathBuf,
    finished: bool,
}

impl NewFile {
    /// Begins a file.
    pub fn create(path: &Path) -> Result<(Self, BufWriter<File>), Failure> {
        let mut part = path.to_path_buf().into_os_string();
        part.push(".part");
        let this = Self { path: path.to_path_buf(), part: PathBuf::from(part), finished: false };
        let file = File::create(&this.part).map_err(|error| this.cannot(&error))?;
        Ok((this, BufWriter::with_capacity(1 << 18, file)))
    }

    /// Gives the file, of which everything was written and flushed, its name.
    pub fn finish(mut self) -> Result<(), Failure> {
        std::fs::rename(&self.part, &self.path).map_err(|error| self.cannot(&error))?;
        self.finished = true;
        Ok(())
    }

    /// The failure to write this file.
    pub fn cannot(&self, error: &io::Error) -> Failure {
        cannot_write(&self.path, error)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            // Nobody is left to tell, and the name says what the file is.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// The failure to write to `path`.
pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    format!("cannot write {}: {error}", path.display()).into()
}

/// Writes `value` as JSON into a file, or to standard output when the path is `-`.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    if is_stdout(path) {
        return Ok(print(&text)?);
    }
    std::fs::write(path, text).map_err(|error| cannot_write(path, &error))
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// An error and its causes, in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
