//! Hits of clusters that are in shared memory: the rule.
//!
//! The clusters come in whatever order the lanes are clustered in, each with the number that it has among those of its
//! rank. When all are counted, rank and number say where each belongs. Those of an event that is clustered again are put
//! there at once. Hits are then worked out place by place, so that neighbouring threads write neighbouring places.

use super::kept_cluster::Kept;
use super::lanes::{Found, Sink};
use super::repair::is_before;
use super::shared::FusedShared;
use super::tables::{LaneTables, REVERSED};
use super::windows::Window;
use crate::detector::BankVersion;
use crate::hit::{HitArrays, Strip, ordered};
use simt::primitives::warp_aggregated_atomics;
use simt::{Block, FULL_MASK, Shared, WARP_SIZE};

/// Counts the clusters of each rank, and keeps them as far as there is room.
pub(super) struct Keep {
    pub shared: FusedShared,
}

impl<B: Block> Sink<B> for Keep {
    const REPORTS: bool = true;

    #[inline(always)]
    fn wants(&self, _rank: u32) -> bool {
        true
    }

    #[inline(always)]
    fn take(&self, block: &B, found: Option<Found>) {
        let mask = block.ballot_sync(FULL_MASK, found.is_some());
        if let Some(found) = found {
            let number = block.shared_atomic_add(self.shared.places, found.rank(), 1);
            let place = warp_aggregated_atomics::append(block, mask, self.shared.n_clusters, 0);
            if place < self.shared.clusters.len() {
                block.shared_store(self.shared.clusters, place, Kept { found, number }.to_bits());
            }
        }
    }
}

/// The hits of an event or of a window of it, whose clusters are kept.
#[derive(Clone, Copy)]
pub(super) struct KeptHits<'a> {
    pub version: BankVersion,
    pub tables: &'a LaneTables<'a>,
    pub flip_origin: f32,
    pub shared: FusedShared,
    pub hits: &'a HitArrays<'a>,
    /// Where the event's hits begin.
    pub base: u32,
    pub window: Window,
    /// Whether the clusters are in the static order, as a window's are; else `order` says where each belongs.
    pub is_in_order: bool,
    /// The sort key of the hit at each place of the window: x.
    pub keys: Shared<u32>,
}

impl KeptHits<'_> {
    /// Says of each place which cluster comes there. All threads of the block call, after the ranks' places are known; a
    /// barrier must follow.
    #[inline(always)]
    pub fn order<B: Block>(&self, block: &B) {
        let Self { shared, .. } = self;
        let mut i = block.thread();
        while i < self.window.n_hits() {
            let Kept { found, number } = Kept::from_bits(block.shared_load(shared.clusters, i));
            let place = if found.is_reversed() {
                block.shared_load(shared.places, found.rank() + 1) - 1 - number
            } else {
                block.shared_load(shared.places, found.rank()) + number
            };
            block.shared_store(shared.order, place, i as u16);
            i += block.threads();
        }
    }

    /// Writes every hit to its place, and notes its key. All threads of the block call; a barrier must follow.
    #[inline(always)]
    pub fn write<B: Block>(&self, block: &B) {
        let (first, n_hits) = (self.base + self.window.start, self.window.n_hits());
        // Warps begin at multiples of their size, so that they write whole sectors.
        let mut i = (block.thread()).wrapping_sub(first % WARP_SIZE);
        // Less than 0 at first.
        while i.cast_signed() < n_hits.cast_signed() {
            if i < n_hits {
                let strip = self.strip(block, i);
                strip.store(block, self.hits, first + i);
                block.shared_store(self.keys, i, ordered(strip.x_at_y_eq0()));
            }
            i = i.wrapping_add(block.threads());
        }
    }

    /// Writes the hits of those groups again in which the keys do not ascend. A warp a group.
    #[inline(always)]
    pub fn repair<B: Block>(&self, block: &B) {
        let (starts, keys) = (self.shared.group_starts, self.keys);
        let mut group = self.window.first_group + block.warp_id();
        while group < self.window.end_group {
            let start = block.shared_load(starts, group) - self.window.start;
            let end = block.shared_load(starts, group + 1) - self.window.start;
            let mut inverted = 0;
            let mut i = start + 1 + block.lane_id();
            while block.ballot_sync(FULL_MASK, i < end) != 0 {
                // (Two equal keys are looked at as if they fell.)
                let falls = i < end && block.shared_load(keys, i - 1) >= block.shared_load(keys, i);
                inverted |= block.ballot_sync(FULL_MASK, falls);
                i += WARP_SIZE;
            }
            if inverted != 0 {
                self.sort(block, start, end);
            }
            group += block.warps();
        }
    }

    /// Sorts by counting: a hit's place is the number of those before it. Those that are not where they belong are written
    /// again. The whole warp calls.
    #[inline(always)]
    fn sort<B: Block>(&self, block: &B, start: u32, end: u32) {
        let mut i = start + block.lane_id();
        while i < end {
            let key = block.shared_load(self.keys, i);
            let mut place = start;
            let mut other = start;
            while other < end {
                let before = is_before(block.shared_load(self.keys, other), key, || {
                    let (with, own) = (self.strip(block, other), self.strip(block, i));
                    // What is equal in n too is the same hit: any order works.
                    (with.id, ordered(with.n), other) < (own.id, ordered(own.n), i)
                });
                place += u32::from(before);
                other += 1;
            }
            if place != i {
                self.strip(block, i).store(block, self.hits, self.base + self.window.start + place);
            }
            i += WARP_SIZE;
        }
    }

    /// The hit at a place of the window in the static order.
    #[inline(always)]
    #[track_caller]
    fn strip<B: Block>(&self, block: &B, place: u32) -> Strip {
        let cluster = if self.is_in_order { place } else { u32::from(block.shared_load(self.shared.order, place)) };
        let found = Kept::from_bits(block.shared_load(self.shared.clusters, cluster)).found;
        self.tables.strip(block, self.version, found.rank(), found.position, found.weight, self.flip_origin)
    }
}

const _: () = assert!(REVERSED as u32 == 1 << 15, "a rank and its flag fill 16 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_survives_its_eight_bytes() {
        let largest = Found { position: 31 * 511 * 254, weight: 31 * 254, rank: u16::MAX };
        let word = Found { position: 0xFFFF, weight: 0, rank: 1 };
        for (found, number) in [(Found::default(), 0), (largest, 8191), (word, 1)] {
            let kept = Kept { found, number };
            assert_eq!(Kept::from_bits(kept.to_bits()), kept);
        }
    }
}
