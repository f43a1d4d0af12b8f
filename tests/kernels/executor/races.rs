//! Races: the accesses that conflict, and the operations that order them.
//!
//! Two accesses race if they may touch the same byte, at least one writes, not both are atomic, and
//! nothing orders them. A result that is right by luck is a race all the same. So each test runs
//! two accesses, and asks of 20 or 30 schedules whether all find a race or none does: "sometimes"
//! would mean that the executor depends on the order in which it happened to run the threads.
//!
//! Thread 1 is in the warp of thread 0, and threads 33 and 40 are in the other warp, which only a
//! barrier of the block orders with the first.

use simt::executor::{EmulatedBlock, Executor, Fault};
use simt::{Block, FULL_MASK, GlobalMut, Plain, Shared, SharedLayout};

use super::{run, words};

type Act = fn(&EmulatedBlock<'_>, Shared<u32>);

/// Runs `first` in thread 0, `order` in all threads, and `second` in thread `other`, under 20
/// schedules. Returns the violation of each.
fn meet(
    other: u32,
    order: impl Fn(&EmulatedBlock<'_>),
    first: impl Fn(&EmulatedBlock<'_>),
    second: impl Fn(&EmulatedBlock<'_>),
) -> Vec<Option<String>> {
    (0..20)
        .map(|seed| {
            run(seed, 64, 8, |block| {
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
            assert!(
                text.contains(
                    "write of shared byte 0 (element 0 of the array of 1 u32 laid out at tests/"
                ),
                "{text}"
            );
            assert!(text.contains(") races with the write by thread"), "{text}");
            assert!(
                text.matches(concat!(file!(), ":")).count() == 2,
                "both places: {text}"
            );
        }
        assert!(
            meet(other, |block| block.sync_threads(), write, write)
                .iter()
                .all(Option::is_none)
        );
    }
}

#[test]
fn a_warp_barrier_orders_the_lanes_of_its_mask_only() {
    let array = words(1);
    let write = |block: &EmulatedBlock<'_>| block.shared_store(array, 0, block.thread());
    assert!(
        meet(1, |block| block.sync_warp(FULL_MASK), write, write)
            .iter()
            .all(Option::is_none)
    );
    assert!(
        meet(33, |block| block.sync_warp(FULL_MASK), write, write)
            .iter()
            .all(Option::is_some)
    );
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
fn a_write_races_with_elements_of_another_size_at_its_place() {
    let array = words(2);
    let halves: Shared<u16> = SharedLayout::new().array(4);
    let write = |block: &EmulatedBlock<'_>| block.shared_store(array, 1, 1);
    let write_half = |block: &EmulatedBlock<'_>| block.shared_store(halves, 3, 1);
    for other in [1, 33] {
        assert!(
            meet(other, |_| {}, write, write_half)
                .iter()
                .all(Option::is_some)
        );
        assert!(
            meet(other, |block| block.sync_threads(), write, write_half)
                .iter()
                .all(Option::is_none)
        );
    }
    assert!(
        meet(0, |_| {}, write, write_half)
            .iter()
            .all(Option::is_none),
        "one thread writes in its own order"
    );
}

/// Struct that is loaded and stored by one access of 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(16))]
struct Wide([u32; 4]);

// SAFETY: four numbers without padding.
unsafe impl Plain for Wide {}

/// Struct that is loaded and stored by three accesses of four bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
struct Narrow {
    x: f32,
    id: u32,
    lane: u16,
    count: u16,
}

// SAFETY: four numbers, the larger ones first, twelve bytes without padding.
unsafe impl Plain for Narrow {}

/// Lays out 3 bytes, 40 structs of 16 bytes and 40 of 12. The first structs begin at byte 16, where
/// they are aligned, the second behind them at 16 + 640, and all end at 16 + 40 * 28. Later the
/// second kind is used from byte 0 on, over what the others have left.
#[test]
fn structs_and_numbers_share_memory_next_to_each_other_and_in_turn() {
    let mut layout = SharedLayout::new();
    let bytes: Shared<u8> = layout.array(3);
    let wide: Shared<Wide> = layout.array(40);
    let narrow: Shared<Narrow> = layout.array(40);
    assert_eq!(
        (wide.offset(), narrow.offset(), layout.bytes()),
        (16, 16 + 40 * 16, 16 + 40 * 28)
    );
    let again: Shared<Narrow> = SharedLayout::new().array(40);
    let wide_of = |i: u32| Wide([i, 7 * i, !i, 1 << (i % 32)]);
    let narrow_of = |i: u32| Narrow {
        x: i as f32 / 4.0,
        id: !i,
        lane: i as u16,
        count: 3,
    };
    for seed in 0..10 {
        let launched = run(seed, 64, layout.bytes() / 4, |block| {
            let (i, other) = (block.thread(), 39 - block.thread() % 40);
            if i < 40 {
                block.shared_store(wide, i, wide_of(i));
                block.shared_store(narrow, i, narrow_of(i));
            }
            if i < 3 {
                block.shared_store(bytes, i, 1 + i as u8);
            }
            block.sync_threads();
            assert_eq!(block.shared_load(wide, other), wide_of(other));
            assert_eq!(block.shared_load(narrow, other), narrow_of(other));
            assert_eq!(block.shared_load(bytes, i % 3), 1 + (i % 3) as u8);
            block.sync_threads();
            if i < 40 {
                block.shared_store(again, i, narrow_of(i + 1));
            }
            block.sync_threads();
            assert_eq!(block.shared_load(again, other), narrow_of(other + 1));
        });
        launched.unwrap();
    }
}

#[test]
fn a_struct_races_with_overlapping_elements_and_ends_when_one_is_written() {
    let wide: Shared<Wide> = SharedLayout::new().array(2);
    // Bytes 12 to 23: the end of the first wide element, and the beginning of the second.
    let narrow: Shared<Narrow> = SharedLayout::new().array(2);
    let write_wide =
        |i| move |block: &EmulatedBlock<'_>| block.shared_store(wide, i, Wide::default());
    let write = |block: &EmulatedBlock<'_>| block.shared_store(narrow, 1, Narrow::default());
    for i in 0..2 {
        for other in [1, 33] {
            assert!(
                meet(other, |_| {}, write_wide(i), write)
                    .iter()
                    .all(Option::is_some)
            );
            assert!(
                meet(other, |_| {}, write, write_wide(i))
                    .iter()
                    .all(Option::is_some)
            );
            assert!(
                meet(other, |block| block.sync_threads(), write_wide(i), write)
                    .iter()
                    .all(Option::is_none)
            );
        }
        let violation = run(0, 32, 8, |block| {
            if block.thread() == 0 {
                write_wide(i)(block);
                write(block);
                block.shared_load(wide, i);
            }
        });
        let unwritten = matches!(
            violation.unwrap_err().fault,
            Fault::UnwrittenShared { size: 16, .. }
        );
        assert!(unwritten, "half of it is another element");
    }
}

#[test]
fn reads_race_with_writes_and_not_with_each_other() {
    let outcome = |first: Act, second: Act| {
        races(64, |block, array| match block.thread() {
            0 => first(block, array),
            40 => second(block, array),
            _ => {}
        })
    };
    let read: Act = |block, array| _ = block.shared_load(array, 0);
    let write: Act = |block, array| block.shared_store(array, 0, 1);
    let add: Act = |block, array| _ = block.shared_atomic_add(array, 0, 1);
    assert_eq!(outcome(read, read), [false; 30]);
    assert_eq!(outcome(add, add), [false; 30]);
    for (first, second) in [
        (read, write),
        (write, read),
        (write, write),
        (add, write),
        (write, add),
        (add, read),
        (read, add),
    ] {
        assert_eq!(outcome(first, second), [true; 30]);
    }
}

#[test]
fn a_writer_races_with_any_of_many_earlier_readers() {
    for reader in [1, 31, 32, 63] {
        let outcome = races(64, |block, array| {
            load_if([0, reader].contains(&block.thread()), block, array);
            store_if(block.thread() == 0, block, array);
        });
        assert_eq!(
            outcome, [true; 30],
            "thread {reader} and thread 0 read, thread 0 writes"
        );
    }
}

#[test]
fn races_in_global_memory_are_found_within_and_between_blocks() {
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
        let (text, other) = (violation.to_string(), 1 - violation.block);
        let view = concat!(
            "write of global element 2 (of the view of 4 u32 made at ",
            file!(),
            ":"
        );
        assert!(
            text.starts_with(&format!("kernel tiny, block {}, ", violation.block))
                && text.contains(view),
            "{text}"
        );
        assert!(
            text.contains(&format!(
                "races with the write by thread 0 of block {other} at "
            )),
            "{text}"
        );

        let view = executor.writable(&mut memory);
        executor
            .launch("tiny", 2, (32, 1), 0, |block| {
                _ = block.atomic_add(view, 2, 1);
            })
            .unwrap();
        // A launch is over before the next begins.
        let view = executor.writable(&mut memory);
        executor
            .launch("tiny", 1, (32, 1), 0, |block| {
                block.store(view, block.thread() % 4, 1);
            })
            .unwrap_err();
        let view = executor.writable(&mut memory);
        executor
            .launch("tiny", 1, (32, 1), 0, |block| _ = block.load_mut(view, 2))
            .unwrap();
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

/// Runs a kernel after thread 0 has written element 0, under 30 schedules. Returns true for each
/// that has a race.
fn races(threads: u32, kernel: impl Fn(&EmulatedBlock<'_>, Shared<u32>)) -> Vec<bool> {
    let array = words(1);
    let outcome = |seed| {
        let result = run(seed, threads, 1, |block| {
            if block.thread() == 0 {
                block.shared_store(array, 0, 1);
            }
            block.sync_threads();
            kernel(block, array);
        });
        result.is_err_and(|violation| matches!(violation.fault, Fault::Race { .. }))
    };
    (0..30).map(outcome).collect()
}

/// Loads element 0 in the threads for which `who` is true.
fn load_if(who: bool, block: &EmulatedBlock<'_>, array: Shared<u32>) {
    if who {
        block.shared_load(array, 0);
    }
}

/// Stores to element 0 in the threads for which `who` is true.
fn store_if(who: bool, block: &EmulatedBlock<'_>, array: Shared<u32>) {
    if who {
        block.shared_store(array, 0, 2);
    }
}

/// Synchronizes the lanes of `mask`.
fn sync(mask: u32, block: &EmulatedBlock<'_>) {
    if mask >> block.lane_id() & 1 == 1 {
        block.sync_warp(mask);
    }
}

#[test]
fn a_writer_is_ordered_after_every_lane_that_read() {
    let after = |mask| {
        races(32, move |block, array| {
            load_if([0, 2].contains(&block.thread()), block, array);
            sync(mask, block);
            store_if(block.thread() == 3, block, array);
        })
    };
    assert_eq!(after(0b1001), [true; 30], "lane 2 is not waited for");
    assert_eq!(after(0b1100), [true; 30], "lane 0 is not waited for");
    assert_eq!(after(FULL_MASK), [false; 30]);
}

#[test]
fn a_warp_barrier_does_not_order_readers_of_another_warp() {
    let of_readers = |readers: &'static [u32]| {
        races(64, move |block, array| {
            load_if(readers.contains(&block.thread()), block, array);
            if block.warp_id() == 1 {
                block.sync_warp(FULL_MASK);
            }
            store_if(block.thread() == 40, block, array);
        })
    };
    assert_eq!(of_readers(&[0, 33, 34]), [true; 30]);
    assert_eq!(of_readers(&[0, 33]), [true; 30]);
    assert_eq!(of_readers(&[33, 34]), [false; 30]);
}

#[test]
fn a_writer_must_be_ordered_after_both_of_two_readers() {
    // Lane 0 reads after a barrier that lane 2 has not passed, then lane 2 does (a vote orders
    // nothing). The writer waits for lane 2, and not for lane 0.
    let outcome = races(32, |block, array| {
        sync(!(1 << 2), block);
        load_if(block.thread() == 0, block, array);
        block.ballot_sync(FULL_MASK, true);
        load_if(block.thread() == 2, block, array);
        sync(!1, block);
        store_if(block.thread() == 3, block, array);
    });
    assert_eq!(outcome, [true; 30]);
}

/// Orders lane 2 after lane 0 only by way of lane 1, which takes part in both barriers.
#[test]
fn order_between_lanes_is_transitive() {
    let outcome = races(32, |block, array| {
        store_if(block.thread() == 0, block, array);
        sync(0b011, block);
        sync(0b110, block);
        store_if(block.thread() == 2, block, array);
    });
    assert_eq!(outcome, [false; 30]);
}

#[test]
fn a_block_is_not_ordered_after_another_by_its_own_barrier() {
    for seed in 0..30 {
        let mut memory = vec![0u32; 1];
        let mut executor = Executor::new(seed);
        let view = executor.writable(&mut memory);
        let result = executor.launch("tiny", 2, (32, 1), 0, |block| {
            let mut before = 0;
            if block.thread() == 0 {
                block.atomic_add(view, 0, 1);
                before = block.atomic_add(view, 0, 1);
            }
            block.sync_threads();
            // This thread's atomic was the last of four, so that all are done. But nothing orders
            // the plain load after the atomics of the other block.
            if before == 3 {
                block.load_mut(view, 0);
            }
        });
        assert!(matches!(result.unwrap_err().fault, Fault::Race { .. }));
    }
}

/// Lets blocks add to an array in the order of their tickets, which they pass on by `tell` and
/// `ask`. Returns the number of schedules, of 30, that have a race. All threads of a block take
/// part.
fn hand_over(
    tell: impl Fn(&EmulatedBlock<'_>, GlobalMut<'_, u32>, u32),
    ask: impl Fn(&EmulatedBlock<'_>, GlobalMut<'_, u32>) -> u32,
) -> usize {
    let outcome = |seed| {
        let (mut data, mut told) = (vec![0u32; 64], vec![0u32; 2]);
        let mut executor = Executor::new(seed);
        let (view, words_view) = (executor.writable(&mut data), executor.writable(&mut told));
        let ticket = words(1);
        let result = executor.launch("hand_over", 6, (64, 1), 4, |block| {
            if block.thread() == 0 {
                let own = block.atomic_add(words_view, 1, 1);
                while ask(block, words_view) < own {
                    block.pause();
                }
                block.shared_store(ticket, 0, own);
            }
            block.sync_threads();
            let i = block.thread();
            // Every other block accesses an element from a different thread than the block before.
            let i = if block.shared_load(ticket, 0) % 2 == 0 {
                i
            } else {
                63 - i
            };
            block.store(view, i, block.load_mut(view, i) + 1);
            block.sync_threads();
            if block.thread() == 40 {
                tell(block, words_view, block.shared_load(ticket, 0) + 1);
            }
        });
        if result.is_ok() {
            assert_eq!(data, [6; 64]);
        }
        result.is_err_and(|violation| matches!(violation.fault, Fault::Race { .. }))
    };
    (0..30).filter(|&seed| outcome(seed)).count()
}

#[test]
fn release_and_acquire_order_blocks_and_nothing_less_does() {
    let release = |block: &EmulatedBlock<'_>, words: GlobalMut<'_, u32>, n| {
        block.atomic_store_release(words, 0, n);
    };
    let acquire =
        |block: &EmulatedBlock<'_>, words: GlobalMut<'_, u32>| block.atomic_load_acquire(words, 0);
    assert_eq!(hand_over(release, acquire), 0);
    assert_eq!(
        hand_over(release, |block, words| block.atomic_load(words, 0)),
        30
    );
    assert_eq!(
        hand_over(|block, words, n| block.atomic_store(words, 0, n), acquire),
        30
    );
    let fence_before = |block: &EmulatedBlock<'_>, words: GlobalMut<'_, u32>, _| {
        block.fence();
        block.atomic_add(words, 0, 1);
    };
    let fence_after = |block: &EmulatedBlock<'_>, words: GlobalMut<'_, u32>| {
        let told = block.atomic_load(words, 0);
        block.fence();
        told
    };
    assert_eq!(hand_over(fence_before, fence_after), 0);
    assert_eq!(hand_over(fence_before, acquire), 0);
    assert_eq!(
        hand_over(
            |block, words, _| _ = block.atomic_add(words, 0, 1),
            fence_after
        ),
        30
    );
}

#[test]
fn a_release_does_not_cover_later_accesses() {
    let outcome = |seed| {
        let (mut data, mut told) = (vec![0u32; 1], vec![0u32; 1]);
        let mut executor = Executor::new(seed);
        let (view, flag) = (executor.writable(&mut data), executor.writable(&mut told));
        let result = executor.launch("late", 2, (32, 1), 0, |block| {
            if block.thread() == 0 && block.atomic_load_acquire(flag, 0) == 0 {
                block.atomic_store_release(flag, 0, 1);
                block.store(view, 0, 1);
            } else if block.thread() == 0 {
                block.load_mut(view, 0);
            }
        });
        result.is_err()
    };
    assert_eq!((0..30).filter(|&seed| outcome(seed)).count(), 30);
}

#[test]
fn later_reads_never_return_an_older_value() {
    for seed in 0..50 {
        let mut counter = vec![0u32; 1];
        let mut executor = Executor::new(seed);
        let view = executor.writable(&mut counter);
        let result = executor.launch("counter", 5, (32, 1), 0, |block| {
            if block.thread() == 0 {
                let mut last = 0;
                for _ in 0..5 {
                    block.atomic_add(view, 0, 1);
                    block.sync_warp(1);
                    let now = block.atomic_load(view, 0);
                    assert!(
                        now > last,
                        "own additions are seen, and nothing older than before"
                    );
                    last = now;
                    block.pause();
                }
            }
        });
        result.unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(counter, [25]);
    }
}
