//! Sum over the events: where the hits of each begin, and their number in all.
//!
//! Launch: [`tiles`](crate::allen::prefix_sum::tiles)`(n_events, block)` blocks,
//! [`scan_shared_bytes`] of shared memory.

use simt::primitives::block_scan::block_exclusive;
use simt::primitives::grid_scan::GridScan;
use simt::{Block, Global, GlobalMut, Kernel, SharedLayout, WARP_SIZE};

/// Bytes of shared memory a block needs.
pub const fn scan_shared_bytes() -> u32 {
    let mut layout = SharedLayout::new();
    layout.array::<u32>(WARP_SIZE);
    layout.array::<u32>(2);
    layout.bytes()
}

/// The kernel: `bases[event]` becomes the sum of `n_hits` before the event, the last element the
/// sum of all. `descriptors` has an element per block and one more, all 0 before.
#[derive(Clone, Copy, Debug)]
pub struct Scan;

impl Kernel for Scan {
    const NAME: &'static str = "scan";
    type Arguments<'a> = (Global<'a, u32>, GlobalMut<'a, u32>, GlobalMut<'a, u64>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, &(n_hits, bases, descriptors): &Self::Arguments<'_>) {
        let mut layout = SharedLayout::new();
        let (warp_totals, word) = (layout.array(WARP_SIZE), layout.array(2));
        let scan = GridScan::begin(block, descriptors, word);
        let i = scan.tile() * block.threads() + block.thread();
        let n = if i < n_hits.len() {
            block.load(n_hits, i)
        } else {
            0
        };
        let (inside, total) = block_exclusive(block, warp_totals, n);
        let base = scan.exclusive(block, total).saturating_add(inside);
        if i < n_hits.len() {
            block.store(bases, i, base);
        }
        if i + 1 == n_hits.len() {
            block.store(bases, i + 1, base.saturating_add(n));
        }
    }
}
