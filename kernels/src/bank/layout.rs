//! Positions of an event's banks in a batch, in Allen or MEP layout (docs/format.md, "Batches in
//! memory").
//!
//! Every word that leads to a bank is checked before it is followed. A bank that contradicts the
//! batch is `None`: the event ends before it. Offsets are bytes of `raw`, which is shorter than 4
//! GiB: larger sums lie beyond it.

use super::board_of;
use crate::switches::Layout;
use simt::{Block, FULL_MASK, Global, Plain, Shared};

/// A batch in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The bytes that `offsets` point into.
    pub raw: Global<'a, u8>,
    /// Allen: an offset an event. MEP: `n_banks`, 0, `n_banks` sourceIDs, `n_banks` offsets an
    /// event.
    pub offsets: Global<'a, u32>,
    /// Places of rows, then the rows: payload sizes, u16. A row is an event (Allen) or a bank
    /// (MEP).
    pub sizes: Global<'a, u32>,
    /// Bank types, u8, in rows like `sizes`.
    pub types: Global<'a, u32>,
    /// Version bytes in such rows; read only if `version` is
    /// [`VERSION_OF_EACH`](Self::VERSION_OF_EACH).
    pub versions: Global<'a, u32>,
    /// Version byte of every bank, or [`VERSION_OF_EACH`](Self::VERSION_OF_EACH).
    pub version: u32,
    /// First event, as the arrays number them; kernels number events from here, and its sum with
    /// their number fits u32.
    pub first_event: u32,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for Batch<'_> {}

/// The banks of one event.
#[derive(Clone, Copy, Debug)]
pub struct EventBanks {
    event: u32,
    /// Banks that the event says it has.
    pub n_banks: u32,
    /// Allen: byte offset of the table `rel`.
    table: u32,
}

/// Beginnings of the sizes, types and versions of an event (Allen layout) or a bank (MEP);
/// `NOWHERE` if not there.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    sizes: u32,
    types: u32,
    versions: u32,
}

impl Rows {
    /// Returns the rows of lane `lane`. The whole warp calls.
    #[inline(always)]
    #[must_use]
    pub fn of_lane<B: Block>(self, block: &B, lane: u32) -> Self {
        Self {
            sizes: block.shuffle_idx_sync(FULL_MASK, self.sizes, lane),
            types: block.shuffle_idx_sync(FULL_MASK, self.types, lane),
            versions: block.shuffle_idx_sync(FULL_MASK, self.versions, lane),
        }
    }
}

/// Index that no view has.
const NOWHERE: u32 = u32::MAX;

/// An event that one thread has found for all of its block, so that each word that leads to its
/// banks is read once.
#[derive(Clone, Copy, Debug)]
pub struct FoundEvent {
    /// Banks of the event.
    pub banks: EventBanks,
    /// Allen layout: rows of the event.
    rows: Rows,
}

impl FoundEvent {
    /// Words of shared memory that [`find`](Self::find) writes.
    pub const WORDS: u32 = 6;

    /// Finds event `event` and stores it in `words`. One thread of the block calls; a barrier must
    /// follow.
    #[inline(always)]
    pub fn find<B: Block>(
        block: &B,
        batch: &Batch<'_>,
        layout: Layout,
        event: u32,
        words: Shared<u32>,
    ) {
        let Some(banks) = batch.event(block, layout, event) else {
            // No event has as many banks.
            block.shared_store(words, 1, NOWHERE);
            return;
        };
        block.shared_store(words, 0, banks.event);
        block.shared_store(words, 1, banks.n_banks);
        block.shared_store(words, 2, banks.table);
        if matches!(layout, Layout::Allen) {
            let row = |words: Global<'_, u32>| {
                load_if_there(block, words, Some(banks.event)).unwrap_or(NOWHERE)
            };
            block.shared_store(words, 3, row(batch.sizes));
            block.shared_store(words, 4, row(batch.types));
            block.shared_store(
                words,
                5,
                if batch.has_version_of_each() {
                    row(batch.versions)
                } else {
                    NOWHERE
                },
            );
        }
    }

    /// Returns the event that [`find`](Self::find) stored; `None` where its table of banks is not
    /// there.
    #[inline(always)]
    pub fn told<B: Block>(block: &B, layout: Layout, words: Shared<u32>) -> Option<Self> {
        let n_banks = block.shared_load(words, 1);
        if n_banks == NOWHERE {
            return None;
        }
        let banks = EventBanks {
            event: block.shared_load(words, 0),
            n_banks,
            table: block.shared_load(words, 2),
        };
        let (sizes, types, versions) = (NOWHERE, NOWHERE, NOWHERE);
        let mut rows = Rows {
            sizes,
            types,
            versions,
        };
        if matches!(layout, Layout::Allen) {
            rows.sizes = block.shared_load(words, 3);
            rows.types = block.shared_load(words, 4);
            rows.versions = block.shared_load(words, 5);
        }
        Some(Self { banks, rows })
    }
}

