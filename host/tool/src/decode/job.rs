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
use crate::detector::{check_makers, check_versions};
use crate::inputs::{total_bytes, unread};
use crate::output::{
    count, is_broken_pipe, is_quiet, made_by, on_stdout, print_beside, rate, say, write_json,
};
use crate::progress::Progress;
use crate::signals;
use crate::summary::{self, Totals};
use ut_data::detector::Mask;
use ut_data::error::{WorkError, with_causes};
use ut_data::input::{Seen, kind};
use ut_data::job::{Done, LISTED_FAILURES, ReadPosition};
use ut_data::pipeline::Flow;
use ut_data::{DecodeOptions, Layout};
use ut_decoders::Backend;
use ut_decoders::parameters::layout_name;
use ut_files::{EventTable, Provenance};
use ut_report::{Detector, SYNTHETIC, facts, repeated_json};

/// Maximum number of runs to list. The smallest numbers are kept, so that the list does not depend
/// on the order of the inputs.
const LISTED_RUNS: usize = 100;

/// Incomplete outputs that are listed at the end.
const LISTED: usize = 100;

/// Inputs, options and metadata of a job, which stay the same to its end.
pub struct Task<'a> {
    pub args: &'a Args,
    pub detector: &'a Detector,
    pub story: Arc<Story>,
    pub n_skipped: usize,
    pub start: Instant,
}

/// Contents of the pieces that were taken.
struct Contents {
    totals: Totals,
    seen: Seen,
    copied: u64,
    /// Number of bytes of the inputs that were read.
    n_bytes: u64,
    runs: BTreeSet<u32>,
    /// Unknown versions of ODIN banks, where there is a table of events.
    unknown_odin: BTreeSet<u8>,
}

#[derive(Default)]
struct Failures {
    list: Vec<Failure>,
    /// Number of files that could not be read to their end.
    n_files: usize,
    /// Last file that failed, which may fail more than once.
    last: Option<usize>,
    stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Failure,
    /// The reader of an output has gone.
    ReaderLeft,
}

impl Failures {
    fn add(&mut self, error: Failure) {
        if self.list.len() < LISTED_FAILURES {
            self.list.push(error);
        }
    }

    /// Returns the first failure, with its causes.
    fn first(&self) -> Option<String> {
        let error = self.list.first()?;
        Some(with_causes(error.as_ref()))
    }
}

/// State of a job whose pieces are taken: [`take`](Self::take) is called for each, and then
/// [`end`](Self::end) once.
pub struct Running<'a> {
    pub task: Task<'a>,
    contents: Contents,
    failures: Failures,
    outputs: Option<Outputs>,
    table: Option<EventTable>,
    /// Files that an output wrote before it failed.
    written: Written,
    progress: Option<Progress>,
    /// True if the user was told that the detector is synthetic, or it is not.
    warned: bool,
}

impl<'a> Running<'a> {
    pub fn new(
        task: Task<'a>,
        totals: Totals,
        outputs: Option<Outputs>,
        table: Option<EventTable>,
    ) -> Self {
        let template = "decoding {wide_bar} {bytes}/{total_bytes}, {msg}, {eta} left";
        let progress =
            (!is_quiet()).then(|| Progress::new(total_bytes(&task.story.files), template));
        Self {
            warned: !task.detector.is_embedded(),
            task,
            contents: Contents {
                totals,
                seen: Seen::default(),
                copied: 0,
                n_bytes: 0,
                runs: BTreeSet::new(),
                unknown_odin: BTreeSet::new(),
            },
            failures: Failures::default(),
            outputs,
            table,
            written: Written::default(),
            progress,
        }
    }

    /// Takes the result of a piece, and the place of its file among the inputs; returns true if the
    /// job goes on.
    pub fn take(
        &mut self,
        reached: ReadPosition,
        file: usize,
        done: Result<Done<Batch>, WorkError>,
    ) -> bool {
        let result = self.reach(file).and_then(|()| match done {
            Ok(done) => self.add(done, reached),
            // A file that cannot be read is the user's to judge, hence --keep-going. Any other
            // error, such as a lost GPU, would meet each of the next files as well.
            Err(error) if error.is_of_input() => {
                if let Some(outputs) = &mut self.outputs {
                    outputs.note(with_causes(&error));
                }
                let failures = &mut self.failures;
                failures.n_files += usize::from(failures.last.replace(file) != Some(file));
                failures.add(error.into());
                failures.stop = (!self.task.args.inputs.keep_going).then_some(Stop::Failure);
                Ok(())
            }
            Err(error) => Err(error.into()),
        });
        if let Err(error) = result {
            let has_left = is_broken_pipe(error.as_ref());
            self.failures.stop = Some(if has_left {
                Stop::ReaderLeft
            } else {
                Stop::Failure
            });
            // An output that failed is not completed.
            self.failures.add(error);
            self.leave_out(has_left);
        }
        self.failures.stop.is_none() && !signals::interrupted()
    }

