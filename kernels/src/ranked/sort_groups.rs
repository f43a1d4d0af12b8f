//! Sorts the groups in which lanes may overlap, as records and in place, by x, then `LHCbID`, then
//! strip.
//!
//! ```text
//! warp lane   0  1  2  3  4  5        whole groups, as many as fit in a warp
//! group       A  A  A  A  B  B
//! x           5  1  8  3  2  1
//! place       2  0  3  1  1  0        hits of the group that come before
//! ```
//!
//! Groups have some 16 hits, so a warp takes several at a time in registers: each lane counts the
//! hits of its group that come before its own, by x alone; only where two have the same x are
//! `LHCbID` and strip compared. A group of up to `ROOM` hits is merged by a warp in shared memory,
//! one of up to [`MAX_WARPS`] times as many by the block; for them `Work::flag` has a list of its
//! own. Still larger ones do not occur in the UT, and are sorted in place.
//!
//! A group that is flagged is often in order all the same, or nearly: every stage looks first, and
//! does nothing then.
//!
//! Launch: any number of blocks of up to [`MAX_WARPS`] warps, which share the lists;
//! [`sort_groups_shared_bytes`] of shared memory.

use super::tables::{Formulas, RankedTables};
use super::{EXHAUSTED, FLAGGED, FLAGGED_LARGE, FlaggedGroup, Record, Work};
use crate::hit::ordered;
use crate::switches::Switches;
use simt::primitives::warp_sort::{merge_sort, warp_places_by};
use simt::{Block, FULL_MASK, GlobalMut, Kernel, Shared, SharedLayout, WARP_SIZE};

/// Groups that a warp takes at a time: in both groupings in use, two or three small ones fit in 32
/// lanes, and with more to choose from, fewer lanes stay empty.
const PACK: u32 = 16;

/// Maximum number of hits of a group that a warp sorts in shared memory.
pub(super) const ROOM: u32 = 256;

/// Maximum number of warps of a block.
pub const MAX_WARPS: u32 = 8;

/// Of [`ROOM`] hits for each warp: x and `LHCbID`, or the sorted records; and two orders of them.
#[derive(Clone, Copy)]
struct SortShared {
    keys: Shared<u64>,
    order: Shared<u16>,
    other_order: Shared<u16>,
    is_any: Shared<u32>,
}

