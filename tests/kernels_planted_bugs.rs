//! Bugs planted into the real kernels, which the executor must catch whatever the schedule.
//!
//! The kernels stay as they are: what is wrong is the door they go through. [`Faulty`] passes everything on to the
//! executor's block, but for one thing, as if the kernel's source lacked a barrier or had a plain add for an atomic.

mod suite;

use std::cell::Cell;
use std::panic::Location;

use suite::events::{Bank, allen_batch, v5_payload};
use ut_decoding::backend::emulated::{Executor, Fault, Violation};
use ut_decoding::detector::BankVersion;
use ut_decoding::{DetectorTables, EventBatch, Grouping};
use ut_kernels::bank::layout::Batch;
use ut_kernels::block::{Block, FULL_MASK, Global, GlobalMut, Plain, Scalar, Shared, SharedLayout};
use ut_kernels::cluster_and_predecode::{
    ClusterInput, ClusterOutput, cluster_and_predecode, cluster_and_predecode_shared_bytes,
};
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::count_hits::{CountOutput, Item, count_hits, count_hits_shared_bytes, items_capacity};
use ut_kernels::detector::LANES_PER_BOARD;
use ut_kernels::hit::Cluster;
use ut_kernels::primitives::opportunistic_loop::ItemLoop;
use ut_kernels::primitives::prefix_sum::block_exclusive;
use ut_kernels::primitives::segmented_sort::{Segment, warp_sort};
use ut_kernels::report::N_COUNTS;
use ut_kernels::switches::{BatchLayout, Switches};
use ut_kernels::tables::Tables;

/// What is wrong with a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// Nothing.
    None,
    /// The n-th block barrier that a thread comes to, from 0, is not there.
    NoBarrier(u32),
    /// The n-th warp barrier is not there.
    NoWarpBarrier(u32),
    /// Shared atomics load, add and store.
    PlainAdd,
    /// Shuffles name all lanes, whoever is there.
    FullShuffleMask,
    /// Shuffles name the lanes that happen to be together.
    ActiveShuffleMask,
}

struct Faulty<'a, B> {
    inner: &'a B,
    bug: Bug,
    barriers: Cell<u32>,
    warp_barriers: Cell<u32>,
}

impl<'a, B: Block> Faulty<'a, B> {
    fn new(inner: &'a B, bug: Bug) -> Self {
        Self { inner, bug, barriers: Cell::new(0), warp_barriers: Cell::new(0) }
    }

    #[track_caller]
    fn shuffle_mask(&self, mask: u32) -> u32 {
        match self.bug {
            Bug::FullShuffleMask => FULL_MASK,
            Bug::ActiveShuffleMask => self.inner.active_mask(),
            _ => mask,
        }
    }
}

