//! Bit fields of a lane with hits, before and after it is listed, and of its strips.

use simt::Plain;

/// Entry of the shared table of lanes, eight bytes: a [`Found`] lane until the lists are made, a
/// [`Listed`] one afterwards; all 0 for a lane without hits.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub low: u32,
    pub high: u32,
}

// SAFETY: `repr(C)`, two u32, size and alignment 8: no padding; integers only, so every bit pattern
// is a value.
unsafe impl Plain for Entry {}

/// Descriptor of a lane with hits. The low word has the half-word of the batch at which the lane
/// begins, 31 bits, and in the highest bit whether it is reversed. The high word counts the lane's
/// strips, 8 bits, and from bit [`LANE`](Self::LANE) on one lane: the sum of high words counts the
/// strips and the lanes of a warp together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found(pub Entry);

impl Found {
    /// Position of the number of lanes in a high word, and in a sum of high words.
    pub const LANE: u32 = 16;

    /// `reversed`: in the highest bit, whether the lane is reversed. `n_strips` is 1…255.
    #[inline(always)]
    pub const fn new(begin: u32, reversed: u32, n_strips: u32) -> Self {
        Self(Entry {
            low: begin | reversed & 1 << 31,
            high: n_strips | 1 << Self::LANE,
        })
    }

    #[inline(always)]
    pub const fn n_strips(self) -> u32 {
        self.0.high & 0xFF
    }

    /// Lists the lane: the low word stays; the high word gets, among the warp's strips, the one
    /// that is the first word of the bank, 15 bits; the number of strips, 8 bits; the rank, counted
    /// from the warp's first, 8 bits.
    #[inline(always)]
    pub const fn listed(self, rank: u32, first_strip: u32) -> Listed {
        let Entry { low, .. } = self.0;
        let n = self.n_strips();
        let first_word = first_strip + (reversed(low) & (n - 1));
        Listed(Entry {
            low,
            high: rank << RANK | n << N_STRIPS | first_word,
        })
    }
}

/// All bits if the highest is set, else 0.
#[inline(always)]
const fn reversed(low: u32) -> u32 {
    (low.cast_signed() >> 31).cast_unsigned()
}

const N_STRIPS: u32 = 15;

/// Position of the rank in a listed lane's high word, and in a key.
pub(super) const RANK: u32 = 23;

/// Maximum number of strips of a warp.
pub(super) const MAX_STRIPS: u32 = (1 << N_STRIPS) - 1;

/// Lane of a warp's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed(pub Entry);

impl Listed {
    /// Half-word of the batch at which the lane begins.
    #[inline(always)]
    pub const fn begin(self) -> u32 {
        self.0.low & !(1 << 31)
    }

    /// Rank, counted from the warp's first.
    #[inline(always)]
    pub const fn rank(self) -> u32 {
        self.0.high >> RANK
    }

    /// Word of the lane that is `strip` of the warp.
    #[inline(always)]
    pub const fn word(self, strip: u32) -> u32 {
        strip
            .wrapping_sub(self.0.high & MAX_STRIPS)
            .cast_signed()
            .unsigned_abs()
    }

    /// First strip of the lane among the warp's.
    #[inline(always)]
    pub const fn first_strip(self) -> u32 {
        let Entry { low, high } = self.0;
        let n_strips = high >> N_STRIPS & 0xFF;
        (high & MAX_STRIPS) - (reversed(low) & (n_strips - 1))
    }

    #[inline(always)]
    pub const fn key(self, word: u32) -> Key {
        let Entry { low, high } = self.0;
        Key(high & !0 << RANK
            | (word & Key::STRIP) ^ (reversed(low) & (Key::REVERSED | Key::STRIP)))
    }

    /// v4: strip and fraction, 11 bits, in the direction in which x rises.
    #[inline(always)]
    pub const fn turned(self, strip_and_fraction: u32) -> u32 {
        strip_and_fraction ^ (reversed(self.0.low) & 0x7FF)
    }
}

/// Key of a v5 strip, which rises by [`STEP`](Self::STEP) from a strip to the next of its cluster,
/// and by more from lane to lane: the turned strip, where the hit word has the strip; a bit if the
/// lane is read backwards; the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(pub u32);

impl Key {
    pub const STEP: u32 = 1 << 5;

    const STRIP: u32 = 0x1FF << 5;

    pub const REVERSED: u32 = 1 << 14;

    #[inline(always)]
    pub const fn turned_strip(self) -> u32 {
        self.0 >> 5 & 0x1FF
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_listed_with_its_first_word_at_the_end_that_is_read_first() {
        for is_reversed in [0, 1 << 31] {
            let listed = Found::new(0x7FFF_FFF0, is_reversed, 254).listed(255, 32_000);
            assert_eq!(
                (listed.begin(), listed.rank(), listed.first_strip()),
                (0x7FFF_FFF0, 255, 32_000)
            );
            let words = [32_000, 32_253].map(|strip| listed.word(strip));
            assert_eq!(words, if is_reversed == 0 { [0, 253] } else { [253, 0] });
        }
    }

    #[test]
    fn keys_rise_by_a_step_in_a_cluster_and_by_more_from_lane_to_lane() {
        for (first, next) in [(0, 0), (0, 1 << 31), (1 << 31, 0), (1 << 31, 1 << 31)] {
            for ranks in [[3, 4], [0, 255]] {
                let [lane, other] = [(first, ranks[0]), (next, ranks[1])]
                    .map(|(reversed, rank)| Found::new(9, reversed, 1).listed(rank, 0));
                let key = |lane: Listed, turned: u32, reversed: u32| {
                    let strip = if reversed == 0 { turned } else { 511 - turned };
                    let key = lane.key(strip << 5 | 0xC01F);
                    assert_eq!(
                        (key.turned_strip(), key.0 & Key::REVERSED != 0),
                        (turned, reversed != 0)
                    );
                    key.0.cast_signed()
                };
                assert_eq!(
                    key(lane, 511, first) - key(lane, 510, first),
                    Key::STEP.cast_signed()
                );
                assert!(key(other, 0, next) - key(lane, 511, first) > Key::STEP.cast_signed());
            }
        }
    }
}
