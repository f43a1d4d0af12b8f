//! From raw banks to sorted hits, a thread a strip and then a thread a hit: the kernel for ordinary events.
//!
//! # In pseudo-code
//!
//! ```text
//! once, from the tables:
//!     rank the lanes by (sector group, x); note for each whether x falls with the strip number
//!
//! for each event, a block:
//!     1 look           a thread a bank: every test of the policy; descriptor[rank] of each lane with hits    banks.rs
//!     2 list           a scan over the ranks: the lanes with hits in order; a bit a strip that begins one    places.rs
//!     3 read           a thread a strip, in the order of the ranks: its lane by the bits, its word from
//!                      the bank; a cluster begins where the word does not follow the one before              strips.rs
//!     4 place          a scan over the warps' clusters: hits of the event, first hit of each group           hits.rs
//!       base           the hits of all events before: look-back over the blocks
//!     5 make           a thread a cluster: sums, one division, the constants of its rank, seven stores;
//!                      x is compared with the x before while it is in a register                             hits.rs
//!     6 repair         the few groups in which x does not rise: sorted in place                              repair.rs
//!
//!     where the event has more strips than the window has room for: 3 and 4 window by window, to count;
//!                      then 3, 4 and 5 window by window, to write
//! ```
//!
//! No lane is walked by a thread, and no atomic or sort decides where a hit belongs: the rank of its lane does, as in the
//! CPU decoder's fast path.
//!
//! # The other events
//!
//! Whatever is unusual (a bank with trouble or of another type, a board that is named twice, an unsorted lane, a strip
//! without charge, a cluster above the maximum size, two equal keys, an address that is not aligned, tables that do not
//! fit the records) makes the whole event one for the other kernel, [`decode_others`], which knows every rule. There is
//! no path for it here but one: its hits are counted, slowly and without being kept (`count.rs`), so that
//!
//! ```text
//! launch 1    decode_ordinary    a block an event, in the order of tickets: counts its hits, ordinary or not, tells how
//!                                many, looks back, and so knows where they begin: offsets[event * groups]. Writes the
//!                                hits of an ordinary event; appends an unusual one to the list
//! launch 2    decode_others      blocks share the list: each event's hits to the place that the first launch left
//! ```
//!
//! and no block waits for anything that a later launch does: places are dense and in order whatever the events are, and
//! whom a block waits for has begun before it and never waits for it. An event that turns out to be unusual only when its
//! hits are written (equal keys) is appended then; the second launch writes all of it again. The hosts' length of the list
//! is the device's: the second launch has as many blocks as are worth having, and they stop at the list's end.
//!
//! Launch: as many blocks as events, [`hit_shared_bytes`] of shared memory.

mod banks;
mod count;
mod hits;
mod lane;
mod places;
mod repair;
mod shared;
mod strips;
pub mod tables;

pub use shared::{HitRoom, MAX_STRIPS, MIN_STRIPS, hit_shared_bytes};

use banks::Banks;
use count::Slow;
use hits::{Maker, place_groups};
use lane::Hits;
use repair::Written;
use shared::HitShared;
use strips::Window;
use tables::HitTables;

use simt::{Block, FULL_MASK, Global, GlobalMut};
use crate::clustering::ClusterOptions;
use crate::fused::FusedInput;
use crate::fused::look_back::{LIMIT, LookBack};
use crate::fused::tables::LaneTables;
use crate::headers::clear;
use crate::hit::HitArrays;
use crate::report::{Count, N_COUNTS};
use crate::status::HITS_OVERFLOW;
use crate::switches::Switches;

/// Numbers of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HitOptions {
    /// Clustering.
    pub cluster: ClusterOptions,
    /// What the mean strip of a flipped sector is subtracted from.
    pub flip_origin: f32,
    /// Strips of a window: a multiple of 32 from [`MIN_STRIPS`] to [`MAX_STRIPS`].
    pub strips: u32,
}

