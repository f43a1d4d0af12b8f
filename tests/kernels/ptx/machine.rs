//! The interpreter of PTX itself: what it runs, counts and refuses.

use ptx_machine::{Counts, Launch, Memory, Program, bytes_of};
use ut_decoding::decoder::ptx::Unit;

/// Runs the first prefix-sum kernel of a text that `change` was made to, over 0…99, in two blocks
/// of 64 threads.
fn scan(change: impl Fn(&str) -> String) -> Vec<u32> {
    let text = change(Unit::PRODUCTION[0].text);
    let mut memory = Memory::default();
    let counts = memory.put(&(0..100).collect::<Vec<u32>>(), false);
    let offsets = memory.put(&[0u32; 101], true);
    let totals = memory.put(&[0u32; 2], true);
    let arguments = [
        bytes_of(&counts.global::<u32>()),
        bytes_of(&offsets.global_mut::<u32>()),
        bytes_of(&totals.global_mut::<u32>()),
    ];
    let launch = Launch {
        grid: 2,
        block: (64, 1),
        shared_bytes: 128,
        turn: 0,
        counts: false,
    };
    Program::new(&text).launch(
        &mut memory,
        "prefix_sum_tiles__v4_allen",
        launch,
        &arguments,
    );
    memory.get(offsets)
}

/// Returns a change that replaces the first `from` in the first prefix-sum kernel.
fn planted(from: &str, to: &str) -> impl Fn(&str) -> String {
    let (from, to) = (from.to_owned(), to.to_owned());
    move |text| {
        let (before, kernel) = text
            .split_once(".visible .entry prefix_sum_tiles__v4_allen(")
            .unwrap();
        assert!(kernel.contains(&from), "{from}");
        format!(
            "{before}.visible .entry prefix_sum_tiles__v4_allen({}",
            kernel.replacen(&from, &to, 1)
        )
    }
}

#[test]
fn the_machine_runs_a_single_kernel() {
    let sum = |from: u32, to: u32| (from..to).sum::<u32>();
    let expected: Vec<u32> = (0..64)
        .map(|i| sum(0, i))
        .chain((64..100).map(|i| sum(64, i)))
        .chain([0])
        .collect();
    assert_eq!(scan(str::to_owned), expected);
}

#[test]
fn a_wrong_instruction_gives_wrong_numbers() {
    let right = scan(str::to_owned);
    for (from, to) in [
        ("shfl.sync.up.b32", "shfl.sync.down.b32"),
        ("min.u32", "max.u32"),
        (", 2, 0, -1", ", 3, 0, -1"),
    ] {
        let wrong = std::panic::catch_unwind(|| scan(planted(from, to)));
        assert!(
            wrong.is_err() || wrong.is_ok_and(|wrong| wrong != right),
            "{from} → {to}"
        );
    }
}

#[test]
fn the_machine_reports_undefined_behaviour() {
    // The register of the address has whatever number the compiler gave it.
    let (_, kernel) = Unit::PRODUCTION[0]
        .text
        .split_once(".visible .entry prefix_sum_tiles__v4_allen(")
        .unwrap();
    let (_, store) = kernel.split_once("st.global.u32 [").unwrap();
    let address = store.split(']').next().unwrap();
    let read_only = format!("ld.global.nc.u32 %r9999, [{address}];\n\tst.global.u32 [");
    let shuffle = "setp.eq.b32 %p999, %laneid, 5;\n\t@%p999 ret;\n\tshfl.sync.up.b32";
    let barrier = "setp.eq.b32 %p999, %tid.x, 63;\n\t@%p999 ret;\n\tbar.sync";
    for (from, to, said) in [
        // A collective that not all lanes of the mask reach, and a barrier that not all threads do.
        ("shfl.sync.up.b32", shuffle, "no thread can go on"),
        ("bar.sync", barrier, "no thread can go on"),
        ("1, 0, -1;", "1, 0, 1;", "not in its own mask"),
        // The check of the index lets one more pass.
        ("setp.ge.u32", "setp.gt.u32", "outside of global memory"),
        (
            "st.global.u32 [",
            &read_only,
            "written, and read through the read-only cache",
        ),
        (", block_shared;", ", 128;", "outside of shared"),
    ] {
        let panic = std::panic::catch_unwind(|| scan(planted(from, to))).expect_err(to);
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        assert!(
            message.is_some_and(|message| message.contains(said)),
            "{to}: {message:?}"
        );
    }
}

