//! State of a job that goes from piece to piece of the inputs, in their order: sums, failures,
//! outputs.
//!
//! Threads decode, but one thread takes their results, piece by piece and in the order of the
//! inputs. So outputs, sums and messages do not depend on the number of threads, and nothing here
//! needs a lock.
//!
//! A job ends in one of four ways:
//! 1. All pieces were taken: outputs are completed and get their names.
//! 2. An input failed: with `--keep-going` the job goes on, else it stops. Outputs that hold hits
//!    from before the failure are completed, with the reason in their metadata, and named as
//!    incomplete.
//! 3. An output failed (a full disk), or its reader has gone: files that are complete stay, and
//!    others do not appear.
//! 4. A signal came: as before, and the program ends as that signal would have ended it.
//!
//! Lists of failures, runs and incomplete files end at a limit, so that a job of a million inputs
//! still ends with messages that a person can read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::Args;
use super::outputs::{Outputs, Story, Written};
use super::work::Batch;
use crate::Failure;
use crate::args::layout_name;
use crate::detector::{check_makers, check_versions};
use crate::inputs::unread;
use crate::output::{
    count, is_broken_pipe, is_quiet, made_by, on_stdout, print_beside, say, write_json,
};
use crate::progress::Progress;
use crate::signals;
use crate::summary::{self, Totals};
use ut_data::detector::Mask;
use ut_data::error::{WorkError, with_causes};
use ut_data::input::{Seen, kind};
use ut_data::job::{Done, LISTED_FAILURES, Reached};
use ut_data::pipeline::Flow;
use ut_data::{DecodeOptions, Layout};
use ut_decoders::Backend;
use ut_files::EventTable;
use ut_report::{Detector, SYNTHETIC, facts, repeated_json};

/// Maximum number of runs to list. The smallest numbers are kept, so that the list does not depend
/// on the order of the inputs.
const LISTED_RUNS: usize = 100;

/// Incomplete outputs that are listed at the end.
const LISTED: usize = 100;

/// State of the job between two pieces. `take` is called for each piece, and then `conclude` once.
pub struct Taker<'a> {
    args: &'a Args,
    detector: &'a Detector,
    pub files: Arc<[PathBuf]>,
    story: Arc<Story>,
    totals: Totals,
    start: Instant,
    pub n_skipped: usize,
    pub outputs: Option<Outputs>,
    pub table: Option<EventTable>,
    /// Files that an output wrote before it failed.
    written: Written,
    pub by_file: bool,
    progress: Option<Progress>,
    seen: Seen,
    /// True if the user was told that the detector is synthetic, or it is not.
    warned: bool,
    copied: u64,
    /// Number of bytes of the inputs that were read.
    n_bytes: u64,
    runs: BTreeSet<u32>,
    /// Unknown versions of ODIN banks, where there is a table of events.
    unknown_odin: BTreeSet<u8>,
    failures: Vec<Failure>,
    /// Number of files that could not be read to their end.
    failed: usize,
    /// The last file that failed, which may fail more than once.
    last_failed: Option<usize>,
    stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Failure,
    /// The reader of an output has gone.
    ReaderLeft,
}

impl<'a> Taker<'a> {
    pub fn new(
        args: &'a Args,
        detector: &'a Detector,
        files: Arc<[PathBuf]>,
        story: Arc<Story>,
        totals: Totals,
        start: Instant,
    ) -> Self {
        Self {
            args,
            detector,
            files,
            story,
            totals,
            start,
            n_skipped: 0,
            outputs: None,
            table: None,
            written: Written::default(),
            by_file: false,
            progress: None,
            seen: Seen::default(),
            warned: !detector.is_embedded(),
            copied: 0,
            n_bytes: 0,
            runs: BTreeSet::new(),
            unknown_odin: BTreeSet::new(),
            failures: Vec::new(),
            failed: 0,
            last_failed: None,
            stop: None,
        }
    }

    /// Shows progress from now on, unless it is quiet.
    pub fn show_progress(&mut self) {
        let total = self
            .files
            .iter()
            .filter_map(|file| file.metadata().ok())
            .map(|meta| meta.len())
            .sum();
        let template = "decoding {wide_bar} {bytes}/{total_bytes}, {msg}, {eta} left";
        self.progress = (!is_quiet()).then(|| Progress::new(total, template));
    }

