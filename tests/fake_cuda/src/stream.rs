//! Streams and events: what is to be done, and in which order it may be.

use std::collections::VecDeque;
use std::sync::Arc;

use ptx_machine::{Launch, Program};

/// Something to be done on a stream.
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
}

/// Source of a copy to the device.
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
    /// Is true while the stream is captured, so that it cannot be used.
    pub is_captured: bool,
}

impl Stream {
    /// A stream with nothing on it.
    pub const fn of(device: usize) -> Self {
        Self { device, queue: VecDeque::new(), is_captured: false }
    }
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
