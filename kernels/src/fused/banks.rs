//! Step 1, a thread a bank: notes the lanes with hits. A bank that fails any test makes the event unusual.

use super::hit_tables::{BoardRecord, HitTables, MAX_BOARDS, REVERSED};
use super::lane::Lane;
use super::shared::FusedShared;
use crate::bank::layout::Batch;
use crate::bank::{board_of, is_ut, v4, v5};
use crate::detector::BankVersion;
use crate::ranked::gather::{BankWord, State};
use crate::switches::{Layout, Switches};
use simt::{Block, Global, NonEmpty};

#[derive(Clone, Copy)]
pub(super) struct Banks<'a> {
    pub switches: Switches,
    pub batch: &'a Batch<'a>,
    /// MEP layout: as [`FusedInput::bank_words`](super::FusedInput::bank_words).
    pub bank_words: Global<'a, u32>,
    pub raw: NonEmpty<'a, u32>,
}

/// Place of an event's banks in the batch. The block keeps one in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub n_banks: u32,
    /// Allen: word of the event's table; word behind it; places of the event's sizes, types and versions.
    table: u32,
    base: u32,
    sizes: u32,
    types: u32,
    versions: u32,
    /// MEP: number of the event's first bank among those of the decoded events. (`base`: among all.)
    first: u32,
}

impl Place {
    pub const NONE: Self = Self { n_banks: 0, table: 0, base: 0, sizes: 0, types: 0, versions: 0, first: 0 };

    /// Stores the place for the block. One thread of the block calls; a barrier must follow.
    #[inline(always)]
    pub fn put<B: Block>(&self, block: &B, shared: &FusedShared) {
        let Self { n_banks, table, base, sizes, types, versions, first } = *self;
        block.shared_store(shared.place, 0, n_banks);
        block.shared_store(shared.place, 1, table);
        block.shared_store(shared.place, 2, base);
        block.shared_store(shared.place, 3, sizes);
        block.shared_store(shared.place, 4, types);
        block.shared_store(shared.place, 5, versions);
        block.shared_store(shared.place, 6, first);
    }

    #[inline(always)]
    pub fn of<B: Block>(block: &B, shared: &FusedShared) -> Self {
        let word = |i| block.shared_load(shared.place, i);
        Self {
            n_banks: word(0),
            table: word(1),
            base: word(2),
            sizes: word(3),
            types: word(4),
            versions: word(5),
            first: word(6),
        }
    }
}

/// Bank that is decodable as far as the batch says.
#[derive(Clone, Copy)]
struct Found {
    /// Word of the payload.
    payload: u32,
    /// Bytes of the payload, all there.
    size: u32,
    board: u32,
}

