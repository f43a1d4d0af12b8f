//! Vectors as arrays of eight: what the compiler makes of them on any machine.

use std::array::from_fn;

use super::{Simd, copy_lane_by_hits, level};

/// The portable level.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

const N: usize = 8;

#[inline(always)]
fn bits_where(lane: impl Fn(usize) -> bool) -> u32 {
    (0..N).map(|i| u32::from(lane(i)) << i).sum()
}

#[expect(clippy::inline_always, reason = "see the trait")]
impl Simd for Portable {
    const LANES: usize = N;
    const WINDOW: u32 = 1 << 16;
    type U = [u32; N];
    type F = [f32; N];

    #[inline(always)]
    unsafe fn splat(value: u32) -> Self::U {
        [value; N]
    }
    #[inline(always)]
    unsafe fn splat_f(value: f32) -> Self::F {
        [value; N]
    }
    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self::U {
        // SAFETY: the caller's.
        unsafe { from.cast::<Self::U>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut u32, v: Self::U) {
        // SAFETY: the caller's.
        unsafe { to.cast::<Self::U>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_some(to: *mut u32, v: Self::U, bits: u32) {
        for (i, word) in v.into_iter().enumerate() {
            if bits >> i & 1 != 0 {
                // SAFETY: the caller's.
                unsafe { to.add(i).write(word) };
            }
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i].wrapping_add(b[i]))
    }
    #[inline(always)]
    unsafe fn sub(a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i].wrapping_sub(b[i]))
    }
    #[inline(always)]
    unsafe fn and(a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i] & b[i])
    }
    #[inline(always)]
    unsafe fn xor(a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i] ^ b[i])
    }
    #[inline(always)]
    unsafe fn min(a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i].min(b[i]))
    }
    #[inline(always)]
    unsafe fn shl<const S: u32>(a: Self::U) -> Self::U {
        from_fn(|i| a[i] << S)
    }
    #[inline(always)]
    unsafe fn shr<const S: u32>(a: Self::U) -> Self::U {
        from_fn(|i| a[i] >> S)
    }
    #[inline(always)]
    unsafe fn spread_sign(a: Self::U) -> Self::U {
        from_fn(|i| ((a[i] as i32) >> 31) as u32)
    }
    #[inline(always)]
    unsafe fn mul_small(a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i].wrapping_mul(b[i]))
    }
    #[inline(always)]
    unsafe fn eq(a: Self::U, b: Self::U) -> u32 {
        bits_where(|i| a[i] == b[i])
    }
    #[inline(always)]
    unsafe fn le(a: Self::U, b: Self::U) -> u32 {
        bits_where(|i| a[i] <= b[i])
    }
    #[inline(always)]
    unsafe fn prefix_sum(mut a: Self::U) -> Self::U {
        for i in 1..N {
            a[i] = a[i].wrapping_add(a[i - 1]);
        }
        a
    }
    #[inline(always)]
    unsafe fn spread_last(a: Self::U) -> Self::U {
        [a[N - 1]; N]
    }
    #[inline(always)]
    unsafe fn compress_store(to: *mut u32, v: Self::U, bits: u32) {
        let mut n = 0;
        for (i, word) in v.into_iter().enumerate() {
            // SAFETY: the caller gives room for all lanes.
            unsafe { to.add(n).write(word) };
            n += (bits >> i & 1) as usize;
        }
    }
    #[inline(always)]
    unsafe fn to_float(a: Self::U) -> Self::F {
        // Signed: every machine has that conversion.
        from_fn(|i| a[i] as i32 as f32)
    }
    #[inline(always)]
    unsafe fn truncate(a: Self::F) -> Self::U {
        from_fn(|i| a[i] as i32 as u32)
    }
    #[inline(always)]
    unsafe fn add_f(a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub_f(a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul_f(a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div_f(a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn bits(a: Self::F) -> Self::U {
        a.map(f32::to_bits)
    }
    #[inline(always)]
    unsafe fn from_bits(a: Self::U) -> Self::F {
        a.map(f32::from_bits)
    }
    #[inline(always)]
    unsafe fn select_by_sign(sign: Self::U, yes: Self::F, no: Self::F) -> Self::F {
        from_fn(|i| if sign[i] >> 31 != 0 { yes[i] } else { no[i] })
    }
    #[inline(always)]
    unsafe fn shift_in(before: Self::U, v: Self::U) -> Self::U {
        from_fn(|i| if i == 0 { before[N - 1] } else { v[i - 1] })
    }
    #[inline(always)]
    unsafe fn keep(v: Self::U, bits: u32) -> Self::U {
        from_fn(|i| if bits >> i & 1 != 0 { v[i] } else { 0 })
    }
    #[inline(always)]
    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "as the trait says")]
    unsafe fn not_less(a: Self::F, b: Self::F) -> u32 {
        bits_where(|i| !(a[i] < b[i]))
    }
    #[inline(always)]
    unsafe fn lookup_window(window: *const u32, index: Self::U) -> Self::U {
        // SAFETY: the caller's.
        index.map(|i| unsafe { *window.add((i % Self::WINDOW) as usize) })
    }
    #[inline(always)]
    unsafe fn lookup(table: *const u32, index: Self::U) -> Self::U {
        // SAFETY: the caller's.
        index.map(|i| unsafe { *table.add(i as usize) })
    }
    #[inline(always)]
    fn prefetch(_: *const u8) {}
    #[inline(always)]
    fn prefetch_far(_: *const u8) {}
    #[inline(always)]
    unsafe fn count_bits(counts: *const u8) -> (u64, u64) {
        // SAFETY: the caller gives 64 counts.
        let counts = unsafe { &*counts.cast::<[u8; 64]>() };
        let (mut some, mut more) = (0, 0);
        for (i, &count) in counts.iter().enumerate() {
            some |= u64::from(count != 0) << i;
            more |= u64::from(count > 4) << i;
        }
        (some, more)
    }
    #[inline(always)]
    unsafe fn copy_lane<const STRIDE: usize>(
        from: *const u8,
        n: usize,
        backwards: i8,
        mask: u32,
        xor: u32,
        to: *mut u32,
    ) {
        // SAFETY: the caller's.
        unsafe { copy_lane_by_hits::<STRIDE>(from, n, backwards, mask, xor, to) }
    }
}

level!(Portable);
