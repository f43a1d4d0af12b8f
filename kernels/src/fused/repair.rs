//! The few groups in which x does not rise: where neighbouring staves overlap.
//!
//! A hit's place is the number of hits before it. Only neighbours in the static order can be in the wrong order, as far as
//! their lanes overlap, so a hit is not compared with the whole group: the smallest and the largest x of each 32 hits say
//! with which others the hits of such a chunk can have changed places.
//!
//! ```text
//! chunk               0     1     2     3
//! x                  1–5   6–9   8–12  13–20        chunk 2: the first with an x of 8 or more is chunk 1, the last with one
//!                                                   of 12 or less itself: compared with these two
//! ```
//!
//! A warp takes a group. One that is too large for a warp's part of shared memory is sorted by the block.

use super::FusedOutput;
use super::look_back::LookBack;
use super::shared::FusedShared;
use crate::hit::ordered;
use simt::{Block, FULL_MASK, GlobalMut, Scalar, WARP_SIZE};

/// The hits of an event that are written.
#[derive(Clone, Copy)]
pub(super) struct Repair<'a> {
    pub shared: FusedShared,
    /// Where the event's hits begin.
    pub base: u32,
    /// Where the event is left that has a group that cannot be sorted.
    pub output: &'a FusedOutput<'a>,
}

impl Repair<'_> {
    /// Sorts the groups that are marked. All threads of the block call, after a barrier since the hits were written. Where
    /// there is one that this cannot sort (equal keys, or too many hits), the event is left for the other kernel.
    #[inline(always)]
    pub fn groups<B: Block>(&self, block: &B) {
        let room = self.shared.strips.len() / block.warps().max(1);
        let mut turn = 0;
        let mut has_large = false;
        self.each(block, |start, n| {
            if words(n) > room {
                has_large = true;
            } else {
                if turn % block.warps().max(1) == block.warp_id() {
                    Sorter::<B, false> { block, repair: *self, first: room * block.warp_id(), start, n }.sort();
                }
                turn += 1;
            }
        });
        // The same for all threads.
        if has_large {
            self.each(block, |start, n| {
                if words(n) > room {
                    // All are done with what the groups before had in shared memory.
                    block.sync_threads();
                    if words(n) <= self.shared.strips.len() {
                        Sorter::<B, true> { block, repair: *self, first: 0, start, n }.sort();
                    } else if block.thread() == 0 {
                        self.fail(block);
                    }
                }
            });
        }
    }

    /// Shows where each of the marked groups begins, and how many hits it has.
    #[inline(always)]
    fn each<B: Block>(&self, block: &B, mut group: impl FnMut(u32, u32)) {
        let Self { shared, base, .. } = self;
        let mut word = 0;
        while word < shared.bad_groups.len() {
            let mut bits = block.shared_load(shared.bad_groups, word);
            while bits != 0 {
                let number = 32 * word + bits.trailing_zeros();
                let start = block.shared_load(shared.group_hits, number);
                group(base + start, block.shared_load(shared.group_hits, number + 1) - start);
                bits &= bits - 1;
            }
            word += 1;
        }
    }

    #[inline(always)]
    fn fail<B: Block>(&self, block: &B) {
        // The first who fails says so.
        if block.shared_atomic_or(self.shared.unusual, 0, 1) == 0 {
            let event = block.shared_load(self.shared.event, 0);
            LookBack(self.output.look_back).leave(block, self.output.others, event);
        }
    }
}

/// Words of shared memory that a group of `n` hits takes: an x each, and two for each chunk.
#[inline(always)]
const fn words(n: u32) -> u32 {
    n + 2 * n.div_ceil(WARP_SIZE)
}

/// A warp, or with `BLOCK` a block, on the group of `n` hits from `start` on.
struct Sorter<'a, B, const BLOCK: bool> {
    block: &'a B,
    repair: Repair<'a>,
    /// Where its part of shared memory begins.
    first: u32,
    start: u32,
    n: u32,
}

