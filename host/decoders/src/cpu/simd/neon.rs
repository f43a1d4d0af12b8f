//! Eight words a vector, two registers of four: NEON, which every such CPU has. No prefetches: none was ever measured
//! there.

#[allow(clippy::wildcard_imports, reason = "nearly every line names an intrinsic")]
use std::arch::aarch64::*;

use super::Simd;

#[derive(Clone, Copy, Debug)]
pub struct Neon(());

impl Neon {
    /// # Safety
    /// The CPU has NEON, as every 64-bit one has.
    #[inline(always)]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

type U = [uint32x4_t; 2];
type F = [float32x4_t; 2];

/// The bit of each element.
static ELEMENT_BITS: [u32; 8] = [1, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7];

/// The bit of each byte of eight, twice.
static BYTE_BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

/// For each set of four bits the bytes of the words that it names, in order.
static COMPRESS: [[u8; 16]; 16] = {
    let mut table = [[0; 16]; 16];
    let mut bits = 0;
    while bits < 16 {
        let (mut word, mut n) = (0, 0);
        while word < 4 {
            if bits >> word & 1 != 0 {
                let mut byte = 0;
                while byte < 4 {
                    table[bits][4 * n + byte] = (4 * word + byte) as u8;
                    byte += 1;
                }
                n += 1;
            }
            word += 1;
        }
        bits += 1;
    }
    table
};

#[expect(clippy::inline_always, reason = "see the trait")]
// SAFETY of every block below:
// - the CPU has NEON: there is a `Neon` only where `new`'s precondition says so;
// - what is read and written through a pointer that a method is given, its precondition in the trait allows;
// - other loads are of 16 bytes at 0, 16, 32 and 48 of `counts`, which has 64, and of eight words from `ELEMENT_BITS`
//   or an array of eight, which `words` makes.
#[expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
impl Simd for Neon {
    const ELEMENTS: usize = 8;
    const WINDOW: u32 = 16;
    type U = U;
    type F = F;

