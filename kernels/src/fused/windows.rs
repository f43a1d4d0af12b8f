//! Events with more clusters than are kept: clustered a second time, window by window.
//!
//! A window is a run of groups whose hits fit shared memory. Where each rank's hits belong is known by then, so that the
//! clusters of a window go to their places at once. Lanes of other windows are passed over: each is clustered once more,
//! from bytes that are still in shared memory, and nothing but hits is written. So what such an event costs more is
//! clustering, not traffic.

use super::kept_cluster::Kept;
use super::lanes::{Found, Sink};
use super::shared::FusedShared;
use super::tables::LaneTables;
use simt::{Block, FULL_MASK, Shared, WARP_SIZE};

/// A run of groups, and so of ranks and of hits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub first_group: u32,
    pub end_group: u32,
    first_rank: u32,
    end_rank: u32,
    /// Its first hit, counted from the event's first.
    pub start: u32,
    end: u32,
}

impl Window {
    /// All groups of an event with `n_hits` hits.
    #[inline(always)]
    pub const fn all(tables: &LaneTables<'_>, n_hits: u32) -> Self {
        let (end_group, end_rank) = (tables.n_groups(), tables.n_ranks());
        Self { first_group: 0, end_group, first_rank: 0, end_rank, start: 0, end: n_hits }
    }

    /// The window that begins with `first_group`: as many groups as have at most `room` hits, which the first has. The
    /// whole warp calls.
    #[inline(always)]
    pub fn from<B: Block>(
        block: &B,
        tables: &LaneTables<'_>,
        starts: Shared<u32>,
        first_group: u32,
        room: u32,
    ) -> Self {
        let start = block.shared_load(starts, first_group);
        let mut end_group = first_group;
        loop {
            let group = end_group + 1 + block.lane_id();
            let fits = group < starts.len() && block.shared_load(starts, group) - start <= room;
            // Starts ascend: those that fit come first.
            let n = block.ballot_sync(FULL_MASK, fits).count_ones();
            end_group += n;
            if n < WARP_SIZE {
                break;
            }
        }
        let end = block.shared_load(starts, end_group);
        let first_rank = block.load(tables.first_ranks, first_group);
        let end_rank = block.load(tables.first_ranks, end_group);
        Self { first_group, end_group, first_rank, end_rank, start, end }
    }

    /// Whether a rank is in it.
    #[inline(always)]
    pub const fn has(&self, rank: u32) -> bool {
        self.first_rank <= rank && rank < self.end_rank
    }

    /// Its hits.
    #[inline(always)]
    pub const fn n_hits(&self) -> u32 {
        self.end - self.start
    }
}

/// Turns the places where ranks begin into the next places of the ranks: where the reversed ones end. All threads of the
/// block call, with barriers before and after.
#[inline(always)]
pub(super) fn begin<B: Block>(block: &B, places: Shared<u32>, tables: &LaneTables<'_>) {
    let n_ranks = tables.n_ranks();
    let mut chunk = 0;
    while chunk < n_ranks {
        let rank = chunk + block.thread();
        let reversed = rank < n_ranks && tables.is_reversed(block, rank);
        let end = if reversed { block.shared_load(places, rank + 1) } else { 0 };
        // The ends are read before they are overwritten, as the next places of the ranks after.
        block.sync_threads();
        if reversed {
            block.shared_store(places, rank, end);
        }
        // The next chunk looks at none of these: no barrier.
        chunk += block.threads();
    }
}

/// Whether a group has more hits than `room`. The whole warp calls.
#[inline(always)]
pub(super) fn has_larger_group<B: Block>(block: &B, starts: Shared<u32>, room: u32) -> bool {
    let mut first = 0;
    let mut larger = 0;
    while first + 1 < starts.len() {
        let group = first + block.lane_id();
        let is_larger =
            group + 1 < starts.len() && block.shared_load(starts, group + 1) - block.shared_load(starts, group) > room;
        larger |= block.ballot_sync(FULL_MASK, is_larger);
        first += WARP_SIZE;
    }
    larger != 0
}

/// Takes the rank's next place; from its end on backwards where x falls with the strip number.
#[inline(always)]
pub(super) fn next_place<B: Block>(block: &B, next: Shared<u32>, found: Found) -> u32 {
    if found.is_reversed() {
        block.shared_atomic_add(next, found.rank(), u32::MAX) - 1
    } else {
        block.shared_atomic_add(next, found.rank(), 1)
    }
}

/// Puts the clusters of a window where they belong.
pub(super) struct Place {
    pub shared: FusedShared,
    pub window: Window,
}

impl<B: Block> Sink<B> for Place {
    const REPORTS: bool = false;

    #[inline(always)]
    fn wants(&self, rank: u32) -> bool {
        self.window.has(rank)
    }

    #[inline(always)]
    fn take(&self, block: &B, found: Option<Found>) {
        if let Some(found) = found {
            let place = next_place(block, self.shared.places, found) - self.window.start;
            block.shared_store(self.shared.window_clusters, place, Kept { found, number: 0 }.to_bits());
        }
    }
}
