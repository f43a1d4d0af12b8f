//! Stage 4: what the later kernels need to know of the event.

use super::shared::ClusterShared;
use super::strips::Clustered;
use super::{thread, warp};
use crate::ranked::tables::{RankedTables, Share};
use crate::ranked::{HEAD_BEFORE, HEAD_REPORT, HEAD_WORDS, PARTS, UNUSUAL, Work};
use crate::report::Count;
use simt::{Block, WARP_SIZE};

/// Adds the clusters of a warp to those before the later warps. All threads of the warp call; a
/// barrier must follow.
#[inline(always)]
pub(super) fn put<B: Block>(
    block: &B,
    shared: &ClusterShared,
    share: Share,
    clustered: &Clustered,
    n_strips: u32,
) {
    let lane = block.lane_id();
    if let Some(group) = share.group() {
        block.shared_store(shared.firsts, group, clustered.first);
    }
    if lane > warp(block) && lane <= PARTS {
        block.shared_atomic_add(shared.before, lane, clustered.n);
    }
    if lane == 0 {
        block.shared_atomic_add(shared.n_strips, 0, n_strips);
    }
    if clustered.is_unusual {
        block.shared_atomic_or(shared.unusual_strip, 0, 1);
    }
}

/// Writes the first hit of each group and the event's head, and lists what is left for the other
/// kernels. All threads of the block call, after a barrier. The last argument is of the caller: its
/// share, and strips and place of its warp.
#[inline(always)]
pub(super) fn write<B: Block>(
    block: &B,
    shared: &ClusterShared,
    tables: &RankedTables<'_>,
    work: &Work<'_>,
    event: u32,
    clustered: &Clustered,
    (share, n_strips, place): (Share, u32, u32),
) {
    let is_unusual =
        block.shared_load(shared.unusual_bank, 0) | block.shared_load(shared.unusual_strip, 0) != 0;
    if let Some(group) = share.group() {
        let before = block.shared_load(shared.before, warp(block));
        block.store(
            work.starts,
            event * tables.n_groups + group,
            before + clustered.first,
        );
        let is_flagged = share.is_sorted()
            || !block.shared_load(shared.lowest_high, group)
                < block.shared_load(shared.highest_low, group);
        if is_flagged && !is_unusual {
            // The next group begins where this one ends; behind the warp's last ends the warp.
            let end = if share.is_last() {
                clustered.n
            } else {
                block.shared_load(shared.firsts, group + 1)
            };
            if end - clustered.first > 1 {
                work.flag(block, place + 1 + clustered.first, end - clustered.first);
            }
        }
    }
    let head = event * HEAD_WORDS;
    if block.lane_id() == 0 {
        // (In an unusual event: the places that the part has.)
        let before = block.shared_load(shared.before, warp(block));
        let before = if is_unusual { n_strips } else { before };
        block.store(work.heads, head + warp(block), place.wrapping_add(1));
        block.store(work.heads, head + HEAD_BEFORE + warp(block), before);
    }
    let i = thread(block);
    if (HEAD_REPORT - 1..WARP_SIZE).contains(&i) {
        let word = if i == HEAD_REPORT - 1 {
            block.shared_load(shared.before, PARTS)
        } else if i == HEAD_REPORT + Count::Banks as u32 {
            block.shared_load(shared.place, 0)
        } else if i == HEAD_REPORT + Count::Strips as u32 {
            block.shared_load(shared.n_strips, 0)
        } else {
            0
        };
        block.store(work.heads, head + i, word);
    }
    if i == 0 {
        block.store(work.n_hits, event, block.shared_load(shared.before, PARTS));
        if is_unusual {
            defer(block, work, event);
        }
    }
}

#[inline(always)]
fn defer<B: Block>(block: &B, work: &Work<'_>, event: u32) {
    let place = block.atomic_add(work.counters, UNUSUAL, 1);
    block.store(work.unusual, place, event);
}

/// Writes an event without hits, and defers it if it is decoded all the same. All threads of the
/// block call.
#[inline(always)]
pub(super) fn leave<B: Block>(
    block: &B,
    tables: &RankedTables<'_>,
    work: &Work<'_>,
    event: u32,
    is_deferred: bool,
) {
    let mut i = block.thread();
    while i < tables.n_groups.max(HEAD_WORDS) {
        if i < tables.n_groups {
            block.store(work.starts, event * tables.n_groups + i, 0);
        }
        if i < HEAD_WORDS {
            block.store(work.heads, event * HEAD_WORDS + i, 0);
        }
        i += block.threads();
    }
    if block.thread() == 0 {
        block.store(work.n_hits, event, 0);
        if is_deferred {
            defer(block, work, event);
        }
    }
}
