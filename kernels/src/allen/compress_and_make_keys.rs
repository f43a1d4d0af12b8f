//! Fifth kernel (after the prefix sum over clusters): makes the sort keys, without gaps. A warp a
//! group of an event. Launch: [`blocks_of_warps`](simt::blocks_of_warps) `events * n_groups` warps
//! in blocks of `compress.block_x` threads, no shared memory.

use crate::hit::Cluster;
use crate::switches::Switches;
use crate::tables::Tables;
use simt::{Block, Global, GlobalMut, Kernel, WARP_SIZE};

/// Ranges of the clusters of all groups.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupRanges<'a> {
    /// Exclusive prefix sum over strips: first cluster of each group in `clusters`.
    pub strip_offsets: Global<'a, u32>,
    /// Exclusive prefix sum over clusters: first hit of each group. `events * n_groups + 1`.
    pub hit_offsets: Global<'a, u32>,
    /// The clusters, with gaps.
    pub clusters: Global<'a, Cluster>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for GroupRanges<'_> {}

/// The kernel. `keys` is as long as `clusters`; the mean strip of a flipped sector is subtracted
/// from `flip_origin`.
#[derive(Clone, Copy, Debug)]
pub struct CompressAndMakeKeys {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for CompressAndMakeKeys {
    const NAME: &'static str = "compress_and_make_keys";
    type Arguments<'a> = (f32, GroupRanges<'a>, Tables<'a>, GlobalMut<'a, u64>);

    #[inline(always)]
    fn run<B: Block>(
        self,
        block: &B,
        &(flip_origin, ref ranges, ref tables, keys): &Self::Arguments<'_>,
    ) {
        let Self { switches } = self;
        let group = block.block_idx_x() * block.warps() + block.warp_id();
        if group + 1 >= ranges.hit_offsets.len() {
            return;
        }
        let from = block.load(ranges.strip_offsets, group);
        let to = block.load(ranges.hit_offsets, group);
        let n = block.load(ranges.hit_offsets, group + 1) - to;
        let mut i = block.lane_id();
        while i < n {
            let cluster = block.load(ranges.clusters, from + i);
            block.store(
                keys,
                to + i,
                cluster.strip(block, switches, tables, flip_origin).key(),
            );
            i += WARP_SIZE;
        }
    }
}
