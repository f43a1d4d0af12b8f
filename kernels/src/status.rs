//! The status word of a batch: what a kernel found that the host must act on.

/// The strip buffers are too small for the batch: nothing was clustered in the events beyond them.
pub const STRIPS_OVERFLOW: u32 = 1;

/// The hit buffers are too small for the batch: the events beyond them were not written.
pub const HITS_OVERFLOW: u32 = 2;
