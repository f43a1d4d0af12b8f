//! First kernel: checks every bank by the policy, counts hits per group, and lists the lanes that
//! have any.
//!
//! One block per event, in three parts:
//! 1. *Banks*: [`headers`](crate::bank::headers).
//! 2. *Lanes*, one thread per item (v5: a lane; v4: a bank): the item's hits are added to its
//!    group's counter.
//! 3. *List*: with zero suppression the non-empty items, binned by size; else all items. An item
//!    has all that the clustering kernel needs, so that layout, sourceIDs and bank headers are read
//!    once.
//!
//! Launch: as many blocks as events, `count.block_x` threads, [`count_hits_shared_bytes`] of shared
//! memory.

pub use crate::bank::headers::items_capacity;
use crate::bank::headers::{HeaderCounters, Headers, UtBanks, clear, items_per_bank};
use crate::bank::layout::Batch;
use crate::bank::{v4, v5};
use crate::detector::BankVersion;
use crate::report::{Count, N_COUNTS};
use crate::switches::Switches;
use crate::tables::Tables;
use simt::primitives::block_size_binning::SizeBins;
use simt::primitives::warp_aggregated_atomics;
use simt::{Block, FULL_MASK, GlobalMut, Kernel, Shared, SharedLayout, WARP_SIZE};

/// Lane (v5) or bank (v4) with hits, in eight bytes: from the lowest bits on `first_hit`, `n_hits`
/// (16 bits), `slot`.
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
        Self {
            first_hit: bits as u32,
            n_hits: high & 0xFFFF,
            slot: high >> 16,
        }
    }
}

/// Output of the kernel.
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

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for CountOutput<'_> {}

#[derive(Clone, Copy, Debug)]
struct CountShared {
    bins: Shared<u32>,
    counters: HeaderCounters,
    group_counts: Shared<u32>,
    banks: UtBanks,
}

impl CountShared {
    #[inline(always)]
    const fn layout(version: BankVersion, n_boards: u32, n_groups: u32) -> (Self, u32) {
        let mut layout = SharedLayout::new();
        // Fixed sizes come first: their places are constants.
        let shared = Self {
            bins: layout.array(SizeBins::COUNTERS),
            counters: HeaderCounters::layout(&mut layout, n_boards),
            group_counts: layout.array(n_groups),
            banks: UtBanks::layout(&mut layout, version, n_boards),
        };
        (shared, layout.bytes())
    }
}

/// Bytes of shared memory a block needs.
pub const fn count_hits_shared_bytes(version: BankVersion, n_boards: u32, n_groups: u32) -> u32 {
    CountShared::layout(version, n_boards, n_groups).1
}

/// The kernel.
#[derive(Clone, Copy, Debug)]
pub struct CountHits {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for CountHits {
    const NAME: &'static str = "count_hits";
    type Arguments<'a> = (Batch<'a>, Tables<'a>, CountOutput<'a>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, (batch, tables, output): &Self::Arguments<'_>) {
        let Self { switches } = self;
        let shared = CountShared::layout(switches.version, tables.n_boards(), tables.n_groups).0;
        shared.counters.clear(block);
        clear(block, shared.group_counts, 0);
        block.sync_threads();

        let headers = Headers {
            switches,
            batch,
            strips_per_hybrid: tables.strips_per_hybrid,
            counters: shared.counters,
            banks: shared.banks,
        };
        let n_banks = headers.classify(
            block,
            batch.event(block, switches.layout, block.block_idx_x()),
        );
        block.sync_threads();
        count_groups(block, switches, batch, tables, &shared, n_banks);
        list_items(block, switches, tables, &shared, n_banks, output);

