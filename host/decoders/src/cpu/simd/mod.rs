//! Vector operations of the fast path: one trait, one thin file a level. Vectors have elements; a
//! "lane" is a read-out lane.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
mod slices;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use portable::Portable;
pub use slices::{compress_at, load_at, set_at, store_at, word_at};

/// Vectors of `ELEMENTS` 32-bit words, with the usual operations element by element.
///
/// A value of an implementing type proves that the CPU has its instructions: making one is unsafe,
/// so that computing is safe. Methods that read or write memory are unsafe; none needs alignment.
///
/// All methods must be `#[inline(always)]`: they get their instructions from the
/// `#[target_feature]` function that calls them.
pub trait Simd: Copy + std::fmt::Debug + 'static {
    /// Number of words in a vector: 8 or 16.
    const ELEMENTS: usize;
    /// Number of entries that [`lookup_window`](Self::lookup_window) chooses from; a power of 2, up
    /// to 32 unless unlimited.
    const WINDOW: u32;
    /// Most hits that [`copy_block`](Self::copy_block) copies: 8 or 16.
    const BLOCK: usize = 8;
    /// `ELEMENTS` unsigned words. Additions wrap.
    type U: Copy;
    /// `ELEMENTS` floats.
    type F: Copy;

    // Constants and integers.

    /// Returns a vector whose elements are all `value`.
    fn splat(self, value: u32) -> Self::U;
    /// Returns `a + b`, modulo 2³².
    fn add(self, a: Self::U, b: Self::U) -> Self::U;
    /// Returns `a - b`, modulo 2³².
    fn sub(self, a: Self::U, b: Self::U) -> Self::U;
    /// Returns the bits that both have.
    fn and(self, a: Self::U, b: Self::U) -> Self::U;
    /// Returns the bits that one of the two has.
    fn xor(self, a: Self::U, b: Self::U) -> Self::U;
    /// Returns the smaller of two unsigned words.
    fn min(self, a: Self::U, b: Self::U) -> Self::U;
    /// Returns the larger of two unsigned words.
    fn max(self, a: Self::U, b: Self::U) -> Self::U;
    /// Shifts all elements `N` bits to the left, and zeros in.
    fn shl<const N: u32>(self, a: Self::U) -> Self::U;
    /// Shifts all elements `N` bits to the right, and zeros in.
    fn shr<const N: u32>(self, a: Self::U) -> Self::U;
    /// Returns all ones where bit 31 is set, else 0.
    fn spread_sign(self, a: Self::U) -> Self::U;
    /// Returns `a * b` of elements below 2¹⁵; anything for others.
    fn mul_small(self, a: Self::U, b: Self::U) -> Self::U;

    // Comparisons: element i decides bit i of the result; higher bits are 0.

    /// Returns the bits of the elements that are equal.
    fn eq(self, a: Self::U, b: Self::U) -> u32;
    /// Returns the bits of the elements with `a <= b`, of elements below 2³¹; anything for others.
    fn le(self, a: Self::U, b: Self::U) -> u32;
    /// Returns the bits of the elements with not `a < b`: also of those that are no numbers.
    fn not_less(self, a: Self::F, b: Self::F) -> u32;
    /// Returns one bit per count: set in the first word if the count is not 0, and in the second if
    /// it is above `few`.
    fn count_bits(self, counts: &[u8; 64], few: u8) -> (u64, u64);

    // Elements that depend on others of the vector.

    /// Returns in element i the sum of elements 0 to i, modulo 2³².
    fn prefix_sum(self, a: Self::U) -> Self::U;
    /// Returns the last element in all.
    fn spread_last(self, a: Self::U) -> Self::U;
    /// Returns in element i element i − 1 of `v`, and in element 0 the last one of `before`.
    fn shift_in(self, before: Self::U, v: Self::U) -> Self::U;
    /// Returns the elements whose bit is set, and 0 in the others.
    fn keep(self, v: Self::U, bits: u32) -> Self::U;

    // Floats, rounded as IEEE 754 says: the same bits as one operation at a time.

    /// Returns a vector whose elements are all `value`.
    fn splat_f(self, value: f32) -> Self::F;
    /// Converts to floats; exact for elements below 2²⁴, anything for others.
    fn to_float(self, a: Self::U) -> Self::F;
    /// Truncates elements from 0 to 2²⁴; anything for others.
    fn truncate(self, a: Self::F) -> Self::U;
    /// Returns `a + b`.
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// Returns `a - b`.
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// Returns `a * b`.
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// Returns `a / b`.
    fn div_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// Returns the floats' bits.
    fn bits(self, a: Self::F) -> Self::U;
    /// Returns the floats that have these bits.
    fn float_of(self, a: Self::U) -> Self::F;
    /// Returns `yes` where bit 31 of `sign` is set, else `no`.
    fn select_by_sign(self, sign: Self::U, yes: Self::F, no: Self::F) -> Self::F;

    // Memory. Nothing needs alignment.

    /// Prefetches the cache line at `at`, which may be anywhere.
    fn prefetch(self, at: *const u8);
    /// Prefetches a line that is not needed soon, and should not take another's place in the
    /// smallest cache.
    fn prefetch_far(self, at: *const u8);

    /// Loads `ELEMENTS` words.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn load(self, from: *const u32) -> Self::U;
    /// Stores `ELEMENTS` words.
    ///
    /// # Safety
    /// They can be written.
    unsafe fn store(self, to: *mut u32, v: Self::U);
    /// Stores the elements whose bit is set at their places from `to` on.
    ///
    /// # Safety
    /// Those can be written.
    unsafe fn store_some(self, to: *mut u32, v: Self::U, bits: u32);
    /// Stores the elements whose bit is set, back to back, and anything behind them.
    ///
    /// # Safety
    /// `ELEMENTS` words can be written.
    unsafe fn compress_store(self, to: *mut u32, v: Self::U, bits: u32);
    /// Returns `window[index % WINDOW]`.
    ///
    /// # Safety
    /// `WINDOW` words can be read; if that is more than 32, those that are named.
    unsafe fn lookup_window(self, window: *const u32, index: Self::U) -> Self::U;
    /// Returns `table[index % 16]`.
    ///
    /// # Safety
    /// 16 words can be read.
    unsafe fn lookup_16(self, table: *const u32, index: Self::U) -> Self::U;
    /// Returns `table[index % 16]`, of a table whose second half is like the first.
    ///
    /// # Safety
    /// 16 words can be read.
    unsafe fn lookup_8(self, table: *const u32, index: Self::U) -> Self::U;
    /// Returns `table[index]`.
    ///
    /// # Safety
    /// Those words can be read.
    unsafe fn lookup(self, table: *const u32, index: Self::U) -> Self::U;

    /// Writes `first + i` for each bit i that is set, and anything behind; returns how many.
    ///
    /// # Safety
    /// 64 places can be written.
    #[inline(always)]
    unsafe fn list_bits(self, bits: u64, first: u16, to: *mut u16) -> usize {
        // SAFETY: 64 places can be written, by this method's precondition.
        unsafe { self.list_few_bits(bits, first, to) }
    }

    /// Does the same, faster where mostly no more than four bits are set.
    ///
    /// # Safety
    /// 64 places can be written.
    #[inline(always)]
    unsafe fn list_few_bits(self, bits: u64, first: u16, to: *mut u16) -> usize {
        let (mut left, mut to) = (bits, to);
        loop {
            // Always four: the number left cannot be predicted.
            for i in 0..4 {
                // SAFETY: `to` rises by four for four set bits of 64: the place is one of 64, by
                // the precondition.
                unsafe {
                    to.add(i)
                        .write(first.wrapping_add(left.trailing_zeros() as u16));
                };
                left &= left.wrapping_sub(1);
            }
            if left == 0 {
                return bits.count_ones() as usize;
            }
            // SAFETY: four of the 64 bits were set, and others are left: `to` stays within the 64
            // places.
            to = unsafe { to.add(4) };
        }
    }

    /// Counts the lanes that `n <= 254` v4 words name. Byte i of the result, up to 5, is the number
    /// of words that name one of the lanes 0 to i; the other bytes have any value. Also returns
    /// true if the words are in the order of the lanes; if not, all bytes have any value.
    ///
    /// # Safety
    /// The words can be read, and 66 bytes more.
    #[inline(always)]
    unsafe fn lane_ends(self, words: *const u8, n: usize) -> (u64, bool) {
        debug_assert!(n <= 254);
        let (mut counts, mut before, mut sorted) = (0u64, 0, true);
        for i in 0..n {
            // SAFETY: `i < n`, and the `n` words, of two bytes, can be read, by this method's
            // precondition.
            let word = u16::from_le_bytes(unsafe { words.add(2 * i).cast::<[u8; 2]>().read() });
            // Eight times the lane.
            let lane = (word & LANE_BITS) >> 8;
            sorted &= before <= lane;
            before = lane;
            counts += 1 << lane;
        }
        (counts.wrapping_mul(EACH_BYTE), sorted)
    }

    /// Returns the number of hits that [`copy_start`](Self::copy_start) copies of pairs `STRIDE`
    /// bytes apart: 4 or 8.
    #[inline(always)]
    fn start<const STRIDE: usize>() -> u8 {
        4
    }

    /// Writes the first [`start`](Self::start) hit words of a lane with `n > 0` hits as stream
    /// words to `to`, the last first if `direction` is [`REVERSE`] and not 0. A shorter lane's come
    /// first, and anything behind; of a longer one, all may be anything if it is `REVERSE`. Hits
    /// come in pairs, `STRIDE` bytes apart.
    ///
    /// # Safety
    /// - half as many pairs can be read;
    /// - `direction` is 0 or `REVERSE`;
    /// - as many words can be written.
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
        // SAFETY: two pairs, `STRIDE` bytes apart, can be read, by this method's first
        // precondition.
        let pairs = unsafe {
            [
                from.cast::<[u8; 4]>().read(),
                from.add(STRIDE).cast::<[u8; 4]>().read(),
            ]
        };
        let hits =
            u64::from(u32::from_le_bytes(pairs[0])) | u64::from(u32::from_le_bytes(pairs[1])) << 32;
        let swapped = hits.swap_bytes();
        let swapped = swapped >> 8 & 0x00FF_00FF_00FF_00FF | (swapped & 0x00FF_00FF_00FF_00FF) << 8;
        let hits = if direction == 0 {
            hits
        } else {
            swapped >> (16 * (4 - u32::from(n.min(4))))
        };
        for i in 0..4 {
            // SAFETY: `i < 4`, and four words can be written, by this method's third precondition.
            unsafe {
                to.add(i)
                    .write((u32::from((hits >> (16 * i)) as u16) & mask) ^ xor);
            };
        }
    }

    /// Writes `n` hit words, 5 to [`BLOCK`](Self::BLOCK), as stream words to `to`, the last first
    /// if `direction` is [`REVERSE`] and not 0, and nothing beyond them. Hits come in pairs,
    /// `STRIDE` bytes apart.
    ///
    /// # Safety
    /// - `n` is 5 to `BLOCK`;
    /// - `BLOCK / 2` pairs can be read;
    /// - `direction` is 0 or `REVERSE`;
    /// - `n` words can be written.
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
        for i in 0..n {
            let place = if direction == 0 { i } else { n - 1 - i };
            // SAFETY: `i < n <= BLOCK` and `place < n`: pair and word are there, by this method's
            // preconditions.
            unsafe {
                let word = from
                    .add(STRIDE * (i / 2) + 2 * (i % 2))
                    .cast::<[u8; 2]>()
                    .read();
                to.add(place)
                    .write((u32::from(u16::from_le_bytes(word)) & mask) ^ xor);
            }
        }
    }
}

/// Direction of a lane that is read backwards: the distance of its tables from the others', which
/// have two entries for each number of hits.
pub const REVERSE: u16 = 2 << 8;

const LANE_BITS: u16 = 0x3800;

/// Factor that turns bytes of counts into their running sums.
const EACH_BYTE: u64 = 0x0101_0101_0101_0101;
