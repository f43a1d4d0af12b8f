//! Lanes with hits, and their clusters, handed one by one to a consumer.

use super::shared::UnusualShared;
use crate::bank::headers::items_per_bank;
use crate::bank::{v4, v5};
use crate::clustering::{ClusterOptions, LaneClustering, NarrowSums, Step};
use crate::detector::BankVersion;
use crate::ranked::lane_tables::{LaneTables, REVERSED};
use crate::report::Count;
use crate::switches::Switches;
use simt::primitives::block_opportunistic_loop::ItemLoop;
use simt::primitives::block_size_binning::SizeBins;
use simt::{Block, FULL_MASK, Global, WARP_SIZE};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// v5: Σpos, below 2²². v4: strip of the lane, in quarters.
    pub position: u32,
    /// v5: W, 1…7874. v4: 0.
    pub weight: u32,
    /// Rank of its lane, with [`REVERSED`].
    pub rank: u16,
}

pub(super) trait Sink<B: Block> {
    /// True in the pass that makes the report.
    const REPORTS: bool;

    /// Takes the cluster of each lane that has one. The whole warp calls.
    fn take(&self, block: &B, found: Option<Found>);
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes<'a> {
    pub switches: Switches,
    pub raw: Global<'a, u8>,
    pub tables: &'a LaneTables<'a>,
    pub shared: UnusualShared,
    /// UT banks that have items.
    pub n_banks: u32,
}

