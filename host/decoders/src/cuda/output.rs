//! Results of a batch, on the device and in pinned memory of the host.
//!
//! Report, ends of groups, the last of which is the number of hits, and status lie behind each
//! other: one copy brings them all, and one of eight bytes number and status. The hits are seven
//! arrays with a common stride: one copy of seven rows.

use ut_kernels::hit::{self as pipeline, HitBuffers};
use ut_kernels::report::N_COUNTS;

use super::buffer::{Buffer, Place};
use super::gpu::CudaDevice;
use super::launcher::DeviceLauncher;
use crate::plan::{Plan, add_meta, too_many_hits};
use ut_data::input::EventMeta;
use ut_data::{BatchReport, DecodeError, EventReport, UtHits};

pub(super) const N_ARRAYS: usize = 7;

pub(super) const WORD: usize = size_of::<u32>();

/// Hits on the device, until the same stream decodes another batch: seven contiguous arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceHits {
    /// Number of hits of the batch.
    pub len: usize,
    /// Address of the first array: `y_begin`, then `y_end`, `z_at_y_eq0`, `x_at_y_eq0`, `dx_dy`,
    /// `weight`, `id`.
    pub address: u64,
    /// Distance of the arrays, in elements of four bytes.
    pub stride: usize,
    /// Address of the `n_events * n_groups + 1` ends of groups.
    pub offsets: u64,
    /// Address of the counters, `N_COUNTS` words per event.
    pub report: u64,
}

/// Places of report, ends of groups and status for one plan, in words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Results {
    n_events: usize,
    offsets: usize,
    n_offsets: usize,
}

impl Results {
    pub(super) const fn of(plan: &Plan) -> Self {
        let n_events = plan.events as usize;
        // No gap: copied with the rest, it would be memory that nothing has written.
        let offsets = n_events * N_COUNTS;
        Self {
            n_events,
            offsets,
            n_offsets: plan.counters as usize + 1,
        }
    }

    pub(super) const fn words(self) -> usize {
        self.status() + 1
    }

    pub(super) const fn total(self) -> usize {
        self.status() - 1
    }

    pub(super) const fn status(self) -> usize {
        self.offsets + self.n_offsets
    }
}

/// Buffers on the device that the kernels write: the results, and seven arrays of hits with a
/// common stride. Arrays of fixed places would need to know the number of hits in advance; with a
/// stride, the buffer can be larger than this batch needs, and the arrays of the next batch lie at
/// the same addresses.
pub(super) struct DeviceOutput {
    results: Buffer,
    hits: Buffer,
    stride: usize,
}

impl DeviceOutput {
    pub(super) const fn new() -> Self {
        Self {
            results: Buffer::new(),
            hits: Buffer::new(),
            stride: 0,
        }
    }

    /// Makes room for a plan's results and `hits`, a multiple of 32, so that every array begins on
    /// a line.
    pub(super) fn reserve(
        &mut self,
        device: &CudaDevice,
        plan: &Plan,
        hits: usize,
    ) -> Result<(), DecodeError> {
        self.results
            .reserve(device, Results::of(plan).words() * WORD)?;
        if hits > self.stride {
            self.stride = 0;
            self.hits.reserve(device, N_ARRAYS * hits * WORD)?;
            self.stride = hits;
        }
        Ok(())
    }

    pub(super) const fn stride(&self) -> usize {
        self.stride
    }

    pub(super) fn result(&self, word: usize) -> u64 {
        self.results.address() + (word * WORD) as u64
    }

    /// Returns the address of hit `i` of the first array.
    pub(super) fn hit(&self, i: usize) -> u64 {
        self.hits.address() + (i * WORD) as u64
    }

