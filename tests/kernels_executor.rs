//! The executor's promises: what it runs right, and what it finds and names.
#![allow(clippy::if_same_then_else, reason = "the same collective at two places is the very thing that is tested")]

use std::cell::{Cell, RefCell};

use simt::executor::{EmulatedBlock, Executor, Fault, LaunchStats, Violation};
use simt::primitives::block_scan::block_exclusive;
use simt::{Block, FULL_MASK, Global, GlobalMut, Shared, SharedLayout};

/// Runs one block of `threads` threads with `words` words of shared memory.
fn run(seed: u64, threads: u32, words: u32, kernel: impl Fn(&EmulatedBlock<'_>)) -> Result<LaunchStats, Violation> {
    Executor::new(seed).launch("tiny", 1, (threads, 1), 4 * words, kernel)
}

/// Runs a kernel that breaks a rule, with many schedules, each of which must show it.
fn must_fail(threads: u32, words: u32, kernel: impl Fn(&EmulatedBlock<'_>)) -> Vec<Violation> {
    (0..30).map(|seed| run(seed, threads, words, &kernel).expect_err("the rule is broken in every schedule")).collect()
}

/// Something that a thread does to an array.
type Act = fn(&EmulatedBlock<'_>, Shared<u32>);

fn words(n: u32) -> Shared<u32> {
    SharedLayout::new().array(n)
}

#[test]
fn every_thread_of_every_block_runs_once_and_knows_its_place() {
    let mut seen = vec![0u32; 3 * 96];
    let mut executor = Executor::new(1);
    let view = executor.writable(&mut seen);
    let stats = executor.launch("place", 3, (12, 8), 0, |block| {
        assert_eq!((block.block_dim_x(), block.block_dim_y(), block.grid_dim_x()), (12, 8, 3));
        assert_eq!(block.thread(), block.thread_idx_y() * 12 + block.thread_idx_x());
        assert_eq!((block.warp_id(), block.lane_id()), (block.thread() / 32, block.thread() % 32));
        assert_eq!(block.lanemask_lt().count_ones(), block.lane_id());
        assert_eq!((block.threads(), block.warps()), (96, 3));
        block.atomic_add(view, block.block_idx_x() * 96 + block.thread(), 1);
    });
    assert_eq!(stats.unwrap().blocks, 3);
    assert!(seen.iter().all(|&n| n == 1));
}

#[test]
fn a_grid_of_no_blocks_runs_nothing() {
    let stats = Executor::new(1).launch("nothing", 0, (32, 1), 0, |_| panic!("no thread")).unwrap();
    assert_eq!(stats, LaunchStats::default());
}

#[test]
fn collectives_answer_as_cuda_says() {
    let stats = run(3, 64, 0, |block| {
        let lane = block.lane_id();
        let odd = 0xAAAA_AAAA;
        assert_eq!(block.ballot_sync(FULL_MASK, lane % 2 == 1), odd);
        assert_eq!(block.shuffle_up_sync(FULL_MASK, lane, 3), if lane < 3 { lane } else { lane - 3 });
        assert_eq!(block.shuffle_down_sync(FULL_MASK, lane, 3), if lane > 28 { lane } else { lane + 3 });
        assert_eq!(block.shuffle_idx_sync(FULL_MASK, 7 * lane, 5), 35);
        assert_eq!(block.shuffle_idx_sync(FULL_MASK, lane, 31 - lane), 31 - lane);
        assert_eq!(block.shuffle_xor_sync(FULL_MASK, lane, 1), lane ^ 1);
        assert_eq!(block.match_any_sync(FULL_MASK, lane % 2), if lane % 2 == 1 { odd } else { !odd });
        assert_eq!(block.redux_add_sync(FULL_MASK, lane), 496);
        if lane % 2 == 1 {
            assert_eq!(block.ballot_sync(odd, lane > 15), odd & 0xFFFF_0000);
            assert_eq!(block.redux_add_sync(odd, u32::MAX), 16u32.wrapping_neg());
            block.sync_warp(odd);
        }
        block.sync_threads();
    })
    .unwrap();
    assert_eq!((stats.barriers, stats.collectives), (1, 2 * 11));
    assert_eq!(stats.collective_lanes, 2 * (8 * 32 + 3 * 16));
}

#[test]
fn lanes_with_different_masks_meet_their_own() {
    run(5, 32, 0, |block| {
        let mask = block.match_any_sync(FULL_MASK, block.lane_id() % 3);
        assert_eq!(block.redux_add_sync(mask, 1), mask.count_ones());
    })
    .unwrap();
}

#[test]
fn the_active_mask_is_some_part_of_the_lanes_and_differs_between_schedules() {
    let first_masks = (0..20).map(|seed| {
        let masks = RefCell::new(vec![0u32; 32]);
        run(seed, 32, 0, |block| {
            let mask = block.active_mask();
            assert!(mask >> block.lane_id() & 1 == 1);
            masks.borrow_mut()[block.lane_id() as usize] = mask;
        })
        .unwrap();
        let masks = masks.into_inner();
        // Who is together sees the same mask.
        assert!((0..32).all(|i| (0..32).all(|j| masks[i] >> j & 1 == 0 || masks[j] == masks[i])));
        masks[0]
    });
    let distinct: std::collections::BTreeSet<u32> = first_masks.collect();
    assert!(distinct.len() > 10, "{distinct:?}");
}

#[test]
fn the_seed_makes_the_schedule() {
    let order = |seed| {
        let order = RefCell::new(Vec::new());
        let mut executor = Executor::new(seed);
        executor
            .launch("order", 5, (64, 1), 0, |block| order.borrow_mut().push((block.block_idx_x(), block.thread())))
            .unwrap();
        order.into_inner()
    };
    assert_eq!(order(1), order(1));
    let distinct: std::collections::BTreeSet<_> = (0..10).map(order).collect();
    assert!(distinct.len() > 5, "{} different orders", distinct.len());
}

#[test]
fn a_collective_that_a_lane_of_the_mask_misses_is_named() {
    for violation in must_fail(32, 0, |block| {
        if block.lane_id() != 7 {
            block.sync_warp(FULL_MASK);
        }
    }) {
        let Fault::DivergentCollective { operation, mask, missing, ref doing } = violation.fault else {
            panic!("{violation}")
        };
        assert_eq!((operation, mask, missing, doing.as_str()), ("sync_warp", FULL_MASK, 7, "has left the kernel"));
        let text = violation.to_string();
        assert!(text.starts_with("kernel tiny, block 0, warp 0, lane 0 (thread 0), at tests/kernels_executor.rs:"));
        assert!(text.ends_with("sync_warp waits for the lanes of mask 0xffffffff, but lane 7 has left the kernel"));
    }
}

#[test]
fn lanes_that_wait_at_different_collectives_of_a_mask_are_named() {
    for violation in must_fail(32, 0, |block| {
        if block.lane_id() < 16 {
            block.ballot_sync(FULL_MASK, true);
        } else {
            block.redux_add_sync(FULL_MASK, 1);
        }
    }) {
        let text = violation.to_string();
        assert!(text.contains("ballot_sync waits"), "{text}");
        assert!(text.contains("lane 16 waits at redux_add_sync with mask 0xffffffff at tests/"), "{text}");
    }
}

#[test]
fn the_same_collective_at_two_places_is_not_the_same() {
    for violation in must_fail(32, 0, |block| {
        if block.lane_id() == 0 {
            block.sync_warp(FULL_MASK);
        } else {
            block.sync_warp(FULL_MASK);
        }
    }) {
        assert!(violation.to_string().contains("lane 1 waits at sync_warp"), "{violation}");
    }
}

#[test]
fn a_mask_without_the_caller_is_named() {
    for violation in must_fail(32, 0, |block| {
        block.ballot_sync(0x0000_FFFF, true);
    }) {
        assert_eq!(violation.fault, Fault::NotInMask { operation: "ballot_sync", mask: 0xFFFF });
        assert!(violation.thread >= 16);
    }
}

#[test]
fn a_shuffle_from_a_lane_outside_the_mask_is_named() {
    for violation in must_fail(32, 0, |block| {
        if block.lane_id() < 8 {
            block.shuffle_idx_sync(0xFF, 1, 8);
        }
    }) {
        let fault = Fault::SourceNotInMask { operation: "shuffle_idx_sync", mask: 0xFF, source_lane: 8 };
        assert_eq!(violation.fault, fault);
    }
}

#[test]
fn a_barrier_that_not_all_threads_reach_is_named() {
    for violation in must_fail(96, 0, |block| {
        if block.thread() != 70 {
            block.sync_threads();
        }
    }) {
        let text = violation.to_string();
        assert!(text.ends_with("sync_threads waits for all threads, but thread 70 has left the kernel"), "{text}");
    }
    for violation in must_fail(64, 0, |block| {
        if block.warp_id() == 0 {
            block.sync_threads();
        } else {
            block.sync_threads();
        }
    }) {
        assert!(violation.to_string().contains("but thread 32 waits at sync_threads at tests/"), "{violation}");
    }
}

#[test]
fn shared_memory_that_nobody_wrote_is_not_read() {
    let array = words(64);
    for violation in must_fail(32, 64, |block| {
        block.shared_store(array, block.thread(), 1);
        block.sync_threads();
        block.shared_load(array, block.thread() + 1);
    }) {
        assert_eq!(violation.fault, Fault::UnwrittenShared { byte: 128, size: 4 });
        assert_eq!(violation.thread, 31);
    }
    for violation in must_fail(32, 64, |block| {
        block.shared_atomic_add(array, 0, 1);
    }) {
        assert!(matches!(violation.fault, Fault::UnwrittenShared { byte: 0, .. }), "{violation}");
    }
}

#[test]
fn shared_memory_of_a_block_is_not_the_next_ones() {
    let array = words(1);
    let violation = Executor::new(0)
        .launch("tiny", 2, (32, 1), 4, |block| {
            if block.block_idx_x() == 0 && block.thread() == 0 {
                block.shared_store(array, 0, 1);
            }
            block.sync_threads();
            block.shared_load(array, 0);
        })
        .expect_err("block 1 wrote nothing");
    assert_eq!(violation.block, 1);
    assert!(matches!(violation.fault, Fault::UnwrittenShared { .. }));
}

/// Two threads of different warps, or two lanes of one, touch element 0 in some way.
fn meet(
    other: u32,
    order: impl Fn(&EmulatedBlock<'_>),
    first: impl Fn(&EmulatedBlock<'_>),
    second: impl Fn(&EmulatedBlock<'_>),
) -> Vec<Option<String>> {
    (0..20)
        .map(|seed| {
            run(seed, 64, 1, |block| {
                if block.thread() == 0 {
                    first(block);
                }
                order(block);
                if block.thread() == other {
                    second(block);
                }
            })
            .err()
            .map(|violation| violation.to_string())
        })
        .collect()
}

#[test]
fn unordered_writes_race_and_barriers_order_them() {
    let array = words(1);
    let write = |block: &EmulatedBlock<'_>| block.shared_store(array, 0, block.thread());
    for other in [1, 33] {
        for text in meet(other, |_| {}, write, write) {
            let text = text.expect("nothing orders the two");
            assert!(text.contains("write of shared byte 0 races with the write by thread"), "{text}");
            assert!(text.matches("tests/kernels_executor.rs:").count() == 2, "both places: {text}");
        }
        assert!(meet(other, |block| block.sync_threads(), write, write).iter().all(Option::is_none));
    }
}

#[test]
fn a_warp_barrier_orders_the_lanes_of_its_mask_only() {
    let array = words(1);
    let write = |block: &EmulatedBlock<'_>| block.shared_store(array, 0, block.thread());
    assert!(meet(1, |block| block.sync_warp(FULL_MASK), write, write).iter().all(Option::is_none));
    assert!(meet(33, |block| block.sync_warp(FULL_MASK), write, write).iter().all(Option::is_some));
    let half = |block: &EmulatedBlock<'_>| {
        if block.lane_id() < 16 {
            block.sync_warp(0xFFFF);
        }
    };
    assert!(meet(15, half, write, write).iter().all(Option::is_none));
    assert!(meet(16, half, write, write).iter().all(Option::is_some));
    // Votes and shuffles order nothing.
    let vote = |block: &EmulatedBlock<'_>| _ = block.ballot_sync(FULL_MASK, true);
    assert!(meet(1, vote, write, write).iter().all(Option::is_some));
}

#[test]
fn reads_race_with_writes_and_not_with_each_other() {
    let array = words(1);
    let outcome = |first: Act, second: Act| {
        (0..20)
            .map(|seed| {
                run(seed, 64, 1, |block| {
                    if block.thread() == 5 {
                        block.shared_store(array, 0, 0);
                    }
                    block.sync_threads();
                    if block.thread() == 0 {
                        first(block, array);
                    }
                    if block.thread() == 40 {
                        second(block, array);
                    }
                })
                .is_err()
            })
            .collect::<Vec<bool>>()
    };
    let read: Act = |block, array| _ = block.shared_load(array, 0);
    let write: Act = |block, array| block.shared_store(array, 0, 1);
    let add: Act = |block, array| _ = block.shared_atomic_add(array, 0, 1);
    assert_eq!(outcome(read, read), [false; 20]);
    assert_eq!(outcome(add, add), [false; 20]);
    for (first, second) in [(read, write), (write, read), (write, write)] {
        assert_eq!(outcome(first, second), [true; 20]);
    }
    for (first, second) in [(add, write), (write, add), (add, read), (read, add)] {
        assert_eq!(outcome(first, second), [true; 20]);
    }
}

#[test]
fn many_readers_before_a_writer_are_all_remembered() {
    let array = words(1);
    for reader in [1, 31, 32, 63] {
        let text = (0..20).map(|seed| {
            run(seed, 64, 1, |block| {
                if block.thread() == 0 {
                    block.shared_store(array, 0, 1);
                }
                block.sync_threads();
                if block.thread() == 0 || block.thread() == reader {
                    block.shared_load(array, 0);
                }
                if block.thread() == 0 {
                    block.shared_store(array, 0, 2);
                }
            })
        });
        assert!(text.into_iter().all(|result| result.is_err()), "thread {reader} and thread 0 read, thread 0 writes");
    }
}

#[test]
fn global_memory_races_too_also_between_blocks() {
    for seed in 0..20 {
        let mut memory = vec![0u32; 4];
        let mut executor = Executor::new(seed);
        let view = executor.writable(&mut memory);
        let violation = executor
            .launch("tiny", 2, (32, 1), 0, |block| {
                if block.thread() == 0 {
                    block.store(view, 2, block.block_idx_x());
                }
            })
            .expect_err("two blocks write");
        assert!(violation.to_string().contains("write of global element 2 races with the write by"), "{violation}");

        let view = executor.writable(&mut memory);
        executor.launch("tiny", 2, (32, 1), 0, |block| _ = block.atomic_add(view, 2, 1)).unwrap();
        // A launch is over before the next begins.
        let view = executor.writable(&mut memory);
        executor.launch("tiny", 1, (32, 1), 0, |block| block.store(view, block.thread() % 4, 1)).unwrap_err();
        let view = executor.writable(&mut memory);
        executor.launch("tiny", 1, (32, 1), 0, |block| _ = block.load_mut(view, 2)).unwrap();
    }
}

#[test]
fn atomics_of_several_blocks_race_with_a_plain_read() {
    for seed in 0..20 {
        let mut memory = vec![0u32; 1];
        let mut executor = Executor::new(seed);
        let view = executor.writable(&mut memory);
        let result = executor.launch("tiny", 3, (32, 1), 0, |block| {
            block.atomic_add(view, 0, 1);
            block.sync_threads();
            if block.thread() == 0 {
                block.load_mut(view, 0);
            }
        });
        assert!(result.is_err());
    }
}

#[test]
fn accesses_out_of_bounds_are_named() {
    let array = words(4);
    for violation in must_fail(32, 8, |block| block.shared_store(array, block.thread(), 0)) {
        let fault = &violation.fault;
        assert!(matches!(fault, Fault::OutOfBounds { memory: "shared", index: 4.., len: 4, .. }), "{violation}");
    }
    let input = [1u8, 2, 3, 4, 5];
    let bytes = Global::from_slice(&input);
    assert_eq!(run(0, 32, 0, |block| assert_eq!(block.load_bytes::<u32>(bytes, 1), 0x0504_0302)).map(|_| ()), Ok(()));
    for violation in must_fail(32, 0, |block| _ = block.load_bytes::<u32>(bytes, 2)) {
        assert!(violation.to_string().contains("read-only global element 2 of 5"), "{violation}");
    }
    for violation in must_fail(32, 0, |block| _ = block.load(bytes, 5)) {
        assert!(violation.to_string().ends_with("read of read-only global element 5 of 5"), "{violation}");
    }
    let mut memory = [0u32; 3];
    let mut executor = Executor::new(0);
    let view = executor.writable(&mut memory);
    let result = executor.launch("tiny", 1, (32, 1), 0, |block| block.store(view, block.thread(), 1));
    assert!(result.unwrap_err().to_string().contains("write of global element"));
}

#[test]
fn shared_memory_beyond_the_launch_is_refused() {
    let array = words(64);
    for violation in must_fail(32, 16, |block| block.shared_store(array, block.thread(), 0)) {
        assert!(matches!(violation.fault, Fault::BadLaunch(_)), "{violation}");
    }
}

#[test]
fn a_view_of_an_earlier_launch_is_refused() {
    let mut memory = [0u32; 32];
    let mut executor = Executor::new(0);
    let view = executor.writable(&mut memory);
    executor.launch("tiny", 1, (32, 1), 0, |block| block.store(view, block.thread(), 1)).unwrap();
    let result = executor.launch("tiny", 1, (32, 1), 0, |block| block.store(view, block.thread(), 1));
    assert!(matches!(result.unwrap_err().fault, Fault::BadLaunch(_)));
}

#[test]
fn a_block_that_is_not_of_full_warps_is_refused() {
    for block in [(0, 1), (33, 1), (16, 3), (2048, 1), (u32::MAX, u32::MAX)] {
        let result = Executor::new(0).launch("tiny", 1, block, 0, |_| {});
        assert!(matches!(result.unwrap_err().fault, Fault::BadLaunch(_)), "{block:?}");
    }
}

#[test]
fn a_loop_without_end_comes_to_one() {
    let mut executor = Executor::new(0);
    executor.limit_steps(1000);
    let next = words(1);
    let result = executor.launch("tiny", 1, (32, 1), 4, |block| {
        if block.thread() == 0 {
            block.shared_store(next, 0, 1);
        }
        block.sync_warp(FULL_MASK);
        while block.shared_load(next, 0) != 0 {}
    });
    assert_eq!(result.unwrap_err().fault, Fault::Endless);
    executor.launch("tiny", 20, (32, 1), 4, |block| block.sync_threads()).unwrap();
}

/// Counts how many of it are dropped.
struct Guard<'a>(&'a Cell<u32>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_panic_in_a_lane_is_a_violation_and_the_executor_goes_on() {
    let mut executor = Executor::new(0);
    let dropped = Cell::new(0);
    let result = executor.launch("tiny", 4, (64, 1), 0, |block| {
        let _guard = Guard(&dropped);
        block.sync_threads();
        assert!(block.thread() != 33, "lane {} gives up", block.lane_id());
    });
    let violation = result.unwrap_err();
    assert_eq!((violation.thread, &violation.fault), (33, &Fault::Panicked("lane 1 gives up".to_owned())));
    assert_eq!(dropped.get(), 64, "what the lanes held is dropped");
    executor.launch("tiny", 1, (1024, 1), 0, |block| block.sync_threads()).unwrap();
}

#[test]
fn accesses_and_sectors_are_counted() {
    let input: Vec<u32> = (0..1024).collect();
    let input = Global::from_slice(&input);
    let stats = run(0, 32, 0, |block| {
        // 32 lanes side by side: four sectors. The same word for all: one. Every eighth: 32.
        block.load(input, block.lane_id());
        block.load(input, 8);
        block.load(input, 8 * block.lane_id());
        // Half of the lanes, twice, in a loop: two sectors each time.
        for i in 0..2 {
            if block.lane_id() < 16 {
                block.load(input, 16 * i + block.lane_id());
            }
        }
    })
    .unwrap();
    assert_eq!((stats.global_loads, stats.global_sectors), (3 * 32 + 2 * 16, 4 + 1 + 32 + 2 * 2));
    assert_eq!((stats.warp_steps, stats.step_lanes), (5, 3 * 32 + 2 * 16));
    assert!((stats.idle_share() - 0.2).abs() < 1e-12);
}

/// The kernel of `docs/kernels.md`.
fn list_non_zero<B: Block>(block: &B, input: Global<'_, u32>, places: GlobalMut<'_, u32>, counts: GlobalMut<'_, u32>) {
    let warp_totals = SharedLayout::new().array(32);
    let first = block.block_idx_x() * block.threads();
    let i = first + block.thread();
    let keep = i < input.len() && block.load(input, i) != 0;
    // All threads call: the scan has a barrier.
    let (place, total) = block_exclusive(block, warp_totals, u32::from(keep));
    if keep {
        block.store(places, first + place, i);
    }
    if block.thread() == 0 {
        block.store(counts, block.block_idx_x(), total);
    }
}

#[test]
fn the_kernel_of_the_docs_does_what_they_say() {
    let mut input = vec![0; 40];
    for i in [0, 3, 4, 31, 32, 39] {
        input[i] = 7;
    }
    let (mut places, mut counts) = (vec![0; 64], vec![0; 2]);
    let mut executor = Executor::new(42);
    let input = Global::from_slice(&input);
    let (places_view, counts_view) = (executor.writable(&mut places), executor.writable(&mut counts));
    executor
        .launch("list_non_zero", 2, (32, 1), 128, |block| list_non_zero(block, input, places_view, counts_view))
        .unwrap();
    assert_eq!((&places[..4], &places[32..34], &counts[..]), (&[0, 3, 4, 31][..], &[32, 39][..], &[4, 2][..]));
}
