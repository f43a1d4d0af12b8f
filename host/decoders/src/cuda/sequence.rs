//! A stage of a trigger sequence on a device: batch, hits, work space and stream are the caller's,
//! and nothing waits.
//!
//! A framework wants to know how much memory a stage needs before the stage runs, and allocates
//! that memory itself. So there are two calls, with the allocation of the hits between them:
//! [`count`](CudaSequence::count) finds all clusters, and leaves them in the work space in the
//! order of the hits; [`write`](CudaSequence::write) converts them to hits, in arrays of exactly
//! the right size. These are the launches of the ranked pipeline, with the total in between: no
//! bank is read twice. The stage keeps tables and nothing of a batch: any number of batches can be
//! in flight, each with its stream and work space.
//!
//! ```text
//! framework                               stage
//! allocate scratch_bytes(batch)
//! count(stream, batch, work)        →     kernels find the clusters
//!                                         number of hits → two words of pinned memory
//! wait for the stream, read the number
//! allocate arrays of hits
//! write(stream, batch, work, hits)  →     kernels write the hits
//! next stage on the same stream           (free the work space once it is done)
//! ```
//!
//! The wait in the middle is the framework's: other streams can fill it with work. A decoder that
//! owns its buffers avoids it by a guess of the number (see `stream.rs`), which a framework with
//! exact allocations cannot use.

use ut_kernels::hit::{HitBuffers, Output};
use ut_kernels::report::N_COUNTS;
pub use ut_kernels::status::{HITS_OVERFLOW, NO_SUCH_EVENT, STRIPS_OVERFLOW, WRONG_VERSION};

use super::batch::DeviceBatch;
use super::buffer::LINE;
use super::device::{CopyRows, TransferBytes};
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use super::launcher::DeviceView;
use super::output::WORD;
use super::ranked::{self, RankedPlaces, Task};
use super::setup::LaunchSetup;
use super::tables::TablesOnDevice;
use crate::parameters::Parameters;
use crate::plan::{DeviceTables, Plan, cluster_options, most_records};
use crate::ptx::Unit;
use crate::rank_tables::RankTables;
use ut_data::detector::{BankVersion, DetectorTables};
use ut_data::input::Layout;
use ut_data::{DecodeError, DecodeOptions};

/// Work memory for a batch.
#[derive(Clone, Copy, Debug)]
pub struct SequenceWork {
    /// Address and bytes of device memory that nothing else uses from the count until the hits are
    /// written: at least [`scratch_bytes`](CudaSequence::scratch_bytes).
    pub scratch: (u64, usize),
    /// Two words of pinned host memory, or null; valid once the stream has done a call. The number
    /// of hits, and 0, or [`NO_SUCH_EVENT`] and [`STRIPS_OVERFLOW`] after the count, or
    /// [`HITS_OVERFLOW`] and [`WRONG_VERSION`] after the writing. Only fragments that overlap,
    /// which no reader makes, have more strips than the work space has room for.
    pub result: *mut u32,
}

/// Addresses of the results on the device, multiples of 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceHits {
    /// Address of each array: `y_begin`, `y_end`, `z_at_y_eq0`, `x_at_y_eq0`, `dx_dy`, `weight`,
    /// `id`.
    pub arrays: [u64; 7],
    /// Maximum number of hits in each array.
    pub max_hits: usize,
    /// Address and words of the ends of groups: `n_events * n_groups + 1` are written.
    pub offsets: (u64, usize),
    /// Same for the report, `N_COUNTS` words per event, where it is wanted.
    pub report: Option<(u64, usize)>,
}

/// A decoder as a stage of a sequence.
pub struct CudaSequence {
    pub(super) device: CudaDevice,
    pub(super) setup: LaunchSetup,
}

/// The work space of a batch from its first line on: a word that is 0, the status word; the report,
/// where the caller has no place for it; then the memory between the kernels.
#[derive(Clone, Copy, Debug)]
struct WorkSpace {
    between: usize,
    bytes: usize,
    total: usize,
    /// Maximum number of records.
    records: usize,
}

const STATUS: usize = WORD;

const REPORT: usize = LINE;

impl WorkSpace {
    fn of(plan: Option<&Plan>, batch: &DeviceBatch, version: BankVersion) -> Self {
        let Some(plan) = plan else {
            return Self {
                between: REPORT,
                bytes: REPORT,
                total: 0,
                records: 0,
            };
        };
        let between = REPORT + (plan.events as usize * N_COUNTS * WORD).next_multiple_of(LINE);
        let records = most_records(version, batch.raw.1, plan.events as usize);
        let places = RankedPlaces::of(plan, batch, records);
        Self {
            between,
            bytes: between + places.bytes,
            total: between + places.total(),
            records,
        }
    }