impl<B: Block, const BLOCK: bool> Sorter<'_, B, BLOCK> {
    /// The caller's number, and the step to its next hit.
    #[inline(always)]
    fn own(&self) -> (u32, u32) {
        if BLOCK { (self.block.thread(), self.block.threads()) } else { (self.block.lane_id(), WARP_SIZE) }
    }

    #[inline(always)]
    #[track_caller]
    fn sync(&self) {
        if BLOCK {
            self.block.sync_threads();
        } else {
            self.block.sync_warp(FULL_MASK);
        }
    }

    /// Sorts; all warp lanes, or with `BLOCK` all threads, call. Hits with equal keys stay as they are.
    #[inline(always)]
    fn sort(&self) {
        let Self { block, repair: Repair { shared, output, .. }, first, start, n } = self;
        let hits = &output.to.hits;
        let (own, step) = self.own();
        let (strips, chunks) = (shared.strips, n.div_ceil(WARP_SIZE));
        let (up_to, from) = (first + n, first + n + chunks);
        if !BLOCK {
            // All are done with what the warp's groups before had here.
            self.sync();
        }
        let mut i = own;
        while i < *n {
            block.shared_store(strips, first + i, ordered(block.load_mut(hits.x_at_y_eq0, start + i)));
            i += step;
        }
        // All x are there.
        self.sync();
        let mut chunk = own;
        while chunk < chunks {
            let (mut smallest, mut largest) = (u32::MAX, 0);
            let mut i = 0;
            while i < WARP_SIZE {
                // (Each lane begins at another place: they use different banks.)
                let hit = WARP_SIZE * chunk + (i + chunk) % WARP_SIZE;
                if hit < *n {
                    let x = block.shared_load(strips, first + hit);
                    (smallest, largest) = (smallest.min(x), largest.max(x));
                }
                i += 1;
            }
            block.shared_store(strips, up_to + chunk, largest);
            block.shared_store(strips, from + chunk, smallest);
            chunk += step;
        }
        // The range of each chunk is there.
        self.sync();
        let mut equal = false;
        let mut i = own;
        // The same for all lanes of a warp but for their number.
        while i / WARP_SIZE < chunks {
            equal |= self.place(i, chunks);
            i += step;
        }
        if block.ballot_sync(FULL_MASK, equal) != 0 && block.lane_id() == 0 {
            self.repair.fail(*block);
        }
        // All places are there, and x no longer looked at.
        self.sync();
        let failed =
            if BLOCK { block.shared_load(shared.unusual, 0) != 0 } else { block.ballot_sync(FULL_MASK, equal) != 0 };
        if failed {
            return;
        }
        self.column(hits.y_begin);
        // What a column has on its way is written before the next one comes.
        self.sync();
        self.column(hits.y_end);
        self.sync();
        self.column(hits.z_at_y_eq0);
        self.sync();
        self.column(hits.x_at_y_eq0);
        self.sync();
        self.column(hits.dx_dy);
        self.sync();
        self.column(hits.weight);
        self.sync();
        self.column(hits.id);
    }

    /// Notes the place of hit `i`; gives whether another has the same key. The whole warp calls, for the hits of a chunk.
    #[inline(always)]
    fn place(&self, i: u32, chunks: u32) -> bool {
        let Self { block, repair: Repair { shared, output, .. }, first, start, n } = self;
        let hits = &output.to.hits;
        let (strips, chunk) = (shared.strips, i / WARP_SIZE);
        let (up_to, from) = (first + n, first + n + chunks);
        let smallest = block.shared_load(strips, from + chunk);
        let largest = block.shared_load(strips, up_to + chunk);
        // The first chunk that has an x as large as the smallest here, and the one behind the last that has one as small as
        // the largest.
        let mut low = 0;
        while block.shared_load(strips, up_to + low) < smallest {
            low += 1;
        }
        let mut end = chunks;
        while block.shared_load(strips, from + end - 1) > largest {
            end -= 1;
        }
        let (low, end) = (low * WARP_SIZE, (end * WARP_SIZE).min(*n));
        if i >= *n {
            return false;
        }
        let x = block.shared_load(strips, first + i);
        let mut id = 0;
        let mut equal = false;
        let mut place = low;
        let mut other = low;
        while other < end {
            let other_x = block.shared_load(strips, first + other);
            if other_x == x && other != i {
                // (Two equal x are rare.)
                if id == 0 {
                    id = block.load_mut(hits.id, start + i);
                }
                let other_id = block.load_mut(hits.id, start + other);
                equal |= other_id == id;
                place += u32::from(other_id < id);
            } else {
                place += u32::from(other_x < x);
            }
            other += 1;
        }
        block.shared_store(shared.clusters, first + i, place as u16);
        equal
    }

    /// Puts the elements of one of the seven arrays where they belong: in place of the keys, those that move.
    #[inline(always)]
    fn column<T: Scalar>(&self, array: GlobalMut<'_, T>) {
        let Self { block, repair: Repair { shared, .. }, first, start, n } = self;
        let (own, step) = self.own();
        let mut i = own;
        while i < *n {
            let place = u32::from(block.shared_load(shared.clusters, first + i));
            if place != i {
                block.shared_store(shared.strips, first + place, block.load_mut(array, start + i).to_bits() as u32);
            }
            i += step;
        }
        // All are read before any is overwritten.
        self.sync();
        let mut i = own;
        while i < *n {
            // (What moves away makes room for what comes.)
            if u32::from(block.shared_load(shared.clusters, first + i)) != i {
                let bits = block.shared_load(shared.strips, first + i);
                block.store(array, start + i, T::from_bits(u64::from(bits)));
            }
            i += step;
        }
    }
}
