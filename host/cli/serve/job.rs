//! One file, decoded by `ut-decode decode` in a process of its own: what crashes it, hangs it or takes all memory costs
//! that file only.
//!
//! The process writes into a folder of work. Only when it has ended well are the hits forced to the disk and moved, by
//! one rename, under their final name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::iter::once;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::CommandFactory;
use serde_json::Value;

use super::is_within_watched;
use super::journal::{Entry, now};
use super::watch::Mark;
use crate::cli::output::in_one_line;
use crate::cli::{Cli, config, error, paths};
use crate::decoder::{Count, Kind};

/// Bytes of what a process said that are looked at.
const MOST_SAID: usize = 4096;

/// How long a killed process is waited for. While a disk hangs, it may never end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The folder of the hits of files that break off, in the output folder.
const INCOMPLETE: &str = "incomplete";

/// What every job of a server shares.
#[derive(Debug)]
pub struct Plan {
    /// Program and first arguments that start the tool.
    pub again: Vec<OsString>,
    /// The settings file that the server started with; empty if there was none.
    pub settings: PathBuf,
    /// Options of `decode` that the user gave.
    pub options: Vec<OsString>,
    pub watch: PathBuf,
    pub output: PathBuf,
    /// Folder of work, for this server alone.
    pub work: PathBuf,
    /// Extension of the hits' files.
    pub format: String,
    pub by_run: bool,
    pub time_out: Duration,
}

/// A file that is being decoded.
#[derive(Debug)]
pub struct Job {
    pub file: String,
    pub mark: Mark,
    pub start: Instant,
    /// How often the file was tried before.
    pub attempts: u32,
    work: PathBuf,
    child: Child,
    /// It took too long and was killed, but may not have ended yet.
    killed: bool,
}

/// What became of a job.
#[derive(Debug)]
pub enum Outcome {
    /// To be entered into the journal.
    Ended(Entry),
    /// The output could not be written, or there was no memory: to be tried again, once there is room.
    Blocked(String),
    /// The process crashed or was killed.
    Crashed(String),
    /// The file changed or went meanwhile.
    Changed,
    /// The options make no sense, for any file.
    Usage(String),
}

impl Job {
    /// Starts a process for `file`; `number` is unique in this server.
    ///
    /// # Errors
    /// When its folder cannot be made or the process not be started.
    pub fn start(plan: &Plan, file: String, mark: Mark, attempts: u32, number: u64) -> io::Result<Self> {
        let work = plan.work.join(number.to_string());
        fs::create_dir(&work)?;
        let child = Self::spawn(plan, &file, &work).inspect_err(|_| {
            // What cannot be removed now goes at the next start.
            let _ = fs::remove_dir_all(&work);
        })?;
        Ok(Self { file, mark, start: Instant::now(), attempts, work, child, killed: false })
    }

    fn spawn(plan: &Plan, file: &str, work: &Path) -> io::Result<Child> {
        let said = File::create(work.join("said"))?;
        let none = || io::Error::other("how this program was started is not known");
        let (program, first) = plan.again.split_first().ok_or_else(none)?;
        let mut command = Command::new(program);
        let hits = work.join("hits").with_extension(&plan.format);
        command.args(first).args(arguments(&plan.options, &plan.watch.join(file), &hits, &work.join("summary.json")));
        // Even if there is none: a settings file that appears later must not change the hits.
        command.env(config::VARIABLE, &plan.settings);
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        #[cfg(unix)]
        // Ctrl-C is for the server, which ends its processes itself.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        #[cfg(target_os = "linux")]
        end_with_this_thread(&mut command);
        command.spawn()
    }

    /// What became of it, once it has ended.
    ///
    /// # Errors
    /// When the process cannot be asked.
    pub fn poll(&mut self, plan: &Plan) -> io::Result<Option<Outcome>> {
        let Some(status) = self.child.try_wait()? else {
            if self.start.elapsed() >= plan.time_out {
                // While a disk hangs, it ends hours later. The other files do not wait for it.
                let _ = self.child.kill();
                self.killed = true;
            }
            return Ok(None);
        };
        let outcome = if self.killed {
            Outcome::Crashed(format!("took longer than {} s", plan.time_out.as_secs_f64()))
        } else {
            self.outcome(plan, status).unwrap_or_else(|error| Outcome::Blocked(error.to_string()))
        };
        // What cannot be removed now goes at the next start.
        let _ = fs::remove_dir_all(&self.work);
        Ok(Some(outcome))
    }

