//! Hits, their groups and the report: the caller's arrays.

use ut_decoding::EventReport;
use ut_decoding::decoder::UtHitsMut;

use crate::memory::{CallerArray, Place, SizedStruct, read_struct};
use crate::status::{Failure, UtStatus, guarded};

/// Number of counters of an event in the report; `ut_count_name()` names them in their order.
pub const UT_N_COUNTS: usize = 15;
/// Number of bytes per hit: seven numbers of four bytes.
pub const UT_HIT_BYTES: usize = 28;

/// Arrays of the caller for the results of a batch, each aligned to 4 bytes, none overlapping
/// another. Set everything to 0, then `size`, and the arrays that are wanted.
///
/// Hits are ordered by event, group (see UT_GROUPS_Y_ROWS), x and id. An event has
/// `ut_tables_n_groups()` groups. The seven arrays may lie anywhere, with room for `max_hits` each;
/// `ut_hits_in()` lays them out back to back in one piece of memory, which with exactly as much
/// room as hits is the shape that Allen's consumers take.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UtHits {
    /// sizeof(UtHits).
    pub size: usize,
    /// Room for hits in each of the seven arrays. `ut_decoder_count()` uses neither.
    pub max_hits: usize,
    /// y of the strip's lower end, mm.
    pub y_begin: *mut f32,
    /// y of the strip's upper end, mm.
    pub y_end: *mut f32,
    /// z at y = 0, mm.
    pub z_at_y_eq0: *mut f32,
    /// x at y = 0, mm.
    pub x_at_y_eq0: *mut f32,
    /// Slope dx/dy of the strip.
    pub dx_dy: *mut f32,
    /// Inverse variance, 12 / pitch², 1/mm².
    pub weight: *mut f32,
    /// LHCbID: 3 in the top four bits, then the channel: sector, and strip counted from 0
    /// (docs/columns.md).
    pub id: *mut u32,
    /// Strips of each hit, in one word: the sum of their ADC counts in bits 0 to 12, their number
    /// in bits 13 to 20, the first strip in bits 21 to 29. For format v5 on the CPU only; NULL: not
    /// wanted.
    pub clusters: *mut u32,
    /// Offsets of groups: group `g` of event `e` has the hits from `offsets[e * n_groups + g]` to
    /// the next offset; the last offset is the number of hits. Events that are not selected are
    /// empty.
    pub offsets: *mut u32,
    /// Number of words of `offsets`, at least n_events * n_groups + 1.
    pub n_offsets: usize,
    /// UT_N_COUNTS counters per event: banks and strips, then statistics and troubles
    /// (docs/policy.md). NULL: not wanted.
    pub report: *mut u32,
    /// Number of words of `report`, at least n_events * UT_N_COUNTS if it is wanted.
    pub n_report: usize,
    /// Number of hits, written by ut_decoder_count and ut_decoder_decode; 0 after an error. On a
    /// GPU, UtCudaResult has it.
    pub n_hits: usize,
}

// SAFETY: `repr(C)`, the size first, and otherwise numbers and raw pointers, which may be null.
unsafe impl SizedStruct for UtHits {
    const NAME: &'static str = "UtHits";
}

pub(crate) struct CallerHits {
    floats: [CallerArray<f32>; 6],
    id: CallerArray<u32>,
    clusters: CallerArray<u32>,
    offsets: CallerArray<u32>,
    report: CallerArray<u32>,
}

impl CallerHits {
    /// # Errors
    /// If a pointer cannot be right. Without `with_hits` the arrays of hits are not looked at.
    pub(crate) fn of(hits: &UtHits, with_hits: bool) -> Result<Self, Failure> {
        let n = if with_hits { hits.max_hits } else { 0 };
        let floats = |name, at| {
            if with_hits {
                CallerArray::new(name, at, n)
            } else {
                CallerArray::new(name, std::ptr::null(), 0)
            }
        };
        let words = |at| if with_hits { at } else { std::ptr::null_mut() };
        let (id, clusters, n_report) = (words(hits.id), words(hits.clusters), hits.n_report);
        if hits.report.is_null() != (n_report == 0) {
            return Err(Failure::argument(
                "UtHits.report and UtHits.n_report: either both are 0 or neither is",
            ));
        }
        if hits.n_offsets == 0 {
            return Err(Failure::argument(
                "UtHits.n_offsets is 0, but even a batch without events has one offset",
            ));
        }
        Ok(Self {
            floats: [
                floats("UtHits.y_begin", hits.y_begin)?,
                floats("UtHits.y_end", hits.y_end)?,
                floats("UtHits.z_at_y_eq0", hits.z_at_y_eq0)?,
                floats("UtHits.x_at_y_eq0", hits.x_at_y_eq0)?,
                floats("UtHits.dx_dy", hits.dx_dy)?,
                floats("UtHits.weight", hits.weight)?,
            ],
            id: CallerArray::new("UtHits.id", id, n)?,
            clusters: CallerArray::new(
                "UtHits.clusters",
                clusters,
                if clusters.is_null() { 0 } else { n },
            )?,
            offsets: CallerArray::new("UtHits.offsets", hits.offsets, hits.n_offsets)?,
            report: CallerArray::new("UtHits.report", hits.report, n_report)?,
        })
    }

