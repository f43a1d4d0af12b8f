//! Streams, the work put on them, and events.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{self, CUevent_flags, CUmemorytype, CUstream_flags};

use super::context::Context;
use super::error::{CallError, check};
use super::modules::Handle;
use crate::cuda::device::CopyRows;
use crate::plan::Shape;
use ut_data::DecodeError;

/// Maximum pitch of a copy in bytes, on every device.
const MAX_PITCH: usize = i32::MAX as usize;

/// A stream of a GPU; unless borrowed, finished and destroyed when dropped.
#[derive(Debug)]
pub struct CudaStream {
    handle: sys::CUstream,
    is_borrowed: bool,
    context: Arc<Context>,
}

// SAFETY: a stream's handle may be used by any thread, and by several at the same time.
unsafe impl Send for CudaStream {}
// SAFETY: a stream's handle may be used by any thread, and by several at the same time.
unsafe impl Sync for CudaStream {}

impl CudaStream {
    pub(in super::super) fn new(context: &Arc<Context>) -> Result<Self, CallError> {
        context.make_current()?;
        let mut handle = std::ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle, to a place of ours.
        check("make a stream", unsafe {
            sys::cuStreamCreate(&raw mut handle, flags)
        })?;
        Ok(Self {
            handle,
            is_borrowed: false,
            context: Arc::clone(context),
        })
    }

    /// Borrows a stream, which this does not destroy.
    ///
    /// # Safety
    /// - It is a stream of the context, and is not destroyed before this is dropped.
    pub(in super::super) unsafe fn borrowed(context: &Arc<Context>, handle: sys::CUstream) -> Self {
        Self {
            handle,
            is_borrowed: true,
            context: Arc::clone(context),
        }
    }

    /// Returns the driver's handle, a `CUstream`, for other calls of the driver. It is valid as
    /// long as `self` lives.
    pub const fn raw(&self) -> *mut c_void {
        self.handle.cast()
    }

    pub(in super::super) fn is_of(&self, context: &Context) -> bool {
        self.context.handle() == context.handle()
    }

    /// Copies to the device, whose context is [current](crate::cuda::CudaDevice::begin).
    ///
    /// # Safety
    /// - `from` begins `bytes` bytes of pinned memory, which live and are not written until the
    ///   stream has done this.
    /// - The device's memory has room for them at `to`, in the stream's context, until then.
    pub unsafe fn write(&self, to: u64, from: *const u8, bytes: usize) -> Result<(), DecodeError> {
        // SAFETY: both sides are there until the stream has done this, as the caller says; the
        // stream lives.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, self.handle) };
        Ok(check("copy to the GPU", code)?)
    }

    /// Sets words of the device to 0.
    ///
    /// # Safety
    /// - `at` is a multiple of 4; that many words are there, in the stream's context, until the
    ///   stream has done this.
    pub unsafe fn zero(&self, at: u64, words: usize) -> Result<(), DecodeError> {
        // SAFETY: the words are there until the stream has done this, as the caller says; the
        // stream lives.
        let code = unsafe { sys::cuMemsetD32Async(at, 0, words, self.handle) };
        Ok(check("clear memory", code)?)
    }

