//! Stage 2: lays the strips of an event out in one stream, in the order of the lanes' ranks.
//!
//! Most lanes that have hits have one to four. A loop over the hits of each lane would end after an
//! unpredictable number of turns, and each wrong prediction costs as much as copying dozens of
//! hits. So no loop asks how many hits a lane has:
//!
//! 1. The lanes with hits are listed from the array of counts, 64 lanes at a time.
//! 2. Each listed lane is copied as one block of 8 hits (4 with AVX-512), whatever its number. The
//!    stream then advances by the true number, and the next lane overwrites the surplus.
//! 3. Lanes that are longer are in a second list. One block of 8 or 16 hits is copied for each.
//! 4. The few lanes that are longer still are copied to their end.
//!
//! For example, lanes with 2, 1 and 9 hits are copied to places 0, 2 and 3 of the stream, 8 words
//! each; then, where blocks have 16 hits, the third lane again, with its 9 hits to places 3 to 11.

use super::lanes::{LaneSource, MAX_RANKS};
use super::policy::NeedsFallback;
use super::prefetch::{LINE, Prefetch};
use super::scratch::{Bits, END, FRONT, MAX_STRIPS, Scratch};
use super::setup::Setup;
use super::simd::{REVERSE, Simd};
use ut_data::detector::BankVersion;

/// Number of lanes between two prefetches.
///
/// The next event's banks are fetched while this event is copied. The lines are spread over the
/// lanes, because a CPU waits for a few lines at a time only: asked for all at once, they would
/// stall the copy.
const LANES_AT_ONCE: usize = 8;

/// Lays the strips of all lanes out in the stream, in the order of the ranks, each lane in the
/// direction in which x rises. Returns their number.
///
/// # Safety
/// - [`find_lanes`](super::find_lanes) has filled `scratch.found` with this setup, and the batch
///   that its pointers point into is still borrowed;
/// - `STRIDE` is the distance between pairs of hits in the format: 32 (v5) or 4 (v4).
#[inline(always)]
pub unsafe fn copy_lanes<S: Simd, const STRIDE: usize>(
    s: S,
    setup: &Setup,
    scratch: &mut Scratch,
    ahead: Prefetch,
) -> Result<usize, NeedsFallback> {
    let n_connected = setup.lanes.n_connected;
    let (n_listed, n_long) = list_lanes(s, n_connected, S::start::<STRIDE>(), scratch);
    let lanes = &scratch.found;
    debug_assert!(
        scratch.stream.len()
            >= FRONT + 255 * n_connected + END.len() + usize::from(S::start::<STRIDE>())
    );
    let mut copy = LaneCopy::<S, STRIDE> {
        s,
        version: setup.lanes.version,
        sources: &setup.lanes.sources,
        counts: &lanes.counts,
        payloads: &lanes.payloads,
        begins: &lanes.begins,
        mask: setup.hit_mask(),
        stream: scratch.stream[FRONT..].as_mut_ptr(),
        starts: &mut scratch.starts,
        n_strips: 0,
    };
    let (by_eight, others) = scratch.listed[..n_listed].as_chunks::<LANES_AT_ONCE>();
    let n_lines = ahead.n_lines.div_ceil(by_eight.len().max(1));
    let mut line = ahead.from;
    for ranks in by_eight {
        for _ in 0..n_lines {
            s.prefetch_far(line);
            line = line.wrapping_add(LINE);
        }
        for &rank in ranks {
            // SAFETY: `list_lanes` lists lanes with hits, each once, and in order.
            unsafe { copy.start(rank) };
        }
    }
    for &rank in others {
        // SAFETY: these are the last of the list: connected lanes with hits, each once, and none
        // was started above.
        unsafe { copy.start(rank) };
    }
    // Which lanes are longer than a block cannot be predicted, so a loop without that branch copies
    // one block of each, and another loop copies the rest.
    let mut n_longer = 0;
    for i in 0..n_long {
        let rank = scratch.long[i];
        let n = usize::from(copy.counts[usize::from(rank)]);
        // SAFETY: `list_lanes` lists lanes with more than `S::start` hits, 4 or 8; all were
        // started.
        unsafe { copy.block(rank, 0, n.min(S::BLOCK)) };
        scratch.long[n_longer] = rank;
        n_longer += usize::from(n > S::BLOCK);
    }
    for &rank in &scratch.long[..n_longer] {
        let n = usize::from(copy.counts[usize::from(rank)]);
        for first in (S::BLOCK..n).step_by(S::BLOCK) {
            // The last block ends with the last hit, and begins with a pair, as all do.
            let first = first.min(n - S::BLOCK + n % 2);
            // SAFETY: these lanes have more hits than a block, so that the last one has all its
            // hits, or all but one.
            unsafe { copy.block(rank, first, S::BLOCK.min(n - first)) };
        }
    }
    let n_strips = copy.n_strips;
    scratch.stream[FRONT + n_strips..][..END.len()].copy_from_slice(&END);
    // Stands for one more lane after the last lane with hits.
    //
    // The later stages ask where the next lane with hits begins. With this entry the last lane
    // needs no case for itself.
    scratch.listed[n_listed] = n_connected as u16;
    scratch.starts[n_connected] = n_strips as u32;
    if n_strips > MAX_STRIPS {
        Err(NeedsFallback)
    } else {
        Ok(n_strips)
    }
}

