//! Bit fields of a lane with hits, before and after it is listed, and of its strips.

/// Descriptor of a lane with hits: the half-word of the batch at which it begins, 31 bits;
/// reversed, 1 bit; its number of strips, 8 bits from bit 32 on. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found(pub u64);

impl Found {
    /// `reversed`: in the highest bit, whether the lane is reversed.
    #[inline(always)]
    pub const fn new(begin: u32, reversed: u32, n_strips: u32) -> Self {
        Self((begin | reversed & 1 << 31) as u64 | (n_strips as u64) << 32)
    }

    #[inline(always)]
    pub const fn n_strips(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Lists the lane: the low word stays; the high word gets, among the warp's strips, the one
    /// that is the first word of the bank, 15 bits; the number of strips, 8 bits; the rank, counted
    /// from the warp's first, 8 bits.
    #[inline(always)]
    pub const fn listed(self, rank: u32, first_strip: u32) -> Listed {
        let low = self.0 as u32;
        let first_word = first_strip + (reversed(low) & (self.n_strips() - 1));
        Listed {
            low,
            high: rank << RANK | self.n_strips() << N_STRIPS | first_word,
        }
    }
}

/// All bits if the highest is set, else 0.
#[inline(always)]
const fn reversed(low: u32) -> u32 {
    (low.cast_signed() >> 31).cast_unsigned()
}

const N_STRIPS: u32 = 15;

/// Position of the rank in a listed lane's high word, and in a key.
const RANK: u32 = 23;

/// Most strips of a warp.
pub(super) const MAX_STRIPS: u32 = (1 << N_STRIPS) - 1;

/// Lane of a warp's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    low: u32,
    high: u32,
}

impl Listed {
    #[inline(always)]
    pub const fn of_bits(bits: u64) -> Self {
        Self {
            low: bits as u32,
            high: (bits >> 32) as u32,
        }
    }

    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        self.low as u64 | (self.high as u64) << 32
    }

    /// Half-word of the batch at which the lane begins.
    #[inline(always)]
    pub const fn begin(self) -> u32 {
        self.low & !(1 << 31)
    }

    /// Rank, counted from the warp's first.
    #[inline(always)]
    pub const fn rank(self) -> u32 {
        self.high >> RANK
    }

    /// Word of the lane that is `strip` of the warp.
    #[inline(always)]
    pub const fn word(self, strip: u32) -> u32 {
        strip
            .wrapping_sub(self.high & MAX_STRIPS)
            .cast_signed()
            .unsigned_abs()
    }

    /// First strip of the lane among the warp's.
    #[inline(always)]
    pub const fn first_strip(self) -> u32 {
        let n_strips = self.high >> N_STRIPS & 0xFF;
        (self.high & MAX_STRIPS) - (reversed(self.low) & (n_strips - 1))
    }

    #[inline(always)]
    pub const fn key(self, word: u32) -> Key {
        Key(self.high & !0 << RANK
            | (word & Key::STRIP) ^ (reversed(self.low) & (Key::REVERSED | Key::STRIP)))
    }

    /// v4: strip and fraction, 11 bits, in the direction in which x rises.
    #[inline(always)]
    pub const fn turned(self, strip_and_fraction: u32) -> u32 {
        strip_and_fraction ^ (reversed(self.low) & 0x7FF)
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
            assert_eq!(Listed::of_bits(listed.to_bits()), listed);
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
