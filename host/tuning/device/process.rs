//! Measuring in another process, so that a configuration that hangs or crashes costs only itself.
//!
//! The child reads one request a line and writes one answer a line, both JSON: `{"config": […], "launches": n}` and an
//! [`Outcome`]. It keeps its device between requests. When an answer does not come in time, the child is killed, the
//! outcome is [`FailureKind::TimeOut`], and the next request starts a new child; when it dies, the outcome is
//! [`FailureKind::Launch`] with the signal or exit code.
//!
//! [`serve`] is the child's side; what it writes to its standard output besides answers breaks the line and counts as a
//! failure, so a device must not print there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::tuning::{Config, Device, Failure, FailureKind, Outcome};

/// What the child is asked.
#[derive(serde::Serialize, serde::Deserialize)]
struct Request {
    config: Config,
    launches: usize,
}

/// The child's side, on its standard streams. Ends the process when the parent is gone, also in the midst of a
/// measurement that hangs.
///
/// # Errors
/// Those of writing; a line that is no request.
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
/// Those of reading and writing; a line that is no request.
pub fn serve(
    device: &mut dyn Device,
    requests: impl IntoIterator<Item = std::io::Result<String>>,
    mut answers: impl Write,
) -> std::io::Result<()> {
    for line in requests {
        let request: Request = serde_json::from_str(&line?)?;
        let outcome = device.measure(&request.config, request.launches);
        serde_json::to_writer(&mut answers, &outcome)?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
    Ok(())
}

/// A device that lives in another process.
pub struct ProcessDevice {
    name: String,
    command: Command,
    time_out: Duration,
    child: Option<Running>,
}

/// A child and the two ends of its pipes.
struct Running {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<std::io::Result<String>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whether it is still there or not: afterwards it is neither running nor a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(command: &mut Command) -> std::io::Result<Running> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let missing = || std::io::Error::other("the child has no pipes");
    let requests = child.stdin.take().ok_or_else(missing)?;
    let output = child.stdout.take().ok_or_else(missing)?;
    let (sender, answers) = channel();
    // Ends with the child, whose end closes the pipe.
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(Running { child, requests, answers })
}

impl ProcessDevice {
    /// A device behind `command`, whose process [`serve`]s. A measurement may take `time_out`, whatever its number of
    /// launches.
    pub fn new(name: impl Into<String>, command: Command, time_out: Duration) -> Self {
        Self { name: name.into(), command, time_out, child: None }
    }

    fn child(&mut self) -> std::io::Result<&mut Running> {
        if self.child.is_none() {
            self.child = Some(start(&mut self.command)?);
        }
        self.child.as_mut().ok_or_else(|| std::io::Error::other("no child"))
    }

    fn ask(&mut self, config: &Config, launches: usize) -> Result<Outcome, Failure> {
        let launch = |message: String| Failure { kind: FailureKind::Launch, message };
        let time_out = self.time_out;
        let running = self.child().map_err(|error| launch(format!("the measuring process: {error}")))?;
        let request = serde_json::to_string(&Request { config: config.clone(), launches });
        let request = request.map_err(|error| launch(error.to_string()))?;
        // A child that died since the last answer shows when no answer comes.
        let _ = writeln!(running.requests, "{request}").and_then(|()| running.requests.flush());
        match running.answers.recv_timeout(time_out) {
            Ok(Ok(line)) => serde_json::from_str(&line).map_err(|_| {
                launch(format!("the measuring process answered {:?}", line.chars().take(200).collect::<String>()))
            }),
            Ok(Err(error)) => Err(launch(format!("the measuring process: {error}"))),
            Err(RecvTimeoutError::Timeout) => Err(Failure {
                kind: FailureKind::TimeOut,
                message: format!("killed after {:.3} s", time_out.as_secs_f64()),
            }),
            Err(RecvTimeoutError::Disconnected) => {
                let status = running.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                Err(launch(format!("the measuring process died: {status}")))
            }
        }
    }
}

impl Device for ProcessDevice {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        self.ask(config, launches).unwrap_or_else(|failure| {
            // After anything unexpected the two may no longer agree on whose turn it is.
            self.child = None;
            Outcome::Failed(failure)
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::tuning::Value;

    fn device(script: &str, time_out_ms: u64) -> ProcessDevice {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
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
    fn the_served_side_answers_each_line_and_refuses_what_is_no_request() {
        let mut synthetic = crate::tuning::synthetic::Synthetic::new("seed=1".parse().unwrap());
        let request = serde_json::to_string(&Request { config: synthetic.space().config(7), launches: 2 }).unwrap();
        let mut answers = Vec::new();
        serve(&mut synthetic, [Ok(request.clone()), Ok(request)], &mut answers).unwrap();
        let truth = synthetic.true_ms(7).unwrap();
        for line in String::from_utf8(answers).unwrap().lines() {
            assert_eq!(serde_json::from_str::<Outcome>(line).unwrap(), Outcome::Times(vec![truth; 2]));
        }
        assert!(serve(&mut synthetic, [Ok("{}".to_owned())], Vec::new()).is_err());
    }
}
