//! The one-launch pipeline: its few buffers, and its launches.
//!
//! Between raw banks and hits nothing is written to global memory but how many hits each event has.

use simt::Global;
use ut_kernels::fused::{FusedInput, FusedOptions, FusedOutput, Room};
use ut_kernels::switches::BatchLayout;

use super::batch::DeviceBatch;
use super::buffer::Buffer;
use super::device::{Argument, Device};
use super::output::{Output, WORD};
use super::ranks::RanksOnDevice;
use super::setup::Setup;
use crate::decoder::DecodeError;
use crate::decoder::plan::Plan;
use crate::decoder::ptx::{Kernel, Unit};
use crate::input::Layout;

/// The buffers of a stream: the look-back states, what is gathered of the banks of a batch in MEP layout, and what a count
/// launch before leaves.
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
        self.tile_totals.reserve(device, tiles(plan) * WORD)
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
        let layout = match batch.layout {
            Layout::Allen => BatchLayout::Allen,
            Layout::Mep => BatchLayout::Mep,
        };
        let unit = Unit::fused(setup.tables.host.version, layout);
        let events = plan.events as usize;
        let (batch_view, tables, room) = (batch.view(), ranks.view(), setup.params.fused_room());
        let input = FusedInput { batch: batch_view, bank_words: self.bank_words.global(bank_words(batch)) };
        let of_room = |room| FusedOptions { cluster: setup.options, flip_origin: setup.flip_origin, room };
        let (options, counting) = (of_room(room), of_room(Room { tile: 0, ..room }));

        // SAFETY: reserved; the stream does one batch after the other, so that nobody looks back at it now.
        unsafe { device.zero(stream, self.look_back.address(), 1 + events) }?;
        let mut launch = |kernel, shape, arguments: &[Argument<'_>]| {
            // SAFETY: the entry's arguments, as `ut_kernels::nvptx::entries` has them, on buffers of the plan's sizes.
            unsafe { device.launch(stream, unit, kernel, unit.name, shape, arguments) }
        };
        if batch.layout == Layout::Mep {
            let words = self.bank_words.global_mut::<u32>(bank_words(batch));
            let arguments = [Argument::of(&batch_view), Argument::of(&plan.events), Argument::of(&words)];
            launch(Kernel::GatherBanks, plan.shape(Kernel::GatherBanks), &arguments)?;
        }
        let mut bases: Global<'_, u32> = self.bases.global(0);
        if plan.counts_first() {
            let kernel = Kernel::CountClusters;
            let counts = self.counts.global_mut::<u32>(events);
            let arguments =
                [Argument::of(&counting), Argument::of(&input), Argument::of(&tables), Argument::of(&counts)];
            launch(kernel, plan.shape(kernel), &arguments)?;
            let (counts, sums) = (self.counts.global::<u32>(events), self.bases.global_mut::<u32>(events + 1));
            let totals = self.tile_totals.global_mut::<u32>(tiles(plan));
            let kernel = Kernel::PrefixSumTiles;
            let arguments = [Argument::of(&counts), Argument::of(&sums), Argument::of(&totals)];
            launch(kernel, plan.shape_over_events(kernel), &arguments)?;
            let totals = self.tile_totals.global::<u32>(tiles(plan));
            let kernel = Kernel::PrefixSumOffsets;
            let arguments = [Argument::of(&plan.events), Argument::of(&totals), Argument::of(&sums)];
            launch(kernel, plan.shape_over_events(kernel), &arguments)?;
            bases = self.bases.global(events + 1);
        }
        let to = FusedOutput {
            hits: output.hits(),
            offsets: output.offsets(plan),
            report: output.report(plan),
            status: output.status(plan),
            look_back: self.look_back.global_mut(1 + events),
            bases,
        };
        let arguments = [Argument::of(&options), Argument::of(&input), Argument::of(&tables), Argument::of(&to)];
        launch(Kernel::Fused, plan.shape(Kernel::Fused), &arguments)
    }
}

/// Words that are gathered of the banks of a batch: as many as there are offsets, whatever these say.
const fn bank_words(batch: &DeviceBatch) -> usize {
    match batch.layout {
        Layout::Allen => 0,
        Layout::Mep => batch.offsets.1,
    }
}

/// Tiles of the prefix sum over the events.
fn tiles(plan: &Plan) -> usize {
    plan.shape_over_events(Kernel::PrefixSumTiles).grid as usize
}
