//! Third kernel (after the prefix sum over strips): clusters the lanes, and puts every cluster into
//! its group's range.
//!
//! One block per event, one thread per item of the list that `count_hits` made. A group's range
//! begins at the prefix sum over the *strips*, of which there are at least as many as clusters; the
//! next kernel closes the gaps. Each group has a counter in shared memory that begins at the
//! range's start: its increment is the cluster's place. The order inside a group depends on the
//! schedule; the sort settles it. With warp-aggregated atomics the hit loop is uniform in the warp,
//! because a mask must come from a vote in converged code.
//!
//! Launch: as many blocks as events, `cluster.block_x` × `cluster.block_y` threads,
//! [`cluster_and_predecode_shared_bytes`] of shared memory.

use crate::allen::count_hits::{Item, items_capacity, v4_slot};
use crate::bank::{v4, v5};
use crate::clustering::{ClusterOptions, LaneClustering, NarrowSums, Step, Sums, WideSums};
use crate::detector::BankVersion;
use crate::hit::Cluster;
use crate::report::{Count, N_COUNTS};
use crate::status::STRIPS_OVERFLOW;
use crate::switches::Switches;
use crate::tables::Tables;
use simt::primitives::block_opportunistic_loop::ItemLoop;
use simt::primitives::warp_aggregated_atomics;
use simt::{Block, FULL_MASK, Global, GlobalMut, Kernel, Shared, SharedLayout};

/// Input of the kernel, besides the tables.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClusterInput<'a> {
    /// The batch's bytes.
    pub raw: Global<'a, u8>,
    /// [`Item`]s, [`items_capacity`] an event.
    pub items: Global<'a, u64>,
    /// Items of each event.
    pub n_items: Global<'a, u32>,
    /// Exclusive prefix sum over the strips of all groups: `events * n_groups + 1`.
    pub strip_offsets: Global<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for ClusterInput<'_> {}

/// Output of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClusterOutput<'a> {
    /// The clusters, group by group, with gaps. As long as the batch has strips, or the batch is
    /// refused.
    pub clusters: GlobalMut<'a, Cluster>,
    /// Clusters of each group of each event.
    pub cluster_counts: GlobalMut<'a, u32>,
    /// `N_COUNTS` counters an event, begun by `count_hits`.
    pub report: GlobalMut<'a, u32>,
    /// One word, see [`status`](crate::status).
    pub status: GlobalMut<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for ClusterOutput<'_> {}

struct ClusterShared {
    next_item: Shared<u32>,
    next_place: Shared<u32>,
}

impl ClusterShared {
    #[inline(always)]
    const fn layout(n_groups: u32) -> (Self, u32) {
        let mut layout = SharedLayout::new();
        let shared = Self {
            next_item: layout.array(1),
            next_place: layout.array(n_groups),
        };
        (shared, layout.bytes())
    }
}

/// Bytes of shared memory a block needs.
pub const fn cluster_and_predecode_shared_bytes(n_groups: u32) -> u32 {
    ClusterShared::layout(n_groups).1
}

struct Emitter<'a, B> {
    block: &'a B,
    switches: Switches,
    next_place: Shared<u32>,
    output: ClusterOutput<'a>,
}

impl<B: Block> Emitter<'_, B> {
    /// Writes the cluster of each thread that has a group. The whole warp calls.
    #[inline(always)]
    fn emit(&self, group: Option<u32>, cluster: Cluster) {
        if self.switches.warp_atomics {
            let mask = self.block.ballot_sync(FULL_MASK, group.is_some());
            if let Some(group) = group {
                let place =
                    warp_aggregated_atomics::increment(self.block, mask, self.next_place, group);
                self.block.store(self.output.clusters, place, cluster);
            }
        } else {
            self.emit_alone(group, cluster);
        }
    }

    #[inline(always)]
    fn emit_alone(&self, group: Option<u32>, cluster: Cluster) {
        if let Some(group) = group {
            let place = self.block.shared_atomic_add(self.next_place, group, 1);
            self.block.store(self.output.clusters, place, cluster);
        }
    }

    /// Counts in global memory: these counts are rare, and hold no register so.
    #[inline(always)]
    #[track_caller]
    fn report(&self, count: Count) {
        let event = self.block.block_idx_x() * N_COUNTS as u32;
        self.block
            .atomic_add(self.output.report, event + count as u32, 1);
    }

    /// Returns true if any thread of the warp has work; with plain atomics, if this thread has.
    #[inline(always)]
    fn goes_on(&self, has_work: bool) -> bool {
        if self.switches.warp_atomics {
            self.block.ballot_sync(FULL_MASK, has_work) != 0
        } else {
            has_work
        }
    }
}

/// The kernel.
#[derive(Clone, Copy, Debug)]
pub struct ClusterAndPredecode {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for ClusterAndPredecode {
    const NAME: &'static str = "cluster_and_predecode";
    type Arguments<'a> = (
        ClusterOptions,
        ClusterInput<'a>,
        Tables<'a>,
        ClusterOutput<'a>,
    );

