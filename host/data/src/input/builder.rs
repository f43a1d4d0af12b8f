//! Collects events into a batch in Allen layout.

use super::event::kind;
use super::room::make_room;
use super::{Bank, BankEntry, EventBatch, EventMeta, Layout};
use crate::error_kind::ErrorKind;

/// Reason that an event does not go into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it; banks count from 0")]
#[non_exhaustive]
pub enum BuildError {
    #[error(
        "the event does not fit into a batch: offsets have 32 bits, 4 GiB are the most a batch can hold"
    )]
    Full,
    #[error("bank {bank} has a payload of {bytes} bytes; a batch holds at most 65535")]
    Payload { bank: usize, bytes: usize },
    #[error(
        "the batch selects events, but a copy in another layout has all of them: take the selection off first"
    )]
    Selected,
}

impl BuildError {
    /// Returns the kind.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Full => ErrorKind::Capacity,
            Self::Payload { .. } => ErrorKind::Format,
            Self::Selected => ErrorKind::Request,
        }
    }
}

/// Number of bytes of the sourceID before a fragment's payload.
const BEFORE_PAYLOAD: usize = 4;

/// Collects events into a batch in Allen layout.
///
/// Banks of the UT's types (66…69) are kept, all others left out; [`EventMeta::other_banks`] is
/// taken as the caller gives it. A batch has version bytes when its banks have: [`Self::agrees`].
///
/// ```
/// use ut_data::{Bank, BatchBuilder, EventBatch, EventMeta};
///
/// // An empty v5 bank: its header of eight bytes counts no hits.
/// let bank = Bank { kind: 66, version: Some(4), source_id: 0x2801, payload: &[0; 8] };
/// let mut builder = BatchBuilder::new();
/// builder.push(EventMeta::default(), [bank])?;
/// builder.push(EventMeta::default(), [])?;
///
/// let mut batch = EventBatch::default();
/// builder.finish(&mut batch);
/// assert_eq!((batch.n_events, batch.offsets.len()), (2, 2));
/// assert_eq!(builder.n_events(), 0);
/// # Ok::<(), ut_data::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BatchBuilder {
    raw: Vec<u8>,
    offsets: Vec<u32>,
    first: Vec<u32>,
    sizes: Vec<u16>,
    types: Vec<u8>,
    versions: Vec<u8>,
    meta: Vec<EventMeta>,
    /// True if the banks have version bytes; unknown before the first.
    versioned: Option<bool>,
    /// True if banks of other types than the UT's are kept.
    keep_all: bool,
    /// If the events stay where they were read, the byte after their tables; 0 if they are copied
    /// into `raw`.
    tables: usize,
}

impl BatchBuilder {
    /// Returns an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a builder that keeps banks of every type, for one batch, with version bytes if
    /// `versioned`.
    pub(super) fn keeping_all(versioned: bool) -> Self {
        Self {
            versioned: Some(versioned),
            keep_all: true,
            ..Self::default()
        }
    }

    /// Returns the number of events collected.
    pub fn n_events(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the number of bytes of raw banks collected.
    pub fn bytes(&self) -> usize {
        self.raw.len()
    }

    /// Returns true if `banks` can share a batch with the events before: all banks have version
    /// bytes, or none has.
    pub fn agrees<'a>(&self, banks: impl IntoIterator<Item = Bank<'a>>) -> bool {
        let mut versioned = self.versioned;
        self.kept(banks)
            .all(|bank| *versioned.get_or_insert(bank.version.is_some()) == bank.version.is_some())
    }

