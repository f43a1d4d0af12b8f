//! Bit fields of the fused kernel: a lane with hits, a strip, the sums of a cluster.

use crate::bank::{v4, v5};
use crate::detector::BankVersion;
use simt::{Block, NonEmpty, Shared};

/// A lane with hits: count 8 bits, lane of the bank 3, bank 8, 1 spare, rank 11, reversed 1. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane(pub u32);

/// A strip. Rank from bit 20 on, as in [`Lane`]. v5: reversed in bit 15, then the hit word's 14 bits of strip and
/// charge, strip bits inverted if reversed. v4: the cluster word, 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub u32);

impl Lane {
    #[inline(always)]
    pub const fn new(count: u32, lane: u32, bank: u32, rank: u32, reversed: bool) -> Self {
        Self(count | lane << 8 | bank << 11 | rank << 20 | (reversed as u32) << 31)
    }

    #[inline(always)]
    pub const fn count(self) -> u32 {
        self.0 & 0xFF
    }

    #[inline(always)]
    pub const fn lane(self) -> u32 {
        self.0 >> 8 & 7
    }

    #[inline(always)]
    pub const fn bank(self) -> u32 {
        self.0 >> 11 & 0xFF
    }

    #[inline(always)]
    pub const fn rank(self) -> u32 {
        self.0 >> 20 & 0x7FF
    }

    #[inline(always)]
    const fn rank_bits(self) -> u32 {
        self.0 & 0x7FF << 20
    }

    #[inline(always)]
    pub const fn is_reversed(self) -> bool {
        self.0 >> 31 != 0
    }
}

#[derive(Clone, Copy)]
pub(super) struct Hits<'a> {
    pub version: BankVersion,
    pub raw: NonEmpty<'a, u16>,
    pub payloads: Shared<u32>,
    pub first_words: Shared<u8>,
}

impl Hits<'_> {
    /// Half-word of the batch at which the lane begins.
    #[inline(always)]
    #[track_caller]
    pub fn begin<B: Block>(&self, block: &B, lane: Lane) -> u32 {
        let payload = block.shared_load(self.payloads, lane.bank());
        match self.version {
            BankVersion::V4 => {
                let first = block.shared_load(self.first_words, 8 * lane.bank() + lane.lane());
                payload + v4::HEADER / 2 + u32::from(first)
            }
            BankVersion::V5 => payload + v5::lane_offset(lane.lane()) / 2,
        }
    }

    /// Returns the word of hit `i`, below the lane's count, in the order in which x rises. `begin`: [`Self::begin`].
    #[inline(always)]
    #[track_caller]
    pub fn word<B: Block>(&self, block: &B, lane: Lane, begin: u32, i: u32) -> Word {
        let i = if lane.is_reversed() { lane.count() - 1 - i } else { i };
        match self.version {
            BankVersion::V4 => Word(u32::from(block.load_within(self.raw, begin + i)) | lane.rank_bits()),
            BankVersion::V5 => {
                let hit = u32::from(block.load_within(self.raw, begin + v5::hit_half_words(i))) & 0x3FFF;
                let turned = if lane.is_reversed() { 1 << 15 | 0x1FF << 5 } else { 0 };
                Word((hit | lane.rank_bits()) ^ turned)
            }
        }
    }
}

impl Word {
    /// Unit of [`key`](Self::key) in a word; the charge lies below.
    pub const KEY: u32 = 1 << 5;

    /// Word that continues no strip and is no sum.
    pub const END: Self = Self(0);

    #[inline(always)]
    pub const fn rank(self) -> u32 {
        self.0 >> 20
    }

    /// Returns a key that rises by one from a strip to the next of its cluster.
    #[inline(always)]
    pub const fn key(self) -> u32 {
        self.0 >> 5
    }

    #[inline(always)]
    pub const fn adc(self) -> u32 {
        self.0 & 0x1F
    }

    /// v5: the strip, or 511 minus the strip if the lane is reversed.
    #[inline(always)]
    pub const fn turned_strip(self) -> u32 {
        self.0 >> 5 & 0x1FF
    }

    #[inline(always)]
    pub const fn is_reversed(self) -> bool {
        self.0 & 1 << 15 != 0
    }
}

/// Sums of a v5 cluster over the strips behind its first, in place of the second: charge 12 bits, charge times number
/// of the strip in the cluster 18. No [`Word`] has the highest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums(pub u32);

impl Sums {
    const MARK: u32 = 1 << 31;
    const CHARGE: u32 = 1 << 18;

    /// Strips of the largest cluster whose sums fit for any charges.
    pub const MAX_SIZE: u32 = 128;

    /// Returns the contribution of strip `number` of a cluster, 1 … 127; of others it means nothing.
    #[inline(always)]
    pub const fn of(number: u32, charge: u32) -> u32 {
        charge.wrapping_mul(Self::CHARGE | number)
    }

    #[inline(always)]
    pub const fn begin(of: u32) -> u32 {
        Self::MARK | of
    }

    /// Returns the sums, or 0 if this is a strip.
    #[inline(always)]
    pub const fn or_none(self) -> Self {
        Self(self.0 & (self.0.cast_signed() >> 31).cast_unsigned())
    }

    #[inline(always)]
    pub const fn charge(self) -> u32 {
        (self.0 & !Self::MARK) / Self::CHARGE
    }

    /// Σ charge · number.
    #[inline(always)]
    pub const fn moment(self) -> u32 {
        self.0 % Self::CHARGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_survives_its_word() {
        for (count, lane, bank, rank, reversed) in
            [(1, 0, 0, 0, false), (254, 5, 255, 2047, true), (17, 3, 8, 99, true)]
        {
            let word = Lane::new(count, lane, bank, rank, reversed);
            assert_eq!((word.count(), word.lane(), word.bank(), word.rank()), (count, lane, bank, rank));
            assert_eq!(word.is_reversed(), reversed);
        }
    }

    #[test]
    fn the_sums_of_the_largest_cluster_fit_and_no_strip_looks_like_one() {
        let added = (1..Sums::MAX_SIZE).map(|number| Sums::of(number, 31)).sum();
        let sums = Sums(Sums::begin(added));
        assert_eq!((sums.charge(), sums.moment()), (31 * 127, 31 * 127 * 128 / 2));
        assert_eq!(sums.or_none(), sums);
        let largest = u32::from(u16::MAX) | (crate::fused::hit_tables::MAX_RANKS - 1) << 20;
        for strip in [largest, Word::END.0] {
            assert_eq!(Sums(strip).or_none(), Sums(0));
        }
    }

    #[test]
    fn a_strip_of_a_reversed_lane_is_turned() {
        for strip in [0, 1, 255, 511] {
            let word = Word((strip << 5 | 7 | 12 << 20) ^ (1 << 15 | 0x1FF << 5));
            assert_eq!((511 - word.turned_strip(), word.rank()), (strip, 12));
            assert!(word.is_reversed() && word.adc() == 7);
        }
    }
}
