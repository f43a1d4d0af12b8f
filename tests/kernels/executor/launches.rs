//! Launches, memory and views: refused arguments, and the end of endless kernels.

use std::cell::Cell;

use simt::executor::{EmulatedBlock, Executor, Fault};
use simt::{Block, FULL_MASK, Global, GlobalMut};

use super::{must_fail, run, words};

/// Lets 32 threads write elements 0 to 31 and read elements 1 to 32. Only the last read is wrong:
/// element 32, at byte 128. On a GPU it would give whatever the block before has left, often the
/// value that was meant.
#[test]
fn reading_unwritten_shared_memory_is_a_violation() {
    let array = words(64);
    for violation in must_fail(32, 64, |block| {
        block.shared_store(array, block.thread(), 1);
        block.sync_threads();
        block.shared_load(array, block.thread() + 1);
    }) {
        assert!(
            matches!(
                violation.fault,
                Fault::UnwrittenShared {
                    byte: 128,
                    size: 4,
                    ..
                }
            ),
            "{violation}"
        );
        assert!(
            violation
                .to_string()
                .contains("(element 32 of the array of 64 u32 laid out at tests/"),
            "{violation}"
        );
        assert_eq!(violation.thread, 31);
    }
    for violation in must_fail(32, 64, |block| {
        block.shared_atomic_add(array, 0, 1);
    }) {
        assert!(
            matches!(violation.fault, Fault::UnwrittenShared { byte: 0, .. }),
            "{violation}"
        );
    }
}

#[test]
fn shared_memory_does_not_pass_from_block_to_block() {
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

#[test]
fn accesses_out_of_bounds_are_reported() {
    let array = words(4);
    for violation in must_fail(32, 8, |block| block.shared_store(array, block.thread(), 0)) {
        let fault = &violation.fault;
        assert!(
            matches!(
                fault,
                Fault::OutOfBounds {
                    memory: "shared",
                    index: 4..,
                    len: 4,
                    ..
                }
            ),
            "{violation}"
        );
    }
    let input = [1u8, 2, 3, 4, 5];
    let bytes = Global::from_slice(&input);
    assert_eq!(
        run(0, 32, 0, |block| assert_eq!(
            block.load_bytes::<u32>(bytes, 1),
            0x0504_0302
        ))
        .map(|_| ()),
        Ok(())
    );
    for violation in must_fail(32, 0, |block| _ = block.load_bytes::<u32>(bytes, 2)) {
        assert!(
            violation
                .to_string()
                .contains("read-only global element 2 of 5"),
            "{violation}"
        );
    }
    for violation in must_fail(32, 0, |block| _ = block.load(bytes, 5)) {
        assert!(
            violation
                .to_string()
                .ends_with("read of read-only global element 5 of 5"),
            "{violation}"
        );
    }
    let mut memory = [0u32; 3];
    let mut executor = Executor::new(0);
    let view = executor.writable(&mut memory);
    let result = executor.launch("tiny", 1, (32, 1), 0, |block| {
        block.store(view, block.thread(), 1);
    });
    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("write of global element")
    );
}

#[test]
fn shared_memory_beyond_the_launch_is_refused() {
    let array = words(64);
    for violation in must_fail(32, 16, |block| block.shared_store(array, block.thread(), 0)) {
        assert!(
            matches!(violation.fault, Fault::BadLaunch(_)),
            "{violation}"
        );
    }
    for violation in must_fail(32, 16, |block| block.shared_store(array, 16, 0)) {
        let said = "shared memory ends at byte 64, the kernel wants bytes 64 to 68";
        assert_eq!(violation.fault, Fault::BadLaunch(said.to_owned()));
    }
}

#[test]
fn a_view_of_an_earlier_launch_is_refused() {
    for is_another_made in [false, true] {
        let (mut memory, mut other) = ([0u32; 32], [0u32; 32]);
        let mut executor = Executor::new(0);
        let view = executor.writable(&mut memory);
        executor
            .launch("tiny", 1, (32, 1), 0, |block| {
                block.store(view, block.thread(), 1);
            })
            .unwrap();
        if is_another_made {
            executor.writable(&mut other);
        }
        let result = executor.launch("tiny", 1, (32, 1), 0, |block| {
            block.store(view, block.thread(), 1);
        });
        assert!(matches!(result.unwrap_err().fault, Fault::BadLaunch(_)));
    }
}

/// Goes beyond each limit of a device by as little as possible: 2³¹ - 1 blocks in x and 65,535 in
/// y, 227 KiB of shared memory, 1,024 threads. Blocks must be whole warps: 33 threads are not, and
/// neither are 16 times 3. Products are chosen to wrap in 32 bits, as 2¹⁶ times 2¹⁵ blocks do in a
/// signed number.
#[test]
fn impossible_grids_and_partial_warps_are_refused_before_the_launch() {
    let warp = (32, 1);
    for (grid, block, shared_bytes) in [
        ((1 << 31, 1), warp, 0),
        ((u32::MAX, 1), warp, 0),
        ((1, 65_536), warp, 0),
        ((1 << 16, 1 << 15), warp, 0),
        ((u32::MAX, 3), warp, 0),
        ((1, 1), warp, (227 << 10) + 1),
        ((1, 1), warp, u32::MAX),
        ((1, 1), (0, 1), 0),
        ((1, 1), (33, 1), 0),
        ((1, 1), (16, 3), 0),
        ((1, 1), (2048, 1), 0),
        ((1, 1), (u32::MAX, u32::MAX), 0),
    ] {
        let result = Executor::new(0).launch("tiny", grid, block, shared_bytes, |_| {
            panic!("no thread begins")
        });
        let fault = result.unwrap_err().fault;
        assert!(
            matches!(fault, Fault::BadLaunch(_)),
            "{grid:?} blocks of {block:?}, {shared_bytes} bytes: {fault:?}"
        );
    }
    Executor::new(0)
        .launch("tiny", 1, warp, 227 << 10, |_| {})
        .unwrap();
}

