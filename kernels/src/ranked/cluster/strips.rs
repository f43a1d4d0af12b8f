//! Stage 3: a thread per strip, and a record for each cluster.
//!
//! ```text
//! strip of the warp   0   1   2   3   4   5   6 …
//! begins (a lane)     1   .   .   1   .   .   .
//! key                40  41  47  88  89  90  95           rank and turned strip
//! found (a cluster)   1   .   1   1   .   .   1           the key does not follow the previous one
//! sums               40  ↘       88  ↘   ↘                charge and moment, added up from the cluster's first strip
//! record              .   .   ↖   ↖   .   .   ↖           written by the strip that begins the next cluster
//! ```
//!
//! **What a warp has.** A warp owns the strips of whole sector groups: some 210 of an event's 1700.
//! They are numbered in the order in which their hits come out: by rank, and inside a lane in the
//! direction in which x rises (the strip is *turned*). The bank has them lane by lane, and within a
//! lane by strip number. A list in shared memory, of the lanes that have strips, says where each
//! begins; a bit mask says which strips begin a lane.
//!
//! **Chunks.** The warp streams through its strips, 32 at a time: a *chunk*. So its 32 threads are
//! busy whatever the lengths of lanes and clusters, which have three strips and one or two in the
//! mean. A thread finds its lane by counting the bits of the mask up to its own, and its strip's
//! word, the only access to the bank, follows from its distance to the lane's first strip.
//!
//! **Clusters.** The key of a strip rises by one step to the neighbouring strip of its lane, and by
//! more to any other: one comparison with the previous strip's key finds where clusters begin,
//! across lanes and chunks. Charge and moment (charge times number of the strip in its cluster)
//! share a word, which a segmented scan adds up: most clusters have up to four strips, so two steps
//! nearly always do. Strips are counted from the cluster's first, so that 128 strips of any charge
//! fit.
//!
//! **Records.** The strip that begins a cluster writes the record of the previous cluster, which is
//! complete by then, at a place that the count of beginnings gives. So no thread waits for the end
//! of a cluster, which may lie chunks away. (The first writes a record of nothing: a warp takes one
//! place more than it has strips.) A chunk hands the next one six numbers, see [`Carried`].
//!
//! **Rules.** The warp notices strips that the policy has a rule for, and leaves the rule to
//! `cluster_unusual`: an unsorted lane is a key that does not rise, a cluster without charge a sum
//! of 0. One minimum collects them all, and defers the event.
//!
//! Bits of a chunk are in the registers of one warp lane: warp lane 5 keeps the bits of chunk 5.
//! Beyond [`WINDOW`] strips, a warp marks the next window by itself, without a barrier.

use super::lane::{Key, Listed};
use super::lists::{List, chunk, mark_window};
use super::shared::{CHUNKS, ClusterShared, WINDOW};
use crate::bank::{v4, v5};
use crate::detector::BankVersion;
use crate::ranked::tables::Bounds;
use crate::ranked::{Ordinary, Record, Work};

use simt::{Block, FULL_MASK, NonEmpty, WARP_SIZE};

/// Maximum number of strips of a cluster: for more, charge and moment do not fit a word.
pub const MAX_SIZE: u32 = 128;

/// From a key to the [`place`](Record) of a record.
const KEY_SHIFT: u32 = 3;

const _: () = assert!(
    Key::STEP >> KEY_SHIFT == Record::STRIP && Key::REVERSED >> KEY_SHIFT == Record::REVERSED
);

/// Unit of the moment in a word; the charge lies below.
const MOMENT: u32 = 1 << Record::WEIGHT;

pub(super) struct Strips<'a> {
    pub version: BankVersion,
    pub options: Ordinary,
    pub raw: NonEmpty<'a, u16>,
    /// [`Bounds`] of each rank.
    pub bounds: NonEmpty<'a, u32>,
    pub shared: &'a ClusterShared,
    pub work: &'a Work<'a>,
    pub list: List,
    /// First place of the warp in the pool.
    pub place: u32,
}

/// Clusters of a warp.
pub(super) struct Clustered {
    pub n: u32,
    /// First cluster of the thread's ranks.
    pub first: u32,
    /// A strip is unusual.
    pub is_unusual: bool,
}