    /// Adds an event. A bank without version byte in a batch that has them (see [`Self::agrees`])
    /// gets version 0.
    ///
    /// # Errors
    /// If the event does not fit. The batch is then unchanged.
    pub fn push<'a>(
        &mut self,
        meta: EventMeta,
        banks: impl IntoIterator<Item = Bank<'a>, IntoIter: Clone>,
    ) -> Result<(), BuildError> {
        let banks = self.kept(banks);
        let (mut n_banks, mut bytes) = (0u32, 8u64);
        for (bank, b) in banks.clone().enumerate() {
            if b.payload.len() > usize::from(u16::MAX) {
                return Err(BuildError::Payload {
                    bank,
                    bytes: b.payload.len(),
                });
            }
            n_banks += 1;
            bytes += 8 + b.payload.len().next_multiple_of(4) as u64;
        }
        let too_many_banks =
            self.sizes.len() + n_banks as usize + 4 * (self.n_events() + 1) > u32::MAX as usize;
        if self.raw.len() as u64 + bytes > u64::from(u32::MAX) || too_many_banks {
            return Err(BuildError::Full);
        }
        make_room(&mut self.raw, bytes as usize);
        self.offsets.push(self.raw.len() as u32);
        self.first.push(self.sizes.len() as u32);
        self.meta.push(meta);
        self.raw.extend(n_banks.to_le_bytes());
        let mut rel = 0;
        self.raw.extend(0u32.to_le_bytes());
        for bank in banks.clone() {
            rel += 4 + bank.payload.len().next_multiple_of(4) as u32;
            self.raw.extend(rel.to_le_bytes());
        }
        for bank in banks {
            self.raw.extend(bank.source_id.to_le_bytes());
            self.raw.extend(bank.payload);
            self.raw.resize(self.raw.len().next_multiple_of(4), 0);
            self.sizes.push(bank.payload.len() as u16);
            self.types.push(bank.kind);
            self.versions.push(bank.version.unwrap_or_default());
            self.versioned.get_or_insert(bank.version.is_some());
        }
        Ok(())
    }

    /// Returns true if events stay where they were read: see [`Self::push_in_place`].
    pub(super) const fn is_in_place(&self) -> bool {
        self.tables > 0
    }

    /// Returns the end of the table of the next event, if that has `n_banks` banks of the UT and
    /// stays where it was read.
    pub(super) const fn end_of_table(&self, n_banks: usize) -> usize {
        self.tables + 4 * (n_banks + 2)
    }

    /// Adds an MDF event that stays in `raw`, where it begins at byte `begin`. `entries` are its
    /// banks, of which `n_banks` are the UT's. The bytes before it must have room for its table, up
    /// to [`Self::end_of_table`].
    ///
    /// In Allen layout an event is a table of offsets, with the fragments anywhere after it: a word
    /// with the sourceID, then the payload. In MDF the word before a payload is half of the bank's
    /// header, so the sourceID overwrites that.
    pub(super) fn push_in_place(
        &mut self,
        meta: EventMeta,
        raw: &mut [u8],
        begin: usize,
        (entries, n_banks): (&[BankEntry], usize),
    ) {
        let banks = entries.iter().filter(|bank| kind::is_ut(bank.kind));
        let base = self.end_of_table(n_banks);
        let (tables, event) = raw.split_at_mut(begin);
        let [count, table @ ..] = tables[self.tables..base].as_chunks_mut().0 else {
            return;
        };
        *count = (n_banks as u32).to_le_bytes();
        let first = self.sizes.len();
        self.sizes.resize(first + n_banks, 0);
        self.types.resize(first + n_banks, 0);
        self.versions.resize(first + n_banks, 0);
        let rows = self.sizes[first..]
            .iter_mut()
            .zip(&mut self.types[first..])
            .zip(&mut self.versions[first..]);
        let mut end = 0;
        for ((((size, kind), version), word), bank) in rows.zip(&mut *table).zip(banks) {
            let fragment = bank.start - BEFORE_PAYLOAD;
            *word = ((begin + fragment - base) as u32).to_le_bytes();
            event[fragment..bank.start].copy_from_slice(&bank.source_id.to_le_bytes());
            (*size, *kind, *version) = (
                bank.length as u16,
                bank.kind,
                bank.version.unwrap_or_default(),
            );
            end = begin + bank.start + bank.length - base;
        }
        table[n_banks] = (end as u32).to_le_bytes();
        self.offsets.push(self.tables as u32);
        self.first.push(first as u32);
        self.meta.push(meta);
        self.versioned = Some(true);
        self.tables = base;
    }

    /// Returns a number of hits that no decoder exceeds on the events; see
    /// [`BatchView::max_hits`](super::BatchView::max_hits).
    pub(super) fn max_hits(&self) -> usize {
        self.sizes
            .iter()
            .map(|&size| usize::from(size))
            .sum::<usize>()
            / 2
    }

    /// Moves what was collected into `batch`, whose buffers are used for the next one.
    pub fn finish(&mut self, batch: &mut EventBatch) {
        let n_events = self.n_events() as u32;
        batch.layout = Layout::Allen;
        batch.n_events = self.n_events();
        std::mem::swap(&mut batch.raw, &mut self.raw);
        std::mem::swap(&mut batch.offsets, &mut self.offsets);
        std::mem::swap(&mut batch.meta, &mut self.meta);
        table(
            &mut batch.sizes,
            self.first.iter().map(|first| 2 * n_events + first),
            &self.sizes,
        );
        table(
            &mut batch.types,
            self.first.iter().map(|first| 4 * n_events + first),
            &self.types,
        );
        if self.versioned == Some(false) {
            batch.versions = None;
        } else {
            let versions = batch.versions.get_or_insert_default();
            table(
                versions,
                self.first.iter().map(|first| 4 * n_events + first),
                &self.versions,
            );
        }
        self.clear();
    }

    fn kept<'a, I: IntoIterator<Item = Bank<'a>>>(
        &self,
        banks: I,
    ) -> std::iter::Filter<I::IntoIter, impl FnMut(&Bank<'a>) -> bool + Clone + use<'a, I>> {
        let keep_all = self.keep_all;
        banks
            .into_iter()
            .filter(move |bank| keep_all || kind::is_ut(bank.kind))
    }

    /// Forgets what was collected; keeps the buffers.
    pub fn clear(&mut self) {
        self.raw.clear();
        self.offsets.clear();
        self.first.clear();
        self.sizes.clear();
        self.types.clear();
        self.versions.clear();
        self.meta.clear();
        self.versioned = None;
        self.tables = 0;
    }
}

/// Lays out a batch's table as words: one index per event, then the packed entries.
pub(super) fn table<T: bytemuck::NoUninit>(
    words: &mut Vec<u32>,
    index: impl Iterator<Item = u32>,
    entries: &[T],
) {
    words.clear();
    words.extend(index);
    let begin = words.len();
    words.resize(begin + size_of_val(entries).div_ceil(4), 0);
    let bytes: &[u8] = bytemuck::cast_slice(entries);
    bytemuck::cast_slice_mut(&mut words[begin..])[..bytes.len()].copy_from_slice(bytes);
}
