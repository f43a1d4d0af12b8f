//! The counts of a launch.
//!
//! Counts replace times where there is no GPU, so they must be what a GPU would do: a sector is 32
//! aligned bytes of global memory, and shared memory has 32 banks of four bytes, which serve one
//! word each at a time. The expected numbers are worked out by hand from these two facts.

use simt::executor::{EmulatedBlock, Executor};
use simt::{Block, FULL_MASK, Global, GlobalMut, Plain, Shared, SharedLayout};

use super::run;

#[test]
fn accesses_and_sectors_are_counted() {
    let input: Vec<u32> = (0..1024).collect();
    let input = Global::from_slice(&input);
    let stats = run(0, 32, 0, |block| {
        // 32 adjacent words are four sectors, one word for all lanes is one, every eighth word is
        // 32.
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
    assert_eq!(
        (stats.global_loads, stats.global_sectors),
        (3 * 32 + 2 * 16, 4 + 1 + 32 + 2 * 2)
    );
    assert_eq!((stats.warp_steps, stats.step_lanes), (5, 3 * 32 + 2 * 16));
    assert!((stats.idle_share() - 0.2).abs() < 1e-12);
}

#[test]
fn bank_conflicts_are_counted() {
    /// Index that each lane loads, and the number of turns beyond the first.
    type Case = (fn(u32) -> u32, u64);
    fn conflicts<T: Plain>(cases: [Case; 4]) {
        for (element, expected) in cases {
            let array: Shared<T> = SharedLayout::new().array(1056);
            let count = |loads: bool| {
                let stats = run(0, 32, 8 * 1056, |block| {
                    for i in 0..33 {
                        // Consecutive elements have no conflict, whatever their size.
                        block.shared_store(array, 32 * i + block.lane_id(), T::default());
                    }
                    block.sync_warp(FULL_MASK);
                    if loads {
                        block.shared_load(array, element(block.lane_id()));
                    }
                });
                stats.unwrap().bank_conflicts
            };
            assert_eq!(
                (count(false), count(true)),
                (0, expected),
                "{} bytes",
                size_of::<T>()
            );
        }
    }
    // One word for all lanes; every second word; a column of rows of 32 words, and of 33.
    conflicts::<u32>([
        (|_| 5, 0),
        (|lane| 2 * lane, 1),
        (|lane| 32 * lane, 31),
        (|lane| 33 * lane, 0),
    ]);
    // Four lanes per word, forwards and backwards; one word per lane; every second word.
    conflicts::<u8>([
        (|lane| lane, 0),
        (|lane| 31 - lane, 0),
        (|lane| 4 * lane, 0),
        (|lane| 8 * lane, 1),
    ]);
    // Half of the lanes at a time.
    // Sixteen elements of 8 bytes fill the 32 banks once, without a conflict. With every second
    // one, elements 0 and 16 share a bank: two turns for each half, one more than needed, so 2 in
    // all. With a distance of 128 bytes all sixteen share one: 15 more turns for each half.
    conflicts::<u64>([
        (|lane| lane, 0),
        (|_| 7, 0),
        (|lane| 2 * lane, 2),
        (|lane| 16 * lane, 30),
    ]);

    let array: Shared<u32> = SharedLayout::new().array(32);
    let stats = run(0, 32, 32, |block| {
        block.shared_store(array, block.lane_id(), 0);
        block.sync_warp(FULL_MASK);
        // 16 lanes per word take turns, while two words in two banks are served at the same time.
        block.shared_atomic_add(array, block.lane_id() % 2, 1);
    });
    assert_eq!(stats.unwrap().bank_conflicts, 15);
}

#[test]
fn counts_start_again_after_a_violation() {
    let input = [0u32; 32];
    let input = Global::from_slice(&input);
    let count = |executor: &mut Executor| {
        executor
            .launch("tiny", 1, (32, 1), 0, |block| {
                _ = block.load(input, block.lane_id());
            })
            .unwrap()
    };
    let mut executor = Executor::new(0);
    let first = count(&mut executor);
    executor
        .launch("broken", 1, (32, 1), 0, |block| {
            _ = block.load(input, 2 * block.lane_id());
        })
        .unwrap_err();
    assert_eq!(count(&mut executor), first);
}

#[test]
fn each_visit_between_two_barriers_is_one_warp_step() {
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
    assert_eq!(
        (stats.warp_steps, stats.step_lanes, stats.global_sectors),
        (2, 16 + 32, 2 + 4)
    );
}

#[test]
fn host_addresses_do_not_change_sector_counts() {
    let memory = [0u32; 16];
    for at in 0..8 {
        let view = Global::from_slice(&memory[at..]);
        let eight = |block: &EmulatedBlock<'_>| {
            _ = (block.lane_id() < 8).then(|| block.load(view, block.lane_id()));
        };
        assert_eq!(
            run(0, 32, 0, eight).unwrap().global_sectors,
            1,
            "from element {at}"
        );
    }
    let bytes = [0u8; 64];
    // Bytes 28 to 31 end with the first sector; from 29 on, four bytes reach into the second.
    for (at, sectors) in [(28, 1), (29, 2), (31, 2), (32, 1)] {
        let view = Global::from_slice(&bytes);
        let stats = run(0, 32, 0, |block| _ = block.load_bytes::<u32>(view, at)).unwrap();
        assert_eq!(stats.global_sectors, sectors, "four bytes at {at}");
    }
}

#[test]
fn table_sectors_are_counted_separately() {
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
    assert_eq!(
        (
            stats.global_sectors,
            stats.table_sectors,
            stats.distinct_sectors
        ),
        (4 + 8, 8, 4)
    );
}

#[test]
fn distinct_sectors_count_each_sector_once_read_and_once_written() {
    let mut memory = vec![0u32; 64];
    let mut executor = Executor::new(0);
    let mut distinct = |kernel: &dyn Fn(&EmulatedBlock<'_>, GlobalMut<'_, u32>)| {
        let view = executor.writable(&mut memory);
        executor
            .launch("tiny", 2, (32, 1), 0, |block| kernel(block, view))
            .unwrap()
            .distinct_sectors
    };
    assert_eq!(
        distinct(&|block, view| _ = block.load_mut(view, block.lane_id())),
        4,
        "both blocks read the same"
    );
    assert_eq!(
        distinct(&|block, view| block.store(view, 32 * block.block_idx_x() + block.lane_id(), 1)),
        8
    );
    assert_eq!(
        distinct(&|block, view| _ = block.atomic_add(view, block.lane_id(), 1)),
        2 * 4
    );
    assert_eq!(distinct(&|_, _| {}), 0);
}
