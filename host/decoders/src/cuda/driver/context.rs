//! A GPU's context, and memory in it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::sys;

use super::error::{CallError, check};
use super::library;
use super::modules::{Function, Modules};
use crate::ptx::Unit;

/// Contexts in use in this process. Decoders of one GPU share one, and with it the compiled
/// kernels.
static IN_USE: Mutex<Vec<Weak<Context>>> = Mutex::new(Vec::new());

/// A context of a GPU: the caller's, or the primary one, which the CUDA runtime and other libraries
/// use as well, so that their addresses are valid here.
#[derive(Debug)]
pub struct Context {
    handle: sys::CUcontext,
    device: sys::CUdevice,
    is_borrowed: bool,
    modules: Mutex<Modules>,
}

// SAFETY: a context's handle may be used by any thread; `modules` is behind a lock.
unsafe impl Send for Context {}
// SAFETY: CUDA lets several threads use a context in every call made here; `modules` is behind a
// lock.
unsafe impl Sync for Context {}

impl Context {
    pub fn primary(ordinal: usize) -> Result<Arc<Self>, CallError> {
        let action = "open the GPU";
        let device = library::device(action, ordinal)?;
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |context: &Arc<Self>| !context.is_borrowed && context.device == device;
        if let Some(context) = in_use.iter().filter_map(Weak::upgrade).find(is_it) {
            return Ok(context);
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: the device's handle is the driver's; the place for the context is ours.
        check(action, unsafe {
            sys::cuDevicePrimaryCtxRetain(&raw mut handle, device)
        })?;
        Ok(Self::add(
            &mut in_use,
            Self {
                handle,
                device,
                is_borrowed: false,
                modules: Mutex::default(),
            },
        ))
    }

    pub fn current() -> Result<sys::CUcontext, CallError> {
        let action = "find the context that is current";
        let mut current = std::ptr::null_mut();
        // SAFETY: writes one handle, to a place of ours.
        check(action, unsafe { sys::cuCtxGetCurrent(&raw mut current) })?;
        if current.is_null() {
            return Err(CallError::of_message(
                action,
                "this thread has none".to_owned(),
            ));
        }
        Ok(current)
    }

    /// Takes a context of the caller; returns it and the ordinal of its GPU.
    ///
    /// # Safety
    /// - It is a context of this process, and is not destroyed before this is dropped.
    pub unsafe fn borrowed(handle: sys::CUcontext) -> Result<(Arc<Self>, usize), CallError> {
        let action = "use the context";
        let mut device = 0;
        // SAFETY: the context lives, as the caller says.
        check(action, unsafe { sys::cuCtxSetCurrent(handle) })?;
        // SAFETY: writes one handle, to a place of ours.
        check(action, unsafe { sys::cuCtxGetDevice(&raw mut device) })?;
        let is_it =
            |ordinal: &usize| library::device(action, *ordinal).is_ok_and(|found| found == device);
        let unknown = || {
            CallError::of_message(
                action,
                "its GPU is not one that the driver lists".to_owned(),
            )
        };
        let ordinal = (0..library::device_count()?)
            .find(is_it)
            .ok_or_else(unknown)?;
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = in_use
            .iter()
            .filter_map(Weak::upgrade)
            .find(|context| context.handle == handle);
        let new = || {
            Self::add(
                &mut in_use,
                Self {
                    handle,
                    device,
                    is_borrowed: true,
                    modules: Mutex::default(),
                },
            )
        };
        Ok((known.unwrap_or_else(new), ordinal))
    }

    fn add(in_use: &mut Vec<Weak<Self>>, context: Self) -> Arc<Self> {
        in_use.retain(|context| context.strong_count() > 0);
        let context = Arc::new(context);
        in_use.push(Arc::downgrade(&context));
        context
    }

    pub fn make_current(&self) -> Result<(), CallError> {
        let mut current = std::ptr::null_mut();
        let action = "use the GPU";
        // SAFETY: writes one handle, to a place of ours.
        check(action, unsafe { sys::cuCtxGetCurrent(&raw mut current) })?;
        if current == self.handle {
            return Ok(());
        }
        // SAFETY: a context that is retained as long as `self` lives.
        check(action, unsafe { sys::cuCtxSetCurrent(self.handle) })
    }

    pub fn function(
        &self,
        unit: Unit,
        registers: u32,
        entry: &str,
        shared_bytes: u32,
    ) -> Result<Function, CallError> {
        self.make_current()?;
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        modules.function(unit, registers, entry, shared_bytes)
    }

    pub const fn handle(&self) -> sys::CUcontext {
        self.handle
    }

    pub fn free_bytes(&self) -> Result<usize, CallError> {
        self.make_current()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers, to places of ours.
        check("tell how much memory is free", unsafe {
            sys::cuMemGetInfo_v2(&raw mut free, &raw mut total)
        })?;
        Ok(free)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let modules = std::mem::take(
            self.modules
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner),
        );
        if self.make_current().is_ok() {
            // SAFETY: the current context. Whatever launches kernels keeps the context, so that
            // none is in flight.
            unsafe { modules.unload() };
        }
        if !self.is_borrowed {
            // There is no caller to report a failure to.
            // SAFETY: retained once, by `primary`, and released only here.
            let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        }
    }
}

