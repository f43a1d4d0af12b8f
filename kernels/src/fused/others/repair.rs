//! Groups of ordinary events in which x does not rise in the order of the ranks: where neighbouring staves overlap.
//!
//! A warp takes [`PACK`] groups of the list: groups that fit in 32 lanes together, up to 64 hits two a lane, both
//! sorted by counting the smaller x; up to [`ROOM`] by a bitonic sort in shared memory, then column by column; more in
//! place. Hits with equal keys are of one sector, since an `LHCbID` determines it: they differ by strip, y and z.

use super::shared::{MAX_WARPS, OthersShared};
use super::sort::warp_sort_in_place;
use crate::hit::{HitArrays, ordered};
use crate::ranked::lane_tables::{CLASS_WORDS, LaneTables};
use simt::{Block, FULL_MASK, GlobalMut, Scalar, WARP_SIZE};

/// Groups that a warp takes at a time: in both groupings in use, two or three small ones fit in 32 lanes.
pub(super) const PACK: u32 = 4;

/// Most hits of a group that a warp sorts in shared memory.
pub(super) const ROOM: u32 = 256;

#[derive(Clone, Copy, Default)]
struct Hit {
    y_begin: f32,
    y_end: f32,
    z_at_y_eq0: f32,
    x_at_y_eq0: f32,
    dx_dy: f32,
    weight: f32,
    id: u32,
}

impl Hit {
    #[inline(always)]
    fn load<B: Block>(block: &B, hits: &HitArrays<'_>, at: u32) -> Self {
        Self {
            y_begin: block.load_mut(hits.y_begin, at),
            y_end: block.load_mut(hits.y_end, at),
            z_at_y_eq0: block.load_mut(hits.z_at_y_eq0, at),
            x_at_y_eq0: block.load_mut(hits.x_at_y_eq0, at),
            dx_dy: block.load_mut(hits.dx_dy, at),
            weight: block.load_mut(hits.weight, at),
            id: block.load_mut(hits.id, at),
        }
    }

    #[inline(always)]
    fn store<B: Block>(&self, block: &B, hits: &HitArrays<'_>, at: u32) {
        block.store(hits.y_begin, at, self.y_begin);
        block.store(hits.y_end, at, self.y_end);
        block.store(hits.z_at_y_eq0, at, self.z_at_y_eq0);
        block.store(hits.x_at_y_eq0, at, self.x_at_y_eq0);
        block.store(hits.dx_dy, at, self.dx_dy);
        block.store(hits.weight, at, self.weight);
        block.store(hits.id, at, self.id);
    }
}

pub(super) struct Repair<'a, B> {
    pub block: &'a B,
    pub tables: &'a LaneTables<'a>,
    pub shared: OthersShared,
    /// Arrays of one length.
    pub hits: HitArrays<'a>,
}