impl Banks<'_> {
    /// Finds the place of an event; `None` if arrays are too short, or the banks outnumber the boards.
    #[inline(always)]
    pub fn place<B: Block>(&self, block: &B, tables: &HitTables<'_>, event: u32) -> Option<Place> {
        let place = self.place_of(block, event)?;
        (place.n_banks <= tables.n_boards()).then_some(place)
    }

    #[inline(always)]
    fn place_of<B: Block>(&self, block: &B, event: u32) -> Option<Place> {
        let batch = self.batch;
        match self.switches.layout {
            Layout::Allen => {
                let has_versions = batch.has_version_of_each();
                let event = batch.first_event + event;
                if event >= batch.offsets.len()
                    || event >= batch.sizes.len()
                    || event >= batch.types.len()
                    || has_versions && event >= batch.versions.len()
                {
                    return None;
                }
                let start = block.load(batch.offsets, event);
                let sizes = block.load(batch.sizes, event);
                let types = block.load(batch.types, event);
                let versions = if has_versions { block.load(batch.versions, event) } else { 0 };
                if !start.is_multiple_of(4) || start / 4 >= self.raw.view().len() {
                    return None;
                }
                let n_banks = block.load_within(self.raw, start / 4);
                let table = start / 4 + 1;
                let fits = |view_len: u32, first: u32| first <= view_len && n_banks <= view_len - first;
                let is_there = n_banks <= MAX_BOARDS
                    && fits(batch.sizes.as_u16().len(), sizes)
                    && fits(batch.types.as_u8().len(), types)
                    && (!has_versions || fits(batch.versions.as_u8().len(), versions))
                    && n_banks < self.raw.view().len() - table;
                is_there.then(|| Place {
                    n_banks,
                    table,
                    base: table + n_banks + 1,
                    sizes,
                    types,
                    versions,
                    ..Place::NONE
                })
            }
            Layout::Mep => {
                if batch.offsets.is_empty() {
                    return None;
                }
                let n_banks = block.load(batch.offsets, 0);
                if n_banks > MAX_BOARDS {
                    return None;
                }
                let base = (batch.first_event + event).checked_mul(n_banks)?;
                let end = base.checked_add(2 * n_banks)?.checked_add(2)?;
                // (Not above `base`: it cannot wrap.)
                let first = event * n_banks;
                let is_there = end <= batch.offsets.len() && first + n_banks <= self.bank_words.len();
                is_there.then_some(Place { n_banks, base, first, ..Place::NONE })
            }
        }
    }

    /// Finds bank `i` of the event, below the number of its banks.
    #[inline(always)]
    fn find<B: Block>(&self, block: &B, place: &Place, i: u32) -> Option<Found> {
        let batch = self.batch;
        match self.switches.layout {
            Layout::Allen => {
                let size = u32::from(block.load(batch.sizes.as_u16(), place.sizes + i));
                let kind = block.load(batch.types.as_u8(), place.types + i);
                let right = self.switches.version.byte();
                let version = if batch.has_version_of_each() {
                    block.load(batch.versions.as_u8(), place.versions + i)
                } else {
                    batch.version as u8
                };
                let rel = block.load_within(self.raw, place.table + i);
                let end = block.load_within(self.raw, place.table + i + 1);
                // (Words: nothing here can wrap.)
                let fragment = place.base + rel / 4;
                let is_there = rel.is_multiple_of(4)
                    && end >= rel
                    && end - rel >= 4 + size
                    && place.base + end.div_ceil(4) <= self.raw.view().len()
                    && is_ut(kind)
                    && version == right;
                if !is_there {
                    return None;
                }
                let board = board_of(block.load_within(self.raw, fragment)).unwrap_or(u32::MAX);
                Some(Found { payload: fragment + 1, size, board })
            }
            Layout::Mep => {
                let word = BankWord(block.load(self.bank_words, place.first + i));
                let payload = block.load(batch.offsets, 2 + place.base + place.n_banks + i);
                let is_there = word.state() == State::Good
                    && payload.is_multiple_of(4)
                    && payload / 4 + word.size().div_ceil(4) <= self.raw.view().len();
                is_there.then_some(Found { payload: payload / 4, size: word.size(), board: word.board() })
            }
        }
    }

    /// Notes each bank's lanes with hits; returns true if a bank is unusual. All threads call, between barriers.
    #[inline(always)]
    pub fn look<B: Block>(&self, block: &B, tables: &HitTables<'_>, shared: &FusedShared) -> bool {
        let place = Place::of(block, shared);
        let mut unusual = false;
        let mut i = block.thread();
        while i < place.n_banks {
            unusual |= self.note(block, tables, shared, &place, i).is_none();
            i += block.threads();
        }
        unusual
    }

    #[inline(always)]
    fn note<B: Block>(
        &self,
        block: &B,
        tables: &HitTables<'_>,
        shared: &FusedShared,
        place: &Place,
        i: u32,
    ) -> Option<()> {
        let Found { payload, size, board } = self.find(block, place, i)?;
        if board >= tables.n_boards() {
            return None;
        }
        let record = block.load(tables.boards, board);
        let bit = 1 << (board % 32);
        if record.strips_per_hybrid == 0 || block.shared_atomic_or(shared.boards_seen, board / 32, bit) & bit != 0 {
            return None;
        }
        block.shared_store(shared.payloads, i, 2 * payload);
        match self.switches.version {
            BankVersion::V5 => self.note_counts(block, shared, &record, i, payload, size),
            BankVersion::V4 => self.note_words(block, shared, &record, i, payload, size),
        }
    }

    #[inline(always)]
    fn note_counts<B: Block>(
        &self,
        block: &B,
        shared: &FusedShared,
        record: &BoardRecord,
        bank: u32,
        payload: u32,
        size: u32,
    ) -> Option<()> {
        if size < v5::HEADER {
            return None;
        }
        let counts =
            v5::Counts::of_words(block.load_within(self.raw, payload), block.load_within(self.raw, payload + 1));
        // A row has two hits of each lane; 255 is no count.
        let most = (2 * (size / 32)).min(v5::BAD_COUNT - 1);
        let mut is_good = true;
        let mut lane = 0;
        while lane < v5::LANES {
            let (n, rank) = (counts.of(lane), record.ranks[lane as usize]);
            if n > 0 {
                // (An unconnected lane's rank is larger than any other.)
                if n <= most && rank & !REVERSED < shared.ranks.len() as u16 {
                    put(block, shared, n, lane, bank, rank);
                } else {
                    is_good = false;
                }
            }
            lane += 1;
        }
        is_good.then_some(())
    }

    /// v4: finds the words of each lane by bisection, since they rise from lane to lane in a bank. Where they do not,
    /// [`strips::read`](super::strips::read) finds a word of another lane.
    #[inline(always)]
    fn note_words<B: Block>(
        &self,
        block: &B,
        shared: &FusedShared,
        record: &BoardRecord,
        bank: u32,
        payload: u32,
        size: u32,
    ) -> Option<()> {
        if size < v4::HEADER {
            return None;
        }
        let n = block.load_within(self.raw, payload) & 0xFFFF;
        // 512 strips a lane; the first word of a lane is noted in a byte.
        if size < v4::HEADER + 2 * n || n > 0xFF || record.strips_per_hybrid != 512 {
            return None;
        }
        let words = 2 * payload + v4::HEADER / 2;
        // Words of the lanes up to each. (Words of no lane count as words of another, and are found there.)
        let mut ends = [0, 0, 0, 0, 0, n];
        let mut step = if n == 0 { 0 } else { 1 << n.ilog2() };
        while step > 0 {
            let mut lane = 0;
            while lane < v5::LANES - 1 {
                let end = &mut ends[lane as usize];
                let next = (*end + step).min(n);
                if v4::lane(block.load_within(self.raw.as_u16(), words + next - 1)) <= lane {
                    *end = next;
                }
                lane += 1;
            }
            step /= 2;
        }
        let mut is_good = true;
        let mut first = 0;
        let mut lane = 0;
        while lane < v5::LANES {
            let (end, rank) = (ends[lane as usize], record.ranks[lane as usize]);
            // (Where words do not rise, an end may lie before the previous lane's.)
            if end != first {
                if end > first && rank & !REVERSED < shared.ranks.len() as u16 {
                    put(block, shared, end - first, lane, bank, rank);
                    block.shared_store(shared.first_words, 8 * bank + lane, first as u8);
                } else {
                    is_good = false;
                }
            }
            first = end;
            lane += 1;
        }
        is_good.then_some(())
    }
}

#[inline(always)]
fn put<B: Block>(block: &B, shared: &FusedShared, n: u32, lane: u32, bank: u32, rank: u16) {
    let number = u32::from(rank & !REVERSED);
    block.shared_store(shared.ranks, number, Lane::new(n, lane, bank, number, rank & REVERSED != 0).0);
}
