//! The work space of the fast path, and its sizes.

use std::cell::Cell;
use std::ops::Range;

use super::bank_order::BankOrder;
use super::lanes::MAX_RANKS;
use super::policy::Policy;
use ut_data::detector::MAX_BOARDS;

/// Maximum number of strips in an event on the fast path; a mean event has 1700.
pub const MAX_STRIPS: usize = 1 << 16;

/// Number of words before the stream, so that a vector may begin there: as many as the largest
/// cluster has strips.
pub const FRONT: usize = 256;

/// Words after the last strip: they ascend, and no word continues the cluster of its predecessor.
pub const END: [u32; 2 * MAX_ELEMENTS] = {
    let mut words = [0; 2 * MAX_ELEMENTS];
    let mut i = 0;
    while i < words.len() {
        words[i] = (u32::MAX >> 1) - 64 * (words.len() - i) as u32;
        i += 1;
    }
    words
};

/// Number of words after the last one that vectors may read and write.
const SLACK: usize = 64;

/// Number of bytes beyond the end of a payload that stage 2 may read: eight rows of 32.
pub const READ_AHEAD: usize = 256;

/// Number of events whose banks are looked up together in the tables of MEP layout, where they lie
/// side by side.
pub const BLOCK: usize = 16;

/// Number of bytes for copies of payloads so close to the end of the batch that reading ahead would
/// run past it: enough for two of the largest, or more of smaller ones.
const TAIL: usize = 1 << 13;

const MIN_ELEMENTS: usize = 8;
const MAX_ELEMENTS: usize = 16;

/// Index of an event's first cluster: a vector may begin before it.
pub const FIRST_CLUSTER: usize = MAX_ELEMENTS;

#[derive(Debug)]
pub struct Scratch {
    pub found: Box<FoundLanes>,
    /// MEP: what the batch's tables say of a block of events.
    pub block: Box<EventBlock>,
    pub bank_order: BankOrder,
    pub policy: Policy,
    /// Ranks of the lanes with hits, and one more word after the last.
    pub listed: Box<[u16]>,
    /// Ranks of the lanes with more hits than are copied at first.
    pub long: Box<[u16]>,
    pub longest: u8,
    /// By rank: first word of the lane in the stream. Only for listed lanes.
    pub starts: Box<[u32; 1 << 16]>,
    /// For 64 ranks each: the lanes with hits. (An index of 16 bits, divided by 64, needs no
    /// check.)
    pub some: Box<[Bits<u64>; 1 << 10]>,
    /// Strips of an event, behind `FRONT` words.
    pub stream: Box<[u32]>,
    /// For each vector of the stream, the words that end a cluster; or for each vector of clusters,
    /// those that were kept.
    pub ends: Box<[Bits<u32>]>,
    /// For each vector of hits, one bit per hit: set if its x is not above the x of its
    /// predecessor.
    pub inversions: Box<[u32]>,
    /// Is true if the last event had clusters without charge or above the maximum size: the next
    /// may, too.
    pub needs_cluster_filter: bool,
    /// Word i + 1: Σ W up to and with cluster i of such an event; `position` likewise: Σ pos.
    pub weight: Box<[u32]>,
    pub position: Box<[u32]>,
    pub clusters: Clusters,
    pub describe: bool,
}

/// A word of a bit set, with the count before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bits<T> {
    pub bits: T,
    pub before: u32,
}

/// Entries of a MEP batch's tables for a block of events.
#[derive(Debug)]
pub struct EventBlock {
    pub events: Range<usize>,
    pub sizes: [[u16; MAX_BOARDS]; BLOCK],
    /// By event: it has a bank of another type or format, or a table is too short.
    pub unexpected: [bool; BLOCK],
}

/// Lanes of one event, in one piece, so that one register reaches all of it.
#[derive(Debug)]
pub struct FoundLanes {
    /// By rank: hits of the lane; 0 beyond the connected ranks. (An index of 16 bits needs no
    /// check.)
    pub counts: [u8; 1 << 16],
    /// By board: its payload, if the event has a bank of it.
    pub payloads: [*const u8; 1 << 8],
    /// By board, v4: byte i is the index of the first word of lane i.
    pub begins: [u64; 1 << 8],
    pub headers: [u64; MAX_BOARDS],
    /// Copies of payloads. Cells: payloads copied before are still pointed to.
    tail: Box<[Cell<u8>]>,
    copied: usize,
}

// SAFETY: only the thread that has the scratch uses the pointers, while the batch that they point
// into is borrowed.
unsafe impl Send for FoundLanes {}

