//! Chunks of the inputs, taken apart into events and batches: checksums, compression, banks.

use std::ops::Range;
use std::path::Path;

use super::checksums::checksums;
use super::chunks::{Chunk, Content, Origin};
use super::event::{Format, kind};
use super::fragments::{Fragments, Slice};
use super::frames::of_packet;
use super::mdf::EventFacts;
use super::mdf_format::{CHECKED_FROM, u32_at};
use super::seen::Seen;
use super::select::Select;
use super::{
    BankEntry, BatchBuilder, BatchView, BuildError, EventBatch, EventMeta, InputError, Place,
    RawEvent,
};

type Look<'a> = dyn FnMut(&RawEvent<'_>, Origin) + 'a;

/// A batch, the origin of each of its events, and an upper limit of its hits.
pub type Part<'a> = (BatchView<'a>, &'a [Origin], usize);

/// Takes chunks apart; each thread has one.
#[derive(Debug)]
pub struct Parser {
    cursor: Cursor,
    together: bool,
    builder: BatchBuilder,
    batch: EventBatch,
    origins: Vec<Origin>,
    max_hits: usize,
    /// The batch lies in the bytes of the chunk.
    in_place: bool,
    /// The event at the cursor was counted, and is in no batch yet.
    waits: bool,
    copied: u64,
}

impl Parser {
    /// Returns a parser that compares checksums if `check`, and skips the events that `select` does
    /// not take.
    pub fn new(check: bool, select: Select) -> Self {
        Self {
            cursor: Cursor {
                check,
                select,
                ..Cursor::default()
            },
            together: false,
            builder: BatchBuilder::new(),
            batch: EventBatch::default(),
            origins: Vec::new(),
            max_hits: 0,
            in_place: false,
            waits: false,
            copied: 0,
        }
    }

    /// With `together`, copies the banks of a batch next to each other: for devices, which are sent
    /// every byte of it.
    #[must_use]
    pub const fn together(mut self, together: bool) -> Self {
        self.together = together;
        self
    }

    /// Returns the number of payload bytes copied into batches so far. Only dumps, compressed
    /// events, and MDF with [`Self::together`] need a copy.
    pub const fn copied(&self) -> u64 {
        self.copied
    }

    /// Takes a chunk apart, counts its events in `seen`, and hands its batches to `take`. Every
    /// selected event is shown to `look` before it is part of a batch, with all its banks.
    pub fn parse<E: From<InputError>>(
        &mut self,
        chunk: Chunk,
        seen: &mut Seen,
        mut look: Option<&mut Look<'_>>,
        mut take: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.begin(chunk, seen)?;
        while self.collect(seen, &mut look)? {
            take(self.part())?;
        }
        Ok(())
    }

    /// Begins a chunk, in place of the last one.
    pub(super) fn begin(&mut self, chunk: Chunk, seen: &mut Seen) -> Result<(), InputError> {
        self.waits = false;
        self.cursor.begin(chunk, seen)
    }

    /// Goes to the next event of the chunk, without a batch; false after the last.
    pub(super) fn advance(&mut self) -> bool {
        let is_there = self.cursor.advance();
        if !is_there {
            self.cursor.chunk = None;
        }
        is_there
    }

    /// Returns the event at the cursor, and its place.
    pub(super) fn event(&self) -> Option<(RawEvent<'_>, Origin)> {
        self.cursor.event()
    }

    /// Returns true if the event at the cursor is selected; notes its facts.
    pub(super) fn takes(&self, seen: &mut Seen) -> bool {
        let select = &self.cursor.select;
        // (Events of packets are chosen when their chunk begins.)
        let Some((event, _)) = self.event().filter(|_| !self.is_packet()) else {
            return true;
        };
        if !select.takes_all_numbers() {
            seen.examine(event.number, event.odin);
        }
        let is_taken = select.takes_event(event.run, event.number, event.odin);
        let lacks = |_: &&_| select.lacks_numbers(event.run, event.number, event.odin);
        if let Some(damage) = event.damage.filter(|damage| !is_taken && lacks(damage)) {
            seen.leave_out(damage, || event.place());
        }
        is_taken
    }

