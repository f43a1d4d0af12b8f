//! The door on real hardware: [`Block`] by NVIDIA's own instructions, and the entry points.
//!
//! Nothing else in the crate is target-specific, and this module exists for `nvptx64` only. It needs a compiler that
//! takes unstable features; `docs/ptx.md` says which, and what to look out for.
//!
//! A thread's view of its block has no state: everything is a special register, so a [`Hardware`] costs nothing to pass
//! around. Every method is `inline(always)`, so that a kernel becomes one entry without calls.

/// Both prefix-sum kernels, under a variant's name.
macro_rules! prefix_sum {
    ($variant:expr) => {
        #[unsafe(export_name = concat!("prefix_sum_tiles__", $variant))]
        unsafe extern "ptx-kernel" fn prefix_sum_tiles(
            counts: Global<'_, u32>,
            offsets: GlobalMut<'_, u32>,
            totals: GlobalMut<'_, u32>,
        ) {
            crate::prefix_sum::prefix_sum_tiles(&Hardware, counts, offsets, totals);
        }

        #[unsafe(export_name = concat!("prefix_sum_offsets__", $variant))]
        unsafe extern "ptx-kernel" fn prefix_sum_offsets(
            n_counts: u32,
            totals: Global<'_, u32>,
            offsets: GlobalMut<'_, u32>,
        ) {
            crate::prefix_sum::prefix_sum_offsets(&Hardware, n_counts, totals, offsets);
        }
    };
}

macro_rules! one_of_the_entries {
    ($($unit:literal)*) => {
        #[cfg(not(any($(ptx_unit = $unit),*)))]
        mod entries;
        #[cfg(any($(ptx_unit = $unit),*))]
        mod fused_entries;
    };
}
one_of_the_entries!("v4_allen_fused" "v4_mep_fused" "v5_allen_fused" "v5_mep_fused");
mod intrinsics;

use core::mem::MaybeUninit;

use crate::block::{Block, Global, GlobalMut, Plain, Scalar, Shared};

/// A panic that the compiler could not rule out stops the launch; with `panic=immediate-abort` this is never called.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The calling thread's block.
#[derive(Clone, Copy)]
pub(crate) struct Hardware;

/// Clamp operand of shuffles that may reach up to lane 31; the one of `up` is 0.
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
    fn grid_dim_x(&self) -> u32 {
        intrinsics::nctaid_x()
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
    fn shuffle_up_sync(&self, mask: u32, value: u32, delta: u32) -> u32 {
        intrinsics::shfl_sync_up(mask, value, delta, 0)
    }
    #[inline(always)]
    fn shuffle_down_sync(&self, mask: u32, value: u32, delta: u32) -> u32 {
        intrinsics::shfl_sync_down(mask, value, delta, LAST_LANE)
    }
    #[inline(always)]
    fn shuffle_idx_sync(&self, mask: u32, value: u32, lane: u32) -> u32 {
        intrinsics::shfl_sync_idx(mask, value, lane, LAST_LANE)
    }
    #[inline(always)]
    fn shuffle_xor_sync(&self, mask: u32, value: u32, lane_mask: u32) -> u32 {
        intrinsics::shfl_sync_bfly(mask, value, lane_mask, LAST_LANE)
    }
    #[inline(always)]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32 {
        intrinsics::match_any_sync(mask, value)
    }
    #[inline(always)]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32 {
        intrinsics::redux_sync_add(value, mask)
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
        // - `i` is inside the view, whose maker promised `len` readable, aligned elements.
        // - The view's maker promised that nobody writes there during the launch.
        unsafe { load::<T, true>(view.as_ptr().add(i as usize)) }
    }

    #[inline(always)]
    fn load_bytes<T: Scalar>(&self, view: Global<'_, u8>, at: u32) -> T {
        let size = size_of::<T>() as u32;
        if size > view.len() || at > view.len() - size {
            return T::default();
        }
        // SAFETY: `at` and the `size - 1` bytes after it are inside the view, by the check above.
        let pointer = unsafe { view.as_ptr().add(at as usize) };
        if pointer.addr().is_multiple_of(size as usize) {
            // SAFETY:
            // - Aligned by the check above, and inside the view.
            // - The view's maker promised that nobody writes there during the launch.
            return unsafe { load::<T, true>(pointer.cast()) };
        }
        let mut bits = 0;
        let mut byte = 0;
        while byte < size {
            // SAFETY: inside the view, as above; a byte is always aligned.
            bits |= u64::from(unsafe { intrinsics::load_nc_u8(pointer.add(byte as usize)) }) << (8 * byte);
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
        // - `i` is inside the view, whose maker promised `len` aligned elements that are good for reads and writes.
        // - No other thread writes the element between two barriers: the executor checks that of every kernel.
        unsafe { load::<T, false>(view.as_ptr().add(i as usize)) }
    }

    #[inline(always)]
    fn store<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32, value: T) {
        if i < view.len() {
            // SAFETY: as for `load_mut`; no other thread touches the element between two barriers.
            unsafe { store(view.as_ptr().add(i as usize), value) };
        }
    }

    #[inline(always)]
    fn atomic_add(&self, view: GlobalMut<'_, u32>, i: u32, value: u32) -> u32 {
        if i >= view.len() {
            return 0;
        }
        // SAFETY: `i` is inside the view, whose maker promised aligned elements that are good for reads and writes.
        unsafe { intrinsics::atomic_add(view.as_ptr().add(i as usize), value) }
    }

    #[inline(always)]
    fn atomic_or(&self, view: GlobalMut<'_, u32>, i: u32, value: u32) -> u32 {
        if i >= view.len() {
            return 0;
        }
        // SAFETY: as for `atomic_add`.
        unsafe { intrinsics::atomic_or(view.as_ptr().add(i as usize), value) }
    }

    #[inline(always)]
    fn atomic_load(&self, view: GlobalMut<'_, u32>, i: u32) -> u32 {
        if i >= view.len() {
            return 0;
        }
        // SAFETY: as for `atomic_add`.
        unsafe { intrinsics::atomic_load(view.as_ptr().add(i as usize)) }
    }

    #[inline(always)]
    fn atomic_store(&self, view: GlobalMut<'_, u32>, i: u32, value: u32) {
        if i < view.len() {
            // SAFETY: as for `atomic_add`.
            unsafe { intrinsics::atomic_store(view.as_ptr().add(i as usize), value) };
        }
    }

    #[inline(always)]
    fn pause(&self) {
        intrinsics::pause();
    }

    #[inline(always)]
    fn shared_load<T: Scalar>(&self, array: Shared<T>, i: u32) -> T {
        if i >= array.len() {
            return T::default();
        }
        let offset = element(array, i);
        // SAFETY: `i` is inside the array, and the array inside what the launch gave, by the launch conventions of
        // `Block`; arrays are aligned to their element's size.
        unsafe {
            T::from_bits(match size_of::<T>() {
                1 => u64::from(intrinsics::load_shared_u8(offset)),
                2 => u64::from(intrinsics::load_shared_u16(offset)),
                4 => u64::from(intrinsics::load_shared_u32(offset)),
                _ => intrinsics::load_shared_u64(offset),
            })
        }
    }

    #[inline(always)]
    fn shared_store<T: Scalar>(&self, array: Shared<T>, i: u32, value: T) {
        if i >= array.len() {
            return;
        }
        let (offset, bits) = (element(array, i), value.to_bits());
        // SAFETY: as for `shared_load`.
        unsafe {
            match size_of::<T>() {
                1 => intrinsics::store_shared_u8(offset, bits as u16),
                2 => intrinsics::store_shared_u16(offset, bits as u16),
                4 => intrinsics::store_shared_u32(offset, bits as u32),
                _ => intrinsics::store_shared_u64(offset, bits),
            }
        }
    }

    #[inline(always)]
    fn shared_atomic_add(&self, array: Shared<u32>, i: u32, value: u32) -> u32 {
        if i >= array.len() {
            return 0;
        }
        // SAFETY: as for `shared_load`.
        unsafe { intrinsics::shared_atomic_add(element(array, i), value) }
    }

    #[inline(always)]
    fn shared_atomic_min(&self, array: Shared<u32>, i: u32, value: u32) -> u32 {
        if i >= array.len() {
            return 0;
        }
        // SAFETY: as for `shared_load`.
        unsafe { intrinsics::shared_atomic_min(element(array, i), value) }
    }

    #[inline(always)]
    fn shared_atomic_or(&self, array: Shared<u32>, i: u32, value: u32) -> u32 {
        if i >= array.len() {
            return 0;
        }
        // SAFETY: as for `shared_load`.
        unsafe { intrinsics::shared_atomic_or(element(array, i), value) }
    }
}

