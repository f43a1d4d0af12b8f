//! A thread's view of its block: its place in the block, barriers, warp collectives and memory.
//!
//! A kernel is a function generic over [`Block`]. `nvptx` implements the trait with NVIDIA's
//! instructions, so that the kernel becomes PTX; `executor` implements it on the CPU and checks
//! every access. Names follow CUDA and `cuda_std`.
//!
//! # Launch conventions
//! - Grids and blocks have one or two dimensions. A block's `x * y` is a multiple of 32 and at most
//!   1024, so every warp is full. Thread, warp and warp lane follow from `y * block_dim_x + x`.
//! - Shared memory is one dynamic array per block, from byte 0, 16-byte aligned, *not* cleared.
//!   [`SharedLayout`](crate::SharedLayout) cuts it into [`Shared`] arrays; the host computes the
//!   launch's size from it.
//! - Kernels take their views, and `repr(C)` structs of views, by value: host and device share
//!   every argument's type.
//! - Everything is inlined. Switches that a kernel takes by value fold away where an entry point
//!   passes constants.

use crate::atomics::{AtomicScalar, Update};
use crate::memory::{Global, GlobalMut, NonEmpty, Plain, Scalar, Shared};

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// Blocks to launch for `warps` warps of work in blocks of `threads` threads; at least 1.
pub const fn blocks_of_warps(warps: u32, threads: u32) -> u32 {
    let blocks = warps.div_ceil(threads / WARP_SIZE);
    if blocks == 0 { 1 } else { blocks }
}

/// Mask of a whole warp.
pub const FULL_MASK: u32 = u32::MAX;

/// A shuffle: which warp lane's value the caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// Lane that many below; below lane 0 the caller's own.
    Up(u32),
    /// Lane that many above; above lane 31 the caller's own.
    Down(u32),
    /// Lane with this number, modulo 32.
    Index(u32),
    /// Lane whose number is the caller's with these bits (0…31) flipped.
    Xor(u32),
}

/// Operations of a thread of a block. Methods record the caller's place in the source for the
/// executor's messages.
///
/// **Collectives** (`*_sync`): the caller is in `mask`, and all warp lanes of `mask` must call the
/// same collective, at the same place in the source, with the same mask. A mask comes from a ballot
/// in converged code or is [`FULL_MASK`].
///
/// **Memory order**: [`sync_threads`](Self::sync_threads) orders shared and global memory among the
/// threads of the block, [`sync_warp`](Self::sync_warp) among the warp lanes of its mask. Nothing
/// else does, not even shuffles and votes. Blocks of one launch share an element through atomics,
/// which are relaxed and order nothing else; or one block hands it to another: a thread's accesses
/// before an [`atomic_store_release`](Self::atomic_store_release), and all that they are ordered
/// after, are ordered before the accesses after the
/// [`atomic_load_acquire`](Self::atomic_load_acquire) that reads the stored value, or one that
/// atomics made of it. Relaxed atomics do the same with a [`fence`](Self::fence) before the store
/// and one after the load. Barriers pass on to the block what one of its threads has acquired. A
/// relaxed load may give an older value than another block has stored: the executor does that on
/// purpose.
///
/// **Waiting for another block**: a block may wait only for a block that has already begun. A
/// ticket taken by an atomic proves that; a block number does not. Wait in a loop of
/// [`atomic_load`](Self::atomic_load) and [`pause`](Self::pause).
pub trait Block {
    /// Returns the thread's number in x.
    fn thread_idx_x(&self) -> u32;

    /// Returns the thread's number in y.
    fn thread_idx_y(&self) -> u32;

    /// Returns the number of threads of the block in x.
    fn block_dim_x(&self) -> u32;

    /// Returns the number of threads of the block in y.
    fn block_dim_y(&self) -> u32;

    /// Returns the block's number in x.
    fn block_idx_x(&self) -> u32;

    /// Returns the block's number in y.
    fn block_idx_y(&self) -> u32;

