//! Kernels that the host gave too little room: they write nothing, and say so.

use crate::setup::{Bug, NO_CLUSTER, Setup};
use ut_kernels::status::STRIPS_OVERFLOW;

#[test]
fn clusters_are_written_when_there_is_room_for_every_strip() {
    let mut setup = Setup::new();
    setup.count(1, Bug::None).unwrap();
    let n_strips = setup.n_strips();
    for capacity in [n_strips, n_strips + 7] {
        setup.cluster_into(capacity, 2, Bug::None).unwrap();
        assert_eq!(setup.status, 0);
        let n_clusters = setup.cluster_counts.iter().sum::<u32>() as usize;
        assert_eq!(setup.clusters.iter().filter(|&&cluster| cluster != NO_CLUSTER).count(), n_clusters);
        assert!(n_clusters > 0);
    }
}

#[test]
fn without_room_for_every_strip_nothing_is_clustered_and_the_status_says_so() {
    let mut setup = Setup::new();
    setup.count(1, Bug::None).unwrap();
    let n_strips = setup.n_strips();
    for capacity in [0, 1, n_strips - 1] {
        setup.cluster_into(capacity, 2, Bug::None).unwrap();
        assert_eq!(setup.status, STRIPS_OVERFLOW);
        assert!(setup.cluster_counts.iter().all(|&count| count == 0), "the event has no cluster");
        assert!(setup.clusters.iter().all(|&cluster| cluster == NO_CLUSTER), "nothing is written");
    }
}
