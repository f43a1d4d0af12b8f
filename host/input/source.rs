//! Several files in sequence, as events or as batches.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::event::{Format, kind};
use super::recognise::{Input, Opened, open};
use super::versions::{FileVersions, WrongVersion};
use super::{AllenDumpReader, BatchBuilder, BuildError, Damage, EventBatch, InputError, MdfReader, Place, RawEvent};
use crate::detector::BankVersion;

#[derive(Debug)]
enum Source {
    Mdf(Box<MdfReader<BufReader<Input>>>),
    Dump(AllenDumpReader),
}

impl Source {
    fn open(path: &Path, read: &Arc<AtomicU64>) -> Result<Self, InputError> {
        let Opened { input, length, format, .. } = open(path, read)?;
        Ok(match format {
            Format::Mdf => Self::Mdf(Box::new(MdfReader::new(input, path, length))),
            Format::Mep => Self::Mdf(Box::new(MdfReader::of_packets(input, path, length))),
            Format::AllenDump => Self::Dump(AllenDumpReader::new(input, path)?),
        })
    }

    fn advance(&mut self) -> Result<bool, InputError> {
        match self {
            Self::Mdf(reader) => reader.advance(),
            Self::Dump(reader) => Ok(reader.advance()),
        }
    }

    fn event(&self) -> RawEvent<'_> {
        match self {
            Self::Mdf(reader) => reader.event(),
            Self::Dump(reader) => reader.event(),
        }
    }
}

/// The events of several files in sequence. A file's content decides on its format, then its extension.
#[derive(Debug)]
pub struct Events {
    files: std::vec::IntoIter<PathBuf>,
    current: Option<Source>,
    /// Bytes that were read of the files, as they lie on the disk.
    read: Arc<AtomicU64>,
    total: u64,
}

impl Events {
    /// The events of `files`. A file is opened when its turn comes.
    pub fn new(files: impl IntoIterator<Item: Into<PathBuf>>) -> Self {
        let files: Vec<PathBuf> = files.into_iter().map(Into::into).collect();
        let total = files.iter().filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum();
        Self { files: files.into_iter(), current: None, read: Arc::default(), total }
    }

    /// The next event, or `None` after the last of the last file. After an error there are no further events.
    ///
    /// # Errors
    /// When a file cannot be opened or followed: see [`InputError`].
    pub fn next_event(&mut self) -> Result<Option<RawEvent<'_>>, InputError> {
        Ok(if self.advance()? { self.event() } else { None })
    }

    /// Bytes read, of [`Self::total_bytes`], as they lie on the disk; a little ahead of the events.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes of all files.
    pub const fn total_bytes(&self) -> u64 {
        self.total
    }

    fn event(&self) -> Option<RawEvent<'_>> {
        self.current.as_ref().map(Source::event)
    }

    fn advance(&mut self) -> Result<bool, InputError> {
        let result = self.try_advance();
        if result.is_err() {
            self.files = Vec::new().into_iter();
            self.current = None;
        }
        result
    }

    fn try_advance(&mut self) -> Result<bool, InputError> {
        loop {
            if let Some(source) = &mut self.current
                && source.advance()?
            {
                return Ok(true);
            }
            let Some(file) = self.files.next() else {
                self.current = None;
                return Ok(false);
            };
            self.current = Some(Source::open(&file, &self.read)?);
        }
    }
}

/// How many events' damage [`Seen`] keeps in words.
const MAX_DAMAGES: usize = 16;

/// What was seen in the files on the way into the batches.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Events.
    pub events: u64,
    /// The versions of the files that have banks to decode.
    pub files: Vec<FileVersions>,
    /// Events with such banks that `ut-decode generate` made.
    pub generated: u64,
    /// Events with such banks that it did not make.
    pub measured: u64,
    /// What was wrong with events, of the first few.
    pub damages: Vec<(Place, Damage)>,
    /// Damaged events that were left out because a run or number was asked for and theirs is unknown.
    pub unidentified: u64,
}

impl Seen {
    /// Checks that no file has banks of which none has the version of the board table.
    ///
    /// # Errors
    /// The first file that has.
    pub fn check_versions(&self, table: BankVersion) -> Result<(), WrongVersion> {
        self.files.iter().try_for_each(|file| file.check(table))
    }

