//! Counts of a launch.

use simt::executor::{EmulatedBlock, Executor};
use simt::{Block, FULL_MASK, Global, GlobalMut, Plain, Shared, SharedLayout};

use super::run;

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

#[test]
fn lanes_that_meet_in_a_bank_of_shared_memory_are_counted() {
    /// A load by lane, and the turns that it takes beyond the first.
    type Case = (fn(u32) -> u32, u64);
    fn conflicts<T: Plain>(cases: [Case; 4]) {
        for (element, expected) in cases {
            let array: Shared<T> = SharedLayout::new().array(1056);
            let count = |loads: bool| {
                let stats = run(0, 32, 8 * 1056, |block| {
                    for i in 0..33 {
                        // (Consecutive elements: no conflict, whatever their size.)
                        block.shared_store(array, 32 * i + block.lane_id(), T::default());
                    }
                    block.sync_warp(FULL_MASK);
                    if loads {
                        block.shared_load(array, element(block.lane_id()));
                    }
                });
                stats.unwrap().bank_conflicts
            };
            assert_eq!((count(false), count(true)), (0, expected), "{} bytes", size_of::<T>());
        }
    }
    // One word for all; side by side; every second; a column of 32 words, then of 33.
    conflicts::<u32>([(|_| 5, 0), (|lane| 2 * lane, 1), (|lane| 32 * lane, 31), (|lane| 33 * lane, 0)]);
    // Four lanes a word. Lanes 0, 32, … of a row of 32 words.
    conflicts::<u8>([(|lane| lane, 0), (|lane| 31 - lane, 0), (|lane| 4 * lane, 0), (|lane| 8 * lane, 1)]);
    // Half of the lanes at a time.
    conflicts::<u64>([(|lane| lane, 0), (|_| 7, 0), (|lane| 2 * lane, 2), (|lane| 16 * lane, 30)]);

    let array: Shared<u32> = SharedLayout::new().array(32);
    let stats = run(0, 32, 32, |block| {
        block.shared_store(array, block.lane_id(), 0);
        block.sync_warp(FULL_MASK);
        // The lanes of a word take turns; those of two words in two banks do so at the same time.
        block.shared_atomic_add(array, block.lane_id() % 2, 1);
    });
    assert_eq!(stats.unwrap().bank_conflicts, 15);
}

#[test]
fn a_launch_after_one_that_broke_a_rule_is_counted_as_any_other() {
    let input = [0u32; 32];
    let input = Global::from_slice(&input);
    let count = |executor: &mut Executor| {
        executor.launch("tiny", 1, (32, 1), 0, |block| _ = block.load(input, block.lane_id())).unwrap()
    };
    let mut executor = Executor::new(0);
    let first = count(&mut executor);
    executor.launch("broken", 1, (32, 1), 0, |block| _ = block.load(input, 2 * block.lane_id())).unwrap_err();
    assert_eq!(count(&mut executor), first);
}

#[test]
fn a_place_in_a_loop_is_one_step_of_the_warp_between_two_barriers() {
    let input = vec![0u32; 32];
    let input = Global::from_slice(&input);
    let stats = run(0, 32, 0, |block| {
        for lanes in [16, 32] {
            if block.lane_id() < lanes {
                block.load(input, block.lane_id());
            }
            block.sync_threads();
        }
    })
    .unwrap();
    assert_eq!((stats.warp_steps, stats.step_lanes, stats.global_sectors), (2, 16 + 32, 2 + 4));
}

#[test]
fn buffers_begin_on_a_sector_wherever_the_host_has_put_them() {
    let memory = [0u32; 16];
    for at in 0..8 {
        let view = Global::from_slice(&memory[at..]);
        let eight = |block: &EmulatedBlock<'_>| _ = (block.lane_id() < 8).then(|| block.load(view, block.lane_id()));
        assert_eq!(run(0, 32, 0, eight).unwrap().global_sectors, 1, "from element {at}");
    }
    let bytes = [0u8; 64];
    for (at, sectors) in [(28, 1), (29, 2), (31, 2), (32, 1)] {
        let view = Global::from_slice(&bytes);
        let stats = run(0, 32, 0, |block| _ = block.load_bytes::<u32>(view, at)).unwrap();
        assert_eq!(stats.global_sectors, sectors, "four bytes at {at}");
    }
}

#[test]
fn sectors_of_tables_are_counted_apart() {
    let (events, table) = (vec![0u32; 64], vec![0u32; 64]);
    let (events, table) = (Global::from_slice(&events), Global::from_slice(&table));
    let mut executor = Executor::new(0);
    executor.constant([table.as_ptr().addr()]);
    let stats = executor
        .launch("tiny", 1, (32, 1), 0, |block| {
            block.load(events, block.lane_id());
            block.load(table, 2 * block.lane_id());
        })
        .unwrap();
    assert_eq!((stats.global_sectors, stats.table_sectors, stats.distinct_sectors), (4 + 8, 8, 4));
}

#[test]
fn distinct_sectors_are_those_of_one_launch_once_read_and_once_written() {
    let mut memory = vec![0u32; 64];
    let mut executor = Executor::new(0);
    let mut distinct = |kernel: &dyn Fn(&EmulatedBlock<'_>, GlobalMut<'_, u32>)| {
        let view = executor.writable(&mut memory);
        executor.launch("tiny", 2, (32, 1), 0, |block| kernel(block, view)).unwrap().distinct_sectors
    };
    assert_eq!(distinct(&|block, view| _ = block.load_mut(view, block.lane_id())), 4, "both blocks read the same");
    assert_eq!(distinct(&|block, view| block.store(view, 32 * block.block_idx_x() + block.lane_id(), 1)), 8);
    assert_eq!(distinct(&|block, view| _ = block.atomic_add(view, block.lane_id(), 1)), 2 * 4);
    assert_eq!(distinct(&|_, _| {}), 0);
}
