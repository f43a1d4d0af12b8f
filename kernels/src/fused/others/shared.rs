//! The kernel's shared memory.

use super::repair::ROOM;
use crate::bank::headers::{HeaderCounters, UtBanks, items_capacity};
use crate::bank::layout::FoundEvent;
use crate::detector::{BankVersion, LANES_PER_BOARD};
use crate::ranked::lane_tables::LaneTables;
use simt::primitives::block_size_binning::SizeBins;
use simt::{Shared, SharedLayout};

#[derive(Clone, Copy, Debug)]
pub(super) struct OthersShared {
    pub counters: HeaderCounters,
    pub bins: Shared<u32>,
    pub found: Shared<u32>,
    pub next_item: Shared<u32>,
    /// Beginning of each group, counted from the event's first hit, and the end of the last.
    pub group_starts: Shared<u32>,
    /// Clusters of each rank; then the first place of each, and the end; then each rank's next place.
    pub places: Shared<u32>,
    pub banks: UtBanks,
    pub items: Shared<u16>,
    /// [`ROOM`] a warp: keys of the group that is sorted, and in `order` their hits.
    pub keys: Shared<u32>,
    pub order: Shared<u16>,
}

/// Most warps of a block that sort groups.
pub(super) const MAX_WARPS: u32 = 8;

impl OthersShared {
    #[inline(always)]
    const fn layout(version: BankVersion, n_boards: u32, n_groups: u32) -> (Self, u32) {
        let mut layout = SharedLayout::new();
        // Fixed sizes come first: their places are constants.
        let bins = layout.array(SizeBins::COUNTERS);
        let found = layout.array(FoundEvent::WORDS);
        let next_item = layout.array(1);
        let keys = layout.array(MAX_WARPS * ROOM);
        let order = layout.array(MAX_WARPS * ROOM);
        let counters = HeaderCounters::layout(&mut layout, n_boards);
        let group_starts = layout.array(n_groups + 1);
        let places = layout.array(n_boards * LANES_PER_BOARD as u32 + 1);
        let banks = UtBanks::layout(&mut layout, version, n_boards);
        let items = layout.array(items_capacity(version, n_boards));
        (Self { counters, bins, found, next_item, group_starts, places, banks, items, keys, order }, layout.bytes())
    }

    #[inline(always)]
    pub const fn of(version: BankVersion, tables: &LaneTables<'_>) -> Self {
        Self::layout(version, tables.n_boards(), tables.n_groups()).0
    }
}

/// Bytes of shared memory a block needs.
pub const fn others_shared_bytes(version: BankVersion, n_boards: u32, n_groups: u32) -> u32 {
    OthersShared::layout(version, n_boards, n_groups).1
}
