//! Look-up tables of the kernels, by rank: a lane's place in the static order by sector group and
//! x.

pub use super::lane_tables::{REVERSED, UNCONNECTED};

use crate::bank::v4;
use crate::detector::BankVersion;
use simt::{Block, Global, NonEmpty, Plain};

/// Maximum number of ranks that `cluster` has room for; the UT has 1192.
pub const MAX_RANKS: u32 = 1216;

/// Maximum number of boards; the UT has 216, in v4 240.
pub const MAX_BOARDS: u32 = 240;

/// Maximum number of groups; the groupings in use have 72 and 84.
pub const MAX_GROUPS: u32 = 96;

/// Maximum number of ranks of a warp.
pub const MAX_RANKS_OF_WARP: u32 = 256;

/// Maximum number of ranks of a thread, all of one group.
pub const MAX_RANKS_OF_THREAD: u32 = 6;

/// Ranks of a thread of `cluster`, in a word: the first in 11 bits, their number in 3, and from bit
/// 14 on, if the thread begins a group, one more than the group, in 7; then whether the group is
/// the last of its warp, and whether it is always sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u32);

impl Share {
    const IS_LAST: u32 = 1 << 21;

    const IS_SORTED: u32 = 1 << 22;

    /// Packs a share.
    pub const fn new(first: u32, n: u32, group: Option<u32>) -> Self {
        let group = match group {
            Some(group) => group + 1,
            None => 0,
        };
        Self(first | n << 11 | group << 14)
    }

    /// Says that the thread's group is the last of its warp.
    #[must_use]
    pub const fn last(self) -> Self {
        Self(self.0 | Self::IS_LAST)
    }

    /// Says that the thread's group is always to be sorted.
    #[must_use]
    pub const fn sorted(self) -> Self {
        Self(self.0 | Self::IS_SORTED)
    }

    /// First rank.
    #[inline(always)]
    pub const fn first(self) -> u32 {
        self.0 & 0x7FF
    }

    /// Number of ranks.
    #[inline(always)]
    pub const fn n(self) -> u32 {
        self.0 >> 11 & 7
    }

    /// Group that the thread begins.
    #[inline(always)]
    pub const fn group(self) -> Option<u32> {
        (self.0 >> 14 & 0x7F).checked_sub(1)
    }

    /// Returns true if this group is the last of its warp.
    #[inline(always)]
    pub const fn is_last(self) -> bool {
        self.0 & Self::IS_LAST != 0
    }

    /// Returns true if this group is to be sorted whatever its hits: its lanes overlap so far that
    /// its [`Bounds`] are not looked at.
    #[inline(always)]
    pub const fn is_sorted(self) -> bool {
        self.0 & Self::IS_SORTED != 0
    }
}

/// Strips of a lane beyond which its hits may lie among those of other lanes of the group, in a
/// word. A *turned* strip is counted in the direction in which x rises.
///
/// ```text
/// turned strip   0 …… low …………………… high …… 511
///                may lie below      may lie above
///                an earlier lane    a later lane
/// ```
///
/// `low` has 10 bits, the number of strips between 10, [`half`](Self::half) two, the number of the
/// lane in its board three, the group seven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds(pub u32);

impl Bounds {
    /// Packs the bounds. Where `high` is below `low`, they apply to no strip.
    pub const fn new(low: u32, high: u32, half: u32, lane: u32, group: u32) -> Self {
        let (between, half) = if high < low {
            (0, 3)
        } else {
            (high - low, half)
        };
        Self(low | between << 10 | half << 20 | lane << 22 | group << 25)
    }

    /// Returns true if a strip is beyond one of the bounds.
    #[inline(always)]
    pub const fn is_beyond(self, turned: u32) -> bool {
        turned.wrapping_sub(self.low()) >= self.0 >> 10 & 0x3FF
    }

    /// Strips below this one may lie below an earlier lane.
    #[inline(always)]
    pub const fn low(self) -> u32 {
        self.0 & 0x3FF
    }

    /// Strips from this one on may lie above a later lane.
    #[inline(always)]
    pub const fn high(self) -> u32 {
        self.low() + (self.0 >> 10 & 0x3FF)
    }

    /// Half of the sector to which the bounds apply, if two lanes read it: 1 for turned strips
    /// below 256, 2 for the others. 0: the lane reads the whole sector; 3: they apply to no strip.
    #[inline(always)]
    pub const fn half(self) -> u32 {
        self.0 >> 20 & 3
    }

    /// Returns true if the bounds do not apply to a strip, because another lane should have read
    /// it.
    #[inline(always)]
    pub const fn is_misplaced(self, turned: u32) -> bool {
        self.half() == 3 || self.half() == 1 + (turned < 256) as u32
    }

