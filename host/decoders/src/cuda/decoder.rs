//! The decoder: tables on the device, some streams, and batches that are put on them and collected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ut_kernels::fused::look_back::LIMIT;

use super::batch::{DeviceBatch, Packing, PinnedBatch, ResidentBatch, Source};
use super::device::{Device, TransferBytes};
use super::output::{DeviceHits, HostHits};
use super::setup::Setup;
use super::stream::{BatchStream, Readback, Request};
use super::tables::{TablesOnDevice, write_all};
use crate::Pipeline;
use crate::parameters::Parameters;
use crate::plan::{DeviceTables, Plan, check_list, check_selected, cluster_options};
use crate::rank_tables::{FusedStep, RankTables};
use ut_data::detector::{BankVersion, DetectorTables};
use ut_data::input::BatchView;
use ut_data::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};

/// Memory that is reserved before the first batch. It grows when a batch needs more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Events of a batch.
    pub events: usize,
    /// Bytes of a batch's `raw`, less than 4 GiB.
    pub bytes: usize,
    /// Strips, and so hits, of a batch: less than 2³⁰.
    pub hits: usize,
}

/// Settings of a decoder on a device; none changes a result.
#[derive(Clone, Debug)]
pub struct CudaConfig {
    /// GPU of [`CudaDecoder::new`](super::CudaDecoder::new), numbered from 0.
    pub ordinal: usize,
    /// Block shapes and other launch parameters, limit of registers and carve-out among them.
    pub launch: Parameters,
    /// Batches that can be in flight; at least 1.
    pub streams: usize,
    /// Memory reserved at once, for each stream.
    pub capacity: Capacity,
    /// Kernels that decode.
    pub pipeline: Pipeline,
    /// A variant of [`Unit::LADDER`](crate::ptx::Unit::LADDER) in place of Allen's pipeline: for v5 in Allen
    /// layout.
    pub rung: Option<String>,
    /// Steps of the fused pipeline's design that are used.
    pub step: FusedStep,
}

/// Three: while one batch is copied in, one is decoded, and one is copied out.
pub const DEFAULT_STREAMS: usize = 3;

impl Default for CudaConfig {
    fn default() -> Self {
        Self {
            ordinal: 0,
            launch: Parameters::default(),
            streams: DEFAULT_STREAMS,
            capacity: Capacity::default(),
            pipeline: Pipeline::default(),
            rung: None,
            step: FusedStep::default(),
        }
    }
}

impl CudaConfig {
    /// The defaults, with these parameters.
    pub fn of(parameters: &Parameters) -> Self {
        Self { launch: *parameters, pipeline: parameters.pipeline(), ..Self::default() }
    }
}

/// A batch that was submitted, and is to be collected with the decoder that it was submitted to: once, in any order, on any
/// thread. A ticket that is dropped leaves its stream occupied until [`DeviceDecoder::discard_all`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a batch that is not collected keeps its stream"]
pub struct Ticket {
    decoder: u64,
    stream: usize,
    serial: u64,
    readback: Readback,
}

/// Numbers of decoders: the next one's.
static NEXT_DECODER: AtomicU64 = AtomicU64::new(0);

/// Decodes on a device.
///
/// [`decode`](Decoder::decode) is one batch at a time. To keep the device busy, submit the next batches before the first one
/// is collected; as many can be in flight as there are streams. [`decode_all`](Self::decode_all) does it like this:
///
/// ```no_run
/// # use ut_data::{EventBatch, DecodeError};
/// # use ut_decoders::cuda::{CudaDecoder, Readback};
/// # fn all(decoder: &mut CudaDecoder, batches: &[EventBatch]) -> Result<(), DecodeError> {
/// let mut in_flight = std::collections::VecDeque::new();
/// for batch in batches {
///     if in_flight.len() == decoder.streams() {
///         let hits = decoder.collect(in_flight.pop_front().expect("some are"))?;
///         println!("{} hits", hits.len());
///     }
///     in_flight.push_back(decoder.submit(batch.view(), Readback::Hits)?);
/// }
/// for ticket in in_flight {
///     println!("{} hits", decoder.collect(ticket)?.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct DeviceDecoder<D: Device> {
    id: u64,
    pub(super) name: &'static str,
    pub(super) device: D,
    /// Shared with no one but the batches that a dropped decoder could not wait for.
    pub(super) setup: Arc<Setup<D>>,
    pub(super) streams: Vec<BatchStream<D>>,
    serial: u64,
    /// Bytes that were moved without a stream of their own: tables, and batches that stay.
    moved: TransferBytes,
}

