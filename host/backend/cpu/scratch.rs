//! The work space of one thread, and what its sizes are.

use super::fast::Unusual;

/// Strips that an event on the fast path may have; a mean event has 1700.
pub const MAX_STRIPS: usize = 1 << 16;

/// Lane slots and one more, rounded up to whole blocks of 64 counts.
pub const MAX_RANKS: usize = (ut_kernels::detector::MAX_SLOTS + 1).next_multiple_of(64);

/// Words before the stream, so that a vector may begin before it: as many as the largest cluster has strips.
pub const FRONT: usize = 256;

/// Words after the last one that vectors may read and write.
const SLACK: usize = 64;

/// Bytes that the copying of lanes may read beyond the end of a payload: eight rows of 32.
pub const READ_AHEAD: usize = 256;

/// Room for the payloads that end so close to the end of the batch that reading ahead would leave it.
const TAIL: usize = 1 << 17;

/// Room for clusters of one chunk of events.
const MAX_CLUSTERS: usize = 4 * MAX_STRIPS;

/// Fewest words in a vector of any level.
const MIN_LANES: usize = 8;

/// Work space of a thread.
#[derive(Debug)]
pub struct Scratch {
    /// By rank: hits of the lane.
    pub counts: Box<[u8]>,
    /// By board: its payload (v5), or by slot: its first cluster word (v4). Null: no such bank in the event.
    pub pointers: Box<[*const u8]>,
    /// Ranks of the lanes with hits, and one word behind the last.
    pub listed: Box<[u16]>,
    /// Ranks of the lanes with more than four hits.
    pub long: Box<[u16]>,
    /// By rank: where the lane begins in the stream. Only listed lanes.
    pub starts: Box<[u32]>,
    /// A bit a rank: the lane has hits.
    pub some: Box<[u64]>,
    /// By word of `some`: lanes with hits before it.
    pub listed_before: Box<[u32]>,
    /// The strips of an event, behind `FRONT` words.
    pub stream: Box<[u32]>,
    /// A word a vector of the stream: the words that end a cluster, as bits.
    pub ends: Box<[u32]>,
    /// A word a vector of the stream: clusters before it.
    pub clusters_before: Box<[u32]>,
    /// A word a vector of hits: hits whose x is not above that of the one before, as bits.
    pub inversions: Box<[u32]>,
    /// Clusters of the chunk's events.
    pub clusters: Clusters,
    tail: Box<[u8]>,
    tail_used: usize,
}

// SAFETY: the pointers in `pointers` are used only while the batch that they point into is borrowed, and only by the
// thread that has the scratch.
unsafe impl Send for Scratch {}

/// The clusters (or strips) of the events of a chunk, event after event. The sums go on from event to event.
#[derive(Debug)]
pub struct Clusters {
    /// A stream word of each cluster: its rank matters, and for single strips all of it.
    pub last: Box<[u32]>,
    /// Word i + 1: Σ W up to and with cluster i, modulo 2³².
    pub weight: Box<[u32]>,
    /// Word i + 1: Σ pos likewise.
    pub position: Box<[u32]>,
    /// How many clusters.
    pub len: usize,
}

fn zeros<T: Clone + Default>(len: usize) -> Box<[T]> {
    vec![T::default(); len].into_boxed_slice()
}

impl Scratch {
    /// The work space; all that a thread ever takes, about 4 MB.
    pub fn new() -> Self {
        let mut stream = zeros(FRONT + MAX_RANKS * 255 + SLACK);
        // No strip is a cluster's length behind these.
        stream[..FRONT].fill(u32::MAX);
        Self {
            counts: zeros(MAX_RANKS),
            pointers: vec![std::ptr::null(); MAX_RANKS].into_boxed_slice(),
            listed: zeros(MAX_RANKS + SLACK),
            long: zeros(MAX_RANKS + SLACK),
            starts: zeros(MAX_RANKS + 1),
            some: zeros(MAX_RANKS / 64 + 1),
            listed_before: zeros(MAX_RANKS / 64 + 1),
            stream,
            ends: zeros(MAX_STRIPS / MIN_LANES + 1),
            clusters_before: zeros(MAX_STRIPS / MIN_LANES + 1),
            inversions: zeros(MAX_STRIPS / MIN_LANES + 1),
            clusters: Clusters {
                last: zeros(MAX_CLUSTERS + SLACK),
                weight: zeros(1 + MAX_CLUSTERS + SLACK),
                position: zeros(1 + MAX_CLUSTERS + SLACK),
                len: 0,
            },
            tail: zeros(TAIL + READ_AHEAD),
            tail_used: 0,
        }
    }

    /// Begins a chunk of events.
    pub fn begin_chunk(&mut self) {
        let clusters = &mut self.clusters;
        clusters.len = 0;
        (clusters.weight[0], clusters.position[0]) = (0, 0);
    }

    /// Begins an event.
    pub fn begin_event(&mut self, n_ranks: usize, n_pointers: usize) {
        self.counts[..n_ranks].fill(0);
        self.pointers[..n_pointers].fill(std::ptr::null());
        self.tail_used = 0;
    }

    /// Whether the chunk has room for any event.
    pub fn has_room(&self) -> bool {
        self.clusters.len <= MAX_CLUSTERS - MAX_STRIPS
    }

    /// A copy of `payload` behind which `READ_AHEAD` bytes can be read; lives until the next event.
    pub fn copy_tail(&mut self, payload: &[u8]) -> Result<*const u8, Unusual> {
        let begin = self.tail_used;
        let end = begin + payload.len();
        if end > TAIL {
            return Err(Unusual);
        }
        self.tail[begin..end].copy_from_slice(payload);
        self.tail_used = end;
        Ok(self.tail[begin..].as_ptr())
    }

    /// Strips of the lanes before `rank`.
    #[inline]
    pub fn strips_before(&self, rank: u16) -> u32 {
        let (word, bit) = (usize::from(rank) / 64, rank % 64);
        let listed = self.listed_before[word] + (self.some[word] & ((1 << bit) - 1)).count_ones();
        self.starts[usize::from(self.listed[listed as usize])]
    }
}
