//! Child processes in groups of their own, which end with all that they have started.
//!
//! They also end when this process is told to end, or is killed: its keeper, a shell that outlives it, kills them then.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for the end of a killed process: inside a driver it may take forever.
const GONE: Duration = Duration::from_secs(5);

/// Longest time of trying to remove a build's folder: a killed program may still write into it for a moment.
const REMOVED: Duration = Duration::from_millis(300);

/// Script of the keeper. Reads the running groups (a line of numbers) and folders (`f` and a path) until its input ends
/// with this process; then kills the groups and removes the folders.
const KEEPER: &str = r#"trap '' HUP INT QUIT TERM
groups=
while IFS= read -r line; do
  case $line in
    f*) set -- "$@" "${line#f}" ;;
    *) groups=$line ;;
  esac
done
for group in $groups; do kill -9 "-$group"; done
for folder do rm -rf "$folder" || { sleep 0.2; rm -rf "$folder"; }; done"#;

/// Processes and folders that must not outlive this process.
struct Left {
    groups: Vec<u32>,
    folders: Vec<PathBuf>,
    keeper: Option<ChildStdin>,
}

static LEFT: Mutex<Left> = Mutex::new(Left { groups: Vec::new(), folders: Vec::new(), keeper: None });

impl Left {
    /// Writes a line to the keeper, and starts it if there is none. Errors are ignored: only a killed process needs it.
    fn tell(&mut self, line: &str) {
        if cfg!(unix) && self.keeper.is_none() {
            let mut command = Command::new("sh");
            command.args(["-c", KEEPER]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            // In a group of its own, where a signal to this process's group does not reach it.
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            self.keeper = command.spawn().ok().and_then(|mut keeper| keeper.stdin.take());
        }
        if let Some(keeper) = &mut self.keeper {
            let _ = keeper.write_all(format!("{line}\n").as_bytes());
        }
    }

    fn tell_groups(&mut self) {
        let groups: Vec<String> = self.groups.iter().map(ToString::to_string).collect();
        self.tell(&groups.join(" "));
    }
}

/// Returns the running groups.
pub(crate) fn running() -> Vec<u32> {
    left().groups.clone()
}

fn left() -> MutexGuard<'static, Left> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all running groups, and removes the folders of builds. Call before the process exits without destructors, as
/// on a signal.
///
/// Afterwards no group can be started or dropped: a thread that measures waits for the end of the process, so that it
/// does not take the killed program for a failed configuration.
pub fn end_all() {
    let left = left();
    left.groups.iter().for_each(|&group| kill(group));
    let begun = Instant::now();
    for folder in &left.folders {
        while std::fs::remove_dir_all(folder).is_err() && folder.exists() && begun.elapsed() < REMOVED {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // Stays locked.
    std::mem::forget(left);
}

/// Process that leads a group. The group ends with it: a program left in the background would disturb later
/// measurements.
pub(crate) struct Group(Child);

impl Group {
    /// Starts the process.
    pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut left = left();
        let child = command.spawn()?;
        left.groups.push(child.id());
        left.tell_groups();
        Ok(Self(child))
    }

    /// Returns the process.
    pub(crate) fn leader(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Returns the leader's exit status if it has ended, after killing the rest of the group.
    pub(crate) fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        match state(self.0.id()) {
            State::Runs => return Ok(None),
            // Before the leader is waited for, no other process gets its number.
            State::Ended => kill(self.0.id()),
            State::Unknown => {}
        }
        self.0.try_wait()
    }

    /// Kills the group, and waits for the leader.
    pub(crate) fn kill(&mut self) {
        if state(self.0.id()) == State::Runs {
            kill(self.0.id());
        }
        let _ = self.0.kill();
        let _ = self.ended();
    }

    /// Waits up to [`GONE`] for the end of the leader; `None` if it does not end, which must not stop the tuning.
    pub(crate) fn ended(&mut self) -> Option<std::io::Result<ExitStatus>> {
        let begun = Instant::now();
        loop {
            match self.try_wait() {
                Ok(None) if begun.elapsed() < GONE => std::thread::sleep(Duration::from_millis(1)),
                status => return status.transpose(),
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let mut left = left();
        left.groups.retain(|&group| group != self.0.id());
        left.tell_groups();
    }
}

/// State of a child.
#[derive(PartialEq, Eq)]
enum State {
    Runs,
    /// Ended, and not waited for.
    Ended,
    /// Waited for already, or not known.
    Unknown,
}

#[cfg(unix)]
fn state(child: u32) -> State {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match Pid::from_raw(child as i32).map(|child| waitid(WaitId::Pid(child), options)) {
        Some(Ok(None)) => State::Runs,
        Some(Ok(Some(_))) => State::Ended,
        Some(Err(_)) | None => State::Unknown,
    }
}

#[cfg(not(unix))]
fn state(_: u32) -> State {
    State::Unknown
}

#[cfg(unix)]
fn kill(group: u32) {
    if let Some(group) = rustix::process::Pid::from_raw(group as i32) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill(_: u32) {}

/// Temporary folder that is removed with this value, by [`end_all`], or by the keeper.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    /// Makes a folder.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut left = left();
        let folder = tempfile::tempdir()?;
        left.folders.push(folder.path().to_owned());
        if let Some(path) = folder.path().to_str().filter(|path| !path.contains('\n')) {
            left.tell(&format!("f{path}"));
        }
        Ok(Self(folder))
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        left().folders.retain(|folder| folder != self.0.path());
    }
}
