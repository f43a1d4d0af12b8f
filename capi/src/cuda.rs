//! Decoding on a GPU, in the caller's context, streams and memory.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ut_decoding::decoder::cuda::{
    CudaDevice, CudaSequence, DeviceBatch, HITS_OVERFLOW, NO_SUCH_EVENT, STRIPS_OVERFLOW,
    SequenceHits, SequenceWork, WRONG_VERSION,
};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::{BankVersion, DecodeError, Layout};

use crate::batch::{UtBatch, check_version, fields};
use crate::decoder::{UtOptions, read_options};
use crate::hits::{CallerHits, UtHits};
use crate::memory::{SizedStruct, check_place, read_struct, reference};
use crate::status::{Failure, UT_CAPACITY, UT_NO_DEVICE, UtStatus, guarded};
use crate::tables::UtTables;

/// In `UtCudaResult.trouble` of ut_cuda_count: fragments of the batch overlap, which no reader
/// produces, so that it has more strips than the work space has room for. Some events have no hits:
/// do not write them, and decode the batch on the CPU.
pub const UT_CUDA_TOO_MANY_STRIPS: u32 = 1;
/// In `UtCudaResult.trouble` of ut_cuda_write: `n_hits` exceeds `max_hits`. Events that did not fit
/// are not written.
pub const UT_CUDA_NO_ROOM: u32 = 2;
/// In `UtCudaResult.trouble` of ut_cuda_count: `selected` lists events that the batch does not
/// have. They are left out.
pub const UT_CUDA_NO_SUCH_EVENT: u32 = 4;

/// In `UtCudaResult.trouble` of ut_cuda_write: by `versions`, some banks have another version than
/// the tables. They have no hits.
pub const UT_CUDA_WRONG_VERSION: u32 = 8;

const _: () = assert!(UT_CUDA_TOO_MANY_STRIPS == STRIPS_OVERFLOW);
const _: () = assert!(UT_CUDA_NO_ROOM == HITS_OVERFLOW && UT_CUDA_NO_SUCH_EVENT == NO_SUCH_EVENT);
const _: () = assert!(UT_CUDA_WRONG_VERSION == WRONG_VERSION);

/// A decoder on a GPU: tables and compiled kernels. It keeps nothing of a batch: any number of
/// batches can be in flight, on any streams and from any threads, if each has a separate work
/// space.
pub struct UtCuda {
    sequence: Mutex<CudaSequence>,
}

/// Result of a call, in pinned memory of the host, written once the stream has reached the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UtCudaResult {
    /// Number of hits of the batch.
    pub n_hits: u32,
    /// 0, or the sum of UT_CUDA_TOO_MANY_STRIPS, UT_CUDA_NO_ROOM, UT_CUDA_NO_SUCH_EVENT and
    /// UT_CUDA_WRONG_VERSION, for this call.
    pub trouble: u32,
}

/// Stream and memory for a batch. Set everything to 0, then `size`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UtCudaWork {
    /// sizeof(UtCudaWork).
    pub size: usize,
    /// Stream of the context, a CUstream or cudaStream_t; NULL: the default stream.
    pub stream: *mut c_void,
    /// Device memory at any address, which nothing else uses from ut_cuda_count until ut_cuda_write
    /// is done.
    pub scratch: *mut c_void,
    /// Number of bytes of `scratch`, at least the number from ut_cuda_scratch_bytes.
    pub scratch_bytes: usize,
    /// Pinned memory of the host, or NULL: not wanted.
    pub result: *mut UtCudaResult,
}

// SAFETY: `repr(C)`, the size first, and otherwise numbers and raw pointers, which may be null.
unsafe impl SizedStruct for UtCudaWork {
    const NAME: &'static str = "UtCudaWork";
}

/// Makes a decoder in `context`, a CUcontext; NULL: in the calling thread's current one, such as
/// the CUDA runtime's. Waits while it compiles the kernels, which the driver keeps for the next
/// time, and copies the tables, which may be freed then. `options` may be NULL. Leaves the context
/// current.
///
/// # Safety
/// - `tables` is NULL, or was made by this library and is not freed.
/// - `options` is NULL, or points to a UtOptions whose `size` is set.
/// - `context` is NULL or a context of this process; it is not destroyed before the decoder is
///   freed.
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
        let options = unsafe { read_options(options) }?;
        // SAFETY: the context outlives the decoder, as the caller says.
        let device = unsafe {
            if context.is_null() {
                CudaDevice::in_current_context(0)
            } else {
                CudaDevice::in_context(context, 0)
            }
        };
        let device = device.map_err(|error| Failure::new(UT_NO_DEVICE, error.to_string()))?;
        let stream = device.stream()?;
        let sequence = CudaSequence::new(
            device,
            &stream,
            &tables.tables,
            options,
            Parameters::default(),
        )?;
        drop(stream);
        sequence.prepare(Layout::Allen)?;
        sequence.prepare(Layout::Mep)?;
        // SAFETY: the place was checked, and can be written, as the caller says.
        unsafe {
            cuda.write(Box::into_raw(Box::new(UtCuda {
                sequence: Mutex::new(sequence),
            })));
        };
        Ok(())
    })
}

