//! Last kernel: from records to hits.
//!
//! A warp takes a part of an event, which lies in one piece of the pool and of the output: nothing
//! is searched. It begins at a sector of 32 bytes of the output, so that every later store of it
//! fills whole sectors: this kernel is bound by the bytes that it moves, and not by its
//! instructions.
//!
//! Launch: any number of blocks of [`THREADS`] threads, which share the events.

use super::tables::{Formulas, Place, RankedTables};
use super::{EXHAUSTED, HEAD_LENGTHS, HEAD_REPORT, HEAD_WORDS, PARTS, Record, THREADS};
use crate::hit::HitArrays;
use crate::report::{Count, N_COUNTS};
use crate::status::{HITS_OVERFLOW, WRONG_VERSION};
use crate::switches::Switches;
use simt::{Block, FULL_MASK, Global, GlobalMut, Kernel, WARP_SIZE};

/// Input of the kernel, besides the tables.
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
        let formulas = tables.formulas(self.switches.version, input.flip_origin);
        // (The same for all blocks. Without room for all records the batch is decoded again.)
        let hits = if block.load(input.counters, EXHAUSTED) == 0 {
            to.hits.of_one_length()
        } else {
            None
        };
        let mut event = block.block_idx_x();
        // Uniform in the block.
        while event < n_events {
            let base = block.load(input.bases, event);
            let end = block.load(input.bases, event + 1);
            write_offsets(block, input, tables, to, event, base);
            let head = block.load(input.heads, event * HEAD_WORDS + block.lane_id());
            if block.warp_id() == 0
                && block.lane_id() >= HEAD_REPORT
                && block.lane_id() < HEAD_REPORT + N_COUNTS as u32
            {
                let count = block.lane_id() - HEAD_REPORT;
                block.store(to.report, event * N_COUNTS as u32 + count, head);
                if count == Count::WrongVersion as u32 && head > 0 {
                    block.atomic_or(to.status, 0, WRONG_VERSION);
                }
            }
            match (&formulas, &hits) {
                (Some(formulas), Some(hits)) if end <= hits.id.len() && end < u32::MAX => {
                    write_part(block, input.records, formulas, hits, base, head);
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
        group += THREADS;
    }
    if event + 2 == input.bases.len() && block.thread() == 0 {
        block.store(
            to.offsets,
            (event + 1) * n_groups,
            block.load(input.bases, event + 1),
        );
    }
}

/// Makes the hits of a part of an event, whose hits begin at `base`. All threads of the warp call,
/// with their word of the head.
#[inline(always)]
fn write_part<B: Block>(
    block: &B,
    records: Global<'_, Record>,
    formulas: &Formulas<'_>,
    hits: &HitArrays<'_>,
    base: u32,
    head: u32,
) {
    let (lane, part) = (block.lane_id(), block.warp_id());
    let is_earlier = lane >= HEAD_LENGTHS && lane < HEAD_LENGTHS + part;
    let to = base + block.redux_add_sync(FULL_MASK, if is_earlier { head } else { 0 });
    let n = block.shuffle_idx_sync(FULL_MASK, head, HEAD_LENGTHS + part);
    let from = block.shuffle_idx_sync(FULL_MASK, head, part);
    // From the beginning of a sector on. (Before the part's first, a number is larger than any.)
    let mut i = lane.wrapping_sub(to % OF_SECTOR);
    while i.cast_signed() < n.cast_signed() {
        if i < n {
            let place = formulas.place(block, block.load(records, from + i));
            store(block, hits, &place, to + i);
        }
        i = i.wrapping_add(WARP_SIZE);
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

const _: () = assert!(2 * PARTS == HEAD_REPORT);
