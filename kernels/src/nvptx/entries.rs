//! Entry points.
use super::Hardware;
use crate::block::{Global, GlobalMut};
/// First launch of the scan.
///
/// # Safety
/// x
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn prefix_sum_tiles(
    counts: *const u32,
    counts_len: u32,
    offsets: *mut u32,
    offsets_len: u32,
    totals: *mut u32,
    totals_len: u32,
) {
    unsafe {
        crate::prefix_sum::prefix_sum_tiles(
            &Hardware,
            Global::new(counts, counts_len),
            GlobalMut::new(offsets, offsets_len, 0),
            GlobalMut::new(totals, totals_len, 0),
        )
    }
}
