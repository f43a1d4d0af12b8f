//! Many batches, so many at a time as there are streams.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::{DeviceBatch, ResidentBatch, Source};
use super::decoder::{DeviceDecoder, Ticket};
use super::device::Device;
use super::output::{DeviceHits, HostHits};
use super::stream::{BatchStream, Readback};
use crate::decoder::DecodeError;
use crate::decoder::plan::Plan;

impl<D: Device> DeviceDecoder<D> {
    /// Decodes batches, whatever [`submit`](Self::submit) takes, with one under way on every stream; `each` is given the
    /// hits of one after the other, in order.
    ///
    /// # Errors
    /// The first one, of a batch or of `each`; no batch is under way then.
    pub fn decode_all<'a, S: Into<Source<'a, D>>>(
        &mut self,
        batches: impl IntoIterator<Item = S>,
        mut each: impl FnMut(HostHits<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.in_turn(batches, Readback::Hits, |decoder, ticket| each(decoder.collect(ticket)?))
    }

    /// As [`decode_all`](Self::decode_all), but the hits stay on the device.
    ///
    /// # Errors
    /// As there.
    pub fn decode_all_and_leave<'a, S: Into<Source<'a, D>>>(
        &mut self,
        batches: impl IntoIterator<Item = S>,
        mut each: impl FnMut(DeviceHits) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.in_turn(batches, Readback::None, |decoder, ticket| each(decoder.collect_resident(ticket)?))
    }

    fn in_turn<'a, S: Into<Source<'a, D>>>(
        &mut self,
        batches: impl IntoIterator<Item = S>,
        readback: Readback,
        mut each: impl FnMut(&mut Self, Ticket) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut under_way = VecDeque::with_capacity(self.streams());
        let mut done = batches.into_iter().try_for_each(|batch| {
            let is_full = !self.streams.iter().any(BatchStream::is_free);
            if let Some(oldest) = under_way.pop_front_if(|_| is_full) {
                each(self, oldest)?;
            }
            under_way.push_back(self.submit(batch, readback)?);
            Ok(())
        });
        for ticket in under_way {
            // After an error the rest is waited for and forgotten.
            done = match done {
                Ok(()) => each(self, ticket),
                Err(error) => {
                    let _ = self.collect_resident(ticket);
                    Err(error)
                }
            };
        }
        done
    }

    /// Decodes batches that lie on the device `passes` times over, on all streams in turn, kernels alone: nothing is
    /// copied, nobody waits between them. Gives the milliseconds from the first kernel's begin to the last one's end, by
    /// the device's clock. Before the clock runs each stream has decoded each batch once.
    ///
    /// # Errors
    /// When a batch is under way, or as [`Decoder::decode`].
    pub fn repeat_resident(&mut self, batches: &[Arc<ResidentBatch<D>>], passes: usize) -> Result<f32, DecodeError> {
        if !self.streams.iter().all(BatchStream::is_free) {
            return Err(self.failure("a batch is under way: collect it first"));
        }
        let plans = batches.iter().map(|batch| self.plan_at(&batch.batch)).collect::<Result<Vec<_>, _>>()?;
        self.device.begin()?;
        for stream in &mut self.streams {
            for (batch, &plan) in batches.iter().zip(&plans) {
                stream.submit(&mut self.device, &self.setup, batch.into(), plan, Readback::None, 0)?;
                stream.collect(&mut self.device, &self.setup, self.name)?;
            }
        }
        let work: Vec<_> = plans.into_iter().zip(batches).filter_map(|(plan, b)| Some((plan?, b.batch))).collect();
        let timed = self.timed(&work, passes);
        // Whatever happened, nothing is under way when this returns.
        let waited: Vec<_> = self.streams.iter().map(|stream| self.device.synchronize(stream.queue())).collect();
        let (start, end) = timed?;
        waited.into_iter().collect::<Result<(), DecodeError>>()?;
        self.device.elapsed_ms(&start, &end)
    }

    /// Puts all of [`repeat_resident`](Self::repeat_resident) on the streams, and gives its two ends.
    fn timed(&mut self, work: &[(Plan, DeviceBatch)], passes: usize) -> Result<(D::Event, D::Event), DecodeError> {
        let Self { device, streams, setup, .. } = self;
        let (first, others) = streams.split_first().expect("there is one at least");
        let start = device.record(first.queue())?;
        others.iter().try_for_each(|stream| device.wait(stream.queue(), &start))?;
        for (i, (plan, batch)) in (0..passes).flat_map(|_| work).enumerate() {
            let stream = i.checked_rem(others.len() + 1).and_then(|i| i.checked_sub(1)).map_or(first, |i| &others[i]);
            // SAFETY: the caller keeps the batches, and waits for the streams; all of them were collected from each.
            unsafe { stream.again(device, setup, plan, batch) }?;
        }
        for stream in others {
            let end = device.record(stream.queue())?;
            device.wait(first.queue(), &end)?;
        }
        Ok((start, device.record(first.queue())?))
    }
}