impl<B: Block> Block for Faulty<'_, B> {
    fn thread_idx_x(&self) -> u32 {
        self.inner.thread_idx_x()
    }
    fn thread_idx_y(&self) -> u32 {
        self.inner.thread_idx_y()
    }
    fn block_dim_x(&self) -> u32 {
        self.inner.block_dim_x()
    }
    fn block_dim_y(&self) -> u32 {
        self.inner.block_dim_y()
    }
    fn block_idx_x(&self) -> u32 {
        self.inner.block_idx_x()
    }
    fn grid_dim_x(&self) -> u32 {
        self.inner.grid_dim_x()
    }
    fn lane_id(&self) -> u32 {
        self.inner.lane_id()
    }
    fn lanemask_lt(&self) -> u32 {
        self.inner.lanemask_lt()
    }
    #[track_caller]
    fn sync_threads(&self) {
        let n = self.barriers.replace(self.barriers.get() + 1);
        if self.bug != Bug::NoBarrier(n) {
            self.inner.sync_threads();
        }
    }
    #[track_caller]
    fn sync_warp(&self, mask: u32) {
        let n = self.warp_barriers.replace(self.warp_barriers.get() + 1);
        if self.bug != Bug::NoWarpBarrier(n) {
            self.inner.sync_warp(mask);
        }
    }
    #[track_caller]
    fn ballot_sync(&self, mask: u32, predicate: bool) -> u32 {
        self.inner.ballot_sync(mask, predicate)
    }
    #[track_caller]
    fn shuffle_up_sync(&self, mask: u32, value: u32, delta: u32) -> u32 {
        self.inner.shuffle_up_sync(self.shuffle_mask(mask), value, delta)
    }
    #[track_caller]
    fn shuffle_down_sync(&self, mask: u32, value: u32, delta: u32) -> u32 {
        self.inner.shuffle_down_sync(self.shuffle_mask(mask), value, delta)
    }
    #[track_caller]
    fn shuffle_idx_sync(&self, mask: u32, value: u32, lane: u32) -> u32 {
        self.inner.shuffle_idx_sync(self.shuffle_mask(mask), value, lane)
    }
    #[track_caller]
    fn shuffle_xor_sync(&self, mask: u32, value: u32, lane_mask: u32) -> u32 {
        self.inner.shuffle_xor_sync(self.shuffle_mask(mask), value, lane_mask)
    }
    #[track_caller]
    fn match_any_sync(&self, mask: u32, value: u32) -> u32 {
        self.inner.match_any_sync(mask, value)
    }
    #[track_caller]
    fn redux_add_sync(&self, mask: u32, value: u32) -> u32 {
        self.inner.redux_add_sync(mask, value)
    }
    #[track_caller]
    fn active_mask(&self) -> u32 {
        self.inner.active_mask()
    }
    #[track_caller]
    fn load<T: Plain>(&self, view: Global<'_, T>, i: u32) -> T {
        self.inner.load(view, i)
    }
    #[track_caller]
    fn load_bytes<T: Scalar>(&self, view: Global<'_, u8>, at: u32) -> T {
        self.inner.load_bytes(view, at)
    }
    #[track_caller]
    fn load_mut<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32) -> T {
        self.inner.load_mut(view, i)
    }
    #[track_caller]
    fn store<T: Plain>(&self, view: GlobalMut<'_, T>, i: u32, value: T) {
        self.inner.store(view, i, value);
    }
    #[track_caller]
    fn atomic_add(&self, view: GlobalMut<'_, u32>, i: u32, value: u32) -> u32 {
        self.inner.atomic_add(view, i, value)
    }
    #[track_caller]
    fn atomic_or(&self, view: GlobalMut<'_, u32>, i: u32, value: u32) -> u32 {
        self.inner.atomic_or(view, i, value)
    }
    #[track_caller]
    fn shared_load<T: Scalar>(&self, array: Shared<T>, i: u32) -> T {
        self.inner.shared_load(array, i)
    }
    #[track_caller]
    fn shared_store<T: Scalar>(&self, array: Shared<T>, i: u32, value: T) {
        self.inner.shared_store(array, i, value);
    }
    #[track_caller]
    fn shared_atomic_add(&self, array: Shared<u32>, i: u32, value: u32) -> u32 {
        if self.bug == Bug::PlainAdd {
            let before = self.inner.shared_load(array, i);
            self.inner.shared_store(array, i, before.wrapping_add(value));
            return before;
        }
        self.inner.shared_atomic_add(array, i, value)
    }
    #[track_caller]
    fn shared_atomic_min(&self, array: Shared<u32>, i: u32, value: u32) -> u32 {
        self.inner.shared_atomic_min(array, i, value)
    }
    #[track_caller]
    fn shared_atomic_or(&self, array: Shared<u32>, i: u32, value: u32) -> u32 {
        self.inner.shared_atomic_or(array, i, value)
    }
}

/// One event on a synthetic detector, and what the kernels make of it.
struct Setup {
    tables: DetectorTables,
    batch: EventBatch,
    items: Vec<u64>,
    n_items: Vec<u32>,
    strip_counts: Vec<u32>,
    report: Vec<u32>,
}

const SWITCHES: Switches = Switches::production(BankVersion::V5, BatchLayout::Allen);
const OPTIONS: ClusterOptions = ClusterOptions { flags: ClusterOptions::CLUSTERING, max_size: 128 };

