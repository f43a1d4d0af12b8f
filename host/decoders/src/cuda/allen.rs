//! Allen's pipeline on a device: its buffers between the kernels.
//!
//! No kernel waits for the host: totals stay on the device, where each kernel checks them against the buffers.

use ut_kernels::allen::pipeline::{self, AllenBuffers, AllenSetup, StripBuffers};
use ut_kernels::hit::Cluster;
use ut_kernels::switches::Switches;

use super::batch::DeviceBatch;
use super::buffer::Buffer;
use super::device::Device;
use super::launcher::DeviceLauncher;
use super::output::{Output, WORD};
use super::setup::Setup;
use crate::DecodeError;
use crate::plan::Plan;

/// The buffers between the kernels.
pub(super) struct AllenWork<D: Device> {
    strip_counts: Buffer<D>,
    strip_offsets: Buffer<D>,
    cluster_counts: Buffer<D>,
    tile_totals: Buffer<D>,
    items: Buffer<D>,
    n_items: Buffer<D>,
    clusters: Buffer<D>,
    keys: Buffer<D>,
    permutation: Buffer<D>,
    scratch: Buffer<D>,
    /// Room for strips, in elements.
    pub(super) strips: usize,
}

impl<D: Device> AllenWork<D> {
    pub(super) const fn new() -> Self {
        Self {
            strip_counts: Buffer::new(),
            strip_offsets: Buffer::new(),
            cluster_counts: Buffer::new(),
            tile_totals: Buffer::new(),
            items: Buffer::new(),
            n_items: Buffer::new(),
            clusters: Buffer::new(),
            keys: Buffer::new(),
            permutation: Buffer::new(),
            scratch: Buffer::new(),
            strips: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let counters = [&self.strip_counts, &self.strip_offsets, &self.cluster_counts, &self.tile_totals];
        let lists = [&self.items, &self.n_items, &self.clusters, &self.keys, &self.permutation, &self.scratch];
        counters.into_iter().chain(lists).map(Buffer::bytes).sum()
    }

    pub(super) fn reserve_events(&mut self, device: &mut D, plan: &Plan) -> Result<(), DecodeError> {
        let (counters, events) = (plan.counters as usize, plan.events as usize);
        self.strip_counts.reserve(device, counters * WORD)?;
        self.strip_offsets.reserve(device, (counters + 1) * WORD)?;
        self.cluster_counts.reserve(device, counters * WORD)?;
        self.tile_totals.reserve(device, plan.tiles() as usize * WORD)?;
        self.items.reserve(device, plan.items * size_of::<u64>())?;
        self.n_items.reserve(device, events * WORD)
    }

    pub(super) fn reserve_strips(&mut self, device: &mut D, strips: usize) -> Result<(), DecodeError> {
        if strips > self.strips {
            self.strips = 0;
            self.clusters.reserve(device, strips * size_of::<Cluster>())?;
            self.keys.reserve(device, strips * size_of::<u64>())?;
            self.permutation.reserve(device, strips * WORD)?;
            self.scratch.reserve(device, strips * WORD)?;
            self.strips = strips;
        }
        Ok(())
    }

    /// Where the number of strips of the batch is, once the kernels have run.
    pub(super) fn strips_found(&self, plan: &Plan) -> u64 {
        self.strip_offsets.address() + (plan.counters as usize * WORD) as u64
    }

    /// All kernels, without waiting for any.
    ///
    /// # Safety
    /// - `batch` can be read by the device, for as many elements as it says, until the stream has done this.
    /// - The buffers are reserved for the plan, here and in `output`, and its status word is 0 by then.
    pub(super) unsafe fn launch(
        &self,
        device: &mut D,
        stream: &D::Stream,
        setup: &Setup<D>,
        plan: &Plan,
        batch: &DeviceBatch,
        output: &Output<D>,
    ) -> Result<(), DecodeError> {
        let (unit, variant) = setup.variant(batch.layout);
        let bins8 = unit.bins8();
        let count_variant = if setup.rung.is_none() && setup.params.count_bins() == 8 { &bins8 } else { &variant };
        let (counters, events, strips) = (plan.counters as usize, plan.events as usize, self.strips);
        let mut buffers: AllenBuffers<DeviceLauncher<'_, D>> = AllenBuffers {
            strip_counts: self.strip_counts.device_view(counters),
            strip_offsets: self.strip_offsets.device_view(counters + 1),
            cluster_counts: self.cluster_counts.device_view(counters),
            tile_totals: self.tile_totals.device_view(plan.tiles() as usize),
            items: self.items.device_view(plan.items),
            n_items: self.n_items.device_view(events),
            strips: StripBuffers {
                clusters: self.clusters.device_view(strips),
                keys: self.keys.device_view(strips),
                permutation: self.permutation.device_view(strips),
                scratch: self.scratch.device_view(strips),
            },
        };
        let allen = AllenSetup {
            switches: Switches::production(setup.tables.host.version, batch.layout),
            options: setup.options,
            flip_origin: setup.flip_origin,
            sort_run: setup.params.sort_run(),
            shapes: plan.allen_shapes(),
        };
        // SAFETY: until the stream is done,
        // - the views are of `batch`, which the device can read, and of buffers that are reserved for the plan:
        // required
        //   of the caller; tables and work lie in buffers of this decoder, which are as long as their views;
        // - the shapes are the plan's, for these kernels.
        let mut launcher = unsafe { DeviceLauncher::new(device, stream, unit, &variant, count_variant) };
        let (batch, tables) = (batch.view(setup.tables.host.version), setup.tables.view());
        pipeline::decode(&mut launcher, &allen, batch, tables, &mut buffers, &mut output.views(plan))
    }
}
