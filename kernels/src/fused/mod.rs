//! From raw banks to sorted hits in one kernel, a thread a strip and then a thread a hit, through shared memory.
//!
//! ```text
//! once, from the tables:
//!     rank the lanes by (sector group, x); note for each whether x falls with the strip number
//!
//! for each event, a block:
//!     1 look           a thread a bank: every test of the policy; descriptor[rank] of each lane with hits    banks.rs
//!     2 list           a scan over the ranks: the lanes with hits in order; a bit a strip that begins one    places.rs
//!     3 read           a thread a strip, in the order of the ranks: its lane by the bits, its word from
//!                      the bank; a cluster begins where the word does not follow the one before, and the
//!                      strips behind its first add up in the place of the second                             strips.rs
//!     4 place          a scan over the warps' clusters: hits of the event, first hit of each group           hits.rs
//!       base           the hits of all events before: look-back over the blocks, or known                    look_back.rs
//!     5 make           a thread a cluster: one division, the constants of its rank, seven stores             hits.rs
//!                      few lanes overlap: each x is compared with the x before
//!                      most do: a warp sorts the groups that fit in its lanes                                groups.rs
//!     6 leave          the groups in which x does not rise: listed for the other kernel                      mod.rs
//!
//!     an event with more strips than a tile has room for: 3 and 4 tile by tile, to count; then 3, 4 and 5 tile by
//!     tile, to write
//! ```
//!
//! **No sort.** The sector that a lane reads, and so the range of x of its hits, is known before the first event. Hits that
//! are written lane by lane in the order of (group, x), inside a lane in the direction in which x rises, come out sorted
//! as far as these ranges do not overlap: in y-rows all but a few groups, in unique-x hardly any.
//!
//! **The other events.** Anything unusual (a bank with trouble or of another type, a board that is named twice, an
//! unsorted lane, a strip without charge, a cluster above the maximum size, an address that is not aligned, tables that
//! do not fit the records) leaves the whole event to the second kernel, [`others`], which knows every rule. The first
//! only counts its hits, slowly (`count.rs`), and leaves room for them in the output. Only the device knows how many
//! groups and events are left, so the second launch has as many blocks as are worth having.
//!
//! **Waiting.** A block waits only for earlier events ([`look_back`]), and publishes its own number of hits as soon as
//! it is known. If a launch before has counted the hits, no block waits, and everything is read twice.
//!
//! Launch: as many blocks as events, `fused.block_x` threads, [`fused_shared_bytes`] of shared memory.

mod banks;
mod count;
mod groups;
pub mod hit_tables;
mod hits;
mod lane;
pub mod look_back;
pub mod others;
pub mod pipeline;
mod places;
mod shared;
mod strips;

pub use shared::{MAX_STRIPS, MIN_STRIPS, Room, fused_shared_bytes};

use crate::ranked::lane_tables::LaneTables;
use banks::{Banks, Place};
use count::Slow;
use hit_tables::HitTables;
use hits::{Maker, place_groups};
use lane::Hits;
use look_back::{LIMIT, LookBack};
use shared::FusedShared;
use strips::Tile;

use crate::bank::headers::clear;
use crate::bank::layout::Batch;
use crate::clustering::ClusterOptions;
use crate::hit::HitArrays;
use crate::report::{Count, N_COUNTS};
use crate::status::HITS_OVERFLOW;
use crate::switches::Switches;
use simt::{Block, FULL_MASK, Global, GlobalMut, Kernel, WARP_SIZE};

/// Options of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FusedOptions {
    /// Clustering.
    pub cluster: ClusterOptions,
    /// Number from which the mean strip of a flipped sector is subtracted.
    pub flip_origin: f32,
    /// Strips of a tile: a multiple of 32 from [`MIN_STRIPS`] to [`MAX_STRIPS`].
    pub strips: u32,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for FusedOptions {}

/// Arrays of a batch that the kernels read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FusedInput<'a> {
    /// The batch.
    pub batch: Batch<'a>,
    /// MEP layout: words that [`gather`](crate::ranked::gather) makes. Allen layout: empty.
    pub bank_words: Global<'a, u32>,
    /// Events to decode, a bit each from the lowest of the first word on; empty: all. Other events get no hits and an
    /// empty report. Only with tables that have all records (see [`HitTables`]).
    pub selected: Global<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for FusedInput<'_> {}

