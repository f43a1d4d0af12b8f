//! Files in pieces that threads take apart side by side: events with their bytes, or some events of
//! a packet.
//!
//! [`Chunks`] only cuts files into events, in order; [`Parser`](super::Parser)s do everything else,
//! one chunk each, on any thread.
//!
//! Where an event ends can only be found by starting from the event before it, so that one thread
//! must walk through the file. This walk should be short: it reads sizes and copies bytes.
//! Checksums, decompression, and the search for banks take most of the time, need nothing but the
//! bytes of their chunk, and run on as many threads as there are.

use std::io::BufReader;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::InputError;
use super::ahead::Ahead;
use super::allen_dump::AllenDump;
use super::event::Format;
use super::file_at::FileAt;
use super::fragments::MAX_BYTES;
use super::frames::{Frame, Frames, Source};
use super::mdf::unpacked_bytes;
use super::packet::Packet;
use super::part::InputPart;
use super::pool::{BufferPool, PooledBuffer};
use super::recognise::{BUFFER, Opened, is_empty};
use super::select::Select;

/// Number of bytes for the table of an event's banks: as many as the UT has, and some more.
const TABLE: usize = 1 << 10;
/// Number of events for whose tables a chunk has room.
const TABLES: usize = 1 << 10;

/// File and place of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// File, by its place in the list of inputs.
    pub file: u32,
    /// Event of the file, from 0.
    pub event: u64,
    /// Event of all inputs, from 0.
    pub place: u64,
}

/// An event in the bytes of a chunk.
#[derive(Clone, Debug)]
pub(super) struct EventSpan {
    pub origin: Origin,
    /// Byte of the file at which it begins.
    pub offset: u64,
    pub bytes: Range<usize>,
}

/// A piece of the inputs.
#[derive(Debug)]
pub struct Chunk {
    pub(super) files: Arc<[PathBuf]>,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// Events in `data`, whose first `tables` bytes [`Parser`](super::Parser) fills.
    Mdf {
        data: PooledBuffer,
        tables: usize,
        spans: Vec<EventSpan>,
    },
    Dumps(Vec<(Origin, AllenDump)>),
    /// Events of a packet at byte `offset`, each range for a batch; `file`, if the packet's
    /// payloads were left in it.
    Packet {
        packet: Arc<Packet>,
        events: Vec<Range<usize>>,
        first: Origin,
        offset: u64,
        file: Option<FileAt>,
    },
}

#[derive(Debug)]
enum Reader {
    Frames(Box<Frames>),
    Dump(Option<AllenDump>),
}

/// A packet of which there are events left.
#[derive(Clone, Debug)]
struct Current {
    packet: Arc<Packet>,
    next: usize,
    offset: u64,
    /// Number of events of the file before the packet.
    before: u64,
    /// The file, if the packet's payloads were left in it.
    file: Option<FileAt>,
}

/// The inputs, cut into chunks.
#[derive(Debug)]
pub struct Chunks {
    parts: Vec<InputPart>,
    files: Arc<[PathBuf]>,
    next_file: usize,
    reader: Option<Reader>,
    packet: Option<Current>,
    max_events: usize,
    check: bool,
    select: Select,
    by_file: bool,
    /// Number of events of all files before the next event.
    events: u64,
    /// Number of bytes of an event, in the last chunk or as a guess.
    event_bytes: usize,
    /// True if the next events can probably be read as a block.
    blocks: bool,
    error: Option<InputError>,
    ahead: Ahead,
    read: Arc<AtomicU64>,
    pool: BufferPool,
    packets: BufferPool,
}

impl Chunks {
    /// Reads the selected events of `parts` in chunks of at most `max_events` (at least 1).
    /// Compares checksums if `check`.
    pub fn new(
        parts: impl IntoIterator<Item: Into<InputPart>>,
        max_events: usize,
        check: bool,
        select: Select,
    ) -> Self {
        let parts: Vec<InputPart> = parts.into_iter().map(Into::into).collect();
        Self {
            files: parts.iter().map(|part| part.name().to_path_buf()).collect(),
            parts,
            next_file: 0,
            reader: None,
            packet: None,
            max_events: max_events.max(1),
            check,
            select,
            by_file: false,
            events: 0,
            event_bytes: 1 << 14,
            blocks: true,
            error: None,
            ahead: Ahead::new(1),
            read: Arc::default(),
            pool: BufferPool::default(),
            packets: BufferPool::default(),
        }
    }

    /// Numbers the events from `place` on, as if other inputs with `place` events came before.
    #[must_use]
    pub const fn begin_at(mut self, place: u64) -> Self {
        self.events = place;
        self
    }

