//! Second kernel, for events that need every rule of the policy. It writes the same records as
//! `cluster`.
//!
//! ```text
//! for each deferred event, a block:
//!     1 look           every bank against the policy: the hits of each lane                   bank/headers.rs
//!     2 list           the lanes with hits, large ones first                                  lanes.rs
//!     3 count          warps fetch 32 lanes whenever they are done; the clusters of each rank
//!     4 place          a prefix sum over the ranks: first hit of each group, parts, places in the pool
//!     5 scatter        cluster again, each cluster to its place
//! ```
//!
//! Few events come here, so decoding one is simple rather than fast. One path takes unsorted lanes,
//! repeated boards and equal keys: all groups are flagged, and the sort decides. A part goes to the
//! places that `cluster` took for it, where it has no more clusters than these: so an event does
//! not take twice what the bytes of the batch make likely.
//!
//! Launch: any number of blocks, which share the list; [`cluster_unusual_shared_bytes`] of shared
//! memory.

mod lanes;
mod shared;

pub use shared::cluster_unusual_shared_bytes;

use lanes::{Found, Lanes, Sink};
use shared::UnusualShared;

use super::tables::RankedTables;
use super::{HEAD_BEFORE, HEAD_REPORT, HEAD_WORDS, PARTS, RankedOptions, Record, UNUSUAL, Work};
use crate::allen::count_hits::copy_out;
use crate::bank::headers::{Headers, clear};
use crate::bank::layout::{Batch, FoundEvent};
use crate::ranked::lane_tables::LaneTables;
use crate::switches::Switches;
use simt::primitives::block_scan::block_exclusive;
use simt::{Block, GlobalMut, Kernel, Shared};

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

struct Scatter<'a> {
    places: Shared<u32>,
    records: GlobalMut<'a, Record>,
}

impl<B: Block> Sink<B> for Scatter<'_> {
    const REPORTS: bool = false;

    /// Takes the rank's next place: forwards, or backwards from its end if x falls with the strip
    /// number.
    #[inline(always)]
    fn take(&self, block: &B, found: Option<Found>) {
        if let Some(found) = found {
            let rank = found.rank();
            let place = if found.is_reversed() {
                block.shared_atomic_add(self.places, rank, u32::MAX) - 1
            } else {
                block.shared_atomic_add(self.places, rank, 1)
            };
            let record = if found.weight == 0 {
                Record::of_v4(found.position, rank)
            } else {
                Record::of_v5(found.position, found.weight, rank)
            };
            block.store(self.records, place, record);
        }
    }
}

/// The kernel.
#[derive(Clone, Copy, Debug)]
pub struct ClusterUnusual {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for ClusterUnusual {
    const NAME: &'static str = "cluster_unusual";
    type Arguments<'a> = (
        RankedOptions,
        Batch<'a>,
        RankedTables<'a>,
        LaneTables<'a>,
        Work<'a>,
    );

    #[inline(always)]
    fn run<B: Block>(self, block: &B, (options, batch, tables, lanes, work): &Self::Arguments<'_>) {
        let Self { switches } = self;
        let shared = UnusualShared::of(switches.version, lanes);
        let n_events = block
            .load_mut(work.counters, UNUSUAL)
            .min(work.unusual.len());
        let unusual = Unusual {
            switches,
            options,
            batch,
            tables,
            lanes,
            work,
            shared,
        };
        let mut i = block.block_idx_x();
        // Uniform in the block.
        while i < n_events {
            let event = block.load_mut(work.unusual, i);
            if block.thread() == 0 {
                FoundEvent::find(block, batch, switches.layout, event, shared.found);
                block.shared_store(shared.is_exhausted, 0, 0);
            }
            shared.counters.clear(block);
            clear(block, shared.places, 0);
            block.sync_threads();
            unusual.decode(block, event);
            // All threads are done with the arrays that the next event clears.
            block.sync_threads();
            i += block.grid_dim_x();
        }
    }
}

struct Unusual<'a> {
    switches: Switches,
    options: &'a RankedOptions,
    batch: &'a Batch<'a>,
    tables: &'a RankedTables<'a>,
    lanes: &'a LaneTables<'a>,
    work: &'a Work<'a>,
    shared: UnusualShared,
}

