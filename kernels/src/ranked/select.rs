//! Turns a list of events, in any order and with repetitions, into a mask.
//!
//! ```text
//! list  5 0 2 7      mask  0b1010_0101      (bit e: event e)
//! ```
//!
//! Every event has a block, listed or not, since every event has places in the results. A number
//! that the batch does not have sets a bit of the status.
//!
//! Launch: [`select_blocks`] blocks of [`SELECT_THREADS`] threads. The mask is zero before.

use crate::status::NO_SUCH_EVENT;
use simt::{Block, Global, GlobalMut, Kernel};

/// Threads of a block.
pub const SELECT_THREADS: u32 = 256;

/// Blocks to launch for a list of `listed` events; at least 1.
pub const fn select_blocks(listed: u32) -> u32 {
    if listed == 0 {
        1
    } else {
        listed.div_ceil(SELECT_THREADS)
    }
}

/// The kernel: sets a bit for each event of the list, the first event's in the lowest bit of the
/// first word.
#[derive(Clone, Copy, Debug)]
pub struct SelectEvents;

impl Kernel for SelectEvents {
    const NAME: &'static str = "select_events";
    type Arguments<'a> = (Global<'a, u32>, u32, GlobalMut<'a, u32>, GlobalMut<'a, u32>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, &(list, n_events, mask, status): &Self::Arguments<'_>) {
        let i = block.block_idx_x() * block.threads() + block.thread();
        if i < list.len() {
            let event = block.load(list, i);
            if event < n_events {
                block.atomic_or(mask, event / 32, 1 << (event % 32));
            } else {
                block.atomic_or(status, 0, NO_SUCH_EVENT);
            }
        }
    }
}
