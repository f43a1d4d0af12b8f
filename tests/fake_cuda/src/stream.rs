//! Streams and events: what is to be done, and in which order it may be.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{ThreadId, current};

use cudarc::driver::sys::CUstreamCaptureMode;

use ptx_machine::{Launch, Program};

/// Something to be done on a stream.
#[derive(Clone)]
pub enum Op {
    /// Host to device, row by row.
    CopyIn { from: Source, to: u64, rows: Rows },
    /// Device to pinned host memory, row by row.
    CopyOut { from: u64, to: usize, rows: Rows },
    /// Words on the device.
    Fill { at: u64, words: usize, value: u32 },
    /// A kernel.
    Launch { program: Arc<Program>, entry: String, launch: Launch, arguments: Vec<Vec<u8>> },
    /// The n-th recording of an event is reached.
    Record { event: usize, n: u64 },
    /// Not before the n-th recording of an event.
    Wait { event: usize, n: u64 },
}

/// Source of a copy to the device.
#[derive(Clone)]
pub enum Source {
    /// Pinned memory, which is read when the copy is done.
    Pinned(usize),
    /// Other memory, which the driver copied when it was asked.
    Staged(Vec<u8>),
}

/// Rows of a copy: `n` of `width` bytes, `host` bytes apart in the host's memory and `device` on the device.
#[derive(Clone, Copy)]
pub struct Rows {
    pub n: usize,
    pub width: usize,
    pub host: usize,
    pub device: usize,
}

impl Rows {
    pub const fn one(width: usize) -> Self {
        Self { n: 1, width, host: width, device: width }
    }

    /// Bytes from the first to the last one in the host's memory.
    pub const fn host_extent(self) -> usize {
        if self.n == 0 { 0 } else { (self.n - 1) * self.host + self.width }
    }
}

/// A stream.
pub struct Stream {
    /// Number of the device.
    pub device: usize,
    pub queue: VecDeque<Op>,
    /// Recording of calls while a graph is made of them.
    pub capture: Option<Capture>,
}

impl Stream {
    /// A stream with nothing on it.
    pub const fn of(device: usize) -> Self {
        Self { device, queue: VecDeque::new(), capture: None }
    }
}

/// A graph that is being made of what is asked of a stream.
pub struct Capture {
    pub ops: Vec<Op>,
    /// Handles of the operations.
    pub nodes: Vec<usize>,
    /// Something was asked for that a capture forbids.
    pub invalid: bool,
    thread: ThreadId,
    mode: CUstreamCaptureMode,
}

impl Capture {
    pub fn new(mode: CUstreamCaptureMode) -> Self {
        Self { ops: Vec::new(), nodes: Vec::new(), invalid: false, thread: current().id(), mode }
    }

    /// Returns true if the calling thread may end it.
    pub fn may_be_ended_here(&self) -> bool {
        self.mode == CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED || self.thread == current().id()
    }

    /// Returns true if it forbids the calling thread what may not be captured.
    pub fn forbids(&self) -> bool {
        match self.mode {
            CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL => true,
            CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL => self.thread == current().id(),
            CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED => false,
        }
    }
}

/// A graph.
pub struct Graph {
    /// Number of the device.
    pub device: usize,
    pub ops: Vec<Op>,
    pub nodes: Vec<usize>,
}

/// A graph that can be launched.
pub struct Executable {
    /// Number of the device.
    pub device: usize,
    /// Graph that it was made of.
    pub graph: usize,
    pub ops: Vec<Op>,
}

/// An event.
pub struct Event {
    pub device: usize,
    pub timing: bool,
    /// Number of requested recordings, and of done ones.
    pub asked: u64,
    pub reached: u64,
    /// The count of operations when it was reached last.
    pub time: u64,
}
