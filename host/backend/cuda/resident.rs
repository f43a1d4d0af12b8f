//! Batches that lie on a device before they are decoded, and hits that stay there: what a sequence of a trigger has, and
//! what measures the kernels alone.

use std::sync::Arc;

use super::batch::ResidentBatch;
use super::decoder::DeviceDecoder;
use super::device::Device;
use super::output::DeviceHits;
use super::stream::Want;
use crate::backend::DecodeError;
use crate::input::{BatchView, EventBatch};

/// Batches in a device's memory, with a decoder of that device.
pub struct Resident<D: Device> {
    decoder: DeviceDecoder<D>,
    batches: Vec<Arc<ResidentBatch<D>>>,
}

impl<D: Device> Resident<D> {
    /// Copies `batches` to the device of `decoder`.
    ///
    /// # Errors
    /// When they do not fit, or what the device said.
    pub fn new(mut decoder: DeviceDecoder<D>, batches: &[EventBatch]) -> Result<Self, DecodeError> {
        let batches = batches.iter().map(|batch| decoder.upload(batch.view())).collect::<Result<_, _>>()?;
        Ok(Self { decoder, batches })
    }

    /// How many batches there are.
    pub const fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Decodes batch `i`, one at a time.
    ///
    /// # Errors
    /// As [`DeviceDecoder::collect`].
    pub fn decode(&mut self, i: usize) -> Result<DeviceHits, DecodeError> {
        let ticket = self.decoder.submit(&self.batches[i], Want::Nothing)?;
        self.decoder.collect_resident(ticket)
    }

    /// Decodes all of them `passes` times over, on all streams, as [`DeviceDecoder::repeat_resident`].
    ///
    /// # Errors
    /// As there.
    pub fn repeat(&mut self, passes: usize) -> Result<f32, DecodeError> {
        self.decoder.repeat_resident(&self.batches, passes)
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
    /// As [`DeviceDecoder::collect`].
    pub fn decode_and_leave(&mut self, batch: BatchView<'_>) -> Result<DeviceHits, DecodeError> {
        let ticket = self.submit(batch, Want::Nothing)?;
        self.collect_resident(ticket)
    }
}
