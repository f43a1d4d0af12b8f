//! Code that the levels of x86-64 share.
#![allow(clippy::inline_always, reason = "as the trait's methods")]

#[allow(
    clippy::wildcard_imports,
    reason = "nearly every line names an intrinsic"
)]
use std::arch::x86_64::*;

use super::{EACH_BYTE, LANE_BITS, REVERSE};

#[inline(always)]
pub fn prefetch(at: *const u8) {
    // SAFETY: a hint: no address is wrong.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

#[inline(always)]
pub fn prefetch_far(at: *const u8) {
    // SAFETY: a hint: no address is wrong, and every x86-64 CPU has the instruction.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
}

/// Shuffles of the first eight hits of a lane, 16 bits each: by direction, then by number of hits.
static SHUFFLES: [[[u8; 16]; 1 << 8]; 2] = {
    // Bytes with bit 7 set become 0.
    let mut shuffles = [[[0x80; 16]; 1 << 8]; 2];
    let mut n = 0;
    while n < 1 << 8 {
        let mut i = 0;
        while i < 8 {
            shuffles[0][n][2 * i] = 2 * i as u8;
            shuffles[0][n][2 * i + 1] = 2 * i as u8 + 1;
            if i < n && n <= 8 {
                let hit = n - 1 - i;
                shuffles[1][n][2 * i] = 2 * hit as u8;
                shuffles[1][n][2 * i + 1] = 2 * hit as u8 + 1;
            }
            i += 1;
        }
        n += 1;
    }
    shuffles
};

/// [`Simd::copy_start`](super::Simd::copy_start) of `START` hits, 4 or 8.
///
/// # Safety
/// - as the method;
/// - the CPU has AVX2.
#[inline(always)]
pub unsafe fn copy_start<const STRIDE: usize, const START: usize>(
    from: *const u8,
    n: u8,
    direction: u16,
    mask: u32,
    xor: u32,
    to: *mut u32,
) {
    debug_assert!(direction == 0 || direction == REVERSE);
    // In halves of shuffles: one instruction computes the place.
    let half = u32::from(direction) + 2 * u32::from(n);
    // SAFETY:
    // - `START / 2` pairs can be read and `START` words written, by the method's first and third
    //   precondition;
    // - the direction is 0 or `REVERSE`, by its second, and `n` is below 256: a whole shuffle
    //   begins at that half;
    // - the CPU has AVX2, by this function's second precondition.
    unsafe {
        let shuffle = _mm_loadu_si128(
            SHUFFLES
                .as_ptr()
                .cast::<[u8; 8]>()
                .add(half as usize)
                .cast(),
        );
        let hits = if START == 8 {
            four_pairs::<STRIDE>(from)
        } else {
            two_pairs::<STRIDE>(from)
        };
        let hits = _mm_shuffle_epi8(hits, shuffle);
        if START == 8 {
            let hits =
                _mm256_and_si256(_mm256_cvtepu16_epi32(hits), _mm256_set1_epi32(mask as i32));
            _mm256_storeu_si256(
                to.cast(),
                _mm256_xor_si256(hits, _mm256_set1_epi32(xor as i32)),
            );
        } else {
            let hits = _mm_and_si128(_mm_cvtepu16_epi32(hits), _mm_set1_epi32(mask as i32));
            _mm_storeu_si128(to.cast(), _mm_xor_si128(hits, _mm_set1_epi32(xor as i32)));
        }
    }
}

/// ORed into v4 words from place 17 - n on, it keeps the first n and turns the others into words of
/// lane 7. 17, not 16: the word after a full vector is compared with its last one.
static BEHIND: [u16; 34] = {
    let mut words = [0; 34];
    let mut i = 17;
    while i < 34 {
        words[i] = LANE_BITS;
        i += 1;
    }
    words
};

/// [`Simd::lane_ends`](super::Simd::lane_ends).
///
/// # Safety
/// - as the method;
/// - the CPU has AVX2.
#[inline(always)]
pub unsafe fn lane_ends(words: *const u8, n: usize) -> (u64, bool) {
    // SAFETY:
    // - the words and 66 bytes more can be read, by the method's precondition: 16 words from any
    //   and from the next;
    // - 17 words begin at each of the places 0 to 17 of `BEHIND`;
    // - the CPU has AVX2, by this function's second precondition.
    unsafe {
        let bits = _mm256_set1_epi16(LANE_BITS as i16);
        let one = _mm256_set1_epi64x(1);
        let mut counts = _mm256_setzero_si256();
        let mut falls = _mm256_setzero_si256();
        let mut done = 0;
        // 16 words at a time. Those behind the last count for lane 7, which does not exist.
        loop {
            let left = n - done;
            let behind = BEHIND.as_ptr().add(17 - left.min(17));
            let lanes = _mm256_or_si256(
                _mm256_loadu_si256(words.add(2 * done).cast()),
                _mm256_loadu_si256(behind.cast()),
            );
            let lanes = _mm256_and_si256(lanes, bits);
            let next = _mm256_loadu_si256(words.add(2 * done + 2).cast());
            let next = _mm256_or_si256(next, _mm256_loadu_si256(behind.add(1).cast()));
            falls = _mm256_or_si256(
                falls,
                _mm256_cmpgt_epi16(lanes, _mm256_and_si256(next, bits)),
            );
            // Eight times the lane: a shift to its byte.
            let shifts = _mm256_srli_epi16::<8>(lanes);
            for half in [
                _mm256_castsi256_si128(shifts),
                _mm256_extracti128_si256::<1>(shifts),
            ] {
                let low = _mm256_sllv_epi64(one, _mm256_cvtepu16_epi64(half));
                let high = _mm256_sllv_epi64(one, _mm256_cvtepu16_epi64(_mm_srli_si128::<8>(half)));
                counts = _mm256_add_epi64(counts, _mm256_add_epi64(low, high));
            }
            if left <= 16 {
                break;
            }
            done += 16;
        }
        let counts = _mm_add_epi64(
            _mm256_castsi256_si128(counts),
            _mm256_extracti128_si256::<1>(counts),
        );
        let counts = _mm_add_epi64(counts, _mm_unpackhi_epi64(counts, counts));
        (
            (_mm_cvtsi128_si64(counts) as u64).wrapping_mul(EACH_BYTE),
            _mm256_testz_si256(falls, falls) != 0,
        )
    }
}

/// By direction and number of hits: the hits for the first four places, and those for the last
/// four.
static BLOCKS: [[[u32; 8]; 16]; 2] = {
    let mut blocks = [[[0; 8]; 16]; 2];
    let mut n = 4;
    while n <= 8 {
        let mut i = 0;
        while i < 8 {
            let place = if i < 4 { i } else { n + i - 8 };
            blocks[0][n][i] = place as u32;
            blocks[1][n][i] = (n - 1 - place) as u32;
            i += 1;
        }
        n += 1;
    }
    blocks
};

/// [`Simd::copy_block`](super::Simd::copy_block), of up to eight hits.
///
/// # Safety
/// - as the method, and `n` is 8 at most;
/// - the CPU has AVX2.
#[inline(always)]
pub unsafe fn copy_block<const STRIDE: usize>(
    from: *const u8,
    n: usize,
    direction: u16,
    mask: u32,
    xor: u32,
    to: *mut u32,
) {
    debug_assert!((5..=8).contains(&n) && direction / REVERSE <= 1);
    // SAFETY:
    // - `BLOCKS` has 16 entries a direction, and one for each number, by this function's first
    //   precondition;
    // - four pairs can be read and `n` words written, by the same: both halves are within these, as
    //   `n` is above 4;
    // - the CPU has AVX2, by its second.
    unsafe {
        let places = BLOCKS
            .as_ptr()
            .cast::<[u32; 8]>()
            .add(usize::from(direction / (REVERSE / 16)) + n);
        let hits = _mm_and_si128(four_pairs::<STRIDE>(from), _mm_set1_epi16(mask as i16));
        let places = _mm256_loadu_si256(places.cast());
        let words = _mm256_permutevar8x32_epi32(_mm256_cvtepu16_epi32(hits), places);
        let words = _mm256_xor_si256(words, _mm256_set1_epi32(xor as i32));
        // Two halves, which overlap: some CPUs take very long for masked stores.
        _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(words));
        _mm_storeu_si128(to.add(n - 4).cast(), _mm256_extracti128_si256::<1>(words));
    }
}

