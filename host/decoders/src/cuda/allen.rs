//! Allen's pipeline on a device: its buffers between the kernels. Totals stay on the device, where
//! each kernel checks them against the buffers, so that no kernel waits for the host.

use ut_kernels::allen::pipeline::{self, AllenBuffers, AllenSetup, StripBuffers};
use ut_kernels::hit::Cluster;
use ut_kernels::switches::Switches;

use super::batch::DeviceBatch;
use super::buffer::{ArrayPlaces, Buffer, Place};
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use super::launcher::DeviceLauncher;
use super::output::{DeviceOutput, WORD};
use super::setup::LaunchSetup;
use crate::plan::Plan;
use ut_data::DecodeError;

pub(super) struct AllenWork {
    of_events: Buffer,
    of_strips: Buffer,
    pub(super) strips: usize,
}

struct EventPlaces {
    strip_counts: Place,
    strip_offsets: Place,
    cluster_counts: Place,
    tile_totals: Place,
    items: Place,
    n_items: Place,
    bytes: usize,
}

impl EventPlaces {
    fn of(plan: &Plan) -> Self {
        let counters = plan.counters as usize;
        let mut places = ArrayPlaces { bytes: 0 };
        Self {
            strip_counts: places.next(counters, WORD),
            strip_offsets: places.next(counters + 1, WORD),
            cluster_counts: places.next(counters, WORD),
            tile_totals: places.next(plan.tiles() as usize, WORD),
            items: places.next(plan.items, size_of::<u64>()),
            n_items: places.next(plan.events as usize, WORD),
            bytes: places.bytes,
        }
    }
}

/// Returns the places of clusters, keys, permutation and scratch for this many strips, and their
/// total size in bytes.
const fn strip_places(strips: usize) -> ([Place; 4], usize) {
    let mut places = ArrayPlaces { bytes: 0 };
    let clusters = places.next(strips, size_of::<Cluster>());
    let keys = places.next(strips, size_of::<u64>());
    let permutation = places.next(strips, WORD);
    let scratch = places.next(strips, WORD);
    ([clusters, keys, permutation, scratch], places.bytes)
}

impl AllenWork {
    pub(super) const fn new() -> Self {
        Self {
            of_events: Buffer::new(),
            of_strips: Buffer::new(),
            strips: 0,
        }
    }

    pub(super) fn reserve(
        &mut self,
        device: &CudaDevice,
        plan: &Plan,
        strips: usize,
    ) -> Result<(), DecodeError> {
        self.of_events
            .reserve(device, EventPlaces::of(plan).bytes)?;
        if strips > self.strips {
            self.strips = 0;
            self.of_strips.reserve(device, strip_places(strips).1)?;
            self.strips = strips;
        }
        Ok(())
    }

    /// Returns the address of the batch's number of strips, which is valid once the kernels have
    /// run.
    pub(super) fn strips_found(&self, plan: &Plan) -> u64 {
        self.of_events.address()
            + (EventPlaces::of(plan).strip_offsets.at + plan.counters as usize * WORD) as u64
    }

    /// Launches all kernels, without waiting for any.
    ///
    /// # Safety
    /// - `batch` can be read by the device, for as many elements as it says, until the stream has
    ///   done this.
    /// - The buffers are reserved for the plan, here and in `output`, and its status word is 0 by
    ///   then.
    pub(super) unsafe fn launch(
        &self,
        device: &mut CudaDevice,
        stream: &CudaStream,
        setup: &LaunchSetup,
        plan: &Plan,
        batch: &DeviceBatch,
        output: &DeviceOutput,
    ) -> Result<(), DecodeError> {
        let (unit, variant) = setup.variant(batch.layout);
        let bins8 = unit.bins8();
        let count_variant = if setup.rung.is_none() && setup.params.count_bins() == 8 {
            &bins8
        } else {
            &variant
        };
        let places = EventPlaces::of(plan);
        let ([clusters, keys, permutation, scratch], _) = strip_places(self.strips);
        let mut buffers: AllenBuffers<DeviceLauncher<'_>> = AllenBuffers {
            strip_counts: self.of_events.device_view(places.strip_counts),
            strip_offsets: self.of_events.device_view(places.strip_offsets),
            cluster_counts: self.of_events.device_view(places.cluster_counts),
            tile_totals: self.of_events.device_view(places.tile_totals),
            items: self.of_events.device_view(places.items),
            n_items: self.of_events.device_view(places.n_items),
            strips: StripBuffers {
                clusters: self.of_strips.device_view(clusters),
                keys: self.of_strips.device_view(keys),
                permutation: self.of_strips.device_view(permutation),
                scratch: self.of_strips.device_view(scratch),
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
        // - `batch` can be read, and the buffers are reserved for the plan: required of the caller;
        //   tables and work lie in buffers of this decoder, as long as their views;
        // - the shapes are the plan's, for these kernels.
        let mut launcher =
            unsafe { DeviceLauncher::new(device, stream, unit, &variant, count_variant) };
        let (batch, tables) = (batch.view(setup.tables.host.version), setup.tables.view());
        pipeline::decode(
            &mut launcher,
            &allen,
            batch,
            tables,
            &mut buffers,
            &mut output.views(plan),
        )
    }
}