    /// Completes the outputs of the inputs before `file`.
    fn reach(&mut self, file: usize) -> Result<(), Failure> {
        let (detector, seen) = (self.task.detector, &self.contents.seen);
        if let Some(outputs) = &mut self.outputs {
            outputs.reach(file, |file| detector.check_file(seen, file))?;
        }
        Ok(())
    }

    /// Leaves out the outputs that are not complete yet.
    fn leave_out(&mut self, but_table: bool) {
        self.written = self
            .outputs
            .take()
            .map(Outputs::into_written)
            .unwrap_or_default();
        self.table = self.table.take().filter(|_| but_table);
    }

    fn add(&mut self, done: Done<Batch>, reached: ReadPosition) -> Result<(), Failure> {
        let Done { seen, made, copied } = done;
        let measured = seen.measured > 0;
        // Before its hits are written.
        check_makers(self.task.detector, &seen)?;
        let contents = &mut self.contents;
        contents.copied += copied;
        contents.seen.merge(seen);
        for Batch {
            part,
            mut runs,
            encoded,
            rows,
        } in made
        {
            contents.runs.append(&mut runs);
            if let Some(table) = &mut self.table {
                table.append(&rows)?;
            }
            let unknown = rows.iter().filter_map(|row| row.meta.odin);
            let unknown = unknown.filter(|odin| odin.numbers.is_none() && odin.facts.is_none());
            contents
                .unknown_odin
                .extend(unknown.map(|odin| odin.version));
            contents.totals.add(&part);
            if let (Some(outputs), Some(encoded)) = (&mut self.outputs, encoded) {
                outputs.append(encoded, part.hits() > 0, measured)?;
            }
        }
        while contents.runs.len() > LISTED_RUNS {
            contents.runs.pop_last();
        }
        if contents.seen.measured > 0 && !self.warned {
            self.warned = true;
            let warning = format!("warning: {SYNTHETIC}");
            self.progress
                .as_ref()
                .map_or_else(|| say(&warning), |progress| progress.say(&warning));
        }
        if let Some(progress) = &mut self.progress {
            let (files, events) = (contents.seen.files.len(), contents.totals.events);
            let rate = rate(events, self.task.start);
            let (files, events) = (count(files, "file"), count(events, "event"));
            progress.message(&format!("{files}, {events}, {rate:.0}/s"));
            progress.set(reached.bytes);
        }
        Ok(())
    }

    /// Leaves out the outputs that are not complete yet if too many events came more than once,
    /// which is known only at the end.
    fn refuse_repeated(&mut self) {
        let refusal = self.contents.totals.loss.refusal();
        let Some(why) = refusal.filter(|_| self.failures.stop.is_none()) else {
            return;
        };
        self.leave_out(false);
        let left = match self.written.files.len() {
            0 => String::new(),
            n => format!(" ({} had been written before)", count(n, "output")),
        };
        self.failures.add(format!("{why}{left}").into());
    }

    /// Completes the outputs and reports on the job, which took all pieces or ended early.
    pub fn end(mut self, flow: &Flow, reached: ReadPosition) -> Result<(), Failure> {
        drop(self.progress.take());
        if signals::interrupted() {
            self.end_interrupted();
        }
        let has_json = self.task.args.json.is_some();
        // A reader that has gone (`| head`) is not an error, but a wanted summary and unreadable
        // files are still reported.
        if self.failures.stop == Some(Stop::ReaderLeft) && !has_json && self.table.is_none() {
            if self.failures.n_files == 0 {
                return Ok(());
            }
            self.failures
                .list
                .retain(|failure| !is_broken_pipe(failure.as_ref()));
        }
        let elapsed = self.task.start.elapsed();
        self.contents.totals.loss.end();
        self.contents.n_bytes = reached.bytes;
        self.warn();
        self.refuse_repeated();
        let incomplete = self.failures.first();
        if let Some(mut outputs) = self.outputs.take() {
            let opened = self.failures.stop.is_none().then_some(reached.opened);
            let (detector, seen) = (self.task.detector, &self.contents.seen);
            let wrong = |file: &Path| detector.check_file(seen, file);
            match outputs.finish(incomplete.as_ref(), opened, wrong) {
                Ok(()) => {}
                Err(error) if is_broken_pipe(&error) && !has_json => {
                    if self.failures.list.is_empty() {
                        return Ok(());
                    }
                }
                Err(error) => self.failures.list.push(error.into()),
            }
            self.written = outputs.into_written();
        }
        let Self {
            task,
            contents,
            mut failures,
            written,
            table,
            ..
        } = self;
        let measured = contents.seen.measured > 0;
        let files = &task.story.files;
        let provenance = task.story.provenance(files, measured, incomplete);
        if let Some(Err(error)) = table.map(|table| table.finish(&provenance)) {
            failures.list.push(error.into());
        }
        let ended = Ended {
            task,
            contents,
            failures,
            written,
            elapsed,
        };
        ended.report(flow, provenance)?;
        ended.verdict()
    }