    /// Returns the number of events for which offsets and report have room.
    pub(crate) fn max_events(&self, n_groups: usize) -> usize {
        let of_offsets = self.offsets.len().saturating_sub(1) / n_groups;
        let of_report = if self.report.is_null() {
            usize::MAX
        } else {
            self.report.len() / UT_N_COUNTS
        };
        of_offsets.min(of_report)
    }

    pub(crate) const fn has_clusters(&self) -> bool {
        !self.clusters.is_null()
    }

    pub(crate) fn places(&self) -> [Place; 10] {
        let [a, b, c, d, e, f] = self.floats.map(CallerArray::place);
        let [id, clusters, offsets, report] =
            [self.id, self.clusters, self.offsets, self.report].map(CallerArray::place);
        [a, b, c, d, e, f, id, clusters, offsets, report]
    }

    /// Returns the arrays of hits, and the report if it is wanted.
    ///
    /// # Safety
    /// - Each array is null, or can be read and written for its length, and nothing else uses it as
    ///   long as this is used.
    /// - They do not overlap.
    pub(crate) unsafe fn slices<'a>(&self) -> (UtHitsMut<'a>, Option<&'a mut [EventReport]>) {
        let [y_begin, y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight] = self.floats;
        // SAFETY: each array is null, or is used by nothing else for its length, and they do not
        // overlap (preconditions).
        let (hits, report) = unsafe {
            let hits = UtHitsMut {
                y_begin: y_begin.slice_mut(),
                y_end: y_end.slice_mut(),
                z_at_y_eq0: z_at_y_eq0.slice_mut(),
                x_at_y_eq0: x_at_y_eq0.slice_mut(),
                dx_dy: dx_dy.slice_mut(),
                weight: weight.slice_mut(),
                id: self.id.slice_mut(),
                offsets: self.offsets.slice_mut(),
                clusters: (!self.clusters.is_null())
                    .then(|| bytemuck::cast_slice_mut(self.clusters.slice_mut())),
            };
            (hits, self.report.slice_mut())
        };
        let whole = report.len() / UT_N_COUNTS * UT_N_COUNTS;
        let report =
            (!self.report.is_null()).then(|| bytemuck::cast_slice_mut(&mut report[..whole]));
        (hits, report)
    }
}

/// Reads a `UtHits`, and sets its `n_hits` to 0.
///
/// # Safety
/// - `hits` is null, or a struct as [`read_struct`] reads it, and can be written.
pub(crate) unsafe fn read_hits(hits: *mut UtHits) -> Result<UtHits, Failure> {
    // SAFETY: as the caller says.
    let value = unsafe { read_struct(hits) }?;
    // SAFETY: the same.
    unsafe { write_n_hits(hits, 0) };
    Ok(value)
}

/// Writes the number of hits.
///
/// # Safety
/// - `hits` is a struct as [`read_struct`] has read it, and can be written.
pub(crate) unsafe fn write_n_hits(hits: *mut UtHits, n_hits: usize) {
    // SAFETY: the field can be written, as the caller says.
    unsafe { (&raw mut (*hits).n_hits).write(n_hits) };
}

/// Lays out the seven arrays of `hits` back to back in `memory`, which has `bytes` bytes: y_begin,
/// y_end, z_at_y_eq0, x_at_y_eq0, dx_dy, weight, id, each with room for `n_hits` hits, together
/// n_hits * UT_HIT_BYTES bytes. Sets `max_hits`.
///
/// # Safety
/// - `hits` is NULL or points to a UtHits whose `size` is set, and can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_hits_in(
    memory: *mut std::ffi::c_void,
    bytes: usize,
    n_hits: usize,
    hits: *mut UtHits,
) -> UtStatus {
    guarded(|| {
        // SAFETY: as the caller says.
        let mut value: UtHits = unsafe { read_struct(hits) }?;
        let words = n_hits.saturating_mul(UT_HIT_BYTES / 4);
        let memory = CallerArray::new("memory", memory.cast::<u32>().cast_const(), words)?;
        if memory.place().len() > bytes {
            return Err(Failure::argument(format!(
                "{n_hits} hits take {UT_HIT_BYTES} bytes each, memory has {bytes}"
            )));
        }
        let array = |i: usize| memory.at().wrapping_add(i * n_hits);
        value.max_hits = n_hits;
        value.y_begin = array(0).cast();
        value.y_end = array(1).cast();
        value.z_at_y_eq0 = array(2).cast();
        value.x_at_y_eq0 = array(3).cast();
        value.dx_dy = array(4).cast();
        value.weight = array(5).cast();
        value.id = array(6);
        // SAFETY: `read_struct` has read it, and it can be written, as the caller says.
        unsafe { hits.write(value) };
        Ok(())
    })
}
