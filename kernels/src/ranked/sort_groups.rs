//! Sorts the groups in which lanes may overlap, as records and in place, by x, then `LHCbID`, then strip.
//!
//! ```text
//! warp lane   0  1  2  3  4  5        whole groups, as many as fit in a warp
//! group       A  A  A  A  B  B
//! x           5  1  8  3  2  1
//! place       2  0  3  1  1  0        hits of the group that come before
//! ```
//!
//! Groups have some 16 hits, so a warp takes several at a time: each lane counts the hits of its group that come before its
//! own, by x alone; only where two have the same x are `LHCbID` and strip compared. A warp has shared memory for a group of
//! `ROOM` hits, counted in the same way; larger groups are sorted in place, by bitonic merges.
//!
//! Launch: any number of blocks of up to [`MAX_WARPS`] warps, which share the list; [`sort_groups_shared_bytes`] of shared
//! memory.

use super::tables::{Formulas, RankedTables};
use super::{EXHAUSTED, FLAGGED, FlaggedGroup, Record, Work};
use crate::hit::ordered;
use crate::switches::Switches;
use simt::{Block, FULL_MASK, GlobalMut, Kernel, Shared, SharedLayout, WARP_SIZE};

/// Groups that a warp takes at a time: in both groupings in use, two or three small ones fit in 32 lanes.
const PACK: u32 = 4;

/// Most hits of a group that a warp sorts in shared memory.
const ROOM: u32 = 256;

/// Most warps of a block.
pub const MAX_WARPS: u32 = 8;

/// For each warp, x of the hits of a group, and the sorted records.
#[derive(Clone, Copy)]
struct SortShared {
    x: Shared<u32>,
    places: Shared<u32>,
    sums: Shared<u32>,
}

impl SortShared {
    #[inline(always)]
    const fn layout() -> (Self, u32) {
        let mut layout = SharedLayout::new();
        let shared = Self {
            x: layout.array(MAX_WARPS * ROOM),
            places: layout.array(MAX_WARPS * ROOM),
            sums: layout.array(MAX_WARPS * ROOM),
        };
        (shared, layout.bytes())
    }
}

/// Bytes of shared memory a block needs.
pub const fn sort_groups_shared_bytes() -> u32 {
    SortShared::layout().1
}

/// The kernel.
#[derive(Clone, Copy, Debug)]
pub struct SortGroups {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for SortGroups {
    const NAME: &'static str = "sort_groups";
    type Arguments<'a> = (f32, RankedTables<'a>, Work<'a>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, &(flip_origin, ref tables, ref work): &Self::Arguments<'_>) {
        let Some(formulas) = tables.formulas(self.switches.version, flip_origin) else { return };
        let n_groups = block.load_mut(work.counters, FLAGGED).min(work.flagged.len());
        let n_groups = if block.load_mut(work.counters, EXHAUSTED) == 0 { n_groups } else { 0 };
        let shared = SortShared::layout().0;
        let sorter = Sorter { block, formulas: &formulas, records: work.records, shared };
        let mut first = (block.block_idx_x() * block.warps() + block.warp_id()) * PACK;
        // Uniform in the warp.
        while first < n_groups {
            let i = first + block.lane_id();
            let is_there = block.lane_id() < PACK && i < n_groups;
            sorter.sort(if is_there { block.load_mut(work.flagged, i) } else { FlaggedGroup::default() });
            first += block.grid_dim_x() * block.warps() * PACK;
        }
    }
}

struct Sorter<'a, B> {
    block: &'a B,
    formulas: &'a Formulas<'a>,
    records: GlobalMut<'a, Record>,
    shared: SortShared,
}

/// Key of a hit, by which the hits of a group are ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SortKey {
    x: u32,
    id: u32,
    strip: u32,
}