/// # Safety
/// - `cuda` is null, or was made by [`ut_cuda_new`] and is not freed as long as this is used.
unsafe fn sequence<'a>(cuda: *const UtCuda) -> Result<MutexGuard<'a, CudaSequence>, Failure> {
    // SAFETY: as the caller says.
    let cuda = unsafe { reference("cuda", cuda) }?;
    // A panic leaves nothing half done, since a call only queues work on a stream.
    Ok(cuda.sequence.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Reports a batch that is too large for 32-bit counts as UT_CAPACITY: smaller batches can be
/// decoded.
fn too_large(error: DecodeError) -> Failure {
    match error {
        DecodeError::Device { .. } => Failure::new(UT_CAPACITY, error.to_string()),
        other => other.into(),
    }
}

/// Reads a batch whose pointers are of the device.
///
/// # Safety
/// - `batch` is null, or a struct as [`read_struct`] reads it.
unsafe fn device_batch(
    batch: *const UtBatch,
    table: BankVersion,
) -> Result<(UtBatch, DeviceBatch), Failure> {
    // SAFETY: as the caller says.
    let batch = unsafe { read_struct(batch) }?;
    let (layout, only_selected, version) = fields(&batch)?;
    check_version(version, table)?;
    let words = |at: *const u32, len| (at.addr() as u64, len);
    let there = DeviceBatch {
        layout,
        n_events: batch.n_events as usize,
        first_event: batch.first_event as usize,
        selected: only_selected.then(|| words(batch.selected, batch.n_selected)),
        raw: (batch.raw.addr() as u64, batch.raw_bytes),
        offsets: words(batch.offsets, batch.n_offsets),
        sizes: words(batch.sizes, batch.n_sizes),
        types: words(batch.types, batch.n_types),
        versions: (!batch.versions.is_null()).then(|| words(batch.versions, batch.n_versions)),
        version,
    };
    Ok((batch, there))
}

/// Writes the number of bytes of work space that the batch takes, whatever its contents: only the
/// lengths of the arrays matter, and the pointers may be NULL or of the device. It is three times
/// the raw bytes (v4: four times), some 1100 bytes per event, and in MEP layout 4 bytes per bank.
/// Between the calls, the work space holds all clusters, so that the banks are read only once.
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
        let sequence = unsafe { sequence(cuda) }?;
        // SAFETY: the same.
        let (_, lengths) = unsafe { device_batch(batch, sequence.version()) }?;
        let bytes = sequence.scratch_bytes(&lengths).map_err(too_large)?;
        // SAFETY: the place was checked, and can be written, as the caller says.
        unsafe { scratch_bytes.write(bytes) };
        Ok(())
    })
}

/// Queues the count of a batch's hits on the stream, and returns: nothing waits, and no device
/// memory is allocated. Once the stream has reached it, `work->result` has the number of hits.
/// Arrays are read on the device; `version`, `first_event` and all lengths are numbers of the
/// struct. Selected events that the batch does not have are ignored, and flagged in the result. If
/// this or ut_cuda_write returns UT_DEVICE_FAILED, it has waited for the stream: nothing of the
/// call is still in flight, unless the waiting failed as well.
///
/// # Safety
/// - `cuda` is NULL, or was made by ut_cuda_new and is not freed; it is not freed before the stream
///   has done this.
/// - `batch` and `work` are NULL, or point to a struct whose `size` is set. The structs may change
///   after the call.
/// - Until the stream has done this, every pointer in the structs is memory of the device
///   (`work->result`: pinned memory of the host) of the length in the struct, nothing else writes
///   there, and nothing else reads the results.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_cuda_count(
    cuda: *const UtCuda,
    batch: *const UtBatch,
    work: *const UtCudaWork,
) -> UtStatus {
    guarded(|| {
        // SAFETY: as the caller says.
        let (mut sequence, batch, work) = unsafe { read(cuda, batch, work) }?;
        // SAFETY: a stream of the decoder's context, which lives until it has done this, as the
        // caller says.
        let stream = unsafe { sequence.device().borrow_stream(work.stream) };
        // SAFETY: memory on the device is valid until the stream has done this, as the caller
        // promises; `read` has checked that pointers are aligned, and not null unless their length
        // is 0.
        unsafe { sequence.count(&stream, &batch, work_space(&work)) }?;
        Ok(())
    })
}

