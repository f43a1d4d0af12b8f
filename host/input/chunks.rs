//! Files in pieces that threads take apart side by side: events with their bytes, or some events of a packet.
//!
//! [`Chunks`] only cuts the files into events, which is all that must be done in order. What follows, comparing
//! checksums, unpacking, finding banks and collecting them, is done a chunk at a time by [`Parser`], on any thread.

use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::checksums::checksums;
use super::event::{Format, kind};
use super::frames::{Frame, Frames};
use super::mdf::{CHECKED_FROM, Facts, u32_at};
use super::packet::Packet;
use super::recognise::{Input, Opened, open};
use super::select::Select;
use super::source::Seen;
use super::{AllenDumpReader, BankEntry, BatchBuilder, BatchView, BuildError, EventBatch, InputError, RawEvent};

/// Bytes of a chunk after which the next one begins.
const MAX_BYTES: usize = 8 << 20;

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// File, by its place in the list of inputs.
    pub file: u32,
    /// Event of the file, from 0.
    pub event: u64,
}

/// An event in the bytes of a chunk.
#[derive(Clone, Debug)]
struct Span {
    origin: Origin,
    /// Byte of the file at which it begins.
    offset: u64,
    bytes: Range<usize>,
}

/// A piece of the inputs.
#[derive(Debug)]
pub struct Chunk {
    files: Arc<[PathBuf]>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Mdf { data: Vec<u8>, spans: Vec<Span> },
    Dumps(Vec<(Origin, AllenDumpReader)>),
    Packet { packet: Arc<Packet>, events: Vec<Range<usize>>, first: Origin, offset: u64 },
}

#[derive(Debug)]
enum Reader {
    Frames(Box<Frames<BufReader<Input>>>),
    Dump(Option<AllenDumpReader>),
}

/// The inputs, cut into chunks.
#[derive(Debug)]
pub struct Chunks {
    files: Arc<[PathBuf]>,
    next_file: usize,
    reader: Option<Reader>,
    /// The packet in hand, and those of its events that come next.
    packet: Option<(Arc<Packet>, usize, u64)>,
    max_events: usize,
    check: bool,
    select: Select,
    /// Events of all files before the next one.
    events: u64,
    error: Option<InputError>,
    read: Arc<AtomicU64>,
}

impl Chunks {
    /// The selected events of `files` in chunks of at most `max_events` (at least 1). Checksums are compared if `check`.
    pub fn new(files: impl IntoIterator<Item: Into<PathBuf>>, max_events: usize, check: bool, select: Select) -> Self {
        Self {
            files: files.into_iter().map(Into::into).collect(),
            next_file: 0,
            reader: None,
            packet: None,
            max_events: max_events.max(1),
            check,
            select,
            events: 0,
            error: None,
            read: Arc::default(),
        }
    }

    /// The files.
    pub fn files(&self) -> &Arc<[PathBuf]> {
        &self.files
    }

