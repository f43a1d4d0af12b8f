//! The few groups in which x does not rise: where neighbouring staves overlap.

use super::shared::HitShared;
use simt::{Block, FULL_MASK, GlobalMut, Scalar, WARP_SIZE};
use crate::hit::{HitArrays, ordered};

/// The hits of an event that are written.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub shared: HitShared,
    pub hits: &'a HitArrays<'a>,
}

impl Written<'_> {
    /// Sorts the groups that are marked, a warp a group. All threads of the block call, after a barrier since the hits
    /// were written. Gives, to all lanes of a warp, whether there was one that this cannot sort: equal keys, or too many
    /// hits.
    #[inline(always)]
    pub fn repair<B: Block>(&self, block: &B) -> bool {
        let base = block.shared_load(self.shared.base, 0);
        let mut turn = 0;
        let mut failed = false;
        let mut word = 0;
        while word < self.shared.bad_groups.len() {
            let mut bits = block.shared_load(self.shared.bad_groups, word);
            while bits != 0 {
                let group = 32 * word + bits.trailing_zeros();
                if turn % block.warps().max(1) == block.warp_id() {
                    let start = block.shared_load(self.shared.group_hits, group);
                    let end = block.shared_load(self.shared.group_hits, group + 1);
                    failed |= self.sort(block, base + start, end - start);
                }
                turn += 1;
                bits &= bits - 1;
            }
            word += 1;
        }
        failed
    }

    /// Sorts `n` hits from `start` on by counting: a hit's place is the number of those before it. All lanes of the warp
    /// call. Gives whether it could not; the hits are as they were, then.
    #[inline(always)]
    fn sort<B: Block>(&self, block: &B, start: u32, n: u32) -> bool {
        let Self { shared, hits, .. } = self;
        // Nothing looks at the strips and clusters any more.
        let room = shared.strips.len() / block.warps().max(1);
        if 2 * n > room {
            return true;
        }
        let first = room * block.warp_id();
        let (xs, ids, places) = (first, first + n, first);
        // All lanes are done with the keys of the warp's last group.
        block.sync_warp(FULL_MASK);
        let mut i = block.lane_id();
        while i < n {
            block.shared_store(shared.strips, xs + i, ordered(block.load_mut(hits.x_at_y_eq0, start + i)));
            block.shared_store(shared.strips, ids + i, block.load_mut(hits.id, start + i));
            i += WARP_SIZE;
        }
        // All keys are there.
        block.sync_warp(FULL_MASK);
        let mut equal = false;
        let mut i = block.lane_id();
        while i < n {
            let own = (block.shared_load(shared.strips, xs + i), block.shared_load(shared.strips, ids + i));
            let mut place = 0;
            let mut other = 0;
            while other < n {
                let x = block.shared_load(shared.strips, xs + other);
                // (Two equal x are rare.)
                place += if x == own.0 {
                    let id = block.shared_load(shared.strips, ids + other);
                    equal |= id == own.1 && other != i;
                    u32::from(id < own.1)
                } else {
                    u32::from(x < own.0)
                };
                other += 1;
            }
            block.shared_store(shared.clusters, places + i, place as u16);
            i += WARP_SIZE;
        }
        if block.ballot_sync(FULL_MASK, equal) != 0 {
            return true;
        }
        // In place of the keys: a column on its way.
        let column = Column { block, shared: *shared, first, start, n };
        column.sort(hits.y_begin);
        column.sort(hits.y_end);
        column.sort(hits.z_at_y_eq0);
        column.sort(hits.x_at_y_eq0);
        column.sort(hits.dx_dy);
        column.sort(hits.weight);
        column.sort(hits.id);
        false
    }
}

/// The elements of a group in one of the seven arrays.
struct Column<'a, B> {
    block: &'a B,
    shared: HitShared,
    /// Where the warp's part of shared memory begins.
    first: u32,
    start: u32,
    n: u32,
}

impl<B: Block> Column<'_, B> {
    /// Puts each element to its place. All lanes of the warp call.
    #[inline(always)]
    fn sort<T: Scalar>(&self, array: GlobalMut<'_, T>) {
        let Self { block, shared, first, start, n } = self;
        // The keys, or the column before, are no longer looked at.
        block.sync_warp(FULL_MASK);
        let mut i = block.lane_id();
        while i < *n {
            let place = u32::from(block.shared_load(shared.clusters, first + i));
            block.shared_store(shared.strips, first + place, block.load_mut(array, start + i).to_bits() as u32);
            i += WARP_SIZE;
        }
        // All are read before any is overwritten.
        block.sync_warp(FULL_MASK);
        let mut i = block.lane_id();
        while i < *n {
            let bits = block.shared_load(shared.strips, first + i);
            block.store(array, start + i, T::from_bits(u64::from(bits)));
            i += WARP_SIZE;
        }
    }
}
