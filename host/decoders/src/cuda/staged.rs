//! A stage of a sequence with what a framework has around it: memory, streams, and the wait for the
//! number of hits, with which it finds memory for them. For measurements, and for comparing a
//! stage's hits with the reference.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::batch::{BatchOffsets, ResidentBatch};
use super::buffer::{Buffer, PinnedBuffer};
use super::decoder::CudaConfig;
use super::device::{CopyRows, TransferBytes};
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use super::output::{DeviceHits, DeviceOutput, HostHits, N_ARRAYS, Results, WORD};
use super::sequence::{CudaSequence, SequenceHits, SequenceWork, WRONG_VERSION, failure};
use crate::plan::Plan;
use ut_data::detector::DetectorTables;
use ut_data::input::BatchView;
use ut_data::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};
use ut_kernels::report::N_COUNTS;

/// A stream with its batch and all memory of its decoding.
struct Flight {
    queue: CudaStream,
    scratch: Buffer,
    output: DeviceOutput,
    /// What the count says, then what the writing says: two words each.
    said: PinnedBuffer,
    /// Results in the host's memory, where they are wanted there.
    home: PinnedBuffer,
    /// Batch whose hits are being counted.
    counted: Option<(Arc<ResidentBatch>, Plan)>,
    /// Number of hits being written.
    written: Option<usize>,
    /// Batches that the stream may read until it was waited for.
    held: Vec<Arc<ResidentBatch>>,
    /// Is true if something was put on the stream since it was waited for.
    dirty: bool,
}

impl Flight {
    fn new(device: &CudaDevice) -> Result<Self, DecodeError> {
        let mut said = PinnedBuffer::new();
        said.reserve(device, 4 * WORD)?;
        Ok(Self {
            queue: device.stream()?,
            scratch: Buffer::new(),
            output: DeviceOutput::new(),
            said,
            home: PinnedBuffer::new(),
            counted: None,
            written: None,
            held: Vec::new(),
            dirty: false,
        })
    }

    /// Work space, with the place of what the count says (0) or the writing (1).
    fn work(&self, place: usize) -> SequenceWork {
        let scratch = (self.scratch.address(), self.scratch.bytes());
        // SAFETY: four words were reserved.
        let result = unsafe { self.said.start().add(2 * place * WORD) }.cast();
        SequenceWork { scratch, result }
    }

    /// Waits for the stream. Until that is possible, its memory may be in use.
    fn settle(&mut self) -> Result<(), DecodeError> {
        if self.dirty {
            self.queue.synchronize()?;
            self.dirty = false;
        }
        self.held.clear();
        Ok(())
    }

    /// Waits for the stream, and checks that all hits of its last batch were written. Returns what
    /// the count says.
    fn wait(&mut self) -> Result<[u32; 2], DecodeError> {
        self.settle()?;
        // SAFETY: the stream was waited for.
        let said = unsafe { self.said.slice::<u32>(0, 4) };
        if let Some(n) = self.written.take()
            && (said[2] as usize != n || said[3] & !WRONG_VERSION != 0)
        {
            let [found, status] = [said[2], said[3]];
            return Err(failure(format!(
                "{n} hits were counted, and {found} written, with status {status}"
            )));
        }
        Ok([said[0], said[1]])
    }
}

/// Decodes by a [`CudaSequence`] as a framework does: each batch is counted, the host waits for
/// the number of hits, and the hits are written to memory that has room for them. Batches lie on
/// the device, and hits stay there. It always launches the kernels of
/// [`Pipeline::Ranked`](crate::Pipeline::Ranked).
pub struct CudaSequenceDecoder {
    /// Never freed if a stream cannot be waited for.
    stage: ManuallyDrop<CudaSequence>,
    flights: Vec<Flight>,
}

