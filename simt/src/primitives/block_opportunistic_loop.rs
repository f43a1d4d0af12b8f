//! Opportunistic loop: the warps of a block share a list and fetch 32 items at a time, whenever
//! they are done.
//!
//! ```text
//! 4 warps, 300 items:     warp 0  0–31   128–159 (first to be done)   …
//!                         warp 1  32–63                    160–191    …
//!                         warp 2  64–95      a long item …            256–287 …
//! counter: 128 at first, +32 a fetch; a warp leaves when its fetch begins at or beyond 300.
//! ```
//!
//! The first 32 items of a warp follow from its number; the counter starts behind them, at the
//! number of threads. One thread sets it, before a barrier in this loop's constructor, without
//! which a fast warp could add too early, and items would be done twice or never. Items are dealt
//! by thread number, x fastest, so any block shape with full warps works; there may be up to 2³² −
//! 2048 items, beyond which the numbers that warps fetch behind the last item would begin again at
//! 0.
//!
//! Cost: a barrier; per fetch an atomic and a shuffle.

use crate::{Block, FULL_MASK, Shared, WARP_SIZE};

/// Loop over a warp's items.
#[derive(Clone, Copy, Debug)]
pub struct ItemLoop {
    next: Option<Shared<u32>>,
    first: u32,
    n_items: u32,
}

impl ItemLoop {
    /// Begins a loop over `n_items` items that warps fetch from `next`, an array of one. All
    /// threads of the block call, after a barrier since the last use of `next`.
    #[inline(always)]
    pub fn opportunistic<B: Block>(block: &B, next: Shared<u32>, n_items: u32) -> Self {
        if block.thread() == 0 {
            block.shared_store(next, 0, block.threads());
        }
        // The counter is set.
        block.sync_threads();
        Self {
            next: Some(next),
            first: block.warp_id() * WARP_SIZE,
            n_items,
        }
    }

    /// Begins a loop over `n_items` items in fixed strides of the block's size.
    #[inline(always)]
    pub fn fixed<B: Block>(block: &B, n_items: u32) -> Self {
        Self {
            next: None,
            first: block.warp_id() * WARP_SIZE,
            n_items,
        }
    }

    /// Returns the thread's next item, to be skipped if it is not below the number of items, or
    /// `None` when the warp is done. The whole warp calls, and gets `None` or `Some` together.
    #[inline(always)]
    pub fn fetch<B: Block>(&mut self, block: &B) -> Option<u32> {
        let first = self.first;
        if first >= self.n_items {
            return None;
        }
        self.first = match self.next {
            Some(next) => {
                let mut fetched = 0;
                if block.lane_id() == 0 {
                    fetched = block.shared_atomic_add(next, 0, WARP_SIZE);
                }
                block.shuffle_idx_sync(FULL_MASK, fetched, 0)
            }
            None => first + block.threads(),
        };
        Some(first + block.lane_id())
    }
}
