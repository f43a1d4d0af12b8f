//! The decoder: tables on the device, several streams, and batches that are submitted to them and
//! collected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::batch::{DeviceBatch, PinnedBatch, ResidentBatch, Source};
use super::device::TransferBytes;
use super::driver::CudaStream;
use super::gpu::CudaDevice;
use super::output::{DeviceHits, HostHits};
use super::sequence::failure;
use super::setup::LaunchSetup;
use super::stream::{BatchStream, Readback, Submission};
use super::tables::TablesOnDevice;
use crate::parameters::Parameters;
use crate::plan::{DeviceTables, Plan, check_list, check_selected, cluster_options};
use crate::rank_tables::RankTables;
use crate::{Backend, Pipeline};
use ut_data::detector::{BankVersion, DetectorTables};
use ut_data::input::BatchView;
use ut_data::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};

/// Settings of a decoder on a device; none changes a result.
///
/// ```
/// use ut_decoders::cuda::CudaConfig;
/// use ut_decoders::{Parameters, Pipeline};
///
/// let config = CudaConfig::of(&Parameters::default().with_pipeline(Pipeline::Allen)).with_gpu(1).with_streams(4);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CudaConfig {
    pub(super) ordinal: usize,
    /// Pipeline, number of streams, block shapes and other launch parameters, limit of registers and
    /// carve-out among them.
    pub(super) launch: Parameters,
    rung: Option<String>,
}

impl CudaConfig {
    /// Returns the defaults, with the kernels, launches and number of streams of `parameters`.
    pub fn of(parameters: &Parameters) -> Self {
        Self {
            launch: *parameters,
            ..Self::default()
        }
    }

    /// Sets the GPU of [`CudaDecoder::new`](super::CudaDecoder::new), numbered from 0. Default: 0.
    #[must_use]
    pub const fn with_gpu(mut self, ordinal: usize) -> Self {
        self.ordinal = ordinal;
        self
    }

    /// Sets the number of batches that can be in flight, at least 1. Default: 3, since one batch is
    /// copied in, one is decoded and one is copied out.
    #[must_use]
    pub const fn with_streams(mut self, streams: usize) -> Self {
        self.launch = self.launch.with_decoders(streams);
        self
    }

    /// Returns the number of batches that can be in flight, at least 1.
    pub(super) fn streams(&self) -> usize {
        self.launch.decoders(Backend::Cuda).max(1)
    }

    /// Sets the kernels. Default: [`Pipeline::Ranked`].
    #[must_use]
    pub const fn with_pipeline(mut self, pipeline: Pipeline) -> Self {
        self.launch = self.launch.with_pipeline(pipeline);
        self
    }

    /// Takes a variant of [`Unit::LADDER`](crate::ptx::Unit::LADDER) in place of Allen's pipeline,
    /// for v5 in Allen layout.
    #[must_use]
    pub fn with_rung(mut self, rung: impl Into<String>) -> Self {
        self.rung = Some(rung.into());
        self
    }
}

/// A submitted batch, to be collected once with the decoder that took it, in any order, on any
/// thread. A dropped ticket leaves its stream occupied until [`CudaDecoder::discard_all`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a batch that is not collected keeps its stream"]
pub struct Ticket {
    decoder: u64,
    stream: usize,
    serial: u64,
    readback: Readback,
}

static NEXT_DECODER: AtomicU64 = AtomicU64::new(0);

/// Decodes on a device.
///
/// [`decode`](Decoder::decode) takes one batch at a time. To keep the device busy, submit the next
/// batches before the first is collected; each stream holds one. [`decode_all`](Self::decode_all)
/// does it like this:
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
pub struct CudaDecoder {
    id: u64,
    pub(super) device: CudaDevice,
    /// Shared only with batches that a dropped decoder could not wait for.
    setup: Arc<LaunchSetup>,
    pub(super) streams: Vec<BatchStream>,
    serial: u64,
    /// Bytes that were moved outside a stream's batches: tables, and batches that stay.
    moved: TransferBytes,
}

impl Drop for CudaDecoder {
    fn drop(&mut self) {
        // The buffers of batches that were not collected must outlive them: what cannot be waited
        // for is never freed. There is no caller to report a failure to.
        if self.discard_all().is_err() {
            std::mem::forget((std::mem::take(&mut self.streams), Arc::clone(&self.setup)));
        }
    }
}