    fn is_packet(&self) -> bool {
        let chunk = self.cursor.chunk.as_ref();
        chunk.is_some_and(|chunk| matches!(chunk.content, Content::Packet { .. }))
    }

    pub(super) fn part(&self) -> Part<'_> {
        let batch = self.batch.view();
        let batch = match self.cursor.chunk.as_ref().map(|chunk| &chunk.content) {
            Some(Content::Mdf { data, .. }) if self.in_place => BatchView { raw: data, ..batch },
            Some(Content::Packet { packet, .. }) => {
                self.cursor.slice.fragments(packet).view(&self.batch)
            }
            _ => batch,
        };
        (batch, &self.origins, self.max_hits)
    }

    /// Makes a batch of the next events of the chunk; false where there are none.
    pub(super) fn collect(
        &mut self,
        seen: &mut Seen,
        look: &mut Option<&mut Look<'_>>,
    ) -> Result<bool, InputError> {
        self.origins.clear();
        if self.is_packet() {
            return Ok(self.collect_of_packet(seen, look));
        }
        loop {
            if !self.waits {
                if !self.cursor.advance() {
                    break;
                }
                if !self.takes(seen) {
                    continue;
                }
                let Some((event, _)) = self.event() else {
                    break;
                };
                seen.add(&event);
                self.waits = true;
            }
            if !self.push(look)? {
                break;
            }
            self.waits = false;
        }
        (self.in_place, self.max_hits) = (self.builder.is_in_place(), self.builder.max_hits());
        self.builder.finish(&mut self.batch);
        if self.batch.n_events == 0 {
            self.cursor.chunk = None;
        }
        Ok(self.batch.n_events > 0)
    }

    /// Adds the event at the cursor to the batch; false if it cannot share one with the events
    /// before it.
    fn push(&mut self, look: &mut Option<&mut Look<'_>>) -> Result<bool, InputError> {
        let Some((event, origin)) = self.cursor.event() else {
            return Ok(true);
        };
        let begun = self.builder.n_events() > 0;
        let builder = &mut self.builder;
        let meta = event.meta();
        let banks = || event.entries.iter().filter(|bank| kind::is_ut(bank.kind));
        let room = if self.together {
            None
        } else {
            self.cursor.room_for_tables()
        };
        let n_banks = banks().count();
        let fits = room.is_some_and(|tables| builder.end_of_table(n_banks) <= tables);
        if begun && builder.is_in_place() != fits {
            return Ok(false);
        }
        if !fits {
            if begun && !builder.agrees(event.banks()) {
                return Ok(false);
            }
            match builder.push(meta, event.banks()) {
                Ok(()) => self.copied += banks().map(|bank| bank.length as u64).sum::<u64>(),
                Err(BuildError::Full) if begun => return Ok(false),
                Err(source) => {
                    self.waits = false;
                    return Err(event.place().bad(source.to_string()));
                }
            }
        }
        self.origins.push(origin);
        // Called only now, because the batch that was handed over last does not have this event.
        if let Some(look) = look {
            look(&event, origin);
        }
        if fits {
            self.cursor.push_in_place(meta, n_banks, builder);
        }
        Ok(true)
    }

    fn collect_of_packet(&mut self, seen: &mut Seen, look: &mut Option<&mut Look<'_>>) -> bool {
        let Some(events) = self.cursor.ranges.pop() else {
            self.cursor.chunk = None;
            return false;
        };
        let counted = look.is_none() && !self.cursor.is_damaged();
        for e in events.clone() {
            if counted {
                self.origins.extend(self.cursor.origin_in_packet(e));
                continue;
            }
            self.cursor.go_to(e);
            let Some((event, origin)) = self.cursor.event() else {
                continue;
            };
            self.origins.push(origin);
            seen.add(&event);
            if let Some(look) = look {
                look(&event, origin);
            }
        }
        let Some((file, fragments)) = self.cursor.packet() else {
            return false;
        };
        if counted {
            fragments.count(file, &events, seen);
        }
        fragments.tables(events.clone(), &mut self.batch);
        self.max_hits = fragments.max_hits(&events);
        true
    }
}