impl<B: Block> Sorter<'_, B> {
    /// Sorts the groups of the first [`PACK`] lanes. All threads of the warp call.
    #[inline(always)]
    fn sort(&self, of_lane: FlaggedGroup) {
        let (block, lane) = (self.block, self.block.lane_id());
        let group_of = |lane: u32| FlaggedGroup {
            first: block.shuffle_idx_sync(FULL_MASK, of_lane.first, lane),
            len: block.shuffle_idx_sync(FULL_MASK, of_lane.len, lane),
        };
        let mut i = 0;
        // Uniform in the warp.
        while i < PACK {
            let mut group = group_of(i);
            if group.len > WARP_SIZE {
                if group.len <= ROOM {
                    self.in_shared_memory(group);
                } else {
                    self.in_place(group);
                }
                i += 1;
                continue;
            }
            // The next groups, as far as they fit; the lane's own, and the lane of its first hit.
            let (mut own, mut first) = (FlaggedGroup::default(), 0);
            let (mut n, mut most) = (0, 0);
            while i < PACK && n + group.len <= WARP_SIZE {
                if lane >= n {
                    (own, first) = (group, n);
                }
                n += group.len;
                most = most.max(group.len);
                i += 1;
                group = group_of(i);
            }
            self.in_lanes(own, first, most);
        }
    }

    /// Sorts groups of up to `most` hits, of which the caller's begins in lane `first`. All threads of the warp call.
    #[inline(always)]
    fn in_lanes(&self, group: FlaggedGroup, first: u32, most: u32) {
        let (block, lane) = (self.block, self.block.lane_id());
        let is_there = lane - first < group.len;
        let record =
            if is_there { block.load_mut(self.records, group.first + lane - first) } else { Record::default() };
        let key = self.key(record);
        let mut place = 0;
        let mut is_tied = false;
        let mut i = 0;
        // Uniform in the warp.
        while i < most {
            let other = (first + i) % WARP_SIZE;
            let x = block.shuffle_idx_sync(FULL_MASK, key.x, other);
            let is_other = i < group.len && other != lane;
            place += u32::from(is_other && x < key.x);
            is_tied |= is_other && x == key.x;
            i += 1;
        }
        if block.ballot_sync(FULL_MASK, is_there && is_tied) != 0 {
            place = self.place_of_tied(group, first, most, key);
        }
        // All records are read before any is overwritten.
        block.sync_warp(FULL_MASK);
        if is_there {
            block.store(self.records, group.first + place, record);
        }
    }

    /// Number of hits of the group that come before the caller's; of equal ones, those of lower lanes.
    #[inline(always)]
    fn place_of_tied(&self, group: FlaggedGroup, first: u32, most: u32, key: SortKey) -> u32 {
        let (block, lane) = (self.block, self.block.lane_id());
        let mut place = 0;
        let mut i = 0;
        // Uniform in the warp.
        while i < most {
            let other = (first + i) % WARP_SIZE;
            let of_other = SortKey {
                x: block.shuffle_idx_sync(FULL_MASK, key.x, other),
                id: block.shuffle_idx_sync(FULL_MASK, key.id, other),
                strip: block.shuffle_idx_sync(FULL_MASK, key.strip, other),
            };
            place += u32::from(i < group.len && (of_other, other) < (key, lane));
            i += 1;
        }
        place
    }

    /// Sorts a group of up to [`ROOM`] hits. All threads of the warp call.
    #[inline(always)]
    fn in_shared_memory(&self, FlaggedGroup { first, len }: FlaggedGroup) {
        let Self { block, records, shared, .. } = self;
        let mine = block.warp_id() % MAX_WARPS * ROOM;
        let mut i = block.lane_id();
        while i < len {
            block.shared_store(shared.x, mine + i, self.key(block.load_mut(*records, first + i)).x);
            i += WARP_SIZE;
        }
        // All x are there.
        block.sync_warp(FULL_MASK);
        let mut i = block.lane_id();
        while i < len {
            let record = block.load_mut(*records, first + i);
            let x = block.shared_load(shared.x, mine + i);
            let mut place = 0;
            let mut other = 0;
            while other < len {
                let x_of_other = block.shared_load(shared.x, mine + other);
                place += u32::from(x_of_other < x);
                if x_of_other == x && other != i {
                    let of_other = self.key(block.load_mut(*records, first + other));
                    place += u32::from((of_other, other) < (self.key(record), i));
                }
                other += 1;
            }
            block.shared_store(shared.places, mine + place, record.place);
            block.shared_store(shared.sums, mine + place, record.sums);
            i += WARP_SIZE;
        }
        // All records are read before any is overwritten, and are in order.
        block.sync_warp(FULL_MASK);
        let mut i = block.lane_id();
        while i < len {
            let (place, sums) = (block.shared_load(shared.places, mine + i), block.shared_load(shared.sums, mine + i));
            block.store(*records, first + i, Record { place, sums });
            i += WARP_SIZE;
        }
        // The sorted records are read before the next group's are stored.
        block.sync_warp(FULL_MASK);
    }

    #[inline(always)]
    fn key(&self, record: Record) -> SortKey {
        let place = self.formulas.place(self.block, record);
        SortKey { x: ordered(place.x()), id: place.id, strip: ordered(place.n) }
    }

    /// Sorts a group by bitonic merges that all point upwards, so that any number works. All threads of the warp call.
    #[inline(always)]
    fn in_place(&self, FlaggedGroup { first, len }: FlaggedGroup) {
        let Self { block, records, .. } = self;
        // Pairs of a pass: half of the next power of two. Places beyond the end count as larger than everything.
        let pairs = if len < 2 { 0 } else { 1 << (len - 1).ilog2() };
        let mut half = 1;
        while half <= pairs {
            // First mirrored in the middle of each run, then at falling distances.
            let mut distance = half;
            while distance > 0 {
                let mut pair = block.lane_id();
                while pair < pairs {
                    let (run, place) = (pair / distance * (2 * distance), pair % distance);
                    let i = run + place;
                    let j = if distance == half { run + 2 * distance - 1 - place } else { i + distance };
                    if j < len {
                        let (a, b) = (block.load_mut(*records, first + i), block.load_mut(*records, first + j));
                        if self.key(a) > self.key(b) {
                            block.store(*records, first + i, b);
                            block.store(*records, first + j, a);
                        }
                    }
                    pair += WARP_SIZE;
                }
                // Every pair is in order before the next are looked at.
                block.sync_warp(FULL_MASK);
                distance /= 2;
            }
            half *= 2;
        }
    }
}
