//! Warp-aggregated atomics: the threads of a warp that hit the same counter share one atomic.
//!
//! The warp lanes of `mask` with the same counter form a *peer set* (match-any). The lowest lane of
//! the set, its leader, adds for all; the others get the value before by a shuffle.
//!
//! ```text
//! warp lane        0   1   2   3   4        counters before: [10] = 5, [11] = 0
//! counter         10  11  10   –  10        (lane 3 is not in the mask)
//! increment gives  5   0   6   –   7        counters after:  [10] = 8, [11] = 1
//!
//! amount           4   1   2   –   1
//! add                                       counters after:  [10] = 12, [11] = 1
//! ```
//!
//! `mask` must come from a ballot in converged code (see [`Block`]), and exactly its warp lanes
//! call. Any mask works, also of a single lane. The code is uniform over the mask: all peer sets go
//! through the same collectives together.
//!
//! Cost for a mask, whatever the number of sets: increment 1 match, 1 shuffle, an atomic a set; add
//! 1 match, a reduction and an atomic a set; append 1 shuffle and 1 atomic.

use crate::{Block, GlobalMut, Shared};

/// Counters in shared or global memory.
pub trait Counters<B: Block>: Copy {
    /// Adds `amount` to counter `i` and returns the value before.
    fn fetch_add(self, block: &B, i: u32, amount: u32) -> u32;
}

impl<B: Block> Counters<B> for Shared<u32> {
    #[inline(always)]
    #[track_caller]
    fn fetch_add(self, block: &B, i: u32, amount: u32) -> u32 {
        block.shared_atomic_add(self, i, amount)
    }
}

impl<B: Block> Counters<B> for GlobalMut<'_, u32> {
    #[inline(always)]
    #[track_caller]
    fn fetch_add(self, block: &B, i: u32, amount: u32) -> u32 {
        block.atomic_add(self, i, amount)
    }
}

/// Adds 1 to counter `i` for every warp lane of `mask`; returns the value before, as if each lane
/// had added alone.
#[inline(always)]
pub fn increment<B: Block, C: Counters<B>>(block: &B, mask: u32, counters: C, i: u32) -> u32 {
    let peers = block.match_any_sync(mask, i);
    let rank = (peers & block.lanemask_lt()).count_ones();
    let mut base = 0;
    if rank == 0 {
        base = counters.fetch_add(block, i, peers.count_ones());
    }
    block.shuffle_idx_sync(mask, base, peers.trailing_zeros()) + rank
}

/// Adds `amount` to counter `i` for every warp lane of `mask`.
#[inline(always)]
pub fn add<B: Block, C: Counters<B>>(block: &B, mask: u32, counters: C, i: u32, amount: u32) {
    let peers = block.match_any_sync(mask, i);
    let sum = block.redux_add_sync(peers, amount);
    if peers & block.lanemask_lt() == 0 {
        counters.fetch_add(block, i, sum);
    }
}

/// Takes a place at the end of a list for every warp lane of `mask`, with the list's length in
/// counter `i`, the same for all. The places of one call are consecutive and rise with the warp
/// lane.
#[inline(always)]
pub fn append<B: Block, C: Counters<B>>(block: &B, mask: u32, counters: C, i: u32) -> u32 {
    let rank = (mask & block.lanemask_lt()).count_ones();
    let mut base = 0;
    if rank == 0 {
        base = counters.fetch_add(block, i, mask.count_ones());
    }
    block.shuffle_idx_sync(mask, base, mask.trailing_zeros()) + rank
}