/// Arrays that both kernels write.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// The hits.
    pub hits: HitArrays<'a>,
    /// Beginning of the hits of each group of each event, and the end of the last: `events * n_groups + 1`.
    pub offsets: GlobalMut<'a, u32>,
    /// `N_COUNTS` counters an event.
    pub report: GlobalMut<'a, u32>,
    /// One word, see [`status`](crate::status).
    pub status: GlobalMut<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for Written<'_> {}

/// Arrays that the first kernel writes, and the first hits of events if known.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FusedOutput<'a> {
    /// The result.
    pub to: Written<'a>,
    /// The words of a [`LookBack`], zero before the launch.
    pub look_back: GlobalMut<'a, u32>,
    /// Groups left for the other kernel, a word each, numbered among the groups of all events.
    pub groups: GlobalMut<'a, u32>,
    /// Events left for the other kernel, a word each.
    pub others: GlobalMut<'a, u32>,
    /// First hit of each event if known beforehand; else empty.
    pub bases: Global<'a, u32>,
    /// A word an event, if hits are only counted and nothing else is written; else empty.
    pub counts: GlobalMut<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for FusedOutput<'_> {}

/// Sets the flag of unusual events if any lane of the warp asks. All lanes of the warp call.
#[inline(always)]
fn note<B: Block>(block: &B, shared: &FusedShared, unusual: bool) {
    let unusual = block.ballot_sync(FULL_MASK, unusual);
    if unusual != 0 && block.lane_id() == 0 {
        block.shared_atomic_or(shared.unusual, 0, 1);
    }
}

/// The kernel. Events whose hits do not all fit are not written, and set a bit of the status.
#[derive(Clone, Copy, Debug)]
pub struct Fused {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for Fused {
    const NAME: &'static str = "fused";
    type Arguments<'a> = (FusedOptions, FusedInput<'a>, HitTables<'a>, LaneTables<'a>, FusedOutput<'a>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, (options, input, tables, all_tables, output): &Self::Arguments<'_>) {
        let Self { switches } = self;
        let room = Room { threads: block.threads(), strips: options.strips };
        let (shared, _) = FusedShared::layout(switches.version, room);
        let raw = input.batch.raw.as_words().and_then(Global::non_empty);
        // (Without bytes, or with tables that do not fit, every decoded event is unusual.)
        let banks = raw.filter(|_| tables.fits != 0);
        let banks = banks.map(|raw| Banks { switches, batch: &input.batch, bank_words: input.bank_words, raw });
        if block.thread() == 0 {
            begin(block, &shared, input.selected, banks, tables, output);
        }
        clear(block, shared.ranks, 0);
        clear(block, shared.boards_seen, 0);
        clear(block, shared.lane_begins, 0);
        clear(block, shared.bad_groups, 0);
        // The event is known, and everything cleared.
        block.sync_threads();
        let event = block.shared_load(shared.event, 0);

        let unusual = banks.is_some_and(|banks| banks.look(block, tables, &shared));
        note(block, &shared, unusual);
        block.sync_threads();
        let n_strips = places::list(block, tables, &shared).strips();
        if output.counts.is_empty() {
            // (For an unusual event, the other kernel overwrites the report.)
            write_report(block, &output.to, event, Place::of(block, &shared).n_banks, n_strips);
        }
        let hits = raw.map(|raw| Hits {
            version: switches.version,
            raw: raw.as_u16(),
            payloads: shared.payloads,
            first_words: shared.first_words,
        });
        let Some(hit_arrays) = output.to.hits.of_one_length() else {
            // No host passes such arrays. (The same for all blocks: none waits for this one.)
            if block.thread() == 0 {
                block.atomic_or(output.to.status, 0, HITS_OVERFLOW);
            }
            return;
        };
        let maker = tables.of_hits().map(|tables| Maker {
            version: switches.version,
            options: options.cluster,
            flip_origin: options.flip_origin,
            tables,
            shared,
            hits: &hit_arrays,
        });
        block.sync_threads();
        // (Rarely needed values are read again each time, and leave their registers to the loop.)
        let event = || block.shared_load(shared.event, 0);
        let n_strips = || places::Run::of_event(block, &shared).strips();
        let is_last = || Tile::of(block, &shared).is_last(n_strips());
        let is_counted = || block.shared_load(shared.is_counted, 0) != 0;
        // Uniform in the block.
        let is_unusual = loop {
            let unusual = match &hits {
                Some(hits) => strips::read(block, hits, options.cluster, &shared, n_strips()),
                None => strips::read_nothing(block, &shared),
            };
            note(block, &shared, unusual);
            block.sync_threads();
            if !is_counted() {
                if block.shared_load(shared.unusual, 0) != 0 {
                    break true;
                }
                // Told before the groups are placed: later events wait for nothing else.
                if is_last() && looks_back(block) {
                    let (_, hits) = places::before_and_all(block, shared.warp_hits);
                    tell(block, output, event(), Tile::of(block, &shared).hits_before + hits);
                }
                let n_hits = place_groups(block, tables, &shared, all_tables.first_ranks, n_strips());
                if is_last() && !publish(block, &shared, output, tables.n_groups, event(), n_hits, false) {
                    return;
                }
            }
            // An event of one tile is written at once, a larger one when all its tiles are counted.
            if is_counted() || is_last() && Tile::start(block, &shared) == 0 {
                match &maker {
                    Some(maker) if tables.overlaps != 0 => maker.write_sorted(block, tables.n_groups),
                    Some(maker) => maker.write(block),
                    None => {}
                }
                if is_last() {
                    break false;
                }
            }
            advance(block, &shared, is_last());
        };
        if is_unusual {
            let slow = Slow { switches, options: options.cluster, batch: &input.batch, tables: all_tables };
            // (With known offsets, the number of hits is not needed.)
            let n_hits = if output.bases.is_empty() { slow.count(block, &shared, event()) } else { 0 };
            if looks_back(block) {
                tell(block, output, event(), n_hits);
            }
            publish(block, &shared, output, tables.n_groups, event(), n_hits, true);
            return;
        }
        block.sync_threads();
        leave_groups(block, &shared, output, tables.n_groups, event());
    }
}

