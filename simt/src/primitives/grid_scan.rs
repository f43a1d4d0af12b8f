//! Prefix sum over all blocks of a launch in one pass, by decoupled look-back.
//!
//! ```text
//! descriptor of a tile:  nothing yet  →  its aggregate  →  its inclusive prefix
//!
//! tile 7 looks at        6: aggregate 3   5: aggregate 8   4: nothing yet …wait…   4: inclusive prefix 42   ⇒  3 + 8 + 42
//! ```
//!
//! Tiles are numbered by ticket, in the order in which blocks begin: a block waits only for blocks
//! that have begun or are done. State and number are one word of 64 bits, so relaxed atomics do.
//! Values that do not fit go beside the word, stored before it with release and read after it with
//! acquire: see [`Block`].
//!
//! ```
//! use simt::primitives::block_scan::block_exclusive;
//! use simt::primitives::grid_scan::GridScan;
//! use simt::{Block, Global, GlobalMut, SharedLayout};
//!
//! /// Exclusive sums of any number of values, one a thread; `descriptors` has 1 + blocks elements, all 0.
//! fn scan<B: Block>(block: &B, values: Global<'_, u32>, sums: GlobalMut<'_, u32>, descriptors: GlobalMut<'_, u64>) {
//!     let mut layout = SharedLayout::new();
//!     let (warps, word) = (layout.array(32), layout.array(2));
//!     let scan = GridScan::begin(block, descriptors, word);
//!     let i = scan.tile() * block.threads() + block.thread();
//!     let (own, total) = block_exclusive(block, warps, if i < values.len() { block.load(values, i) } else { 0 });
//!     let before = scan.exclusive(block, total);
//!     if i < values.len() {
//!         block.store(sums, i, before.saturating_add(own));
//!     }
//! }
//! ```
//!
//! Sums saturate, as in [`warp_scan`](super::warp_scan). Cost of a block: an atomic, a store or
//! two, two barriers; a load, two ballots and a warp scan for each 32 tiles that it looks back
//! over.

use super::warp_scan::warp_inclusive;
use crate::{Block, FULL_MASK, GlobalMut, Shared, WARP_SIZE};

const AGGREGATE: u64 = 1 << 32;
const INCLUSIVE: u64 = 2 << 32;

/// Part of a block in the sum.
#[derive(Clone, Copy, Debug)]
pub struct GridScan<'a> {
    descriptors: GlobalMut<'a, u64>,
    word: Shared<u32>,
    tile: u32,
}

impl<'a> GridScan<'a> {
    /// Takes a tile. All threads of the block call. `descriptors` has an element for each block of
    /// the launch and one more, all 0 before the launch, and `word` two elements that nothing else
    /// uses.
    #[inline(always)]
    pub fn begin<B: Block>(block: &B, descriptors: GlobalMut<'a, u64>, word: Shared<u32>) -> Self {
        if block.thread() == 0 {
            block.shared_store(word, 0, block.atomic_add(descriptors, 0, 1) as u32);
        }
        // The tile is known.
        block.sync_threads();
        Self {
            descriptors,
            word,
            tile: block.shared_load(word, 0),
        }
    }

    /// Number of the block's tile; its values follow those of the tiles below.
    #[inline(always)]
    pub const fn tile(&self) -> u32 {
        self.tile
    }

    /// Sum of the aggregates of all tiles below. All threads of the block call, with the aggregate
    /// of their own tile.
    #[inline(always)]
    pub fn exclusive<B: Block>(&self, block: &B, aggregate: u32) -> u32 {
        if block.warp_id() == 0 {
            let before = self.look_back(block, aggregate);
            if block.lane_id() == 0 {
                block.shared_store(self.word, 1, before);
            }
        }
        // The sum is there.
        block.sync_threads();
        block.shared_load(self.word, 1)
    }

    #[inline(always)]
    fn look_back<B: Block>(&self, block: &B, aggregate: u32) -> u32 {
        let (tile, lane) = (self.tile, block.lane_id());
        let tell = |state: u64, sum: u32| {
            if lane == 0 {
                block.atomic_store(self.descriptors, 1 + tile, state | u64::from(sum));
            }
        };
        // (The first tile has no tiles below.)
        tell(if tile == 0 { INCLUSIVE } else { AGGREGATE }, aggregate);
        let mut before = 0u32;
        let mut end = tile;
        while end > 0 {
            // (Below the first tile there is nothing.)
            let state = if lane < end {
                block.atomic_load(self.descriptors, end - lane)
            } else {
                INCLUSIVE
            };
            let inclusive = block.ballot_sync(FULL_MASK, state & INCLUSIVE != 0);
            // Lanes up to the first with an inclusive prefix.
            let wanted = inclusive ^ inclusive.wrapping_sub(1);
            if block.ballot_sync(FULL_MASK, state == 0) & wanted != 0 {
                block.pause();
                continue;
            }
            let own = if wanted >> lane & 1 == 1 {
                state as u32
            } else {
                0
            };
            let sums = warp_inclusive::<32, B>(block, own);
            before = before.saturating_add(block.shuffle_idx_sync(FULL_MASK, sums, WARP_SIZE - 1));
            if inclusive != 0 {
                break;
            }
            end -= WARP_SIZE;
        }
        if tile > 0 {
            tell(INCLUSIVE, before.saturating_add(aggregate));
        }
        before
    }
}