    /// Ends the program as the signal that came would have.
    fn end_interrupted(&mut self) -> ! {
        let n = self.contents.totals.events;
        let written = self.outputs.as_ref().map_or(0, Outputs::written);
        let left = match (&self.task.args.output, written) {
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
        say(&format!("interrupted after {}{left}", count(n, "event")));
        signals::end()
    }

    /// Warns of oddities of the inputs, and adds files of another version to the failures.
    fn warn(&mut self) {
        let Contents {
            seen, unknown_odin, ..
        } = &self.contents;
        let unknown = unknown_odin.iter().map(|version| {
            format!(
                "ODIN banks of version {version}: their layout is not known, so the event table lacks what they say"
            )
        });
        for text in seen.warnings().chain(unknown) {
            say(&format!("warning: {text}"));
        }
        let failures = &mut self.failures;
        failures
            .list
            .extend(check_versions(self.task.detector, seen).take(LISTED_FAILURES));
        if failures.list.is_empty()
            && failures.stop.is_none()
            && self.contents.impossible(&self.task).is_none()
        {
            self.contents
                .missing(&self.task)
                .iter()
                .for_each(|text| say(&format!("warning: {text}")));
        }
    }
}

/// State of a job whose outputs are complete.
struct Ended<'a> {
    task: Task<'a>,
    contents: Contents,
    failures: Failures,
    written: Written,
    elapsed: Duration,
}

impl Ended<'_> {
    /// Writes the summary, and warns of incomplete outputs.
    fn report(&self, flow: &Flow, provenance: Provenance) -> Result<(), Failure> {
        let Args {
            output,
            json,
            inputs,
            ..
        } = self.task.args;
        let (files, totals) = (&self.task.story.files, &self.contents.totals);
        if let Some(path) = json {
            write_json(path, &self.json(flow, provenance))?;
        }
        let is_worth_a_summary = self.failures.list.is_empty() || totals.events > 0;
        if !is_quiet() && !files.is_empty() && is_worth_a_summary {
            let text = totals.text(self.elapsed, flow, files.len() > 1, &self.contents.seen);
            print_beside(on_stdout([output, json]), &text)?;
        }
        for path in self.written.incomplete.iter().take(LISTED) {
            let events = count(totals.events, "event");
            let holds = if self.written.by_file {
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
        Ok(())
    }

    fn json(&self, flow: &Flow, provenance: Provenance) -> Map<String, Value> {
        let Contents {
            totals,
            seen,
            copied,
            runs,
            ..
        } = &self.contents;
        let files = &self.task.story.files;
        let names = |paths: &[PathBuf]| -> Vec<String> {
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        let error_banks = seen.error_banks.iter();
        let error_banks = error_banks.map(|(&kind, &n)| (kind::name(kind), n));
        let mut json = totals.json(self.elapsed);
        let more = json!({
            "provenance": provenance.entries.into_iter().collect::<BTreeMap<_, _>>(),
            "complete": self.failures.list.is_empty(),
            "error": self.failures.first(),
            "files": files.len(),
            "outputs": names(&self.written.files),
            "skipped_files": self.task.n_skipped,
            "failed_files": self.failures.n_files,
            "loss": totals.loss.json(files),
            "repeated": repeated_json(&totals.loss.repeats.repeated()),
            "damaged_left_out": seen.unidentified,
            "error_banks": error_banks.collect::<BTreeMap<_, _>>(),
            "runs": runs,
            "payload_bytes_copied": copied,
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
        let (missing, impossible) = (
            self.contents.missing(&self.task),
            self.contents.impossible(&self.task),
        );
        let Contents { totals, seen, .. } = &self.contents;
        let (args, files) = (self.task.args, &self.task.story.files);
        // All strips may be in clusters over a maximum that the user chose.
        let all_may_go =
            args.clustering.max_cluster_size != DecodeOptions::default().max_cluster_size();
        let too_much = totals.loss.verdict(files, all_may_go);
        let is_odd = totals.is_odd() || totals.loss.has_repeated() || seen.unidentified > 0;
        let say_error =
            |failure: Failure| say(&format!("error: {}", with_causes(failure.as_ref())));
        let n_failed = self.failures.n_files;
        let mut failures = self.failures.list.into_iter();
        if args.inputs.keep_going && n_failed > 0 {
            failures.for_each(say_error);
            return Err(unread(n_failed, files.len()));
        }
        if let Some(failure) = failures.next() {
            // A failure to write, in addition to the failure of the input.
            failures.for_each(say_error);
            return Err(failure);
        }
        if args.inputs.strict && is_odd {
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
        args.inputs.judge(missing.as_deref(), seen.events)
    }
}

impl Contents {
    /// Returns why no event could be selected.
    fn impossible(&self, task: &Task<'_>) -> Option<String> {
        if task.story.files.is_empty() || self.seen.unidentified > 0 {
            return None;
        }
        let select = &task.args.inputs.select;
        if select.takes_all() && self.seen.events == 0 && self.n_bytes == 0 {
            return Some("the input has 0 bytes: there is no event in the input".to_owned());
        }
        select.impossible(&self.seen)
    }

    /// Returns what the inputs lack of the wanted events. The rest of a job to resume may be empty.
    fn missing(&self, task: &Task<'_>) -> Option<String> {
        let (seen, select) = (&self.seen, &task.args.inputs.select);
        if task.story.files.is_empty() {
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
