//! Algorithms of a warp or a block, one file each, generic over [`Block`](crate::Block). The name
//! says the scope first.

pub mod block_compaction;
pub mod block_opportunistic_loop;
pub mod block_radix_sort;
pub mod block_reduce;
pub mod block_scan;
pub mod block_segmented_scan;
pub mod block_size_binning;
pub mod grid_scan;
pub mod warp_aggregated_atomics;
pub mod warp_scan;
pub mod warp_sort;
