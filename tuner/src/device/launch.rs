//! Runs a command to its end, as a child of this process.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::group::ProcessGroup;
use crate::{Failure, FailureKind};

/// Largest output of a program in bytes; more makes the launch a failure.
pub(super) const MOST_OUTPUT: u64 = 16 << 20;

/// Largest output to standard error in bytes, of which only the end is kept.
const MOST_ERRORS: u64 = 256 << 20;

/// Number of bytes kept of a failing program's standard error.
const LAST_WORDS: usize = 300;

/// Output and duration of a command.
#[derive(Debug)]
pub struct Ran {
    /// Standard output; more than 16 MiB makes the launch a failure.
    pub output: Vec<u8>,
    /// Wall-clock time of the process, including its start.
    pub took: Duration,
}

/// Process that is running; dropping it ends it, with all that it has started.
pub(crate) trait Launched {
    /// Returns the exit status if the process has ended.
    fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>>;
}

impl Launched for ProcessGroup {
    fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        Self::try_wait(self)
    }
}

/// Runs a command to its end as a child of this process, which `spawn` starts.
pub(crate) fn launch_here(
    command: &mut Command,
    limit: Duration,
    spawn: &dyn Fn(&mut Command) -> std::io::Result<Box<dyn Launched>>,
) -> Result<Ran, Failure> {
    let launch = |message: String| FailureKind::Launch.because(message);
    let file = |error: std::io::Error| launch(format!("no room for the output: {error}"));
    let (output, errors) = (
        tempfile::tempfile().map_err(file)?,
        tempfile::tempfile().map_err(file)?,
    );
    command.stdin(Stdio::null());
    command
        .stdout(output.try_clone().map_err(file)?)
        .stderr(errors.try_clone().map_err(file)?);
    let begun = Instant::now();
    let mut child = spawn(command).map_err(|error| {
        launch(format!(
            "{}: {error}",
            command.get_program().to_string_lossy()
        ))
    })?;
    let status = loop {
        match child
            .try_wait()
            .map_err(|error| launch(error.to_string()))?
        {
            Some(status) => break status,
            None if begun.elapsed() >= limit => return Err(Failure::timed_out(limit)),
            None => {}
        }
        // Checked while waiting, so that it cannot fill the disk.
        for (file, most) in [(&output, MOST_OUTPUT), (&errors, MOST_ERRORS)] {
            if file.metadata().is_ok_and(|file| file.len() > most) {
                return Err(launch(format!(
                    "killed: it printed more than {} MiB",
                    most >> 20
                )));
            }
        }
        std::thread::sleep(pause(begun.elapsed()));
    };
    let took = begun.elapsed();
    if !status.success() {
        return Err(launch(format!("{status}{}", last_words(errors))));
    }
    let output = all_of(output, MOST_OUTPUT).map_err(launch)?;
    Ok(Ran { output, took })
}

/// Returns the pause before the next poll: a small part of the time passed, so that the measured
/// time is accurate.
fn pause(passed: Duration) -> Duration {
    (passed / 200).clamp(Duration::from_micros(20), Duration::from_millis(5))
}

/// Returns the end of a program's standard error.
fn last_words(mut errors: File) -> String {
    let mut text = Vec::new();
    // If the file cannot be read, the failure has no reason in words.
    let _ = errors.seek(SeekFrom::End(0)).and_then(|end| {
        errors.seek(SeekFrom::Start(end.saturating_sub(MOST_OUTPUT)))?;
        errors.take(MOST_OUTPUT).read_to_end(&mut text)
    });
    let text = String::from_utf8_lossy(&text);
    let text = text.trim();
    let start = (text.len().saturating_sub(LAST_WORDS)..=text.len())
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0);
    if text.is_empty() {
        String::new()
    } else {
        format!(": {}", &text[start..])
    }
}

/// Reads a file from its beginning, up to `most` bytes.
fn all_of(mut file: File, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("its output cannot be read: {error}"))?;
    if bytes.len() as u64 > most {
        return Err(format!("it printed more than {} MiB", most >> 20));
    }
    Ok(bytes)
}
