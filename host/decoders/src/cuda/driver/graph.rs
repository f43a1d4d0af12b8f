//! Calls that are put on a stream again and again, as one launch: CUDA graphs.
//!
//! A batch takes up to a dozen calls of the driver (memory cleared, kernels, results back), some microseconds each, which
//! for a small batch is longer than the kernels run. A graph is launched by one call. The caller need not say which graph:
//! calls are only noted at first.
//!
//! - If a graph was made of such calls on this stream before, the arguments that differ are changed in it, and it is
//!   launched: batches of the same number of events share a graph, wherever they lie.
//! - If such calls were seen before, a graph is made of them; else they are made one by one, since most calls that come
//!   only once, when buffers grow, are not worth a graph.
//!
//! The noted calls hold every address and size, so that a graph cannot be out of date. A driver that refuses any of this
//! is not asked again: [`GraphUse`] says why.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus};

use super::context::Context;
use super::error::{CallError, check};
use super::modules::Handle;
use super::stream::CudaStream;
use crate::cuda::device::{Argument, Rows};
use crate::plan::Shape;
use ut_data::DecodeError;

/// Sequences of calls that are remembered of a stream: by number of events, and by what is wanted of a batch.
const MOST_KNOWN: usize = 4;

/// Use of graphs so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GraphUse {
    /// Graphs that were made.
    pub made: u64,
    /// Number of launches of a graph.
    pub launched: u64,
    /// Arguments of kernels that were changed in them.
    pub changed: u64,
    /// Message with which the driver refused graphs; calls are made one by one since.
    pub refused: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// A kernel, and how many arguments it has.
    Launch { function: Handle, shape: Shape, arguments: usize },
    /// Words to clear.
    Zero { at: u64, words: usize },
    /// A copy to the host.
    Read { from: u64, to: usize, rows: Rows },
}

/// Calls in order, and the arguments of their kernels in order.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    list: Vec<Call>,
    arguments: Vec<Range<usize>>,
    bytes: Vec<u8>,
}

impl Calls {
    fn clear(&mut self) {
        self.list.clear();
        self.arguments.clear();
        self.bytes.clear();
    }

    pub fn launch(&mut self, function: Handle, shape: Shape, arguments: &[Argument<'_>]) {
        self.list.push(Call::Launch { function, shape, arguments: arguments.len() });
        for argument in arguments {
            let (start, size) = (self.bytes.len(), argument.size());
            self.bytes.reserve(size);
            let to = self.bytes.spare_capacity_mut().as_mut_ptr().cast::<u8>();
            // SAFETY: an argument points to a value of its size, which lives as long as it does; there is room for that
            // many bytes, reserved just above, in memory that only this vector owns.
            unsafe { std::ptr::copy_nonoverlapping(argument.pointer().cast::<u8>(), to, size) };
            // Padding between a value's fields is copied as it is. The compiler is told that these bytes may have been
            // written, so that it treats them as some bytes; where padding differs, an argument counts as changed, which
            // costs a call and nothing else.
            std::hint::black_box(to);
            // SAFETY: that many bytes were written behind the old end.
            unsafe { self.bytes.set_len(start + size) };
            self.arguments.push(start..start + size);
        }
    }

    pub fn zero(&mut self, at: u64, words: usize) {
        self.list.push(Call::Zero { at, words });
    }

    pub fn read(&mut self, from: u64, to: *mut u8, rows: Rows) {
        self.list.push(Call::Read { from, to: to as usize, rows });
    }

    /// Returns true if these are the same calls, whatever the kernels' arguments.
    fn are_like(&self, other: &Self) -> bool {
        self.list == other.list && self.arguments == other.arguments
    }

    /// The kernels: function, shape, and which of the arguments are theirs.
    fn launches(&self) -> impl Iterator<Item = (Handle, Shape, Range<usize>)> {
        let mut first = 0;
        self.list.iter().filter_map(move |call| {
            let Call::Launch { function, shape, arguments } = *call else { return None };
            first += arguments;
            Some((function, shape, first - arguments..first))
        })
    }

    fn bytes_of(&self, arguments: &Range<usize>) -> Range<usize> {
        let all = &self.arguments[arguments.clone()];
        all.first().zip(all.last()).map_or(0..0, |(first, last)| first.start..last.end)
    }
}

struct Graph {
    made_of: sys::CUgraph,
    executable: sys::CUgraphExec,
    /// Of the kernels, in order.
    nodes: Vec<CUgraphNode>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        // There is no caller to be told of a failure.
        // SAFETY: made by `instantiate`, and given back only here. The driver keeps one that is running until it is done.
        let _ = unsafe { sys::cuGraphExecDestroy(self.executable) };
        // SAFETY: handed over to `instantiate`, and given back only here.
        let _ = unsafe { sys::cuGraphDestroy(self.made_of) };
    }
}

/// Calls that were seen on a stream, and the graph that was made of them when they were seen again.
struct Known {
    stream: CUstream,
    calls: Calls,
    graph: Option<Graph>,
    /// When they were seen last.
    seen: u64,
}

