//! Prefetches the next event: hints, by which nothing is read.
//!
//! A line takes as long to come from memory as a bank or several lanes take to decode, and only a
//! few can be requested at once. So lines are requested one by one, all along stages 1 and 2; in
//! MEP layout, all in stage 1.

use ut_data::input::{BatchView, Layout};

pub const LINE: usize = 64;

/// Maximum number of cache lines to prefetch, whatever a batch claims; a mean event has 280.
const MAX_LINES: usize = 1024;

/// Lines that stage 2 prefetches.
#[derive(Clone, Copy, Debug)]
pub struct Prefetch {
    /// First line that stage 1 did not prefetch.
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
        Self {
            from: batch.raw.as_ptr().wrapping_add(next),
            n_lines,
        }
    }

    /// Allen: address of the next event's first line. Stage 1 prefetches as many lines from there
    /// as it finds banks.
    pub fn next_event(batch: BatchView<'_>, event: usize) -> *const u8 {
        batch.raw.as_ptr().wrapping_add(
            batch
                .offsets
                .get(event + 1)
                .map_or(0, |&begin| begin as usize),
        )
    }
}
