//! Measures in a child process, so that a configuration that hangs or crashes does not end the
//! tuning.
//!
//! The child writes `"ready"` or `{"failed": "…"}`; then it reads one request per line
//! (`{"config": […], "launches": n}`) and writes one [`Outcome`] per line. A child whose answer is
//! late is killed with all that it has started ([`FailureKind::TimeOut`]); one that dies is a
//! [`FailureKind::Launch`]. The next request starts a new child. A child that had answered before
//! may have died of an earlier request: a new one is then asked the same once more.
//!
//! [`serve`] is the child's side. Its device must not print to standard output.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::Duration;

pub use super::group::end_all;
pub use super::keeper::keep_if_asked;

use super::group::ProcessGroup;
use super::keeper;
use crate::objective::RESOLUTION;
use crate::{Config, Device, Error, Failure, FailureKind, Outcome};

/// Longest time until a child is ready: it may read input or start a driver.
const READY: Duration = Duration::from_mins(5);

/// Largest answer in bytes: a child that never ends its line must not fill the memory.
const MOST_ANSWER: u64 = 16 << 20;

/// Maximum number of answers waiting to be read. A child that prints more has to wait.
const MOST_WAITING: usize = 16;

/// First message of the child.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Hello {
    Ready,
    Failed(String),
}

/// Request to the child.
#[derive(serde::Serialize, serde::Deserialize)]
struct MeasurementRequest {
    config: Config,
    launches: usize,
}

fn write_line(mut to: impl Write, line: &impl serde::Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut to, line)?;
    to.write_all(b"\n")?;
    to.flush()
}

/// Reports to the parent on standard output why this child cannot make a device.
///
/// # Errors
/// If standard output cannot be written.
pub fn refuse(reason: &str) -> std::io::Result<()> {
    write_line(std::io::stdout(), &Hello::Failed(reason.to_owned()))
}

/// Serves requests on the standard streams. Ends the process when the parent is gone, even during a
/// measurement.
///
/// # Errors
/// Same errors as [`serve`].
pub fn serve_standard_streams(device: &mut dyn Device) -> std::io::Result<()> {
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
        std::process::exit(0);
    });
    serve(device, requests, std::io::stdout())
}

/// Serves `requests` (lines) on `device` until they end.
///
/// # Errors
/// If a stream cannot be read or written, or a line is not a request.
pub fn serve(
    device: &mut dyn Device,
    requests: impl IntoIterator<Item = std::io::Result<String>>,
    mut answers: impl Write,
) -> std::io::Result<()> {
    write_line(&mut answers, &Hello::Ready)?;
    for line in requests {
        let request: MeasurementRequest = serde_json::from_str(&line?)?;
        write_line(
            &mut answers,
            &device.measure(&request.config, request.launches),
        )?;
    }
    Ok(())
}

/// Device in a child process.
pub struct ProcessDevice {
    name: String,
    command: Command,
    time_out: Duration,
    fresh: bool,
    timed: bool,
    child: Option<Running>,
}

/// Child, with the channels to the two threads at its pipes.
struct Running {
    child: ProcessGroup,
    /// `None` once the child is to end.
    requests: Option<Sender<MeasurementRequest>>,
    answers: Receiver<std::io::Result<String>>,
    died: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Closes the child's input, which lets a keeper end.
        self.requests = None;
        // Even if the leader has ended, its group may still run.
        self.child.kill();
    }
}

/// Reads the next line, without its end; `None` at the end.
fn next_line(from: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    from.take(MOST_ANSWER).read_until(b'\n', &mut line)?;
    if line.len() as u64 == MOST_ANSWER {
        return Err(std::io::Error::other(format!(
            "its answer is longer than {} MiB",
            MOST_ANSWER >> 20
        )));
    }
    if line.is_empty() {
        return Ok(None);
    }
    let end = line.len() - usize::from(line.ends_with(b"\n"));
    line.truncate(end);
    String::from_utf8(line)
        .map(Some)
        .map_err(std::io::Error::other)
}

fn start(command: &mut Command) -> std::io::Result<Running> {
    let mut kept = keeper::wrap(command);
    let mut child = match &mut kept {
        Some(keeper) => {
            ProcessGroup::spawn_keeper(keeper.stdin(Stdio::piped()).stdout(Stdio::piped()))
        }
        None => ProcessGroup::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())),
    }?;
    let missing = || std::io::Error::other("the child has no pipes");
    let mut input = child.leader().stdin.take().ok_or_else(missing)?;
    let output = child.leader().stdout.take().ok_or_else(missing)?;
    let (sender, answers) = sync_channel(MOST_WAITING);
    // Ends when the child closes the pipe, or the receiver is gone.
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        while let Some(line) = next_line(&mut output).transpose() {
            let last = line.is_err();
            if sender.send(line).is_err() || last {
                break;
            }
        }
    });
    let (requests, asked) = channel::<MeasurementRequest>();
    // A child that does not read blocks this thread, and another thread watches the time. An error
    // of writing needs no report: the missing answer is the failure.
    std::thread::spawn(move || {
        asked
            .iter()
            .try_for_each(|request| write_line(&mut input, &request))
    });
    Ok(Running {
        child,
        requests: Some(requests),
        answers,
        died: false,
    })
}

impl ProcessDevice {
    /// Makes a device of `command`, whose process [`serve`]s. A measurement may take `time_out`,
    /// for any number of launches.
    pub fn new(name: impl Into<String>, command: Command, time_out: Duration) -> Self {
        Self {
            name: name.into(),
            command,
            time_out,
            fresh: false,
            timed: false,
            child: None,
        }
    }

