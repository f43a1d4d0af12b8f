//! A few events and the kernels of the ranked pipeline on them, on a block that may have a fault.

use simt::executor::{Executor, LaunchStats, Violation};
use simt::{Global, Kernel, Shape};
use ut_decoding::decoder::Parameters;
use ut_decoding::decoder::occupancy::{Architecture, Multiprocessors};
use ut_decoding::decoder::plan::{DeviceTables, Plan, most_records};
use ut_decoding::decoder::rank_tables::RankTables;
use ut_decoding::detector::BankVersion;
use ut_decoding::{DecodeOptions, DetectorTables, EventBatch, Grouping};
use ut_kernels::bank::layout::Batch;
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::detector::LANES_PER_BOARD;
use ut_kernels::hit::HitArrays;
use ut_kernels::ranked::cluster::Cluster;
use ut_kernels::ranked::gather::{GATHER_THREADS, GatherBanks, gather_blocks, gather_shared_bytes};
use ut_kernels::ranked::make_hits::{HitsInput, MakeHits, Written};
use ut_kernels::ranked::scan::Scan;
use ut_kernels::ranked::sort_groups::SortGroups;
use ut_kernels::ranked::unusual::ClusterUnusual;
use ut_kernels::ranked::{
    COUNTERS, FlaggedGroup, HEAD_WORDS, RankedInput, RankedOptions, Record, Work,
};
use ut_kernels::report::N_COUNTS;
use ut_kernels::switches::{Layout, Switches};

use super::{Bug, Faulty, view};
use crate::suite::events::{Event, allen_batch, mep_batch, tables_in, v5, v5_payload};

/// Kernel that has the bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum In {
    Gathering,
    Cluster,
    Unusual,
    Sort,
    Scan,
    MakeHits,
}

/// Memory between the kernels, as [`Work`] has it.
struct Memory {
    records: Vec<Record>,
    counters: [u32; COUNTERS],
    heads: Vec<u32>,
    starts: Vec<u32>,
    n_hits: Vec<u32>,
    unusual: Vec<u32>,
    flagged: Vec<FlaggedGroup>,
    status: [u32; 1],
}

impl Memory {
    fn write(&mut self, executor: &mut Executor) -> Work<'_> {
        Work {
            records: executor.writable(&mut self.records),
            counters: executor.writable(&mut self.counters),
            heads: executor.writable(&mut self.heads),
            starts: executor.writable(&mut self.starts),
            n_hits: executor.writable(&mut self.n_hits),
            unusual: executor.writable(&mut self.unusual),
            flagged: executor.writable(&mut self.flagged),
            status: executor.writable(&mut self.status),
        }
    }
}

/// Launches a kernel on blocks that have the bug.
fn launch<K: Kernel>(
    executor: &mut Executor,
    kernel: K,
    Shape {
        grid,
        block,
        shared_bytes,
    }: Shape,
    bug: Bug,
    arguments: &K::Arguments<'_>,
) -> Result<LaunchStats, Violation> {
    executor.launch(K::NAME, grid, block, shared_bytes, |block| {
        kernel.run(&Faulty::new(block, bug), arguments);
    })
}

/// Events on a synthetic detector, and the kernels' output for them.
pub struct RankedSetup {
    pub tables: DetectorTables,
    ranks: RankTables,
    pub batch: EventBatch,
    layout: Layout,
    /// The events to decode, one bit for each; empty: all.
    pub selected: Vec<u32>,
    /// Number of blocks of the kernels that share events, for each of two multiprocessors.
    pub grid: u32,
    /// Number of events that were deferred, and of groups that were flagged.
    pub deferred: u32,
    pub flagged: u32,
    /// Most blocks at a time.
    pub resident: u32,
    pub ids: Vec<u32>,
    pub offsets: Vec<u32>,
    pub report: Vec<u32>,
    pub status: u32,
}

impl RankedSetup {
    /// Ordinary events: hits of several sizes on every lane of most boards, differently in each; a
    /// few groups have to be sorted.
    pub fn new(n_events: usize) -> Self {
        Self::of(n_events, Layout::Allen, false, 1)
    }

    /// Ordinary events with twice as many hits.
    pub fn crowded(n_events: usize) -> Self {
        Self::of(n_events, Layout::Allen, false, 2)
    }

    /// Makes events in each of which one board comes twice, so that every event is deferred.
    pub fn unusual(n_events: usize) -> Self {
        Self::of(n_events, Layout::Allen, true, 1)
    }

    /// Makes ordinary events in MEP layout, each with the boards of the first event.
    pub fn mep(n_events: usize) -> Self {
        Self::of(n_events, Layout::Mep, false, 1)
    }

    /// Ordinary events with clusters of up to four strips.
    pub fn clustered(n_events: usize) -> Self {
        Self::with(n_events, Layout::Allen, false, 1, Grouping::YRows, |i| {
            i + i / 4
        })
    }

    /// Ordinary events in a grouping whose lanes overlap: groups with and without equal x, of up to
    /// and of more than 32 hits.
    pub fn overlapping(n_events: usize) -> Self {
        Self::with(n_events, Layout::Allen, false, 1, Grouping::UniqueX, |i| {
            3 * i
        })
    }

