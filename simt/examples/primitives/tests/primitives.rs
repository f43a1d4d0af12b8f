//! Each kernel in many schedules on the CPU, and its PTX on an interpreter, compared with plain
//! loops.

use std::path::Path;

use primitive_kernels::{FUNCTIONS, MOST_KEYS, UPDATES};
use primitive_kernels::{
    count, extremes, functions, gradient, odd, order, products, runs, scan, updates,
};
use ptx_machine::{Launch, Memory, Program, bytes_of};
use simt::executor::{EmulatedBlock, Executor, Fault};
use simt::ptx::{ARCHS, Compiler, KernelCrate, Ptxas, check};
use simt::{Block, Global};

enum Runner<'a> {
    Executor(u64),
    Ptx(&'a Program, u32),
}

const SHARED: u32 = 12 << 10;

/// Runs a kernel with its inputs, its outputs, which it changes, and numbers.
macro_rules! run {
    ($machine:expr, $kernel:ident, $grid:expr, $block:expr, [$($input:ident)*], [$($output:ident)*] $(, $number:expr)*) => {{
        let (x, y): (u32, u32) = $grid;
        match $machine {
            Runner::Executor(seed) => {
                let mut executor = Executor::new(*seed);
                $(let $input = Global::from_slice(&$input);)*
                $(let $output = executor.writable(&mut $output);)*
                let kernel = |block: &EmulatedBlock<'_>| $kernel(block, $($input,)* $($output,)* $($number,)*);
                let launched = executor.launch(stringify!($kernel), (x, y), $block, SHARED, kernel);
                launched.unwrap_or_else(|violation| panic!("{violation}"));
            }
            Runner::Ptx(program, turn) => {
                let mut memory = Memory::default();
                $(let $input = memory.put(&$input, false);)*
                $(let $output = (memory.put(&$output, true), &mut $output);)*
                let arguments = [
                    $(bytes_of(&$input.global::<u8>()),)*
                    $(bytes_of(&$output.0.global_mut::<u8>()),)*
                    $(bytes_of(&$number),)*
                ];
                let launch = Launch { grid: x * y, block: $block, shared_bytes: SHARED, turn: *turn, counts: false };
                program.launch_rows(&mut memory, stringify!($kernel), launch, x, &arguments);
                $(*$output.1 = memory.get($output.0);)*
            }
        }
    }};
}

fn noise(n: u32) -> Vec<u32> {
    (0..n)
        .map(|i| (i + 1).wrapping_mul(0x9E37_79B9) ^ (i.wrapping_mul(0x85EB_CA6B) >> 7))
        .collect()
}

fn floats() -> Vec<f32> {
    let special = [
        0.0,
        -0.0,
        1.0e-40,
        f32::INFINITY,
        -f32::INFINITY,
        0.5,
        2.5,
        -1.5,
        3.0e9,
        -3.0e9,
        4.5e9,
        f32::MAX,
    ];
    let plain = noise(500)
        .into_iter()
        .map(|bits| (bits as i32 as f32) / 65_536.0);
    plain
        .chain(special)
        .chain(noise(300).into_iter().map(f32::from_bits))
        .collect()
}

fn try_all(machine: &Runner<'_>) {
    let numbers = noise(777);
    for n in [0, 1, 31, 500, 777] {
        try_extremes_and_runs(machine, &numbers[..n]);
        try_lists_and_orders(machine, &numbers[..n]);
        try_count(machine, &numbers[..n]);
        try_scan(machine, &numbers[..n]);
    }
    try_products(machine);
    try_gradient(machine);
    try_functions(machine);
    try_updates(machine);
}

fn try_extremes_and_runs(machine: &Runner<'_>, numbers: &[u32]) {
    let n = numbers.len();
    let values: Vec<f32> = numbers.iter().map(|&bits| bits as i32 as f32).collect();
    let mut result = vec![f32::NEG_INFINITY, f32::INFINITY];
    run!(machine, extremes, (4, 1), (8, 32), [values], [result]);
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let min = values.iter().copied().fold(f32::INFINITY, f32::min);
    assert_eq!(result, [max, min]);

    let values: Vec<u32> = numbers.iter().map(|bits| bits >> 29).collect();
    let mut places = vec![0; n];
    run!(machine, runs, (7, 1), (128, 1), [values], [places]);
    let mut place = 0;
    for i in 0..n {
        place = if i % 128 == 0 || values[i] != values[i - 1] {
            1
        } else {
            place + 1
        };
        assert_eq!(places[i], place, "{i} of {n}");
    }
}

