//! Batches that lie on a device before they are decoded, and hits that stay there: what a sequence of a trigger has, and
//! what measures the kernels alone.

use super::pipeline::{Device, DeviceBatch, DeviceDecoder, DeviceHits};
use crate::backend::DecodeError;
use crate::input::{BatchView, EventBatch};

/// Batches in a device's memory, with a decoder of that device.
pub struct Resident<D: Device> {
    decoder: DeviceDecoder<D>,
    batches: Vec<DeviceBatch>,
    /// Where the batches are.
    _memory: Vec<D::Memory>,
}

impl<D: Device> Resident<D> {
    /// Copies `batches` to the device of `decoder`.
    ///
    /// # Errors
    /// When they do not fit, or what the device said.
    pub fn new(mut decoder: DeviceDecoder<D>, batches: &[EventBatch]) -> Result<Self, DecodeError> {
        let device = decoder.device();
        device.begin()?;
        let mut memory = Vec::new();
        let mut placed = |bytes: &[u8]| {
            let place = device.allocate(bytes.len().max(1))?;
            // SAFETY: `bytes` is borrowed for longer than this call, which ends with a wait, whether or not all went well.
            let written = if bytes.is_empty() { Ok(()) } else { unsafe { device.write(&place, bytes) } };
            let waited = device.synchronize();
            written.and(waited)?;
            let address = D::address(&place);
            memory.push(place);
            Ok::<u64, DecodeError>(address)
        };
        let mut on_device = Vec::with_capacity(batches.len());
        for batch in batches {
            let BatchView { layout, n_events, raw, offsets, sizes, types, versions, .. } = batch.view();
            let mut words = |words: &[u32]| Ok::<_, DecodeError>((placed(bytemuck::cast_slice(words))?, words.len()));
            on_device.push(DeviceBatch {
                layout,
                n_events,
                offsets: words(offsets)?,
                sizes: words(sizes)?,
                types: words(types)?,
                versions: versions.map(&mut words).transpose()?,
                raw: (placed(raw)?, raw.len()),
            });
        }
        Ok(Self { decoder, batches: on_device, _memory: memory })
    }

    /// How many batches there are.
    pub const fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Decodes batch `i`.
    ///
    /// # Errors
    /// As [`DeviceDecoder::decode_resident`].
    pub fn decode(&mut self, i: usize) -> Result<DeviceHits, DecodeError> {
        // SAFETY: `new` put the batch into memory of this device, which lives as long as this; nobody writes there.
        unsafe { self.decoder.decode_resident(&self.batches[i]) }
    }

    /// The device.
    pub const fn device(&mut self) -> &mut D {
        self.decoder.device()
    }
}

impl<D: Device> DeviceDecoder<D> {
    /// Copies a batch to the device, decodes it, and leaves the hits there.
    ///
    /// # Errors
    /// As [`Decoder::decode`](crate::backend::Decoder::decode).
    pub fn decode_and_leave(&mut self, batch: BatchView<'_>) -> Result<DeviceHits, DecodeError> {
        let batch = self.upload(batch)?;
        // SAFETY: `upload` put the batch into buffers of this decoder.
        unsafe { self.decode_resident(&batch) }
    }
}