/// A chunk, and one of its events.
#[derive(Debug, Default)]
struct Cursor {
    check: bool,
    select: Select,
    chunk: Option<Chunk>,
    /// The event after the current one: of the chunk, or of its packet.
    next: usize,
    /// Wanted events of a packet that are not reached yet, in ranges that can share a batch; the
    /// last comes first.
    ranges: Vec<Range<usize>>,
    sums: Vec<u32>,
    slice: Slice,
    facts: EventFacts,
    unpacked: Vec<u8>,
    entries: Vec<BankEntry>,
}

impl Cursor {
    fn begin(&mut self, chunk: Chunk, seen: &mut Seen) -> Result<(), InputError> {
        (self.chunk, self.next) = (None, 0);
        self.sums.clear();
        self.ranges.clear();
        match &chunk.content {
            Content::Mdf { data, spans, .. } if self.check => {
                // Events without a checksum cost no time.
                let pieces = spans.iter().map(|span| {
                    let event = &data[span.bytes.clone()];
                    if u32_at(event, 12) == 0 {
                        &[]
                    } else {
                        &event[CHECKED_FROM..]
                    }
                });
                checksums(pieces, &mut self.sums);
            }
            Content::Mdf { .. } | Content::Dumps(_) => {}
            Content::Packet {
                packet,
                events,
                first,
                offset,
                file: left_in,
            } => {
                let file = &chunk.files[first.file as usize];
                let place = |event| Place {
                    file: file.clone(),
                    event,
                    byte: *offset,
                };
                if let (Some(left_in), [begin, ..]) = (left_in, &events[..]) {
                    let end = events.last().map_or(begin.end, |last| last.end);
                    let loaded =
                        packet.load(left_in, *offset, &(begin.start..end), &mut self.slice);
                    loaded.map_err(|error| of_packet(&place(first.event), error))?;
                }
                let fragments = self.slice.fragments(packet);
                if let Some(damage) = &packet.damage {
                    for e in events.iter().flat_map(Clone::clone) {
                        let (run, number, odin) = fragments.numbers(e);
                        if self.select.lacks_numbers(run, number, odin) {
                            seen.leave_out(damage, || place(first.event + e as u64));
                        }
                    }
                }
                let wanted = events
                    .iter()
                    .flat_map(|range| numbered(&self.select, fragments, range, seen));
                self.ranges.extend(wanted);
                self.ranges.reverse();
            }
        }
        self.chunk = Some(chunk);
        Ok(())
    }

    /// Goes to the next event; false after the last.
    fn advance(&mut self) -> bool {
        let at = self.next;
        let is_there = match self.chunk.as_ref().map(|chunk| &chunk.content) {
            Some(Content::Mdf { data, spans, .. }) if at < spans.len() => {
                let sum = self.sums.get(at).copied();
                let bytes = &data[spans[at].bytes.clone()];
                self.facts = EventFacts::of(bytes, sum, &mut self.unpacked, &mut self.entries);
                true
            }
            Some(Content::Dumps(dumps)) => at < dumps.len(),
            Some(Content::Packet { .. }) => {
                let Some(mut range) = self.ranges.pop() else {
                    return false;
                };
                if let Some(e) = range.next() {
                    self.go_to(e);
                }
                self.ranges.extend((!range.is_empty()).then_some(range));
                return true;
            }
            _ => false,
        };
        self.next += usize::from(is_there);
        is_there
    }

    fn go_to(&mut self, e: usize) {
        if let Some(Chunk {
            content: Content::Packet { packet, .. },
            ..
        }) = &self.chunk
        {
            let fragments = self.slice.fragments(packet);
            fragments.entries(e, &mut self.entries);
            let (run, number, odin) = fragments.numbers(e);
            self.facts = EventFacts {
                run,
                number,
                odin,
                ..EventFacts::default()
            };
            self.next = e + 1;
        }
    }

