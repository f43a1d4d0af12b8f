//! The fragments of a packet in memory, or of a slice of its events, as a batch in MEP layout.
//!
//! A packet of many thousand events can take gigabytes, and several threads decode it. So its
//! headers are read once, and each thread then reads a *slice*: the fragments of a range of events
//! from every source. Fragments of one source lie one after the other, so that a slice is one range
//! of bytes per source, some 200 reads. In memory the ranges lie back to back, each padded to four
//! bytes. For each source a single number, its *base*, leads from the starts of the fragments in
//! the packet to their places in the slice.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

use super::event::{Maker, kind};
use super::file_at::FileAt;
use super::odin::Odin;
use super::packet::{Packet, PacketError, Sender, cut};
use super::room::make_room;
use super::seen::Seen;
use super::{BankEntry, BatchView, EventBatch, EventMeta, Layout};

/// Number of unpacked bytes after which a chunk ends. As text, its hits can take eighty times as
/// much.
pub const MAX_BYTES: usize = 5 << 20;
/// Size of a slice in bytes. It gives some 20 kB from each of the UT's 200 sources, so that the
/// cost of a read request is small compared with the reading.
const SLICE: u64 = 4 << 20;
const KEPT: usize = 64 << 20;

impl Sender {
    /// Returns the range of bytes that the fragments of some events take, counted from the first
    /// fragment.
    fn bytes(&self, events: &Range<usize>) -> Range<u32> {
        match events.clone().last() {
            Some(last) => {
                self.starts[events.start]..self.starts[last] + u32::from(self.sizes[last])
            }
            None => 0..0,
        }
    }
}

impl Packet {
    /// End of the events to take at a time from `from` on: `step`, several times as many if small,
    /// fewer if large.
    pub fn slice(&self, from: usize, step: usize) -> usize {
        let bytes = self.kept.saturating_mul(step as u64) / self.n_events.max(1) as u64;
        let times = if self.left {
            (SLICE / bytes.max(1)).max(1)
        } else {
            1
        };
        let mut end = from
            .saturating_add(step.saturating_mul(times as usize))
            .min(self.n_events);
        let bytes = |end| {
            self.senders()
                .map(|sender| sender.bytes(&(from..end)).len() as u64)
                .sum::<u64>()
        };
        // The output of a slice takes many times its bytes: the mean over all events does not bound
        // it.
        //
        // Halves the slice until its bytes are few enough, or a single event is left.
        while end > from + 1 && bytes(end) > MAX_BYTES as u64 {
            end = from + (end - from) / 2;
        }
        end
    }

    /// ODIN's senders, where there are some, then the UT's.
    fn senders(&self) -> impl Iterator<Item = &Sender> {
        self.odin.iter().chain(&self.ut)
    }

    /// Reads the fragments of some events of a packet that was left in `file`, where it begins at
    /// byte `at`.
    pub fn load(
        &self,
        file: &FileAt,
        at: u64,
        events: &Range<usize>,
        Slice { raw, length, bases }: &mut Slice,
    ) -> Result<(), PacketError> {
        bases.clear();
        let mut needed = 0u32;
        for sender in self.senders() {
            let bytes = sender.bytes(events);
            // Less than 4 GiB in all. Each source begins at a multiple of 4, because kernels read
            // words.
            bases.push(needed.wrapping_sub(bytes.start));
            needed += (bytes.end - bytes.start).next_multiple_of(4);
        }
        let needed = needed as usize;
        *length = needed;
        if raw.len() > KEPT.max(needed) {
            *raw = Vec::new();
        }
        if raw.len() < needed {
            if needed > KEPT {
                raw.try_reserve_exact(needed - raw.len())
                    .map_err(|_| PacketError::Read(ErrorKind::OutOfMemory.into()))?;
            }
            make_room(raw, needed - raw.len());
            raw.resize(needed, 0);
        }
        let mut rest = &mut raw[..needed];
        for sender in self.senders() {
            let bytes = sender.bytes(events);
            let length = (bytes.end - bytes.start) as usize;
            let (place, after) = rest.split_at_mut(length.next_multiple_of(4));
            let place = &mut place[..length];
            rest = after;
            let begin = sender.begin + u64::from(bytes.start);
            let n = file.read_at(place, at + begin)?;
            if n < place.len() {
                return Err(cut(begin + n as u64, (place.len() - n) as u64));
            }
        }
        Ok(())
    }
}

