//! The event's bytes in shared memory: each is read from global memory once, by neighbouring lanes side by side.
//!
//! Read in place, the words of a bank would be fetched one by one, a sector of 32 bytes for each. What does not fit the
//! stage, and what damaged offsets lead to elsewhere, is read in place: the stage changes no result.

use crate::bank::bytes::Bytes;
use crate::block::{Block, Global, Scalar, Shared};

/// Copies begin at multiples of this many bytes, so that each access of a warp is four whole sectors.
const LINE: u32 = 128;

/// The bytes of a batch, some of them nearer.
#[derive(Clone, Copy, Debug)]
pub struct Staged<'a> {
    raw: Global<'a, u8>,
    words: Shared<u32>,
    /// The first byte of `raw` that is in `words`.
    first: u32,
    /// How many are.
    len: u32,
}

impl<'a> Staged<'a> {
    /// Copies the bytes from `begin` to `end`, as far as there are such and `words` has room. All threads of the block
    /// call; a barrier must follow.
    #[inline(always)]
    pub fn fill<B: Block>(block: &B, raw: Global<'a, u8>, words: Shared<u32>, (begin, end): (u32, u32)) -> Self {
        let first = begin / LINE * LINE;
        // Whole words only, of those that are there.
        let there = raw.len().saturating_sub(first) / 4;
        let n_words = end.saturating_sub(first).div_ceil(4).min(there).min(words.len());
        let mut i = block.thread();
        while i < n_words {
            block.shared_store(words, i, block.load_bytes::<u32>(raw, first + 4 * i));
            i += block.threads();
        }
        Self { raw, words, first, len: 4 * n_words }
    }
}

impl<B: Block> Bytes<B> for Staged<'_> {
    #[inline(always)]
    #[track_caller]
    fn load<T: Scalar>(self, block: &B, at: u32) -> T {
        const { assert!(size_of::<T>() <= 4) };
        let size = size_of::<T>() as u32;
        // Far beyond the end where `at` lies before the first byte.
        let from = at.wrapping_sub(self.first);
        if from >= self.len || size > self.len - from {
            return block.load_bytes(self.raw, at);
        }
        let (i, byte) = (from / 4, from % 4);
        let mut bits = u64::from(block.shared_load(self.words, i));
        if byte + size > 4 {
            bits |= u64::from(block.shared_load(self.words, i + 1)) << 32;
        }
        T::from_bits(bits >> (8 * byte))
    }
}