    /// Returns the number of blocks of the grid in x.
    fn grid_dim_x(&self) -> u32;

    /// Returns the number of blocks of the grid in y.
    fn grid_dim_y(&self) -> u32;

    /// Returns the thread's lane of its warp, 0…31.
    fn lane_id(&self) -> u32;

    /// Returns the mask of the warp lanes below the caller's.
    fn lanemask_lt(&self) -> u32;

    /// Returns the thread's number in the block, x fastest.
    #[inline(always)]
    fn thread(&self) -> u32 {
        self.thread_idx_y() * self.block_dim_x() + self.thread_idx_x()
    }

    /// Returns the number of threads of the block, a multiple of 32.
    #[inline(always)]
    fn threads(&self) -> u32 {
        self.block_dim_x() * self.block_dim_y()
    }

    /// Returns the number of the thread's warp in the block.
    #[inline(always)]
    fn warp_id(&self) -> u32 {
        self.thread() / WARP_SIZE
    }

    /// Returns the number of warps of the block.
    #[inline(always)]
    fn warps(&self) -> u32 {
        self.threads() / WARP_SIZE
    }

    /// Waits for all threads of the block, and orders their accesses to shared and global memory.
    #[track_caller]
    fn sync_threads(&self);

    /// Waits for all warp lanes of `mask`, and orders their accesses to shared and global memory.
    #[track_caller]
    fn sync_warp(&self, mask: u32);

    /// Returns the mask of the warp lanes of `mask` whose predicate holds.
    ///
    /// ```
    /// use simt::{Block, FULL_MASK};
    ///
    /// /// Place of the lane among those that keep something.
    /// fn place<B: Block>(block: &B, keeps: bool) -> u32 {
    ///     (block.ballot_sync(FULL_MASK, keeps) & block.lanemask_lt()).count_ones()
    /// }
    /// ```
    #[track_caller]
    fn ballot_sync(&self, mask: u32, predicate: bool) -> u32;

    /// Returns the bits of another warp lane's value.
    #[track_caller]
    fn shuffle_bits(&self, mask: u32, value: u32, shuffle: Shuffle) -> u32;

    /// Returns another warp lane's value; one of 8 bytes moves in two halves.
    #[track_caller]
    #[inline(always)]
    fn shuffle_sync<T: Scalar>(&self, mask: u32, value: T, shuffle: Shuffle) -> T {
        let low = u64::from(self.shuffle_bits(mask, value.to_word(), shuffle));
        let high = if size_of::<T>() > 4 {
            self.shuffle_bits(mask, (value.to_bits() >> 32) as u32, shuffle)
        } else {
            0
        };
        T::from_bits(u64::from(high) << 32 | low)
    }

    /// Returns the value of the warp lane `delta` below, for any `delta`; below lane 0 the caller's
    /// own.
    #[track_caller]
    #[inline(always)]
    fn shuffle_up_sync<T: Scalar>(&self, mask: u32, value: T, delta: u32) -> T {
        self.shuffle_sync(mask, value, Shuffle::Up(delta))
    }

    /// Returns the value of the warp lane `delta` above, for any `delta`; above lane 31 the
    /// caller's own.
    #[track_caller]
    #[inline(always)]
    fn shuffle_down_sync<T: Scalar>(&self, mask: u32, value: T, delta: u32) -> T {
        self.shuffle_sync(mask, value, Shuffle::Down(delta))
    }

    /// Returns the value of warp lane `lane`, modulo 32.
    #[track_caller]
    #[inline(always)]
    fn shuffle_idx_sync<T: Scalar>(&self, mask: u32, value: T, lane: u32) -> T {
        self.shuffle_sync(mask, value, Shuffle::Index(lane))
    }

    /// Returns the value of the warp lane whose number is the caller's with the bits of `lane_mask`
    /// (0…31) flipped.
    #[track_caller]
    #[inline(always)]
    fn shuffle_xor_sync<T: Scalar>(&self, mask: u32, value: T, lane_mask: u32) -> T {
        self.shuffle_sync(mask, value, Shuffle::Xor(lane_mask))
    }

