//! The launches of Allen's pipeline, in order.

use simt::{Launcher, Shape};

use super::cluster_and_predecode::{ClusterAndPredecode, ClusterInput, ClusterOutput};
use super::compress_and_make_keys::{CompressAndMakeKeys, GroupRanges};
use super::count_hits::{CountHits, CountOutput};
use super::decode_in_order::{DecodeInOrder, DecodeInput};
use super::find_permutation::FindPermutation;
use super::prefix_sum::prefix_sum;
use crate::bank::layout::Batch;
use crate::clustering::ClusterOptions;
use crate::hit::{Cluster, Output};
use crate::switches::Switches;
use crate::tables::Tables;

/// Options and sizes of decoding a batch.
#[derive(Clone, Copy, Debug)]
pub struct AllenSetup {
    /// Features that the kernels are compiled for.
    pub switches: Switches,
    /// Options of the clustering.
    pub options: ClusterOptions,
    /// Number from which the mean strip of a flipped sector is subtracted.
    pub flip_origin: f32,
    /// Length up to which a group is sorted by counting.
    pub sort_run: u32,
    /// Shapes of the launches.
    pub shapes: AllenShapes,
}

/// Shapes of the launches, each named after its kernel.
#[derive(Clone, Copy, Debug)]
pub struct AllenShapes {
    /// Launch of `count_hits`.
    pub count_hits: Shape,
    /// Launches of both kernels of both prefix sums.
    pub prefix_sum: Shape,
    /// Launch of `cluster_and_predecode`.
    pub cluster_and_predecode: Shape,
    /// Launch of `compress_and_make_keys`.
    pub compress_and_make_keys: Shape,
    /// Launch of `find_permutation`.
    pub find_permutation: Shape,
    /// Launch of `decode_in_order`.
    pub decode_in_order: Shape,
}

/// Buffers between the kernels. A counter is a group of an event.
#[expect(
    missing_debug_implementations,
    reason = "a launcher's buffers need not show themselves"
)]
pub struct AllenBuffers<L: Launcher> {
    /// A word a counter.
    pub strip_counts: L::Buffer<u32>,
    /// A word a counter, and one more.
    pub strip_offsets: L::Buffer<u32>,
    /// A word a counter.
    pub cluster_counts: L::Buffer<u32>,
    /// One word per tile of a prefix sum over the counters.
    pub tile_totals: L::Buffer<u32>,
    /// [`items_capacity`](super::count_hits::items_capacity) an event.
    pub items: L::Buffer<u64>,
    /// One word per event.
    pub n_items: L::Buffer<u32>,
    /// Buffers with an element a strip.
    pub strips: StripBuffers<L>,
}

/// Buffers between the kernels with an element a strip.
#[expect(
    missing_debug_implementations,
    reason = "a launcher's buffers need not show themselves"
)]
pub struct StripBuffers<L: Launcher> {
    /// The clusters, with gaps.
    pub clusters: L::Buffer<Cluster>,
    /// Sort keys.
    pub keys: L::Buffer<u64>,
    /// Cluster at each place of the output.
    pub permutation: L::Buffer<u32>,
    /// Scratch of the sort.
    pub scratch: L::Buffer<u32>,
}

/// Launcher that provides the buffers with an element a strip.
pub trait AllenLauncher: Launcher + Sized {
    /// Called once the device has the number of strips, as the last of `offsets`. A launcher that
    /// waits for it can make `strips` as long; without room for all of them the kernels write
    /// nothing and set a bit of the status.
    fn reserve_strips(
        &mut self,
        offsets: &Self::Buffer<u32>,
        strips: &mut StripBuffers<Self>,
    ) -> Result<(), Self::Error>;
}

/// Launches the seven kernels, in nine launches. `output.status` is 0 before.
pub fn decode<L: AllenLauncher>(
    launcher: &mut L,
    setup: &AllenSetup,
    batch: Batch<'_>,
    tables: Tables<'_>,
    buffers: &mut AllenBuffers<L>,
    output: &mut Output<L>,
) -> Result<(), L::Error> {
    let AllenSetup {
        switches,
        options,
        flip_origin,
        sort_run,
        shapes,
    } = *setup;
    let AllenBuffers {
        strip_counts,
        strip_offsets,
        cluster_counts,
        tile_totals,
        items,
        n_items,
        strips,
    } = buffers;

    let to = CountOutput {
        strip_counts: launcher.write(strip_counts),
        items: launcher.write(items),
        n_items: launcher.write(n_items),
        report: launcher.write(&mut output.report),
    };
    launcher.launch(
        CountHits { switches },
        shapes.count_hits,
        (batch, tables, to),
    )?;
    prefix_sum(
        launcher,
        shapes.prefix_sum,
        strip_counts,
        strip_offsets,
        tile_totals,
    )?;
    launcher.reserve_strips(strip_offsets, strips)?;
    let StripBuffers {
        clusters,
        keys,
        permutation,
        scratch,
    } = strips;

    let from = ClusterInput {
        raw: batch.raw,
        items: launcher.read(items),
        n_items: launcher.read(n_items),
        strip_offsets: launcher.read(strip_offsets),
    };
    let to = ClusterOutput {
        clusters: launcher.write(clusters),
        cluster_counts: launcher.write(cluster_counts),
        report: launcher.write(&mut output.report),
        status: launcher.write(&mut output.status),
    };
    launcher.launch(
        ClusterAndPredecode { switches },
        shapes.cluster_and_predecode,
        (options, from, tables, to),
    )?;
    prefix_sum(
        launcher,
        shapes.prefix_sum,
        cluster_counts,
        &mut output.offsets,
        tile_totals,
    )?;

    let ranges = GroupRanges {
        strip_offsets: launcher.read(strip_offsets),
        hit_offsets: launcher.read(&output.offsets),
        clusters: launcher.read(clusters),
    };
    let arguments = (flip_origin, ranges, tables, launcher.write(keys));
    launcher.launch(
        CompressAndMakeKeys { switches },
        shapes.compress_and_make_keys,
        arguments,
    )?;

    let sorted = (
        launcher.read(keys),
        launcher.write(permutation),
        launcher.write(scratch),
    );
    let arguments = (
        flip_origin,
        sort_run,
        ranges,
        tables,
        sorted.0,
        sorted.1,
        sorted.2,
    );
    launcher.launch(
        FindPermutation { switches },
        shapes.find_permutation,
        arguments,
    )?;

    let from = DecodeInput {
        hit_offsets: ranges.hit_offsets,
        permutation: launcher.read(permutation),
        clusters: ranges.clusters,
    };
    let (hits, status) = (
        output.hits.write(launcher),
        launcher.write(&mut output.status),
    );
    launcher.launch(
        DecodeInOrder { switches },
        shapes.decode_in_order,
        (flip_origin, from, tables, hits, status),
    )
}
