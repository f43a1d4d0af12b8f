//! Streams and events: the operations that are queued, and their order.

use std::collections::VecDeque;
use std::sync::Arc;

use ptx_machine::{Launch, Program};

/// Operation on a stream.
pub enum Op {
    /// Host to device, row by row.
    CopyIn { from: Source, to: u64, rows: Rows },
    /// Device to pinned host memory, row by row.
    CopyOut { from: u64, to: usize, rows: Rows },
    /// Fill of words on the device.
    Fill { at: u64, words: usize, value: u32 },
    /// Launch of a kernel.
    Launch {
        program: Arc<Program>,
        entry: String,
        launch: Launch,
        arguments: Vec<Vec<u8>>,
    },
    /// Recording of an event for the n-th time.
    Record { event: usize, n: u64 },
}

/// Source of a copy to the device.
pub enum Source {
    /// Address of pinned memory, which is read when the copy is executed.
    Pinned(usize),
    /// Copy of other memory, made when the copy was queued.
    Staged(Vec<u8>),
}

/// Rows of a copy: `n` of `width` bytes, `host` bytes apart in the host's memory and `device` on
/// the device.
#[derive(Clone, Copy)]
pub struct Rows {
    pub n: usize,
    pub width: usize,
    pub host: usize,
    pub device: usize,
}

impl Rows {
    pub const fn one(width: usize) -> Self {
        Self {
            n: 1,
            width,
            host: width,
            device: width,
        }
    }

    /// Returns the number of bytes from the first to the last byte in the host's memory.
    pub const fn host_extent(self) -> usize {
        if self.n == 0 {
            0
        } else {
            (self.n - 1) * self.host + self.width
        }
    }
}

/// A stream.
pub struct Stream {
    /// Number of the device.
    pub device: usize,
    pub queue: VecDeque<Op>,
    /// True while the stream is being captured, so that it cannot be used.
    pub is_captured: bool,
}

impl Stream {
    /// Returns a stream with no operations.
    pub const fn of(device: usize) -> Self {
        Self {
            device,
            queue: VecDeque::new(),
            is_captured: false,
        }
    }
}

/// An event.
pub struct Event {
    pub device: usize,
    pub timing: bool,
    /// Number of recordings that were requested, and number that were executed.
    pub asked: u64,
    pub reached: u64,
    /// Number of operations done at the last recording.
    pub time: u64,
}
