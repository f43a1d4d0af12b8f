//! The detector tables on the device, and how a lane slot is looked up in them.
//!
//! The *flat map* answers with one load of eight bytes. The *board table*, from which the sector id
//! is worked out hit by hit, is what Allen had before merge request !1663; it is here to measure
//! that step.

use crate::detector::{Lane, SectorConstants, Slot};
use crate::switches::Switches;
use simt::{Block, Global};

/// The tables of a detector.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// The flat map: slot → channel, sector, group. Six a board.
    pub slots: Global<'a, Slot>,
    /// The board table: slot → where the lane is. Read only with `flat_map` off; else it may be
    /// empty.
    pub board_lanes: Global<'a, Lane>,
    /// Sector → group. Read only with `flat_map` off; else it may be empty.
    pub groups: Global<'a, u16>,
    /// Sector → constants of the hit formulas.
    pub sectors: Global<'a, SectorConstants>,
    /// Board → strips of a hybrid; 0: no such board. Its length is the number of boards.
    pub strips_per_hybrid: Global<'a, u32>,
    /// Layer → its first group, and after the last layer the number of groups: five. Read only with
    /// `layer_loop` on.
    pub layer_groups: Global<'a, u32>,
    /// Groups of an event.
    pub n_groups: u32,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for Tables<'_> {}

impl Tables<'_> {
    /// Boards of the table.
    #[inline(always)]
    pub const fn n_boards(&self) -> u32 {
        self.strips_per_hybrid.len()
    }

    /// Returns the lane and sector that are connected to a slot.
    #[inline(always)]
    pub fn slot<B: Block>(&self, block: &B, switches: Switches, slot: u32) -> Slot {
        if switches.flat_map {
            return block.load(self.slots, slot);
        }
        let lane = block.load(self.board_lanes, slot);
        if lane.chan_id == 0 {
            return Slot::default();
        }
        let sector = lane.sector_id();
        Slot {
            chan_id: lane.chan_id,
            sector: sector as u16,
            group: block.load(self.groups, sector),
        }
    }
}
