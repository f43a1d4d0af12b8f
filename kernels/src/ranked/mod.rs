//! From raw banks to sorted hits in five kernels, none of whose blocks waits for another.
//!
//! ```text
//! once, from the tables:
//!     rank the lanes by (sector group, x); note for each whether x falls with the strip number, and from which strips
//!     on it may overlap with its neighbours; share the ranks out among the warps of a block, whole groups to each
//!
//! cluster            a block per event: descriptors of the lanes with hits, a thread per strip, and one record of
//!                    eight bytes per cluster, in the order of the ranks                          cluster/
//! cluster_unusual    the events that need every rule of the policy: the same records, slowly     unusual/
//! scan               an exclusive sum over the events: their first hits, and the total           scan.rs
//!                    (a sequence allocates the hits here)
//! sort_groups        the groups in which lanes overlap                                           sort_groups.rs
//! make_hits          a thread per record: constants of its rank, one division, seven stores      make_hits.rs
//! ```
//!
//! **No sort.** The sector that a lane reads, and so the range of x of its hits, is known before
//! the first event. Clusters that are written lane by lane in the order of (group, x), inside a
//! lane in the direction in which x rises, are sorted as far as these ranges do not overlap: in
//! y-rows all but a few groups, in unique-x hardly any.
//!
//! **Why records.** A hit has 28 bytes, and its place depends on all events before. A record has
//! eight and may lie anywhere: so no block waits for the sum over the others, and nothing is read
//! twice, although the total is known before the first hit is stored. Records stay in the L2 cache
//! for batches of some hundred events.
//!
//! **Unusual events.** Anything extraordinary (a bank with trouble or of another type, a board that
//! is named twice, an unsorted lane, a strip without charge, a cluster above the maximum size, an
//! address that is not aligned, tables that do not fit) defers the whole event to
//! `cluster_unusual`, which knows every rule.

pub mod cluster;
pub mod gather;
pub mod lane_tables;
pub mod make_hits;
pub mod pipeline;
pub mod scan;
pub mod select;
pub mod sort_groups;
pub mod tables;
pub mod unusual;

use crate::bank::layout::Batch;
use crate::clustering::ClusterOptions;
use crate::report::N_COUNTS;
use simt::{Block, Global, GlobalMut, Plain};

/// Warps of a block of `cluster`, and parts of an event's records: each warp writes one, and one of
/// `make_hits` reads it.
pub const PARTS: u32 = 8;

/// Threads of a block of `cluster`.
pub const THREADS: u32 = PARTS * simt::WARP_SIZE;

/// Threads of a block of `make_hits`: each warp makes two parts, since the instructions before its
/// first hit cost as much as two turns of its loop.
pub const HITS_THREADS: u32 = THREADS / 2;

/// Cluster between the kernels, eight bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct Record {
    /// Strip of the lane, from bit 2 on; v4: below it the fraction. Rank from bit 20 on.
    place: u32,
    /// v5: W, 13 bits, and the distance of Σpos from W times the strip, in the direction in which x
    /// rises, 19 bits. The strip is turned. v4: 0.
    sums: u32,
}

// SAFETY: `repr(C)`, two u32, size and alignment 8: no padding; integers only, so every bit pattern
// is a value.
unsafe impl Plain for Record {}

impl Record {
    /// Position of the rank in [`place`](Self::place).
    const RANK: u32 = 20;

    /// Bit of [`place`](Self::place): the lane of a v5 cluster is reversed, and its strip turned.
    const REVERSED: u32 = 1 << 11;

    /// Unit of the strip in [`place`](Self::place).
    const STRIP: u32 = 1 << 2;

    /// Bits of W in [`sums`](Self::sums).
    const WEIGHT: u32 = 13;

    /// Packs the record of a v4 cluster on `strip` of the lane, in quarters.
    #[inline(always)]
    const fn of_v4(quarter_strip: u32, rank: u32) -> Self {
        Self {
            place: quarter_strip | rank << Self::RANK,
            sums: 0,
        }
    }

