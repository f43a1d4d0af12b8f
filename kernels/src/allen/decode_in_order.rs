//! Last kernel: works out the hits and writes them in their final order. One block per event, one
//! thread per hit; with the layer loop, as Allen had it once, layer by layer.
//!
//! Launch: as many blocks as events, `decode.block_x` threads, no shared memory.

use crate::hit::{Cluster, HitArrays};
use crate::status::HITS_OVERFLOW;
use crate::switches::Switches;
use crate::tables::Tables;
use simt::{Block, Global, GlobalMut, Kernel};

/// Input of the kernel, besides the tables.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DecodeInput<'a> {
    /// Exclusive prefix sum over clusters: `events * n_groups + 1`.
    pub hit_offsets: Global<'a, u32>,
    /// Hit → place of its cluster.
    pub permutation: Global<'a, u32>,
    /// The clusters.
    pub clusters: Global<'a, Cluster>,
}

// SAFETY: `repr(C)`, of views and numbers only.
unsafe impl simt::Argument for DecodeInput<'_> {}

/// The kernel. Events whose hits do not all fit `hits` are not written, and say so in `status`.
#[derive(Clone, Copy, Debug)]
pub struct DecodeInOrder {
    /// Features that the kernel is compiled for.
    pub switches: Switches,
}

impl Kernel for DecodeInOrder {
    const NAME: &'static str = "decode_in_order";
    type Arguments<'a> = (
        f32,
        DecodeInput<'a>,
        Tables<'a>,
        HitArrays<'a>,
        GlobalMut<'a, u32>,
    );

    #[inline(always)]
    fn run<B: Block>(
        self,
        block: &B,
        &(flip_origin, ref input, ref tables, ref hits, status): &Self::Arguments<'_>,
    ) {
        let Self { switches } = self;
        let first_group = block.block_idx_x() * tables.n_groups;
        let start = block.load(input.hit_offsets, first_group);
        let end = block.load(input.hit_offsets, first_group + tables.n_groups);
        if end > hits.id.len() {
            if block.thread() == 0 {
                block.atomic_or(status, 0, HITS_OVERFLOW);
            }
            return;
        }
        let decode = |start: u32, end: u32| {
            let mut i = start + block.thread();
            while i < end {
                let place = block.load(input.permutation, i);
                let cluster = block.load(input.clusters, place);
                cluster
                    .strip(block, switches, tables, flip_origin)
                    .store(block, hits, i);
                i += block.threads();
            }
        };
        if switches.layer_loop {
            let mut layer = 0;
            while layer + 1 < tables.layer_groups.len() {
                let from = block.load(tables.layer_groups, layer);
                let to = block.load(tables.layer_groups, layer + 1);
                let from = block.load(input.hit_offsets, first_group + from);
                decode(from, block.load(input.hit_offsets, first_group + to));
                layer += 1;
            }
        } else {
            decode(start, end);
        }
    }
}
