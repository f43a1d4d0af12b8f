//! The decoder that runs the committed PTX on the machine: the launches that a GPU backend makes, one after the other.

use std::mem::MaybeUninit;

use ut_decoding::backend::Count;
use ut_decoding::backend::launch::LaunchParams;
use ut_decoding::backend::ptx::{Kernel, Unit};
use ut_decoding::{
    BatchReport, BatchView, DecodeError, DecodeOptions, Decoder, DetectorTables, Layout, Position, UtHits,
};
use ut_kernels::bank::layout::Batch;
use ut_kernels::block::blocks_of_warps;
use ut_kernels::cluster_and_predecode::{ClusterInput, ClusterOutput};
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::compress_and_make_keys::GroupRanges;
use ut_kernels::count_hits::{CountOutput, items_capacity};
use ut_kernels::decode_in_order::DecodeInput;
use ut_kernels::detector::BoardLane;
use ut_kernels::hit::{Cluster, HitArrays};
use ut_kernels::prefix_sum::tiles;
use ut_kernels::report::N_COUNTS;
use ut_kernels::switches::BatchLayout;
use ut_kernels::tables::Tables;

use super::{Address, Launch, Memory, Program};

/// First sector of each layer, and their number.
const LAYER_SECTORS: [usize; 5] = [0, 248, 496, 772, 1048];

pub struct PtxDecoder {
    tables: DetectorTables,
    options: DecodeOptions,
    params: LaunchParams,
    /// Variant for each layout, and its program.
    allen: (String, Program),
    mep: (String, Program),
    turn: u32,
}

impl PtxDecoder {
    /// Production.
    pub fn new(tables: &DetectorTables, options: DecodeOptions, params: LaunchParams, turn: u32) -> Self {
        let of = |layout| {
            let unit = Unit::production(tables.boards.version, layout);
            (unit.name.to_owned(), Program::new(unit.text))
        };
        let (allen, mep) = (of(BatchLayout::Allen), of(BatchLayout::Mep));
        Self { tables: tables.clone(), options, params, allen, mep, turn }
    }

    /// A variant of the ladder, for v5 in Allen layout.
    pub fn of_ladder(tables: &DetectorTables, options: DecodeOptions, variant: &str) -> Self {
        let mut decoder = Self::new(tables, options, LaunchParams::default(), 0);
        decoder.allen = (variant.to_owned(), Program::new(Unit::LADDER.text));
        decoder
    }
}

/// The bytes of an argument as they cross; those of padding are whatever they are.
pub fn bytes_of<T: Copy>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0u8; size_of::<T>()];
    // SAFETY:
    // - Both are `size_of::<T>()` bytes, and do not overlap.
    // - Copied as bytes that may be uninitialised; the kernels read fields only, never padding.
    unsafe {
        let from = std::ptr::from_ref(value).cast::<MaybeUninit<u8>>();
        std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().cast(), bytes.len());
    }
    bytes
}

/// Launches one variant's kernels.
struct Launcher<'a> {
    memory: Memory,
    program: &'a Program,
    variant: &'a str,
    turn: u32,
    shared: &'a dyn Fn(Kernel) -> u32,
}

impl Launcher<'_> {
    fn launch(&mut self, kernel: Kernel, variant: &str, grid: u32, block: (u32, u32), arguments: &[Vec<u8>]) {
        let launch = Launch { grid, block, shared_bytes: (self.shared)(kernel), turn: self.turn };
        self.program.launch(&mut self.memory, &kernel.entry(variant), launch, arguments);
    }

    fn prefix_sum(&mut self, n: usize, counts: Address, offsets: Address, block_x: u32) {
        let grid = tiles(n as u32, block_x);
        let totals = self.memory.put(&vec![0u32; grid as usize], true);
        let variant = self.variant;
        let arguments = [
            bytes_of(&counts.global::<u32>()),
            bytes_of(&offsets.global_mut::<u32>()),
            bytes_of(&totals.global_mut::<u32>()),
        ];
        self.launch(Kernel::PrefixSumTiles, variant, grid, (block_x, 1), &arguments);
        let arguments =
            [bytes_of(&(n as u32)), bytes_of(&totals.global::<u32>()), bytes_of(&offsets.global_mut::<u32>())];
        self.launch(Kernel::PrefixSumOffsets, variant, grid, (block_x, 1), &arguments);
    }
}

