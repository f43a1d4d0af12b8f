//! Merge sort by all threads of a block: of sequences that are too long for a warp, or for shared
//! memory.
//!
//! ```
//! use simt::primitives::block_merge_sort::block_merge_sort;
//! use simt::{Block, Global, GlobalMut};
//!
//! /// The stable order of any number of keys, with one block; `order` and `scratch` are as long as `keys`.
//! fn order<B: Block>(block: &B, keys: Global<'_, u64>, order: GlobalMut<'_, u32>, scratch: GlobalMut<'_, u32>) {
//!     let sorted = block_merge_sort(block, keys.len(), |i| block.load(keys, i), 0, order, scratch);
//!     if sorted.as_ptr() != order.as_ptr() {
//!         let mut i = block.thread();
//!         while i < keys.len() {
//!             block.store(order, i, block.load_mut(sorted, i));
//!             i += block.threads();
//!         }
//!     }
//! }
//! ```
//!
//! The algorithm, and its cost, are those of
//! [`warp_merge_sort`](super::warp_sort::warp_merge_sort), with block barriers.

use super::warp_sort::{Indices, merge_sort};
use crate::Block;

/// Sorts the indices 0 … `len` − 1 by (`key`(index), index), with elements `start .. start + len`
/// of `a` and `b` as scratch; returns the one in which they then are, from `start` on. All threads
/// of the block call, with equal arguments, and may read the result at once.
#[inline(always)]
pub fn block_merge_sort<B: Block, A: Indices<B>>(
    block: &B,
    len: u32,
    key: impl Fn(u32) -> u64,
    start: u32,
    a: A,
    b: A,
) -> A {
    merge_sort::<true, B, A>(block, len, key, start, a, b)
}
