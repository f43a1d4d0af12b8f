//! Where the bytes of a batch are read from: global memory, or a copy of a part of it that is nearer.

use simt::{Block, Global, Scalar};

/// The bytes of a batch's `raw`, whose places are the same wherever they are read from.
pub trait Bytes<B: Block>: Copy {
    /// The value of up to four bytes that begins at byte `at`, little-endian, aligned or not.
    #[track_caller]
    fn load<T: Scalar>(self, block: &B, at: u32) -> T;
}

impl<B: Block> Bytes<B> for Global<'_, u8> {
    #[inline(always)]
    #[track_caller]
    fn load<T: Scalar>(self, block: &B, at: u32) -> T {
        block.load_bytes(self, at)
    }
}