    /// Ordinary events in that grouping, with groups that only a block sorts.
    pub fn crowded_columns(n_events: usize) -> Self {
        Self::with(n_events, Layout::Allen, false, 4, Grouping::UniqueX, |i| {
            3 * i
        })
    }

    fn of(n_events: usize, layout: Layout, repeats: bool, factor: usize) -> Self {
        Self::with(n_events, layout, repeats, factor, Grouping::YRows, |i| {
            3 * i
        })
    }

    fn with(
        n_events: usize,
        layout: Layout,
        repeats: bool,
        factor: usize,
        grouping: Grouping,
        strip: fn(u16) -> u16,
    ) -> Self {
        let tables = tables_in(BankVersion::V5, grouping);
        let n_boards = tables.boards().n_boards();
        let event = |event: usize| {
            let first = if layout == Layout::Allen { event } else { 0 };
            let boards = (0..n_boards)
                .filter(|board| (board + first) % 7 != 3)
                .chain(repeats.then_some(5));
            let bank = |board: usize| {
                let lane = |lane: usize| {
                    // Hits where nothing is connected are trouble.
                    let is_connected =
                        tables.slots()[LANES_PER_BOARD * board + lane].is_connected();
                    let factor = if is_connected || repeats { factor } else { 0 };
                    let n = factor * ((board * 5 + lane * 3 + event) % 9);
                    (0..n as u16).map(|i| (strip(i) + lane as u16, 5)).collect()
                };
                v5(board as u16, &v5_payload(&std::array::from_fn(lane)))
            };
            boards.map(bank).take(n_boards).collect::<Vec<_>>()
        };
        let events = (0..n_events).map(event).collect::<Vec<_>>();
        Self::on(tables, layout, &events)
    }

    /// Prepares the kernels' inputs for a batch of `events`.
    pub fn on(tables: DetectorTables, layout: Layout, events: &[Event]) -> Self {
        let batch = match layout {
            Layout::Allen => allen_batch(events),
            Layout::Mep => mep_batch(events),
        };
        let ranks = RankTables::new("test", &tables, DecodeOptions::default()).expect("few lanes");
        let (ids, offsets, report) = (Vec::new(), Vec::new(), Vec::new());
        let selected = Vec::new();
        let (deferred, flagged, grid, resident, status) = (0, 0, 1, 4, 0);
        Self {
            tables,
            ranks,
            batch,
            layout,
            selected,
            grid,
            deferred,
            flagged,
            resident,
            ids,
            offsets,
            report,
            status,
        }
    }

    /// Launches all kernels, `cluster` with `bug`, and room for `capacity` hits. Returns the counts
    /// of `cluster`.
    pub fn run(&mut self, seed: u64, bug: Bug, capacity: usize) -> Result<LaunchStats, Violation> {
        self.run_with(seed, bug, In::Cluster, capacity)
    }

    fn gather(
        &self,
        executor: &mut Executor,
        bug: Bug,
        batch: &Batch<'_>,
        words: &mut [u32],
    ) -> Result<LaunchStats, Violation> {
        let switches = Switches::production(self.tables.boards().version, self.layout);
        let (grid, n_events) = (
            gather_blocks(self.batch.n_events as u32),
            self.batch.n_events as u32,
        );
        let view = executor.writable(words);
        executor.launch(
            "gather_banks",
            grid,
            (GATHER_THREADS, 1),
            gather_shared_bytes(),
            |block| {
                GatherBanks { switches }.run(&Faulty::new(block, bug), &(*batch, n_events, view));
            },
        )
    }

    /// [`run`](Self::run) with the bug in the kernel `place`, whose counts are returned.
    pub fn run_with(
        &mut self,
        seed: u64,
        bug: Bug,
        place: In,
        capacity: usize,
    ) -> Result<LaunchStats, Violation> {
        self.run_in(&mut Executor::new(seed), bug, place, capacity)
    }

    fn plan(&self) -> Plan {
        let names = ["unusual_grid", "sort_grid", "make_hits_grid"];
        let set = names
            .map(|name| format!("ranked.{name}={},", self.grid))
            .concat()
            + "scan.block_x=32";
        let parameters = Parameters::default()
            .with(ut_decoding::Backend::Emulated, &set)
            .expect("valid");
        let device = Multiprocessors {
            number: 2,
            each: Architecture::ALL[0],
        };
        let tables = DeviceTables::new("test", &self.tables).expect("few slots");
        Plan::new(&tables, parameters, self.batch.n_events, device)
    }