        // (A barrier of `list_items` stands between the counting and this.)
        let event = block.block_idx_x();
        copy_out(
            block,
            shared.counters.report,
            output.report,
            event * N_COUNTS as u32,
        );
        copy_out(
            block,
            shared.group_counts,
            output.strip_counts,
            event * tables.n_groups,
        );
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
        let n = if i < n_items {
            u32::from(block.shared_load(shared.banks.n_hits, i))
        } else {
            0
        };
        let bank = i / per_bank;
        match switches.version {
            BankVersion::V5 => {
                let mut group = None;
                if n > 0 {
                    let board = u32::from(block.shared_load(shared.banks.boards, bank));
                    let slot = tables.slot(block, switches, board * v5::LANES + i % v5::LANES);
                    if slot.is_connected() {
                        strips += n;
                        group = Some(u32::from(slot.group));
                    } else {
                        unconnected += n;
                        block.shared_store(shared.banks.n_hits, i, 0);
                    }
                }
                add_to_group(block, switches, shared, group, n);
            }
            BankVersion::V4 => {
                let mut board = 0;
                let mut strips_per_hybrid = 1;
                let mut first_word = 0;
                if n > 0 {
                    board = u32::from(block.shared_load(shared.banks.boards, bank));
                    // Known boards have strips; the guard spares the device a trap.
                    strips_per_hybrid = block.load(tables.strips_per_hybrid, board).max(1);
                    first_word = block.shared_load(shared.banks.payloads, bank) + v4::HEADER;
                }
                let mut word = 0;
                while block.ballot_sync(FULL_MASK, word < n) != 0 {
                    let mut group = None;
                    if word < n {
                        let index = v4::channel(block.load_bytes(batch.raw, first_word + 2 * word))
                            / strips_per_hybrid;
                        group =
                            v4_slot(block, switches, tables, board, index).map(|(_, group)| group);
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
            shared.counters.report(block, Count::Strips, strips);
        }
        if unconnected > 0 {
            shared
                .counters
                .report(block, Count::UnconnectedHits, unconnected);
        }
    }
}

/// Slot and group of hybrid `index` of a v4 board; `None` if it is unconnected.
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
    slot.is_connected()
        .then_some((number, u32::from(slot.group)))
}

/// Adds `amount` to a group's counter for each thread that has one. The whole warp calls.
#[inline(always)]
fn add_to_group<B: Block>(
    block: &B,
    switches: Switches,
    shared: &CountShared,
    group: Option<u32>,
    amount: u32,
) {
    if switches.warp_atomics {
        let mask = block.ballot_sync(FULL_MASK, group.is_some());
        if let Some(group) = group {
            warp_aggregated_atomics::add(block, mask, shared.group_counts, group, amount);
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
        let first_slot = u32::from(block.shared_load(shared.banks.boards, bank)) * v5::LANES;
        let payload = block.shared_load(shared.banks.payloads, bank);
        let (first_hit, slot) = match switches.version {
            BankVersion::V4 => (payload + v4::HEADER, first_slot),
            BankVersion::V5 => (
                payload + v5::lane_offset(i % v5::LANES),
                first_slot + i % v5::LANES,
            ),
        };
        block.store(
            output.items,
            list + place,
            Item {
                first_hit,
                n_hits: n,
                slot,
            }
            .to_bits(),
        );
    };
    let size = |i: u32| {
        if i < n_items {
            u32::from(block.shared_load(shared.banks.n_hits, i))
        } else {
            0
        }
    };

    if !switches.zero_suppression {
        // All counts of part 2 are there.
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

/// Copies an array to global memory from element `first` on, all threads together.
#[inline(always)]
pub fn copy_out<B: Block>(block: &B, array: Shared<u32>, view: GlobalMut<'_, u32>, first: u32) {
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
    fn an_item_is_unchanged_by_packing_into_eight_bytes() {
        for item in [
            Item {
                first_hit: 0,
                n_hits: 0,
                slot: 0,
            },
            Item {
                first_hit: u32::MAX,
                n_hits: 65535,
                slot: 1439,
            },
            Item {
                first_hit: 0x1234_5678,
                n_hits: 254,
                slot: 65535,
            },
        ] {
            assert_eq!(Item::from_bits(item.to_bits()), item);
        }
    }
}
