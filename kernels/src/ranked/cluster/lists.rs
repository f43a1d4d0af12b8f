//! Stage 2: from the descriptors by rank to each warp's lanes with hits, in order.
//!
//! ```text
//! rank               0  1  2  3  4  5  6  7        of a warp
//! strips             .  3  .  1  2  .  .  4
//! lanes              [1] [3] [4] [7]
//! begins             1..11.1...                    a bit per strip
//! ```
//!
//! A warp owns whole groups, so it needs no other warp to number its strips: one scan within the
//! warp, and no barrier. The list takes the place of the descriptors, which all of the warp has in
//! registers by then.

use super::lane::{Entry, Found, Listed};
use super::shared::{CHUNKS, ClusterShared};
use crate::ranked::tables::{MAX_RANKS_OF_THREAD, Share};
use simt::{Block, FULL_MASK, WARP_SIZE};

/// A warp's lanes, the same in all its threads but for `first_strip`.
#[derive(Clone, Copy)]
pub(super) struct List {
    /// Rank from which the warp's ranks are counted, and place of its first lane in shared memory.
    pub first_rank: u32,
    pub n_lanes: u32,
    pub n_strips: u32,
    /// First strip of the thread's ranks.
    pub first_strip: u32,
}

/// Lists the lanes of a warp whose ranks begin at `first_rank`. All threads of the warp call, after
/// a barrier.
#[inline(always)]
pub(super) fn list<B: Block>(
    block: &B,
    shared: &ClusterShared,
    share: Share,
    first_rank: u32,
) -> List {
    // (Two arrays of words: an array of pairs would be moved as numbers of eight bytes.)
    let mut begins = [0; MAX_RANKS_OF_THREAD as usize];
    let mut counts = [0; MAX_RANKS_OF_THREAD as usize];
    // Strips, and lanes with hits from bit `LANE` on.
    let mut sum = 0;
    // (Limited once, so that the compiler tests no rank.)
    let first = share.first().min(shared.lanes.len() - MAX_RANKS_OF_THREAD);
    let mut i = 0;
    while i < MAX_RANKS_OF_THREAD {
        if i < share.n() {
            let Entry { low, high } = block.shared_load(shared.lanes, first + i);
            sum += high;
            begins[i as usize] = low;
            counts[i as usize] = high;
        }
        i += 1;
    }
    let mut up_to = sum;
    let mut delta = 1;
    while delta < WARP_SIZE {
        let below = block.shuffle_up_sync(FULL_MASK, up_to, delta);
        up_to += if block.lane_id() >= delta { below } else { 0 };
        delta *= 2;
    }
    let all = block.shuffle_idx_sync(FULL_MASK, up_to, WARP_SIZE - 1);
    let before = up_to - sum;
    let first_strip = before & ((1 << Found::LANE) - 1);
    // The warp has read its descriptors.
    block.sync_warp(FULL_MASK);
    let (mut strip, mut place) = (first_strip, first_rank + (before >> Found::LANE));
    let mut i = 0;
    while i < MAX_RANKS_OF_THREAD {
        if counts[i as usize] > 0 {
            let lane = Found(Entry {
                low: begins[i as usize],
                high: counts[i as usize],
            });
            let rank = first - first_rank + i;
            let place_there = place.min(shared.lanes.len() - 1);
            block.shared_store(shared.lanes, place_there, lane.listed(rank, strip).0);
            mark(block, shared, strip);
            place += 1;
            strip += lane.n_strips();
        }
        i += 1;
    }
    // The lanes are listed, and marked.
    block.sync_warp(FULL_MASK);
    List {
        first_rank,
        n_lanes: all >> Found::LANE,
        n_strips: all & ((1 << Found::LANE) - 1),
        first_strip,
    }
}

/// Word of chunk `i` of the caller's warp in [`ClusterShared::begins`]. All later chunks share a
/// word, which nothing reads.
#[inline(always)]
pub(super) fn chunk<B: Block>(block: &B, i: u32) -> u32 {
    super::warp(block) * (CHUNKS + 1) + i.min(CHUNKS)
}

/// Notes that strip `i` of the window, or of a later one, begins a lane.
#[inline(always)]
fn mark<B: Block>(block: &B, shared: &ClusterShared, i: u32) {
    let bit = 1u32.rotate_left(i);
    block.shared_atomic_or(shared.begins, chunk(block, i / WARP_SIZE), bit);
}

/// Notes which strips of a later window begin a lane. All threads of the warp call.
#[inline(always)]
pub(super) fn mark_window<B: Block>(block: &B, shared: &ClusterShared, list: &List, window: u32) {
    block.shared_store(shared.begins, chunk(block, block.lane_id()), 0);
    // The marks of the previous window are gone.
    block.sync_warp(FULL_MASK);
    let mut i = block.lane_id();
    while i < list.n_lanes {
        let lane = Listed(block.shared_load(shared.lanes, list.first_rank + i));
        // (Far beyond the window for a lane before it.)
        mark(block, shared, lane.first_strip().wrapping_sub(window));
        i += WARP_SIZE;
    }
    // All marks are there.
    block.sync_warp(FULL_MASK);
}