    /// Returns the mask of the warp lanes of `mask` that have the caller's value.
    #[track_caller]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32;

    /// Returns the sum of the values of all warp lanes of `mask`, modulo 2³².
    #[track_caller]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32;

    /// Returns the mask of the warp lanes that happen to be converged. Results must not depend on
    /// it, only speed may.
    #[track_caller]
    fn active_mask(&self) -> u32;

    /// Returns element `i` of read-only global memory.
    #[track_caller]
    fn load<T: Plain>(&self, view: Global<'_, T>, i: u32) -> T;

    /// Returns element `i` of read-only global memory that is not empty.
    #[track_caller]
    fn load_within<T: Plain>(&self, view: NonEmpty<'_, T>, i: u32) -> T;

    /// Returns the value that begins at byte `at` of read-only global memory, little-endian,
    /// aligned or not.
    #[track_caller]
    fn load_bytes<T: Scalar>(&self, view: Global<'_, u8>, at: u32) -> T;

    /// Returns element `i` of global memory that the launch writes.
    #[track_caller]
    fn load_mut<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32) -> T;

    /// Writes element `i` of global memory.
    #[track_caller]
    fn store<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32, value: T);

    /// Changes element `i` of global memory by one atomic, relaxed; returns the value before.
    #[track_caller]
    fn atomic_update<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        update: Update<T>,
    ) -> T;

