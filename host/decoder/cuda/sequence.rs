//! A stage of a trigger sequence on a device: batch, hits, work space and stream are the caller's, and nothing waits.
//!
//! A framework wants to know how much memory a stage takes before it runs, and gives it: so there are two calls, with the
//! allocation of the hits between them. [`count`](DeviceSequence::count) leaves the clusters in the work space and says how
//! many there are; [`write`](DeviceSequence::write) makes hits of them, in arrays of exactly that size. Only the tables are
//! this stage's own. It keeps nothing of a batch, so that any number of batches can be in flight on as many streams, each
//! with a work space of its own.

use ut_kernels::allen::pipeline::{self, AllenBuffers, AllenSetup, StripBuffers};
use ut_kernels::hit::{Cluster, HitBuffers, Output};
use ut_kernels::report::N_COUNTS;
use ut_kernels::switches::Switches;

use super::batch::DeviceBatch;
use super::buffer::LINE;
use super::device::{Device, Rows, TransferBytes};
use super::launcher::{DeviceLauncher, DeviceView, Part};
use super::output::WORD;
use super::setup::Setup;
use super::stream::most_hits;
use super::tables::TablesOnDevice;
use crate::decoder::launch::LaunchParams;
use crate::decoder::plan::{DeviceTables, Plan, cluster_options};
use crate::decoder::ptx::Unit;
use crate::decoder::{DecodeError, DecodeOptions};
use crate::detector::DetectorTables;
use crate::input::Layout;

/// What a batch is worked on with.
#[derive(Clone, Copy, Debug)]
pub struct SequenceWork {
    /// Address and bytes of device memory that nothing else uses from the count until the hits are written. Room for more
    /// clusters than [`scratch_bytes`](DeviceSequence::scratch_bytes) thinks of is used.
    pub scratch: (u64, usize),
    /// Two words of pinned host memory, which are there when the stream has come to the end of a call: the number of hits,
    /// and 0, or where work space or hits were too small, something else.
    pub result: *mut u32,
}

/// Where results go, on the device. Addresses are multiples of 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceHits {
    /// Address of each array: `y_begin`, `y_end`, `z_at_y_eq0`, `x_at_y_eq0`, `dx_dy`, `weight`, `id`.
    pub arrays: [u64; 7],
    /// Hits that each has room for.
    pub max_hits: usize,
    /// Address and words of the ends of groups: `n_events * n_groups + 1` are written.
    pub offsets: (u64, usize),
    /// The same of the report, `N_COUNTS` words an event, where it is wanted.
    pub report: Option<(u64, usize)>,
}

/// A decoder as a stage of a sequence.
pub struct DeviceSequence<D: Device> {
    device: D,
    setup: Setup<D>,
}

/// Places in the work space, in bytes from its beginning.
#[derive(Clone, Copy, Debug)]
struct Scratch {
    status: usize,
    strip_counts: usize,
    strip_offsets: usize,
    cluster_counts: usize,
    tile_totals: usize,
    items: usize,
    n_items: usize,
    report: usize,
    /// What has an element a strip begins here.
    strips: usize,
}

/// Bytes of work space a strip: cluster, key, permutation and scratch of the sort.
const BYTES_A_STRIP: usize = size_of::<Cluster>() + size_of::<u64>() + 2 * WORD;

impl Scratch {
    fn of(plan: Option<&Plan>) -> Self {
        let (events, counters, tiles, items) = plan.map_or((0, 0, 0, 0), |plan| {
            (plan.events as usize, plan.counters as usize, plan.tiles() as usize, plan.items)
        });
        let mut end = 0;
        let mut place = |bytes: usize| {
            let at = end;
            end += bytes.next_multiple_of(LINE);
            at
        };
        Self {
            status: place(WORD),
            strip_counts: place(counters * WORD),
            strip_offsets: place((counters + 1) * WORD),
            cluster_counts: place(counters * WORD),
            tile_totals: place(tiles * WORD),
            items: place(items * size_of::<u64>()),
            n_items: place(events * WORD),
            report: place(events * N_COUNTS * WORD),
            strips: end,
        }
    }

    /// Bytes of it all, at any address, with room for so many strips.
    const fn bytes(self, strips: usize) -> usize {
        // 32 strips: every array begins on a line.
        LINE + self.strips + strips.next_multiple_of(32) * BYTES_A_STRIP
    }

    /// Strips that there is room for in so many bytes; `None`: not even for none.
    fn room(self, bytes: usize) -> Option<usize> {
        Some(bytes.checked_sub(LINE + self.strips)? / (32 * BYTES_A_STRIP) * 32)
    }
}

