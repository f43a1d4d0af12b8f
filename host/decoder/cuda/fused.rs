//! The fused pipeline on a device: its few buffers.
//!
//! Between raw banks and hits nothing is written to global memory but how many hits each event has.

use ut_kernels::fused::FusedOptions;
use ut_kernels::fused::pipeline::{self, FusedBuffers, FusedSetup};
use ut_kernels::switches::Switches;

use super::batch::DeviceBatch;
use super::buffer::Buffer;
use super::device::Device;
use super::launcher::DeviceLauncher;
use super::output::{Output, WORD};
use super::ranks::RanksOnDevice;
use super::setup::Setup;
use crate::decoder::DecodeError;
use crate::decoder::plan::Plan;
use crate::decoder::ptx::Unit;
use crate::input::Layout;

/// The buffers of a stream: the look-back states, what is gathered of the banks of a batch in MEP layout, and what a
/// count launch before leaves.
pub(super) struct FusedWork<D: Device> {
    bank_words: Buffer<D>,
    look_back: Buffer<D>,
    counts: Buffer<D>,
    bases: Buffer<D>,
    tile_totals: Buffer<D>,
}

impl<D: Device> FusedWork<D> {
    pub(super) const fn new() -> Self {
        Self {
            bank_words: Buffer::new(),
            look_back: Buffer::new(),
            counts: Buffer::new(),
            bases: Buffer::new(),
            tile_totals: Buffer::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let buffers = [&self.bank_words, &self.look_back, &self.counts, &self.bases, &self.tile_totals];
        buffers.map(Buffer::bytes).into_iter().sum()
    }

    pub(super) fn reserve_events(&mut self, device: &mut D, plan: &Plan) -> Result<(), DecodeError> {
        let events = plan.events as usize;
        self.look_back.reserve(device, (1 + events) * WORD)?;
        if !plan.counts_first() {
            return Ok(());
        }
        self.counts.reserve(device, events * WORD)?;
        self.bases.reserve(device, (events + 1) * WORD)?;
        self.tile_totals.reserve(device, plan.event_tiles() as usize * WORD)
    }

    /// Room for what is gathered of the batch's banks.
    pub(super) fn reserve_banks(&mut self, device: &mut D, batch: &DeviceBatch) -> Result<(), DecodeError> {
        self.bank_words.reserve(device, bank_words(batch) * WORD)
    }

    /// All launches, without waiting for any.
    ///
    /// # Safety
    /// - `batch` can be read by the device, for as many elements as it says, until the stream has done this.
    /// - The buffers are reserved for the plan, here and in `output`, and its status word is 0 by then.
    pub(super) unsafe fn launch(
        &self,
        device: &mut D,
        stream: &D::Stream,
        (setup, ranks): (&Setup<D>, &RanksOnDevice<D>),
        plan: &Plan,
        batch: &DeviceBatch,
        output: &Output<D>,
    ) -> Result<(), DecodeError> {
        let layout = batch.layout;
        let unit = Unit::fused(setup.tables.host.version, layout);
        let events = plan.events as usize;
        let counted = if plan.counts_first() { events } else { 0 };
        let mut buffers: FusedBuffers<DeviceLauncher<'_, D>> = FusedBuffers {
            bank_words: self.bank_words.device_view(bank_words(batch)),
            counts: self.counts.device_view(counted),
            bases: self.bases.device_view(if counted == 0 { 0 } else { counted + 1 }),
            tile_totals: self.tile_totals.device_view(if counted == 0 { 0 } else { plan.event_tiles() as usize }),
            look_back: self.look_back.device_view(1 + events),
        };
        let fused = FusedSetup {
            switches: Switches::production(setup.tables.host.version, layout),
            options: FusedOptions {
                cluster: setup.options,
                flip_origin: setup.flip_origin,
                room: setup.params.fused_room(),
            },
            n_events: plan.events,
            shapes: plan.fused_shapes(),
        };
        // SAFETY: until the stream is done,
        // - the views are of `batch`, which the device can read, and of buffers that are reserved for the plan:
        // required
        //   of the caller; tables and work lie in buffers of this decoder, which are as long as their views;
        // - the shapes are the plan's, for these kernels.
        let mut launcher = unsafe { DeviceLauncher::new(device, stream, unit, unit.name, unit.name) };
        pipeline::decode(&mut launcher, &fused, batch.view(), ranks.view(), &mut buffers, &mut output.views(plan))
    }
}

/// Words that are gathered of the banks of a batch: as many as there are offsets, whatever these say.
const fn bank_words(batch: &DeviceBatch) -> usize {
    match batch.layout {
        Layout::Allen => 0,
        Layout::Mep => batch.offsets.1,
    }
}
