//! The decoder that runs the device kernels in the executor.

use simt::{Global, blocks_of_warps};
use ut_kernels::bank::layout::Batch;
use ut_kernels::cluster_and_predecode::{
    ClusterInput, ClusterOutput, cluster_and_predecode, cluster_and_predecode_shared_bytes,
};
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::compress_and_make_keys::{GroupRanges, compress_and_make_keys};
use ut_kernels::count_hits::{CountOutput, count_hits, count_hits_shared_bytes, items_capacity};
use ut_kernels::decode_in_order::{DecodeInput, decode_in_order};
use ut_kernels::detector::BankVersion;
use ut_kernels::find_permutation::find_permutation;
use ut_kernels::hit::{Cluster, HitArrays};
use ut_kernels::prefix_sum::{prefix_sum_offsets, prefix_sum_shared_bytes, prefix_sum_tiles, tiles};
use ut_kernels::status;
use ut_kernels::switches::{BatchLayout, Switches};

use simt::executor::{EmulatedBlock, Executor, LaunchStats, Violation};

use super::hit_parallel::HitWork;
use crate::decoder::launch::LaunchParams;
use crate::decoder::plan::{DeviceTables, add_meta, cluster_options, too_many_hits};
use crate::decoder::rank_tables::RankTables;
use crate::decoder::{BatchReport, DecodeError, DecodeOptions, Decoder, Pipeline, UtHits, UtHitsMut};
use crate::detector::DetectorTables;
use crate::input::{BatchView, Layout};

/// How an [`EmulatedDecoder`] works; nothing here changes its results.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedConfig {
    /// Where the order of blocks, warps and lanes comes from.
    pub schedule_seed: u64,
    /// Which kernels.
    pub pipeline: Pipeline,
    /// Block shapes and other launch parameters.
    pub launch: LaunchParams,
    /// Optimisations of the seven launches. Version and layout follow tables and batch; `bins`, unless it is 1, follows
    /// `count.bins`.
    pub switches: Switches,
}

impl Default for EmulatedConfig {
    fn default() -> Self {
        Self {
            schedule_seed: 0,
            pipeline: Pipeline::default(),
            launch: LaunchParams::default(),
            switches: Switches::production(BankVersion::V5, BatchLayout::Allen),
        }
    }
}

/// Decodes with the device kernels, on the CPU, checked.
#[derive(Debug)]
pub struct EmulatedDecoder {
    detector: DeviceTables,
    options: ClusterOptions,
    flip_origin: f32,
    switches: Switches,
    /// With [`Pipeline::Fused`].
    fused: Option<HitWork>,
    work: Work,
    launcher: Launcher,
}