/// Memory into which a slice of a packet is read.
#[derive(Debug, Default)]
pub struct Slice {
    /// Often longer than `length`: bytes that are new to the process cost time.
    raw: Vec<u8>,
    length: usize,
    /// Offset of each sender, wrapping, from the starts of its fragments to their places in `raw`.
    bases: Vec<u32>,
}

impl Slice {
    /// Returns the fragments of the events that were read; of all events if the packet was read as
    /// a whole.
    pub fn fragments<'a>(&'a self, packet: &'a Packet) -> Fragments<'a> {
        if packet.left {
            return Fragments {
                packet,
                raw: &self.raw[..self.length],
                bases: Some(&self.bases),
            };
        }
        Fragments {
            packet,
            raw: &packet.raw,
            bases: None,
        }
    }
}

/// The fragments of a packet, or of a slice of its events.
#[derive(Clone, Copy, Debug)]
pub struct Fragments<'a> {
    packet: &'a Packet,
    raw: &'a [u8],
    /// See [`Slice`]; `None`: the beginnings of the senders' fragments.
    bases: Option<&'a [u32]>,
}

impl<'a> Fragments<'a> {
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Offset from the starts of sender `i`'s fragments to their places in `raw`; ODIN's senders
    /// come first.
    fn base(&self, i: usize, sender: &Sender) -> u32 {
        self.bases.map_or(sender.begin as u32, |bases| bases[i])
    }

    /// Returns the senders, each with its [`Self::base`].
    fn senders(self) -> impl Iterator<Item = (u32, &'a Sender)> {
        self.packet
            .senders()
            .enumerate()
            .map(move |(i, sender)| (self.base(i, sender), sender))
    }

    fn ut(self) -> impl Iterator<Item = (u32, &'a Sender)> {
        self.senders().skip(self.packet.odin.len())
    }

    /// Run and number of event `e`, and its ODIN bank; no number where counting on from the first
    /// one overflows.
    pub fn numbers(&self, e: usize) -> (Option<u32>, Option<u64>, Option<Odin>) {
        let packet = self.packet;
        // The first that can be read counts, as in an event of MDF. A source may send another type
        // in ODIN's place.
        let odin = packet
            .odin
            .iter()
            .enumerate()
            .filter(|(_, odin)| odin.types[e] == kind::ODIN);
        let odin = odin.filter_map(|(i, odin)| {
            let start = self.base(i, odin).wrapping_add(odin.starts[e]) as usize;
            Odin::of(
                Some(odin.version),
                &self.raw[start..start + usize::from(odin.sizes[e])],
            )
        });
        let odin = odin
            .clone()
            .find(|odin| odin.numbers.is_some())
            .or_else(|| odin.clone().next());
        let numbers = odin.and_then(|odin| odin.numbers);
        let next = || packet.first.checked_add(e as u64);
        (
            numbers.map(|(run, _)| run),
            numbers.map_or_else(next, |(_, number)| Some(number)),
            odin,
        )
    }

    /// Lists the banks of event `e` that were kept: the ODIN bank, then the UT banks.
    pub fn entries(&self, e: usize, entries: &mut Vec<BankEntry>) {
        entries.clear();
        entries.extend(self.senders().map(|(base, source)| BankEntry {
            kind: source.types[e],
            version: Some(source.version),
            source_id: source.source_id,
            start: base.wrapping_add(source.starts[e]) as usize,
            byte: source.in_packet + u64::from(source.starts[e]),
            length: usize::from(source.sizes[e]),
        }));
    }

    /// Counts the banks of some events for `seen`, with the same result as event by event. Only for
    /// a packet without damage.
    pub fn count(&self, file: &Path, events: &Range<usize>, seen: &mut Seen) {
        let makers = events.clone().filter_map(|e| self.maker(e));
        let banks = self.ut().map(|(_, source)| {
            let kinds = &source.types[events.clone()];
            for &kind in kinds {
                seen.add_error_bank(kind, source.source_id);
            }
            (
                Some(source.version),
                kinds.iter().filter(|&&kind| kind::is_decoded(kind)).count() as u64,
            )
        });
        let banks: Vec<_> = banks.collect();
        seen.add_all(
            file,
            events.len() as u64,
            &makers.collect::<Vec<_>>(),
            &banks,
        );
    }

