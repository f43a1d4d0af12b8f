//! What the fast path needs of a machine's vectors: one trait, one thin file a level.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub mod neon;
pub mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::copy_lanes::Ahead;
use super::fast::{Fast, Unusual};
use super::hits::EventHits;
use super::lanes::{V5_COUNTS, V5_HEADS};
use super::scratch::Scratch;
use crate::detector::LANES_PER_BOARD;
use crate::input::BatchView;

/// Vectors of `LANES` 32-bit words.
///
/// All methods are unsafe for two reasons, and every implementation may count on them:
/// - the CPU has the instructions of the implementing type;
/// - the memory that a pointer and the method's doc name is there. No method needs alignment.
///
/// All methods must be `#[inline(always)]`: they get their instructions from the `#[target_feature]` function that they
/// end up in.
pub trait Simd: Copy + std::fmt::Debug + 'static {
    /// Words in a vector: 8 or 16.
    const LANES: usize;
    /// Entries that [`lookup_window`](Self::lookup_window) can choose from; a power of 2. Up to 32, or all there can be.
    const WINDOW: u32;
    /// `LANES` unsigned words. Additions wrap.
    type U: Copy;
    /// `LANES` floats.
    type F: Copy;

    /// All lanes `value`.
    unsafe fn splat(value: u32) -> Self::U;
    /// All lanes `value`.
    unsafe fn splat_f(value: f32) -> Self::F;
    /// `LANES` words from `from`.
    unsafe fn load(from: *const u32) -> Self::U;
    /// `LANES` words to `to`.
    unsafe fn store(to: *mut u32, v: Self::U);
    /// The lanes whose bit is set to their places from `to` on; only those need to be there.
    unsafe fn store_some(to: *mut u32, v: Self::U, bits: u32);
    /// a + b
    unsafe fn add(a: Self::U, b: Self::U) -> Self::U;
    /// a - b
    unsafe fn sub(a: Self::U, b: Self::U) -> Self::U;
    /// a & b
    unsafe fn and(a: Self::U, b: Self::U) -> Self::U;
    /// a ^ b
    unsafe fn xor(a: Self::U, b: Self::U) -> Self::U;
    /// The smaller of a and b.
    unsafe fn min(a: Self::U, b: Self::U) -> Self::U;
    /// a << N
    unsafe fn shl<const N: u32>(a: Self::U) -> Self::U;
    /// a >> N
    unsafe fn shr<const N: u32>(a: Self::U) -> Self::U;
    /// All ones where bit 31 is set, else 0.
    unsafe fn spread_sign(a: Self::U) -> Self::U;
    /// a * b, both below 2^15.
    unsafe fn mul_small(a: Self::U, b: Self::U) -> Self::U;
    /// A bit a lane: a == b.
    unsafe fn eq(a: Self::U, b: Self::U) -> u32;
    /// A bit a lane: a <= b, both below 2^31.
    unsafe fn le(a: Self::U, b: Self::U) -> u32;
    /// Lane i: the sum of lanes 0 to i.
    unsafe fn prefix_sum(a: Self::U) -> Self::U;
    /// The last lane in all lanes.
    unsafe fn spread_last(a: Self::U) -> Self::U;
    /// The lanes whose bit is set, back to back, to `to`; may write up to `LANES` words.
    unsafe fn compress_store(to: *mut u32, v: Self::U, bits: u32);
    /// As floats; exact for lanes below 2^24, anything for others.
    unsafe fn to_float(a: Self::U) -> Self::F;
    /// Whole part of lanes from 0 to 2^24; anything for others.
    unsafe fn truncate(a: Self::F) -> Self::U;
    /// a + b
    unsafe fn add_f(a: Self::F, b: Self::F) -> Self::F;
    /// a - b
    unsafe fn sub_f(a: Self::F, b: Self::F) -> Self::F;
    /// a * b
    unsafe fn mul_f(a: Self::F, b: Self::F) -> Self::F;
    /// a / b, rounded as IEEE 754 says.
    unsafe fn div_f(a: Self::F, b: Self::F) -> Self::F;
    /// The same bits as words.
    unsafe fn bits(a: Self::F) -> Self::U;
    /// The same bits as floats.
    unsafe fn from_bits(a: Self::U) -> Self::F;
    /// `yes` where bit 31 of `sign` is set, else `no`.
    unsafe fn select_by_sign(sign: Self::U, yes: Self::F, no: Self::F) -> Self::F;
    /// Lane i: lane i-1 of `v`; lane 0: the last lane of `before`.
    unsafe fn shift_in(before: Self::U, v: Self::U) -> Self::U;
    /// The lanes whose bit is set; 0 in the others.
    unsafe fn keep(v: Self::U, bits: u32) -> Self::U;
    /// A bit a lane: not a < b.
    unsafe fn not_less(a: Self::F, b: Self::F) -> u32;
    /// `window[index % WINDOW]`, where `WINDOW` words are, or with more than 32, those that are named.
    unsafe fn lookup_window(window: *const u32, index: Self::U) -> Self::U;
    /// `table[index % 16]`, where two windows are.
    #[inline(always)]
    unsafe fn lookup_16(table: *const u32, index: Self::U) -> Self::U {
        // SAFETY: the caller's; a window has 16 entries at least.
        unsafe { Self::lookup_window(table, Self::and(index, Self::splat(15))) }
    }
    /// `table[index]`
    unsafe fn lookup(table: *const u32, index: Self::U) -> Self::U;

    /// Asks for the cache line at `at`, which may be anywhere.
    fn prefetch(at: *const u8);
    /// The same for a line that is not needed soon, and should not take the place of others in the smallest cache.
    fn prefetch_far(at: *const u8);

    /// Of 64 bytes, bits for those that are not 0, and for those above 4.
    unsafe fn count_bits(counts: *const u8) -> (u64, u64);

    /// Writes `first + i` for each bit i that is set to `to`, where 64 places are; how many.
    #[inline(always)]
    unsafe fn list_bits(mut bits: u64, first: u16, to: *mut u16) -> usize {
        let mut n = 0;
        while bits != 0 {
            // SAFETY: the caller's.
            unsafe { to.add(n).write(first + bits.trailing_zeros() as u16) };
            bits &= bits - 1;
            n += 1;
        }
        n
    }

    /// Of `n <= 32` v4 words, which read-out lane they name: byte i is how many name one of the lanes 0 to i, where
    /// lanes 6 and 7, which do not exist, may count as one. `None`: not in the order of the lanes. Reads 66 bytes.
    #[inline(always)]
    unsafe fn lane_ends(words: *const u8, n: usize) -> Option<u64> {
        // SAFETY: the caller's.
        unsafe { lane_ends_by_words(words, n) }
    }

    /// The heads of the lanes of a v5 bank, to where eight are, each to its place in [`V5_HEADS`]: the lane's hits if there are
    /// no more than four, from the first on, or, where the head's bit of `reversed` is set, from the last on. Words that
    /// are too many are of no meaning, and so are heads of longer lanes. Reads 64 bytes.
    #[inline(always)]
    unsafe fn v5_heads(payload: *const u8, reversed: u8, to: *mut u64) {
        // SAFETY: the caller's.
        unsafe {
            let bytes = &*payload.cast::<[u8; 64]>();
            for (lane, byte) in V5_COUNTS.into_iter().enumerate() {
                let place = 8 + 4 * (LANES_PER_BOARD - 1 - lane);
                let pair =
                    |at: usize| u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
                let head = pair(place) | pair(32 + place) << 32;
                let at = usize::from(V5_HEADS[lane]);
                to.add(at).write(directed(head, bytes[byte], reversed >> at & 1 != 0));
            }
        }
    }

    /// The same of the `n` words of a v4 bank, of which byte i of `ends` says where those of lane i end. The head of lane i is
    /// the i-th. Reads 64 bytes, and two for each word, and six more.
    #[inline(always)]
    unsafe fn v4_heads(words: *const u8, _n: usize, ends: u64, reversed: u8, to: *mut u64) {
        // SAFETY: the caller's.
        unsafe { v4_heads_by_lanes(words, ends, reversed, to) }
    }

    /// Writes the four hit words of a head as stream words to `to`, where four words are.
    #[inline(always)]
    unsafe fn copy_head(head: *const u64, mask: u32, xor: u32, to: *mut u32) {
        // SAFETY: the caller's.
        unsafe {
            let head = head.read();
            for i in 0..4 {
                to.add(i).write((u32::from((head >> (16 * i)) as u16) & mask) ^ xor);
            }
        }
    }

    /// Writes all `n` hit words of a lane as stream words to `to`, backwards if `backwards` is -1 and not 0, and changes nothing beyond
    /// them. What it is cannot be foreseen, and of a `bool` the compiler makes a branch. Reads
    /// up to `7 * STRIDE + 4` bytes from the place of any pair with a hit.
    unsafe fn copy_lane<const STRIDE: usize>(
        from: *const u8,
        n: usize,
        backwards: i8,
        mask: u32,
        xor: u32,
        to: *mut u32,
    );
}

