//! The functions of the driver that this project uses.
#![allow(non_snake_case, reason = "the driver's names")]

mod memory;
mod module;
mod stream;

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::mem::MaybeUninit;

use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute, CUevent, CUresult, CUstream};

use crate::driver::{Done, Driver, NAME, call, complain};
use crate::stream::{Event, Stream};

/// Handle of the first device's context; further devices have the next numbers.
const CONTEXTS: usize = 0x4000_0000;

/// Number of multiprocessors of the simulated device.
const MULTIPROCESSORS: i32 = 2;

/// Maximum size of a block's dynamic shared memory in bytes.
const MAX_SHARED: i32 = 99 << 10;

thread_local! {
    /// Context that this thread uses.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

const BAD_VALUE: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const BAD_HANDLE: CUresult = CUresult::CUDA_ERROR_INVALID_HANDLE;

/// Output parameter of a call: null, or a pointer that can be written by the contract of the
/// driver.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Writes an output parameter; an error if it is null.
fn give<T>(to: Out<'_, T>, value: T) -> Done {
    to.ok_or(BAD_VALUE)?.write(value);
    Ok(())
}

/// Writes a string and its terminating zero.
///
/// # Safety
/// - `to` has room for `len` characters.
unsafe fn give_text(to: *mut c_char, len: c_int, text: &str) -> Done {
    let len = usize::try_from(len).map_err(|_| BAD_VALUE)?;
    let text = &text.as_bytes()[..text.len().min(len.checked_sub(1).ok_or(BAD_VALUE)?)];
    // SAFETY: with the terminating zero, the text has at most `len` bytes.
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
    let number = usize::try_from(device)
        .ok()
        .filter(|&number| number < driver.contexts.len());
    number.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

/// Returns the device whose context this thread uses, if it still works.
fn current(driver: &Driver) -> Done<usize> {
    let Some(device) = CURRENT.get() else {
        complain("this thread has no context");
        return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
    };
    driver.check(device)?;
    Ok(device)
}

/// Checks that an object of one device is used with the context of the same device.
fn same(device: usize, other: usize, what: &str) -> Done {
    if device == other {
        return Ok(());
    }
    complain(&format!(
        "{what} of device {other} used in the context of device {device}"
    ));
    Err(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

/// Handles below this are default streams.
const FIRST_HANDLE: usize = 16;

/// Returns the stream with a handle, and its device. NULL is one more stream, which neither waits
/// for the others nor they for it. Other default streams must not be used.
fn stream_of(driver: &mut Driver, stream: CUstream) -> Done<(usize, usize)> {
    let device = current(driver)?;
    if stream.is_null() {
        driver
            .streams
            .entry(device + 1)
            .or_insert_with(|| Stream::of(device));
        return Ok((device + 1, device));
    }
    if (stream as usize) < FIRST_HANDLE {
        complain("a default stream of a thread is used");
        return Err(BAD_HANDLE);
    }
    let owner = driver
        .streams
        .get(&(stream as usize))
        .ok_or(BAD_HANDLE)?
        .device;
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
            complain(
                "this is not a GPU: PTX is interpreted on the CPU, and no time means anything",
            );
        }
        driver.initialised = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: Out<'_, c_int>) -> CUresult {
    call("cuDriverGetVersion", |driver| {
        give(version, driver.settings.version)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: CUresult, name: Out<'_, *const c_char>) -> CUresult {
    // The caller may keep the string for good, so it is never freed; there are only a few.
    let text = CString::new(format!("{error:?}"))
        .unwrap_or_default()
        .into_raw();
    call("cuGetErrorName", |_| give(name, text.cast_const()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(_error: CUresult, text: Out<'_, *const c_char>) -> CUresult {
    call("cuGetErrorString", |_| {
        give(text, c"said by the fake driver".as_ptr())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: Out<'_, c_int>) -> CUresult {
    call("cuDeviceGetCount", |driver| {
        give(count, driver.contexts.len() as c_int)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: Out<'_, CUdevice>, ordinal: c_int) -> CUresult {
    call("cuDeviceGet", |driver| {
        device_of(driver, ordinal)?;
        give(device, ordinal)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) -> CUresult {
    call("cuDeviceGetName", |driver| {
        device_of(driver, device)?;
        // SAFETY: CUDA's contract: `len` characters can be written at `name`.
        unsafe { give_text(name, len, NAME) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: Out<'_, [u8; 16]>, device: CUdevice) -> CUresult {
    call("cuDeviceGetUuid", |driver| {
        device_of(driver, device)?;
        give(uuid, [0xfa; 16])
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(
    id: *mut c_char,
    len: c_int,
    device: CUdevice,
) -> CUresult {
    call("cuDeviceGetPCIBusId", |driver| {
        device_of(driver, device)?;
        // SAFETY: CUDA's contract: `len` characters can be written at `id`.
        unsafe { give_text(id, len, "FFFF:FF:FF.F") }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, device: CUdevice) -> CUresult {
    call("cuDeviceTotalMem", |driver| {
        device_of(driver, device)?;
        give(bytes, driver.settings.memory)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(
    value: Out<'_, c_int>,
    attribute: CUdevice_attribute,
    device: CUdevice,
) -> CUresult {
    use CUdevice_attribute as A;
    call("cuDeviceGetAttribute", |driver| {
        let device = device_of(driver, device)?;
        let found = match attribute {
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => driver.settings.capability(device).0,
            A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => driver.settings.capability(device).1,
            A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => MULTIPROCESSORS,
            A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK => 1024,
            A::CU_DEVICE_ATTRIBUTE_WARP_SIZE
            | A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR => 32,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => MAX_SHARED,
            A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE | A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE => {
                driver.settings.clock
            }
            A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH if driver.settings.clock > 0 => 384,
            // As on a GPU with compute capability 8.0, the default.
            A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR => 2048,
            A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => 164 << 10,
            // The fake has no caches, nor anything else that is not listed.
            _ => 0,
        };
        give(value, found)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(
    context: Out<'_, CUcontext>,
    device: CUdevice,
) -> CUresult {
    call("cuDevicePrimaryCtxRetain", |driver| {
        let device = device_of(driver, device)?;
        driver.contexts[device].0 += 1;
        give(context, (CONTEXTS + device) as CUcontext)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> CUresult {
    call("cuDevicePrimaryCtxRelease", |driver| {
        let device = device_of(driver, device)?;
        let holders = &mut driver.contexts[device].0;
        *holders = holders
            .checked_sub(1)
            .ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        if *holders > 0 {
            return Ok(());
        }
        driver.contexts[device].1 = None;
        let of = |owner: usize| owner == device;
        let left = [
            (
                "allocations",
                driver
                    .allocations
                    .values()
                    .filter(|(owner, _)| of(*owner))
                    .count(),
            ),
            ("pieces of pinned memory", driver.pinned.live()),
            (
                "streams",
                driver
                    .streams
                    .iter()
                    .filter(|(id, stream)| **id >= FIRST_HANDLE && of(stream.device))
                    .count(),
            ),
            (
                "events",
                driver
                    .events
                    .values()
                    .filter(|event| of(event.device))
                    .count(),
            ),
            (
                "modules",
                driver
                    .modules
                    .values()
                    .filter(|module| module.live && of(module.device))
                    .count(),
            ),
            ("operations in flight", driver.in_flight(device)),
        ];
        for (what, n) in left.into_iter().filter(|(_, n)| *n > 0) {
            complain(&format!("the context ends with {n} {what}"));
        }
        let before = driver.before.unwrap_or(driver.counts);
        complain(&format!(
            "note: the context ends after {}; before the first launch {before}",
            driver.counts
        ));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    call("cuCtxSetCurrent", |driver| {
        let device = (context as usize)
            .checked_sub(CONTEXTS)
            .filter(|&device| device < driver.contexts.len());
        if device.is_none() && !context.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        CURRENT.set(device);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: Out<'_, CUcontext>) -> CUresult {
    call("cuCtxGetCurrent", |_| {
        let current = CURRENT.get().map_or(std::ptr::null_mut(), |device| {
            (CONTEXTS + device) as CUcontext
        });
        give(context, current)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetDevice(device: Out<'_, CUdevice>) -> CUresult {
    call("cuCtxGetDevice", |driver| {
        let current = current(driver)? as CUdevice;
        give(device, current)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSynchronize() -> CUresult {
    call("cuCtxSynchronize", |driver| {
        let device = current(driver)?;
        let streams: Vec<usize> = driver
            .streams
            .iter()
            .filter(|(_, s)| s.device == device)
            .map(|(&id, _)| id)
            .collect();
        streams
            .into_iter()
            .try_for_each(|stream| driver.finish(stream))
    })
}
