//! Child processes in separate process groups, which end with all that they have started.
//!
//! Programs are started by a [keeper](super::keeper), which also ends what left its group, and
//! outlives this process if that is killed. Without a keeper, they are children of this process:
//! its end kills their groups, but SIGKILL does not.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for the end of a killed process: inside a driver it may take forever.
pub(super) const GONE: Duration = Duration::from_secs(5);

/// Longest time of trying to remove a build's folder: a killed program may still write into it for
/// a moment.
const REMOVED: Duration = Duration::from_millis(300);

/// Processes and folders that must not outlive this process.
struct Cleanup {
    /// Each group, and true if its leader is a keeper.
    groups: Vec<(u32, bool)>,
    folders: Vec<PathBuf>,
}

static LEFT: Mutex<Cleanup> = Mutex::new(Cleanup {
    groups: Vec::new(),
    folders: Vec::new(),
});

/// Returns the running groups, including the keepers' groups.
pub(crate) fn running() -> Vec<u32> {
    left().groups.iter().map(|(group, _)| *group).collect()
}

/// Returns the folders of builds.
pub(super) fn folders() -> Vec<PathBuf> {
    left().folders.clone()
}

fn left() -> MutexGuard<'static, Cleanup> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all programs without a keeper, and removes the folders of builds. Call before the process
/// exits without destructors, as on a signal. Keepers end their programs as soon as this process is
/// gone.
///
/// Afterwards no group can be started or dropped: a thread that measures waits for the end of the
/// process, so that it does not take the killed program for a failed configuration.
pub fn end_all() {
    let left = left();
    left.groups
        .iter()
        .filter(|(_, keeps)| !keeps)
        .for_each(|&(group, _)| kill(group));
    remove(&left.folders);
    // Stays locked.
    std::mem::forget(left);
}

/// Removes folders, also while a killed program still writes into them for a moment.
pub(super) fn remove(folders: &[PathBuf]) {
    let begun = Instant::now();
    for folder in folders {
        while std::fs::remove_dir_all(folder).is_err()
            && folder.exists()
            && begun.elapsed() < REMOVED
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Process that leads a group. The group ends with it: a program left in the background would
/// disturb later measurements.
pub(crate) struct ProcessGroup {
    leader: Child,
    /// True if the leader is a keeper, which ends with its input.
    keeps: bool,
}

impl ProcessGroup {
    /// Starts the process.
    pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Self> {
        Self::start(command, false)
    }

    /// Starts a keeper. Its input must be closed before the group is dropped.
    pub(super) fn spawn_keeper(command: &mut Command) -> std::io::Result<Self> {
        Self::start(command, true)
    }

    fn start(command: &mut Command, keeps: bool) -> std::io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut left = left();
        let leader = command.spawn()?;
        left.groups.push((leader.id(), keeps));
        Ok(Self { leader, keeps })
    }

    /// Returns the process.
    pub(crate) fn leader(&mut self) -> &mut Child {
        &mut self.leader
    }

    /// Returns the leader's exit status if it has ended, after killing the rest of the group.
    pub(crate) fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        match state(self.leader.id()) {
            ChildState::Runs => return Ok(None),
            // Before the leader is waited for, no other process gets its number.
            ChildState::Ended => kill(self.leader.id()),
            ChildState::Unknown => {}
        }
        self.leader.try_wait()
    }

    /// Kills the group, and waits for the leader. A keeper may first end what left its group.
    pub(crate) fn kill(&mut self) {
        if self.keeps {
            let _ = self.ended();
        }
        if state(self.leader.id()) == ChildState::Runs {
            kill(self.leader.id());
        }
        let _ = self.leader.kill();
        let _ = self.ended();
    }

    /// Waits up to [`GONE`] for the end of the leader; `None` if it does not end, which must not
    /// stop the tuning.
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

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
        left()
            .groups
            .retain(|&(group, _)| group != self.leader.id());
    }
}

/// State of a child.
#[derive(PartialEq, Eq)]
enum ChildState {
    Runs,
    /// Ended, and not waited for.
    Ended,
    /// Waited for already, or not known.
    Unknown,
}

#[cfg(unix)]
fn state(child: u32) -> ChildState {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match Pid::from_raw(child as i32).map(|child| waitid(WaitId::Pid(child), options)) {
        Some(Ok(None)) => ChildState::Runs,
        Some(Ok(Some(_))) => ChildState::Ended,
        Some(Err(_)) | None => ChildState::Unknown,
    }
}

#[cfg(not(unix))]
fn state(_: u32) -> ChildState {
    ChildState::Unknown
}

#[cfg(unix)]
fn kill(group: u32) {
    if let Some(group) = rustix::process::Pid::from_raw(group as i32) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill(_: u32) {}

/// Temporary folder that is removed with this value, by [`end_all`], or by a keeper.
pub(crate) struct BuildFolder(tempfile::TempDir);

impl BuildFolder {
    /// Makes a folder.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut left = left();
        let folder = tempfile::tempdir()?;
        left.folders.push(folder.path().to_owned());
        Ok(Self(folder))
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

impl Drop for BuildFolder {
    fn drop(&mut self) {
        left().folders.retain(|folder| folder != self.0.path());
    }
}
