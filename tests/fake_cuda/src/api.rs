//! The driver's functions, as far as they are used here.
#![allow(non_snake_case, reason = "the driver's names")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUevent_flags, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphExec, CUjit_option, CUmemorytype, CUmodule, CUresult, CUstream,
    CUstreamCaptureMode,
};

use crate::driver::{Done, Driver, Function, Module, NAME, call, complain};
use crate::ptx_machine::{Launch, Program};
use crate::stream::{Event, Op, Rows};

/// Contexts are numbered from here, by device.
const CONTEXTS: usize = 0x4000_0000;

/// Multiprocessors of the device that is played.
const MULTIPROCESSORS: i32 = 2;

/// Most dynamic shared memory that a block may ask for.
const MAX_SHARED: i32 = 99 << 10;

thread_local! {
    /// The context that this thread uses.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

const BAD_VALUE: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const BAD_HANDLE: CUresult = CUresult::CUDA_ERROR_INVALID_HANDLE;

/// Writes what a call gives.
///
/// # Safety
/// - `to` is null, or can be written.
unsafe fn give<T>(to: *mut T, value: T) -> Done {
    if to.is_null() {
        return Err(BAD_VALUE);
    }
    // SAFETY: the caller's word.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a string and its end.
///
/// # Safety
/// - `to` has room for `len` characters.
unsafe fn give_text(to: *mut c_char, len: c_int, text: &str) -> Done {
    let len = usize::try_from(len).map_err(|_| BAD_VALUE)?;
    let text = &text.as_bytes()[..text.len().min(len.checked_sub(1).ok_or(BAD_VALUE)?)];
    // SAFETY: shorter than `len`, with the end.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

fn device_of(driver: &Driver, device: CUdevice) -> Done<usize> {
    if !driver.initialised {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    let number = usize::try_from(device).ok().filter(|&number| number < driver.contexts.len());
    number.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

/// The device whose context this thread uses, if it still works.
fn current(driver: &Driver) -> Done<usize> {
    let Some(device) = CURRENT.get() else {
        complain("this thread has no context");
        return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
    };
    driver.check(device)?;
    Ok(device)
}

/// That something of one device is used with the context of that device.
fn same(device: usize, other: usize, what: &str) -> Done {
    if device == other {
        return Ok(());
    }
    complain(&format!("{what} of device {other} used in the context of device {device}"));
    Err(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

/// The stream of a handle, and its device. The default stream is not to be used: it waits for others.
fn stream_of(driver: &Driver, stream: CUstream) -> Done<(usize, usize)> {
    let device = current(driver)?;
    if (stream as usize) < 16 {
        complain("the default stream is used");
        return Err(BAD_HANDLE);
    }
    let owner = driver.streams.get(&(stream as usize)).ok_or(BAD_HANDLE)?.device;
    same(device, owner, "a stream")?;
    Ok((stream as usize, device))
}

fn event_of(driver: &mut Driver, event: CUevent) -> Done<&mut Event> {
    let device = current(driver)?;
    let event = driver.events.get_mut(&(event as usize)).ok_or(BAD_HANDLE)?;
    same(device, event.device, "an event")?;
    Ok(event)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuInit(_flags: c_uint) -> CUresult {
    call("cuInit", |driver| {
        if driver.contexts.is_empty() {
            return Err(CUresult::CUDA_ERROR_NO_DEVICE);
        }
        if !driver.initialised {
            complain("this is no GPU: PTX is interpreted on the CPU, and no time means anything");
        }
        driver.initialised = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    // SAFETY: the caller gives a place.
    call("cuDriverGetVersion", |driver| unsafe { give(version, driver.settings.version) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: CUresult, name: *mut *const c_char) -> CUresult {
    // A few strings, for good: they must outlive the caller.
    let text = CString::new(format!("{error:?}")).unwrap_or_default().into_raw();
    // SAFETY: the caller gives a place.
    call("cuGetErrorName", |_| unsafe { give(name, text.cast_const()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(_error: CUresult, text: *mut *const c_char) -> CUresult {
    // SAFETY: the caller gives a place.
    call("cuGetErrorString", |_| unsafe { give(text, c"said by the fake driver".as_ptr()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    // SAFETY: the caller gives a place.
    call("cuDeviceGetCount", |driver| unsafe { give(count, driver.contexts.len() as c_int) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CUresult {
    call("cuDeviceGet", |driver| {
        device_of(driver, ordinal)?;
        // SAFETY: the caller gives a place.
        unsafe { give(device, ordinal) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) -> CUresult {
    call("cuDeviceGetName", |driver| {
        device_of(driver, device)?;
        // SAFETY: the caller gives room for so many.
        unsafe { give_text(name, len, NAME) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: CUdevice) -> CUresult {
    call("cuDeviceGetUuid", |driver| {
        device_of(driver, device)?;
        // SAFETY: the caller gives a place for 16 bytes.
        unsafe { give(uuid, [0xfa; 16]) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: CUdevice) -> CUresult {
    call("cuDeviceGetPCIBusId", |driver| {
        device_of(driver, device)?;
        // SAFETY: the caller gives room for so many.
        unsafe { give_text(id, len, "FFFF:FF:FF.F") }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) -> CUresult {
    call("cuDeviceTotalMem", |driver| {
        device_of(driver, device)?;
        // SAFETY: the caller gives a place.
        unsafe { give(bytes, driver.settings.memory) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: CUdevice_attribute,
    device: CUdevice,
) -> CUresult {
    use CUdevice_attribute as A;
    call("cuDeviceGetAttribute", |driver| {
        device_of(driver, device)?;
        let found = match attribute {
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => driver.settings.capability.0,
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => driver.settings.capability.1,
            A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => MULTIPROCESSORS,
            A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK => 1024,
            A::CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => MAX_SHARED,
            // Of clocks, buses and caches a fake has none.
            _ => 0,
        };
        // SAFETY: the caller gives a place.
        unsafe { give(value, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> CUresult {
    call("cuDevicePrimaryCtxRetain", |driver| {
        let device = device_of(driver, device)?;
        driver.contexts[device].0 += 1;
        // SAFETY: the caller gives a place.
        unsafe { give(context, (CONTEXTS + device) as CUcontext) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> CUresult {
    call("cuDevicePrimaryCtxRelease", |driver| {
        let device = device_of(driver, device)?;
        let holders = &mut driver.contexts[device].0;
        *holders = holders.checked_sub(1).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        if *holders > 0 {
            return Ok(());
        }
        driver.contexts[device].1 = None;
        let of = |owner: usize| owner == device;
        let left = [
            ("allocations", driver.allocations.values().filter(|(owner, _)| of(*owner)).count()),
            ("pieces of pinned memory", driver.pinned.live()),
            ("streams", driver.streams.values().filter(|stream| of(stream.device)).count()),
            ("events", driver.events.values().filter(|event| of(event.device)).count()),
            ("modules", driver.modules.values().filter(|module| module.live && of(module.device)).count()),
            ("operations under way", driver.under_way(device)),
            ("graphs", driver.graphs.len()),
        ];
        for (what, n) in left.into_iter().filter(|(_, n)| *n > 0) {
            complain(&format!("the context ends with {n} {what}"));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    call("cuCtxSetCurrent", |driver| {
        let device = (context as usize).checked_sub(CONTEXTS).filter(|&device| device < driver.contexts.len());
        if device.is_none() && !context.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        CURRENT.set(device);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut CUcontext) -> CUresult {
    call("cuCtxGetCurrent", |_| {
        let current = CURRENT.get().map_or(std::ptr::null_mut(), |device| (CONTEXTS + device) as CUcontext);
        // SAFETY: the caller gives a place.
        unsafe { give(context, current) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSynchronize() -> CUresult {
    call("cuCtxSynchronize", |driver| {
        let device = current(driver)?;
        let streams: Vec<usize> =
            driver.streams.iter().filter(|(_, s)| s.device == device).map(|(&id, _)| id).collect();
        streams.into_iter().try_for_each(|stream| driver.finish(stream))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    call("cuMemGetInfo", |driver| {
        let device = current(driver)?;
        let memory = driver.settings.memory;
        // SAFETY: the caller gives places.
        unsafe { give(free, memory - driver.used(device)).and_then(|()| give(total, memory)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> CUresult {
    call("cuMemAlloc", |driver| {
        let device = current(driver)?;
        if bytes == 0 {
            return Err(BAD_VALUE);
        }
        if driver.used(device) + bytes > driver.settings.memory {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let found = driver.memory.allocate(bytes);
        driver.allocations.insert(found, (device, bytes));
        // SAFETY: the caller gives a place.
        unsafe { give(address, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    call("cuMemFree", |driver| {
        let device = current(driver)?;
        let (owner, _) = driver.allocations.get(&address).copied().unwrap_or((device, 0));
        same(device, owner, "memory")?;
        driver.memory.free(address).map_err(|what| {
            complain(&format!("{address:#x} given back: {what}"));
            BAD_VALUE
        })?;
        driver.allocations.remove(&address);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(to: *mut *mut c_void, bytes: usize, _flags: c_uint) -> CUresult {
    call("cuMemHostAlloc", |driver| {
        current(driver)?;
        let found = driver.pinned.allocate(bytes).ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        // SAFETY: the caller gives a place.
        unsafe { give(to, found as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(start: *mut c_void) -> CUresult {
    call("cuMemFreeHost", |driver| {
        current(driver)?;
        if driver.pinned.free(start as usize) { Ok(()) } else { Err(BAD_VALUE) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD32Async(at: CUdeviceptr, value: c_uint, words: usize, stream: CUstream) -> CUresult {
    call("cuMemsetD32Async", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        driver.enqueue(stream, Op::Fill { at, words, value })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    call("cuMemcpyHtoDAsync", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        // SAFETY: the caller's word.
        unsafe { driver.copy_in(stream, from as usize, to, Rows::one(bytes)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    call("cuMemcpyDtoHAsync", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        // SAFETY: the caller's word.
        unsafe { driver.copy_out(stream, from, to as usize, Rows::one(bytes)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream) -> CUresult {
    call("cuMemcpy2DAsync", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        // SAFETY: the caller gives a description of a copy.
        let copy = unsafe { &*copy };
        let (n, width) = (copy.Height, copy.WidthInBytes);
        let from_device = copy.srcMemoryType == CUmemorytype::CU_MEMORYTYPE_DEVICE;
        if from_device == (copy.dstMemoryType == CUmemorytype::CU_MEMORYTYPE_DEVICE)
            || (copy.srcXInBytes, copy.srcY, copy.dstXInBytes, copy.dstY) != (0, 0, 0, 0)
            || width > copy.srcPitch.min(copy.dstPitch)
        {
            complain("a copy of a kind that is not played");
            return Err(BAD_VALUE);
        }
        if from_device {
            let rows = Rows { n, width, host: copy.dstPitch, device: copy.srcPitch };
            // SAFETY: the caller's word.
            unsafe { driver.copy_out(stream, copy.srcDevice, copy.dstHost as usize, rows) }
        } else {
            let rows = Rows { n, width, host: copy.srcPitch, device: copy.dstPitch };
            // SAFETY: the caller's word.
            unsafe { driver.copy_in(stream, copy.srcHost as usize, copy.dstDevice, rows) }
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut CUstream, _flags: c_uint) -> CUresult {
    call("cuStreamCreate", |driver| {
        let device = current(driver)?;
        let id = driver.new_stream(device);
        // SAFETY: the caller gives a place.
        unsafe { give(stream, id as CUstream) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    call("cuStreamDestroy", |driver| {
        // What is under way is finished, as the driver does.
        let (stream, _) = stream_of(driver, stream)?;
        let finished = driver.finish(stream);
        driver.streams.remove(&stream);
        finished
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    call("cuStreamSynchronize", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        driver.finish(stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamQuery(stream: CUstream) -> CUresult {
    call("cuStreamQuery", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        if driver.streams[&stream].queue.is_empty() {
            return Ok(());
        }
        // Who asks again and again must come to an end: something is done each time.
        let left = driver.streams[&stream].queue.len();
        driver.run_until(Some(stream), |driver| driver.streams[&stream].queue.len() < left)?;
        Err(CUresult::CUDA_ERROR_NOT_READY)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamWaitEvent(stream: CUstream, event: CUevent, _flags: c_uint) -> CUresult {
    call("cuStreamWaitEvent", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        let n = event_of(driver, event)?.asked;
        driver.enqueue(stream, Op::Wait { event: event as usize, n })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> CUresult {
    call("cuEventCreate", |driver| {
        let device = current(driver)?;
        let id = driver.handle();
        let timing = flags & CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint == 0;
        driver.events.insert(id, Event { device, timing, asked: 0, reached: 0, time: 0 });
        // SAFETY: the caller gives a place.
        unsafe { give(event, id as CUevent) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    call("cuEventDestroy", |driver| driver.events.remove(&(event as usize)).map(|_| ()).ok_or(BAD_HANDLE))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult {
    call("cuEventRecord", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        let found = event_of(driver, event)?;
        found.asked += 1;
        let n = found.asked;
        driver.enqueue(stream, Op::Record { event: event as usize, n })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventSynchronize(event: CUevent) -> CUresult {
    call("cuEventSynchronize", |driver| {
        let n = event_of(driver, event)?.asked;
        let device = current(driver)?;
        let event = event as usize;
        driver.run_until(None, |d| {
            d.contexts[device].1.is_some() || d.events.get(&event).is_none_or(|e| e.reached >= n)
        })?;
        driver.check(device)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventQuery(event: CUevent) -> CUresult {
    call("cuEventQuery", |driver| {
        let found = event_of(driver, event)?;
        if found.reached >= found.asked {
            return Ok(());
        }
        driver.run_ahead();
        Err(CUresult::CUDA_ERROR_NOT_READY)
    })
}

/// Operations between two events, in what would be milliseconds of a GPU.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime_v2(ms: *mut f32, start: CUevent, end: CUevent) -> CUresult {
    call("cuEventElapsedTime", |driver| {
        let mut time = |event| {
            let event = event_of(driver, event)?;
            if !event.timing || event.asked == 0 {
                return Err(BAD_HANDLE);
            }
            if event.reached < event.asked {
                return Err(CUresult::CUDA_ERROR_NOT_READY);
            }
            Ok(event.time)
        };
        let (start, end) = (time(start)?, time(end)?);
        // SAFETY: the caller gives a place.
        unsafe { give(ms, end.saturating_sub(start) as f32) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult {
    // SAFETY: the caller's word; no options.
    unsafe { cuModuleLoadDataEx(module, image, 0, std::ptr::null_mut(), std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    n_options: c_uint,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
) -> CUresult {
    call("cuModuleLoadDataEx", |driver| {
        let device = current(driver)?;
        for i in 0..n_options as usize {
            // SAFETY: the caller gives so many options and values.
            let (option, value) = unsafe { (*options.add(i), *values.add(i)) };
            if option == CUjit_option::CU_JIT_MAX_REGISTERS {
                complain(&format!("note: compiled for at most {} registers a thread", value as usize));
            }
        }
        // SAFETY: the caller gives a text with its end.
        let text = unsafe { CStr::from_ptr(image.cast()) };
        let text = text.to_str().map_err(|_| CUresult::CUDA_ERROR_INVALID_IMAGE)?;
        if !text.contains(".visible .entry ") {
            return Err(CUresult::CUDA_ERROR_INVALID_PTX);
        }
        let program = std::panic::catch_unwind(|| Program::new(text)).map_err(|_| CUresult::CUDA_ERROR_INVALID_PTX)?;
        let id = driver.handle();
        driver.modules.insert(id, Module { device, program: Arc::new(program), live: true });
        // SAFETY: the caller gives a place.
        unsafe { give(module, id as CUmodule) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: CUmodule) -> CUresult {
    call("cuModuleUnload", |driver| {
        current(driver)?;
        let module = driver.modules.get_mut(&(module as usize)).filter(|module| module.live).ok_or(BAD_HANDLE)?;
        module.live = false;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> CUresult {
    call("cuModuleGetFunction", |driver| {
        let module = module as usize;
        let found = driver.modules.get(&module).filter(|module| module.live).ok_or(BAD_HANDLE)?;
        // SAFETY: the caller gives a text with its end.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        if found.program.parameters(&name).is_none() {
            return Err(CUresult::CUDA_ERROR_NOT_FOUND);
        }
        let id = driver.handle();
        driver.functions.insert(id, Function { module, entry: name, max_shared: 48 << 10 });
        // SAFETY: the caller gives a place.
        unsafe { give(function, id as CUfunction) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: CUfunction_attribute,
    function: CUfunction,
) -> CUresult {
    call("cuFuncGetAttribute", |driver| {
        let function = driver.functions.get(&(function as usize)).ok_or(BAD_HANDLE)?;
        let found = match attribute {
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => 1024,
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => function.max_shared as c_int,
            // Nothing is assembled: there are no registers.
            _ => 0,
        };
        // SAFETY: the caller gives a place.
        unsafe { give(value, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncSetAttribute(
    function: CUfunction,
    attribute: CUfunction_attribute,
    value: c_int,
) -> CUresult {
    call("cuFuncSetAttribute", |driver| {
        let function = driver.functions.get_mut(&(function as usize)).ok_or(BAD_HANDLE)?;
        if attribute == CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES {
            let bytes = u32::try_from(value).ok().filter(|_| value <= MAX_SHARED);
            function.max_shared = bytes.ok_or(BAD_VALUE)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetParamInfo(
    function: CUfunction,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> CUresult {
    call("cuFuncGetParamInfo", |driver| {
        let function = driver.functions.get(&(function as usize)).ok_or(BAD_HANDLE)?;
        let program = &driver.modules[&function.module].program;
        let sizes = program.parameters(&function.entry).ok_or(BAD_HANDLE)?;
        let Some(&found) = sizes.get(index) else { return Err(BAD_VALUE) };
        let before = sizes[..index].iter().map(|size| size.next_multiple_of(8)).sum();
        // SAFETY: the caller gives places.
        unsafe { give(offset, before).and_then(|()| give(size, found)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    call("cuLaunchKernel", |driver| {
        let (stream, device) = stream_of(driver, stream)?;
        let function = driver.functions.get(&(function as usize)).ok_or(BAD_HANDLE)?;
        let module = driver.modules.get(&function.module).filter(|module| module.live).ok_or(BAD_HANDLE)?;
        same(device, module.device, "a kernel")?;
        let threads = u64::from(block_x) * u64::from(block_y) * u64::from(block_z);
        if (grid_y, grid_z, block_z) != (1, 1, 1) || grid_x == 0 || threads == 0 || !extra.is_null() {
            complain(&format!("{}: a launch of a kind that is not played", function.entry));
            return Err(BAD_VALUE);
        }
        if threads > 1024 || shared_bytes > function.max_shared {
            complain(&format!("{}: {threads} threads, {shared_bytes} bytes of shared memory", function.entry));
            return Err(BAD_VALUE);
        }
        let sizes = module.program.parameters(&function.entry).ok_or(BAD_HANDLE)?;
        let argument = |(i, &size): (usize, &usize)| {
            // SAFETY: the caller gives as many pointers as the kernel has parameters, each to one.
            unsafe { crate::host::read(*parameters.add(i) as usize, size) }
        };
        let op = Op::Launch {
            program: Arc::clone(&module.program),
            entry: function.entry.clone(),
            launch: Launch { grid: grid_x, block: (block_x, block_y), shared_bytes, turn: 0, counts: false },
            arguments: sizes.iter().enumerate().map(argument).collect(),
        };
        driver.enqueue(stream, op)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamBeginCapture_v2(stream: CUstream, _mode: CUstreamCaptureMode) -> CUresult {
    call("cuStreamBeginCapture", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        let stream = driver.streams.get_mut(&stream).ok_or(BAD_HANDLE)?;
        if stream.capture.replace(Vec::new()).is_some() {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> CUresult {
    call("cuStreamEndCapture", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        let captured = driver.streams.get_mut(&stream).and_then(|stream| stream.capture.take());
        let captured = captured.ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        let id = driver.handle();
        driver.graphs.insert(id, captured);
        // SAFETY: the caller gives a place.
        unsafe { give(graph, id as CUgraph) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut CUgraphExec,
    graph: CUgraph,
    _flags: c_ulonglong,
) -> CUresult {
    call("cuGraphInstantiate", |driver| {
        let ops = driver.graphs.get(&(graph as usize)).ok_or(BAD_HANDLE)?.clone();
        let id = driver.handle();
        driver.graphs.insert(id, ops);
        // SAFETY: the caller gives a place.
        unsafe { give(executable, id as CUgraphExec) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream) -> CUresult {
    call("cuGraphLaunch", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        let ops = driver.graphs.get(&(executable as usize)).ok_or(BAD_HANDLE)?.clone();
        ops.into_iter().try_for_each(|op| driver.enqueue(stream, op))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphDestroy(graph: CUgraph) -> CUresult {
    call("cuGraphDestroy", |driver| driver.graphs.remove(&(graph as usize)).map(|_| ()).ok_or(BAD_HANDLE))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecDestroy(executable: CUgraphExec) -> CUresult {
    call("cuGraphExecDestroy", |driver| driver.graphs.remove(&(executable as usize)).map(|_| ()).ok_or(BAD_HANDLE))
}