    /// [`run_with`](Self::run_with) in a given executor.
    pub fn run_in(
        &mut self,
        executor: &mut Executor,
        bug: Bug,
        place: In,
        capacity: usize,
    ) -> Result<LaunchStats, Violation> {
        let bug_in = |kernel| if kernel == place { bug } else { Bug::None };
        let version = self.tables.boards().version;
        let switches = Switches::production(version, self.layout);
        executor.limit_resident(self.resident);
        let (n_events, plan) = (self.batch.n_events, self.plan());
        let batch = Batch {
            version: version.byte().into(),
            ..view(&self.batch)
        };
        let shapes = plan.ranked_shapes();
        let mut bank_words = vec![u32::MAX; self.batch.offsets.len()];
        let mut stats = None;
        let mut done = |kernel, counts: LaunchStats| {
            if kernel == place {
                stats = Some(counts);
            }
        };
        if self.layout == Layout::Mep {
            done(
                In::Gathering,
                self.gather(executor, bug_in(In::Gathering), &batch, &mut bank_words)?,
            );
        }
        let tables = self.ranks.view();
        let cluster = ClusterOptions {
            flags: ClusterOptions::CLUSTERING,
            max_size: 128,
        };
        let options = RankedOptions::new(cluster, 511.0);
        let mut memory = self.memory();
        let input = RankedInput {
            batch,
            bank_words: Global::from_slice(&bank_words),
            selected: Global::from_slice(&self.selected),
        };
        let arguments = (options, input, tables.ranks, memory.write(executor));
        done(
            In::Cluster,
            launch(
                executor,
                Cluster { switches },
                shapes.cluster,
                bug_in(In::Cluster),
                &arguments,
            )?,
        );
        let arguments = (
            options,
            batch,
            tables.ranks,
            tables.lanes,
            memory.write(executor),
        );
        done(
            In::Unusual,
            launch(
                executor,
                ClusterUnusual { switches },
                shapes.cluster_unusual,
                bug_in(In::Unusual),
                &arguments,
            )?,
        );
        let arguments = (511.0, tables.ranks, memory.write(executor));
        done(
            In::Sort,
            launch(
                executor,
                SortGroups { switches },
                shapes.sort_groups,
                bug_in(In::Sort),
                &arguments,
            )?,
        );
        // (After the number of records that were taken.)
        [self.deferred, self.flagged] = [memory.counters[1], memory.counters[2]];
        let (mut bases, mut descriptors) = (
            vec![u32::MAX; n_events + 1],
            vec![0u64; 1 + plan.event_tiles() as usize],
        );
        let arguments = (
            Global::from_slice(&memory.n_hits),
            executor.writable(&mut bases),
            executor.writable(&mut descriptors),
        );
        done(
            In::Scan,
            launch(executor, Scan, shapes.scan, bug_in(In::Scan), &arguments)?,
        );

        let made = self.make_hits(
            executor,
            &mut memory,
            &bases,
            bug_in(In::MakeHits),
            capacity,
        );
        self.status = memory.status[0];
        done(In::MakeHits, made?);
        Ok(stats.expect("the kernel was launched"))
    }

    /// Returns the memory between the kernels, full of ones where they write before they read.
    fn memory(&self) -> Memory {
        let (n_events, n_groups) = (self.batch.n_events, self.tables.n_groups());
        Memory {
            records: vec![
                Record::default();
                most_records(self.tables.boards().version, self.batch.raw.len(), n_events)
            ],
            counters: [0; COUNTERS],
            heads: vec![u32::MAX; n_events * HEAD_WORDS as usize],
            starts: vec![u32::MAX; n_events * n_groups],
            n_hits: vec![u32::MAX; n_events],
            unusual: vec![u32::MAX; n_events],
            flagged: vec![FlaggedGroup::default(); n_events * n_groups],
            status: [0],
        }
    }

    /// Makes hits, with room for `capacity`, of the records in memory.
    fn make_hits(
        &mut self,
        executor: &mut Executor,
        memory: &mut Memory,
        bases: &[u32],
        bug: Bug,
        capacity: usize,
    ) -> Result<LaunchStats, Violation> {
        let n_events = self.batch.n_events;
        let switches = Switches::production(self.tables.boards().version, self.layout);
        let (ranks, shape) = (
            self.ranks.view().ranks,
            self.plan().ranked_shapes().make_hits,
        );
        let mut floats: [Vec<f32>; 6] = std::array::from_fn(|_| vec![0.0; capacity]);
        self.ids = vec![u32::MAX; capacity];
        self.offsets = vec![u32::MAX; n_events * self.tables.n_groups() + 1];
        self.report = vec![u32::MAX; n_events * N_COUNTS];
        let input = HitsInput {
            records: Global::from_slice(&memory.records),
            heads: Global::from_slice(&memory.heads),
            starts: Global::from_slice(&memory.starts),
            counters: Global::from_slice(&memory.counters),
            bases: Global::from_slice(bases),
            flip_origin: 511.0,
        };
        let [y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight] =
            floats.each_mut().map(|x| executor.writable(x));
        let id = executor.writable(&mut self.ids);
        let to = Written {
            hits: HitArrays {
                y_begin,
                y_end,
                z_at_y_eq0,
                x_at_y_eq0,
                dx_dy,
                weight,
                id,
            },
            offsets: executor.writable(&mut self.offsets),
            report: executor.writable(&mut self.report),
            status: executor.writable(&mut memory.status),
        };
        let arguments = (input, ranks, to);
        launch(executor, MakeHits { switches }, shape, bug, &arguments)
    }
}
