//! The status word of a batch: what a kernel found that the host must act on.

/// The strip buffers are too small for the batch: nothing was clustered in the events beyond them.
pub const STRIPS_OVERFLOW: u32 = 1;

/// The hit buffers are too small for the batch: the events beyond them were not written.
pub const HITS_OVERFLOW: u32 = 2;

/// The list of events names one that the batch does not have. The others of the list were decoded.
pub const NO_SUCH_EVENT: u32 = 4;

/// Banks are of another version than the tables', by the versions of the batch: they have no hits.
pub const WRONG_VERSION: u32 = 8;