/// Launches kernels and keeps their counts.
#[derive(Debug)]
pub(super) struct Launcher {
    pub executor: Executor,
    pub params: LaunchParams,
    stats: Vec<(&'static str, LaunchStats)>,
}

/// The work buffers, which only grow.
#[derive(Debug, Default)]
struct Work {
    strip_counts: Vec<u32>,
    strip_offsets: Vec<u32>,
    cluster_counts: Vec<u32>,
    tile_totals: Vec<u32>,
    items: Vec<u64>,
    n_items: Vec<u32>,
    clusters: Vec<Cluster>,
    keys: Vec<u64>,
    permutation: Vec<u32>,
    scratch: Vec<u32>,
    status: [u32; 1],
}

impl Launcher {
    pub fn launch(
        &mut self,
        name: &'static str,
        grid: u32,
        block: (u32, u32),
        shared_bytes: u32,
        kernel: impl Fn(&EmulatedBlock<'_>),
    ) -> Result<(), DecodeError> {
        let stats = self.executor.launch(name, grid, block, shared_bytes, kernel)?;
        self.stats.push((name, stats));
        Ok(())
    }

    /// The exclusive prefix sum of `counts`, in two launches.
    pub fn prefix_sum(
        &mut self,
        counts: &[u32],
        offsets: &mut [u32],
        totals: &mut Vec<u32>,
    ) -> Result<(), DecodeError> {
        let n = counts.len() as u32;
        let block_x = self.params.scan_block_x();
        let grid = tiles(n, block_x);
        sized(totals, grid as usize)?;
        let counts = Global::from_slice(counts);
        let (sums, tile_totals) = (self.executor.writable(offsets), self.executor.writable(totals));
        self.launch("prefix_sum_tiles", grid, (block_x, 1), prefix_sum_shared_bytes(), |block| {
            prefix_sum_tiles(block, counts, sums, tile_totals);
        })?;
        let (sums, tile_totals) = (self.executor.writable(offsets), Global::from_slice(totals));
        self.launch("prefix_sum_offsets", grid, (block_x, 1), prefix_sum_shared_bytes(), |block| {
            prefix_sum_offsets(block, n, tile_totals, sums);
        })
    }
}

/// Makes a work buffer of `len` elements, all bits set: no kernel may count on zeros, or on what the last batch left.
pub(super) fn sized<T: bytemuck::Pod>(buffer: &mut Vec<T>, len: usize) -> Result<(), DecodeError> {
    buffer.clear();
    let no_memory = |_| failure(&format!("no memory for a work buffer of {len} elements"));
    buffer.try_reserve_exact(len).map_err(no_memory)?;
    let mut poison = T::zeroed();
    bytemuck::bytes_of_mut(&mut poison).fill(0xFF);
    buffer.resize(len, poison);
    Ok(())
}

impl EmulatedDecoder {
    /// A decoder for one detector and one set of options.
    ///
    /// # Errors
    /// When the launch parameters contradict each other, or the tables have more slots than 16 bits can count.
    pub fn new(tables: &DetectorTables, options: DecodeOptions, config: EmulatedConfig) -> Result<Self, DecodeError> {
        config.launch.validate().map_err(|error| failure(&error.to_string()))?;
        let detector = DeviceTables::new("emulated", tables)?;
        let fused = match config.pipeline {
            Pipeline::Fused => Some(HitWork::new(RankTables::new("emulated", tables, options)?, tables.boards().version)),
            Pipeline::Allen => None,
        };
        let bins = if config.switches.bins == 1 { 1 } else { config.launch.count_bins() };
        Ok(Self {
            switches: Switches { version: detector.version, bins, ..config.switches },
            detector,
            options: cluster_options(&options),
            flip_origin: options.flip.origin(),
            fused,
            work: Work::default(),
            launcher: Launcher {
                executor: Executor::new(config.schedule_seed),
                params: config.launch,
                stats: Vec::new(),
            },
        })
    }

