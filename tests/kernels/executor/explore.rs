//! The search for a failing schedule, and for the choices in it that matter.

use simt::executor::{EmulatedBlock, Executor, Failure, explore};
use simt::{Block, FULL_MASK, GlobalMut};

/// Runs a kernel on blocks of two warps with one word of memory for each seed; what it leaves there
/// must be `right`.
fn left_in_memory(
    blocks: u32,
    words: usize,
    kernel: impl Fn(&EmulatedBlock<'_>, GlobalMut<'_, u32>),
    right: impl Fn(&[u32]) -> bool,
) -> Result<(), Failure<String>> {
    explore(0..100, |executor: &mut Executor| {
        let mut memory = vec![0u32; words];
        let view = executor.writable(&mut memory);
        let launched = executor.launch("tiny", blocks, (64, 1), 0, |block| kernel(block, view));
        launched.map_err(|violation| violation.to_string())?;
        if right(&memory) {
            Ok(())
        } else {
            Err(format!("left {memory:?}"))
        }
    })
}

#[test]
fn a_correct_kernel_passes_with_every_seed() {
    let count =
        |block: &EmulatedBlock<'_>, view: GlobalMut<'_, u32>| _ = block.atomic_add(view, 0, 1);
    assert!(left_in_memory(3, 1, count, |memory| memory == [192]).is_ok());
}

#[test]
fn a_kernel_that_always_fails_shrinks_to_no_choice() {
    let count =
        |block: &EmulatedBlock<'_>, view: GlobalMut<'_, u32>| _ = block.atomic_add(view, 0, 1);
    let failure = left_in_memory(3, 1, count, |memory| memory == [191]).unwrap_err();
    assert_eq!(
        (failure.seed, &*failure.error, &failure.choices[..]),
        (0, "left [192]", &[] as &[String])
    );
    let text = failure.to_string();
    assert_eq!(
        text,
        "with seed 0: left [192]\nIt fails in the plain order too, block by block, warp by warp."
    );
}

#[test]
fn a_wrong_order_of_warps_shrinks_to_one_choice() {
    let last = |block: &EmulatedBlock<'_>, view: GlobalMut<'_, u32>| {
        for _ in 0..20 {
            block.sync_warp(FULL_MASK);
        }
        if block.lane_id() == 0 {
            block.atomic_exch(view, 0, block.warp_id());
        }
    };
    let failure = left_in_memory(1, 1, last, |memory| memory == [1]).unwrap_err();
    let told = failure.to_string();
    assert_eq!(failure.choices.len(), 1, "{told}");
    assert!(
        told.contains("these changes of the plain order:\n- warp "),
        "{told}"
    );
}

#[test]
fn a_stale_read_is_reported_with_the_write_that_it_missed() {
    // Block 1 waits for a flag, and takes for granted that it then sees the number written before.
    let pass_on = |block: &EmulatedBlock<'_>, view: GlobalMut<'_, u32>| {
        if block.thread() == 0 && block.block_idx_x() == 0 {
            block.atomic_exch(view, 0, 7);
            block.atomic_exch(view, 1, 1);
        } else if block.thread() == 0 {
            let flag = block.atomic_load(view, 1);
            let number = block.atomic_load(view, 0);
            block.atomic_exch(view, 2, if flag == 1 { number } else { 7 });
        }
    };
    let failure = left_in_memory(2, 3, pass_on, |memory| memory[2] == 7).unwrap_err();
    assert_eq!(failure.error, "left [7, 1, 0]");
    let [choice] = &failure.choices[..] else {
        panic!("{failure}")
    };
    assert!(choice.starts_with(
        "thread 0 of block 1 reads what was there before the atomic by thread 0 of block 0 at "
    ));
}

#[test]
fn a_warp_is_held_back_longer_than_by_chance() {
    // Warp 1 looks after 60 rounds; by chance alone, warp 0 would have had a turn by then.
    let look = |block: &EmulatedBlock<'_>, view: GlobalMut<'_, u32>| {
        for _ in 0..60 * block.warp_id() {
            block.sync_warp(FULL_MASK);
        }
        if block.thread() == 0 {
            block.atomic_exch(view, 0, 1);
        } else if block.thread() == 32 {
            let seen = block.atomic_load(view, 0);
            block.atomic_exch(view, 1, seen);
        }
    };
    let failure = left_in_memory(1, 2, look, |memory| memory == [1, 1]).unwrap_err();
    assert_eq!(
        failure.choices,
        ["warp 0 of block 0 waits until no other can go on"]
    );
}

#[test]
fn a_block_is_held_back_until_no_other_can_run() {
    // The block that begins first ends last: by chance alone, once in thousands of schedules.
    let finish = |block: &EmulatedBlock<'_>, view: GlobalMut<'_, u32>| {
        let place = if block.thread() == 0 {
            block.atomic_add(view, 0, 1)
        } else {
            1
        };
        block.sync_threads();
        if block.thread() == 0 {
            let done = block.atomic_add(view, 1, 1);
            block.atomic_max(view, 2, if place == 0 { done } else { 0 });
        }
    };
    let failure = left_in_memory(20, 3, finish, |memory| memory[2] < 19).unwrap_err();
    let two = [
        "up to 2 blocks run at a time",
        "block 0 lets another one go on at a barrier",
    ];
    assert_eq!(
        (&*failure.error, &failure.choices[..]),
        ("left [20, 20, 19]", &two.map(str::to_owned)[..])
    );
}