/// Tells two kinds of endless loops apart. A loop that only reads waits for something that no one
/// will write, which is certain after fewer steps: a sixteenth of the limit. A loop that writes may
/// be making progress, and gets all 1,000. The last launch shows that an executor with limits still
/// runs what stays within these.
#[test]
fn an_endless_loop_is_reported() {
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
    assert_eq!(
        result.unwrap_err().fault,
        Fault::Spinning { steps: 1000 / 16 }
    );
    // A loop that writes makes progress, but the number of its steps is limited, too.
    let result = executor.launch("tiny", 1, (32, 1), 4, |block| {
        while block.thread() == 0 {
            block.shared_store(next, 0, 1);
        }
    });
    assert_eq!(result.unwrap_err().fault, Fault::Endless { steps: 1000 });
    executor
        .launch("tiny", 20, (32, 1), 4, |block| block.sync_threads())
        .unwrap();
}

#[test]
fn waiting_without_a_pause_is_reported() {
    let mut flag = [0u32; 1];
    let wait: [fn(&EmulatedBlock<'_>, GlobalMut<'_, u32>); 3] = [
        |block, flag| while block.atomic_load(flag, 0) == 0 {},
        |block, flag| while block.atomic_cas(flag, 0, 1, 0) != 1 {},
        |block, flag| while block.load_mut(flag, 0) == 0 {},
    ];
    for wait in wait {
        let mut executor = Executor::new(0);
        executor.limit_steps(1 << 20);
        let view = executor.writable(&mut flag);
        let violation = executor
            .launch("tiny", 2, (64, 1), 0, |block| wait(block, view))
            .unwrap_err();
        assert_eq!(violation.fault, Fault::Spinning { steps: 1 << 16 });
        assert!(
            violation
                .to_string()
                .contains("the loop needs `pause()`, which lets others run"),
            "{violation}"
        );
    }
}

#[test]
fn a_long_loop_that_writes_or_pauses_is_not_taken_for_waiting() {
    let mut executor = Executor::new(0);
    executor.limit_steps(10_000);
    let array = words(1);
    let result = executor.launch("tiny", 1, (32, 1), 4, |block| {
        for i in 0..100u32 {
            if block.thread() == 0 {
                block.shared_store(array, 0, i);
                (0..20).for_each(|_| _ = block.shared_load(array, 0));
            }
            block.sync_warp(FULL_MASK);
        }
    });
    result.unwrap();
}

/// Value that counts how many of its kind are dropped.
struct Guard<'a>(&'a Cell<u32>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_panic_in_a_lane_is_a_violation_and_the_executor_stays_usable() {
    let mut executor = Executor::new(0);
    let dropped = Cell::new(0);
    let result = executor.launch("tiny", 4, (64, 1), 0, |block| {
        let _guard = Guard(&dropped);
        block.sync_threads();
        assert!(block.thread() != 33, "lane {} gives up", block.lane_id());
    });
    let violation = result.unwrap_err();
    assert!(
        violation.thread == 33
            && violation
                .to_string()
                .ends_with(": panicked: lane 1 gives up"),
        "{violation}"
    );
    let place = format!("lane 1 (thread 33), at {}:", file!());
    assert!(
        violation.to_string().contains(&place) && !violation.to_string().contains("unknown"),
        "{violation}"
    );
    assert_eq!(dropped.get(), 64, "what the lanes held is dropped");
    executor
        .launch("tiny", 1, (1024, 1), 0, |block| block.sync_threads())
        .unwrap();
}

/// Makes two blocks wait for each other where only one can be resident. A device with room for both
/// runs this kernel well, and a full or small one hangs, so the mistake passes every test on an
/// empty GPU.
#[test]
fn waiting_for_a_block_that_is_not_resident_is_a_deadlock() {
    for (resident, seed) in (0..20).flat_map(|seed| [(0, seed), (1, seed)]) {
        let mut begun = [0u32; 1];
        let mut executor = Executor::new(seed);
        executor.limit_resident(resident);
        executor.limit_steps(100_000);
        let view = executor.writable(&mut begun);
        let result = executor.launch("tiny", 2, (32, 1), 0, |block| {
            if block.thread() == 0 {
                block.atomic_add(view, 0, 1);
                while block.atomic_load(view, 0) != 2 {
                    block.pause();
                }
            }
        });
        let fault = Fault::Deadlock {
            waiting: 1,
            finished: 0,
            resident: 1,
            grid: 2,
        };
        assert_eq!(result.unwrap_err().fault, fault);
    }
}
