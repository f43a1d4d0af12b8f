//! A thread's view of its block: its place in the block, barriers, warp collectives and memory.
//!
//! A kernel is a function generic over [`Block`]. `nvptx` implements the trait with NVIDIA's instructions, so that the
//! kernel becomes PTX; `executor` implements it on the CPU and checks every access. Names follow CUDA and `cuda_std`.
//!
//! # Launch conventions
//! - Grids and blocks have one or two dimensions. A block's `x * y` is a multiple of 32 and at most 1024, so every warp
//!   is full. Thread, warp and warp lane follow from `y * block_dim_x + x`.
//! - Shared memory is one dynamic array per block, from byte 0, 16-byte aligned, *not* cleared.
//!   [`SharedLayout`](crate::SharedLayout) cuts it into [`Shared`] arrays; the host computes the launch's size from it.
//! - Kernels take their views, and `repr(C)` structs of views, by value: host and device share every argument's type.
//! - Everything is inlined. Switches that a kernel takes by value fold away where an entry point passes constants.

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
    /// Lane with this number (0…31).
    Index(u32),
    /// Lane whose number is the caller's with these bits (0…31) flipped.
    Xor(u32),
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident<$bound:ident>($($argument:ident: $t:ty),*) $result:ty => |$own:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        #[inline(always)]
        fn $name<T: $bound>(&self, $($argument: $t),*) -> $result {
            let $own = self;
            $body
        }
    )*};
}

macro_rules! updates {
    ($update:ident($view:ident: $t:ty) $add:ident $min:ident $max:ident $and:ident $or:ident $exch:ident $cas:ident) => {
        methods! {
            /// Adds to element `i`; integers wrap. Like all atomics, returns the value before.
            $add<AtomicScalar>($view: $t, i: u32, value: T) T => |own| own.$update($view, i, Update::Add(value));
            /// Lowers element `i` to `value`, if that is smaller.
            $min<AtomicScalar>($view: $t, i: u32, value: T) T => |own| own.$update($view, i, Update::Min(value));
            /// Raises element `i` to `value`, if that is larger.
            $max<AtomicScalar>($view: $t, i: u32, value: T) T => |own| own.$update($view, i, Update::Max(value));
            /// Clears the bits of element `i` that `value` lacks.
            $and<AtomicScalar>($view: $t, i: u32, value: T) T => |own| own.$update($view, i, Update::And(value));
            /// Sets the bits of element `i` that `value` has.
            $or<AtomicScalar>($view: $t, i: u32, value: T) T => |own| own.$update($view, i, Update::Or(value));
            /// Replaces element `i`.
            $exch<AtomicScalar>($view: $t, i: u32, value: T) T => |own| own.$update($view, i, Update::Exchange(value));
            /// Replaces element `i` by `new` if it equals `expected` bit for bit.
            $cas<AtomicScalar>($view: $t, i: u32, expected: T, new: T) T => |own| {
                own.$update($view, i, Update::CompareExchange { expected, new })
            };
        }
    };
}

/// Operations of a thread of a block. Methods record the caller's place in the source for the executor's messages.
///
/// **Collectives** (`*_sync`): the caller is in `mask`, and all warp lanes of `mask` must call the same collective, at
/// the same place in the source, with the same mask. A mask comes from a ballot in converged code or is [`FULL_MASK`].
///
/// **Memory order**: [`sync_threads`](Self::sync_threads) orders shared and global memory among the threads of the
/// block, [`sync_warp`](Self::sync_warp) among the warp lanes of its mask. Nothing else does, not even shuffles and
/// votes. Blocks of one launch share an element through atomics, which are relaxed and order nothing else; or one block
/// hands it to another: a thread's accesses before an [`atomic_store_release`](Self::atomic_store_release), and all
/// that they are ordered after, are ordered before the accesses after the
/// [`atomic_load_acquire`](Self::atomic_load_acquire) that reads the stored value, or one that atomics made of it.
/// Relaxed atomics do the same with a [`fence`](Self::fence) before the store and one after the load. Barriers pass on
/// to the block what one of its threads has acquired. A relaxed load may give an older value than another block has
/// stored: the executor does that on purpose.
///
/// **Waiting for another block**: a block may wait only for a block that has already begun. A ticket taken by an atomic
/// proves that; a block number does not. Wait in a loop of [`atomic_load`](Self::atomic_load) and
/// [`pause`](Self::pause).
pub trait Block {
    /// Thread number in x.
    fn thread_idx_x(&self) -> u32;
    /// Thread number in y.
    fn thread_idx_y(&self) -> u32;
    /// Threads of the block in x.
    fn block_dim_x(&self) -> u32;
    /// Threads of the block in y.
    fn block_dim_y(&self) -> u32;
    /// Block number in x.
    fn block_idx_x(&self) -> u32;
    /// Block number in y.
    fn block_idx_y(&self) -> u32;
    /// Blocks of the grid in x.
    fn grid_dim_x(&self) -> u32;
    /// Blocks of the grid in y.
    fn grid_dim_y(&self) -> u32;
    /// Lane of the warp, 0…31.
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