/// The banks of an event, as the kernels look at them.
pub trait Banks<B: Block>: Copy {
    /// Banks that the event says it has.
    fn n_banks(self) -> u32;

    /// Bank `bank` (below `n_banks`); `None` where the batch contradicts itself.
    fn bank(self, block: &B, batch: &Batch<'_>, layout: Layout, bank: u32) -> Option<Bank>;
}

impl<B: Block> Banks<B> for EventBanks {
    #[inline(always)]
    fn n_banks(self) -> u32 {
        self.n_banks
    }

    #[inline(always)]
    fn bank(self, block: &B, batch: &Batch<'_>, layout: Layout, bank: u32) -> Option<Bank> {
        batch.bank(block, layout, &self, None, bank)
    }
}

impl<B: Block> Banks<B> for FoundEvent {
    #[inline(always)]
    fn n_banks(self) -> u32 {
        self.banks.n_banks
    }

    #[inline(always)]
    fn bank(self, block: &B, batch: &Batch<'_>, layout: Layout, bank: u32) -> Option<Bank> {
        let rows = match layout {
            Layout::Allen => Some(self.rows),
            Layout::Mep => None,
        };
        batch.bank(block, layout, &self.banks, rows, bank)
    }
}

/// One bank whose payload is there.
#[derive(Clone, Copy, Debug)]
pub struct Bank {
    /// Type byte.
    pub kind: u8,
    /// Version byte.
    pub version: u8,
    /// Board of its sourceID; `u32::MAX`: none.
    pub board: u32,
    /// Byte offset of the payload in `raw`.
    pub payload: u32,
    /// Bytes of the payload, all within `raw`.
    pub size: u32,
}

impl Batch<'_> {
    /// Value of [`version`](Self::version), above any byte, with which each bank has a byte in
    /// `versions`.
    pub const VERSION_OF_EACH: u32 = 256;

    /// Returns true if each bank has a version byte of its own.
    #[inline(always)]
    pub const fn has_version_of_each(&self) -> bool {
        self.version == Self::VERSION_OF_EACH
    }

    /// Finds the banks of event `event`; `None` where the event's table of banks is not there.
    #[inline(always)]
    pub fn event<B: Block>(&self, block: &B, layout: Layout, event: u32) -> Option<EventBanks> {
        let event = self.first_event + event;
        match layout {
            Layout::Allen => {
                let start = load_if_there(block, self.offsets, Some(event))?;
                let table = start.checked_add(4)?;
                if table > self.raw.len() {
                    return None;
                }
                let n_banks: u32 = block.load_bytes(self.raw, start);
                // n_banks + 1 words; one word more than fits u32 in bytes is beyond the end as
                // well.
                let words_there = (self.raw.len() - table) / 4;
                (n_banks < words_there).then_some(EventBanks {
                    event,
                    n_banks,
                    table,
                })
            }
            Layout::Mep => {
                let n_banks = load_if_there(block, self.offsets, Some(0))?;
                let header = n_banks.checked_add(2)?;
                (header <= self.offsets.len()).then_some(EventBanks {
                    event,
                    n_banks,
                    table: 0,
                })
            }
        }
    }

