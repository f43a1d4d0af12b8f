//! Many batches, one in flight on each stream.

use std::collections::VecDeque;

use super::batch::Source;
use super::decoder::{CudaDecoder, Ticket};
use super::output::{DeviceHits, HostHits};
use super::stream::{BatchStream, Readback};
use ut_data::DecodeError;

impl CudaDecoder {
    /// Decodes batches, whatever [`submit`](Self::submit) takes, with one in flight on every
    /// stream; `each` gets their hits in order.
    ///
    /// # Errors
    /// The first error of a batch or of `each`; by then no batch is in flight.
    pub fn decode_all<'a, S: Into<Source<'a>>>(
        &mut self,
        batches: impl IntoIterator<Item = S>,
        mut each: impl FnMut(HostHits<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.in_turn(batches, Readback::Hits, |decoder, ticket| {
            each(decoder.collect(ticket)?)
        })
    }

    /// Decodes as [`decode_all`](Self::decode_all) does, but leaves the hits on the device.
    pub fn decode_all_and_leave<'a, S: Into<Source<'a>>>(
        &mut self,
        batches: impl IntoIterator<Item = S>,
        mut each: impl FnMut(DeviceHits) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.in_turn(batches, Readback::None, |decoder, ticket| {
            each(decoder.collect_resident(ticket)?)
        })
    }

    fn in_turn<'a, S: Into<Source<'a>>>(
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
}