impl<D: Device> DeviceSequence<D> {
    /// A stage for one detector and one set of options, on a device. Copies the tables by `stream`, and waits for that.
    /// The kernels of a layout are compiled when it is first used, or before that by
    /// [`CudaSequence::prepare`](super::CudaSequence::prepare).
    ///
    /// # Errors
    /// When the launch parameters contradict each other, the tables are too large, or the device refuses.
    pub fn new(
        mut device: D,
        stream: &D::Stream,
        tables: &DetectorTables,
        options: DecodeOptions,
        params: LaunchParams,
    ) -> Result<Self, DecodeError> {
        params.validate().map_err(|error| failure(error.to_string()))?;
        device.begin()?;
        let tables = DeviceTables::new("cuda", tables)?;
        let tables = TablesOnDevice::new(&mut device, stream, tables, &mut TransferBytes::default())?;
        let setup = Setup {
            tables,
            options: cluster_options(&options),
            flip_origin: options.flip.origin(),
            params,
            rung: None,
            ranks: None,
        };
        Ok(Self { device, setup })
    }

    /// The device.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// What has the kernels for a layout.
    pub(super) fn unit(&self, layout: Layout) -> Unit {
        self.setup.variant(layout).0
    }

    /// Sector groups of an event.
    pub const fn n_groups(&self) -> usize {
        self.setup.tables.host.n_groups as usize
    }

    /// Bytes of work space with which a batch is decoded whatever its bytes are, unless fragments or events overlap.
    ///
    /// # Errors
    /// When 32 bits cannot count what the batch has.
    pub fn scratch_bytes(&self, batch: &DeviceBatch) -> Result<usize, DecodeError> {
        let plan = self.plan(batch)?;
        Ok(Scratch::of(plan.as_ref()).bytes(most_hits(self.setup.tables.host.version, batch.raw.1)))
    }

    /// Puts on the stream what counts the hits of a batch: afterwards their number is at `work.result`.
    ///
    /// # Errors
    /// When the work space or the places of `hits` are too few for the events of the batch, 32 bits cannot count what it
    /// has, or the device said so. Nothing is in flight then but what the stream did before.
    ///
    /// # Safety
    /// Until the stream has done this:
    /// - `stream` is one of the device's, and this is not dropped.
    /// - The device can read `batch` at its addresses, for as many elements as it says; those of words are multiples of 4.
    ///   Nothing is written there.
    /// - The work space, and the offsets and the report of `hits`, are memory of the device for the bytes and words given,
    ///   which do not overlap and nothing else uses; their addresses are multiples of 4.
    /// - `work.result` is null or has room for two words in pinned memory, which nothing reads or writes.
    pub unsafe fn count(
        &mut self,
        stream: &D::Stream,
        batch: &DeviceBatch,
        work: SequenceWork,
        hits: &SequenceHits,
    ) -> Result<(), DecodeError> {
        // SAFETY: what is asked of the caller.
        unsafe { self.run(stream, batch, work, hits, true) }
    }

    /// Puts on the stream what writes the hits of a batch that was counted with the same arguments, in arrays of `hits` of
    /// exactly as many places, or more. Afterwards `work.result` says again how many there are, and whether they fitted.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    ///
    /// # Safety
    /// As [`count`](Self::count), and:
    /// - The same batch was counted before with this stage, on this stream or one that it waits for, with this work space,
    ///   and these offsets and report; nothing was written there since.
    /// - The arrays of `hits` are memory of the device for `max_hits` words each, as the offsets are.
    pub unsafe fn write(
        &mut self,
        stream: &D::Stream,
        batch: &DeviceBatch,
        work: SequenceWork,
        hits: &SequenceHits,
    ) -> Result<(), DecodeError> {
        // SAFETY: what is asked of the caller.
        unsafe { self.run(stream, batch, work, hits, false) }
    }

    fn plan(&self, batch: &DeviceBatch) -> Result<Option<Plan>, DecodeError> {
        let tables = &self.setup.tables.host;
        tables.check_size("cuda", batch.n_events, batch.raw.1, batch.most_words())?;
        Ok((batch.n_events > 0).then(|| Plan::new(tables, self.setup.params, batch.n_events)))
    }

