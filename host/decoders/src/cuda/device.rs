//! The device that the decoder drives: a trait, so that the decoder is tested without a GPU, on an
//! interpreter of the committed PTX.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::occupancy::Multiprocessors;
use crate::plan::Shape;
use crate::ptx::{Kernel, Unit};
use ut_data::DecodeError;

/// Maximum number of arguments of a kernel.
pub(super) const MAX_ARGUMENTS: usize = 8;

/// An argument of a kernel: a value that is copied when the kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    pointer: *const c_void,
    size: usize,
    value: PhantomData<&'a ()>,
}

impl<'a> Argument<'a> {
    /// Refers to a value, which is copied at the launch.
    pub const fn of<T: Copy>(value: &'a T) -> Self {
        Self {
            pointer: std::ptr::from_ref(value).cast(),
            size: size_of::<T>(),
            value: PhantomData,
        }
    }

    /// Returns the address of the value.
    pub const fn pointer(&self) -> *const c_void {
        self.pointer
    }

    /// Returns the size in bytes, including padding.
    pub const fn size(&self) -> usize {
        self.size
    }
}

/// Rows of a copy: `n` of `width` bytes each, `host` bytes apart in the host's memory and `device`
/// bytes in the device's.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Number of rows.
    pub n: usize,
    /// Bytes of a row.
    pub width: usize,
    /// Bytes from row to row in the host's memory; at least `width`.
    pub host: usize,
    /// Bytes from row to row in the device's memory; at least `width`.
    pub device: usize,
}

impl Rows {
    /// Returns the shape of one row with `bytes` bytes.
    pub const fn one(bytes: usize) -> Self {
        Self {
            n: 1,
            width: bytes,
            host: bytes,
            device: bytes,
        }
    }

    /// Returns the size of all rows in bytes.
    pub const fn bytes(self) -> usize {
        self.n * self.width
    }
}

/// Bytes over the link between host and device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TransferBytes {
    pub to_device: u64,
    pub from_device: u64,
}

/// A device with separate memory. Work on one stream is done in order; nothing orders the work on
/// different streams.
///
/// # Safety
/// The decoder copies through the addresses that an implementation gives. It frees memory when a
/// stream is done: never, if the stream cannot be waited for. So, whatever safe code does:
///
/// - [`allocate`](Self::allocate) gives at least as many bytes as were asked for, aligned to 256,
///   at [`address`](Self::address). They stay there until the `Memory` is dropped, and overlap no
///   other `Memory`.
/// - [`allocate_host`](Self::allocate_host) gives at least as many bytes as were asked for, aligned
///   to 256 and initialised, at [`start`](Self::start). They stay there until the `Host` is
///   dropped; the implementation reads and writes them only for calls on a stream. Every device of
///   the type can copy from and to them.
/// - When [`synchronize`](Self::synchronize) returns `Ok`, nothing put on the stream before uses
///   memory any more.
/// - Safe calls with a stream of another device are errors.
/// - [`owns`](Self::owns) is true only of memory that kernels and copies on this device's streams
///   can reach.
pub unsafe trait Device: Send {
    /// Device memory, freed when dropped.
    type Memory: Send + Sync;
    /// Host memory that the device can reach, freed when dropped. The host reads it as fast as any
    /// other.
    type Host: Send + Sync;
    /// Queue of work.
    type Stream: Send;

    /// Prepares for calls from this thread.
    fn begin(&mut self) -> Result<(), DecodeError>;

    /// Returns the device's multiprocessors.
    fn multiprocessors(&self) -> Multiprocessors;

    /// Creates a stream.
    fn stream(&mut self) -> Result<Self::Stream, DecodeError>;

    /// Allocates device memory, uninitialised. `bytes` is at least 1.
    fn allocate(&mut self, bytes: usize) -> Result<Self::Memory, DecodeError>;

    /// Allocates host memory, initialised to some bytes. `bytes` is at least 1.
    fn allocate_host(&mut self, bytes: usize) -> Result<Self::Host, DecodeError>;

    /// Returns an address on the device.
    fn address(memory: &Self::Memory) -> u64;

    /// Returns an address in the host's memory.
    fn start(host: &Self::Host) -> *mut u8;

    /// Returns true if this device can use the memory, which may be another GPU's.
    fn owns(&self, memory: &Self::Memory) -> bool;

    /// Copies `bytes` bytes to the device.
    ///
    /// # Safety
    /// - `stream` is this device's.
    /// - `from` begins that many bytes of one [`Host`](Self::Host), which lives and is not written
    ///   until this is done.
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
    /// - `at` is a multiple of 4, with room for them in memory that this device
    ///   [`owns`](Self::owns), until then.
    unsafe fn zero(
        &mut self,
        stream: &Self::Stream,
        at: u64,
        words: usize,
    ) -> Result<(), DecodeError>;

    /// Copies from the device.
    ///
    /// # Safety
    /// - `stream` is this device's.
    /// - The rows are there, in memory that this device [`owns`](Self::owns), until the stream has
    ///   done this.
    /// - They have room from `to` on in one [`Host`](Self::Host), which lives and is not read or
    ///   written until then.
    unsafe fn read(
        &mut self,
        stream: &Self::Stream,
        from: u64,
        to: *mut u8,
        rows: Rows,
    ) -> Result<(), DecodeError>;

    /// Launches an entry of a unit.
    ///
    /// # Safety
    /// - `stream` is this device's.
    /// - The arguments have the number and the types that the entry declares. The views in them
    ///   point to memory that this device [`owns`](Self::owns) and that lives until the stream has
    ///   done this.
    /// - The block has the shape and the shared memory that `ut_kernels` asks for with these
    ///   arguments.
    unsafe fn launch(
        &mut self,
        stream: &Self::Stream,
        unit: Unit,
        kernel: Kernel,
        variant: &str,
        shape: Shape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DecodeError>;

    /// Waits for everything on a stream.
    ///
    /// # Errors
    /// Anything that went wrong since the last call. Work on the stream may then still go on.
    fn synchronize(&mut self, stream: &Self::Stream) -> Result<(), DecodeError>;
}