/// Queues writing hits, offsets and report of a batch that ut_cuda_count has counted with the same
/// `batch` and `work`, and returns: nothing waits, and no device memory is allocated. All pointers
/// of `hits` are of the device, with room for at least the counted hits; ut_hits_in with exactly as
/// many lays them out back to back. `work->result`, which may be NULL, is written again once the
/// stream has reached it.
///
/// # Safety
/// - As ut_cuda_count; and the same batch was counted with this work space, on this stream or one
///   that it waits for, and nothing was written there since.
/// - `hits` is NULL, or points to a struct whose `size` is set. Each of its pointers is NULL, or
///   memory of the device of the length in the struct, which overlaps nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_cuda_write(
    cuda: *const UtCuda,
    batch: *const UtBatch,
    work: *const UtCudaWork,
    hits: *const UtHits,
) -> UtStatus {
    guarded(|| {
        // SAFETY: as the caller says.
        let (mut sequence, batch, work) = unsafe { read(cuda, batch, work) }?;
        // SAFETY: the same.
        let hits = unsafe { read_struct(hits) }?;
        if CallerHits::of(&hits, true)?.has_clusters() {
            return Err(Failure::argument(
                "UtHits.clusters is wanted, but a GPU does not give clusters",
            ));
        }
        let floats = [
            hits.y_begin,
            hits.y_end,
            hits.z_at_y_eq0,
            hits.x_at_y_eq0,
            hits.dx_dy,
            hits.weight,
        ];
        let mut arrays = [hits.id.addr() as u64; 7];
        for (place, array) in arrays.iter_mut().zip(floats) {
            *place = array.addr() as u64;
        }
        let to = SequenceHits {
            arrays,
            max_hits: hits.max_hits.min(u32::MAX as usize),
            offsets: (hits.offsets.addr() as u64, hits.n_offsets),
            report: (!hits.report.is_null()).then(|| (hits.report.addr() as u64, hits.n_report)),
        };
        // SAFETY: a stream of the decoder's context, which lives until it has done this, as the
        // caller says.
        let stream = unsafe { sequence.device().borrow_stream(work.stream) };
        // SAFETY: memory on the device is valid until the stream has done this, as the caller
        // promises; pointers are aligned, and not null unless their length is 0: checked above and
        // by `read`.
        unsafe { sequence.write(&stream, &batch, work_space(&work), &to) }?;
        Ok(())
    })
}

/// Checks and reads the arguments of both calls.
///
/// # Safety
/// - `cuda` is as [`sequence`] asks for; `batch` and `work` are each null, or a struct as
///   [`read_struct`] reads it.
unsafe fn read<'a>(
    cuda: *const UtCuda,
    batch: *const UtBatch,
    work: *const UtCudaWork,
) -> Result<(MutexGuard<'a, CudaSequence>, DeviceBatch, UtCudaWork), Failure> {
    // SAFETY: as the caller says.
    let sequence = unsafe { sequence(cuda) }?;
    // SAFETY: the same.
    let ((batch, there), work) =
        unsafe { (device_batch(batch, sequence.version())?, read_struct(work)?) };
    batch.check_arrays()?;
    sequence.scratch_bytes(&there).map_err(too_large)?;
    if work.scratch.is_null() {
        return Err(Failure::argument("UtCudaWork.scratch is NULL"));
    }
    if !work.result.is_aligned() {
        return Err(Failure::argument("UtCudaWork.result is not aligned"));
    }
    Ok((sequence, there, work))
}

fn work_space(work: &UtCudaWork) -> SequenceWork {
    SequenceWork {
        scratch: (work.scratch.addr() as u64, work.scratch_bytes),
        result: work.result.cast(),
    }
}

/// Frees a decoder.
///
/// # Safety
/// - `cuda` is NULL, or was made by ut_cuda_new, nothing of it is in flight, and it is not used any
///   more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ut_cuda_free(cuda: *mut UtCuda) {
    if !cuda.is_null() {
        // SAFETY: it came from `Box::into_raw` in `ut_cuda_new`, and is freed once, as the caller
        // says.
        drop(unsafe { Box::from_raw(cuda) });
    }
}
