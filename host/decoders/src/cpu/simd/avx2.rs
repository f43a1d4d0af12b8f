//! Eight words per vector: AVX2 with BMI.

#[allow(
    clippy::wildcard_imports,
    reason = "nearly every line names an intrinsic"
)]
use std::arch::x86_64::*;

use super::{Simd, x86};

#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The CPU has AVX2, BMI1, BMI2, LZCNT and POPCNT.
    #[inline(always)]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

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
// SAFETY of every block below:
// - the CPU has the instructions: there is an `Avx2` only where `new`'s precondition says so;
// - a method's precondition in the trait allows its reads and writes through a pointer;
// - other loads are from a `counts` of 64 bytes and from `COMPRESS`, which has an entry for each 8
//   bits.
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all, above"
)]
impl Simd for Avx2 {
    const ELEMENTS: usize = 8;
    const WINDOW: u32 = 16;
    type U = __m256i;
    type F = __m256;

    #[inline(always)]
    fn splat(self, value: u32) -> Self::U {
        unsafe { _mm256_set1_epi32(value as i32) }
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> Self::F {
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> Self::U {
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32, v: Self::U) {
        unsafe { _mm256_storeu_si256(to.cast(), v) }
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut u32, v: Self::U, bits: u32) {
        unsafe { _mm256_maskstore_epi32(to.cast(), lanes_of(bits), v) }
    }
    #[inline(always)]
    fn add(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn and(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    fn xor(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    fn min(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_min_epu32(a, b) }
    }
    #[inline(always)]
    fn max(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm256_max_epu32(a, b) }
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: Self::U) -> Self::U {
        unsafe { _mm256_sll_epi32(a, _mm_cvtsi32_si128(N as i32)) }
    }
    #[inline(always)]
    fn shr<const N: u32>(self, a: Self::U) -> Self::U {
        unsafe { _mm256_srl_epi32(a, _mm_cvtsi32_si128(N as i32)) }
    }
    #[inline(always)]
    fn spread_sign(self, a: Self::U) -> Self::U {
        unsafe { _mm256_srai_epi32::<31>(a) }
    }
    #[inline(always)]
    fn mul_small(self, a: Self::U, b: Self::U) -> Self::U {
        // The high halves are 0: the sum of both products is the low one.
        unsafe { _mm256_madd_epi16(a, b) }
    }
    #[inline(always)]
    fn eq(self, a: Self::U, b: Self::U) -> u32 {
        unsafe { sign_bits(_mm256_cmpeq_epi32(a, b)) }
    }
    #[inline(always)]
    fn le(self, a: Self::U, b: Self::U) -> u32 {
        unsafe { sign_bits(_mm256_cmpgt_epi32(a, b)) ^ 0xFF }
    }
    #[inline(always)]
    fn prefix_sum(self, a: Self::U) -> Self::U {
        unsafe {
            let a = _mm256_add_epi32(a, _mm256_slli_si256::<4>(a));
            let a = _mm256_add_epi32(a, _mm256_slli_si256::<8>(a));
            // The last of the low half to all of the high half.
            let low = _mm256_shuffle_epi32::<0xFF>(_mm256_permute2x128_si256::<0x08>(a, a));
            _mm256_add_epi32(a, low)
        }
    }
    #[inline(always)]
    fn spread_last(self, a: Self::U) -> Self::U {
        unsafe { _mm256_permutevar8x32_epi32(a, _mm256_set1_epi32(7)) }
    }
    #[inline(always)]
    unsafe fn compress_store(self, to: *mut u32, v: Self::U, bits: u32) {
        unsafe {
            let lanes = COMPRESS.get_unchecked(bits as usize & 0xFF);
            let lanes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(lanes.as_ptr().cast()));
            self.store(to, _mm256_permutevar8x32_epi32(v, lanes));
        }
    }
    #[inline(always)]
    fn to_float(self, a: Self::U) -> Self::F {
        unsafe { _mm256_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn truncate(self, a: Self::F) -> Self::U {
        unsafe { _mm256_cvttps_epi32(a) }
    }
    #[inline(always)]
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div_f(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::U {
        unsafe { _mm256_castps_si256(a) }
    }
    #[inline(always)]
    fn float_of(self, a: Self::U) -> Self::F {
        unsafe { _mm256_castsi256_ps(a) }
    }
    #[inline(always)]
    fn select_by_sign(self, sign: Self::U, yes: Self::F, no: Self::F) -> Self::F {
        unsafe { _mm256_blendv_ps(no, yes, self.float_of(sign)) }
    }
    #[inline(always)]
    fn shift_in(self, before: Self::U, v: Self::U) -> Self::U {
        unsafe { _mm256_alignr_epi8::<12>(v, _mm256_permute2x128_si256::<0x21>(before, v)) }
    }
    #[inline(always)]
    fn keep(self, v: Self::U, bits: u32) -> Self::U {
        unsafe { _mm256_and_si256(v, lanes_of(bits)) }
    }
    #[inline(always)]
    fn not_less(self, a: Self::F, b: Self::F) -> u32 {
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NLT_UQ>(a, b)) as u32 }
    }
    #[inline(always)]
    unsafe fn lookup_window(self, window: *const u32, index: Self::U) -> Self::U {
        unsafe {
            // The low three bits of each index count.
            let low = _mm256_permutevar8x32_epi32(self.load(window), index);
            let high = _mm256_permutevar8x32_epi32(self.load(window.add(8)), index);
            let bit_3 = _mm256_slli_epi32::<28>(index);
            self.bits(self.select_by_sign(bit_3, self.float_of(high), self.float_of(low)))
        }
    }
    #[inline(always)]
    unsafe fn lookup_16(self, table: *const u32, index: Self::U) -> Self::U {
        unsafe { self.lookup_window(table, index) }
    }
    #[inline(always)]
    unsafe fn lookup_8(self, table: *const u32, index: Self::U) -> Self::U {
        unsafe { _mm256_permutevar8x32_epi32(self.load(table), index) }
    }
    #[inline(always)]
    unsafe fn lookup(self, table: *const u32, index: Self::U) -> Self::U {
        unsafe { _mm256_i32gather_epi32::<4>(table.cast(), index) }
    }
    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        x86::prefetch(at);
    }
    #[inline(always)]
    fn prefetch_far(self, at: *const u8) {
        x86::prefetch_far(at);
    }
    #[inline(always)]
    fn count_bits(self, counts: &[u8; 64], few: u8) -> (u64, u64) {
        let counts = counts.as_ptr();
        unsafe {
            let (zero, few) = (_mm256_setzero_si256(), _mm256_set1_epi8(few as i8));
            let (a, b) = (
                _mm256_loadu_si256(counts.cast()),
                _mm256_loadu_si256(counts.add(32).cast()),
            );
            let none_a = _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, zero)) as u32;
            let none_b = _mm256_movemask_epi8(_mm256_cmpeq_epi8(b, zero)) as u32;
            let few_a = _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, _mm256_min_epu8(a, few))) as u32;
            let few_b = _mm256_movemask_epi8(_mm256_cmpeq_epi8(b, _mm256_min_epu8(b, few))) as u32;
            (
                !(u64::from(none_a) | u64::from(none_b) << 32),
                !(u64::from(few_a) | u64::from(few_b) << 32),
            )
        }
    }
    #[inline(always)]
    unsafe fn lane_ends(self, words: *const u8, n: usize) -> (u64, bool) {
        unsafe { x86::lane_ends(words, n) }
    }
    #[inline(always)]
    unsafe fn list_bits(self, bits: u64, first: u16, to: *mut u16) -> usize {
        let mut n = 0;
        for byte in 0..8 {
            let bits = (bits >> (8 * byte)) as u8;
            unsafe {
                let places =
                    _mm_cvtepu8_epi16(_mm_loadl_epi64(COMPRESS[usize::from(bits)].as_ptr().cast()));
                let places = _mm_add_epi16(
                    places,
                    _mm_add_epi16(_mm_set1_epi16(first as i16), _mm_set1_epi16(8 * byte)),
                );
                _mm_storeu_si128(to.add(n).cast(), places);
            }
            n += bits.count_ones() as usize;
        }
        n
    }
    #[inline(always)]
    fn start<const STRIDE: usize>() -> u8 {
        8
    }
    #[inline(always)]
    unsafe fn copy_start<const STRIDE: usize>(
        self,
        from: *const u8,
        n: u8,
        direction: u16,
        mask: u32,
        xor: u32,
        to: *mut u32,
    ) {
        unsafe { x86::copy_start::<STRIDE, 8>(from, n, direction, mask, xor, to) }
    }
    #[inline(always)]
    unsafe fn copy_block<const STRIDE: usize>(
        self,
        from: *const u8,
        n: usize,
        direction: u16,
        mask: u32,
        xor: u32,
        to: *mut u32,
    ) {
        unsafe { x86::copy_block::<STRIDE>(from, n, direction, mask, xor, to) }
    }
}

/// Returns bit 31 of each lane.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn sign_bits(a: __m256i) -> u32 {
    // SAFETY: the CPU has AVX2, by this function's precondition, and so AVX; no memory is touched.
    unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(a)) as u32 }
}

/// Sets all bits of the elements whose bit is set.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn lanes_of(bits: u32) -> __m256i {
    // SAFETY: the CPU has AVX2, by this function's precondition; no memory is touched.
    unsafe {
        let bit = _mm256_set_epi32(1 << 7, 1 << 6, 1 << 5, 1 << 4, 1 << 3, 1 << 2, 1 << 1, 1);
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits as i32), bit), bit)
    }
}
