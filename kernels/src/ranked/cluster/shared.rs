//! The kernel's shared memory.

use super::lane::Entry;
use crate::ranked::tables::{MAX_BOARDS, MAX_GROUPS, MAX_RANKS};
use crate::ranked::{PARTS, THREADS};
use simt::{Shared, SharedLayout, WARP_SIZE};

/// Chunks of a window: one for each warp lane.
pub(super) const CHUNKS: u32 = WARP_SIZE;

/// Strips of a window.
pub(super) const WINDOW: u32 = CHUNKS * WARP_SIZE;

pub(super) const PLACE_WORDS: u32 = 6;

#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterShared {
    /// By rank, the [descriptor](super::lane::Found) of a lane with hits; then, from each warp's
    /// first rank on, its [lanes](super::lane::Listed).
    pub lanes: Shared<Entry>,
    /// By chunk of 32 strips, [`CHUNKS`] and one more per warp: strips that begin a lane.
    pub begins: Shared<u32>,
    pub boards_seen: Shared<u32>,
    /// Complement of the lowest rank of each group with a strip that may lie above a later lane.
    pub lowest_high: Shared<u32>,
    /// One more than the highest rank of each group with a strip that may lie below an earlier
    /// lane.
    pub highest_low: Shared<u32>,
    /// Clusters of all warps before each, and of all.
    pub before: Shared<u32>,
    /// First cluster of each group, among those of its warp.
    pub firsts: Shared<u32>,
    /// Strips of all warps.
    pub n_strips: Shared<u32>,
    /// Not 0: a strip is unusual.
    pub unusual_strip: Shared<u32>,
    /// Not 0: a bank is unusual.
    pub unusual_bank: Shared<u32>,
    /// The event's [place](super::headers::EventPlace).
    pub place: Shared<u32>,
}

/// Room for descriptors: a multiple of the threads, so that clearing them needs no test.
const ROOM: u32 = MAX_RANKS.next_multiple_of(THREADS);

/// A thread of each part clears a word of the boards.
const _: () = assert!(MAX_BOARDS.div_ceil(32) == PARTS && THREADS == PARTS * CHUNKS);

impl ClusterShared {
    #[inline(always)]
    pub const fn layout() -> (Self, u32) {
        let mut layout = SharedLayout::new();
        let shared = Self {
            lanes: layout.array(ROOM),
            begins: layout.array(PARTS * (CHUNKS + 1)),
            boards_seen: layout.array(MAX_BOARDS.div_ceil(32)),
            lowest_high: layout.array(MAX_GROUPS),
            highest_low: layout.array(MAX_GROUPS),
            before: layout.array(PARTS + 1),
            firsts: layout.array(MAX_GROUPS),
            n_strips: layout.array(1),
            unusual_strip: layout.array(1),
            unusual_bank: layout.array(1),
            place: layout.array(PLACE_WORDS),
        };
        (shared, layout.bytes())
    }
}

/// Bytes of shared memory a block needs.
pub const fn cluster_shared_bytes() -> u32 {
    ClusterShared::layout().1
}
