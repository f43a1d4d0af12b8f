//! Processes in groups of their own: what a shell has started ends with it, also when this process is told to end, or is
//! killed. Then its keeper ends them, a shell that outlives it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that a killed process may take to end: inside a driver, forever.
const GONE: Duration = Duration::from_secs(5);

/// Time for which the removal of a build's folder is tried: what was killed may still write into it for a moment.
const REMOVED: Duration = Duration::from_millis(300);

/// Reads the groups that run now (a line of numbers) and folders (`f` and a path) until its input ends, which is when this
/// process has ended, whatever ended it.
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
    /// Tells the keeper, which is started if there is none. Where it cannot be, only a killed process leaves something.
    fn tell(&mut self, line: &str) {
        if cfg!(unix) && self.keeper.is_none() {
            let mut command = Command::new("sh");
            command.args(["-c", KEEPER]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            // A signal to this process's group does not reach it.
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

/// The groups that run now.
pub(crate) fn running() -> Vec<u32> {
    left().groups.clone()
}

fn left() -> MutexGuard<'static, Left> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every program that is being measured with all that it has started, and removes what was built, before this
/// process ends at once, as by a signal: no destructor runs then.
///
/// Afterwards nothing can be started any more. A thread that measures waits for the end of the process, so that what was
/// ended here is not taken for a failure of its configuration.
pub fn end_all() {
    let left = left();
    left.groups.iter().for_each(|&group| kill(group));
    let begun = Instant::now();
    for folder in &left.folders {
        while std::fs::remove_dir_all(folder).is_err() && folder.exists() && begun.elapsed() < REMOVED {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // Never unlocked again.
    std::mem::forget(left);
}

/// A process that leads a group, which ends with it: what a program left in the background would go on beside the
/// measurements of the next one.
pub(crate) struct Group(Child);

impl Group {
    /// Starts it.
    pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut left = left();
        let child = command.spawn()?;
        left.groups.push(child.id());
        left.tell_groups();
        Ok(Self(child))
    }

    /// The process itself.
    pub(crate) fn leader(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Returns the leader's exit status, if it has ended. The others of the group are killed then.
    pub(crate) fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        match state(self.0.id()) {
            State::Runs => return Ok(None),
            // As long as it has not been waited for, no other process gets its number.
            State::Ended => kill(self.0.id()),
            State::Unknown => {}
        }
        self.0.try_wait()
    }

    /// Kills all of the group. Afterwards its leader is neither running nor a zombie.
    pub(crate) fn kill(&mut self) {
        if state(self.0.id()) == State::Runs {
            kill(self.0.id());
        }
        let _ = self.0.kill();
        let _ = self.ended();
    }

    /// Waits for a leader that has no reason to live any more; `None` if the system does not let go of it, which must
    /// not stop the tuning.
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
    /// It has ended, and has not been waited for.
    Ended,
    /// Somebody has waited for it, or the system does not say.
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

/// A temporary folder that is removed with this value, or by [`end_all`].
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    /// Makes it.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut left = left();
        let folder = tempfile::tempdir()?;
        left.folders.push(folder.path().to_owned());
        if let Some(path) = folder.path().to_str().filter(|path| !path.contains('\n')) {
            left.tell(&format!("f{path}"));
        }
        Ok(Self(folder))
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        left().folders.retain(|folder| folder != self.0.path());
    }
}
