//! `ut-decode serve`: files appear in a folder, their hits go into another, for weeks.
//!
//! One thread looks at the folder, starts a process for each file that is complete, and enters what became of it into a
//! journal. Everything that may stop a server (a crash, a full disk, a folder that is gone) leaves the journal and whole
//! outputs; the next start, or the next free byte, goes on from there.

mod job;
mod journal;
mod state;
mod watch;

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use glob::Pattern;

use self::job::{Job, Outcome, Plan};
use self::journal::{Entry, Journal};
use self::state::State;
use self::watch::{Found, Mark, Watch};
use crate::cli::output::{count, detail, in_one_line, is_stdout, print, say, write_file, write_json};
use crate::cli::paths::Protected;
use crate::cli::{Failure, INVOCATION, config, exit, signals, usage};
use crate::output::{NewFile, place_of};

/// Where a server keeps what is its own, in the output folder.
const OWN: &str = ".serve";

/// Shortest time between two looks at the folder.
const LOOK: Duration = Duration::from_millis(500);

/// A look may take this share of the time.
const SHARE_OF_LOOKING: u32 = 20;

/// Time between two files of state, and the longest that a server that waits for nothing sleeps.
const SAY: Duration = Duration::from_secs(2);

/// Time between two looks at the processes.
const TURN: Duration = Duration::from_millis(5);

/// Longest time between two attempts to write to what could not be written to.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often a file whose process crashes is tried.
const ATTEMPTS: u32 = 3;

/// Failures that the screen lists, and paths that could not be looked at.
const LISTED: usize = 10;

/// Decode files as they appear in a folder.
///
/// A file is complete when it has not changed for some seconds, or at once when it had a temporary name before (hidden, or
/// ending in .part, .tmp or ~). Each is decoded by `decode` in a process of its own; hits appear under their name when
/// they are whole, as PATH.parquet for the input PATH. What was done is in DIR/.serve/journal.jsonl: a server that was
/// killed continues where it stopped. A file that cannot be decoded to its end is listed with the reason; what could be
/// decoded of it goes to DIR/incomplete.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Args {
    /// The folder to watch, with the folders inside.
    #[arg(long, value_name = "DIR", required_unless_present = "status")]
    watch: Option<PathBuf>,
    /// The folder for the hits; it is made if it is not there.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Print the state of the server on this output folder, and end.
    #[arg(long)]
    status: bool,
    /// With --status: write it as JSON here; - is standard output.
    #[arg(long, value_name = "FILE", requires = "status")]
    json: Option<PathBuf>,
    /// Take files whose path fits this pattern.
    #[arg(long = "match", value_name = "PATTERN", default_value = "*")]
    pattern: Pattern,
    /// A file that has not changed for so many seconds is complete.
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    settle: f64,
    /// Files that are decoded at a time [default: one a core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Seconds that one file may take, more than 0; then its process is ended.
    #[arg(long, value_name = "S", default_value_t = 3600.0, value_parser = time_out)]
    time_out: f64,
    /// Format of the hits.
    #[arg(long, value_name = "NAME", default_value = "parquet", value_parser = PossibleValuesParser::new(["csv", "parquet"]))]
    format: String,
    /// Put the hits of a file into run=N, by the run of its events.
    #[arg(long)]
    by_run: bool,
    /// Write the state as metrics for Prometheus here, by rename.
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Try the files again that failed before.
    #[arg(long)]
    retry_failed: bool,
    /// End when everything that is there has been decoded.
    #[arg(long)]
    once: bool,
    /// Options of decode for every file, after --.
    #[arg(last = true, value_name = "OPTIONS OF DECODE")]
    options: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=1e7).contains(seconds));
    seconds.ok_or_else(|| "it is a number of seconds from 0 to 10000000".to_owned())
}

fn time_out(text: &str) -> Result<f64, String> {
    let time = seconds(text)?;
    if time > 0.0 { Ok(time) } else { Err("every file would take too long: it must be above 0".to_owned()) }
}

