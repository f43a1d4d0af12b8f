//! Programs with a CUDA context and streams of their own, such as a trigger framework: a decoder in
//! its context and on its streams. Handles are the plain pointers of the driver's header, from C++,
//! `cudarc` or elsewhere.
//!
//! A program that uses the CUDA runtime has the GPU's primary context, as [`CudaDecoder::new`] has:
//! it can give its device pointers to [`submit_resident`](CudaDecoder::submit_resident) without any
//! of this.

use std::ffi::c_void;

use super::decoder::CudaConfig;
use super::driver::{Context, CudaStream};
use super::gpu::CudaDevice;
use super::sequence::failure;
use super::start::{check_driver, choose};
use super::{CudaDecoder, CudaSequence};
use crate::ptx::Kernel;
use ut_data::detector::DetectorTables;
use ut_data::input::Layout;
use ut_data::{DecodeError, DecodeOptions};

/// `CU_STREAM_PER_THREAD` of the driver's header.
const PER_THREAD: usize = 2;

impl CudaDevice {
    /// Opens the GPU of `context`, a `CUcontext`, for work in that context, which calls leave
    /// current on the calling thread. The driver may give a thread at most `registers` registers, 0
    /// as many as it likes.
    ///
    /// # Safety
    /// - `context` is a context of this process, made by `cuCtxCreate` or
    ///   `cuDevicePrimaryCtxRetain`.
    /// - The device and everything made with it (decoders, batches, streams, events) is dropped
    ///   before the context is destroyed, released for the last time or reset.
    pub unsafe fn in_context(context: *mut c_void, registers: u32) -> Result<Self, DecodeError> {
        // Asked before the context is touched; of the GPUs, only the context's own matters.
        check_driver()?;
        // SAFETY: by the caller's promise, the context outlives everything made with it.
        let (context, ordinal) = unsafe { Context::borrowed(context.cast()) }?;
        Self::with(choose(ordinal)?, context, registers)
    }

    /// Opens the GPU of the context that is current on the calling thread.
    ///
    /// # Safety
    /// - Same as for [`in_context`](Self::in_context).
    pub unsafe fn in_current_context(registers: u32) -> Result<Self, DecodeError> {
        check_driver()?;
        let context = Context::current()?;
        // SAFETY: by the caller's promise, the context outlives everything made with it.
        unsafe { Self::in_context(context.cast(), registers) }
    }

    /// Returns the device's context, a `CUcontext`, for other calls of the driver. It is valid as
    /// long as the device lives.
    pub fn raw_context(&self) -> *mut c_void {
        self.context().handle().cast()
    }

    /// Borrows a stream of the caller, a `CUstream` of this device's context, which this never
    /// destroys.
    ///
    /// # Safety
    /// - `stream` is a stream of [`raw_context`](Self::raw_context), or one of the context's
    ///   default streams. The per-thread one (`CU_STREAM_PER_THREAD`) differs from thread to
    ///   thread: use it on one thread only. Decoders refuse it.
    /// - It is not destroyed before this has been dropped, and the decoder that has it.
    /// - It is not captured while a batch is in flight on it.
    pub unsafe fn borrow_stream(&self, stream: *mut c_void) -> CudaStream {
        // SAFETY: a stream of this context that lives long enough, as the caller says.
        unsafe { CudaStream::borrowed(self.context(), stream.cast()) }
    }
}

impl CudaSequence {
    /// Compiles the kernels for one layout, so that the first batch need not wait for it.
    pub fn prepare(&self, layout: Layout) -> Result<(), DecodeError> {
        self.device().compile(self.unit(layout), Kernel::Cluster)
    }
}

impl CudaDecoder {
    /// Creates a decoder on the caller's streams, one batch at a time on each; streams and GPU of
    /// `config` are not used. The order of a stream holds: what the caller puts there before a
    /// batch is done before it, so that a batch by device pointers may be written on that stream
    /// without waiting.
    ///
    /// [`submit`](Self::submit) waits for nothing, once the buffers have grown to what the batches
    /// need. [`collect`](Self::collect), and dropping the decoder with a batch in flight, wait for
    /// everything on the stream.
    ///
    /// # Errors
    /// If there is no stream, one is of another context or the per-thread default stream, or as
    /// [`CudaDecoder::new`].
    pub fn on_streams(
        device: CudaDevice,
        streams: Vec<CudaStream>,
        tables: &DetectorTables,
        options: DecodeOptions,
        config: CudaConfig,
    ) -> Result<Self, DecodeError> {
        if streams
            .iter()
            .any(|stream| stream.raw().addr() == PER_THREAD)
        {
            let message = "each thread has its own per-thread default stream, but a decoder may \
                move to another thread: create a stream for it";
            return Err(failure(message));
        }
        streams
            .iter()
            .try_for_each(|stream| device.check_stream(stream))?;
        Self::on_checked_streams(device, streams, tables, options, config)
    }
}
