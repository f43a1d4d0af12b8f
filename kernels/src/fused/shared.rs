//! The kernel's shared memory.

use super::hit_tables::{MAX_BOARDS, MAX_GROUPS, MAX_RANKS};
use crate::detector::BankVersion;
use simt::{Shared, SharedLayout, WARP_SIZE};

/// Fewest strips of a tile: at least a whole lane. An event with more strips takes several tiles.
pub const MIN_STRIPS: u32 = 256;

/// Most strips of a tile, whose places are 16 bits.
pub const MAX_STRIPS: u32 = 4096;

pub(super) const PLACE_WORDS: u32 = 7;

pub(super) const TILE_WORDS: u32 = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct FusedShared {
    pub event: Shared<u32>,
    pub place: Shared<u32>,
    pub event_run: Shared<u32>,
    pub tile: Shared<u32>,
    /// Not 0: the event's hits are counted, and its first hit is known.
    pub is_counted: Shared<u32>,
    pub base: Shared<u32>,
    /// Not 0: the event is left to the other kernel.
    pub unusual: Shared<u32>,
    /// For the slow counting: the first broken bank, and the hits.
    pub first_broken: Shared<u32>,
    pub n_slow: Shared<u32>,
    pub warp_totals: Shared<u32>,
    /// Clusters of each warp's part of the tile.
    pub warp_hits: Shared<u32>,
    pub boards_seen: Shared<u32>,
    /// By bank: half-word of the batch at which the payload begins.
    pub payloads: Shared<u32>,
    /// v4, eight a bank: first cluster word of each lane.
    pub first_words: Shared<u8>,
    /// First hit of each group, and the end of the last.
    pub group_hits: Shared<u32>,
    /// Groups in which x does not rise, a bit each.
    pub bad_groups: Shared<u32>,
    /// By thread, and one more: lanes and strips before the thread's ranks.
    pub runs: Shared<u32>,
    /// The lanes with hits, in the order of their ranks.
    pub lanes: Shared<u32>,
    /// A bit a strip of the tile: set if it begins a lane.
    pub lane_begins: Shared<u32>,
    /// First strip of each cluster; those of a warp from the warp's first strip on.
    pub clusters: Shared<u16>,
    /// The strips of the tile, and one word that continues no cluster.
    pub strips: Shared<u32>,
    /// By rank, descriptor of the lane; in the place of `strips`, before them.
    pub ranks: Shared<u32>,
}

/// Sizes on which the layout depends. Other arrays have constant places, which take no registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Threads of a block.
    pub threads: u32,
    /// Strips of a tile.
    pub strips: u32,
}

/// Makes an array at least 1 long, so that accesses need no test for an empty one.
const fn at_least_1(len: u32) -> u32 {
    if len == 0 { 1 } else { len }
}

const CHUNKS: u32 = MAX_STRIPS / WARP_SIZE + 1;

impl FusedShared {
    #[inline(always)]
    pub const fn layout(version: BankVersion, room: Room) -> (Self, u32) {
        let Room { threads, strips } = room;
        let mut layout = SharedLayout::new();
        let event = layout.array(1);
        let place = layout.array(PLACE_WORDS);
        let event_run = layout.array(1);
        let tile = layout.array(TILE_WORDS);
        let is_counted = layout.array(1);
        let base = layout.array(1);
        let unusual = layout.array(1);
        let first_broken = layout.array(1);
        let n_slow = layout.array(1);
        let warp_totals = layout.array(WARP_SIZE);
        let warp_hits = layout.array(WARP_SIZE);
        let boards_seen = layout.array(MAX_BOARDS.div_ceil(32));
        // (The bank's field in a descriptor has eight bits.)
        let payloads = layout.array(256);
        let first_words = match version {
            BankVersion::V4 => layout.array(8 * MAX_BOARDS),
            BankVersion::V5 => layout.array(0),
        };
        let group_hits = layout.array(MAX_GROUPS + 1);
        let bad_groups = layout.array(MAX_GROUPS.div_ceil(32));
        let lane_begins = layout.array(CHUNKS);
        let lanes = layout.array(MAX_RANKS);
        let mut earlier = layout;
        let of_strips = layout.array(at_least_1(strips + 1));
        let ranks = earlier.array(MAX_RANKS);
        let mut layout = layout.or(earlier);
        let clusters = layout.array(at_least_1(strips));
        let runs = layout.array(threads + 1);
        let shared = Self {
            event,
            place,
            event_run,
            tile,
            is_counted,
            base,
            unusual,
            first_broken,
            n_slow,
            warp_totals,
            warp_hits,
            boards_seen,
            payloads,
            first_words,
            group_hits,
            bad_groups,
            runs,
            lanes,
            lane_begins,
            clusters,
            strips: of_strips,
            ranks,
        };
        (shared, layout.bytes())
    }
}

/// Bytes of shared memory a block needs.
pub const fn fused_shared_bytes(version: BankVersion, room: Room) -> u32 {
    FusedShared::layout(version, room).1
}