/// Finds the block's event, and its place. One thread of the block calls; a barrier must follow.
#[inline(always)]
fn begin<B: Block>(
    block: &B,
    shared: &FusedShared,
    selected: Global<'_, u32>,
    banks: Option<Banks<'_>>,
    tables: &HitTables<'_>,
    output: &FusedOutput<'_>,
) {
    let waits = output.bases.is_empty() && output.counts.is_empty();
    let event = if waits { LookBack(output.look_back).ticket(block) } else { block.block_idx_x() };
    block.shared_store(shared.event, 0, event);
    let is_selected = is_selected(block, selected, event);
    let banks = banks.filter(|_| is_selected);
    let place = banks.and_then(|banks| banks.place(block, tables, event));
    place.unwrap_or(Place::NONE).put(block, shared);
    block.shared_store(shared.unusual, 0, u32::from(is_selected && place.is_none()));
    block.shared_store(shared.first_broken, 0, u32::MAX);
    block.shared_store(shared.n_slow, 0, 0);
    block.shared_store(shared.is_counted, 0, 0);
    Tile::BEGIN.put(block, shared);
}

/// Goes on to the next tile, or from the last back to the first, to write. All threads call; ends with a barrier.
#[inline(always)]
fn advance<B: Block>(block: &B, shared: &FusedShared, is_last: bool) {
    let next = if is_last { Tile::BEGIN } else { Tile::of(block, shared).next(block, shared) };
    // All threads are done with the tile.
    block.sync_threads();
    if block.thread() == 0 {
        next.put(block, shared);
        if is_last {
            block.shared_store(shared.is_counted, 0, 1);
        }
    }
    clear(block, shared.lane_begins, 0);
    // No lane is marked.
    block.sync_threads();
    places::mark(block, shared, next.start);
    block.sync_threads();
}