impl Unusual<'_> {
    /// Decodes one event. All threads of the block call, after a barrier since it was found and the
    /// counters were cleared.
    #[inline(always)]
    fn decode<B: Block>(&self, block: &B, event: u32) {
        let Self {
            switches,
            options,
            batch,
            lanes: tables,
            work,
            shared,
            ..
        } = self;
        let headers = Headers {
            switches: *switches,
            batch,
            strips_per_hybrid: tables.strips_per_hybrid,
            counters: shared.counters,
            banks: shared.banks,
        };
        let n_banks = headers.classify(
            block,
            FoundEvent::told(block, switches.layout, shared.found),
        );
        // (The list's first barrier comes before any thread reads another's banks.)
        let lanes = Lanes {
            switches: *switches,
            raw: batch.raw,
            tables,
            shared: *shared,
            n_banks,
        };
        let n_listed = lanes.list(block);
        lanes.cluster(
            block,
            options.cluster,
            n_listed,
            &Count {
                places: shared.places,
            },
        );
        // All clusters are counted, and the report is complete.
        block.sync_threads();
        copy_out(
            block,
            shared.counters.report,
            work.heads,
            event * HEAD_WORDS + HEAD_REPORT,
        );
        let n_hits = self.number_clusters(block);
        if block.thread() == 0 {
            block.store(work.n_hits, event, n_hits);
            block.store(work.heads, event * HEAD_WORDS + HEAD_BEFORE + PARTS, n_hits);
        }
        self.place_parts(block, event);
        // The parts are placed.
        block.sync_threads();
        self.place_groups(block, event);
        // Uniform in the block.
        if block.shared_load(shared.is_exhausted, 0) != 0 {
            return;
        }
        self.place_ranks(block);
        // (The clustering's first barrier comes before a place is taken.)
        lanes.cluster(
            block,
            options.cluster,
            n_listed,
            &Scatter {
                places: shared.places,
                records: work.records,
            },
        );
    }

    /// Turns the clusters of each rank into the number of its first; returns their sum. All threads
    /// call; ends with a barrier.
    #[inline(always)]
    fn number_clusters<B: Block>(&self, block: &B) -> u32 {
        let (places, n_ranks) = (self.shared.places, self.lanes.n_ranks());
        let run = n_ranks.div_ceil(block.threads());
        let first = (block.thread() * run).min(n_ranks);
        let end = (first + run).min(n_ranks);
        let mut sum = 0u32;
        let mut rank = first;
        while rank < end {
            sum += block.shared_load(places, rank);
            rank += 1;
        }
        let (mut number, n_hits) = block_exclusive(block, self.shared.counters.warp_totals, sum);
        let mut rank = first;
        while rank < end {
            let n = block.shared_load(places, rank);
            block.shared_store(places, rank, number);
            number += n;
            rank += 1;
        }
        if block.thread() == 0 {
            block.shared_store(places, n_ranks, n_hits);
        }
        // All clusters are numbered before any thread looks one up.
        block.sync_threads();
        n_hits
    }

    /// Finds a place for each part, a thread per part, and writes it to the event's head. Without
    /// parts in the tables, the first has all.
    #[inline(always)]
    fn place_parts<B: Block>(&self, block: &B, event: u32) {
        let Self {
            tables,
            lanes,
            work,
            shared,
            ..
        } = self;
        let part = block.thread();
        if part >= PARTS {
            return;
        }
        let n_ranks = lanes.n_ranks();
        let end_of = |parts: u32| {
            if parts < tables.ranges.len() {
                block.load(tables.ranges, parts)
            } else if parts == 0 {
                0
            } else {
                n_ranks
            }
        };
        let (begin, end) = (end_of(part), end_of(part + 1));
        let first = block.shared_load(shared.places, begin);
        let n = block.shared_load(shared.places, end) - first;
        let head = event * HEAD_WORDS + part;
        let mut place = block.load_mut(work.heads, head);
        if n > block.load_mut(work.heads, head + HEAD_BEFORE) {
            match work.take(block, n) {
                Some(taken) => place = taken,
                None => {
                    block.shared_atomic_or(shared.is_exhausted, 0, 1);
                }
            }
        }
        block.store(work.heads, head, place);
        block.store(work.heads, head + HEAD_BEFORE, first);
        block.shared_store(shared.part_ends, part, end);
        block.shared_store(shared.shifts, part, place.wrapping_sub(first));
    }

    /// Distance of the numbers of a rank's clusters in the event and in the pool.
    #[inline(always)]
    fn shift<B: Block>(&self, block: &B, rank: u32) -> u32 {
        let mut part = 0;
        while part + 1 < PARTS && rank >= block.shared_load(self.shared.part_ends, part) {
            part += 1;
        }
        block.shared_load(self.shared.shifts, part)
    }

    /// Writes the first hit of each group, and lists the groups for sorting. All threads call,
    /// after a barrier.
    #[inline(always)]
    fn place_groups<B: Block>(&self, block: &B, event: u32) {
        let Self {
            lanes,
            work,
            shared,
            ..
        } = self;
        let n_groups = lanes.n_groups();
        let is_exhausted = block.shared_load(shared.is_exhausted, 0) != 0;
        let mut group = block.thread();
        while group < n_groups {
            let rank = block.load(lanes.first_ranks, group);
            let first = block.shared_load(shared.places, rank);
            let n =
                block.shared_load(shared.places, block.load(lanes.first_ranks, group + 1)) - first;
            block.store(work.starts, event * n_groups + group, first);
            if n > 1 && !is_exhausted {
                work.flag(block, first.wrapping_add(self.shift(block, rank)), n);
            }
            group += block.threads();
        }
    }

    /// Turns the numbers of each rank's clusters into its next place: the first, or the end if it
    /// is reversed. All threads call.
    #[inline(always)]
    fn place_ranks<B: Block>(&self, block: &B) {
        let (places, n_ranks) = (self.shared.places, self.lanes.n_ranks());
        let mut chunk = 0;
        while chunk < n_ranks {
            let rank = chunk + block.thread();
            let mut place = 0;
            if rank < n_ranks {
                let from = rank + u32::from(self.lanes.is_reversed(block, rank));
                place = block
                    .shared_load(places, from)
                    .wrapping_add(self.shift(block, rank));
            }
            // The numbers are read before they are overwritten.
            block.sync_threads();
            if rank < n_ranks {
                block.shared_store(places, rank, place);
            }
            // (The next chunk reads none of these: no barrier.)
            chunk += block.threads();
        }
    }
}