impl<D: Device> Drop for DeviceDecoder<D> {
    fn drop(&mut self) {
        // Batches that were not collected: their buffers must not go before they are done. There is no caller to be told
        // of a failure; where it is not known that they are done, what they use is never given back.
        if self.discard_all().is_err() {
            std::mem::forget((std::mem::take(&mut self.streams), Arc::clone(&self.setup)));
        }
    }
}

impl<D: Device> DeviceDecoder<D> {
    /// A decoder on `device`, called `name`.
    pub fn on(
        name: &'static str,
        mut device: D,
        tables: &DetectorTables,
        options: DecodeOptions,
        config: CudaConfig,
    ) -> Result<Self, DecodeError> {
        device.begin()?;
        let streams = (0..config.streams.max(1)).map(|_| device.stream()).collect::<Result<_, _>>()?;
        Self::on_own(name, device, streams, tables, options, config)
    }

    /// Creates a decoder as [`on`](Self::on) does, with these streams of the caller.
    pub(super) fn with_streams(
        name: &'static str,
        mut device: D,
        streams: Vec<D::Stream>,
        tables: &DetectorTables,
        options: DecodeOptions,
        config: CudaConfig,
    ) -> Result<Self, DecodeError> {
        device.begin()?;
        // One of another device is an error here.
        streams.iter().try_for_each(|stream| device.synchronize(stream))?;
        Self::on_own(name, device, streams, tables, options, config)
    }

    /// Creates a decoder as [`on`](Self::on) does, with these streams of the device.
    fn on_own(
        name: &'static str,
        mut device: D,
        streams: Vec<D::Stream>,
        tables: &DetectorTables,
        options: DecodeOptions,
        config: CudaConfig,
    ) -> Result<Self, DecodeError> {
        let CudaConfig { launch, capacity, pipeline, rung, step, .. } = config;
        let failure = |message| DecodeError::Device { backend: name, message };
        launch.validate().map_err(|error| failure(error.to_string()))?;
        if rung.is_some() && tables.boards().version != BankVersion::V5 {
            return Err(failure("a rung of the ladder decodes v5 banks, and these tables are of v4".to_owned()));
        }
        let ranks = match (pipeline, &rung) {
            (Pipeline::Fused, None) => Some(RankTables::of_step(name, tables, options, step)?),
            _ => None,
        };
        let tables = DeviceTables::new(name, tables)?;
        tables.check_size(name, capacity.events, capacity.bytes, 0)?;
        if capacity.hits > LIMIT as usize {
            return Err(failure(format!("a batch cannot have {} hits: {LIMIT} are the most", capacity.hits)));
        }
        device.begin()?;
        if streams.is_empty() {
            return Err(failure("a decoder needs a stream".to_owned()));
        }
        let streams: Vec<_> = streams.into_iter().map(|queue| BatchStream::new(queue, ranks.is_some())).collect();
        let mut moved = TransferBytes::default();
        let tables = TablesOnDevice::new(&mut device, streams[0].queue(), tables, ranks, &mut moved)?;
        let setup = Arc::new(Setup {
            tables,
            options: cluster_options(&options),
            flip_origin: options.flip.origin(),
            params: launch,
            rung,
        });
        let id = NEXT_DECODER.fetch_add(1, Ordering::Relaxed);
        let mut decoder = Self { id, name, device, setup, streams, serial: 0, moved };
        if capacity != Capacity::default() {
            let plan = Plan::new(&decoder.setup.tables.host, launch, capacity.events.max(1));
            for stream in &mut decoder.streams {
                stream.reserve(&mut decoder.device, &plan, capacity.hits)?;
                stream.reserve_input(&mut decoder.device, capacity.bytes)?;
            }
        }
        Ok(decoder)
    }

    /// The device. It cannot be changed or exchanged: kernels and buffers in flight are in its memory.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Batches that can be in flight.
    pub const fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the bytes that went over the link between host and device since the decoder was made: batches, results,
    /// tables.
    pub fn moved(&self) -> TransferBytes {
        self.streams.iter().map(BatchStream::moved).fold(self.moved, |sum, moved| TransferBytes {
            to_device: sum.to_device + moved.to_device,
            from_device: sum.from_device + moved.from_device,
        })
    }

