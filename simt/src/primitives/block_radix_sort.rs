//! Radix sort of keys in shared memory by the threads of a block, least digit first, four bits a
//! pass; stable.
//!
//! ```text
//! keys        31 24 11 20 14      by the low digit (base 10, say)     20 31 11 24 14
//!                                 by the high one                     11 14 20 24 31
//! ```
//!
//! A warp counts and moves the keys of its own stretch, 32 at a time. Each digit and warp has a
//! counter, digits first, whose exclusive sum is the place of the warp's first key with this digit.
//!
//! ```
//! use simt::primitives::block_radix_sort::{SortBuffers, block_radix_sort};
//! use simt::{Block, Global, GlobalMut, SharedLayout};
//!
//! /// The order of up to 1000 keys by their low 16 bits.
//! fn order<B: Block>(block: &B, keys: Global<'_, u32>, order: GlobalMut<'_, u32>) {
//!     let mut layout = SharedLayout::new();
//!     let buffers = SortBuffers::new(&mut layout, 1000, block.warps());
//!     let mut i = block.thread();
//!     while i < keys.len() {
//!         block.shared_store(buffers.keys, i, block.load(keys, i));
//!         block.shared_store(buffers.values, i, i);
//!         i += block.threads();
//!     }
//!     let (_, sorted) = block_radix_sort(block, &buffers, keys.len(), 0..16);
//!     let mut place = block.thread();
//!     while place < keys.len() {
//!         block.store(order, place, block.shared_load(sorted, place));
//!         place += block.threads();
//!     }
//! }
//! ```
//!
//! Cost of a pass: five barriers, a block scan, and per 32 keys two matches, two shuffles, two
//! atomics a digit.

use core::ops::Range;

use super::block_scan::block_exclusive;
use super::warp_aggregated_atomics::increment;
use crate::{Block, FULL_MASK, Shared, SharedLayout, WARP_SIZE};

const DIGITS: u32 = 16;

/// Shared memory of a sort: keys and values, twice, and counters.
#[derive(Clone, Copy, Debug)]
pub struct SortBuffers {
    /// Keys to sort by.
    pub keys: Shared<u32>,
    /// Values that move with the keys.
    pub values: Shared<u32>,
    others: (Shared<u32>, Shared<u32>),
    counters: Shared<u32>,
    warp_totals: Shared<u32>,
}

impl SortBuffers {
    /// Makes buffers for up to `len` keys and a block of `warps` warps.
    #[inline(always)]
    #[cfg_attr(feature = "executor", track_caller)]
    pub const fn new(layout: &mut SharedLayout, len: u32, warps: u32) -> Self {
        Self {
            keys: layout.array(len),
            values: layout.array(len),
            others: (layout.array(len), layout.array(len)),
            counters: layout.array(DIGITS * warps),
            warp_totals: layout.array(WARP_SIZE),
        }
    }
}

/// Sorts the first `len` keys by `bits` of them, lowest first; returns the arrays that then hold
/// keys and values. All threads call, with the same arguments, and may read the result at once.
#[inline(always)]
pub fn block_radix_sort<B: Block>(
    block: &B,
    buffers: &SortBuffers,
    len: u32,
    bits: Range<u32>,
) -> (Shared<u32>, Shared<u32>) {
    let SortBuffers {
        keys,
        values,
        others,
        counters,
        warp_totals,
    } = *buffers;
    let (mut from, mut to) = ((keys, values), others);
    // (A whole number of warps.)
    let stretch = len.div_ceil(block.threads()).saturating_mul(WARP_SIZE);
    let first = block.warp_id().saturating_mul(stretch);
    let end = first.saturating_add(stretch).min(len);
    let mut shift = bits.start;
    while shift < bits.end {
        let mask = (1 << (bits.end - shift).min(4)) - 1;
        let counter = |key: u32| ((key >> shift) & mask) * block.warps() + block.warp_id();
        if block.thread() < DIGITS * block.warps() {
            block.shared_store(counters, block.thread(), 0);
        }
        // The counters are 0, and the keys where they were put.
        block.sync_threads();
        let mut at = first;
        while at < end {
            let i = at + block.lane_id();
            let here = block.ballot_sync(FULL_MASK, i < end);
            if i < end {
                increment(block, here, counters, counter(block.shared_load(from.0, i)));
            }
            at += WARP_SIZE;
        }
        // All keys are counted.
        block.sync_threads();
        let is_counter = block.thread() < DIGITS * block.warps();
        let count = if is_counter {
            block.shared_load(counters, block.thread())
        } else {
            0
        };
        let (place, _) = block_exclusive(block, warp_totals, count);
        if is_counter {
            block.shared_store(counters, block.thread(), place);
        }
        // All first places are there.
        block.sync_threads();
        let mut at = first;
        while at < end {
            let i = at + block.lane_id();
            let here = block.ballot_sync(FULL_MASK, i < end);
            if i < end {
                let key = block.shared_load(from.0, i);
                let place = increment(block, here, counters, counter(key));
                block.shared_store(to.0, place, key);
                block.shared_store(to.1, place, block.shared_load(from.1, i));
            }
            at += WARP_SIZE;
        }
        // All keys have moved.
        block.sync_threads();
        (from, to) = (to, from);
        shift += 4;
    }
    from
}
