//! Prefetches the next event, to have it in the cache in time. These are hints: nothing is read.
//!
//! A line that comes from the memory takes as long as a bank or several lanes, and only a few can be requested at
//! once. So they are prefetched one by one, all along stages 1 and 2; in MEP layout, all in stage 1.

use ut_data::input::{BatchView, Layout};

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Most lines that are prefetched, whatever a batch says about its events; a mean event has 280.
const MAX_LINES: usize = 1024;

/// The lines that stage 2 asks for.
#[derive(Clone, Copy, Debug)]
pub struct Prefetch {
    /// The first line that stage 1 did not ask for.
    pub from: *const u8,
    pub n_lines: usize,
}

impl Prefetch {
    /// Returns the position after `event`, which has `n_banks` banks.
    pub fn after_banks(batch: BatchView<'_>, event: usize, n_banks: usize) -> Self {
        let place = |event: usize| batch.offsets.get(event).map_or(0, |&begin| begin as usize);
        let (next, end) = match batch.layout {
            Layout::Allen => (place(event + 1) + LINE * n_banks, place(event + 2)),
            Layout::Mep => (0, 0),
        };
        let n_lines = end.saturating_sub(next).div_ceil(LINE).min(MAX_LINES);
        Self { from: batch.raw.as_ptr().wrapping_add(next), n_lines }
    }

    /// Allen: where the first line of the next event is. Stage 1 asks for as many from there on as it finds banks.
    pub fn next_event(batch: BatchView<'_>, event: usize) -> *const u8 {
        batch.raw.as_ptr().wrapping_add(batch.offsets.get(event + 1).map_or(0, |&begin| begin as usize))
    }
}