pub fn run(args: &Args, has_config: bool) -> Result<(), Failure> {
    if args.status {
        return status(&args.output, args.json.as_deref());
    }
    let watch = args.watch.as_ref().ok_or("--watch is missing")?;
    if args.metrics.as_deref().is_some_and(is_stdout) {
        usage("--metrics is a file");
    }
    if watch.canonicalize().is_ok_and(|watch| args.output.canonicalize().is_ok_and(|output| output == watch)) {
        usage("--output is the watched folder: hits would overwrite inputs, or be taken for some");
    }
    if args.metrics.as_deref().is_some_and(|metrics| is_watched(metrics, watch, &args.output)) {
        usage("--metrics is inside the watched folder: it would overwrite an input, or be taken for one");
    }
    if args.metrics.as_deref().is_some_and(|metrics| metrics.metadata().is_ok_and(|there| !there.is_file())) {
        usage("--metrics is there and not a regular file: to write to a FIFO or a device may take for ever");
    }
    let read = job::read_by(&args.options, has_config).unwrap_or_else(|error| exit(&error, None));
    if let Some(Err(message)) = args.metrics.as_deref().map(|metrics| Protected::inputs(&read).check(metrics)) {
        usage(&format!("--metrics {message}"));
    }
    let listed = fs::read_dir(watch).map_err(|error| cannot("watch", watch, &error))?;
    drop(listed);
    let mut server = Server::new(args, watch)?;
    if let Some(metrics) = &args.metrics {
        NewFile::check(metrics)?;
    }
    signals::end_gently();
    say(&format!("watching {}; hits go to {}", watch.display(), args.output.display()));
    let failed = server.serve()?;
    if signals::interrupted() {
        server.stop();
        say(&format!("stopped after {}", count(server.state.files_since_start as usize, "file")));
        signals::end();
    }
    let unread = server.state.unread;
    match (failed, unread) {
        (0, 0) => Ok(()),
        (0, _) => Err(format!("{} could not be looked at", count(unread, "path")).into()),
        (_, 0) => Err(format!("{} could not be decoded to the end", count(failed, "file")).into()),
        _ => {
            let (files, paths) = (count(failed, "file"), count(unread, "path"));
            Err(format!("{files} could not be decoded to the end, and {paths} could not be looked at").into())
        }
    }
}

/// Whether a file is in the watched folder, but not in an output folder inside it.
fn is_watched(file: &Path, watch: &Path, output: &Path) -> bool {
    // A link there could be taken for an input, and one that leads there overwrites one.
    let places = [std::path::absolute(file).ok(), place_of(file)];
    let mut folders = places.iter().flatten().filter_map(|file| file.parent());
    folders.any(|folder| is_within_watched(folder, watch, output))
}

/// Whether a folder is the watched one or inside it, but not in an output folder inside it.
fn is_within_watched(folder: &Path, watch: &Path, output: &Path) -> bool {
    let (Ok(folder), Ok(watch)) = (folder.canonicalize(), watch.canonicalize()) else { return false };
    let among_hits = output
        .canonicalize()
        .is_ok_and(|output| output != watch && output.starts_with(&watch) && folder.starts_with(output));
    folder.starts_with(watch) && !among_hits
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    format!("cannot {what} {}: {error}", path.display()).into()
}