    /// Kills the process and removes its files. If a disk hangs, the process may end later.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = fs::remove_dir_all(&self.work);
    }

    fn outcome(&self, plan: &Plan, status: ExitStatus) -> io::Result<Outcome> {
        let input = plan.watch.join(&self.file);
        if !fs::metadata(&input).is_ok_and(|there| Mark::of(&there) == self.mark) {
            return Ok(Outcome::Changed);
        }
        let (said, is_whole) = self.said(plan);
        let mut reason = match status.code() {
            Some(0) => None,
            // What it says is written to the same disk as its hits.
            Some(1 | 2) if !is_whole => {
                let why =
                    format!("a process ended with {status} and did not say why, as it does when the disk is full");
                return Ok(Outcome::Blocked(why));
            }
            Some(1) if is_of_machine(&said, &input) => return Ok(Outcome::Blocked(said)),
            Some(1) => Some(said),
            Some(2) => return Ok(Outcome::Usage(said)),
            _ => return Ok(Outcome::Crashed(format!("decoding ended with {status}: {said}"))),
        };
        let summary: Value = match fs::read(self.work.join("summary.json")) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if reason.is_some() && error.kind() == io::ErrorKind::NotFound => Value::Null,
            Err(error) => return Err(error),
        };
        let hits = self.work.join("hits").with_extension(&plan.format);
        let mut output = None;
        if hits.exists() {
            let incomplete = reason.is_some();
            let name = self.name(plan, &summary, incomplete);
            match publish(plan, &hits, &name, incomplete) {
                Ok(()) => output = Some(name),
                Err(error) if stays(&error) => {
                    let before = reason.map_or_else(String::new, |reason| reason + "; ");
                    reason = Some(format!("{before}cannot write {name}: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        let number = |key: &str| summary[key].as_u64().unwrap_or_default();
        let report = &summary["report"];
        let troubles: BTreeMap<String, u64> = Count::ALL
            .into_iter()
            .filter(|count| count.kind() == Kind::Trouble)
            .filter_map(|count| Some((count.name().to_owned(), report[count.name()].as_u64().filter(|&n| n > 0)?)))
            .collect();
        Ok(Outcome::Ended(Entry {
            file: self.file.clone(),
            mark: self.mark,
            output,
            reason,
            events: number("events"),
            hits: number("hits"),
            troubles,
            seconds: self.start.elapsed().as_secs_f64(),
            at: now(),
        }))
    }

    /// The final name of the hits, from the output folder.
    fn name(&self, plan: &Plan, summary: &Value, incomplete: bool) -> String {
        let mut name = format!("{}.{}", self.file, plan.format);
        if plan.by_run {
            let runs = summary["runs"].as_array().map_or(&[][..], Vec::as_slice);
            name = match runs {
                [] => format!("run=none/{name}"),
                [run] => format!("run={run}/{name}"),
                _ => format!("run=several/{name}"),
            };
        }
        if incomplete { format!("{INCOMPLETE}/{name}") } else { name }
    }

    /// What the process said last, without the word "error"; and whether it had room to say what the error is.
    fn said(&self, plan: &Plan) -> (String, bool) {
        let bytes = fs::read(self.work.join("said")).unwrap_or_default();
        let is_whole =
            bytes.ends_with(b"\n") && bytes.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"error: "));
        let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(MOST_SAID)..]).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("warning:")).map(str::trim).collect();
        // The first line may be the end of a warning.
        let begin = lines.iter().position(|line| line.starts_with("error: ")).unwrap_or(0);
        let hits = self.work.join("hits").with_extension(&plan.format).display().to_string();
        let text = lines[begin..].join(" ").replace(&hits, &format!("the hits of {}", self.file));
        (text.strip_prefix("error: ").unwrap_or(&text).to_owned(), is_whole)
    }
}

