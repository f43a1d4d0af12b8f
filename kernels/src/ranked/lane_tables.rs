//! Look-up tables in the static order of the lane slots, a column a number.
//!
//! A *rank* is a lane slot's place in the order by sector group and, inside a group, by x;
//! unconnected slots have none. Neighbouring hits come from neighbouring ranks, so a table by rank
//! is read in few sectors. The constants that many sectors share (steps, lengths, slopes: 9 sets in
//! the real geometries) are stored once for each *class*.

use crate::detector::{BankVersion, SectorConstants};
use crate::hit::Strip;
use simt::{Block, Global};

/// Bit of a slot's rank: x falls with the strip number, and the lane is written backwards.
pub const REVERSED: u16 = 1 << 15;

/// Rank of unconnected slots.
pub const UNCONNECTED: u16 = u16::MAX;

/// Words of a class: `dp0di_x`, `dp0di_y`, `dp0di_z`, `dy`, `dx_dy`, `weight`, `first_strip`, and
/// the flags.
pub const CLASS_WORDS: u32 = 8;

/// Flag of a class: the sectors are flipped.
pub const CLASS_FLIPPED: u32 = 1;

/// Flag of a class: x falls with the strip number.
pub const CLASS_REVERSED: u32 = 2;

/// Maximum number of ranks.
pub const MAX_RANKS: u32 = UNCONNECTED as u32 & !(REVERSED as u32);

/// The tables.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaneTables<'a> {
    /// Slot → rank, with [`REVERSED`]; or [`UNCONNECTED`].
    pub ranks: Global<'a, u16>,
    /// Group, and one after the last → its first rank.
    pub first_ranks: Global<'a, u32>,
    /// Board → strips of a hybrid; 0: no such board. Its length is the number of boards.
    pub strips_per_hybrid: Global<'a, u32>,
    /// Rank → `ChannelID` of the lane's first strip (v4), of strip 0 of the whole sector (v5).
    pub chan_ids: Global<'a, u32>,
    /// Rank → v4: channel of the board at which the lane begins. Unused for v5.
    pub first_channels: Global<'a, u32>,
    /// Rank → x at y = 0 of strip 0.
    pub p0_x: Global<'a, f32>,
    /// Rank → y of the lower end of strip 0.
    pub p0_y: Global<'a, f32>,
    /// Rank → |z| of strip 0.
    pub p0_z: Global<'a, f32>,
    /// Rank → class.
    pub classes: Global<'a, u16>,
    /// [`CLASS_WORDS`] words a class, floats as bits.
    pub constants: Global<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for LaneTables<'_> {}

impl LaneTables<'_> {
    /// Boards of the table.
    #[inline(always)]
    pub const fn n_boards(&self) -> u32 {
        self.strips_per_hybrid.len()
    }

    /// Number of connected lane slots.
    #[inline(always)]
    pub const fn n_ranks(&self) -> u32 {
        self.chan_ids.len()
    }

    /// Groups of an event.
    #[inline(always)]
    pub const fn n_groups(&self) -> u32 {
        self.first_ranks.len() - 1
    }

    /// Rank of a slot, with [`REVERSED`]; `None` if it is unconnected.
    #[inline(always)]
    pub fn rank<B: Block>(&self, block: &B, slot: u32) -> Option<u16> {
        let rank = block.load(self.ranks, slot);
        (rank != UNCONNECTED).then_some(rank)
    }

    /// Returns true if the lane of a rank is written backwards.
    #[inline(always)]
    pub fn is_reversed<B: Block>(&self, block: &B, rank: u32) -> bool {
        let class = CLASS_WORDS * u32::from(block.load(self.classes, rank));
        block.load(self.constants, class + 7) & CLASS_REVERSED != 0
    }

    /// Returns the strip of a cluster of this position and weight (v4: word and 0) on the lane of a
    /// rank.
    #[inline(always)]
    pub fn strip<B: Block>(
        &self,
        block: &B,
        version: BankVersion,
        rank: u32,
        position: u32,
        weight: u32,
        flip_origin: f32,
    ) -> Strip {
        let chan_id = block.load(self.chan_ids, rank);
        let class = CLASS_WORDS * u32::from(block.load(self.classes, rank));
        let sector = SectorConstants {
            p0_x: block.load(self.p0_x, rank),
            p0_y: block.load(self.p0_y, rank),
            p0_z: block.load(self.p0_z, rank),
            dp0di_x: f32::from_bits(block.load(self.constants, class)),
            dp0di_y: f32::from_bits(block.load(self.constants, class + 1)),
            dp0di_z: f32::from_bits(block.load(self.constants, class + 2)),
            dy: f32::from_bits(block.load(self.constants, class + 3)),
            dx_dy: f32::from_bits(block.load(self.constants, class + 4)),
            weight: f32::from_bits(block.load(self.constants, class + 5)),
            first_strip: match version {
                BankVersion::V4 => block.load(self.constants, class + 6),
                BankVersion::V5 => 0,
            },
            flipped: match version {
                BankVersion::V4 => 0,
                BankVersion::V5 => block.load(self.constants, class + 7) & CLASS_FLIPPED,
            },
        };
        match version {
            BankVersion::V4 => Strip::of_v4(
                position as u16,
                chan_id,
                block.load(self.first_channels, rank),
                sector,
            ),
            BankVersion::V5 => Strip::of_v5(position, weight, chan_id, sector, flip_origin),
        }
    }
}
