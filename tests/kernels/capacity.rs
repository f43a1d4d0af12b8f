//! Kernels with too little room for their output: they write nothing, and their status says so.

use crate::setup::{Bug, NO_CLUSTER, Setup};
use ut_kernels::status::STRIPS_OVERFLOW;

#[test]
fn clusters_are_written_only_if_every_strip_fits_and_the_status_says_so() {
    let mut setup = Setup::new();
    setup.count(1, Bug::None).unwrap();
    let n_strips = setup.n_strips();
    for capacity in [0, 1, n_strips - 1, n_strips, n_strips + 7] {
        setup.cluster_into(capacity, 2, Bug::None).unwrap();
        let n_clusters = setup.cluster_counts.iter().sum::<u32>() as usize;
        let written = setup
            .clusters
            .iter()
            .filter(|&&cluster| cluster != NO_CLUSTER)
            .count();
        let (status, is_any) = if capacity < n_strips {
            (STRIPS_OVERFLOW, false)
        } else {
            (0, true)
        };
        assert_eq!(
            (setup.status, n_clusters > 0, written),
            (status, is_any, n_clusters),
            "room for {capacity}"
        );
    }
}