impl Lanes<'_> {
    /// Lists the items with hits, binned by size, and reports strips (v5); returns the list's
    /// length. All threads call.
    #[inline(always)]
    pub fn list<B: Block>(&self, block: &B) -> u32 {
        let Self {
            switches, shared, ..
        } = self;
        let per_bank = items_per_bank(switches.version);
        let n_items = self.n_banks * per_bank;
        let bins = SizeBins::new(block, shared.bins, switches.bins, true);
        let mut strips = 0;
        let mut unconnected = 0;
        let mut first = block.warp_id() * WARP_SIZE;
        // Uniform in the warp, for the aggregated atomics.
        while first < n_items {
            let i = first + block.lane_id();
            let mut n = if i < n_items {
                u32::from(block.shared_load(shared.banks.n_hits, i))
            } else {
                0
            };
            if matches!(switches.version, BankVersion::V5) && n > 0 {
                if self.rank(block, i).is_some() {
                    strips += n;
                } else {
                    unconnected += n;
                    n = 0;
                    block.shared_store(shared.banks.n_hits, i, 0);
                }
            }
            bins.count(block, n);
            first += block.threads();
        }
        if matches!(switches.version, BankVersion::V5) {
            self.report_hits(block, strips, unconnected);
        }
        let n_listed = bins.sum(block);
        let mut first = block.warp_id() * WARP_SIZE;
        while first < n_items {
            let i = first + block.lane_id();
            let n = if i < n_items {
                u32::from(block.shared_load(shared.banks.n_hits, i))
            } else {
                0
            };
            let place = bins.place(block, n);
            if n > 0 {
                block.shared_store(shared.items, place, i as u16);
            }
            first += block.threads();
        }
        n_listed
    }

    #[inline(always)]
    #[track_caller]
    fn rank<B: Block>(&self, block: &B, i: u32) -> Option<u16> {
        let board = u32::from(block.shared_load(self.shared.banks.boards, i / v5::LANES));
        self.tables.rank(block, board * v5::LANES + i % v5::LANES)
    }

    /// Adds up what the lanes of each warp counted. The whole warp calls.
    #[inline(always)]
    fn report_hits<B: Block>(&self, block: &B, strips: u32, unconnected: u32) {
        let strips = block.redux_add_sync(FULL_MASK, strips);
        let unconnected = block.redux_add_sync(FULL_MASK, unconnected);
        if block.lane_id() == 0 {
            if strips > 0 {
                self.shared.counters.report(block, Count::Strips, strips);
            }
            if unconnected > 0 {
                self.shared
                    .counters
                    .report(block, Count::UnconnectedHits, unconnected);
            }
        }
    }

    /// Clusters the `n_listed` items of the list. All threads of the block call, with a barrier
    /// since the last time.
    #[inline(always)]
    pub fn cluster<B: Block, S: Sink<B>>(
        &self,
        block: &B,
        options: ClusterOptions,
        n_listed: u32,
        sink: &S,
    ) {
        // (The constructor's barrier is also the one between making the list and reading it.)
        let mut items = ItemLoop::opportunistic(block, self.shared.next_item, n_listed);
        while let Some(i) = items.fetch(block) {
            let item = (i < n_listed).then(|| u32::from(block.shared_load(self.shared.items, i)));
            match self.switches.version {
                BankVersion::V4 => self.copy_bank(block, item, sink),
                BankVersion::V5 => self.cluster_lane(block, options, item, sink),
            }
        }
    }

    #[inline(always)]
    fn cluster_lane<B: Block, S: Sink<B>>(
        &self,
        block: &B,
        options: ClusterOptions,
        item: Option<u32>,
        sink: &S,
    ) {
        let counters = self.shared.counters;
        let mut lane = LaneClustering::<NarrowSums>::default();
        let (mut n_hits, mut first_hit) = (0, 0);
        // (Only connected lanes are listed.)
        let rank = item.and_then(|item| self.rank(block, item));
        if let (Some(item), Some(_)) = (item, rank) {
            n_hits = u32::from(block.shared_load(self.shared.banks.n_hits, item));
            let payload = block.shared_load(self.shared.banks.payloads, item / v5::LANES);
            first_hit = payload + v5::lane_offset(item % v5::LANES);
        }
        let mut pair = 0u32;
        let mut i = 0;
        // A step a hit, and one for the end; a vote in converged code finds the lanes that emit.
        while block.ballot_sync(FULL_MASK, rank.is_some() && i <= n_hits) != 0 {
            let mut step = Step::default();
            if i < n_hits {
                // Two hits of a lane lie side by side; the second's place is there even if it is
                // not used.
                pair = if i % 2 == 0 {
                    block.load_bytes(self.raw, first_hit + v5::hit_offset(i))
                } else {
                    pair >> 16
                };
                step = lane.hit(v5::strip(pair as u16), v5::adc(pair as u16), options);
            } else if rank.is_some() && i == n_hits {
                step = lane.end(options);
                if S::REPORTS && lane.is_unsorted() {
                    counters.report(block, Count::UnsortedLanes, 1);
                }
            }
            if S::REPORTS && step.zero_charge {
                counters.report(block, Count::ZeroChargeClusters, 1);
            }
            if S::REPORTS && step.oversized {
                counters.report(block, Count::OversizedClusters, 1);
            }
            let found = rank.map(|rank| Found {
                position: step.position,
                weight: step.weight,
                rank,
            });
            sink.take(block, found.filter(|found| found.weight > 0));
            i += 1;
        }
    }

    #[inline(always)]
    fn copy_bank<B: Block, S: Sink<B>>(&self, block: &B, item: Option<u32>, sink: &S) {
        let (mut board, mut strips_per_hybrid, mut n_words, mut first_word) = (0, 1, 0, 0);
        if let Some(bank) = item {
            board = u32::from(block.shared_load(self.shared.banks.boards, bank));
            // (Known boards have strips; the guard spares the device a trap.)
            strips_per_hybrid = block.load(self.tables.strips_per_hybrid, board).max(1);
            n_words = u32::from(block.shared_load(self.shared.banks.n_hits, bank));
            first_word = block.shared_load(self.shared.banks.payloads, bank) + v4::HEADER;
        }
        let mut strips = 0;
        let mut unconnected = 0;
        let mut i = 0;
        while block.ballot_sync(FULL_MASK, i < n_words) != 0 {
            let mut found = None;
            if i < n_words {
                let word: u16 = block.load_bytes(self.raw, first_word + 2 * i);
                let index = v4::channel(word) / strips_per_hybrid;
                let rank = if index < v5::LANES {
                    self.tables.rank(block, board * v5::LANES + index)
                } else {
                    None
                };
                strips += u32::from(rank.is_some());
                unconnected += u32::from(rank.is_none());
                let position =
                    (v4::channel(word) - index * strips_per_hybrid) << 2 | v4::fraction(word);
                found = rank.map(|rank| Found {
                    position,
                    weight: 0,
                    rank,
                });
            }
            sink.take(block, found);
            i += 1;
        }
        if S::REPORTS {
            self.report_hits(block, strips, unconnected);
        }
    }
}

impl Found {
    #[inline(always)]
    pub const fn rank(self) -> u32 {
        (self.rank & !REVERSED) as u32
    }

    #[inline(always)]
    pub const fn is_reversed(self) -> bool {
        self.rank & REVERSED != 0
    }
}