/// Loads the pairs of hits of two rows.
///
/// # Safety
/// `from` and the place after it, `STRIDE` bytes further, have four bytes each.
#[inline(always)]
unsafe fn two_pairs<const STRIDE: usize>(from: *const u8) -> __m128i {
    // SAFETY: four bytes can be read at both places, by this function's precondition; every x86-64
    // CPU has SSE2.
    unsafe {
        let first = _mm_cvtsi32_si128(from.cast::<i32>().read_unaligned());
        _mm_unpacklo_epi32(
            first,
            _mm_cvtsi32_si128(from.add(STRIDE).cast::<i32>().read_unaligned()),
        )
    }
}

/// Loads the pairs of hits of four rows.
///
/// # Safety
/// `from` and three places after it, `STRIDE` bytes apart, have four bytes each.
#[inline(always)]
pub unsafe fn four_pairs<const STRIDE: usize>(from: *const u8) -> __m128i {
    // SAFETY: four bytes can be read at each place, by this function's precondition; every x86-64
    // CPU has SSE2.
    unsafe {
        if STRIDE == 4 {
            return _mm_loadu_si128(from.cast());
        }
        _mm_set_epi32(
            from.add(3 * STRIDE).cast::<i32>().read_unaligned(),
            from.add(2 * STRIDE).cast::<i32>().read_unaligned(),
            from.add(STRIDE).cast::<i32>().read_unaligned(),
            from.cast::<i32>().read_unaligned(),
        )
    }
}
