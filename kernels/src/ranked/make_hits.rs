//! Last kernel: from records to hits.
//!
//! ```text
//! pool      … a a a a … d d d … b b b …      parts of the event, wherever their warps found room
//! head      a: 17, 0   b: 90, 4   d: 42, 7   place in the pool, hits of the event before the part
//! hits      … │ a a a a b b b d d d │ …      from the event's first hit on, found by the scan
//! ```
//!
//! **Nothing is searched.** One warp of `cluster` wrote each part of an event into one piece of the
//! pool, in the order of the output. The event's head, a line of 128 bytes that a warp reads with
//! one load, has the place of each piece and of its first hit; its last words are the report.
//!
//! **A thread per record.** Its rank gives the constants of its lane. In v5 one division gives the
//! mean strip, of which all positions are linear functions; the division is rounded as everywhere,
//! so that all backends give the same bits. Seven stores of four bytes follow, into seven arrays.
//!
//! **Whole sectors.** A warp begins at a sector of 32 bytes of the output, so that every later
//! store of it fills whole sectors: this kernel is bound by the bytes that it moves, and not by its
//! instructions. Only the first and the last store of a part share sectors with other parts.
//!
//! Launch: any number of blocks of [`HITS_THREADS`](super::HITS_THREADS) threads, which share the
//! events.

use super::tables::{Formulas, Place, RankedTables};
use super::{EXHAUSTED, HEAD_BEFORE, HEAD_REPORT, HEAD_WORDS, PARTS, Record};
use crate::hit::HitArrays;
use crate::report::{Count, N_COUNTS};
use crate::status::{HITS_OVERFLOW, WRONG_VERSION};
use crate::switches::Switches;
use simt::{Block, FULL_MASK, Global, GlobalMut, Kernel, NonEmpty, WARP_SIZE};

/// Input of the kernel, apart from the tables.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HitsInput<'a> {
    /// See [`Work`](super::Work).
    pub records: Global<'a, Record>,
    /// See [`Work`](super::Work).
    pub heads: Global<'a, u32>,
    /// See [`Work`](super::Work).
    pub starts: Global<'a, u32>,
    /// See [`Work`](super::Work).
    pub counters: Global<'a, u32>,
    /// First hit of each event, and the number of hits of the batch.
    pub bases: Global<'a, u32>,
    /// Number from which the mean strip of a flipped sector is subtracted.
    pub flip_origin: f32,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for HitsInput<'_> {}

/// Results of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// The hits.
    pub hits: HitArrays<'a>,
    /// Beginning of the hits of each group of each event, and the end of the last:
    /// `events * n_groups + 1`.
    pub offsets: GlobalMut<'a, u32>,
    /// `N_COUNTS` counters per event.
    pub report: GlobalMut<'a, u32>,
    /// One word, see [`status`](crate::status).
    pub status: GlobalMut<'a, u32>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for Written<'_> {}

/// Hits that begin a sector of 32 bytes.
const OF_SECTOR: u32 = 8;

/// The kernel. Events whose hits do not all fit are not written, and set a bit of the status.
#[derive(Clone, Copy, Debug)]
pub struct MakeHits {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for MakeHits {
    const NAME: &'static str = "make_hits";
    type Arguments<'a> = (HitsInput<'a>, RankedTables<'a>, Written<'a>);