    #[inline(always)]
    fn splat(self, value: u32) -> U {
        unsafe { [vdupq_n_u32(value); 2] }
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> F {
        unsafe { [vdupq_n_f32(value); 2] }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> U {
        unsafe { [vld1q_u32(from), vld1q_u32(from.add(4))] }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32, v: U) {
        unsafe {
            vst1q_u32(to, v[0]);
            vst1q_u32(to.add(4), v[1]);
        }
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut u32, v: U, bits: u32) {
        for (i, word) in unsafe { words(v) }.into_iter().enumerate() {
            if bits >> i & 1 != 0 {
                unsafe { to.wrapping_add(i).write(word) };
            }
        }
    }
    #[inline(always)]
    fn add(self, a: U, b: U) -> U {
        unsafe { [vaddq_u32(a[0], b[0]), vaddq_u32(a[1], b[1])] }
    }
    #[inline(always)]
    fn sub(self, a: U, b: U) -> U {
        unsafe { [vsubq_u32(a[0], b[0]), vsubq_u32(a[1], b[1])] }
    }
    #[inline(always)]
    fn and(self, a: U, b: U) -> U {
        unsafe { [vandq_u32(a[0], b[0]), vandq_u32(a[1], b[1])] }
    }
    #[inline(always)]
    fn xor(self, a: U, b: U) -> U {
        unsafe { [veorq_u32(a[0], b[0]), veorq_u32(a[1], b[1])] }
    }
    #[inline(always)]
    fn min(self, a: U, b: U) -> U {
        unsafe { [vminq_u32(a[0], b[0]), vminq_u32(a[1], b[1])] }
    }
    #[inline(always)]
    fn max(self, a: U, b: U) -> U {
        unsafe { [vmaxq_u32(a[0], b[0]), vmaxq_u32(a[1], b[1])] }
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: U) -> U {
        unsafe { a.map(|a| vshlq_u32(a, vdupq_n_s32(N as i32))) }
    }
    #[inline(always)]
    fn shr<const N: u32>(self, a: U) -> U {
        // A shift to the left by a negative number.
        unsafe { a.map(|a| vshlq_u32(a, vdupq_n_s32(-(N as i32)))) }
    }
    #[inline(always)]
    fn spread_sign(self, a: U) -> U {
        unsafe { a.map(|a| vreinterpretq_u32_s32(vshrq_n_s32::<31>(vreinterpretq_s32_u32(a)))) }
    }
    #[inline(always)]
    fn mul_small(self, a: U, b: U) -> U {
        unsafe { [vmulq_u32(a[0], b[0]), vmulq_u32(a[1], b[1])] }
    }
    #[inline(always)]
    fn eq(self, a: U, b: U) -> u32 {
        unsafe { element_bits([vceqq_u32(a[0], b[0]), vceqq_u32(a[1], b[1])]) }
    }
    #[inline(always)]
    fn le(self, a: U, b: U) -> u32 {
        unsafe { element_bits([vcleq_u32(a[0], b[0]), vcleq_u32(a[1], b[1])]) }
    }
    #[inline(always)]
    fn prefix_sum(self, a: U) -> U {
        unsafe {
            let zero = vdupq_n_u32(0);
            let [low, high] = a.map(|a| {
                let a = vaddq_u32(a, vextq_u32::<3>(zero, a));
                vaddq_u32(a, vextq_u32::<2>(zero, a))
            });
            [low, vaddq_u32(high, vdupq_laneq_u32::<3>(low))]
        }
    }
    #[inline(always)]
    fn spread_last(self, a: U) -> U {
        unsafe { [vdupq_laneq_u32::<3>(a[1]); 2] }
    }
    #[inline(always)]
    unsafe fn compress_store(self, to: *mut u32, v: U, bits: u32) {
        unsafe {
            let [low, high] = [bits & 15, bits >> 4 & 15];
            vst1q_u32(to, compress(v[0], low));
            vst1q_u32(to.add(low.count_ones() as usize), compress(v[1], high));
        }
    }
    #[inline(always)]
    fn to_float(self, a: U) -> F {
        unsafe { a.map(|a| vcvtq_f32_u32(a)) }
    }
    #[inline(always)]
    fn truncate(self, a: F) -> U {
        unsafe { a.map(|a| vcvtq_u32_f32(a)) }
    }
    #[inline(always)]
    fn add_f(self, a: F, b: F) -> F {
        unsafe { [vaddq_f32(a[0], b[0]), vaddq_f32(a[1], b[1])] }
    }
    #[inline(always)]
    fn sub_f(self, a: F, b: F) -> F {
        unsafe { [vsubq_f32(a[0], b[0]), vsubq_f32(a[1], b[1])] }
    }
    #[inline(always)]
    fn mul_f(self, a: F, b: F) -> F {
        unsafe { [vmulq_f32(a[0], b[0]), vmulq_f32(a[1], b[1])] }
    }
    #[inline(always)]
    fn div_f(self, a: F, b: F) -> F {
        unsafe { [vdivq_f32(a[0], b[0]), vdivq_f32(a[1], b[1])] }
    }
    #[inline(always)]
    fn bits(self, a: F) -> U {
        unsafe { a.map(|a| vreinterpretq_u32_f32(a)) }
    }
    #[inline(always)]
    fn float_of(self, a: U) -> F {
        unsafe { a.map(|a| vreinterpretq_f32_u32(a)) }
    }
    #[inline(always)]
    fn select_by_sign(self, sign: U, yes: F, no: F) -> F {
        unsafe {
            let sign = self.spread_sign(sign);
            [vbslq_f32(sign[0], yes[0], no[0]), vbslq_f32(sign[1], yes[1], no[1])]
        }
    }
    #[inline(always)]
    fn shift_in(self, before: U, v: U) -> U {
        unsafe { [vextq_u32::<3>(before[1], v[0]), vextq_u32::<3>(v[0], v[1])] }
    }
    #[inline(always)]
    fn keep(self, v: U, bits: u32) -> U {
        unsafe {
            let (all, bit) = (vdupq_n_u32(bits), self.load(ELEMENT_BITS.as_ptr()));
            [vandq_u32(v[0], vtstq_u32(all, bit[0])), vandq_u32(v[1], vtstq_u32(all, bit[1]))]
        }
    }
    #[inline(always)]
    fn not_less(self, a: F, b: F) -> u32 {
        unsafe { element_bits([vcltq_f32(a[0], b[0]), vcltq_f32(a[1], b[1])]) ^ 0xFF }
    }
    #[inline(always)]
    unsafe fn lookup_window(self, window: *const u32, index: U) -> U {
        unsafe {
            let [a, b, c, d] = [0, 4, 8, 12].map(|place| vreinterpretq_u8_u32(vld1q_u32(window.add(place))));
            let table = uint8x16x4_t(a, b, c, d);
            // The four bytes of a word: 4 * index, and so on; at most 63.
            let first = vdupq_n_u32(0x0302_0100);
            index.map(|index| {
                let index = vandq_u32(index, vdupq_n_u32(Self::WINDOW - 1));
                let bytes = vreinterpretq_u8_u32(vmlaq_n_u32(first, index, 0x0404_0404));
                vreinterpretq_u32_u8(vqtbl4q_u8(table, bytes))
            })
        }
    }
    #[inline(always)]
    unsafe fn lookup_16(self, table: *const u32, index: U) -> U {
        unsafe { self.lookup_window(table, index) }
    }
    #[inline(always)]
    unsafe fn lookup_8(self, table: *const u32, index: U) -> U {
        unsafe { self.lookup_16(table, index) }
    }
    #[inline(always)]
    unsafe fn lookup(self, table: *const u32, index: U) -> U {
        unsafe {
            let found = words(index).map(|i| *table.add(i as usize));
            self.load(found.as_ptr())
        }
    }
    #[inline(always)]
    fn prefetch(self, _: *const u8) {}
    #[inline(always)]
    fn prefetch_far(self, _: *const u8) {}
    #[inline(always)]
    fn count_bits(self, counts: &[u8; 64], few: u8) -> (u64, u64) {
        unsafe {
            let counts = [0, 16, 32, 48].map(|place| vld1q_u8(counts.as_ptr().add(place)));
            let some = counts.map(|counts| vtstq_u8(counts, counts));
            let more = counts.map(|counts| vcgtq_u8(counts, vdupq_n_u8(few)));
            (byte_bits(some), byte_bits(more))
        }
    }
}

/// The elements as an array.
///
/// # Safety
/// The CPU has NEON.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn words(v: U) -> [u32; 8] {
    let mut words = [0; 8];
    // SAFETY: the array has room for the eight words; the CPU has NEON, by this function's precondition.
    unsafe {
        vst1q_u32(words.as_mut_ptr(), v[0]);
        vst1q_u32(words.as_mut_ptr().add(4), v[1]);
    }
    words
}

/// Returns a bit for each element that is all ones; the others must be 0.
///
/// # Safety
/// The CPU has NEON.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn element_bits(set: U) -> u32 {
    // SAFETY: `ELEMENT_BITS` has the eight words that are read; the CPU has NEON, by this function's precondition.
    unsafe {
        let low = vandq_u32(set[0], vld1q_u32(ELEMENT_BITS.as_ptr()));
        let high = vandq_u32(set[1], vld1q_u32(ELEMENT_BITS.as_ptr().add(4)));
        vaddvq_u32(vorrq_u32(low, high))
    }
}

/// Returns a bit for each byte that is all ones; the others must be 0.
///
/// # Safety
/// The CPU has NEON.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn byte_bits(set: [uint8x16_t; 4]) -> u64 {
    // SAFETY: `BYTE_BITS` has the 16 bytes that are read; the CPU has NEON, by this function's precondition.
    unsafe {
        let bit = vld1q_u8(BYTE_BITS.as_ptr());
        let [a, b, c, d] = set.map(|set| vandq_u8(set, bit));
        // Each step adds neighbours: eight bits become a byte in three.
        let sums = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
        vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)))
    }
}

/// Moves the words whose bit is set together.
///
/// # Safety
/// The CPU has NEON.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as the trait's methods")]
unsafe fn compress(v: uint32x4_t, bits: u32) -> uint32x4_t {
    // SAFETY: `COMPRESS` has 16 entries of 16 bytes; the CPU has NEON, by this function's precondition.
    unsafe {
        let bytes = vld1q_u8(COMPRESS.get_unchecked(bits as usize & 15).as_ptr());
        vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(v), bytes))
    }
}