    /// Starts a new child after every failed launch, which may leave a device that no longer works,
    /// as a GPU's context after an illegal access.
    #[must_use]
    pub fn fresh_after_failures(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Refuses times that are shorter than a clock can tell: a device that answers with other
    /// numbers has no such limit.
    #[must_use]
    pub fn with_times(mut self) -> Self {
        self.timed = true;
        self
    }

    /// Starts the child, so that errors of the device show before anything is measured.
    ///
    /// # Errors
    /// If the child refuses, or cannot be started.
    pub fn start(&mut self) -> Result<(), Error> {
        self.begin().map_err(Error::device)
    }

    fn begin(&mut self) -> Result<(), String> {
        if self.child.is_some() {
            return Ok(());
        }
        let mut running =
            start(&mut self.command).map_err(|error| format!("the measuring process: {error}"))?;
        let hello = answer(&mut running, READY).map_err(|failure| match failure.kind {
            FailureKind::TimeOut => format!(
                "the measuring process was not ready after {} s",
                READY.as_secs()
            ),
            _ => failure.message,
        })?;
        match serde_json::from_str(&hello) {
            Ok(Hello::Ready) => {
                self.child = Some(running);
                Ok(())
            }
            Ok(Hello::Failed(reason)) => Err(reason),
            Err(_) => Err(format!("the measuring process answered {}", quoted(&hello))),
        }
    }

    fn ask(&mut self, config: &Config, launches: usize) -> Result<Outcome, Failure> {
        let launch = |message: String| FailureKind::Launch.because(message);
        self.begin().map_err(launch)?;
        let running = self
            .child
            .as_mut()
            .ok_or_else(|| launch("there is no measuring process".to_owned()))?;
        // A line left over would be taken for the answer to this request, and shift all later
        // answers.
        match running.answers.try_recv() {
            Ok(Ok(line)) => {
                let said = quoted(&line);
                return Err(launch(format!(
                    "the measuring process printed more than its answers: {said}"
                )));
            }
            Ok(Err(error)) => return Err(launch(format!("the measuring process: {error}"))),
            // If the child has died, no answer will come.
            Err(_) => {}
        }
        let _ = running.requests.iter().try_for_each(|to| {
            to.send(MeasurementRequest {
                config: config.clone(),
                launches,
            })
        });
        let line = answer(running, self.time_out)?;
        let outcome = serde_json::from_str(&line)
            .map_err(|_| launch(format!("the measuring process answered {}", quoted(&line))))?;
        match &outcome {
            Outcome::Times(times) if self.timed && times.iter().any(|time| *time < RESOLUTION) => {
                Err(launch(
                    "it answered with a time below a nanosecond, which no clock resolves"
                        .to_owned(),
                ))
            }
            _ => Ok(outcome),
        }
    }
}

/// Waits for the next line of a child.
fn answer(running: &mut Running, time_out: Duration) -> Result<String, Failure> {
    let launch = |message: String| FailureKind::Launch.because(message);
    match running.answers.recv_timeout(time_out) {
        Ok(Ok(line)) => Ok(line),
        Ok(Err(error)) => Err(launch(format!("the measuring process: {error}"))),
        Err(RecvTimeoutError::Timeout) => Err(Failure::timed_out(time_out)),
        Err(RecvTimeoutError::Disconnected) => {
            running.died = true;
            let status = match running.child.ended() {
                Some(status) => {
                    status.map_or_else(|error| error.to_string(), |status| status.to_string())
                }
                None => "it closed its output".to_owned(),
            };
            Err(launch(format!("the measuring process died: {status}")))
        }
    }
}

/// Quotes the beginning of a line.
fn quoted(line: &str) -> String {
    format!("{:?}", line.chars().take(200).collect::<String>())
}

impl Device for ProcessDevice {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        let kept = self.child.is_some();
        let mut asked = self.ask(config, launches);
        if kept && asked.is_err() && self.child.as_ref().is_some_and(|running| running.died) {
            self.child = None;
            asked = self.ask(config, launches);
        }
        let outcome = asked.unwrap_or_else(|failure| {
            // Parent and child may no longer agree on whose turn it is.
            self.child = None;
            Outcome::Failed(failure)
        });
        if self.fresh
            && matches!(&outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Launch)
        {
            self.child = None;
        }
        outcome
    }

    fn time_out(&self) -> Option<Duration> {
        Some(self.time_out)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_a_request_is_not_the_next_answer() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo '\"ready\"'; while read -r line; do echo '{\"times\":[2]}'; done",
        ]);
        let mut device = ProcessDevice::new("script", command, Duration::from_secs(20));
        device.start().unwrap();
        // A line that the reading thread sent before the request.
        let (sender, answers) = channel();
        sender.send(Ok("{\"times\":[1]}".to_owned())).unwrap();
        device.child.as_mut().unwrap().answers = answers;
        let Outcome::Failed(failure) = device.measure(&Config(Vec::new()), 1) else {
            panic!()
        };
        assert_eq!(failure.kind, FailureKind::Launch);
        assert!(
            failure
                .message
                .contains("more than its answers: \"{\\\"times"),
            "{}",
            failure.message
        );
        assert_eq!(
            device.measure(&Config(Vec::new()), 1),
            Outcome::Times(vec![2.0]),
            "it has a new child"
        );
    }
}
