//! Sixth kernel: sorts the hits of each group of an event, a warp a group.
//!
//! The order is (key, ord(n)): hits with both equal are equal in every bit, so that their order
//! does not show. Keys are unique in valid data, so n is looked at only if two are equal.
//!
//! Launch: [`blocks_of_warps`](simt::blocks_of_warps) `events * n_groups` warps in blocks of
//! `sort.block_x` threads, no shared memory.

use crate::allen::compress_and_make_keys::GroupRanges;
use crate::hit::ordered;
use crate::switches::Switches;
use crate::tables::Tables;
use simt::primitives::warp_sort::{Segment, warp_sort};
use simt::{Block, Global, GlobalMut, Kernel, WARP_SIZE};

/// The kernel: `permutation[i]` = place in `clusters` of the cluster of hit `i`. `keys`,
/// `permutation` and `scratch` are as long as `clusters`; `run` is the length up to which a group
/// is sorted by counting (`sort.run`).
#[derive(Clone, Copy, Debug)]
pub struct FindPermutation {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for FindPermutation {
    const NAME: &'static str = "find_permutation";
    type Arguments<'a> = (
        f32,
        u32,
        GroupRanges<'a>,
        Tables<'a>,
        Global<'a, u64>,
        GlobalMut<'a, u32>,
        GlobalMut<'a, u32>,
    );

    #[inline(always)]
    fn run<B: Block>(
        self,
        block: &B,
        &(flip_origin, run, ref ranges, ref tables, keys, permutation, scratch): &Self::Arguments<
            '_,
        >,
    ) {
        let Self { switches } = self;
        let group = block.block_idx_x() * block.warps() + block.warp_id();
        if group + 1 >= ranges.hit_offsets.len() {
            return;
        }
        let from = block.load(ranges.strip_offsets, group);
        let start = block.load(ranges.hit_offsets, group);
        let len = block.load(ranges.hit_offsets, group + 1) - start;
        let n_of = |i: u32| {
            let cluster = block.load(ranges.clusters, from + i);
            ordered(cluster.strip(block, switches, tables, flip_origin).n)
        };
        let segment = Segment { keys, start, len };
        let sorted = warp_sort(block, &segment, run, permutation, scratch, n_of);
        // From places in the group to places in `clusters`.
        let mut i = block.lane_id();
        while i < len {
            let place = block.load_mut(sorted, start + i);
            block.store(permutation, start + i, from + place);
            i += WARP_SIZE;
        }
    }
}
