//! Sorts the groups in which lanes may overlap, as records and in place, by x, then `LHCbID`, then
//! strip.
//!
//! ```text
//! group           A  A  A  A  B  B        whole groups, as many as there is room for
//! x               5  1  8  3  2  1
//! bucket          2  0  3  1  5  4        by x: a group of four hits has four buckets
//! begins, ends    2,3 0,1 3,4 1,2 …       of the bucket among the sorted hits: counted, then added up
//! place           2  0  3  1  5  4        where the bucket begins, plus hits of it that come before
//! ```
//!
//! **Buckets.** A hit's bucket rises with x, from the lowest x of its group to the highest
//! ([`Spread`], from the host), and a group has as many buckets as hits: a bucket has one hit in
//! the mean. Counting says where in the sorted order a bucket lies; a hit is compared with the few
//! others of its bucket only. So n hits cost some n steps, whatever their number, where merging
//! costs n·log²n. If hits crowd in few buckets, comparing takes longer, but the order is still
//! right.
//!
//! **Packs.** Groups have some 14 hits. A warp takes several at a time, up to `ROOM` hits, so that
//! its lanes are busy. A larger group is sorted by a block, up to `HELD` hits per thread; for these
//! `Work::flag` has another list. Still larger ones, which hardly occur in the UT, are sorted
//! in place. The same happens where two hits have the same x and `LHCbID`, and differ in strip
//! only.
//!
//! A thread holds its hits in registers from the first step to the last; shared memory has the
//! counts, and the keys by bucket.
//!
//! Launch: any number of blocks of up to [`MAX_WARPS`] warps, which share the lists;
//! [`sort_groups_shared_bytes`] of shared memory.

use super::tables::{Formulas, RankedTables, Spread};
use super::{EXHAUSTED, FLAGGED, FLAGGED_LARGE, FlaggedGroup, Record, Work};
use crate::hit::ordered;
use crate::switches::Switches;
use simt::{Block, FULL_MASK, GlobalMut, Kernel, NonEmpty, Shared, SharedLayout, WARP_SIZE};

/// Groups that a warp takes at a time: in both groupings in use, about as many as it has room for.
const PACK: u32 = 16;

/// Hits that a thread holds.
const HELD: u32 = 4;

/// Maximum number of hits of a pack, and so of a group that a warp sorts.
pub(super) const ROOM: u32 = HELD * WARP_SIZE;

/// Maximum number of warps of a block.
pub const MAX_WARPS: u32 = 8;

/// A warp has `ROOM` places of each array, or the block has all.
#[derive(Clone, Copy)]
struct SortShared {
    /// Hits of each bucket; then its [`Range`].
    buckets: Shared<u32>,
    /// x and `LHCbID`, by bucket.
    keys: Shared<u64>,
    /// A bit for each hit of a pack that is its group's first: `HELD` words per warp.
    begins: Shared<u32>,
    /// Sum over the block.
    sum: Shared<u32>,
}

impl SortShared {
    #[inline(always)]
    const fn layout() -> (Self, u32) {
        let mut layout = SharedLayout::new();
        let shared = Self {
            buckets: layout.array(MAX_WARPS * ROOM),
            keys: layout.array(MAX_WARPS * ROOM),
            begins: layout.array(MAX_WARPS * HELD),
            sum: layout.array(1),
        };
        (shared, layout.bytes())
    }
}

/// Places of a bucket among the sorted hits: the first, and from bit 16 on the one behind the last.
#[derive(Clone, Copy)]
struct Range(u32);

impl Range {
    #[inline(always)]
    const fn new(first: u32, end: u32) -> Self {
        Self(first | end << 16)
    }

    #[inline(always)]
    const fn first(self) -> u32 {
        self.0 & 0xFFFF
    }

