//! [`Block`] on NVIDIA hardware.
//!
//! The only target-specific module: it exists for `nvptx64` and needs a compiler with unstable
//! features (see the module `ptx`). [`Hardware`] has no state and costs nothing to pass around.
//! Every method is `inline(always)`: a kernel becomes one entry point without calls.
//!
//! # Example
//! An entry point names its arguments and calls the kernel:
//! ```ignore
//! #[unsafe(no_mangle)]
//! unsafe extern "ptx-kernel" fn double(numbers: GlobalMut<'_, u32>) {
//!     // SAFETY: the host launches `double` with full warps, no shared memory, which the kernel does not use, and a view
//!     // of device memory of this device; each thread touches an element of its own.
//!     let block = unsafe { Hardware::new() };
//!     kernels::double(&block, numbers);
//! }
//! ```

mod intrinsics;

/// Declares the block's dynamic shared memory, as long as the launch says. Each crate of kernels
/// needs it once, beside its entry points: assembly in a dependency does not reach the PTX.
#[macro_export]
macro_rules! declare_shared_memory {
    () => {
        core::arch::global_asm!(".extern .shared .align 16 .b8 block_shared[];");
    };
}

use core::mem::MaybeUninit;

use crate::atomics::{AtomicScalar, BitUpdate, Update};
use crate::block::{Block, FULL_MASK, Shuffle, WARP_SIZE};
use crate::memory::{Global, GlobalMut, NonEmpty, Plain, Scalar, Shared};

/// Never called: with `panic=immediate-abort` a panic is a trap, which ends the launch.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The calling thread's block.
#[derive(Clone, Copy, Debug)]
pub struct Hardware(());

impl Hardware {
    /// Returns the calling thread's block, for an entry point to pass to its kernel.
    ///
    /// # Safety
    /// For every launch of the entry point, whatever its arguments:
    /// - The block has full warps: `x * y` threads, a multiple of 32, at most 1024; the grid is
    ///   one-dimensional.
    /// - The launch gives as many bytes of dynamic shared memory as the kernel's `SharedLayout`
    ///   cuts up.
    /// - Views are of memory of the device that runs the launch and keep the promises of
    ///   `Global::new` and `GlobalMut::new`.
    /// - The kernel is free of data races, and its collectives are reached by all warp lanes of
    ///   their masks. The executor checks both.
    #[inline(always)]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// Clamp operand of shuffles that reach up to lane 31; that of `up` is 0.
const LAST_LANE: u32 = 31;

impl Block for Hardware {
    #[inline(always)]
    fn thread_idx_x(&self) -> u32 {
        intrinsics::tid_x()
    }
    #[inline(always)]
    fn thread_idx_y(&self) -> u32 {
        intrinsics::tid_y()
    }
    #[inline(always)]
    fn block_dim_x(&self) -> u32 {
        intrinsics::ntid_x()
    }
    #[inline(always)]
    fn block_dim_y(&self) -> u32 {
        intrinsics::ntid_y()
    }
    #[inline(always)]
    fn block_idx_x(&self) -> u32 {
        intrinsics::ctaid_x()
    }
    #[inline(always)]
    fn block_idx_y(&self) -> u32 {
        intrinsics::ctaid_y()
    }
    #[inline(always)]
    fn grid_dim_x(&self) -> u32 {
        intrinsics::nctaid_x()
    }
    #[inline(always)]
    fn grid_dim_y(&self) -> u32 {
        intrinsics::nctaid_y()
    }
    #[inline(always)]
    fn lane_id(&self) -> u32 {
        intrinsics::laneid()
    }
    #[inline(always)]
    fn lanemask_lt(&self) -> u32 {
        intrinsics::lanemask_lt()
    }