    /// Views for the kernels; the status word must be 0 before the first.
    pub(super) fn views<'a>(&self, plan: &Plan) -> pipeline::Output<DeviceLauncher<'a>> {
        let (results, stride) = (Results::of(plan), self.stride);
        let words = |word: usize, len: usize| {
            self.results.device_view(Place {
                at: word * WORD,
                len,
            })
        };
        let floats = |array: usize| {
            self.hits.device_view(Place {
                at: array * stride * WORD,
                len: stride,
            })
        };
        pipeline::Output {
            hits: HitBuffers {
                y_begin: floats(0),
                y_end: floats(1),
                z_at_y_eq0: floats(2),
                x_at_y_eq0: floats(3),
                dx_dy: floats(4),
                weight: floats(5),
                id: self.hits.device_view(Place {
                    at: 6 * stride * WORD,
                    len: stride,
                }),
            },
            offsets: words(results.offsets, results.n_offsets),
            report: words(0, results.offsets),
            status: words(results.status(), 1),
        }
    }

    pub(super) fn on_device(&self, plan: &Plan, len: usize) -> DeviceHits {
        let results = Results::of(plan);
        DeviceHits {
            len,
            address: self.hits.address(),
            stride: self.stride,
            offsets: self.result(results.offsets),
            report: self.result(0),
        }
    }
}

/// Hits of a batch in pinned memory, until the same stream decodes another batch.
#[derive(Clone, Copy, Debug)]
pub struct HostHits<'a> {
    len: usize,
    n_groups: usize,
    stride: usize,
    words: &'a [u32],
    offsets: &'a [u32],
    counts: &'a [EventReport],
    meta: &'a [EventMeta],
}

impl<'a> HostHits<'a> {
    /// Takes the arrays at `stride` in `words`, and the `layout` of `results`.
    pub(super) fn new(
        (len, n_groups): (usize, usize),
        layout: Results,
        results: &'a [u32],
        (words, stride): (&'a [u32], usize),
        meta: &'a [EventMeta],
    ) -> Self {
        Self {
            len,
            n_groups,
            stride,
            words,
            offsets: &results[layout.offsets..][..layout.n_offsets],
            counts: bytemuck::cast_slice(&results[..layout.n_events * N_COUNTS]),
            meta,
        }
    }

    pub(super) const fn none(n_groups: usize) -> Self {
        Self {
            len: 0,
            n_groups,
            stride: 0,
            words: &[],
            offsets: &[0],
            counts: &[],
            meta: &[],
        }
    }

    /// Returns the number of hits in the batch.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the `n_events * n_groups + 1` ends of groups, as in [`UtHits::offsets`].
    pub const fn offsets(&self) -> &'a [u32] {
        self.offsets
    }

    /// Returns one of the seven arrays as `len` words. Arrays 0 to 5 are `y_begin`, `y_end`,
    /// `z_at_y_eq0`, `x_at_y_eq0` (mm), `dx_dy` and `weight`, as the bits of `f32`; array 6 is
    /// `id`.
    pub fn array(&self, i: usize) -> &'a [u32] {
        assert!(i < N_ARRAYS, "there are {N_ARRAYS} arrays of hits");
        if self.len == 0 {
            &[]
        } else {
            &self.words[i * self.stride..][..self.len]
        }
    }

    /// Returns the counters of an event.
    pub fn report_of(&self, event: usize) -> EventReport {
        let mut counts = self.counts[event];
        add_meta(
            self.meta.get(event).copied().unwrap_or_default(),
            &mut counts,
        );
        counts
    }

    /// Copies hits and report.
    pub fn copy_to(&self, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        let n_events = self.counts.len();
        let mut to = hits.begin(n_events, self.n_groups)?;
        let capacity = to.id.len();
        let n = self.len.min(capacity);
        to.offsets.copy_from_slice(self.offsets);
        report.events.clear();
        report
            .events
            .extend((0..n_events).map(|event| self.report_of(event)));
        if n > 0 {
            for (i, array) in to.floats().into_iter().enumerate() {
                array[..n].copy_from_slice(&bytemuck::cast_slice(self.array(i))[..n]);
            }
            to.id[..n].copy_from_slice(&self.array(N_ARRAYS - 1)[..n]);
        }
        if self.len > capacity {
            return hits.forget_on(Err(too_many_hits(self.offsets, self.n_groups, capacity)));
        }
        Ok(())
    }
}
