//! The launches of the fused pipeline, in order.

use simt::{Global, Launcher, Shape};

use super::hit_tables::HitTables;
use super::others::{FusedOthers, Left};
use super::{Fused, FusedInput, FusedOptions, FusedOutput, Written};
use crate::allen::prefix_sum::prefix_sum;
use crate::bank::layout::Batch;
use crate::hit::Output;
use crate::ranked::gather::GatherBanks;
use crate::ranked::lane_tables::LaneTables;
use crate::ranked::select::{SELECT_THREADS, SelectEvents, select_blocks};
use crate::switches::{Layout, Switches};

/// Options and sizes of decoding a batch.
#[derive(Clone, Copy, Debug)]
pub struct FusedSetup<'a> {
    /// Features that the kernels are compiled for.
    pub switches: Switches,
    /// Options of the kernels.
    pub options: FusedOptions,
    /// Events of the batch, at least 1.
    pub n_events: u32,
    /// The events to decode, in any order; `None`: all. Only with tables that have all records (see [`HitTables`]).
    pub list: Option<Global<'a, u32>>,
    /// Shapes of the launches.
    pub shapes: FusedShapes,
}

/// Shapes of the launches, each named after its kernel.
#[derive(Clone, Copy, Debug)]
pub struct FusedShapes {
    /// Launch of `gather_banks`, in MEP layout.
    pub gather_banks: Shape,
    /// Launches of both kernels of the prefix sum over events, if hits are counted first.
    pub count_first: Option<Shape>,
    /// Launch of `fused`.
    pub fused: Shape,
    /// Launch of `fused_others`.
    pub others: Shape,
}

/// Tables of both kernels.
#[derive(Clone, Copy, Debug)]
pub struct FusedTables<'a> {
    /// Tables of `fused`.
    pub records: HitTables<'a>,
    /// Tables of `fused_others`.
    pub lanes: LaneTables<'a>,
}

/// Buffers between the kernels.
#[expect(missing_debug_implementations, reason = "a launcher's buffers need not show themselves")]
pub struct FusedBuffers<L: Launcher> {
    /// Selected events, a bit an event; empty without a list.
    pub selected: L::Buffer<u32>,
    /// MEP layout: [`bank_words`](crate::ranked::gather::bank_words) words. Allen layout: empty.
    pub bank_words: L::Buffer<u32>,
    /// Counts, a word an event, if hits are counted first; else empty.
    pub counts: L::Buffer<u32>,
    /// Beginnings of events, a word an event and one more, if hits are counted first; else empty.
    pub bases: L::Buffer<u32>,
    /// Aggregates of the prefix sum over the events, a word a tile, if hits are counted first; else unused.
    pub tile_totals: L::Buffer<u32>,
    /// [`LookBack::words`](super::look_back::LookBack::words).
    pub look_back: L::Buffer<u32>,
    /// A word a group of an event.
    pub groups: L::Buffer<u32>,
    /// A word an event.
    pub others: L::Buffer<u32>,
    /// Empty buffer.
    pub nothing: L::Buffer<u32>,
}

/// Counts if `setup` has the shape for it, and then decodes. `output.status` is 0 before.
pub fn decode<L: Launcher>(
    launcher: &mut L,
    setup: &FusedSetup<'_>,
    batch: Batch<'_>,
    tables: FusedTables<'_>,
    buffers: &mut FusedBuffers<L>,
    output: &mut Output<L>,
) -> Result<(), L::Error> {
    prepare(launcher, setup, batch, buffers, output)?;
    if setup.shapes.count_first.is_some() {
        count_gathered(launcher, setup, batch, tables, buffers, output)?;
    }
    write(launcher, setup, batch, tables, buffers, output)
}

/// Only counts: `buffers.bases` gets the first hit of each event, and the batch's number of hits. Of `output` only the
/// status is used, which is 0 before. `setup` has the shape for counting first.
pub fn count<L: Launcher>(
    launcher: &mut L,
    setup: &FusedSetup<'_>,
    batch: Batch<'_>,
    tables: FusedTables<'_>,
    buffers: &mut FusedBuffers<L>,
    output: &mut Output<L>,
) -> Result<(), L::Error> {
    prepare(launcher, setup, batch, buffers, output)?;
    count_gathered(launcher, setup, batch, tables, buffers, output)
}