fn try_lists_and_orders(machine: &Runner<'_>, numbers: &[u32]) {
    let n = numbers.len();
    let values = numbers.to_vec();
    let (mut list, mut length) = (vec![0; n], vec![0]);
    run!(machine, odd, (13, 1), (64, 1), [values], [list length]);
    list.truncate(length[0] as usize);
    let mut expected: Vec<_> = values
        .iter()
        .copied()
        .filter(|value| value % 2 == 1)
        .collect();
    // Blocks append in any order; within a block the order is kept.
    let place = |value: &u32| {
        values
            .iter()
            .position(|other| other == value)
            .expect("one of them")
    };
    assert!(
        list.windows(2)
            .all(|pair| place(&pair[0]) / 64 != place(&pair[1]) / 64
                || place(&pair[0]) < place(&pair[1]))
    );
    list.sort_unstable();
    expected.sort_unstable();
    assert_eq!(list, expected);

    let mut sorted = vec![0; n];
    run!(machine, order, (2, 1), (96, 1), [values], [sorted]);
    for (block, sorted) in sorted.chunks(MOST_KEYS as usize).enumerate() {
        let first = block as u32 * MOST_KEYS;
        let mut expected: Vec<_> = (first..first + sorted.len() as u32).collect();
        expected.sort_by_key(|&i| values[i as usize] & 0xFFF);
        assert_eq!(sorted, expected);
    }
}

fn try_count(machine: &Runner<'_>, numbers: &[u32]) {
    // Some keys are equal, and some differ in the low word only.
    let values: Vec<u64> = numbers
        .iter()
        .map(|&bits| u64::from(bits % 97) << 29)
        .collect();
    let mut sorted = vec![0; values.len()];
    run!(machine, count, (2, 1), (96, 1), [values], [sorted]);
    for (block, sorted) in sorted.chunks(MOST_KEYS as usize).enumerate() {
        let first = block as u32 * MOST_KEYS;
        let mut expected: Vec<_> = (first..first + sorted.len() as u32).collect();
        expected.sort_by_key(|&i| values[i as usize]);
        assert_eq!(sorted, expected);
    }
}

fn try_scan(machine: &Runner<'_>, numbers: &[u32]) {
    let n = numbers.len();
    let values: Vec<u32> = numbers.iter().map(|bits| bits >> 8).collect();
    let (mut sums, mut descriptors) = (vec![0; n], vec![0u64; 1 + 25]);
    run!(machine, scan, (25, 1), (32, 1), [values], [sums descriptors]);
    let mut sum = 0u32;
    for (&value, own) in values.iter().zip(sums) {
        assert_eq!(own, sum);
        sum = sum.saturating_add(value);
    }
}

fn try_products(machine: &Runner<'_>) {
    let values: Vec<f64> = (0..40).map(|i| 1.0 + f64::from(i) / 7.0).collect();
    let (mut chain, mut flags) = (vec![0.0; 40], vec![0u32; 41]);
    run!(machine, products, (40, 1), (32, 1), [values], [chain flags]);
    let mut product = 1.0;
    for (value, own) in values.iter().zip(chain) {
        product *= value;
        assert_eq!(own, product);
    }
}

fn try_gradient(machine: &Runner<'_>) {
    let (width, height) = (37u32, 21u32);
    let picture: Vec<f32> = noise(width * height)
        .into_iter()
        .map(|bits| (bits >> 12) as f32 / 1000.0)
        .collect();
    let mut result = vec![0.0; picture.len()];
    run!(
        machine,
        gradient,
        (5, 6),
        (8, 4),
        [picture],
        [result],
        width
    );
    for (i, &own) in result.iter().enumerate() {
        let (x, y) = (i as u32 % width, i as u32 / width);
        let at = |x: u32, y: u32| picture[(y.min(height - 1) * width + x.min(width - 1)) as usize];
        let (dx, dy) = (
            at(x + 1, y) - at(x.saturating_sub(1), y),
            at(x, y + 1) - at(x, y.saturating_sub(1)),
        );
        assert_eq!(
            own.to_bits(),
            dx.mul_add(dx, dy * dy).sqrt().to_bits(),
            "{x}, {y}"
        );
    }
}

fn try_functions(machine: &Runner<'_>) {
    let values = floats();
    let mut result = vec![0u32; values.len()];
    run!(machine, functions, (4, 1), (256, 1), [values], [result]);
    let mut expected = vec![0u32; values.len()];
    run!(
        &Runner::Executor(0),
        functions,
        (4, 1),
        (256, 1),
        [values],
        [expected]
    );
    for (i, (own, other)) in result.into_iter().zip(expected).enumerate() {
        let both_none = f32::from_bits(own).is_nan() && f32::from_bits(other).is_nan();
        assert!(
            own == other || both_none,
            "function {} of {}: {own:#x}, {other:#x}",
            i as u32 % FUNCTIONS,
            values[i]
        );
    }
}

fn try_updates(machine: &Runner<'_>) {
    let n = UPDATES as usize;
    let (mut words, mut longs, mut sums) = (vec![0u32; n], vec![0i64; n], vec![0.0f32; n]);
    words[1] = u32::MAX;
    run!(machine, updates, (3, 1), (64, 1), [], [words longs sums]);
    let all: Vec<i32> = (0..192).map(|i| i % 37 - 18).collect();
    let sum: i32 = all.iter().sum();
    let bits = |fold: fn(u32, u32) -> u32, first| {
        all.iter()
            .fold(first, |bits, &value| fold(bits, value as u32))
    };
    assert_eq!(
        words[..4],
        [
            bits(|a, b| a | b, 0),
            bits(|a, b| a & b, u32::MAX),
            u32::MAX,
            sum as u32
        ]
    );
    assert_eq!(longs[..4], [-18, 18, sum.into(), sum.into()]);
    assert_eq!(sums[..6], [-18.0, 18.0, sum as f32, sum as f32, 9.0, 3.5]);
}