/// Memory of a GPU, freed when dropped.
#[derive(Debug)]
pub struct CudaMemory {
    address: sys::CUdeviceptr,
    context: Arc<Context>,
}

impl CudaMemory {
    /// Allocates at least one byte.
    pub(in super::super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, CallError> {
        context.make_current()?;
        let mut address = 0;
        // SAFETY: writes one address, to a place of ours.
        check("allocate memory", unsafe {
            sys::cuMemAlloc_v2(&raw mut address, bytes)
        })?;
        Ok(Self {
            address,
            context: Arc::clone(context),
        })
    }

    /// Address on the device.
    pub const fn address(&self) -> u64 {
        self.address
    }

    pub(in super::super) fn is_of(&self, context: &Context) -> bool {
        self.context.handle == context.handle
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        if self.context.make_current().is_ok() {
            // There is no caller to report a failure to: the context is lost then, and the memory
            // with it. SAFETY:
            // - Allocated by `new`, in the context that was made current, and freed only here.
            // - Its uses on the device have been waited for: copies and launches ask for that.
            let _ = unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// Pinned memory of the host, freed when dropped.
#[derive(Debug)]
pub struct CudaHost {
    start: *mut u8,
    context: Arc<Context>,
}

// SAFETY: the pointer is to memory that this owns alone, which any thread may free.
unsafe impl Send for CudaHost {}
// SAFETY: nothing can be done with a shared reference but ask for the pointer.
unsafe impl Sync for CudaHost {}

impl CudaHost {
    /// Allocates at least one byte, zeroed.
    pub(in super::super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, CallError> {
        context.make_current()?;
        let mut start = std::ptr::null_mut();
        let bytes = bytes.max(1);
        // Portable: streams of other contexts may copy from it. Not write-combined, as the host
        // reads it. SAFETY: writes one pointer, to a place of ours.
        let code =
            unsafe { sys::cuMemHostAlloc(&raw mut start, bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        check("allocate pinned memory", code)?;
        let start: *mut u8 = start.cast();
        // SAFETY: that many bytes were allocated just now.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self {
            start,
            context: Arc::clone(context),
        })
    }

    /// Address in the host's memory.
    pub const fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for CudaHost {
    fn drop(&mut self) {
        if self.context.make_current().is_ok() {
            // There is no caller to report a failure to: the context is lost then, and the memory
            // with it. SAFETY:
            // - Allocated by `new`, and freed only here.
            // - Copies from and to it have been waited for: copies and launches ask for that.
            let _ = unsafe { sys::cuMemFreeHost(self.start.cast()) };
        }
    }
}
