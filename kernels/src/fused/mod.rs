//! From raw banks to sorted hits in one launch, a block an event: what lies between stays in shared memory.
//!
//! # In pseudo-code
//!
//! ```text
//! once, from the tables:
//!     rank the lanes by (sector group, x); note for each whether x falls with the strip number
//!
//! for each event:
//!     1 stage          the event's bytes into shared memory                                   stage.rs
//!     2 look           every bank against the policy: the hits of each lane                   headers.rs
//!     3 list           the lanes with hits, large ones first                                  lanes.rs
//!     4 cluster        warps fetch 32 lanes whenever they are done;
//!                      count each rank's clusters, keep them as they come                     lanes.rs, kept.rs
//!     5 place          prefix sum over the ranks: where each rank's hits begin, and each group's
//!     6 base           the hits of all events before: look-back over the blocks, or known     look_back.rs
//!     7 write          place by place: the hit of the cluster that belongs there              kept.rs
//!     8 repair         groups whose keys do not ascend: sorted, written again
//!
//!     where the clusters are too many to be kept, for each run of groups that fits:
//!                      cluster its lanes again, each cluster to its place; 7 and 8             windows.rs
//!     where a group does not fit alone:
//!                      cluster again, into the output; sort and work out there                scattered.rs
//! ```
//!
//! # Why no sort is left
//!
//! Which sector a lane reads is known long before the first event, and so is the range of x of its hits. If hits are
//! written lane by lane in the order of (group, x), and inside a lane in the direction in which x rises, they come out
//! sorted as far as these ranges do not overlap. Neighbouring staves overlap a little: 3 groups in 72 of an event. The
//! same repair takes everything else in, so that no input needs a path of its own: unsorted lanes, a board that is
//! named twice, equal keys. Whatever order the schedule makes of the clusters of a rank, the keys settle it.
//!
//! # What a block waits for
//!
//! Only for the events before, and only to know where its hits begin: its own number of hits is told as soon as it is
//! known. Blocks take their events by ticket, in the order in which they begin. With [`count_clusters`] launched
//! before, and a prefix sum over its counts, no block waits, and everything is read and clustered twice.
//!
//! Launch: as many blocks as events, `fused.block_x` threads, [`fused_shared_bytes`] of shared memory.

pub mod gather;
mod kept;
mod kept_cluster;
mod lanes;
pub mod look_back;
pub mod pipeline;
mod repair;
mod scattered;
mod shared;
mod stage;
pub mod tables;
mod windows;

pub use shared::{MAX_TILE, Room, fused_shared_bytes};

use kept::{Keep, KeptHits};
use lanes::Lanes;
use look_back::{LIMIT, LookBack};
use scattered::ScatteredHits;
use shared::FusedShared;
use stage::{Staged, StagedBanks};
use tables::LaneTables;
use windows::{Place, Window};

use crate::allen::count_hits::copy_out;
use crate::bank::headers::Headers;
use crate::bank::layout::{Batch, FoundEvent};
use crate::clustering::ClusterOptions;
use crate::hit::HitArrays;
use crate::report::N_COUNTS;
use crate::status::HITS_OVERFLOW;
use crate::switches::{Layout, Switches};
use simt::primitives::block_scan::block_exclusive;
use simt::{Block, Global, GlobalMut, Kernel};

/// Numbers of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FusedOptions {
    /// Clustering.
    pub cluster: ClusterOptions,
    /// What the mean strip of a flipped sector is subtracted from.
    pub flip_origin: f32,
    /// How much is kept in shared memory; [`fused_shared_bytes`] follows from it.
    pub room: Room,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for FusedOptions {}

/// What the kernels read of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FusedInput<'a> {
    /// The batch.
    pub batch: Batch<'a>,
    /// MEP layout: what [`gather`] makes, as long as the batch's `offsets`. Allen layout: empty.
    pub bank_words: Global<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for FusedInput<'_> {}

/// What the kernel writes, and where events begin.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FusedOutput<'a> {
    /// The hits.
    pub hits: HitArrays<'a>,
    /// Where the hits of each group of each event begin, and where the last end: `events * n_groups + 1`.
    pub offsets: GlobalMut<'a, u32>,
    /// `N_COUNTS` counters an event.
    pub report: GlobalMut<'a, u32>,
    /// One word, see [`status`](crate::status).
    pub status: GlobalMut<'a, u32>,
    /// Ticket and states of the look-back, `1 + events` words, zero before the launch; not looked at with `bases`.
    pub look_back: GlobalMut<'a, u32>,
    /// Where the hits of each event begin, if that is known; else empty.
    pub bases: Global<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for FusedOutput<'_> {}

