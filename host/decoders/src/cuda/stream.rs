//! One stream, with its batch in flight and its buffers on the device and in pinned memory. Streams
//! share only the tables, which are never written, so that no stream waits for another.
//!
//! # A batch's way
//!
//! 1. **Submit.** The copy to the device, the kernels and the copy back are queued in one go, and
//!    `submit` returns. The host's only work is to copy the batch into pinned memory if it is not
//!    there already: from there the device fetches it by itself.
//! 2. **Reserve.** The number of strips is unknown before the kernels have run, but the number of
//!    bytes limits it, so that the work buffers always suffice for a batch that a reader has made.
//!    Buffers grow and never shrink: after the largest batch nothing is allocated, which matters
//!    because an allocation on the device may wait for all its streams.
//! 3. **Guess.** The number of hits is unknown, too, when the copy back is queued, and to wait for
//!    it would leave the stream idle. So the copy takes as many hits as the bytes of this batch and
//!    the hits of the last one suggest, and one in 32 more. Nearly always this brings all hits, for
//!    a 32nd of the link's time.
//! 4. **Collect.** The host waits for the stream, and reads the status and the number of hits. Hits
//!    that the guess left out are fetched now, as are all hits of the first batch, for which there
//!    was no guess.
//! 5. **Repeat.** Fragments that overlap can have more strips than bytes suggest. Then the status
//!    says that a buffer was too small, the kernels have counted the strips without writing them,
//!    and the batch runs again with enough room.
//!
//! # Who owns the memory
//!
//! Work in flight uses the batch and the buffers, whatever happens on the host. So the job keeps
//! the batch's memory alive, and after an error the stream first settles: it waits for everything
//! in flight. If even this fails, the memory is kept, and the stream refuses all further work.

use std::sync::Arc;

use ut_kernels::status::{NO_SUCH_EVENT, WRONG_VERSION};

use super::batch::{DeviceBatch, PinnedBatch, ResidentBatch, Source};
use super::buffer::{LINE, PinnedBuffer};
use super::device::{CopyRows, TransferBytes};
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use super::output::{DeviceHits, DeviceOutput, HostHits, N_ARRAYS, Results, WORD};
use super::sequence::failure;
use super::setup::LaunchSetup;
use super::upload::Upload;
use super::work::Work;
use crate::Pipeline;
use crate::plan::{Plan, most_records};
use ut_data::DecodeError;
use ut_data::input::EventMeta;

pub(super) struct Submission {
    pub(super) serial: u64,
    /// Launches; `None` if there is no event.
    pub(super) plan: Option<Plan>,
    pub(super) readback: Readback,
}

/// Results that must have arrived when a batch is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readback {
    /// Hits and report, in the host's memory.
    Hits,
    /// Only the number of hits: they stay on the device, as for the next stage of a trigger
    /// sequence.
    None,
}

/// Batch in flight: what was asked for, where the batch lies on the device, and what must stay
/// alive until the stream is done with it.
struct Job {
    request: Submission,
    batch: DeviceBatch,
    /// Number of hits that are being copied to the host.
    copied: usize,
    source: BatchMemory,
}

/// Keeps the batch's memory alive until the batch is done.
enum BatchMemory {
    Nothing,
    Meta(Vec<EventMeta>),
    Pinned(Arc<PinnedBatch>),
    Resident(Arc<ResidentBatch>),
}

impl BatchMemory {
    fn meta(&self) -> &[EventMeta] {
        match self {
            Self::Nothing => &[],
            Self::Meta(meta) => meta,
            Self::Pinned(batch) => &batch.meta,
            Self::Resident(batch) => &batch.meta,
        }
    }
}

struct Collected {
    hits: usize,
    plan: Option<Plan>,
    source: BatchMemory,
}