    /// # Safety
    /// - As [`count`](Self::count) where it counts, else as [`write`](Self::write).
    unsafe fn run(
        &mut self,
        stream: &D::Stream,
        batch: &DeviceBatch,
        work: SequenceWork,
        hits: &SequenceHits,
        counts: bool,
    ) -> Result<(), DecodeError> {
        let plan = self.plan(batch)?;
        let n_offsets = batch.n_events * self.n_groups() + 1;
        let reports = hits.report.map_or(usize::MAX, |(_, words)| words / N_COUNTS);
        let capacity = (hits.offsets.1.saturating_sub(1) / self.n_groups()).min(reports);
        if hits.offsets.1 == 0 || batch.n_events > capacity {
            return Err(DecodeError::TooManyEvents { events: batch.n_events, capacity });
        }
        let places = Scratch::of(plan.as_ref());
        let Some(strips) = places.room(work.scratch.1) else {
            return Err(DecodeError::WorkSpace { bytes: work.scratch.1, needed: places.bytes(0) });
        };
        let strips = strips.min(u32::MAX as usize);
        let base = work.scratch.0.next_multiple_of(LINE as u64);
        let at = |place: usize| base + place as u64;
        self.device.begin()?;
        if counts {
            // SAFETY: the word is in the work space, which is aligned here, and there until the stream has done this.
            unsafe { self.device.zero(stream, at(places.status), 1) }?;
        }
        if let Some(plan) = plan {
            let (counters, events, max_hits) = (plan.counters as usize, plan.events as usize, hits.max_hits);
            // SAFETY:
            // - The work space is as long as its places, with `strips` elements for strips (`room`), and aligned: each place
            //   is a multiple of a line. The launches ask for it, and the caller gives it.
            // - The arrays of hits have `max_hits` elements, offsets and report as many as the events need, checked above,
            //   at multiples of 4, as the caller says. To count, no array of hits is used.
            let (mut buffers, mut output) = unsafe {
                let of_strips = |part: usize| at(places.strips + strips * part);
                let buffers: AllenBuffers<DeviceLauncher<'_, D>> = AllenBuffers {
                    strip_counts: DeviceView::at(at(places.strip_counts), counters),
                    strip_offsets: DeviceView::at(at(places.strip_offsets), counters + 1),
                    cluster_counts: DeviceView::at(at(places.cluster_counts), counters),
                    tile_totals: DeviceView::at(at(places.tile_totals), plan.tiles() as usize),
                    items: DeviceView::at(at(places.items), plan.items),
                    n_items: DeviceView::at(at(places.n_items), events),
                    strips: StripBuffers {
                        clusters: DeviceView::at(of_strips(0), strips),
                        keys: DeviceView::at(of_strips(8), strips),
                        permutation: DeviceView::at(of_strips(16), strips),
                        scratch: DeviceView::at(of_strips(20), strips),
                    },
                };
                let n = if counts { 0 } else { max_hits };
                let floats = |array: usize| DeviceView::at(hits.arrays[array], n);
                let output = Output {
                    hits: HitBuffers {
                        y_begin: floats(0),
                        y_end: floats(1),
                        z_at_y_eq0: floats(2),
                        x_at_y_eq0: floats(3),
                        dx_dy: floats(4),
                        weight: floats(5),
                        id: DeviceView::at(hits.arrays[6], n),
                    },
                    offsets: DeviceView::at(hits.offsets.0, n_offsets),
                    report: DeviceView::at(
                        hits.report.map_or(at(places.report), |(address, _)| address),
                        events * N_COUNTS,
                    ),
                    status: DeviceView::at(at(places.status), 1),
                };
                (buffers, output)
            };
            let (unit, variant) = self.setup.variant(batch.layout);
            let bins8 = unit.bins8();
            let count_variant = if self.setup.params.count_bins() == 8 { &bins8 } else { &variant };
            let setup = AllenSetup {
                switches: Switches::production(self.setup.tables.host.version, batch.layout),
                options: self.setup.options,
                flip_origin: self.setup.flip_origin,
                sort_run: self.setup.params.sort_run(),
                shapes: plan.allen_shapes(),
            };
            let tables = self.setup.tables.view();
            // SAFETY: until the stream is done,
            // - the views are of `batch`, of the work space and of the results: required of the caller; the tables lie in
            //   buffers of this stage, which is not dropped;
            // - the shapes are the plan's, for these kernels.
            let launcher = unsafe { DeviceLauncher::new(&mut self.device, stream, unit, &variant, count_variant) };
            let mut launcher = launcher.only(if counts { Part::Count } else { Part::Write });
            pipeline::decode(&mut launcher, &setup, batch.view(), tables, &mut buffers, &mut output)?;
        } else {
            // SAFETY: one word is there, checked above, until the stream has done this.
            unsafe { self.device.zero(stream, hits.offsets.0, 1) }?;
        }
        if work.result.is_null() {
            return Ok(());
        }
        let total = hits.offsets.0 + ((n_offsets - 1) * WORD) as u64;
        // SAFETY: both words are on the device, in the results and in the work space; there is room for two in pinned
        // memory, which nothing else uses until the stream has done this, as the caller says.
        unsafe {
            self.device.read(stream, total, work.result.cast(), Rows::one(WORD))?;
            self.device.read(stream, at(places.status), work.result.add(1).cast(), Rows::one(WORD))
        }
    }
}

fn failure(message: String) -> DecodeError {
    DecodeError::Device { backend: "cuda", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_space_that_is_asked_for_has_room_for_what_it_is_asked_for() {
        let scratch = Scratch::of(None);
        for strips in [0, 1, 31, 32, 33, 100_000] {
            let bytes = scratch.bytes(strips);
            assert!(scratch.room(bytes).is_some_and(|room| (strips..strips + 32).contains(&room)), "{strips}");
        }
        assert_eq!(scratch.room(scratch.bytes(0) - 1), None);
    }
}
