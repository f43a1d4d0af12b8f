//! Where the next event is, to have it in the cache in time. Only hints: nothing is read.
//!
//! A line that comes from the memory takes as long as a bank or several lanes, and only a few can be requested at
//! once. So they are prefetched one by one, all along stages 1 and 2; in MEP layout, all in stage 1.

use crate::input::{BatchView, Layout};

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// The lines that stage 2 asks for.
#[derive(Clone, Copy, Debug)]
pub struct Prefetch {
    /// The first line that stage 1 did not ask for, if it left any.
    pub line: Option<*const u8>,
}

impl Prefetch {
    /// What comes after `event`, which has `n_banks` banks.
    pub fn after_banks(batch: BatchView<'_>, event: usize, n_banks: usize) -> Self {
        let line = match batch.layout {
            Layout::Allen => Some(Self::next_event(batch, event).wrapping_add(LINE * n_banks)),
            Layout::Mep => None,
        };
        Self { line }
    }

    /// Allen: where the first line of the next event is. Stage 1 asks for as many from there on as it finds banks.
    pub fn next_event(batch: BatchView<'_>, event: usize) -> *const u8 {
        batch.raw.as_ptr().wrapping_add(batch.offsets.get(event + 1).map_or(0, |&begin| begin as usize))
    }
}