/// Counts the work of one block of 64 threads that runs these instructions. `%rd1` is the address
/// of 256 words, all zero.
fn counts(instructions: &str) -> Counts {
    let launch = Launch {
        grid: 1,
        block: (64, 1),
        shared_bytes: 8192,
        turn: 0,
        counts: true,
    };
    let text = format!(
        ".visible .entry test(\n.param .u64 words\n)\n{{\nld.param.u64 %rd1, [words];\n{instructions}\nret;\n}}\n"
    );
    let mut memory = Memory::default();
    let words = memory.allocate(1024);
    memory.store(words, &[0; 1024]).expect("room for them");
    Program::new(&text).launch(&mut memory, "test", launch, &[words.to_le_bytes().to_vec()])[0]
}

#[test]
fn the_critical_path_is_the_longest_warp_of_each_interval() {
    // Warp 0 issues three more before the barrier, warp 1 two more behind it.
    let counts = counts(
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n@!%p1 bra BEHIND;\nadd.s32 %r2, %r1, 1;\n\
         add.s32 %r2, %r2, 1;\nadd.s32 %r2, %r2, 1;\nBEHIND:\nbar.sync 0;\n@%p1 bra END;\nadd.s32 %r2, %r1, 1;\n\
         add.s32 %r2, %r1, 1;\nEND:",
    );
    // Before: four, then three of warp 0 alone, and the barrier. Behind: the branch, two of warp 1
    // alone, the end.
    assert_eq!((counts.barriers, counts.issued), (1, 8 + 5 + 2 + 4));
    assert_eq!(counts.path, 8 + 4);
}

#[test]
fn warp_lanes_conflict_on_different_words_of_a_bank_but_not_on_the_same_word() {
    let store = |shift: u32| {
        let address = format!("mov.u32 %r1, %laneid;\nshl.b32 %r2, %r1, {shift};\n");
        counts(&format!("{address}st.shared.u32 [%r2], %r1;"))
    };
    // Words side by side; every second word; all in one bank.
    for (shift, conflicts) in [(2, 0), (3, 1), (7, 31)] {
        let counts = store(shift);
        assert_eq!(
            (counts.shared, counts.conflicts),
            (2, 2 * conflicts),
            "shift {shift}"
        );
    }
    let same = counts("mov.u32 %r1, 0;\nst.shared.u32 [%r1], %r1;\nld.shared.u32 %r2, [%r1];");
    assert_eq!((same.shared, same.conflicts), (4, 0));
    // Eight bytes per lane are read in two halves of the warp.
    let wide = counts(
        "mov.u32 %r1, %laneid;\nshl.b32 %r2, %r1, 3;\nmov.u64 %rd2, 0;\nst.shared.u64 [%r2], %rd2;",
    );
    assert_eq!((wide.shared, wide.conflicts), (2, 0));
}

#[test]
fn an_instruction_in_a_loop_is_issued_for_the_lane_with_the_most_iterations() {
    // Lane 0, 1, … leaves the loop in turn 1, 2, ….
    let counts = counts(
        "mov.u32 %r1, %laneid;\nmov.u32 %r2, 0;\nAGAIN:\nadd.s32 %r2, %r2, 1;\nsetp.le.u32 %p1, %r2, %r1;\n\
         @%p1 bra AGAIN;",
    );
    // Each of the two warps issues three before the loop, 32 turns of three, and the end.
    assert_eq!(counts.issued, 2 * (3 + 32 * 3 + 1));
    let turns: u64 = (1..=32).sum();
    assert_eq!(counts.lanes, 2 * (32 * 3 + 3 * turns + 32));
}
