//! The fast path: from raw banks to sorted hits without sorting.
//!
//! # In pseudo-code
//!
//! ```text
//! once, from the tables:
//!     rank the lanes by (sector group, x); note for each whether x falls with the strip number
//!
//! for each event:
//!     1 find lanes      for each bank: count[rank of its lanes] = hits
//!                       anything not as expected: once more, bank by bank, as the policy says
//!     2 copy lanes      for each rank with hits, in order: append its first eight to the stream, backwards where
//!                       x falls with the strip number
//!                       for each with more than eight hits: a block, instead; for those with more than a block, the rest
//!     3 find clusters   16 strips at a time: a cluster ends where the next word does not follow;
//!                       prefix sums of ADC and of ADC * strip, kept where a cluster ends
//!       describe        where asked for: charge, number and first strip of each cluster, from prefix sums
//!     4 make hits       16 clusters at a time: differences of the kept sums, one division,
//!                       the constants of the 16 lanes, the seven arrays of the output
//!       repair          where x does not rise inside a group: insertion sort
//! ```
//!
//! # Why no sort is left
//!
//! Hits are wanted by sector group, and in a group by x. A lane's sector, and so the range of x of
//! its hits, is known before the first event. Lanes in the order of (group, x), each in the
//! direction in which x rises, give sorted hits, as long as these ranges do not overlap.
//! Neighbouring staves overlap a little: each x is compared with its predecessor while both are
//! still in registers, and the few groups of an event (3 of 72) in which x falls are sorted by
//! insertion. A lane's place in the order is its *rank*; all tables of the later stages are in rank
//! order.
//!
//! # The stream
//!
//! Most lanes have no hits or one: vectors lane by lane would be nearly empty, and each lane's end
//! mispredicted. So the stream has one word per strip,
//!
//! ```text
//!     31        16 15 14 13        5 4     0
//!     [   rank   ][d][0][  strip   ][ ADC ]
//! ```
//!
//! in which `word >> 5` grows by one from strip to strip of a cluster. The zero bit keeps the first
//! strip of a lane from following the last strip of the previous lane. In a lane that is read
//! backwards, d is set and the strip bits are inverted (511 - strip), so that the words rise there,
//! too; stage 4 undoes the inversion: Σ(W·(511-s)) = 511·ΣW - Σ(W·s). A word that is not above its
//! predecessor belongs to an unsorted lane, which is counted as trouble.
//!
//! To fill the stream, eight hits are copied of every lane that has any: the next lane overwrites
//! the surplus. They are four pairs in the bank; one shuffle, from a table by direction and number
//! of hits, brings them into the direction in which x rises. One lane in thirty has more hits: a
//! second loop copies it again, as a block of 8 or 16 hits, and a third loop copies what is longer
//! still. The first two loops do not branch on the contents of a lane, which cannot be predicted.
//! (With AVX-512 it is four hits of a v5 lane, as a block of 16 costs little; and four where the
//! machine has no such shuffles.)
//!
//! # Sums without loops
//!
//! A cluster's ΣADC is the prefix sum at its last strip less that at the last strip of the cluster
//! before. The sums of all strips are made in vectors, and those at the ends of clusters kept,
//! packed by one instruction (`vpcompressd`). They run modulo 2³²: only differences matter. ΣADC
//! and Σ(ADC · strip) share a word: 12 and 20 bits hold them for all clusters that particles make,
//! and `find_clusters.rs` finds the others.
//!
//! Without clustering, and for v4 banks, stage 3 has nothing to do: the words of the stream are the
//! hits.
//!
//! # Constants
//!
//! Ten constants turn a strip number into a hit. Four, the strip's place and the `LHCbID`, belong
//! to the lane and lie in the order of the ranks. 16 consecutive hits come from lanes close
//! together: if their ranks are less than 32 apart, each constant of all 16 is two loads and a
//! permutation; if less than 64, twice that; else they are gathered. Six belong to the *kind* of
//! the sector, of which a detector has few: their tables are one window each, and the kind lies in
//! bits of the `LHCbID` that the strip number fills. Kinds that differ in the sense of the stereo
//! angle alone have numbers 8 apart, so that four of the six tables need half a window, with AVX2
//! one instruction and not three. Tables for each lane would not fit into the smallest cache. Where
//! all sectors differ, every lane is its own kind.
//!
//! Vectors of hits are cut where the cache lines of the output are: a store across two lines costs
//! as much as two.
//!
//! `docs/cpu-decoder.md` lists what leaves this path for the fallback; all other trouble costs only
//! itself. The stages are written once, over the trait [`Simd`](super::simd::Simd), and compiled
//! for each level of vector instructions.

use super::level::Level;
use super::policy::NeedsFallback;
use super::prefetch::Prefetch;
use super::scratch::Scratch;
use super::setup::Setup;
use ut_data::detector::BankVersion;
use ut_data::input::BatchView;
use ut_data::{Count, EventReport, UtHitsMut};

#[derive(Debug)]
pub struct Fast {
    setup: Setup,
    level: Level,
}

impl Fast {
    pub const fn new(setup: Setup, level: Level) -> Self {
        Self { setup, level }
    }

    pub fn n_groups(&self) -> usize {
        self.setup.lanes.n_groups()
    }

    pub const fn version(&self) -> BankVersion {
        self.setup.lanes.version
    }

    /// Does the front half: finds an event's clusters in its raw banks. Returns the number of hits,
    /// and sets their ends by group, counted from the event's first hit. The events up to `end`
    /// will be next.
    pub fn front(
        &self,
        scratch: &mut Scratch,
        batch: BatchView<'_>,
        (event, end): (usize, usize),
        ends: &mut [u32],
        report: &mut EventReport,
    ) -> Result<usize, NeedsFallback> {
        let Self { setup, level } = self;
        let meta = batch.meta_of(event);
        let other_version = batch.versions.is_none()
            && batch
                .version
                .is_some_and(|v| v != setup.lanes.version.byte());
        let unexpected = meta.broken || other_version;
        if setup.lanes.n_connected == 0 || unexpected {
            return Err(NeedsFallback);
        }
        // SAFETY: the CPU has the instructions of every `Level`.
        *report = unsafe { (level.find_lanes)(setup, scratch, batch, (event, end))? };
        let ahead = Prefetch::after_banks(batch, event, report.get(Count::Banks) as usize);
        // SAFETY: the CPU has the instructions; stage 1 has just filled the scratch with this
        // setup, from this batch.
        let n_strips = unsafe { (level.copy_lanes)(setup, scratch, ahead)? };
        // SAFETY: the CPU has the instructions.
        unsafe { (level.find_clusters)(setup, scratch, n_strips, ends, report)? };
        report.add(Count::Strips, n_strips as u32);
        report.add(Count::OtherTypes, meta.other_banks);
        Ok(ends.last().map_or(0, |&end| end as usize))
    }

    /// Does the back half: makes the hits of the event, whose groups end at `ends`, from its
    /// clusters.
    ///
    /// # Errors
    /// As [`make_hits`](super::make_hits::make_hits); some of the hits are written then.
    ///
    /// # Safety
    /// This path's [`front`](Self::front) has made the clusters, as many as `hits`.
    pub unsafe fn back(
        &self,
        scratch: &mut Scratch,
        ends: &[u32],
        hits: &mut UtHitsMut<'_>,
    ) -> Result<(), NeedsFallback> {
        // SAFETY: the CPU has the instructions of every `Level`; `front` of this path, and so with
        // its setup, has made the clusters of one event by stages 1 to 3, by this function's
        // precondition.
        unsafe { (self.level.make_hits)(&self.setup, scratch, ends, hits) }
    }
}