    /// What each launch of the last batch cost, by kernel, in order.
    pub fn stats(&self) -> &[(&'static str, LaunchStats)] {
        &self.launcher.stats
    }

    fn run(&mut self, batch: &BatchView<'_>, hits: &mut UtHitsMut<'_>, report: &mut [u32]) -> Result<(), DecodeError> {
        let layout = match batch.layout {
            Layout::Allen => BatchLayout::Allen,
            Layout::Mep => BatchLayout::Mep,
        };
        self.switches.layout = layout;
        let Self { options, flip_origin, switches, fused, launcher, .. } = self;
        match fused {
            Some(fused) => {
                let switches = Switches::production(switches.version, layout);
                fused.run(launcher, switches, *options, *flip_origin, batch, hits, report)
            }
            None => self.run_allen(batch, hits, report),
        }
    }

    /// All launches for a batch of `n_events`, at least one. `report` has `N_COUNTS` words an event.
    fn run_allen(
        &mut self,
        batch: &BatchView<'_>,
        hits: &mut UtHitsMut<'_>,
        report: &mut [u32],
    ) -> Result<(), DecodeError> {
        let Self { detector, options, flip_origin, switches, work, launcher, .. } = self;
        let (options, flip_origin, params) = (*options, *flip_origin, launcher.params);
        let switches = *switches;
        let tables = detector.view();
        let (n_boards, n_groups) = (tables.n_boards(), tables.n_groups);
        let events = batch.n_events as u32;
        let n_counters = batch.n_events * n_groups as usize;
        let warps_of_groups = n_counters as u32;
        work.status = [0];
        launcher.executor.constant([
            tables.slots.as_ptr().addr(),
            tables.board_lanes.as_ptr().addr(),
            tables.groups.as_ptr().addr(),
            tables.sectors.as_ptr().addr(),
            tables.strips_per_hybrid.as_ptr().addr(),
            tables.layer_groups.as_ptr().addr(),
        ]);

        sized(&mut work.strip_counts, n_counters)?;
        sized(&mut work.strip_offsets, n_counters + 1)?;
        sized(&mut work.cluster_counts, n_counters)?;
        sized(&mut work.items, batch.n_events * items_capacity(switches.version, n_boards) as usize)?;
        sized(&mut work.n_items, batch.n_events)?;

        let device_batch = device_batch(batch);
        let output = CountOutput {
            strip_counts: launcher.executor.writable(&mut work.strip_counts),
            items: launcher.executor.writable(&mut work.items),
            n_items: launcher.executor.writable(&mut work.n_items),
            report: launcher.executor.writable(report),
        };
        let shared = count_hits_shared_bytes(switches.version, n_boards, n_groups);
        launcher.launch("count_hits", events, (params.count_block_x(), 1), shared, |block| {
            count_hits(block, switches, &device_batch, &tables, &output);
        })?;
        launcher.prefix_sum(&work.strip_counts, &mut work.strip_offsets, &mut work.tile_totals)?;

        // At most as many strips as hits. On a device this is a declared capacity.
        let strips = work.strip_offsets[n_counters];
        if strips == u32::MAX {
            return Err(failure("the batch has more strips than 32 bits can count"));
        }
        sized(&mut work.clusters, strips as usize)?;
        sized(&mut work.keys, strips as usize)?;
        sized(&mut work.permutation, strips as usize)?;
        sized(&mut work.scratch, strips as usize)?;

        let input = ClusterInput {
            raw: device_batch.raw,
            items: Global::from_slice(&work.items),
            n_items: Global::from_slice(&work.n_items),
            strip_offsets: Global::from_slice(&work.strip_offsets),
        };
        let output = ClusterOutput {
            clusters: launcher.executor.writable(&mut work.clusters),
            cluster_counts: launcher.executor.writable(&mut work.cluster_counts),
            report: launcher.executor.writable(report),
            status: launcher.executor.writable(&mut work.status),
        };
        let shared = cluster_and_predecode_shared_bytes(n_groups);
        launcher.launch("cluster_and_predecode", events, params.cluster_block(), shared, |block| {
            cluster_and_predecode(block, switches, options, &input, &tables, &output);
        })?;
        launcher.prefix_sum(&work.cluster_counts, hits.offsets, &mut work.tile_totals)?;

        let ranges = GroupRanges {
            strip_offsets: Global::from_slice(&work.strip_offsets),
            hit_offsets: Global::from_slice(hits.offsets),
            clusters: Global::from_slice(&work.clusters),
        };
        let keys = launcher.executor.writable(&mut work.keys);
        let block_x = params.compress_block_x();
        let grid = blocks_of_warps(warps_of_groups, block_x);
        launcher.launch("compress_and_make_keys", grid, (block_x, 1), 0, |block| {
            compress_and_make_keys(block, switches, flip_origin, &ranges, &tables, keys);
        })?;

        let keys = Global::from_slice(&work.keys);
        let permutation = launcher.executor.writable(&mut work.permutation);
        let scratch = launcher.executor.writable(&mut work.scratch);
        let block_x = params.sort_block_x();
        let grid = blocks_of_warps(warps_of_groups, block_x);
        launcher.launch("find_permutation", grid, (block_x, 1), 0, |block| {
            let run = params.sort_run();
            find_permutation(block, switches, flip_origin, run, &ranges, &tables, keys, permutation, scratch);
        })?;

        let input = DecodeInput {
            hit_offsets: Global::from_slice(hits.offsets),
            permutation: Global::from_slice(&work.permutation),
            clusters: Global::from_slice(&work.clusters),
        };
        // Room beyond the last hit is not looked at, and needs no books.
        let used = hits.id.len().min(hits.offsets[n_counters] as usize);
        let arrays = HitArrays {
            y_begin: launcher.executor.writable(&mut hits.y_begin[..used]),
            y_end: launcher.executor.writable(&mut hits.y_end[..used]),
            z_at_y_eq0: launcher.executor.writable(&mut hits.z_at_y_eq0[..used]),
            x_at_y_eq0: launcher.executor.writable(&mut hits.x_at_y_eq0[..used]),
            dx_dy: launcher.executor.writable(&mut hits.dx_dy[..used]),
            weight: launcher.executor.writable(&mut hits.weight[..used]),
            id: launcher.executor.writable(&mut hits.id[..used]),
        };
        let status = launcher.executor.writable(&mut work.status);
        launcher.launch("decode_in_order", events, (params.decode_block_x(), 1), 0, |block| {
            decode_in_order(block, switches, flip_origin, &input, &tables, &arrays, status);
        })?;

        if work.status[0] & status::STRIPS_OVERFLOW != 0 {
            return Err(failure("the strip buffers are too small for the batch"));
        }
        if work.status[0] & status::HITS_OVERFLOW != 0 {
            return Err(too_many_hits(hits.offsets, n_groups as usize, hits.id.len()));
        }
        Ok(())
    }
}

/// A batch as the kernels take it.
pub(super) fn device_batch<'a>(batch: &BatchView<'a>) -> Batch<'a> {
    Batch {
        raw: Global::from_slice(batch.raw),
        offsets: Global::from_slice(batch.offsets),
        sizes: Global::from_slice(batch.sizes),
        types: Global::from_slice(batch.types),
        versions: Global::from_slice(batch.versions.unwrap_or(&[])),
        has_versions: u32::from(batch.versions.is_some()),
    }
}

impl Decoder for EmulatedDecoder {
    fn name(&self) -> &'static str {
        "emulated"
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        let words = [batch.offsets, batch.sizes, batch.types, batch.versions.unwrap_or(&[])];
        let most_words = words.map(<[u32]>::len).into_iter().max().unwrap_or(0);
        self.detector.check_size("emulated", batch.n_events, batch.raw.len(), most_words)?;
        let mut arrays = hits.begin(batch.n_events, self.detector.n_groups as usize)?;
        report.reset(batch.n_events);
        self.launcher.stats.clear();
        if batch.n_events > 0 {
            self.run(&batch, &mut arrays, bytemuck::cast_slice_mut(&mut report.events))?;
        }
        for (event, counts) in report.events.iter_mut().enumerate() {
            add_meta(batch.meta_of(event), counts);
        }
        Ok(())
    }
}

