//! Exclusive prefix sum over the counters of a batch (events × groups), in two launches.
//!
//! [`PrefixSumTiles`] sums inside tiles of a block's size and notes each tile's total;
//! [`PrefixSumOffsets`] adds the totals of the tiles before. No block waits for another; every
//! block re-adds the few totals before its own (281 at 1000 events of 72 groups and 256 threads),
//! which is cheaper than a third launch.
//!
//! Launch: `tiles(counts.len(), block)` blocks of `scan.block_x` threads, both kernels alike.

use simt::primitives::block_scan::block_exclusive;
use simt::{Block, Global, GlobalMut, Kernel, Launcher, Shape, SharedLayout, WARP_SIZE};

/// Blocks to launch for `n` counters with `block_x` threads a block; at least 1, which writes the
/// total of nothing.
pub const fn tiles(n: u32, block_x: u32) -> u32 {
    if n == 0 { 1 } else { n.div_ceil(block_x) }
}

/// Bytes of shared memory a block needs.
pub const fn prefix_sum_shared_bytes() -> u32 {
    let mut layout = SharedLayout::new();
    layout.array::<u32>(WARP_SIZE);
    layout.bytes()
}

/// First launch: `offsets[i]` = sum of the tile's counts before `i`; `totals[tile]` = sum of the
/// tile.
#[derive(Clone, Copy, Debug)]
pub struct PrefixSumTiles;

impl Kernel for PrefixSumTiles {
    const NAME: &'static str = "prefix_sum_tiles";
    type Arguments<'a> = (Global<'a, u32>, GlobalMut<'a, u32>, GlobalMut<'a, u32>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, &(counts, offsets, totals): &Self::Arguments<'_>) {
        let warp_totals = SharedLayout::new().array(WARP_SIZE);
        let i = block.block_idx_x() * block.threads() + block.thread();
        let count = if i < counts.len() {
            block.load(counts, i)
        } else {
            0
        };
        let (before, total) = block_exclusive(block, warp_totals, count);
        if i < counts.len() {
            block.store(offsets, i, before);
        }
        if block.thread() == 0 {
            block.store(totals, block.block_idx_x(), total);
        }
    }
}

/// Second launch: adds the totals of earlier tiles to `offsets`, and closes it with the sum of
/// everything.
#[derive(Clone, Copy, Debug)]
pub struct PrefixSumOffsets;

impl Kernel for PrefixSumOffsets {
    const NAME: &'static str = "prefix_sum_offsets";
    type Arguments<'a> = (u32, Global<'a, u32>, GlobalMut<'a, u32>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, &(n_counts, totals, offsets): &Self::Arguments<'_>) {
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
            block.store(
                offsets,
                n_counts,
                base.saturating_add(block.load(totals, tile)),
            );
        }
    }
}

/// Launches both: `offsets` becomes the exclusive prefix sum of `counts`. `totals` has an element a
/// tile.
pub fn prefix_sum<L: Launcher>(
    launcher: &mut L,
    shape: Shape,
    counts: &L::Buffer<u32>,
    offsets: &mut L::Buffer<u32>,
    totals: &mut L::Buffer<u32>,
) -> Result<(), L::Error> {
    let counts = launcher.read(counts);
    let arguments = (counts, launcher.write(offsets), launcher.write(totals));
    launcher.launch(PrefixSumTiles, shape, arguments)?;
    let arguments = (counts.len(), launcher.read(totals), launcher.write(offsets));
    launcher.launch(PrefixSumOffsets, shape, arguments)
}