    /// Bytes of device memory that the decoder holds: tables, and the buffers of all streams.
    pub fn device_bytes(&self) -> usize {
        self.setup.tables.bytes() + self.streams.iter().map(BatchStream::device_bytes).sum::<usize>()
    }

    /// Bytes of pinned host memory that the decoder holds.
    pub fn pinned_bytes(&self) -> usize {
        self.streams.iter().map(BatchStream::pinned_bytes).sum()
    }

    fn tables(&self) -> &DeviceTables {
        &self.setup.tables.host
    }

    /// With the fused pipeline.
    fn rank_tables(&self) -> Option<&RankTables> {
        self.setup.tables.ranks.as_ref()
    }

    pub(super) fn failure(&self, message: &str) -> DecodeError {
        DecodeError::Device { backend: self.name, message: message.to_owned() }
    }

    /// The launches of a batch, if it has an event at all.
    fn plan(&self, n_events: usize, raw_bytes: usize, most_words: usize) -> Result<Option<Plan>, DecodeError> {
        self.tables().check_size(self.name, n_events, raw_bytes, most_words)?;
        Ok((n_events > 0).then(|| Plan::new(self.tables(), self.setup.params, n_events)))
    }

    fn plan_of(&self, batch: &BatchView<'_>) -> Result<Option<Plan>, DecodeError> {
        check_selected(self.name, self.rank_tables(), batch)?;
        let optional = [batch.versions, batch.selected].map(Option::unwrap_or_default);
        let words = [batch.offsets, batch.sizes, batch.types, optional[0], optional[1]];
        let most_words = words.map(<[u32]>::len).into_iter().max().unwrap_or(0);
        self.plan(batch.n_events, batch.raw.len(), most_words)
    }

    pub(super) fn plan_at(&self, batch: &DeviceBatch) -> Result<Option<Plan>, DecodeError> {
        if batch.selected.is_some() {
            check_list(self.name, self.rank_tables())?;
        }
        self.plan(batch.n_events, batch.raw.1, batch.most_words())
    }

    /// A copy of a batch in pinned memory, to be submitted as often as one likes.
    pub fn pin(&mut self, batch: BatchView<'_>) -> Result<Arc<PinnedBatch<D>>, DecodeError> {
        self.plan_of(&batch)?;
        self.device.begin()?;
        Ok(Arc::new(PinnedBatch::new(&mut self.device, &batch)?))
    }

    /// A copy of a batch on the device, to be submitted as often as one likes. Returns when it is there.
    pub fn upload(&mut self, batch: BatchView<'_>) -> Result<Arc<ResidentBatch<D>>, DecodeError> {
        self.plan_of(&batch)?;
        self.device.begin()?;
        let packing = Packing::of(&batch);
        let memory = write_all(&mut self.device, self.streams[0].queue(), &packing.parts(&batch), &mut self.moved)?;
        let batch_there = packing.at(memory.address());
        Ok(Arc::new(ResidentBatch { memory, batch: batch_there, meta: batch.meta_of_results() }))
    }

    /// A stream with nothing in flight, and a ticket for it.
    fn free(&mut self, readback: Readback) -> Result<Ticket, DecodeError> {
        let stream = self.streams.iter().position(BatchStream::is_free);
        let stream = stream.ok_or_else(|| self.failure("all streams have a batch: collect one before the next"))?;
        self.serial += 1;
        Ok(Ticket { decoder: self.id, stream, serial: self.serial, readback })
    }

    /// Refuses a batch in memory that this device cannot reach: a kernel that reads there would lose the whole context.
    pub(super) fn check_owner(&self, batch: &ResidentBatch<D>) -> Result<(), DecodeError> {
        if batch.memory.is_of(&self.device) {
            return Ok(());
        }
        Err(self.failure("the batch lies in the memory of another device: upload it with a decoder of this one"))
    }

