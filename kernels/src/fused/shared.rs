//! The kernel's shared memory.
//!
//! Some parts are used twice. Where the lists of banks and lanes were, the order of the clusters is put; where the
//! event's bytes were, the sort keys of its hits. An event that is clustered again needs lists and bytes to the end: its
//! windows of hits have their keys beside them, in the place of the clusters.

use super::tables::LaneTables;
use crate::bank::layout::FoundEvent;
use crate::detector::{BankVersion, LANES_PER_BOARD};
use crate::headers::{HeaderCounters, UtBanks, items_capacity};
use simt::primitives::block_size_binning::SizeBins;
use simt::{Shared, SharedLayout};

/// How much of an event is kept in shared memory; what is beyond takes longer, and nothing else changes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Clusters, at most [`MAX_TILE`]. An event with more is clustered a second time, window by window.
    pub tile: u32,
    /// Bytes of the event, a multiple of 4. What is beyond is read in place.
    pub stage: u32,
}

/// Most clusters that can be kept.
pub const MAX_TILE: u32 = 8192;

#[derive(Clone, Copy, Debug)]
pub(super) struct FusedShared {
    pub counters: HeaderCounters,
    pub bins: Shared<u32>,
    /// The block's event.
    pub event: Shared<u32>,
    /// Where its banks are.
    pub found: Shared<u32>,
    /// Where the event's hits begin.
    pub base: Shared<u32>,
    pub next_item: Shared<u32>,
    pub n_clusters: Shared<u32>,
    /// Words of the stage that fragments take (MEP layout).
    pub staged: Shared<u32>,
    /// Where each group begins, counted from the event's first hit, and where the last ends.
    pub group_starts: Shared<u32>,
    /// Clusters of each rank; then where each begins, and where the last ends.
    pub places: Shared<u32>,
    /// The clusters, in any order.
    pub clusters: Shared<u64>,
    /// In their place: the clusters of a window, in the static order, …
    pub window_clusters: Shared<u64>,
    /// … and the sort keys of their hits.
    pub window_keys: Shared<u32>,
    pub banks: UtBanks,
    /// The lanes (v5) or banks (v4) that have hits.
    pub items: Shared<u16>,
    /// In place of the two: which cluster comes at each place.
    pub order: Shared<u16>,
    pub stage: Shared<u32>,
    /// In place of the stage: the sort key of the hit at each place.
    pub keys: Shared<u32>,
}

impl FusedShared {
    #[inline(always)]
    const fn layout(version: BankVersion, n_boards: u32, n_groups: u32, room: Room) -> (Self, u32) {
        let mut layout = SharedLayout::new();
        // What has a fixed size comes first: its places are constants.
        let bins = layout.array(SizeBins::COUNTERS);
        let event = layout.array(1);
        let found = layout.array(FoundEvent::WORDS);
        let base = layout.array(1);
        let next_item = layout.array(1);
        let n_clusters = layout.array(1);
        let staged = layout.array(1);
        let counters = HeaderCounters::layout(&mut layout, n_boards);
        let group_starts = layout.array(n_groups + 1);
        let places = layout.array(n_boards * LANES_PER_BOARD as u32 + 1);

        let mut later = layout;
        let clusters = layout.array(room.tile);
        // Twelve bytes a hit, where eight were.
        let window = room.tile / 3 * 2;
        let window_clusters = later.array(window);
        let window_keys = later.array(window);
        let mut layout = layout.or(later);

        let mut later = layout;
        let banks = UtBanks::layout(&mut layout, version, n_boards);
        let items = layout.array(items_capacity(version, n_boards));
        let order = later.array(room.tile);
        let mut layout = layout.or(later);

        let mut later = layout;
        let stage = layout.array(room.stage / 4);
        let keys = later.array(room.tile);
        let shared = Self {
            counters,
            bins,
            event,
            found,
            base,
            next_item,
            n_clusters,
            staged,
            group_starts,
            places,
            clusters,
            window_clusters,
            window_keys,
            banks,
            items,
            order,
            stage,
            keys,
        };
        (shared, layout.or(later).bytes())
    }

    #[inline(always)]
    pub const fn of(version: BankVersion, tables: &LaneTables<'_>, room: Room) -> Self {
        Self::layout(version, tables.n_boards(), tables.n_groups(), room).0
    }
}

/// Bytes of shared memory a block needs.
pub const fn fused_shared_bytes(version: BankVersion, n_boards: u32, n_groups: u32, room: Room) -> u32 {
    FusedShared::layout(version, n_boards, n_groups, room).1
}
