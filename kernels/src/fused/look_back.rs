//! Beginning of an event's hits, found while earlier events are still on their way: decoupled look-back.
//!
//! ```text
//! descriptor of a block:   nothing yet  →  aggregate (its own hits)  →  inclusive prefix (all hits up to and with it)
//!
//! block 7 looks at    6: own 3   5: own 8   4: nothing yet …wait…   4: own 2   3: up to 40     ⇒  3 + 8 + 2 + 40 = 53
//! ```
//!
//! Flag and number are one word: relaxed atomics do, without a fence. Blocks are numbered by ticket, in the order in
//! which they begin, so that a block waits only for blocks that run or have ended. A warp looks at 32 blocks at a time.
//! Sums stay at [`LIMIT`], which no batch may reach.

use simt::primitives::warp_scan::warp_inclusive;
use simt::{Block, FULL_MASK, Global, GlobalMut, WARP_SIZE};

/// Number that is too large: the flags leave 30 bits.
pub const LIMIT: u32 = (1 << 30) - 1;

const AGGREGATE: u32 = 1 << 30;
const INCLUSIVE: u32 = 2 << 30;

/// A ticket, a descriptor a block, and the lengths of the lists of groups and events: zero before the launch.
#[derive(Clone, Copy, Debug)]
pub struct LookBack<'a>(pub GlobalMut<'a, u32>);

impl LookBack<'_> {
    /// Words for a launch of `blocks` blocks.
    pub const fn words(blocks: usize) -> usize {
        3 + blocks
    }

    /// Takes a ticket: 0 for the first block that asks. One thread of the block calls.
    #[inline(always)]
    pub fn ticket<B: Block>(&self, block: &B) -> u32 {
        block.atomic_add(self.0, 0, 1)
    }

    /// Appends an event to the list of those that are left for another kernel. One thread of the block calls.
    #[inline(always)]
    pub fn leave<B: Block>(&self, block: &B, others: GlobalMut<'_, u32>, event: u32) {
        let place = block.atomic_add(self.0, self.0.len() - 1, 1);
        block.store(others, place, event);
    }

    /// Takes `n` places of the list of groups for the other kernel; returns the first. One thread of the block calls.
    #[inline(always)]
    pub fn leave_groups<B: Block>(&self, block: &B, n: u32) -> u32 {
        block.atomic_add(self.0, self.0.len() - 2, n)
    }

    /// Number of groups left for the other kernel, after the launch.
    #[inline(always)]
    pub fn groups<B: Block>(block: &B, words: Global<'_, u32>) -> u32 {
        block.load(words, words.len() - 2)
    }

    /// Number of events left for the other kernel, after the launch.
    #[inline(always)]
    pub fn others<B: Block>(block: &B, words: Global<'_, u32>) -> u32 {
        block.load(words, words.len() - 1)
    }

    /// Publishes `own` as the aggregate of the block with `ticket`. One thread of the block calls.
    #[inline(always)]
    pub fn publish_aggregate<B: Block>(&self, block: &B, ticket: u32, own: u32) {
        let state = if ticket == 0 { INCLUSIVE } else { AGGREGATE };
        block.atomic_store(self.0, 1 + ticket, state | own.min(LIMIT));
    }

    /// Returns the sum of all earlier blocks, and publishes the inclusive prefix. One warp calls, after the aggregate.
    #[inline(always)]
    pub fn exclusive_prefix<B: Block>(&self, block: &B, ticket: u32, own: u32) -> u32 {
        let lane = block.lane_id();
        let mut sum = 0u32;
        let mut end = ticket;
        while end > 0 {
            let state = if lane < end { block.atomic_load(self.0, end - lane) } else { INCLUSIVE };
            let last = block.ballot_sync(FULL_MASK, state & INCLUSIVE != 0);
            // Lanes up to the first with an inclusive prefix.
            let wanted = last ^ last.wrapping_sub(1);
            if block.ballot_sync(FULL_MASK, state == 0) & wanted != 0 {
                block.pause();
                continue;
            }
            let value = if wanted >> lane & 1 == 1 { state & LIMIT } else { 0 };
            let total = warp_inclusive::<32, B>(block, value);
            sum = sum.saturating_add(block.shuffle_idx_sync(FULL_MASK, total, WARP_SIZE - 1)).min(LIMIT);
            if last != 0 {
                break;
            }
            end -= WARP_SIZE;
        }
        if ticket > 0 && lane == 0 {
            block.atomic_store(self.0, 1 + ticket, INCLUSIVE | sum.saturating_add(own).min(LIMIT));
        }
        sum
    }
}
