//! A cluster as shared memory keeps it.

use super::lanes::Found;

/// A cluster as it is kept: eight bytes. Position 22 bits, weight 13, rank 15 and its flag, number 13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub found: Found,
    /// How many of the same rank were found before; unused in a window.
    pub number: u32,
}

impl Kept {
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        let low = self.found.position as u64 | (self.found.weight as u64) << 22;
        low | (self.found.rank as u64) << 35 | (self.number as u64) << 51
    }

    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        let found = Found {
            position: bits as u32 & 0x003F_FFFF,
            weight: (bits >> 22) as u32 & 0x1FFF,
            rank: (bits >> 35) as u16,
        };
        Self { found, number: (bits >> 51) as u32 }
    }
}
