//! Hits back to back in memory of the caller, as a trigger keeps them: one call counts, a second one writes.
//!
//! How many hits a batch has is known only when its clusters are. So that each of the seven arrays is exactly as long as
//! that, a launch counts and the number comes to the host; the caller makes room, and the next launch writes there. Between
//! the two the batch is read again, and nothing else is.

use super::batch::DeviceBatch;
use super::decoder::DeviceDecoder;
use super::device::Device;
use super::hit_memory::HitMemory;
use crate::decoder::DecodeError;

/// A batch whose hits are counted, to be written by the decoder that counted them. One that is dropped leaves its stream
/// occupied until [`DeviceDecoder::discard_all`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "hits that are not written keep a stream"]
pub struct Counted {
    decoder: u64,
    stream: usize,
    serial: u64,
    /// No stream: a batch without events.
    is_empty: bool,
    hits: usize,
}

impl Counted {
    /// Hits of the batch.
    pub const fn hits(&self) -> usize {
        self.hits
    }
}

impl<D: Device> DeviceDecoder<D> {
    /// Counts the hits of a batch that lies on the device, by the fused pipeline, and waits for the number. (A
    /// [`DeviceSequence`](super::DeviceSequence) waits for nothing, and takes no memory of its own.)
    ///
    /// # Safety
    /// Until the hits are written and the stream was waited for, or the batch was discarded, or the decoder dropped:
    /// - The addresses of `batch` are of memory that this decoder's device can read, for as many elements as it says; those
    ///   of words are multiples of 4.
    /// - Nothing is written there, on the device or from the host.
    ///
    /// # Errors
    /// When the decoder has the other pipeline, all its streams have a batch, the batch is too large or lists an event that it
    /// does not have, or what the device said.
    pub unsafe fn count(&mut self, batch: &DeviceBatch) -> Result<Counted, DecodeError> {
        let plan = self.plan_at(batch)?;
        let (stream, serial) = self.free_stream()?;
        let mut counted = Counted { decoder: self.id(), stream, serial, is_empty: plan.is_none(), hits: 0 };
        let Some(ranks) = &self.setup.ranks else {
            return Err(self.failure("hits are counted by the fused pipeline, and this decoder has the other"));
        };
        let Some(plan) = plan else { return Ok(counted) };
        self.device.begin()?;
        let setup = (&*self.setup, ranks);
        // SAFETY: the device can read the batch and its list until then, as the caller says.
        counted.hits = unsafe { self.streams[stream].count(&mut self.device, setup, plan, *batch, serial) }?;
        Ok(counted)
    }

    /// Puts on the stream what writes the hits of a counted batch, and does not wait for it: what the caller puts on the same
    /// stream afterwards finds them there. (A decoder that was made with streams of its own waits for them in
    /// [`discard_all`](Self::discard_all).)
    ///
    /// # Safety
    /// Until the stream was waited for, or the decoder dropped:
    /// - What [`count`](Self::count) asks for still holds.
    /// - The device can write where `to` says, and nothing else reads or writes there.
    ///
    /// # Errors
    /// When the batch is of another decoder or was discarded, or what the device said.
    #[allow(clippy::needless_pass_by_value, reason = "what was counted is written once")]
    pub unsafe fn write(&mut self, counted: Counted, to: &HitMemory) -> Result<(), DecodeError> {
        if counted.decoder != self.id() {
            return Err(self.failure("the hits were counted by another decoder"));
        }
        self.device.begin()?;
        let stream = &mut self.streams[counted.stream];
        if counted.is_empty {
            // SAFETY: the offsets of a batch without events are one word, which the device can write, as the caller says.
            return unsafe { stream.write_nothing(&mut self.device, to.offsets) };
        }
        let Some(ranks) = &self.setup.ranks else { unreachable!("only the fused pipeline counts") };
        // SAFETY: as the caller says.
        let written = unsafe { stream.write(&mut self.device, (&*self.setup, ranks), counted.serial, to) }?;
        if written { Ok(()) } else { Err(self.failure("the counted batch was discarded")) }
    }
}