/// Stream with its buffers. It is *free* if it has no job, *in flight* from `submit` to `collect`,
/// and then holds the collected results until the next `submit`.
///
/// Three fields guard the memory. `job` keeps the batch of the work in flight. `kept` takes over
/// when that work is given up after an error. `dirty` stays true until a wait for the stream has
/// succeeded. While `dirty` is true, no buffer may be reused, grown or freed: whatever the host
/// believes, the device may still write there.
pub(super) struct BatchStream {
    queue: CudaStream,
    upload: Upload,
    work: Work,
    output: DeviceOutput,
    results: PinnedBuffer,
    hits: PinnedBuffer,
    /// Distance in words between the arrays of `hits`.
    stride: usize,
    job: Option<Job>,
    /// Memory of a batch that was given up and could not be waited for: the device may still use
    /// it.
    kept: BatchMemory,
    /// Is true if something was put on the stream since it was waited for.
    dirty: bool,
    /// Hits per byte of the last collected batch, from which the next one's hits are guessed; 0
    /// before the first.
    hits_per_byte: f64,
    /// Number of bytes copied from the device so far.
    read: u64,
    /// Result of the last batch; `None` while one is in flight.
    done: Option<Collected>,
}

const NOT_THERE: &str = "the list of events names one that the batch does not have";

impl BatchStream {
    pub(super) const fn new(queue: CudaStream, pipeline: Pipeline) -> Self {
        Self {
            queue,
            upload: Upload::new(),
            work: Work::new(pipeline),
            output: DeviceOutput::new(),
            results: PinnedBuffer::new(),
            hits: PinnedBuffer::new(),
            stride: 0,
            job: None,
            kept: BatchMemory::Nothing,
            dirty: false,
            hits_per_byte: 0.0,
            read: 0,
            done: None,
        }
    }

    pub(super) const fn queue(&self) -> &CudaStream {
        &self.queue
    }

    pub(super) const fn is_free(&self) -> bool {
        self.job.is_none()
    }

    pub(super) fn has(&self, serial: u64) -> bool {
        self.job
            .as_ref()
            .is_some_and(|job| job.request.serial == serial)
    }

    pub(super) const fn moved(&self) -> TransferBytes {
        TransferBytes {
            to_device: self.upload.moved(),
            from_device: self.read,
        }
    }

    /// Makes room on the device for a batch with this many strips and hits. Nothing is in flight.
    fn reserve(
        &mut self,
        device: &CudaDevice,
        plan: &Plan,
        batch: &DeviceBatch,
        strips: usize,
    ) -> Result<(), DecodeError> {
        let strips = strips.next_multiple_of(LINE / WORD);
        self.work.reserve(device, plan, batch, strips)?;
        self.output.reserve(device, plan, strips)
    }

    /// Waits for the stream, and forgets its batch. While the stream cannot be waited for, this
    /// fails, and so does everything that begins with it: work in flight may still use the buffers.
    pub(super) fn settle(&mut self) -> Result<(), DecodeError> {
        if let Some(job) = self.job.take() {
            self.kept = job.source;
        }
        if self.dirty {
            self.queue.synchronize()?;
            self.dirty = false;
        }
        // The batch's memory is freed when the stream is done, and not before.
        self.kept = BatchMemory::Nothing;
        Ok(())
    }

    /// Settles the stream after an error, and returns that error.
    fn or_settle<T>(&mut self, result: Result<T, DecodeError>) -> Result<T, DecodeError> {
        if result.is_err() {
            let _ = self.settle();
        }
        result
    }

