//! Measuring in another process, so that a configuration that hangs or crashes costs only itself.
//!
//! The child says that it is ready, or why it cannot be (`"ready"`, `{"failed": "…"}`); then it reads one request a line
//! (`{"config": […], "launches": n}`), writes one [`Outcome`] a line, and keeps its device between requests. When an answer
//! does not come in time, the child is killed with all that it has started ([`FailureKind::TimeOut`]), and the next request
//! starts a new one; when it dies, the outcome is [`FailureKind::Launch`] with the signal or exit code. If it had answered
//! before, that may have killed it: a new child is then asked the same once more.
//!
//! [`serve`] is the child's side. Its device must not print to standard output.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::Duration;

pub use super::group::end_all;

use super::group::Group;
use crate::{Config, Device, Failure, FailureKind, Outcome};

/// Time that a child may take to make its device ready: to read its input, to start a driver.
const READY: Duration = Duration::from_mins(5);

/// Bytes of an answer at most: a child that never ends its line must not fill the memory.
const MOST_ANSWER: u64 = 16 << 20;

/// Answers that wait to be read at most. A child that says more than it is asked waits too.
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

/// The child's last word, on its standard output, where it cannot make a device: why.
///
/// # Errors
/// Those of writing.
pub fn refuse(reason: &str) -> std::io::Result<()> {
    write_line(std::io::stdout(), &Hello::Failed(reason.to_owned()))
}

/// The child's side, on its standard streams. Ends the process when the parent is gone, also in the midst of a
/// measurement that hangs.
///
/// # Errors
/// Those of writing; a line that is not a request.
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

/// The child's side: measures on `device` until `requests` (lines) ends.
///
/// # Errors
/// Those of reading and writing; a line that is not a request.
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

/// A device that lives in another process.
pub struct ProcessDevice {
    name: String,
    command: Command,
    time_out: Duration,
    fresh: bool,
    child: Option<Running>,
}

/// A child, and the two threads at the ends of its pipes.
struct Running {
    child: Group,
    requests: Sender<Request>,
    answers: Receiver<std::io::Result<String>>,
    died: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Also where a shell that led the group has ended: what it had started may still run.
        self.child.kill();
    }
}

/// The next line, without its end; `None` if there is none.
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
    let mut child = Group::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let missing = || std::io::Error::other("the child has no pipes");
    let mut input = child.leader().stdin.take().ok_or_else(missing)?;
    let output = child.leader().stdout.take().ok_or_else(missing)?;
    let (sender, answers) = sync_channel(MOST_WAITING);
    // Ends with the child, whose end closes the pipe, or with what it reads for.
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
    // A child that does not read lets only this thread wait, and not the one that looks at the clock. It ends with the
    // child: then no answer comes either, which says why.
    std::thread::spawn(move || asked.iter().try_for_each(|request| write_line(&mut input, &request)));
    Ok(Running { child, requests, answers, died: false })
}

impl ProcessDevice {
    /// A device behind `command`, whose process [`serve`]s. A measurement may take `time_out`, whatever its number of
    /// launches; making the device is not part of it.
    pub fn new(name: impl Into<String>, command: Command, time_out: Duration) -> Self {
        Self { name: name.into(), command, time_out, fresh: false, child: None }
    }

    /// Starts a new child after every failed launch: where such a failure can leave a device on which nothing works any
    /// more, as a GPU's context after an illegal access.
    #[must_use]
    pub fn fresh_after_failures(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Starts the child, so that what is wrong with the device as a whole shows before anything is measured.
    ///
    /// # Errors
    /// The child's reason, or why there is no child.
    pub fn start(&mut self) -> Result<(), String> {
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
            Err(_) => Err(nonsense(&hello)),
        }
    }

    fn ask(&mut self, config: &Config, launches: usize) -> Result<Outcome, Failure> {
        let launch = |message: String| Failure { kind: FailureKind::Launch, message };
        self.start().map_err(launch)?;
        let running = self.child.as_mut().ok_or_else(|| launch("there is no measuring process".to_owned()))?;
        // Taken for the answer to this request, it would give every configuration the time of the one before.
        match running.answers.try_recv() {
            Ok(Ok(line)) => {
                let said = quoted(&line);
                return Err(launch(format!("the measuring process printed more than its answers: {said}")));
            }
            Ok(Err(error)) => return Err(launch(format!("the measuring process: {error}"))),
            // A child that died since the last answer shows when no answer comes.
            Err(_) => {}
        }
        let _ = running.requests.send(Request { config: config.clone(), launches });
        let line = answer(running, self.time_out)?;
        serde_json::from_str(&line).map_err(|_| launch(nonsense(&line)))
    }
}

/// The next line of a child.
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

fn nonsense(line: &str) -> String {
    format!("the measuring process answered {}", quoted(line))
}

