//! An allocator that counts, for tests of what memory a decoder takes. A test program that wants it makes it its own, by
//! `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting what each thread allocates: the other tests run at the same time.
pub struct Counting;

thread_local! {
    /// Bytes that the thread holds.
    pub static BYTES: Cell<isize> = const { Cell::new(0) };
    /// The most that it held.
    pub static MOST_BYTES: Cell<isize> = const { Cell::new(0) };
    /// Number of allocations so far.
    pub static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Counts `bytes` more. A thread that is ending has no counts any more.
fn count(bytes: isize) {
    let _ = BYTES.try_with(|counted| {
        let now = counted.get() + bytes;
        counted.set(now);
        let _ = MOST_BYTES.try_with(|most| most.set(most.get().max(now)));
    });
}

// SAFETY: all functions pass their arguments on to the system's allocator unchanged, and what they do beside it neither
// allocates nor unwinds: cells of thread-local memory that needs no initialisation are read and written.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
        count(layout.size() as isize);
        // SAFETY: the layout is not of size zero: `GlobalAlloc::alloc` is never called with one that is.
        unsafe { System.alloc(layout) }
    }

    /// The system has zeros at hand: writing them takes a third of the time of a small test.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
        count(layout.size() as isize);
        // SAFETY: the layout is not of size zero: `GlobalAlloc::alloc_zeroed` is never called with one that is.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `alloc` or `alloc_zeroed` took `at` from the system's allocator, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}
