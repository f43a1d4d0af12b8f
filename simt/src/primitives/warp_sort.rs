//! Sorts of a warp, by keys of 64 bits: small groups in registers, several at a time, and longer
//! ones by merging, in any memory. All are stable.
//!
//! | | sorts | needs |
//! |---|---|---|
//! | [`warp_places`] | groups that fit in 32 lanes together, a key a lane | registers |
//! | [`warp_merge_sort`] | one sequence of any length | two arrays of indices, shared or global |
//! | [`block_merge_sort`](super::block_merge_sort) | one sequence, by all threads of a block | the same |
//! | [`warp_sort`] | one sequence, whose equal keys have a tie-break | two arrays of indices in global memory |
//!
//! Indices move, not keys. A sequence is sorted in runs, which are then merged, twice as long with
//! each pass: an element's place in the merged run is its place in its own plus the number of
//! elements of the other before it, found by bisection. So n keys cost about n·log²n reads,
//! whatever they are.
//!
//! ```text
//! keys       50 20 90 20 │ 60 10 70 30        runs of four: indices 1 3 0 2 │ 5 7 4 6
//! 20 at index 3: place 1 in its own run, one of the other run (10) before it: place 2 of the merged one
//! merged     10 20 20 30 50 60 70 90          indices 5 1 3 7 0 4 6 2
//! ```
//!
//! ```
//! use simt::primitives::warp_sort::{warp_merge_sort, warp_places};
//! use simt::{Block, FULL_MASK, GlobalMut, SharedLayout, WARP_SIZE};
//!
//! /// Sorts the first `n` records in place by their low 32 bits, with one warp. `n` is at most 512.
//! fn sort<B: Block>(block: &B, records: GlobalMut<'_, u64>, n: u32) {
//!     let lane = block.lane_id();
//!     if n <= WARP_SIZE {
//!         let record = if lane < n { block.load_mut(records, lane) } else { 0 };
//!         let place = warp_places(block, record << 32, 0, n, n);
//!         // All records are read before any is overwritten.
//!         block.sync_warp(FULL_MASK);
//!         if lane < n {
//!             block.store(records, place, record);
//!         }
//!         return;
//!     }
//!     let mut layout = SharedLayout::new();
//!     let (sorted, a, b) = (layout.array::<u64>(512), layout.array::<u16>(512), layout.array::<u16>(512));
//!     let order = warp_merge_sort(block, n, |i| block.load_mut(records, i) << 32, 0, a, b);
//!     let mut i = lane;
//!     while i < n {
//!         let from = u32::from(block.shared_load(order, i));
//!         block.shared_store(sorted, i, block.load_mut(records, from));
//!         i += WARP_SIZE;
//!     }
//!     // All records are read before any is overwritten.
//!     block.sync_warp(FULL_MASK);
//!     let mut i = lane;
//!     while i < n {
//!         block.store(records, i, block.shared_load(sorted, i));
//!         i += WARP_SIZE;
//!     }
//! }
//! ```

use crate::{Block, FULL_MASK, Global, GlobalMut, Scalar, Shared, WARP_SIZE};

/// Array of indices in shared or global memory. Its integers hold every index of the sequence that
/// is sorted.
pub trait Indices<B: Block>: Copy {
    /// Returns element `i`.
    fn get(self, block: &B, i: u32) -> u32;
    /// Writes element `i`.
    fn set(self, block: &B, i: u32, index: u32);
}

impl<B: Block, T: Scalar> Indices<B> for Shared<T> {
    #[inline(always)]
    #[track_caller]
    fn get(self, block: &B, i: u32) -> u32 {
        block.shared_load(self, i).to_word()
    }
    #[inline(always)]
    #[track_caller]
    fn set(self, block: &B, i: u32, index: u32) {
        block.shared_store(self, i, T::from_bits(u64::from(index)));
    }
}

impl<B: Block, T: Scalar> Indices<B> for GlobalMut<'_, T> {
    #[inline(always)]
    #[track_caller]
    fn get(self, block: &B, i: u32) -> u32 {
        block.load_mut(self, i).to_word()
    }
    #[inline(always)]
    #[track_caller]
    fn set(self, block: &B, i: u32, index: u32) {
        block.store(self, i, T::from_bits(u64::from(index)));
    }
}