/// What the kernel writes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HitOutput<'a> {
    /// The hits.
    pub hits: HitArrays<'a>,
    /// Where the hits of each group of each event begin, and where the last end: `events * n_groups + 1`.
    pub offsets: GlobalMut<'a, u32>,
    /// `N_COUNTS` counters an event.
    pub report: GlobalMut<'a, u32>,
    /// One word, see [`status`](crate::status).
    pub status: GlobalMut<'a, u32>,
    /// Ticket and states of the look-back, `1 + events` words, zero before the launch.
    pub look_back: GlobalMut<'a, u32>,
    /// The events for the other kernel: how many, which is zero before the launch, and their numbers; `1 + events` words.
    pub others: GlobalMut<'a, u32>,
}

/// Appends an event to those for the other kernel. One thread of the block calls, once.
#[inline(always)]
fn leave<B: Block>(block: &B, others: GlobalMut<'_, u32>, event: u32) {
    let place = block.atomic_add(others, 0, 1);
    block.store(others, 1 + place, event);
}

/// Sets the flag of unusual events where a lane of the warp wants it. All lanes of the warp call.
#[inline(always)]
fn note<B: Block>(block: &B, shared: &HitShared, unusual: bool) {
    let unusual = block.ballot_sync(FULL_MASK, unusual);
    if unusual != 0 && block.lane_id() == 0 {
        block.shared_atomic_or(shared.unusual, 0, 1);
    }
}

/// The kernel. Events whose hits do not all fit are not written, and say so in the status.
#[inline(always)]
pub fn decode_ordinary<B: Block>(
    block: &B,
    switches: Switches,
    options: &HitOptions,
    input: &FusedInput<'_>,
    tables: &HitTables<'_>,
    all_tables: &LaneTables<'_>,
    output: &HitOutput<'_>,
) {
    let (shared, _) = HitShared::layout(HitRoom {
        version: switches.version,
        threads: block.threads(),
        strips: options.strips,
    });
    let look_back = LookBack(output.look_back);
    if block.thread() == 0 {
        block.shared_store(shared.event, 0, look_back.ticket(block));
        block.shared_store(shared.unusual, 0, 0);
        block.shared_store(shared.first_broken, 0, u32::MAX);
        block.shared_store(shared.n_slow, 0, 0);
        block.shared_store(shared.is_counted, 0, 0);
        Window::BEGIN.put(block, &shared);
    }
    clear(block, shared.ranks, 0);
    clear(block, shared.boards_seen, 0);
    clear(block, shared.lane_begins, 0);
    clear(block, shared.bad_groups, 0);
    // The event is known, and everything cleared.
    block.sync_threads();
    let event = block.shared_load(shared.event, 0);

    let raw = banks::words(input.batch.raw);
    let raw_words = raw.unwrap_or(Global::from_slice(&[]));
    let (mut n_banks, mut unusual) = (0, true);
    if tables.fits != 0 && raw.is_some() {
        let banks = Banks { switches, batch: &input.batch, bank_words: input.bank_words, raw: raw_words };
        (n_banks, unusual) = banks.look(block, tables, &shared, event);
    }
    note(block, &shared, unusual);
    // The lanes are noted.
    block.sync_threads();
    let n_strips = places::list(block, tables, &shared).strips();
    // (Of an unusual event the other kernel says more.)
    write_report(block, output, event, n_banks, n_strips);
    let hits = Hits {
        version: switches.version,
        raw: raw_words.as_u16(),
        payloads: shared.payloads,
        first_words: shared.first_words,
    };
    let maker = Maker {
        version: switches.version,
        options: options.cluster,
        flip_origin: options.flip_origin,
        tables,
        shared,
        hits: &output.hits,
    };
    // The lanes are listed and those of the first window marked.
    block.sync_threads();
    // (What the loop needs rarely is read again each time: so it has the registers.)
    let event = || block.shared_load(shared.event, 0);
    let n_strips = || places::Run::of_event(block, &shared).strips();
    // Everything that the loop depends on is the same for all threads.
    loop {
        let unusual = strips::read(block, &hits, options.cluster, &shared, n_strips());
        note(block, &shared, unusual);
        // The strips are there, the clusters of each warp's part, and the window.
        block.sync_threads();
        let is_first = Window::of(block, &shared).start == 0;
        let mut writes = block.shared_load(shared.is_counted, 0) != 0;
        let mut is_counted_now = false;
        if !writes {
            let is_unusual = block.shared_load(shared.unusual, 0) != 0;
            let mut n_hits = place_groups(block, tables, &shared, all_tables.first_ranks, n_strips());
            if is_unusual {
                let slow =
                    Slow { switches, options: options.cluster, batch: &input.batch, tables: all_tables };
                n_hits = slow.count(block, &shared, event());
            }
            if is_unusual || Window::of(block, &shared).is_last(n_strips()) {
                if !publish(block, &shared, output, &look_back, tables.n_groups, event(), n_hits, is_unusual) {
                    return;
                }
                is_counted_now = true;
                writes = is_first;
            }
        }
        if writes {
            maker.write(block);
            if Window::of(block, &shared).is_last(n_strips()) {
                break;
            }
        }
        let next = if is_counted_now { Window::BEGIN } else { Window::of(block, &shared).next(block, &shared) };
        // The window is done with.
        block.sync_threads();
        if block.thread() == 0 {
            next.put(block, &shared);
            if is_counted_now {
                block.shared_store(shared.is_counted, 0, 1);
            }
        }
        clear(block, shared.lane_begins, 0);
        // No lane is marked.
        block.sync_threads();
        places::mark(block, &shared, next.start);
        // The window's lanes are marked.
        block.sync_threads();
    }
    // All hits are there before some are moved.
    block.sync_threads();
    let written = Written { shared, hits: &output.hits };
    if written.repair(block)
        && block.lane_id() == 0
        // The first warp that fails says so.
        && block.shared_atomic_or(shared.unusual, 0, 1) == 0
    {
        leave(block, output.others, event());
    }
}

