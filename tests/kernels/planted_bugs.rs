//! Bugs planted into the real kernels, which the executor must catch whatever the schedule.
//!
//! The kernels are unchanged; they run on a block with a fault. [`Faulty`] passes every call on to
//! the executor's block except one, as if the source of the kernel lacked a barrier, or had a plain
//! add in place of an atomic.

use std::panic::Location;

use crate::setup::{Bug, Faulty, Setup, is_race};
use simt::executor::{Executor, Fault, Violation};
use simt::primitives::block_opportunistic_loop::ItemLoop;
use simt::primitives::block_scan::block_exclusive;
use simt::primitives::warp_sort::{Segment, warp_sort};
use simt::{Block, FULL_MASK, Global, SharedLayout};
use ut_kernels::allen::count_hits::Item;

const SEEDS: std::ops::Range<u64> = 0..8;

fn file_of(violation: &Violation) -> &'static str {
    violation.location.map_or("", Location::file)
}

#[test]
fn the_unchanged_kernels_have_no_violation() {
    let mut setup = Setup::new();
    for seed in SEEDS {
        setup.count(seed, Bug::None).unwrap();
        setup.cluster(seed, Bug::None).unwrap();
    }
}

#[test]
fn every_barrier_of_the_counting_kernel_is_needed() {
    // Banks that are not all there, in the last and in the first chunk of 64: threads must learn of
    // each other's.
    let mut late = Setup::new();
    late.batch.raw.pop();
    let mut early = Setup::new();
    early.batch.raw.truncate(early.batch.raw.len() / 5);
    // Before the banks; two for each of three chunks; before the lanes; three for the list.
    let n_barriers = 1 + 2 * 3 + 1 + 3;
    for n in 0..n_barriers {
        for seed in SEEDS {
            let violation = late
                .count(seed, Bug::NoBarrier(n))
                .and(early.count(seed, Bug::NoBarrier(n)));
            let Err(violation) = violation else {
                panic!("barrier {n} is missing, seed {seed}")
            };
            let text = violation.to_string();
            assert!(is_race(&violation), "barrier {n}: {text}");
            assert!(
                text.starts_with("kernel count_hits, block 0, warp "),
                "{text}"
            );
        }
    }
    assert_eq!(
        late.count(0, Bug::NoBarrier(n_barriers)),
        Ok(()),
        "all of them were tried"
    );
}

#[test]
fn every_barrier_of_the_clustering_kernel_is_needed() {
    let mut setup = Setup::new();
    setup.count(0, Bug::None).unwrap();
    for n in 0..2 {
        for seed in SEEDS {
            let violation = setup
                .cluster(seed, Bug::NoBarrier(n))
                .expect_err("a barrier is missing");
            assert!(is_race(&violation), "barrier {n}: {violation}");
        }
    }
    assert_eq!(
        setup.cluster(0, Bug::NoBarrier(2)),
        Ok(()),
        "all of them were tried"
    );
}

#[test]
fn a_counter_that_is_initialised_late_is_caught() {
    // The opportunistic loop lacks its barrier, as in the released code: a fast warp adds to a
    // counter that has no value yet.
    let next = SharedLayout::new().array(1);
    for seed in 0..30 {
        let violation = Executor::new(seed)
            .launch("late", 1, (32, 4), 8, |block| {
                let faulty = Faulty::new(block, Bug::NoBarrier(0));
                let mut items = ItemLoop::opportunistic(&faulty, next, 1000);
                while items.fetch(&faulty).is_some() {}
            })
            .expect_err("nothing orders the counter's first value");
        assert!(
            file_of(&violation).ends_with("primitives/block_opportunistic_loop.rs"),
            "{violation}"
        );
        match violation.fault {
            Fault::UnwrittenShared {
                byte: 0, size: 4, ..
            } => {}
            Fault::Race {
                memory: "shared byte",
                place: 0,
                ref other,
                ..
            } => {
                assert!(other.contains("block_opportunistic_loop.rs"), "{violation}");
            }
            _ => panic!("{violation}"),
        }
    }
}

#[test]
fn a_removed_barrier_of_or_between_block_scans_is_caught() {
    let totals = SharedLayout::new().array(32);
    for bug in [Bug::NoBarrier(0), Bug::NoBarrier(1), Bug::NoBarrier(2)] {
        for seed in 0..30 {
            let violation = Executor::new(seed)
                .launch("scan", 1, (128, 1), 128, |block| {
                    let faulty = Faulty::new(block, bug);
                    let (before, _) = block_exclusive(&faulty, totals, 1);
                    faulty.sync_threads();
                    block_exclusive(&faulty, totals, before);
                })
                .expect_err("a barrier is missing");
            assert!(
                is_race(&violation) && file_of(&violation).ends_with("primitives/block_scan.rs"),
                "{violation}"
            );
        }
    }
}

