//! A complete crate of kernels, with one kernel: a histogram of bytes.
//!
//! Each block counts in shared memory, where lanes of a warp with the same byte share one atomic,
//! and then adds its counts to the result: one global atomic per block and bin, in place of one per
//! byte.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(clippy::inline_always)] // On the device nothing may stay a call.

use simt::primitives::warp_aggregated_atomics;
use simt::{Block, FULL_MASK, Global, GlobalMut, Shared, SharedLayout, WARP_SIZE};

/// Number of bins of the histogram: one per value of a byte.
pub const BINS: u32 = 256;

const fn layout() -> (Shared<u32>, SharedLayout) {
    let mut layout = SharedLayout::new();
    (layout.array(BINS), layout)
}

/// Returns the number of bytes of shared memory that [`histogram`] needs.
pub const fn shared_bytes() -> u32 {
    layout().1.bytes()
}

/// Adds the number of bytes of each value in `values` to `counts`, which has [`BINS`] elements.
/// Takes any number of blocks of full warps.
#[inline(always)]
pub fn histogram<B: Block>(block: &B, values: Global<'_, u8>, counts: GlobalMut<'_, u32>) {
    let (own, _) = layout();
    let mut bin = block.thread();
    while bin < BINS {
        block.shared_store(own, bin, 0);
        bin += block.threads();
    }
    // No thread may count before all bins are 0.
    block.sync_threads();

    let stride = block.grid_dim_x() * block.threads();
    // The loop has the same number of rounds for all lanes of a warp, so that all reach the ballot.
    let mut first = block.block_idx_x() * block.threads() + block.warp_id() * WARP_SIZE;
    while first < values.len() {
        let i = first + block.lane_id();
        let inside = i < values.len();
        let mask = block.ballot_sync(FULL_MASK, inside);
        if inside {
            let value = block.load(values, i);
            warp_aggregated_atomics::increment(block, mask, own, u32::from(value));
        }
        first += stride;
    }
    // No thread may read a bin before all bytes of the block are counted.
    block.sync_threads();

    let mut bin = block.thread();
    while bin < BINS {
        let count = block.shared_load(own, bin);
        if count > 0 {
            block.atomic_add(counts, bin, count);
        }
        bin += block.threads();
    }
}

#[cfg(target_arch = "nvptx64")]
mod entry {
    use simt::nvptx::Hardware;
    use simt::{Global, GlobalMut};

    simt::declare_shared_memory!();

    #[unsafe(no_mangle)]
    unsafe extern "ptx-kernel" fn histogram(values: Global<'_, u8>, counts: GlobalMut<'_, u32>) {
        // SAFETY: the host launches full warps with `shared_bytes()` and views of device memory
        // (`examples/gpu.rs`); the tests find the kernel free of races and divergent collectives.
        let block = unsafe { Hardware::new() };
        super::histogram(&block, values, counts);
    }
}