/// Arguments that decode one file.
fn arguments(options: &[OsString], input: &Path, hits: &Path, summary: &Path) -> Vec<OsString> {
    let first = ["decode", "--quiet", "--color", "never", "--threads", "1", "--output"].map(OsString::from);
    let files = [hits.into(), "--json".into(), summary.into()];
    let last = ["--".into(), input.into()];
    first.into_iter().chain(files).chain(options.iter().cloned()).chain(last).collect()
}

/// The files that these options make `decode` read.
///
/// # Errors
/// If they are not options of `decode`; if they change which files are read, or where and how hits are written: every file
/// would look decoded, and have wrong hits or none; if they name a second settings file.
pub fn read_by(options: &[OsString], has_config: bool) -> Result<Vec<PathBuf>, clap::Error> {
    let misplaced = |what: &str| {
        let why = "serve itself says which files are read, and where and in which form hits are written";
        error(&format!("{what} cannot stand after --: {why}"))
    };
    // A folder, which no output overwrites, stands for the files that serve itself names.
    let line = once("ut-decode".into()).chain(arguments(options, Path::new("."), Path::new("."), Path::new(".")));
    let matches = Cli::command().try_get_matches_from(line);
    let matches = matches.map_err(|error| if error.use_stderr() { error } else { misplaced("--help") })?;
    let Some((_, decode)) = matches.subcommand() else { return Ok(Vec::new()) };
    let named = ["files_from", "format", "partition"].into_iter().find(|name| decode.contains_id(name));
    // The last one is the input.
    let word = decode.get_raw("files").into_iter().flatten().rev().nth(1);
    let word = word.map(|word| in_one_line(&word.to_string_lossy()));
    if let Some(what) = named.map(|name| format!("--{}", name.replace('_', "-"))).or(word) {
        return Err(misplaced(&what));
    }
    let config = decode.get_one::<PathBuf>("config");
    if has_config && config.is_some() {
        return Err(error("--config is given both before and after --"));
    }
    let tables = config.map(|config| config::tables_in(config));
    Ok(paths::inputs(&matches).into_iter().chain(tables.into_iter().flatten()).collect())
}