/// Turns a list of events into a bit an event; MEP layout: gathers a word a bank.
fn prepare<L: Launcher>(
    launcher: &mut L,
    setup: &FusedSetup<'_>,
    batch: Batch<'_>,
    buffers: &mut FusedBuffers<L>,
    output: &mut Output<L>,
) -> Result<(), L::Error> {
    let FusedSetup { switches, n_events, list, shapes, .. } = *setup;
    if let Some(list) = list {
        launcher.zero(&mut buffers.selected)?;
        let arguments = (list, n_events, launcher.write(&mut buffers.selected), launcher.write(&mut output.status));
        let shape = Shape { grid: select_blocks(list.len()), block: (SELECT_THREADS, 1), shared_bytes: 0 };
        launcher.launch(SelectEvents, shape, arguments)?;
    }
    if switches.layout == Layout::Allen {
        return Ok(());
    }
    let arguments = (batch, n_events, launcher.write(&mut buffers.bank_words));
    launcher.launch(GatherBanks { switches }, shapes.gather_banks, arguments)
}

fn count_gathered<L: Launcher>(
    launcher: &mut L,
    setup: &FusedSetup<'_>,
    batch: Batch<'_>,
    tables: FusedTables<'_>,
    buffers: &mut FusedBuffers<L>,
    output: &mut Output<L>,
) -> Result<(), L::Error> {
    let FusedSetup { switches, options, shapes, .. } = *setup;
    let Some(sum) = shapes.count_first else { return Ok(()) };
    let FusedBuffers { selected, bank_words, counts, bases, tile_totals, look_back, groups, others, nothing, .. } =
        buffers;
    let input = FusedInput { batch, bank_words: launcher.read(bank_words), selected: launcher.read(selected) };
    let to = FusedOutput {
        to: written(launcher, output),
        look_back: launcher.write(look_back),
        groups: launcher.write(groups),
        others: launcher.write(others),
        bases: launcher.read(nothing),
        counts: launcher.write(counts),
    };
    launcher.launch(Fused { switches }, shapes.fused, (options, input, tables.records, tables.lanes, to))?;
    prefix_sum(launcher, sum, counts, bases, tile_totals)
}

/// Decodes after [`count`], which made the mask and gathered the banks, to the places in `buffers.bases`.
pub fn write<L: Launcher>(
    launcher: &mut L,
    setup: &FusedSetup<'_>,
    batch: Batch<'_>,
    tables: FusedTables<'_>,
    buffers: &mut FusedBuffers<L>,
    output: &mut Output<L>,
) -> Result<(), L::Error> {
    let FusedSetup { switches, options, n_events, shapes, .. } = *setup;
    let FusedBuffers { selected, bank_words, bases, look_back, groups, others, nothing, .. } = buffers;
    launcher.zero(look_back)?;
    let input = FusedInput { batch, bank_words: launcher.read(bank_words), selected: launcher.read(selected) };
    let to = FusedOutput {
        to: written(launcher, output),
        look_back: launcher.write(look_back),
        groups: launcher.write(groups),
        others: launcher.write(others),
        bases: launcher.read(bases),
        counts: launcher.write(nothing),
    };
    launcher.launch(Fused { switches }, shapes.fused, (options, input, tables.records, tables.lanes, to))?;
    let (others, groups, look_back) = (launcher.read(others), launcher.read(groups), launcher.read(look_back));
    let left = Left { others, groups, look_back, n_events };
    let arguments = (options, batch, tables.lanes, left, written(launcher, output));
    launcher.launch(FusedOthers { switches }, shapes.others, arguments)
}

fn written<'a, L: Launcher>(launcher: &mut L, output: &'a mut Output<L>) -> Written<'a> {
    Written {
        hits: output.hits.write(launcher),
        offsets: launcher.write(&mut output.offsets),
        report: launcher.write(&mut output.report),
        status: launcher.write(&mut output.status),
    }
}
