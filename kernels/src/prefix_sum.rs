//! Exclusive prefix sum over the counters of a batch (events × groups), in two launches.
//!
//! [`prefix_sum_tiles`] sums inside tiles of one block's size and notes each tile's total; [`prefix_sum_offsets`] adds up
//! the totals of the tiles before and puts them on top. No block waits for another, so nothing is asked of the
//! scheduler's fairness; every block re-adds the few totals before its own (281 at 1000 events of 72 groups and 256
//! threads), which is cheaper than a third launch.
//!
//! Launch: `tiles(counts.len(), block)` blocks of `scan.block_x` threads, both kernels alike.

use simt::primitives::block_scan::block_exclusive;
use simt::{Block, Global, GlobalMut, SharedLayout, WARP_SIZE};

/// Blocks to launch for `n` counters with `block_x` threads a block; at least 1, which writes the total of nothing.
pub const fn tiles(n: u32, block_x: u32) -> u32 {
    if n == 0 { 1 } else { n.div_ceil(block_x) }
}

/// Bytes of shared memory a block needs.
pub const fn prefix_sum_shared_bytes() -> u32 {
    let mut layout = SharedLayout::new();
    layout.array::<u32>(WARP_SIZE);
    layout.bytes()
}

/// First launch: `offsets[i]` = sum of the counts of the tile before `i`; `totals[tile]` = sum of the tile.
///
/// `offsets` has an element more than `counts`, `totals` one a tile.
#[inline(always)]
pub fn prefix_sum_tiles<B: Block>(
    block: &B,
    counts: Global<'_, u32>,
    offsets: GlobalMut<'_, u32>,
    totals: GlobalMut<'_, u32>,
) {
    let warp_totals = SharedLayout::new().array(WARP_SIZE);
    let i = block.block_idx_x() * block.threads() + block.thread();
    let count = if i < counts.len() { block.load(counts, i) } else { 0 };
    let (before, total) = block_exclusive(block, warp_totals, count);
    if i < counts.len() {
        block.store(offsets, i, before);
    }
    if block.thread() == 0 {
        block.store(totals, block.block_idx_x(), total);
    }
}

/// Second launch: adds the totals of the tiles before to `offsets`, and closes it with the sum of everything.
#[inline(always)]
pub fn prefix_sum_offsets<B: Block>(block: &B, n_counts: u32, totals: Global<'_, u32>, offsets: GlobalMut<'_, u32>) {
    let warp_totals = SharedLayout::new().array(WARP_SIZE);
    let tile = block.block_idx_x();
    let mut sum = 0u32;
    let mut other = block.thread();
    while other < tile {
        sum = sum.saturating_add(block.load(totals, other));
        other += block.threads();
    }
    let (_, base) = block_exclusive(block, warp_totals, sum);
    let i = tile * block.threads() + block.thread();
    if i < n_counts {
        let inside = block.load_mut(offsets, i);
        block.store(offsets, i, base.saturating_add(inside));
    }
    if tile + 1 == block.grid_dim_x() && block.thread() == 0 {
        block.store(offsets, n_counts, base.saturating_add(block.load(totals, tile)));
    }
}