    /// Bytes of the files that were read, as they lie on the disk. Goes on counting while the chunks are read.
    pub fn read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }

    /// The next chunk, or `None` after the last. After an error come the chunks of the next file.
    ///
    /// # Errors
    /// When a file cannot be opened or followed: see [`InputError`]. The events before come first.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, InputError> {
        loop {
            if let Some(error) = self.error.take() {
                self.reader = None;
                return Err(error);
            }
            if let Some(chunk) = self.of_packet() {
                return Ok(Some(chunk));
            }
            if self.select.is_past(self.events) {
                return Ok(None);
            }
            if let Some(content) = self.collect() {
                return Ok(Some(Chunk { files: Arc::clone(&self.files), content }));
            }
            if self.packet.is_none()
                && self.error.is_none()
                && self.reader.is_none()
                && self.next_file >= self.files.len()
            {
                return Ok(None);
            }
        }
    }

    /// The next events of the packet in hand.
    fn of_packet(&mut self) -> Option<Chunk> {
        loop {
            let (packet, next, offset) = self.packet.take()?;
            let n = packet.n_events();
            let end = n.min(next + self.max_events);
            // `events` counts those of the packet already.
            let before = self.events - n as u64;
            let in_file = match &self.reader {
                Some(Reader::Frames(frames)) => frames.events() - n as u64,
                _ => 0,
            };
            if end < n {
                self.packet = Some((Arc::clone(&packet), end, offset));
            }
            let mut events: Vec<Range<usize>> = Vec::new();
            for e in (next..end).filter(|&e| self.select.takes(before + e as u64)) {
                match events.last_mut() {
                    Some(last) if last.end == e => last.end += 1,
                    _ => events.push(e..e + 1),
                }
            }
            if !events.is_empty() {
                let first = Origin { file: self.next_file as u32 - 1, event: in_file };
                let content = Content::Packet { packet, events, first, offset };
                return Some(Chunk { files: Arc::clone(&self.files), content });
            }
        }
    }

    /// Collects events until a chunk is full, the format changes, a packet comes or something is wrong.
    fn collect(&mut self) -> Option<Content> {
        let (mut data, mut spans, mut dumps) = (Vec::new(), Vec::new(), Vec::new());
        while spans.len() + dumps.len() < self.max_events && data.len() < MAX_BYTES && !self.select.is_past(self.events)
        {
            let Some(reader) = &mut self.reader else {
                // Events with and without version bytes do not go into one batch.
                let Some(path) = self.files.get(self.next_file) else { break };
                self.next_file += 1;
                match Self::open(path, &self.read, self.check) {
                    Ok(reader) => self.reader = Some(reader),
                    Err(error) => {
                        self.error = Some(error);
                        break;
                    }
                }
                continue;
            };
            let file = self.next_file as u32 - 1;
            match reader {
                Reader::Dump(dump) => {
                    if !spans.is_empty() {
                        break;
                    }
                    if let Some(dump) = dump.take() {
                        if self.select.takes(self.events) {
                            dumps.push((Origin { file, event: 0 }, dump));
                        }
                        self.events += 1;
                    }
                    self.reader = None;
                }
                Reader::Frames(frames) => {
                    if !dumps.is_empty() {
                        break;
                    }
                    let begin = data.len();
                    match frames.next(&mut data) {
                        Ok(Frame::End) => self.reader = None,
                        Ok(Frame::Event) => {
                            if self.select.takes(self.events) {
                                let origin = Origin { file, event: frames.events() - 1 };
                                spans.push(Span { origin, offset: frames.last(), bytes: begin..data.len() });
                            } else {
                                data.truncate(begin);
                            }
                            self.events += 1;
                        }
                        Ok(Frame::Packet) => {
                            let offset = frames.last();
                            let packet = frames.take_packet();
                            self.events += packet.n_events() as u64;
                            if packet.n_events() > 0 {
                                self.packet = Some((Arc::new(packet), 0, offset));
                            }
                            break;
                        }
                        Err(error) => {
                            self.error = Some(error);
                            break;
                        }
                    }
                }
            }
        }
        if !dumps.is_empty() {
            return Some(Content::Dumps(dumps));
        }
        (!spans.is_empty()).then_some(Content::Mdf { data, spans })
    }

    fn open(path: &Path, read: &Arc<AtomicU64>, check: bool) -> Result<Reader, InputError> {
        let Opened { input, length, format } = open(path, read)?;
        Ok(match format {
            Format::AllenDump => Reader::Dump(Some(AllenDumpReader::new(input, path)?)),
            format => {
                let mut frames = Frames::new(input, path, length, format);
                frames.check(check);
                Reader::Frames(Box::new(frames))
            }
        })
    }
}

/// The number of events in files, which are read for it but not taken apart.
///
/// # Errors
/// As [`Chunks::next_chunk`].
pub fn count_events(files: &[PathBuf]) -> Result<u64, InputError> {
    let mut n = 0;
    for path in files {
        match Chunks::open(path, &Arc::default(), false)? {
            Reader::Dump(_) => n += 1,
            Reader::Frames(mut frames) => {
                let mut data = Vec::new();
                while frames.next(&mut data)? != Frame::End {
                    data.clear();
                }
                n += frames.events();
            }
        }
    }
    Ok(n)
}

/// Takes chunks apart; one a thread.
#[derive(Debug)]
pub struct Parser {
    check: bool,
    select: Select,
    sums: Vec<u32>,
    unpacked: Vec<u8>,
    entries: Vec<BankEntry>,
    builder: BatchBuilder,
    batch: EventBatch,
    /// Bytes of payload that were copied into batches.
    copied: u64,
}

/// A batch, and where each of its events comes from.
pub type Part<'a> = (BatchView<'a>, &'a [Origin], usize);

impl Parser {
    /// A parser that compares checksums if `check`, and leaves events out that `select` does not take.
    pub fn new(check: bool, select: Select) -> Self {
        Self {
            check,
            select,
            sums: Vec::new(),
            unpacked: Vec::new(),
            entries: Vec::new(),
            builder: BatchBuilder::new(),
            batch: EventBatch::default(),
            copied: 0,
        }
    }

    /// Bytes of payload that were copied from what was read into batches so far: none of packets.
    pub const fn copied(&self) -> u64 {
        self.copied
    }

