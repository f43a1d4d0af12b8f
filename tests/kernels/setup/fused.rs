//! A few events and the one-launch kernel on them, on a block that may have a fault.

use simt::Global;
use simt::executor::{Executor, LaunchStats, Violation};
use ut_decoding::decoder::rank_tables::RankTables;
use ut_decoding::detector::BankVersion;
use ut_decoding::{DecodeOptions, DetectorTables, EventBatch, Grouping};
use ut_kernels::bank::layout::Batch;
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::fused::gather::{GATHER_THREADS, gather_banks, gather_blocks, gather_shared_bytes};
use ut_kernels::fused::{FusedInput, FusedOptions, FusedOutput, Room, fused, fused_shared_bytes};
use ut_kernels::hit::HitArrays;
use ut_kernels::report::N_COUNTS;
use ut_kernels::switches::{Layout, Switches};

use super::{Bug, Faulty};
use crate::suite::events::{Bank, allen_batch, mep_batch, v5_payload};

/// Room for everything, and for nothing.
pub const ROOMY: Room = Room { tile: 4096, stage: 32 << 10 };
pub const TIGHT: Room = Room { tile: 0, stage: 512 };
/// Events in several windows.
pub const WINDOWS: Room = Room { tile: 1536, stage: 8 << 10 };

/// Events on a synthetic detector, and what the kernel made of them.
pub struct FusedSetup {
    pub tables: DetectorTables,
    ranks: RankTables,
    pub batch: EventBatch,
    layout: Layout,
    /// Most blocks at a time.
    pub resident: u32,
    pub ids: Vec<u32>,
    pub offsets: Vec<u32>,
    pub report: Vec<u32>,
    pub status: u32,
}

impl FusedSetup {
    /// Hits of several sizes on every lane of most boards, differently in each event; one board comes twice, so that a
    /// few groups have to be sorted.
    pub fn new(n_events: usize) -> Self {
        Self::of(n_events, Layout::Allen)
    }

    /// The same in MEP layout, with the boards of the first event in all of them.
    pub fn mep(n_events: usize) -> Self {
        Self::of(n_events, Layout::Mep)
    }

    fn of(n_events: usize, layout: Layout) -> Self {
        let (boards, geometry) = ut_decoding::synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("a sound detector");
        let n_boards = tables.boards().n_boards();
        let event = |event: usize| {
            let first = if layout == Layout::Allen { event } else { 0 };
            let boards = (0..n_boards).filter(|board| (board + first) % 7 != 3).chain([5]);
            let bank = |board: usize| {
                let lane = |lane: usize| {
                    let n = (board * 5 + lane * 3 + event) % 9;
                    (0..n as u16).map(|i| (3 * i + lane as u16, 5)).collect()
                };
                let payload = v5_payload(&std::array::from_fn(lane));
                Bank { kind: 66, version: 4, source_id: board as u16, payload }
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
        Self { tables, ranks, batch, layout, resident: 4, ids, offsets, report, status: 0 }
    }

    /// One launch, with room for `capacity` hits.
    pub fn run(&mut self, seed: u64, bug: Bug, room: Room, capacity: usize) -> Result<LaunchStats, Violation> {
        self.run_with(seed, bug, false, room, capacity)
    }

    /// The launch that gathers the banks, with `bug`, and a sound one after it.
    pub fn run_after(&mut self, seed: u64, bug: Bug, room: Room, capacity: usize) -> Result<LaunchStats, Violation> {
        self.run_with(seed, bug, true, room, capacity)
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
            gather_banks(&Faulty::new(block, bug), switches, batch, n_events, view);
        })
    }

    fn run_with(
        &mut self,
        seed: u64,
        bug: Bug,
        in_gathering: bool,
        room: Room,
        capacity: usize,
    ) -> Result<LaunchStats, Violation> {
        let switches = Switches::production(BankVersion::V5, self.layout);
        let mut executor = Executor::new(seed);
        executor.limit_resident(self.resident);
        let tables = self.ranks.view();
        let n_events = self.batch.n_events;
        let batch = Batch {
            raw: Global::from_slice(&self.batch.raw),
            offsets: Global::from_slice(&self.batch.offsets),
            sizes: Global::from_slice(&self.batch.sizes),
            types: Global::from_slice(&self.batch.types),
            versions: Global::from_slice(&[]),
            has_versions: 0,
        };
        let mut bank_words = vec![u32::MAX; self.batch.offsets.len()];
        if self.layout == Layout::Mep {
            self.gather(&mut executor, if in_gathering { bug } else { Bug::None }, &batch, &mut bank_words)?;
        }
        let bug = if in_gathering { Bug::None } else { bug };
        let input = FusedInput { batch, bank_words: Global::from_slice(&bank_words) };
        let mut floats = vec![vec![0f32; capacity]; 6];
        self.ids = vec![u32::MAX; capacity];
        self.offsets = vec![u32::MAX; n_events * self.tables.n_groups() + 1];
        self.report = vec![u32::MAX; n_events * N_COUNTS];
        let mut status = [0];
        let mut look_back = vec![0; 1 + n_events];
        let [y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight] = &mut floats[..] else { unreachable!() };
        let output = FusedOutput {
            hits: HitArrays {
                y_begin: executor.writable(y_begin),
                y_end: executor.writable(y_end),
                z_at_y_eq0: executor.writable(z_at_y_eq0),
                x_at_y_eq0: executor.writable(x_at_y_eq0),
                dx_dy: executor.writable(dx_dy),
                weight: executor.writable(weight),
                id: executor.writable(&mut self.ids),
            },
            offsets: executor.writable(&mut self.offsets),
            report: executor.writable(&mut self.report),
            status: executor.writable(&mut status),
            look_back: executor.writable(&mut look_back),
            bases: Global::from_slice(&[]),
        };
        let cluster = ClusterOptions { flags: ClusterOptions::CLUSTERING, max_size: 128 };
        let options = FusedOptions { cluster, flip_origin: 512.0, room };
        let shared = fused_shared_bytes(BankVersion::V5, tables.n_boards(), tables.n_groups(), room);
        let stats = executor.launch("fused", n_events as u32, (64, 1), shared, |block| {
            fused(&Faulty::new(block, bug), switches, &options, &input, &tables, &output);
        });
        self.status = status[0];
        stats
    }
}
