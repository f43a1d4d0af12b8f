//! Hits as decoders give them, the report of what was decoded, and the trait of all decoders.

mod arrays;
mod check;
mod cluster;
mod hit;
mod loss;
mod options;
mod repeats;
mod report;

pub use arrays::{CapacityError, UtHits, UtHitsMut};
pub use check::BatchCheck;
pub use cluster::Cluster;
pub use hit::Hit;
pub use loss::{Cause, Loss, LostPart, N_LOSS, whole};
pub use options::{DecodeOptions, Flip, Position};
pub use repeats::{Repeated, Repeats, hashes};
pub use report::BatchReport;
pub use ut_format::report::{Count, EventReport, Kind};

use crate::detector::BankVersion;
use crate::error_kind::ErrorKind;
use crate::input::{BatchView, Layout};

/// Turns batches of raw banks into hits.
///
/// A decoder is built for one detector (tables, grouping) and one set of [`DecodeOptions`] and then
/// fed batch after batch. It keeps its work buffers between batches; the caller keeps hits and
/// report.
///
/// Only `CpuDecoder::decode_into` and, on a GPU, `CudaSequence` write hits into memory of the
/// caller.
pub trait Decoder: Send {
    /// Returns the name of the backend on the command line.
    fn name(&self) -> &'static str;

    /// Decodes every event of `batch`, or those that it selects, replacing the contents of `hits`
    /// and `report`. Every backend takes an interval of the events and one version for all banks.
    /// Allen's kernels refuse a list of events.
    ///
    /// Hits come out in the order of `docs/format.md`: by event, then by sector group, and inside a
    /// group ascending by x and `LHCbID`. Bad banks cost only themselves and are counted in
    /// `report`.
    ///
    /// # Errors
    /// If the batch exceeds the capacity of `hits` or selects an event that it does not have, if
    /// all of its banks have another version than the tables, if it has bytes and no bank, if
    /// `hits` asks for clusters that this decoder does not give, or if the device fails. Then
    /// `hits` and `report` are unspecified, within their capacity.
    fn decode(
        &mut self,
        batch: BatchView<'_>,
        hits: &mut UtHits,
        report: &mut BatchReport,
    ) -> Result<(), DecodeError>;
}

/// Checks that the batch has every event that it selects.
pub fn check_selected(batch: &BatchView<'_>) -> Result<(), DecodeError> {
    let events = batch.n_events;
    let unknown = |&(_, &event): &(usize, &u32)| event as usize >= events;
    match batch
        .selected
        .unwrap_or_default()
        .iter()
        .enumerate()
        .find(unknown)
    {
        None => Ok(()),
        Some((place, &event)) => Err(DecodeError::NoSuchEvent {
            place,
            event,
            events,
        }),
    }
}

/// Reason that a batch could not be decoded.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
#[non_exhaustive]
pub enum DecodeError {
    #[error("the batch has {events} events, but the output buffers were made for {capacity}")]
    TooManyEvents { events: usize, capacity: usize },
    #[error(
        "event {event} of the batch brings the hits to {hits}, but the output buffers were made \
         for {capacity}"
    )]
    TooManyHits {
        event: usize,
        hits: usize,
        capacity: usize,
    },
    /// The banks have another format than the tables.
    #[error("{what}, but the tables are for version {} (format {})", table.byte(), table.name())]
    OtherVersion { what: String, table: BankVersion },
    /// The batch has bytes, but no event has a bank.
    #[error(
        "the batch has {bytes} bytes, and read in {} layout no event has a bank: is it in the other layout, or are its arrays empty?",
        if *layout == Layout::Mep { "MEP" } else { "Allen" }
    )]
    NoBanks { bytes: usize, layout: Layout },
    #[error("entry {place} of the selected events is event {event}, but the batch has {events}")]
    NoSuchEvent {
        place: usize,
        event: u32,
        events: usize,
    },
    #[error("no memory for {bytes} bytes of work space for a batch of {events} events")]
    NoMemory { events: usize, bytes: usize },
    #[error("the work space has {bytes} bytes, and the batch needs {needed}")]
    WorkSpace { bytes: usize, needed: usize },
    #[error(
        "the output buffers have {buffers} sector groups per event, but the decoder's grouping has \
         {grouping}"
    )]
    WrongGroups { buffers: usize, grouping: usize },
    #[error("{backend} backend: {message}")]
    NoList {
        backend: &'static str,
        message: &'static str,
    },
    /// The output asks for clusters, which this decoder does not give.
    #[error("charge, n_strips and first_strip come only from the backends reference and cpu")]
    NoClusters,
    #[error("{backend} backend: {message}")]
    Device {
        backend: &'static str,
        message: String,
    },
}

impl DecodeError {
    /// Returns the kind.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::TooManyEvents { .. }
            | Self::TooManyHits { .. }
            | Self::NoMemory { .. }
            | Self::WorkSpace { .. } => ErrorKind::Capacity,
            Self::NoSuchEvent { .. }
            | Self::WrongGroups { .. }
            | Self::NoList { .. }
            | Self::NoClusters => ErrorKind::Request,
            Self::Device { .. } => ErrorKind::Device,
            Self::OtherVersion { .. } => ErrorKind::Version,
            Self::NoBanks { .. } => ErrorKind::Format,
        }
    }
}
