//! The fused pipeline on a device: its few buffers.
//!
//! Between raw banks and hits nothing is written to global memory but how many hits each event has, and which events are
//! left for the second kernel.

use ut_kernels::fused::FusedOptions;
use ut_kernels::fused::pipeline::{self, FusedBuffers, FusedSetup};
use ut_kernels::hit;
use ut_kernels::switches::Switches;

use super::batch::DeviceBatch;
use super::buffer::Buffer;
use super::device::Device;
use super::launcher::{DeviceLauncher, DeviceView};
use super::output::WORD;
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
    others: Buffer<D>,
    counts: Buffer<D>,
    bases: Buffer<D>,
    tile_totals: Buffer<D>,
}

impl<D: Device> FusedWork<D> {
    pub(super) const fn new() -> Self {
        Self {
            bank_words: Buffer::new(),
            look_back: Buffer::new(),
            others: Buffer::new(),
            counts: Buffer::new(),
            bases: Buffer::new(),
            tile_totals: Buffer::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let Self { bank_words, look_back, others, counts, bases, tile_totals } = self;
        let buffers = [bank_words, look_back, others, counts, bases, tile_totals];
        buffers.map(Buffer::bytes).into_iter().sum()
    }

    pub(super) fn reserve_events(&mut self, device: &mut D, plan: &Plan) -> Result<(), DecodeError> {
        let events = plan.events as usize;
        self.look_back.reserve(device, (2 + events) * WORD)?;
        self.others.reserve(device, events * WORD)?;
        if plan.counts_first() { self.reserve_counts(device, plan) } else { Ok(()) }
    }

    /// Room for what a count leaves.
    pub(super) fn reserve_counts(&mut self, device: &mut D, plan: &Plan) -> Result<(), DecodeError> {
        let events = plan.events as usize;
        self.counts.reserve(device, events * WORD)?;
        self.bases.reserve(device, (events + 1) * WORD)?;
        self.tile_totals.reserve(device, plan.event_tiles() as usize * WORD)
    }

    /// Where the number of hits of a counted batch is.
    pub(super) fn hits_found(&self, plan: &Plan) -> u64 {
        self.bases.address() + (plan.events as usize * WORD) as u64
    }

    /// Room for what is gathered of the batch's banks.
    pub(super) fn reserve_banks(&mut self, device: &mut D, batch: &DeviceBatch) -> Result<(), DecodeError> {
        self.bank_words.reserve(device, bank_words(batch) * WORD)
    }

    /// Launches, without waiting for any.
    ///
    /// # Safety
    /// - `batch`, and as many words of `selected` as its events have bits, can be read by the device until the stream has
    ///   done this.
    /// - The buffers are reserved for the plan, and for what a count leaves unless it decodes without; `output` has views
    ///   of memory that the device can write, and its status word is 0 by then.
    #[expect(clippy::too_many_arguments, reason = "everything that a launch is of")]
    pub(super) unsafe fn launch<'a>(
        &self,
        device: &'a mut D,
        stream: &'a D::Stream,
        (setup, ranks): (&Setup<D>, &RanksOnDevice<D>),
        task: Task,
        plan: &Plan,
        batch: &Wanted,
        mut output: hit::Output<DeviceLauncher<'a, D>>,
    ) -> Result<(), DecodeError> {
        let Wanted { batch, selected } = batch;
        let layout = batch.layout;
        let unit = Unit::fused(setup.tables.host.version, layout);
        let events = plan.events as usize;
        let counts = plan.counts_first() || task != Task::Decode;
        let counted = if counts { events } else { 0 };
        let mut buffers: FusedBuffers<DeviceLauncher<'_, D>> = FusedBuffers {
            // SAFETY: the device can read so many words there, as the caller says; the kernels do not write them.
            selected: unsafe { DeviceView::at(selected.unwrap_or(0), selected.map_or(0, |_| events.div_ceil(32))) },
            bank_words: self.bank_words.device_view(bank_words(batch)),
            counts: self.counts.device_view(counted),
            bases: self.bases.device_view(if counts { events + 1 } else { 0 }),
            tile_totals: self.tile_totals.device_view(if counts { plan.event_tiles() as usize } else { 0 }),
            look_back: self.look_back.device_view(2 + events),
            others: self.others.device_view(events),
            nothing: self.others.device_view(0),
        };
        let fused = FusedSetup {
            switches: Switches::production(setup.tables.host.version, layout),
            options: FusedOptions {
                cluster: setup.options,
                flip_origin: setup.flip_origin,
                strips: setup.params.fused_room().strips,
            },
            n_events: plan.events,
            shapes: plan.fused_shapes(counts),
        };
        // SAFETY: until the stream is done,
        // - the views are of `batch`, which the device can read, of what `output` has, and of buffers that are reserved for
        //   the plan: required of the caller; tables and work lie in buffers of this decoder, which are as long as their
        //   views;
        // - the shapes are the plan's, for these kernels.
        let mut launcher = unsafe { DeviceLauncher::new(device, stream, unit, unit.name, unit.name) };
        let (batch, tables) = (batch.view(), ranks.view());
        match task {
            Task::Decode => pipeline::decode(&mut launcher, &fused, batch, tables, &mut buffers, &mut output),
            Task::Count => pipeline::count(&mut launcher, &fused, batch, tables, &mut buffers, &mut output),
            Task::Write => pipeline::write(&mut launcher, &fused, batch, tables, &mut buffers, &mut output),
        }
    }
}

/// A batch, and which of its events are decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub batch: DeviceBatch,
    /// Where the mask is, a bit an event; all without one.
    pub selected: Option<u64>,
}

impl Wanted {
    /// All events of a batch.
    pub(super) const fn all(batch: DeviceBatch) -> Self {
        Self { batch, selected: None }
    }
}

/// What is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// All.
    Decode,
    /// What says how many hits there are, and where each event's begin.
    Count,
    /// What writes them then.
    Write,
}

/// Words that are gathered of the banks of a batch: as many as there are offsets, whatever these say.
const fn bank_words(batch: &DeviceBatch) -> usize {
    match batch.layout {
        Layout::Allen => 0,
        Layout::Mep => batch.offsets.1,
    }
}
