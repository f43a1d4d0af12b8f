//! Compaction: the threads of a block that keep something get consecutive places, in the order of
//! the threads.
//!
//! ```text
//! thread   0  1  2  3  4  5 …      keep   x  –  x  x  –  x
//!                                  place  0  –  1  2  –  3       total 4
//! ```
//!
//! ```
//! use simt::primitives::block_compaction::block_compaction;
//! use simt::{Block, Global, GlobalMut, SharedLayout};
//!
//! /// Lists what is not 0, in any order of the blocks.
//! fn non_zero<B: Block>(block: &B, input: Global<'_, u32>, list: GlobalMut<'_, u32>, length: GlobalMut<'_, u32>) {
//!     let mut layout = SharedLayout::new();
//!     let (warps, first) = (layout.array(32), layout.array(1));
//!     let i = block.block_idx_x() * block.threads() + block.thread();
//!     let value = if i < input.len() { block.load(input, i) } else { 0 };
//!     let (place, total) = block_compaction(block, warps, value != 0);
//!     if block.thread() == 0 {
//!         block.shared_store(first, 0, block.atomic_add(length, 0, total));
//!     }
//!     // All threads wait for the block's first place.
//!     block.sync_threads();
//!     if value != 0 {
//!         block.store(list, block.shared_load(first, 0) + place, value);
//!     }
//! }
//! ```
//!
//! Cost: a ballot, a warp scan with two shuffles more, one barrier.

use super::warp_scan::warp_inclusive;
use crate::{Block, FULL_MASK, Shared, WARP_SIZE};

/// Returns the thread's place among those that keep something, and the number of these. All threads
/// call, with a barrier between two calls with the same `warps`, which has an element a warp.
#[inline(always)]
pub fn block_compaction<B: Block>(block: &B, warps: Shared<u32>, keep: bool) -> (u32, u32) {
    let kept = block.ballot_sync(FULL_MASK, keep);
    if block.lane_id() == 0 {
        block.shared_store(warps, block.warp_id(), kept.count_ones());
    }
    // The counts of all warps are there.
    block.sync_threads();
    let count = if block.lane_id() < block.warps() {
        block.shared_load(warps, block.lane_id())
    } else {
        0
    };
    let up_to = warp_inclusive::<32, B>(block, count);
    let before = block.shuffle_idx_sync(FULL_MASK, up_to - count, block.warp_id());
    let total = block.shuffle_idx_sync(FULL_MASK, up_to, WARP_SIZE - 1);
    (before + (kept & block.lanemask_lt()).count_ones(), total)
}
