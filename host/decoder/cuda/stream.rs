//! One stream and all that belongs to it: the batch that is under way there, its buffers on the device and in pinned
//! memory. Streams share nothing but the tables, so that nothing has to wait for another stream.
//!
//! A batch is put on its stream all at once: copy in, kernels, copy out. How many hits there will be nobody knows then, and
//! waiting to be told would leave the stream idle while the host thinks. So the copy out takes as many hits as the last
//! batch's number, by its bytes, makes likely, and one in 32 more: then nearly always everything is there when the stream
//! is done. What is missing is fetched afterwards; what was too much cost a 32nd of the link's time. The first batch has
//! nothing to go by, and fetches all its hits afterwards.

mod copies;

use std::sync::Arc;

use super::batch::{DeviceBatch, PinnedBatch, ResidentBatch, Source};
use super::buffer::{Buffer, HostBuffer, LINE};
use super::device::{Device, Rows, TransferBytes};
use super::output::{DeviceHits, HostHits, N_ARRAYS, Output, Results, WORD};
use super::setup::Setup;
use super::work::Work;
use crate::decoder::DecodeError;
use crate::decoder::plan::Plan;
use crate::input::EventMeta;
use ut_kernels::fused::look_back::LIMIT;

/// What is to be there when a batch is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readback {
    /// Hits and report, in the host's memory.
    Hits,
    /// Nothing but the number of hits: they stay on the device, as for the next stage of a trigger sequence.
    None,
}

/// A batch that is under way.
struct Job<D: Device> {
    /// Tells it from others of this stream.
    serial: u64,
    /// Nothing where there is no event.
    plan: Option<Plan>,
    batch: DeviceBatch,
    readback: Readback,
    /// Hits that are being copied to the host.
    copied: usize,
    source: Held<D>,
}

/// What must live until the batch is done, and knows what its container knew.
enum Held<D: Device> {
    Nothing,
    Meta(Vec<EventMeta>),
    Pinned(Arc<PinnedBatch<D>>),
    Resident(Arc<ResidentBatch<D>>),
}

impl<D: Device> Held<D> {
    fn meta(&self) -> &[EventMeta] {
        match self {
            Self::Nothing => &[],
            Self::Meta(meta) => meta,
            Self::Pinned(batch) => &batch.meta,
            Self::Resident(batch) => &batch.meta,
        }
    }
}

/// A stream with its buffers.
pub(super) struct BatchStream<D: Device> {
    queue: D::Stream,
    /// The batch on the device, if it did not lie there.
    input: Buffer<D>,
    work: Work<D>,
    output: Output<D>,
    /// The batch on its way to the device.
    staging: HostBuffer<D>,
    results: HostBuffer<D>,
    hits: HostBuffer<D>,
    /// From one array of `hits` to the next.
    stride: usize,
    job: Option<Job<D>>,
    /// Hits a byte of the last batch's raw banks.
    hits_per_byte: f64,
    moved: TransferBytes,
    /// The batch collected last: number of hits, plan, and what must live as long as it is looked at.
    done: Option<(usize, Option<Plan>, Held<D>)>,
}

