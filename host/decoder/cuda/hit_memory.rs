//! Memory of the caller for the hits of a batch.

/// Where the hits of a counted batch are to be written: device memory, addresses that are multiples of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HitMemory {
    /// Seven arrays of as many elements of four bytes as were counted, one behind the other: `y_begin`, `y_end`,
    /// `z_at_y_eq0`, `x_at_y_eq0`, `dx_dy`, `weight`, `id`.
    pub hits: u64,
    /// `n_events * n_groups + 1` words: where the hits of each group of each event begin, and where the last end.
    pub offsets: u64,
    /// [`N_COUNTS`](ut_kernels::report::N_COUNTS) words an event.
    pub report: u64,
}