#[test]
fn a_removed_warp_barrier_of_the_sort_is_caught() {
    let keys: Vec<u64> = (0..200).map(|i| i * 7919 % 211).collect();
    for n in 0..3 {
        for seed in 0..10 {
            let (mut a, mut b) = (vec![0u32; 200], vec![0u32; 200]);
            let mut executor = Executor::new(seed);
            let (a, b) = (executor.writable(&mut a), executor.writable(&mut b));
            let segment = Segment {
                keys: Global::from_slice(&keys),
                start: 0,
                len: 200,
            };
            let violation = executor
                .launch("sort", 1, (32, 1), 0, |block| {
                    let faulty = Faulty::new(block, Bug::NoWarpBarrier("", n));
                    warp_sort(&faulty, &segment, 32, a, b, |i| i);
                })
                .expect_err("a warp barrier is missing");
            assert!(
                matches!(
                    violation.fault,
                    Fault::Race {
                        memory: "global element",
                        ..
                    }
                ),
                "{violation}"
            );
        }
    }
}

#[test]
fn a_plain_add_instead_of_an_atomic_is_caught() {
    for seed in SEEDS {
        let mut setup = Setup::new();
        let violation = setup
            .count(seed, Bug::PlainAdd)
            .expect_err("lanes add at once");
        assert!(
            matches!(
                violation.fault,
                Fault::Race {
                    memory: "shared byte",
                    ..
                }
            ),
            "{violation}"
        );
        setup.count(seed, Bug::None).unwrap();
        let violation = setup
            .cluster(seed, Bug::PlainAdd)
            .expect_err("lanes add at once");
        let text = violation.to_string();
        assert!(
            matches!(
                violation.fault,
                Fault::Race {
                    memory: "shared byte",
                    ..
                }
            ),
            "{text}"
        );
        assert!(
            text.starts_with("kernel cluster_and_predecode, block 0, warp "),
            "{text}"
        );
        assert!(text.contains(" races with the "), "{text}");
    }
}

#[test]
fn a_wrong_shuffle_mask_is_caught() {
    let mut setup = Setup::new();
    setup.count(0, Bug::None).unwrap();
    for seed in SEEDS {
        let violation = setup
            .cluster(seed, Bug::FullShuffleMask)
            .expect_err("not all lanes emit");
        assert!(
            file_of(&violation).ends_with("primitives/warp_aggregated_atomics.rs"),
            "{violation}"
        );
        let Fault::DivergentCollective {
            operation, mask, ..
        } = violation.fault
        else {
            panic!("{violation}")
        };
        assert_eq!((operation, mask), ("shuffle_idx_sync", FULL_MASK));
    }
    // The lanes that happen to be together are other ones each time: relying on them fails as well.
    for seed in SEEDS {
        let violation = setup
            .cluster(seed, Bug::ActiveShuffleMask)
            .expect_err("luck does not hold");
        let caught = matches!(
            violation.fault,
            Fault::SourceNotInMask { .. } | Fault::DivergentCollective { .. }
        );
        assert!(caught, "{violation}");
    }
}

#[test]
fn an_off_by_one_past_the_payload_is_caught() {
    // Each lane claims one hit more than the counting kernel found. In the last lane, it is beyond
    // the end of the batch.
    let mut setup = Setup::new();
    setup.count(0, Bug::None).unwrap();
    for item in &mut setup.items[..setup.n_items[0] as usize] {
        let honest = Item::from_bits(*item);
        *item = Item {
            n_hits: honest.n_hits + 1,
            ..honest
        }
        .to_bits();
    }
    for count in &mut setup.strip_counts {
        *count *= 2;
    }
    let len = setup.batch.raw.len() as u32;
    for seed in SEEDS {
        let violation = setup
            .cluster(seed, Bug::None)
            .expect_err("a read behind the batch");
        let Fault::OutOfBounds {
            memory,
            index,
            len: of,
            ..
        } = violation.fault
        else {
            panic!("{violation}")
        };
        assert_eq!((memory, of), ("read-only global", len));
        assert!(index + 2 > len, "{violation}");
        assert!(
            file_of(&violation).ends_with("cluster_and_predecode.rs"),
            "{violation}"
        );
    }
}
