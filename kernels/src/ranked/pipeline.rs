//! The launches of the pipeline, in order.

use simt::{Launcher, Shape};

use super::cluster::Cluster;
use super::gather::GatherBanks;
use super::lane_tables::LaneTables;
use super::make_hits::{HitsInput, MakeHits, Written};
use super::scan::Scan;
use super::select::{SELECT_THREADS, SelectEvents, select_blocks};
use super::sort_groups::SortGroups;
use super::tables::RankedTables;
use super::unusual::ClusterUnusual;
use super::{FlaggedGroup, RankedInput, RankedOptions, Record, Work};
use crate::bank::layout::Batch;
use crate::hit::Output;
use crate::switches::{Layout, Switches};
use simt::Global;

/// Options and sizes of decoding a batch.
#[derive(Clone, Copy, Debug)]
pub struct RankedSetup<'a> {
    /// Features that the kernels are compiled for.
    pub switches: Switches,
    /// Options of the kernels.
    pub options: RankedOptions,
    /// Events of the batch, at least 1.
    pub n_events: u32,
    /// The events to decode, in any order; `None`: all.
    pub list: Option<Global<'a, u32>>,
    /// Shapes of the launches.
    pub shapes: RankedShapes,
}

/// Shapes of the launches, each named after its kernel.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RankedShapes {
    /// Only in MEP layout.
    pub gather_banks: Shape,
    pub cluster: Shape,
    pub cluster_unusual: Shape,
    pub scan: Shape,
    pub sort_groups: Shape,
    pub make_hits: Shape,
}

/// Tables of the kernels.
#[derive(Clone, Copy, Debug)]
pub struct AllTables<'a> {
    /// Tables of all kernels.
    pub ranks: RankedTables<'a>,
    /// Further tables of `cluster_unusual`.
    pub lanes: LaneTables<'a>,
}

/// Buffers between the kernels.
#[expect(
    missing_debug_implementations,
    reason = "a launcher's buffers need not show themselves"
)]
pub struct RankedBuffers<L: Launcher> {
    /// Selected events, a bit each; empty without a list.
    pub selected: L::Buffer<u32>,
    /// MEP layout: [`bank_words`](super::gather::bank_words) words. Allen layout: empty.
    pub bank_words: L::Buffer<u32>,
    /// The pool.
    pub records: L::Buffer<Record>,
    /// [`COUNTERS`](super::COUNTERS) words.
    pub counters: L::Buffer<u32>,
    /// [`HEAD_WORDS`](super::HEAD_WORDS) words per event.
    pub heads: L::Buffer<u32>,
    /// A word per group of an event.
    pub starts: L::Buffer<u32>,
    /// A word per event.
    pub n_hits: L::Buffer<u32>,
    /// A word per event.
    pub unusual: L::Buffer<u32>,
    /// An element per group of an event.
    pub flagged: L::Buffer<FlaggedGroup>,
    /// A word per event, and one more.
    pub bases: L::Buffer<u32>,
    /// An element per block of the scan, and one more.
    pub descriptors: L::Buffer<u64>,
}

/// Decodes a batch. `output.status` is 0 before.
pub fn decode<L: Launcher>(
    launcher: &mut L,
    setup: &RankedSetup<'_>,
    batch: Batch<'_>,
    tables: AllTables<'_>,
    buffers: &mut RankedBuffers<L>,
    output: &mut Output<L>,
) -> Result<(), L::Error> {
    count(launcher, setup, batch, tables, buffers, &mut output.status)?;
    write(launcher, setup, tables, buffers, output)
}

