//! Sixteen words a vector: AVX-512 with F, BW, DQ, VL and VBMI2.

#[allow(clippy::wildcard_imports, reason = "nearly every line names an intrinsic")]
use std::arch::x86_64::*;

use super::{HeadShuffle, LANE_BITS, Simd, level, x86};

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
    unsafe fn copy_head<const STRIDE: usize>(
        from: *const u8,
        shuffle: &HeadShuffle,
        mask: u32,
        xor: u32,
        to: *mut u32,
    ) {
        unsafe { x86::copy_head::<STRIDE>(from, shuffle, mask, xor, to) }
    }
    #[inline(always)]
    unsafe fn copy_lane<const STRIDE: usize>(
        mut from: *const u8,
        n: usize,
        reversed: bool,
        mask: u32,
        xor: u32,
        to: *mut u32,
    ) {
        unsafe {
            let iota = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            let mut done = 0;
            while done < n {
                let now = (n - done).min(16);
                let low = _mm_set_epi32(
                    from.add(3 * STRIDE).cast::<i32>().read_unaligned(),
                    from.add(2 * STRIDE).cast::<i32>().read_unaligned(),
                    from.add(STRIDE).cast::<i32>().read_unaligned(),
                    from.cast::<i32>().read_unaligned(),
                );
                let high = _mm_set_epi32(
                    from.add(7 * STRIDE).cast::<i32>().read_unaligned(),
                    from.add(6 * STRIDE).cast::<i32>().read_unaligned(),
                    from.add(5 * STRIDE).cast::<i32>().read_unaligned(),
                    from.add(4 * STRIDE).cast::<i32>().read_unaligned(),
                );
                let pairs = _mm256_set_m128i(high, low);
                let mut v = _mm512_cvtepu16_epi32(pairs);
                v = _mm512_ternarylogic_epi32::<0x78>(_mm512_set1_epi32(xor as i32), v, _mm512_set1_epi32(mask as i32));
                let mut place = done;
                if reversed {
                    v = _mm512_permutexvar_epi32(_mm512_sub_epi32(_mm512_set1_epi32(now as i32 - 1), iota), v);
                    place = n - done - now;
                }
                _mm512_mask_storeu_epi32(to.add(place).cast(), first(now), v);
                done += 16;
                from = from.add(8 * STRIDE);
            }
        }
    }
}

/// The first `n <= 16` bits.
#[inline(always)]
const fn first(n: usize) -> u16 {
    ((1u32 << n) - 1) as u16
}

level!(Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt");
