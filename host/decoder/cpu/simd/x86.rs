//! What the levels of x86-64 do alike.
#![allow(clippy::inline_always, reason = "as the trait's methods")]

use std::arch::x86_64::{
    __m128i, _MM_HINT_T0, _MM_HINT_T1, _mm_and_si128, _mm_cvtsi32_si128, _mm_load_si128, _mm_prefetch, _mm_set_epi32,
    _mm_set1_epi32, _mm_shuffle_epi8, _mm_storeu_si128, _mm_unpacklo_epi32, _mm_xor_si128,
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
    // SAFETY: a hint: no address is wrong, and every x86-64 CPU has the instruction.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
}

/// Shuffles of the first four hits of a lane, 16 bits each, to words of 32 bits: by direction and number of hits.
#[repr(align(16))]
struct Shuffles([[[u8; 16]; 1 << u8::BITS]; 2]);

static SHUFFLES: Shuffles = Shuffles({
    // Bytes with bit 7 set become 0.
    let mut shuffles = [[[0x80; 16]; 1 << u8::BITS]; 2];
    let mut n = 0;
    while n < 1 << u8::BITS {
        let mut i = 0;
        while i < 4 {
            shuffles[0][n][4 * i] = 2 * i as u8;
            shuffles[0][n][4 * i + 1] = 2 * i as u8 + 1;
            if i < n && n <= 4 {
                let hit = n - 1 - i;
                shuffles[1][n][4 * i] = 2 * hit as u8;
                shuffles[1][n][4 * i + 1] = 2 * hit as u8 + 1;
            }
            i += 1;
        }
        n += 1;
    }
    shuffles
});

/// [`Simd::copy_start`](super::Simd::copy_start).
///
/// # Safety
/// - as the method;
/// - the CPU has SSE4.1.
#[inline(always)]
pub unsafe fn copy_start<const STRIDE: usize>(
    from: *const u8,
    n: u8,
    backwards: u8,
    mask: u32,
    xor: u32,
    to: *mut u32,
) {
    debug_assert!(backwards <= 1);
    // SAFETY: `SHUFFLES` has a table for each direction, and `backwards` is 0 or 1, by the method's second
    // precondition.
    let shuffle = unsafe { &SHUFFLES.0.get_unchecked(usize::from(backwards))[usize::from(n)] };
    // SAFETY:
    // - two pairs can be read and four words can be written, by the method's first and third precondition;
    // - the shuffle is 16 bytes, aligned to 16: all before it in `SHUFFLES`, which is so aligned, are as large;
    // - the CPU has SSE4.1, by this function's second precondition, and with it SSSE3 and SSE2.
    unsafe {
        let first = _mm_cvtsi32_si128(from.cast::<i32>().read_unaligned());
        let second = _mm_cvtsi32_si128(from.add(STRIDE).cast::<i32>().read_unaligned());
        let hits = _mm_unpacklo_epi32(first, second);
        let hits = _mm_shuffle_epi8(hits, _mm_load_si128(shuffle.as_ptr().cast()));
        let hits = _mm_and_si128(hits, _mm_set1_epi32(mask as i32));
        _mm_storeu_si128(to.cast(), _mm_xor_si128(hits, _mm_set1_epi32(xor as i32)));
    }
}

/// The pairs of hits of four rows.
///
/// # Safety
/// `from` and three places after it, `STRIDE` bytes apart, have four bytes each.
#[inline(always)]
pub unsafe fn four_pairs<const STRIDE: usize>(from: *const u8) -> __m128i {
    // SAFETY: four bytes can be read at each of the four places, by this function's precondition, and the reads need no
    // alignment; every x86-64 CPU has SSE2.
    unsafe {
        _mm_set_epi32(
            from.add(3 * STRIDE).cast::<i32>().read_unaligned(),
            from.add(2 * STRIDE).cast::<i32>().read_unaligned(),
            from.add(STRIDE).cast::<i32>().read_unaligned(),
            from.cast::<i32>().read_unaligned(),
        )
    }
}