/// An event whose clusters are counted.
struct Counted<'a> {
    lanes: Lanes<'a, Staged<'a>>,
    n_listed: u32,
    n_hits: u32,
}

/// Steps 1 to 4. All threads of the block call, after a barrier since the event was found; ends with a barrier.
#[inline(always)]
fn count<'a, B: Block>(
    block: &B,
    switches: Switches,
    options: &FusedOptions,
    input: &'a FusedInput<'a>,
    tables: &'a LaneTables<'a>,
    shared: FusedShared,
) -> Counted<'a> {
    let batch = &input.batch;
    let found = FoundEvent::told(block, switches.layout, shared.found);
    let raw = match switches.layout {
        Layout::Allen => {
            let extent = found.map_or((0, 0), |found| found.extent);
            Staged::fill(block, batch.raw, shared.stage, extent)
        }
        Layout::Mep => Staged::fragments(batch.raw, shared.stage),
    };
    // The bytes are there for all threads, and so are the counters' starts.
    block.sync_threads();
    let headers = Headers {
        switches,
        batch,
        raw,
        strips_per_hybrid: tables.strips_per_hybrid,
        counters: shared.counters,
        banks: shared.banks,
    };
    let banks = found.map(|found| StagedBanks {
        switches,
        found,
        staged: raw,
        bank_words: input.bank_words,
        taken: shared.staged,
    });
    let n_banks = headers.classify(block, banks);
    // (The list's first barrier is behind this and before any thread reads another's banks.)
    let lanes = Lanes { switches, raw, tables, shared, n_banks };
    let n_listed = lanes.list(block);
    lanes.cluster(block, options.cluster, n_listed, &Keep { shared });
    // All clusters counted.
    block.sync_threads();
    Counted { lanes, n_listed, n_hits: block.shared_load(shared.n_clusters, 0) }
}

/// Sets what is counted to 0. All threads of the block call; a barrier must follow.
#[inline(always)]
fn clear<B: Block>(block: &B, shared: &FusedShared) {
    shared.counters.clear(block);
    crate::bank::headers::clear(block, shared.n_clusters, 0);
    crate::bank::headers::clear(block, shared.staged, 0);
    crate::bank::headers::clear(block, shared.places, 0);
}

/// Before the kernel, where bases are to be known: `counts[event]` = hits of the event.
#[inline(always)]
pub fn count_clusters<B: Block>(
    block: &B,
    switches: Switches,
    options: &FusedOptions,
    input: &FusedInput<'_>,
    tables: &LaneTables<'_>,
    counts: GlobalMut<'_, u32>,
) {
    let shared = FusedShared::of(switches.version, tables, options.room);
    let event = block.block_idx_x();
    if block.thread() == 0 {
        FoundEvent::find(block, &input.batch, switches.layout, event, shared.found);
    }
    clear(block, &shared);
    // The event's banks are known to all threads.
    block.sync_threads();
    let counted = count(block, switches, options, input, tables, shared);
    if block.thread() == 0 {
        block.store(counts, event, counted.n_hits);
    }
}

