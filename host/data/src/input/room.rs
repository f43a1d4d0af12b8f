//! Room for raw bytes, on huge pages where the system has some to give.
//!
//! A decoder goes through a batch of megabytes bank by bank. With pages of 4 kB each event lies on
//! five, and in a virtual machine to find where a page is takes as long as to read from the memory:
//! of the CPU decoder's time that was one part in twelve. The system makes huge pages only of
//! memory that has not been written yet.

use std::mem::MaybeUninit;

/// Reserves room for `more` bytes at the end of `bytes`.
pub fn make_room(bytes: &mut Vec<u8>, more: usize) {
    if bytes.capacity() - bytes.len() < more {
        let needed = (bytes.len() + more).max(2 * bytes.capacity());
        // The last byte lies on a huge page, too, if the page ends within the room.
        let mut larger = Vec::with_capacity(if needed < HUGE { needed } else { needed + HUGE });
        advise_huge_pages(larger.spare_capacity_mut());
        larger.extend_from_slice(bytes);
        *bytes = larger;
    }
}

/// Size of a huge page in bytes.
const HUGE: usize = 1 << 21;

/// Without them everything works the same, a little slower.
#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge_pages(room: &mut [MaybeUninit<u8>]) {
    let (before, len) = (room.as_ptr().align_offset(HUGE), room.len());
    let Some(whole) = len
        .checked_sub(before)
        .map(|len| len / HUGE * HUGE)
        .filter(|&whole| whole > 0)
    else {
        return;
    };
    // SAFETY:
    // - the pages are within the room, and no other allocation lies on them: they begin on a page,
    //   and end on one;
    // - this advice changes nothing that is in them.
    unsafe {
        libc::madvise(
            room[before..].as_mut_ptr().cast(),
            whole,
            libc::MADV_HUGEPAGE,
        )
    };
}

#[cfg(any(not(target_os = "linux"), miri))]
fn advise_huge_pages(_: &mut [MaybeUninit<u8>]) {}