    /// Puts a batch on the stream, which is free. After an error nothing is in flight.
    pub(super) fn submit(
        &mut self,
        device: &mut CudaDevice,
        setup: &LaunchSetup,
        source: Source<'_>,
        request: Submission,
    ) -> Result<(), DecodeError> {
        // Nothing may be in flight when buffers are reused or grown. After a normal `collect` this
        // costs nothing, because the stream is already clean; after an error it waits.
        self.settle()?;
        self.dirty = true;
        let put = match source {
            Source::Host(view) => {
                // SAFETY: `settle` saw that nothing is in flight; the decoder waits for its streams
                // before it drops them.
                unsafe { self.upload.write_host(device, &self.queue, &view) }
                    .map(|batch| (batch, BatchMemory::Meta(view.meta_of_results())))
            }
            Source::Pinned(pinned) => {
                // SAFETY: `settle` saw that nothing is in flight; the decoder waits for its streams
                // before it drops them, and the job, or on an error `kept`, has the pinned batch
                // until the stream was waited for.
                let put = unsafe { self.upload.write_pinned(device, &self.queue, &pinned) };
                match put {
                    Ok(batch) => Ok((batch, BatchMemory::Pinned(pinned))),
                    Err(error) => {
                        self.kept = BatchMemory::Pinned(pinned);
                        Err(error)
                    }
                }
            }
            Source::Resident(resident) => Ok((resident.batch, BatchMemory::Resident(resident))),
        };
        // From here on the batch lies on the device, or will lie there by the time that the kernels
        // run: copies and kernels of one stream run in the order in which they were queued.
        let started = put.and_then(|(batch, source)| {
            // SAFETY: the batch lies in the upload buffer, or in what `source` keeps, which
            // `submit_at` does.
            unsafe { self.submit_at(device, setup, batch, source, request) }
        });
        self.or_settle(started)
    }

    /// Submits a batch that lies on the device, otherwise as [`submit`](Self::submit) does.
    ///
    /// # Safety
    /// - The device can read it until it is collected or forgotten.
    pub(super) unsafe fn submit_resident(
        &mut self,
        device: &mut CudaDevice,
        setup: &LaunchSetup,
        batch: DeviceBatch,
        request: Submission,
    ) -> Result<(), DecodeError> {
        self.settle()?;
        self.dirty = true;
        // SAFETY: the device can read the batch until then, as the caller says.
        let started =
            unsafe { self.submit_at(device, setup, batch, BatchMemory::Nothing, request) };
        self.or_settle(started)
    }

    /// Starts a batch, whose `source` the job keeps. After an error the stream must be waited for
    /// before that is freed.
    ///
    /// # Safety
    /// - The device can read `batch` as long as `source` is kept, or until the stream was waited
    ///   for.
    /// - Nothing is in flight but what brings the batch.
    unsafe fn submit_at(
        &mut self,
        device: &mut CudaDevice,
        setup: &LaunchSetup,
        batch: DeviceBatch,
        source: BatchMemory,
        request: Submission,
    ) -> Result<(), DecodeError> {
        self.done = None;
        let (plan, readback) = (request.plan, request.readback);
        self.job = Some(Job {
            request,
            batch,
            copied: 0,
            source,
        });
        let Some(plan) = plan else { return Ok(()) };
        // Room for the largest number of records that this many bytes can hold, so that the kernels
        // practically never run twice. The buffers grow with the largest batch seen, and then stay.
        self.reserve(
            device,
            &plan,
            &batch,
            most_records(setup.tables.host.version, batch.raw.1, plan.events as usize),
        )?;
        // The guess: hits per byte hardly differ between batches of one run, so that a 32nd more
        // suffices. The first batch finds 0 here, and its hits are copied when their number is
        // known.
        let expected = (batch.raw.1 as f64 * self.hits_per_byte * (33.0 / 32.0)) as usize;
        let copied = if readback == Readback::Hits {
            expected.min(self.output.stride())
        } else {
            0
        };
        self.reserve_host(device, &plan, copied)?;
        if let Some(job) = &mut self.job {
            job.copied = copied;
        }
        // SAFETY: the buffers were reserved just now, and the job keeps what the batch lies in.
        unsafe { self.launch(device, setup, &plan, &batch, readback, copied) }
    }

    fn reserve_host(
        &mut self,
        device: &CudaDevice,
        plan: &Plan,
        hits: usize,
    ) -> Result<(), DecodeError> {
        self.results
            .reserve(device, Results::of(plan).words() * WORD)?;
        if hits > self.stride {
            // Batches differ a little: room for larger ones saves pinning memory again, which is
            // slow.
            let stride = (hits + hits / 8).next_multiple_of(32);
            self.stride = 0;
            self.hits.reserve(device, N_ARRAYS * stride * WORD)?;
            self.stride = stride;
        }
        Ok(())
    }