/// State of the calls that are made now: passed on, recorded, or both.
enum Now {
    /// They go to the driver.
    Made,
    /// They are noted, and nothing else.
    Noted,
    /// They go to the driver, which makes a graph of them, on this stream; and their kernels' nodes.
    Recorded(CUstream, Vec<CUgraphNode>),
}

/// Treatment of recorded calls.
pub enum Next {
    /// Nothing: a graph of them was launched.
    Nothing,
    /// They are to be made one by one.
    Make,
    /// They are to be made between [`Graphs::begin`] and [`Graphs::end`].
    Record,
}

/// The graphs of a device.
pub struct Graphs {
    now: Now,
    /// Recorded calls.
    noted: Calls,
    known: Vec<Known>,
    clock: u64,
    used: GraphUse,
    context: Arc<Context>,
}

// SAFETY: the driver's handles of graphs and streams, which any thread may use, one at a time: they are used by `&mut`.
unsafe impl Send for Graphs {}

impl Drop for Graphs {
    fn drop(&mut self) {
        // Without the context there are no graphs either.
        if self.context.make_current().is_err() {
            self.known.drain(..).for_each(std::mem::forget);
        }
    }
}

impl Graphs {
    pub fn new(context: Arc<Context>) -> Self {
        let (noted, used) = (Calls::default(), GraphUse::default());
        Self { now: Now::Made, noted, known: Vec::new(), clock: 0, used, context }
    }

    pub const fn used(&self) -> &GraphUse {
        &self.used
    }

    /// Returns true if calls go to the driver.
    pub const fn are_made(&self) -> bool {
        self.used.refused.is_none()
    }

    fn refuse(&mut self, action: &str, error: &str) {
        self.used.refused = Some(format!("the driver would not {action}: {error}"));
    }

    /// Notes the calls that follow, instead of making them.
    pub fn note(&mut self) {
        self.noted.clear();
        self.now = Now::Noted;
    }

    pub fn note_no_more(&mut self) {
        self.now = Now::Made;
    }

    /// Returns the recorder if calls are recorded rather than made.
    pub const fn noted(&mut self) -> Option<&mut Calls> {
        match self.now {
            Now::Noted => Some(&mut self.noted),
            Now::Made | Now::Recorded(..) => None,
        }
    }

    /// After the calls were noted: launches the graph of them, if there is one.
    ///
    /// # Safety
    /// - Each of the noted calls may be made on this stream now: what it reads and writes is there until the stream has
    ///   done it.
    pub unsafe fn replay(&mut self, stream: &CudaStream) -> Result<Next, CallError> {
        self.clock += 1;
        let like = |known: &Known| known.stream == stream.handle() && known.calls.are_like(&self.noted);
        let Some(place) = self.known.iter().position(like) else {
            self.remember(stream);
            return Ok(Next::Make);
        };
        let Known { calls, graph, seen, .. } = &mut self.known[place];
        *seen = self.clock;
        let Some(graph) = graph else { return Ok(Next::Record) };
        match change(graph, calls, &self.noted) {
            Ok(changed) => self.used.changed += changed,
            Err(error) => {
                self.refuse("change a graph", &error.message);
                return Ok(Next::Make);
            }
        }
        // SAFETY: the graph does what the noted calls do, with their addresses and arguments, which the caller allows.
        unsafe { launch(graph, stream) }?;
        self.used.launched += 1;
        Ok(Next::Nothing)
    }

    /// Remembers the calls that were noted, in place of those of this stream that were not seen for the longest time.
    fn remember(&mut self, stream: &CudaStream) {
        let new = Known { stream: stream.handle(), calls: self.noted.clone(), graph: None, seen: self.clock };
        let of_stream = || self.known.iter().enumerate().filter(|(_, known)| known.stream == stream.handle());
        match of_stream().min_by_key(|(_, known)| known.seen) {
            Some((oldest, _)) if of_stream().count() >= MOST_KNOWN => {
                // Its graph may be running. What went wrong there is said when the stream is waited for next.
                let _ = stream.synchronize();
                self.known[oldest] = new;
            }
            _ => self.known.push(new),
        }
    }

    /// Begins to make a graph of the calls that follow; false where they are to be made one by one.
    pub fn begin(&mut self, stream: &CudaStream) -> bool {
        // Other threads may do what they like meanwhile; this one makes no call that a capture forbids.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives.
        let begun = check("begin a graph", unsafe { sys::cuStreamBeginCapture_v2(stream.handle(), mode) });
        match &begun {
            Ok(()) => self.now = Now::Recorded(stream.handle(), Vec::new()),
            Err(error) => self.refuse("begin a graph", &error.message),
        }
        begun.is_ok()
    }

