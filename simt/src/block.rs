//! What a thread of a block sees: its place in the block, barriers, warp collectives and memory.
//!
//! A kernel is a function generic over [`Block`]. `nvptx` implements the trait with NVIDIA's instructions, so that the
//! kernel becomes PTX; `executor` implements it on the CPU and checks every access. Names follow CUDA and `cuda_std`.
//!
//! # Launch conventions
//! - Grids are one-dimensional (`grid_dim_x`), blocks have one or two dimensions. `x * y` is a multiple of 32 and at most
//!   1024, so every warp is full. Thread, warp and warp lane follow from `y * block_dim_x + x`.
//! - Shared memory is one dynamic array per block, from byte 0, 16-byte aligned, *not* cleared.
//!   [`SharedLayout`](crate::SharedLayout) cuts it into [`Shared`] arrays; the host computes the size to launch with from
//!   the same layout.
//! - Kernels take their views, and `repr(C)` structs of views, by value: host and device share the type of every argument.
//! - Everything is inlined. A kernel may take switches by value; an entry point passes a constant, and the switches fold
//!   away.

use crate::memory::{Global, GlobalMut, NonEmpty, Plain, Scalar, Shared};

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// Blocks to launch for `warps` warps of work in blocks of `threads` threads; at least 1.
pub const fn blocks_of_warps(warps: u32, threads: u32) -> u32 {
    let blocks = warps.div_ceil(threads / WARP_SIZE);
    if blocks == 0 { 1 } else { blocks }
}

/// The mask of a whole warp.
pub const FULL_MASK: u32 = u32::MAX;

/// What a thread of a block can see and do.
///
/// **Collectives** (`*_sync`): the caller is in `mask`, and all warp lanes of `mask` must call the same collective, at the
/// same place in the source, with the same mask. A mask comes from a ballot in converged code or is [`FULL_MASK`].
///
/// **Memory order**: [`sync_threads`](Self::sync_threads) orders shared and global memory among the threads of the block,
/// [`sync_warp`](Self::sync_warp) among the warp lanes of its mask. Nothing else does, not even shuffles and votes.
/// Atomics are relaxed. Blocks of one launch may share an element only through atomics, and an atomic orders nothing else.
///
/// **Waiting for another block**: a block may wait only for a block that has already begun. A ticket taken by an atomic
/// proves that; a block number does not. Wait in a loop of [`atomic_load`](Self::atomic_load) and [`pause`](Self::pause).
///
/// Methods record the caller's source location; the executor reports it with every violation.
pub trait Block {
    /// Thread number in x.
    fn thread_idx_x(&self) -> u32;
    /// Thread number in y.
    fn thread_idx_y(&self) -> u32;
    /// Threads of the block in x.
    fn block_dim_x(&self) -> u32;
    /// Threads of the block in y.
    fn block_dim_y(&self) -> u32;
    /// Block number.
    fn block_idx_x(&self) -> u32;
    /// Blocks of the grid.
    fn grid_dim_x(&self) -> u32;
    /// Lane of the warp, 0…31: the thread's place in its warp.
    fn lane_id(&self) -> u32;
    /// Mask of the warp lanes below the caller's.
    fn lanemask_lt(&self) -> u32;

    /// Number of the thread in the block, x fastest.
    #[inline(always)]
    fn thread(&self) -> u32 {
        self.thread_idx_y() * self.block_dim_x() + self.thread_idx_x()
    }

    /// Threads of the block.
    #[inline(always)]
    fn threads(&self) -> u32 {
        self.block_dim_x() * self.block_dim_y()
    }

    /// Number of the warp in the block.
    #[inline(always)]
    fn warp_id(&self) -> u32 {
        self.thread() / WARP_SIZE
    }

    /// Warps of the block.
    #[inline(always)]
    fn warps(&self) -> u32 {
        self.threads() / WARP_SIZE
    }

