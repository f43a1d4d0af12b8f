//! Hits back to back in memory of exactly their size, for a caller that waits: a stage of a sequence with a work space of its
//! own.

use ut_kernels::fused::look_back::LIMIT;
use ut_kernels::report::N_COUNTS;

use super::buffer::{Buffer, HostBuffer};
use super::device::Device;
use super::output::{N_ARRAYS, WORD};
use super::sequence::{DeviceSequence, SequenceHits, SequenceWork};
use super::upload::Upload;
use crate::decoder::launch::LaunchParams;
use crate::decoder::{DecodeError, DecodeOptions};
use crate::detector::DetectorTables;
use crate::input::BatchView;

/// The hits of a batch on a device: seven arrays of `hits` words, one behind the other (`y_begin`, `y_end`, `z_at_y_eq0`,
/// `x_at_y_eq0`, `dx_dy`, `weight`, `id`), then the `n_events * n_groups + 1` ends of groups, then `N_COUNTS` words an event
/// of the report.
#[derive(Debug)]
pub struct DenseHits<M> {
    /// Where they are.
    pub memory: M,
    /// Hits of the batch.
    pub hits: usize,
}

/// Decodes a batch at a time by the fused pipeline, each into memory of its own.
pub struct DenseDecoder<D: Device> {
    sequence: DeviceSequence<D>,
    stream: D::Stream,
    buffers: Buffers<D>,
}

/// What the device may use until the stream was waited for.
struct Buffers<D: Device> {
    input: Upload<D>,
    scratch: Buffer<D>,
    /// The number of hits, and what was wrong.
    result: HostBuffer<D>,
}

impl<D: Device> Buffers<D> {
    const fn new() -> Self {
        Self { input: Upload::new(), scratch: Buffer::new(), result: HostBuffer::new() }
    }
}

impl<D: Device> DenseDecoder<D> {
    /// A decoder for one detector and one set of options, on a stream of the device.
    ///
    /// # Errors
    /// As [`DeviceSequence::new`].
    pub fn new(
        device: D,
        stream: D::Stream,
        tables: &DetectorTables,
        options: DecodeOptions,
    ) -> Result<Self, DecodeError> {
        let sequence = DeviceSequence::new(device, &stream, tables, options, LaunchParams::default())?;
        Ok(Self { sequence, stream, buffers: Buffers::new() })
    }

    /// Decodes a batch, and waits.
    ///
    /// # Errors
    /// If the batch is too large or lists an event that it does not have, or what the device said.
    pub fn decode(&mut self, batch: BatchView<'_>) -> Result<DenseHits<D::Memory>, DecodeError> {
        batch.check_selected()?;
        let mut to = None;
        let done = self.put(&batch, &mut to);
        let waited = self.sequence.device_mut().synchronize(&self.stream);
        if waited.is_err() {
            // What is on the stream may still use it.
            std::mem::forget((std::mem::replace(&mut self.buffers, Buffers::new()), to.take()));
        }
        let hits = done?;
        waited?;
        let missing = || DecodeError::Device { backend: "cuda", message: "nothing was allocated".to_owned() };
        Ok(DenseHits { memory: to.ok_or_else(missing)?, hits })
    }

    /// Puts everything on the stream, and waits for the number of hits only. The hits' memory is kept in `to`.
    fn put(&mut self, batch: &BatchView<'_>, to: &mut Option<D::Memory>) -> Result<usize, DecodeError> {
        let Self { sequence, stream, buffers: Buffers { input, scratch, result } } = self;
        sequence.device_mut().begin()?;
        // SAFETY: nothing is in flight: `decode` waits for the stream before it returns, or gives the buffers up.
        let there = unsafe { input.write_host(sequence.device_mut(), stream, batch) }?;
        let needed = sequence.scratch_bytes(&there)?;
        scratch.reserve(sequence.device_mut(), needed)?;
        result.reserve(sequence.device_mut(), 2 * WORD)?;
        let work = SequenceWork { scratch: (scratch.address(), scratch.bytes()), result: result.start().cast() };
        // SAFETY:
        // - the stream is the device's, as `DeviceSequence::new` checked;
        // - batch, work space and result are in the buffers, which live and are not used otherwise until the stream was
        //   waited for, or for good.
        unsafe { sequence.count(stream, &there, work) }?;
        sequence.device_mut().synchronize(stream)?;
        // SAFETY: the stream was waited for.
        let hits = countable(unsafe { result.slice::<u32>(0, 2) }[0])?;
        let (n_offsets, n_report) = (batch.n_events * sequence.n_groups() + 1, batch.n_events * N_COUNTS);
        let memory = to.insert(sequence.device_mut().allocate((N_ARRAYS * hits + n_offsets + n_report) * WORD)?);
        let at = |words: usize| D::address(memory) + (words * WORD) as u64;
        let to = SequenceHits {
            arrays: std::array::from_fn(|i| at(i * hits)),
            max_hits: hits,
            offsets: (at(N_ARRAYS * hits), n_offsets),
            report: Some((at(N_ARRAYS * hits + n_offsets), n_report)),
        };
        // SAFETY:
        // - as for the count, which was made of this batch with this work space;
        // - the arrays, offsets and report are in `memory`, one behind the other, and live as long as the buffers do.
        unsafe { sequence.write(stream, &there, work, &to) }?;
        Ok(hits)
    }
}

/// What the device counted, where it can be written. Its sums stay at 2³² - 1 and never wrap, so a number below the limit is
/// the number of hits.
fn countable(hits: u32) -> Result<usize, DecodeError> {
    if hits < LIMIT {
        return Ok(hits as usize);
    }
    let message =
        format!("the batch has {LIMIT} hits or more, as many as no batch may have: count fewer events at a time");
    Err(DecodeError::Device { backend: "cuda", message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_stayed_at_its_end_is_no_number_of_hits() {
        assert_eq!((countable(0).unwrap(), countable(LIMIT - 1).unwrap()), (0, LIMIT as usize - 1));
        for hits in [LIMIT, u32::MAX] {
            let error = countable(hits).unwrap_err().to_string();
            assert!(error.contains("count fewer events at a time"), "{error}");
        }
    }
}
