//! v5 banks (version byte 4): the strips of six lanes, interleaved in rows of 32 bytes
//! (docs/format.md, "v5 banks").

use crate::detector::LANES_PER_BOARD;
use simt::{Block, Global};
pub use ut_format::bank::COUNT_BYTES;

/// Bytes before the first row.
pub const HEADER: u32 = 8;

/// A payload below this has no hits.
pub const SMALLEST: u32 = 24;

/// A count that says: this bank is bad.
pub const BAD_COUNT: u32 = 255;

/// Lanes of a bank.
pub const LANES: u32 = LANES_PER_BOARD as u32;

/// The bytes of [`COUNT_BYTES`], a bit each: on the device an array would become local memory.
const COUNT_BYTES_MASK: u32 = 0b1111_0011;

/// Hit counts of the six lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Header bytes 0…3: the counts of lanes 4 and 5, and two others.
    low: u32,
    /// Header bytes 4…7: the counts of lanes 0…3.
    high: u32,
}

/// Statement of a header about its bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Decodable: all hits that it counts are there.
    Hits(Counts),
    /// Nothing in it, and nothing claimed.
    Empty,
    /// Too small for hits but claims some.
    Short,
    /// A count of 255.
    Bad,
    /// Smaller than its counts say.
    Truncated,
}

impl Counts {
    /// Unpacks the header's two words.
    #[inline(always)]
    pub const fn of_words(low: u32, high: u32) -> Self {
        Self { low, high }
    }

    /// Hits of lane `lane`, 0…5.
    #[inline(always)]
    pub const fn of(self, lane: u32) -> u32 {
        let word = if lane < 4 { self.high } else { self.low };
        (word >> (8 * (lane % 4))) & 0xFF
    }
}

/// Reads the header of the payload of `size` bytes at `payload`, which are there, and checks it
/// against the size.
#[inline(always)]
pub fn header<B: Block>(block: &B, raw: Global<'_, u8>, payload: u32, size: u32) -> Header {
    if size < SMALLEST {
        let mut claimed = 0;
        let mut place = 0;
        // Without a branch: that takes fewer registers.
        while place < size.min(HEADER) {
            let byte: u8 = block.load_bytes(raw, payload + place);
            claimed |= u32::from(byte) * ((COUNT_BYTES_MASK >> place) & 1);
            place += 1;
        }
        return if claimed == 0 {
            Header::Empty
        } else {
            Header::Short
        };
    }
    let counts = Counts {
        low: block.load_bytes(raw, payload),
        high: block.load_bytes(raw, payload + 4),
    };
    let mut most = 0;
    for lane in 0..LANES {
        most = most.max(counts.of(lane));
    }
    if most == BAD_COUNT {
        Header::Bad
    } else if size < 32 * most.div_ceil(2) {
        Header::Truncated
    } else {
        Header::Hits(counts)
    }
}

/// Byte offset of a lane's first hit from the start of the payload; hit `i` is [`hit_offset`]`(i)`
/// further on.
#[inline(always)]
pub const fn lane_offset(lane: u32) -> u32 {
    HEADER + 4 * (LANES - 1 - lane)
}

/// Byte offset of hit `i` of a lane from the lane's first.
#[inline(always)]
pub const fn hit_offset(i: u32) -> u32 {
    2 * hit_half_words(i)
}

/// Half-words from a lane's first hit to hit `i`: two hits in each row of sixteen half-words.
#[inline(always)]
pub const fn hit_half_words(i: u32) -> u32 {
    // (On the device: an `and` and a `mad`.)
    i + 7 * (i & !1)
}

/// Charge of a hit word, 0…31.
#[inline(always)]
pub const fn adc(word: u16) -> u32 {
    (word & 0x1F) as u32
}

/// Strip of a hit word, 0…511.
#[inline(always)]
pub const fn strip(word: u16) -> u32 {
    ((word >> 5) & 0x1FF) as u32
}

#[cfg(test)]
mod tests {
    use super::{COUNT_BYTES, COUNT_BYTES_MASK, Counts, hit_offset, lane_offset};

    #[test]
    fn counts_lie_in_bytes_4_5_6_7_0_1() {
        let counts = Counts {
            low: u32::from_le_bytes([50, 60, 99, 98]),
            high: u32::from_le_bytes([10, 20, 30, 40]),
        };
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|lane| counts.of(lane)),
            [10, 20, 30, 40, 50, 60]
        );
        assert_eq!(COUNT_BYTES, [4, 5, 6, 7, 0, 1]);
        assert_eq!(
            COUNT_BYTES.iter().fold(0, |mask, byte| mask | 1 << byte),
            COUNT_BYTES_MASK
        );
    }

    #[test]
    fn hits_lie_where_the_formula_of_the_spec_puts_them() {
        for lane in 0..6 {
            for i in 0..254 {
                let word = 16 * (i / 2) + 2 * (5 - lane) + i % 2;
                assert_eq!(lane_offset(lane) + hit_offset(i), 8 + 2 * word);
            }
        }
    }
}