/// A head of `n <= 4` hits in the direction in which they are wanted; of more, anything.
#[inline(always)]
fn directed(head: u64, n: u8, reversed: bool) -> u64 {
    let swapped = head.swap_bytes();
    let swapped = swapped >> 8 & 0x00FF_00FF_00FF_00FF | (swapped & 0x00FF_00FF_00FF_00FF) << 8;
    if reversed { swapped.wrapping_shr(64 - 16 * u32::from(n & 3)) } else { head }
}

/// [`Simd::v4_heads`], lane by lane.
///
/// # Safety
/// As the method.
#[inline(always)]
pub unsafe fn v4_heads_by_lanes(words: *const u8, ends: u64, reversed: u8, to: *mut u64) {
    let mut begin = 0;
    for lane in 0..LANES_PER_BOARD {
        let end = (ends >> (8 * lane)) as u8;
        // SAFETY: the caller's: words are there up to `begin`, and three more can be read.
        unsafe {
            let head = u64::from_le_bytes(words.add(2 * usize::from(begin)).cast::<[u8; 8]>().read());
            to.add(lane).write(directed(head, end - begin, reversed >> lane & 1 != 0));
        }
        begin = end;
    }
}

/// The bits of a v4 word that name the lane.
const LANE_BITS: u16 = 0x3800;

