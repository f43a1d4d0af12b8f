//! For a program that has a CUDA context and streams of its own, such as a trigger framework: a decoder in its context and
//! on its streams, and the handles of the decoder's. Handles are plain pointers, those of the CUDA driver's header, so that
//! they come from C++, from `cudarc` or from elsewhere.
//!
//! A program that uses the CUDA runtime has a GPU's primary context, which is what [`CudaDecoder::new`] uses as well: its
//! device pointers can be given to [`submit_resident`](DeviceDecoder::submit_resident) without any of this.

use std::ffi::c_void;

use super::decoder::{CudaConfig, DeviceDecoder};
use super::driver::{Context, CudaStream};
use super::gpu::CudaDevice;
use super::start::{check_driver, choose};
use super::{CudaDecoder, CudaSequence};
use crate::ptx::Kernel;
use ut_data::detector::DetectorTables;
use ut_data::input::Layout;
use ut_data::{DecodeError, DecodeOptions};

/// `CU_STREAM_PER_THREAD` of the driver's header.
const PER_THREAD: usize = 2;

impl CudaDevice {
    /// The GPU of `context`, a `CUcontext`, for work in that context. Calls leave it current on the calling thread. The
    /// driver may give a thread at most `registers` registers, 0 as many as it likes.
    ///
    /// # Safety
    /// - `context` is a context of this process, made by `cuCtxCreate` or `cuDevicePrimaryCtxRetain`.
    /// - It is not destroyed, released for the last time or reset before the device and everything that was made with it
    ///   (decoders, batches, streams, events) has been dropped.
    pub unsafe fn in_context(context: *mut c_void, registers: u32) -> Result<Self, DecodeError> {
        // The driver is asked before the context is touched; of the GPUs, only the context's own is to be used.
        check_driver()?;
        // SAFETY: a context that lives as long as what is made with it, as the caller says.
        let (context, ordinal) = unsafe { Context::borrowed(context.cast()) }?;
        Self::with(choose(ordinal)?, context, registers)
    }

    /// Creates a device [in the context](Self::in_context) that is current on the calling thread.
    ///
    /// # Safety
    /// - As there.
    pub unsafe fn in_current_context(registers: u32) -> Result<Self, DecodeError> {
        check_driver()?;
        let context = Context::current()?;
        // SAFETY: a context that lives as long as what is made with it, as the caller says.
        unsafe { Self::in_context(context.cast(), registers) }
    }

    /// The device's context, a `CUcontext`, for calls of the driver beside this library. It is valid as long as the device
    /// lives.
    pub fn raw_context(&self) -> *mut c_void {
        self.context().handle().cast()
    }

    /// A stream of the caller, a `CUstream` of this device's context, which is not destroyed when this is dropped.
    ///
    /// # Safety
    /// - `stream` is a stream of [`raw_context`](Self::raw_context), or one of the context's default streams. The per-thread
    ///   one (`CU_STREAM_PER_THREAD`) is another stream on each thread: it is used on one thread only, and not by a decoder,
    ///   which refuses it.
    /// - It is not destroyed before this has been dropped, and the decoder that has it.
    /// - It is not captured while a batch is in flight on it.
    pub unsafe fn borrow_stream(&self, stream: *mut c_void) -> CudaStream {
        // SAFETY: a stream of this context that lives long enough, as the caller says.
        unsafe { CudaStream::borrowed(self.context(), stream.cast()) }
    }
}

impl CudaSequence {
    /// Compiles the kernels for batches of one layout, so that the first of them does not wait for it.
    pub fn prepare(&self, layout: Layout) -> Result<(), DecodeError> {
        self.device().compile(self.unit(layout), Kernel::Fused)
    }
}

impl CudaDecoder {
    /// A decoder on `device` that puts its work on the caller's streams, one batch at a time on each, in place of streams of
    /// its own. What the caller puts on a stream before a batch is done before it, what he puts there afterwards is done
    /// after its kernels and copies: a batch by device pointers may be written on that stream without waiting for it.
    /// `config.streams` and `config.ordinal` are not used.
    ///
    /// [`submit`](Self::submit) waits for nothing, once the buffers have grown to what the batches need;
    /// [`collect`](Self::collect), and dropping the decoder with a batch in flight, wait for the stream, with all that the
    /// caller has put there.
    ///
    /// # Errors
    /// When there is no stream, one is of another context or the per-thread default stream, or as [`CudaDecoder::new`].
    pub fn on_streams(
        device: CudaDevice,
        streams: Vec<CudaStream>,
        tables: &DetectorTables,
        options: DecodeOptions,
        config: CudaConfig,
    ) -> Result<Self, DecodeError> {
        if streams.iter().any(|stream| stream.raw().addr() == PER_THREAD) {
            let message = "the per-thread default stream is another one on each thread, and a decoder may go from one to the \
                           next: create a stream for it";
            return Err(DecodeError::Device { backend: "cuda", message: message.to_owned() });
        }
        DeviceDecoder::with_streams("cuda", device, streams, tables, options, config)
    }
}