    /// What was wrong with the first damaged events, in words.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let damages = self.damages.iter().map(|(place, damage)| {
            let cost = match damage {
                // These say it themselves.
                Damage::Checksum { .. } | Damage::Fragments { .. } => "",
                _ => "; the rest of the event is given up",
            };
            format!("{place}: {damage}{cost}")
        });
        let unidentified = match self.unidentified {
            0 => None,
            1 => Some("1 damaged event was left out: its run or number is unknown".to_owned()),
            n => Some(format!("{n} damaged events were left out: their run or number is unknown")),
        };
        damages.chain(unidentified)
    }

    /// Adds what was seen after this.
    pub fn merge(&mut self, later: Self) {
        self.events += later.events;
        self.generated += later.generated;
        self.measured += later.measured;
        self.unidentified += later.unidentified;
        for file in later.files {
            let Some(last) = self.files.last_mut().filter(|last| last.file == file.file) else {
                self.files.push(file);
                continue;
            };
            for (version, n) in file.versions {
                *last.versions.entry(version).or_default() += n;
            }
        }
        let room = MAX_DAMAGES - self.damages.len().min(MAX_DAMAGES);
        self.damages.extend(later.damages.into_iter().take(room));
    }

    /// Adds undamaged events of `file`, of which `measured` have banks to decode that `ut-decode generate` did not make;
    /// `banks` counts their banks by version.
    pub(super) fn add_measured(&mut self, file: &Path, events: u64, measured: u64, banks: &[(Option<u8>, u64)]) {
        self.events += events;
        self.measured += measured;
        if measured > 0 {
            let mut file = self.versions_of(file);
            for &(version, n) in banks {
                count(&mut file, version, n);
            }
            self.files.push(file);
        }
    }

    /// The versions of the banks of a file so far, taken out of the list if it is the last one there.
    fn versions_of(&mut self, file: &Path) -> FileVersions {
        let known = self.files.pop_if(|last| last.file == file);
        known.unwrap_or_else(|| FileVersions { file: file.to_path_buf(), versions: BTreeMap::new() })
    }

    pub(super) fn add(&mut self, event: &RawEvent<'_>) {
        self.events += 1;
        let mut banks = event.entries.iter().filter(|bank| kind::is_decoded(bank.kind)).peekable();
        if banks.peek().is_some() {
            *(if event.is_generated() { &mut self.generated } else { &mut self.measured }) += 1;
            let mut file = self.versions_of(event.file);
            // Neighbours have the same version: count them together.
            let (mut last, mut n) = (None, 0);
            for bank in banks {
                if last != bank.version {
                    count(&mut file, last, n);
                    (last, n) = (bank.version, 0);
                }
                n += 1;
            }
            count(&mut file, last, n);
            self.files.push(file);
        }
        if let Some(damage) = event.damage {
            self.add_damage(damage, || event.place());
        }
    }

    /// Notes a damaged event that was left out: see [`Self::unidentified`].
    pub(super) fn leave_out(&mut self, damage: &Damage, place: impl FnOnce() -> Place) {
        self.unidentified += 1;
        self.add_damage(damage, place);
    }

    fn add_damage(&mut self, damage: &Damage, place: impl FnOnce() -> Place) {
        if self.damages.len() < MAX_DAMAGES {
            self.damages.push((place(), damage.clone()));
        }
    }
}

/// Adds `n` banks of a version.
fn count(file: &mut FileVersions, version: Option<u8>, n: u64) {
    if n > 0 {
        *file.versions.entry(version).or_default() += n;
    }
}

/// The events of several files as batches in Allen layout.
#[derive(Debug)]
pub struct Batches {
    events: Events,
    builder: BatchBuilder,
    max_events: usize,
    max_bytes: usize,
    /// The current event was read and is in no batch yet.
    waiting: bool,
    error: Option<InputError>,
    seen: Seen,
}

impl Batches {
    /// Batches of at most `max_events` events (at least 1) and, unless a single event is larger, `max_bytes` bytes.
    pub fn new(events: Events, max_events: usize, max_bytes: usize) -> Self {
        let (max_events, builder, seen) = (max_events.max(1), BatchBuilder::new(), Seen::default());
        Self { events, builder, max_events, max_bytes, waiting: false, error: None, seen }
    }

    /// What was seen so far, the events of the last batch included (and perhaps one of the next).
    pub const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The files being read.
    pub const fn events(&self) -> &Events {
        &self.events
    }

    /// Puts the next events into `batch`, whose buffers are reused; false, and an empty batch, after the last.
    ///
    /// # Errors
    /// When a file cannot be followed. The events before it come first, as a batch.
    pub fn next_into(&mut self, batch: &mut EventBatch) -> Result<bool, InputError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if let Err(error) = self.collect() {
            if self.builder.n_events() == 0 {
                return Err(error);
            }
            self.error = Some(error);
        }
        self.builder.finish(batch);
        Ok(batch.n_events > 0)
    }

    fn collect(&mut self) -> Result<(), InputError> {
        while self.builder.n_events() < self.max_events {
            if !self.waiting {
                if !self.events.advance()? {
                    break;
                }
                self.waiting = true;
                if let Some(event) = self.events.event() {
                    self.seen.add(&event);
                }
            }
            let Some(event) = self.events.event() else { break };
            let begun = self.builder.n_events() > 0;
            let bytes: usize = event.entries.iter().filter(|b| kind::is_ut(b.kind)).map(|b| b.length + 8).sum();
            if begun && (self.builder.bytes() + bytes > self.max_bytes || !self.builder.agrees(event.banks())) {
                break;
            }
            match self.builder.push(event.meta(), event.banks()) {
                Ok(()) => self.waiting = false,
                Err(BuildError::Full) if begun => break,
                Err(source) => {
                    self.waiting = false;
                    return Err(InputError::Batch { place: event.place(), source });
                }
            }
        }
        Ok(())
    }
}
