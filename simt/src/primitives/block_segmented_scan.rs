//! Segmented scan: prefix sums over the threads of a block that begin again at each head of a
//! segment.
//!
//! ```text
//! value       3  1  0  2  1  1  0  4
//! head        –  –  x  –  –  x  –  –
//! inclusive   3  4  0  2  3  1  1  5        (threads before the first head are a segment, too)
//! ```
//!
//! ```
//! use simt::primitives::block_segmented_scan::block_segmented_inclusive;
//! use simt::{Block, Global, GlobalMut, SharedLayout};
//!
//! /// The length of the run of equal values up to each element of a block's part.
//! fn runs<B: Block>(block: &B, values: Global<'_, u32>, lengths: GlobalMut<'_, u32>) {
//!     let (warps, i) = (SharedLayout::new().array(32), block.block_idx_x() * block.threads() + block.thread());
//!     let begins = block.thread() == 0 || i >= values.len() || block.load(values, i) != block.load(values, i - 1);
//!     let length = block_segmented_inclusive(block, warps, 1, begins);
//!     if i < values.len() {
//!         block.store(lengths, i, length);
//!     }
//! }
//! ```
//!
//! Sums saturate, as in [`warp_scan`](super::warp_scan). Cost: two ballots, 2 × 5 shuffles and one
//! more, one barrier, and per warp a shared store, per thread a shared load.

use crate::{Block, FULL_MASK, Shared, WARP_SIZE};

/// Inclusive sum since the last head at or below the lane; true if there is a head. The whole warp
/// calls.
#[inline(always)]
pub fn warp_segmented_inclusive<B: Block>(block: &B, value: u32, head: bool) -> (u32, bool) {
    let heads = block.ballot_sync(FULL_MASK, head) & (block.lanemask_lt() | 1 << block.lane_id());
    // Lanes between the last head and this one.
    let reach = block.lane_id()
        - if heads == 0 {
            0
        } else {
            WARP_SIZE - 1 - heads.leading_zeros()
        };
    let mut sum = value;
    let mut delta = 1;
    while delta < WARP_SIZE {
        let below = block.shuffle_up_sync(FULL_MASK, sum, delta);
        if reach >= delta {
            sum = sum.saturating_add(below);
        }
        delta *= 2;
    }
    (sum, heads != 0)
}

/// Inclusive sum over the threads from the last head on. All threads call, with a barrier between
/// two calls with the same `warps`, which has an element a warp.
#[inline(always)]
pub fn block_segmented_inclusive<B: Block>(
    block: &B,
    warps: Shared<u64>,
    value: u32,
    head: bool,
) -> u32 {
    let (sum, has_head) = warp_segmented_inclusive(block, value, head);
    if block.lane_id() == WARP_SIZE - 1 {
        block.shared_store(
            warps,
            block.warp_id(),
            u64::from(sum) << 1 | u64::from(has_head),
        );
    }
    // The last sums of all warps are there.
    block.sync_threads();
    let last = if block.lane_id() < block.warps() {
        block.shared_load(warps, block.lane_id())
    } else {
        0
    };
    let (up_to, _) = warp_segmented_inclusive(block, (last >> 1) as u32, last & 1 == 1);
    let before = block.shuffle_idx_sync(
        FULL_MASK,
        up_to,
        block.warp_id().wrapping_sub(1) % WARP_SIZE,
    );
    if has_head || block.warp_id() == 0 {
        sum
    } else {
        sum.saturating_add(before)
    }
}
