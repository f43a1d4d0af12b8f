//! Look-up tables of the kernel, in records of one or two loads of sixteen bytes.

pub use crate::ranked::tables::{BoardRecord, ClassRecord, MAX_BOARDS, MAX_GROUPS, REVERSED, UNCONNECTED};

use simt::{Global, NonEmpty, Plain};

/// Most ranks that shared memory has room for; the UT has 1192. (A lane's descriptor has eleven bits for the rank.)
pub const MAX_RANKS: u32 = 1200;

/// Most classes of sectors; the UT has 18. (A [`LaneRecord`] has five bits for the class.)
pub const MAX_CLASSES: u32 = 24;

/// Position of the class in [`LaneRecord::id`]; a `ChannelID` ends below.
pub const CLASS_SHIFT: u32 = 23;

/// Constants of a lane, by rank, apart from those of its class.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct LaneRecord {
    /// `LHCbID` of strip 0 (v5: of the whole sector), with the class from [`CLASS_SHIFT`] on.
    pub id: u32,
    /// x at y = 0 of strip 0.
    pub p0_x: f32,
    /// y of the lower end of strip 0.
    pub p0_y: f32,
    /// |z| of strip 0.
    pub p0_z: f32,
}

// SAFETY: `repr(C)`, four 4-byte numbers, size 16, alignment 16: no padding; numbers only.
unsafe impl Plain for LaneRecord {}

/// Tables of the kernel. Their lengths match, or `fits` is 0: then every event is left to the other kernel, and no
/// event may be passed over (see [`FusedInput::selected`](super::FusedInput::selected)).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HitTables<'a> {
    /// Lanes of each board.
    pub boards: Global<'a, BoardRecord>,
    /// Constants of each lane, by rank.
    pub lanes: Global<'a, LaneRecord>,
    /// Sector group of each lane, by rank.
    pub groups: Global<'a, u16>,
    /// Constants of each class.
    pub classes: Global<'a, ClassRecord>,
    /// Groups of an event.
    pub n_groups: u32,
    /// 0: the tables do not fit the records.
    pub fits: u32,
    /// Not 0: in most groups the lanes overlap in x, so that hits are sorted before they are written.
    pub overlaps: u32,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for HitTables<'_> {}

impl<'a> HitTables<'a> {
    /// Boards of the table.
    #[inline(always)]
    pub const fn n_boards(&self) -> u32 {
        self.boards.len()
    }

    /// Number of connected lanes.
    #[inline(always)]
    pub const fn n_ranks(&self) -> u32 {
        self.lanes.len()
    }

    /// Returns the tables of the hits; `None` where one is empty, so that there are no hits.
    #[inline(always)]
    pub(super) fn of_hits(&self) -> Option<OfHits<'a>> {
        Some(OfHits {
            lanes: self.lanes.non_empty()?,
            groups: self.groups.non_empty()?,
            classes: self.classes.non_empty()?,
        })
    }
}

#[derive(Clone, Copy)]
pub(super) struct OfHits<'a> {
    pub lanes: NonEmpty<'a, LaneRecord>,
    pub groups: NonEmpty<'a, u16>,
    pub classes: NonEmpty<'a, ClassRecord>,
}
