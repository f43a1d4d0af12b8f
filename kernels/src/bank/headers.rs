//! Checks of every bank of an event by docs/policy.md, for the kernels that begin with raw banks.
//!
//! One block per event, one thread per bank, chunk by chunk in the order of the event. Rules that
//! depend on earlier banks need little of that order: the first broken bank of a chunk is an atomic
//! minimum, the place among the UT banks a block scan. Of all banks of a board, each but one
//! repeats it, whichever is looked at first. Results, in shared memory: payload and board of each
//! UT bank, and the hits of its items. An *item* is a lane in v5, and a whole bank in v4, whose
//! words belong to any of the board's lanes.

use crate::bank::layout::{Bank, Banks, Batch};
use crate::bank::{is_ut, v4, v5};
use crate::detector::BankVersion;
use crate::report::{Count, N_COUNTS};
use crate::switches::Switches;
use simt::primitives::block_scan::block_exclusive;
use simt::{Block, FULL_MASK, Global, Shared, SharedLayout, WARP_SIZE};

/// Items of a bank.
#[inline(always)]
pub const fn items_per_bank(version: BankVersion) -> u32 {
    match version {
        BankVersion::V4 => 1,
        BankVersion::V5 => v5::LANES,
    }
}

/// Items that an event can have with this many boards.
#[inline(always)]
pub const fn items_capacity(version: BankVersion, n_boards: u32) -> u32 {
    n_boards * items_per_bank(version)
}

/// Counts made while the banks are looked at.
#[derive(Clone, Copy, Debug)]
pub struct HeaderCounters {
    /// For block scans.
    pub warp_totals: Shared<u32>,
    first_broken: Shared<u32>,
    /// The event's counters.
    pub report: Shared<u32>,
    boards_seen: Shared<u32>,
}

impl HeaderCounters {
    /// Takes the next part of the block's shared memory.
    #[inline(always)]
    pub const fn layout(layout: &mut SharedLayout, n_boards: u32) -> Self {
        Self {
            warp_totals: layout.array(WARP_SIZE),
            first_broken: layout.array(1),
            report: layout.array(N_COUNTS as u32),
            boards_seen: layout.array(n_boards.div_ceil(32)),
        }
    }

    /// Sets the counters to their start. All threads of the block call; a barrier must follow
    /// before any thread counts.
    #[inline(always)]
    pub fn clear<B: Block>(&self, block: &B) {
        clear(block, self.report, 0);
        clear(block, self.boards_seen, 0);
        clear(block, self.first_broken, u32::MAX);
    }

    /// Adds to one of the event's counters.
    #[inline(always)]
    #[track_caller]
    pub fn report<B: Block>(&self, block: &B, count: Count, n: u32) {
        block.shared_atomic_add(self.report, count as u32, n);
    }
}

/// The UT banks of an event.
#[derive(Clone, Copy, Debug)]
pub struct UtBanks {
    /// Payload of each UT bank.
    pub payloads: Shared<u32>,
    /// Board of each UT bank.
    pub boards: Shared<u16>,
    /// Hits of each item of each UT bank.
    pub n_hits: Shared<u16>,
}

impl UtBanks {
    /// Takes the next part of the block's shared memory.
    #[inline(always)]
    pub const fn layout(layout: &mut SharedLayout, version: BankVersion, n_boards: u32) -> Self {
        Self {
            payloads: layout.array(n_boards),
            boards: layout.array(n_boards),
            n_hits: layout.array(items_capacity(version, n_boards)),
        }
    }
}

/// Rules for checking banks, and destination of the result.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    /// Format and layout.
    pub switches: Switches,
    /// The batch.
    pub batch: &'a Batch<'a>,
    /// Board → strips of a hybrid; 0: no such board. Its length is the number of boards.
    pub strips_per_hybrid: Global<'a, u32>,
    /// Counters of the event, [cleared](HeaderCounters::clear) before.
    pub counters: HeaderCounters,
    /// List of the UT banks.
    pub banks: UtBanks,
}

