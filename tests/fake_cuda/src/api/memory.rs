//! Memory of the device and of the host, and copies.

use std::ffi::{c_uint, c_void};

use cudarc::driver::sys::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype, CUresult, CUstream};

use super::{BAD_VALUE, Out, current, give, same, stream_of};
use crate::driver::{call, complain};
use crate::stream::{Op, Rows};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) -> CUresult {
    call("cuMemGetInfo", |driver| {
        let device = current(driver)?;
        let memory = driver.settings.memory;
        give(free, memory - driver.used(device)).and_then(|()| give(total, memory))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: Out<'_, CUdeviceptr>, bytes: usize) -> CUresult {
    call("cuMemAlloc", |driver| {
        let device = current(driver)?;
        if bytes == 0 {
            return Err(BAD_VALUE);
        }
        if driver.used(device) + bytes > driver.settings.memory {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        driver.counts.allocations += 1;
        let found = driver.memory.allocate(bytes);
        driver.allocations.insert(found, (device, bytes));
        give(address, found)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    call("cuMemFree", |driver| {
        let device = current(driver)?;
        let (owner, _) = driver
            .allocations
            .get(&address)
            .copied()
            .unwrap_or((device, 0));
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
unsafe extern "C" fn cuMemHostAlloc(
    to: Out<'_, *mut c_void>,
    bytes: usize,
    _flags: c_uint,
) -> CUresult {
    call("cuMemHostAlloc", |driver| {
        current(driver)?;
        driver.counts.pinned += 1;
        let found = driver
            .pinned
            .allocate(bytes)
            .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        give(to, found as *mut c_void)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(start: *mut c_void) -> CUresult {
    call("cuMemFreeHost", |driver| {
        current(driver)?;
        if driver.pinned.free(start as usize) {
            Ok(())
        } else {
            Err(BAD_VALUE)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD32Async(
    at: CUdeviceptr,
    value: c_uint,
    words: usize,
    stream: CUstream,
) -> CUresult {
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
        // SAFETY: CUDA's contract: `bytes` bytes can be read at `from`.
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
        // SAFETY: CUDA's contract: `bytes` bytes can be written at `to`.
        unsafe { driver.copy_out(stream, from, to as usize, Rows::one(bytes)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpy2DAsync_v2(
    copy: Option<&CUDA_MEMCPY2D>,
    stream: CUstream,
) -> CUresult {
    call("cuMemcpy2DAsync", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        let copy = copy.ok_or(BAD_VALUE)?;
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
            let rows = Rows {
                n,
                width,
                host: copy.dstPitch,
                device: copy.srcPitch,
            };
            // SAFETY: CUDA's contract: the rows can be written on the host.
            unsafe { driver.copy_out(stream, copy.srcDevice, copy.dstHost as usize, rows) }
        } else {
            let rows = Rows {
                n,
                width,
                host: copy.srcPitch,
                device: copy.dstPitch,
            };
            // SAFETY: CUDA's contract: the rows can be read on the host.
            unsafe { driver.copy_in(stream, copy.srcHost as usize, copy.dstDevice, rows) }
        }
    })
}
