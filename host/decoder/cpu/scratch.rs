//! The work space of one thread, and what its sizes are.

use std::ops::Range;

use super::bank_order::BankOrder;
use super::lanes::HEADS_PER_BOARD;
use super::simd::Simd;
use crate::detector::MAX_BOARDS;

/// Strips that an event on the fast path may have; a mean event has 1700.
pub const MAX_STRIPS: usize = 1 << 16;

/// Lane slots and one more, rounded up to whole blocks of 64 counts.
pub const MAX_RANKS: usize = (ut_kernels::detector::MAX_SLOTS + 1).next_multiple_of(64);

/// Words before the stream, so that a vector may begin before it: as many as the largest cluster has strips.
pub const FRONT: usize = 256;

/// The words behind the last strip: they ascend, and none follows the one before.
pub const END: [u32; 2 * MAX_LANES] = {
    let mut words = [0; 2 * MAX_LANES];
    let mut i = 0;
    while i < words.len() {
        words[i] = (u32::MAX >> 1) - 64 * (words.len() - i) as u32;
        i += 1;
    }
    words
};

/// Words after the last one that vectors may read and write.
const SLACK: usize = 64;

/// Bytes that the copying of lanes may read beyond the end of a payload: eight rows of 32.
pub const READ_AHEAD: usize = 256;

/// Events whose banks are looked up together in the tables of MEP layout, where they lie side by side.
pub const BLOCK: usize = 8;

/// Room for the payloads that end so close to the end of the batch that reading ahead would leave it: two of the
/// largest that hold hits, and more of others.
const TAIL: usize = 1 << 13;

/// Room for clusters of one chunk of events.
const MAX_CLUSTERS: usize = 4 * MAX_STRIPS;

/// Fewest and most words in a vector of any level.
const MIN_LANES: usize = 8;
const MAX_LANES: usize = 16;

/// Work space of a thread.
#[derive(Debug)]
pub struct Scratch {
    /// What stage 1 found of the event.
    pub found: Lanes,
    /// MEP: what the batch's tables say of the events around it.
    pub block: Block,
    /// The boards of the last event's banks.
    pub bank_order: BankOrder,
    /// Ranks of the lanes with hits, and one word behind the last.
    pub listed: Box<[u16]>,
    /// Ranks of the lanes with more than four hits.
    pub long: Box<[u16]>,
    /// Hits of the lane that has the most.
    pub longest: u8,
    /// By rank: where the lane begins in the stream. Only listed lanes.
    pub starts: Box<[u32]>,
    /// A bit a rank: the lane has hits.
    pub some: Box<[u64]>,
    /// By word of `some`: lanes with hits before it.
    pub listed_before: Box<[u32]>,
    /// The strips of an event, behind `FRONT` words.
    pub stream: Box<[u32]>,
    /// A word a vector of the stream: the words that end a cluster, as bits. Or one a vector of clusters: those kept.
    pub ends: Box<[u32]>,
    /// A word of `ends`: bits set before it.
    pub clusters_before: Box<[u32]>,
    /// A word a vector of hits: hits whose x is not above that of the one before, as bits.
    pub inversions: Box<[u32]>,
    /// The last event had clusters without charge or above the maximum size.
    pub careful: bool,
    /// Of such an event, word i + 1: Σ W up to and with cluster i; and Σ pos likewise.
    pub weight: Box<[u32]>,
    pub position: Box<[u32]>,
    /// Clusters of the chunk's events.
    pub clusters: Clusters,
}

/// What the tables of a MEP batch say of some events.
#[derive(Debug)]
pub struct Block {
    /// Which ones.
    pub events: Range<usize>,
    /// By event, [`MAX_BOARDS`] each: sizes of its banks.
    pub sizes: Box<[u16]>,
    /// By event: a bank of another type or format, or a table that is too short.
    pub unusual: [bool; BLOCK],
}

/// The lanes of one event.
#[derive(Debug)]
pub struct Lanes {
    /// By rank: hits of the lane.
    pub counts: Box<[u8]>,
    /// By place of the head, see [`LaneSource`](super::lanes::LaneSource): the lane's first four hits, in the direction in
    /// which x rises. Of shorter lanes, words of no meaning follow; of longer ones, all are of none.
    pub heads: Box<[BoardHeads]>,
    /// By board: its payload. Of boards that the event has a bank of.
    pub payloads: Box<[*const u8]>,
    /// By board, v4: byte i is the place of the first word of lane i.
    pub begins: Box<[u64]>,
    /// Banks of the event; `None`: something is unusual, and the rest is of no meaning.
    pub n_banks: Option<usize>,
    tail: Box<[u8]>,
    copied: usize,
}

/// The heads of a board, in one cache line: they are written at once.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct BoardHeads(pub [u64; HEADS_PER_BOARD]);

// SAFETY: the pointers are used only while the batch that they point into is borrowed, and only by the thread that has
// the scratch.
unsafe impl Send for Lanes {}