pub(super) fn failure(message: &str) -> DecodeError {
    DecodeError::Device { backend: "emulated", message: message.to_owned() }
}

impl From<Violation> for DecodeError {
    fn from(violation: Violation) -> Self {
        failure(&violation.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::Grouping;
    use crate::input::{Bank, BatchBuilder, EventBatch, EventMeta};
    use crate::synth::{self, Generator, Profile};

    #[test]
    fn a_violation_in_a_kernel_is_an_error_of_the_decoder() {
        let (boards, geometry) = synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("the synthetic detector is sound");
        let config = EmulatedConfig { pipeline: Pipeline::Allen, ..EmulatedConfig::default() };
        let mut decoder = EmulatedDecoder::new(&tables, DecodeOptions::default(), config).expect("valid parameters");
        // Tables that lie: most sectors are not there.
        decoder.detector.sectors.truncate(3);
        let event = Generator::new(Profile::PpNominal, BankVersion::V5, 1).event(0);
        let banks = event.banks.iter().map(|(board, payload)| Bank {
            kind: 66,
            version: None,
            source_id: u32::from(*board),
            payload,
        });
        let mut builder = BatchBuilder::new();
        builder.push(EventMeta::default(), banks).expect("it fits");
        let mut batch = EventBatch::default();
        builder.finish(&mut batch);
        let mut hits = UtHits::with_capacity(1, tables.n_groups(), batch.view().max_hits());
        let result = decoder.decode(batch.view(), &mut hits, &mut BatchReport::new());
        let Err(DecodeError::Device { backend: "emulated", message }) = result else { panic!("{result:?}") };
        assert!(message.starts_with("kernel compress_and_make_keys, block "), "{message}");
        assert!(message.contains("hit.rs:") && message.ends_with("of 3"), "{message}");
    }
}
