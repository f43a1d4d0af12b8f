//! Building blocks for kernels of any detector, one file each, generic over [`Block`](crate::block::Block).

pub mod aggregated_atomics;
pub mod prefix_sum;
