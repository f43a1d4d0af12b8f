//! Sixteen words a vector: AVX-512 with F, BW, DQ, VL and VBMI2.

#[allow(clippy::wildcard_imports, reason = "nearly every line names an intrinsic")]
use std::arch::x86_64::*;

use super::{LANE_BITS, Simd, level, v4_heads_by_lanes, x86};

/// The AVX-512 level.
#[derive(Clone, Copy, Debug)]
pub struct Avx512;

#[expect(clippy::inline_always, reason = "see the trait")]
// SAFETY of every block below: the caller's, as the trait says.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
impl Simd for Avx512 {
    const LANES: usize = 16;
    const WINDOW: u32 = 32;
    type U = __m512i;
    type F = __m512;

    #[inline(always)]
    unsafe fn splat(value: u32) -> Self::U {
        unsafe { _mm512_set1_epi32(value as i32) }
    }
    #[inline(always)]
    unsafe fn splat_f(value: f32) -> Self::F {
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self::U {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut u32, v: Self::U) {
        unsafe { _mm512_storeu_si512(to.cast(), v) }
    }
    #[inline(always)]
    unsafe fn store_some(to: *mut u32, v: Self::U, bits: u32) {
        unsafe { _mm512_mask_storeu_epi32(to.cast(), bits as u16, v) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn and(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn xor(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_min_epu32(a, b) }
    }
    #[inline(always)]
    unsafe fn shl<const N: u32>(a: Self::U) -> Self::U {
        unsafe { _mm512_slli_epi32::<N>(a) }
    }
    #[inline(always)]
    unsafe fn shr<const N: u32>(a: Self::U) -> Self::U {
        unsafe { _mm512_srli_epi32::<N>(a) }
    }
    #[inline(always)]
    unsafe fn spread_sign(a: Self::U) -> Self::U {
        unsafe { _mm512_srai_epi32::<31>(a) }
    }
    #[inline(always)]
    unsafe fn mul_small(a: Self::U, b: Self::U) -> Self::U {
        // The high halves are 0: the sum of both products is the low one.
        unsafe { _mm512_madd_epi16(a, b) }
    }
    #[inline(always)]
    unsafe fn eq(a: Self::U, b: Self::U) -> u32 {
        unsafe { u32::from(_mm512_cmpeq_epi32_mask(a, b)) }
    }
    #[inline(always)]
    unsafe fn le(a: Self::U, b: Self::U) -> u32 {
        unsafe { u32::from(_mm512_cmple_epu32_mask(a, b)) }
    }
    #[inline(always)]
    unsafe fn prefix_sum(a: Self::U) -> Self::U {
        unsafe {
            let zero = _mm512_setzero_si512();
            let a = _mm512_add_epi32(a, _mm512_alignr_epi32::<15>(a, zero));
            let a = _mm512_add_epi32(a, _mm512_alignr_epi32::<14>(a, zero));
            let a = _mm512_add_epi32(a, _mm512_alignr_epi32::<12>(a, zero));
            _mm512_add_epi32(a, _mm512_alignr_epi32::<8>(a, zero))
        }
    }
    #[inline(always)]
    unsafe fn spread_last(a: Self::U) -> Self::U {
        unsafe { _mm512_permutexvar_epi32(_mm512_set1_epi32(15), a) }
    }
    #[inline(always)]
    unsafe fn compress_store(to: *mut u32, v: Self::U, bits: u32) {
        // Into a register and then out: compressing into memory is microcode on some CPUs.
        unsafe { _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(bits as u16, v)) }
    }
    #[inline(always)]
    unsafe fn to_float(a: Self::U) -> Self::F {
        unsafe { _mm512_cvtepi32_ps(a) }
    }
    #[inline(always)]
    unsafe fn truncate(a: Self::F) -> Self::U {
        unsafe { _mm512_cvttps_epi32(a) }
    }
    #[inline(always)]
    unsafe fn add_f(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub_f(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul_f(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div_f(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn bits(a: Self::F) -> Self::U {
        unsafe { _mm512_castps_si512(a) }
    }
    #[inline(always)]
    unsafe fn from_bits(a: Self::U) -> Self::F {
        unsafe { _mm512_castsi512_ps(a) }
    }
    #[inline(always)]
    unsafe fn select_by_sign(sign: Self::U, yes: Self::F, no: Self::F) -> Self::F {
        unsafe { _mm512_mask_blend_ps(_mm512_movepi32_mask(sign), no, yes) }
    }
    #[inline(always)]
    unsafe fn shift_in(before: Self::U, v: Self::U) -> Self::U {
        unsafe { _mm512_alignr_epi32::<15>(v, before) }
    }
    #[inline(always)]
    unsafe fn keep(v: Self::U, bits: u32) -> Self::U {
        unsafe { _mm512_maskz_mov_epi32(bits as u16, v) }
    }
    #[inline(always)]
    unsafe fn not_less(a: Self::F, b: Self::F) -> u32 {
        unsafe { u32::from(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(a, b)) }
    }
    #[inline(always)]
    unsafe fn lookup_window(window: *const u32, index: Self::U) -> Self::U {
        unsafe { _mm512_permutex2var_epi32(Self::load(window), index, Self::load(window.add(16))) }
    }
    #[inline(always)]
    unsafe fn lookup_16(table: *const u32, index: Self::U) -> Self::U {
        unsafe { _mm512_permutexvar_epi32(index, Self::load(table)) }
    }
    #[inline(always)]
    unsafe fn lookup(table: *const u32, index: Self::U) -> Self::U {
        unsafe { _mm512_i32gather_epi32::<4>(index, table.cast()) }
    }
    #[inline(always)]
    fn prefetch(at: *const u8) {
        x86::prefetch(at);
    }
    #[inline(always)]
    fn prefetch_far(at: *const u8) {
        x86::prefetch_far(at);
    }
    #[inline(always)]
    unsafe fn count_bits(counts: *const u8) -> (u64, u64) {
        unsafe {
            let v = _mm512_loadu_si512(counts.cast());
            (_mm512_test_epi8_mask(v, v), _mm512_cmpgt_epu8_mask(v, _mm512_set1_epi8(4)))
        }
    }
    #[inline(always)]
    unsafe fn list_bits(bits: u64, first: u16, to: *mut u16) -> usize {
        unsafe {
            let iota = _mm512_set_epi16(
                31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5,
                4, 3, 2, 1, 0,
            );
            let low = _mm512_add_epi16(iota, _mm512_set1_epi16(first as i16));
            let high = _mm512_add_epi16(low, _mm512_set1_epi16(32));
            _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi16(bits as u32, low));
            let n_low = (bits as u32).count_ones() as usize;
            _mm512_storeu_si512(to.add(n_low).cast(), _mm512_maskz_compress_epi16((bits >> 32) as u32, high));
            bits.count_ones() as usize
        }
    }
    #[inline(always)]
    unsafe fn lane_ends(words: *const u8, n: usize) -> Option<u64> {
        unsafe {
            let bits = _mm512_set1_epi16(LANE_BITS as i16);
            let lanes = _mm512_and_si512(_mm512_loadu_si512(words.cast()), bits);
            let next = _mm512_and_si512(_mm512_loadu_si512(words.add(2).cast()), bits);
            let live = ((1u64 << n) - 1) as u32;
            if _mm512_mask_cmpgt_epu16_mask(live >> 1, lanes, next) != 0 {
                return None;
            }
            let mut ends = (n as u64) << 48 | (n as u64) << 56;
            for lane in 0..6 {
                let up_to = _mm512_mask_cmple_epu16_mask(live, lanes, _mm512_set1_epi16(lane << 11));
                ends |= u64::from(up_to.count_ones()) << (8 * lane);
            }
            Some(ends)
        }
    }
    #[inline(always)]
    unsafe fn v5_heads(payload: *const u8, reversed: u8, to: *mut u64) {
        unsafe {
            // Of each lane, a pair of each of the two rows.
            let pairs = _mm512_set_epi32(15, 7, 14, 6, 11, 3, 10, 2, 13, 5, 12, 4, 9, 1, 8, 0);
            let heads = _mm512_permutexvar_epi32(pairs, _mm512_loadu_si512(payload.cast()));
            let header = _mm512_set1_epi64(payload.cast::<i64>().read_unaligned());
            let counts = _mm512_shuffle_epi8(header, eight(&x86::COUNTS_OF_V5_HEADS));
            let backwards = _mm512_add_epi8(_mm512_add_epi8(counts, counts), eight(&x86::FROM_THE_LAST));
            let places = _mm512_mask_blend_epi64(reversed, eight(&x86::FROM_THE_FIRST), backwards);
            _mm512_storeu_si512(to.cast(), _mm512_shuffle_epi8(heads, places));
        }
    }
    #[inline(always)]
    unsafe fn v4_heads(words: *const u8, n: usize, ends: u64, reversed: u8, to: *mut u64) {
        unsafe {
            if n > 32 {
                return v4_heads_by_lanes(words, ends, reversed, to);
            }
            // Byte i of `ends` to the four words of head i + 1, and to those of head i.
            let to_next = _mm512_set_epi64(of(6), of(5), of(4), of(3), of(2), of(1), of(0), -1);
            let to_same = _mm512_set_epi64(of(7), of(6), of(5), of(4), of(3), of(2), of(1), of(0));
            let ends = _mm512_set1_epi64(ends as i64);
            let begins = _mm512_shuffle_epi8(ends, to_next);
            let ends = _mm512_shuffle_epi8(ends, to_same);
            let forwards = _mm512_add_epi16(begins, _mm512_set1_epi64(0x0003_0002_0001_0000));
            let backwards = _mm512_sub_epi16(ends, _mm512_set1_epi64(0x0004_0003_0002_0001));
            let places = _mm512_mask_blend_epi64(reversed, forwards, backwards);
            let heads = _mm512_permutexvar_epi16(places, _mm512_loadu_si512(words.cast()));
            _mm512_storeu_si512(to.cast(), heads);
        }
    }
    #[inline(always)]
    unsafe fn copy_head(head: *const u64, mask: u32, xor: u32, to: *mut u32) {
        unsafe { x86::copy_head(head, mask, xor, to) }
    }
    #[inline(always)]
    unsafe fn copy_lane<const STRIDE: usize>(
        mut from: *const u8,
        n: usize,
        backwards: i8,
        mask: u32,
        xor: u32,
        to: *mut u32,
    ) {
        unsafe {
            let iota = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            let (mask, xor) = (_mm512_set1_epi32(mask as i32), _mm512_set1_epi32(xor as i32));
            // Word i comes from place i, or from ~i + now.
            let flip = _mm512_set1_epi32(i32::from(backwards));
            let backwards = backwards as usize;
            let mut done = 0;
            while done < n {
                let now = (n - done).min(16);
                let pairs =
                    _mm256_set_m128i(x86::four_pairs::<STRIDE>(from.add(4 * STRIDE)), x86::four_pairs::<STRIDE>(from));
                let v = _mm512_cvtepu16_epi32(pairs);
                let v = _mm512_ternarylogic_epi32::<0x78>(xor, v, mask);
                let last = _mm512_and_si512(flip, _mm512_set1_epi32(now as i32));
                let v = _mm512_permutexvar_epi32(_mm512_add_epi32(_mm512_xor_si512(iota, flip), last), v);
                let place = done.wrapping_add(backwards & n.wrapping_sub(2 * done + now));
                _mm512_mask_storeu_epi32(to.add(place).cast(), first(now), v);
                done += 16;
                from = from.add(8 * STRIDE);
            }
        }
    }
}

/// Of a shuffle: byte i as each of four words.
const fn of(i: i64) -> i64 {
    (0x8000_8000_8000_8000u64 as i64) + i * 0x0001_0001_0001_0001
}

/// A shuffle of eight heads.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn eight(of_heads: &[u64; 8]) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_loadu_si512(of_heads.as_ptr().cast()) }
}

/// The first `n <= 16` bits.
#[inline(always)]
const fn first(n: usize) -> u16 {
    ((1u32 << n) - 1) as u16
}

level!(Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt");