/// The beginning of a line, as it is shown.
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
            // After anything unexpected the two may no longer agree on whose turn it is.
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

    fn device(script: &str, time_out_ms: u64) -> ProcessDevice {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("echo '\"ready\"'; {script}")]);
        ProcessDevice::new("script", command, Duration::from_millis(time_out_ms))
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
    fn a_line_that_nobody_asked_for_is_not_the_next_ones_answer() {
        let mut device = device("while read -r line; do echo '{\"times\":[2]}'; done", 20_000);
        device.start().unwrap();
        // What the thread that reads has sent before the request.
        let (sender, answers) = channel();
        sender.send(Ok("{\"times\":[1]}".to_owned())).unwrap();
        device.child.as_mut().unwrap().answers = answers;
        let failure = failure(measure(&mut device));
        assert_eq!(failure.kind, FailureKind::Launch);
        assert!(failure.message.contains("more than its answers: \"{\\\"times"), "{}", failure.message);
        assert_eq!(measure(&mut device), Outcome::Times(vec![2.0]), "it has a new child");
    }

    #[test]
    fn a_child_that_prints_without_end_is_a_failed_launch_and_fills_no_memory() {
        let mut endless = device("read -r line; cat /dev/zero", 60_000);
        let said = failure(measure(&mut endless));
        assert!(said.message.contains("longer than 16 MiB"), "{}", said.message);
        // It has to wait while nobody reads its answers.
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let talk = format!(
            "read -r line; head -c 400000 /dev/zero | tr '\\0' x >line; n=0; while cat line; echo; do n=$((n+1)); \
             echo $n >{}; done",
            count.display()
        );
        let mut talks = device(&format!("cd {}; {talk}", folder.path().display()), 60_000);
        assert!(failure(measure(&mut talks)).message.contains("answered"));
        let running = start(&mut talks.command).unwrap();
        running.requests.send(Request { config: Config(Vec::new()), launches: 1 }).unwrap();
        // Until it has stood still for half a second.
        let printed = || std::fs::read_to_string(&count).ok()?.trim().parse::<usize>().ok();
        let (mut last, mut still) = (None, 0);
        while still < 5 {
            std::thread::sleep(Duration::from_millis(100));
            let now = printed();
            still = if now.is_some() && now == last { still + 1 } else { 0 };
            last = now;
            assert!(now.is_none_or(|n| n <= 1000), "it does not wait");
        }
        let printed = last.unwrap();
        assert!(printed <= 2 * MOST_WAITING, "{printed} lines that nobody reads");
    }

    #[test]
    fn a_child_that_dies_or_talks_nonsense_is_a_failed_launch_that_says_so() {
        for (script, said) in [
            ("read -r line; kill -9 $$", "signal: 9"),
            ("read -r line; exit 3", "exit status: 3"),
            ("read -r line; echo hello", "answered \"hello\""),
        ] {
            let mut device = device(script, 20_000);
            for _ in 0..2 {
                let failure = failure(measure(&mut device));
                assert_eq!(failure.kind, FailureKind::Launch);
                assert!(failure.message.contains(said), "{}", failure.message);
            }
        }
        let mut nowhere = ProcessDevice::new("none", Command::new("/nowhere/at/all"), Duration::from_secs(1));
        assert_eq!(failure(measure(&mut nowhere)).kind, FailureKind::Launch);
    }

    #[test]
    fn what_a_child_dies_of_after_its_answer_is_no_failure_of_the_next_configuration() {
        let mut ends = device("read -r line; echo '{\"times\":[1]}'; exit 3", 20_000);
        for _ in 0..3 {
            assert_eq!(measure(&mut ends), Outcome::Times(vec![1.0]));
        }
        // What kills each child is one.
        let script = r#"while read -r line; do case $line in *7*) kill -9 $$;; esac; echo '{"times":[1]}'; done"#;
        let mut dies = device(script, 20_000);
        for (value, works) in [(1, true), (7, false), (7, false), (2, true), (7, false), (1, true)] {
            let outcome = dies.measure(&Config(vec![Value::Int(value)]), 1);
            assert_eq!(matches!(outcome, Outcome::Times(_)), works, "{value}: {outcome:?}");
        }
    }

    #[test]
    fn a_configuration_that_kills_a_new_child_is_not_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let begun = folder.path().join("begun");
        let mut dies = device(&format!("echo >>{}; read -r line; exit 3", begun.display()), 20_000);
        for children in 1..=2 {
            failure(measure(&mut dies));
            assert_eq!(std::fs::read_to_string(&begun).unwrap().lines().count(), children);
        }
    }

    #[test]
    fn a_child_that_cannot_begin_says_why_before_anything_is_measured() {
        for (script, said) in [
            (r#"echo '{"failed":"no such file"}'"#, "no such file"),
            ("exit 3", "died: exit status: 3"),
            ("echo hello", "answered \"hello\""),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let mut device = ProcessDevice::new("script", command, Duration::from_secs(20));
            let error = device.start().unwrap_err();
            assert!(error.contains(said), "{error}");
            assert!(failure(measure(&mut device)).message.contains(said));
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
    fn a_child_that_is_slow_to_begin_is_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", r#"sleep 0.5; echo '"ready"'; read -r line; echo '{"times":[1]}'; cat >/dev/null"#]);
        let mut device = ProcessDevice::new("script", command, Duration::from_millis(300));
        assert_eq!(measure(&mut device), Outcome::Times(vec![1.0]));
    }

    #[test]
    fn the_served_side_answers_each_line_and_refuses_what_is_no_request() {
        struct Double;
        impl Device for Double {
            fn name(&self) -> String {
                "double".to_owned()
            }
            fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
                let Value::Int(x) = config.0[0] else { panic!() };
                Outcome::Times(vec![2.0 * x as f64; launches])
            }
        }
        let request = r#"{"config": [3], "launches": 2}"#.to_owned();
        let mut answers = Vec::new();
        serve(&mut Double, [Ok(request.clone()), Ok(request)], &mut answers).unwrap();
        assert_eq!(answers, b"\"ready\"\n{\"times\":[6.0,6.0]}\n{\"times\":[6.0,6.0]}\n");
        assert!(serve(&mut Double, [Ok("{}".to_owned())], Vec::new()).is_err());
    }
}
