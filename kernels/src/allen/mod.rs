//! The pipeline in Allen's way: seven kernels in nine launches.
//!
//! | launch | kernel | |
//! |---|---|---|
//! | 1 | [`count_hits`] | reads the banks, counts strips per group, lists lanes with hits |
//! | 2, 3 | [`prefix_sum`] (two kernels) | where each group's clusters go |
//! | 4 | [`cluster_and_predecode`] | clusters, with gaps |
//! | 5, 6 | [`prefix_sum`] again | where each group's hits go |
//! | 7 | [`compress_and_make_keys`] | sort keys, without gaps |
//! | 8 | [`find_permutation`] | which cluster comes out where |
//! | 9 | [`decode_in_order`] | the hits |
//!
//! [`pipeline`] launches them.

pub mod cluster_and_predecode;
pub mod compress_and_make_keys;
pub mod count_hits;
pub mod decode_in_order;
pub mod find_permutation;
pub mod pipeline;
pub mod prefix_sum;
