//! Chunks of the inputs, taken apart into batches: checksums, compression, banks.

use std::ops::Range;

use super::checksums::checksums;
use super::chunks::{Apart, Chunk, Content, Origin};
use super::event::{Format, kind};
use super::mdf::Facts;
use super::mdf_format::{CHECKED_FROM, u32_at};
use super::packet::Packet;
use super::select::Select;
use super::source::Seen;
use super::{BankEntry, BatchBuilder, BatchView, BuildError, EventBatch, InputError, RawEvent};

/// Takes chunks apart; one a thread.
#[derive(Debug)]
pub struct Parser {
    check: bool,
    select: Select,
    apart: Apart,
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
            apart: Apart::Nothing,
            sums: Vec::new(),
            unpacked: Vec::new(),
            entries: Vec::new(),
            builder: BatchBuilder::new(),
            batch: EventBatch::default(),
            copied: 0,
        }
    }

    /// With [`Apart::Runs`], a batch holds events of one run, or of none.
    #[must_use]
    pub const fn apart(mut self, apart: Apart) -> Self {
        self.apart = apart;
        self
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
        take: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.parse_looking(chunk, seen, &mut |_, _| (), take)
    }

    /// As [`Self::parse`], and shows every selected event to `look` before it is part of a batch, with all its banks.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_looking<E: From<InputError>>(
        &mut self,
        chunk: &Chunk,
        seen: &mut Seen,
        look: &mut dyn FnMut(&RawEvent<'_>, Origin),
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
                let mut run = None;
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
                    if self.apart == Apart::Runs && run.replace(event.run) != Some(event.run) {
                        finish(&mut self.builder, &mut self.batch, &mut origins, &mut take)?;
                    }
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
                        look(&event, span.origin);
                        origins.push(span.origin);
                    }
                }
                finish(&mut self.builder, &mut self.batch, &mut origins, &mut take)
            }
            Content::Dumps(dumps) => {
                let mut origins = Vec::with_capacity(dumps.len());
                let mut run = None;
                for (origin, dump) in dumps {
                    let event = dump.event();
                    if self.apart == Apart::Runs && run.replace(event.run) != Some(event.run) {
                        finish(&mut self.builder, &mut self.batch, &mut origins, &mut take)?;
                    }
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
                        look(&event, *origin);
                        origins.push(*origin);
                    }
                }
                finish(&mut self.builder, &mut self.batch, &mut origins, &mut take)
            }
            Content::Packet { packet, events, first, offset } => {
                for range in self.numbered(packet, events) {
                    let origin =
                        |e: usize| Origin { event: first.event + e as u64, place: first.place + e as u64, ..*first };
                    let origins: Vec<Origin> = range.clone().map(origin).collect();
                    for (e, origin) in range.clone().zip(&origins) {
                        packet.entries(e, &mut self.entries);
                        let (run, number) = packet.numbers(e);
                        let event = RawEvent {
                            file: &chunk.files[origin.file as usize],
                            format: Format::Mep,
                            index: origin.event,
                            offset: *offset,
                            run,
                            number,
                            trigger_mask: None,
                            data: packet.raw(),
                            entries: &self.entries,
                            skipped: packet.skipped(),
                            damage: packet.damage(),
                        };
                        seen.add(&event);
                        look(&event, *origin);
                    }
                    packet.tables(range.clone(), &mut self.batch);
                    take((packet.view(&self.batch), &origins, packet.max_hits(range)))?;
                }
                Ok(())
            }
        }
    }

    /// The events of a packet that have the run and the number that are wanted, those of different runs apart where
    /// they must be.
    fn numbered(&self, packet: &Packet, events: &[Range<usize>]) -> Vec<Range<usize>> {
        if self.select.takes_all_numbers() && self.apart != Apart::Runs {
            return events.to_vec();
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut last_run = None;
        for e in events.iter().cloned().flatten() {
            let (run, number) = packet.numbers(e);
            if !self.select.takes_numbers(run, number) {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.end == e && (self.apart != Apart::Runs || last_run == Some(run)) => last.end += 1,
                _ => found.push(e..e + 1),
            }
            last_run = Some(run);
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
