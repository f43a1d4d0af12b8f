//! v4 banks (version byte 3): clusters made by the front end (docs/format.md, "v4 banks").

use simt::{Block, Global};

/// Bytes of the header.
pub const HEADER: u32 = 4;

/// Number of cluster words of a payload whose `size` bytes are there; `None` if its header counts
/// more.
#[inline(always)]
pub fn n_words<B: Block>(block: &B, raw: Global<'_, u8>, payload: u32, size: u32) -> Option<u32> {
    if size < HEADER {
        return None;
    }
    let n = u32::from(block.load_bytes::<u16>(raw, payload));
    (size >= HEADER + 2 * n).then_some(n)
}

/// Position inside the strip, in quarters.
#[inline(always)]
pub const fn fraction(word: u16) -> u32 {
    (word & 0x3) as u32
}

/// Channel of the board, 0…4095.
#[inline(always)]
pub const fn channel(word: u16) -> u32 {
    ((word >> 2) & 0xFFF) as u32
}

/// Lane of the board, 0…7, if lanes have 512 strips.
#[inline(always)]
pub const fn lane(word: u16) -> u32 {
    (word >> 11 & 0x7) as u32
}
