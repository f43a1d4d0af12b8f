//! First kernel: from raw banks to one record per cluster, in the order of the ranks.
//!
//! ```text
//! begin        clear; where the event's banks are
//!   ── barrier: everything is cleared
//! 1 headers    a thread per bank: every test of the policy, a descriptor for each lane with hits         headers.rs
//!   ── barrier: all descriptors are there
//! 2 lists      by warp: its lanes with hits in the order of the ranks, a bit per strip that begins one    lists.rs
//! 3 strips     by warp: a thread per strip; clusters and their records                                    strips.rs
//!   ── barrier: the clusters of all warps are counted
//! 4 totals     first hit of each group, groups to be sorted, the event's head                             totals.rs
//! ```
//!
//! Each warp owns whole groups, from a table of the host that gives equal numbers of lanes to all:
//! so between the headers and the totals no warp waits for another.
//!
//! Launch: a block of [`THREADS`] threads in x per event, [`cluster_shared_bytes`] of shared
//! memory.

mod headers;
mod lane;
mod lists;
mod shared;
mod strips;
mod totals;

pub use shared::cluster_shared_bytes;

use headers::{EventPlace, Headers};
use lane::Entry;
use lists::List;
use shared::ClusterShared;
pub(super) use strips::MAX_SIZE;
use strips::Strips;

use super::tables::{MAX_GROUPS, RankedTables, Share};
use super::{PARTS, RankedInput, RankedOptions, THREADS, Work};
use crate::switches::Switches;
use simt::{Block, FULL_MASK, Global, Kernel, NonEmpty};

/// Step of the key that continues a cluster.
pub(super) const STEP: u32 = lane::Key::STEP;

/// The kernel.
#[derive(Clone, Copy, Debug)]
pub struct Cluster {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

/// Views that no event can do without.
struct Views<'a> {
    raw: NonEmpty<'a, u32>,
    bounds: NonEmpty<'a, u32>,
}

impl Kernel for Cluster {
    const NAME: &'static str = "cluster";
    type Arguments<'a> = (RankedOptions, RankedInput<'a>, RankedTables<'a>, Work<'a>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, (options, input, tables, work): &Self::Arguments<'_>) {
        let Self { switches } = self;
        let event = block.block_idx_x();
        let shared = ClusterShared::layout().0;
        let is_selected = is_selected(block, input.selected, event);
        let Some(Views { raw, bounds }) = views(input, tables).filter(|_| is_selected) else {
            // (The same for the whole block.)
            totals::leave(block, tables, work, event, is_selected);
            return;
        };
        let headers = Headers {
            switches,
            batch: &input.batch,
            bank_words: input.bank_words,
            raw,
        };
        clear(block, &shared);
        if thread(block) == 0 {
            let place = headers.place(block, tables, event);
            block.shared_store(shared.unusual_bank, 0, u32::from(place.is_none()));
            place.unwrap_or(EventPlace::NONE).put(block, shared.place);
        }
        // Everything is cleared, and the banks are found.
        block.sync_threads();

        let place = EventPlace::of(block, shared.place);
        let i = thread(block);
        if i < place.n_banks
            && headers
                .describe(block, tables, &shared, &place, i)
                .is_none()
        {
            block.shared_atomic_or(shared.unusual_bank, 0, 1);
        }
        // All descriptors are there.
        block.sync_threads();

        let first_rank = block.load(tables.ranges, warp(block));
        let share = Share(block.load(tables.shares, i));
        // (An event with an unusual bank has no strips here, and takes no places.)
        let is_unusual = block.shared_load(shared.unusual_bank, 0) != 0;
        let list = lists::list(
            block,
            &shared,
            if is_unusual { Share(0) } else { share },
            first_rank,
        );
        let (list, place) = take(block, &shared, work, list);
        let strips = Strips {
            version: switches.version,
            options: options.ordinary,
            raw: raw.as_u16(),
            bounds,
            shared: &shared,
            work,
            list,
            place,
        };
        let clustered = strips.cluster(block);
        // (Read again, and not kept in a register.)
        let share = Share(block.load(tables.shares, i));
        totals::put(block, &shared, share, &clustered, list.n_strips);
        // The clusters of all warps are counted.
        block.sync_threads();
        totals::write(
            block,
            &shared,
            tables,
            work,
            event,
            &clustered,
            (share, list.n_strips, place),
        );
    }
}

/// Number of the thread in the block. (A remainder, so that the compiler knows that it is below
/// [`THREADS`].)
#[inline(always)]
fn thread<B: Block>(block: &B) -> u32 {
    block.thread_idx_x() % THREADS
}

/// Number of the warp in the block.
#[inline(always)]
fn warp<B: Block>(block: &B) -> u32 {
    thread(block) / simt::WARP_SIZE
}

/// Returns the views, if the batch has bytes and the tables fit.
#[inline(always)]
fn views<'a>(input: &RankedInput<'a>, tables: &RankedTables<'a>) -> Option<Views<'a>> {
    let raw = input.batch.raw.as_words()?.non_empty()?;
    let bounds = tables.bounds.non_empty()?;
    (tables.fits != 0).then_some(Views { raw, bounds })
}

#[inline(always)]
fn is_selected<B: Block>(block: &B, selected: Global<'_, u32>, event: u32) -> bool {
    let word = event / 32;
    selected.is_empty()
        || word < selected.len() && block.load(selected, word) >> (event % 32) & 1 != 0
}

/// Clears shared memory. All threads of the block call.
#[inline(always)]
fn clear<B: Block>(block: &B, shared: &ClusterShared) {
    let i = thread(block);
    let mut first = 0;
    while first < shared.lanes.len() {
        block.shared_store(shared.lanes, first + i, Entry::default());
        first += THREADS;
    }
    block.shared_store(shared.begins, i, 0);
    if i < MAX_GROUPS {
        block.shared_store(shared.lowest_high, i, 0);
        block.shared_store(shared.highest_low, i, 0);
    }
    if i < PARTS {
        block.shared_store(shared.begins, THREADS + i, 0);
        block.shared_store(shared.boards_seen, i, 0);
        block.shared_store(shared.before, 1 + i, 0);
    }
    if i == 0 {
        block.shared_store(shared.before, 0, 0);
        block.shared_store(shared.n_strips, 0, 0);
        block.shared_store(shared.unusual_strip, 0, 0);
    }
}

/// Takes places of the pool for a warp's strips. Without, and for more strips than a list can have,
/// the list becomes empty. All threads of the warp call.
#[inline(always)]
fn take<B: Block>(block: &B, shared: &ClusterShared, work: &Work<'_>, list: List) -> (List, u32) {
    let mut place = u32::MAX;
    if block.lane_id() == 0 && list.n_strips > 0 {
        if list.n_strips <= lane::MAX_STRIPS {
            place = work.take(block, list.n_strips + 1).unwrap_or(u32::MAX);
        } else {
            block.shared_atomic_or(shared.unusual_strip, 0, 1);
        }
    }
    let place = block.shuffle_idx_sync(FULL_MASK, place, 0);
    let n_strips = if place == u32::MAX { 0 } else { list.n_strips };
    (List { n_strips, ..list }, place)
}
