//! Stage 1: a descriptor for each lane with hits.
//!
//! One thread finds where the event's banks are, while the others clear shared memory. Then a
//! thread per bank applies every test of the policy; a bank that fails any defers the event.

use super::lane::Found;
use super::shared::{ClusterShared, PLACE_WORDS};
use crate::bank::layout::Batch;
use crate::bank::{board_of, is_ut, v4, v5};
use crate::detector::BankVersion;
use crate::ranked::gather::{BankWord, State};
use crate::ranked::tables::{BoardRecord, MAX_BOARDS, MAX_RANKS, REVERSED, RankedTables};
use crate::switches::{Layout, Switches};
use simt::{Block, Global, NonEmpty, Shared};

#[derive(Clone, Copy)]
pub(super) struct Headers<'a> {
    pub switches: Switches,
    pub batch: &'a Batch<'a>,
    /// MEP layout: as [`RankedInput::bank_words`](crate::ranked::RankedInput::bank_words).
    pub bank_words: Global<'a, u32>,
    pub raw: NonEmpty<'a, u32>,
}

/// Place of an event's banks in the batch.
#[derive(Clone, Copy)]
pub(super) struct EventPlace {
    pub n_banks: u32,
    /// Allen: word of the event's table. MEP: number of the event's first bank among all.
    table: u32,
    /// Allen: place of the event's sizes. MEP: number of the event's first bank among those of the
    /// decoded events.
    sizes: u32,
    /// Allen: places of the event's types and versions.
    types: u32,
    versions: u32,
}

impl EventPlace {
    pub const NONE: Self = Self {
        n_banks: 0,
        table: 0,
        sizes: 0,
        types: 0,
        versions: 0,
    };

    /// Stores the place for the block. One thread of the block calls; a barrier must follow.
    #[inline(always)]
    pub fn put<B: Block>(&self, block: &B, place: Shared<u32>) {
        let Self {
            n_banks,
            table,
            sizes,
            types,
            versions,
        } = *self;
        block.shared_store(place, 0, n_banks);
        block.shared_store(place, 1, table);
        block.shared_store(place, 2, sizes);
        block.shared_store(place, 3, types);
        block.shared_store(place, 4, versions);
        const { assert!(PLACE_WORDS > 4) };
    }

    /// Returns the place that [`put`](Self::put) stored.
    #[inline(always)]
    pub fn of<B: Block>(block: &B, place: Shared<u32>) -> Self {
        let word = |i| block.shared_load(place, i);
        Self {
            n_banks: word(0),
            table: word(1),
            sizes: word(2),
            types: word(3),
            versions: word(4),
        }
    }
}

/// Bank that is decodable as far as the batch says.
#[derive(Clone, Copy)]
struct Bank {
    /// Word of the payload.
    payload: u32,
    /// Bytes of the payload, all there.
    size: u32,
    board: u32,
}