    /// MEP layout: returns the rows of bank `bank`, which hold all events.
    #[inline(always)]
    pub fn rows_of_bank<B: Block>(&self, block: &B, bank: Option<u32>) -> Rows {
        let row = |words: Global<'_, u32>| load_if_there(block, words, bank).unwrap_or(NOWHERE);
        let versions = if self.has_version_of_each() {
            row(self.versions)
        } else {
            NOWHERE
        };
        Rows {
            sizes: row(self.sizes),
            types: row(self.types),
            versions,
        }
    }

    /// Size, type and version in one column of rows; `None` where one is not there.
    #[inline(always)]
    pub fn entries<B: Block>(&self, block: &B, rows: Rows, column: u32) -> Option<(u16, u8, u8)> {
        let size = load_if_there(block, self.sizes.as_u16(), rows.sizes.checked_add(column))?;
        let kind = load_if_there(block, self.types.as_u8(), rows.types.checked_add(column))?;
        let version = if self.has_version_of_each() {
            load_if_there(
                block,
                self.versions.as_u8(),
                rows.versions.checked_add(column),
            )?
        } else {
            self.version as u8
        };
        Some((size, kind, version))
    }

    #[inline(always)]
    fn bank<B: Block>(
        &self,
        block: &B,
        layout: Layout,
        banks: &EventBanks,
        rows: Option<Rows>,
        bank: u32,
    ) -> Option<Bank> {
        let (row, column) = match layout {
            Layout::Allen => (banks.event, bank),
            Layout::Mep => (bank, banks.event),
        };
        let known = |of: fn(Rows) -> u32| rows.map(of);
        let size = u32::from(entry(
            block,
            self.sizes,
            self.sizes.as_u16(),
            known(|rows| rows.sizes),
            row,
            column,
        )?);
        let (source_id, payload) = match layout {
            Layout::Allen => {
                // The table is there: n_banks + 1 words from `table` on.
                let base = banks.table + 4 * (banks.n_banks + 1);
                let rel: u32 = block.load_bytes(self.raw, banks.table + 4 * bank);
                let rel_end: u32 = block.load_bytes(self.raw, banks.table + 4 * (bank + 1));
                let end = base.checked_add(rel_end)?;
                if rel_end.checked_sub(rel)? < 4 + size || end > self.raw.len() {
                    return None;
                }
                let fragment = base + rel;
                (block.load_bytes(self.raw, fragment), fragment + 4)
            }
            Layout::Mep => {
                let place = banks
                    .event
                    .checked_add(1)
                    .and_then(|rows| rows.checked_mul(banks.n_banks));
                let place = place.and_then(|place| place.checked_add(2)?.checked_add(bank));
                let payload = load_if_there(block, self.offsets, place)?;
                if payload.checked_add(size)? > self.raw.len() {
                    return None;
                }
                (block.load(self.offsets, 2 + bank), payload)
            }
        };
        let kind = entry(
            block,
            self.types,
            self.types.as_u8(),
            known(|rows| rows.types),
            row,
            column,
        )?;
        let version = if self.has_version_of_each() {
            let first = known(|rows| rows.versions);
            entry(
                block,
                self.versions,
                self.versions.as_u8(),
                first,
                row,
                column,
            )?
        } else {
            self.version as u8
        };
        Some(Bank {
            kind,
            version,
            board: board_of(source_id).unwrap_or(u32::MAX),
            payload,
            size,
        })
    }
}

/// Loads entry `column` of the row that begins at `first`, or, without it, at the place in
/// `words[row]`.
#[inline(always)]
fn entry<B: Block, T: Plain>(
    block: &B,
    words: Global<'_, u32>,
    entries: Global<'_, T>,
    first: Option<u32>,
    row: u32,
    column: u32,
) -> Option<T> {
    let first = match first {
        Some(first) => first,
        None => load_if_there(block, words, Some(row))?,
    };
    load_if_there(block, entries, first.checked_add(column))
}

#[inline(always)]
#[track_caller]
fn load_if_there<B: Block, T: Plain>(block: &B, view: Global<'_, T>, i: Option<u32>) -> Option<T> {
    let i = i?;
    if i < view.len() {
        Some(block.load(view, i))
    } else {
        None
    }
}