/// The kernel. Events whose hits do not all fit are not written, and say so in the status.
#[inline(always)]
pub fn fused<B: Block>(
    block: &B,
    switches: Switches,
    options: &FusedOptions,
    input: &FusedInput<'_>,
    tables: &LaneTables<'_>,
    output: &FusedOutput<'_>,
) {
    let shared = FusedShared::of(switches.version, tables, options.room);
    let look_back = LookBack(output.look_back);
    let waits = output.bases.is_empty();
    if block.thread() == 0 {
        let event = if waits { look_back.ticket(block) } else { block.block_idx_x() };
        block.shared_store(shared.event, 0, event);
        FoundEvent::find(block, &input.batch, switches.layout, event, shared.found);
    }
    clear(block, &shared);
    // The event and its banks are known to all threads.
    block.sync_threads();
    let event = block.shared_load(shared.event, 0);
    let Counted { lanes, n_listed, n_hits } = count(block, switches, options, input, tables, shared);
    if waits && block.thread() == 0 {
        look_back.publish_own(block, event, n_hits);
    }
    copy_out(block, shared.counters.report, output.report, event * N_COUNTS as u32);

    place_ranks(block, &shared, tables);
    let mut group = block.thread();
    while group < shared.group_starts.len() {
        let first_rank = block.load(tables.first_ranks, group);
        block.shared_store(shared.group_starts, group, block.shared_load(shared.places, first_rank));
        group += block.threads();
    }
    let flip_origin = options.flip_origin;
    let is_kept = n_hits <= options.room.tile;
    let mut kept = KeptHits {
        version: switches.version,
        tables,
        flip_origin,
        shared,
        hits: &output.hits,
        base: 0,
        window: Window::all(tables, n_hits),
        is_in_order: false,
        keys: shared.keys,
    };
    if is_kept {
        kept.order(block);
    }
    if waits {
        if block.warp_id() == 0 {
            let base = look_back.sum_before(block, event, n_hits);
            if block.lane_id() == 0 {
                block.shared_store(shared.base, 0, base);
            }
        }
    } else if block.thread() == 0 {
        block.shared_store(shared.base, 0, block.load(output.bases, event));
    }
    // Base, group starts and order are there for all threads.
    block.sync_threads();
    let base = block.shared_load(shared.base, 0);
    kept.base = base;

    let n_groups = tables.n_groups();
    let is_last = event + 1 == block.grid_dim_x();
    let mut group = block.thread();
    // The start of the next event closes the last group, or the end of the last event.
    while group < n_groups + u32::from(is_last) {
        let start = base.saturating_add(block.shared_load(shared.group_starts, group));
        block.store(output.offsets, event * n_groups + group, start);
        group += block.threads();
    }
    let end = base.saturating_add(n_hits);
    // The same for all threads of the block.
    if end >= LIMIT || end > output.hits.id.len() {
        if block.thread() == 0 {
            block.atomic_or(output.status, 0, HITS_OVERFLOW);
        }
        return;
    }
    if is_kept {
        kept.write(block);
        // All keys are there before they are compared, and all hits before some are written again.
        block.sync_threads();
        kept.repair(block);
        return;
    }
    let room = shared.window_keys.len();
    // (The first barrier of the clustering is behind this and before a place is taken.)
    windows::begin(block, shared.places, tables);
    if windows::has_larger_group(block, shared.group_starts, room) {
        let scattered =
            ScatteredHits { version: switches.version, tables, flip_origin, shared, hits: &output.hits, base };
        lanes.cluster(block, options.cluster, n_listed, &scattered);
        // All clusters are at their places.
        block.sync_threads();
        scattered.write(block);
        return;
    }
    let mut first_group = 0;
    // The same for all threads of the block.
    while first_group < n_groups {
        let window = Window::from(block, tables, shared.group_starts, first_group, room);
        lanes.cluster(block, options.cluster, n_listed, &Place { shared, window });
        // All clusters are at their places.
        block.sync_threads();
        // (Read again: so the loop needs a register less.)
        let base = block.shared_load(shared.base, 0);
        let in_window = KeptHits { base, window, is_in_order: true, keys: shared.window_keys, ..kept };
        in_window.write(block);
        // As above. (The next window's first barrier is behind this and before its clusters come.)
        block.sync_threads();
        in_window.repair(block);
        first_group = window.end_group;
    }
}

/// Step 5: from the number of clusters of each rank to the place of its first. All threads of the block call; ends with
/// a barrier.
#[inline(always)]
fn place_ranks<B: Block>(block: &B, shared: &FusedShared, tables: &LaneTables<'_>) {
    let (places, n_ranks) = (shared.places, tables.n_ranks());
    // A run of ranks for each thread.
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
}

/// [`count_clusters`] as a type.
#[derive(Clone, Copy, Debug)]
pub struct CountClusters {
    /// What the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for CountClusters {
    const NAME: &'static str = "count_clusters";
    type Arguments<'a> = (FusedOptions, FusedInput<'a>, LaneTables<'a>, GlobalMut<'a, u32>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, (options, input, tables, counts): &Self::Arguments<'_>) {
        count_clusters(block, self.switches, options, input, tables, *counts);
    }
}

/// [`fused`] as a type.
#[derive(Clone, Copy, Debug)]
pub struct Fused {
    /// What the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for Fused {
    const NAME: &'static str = "fused";
    type Arguments<'a> = (FusedOptions, FusedInput<'a>, LaneTables<'a>, FusedOutput<'a>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, (options, input, tables, output): &Self::Arguments<'_>) {
        fused(block, self.switches, options, input, tables, output);
    }
}
