//! What is put on a stream again and again, as one launch: CUDA graphs.
//!
//! A batch takes up to a dozen calls of the driver (memory cleared, kernels, results back), some microseconds each, which
//! for a small batch is longer than the kernels run. A graph is launched by one call. Which graph that is nobody has to
//! say: the calls are first only noted. If they are those of a graph that was made of this stream before, whatever the
//! kernels' arguments, the arguments that differ are changed in it, and it is launched; so batches of the same number of
//! events share a graph, wherever they lie. If they were seen before, a graph is made of them. Else they are made one by
//! one: most that happens only once, when buffers grow, is not worth a graph. As the noted calls hold every address and
//! size, a graph can never be out of date.
//!
//! A driver that refuses any of this is not asked again: the calls are then made one by one, and [`GraphUse`] says why.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus};
use cudarc::driver::{CudaContext, DriverError, result};

use super::device::{Argument, Rows};
use super::start::words;
use crate::decoder::DecodeError;
use crate::decoder::plan::Shape;

/// Sequences of calls that are remembered of a stream: by number of events, and by what is wanted of a batch.
const MOST_KNOWN: usize = 4;

/// How graphs were used.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GraphUse {
    /// Graphs that were made.
    pub made: u64,
    /// How often one was launched.
    pub launched: u64,
    /// Arguments of kernels that were changed in them.
    pub changed: u64,
    /// What the driver said when it refused; calls are made one by one since.
    pub refused: Option<String>,
}

/// A call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// A kernel, and how many arguments it has.
    Launch { function: sys::CUfunction, shape: Shape, arguments: usize },
    /// Words to clear.
    Zero { at: u64, words: usize },
    /// A copy to the host.
    Read { from: u64, to: usize, rows: Rows },
}

/// Calls in order, and the arguments of their kernels in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
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

    pub(super) fn launch(&mut self, function: sys::CUfunction, shape: Shape, arguments: &[Argument<'_>]) {
        self.list.push(Call::Launch { function, shape, arguments: arguments.len() });
        for argument in arguments {
            let start = self.bytes.len();
            // SAFETY: an argument is a value of so many bytes, which lives as long as it does; there is room for them.
            unsafe {
                self.bytes.reserve(argument.size);
                let to = self.bytes.as_mut_ptr().add(start);
                std::ptr::copy_nonoverlapping(argument.pointer.cast::<u8>(), to, argument.size);
                // Padding holds whatever it does: nothing may be concluded from its not being set. Where it differs an
                // argument counts as changed, which costs a call.
                std::hint::black_box(to);
                self.bytes.set_len(start + argument.size);
            }
            self.arguments.push(start..start + argument.size);
        }
    }

    pub(super) fn zero(&mut self, at: u64, words: usize) {
        self.list.push(Call::Zero { at, words });
    }

    pub(super) fn read(&mut self, from: u64, to: *mut u8, rows: Rows) {
        self.list.push(Call::Read { from, to: to as usize, rows });
    }

    /// Whether these are the same calls, whatever the kernels' arguments.
    fn are_like(&self, other: &Self) -> bool {
        self.list == other.list && self.arguments == other.arguments
    }

    /// The kernels: function, shape, and which of the arguments are theirs.
    fn launches(&self) -> impl Iterator<Item = (sys::CUfunction, Shape, Range<usize>)> {
        let mut first = 0;
        self.list.iter().filter_map(move |call| {
            let Call::Launch { function, shape, arguments } = *call else { return None };
            first += arguments;
            Some((function, shape, first - arguments..first))
        })
    }

    /// Where these arguments are in `bytes`.
    fn bytes_of(&self, arguments: &Range<usize>) -> Range<usize> {
        let all = &self.arguments[arguments.clone()];
        all.first().zip(all.last()).map_or(0..0, |(first, last)| first.start..last.end)
    }
}

