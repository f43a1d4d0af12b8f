//! Stage 2: lays the strips of an event out in one stream, in the order of the lanes' ranks.

use std::ops::Range;

use super::fast::{Fast, Unusual};
use super::scratch::{BLOCK, END, FRONT, MAX_STRIPS, Scratch};
use super::simd::{HEAD_SHUFFLES, Simd};
use crate::detector::BankVersion;
use crate::input::{BatchView, Layout};

/// Where the banks of the events to come are, to have them in the cache in time. Only hints: nothing is read.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'a> {
    raw: *const u8,
    /// MEP: places of the fragments that begin the next block, for a share of the boards.
    fragments: Option<&'a [u32]>,
    /// Allen: where the next event's block is.
    next: usize,
}

/// Lines of a board's fragments in a block that are asked for: two an event.
const LINES: usize = 2 * BLOCK;

impl<'a> Ahead<'a> {
    /// What comes after the events `block`, as far as it is asked for while one of them, `event`, is copied.
    pub fn new(batch: BatchView<'a>, event: usize, block: &Range<usize>) -> Self {
        let raw = batch.raw.as_ptr();
        match batch.layout {
            Layout::Allen => {
                let next = batch.offsets.get(event + 1).map_or(0, |&begin| begin as usize);
                Self { raw, fragments: None, next }
            }
            Layout::Mep => {
                let n_banks = batch.offsets.first().map_or(0, |&n_banks| n_banks as usize);
                let row = n_banks.saturating_mul(block.end.saturating_add(1)).saturating_add(2);
                let rows = batch.offsets.get(row..).map(|rows| &rows[..n_banks.min(rows.len())]);
                let share = n_banks.div_ceil(block.len()).max(1);
                let fragments = rows.and_then(|rows| rows.chunks(share).nth(event - block.start));
                Self { raw, fragments: Some(fragments.unwrap_or_default()), next: 0 }
            }
        }
    }

    /// The i-th part: a line of the next event, or with `MEP`, of a board's fragments.
    #[inline(always)]
    fn prefetch<S: Simd, const MEP: bool>(&self, i: usize) {
        if !MEP {
            S::prefetch(self.raw.wrapping_add(self.next).wrapping_add(64 * i));
        } else if let Some(&begin) = self.fragments.unwrap_or_default().get(i / LINES) {
            S::prefetch_far(self.raw.wrapping_add(begin as usize).wrapping_add(64 * (i % LINES)));
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
        of_block: usize,
        ahead: Ahead<'_>,
    ) -> Result<usize, Unusual> {
        let mask = self.strip_mask();
        let len = self.lanes.n_connected.next_multiple_of(64);
        let n_strips;
        // SAFETY:
        // - counts, ranks, pointers and sources are all there for each rank;
        // - a lane with a count above 0 has a pointer, behind which its hits lie (stage 1 checked the counts against
        //   the payload), and READ_AHEAD bytes more can be read;
        // - the stream has room for 255 hits of every rank, and slack for the four words of the last head;
        // - the CPU has the instructions: the caller's.
        unsafe {
            let counts = scratch.found[of_block].counts.as_ptr();
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
            let end = match ahead.fragments {
                None => self.copy_heads::<S, STRIDE, false>(scratch, of_block, n_listed, ahead),
                Some(_) => self.copy_heads::<S, STRIDE, true>(scratch, of_block, n_listed, ahead),
            };
            let sources = self.lanes.sources.as_ptr();
            let pointers = scratch.found[of_block].pointers.as_ptr();
            let stream = scratch.stream.as_mut_ptr().add(FRONT);
            let starts = scratch.starts.as_mut_ptr();
            for &rank in scratch.long.get_unchecked(..n_long) {
                let rank = usize::from(rank);
                let n = usize::from(*counts.add(rank));
                let source = &*sources.add(rank);
                let from = (*pointers.add(usize::from(source.pointer))).add(usize::from(source.place));
                let to = stream.add(*starts.add(rank) as usize);
                S::copy_lane::<STRIDE>(from, n, source.reversed != 0, mask, source.xor, to);
            }
            stream.add(end).copy_from_nonoverlapping(END.as_ptr(), END.len());
            // Behind the last lane with hits, as if there were another.
            scratch.listed[n_listed] = self.lanes.n_connected as u16;
            starts.add(self.lanes.n_connected).write(end as u32);
            n_strips = end;
        }
        if n_strips > MAX_STRIPS { Err(Unusual) } else { Ok(n_strips) }
    }

    /// Copies four hits of each of the lanes that are listed. Gives the number of strips.
    ///
    /// # Safety
    /// As [`copy_lanes`](Self::copy_lanes); `n_listed` lanes with hits are listed.
    #[inline(always)]
    unsafe fn copy_heads<S: Simd, const STRIDE: usize, const MEP: bool>(
        &self,
        scratch: &mut Scratch,
        of_block: usize,
        n_listed: usize,
        ahead: Ahead<'_>,
    ) -> usize {
        let mask = self.strip_mask();
        let mut end = 0;
        // SAFETY: as there; `reversed` is 0 or 8, and there are 16 shuffles.
        unsafe {
            let counts = scratch.found[of_block].counts.as_ptr();
            let pointers = scratch.found[of_block].pointers.as_ptr();
            let sources = self.lanes.sources.as_ptr();
            let stream = scratch.stream.as_mut_ptr().add(FRONT);
            let starts = scratch.starts.as_mut_ptr();
            for (i, &rank) in scratch.listed.get_unchecked(..n_listed).iter().enumerate() {
                ahead.prefetch::<S, MEP>(i);
                let rank = usize::from(rank);
                let n = *counts.add(rank);
                let source = &*sources.add(rank);
                let from = (*pointers.add(usize::from(source.pointer))).add(usize::from(source.place));
                // Longer lanes come again, and whole.
                let shuffle = HEAD_SHUFFLES.get_unchecked(usize::from(n & 7 | source.reversed));
                S::copy_head::<STRIDE>(from, shuffle, mask, source.xor, stream.add(end));
                starts.add(rank).write(end as u32);
                end += usize::from(n);
            }
        }
        end
    }

    /// The bits of a hit word that go into the stream.
    fn strip_mask(&self) -> u32 {
        if self.lanes.version == BankVersion::V4 { 0x7FF } else { 0x3FFF }
    }
}
