//! Streams and events.

use std::ffi::c_uint;

use cudarc::driver::sys::{
    CUevent, CUevent_flags, CUgraph, CUresult, CUstream, CUstreamCaptureMode,
};

use super::{BAD_HANDLE, Out, current, event_of, give, stream_of};
use crate::driver::call;
use crate::stream::{Event, Op};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: Out<'_, CUstream>, _flags: c_uint) -> CUresult {
    call("cuStreamCreate", |driver| {
        let device = current(driver)?;
        let id = driver.new_stream(device);
        give(stream, id as CUstream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    call("cuStreamDestroy", |driver| {
        // As with the real driver, operations in flight are still executed.
        let (stream, _) = stream_of(driver, stream)?;
        driver.not_captured(stream, "is given back")?;
        let finished = driver.finish(stream);
        driver.streams.remove(&stream);
        finished
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    call("cuStreamSynchronize", |driver| {
        driver.counts.waits += 1;
        let (stream, _) = stream_of(driver, stream)?;
        driver.not_captured(stream, "is waited for")?;
        driver.finish(stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamQuery(stream: CUstream) -> CUresult {
    call("cuStreamQuery", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        driver.not_captured(stream, "is asked whether it is done")?;
        if driver.streams[&stream].queue.is_empty() {
            return Ok(());
        }
        // Each query executes an operation, so that a caller that polls comes to an end.
        let left = driver.streams[&stream].queue.len();
        driver.run_until(Some(stream), |driver| {
            driver.streams[&stream].queue.len() < left
        })?;
        Err(CUresult::CUDA_ERROR_NOT_READY)
    })
}

/// Begins a capture. Nothing is recorded: a captured stream is only one that cannot be used.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamBeginCapture_v2(
    stream: CUstream,
    _mode: CUstreamCaptureMode,
) -> CUresult {
    call("cuStreamBeginCapture", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        driver
            .streams
            .get_mut(&stream)
            .ok_or(BAD_HANDLE)?
            .is_captured = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: CUstream, _graph: *mut CUgraph) -> CUresult {
    call("cuStreamEndCapture", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        driver
            .streams
            .get_mut(&stream)
            .ok_or(BAD_HANDLE)?
            .is_captured = false;
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: Out<'_, CUevent>, flags: c_uint) -> CUresult {
    call("cuEventCreate", |driver| {
        let device = current(driver)?;
        let id = driver.handle();
        let timing = flags & CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint == 0;
        driver.events.insert(
            id,
            Event {
                device,
                timing,
                asked: 0,
                reached: 0,
                time: 0,
            },
        );
        give(event, id as CUevent)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    call("cuEventDestroy", |driver| {
        driver
            .events
            .remove(&(event as usize))
            .map(|_| ())
            .ok_or(BAD_HANDLE)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult {
    call("cuEventRecord", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        let found = event_of(driver, event)?;
        found.asked += 1;
        let n = found.asked;
        driver.enqueue(
            stream,
            Op::Record {
                event: event as usize,
                n,
            },
        )
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

/// Writes the number of operations between two events, where a GPU gives milliseconds.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(
    ms: Out<'_, f32>,
    start: CUevent,
    end: CUevent,
) -> CUresult {
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
        give(ms, end.saturating_sub(start) as f32)
    })
}
