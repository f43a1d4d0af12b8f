//! Chunks of the inputs, taken apart into batches: checksums, compression, banks.

use std::ops::Range;

use super::checksums::checksums;
use super::chunks::{Apart, Chunk, Content, Origin};
use super::event::{Format, kind};
use super::fragments::{Fragments, Slice};
use super::frames::of_packet;
use super::mdf::Facts;
use super::mdf_format::{CHECKED_FROM, u32_at};
use super::select::Select;
use super::source::Seen;
use super::{BankEntry, BatchBuilder, BatchView, BuildError, EventBatch, InputError, Place, RawEvent};

/// Looks at an event.
type Look<'a> = dyn FnMut(&RawEvent<'_>, Origin) + 'a;

/// Takes chunks apart; one a thread.
#[derive(Debug)]
pub struct Parser {
    check: bool,
    select: Select,
    apart: Apart,
    together: bool,
    sums: Vec<u32>,
    unpacked: Vec<u8>,
    entries: Vec<BankEntry>,
    builder: BatchBuilder,
    batch: EventBatch,
    slice: Slice,
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
            apart: Apart::Nothing,
            together: false,
            sums: Vec::new(),
            unpacked: Vec::new(),
            entries: Vec::new(),
            builder: BatchBuilder::new(),
            batch: EventBatch::default(),
            slice: Slice::default(),
            copied: 0,
        }
    }

    /// With [`Apart::Runs`], a batch holds events of one run, or of none.
    #[must_use]
    pub const fn apart(mut self, apart: Apart) -> Self {
        self.apart = apart;
        self
    }

    /// With `together`, the banks of a batch are copied next to each other, out of all that was read: for devices, to which
    /// every byte of a batch is sent.
    #[must_use]
    pub const fn together(mut self, together: bool) -> Self {
        self.together = together;
        self
    }

    /// Bytes of payload that were copied from what was read into batches so far: only of dumps, of compressed events, and of
    /// MDF where batches are to be [`Self::together`].
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
        chunk: Chunk,
        seen: &mut Seen,
        take: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.parse_all(chunk, seen, None, take)
    }

    /// As [`Self::parse`], and shows every selected event to `look` before it is part of a batch, with all its banks.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_looking<E: From<InputError>>(
        &mut self,
        chunk: Chunk,
        seen: &mut Seen,
        look: &mut Look<'_>,
        take: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.parse_all(chunk, seen, Some(look), take)
    }

    fn parse_all<E: From<InputError>>(
        &mut self,
        chunk: Chunk,
        seen: &mut Seen,
        look: Option<&mut Look<'_>>,
        take: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut collect = Collector {
            builder: &mut self.builder,
            batch: &mut self.batch,
            copied: &mut self.copied,
            select: &self.select,
            apart: self.apart,
            origins: Vec::new(),
            run: None,
            seen,
            look,
            take,
        };
        match chunk.content {
            Content::Mdf { mut data, tables, spans } => {
                self.sums.clear();
                if self.check {
                    // Those without a checksum cost no time.
                    let pieces = spans.iter().map(|span| {
                        let event = &data[span.bytes.clone()];
                        if u32_at(event, 12) == 0 { &[] } else { &event[CHECKED_FROM..] }
                    });
                    checksums(pieces, &mut self.sums);
                }
                for (i, span) in spans.iter().enumerate() {
                    let bytes = &data[span.bytes.clone()];
                    let facts = Facts::of(bytes, self.sums.get(i).copied(), &mut self.unpacked, &mut self.entries);
                    let n_banks = self.entries.iter().filter(|bank| kind::is_ut(bank.kind)).count();
                    let stays = !self.together && !facts.unpacked && u32::try_from(span.bytes.end).is_ok();
                    let event = RawEvent {
                        file: &chunk.files[span.origin.file as usize],
                        format: Format::Mdf,
                        index: span.origin.event,
                        offset: span.offset,
                        run: facts.run,
                        number: facts.number,
                        trigger_mask: facts.trigger_mask,
                        data: if facts.unpacked { &self.unpacked } else { bytes },
                        stored: bytes,
                        entries: &self.entries,
                        skipped: 0,
                        damage: facts.damage.as_ref(),
                    };
                    let room = stays.then_some((n_banks, tables));
                    let meta = event.meta();
                    if collect.add(&event, span.origin, &data, room)? {
                        let banks = (&self.entries[..], n_banks);
                        collect.builder.push_in_place(meta, &mut data, span.bytes.start, banks);
                    }
                }
                collect.flush(&data)
            }
            Content::Dumps(dumps) => {
                for (origin, dump) in dumps {
                    collect.add(&dump.event(), origin, &[], None)?;
                }
                collect.flush(&[])
            }
            Content::Packet { packet, events, first, offset, file: left_in } => {
                let file = &chunk.files[first.file as usize];
                let fragments = match (&left_in, &events[..]) {
                    (Some(left_in), [begin, ..]) => {
                        let end = events.last().map_or(begin.end, |last| last.end);
                        let loaded = packet.load(left_in, offset, &(begin.start..end), &mut self.slice);
                        let place = || Place { file: file.clone(), event: first.event, byte: offset };
                        let Some(loaded) = loaded.map_err(|error| of_packet(&place(), error))? else { return Ok(()) };
                        loaded
                    }
                    _ => packet.fragments(),
                };
                if let Some(damage) = packet.damage() {
                    for e in events.iter().flat_map(Clone::clone) {
                        let (run, number) = fragments.numbers(e);
                        if self.select.lacks_numbers(run, number) {
                            let event = first.event + e as u64;
                            collect.seen.leave_out(damage, || Place { file: file.clone(), event, byte: offset });
                        }
                    }
                }
                let counted = collect.look.is_none() && packet.damage().is_none();
                for range in events.iter().flat_map(|range| numbered(&self.select, self.apart, fragments, range)) {
                    let origin =
                        |e: usize| Origin { event: first.event + e as u64, place: first.place + e as u64, ..first };
                    let origins: Vec<Origin> = range.clone().map(origin).collect();
                    if counted {
                        fragments.count(file, &range, collect.seen);
                    }
                    for (e, origin) in range.clone().zip(&origins).filter(|_| !counted) {
                        fragments.entries(e, &mut self.entries);
                        let (run, number) = fragments.numbers(e);
                        let event = RawEvent {
                            file,
                            format: Format::Mep,
                            index: origin.event,
                            offset,
                            run,
                            number,
                            trigger_mask: None,
                            data: fragments.raw(),
                            stored: fragments.raw(),
                            entries: &self.entries,
                            skipped: packet.skipped(),
                            damage: packet.damage(),
                        };
                        collect.seen.add(&event);
                        if let Some(look) = &mut collect.look {
                            look(&event, *origin);
                        }
                    }
                    fragments.tables(range.clone(), collect.batch);
                    (collect.take)((fragments.view(collect.batch), &origins, fragments.max_hits(&range)))?;
                }
                Ok(())
            }
        }
    }
}

