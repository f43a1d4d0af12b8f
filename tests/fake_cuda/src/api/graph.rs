//! Graphs: what is put on a stream while it is captured is not done, but each time that the graph is launched.

use std::ffi::{c_uint, c_ulonglong};

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUresult, CUstream,
    CUstreamCaptureMode, CUstreamCaptureStatus, cuuint64_t,
};

use super::module::kernel;
use super::{BAD_HANDLE, BAD_VALUE, Out, current, give, same, stream_of};
use crate::driver::{call, complain};
use crate::stream::{Capture, Executable, Graph, Op};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) -> CUresult {
    call("cuStreamBeginCapture", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        let stream = driver.streams.get_mut(&stream).ok_or(BAD_HANDLE)?;
        if stream.capture.is_some() {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        }
        stream.capture = Some(Capture::new(mode));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: CUstream, graph: Out<'_, CUgraph>) -> CUresult {
    call("cuStreamEndCapture", |driver| {
        let (stream, device) = stream_of(driver, stream)?;
        let stream = driver.streams.get_mut(&stream).ok_or(BAD_HANDLE)?;
        let Some(capture) = stream.capture.take() else { return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE) };
        if !capture.may_be_ended_here() {
            stream.capture = Some(capture);
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        }
        let graph = graph.ok_or(BAD_VALUE)?;
        graph.write(std::ptr::null_mut());
        if capture.invalid {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        let id = driver.handle();
        driver.graphs.insert(id, Graph { device, ops: capture.ops, nodes: capture.nodes });
        graph.write(id as CUgraph);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCaptureInfo_v3(
    stream: CUstream,
    status: Out<'_, CUstreamCaptureStatus>,
    id: *mut cuuint64_t,
    graph: *mut CUgraph,
    dependencies: Out<'_, *const CUgraphNode>,
    edges: *mut *const CUgraphEdgeData,
    n: Out<'_, usize>,
) -> CUresult {
    call("cuStreamGetCaptureInfo", |driver| {
        let (stream, _) = stream_of(driver, stream)?;
        if [id.is_null(), graph.is_null(), edges.is_null()] != [true; 3] {
            complain("information of a kind that is not played");
            return Err(BAD_VALUE);
        }
        let stream = driver.streams.get(&stream).ok_or(BAD_HANDLE)?;
        let Some(capture) = &stream.capture else {
            return give(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
        };
        if capture.invalid {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        // One stream: each node depends on the one before.
        let last = &capture.nodes[capture.nodes.len().saturating_sub(1)..];
        give(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE)?;
        give(dependencies, last.as_ptr().cast())?;
        give(n, last.len())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: Out<'_, CUgraphExec>,
    graph: CUgraph,
    _flags: c_ulonglong,
) -> CUresult {
    call("cuGraphInstantiate", |driver| {
        let of = current(driver)?;
        let Graph { device, ops, .. } = driver.graphs.get(&(graph as usize)).ok_or(BAD_HANDLE)?;
        same(of, *device, "a graph")?;
        let new = Executable { device: *device, graph: graph as usize, ops: ops.clone() };
        let id = driver.handle();
        driver.executables.insert(id, new);
        give(executable, id as CUgraphExec)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecKernelNodeSetParams_v2(
    executable: CUgraphExec,
    node: CUgraphNode,
    parameters: Option<&CUDA_KERNEL_NODE_PARAMS>,
) -> CUresult {
    call("cuGraphExecKernelNodeSetParams", |driver| {
        let device = current(driver)?;
        let Executable { graph, .. } = driver.executables.get(&(executable as usize)).ok_or(BAD_HANDLE)?;
        let Some(graph) = driver.graphs.get(graph) else {
            complain("a node of a graph that was given back");
            return Err(BAD_HANDLE);
        };
        same(device, graph.device, "a graph")?;
        let place = graph.nodes.iter().position(|found| *found == node as usize).ok_or(BAD_VALUE)?;
        let p = parameters.ok_or(BAD_VALUE)?;
        if !p.kern.is_null() || !p.ctx.is_null() {
            complain("a launch of a kind that is not played");
            return Err(BAD_VALUE);
        }
        let shape: [c_uint; 6] = [p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ];
        // SAFETY: the description's parameters are as many as the kernel has, as CUDA asks of a caller.
        let op = unsafe { kernel(driver, device, p.func, shape, p.sharedMemBytes, p.kernelParams, p.extra) }?;
        let ops = &mut driver.executables.get_mut(&(executable as usize)).ok_or(BAD_HANDLE)?.ops;
        if !matches!(ops[place], Op::Launch { .. }) {
            complain("arguments for a node that is not a kernel");
            return Err(BAD_VALUE);
        }
        // What was launched before keeps its own.
        ops[place] = op;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream) -> CUresult {
    call("cuGraphLaunch", |driver| {
        let (stream, device) = stream_of(driver, stream)?;
        driver.not_captured(stream, "is given a graph")?;
        let Executable { device: of, ops, .. } = driver.executables.get(&(executable as usize)).ok_or(BAD_HANDLE)?;
        same(device, *of, "a graph")?;
        ops.clone().into_iter().try_for_each(|op| driver.enqueue(stream, op))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphDestroy(graph: CUgraph) -> CUresult {
    call("cuGraphDestroy", |driver| driver.graphs.remove(&(graph as usize)).map(|_| ()).ok_or(BAD_HANDLE))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphExecDestroy(executable: CUgraphExec) -> CUresult {
    call("cuGraphExecDestroy", |driver| driver.executables.remove(&(executable as usize)).map(|_| ()).ok_or(BAD_HANDLE))
}
