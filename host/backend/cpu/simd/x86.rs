//! What the levels of x86-64 do alike.
#![allow(clippy::inline_always, reason = "as the trait's methods")]

use std::arch::x86_64::{
    _MM_HINT_T0, _MM_HINT_T1, _mm_and_si128, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_prefetch, _mm_set1_epi32,
    _mm_shuffle_epi8, _mm_storeu_si128, _mm_unpacklo_epi32, _mm_xor_si128,
};

use super::HeadShuffle;

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

/// [`Simd::copy_head`](super::Simd::copy_head).
///
/// # Safety
/// As the method; the CPU has SSSE3.
#[inline(always)]
pub unsafe fn copy_head<const STRIDE: usize>(
    from: *const u8,
    shuffle: &HeadShuffle,
    mask: u32,
    xor: u32,
    to: *mut u32,
) {
    // SAFETY: the caller's.
    unsafe {
        let first = _mm_cvtsi32_si128(from.cast::<i32>().read_unaligned());
        let second = _mm_cvtsi32_si128(from.add(STRIDE).cast::<i32>().read_unaligned());
        let v = _mm_shuffle_epi8(_mm_unpacklo_epi32(first, second), _mm_loadu_si128(shuffle.as_ptr().cast()));
        // With AVX-512, the compiler makes one instruction of the two.
        let v = _mm_and_si128(v, _mm_set1_epi32(mask as i32));
        _mm_storeu_si128(to.cast(), _mm_xor_si128(v, _mm_set1_epi32(xor as i32)));
    }
}