    /// Returns the size in bytes of a work space at any address.
    const fn needed(self) -> usize {
        LINE - 1 + self.bytes
    }
}

impl CudaSequence {
    /// Creates a stage for one detector and one set of options, with the ranked pipeline. Copies
    /// the tables by `stream`, and waits for it. The kernels of a layout are compiled when first
    /// used, or by [`CudaSequence::prepare`](super::CudaSequence::prepare).
    pub fn new(
        device: CudaDevice,
        stream: &CudaStream,
        tables: &DetectorTables,
        options: DecodeOptions,
        params: Parameters,
    ) -> Result<Self, DecodeError> {
        params
            .validate()
            .map_err(|error| failure(error.to_string()))?;
        let ranks = RankTables::new("cuda", tables, options)?;
        // Copying the tables relies on it.
        device.check_stream(stream)?;
        device.begin()?;
        let mut moved = TransferBytes::default();
        let host = DeviceTables::new("cuda", tables)?;
        let tables = TablesOnDevice::new(&device, stream, host, Some(ranks), &mut moved)?;
        let setup = LaunchSetup {
            tables,
            options: cluster_options(&options),
            flip_origin: options.flip().origin(),
            params,
            rung: None,
        };
        Ok(Self { device, setup })
    }

    /// Returns the device.
    pub const fn device(&self) -> &CudaDevice {
        &self.device
    }

    pub(super) fn unit(&self, layout: Layout) -> Unit {
        Unit::ranked(self.setup.tables.host.version, layout)
    }

    /// Bank format of the tables.
    pub const fn version(&self) -> BankVersion {
        self.setup.tables.host.version
    }

    /// Sector groups of an event.
    pub const fn n_groups(&self) -> usize {
        self.setup.tables.host.n_groups as usize
    }

    /// Bytes of work space for a batch: three times its raw bytes, in v4 four times, and some 1100
    /// per event; in MEP layout also 4 per bank. (Of an event of 18 kB, 54 kB are reserved for
    /// clusters, and 9 kB used.)
    ///
    /// # Errors
    /// If the batch has more records than 32 bits can count.
    pub fn scratch_bytes(&self, batch: &DeviceBatch) -> Result<usize, DecodeError> {
        Ok(WorkSpace::of(self.plan(batch)?.as_ref(), batch, self.version()).needed())
    }

    /// Puts the count of a batch's hits on the stream; their number comes to `work.result`.
    ///
    /// # Errors
    /// As [`scratch_bytes`](Self::scratch_bytes), if the work space is too small, or if the device
    /// fails. After a failure partway this waits for the stream: unless the waiting fails as well,
    /// nothing of the call is in flight.
    ///
    /// # Safety
    /// Until the stream has done this:
    /// - `stream` is one of the device's, and this is not dropped.
    /// - The device can read `batch`, unchanged, words at multiples of 4, for as many elements as
    ///   it says.
    /// - The work space is memory of the device for the bytes given, and nothing else uses it.
    /// - `work.result` is null or has room for two words in pinned memory, which nothing reads or
    ///   writes.
    pub unsafe fn count(
        &mut self,
        stream: &CudaStream,
        batch: &DeviceBatch,
        work: SequenceWork,
    ) -> Result<(), DecodeError> {
        let plan = self.plan(batch)?;
        // SAFETY: required of the caller; a count writes no hits.
        unsafe {
            self.run(
                stream,
                plan,
                batch,
                work,
                Task::Count,
                &SequenceHits::default(),
            )
        }
    }

    /// Puts the writing of a counted batch's hits, ends of groups and report on the stream; the
    /// arrays of `hits` have room for the number counted, or more. `work.result` again gets the
    /// number, and whether they fitted.
    ///
    /// # Errors
    /// As [`count`](Self::count), and if `hits` has too few places for the events of the batch.
    ///
    /// # Safety
    /// As [`count`](Self::count), and:
    /// - This stage counted the same batch, on this stream or one that it waits for, with this work
    ///   space; nothing was written there since.
    /// - The arrays of `hits` are memory of the device for `max_hits` words each, offsets and
    ///   report for the words given; they do not overlap, nothing else uses them, and their
    ///   addresses are multiples of 4.
    pub unsafe fn write(
        &mut self,
        stream: &CudaStream,
        batch: &DeviceBatch,
        work: SequenceWork,
        hits: &SequenceHits,
    ) -> Result<(), DecodeError> {
        let plan = self.plan(batch)?;
        let reports = hits
            .report
            .map_or(usize::MAX, |(_, words)| words / N_COUNTS);
        let capacity = (hits.offsets.1.saturating_sub(1) / self.n_groups()).min(reports);
        if hits.offsets.1 == 0 || batch.n_events > capacity {
            return Err(DecodeError::TooManyEvents {
                events: batch.n_events,
                capacity,
            });
        }
        // SAFETY: required of the caller; there is a place for each event, checked above.
        unsafe { self.run(stream, plan, batch, work, Task::Write, hits) }
    }

