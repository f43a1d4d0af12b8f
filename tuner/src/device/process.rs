//! Measures in a child process, so that a configuration that hangs or crashes costs only itself.
//!
//! The child writes `"ready"` or `{"failed": "…"}`; then it reads one request a line (`{"config": […], "launches": n}`)
//! and writes one [`Outcome`] a line. A child whose answer is late is killed with all that it has started
//! ([`FailureKind::TimeOut`]); one that dies is a [`FailureKind::Launch`]. The next request starts a new child. A child
//! that had answered before may have died of an earlier request: a new one is then asked the same once more.
//!
//! [`serve`] is the child's side. Its device must not print to standard output.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::Duration;

pub use super::group::end_all;
pub use super::keeper::keep_if_asked;

use super::group::Group;
use super::keeper;
use crate::objective::RESOLUTION;
use crate::{Config, Device, Error, Failure, FailureKind, Outcome};

/// Longest time until a child is ready: it may read input or start a driver.
const READY: Duration = Duration::from_mins(5);

/// Largest answer in bytes: a child that never ends its line must not fill the memory.
const MOST_ANSWER: u64 = 16 << 20;

/// Most answers that wait to be read. A child that prints more has to wait.
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
struct Request {
    config: Config,
    launches: usize,
}

fn write_line(mut to: impl Write, line: &impl serde::Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut to, line)?;
    to.write_all(b"\n")?;
    to.flush()
}

/// Tells the parent on standard output why this child cannot make a device.
///
/// # Errors
/// If standard output cannot be written.
pub fn refuse(reason: &str) -> std::io::Result<()> {
    write_line(std::io::stdout(), &Hello::Failed(reason.to_owned()))
}

/// Serves requests on the standard streams. Ends the process when the parent is gone, even during a measurement.
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
/// If a stream cannot be read or written, or a line is no request.
pub fn serve(
    device: &mut dyn Device,
    requests: impl IntoIterator<Item = std::io::Result<String>>,
    mut answers: impl Write,
) -> std::io::Result<()> {
    write_line(&mut answers, &Hello::Ready)?;
    for line in requests {
        let request: Request = serde_json::from_str(&line?)?;
        write_line(&mut answers, &device.measure(&request.config, request.launches))?;
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
    child: Group,
    /// `None` once the child is to end.
    requests: Option<Sender<Request>>,
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
        return Err(std::io::Error::other(format!("its answer is longer than {} MiB", MOST_ANSWER >> 20)));
    }
    if line.is_empty() {
        return Ok(None);
    }
    let end = line.len() - usize::from(line.ends_with(b"\n"));
    line.truncate(end);
    String::from_utf8(line).map(Some).map_err(std::io::Error::other)
}

fn start(command: &mut Command) -> std::io::Result<Running> {
    let mut kept = keeper::wrap(command);
    let mut child = match &mut kept {
        Some(keeper) => Group::spawn_keeper(keeper.stdin(Stdio::piped()).stdout(Stdio::piped())),
        None => Group::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())),
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
    let (requests, asked) = channel::<Request>();
    // A child that does not read blocks this thread, not the one that watches the time. An error of writing needs no
    // report: the missing answer is the failure.
    std::thread::spawn(move || asked.iter().try_for_each(|request| write_line(&mut input, &request)));
    Ok(Running { child, requests: Some(requests), answers, died: false })
}

impl ProcessDevice {
    /// Makes a device of `command`, whose process [`serve`]s. A measurement may take `time_out`, for any number of
    /// launches.
    pub fn new(name: impl Into<String>, command: Command, time_out: Duration) -> Self {
        Self { name: name.into(), command, time_out, fresh: false, timed: false, child: None }
    }

