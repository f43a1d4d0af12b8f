//! Steps 4 and 5: where the clusters of a window belong, and the hits.

use super::hit_tables::{CLASS_SHIFT, HitTables, OfHits};
use super::lane::{Sums, Word};
use super::places::{before_and_all, strips_below, warp_sum};
use super::shared::FusedShared;
use super::strips::{Window, part, per_warp};
use crate::bank::v4;
use crate::clustering::ClusterOptions;
use crate::detector::BankVersion;
use crate::hit::{HitArrays, ordered};
use simt::{Block, FULL_MASK, Global, WARP_SIZE};

/// Notes where the groups that begin in the window begin, counted in hits. All threads of the block call, after a barrier
/// since the strips were read. Gives the hits up to the window's end.
#[inline(always)]
pub(super) fn place_groups<B: Block>(
    block: &B,
    tables: &HitTables<'_>,
    shared: &FusedShared,
    first_ranks: Global<'_, u32>,
    n_strips: u32,
) -> u32 {
    let window = Window::of(block, shared);
    let before = window.hits_before;
    let lane = block.lane_id();
    let total = if lane < block.warps() { block.shared_load(shared.warp_hits, lane) } else { 0 };
    let up_to = warp_sum(block, total);
    let all = block.shuffle_idx_sync(FULL_MASK, up_to, WARP_SIZE - 1);
    let per_warp = per_warp(block, window.n);
    let is_last = window.is_last(n_strips);
    let mut first = block.warp_id() * WARP_SIZE;
    while first <= tables.n_groups {
        let group = first + lane;
        // Far beyond the window where the group is before it.
        let mut strip = u32::MAX;
        if group <= tables.n_groups {
            let rank = block.load(first_ranks, group);
            strip = strips_below(block, shared, tables.n_ranks(), rank).wrapping_sub(window.start);
        }
        let is_inside = strip < window.n;
        let warp = if is_inside { strip / WARP_SIZE / per_warp } else { 0 };
        let of_warp = block.shuffle_idx_sync(FULL_MASK, up_to - total, warp);
        let n = block.shuffle_idx_sync(FULL_MASK, total, warp);
        if is_inside {
            // The clusters of the warp's part that begin before: they lie in order.
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
        } else if is_last && strip == window.n {
            block.shared_store(shared.group_hits, group, before + all);
        }
        first += block.threads();
    }
    before + all
}

/// What the hits are made with.
#[derive(Clone, Copy)]
pub(super) struct Maker<'a> {
    pub version: BankVersion,
    pub options: ClusterOptions,
    pub flip_origin: f32,
    pub tables: OfHits<'a>,
    pub shared: FusedShared,
    pub hits: &'a HitArrays<'a>,
}