#[test]
fn every_kernel_is_correct_in_every_schedule() {
    (0..20).for_each(|seed| try_all(&Runner::Executor(seed)));
}

#[test]
fn a_value_without_release_and_acquire_is_a_race_or_stale() {
    // As in `products`, without the acquire, and then with relaxed atomics for the products, too.
    let (mut races, mut stale) = (0, 0);
    for seed in 0..100 {
        let (mut values, mut flag) = (vec![0u32; 1], vec![0u32; 1]);
        let mut executor = Executor::new(seed);
        let (value, told) = (executor.writable(&mut values), executor.writable(&mut flag));
        let plain = executor.launch("plain", 2, (32, 1), 0, |block| {
            if block.block_idx_x() == 0 && block.thread() == 0 {
                block.store(value, 0, 7);
                block.atomic_store_release(told, 0, 1);
            } else if block.thread() == 0 && block.atomic_load(told, 0) == 1 {
                block.load_mut(value, 0);
            }
        });
        races +=
            u32::from(plain.is_err_and(|violation| matches!(violation.fault, Fault::Race { .. })));
        let old = std::cell::Cell::new(false);
        let mut executor = Executor::new(seed);
        let (value, told) = (executor.writable(&mut values), executor.writable(&mut flag));
        let relaxed = |block: &EmulatedBlock<'_>| {
            if block.block_idx_x() == 0 && block.thread() == 0 {
                block.atomic_store(value, 0, 8);
                block.atomic_store(told, 0, 2);
            } else if block.thread() == 0 {
                old.set(block.atomic_load(told, 0) == 2 && block.atomic_load(value, 0) != 8);
            }
        };
        executor
            .launch("relaxed", 2, (32, 1), 0, relaxed)
            .expect("atomics do not race");
        stale += u32::from(old.get());
    }
    assert!(
        races > 0 && stale > 0,
        "{races} races, {stale} stale values"
    );
}

fn compile(folder: &Path, unit: &str) -> Result<String, String> {
    let simt = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kernels = KernelCrate {
        name: "primitive_kernels",
        folder,
        dependencies: &[],
        simt: Some(&simt),
        max_registers: &[],
        rebuild: "cargo test",
    };
    Compiler::find("UT_DECODE_PTX_RUSTC")?.compile(
        &kernels,
        unit,
        Path::new(env!("CARGO_TARGET_TMPDIR")),
    )
}

#[test]
#[ignore = "needs a compiler for PTX and ptxas: kernels/install-ptx-tools.sh installs them, .ci/full runs this"]
fn the_ptx_does_the_same_on_the_interpreter_and_assembles_for_every_architecture() {
    let text =
        compile(Path::new(env!("CARGO_MANIFEST_DIR")), "all").unwrap_or_else(|e| panic!("{e}"));
    let program = Program::new(&text);
    (0..5).for_each(|turn| try_all(&Runner::Ptx(&program, turn)));

    let work = tempfile::tempdir().expect("a folder");
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/ptx-tools/bin");
    let ptxas = Ptxas::find("UT_DECODE_PTXAS", &tools).expect("ptxas");
    for arch in ARCHS.into_iter().chain(["sm_120"]) {
        let usages = ptxas
            .assemble(&text, arch, work.path())
            .expect("the PTX assembles");
        assert_eq!(check(&text, &usages), [], "{arch}");
    }
}

#[test]
#[ignore = "needs a compiler for PTX: kernels/install-ptx-tools.sh installs it, .ci/full runs this"]
fn the_ptx_of_a_bad_kernel_is_refused_with_the_place_in_its_source() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("src")).expect("a folder");
    let source = "#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]
use simt::{Block, GlobalMut};
simt::declare_shared_memory!();
#[unsafe(no_mangle)]
pub unsafe extern \"ptx-kernel\" fn bad(to: GlobalMut<'_, u32>) {
    let block = unsafe { simt::nvptx::Hardware::new() };
    let t = block.load_mut(to, block.thread());
    let mut local = [1u32, 2, 3, 4];
    local[t as usize] = 5;
    let sum = far(t, to.len()) + local[to.len() as usize % 4];
    block.store(to, t, sum);
}
#[inline(never)]
fn far(a: u32, b: u32) -> u32 {
    a * 3 + b
}
";
    std::fs::write(folder.path().join("src/lib.rs"), source).expect("it can be written");
    let refused = compile(folder.path(), "bad").expect_err("it is bad");
    for said in [
        "src/lib.rs:10:5: a panic",
        "src/lib.rs:9:",
        ": a stack",
        "a call",
    ] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
}