/// [`Simd::lane_ends`], word by word, for up to 255.
///
/// # Safety
/// `n` words are there.
#[inline(always)]
pub unsafe fn lane_ends_by_words(words: *const u8, n: usize) -> Option<u64> {
    let (mut counts, mut before, mut unsorted) = (0u64, 0, false);
    for i in 0..n {
        // SAFETY: the caller's.
        let word = u16::from_le_bytes(unsafe { words.add(2 * i).cast::<[u8; 2]>().read() });
        // Eight times the lane.
        let lane = (word & LANE_BITS) >> 8;
        unsorted |= lane < before;
        before = lane;
        counts += 1 << lane;
    }
    (!unsorted).then_some(counts.wrapping_mul(0x0101_0101_0101_0101))
}

/// [`Simd::copy_lane`], hit by hit.
///
/// # Safety
/// As the method.
#[inline(always)]
pub unsafe fn copy_lane_by_hits<const STRIDE: usize>(
    from: *const u8,
    n: usize,
    backwards: i8,
    mask: u32,
    xor: u32,
    to: *mut u32,
) {
    for i in 0..n {
        // SAFETY: the caller gives n hits to read and room for n words.
        unsafe {
            let word = from.add(STRIDE * (i / 2) + 2 * (i % 2)).cast::<u16>().read_unaligned();
            to.add(if backwards == 0 { i } else { n - 1 - i }).write((u32::from(u16::from_le(word)) & mask) ^ xor);
        }
    }
}

/// The stages of the fast path at one level.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::type_complexity, reason = "signatures that stand in full where the stages are")]
pub struct Level {
    /// [`Fast::find_lanes`].
    pub find_lanes: unsafe fn(&Fast, &mut Scratch, BatchView<'_>, usize, usize),
    /// [`Fast::copy_lanes`].
    pub copy_lanes: unsafe fn(&Fast, &mut Scratch, Ahead) -> Result<usize, Unusual>,
    /// [`Fast::find_clusters`].
    pub find_clusters: unsafe fn(&Fast, &mut Scratch, usize, &mut [u32]) -> Result<(u32, u32), Unusual>,
    /// [`Fast::make_hits`].
    pub make_hits: unsafe fn(&Fast, &mut Scratch, usize, &[u32], &mut EventHits<'_>) -> Result<(), Unusual>,
}

/// Makes `LEVEL`: the stages with the instructions of a level switched on. All are unsafe for one reason: the CPU must
/// have them.
macro_rules! level {
    ($simd:ty $(, $features:literal)?) => {
        use $crate::decoder::cpu::copy_lanes::Ahead;
        use $crate::decoder::cpu::fast::{Fast, Unusual};
        use $crate::decoder::cpu::hits::EventHits;
        use $crate::decoder::cpu::scratch::Scratch;
        use $crate::decoder::cpu::simd::Level;
        use $crate::detector::BankVersion;
        use $crate::input::BatchView;

        /// The stages at this level. To call one, the CPU must have its instructions.
        pub const LEVEL: Level = Level { find_lanes, copy_lanes, find_clusters, make_hits };

        $(#[target_feature(enable = $features)])?
        unsafe fn find_lanes(fast: &Fast, scratch: &mut Scratch, batch: BatchView<'_>, event: usize, end: usize) {
            // SAFETY: the CPU has the instructions.
            unsafe { fast.find_lanes::<$simd>(scratch, batch, event, end) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn copy_lanes(
            fast: &Fast,
            scratch: &mut Scratch,
            ahead: Ahead,
        ) -> Result<usize, Unusual> {
            // SAFETY: the CPU has the instructions.
            unsafe {
                match fast.lanes.version {
                    BankVersion::V4 => fast.copy_lanes::<$simd, 4>(scratch, ahead),
                    BankVersion::V5 => fast.copy_lanes::<$simd, 32>(scratch, ahead),
                }
            }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn find_clusters(
            fast: &Fast,
            scratch: &mut Scratch,
            n_strips: usize,
            ends: &mut [u32],
        ) -> Result<(u32, u32), Unusual> {
            // SAFETY: the CPU has the instructions.
            unsafe { fast.find_clusters::<$simd>(scratch, n_strips, ends) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn make_hits(
            fast: &Fast,
            scratch: &mut Scratch,
            first: usize,
            ends: &[u32],
            hits: &mut EventHits<'_>,
        ) -> Result<(), Unusual> {
            // SAFETY: the CPU has the instructions.
            unsafe { fast.make_hits::<$simd>(scratch, first, ends, hits) }
        }
    };
}
use level;
