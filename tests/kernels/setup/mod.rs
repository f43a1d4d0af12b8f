//! Runs the first kernels on one event, one launch at a time, on a block that may have a fault.

mod faulty;
pub mod ranked;

pub use faulty::{Bug, Faulty, is_race};

use simt::executor::{Executor, Violation};
use simt::{Global, Kernel};
use ut_decoding::detector::BankVersion;
use ut_decoding::{DetectorTables, EventBatch};
use ut_kernels::allen::cluster_and_predecode::{
    ClusterAndPredecode, ClusterInput, ClusterOutput, cluster_and_predecode_shared_bytes,
};
use ut_kernels::allen::count_hits::{
    CountHits, CountOutput, count_hits_shared_bytes, items_capacity,
};
use ut_kernels::bank::layout::Batch;
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::detector::LANES_PER_BOARD;
use ut_kernels::hit::Cluster;
use ut_kernels::report::N_COUNTS;
use ut_kernels::switches::{Layout, Switches};
use ut_kernels::tables::Tables;

use crate::suite::events::{allen_batch, tables, v5, v5_payload};

/// One event of a synthetic detector, with the results of the kernels.
pub struct Setup {
    pub tables: DetectorTables,
    pub batch: EventBatch,
    /// Features of the kernels: as in production, unless a test changes them.
    pub switches: Switches,
    pub items: Vec<u64>,
    pub n_items: Vec<u32>,
    pub strip_counts: Vec<u32>,
    pub report: Vec<u32>,
    /// Output of `cluster`, up to `status`.
    pub clusters: Vec<Cluster>,
    pub cluster_counts: Vec<u32>,
    pub status: u32,
}

/// Element of `clusters` to which no kernel wrote.
pub const NO_CLUSTER: Cluster = Cluster {
    position: u32::MAX,
    weight: u16::MAX,
    slot: u16::MAX,
};

pub const SWITCHES: Switches = Switches::production(BankVersion::V5, Layout::Allen);
const OPTIONS: ClusterOptions = ClusterOptions {
    flags: ClusterOptions::CLUSTERING,
    max_size: 128,
};

/// Returns the view of a batch of v5 banks that kernels take.
fn view(batch: &EventBatch) -> Batch<'_> {
    Batch {
        raw: Global::from_slice(&batch.raw),
        offsets: Global::from_slice(&batch.offsets),
        sizes: Global::from_slice(&batch.sizes),
        types: Global::from_slice(&batch.types),
        versions: Global::from_slice(&[]),
        version: u32::from(BankVersion::V5.byte()),
        first_event: 0,
    }
}

impl Setup {
    /// Makes an event with clusters of several sizes on every lane of most boards. The last row of
    /// the last bank is full, so that the batch ends with the last hit.
    pub fn new() -> Self {
        let tables = tables(BankVersion::V5);
        let n_slots = tables.slots().len();
        let last_board = n_slots / LANES_PER_BOARD - 1;
        let bank = |board: usize| {
            let lane = |lane: usize| {
                let n = if board == last_board {
                    2
                } else {
                    (board * 5 + lane * 3) % 9
                };
                (0..n as u16).map(|i| (3 * i + lane as u16, 5)).collect()
            };
            v5(board as u16, &v5_payload(&std::array::from_fn(lane)))
        };
        let event = (0..=last_board)
            .filter(|board| board % 7 != 3 || *board == last_board)
            .map(bank)
            .collect();
        Self {
            batch: allen_batch(&[event]),
            switches: SWITCHES,
            items: vec![0; n_slots],
            n_items: vec![0; 1],
            strip_counts: vec![0; tables.n_groups()],
            report: vec![0; N_COUNTS],
            clusters: Vec::new(),
            cluster_counts: Vec::new(),
            status: 0,
            tables,
        }
    }

    fn tables(tables: &DetectorTables) -> Tables<'_> {
        Tables {
            slots: Global::from_slice(tables.slots()),
            board_lanes: Global::from_slice(&[]),
            groups: Global::from_slice(&[]),
            sectors: Global::from_slice(tables.sectors()),
            strips_per_hybrid: Global::from_slice(&tables.boards().strips_per_hybrid),
            layer_groups: Global::from_slice(&[]),
            n_groups: tables.n_groups() as u32,
        }
    }

    pub fn count(&mut self, seed: u64, bug: Bug) -> Result<(), Violation> {
        let mut executor = Executor::new(seed);
        let tables = Self::tables(&self.tables);
        let batch = view(&self.batch);
        let switches = self.switches;
        let output = CountOutput {
            strip_counts: executor.writable(&mut self.strip_counts),
            items: executor.writable(&mut self.items),
            n_items: executor.writable(&mut self.n_items),
            report: executor.writable(&mut self.report),
        };
        let shared = count_hits_shared_bytes(BankVersion::V5, tables.n_boards(), tables.n_groups);
        executor
            .launch("count_hits", 1, (64, 1), shared, |block| {
                CountHits { switches }.run(&Faulty::new(block, bug), &(batch, tables, output));
            })
            .map(|_| ())
    }

    pub fn n_strips(&self) -> usize {
        self.strip_counts.iter().sum::<u32>() as usize
    }

    /// Runs the clustering kernel on the strips that `count` found, with room for all clusters.
    pub fn cluster(&mut self, seed: u64, bug: Bug) -> Result<(), Violation> {
        self.cluster_into(self.n_strips(), seed, bug)
    }

    /// Runs the clustering kernel on the strips that `count` found, with room for `capacity`
    /// clusters.
    pub fn cluster_into(&mut self, capacity: usize, seed: u64, bug: Bug) -> Result<(), Violation> {
        let mut executor = Executor::new(seed);
        let tables = Self::tables(&self.tables);
        let mut offsets = vec![0];
        for count in &self.strip_counts {
            offsets.push(offsets.last().unwrap_or(&0) + count);
        }
        let switches = self.switches;
        self.clusters = vec![NO_CLUSTER; capacity];
        self.cluster_counts = vec![u32::MAX; self.tables.n_groups()];
        let mut status = [0];
        let input = ClusterInput {
            raw: Global::from_slice(&self.batch.raw),
            items: Global::from_slice(&self.items),
            n_items: Global::from_slice(&self.n_items),
            strip_offsets: Global::from_slice(&offsets),
        };
        let output = ClusterOutput {
            clusters: executor.writable(&mut self.clusters),
            cluster_counts: executor.writable(&mut self.cluster_counts),
            report: executor.writable(&mut self.report),
            status: executor.writable(&mut status),
        };
        assert_eq!(
            self.items.len() as u32,
            items_capacity(BankVersion::V5, tables.n_boards())
        );
        let shared = cluster_and_predecode_shared_bytes(tables.n_groups);
        let result = executor.launch("cluster_and_predecode", 1, (32, 2), shared, |block| {
            let kernel = ClusterAndPredecode { switches };
            kernel.run(&Faulty::new(block, bug), &(OPTIONS, input, tables, output));
        });
        self.status = status[0];
        result.map(|_| ())
    }
}