/// Takes the output folder for this server; `None` while another one has it.
fn lock(own: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(own.join("lock"))?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            // It may be somebody who only asks, and has it for a moment.
            Err(TryLockError::WouldBlock) if start.elapsed() < LOOK => thread::sleep(TURN),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Whether a server has the output folder. Nothing is written: to ask, one need not be allowed to.
fn is_taken(own: &Path) -> io::Result<bool> {
    let file = match File::open(own.join("lock")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn status(output: &Path, json: Option<&Path>) -> Result<(), Failure> {
    let own = output.join(OWN);
    if !own.is_dir() {
        return Err(format!("{}: no server has had this output folder", output.display()).into());
    }
    let alive = is_taken(&own).map_err(|error| cannot("open the lock in", &own, &error))?;
    let path = own.join("journal.jsonl");
    let journal = Journal::read(path.clone()).map_err(|error| cannot("read", &path, &error))?;
    let age =
        own.join(State::FILE).metadata().ok().and_then(|there| there.modified().ok()).and_then(|at| at.elapsed().ok());
    let state = State::read(&own);
    let failures = journal.failures(LISTED).map_err(|error| cannot("read", &path, &error))?;
    if let Some(path) = json {
        let mut value = state::json(&state.clone().unwrap_or_default(), journal.sums());
        value["alive"] = alive.into();
        value["failures"] = serde_json::to_value(&failures)?;
        return write_json(path, &value);
    }
    print(&state::text(state.as_ref(), journal.sums(), &failures, alive, age.map(|age| age.as_secs_f64())))
}

/// A file that waits for its turn.
struct Waiting {
    file: String,
    mark: Mark,
    attempts: u32,
}

/// What could not be written to, and when it is tried again.
struct Pause {
    reason: String,
    length: Duration,
    until: Instant,
}

struct Server {
    plan: Plan,
    watch: Watch,
    journal: Journal,
    jobs: usize,
    once: bool,
    metrics: Option<PathBuf>,
    /// Held as long as the server lives.
    _lock: File,
    start: Instant,
    queue: VecDeque<Waiting>,
    /// Files in the queue, running or pending.
    taken: HashSet<String>,
    running: Vec<Job>,
    /// Entries that could not be written yet.
    pending: Vec<Entry>,
    started: u64,
    pause: Option<Pause>,
    /// Whether the watched folder could not be listed.
    gone: bool,
    /// Whether a file changed while it was decoded since the last look: only another one finds it again.
    look_again: bool,
    state: State,
}

impl Server {
    fn new(args: &Args, watch: &Path) -> Result<Self, Failure> {
        let own = args.output.join(OWN);
        fs::create_dir_all(&own).map_err(|error| cannot("make", &own, &error))?;
        let inside = |file: &Path| Some(place_of(file)?.starts_with(own.canonicalize().ok()?));
        if args.metrics.as_deref().and_then(inside) == Some(true) {
            usage("--metrics is inside the folder that the server keeps for itself: it could overwrite the journal");
        }
        let lock = lock(&own).map_err(|error| cannot("lock", &own, &error))?;
        let Some(lock) = lock else {
            return Err(format!("{}: another server has this output folder", args.output.display()).into());
        };
        let watched = std::path::absolute(watch).map_err(|error| cannot("watch", watch, &error))?.display().to_string();
        // The folder may have got another name, and a link of the same name may lead to another folder every day.
        if let Some(State { watch: before, .. }) = State::read(&own)
            && before != watched
            && let (Ok(old), Ok(new)) = (Path::new(&before).canonicalize(), watch.canonicalize())
            && old != new
        {
            let output = args.output.display();
            let why = "files of the same name would overwrite them";
            return Err(format!("{output} has the hits of {before}, and {why}: give --output another folder").into());
        }
        // The work of servers that were killed.
        for entry in fs::read_dir(&own).map_err(|error| cannot("read", &own, &error))?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"work-") {
                fs::remove_dir_all(entry.path()).map_err(|error| cannot("remove", &entry.path(), &error))?;
            }
        }
        let work = own.join(format!("work-{}", std::process::id()));
        fs::create_dir(&work).map_err(|error| cannot("make", &work, &error))?;
        let path = own.join("journal.jsonl");
        let mut journal = Journal::open(path.clone()).map_err(|error| cannot("read", &path, &error))?;
        if args.retry_failed {
            let failed = journal.forget_failures();
            detail(&format!("{} are tried again", count(failed, "file")));
        }
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let plan = Plan {
            again: INVOCATION.get().map(|invocation| invocation.again.clone()).unwrap_or_default(),
            settings: config::file().unwrap_or(Path::new("")).to_path_buf(),
            options: args.options.clone(),
            watch: watch.to_path_buf(),
            output: args.output.clone(),
            work,
            format: args.format.clone(),
            by_run: args.by_run,
            time_out: Duration::from_secs_f64(args.time_out),
        };
        let settle = Duration::from_secs_f64(args.settle);
        Ok(Self {
            watch: Watch::new(watch, args.pattern.clone(), settle, &args.output),
            plan,
            journal,
            jobs: args.jobs.map_or(cores, usize::from),
            once: args.once,
            metrics: args.metrics.clone(),
            _lock: lock,
            start: Instant::now(),
            queue: VecDeque::new(),
            taken: HashSet::new(),
            running: Vec::new(),
            pending: Vec::new(),
            started: 0,
            pause: None,
            gone: false,
            look_again: false,
            state: State { pid: std::process::id(), watch: watched, ..State::default() },
        })
    }

    /// Serves until it is told to end, or with `--once` until nothing is left; how many files failed.
    fn serve(&mut self) -> Result<usize, Failure> {
        let failed_before = self.journal.sums().failed;
        let (mut next_look, mut next_word) = (Instant::now(), Instant::now());
        while !signals::interrupted() {
            let now = Instant::now();
            if now >= next_look {
                self.look();
                next_look = now + until_next_look(now.elapsed());
            }
            self.reap()?;
            self.fill();
            if now >= next_word {
                self.tell();
                next_word = now + SAY;
            }
            let idle = self.queue.is_empty() && self.running.is_empty() && self.pending.is_empty();
            // The file that had to wait may have been removed or replaced.
            if idle && self.pause.take().is_some() {
                say("no file is waiting any more");
            }
            if self.once && idle && self.state.unsettled == 0 && !self.gone && !self.look_again {
                break;
            }
            let wake = if self.running.is_empty() { next_look.min(next_word) } else { now + TURN };
            thread::sleep(wake.saturating_duration_since(Instant::now()).min(LOOK));
        }
        self.tell();
        Ok((self.journal.sums().failed - failed_before) as usize)
    }

    /// Looks for files that are complete.
    fn look(&mut self) {
        let Self { journal, taken, .. } = self;
        let known = |file: &str, mark: Mark| taken.contains(file) || journal.knows(file, mark);
        match self.watch.look(known) {
            Ok(Found { complete, unsettled, unread, odd }) => {
                if std::mem::take(&mut self.gone) {
                    say(&format!("{} is back", self.plan.watch.display()));
                }
                for path in odd {
                    say(&format!("warning: {} is left out: {}", in_one_line(&path.to_string_lossy()), unread[&path]));
                }
                (self.state.unsettled, self.state.unread, self.look_again) = (unsettled, unread.len(), false);
                let listed = unread.into_iter().take(LISTED);
                self.state.unread_paths =
                    listed.map(|(path, why)| (path.to_string_lossy().into_owned(), why)).collect();
                self.taken.extend(complete.iter().map(|(file, _)| file.clone()));
                self.queue.extend(complete.into_iter().map(|(file, mark)| Waiting { file, mark, attempts: 0 }));
            }
            Err(error) if !self.gone => {
                self.gone = true;
                say(&format!("warning: cannot watch {}: {error}; waiting for it", self.plan.watch.display()));
            }
            Err(_) => {}
        }
    }

    /// Takes what has ended.
    fn reap(&mut self) -> Result<(), Failure> {
        let mut i = 0;
        while i < self.running.len() {
            let Some(outcome) = self.running[i].poll(&self.plan)? else {
                i += 1;
                continue;
            };
            let job = self.running.swap_remove(i);
            let (file, mark, attempts) = (job.file.clone(), job.mark, job.attempts + 1);
            match outcome {
                Outcome::Ended(entry) => {
                    if let Some(reason) = &entry.reason {
                        say(&format!("warning: {}: {reason}", in_one_line(&file)));
                    }
                    self.pending.push(entry);
                }
                Outcome::Blocked(reason) => {
                    // Behind the others: what is in its way may not be in theirs.
                    self.queue.push_back(Waiting { file, mark, attempts: job.attempts });
                    self.wait_for(reason);
                }
                Outcome::Crashed(reason) if attempts < ATTEMPTS => {
                    detail(&format!("{file}: {reason}; trying again"));
                    self.queue.push_back(Waiting { file, mark, attempts });
                }
                Outcome::Crashed(reason) => {
                    say(&format!("warning: {}: {reason}", in_one_line(&file)));
                    self.pending.push(Entry::crashed(file, mark, &reason, job.start.elapsed()));
                }
                Outcome::Changed => {
                    detail(&format!("{file} changed or went while it was decoded"));
                    self.taken.remove(&file);
                    self.look_again = true;
                }
                Outcome::Usage(message) => return Err(message.into()),
            }
        }
        while let Some(entry) = self.pending.first_mut() {
            if self.pause.as_ref().is_some_and(|pause| Instant::now() < pause.until) {
                break;
            }
            // If the same content fails and gives no hits this time, its old hits stay.
            if entry.reason.is_some() && entry.output.is_none() && self.journal.mark(&entry.file) == Some(entry.mark) {
                entry.output = self.journal.output(&entry.file).map(str::to_owned);
            }
            // Old hits go first: the new entry no longer names them, so that nobody would do it after a crash.
            let entered = job::remove_old(&self.plan, self.journal.output(&entry.file), entry)
                .map_err(|error| format!("cannot remove old hits of {}: {error}", in_one_line(&entry.file)))
                .and_then(|()| {
                    let entered = self.journal.enter(entry.clone());
                    entered.map_err(|error| format!("cannot write the journal: {error}"))
                });
            if let Err(reason) = entered {
                self.wait_for(reason);
                break;
            }
            self.state.files_since_start += 1;
            self.state.events_since_start += entry.events;
            let entry = self.pending.remove(0);
            self.taken.remove(&entry.file);
            if self.pause.take().is_some() {
                say("writing again");
            }
        }
        Ok(())
    }

    /// Starts what there is room for; one file at a time while nothing could be written.
    fn fill(&mut self) {
        let limit = match &self.pause {
            Some(pause) if Instant::now() < pause.until => return,
            Some(_) => 1,
            None => self.jobs,
        };
        while self.running.len() < limit && self.pending.is_empty() {
            let Some(Waiting { file, mark, attempts }) = self.queue.pop_front() else { return };
            self.started += 1;
            match Job::start(&self.plan, file.clone(), mark, attempts, self.started) {
                Ok(job) => self.running.push(job),
                Err(error) => {
                    self.queue.push_front(Waiting { file, mark, attempts });
                    self.wait_for(format!("cannot begin work in {}: {error}", self.plan.work.display()));
                    return;
                }
            }
        }
    }

    /// Waits with everything that writes, each time longer.
    fn wait_for(&mut self, reason: String) {
        let (now, before) = (Instant::now(), self.pause.take());
        if before.as_ref().is_none_or(|before| before.reason != reason) {
            say(&format!("warning: {reason}; waiting"));
        }
        let (length, until) = match before {
            // Processes that fail together count as one attempt.
            Some(before) if now < before.until => (before.length, before.until),
            before => {
                let length = before.map_or(LOOK, |before| (before.length * 2).min(LONGEST_PAUSE));
                (length, now + length)
            }
        };
        self.pause = Some(Pause { reason, length, until });
    }

    /// Writes the files of state. They are not worth waiting for: the next turn writes them again.
    fn tell(&mut self) {
        self.state.up_seconds = self.start.elapsed().as_secs_f64();
        self.state.waiting = self.queue.len();
        self.state.running =
            self.running.iter().map(|job| (job.file.clone(), job.start.elapsed().as_secs_f64())).collect();
        let gone = self.gone.then(|| format!("{} cannot be listed", self.plan.watch.display()));
        self.state.blocked = self.pause.as_ref().map(|pause| pause.reason.clone()).or(gone);
        let _ = write_json(&self.plan.output.join(OWN).join(State::FILE), &self.state);
        if let Some(path) = &self.metrics {
            let _ = write_file(path, state::metrics(&self.state, self.journal.sums()));
        }
    }

    /// Ends the processes and removes their work.
    fn stop(&mut self) {
        for job in &mut self.running {
            job.stop();
        }
        let _ = fs::remove_dir_all(&self.plan.work);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How long after the start of a look the next one starts. Looks take a small share of the time, but after a disk has hung the
/// next one comes soon.
fn until_next_look(took: Duration) -> Duration {
    LOOK.max((took * SHARE_OF_LOOKING).min(took + LONGEST_PAUSE))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use std::path::Path;
    use std::time::{Duration, Instant};

    use clap::Parser as _;

    use super::{Args, Pause, Server, until_next_look};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// A server on a folder with one file, for which a shell with these lines stands for the tool: $8 are the hits, ${10} is
    /// the summary and $last the input.
    fn server(folder: &Path, lines: &str) -> Server {
        let [watch, output, script] = ["in", "out", "decode.sh"].map(|name| folder.join(name));
        fs::create_dir(&watch).unwrap();
        fs::write(watch.join("a"), "a").unwrap();
        fs::write(&script, format!("for last; do :; done\n{lines}")).unwrap();
        let words = ["serve", "--settle", "0", "--once", "--watch"].map(Into::into);
        let line = words.into_iter().chain([watch.clone().into(), "--output".into(), output.into_os_string()]);
        let args = Line::parse_from(line).args;
        let mut server = Server::new(&args, &watch).unwrap();
        server.plan.again = vec!["sh".into(), script.into()];
        server
    }

    #[test]
    fn a_file_that_changes_while_the_last_one_is_decoded_is_decoded_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        // The first time the input grows meanwhile.
        let lines = "[ -e \"$0.once\" ] || { : > \"$0.once\"; echo b >> \"$last\"; }\n\
                     echo '{\"events\": 7}' > \"${10}\"\n";
        let mut server = server(folder.path(), lines);
        assert_eq!(server.serve().unwrap(), 0);
        assert_eq!((server.journal.sums().done, server.journal.sums().bytes), (1, 3));
    }

    #[test]
    fn a_server_whose_blocked_file_goes_no_longer_says_that_it_waits() {
        let folder = tempfile::tempdir().unwrap();
        let lines = "[ ! -e \"$0.once\" ] || rm \"$last\"\n: > \"$0.once\"\necho 'error: cannot write x' >&2; exit 1\n";
        let mut server = server(folder.path(), lines);
        assert_eq!(server.serve().unwrap(), 0);
        assert_eq!((server.started, &server.state.blocked), (2, &None));
    }

    #[test]
    fn processes_that_fail_together_lengthen_the_pause_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = server(folder.path(), "");
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let until = now + Duration::from_hours(1);
        server.pause = Some(Pause { reason: "one".to_owned(), length: second, until });
        server.wait_for("two".to_owned());
        let pause = server.pause.as_ref().unwrap();
        assert_eq!((pause.reason.as_str(), pause.length, pause.until), ("two", second, until));
        // One that has run out.
        server.pause = Some(Pause { reason: "two".to_owned(), length: second, until: now });
        server.wait_for("two".to_owned());
        assert_eq!(server.pause.as_ref().unwrap().length, 2 * second);
    }

    #[test]
    fn looking_takes_a_small_share_of_the_time_and_a_disk_that_hung_is_looked_at_soon() {
        let after = |ms| until_next_look(Duration::from_millis(ms)).as_millis();
        assert_eq!([0, 10, 100, 6_000, 1_800_000].map(after), [500, 500, 2_000, 36_000, 1_830_000]);
    }
}