/// Writes the records of all hits; `buffers.bases` gets the first hit of each event, and the number
/// of hits of the batch. `status` is 0 before.
pub fn count<L: Launcher>(
    launcher: &mut L,
    setup: &RankedSetup<'_>,
    batch: Batch<'_>,
    tables: AllTables<'_>,
    buffers: &mut RankedBuffers<L>,
    status: &mut L::Buffer<u32>,
) -> Result<(), L::Error> {
    let RankedSetup {
        switches,
        options,
        n_events,
        list,
        shapes,
    } = *setup;
    launcher.zero(&mut buffers.counters)?;
    launcher.zero(&mut buffers.descriptors)?;
    if let Some(list) = list {
        launcher.zero(&mut buffers.selected)?;
        let arguments = (
            list,
            n_events,
            launcher.write(&mut buffers.selected),
            launcher.write(status),
        );
        let shape = Shape {
            grid: select_blocks(list.len()),
            block: (SELECT_THREADS, 1),
            shared_bytes: 0,
        };
        launcher.launch(SelectEvents, shape, arguments)?;
    }
    if switches.layout == Layout::Mep {
        let arguments = (batch, n_events, launcher.write(&mut buffers.bank_words));
        launcher.launch(GatherBanks { switches }, shapes.gather_banks, arguments)?;
    }
    let (selected, bank_words) = (
        launcher.read(&buffers.selected),
        launcher.read(&buffers.bank_words),
    );
    let input = RankedInput {
        batch,
        bank_words,
        selected,
    };
    let mut work = Parts {
        records: &mut buffers.records,
        counters: &mut buffers.counters,
        heads: &mut buffers.heads,
        starts: &mut buffers.starts,
        n_hits: &mut buffers.n_hits,
        unusual: &mut buffers.unusual,
        flagged: &mut buffers.flagged,
        status,
    };
    let arguments = (options, input, tables.ranks, work.write(launcher));
    launcher.launch(Cluster { switches }, shapes.cluster, arguments)?;
    let arguments = (
        options,
        batch,
        tables.ranks,
        tables.lanes,
        work.write(launcher),
    );
    launcher.launch(
        ClusterUnusual { switches },
        shapes.cluster_unusual,
        arguments,
    )?;
    let arguments = (options.flip_origin, tables.ranks, work.write(launcher));
    launcher.launch(SortGroups { switches }, shapes.sort_groups, arguments)?;
    let arguments = (
        launcher.read(&buffers.n_hits),
        launcher.write(&mut buffers.bases),
        launcher.write(&mut buffers.descriptors),
    );
    launcher.launch(Scan, shapes.scan, arguments)
}

/// Makes the hits after [`count`], without the batch.
pub fn write<L: Launcher>(
    launcher: &mut L,
    setup: &RankedSetup<'_>,
    tables: AllTables<'_>,
    buffers: &RankedBuffers<L>,
    output: &mut Output<L>,
) -> Result<(), L::Error> {
    let RankedSetup {
        switches,
        options,
        shapes,
        ..
    } = *setup;
    let input = HitsInput {
        records: launcher.read(&buffers.records),
        heads: launcher.read(&buffers.heads),
        starts: launcher.read(&buffers.starts),
        counters: launcher.read(&buffers.counters),
        bases: launcher.read(&buffers.bases),
        flip_origin: options.flip_origin,
    };
    let to = Written {
        hits: output.hits.write(launcher),
        offsets: launcher.write(&mut output.offsets),
        report: launcher.write(&mut output.report),
        status: launcher.write(&mut output.status),
    };
    launcher.launch(
        MakeHits { switches },
        shapes.make_hits,
        (input, tables.ranks, to),
    )
}

/// The buffers of [`Work`].
struct Parts<'b, L: Launcher> {
    records: &'b mut L::Buffer<Record>,
    counters: &'b mut L::Buffer<u32>,
    heads: &'b mut L::Buffer<u32>,
    starts: &'b mut L::Buffer<u32>,
    n_hits: &'b mut L::Buffer<u32>,
    unusual: &'b mut L::Buffer<u32>,
    flagged: &'b mut L::Buffer<FlaggedGroup>,
    status: &'b mut L::Buffer<u32>,
}

impl<L: Launcher> Parts<'_, L> {
    /// The views, for the next launch.
    fn write(&mut self, launcher: &mut L) -> Work<'_> {
        Work {
            records: launcher.write(self.records),
            counters: launcher.write(self.counters),
            heads: launcher.write(self.heads),
            starts: launcher.write(self.starts),
            n_hits: launcher.write(self.n_hits),
            unusual: launcher.write(self.unusual),
            flagged: launcher.write(self.flagged),
            status: launcher.write(self.status),
        }
    }
}
