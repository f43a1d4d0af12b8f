//! A decoder that runs the device kernels in the executor.
//!
//! It is the same source as on a GPU, compiled for the CPU, thread by thread, with every access
//! checked. It is thousands of times slower than the CPU decoder, and has two uses: tests find
//! races and accesses out of bounds on a machine without a GPU, with as many schedules as seeds;
//! and the bench counts what a kernel asks of the hardware. Its hits have the bits of every other
//! backend.

use bytemuck::NoUninit;
use simt::executor::{Executor, LaunchStats};
use simt::{Global, Launcher as _, Plain};
use ut_kernels::allen::pipeline::{self as allen, AllenBuffers, AllenSetup, StripBuffers};
use ut_kernels::bank::layout::Batch;
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::detector::BankVersion;
use ut_kernels::hit::{HitBuffers, Output};
use ut_kernels::ranked::gather::bank_words;
use ut_kernels::ranked::pipeline::{RankedBuffers, RankedSetup};
use ut_kernels::ranked::{self, RankedOptions};
use ut_kernels::status;
use ut_kernels::switches::Switches;

use super::failure;
use super::launcher::{ExecutorLauncher, HostBuffer};
use crate::Pipeline;
use crate::occupancy::{Architecture, Multiprocessors};
use crate::parameters::Parameters;
use crate::placer::{InPlace, Placer};
use crate::plan::{
    DeviceTables, Plan, add_meta, check_selected, cluster_options, first_event_word, most_records,
    too_many_hits, version_word,
};
use crate::rank_tables::RankTables;
use ut_data::detector::DetectorTables;
use ut_data::input::{BatchView, Layout};
use ut_data::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits, UtHitsMut};

/// Settings of an [`EmulatedDecoder`]; none changes a result.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedConfig {
    schedule_seed: u64,
    /// Pipeline, block shapes and other launch parameters.
    launch: Parameters,
    switches: Switches,
}

impl Default for EmulatedConfig {
    fn default() -> Self {
        Self {
            schedule_seed: 0,
            launch: Parameters::default(),
            switches: Switches::production(BankVersion::V5, Layout::Allen),
        }
    }
}

impl EmulatedConfig {
    /// Returns the defaults, with the kernels and launches of `parameters`.
    pub fn of(parameters: &Parameters) -> Self {
        Self {
            launch: *parameters,
            ..Self::default()
        }
    }

    /// Sets the kernels. Default: [`Pipeline::Ranked`].
    #[must_use]
    pub const fn with_pipeline(mut self, pipeline: Pipeline) -> Self {
        self.launch = self.launch.with_pipeline(pipeline);
        self
    }

    /// Sets the seed of the order of blocks, warps and threads. Default: 0.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.schedule_seed = seed;
        self
    }

    /// Sets the optimisations of Allen's pipeline. Tables and batch set version and layout;
    /// `count.bins` sets `bins`, unless it is 1. Default: all.
    #[must_use]
    pub const fn with_switches(mut self, switches: Switches) -> Self {
        self.switches = switches;
        self
    }
}

/// Multiprocessors that the executor stands for: a small GPU, so that blocks take several events in
/// turn. Two multiprocessors of sm_75 hold eight blocks of `cluster`.
const DEVICE: Multiprocessors = Multiprocessors {
    number: 2,
    each: Architecture::ALL[0],
};

/// Decodes with the device kernels on the CPU, and checks them.
#[derive(Debug)]
pub struct EmulatedDecoder {
    detector: DeviceTables,
    options: ClusterOptions,
    flip_origin: f32,
    switches: Switches,
    params: Parameters,
    /// With [`Pipeline::Ranked`].
    ranks: Option<RankTables>,
    executor: Executor,
    stats: Vec<(&'static str, LaunchStats)>,
}

impl EmulatedDecoder {
    /// Creates a decoder for one detector and one set of options.
    pub fn new(
        tables: &DetectorTables,
        options: DecodeOptions,
        config: EmulatedConfig,
    ) -> Result<Self, DecodeError> {
        config
            .launch
            .validate()
            .map_err(|error| failure(&error.to_string()))?;
        let detector = DeviceTables::new("emulated", tables)?;
        let ranks = match config.launch.pipeline() {
            Pipeline::Allen => None,
            Pipeline::Ranked => Some(RankTables::new("emulated", tables, options)?),
        };
        let bins = if config.switches.bins == 1 {
            1
        } else {
            config.launch.count_bins()
        };
        Ok(Self {
            switches: Switches {
                version: detector.version,
                bins,
                ..config.switches
            },
            detector,
            options: cluster_options(&options),
            flip_origin: options.flip().origin(),
            params: config.launch,
            ranks,
            executor: Executor::new(config.schedule_seed),
            stats: Vec::new(),
        })
    }