    /// Unpacks up to `files` compressed files at once, each on its own thread: the current file and
    /// the files after it. At most 64 MiB of unpacked bytes wait, in addition to the memory of the
    /// decompressors.
    #[must_use]
    pub fn unpack_at_once(mut self, files: usize) -> Self {
        self.ahead = Ahead::new(files);
        self
    }

    /// Limits the chunks that follow to `max_events` (at least 1) events.
    pub fn limit(&mut self, max_events: usize) {
        self.max_events = max_events.max(1);
    }

    /// With `by_file`, a chunk holds events of one file.
    #[must_use]
    pub const fn by_file(mut self, by_file: bool) -> Self {
        self.by_file = by_file;
        self
    }

    /// Returns the index, in the list of inputs, of the file that the last chunk or the last error
    /// came from. For a chunk from several files this is the last file.
    pub const fn file(&self) -> usize {
        self.next_file.saturating_sub(1)
    }

    /// Returns the number of inputs opened so far. No input is opened after the last wanted event.
    pub const fn opened(&self) -> usize {
        self.next_file
    }

    /// Returns the names of the parts.
    pub fn files(&self) -> &Arc<[PathBuf]> {
        &self.files
    }

    /// Returns a counter of the bytes read so far, as they lie on the disk (before unpacking). It
    /// goes on counting while chunks are read, so that another thread can show the progress.
    pub fn read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }

    /// Returns the next chunk, or `None` after the last one. The events before an error are
    /// returned first; after the error, reading goes on with the next file.
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
                return Ok(Some(Chunk {
                    files: Arc::clone(&self.files),
                    content,
                }));
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

    /// Returns the next events of the current packet.
    fn of_packet(&mut self) -> Option<Chunk> {
        loop {
            let current = self.packet.take()?;
            let Current {
                ref packet,
                next,
                offset,
                before,
                ref file,
            } = current;
            let n = packet.n_events;
            let end = packet.slice(next, self.max_events);
            // `events` already counts the events of the packet.
            let place = self.events - n as u64;
            let mut events: Vec<Range<usize>> = Vec::new();
            for e in (next..end).filter(|&e| self.select.takes(place + e as u64)) {
                match events.last_mut() {
                    Some(last) if last.end == e && (e - next) % self.max_events != 0 => {
                        last.end += 1;
                    }
                    _ => events.push(e..e + 1),
                }
            }
            let chunk = (!events.is_empty()).then(|| {
                let first = Origin {
                    file: self.next_file as u32 - 1,
                    event: before,
                    place,
                };
                let (packet, file) = (Arc::clone(packet), file.clone());
                let content = Content::Packet {
                    packet,
                    events,
                    first,
                    offset,
                    file,
                };
                Chunk {
                    files: Arc::clone(&self.files),
                    content,
                }
            });
            if end < n {
                self.packet = Some(Current {
                    next: end,
                    ..current
                });
            }
            if chunk.is_some() {
                return chunk;
            }
        }
    }

    /// Collects events until a chunk is full, the format changes, a packet comes or something is
    /// wrong.
    fn collect(&mut self) -> Option<Content> {
        let (mut data, mut spans, mut dumps) = (self.pool.take(), Vec::new(), Vec::new());
        let tables = TABLE * self.max_events.min(TABLES);
        if data.len() < tables {
            data.resize(tables, 0);
        }
        // Bytes behind `end` are of an earlier chunk: bytes that are new to the process cost time.
        let mut end = tables;
        // Bytes of dumps, and those that events grow by when they are unpacked.
        let mut more = 0;
        while spans.len() + dumps.len() < self.max_events
            && end - tables + more < MAX_BYTES
            && !self.select.is_past(self.events)
        {
            let Some(reader) = &mut self.reader else {
                if self.by_file && !(spans.is_empty() && dumps.is_empty()) {
                    break;
                }
                // Events with and without version bytes do not go into one batch.
                let Some(part) = self.parts.get(self.next_file) else {
                    break;
                };
                let opened = self.ahead.reach(&self.parts, self.next_file, &self.read);
                self.next_file += 1;
                match Self::open(part, opened, &self.read, self.check, &self.packets) {
                    Ok(reader) => (self.reader, self.blocks) = (Some(reader), true),
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
                            more += dump.length() as usize;
                            dumps.push((
                                Origin {
                                    file,
                                    event: 0,
                                    place: self.events,
                                },
                                dump,
                            ));
                        }
                        self.events += 1;
                    }
                    self.reader = None;
                }
                Reader::Frames(frames) => {
                    if !dumps.is_empty() {
                        break;
                    }
                    let (begin, wanted) = (end, self.max_events - spans.len());
                    let (place, select) = (&mut self.events, &self.select);
                    let mut add = |event, offset, bytes: Range<usize>| {
                        if select.takes(*place) {
                            let origin = Origin {
                                file,
                                event,
                                place: *place,
                            };
                            end = bytes.end;
                            spans.push(EventSpan {
                                origin,
                                offset,
                                bytes,
                            });
                        }
                        *place += 1;
                        spans.len() < self.max_events && !select.is_past(*place)
                    };
                    if std::mem::take(&mut self.blocks) {
                        // Slightly more than needed; the surplus is read again.
                        let bytes = self
                            .event_bytes
                            .saturating_mul(wanted.saturating_add(2))
                            .min(MAX_BYTES);
                        let before = frames.events;
                        let end = frames.next_block((begin, bytes), &mut data, &mut add);
                        let n = (frames.events - before) as usize;
                        if let Some(bytes) = (end - begin).checked_div(n) {
                            (self.blocks, self.event_bytes) = (true, bytes);
                            continue;
                        }
                    }
                    data.truncate(begin);
                    let frame = frames.next(&mut data);
                    let (offset, events) = (frames.last, frames.events);
                    match frame {
                        Ok(Frame::End) => self.reader = None,
                        Ok(Frame::Event) => {
                            let unpacked = unpacked_bytes(&data[begin..]);
                            more += unpacked;
                            add(events - 1, offset, begin..data.len());
                            (self.blocks, self.event_bytes) = (unpacked == 0, data.len() - begin);
                        }
                        Ok(Frame::Packet(packet, file)) => {
                            let n = packet.n_events as u64;
                            self.events += n;
                            if n > 0 {
                                let packet = Arc::new(packet);
                                self.packet = Some(Current {
                                    packet,
                                    next: 0,
                                    offset,
                                    before: events - n,
                                    file,
                                });
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
        (!spans.is_empty()).then_some(Content::Mdf {
            data,
            tables,
            spans,
        })
    }

    fn open(
        part: &InputPart,
        opened: Option<Opened>,
        read: &Arc<AtomicU64>,
        check: bool,
        pool: &BufferPool,
    ) -> Result<Reader, InputError> {
        let opened = opened.map_or_else(|| part.open(read), |opened| Ok((opened, 0, 0)));
        let (
            Opened {
                input,
                length,
                format,
                file,
            },
            byte,
            events,
        ) = opened?;
        if length == Some(0) && part.is_file() {
            return Err(is_empty(part.name()));
        }
        if format == Format::AllenDump {
            return Ok(Reader::Dump(Some(AllenDump::read(input, part.name())?)));
        }
        let (input, is_left) = match (file, length) {
            (Some(file), Some(length)) if format == Format::Mep => {
                (Source::Packets(file.bytes(byte, length)), true)
            }
            (Some(file), Some(length)) => (
                Source::Events(BufReader::with_capacity(BUFFER, file.bytes(byte, length))),
                false,
            ),
            _ => (Source::Stream(input), false),
        };
        let mut frames = Frames::new(input, part.name(), length, format);
        frames.begin_at(byte, events);
        frames.check = check;
        frames.pool = pool.clone();
        if is_left {
            frames.pass_bodies();
        }
        Ok(Reader::Frames(Box::new(frames)))
    }
}

/// Counts the events of files or sections. The inputs are read, but their banks are not parsed.
pub fn count_events(parts: &[InputPart]) -> Result<u64, InputError> {
    parts
        .iter()
        .map(count_readable)
        .try_fold(0, |sum, (n, error)| error.map_or(Ok(sum + n), Err))
}

/// Counts the events of a file or section up to the first byte that cannot be understood, and
/// returns the error found there.
pub fn count_readable(part: &InputPart) -> (u64, Option<InputError>) {
    let mut frames = match Chunks::open(part, None, &Arc::default(), false, &BufferPool::default())
    {
        Ok(Reader::Dump(_)) => return (1, None),
        Ok(Reader::Frames(frames)) => frames,
        Err(error) => return (0, Some(error)),
    };
    let (mut data, mut n) = (Vec::new(), 0);
    loop {
        data.clear();
        match frames.next(&mut data) {
            Ok(Frame::End) => return (n, None),
            Ok(_) => n = frames.events - part.first_event(),
            Err(error) => return (n, Some(error)),
        }
    }
}