    /// Waits until all threads of the block are here.
    #[track_caller]
    fn sync_threads(&self);
    /// Waits until all warp lanes of `mask` are here.
    #[track_caller]
    fn sync_warp(&self, mask: u32);
    /// Mask of the warp lanes of `mask` whose predicate holds.
    #[track_caller]
    fn ballot_sync(&self, mask: u32, predicate: bool) -> u32;
    /// The value of the warp lane `delta` below, whatever `delta` is; below lane 0 the caller's own.
    #[track_caller]
    fn shuffle_up_sync(&self, mask: u32, value: u32, delta: u32) -> u32;
    /// The value of the warp lane `delta` above, whatever `delta` is; above lane 31 the caller's own.
    #[track_caller]
    fn shuffle_down_sync(&self, mask: u32, value: u32, delta: u32) -> u32;
    /// The value of warp lane `lane` (0…31).
    #[track_caller]
    fn shuffle_idx_sync(&self, mask: u32, value: u32, lane: u32) -> u32;
    /// The value of the warp lane whose number is the caller's with the bits of `lane_mask` (0…31) flipped.
    #[track_caller]
    fn shuffle_xor_sync(&self, mask: u32, value: u32, lane_mask: u32) -> u32;
    /// Mask of the warp lanes of `mask` that have the caller's value.
    #[track_caller]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32;
    /// The sum of the values of all warp lanes of `mask`, modulo 2³².
    #[track_caller]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32;
    /// Mask of the warp lanes that happen to be converged. Results must not depend on it, only speed may.
    #[track_caller]
    fn active_mask(&self) -> u32;

    /// Element `i` of read-only global memory.
    #[track_caller]
    fn load<T: Plain>(&self, view: Global<'_, T>, i: u32) -> T;
    /// Element `i` of read-only global memory that has one at least.
    #[track_caller]
    fn load_within<T: Plain>(&self, view: NonEmpty<'_, T>, i: u32) -> T;
    /// The value that begins at byte `at` of read-only global memory, little-endian, aligned or not.
    #[track_caller]
    fn load_bytes<T: Scalar>(&self, view: Global<'_, u8>, at: u32) -> T;
    /// Element `i` of global memory that the launch writes.
    #[track_caller]
    fn load_mut<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32) -> T;
    /// Writes element `i`.
    #[track_caller]
    fn store<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32, value: T);
    /// Adds to element `i`, modulo 2³²; gives what was there.
    #[track_caller]
    fn atomic_add(&self, view: GlobalMut<'_, u32>, i: u32, value: u32) -> u32;
    /// Sets bits of element `i`; gives what was there.
    #[track_caller]
    fn atomic_or(&self, view: GlobalMut<'_, u32>, i: u32, value: u32) -> u32;

    /// Element `i`, which other blocks may change at the same time.
    #[track_caller]
    fn atomic_load(&self, view: GlobalMut<'_, u32>, i: u32) -> u32;
    /// Writes element `i`, which other blocks may read at the same time.
    #[track_caller]
    fn atomic_store(&self, view: GlobalMut<'_, u32>, i: u32, value: u32);
    /// Yields to other warps: the caller waits for something that another block provides.
    #[track_caller]
    fn pause(&self);

    /// Element `i` of shared memory.
    #[track_caller]
    fn shared_load<T: Scalar>(&self, array: Shared<T>, i: u32) -> T;
    /// Writes element `i` of shared memory.
    #[track_caller]
    fn shared_store<T: Scalar>(&self, array: Shared<T>, i: u32, value: T);
    /// Adds to element `i` of shared memory, modulo 2³²; gives what was there.
    #[track_caller]
    fn shared_atomic_add(&self, array: Shared<u32>, i: u32, value: u32) -> u32;
    /// Lowers element `i` of shared memory to `value`, if that is smaller; gives what was there.
    #[track_caller]
    fn shared_atomic_min(&self, array: Shared<u32>, i: u32, value: u32) -> u32;
    /// Sets bits of element `i` of shared memory; gives what was there.
    #[track_caller]
    fn shared_atomic_or(&self, array: Shared<u32>, i: u32, value: u32) -> u32;
}