impl<B: Block> Repair<'_, B> {
    /// Sorts the groups of the first [`PACK`] lanes, each `n` hits from `start` on. The first [`MAX_WARPS`] warps call.
    #[inline(always)]
    pub fn sort(&self, start: u32, n: u32) {
        let (block, lane) = (self.block, self.block.lane_id());
        let mut group = 0;
        // Uniform in the warp.
        while group < PACK {
            // Packs the next groups into the lanes; `first`, `own_n` and `own_start` are of the lane's own group.
            let (mut lanes, mut most, mut first, mut own_n, mut own_start) = (0, 0, 0, 0, 0);
            let mut n_next = block.shuffle_idx_sync(FULL_MASK, n, group);
            let is_large = n_next > WARP_SIZE;
            let (start_large, n_large) = (block.shuffle_idx_sync(FULL_MASK, start, group), n_next);
            while group < PACK && lanes + n_next <= WARP_SIZE {
                let start_next = block.shuffle_idx_sync(FULL_MASK, start, group);
                if lane >= lanes {
                    (first, own_n, own_start) = (lanes, n_next, start_next);
                }
                lanes += n_next;
                most = most.max(n_next);
                group += 1;
                n_next = block.shuffle_idx_sync(FULL_MASK, n, group);
            }
            if !is_large {
                self.in_lanes(own_start, first, own_n, most);
                continue;
            }
            group += 1;
            if n_large <= 2 * WARP_SIZE {
                self.in_pairs_of_lanes(start_large, n_large);
            } else if n_large <= ROOM {
                self.in_shared_memory(start_large, n_large);
            } else {
                warp_sort_in_place(block, n_large, |i, j| self.exchange(start_large + i, start_large + j));
            }
        }
    }

    /// Sorts groups of up to `most` hits. The caller's has `n` hits from `start` on, in the lanes from `first` on.
    #[inline(always)]
    fn in_lanes(&self, start: u32, first: u32, n: u32, most: u32) {
        let (block, lane) = (self.block, self.block.lane_id());
        let from = start + (lane - first);
        let is_there = lane - first < n && from < self.hits.id.len();
        let hit = if is_there { Hit::load(block, &self.hits, from) } else { Hit::default() };
        let key = ordered(hit.x_at_y_eq0);
        let mut place = 0;
        let mut other = 0;
        while other < most {
            let mut i = other;
            while i < other + 4 {
                // (Behind the group's last hit, the lane compares its key with itself.)
                let of = block.shuffle_idx_sync(FULL_MASK, key, if i < n { first + i } else { lane });
                place += u32::from(of < key);
                i += 1;
            }
            other += 4;
        }
        // Lanes with the same place have the same x.
        let same = block.match_any_sync(FULL_MASK, if is_there { first + place } else { WARP_SIZE + lane });
        let mut ties = same & (!0 ^ 1 << lane);
        while ties != 0 {
            place += u32::from(self.is_after(from, start + ties.trailing_zeros() - first));
            ties &= ties - 1;
        }
        // All hits are read before any is overwritten.
        block.sync_warp(FULL_MASK);
        if is_there {
            hit.store(block, &self.hits, start + place);
        }
    }

    #[inline(always)]
    fn in_pairs_of_lanes(&self, start: u32, n: u32) {
        let (block, lane) = (self.block, self.block.lane_id());
        let (from, from_second) = (start + lane, start + lane + WARP_SIZE);
        let is_there = lane + WARP_SIZE < n && from_second < self.hits.id.len();
        let hit = Hit::load(block, &self.hits, from);
        let second = if is_there { Hit::load(block, &self.hits, from_second) } else { Hit::default() };
        let key = ordered(hit.x_at_y_eq0);
        let key_second = if is_there { ordered(second.x_at_y_eq0) } else { u32::MAX };
        let (mut place, mut place_second) = (0, 0);
        let mut count = |of: u32| {
            place += u32::from(of < key);
            place_second += u32::from(of < key_second);
        };
        let mut other = 0;
        while other < WARP_SIZE {
            count(block.shuffle_idx_sync(FULL_MASK, key, other));
            other += 1;
        }
        let mut other = 0;
        while other < n - WARP_SIZE {
            count(block.shuffle_idx_sync(FULL_MASK, key_second, other));
            other += 1;
        }
        // Hits of one x have one place, and the places behind it are free.
        let mut taken = 1u64 << place | if is_there { 1 << place_second } else { 0 };
        let mut distance = WARP_SIZE / 2;
        while distance > 0 {
            taken |= block.shuffle_xor_sync(FULL_MASK, taken, distance);
            distance /= 2;
        }
        let free = !taken << (2 * WARP_SIZE - n) >> (2 * WARP_SIZE - n);
        let mut shared_places = taken & free >> 1;
        // Uniform in the warp.
        while shared_places != 0 {
            let at = shared_places.trailing_zeros();
            let (is_here, is_second_here) = (place == at, is_there && place_second == at);
            let first = block.ballot_sync(FULL_MASK, is_here);
            let second = block.ballot_sync(FULL_MASK, is_second_here);
            let mut hits = u64::from(first) | u64::from(second) << WARP_SIZE;
            while hits != 0 {
                let other = start + hits.trailing_zeros();
                if is_here && other != from {
                    place += u32::from(self.is_after(from, other));
                }
                if is_second_here && other != from_second {
                    place_second += u32::from(self.is_after(from_second, other));
                }
                hits &= hits - 1;
            }
            shared_places &= shared_places - 1;
        }
        // All hits are read before any is overwritten.
        block.sync_warp(FULL_MASK);
        hit.store(block, &self.hits, start + place);
        if is_there {
            second.store(block, &self.hits, start + place_second);
        }
    }

    #[inline(always)]
    fn in_shared_memory(&self, start: u32, n: u32) {
        let Self { block, hits, shared, .. } = self;
        let (keys, order, first) = (shared.keys, shared.order, ROOM * (block.warp_id() % MAX_WARPS));
        let mut i = block.lane_id();
        while i < n {
            block.shared_store(keys, first + i, ordered(block.load_mut(hits.x_at_y_eq0, start + i)));
            block.shared_store(order, first + i, i as u16);
            i += WARP_SIZE;
        }
        // All keys are there before any two are compared.
        block.sync_warp(FULL_MASK);
        warp_sort_in_place(*block, n, |i, j| {
            let (i, j) = (first + i, first + j);
            let (key_i, key_j) = (block.shared_load(keys, i), block.shared_load(keys, j));
            let (hit_i, hit_j) = (block.shared_load(order, i), block.shared_load(order, j));
            let falls = if key_i == key_j {
                self.is_after(start + u32::from(hit_i), start + u32::from(hit_j))
            } else {
                key_i > key_j
            };
            if falls {
                block.shared_store(keys, i, key_j);
                block.shared_store(keys, j, key_i);
                block.shared_store(order, i, hit_j);
                block.shared_store(order, j, hit_i);
            }
        });
        self.column(hits.y_begin, start, n);
        self.column(hits.y_end, start, n);
        self.column(hits.z_at_y_eq0, start, n);
        self.column(hits.x_at_y_eq0, start, n);
        self.column(hits.dx_dy, start, n);
        self.column(hits.weight, start, n);
        self.column(hits.id, start, n);
        // The last column is read before the next group's keys are stored.
        block.sync_warp(FULL_MASK);
    }

    /// Puts one of the seven columns in order, by way of the keys' place in shared memory.
    #[inline(always)]
    fn column<T: Scalar>(&self, array: GlobalMut<'_, T>, start: u32, n: u32) {
        let Self { block, shared, .. } = self;
        let first = ROOM * (block.warp_id() % MAX_WARPS);
        let mut i = block.lane_id();
        while i < n {
            let from = start + u32::from(block.shared_load(shared.order, first + i));
            block.shared_store(shared.keys, first + i, block.load_mut(array, from).to_bits() as u32);
            i += WARP_SIZE;
        }
        // All hits are read before any is overwritten.
        block.sync_warp(FULL_MASK);
        let mut i = block.lane_id();
        while i < n {
            let bits = block.shared_load(shared.keys, first + i);
            block.store(array, start + i, T::from_bits(u64::from(bits)));
            i += WARP_SIZE;
        }
    }

    #[inline(always)]
    fn exchange(&self, i: u32, j: u32) {
        let Self { block, hits, .. } = self;
        let (x_i, x_j) = (block.load_mut(hits.x_at_y_eq0, i), block.load_mut(hits.x_at_y_eq0, j));
        let falls = if ordered(x_i) == ordered(x_j) { self.is_after(i, j) } else { ordered(x_i) > ordered(x_j) };
        if falls {
            self.swap(hits.y_begin, i, j);
            self.swap(hits.y_end, i, j);
            self.swap(hits.z_at_y_eq0, i, j);
            self.swap(hits.x_at_y_eq0, i, j);
            self.swap(hits.dx_dy, i, j);
            self.swap(hits.weight, i, j);
            self.swap(hits.id, i, j);
        }
    }

    #[inline(always)]
    fn swap<T: Scalar>(&self, array: GlobalMut<'_, T>, i: u32, j: u32) {
        let (of_i, of_j) = (self.block.load_mut(array, i), self.block.load_mut(array, j));
        self.block.store(array, i, of_j);
        self.block.store(array, j, of_i);
    }

    /// Returns true if hit `i` comes after hit `j` of the same x. Hits that are equal in every field keep their order.
    #[inline(always)]
    fn is_after(&self, i: u32, j: u32) -> bool {
        let Self { block, tables, hits, .. } = self;
        let (id_i, id_j) = (block.load_mut(hits.id, i), block.load_mut(hits.id, j));
        if id_i != id_j {
            return id_i > id_j;
        }
        // Two lanes of one sector: their hits differ by the strip, with which y and z rise or fall. (A rare search.)
        let mut rank = 0;
        while rank + 1 < tables.n_ranks() && (block.load(tables.chan_ids, rank) ^ id_i) & SECTOR != 0 {
            rank += 1;
        }
        let class = CLASS_WORDS * u32::from(block.load(tables.classes, rank));
        let falls = |word| block.load(tables.constants, class + word) >> 31 != 0;
        let value = |column, hit| ordered(block.load_mut(column, hit));
        let (y_i, y_j) = (value(hits.y_begin, i), value(hits.y_begin, j));
        if y_i != y_j {
            return (y_i > y_j) != falls(1);
        }
        let (z_i, z_j) = (value(hits.z_at_y_eq0, i), value(hits.z_at_y_eq0, j));
        if z_i == z_j { i > j } else { (z_i > z_j) != falls(2) }
    }
}

/// Bits of an `LHCbID` that determine the sector.
const SECTOR: u32 = 0x007F_FE00;