impl Setup {
    /// Hits of several sizes on every lane of most boards. The last bank's last row is full: what lies behind its last
    /// hit is the end of the batch.
    fn new() -> Self {
        let (boards, geometry) = ut_decoding::synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("a sound detector");
        let n_slots = tables.slots.len();
        let last_board = n_slots / LANES_PER_BOARD - 1;
        let event: Vec<Bank> = (0..=last_board)
            .filter(|board| board % 7 != 3 || *board == last_board)
            .map(|board| {
                let lane = |lane: usize| {
                    let n = if board == last_board { 2 } else { (board * 5 + lane * 3) % 9 };
                    (0..n as u16).map(|i| (3 * i + lane as u16, 5)).collect()
                };
                let payload = v5_payload(&std::array::from_fn(lane));
                Bank { kind: 66, version: 4, source_id: board as u16, payload }
            })
            .collect();
        Self {
            batch: allen_batch(&[event]),
            items: vec![0; n_slots],
            n_items: vec![0; 1],
            strip_counts: vec![0; tables.n_groups],
            report: vec![0; N_COUNTS],
            tables,
        }
    }

    fn tables(tables: &DetectorTables) -> Tables<'_> {
        Tables {
            slots: Global::from_slice(&tables.slots),
            board_lanes: Global::from_slice(&[]),
            groups: Global::from_slice(&[]),
            sectors: Global::from_slice(&tables.sectors),
            strips_per_hybrid: Global::from_slice(&tables.boards.strips_per_hybrid),
            layer_groups: Global::from_slice(&[]),
            n_groups: tables.n_groups as u32,
        }
    }

    fn count(&mut self, seed: u64, bug: Bug) -> Result<(), Violation> {
        let mut executor = Executor::new(seed);
        let tables = Self::tables(&self.tables);
        let batch = Batch {
            raw: Global::from_slice(&self.batch.raw),
            offsets: Global::from_slice(&self.batch.offsets),
            sizes: Global::from_slice(&self.batch.sizes),
            types: Global::from_slice(&self.batch.types),
            versions: Global::from_slice(&[]),
            has_versions: 0,
        };
        let output = CountOutput {
            strip_counts: executor.writable(&mut self.strip_counts),
            items: executor.writable(&mut self.items),
            n_items: executor.writable(&mut self.n_items),
            report: executor.writable(&mut self.report),
        };
        let shared = count_hits_shared_bytes(BankVersion::V5, tables.n_boards(), tables.n_groups);
        executor
            .launch("count_hits", 1, (64, 1), shared, |block| {
                count_hits(&Faulty::new(block, bug), SWITCHES, &batch, &tables, &output);
            })
            .map(|_| ())
    }

    fn cluster(&mut self, seed: u64, bug: Bug) -> Result<(), Violation> {
        let mut executor = Executor::new(seed);
        let tables = Self::tables(&self.tables);
        let mut offsets = vec![0];
        for count in &self.strip_counts {
            offsets.push(offsets.last().unwrap_or(&0) + count);
        }
        let mut clusters = vec![Cluster::default(); offsets[offsets.len() - 1] as usize];
        let (mut cluster_counts, mut status) = (vec![0; tables.n_groups as usize], vec![0]);
        let input = ClusterInput {
            raw: Global::from_slice(&self.batch.raw),
            items: Global::from_slice(&self.items),
            n_items: Global::from_slice(&self.n_items),
            strip_offsets: Global::from_slice(&offsets),
        };
        let output = ClusterOutput {
            clusters: executor.writable(&mut clusters),
            cluster_counts: executor.writable(&mut cluster_counts),
            report: executor.writable(&mut self.report),
            status: executor.writable(&mut status),
        };
        assert_eq!(self.items.len() as u32, items_capacity(BankVersion::V5, tables.n_boards()));
        let shared = cluster_and_predecode_shared_bytes(tables.n_groups);
        executor
            .launch("cluster_and_predecode", 1, (32, 2), shared, |block| {
                cluster_and_predecode(&Faulty::new(block, bug), SWITCHES, OPTIONS, &input, &tables, &output);
            })
            .map(|_| ())
    }
}

