//! The one-launch pipeline: its tables, its few buffers, and its launches.
//!
//! Between raw banks and hits nothing is written to global memory but how many hits each event has.

use simt::Global;
use ut_kernels::fused::tables::LaneTables;
use ut_kernels::fused::{FusedInput, FusedOptions, FusedOutput, Room};
use ut_kernels::switches::BatchLayout;

use super::allen::Setup;
use super::batch::DeviceBatch;
use super::buffer::Buffer;
use super::device::{Argument, Device};
use super::output::{Output, WORD};
use super::stream::Moved;
use super::tables::write_all;
use crate::decoder::DecodeError;
use crate::decoder::plan::Plan;
use crate::decoder::ptx::{Kernel, Unit};
use crate::decoder::rank_tables::RankTables;
use crate::input::Layout;

/// The tables by rank, once copied and never changed.
pub(super) struct RanksOnDevice<D: Device> {
    host: RankTables,
    buffers: [Buffer<D>; 10],
}

impl<D: Device> RanksOnDevice<D> {
    /// Copies them, and waits.
    pub(super) fn new(
        device: &mut D,
        stream: &D::Stream,
        tables: RankTables,
        moved: &mut Moved,
    ) -> Result<Self, DecodeError> {
        let mut put = |bytes: &[u8]| write_all(device, stream, &[(0, bytes)], moved);
        let buffers = [
            put(bytemuck::cast_slice(&tables.ranks))?,
            put(bytemuck::cast_slice(&tables.first_ranks))?,
            put(bytemuck::cast_slice(&tables.strips_per_hybrid))?,
            put(bytemuck::cast_slice(&tables.chan_ids))?,
            put(bytemuck::cast_slice(&tables.first_channels))?,
            put(bytemuck::cast_slice(&tables.p0_x))?,
            put(bytemuck::cast_slice(&tables.p0_y))?,
            put(bytemuck::cast_slice(&tables.p0_z))?,
            put(bytemuck::cast_slice(&tables.classes))?,
            put(bytemuck::cast_slice(&tables.constants))?,
        ];
        Ok(Self { host: tables, buffers })
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffers.iter().map(Buffer::bytes).sum()
    }

    /// For kernels.
    fn view(&self) -> LaneTables<'static> {
        let [ranks, first_ranks, strips, chan_ids, first_channels, p0_x, p0_y, p0_z, classes, constants] =
            &self.buffers;
        let tables = &self.host;
        LaneTables {
            ranks: ranks.global(tables.ranks.len()),
            first_ranks: first_ranks.global(tables.first_ranks.len()),
            strips_per_hybrid: strips.global(tables.strips_per_hybrid.len()),
            chan_ids: chan_ids.global(tables.chan_ids.len()),
            first_channels: first_channels.global(tables.first_channels.len()),
            p0_x: p0_x.global(tables.p0_x.len()),
            p0_y: p0_y.global(tables.p0_y.len()),
            p0_z: p0_z.global(tables.p0_z.len()),
            classes: classes.global(tables.classes.len()),
            constants: constants.global(tables.constants.len()),
        }
    }
}

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