impl SortShared {
    #[inline(always)]
    const fn layout() -> (Self, u32) {
        let mut layout = SharedLayout::new();
        let shared = Self {
            keys: layout.array(MAX_WARPS * ROOM),
            order: layout.array(MAX_WARPS * ROOM),
            other_order: layout.array(MAX_WARPS * ROOM),
            is_any: layout.array(1),
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
        // (The records of an exhausted pool are of no use.)
        let room = if block.load_mut(work.counters, EXHAUSTED) == 0 {
            work.flagged.len()
        } else {
            0
        };
        let n_groups = block.load_mut(work.counters, FLAGGED).min(room);
        let n_large = block.load_mut(work.counters, FLAGGED_LARGE).min(room);
        let warp = block.block_idx_x() * block.warps() + block.warp_id();
        let mut first = warp * PACK;
        // Most warps of most batches have nothing to do. (No warp waits for the others then: the
        // condition on the large groups is uniform in the block.)
        if block.block_idx_x() >= n_large && first >= n_groups {
            return;
        }
        let Some(formulas) = tables.formulas(self.switches.version, flip_origin) else {
            return;
        };
        let sorter = Sorter {
            block,
            formulas: &formulas,
            records: work.records,
            shared: SortShared::layout().0,
        };
        let mut i = block.block_idx_x();
        // Uniform in the block.
        while i < n_large {
            let group = block.load_mut(work.flagged, work.flagged.len() - 1 - i);
            if group.len <= block.warps() * ROOM {
                sorter.in_shared_memory::<true>(group);
            } else {
                sorter.in_place::<true>(group);
            }
            i += block.grid_dim_x();
        }
        // Uniform in the warp.
        while first < n_groups {
            let i = first + block.lane_id();
            let is_there = block.lane_id() < PACK && i < n_groups;
            sorter.sort(if is_there {
                block.load_mut(work.flagged, i)
            } else {
                FlaggedGroup::default()
            });
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

impl SortKey {
    #[inline(always)]
    fn x_and_id(self) -> u64 {
        u64::from(self.x) << 32 | u64::from(self.id)
    }
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
        let mut large = block.ballot_sync(FULL_MASK, of_lane.len > WARP_SIZE);
        // Uniform in the warp.
        while large != 0 {
            self.in_shared_memory::<false>(group_of(large.trailing_zeros()));
            large &= large - 1;
        }
        let mut is_left = of_lane.len > 0 && of_lane.len <= WARP_SIZE;
        let mut n = 0;
        // The lane's own group, and the lane of its first hit.
        let (mut own, mut first) = (FlaggedGroup::default(), 0);
        let mut most = 0;
        // Uniform in the warp: each turn adds a group to the pack, the first that fits, or sorts
        // the pack.
        loop {
            let fits = block.ballot_sync(FULL_MASK, is_left && n + of_lane.len <= WARP_SIZE);
            if fits != 0 {
                let next = fits.trailing_zeros();
                let group = group_of(next);
                if lane >= n {
                    (own, first) = (group, n);
                }
                is_left &= lane != next;
                n += group.len;
                most = most.max(group.len);
            } else if n > 0 {
                self.in_lanes(own, first, most);
                (n, most) = (0, 0);
            } else {
                return;
            }
        }
    }

    /// Sorts groups of up to `most` hits, of which the caller's begins in lane `first`. All threads
    /// of the warp call.
    #[inline(always)]
    fn in_lanes(&self, group: FlaggedGroup, first: u32, most: u32) {
        let (block, lane) = (self.block, self.block.lane_id());
        let is_there = lane - first < group.len;
        let record = if is_there {
            block.load_mut(self.records, group.first + lane - first)
        } else {
            Record::default()
        };
        let key = self.key(record);
        let x_below = block.shuffle_up_sync(FULL_MASK, key.x, 1);
        if block.ballot_sync(FULL_MASK, is_there && lane > first && key.x <= x_below) == 0 {
            return;
        }
        let n = if is_there { group.len } else { 0 };
        let place = warp_places_by(block, key.x, first, n, most, |peer| {
            let x = block.shuffle_idx_sync(FULL_MASK, key.x, peer);
            let id = block.shuffle_idx_sync(FULL_MASK, key.id, peer);
            let strip = block.shuffle_idx_sync(FULL_MASK, key.strip, peer);
            (x, id, strip, peer) < (key.x, key.id, key.strip, lane)
        });
        // All records are read before any is overwritten.
        block.sync_warp(FULL_MASK);
        if is_there {
            block.store(self.records, group.first + place, record);
        }
    }

    /// Sorts a group of up to [`ROOM`] hits with a warp, or with `BLOCK` as many times `ROOM` as
    /// the block has warps. All threads of the warp or block call.
    #[inline(always)]
    fn in_shared_memory<const BLOCK: bool>(&self, group: FlaggedGroup) {
        let Self {
            block,
            records,
            shared:
                SortShared {
                    keys,
                    order,
                    other_order,
                    ..
                },
            ..
        } = *self;
        let FlaggedGroup { first, len } = group;
        let (thread, threads) = self.threads::<BLOCK>();
        let mine = if BLOCK {
            0
        } else {
            block.warp_id() % MAX_WARPS * ROOM
        };
        let mut i = thread;
        while i < len {
            block.shared_store(
                keys,
                mine + i,
                self.key(block.load_mut(records, first + i)).x_and_id(),
            );
            i += threads;
        }
        // All keys are there.
        self.sync::<BLOCK>();
        let mut is_unsorted = false;
        let mut i = thread + 1;
        while i < len {
            is_unsorted |=
                block.shared_load(keys, mine + i - 1) >= block.shared_load(keys, mine + i);
            i += threads;
        }
        if !self.any::<BLOCK>(is_unsorted) {
            return;
        }
        let key = |i| block.shared_load(keys, mine + i);
        let order = merge_sort::<BLOCK, B, _>(block, len, key, mine, order, other_order);
        let from = |i| u32::from(block.shared_load(order, mine + i));
        let mut is_tied = false;
        let mut i = thread + 1;
        while i < len {
            is_tied |= key(from(i - 1)) == key(from(i));
            i += threads;
        }
        // (All threads are done with the keys.)
        let is_tied = self.any::<BLOCK>(is_tied);
        let mut i = thread;
        while i < len {
            block.shared_store(
                keys,
                mine + i,
                block.load_mut(records, first + from(i)).to_bits(),
            );
            i += threads;
        }
        // All records are read before any is overwritten.
        self.sync::<BLOCK>();
        let mut i = thread;
        while i < len {
            block.store(
                records,
                first + i,
                Record::of_bits(block.shared_load(keys, mine + i)),
            );
            i += threads;
        }
        // The sorted records are stored, and read before the next group's keys are.
        self.sync::<BLOCK>();
        // Strips of equal x and `LHCbID`: from lanes that see the same sector.
        if is_tied {
            core::hint::cold_path();
            self.in_place::<BLOCK>(group);
        }
    }

    /// Number of the caller among the threads that sort a group, and how many they are.
    #[inline(always)]
    fn threads<const BLOCK: bool>(&self) -> (u32, u32) {
        let block = self.block;
        if BLOCK {
            (block.thread(), block.threads())
        } else {
            (block.lane_id(), WARP_SIZE)
        }
    }

    #[inline(always)]
    #[track_caller]
    fn sync<const BLOCK: bool>(&self) {
        if BLOCK {
            self.block.sync_threads();
        } else {
            self.block.sync_warp(FULL_MASK);
        }
    }

    /// Returns true for all threads if the argument is for any. All threads wait for each other.
    #[inline(always)]
    fn any<const BLOCK: bool>(&self, is_so: bool) -> bool {
        let Self { block, shared, .. } = self;
        if !BLOCK {
            block.sync_warp(FULL_MASK);
            return block.ballot_sync(FULL_MASK, is_so) != 0;
        }
        if block.thread() == 0 {
            block.shared_store(shared.is_any, 0, 0);
        }
        // No thread sets the word before it is cleared.
        block.sync_threads();
        if is_so {
            block.shared_atomic_or(shared.is_any, 0, 1);
        }
        // All have set it.
        block.sync_threads();
        let is_any = block.shared_load(shared.is_any, 0) != 0;
        // All have read it before it is cleared again.
        block.sync_threads();
        is_any
    }

    #[inline(always)]
    fn key(&self, record: Record) -> SortKey {
        let place = self.formulas.place(self.block, record);
        SortKey {
            x: ordered(place.x()),
            id: place.id,
            strip: ordered(place.n),
        }
    }

    /// Sorts a group of any size by bitonic merges that all point upwards, so that any number
    /// works. All threads of the warp, or with `BLOCK` of the block, call.
    #[inline(always)]
    fn in_place<const BLOCK: bool>(&self, FlaggedGroup { first, len }: FlaggedGroup) {
        let Self { block, records, .. } = self;
        let (thread, threads) = self.threads::<BLOCK>();
        // Pairs of a pass: half of the next power of two. Places beyond the end count as larger
        // than everything.
        let pairs = if len < 2 { 0 } else { 1 << (len - 1).ilog2() };
        let mut half = 1;
        while half <= pairs {
            // First mirrored in the middle of each run, then at falling distances.
            let mut distance = half;
            while distance > 0 {
                let mut pair = thread;
                while pair < pairs {
                    let (run, place) = (pair / distance * (2 * distance), pair % distance);
                    let i = run + place;
                    let j = if distance == half {
                        run + 2 * distance - 1 - place
                    } else {
                        i + distance
                    };
                    if j < len {
                        let (a, b) = (
                            block.load_mut(*records, first + i),
                            block.load_mut(*records, first + j),
                        );
                        if self.key(a) > self.key(b) {
                            block.store(*records, first + i, b);
                            block.store(*records, first + j, a);
                        }
                    }
                    pair += threads;
                }
                // Every pair is in order before the next are looked at.
                self.sync::<BLOCK>();
                distance /= 2;
            }
            half *= 2;
        }
    }
}