/// Has the kernel end the process when the thread that starts it ends, however that happens: a server that was killed
/// cannot end its processes itself.
#[cfg(target_os = "linux")]
fn end_with_this_thread(command: &mut Command) {
    let server = std::process::id() as libc::pid_t;
    let ask = move || {
        // SAFETY: this call takes a number, and sets nothing but which signal this process gets when its parent ends.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: this call takes nothing and changes nothing.
        if unsafe { libc::getppid() } != server {
            // It ended before the signal was asked for.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only what is safe in a signal handler may run, as another thread may have held a lock:
    // `ask` makes two system calls and reads `errno`; it allocates nothing and takes no lock.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, ask) };
}

/// Whether a message of `decode` is about disk, memory or open files, which other processes take as well, and not about its
/// input: by its first words and by its last ones, because the name of the input may be anything.
fn is_of_machine(said: &str, input: &Path) -> bool {
    let about = ["cannot write ", "decoding with ", "no memory for ", "no room for "];
    let is_of_gpu = said.starts_with("GPU ") && said.contains(" bytes do not fit, ");
    let begins = is_of_gpu || about.into_iter().any(|words| said.starts_with(words));
    let begins = begins && !said.starts_with(&*input.to_string_lossy());
    // With --keep-going a second error follows.
    let first = said.split(" error: ").next().unwrap_or(said);
    begins || lacks().any(|why| first.ends_with(&why))
}

/// The last words of a message about a lack of memory, file descriptors or threads.
fn lacks() -> impl Iterator<Item = String> {
    #[cfg(unix)]
    let codes = [libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::EAGAIN];
    #[cfg(not(unix))]
    let codes = [];
    let of_system = codes.into_iter().map(|code| io::Error::from_raw_os_error(code).to_string());
    once(io::ErrorKind::OutOfMemory.to_string()).chain(of_system)
}

/// Whether an error stays until somebody gives the input another name, or moves what is in the way of its hits: other
/// files must not wait for that.
fn stays(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, CrossesDevices, DirectoryNotEmpty, InvalidFilename, IsADirectory, NotADirectory,
    };
    matches!(
        error.kind(),
        AlreadyExists | CrossesDevices | DirectoryNotEmpty | InvalidFilename | IsADirectory | NotADirectory
    )
}

/// Gives the hits their final name.
fn publish(plan: &Plan, hits: &Path, name: &str, incomplete: bool) -> io::Result<()> {
    let target = plan.output.join(name);
    let folder = target.parent().unwrap_or(&plan.output);
    if !incomplete && Path::new(name).parent().is_some_and(|folder| folder.starts_with(INCOMPLETE)) {
        let what = "hits of files that break off go there: give the watched folder of this name another one";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    // The hits are in the output folder: where that is gone, and a disk may be, this fails before it is made anew.
    File::open(hits)?.sync_all()?;
    let mut made = folder;
    while made != plan.output && !made.exists() {
        made = made.parent().unwrap_or(&plan.output);
    }
    if is_within_watched(made, &plan.watch, &plan.output) {
        let what = "it is inside the watched folder, and would overwrite an input, or be taken for one";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    fs::create_dir_all(folder)?;
    fs::rename(hits, &target)?;
    // The name, and the names of the folders that are new.
    let mut changed = Some(folder);
    while let Some(folder) = changed {
        File::open(folder)?.sync_all()?;
        changed = folder.parent().filter(|_| folder != made);
    }
    Ok(())
}

/// Removes the hits of a file's last entry, `old`, where the new entry has others or none: they are of a content that is
/// no longer there.
pub fn remove_old(plan: &Plan, old: Option<&str>, new: &Entry) -> io::Result<()> {
    let Some(old) = old.filter(|&old| new.output.as_deref() != Some(old)) else { return Ok(()) };
    let path = plan.output.join(old);
    let folder = path.parent().unwrap_or(&plan.output);
    // Somebody may have put a link there since.
    if is_within_watched(folder, &plan.watch, &plan.output) {
        return Ok(());
    }
    match fs::remove_file(&path) {
        Ok(()) => File::open(folder)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound || stays(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use super::{Job, Mark, Outcome, Plan, read_by, stays};

    /// What becomes of a file whose process is a shell with these lines, in which $8 are the hits.
    fn outcome(lines: &str) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        let [watch, output, work, script] = ["in", "out", "work", "decode.sh"].map(|name| folder.path().join(name));
        for folder in [&watch, &output, &work] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(watch.join("a.mdf"), "a").unwrap();
        fs::write(&script, lines).unwrap();
        let mark = Mark::of(&watch.join("a.mdf").metadata().unwrap());
        let again = vec!["sh".into(), script.into()];
        let time_out = Duration::from_mins(1);
        let (settings, options, format, by_run) = (PathBuf::new(), Vec::new(), "csv".to_owned(), false);
        let plan = Plan { again, settings, options, watch, output, work, format, by_run, time_out };
        let mut job = Job::start(&plan, "a.mdf".to_owned(), mark, 0, 1).unwrap();
        loop {
            if let Some(outcome) = job.poll(&plan).unwrap() {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_process_that_had_no_room_to_say_why_it_failed_is_tried_again() {
        for lines in [
            "exit 1",
            "exit 2",
            "echo 'warning: the last event is cut' >&2; exit 1",
            "printf 'error: in/a.mdf: the ev' >&2; exit 1",
        ] {
            let outcome = outcome(lines);
            assert!(matches!(&outcome, Outcome::Blocked(why) if why.contains("disk is full")), "{lines}: {outcome:?}");
        }
        let outcome = outcome("echo 'error: in/a.mdf: the event is cut' >&2; exit 1");
        let Outcome::Ended(entry) = outcome else { panic!("{outcome:?}") };
        assert_eq!(entry.reason.unwrap(), "in/a.mdf: the event is cut");
    }

    #[test]
    fn a_warning_is_no_part_of_the_reason() {
        let warning = "echo 'warning: in/a.mdf: events without banks' >&2";
        let outcome = outcome(&format!("{warning}; echo 'error: the event is cut' >&2; {warning}; exit 1"));
        let Outcome::Ended(entry) = outcome else { panic!("{outcome:?}") };
        assert_eq!(entry.reason.unwrap(), "the event is cut");
    }

    #[test]
    fn a_lack_of_memory_is_not_the_files_fault() {
        for said in [
            "decoding with 1 threads would take about 113 MB, but only 65 MB is available",
            "no memory for 8 bytes of work space for a batch of 64 events",
            "no room for 9 hits of 64 events: the system does not give 36 bytes",
            "GPU 0, A5000: buffers of 9 bytes do not fit, 8 bytes are free. Take smaller batches or fewer streams",
        ] {
            let outcome = outcome(&format!("echo 'error: {said}' >&2; exit 1"));
            assert!(matches!(&outcome, Outcome::Blocked(why) if why == said), "{outcome:?}");
        }
    }

    #[test]
    fn a_lack_of_memory_descriptors_or_threads_is_not_the_files_fault() {
        let codes = [libc::EMFILE, libc::ENFILE, libc::EAGAIN].map(io::Error::from_raw_os_error);
        for why in codes.iter().chain([&io::ErrorKind::OutOfMemory.into()]) {
            let error = format!("echo 'error: cannot open in/a.mdf\n  because: {why}' >&2");
            let said = format!("cannot open in/a.mdf because: {why}");
            let of_one = outcome(&format!("{error}; exit 1"));
            assert!(matches!(&of_one, Outcome::Blocked(why) if *why == said), "{of_one:?}");
            // With --keep-going.
            let of_all = "echo 'error: 1 of 1 files could not be read to their end' >&2";
            let of_one = outcome(&format!("{error}; {of_all}; exit 1"));
            assert!(matches!(&of_one, Outcome::Blocked(why) if why.starts_with(&said)), "{of_one:?}");
            // The name of a file may be anything.
            let of_one = outcome(&format!("echo 'error: because: {why}: not an MDF file' >&2; exit 1"));
            assert!(matches!(&of_one, Outcome::Ended(_)), "{of_one:?}");
        }
    }

    #[test]
    fn hits_that_cannot_be_written_are_called_by_their_input() {
        let outcome = outcome("printf \"error: cannot write $8\\n  because: no room\\n\" >&2; exit 1");
        let said = "cannot write the hits of a.mdf because: no room";
        assert!(matches!(&outcome, Outcome::Blocked(why) if why == said), "{outcome:?}");
    }

    #[test]
    fn what_nobody_but_the_user_can_move_is_not_waited_for() {
        for (code, expected) in
            [(libc::EXDEV, true), (libc::ENOTEMPTY, true), (libc::EISDIR, true), (libc::ENOSPC, false)]
        {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(stays(&error), expected, "{error}");
        }
    }

    #[test]
    fn options_that_change_inputs_or_outputs_are_misplaced() {
        let read_by = |words: &[&str], has_config| {
            let words: Vec<_> = words.iter().map(Into::into).collect();
            read_by(&words, has_config).map_err(|error| error.to_string())
        };
        for (words, expected) in [
            (&["--format", "csv"][..], "--format"),
            (&["--partition", "run"], "--partition"),
            (&["--files-from", "list"], "--files-from"),
            (&["--strict", "notes.txt"], "notes.txt"),
            (&["--help"], "--help"),
            (&["--"], "--"),
        ] {
            let error = read_by(words, false).unwrap_err();
            assert!(error.contains(&format!("{expected} cannot stand after --")), "{words:?}: {error}");
        }
        for words in [&["--clusters", "many"][..], &["--output", "x"], &["--columns"]] {
            assert!(read_by(words, false).is_err(), "{words:?}");
        }
        let config = &["--config", "c.toml"];
        assert!(read_by(config, false).is_ok());
        assert!(read_by(config, true).unwrap_err().contains("both before and after --"));
        let tables = read_by(&["--boards=b", "--geometry", "g", "--strict", "--columns", "run"], true).unwrap();
        for table in ["b", "g"] {
            assert!(tables.iter().any(|path| path == Path::new(table)), "{tables:?}");
        }
    }
}