/// A graph that was made of some calls.
struct Graph {
    made_of: sys::CUgraph,
    executable: sys::CUgraphExec,
    /// Of the kernels, in order.
    nodes: Vec<CUgraphNode>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Nobody is there to be told if this fails.
        // SAFETY: made by this and given back only here; whoever drops it has waited for its stream.
        unsafe {
            let _ = result::graph::exec_destroy(self.executable);
            let _ = result::graph::destroy(self.made_of);
        }
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

/// What becomes of the calls that are made now.
enum Now {
    /// They go to the driver.
    Made,
    /// They are noted, and nothing else.
    Noted,
    /// They go to the driver, which makes a graph of them, on this stream; and their kernels' nodes.
    Recorded(CUstream, Vec<CUgraphNode>),
}

/// What is to be done with calls that were noted.
pub(super) enum Next {
    /// Nothing: a graph of them was launched.
    Nothing,
    /// They are to be made one by one.
    Make,
    /// They are to be made between [`Graphs::begin`] and [`Graphs::end`].
    Record,
}

/// The graphs of a device.
pub(super) struct Graphs {
    now: Now,
    /// Those that are noted.
    noted: Calls,
    known: Vec<Known>,
    clock: u64,
    used: GraphUse,
    context: Arc<CudaContext>,
}

// SAFETY: handles of the driver, which may be used from every thread that has the context, by one at a time: by `&mut`.
unsafe impl Send for Graphs {}

impl Drop for Graphs {
    fn drop(&mut self) {
        // Without the context there are no graphs either.
        if self.context.bind_to_thread().is_err() {
            self.known.drain(..).for_each(std::mem::forget);
        }
    }
}

impl Graphs {
    pub(super) fn new(context: Arc<CudaContext>) -> Self {
        let (noted, used) = (Calls::default(), GraphUse::default());
        Self { now: Now::Made, noted, known: Vec::new(), clock: 0, used, context }
    }

    pub(super) const fn used(&self) -> &GraphUse {
        &self.used
    }

    /// Whether the driver takes part.
    pub(super) const fn are_made(&self) -> bool {
        self.used.refused.is_none()
    }

    /// Does without from now on.
    fn refuse(&mut self, action: &str, error: &str) {
        self.used.refused = Some(format!("the driver would not {action}: {error}"));
    }

    /// Notes the calls that follow, instead of making them.
    pub(super) fn note(&mut self) {
        self.noted.clear();
        self.now = Now::Noted;
    }

    /// Makes the calls that follow.
    pub(super) fn note_no_more(&mut self) {
        self.now = Now::Made;
    }

    /// Where a call is to be noted, if it is not to be made.
    pub(super) const fn noted(&mut self) -> Option<&mut Calls> {
        match self.now {
            Now::Noted => Some(&mut self.noted),
            Now::Made | Now::Recorded(..) => None,
        }
    }

