//! Everything that goes from piece to piece of the inputs, in their order: sums, what was wrong, and the output.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::outputs::{Outputs, Story, Written};
use super::sets::Sets;
use super::work::{Batch, Done};
use crate::bench::Machine;
use crate::cli::Failure;
use crate::cli::args::{flip_name, layout_name, position_name};
use crate::cli::detector::{Detector, SYNTHETIC};
use crate::cli::output::say;
use crate::cli::progress::Progress;
use crate::cli::signals;
use crate::cli::summary::Totals;
use crate::decoder::Backend;
use crate::error::{WorkError, with_causes};
use crate::input::{Seen, version_in_words};
use crate::{DecodeOptions, Layout};

/// Files that could not be read which are listed at the end.
pub const LISTED_FAILURES: usize = 100;

/// Runs that the summary lists.
const LISTED_RUNS: usize = 100;

/// Everything that goes from piece to piece, in their order.
pub struct Job<'a> {
    pub detector: &'a Detector,
    pub keep_going: bool,
    /// Parameter sets of several workloads, if there are.
    pub sets: Option<Arc<Sets>>,
    pub outputs: Option<Outputs>,
    /// What an output that failed had written before.
    pub written: Written,
    pub totals: Totals,
    pub progress: Option<Progress>,
    pub read: Arc<AtomicU64>,
    pub start: Instant,
    pub seen: Seen,
    /// Whether the user was told that the detector is synthetic, or it is not.
    pub warned: bool,
    pub copied: u64,
    pub runs: BTreeSet<u32>,
    pub failures: Vec<Failure>,
    /// Files that could not be read to their end.
    pub failed: usize,
    /// The last of them: what is wrong with it may be said more than once.
    pub last_failed: Option<usize>,
    /// Why the job ended before the end of the inputs, if it did.
    pub stop: Option<Stop>,
}

/// Why a job ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Something failed.
    Failure,
    /// The reader of an output has enough of it.
    ReaderLeft,
}

impl Job<'_> {
    /// Takes the result of a piece of the inputs, and the place of its file among them; whether to go on.
    pub fn take(&mut self, (file, done): (usize, Result<Done, WorkError>)) -> bool {
        let result = self.reach(file).and_then(|()| match done {
            Ok(done) => self.add(done),
            Err(error) => {
                if error.is_of_input() {
                    self.failed += usize::from(self.last_failed.replace(file) != Some(file));
                    if let Some(outputs) = &mut self.outputs {
                        outputs.note(with_causes(&error));
                    }
                    self.fail(error.into());
                    self.stop = (!self.keep_going).then_some(Stop::Failure);
                    Ok(())
                } else {
                    Err(error.into())
                }
            }
        });
        if let Err(error) = result {
            self.stop = Some(if is_broken_pipe(error.as_ref()) { Stop::ReaderLeft } else { Stop::Failure });
            // What could not be decoded or written is not completed.
            self.fail(error);
            self.written = self.outputs.take().map(Outputs::into_written).unwrap_or_default();
        }
        self.stop.is_none() && !signals::interrupted()
    }

    fn fail(&mut self, error: Failure) {
        if self.failures.len() < LISTED_FAILURES {
            self.failures.push(error);
        }
    }

    /// Completes the outputs of the inputs before `file`.
    fn reach(&mut self, file: usize) -> Result<(), Failure> {
        let Self { detector, outputs, seen, .. } = self;
        if let Some(outputs) = outputs {
            outputs.reach(file, |file| detector.check_file(seen, file))?;
        }
        Ok(())
    }

    fn add(&mut self, done: Done) -> Result<(), Failure> {
        let Done { seen, batches, copied, mut runs } = done;
        let measured = seen.measured > 0;
        self.copied += copied;
        self.runs.append(&mut runs);
        while self.runs.len() > LISTED_RUNS {
            self.runs.pop_last();
        }
        self.seen.merge(seen);
        for Batch { part, run, encoded } in batches {
            self.totals.add(&part);
            if let (Some(outputs), Some(encoded)) = (&mut self.outputs, encoded) {
                outputs.append(run, encoded, part.hits() > 0, measured)?;
            }
        }
        let unwarned = self.seen.measured > 0 && !self.warned && self.detector.is_embedded();
        if unwarned {
            self.warned = true;
            let line = format!("warning: {SYNTHETIC}");
            self.progress.as_ref().map_or_else(|| say(&line), |progress| progress.say(&line));
        }
        for line in self.sets.iter().flat_map(|sets| sets.news()) {
            self.progress.as_ref().map_or_else(|| say(&line), |progress| progress.say(&line));
        }
        if let Some(progress) = &mut self.progress {
            let events = self.totals.events;
            let rate = events as f64 / self.start.elapsed().max(Duration::from_millis(1)).as_secs_f64();
            progress.message(&format!("{} files, {events} events, {rate:.0}/s", self.seen.files.len()));
            progress.set(self.read.load(Ordering::Relaxed));
        }
        Ok(())
    }
}