    /// Puts kernels and copies out on the stream: of `copied` hits, and of what `readback` says.
    ///
    /// # Safety
    /// - The device can read `batch` until the stream was waited for.
    /// - The buffers, on the device and on the host, are reserved for the plan, the batch and
    ///   `copied` hits.
    unsafe fn launch(
        &mut self,
        device: &mut CudaDevice,
        setup: &LaunchSetup,
        plan: &Plan,
        batch: &DeviceBatch,
        readback: Readback,
        copied: usize,
    ) -> Result<(), DecodeError> {
        // The results in memory: the counters of each event, then the ends of groups, the last of
        // which is the number of hits, then the status word. A caller that wants no hits on the
        // host (`Readback::None`) needs the last two words only.
        let results = Results::of(plan);
        let first = if readback == Readback::Hits {
            0
        } else {
            results.total()
        };
        let bytes = (results.words() - first) * WORD;
        assert!(results.words() * WORD <= self.results.bytes());
        self.read += bytes as u64;
        // The kernels only set bits of the status, so that it begins at 0. What the host needs of
        // the results lies in one piece, which a single copy brings. SAFETY: a word of the results,
        // which are reserved for the plan and live until the stream was waited for.
        unsafe { self.queue.zero(self.output.result(results.status()), 1) }?;
        // SAFETY: the device can read the batch, and the buffers are reserved, as the caller says;
        // the status word is 0 by then, in the stream's order.
        unsafe {
            self.work
                .launch(device, &self.queue, setup, plan, batch, &self.output)
        }?;
        // SAFETY: within the results, checked above.
        let to = unsafe { self.results.start().add(first * WORD) };
        // SAFETY: both sides are reserved for the plan and live until then; the host does not look
        // there before.
        unsafe {
            self.queue
                .read(self.output.result(first), to, CopyRows::one(bytes))
        }?;
        // SAFETY: the host does not look at the hits before the stream was waited for.
        unsafe { self.read_hits(0, copied) }
    }

    /// Copies hits `from` to `to` of each array.
    ///
    /// # Safety
    /// - The host does not look at them before the stream was waited for.
    unsafe fn read_hits(&mut self, from: usize, to: usize) -> Result<(), DecodeError> {
        let rows = CopyRows {
            n: N_ARRAYS,
            width: (to - from) * WORD,
            host: self.stride * WORD,
            device: self.output.stride() * WORD,
        };
        if from == to {
            return Ok(());
        }
        assert!(to <= self.stride && to <= self.output.stride());
        self.read += rows.bytes() as u64;
        // SAFETY: within the first array, checked above.
        let start = unsafe { self.hits.start().add(from * WORD) };
        // SAFETY: both sides have seven arrays of their strides, which `to` is within, checked
        // above, and live until then; the host does not look there, as the caller says.
        unsafe { self.queue.read(self.output.hit(from), start, rows) }
    }

    /// Reads a word that the kernels have written.
    ///
    /// # Safety
    /// - It is a word of this stream's buffers on the device.
    unsafe fn read_word(&mut self, place: u64) -> Result<u32, DecodeError> {
        self.read += WORD as u64;
        // SAFETY: the word is there, as the caller says; the results have room, and are looked at
        // only after the wait.
        unsafe {
            self.queue
                .read(place, self.results.start(), CopyRows::one(WORD))
        }?;
        self.queue.synchronize()?;
        // SAFETY: the stream was waited for.
        Ok(unsafe { self.results.slice::<u32>(0, 1) }[0])
    }

    /// Waits for the batch in flight, and runs its kernels again if a buffer was too small.
    pub(super) fn collect(
        &mut self,
        device: &mut CudaDevice,
        setup: &LaunchSetup,
    ) -> Result<(), DecodeError> {
        let finished = self
            .queue
            .synchronize()
            .and_then(|()| self.finish(device, setup));
        let hits = self.or_settle(finished)?;
        self.dirty = false;
        if let Some(Job {
            request, source, ..
        }) = self.job.take()
        {
            self.done = Some(Collected {
                hits,
                plan: request.plan,
                source,
            });
        }
        Ok(())
    }

