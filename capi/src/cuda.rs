//! Decoding on a GPU, in the caller's context, on his streams, in his memory.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ut_decoding::decoder::cuda::{
    Cuda, CudaDevice, CudaSequence, Device, DeviceBatch, SequenceHits, SequenceWork, choose,
};
use ut_decoding::decoder::launch::LaunchParams;
use ut_decoding::{DecodeError, Layout};

use crate::batch::{UtBatch, fields};
use crate::decoder::{UtOptions, read_options};
use crate::hits::{HitArrays, UtHits};
use crate::memory::{Versioned, check_place, read_struct, reference};
use crate::status::{Failure, UT_CAPACITY, UT_NO_DEVICE, UtStatus, guarded};
use crate::tables::UtTables;

/// A decoder on a GPU: tables, and compiled kernels. It keeps nothing of a batch, so that any number of batches can be in
/// flight, on as many streams and from as many threads as one likes, each with a work space of its own.
pub struct UtCuda {
    sequence: Mutex<CudaSequence>,
    version: u32,
}

/// What a call has written when the stream has come there. Lies in pinned memory of the host.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UtCudaResult {
    /// The number of hits of the batch.
    pub n_hits: u32,
    /// 0; or something else, where work space or arrays were too small: then not all hits were written.
    pub overflow: u32,
}

/// What a batch is worked on with. Set everything to 0, then `size`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UtCudaWork {
    /// sizeof(UtCudaWork).
    pub size: usize,
    /// The stream, a CUstream or cudaStream_t of the context; NULL: its default stream.
    pub stream: *mut c_void,
    /// Device memory that nothing else uses from ut_cuda_count until ut_cuda_write is done.
    pub scratch: *mut c_void,
    /// Bytes of `scratch`, as ut_cuda_scratch_bytes says. Fewer will do for batches of fewer strips than they might have.
    pub scratch_bytes: usize,
    /// Pinned memory of the host, or NULL: not wanted.
    pub result: *mut UtCudaResult,
}

// SAFETY: `repr(C)`, the size first, and otherwise numbers and raw pointers, which may be null.
unsafe impl Versioned for UtCudaWork {
    const NAME: &'static str = "UtCudaWork";
    const FIRST_SIZE: usize = 40;
}

/// Makes a decoder in `context`, a CUcontext, or where that is NULL, in the context that is current on the calling thread
/// (such as the one that the CUDA runtime uses). Waits: compiles the kernels, which the driver keeps for the next time, and
/// copies the tables, which may be given back afterwards. Of `options`, which may be NULL, `threads` is not used. Leaves the
/// context current.
///
/// # Safety
/// - `tables` is NULL, or was made by this library and is not given back.
/// - `options` is NULL, or points to a UtOptions whose `size` is set.
/// - `context` is NULL or a context of this process; it is not destroyed before the decoder is freed.
/// - `cuda` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_cuda_new(
    tables: *const UtTables,
    options: *const UtOptions,
    context: *mut c_void,
    cuda: *mut *mut UtCuda,
) -> UtStatus {
    guarded(|| {
        check_place("cuda", cuda)?;
        // SAFETY: as the caller says.
        let tables = unsafe { reference("tables", tables) }?;
        // SAFETY: the same.
        let (options, _) = unsafe { read_options(options) }?;
        let no_device = |error: DecodeError| Failure::new(UT_NO_DEVICE, error.to_string());
        choose(&Cuda, 0).map_err(|error| no_device(error.into()))?;
        // SAFETY: the context lives as long as what is made in it, as the caller says.
        let device = unsafe {
            if context.is_null() { CudaDevice::in_current_context(0) } else { CudaDevice::in_context(context, 0) }
        };
        let mut device = device.map_err(no_device)?;
        let stream = device.stream()?;
        let sequence = CudaSequence::new(device, &stream, &tables.tables, options, LaunchParams::default())?;
        drop(stream);
        sequence.prepare(Layout::Allen)?;
        sequence.prepare(Layout::Mep)?;
        let version = u32::from(tables.tables.boards().version.byte());
        // SAFETY: the place was checked, and can be written, as the caller says.
        unsafe { cuda.write(Box::into_raw(Box::new(UtCuda { sequence: Mutex::new(sequence), version }))) };
        Ok(())
    })
}

