//! A few events and the fused kernels on them, on a block that may have a fault.

use simt::executor::{Executor, LaunchStats, Violation};
use simt::{Global, Kernel};
use ut_decoding::decoder::rank_tables::RankTables;
use ut_decoding::detector::BankVersion;
use ut_decoding::{DecodeOptions, DetectorTables, EventBatch, Grouping};
use ut_kernels::bank::layout::Batch;
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::detector::LANES_PER_BOARD;
use ut_kernels::fused::look_back::LookBack;
use ut_kernels::fused::others::{FusedOthers, Left, others_shared_bytes};
use ut_kernels::fused::{Fused, FusedInput, FusedOptions, FusedOutput, Room, Written, fused_shared_bytes};
use ut_kernels::hit::HitArrays;
use ut_kernels::ranked::gather::{GATHER_THREADS, GatherBanks, gather_blocks, gather_shared_bytes};
use ut_kernels::report::N_COUNTS;
use ut_kernels::switches::{Layout, Switches};

use super::{Bug, Faulty, view};
use crate::suite::events::{allen_batch, mep_batch, tables_in, v5, v5_payload};

/// Room for all strips of an event, and for few.
pub const ROOMY: u32 = 4096;
pub const WINDOWS: u32 = 512;

const THREADS: u32 = 64;

/// Hits, offsets, reports and status as kernels write them.
fn written<'a>(
    executor: &mut Executor,
    floats: &'a mut [Vec<f32>; 6],
    (id, offsets, report, status): (&'a mut [u32], &'a mut [u32], &'a mut [u32], &'a mut [u32]),
) -> Written<'a> {
    let [y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight] = floats.each_mut().map(|x| executor.writable(x));
    let hits = HitArrays { y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight, id: executor.writable(id) };
    let (offsets, report) = (executor.writable(offsets), executor.writable(report));
    Written { hits, offsets, report, status: executor.writable(status) }
}

/// Kernel that has the bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum In {
    Gathering,
    Fused,
    Others,
}

/// Events on a synthetic detector, and what the kernel made of them.
pub struct FusedSetup {
    pub tables: DetectorTables,
    ranks: RankTables,
    pub batch: EventBatch,
    layout: Layout,
    /// The events to decode, a bit each; empty: all.
    pub selected: Vec<u32>,
    /// Events and groups that the first kernel left.
    pub left: u32,
    pub left_groups: u32,
    /// Most blocks at a time.
    pub resident: u32,
    pub ids: Vec<u32>,
    pub offsets: Vec<u32>,
    pub report: Vec<u32>,
    pub status: u32,
}

impl FusedSetup {
    /// Ordinary events: hits of several sizes on every lane of most boards, differently in each; a few groups have to be
    /// sorted.
    pub fn new(n_events: usize) -> Self {
        Self::of(n_events, Layout::Allen, false, 1)
    }

    /// Ordinary events with groups that a warp has no room to sort, where a window has few strips.
    pub fn crowded(n_events: usize) -> Self {
        Self::of(n_events, Layout::Allen, false, 2)
    }

    /// One board comes twice in each event: all are left for the second kernel.
    pub fn unusual(n_events: usize) -> Self {
        Self::of(n_events, Layout::Allen, true, 1)
    }

    /// Ordinary events in MEP layout, with the boards of the first event in all of them.
    pub fn mep(n_events: usize) -> Self {
        Self::of(n_events, Layout::Mep, false, 1)
    }

    /// Ordinary events with clusters of up to four strips.
    pub fn clustered(n_events: usize) -> Self {
        Self::with(n_events, Layout::Allen, false, 1, Grouping::YRows, |i| i + i / 4)
    }

    /// Ordinary events in a grouping whose lanes overlap: groups with and without equal x, of up to and of more than 32
    /// hits.
    pub fn overlapping(n_events: usize) -> Self {
        Self::with(n_events, Layout::Allen, false, 1, Grouping::UniqueX, |i| 3 * i)
    }

