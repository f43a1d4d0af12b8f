//! A batch on its way to the device, and what comes back.

use super::BatchStream;
use crate::decoder::DecodeError;
use crate::decoder::cuda::batch::{DeviceBatch, Packing, PinnedBatch};
use crate::decoder::cuda::device::{Device, Rows};
use crate::decoder::cuda::output::{N_ARRAYS, WORD};
use crate::input::BatchView;

/// The CPU copies a batch to pinned memory in pieces of so many bytes, and the device takes a piece while the next one is
/// copied: large enough that a copy's own cost does not count, small enough that both overlap.
const PIECE: usize = 2 << 20;

impl<D: Device> BatchStream<D> {
    /// Copies hits `from` to `to` of each array.
    pub(super) fn read_hits(&mut self, device: &mut D, from: usize, to: usize) -> Result<(), DecodeError> {
        let (host, device_stride) = (self.stride * WORD, self.output.stride() * WORD);
        let rows = Rows { n: N_ARRAYS, width: (to - from) * WORD, host, device: device_stride };
        self.moved.from_device += rows.bytes() as u64;
        // SAFETY: `to` is within both strides; nobody looks there before the stream is done.
        unsafe {
            let start = self.hits.start().add(from * WORD);
            device.read(&self.queue, self.output.hit(from), start, rows)
        }
    }

    /// Copies a batch from the host's memory, which is free again when this returns.
    pub(super) fn write_host(&mut self, device: &mut D, batch: &BatchView<'_>) -> Result<DeviceBatch, DecodeError> {
        let packing = Packing::of(batch);
        self.reserve_input(device, packing.bytes)?;
        let mut written = 0;
        for (at, part) in packing.parts(batch) {
            for (i, piece) in part.chunks(PIECE).enumerate() {
                let at = at + i * PIECE;
                // SAFETY: the stream is free, and the pieces before end before this one.
                unsafe { self.staging.put(at, piece) };
                let end = at + piece.len();
                if end - written >= PIECE {
                    self.write(device, written, end)?;
                    written = end;
                }
            }
        }
        self.write(device, written, packing.bytes)?;
        Ok(packing.at(self.input.address()))
    }

    /// Copies bytes `from` to `to` of the staged batch.
    fn write(&mut self, device: &mut D, from: usize, to: usize) -> Result<(), DecodeError> {
        if from == to {
            return Ok(());
        }
        self.moved.to_device += (to - from) as u64;
        // SAFETY: both sides were reserved; the host writes there again only when the stream is free.
        unsafe {
            device.write(&self.queue, self.input.address() + from as u64, self.staging.start().add(from), to - from)
        }
    }

    /// The same from pinned memory, by one copy.
    pub(super) fn write_pinned(&mut self, device: &mut D, pinned: &PinnedBatch<D>) -> Result<DeviceBatch, DecodeError> {
        let bytes = pinned.bytes();
        self.input.reserve(device, bytes)?;
        if bytes > 0 {
            self.moved.to_device += bytes as u64;
            // SAFETY: the job keeps the pinned batch, which nobody changes; there is room for it.
            unsafe { device.write(&self.queue, self.input.address(), pinned.memory.start(), bytes) }?;
        }
        Ok(pinned.packing.at(self.input.address()))
    }

    /// A word that the kernels have written.
    pub(super) fn read_word(&mut self, device: &mut D, place: u64) -> Result<u32, DecodeError> {
        self.moved.from_device += WORD as u64;
        // SAFETY: a word that the kernels have written, to a place that is reserved; the stream is waited for before
        // anybody looks there.
        unsafe {
            device.read(&self.queue, place, self.results.start(), Rows::one(WORD))?;
            device.synchronize(&self.queue)?;
            Ok(self.results.slice::<u32>(0, 1)[0])
        }
    }
}
