//! Allen's pipeline: its buffers between the kernels, and its nine launches.
//!
//! No kernel waits for the host: totals stay on the device, where each kernel holds them against the buffers.

use simt::{Global, GlobalMut};
use ut_kernels::cluster_and_predecode::{ClusterInput, ClusterOutput};
use ut_kernels::compress_and_make_keys::GroupRanges;
use ut_kernels::count_hits::CountOutput;
use ut_kernels::decode_in_order::DecodeInput;
use ut_kernels::hit::Cluster;

use super::batch::DeviceBatch;
use super::buffer::Buffer;
use super::device::{Argument, Device};
use super::output::{Output, WORD};
use super::setup::Setup;
use crate::decoder::DecodeError;
use crate::decoder::plan::Plan;
use crate::decoder::ptx::{Kernel, Unit};

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
    strips: usize,
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
        let mut run = Run { work: self, device, stream, plan, unit, variant: &variant };
        let (counters, events, strips) = (plan.counters as usize, plan.events as usize, self.strips);
        let (tables, raw_batch) = (setup.tables.view(), batch.view());
        let (flip_origin, sort_run) = (setup.flip_origin, setup.params.sort_run());
        let strip_offsets = self.strip_offsets.global::<u32>(counters + 1);
        let (report, status) = (output.report(plan), output.status(plan));

        let bins8 = unit.bins8();
        let count_variant = if setup.rung.is_none() && setup.params.count_bins() == 8 { &bins8 } else { &variant };
        let to = CountOutput {
            strip_counts: self.strip_counts.global_mut(counters),
            items: self.items.global_mut(plan.items),
            n_items: self.n_items.global_mut(events),
            report,
        };
        let arguments = [Argument::of(&raw_batch), Argument::of(&tables), Argument::of(&to)];
        // SAFETY: the entry's arguments, as `ut_kernels::nvptx::entries` has them, on buffers of the plan's sizes.
        unsafe { run.launch(Kernel::CountHits, count_variant, &arguments) }?;
        run.prefix_sum(self.strip_counts.global(counters), self.strip_offsets.global_mut(counters + 1))?;

        let from = ClusterInput {
            raw: raw_batch.raw,
            items: self.items.global(plan.items),
            n_items: self.n_items.global(events),
            strip_offsets,
        };
        let to = ClusterOutput {
            clusters: self.clusters.global_mut(strips),
            cluster_counts: self.cluster_counts.global_mut(counters),
            report,
            status,
        };
        let options = setup.options;
        let arguments = [Argument::of(&options), Argument::of(&from), Argument::of(&tables), Argument::of(&to)];
        // SAFETY: as above; the kernel itself holds the strips against `clusters`.
        unsafe { run.launch(Kernel::ClusterAndPredecode, &variant, &arguments) }?;
        run.prefix_sum(self.cluster_counts.global(counters), output.offsets(plan))?;

        let hit_offsets = output.offsets_to_read(plan);
        let ranges = GroupRanges { strip_offsets, hit_offsets, clusters: self.clusters.global(strips) };
        let keys = self.keys.global_mut::<u64>(strips);
        let arguments = [Argument::of(&flip_origin), Argument::of(&ranges), Argument::of(&tables), Argument::of(&keys)];
        // SAFETY: as above.
        unsafe { run.launch(Kernel::CompressAndMakeKeys, &variant, &arguments) }?;

        let keys = self.keys.global::<u64>(strips);
        let (permutation, scratch) =
            (self.permutation.global_mut::<u32>(strips), self.scratch.global_mut::<u32>(strips));
        let arguments = [
            Argument::of(&flip_origin),
            Argument::of(&sort_run),
            Argument::of(&ranges),
            Argument::of(&tables),
            Argument::of(&keys),
            Argument::of(&permutation),
            Argument::of(&scratch),
        ];
        // SAFETY: as above.
        unsafe { run.launch(Kernel::FindPermutation, &variant, &arguments) }?;

        let from = DecodeInput {
            hit_offsets,
            permutation: self.permutation.global(strips),
            clusters: self.clusters.global(strips),
        };
        let to = output.hits();
        let arguments = [
            Argument::of(&flip_origin),
            Argument::of(&from),
            Argument::of(&tables),
            Argument::of(&to),
            Argument::of(&status),
        ];
        // SAFETY: as above; the kernel itself holds the hits against their arrays.
        unsafe { run.launch(Kernel::DecodeInOrder, &variant, &arguments) }
    }
}

/// The launches of one batch.
struct Run<'a, D: Device> {
    work: &'a AllenWork<D>,
    device: &'a mut D,
    stream: &'a D::Stream,
    plan: &'a Plan,
    unit: Unit,
    variant: &'a str,
}

impl<D: Device> Run<'_, D> {
    /// # Safety
    /// - As [`Device::launch`].
    unsafe fn launch(&mut self, kernel: Kernel, variant: &str, arguments: &[Argument<'_>]) -> Result<(), DecodeError> {
        let shape = self.plan.shape(kernel);
        // SAFETY: the caller's word.
        unsafe { self.device.launch(self.stream, self.unit, kernel, variant, shape, arguments) }
    }

    fn prefix_sum(&mut self, counts: Global<'_, u32>, offsets: GlobalMut<'_, u32>) -> Result<(), DecodeError> {
        let (tiles, n, variant) = (self.plan.tiles() as usize, self.plan.counters, self.variant);
        let totals = self.work.tile_totals.global_mut::<u32>(tiles);
        let arguments = [Argument::of(&counts), Argument::of(&offsets), Argument::of(&totals)];
        // SAFETY: the arguments of `prefix_sum_tiles`, on buffers that were reserved for this plan.
        unsafe { self.launch(Kernel::PrefixSumTiles, variant, &arguments) }?;
        let totals = self.work.tile_totals.global::<u32>(tiles);
        let arguments = [Argument::of(&n), Argument::of(&totals), Argument::of(&offsets)];
        // SAFETY: the arguments of `prefix_sum_offsets`, on the same buffers.
        unsafe { self.launch(Kernel::PrefixSumOffsets, variant, &arguments) }
    }
}
