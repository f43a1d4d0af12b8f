//! Prefix sums over 8, 16 or 32 lanes of a warp, over a block, and over the elements of an array in global memory.
//!
//! All sums saturate at 2³² − 1, which keeps them associative: a total that does not fit shows as that number and can be
//! refused, and never wraps to something that looks right.
//!
//! ```text
//! lane                 0  1  2  3  4  5  6  7 │ 8  9 …
//! value                3  1  0  2  1  1  0  4 │ 5  1 …
//! inclusive, WIDTH 8   3  4  4  6  7  8  8 12 │ 5  6 …
//! exclusive, WIDTH 8   0  3  4  4  6  7  8  8 │ 0  5 …
//! ```
//!
//! Cost: a warp of width 8, 16, 32 takes 3, 4, 5 shuffles (exclusive one more). A block takes two of them, one barrier,
//! and a shared store and a shared load a warp and a thread.

use crate::block::{Block, FULL_MASK, Shared, WARP_SIZE};

/// Inclusive sum over the aligned segment of `WIDTH` lanes (8, 16 or 32) that the lane is in. All lanes call.
#[inline(always)]
pub fn warp_inclusive<const WIDTH: u32, B: Block>(block: &B, value: u32) -> u32 {
    const { assert!(WIDTH.is_power_of_two() && WIDTH <= WARP_SIZE) };
    let place = block.lane_id() % WIDTH;
    let mut sum = value;
    let mut delta = 1;
    while delta < WIDTH {
        let below = block.shuffle_up_sync(FULL_MASK, sum, delta);
        if place >= delta {
            sum = sum.saturating_add(below);
        }
        delta *= 2;
    }
    sum
}

/// Exclusive sum over the aligned segment of `WIDTH` lanes that the lane is in. All lanes call.
#[inline(always)]
pub fn warp_exclusive<const WIDTH: u32, B: Block>(block: &B, value: u32) -> u32 {
    let inclusive = warp_inclusive::<WIDTH, B>(block, value);
    let below = block.shuffle_up_sync(FULL_MASK, inclusive, 1);
    if block.lane_id().is_multiple_of(WIDTH) { 0 } else { below }
}

/// Exclusive sum over the threads of a block, and the total. All threads call; `warp_totals` has an element a warp.
///
/// Between two calls with the same `warp_totals` there must be a barrier, besides the one inside.
#[inline(always)]
pub fn block_exclusive<B: Block>(block: &B, warp_totals: Shared<u32>, value: u32) -> (u32, u32) {
    let inclusive = warp_inclusive::<32, B>(block, value);
    let exclusive = block.shuffle_up_sync(FULL_MASK, inclusive, 1);
    let exclusive = if block.lane_id() == 0 { 0 } else { exclusive };
    if block.lane_id() == WARP_SIZE - 1 {
        block.shared_store(warp_totals, block.warp_id(), inclusive);
    }
    // The totals of all warps must be there before any is read.
    block.sync_threads();
    // Each warp sums the totals itself (at most 32): no second barrier.
    let total = if block.lane_id() < block.warps() { block.shared_load(warp_totals, block.lane_id()) } else { 0 };
    let up_to = warp_inclusive::<32, B>(block, total);
    let before = block.shuffle_idx_sync(FULL_MASK, up_to, block.warp_id().wrapping_sub(1) % WARP_SIZE);
    let before = if block.warp_id() == 0 { 0 } else { before };
    let sum = block.shuffle_idx_sync(FULL_MASK, up_to, WARP_SIZE - 1);
    (before.saturating_add(exclusive), sum)
}