/// Returns the lane's place in its group, 0 … `n` − 1, in the order of (key, lane). The group is
/// the `n` lanes from lane `first` on, `most` the largest `n` of the warp or a larger number; a
/// lane of no group has an `n` of 0 and gets any place. The whole warp calls.
///
/// The high words of the keys are compared first, each with all of its group, then the low words of
/// those that are equal. Cost: a shuffle and about six instructions for each of the `most` lanes
/// (three, where `first` and `n` are the constants 0 and 32), a match; a ballot and a shuffle for
/// each further key with the same high word.
#[inline(always)]
pub fn warp_places<B: Block>(block: &B, key: u64, first: u32, n: u32, most: u32) -> u32 {
    let is_there = block.lane_id().wrapping_sub(first) < n;
    places(block, key, first, n, most, is_there)
}

/// Of lanes that are not there, only the high word counts.
#[inline(always)]
fn places<B: Block>(block: &B, key: u64, first: u32, n: u32, most: u32, is_there: bool) -> u32 {
    let lane = block.lane_id();
    // (Of 31 bits: the sign of a difference says which is smaller.)
    let own = (key >> 33) as u32;
    let mut other = first;
    // A bit for each lane from the group's first on, which lies highest: its key is smaller.
    let mut smaller = 0;
    let (mut i, most) = (0, most.min(WARP_SIZE));
    while i < most {
        let mut step = || {
            let key = block.shuffle_idx_sync(FULL_MASK, own, other);
            // (A shift of two words, and so one instruction.)
            smaller = smaller << 1 | key.wrapping_sub(own) >> 31;
            other += 1;
        };
        // (A loop costs as much as a step.)
        step();
        step();
        step();
        step();
        i += 4;
    }
    // Without the lanes behind the group.
    let mut place = (smaller >> (i.saturating_sub(n) % WARP_SIZE)).count_ones();
    place = if n == 0 { 0 } else { place };
    // Lanes with the same place have the same high word.
    let same = block.match_any_sync(
        FULL_MASK,
        if is_there {
            first + place
        } else {
            WARP_SIZE + lane
        },
    );
    let mut ties = same & !(1 << lane);
    while block.ballot_sync(FULL_MASK, ties != 0) != 0 {
        let peer = if ties == 0 {
            lane
        } else {
            ties.trailing_zeros()
        };
        let other = block.shuffle_idx_sync(FULL_MASK, key, peer);
        place += u32::from((other, peer) < (key, lane));
        ties &= ties.wrapping_sub(1);
    }
    place
}

/// Sorts the indices 0 … `len` − 1 by (`key`(index), index), with elements `start .. start + len`
/// of `a` and `b` as scratch; returns the one in which they then are, from `start` on. The whole
/// warp calls, with equal arguments, and may read the result at once.
///
/// Cost for each 32 keys: [`warp_places`] unless they are in order; then for each doubling of the
/// run's length its logarithm times an index and a key (once, where its halves are in order), a
/// write and a warp barrier.
#[inline(always)]
pub fn warp_merge_sort<B: Block, A: Indices<B>>(
    block: &B,
    len: u32,
    key: impl Fn(u32) -> u64,
    start: u32,
    a: A,
    b: A,
) -> A {
    merge_sort::<false, B, A>(block, len, key, start, a, b)
}

/// Sorts by a warp as [`warp_merge_sort`] does, or with `BLOCK` by all threads of the block.
#[inline(always)]
pub(super) fn merge_sort<const BLOCK: bool, B: Block, A: Indices<B>>(
    block: &B,
    len: u32,
    key: impl Fn(u32) -> u64,
    start: u32,
    a: A,
    b: A,
) -> A {
    let threads = Threads::<BLOCK>::of(block);
    // (Uniform in each warp.)
    let mut first = threads.first - block.lane_id();
    while first < len {
        let i = first + block.lane_id();
        // (The last run's missing keys are larger than all others, and behind them.)
        let own = if i < len { key(i) } else { u64::MAX };
        let below = block.shuffle_up_sync(FULL_MASK, own, 1);
        let mut place = block.lane_id();
        // (Often the keys are in order already.)
        if block.ballot_sync(FULL_MASK, own < below) != 0 {
            place = places(block, own, 0, WARP_SIZE, WARP_SIZE, i < len);
        }
        if i < len {
            a.set(block, start + first + place, i);
        }
        first = first.saturating_add(threads.all);
    }
    // The runs are there.
    threads.sync(block);
    merge_runs(
        block,
        &threads,
        len,
        WARP_SIZE,
        start,
        a,
        b,
        |x_key, x, y_key, y| (x_key, x) < (y_key, y),
        key,
    )
}

/// Threads that sort together.
struct Threads<const BLOCK: bool> {
    first: u32,
    all: u32,
}

impl<const BLOCK: bool> Threads<BLOCK> {
    #[inline(always)]
    fn of<B: Block>(block: &B) -> Self {
        if BLOCK {
            Self {
                first: block.thread(),
                all: block.threads(),
            }
        } else {
            Self {
                first: block.lane_id(),
                all: WARP_SIZE,
            }
        }
    }

