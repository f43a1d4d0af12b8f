//! The few groups in which x does not rise: where neighbouring staves overlap.

use super::shared::HitShared;
use simt::{Block, FULL_MASK, GlobalMut, Plain, WARP_SIZE};
use crate::hit::{HitArrays, ordered};

/// Hits of a group that each lane of the warp moves.
const PER_LANE: u32 = 4;

/// The hits of an event that are written.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub shared: HitShared,
    pub hits: &'a HitArrays<'a>,
    /// Where the event's hits begin.
    pub base: u32,
}

impl Written<'_> {
    /// Sorts the groups that are marked, a warp a group. All threads of the block call, after a barrier since the hits
    /// were written. Gives, to all lanes of a warp, whether there was one that this cannot sort: equal keys, or too many
    /// hits.
    #[inline(always)]
    pub fn repair<B: Block>(&self, block: &B) -> bool {
        let mut turn = 0;
        let mut failed = false;
        let mut word = 0;
        while word < self.shared.bad_groups.len() {
            let mut bits = block.shared_load(self.shared.bad_groups, word);
            while bits != 0 {
                let group = 32 * word + bits.trailing_zeros();
                if turn % block.warps() == block.warp_id() {
                    let start = block.shared_load(self.shared.group_hits, group);
                    let end = block.shared_load(self.shared.group_hits, group + 1);
                    failed |= self.sort(block, self.base + start, end - start);
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
        // Nothing looks at the strips any more.
        let room = shared.strips.len() / block.warps() / 2;
        if n > room || n > PER_LANE * WARP_SIZE {
            return true;
        }
        let (xs, ids) = (2 * room * block.warp_id(), 2 * room * block.warp_id() + room);
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
        let mut places = [0u32; PER_LANE as usize];
        let mut equal = false;
        let mut other = 0;
        while other < n {
            let x = block.shared_load(shared.strips, xs + other);
            let id = block.shared_load(shared.strips, ids + other);
            let mut k = 0;
            while k < PER_LANE {
                let i = block.lane_id() + k * WARP_SIZE;
                if i < n {
                    let own = (block.shared_load(shared.strips, xs + i), block.shared_load(shared.strips, ids + i));
                    places[k as usize] += u32::from((x, id) < own);
                    equal |= (x, id) == own && i != other;
                }
                k += 1;
            }
            other += 1;
        }
        if block.ballot_sync(FULL_MASK, equal) != 0 {
            return true;
        }
        move_all(block, hits.y_begin, start, n, places);
        move_all(block, hits.y_end, start, n, places);
        move_all(block, hits.z_at_y_eq0, start, n, places);
        move_all(block, hits.x_at_y_eq0, start, n, places);
        move_all(block, hits.dx_dy, start, n, places);
        move_all(block, hits.weight, start, n, places);
        move_all(block, hits.id, start, n, places);
        false
    }
}

/// Puts each of `n` elements from `start` on to its place. All lanes of the warp call.
#[inline(always)]
fn move_all<B: Block, T: Plain>(
    block: &B,
    array: GlobalMut<'_, T>,
    start: u32,
    n: u32,
    places: [u32; PER_LANE as usize],
) {
    let mut values = [T::default(); PER_LANE as usize];
    let mut k = 0;
    while k < PER_LANE {
        let i = block.lane_id() + k * WARP_SIZE;
        if i < n {
            values[k as usize] = block.load_mut(array, start + i);
        }
        k += 1;
    }
    // All are read before any is overwritten.
    block.sync_warp(FULL_MASK);
    let mut k = 0;
    while k < PER_LANE {
        let i = block.lane_id() + k * WARP_SIZE;
        if i < n && places[k as usize] != i {
            block.store(array, start + places[k as usize], values[k as usize]);
        }
        k += 1;
    }
}
