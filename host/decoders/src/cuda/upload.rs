//! Upload of a batch to the device: through pinned memory that the stream keeps, or directly if the
//! batch lies in pinned memory itself.
//!
//! A device can fetch only from pinned memory by itself. A batch in ordinary memory is therefore
//! copied twice, by the CPU into the staging buffer and by the device out of it. In pieces of 2 MiB
//! the two copies overlap, so that the batch arrives about as soon as the slower of the two is
//! done.

use super::batch::{BatchOffsets, DeviceBatch, PinnedBatch};
use super::buffer::{Buffer, PinnedBuffer};
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use ut_data::DecodeError;
use ut_data::input::BatchView;

/// Size in bytes of a piece that the CPU copies to pinned memory while the device fetches the
/// previous piece: large enough that the fixed cost of a copy does not matter, small enough that
/// the two overlap.
const PIECE: usize = 2 << 20;

/// A stream's staging memory on the host, and the place of its batch on the device.
pub(super) struct Upload {
    staging: PinnedBuffer,
    input: Buffer,
    bytes: u64,
}

impl Upload {
    pub(super) const fn new() -> Self {
        Self {
            staging: PinnedBuffer::new(),
            input: Buffer::new(),
            bytes: 0,
        }
    }

    pub(super) const fn moved(&self) -> u64 {
        self.bytes
    }

    /// Copies a batch from the host's memory, which is free again when this returns.
    ///
    /// # Safety
    /// - `stream` is the device's, and nothing is in flight on it that reads or writes this.
    /// - This is not dropped before the stream was waited for.
    pub(super) unsafe fn write_host(
        &mut self,
        device: &CudaDevice,
        stream: &CudaStream,
        batch: &BatchView<'_>,
    ) -> Result<DeviceBatch, DecodeError> {
        let packing = BatchOffsets::of(batch);
        self.staging.reserve(device, packing.bytes)?;
        self.input.reserve(device, packing.bytes)?;
        let mut written = 0;
        for (at, part) in packing.parts(batch) {
            for (i, piece) in part.chunks(PIECE).enumerate() {
                let at = at + i * PIECE;
                // SAFETY: copies in flight end at `written`, and `at` is not before it: pieces come
                // in order.
                unsafe { self.staging.put(at, piece) };
                let end = at + piece.len();
                if end - written >= PIECE {
                    // SAFETY: required of the caller; the bytes before `end` were staged above.
                    unsafe { self.write(stream, written, end) }?;
                    written = end;
                }
            }
        }
        // SAFETY: nothing else uses the buffers, and they live long enough, as the caller says.
        unsafe { self.write(stream, written, packing.bytes) }?;
        Ok(packing.at(self.input.address()))
    }

    /// Copies bytes `from` to `to` of the staged batch.
    ///
    /// # Safety
    /// - `stream` is the device's, and nothing in flight there uses these bytes.
    /// - The host leaves them alone, and this is not dropped, until the stream was waited for.
    unsafe fn write(
        &mut self,
        stream: &CudaStream,
        from: usize,
        to: usize,
    ) -> Result<(), DecodeError> {
        if from == to {
            return Ok(());
        }
        assert!(from < to && to <= self.staging.bytes().min(self.input.bytes()));
        self.bytes += (to - from) as u64;
        let address = self.input.address() + from as u64;
        // SAFETY: inside of the staging buffer, checked above.
        let start = unsafe { self.staging.start().add(from) };
        // SAFETY:
        // - The stream is the device's, and the host's bytes are left alone until it has done this,
        //   as the caller says.
        // - Both buffers are this device's, and the bytes are inside of both, checked above.
        unsafe { stream.write(address, start, to - from) }
    }

    /// Copies a batch from pinned memory, by one copy.
    ///
    /// # Safety
    /// - `stream` is the device's, and nothing is in flight on it that reads or writes this.
    /// - Neither this nor `pinned` is dropped before the stream was waited for.
    pub(super) unsafe fn write_pinned(
        &mut self,
        device: &CudaDevice,
        stream: &CudaStream,
        pinned: &PinnedBatch,
    ) -> Result<DeviceBatch, DecodeError> {
        let bytes = pinned.bytes();
        self.input.reserve(device, bytes)?;
        if bytes > 0 {
            self.bytes += bytes as u64;
            // SAFETY: stream and both sides are as the caller says; a pinned batch is never written
            // after it was made, and the device has room, reserved above.
            unsafe { stream.write(self.input.address(), pinned.memory.start(), bytes) }?;
        }
        Ok(pinned.packing.at(self.input.address()))
    }
}