    /// Starts a new child after every failed launch, which may leave a device that no longer works, as a GPU's context
    /// after an illegal access.
    #[must_use]
    pub fn fresh_after_failures(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Refuses times that are shorter than a clock can tell: a device that answers with other numbers has no such limit.
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
        let mut running = start(&mut self.command).map_err(|error| format!("the measuring process: {error}"))?;
        let hello = answer(&mut running, READY).map_err(|failure| match failure.kind {
            FailureKind::TimeOut => format!("the measuring process was not ready after {} s", READY.as_secs()),
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
        let launch = |message: String| Failure { kind: FailureKind::Launch, message };
        self.begin().map_err(launch)?;
        let running = self.child.as_mut().ok_or_else(|| launch("there is no measuring process".to_owned()))?;
        // A line left over would be taken for the answer to this request, and shift all later answers.
        match running.answers.try_recv() {
            Ok(Ok(line)) => {
                let said = quoted(&line);
                return Err(launch(format!("the measuring process printed more than its answers: {said}")));
            }
            Ok(Err(error)) => return Err(launch(format!("the measuring process: {error}"))),
            // If the child has died, no answer will come.
            Err(_) => {}
        }
        let _ = running.requests.iter().try_for_each(|to| to.send(Request { config: config.clone(), launches }));
        let line = answer(running, self.time_out)?;
        let outcome = serde_json::from_str(&line)
            .map_err(|_| launch(format!("the measuring process answered {}", quoted(&line))))?;
        match &outcome {
            Outcome::Times(times) if self.timed && times.iter().any(|time| *time < RESOLUTION) => {
                Err(launch("it answered with a time below a nanosecond, which no clock resolves".to_owned()))
            }
            _ => Ok(outcome),
        }
    }
}

/// Waits for the next line of a child.
fn answer(running: &mut Running, time_out: Duration) -> Result<String, Failure> {
    let launch = |message: String| Failure { kind: FailureKind::Launch, message };
    match running.answers.recv_timeout(time_out) {
        Ok(Ok(line)) => Ok(line),
        Ok(Err(error)) => Err(launch(format!("the measuring process: {error}"))),
        Err(RecvTimeoutError::Timeout) => Err(Failure::timed_out(time_out)),
        Err(RecvTimeoutError::Disconnected) => {
            running.died = true;
            let status = match running.child.ended() {
                Some(status) => status.map_or_else(|error| error.to_string(), |status| status.to_string()),
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
        if self.fresh && matches!(&outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Launch) {
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
    use std::time::Instant;

    use super::*;
    use crate::Value;

    fn child(script: &str, time_out_ms: u64) -> ProcessDevice {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        ProcessDevice::new("script", command, Duration::from_millis(time_out_ms))
    }

    fn device(script: &str, time_out_ms: u64) -> ProcessDevice {
        child(&format!("echo '\"ready\"'; {script}"), time_out_ms)
    }

    fn measure(device: &mut ProcessDevice) -> Outcome {
        device.measure(&Config(vec![Value::Int(1)]), 2)
    }

    fn failure(outcome: Outcome) -> Failure {
        match outcome {
            Outcome::Failed(failure) => failure,
            Outcome::Times(times) => panic!("{times:?}"),
        }
    }

    #[test]
    fn a_child_answers_request_after_request() {
        let mut device =
            device("n=0; while read -r line; do n=$((n+1)); echo \"{\\\"times\\\":[$n.5]}\"; done", 20_000);
        assert_eq!(measure(&mut device), Outcome::Times(vec![1.5]));
        assert_eq!(measure(&mut device), Outcome::Times(vec![2.5]));
        // One that is slow to begin is waited for.
        let script = r#"sleep 0.5; echo '"ready"'; read -r line; echo '{"times":[1]}'; cat >/dev/null"#;
        assert_eq!(measure(&mut child(script, 300)), Outcome::Times(vec![1.0]));
    }

    #[test]
    fn a_child_that_hangs_is_killed_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let once = folder.path().join("once");
        let script = format!(
            "read -r line; if mkdir {0} 2>/dev/null; then exec sleep 1000; fi; echo '{{\"times\":[1]}}'; cat >/dev/null",
            once.display()
        );
        let mut device = device(&script, 300);
        let begun = Instant::now();
        assert_eq!(failure(measure(&mut device)).kind, FailureKind::TimeOut);
        assert!(begun.elapsed() < Duration::from_secs(100));
        device.time_out = Duration::from_secs(20);
        assert_eq!(measure(&mut device), Outcome::Times(vec![1.0]));
    }

    #[test]
    fn a_child_that_does_not_read_a_long_request_is_killed_in_time() {
        let mut device = device("exec sleep 5", 50);
        let long = Config(vec![Value::Text("x".repeat(1 << 20))]);
        assert_eq!(failure(device.measure(&long, 1)).kind, FailureKind::TimeOut);
    }

    #[test]
    fn a_line_without_a_request_is_not_the_next_answer() {
        let mut device = device("while read -r line; do echo '{\"times\":[2]}'; done", 20_000);
        device.start().unwrap();
        // A line that the reading thread sent before the request.
        let (sender, answers) = channel();
        sender.send(Ok("{\"times\":[1]}".to_owned())).unwrap();
        device.child.as_mut().unwrap().answers = answers;
        let failure = failure(measure(&mut device));
        assert_eq!(failure.kind, FailureKind::Launch);
        assert!(failure.message.contains("more than its answers: \"{\\\"times"), "{}", failure.message);
        assert_eq!(measure(&mut device), Outcome::Times(vec![2.0]), "it has a new child");
    }

    #[test]
    fn a_child_that_prints_without_end_is_a_failed_launch() {
        let mut endless = device("read -r line; cat /dev/zero", 60_000);
        let said = failure(measure(&mut endless));
        assert!(said.message.contains("longer than 16 MiB"), "{}", said.message);
    }

    #[test]
    fn a_child_that_dies_or_talks_nonsense_is_a_failed_launch_that_says_so() {
        for (script, begins, said) in [
            ("read -r line; kill -9 $$", true, "signal: 9"),
            ("read -r line; exit 3", true, "exit status: 3"),
            ("read -r line; echo hello", true, "answered \"hello\""),
            (r#"echo '{"failed":"no such file"}'"#, false, "no such file"),
            ("exit 3", false, "died: exit status: 3"),
            ("echo hello", false, "answered \"hello\""),
        ] {
            let mut device = if begins { device(script, 20_000) } else { child(script, 20_000) };
            assert_eq!(device.begin().map_err(|error| error.contains(said)), if begins { Ok(()) } else { Err(true) });
            for _ in 0..2 {
                let failure = failure(measure(&mut device));
                assert_eq!(failure.kind, FailureKind::Launch);
                assert!(failure.message.contains(said), "{}", failure.message);
            }
        }
    }

    #[test]
    fn what_a_child_dies_of_after_its_answer_is_no_failure_of_the_next_configuration() {
        let mut ends = device("read -r line; echo '{\"times\":[1]}'; exit 3", 20_000);
        for _ in 0..3 {
            assert_eq!(measure(&mut ends), Outcome::Times(vec![1.0]));
        }
        // A configuration that kills each child fails.
        let script = r#"while read -r line; do case $line in *7*) kill -9 $$;; esac; echo '{"times":[1]}'; done"#;
        let mut dies = device(script, 20_000);
        for (value, works) in [(1, true), (7, false), (7, false), (2, true), (7, false), (1, true)] {
            let outcome = dies.measure(&Config(vec![Value::Int(value)]), 1);
            assert_eq!(matches!(outcome, Outcome::Times(_)), works, "{value}: {outcome:?}");
        }
        // One that kills a new child is not asked again.
        let folder = tempfile::tempdir().unwrap();
        let begun = folder.path().join("begun");
        let mut dies = device(&format!("echo >>{}; read -r line; exit 3", begun.display()), 20_000);
        for children in 1..=2 {
            failure(measure(&mut dies));
            assert_eq!(std::fs::read_to_string(&begun).unwrap().lines().count(), children);
        }
    }

    #[test]
    fn a_child_lives_on_after_a_failed_launch_or_is_replaced_as_asked() {
        // The second answer of a child is a time.
        let script = r#"read -r line; echo '{"failed":{"kind":"launch","message":"no"}}'; read -r line; \
            echo '{"times":[1]}'; cat >/dev/null"#;
        let mut one = device(script, 20_000);
        assert_eq!(failure(measure(&mut one)).message, "no");
        assert_eq!(measure(&mut one), Outcome::Times(vec![1.0]));
        let mut fresh = device(script, 20_000).fresh_after_failures();
        for _ in 0..2 {
            assert_eq!(failure(measure(&mut fresh)).message, "no");
        }
    }

    #[test]
    fn the_served_side_answers_each_line_and_refuses_what_is_no_request() {
        let mut double = crate::from_fn("double", |config, launches| {
            let Value::Int(x) = config.0[0] else { panic!() };
            Outcome::Times(vec![2.0 * x as f64; launches])
        });
        let request = r#"{"config": [3], "launches": 2}"#.to_owned();
        let mut answers = Vec::new();
        serve(&mut double, [Ok(request.clone()), Ok(request)], &mut answers).unwrap();
        assert_eq!(answers, b"\"ready\"\n{\"times\":[6.0,6.0]}\n{\"times\":[6.0,6.0]}\n");
        assert!(serve(&mut double, [Ok("{}".to_owned())], Vec::new()).is_err());
    }
}
