//! What the levels of x86-64 do alike.
#![allow(clippy::inline_always, reason = "as the trait's methods")]

use crate::decoder::cpu::lanes::{V5_COUNTS, V5_HEADS};
use std::arch::x86_64::{
    __m128i, _MM_HINT_T0, _MM_HINT_T1, _mm_and_si128, _mm_cvtepu16_epi32, _mm_loadl_epi64, _mm_prefetch, _mm_set_epi32,
    _mm_set1_epi32, _mm_storeu_si128, _mm_xor_si128,
};

/// [`Simd::prefetch`](super::Simd::prefetch).
#[inline(always)]
pub fn prefetch(at: *const u8) {
    // SAFETY: a hint: no address is wrong.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

/// [`Simd::prefetch_far`](super::Simd::prefetch_far).
#[inline(always)]
pub fn prefetch_far(at: *const u8) {
    // SAFETY: as above.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
}

/// Byte shuffle that brings the count of each lane, from the header of a v5 bank, to all bytes of its head. The first two
/// are no heads.
pub static COUNTS_OF_V5_HEADS: [u64; 8] = {
    let mut shuffle = [u64::MAX; 8];
    let mut lane = 0;
    while lane < V5_COUNTS.len() {
        shuffle[V5_HEADS[lane] as usize] = V5_COUNTS[lane] as u64 * 0x0101_0101_0101_0101;
        lane += 1;
    }
    shuffle
};

/// Byte shuffle that leaves heads as they are; in each half of a vector are two.
pub static FROM_THE_FIRST: [u64; 8] = {
    let (first, second) = (0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908);
    [first, second, first, second, first, second, first, second]
};

/// With twice the number of its hits added to each byte of a head: byte shuffle that begins with the last one.
pub static FROM_THE_LAST: [u64; 8] = {
    let (first, second) = (0xF9F8_FBFA_FDFC_FFFE, 0x0100_0302_0504_0706);
    [first, second, first, second, first, second, first, second]
};

/// [`Simd::copy_head`](super::Simd::copy_head).
///
/// # Safety
/// As the method; the CPU has SSE4.1.
#[inline(always)]
pub unsafe fn copy_head(head: *const u64, mask: u32, xor: u32, to: *mut u32) {
    // SAFETY: the caller's.
    unsafe {
        let v = _mm_cvtepu16_epi32(_mm_loadl_epi64(head.cast()));
        // With AVX-512, the compiler makes one instruction of the two.
        let v = _mm_and_si128(v, _mm_set1_epi32(mask as i32));
        _mm_storeu_si128(to.cast(), _mm_xor_si128(v, _mm_set1_epi32(xor as i32)));
    }
}

/// The pairs of hits of four rows.
///
/// # Safety
/// `from` and three places after it, `STRIDE` bytes apart, have four bytes each.
#[inline(always)]
pub unsafe fn four_pairs<const STRIDE: usize>(from: *const u8) -> __m128i {
    // SAFETY: the caller's.
    unsafe {
        _mm_set_epi32(
            from.add(3 * STRIDE).cast::<i32>().read_unaligned(),
            from.add(2 * STRIDE).cast::<i32>().read_unaligned(),
            from.add(STRIDE).cast::<i32>().read_unaligned(),
            from.cast::<i32>().read_unaligned(),
        )
    }
}
