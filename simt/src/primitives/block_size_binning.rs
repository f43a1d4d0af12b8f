//! Size binning: a counting sort of items into few size classes, the large ones first, the empty
//! ones left out. The lanes of a warp then work on items of about the same size, and the last warps
//! to finish have small ones.
//!
//! ```text
//! 8 bins, sizes       3  0  9  1  8  3        bin = 8 − min(size, 8):  5  –  0  7  0  5
//! counts of bins      2 0 0 0 0 2 0 1         exclusive sums:          0 2 2 2 2 2 4 4
//! places              2  –  0  4  1  3        (any order inside a bin)
//! ```
//!
//! With one bin the items are only listed, without a sort.
//!
//! Cost of [`SizeBins`]: a pass over the items to count, a prefix sum over the bins by one warp (4
//! or 5 shuffles), three barriers, and a pass to place. Each pass: an aggregated (or plain) atomic
//! for each 32 items.

use super::warp_aggregated_atomics;
use super::warp_scan::warp_exclusive;
use crate::{Block, FULL_MASK, Shared};

/// Maximum number of bins.
pub const MAX_BINS: u32 = 16;

/// Bin of an item that is not empty.
#[inline(always)]
pub const fn bin_of(size: u32, bins: u32) -> u32 {
    bins - if size < bins { size } else { bins }
}

/// Size classes of one block's items.
#[derive(Clone, Copy, Debug)]
pub struct SizeBins {
    /// By bin: first the count, then the next place. One more: the number of items that are not
    /// empty.
    counters: Shared<u32>,
    bins: u32,
    aggregate: bool,
}

impl SizeBins {
    /// Number of elements of `counters`.
    pub const COUNTERS: u32 = MAX_BINS + 1;

    /// Makes `bins` (1, 8 or 16) empty bins. All threads of the block call.
    #[inline(always)]
    pub fn new<B: Block>(block: &B, counters: Shared<u32>, bins: u32, aggregate: bool) -> Self {
        if block.thread() < Self::COUNTERS {
            block.shared_store(counters, block.thread(), 0);
        }
        // The counters are 0.
        block.sync_threads();
        Self {
            counters,
            bins,
            aggregate,
        }
    }

    /// Counts one item a thread; items of size 0 are empty. The whole warp calls.
    #[inline(always)]
    pub fn count<B: Block>(&self, block: &B, size: u32) {
        self.increment(block, size);
    }

    /// Ends the counting and returns the number of items that are not empty. All threads of the
    /// block call.
    #[inline(always)]
    pub fn sum<B: Block>(&self, block: &B) -> u32 {
        // All items are counted.
        block.sync_threads();
        if block.warp_id() == 0 {
            let bin = block.lane_id();
            let count = if bin < self.bins {
                block.shared_load(self.counters, bin)
            } else {
                0
            };
            let before = match self.bins {
                1 => 0,
                8 => warp_exclusive::<8, B>(block, count),
                _ => warp_exclusive::<16, B>(block, count),
            };
            if bin < self.bins {
                block.shared_store(self.counters, bin, before);
            }
            if bin + 1 == self.bins {
                block.shared_store(self.counters, MAX_BINS, before + count);
            }
        }
        // All first places are there.
        block.sync_threads();
        block.shared_load(self.counters, MAX_BINS)
    }

    /// Returns the place of the thread's item in the list, or any number if the item is empty. The
    /// whole warp calls.
    #[inline(always)]
    pub fn place<B: Block>(&self, block: &B, size: u32) -> u32 {
        self.increment(block, size)
    }

    #[inline(always)]
    fn increment<B: Block>(&self, block: &B, size: u32) -> u32 {
        let bin = bin_of(size, self.bins);
        if self.aggregate {
            let mask = block.ballot_sync(FULL_MASK, size > 0);
            if size > 0 {
                warp_aggregated_atomics::increment(block, mask, self.counters, bin)
            } else {
                0
            }
        } else if size > 0 {
            block.shared_atomic_add(self.counters, bin, 1)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bin_of;

    #[test]
    fn bins_agree_with_the_released_code() {
        assert_eq!(
            [1, 2, 15, 16, 17, 254].map(|n| bin_of(n, 16)),
            [15, 14, 1, 0, 0, 0]
        );
        assert_eq!([1, 7, 8, 9, 254].map(|n| bin_of(n, 8)), [7, 1, 0, 0, 0]);
        assert_eq!([1, 254].map(|n| bin_of(n, 1)), [0, 0]);
    }
}