impl Drop for CudaSequenceDecoder {
    fn drop(&mut self) {
        // There is no caller to report a failure to.
        let failures = self
            .flights
            .iter_mut()
            .filter_map(|flight| flight.settle().err());
        if failures.count() > 0 {
            std::mem::forget(std::mem::take(&mut self.flights));
        } else {
            // SAFETY: the field is not used any more, and dropped here alone.
            unsafe { ManuallyDrop::drop(&mut self.stage) };
        }
    }
}

impl CudaSequenceDecoder {
    /// Creates a decoder on the GPU and the number of streams of `config`, with its launch
    /// parameters. Each stream has a batch in flight.
    pub fn new(
        tables: &DetectorTables,
        options: DecodeOptions,
        config: &CudaConfig,
    ) -> Result<Self, DecodeError> {
        let device = config.device()?;
        let flights = (0..config.streams())
            .map(|_| Flight::new(&device))
            .collect::<Result<Vec<_>, _>>()?;
        let stage = CudaSequence::new(device, &flights[0].queue, tables, options, config.launch)?;
        Ok(Self {
            stage: ManuallyDrop::new(stage),
            flights,
        })
    }

    /// Copies a batch to the device, to be decoded any number of times, and waits for the copy.
    ///
    /// # Errors
    /// If all banks have another version than the tables, there are bytes and no bank, 32 bits
    /// cannot count the batch, or the device fails.
    pub fn upload(&mut self, batch: BatchView<'_>) -> Result<Arc<ResidentBatch>, DecodeError> {
        self.stage.setup.tables.host.check.check(&batch)?;
        self.stage.plan(&BatchOffsets::of(&batch).at(0))?;
        self.stage.device.begin()?;
        let mut moved = TransferBytes::default();
        ResidentBatch::new(
            &self.stage.device,
            &self.flights[0].queue,
            &batch,
            &mut moved,
        )
    }

    /// Decodes batches, with one in flight on every stream, and returns the number of their hits.
    ///
    /// # Errors
    /// The first error of a batch. The next call waits for the batches that are still in flight
    /// then.
    pub fn decode_all<'a>(
        &mut self,
        batches: impl IntoIterator<Item = &'a Arc<ResidentBatch>>,
    ) -> Result<usize, DecodeError> {
        self.stage.device.begin()?;
        for flight in &mut self.flights {
            // After an error.
            flight.written = None;
            flight
                .held
                .extend(flight.counted.take().map(|(batch, _)| batch));
            flight.settle()?;
        }
        let (streams, mut found, mut next) = (self.flights.len(), 0, 0);
        for batch in batches {
            found += self.write(next)?;
            self.count(next, batch)?;
            next = (next + 1) % streams;
        }
        for i in 0..streams {
            found += self.write((next + i) % streams)?;
        }
        for flight in &mut self.flights {
            flight.wait()?;
        }
        Ok(found)
    }

    /// Enqueues the counting of a batch on a stream, after the writing of the previous batch.
    fn count(&mut self, i: usize, batch: &Arc<ResidentBatch>) -> Result<(), DecodeError> {
        let (stage, flight) = (&mut *self.stage, &mut self.flights[i]);
        if !batch.memory.is_of(&stage.device) {
            return Err(failure(
                "the batch lies in the memory of another device: upload it again",
            ));
        }
        let Some(plan) = stage.plan(&batch.batch)? else {
            return Ok(());
        };
        let bytes = stage.scratch_bytes(&batch.batch)?;
        if bytes > flight.scratch.bytes() {
            flight.wait()?;
            flight.scratch.reserve(&stage.device, bytes)?;
        }
        flight.counted = Some((Arc::clone(batch), plan));
        flight.dirty = true;
        // SAFETY:
        // - The stream is the device's, and this waits for it before it drops anything, or never
        //   drops it.
        // - The batch lies on this device, and `counted`, then `held`, has it until the stream was
        //   waited for.
        // - The work space was reserved; what was put on the stream before is done with it by then.
        // - The host reads what the count says only after it has waited.
        unsafe { stage.count(&flight.queue, &batch.batch, flight.work(0)) }
    }

    /// Waits for the count on a stream, if there is one, puts the writing there, and returns the
    /// number of hits.
    fn write(&mut self, i: usize) -> Result<usize, DecodeError> {
        let (stage, flight) = (&mut *self.stage, &mut self.flights[i]);
        let Some((batch, plan)) = flight.counted.take() else {
            return Ok(0);
        };
        // For the time until the wait, and below for the writing.
        flight.held.push(Arc::clone(&batch));
        let [n, status] = flight.wait()?;
        if status != 0 {
            let message = "the count ended with status {}: the batch's list names an event that it does not have, or its \
                           fragments overlap";
            return Err(failure(message.replace("{}", &status.to_string())));
        }
        let n = n as usize;
        let stride = flight.output.stride();
        // Batches differ: room for somewhat larger ones, too.
        let room = if n.max(1) > stride {
            (n + n / 8 + 1).next_multiple_of(32)
        } else {
            stride
        };
        flight.output.reserve(&stage.device, &plan, room)?;
        let DeviceHits {
            address,
            stride,
            offsets,
            report,
            ..
        } = flight.output.on_device(&plan, n);
        let hits = SequenceHits {
            arrays: std::array::from_fn(|array| address + (array * stride * WORD) as u64),
            max_hits: n,
            offsets: (offsets, plan.counters as usize + 1),
            report: Some((report, plan.events as usize * N_COUNTS)),
        };
        flight.held.push(Arc::clone(&batch));
        (flight.written, flight.dirty) = (Some(n), true);
        // SAFETY:
        // - As for the count, which was of this batch, on this stream, with this work space.
        // - The arrays have room for `n` hits, offsets and report for the plan: reserved above,
        //   when nothing was in flight.
        unsafe { stage.write(&flight.queue, &batch.batch, flight.work(1), &hits) }?;
        Ok(n)
    }
}