    /// Number of the lane in its board.
    #[inline(always)]
    pub const fn lane(self) -> u32 {
        self.0 >> 22 & 7
    }

    /// Sector group.
    #[inline(always)]
    pub const fn group(self) -> u32 {
        self.0 >> 25
    }
}

/// Lanes of a board.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct BoardRecord {
    /// By lane: rank, with [`REVERSED`]; or [`UNCONNECTED`].
    pub ranks: [u16; 6],
    /// Strips of a hybrid; 0: there is no such board.
    pub strips_per_hybrid: u16,
    /// Reserved: 0.
    pub spare: u16,
}

// SAFETY: `repr(C)`, eight u16, size 16, alignment 16: no padding; integers only.
unsafe impl Plain for BoardRecord {}

/// Constants of a lane, by rank, apart from the constants of its class.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct LaneRecord {
    /// `ChannelID` of the lane's first strip (v4), of strip 0 of the whole sector (v5).
    pub chan_id: u32,
    /// x at y = 0 of strip 0.
    pub p0_x: f32,
    /// y of the lower end of strip 0.
    pub p0_y: f32,
    /// |z| of strip 0.
    pub p0_z: f32,
}

// SAFETY: `repr(C)`, four 4-byte numbers, size 16, alignment 16: no padding; numbers only.
unsafe impl Plain for LaneRecord {}

/// Places of x in the range of a group, for the sort: the same for all its ranks.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Spread {
    /// Factor of x, not negative.
    pub scale: f32,
    /// Added to it: 0 is the beginning of the range, [`PLACES`](Self::PLACES) its end.
    pub offset: f32,
}

// SAFETY: `repr(C)`, two f32, size and alignment 8: no padding; numbers only.
unsafe impl Plain for Spread {}

impl Spread {
    /// Places of the range: as many as 16 bits can tell apart.
    pub const PLACES: f32 = 65535.0;

    /// Returns the bucket of a hit, one of `n`, which are up to 2¹⁶. It never falls where x rises,
    /// unless x is not a number.
    #[inline(always)]
    pub const fn bucket(self, x: f32, n: u32) -> u32 {
        // (A sum with 2²³ is rounded to a whole number, which its lowest bits have.)
        let place = (x * self.scale + self.offset).max(0.0).min(Self::PLACES) + 8_388_608.0;
        ((place.to_bits() & 0xFFFF) * n) >> 16
    }
}

/// Constants that many sectors share; see [`SectorConstants`](crate::detector::SectorConstants).
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct ClassRecord {
    /// Step in x from one strip to the next.
    pub dp0di_x: f32,
    /// Step in y.
    pub dp0di_y: f32,
    /// Step in z.
    pub dp0di_z: f32,
    /// Length of a strip in y.
    pub dy: f32,
    /// Slope dx/dy of a strip.
    pub dx_dy: f32,
    /// Inverse variance.
    pub weight: f32,
    /// v4: number of the sector's first strip; else 0.
    pub first_strip: u32,
    /// v5: 1 where the strip numbering runs against the coordinate; else 0.
    pub flipped: u32,
}

// SAFETY: `repr(C)`, eight 4-byte numbers, size 32, alignment 16: no padding; numbers only.
unsafe impl Plain for ClassRecord {}

/// The tables. Where they do not fit `cluster`, `fits` is 0, and `boards`, `bounds`, `shares` and
/// `ranges` are empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RankedTables<'a> {
    /// Lanes of each board.
    pub boards: Global<'a, BoardRecord>,
    /// [`Bounds`] of each rank.
    pub bounds: Global<'a, u32>,
    /// [`Share`] of each thread of a block.
    pub shares: Global<'a, u32>,
    /// First rank of each warp's threads, and the number of ranks.
    pub ranges: Global<'a, u32>,
    /// Constants of each lane, by rank.
    pub lanes: Global<'a, LaneRecord>,
    /// Class of each rank.
    pub class_of: Global<'a, u16>,
    /// Constants of each class.
    pub classes: Global<'a, ClassRecord>,
    /// Range of each rank's group.
    pub spreads: Global<'a, Spread>,
    /// Groups of an event.
    pub n_groups: u32,
    /// 0: the tables do not fit `cluster`.
    pub fits: u32,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for RankedTables<'_> {}

/// Tables of the hit formulas, none of which is empty.
#[derive(Clone, Copy)]
pub(super) struct Formulas<'a> {
    pub version: BankVersion,
    pub flip_origin: f32,
    lanes: NonEmpty<'a, LaneRecord>,
    class_of: NonEmpty<'a, u16>,
    classes: NonEmpty<'a, ClassRecord>,
}