    /// Waits for all threads of the block.
    #[track_caller]
    fn sync_threads(&self);
    /// Waits for all warp lanes of `mask`.
    #[track_caller]
    fn sync_warp(&self, mask: u32);
    /// Mask of the warp lanes of `mask` whose predicate holds.
    #[track_caller]
    fn ballot_sync(&self, mask: u32, predicate: bool) -> u32;
    /// Bits of another warp lane's value.
    #[track_caller]
    fn shuffle_bits(&self, mask: u32, value: u32, shuffle: Shuffle) -> u32;
    /// Another warp lane's value; of 8 bytes in two halves.
    #[track_caller]
    #[inline(always)]
    fn shuffle_sync<T: Scalar>(&self, mask: u32, value: T, shuffle: Shuffle) -> T {
        let low = u64::from(self.shuffle_bits(mask, value.to_word(), shuffle));
        let high =
            if size_of::<T>() > 4 { self.shuffle_bits(mask, (value.to_bits() >> 32) as u32, shuffle) } else { 0 };
        T::from_bits(u64::from(high) << 32 | low)
    }
    methods! {
        /// Value of the warp lane `delta` below, for any `delta`; below lane 0 the caller's own.
        shuffle_up_sync<Scalar>(mask: u32, value: T, delta: u32) T => |own| own.shuffle_sync(mask, value, Shuffle::Up(delta));
        /// Value of the warp lane `delta` above, for any `delta`; above lane 31 the caller's own.
        shuffle_down_sync<Scalar>(mask: u32, value: T, delta: u32) T => |own| {
            own.shuffle_sync(mask, value, Shuffle::Down(delta))
        };
        /// Value of warp lane `lane` (0…31).
        shuffle_idx_sync<Scalar>(mask: u32, value: T, lane: u32) T => |own| {
            own.shuffle_sync(mask, value, Shuffle::Index(lane))
        };
        /// Value of the warp lane whose number is the caller's with the bits of `lane_mask` (0…31) flipped.
        shuffle_xor_sync<Scalar>(mask: u32, value: T, lane_mask: u32) T => |own| {
            own.shuffle_sync(mask, value, Shuffle::Xor(lane_mask))
        };
    }
    /// Mask of the warp lanes of `mask` that have the caller's value.
    #[track_caller]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32;
    /// Sum of the values of all warp lanes of `mask`, modulo 2³².
    #[track_caller]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32;
    /// Mask of the warp lanes that happen to be converged. Results must not depend on it, only speed may.
    #[track_caller]
    fn active_mask(&self) -> u32;

    /// Element `i` of read-only global memory.
    #[track_caller]
    fn load<T: Plain>(&self, view: Global<'_, T>, i: u32) -> T;
    /// Element `i` of read-only global memory that is not empty.
    #[track_caller]
    fn load_within<T: Plain>(&self, view: NonEmpty<'_, T>, i: u32) -> T;
    /// Value that begins at byte `at` of read-only global memory, little-endian, aligned or not.
    #[track_caller]
    fn load_bytes<T: Scalar>(&self, view: Global<'_, u8>, at: u32) -> T;
    /// Element `i` of global memory that the launch writes.
    #[track_caller]
    fn load_mut<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32) -> T;
    /// Writes element `i` of global memory.
    #[track_caller]
    fn store<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32, value: T);
    /// Changes element `i` of global memory by one atomic, relaxed; returns the value before.
    #[track_caller]
    fn atomic_update<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, update: Update<T>) -> T;
    updates! { atomic_update(view: GlobalMut<'_, T>) atomic_add atomic_min atomic_max atomic_and atomic_or atomic_exch atomic_cas }

    /// Element `i`, which other blocks may change meanwhile: relaxed, or with [acquire](Self::atomic_load_acquire).
    #[track_caller]
    fn atomic_read<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, acquire: bool) -> T;
    /// Writes element `i`, which other blocks may read meanwhile: relaxed, or to [release](Self::atomic_store_release).
    #[track_caller]
    fn atomic_write<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, value: T, release: bool);
    methods! {
        /// Element `i`, relaxed: other blocks may change it at the same time.
        atomic_load<AtomicScalar>(view: GlobalMut<'_, T>, i: u32) T => |own| own.atomic_read(view, i, false);
        /// Element `i`; everything before its store with release is ordered before the caller's next accesses.
        atomic_load_acquire<AtomicScalar>(view: GlobalMut<'_, T>, i: u32) T => |own| own.atomic_read(view, i, true);
        /// Writes element `i`, relaxed: other blocks may read it at the same time.
        atomic_store<AtomicScalar>(view: GlobalMut<'_, T>, i: u32, value: T) () => |own| own.atomic_write(view, i, value, false);
        /// Writes element `i`; the caller's earlier accesses are ordered before an acquire that reads the value.
        atomic_store_release<AtomicScalar>(view: GlobalMut<'_, T>, i: u32, value: T) () => |own| {
            own.atomic_write(view, i, value, true);
        };
    }
    /// Makes the caller's relaxed atomics before it acquire, and those after it release.
    #[track_caller]
    fn fence(&self);
    /// Yields to other warps: the caller waits for something that another block provides.
    #[track_caller]
    fn pause(&self);

    /// Element `i` of shared memory.
    #[track_caller]
    fn shared_load<T: Scalar>(&self, array: Shared<T>, i: u32) -> T;
    /// Writes element `i` of shared memory.
    #[track_caller]
    fn shared_store<T: Scalar>(&self, array: Shared<T>, i: u32, value: T);
    /// Changes element `i` of shared memory by one atomic, relaxed; returns the value before.
    #[track_caller]
    fn shared_atomic_update<T: AtomicScalar>(&self, array: Shared<T>, i: u32, update: Update<T>) -> T;
    updates! {
        shared_atomic_update(array: Shared<T>)
        shared_atomic_add shared_atomic_min shared_atomic_max shared_atomic_and shared_atomic_or shared_atomic_exch
        shared_atomic_cas
    }
}