/// Tells the events behind how many hits this one has, and writes where its groups begin. All threads of the block call;
/// ends with a barrier. Gives whether the hits are to be written by this kernel.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "everything that is known of the event")]
fn publish<B: Block>(
    block: &B,
    shared: &HitShared,
    output: &HitOutput<'_>,
    look_back: &LookBack<'_>,
    n_groups: u32,
    event: u32,
    n_hits: u32,
    is_unusual: bool,
) -> bool {
    if block.warp_id() == 0 {
        if block.lane_id() == 0 {
            look_back.publish_own(block, event, n_hits);
        }
        let base = look_back.sum_before(block, event, n_hits);
        if block.lane_id() == 0 {
            block.shared_store(shared.base, 0, base);
        }
    }
    // The base is known, and where the groups begin.
    block.sync_threads();
    let base = block.shared_load(shared.base, 0);
    if is_unusual {
        if block.thread() == 0 {
            // Where the other kernel finds it.
            block.store(output.offsets, event * n_groups, base);
            leave(block, output.others, event);
        }
        return false;
    }
    let is_last = event + 1 == block.grid_dim_x();
    let mut group = block.thread();
    // The start of the next event closes the last group, or the end of the last event.
    while group < n_groups + u32::from(is_last) {
        let start = base.saturating_add(block.shared_load(shared.group_hits, group));
        block.store(output.offsets, event * n_groups + group, start);
        group += block.threads();
    }
    let end = base.saturating_add(n_hits);
    if end >= LIMIT || end > output.hits.id.len() {
        if block.thread() == 0 {
            block.atomic_or(output.status, 0, HITS_OVERFLOW);
        }
        return false;
    }
    true
}

/// The counters of an ordinary event. All threads of the block call.
#[inline(always)]
fn write_report<B: Block>(block: &B, output: &HitOutput<'_>, event: u32, n_banks: u32, n_strips: u32) {
    let i = block.thread();
    if i < N_COUNTS as u32 {
        let n = if i == Count::Banks as u32 {
            n_banks
        } else if i == Count::Strips as u32 {
            n_strips
        } else {
            0
        };
        block.store(output.report, event * N_COUNTS as u32 + i, n);
    }
}
