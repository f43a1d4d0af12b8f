//! Vectors as arrays of eight, which the compiler vectorises as it can on any machine.

use std::array::from_fn;

use super::Simd;

#[derive(Clone, Copy, Debug)]
pub struct Portable(());

impl Portable {
    /// # Safety
    /// Nothing is required; the other levels ask for instructions.
    #[inline(always)]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

const N: usize = 8;

#[inline(always)]
fn bits_where(lane: impl Fn(usize) -> bool) -> u32 {
    (0..N).map(|i| u32::from(lane(i)) << i).sum()
}

#[expect(clippy::inline_always, reason = "see the trait")]
impl Simd for Portable {
    const ELEMENTS: usize = N;
    const WINDOW: u32 = 1 << 16;
    type U = [u32; N];
    type F = [f32; N];

    #[inline(always)]
    fn splat(self, value: u32) -> Self::U {
        [value; N]
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> Self::F {
        [value; N]
    }
    #[inline(always)]
    unsafe fn load(self, from: *const u32) -> Self::U {
        // SAFETY: eight words from `from` on can be read, by the method's precondition; the read
        // needs no alignment.
        unsafe { from.cast::<Self::U>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32, v: Self::U) {
        // SAFETY: eight words from `to` on can be written, by the method's precondition; the write
        // needs no alignment.
        unsafe { to.cast::<Self::U>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut u32, v: Self::U, bits: u32) {
        for (i, word) in v.into_iter().enumerate() {
            if bits >> i & 1 != 0 {
                // SAFETY: bit `i` is set, and the places of such elements can be written, by the
                // method's precondition.
                unsafe { to.wrapping_add(i).write(word) };
            }
        }
    }
    #[inline(always)]
    fn add(self, a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i].wrapping_add(b[i]))
    }
    #[inline(always)]
    fn sub(self, a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i].wrapping_sub(b[i]))
    }
    #[inline(always)]
    fn and(self, a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i] & b[i])
    }
    #[inline(always)]
    fn xor(self, a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i] ^ b[i])
    }
    #[inline(always)]
    fn min(self, a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i].min(b[i]))
    }
    #[inline(always)]
    fn max(self, a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i].max(b[i]))
    }
    #[inline(always)]
    fn shl<const S: u32>(self, a: Self::U) -> Self::U {
        from_fn(|i| a[i] << S)
    }
    #[inline(always)]
    fn shr<const S: u32>(self, a: Self::U) -> Self::U {
        from_fn(|i| a[i] >> S)
    }
    #[inline(always)]
    fn spread_sign(self, a: Self::U) -> Self::U {
        from_fn(|i| ((a[i] as i32) >> 31) as u32)
    }
    #[inline(always)]
    fn mul_small(self, a: Self::U, b: Self::U) -> Self::U {
        from_fn(|i| a[i].wrapping_mul(b[i]))
    }
    #[inline(always)]
    fn eq(self, a: Self::U, b: Self::U) -> u32 {
        bits_where(|i| a[i] == b[i])
    }
    #[inline(always)]
    fn le(self, a: Self::U, b: Self::U) -> u32 {
        bits_where(|i| a[i] <= b[i])
    }
    #[inline(always)]
    fn prefix_sum(self, mut a: Self::U) -> Self::U {
        for i in 1..N {
            a[i] = a[i].wrapping_add(a[i - 1]);
        }
        a
    }
    #[inline(always)]
    fn spread_last(self, a: Self::U) -> Self::U {
        [a[N - 1]; N]
    }
    #[inline(always)]
    unsafe fn compress_store(self, to: *mut u32, v: Self::U, bits: u32) {
        let mut n = 0;
        for (i, word) in v.into_iter().enumerate() {
            // SAFETY: `n` is at most `i`, below 8; eight words can be written, by the method's
            // precondition.
            unsafe { to.add(n).write(word) };
            n += (bits >> i & 1) as usize;
        }
    }
    #[inline(always)]
    fn to_float(self, a: Self::U) -> Self::F {
        // Signed: every machine has that conversion.
        from_fn(|i| a[i] as i32 as f32)
    }
    #[inline(always)]
    fn truncate(self, a: Self::F) -> Self::U {
        from_fn(|i| a[i] as i32 as u32)
    }
    #[inline(always)]
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div_f(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::U {
        a.map(f32::to_bits)
    }
    #[inline(always)]
    fn float_of(self, a: Self::U) -> Self::F {
        a.map(f32::from_bits)
    }
    #[inline(always)]
    fn select_by_sign(self, sign: Self::U, yes: Self::F, no: Self::F) -> Self::F {
        from_fn(|i| if sign[i] >> 31 != 0 { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn shift_in(self, before: Self::U, v: Self::U) -> Self::U {
        from_fn(|i| if i == 0 { before[N - 1] } else { v[i - 1] })
    }
    #[inline(always)]
    fn keep(self, v: Self::U, bits: u32) -> Self::U {
        from_fn(|i| if bits >> i & 1 != 0 { v[i] } else { 0 })
    }
    #[inline(always)]
    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "as the trait says")]
    fn not_less(self, a: Self::F, b: Self::F) -> u32 {
        bits_where(|i| !(a[i] < b[i]))
    }
    #[inline(always)]
    unsafe fn lookup_window(self, window: *const u32, index: Self::U) -> Self::U {
        // SAFETY: `WINDOW` is more than 32: the words that the indices name can be read, by the
        // precondition.
        index.map(|i| unsafe { *window.add((i % Self::WINDOW) as usize) })
    }
    #[inline(always)]
    unsafe fn lookup_16(self, table: *const u32, index: Self::U) -> Self::U {
        // SAFETY: the indices are cut to 15; the 16 words from `table` on can be read, by the
        // method's precondition.
        unsafe { self.lookup_window(table, self.and(index, self.splat(15))) }
    }
    #[inline(always)]
    unsafe fn lookup_8(self, table: *const u32, index: Self::U) -> Self::U {
        // SAFETY: 16 words from `table` on can be read, by the method's precondition.
        unsafe { self.lookup_16(table, index) }
    }
    #[inline(always)]
    unsafe fn lookup(self, table: *const u32, index: Self::U) -> Self::U {
        // SAFETY: each index names a word of `table` that can be read, by the method's
        // precondition.
        index.map(|i| unsafe { *table.add(i as usize) })
    }
    #[inline(always)]
    fn prefetch(self, _: *const u8) {}
    #[inline(always)]
    fn prefetch_far(self, _: *const u8) {}
    #[inline(always)]
    fn count_bits(self, counts: &[u8; 64], few: u8) -> (u64, u64) {
        let (mut some, mut more) = (0, 0);
        for (i, &count) in counts.iter().enumerate() {
            some |= u64::from(count != 0) << i;
            more |= u64::from(count > few) << i;
        }
        (some, more)
    }
}