    /// Finishes the batch in flight, whose stream was waited for, and returns its number of hits.
    /// Nothing is in flight then.
    fn finish(
        &mut self,
        device: &mut CudaDevice,
        setup: &LaunchSetup,
    ) -> Result<usize, DecodeError> {
        let Some(Job {
            request,
            batch,
            copied,
            ..
        }) = &self.job
        else {
            return Ok(0);
        };
        let Some(plan) = request.plan else {
            return Ok(0);
        };
        let (readback, batch, mut copied) = (request.readback, *batch, *copied);
        let results = Results::of(&plan);
        // One turn, or a second one if a buffer was too small. The loop ends: a further turn
        // requires more strips than there is room for, and each turn first makes that room.
        let n = loop {
            // Whatever the device reports is checked before it is used: a number of hits beyond the
            // room, or an unknown status, must not become an access out of bounds. SAFETY: the
            // stream was waited for.
            let words = unsafe { self.results.slice::<u32>(0, results.words()) };
            let (hits, found) = (words[results.total()], words[results.status()]);
            if found & self.work.overflow() == 0 {
                if found & NO_SUCH_EVENT != 0 {
                    return Err(failure(NOT_THERE));
                }
                if found & !WRONG_VERSION != 0 || hits as usize > self.output.stride() {
                    return Err(failure(format!(
                        "inconsistent result from the device: status {found} with {hits} hits"
                    )));
                }
                break hits as usize;
            }
            // A buffer was too small. Find out how many strips the batch has.
            let (place, room) = self.work.strips_found(&plan, &batch);
            // SAFETY: a word of the work buffers, reserved for this plan.
            let strips = unsafe { self.read_word(place) }?;
            if strips == u32::MAX {
                return Err(failure("the batch has more strips than 32 bits can count"));
            }
            if strips as usize <= room {
                return Err(failure(format!(
                    "inconsistent result from the device: no room for {strips} strips, though there is room for {room}"
                )));
            }
            self.reserve(device, &plan, &batch, strips as usize)?;
            // SAFETY: the job keeps the batch; the buffers were reserved for it, and for its strips
            // just now.
            unsafe { self.launch(device, setup, &plan, &batch, readback, copied) }?;
            self.queue.synchronize()?;
        };
        // Fetch the hits beyond the guess, or every hit again if the host's arrays were too small
        // and had to grow.
        if readback == Readback::Hits && n > copied {
            if n > self.stride {
                self.reserve_host(device, &plan, n)?;
                copied = 0;
            }
            // SAFETY: the stream is waited for below, before the host looks.
            unsafe { self.read_hits(copied, n) }?;
            self.queue.synchronize()?;
        }
        // Learned from every batch, also from those whose hits stay on the device: the caller may
        // ask for hits next time.
        self.hits_per_byte = n as f64 / batch.raw.1.max(1) as f64;
        Ok(n)
    }

    pub(super) fn on_device(&self) -> DeviceHits {
        match &self.done {
            Some(Collected {
                hits,
                plan: Some(plan),
                ..
            }) => self.output.on_device(plan, *hits),
            _ => DeviceHits::default(),
        }
    }

    /// Returns the hits last collected with [`Readback::Hits`].
    pub(super) fn on_host(&self, n_groups: usize) -> HostHits<'_> {
        let Some(Collected {
            hits,
            plan: Some(plan),
            source,
        }) = &self.done
        else {
            return HostHits::none(n_groups);
        };
        let results = Results::of(plan);
        let len = if *hits == 0 {
            0
        } else {
            N_ARRAYS * self.stride
        };
        // SAFETY: nothing is in flight on a stream whose batch was collected; the next one is
        // submitted by `&mut self`.
        let words = unsafe { self.results.slice::<u32>(0, results.words()) };
        // SAFETY: as for `words`: nothing is in flight as long as this is borrowed.
        let arrays = unsafe { self.hits.slice::<u32>(0, len) };
        HostHits::new(
            (*hits, n_groups),
            results,
            words,
            (arrays, self.stride),
            source.meta(),
        )
    }
}