    #[inline(always)]
    fn sync_threads(&self) {
        intrinsics::barrier0();
    }
    #[inline(always)]
    fn sync_warp(&self, mask: u32) {
        intrinsics::bar_warp_sync(mask);
    }
    #[inline(always)]
    fn ballot_sync(&self, mask: u32, predicate: bool) -> u32 {
        intrinsics::vote_ballot_sync(mask, predicate)
    }
    #[inline(always)]
    fn shuffle_bits(&self, mask: u32, value: u32, shuffle: Shuffle) -> u32 {
        match shuffle {
            // The instruction takes `delta` modulo 32, and 0 gives the caller's own value.
            Shuffle::Up(delta) => intrinsics::shfl_sync_up(mask, value, delta.min(WARP_SIZE), 0),
            Shuffle::Down(delta) => {
                intrinsics::shfl_sync_down(mask, value, delta.min(WARP_SIZE), LAST_LANE)
            }
            Shuffle::Index(lane) => intrinsics::shfl_sync_idx(mask, value, lane, LAST_LANE),
            Shuffle::Xor(lane_mask) => {
                intrinsics::shfl_sync_bfly(mask, value, lane_mask, LAST_LANE)
            }
        }
    }
    #[inline(always)]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32 {
        intrinsics::match_any_sync(mask, value)
    }
    #[inline(always)]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32 {
        // (`redux.sync` would keep the PTX off sm_75.)
        let mut sum = value;
        if mask == FULL_MASK {
            let mut bit = WARP_SIZE / 2;
            while bit > 0 {
                sum += intrinsics::shfl_sync_bfly(mask, sum, bit, LAST_LANE);
                bit /= 2;
            }
        } else {
            let mut others = mask;
            sum = 0;
            while others != 0 {
                sum += intrinsics::shfl_sync_idx(mask, value, others.trailing_zeros(), LAST_LANE);
                others &= others - 1;
            }
        }
        sum
    }
    #[inline(always)]
    fn active_mask(&self) -> u32 {
        intrinsics::activemask()
    }

    #[inline(always)]
    fn load<T: Plain>(&self, view: Global<'_, T>, i: u32) -> T {
        if i >= view.len() {
            return T::default();
        }
        // SAFETY:
        // - Aligned and readable: `i` is below the view's length, and `Global::new` requires `len`
        //   such elements.
        // - Not written during the launch: `Global::new` requires it.
        unsafe { load::<T, true>(view.as_ptr().add(i as usize)) }
    }

    #[inline(always)]
    fn load_within<T: Plain>(&self, view: NonEmpty<'_, T>, i: u32) -> T {
        let view = view.view();
        let i = i.min(view.len() - 1);
        // SAFETY:
        // - Aligned and readable: `i` is below the view's length, which is not 0, and `Global::new`
        //   requires `len` such elements.
        // - Not written during the launch: `Global::new` requires it.
        unsafe { load::<T, true>(view.as_ptr().add(i as usize)) }
    }

    #[inline(always)]
    fn load_bytes<T: Scalar>(&self, view: Global<'_, u8>, at: u32) -> T {
        let size = size_of::<T>() as u32;
        if size > view.len() || at > view.len() - size {
            return T::default();
        }
        // SAFETY: byte `at` is inside the view, by the check above, so the offset stays inside its
        // memory.
        let pointer = unsafe { view.as_ptr().add(at as usize) };
        if pointer.addr().is_multiple_of(size as usize) {
            // SAFETY:
            // - Aligned: checked just above; a scalar's alignment is at most its size.
            // - Readable: `at + size` is within the view, whose bytes `Global::new` requires to be
            //   readable.
            // - Not written during the launch: `Global::new` requires it.
            return unsafe { load::<T, true>(pointer.cast()) };
        }
        let mut bits = 0;
        let mut byte = 0;
        while byte < size {
            // SAFETY:
            // - Readable: `at + byte` is below `at + size`, which is within the view; a byte is
            //   always aligned.
            // - Not written during the launch: `Global::new` requires it.
            bits |= u64::from(unsafe { intrinsics::load_nc_u8(pointer.add(byte as usize)) })
                << (8 * byte);
            byte += 1;
        }
        T::from_bits(bits)
    }

    #[inline(always)]
    fn load_mut<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32) -> T {
        if i >= view.len() {
            return T::default();
        }
        // SAFETY:
        // - Aligned and readable: `i` is below the view's length, and `GlobalMut::new` requires
        //   `len` such elements.
        // - No other thread writes the element between the barriers around: `Hardware::new`
        //   requires race-free kernels.
        unsafe { load::<T, false>(view.as_ptr().add(i as usize)) }
    }

    #[inline(always)]
    fn store<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32, value: T) {
        if i < view.len() {
            // SAFETY:
            // - Aligned and writable: `i` is below the view's length, and `GlobalMut::new` requires
            //   `len` such elements.
            // - No other thread touches the element between the barriers around: `Hardware::new`
            //   requires race-free kernels.
            unsafe { store(view.as_ptr().add(i as usize), value) };
        }
    }

    #[inline(always)]
    fn atomic_update<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        update: Update<T>,
    ) -> T {
        if i >= view.len() {
            return T::default();
        }
        let update = T::lower(update);
        // SAFETY:
        // - Aligned, good for reads and writes: `i` is below the view's length, and
        //   `GlobalMut::new` requires it.
        // - Only atomics change it unless other accesses are ordered: `Hardware::new` requires
        //   race-free kernels.
        T::from_bits(unsafe {
            let element = view.as_ptr().add(i as usize);
            match size_of::<T>() {
                4 => u64::from(intrinsics::atomic_u32(element.cast(), word(update))),
                _ => intrinsics::atomic_u64(element.cast(), long(update)),
            }
        })
    }

    #[inline(always)]
    fn atomic_read<T: AtomicScalar>(&self, view: GlobalMut<'_, T>, i: u32, acquire: bool) -> T {
        if i >= view.len() {
            return T::default();
        }
        // SAFETY:
        // - Aligned, good for reads and writes: `i` is below the view's length, and
        //   `GlobalMut::new` requires it.
        // - Only atomics change it unless other accesses are ordered: `Hardware::new` requires
        //   race-free kernels.
        T::from_bits(unsafe {
            let element = view.as_ptr().add(i as usize);
            match (size_of::<T>(), acquire) {
                (4, false) => u64::from(intrinsics::load_relaxed_u32(element.cast())),
                (4, true) => u64::from(intrinsics::load_acquire_u32(element.cast())),
                (_, false) => intrinsics::load_relaxed_u64(element.cast()),
                (_, true) => intrinsics::load_acquire_u64(element.cast()),
            }
        })
    }

    #[inline(always)]
    fn atomic_write<T: AtomicScalar>(
        &self,
        view: GlobalMut<'_, T>,
        i: u32,
        value: T,
        release: bool,
    ) {
        if i >= view.len() {
            return;
        }
        // SAFETY:
        // - Aligned, good for reads and writes: `i` is below the view's length, and
        //   `GlobalMut::new` requires it.
        // - Only atomics change it unless other accesses are ordered: `Hardware::new` requires
        //   race-free kernels.
        unsafe {
            let element = view.as_ptr().add(i as usize);
            match (size_of::<T>(), release) {
                (4, false) => intrinsics::store_relaxed_u32(element.cast(), value.to_word()),
                (4, true) => intrinsics::store_release_u32(element.cast(), value.to_word()),
                (_, false) => intrinsics::store_relaxed_u64(element.cast(), value.to_bits()),
                (_, true) => intrinsics::store_release_u64(element.cast(), value.to_bits()),
            }
        }
    }

    #[inline(always)]
    fn fence(&self) {
        intrinsics::fence();
    }

    #[inline(always)]
    fn pause(&self) {
        intrinsics::pause();
    }

    #[inline(always)]
    fn shared_load<T: Plain>(&self, array: Shared<T>, i: u32) -> T {
        if array.is_empty() {
            return T::default();
        }
        // (Not a branch, which would keep loads from being issued together.)
        let offset = element(array, i.min(array.len() - 1));
        // SAFETY: the element is below the array's length, and `Hardware::new` requires that the
        // launch gave the shared memory in which the kernel's `SharedLayout` placed the array, on a
        // multiple of the element's alignment.
        unsafe { load_shared(offset) }
    }

    #[inline(always)]
    fn shared_store<T: Plain>(&self, array: Shared<T>, i: u32, value: T) {
        if i >= array.len() {
            return;
        }
        // SAFETY: `i` is below the array's length, and `Hardware::new` requires that the launch
        // gave the shared memory in which the kernel's `SharedLayout` placed the array, on a
        // multiple of the element's alignment.
        unsafe { store_shared(element(array, i), value) };
    }

    #[inline(always)]
    fn shared_atomic_update<T: AtomicScalar>(
        &self,
        array: Shared<T>,
        i: u32,
        update: Update<T>,
    ) -> T {
        if i >= array.len() {
            return T::default();
        }
        let (offset, update) = (element(array, i), T::lower(update));
        // SAFETY: `i` is below the array's length, and `Hardware::new` requires that the launch
        // gave the shared memory in which the kernel's `SharedLayout` placed the array; arrays
        // begin on a multiple of 8 bytes.
        T::from_bits(unsafe {
            match size_of::<T>() {
                4 => u64::from(intrinsics::shared_atomic_u32(offset, word(update))),
                _ => intrinsics::shared_atomic_u64(offset, long(update)),
            }
        })
    }
}