    /// Copies from the device.
    ///
    /// # Safety
    /// - The rows are there on the device, in the stream's context, until the stream has done this.
    /// - There is room for them in the host's memory at `to`, which is not read or written until
    ///   then.
    pub unsafe fn read(&self, from: u64, to: *mut u8, rows: CopyRows) -> Result<(), DecodeError> {
        let action = "copy from the GPU";
        if rows.bytes() == 0 {
            return Ok(());
        }
        if rows.n > 1 && rows.device.max(rows.host) <= MAX_PITCH {
            let copy = sys::CUDA_MEMCPY2D {
                srcXInBytes: 0,
                srcY: 0,
                srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                srcHost: std::ptr::null(),
                srcDevice: from,
                srcArray: std::ptr::null_mut(),
                srcPitch: rows.device,
                dstXInBytes: 0,
                dstY: 0,
                dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
                dstHost: to.cast(),
                dstDevice: 0,
                dstArray: std::ptr::null_mut(),
                dstPitch: rows.host,
                WidthInBytes: rows.width,
                Height: rows.n,
            };
            // SAFETY: both sides stay until then, as the caller says; the driver copies the
            // description at once.
            let code = unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, self.handle) };
            return Ok(check(action, code)?);
        }
        (0..rows.n).try_for_each(|row| {
            let from = from + (row * rows.device) as u64;
            // SAFETY: the row is within the room that the caller gives.
            let to = unsafe { to.add(row * rows.host) };
            // SAFETY: both sides are there until the stream has done this, as the caller says.
            let code =
                unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, rows.width, self.handle) };
            Ok(check(action, code)?)
        })
    }

    /// Launches an entry.
    ///
    /// # Safety
    /// - `pointers` are as many as the function's parameters, each to a value of the parameter's
    ///   size.
    /// - The kernel's requirements on its arguments hold until the stream has done this.
    pub(in super::super) unsafe fn launch(
        &self,
        function: Handle,
        shape: Shape,
        pointers: &mut [*mut c_void],
    ) -> Result<(), CallError> {
        let (x, y) = shape.block;
        // SAFETY:
        // - The driver copies the values at once; they are what the entry takes, and the kernel's
        //   demands hold: both are required of the caller.
        // - The function's module is loaded: its context, which launches it, lives.
        let code = unsafe {
            sys::cuLaunchKernel(
                function.0,
                shape.grid,
                1,
                1,
                x,
                y,
                1,
                shape.shared_bytes,
                self.handle,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        check("launch a kernel", code)
    }

    pub(in super::super) fn record(&self) -> Result<CudaEvent, CallError> {
        self.context.make_current()?;
        let action = "record an event";
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle, to a place of ours.
        check(action, unsafe {
            sys::cuEventCreate(&raw mut handle, CUevent_flags::CU_EVENT_DEFAULT as u32)
        })?;
        let event = CudaEvent {
            handle,
            context: Arc::clone(&self.context),
        };
        // SAFETY: event and stream live, and are of one context.
        check(action, unsafe {
            sys::cuEventRecord(event.handle, self.handle)
        })?;
        Ok(event)
    }

    /// Waits for everything on the stream.
    ///
    /// # Errors
    /// Anything that went wrong since the last call. Work on the stream may then still go on.
    pub fn synchronize(&self) -> Result<(), DecodeError> {
        self.context.make_current()?;
        // SAFETY: the stream lives.
        let code = unsafe { sys::cuStreamSynchronize(self.handle) };
        Ok(check("run the kernels", code)?)
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if !self.is_borrowed && self.context.make_current().is_ok() {
            // There is no caller to report a failure to.
            // SAFETY: made by `new`, and destroyed only here. The driver finishes the work on it.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.handle) };
        }
    }
}

/// A point in a stream.
#[derive(Debug)]
pub struct CudaEvent {
    handle: sys::CUevent,
    context: Arc<Context>,
}

// SAFETY: an event's handle may be used by any thread.
unsafe impl Send for CudaEvent {}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if self.context.make_current().is_ok() {
            // There is no caller to report a failure to. SAFETY: made by `record`, and destroyed
            // only here. The driver keeps it until the stream has passed it.
            let _ = unsafe { sys::cuEventDestroy_v2(self.handle) };
        }
    }
}

impl CudaEvent {
    /// Milliseconds from this event to `end`; waits for both.
    pub(in super::super) fn elapsed_ms(&self, end: &Self) -> Result<f32, CallError> {
        let action = "tell how long something took";
        self.context.make_current()?;
        for event in [self, end] {
            // SAFETY: the event lives.
            check(action, unsafe { sys::cuEventSynchronize(event.handle) })?;
        }
        let missing =
            || CallError::of_message(action, "libcuda has no cuEventElapsedTime".to_owned());
        let elapsed_time = elapsed_time().ok_or_else(missing)?;
        let mut ms = 0.0;
        // SAFETY: the events live, and were recorded when they were made; the place is ours.
        check(action, unsafe {
            elapsed_time(&raw mut ms, self.handle, end.handle)
        })?;
        Ok(ms)
    }
}

type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;

/// Finds `cuEventElapsedTime`, which every driver has. The bindings know only its successor, new in
/// CUDA 12.8.
fn elapsed_time() -> Option<ElapsedTime> {
    static FOUND: OnceLock<Option<ElapsedTime>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: there are events, so that the library is there; it is never closed.
        let library = unsafe { sys::culib() };
        // SAFETY: the function's type is the one of the driver's header.
        unsafe { library.get::<ElapsedTime>(b"cuEventElapsedTime\0") }
            .ok()
            .map(|symbol| *symbol)
    })
}