    #[expect(clippy::unused_self, reason = "these threads wait for each other")]
    #[inline(always)]
    #[track_caller]
    fn sync<B: Block>(&self, block: &B) {
        if BLOCK {
            block.sync_threads();
        } else {
            block.sync_warp(FULL_MASK);
        }
    }
}

/// Merges runs of `run` indices each, a power of two unless there is only one, which are sorted in
/// `from`; returns the array with the result. `is_before(x_key, x, y_key, y)` compares two elements
/// by key and index.
#[expect(
    clippy::too_many_arguments,
    reason = "two sequences, their order and the threads"
)]
#[inline(always)]
fn merge_runs<const BLOCK: bool, B: Block, A: Indices<B>>(
    block: &B,
    threads: &Threads<BLOCK>,
    len: u32,
    run: u32,
    start: u32,
    mut from: A,
    mut to: A,
    is_before: impl Fn(u64, u32, u64, u32) -> bool,
    key: impl Fn(u32) -> u64,
) -> A {
    let mut width = run;
    while width < len {
        let mut place = threads.first;
        while place < len {
            let index = from.get(block, start + place);
            let own = key(index);
            let first = place & !(width - 1);
            // Even runs merge with the next run, odd ones with the previous.
            let is_left = place & width == 0;
            let (other, merged) = if is_left {
                (first.saturating_add(width), first)
            } else {
                (first - width, first - width)
            };
            let mut low = other.min(len);
            let mut high = low.saturating_add(width).min(len);
            let other = low;
            // (The runs are often in order already: the first step compares with the end that is
            // nearer.)
            let mut middle = if is_left { low } else { high.wrapping_sub(1) };
            while low < high {
                let candidate = from.get(block, start + middle);
                if is_before(key(candidate), candidate, own, index) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
                middle = low + (high - low) / 2;
            }
            to.set(
                block,
                start + merged + (place - first) + (low - other),
                index,
            );
            place = place.saturating_add(threads.all);
        }
        // The merged runs are there, and no thread reads `from` any more.
        threads.sync(block);
        (from, to) = (to, from);
        width = width.saturating_mul(2);
    }
    from
}

/// Keys to sort.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Keys of all segments.
    pub keys: Global<'a, u64>,
    /// First key of this segment.
    pub start: u32,
    /// Number of keys of this segment.
    pub len: u32,
}

/// Sorts a segment, by counting if it is not longer than `run`, with elements
/// `start .. start + len` of `a` and `b` as scratch; returns the one that holds the sorted indices
/// (0 … `len` − 1). Equal keys are ordered by `tie_break`, which is computed only for them, and
/// then by index. The whole warp calls, with equal arguments.
///
/// By counting, a key's place is the number of keys before it. That is quadratic, but needs no
/// collective, and the whole warp reads the same key at a time, which is one access. In longer
/// segments, runs of 32 are sorted by counting.
///
/// Cost of a segment sorted by counting: n reads of a key for each 32 keys, n writes, one warp
/// barrier.
#[inline(always)]
pub fn warp_sort<'a, B: Block>(
    block: &B,
    segment: &Segment<'_>,
    run: u32,
    a: GlobalMut<'a, u32>,
    b: GlobalMut<'a, u32>,
    tie_break: impl Fn(u32) -> u32,
) -> GlobalMut<'a, u32> {
    let run = if segment.len <= run {
        segment.len.max(1)
    } else {
        WARP_SIZE
    };
    let key = |i: u32| block.load(segment.keys, segment.start + i);
    // True if element (x_key, x) comes before (y_key, y).
    let is_before = |x_key: u64, x: u32, y_key: u64, y: u32| {
        if x_key != y_key {
            return x_key < y_key;
        }
        if x == y {
            return false;
        }
        let (x_tie, y_tie) = (tie_break(x), tie_break(y));
        if x_tie == y_tie { x < y } else { x_tie < y_tie }
    };

    let mut i = block.lane_id();
    while i < segment.len {
        let own = key(i);
        let first = i - i % run;
        let end = first.saturating_add(run).min(segment.len);
        let mut place = first;
        let mut other = first;
        while other < end {
            place += u32::from(is_before(key(other), other, own, i));
            other += 1;
        }
        block.store(a, segment.start + place, i);
        i += WARP_SIZE;
    }
    let warp = Threads::<false>::of(block);
    // The runs are visible to all lanes.
    warp.sync(block);
    merge_runs(
        block,
        &warp,
        segment.len,
        run,
        segment.start,
        a,
        b,
        is_before,
        key,
    )
}
