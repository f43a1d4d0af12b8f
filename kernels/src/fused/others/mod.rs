//! Second kernel, for groups of hits in which x does not rise, and for events that need every rule of the policy.
//!
//! ```text
//! for some groups of the list, a warp:
//!     0 repair         their hits to their places                                              repair.rs
//!
//! for each event of the list, a block:
//!     1 look           every bank against the policy: the hits of each lane                   bank/headers.rs
//!     2 list           the lanes with hits, large ones first                                  lanes.rs
//!     3 count          warps fetch 32 lanes whenever they are done; the clusters of each rank
//!     4 place          a prefix sum over the ranks: where each rank's hits begin, and each group's
//!     5 scatter        cluster again, each cluster to its place in the output; groups whose
//!                      keys do not rise are sorted there, then the hits worked out            scattered.rs
//! ```
//!
//! Few events come here, so decoding one is simple rather than fast: it needs no memory but the lists and the event's
//! own places in the output; and one path takes unsorted lanes, repeated boards and equal keys, because the keys
//! decide.
//!
//! Launch: any number of blocks, which share the lists; [`others_shared_bytes`] of shared memory.

mod lanes;
mod repair;
mod scattered;
mod shared;
mod sort;

pub use shared::others_shared_bytes;

use lanes::{Found, Lanes, Sink};
use repair::{PACK, Repair};
use scattered::ScatteredHits;
use shared::{MAX_WARPS, OthersShared};

use super::look_back::{LIMIT, LookBack};
use super::{FusedOptions, Written};
use crate::allen::count_hits::copy_out;
use crate::bank::headers::Headers;
use crate::bank::layout::{Batch, FoundEvent};
use crate::ranked::lane_tables::LaneTables;
use crate::report::{Count as Report, N_COUNTS};
use crate::status::{HITS_OVERFLOW, WRONG_VERSION};
use crate::switches::Switches;
use simt::primitives::block_scan::block_exclusive;
use simt::{Block, Global, Kernel, Shared};

/// Groups and events that the first kernel left.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// Events, in any order.
    pub others: Global<'a, u32>,
    /// Groups to repair, in any order, numbered among the groups of all events.
    pub groups: Global<'a, u32>,
    /// See [`FusedOutput::look_back`](super::FusedOutput::look_back).
    pub look_back: Global<'a, u32>,
    /// Events of the batch.
    pub n_events: u32,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for Left<'_> {}

struct Count {
    places: Shared<u32>,
}

impl<B: Block> Sink<B> for Count {
    const REPORTS: bool = true;

    #[inline(always)]
    fn take(&self, block: &B, found: Option<Found>) {
        if let Some(found) = found {
            block.shared_atomic_add(self.places, found.rank(), 1);
        }
    }
}

/// The kernel. The hits of each event begin where `to.offsets` has its first group.
#[derive(Clone, Copy, Debug)]
pub struct FusedOthers {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for FusedOthers {
    const NAME: &'static str = "fused_others";
    type Arguments<'a> = (FusedOptions, Batch<'a>, LaneTables<'a>, Left<'a>, Written<'a>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, (options, batch, tables, left, to): &Self::Arguments<'_>) {
        let Self { switches } = self;
        let shared = OthersShared::of(switches.version, tables);
        repair_groups(block, tables, &shared, left, to);
        let n_others = LookBack::others(block, left.look_back).min(left.n_events);
        let mut i = block.block_idx_x();
        // Uniform in the block.
        while i < n_others {
            let event = block.load(left.others, i);
            if block.thread() == 0 {
                FoundEvent::find(block, batch, switches.layout, event, shared.found);
            }
            shared.counters.clear(block);
            crate::bank::headers::clear(block, shared.places, 0);
            block.sync_threads();
            decode_event(block, switches, options, batch, tables, &shared, to, (event, left.n_events));
            // (All threads have passed barriers since the arrays that the next event clears were last read.)
            i += block.grid_dim_x();
        }
    }
}

/// Sorts the groups of the list, [`PACK`] a warp at a time. All warps call.
#[inline(always)]
fn repair_groups<B: Block>(
    block: &B,
    tables: &LaneTables<'_>,
    shared: &OthersShared,
    left: &Left<'_>,
    to: &Written<'_>,
) {
    let Some(hits) = to.hits.of_one_length() else { return };
    let n_groups = LookBack::groups(block, left.look_back).min(left.groups.len());
    let warps = block.warps().min(MAX_WARPS);
    let repair = Repair { block, tables, shared: *shared, hits };
    let mut first = (block.block_idx_x() * warps + block.warp_id()) * PACK;
    // Uniform in the warp.
    while block.warp_id() < warps && first < n_groups {
        let i = first + block.lane_id();
        let (mut start, mut n) = (0, 0);
        if block.lane_id() < PACK && i < n_groups {
            let group = block.load(left.groups, i);
            start = block.load_mut(to.offsets, group);
            n = block.load_mut(to.offsets, group + 1) - start;
        }
        repair.sort(start, n);
        first += block.grid_dim_x() * warps * PACK;
    }
}

