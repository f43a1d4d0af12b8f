//! Memory of the host: the pinned part, and copies from and to any part.

use std::alloc::{Layout, alloc};
use std::collections::BTreeMap;

/// Size of a page in bytes, to which pinned memory is aligned.
const ALIGNMENT: usize = 4096;

/// Contents of fresh memory.
const FRESH: u8 = 0xA5;

/// Contents of freed memory.
const GIVEN_BACK: u8 = 0xDD;

/// Pinned memory. It is never returned to the system, so that a read after it was freed finds wrong
/// bits and does no other harm.
#[derive(Default)]
pub struct Pinned {
    /// Size in bytes by first address, and true while the piece is allocated.
    pieces: BTreeMap<usize, (usize, bool)>,
}

impl Pinned {
    pub fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return None;
        }
        // SAFETY: allocated just now, with this size.
        unsafe { start.write_bytes(FRESH, bytes) };
        self.pieces.insert(start as usize, (bytes, true));
        Some(start as usize)
    }

    /// Frees the piece that begins at `start`. Returns false if there is none.
    pub fn free(&mut self, start: usize) -> bool {
        let Some((bytes, live @ true)) = self.pieces.get_mut(&start) else {
            return false;
        };
        *live = false;
        // SAFETY: allocated with this size, and never given to the system.
        unsafe { (start as *mut u8).write_bytes(GIVEN_BACK, *bytes) };
        true
    }

    /// Returns `Some(true)` if a range lies in pinned memory, `Some(false)` if that was freed,
    /// `None` if it lies elsewhere; an error if only a part of it is pinned.
    pub fn state(&self, start: usize, bytes: usize) -> Result<Option<bool>, &'static str> {
        let Some((&first, &(len, live))) = self.pieces.range(..start + bytes.max(1)).next_back()
        else {
            return Ok(None);
        };
        if start >= first + len {
            return Ok(None);
        }
        if start < first || start + bytes > first + len {
            return Err("partly beyond a pinned allocation");
        }
        Ok(Some(live))
    }

    /// Returns the number of pieces that are still allocated.
    pub fn live(&self) -> usize {
        self.pieces.values().filter(|(_, live)| *live).count()
    }
}

/// Copies bytes of the host.
///
/// # Safety
/// - `bytes` bytes can be read from `start` on.
pub unsafe fn read(start: usize, bytes: usize) -> Vec<u8> {
    let mut copy = vec![0u8; bytes];
    // SAFETY: the bytes can be read (precondition); the vector has as many, and is new, so that it
    // overlaps nothing.
    unsafe { std::ptr::copy_nonoverlapping(start as *const u8, copy.as_mut_ptr(), bytes) };
    copy
}

/// Writes bytes of the host.
///
/// # Safety
/// - `bytes.len()` bytes can be written from `start` on.
pub unsafe fn write(start: usize, bytes: &[u8]) {
    // SAFETY: the bytes can be written (precondition); `bytes` is memory of the stand-in itself,
    // which no caller has, so that they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len()) };
}