const SEEDS: std::ops::Range<u64> = 0..8;

fn file_of(violation: &Violation) -> &'static str {
    violation.location.map_or("", Location::file)
}

#[test]
fn the_kernels_run_clean_through_a_sound_door() {
    let mut setup = Setup::new();
    for seed in SEEDS {
        setup.count(seed, Bug::None).unwrap();
        setup.cluster(seed, Bug::None).unwrap();
    }
}

#[test]
fn no_barrier_of_the_counting_kernel_can_go() {
    // Banks that are not all there, in the last and in the first chunk of 64: threads must learn of each other's.
    let mut late = Setup::new();
    late.batch.raw.pop();
    let mut early = Setup::new();
    early.batch.raw.truncate(early.batch.raw.len() / 5);
    // Before the banks; two for each of three chunks; before the lanes; three for the list.
    let n_barriers = 1 + 2 * 3 + 1 + 3;
    for n in 0..n_barriers {
        for seed in SEEDS {
            let violation = late.count(seed, Bug::NoBarrier(n)).and(early.count(seed, Bug::NoBarrier(n)));
            let Err(violation) = violation else { panic!("barrier {n} is missing, seed {seed}") };
            let text = violation.to_string();
            let caught = matches!(violation.fault, Fault::Race { .. } | Fault::UnwrittenShared { .. });
            assert!(caught && text.starts_with("kernel count_hits, block 0, warp "), "barrier {n}: {text}");
        }
    }
    assert_eq!(late.count(0, Bug::NoBarrier(n_barriers)), Ok(()), "all of them were tried");
}

#[test]
fn no_barrier_of_the_clustering_kernel_can_go() {
    let mut setup = Setup::new();
    setup.count(0, Bug::None).unwrap();
    for n in 0..2 {
        for seed in SEEDS {
            let violation = setup.cluster(seed, Bug::NoBarrier(n)).expect_err("a barrier is missing");
            let caught = matches!(violation.fault, Fault::Race { .. } | Fault::UnwrittenShared { .. });
            assert!(caught, "barrier {n}: {violation}");
        }
    }
    assert_eq!(setup.cluster(0, Bug::NoBarrier(2)), Ok(()), "all of them were tried");
}

#[test]
fn a_counter_that_is_initialised_late_is_caught() {
    // The opportunistic loop without its barrier: a fast warp adds to a counter that is not set yet, as it was in the
    // released code.
    let next = SharedLayout::new().array(1);
    for seed in 0..30 {
        let violation = Executor::new(seed)
            .launch("late", 1, (32, 4), 8, |block| {
                let door = Faulty::new(block, Bug::NoBarrier(0));
                let mut items = ItemLoop::opportunistic(&door, next, 1000);
                while items.fetch(&door).is_some() {}
            })
            .expect_err("nothing orders the counter's first value");
        assert!(file_of(&violation).ends_with("primitives/opportunistic_loop.rs"), "{violation}");
        match violation.fault {
            Fault::UnwrittenShared { byte: 0, size: 4 } => {}
            Fault::Race { memory: "shared byte", place: 0, ref other, .. } => {
                assert!(other.contains("opportunistic_loop.rs"), "{violation}");
            }
            _ => panic!("{violation}"),
        }
    }
}

#[test]
fn a_removed_barrier_of_or_between_block_scans_is_caught() {
    let totals = SharedLayout::new().array(32);
    for bug in [Bug::NoBarrier(0), Bug::NoBarrier(1), Bug::NoBarrier(2)] {
        for seed in 0..30 {
            let violation = Executor::new(seed)
                .launch("scan", 1, (128, 1), 128, |block| {
                    let door = Faulty::new(block, bug);
                    let (before, _) = block_exclusive(&door, totals, 1);
                    door.sync_threads();
                    block_exclusive(&door, totals, before);
                })
                .expect_err("a barrier is missing");
            assert!(file_of(&violation).ends_with("primitives/prefix_sum.rs"), "{violation}");
            assert!(matches!(violation.fault, Fault::Race { .. } | Fault::UnwrittenShared { .. }), "{violation}");
        }
    }
}