impl Headers<'_> {
    /// Finds the place of an event; `None` if arrays are too short, or the banks outnumber the
    /// boards.
    #[inline(always)]
    pub fn place<B: Block>(
        &self,
        block: &B,
        tables: &RankedTables<'_>,
        event: u32,
    ) -> Option<EventPlace> {
        let place = match self.switches.layout {
            Layout::Allen => self.place_in_allen_layout(block, event)?,
            Layout::Mep => self.place_in_mep_layout(block, event)?,
        };
        (place.n_banks <= tables.boards.len()).then_some(place)
    }

    #[inline(always)]
    fn place_in_allen_layout<B: Block>(&self, block: &B, event: u32) -> Option<EventPlace> {
        let batch = self.batch;
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
        let versions = if has_versions {
            block.load(batch.versions, event)
        } else {
            0
        };
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
        is_there.then_some(EventPlace {
            n_banks,
            table,
            sizes,
            types,
            versions,
        })
    }

    #[inline(always)]
    fn place_in_mep_layout<B: Block>(&self, block: &B, event: u32) -> Option<EventPlace> {
        let batch = self.batch;
        if batch.offsets.is_empty() {
            return None;
        }
        let n_banks = block.load(batch.offsets, 0);
        if n_banks > MAX_BOARDS {
            return None;
        }
        let table = (batch.first_event + event).checked_mul(n_banks)?;
        let end = table.checked_add(2 * n_banks)?.checked_add(2)?;
        // (Not above `table`: it cannot wrap.)
        let sizes = event * n_banks;
        let is_there = end <= batch.offsets.len() && sizes + n_banks <= self.bank_words.len();
        is_there.then_some(EventPlace {
            n_banks,
            table,
            sizes,
            ..EventPlace::NONE
        })
    }

    /// Finds bank `i` of the event, below the number of its banks.
    #[inline(always)]
    fn find<B: Block>(&self, block: &B, place: &EventPlace, i: u32) -> Option<Bank> {
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
                // (Words: nothing here can wrap. The event's place is below the end of the batch.)
                let base = place.table + place.n_banks + 1;
                let fragment = base + rel / 4;
                let is_there = rel.is_multiple_of(4)
                    && end >= rel
                    && end - rel >= 4 + size
                    && end <= 4 * (self.raw.view().len() - base)
                    && is_ut(kind)
                    && version == right;
                if !is_there {
                    return None;
                }
                let board = board_of(block.load_within(self.raw, fragment)).unwrap_or(u32::MAX);
                Some(Bank {
                    payload: fragment + 1,
                    size,
                    board,
                })
            }
            Layout::Mep => {
                let word = BankWord(block.load(self.bank_words, place.sizes + i));
                let payload = block.load(batch.offsets, 2 + place.table + place.n_banks + i);
                let is_there = word.state() == State::Good
                    && payload.is_multiple_of(4)
                    && payload / 4 + word.size().div_ceil(4) <= self.raw.view().len();
                is_there.then_some(Bank {
                    payload: payload / 4,
                    size: word.size(),
                    board: word.board(),
                })
            }
        }
    }

    /// Stores the descriptors of a bank's lanes; `None` if the bank is unusual. Called after the
    /// descriptors were cleared.
    #[inline(always)]
    pub fn describe<B: Block>(
        &self,
        block: &B,
        tables: &RankedTables<'_>,
        shared: &ClusterShared,
        place: &EventPlace,
        i: u32,
    ) -> Option<()> {
        let Bank {
            payload,
            size,
            board,
        } = self.find(block, place, i)?;
        if board >= tables.boards.len() {
            return None;
        }
        let record = block.load(tables.boards, board);
        let bit = 1 << (board % 32);
        if record.strips_per_hybrid == 0
            || block.shared_atomic_or(shared.boards_seen, board / 32, bit) & bit != 0
        {
            return None;
        }
        match self.switches.version {
            BankVersion::V5 => self.describe_v5(block, shared, &record, payload, size),
            BankVersion::V4 => self.describe_v4(block, shared, &record, payload, size),
        }
    }

    #[inline(always)]
    fn describe_v5<B: Block>(
        &self,
        block: &B,
        shared: &ClusterShared,
        record: &BoardRecord,
        payload: u32,
        size: u32,
    ) -> Option<()> {
        if size < v5::HEADER {
            return None;
        }
        let counts = v5::Counts::of_words(
            block.load_within(self.raw, payload),
            block.load_within(self.raw, payload + 1),
        );
        // A row has two hits of each lane; 255 is no count.
        let most = (2 * (size / 32)).min(v5::BAD_COUNT - 1);
        let mut largest = 0;
        let mut is_good = true;
        let mut lane = 0;
        while lane < v5::LANES {
            let n = counts.of(lane);
            largest = n.max(largest);
            if n > 0 {
                let begin = 2 * payload + v5::lane_offset(lane) / 2;
                is_good &= put(block, shared, record.ranks[lane as usize], begin, n);
            }
            lane += 1;
        }
        (is_good && largest <= most).then_some(())
    }

    /// v4: finds the words of each lane by bisection, since they rise from lane to lane in a bank.
    /// Where they do not, the strips' stage finds a word of another lane.
    #[inline(always)]
    fn describe_v4<B: Block>(
        &self,
        block: &B,
        shared: &ClusterShared,
        record: &BoardRecord,
        payload: u32,
        size: u32,
    ) -> Option<()> {
        if size < v4::HEADER {
            return None;
        }
        let n = block.load_within(self.raw, payload) & 0xFFFF;
        if size < v4::HEADER + 2 * n || record.strips_per_hybrid != 512 {
            return None;
        }
        let words = 2 * payload + v4::HEADER / 2;
        let mut ends = [0, 0, 0, 0, 0, n];
        if let Some(bank) = self.raw.as_u16().part(words, n) {
            // Last word of the lanes up to each, one less than 0 for none. (Words of no lane count
            // as words of another, and are found there.)
            let mut last = [u32::MAX; v5::LANES as usize - 1];
            let mut step = 1 << n.ilog2();
            while step > 0 {
                let mut lane = 0;
                while lane < v5::LANES - 1 {
                    let last = &mut last[lane as usize];
                    let next = last.wrapping_add(step).min(n - 1);
                    if v4::lane(block.load_within(bank, next)) <= lane {
                        *last = next;
                    }
                    lane += 1;
                }
                step /= 2;
            }
            let mut lane = 0;
            while lane < v5::LANES - 1 {
                ends[lane as usize] = last[lane as usize].wrapping_add(1);
                lane += 1;
            }
        }
        let mut is_good = true;
        let mut first = 0;
        let mut lane = 0;
        while lane < v5::LANES {
            let end = ends[lane as usize];
            // (Where words do not rise, an end may lie before the previous lane's.)
            if end != first {
                let n = end.wrapping_sub(first);
                is_good &= n <= MAX_WORDS
                    && put(block, shared, record.ranks[lane as usize], words + first, n);
            }
            first = end;
            lane += 1;
        }
        is_good.then_some(())
    }
}

/// Maximum number of words of a v4 lane: the descriptor has eight bits for it.
const MAX_WORDS: u32 = 255;

/// Stores a lane's descriptor; returns false if the lane is unconnected.
#[inline(always)]
fn put<B: Block>(block: &B, shared: &ClusterShared, rank: u16, begin: u32, n_strips: u32) -> bool {
    const { assert!(REVERSED == 1 << 15) };
    let number = u32::from(rank & !REVERSED);
    // (An unconnected lane's rank is larger than any other.)
    let is_connected = number < MAX_RANKS;
    if is_connected {
        block.shared_store(
            shared.lanes,
            number,
            Found::new(begin, u32::from(rank) << 16, n_strips).0,
        );
    }
    is_connected
}
