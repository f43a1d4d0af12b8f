//! The keeper: this program, started again to be the parent of all programs that are measured.
//!
//! A program can leave its process group, or begin a new session, and outlive whoever knows only
//! its group. The keeper is therefore a *subreaper*: whatever a program leaves behind becomes a
//! child of the keeper, which kills it before the next launch. Its standard input is a pipe from
//! the tuner. When that ends, also by SIGKILL of the tuner, the keeper kills everything, removes
//! the folders of builds, and ends.
//!
//! There are two kinds. [`launch`] asks a keeper for one launch after the other. [`wrap`] puts a
//! keeper around a program that stays, and passes its standard input on, line by line.
//!
//! Why this is needed: a program that hangs on a GPU, or a server that it started in the
//! background, would take time from every later measurement, and a tuner that runs for a night
//! would collect them. Killing the process group is not enough, since `setsid` leaves the group.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::group::{GONE, ProcessGroup, folders, remove};
use super::launch::{Launched, MOST_OUTPUT, Ran, launch_here};
use crate::{Failure, FailureKind};

/// First argument of a keeper.
const KEEP: &str = "keep-programs";

/// Command that starts this program again.
static AGAIN: OnceLock<Vec<OsString>> = OnceLock::new();

/// Keepers that wait for a launch.
static FREE: Mutex<Vec<Keeper>> = Mutex::new(Vec::new());

/// Says how to start this program as a keeper: `again` is the program and its first arguments.
/// `args` are the arguments of this process. If it was itself started as a keeper, this function is
/// all it does, and never returns.
///
/// A program calls it first of all, before it starts threads or installs handlers of signals. One
/// that does not call it can measure, too, but programs that leave their process group, and
/// programs of a tuner that is killed, live on.
pub fn keep_if_asked(again: &[OsString], args: &[OsString]) {
    if args.first().is_some_and(|arg| arg == KEEP) {
        keep(&args[1..]);
    }
    let _ = AGAIN.set(again.to_vec());
}

pub(super) fn is_registered() -> bool {
    cfg!(target_os = "linux") && AGAIN.get().is_some_and(|again| !again.is_empty())
}

/// Returns the command of a keeper; `None` without one.
fn keeper() -> Option<Command> {
    let (program, first) = AGAIN.get().filter(|_| is_registered())?.split_first()?;
    let mut command = Command::new(program);
    command.args(first).arg(KEEP);
    Some(command)
}

/// Launch that a keeper is asked for.
#[derive(serde::Serialize, serde::Deserialize)]
struct LaunchRequest {
    program: String,
    args: Vec<String>,
    envs: Vec<(String, Option<String>)>,
    limit: Duration,
    /// Folders that are removed if the tuner is gone.
    folders: Vec<PathBuf>,
}

/// Answer of a keeper, followed by the output.
#[derive(serde::Serialize, serde::Deserialize)]
enum Answer {
    Ran { took: Duration, bytes: u64 },
    Failed(Failure),
}

