//! First kernel: holds every bank against the policy, counts hits per group, and lists the lanes that have any.
//!
//! A block an event. In three parts:
//! 1. *Banks*, a thread a bank, chunk by chunk in the order of the event: where the bank is, whether the batch
//!    contradicts itself there, which row of the policy table (spec section 6) it meets, how many hits its lanes have.
//!    Rows that depend on the banks before need the order only so far: the first broken bank of a chunk by an atomic
//!    minimum, the place among the UT banks by a block scan. That a board was named before needs none at all: of all
//!    banks of a board, each but one repeats it, whichever is looked at first.
//! 2. *Lanes*, a thread an item: the item's hits are added to its group's counter. An item is a lane in v5, and a whole
//!    bank in v4, whose words belong to any of the board's lanes.
//! 3. *List*: with zero suppression the non-empty items are listed, binned by size; else all of them are.
//!
//! What comes out is all that the clustering kernel needs: for each item where its hits begin in `raw`, how many there
//! are, and the slot. So the layout, the sourceIDs and the bank headers are read once, here.
//!
//! Launch: as many blocks as events, `count.block_x` threads, [`count_hits_shared_bytes`] of shared memory.

use crate::bank::layout::{Bank, Batch};
use crate::bank::{board_of, is_ut, v4, v5};
use crate::block::{Block, FULL_MASK, GlobalMut, Shared, SharedLayout, WARP_SIZE};
use crate::detector::BankVersion;
use crate::primitives::aggregated_atomics;
use crate::primitives::prefix_sum::block_exclusive;
use crate::primitives::size_binning::SizeBins;
use crate::report::{Count, N_COUNTS};
use crate::switches::Switches;
use crate::tables::Tables;

/// A lane (v5) or a bank (v4) with hits, as the clustering kernel gets it: eight bytes.
///
/// Low word: byte offset in `raw` of the first hit word. High word: number of hits, and in the upper half the slot
/// (v5) or the board's first slot (v4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Byte offset of the first hit word in `raw`.
    pub first_hit: u32,
    /// Hit words (v5: at most 254) or cluster words (v4: at most 65535).
    pub n_hits: u32,
    /// Lane slot; v4: of the board's lane 0.
    pub slot: u32,
}

impl Item {
    /// The item in eight bytes.
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        self.first_hit as u64 | ((self.n_hits | (self.slot << 16)) as u64) << 32
    }

    /// The item back.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        let high = (bits >> 32) as u32;
        Self { first_hit: bits as u32, n_hits: high & 0xFFFF, slot: high >> 16 }
    }
}

/// What the kernel writes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CountOutput<'a> {
    /// Hits of each group of each event, before clustering: `events * n_groups`.
    pub strip_counts: GlobalMut<'a, u32>,
    /// [`Item`]s, [`items_capacity`] an event.
    pub items: GlobalMut<'a, u64>,
    /// Items of each event.
    pub n_items: GlobalMut<'a, u32>,
    /// `N_COUNTS` counters an event; those of the clustering kernel are set to 0.
    pub report: GlobalMut<'a, u32>,
}