/// Lists the lanes with hits, and those with more than `few`; returns both numbers.
#[inline(always)]
fn list_lanes<S: Simd>(s: S, n_connected: usize, few: u8, scratch: &mut Scratch) -> (usize, usize) {
    let (blocks, _) = scratch.found.counts[..n_connected.next_multiple_of(64)].as_chunks::<64>();
    let (mut n_listed, mut n_long) = (0, 0);
    let mut most = [0; 64];
    for (i, counts) in blocks.iter().enumerate() {
        for (most, &count) in most.iter_mut().zip(counts) {
            *most = count.max(*most);
        }
        let (some, long) = s.count_bits(counts, few);
        scratch.some[i] = Bits {
            bits: some,
            before: n_listed as u32,
        };
        let first = (64 * i) as u16;
        debug_assert!(n_listed <= 64 * i && n_long <= 64 * i && 64 * (i + 1) <= MAX_RANKS);
        // SAFETY: both lists have room for MAX_RANKS and 64 more; each block before this one has
        // added at most 64.
        unsafe {
            n_listed += s.list_bits(some, first, scratch.listed.as_mut_ptr().add(n_listed));
            n_long += s.list_few_bits(long, first, scratch.long.as_mut_ptr().add(n_long));
        }
    }
    scratch.longest = most.into_iter().max().unwrap_or(0);
    scratch.some[blocks.len()] = Bits {
        bits: 0,
        before: n_listed as u32,
    };
    (n_listed, n_long)
}

struct LaneCopy<'a, S, const STRIDE: usize> {
    s: S,
    version: BankVersion,
    /// By rank.
    sources: &'a [LaneSource],
    /// Hits of each lane, by rank.
    counts: &'a [u8; 1 << 16],
    /// See [`FoundLanes`](super::scratch::Lanes).
    payloads: &'a [*const u8; 1 << 8],
    begins: &'a [u64; 1 << 8],
    mask: u32,
    /// Room for 255 words per connected lane, for [`END`], and `S::start` more.
    stream: *mut u32,
    /// First word of each lane in the stream, by rank.
    starts: &'a mut [u32; 1 << 16],
    n_strips: usize,
}

// Methods and not closures: a closure that is not inlined has not the level's instructions.
impl<S: Simd, const STRIDE: usize> LaneCopy<'_, S, STRIDE> {
    /// Returns a lane, its number of hits, and the address of the first.
    ///
    /// # Safety
    /// - as [`copy_lanes`];
    /// - the rank is one of the connected ones.
    #[inline(always)]
    unsafe fn source(&self, rank: u16) -> (LaneSource, u8, *const u8) {
        debug_assert!(usize::from(rank) < self.sources.len());
        // SAFETY: `sources` has an entry for each rank, and this is one, by this function's second
        // precondition.
        let source = unsafe { *self.sources.get_unchecked(usize::from(rank)) };
        let board = usize::from(source.board);
        let place = match self.version {
            BankVersion::V5 => usize::from(source.place),
            BankVersion::V4 => {
                4 + 2 * usize::from((self.begins[board] >> (8 * source.place)) as u8)
            }
        };
        (
            source,
            self.counts[usize::from(rank)],
            self.payloads[board].wrapping_add(place),
        )
    }

    /// Appends a lane: its first `S::start` hits; of a shorter one also anything, which the next
    /// lane overwrites. [`block`](Self::block) copies longer ones.
    ///
    /// # Safety
    /// - as [`copy_lanes`];
    /// - the rank is one of the connected ones, has hits, and was not started before.
    #[inline(always)]
    unsafe fn start(&mut self, rank: u16) {
        // SAFETY: the rank is a connected one, by this function's second precondition; the first is
        // the same.
        let (source, n, from) = unsafe { self.source(rank) };
        debug_assert!(n > 0);
        // SAFETY:
        // - the first pair of hits is in the payload: stage 1 compared count and size; up to three
        //   more STRIDEs can be read, READ_AHEAD being eight times the largest;
        // - the direction of a source is 0 or `REVERSE`;
        // - the stream has room for 255 hits of each connected lane, which comes once, and
        //   `S::start` more.
        unsafe {
            let to = self.stream.add(self.n_strips);
            self.s
                .copy_start::<STRIDE>(from, n, source.direction, self.mask, source.xor, to);
        }
        self.starts[usize::from(rank)] = self.n_strips as u32;
        self.n_strips += usize::from(n);
    }

    /// Copies a block of hits of a lane to where [`start`](Self::start) has put the lane.
    ///
    /// # Safety
    /// - as [`copy_lanes`];
    /// - the rank is one of the connected ones, and was started;
    /// - the lane has `size` hits from hit `first` on, which is even; they are 5 to `S::BLOCK`.
    #[inline(always)]
    unsafe fn block(&self, rank: u16, first: usize, size: usize) {
        // SAFETY: the rank is a connected one, by this function's second precondition; the first is
        // the same.
        let (source, n, from) = unsafe { self.source(rank) };
        let (n, start) = (usize::from(n), self.starts[usize::from(rank)] as usize);
        debug_assert!(first + size <= n && first.is_multiple_of(2) && start + n <= self.n_strips);
        // 1 or 0, without a branch.
        let backwards = usize::from(source.direction / REVERSE);
        let place = first.wrapping_add(backwards.wrapping_mul(n.wrapping_sub(2 * first + size)));
        // SAFETY:
        // - `size` is as the method wants it, by this function's third precondition;
        // - the pair of hit `first` is in the payload, and READ_AHEAD bytes more can be read, as in
        //   `start`;
        // - the direction of a source is 0 or `REVERSE`;
        // - `start` has given the lane `n` words, by this function's second precondition; the
        //   block's `size` words begin at `first`, or from the other end, at `n - first - size`.
        unsafe {
            let (from, to) = (from.add(STRIDE / 2 * first), self.stream.add(start + place));
            self.s
                .copy_block::<STRIDE>(from, size, source.direction, self.mask, source.xor, to);
        }
    }
}
