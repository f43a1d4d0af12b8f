//! Device that the decoder drives. It is a trait so that the decoder is tested without a GPU, on an interpreter of the
//! committed PTX.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::plan::Shape;
use crate::ptx::{Kernel, Unit};
use ut_data::DecodeError;

/// Most arguments of a kernel.
pub(super) const MAX_ARGUMENTS: usize = 8;

/// An argument of a kernel: a value that is copied when the kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    pointer: *const c_void,
    size: usize,
    value: PhantomData<&'a ()>,
}

impl<'a> Argument<'a> {
    /// This value.
    pub const fn of<T: Copy>(value: &'a T) -> Self {
        Self { pointer: std::ptr::from_ref(value).cast(), size: size_of::<T>(), value: PhantomData }
    }

    /// Returns the address of the value, which lives as long as `'a`.
    pub const fn pointer(&self) -> *const c_void {
        self.pointer
    }

    /// Returns the size in bytes, padding included.
    pub const fn size(&self) -> usize {
        self.size
    }
}

/// Rows of a copy: `n` of `width` bytes each, which begin `host` bytes apart in the host's memory and `device` bytes
/// apart in the device's.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Number of elements.
    pub n: usize,
    /// Bytes of each.
    pub width: usize,
    /// From one to the next in the host's memory; at least `width`.
    pub host: usize,
    /// From one to the next in the device's memory; at least `width`.
    pub device: usize,
}

impl Rows {
    /// One row of `bytes` bytes.
    pub const fn one(bytes: usize) -> Self {
        Self { n: 1, width: bytes, host: bytes, device: bytes }
    }

    /// All bytes.
    pub const fn bytes(self) -> usize {
        self.n * self.width
    }
}

/// Bytes over the link between host and device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferBytes {
    /// To the device.
    pub to_device: u64,
    /// From the device.
    pub from_device: u64,
}

/// A device with memory of its own. What is put on one of its streams is done in order; different streams are not ordered
/// but by [`wait`](Self::wait).
///
/// # Safety
/// The decoder copies through the addresses that an implementation gives, and gives memory back when a stream is done: never,
/// if the stream cannot be waited for. So, whatever safe code does with it:
///
/// - [`allocate`](Self::allocate) gives at least as many bytes as were asked for, aligned to 256, at
///   [`address`](Self::address). They stay there until the `Memory` is dropped, and overlap no other `Memory`.
/// - [`allocate_host`](Self::allocate_host) gives at least as many bytes as were asked for, aligned to 256 and initialised,
///   at [`start`](Self::start). They stay there until the `Host` is dropped; the implementation reads and writes them only
///   where a call puts that on a stream. Every device of the type can copy from and to them.
/// - When [`synchronize`](Self::synchronize) returns `Ok`, nothing that was put on the stream before reads or writes memory any
///   more.
/// - Safe calls with a stream of another device are errors.
/// - [`owns`](Self::owns) is true only of memory that kernels and copies on this device's streams can reach.
pub unsafe trait Device: Send {
    /// A piece of its memory, given back when dropped.
    type Memory: Send + Sync;
    /// A piece of the host's memory that the device can reach, given back when dropped. The host reads it as fast as any
    /// other.
    type Host: Send + Sync;
    /// A stream.
    type Stream: Send;
    /// A place in a stream, with the time when it was passed.
    type Event: Send;

    /// Prepares for calls from this thread.
    fn begin(&mut self) -> Result<(), DecodeError>;

    /// A new stream.
    fn stream(&mut self) -> Result<Self::Stream, DecodeError>;

    /// Some memory; what it holds is undefined. `bytes` is at least 1.
    fn allocate(&mut self, bytes: usize) -> Result<Self::Memory, DecodeError>;

    /// Some of the host's memory; what it holds is some bytes. `bytes` is at least 1.
    fn allocate_host(&mut self, bytes: usize) -> Result<Self::Host, DecodeError>;

    /// Returns the address on the device.
    fn address(memory: &Self::Memory) -> u64;

    /// Returns the address in the host's memory.
    fn start(host: &Self::Host) -> *mut u8;

    /// Returns true if this device can use that memory: it may be of another GPU.
    fn owns(&self, memory: &Self::Memory) -> bool;

    /// Copies `bytes` bytes to the device.
    ///
    /// # Safety
    /// - `stream` is this device's.
    /// - `from` is the start of that many bytes of one [`Host`](Self::Host), which lives and which no one writes until the
    ///   stream has done this.
    /// - `to` has room for them, in memory that this device [`owns`](Self::owns), until then.
    unsafe fn write(
        &mut self,
        stream: &Self::Stream,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), DecodeError>;

    /// Sets words of the device to 0.
    ///
    /// # Safety
    /// - `stream` is this device's.
    /// - `at` is a multiple of 4 and has room for them, in memory that this device [`owns`](Self::owns), until the stream
    ///   has done this.
    unsafe fn zero(&mut self, stream: &Self::Stream, at: u64, words: usize) -> Result<(), DecodeError>;

    /// Copies from the device.
    ///
    /// # Safety
    /// - `stream` is this device's.
    /// - The rows are there, in memory that this device [`owns`](Self::owns), until the stream has done this.
    /// - There is room for them from `to` on in one [`Host`](Self::Host), which lives and which no one reads or writes until
    ///   then.
    unsafe fn read(&mut self, stream: &Self::Stream, from: u64, to: *mut u8, rows: Rows) -> Result<(), DecodeError>;

    /// Launches an entry of a unit.
    ///
    /// # Safety
    /// - `stream` is this device's.
    /// - The arguments are those of the entry, of the same types; the views in them are of memory that this device
    ///   [`owns`](Self::owns) and that lives until the stream has done this.
    /// - The block has the shape and the shared memory that `ut_kernels` asks for with these arguments.
    unsafe fn launch(
        &mut self,
        stream: &Self::Stream,
        unit: Unit,
        kernel: Kernel,
        variant: &str,
        shape: Shape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DecodeError>;

    /// Marks the place that the stream has come to.
    fn record(&mut self, stream: &Self::Stream) -> Result<Self::Event, DecodeError>;

    /// Makes `stream` wait for `event` before whatever is put on it next.
    fn wait(&mut self, stream: &Self::Stream, event: &Self::Event) -> Result<(), DecodeError>;

    /// Milliseconds between two events, by the device's clock. Waits until both were passed.
    fn elapsed_ms(&mut self, start: &Self::Event, end: &Self::Event) -> Result<f32, DecodeError>;

    /// Waits until everything on a stream is done.
    ///
    /// # Errors
    /// What went wrong since the last time. What is on the stream may still go on.
    fn synchronize(&mut self, stream: &Self::Stream) -> Result<(), DecodeError>;
}