impl CudaDecoder {
    /// Creates a decoder on streams of the device.
    pub(super) fn on_checked_streams(
        device: CudaDevice,
        streams: Vec<CudaStream>,
        tables: &DetectorTables,
        options: DecodeOptions,
        config: CudaConfig,
    ) -> Result<Self, DecodeError> {
        let CudaConfig { launch, rung, .. } = config;
        launch
            .validate()
            .map_err(|error| failure(error.to_string()))?;
        if rung.is_some() && tables.boards().version != BankVersion::V5 {
            return Err(failure(
                "a rung of the ladder decodes v5 banks, but these tables are for v4",
            ));
        }
        let ranks = match (launch.pipeline(), &rung) {
            (Pipeline::Ranked, None) => Some(RankTables::new("cuda", tables, options)?),
            _ => None,
        };
        let tables = DeviceTables::new("cuda", tables)?;
        device.begin()?;
        if streams.is_empty() {
            return Err(failure("a decoder needs a stream"));
        }
        let pipeline = if ranks.is_some() {
            Pipeline::Ranked
        } else {
            Pipeline::Allen
        };
        let streams: Vec<_> = streams
            .into_iter()
            .map(|queue| BatchStream::new(queue, pipeline))
            .collect();
        let mut moved = TransferBytes::default();
        let tables = TablesOnDevice::new(&device, streams[0].queue(), tables, ranks, &mut moved)?;
        let setup = Arc::new(LaunchSetup {
            tables,
            options: cluster_options(&options),
            flip_origin: options.flip().origin(),
            params: launch,
            rung,
        });
        let id = NEXT_DECODER.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            id,
            device,
            setup,
            streams,
            serial: 0,
            moved,
        })
    }

    /// Lends the device, in whose memory the kernels and the buffers in flight stay.
    pub const fn device(&self) -> &CudaDevice {
        &self.device
    }

    /// Returns the maximum number of batches in flight.
    pub const fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the bytes that crossed the link since the decoder was made: batches, results and
    /// tables.
    pub fn moved(&self) -> TransferBytes {
        self.streams
            .iter()
            .map(BatchStream::moved)
            .fold(self.moved, |sum, moved| TransferBytes {
                to_device: sum.to_device + moved.to_device,
                from_device: sum.from_device + moved.from_device,
            })
    }

    fn tables(&self) -> &DeviceTables {
        &self.setup.tables.host
    }

    fn rank_tables(&self) -> Option<&RankTables> {
        self.setup.tables.ranks.as_ref()
    }

    /// Plans the launches of a batch; `None` if it has no event.
    fn plan(
        &self,
        n_events: usize,
        raw_bytes: usize,
        most_words: usize,
    ) -> Result<Option<Plan>, DecodeError> {
        self.tables()
            .check_size("cuda", n_events, raw_bytes, most_words)?;
        Ok((n_events > 0).then(|| {
            Plan::new(
                self.tables(),
                self.setup.params,
                n_events,
                self.device.multiprocessors(),
            )
        }))
    }

    fn plan_of(&self, batch: &BatchView<'_>) -> Result<Option<Plan>, DecodeError> {
        check_selected("cuda", self.rank_tables(), batch)?;
        self.tables().check.check(batch)?;
        self.plan(batch.n_events, batch.raw.len(), batch.most_words())
    }

    fn plan_at(&self, batch: &DeviceBatch) -> Result<Option<Plan>, DecodeError> {
        if batch.selected.is_some() {
            check_list("cuda", self.rank_tables())?;
        }
        self.plan(batch.n_events, batch.raw.1, batch.most_words())
    }

    /// Copies a batch to pinned memory, to be submitted any number of times.
    pub fn pin(&mut self, batch: BatchView<'_>) -> Result<Arc<PinnedBatch>, DecodeError> {
        self.plan_of(&batch)?;
        self.device.begin()?;
        Ok(Arc::new(PinnedBatch::new(&self.device, &batch)?))
    }

    /// Copies a batch to the device, to be submitted any number of times, and waits for the copy.
    pub fn upload(&mut self, batch: BatchView<'_>) -> Result<Arc<ResidentBatch>, DecodeError> {
        self.plan_of(&batch)?;
        self.device.begin()?;
        ResidentBatch::new(
            &self.device,
            self.streams[0].queue(),
            &batch,
            &mut self.moved,
        )
    }

    /// Finds a stream with nothing in flight, and makes a ticket for it.
    fn free(&mut self, readback: Readback) -> Result<Ticket, DecodeError> {
        let stream = self.streams.iter().position(BatchStream::is_free);
        let stream = stream
            .ok_or_else(|| failure("all streams have a batch: collect one before the next"))?;
        self.serial += 1;
        Ok(Ticket {
            decoder: self.id,
            stream,
            serial: self.serial,
            readback,
        })
    }

    /// Refuses a batch in memory that this device cannot reach: reading there would break the
    /// context.
    fn check_owner(&self, batch: &ResidentBatch) -> Result<(), DecodeError> {
        if batch.memory.is_of(&self.device) {
            return Ok(());
        }
        Err(failure(
            "the batch lies in the memory of another device: upload it with a decoder of this one",
        ))
    }

    /// Begins to decode a batch: [`BatchView`], `&Arc<PinnedBatch>` of any decoder or
    /// `&Arc<ResidentBatch>` of any decoder of the device. Returns once everything is on a stream;
    /// the host's batch is free again then.
    pub fn submit<'a>(
        &mut self,
        batch: impl Into<Source<'a>>,
        readback: Readback,
    ) -> Result<Ticket, DecodeError> {
        let source = batch.into();
        let plan = match &source {
            Source::Host(view) => self.plan_of(view)?,
            // Its size was checked when it was made.
            Source::Pinned(pinned) => self.plan_at(&pinned.packing.at(0))?,
            Source::Resident(resident) => {
                self.check_owner(resident)?;
                self.plan_at(&resident.batch)?
            }
        };
        let ticket = self.free(readback)?;
        self.device.begin()?;
        let stream = &mut self.streams[ticket.stream];
        stream.submit(
            &mut self.device,
            &self.setup,
            source,
            Submission {
                serial: ticket.serial,
                plan,
                readback,
            },
        )?;
        Ok(ticket)
    }

    /// Submits a batch by device pointers, otherwise as [`submit`](Self::submit) does.
    ///
    /// # Safety
    /// Until the batch is collected or discarded, or the decoder is dropped:
    /// - The device can read `batch` at its addresses, words at multiples of 4, for as many
    ///   elements as it says.
    /// - Nothing is written there, on the device or from the host.
    pub unsafe fn submit_resident(
        &mut self,
        batch: &DeviceBatch,
        readback: Readback,
    ) -> Result<Ticket, DecodeError> {
        let plan = self.plan_at(batch)?;
        let ticket = self.free(readback)?;
        self.device.begin()?;
        let stream = &mut self.streams[ticket.stream];
        let request = Submission {
            serial: ticket.serial,
            plan,
            readback,
        };
        // SAFETY: required of the caller, until the batch is collected, discarded or dropped; each
        // waits for it.
        unsafe { stream.submit_resident(&mut self.device, &self.setup, *batch, request) }?;
        Ok(ticket)
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "a ticket is good for one time"
    )]
    fn finish(&mut self, ticket: Ticket) -> Result<(&BatchStream, Readback), DecodeError> {
        let Ticket {
            decoder,
            stream,
            serial,
            readback,
        } = ticket;
        if decoder != self.id {
            return Err(failure("the ticket belongs to another decoder"));
        }
        if !self.streams[stream].has(serial) {
            return Err(failure("the batch of this ticket was discarded"));
        }
        self.device.begin()?;
        self.streams[stream].collect(&mut self.device, &self.setup)?;
        Ok((&self.streams[stream], readback))
    }

    /// Waits for all batches in flight and forgets them, which frees streams whose tickets were
    /// lost. Remaining tickets are refused from now on.
    ///
    /// # Errors
    /// The first error of a batch. A stream that cannot be waited for takes no batch until it can.
    pub fn discard_all(&mut self) -> Result<(), DecodeError> {
        self.streams
            .iter_mut()
            .map(BatchStream::settle)
            .fold(Ok(()), Result::and)
    }

    /// Waits for a batch that was submitted with [`Readback::Hits`]; its hits lie in pinned memory.
    ///
    /// # Errors
    /// If the batch failed. Its stream takes the next batch once it can be waited for.
    pub fn collect(&mut self, ticket: Ticket) -> Result<HostHits<'_>, DecodeError> {
        let n_groups = self.tables().n_groups as usize;
        match self.finish(ticket)? {
            (stream, Readback::Hits) => Ok(stream.on_host(n_groups)),
            (_, Readback::None) => {
                let message = "the hits of this batch were to stay on the device";
                Err(failure(message))
            }
        }
    }

    /// Waits for a batch. Its hits lie on the device, also if they were copied to the host, until
    /// the next batch is submitted or the decoder is dropped.
    pub fn collect_resident(&mut self, ticket: Ticket) -> Result<DeviceHits, DecodeError> {
        Ok(self.finish(ticket)?.0.on_device())
    }
}

impl Decoder for CudaDecoder {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn decode(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHits,
        report: &mut BatchReport,
    ) -> Result<(), DecodeError> {
        // Refused before any work is done.
        hits.begin(batch.n_events, self.tables().n_groups as usize)?;
        let ticket = self.submit(batch, Readback::Hits)?;
        self.collect(ticket)?.copy_to(hits, report)
    }
}