/// Byte offset of element `i` in the block's shared memory.
#[inline(always)]
fn element<T: Scalar>(array: Shared<T>, i: u32) -> u32 {
    array.offset() + i * size_of::<T>() as u32
}

/// Loads a value of global memory in the widest pieces that its alignment allows; with `READ_ONLY` through the read-only
/// cache.
///
/// # Safety
/// - `pointer` is aligned for `T` and readable.
/// - Nobody writes there: with `READ_ONLY` during the launch, else between the two barriers around.
#[inline(always)]
unsafe fn load<T: Plain, const READ_ONLY: bool>(pointer: *const T) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr().cast::<u8>();
    let mut at = 0;
    while at < size_of::<T>() {
        // SAFETY:
        // - A size is a multiple of its alignment: the pieces cover `T` without rest.
        // - Each piece is aligned, readable and not written, by the caller's promise; the target is our own.
        // - `Plain` says that every bit pattern is a value and that there is no padding.
        unsafe {
            let (from, to) = (pointer.cast::<u8>().add(at), to.add(at));
            match (align_of::<T>(), READ_ONLY) {
                (1, true) => to.write(intrinsics::load_nc_u8(from) as u8),
                (1, false) => to.write(intrinsics::load_u8(from) as u8),
                (2, true) => to.cast::<u16>().write(intrinsics::load_nc_u16(from)),
                (2, false) => to.cast::<u16>().write(intrinsics::load_u16(from)),
                (4, true) => to.cast::<u32>().write(intrinsics::load_nc_u32(from)),
                (4, false) => to.cast::<u32>().write(intrinsics::load_u32(from)),
                (_, true) => to.cast::<u64>().write(intrinsics::load_nc_u64(from)),
                (_, false) => to.cast::<u64>().write(intrinsics::load_u64(from)),
            }
        }
        at += align_of::<T>();
    }
    // SAFETY: all pieces were written above.
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
        // SAFETY: as for `load`, the other way round.
        unsafe {
            let (from, to) = (from.add(at), pointer.cast::<u8>().add(at));
            match align_of::<T>() {
                1 => intrinsics::store_u8(to, u16::from(from.read())),
                2 => intrinsics::store_u16(to, from.cast::<u16>().read()),
                4 => intrinsics::store_u32(to, from.cast::<u32>().read()),
                _ => intrinsics::store_u64(to, from.cast::<u64>().read()),
            }
        }
        at += align_of::<T>();
    }
}
