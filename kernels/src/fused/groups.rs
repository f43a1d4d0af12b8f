//! Step 5 if most lanes overlap in x, as in unique-x: a warp sorts groups while their hits are in its registers.
//!
//! ```text
//! warp lane   0  1  2  3  4  5        whole groups, as many as fit in a warp
//! group       A  A  A  A  B  B
//! x           5  1  8  3  2  1
//! sorted      1  3  5  8  1  2        by (group, x)
//! ```
//!
//! A group is left in the order of the ranks, and noted for the second kernel, if it has more than 32 hits, ends in a
//! later tile, or has equal x that one exchange by id does not put in order.

use super::hits::{Maker, Parts};
use super::strips::Tile;
use crate::hit::ordered;
use simt::{Block, FULL_MASK, WARP_SIZE};

/// Most groups that a warp sorts at a time: a [key](sort_key) has three bits for the group.
const PACK: u32 = 8;

impl Maker<'_> {
    /// Makes the tile's hits, sorts its groups, and notes those that stay unsorted. All threads call, between barriers.
    #[inline(always)]
    pub fn write_sorted<B: Block>(&self, block: &B, n_groups: u32) {
        let Self { shared, tables, .. } = self;
        let (lane, group_hits) = (block.lane_id(), shared.group_hits);
        let Tile { n: n_strips, hits_before: before, .. } = Tile::of(block, shared);
        let parts = Parts::of(block, shared, n_strips);
        let tile_end = before + parts.all(block);
        let base = block.shared_load(shared.base, 0);
        // The groups of a warp begin in its share of the tile; the first warp also has the rest of an earlier one.
        let share = (tile_end - before).div_ceil(block.warps().max(1));
        let mut at = before + block.warp_id() * share;
        let end = (at + share).min(tile_end);
        if at >= end {
            return;
        }
        let mut group = self.groups_before(block, n_groups, at);
        let begin = block.shared_load(group_hits, group);
        if begin > at && block.warp_id() == 0 {
            group -= 1;
        } else {
            at = begin;
        }
        let mut part = parts.find(block, at.wrapping_sub(before));
        // Uniform in the warp.
        while at < tile_end {
            let begin = block.shared_load(group_hits, (group + lane).min(n_groups));
            let group_end = block.shared_load(group_hits, (group + lane + 1).min(n_groups));
            let is_own = begin < end;
            if block.ballot_sync(FULL_MASK, is_own) == 0 {
                break;
            }
            let is_whole = is_own && lane < PACK && group_end <= tile_end && group_end - at <= WARP_SIZE;
            let n_whole = block.ballot_sync(FULL_MASK, is_whole).trailing_ones();
            let groups_end = block.shuffle_idx_sync(FULL_MASK, group_end, n_whole.saturating_sub(1));
            let n = groups_end.min(tile_end).saturating_sub(at).min(WARP_SIZE);
            // (Beyond the last hit its lane makes that one again, so that no branch is in the way.)
            let i = at - before + lane.min(n.saturating_sub(1));
            let hit = self.make(block, parts.cluster(block, &mut part, i, true));
            let mut key = lane;
            if n_whole > 0 {
                let group_of = u32::from(block.load_within(tables.groups, hit.rank));
                key = if lane < n { sort_key(group_of - group, hit.x, lane) } else { u32::MAX };
            }
            let key = sort(block, key);
            let mut from = key % WARP_SIZE;
            let x = block.shuffle_idx_sync(FULL_MASK, ordered(hit.x), from);
            let x_below = block.shuffle_up_sync(FULL_MASK, x, 1);
            let key_below = block.shuffle_up_sync(FULL_MASK, key, 1);
            let is_same_group = lane > 0 && lane < n && key >> GROUP == key_below >> GROUP;
            let falls = block.ballot_sync(FULL_MASK, n_whole > 0 && is_same_group && x <= x_below);
            let mut is_left = n_whole == 0 && lane == 0;
            if falls != 0 {
                // Of two equal x the smaller id comes first.
                let id = block.shuffle_idx_sync(FULL_MASK, hit.id, from);
                let id_below = block.shuffle_up_sync(FULL_MASK, id, 1);
                let swaps = falls >> lane & 1 != 0 && x == x_below && id < id_below;
                let swaps = block.ballot_sync(FULL_MASK, swaps);
                // (One swap of each run of swaps, so that no lane swaps twice.)
                let swaps = swaps & !(swaps << 1);
                let partner = lane + (swaps >> lane >> 1 & 1) - (swaps >> lane & 1);
                from = block.shuffle_idx_sync(FULL_MASK, from, partner);
                let id = block.shuffle_idx_sync(FULL_MASK, id, partner);
                let id_below = block.shuffle_up_sync(FULL_MASK, id, 1);
                is_left |= falls >> lane & 1 != 0 && (x != x_below || id <= id_below);
            }
            let hit = hit.of_lane(block, from);
            if lane < n {
                self.store(block, &hit, base.wrapping_add(at + lane));
            }
            if is_left {
                let group = group + (key >> GROUP);
                block.shared_atomic_or(shared.bad_groups, group / 32, 1 << (group % 32));
            }
            at += n;
            group += if n_whole > 0 { n_whole } else { u32::from(at == groups_end) };
        }
    }

    /// Number of groups that begin before hit `at`. All lanes of the warp call.
    #[inline(always)]
    fn groups_before<B: Block>(&self, block: &B, n_groups: u32, at: u32) -> u32 {
        let mut n = 0;
        let mut first = 0;
        while first < n_groups {
            let group = first + block.lane_id();
            let is_before = group < n_groups && block.shared_load(self.shared.group_hits, group) < at;
            n += block.ballot_sync(FULL_MASK, is_before).count_ones();
            first += WARP_SIZE;
        }
        n
    }
}

const GROUP: u32 = 28;

/// Key of a hit: group, x and warp lane in 3, 23 and 5 bits. UT hits have |x| below 1024 mm, and the key keeps 2⁻¹² mm
/// of it: after the sort x is compared again.
#[inline(always)]
const fn sort_key(group: u32, x: f32, lane: u32) -> u32 {
    // (Between 2048 and 4096 the bits of a float rise by one with 2⁻¹².)
    group << GROUP | (x + 3072.0).to_bits() << 5 & 0x0FFF_FFE0 | lane
}

/// Sorts a key of each warp lane: bitonic merges that all point upwards. All lanes of the warp call.
#[inline(always)]
fn sort<B: Block>(block: &B, mut key: u32) -> u32 {
    let lane = block.lane_id();
    let mut half = 1;
    while half < WARP_SIZE {
        // First mirrored in the middle of each run, then at falling distances.
        let (mut mask, mut distance) = (2 * half - 1, half);
        while distance > 0 {
            let other = block.shuffle_xor_sync(FULL_MASK, key, mask);
            let is_upper = lane & distance != 0;
            key = if (other < key) == is_upper { key } else { other };
            distance /= 2;
            mask = distance;
        }
        half *= 2;
    }
    key
}
