//! Clusters in the output, which is their scratch.
//!
//! A cluster is stored, as two words in two of the seven arrays, where its hit belongs by the static order. Groups in
//! another order are sorted there, in place; then each place's hit is worked out and overwrites the cluster.

use super::lanes::{Found, Sink};
use super::shared::OthersShared;
use super::sort::{is_before, warp_sort_in_place};
use crate::detector::BankVersion;
use crate::hit::{HitArrays, Strip, ordered};
use crate::ranked::lane_tables::LaneTables;
use simt::{Block, FULL_MASK, Shared, WARP_SIZE};

pub(super) struct ScatteredHits<'a> {
    pub version: BankVersion,
    pub tables: &'a LaneTables<'a>,
    pub flip_origin: f32,
    pub shared: OthersShared,
    pub hits: &'a HitArrays<'a>,
    /// Index of the event's first hit.
    pub base: u32,
}

impl<B: Block> Sink<B> for ScatteredHits<'_> {
    const REPORTS: bool = false;

    #[inline(always)]
    fn take(&self, block: &B, found: Option<Found>) {
        if let Some(found) = found {
            self.store(block, next_place(block, self.shared.places, found), found);
        }
    }
}

impl ScatteredHits<'_> {
    /// Sorts the groups and writes the hits, a warp a group. All warps call, after a barrier.
    #[inline(always)]
    pub fn write<B: Block>(&self, block: &B) {
        let starts = self.shared.group_starts;
        let mut group = block.warp_id();
        while group + 1 < starts.len() {
            let (start, end) = (block.shared_load(starts, group), block.shared_load(starts, group + 1));
            let mut inverted = 0;
            let mut i = start + 1 + block.lane_id();
            while block.ballot_sync(FULL_MASK, i < end) != 0 {
                let falls = i < end && self.strip(block, i - 1).key() >= self.strip(block, i).key();
                inverted |= block.ballot_sync(FULL_MASK, falls);
                i += WARP_SIZE;
            }
            // All clusters of the group are read before any is overwritten.
            block.sync_warp(FULL_MASK);
            if inverted != 0 {
                warp_sort_in_place(block, end - start, |i, j| self.exchange(block, start + i, start + j));
            }
            let mut i = start + block.lane_id();
            while i < end {
                self.strip(block, i).store(block, self.hits, self.base + i);
                i += WARP_SIZE;
            }
            group += block.warps();
        }
    }

    #[inline(always)]
    fn exchange<B: Block>(&self, block: &B, i: u32, j: u32) {
        let (first, second) = (self.load(block, i), self.load(block, j));
        let (a, b) = (self.strip_of(block, first), self.strip_of(block, second));
        if is_before(b.key(), a.key(), || ordered(b.n) < ordered(a.n)) {
            self.store(block, i, second);
            self.store(block, j, first);
        }
    }

    #[inline(always)]
    fn store<B: Block>(&self, block: &B, place: u32, found: Found) {
        let at = self.base + place;
        block.store(self.hits.y_begin, at, f32::from_bits(found.position));
        block.store(self.hits.id, at, found.weight << 16 | u32::from(found.rank));
    }

    #[inline(always)]
    fn load<B: Block>(&self, block: &B, place: u32) -> Found {
        let at = self.base + place;
        let position = block.load_mut(self.hits.y_begin, at).to_bits();
        let word = block.load_mut(self.hits.id, at);
        Found { position, weight: word >> 16, rank: word as u16 }
    }

    #[inline(always)]
    fn strip<B: Block>(&self, block: &B, place: u32) -> Strip {
        self.strip_of(block, self.load(block, place))
    }

    #[inline(always)]
    fn strip_of<B: Block>(&self, block: &B, found: Found) -> Strip {
        self.tables.strip(block, self.version, found.rank(), found.position, found.weight, self.flip_origin)
    }
}

/// Moves the next place of each reversed rank from its beginning to its end. All threads call, between barriers.
#[inline(always)]
pub(super) fn begin<B: Block>(block: &B, places: Shared<u32>, tables: &LaneTables<'_>) {
    let n_ranks = tables.n_ranks();
    let mut chunk = 0;
    while chunk < n_ranks {
        let rank = chunk + block.thread();
        let reversed = rank < n_ranks && tables.is_reversed(block, rank);
        let end = if reversed { block.shared_load(places, rank + 1) } else { 0 };
        // The ends are read before they are overwritten.
        block.sync_threads();
        if reversed {
            block.shared_store(places, rank, end);
        }
        // (The next chunk reads none of these: no barrier.)
        chunk += block.threads();
    }
}

/// Takes the rank's next place: forwards, or backwards from its end if x falls with the strip number.
#[inline(always)]
fn next_place<B: Block>(block: &B, next: Shared<u32>, found: Found) -> u32 {
    if found.is_reversed() {
        block.shared_atomic_add(next, found.rank(), u32::MAX) - 1
    } else {
        block.shared_atomic_add(next, found.rank(), 1)
    }
}
