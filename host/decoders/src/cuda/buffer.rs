//! Memory that is used again from batch to batch, and only grows.

use simt::{Global, GlobalMut, Plain};

use super::driver::{CudaHost, CudaMemory};
use super::gpu::CudaDevice;
use ut_data::DecodeError;

/// Alignment of each array in a piece of memory, bytes: a line of the device's cache.
pub(super) const LINE: usize = 128;

pub(super) struct Buffer {
    memory: Option<CudaMemory>,
    bytes: usize,
}

impl Buffer {
    pub(super) const fn new() -> Self {
        Self {
            memory: None,
            bytes: 0,
        }
    }

    /// Makes room for `bytes` bytes; growing loses the contents. Nothing in flight uses them.
    pub(super) fn reserve(&mut self, device: &CudaDevice, bytes: usize) -> Result<(), DecodeError> {
        let bytes = bytes.max(1).next_multiple_of(256);
        if bytes > self.bytes {
            // Freed first: there may be no room for both.
            self.memory = None;
            self.bytes = 0;
            self.memory = Some(device.allocate(bytes)?);
            self.bytes = bytes;
        }
        Ok(())
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if this device's streams can use it.
    pub(super) fn is_of(&self, device: &CudaDevice) -> bool {
        self.memory
            .as_ref()
            .is_none_or(|memory| device.owns(memory))
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.as_ref().map_or(0, CudaMemory::address)
    }

    /// `len` elements from byte `at` on, for kernels.
    pub(super) fn view<T: Plain>(&self, at: usize, len: usize) -> Global<'static, T> {
        assert!(at + len * size_of::<T>() <= self.bytes);
        // SAFETY:
        // - The elements are in this buffer, checked above; it is aligned to 256 bytes, `at` to a
        //   word or line.
        // - The host never follows the address. Kernels do, launched by an unsafe call that asks
        //   the buffer to live.
        unsafe { Global::new((self.address() as usize + at) as *const T, len as u32) }
    }

    /// Returns a [`view`](Self::view) for writing.
    pub(super) fn view_mut<T: Plain>(&self, at: usize, len: usize) -> GlobalMut<'static, T> {
        assert!(at + len * size_of::<T>() <= self.bytes);
        // SAFETY:
        // - The elements are in this buffer, checked above; it is aligned to 256 bytes, `at` to a
        //   word or line.
        // - The host never follows the address. Kernels do, launched by an unsafe call that asks
        //   the buffer to live, and not to be used otherwise meanwhile.
        unsafe { GlobalMut::new((self.address() as usize + at) as *mut T, len as u32) }
    }
}

/// An array in a piece of memory: its first byte and number of elements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) len: usize,
}

/// Lays out arrays one after the other in a piece of memory, each beginning at a cache line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArrayPlaces {
    pub(super) bytes: usize,
}

impl ArrayPlaces {
    pub(super) const fn next(&mut self, len: usize, size: usize) -> Place {
        let place = Place {
            at: self.bytes,
            len,
        };
        self.bytes += (len * size).next_multiple_of(LINE);
        place
    }
}

pub(super) struct PinnedBuffer {
    memory: Option<CudaHost>,
    bytes: usize,
}

impl PinnedBuffer {
    pub(super) const fn new() -> Self {
        Self {
            memory: None,
            bytes: 0,
        }
    }

    pub(super) fn reserve(&mut self, device: &CudaDevice, bytes: usize) -> Result<(), DecodeError> {
        let bytes = bytes.max(1).next_multiple_of(4096);
        if bytes > self.bytes {
            self.memory = None;
            self.bytes = 0;
            self.memory = Some(device.allocate_host(bytes)?);
            self.bytes = bytes;
        }
        Ok(())
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.memory
            .as_ref()
            .map_or(std::ptr::dangling_mut::<u64>().cast(), CudaHost::start)
    }

    /// Writes `data` from byte `at` on.
    ///
    /// # Safety
    /// - No copy that is in flight reads or writes these bytes.
    pub(super) unsafe fn put(&mut self, at: usize, data: &[u8]) {
        assert!(at + data.len() <= self.bytes);
        // SAFETY:
        // - `CudaDevice::allocate_host` gave at least `bytes` bytes at `start`, and the range is in
        //   them, checked above.
        // - They are borrowed mutably, so that `data` is elsewhere; the device leaves them alone,
        //   as the caller says.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.start().add(at), data.len()) };
    }

    /// `len` elements from byte `at` on.
    ///
    /// # Safety
    /// - No copy writes these bytes as long as the slice lives.
    ///
    /// # Panics
    /// If they are beyond the end, or `at` is not a multiple of their alignment.
    pub(super) unsafe fn slice<T: bytemuck::AnyBitPattern>(&self, at: usize, len: usize) -> &[T] {
        assert!(at + len * size_of::<T>() <= self.bytes && at.is_multiple_of(align_of::<T>()));
        // SAFETY:
        // - `CudaDevice::allocate_host` initialised `bytes` bytes, aligned to 256; the elements are in
        //   them, checked above.
        // - The device leaves them alone, as the caller says; the host writes them only by
        //   `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start().add(at).cast(), len) }
    }
}