impl Decoder for CudaSequenceDecoder {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn decode(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHits,
        report: &mut BatchReport,
    ) -> Result<(), DecodeError> {
        let n_groups = self.stage.n_groups();
        // Refused before any work is done.
        hits.begin(batch.n_events, n_groups)?;
        let batch = self.upload(batch)?;
        let n = self.decode_all([&batch])?;
        let Some(plan) = self.stage.plan(&batch.batch)? else {
            return HostHits::none(n_groups).copy_to(hits, report);
        };
        let (device, flight) = (&self.stage.device, &mut self.flights[0]);
        let results = Results::of(&plan);
        // (Without the status, which is not there.)
        let words = results.status();
        flight.home.reserve(device, (words + N_ARRAYS * n) * WORD)?;
        let from = flight.output.on_device(&plan, n);
        flight.dirty = true;
        let rows = CopyRows {
            n: N_ARRAYS,
            width: n * WORD,
            host: n * WORD,
            device: from.stride * WORD,
        };
        // SAFETY: both sides have that many bytes, reserved here and for the plan; the host looks
        // there after the wait.
        unsafe {
            flight.queue.read(
                from.report,
                flight.home.start(),
                CopyRows::one(words * WORD),
            )
        }?;
        if n > 0 {
            // SAFETY: the plan holds that many bytes of hits, and `reserve` took room for them
            // behind the report; the host looks there after the wait.
            unsafe {
                flight
                    .queue
                    .read(from.address, flight.home.start().add(words * WORD), rows)
            }?;
        }
        flight.settle()?;
        // SAFETY: the stream was waited for.
        let all = unsafe { flight.home.slice::<u32>(0, words + N_ARRAYS * n) };
        let (of_events, arrays) = all.split_at(words);
        HostHits::new((n, n_groups), results, of_events, (arrays, n), &batch.meta)
            .copy_to(hits, report)
    }
}