    /// Adds to element `i` of global memory; integers wrap. Returns the value before, as all
    /// atomics do.
    #[track_caller]
    #[inline(always)]
    fn atomic_add<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T) -> T {
        self.atomic_update(view, i, Update::Add(value))
    }

    /// Lowers element `i` of global memory to `value`, if that is smaller. Returns the value
    /// before.
    #[track_caller]
    #[inline(always)]
    fn atomic_min<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T) -> T {
        self.atomic_update(view, i, Update::Min(value))
    }

    /// Raises element `i` of global memory to `value`, if that is larger. Returns the value before.
    #[track_caller]
    #[inline(always)]
    fn atomic_max<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T) -> T {
        self.atomic_update(view, i, Update::Max(value))
    }

    /// Clears the bits of element `i` of global memory that `value` lacks. Returns the value
    /// before.
    #[track_caller]
    #[inline(always)]
    fn atomic_and<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T) -> T {
        self.atomic_update(view, i, Update::And(value))
    }

    /// Sets the bits of element `i` of global memory that `value` has. Returns the value before.
    #[track_caller]
    #[inline(always)]
    fn atomic_or<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T) -> T {
        self.atomic_update(view, i, Update::Or(value))
    }

    /// Replaces element `i` of global memory. Returns the value before.
    #[track_caller]
    #[inline(always)]
    fn atomic_exch<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T) -> T {
        self.atomic_update(view, i, Update::Exchange(value))
    }

    /// Replaces element `i` of global memory by `new` if it equals `expected` bit for bit. Returns
    /// the value before.
    #[track_caller]
    #[inline(always)]
    fn atomic_cas<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        expected: T,
        new: T,
    ) -> T {
        self.atomic_update(view, i, Update::CompareExchange { expected, new })
    }

    /// Returns element `i`, which other blocks may change meanwhile: relaxed, or with
    /// [acquire](Self::atomic_load_acquire).
    #[track_caller]
    fn atomic_read<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, acquire: bool) -> T;

    /// Writes element `i`, which other blocks may read meanwhile: relaxed, or to
    /// [release](Self::atomic_store_release).
    #[track_caller]
    fn atomic_write<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        value: T,
        release: bool,
    );

    /// Returns element `i`, relaxed: other blocks may change it at the same time.
    #[track_caller]
    #[inline(always)]
    fn atomic_load<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32) -> T {
        self.atomic_read(view, i, false)
    }

    /// Returns element `i`. All that came before the store with release whose value it reads is
    /// ordered before the caller's next accesses.
    #[track_caller]
    #[inline(always)]
    fn atomic_load_acquire<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32) -> T {
        self.atomic_read(view, i, true)
    }

    /// Writes element `i`, relaxed: other blocks may read it at the same time.
    #[track_caller]
    #[inline(always)]
    fn atomic_store<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T) {
        self.atomic_write(view, i, value, false);
    }

    /// Writes element `i`. The caller's earlier accesses are ordered before those that follow an
    /// acquire of this value.
    #[track_caller]
    #[inline(always)]
    fn atomic_store_release<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T) {
        self.atomic_write(view, i, value, true);
    }

    /// Makes the caller's relaxed atomics before it acquire, and those after it release.
    #[track_caller]
    fn fence(&self);

    /// Yields to other warps: the caller waits for something that another block provides.
    #[track_caller]
    fn pause(&self);

    /// Returns element `i` of shared memory, which a thread of the block has written before.
    #[track_caller]
    fn shared_load<T: Plain>(&self, array: Shared<T>, i: u32) -> T;

    /// Writes element `i` of shared memory.
    #[track_caller]
    fn shared_store<T: Plain>(&self, array: Shared<T>, i: u32, value: T);

    /// Changes element `i` of shared memory by one atomic, relaxed; returns the value before.
    #[track_caller]
    fn shared_atomic_update<T: AtomicScalar>(
        &self,
        array: Shared<T>,
        i: u32,
        update: Update<T>,
    ) -> T;

    /// Adds to element `i` of shared memory; integers wrap. Returns the value before, as all
    /// atomics do.
    #[track_caller]
    #[inline(always)]
    fn shared_atomic_add<T: AtomicScalar>(&self, array: Shared<T>, i: u32, value: T) -> T {
        self.shared_atomic_update(array, i, Update::Add(value))
    }

    /// Lowers element `i` of shared memory to `value`, if that is smaller. Returns the value
    /// before.
    #[track_caller]
    #[inline(always)]
    fn shared_atomic_min<T: AtomicScalar>(&self, array: Shared<T>, i: u32, value: T) -> T {
        self.shared_atomic_update(array, i, Update::Min(value))
    }

    /// Raises element `i` of shared memory to `value`, if that is larger. Returns the value before.
    #[track_caller]
    #[inline(always)]
    fn shared_atomic_max<T: AtomicScalar>(&self, array: Shared<T>, i: u32, value: T) -> T {
        self.shared_atomic_update(array, i, Update::Max(value))
    }

    /// Clears the bits of element `i` of shared memory that `value` lacks. Returns the value
    /// before.
    #[track_caller]
    #[inline(always)]
    fn shared_atomic_and<T: AtomicScalar>(&self, array: Shared<T>, i: u32, value: T) -> T {
        self.shared_atomic_update(array, i, Update::And(value))
    }

    /// Sets the bits of element `i` of shared memory that `value` has. Returns the value before.
    #[track_caller]
    #[inline(always)]
    fn shared_atomic_or<T: AtomicScalar>(&self, array: Shared<T>, i: u32, value: T) -> T {
        self.shared_atomic_update(array, i, Update::Or(value))
    }

    /// Replaces element `i` of shared memory. Returns the value before.
    #[track_caller]
    #[inline(always)]
    fn shared_atomic_exch<T: AtomicScalar>(&self, array: Shared<T>, i: u32, value: T) -> T {
        self.shared_atomic_update(array, i, Update::Exchange(value))
    }

    /// Replaces element `i` of shared memory by `new` if it equals `expected` bit for bit. Returns
    /// the value before.
    #[track_caller]
    #[inline(always)]
    fn shared_atomic_cas<T: AtomicScalar>(
        &self,
        array: Shared<T>,
        i: u32,
        expected: T,
        new: T,
    ) -> T {
        self.shared_atomic_update(array, i, Update::CompareExchange { expected, new })
    }
}
