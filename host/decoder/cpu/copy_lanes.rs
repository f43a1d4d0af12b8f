//! Stage 2: lays the strips of an event out in one stream, in the order of the lanes' ranks.

use super::fast::{Fast, Unusual};
use super::lanes::{HEADS_PER_BOARD, LaneSource};
use super::scratch::{END, FRONT, MAX_STRIPS, Scratch};
use super::simd::Simd;
use crate::detector::BankVersion;
use crate::input::{BatchView, Layout};

/// Where the next event is, to have it in the cache in time. Only hints: nothing is read.
///
/// A line that comes from the memory takes as long as a bank or several lanes, and only so many can be under way. So they are
/// asked for one by one, all along stages 1 and 2, and not at once. In MEP layout stage 1 asks for all of them.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// The first line that stage 1 did not ask for.
    from: *const u8,
    /// Lines to ask for.
    n_lines: usize,
}

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Lines that are asked for at most, whatever a batch says where its events are; a mean event has 280.
const MOST_LINES: usize = 1024;

/// Lanes between two times that lines are asked for.
const LANES_AT_ONCE: usize = 8;

impl Ahead {
    /// What comes after `event`, which has `n_banks` banks.
    pub fn new(batch: BatchView<'_>, event: usize, n_banks: usize) -> Self {
        let place = |event: usize| batch.offsets.get(event).map_or(0, |&begin| begin as usize);
        let (next, end) = match batch.layout {
            Layout::Allen => (place(event + 1) + LINE * n_banks, place(event + 2)),
            Layout::Mep => (0, 0),
        };
        let n_lines = end.saturating_sub(next).div_ceil(LINE).min(MOST_LINES);
        Self { from: batch.raw.as_ptr().wrapping_add(next), n_lines }
    }

    /// Allen: where the first line of the next event is. Stage 1 asks for as many from there on as it finds banks.
    pub fn next_event(batch: BatchView<'_>, event: usize) -> *const u8 {
        batch.raw.as_ptr().wrapping_add(batch.offsets.get(event + 1).map_or(0, |&begin| begin as usize))
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
        ahead: Ahead,
    ) -> Result<usize, Unusual> {
        let mask = self.strip_mask();
        let len = self.lanes.n_connected.next_multiple_of(64);
        let n_strips;
        // SAFETY:
        // - counts, ranks, heads and sources are all there for each rank;
        // - a lane with a count above 0 has a payload, in which its hits lie (stage 1 checked the counts against its
        //   size), and READ_AHEAD bytes more can be read;
        // - the stream has room for 255 hits of every rank, and slack for the four words of the last head;
        // - the CPU has the instructions: the caller's.
        unsafe {
            let counts = &scratch.found.counts[..len];
            scratch.longest = counts.iter().fold(0, |most, &count| most.max(count));
            let counts = counts.as_ptr();
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
            let end = self.copy_heads::<S>(scratch, n_listed, ahead);
            let sources = self.lanes.sources.as_ptr();
            let lanes = &scratch.found;
            let stream = scratch.stream.as_mut_ptr().add(FRONT);
            let starts = scratch.starts.as_mut_ptr();
            for &rank in scratch.long.get_unchecked(..n_long) {
                let rank = usize::from(rank);
                let n = usize::from(*counts.add(rank));
                let source = &*sources.add(rank);
                let board = usize::from(source.head) / HEADS_PER_BOARD;
                let place = match self.lanes.version {
                    BankVersion::V5 => usize::from(source.place),
                    BankVersion::V4 => {
                        let begin = (lanes.begins.get_unchecked(board) >> (8 * source.place)) as u8;
                        4 + 2 * usize::from(begin)
                    }
                };
                let from = lanes.payloads.get_unchecked(board).add(place);
                let to = stream.add(*starts.add(rank) as usize);
                S::copy_lane::<STRIDE>(from, n, source.backwards, mask, source.xor, to);
            }
            stream.add(end).copy_from_nonoverlapping(END.as_ptr(), END.len());
            // Behind the last lane with hits, as if there were another.
            scratch.listed[n_listed] = self.lanes.n_connected as u16;
            starts.add(self.lanes.n_connected).write(end as u32);
            n_strips = end;
        }
        if n_strips > MAX_STRIPS { Err(Unusual) } else { Ok(n_strips) }
    }

    /// Copies the heads of the lanes that are listed. Gives the number of strips.
    ///
    /// # Safety
    /// As [`copy_lanes`](Self::copy_lanes); `n_listed` lanes with hits are listed.
    #[inline(always)]
    unsafe fn copy_heads<S: Simd>(&self, scratch: &mut Scratch, n_listed: usize, ahead: Ahead) -> usize {
        // SAFETY: the caller's.
        unsafe {
            let lanes = &scratch.found;
            let mut heads = Heads {
                counts: lanes.counts.as_ptr(),
                hits: lanes.heads.as_ptr().cast(),
                sources: self.lanes.sources.as_ptr(),
                mask: self.strip_mask(),
                stream: scratch.stream.as_mut_ptr().add(FRONT),
                starts: scratch.starts.as_mut_ptr(),
                end: 0,
            };
            let listed = scratch.listed.get_unchecked(..n_listed);
            let (by_eight, others) = listed.as_chunks::<LANES_AT_ONCE>();
            let n_lines = ahead.n_lines.div_ceil(by_eight.len().max(1));
            for (i, ranks) in by_eight.iter().enumerate() {
                for line in n_lines * i..n_lines * (i + 1) {
                    S::prefetch_far(ahead.from.wrapping_add(LINE * line));
                }
                for &rank in ranks {
                    heads.copy::<S>(rank);
                }
            }
            for &rank in others {
                heads.copy::<S>(rank);
            }
            heads.end
        }
    }

    /// The bits of a hit word that go into the stream.
    fn strip_mask(&self) -> u32 {
        if self.lanes.version == BankVersion::V4 { 0x7FF } else { 0x3FFF }
    }
}

/// Lays heads of lanes out in the stream.
struct Heads {
    counts: *const u8,
    /// By place of the head.
    hits: *const u64,
    sources: *const LaneSource,
    mask: u32,
    stream: *mut u32,
    starts: *mut u32,
    /// Strips so far.
    end: usize,
}

#[expect(clippy::inline_always, reason = "see `Simd`")]
impl Heads {
    /// Appends the head of a lane; the next lane overwrites the words that are too many.
    ///
    /// # Safety
    /// - counts, sources and places of starts are there for the rank, a head for its lane, and four words for the stream;
    /// - CPU as for [`Simd`].
    #[inline(always)]
    unsafe fn copy<S: Simd>(&mut self, rank: u16) {
        // SAFETY: the caller's.
        unsafe {
            let rank = usize::from(rank);
            let source = &*self.sources.add(rank);
            let head = self.hits.add(usize::from(source.head));
            S::copy_head(head, self.mask, source.xor, self.stream.add(self.end));
            self.starts.add(rank).write(self.end as u32);
            // Longer lanes come again, and whole.
            self.end += usize::from(*self.counts.add(rank));
        }
    }
}