    /// Begins to decode a batch: [`BatchView`], `&Arc<PinnedBatch>` or `&Arc<ResidentBatch>`. Returns as soon as all is
    /// put on a stream; the host's batch is free again then. A pinned batch may be of any decoder, a resident one of any
    /// decoder of the same device.
    pub fn submit<'a>(&mut self, batch: impl Into<Source<'a, D>>, readback: Readback) -> Result<Ticket, DecodeError> {
        let source = batch.into();
        let plan = match &source {
            Source::Host(view) => self.plan_of(view)?,
            // Its bytes and words were counted when it was made.
            Source::Pinned(pinned) => self.plan_at(&pinned.packing.at(0))?,
            Source::Resident(resident) => {
                self.check_owner(resident)?;
                self.plan_at(&resident.batch)?
            }
        };
        let ticket = self.free(readback)?;
        self.device.begin()?;
        let stream = &mut self.streams[ticket.stream];
        stream.submit(&mut self.device, &self.setup, source, Request { serial: ticket.serial, plan, readback })?;
        Ok(ticket)
    }

    /// Submits a batch by device pointers, otherwise as [`submit`](Self::submit) does.
    ///
    /// # Safety
    /// Until the batch is collected or discarded, or the decoder is dropped:
    /// - The addresses of `batch` are of memory that this decoder's device can read, for as many elements as it says; those
    ///   of words are multiples of 4.
    /// - Nothing is written there, on the device or from the host.
    pub unsafe fn submit_resident(&mut self, batch: &DeviceBatch, readback: Readback) -> Result<Ticket, DecodeError> {
        let plan = self.plan_at(batch)?;
        let ticket = self.free(readback)?;
        self.device.begin()?;
        let stream = &mut self.streams[ticket.stream];
        let request = Request { serial: ticket.serial, plan, readback };
        // SAFETY: the device can read the batch until it is collected, discarded or dropped with the decoder, as the caller
        // says; a stream waits for its batch in each of these.
        unsafe { stream.submit_resident(&mut self.device, &self.setup, *batch, request) }?;
        Ok(ticket)
    }

    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one time")]
    fn finish(&mut self, ticket: Ticket) -> Result<(&BatchStream<D>, Readback), DecodeError> {
        let Ticket { decoder, stream, serial, readback } = ticket;
        if decoder != self.id {
            return Err(self.failure("the ticket is of another decoder"));
        }
        if !self.streams[stream].has(serial) {
            return Err(self.failure("the batch of this ticket was discarded"));
        }
        self.device.begin()?;
        self.streams[stream].collect(&mut self.device, &self.setup, self.name)?;
        Ok((&self.streams[stream], readback))
    }

    /// Waits for all batches in flight and forgets them, so that streams are free whose tickets were lost. Tickets that are
    /// still there are refused from now on.
    ///
    /// # Errors
    /// What went wrong with one of them. A stream that cannot be waited for takes no batch until it can.
    pub fn discard_all(&mut self) -> Result<(), DecodeError> {
        let begun = self.device.begin();
        let settled = self.streams.iter_mut().map(|stream| stream.settle(&mut self.device));
        settled.fold(begun, Result::and)
    }

    /// Waits for a batch that was submitted with [`Readback::Hits`]; its hits lie in pinned memory.
    ///
    /// # Errors
    /// What went wrong with the batch. Its stream is free again, and takes the next batch once it can be waited for.
    pub fn collect(&mut self, ticket: Ticket) -> Result<HostHits<'_>, DecodeError> {
        let (name, n_groups) = (self.name, self.tables().n_groups as usize);
        match self.finish(ticket)? {
            (stream, Readback::Hits) => Ok(stream.on_host(n_groups)),
            (_, Readback::None) => {
                let message = "the hits of this batch were to stay on the device".to_owned();
                Err(DecodeError::Device { backend: name, message })
            }
        }
    }

    /// Waits for a batch; its hits lie on the device, whether or not they were brought to the host, until the next batch
    /// is submitted or the decoder is dropped.
    pub fn collect_resident(&mut self, ticket: Ticket) -> Result<DeviceHits, DecodeError> {
        Ok(self.finish(ticket)?.0.on_device())
    }
}

impl<D: Device> Decoder for DeviceDecoder<D> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        // What cannot be taken is refused before it is worked for.
        hits.begin(batch.n_events, self.tables().n_groups as usize)?;
        let ticket = self.submit(batch, Readback::Hits)?;
        self.collect(ticket)?.copy_to(hits, report)
    }
}
