//! Sixteen words per vector: AVX-512 with F, BW, DQ, VL and VBMI2.

#[allow(
    clippy::wildcard_imports,
    reason = "nearly every line names an intrinsic"
)]
use std::arch::x86_64::*;

use super::{REVERSE, Simd, x86};

#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The CPU has AVX-512 F, BW, DQ, VL and VBMI2, BMI1, BMI2, LZCNT and POPCNT.
    #[inline(always)]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

#[expect(clippy::inline_always, reason = "see the trait")]
// SAFETY of every block below:
// - the CPU has the instructions: there is an `Avx512` only where `new`'s precondition says so;
// - a method's precondition in the trait allows its reads and writes through a pointer;
// - the one other load is from a `counts` of 64 bytes, as long as a vector.
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all, above"
)]
impl Simd for Avx512 {
    const ELEMENTS: usize = 16;
    const WINDOW: u32 = 32;
    const BLOCK: usize = 16;
    type U = __m512i;
    type F = __m512;

    #[inline(always)]
    fn splat(self, value: u32) -> Self::U {
        unsafe { _mm512_set1_epi32(value as i32) }
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> Self::F {
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> Self::U {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32, v: Self::U) {
        unsafe { _mm512_storeu_si512(to.cast(), v) }
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut u32, v: Self::U, bits: u32) {
        unsafe { _mm512_mask_storeu_epi32(to.cast(), bits as u16, v) }
    }
    #[inline(always)]
    fn add(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn and(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn xor(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn min(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_min_epu32(a, b) }
    }
    #[inline(always)]
    fn max(self, a: Self::U, b: Self::U) -> Self::U {
        unsafe { _mm512_max_epu32(a, b) }
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: Self::U) -> Self::U {
        unsafe { _mm512_slli_epi32::<N>(a) }
    }
    #[inline(always)]
    fn shr<const N: u32>(self, a: Self::U) -> Self::U {
        unsafe { _mm512_srli_epi32::<N>(a) }
    }
    #[inline(always)]
    fn spread_sign(self, a: Self::U) -> Self::U {
        unsafe { _mm512_srai_epi32::<31>(a) }
    }
    #[inline(always)]
    fn mul_small(self, a: Self::U, b: Self::U) -> Self::U {
        // The high halves are 0: the sum of both products is the low one.
        unsafe { _mm512_madd_epi16(a, b) }
    }
    #[inline(always)]
    fn eq(self, a: Self::U, b: Self::U) -> u32 {
        unsafe { u32::from(_mm512_cmpeq_epi32_mask(a, b)) }
    }
    #[inline(always)]
    fn le(self, a: Self::U, b: Self::U) -> u32 {
        unsafe { u32::from(_mm512_cmple_epu32_mask(a, b)) }
    }
    #[inline(always)]
    fn prefix_sum(self, a: Self::U) -> Self::U {
        unsafe {
            let zero = _mm512_setzero_si512();
            let a = _mm512_add_epi32(a, _mm512_alignr_epi32::<15>(a, zero));
            let a = _mm512_add_epi32(a, _mm512_alignr_epi32::<14>(a, zero));
            let a = _mm512_add_epi32(a, _mm512_alignr_epi32::<12>(a, zero));
            _mm512_add_epi32(a, _mm512_alignr_epi32::<8>(a, zero))
        }
    }
    #[inline(always)]
    fn spread_last(self, a: Self::U) -> Self::U {
        unsafe { _mm512_permutexvar_epi32(_mm512_set1_epi32(15), a) }
    }
    #[inline(always)]
    unsafe fn compress_store(self, to: *mut u32, v: Self::U, bits: u32) {
        // Into a register and then out: compressing into memory is microcode on some CPUs.
        unsafe { _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(bits as u16, v)) }
    }
    #[inline(always)]
    fn to_float(self, a: Self::U) -> Self::F {
        unsafe { _mm512_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn truncate(self, a: Self::F) -> Self::U {
        unsafe { _mm512_cvttps_epi32(a) }
    }
    #[inline(always)]
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div_f(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::U {
        unsafe { _mm512_castps_si512(a) }
    }
    #[inline(always)]
    fn float_of(self, a: Self::U) -> Self::F {
        unsafe { _mm512_castsi512_ps(a) }
    }
    #[inline(always)]
    fn select_by_sign(self, sign: Self::U, yes: Self::F, no: Self::F) -> Self::F {
        unsafe { _mm512_mask_blend_ps(_mm512_movepi32_mask(sign), no, yes) }
    }
    #[inline(always)]
    fn shift_in(self, before: Self::U, v: Self::U) -> Self::U {
        unsafe { _mm512_alignr_epi32::<15>(v, before) }
    }
    #[inline(always)]
    fn keep(self, v: Self::U, bits: u32) -> Self::U {
        unsafe { _mm512_maskz_mov_epi32(bits as u16, v) }
    }
    #[inline(always)]
    fn not_less(self, a: Self::F, b: Self::F) -> u32 {
        unsafe { u32::from(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(a, b)) }
    }
    #[inline(always)]
    unsafe fn lookup_window(self, window: *const u32, index: Self::U) -> Self::U {
        unsafe { _mm512_permutex2var_epi32(self.load(window), index, self.load(window.add(16))) }
    }
    #[inline(always)]
    unsafe fn lookup_16(self, table: *const u32, index: Self::U) -> Self::U {
        unsafe { _mm512_permutexvar_epi32(index, self.load(table)) }
    }
    #[inline(always)]
    unsafe fn lookup_8(self, table: *const u32, index: Self::U) -> Self::U {
        unsafe { self.lookup_16(table, index) }
    }
    #[inline(always)]
    unsafe fn lookup(self, table: *const u32, index: Self::U) -> Self::U {
        unsafe { _mm512_i32gather_epi32::<4>(index, table.cast()) }
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
        unsafe {
            let v = _mm512_loadu_si512(counts.as_ptr().cast());
            (
                _mm512_test_epi8_mask(v, v),
                _mm512_cmpgt_epu8_mask(v, _mm512_set1_epi8(few as i8)),
            )
        }
    }
    #[inline(always)]
    unsafe fn list_bits(self, bits: u64, first: u16, to: *mut u16) -> usize {
        unsafe {
            let iota = _mm512_set_epi16(
                31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11,
                10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
            );
            let low = _mm512_add_epi16(iota, _mm512_set1_epi16(first as i16));
            let high = _mm512_add_epi16(low, _mm512_set1_epi16(32));
            _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi16(bits as u32, low));
            let n_low = (bits as u32).count_ones() as usize;
            _mm512_storeu_si512(
                to.add(n_low).cast(),
                _mm512_maskz_compress_epi16((bits >> 32) as u32, high),
            );
            bits.count_ones() as usize
        }
    }
    #[inline(always)]
    unsafe fn lane_ends(self, words: *const u8, n: usize) -> (u64, bool) {
        unsafe { x86::lane_ends(words, n) }
    }
    #[inline(always)]
    fn start<const STRIDE: usize>() -> u8 {
        // Blocks of 16 are so cheap that twice as many single pairs are not worth their loads.
        if STRIDE == 4 { 8 } else { 4 }
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
        unsafe {
            if STRIDE == 4 {
                x86::copy_start::<STRIDE, 8>(from, n, direction, mask, xor, to);
            } else {
                x86::copy_start::<STRIDE, 4>(from, n, direction, mask, xor, to);
            }
        }
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
        unsafe {
            let iota = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
            let pairs = _mm256_set_m128i(
                x86::four_pairs::<STRIDE>(from.add(4 * STRIDE)),
                x86::four_pairs::<STRIDE>(from),
            );
            let (mask, xor) = (
                _mm512_set1_epi32(mask as i32),
                _mm512_set1_epi32(xor as i32),
            );
            let v = _mm512_ternarylogic_epi32::<0x78>(xor, _mm512_cvtepu16_epi32(pairs), mask);
            // Word i comes from place i, or from ~i + n.
            let flip = _mm512_set1_epi32(-i32::from(direction / REVERSE));
            let last = _mm512_and_si512(flip, _mm512_set1_epi32(n as i32));
            let v =
                _mm512_permutexvar_epi32(_mm512_add_epi32(_mm512_xor_si512(iota, flip), last), v);
            self.store_some(to, v, (1 << n) - 1);
        }
    }
    #[inline(always)]
    unsafe fn list_few_bits(self, bits: u64, first: u16, to: *mut u16) -> usize {
        unsafe { self.list_bits(bits, first, to) }
    }
}
