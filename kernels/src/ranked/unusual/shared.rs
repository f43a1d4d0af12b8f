//! The kernel's shared memory.

use crate::bank::headers::{HeaderCounters, UtBanks, items_capacity};
use crate::bank::layout::FoundEvent;
use crate::detector::{BankVersion, LANES_PER_BOARD};
use crate::ranked::PARTS;
use crate::ranked::lane_tables::LaneTables;
use simt::primitives::block_size_binning::SizeBins;
use simt::{Shared, SharedLayout};

#[derive(Clone, Copy, Debug)]
pub(super) struct UnusualShared {
    pub counters: HeaderCounters,
    pub bins: Shared<u32>,
    pub found: Shared<u32>,
    pub next_item: Shared<u32>,
    /// Of each part: the first rank behind it, and the distance of its clusters' numbers in the
    /// event and in the pool.
    pub part_ends: Shared<u32>,
    pub shifts: Shared<u32>,
    /// Not 0: the pool is exhausted.
    pub is_exhausted: Shared<u32>,
    /// Clusters of each rank; then the first of each, and the end; then each rank's next place in
    /// the pool.
    pub places: Shared<u32>,
    pub banks: UtBanks,
    pub items: Shared<u16>,
}

impl UnusualShared {
    #[inline(always)]
    const fn layout(version: BankVersion, n_boards: u32) -> (Self, u32) {
        let mut layout = SharedLayout::new();
        // Fixed sizes come first: their places are constants.
        let bins = layout.array(SizeBins::COUNTERS);
        let found = layout.array(FoundEvent::WORDS);
        let next_item = layout.array(1);
        let part_ends = layout.array(PARTS);
        let shifts = layout.array(PARTS);
        let is_exhausted = layout.array(1);
        let counters = HeaderCounters::layout(&mut layout, n_boards);
        let places = layout.array(n_boards * LANES_PER_BOARD as u32 + 1);
        let banks = UtBanks::layout(&mut layout, version, n_boards);
        let items = layout.array(items_capacity(version, n_boards));
        let shared = Self {
            counters,
            bins,
            found,
            next_item,
            part_ends,
            shifts,
            is_exhausted,
            places,
            banks,
            items,
        };
        (shared, layout.bytes())
    }

    #[inline(always)]
    pub const fn of(version: BankVersion, tables: &LaneTables<'_>) -> Self {
        Self::layout(version, tables.n_boards()).0
    }
}

/// Bytes of shared memory a block needs.
pub const fn cluster_unusual_shared_bytes(version: BankVersion, n_boards: u32) -> u32 {
    UnusualShared::layout(version, n_boards).1
}
