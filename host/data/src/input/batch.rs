//! A batch of events as a GPU framework holds it: raw bytes, offsets, sizes, types and versions.
//!
//! Two layouts are in use (`docs/format.md`, "Batches in memory"). *Allen*: event-major, each event
//! a block with its own table of banks. *MEP*: bank-major, as the event builder delivers it. Both
//! are plain words and bytes, so that a batch that already lies in memory, on the host or on the
//! device, is decoded where it is.

use ut_format::bank::Layout;

use super::event::kind;
use super::odin::Odin;
use super::room::make_room;

/// Facts about an event that are not in its UT banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventMeta {
    /// Run number, from the ODIN bank, else from the container; `None` where neither has it.
    pub run: Option<u32>,
    /// Event number, from the ODIN bank.
    pub event: Option<u64>,
    /// Number of banks left out because their type is none of the UT's (66…69). Every decoder adds
    /// them to `other_types`.
    pub other_banks: u32,
    /// The container gave this event up before its end. Every decoder counts it as `broken_event`.
    pub broken: bool,
    /// True if the event was given up because its checksum does not match.
    pub bad_checksum: bool,
    /// UT banks that were given up with the event, as far as they can be seen; at least 1 if a
    /// file's reader gave it up.
    pub lost_banks: u32,
    /// UTError banks: boards that reported an error.
    pub error_banks: u32,
    /// Number of banks in place of a UT fragment that the read-out lost or could not use. Decoders
    /// count them as `other_types`.
    pub lost_fragments: u32,
    /// The ODIN bank; `None` without one.
    pub odin: Option<Odin>,
}

impl EventMeta {
    /// Counts a bank if its type says that a UT board failed.
    pub(super) fn add_error(&mut self, kind: u8, source_id: u32) {
        let says_so = u32::from(kind::is_error(kind, source_id));
        *(if kind == kind::UT_ERROR {
            &mut self.error_banks
        } else {
            &mut self.lost_fragments
        }) += says_so;
    }
}

/// A borrowed batch. The words and bytes are not trusted: a decoder checks each of them before it
/// uses it.
///
/// An event that contradicts itself is given up from that bank on, and counted once as
/// `broken_event`: its table of banks lies beyond `raw`; a fragment descends, is smaller than its
/// sourceID word and its size, or ends beyond `raw`; or an entry of `offsets`, `sizes`, `types` or
/// `versions` is missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchView<'a> {
    /// Allen or MEP layout.
    pub layout: Layout,
    /// Number of events, from `first_event` on. Results have one entry per event.
    pub n_events: usize,
    /// The first event, as the arrays number them: not 0 where a framework decodes an interval of
    /// what they hold.
    pub first_event: usize,
    /// The events to decode, counted from `first_event`, in any order; `None`: all. The others have
    /// no hits, and nothing is counted for them, whatever their bytes are. An event beyond
    /// `n_events` is an error (`DecodeError::NoSuchEvent`); one that is named twice is decoded
    /// once.
    pub selected: Option<&'a [u32]>,
    /// The bytes that `offsets` point into.
    pub raw: &'a [u8],
    /// Allen: `n_events` offsets into `raw` (a framework's closing one may follow; it is not read).
    /// MEP: `n_banks`, 0, `n_banks` sourceIDs, then `n_banks` offsets into `raw` an event.
    pub offsets: &'a [u32],
    /// Allen: `n_events` words, each the place of the event's first size counted in u16 from the
    /// start of this very slice; then the sizes (payload bytes without sourceID word and padding),
    /// u16, bank by bank. MEP: `n_banks` words that point to the sizes of each bank's fragments,
    /// one per event.
    pub sizes: &'a [u32],
    /// Bank types, as u8 where `sizes` has u16, with places counted in bytes.
    pub types: &'a [u32],
    /// Version byte of each bank, laid out like `types`. `None`: every bank has version `version`.
    pub versions: Option<&'a [u32]>,
    /// The version byte of every bank, where `versions` is `None`; `None`: the board table's
    /// version.
    pub version: Option<u8>,
    /// Facts about each event of the arrays; empty, or one per event.
    pub meta: &'a [EventMeta],
    /// The caller has checked that the events belong to the tables, or checks whole files.
    /// Otherwise a batch is refused all of whose banks have another version than the tables, or
    /// that has bytes and no bank, as in the wrong layout.
    pub checked: bool,
}