impl Decoder for PtxDecoder {
    fn name(&self) -> &'static str {
        "ptx"
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        let tables = &self.tables;
        let (version, n_groups, n_boards) =
            (tables.boards.version, tables.n_groups, tables.boards.strips_per_hybrid.len());
        let mut arrays = hits.begin(batch.n_events, n_groups)?;
        report.reset(batch.n_events);
        if batch.n_events == 0 {
            return Ok(());
        }
        let (variant, program) = match batch.layout {
            Layout::Allen => (&self.allen.0, &self.allen.1),
            Layout::Mep => (&self.mep.0, &self.mep.1),
        };
        let shared = |kernel: Kernel| kernel.shared_bytes(version, n_boards as u32, n_groups as u32);
        let params = self.params;
        let mut on = Launcher { memory: Memory::default(), program, variant, turn: self.turn, shared: &shared };
        let (events, n_counters) = (batch.n_events as u32, batch.n_events * n_groups);

        let lanes = tables.boards.lanes.iter().map(|lane| BoardLane {
            sector: lane.sector,
            module: lane.module,
            face: lane.face,
            stave: lane.stave,
            layer: lane.layer,
            side: lane.side,
            kind: lane.kind,
            chan_id: lane.chan_id,
        });
        let lanes: Vec<BoardLane> = lanes.collect();
        let first_group = |layer: usize| {
            let sectors = &tables.groups[LAYER_SECTORS[layer]..LAYER_SECTORS[layer + 1]];
            u32::from(sectors.iter().copied().min().unwrap_or(0))
        };
        let layer_groups: Vec<_> = (0..4).map(first_group).chain([n_groups as u32]).collect();
        let on_device = Tables {
            slots: on.memory.put(&tables.slots, false).global(),
            board_lanes: on.memory.put(&lanes, false).global(),
            groups: on.memory.put(&tables.groups, false).global(),
            sectors: on.memory.put(&tables.sectors, false).global(),
            strips_per_hybrid: on.memory.put(&tables.boards.strips_per_hybrid, false).global(),
            layer_groups: on.memory.put(&layer_groups, false).global(),
            n_groups: n_groups as u32,
        };
        let raw = on.memory.put(batch.raw, false);
        let device_batch = Batch {
            raw: raw.global(),
            offsets: on.memory.put(batch.offsets, false).global(),
            sizes: on.memory.put(batch.sizes, false).global(),
            types: on.memory.put(batch.types, false).global(),
            versions: on.memory.put(batch.versions.unwrap_or(&[]), false).global(),
            has_versions: u32::from(batch.versions.is_some()),
        };

        let items =
            on.memory.put(&vec![0u64; batch.n_events * items_capacity(version, n_boards as u32) as usize], true);
        let n_items = on.memory.put(&vec![0u32; batch.n_events], true);
        let counters = || vec![0xDEAD_BEEFu32; n_counters];
        let strip_counts = on.memory.put(&counters(), true);
        let cluster_counts = on.memory.put(&counters(), true);
        let strip_offsets = on.memory.put(&vec![0u32; n_counters + 1], true);
        let hit_offsets = on.memory.put(&vec![0u32; n_counters + 1], true);
        let reports = on.memory.put(&vec![0xDEAD_BEEFu32; batch.n_events * N_COUNTS], true);
        let status = on.memory.put(&[0u32], true);

        let output = CountOutput {
            strip_counts: strip_counts.global_mut(),
            items: items.global_mut(),
            n_items: n_items.global_mut(),
            report: reports.global_mut(),
        };
        let bins8 = format!("{variant}__bins8");
        let count_variant = if params.count_bins() == 8 { &bins8 } else { variant };
        let arguments = [bytes_of(&device_batch), bytes_of(&on_device), bytes_of(&output)];
        on.launch(Kernel::CountHits, count_variant, events, (params.count_block_x(), 1), &arguments);
        on.prefix_sum(n_counters, strip_counts, strip_offsets, params.scan_block_x());

