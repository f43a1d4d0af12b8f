//! Many batches, one in flight on each stream.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::{DeviceBatch, ResidentBatch, Source};
use super::decoder::{DeviceDecoder, Ticket};
use super::device::Device;
use super::output::{DeviceHits, HostHits};
use super::stream::{BatchStream, Readback, Request};
use crate::plan::Plan;
use ut_data::DecodeError;

impl<D: Device> DeviceDecoder<D> {
    /// Decodes batches, whatever [`submit`](Self::submit) takes, with one in flight on every stream; `each` gets their
    /// hits in order.
    ///
    /// # Errors
    /// The first error of a batch or of `each`; by then no batch is in flight.
    pub fn decode_all<'a, S: Into<Source<'a, D>>>(
        &mut self,
        batches: impl IntoIterator<Item = S>,
        mut each: impl FnMut(HostHits<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.in_turn(batches, Readback::Hits, |decoder, ticket| each(decoder.collect(ticket)?))
    }

    /// Decodes as [`decode_all`](Self::decode_all) does, but leaves the hits on the device.
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
        let mut in_flight = VecDeque::with_capacity(self.streams());
        let mut done = batches.into_iter().try_for_each(|batch| {
            let is_full = !self.streams.iter().any(BatchStream::is_free);
            if let Some(oldest) = in_flight.pop_front_if(|_| is_full) {
                each(self, oldest)?;
            }
            in_flight.push_back(self.submit(batch, readback)?);
            Ok(())
        });
        for ticket in in_flight {
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

    /// Decodes resident batches `passes` times over, on all streams in turn, kernels alone: nothing is copied, and the
    /// host waits for nothing in between. Returns the milliseconds from the begin of the first kernel to the end of the
    /// last, by the device's clock. Each stream has decoded each batch once before the clock runs.
    ///
    /// # Errors
    /// If a batch is in flight, one lies on another device, or as [`Decoder::decode`](ut_data::Decoder::decode).
    pub fn repeat_resident(&mut self, batches: &[Arc<ResidentBatch<D>>], passes: usize) -> Result<f32, DecodeError> {
        if !self.streams.iter().all(BatchStream::is_free) {
            return Err(self.failure("a batch is in flight: collect it first"));
        }
        batches.iter().try_for_each(|batch| self.check_owner(batch))?;
        let plans = batches.iter().map(|batch| self.plan_at(&batch.batch)).collect::<Result<Vec<_>, _>>()?;
        self.device.begin()?;
        for stream in &mut self.streams {
            for (batch, &plan) in batches.iter().zip(&plans) {
                let request = Request { serial: 0, plan, readback: Readback::None };
                stream.submit(&mut self.device, &self.setup, batch.into(), request)?;
                stream.collect(&mut self.device, &self.setup, self.name)?;
            }
        }
        let work: Vec<_> = plans.into_iter().zip(batches).filter_map(|(plan, b)| Some((plan?, b.batch))).collect();
        // SAFETY: the batches are this device's, and live until the streams were waited for below, or for good; each
        // was collected from each stream just now.
        let timed = unsafe { self.timed(&work, passes) };
        // Nothing is in flight when this returns. Where that cannot be known, the batches stay for good.
        let waited = self.discard_all();
        if waited.is_err() {
            std::mem::forget(batches.to_vec());
        }
        let (start, end) = timed?;
        waited?;
        self.device.elapsed_ms(&start, &end)
    }

    /// Puts the passes of [`repeat_resident`](Self::repeat_resident) on the streams; returns the events at both ends.
    ///
    /// # Safety
    /// - The device can read the batches until the streams were waited for.
    /// - Each plan and batch was collected from each stream before, and nothing larger is reserved since.
    unsafe fn timed(
        &mut self,
        work: &[(Plan, DeviceBatch)],
        passes: usize,
    ) -> Result<(D::Event, D::Event), DecodeError> {
        let Self { device, streams, setup, .. } = self;
        let start = device.record(streams[0].queue())?;
        streams[1..].iter().try_for_each(|stream| device.wait(stream.queue(), &start))?;
        let n_streams = streams.len();
        for (i, (plan, batch)) in (0..passes).flat_map(|_| work).enumerate() {
            // SAFETY: the device can read the batch, which was collected from this stream before, as the caller says.
            unsafe { streams[i % n_streams].again(device, setup, plan, batch) }?;
        }
        for stream in &streams[1..] {
            let end = device.record(stream.queue())?;
            device.wait(streams[0].queue(), &end)?;
        }
        Ok((start, device.record(streams[0].queue())?))
    }
}