    /// Cost of each launch of the last batch, by kernel, in order.
    pub fn stats(&self) -> &[(&'static str, LaunchStats)] {
        &self.stats
    }

    /// Launches all kernels for a batch of at least one event. `report` has `N_COUNTS` words per
    /// event.
    fn run(
        &mut self,
        batch: &BatchView<'_>,
        hits: &mut UtHitsMut<'_>,
        report: &mut [u32],
    ) -> Result<(), DecodeError> {
        let plan = Plan::new(&self.detector, self.params, batch.n_events, DEVICE);
        let mut status_word = [0];
        let mut output: Output<ExecutorLauncher<'_>> = Output {
            hits: HitBuffers {
                y_begin: HostBuffer::Of(&mut *hits.y_begin),
                y_end: HostBuffer::Of(&mut *hits.y_end),
                z_at_y_eq0: HostBuffer::Of(&mut *hits.z_at_y_eq0),
                x_at_y_eq0: HostBuffer::Of(&mut *hits.x_at_y_eq0),
                dx_dy: HostBuffer::Of(&mut *hits.dx_dy),
                weight: HostBuffer::Of(&mut *hits.weight),
                id: HostBuffer::Of(&mut *hits.id),
            },
            offsets: HostBuffer::Of(&mut *hits.offsets),
            report: HostBuffer::Of(report),
            status: HostBuffer::Of(&mut status_word),
        };
        match &self.ranks {
            None => {
                let mut launcher = ExecutorLauncher::new(&mut self.executor, &mut self.stats);
                let switches = Switches {
                    layout: batch.layout,
                    ..self.switches
                };
                let setup = AllenSetup {
                    switches,
                    options: self.options,
                    flip_origin: self.flip_origin,
                    sort_run: self.params.sort_run(),
                    shapes: plan.allen_shapes(),
                };
                run_allen(
                    &mut launcher,
                    &self.detector,
                    &plan,
                    &setup,
                    batch,
                    &mut output,
                )?;
            }
            Some(ranks) => {
                let mut launcher = ExecutorLauncher::new(&mut self.executor, &mut self.stats);
                let setup = RankedSetup {
                    switches: Switches::production(self.switches.version, batch.layout),
                    options: RankedOptions::new(self.options, self.flip_origin),
                    n_events: plan.events,
                    list: batch.selected.map(Global::from_slice),
                    shapes: plan.ranked_shapes(),
                };
                let mut room = most_records(self.switches.version, batch.raw.len(), batch.n_events);
                loop {
                    let taken = run_ranked(
                        &mut launcher,
                        ranks,
                        &plan,
                        &setup,
                        batch,
                        &mut output,
                        room,
                    )?;
                    if taken <= room {
                        break;
                    }
                    room = taken;
                }
            }
        }
        if status_word[0] & status::STRIPS_OVERFLOW != 0 {
            return Err(failure("the strip buffers are too small for the batch"));
        }
        if status_word[0] & status::HITS_OVERFLOW != 0 {
            return Err(too_many_hits(
                hits.offsets,
                self.detector.n_groups as usize,
                hits.id.len(),
            ));
        }
        Ok(())
    }
}

fn run_allen<'h>(
    launcher: &mut ExecutorLauncher<'h>,
    detector: &'h DeviceTables,
    plan: &Plan,
    setup: &AllenSetup,
    batch: &BatchView<'_>,
    output: &mut Output<ExecutorLauncher<'h>>,
) -> Result<(), DecodeError> {
    let (counters, events) = (plan.counters as usize, plan.events as usize);
    let mut constants = Constants::default();
    let tables = detector.placed(&mut constants);
    launcher.constant(constants.0);
    let mut buffers: AllenBuffers<ExecutorLauncher<'h>> = AllenBuffers {
        strip_counts: HostBuffer::of_len(counters)?,
        strip_offsets: HostBuffer::of_len(counters + 1)?,
        cluster_counts: HostBuffer::of_len(counters)?,
        tile_totals: HostBuffer::of_len(plan.tiles() as usize)?,
        items: HostBuffer::of_len(plan.items)?,
        n_items: HostBuffer::of_len(events)?,
        // Reserved once the number of strips is known.
        strips: StripBuffers {
            clusters: HostBuffer::of_len(0)?,
            keys: HostBuffer::of_len(0)?,
            permutation: HostBuffer::of_len(0)?,
            scratch: HostBuffer::of_len(0)?,
        },
    };
    allen::decode(
        launcher,
        setup,
        device_batch(batch, detector.version),
        tables,
        &mut buffers,
        output,
    )
}