impl<D: Device> BatchStream<D> {
    pub(super) fn new(device: &mut D, fused: bool) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: device.stream()?,
            input: Buffer::new(),
            work: Work::new(fused),
            output: Output::new(),
            staging: HostBuffer::new(),
            results: HostBuffer::new(),
            hits: HostBuffer::new(),
            stride: 0,
            job: None,
            hits_per_byte: 0.0,
            moved: TransferBytes::default(),
            done: None,
        })
    }

    pub(super) const fn queue(&self) -> &D::Stream {
        &self.queue
    }

    pub(super) const fn is_free(&self) -> bool {
        self.job.is_none()
    }

    /// Whether the batch under way is this one.
    pub(super) fn has(&self, serial: u64) -> bool {
        self.job.as_ref().is_some_and(|job| job.serial == serial)
    }

    pub(super) const fn moved(&self) -> TransferBytes {
        self.moved
    }

    /// Bytes on the device.
    pub(super) fn device_bytes(&self) -> usize {
        self.input.bytes() + self.work.bytes() + self.output.bytes()
    }

    /// Bytes of pinned memory.
    pub(super) const fn pinned_bytes(&self) -> usize {
        self.staging.bytes() + self.results.bytes() + self.hits.bytes()
    }

    /// Makes room on the device for a batch of so many strips, and as many hits. Nothing may be under way.
    pub(super) fn reserve(&mut self, device: &mut D, plan: &Plan, strips: usize) -> Result<(), DecodeError> {
        let strips = strips.next_multiple_of(LINE / WORD);
        self.work.reserve_events(device, plan)?;
        self.work.reserve_strips(device, strips)?;
        self.output.reserve_events(device, plan)?;
        self.output.reserve_hits(device, strips)
    }

    /// Kernels alone.
    ///
    /// # Safety
    /// - As [`submit_resident`](Self::submit_resident), until the stream was waited for; this plan and batch were
    ///   collected from this stream before.
    pub(super) unsafe fn again(
        &self,
        device: &mut D,
        setup: &Setup<D>,
        plan: &Plan,
        batch: &DeviceBatch,
    ) -> Result<(), DecodeError> {
        // SAFETY: the buffers are as large as they have been then; the stream does one batch after the other.
        device.submit_capturable(&self.queue, &|device| unsafe { self.kernels(device, setup, plan, batch) })
    }

    /// # Safety
    /// - `batch` can be read by the device until the stream was waited for.
    /// - The buffers are reserved for the plan.
    unsafe fn kernels(
        &self,
        device: &mut D,
        setup: &Setup<D>,
        plan: &Plan,
        batch: &DeviceBatch,
    ) -> Result<(), DecodeError> {
        // SAFETY: the caller's word; the status word is 0 before the kernels, in the order of the stream.
        unsafe {
            device.zero(&self.queue, self.output.result(Results::of(plan).status()), 1)?;
            self.work.launch(device, &self.queue, setup, plan, batch, &self.output)
        }
    }

    /// Makes room for a batch of so many bytes, on its way and on the device.
    pub(super) fn reserve_input(&mut self, device: &mut D, bytes: usize) -> Result<(), DecodeError> {
        self.staging.reserve(device, bytes)?;
        self.input.reserve(device, bytes)
    }

    /// Puts a batch on the stream, which is free. `plan` says how, `None` where there is no event. Whatever happens,
    /// nothing is under way that is not in `job`.
    pub(super) fn submit(
        &mut self,
        device: &mut D,
        setup: &Setup<D>,
        source: Source<'_, D>,
        plan: Option<Plan>,
        readback: Readback,
        serial: u64,
    ) -> Result<(), DecodeError> {
        let put = match source {
            Source::Host(view) => self.write_host(device, &view).map(|batch| (batch, Held::Meta(view.meta.to_vec()))),
            Source::Pinned(pinned) => self.write_pinned(device, &pinned).map(|batch| (batch, Held::Pinned(pinned))),
            Source::Resident(resident) => Ok((resident.batch, Held::Resident(resident))),
        };
        let started = put.and_then(|(batch, source)| {
            // SAFETY: the batch lies in `input`, or in what `source` keeps.
            unsafe { self.submit_at(device, setup, batch, source, plan, readback, serial) }
        });
        self.or_finish(device, started)
    }

    /// As [`submit`](Self::submit), for a batch that lies on the device.
    ///
    /// # Safety
    /// - It can be read by the device until it is collected.
    pub(super) unsafe fn submit_resident(
        &mut self,
        device: &mut D,
        setup: &Setup<D>,
        batch: DeviceBatch,
        plan: Option<Plan>,
        readback: Readback,
        serial: u64,
    ) -> Result<(), DecodeError> {
        // SAFETY: the caller's word.
        let started = unsafe { self.submit_at(device, setup, batch, Held::Nothing, plan, readback, serial) };
        self.or_finish(device, started)
    }

    /// Waits until nothing is under way, if something went wrong.
    fn or_finish<T>(&mut self, device: &mut D, result: Result<T, DecodeError>) -> Result<T, DecodeError> {
        if result.is_err() {
            self.job = None;
            // What went wrong first is said.
            let _ = device.synchronize(&self.queue);
        }
        result
    }

    /// # Safety
    /// - `batch` can be read by the device until it is collected.
    #[expect(clippy::too_many_arguments, reason = "two callers")]
    unsafe fn submit_at(
        &mut self,
        device: &mut D,
        setup: &Setup<D>,
        batch: DeviceBatch,
        source: Held<D>,
        plan: Option<Plan>,
        readback: Readback,
        serial: u64,
    ) -> Result<(), DecodeError> {
        self.done = None;
        let mut job = Job { serial, plan, batch, readback, copied: 0, source };
        if let Some(plan) = &plan {
            // Two bytes a strip: enough for every batch that a reader makes.
            self.reserve(device, plan, batch.raw.1 / 2)?;
            self.work.reserve_banks(device, &batch)?;
            let expected = (batch.raw.1 as f64 * self.hits_per_byte * (33.0 / 32.0)) as usize;
            job.copied = if readback == Readback::Hits { expected.min(self.output.stride()) } else { 0 };
            self.reserve_host(device, plan, job.copied)?;
            // SAFETY: the caller's word; the buffers were reserved just now.
            unsafe { self.launch(device, setup, &job, plan) }?;
        }
        self.job = Some(job);
        Ok(())
    }

    fn reserve_host(&mut self, device: &mut D, plan: &Plan, hits: usize) -> Result<(), DecodeError> {
        self.results.reserve(device, Results::of(plan).words() * WORD)?;
        if hits > self.stride {
            // Batches differ: room for somewhat larger ones, too.
            let stride = (hits + hits / 8).next_multiple_of(32);
            self.stride = 0;
            self.hits.reserve(device, N_ARRAYS * stride * WORD)?;
            self.stride = stride;
        }
        Ok(())
    }

    /// Kernels and copies out.
    ///
    /// # Safety
    /// - As [`submit_at`](Self::submit_at); buffers are reserved.
    unsafe fn launch(
        &mut self,
        device: &mut D,
        setup: &Setup<D>,
        job: &Job<D>,
        plan: &Plan,
    ) -> Result<(), DecodeError> {
        let results = Results::of(plan);
        let first = if job.readback == Readback::Hits { 0 } else { results.total() };
        let bytes = (results.words() - first) * WORD;
        self.moved.from_device += bytes as u64;
        device.submit_capturable(&self.queue, &|device| {
            // SAFETY: the caller's word; the stream does one batch after the other. Both sides of the results were reserved
            // for the plan, and nobody looks there before the stream is done.
            unsafe {
                self.kernels(device, setup, plan, &job.batch)?;
                let to = self.results.start().add(first * WORD);
                device.read(&self.queue, self.output.result(first), to, Rows::one(bytes))
            }
        })?;
        self.read_hits(device, 0, job.copied)
    }

    /// Waits for the batch under way, and sees to what was too small for it. Gives the number of hits.
    pub(super) fn collect(
        &mut self,
        device: &mut D,
        setup: &Setup<D>,
        name: &'static str,
    ) -> Result<usize, DecodeError> {
        let Some(job) = self.job.take() else { return Ok(0) };
        let finished = device.synchronize(&self.queue).and_then(|()| self.finish(device, setup, name, job));
        self.or_finish(device, finished)
    }

    fn finish(
        &mut self,
        device: &mut D,
        setup: &Setup<D>,
        name: &'static str,
        mut job: Job<D>,
    ) -> Result<usize, DecodeError> {
        let failure = |message| Err(DecodeError::Device { backend: name, message });
        let Some(plan) = job.plan else {
            self.done = Some((0, None, job.source));
            return Ok(0);
        };
        let results = Results::of(&plan);
        let n = loop {
            // SAFETY: the stream was waited for.
            let words = unsafe { self.results.slice::<u32>(0, results.words()) };
            let (hits, found) = (words[results.total()], words[results.status()]);
            if found & self.work.overflow() == 0 {
                if found != 0 || hits as usize > self.output.stride() {
                    return failure(format!("the device reports status {found} with {hits} hits, which cannot be"));
                }
                break hits as usize;
            }
            // The one launch has no room for strips, only for hits.
            let strips = match self.work.strips_found(&plan) {
                Some(place) => self.read_word(device, place)?,
                None if hits >= LIMIT => u32::MAX,
                None => hits,
            };
            if strips == u32::MAX {
                return failure("the batch has more strips than 32 bits can count".to_owned());
            }
            if strips as usize <= self.output.stride() {
                return failure(format!("the device has no room for {strips} strips where there is some for more"));
            }
            self.reserve(device, &plan, strips as usize)?;
            // SAFETY: the batch still lies where it did.
            unsafe { self.launch(device, setup, &job, &plan) }?;
            device.synchronize(&self.queue)?;
        };
        if job.readback == Readback::Hits && n > job.copied {
            if n > self.stride {
                self.reserve_host(device, &plan, n)?;
                job.copied = 0;
            }
            self.read_hits(device, job.copied, n)?;
            device.synchronize(&self.queue)?;
        }
        self.hits_per_byte = n as f64 / job.batch.raw.1.max(1) as f64;
        self.done = Some((n, job.plan, job.source));
        Ok(n)
    }

    /// What was collected last, where it lies on the device.
    pub(super) fn on_device(&self) -> DeviceHits {
        match &self.done {
            Some((n, Some(plan), _)) => self.output.on_device(plan, *n),
            _ => DeviceHits::default(),
        }
    }

    /// What was collected last with [`Readback::Hits`], in pinned memory.
    pub(super) fn on_host(&self, n_groups: usize) -> HostHits<'_> {
        let Some((n, Some(plan), source)) = &self.done else { return HostHits::none(n_groups) };
        let results = Results::of(plan);
        // SAFETY: nothing is under way on a stream whose batch was collected.
        let (words, hits) = unsafe {
            let len = if *n == 0 { 0 } else { N_ARRAYS * self.stride };
            (self.results.slice::<u32>(0, results.words()), self.hits.slice::<u32>(0, len))
        };
        HostHits::new((*n, n_groups), results, words, (hits, self.stride), source.meta())
    }
}
