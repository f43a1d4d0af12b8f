//! Steps 4 and 5: first hit of each group, and the hits.

use super::hit_tables::{CLASS_SHIFT, HitTables, OfHits};
use super::lane::{Sums, Word};
use super::places::{strips_below, warp_sum};
use super::shared::FusedShared;
use super::strips::{Tile, per_warp};
use crate::bank::v4;
use crate::clustering::ClusterOptions;
use crate::detector::BankVersion;
use crate::hit::{HitArrays, ordered};
use simt::{Block, FULL_MASK, Global, WARP_SIZE};

/// Notes the first hit of each group of the tile; returns the hits up to its end. All threads call, after a barrier.
#[inline(always)]
pub(super) fn place_groups<B: Block>(
    block: &B,
    tables: &HitTables<'_>,
    shared: &FusedShared,
    first_ranks: Global<'_, u32>,
    n_strips: u32,
) -> u32 {
    let tile = Tile::of(block, shared);
    let before = tile.hits_before;
    let lane = block.lane_id();
    let total = if lane < block.warps() { block.shared_load(shared.warp_hits, lane) } else { 0 };
    let up_to = warp_sum(block, total);
    let all = block.shuffle_idx_sync(FULL_MASK, up_to, WARP_SIZE - 1);
    let per_warp = per_warp(block, tile.n);
    let is_last = tile.is_last(n_strips);
    let mut first = block.warp_id() * WARP_SIZE;
    while first <= tables.n_groups {
        let group = first + lane;
        // Far beyond the tile where the group is before it.
        let mut strip = u32::MAX;
        if group <= tables.n_groups {
            let rank = block.load(first_ranks, group);
            strip = strips_below(block, shared, tables.n_ranks(), rank).wrapping_sub(tile.start);
        }
        let is_inside = strip < tile.n;
        let warp = if is_inside { strip / WARP_SIZE / per_warp } else { 0 };
        let of_warp = block.shuffle_idx_sync(FULL_MASK, up_to - total, warp);
        let n = block.shuffle_idx_sync(FULL_MASK, total, warp);
        if is_inside {
            // Clusters of the warp's part that begin before the group: they lie in order.
            let part = warp * WARP_SIZE * per_warp;
            let (mut low, mut high) = (0, n);
            while low < high {
                let middle = (low + high) >> 1;
                if u32::from(block.shared_load(shared.clusters, part + middle)) < strip {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            block.shared_store(shared.group_hits, group, before + of_warp + low);
        } else if is_last && strip == tile.n {
            block.shared_store(shared.group_hits, group, before + all);
        }
        first += block.threads();
    }
    before + all
}

/// Whole number nearest to the quotient `mean` = Σpos/W, the larger of two. A quotient that is not halfway between two
/// is at least 1/(2W) > 2⁻¹³ away from there: a small step up does no harm. The sum with 2²³ then rounds.
#[inline(always)]
const fn nearest_strip(mean: f32) -> u32 {
    (mean + HALFWAY_STEP + 8_388_608.0).to_bits() & 0x3FF
}

/// 2⁻¹⁵, the distance of floats between 256 and 512.
const HALFWAY_STEP: f32 = 1.0 / 32768.0;

#[derive(Clone, Copy)]
pub(super) struct Maker<'a> {
    pub version: BankVersion,
    pub options: ClusterOptions,
    pub flip_origin: f32,
    pub tables: OfHits<'a>,
    pub shared: FusedShared,
    pub hits: &'a HitArrays<'a>,
}

/// Hits that begin a sector of 32 bytes: a warp writes whole sectors.
const OF_SECTOR: u32 = 8;

/// Clusters of the warps' parts, among those of the tile; a warp lane has the part of its number.
pub(super) struct Parts {
    /// Clusters up to the end of this part.
    up_to: u32,
    /// Offset from a cluster's index in the tile to its index in `clusters`.
    shift: u32,
    /// Strips of each part; the last may have fewer.
    strips: u32,
    n_strips: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Cluster {
    index: u32,
    /// First strip of the next part, if the cluster is the last of its part.
    rest: Option<u32>,
}

#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub rank: u32,
    y_begin: f32,
    y_end: f32,
    z: f32,
    pub x: f32,
    dx_dy: f32,
    weight: f32,
    pub id: u32,
}

impl Hit {
    /// Returns the hit of another lane of the warp, without its rank. All lanes of the warp call.
    #[inline(always)]
    pub fn of_lane<B: Block>(&self, block: &B, lane: u32) -> Self {
        let float = |value: f32| block.shuffle_idx_sync(FULL_MASK, value, lane);
        Self {
            rank: 0,
            y_begin: float(self.y_begin),
            y_end: float(self.y_end),
            z: float(self.z),
            x: float(self.x),
            dx_dy: float(self.dx_dy),
            weight: float(self.weight),
            id: block.shuffle_idx_sync(FULL_MASK, self.id, lane),
        }
    }
}

impl Parts {
    /// Returns the parts of a tile of `n` strips. All lanes call, after a barrier since the strips were read.
    #[inline(always)]
    pub fn of<B: Block>(block: &B, shared: &FusedShared, n: u32) -> Self {
        let lane = block.lane_id();
        let total = if lane < block.warps() { block.shared_load(shared.warp_hits, lane) } else { 0 };
        let up_to = warp_sum(block, total);
        let strips = per_warp(block, n) * WARP_SIZE;
        Self { up_to, shift: (lane * strips).wrapping_sub(up_to - total), strips, n_strips: n }
    }

    /// Clusters of the tile. All lanes of the warp call.
    #[inline(always)]
    pub fn all<B: Block>(&self, block: &B) -> u32 {
        block.shuffle_idx_sync(FULL_MASK, self.up_to, WARP_SIZE - 1)
    }

    /// Returns the part of cluster `i` of the tile, the same `i` for all lanes. All lanes of the warp call.
    #[inline(always)]
    pub fn find<B: Block>(&self, block: &B, i: u32) -> u32 {
        block.ballot_sync(FULL_MASK, self.up_to <= i).count_ones()
    }

    /// Finds cluster `i` of the tile and moves `part` up to its part. All lanes call, with `is_wanted` if `i` is there.
    #[inline(always)]
    pub fn cluster<B: Block>(&self, block: &B, part: &mut u32, i: u32, is_wanted: bool) -> Cluster {
        // (Comes to an end: the last part ends with the last cluster.)
        let mut end = block.shuffle_idx_sync(FULL_MASK, self.up_to, *part);
        loop {
            let is_beyond = is_wanted && i >= end;
            if block.ballot_sync(FULL_MASK, is_beyond) == 0 {
                break;
            }
            *part += u32::from(is_beyond);
            end = block.shuffle_idx_sync(FULL_MASK, self.up_to, *part);
        }
        let shift = block.shuffle_idx_sync(FULL_MASK, self.shift, *part);
        let rest = (i.wrapping_add(1) == end).then_some(((*part + 1) * self.strips).min(self.n_strips));
        Cluster { index: i.wrapping_add(shift), rest }
    }
}

impl Maker<'_> {
    /// Makes the tile's hits, and notes the groups in which x does not rise. All threads call, between barriers.
    #[inline(always)]
    pub fn write<B: Block>(&self, block: &B) {
        let Self { shared, tables, hits, .. } = self;
        let Tile { n: n_strips, hits_before: before, .. } = Tile::of(block, shared);
        let parts = Parts::of(block, shared, n_strips);
        let n = parts.all(block);
        let base = block.shared_load(shared.base, 0) + before;
        // Each warp makes neighbouring hits, from the beginning of a sector on; first it makes the previous warp's last
        // hit once more, for the comparison.
        let into_sector = base % OF_SECTOR;
        let per_warp = (n + into_sector + block.warps() * OF_SECTOR).div_ceil(block.threads()) * WARP_SIZE - OF_SECTOR;
        let (first, end) = (block.warp_id() * per_warp, ((block.warp_id() + 1) * per_warp).min(n + into_sector));
        if first.max(into_sector) >= end {
            return;
        }
        let mut step = first.wrapping_sub(into_sector + OF_SECTOR);
        let (first, end) = (first.saturating_sub(into_sector), end - into_sector);
        let mut part = parts.find(block, first.saturating_sub(1));
        let mut last_x = 0;
        // Uniform in the warp.
        while step.cast_signed() < end.cast_signed() {
            let i = step.wrapping_add(block.lane_id());
            // (Before the first hit a number is larger than any.)
            let is_made = i < end && i + 1 >= first;
            let cluster = parts.cluster(block, &mut part, i, is_made);
            let is_new = i != first.wrapping_sub(1);
            let (mut x, mut rank) = (0, 0);
            if is_made {
                let hit = self.make(block, cluster);
                (x, rank) = (ordered(hit.x), hit.rank);
                if is_new {
                    self.store(block, &hit, base.wrapping_add(i));
                }
            }
            let below = block.shuffle_up_sync(FULL_MASK, x, 1);
            let below = if block.lane_id() == 0 { last_x } else { below };
            last_x = block.shuffle_idx_sync(FULL_MASK, x, WARP_SIZE - 1);
            // The last hit of the tile before is written.
            let below = if i == 0 && before > 0 { ordered(block.load_mut(hits.x_at_y_eq0, base - 1)) } else { below };
            if is_made && is_new && x <= below {
                let group = u32::from(block.load_within(tables.groups, rank));
                // (Equal x count as falling.)
                if block.shared_load(shared.group_hits, group) < before + i {
                    block.shared_atomic_or(shared.bad_groups, group / 32, 1 << (group % 32));
                }
            }
            step = step.wrapping_add(WARP_SIZE);
        }
    }

    #[inline(always)]
    pub fn make<B: Block>(&self, block: &B, cluster: Cluster) -> Hit {
        let Self { shared, tables, .. } = self;
        let strip = u32::from(block.shared_load(shared.clusters, cluster.index));
        let word = Word(block.shared_load(shared.strips, strip));
        let rank = word.rank();
        let lane = block.load_within(tables.lanes, rank);
        let class = block.load_within(tables.classes, lane.id >> CLASS_SHIFT & 0x1F);
        let first = lane.id & !(0x1F << CLASS_SHIFT);
        let (n, id) = match self.version {
            BankVersion::V4 => {
                let word = word.0 as u16;
                let strip_id = (v4::channel(word) & 0x1FF) + 1;
                let n = 0.25 * v4::fraction(word) as f32 + strip_id as f32 - class.first_strip as f32;
                (n, first + strip_id - 1)
            }
            BankVersion::V5 => {
                let (sum, weight) = self.sums(block, word, strip, cluster.rest);
                let mean = sum as f32 / weight as f32;
                let n = if class.flipped == 0 { mean } else { self.flip_origin - mean };
                (n, first + nearest_strip(mean))
            }
        };
        let y_begin = lane.p0_y + n * class.dp0di_y;
        Hit {
            rank,
            y_begin,
            y_end: class.dy + y_begin,
            z: lane.p0_z + n * class.dp0di_z,
            x: lane.p0_x + n * class.dp0di_x,
            dx_dy: class.dx_dy,
            weight: class.weight,
            id,
        }
    }

    #[inline(always)]
    pub fn store<B: Block>(&self, block: &B, hit: &Hit, at: u32) {
        let Self { hits, .. } = self;
        // (All seven have one length: the compiler tests the place once.)
        block.store(hits.y_begin, at, hit.y_begin);
        block.store(hits.y_end, at, hit.y_end);
        block.store(hits.z_at_y_eq0, at, hit.z);
        block.store(hits.x_at_y_eq0, at, hit.x);
        block.store(hits.dx_dy, at, hit.dx_dy);
        block.store(hits.weight, at, hit.weight);
        block.store(hits.id, at, hit.id);
    }

    /// Returns Σpos and W of a v5 cluster; `rest` as in [`Cluster`].
    #[inline(always)]
    fn sums<B: Block>(&self, block: &B, word: Word, strip: u32, rest: Option<u32>) -> (u32, u32) {
        let is_geometric = self.options.flags & ClusterOptions::GEOMETRIC != 0;
        let first = word.turned_strip();
        let (mut moment, mut weight) = (0, 1);
        if self.options.flags & ClusterOptions::CLUSTERING != 0 {
            weight = if is_geometric { 1 } else { word.adc() };
            // (A word that continues no cluster follows the tile's last strip.)
            let following = Sums(block.shared_load(self.shared.strips, strip + 1)).or_none();
            weight += following.charge();
            moment = following.moment();
            if let Some(mut next) = rest {
                loop {
                    let number = next - strip;
                    // Charge of a strip that continues the cluster: its word minus the expected word without charge.
                    let expected = (word.key() + number) * Word::KEY;
                    let charge = block.shared_load(self.shared.strips, next).wrapping_sub(expected);
                    if charge >= Word::KEY {
                        break;
                    }
                    let charge = if is_geometric { 1 } else { charge };
                    moment += charge * number;
                    weight += charge;
                    next += 1;
                }
            }
        }
        // Not 0: each strip has a charge. The guard keeps the division defined on the device all the same.
        let weight = weight.max(1);
        let sum = weight * first + moment;
        (if word.is_reversed() { 511 * weight - sum } else { sum }, weight)
    }
}

#[cfg(test)]
mod tests {
    use super::nearest_strip;
    use crate::fused::lane::Sums;

    #[test]
    fn the_nearest_strip_is_that_of_whole_numbers_where_it_is_close_to_being_another() {
        for weight in 1..=31 * Sums::MAX_SIZE {
            for strip in 0..512u32 {
                for near in [strip * weight + weight / 2, strip * weight] {
                    for sum in near.saturating_sub(1)..=(near + 1).min(511 * weight) {
                        let nearest = (2 * sum + weight) / (2 * weight);
                        assert_eq!(nearest_strip(sum as f32 / weight as f32), nearest, "{sum}/{weight}");
                    }
                }
            }
        }
    }
}