    fn packet(&self) -> Option<(&Path, Fragments<'_>)> {
        let Chunk {
            files,
            content: Content::Packet { packet, first, .. },
        } = self.chunk.as_ref()?
        else {
            return None;
        };
        Some((&files[first.file as usize], self.slice.fragments(packet)))
    }

    fn is_damaged(&self) -> bool {
        matches!(&self.chunk, Some(Chunk { content: Content::Packet { packet, .. }, .. }) if packet.damage.is_some())
    }

    fn origin_in_packet(&self, e: usize) -> Option<Origin> {
        let Content::Packet { first, .. } = self.chunk.as_ref()?.content else {
            return None;
        };
        Some(Origin {
            event: first.event + e as u64,
            place: first.place + e as u64,
            ..first
        })
    }

    /// Returns the current event; `None` before the first event and after the last.
    fn event(&self) -> Option<(RawEvent<'_>, Origin)> {
        let (Chunk { files, content }, at) = (self.chunk.as_ref()?, self.next.checked_sub(1)?);
        let EventFacts {
            run,
            number,
            odin,
            trigger_mask,
            ref damage,
            unpacked,
        } = self.facts;
        match content {
            Content::Mdf { data, spans, .. } => {
                let span = &spans[at];
                let bytes = &data[span.bytes.clone()];
                let event = RawEvent {
                    file: &files[span.origin.file as usize],
                    format: Format::Mdf,
                    index: span.origin.event,
                    offset: span.offset,
                    run,
                    number,
                    odin,
                    trigger_mask,
                    data: if unpacked { &self.unpacked } else { bytes },
                    stored: bytes,
                    entries: &self.entries,
                    skipped: 0,
                    damage: damage.as_ref(),
                };
                Some((event, span.origin))
            }
            Content::Dumps(dumps) => dumps.get(at).map(|(origin, dump)| (dump.event(), *origin)),
            Content::Packet {
                packet,
                first,
                offset,
                ..
            } => {
                let raw = self.slice.fragments(packet).raw();
                let origin = self.origin_in_packet(at)?;
                let event = RawEvent {
                    file: &files[first.file as usize],
                    format: Format::Mep,
                    index: origin.event,
                    offset: *offset,
                    run,
                    number,
                    odin,
                    trigger_mask,
                    data: raw,
                    stored: raw,
                    entries: &self.entries,
                    skipped: packet.skipped(),
                    damage: packet.damage.as_deref(),
                };
                Some((event, origin))
            }
        }
    }

    /// For an event that can stay where it was read: number of bytes before all events that are
    /// reserved for tables.
    fn room_for_tables(&self) -> Option<usize> {
        let Content::Mdf { tables, spans, .. } = &self.chunk.as_ref()?.content else {
            return None;
        };
        let end = spans.get(self.next.checked_sub(1)?)?.bytes.end;
        (!self.facts.unpacked && u32::try_from(end).is_ok()).then_some(*tables)
    }

    /// Adds the current event, which has `n_banks` banks of the UT, to `builder` where it is.
    fn push_in_place(&mut self, meta: EventMeta, n_banks: usize, builder: &mut BatchBuilder) {
        if let Some(Chunk {
            content: Content::Mdf { data, spans, .. },
            ..
        }) = &mut self.chunk
        {
            builder.push_in_place(
                meta,
                data,
                spans[self.next - 1].bytes.start,
                (&self.entries, n_banks),
            );
        }
    }
}

/// Returns the wanted events of a range.
fn numbered(
    select: &Select,
    packet: Fragments<'_>,
    events: &Range<usize>,
    seen: &mut Seen,
) -> Vec<Range<usize>> {
    if select.takes_all_numbers() {
        return vec![events.clone()];
    }
    let mut found: Vec<Range<usize>> = Vec::new();
    for e in events.clone() {
        let (run, number, odin) = packet.numbers(e);
        seen.examine(number, odin);
        if !select.takes_event(run, number, odin) {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.end == e => last.end += 1,
            _ => found.push(e..e + 1),
        }
    }
    found
}