/// Decodes with room for `records` records; returns the number of records in the batch.
///
/// The number may exceed `room`: kernels that find no room still count. Then the hits are not
/// complete, and the caller tries again with room for that many.
fn run_ranked<'h>(
    launcher: &mut ExecutorLauncher<'h>,
    ranks: &'h RankTables,
    plan: &Plan,
    setup: &RankedSetup<'_>,
    batch: &BatchView<'_>,
    output: &mut Output<ExecutorLauncher<'h>>,
    room: usize,
) -> Result<usize, DecodeError> {
    let events = plan.events as usize;
    let mut constants = Constants::default();
    let tables = ranks.placed(&mut constants);
    launcher.constant(constants.0);
    let is_mep = batch.layout == Layout::Mep;
    let mut buffers: RankedBuffers<ExecutorLauncher<'h>> = RankedBuffers {
        selected: HostBuffer::of_len(batch.selected.map_or(0, |_| events.div_ceil(32)))?,
        bank_words: HostBuffer::of_len(if is_mep {
            bank_words(events, batch.offsets.len())
        } else {
            0
        })?,
        records: HostBuffer::of_len(room)?,
        counters: HostBuffer::of_len(ranked::COUNTERS)?,
        heads: HostBuffer::of_len(events * ranked::HEAD_WORDS as usize)?,
        starts: HostBuffer::of_len(plan.counters as usize)?,
        n_hits: HostBuffer::of_len(events)?,
        unusual: HostBuffer::of_len(events)?,
        flagged: HostBuffer::of_len(plan.counters as usize)?,
        bases: HostBuffer::of_len(events + 1)?,
        descriptors: HostBuffer::of_len(1 + plan.event_tiles() as usize)?,
    };
    launcher.zero(&mut output.status)?;
    let batch = device_batch(batch, setup.switches.version);
    ranked::pipeline::decode(launcher, setup, batch, tables, &mut buffers, output)?;
    Ok(buffers.counters.slice()[ranked::TAKEN as usize] as usize)
}

/// Addresses of the tables, which stay where they are.
///
/// The executor counts accesses to the tables apart from accesses to the batch, since all events
/// share them and a GPU keeps them in its caches.
#[derive(Default)]
struct Constants(Vec<usize>);

impl<'t> Placer<'t, 't> for Constants {
    fn place<T: Plain + NoUninit>(&mut self, array: &'t [T]) -> Global<'t, T> {
        self.0.push(array.as_ptr().addr());
        InPlace.place(array)
    }
}

fn device_batch<'a>(batch: &BatchView<'a>, version: BankVersion) -> Batch<'a> {
    Batch {
        raw: Global::from_slice(batch.raw),
        offsets: Global::from_slice(batch.offsets),
        sizes: Global::from_slice(batch.sizes),
        types: Global::from_slice(batch.types),
        versions: Global::from_slice(batch.versions.unwrap_or(&[])),
        version: version_word(batch.versions.is_some(), batch.version, version),
        first_event: first_event_word(batch.first_event, batch.n_events),
    }
}

impl Decoder for EmulatedDecoder {
    fn name(&self) -> &'static str {
        "emulated"
    }

    fn decode(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHits,
        report: &mut BatchReport,
    ) -> Result<(), DecodeError> {
        check_selected("emulated", self.ranks.as_ref(), &batch)?;
        self.detector.check.check(&batch)?;
        self.detector.check_size(
            "emulated",
            batch.n_events,
            batch.raw.len(),
            batch.most_words(),
        )?;
        let mut arrays = hits.begin(batch.n_events, self.detector.n_groups as usize)?;
        report.reset(batch.n_events);
        self.stats.clear();
        if batch.n_events > 0 {
            let result = self.run(
                &batch,
                &mut arrays,
                bytemuck::cast_slice_mut(&mut report.events),
            );
            hits.forget_on(result)?;
        }
        for (counts, meta) in report.events.iter_mut().zip(batch.meta_of_results()) {
            add_meta(meta, counts);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ut_data::detector::Grouping;
    use ut_data::input::{Bank, BatchBuilder, EventBatch, EventMeta};
    use ut_data::synth::{Generator, Profile};

    #[test]
    fn a_violation_in_a_kernel_is_an_error_of_the_decoder() {
        let tables = ut_data::synth::tables(BankVersion::V5, Grouping::YRows);
        let config = EmulatedConfig::default().with_pipeline(Pipeline::Allen);
        let mut decoder = EmulatedDecoder::new(&tables, DecodeOptions::default(), config)
            .expect("valid parameters");
        // Broken tables: most sectors are missing.
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
        let Err(DecodeError::Device {
            backend: "emulated",
            message,
        }) = result
        else {
            panic!("{result:?}")
        };
        assert!(
            message.starts_with("kernel compress_and_make_keys, block "),
            "{message}"
        );
        assert!(
            message.contains("hit.rs:") && message.ends_with("of 3"),
            "{message}"
        );
    }
}