/// Clusters (or strips) of an event, from [`FIRST_CLUSTER`] on.
#[derive(Debug)]
pub struct Clusters {
    /// A stream word of each cluster, for its rank; all of it is the hit where clusters are single
    /// strips.
    pub last: Box<[u32]>,
    /// Word i + 1: Σ W and Σ pos up to and with cluster i, packed, modulo 2³²; 0 before the first.
    pub sum: Box<[u32]>,
    /// Strips of each cluster, as [`Cluster`](ut_data::Cluster) packs them, if asked for.
    pub strips: Box<[u32]>,
    /// Number of clusters.
    pub n: usize,
}

fn zeros<T: Clone + Default>(len: usize) -> Box<[T]> {
    vec![T::default(); len].into_boxed_slice()
}

#[expect(clippy::unnecessary_box_returns, reason = "too large for the stack")]
fn zeroed_array<T: Clone + Default, const N: usize>() -> Box<[T; N]> {
    zeros(N)
        .try_into()
        .unwrap_or_else(|_: Box<[T]>| unreachable!("N elements"))
}

impl Scratch {
    /// Allocates the work space, some 3 MB: a decoder takes no more.
    pub fn new(policy: Policy) -> Self {
        let mut stream = zeros(FRONT + MAX_RANKS * 255 + FRONT + SLACK);
        // No strip is a cluster's length behind these.
        stream[..FRONT].fill(u32::MAX);
        Self {
            found: Box::new(FoundLanes::new()),
            block: Box::new(EventBlock {
                events: 0..0,
                sizes: [[0; MAX_BOARDS]; BLOCK],
                unexpected: [false; BLOCK],
            }),
            bank_order: BankOrder::new(),
            policy,
            listed: zeros(MAX_RANKS + SLACK),
            long: zeros(MAX_RANKS + SLACK),
            longest: 0,
            starts: zeroed_array(),
            some: zeroed_array(),
            stream,
            ends: zeros(MAX_STRIPS / MIN_ELEMENTS + 1),
            inversions: zeros(MAX_STRIPS / MIN_ELEMENTS + 2),
            needs_cluster_filter: false,
            weight: zeros(1 + MAX_STRIPS + SLACK),
            position: zeros(1 + MAX_STRIPS + SLACK),
            clusters: Clusters {
                last: zeros(FIRST_CLUSTER + MAX_STRIPS + SLACK),
                sum: zeros(FIRST_CLUSTER + 1 + MAX_STRIPS + SLACK),
                strips: zeros(FIRST_CLUSTER + MAX_STRIPS + SLACK),
                n: 0,
            },
            describe: false,
        }
    }

    pub fn begin_batch(&mut self, describe: bool) {
        self.block.events = 0..0;
        self.describe = describe;
    }

    /// Returns the number of clusters that end before strip `i`; vectors have `elements` words.
    #[inline(always)]
    pub fn ends_before(&self, i: u32, elements: usize) -> u32 {
        let (vector, element) = (i as usize / elements, i as usize % elements);
        let Bits { bits, before } = self.ends[vector];
        before + (bits & ((1 << element) - 1)).count_ones()
    }

    #[inline(always)]
    pub fn strips_before(&self, rank: u16) -> u32 {
        let Bits { bits, before } = self.some[usize::from(rank) / 64];
        let before = before + (bits & ((1 << (rank % 64)) - 1)).count_ones();
        self.starts[usize::from(self.listed[before as usize])]
    }
}

impl FoundLanes {
    #[expect(
        clippy::large_stack_arrays,
        reason = "64 kB for a moment, when a decoder is made"
    )]
    fn new() -> Self {
        Self {
            counts: [0; 1 << 16],
            payloads: [std::ptr::null(); 1 << 8],
            begins: [0; 1 << 8],
            headers: [0; MAX_BOARDS],
            tail: zeros(TAIL + READ_AHEAD),
            copied: 0,
        }
    }

    #[inline(always)]
    pub fn begin(&mut self) {
        self.counts[..MAX_RANKS].fill(0);
        self.copied = 0;
    }

    /// Returns a pointer to the `size` bytes from `at` on of `raw` behind which [`READ_AHEAD`] more
    /// can be read: where the batch ends too soon, to a copy that lives until the next event
    /// begins. `None` if the bytes are not there, or the copy has no room.
    #[inline(always)]
    pub fn readable(&mut self, raw: &[u8], at: usize, size: usize) -> Option<*const u8> {
        let there = at.saturating_add(size).saturating_add(READ_AHEAD) <= raw.len();
        if there {
            Some(raw.as_ptr().wrapping_add(at))
        } else {
            self.copy_tail(raw, at, size)
        }
    }

    #[cold]
    fn copy_tail(&mut self, raw: &[u8], at: usize, size: usize) -> Option<*const u8> {
        let from = raw.get(at..)?.get(..size)?;
        let to = self.tail.get(self.copied..TAIL)?;
        for (to, &byte) in to.get(..size)?.iter().zip(from) {
            to.set(byte);
        }
        let copy = self.tail[self.copied..].as_ptr().cast();
        self.copied += size;
        Some(copy)
    }
}