#[test]
fn a_removed_warp_barrier_of_the_sort_is_caught() {
    let keys: Vec<u64> = (0..200).map(|i| i * 7919 % 211).collect();
    for n in 0..3 {
        for seed in 0..10 {
            let (mut a, mut b) = (vec![0u32; 200], vec![0u32; 200]);
            let mut executor = Executor::new(seed);
            let (a, b) = (executor.writable(&mut a), executor.writable(&mut b));
            let segment = Segment { keys: Global::from_slice(&keys), start: 0, len: 200 };
            let violation = executor
                .launch("sort", 1, (32, 1), 0, |block| {
                    let door = Faulty::new(block, Bug::NoWarpBarrier(n));
                    warp_sort(&door, &segment, 32, a, b, |i| i);
                })
                .expect_err("a warp barrier is missing");
            assert!(matches!(violation.fault, Fault::Race { memory: "global element", .. }), "{violation}");
        }
    }
}

#[test]
fn a_plain_add_instead_of_an_atomic_is_caught() {
    for seed in SEEDS {
        let mut setup = Setup::new();
        let violation = setup.count(seed, Bug::PlainAdd).expect_err("lanes add at once");
        assert!(matches!(violation.fault, Fault::Race { memory: "shared byte", .. }), "{violation}");
        setup.count(seed, Bug::None).unwrap();
        let violation = setup.cluster(seed, Bug::PlainAdd).expect_err("lanes add at once");
        let text = violation.to_string();
        assert!(matches!(violation.fault, Fault::Race { memory: "shared byte", .. }), "{text}");
        assert!(text.starts_with("kernel cluster_and_predecode, block 0, warp "), "{text}");
        assert!(text.contains(" races with the "), "{text}");
    }
}

#[test]
fn a_wrong_shuffle_mask_is_caught() {
    let mut setup = Setup::new();
    setup.count(0, Bug::None).unwrap();
    for seed in SEEDS {
        let violation = setup.cluster(seed, Bug::FullShuffleMask).expect_err("not all lanes emit");
        assert!(file_of(&violation).ends_with("primitives/aggregated_atomics.rs"), "{violation}");
        let Fault::DivergentCollective { operation, mask, .. } = violation.fault else { panic!("{violation}") };
        assert_eq!((operation, mask), ("shuffle_idx_sync", FULL_MASK));
    }
    // Who relies on the lanes that happen to be together fails as well: they are other ones each time.
    for seed in SEEDS {
        let violation = setup.cluster(seed, Bug::ActiveShuffleMask).expect_err("luck does not hold");
        let caught = matches!(violation.fault, Fault::SourceNotInMask { .. } | Fault::DivergentCollective { .. });
        assert!(caught, "{violation}");
    }
}

#[test]
fn an_off_by_one_past_the_payload_is_caught() {
    // As if the counting kernel had counted one hit more in each lane: the last lane's lies behind the last row, where
    // the batch ends.
    let mut setup = Setup::new();
    setup.count(0, Bug::None).unwrap();
    for item in &mut setup.items[..setup.n_items[0] as usize] {
        let honest = Item::from_bits(*item);
        *item = Item { n_hits: honest.n_hits + 1, ..honest }.to_bits();
    }
    for count in &mut setup.strip_counts {
        *count *= 2;
    }
    let len = setup.batch.raw.len() as u32;
    for seed in SEEDS {
        let violation = setup.cluster(seed, Bug::None).expect_err("a read behind the batch");
        let Fault::OutOfBounds { memory, index, len: of, .. } = violation.fault else { panic!("{violation}") };
        assert_eq!((memory, of), ("read-only global", len));
        assert!(index + 2 > len, "{violation}");
        assert!(file_of(&violation).ends_with("cluster_and_predecode.rs"), "{violation}");
    }
}