    #[inline(always)]
    fn run<B: Block>(self, block: &B, (input, tables, to): &Self::Arguments<'_>) {
        let n_events = input.bases.len() - 1;
        // (The same for all blocks. Without room for all records the batch is decoded again.)
        let is_exhausted = block.load(input.counters, EXHAUSTED) != 0;
        let maker = match (
            input.records.non_empty(),
            tables.formulas(self.switches.version, input.flip_origin),
            to.hits.of_one_length(),
        ) {
            (Some(records), Some(formulas), Some(hits)) if !is_exhausted => Some(Maker {
                records,
                formulas,
                hits,
            }),
            _ => None,
        };
        let mut event = block.block_idx_x();
        // Uniform in the block.
        while event < n_events {
            let base = block.load(input.bases, event);
            let end = block.load(input.bases, event + 1);
            write_offsets(block, input, tables, to, event, base);
            // One word of the head per warp lane: all that a warp needs to know of the event.
            let head = block.load(input.heads, event * HEAD_WORDS + block.lane_id());
            if block.warp_id() == 0 && block.lane_id() >= HEAD_REPORT {
                let count = block.lane_id() - HEAD_REPORT;
                block.store(to.report, event * N_COUNTS as u32 + count, head);
                if count == Count::WrongVersion as u32 && head > 0 {
                    block.atomic_or(to.status, 0, WRONG_VERSION);
                }
            }
            match &maker {
                Some(maker) if end <= maker.hits.id.len() && end < u32::MAX => {
                    let mut part = block.warp_id();
                    // Uniform in the warp.
                    while part < PARTS {
                        maker.make_part(block, part, base, head);
                        part += block.warps();
                    }
                }
                _ if end > base && block.thread() == 0 => {
                    block.atomic_or(to.status, 0, HITS_OVERFLOW);
                }
                _ => {}
            }
            event += block.grid_dim_x();
        }
    }
}

#[inline(always)]
fn write_offsets<B: Block>(
    block: &B,
    input: &HitsInput<'_>,
    tables: &RankedTables<'_>,
    to: &Written<'_>,
    event: u32,
    base: u32,
) {
    let n_groups = tables.n_groups;
    let mut group = block.thread();
    while group < n_groups {
        let place = event * n_groups + group;
        block.store(
            to.offsets,
            place,
            base.saturating_add(block.load(input.starts, place)),
        );
        group += block.threads();
    }
    if event + 2 == input.bases.len() && block.thread() == 0 {
        block.store(
            to.offsets,
            (event + 1) * n_groups,
            block.load(input.bases, event + 1),
        );
    }
}

/// All that hits are made from, and where they go.
struct Maker<'a> {
    records: NonEmpty<'a, Record>,
    formulas: Formulas<'a>,
    hits: HitArrays<'a>,
}

impl Maker<'_> {
    /// Makes the hits of a part of an event, whose hits begin at `base`. All threads of the warp
    /// call, with their word of the head.
    #[inline(always)]
    fn make_part<B: Block>(&self, block: &B, part: u32, base: u32, head: u32) {
        let word = |i| block.shuffle_idx_sync(FULL_MASK, head, i);
        let (from, before) = (word(part), word(HEAD_BEFORE + part));
        let n = word(HEAD_BEFORE + part + 1) - before;
        let to = base + before;
        // From the beginning of a sector on. (Before the part's first, a number is larger than
        // any.)
        let mut i = block.lane_id().wrapping_sub(to % OF_SECTOR);
        while i.cast_signed() < n.cast_signed() {
            if i < n {
                let record = block.load_within(self.records, from + i);
                let place = self.formulas.place(block, record);
                store(block, &self.hits, &place, to + i);
            }
            i = i.wrapping_add(WARP_SIZE);
        }
    }
}

#[inline(always)]
fn store<B: Block>(block: &B, hits: &HitArrays<'_>, place: &Place, at: u32) {
    let Place { n, id, lane, class } = place;
    let y_begin = lane.p0_y + n * class.dp0di_y;
    // (All seven have one length: the compiler tests the place once.)
    block.store(hits.y_begin, at, y_begin);
    block.store(hits.y_end, at, class.dy + y_begin);
    block.store(hits.z_at_y_eq0, at, lane.p0_z + n * class.dp0di_z);
    block.store(hits.x_at_y_eq0, at, place.x());
    block.store(hits.dx_dy, at, class.dx_dy);
    block.store(hits.weight, at, class.weight);
    block.store(hits.id, at, *id);
}

const _: () = assert!(HEAD_REPORT + N_COUNTS as u32 == WARP_SIZE && HEAD_WORDS == WARP_SIZE);
