//! Stage 2: lays the strips of an event out in one stream, in the order of the lanes' ranks.

use super::fast::{Fast, Unusual};
use super::scratch::{FRONT, MAX_STRIPS, Scratch};
use super::simd::{HEAD_SHUFFLES, Simd};
use crate::detector::BankVersion;
use crate::input::{BatchView, Layout};

/// Where the banks of the events to come are, to have them in the cache in time. Only hints: nothing is read.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'a> {
    raw: *const u8,
    /// MEP: places of the fragments of the event after the next.
    fragments: &'a [u32],
    /// Allen: where the next event's block goes on.
    next: usize,
}

impl<'a> Ahead<'a> {
    /// What comes after `event`.
    pub fn new(batch: BatchView<'a>, event: usize) -> Self {
        let raw = batch.raw.as_ptr();
        let (fragments, next) = match batch.layout {
            Layout::Allen => (None, batch.offsets.get(event + 1).map_or(0, |&begin| begin as usize)),
            Layout::Mep => {
                let n_banks = batch.offsets.first().map_or(0, |&n_banks| n_banks as usize);
                let row = n_banks.saturating_mul(event.saturating_add(3)).saturating_add(2);
                (batch.offsets.get(row..).map(|rows| &rows[..n_banks.min(rows.len())]), 0)
            }
        };
        Self { raw, fragments: fragments.unwrap_or_default(), next }
    }

    /// The i-th part: a few lines of a fragment, or a line of the block.
    #[inline(always)]
    fn prefetch<S: Simd>(&mut self, i: usize) {
        if let Some(&begin) = self.fragments.get(i) {
            let begin = self.raw.wrapping_add(begin as usize);
            S::prefetch(begin);
            S::prefetch(begin.wrapping_add(64));
        } else {
            S::prefetch(self.raw.wrapping_add(self.next));
            self.next += 64;
        }
    }
}

impl Fast {
    /// Lays the strips of all lanes out in the stream, in the order of the ranks, each lane in the direction in which x
    /// rises.
    ///
    /// # Safety
    /// - stage 1 has filled the scratch, and the batch that its pointers point into is still borrowed;
    /// - `STRIDE` is the distance between pairs of hits in the format: 32 (v5) or 4 (v4);
    /// - CPU as for [`Simd`].
    #[inline(always)]
    pub unsafe fn copy_lanes<S: Simd, const STRIDE: usize>(
        &self,
        scratch: &mut Scratch,
        mut ahead: Ahead<'_>,
    ) -> Result<usize, Unusual> {
        let mask = if self.lanes.version == BankVersion::V4 { 0x7FF } else { 0x3FFF };
        let len = self.lanes.n_connected.next_multiple_of(64);
        let n_strips;
        // SAFETY:
        // - counts, ranks, pointers and sources are all there for each rank;
        // - a lane with a count above 0 has a pointer, behind which its hits lie (stage 1 checked the counts against
        //   the payload), and READ_AHEAD bytes more can be read;
        // - the stream has room for 255 hits of every rank, and slack for the four words of the last head;
        // - the CPU has the instructions: the caller's.
        unsafe {
            let counts = scratch.counts.as_ptr();
            let (mut n_listed, mut n_long) = (0, 0);
            for block in 0..len / 64 {
                let (some, long) = S::count_bits(counts.add(64 * block));
                scratch.some[block] = some;
                scratch.listed_before[block] = n_listed as u32;
                let first = (64 * block) as u16;
                n_listed += S::list_bits(some, first, scratch.listed.as_mut_ptr().add(n_listed));
                n_long += S::list_bits(long, first, scratch.long.as_mut_ptr().add(n_long));
            }
            scratch.some[len / 64] = 0;
            scratch.listed_before[len / 64] = n_listed as u32;
            let sources = self.lanes.sources.as_ptr();
            let pointers = scratch.pointers.as_ptr();
            let stream = scratch.stream.as_mut_ptr().add(FRONT);
            let starts = scratch.starts.as_mut_ptr();
            let mut end = 0u32;
            for (i, &rank) in scratch.listed.get_unchecked(..n_listed).iter().enumerate() {
                ahead.prefetch::<S>(i);
                let rank = usize::from(rank);
                let n = *counts.add(rank);
                let source = &*sources.add(rank);
                let from = (*pointers.add(usize::from(source.pointer))).add(usize::from(source.place));
                let shuffle = &HEAD_SHUFFLES[usize::from(n.min(4) + source.reversed) % HEAD_SHUFFLES.len()];
                S::copy_head::<STRIDE>(from, shuffle, mask, source.xor, stream.add(end as usize));
                starts.add(rank).write(end);
                end += u32::from(n);
            }
            for &rank in scratch.long.get_unchecked(..n_long) {
                let rank = usize::from(rank);
                let n = usize::from(*counts.add(rank));
                let source = &*sources.add(rank);
                let from = (*pointers.add(usize::from(source.pointer))).add(usize::from(source.place));
                let to = stream.add(*starts.add(rank) as usize);
                S::copy_lane::<STRIDE>(from, n, source.reversed != 0, mask, source.xor, to);
            }
            stream.add(end as usize).write(u32::MAX >> 1);
            // Behind the last lane with hits, as if there were another.
            scratch.listed[n_listed] = self.lanes.n_connected as u16;
            starts.add(self.lanes.n_connected).write(end);
            n_strips = end as usize;
        }
        if n_strips > MAX_STRIPS { Err(Unusual) } else { Ok(n_strips) }
    }
}