    fn of(n_events: usize, layout: Layout, repeats: bool, factor: usize) -> Self {
        Self::with(n_events, layout, repeats, factor, Grouping::YRows, |i| 3 * i)
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
            let boards = (0..n_boards).filter(|board| (board + first) % 7 != 3).chain(repeats.then_some(5));
            let bank = |board: usize| {
                let lane = |lane: usize| {
                    // Hits where nothing is connected are trouble.
                    let is_connected = tables.slots()[LANES_PER_BOARD * board + lane].is_connected();
                    let factor = if is_connected || repeats { factor } else { 0 };
                    let n = factor * ((board * 5 + lane * 3 + event) % 9);
                    (0..n as u16).map(|i| (strip(i) + lane as u16, 5)).collect()
                };
                v5(board as u16, &v5_payload(&std::array::from_fn(lane)))
            };
            boards.map(bank).take(n_boards).collect::<Vec<_>>()
        };
        let events = (0..n_events).map(event).collect::<Vec<_>>();
        let batch = match layout {
            Layout::Allen => allen_batch(&events),
            Layout::Mep => mep_batch(&events),
        };
        let ranks = RankTables::new("test", &tables, DecodeOptions::default()).expect("few lanes");
        let (ids, offsets, report) = (Vec::new(), Vec::new(), Vec::new());
        let selected = Vec::new();
        let (left, left_groups, resident, status) = (0, 0, 4, 0);
        Self { tables, ranks, batch, layout, selected, left, left_groups, resident, ids, offsets, report, status }
    }

    /// Launches all kernels, `fused` with `bug`, a window of `strips` and room for `capacity` hits. Returns the counts of `fused`.
    pub fn run(&mut self, seed: u64, bug: Bug, strips: u32, capacity: usize) -> Result<LaunchStats, Violation> {
        self.run_with(seed, bug, In::Fused, strips, capacity)
    }

    fn gather(
        &self,
        executor: &mut Executor,
        bug: Bug,
        batch: &Batch<'_>,
        words: &mut [u32],
    ) -> Result<LaunchStats, Violation> {
        let switches = Switches::production(BankVersion::V5, self.layout);
        let (grid, n_events) = (gather_blocks(self.batch.n_events as u32), self.batch.n_events as u32);
        let view = executor.writable(words);
        executor.launch("gather_banks", grid, (GATHER_THREADS, 1), gather_shared_bytes(), |block| {
            GatherBanks { switches }.run(&Faulty::new(block, bug), &(*batch, n_events, view));
        })
    }

    /// [`run`](Self::run) with the bug in the kernel `place`, whose counts are returned.
    pub fn run_with(
        &mut self,
        seed: u64,
        bug: Bug,
        place: In,
        strips: u32,
        capacity: usize,
    ) -> Result<LaunchStats, Violation> {
        self.run_in(&mut Executor::new(seed), bug, place, strips, capacity)
    }

    /// [`run_with`](Self::run_with) in a given executor.
    pub fn run_in(
        &mut self,
        executor: &mut Executor,
        bug: Bug,
        place: In,
        strips: u32,
        capacity: usize,
    ) -> Result<LaunchStats, Violation> {
        let bug_in = |kernel| if kernel == place { bug } else { Bug::None };
        let switches = Switches::production(BankVersion::V5, self.layout);
        executor.limit_resident(self.resident);
        let tables = self.ranks.view();
        let n_events = self.batch.n_events;
        let batch = view(&self.batch);
        let mut bank_words = vec![u32::MAX; self.batch.offsets.len()];
        if self.layout == Layout::Mep {
            self.gather(executor, bug_in(In::Gathering), &batch, &mut bank_words)?;
        }
        let selected = Global::from_slice(&self.selected);
        let input = FusedInput { batch, bank_words: Global::from_slice(&bank_words), selected };
        let mut floats: [Vec<f32>; 6] = std::array::from_fn(|_| vec![0.0; capacity]);
        self.ids = vec![u32::MAX; capacity];
        self.offsets = vec![u32::MAX; n_events * self.tables.n_groups() + 1];
        self.report = vec![u32::MAX; n_events * N_COUNTS];
        let mut status = [0];
        let (mut look_back, mut others) = (vec![0; LookBack::words(n_events)], vec![u32::MAX; n_events]);
        let mut groups = vec![u32::MAX; n_events * self.tables.n_groups()];
        let words = (&mut self.ids[..], &mut self.offsets[..], &mut self.report[..], &mut status[..]);
        let output = FusedOutput {
            to: written(executor, &mut floats, words),
            look_back: executor.writable(&mut look_back),
            groups: executor.writable(&mut groups),
            others: executor.writable(&mut others),
            bases: Global::from_slice(&[]),
            counts: executor.writable(&mut []),
        };
        let cluster = ClusterOptions { flags: ClusterOptions::CLUSTERING, max_size: 128 };
        let options = FusedOptions { cluster, flip_origin: 511.0, strips };
        let shared = fused_shared_bytes(BankVersion::V5, Room { threads: THREADS, strips });
        let lanes = tables.lanes;
        let arguments = (options, input, tables.records, lanes, output);
        let stats = executor.launch("fused", n_events as u32, (THREADS, 1), shared, |block| {
            Fused { switches }.run(&Faulty::new(block, bug_in(In::Fused)), &arguments);
        });
        self.status = status[0];
        let stats = stats?;
        [self.left_groups, self.left] = look_back[look_back.len() - 2..].try_into().expect("two words");
        let words = (&mut self.ids[..], &mut self.offsets[..], &mut self.report[..], &mut status[..]);
        let to = written(executor, &mut floats, words);
        let left = Left {
            others: Global::from_slice(&others),
            groups: Global::from_slice(&groups),
            look_back: Global::from_slice(&look_back),
            n_events: n_events as u32,
        };
        let shared = others_shared_bytes(BankVersion::V5, lanes.n_boards(), lanes.n_groups());
        let in_others = executor.launch("fused_others", n_events.div_ceil(4) as u32, (THREADS, 1), shared, |block| {
            let block = Faulty::new(block, bug_in(In::Others));
            FusedOthers { switches }.run(&block, &(options, batch, lanes, left, to));
        });
        self.status = status[0];
        let in_others = in_others?;
        Ok(if place == In::Others { in_others } else { stats })
    }
}