/// Lists the groups that are noted for the other kernel. All warps call, after a barrier since the last was noted.
#[inline(always)]
fn leave_groups<B: Block>(block: &B, shared: &FusedShared, output: &FusedOutput<'_>, n_groups: u32, event: u32) {
    let mut word = block.warp_id();
    while word < shared.bad_groups.len() {
        let bits = block.shared_load(shared.bad_groups, word);
        // Uniform in the warp.
        if bits != 0 {
            let lane = block.lane_id();
            let mut place = 0;
            if lane == 0 {
                place = LookBack(output.look_back).leave_groups(block, bits.count_ones());
            }
            let place = block.shuffle_idx_sync(FULL_MASK, place, 0) + (bits & block.lanemask_lt()).count_ones();
            if bits >> lane & 1 != 0 {
                block.store(output.groups, place, event * n_groups + word * WARP_SIZE + lane);
            }
        }
        word += block.warps();
    }
}

#[inline(always)]
fn is_selected<B: Block>(block: &B, selected: Global<'_, u32>, event: u32) -> bool {
    let word = event / 32;
    selected.is_empty() || word < selected.len() && block.load(selected, word) >> (event % 32) & 1 != 0
}

/// Returns true in the warp that looks back: the last, which has no groups to place where there are many warps.
#[inline(always)]
fn looks_back<B: Block>(block: &B) -> bool {
    block.warp_id() + 1 == block.warps()
}

/// Publishes the event's number of hits, if later events wait for it. The warp that looks back calls.
#[inline(always)]
fn tell<B: Block>(block: &B, output: &FusedOutput<'_>, event: u32, n_hits: u32) {
    if block.lane_id() == 0 && output.bases.is_empty() && output.counts.is_empty() {
        LookBack(output.look_back).publish_aggregate(block, event, n_hits);
    }
}

/// Finds the event's first hit, and writes the offsets of its groups. All threads of the block call, after [`tell`];
/// ends with a barrier. Returns true if this kernel is to write the hits.
#[inline(always)]
fn publish<B: Block>(
    block: &B,
    shared: &FusedShared,
    output: &FusedOutput<'_>,
    n_groups: u32,
    event: u32,
    n_hits: u32,
    is_unusual: bool,
) -> bool {
    let FusedOutput { to, others, bases, counts, .. } = output;
    if !counts.is_empty() {
        if block.thread() == 0 {
            block.store(*counts, event, n_hits);
        }
        return false;
    }
    let look_back = LookBack(output.look_back);
    if looks_back(block) {
        let base =
            if bases.is_empty() { look_back.exclusive_prefix(block, event, n_hits) } else { block.load(*bases, event) };
        if block.lane_id() == 0 {
            block.shared_store(shared.base, 0, base);
        }
    }
    // The base is known, and where the groups begin.
    block.sync_threads();
    let base = block.shared_load(shared.base, 0);
    if is_unusual {
        if block.thread() == 0 {
            block.store(to.offsets, event * n_groups, base);
            look_back.leave(block, *others, event);
        }
        return false;
    }
    let is_last = event + 1 == block.grid_dim_x();
    let mut group = block.thread();
    // The first group of the next event, or the end of the last event, closes the last group.
    while group < n_groups + u32::from(is_last) {
        let start = base.saturating_add(block.shared_load(shared.group_hits, group));
        block.store(to.offsets, event * n_groups + group, start);
        group += block.threads();
    }
    let end = base.saturating_add(n_hits);
    if end >= LIMIT || end > to.hits.id.len() {
        if block.thread() == 0 {
            block.atomic_or(to.status, 0, HITS_OVERFLOW);
        }
        return false;
    }
    true
}

/// Writes the counters of an ordinary event. All threads of the block call.
#[inline(always)]
fn write_report<B: Block>(block: &B, to: &Written<'_>, event: u32, n_banks: u32, n_strips: u32) {
    let i = block.thread();
    if i < N_COUNTS as u32 {
        let n = if i == Count::Banks as u32 {
            n_banks
        } else if i == Count::Strips as u32 {
            n_strips
        } else {
            0
        };
        block.store(to.report, event * N_COUNTS as u32 + i, n);
    }
}
