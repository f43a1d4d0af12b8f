//! The launches of the fused pipeline, in order.

use simt::{Launcher, Shape};

use super::gather::GatherBanks;
use super::tables::LaneTables;
use super::{CountClusters, Fused, FusedInput, FusedOptions, FusedOutput, Room};
use crate::allen::prefix_sum::prefix_sum;
use crate::bank::layout::Batch;
use crate::hit::Output;
use crate::switches::{Layout, Switches};

/// What decides how a batch is decoded.
#[derive(Clone, Copy, Debug)]
pub struct FusedSetup {
    /// What the kernels are compiled for.
    pub switches: Switches,
    /// Options of the kernel.
    pub options: FusedOptions,
    /// Events of the batch, at least 1.
    pub n_events: u32,
    /// Shapes of the launches.
    pub shapes: FusedShapes,
}

/// Shapes of the launches.
#[derive(Clone, Copy, Debug)]
pub struct FusedShapes {
    /// Of `gather_banks`, in MEP layout.
    pub gather_banks: Shape,
    /// Of `count_clusters` and of both kernels of the prefix sum over events, where clusters are counted first.
    pub count_first: Option<(Shape, Shape)>,
    /// Of `fused`.
    pub fused: Shape,
}

/// What lies between the kernels.
#[expect(missing_debug_implementations, reason = "a launcher's buffers need not show themselves")]
pub struct FusedBuffers<L: Launcher> {
    /// MEP layout: as long as the batch's `offsets`. Allen layout: empty.
    pub bank_words: L::Buffer<u32>,
    /// Where clusters are counted first: a word an event. Else unused.
    pub counts: L::Buffer<u32>,
    /// Where clusters are counted first: a word an event, and one more. Else empty.
    pub bases: L::Buffer<u32>,
    /// Where clusters are counted first: a word a tile of a prefix sum over the events. Else unused.
    pub tile_totals: L::Buffer<u32>,
    /// A word an event, and one more.
    pub look_back: L::Buffer<u32>,
}

/// Launches `fused`; in MEP layout after `gather_banks`, and where wanted after a count. `output.status` is 0 before.
///
/// # Errors
/// What the launcher says.
pub fn decode<L: Launcher>(
    launcher: &mut L,
    setup: &FusedSetup,
    batch: Batch<'_>,
    tables: LaneTables<'_>,
    buffers: &mut FusedBuffers<L>,
    output: &mut Output<L>,
) -> Result<(), L::Error> {
    let FusedSetup { switches, options, n_events, shapes } = *setup;
    let FusedBuffers { bank_words, counts, bases, tile_totals, look_back } = buffers;

    launcher.zero(look_back)?;
    if switches.layout == Layout::Mep {
        let arguments = (batch, n_events, launcher.write(bank_words));
        launcher.launch(GatherBanks { switches }, shapes.gather_banks, arguments)?;
    }
    let input = FusedInput { batch, bank_words: launcher.read(bank_words) };
    if let Some((count, sum)) = shapes.count_first {
        // Counting keeps no cluster.
        let counting = FusedOptions { room: Room { tile: 0, ..options.room }, ..options };
        let arguments = (counting, input, tables, launcher.write(counts));
        launcher.launch(CountClusters { switches }, count, arguments)?;
        prefix_sum(launcher, sum, counts, bases, tile_totals)?;
    }
    let to = FusedOutput {
        hits: output.hits.write(launcher),
        offsets: launcher.write(&mut output.offsets),
        report: launcher.write(&mut output.report),
        status: launcher.write(&mut output.status),
        look_back: launcher.write(look_back),
        bases: launcher.read(bases),
    };
    launcher.launch(Fused { switches }, shapes.fused, (options, input, tables, to))
}
