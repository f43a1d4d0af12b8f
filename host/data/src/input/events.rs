//! Files in sequence, read on the caller's thread: event by event, or in batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::chunks::Chunks;
use super::parser::{Parser, Part};
use super::part::InputPart;
use super::select::Select;
use super::{InputError, Origin, RawEvent, Seen};

/// Maximum number of failed inputs whose errors are kept.
const LISTED_FAILURES: usize = 100;

/// The events of several inputs in sequence. A file's content decides on its format, then its
/// extension.
#[derive(Debug)]
pub struct Events {
    chunks: Chunks,
    parser: Parser,
    seen: Seen,
    read: Arc<AtomicU64>,
    total: u64,
    failed: bool,
    keep_going: bool,
    failures: Vec<InputError>,
    n_failures: usize,
}

impl Events {
    /// Reads the events of `parts`, files or other inputs. A file is opened when its turn comes.
    pub fn new(parts: impl IntoIterator<Item: Into<InputPart>>) -> Self {
        Self::selected(parts, &Select::default())
    }

    /// Reads the events of `parts` that `select` takes.
    pub fn selected(parts: impl IntoIterator<Item: Into<InputPart>>, select: &Select) -> Self {
        let parts: Vec<InputPart> = parts.into_iter().map(Into::into).collect();
        let total = parts
            .iter()
            .filter_map(|part| part.name().metadata().ok())
            .map(|meta| meta.len())
            .sum();
        let chunks = Chunks::new(parts, 1, true, select.clone());
        let (parser, seen, read) = (
            Parser::new(true, select.clone()),
            Seen::default(),
            chunks.read(),
        );
        Self {
            chunks,
            parser,
            seen,
            read,
            total,
            failed: false,
            keep_going: false,
            failures: Vec::new(),
            n_failures: 0,
        }
    }

    /// If `keep_going`, continues with the next input after one that cannot be read to its end, and
    /// keeps its error in [`Self::failures`].
    #[must_use]
    pub const fn keep_going(mut self, keep_going: bool) -> Self {
        self.keep_going = keep_going;
        self
    }

    /// Returns the next event, or `None` after the last event of the last input. After an error
    /// there are no further events.
    pub fn next_event(&mut self) -> Result<Option<RawEvent<'_>>, InputError> {
        Ok(self.next_with_origin()?.map(|(event, _)| event))
    }

    /// Returns the next event as [`Self::next_event`] does, with its file and its place among all
    /// events.
    pub fn next_with_origin(&mut self) -> Result<Option<(RawEvent<'_>, Origin)>, InputError> {
        loop {
            if !self.parser.advance() {
                if !self.next_chunk(1)? {
                    return Ok(None);
                }
            } else if self.parser.takes(&mut self.seen) {
                break;
            }
        }
        let found = self.parser.event();
        if let Some((event, _)) = &found {
            self.seen.add(event);
        }
        Ok(found)
    }

    /// The next batch, of at most `max_events` events (at least 1) and about 5 MB, the origins of
    /// its events, and an upper limit of its hits; `None` after the last. The banks lie in the
    /// reader's memory.
    ///
    /// # Errors
    /// Same errors as [`Self::next_event`], after a batch of the events before.
    pub fn next_batch(&mut self, max_events: usize) -> Result<Option<Part<'_>>, InputError> {
        while !self.parser.collect(&mut self.seen, &mut None)? {
            if !self.next_chunk(max_events)? {
                return Ok(None);
            }
        }
        Ok(Some(self.parser.part()))
    }

    /// Findings in the events so far, and perhaps in one event more.
    pub const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Returns the number of bytes read, out of [`Self::total_bytes`], as they lie on the disk. The
    /// reader runs a little ahead of the events.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the size of all files in bytes.
    pub const fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Returns the errors of the first hundred inputs that could not be read to their end, and the
    /// number of all; none without [`Self::keep_going`].
    pub fn failures(&self) -> (&[InputError], usize) {
        (&self.failures, self.n_failures)
    }

    fn next_chunk(&mut self, max_events: usize) -> Result<bool, InputError> {
        loop {
            match self.one_chunk(max_events) {
                Err(error) if self.keep_going => {
                    self.failed = false;
                    self.n_failures += 1;
                    if self.failures.len() < LISTED_FAILURES {
                        self.failures.push(error);
                    }
                }
                result => return result,
            }
        }
    }

    fn one_chunk(&mut self, max_events: usize) -> Result<bool, InputError> {
        // Failed until the chunk is there.
        if std::mem::replace(&mut self.failed, true) {
            return Ok(false);
        }
        self.chunks.limit(max_events);
        let chunk = self.chunks.next_chunk()?;
        let is_there = chunk.is_some();
        if let Some(chunk) = chunk {
            self.parser.begin(chunk, &mut self.seen)?;
        }
        self.failed = false;
        Ok(is_there)
    }
}
