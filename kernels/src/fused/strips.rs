//! Step 3: reads the strips of a tile, a thread each, in the order of the ranks; finds clusters, and anything unusual.
//!
//! A warp takes neighbouring strips, 32 at a time. The bits of the strips that begin a lane give a strip's lane and its
//! place in the lane. The strip before is in the neighbour's register.

use super::lane::{Hits, Lane, Sums, Word};
use super::places::before_and_all;
use super::shared::FusedShared;
use crate::bank::v4;
use crate::clustering::ClusterOptions;
use crate::detector::BankVersion;
use simt::{Block, FULL_MASK, WARP_SIZE};

/// Strips of the event that are looked at together. The block has one tile at a time, in shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    /// First strip, which begins a lane.
    pub start: u32,
    pub n: u32,
    pub lanes_before: u32,
    pub hits_before: u32,
}

impl Tile {
    pub const BEGIN: Self = Self { start: 0, n: 0, lanes_before: 0, hits_before: 0 };

    /// Stores the tile for the block. One thread of the block calls, between barriers.
    #[inline(always)]
    pub fn put<B: Block>(&self, block: &B, shared: &FusedShared) {
        block.shared_store(shared.tile, 0, self.start);
        block.shared_store(shared.tile, 2, self.lanes_before);
        block.shared_store(shared.tile, 3, self.hits_before);
    }

    /// Returns the block's tile, after a barrier since its strips were read.
    #[inline(always)]
    #[track_caller]
    pub fn of<B: Block>(block: &B, shared: &FusedShared) -> Self {
        Self {
            start: Self::start(block, shared),
            n: block.shared_load(shared.tile, 1),
            lanes_before: block.shared_load(shared.tile, 2),
            hits_before: block.shared_load(shared.tile, 3),
        }
    }

    /// Returns the first strip of the block's tile, after a barrier since it was stored.
    #[inline(always)]
    #[track_caller]
    pub fn start<B: Block>(block: &B, shared: &FusedShared) -> u32 {
        block.shared_load(shared.tile, 0)
    }

    /// Returns true if the tile ends with the event's `n_strips`.
    #[inline(always)]
    pub const fn is_last(&self, n_strips: u32) -> bool {
        self.start + self.n == n_strips
    }

    /// Length of the tile from `start` on, of an event with `n_strips`: as many whole lanes as there is room for.
    #[inline(always)]
    fn length<B: Block>(block: &B, shared: &FusedShared, start: u32, n_strips: u32) -> u32 {
        let room = shared.strips.len() - 1;
        let n = n_strips - start;
        if n <= room {
            return n;
        }
        // The last strip that begins a lane ends the tile: no lane has more strips than there is room for.
        let mut chunk = room / WARP_SIZE;
        let mut begins = block.shared_load(shared.lane_begins, chunk) & 1;
        while begins == 0 {
            chunk -= 1;
            begins = block.shared_load(shared.lane_begins, chunk);
        }
        chunk * WARP_SIZE + begins.ilog2()
    }

    /// Returns the next tile. All lanes of the warp call.
    #[inline(always)]
    pub fn next<B: Block>(&self, block: &B, shared: &FusedShared) -> Self {
        let mut lanes = 0;
        let mut chunk = block.lane_id();
        while chunk * WARP_SIZE < self.n {
            let begins = block.shared_load(shared.lane_begins, chunk);
            let left = self.n - chunk * WARP_SIZE;
            lanes += if left < WARP_SIZE { begins & ((1 << left) - 1) } else { begins }.count_ones();
            chunk += WARP_SIZE;
        }
        let (_, hits) = before_and_all(block, shared.warp_hits);
        Self {
            start: self.start + self.n,
            n: 0,
            lanes_before: self.lanes_before + block.redux_add_sync(FULL_MASK, lanes),
            hits_before: self.hits_before + hits,
        }
    }
}

/// Strip far behind every other: counted from it, the strips of a tile are negative.
const NOWHERE: u32 = 1 << 31;

/// Chunks of 32 strips that each warp takes, in a tile of `n` strips; at least 1.
#[inline(always)]
pub(super) fn per_warp<B: Block>(block: &B, n: u32) -> u32 {
    n.div_ceil(WARP_SIZE).div_ceil(block.warps().max(1)).max(1)
}

/// Chunks of the caller's warp: the first, and the end.
#[inline(always)]
pub(super) fn part<B: Block>(block: &B, n: u32) -> (u32, u32) {
    let (chunks, per_warp) = (n.div_ceil(WARP_SIZE), per_warp(block, n));
    let first = (block.warp_id() * per_warp).min(chunks);
    (first, (first + per_warp).min(chunks))
}

/// Stands in for [`read`] where the batch has no bytes.
#[inline(always)]
pub(super) fn read_nothing<B: Block>(block: &B, shared: &FusedShared) -> bool {
    if block.thread() == 0 {
        block.shared_store(shared.tile, 1, 0);
    }
    if block.lane_id() == 0 {
        block.shared_store(shared.warp_hits, block.warp_id(), 0);
    }
    false
}