    /// Packs the record of a v5 cluster with this Σpos, below 2²², and W, 1…7874.
    #[inline(always)]
    const fn of_v5(position: u32, weight: u32, rank: u32) -> Self {
        // (Not turned, so that the kernels need not know the direction.)
        let strip = position / if weight == 0 { 1 } else { weight };
        let sums = weight | (position - strip * weight) << Self::WEIGHT;
        Self {
            place: strip << 2 | rank << Self::RANK,
            sums,
        }
    }

    #[inline(always)]
    const fn rank(self) -> u32 {
        self.place >> Self::RANK
    }

    /// v4: strip of the lane in quarters.
    #[inline(always)]
    const fn quarter_strip(self) -> u32 {
        self.place & ((1 << Self::RANK) - 1)
    }

    /// v5: Σpos and W.
    #[inline(always)]
    const fn position_and_weight(self) -> (u32, u32) {
        let weight = self.sums & ((1 << Self::WEIGHT) - 1);
        let position = weight * (self.place >> 2 & 0x1FF) + (self.sums >> Self::WEIGHT);
        (
            if self.place & Self::REVERSED == 0 {
                position
            } else {
                (511 * weight).wrapping_sub(position)
            },
            weight,
        )
    }
}

/// Group that is to be sorted.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct FlaggedGroup {
    /// First record.
    pub first: u32,
    /// Number of records, at least 2.
    pub len: u32,
}

// SAFETY: `repr(C)`, two u32, size and alignment 8: no padding; integers only, so every bit pattern
// is a value.
unsafe impl Plain for FlaggedGroup {}

/// Options of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RankedOptions {
    /// Clustering.
    pub cluster: ClusterOptions,
    /// Number from which the mean strip of a flipped sector is subtracted.
    pub flip_origin: f32,
    /// For `cluster`, worked out once so that it takes no registers.
    ordinary: Ordinary,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for RankedOptions {}

/// Options as `cluster` takes them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Ordinary {
    /// Step of the key that continues a cluster.
    step: u32,
    /// Not 0: the weight is the number of strips, and not their charge.
    is_plain: u32,
    /// 0 if a cluster without charge is unusual.
    least_charge: u32,
    /// Strips of the smallest cluster that is unusual.
    too_many: u32,
}

impl RankedOptions {
    /// Prepares options for the kernels.
    pub const fn new(cluster: ClusterOptions, flip_origin: f32) -> Self {
        let clusters = cluster.flags & ClusterOptions::CLUSTERING != 0;
        let is_limited = clusters && cluster.max_size < cluster::MAX_SIZE;
        let ordinary = Ordinary {
            // (Keys are multiples of `STEP`: no step is 1, also not in an unsorted lane.)
            step: if clusters { cluster::STEP } else { 1 },
            is_plain: (!clusters || cluster.flags & ClusterOptions::GEOMETRIC != 0) as u32,
            least_charge: !clusters as u32,
            too_many: if is_limited {
                cluster.max_size + 1
            } else {
                cluster::MAX_SIZE + 1
            },
        };
        Self {
            cluster,
            flip_origin,
            ordinary,
        }
    }
}

/// Arrays of a batch that the kernels read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RankedInput<'a> {
    /// The batch.
    pub batch: Batch<'a>,
    /// MEP layout: the words of [`gather`]. Allen layout: empty.
    pub bank_words: Global<'a, u32>,
    /// Events to decode, a bit each from the lowest of the first word on; empty: all. Other events
    /// get no hits and an empty report.
    pub selected: Global<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for RankedInput<'_> {}

