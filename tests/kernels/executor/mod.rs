//! The executor: results of correct kernels, and the faults that it reports.
//!
//! The executor is what finds the races of the kernels, so it is itself the tool that must not be
//! wrong. Each rule has two kinds of tests here: kernels that keep it, which must run under every
//! schedule, and kernels that break it, which must be caught under every schedule, and not only
//! under those where the fault changes a result. The kernels are a few lines, so that only one rule
//! is at stake.
#![allow(
    clippy::if_same_then_else,
    reason = "the same collective at two places is the very thing that is tested"
)]

mod counts;
mod explore;
mod launches;
mod races;

use std::cell::RefCell;

use simt::executor::{EmulatedBlock, Executor, Fault, LaunchStats, Violation};
use simt::{Block, FULL_MASK, Shared, SharedLayout};

/// Runs one block of `threads` threads with `words` words of shared memory.
fn run(
    seed: u64,
    threads: u32,
    words: u32,
    kernel: impl Fn(&EmulatedBlock<'_>),
) -> Result<LaunchStats, Violation> {
    Executor::new(seed).launch("tiny", 1, (threads, 1), 4 * words, kernel)
}

/// Runs a kernel that breaks a rule under many schedules; each must report a violation.
fn must_fail(threads: u32, words: u32, kernel: impl Fn(&EmulatedBlock<'_>)) -> Vec<Violation> {
    (0..30)
        .map(|seed| {
            run(seed, threads, words, &kernel).expect_err("the rule is broken in every schedule")
        })
        .collect()
}

fn words(n: u32) -> Shared<u32> {
    SharedLayout::new().array(n)
}

#[test]
fn every_thread_runs_once_with_its_own_indices() {
    for ((grid_x, grid_y), (x, y)) in [((3, 1), (12, 8)), ((3, 2), (8, 4)), ((0, 1), (32, 1))] {
        let (blocks, threads) = (grid_x * grid_y, x * y);
        let mut seen = vec![0u32; (blocks * threads) as usize];
        let mut executor = Executor::new(1);
        let view = executor.writable(&mut seen);
        let stats = executor.launch("place", (grid_x, grid_y), (x, y), 0, |block| {
            assert_eq!((block.grid_dim_x(), block.grid_dim_y()), (grid_x, grid_y));
            assert_eq!((block.block_dim_x(), block.block_dim_y()), (x, y));
            assert_eq!((block.threads(), block.warps()), (threads, threads / 32));
            assert_eq!(
                block.thread(),
                block.thread_idx_y() * x + block.thread_idx_x()
            );
            assert_eq!(
                (block.warp_id(), block.lane_id()),
                (block.thread() / 32, block.thread() % 32)
            );
            assert_eq!(block.lanemask_lt().count_ones(), block.lane_id());
            assert!(block.block_idx_x() < grid_x && block.block_idx_y() < grid_y);
            let number = block.block_idx_y() * grid_x + block.block_idx_x();
            block.atomic_add(view, number * threads + block.thread(), 1);
        });
        assert_eq!(stats.unwrap().blocks, u64::from(blocks));
        assert!(seen.iter().all(|&n| n == 1), "{grid_x} x {grid_y} blocks");
    }
}

#[test]
fn collectives_give_the_results_that_cuda_documents() {
    let stats = run(3, 64, 0, |block| {
        let lane = block.lane_id();
        let odd = 0xAAAA_AAAA;
        assert_eq!(block.ballot_sync(FULL_MASK, lane % 2 == 1), odd);
        assert_eq!(
            block.shuffle_up_sync(FULL_MASK, lane, 3),
            if lane < 3 { lane } else { lane - 3 }
        );
        assert_eq!(
            block.shuffle_down_sync(FULL_MASK, lane, 3),
            if lane > 28 { lane } else { lane + 3 }
        );
        assert_eq!(block.shuffle_idx_sync(FULL_MASK, 7 * lane, 5), 35);
        assert_eq!(
            block.shuffle_idx_sync(FULL_MASK, lane, 31 - lane),
            31 - lane
        );
        assert_eq!(block.shuffle_xor_sync(FULL_MASK, lane, 1), lane ^ 1);
        assert_eq!(
            block.shuffle_xor_sync(FULL_MASK, lane as f32 / 4.0, 3),
            (lane ^ 3) as f32 / 4.0
        );
        let wide = |lane: u32| u64::from(lane) << 33 | u64::from(!lane);
        assert_eq!(
            block.shuffle_down_sync(FULL_MASK, wide(lane), 1),
            wide(if lane == 31 { 31 } else { lane + 1 })
        );
        assert_eq!(
            block.shuffle_up_sync(FULL_MASK, lane as i8 - 16, 1),
            if lane == 0 { -16 } else { lane as i8 - 17 }
        );
        assert_eq!(
            block.match_any_sync(FULL_MASK, lane % 2),
            if lane % 2 == 1 { odd } else { !odd }
        );
        assert_eq!(block.redux_add_sync(FULL_MASK, lane), 496);
        if lane % 2 == 1 {
            assert_eq!(block.ballot_sync(odd, lane > 15), odd & 0xFFFF_0000);
            assert_eq!(block.redux_add_sync(odd, u32::MAX), 16u32.wrapping_neg());
            block.sync_warp(odd);
        }
        block.sync_threads();
    })
    .unwrap();
    // Each of the two warps has eleven calls by all lanes and three by the odd ones. The shuffle of
    // eight bytes moves in two halves, which makes twelve and three collectives.
    assert_eq!((stats.barriers, stats.collectives), (1, 2 * 15));
    assert_eq!(stats.collective_lanes, 2 * (12 * 32 + 3 * 16));
}

#[test]
fn a_shuffle_from_outside_the_warp_gives_the_lanes_own_value() {
    run(0, 32, 0, |block| {
        let lane = block.lane_id();
        for delta in [0, 31, 32, 33, 64, u32::MAX] {
            let (below, above) = (lane.checked_sub(delta), lane.saturating_add(delta));
            assert_eq!(
                block.shuffle_up_sync(FULL_MASK, lane, delta),
                below.unwrap_or(lane)
            );
            assert_eq!(
                block.shuffle_down_sync(FULL_MASK, lane, delta),
                if above < 32 { above } else { lane }
            );
        }
    })
    .unwrap();
}

/// Asks for 2²⁹ + 1 elements of eight bytes. Their 2³² + 8 bytes are 8 in 32 bits, and a size that
/// wraps would fit everywhere.
#[test]
fn a_layout_whose_size_overflows_never_fits() {
    for len in [(1 << 29) + 1, u32::MAX] {
        let mut layout = SharedLayout::new();
        let (first, second) = (layout.array::<u64>(len), layout.array::<u8>(1));
        assert_eq!(layout.bytes(), u32::MAX);
        for result in [
            run(0, 32, 48 << 10, |block| {
                _ = block.shared_load(first, len - 1);
            }),
            run(0, 32, 48 << 10, |block| _ = block.shared_load(second, 0)),
        ] {
            assert!(matches!(result.unwrap_err().fault, Fault::BadLaunch(_)));
        }
    }
}

#[test]
fn atomics_return_the_old_value_and_store_the_new_one() {
    let array = words(3);
    let mut memory = vec![5u32; 3];
    let mut executor = Executor::new(1);
    let view = executor.writable(&mut memory);
    executor
        .launch("atomics", 1, (32, 1), 12, |block| {
            if block.thread() == 0 {
                (0..3).for_each(|i| block.shared_store(array, i, 5));
                assert_eq!(
                    (
                        block.shared_atomic_add(array, 0, u32::MAX),
                        block.shared_load(array, 0)
                    ),
                    (5, 4)
                );
                assert_eq!(
                    (
                        block.shared_atomic_min(array, 1, 9),
                        block.shared_load(array, 1)
                    ),
                    (5, 5)
                );
                assert_eq!(
                    (
                        block.shared_atomic_min(array, 1, 3),
                        block.shared_load(array, 1)
                    ),
                    (5, 3)
                );
                assert_eq!(
                    (
                        block.shared_atomic_or(array, 2, 6),
                        block.shared_load(array, 2)
                    ),
                    (5, 7)
                );
                assert_eq!(
                    (
                        block.atomic_add(view, 0, u32::MAX),
                        block.atomic_load(view, 0)
                    ),
                    (5, 4)
                );
                assert_eq!(
                    (block.atomic_or(view, 1, 6), block.atomic_load(view, 1)),
                    (5, 7)
                );
                block.atomic_store(view, 2, 8);
            }
        })
        .unwrap();
    assert_eq!(memory, [4, 7, 8]);
}

#[test]
fn lanes_meet_only_lanes_with_the_same_mask() {
    run(5, 32, 0, |block| {
        let mask = block.match_any_sync(FULL_MASK, block.lane_id() % 3);
        assert_eq!(block.redux_add_sync(mask, 1), mask.count_ones());
    })
    .unwrap();
}

#[test]
fn active_mask_is_a_subset_of_the_lanes_that_varies_with_the_seed() {
    let first_masks = (0..20).map(|seed| {
        let masks = RefCell::new(vec![0u32; 32]);
        run(seed, 32, 0, |block| {
            let mask = block.active_mask();
            assert!(mask >> block.lane_id() & 1 == 1);
            masks.borrow_mut()[block.lane_id() as usize] = mask;
        })
        .unwrap();
        let masks = masks.into_inner();
        // Lanes that run together see the same mask.
        assert!((0..32).all(|i| (0..32).all(|j| masks[i] >> j & 1 == 0 || masks[j] == masks[i])));
        masks[0]
    });
    let distinct: std::collections::BTreeSet<u32> = first_masks.collect();
    assert!(distinct.len() > 10, "{distinct:?}");
}

#[test]
fn equal_seeds_give_equal_schedules() {
    let order = |seed| {
        let order = RefCell::new(Vec::new());
        let mut executor = Executor::new(seed);
        executor
            .launch("order", 5, (64, 1), 0, |block| {
                order
                    .borrow_mut()
                    .push((block.block_idx_x(), block.thread()));
            })
            .unwrap();
        order.into_inner()
    };
    assert_eq!(order(1), order(1));
    let distinct: std::collections::BTreeSet<_> = (0..10).map(order).collect();
    assert!(distinct.len() > 5, "{} different orders", distinct.len());
}

#[test]
fn a_collective_that_a_lane_misses_is_reported() {
    for violation in must_fail(32, 0, |block| {
        if block.lane_id() != 7 {
            block.sync_warp(FULL_MASK);
        }
    }) {
        let Fault::DivergentCollective {
            operation,
            mask,
            missing,
            ref doing,
        } = violation.fault
        else {
            panic!("{violation}")
        };
        assert_eq!(
            (operation, mask, missing, doing.as_str()),
            ("sync_warp", FULL_MASK, 7, "has left the kernel")
        );
        let text = violation.to_string();
        assert!(
            text.starts_with(concat!(
                "kernel tiny, block 0, warp 0, lane 0 (thread 0), at ",
                file!(),
                ":"
            )),
            "{text}"
        );
        assert!(text.ends_with(
            "sync_warp waits for the lanes of mask 0xffffffff, but lane 7 has left the kernel"
        ));
    }
}

#[track_caller]
fn vote_or_sum(block: &EmulatedBlock<'_>) {
    if block.lane_id() < 16 {
        block.ballot_sync(FULL_MASK, true);
    } else {
        block.redux_add_sync(FULL_MASK, 1);
    }
}

#[test]
fn lanes_at_different_collectives_or_places_never_meet() {
    let at_two_places = |block: &EmulatedBlock<'_>| {
        if block.lane_id() < 16 {
            block.ballot_sync(FULL_MASK, true);
        } else {
            block.redux_add_sync(FULL_MASK, 1);
        }
    };
    let the_same_at_two_places = |block: &EmulatedBlock<'_>| {
        if block.lane_id() == 0 {
            block.sync_warp(FULL_MASK);
        } else {
            block.sync_warp(FULL_MASK);
        }
    };
    let vote = [
        "ballot_sync waits",
        "lane 16 waits at redux_add_sync with mask 0xffffffff at tests/",
    ];
    let kernels = [
        (&at_two_places as &dyn Fn(&EmulatedBlock<'_>), vote),
        (&|block| vote_or_sum(block), vote),
        (
            &the_same_at_two_places,
            ["sync_warp waits", "lane 1 waits at sync_warp"],
        ),
    ];
    for (kernel, said) in kernels {
        for violation in must_fail(32, 0, kernel) {
            let text = violation.to_string();
            assert!(said.iter().all(|part| text.contains(part)), "{text}");
        }
    }
}

#[test]
fn a_mask_without_the_caller_is_reported() {
    for violation in must_fail(32, 0, |block| {
        block.ballot_sync(0x0000_FFFF, true);
    }) {
        assert_eq!(
            violation.fault,
            Fault::NotInMask {
                operation: "ballot_sync",
                mask: 0xFFFF
            }
        );
        assert!(violation.thread >= 16);
    }
}

#[test]
fn a_shuffle_from_a_lane_outside_the_mask_is_reported() {
    for violation in must_fail(32, 0, |block| {
        if block.lane_id() < 8 {
            block.shuffle_idx_sync(0xFF, 1, 8);
        }
    }) {
        let fault = Fault::SourceNotInMask {
            operation: "shuffle_idx_sync",
            mask: 0xFF,
            source_lane: 8,
        };
        assert_eq!(violation.fault, fault);
    }
}

/// Breaks the same rule in three ways that need different words: one thread of three warps is
/// missing, two warps wait at two barriers, and a whole warp waits where others have left. The
/// message must name a thread that is missing, since on a GPU such a kernel only hangs.
#[test]
fn a_barrier_that_not_all_threads_reach_is_reported() {
    for violation in must_fail(96, 0, |block| {
        if block.thread() != 70 {
            block.sync_threads();
        }
    }) {
        let text = violation.to_string();
        let all_but_one = "only 95 of 96 threads (0 to 95) reached it";
        assert!(
            text.contains(all_but_one) && text.ends_with("thread 70 has left the kernel"),
            "{text}"
        );
    }
    for violation in must_fail(64, 0, |block| {
        if block.warp_id() == 0 {
            block.sync_threads();
        } else {
            block.sync_threads();
        }
    }) {
        assert!(
            violation
                .to_string()
                .contains("thread 32 waits at sync_threads at tests/"),
            "{violation}"
        );
    }
    for violation in must_fail(128, 0, |block| {
        if block.warp_id() == 0 {
            block.sync_threads();
        }
    }) {
        let text = violation.to_string();
        let why = "only warp 0 of 4 reached it, so that it stands behind a condition or an early return; thread 32 has left";
        assert!(text.contains(why), "{text}");
    }
}