/// Whether an output is a pipe that nobody reads any more.
pub fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut error = Some(error);
    while let Some(this) = error {
        if this.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            return true;
        }
        error = this.source();
    }
    false
}

/// How the hits were made, for the output's metadata; of which commit the tool is only if it `is_told` to someone, as git takes
/// longer to answer than a thousand events to decode.
pub fn story(
    options: DecodeOptions,
    (backend, layout): (Backend, Option<Layout>),
    detector: &Detector,
    mask: Option<&Path>,
    files: Arc<[PathBuf]>,
    is_told: bool,
) -> Story {
    let table = |path: &Option<PathBuf>| {
        path.as_deref().map_or_else(|| "embedded synthetic detector".to_owned(), |path| path.display().to_string())
    };
    let mut entries = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("commit", is_told.then(Machine::this).and_then(|machine| machine.commit).unwrap_or_default()),
        ("backend", backend.name().to_owned()),
        ("layout", layout.map_or("as read", layout_name).to_owned()),
        ("clustering", options.clustering.to_string()),
        ("position", position_name(options.position).to_owned()),
        ("max_cluster_size", options.max_cluster_size.to_string()),
        ("save_above_max", options.save_above_max.to_string()),
        ("flip", flip_name(options.flip).to_owned()),
        ("grouping", detector.tables.grouping().name().to_owned()),
        ("boards", table(&detector.boards)),
        ("geometry", table(&detector.geometry)),
        ("bank_version", version_in_words(detector.tables.boards().version.byte())),
        ("geometry_version", detector.tables.geometry().version.to_string()),
    ];
    if let Some(mask) = mask {
        entries.push(("mask", mask.display().to_string()));
    }
    Story {
        entries: entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        files,
        warning: detector.is_embedded().then_some(SYNTHETIC),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::DetectorArgs;
    use crate::detector::BankVersion;
    use crate::input::InputError;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        detector: DetectorArgs,
    }

    fn detector() -> Detector {
        Detector::embedded(BankVersion::V5, &Line::parse_from(["decode"]).detector).unwrap()
    }

    fn job(detector: &Detector, keep_going: bool) -> Job<'_> {
        Job {
            detector,
            keep_going,
            sets: None,
            outputs: None,
            written: Written::default(),
            totals: Totals::new(&detector.tables, false),
            progress: None,
            read: Arc::default(),
            start: Instant::now(),
            seen: Seen::default(),
            warned: true,
            copied: 0,
            runs: BTreeSet::new(),
            failures: Vec::new(),
            failed: 0,
            last_failed: None,
            stop: None,
        }
    }

    /// Whether `job` goes on after it was told that a file cannot be opened.
    fn is_broken(job: &mut Job<'_>, file: usize) -> bool {
        let error = InputError::Open { file: "file".into(), source: io::ErrorKind::NotFound.into() };
        job.take((file, Err(error.into())))
    }

    #[test]
    fn a_file_with_which_more_than_one_thing_is_wrong_is_one_file() {
        let detector = detector();
        let mut job = job(&detector, true);
        for (file, failed) in [(0, 1), (0, 1), (2, 2), (3, 3), (3, 3)] {
            assert!(is_broken(&mut job, file));
            assert_eq!(job.failed, failed);
        }
        assert_eq!(job.failures.len(), 5);
    }

    #[test]
    fn a_broken_file_ends_a_job_that_does_not_keep_going() {
        let detector = detector();
        let mut job = job(&detector, false);
        assert!(!is_broken(&mut job, 0));
        assert_eq!((job.stop, job.failed), (Some(Stop::Failure), 1));
    }

    #[test]
    fn failures_and_runs_are_counted_without_end_but_listed_up_to_one() {
        let detector = detector();
        let mut job = job(&detector, true);
        assert!((0..LISTED_FAILURES + 20).all(|file| is_broken(&mut job, file)));
        assert_eq!((job.failed, job.failures.len()), (LISTED_FAILURES + 20, LISTED_FAILURES));
        for (runs, copied) in [(500..590, 3), (1..60, 4)] {
            let done = Done { seen: Seen::default(), batches: Vec::new(), copied, runs: runs.collect() };
            assert!(job.take((0, Ok(done))));
        }
        assert_eq!(job.copied, 7);
        // The first ones.
        assert_eq!(job.runs.iter().copied().collect::<Vec<u32>>(), (1..60).chain(500..541).collect::<Vec<u32>>());
    }
}