impl Maker<'_> {
    /// Makes the hits of the window, and notes the groups in which x does not
    /// rise. All threads of the block call, after a barrier since the groups were placed; a barrier must follow.
    #[inline(always)]
    pub fn write<B: Block>(&self, block: &B) {
        let Self { shared, tables, hits, .. } = self;
        let Window { n: n_strips, hits_before: before, .. } = Window::of(block, shared);
        let lane = block.lane_id();
        let base = block.shared_load(shared.base, 0);
        let (first_chunk, end_chunk) = part(block, n_strips);
        let n_clusters = block.shared_load(shared.warp_hits, block.warp_id());
        let (in_warps, _) = before_and_all(block, shared.warp_hits);
        if n_clusters == 0 {
            return;
        }
        let first = before + in_warps;
        // The last hit of the warps before is made once more, to be compared with; it has number -1 here.
        let mut last_x = 0;
        let earlier = u32::from(in_warps > 0);
        let (last_before, end_before) = if in_warps > 0 { self.last_before(block, n_strips) } else { (0, 0) };
        let end = (end_chunk * WARP_SIZE).min(n_strips);
        // Warps begin at multiples of their size, so that they write whole sectors. Less than 0 at first.
        let aligned = (base + first) % WARP_SIZE;
        let mut i = lane.wrapping_sub(if aligned < earlier { WARP_SIZE } else { aligned });
        // The same for all lanes but for their number.
        while i.wrapping_sub(lane).cast_signed() < n_clusters.cast_signed() {
            let is_made = i.wrapping_add(earlier) < n_clusters + earlier;
            let (mut x, mut rank) = (0, 0);
            if is_made {
                let place = if i == u32::MAX { last_before } else { first_chunk * WARP_SIZE + i };
                let strip = u32::from(block.shared_load(shared.clusters, place));
                let word = Word(block.shared_load(shared.strips, strip));
                rank = word.rank();
                let at = base.wrapping_add(first).wrapping_add(i);
                let rest = if i == u32::MAX { end_before } else { end };
                let rest = (i.wrapping_add(1) == n_clusters || i == u32::MAX).then_some(rest);
                x = ordered(self.make(block, word, strip, rest, (i != u32::MAX).then_some(at)));
            }
            let below = block.shuffle_up_sync(FULL_MASK, x, 1);
            let below = if lane == 0 { last_x } else { below };
            last_x = block.shuffle_idx_sync(FULL_MASK, x, WARP_SIZE - 1);
            // The window before has written its last.
            let below = if i == 0 && earlier == 0 && before > 0 {
                ordered(block.load_mut(hits.x_at_y_eq0, base + before - 1))
            } else {
                below
            };
            if is_made && i != u32::MAX && first + i > 0 && x <= below {
                let group = u32::from(block.load_within(tables.groups, rank));
                // (Two equal x are looked at as if they fell.)
                if block.shared_load(shared.group_hits, group) < first + i {
                    block.shared_atomic_or(shared.bad_groups, group / 32, 1 << (group % 32));
                }
            }
            i = i.wrapping_add(WARP_SIZE);
        }
    }

    /// Place of the last cluster of the warps before the caller's, which have one, and where its warp's part ends.
    #[inline(always)]
    fn last_before<B: Block>(&self, block: &B, n_strips: u32) -> (u32, u32) {
        let per_warp = per_warp(block, n_strips);
        let mut warp = block.warp_id();
        loop {
            warp = warp.wrapping_sub(1) % WARP_SIZE;
            let n = block.shared_load(self.shared.warp_hits, warp);
            if n > 0 {
                // (There is a part behind it.)
                return (warp * per_warp * WARP_SIZE + n - 1, (warp + 1) * per_warp * WARP_SIZE);
            }
        }
    }

    /// The hit of the cluster that begins with `word` at a strip of the window; written to place `at`. Gives its x.
    #[inline(always)]
    fn make<B: Block>(&self, block: &B, word: Word, strip: u32, rest: Option<u32>, at: Option<u32>) -> f32 {
        let Self { tables, hits, .. } = self;
        let lane = block.load_within(tables.lanes, word.rank());
        let class = block.load_within(tables.classes, lane.id >> CLASS_SHIFT & 0x1F);
        let first = lane.id & !(0x1F << CLASS_SHIFT);
        let (n, id) = match self.version {
            BankVersion::V4 => {
                let word = word.0 as u16;
                // (512 strips a lane.)
                let strip_id = (v4::channel(word) & 0x1FF) + 1;
                let n = 0.25 * v4::fraction(word) as f32 + strip_id as f32 - class.first_strip as f32;
                (n, first + strip_id - 1)
            }
            BankVersion::V5 => {
                let (sum, weight) = self.sums(block, word, strip, rest);
                let mean = sum as f32 / weight as f32;
                // The nearest strip: what the quotient says, rounded to a whole number by the room that is left beside
                // 2²³, and put right.
                let twice = 2 * sum + weight;
                let about = (mean + 8_388_608.0).to_bits() & 0x3FF;
                let product = 2 * about * weight;
                let nearest = if product > twice {
                    about - 1
                } else if twice - product >= 2 * weight {
                    about + 1
                } else {
                    about
                };
                let n = if class.flipped == 0 { mean } else { self.flip_origin - mean };
                (n, first + nearest)
            }
        };
        let x = lane.p0_x + n * class.dp0di_x;
        if let Some(at) = at {
            let y_begin = lane.p0_y + n * class.dp0di_y;
            // (One length for all seven: the compiler tests the place once.)
            block.store(hits.y_begin, at, y_begin);
            block.store(hits.y_end, at, class.dy + y_begin);
            block.store(hits.z_at_y_eq0, at, lane.p0_z + n * class.dp0di_z);
            block.store(hits.x_at_y_eq0, at, x);
            block.store(hits.dx_dy, at, class.dx_dy);
            block.store(hits.weight, at, class.weight);
            block.store(hits.id, at, id);
        }
        x
    }

    /// Σpos and W of a v5 cluster. `rest`: where the strips of the part behind begin, if the cluster is the last of its part.
    #[inline(always)]
    fn sums<B: Block>(&self, block: &B, word: Word, strip: u32, rest: Option<u32>) -> (u32, u32) {
        let is_geometric = self.options.flags & ClusterOptions::GEOMETRIC != 0;
        let first = word.turned_strip();
        let (mut moment, mut weight) = (0, 1);
        if self.options.flags & ClusterOptions::CLUSTERING != 0 {
            weight = if is_geometric { 1 } else { word.adc() };
            // (After the window's last strip comes one that continues no cluster.)
            let following = Sums(block.shared_load(self.shared.strips, strip + 1));
            if following.is_there() {
                weight += following.charge();
                moment = following.moment();
            }
            if let Some(mut next) = rest {
                loop {
                    let number = next - strip;
                    // Of a strip that goes on, the charge is what its word has more than one without charge.
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
