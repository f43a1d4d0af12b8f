//! Sorts a sequence of any length in global memory with one warp, by 64-bit keys and a tie-break.
//! The sort is stable.
//!
//! Indices move, not keys. Short sequences are sorted by counting. Longer ones are sorted in runs,
//! which are then merged, twice as long with each pass: an element's place in the merged run is its
//! place in its own plus the number of elements of the other before it, found by bisection. So n
//! keys cost about n·log²n reads, whatever they are.
//!
//! ```text
//! keys       50 20 90 20 │ 60 10 70 30        runs of four: indices 1 3 0 2 │ 5 7 4 6
//! 20 at index 3: place 1 in its own run, one of the other run (10) before it: place 2 of the merged one
//! merged     10 20 20 30 50 60 70 90          indices 5 1 3 7 0 4 6 2
//! ```
//!
//! ```
//! use simt::primitives::warp_sort::{Segment, warp_sort};
//! use simt::{Block, Global, GlobalMut};
//!
//! /// Returns the order of the keys, equal ones by their values, with one warp; `a` and `b` are as
//! /// long as `keys`.
//! fn order<'a, B: Block>(
//!     block: &B,
//!     keys: Global<'_, u64>,
//!     values: Global<'_, u32>,
//!     a: GlobalMut<'a, u32>,
//!     b: GlobalMut<'a, u32>,
//! ) -> GlobalMut<'a, u32> {
//!     let all = Segment { keys, start: 0, len: keys.len() };
//!     warp_sort(block, &all, 64, a, b, |i| block.load(values, i))
//! }
//! ```

use crate::{Block, FULL_MASK, Global, GlobalMut, WARP_SIZE};

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
    // The runs are visible to all lanes.
    block.sync_warp(FULL_MASK);
    merge_runs(block, segment, run, a, b, is_before)
}

/// Merges the segment's runs of `run` indices each, a power of two unless there is only one, which
/// are sorted in `from`; returns the array with the result. `is_before(x_key, x, y_key, y)` compares
/// two elements by key and index.
#[inline(always)]
fn merge_runs<'a, B: Block>(
    block: &B,
    segment: &Segment<'_>,
    run: u32,
    mut from: GlobalMut<'a, u32>,
    mut to: GlobalMut<'a, u32>,
    is_before: impl Fn(u64, u32, u64, u32) -> bool,
) -> GlobalMut<'a, u32> {
    let &Segment { keys, start, len } = segment;
    let key = |i: u32| block.load(keys, start + i);
    let mut width = run;
    while width < len {
        let mut place = block.lane_id();
        while place < len {
            let index = block.load_mut(from, start + place);
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
                let candidate = block.load_mut(from, start + middle);
                if is_before(key(candidate), candidate, own, index) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
                middle = low + (high - low) / 2;
            }
            let merged_place = merged + (place - first) + (low - other);
            block.store(to, start + merged_place, index);
            place = place.saturating_add(WARP_SIZE);
        }
        // The merged runs are there, and no lane reads `from` any more.
        block.sync_warp(FULL_MASK);
        (from, to) = (to, from);
        width = width.saturating_mul(2);
    }
    from
}