impl Headers<'_> {
    /// Looks at all banks of `event`; `None` counts as a broken event. All threads of the block
    /// call. Returns the number of UT banks that have items, decoded or not; a barrier must follow
    /// before any thread reads them.
    #[inline(always)]
    pub fn classify<B: Block>(&self, block: &B, event: Option<impl Banks<B>>) -> u32 {
        let Some(event) = event else {
            if block.thread() == 0 {
                self.counters.report(block, Count::BrokenEvent, 1);
            }
            return 0;
        };
        let (n_banks, n_boards) = (event.n_banks(), self.strips_per_hybrid.len());
        let first_broken = self.counters.first_broken;
        let mut chunk = 0;
        let mut ut_banks = 0;
        // `chunk` and everything else that the loop depends on is the same for all threads.
        while chunk < n_banks {
            let i = chunk + block.thread();
            let bank = if i < n_banks {
                event.bank(block, self.batch, self.switches.layout, i)
            } else {
                None
            };
            if i < n_banks && bank.is_none() {
                block.shared_atomic_min(first_broken, 0, i);
            }
            // Every bank of the chunk looked at before the first broken one is known.
            block.sync_threads();
            let end = block.shared_load(first_broken, 0).min(n_banks);
            let bank = if i < end { bank } else { None };
            let is_ut_bank = bank.is_some_and(|bank| is_ut(bank.kind));
            let (before, in_chunk) =
                block_exclusive(block, self.counters.warp_totals, u32::from(is_ut_bank));
            let place = ut_banks + before;
            let mut decoded = false;
            if let Some(bank) = bank.filter(|_| is_ut_bank && place < n_boards) {
                decoded = self.note(block, place, &bank);
            } else if bank.is_some() {
                let count = if is_ut_bank {
                    Count::SurplusBanks
                } else {
                    Count::OtherTypes
                };
                self.counters.report(block, count, 1);
            }
            let decoded = block.ballot_sync(FULL_MASK, decoded);
            if block.lane_id() == 0 && decoded != 0 {
                self.counters
                    .report(block, Count::Banks, decoded.count_ones());
            }
            ut_banks = ut_banks.saturating_add(in_chunk);
            if end < n_banks && end < chunk.saturating_add(block.threads()) {
                if block.thread() == 0 {
                    self.counters.report(block, Count::BrokenEvent, 1);
                }
                break;
            }
            chunk = chunk.saturating_add(block.threads());
        }
        ut_banks.min(n_boards)
    }

    /// Applies the policy from `wrong_version` on, and notes the items at `place`. Returns true if
    /// the bank is decoded.
    #[inline(always)]
    fn note<B: Block>(&self, block: &B, place: u32, bank: &Bank) -> bool {
        let n_hits = self.banks.n_hits;
        let nothing = || {
            // Board and payload of a bank without hits are never read.
            let items = items_per_bank(self.switches.version);
            for item in 0..items {
                block.shared_store(n_hits, place * items + item, 0);
            }
        };
        match self.examine(block, place, bank) {
            Ok(items) => {
                match items {
                    Items::Lanes(counts) => {
                        for lane in 0..v5::LANES {
                            block.shared_store(
                                n_hits,
                                place * v5::LANES + lane,
                                counts.of(lane) as u16,
                            );
                        }
                    }
                    Items::Words(n) => block.shared_store(n_hits, place, n as u16),
                    Items::Nothing => nothing(),
                }
                true
            }
            Err(trouble) => {
                nothing();
                self.counters.report(block, trouble, 1);
                false
            }
        }
    }

    #[inline(always)]
    fn examine<B: Block>(&self, block: &B, place: u32, bank: &Bank) -> Result<Items, Count> {
        if bank.version != self.switches.version.byte() {
            return Err(Count::WrongVersion);
        }
        let board = bank.board;
        if board >= self.strips_per_hybrid.len() || block.load(self.strips_per_hybrid, board) == 0 {
            return Err(Count::UnknownBoard);
        }
        let bit = 1 << (board % 32);
        if block.shared_atomic_or(self.counters.boards_seen, board / 32, bit) & bit != 0 {
            self.counters.report(block, Count::RepeatedBoard, 1);
        }
        block.shared_store(self.banks.boards, place, board as u16);
        block.shared_store(self.banks.payloads, place, bank.payload);
        match self.switches.version {
            BankVersion::V4 => match v4::n_words(block, self.batch.raw, bank.payload, bank.size) {
                Some(n) => Ok(Items::Words(n)),
                None => Err(Count::Truncated),
            },
            BankVersion::V5 => match v5::header(block, self.batch.raw, bank.payload, bank.size) {
                v5::Header::Hits(counts) => Ok(Items::Lanes(counts)),
                v5::Header::Empty => Ok(Items::Nothing),
                v5::Header::Short => Err(Count::Short),
                v5::Header::Bad => Err(Count::BadHeader),
                v5::Header::Truncated => Err(Count::Truncated),
            },
        }
    }
}

#[derive(Clone, Copy)]
enum Items {
    Lanes(v5::Counts),
    Words(u32),
    Nothing,
}

/// Sets every element to `value`, all threads together.
#[inline(always)]
pub fn clear<B: Block>(block: &B, array: Shared<u32>, value: u32) {
    let mut i = block.thread();
    while i < array.len() {
        block.shared_store(array, i, value);
        i += block.threads();
    }
}
