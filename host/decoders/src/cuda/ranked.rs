//! The ranked pipeline on a device: the memory between its kernels, and their launches.
//!
//! Global memory holds the records of all clusters, and for each event the numbers needed to find
//! them; in MEP layout also one word per bank. All this lies in one allocation, which a decoder
//! owns or which the caller of a [`CudaSequence`](super::CudaSequence) lends.

use simt::{Global, Plain};
use ut_kernels::hit::Output;
use ut_kernels::ranked::gather::bank_words;
use ut_kernels::ranked::pipeline::{self, RankedBuffers, RankedSetup};
use ut_kernels::ranked::{COUNTERS, FlaggedGroup, HEAD_WORDS, RankedOptions, Record, TAKEN};
use ut_kernels::switches::Switches;

use super::batch::DeviceBatch;
use super::buffer::{ArrayPlaces, Place};
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use super::launcher::{DeviceLauncher, DeviceView};
use super::output::WORD;
use super::setup::LaunchSetup;
use crate::plan::Plan;
use crate::ptx::Unit;
use ut_data::DecodeError;
use ut_data::input::Layout;

/// Work memory between the kernels of a batch, one piece that begins on a line.
///
/// `selected` has one bit per event, for a list of events. `bank_words` has the gathered banks of
/// MEP layout. `counters` count what several blocks share. `heads` has the head of each event,
/// `starts` one word per group. `n_hits` has the sizes that the prefix sum adds up into `bases`,
/// through the `descriptors` of its blocks. `unusual` and `flagged` list events and groups that the
/// fast kernels leave to others. `records` has the clusters themselves, and most of the memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankedPlaces {
    selected: Place,
    bank_words: Place,
    counters: Place,
    heads: Place,
    starts: Place,
    n_hits: Place,
    unusual: Place,
    flagged: Place,
    bases: Place,
    descriptors: Place,
    records: Place,
    pub(super) bytes: usize,
}

impl RankedPlaces {
    /// Lays out the memory for a batch with `records` records.
    pub(super) fn of(plan: &Plan, batch: &DeviceBatch, records: usize) -> Self {
        let events = plan.events as usize;
        let mut places = ArrayPlaces::default();
        let mut words = |words: usize| places.next(words, WORD);
        let is_mep = batch.layout == Layout::Mep;
        Self {
            selected: words(if batch.selected.is_some() {
                events.div_ceil(32)
            } else {
                0
            }),
            bank_words: words(if is_mep {
                bank_words(events, batch.offsets.1)
            } else {
                0
            }),
            counters: words(COUNTERS),
            heads: words(events * HEAD_WORDS as usize),
            starts: words(plan.counters as usize),
            n_hits: words(events),
            unusual: words(events),
            bases: words(events + 1),
            flagged: places.next(plan.counters as usize, size_of::<FlaggedGroup>()),
            descriptors: places.next(1 + plan.event_tiles() as usize, size_of::<u64>()),
            records: places.next(records, size_of::<Record>()),
            bytes: places.bytes,
        }
    }

    /// Offset of the number of hits that a count leaves.
    pub(super) const fn total(&self) -> usize {
        self.bases.at + self.bases.len.saturating_sub(1) * WORD
    }

    /// Offset of the number of records that the kernels wanted.
    pub(super) const fn taken(&self) -> usize {
        self.counters.at + TAKEN as usize * WORD
    }

    /// # Safety
    /// - `base` is a multiple of [`LINE`]. Kernels follow it: their launch asks for that much
    ///   memory there, until the stream is done, and for no other use of it meanwhile.
    unsafe fn buffers<'a>(&self, base: u64) -> RankedBuffers<DeviceLauncher<'a>> {
        /// # Safety
        /// - As [`RankedPlaces::buffers`].
        unsafe fn view<T: Plain>(base: u64, Place { at, len }: Place) -> DeviceView<T> {
            // SAFETY: the place is in the memory, which the caller vouches for, and a multiple of a
            // line from its begin.
            unsafe { DeviceView::at(base + at as u64, len) }
        }
        // SAFETY: required of the caller.
        let words = |place: Place| unsafe { view(base, place) };
        RankedBuffers {
            selected: words(self.selected),
            bank_words: words(self.bank_words),
            counters: words(self.counters),
            heads: words(self.heads),
            starts: words(self.starts),
            n_hits: words(self.n_hits),
            unusual: words(self.unusual),
            bases: words(self.bases),
            // SAFETY: required of the caller.
            flagged: unsafe { view(base, self.flagged) },
            // SAFETY: required of the caller.
            descriptors: unsafe { view(base, self.descriptors) },
            // SAFETY: required of the caller.
            records: unsafe { view(base, self.records) },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Decode,
    /// Writes the records, and finds where each event's hits begin.
    Count,
    /// Makes hits of the records.
    Write,
}

/// Launches the pipeline, without waiting for any kernel.
///
/// # Safety
/// Until the stream has done this:
/// - The device can read `batch` and its list, with at least the number of elements that they
///   state. Addresses of words are multiples of 4.
/// - `base` is a multiple of [`LINE`] and has the bytes of [`RankedPlaces::of`] for `records`;
///   nothing else uses them. Before the writing step, the counting step of this batch has filled
///   it.
/// - `output` has views of memory that the device can write, as long as the plan asks for (to
///   count: its status alone); its status word is 0 by then.
#[expect(clippy::too_many_arguments, reason = "everything that a launch is of")]
pub(super) unsafe fn launch<'a>(
    device: &'a mut CudaDevice,
    stream: &'a CudaStream,
    setup: &LaunchSetup,
    task: Task,
    plan: &Plan,
    batch: &DeviceBatch,
    (base, records): (u64, usize),
    mut output: Output<DeviceLauncher<'a>>,
) -> Result<(), DecodeError> {
    let version = setup.tables.host.version;
    let unit = Unit::ranked(version, batch.layout);
    // SAFETY: the memory is there until the stream is done, as the caller says.
    let mut buffers = unsafe { RankedPlaces::of(plan, batch, records).buffers(base) };
    // SAFETY: the host never follows the address; the device can read that many words there, as the
    // caller says.
    let list = batch
        .selected
        .map(|(at, listed)| unsafe { Global::new(at as usize as *const u32, listed as u32) });
    let ranked = RankedSetup {
        switches: Switches::production(version, batch.layout),
        options: RankedOptions::new(setup.options, setup.flip_origin),
        n_events: plan.events,
        list,
        shapes: plan.ranked_shapes(),
    };
    // SAFETY: until the stream is done,
    // - the views are of `batch`, of the memory at `base`, and of what `output` has: required of
    //   the caller; the tables lie in buffers of the setup's owner, which are as long as their
    //   views;
    // - the shapes are the plan's, for these kernels.
    let mut launcher = unsafe { DeviceLauncher::new(device, stream, unit, unit.name, unit.name) };
    let Some(tables) = setup.tables.rank_view() else {
        unreachable!("only a setup with ranks is launched like this")
    };
    let batch = batch.view(version);
    match task {
        Task::Decode => pipeline::decode(
            &mut launcher,
            &ranked,
            batch,
            tables,
            &mut buffers,
            &mut output,
        ),
        Task::Count => pipeline::count(
            &mut launcher,
            &ranked,
            batch,
            tables,
            &mut buffers,
            &mut output.status,
        ),
        Task::Write => pipeline::write(&mut launcher, &ranked, tables, &buffers, &mut output),
    }
}