    #[inline(always)]
    fn run<B: Block>(
        self,
        block: &B,
        &(options, ref input, ref tables, ref output): &Self::Arguments<'_>,
    ) {
        let Self { switches } = self;
        let shared = ClusterShared::layout(tables.n_groups).0;
        let event = block.block_idx_x();
        let first_group = event * tables.n_groups;
        // Uniform in the block.
        let fits =
            block.load(input.strip_offsets, first_group + tables.n_groups) <= output.clusters.len();
        let mut group = block.thread();
        while group < tables.n_groups {
            let start = block.load(input.strip_offsets, first_group + group);
            block.shared_store(shared.next_place, group, start);
            group += block.threads();
        }
        let n_items = if fits {
            block.load(input.n_items, event)
        } else {
            0
        };
        if !fits && block.thread() == 0 {
            block.atomic_or(output.status, 0, STRIPS_OVERFLOW);
        }
        // (The constructor's barrier is also the one between setting the places and taking them.)
        let mut items = if switches.opportunistic {
            ItemLoop::opportunistic(block, shared.next_item, n_items)
        } else {
            block.sync_threads();
            ItemLoop::fixed(block, n_items)
        };
        let first_item = event * items_capacity(switches.version, tables.n_boards());
        let emitter = Emitter {
            block,
            switches,
            next_place: shared.next_place,
            output: *output,
        };
        while let Some(i) = items.fetch(block) {
            let item = if i < n_items {
                Item::from_bits(block.load(input.items, first_item + i))
            } else {
                EMPTY
            };
            match switches.version {
                BankVersion::V4 => copy_bank(&emitter, input, tables, item),
                BankVersion::V5 if switches.narrow_sums => {
                    cluster_lane::<NarrowSums, B>(&emitter, options, input, tables, item);
                }
                BankVersion::V5 => {
                    cluster_lane::<WideSums, B>(&emitter, options, input, tables, item);
                }
            }
        }
        // All clusters are placed.
        block.sync_threads();
        let mut group = block.thread();
        while group < tables.n_groups {
            let start = block.load(input.strip_offsets, first_group + group);
            let count = block.shared_load(shared.next_place, group) - start;
            block.store(output.cluster_counts, first_group + group, count);
            group += block.threads();
        }
    }
}

const EMPTY: Item = Item {
    first_hit: 0,
    n_hits: 0,
    slot: 0,
};

#[inline(always)]
fn cluster_lane<S: Sums, B: Block>(
    emitter: &Emitter<'_, B>,
    options: ClusterOptions,
    input: &ClusterInput<'_>,
    tables: &Tables<'_>,
    item: Item,
) {
    let block = emitter.block;
    let mut lane = LaneClustering::<S>::default();
    let mut group = 0;
    if item.n_hits > 0 {
        group = u32::from(tables.slot(block, emitter.switches, item.slot).group);
    }
    let mut i = 0;
    while emitter.goes_on(item.n_hits > 0 && i <= item.n_hits) {
        let mut step = Step::default();
        if i < item.n_hits {
            let word: u16 = block.load_bytes(input.raw, item.first_hit + v5::hit_offset(i));
            step = lane.hit(v5::strip(word), v5::adc(word), options);
        } else if i == item.n_hits {
            step = lane.end(options);
            if lane.is_unsorted() {
                emitter.report(Count::UnsortedLanes);
            }
        }
        if step.zero_charge {
            emitter.report(Count::ZeroChargeClusters);
        }
        if step.oversized {
            emitter.report(Count::OversizedClusters);
        }
        let cluster = Cluster {
            position: step.position,
            weight: step.weight as u16,
            slot: item.slot as u16,
        };
        emitter.emit((step.weight > 0).then_some(group), cluster);
        i += 1;
    }
}

#[inline(always)]
fn copy_bank<B: Block>(
    emitter: &Emitter<'_, B>,
    input: &ClusterInput<'_>,
    tables: &Tables<'_>,
    item: Item,
) {
    let block = emitter.block;
    let board = item.slot / v5::LANES;
    let mut strips_per_hybrid = 1;
    if item.n_hits > 0 {
        strips_per_hybrid = block.load(tables.strips_per_hybrid, board).max(1);
    }
    let mut i = 0;
    while emitter.goes_on(i < item.n_hits) {
        let mut group = None;
        let mut cluster = Cluster::default();
        if i < item.n_hits {
            let word: u16 = block.load_bytes(input.raw, item.first_hit + 2 * i);
            let index = v4::channel(word) / strips_per_hybrid;
            if let Some((slot, its_group)) = v4_slot(block, emitter.switches, tables, board, index)
            {
                group = Some(its_group);
                cluster = Cluster {
                    position: u32::from(word),
                    weight: 0,
                    slot: slot as u16,
                };
            }
        }
        emitter.emit(group, cluster);
        i += 1;
    }
}