/// # Safety
/// - `cuda` is null, or was made by [`ut_cuda_new`] and is not freed as long as this is used.
unsafe fn sequence<'a>(cuda: *const UtCuda) -> Result<(MutexGuard<'a, CudaSequence>, u32), Failure> {
    // SAFETY: as the caller says.
    let cuda = unsafe { reference("cuda", cuda) }?;
    // A panic leaves nothing half done: a call only puts work on a stream.
    Ok((cuda.sequence.lock().unwrap_or_else(PoisonError::into_inner), cuda.version))
}

/// What 32 bits cannot count.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn too_large(error: DecodeError) -> Failure {
    Failure::new(UT_CAPACITY, error.to_string())
}

/// A batch whose pointers are of the device.
///
/// # Safety
/// - `batch` is null, or a struct as [`read_struct`] reads it.
unsafe fn device_batch(batch: *const UtBatch, version: u32) -> Result<DeviceBatch, Failure> {
    // SAFETY: as the caller says.
    let batch = unsafe { read_struct(batch) }?;
    let (layout, only_selected, _) = fields(&batch)?;
    batch.check_arrays()?;
    if batch.version != 0 && batch.version != version {
        let given = batch.version;
        let message =
            format!("UtBatch.version is {given}, the tables are for version {version}: on a GPU they are the same");
        return Err(Failure::argument(message));
    }
    if only_selected || batch.first_event != 0 {
        return Err(Failure::argument(
            "on a GPU all events of a batch are decoded: UtBatch.only_selected and first_event are 0",
        ));
    }
    let words = |at: *const u32, len| (at.addr() as u64, len);
    Ok(DeviceBatch {
        layout,
        n_events: batch.n_events as usize,
        raw: (batch.raw.addr() as u64, batch.raw_bytes),
        offsets: words(batch.offsets, batch.n_offsets),
        sizes: words(batch.sizes, batch.n_sizes),
        types: words(batch.types, batch.n_types),
        versions: (!batch.versions.is_null()).then(|| words(batch.versions, batch.n_versions)),
    })
}

/// Writes how many bytes of work space the batch takes, whatever its bytes are. Looks at the lengths of the arrays alone:
/// its pointers may be those of the device, or not be known yet and NULL.
///
/// # Safety
/// - `cuda` is NULL, or was made by ut_cuda_new and is not freed.
/// - `batch` is NULL, or points to a UtBatch whose `size` is set.
/// - `scratch_bytes` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_cuda_scratch_bytes(
    cuda: *const UtCuda,
    batch: *const UtBatch,
    scratch_bytes: *mut usize,
) -> UtStatus {
    guarded(|| {
        check_place("scratch_bytes", scratch_bytes)?;
        // SAFETY: as the caller says.
        let (sequence, _) = unsafe { sequence(cuda) }?;
        // SAFETY: the same.
        let batch = unsafe { read_struct(batch) }?;
        let (layout, ..) = fields(&batch)?;
        let words = |len| (0, len);
        let lengths = DeviceBatch {
            layout,
            n_events: batch.n_events as usize,
            raw: (0, batch.raw_bytes),
            offsets: words(batch.n_offsets),
            sizes: words(batch.n_sizes),
            types: words(batch.n_types),
            versions: None,
        };
        let bytes = sequence.scratch_bytes(&lengths).map_err(too_large)?;
        // SAFETY: the place was checked, and can be written, as the caller says.
        unsafe { scratch_bytes.write(bytes) };
        Ok(())
    })
}