/// Decodes one event. All threads of the block call, after a barrier since it was found and the counters were cleared.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "what the kernel takes, and the event")]
fn decode_event<B: Block>(
    block: &B,
    switches: Switches,
    options: &FusedOptions,
    batch: &Batch<'_>,
    tables: &LaneTables<'_>,
    shared: &OthersShared,
    to: &Written<'_>,
    (event, n_events): (u32, u32),
) {
    let headers = Headers {
        switches,
        batch,
        strips_per_hybrid: tables.strips_per_hybrid,
        counters: shared.counters,
        banks: shared.banks,
    };
    let n_banks = headers.classify(block, FoundEvent::told(block, switches.layout, shared.found));
    // (The list's first barrier comes before any thread reads another's banks.)
    let lanes = Lanes { switches, raw: batch.raw, tables, shared: *shared, n_banks };
    let n_listed = lanes.list(block);
    lanes.cluster(block, options.cluster, n_listed, &Count { places: shared.places });
    // All clusters are counted, and the report is complete.
    block.sync_threads();
    copy_out(block, shared.counters.report, to.report, event * N_COUNTS as u32);
    if block.thread() == 0 && block.shared_load(shared.counters.report, Report::WrongVersion as u32) > 0 {
        block.atomic_or(to.status, 0, WRONG_VERSION);
    }
    let n_hits = place_ranks(block, shared, tables);

    let n_groups = tables.n_groups();
    let base = block.load_mut(to.offsets, event * n_groups);
    let mut group = block.thread();
    while group < shared.group_starts.len() {
        let first_rank = block.load(tables.first_ranks, group);
        block.shared_store(shared.group_starts, group, block.shared_load(shared.places, first_rank));
        group += block.threads();
    }
    // Every thread has read the event's first hit, and the places, before they are overwritten.
    block.sync_threads();
    let is_last = event + 1 == n_events;
    // (The first group's offset is there; other blocks may read it.)
    let mut group = block.thread() + 1;
    // The first group of the next event, or the end of the last event, closes the last group.
    while group < n_groups + u32::from(is_last) {
        let start = base.saturating_add(block.shared_load(shared.group_starts, group));
        block.store(to.offsets, event * n_groups + group, start);
        group += block.threads();
    }
    let end = base.saturating_add(n_hits);
    // Uniform in the block.
    if end >= LIMIT || end > to.hits.id.len() {
        if block.thread() == 0 {
            block.atomic_or(to.status, 0, HITS_OVERFLOW);
        }
        return;
    }
    scattered::begin(block, shared.places, tables);
    // (The clustering's first barrier comes before a place is taken.)
    let (version, flip_origin) = (switches.version, options.flip_origin);
    let scattered = ScatteredHits { version, tables, flip_origin, shared: *shared, hits: &to.hits, base };
    lanes.cluster(block, options.cluster, n_listed, &scattered);
    block.sync_threads();
    scattered.write(block);
}

/// Turns the clusters of each rank into its first place; returns their sum. All threads call; ends with a barrier.
#[inline(always)]
fn place_ranks<B: Block>(block: &B, shared: &OthersShared, tables: &LaneTables<'_>) -> u32 {
    let (places, n_ranks) = (shared.places, tables.n_ranks());
    let run = n_ranks.div_ceil(block.threads());
    let first = (block.thread() * run).min(n_ranks);
    let end = (first + run).min(n_ranks);
    let mut sum = 0u32;
    let mut rank = first;
    while rank < end {
        sum += block.shared_load(places, rank);
        rank += 1;
    }
    let (mut place, n_hits) = block_exclusive(block, shared.counters.warp_totals, sum);
    let mut rank = first;
    while rank < end {
        let n = block.shared_load(places, rank);
        block.shared_store(places, rank, place);
        place += n;
        rank += 1;
    }
    if block.thread() == 0 {
        block.shared_store(places, n_ranks, n_hits);
    }
    // All ranks are placed before any thread looks one up.
    block.sync_threads();
    n_hits
}
