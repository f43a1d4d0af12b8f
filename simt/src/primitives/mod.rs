//! Building blocks for kernels of any detector, one file each, generic over [`Block`](crate::block::Block).

pub mod aggregated_atomics;
pub mod opportunistic_loop;
pub mod prefix_sum;
pub mod segmented_sort;
pub mod size_binning;