/// Puts on the stream what counts the hits of a batch, and returns. When the stream has come there, `work->result` has the
/// number of hits. All pointers of `batch` and `hits` are of the device; of `hits`, only `offsets` and, if wanted, `report`
/// are used, which are complete after ut_cuda_write. What a GPU does not take yet is refused: `only_selected` and
/// `first_event` are 0, and `version` is 0 or that of the tables.
///
/// # Safety
/// - `cuda` is NULL, or was made by ut_cuda_new and is not freed; it is not freed before the stream has done this.
/// - `batch`, `work` and `hits` are NULL, or point to a struct whose `size` is set.
/// - Until the stream has done this, every pointer in them is memory of the device (that of `work->result`: pinned memory of
///   the host) for the length beside it, and nothing else writes there, nor reads what is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_cuda_count(
    cuda: *const UtCuda,
    batch: *const UtBatch,
    work: *const UtCudaWork,
    hits: *const UtHits,
) -> UtStatus {
    // SAFETY: as the caller says.
    guarded(|| unsafe { run(cuda, batch, work, hits, true) })
}

/// Puts on the stream what writes the hits of a batch that ut_cuda_count has counted, with the same arguments, and returns.
/// The arrays of `hits` have room for at least as many as were counted; with ut_hits_in and exactly as many, they lie back to
/// back.
///
/// # Safety
/// - As ut_cuda_count; and the same batch was counted with this work space, offsets and report, on this stream or one that it
///   waits for, and nothing was written there since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_cuda_write(
    cuda: *const UtCuda,
    batch: *const UtBatch,
    work: *const UtCudaWork,
    hits: *const UtHits,
) -> UtStatus {
    // SAFETY: as the caller says.
    guarded(|| unsafe { run(cuda, batch, work, hits, false) })
}

/// # Safety
/// - As [`ut_cuda_count`] where it counts, else as [`ut_cuda_write`].
unsafe fn run(
    cuda: *const UtCuda,
    batch: *const UtBatch,
    work: *const UtCudaWork,
    hits: *const UtHits,
    counts: bool,
) -> Result<(), Failure> {
    // SAFETY: as the caller says.
    let (mut sequence, version) = unsafe { sequence(cuda) }?;
    // SAFETY: the same.
    let (batch, work, hits) = unsafe { (device_batch(batch, version)?, read_struct(work)?, read_struct(hits)?) };
    sequence.scratch_bytes(&batch).map_err(too_large)?;
    if work.scratch.is_null() {
        return Err(Failure::argument("UtCudaWork.scratch is NULL"));
    }
    if !work.result.is_aligned() {
        return Err(Failure::argument("UtCudaWork.result is not aligned"));
    }
    if HitArrays::of(&hits, !counts)?.has_clusters() {
        return Err(Failure::argument("UtHits.clusters is wanted, but a GPU does not give clusters"));
    }
    let floats = [hits.y_begin, hits.y_end, hits.z_at_y_eq0, hits.x_at_y_eq0, hits.dx_dy, hits.weight];
    let mut arrays = [0; 7];
    for (place, array) in arrays.iter_mut().zip(floats) {
        *place = array.addr() as u64;
    }
    arrays[6] = hits.id.addr() as u64;
    let to = SequenceHits {
        arrays,
        max_hits: hits.max_hits.min(u32::MAX as usize),
        offsets: (hits.offsets.addr() as u64, hits.n_offsets),
        report: (!hits.report.is_null()).then(|| (hits.report.addr() as u64, hits.n_report)),
    };
    let scratch = (work.scratch.addr() as u64, work.scratch_bytes);
    let work_space = SequenceWork { scratch, result: work.result.cast() };
    // SAFETY: a stream of the decoder's context, which lives until it has done this, as the caller says.
    let stream = unsafe { sequence.device().borrow_stream(work.stream) };
    // SAFETY: what the caller promises is what these ask for; pointers are not null where something is there, and aligned,
    // checked above.
    unsafe {
        if counts {
            sequence.count(&stream, &batch, work_space, &to)?;
        } else {
            sequence.write(&stream, &batch, work_space, &to)?;
        }
    }
    Ok(())
}

/// Gives a decoder back.
///
/// # Safety
/// - `cuda` is NULL, or was made by ut_cuda_new, nothing of it is in flight, and it is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_cuda_free(cuda: *mut UtCuda) {
    if !cuda.is_null() {
        // SAFETY: it came from `Box::into_raw` in `ut_cuda_new`, and is freed once, as the caller says.
        drop(unsafe { Box::from_raw(cuda) });
    }
}