    /// Takes the result of a piece, and the place of its file among the inputs; returns true if the
    /// job goes on.
    pub fn take(
        &mut self,
        reached: Reached,
        file: usize,
        done: Result<Done<Batch>, WorkError>,
    ) -> bool {
        let result = self.reach(file).and_then(|()| match done {
            Ok(done) => self.add(done, reached),
            // A file that cannot be read is the user's to judge, hence --keep-going. Any other
            // error, such as a lost GPU, would meet each of the next files as well.
            Err(error) => {
                if error.is_of_input() {
                    self.failed += usize::from(self.last_failed.replace(file) != Some(file));
                    if let Some(outputs) = &mut self.outputs {
                        outputs.note(with_causes(&error));
                    }
                    self.fail(error.into());
                    self.stop = (!self.args.inputs.keep_going).then_some(Stop::Failure);
                    Ok(())
                } else {
                    Err(error.into())
                }
            }
        });
        if let Err(error) = result {
            let has_left = is_broken_pipe(error.as_ref());
            self.stop = Some(if has_left {
                Stop::ReaderLeft
            } else {
                Stop::Failure
            });
            // An output that failed is not completed.
            self.fail(error);
            self.written = self
                .outputs
                .take()
                .map(Outputs::into_written)
                .unwrap_or_default();
            self.table = self.table.take().filter(|_| has_left);
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
        let Self {
            detector,
            outputs,
            seen,
            ..
        } = self;
        if let Some(outputs) = outputs {
            outputs.reach(file, |file| detector.check_file(seen, file))?;
        }
        Ok(())
    }

    fn add(&mut self, done: Done<Batch>, reached: Reached) -> Result<(), Failure> {
        let Done { seen, made, copied } = done;
        let measured = seen.measured > 0;
        self.copied += copied;
        // Before its hits are written.
        check_makers(self.detector, &seen)?;
        self.seen.merge(seen);
        for Batch {
            part,
            mut runs,
            encoded,
            rows,
        } in made
        {
            self.runs.append(&mut runs);
            if let Some(table) = &mut self.table {
                table.append(&rows)?;
            }
            let unknown = rows.iter().filter_map(|row| row.meta.odin);
            let unknown = unknown.filter(|odin| odin.numbers.is_none() && odin.facts.is_none());
            self.unknown_odin.extend(unknown.map(|odin| odin.version));
            self.totals.add(&part);
            if let (Some(outputs), Some(encoded)) = (&mut self.outputs, encoded) {
                outputs.append(encoded, part.hits() > 0, measured)?;
            }
        }
        while self.runs.len() > LISTED_RUNS {
            self.runs.pop_last();
        }
        if self.seen.measured > 0 && !self.warned {
            self.warned = true;
            self.tell(&format!("warning: {SYNTHETIC}"));
        }
        if let Some(progress) = &mut self.progress {
            let events = self.totals.events;
            let rate = events as f64
                / self
                    .start
                    .elapsed()
                    .max(Duration::from_millis(1))
                    .as_secs_f64();
            let (files, events) = (
                count(self.seen.files.len(), "file"),
                count(events as usize, "event"),
            );
            progress.message(&format!("{files}, {events}, {rate:.0}/s"));
            progress.set(reached.bytes);
        }
        Ok(())
    }

    /// Leaves out the outputs that are not complete yet if too many events came more than once,
    /// which is known only at the end.
    fn refuse_repeated(&mut self) {
        let Some(why) = self.totals.loss.refusal().filter(|_| self.stop.is_none()) else {
            return;
        };
        self.written = self
            .outputs
            .take()
            .map(Outputs::into_written)
            .unwrap_or_default();
        self.table = None;
        let left = match self.written.files.len() {
            0 => String::new(),
            n => format!(" ({} had been written before)", count(n, "output")),
        };
        self.fail(format!("{why}{left}").into());
    }

    fn tell(&self, line: &str) {
        self.progress
            .as_ref()
            .map_or_else(|| say(line), |progress| progress.say(line));
    }

    /// Completes the outputs and reports on the job, which took all pieces or ended early.
    pub fn conclude(mut self, flow: &Flow, reached: Reached) -> Result<(), Failure> {
        drop(self.progress.take());
        if signals::interrupted() {
            self.end_interrupted();
        }
        // A reader that has gone (`| head`) is not an error, but a wanted summary and unreadable
        // files are still reported.
        let Args {
            output,
            json,
            inputs,
            ..
        } = self.args;
        if self.stop == Some(Stop::ReaderLeft) && json.is_none() && self.table.is_none() {
            if self.failed == 0 {
                return Ok(());
            }
            self.failures
                .retain(|failure| !is_broken_pipe(failure.as_ref()));
        }
        let elapsed = self.start.elapsed();
        self.totals.loss.end();
        self.n_bytes = reached.bytes;
        self.warn();
        self.refuse_repeated();
        let incomplete = self
            .failures
            .first()
            .map(|error| with_causes(error.as_ref()));
        if let Some(mut outputs) = self.outputs.take() {
            let opened = self.stop.is_none().then_some(reached.opened);
            match outputs.finish(incomplete.as_ref(), opened, |file| {
                self.detector.check_file(&self.seen, file)
            }) {
                Ok(()) => {}
                Err(error) if is_broken_pipe(&error) && json.is_none() => {
                    if self.failures.is_empty() {
                        return Ok(());
                    }
                }
                Err(error) => self.failures.push(error.into()),
            }
            self.written = outputs.into_written();
        }
        if let Some(table) = self.table.take() {
            let provenance =
                self.story
                    .provenance(&self.files, self.seen.measured > 0, incomplete.clone());
            if let Err(error) = table.finish(&provenance) {
                self.failures.push(error.into());
            }
        }
        if let Some(path) = json {
            write_json(path, &self.json(elapsed, flow, incomplete))?;
        }
        if !is_quiet()
            && !self.files.is_empty()
            && (self.failures.is_empty() || self.totals.events > 0)
        {
            let text = self
                .totals
                .text(elapsed, flow, self.files.len() > 1, &self.seen);
            print_beside(on_stdout([output, json]), &text)?;
        }
        for path in self.written.incomplete.iter().take(LISTED) {
            let events = count(self.totals.events as usize, "event");
            let holds = if self.by_file {
                "the hits of an input that could not be read to its end".to_owned()
            } else if inputs.keep_going {
                format!("the hits of {events}")
            } else {
                format!("the hits of the first {events}")
            };
            say(&format!(
                "warning: {} is incomplete: it holds {holds}",
                path.display()
            ));
        }
        self.verdict()
    }

    /// Ends the program as the signal that came would have.
    fn end_interrupted(&mut self) -> ! {
        let n = self.totals.events;
        let left = match (
            &self.args.output,
            self.outputs.as_ref().map_or(0, Outputs::written),
        ) {
            (None, _) => String::new(),
            (Some(path), 0) => format!("; {} was not written", path.display()),
            (Some(path), n) => {
                format!(
                    "; {} in {} are whole, the rest was not written",
                    count(n, "file"),
                    path.display()
                )
            }
        };
        drop((self.outputs.take(), self.table.take()));
        say(&format!(
            "interrupted after {}{left}",
            count(n as usize, "event")
        ));
        signals::end()
    }

    /// Warns of oddities of the inputs, and adds files of another version to the failures.
    fn warn(&mut self) {
        let Self {
            detector,
            seen,
            failures,
            unknown_odin,
            ..
        } = self;
        let unknown = unknown_odin.iter().map(|version| {
            format!(
                "ODIN banks of version {version}: their layout is not known, so the event table lacks what they say"
            )
        });
        for text in seen.warnings().chain(unknown) {
            say(&format!("warning: {text}"));
        }
        failures.extend(check_versions(detector, seen).take(LISTED_FAILURES));
        if self.failures.is_empty() && self.stop.is_none() && self.impossible().is_none() {
            self.missing()
                .iter()
                .for_each(|text| say(&format!("warning: {text}")));
        }
    }

    fn json(
        &self,
        elapsed: Duration,
        flow: &Flow,
        incomplete: Option<String>,
    ) -> Map<String, Value> {
        let provenance = self
            .story
            .provenance(&self.files, self.seen.measured > 0, incomplete)
            .entries;
        let provenance: Map<_, _> = provenance
            .into_iter()
            .map(|(key, value)| (key, Value::String(value)))
            .collect();
        let written: Vec<String> = self
            .written
            .files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let mut json = self.totals.json(elapsed);
        let more = json!({
            "provenance": provenance,
            "complete": self.failures.is_empty(),
            "error": self.failures.first().map(|error| with_causes(error.as_ref())),
            "files": self.files.len(),
            "outputs": written,
            "skipped_files": self.n_skipped,
            "failed_files": self.failed,
            "loss": self.totals.loss.json(&self.files),
            "repeated": repeated_json(&self.totals.loss.repeats.repeated()),
            "damaged_left_out": self.seen.unidentified,
            "error_banks": self.seen.error_banks.iter().map(|(&kind, &n)| (kind::name(kind), n)).collect::<BTreeMap<_, _>>(),
            "runs": self.runs,
            "payload_bytes_copied": self.copied,
            "pipeline": summary::flow_json(flow),
        });
        json.extend(more.as_object().cloned().unwrap_or_default());
        json
    }

    /// Returns the failure of the job; prints the others, and what was lost.
    ///
    /// The first reason that applies is the message and the exit code: inputs that were left out, a
    /// failure, oddities under `--strict`, options that can select nothing, too many lost hits, and
    /// at last missing events.
    fn verdict(self) -> Result<(), Failure> {
        let (missing, impossible) = (self.missing(), self.impossible());
        let inputs = &self.args.inputs;
        // All strips may be in clusters over a maximum that the user chose.
        let all_may_go =
            self.args.clustering.max_cluster_size != DecodeOptions::default().max_cluster_size();
        let too_much = self.totals.loss.verdict(&self.files, all_may_go);
        let is_odd =
            self.totals.is_odd() || self.totals.loss.has_repeated() || self.seen.unidentified > 0;
        let say_error =
            |failure: Failure| say(&format!("error: {}", with_causes(failure.as_ref())));
        let mut failures = self.failures.into_iter();
        if inputs.keep_going && self.failed > 0 {
            failures.for_each(say_error);
            return Err(unread(self.failed, self.files.len()));
        }
        if let Some(failure) = failures.next() {
            // A failure to write, in addition to the failure of the input.
            failures.for_each(say_error);
            return Err(failure);
        }
        if inputs.strict && is_odd {
            return Err(
                "there is trouble in the data (see the summary), and --strict was given".into(),
            );
        }
        if let Some(impossible) = impossible {
            return Err(impossible.into());
        }
        if let Some(too_much) = too_much {
            return Err(too_much.into());
        }
        inputs.judge(missing.as_deref(), self.seen.events)
    }

    /// Returns why no event could be selected.
    fn impossible(&self) -> Option<String> {
        if self.files.is_empty() || self.seen.unidentified > 0 {
            return None;
        }
        let select = &self.args.inputs.select;
        if select.takes_all() && self.seen.events == 0 && self.n_bytes == 0 {
            return Some("the input has 0 bytes: there is no event in the input".to_owned());
        }
        select.impossible(&self.seen)
    }

    /// Returns what the inputs lack of the wanted events. The rest of a job to resume may be empty.
    fn missing(&self) -> Option<String> {
        let (seen, select) = (&self.seen, &self.args.inputs.select);
        if self.files.is_empty() {
            None
        } else if seen.events > 0 && seen.files.is_empty() && select.shard.is_none() {
            Some("no event of the input has a bank to decode".to_owned())
        } else if self.totals.loss.has_no_strip() {
            Some("no bank of the input has a strip".to_owned())
        } else {
            select.missing(seen)
        }
    }
}

/// Returns the metadata of outputs.
pub fn story(
    options: DecodeOptions,
    (backend, layout): (Backend, Option<Layout>),
    detector: &Detector,
    mask: Option<(&Path, &Mask)>,
    files: Arc<[PathBuf]>,
) -> Story {
    let mut entries = made_by();
    entries.push(("backend", backend.name().to_owned()));
    entries.push(("layout", layout.map_or("as read", layout_name).to_owned()));
    entries.extend(facts(options, detector, mask));
    Story {
        entries: entries
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
        files,
        warning: detector.is_embedded().then_some(SYNTHETIC),
    }
}