    /// After a kernel's launch: notes its node, if a graph is made.
    pub fn launched(&mut self) -> Result<(), CallError> {
        let Now::Recorded(stream, nodes) = &mut self.now else { return Ok(()) };
        let action = "tell a kernel's place in a graph";
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut last, mut n): (*const CUgraphNode, usize) = (std::ptr::null(), 0);
        let (id, graph, edges) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: places of ours, or null where nothing is wanted; the stream lives while a graph is made of its calls.
        let code = unsafe {
            sys::cuStreamGetCaptureInfo_v3(*stream, &raw mut status, id, graph, &raw mut last, edges, &raw mut n)
        };
        check(action, code)?;
        // What is put on the stream next depends on what was put there last, which is the kernel.
        if n != 1 || last.is_null() {
            return Err(CallError::new(action, CUresult::CUDA_ERROR_NOT_SUPPORTED));
        }
        // SAFETY: the driver gave the place of one node, which is there until the next call on this stream.
        nodes.push(unsafe { *last });
        Ok(())
    }

    /// Ends the graph that was begun, and launches it. Whether it was launched: if not, nothing was done, and the calls are
    /// to be made one by one. `made` says whether the calls were made.
    ///
    /// # Safety
    /// - Each of the calls may be made on this stream now: what it reads and writes is there until the stream has done it.
    pub unsafe fn end(&mut self, stream: &CudaStream, made: Result<(), DecodeError>) -> Result<bool, CallError> {
        let Now::Recorded(_, nodes) = std::mem::replace(&mut self.now, Now::Made) else { return Ok(false) };
        let mut graph = std::ptr::null_mut();
        // SAFETY: this stream's capture was begun by this thread; the place is ours.
        let ended = check("make a graph", unsafe { sys::cuStreamEndCapture(stream.handle(), &raw mut graph) });
        let graph = match (made, ended) {
            (Ok(()), Ok(())) if !graph.is_null() => instantiate(graph, nodes),
            (Err(error), ended) => {
                if ended.is_ok() && !graph.is_null() {
                    // SAFETY: made just now, and given back only here.
                    let _ = unsafe { sys::cuGraphDestroy(graph) };
                }
                self.refuse("make a graph", &error.to_string());
                return Ok(false);
            }
            (Ok(()), ended) => Err(ended
                .err()
                .unwrap_or_else(|| CallError::new("make a graph", CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED))),
        };
        let graph = match graph {
            Ok(graph) => graph,
            Err(error) => {
                self.refuse("make a graph", &error.message);
                return Ok(false);
            }
        };
        self.used.made += 1;
        let like = |known: &&mut Known| known.stream == stream.handle() && known.calls.are_like(&self.noted);
        let Some(known) = self.known.iter_mut().find(like) else { return Ok(false) };
        // The arguments are those of this time.
        known.calls.bytes.copy_from_slice(&self.noted.bytes);
        let graph = known.graph.insert(graph);
        // SAFETY: the graph does what the calls do that were captured, which the caller allows.
        unsafe { launch(graph, stream) }?;
        self.used.launched += 1;
        Ok(true)
    }
}

/// # Safety
/// - The calls that the graph was made of may be made on this stream now, with the arguments that it holds.
unsafe fn launch(graph: &Graph, stream: &CudaStream) -> Result<(), CallError> {
    // SAFETY: graph and stream live, and are of one context; what the graph does is the caller's care.
    check("launch a graph", unsafe { sys::cuGraphLaunch(graph.executable, stream.handle()) })
}

/// Instantiates a graph whose kernels have these nodes.
fn instantiate(graph: sys::CUgraph, nodes: Vec<CUgraphNode>) -> Result<Graph, CallError> {
    let mut executable = std::ptr::null_mut();
    // SAFETY: a graph that was made just now; a place of ours.
    let made = check("make a graph", unsafe { sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0) });
    if let Err(error) = made {
        // SAFETY: given back only here, as no `Graph` owns it.
        let _ = unsafe { sys::cuGraphDestroy(graph) };
        return Err(error);
    }
    Ok(Graph { made_of: graph, executable, nodes })
}

/// Gives the kernels of a graph of the calls `from` the arguments of `to`, where they differ; returns their number.
fn change(graph: &Graph, from: &mut Calls, to: &Calls) -> Result<u64, CallError> {
    let mut changed = 0;
    for ((function, shape, arguments), node) in to.launches().zip(&graph.nodes) {
        let bytes = to.bytes_of(&arguments);
        if from.bytes[bytes.clone()] == to.bytes[bytes.clone()] {
            continue;
        }
        let pointer = |argument: &Range<usize>| to.bytes[argument.clone()].as_ptr().cast::<c_void>().cast_mut();
        let mut pointers: Vec<*mut c_void> = to.arguments[arguments].iter().map(pointer).collect();
        let parameters = sys::CUDA_KERNEL_NODE_PARAMS {
            func: function.0,
            gridDimX: shape.grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.block.0,
            blockDimY: shape.block.1,
            blockDimZ: 1,
            sharedMemBytes: shape.shared_bytes,
            kernelParams: pointers.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        // SAFETY:
        // - The node is a kernel of this graph: that of the same call, with this function and shape.
        // - There are as many arguments as it takes, and as large: `CudaDevice::launch` compared them with the entry's
        //   parameters before the call was noted. The driver copies them before it returns.
        let code = unsafe { sys::cuGraphExecKernelNodeSetParams_v2(graph.executable, *node, &raw const parameters) };
        check("change a graph", code)?;
        from.bytes[bytes.clone()].copy_from_slice(&to.bytes[bytes]);
        changed += 1;
    }
    Ok(changed)
}