/// Reads the tile's strips and finds clusters; returns true if a strip is unusual. All threads call, between barriers.
#[inline(always)]
pub(super) fn read<B: Block>(
    block: &B,
    hits: &Hits<'_>,
    options: ClusterOptions,
    shared: &FusedShared,
    n_strips: u32,
) -> bool {
    let clusters = matches!(hits.version, BankVersion::V5) && options.flags & ClusterOptions::CLUSTERING != 0;
    let is_v5 = matches!(hits.version, BankVersion::V5);
    let thread = block.lane_id();
    let start = Tile::start(block, shared);
    // (No more than there is room for, so that the compiler tests no strip again.)
    let n = Tile::length(block, shared, start, n_strips).min(shared.strips.len() - 1);
    if block.thread() == 0 {
        block.shared_store(shared.tile, 1, n);
        block.shared_store(shared.strips, n, Word::END.0);
    }
    let (first, end) = part(block, n);
    // Lanes that begin before the warp's part, and the first strip of the last one.
    let mut lanes = 0;
    let mut chunk = thread;
    while chunk < first {
        lanes += block.shared_load(shared.lane_begins, chunk).count_ones();
        chunk += WARP_SIZE;
    }
    let mut lanes = block.redux_add_sync(FULL_MASK, lanes) + block.shared_load(shared.tile, 2);
    let mut last_begin = 0;
    // Key of the strip before the warp's first; before the tile's first strip, one far from every other.
    let mut key_before = 2u32.wrapping_neg();
    if first > 0 && first < end {
        let mut chunk = first - 1;
        let mut begins = block.shared_load(shared.lane_begins, chunk);
        // (The first strip of the tile begins a lane.)
        while begins == 0 {
            chunk -= 1;
            begins = block.shared_load(shared.lane_begins, chunk);
        }
        last_begin = chunk * WARP_SIZE + begins.ilog2();
        if is_v5 {
            let lane = Lane(block.shared_load(shared.lanes, lanes - 1));
            let i = first * WARP_SIZE - last_begin;
            key_before = hits.word(block, lane, hits.begin(block, lane), i - 1).key();
        }
    }
    // Minimum, over the warp lane's strips, of numbers that are above 0 in ordinary events.
    let mut least = 1;
    let mut place = first * WARP_SIZE;
    let is_geometric = options.flags & ClusterOptions::GEOMETRIC != 0;
    let max_size = if clusters { options.max_size.min(Sums::MAX_SIZE) } else { u32::MAX };
    // First strip of the last cluster of the warp's part.
    let mut head = NOWHERE;
    let up_to_thread = block.lanemask_lt() | 1 << thread;
    // The event's last strip, counted from the tile's first.
    let last = n_strips.wrapping_sub(start + 1);
    // (`end` is no larger; the compiler learns it here.)
    let end = end.min(shared.lane_begins.len());
    let mut chunk = first;
    while chunk < end {
        let begins = block.shared_load(shared.lane_begins, chunk);
        let strip = chunk * WARP_SIZE + thread;
        let is_there = strip < n;
        let up_to = begins & up_to_thread;
        let lanes_up_to = lanes + up_to.count_ones();
        let begin = if up_to == 0 { last_begin } else { chunk * WARP_SIZE + up_to.ilog2() };
        let lane = Lane(block.shared_load(shared.lanes, lanes_up_to - 1));
        let first_hit = hits.begin(block, lane);
        // (Behind the event's last strip, that one is read again, so that no branch is in the way.)
        let i = strip.min(last) - begin;
        let word = hits.word(block, lane, first_hit, i);
        let mut is_begin = is_there;
        if is_v5 {
            // From lane to lane the key rises by more than 1, since the rank does.
            let below = block.shuffle_up_sync(FULL_MASK, word.key(), 1);
            let step = word.key().wrapping_sub(if thread == 0 { key_before } else { below });
            key_before = block.shuffle_idx_sync(FULL_MASK, word.key(), WARP_SIZE - 1);
            let charge = if clusters { word.adc() } else { 1 };
            let mut positive = step.cast_signed().min(charge.cast_signed());
            if i >= max_size {
                // Strips rise: `max_size` steps of one, or larger ones.
                let earlier = hits.word(block, lane, first_hit, i - max_size);
                if word.key().wrapping_sub(earlier.key()) == max_size {
                    positive = 0;
                }
            }
            least = least.min(if is_there { positive } else { 1 });
            is_begin = is_there && (step != 1 || !clusters);
        }
        let found = block.ballot_sync(FULL_MASK, is_begin);
        if is_begin {
            block.shared_store(shared.clusters, place + (found & block.lanemask_lt()).count_ones(), strip as u16);
        }
        if is_v5 {
            let found_up_to = found & up_to_thread;
            let own_head = if found_up_to == 0 { head } else { chunk * WARP_SIZE + found_up_to.ilog2() };
            // (`number` < 0: the cluster began in an earlier part. Its words stay, for the lane that makes its hit.)
            let number = strip.wrapping_sub(own_head).cast_signed();
            let sums = Sums::of(number.cast_unsigned(), if is_geometric { 1 } else { word.adc() });
            if is_there && number <= 1 {
                block.shared_store(shared.strips, strip, if number == 1 { Sums::begin(sums) } else { word.0 });
            }
            // All sums have begun.
            block.sync_warp(FULL_MASK);
            if is_there && number > 1 {
                block.shared_atomic_add(shared.strips, own_head + 1, sums);
            }
            head = block.shuffle_idx_sync(FULL_MASK, own_head, WARP_SIZE - 1);
        } else if is_there {
            // (In an unsorted bank, the word may be of another lane.)
            least = least.min(u32::from(v4::lane(word.0 as u16) == lane.lane()).cast_signed());
            block.shared_store(shared.strips, strip, word.0);
        }
        place += found.count_ones();
        lanes = block.shuffle_idx_sync(FULL_MASK, lanes_up_to, WARP_SIZE - 1);
        last_begin = block.shuffle_idx_sync(FULL_MASK, begin, WARP_SIZE - 1);
        chunk += 1;
    }
    if thread == 0 {
        block.shared_store(shared.warp_hits, block.warp_id(), place - first * WARP_SIZE);
    }
    least <= 0
}
