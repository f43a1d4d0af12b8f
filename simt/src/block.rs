//! The only door to the machine: what a thread sees of its block, its warp and memory.
//!
//! A kernel is a function generic over [`Block`]. The hardware door (`nvptx`) makes it PTX; the executor on the CPU runs
//! it lane by lane and checks every access. Names follow CUDA and `cuda_std`.
//!
//! # Launch conventions
//! - Grids are one-dimensional (`grid_dim_x`), blocks have one or two dimensions; `x * y` is a multiple of 32 and at most
//!   1024, so that every warp is full. Thread number, warp and lane follow from `y * block_dim_x + x`.
//! - Shared memory is one dynamic array a block, from byte 0, 16-byte aligned, *not* cleared. Every kernel has a function
//!   `…_shared_bytes(…)` that says how many bytes to launch it with; inside, [`SharedLayout`] hands out [`Shared`] arrays
//!   in the same order.
//! - A view is a pointer and a length in elements. Views, and the structs that hold a kernel's views, are `repr(C)`: an
//!   entry point takes them by value as they are, in the order of the kernel's function, so that host and device cannot
//!   disagree on a list of arguments.
//! - Kernels take their [`Switches`](crate::switches::Switches) by value; entry points pass a constant, and everything is
//!   inlined, so that the switches fold away.
//!
//! # Out of bounds
//! Kernels check lengths themselves, as the policy says. Behind that stands the door: an access beyond its view is a bug
//! of the kernel, which the executor reports; on hardware it does not happen: a load gives zero, a store or atomic does
//! nothing (and an atomic gives 0).

use core::marker::PhantomData;

/// Lanes of a warp.
pub const WARP_SIZE: u32 = 32;

/// Blocks to launch for `warps` warps of work in blocks of `threads` threads; at least 1.
pub const fn blocks_of_warps(warps: u32, threads: u32) -> u32 {
    let blocks = warps.div_ceil(threads / WARP_SIZE);
    if blocks == 0 { 1 } else { blocks }
}

/// The mask of a whole warp.
pub const FULL_MASK: u32 = u32::MAX;

/// Plain old data: what memory may hold.
///
/// # Safety
/// - Every bit pattern is a value (so that unchecked bytes may be read as one).
/// - No padding, no pointers, no drop glue.
pub unsafe trait Plain: Copy + Default + 'static {}

// SAFETY: integers and floats: every bit pattern is a value, no padding.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for f32 {}
// SAFETY: `repr(C)`, 4 + 2 + 2 bytes, alignment 4: no padding; integers only.
unsafe impl Plain for crate::detector::Slot {}
// SAFETY: `repr(C)`, eight u32: no padding; integers only.
unsafe impl Plain for crate::detector::BoardLane {}
// SAFETY: `repr(C)`, eleven 4-byte numbers: no padding; numbers only.
unsafe impl Plain for crate::detector::SectorConstants {}
// SAFETY: `repr(C)`, 4 + 2 + 2 bytes, alignment 8, size 8: no padding; integers only.
unsafe impl Plain for crate::hit::Cluster {}

/// What one instruction can load or store: 1, 2, 4 or 8 bytes, aligned to its size.
pub trait Scalar: Plain {
    /// The value's bits, zero-extended.
    fn to_bits(self) -> u64;
    /// The value of the low bits.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integer_scalars {
    ($($t:ty)*) => {$(
        impl Scalar for $t {
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $t
            }
        }
    )*};
}
integer_scalars!(u8 u16 u32 u64);

impl Scalar for f32 {
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(f32::to_bits(self))
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
}

/// Global memory that nobody writes during the launch: elements of `T`.
#[repr(C)]
#[derive(Debug)]
pub struct Global<'a, T> {
    pointer: *const T,
    len: u32,
    lifetime: PhantomData<&'a [T]>,
}

impl<T> Clone for Global<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Global<'_, T> {}

impl<'a, T: Plain> Global<'a, T> {
    /// A view of `len` elements from `pointer`.
    ///
    /// # Safety
    /// - `pointer` is aligned for `T` and readable for `len` elements as long as the view is used; or `len` is 0.
    /// - Nobody writes these elements while the view is used.
    #[inline(always)]
    pub const unsafe fn new(pointer: *const T, len: u32) -> Self {
        Self { pointer, len, lifetime: PhantomData }
    }

    /// A view of a slice; of its first 2³² − 1 elements, should it be longer.
    #[inline]
    pub fn from_slice(slice: &'a [T]) -> Self {
        let len = u32::try_from(slice.len()).unwrap_or(u32::MAX);
        Self { pointer: slice.as_ptr(), len, lifetime: PhantomData }
    }

    /// Elements.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Whether the view has no element.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first element. For doors.
    #[inline(always)]
    pub const fn as_ptr(self) -> *const T {
        self.pointer
    }
}

impl<'a> Global<'a, u32> {
    /// The same memory as little-endian u16, twice as many; of the first 2³¹ words at the most.
    #[inline(always)]
    pub const fn as_u16(self) -> Global<'a, u16> {
        Global { pointer: self.pointer.cast(), len: self.len.saturating_mul(2), lifetime: PhantomData }
    }

    /// The same memory as bytes, four times as many; of the first 2³⁰ words at the most.
    #[inline(always)]
    pub const fn as_u8(self) -> Global<'a, u8> {
        Global { pointer: self.pointer.cast(), len: self.len.saturating_mul(4), lifetime: PhantomData }
    }
}