/// Items of a bank.
#[inline(always)]
const fn items_per_bank(version: BankVersion) -> u32 {
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

/// The kernel's shared memory.
#[derive(Clone, Copy, Debug)]
struct CountShared {
    warp_totals: Shared<u32>,
    /// First bank of the event that is not there.
    first_broken: Shared<u32>,
    report: Shared<u32>,
    bins: Shared<u32>,
    /// Boards named so far, a bit each.
    boards_seen: Shared<u32>,
    group_counts: Shared<u32>,
    /// Payload of each UT bank.
    payloads: Shared<u32>,
    /// Board of each UT bank.
    boards: Shared<u16>,
    /// Hits of each item of each UT bank.
    n_hits: Shared<u16>,
}

impl CountShared {
    #[inline(always)]
    const fn layout(version: BankVersion, n_boards: u32, n_groups: u32) -> (Self, u32) {
        let mut layout = SharedLayout::new();
        let shared = Self {
            warp_totals: layout.array(WARP_SIZE),
            first_broken: layout.array(1),
            report: layout.array(N_COUNTS as u32),
            bins: layout.array(SizeBins::COUNTERS),
            boards_seen: layout.array(n_boards.div_ceil(32)),
            group_counts: layout.array(n_groups),
            payloads: layout.array(n_boards),
            boards: layout.array(n_boards),
            n_hits: layout.array(items_capacity(version, n_boards)),
        };
        (shared, layout.bytes())
    }
}

/// Bytes of shared memory a block needs.
pub const fn count_hits_shared_bytes(version: BankVersion, n_boards: u32, n_groups: u32) -> u32 {
    CountShared::layout(version, n_boards, n_groups).1
}

/// The kernel.
#[inline(always)]
pub fn count_hits<B: Block>(
    block: &B,
    switches: Switches,
    batch: &Batch<'_>,
    tables: &Tables<'_>,
    output: &CountOutput<'_>,
) {
    let shared = CountShared::layout(switches.version, tables.n_boards(), tables.n_groups).0;
    clear(block, shared.report, 0);
    clear(block, shared.boards_seen, 0);
    clear(block, shared.group_counts, 0);
    clear(block, shared.first_broken, u32::MAX);
    // All counters at their start before anyone counts.
    block.sync_threads();

    let n_banks = classify_banks(block, switches, batch, tables, &shared);
    // The items of all banks are in shared memory before anyone looks at another thread's.
    block.sync_threads();
    count_groups(block, switches, batch, tables, &shared, n_banks);
    list_items(block, switches, tables, &shared, n_banks, output);

    // (A barrier of `list_items` stands between the counting and this.)
    let event = block.block_idx_x();
    copy_out(block, shared.report, output.report, event * N_COUNTS as u32);
    copy_out(block, shared.group_counts, output.strip_counts, event * tables.n_groups);
}

/// Part 1. Gives the number of UT banks that have items, decoded or not.
#[inline(always)]
fn classify_banks<B: Block>(
    block: &B,
    switches: Switches,
    batch: &Batch<'_>,
    tables: &Tables<'_>,
    shared: &CountShared,
) -> u32 {
    let Some(event) = batch.event(block, switches.layout, block.block_idx_x()) else {
        if block.thread() == 0 {
            report(block, shared, Count::BrokenEvent, 1);
        }
        return 0;
    };
    let mut chunk = 0;
    let mut ut_banks = 0;
    // `chunk` and everything else that the loop depends on is the same for all threads.
    while chunk < event.n_banks {
        let i = chunk + block.thread();
        let bank = if i < event.n_banks { batch.bank(block, switches.layout, &event, i) } else { None };
        if i < event.n_banks && bank.is_none() {
            block.shared_atomic_min(shared.first_broken, 0, i);
        }
        // Every bank of the chunk looked at before the first broken one is known.
        block.sync_threads();
        let end = block.shared_load(shared.first_broken, 0).min(event.n_banks);
        let bank = if i < end { bank } else { None };
        let is_ut_bank = bank.is_some_and(|bank| is_ut(bank.kind));
        let (before, in_chunk) = block_exclusive(block, shared.warp_totals, u32::from(is_ut_bank));
        let place = ut_banks + before;
        let mut decoded = false;
        if let Some(bank) = bank {
            if !is_ut_bank {
                report(block, shared, Count::OtherTypes, 1);
            } else if place >= tables.n_boards() {
                report(block, shared, Count::SurplusBanks, 1);
            } else {
                decoded = note_bank(block, switches, batch, tables, shared, place, &bank);
            }
        }
        let decoded = block.ballot_sync(FULL_MASK, decoded);
        if block.lane_id() == 0 && decoded != 0 {
            report(block, shared, Count::Banks, decoded.count_ones());
        }
        ut_banks = ut_banks.saturating_add(in_chunk);
        if end < event.n_banks && end < chunk.saturating_add(block.threads()) {
            if block.thread() == 0 {
                report(block, shared, Count::BrokenEvent, 1);
            }
            break;
        }
        chunk = chunk.saturating_add(block.threads());
    }
    ut_banks.min(tables.n_boards())
}

/// The rows of the policy table from `wrong_version` on. Notes the bank's items at `place`, which is below the number of
/// boards; gives whether the bank is decoded.
#[inline(always)]
fn note_bank<B: Block>(
    block: &B,
    switches: Switches,
    batch: &Batch<'_>,
    tables: &Tables<'_>,
    shared: &CountShared,
    place: u32,
    bank: &Bank,
) -> bool {
    let outcome = examine_bank(block, switches, batch, tables, shared, place, bank);
    match outcome {
        Ok(items) => {
            match items {
                Items::Lanes(counts) => {
                    for lane in 0..v5::LANES {
                        block.shared_store(shared.n_hits, place * v5::LANES + lane, counts.of(lane) as u16);
                    }
                }
                Items::Words(n) => block.shared_store(shared.n_hits, place, n as u16),
                Items::Nothing => note_nothing(block, switches, shared, place),
            }
            true
        }
        Err(trouble) => {
            note_nothing(block, switches, shared, place);
            report(block, shared, trouble, 1);
            false
        }
    }
}

/// What a decodable bank holds.
#[derive(Clone, Copy)]
enum Items {
    Lanes(v5::Counts),
    Words(u32),
    Nothing,
}

#[inline(always)]
fn examine_bank<B: Block>(
    block: &B,
    switches: Switches,
    batch: &Batch<'_>,
    tables: &Tables<'_>,
    shared: &CountShared,
    place: u32,
    bank: &Bank,
) -> Result<Items, Count> {
    if bank.version.is_some_and(|version| version != switches.version.byte()) {
        return Err(Count::WrongVersion);
    }
    let board = board_of(bank.source_id).unwrap_or(u32::MAX);
    if board >= tables.n_boards() || block.load(tables.strips_per_hybrid, board) == 0 {
        return Err(Count::UnknownBoard);
    }
    let bit = 1 << (board % 32);
    if block.shared_atomic_or(shared.boards_seen, board / 32, bit) & bit != 0 {
        report(block, shared, Count::RepeatedBoard, 1);
    }
    block.shared_store(shared.boards, place, board as u16);
    block.shared_store(shared.payloads, place, bank.payload);
    match switches.version {
        BankVersion::V4 => match v4::n_words(block, batch.raw, bank.payload, bank.size) {
            Some(n) => Ok(Items::Words(n)),
            None => Err(Count::Truncated),
        },
        BankVersion::V5 => match v5::header(block, batch.raw, bank.payload, bank.size) {
            v5::Header::Hits(counts) => Ok(Items::Lanes(counts)),
            v5::Header::Empty => Ok(Items::Nothing),
            v5::Header::Short => Err(Count::Short),
            v5::Header::Bad => Err(Count::BadHeader),
            v5::Header::Truncated => Err(Count::Truncated),
        },
    }
}

/// A bank without items: nobody looks at its board and payload.
#[inline(always)]
fn note_nothing<B: Block>(block: &B, switches: Switches, shared: &CountShared, place: u32) {
    let items = items_per_bank(switches.version);
    for item in 0..items {
        block.shared_store(shared.n_hits, place * items + item, 0);
    }
}

/// Part 2. Also takes unconnected lanes (v5) out of the items.
#[inline(always)]
fn count_groups<B: Block>(
    block: &B,
    switches: Switches,
    batch: &Batch<'_>,
    tables: &Tables<'_>,
    shared: &CountShared,
    n_banks: u32,
) {
    let per_bank = items_per_bank(switches.version);
    let n_items = n_banks * per_bank;
    let mut strips = 0;
    let mut unconnected = 0;
    let mut first = block.warp_id() * WARP_SIZE;
    // Uniform in the warp, for the aggregated atomics.
    while first < n_items {
        let i = first + block.lane_id();
        let n = if i < n_items { u32::from(block.shared_load(shared.n_hits, i)) } else { 0 };
        let bank = i / per_bank;
        match switches.version {
            BankVersion::V5 => {
                let mut group = None;
                if n > 0 {
                    let board = u32::from(block.shared_load(shared.boards, bank));
                    let slot = tables.slot(block, switches, board * v5::LANES + i % v5::LANES);
                    if slot.is_connected() {
                        strips += n;
                        group = Some(u32::from(slot.group));
                    } else {
                        unconnected += n;
                        block.shared_store(shared.n_hits, i, 0);
                    }
                }
                add_to_group(block, switches, shared, group, n);
            }
            BankVersion::V4 => {
                let mut board = 0;
                let mut strips_per_hybrid = 1;
                let mut first_word = 0;
                if n > 0 {
                    board = u32::from(block.shared_load(shared.boards, bank));
                    // Not 0: the board would be unknown. The guard spares the device a trap.
                    strips_per_hybrid = block.load(tables.strips_per_hybrid, board).max(1);
                    first_word = block.shared_load(shared.payloads, bank) + v4::HEADER;
                }
                let mut word = 0;
                while block.ballot_sync(FULL_MASK, word < n) != 0 {
                    let mut group = None;
                    if word < n {
                        let index = v4::channel(block.load_bytes(batch.raw, first_word + 2 * word)) / strips_per_hybrid;
                        group = v4_slot(block, switches, tables, board, index).map(|(_, group)| group);
                        strips += u32::from(group.is_some());
                        unconnected += u32::from(group.is_none());
                    }
                    add_to_group(block, switches, shared, group, 1);
                    word += 1;
                }
            }
        }
        first += block.threads();
    }
    let strips = block.redux_add_sync(FULL_MASK, strips);
    let unconnected = block.redux_add_sync(FULL_MASK, unconnected);
    if block.lane_id() == 0 {
        if strips > 0 {
            report(block, shared, Count::Strips, strips);
        }
        if unconnected > 0 {
            report(block, shared, Count::UnconnectedHits, unconnected);
        }
    }
}

/// Slot and group of hybrid `index` of a v4 board; `None` when nothing is connected.
#[inline(always)]
pub fn v4_slot<B: Block>(
    block: &B,
    switches: Switches,
    tables: &Tables<'_>,
    board: u32,
    index: u32,
) -> Option<(u32, u32)> {
    if index >= v5::LANES {
        return None;
    }
    let number = board * v5::LANES + index;
    let slot = tables.slot(block, switches, number);
    slot.is_connected().then_some((number, u32::from(slot.group)))
}

/// Adds `amount` to a group's counter for each lane that has one. All lanes of the warp call.
#[inline(always)]
fn add_to_group<B: Block>(block: &B, switches: Switches, shared: &CountShared, group: Option<u32>, amount: u32) {
    if switches.warp_atomics {
        let mask = block.ballot_sync(FULL_MASK, group.is_some());
        if let Some(group) = group {
            aggregated_atomics::add(block, mask, shared.group_counts, group, amount);
        }
    } else if let Some(group) = group {
        block.shared_atomic_add(shared.group_counts, group, amount);
    }
}

/// Part 3. Has a barrier, behind which the counts of part 2 are complete.
#[inline(always)]
fn list_items<B: Block>(
    block: &B,
    switches: Switches,
    tables: &Tables<'_>,
    shared: &CountShared,
    n_banks: u32,
    output: &CountOutput<'_>,
) {
    let event = block.block_idx_x();
    let per_bank = items_per_bank(switches.version);
    let n_items = n_banks * per_bank;
    let list = event * items_capacity(switches.version, tables.n_boards());
    let write = |i: u32, n: u32, place: u32| {
        let bank = i / per_bank;
        let first_slot = u32::from(block.shared_load(shared.boards, bank)) * v5::LANES;
        let payload = block.shared_load(shared.payloads, bank);
        let (first_hit, slot) = match switches.version {
            BankVersion::V4 => (payload + v4::HEADER, first_slot),
            BankVersion::V5 => (payload + v5::lane_offset(i % v5::LANES), first_slot + i % v5::LANES),
        };
        block.store(output.items, list + place, Item { first_hit, n_hits: n, slot }.to_bits());
    };
    let size = |i: u32| if i < n_items { u32::from(block.shared_load(shared.n_hits, i)) } else { 0 };

    if !switches.zero_suppression {
        // All counts of part 2 in before they go out.
        block.sync_threads();
        let mut i = block.thread();
        while i < n_items {
            match size(i) {
                0 => block.store(output.items, list + i, 0),
                n => write(i, n, i),
            }
            i += block.threads();
        }
        if block.thread() == 0 {
            block.store(output.n_items, event, n_items);
        }
        return;
    }

    let bins = SizeBins::new(block, shared.bins, switches.bins, switches.warp_atomics);
    let mut first = block.warp_id() * WARP_SIZE;
    while first < n_items {
        bins.count(block, size(first + block.lane_id()));
        first += block.threads();
    }
    let n_listed = bins.sum(block);
    let mut first = block.warp_id() * WARP_SIZE;
    while first < n_items {
        let i = first + block.lane_id();
        let n = size(i);
        let place = bins.place(block, n);
        if n > 0 {
            write(i, n, place);
        }
        first += block.threads();
    }
    if block.thread() == 0 {
        block.store(output.n_items, event, n_listed);
    }
}

#[inline(always)]
#[track_caller]
fn report<B: Block>(block: &B, shared: &CountShared, count: Count, n: u32) {
    block.shared_atomic_add(shared.report, count as u32, n);
}

/// Sets every element to `value`, all threads together.
#[inline(always)]
pub(crate) fn clear<B: Block>(block: &B, array: Shared<u32>, value: u32) {
    let mut i = block.thread();
    while i < array.len() {
        block.shared_store(array, i, value);
        i += block.threads();
    }
}

/// Copies an array to global memory from element `first` on, all threads together.
#[inline(always)]
fn copy_out<B: Block>(block: &B, array: Shared<u32>, view: GlobalMut<'_, u32>, first: u32) {
    let mut i = block.thread();
    while i < array.len() {
        block.store(view, first + i, block.shared_load(array, i));
        i += block.threads();
    }
}

#[cfg(test)]
mod tests {
    use super::Item;

    #[test]
    fn an_item_survives_its_eight_bytes() {
        for item in [
            Item { first_hit: 0, n_hits: 0, slot: 0 },
            Item { first_hit: u32::MAX, n_hits: 65535, slot: 1439 },
            Item { first_hit: 0x1234_5678, n_hits: 254, slot: 65535 },
        ] {
            assert_eq!(Item::from_bits(item.to_bits()), item);
        }
    }
}