#[inline(always)]
fn word<T: AtomicScalar>(update: BitUpdate<T>) -> BitUpdate<u32> {
    BitUpdate {
        op: update.op,
        value: update.value.to_word(),
        expected: update.expected.to_word(),
    }
}

#[inline(always)]
fn long<T: AtomicScalar>(update: BitUpdate<T>) -> BitUpdate<u64> {
    BitUpdate {
        op: update.op,
        value: update.value.to_bits(),
        expected: update.expected.to_bits(),
    }
}

#[inline(always)]
fn element<T: Plain>(array: Shared<T>, i: u32) -> u32 {
    array.offset() + i * size_of::<T>() as u32
}

/// Loads a value of global memory, with `READ_ONLY` through the read-only cache, in pieces as wide
/// as its alignment.
///
/// # Safety
/// - `pointer` is aligned for `T` and readable.
/// - Nothing writes there: with `READ_ONLY` during the launch, else between the two barriers
///   around.
#[inline(always)]
unsafe fn load<T: Plain, const READ_ONLY: bool>(pointer: *const T) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr().cast::<u8>();
    let mut at = 0;
    while at < size_of::<T>() {
        // SAFETY:
        // - A piece is as long as the alignment of `T`, which is at most 16 for views, and a size
        //   is a multiple of the alignment: the pieces cover `T` without a rest, each aligned,
        //   inside `pointer`'s element and inside `value`.
        // - The element is readable and not written: required of `pointer`.
        unsafe {
            let (from, to) = (pointer.cast::<u8>().add(at), to.add(at));
            match (align_of::<T>(), READ_ONLY) {
                (1, true) => to.write(intrinsics::load_nc_u8(from) as u8),
                (1, false) => to.write(intrinsics::load_u8(from) as u8),
                (2, true) => to.cast::<u16>().write(intrinsics::load_nc_u16(from)),
                (2, false) => to.cast::<u16>().write(intrinsics::load_u16(from)),
                (4, true) => to.cast::<u32>().write(intrinsics::load_nc_u32(from)),
                (4, false) => to.cast::<u32>().write(intrinsics::load_u32(from)),
                (8, true) if T::IS_NUMBER => to.cast::<u64>().write(intrinsics::load_nc_u64(from)),
                (8, false) if T::IS_NUMBER => to.cast::<u64>().write(intrinsics::load_u64(from)),
                (8, true) => to
                    .cast::<[u32; 2]>()
                    .write(intrinsics::load_nc_u32_two(from)),
                (8, false) => to.cast::<[u32; 2]>().write(intrinsics::load_u32_two(from)),
                (_, true) => to
                    .cast::<[u32; 4]>()
                    .write(intrinsics::load_nc_u32_four(from)),
                (_, false) => to.cast::<[u32; 4]>().write(intrinsics::load_u32_four(from)),
            }
        }
        at += align_of::<T>();
    }
    // SAFETY: the loop wrote every byte, and `Plain` makes any bytes a value.
    unsafe { value.assume_init() }
}

