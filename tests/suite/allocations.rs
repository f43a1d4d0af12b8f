//! An allocator that counts, for tests of a decoder's memory. A test program selects it by
//! `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts the allocations of each thread separately, since tests run
/// in parallel.
pub struct Counting;

thread_local! {
    /// Number of bytes that the thread holds.
    pub static BYTES: Cell<isize> = const { Cell::new(0) };
    /// Largest number of bytes that the thread has held.
    pub static MOST_BYTES: Cell<isize> = const { Cell::new(0) };
    /// Number of allocations so far.
    pub static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Adds to the bytes that this thread holds. A thread that is ending may have no counts any more.
fn count(bytes: isize) {
    let _ = BYTES.try_with(|counted| {
        let now = counted.get() + bytes;
        counted.set(now);
        let _ = MOST_BYTES.try_with(|most| most.set(most.get().max(now)));
    });
}

// SAFETY:
// - All functions pass their arguments on to the system's allocator unchanged.
// - Counting neither allocates nor unwinds: it reads and writes thread-local cells that need no
//   initialisation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
        count(layout.size() as isize);
        // SAFETY: the layout has a size above 0, as `GlobalAlloc::alloc` requires of its caller.
        unsafe { System.alloc(layout) }
    }

    /// Asks the system for memory of zeros, which it has at hand: the default implementation writes
    /// them, and a small test would spend a third of its time there.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
        count(layout.size() as isize);
        // SAFETY: the layout has a size above 0, as `alloc_zeroed` requires of its caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `alloc` or `alloc_zeroed` took `at` from the system's allocator, with this
        // layout.
        unsafe { System.dealloc(at, layout) }
    }
}