/// Memory between the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// Pool of records, from which each warp takes as many as it has strips.
    pub records: GlobalMut<'a, Record>,
    /// [`COUNTERS`] words, zero before the first launch.
    pub counters: GlobalMut<'a, u32>,
    /// [`HEAD_WORDS`] words per event.
    pub heads: GlobalMut<'a, u32>,
    /// First hit of each group, counted from the event's first: `n_groups` words per event.
    pub starts: GlobalMut<'a, u32>,
    /// Number of hits of each event.
    pub n_hits: GlobalMut<'a, u32>,
    /// Deferred events, in any order: room for all.
    pub unusual: GlobalMut<'a, u32>,
    /// Groups to be sorted, small ones from the beginning, large ones from the end, in any order:
    /// room for all.
    pub flagged: GlobalMut<'a, FlaggedGroup>,
    /// One word, see [`status`](crate::status).
    pub status: GlobalMut<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for Work<'_> {}

/// Number of words in [`Work::counters`].
pub const COUNTERS: usize = 5;

/// Counter of the records that were taken from the pool. (It cannot wrap unnoticed: an event takes
/// fewer than 2²⁰, so that some event finds the pool exhausted before.)
pub const TAKEN: u32 = 0;

/// Counter of the deferred events.
const UNUSUAL: u32 = 1;

/// Counter of the groups that are to be sorted by a warp, which lie at the beginning of
/// [`Work::flagged`].
const FLAGGED: u32 = 2;

/// Counter of the groups that are to be sorted by a block, which lie at the end, backwards.
const FLAGGED_LARGE: u32 = 4;

/// Not 0: the pool is exhausted, so that some events have no records.
const EXHAUSTED: u32 = 3;

/// Number of words in an event's head, a line of 128 bytes: for each part the place of its first
/// record in the pool; for each part the number of hits of the event before it, and once more for
/// all parts; the report.
pub const HEAD_WORDS: u32 = 32;

/// First word with a number of hits before a part. In the head of a deferred event, until
/// `cluster_unusual` writes it, the words have the number of places that the part has in the pool.
const HEAD_BEFORE: u32 = PARTS;

/// First word of the report.
const HEAD_REPORT: u32 = HEAD_BEFORE + PARTS + 1;

const _: () = assert!(HEAD_REPORT as usize + N_COUNTS <= HEAD_WORDS as usize);

impl Work<'_> {
    /// Takes `n` places of the pool; `None` if it is exhausted, which the status then says. One
    /// thread calls.
    #[inline(always)]
    fn take<B: Block>(&self, block: &B, n: u32) -> Option<u32> {
        let first = block.atomic_add(self.counters, TAKEN, n);
        let is_there = first <= self.records.len() && n <= self.records.len() - first;
        if !is_there {
            block.atomic_or(self.counters, EXHAUSTED, 1);
            block.atomic_or(self.status, 0, crate::status::STRIPS_OVERFLOW);
        }
        is_there.then_some(first)
    }

    /// Appends a group to those that are to be sorted. One thread calls.
    #[inline(always)]
    fn flag<B: Block>(&self, block: &B, first: u32, len: u32) {
        let is_large = len > sort_groups::ROOM;
        let i = block.atomic_add(
            self.counters,
            if is_large { FLAGGED_LARGE } else { FLAGGED },
            1,
        );
        let place = if is_large {
            self.flagged.len() - 1 - i
        } else {
            i
        };
        block.store(self.flagged, place, FlaggedGroup { first, len });
    }
}

#[cfg(test)]
mod tests {
    use super::Record;

    #[test]
    fn records_keep_rank_position_and_weight() {
        for (position, weight) in [
            (0, 1),
            (511, 1),
            (31 * 511, 31),
            (7874 * 300 + 5, 7874),
            (7873, 7874),
        ] {
            let record = Record::of_v5(position, weight, 1439);
            assert_eq!(
                (record.rank(), record.position_and_weight()),
                (1439, (position, weight))
            );
        }
        let record = Record::of_v4(4 * 4095 + 3, 1439);
        assert_eq!(
            (record.rank(), record.quarter_strip()),
            (1439, 4 * 4095 + 3)
        );
    }
}
