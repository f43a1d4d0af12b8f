//! Hits as decoders give them, the report beside them, and the one trait that all decoders have.

mod arrays;
mod cluster;
mod hit;
mod options;
mod report;

pub use arrays::{CapacityError, UtHits, UtHitsMut};
pub use cluster::Cluster;
pub use hit::{Hit, HitIter};
pub use options::{DecodeOptions, Flip, Position};
pub use report::BatchReport;
pub use ut_kernels::report::{Count, EventReport, Kind};

use crate::input::BatchView;

/// Turns batches of raw banks into hits.
///
/// A decoder is built for one detector (tables, grouping) and one set of [`DecodeOptions`] and then fed batch after
/// batch. It keeps its work buffers between batches; the caller keeps hits and report.
///
/// Hits in memory of the caller are not for every backend: `CpuDecoder::decode_into` writes
/// there on the CPU and `CudaSequence` on a GPU. The others are for comparison: the reference makes an event's hits before it
/// knows their places, and the executor of the kernels on a CPU is far too slow for a sequence.
pub trait Decoder: Send {
    /// The backend's name, as the command line knows it.
    fn name(&self) -> &'static str;

    /// Decodes every event of `batch`, or those that it selects, replacing what `hits` and `report` held. Every backend takes
    /// an interval of the events and one version for all banks. A list of events is refused by Allen's kernels, and by the
    /// fused ones where the tables have more groups, kinds of sectors or connected lanes than they have room for (96, 24 and
    /// 1200).
    ///
    /// Hits come out in the order of `docs/format.md`: by event, then by sector group, and inside a group ascending by
    /// x and `LHCbID`. Bad banks cost only themselves and are counted in `report`.
    ///
    /// # Errors
    /// When the batch has more events or hits than `hits` was made for or selects an event that it does not have, `hits` asks
    /// for clusters that this decoder does not give, or the device fails. What `hits` and `report` hold afterwards is
    /// unspecified then, never more than their capacity.
    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError>;
}

/// # Errors
/// When a list names an event that the batch does not have.
pub fn check_selected(batch: &BatchView<'_>) -> Result<(), DecodeError> {
    let events = batch.n_events;
    let unknown = |&(_, &event): &(usize, &u32)| event as usize >= events;
    match batch.selected.unwrap_or_default().iter().enumerate().find(unknown) {
        None => Ok(()),
        Some((place, &event)) => Err(DecodeError::NoSuchEvent { place, event, events }),
    }
}

/// Why a batch could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// More events than the output was made for.
    #[error("the batch has {events} events, the output buffers were made for {capacity}")]
    TooManyEvents {
        /// Events in the batch.
        events: usize,
        /// Events that the buffers can take.
        capacity: usize,
    },
    /// More hits than the output was made for.
    #[error("event {event} of the batch brings the hits to {hits}, the output buffers were made for {capacity}")]
    TooManyHits {
        /// The event, by its place in the batch, whose hits no longer fit.
        event: usize,
        /// Hits up to and including this event.
        hits: usize,
        /// Hits that the buffers can take.
        capacity: usize,
    },
    /// A list of selected events names one that the batch does not have.
    #[error("entry {place} of the selected events is event {event}, but the batch has {events}")]
    NoSuchEvent {
        /// Place in the list.
        place: usize,
        /// The event that it names.
        event: u32,
        /// Events of the batch.
        events: usize,
    },
    /// Memory for the events of a batch could not be allocated.
    #[error("no memory for {bytes} bytes of work space for a batch of {events} events")]
    NoMemory {
        /// Events of the batch.
        events: usize,
        /// Bytes.
        bytes: usize,
    },
    /// The work space that the caller lends is too small for the events of a batch.
    #[error("the work space has {bytes} bytes, and the batch needs {needed}")]
    WorkSpace {
        /// Size.
        bytes: usize,
        /// Number that is needed.
        needed: usize,
    },
    /// The output was made for another number of sector groups.
    #[error("the output buffers have {buffers} sector groups an event, the decoder's grouping has {grouping}")]
    WrongGroups {
        /// Groups of the output buffers.
        buffers: usize,
        /// Groups of the decoder's grouping.
        grouping: usize,
    },
    /// A list of events was selected, which these kernels or tables do not support.
    #[error("{backend} backend: {message}")]
    NoList {
        /// Name of the backend.
        backend: &'static str,
        /// Why, and what to do.
        message: &'static str,
    },
    /// The output asks for what this decoder does not give.
    #[error("charge, n_strips and first_strip come from the backends reference and cpu alone")]
    NoClusters,
    /// A CPU decoder with several threads was made before this process was forked: its threads stayed in the parent.
    #[error("this decoder's threads did not survive the fork: make a new decoder in the forked process")]
    Forked,
    /// The device, its driver or the executor reported a failure.
    #[error("{backend} backend: {message}")]
    Device {
        /// Name of the backend.
        backend: &'static str,
        /// Message of the backend.
        message: String,
    },
}