    /// Returns the maker of an event, by its banks; `None` if it has no bank to decode.
    fn maker(&self, e: usize) -> Option<Maker> {
        let mut decoded = self
            .ut()
            .filter(|(_, source)| kind::is_decoded(source.types[e]))
            .peekable();
        decoded.peek()?;
        Some(Maker::of_banks(decoded.map(|(base, source)| {
            let start = base.wrapping_add(source.starts[e]) as usize;
            (
                source.source_id,
                &self.raw[start..start + usize::from(source.sizes[e])],
            )
        })))
    }

    /// Writes the tables of some of the events as a batch in MEP layout, whose `raw` stays empty:
    /// see [`Self::view`].
    pub fn tables(&self, events: Range<usize>, tables: &mut EventBatch) {
        let (n, n_banks) = (events.len(), self.packet.ut.len());
        tables.layout = Layout::Mep;
        tables.n_events = n;
        tables.raw.clear();
        tables.offsets.clear();
        tables.offsets.extend([n_banks as u32, 0]);
        tables
            .offsets
            .extend(self.packet.ut.iter().map(|source| source.source_id));
        tables.offsets.resize(2 + n_banks * (1 + n), 0);
        let places = &mut tables.offsets[2 + n_banks..];
        for (b, (base, source)) in self.ut().enumerate() {
            for (place, &start) in places
                .iter_mut()
                .skip(b)
                .step_by(n_banks)
                .zip(&source.starts[events.clone()])
            {
                *place = base.wrapping_add(start);
            }
        }
        tables.meta.clear();
        let damage = self.packet.damage.as_ref();
        tables.meta.extend(events.clone().map(|e| {
            let (run, event, odin) = self.numbers(e);
            EventMeta {
                run,
                event,
                other_banks: self.packet.others,
                broken: damage.is_some(),
                bad_checksum: damage.is_some_and(|damage| damage.is_checksum),
                lost_banks: damage.map_or(0, |damage| damage.lost_banks),
                odin,
                ..EventMeta::default()
            }
        }));
        for source in &self.packet.ut {
            for (meta, &kind) in tables.meta.iter_mut().zip(&source.types[events.clone()]) {
                meta.add_error(kind, source.source_id);
            }
        }
        let ut = || self.packet.ut.iter();
        rows(
            &mut tables.sizes,
            n,
            ut().map(|source| &source.sizes[events.clone()]),
        );
        rows(
            &mut tables.types,
            n,
            ut().map(|source| &source.types[events.clone()]),
        );
        let versions: Vec<u8> = ut()
            .flat_map(|source| std::iter::repeat_n(source.version, n))
            .collect();
        rows(
            tables.versions.get_or_insert_default(),
            n,
            versions.chunks(n.max(1)),
        );
    }

    /// Combines the tables that [`Self::tables`] made with these bytes into a batch.
    pub fn view(&self, tables: &'a EventBatch) -> BatchView<'a> {
        // Without banks of the UT there are no bytes to decode.
        BatchView {
            raw: if self.packet.ut.is_empty() {
                &[]
            } else {
                self.raw
            },
            ..tables.view()
        }
    }

    /// Returns a number of hits that no decoder exceeds on these events; see
    /// [`BatchView::max_hits`].
    pub fn max_hits(&self, events: &Range<usize>) -> usize {
        let sizes = self
            .packet
            .ut
            .iter()
            .map(|source| &source.sizes[events.clone()]);
        sizes
            .map(|sizes| sizes.iter().map(|&size| usize::from(size)).sum::<usize>())
            .sum::<usize>()
            / 2
    }
}

/// Writes one table of a batch: the start of each row, then the rows of `n` entries each.
fn rows<'a, T: bytemuck::Pod>(
    words: &mut Vec<u32>,
    n: usize,
    rows: impl ExactSizeIterator<Item = &'a [T]>,
) {
    let (n_rows, of_word) = (rows.len(), 4 / size_of::<T>());
    words.clear();
    words.extend((0..n_rows).map(|row| (of_word * n_rows + row * n) as u32));
    words.resize(n_rows + (n_rows * n).div_ceil(of_word), 0);
    let entries: &mut [T] = bytemuck::cast_slice_mut(&mut words[n_rows..]);
    for (to, row) in entries.chunks_mut(n.max(1)).zip(rows) {
        to.copy_from_slice(row);
    }
}