    #[inline(always)]
    const fn end(self) -> u32 {
        self.0 >> 16
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
        let (Some(formulas), Some(spreads)) = (
            tables.formulas(self.switches.version, flip_origin),
            tables.spreads.non_empty(),
        ) else {
            return;
        };
        if work.records.is_empty() {
            return;
        }
        let sorter = Sorter {
            block,
            formulas: &formulas,
            spreads,
            records: work.records,
            shared: SortShared::layout().0,
        };
        let mut i = block.block_idx_x();
        // Uniform in the block.
        while i < n_large {
            let group = block.load_mut(work.flagged, work.flagged.len() - 1 - i);
            sorter.sort_large(group);
            i += block.grid_dim_x();
        }
        // Uniform in the warp.
        while first < n_groups {
            let i = first + block.lane_id();
            let is_there = block.lane_id() < PACK && i < n_groups;
            sorter.sort_small(if is_there {
                block.load_mut(work.flagged, i)
            } else {
                FlaggedGroup::default()
            });
            first += block.grid_dim_x() * block.warps() * PACK;
        }
    }
}

/// Repeats a block for `i` of 0 to `HELD` − 1, a constant each time, so that the arrays that it
/// indexes are registers.
macro_rules! unrolled {
    ($i:ident, $body:block) => {
        unrolled!($i, $body, 0 1 2 3);
    };
    ($i:ident, $body:block, $($number:literal)*) => {$({
        let $i: u32 = $number;
        $body
    })*};
}

const _: () = assert!(HELD == 4);

struct Sorter<'a, B> {
    block: &'a B,
    formulas: &'a Formulas<'a>,
    spreads: NonEmpty<'a, Spread>,
    records: GlobalMut<'a, Record>,
    shared: SortShared,
}

/// Group of a hit, in a pack.
#[derive(Clone, Copy)]
struct Packed {
    /// Place of the pack's first hit in the pool, if all of the pack were hits of this group.
    from: u32,
    /// First hit of the group in the pack, and first of its buckets.
    first: u32,
    len: u32,
}

/// Hit of a pack, in the registers of a thread.
#[derive(Clone, Copy, Default)]
struct PackHit {
    record: Record,
    /// x and `LHCbID`.
    key: u64,
    /// [`Packed::from`].
    from: u32,
    bucket: u32,
    /// Number of the hit in its bucket, in any order; then its place in the pack, sorted.
    place: u32,
}

/// Key of a hit, by which the hits of a group are ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SortKey {
    x: u32,
    id: u32,
    strip: u32,
}