/// An owned batch, which a [`BatchBuilder`](super::BatchBuilder) fills, and which decoders take as
/// a [`view`](Self::view).
///
/// ```
/// use ut_data::{BatchView, EventBatch};
///
/// let batch = EventBatch::default();
/// // The same arrays, of which a decoder is to decode the events 10 to 19.
/// let part = BatchView { first_event: 10, n_events: 10, ..batch.view() };
/// assert_eq!((batch.view().n_events, part.max_hits()), (0, 0));
/// ```
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `BatchView`")]
pub struct EventBatch {
    pub layout: Layout,
    pub n_events: usize,
    pub raw: Vec<u8>,
    pub offsets: Vec<u32>,
    pub sizes: Vec<u32>,
    pub types: Vec<u32>,
    pub versions: Option<Vec<u32>>,
    pub meta: Vec<EventMeta>,
}

impl Clone for EventBatch {
    fn clone(&self) -> Self {
        let Self {
            layout,
            n_events,
            raw: bytes,
            offsets,
            sizes,
            types,
            versions,
            meta,
        } = self;
        // On huge pages, as the bytes of a collected batch are.
        let mut raw = Vec::new();
        make_room(&mut raw, bytes.len());
        raw.extend_from_slice(bytes);
        Self {
            layout: *layout,
            n_events: *n_events,
            raw,
            offsets: offsets.clone(),
            sizes: sizes.clone(),
            types: types.clone(),
            versions: versions.clone(),
            meta: meta.clone(),
        }
    }
}

impl EventBatch {
    /// Borrows the batch.
    pub fn view(&self) -> BatchView<'_> {
        BatchView {
            layout: self.layout,
            n_events: self.n_events,
            first_event: 0,
            selected: None,
            raw: &self.raw,
            offsets: &self.offsets,
            sizes: &self.sizes,
            types: &self.types,
            versions: self.versions.as_deref(),
            version: None,
            meta: &self.meta,
            checked: false,
        }
    }
}

impl<'a> BatchView<'a> {
    /// Returns the arrays of words: offsets, sizes, types, versions and selected events. One that
    /// the batch does not have is empty.
    pub fn words(&self) -> [&'a [u32]; 5] {
        let [versions, selected] = [self.versions, self.selected].map(Option::unwrap_or_default);
        [self.offsets, self.sizes, self.types, versions, selected]
    }

    /// Returns the length of the longest array of words.
    pub fn most_words(&self) -> usize {
        self.words()
            .map(<[u32]>::len)
            .into_iter()
            .fold(0, usize::max)
    }

    /// Facts about each event of the results, default for events that are not selected; empty
    /// without meta data.
    pub fn meta_of_results(&self) -> Vec<EventMeta> {
        if self.meta.is_empty() {
            return Vec::new();
        }
        let of = |event: usize| {
            self.first_event
                .checked_add(event)
                .map_or_else(EventMeta::default, |e| self.meta_of(e))
        };
        let Some(selected) = self.selected else {
            return (0..self.n_events).map(of).collect();
        };
        let mut meta = vec![EventMeta::default(); self.n_events];
        for &event in selected {
            if let Some(meta) = meta.get_mut(event as usize) {
                *meta = of(event as usize);
            }
        }
        meta
    }

    /// Returns the facts known about event `e` of the arrays; all are unknown if the batch has no
    /// meta data.
    pub fn meta_of(&self, e: usize) -> EventMeta {
        self.meta.get(e).copied().unwrap_or_default()
    }

    /// Upper limit of the hits, from the bytes: a v5 hit and a v4 cluster word take two each.
    /// Overlapping fragments, which no reader makes, can exceed it; decoders then return
    /// `DecodeError::TooManyHits`.
    pub const fn max_hits(&self) -> usize {
        self.raw.len() / 2
    }
}