/// Global memory that the launch writes: elements of `T`, shared by all threads.
#[repr(C)]
#[derive(Debug)]
pub struct GlobalMut<'a, T> {
    pointer: *mut T,
    len: u32,
    tag: u32,
    lifetime: PhantomData<&'a core::cell::Cell<T>>,
}

impl<T> Clone for GlobalMut<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalMut<'_, T> {}

impl<T: Plain> GlobalMut<'_, T> {
    /// A view of `len` elements from `pointer`. `tag` is for the executor's books; hardware passes 0.
    ///
    /// # Safety
    /// - `pointer` is aligned for `T` and good for reads and writes of `len` elements as long as the view is used; or
    ///   `len` is 0.
    /// - While the view is used, all accesses to these elements go through a door.
    #[inline(always)]
    pub const unsafe fn new(pointer: *mut T, len: u32, tag: u32) -> Self {
        Self { pointer, len, tag, lifetime: PhantomData }
    }

    /// Elements.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Whether the view has no element.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first element. For doors.
    #[inline(always)]
    pub const fn as_ptr(self) -> *mut T {
        self.pointer
    }

    /// What `new` was given. For the executor.
    #[inline(always)]
    pub const fn tag(self) -> u32 {
        self.tag
    }
}

/// An array in the block's shared memory.
#[derive(Debug)]
pub struct Shared<T> {
    /// Bytes from the start of the block's shared memory; a multiple of the element's size.
    offset: u32,
    len: u32,
    element: PhantomData<T>,
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T: Scalar> Shared<T> {
    /// Elements.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Whether the array has no element.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Byte offset of the array in the block's shared memory. For doors.
    #[inline(always)]
    pub const fn offset(self) -> u32 {
        self.offset
    }
}

/// Cuts the block's shared memory into arrays, front to back.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedLayout {
    bytes: u32,
}

impl SharedLayout {
    /// Nothing handed out yet.
    #[inline(always)]
    pub const fn new() -> Self {
        Self { bytes: 0 }
    }

    /// The next `len` elements. Every array begins on a multiple of eight bytes.
    #[inline(always)]
    pub const fn array<T: Scalar>(&mut self, len: u32) -> Shared<T> {
        let offset = self.bytes.next_multiple_of(8);
        self.bytes = offset + len * size_of::<T>() as u32;
        Shared { offset, len, element: PhantomData }
    }

    /// What both need, for arrays that are not used at the same time: hand out the ones from here, and the others from a
    /// copy of what is here now.
    #[must_use]
    #[inline(always)]
    pub const fn or(self, other: Self) -> Self {
        if self.bytes < other.bytes { other } else { self }
    }

    /// Bytes of shared memory that the arrays so far need.
    #[inline(always)]
    pub const fn bytes(self) -> u32 {
        self.bytes
    }
}

/// What a thread of a block can see and do.
///
/// Collectives (`*_sync`): all lanes of `mask`, and the caller is one of them, must call the same one, at the same place
/// in the source, with the same mask. A mask comes from a ballot in converged code or is [`FULL_MASK`].
///
/// Memory order: [`sync_threads`](Self::sync_threads) orders shared and global memory among the threads of the block,
/// [`sync_warp`](Self::sync_warp) among the lanes of its mask; nothing else does, shuffles and votes neither. Atomics are
/// relaxed. Between blocks of a launch only atomics may meet in one element, and what one says of another is nothing.
///
/// Waiting for another block: a block may wait only for one that has begun before it, which is what a ticket, taken by an
/// atomic, says and a block's number does not; in a loop of [`atomic_load`](Self::atomic_load) and [`pause`](Self::pause).
///
/// Every method carries the caller's source location, by which the executor names what went wrong.
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
    /// Lane of the warp, 0…31.
    fn lane_id(&self) -> u32;
    /// The lanes below the caller's, as a mask.
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
    /// Waits until all lanes of `mask` are here.
    #[track_caller]
    fn sync_warp(&self, mask: u32);
    /// The lanes of `mask` whose predicate holds.
    #[track_caller]
    fn ballot_sync(&self, mask: u32, predicate: bool) -> u32;
    /// The value of the lane `delta` below; below lane 0 the caller's own.
    #[track_caller]
    fn shuffle_up_sync(&self, mask: u32, value: u32, delta: u32) -> u32;
    /// The value of the lane `delta` above; above lane 31 the caller's own.
    #[track_caller]
    fn shuffle_down_sync(&self, mask: u32, value: u32, delta: u32) -> u32;
    /// The value of lane `lane` (0…31).
    #[track_caller]
    fn shuffle_idx_sync(&self, mask: u32, value: u32, lane: u32) -> u32;
    /// The value of the lane whose number is the caller's with the bits of `lane_mask` (0…31) flipped.
    #[track_caller]
    fn shuffle_xor_sync(&self, mask: u32, value: u32, lane_mask: u32) -> u32;
    /// The lanes of `mask` that have the caller's value.
    #[track_caller]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32;
    /// The sum of the values of all lanes of `mask`, modulo 2³².
    #[track_caller]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32;
    /// The lanes that happen to be together: nothing may depend on it but speed.
    #[track_caller]
    fn active_mask(&self) -> u32;

    /// Element `i` of read-only global memory.
    #[track_caller]
    fn load<T: Plain>(&self, view: Global<'_, T>, i: u32) -> T;
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
    /// Lets others go on: what the caller waits for is not there yet, and comes from another block.
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
