//! Prefix sum over the threads of a block. Sums saturate, as in [`warp_scan`](super::warp_scan).
//!
//! Cost: two warp scans, three more shuffles, one barrier, and per warp a shared store, per thread
//! a shared load.

use super::warp_scan::warp_inclusive;
use crate::{Block, FULL_MASK, Shared, WARP_SIZE};

/// Exclusive sum over the threads of a block, and the total. All threads call, with a barrier
/// between two calls with the same `warp_totals`, which has an element a warp.
#[inline(always)]
pub fn block_exclusive<B: Block>(block: &B, warp_totals: Shared<u32>, value: u32) -> (u32, u32) {
    let inclusive = warp_inclusive::<32, B>(block, value);
    let exclusive = block.shuffle_up_sync(FULL_MASK, inclusive, 1);
    let exclusive = if block.lane_id() == 0 { 0 } else { exclusive };
    if block.lane_id() == WARP_SIZE - 1 {
        block.shared_store(warp_totals, block.warp_id(), inclusive);
    }
    // The totals of all warps are there.
    block.sync_threads();
    // Each warp sums the totals itself (at most 32): no second barrier.
    let total = if block.lane_id() < block.warps() {
        block.shared_load(warp_totals, block.lane_id())
    } else {
        0
    };
    let up_to = warp_inclusive::<32, B>(block, total);
    let before = block.shuffle_idx_sync(
        FULL_MASK,
        up_to,
        block.warp_id().wrapping_sub(1) % WARP_SIZE,
    );
    let before = if block.warp_id() == 0 { 0 } else { before };
    let sum = block.shuffle_idx_sync(FULL_MASK, up_to, WARP_SIZE - 1);
    (before.saturating_add(exclusive), sum)
}