impl<B: Block> Sorter<'_, B> {
    /// Sorts groups of up to `ROOM` hits, one of each of the first [`PACK`] lanes. All threads of
    /// the warp call.
    #[inline(always)]
    fn sort_small(&self, of_lane: FlaggedGroup) {
        let (block, lane, begins) = (self.block, self.block.lane_id(), self.shared.begins);
        let mut end = of_lane.len;
        let mut delta = 1;
        while delta < PACK {
            let below = block.shuffle_up_sync(FULL_MASK, end, delta);
            end += if lane >= delta { below } else { 0 };
            delta *= 2;
        }
        // Words of the warp, and hits of the groups before the pack.
        let mine = block.warp_id() % MAX_WARPS * HELD;
        let mut before = 0;
        // Uniform in the warp: each turn takes the next groups for which there is room.
        loop {
            let fits = of_lane.len > 0 && end > before && end - before <= ROOM;
            let pack = block.ballot_sync(FULL_MASK, fits);
            if pack == 0 {
                return;
            }
            if lane < HELD {
                block.shared_store(begins, mine + lane, 0);
            }
            self.clear::<false>(ROOM);
            // Nothing is marked before it is cleared.
            block.sync_warp(FULL_MASK);
            let first = end.wrapping_sub(of_lane.len).wrapping_sub(before);
            if fits {
                block.shared_atomic_or(begins, mine + first / WARP_SIZE, 1 << (first % WARP_SIZE));
            }
            let own = Packed {
                from: of_lane.first.wrapping_sub(first),
                first,
                len: of_lane.len,
            };
            let n = block.shuffle_idx_sync(FULL_MASK, end, pack.ilog2()) - before;
            // All groups are marked.
            block.sync_warp(FULL_MASK);
            // Lane of the group before the next.
            let mut group = pack.trailing_zeros().wrapping_sub(1);
            let up_to_lane = block.lanemask_lt() | 1 << lane;
            let is_sorted = self.sort::<false>(n, |i| {
                let marks = block.shared_load(begins, mine + i);
                let of = group.wrapping_add((marks & up_to_lane).count_ones());
                group = group.wrapping_add(marks.count_ones());
                Packed {
                    from: block.shuffle_idx_sync(FULL_MASK, own.from, of),
                    first: block.shuffle_idx_sync(FULL_MASK, own.first, of),
                    len: block.shuffle_idx_sync(FULL_MASK, own.len, of),
                }
            });
            if !is_sorted {
                core::hint::cold_path();
                let mut left = pack;
                while left != 0 {
                    let of = left.trailing_zeros();
                    self.in_place::<false>(FlaggedGroup {
                        first: block.shuffle_idx_sync(FULL_MASK, of_lane.first, of),
                        len: block.shuffle_idx_sync(FULL_MASK, of_lane.len, of),
                    });
                    left &= left - 1;
                }
            }
            before += n;
        }
    }

    /// Sorts a group of any size. All threads of the block call.
    #[inline(always)]
    fn sort_large(&self, group: FlaggedGroup) {
        let FlaggedGroup { first: from, len } = group;
        let mut is_sorted = false;
        if len <= self.block.threads() * HELD {
            self.clear::<true>(len);
            // Nothing is counted before it is cleared.
            self.block.sync_threads();
            let first = 0;
            is_sorted = self.sort::<true>(len, |_| Packed { from, first, len });
        }
        if !is_sorted {
            core::hint::cold_path();
            self.in_place::<true>(group);
        }
    }

    /// Number of the caller among the threads that sort a pack, and how many they are.
    #[inline(always)]
    fn threads<const BLOCK: bool>(&self) -> (u32, u32) {
        let block = self.block;
        if BLOCK {
            (block.thread(), block.threads())
        } else {
            (block.lane_id(), WARP_SIZE)
        }
    }

    /// First place of the pack's threads in shared memory.
    #[inline(always)]
    fn mine<const BLOCK: bool>(&self) -> u32 {
        if BLOCK {
            0
        } else {
            self.block.warp_id() % MAX_WARPS * ROOM
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

    /// Clears `n` buckets, rounded up to what a warp adds up at a time.
    #[inline(always)]
    fn clear<const BLOCK: bool>(&self, n: u32) {
        let (thread, threads) = self.threads::<BLOCK>();
        let n = n.next_multiple_of(4 * WARP_SIZE);
        let mut first = 0;
        while first < n {
            let place = (self.mine::<BLOCK>() + first + thread) % self.shared.buckets.len();
            self.block.shared_store(self.shared.buckets, place, 0);
            first += threads;
        }
        if BLOCK && thread == 0 {
            self.block.shared_store(self.shared.sum, 0, 0);
        }
    }

    /// Sorts a pack of `n` hits. `packed(i)` returns the group of the thread's hit `i`, in ascending
    /// order; all threads of a warp call it. Returns false, and moves nothing, if hits have the same
    /// x and `LHCbID`. All threads of the warp or block call, after the buckets were cleared, and
    /// may clear them again at once.
    #[inline(always)]
    fn sort<const BLOCK: bool>(&self, n: u32, mut packed: impl FnMut(u32) -> Packed) -> bool {
        let Self { block, shared, .. } = self;
        let (thread, threads) = self.threads::<BLOCK>();
        let mine = self.mine::<BLOCK>();
        let of_warp = thread - block.lane_id();
        let mut hits = [PackHit::default(); HELD as usize];
        unrolled!(i, {
            // Uniform in the warp.
            if i * threads + of_warp < n {
                let packed = packed(i);
                if i * threads + thread < n {
                    let mut hit = self.hit(packed, i * threads + thread);
                    // (A remainder, so that the compiler tests no bucket.)
                    hit.bucket = (mine + hit.bucket) % shared.buckets.len();
                    hit.place = block.shared_atomic_add(shared.buckets, hit.bucket, 1);
                    hits[i as usize] = hit;
                }
            }
        });
        // All hits are counted.
        self.sync::<BLOCK>();
        if !BLOCK || of_warp == 0 {
            self.add_up(mine, if BLOCK { n } else { ROOM });
        }
        // The ranges of the buckets are there.
        self.sync::<BLOCK>();
        unrolled!(i, {
            if i * threads + thread < n {
                let range = Range(block.shared_load(shared.buckets, hits[i as usize].bucket));
                let place = mine + range.first() + hits[i as usize].place;
                let place = place % shared.keys.len();
                block.shared_store(shared.keys, place, hits[i as usize].key);
                hits[i as usize].bucket = range.0;
            }
        });
        // All keys are there.
        self.sync::<BLOCK>();
        let mut sum = 0;
        unrolled!(i, {
            if i * threads + thread < n {
                hits[i as usize].place =
                    self.place(Range(hits[i as usize].bucket), hits[i as usize].key, mine);
                sum += hits[i as usize].place;
            }
        });
        // Of two equal keys none comes before the other, so that the places are fewer.
        let is_sorted = self.sum::<BLOCK>(sum) == n * n.wrapping_sub(1) / 2;
        unrolled!(i, {
            if is_sorted && i * threads + thread < n {
                let PackHit {
                    record,
                    from,
                    place,
                    ..
                } = hits[i as usize];
                let at = from.wrapping_add(place).min(self.records.len() - 1);
                block.store(self.records, at, record);
            }
        });
        is_sorted
    }

    /// Reads hit `i` of a pack.
    #[inline(always)]
    fn hit(&self, Packed { from, first, len }: Packed, i: u32) -> PackHit {
        let block = self.block;
        // (Limited, so that the compiler tests no place.)
        let at = from.wrapping_add(i).min(self.records.len() - 1);
        let record = block.load_mut(self.records, at);
        let place = self.formulas.place(block, record);
        let x = place.x();
        let spread = block.load_within(self.spreads, record.rank());
        PackHit {
            record,
            key: u64::from(ordered(x)) << 32 | u64::from(place.id),
            from,
            bucket: first + spread.bucket(x, len),
            place: 0,
        }
    }

    /// Makes ranges of the counts of `n` buckets. All threads of one warp call.
    #[inline(always)]
    fn add_up(&self, mine: u32, n: u32) {
        let (block, lane, buckets) = (self.block, self.block.lane_id(), self.shared.buckets);
        let mut before = 0;
        let mut first = 0;
        while first < n {
            // (A remainder, so that the compiler tests no place.)
            let place = (mine + first + 4 * lane) % buckets.len();
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| block.shared_load(buckets, place + i));
            let mut up_to = a + b + c + d;
            let mut delta = 1;
            while delta < WARP_SIZE {
                let below = block.shuffle_up_sync(FULL_MASK, up_to, delta);
                up_to += if lane >= delta { below } else { 0 };
                delta *= 2;
            }
            up_to += before;
            before = block.shuffle_idx_sync(FULL_MASK, up_to, WARP_SIZE - 1);
            let (c_end, b_end, a_end) = (up_to - d, up_to - d - c, up_to - d - c - b);
            let put = |i, first, end| {
                block.shared_store(buckets, place + i, Range::new(first, end).0);
            };
            put(0, a_end - a, a_end);
            put(1, a_end, b_end);
            put(2, b_end, c_end);
            put(3, c_end, up_to);
            first += 4 * WARP_SIZE;
        }
    }

    /// Returns the place of a hit of a bucket.
    #[inline(always)]
    fn place(&self, range: Range, key: u64, mine: u32) -> u32 {
        let Self { block, shared, .. } = self;
        let mut place = range.first();
        let mut i = mine + range.first();
        // (Limited once, so that the compiler tests no place.)
        let end = (mine + range.end()).min(shared.keys.len());
        // (A block has one row. The compiler does not know, and so cannot unroll the loop: few buckets
        // have more than two hits.)
        let step = block.block_dim_y();
        while i < end {
            place += u32::from(block.shared_load(shared.keys, i) < key);
            i += step;
        }
        place
    }

    /// Returns the sum over all threads.
    #[inline(always)]
    fn sum<const BLOCK: bool>(&self, own: u32) -> u32 {
        let Self { block, shared, .. } = self;
        let sum = block.redux_add_sync(FULL_MASK, own);
        if !BLOCK {
            return sum;
        }
        if block.lane_id() == 0 {
            block.shared_atomic_add(shared.sum, 0, sum);
        }
        // All warps have added theirs.
        block.sync_threads();
        let sum = block.shared_load(shared.sum, 0);
        // All have read it before it is cleared.
        block.sync_threads();
        sum
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
