//! Segmented sort: a warp sorts one segment of 64-bit keys, short or long.
//!
//! A segment up to a given length is sorted by counting: a key's place is the number of keys before it. That is
//! quadratic, but needs no collective, and the whole warp reads the same key at a time, which is one access: for short
//! segments (up to about 80 keys) nothing is faster or simpler. In longer segments, runs of 32 are sorted by counting
//! and then merged, twice as long with each pass: an element's place in the merged run is its place in its own plus the
//! number of elements of the other before it, found by bisection. So n keys cost about n·log²n reads, whatever they
//! are. Indices of keys move, not keys. Equal keys are ordered by a tie-break, computed only for them, and then by
//! index: the sort is stable.
//!
//! ```text
//! keys          50  20  90  20        tie-break of the two 20s: 7 (index 1), 3 (index 3)
//! result         3   1   0   2
//! ```
//!
//! Cost of a segment sorted by counting: n reads of a key for each 32 keys, n writes, one warp barrier. Each pass of a
//! longer one: for each key its index and log₂ of the run's length times an index and a key, one write; one barrier.

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

/// Sorts a segment, by counting if it is not longer than `run`, with elements `start .. start + len` of `a` and `b` as
/// scratch; returns the one that holds the sorted indices (0 … `len` − 1). The whole warp calls, with equal arguments.
#[inline(always)]
pub fn warp_sort<'a, B: Block>(
    block: &B,
    segment: &Segment<'_>,
    run: u32,
    a: GlobalMut<'a, u32>,
    b: GlobalMut<'a, u32>,
    tie_break: impl Fn(u32) -> u32,
) -> GlobalMut<'a, u32> {
    let run = if segment.len <= run { segment.len.max(1) } else { WARP_SIZE };
    let key = |i: u32| block.load(segment.keys, segment.start + i);
    // True if element (x_key, x) comes before (y_key, y).
    let before = |x_key: u64, x: u32, y_key: u64, y: u32| {
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
            place += u32::from(before(key(other), other, own, i));
            other += 1;
        }
        block.store(a, segment.start + place, i);
        i += WARP_SIZE;
    }
    // The runs are visible to all lanes.
    block.sync_warp(FULL_MASK);

    let (mut from, mut to) = (a, b);
    let mut width = run;
    while width < segment.len {
        let mut place = block.lane_id();
        while place < segment.len {
            let index = block.load_mut(from, segment.start + place);
            let own = key(index);
            let first = place - place % width;
            // Even runs merge with the next run, odd ones with the previous.
            let is_left = (place / width).is_multiple_of(2);
            let (other, merged) =
                if is_left { (first.saturating_add(width), first) } else { (first - width, first - width) };
            let mut low = other.min(segment.len);
            let mut high = low.saturating_add(width).min(segment.len);
            let other = low;
            while low < high {
                let middle = low + (high - low) / 2;
                let candidate = block.load_mut(from, segment.start + middle);
                if before(key(candidate), candidate, own, index) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            block.store(to, segment.start + merged + (place - first) + (low - other), index);
            place += WARP_SIZE;
        }
        // The merged runs are visible to all lanes, and no lane reads `from` any more.
        block.sync_warp(FULL_MASK);
        (from, to) = (to, from);
        // (Never 0; this spares the device a trap.)
        width = width.saturating_mul(2).max(1);
    }
    from
}
