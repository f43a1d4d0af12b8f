//! Allen's pipeline: seven kernels in nine launches, in the order of [`pipeline`].
//!
//! | kernel | writes |
//! |---|---|
//! | [`count_hits`] | strips per group, list of lanes with hits |
//! | [`prefix_sum`] (two kernels) | beginning of each group's clusters |
//! | [`cluster_and_predecode`] | clusters, with gaps |
//! | [`prefix_sum`] again | beginning of each group's hits |
//! | [`compress_and_make_keys`] | sort keys, without gaps |
//! | [`find_permutation`] | cluster of each hit |
//! | [`decode_in_order`] | the hits |

pub mod cluster_and_predecode;
pub mod compress_and_make_keys;
pub mod count_hits;
pub mod decode_in_order;
pub mod find_permutation;
pub mod pipeline;
pub mod prefix_sum;