    /// Takes a chunk apart, tells `seen` of its events, and hands its batches to `take`, with the origins of their
    /// events and a number of hits that is not exceeded.
    ///
    /// # Errors
    /// What `take` fails with, or an event that fits into no batch.
    pub fn parse<E: From<InputError>>(
        &mut self,
        chunk: &Chunk,
        seen: &mut Seen,
        mut take: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match &chunk.content {
            Content::Mdf { data, spans } => {
                self.sums.clear();
                if self.check {
                    // Those without a checksum cost no time.
                    let pieces = spans.iter().map(|span| {
                        let event = &data[span.bytes.clone()];
                        if u32_at(event, 12) == 0 { &[] } else { &event[CHECKED_FROM..] }
                    });
                    checksums(pieces, &mut self.sums);
                }
                let mut origins = Vec::with_capacity(spans.len());
                for (i, span) in spans.iter().enumerate() {
                    let bytes = &data[span.bytes.clone()];
                    let facts = Facts::of(bytes, self.sums.get(i).copied(), &mut self.unpacked, &mut self.entries);
                    let event = RawEvent {
                        file: &chunk.files[span.origin.file as usize],
                        format: Format::Mdf,
                        index: span.origin.event,
                        offset: span.offset,
                        run: facts.run,
                        number: facts.number,
                        trigger_mask: facts.trigger_mask,
                        data: if facts.unpacked { &self.unpacked } else { bytes },
                        entries: &self.entries,
                        skipped: 0,
                        damage: facts.damage.as_ref(),
                    };
                    Self::push(
                        &mut self.builder,
                        &mut self.copied,
                        &self.select,
                        &event,
                        seen,
                        |builder, batch| finish(builder, batch, &mut origins, &mut take),
                        &mut self.batch,
                    )?;
                    if self.select.takes_numbers(event.run, event.number) {
                        origins.push(span.origin);
                    }
                }
                finish(&mut self.builder, &mut self.batch, &mut origins, &mut take)
            }
            Content::Dumps(dumps) => {
                let mut origins = Vec::with_capacity(dumps.len());
                for (origin, dump) in dumps {
                    let event = dump.event();
                    Self::push(
                        &mut self.builder,
                        &mut self.copied,
                        &self.select,
                        &event,
                        seen,
                        |builder, batch| finish(builder, batch, &mut origins, &mut take),
                        &mut self.batch,
                    )?;
                    if self.select.takes_numbers(event.run, event.number) {
                        origins.push(*origin);
                    }
                }
                finish(&mut self.builder, &mut self.batch, &mut origins, &mut take)
            }
            Content::Packet { packet, events, first, offset } => {
                for range in self.numbered(packet, events) {
                    let origin = |e: usize| Origin { event: first.event + e as u64, ..*first };
                    let origins: Vec<Origin> = range.clone().map(origin).collect();
                    for (e, origin) in range.clone().zip(&origins) {
                        packet.entries(e, &mut self.entries);
                        seen.add(&RawEvent {
                            file: &chunk.files[origin.file as usize],
                            format: Format::Mep,
                            index: origin.event,
                            offset: *offset,
                            run: None,
                            number: None,
                            trigger_mask: None,
                            data: packet.raw(),
                            entries: &self.entries,
                            skipped: packet.skipped(),
                            damage: packet.damage(),
                        });
                    }
                    packet.tables(range.clone(), &mut self.batch);
                    take((packet.view(&self.batch), &origins, packet.max_hits(range)))?;
                }
                Ok(())
            }
        }
    }

    /// The events of a packet that have the run and the number that are wanted.
    fn numbered(&self, packet: &Packet, events: &[Range<usize>]) -> Vec<Range<usize>> {
        if self.select.takes_all_numbers() {
            return events.to_vec();
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        for e in events.iter().cloned().flatten() {
            let (run, number) = packet.numbers(e);
            if self.select.takes_numbers(run, number) {
                found.push(e..e + 1);
            }
        }
        found
    }

    fn push<E: From<InputError>>(
        builder: &mut BatchBuilder,
        copied: &mut u64,
        select: &Select,
        event: &RawEvent<'_>,
        seen: &mut Seen,
        mut flush: impl FnMut(&mut BatchBuilder, &mut EventBatch) -> Result<(), E>,
        batch: &mut EventBatch,
    ) -> Result<(), E> {
        if !select.takes_numbers(event.run, event.number) {
            return Ok(());
        }
        seen.add(event);
        let banks = event.entries.iter().filter(|bank| kind::is_ut(bank.kind));
        *copied += banks.map(|bank| bank.length as u64).sum::<u64>();
        let refuse = |source: BuildError| E::from(InputError::Batch { place: event.place(), source });
        if builder.n_events() > 0 && !builder.agrees(event.banks()) {
            flush(builder, batch)?;
        }
        match builder.push(event.meta(), event.banks()) {
            Err(BuildError::Full) if builder.n_events() > 0 => {
                flush(builder, batch)?;
                builder.push(event.meta(), event.banks()).map_err(refuse)
            }
            result => result.map_err(refuse),
        }
    }
}

/// Hands over what was collected, if anything was.
fn finish<E>(
    builder: &mut BatchBuilder,
    batch: &mut EventBatch,
    origins: &mut Vec<Origin>,
    take: &mut impl FnMut(Part<'_>) -> Result<(), E>,
) -> Result<(), E> {
    if builder.n_events() == 0 {
        return Ok(());
    }
    builder.finish(batch);
    let result = take((batch.view(), origins, batch.view().max_hits()));
    origins.clear();
    result
}