    pub(super) fn plan(&self, batch: &DeviceBatch) -> Result<Option<Plan>, DecodeError> {
        let tables = &self.setup.tables.host;
        tables.check_size("cuda", batch.n_events, batch.raw.1, batch.most_words())?;
        Ok((batch.n_events > 0).then(|| {
            Plan::new(
                tables,
                self.setup.params,
                batch.n_events,
                self.device.multiprocessors(),
            )
        }))
    }

    /// Puts the work on the stream; waits for the stream if that fails partway.
    ///
    /// # Safety
    /// - As [`count`](Self::count), or as [`write`](Self::write), with `hits` that have a place for
    ///   each event.
    unsafe fn run(
        &mut self,
        stream: &CudaStream,
        plan: Option<Plan>,
        batch: &DeviceBatch,
        work: SequenceWork,
        task: Task,
        hits: &SequenceHits,
    ) -> Result<(), DecodeError> {
        let scratch = WorkSpace::of(plan.as_ref(), batch, self.version());
        if work.scratch.1 < scratch.needed() {
            return Err(DecodeError::WorkSpace {
                bytes: work.scratch.1,
                needed: scratch.needed(),
            });
        }
        self.device.begin()?;
        // SAFETY: required of the caller; the work space is large enough, checked above.
        let put = unsafe { self.put(stream, plan, batch, work, task, hits) };
        if put.is_err() {
            // The first error is the one to report.
            let _ = stream.synchronize();
        }
        put
    }

    /// # Safety
    /// - As [`run`](Self::run), with a work space that is large enough for this plan and batch.
    unsafe fn put(
        &mut self,
        stream: &CudaStream,
        plan: Option<Plan>,
        batch: &DeviceBatch,
        work: SequenceWork,
        task: Task,
        hits: &SequenceHits,
    ) -> Result<(), DecodeError> {
        let scratch = WorkSpace::of(plan.as_ref(), batch, self.version());
        let base = work.scratch.0.next_multiple_of(LINE as u64);
        let at = |place: usize| base + place as u64;
        // SAFETY: both words are in the work space, which is aligned here, and there until the
        // stream has done this.
        unsafe { stream.zero(base, 2) }?;
        if let Some(plan) = plan {
            // Kernels count hits in 32 bits: more room is never used.
            let (events, n) = (plan.events as usize, hits.max_hits.min(u32::MAX as usize));
            // (A count writes no results.)
            let (n_offsets, n_report) = if task == Task::Count {
                (0, 0)
            } else {
                (plan.counters as usize + 1, events * N_COUNTS)
            };
            // SAFETY:
            // - Status and report have room in the work space, which the caller gives, and are
            //   aligned.
            // - The results are as long as said here, at multiples of 4, by the caller; a count has
            //   none.
            let output = unsafe {
                let floats = |array: usize| DeviceView::at(hits.arrays[array], n);
                Output {
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
                        hits.report.map_or(at(REPORT), |(address, _)| address),
                        n_report,
                    ),
                    status: DeviceView::at(at(STATUS), 1),
                }
            };
            // SAFETY:
            // - The device can read the batch until then, as the caller says.
            // - The work space has room between the kernels, from a line on; to write, the caller
            //   has counted the batch.
            // - The output is as long as the plan asks for, as said above, and the status was set
            //   to 0.
            unsafe {
                let between = (at(scratch.between), scratch.records);
                ranked::launch(
                    &mut self.device,
                    stream,
                    &self.setup,
                    task,
                    &plan,
                    batch,
                    between,
                    output,
                )
            }?;
        } else if task == Task::Write {
            // SAFETY: one word is there, as the caller says, until the stream has done this.
            unsafe { stream.zero(hits.offsets.0, 1) }?;
        }
        if work.result.is_null() {
            return Ok(());
        }
        // SAFETY: both words are in the work space, and `result` has room for two until then, as
        // the caller says.
        unsafe {
            stream.read(at(scratch.total), work.result.cast(), CopyRows::one(WORD))?;
            stream.read(at(STATUS), work.result.add(1).cast(), CopyRows::one(WORD))
        }
    }
}

pub(super) fn failure(message: impl Into<String>) -> DecodeError {
    DecodeError::Device {
        backend: "cuda",
        message: message.into(),
    }
}
