//! The fused pipeline on a device: the memory between its kernels, and their launches.
//!
//! Global memory holds, between raw banks and hits, only how many hits each event has and which events are left for the
//! second kernel; in MEP layout also a word a bank. All of it lies in one piece: a decoder's own, or what the caller of
//! a [`DeviceSequence`](super::DeviceSequence) lends.

use simt::Global;
use ut_kernels::fused::FusedOptions;
use ut_kernels::fused::look_back::LookBack;
use ut_kernels::fused::pipeline::{self, FusedBuffers, FusedSetup};
use ut_kernels::hit::Output;
use ut_kernels::ranked::gather::bank_words;
use ut_kernels::switches::Switches;

use super::batch::DeviceBatch;
use super::buffer::{Place, Places};
use super::device::Device;
use super::launcher::{DeviceLauncher, DeviceView};
use super::output::WORD;
use super::setup::Setup;
use crate::plan::Plan;
use crate::ptx::Unit;
use ut_data::DecodeError;
use ut_data::input::Layout;

/// Work memory between the kernels of a batch, one piece that begins on a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FusedPlaces {
    selected: Place,
    bank_words: Place,
    counts: Place,
    bases: Place,
    tile_totals: Place,
    look_back: Place,
    groups: Place,
    others: Place,
    pub(super) bytes: usize,
}

impl FusedPlaces {
    /// Lays out the memory for a batch; `counts`: with the results of a count.
    pub(super) fn of(plan: &Plan, batch: &DeviceBatch, counts: bool) -> Self {
        let events = plan.events as usize;
        let mut places = Places::default();
        let mut place = |is_there: bool, words: usize| places.next(if is_there { words } else { 0 }, WORD);
        let is_mep = batch.layout == Layout::Mep;
        Self {
            selected: place(batch.selected.is_some(), events.div_ceil(32)),
            bank_words: place(is_mep, bank_words(events, batch.offsets.1)),
            counts: place(counts, events),
            bases: place(counts, events + 1),
            tile_totals: place(counts, plan.event_tiles() as usize),
            look_back: place(true, LookBack::words(events)),
            groups: place(true, plan.counters as usize),
            others: place(true, events),
            bytes: places.bytes,
        }
    }

    /// # Safety
    /// - `base` is a multiple of [`LINE`]. Kernels follow it: their launch asks for that much memory there, until the
    ///   stream is done, and for no other use of it meanwhile.
    unsafe fn buffers<'a, D: Device>(&self, base: u64) -> FusedBuffers<DeviceLauncher<'a, D>> {
        // SAFETY: each place is in the memory, which the caller vouches for, and a multiple of a line from its begin.
        let of = |Place { at, len }: Place| unsafe { DeviceView::at(base + at as u64, len) };
        FusedBuffers {
            selected: of(self.selected),
            bank_words: of(self.bank_words),
            counts: of(self.counts),
            bases: of(self.bases),
            tile_totals: of(self.tile_totals),
            look_back: of(self.look_back),
            groups: of(self.groups),
            others: of(self.others),
            nothing: of(Place { len: 0, ..self.others }),
        }
    }
}

/// Launches the pipeline, without waiting for any kernel.
///
/// # Safety
/// Until the stream has done this:
/// - The device can read `batch` and its list, for as many elements as they say; those of words are multiples of 4.
/// - `base` is a multiple of [`LINE`] and has the bytes of [`FusedPlaces::of`], and nothing else uses
///   them.
/// - `output` has views of memory that the device can write, as long as the plan asks for; its status word is 0 by then.
pub(super) unsafe fn launch<'a, D: Device>(
    device: &'a mut D,
    stream: &'a D::Stream,
    setup: &Setup<D>,
    plan: &Plan,
    batch: &DeviceBatch,
    base: u64,
    mut output: Output<DeviceLauncher<'a, D>>,
) -> Result<(), DecodeError> {
    let version = setup.tables.host.version;
    let unit = Unit::fused(version, batch.layout);
    let counts = plan.counts_first();
    // SAFETY: the memory is there until the stream is done, as the caller says.
    let mut buffers = unsafe { FusedPlaces::of(plan, batch, counts).buffers(base) };
    // SAFETY: the host never follows the address; the device can read that many words there, as the caller says.
    let list = batch.selected.map(|(at, listed)| unsafe { Global::new(at as usize as *const u32, listed as u32) });
    let fused = FusedSetup {
        switches: Switches::production(version, batch.layout),
        options: FusedOptions {
            cluster: setup.options,
            flip_origin: setup.flip_origin,
            strips: setup.params.fused_room().strips,
        },
        n_events: plan.events,
        list,
        shapes: plan.fused_shapes(counts),
    };
    // SAFETY: until the stream is done,
    // - the views are of `batch`, of the memory at `base`, and of what `output` has: required of the caller; the tables
    //   lie in buffers of the setup's owner, which are as long as their views;
    // - the shapes are the plan's, for these kernels.
    let mut launcher = unsafe { DeviceLauncher::new(device, stream, unit, unit.name, unit.name) };
    let Some(tables) = setup.tables.rank_view() else { unreachable!("only a setup with ranks is launched like this") };
    let batch = batch.view(version);
    pipeline::decode(&mut launcher, &fused, batch, tables, &mut buffers, &mut output)
}
