//! Step 2: from the lanes by rank to the lanes with hits, in order, and the first strip of each among the event's.
//!
//! ```text
//! rank               0  1  2  3  4  5  6  7
//! hits               .  3  .  1  2  .  .  4
//! lanes              [1] [3] [4] [7]
//! lane begins        1..11.1...             a bit a strip
//! ```

use super::hit_tables::HitTables;
use super::lane::Lane;
use super::shared::FusedShared;
use simt::{Block, FULL_MASK, WARP_SIZE};

/// Lanes and strips, counted together: 12 bits and 20.
#[derive(Clone, Copy)]
pub(super) struct Run(u32);

const STRIPS: u32 = (1 << 20) - 1;

impl Run {
    /// All of the event, after a barrier since the list was made.
    #[inline(always)]
    #[track_caller]
    pub fn of_event<B: Block>(block: &B, shared: &FusedShared) -> Self {
        Self(block.shared_load(shared.event_run, 0))
    }

    #[inline(always)]
    const fn with(self, lane: Lane) -> Self {
        Self(self.0 + (1 << 20) + lane.count())
    }

    #[inline(always)]
    pub const fn lanes(self) -> u32 {
        self.0 >> 20
    }

    #[inline(always)]
    pub const fn strips(self) -> u32 {
        self.0 & STRIPS
    }
}

/// Inclusive sum over the warp, modulo 2³². All lanes call.
#[inline(always)]
pub(super) fn warp_sum<B: Block>(block: &B, value: u32) -> u32 {
    let mut sum = value;
    let mut delta = 1;
    while delta < WARP_SIZE {
        let below = block.shuffle_up_sync(FULL_MASK, sum, delta);
        sum += if block.lane_id() >= delta { below } else { 0 };
        delta *= 2;
    }
    sum
}

/// Sum of the words of the warps before the caller's, and of all. All threads call, after a barrier.
#[inline(always)]
#[track_caller]
pub(super) fn before_and_all<B: Block>(block: &B, totals: simt::Shared<u32>) -> (u32, u32) {
    let lane = block.lane_id();
    let total = if lane < block.warps() { block.shared_load(totals, lane) } else { 0 };
    let before = if lane < block.warp_id() { total } else { 0 };
    (block.redux_add_sync(FULL_MASK, before), block.redux_add_sync(FULL_MASK, total))
}

/// Number of ranks a thread.
#[inline(always)]
pub(super) fn run_length<B: Block>(block: &B, n_ranks: u32) -> u32 {
    n_ranks.div_ceil(block.threads())
}

/// Lists the lanes with hits, and [marks](mark) those of the first tile. All threads call, between barriers.
#[inline(always)]
pub(super) fn list<B: Block>(block: &B, tables: &HitTables<'_>, shared: &FusedShared) -> Run {
    let n_ranks = tables.n_ranks();
    let length = run_length(block, n_ranks);
    let first = (block.thread() * length).min(n_ranks);
    let end = (first + length).min(n_ranks);
    let mut own = Run(0);
    let mut rank = first;
    while rank < end {
        let lane = Lane(block.shared_load(shared.ranks, rank));
        if lane.0 != 0 {
            own = own.with(lane);
        }
        rank += 1;
    }
    let up_to = warp_sum(block, own.0);
    if block.lane_id() == WARP_SIZE - 1 {
        block.shared_store(shared.warp_totals, block.warp_id(), up_to);
    }
    // The sums of all warps are there.
    block.sync_threads();
    let (before, all) = before_and_all(block, shared.warp_totals);
    let mut run = Run(before + up_to - own.0);
    block.shared_store(shared.runs, block.thread(), run.0);
    let mut rank = first;
    while rank < end {
        let lane = Lane(block.shared_load(shared.ranks, rank));
        if lane.0 != 0 {
            block.shared_store(shared.lanes, run.lanes(), lane.0);
            mark_one(block, shared, run.strips());
            run = run.with(lane);
        }
        rank += 1;
    }
    if block.thread() == block.threads() - 1 {
        block.shared_store(shared.runs, block.threads(), all);
        block.shared_store(shared.event_run, 0, all);
    }
    Run(all)
}

#[inline(always)]
fn mark_one<B: Block>(block: &B, shared: &FusedShared, place: u32) {
    if place < shared.lane_begins.len() * WARP_SIZE {
        block.shared_atomic_or(shared.lane_begins, place / WARP_SIZE, 1 << (place % WARP_SIZE));
    }
}

/// Marks the strips of a tile that begin a lane: bit `i` is strip `start + i`. All threads call, between barriers.
#[inline(always)]
pub(super) fn mark<B: Block>(block: &B, shared: &FusedShared, start: u32) {
    let room = shared.lane_begins.len() * WARP_SIZE;
    let run = Run(block.shared_load(shared.runs, block.thread()));
    let next = Run(block.shared_load(shared.runs, block.thread() + 1));
    if next.strips() < start || run.strips() >= start + room {
        return;
    }
    let mut lane = run.lanes();
    let mut strip = run.strips();
    while lane < next.lanes() {
        // (For a lane before the tile, far beyond the room.)
        mark_one(block, shared, strip.wrapping_sub(start));
        strip += Lane(block.shared_load(shared.lanes, lane)).count();
        lane += 1;
    }
}

/// Number of the event's strips on lanes of ranks below `end`, after a barrier since the list was made.
#[inline(always)]
pub(super) fn strips_below<B: Block>(block: &B, shared: &FusedShared, n_ranks: u32, end: u32) -> u32 {
    let of = end / run_length(block, n_ranks).max(1);
    let run = Run(block.shared_load(shared.runs, of));
    if of >= block.threads() {
        return run.strips();
    }
    let next = Run(block.shared_load(shared.runs, of + 1));
    let (mut lane, mut strips) = (run.lanes(), run.strips());
    while lane < next.lanes() {
        let this = Lane(block.shared_load(shared.lanes, lane));
        if this.rank() >= end {
            break;
        }
        strips += this.count();
        lane += 1;
    }
    strips
}