/// Stores a value to global memory in the widest pieces that its alignment allows.
///
/// # Safety
/// - `pointer` is aligned for `T` and writable.
/// - No other thread touches what is there between the two barriers around.
#[inline(always)]
unsafe fn store<T: Plain>(pointer: *mut T, value: T) {
    let from = (&raw const value).cast::<u8>();
    let mut at = 0;
    while at < size_of::<T>() {
        // SAFETY:
        // - A piece is as long as the alignment of `T`, which is at most 16 for views, and a size
        //   is a multiple of the alignment: each piece is aligned, inside `value` and inside
        //   `pointer`'s element. `Plain`: no padding is read.
        // - The element is writable and no other thread touches it: required of `pointer`.
        unsafe {
            let (from, to) = (from.add(at), pointer.cast::<u8>().add(at));
            match align_of::<T>() {
                1 => intrinsics::store_u8(to, u16::from(from.read())),
                2 => intrinsics::store_u16(to, from.cast::<u16>().read()),
                4 => intrinsics::store_u32(to, from.cast::<u32>().read()),
                8 if T::IS_NUMBER => intrinsics::store_u64(to, from.cast::<u64>().read()),
                8 => intrinsics::store_u32_two(to, from.cast::<[u32; 2]>().read()),
                _ => intrinsics::store_u32_four(to, from.cast::<[u32; 4]>().read()),
            }
        }
        at += align_of::<T>();
    }
}