impl LaunchRequest {
    /// Describes a command; `None` if it cannot be written as text, or has a working folder.
    fn of(command: &Command, limit: Duration) -> Option<Self> {
        if command.get_current_dir().is_some() {
            return None;
        }
        let text = |text: &std::ffi::OsStr| text.to_str().map(str::to_owned);
        let env = |(name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)| match value {
            Some(value) => Some((text(name)?, Some(text(value)?))),
            None => Some((text(name)?, None)),
        };
        Some(Self {
            program: text(command.get_program())?,
            args: command.get_args().map(text).collect::<Option<_>>()?,
            envs: command.get_envs().map(env).collect::<Option<_>>()?,
            limit,
            folders: folders(),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        for (name, value) in &self.envs {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

/// Process that launches programs. The end of its input, which is dropped first, lets it end what
/// it has started.
struct Keeper {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Keeps the process's number; dropped last.
    _group: ProcessGroup,
}

impl Keeper {
    fn start(command: &mut Command) -> std::io::Result<Self> {
        let mut group = ProcessGroup::spawn_keeper(
            command
                .arg("launch")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        )?;
        let missing = || std::io::Error::other("the keeper has no pipes");
        let requests = group.leader().stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(group.leader().stdout.take().ok_or_else(missing)?);
        Ok(Self {
            requests,
            answers,
            _group: group,
        })
    }

    fn ask(&mut self, launch: &LaunchRequest) -> std::io::Result<Result<Ran, Failure>> {
        let line = serde_json::to_string(launch)? + "\n";
        let gone = || std::io::Error::other("the keeper of the programs has ended");
        self.requests.write_all(line.as_bytes())?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(gone());
        }
        match serde_json::from_str(&line)? {
            Answer::Failed(failure) => Ok(Err(failure)),
            Answer::Ran { took, bytes } => {
                let mut output = vec![0; bytes.min(MOST_OUTPUT) as usize];
                self.answers.read_exact(&mut output)?;
                Ok(Ok(Ran { output, took }))
            }
        }
    }
}

/// Launches a command by a keeper, to its end; `None` if there is no keeper.
pub(crate) fn launch(command: &Command, limit: Duration) -> Option<Result<Ran, Failure>> {
    let (mut start, launch) = (keeper()?, LaunchRequest::of(command, limit)?);
    let failed = |error: std::io::Error| FailureKind::Launch.because(error);
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut keeper = match free.map_or_else(|| Keeper::start(&mut start), Ok) {
        Ok(keeper) => keeper,
        Err(error) => return Some(Err(failed(error))),
    };
    let answer = keeper.ask(&launch);
    if answer.is_ok() {
        FREE.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(keeper);
    }
    Some(answer.unwrap_or_else(|error| Err(failed(error))))
}

/// Returns the command with a keeper around it, if there is one; else the command itself.
pub(super) fn wrap(command: &mut Command) -> Option<Command> {
    let launch = LaunchRequest::of(command, Duration::ZERO)?;
    let mut keeper = keeper()?;
    keeper.arg("wrap").arg(serde_json::to_string(&launch).ok()?);
    Some(keeper)
}

/// Held while a process is started, and for good once the keeper is to end.
static STARTS: Mutex<()> = Mutex::new(());

/// Is the keeper.
fn keep(args: &[OsString]) -> ! {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1));
    let wrapped = args
        .get(1)
        .and_then(|text| serde_json::from_str::<LaunchRequest>(text.to_str()?).ok());
    match wrapped {
        Some(launch) => keep_one(&launch),
        None => keep_launches(),
    }
}

/// Folders of builds.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Ends everything, and the keeper.
fn end(status: Option<ExitStatus>) -> ! {
    let starts = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    end_descendants();
    remove(&FOLDERS.lock().unwrap_or_else(PoisonError::into_inner));
    std::mem::forget(starts);
    #[cfg(unix)]
    if let Some(signal) = status
        .as_ref()
        .and_then(std::os::unix::process::ExitStatusExt::signal)
        && let Some(signal) = rustix::process::Signal::from_named_raw(signal)
    {
        // Dies as the program did, so that whoever waits gets the same status.
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
    std::process::exit(status.and_then(|status| status.code()).unwrap_or(1))
}

/// Launches what it is asked for, until the tuner is gone.
fn keep_launches() -> ! {
    let (sender, launches) = std::sync::mpsc::channel::<LaunchRequest>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(launch) = serde_json::from_str::<LaunchRequest>(&line) else {
                break;
            };
            if let Ok(mut folders) = FOLDERS.lock() {
                folders.clone_from(&launch.folders);
            }
            if sender.send(launch).is_err() {
                break;
            }
        }
        end(None)
    });
    let mut answers = std::io::stdout();
    for launch in launches {
        let ran = launch_here(&mut launch.command(), launch.limit, &spawn);
        end_descendants();
        let (answer, output) = match ran {
            Ok(Ran { output, took }) => (
                Answer::Ran {
                    took,
                    bytes: output.len() as u64,
                },
                output,
            ),
            Err(failure) => (Answer::Failed(failure), Vec::new()),
        };
        let line = serde_json::to_string(&answer).unwrap_or_default() + "\n";
        if answers
            .write_all(line.as_bytes())
            .and_then(|()| answers.write_all(&output))
            .is_err()
            || answers.flush().is_err()
        {
            break;
        }
    }
    end(None)
}

/// Starts a child of the keeper, which stays in its group.
fn spawn(command: &mut Command) -> std::io::Result<Box<dyn Launched>> {
    let _starts = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Box::new(KeptChild(command.spawn()?)))
}

/// Runs one program, whose standard input is this process's, and ends as it does.
fn keep_one(launch: &LaunchRequest) -> ! {
    let mut command = launch.command();
    let starts = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = match command.stdin(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{}: {error}", launch.program);
            std::process::exit(127)
        }
    };
    drop(starts);
    let (sender, lines) = std::sync::mpsc::channel::<Vec<u8>>();
    let input = child.stdin.take();
    // In a separate thread: a program that does not read must not hide the end of the tuner.
    std::thread::spawn(move || {
        let Some(mut input) = input else { return };
        for line in lines {
            if input.write_all(&line).and_then(|()| input.flush()).is_err() {
                // The program may go on without reading.
                break;
            }
        }
    });
    std::thread::spawn(move || {
        let mut from = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match from.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => end(None),
                Ok(_) => _ = sender.send(line),
            }
        }
    });
    let status = child.wait().ok();
    end(status)
}

/// Child of the keeper.
struct KeptChild(std::process::Child);

impl Launched for KeptChild {
    fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }
}

impl Drop for KeptChild {
    fn drop(&mut self) {
        end_descendants();
    }
}

/// Kills and reaps all descendants of this process, wherever they went. Gives up [`GONE`] after the
/// last one was found: a machine that is too busy to look at all processes in that time must not
/// let the next one live.
#[cfg(target_os = "linux")]
fn end_descendants() {
    use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};
    let (mut begun, mut killed) = (Instant::now(), Vec::new());
    while begun.elapsed() < GONE {
        // Waits for any child: `waitpid` without a number sees only children in this process's
        // group.
        match wait(WaitOptions::NOHANG) {
            // No child is left.
            Err(_) => return,
            Ok(Some(_)) => {}
            // Descendants of killed processes become children, and are found in the next round.
            Ok(None) => {
                for child in children(getpid().as_raw_nonzero().get()) {
                    if !killed.contains(&child) {
                        killed.push(child);
                        begun = Instant::now();
                    }
                    if let Some(child) = Pid::from_raw(child) {
                        let _ = kill_process(child, Signal::KILL);
                    }
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn end_descendants() {
    let _ = (GONE, Instant::now());
}

/// Returns the children of a process.
#[cfg(target_os = "linux")]
fn children(parent: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let is_child = |process: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // State and parent follow the name, which may hold brackets and blanks.
        let parent_of = |fields: &str| fields.split_whitespace().nth(1)?.parse::<i32>().ok();
        stat.rsplit_once(')')
            .and_then(|(_, fields)| parent_of(fields))
            == Some(parent)
    };
    processes.filter_map(number).filter(is_child).collect()
}