/// The events of a range that have the run and the number that are wanted, those of different runs apart where they must
/// be.
fn numbered(select: &Select, apart: Apart, packet: Fragments<'_>, events: &Range<usize>) -> Vec<Range<usize>> {
    if select.takes_all_numbers() && apart != Apart::Runs {
        return vec![events.clone()];
    }
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut last_run = None;
    for e in events.clone() {
        let (run, number) = packet.numbers(e);
        if !select.takes_numbers(run, number) {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.end == e && (apart != Apart::Runs || last_run == Some(run)) => last.end += 1,
            _ => found.push(e..e + 1),
        }
        last_run = Some(run);
    }
    found
}

/// Puts events into batches and hands those over.
struct Collector<'a, 'l, T> {
    builder: &'a mut BatchBuilder,
    batch: &'a mut EventBatch,
    copied: &'a mut u64,
    select: &'a Select,
    apart: Apart,
    /// Of the events that wait in the builder.
    origins: Vec<Origin>,
    /// Run of the event before.
    run: Option<u32>,
    seen: &'a mut Seen,
    look: Option<&'a mut Look<'l>>,
    take: T,
}

impl<E: From<InputError>, T: FnMut(Part<'_>) -> Result<(), E>> Collector<'_, '_, T> {
    /// Adds an event, if it is selected. Where it cannot share a batch with the events before it, those are handed over first.
    ///
    /// For an event that can stay in `raw`, `stays` has the number of its UT banks, and how many bytes of `raw` are for tables.
    /// The result is whether it does stay; the caller then adds it with [`BatchBuilder::push_in_place`].
    fn add(
        &mut self,
        event: &RawEvent<'_>,
        origin: Origin,
        raw: &[u8],
        stays: Option<(usize, usize)>,
    ) -> Result<bool, E> {
        if !self.select.takes_numbers(event.run, event.number) {
            if let Some(damage) = event.damage.filter(|_| self.select.lacks_numbers(event.run, event.number)) {
                self.seen.leave_out(damage, || event.place());
            }
            return Ok(false);
        }
        self.seen.add(event);
        let other_run = std::mem::replace(&mut self.run, event.run) != event.run;
        if self.apart == Apart::Runs && other_run {
            self.flush(raw)?;
        }
        let full =
            |builder: &BatchBuilder| stays.is_some_and(|(n_banks, tables)| builder.end_of_table(n_banks) > tables);
        if self.builder.n_events() > 0 && (self.builder.is_in_place() != stays.is_some() || full(self.builder)) {
            self.flush(raw)?;
        }
        let stays = stays.is_some() && !full(self.builder);
        if !stays {
            let banks = event.entries.iter().filter(|bank| kind::is_ut(bank.kind));
            *self.copied += banks.map(|bank| bank.length as u64).sum::<u64>();
            if !self.builder.agrees(event.banks()) {
                self.flush(raw)?;
            }
            let refuse = |source: BuildError| E::from(InputError::Batch { place: event.place(), source });
            match self.builder.push(event.meta(), event.banks()) {
                Err(BuildError::Full) if self.builder.n_events() > 0 => {
                    self.flush(raw)?;
                    self.builder.push(event.meta(), event.banks()).map_err(refuse)
                }
                result => result.map_err(refuse),
            }?;
        }
        // Not before: what was handed over above did not have this event.
        if let Some(look) = &mut self.look {
            look(event, origin);
        }
        self.origins.push(origin);
        Ok(stays)
    }

    /// Hands over what waits, perhaps in `raw`, if anything does.
    fn flush(&mut self, raw: &[u8]) -> Result<(), E> {
        if self.builder.n_events() == 0 {
            return Ok(());
        }
        let (in_place, max_hits) = (self.builder.is_in_place(), self.builder.max_hits());
        self.builder.finish(self.batch);
        let batch = self.batch.view();
        let batch = if in_place { BatchView { raw, ..batch } } else { batch };
        let result = (self.take)((batch, &self.origins, max_hits));
        self.origins.clear();
        result
    }
}