    /// After the calls were noted: launches the graph of them, if there is one.
    ///
    /// # Safety
    /// - The calls may be made on this stream now.
    ///
    /// # Errors
    /// When the launch failed.
    pub(super) unsafe fn replay(&mut self, stream: CUstream) -> Result<Next, DriverError> {
        self.clock += 1;
        let like = |known: &Known| known.stream == stream && known.calls.are_like(&self.noted);
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
                self.refuse("change a graph", &words(error));
                return Ok(Next::Make);
            }
        }
        // SAFETY: the caller's word for the calls that the graph is of.
        unsafe { result::graph::launch(graph.executable, stream) }?;
        self.used.launched += 1;
        Ok(Next::Nothing)
    }

    /// Remembers the calls that were noted, in place of those of this stream that were not seen for the longest time.
    fn remember(&mut self, stream: CUstream) {
        let new = Known { stream, calls: self.noted.clone(), graph: None, seen: self.clock };
        let of_stream = || self.known.iter().enumerate().filter(|(_, known)| known.stream == stream);
        match of_stream().min_by_key(|(_, known)| known.seen) {
            Some((oldest, _)) if of_stream().count() >= MOST_KNOWN => {
                // Its graph may be under way. What went wrong there is said when the stream is waited for.
                // SAFETY: a stream of this device, which lives.
                let _ = unsafe { result::stream::synchronize(stream) };
                self.known[oldest] = new;
            }
            _ => self.known.push(new),
        }
    }

    /// Begins to make a graph of the calls that follow. Whether it could be begun: if not, they are made one by one.
    pub(super) fn begin(&mut self, stream: CUstream) -> bool {
        // Other threads may do what they like meanwhile; this one makes no call that a capture forbids.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: a stream of this device, which lives.
        let begun = unsafe { result::stream::begin_capture(stream, mode) };
        match begun {
            Ok(()) => self.now = Now::Recorded(stream, Vec::new()),
            Err(error) => self.refuse("begin a graph", &words(error)),
        }
        begun.is_ok()
    }

    /// After a kernel's launch: notes its node, if a graph is made.
    pub(super) fn launched(&mut self) -> Result<(), DriverError> {
        let Now::Recorded(stream, nodes) = &mut self.now else { return Ok(()) };
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut last, mut n): (*const CUgraphNode, usize) = (std::ptr::null(), 0);
        // SAFETY: places of our own, or null where nothing is wanted; the stream lives.
        unsafe {
            let (id, graph, edges) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
            sys::cuStreamGetCaptureInfo_v3(*stream, &raw mut status, id, graph, &raw mut last, edges, &raw mut n)
        }
        .result()?;
        // What is put on the stream next depends on what was put there last, which is the kernel.
        if n != 1 || last.is_null() {
            return Err(DriverError(CUresult::CUDA_ERROR_NOT_SUPPORTED));
        }
        // SAFETY: so many nodes are there until the next call on this stream.
        nodes.push(unsafe { *last });
        Ok(())
    }

    /// Ends the graph that was begun, and launches it. Whether it was launched: if not, nothing was done, and the calls are
    /// to be made one by one. `made` says whether the calls were made.
    ///
    /// # Safety
    /// - The calls may be made on this stream now.
    ///
    /// # Errors
    /// When the launch failed.
    pub(super) unsafe fn end(&mut self, made: Result<(), DecodeError>) -> Result<bool, DriverError> {
        let Now::Recorded(stream, nodes) = std::mem::replace(&mut self.now, Now::Made) else { return Ok(false) };
        // SAFETY: the capture that was begun on this stream.
        let ended = unsafe { result::stream::end_capture(stream) };
        let graph = match (made, ended) {
            (Ok(()), Ok(graph)) if !graph.is_null() => instantiate(graph, nodes),
            (Err(error), ended) => {
                if let Some(graph) = ended.ok().filter(|graph| !graph.is_null()) {
                    // SAFETY: made just now, and given back only here.
                    let _ = unsafe { result::graph::destroy(graph) };
                }
                self.refuse("make a graph", &error.to_string());
                return Ok(false);
            }
            (Ok(()), ended) => Err(ended.err().unwrap_or(DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED))),
        };
        let graph = match graph {
            Ok(graph) => graph,
            Err(error) => {
                self.refuse("make a graph", &words(error));
                return Ok(false);
            }
        };
        self.used.made += 1;
        let like = |known: &&mut Known| known.stream == stream && known.calls.are_like(&self.noted);
        let Some(known) = self.known.iter_mut().find(like) else { return Ok(false) };
        // The arguments are those of this time.
        known.calls.bytes.copy_from_slice(&self.noted.bytes);
        let graph = known.graph.insert(graph);
        // SAFETY: the caller's word for the calls that the graph is of.
        unsafe { result::graph::launch(graph.executable, stream) }?;
        self.used.launched += 1;
        Ok(true)
    }
}

/// What can be launched, of a graph whose kernels have these nodes.
fn instantiate(graph: sys::CUgraph, nodes: Vec<CUgraphNode>) -> Result<Graph, DriverError> {
    let mut executable = std::ptr::null_mut();
    // SAFETY: a graph that was made just now; a place of our own.
    let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0) }.result();
    if let Err(error) = made {
        // SAFETY: given back only here.
        let _ = unsafe { result::graph::destroy(graph) };
        return Err(error);
    }
    Ok(Graph { made_of: graph, executable, nodes })
}

/// Gives the kernels of a graph of the calls `from` the arguments of `to`, where they differ, and has `from` follow. How
/// many kernels that were.
fn change(graph: &Graph, from: &mut Calls, to: &Calls) -> Result<u64, DriverError> {
    let mut changed = 0;
    for ((function, shape, arguments), node) in to.launches().zip(&graph.nodes) {
        let bytes = to.bytes_of(&arguments);
        if from.bytes[bytes.clone()] == to.bytes[bytes.clone()] {
            continue;
        }
        let pointer = |argument: &Range<usize>| to.bytes[argument.clone()].as_ptr().cast::<c_void>().cast_mut();
        let mut pointers: Vec<*mut c_void> = to.arguments[arguments].iter().map(pointer).collect();
        let parameters = sys::CUDA_KERNEL_NODE_PARAMS {
            func: function,
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
        // - As many arguments as it takes, and as large, were held against the entry when the call was noted. The driver
        //   copies them before it returns.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(graph.executable, *node, &raw const parameters) }.result()?;
        from.bytes[bytes.clone()].copy_from_slice(&to.bytes[bytes]);
        changed += 1;
    }
    Ok(changed)
}
