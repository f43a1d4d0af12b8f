//! Reduction over the threads of a warp or a block, for any operation whose order does not matter.
//!
//! ```text
//! warp of 8 lanes      3  1  7  0  4  1  6  3
//! distance 4           7  2 13  3  …             each lane with the one 4 further on (of the lanes that have one)
//! distance 2          20  5  …
//! distance 1          25  …                      lane 0 tells the others: 25 for all
//! ```
//!
//! ```
//! use simt::primitives::block_reduce::block_reduce;
//! use simt::{Block, Global, GlobalMut, SharedLayout};
//!
//! /// The largest of a block's values, one a thread.
//! fn largest<B: Block>(block: &B, values: Global<'_, f32>, largest: GlobalMut<'_, f32>) {
//!     let warps = SharedLayout::new().array(32);
//!     let i = block.block_idx_x() * block.threads() + block.thread();
//!     let own = if i < values.len() { block.load(values, i) } else { f32::NEG_INFINITY };
//!     let all = block_reduce(block, warps, own, f32::NEG_INFINITY, simt::math::max);
//!     if block.thread() == 0 {
//!         block.store(largest, block.block_idx_x(), all);
//!     }
//! }
//! ```
//!
//! Sums of floats come out the same in every schedule and on the device: the tree is always this
//! one. Cost of a block: two warp reductions of 5 shuffles and a shuffle (twice as many for 8
//! bytes), one barrier.

use crate::{Block, FULL_MASK, Scalar, Shared, WARP_SIZE};

/// Combines the values of the warp, for every lane. The whole warp calls.
#[inline(always)]
pub fn warp_reduce<T: Scalar, B: Block>(block: &B, value: T, operation: impl Fn(T, T) -> T) -> T {
    let mut sum = value;
    let mut delta = WARP_SIZE / 2;
    while delta > 0 {
        // (Lanes beyond the last that counts get a value that no lane reads.)
        sum = operation(sum, block.shuffle_down_sync(FULL_MASK, sum, delta));
        delta /= 2;
    }
    block.shuffle_idx_sync(FULL_MASK, sum, 0)
}

/// Combines the values of the block, for every thread. `neutral` leaves any value as it is. All
/// threads call, with a barrier between two calls with the same `warps`, which has an element a
/// warp.
#[inline(always)]
pub fn block_reduce<T: Scalar, B: Block>(
    block: &B,
    warps: Shared<T>,
    value: T,
    neutral: T,
    operation: impl Fn(T, T) -> T + Copy,
) -> T {
    let sum = warp_reduce(block, value, operation);
    if block.lane_id() == 0 {
        block.shared_store(warps, block.warp_id(), sum);
    }
    // The results of all warps are there.
    block.sync_threads();
    let other = if block.lane_id() < block.warps() {
        block.shared_load(warps, block.lane_id())
    } else {
        neutral
    };
    warp_reduce(block, other, operation)
}