/// What a warp carries from a chunk to the next.
struct Carried {
    /// In warp lane 0, key and sums of the chunk's last strip; in every other, of the strip below.
    key: u32,
    sums: u32,
    /// Number of strips of the last cluster before the chunk, minus one.
    size: u32,
    /// Place of the next record.
    next: u32,
    /// Place of the chunk's first lane in the list, minus one.
    lanes: u32,
    /// Minimum of numbers that are above 0 in ordinary events.
    least: i32,
}

impl Strips<'_> {
    /// Writes the records of all clusters. All threads of the warp call.
    #[inline(always)]
    pub fn cluster<B: Block>(&self, block: &B) -> Clustered {
        match self.version {
            BankVersion::V4 => self.copy_words(block),
            BankVersion::V5 => self.cluster_v5(block),
        }
    }

    #[inline(always)]
    fn cluster_v5<B: Block>(&self, block: &B) -> Clustered {
        let (n, warp_lane) = (self.list.n_strips, block.lane_id());
        // The key before the first is far from every other, so that the first strip begins a
        // cluster.
        let far = (2 * Key::STEP).wrapping_neg();
        let lanes = self.list.first_rank.wrapping_sub(1);
        // (Before the first cluster lies one of one strip, which is not unusual.)
        let mut carried = Carried {
            key: far,
            sums: 1,
            size: 0,
            next: self.place,
            lanes,
            least: 1,
        };
        let mut first = 0;
        let mut window = 0;
        // Uniform in the warp.
        while window < n {
            if window > 0 {
                mark_window(block, self.shared, &self.list, window);
            }
            // Of the chunk of the caller's number: first strips of lanes, then of clusters;
            // clusters that begin before.
            let mut bits = block.shared_load(self.shared.begins, chunk(block, warp_lane));
            let mut before = 0;
            let mut i = 0;
            while i < CHUNKS && window + i * WARP_SIZE < n {
                let begins = block.shuffle_idx_sync(FULL_MASK, bits, i);
                let n_before = carried.next;
                let found = self.chunk(block, &mut carried, begins, window + i * WARP_SIZE);
                (bits, before) = if warp_lane == i {
                    (found, n_before)
                } else {
                    (bits, before)
                };
                i += 1;
            }
            // If the thread's ranks begin in this window: the clusters before their chunk, and
            // those in it before them. A sector group may begin there, whose first hit stage 4
            // needs.
            let strip = self.list.first_strip.wrapping_sub(window);
            let of = strip / WARP_SIZE;
            let (bits, before) = (
                block.shuffle_idx_sync(FULL_MASK, bits, of),
                block.shuffle_idx_sync(FULL_MASK, before, of),
            );
            if strip < WINDOW {
                // (Of nothing if the thread's strips are behind the last.)
                let found = bits & ((1 << (strip % WARP_SIZE)) - 1);
                first = before
                    .wrapping_sub(self.place)
                    .wrapping_add(found.count_ones());
            }
            window += WINDOW;
        }
        // The last cluster ends with the last strip, whose key and sums the next lane has.
        if n > 0 && warp_lane == n % WARP_SIZE {
            let size = carried.size + 1 - (n.next_multiple_of(WARP_SIZE) - n);
            let least = self.close(block, Key(carried.key), carried.sums, size, carried.next);
            carried.least = carried.least.min(least);
        }
        let n_clusters = carried.next.wrapping_sub(self.place);
        let first = if self.list.first_strip < n {
            first
        } else {
            n_clusters
        };
        Clustered {
            n: n_clusters,
            first,
            is_unusual: carried.least <= 0,
        }
    }

    /// Takes the 32 strips from `first` on; returns those that begin a cluster.
    #[inline(always)]
    fn chunk<B: Block>(&self, block: &B, carried: &mut Carried, begins: u32, first: u32) -> u32 {
        let Self {
            options,
            shared,
            list,
            ..
        } = self;
        let (warp_lane, below) = (block.lane_id(), block.lanemask_lt());
        // The strip's lane, in which the strip is a word of the bank. Within a row of a bank two
        // words of a lane lie next to each other: hence `hit_half_words`.
        let strip = first + warp_lane;
        let is_there = strip < list.n_strips;
        let above = 31 - warp_lane;
        let lane = carried.lanes.wrapping_add((begins << above).count_ones());
        let lane = Listed(block.shared_load(shared.lanes, lane));
        // (Behind the last strip this is some word, of which nothing is used.)
        let at = lane
            .begin()
            .wrapping_add(v5::hit_half_words(lane.word(strip)));
        let word = u32::from(block.load_within(self.raw, at.min(self.last_word())));
        let key = lane.key(word);
        self.check_bounds(block, lane.rank(), key.turned_strip(), false, is_there);

        // Each thread compares its key with the key of the warp lane below. Warp lane 0 gets the
        // key of warp lane 31, which it keeps for the next chunk. (Behind the last strip nothing
        // begins: the last cluster is closed after the loop.)
        let rotated = block.shuffle_idx_sync(FULL_MASK, key.0, warp_lane.wrapping_sub(1));
        let key_before = if warp_lane == 0 { carried.key } else { rotated };
        carried.key = rotated;
        let step = key.0.wrapping_sub(key_before);
        let is_begin = (step != options.step) & is_there;
        let found = block.ballot_sync(FULL_MASK, is_begin);

        // Distance to the nearest beginning below: the number of the strip in its cluster, or for a
        // strip that begins a cluster, the size of the previous one. Without a beginning in this
        // chunk the cluster is still open from earlier ones.
        let found_below = found & below;
        let open = if found_below == 0 { carried.size } else { 0 };
        let size = found_below
            .leading_zeros()
            .wrapping_sub(above)
            .wrapping_add(open);
        let number = if is_begin { 0 } else { size };
        // Charge and moment of the strip, to which warp lane 0 adds those of an open cluster.
        // (What is added behind the last strip is part of no cluster.)
        let charge = v5::adc(word as u16);
        let continued = if warp_lane == 0 && !is_begin {
            carried.sums
        } else {
            0
        };
        let sums = charge
            .wrapping_mul(number.wrapping_mul(MOMENT) | 1)
            .wrapping_add(continued);
        let sums = segmented_sum(block, sums, number.min(warp_lane));
        let rotated = block.shuffle_idx_sync(FULL_MASK, sums, warp_lane.wrapping_sub(1));
        let sums_before = if warp_lane == 0 {
            carried.sums
        } else {
            rotated
        };
        carried.sums = rotated;
        // The previous cluster ends one strip below.
        if is_begin {
            let at = carried.next + found_below.count_ones();
            let least = self.close(block, Key(key_before), sums_before, size, at);
            carried.least = carried.least.min(least).min(step.cast_signed());
        }
        carried.size = found.leading_zeros() + if found == 0 { carried.size } else { 0 };
        carried.next = carried.next.wrapping_add(found.count_ones());
        carried.lanes = carried.lanes.wrapping_add(begins.count_ones());
        found
    }

    /// Last half-word of the batch.
    #[inline(always)]
    const fn last_word(&self) -> u32 {
        self.raw.view().len() - 1
    }

    /// Writes the record of a cluster of `size` strips to place `at` of the pool; `key` and `sums`
    /// are of its last strip. Returns a number that is above 0 if the cluster is ordinary.
    #[inline(always)]
    fn close<B: Block>(&self, block: &B, key: Key, sums: u32, size: u32, at: u32) -> i32 {
        let charge = (sums | self.options.least_charge).cast_signed();
        let least = charge.min(self.options.too_many.wrapping_sub(size).cast_signed());
        // (A key's lowest bits are 0.)
        let place = (key.0 >> KEY_SHIFT)
            .wrapping_sub(size.wrapping_mul(Record::STRIP))
            .wrapping_add(Record::STRIP + (self.list.first_rank << Record::RANK));
        let sums = if self.options.is_plain != 0 {
            core::hint::cold_path();
            size | (size.wrapping_mul(size.wrapping_sub(1)) / 2 * MOMENT)
        } else {
            sums
        };
        block.store(self.work.records, at, Record { place, sums });
        least
    }

    /// v4: every word is a cluster, which the front end has made, so that a record's place is the
    /// number of its strip. The words of a lane need not rise, and a word may even be of another
    /// lane than its neighbours: the first flags the group, the second makes the event unusual.
    #[inline(always)]
    fn copy_words<B: Block>(&self, block: &B) -> Clustered {
        let Self { shared, list, .. } = self;
        let warp_lane = block.lane_id();
        let up_to_lane = block.lanemask_lt() | 1 << warp_lane;
        let n = list.n_strips;
        let mut lanes = list.first_rank.wrapping_sub(1);
        let mut last = 0;
        let mut is_unusual = false;
        let mut window = 0;
        // Uniform in the warp.
        while window < n {
            if window > 0 {
                // The marks are read before the next window's are made.
                block.sync_warp(FULL_MASK);
                mark_window(block, shared, list, window);
            }
            let bits = block.shared_load(shared.begins, chunk(block, warp_lane));
            let chunks = (n - window).div_ceil(WARP_SIZE).min(CHUNKS);
            let mut i = 0;
            while i < chunks {
                let begins = block.shuffle_idx_sync(FULL_MASK, bits, i);
                let strip = window + i * WARP_SIZE + warp_lane;
                let is_there = strip < n;
                let lane = lanes.wrapping_add((begins & up_to_lane).count_ones());
                let lane = Listed(block.shared_load(shared.lanes, lane));
                let at = lane.begin().wrapping_add(lane.word(strip));
                let word = block.load_within(self.raw, at.min(self.last_word()));
                let position = u32::from(word) & 0x7FF;
                let turned = lane.turned(position);
                let key = lane.rank() << 11 | turned;
                let below = block.shuffle_idx_sync(FULL_MASK, key, warp_lane.wrapping_sub(1));
                // (One more than the key, so that no key comes before the first.)
                let key_before = if warp_lane == 0 { last } else { below + 1 };
                last = below + 1;
                let bounds =
                    self.check_bounds(block, lane.rank(), turned >> 2, key < key_before, is_there);
                // (In an unsorted bank, the word may be of another lane.)
                is_unusual |= is_there & (v4::lane(word) != bounds.lane());
                if is_there {
                    let record = Record::of_v4(position, list.first_rank + lane.rank());
                    block.store(self.work.records, self.place + 1 + strip, record);
                }
                lanes = lanes.wrapping_add(begins.count_ones());
                i += 1;
            }
            window += WINDOW;
        }
        Clustered {
            n,
            first: list.first_strip,
            is_unusual,
        }
    }

    /// Notes a strip whose hit may lie among those of other lanes; or any, if its lane is
    /// `unsorted`.
    #[inline(always)]
    fn check_bounds<B: Block>(
        &self,
        block: &B,
        rank: u32,
        turned: u32,
        unsorted: bool,
        is_there: bool,
    ) -> Bounds {
        let rank = self.list.first_rank + rank;
        let bounds = Bounds(block.load_within(self.bounds, rank));
        if is_there & (bounds.is_beyond(turned) | unsorted) {
            // (Rare.)
            let both = unsorted || bounds.is_misplaced(turned);
            if turned >= bounds.high() || both {
                block.shared_atomic_max(self.shared.lowest_high, bounds.group(), !rank);
            }
            if turned < bounds.low() || both {
                block.shared_atomic_max(self.shared.highest_low, bounds.group(), rank + 1);
            }
        }
        bounds
    }
}

/// Adds up `sums` over the warp lanes from `distance` below the caller's on. All threads of the
/// warp call.
#[inline(always)]
fn segmented_sum<B: Block>(block: &B, mut sums: u32, distance: u32) -> u32 {
    let mut step = |delta: u32| {
        let below = block.shuffle_up_sync(FULL_MASK, sums, delta);
        sums = sums.wrapping_add(if distance >= delta { below } else { 0 });
    };
    step(1);
    step(2);
    // Uniform in the warp.
    if block.ballot_sync(FULL_MASK, distance >= 4) != 0 {
        step(4);
        step(8);
        step(16);
    }
    sums
}
