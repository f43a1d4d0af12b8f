//! Eight words a vector: AVX2 with BMI.

#[allow(clippy::wildcard_imports, reason = "nearly every line names an intrinsic")]
use std::arch::x86_64::*;

use super::{LANE_BITS, Simd, level, x86};

/// The AVX2 level.
#[derive(Clone, Copy, Debug)]
pub struct Avx2;

/// For each set of bits the lanes that it names, in order.
static COMPRESS: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut lane, mut n) = (0, 0);
        while lane < 8 {
            if bits >> lane & 1 != 0 {
                table[bits][n] = lane as u8;
                n += 1;
            }
            lane += 1;
        }
        bits += 1;
    }
    table
};

#[expect(clippy::inline_always, reason = "see the trait")]
// SAFETY of every block below: the caller's, as the trait says.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
impl Simd for Avx2 {
    const LANES: usize = 8;
    const WINDOW: u32 = 16;
    type U = __m256i;
    type F = __m256;

    #[inline(always)]
    unsafe fn splat(value: u32) -> Self::U {
        unsafe { _mm256_set1_epi32(value as i32) }
    }
    #[inline(always)]
    unsafe fn splat_f(value: f32) -> Self::F {
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self::U {
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut u32, v: Self::U) {
        unsafe { _mm256_storeu_si256(to.cast(), v) }
    }
    #[inline(always)]
    unsafe fn store_some(to: *mut u32, v: Self::U, bits: u32) {
        unsafe { _mm256_maskstore_epi32(to.cast(), lanes_of(bits), v) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn sub(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_sub_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn and(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn xor(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn min(a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_min_epu32(a, b) }
    }
    #[inline(always)]
    unsafe fn shl<const N: u32>(a: Self::U) -> Self::U {
        unsafe { _mm256_sll_epi32(a, _mm_cvtsi32_si128(N as i32)) }
    }
    #[inline(always)]
    unsafe fn shr<const N: u32>(a: Self::U) -> Self::U {
        unsafe { _mm256_srl_epi32(a, _mm_cvtsi32_si128(N as i32)) }
    }
    #[inline(always)]
    unsafe fn spread_sign(a: Self::U) -> Self::U {
        unsafe { _mm256_srai_epi32::<31>(a) }
    }
    #[inline(always)]
    unsafe fn mul_small(a: Self::U, b: Self::U) -> Self::U {
        // The high halves are 0: the sum of both products is the low one.
        unsafe { _mm256_madd_epi16(a, b) }
    }
    #[inline(always)]
    unsafe fn eq(a: Self::U, b: Self::U) -> u32 {
        unsafe { sign_bits(_mm256_cmpeq_epi32(a, b)) }
    }
    #[inline(always)]
    unsafe fn le(a: Self::U, b: Self::U) -> u32 {
        unsafe { sign_bits(_mm256_cmpgt_epi32(a, b)) ^ 0xFF }
    }
    #[inline(always)]
    unsafe fn prefix_sum(a: Self::U) -> Self::U {
        unsafe {
            let a = _mm256_add_epi32(a, _mm256_slli_si256::<4>(a));
            let a = _mm256_add_epi32(a, _mm256_slli_si256::<8>(a));
            // The last of the low half to all of the high half.
            let low = _mm256_shuffle_epi32::<0xFF>(_mm256_permute2x128_si256::<0x08>(a, a));
            _mm256_add_epi32(a, low)
        }
    }
    #[inline(always)]
    unsafe fn spread_last(a: Self::U) -> Self::U {
        unsafe { _mm256_permutevar8x32_epi32(a, _mm256_set1_epi32(7)) }
    }
    #[inline(always)]
    unsafe fn compress_store(to: *mut u32, v: Self::U, bits: u32) {
        unsafe {
            let lanes = COMPRESS.get_unchecked(bits as usize & 0xFF);
            let lanes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(lanes.as_ptr().cast()));
            Self::store(to, _mm256_permutevar8x32_epi32(v, lanes));
        }
    }
    #[inline(always)]
    unsafe fn to_float(a: Self::U) -> Self::F {
        unsafe { _mm256_cvtepi32_ps(a) }
    }
    #[inline(always)]
    unsafe fn truncate(a: Self::F) -> Self::U {
        unsafe { _mm256_cvttps_epi32(a) }
    }
    #[inline(always)]
    unsafe fn add_f(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn sub_f(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn mul_f(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div_f(a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn bits(a: Self::F) -> Self::U {
        unsafe { _mm256_castps_si256(a) }
    }
    #[inline(always)]
    unsafe fn from_bits(a: Self::U) -> Self::F {
        unsafe { _mm256_castsi256_ps(a) }
    }
    #[inline(always)]
    unsafe fn select_by_sign(sign: Self::U, yes: Self::F, no: Self::F) -> Self::F {
        unsafe { _mm256_blendv_ps(no, yes, Self::from_bits(sign)) }
    }
    #[inline(always)]
    unsafe fn shift_in(before: Self::U, v: Self::U) -> Self::U {
        unsafe { _mm256_alignr_epi8::<12>(v, _mm256_permute2x128_si256::<0x21>(before, v)) }
    }
    #[inline(always)]
    unsafe fn keep(v: Self::U, bits: u32) -> Self::U {
        unsafe { _mm256_and_si256(v, lanes_of(bits)) }
    }
    #[inline(always)]
    unsafe fn not_less(a: Self::F, b: Self::F) -> u32 {
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NLT_UQ>(a, b)) as u32 }
    }
    #[inline(always)]
    unsafe fn lookup_window(window: *const u32, index: Self::U) -> Self::U {
        unsafe {
            // Of each index, the low three bits count.
            let low = _mm256_permutevar8x32_epi32(Self::load(window), index);
            let high = _mm256_permutevar8x32_epi32(Self::load(window.add(8)), index);
            let bit_3 = _mm256_slli_epi32::<28>(index);
            Self::bits(Self::select_by_sign(bit_3, Self::from_bits(high), Self::from_bits(low)))
        }
    }
    #[inline(always)]
    unsafe fn lookup(table: *const u32, index: Self::U) -> Self::U {
        unsafe { _mm256_i32gather_epi32::<4>(table.cast(), index) }
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
            let (zero, four) = (_mm256_setzero_si256(), _mm256_set1_epi8(4));
            let (a, b) = (_mm256_loadu_si256(counts.cast()), _mm256_loadu_si256(counts.add(32).cast()));
            let none_a = _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, zero)) as u32;
            let none_b = _mm256_movemask_epi8(_mm256_cmpeq_epi8(b, zero)) as u32;
            let few_a = _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, _mm256_min_epu8(a, four))) as u32;
            let few_b = _mm256_movemask_epi8(_mm256_cmpeq_epi8(b, _mm256_min_epu8(b, four))) as u32;
            (!(u64::from(none_a) | u64::from(none_b) << 32), !(u64::from(few_a) | u64::from(few_b) << 32))
        }
    }
    #[inline(always)]
    unsafe fn lane_ends(words: *const u8, n: usize) -> Option<u64> {
        unsafe {
            let (lanes, next) = (lanes_as_bytes(words), lanes_as_bytes(words.add(2)));
            let live = ((1u64 << n) - 1) as u32;
            if _mm256_movemask_epi8(_mm256_cmpgt_epi8(lanes, next)) as u32 & live >> 1 != 0 {
                return None;
            }
            let mut ends = (n as u64) << 48 | (n as u64) << 56;
            for lane in 0..6 {
                let beyond = _mm256_movemask_epi8(_mm256_cmpgt_epi8(lanes, _mm256_set1_epi8(lane))) as u32;
                ends |= u64::from((!beyond & live).count_ones()) << (8 * lane);
            }
            Some(ends)
        }
    }
    #[inline(always)]
    unsafe fn v5_heads(payload: *const u8, reversed: u8, to: *mut u64) {
        unsafe {
            let (first, second) = (_mm256_loadu_si256(payload.cast()), _mm256_loadu_si256(payload.add(32).cast()));
            // Of each lane, a pair of each of the two rows.
            let heads = [_mm256_unpacklo_epi32(first, second), _mm256_unpackhi_epi32(first, second)];
            let header = _mm256_set1_epi64x(payload.cast::<i64>().read_unaligned());
            let reversed = _mm256_set1_epi64x(i64::from(reversed));
            for (half, heads) in heads.into_iter().enumerate() {
                let of_half = |all: &[u64; 8]| _mm256_loadu_si256(all.as_ptr().add(4 * half).cast());
                let counts = _mm256_shuffle_epi8(header, of_half(&x86::COUNTS_OF_V5_HEADS));
                let backwards = _mm256_add_epi8(_mm256_add_epi8(counts, counts), of_half(&x86::FROM_THE_LAST));
                let bits = of_half(&[1, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7]);
                let reversed = _mm256_cmpeq_epi64(_mm256_and_si256(reversed, bits), bits);
                let places = _mm256_blendv_epi8(of_half(&x86::FROM_THE_FIRST), backwards, reversed);
                _mm256_storeu_si256(to.add(4 * half).cast(), _mm256_shuffle_epi8(heads, places));
            }
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
            let iota = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
            let (mask, xor) = (_mm256_set1_epi32(mask as i32), _mm256_set1_epi32(xor as i32));
            // Word i comes from place i, or from ~i + now.
            let flip = _mm256_set1_epi32(i32::from(backwards));
            let backwards = backwards as usize;
            let mut done = 0;
            while done < n {
                let now = (n - done).min(8);
                let of_now = _mm256_set1_epi32(now as i32);
                let v = _mm256_cvtepu16_epi32(x86::four_pairs::<STRIDE>(from));
                let v = _mm256_xor_si256(_mm256_and_si256(v, mask), xor);
                let from_place = _mm256_add_epi32(_mm256_xor_si256(iota, flip), _mm256_and_si256(flip, of_now));
                let v = _mm256_permutevar8x32_epi32(v, from_place);
                let to = to.add(done.wrapping_add(backwards & n.wrapping_sub(2 * done + now))).cast();
                // What lies behind is written as it was: some CPUs take very long for masked stores.
                let live = _mm256_cmpgt_epi32(of_now, iota);
                _mm256_storeu_si256(to, _mm256_blendv_epi8(_mm256_loadu_si256(to), v, live));
                done += 8;
                from = from.add(4 * STRIDE);
            }
        }
    }
}

/// Bit 31 of each lane.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn sign_bits(a: __m256i) -> u32 {
    // SAFETY: the caller's.
    unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(a)) as u32 }
}

/// The read-out lanes that 32 v4 words name, a byte each.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn lanes_as_bytes(words: *const u8) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let bits = _mm256_set1_epi16(LANE_BITS as i16);
        let low = _mm256_srli_epi16::<11>(_mm256_and_si256(_mm256_loadu_si256(words.cast()), bits));
        let high = _mm256_srli_epi16::<11>(_mm256_and_si256(_mm256_loadu_si256(words.add(32).cast()), bits));
        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(low, high))
    }
}

/// All ones in the lanes whose bit is set.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn lanes_of(bits: u32) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let bit = _mm256_set_epi32(1 << 7, 1 << 6, 1 << 5, 1 << 4, 1 << 3, 1 << 2, 1 << 1, 1);
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits as i32), bit), bit)
    }
}

level!(Avx2, "avx2,bmi1,bmi2,lzcnt,popcnt");