/// A record's strip, and the constants of its lane.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Strip number that goes into the formulas.
    pub n: f32,
    /// `LHCbID`.
    pub id: u32,
    pub lane: LaneRecord,
    pub class: ClassRecord,
}

impl<'a> RankedTables<'a> {
    /// Returns the tables of the hit formulas; `None` where one is empty, so that there are no
    /// hits.
    #[inline(always)]
    pub(super) fn formulas(&self, version: BankVersion, flip_origin: f32) -> Option<Formulas<'a>> {
        Some(Formulas {
            version,
            flip_origin,
            lanes: self.lanes.non_empty()?,
            class_of: self.class_of.non_empty()?,
            classes: self.classes.non_empty()?,
        })
    }
}

impl Formulas<'_> {
    /// Looks up a record's place.
    #[inline(always)]
    pub fn place<B: Block>(&self, block: &B, record: super::Record) -> Place {
        let rank = record.rank();
        let lane = block.load_within(self.lanes, rank);
        let class = block.load_within(
            self.classes,
            u32::from(block.load_within(self.class_of, rank)),
        );
        let (n, channel) = match self.version {
            BankVersion::V4 => {
                let strip_id = (record.quarter_strip() >> 2) + 1;
                let n = 0.25 * v4::fraction(record.quarter_strip() as u16) as f32 + strip_id as f32
                    - class.first_strip as f32;
                (n, lane.chan_id.wrapping_add(strip_id - 1))
            }
            BankVersion::V5 => {
                // Not 0: each cluster has a charge. The guard keeps the division defined on the
                // device all the same.
                let (position, weight) = record.position_and_weight();
                let mean = position as f32 / weight.max(1) as f32;
                let n = if class.flipped == 0 {
                    mean
                } else {
                    self.flip_origin - mean
                };
                (n, lane.chan_id + nearest_strip(mean))
            }
        };
        Place {
            n,
            id: UT_CHANNEL | channel,
            lane,
            class,
        }
    }
}

impl Place {
    /// x at y = 0.
    #[inline(always)]
    pub fn x(&self) -> f32 {
        self.lane.p0_x + self.n * self.class.dp0di_x
    }
}

/// Bits of an `LHCbID` that say that a channel of the UT follows.
const UT_CHANNEL: u32 = 3 << 28;

/// Whole number nearest to the quotient `mean` = Σpos/W, the larger of two. A quotient that is not
/// halfway between two is at least 1/(2W) > 2⁻¹⁴ away from there: a small step up does no harm. The
/// sum with 2²³ then rounds.
#[inline(always)]
const fn nearest_strip(mean: f32) -> u32 {
    (mean + HALFWAY_STEP + 8_388_608.0).to_bits() & 0x3FF
}

/// 2⁻¹⁵, the distance of floats between 256 and 512.
const HALFWAY_STEP: f32 = 1.0 / 32768.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_strip_agrees_with_integer_arithmetic_close_to_a_tie() {
        for weight in 1..=31 * 254 {
            for strip in 0..512u32 {
                for near in [strip * weight + weight / 2, strip * weight] {
                    for sum in near.saturating_sub(1)..=(near + 1).min(511 * weight) {
                        let nearest = (2 * sum + weight) / (2 * weight);
                        assert_eq!(
                            nearest_strip(sum as f32 / weight as f32),
                            nearest,
                            "{sum}/{weight}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn shares_and_bounds_are_unchanged_by_packing() {
        for (first, n, group) in [(0, 0, None), (1215, 6, Some(95)), (7, 3, Some(0))] {
            let share = Share::new(first, n, group);
            assert_eq!((share.first(), share.n(), share.group()), (first, n, group));
            let marks = |share: Share| (share.group(), share.is_last(), share.is_sorted());
            assert_eq!(marks(share), (group, false, false));
            assert_eq!(marks(share.last()), (group, true, false));
            assert_eq!(marks(share.sorted()), (group, false, true));
        }
        let bounds = Bounds::new(300, 511, 2, 5, 95);
        assert_eq!(
            (
                bounds.low(),
                bounds.high(),
                bounds.half(),
                bounds.lane(),
                bounds.group()
            ),
            (300, 511, 2, 5, 95)
        );
        let beyond = [0, 299, 300, 510, 511].map(|strip| bounds.is_beyond(strip));
        assert_eq!(beyond, [true, true, false, false, true]);
        let none = Bounds::new(512, 0, 0, 5, 95);
        assert!((0..512).all(|strip| none.is_beyond(strip) && none.is_misplaced(strip)));
        assert!(bounds.is_misplaced(255) && !bounds.is_misplaced(256));
        assert!(
            !Bounds::new(0, 9, 1, 0, 0).is_misplaced(255)
                && Bounds::new(0, 9, 1, 0, 0).is_misplaced(256)
        );
    }
}