        let strips = *on.memory.get::<u32>(strip_offsets).last().expect("at least one") as usize;
        let clusters = on.memory.put(&vec![Cluster::default(); strips], true);
        let keys = on.memory.put(&vec![0u64; strips], true);
        let permutation = on.memory.put(&vec![0u32; strips], true);
        let scratch = on.memory.put(&vec![0u32; strips], true);
        let flag = |on, flag| if on { flag } else { 0 };
        let options = ClusterOptions {
            flags: flag(self.options.clustering, ClusterOptions::CLUSTERING)
                | flag(self.options.position == Position::Geometric, ClusterOptions::GEOMETRIC)
                | flag(self.options.save_above_max, ClusterOptions::SAVE_ABOVE_MAX),
            max_size: self.options.max_cluster_size.get(),
        };
        let input = ClusterInput {
            raw: raw.global(),
            items: items.global(),
            n_items: n_items.global(),
            strip_offsets: strip_offsets.global(),
        };
        let output = ClusterOutput {
            clusters: clusters.global_mut(),
            cluster_counts: cluster_counts.global_mut(),
            report: reports.global_mut(),
            status: status.global_mut(),
        };
        let arguments = [bytes_of(&options), bytes_of(&input), bytes_of(&on_device), bytes_of(&output)];
        on.launch(Kernel::ClusterAndPredecode, variant, events, params.cluster_block(), &arguments);
        on.prefix_sum(n_counters, cluster_counts, hit_offsets, params.scan_block_x());

        let flip_origin = bytes_of(&self.options.flip.origin());
        let ranges = bytes_of(&GroupRanges {
            strip_offsets: strip_offsets.global(),
            hit_offsets: hit_offsets.global(),
            clusters: clusters.global(),
        });
        let block_x = params.compress_block_x();
        let grid = blocks_of_warps(n_counters as u32, block_x);
        let table_bytes = bytes_of(&on_device);
        let arguments = [flip_origin.clone(), ranges.clone(), table_bytes.clone(), bytes_of(&keys.global_mut::<u64>())];
        on.launch(Kernel::CompressAndMakeKeys, variant, grid, (block_x, 1), &arguments);

        let block_x = params.sort_block_x();
        let grid = blocks_of_warps(n_counters as u32, block_x);
        let arguments = [
            flip_origin.clone(),
            bytes_of(&params.sort_run()),
            ranges,
            table_bytes.clone(),
            bytes_of(&keys.global::<u64>()),
            bytes_of(&permutation.global_mut::<u32>()),
            bytes_of(&scratch.global_mut::<u32>()),
        ];
        on.launch(Kernel::FindPermutation, variant, grid, (block_x, 1), &arguments);

        let capacity = arrays.id.len().min(strips);
        let float_array = |memory: &mut Memory| memory.put(&vec![f32::NAN; capacity], true);
        let floats: [Address; 6] = std::array::from_fn(|_| float_array(&mut on.memory));
        let ids = on.memory.put(&vec![0xDEAD_BEEFu32; capacity], true);
        let [y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight] = floats.map(Address::global_mut);
        let output = HitArrays { y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight, id: ids.global_mut() };
        let input = DecodeInput {
            hit_offsets: hit_offsets.global(),
            permutation: permutation.global(),
            clusters: clusters.global(),
        };
        let arguments =
            [flip_origin, bytes_of(&input), table_bytes, bytes_of(&output), bytes_of(&status.global_mut::<u32>())];
        on.launch(Kernel::DecodeInOrder, variant, events, (params.decode_block_x(), 1), &arguments);

        assert_eq!(on.memory.get::<u32>(status), [0], "nothing overflows: the buffers are as long as they must be");
        arrays.offsets.copy_from_slice(&on.memory.get::<u32>(hit_offsets));
        let n_hits = arrays.offsets.last().map_or(0, |&end| end as usize);
        let targets = [
            &mut arrays.y_begin,
            &mut arrays.y_end,
            &mut arrays.z_at_y_eq0,
            &mut arrays.x_at_y_eq0,
            &mut arrays.dx_dy,
            &mut arrays.weight,
        ];
        for (to, from) in targets.into_iter().zip(floats) {
            to[..n_hits].copy_from_slice(&on.memory.get::<f32>(from)[..n_hits]);
        }
        arrays.id[..n_hits].copy_from_slice(&on.memory.get::<u32>(ids)[..n_hits]);
        let counts = on.memory.get::<u32>(reports);
        for (event, counts) in counts.chunks(N_COUNTS).enumerate() {
            report.events[event].counts.copy_from_slice(counts);
            let meta = batch.meta_of(event);
            report.events[event].add(Count::OtherTypes, meta.other_banks);
            if meta.broken && report.events[event].get(Count::BrokenEvent) == 0 {
                report.events[event].add(Count::BrokenEvent, 1);
            }
        }
        Ok(())
    }
}