/// The clusters (or strips) of the events of a chunk, event after event. The sums go on from event to event.
#[derive(Debug)]
pub struct Clusters {
    /// A stream word of each cluster: its rank matters, and for single strips all of it.
    pub last: Box<[u32]>,
    /// Word i + 1: Σ W and Σ pos up to and with cluster i, packed, modulo 2³².
    pub sum: Box<[u32]>,
    /// Where the next cluster goes. The first of a chunk has a vector of anything before it.
    pub len: usize,
}

fn zeros<T: Clone + Default>(len: usize) -> Box<[T]> {
    vec![T::default(); len].into_boxed_slice()
}

impl Scratch {
    /// The work space; all that a thread ever takes, about 5 MB.
    pub fn new() -> Self {
        let mut stream = zeros(FRONT + MAX_RANKS * 255 + FRONT + SLACK);
        // No strip is a cluster's length behind these.
        stream[..FRONT].fill(u32::MAX);
        Self {
            found: Lanes::new(),
            block: Block { events: 0..0, sizes: zeros(BLOCK * MAX_BOARDS), unusual: [false; BLOCK] },
            bank_order: BankOrder::new(),
            listed: zeros(MAX_RANKS + SLACK),
            long: zeros(MAX_RANKS + SLACK),
            longest: 0,
            starts: zeros(MAX_RANKS + 1),
            some: zeros(MAX_RANKS / 64 + 1),
            listed_before: zeros(MAX_RANKS / 64 + 1),
            stream,
            ends: zeros(MAX_STRIPS / MIN_LANES + 1),
            clusters_before: zeros(MAX_STRIPS / MIN_LANES + 1),
            inversions: zeros(MAX_STRIPS / MIN_LANES + 2),
            careful: false,
            weight: zeros(1 + MAX_STRIPS + SLACK),
            position: zeros(1 + MAX_STRIPS + SLACK),
            clusters: Clusters {
                last: zeros(MAX_LANES + MAX_CLUSTERS + SLACK),
                sum: zeros(MAX_LANES + 1 + MAX_CLUSTERS + SLACK),
                len: 0,
            },
        }
    }

    /// Begins a batch.
    pub fn begin_batch(&mut self) {
        self.block.events = 0..0;
    }

    /// Begins a chunk of events.
    pub fn begin_chunk(&mut self) {
        let clusters = &mut self.clusters;
        clusters.len = MAX_LANES;
        clusters.sum[MAX_LANES] = 0;
    }

    /// Whether the chunk has room for any event.
    pub fn has_room(&self) -> bool {
        self.clusters.len <= MAX_LANES + MAX_CLUSTERS - MAX_STRIPS
    }

    /// Bits of `ends` before bit `i` of them all: clusters that end before strip `i`.
    ///
    /// # Safety
    /// Stage 3 has been through at least `i` strips.
    #[inline(always)]
    pub unsafe fn ends_before<S: Simd>(&self, i: u32) -> u32 {
        let (vector, lane) = (i as usize / S::LANES, i as usize % S::LANES);
        // SAFETY: it has written a word for each vector and one more.
        unsafe {
            self.clusters_before.get_unchecked(vector)
                + (self.ends.get_unchecked(vector) & ((1 << lane) - 1)).count_ones()
        }
    }

    /// Strips of the lanes before `rank`.
    ///
    /// # Safety
    /// Stage 2 has been through the event, and there is such a rank, or it is that after the last.
    #[inline(always)]
    pub unsafe fn strips_before(&self, rank: u16) -> u32 {
        let (word, bit) = (usize::from(rank) / 64, rank % 64);
        // SAFETY: it has written a bit for each rank and an entry for each lane with hits, and one more each.
        unsafe {
            let before = (self.some.get_unchecked(word) & ((1 << bit) - 1)).count_ones();
            let listed = (self.listed_before.get_unchecked(word) + before) as usize;
            *self.starts.get_unchecked(usize::from(*self.listed.get_unchecked(listed)))
        }
    }
}

impl Lanes {
    fn new() -> Self {
        Self {
            counts: zeros(MAX_RANKS),
            heads: zeros(MAX_BOARDS),
            payloads: vec![std::ptr::null(); MAX_BOARDS].into_boxed_slice(),
            begins: zeros(MAX_BOARDS),
            n_banks: None,
            tail: zeros(TAIL + READ_AHEAD),
            copied: 0,
        }
    }

    /// Begins an event.
    #[inline(always)]
    pub fn begin(&mut self, n_ranks: usize) {
        self.counts[..n_ranks].fill(0);
        self.n_banks = None;
        self.copied = 0;
    }

    /// A copy of `payload` behind which `READ_AHEAD` bytes can be read; lives until the lanes of the next event. `None`:
    /// there is no room.
    pub fn copy_tail(&mut self, payload: &[u8]) -> Option<*const u8> {
        let begin = self.copied;
        let end = begin + payload.len();
        if end > TAIL {
            return None;
        }
        self.tail[begin..end].copy_from_slice(payload);
        self.copied = end;
        Some(self.tail[begin..].as_ptr())
    }
}