/// Loads a value from `offset` bytes into the block's shared memory, in pieces as wide as its
/// alignment.
///
/// # Safety
/// - `offset` is aligned for `T`, and the element is inside what the launch gave.
/// - No other thread writes there between the two barriers around.
#[inline(always)]
unsafe fn load_shared<T: Plain>(offset: u32) -> T {
    if T::IS_NUMBER {
        // SAFETY: the element is there, aligned, and not written: required of `offset`. A number is
        // as long as what is loaded for it, and `Plain` makes any bytes a value.
        unsafe {
            return match size_of::<T>() {
                1 => core::mem::transmute_copy(&(intrinsics::load_shared_u8(offset) as u8)),
                2 => core::mem::transmute_copy(&intrinsics::load_shared_u16(offset)),
                4 => core::mem::transmute_copy(&intrinsics::load_shared_u32(offset)),
                _ => core::mem::transmute_copy(&intrinsics::load_shared_u64(offset)),
            };
        }
    }
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr().cast::<u8>();
    let mut at = 0;
    while at < size_of::<T>() {
        // SAFETY:
        // - A piece is as long as the alignment of `T`, which is at most 16 for arrays, and a size
        //   is a multiple of the alignment: the pieces cover `T` without a rest, each aligned,
        //   inside the element and inside `value`.
        // - The element is there and not written: required of `offset`.
        unsafe {
            let (from, to) = (offset + at as u32, to.add(at));
            match align_of::<T>() {
                1 => to.write(intrinsics::load_shared_u8(from) as u8),
                2 => to.cast::<u16>().write(intrinsics::load_shared_u16(from)),
                4 => to.cast::<u32>().write(intrinsics::load_shared_u32(from)),
                8 => to
                    .cast::<[u32; 2]>()
                    .write(intrinsics::load_shared_u32_two(from)),
                _ => to
                    .cast::<[u32; 4]>()
                    .write(intrinsics::load_shared_u32_four(from)),
            }
        }
        at += align_of::<T>();
    }
    // SAFETY: the loop wrote every byte, and `Plain` makes any bytes a value.
    unsafe { value.assume_init() }
}

/// Stores a value to `offset` bytes into the block's shared memory, in pieces as wide as its
/// alignment.
///
/// # Safety
/// - `offset` is aligned for `T`, and the element is inside what the launch gave.
/// - No other thread touches what is there between the two barriers around.
#[inline(always)]
unsafe fn store_shared<T: Plain>(offset: u32, value: T) {
    if T::IS_NUMBER {
        // SAFETY: the element is there, aligned, and no other thread touches it: required of
        // `offset`. A number is as long as what is stored for it.
        unsafe {
            match size_of::<T>() {
                1 => intrinsics::store_shared_u8(
                    offset,
                    u16::from(core::mem::transmute_copy::<T, u8>(&value)),
                ),
                2 => intrinsics::store_shared_u16(offset, core::mem::transmute_copy(&value)),
                4 => intrinsics::store_shared_u32(offset, core::mem::transmute_copy(&value)),
                _ => intrinsics::store_shared_u64(offset, core::mem::transmute_copy(&value)),
            }
        }
        return;
    }
    let from = (&raw const value).cast::<u8>();
    let mut at = 0;
    while at < size_of::<T>() {
        // SAFETY:
        // - A piece is as long as the alignment of `T`, which is at most 16 for arrays, and a size
        //   is a multiple of the alignment: each piece is aligned, inside `value` and inside the
        //   element. `Plain`: no padding is read.
        // - The element is there and no other thread touches it: required of `offset`.
        unsafe {
            let (from, to) = (from.add(at), offset + at as u32);
            match align_of::<T>() {
                1 => intrinsics::store_shared_u8(to, u16::from(from.read())),
                2 => intrinsics::store_shared_u16(to, from.cast::<u16>().read()),
                4 => intrinsics::store_shared_u32(to, from.cast::<u32>().read()),
                8 => intrinsics::store_shared_u32_two(to, from.cast::<[u32; 2]>().read()),
                _ => intrinsics::store_shared_u32_four(to, from.cast::<[u32; 4]>().read()),
            }
        }
        at += align_of::<T>();
    }
}
