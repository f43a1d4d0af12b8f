//! The kernel on the CPU in many schedules, and its PTX on an interpreter.

use std::path::Path;

use histogram_kernel::{BINS, histogram, shared_bytes};
use ptx_machine::{Launch, Memory, Program, bytes_of};
use simt::Global;
use simt::executor::Executor;
use simt::ptx::{ARCHS, Compiler, KernelCrate, Ptxas};

const GRID: u32 = 3;
const BLOCK: (u32, u32) = (64, 1);

fn samples() -> [Vec<u8>; 5] {
    let many = (0..1000u32)
        .map(|i| (i.wrapping_mul(2654435761) >> 23) as u8)
        .collect();
    [vec![], vec![255], (0..33).collect(), vec![7; 500], many]
}

fn expected(values: &[u8]) -> Vec<u32> {
    let mut counts = vec![0; BINS as usize];
    for &value in values {
        counts[usize::from(value)] += 1;
    }
    counts
}

#[test]
fn counts_are_correct_in_every_schedule() {
    for values in samples() {
        for seed in 0..20 {
            let mut counts = vec![0; BINS as usize];
            let mut executor = Executor::new(seed);
            let (input, output) = (Global::from_slice(&values), executor.writable(&mut counts));
            let kernel = executor.launch("histogram", GRID, BLOCK, shared_bytes(), |block| {
                histogram(block, input, output);
            });
            kernel.expect("no rule is broken");
            assert_eq!(counts, expected(&values));
        }
    }
}

fn ptx(work: &Path) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let simt = folder.join("../..");
    let rebuild = "cargo run --example compile";
    let kernels = KernelCrate {
        name: "histogram_kernel",
        folder,
        dependencies: &[],
        simt: Some(&simt),
        max_registers: &[],
        rebuild,
    };
    let compiler = Compiler::find("UT_DECODE_PTX_RUSTC").expect("a compiler for PTX");
    compiler
        .compile(&kernels, "histogram", work)
        .expect("the kernel compiles")
}

#[test]
#[ignore = "needs a compiler for PTX: kernels/install-ptx-tools.sh installs it, .ci/full runs this"]
fn the_ptx_counts_the_same_on_the_interpreter() {
    let work = tempfile::tempdir().expect("a folder");
    let program = Program::new(&ptx(work.path()));
    for values in samples() {
        let mut memory = Memory::default();
        let (input, output) = (
            memory.put(&values, false),
            memory.put(&vec![0u32; BINS as usize], true),
        );
        let arguments = [
            bytes_of(&input.global::<u8>()),
            bytes_of(&output.global_mut::<u32>()),
        ];
        let launch = Launch {
            grid: GRID,
            block: BLOCK,
            shared_bytes: shared_bytes(),
            turn: 1,
            counts: false,
        };
        program.launch(&mut memory, "histogram", launch, &arguments);
        assert_eq!(memory.get::<u32>(output), expected(&values));
    }
}

#[test]
#[ignore = "needs a compiler for PTX and ptxas: kernels/install-ptx-tools.sh installs them, .ci/full runs this"]
fn the_ptx_assembles_for_every_architecture_without_spills() {
    let work = tempfile::tempdir().expect("a folder");
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/ptx-tools/bin");
    let ptxas = Ptxas::find("UT_DECODE_PTXAS", &tools).expect("ptxas");
    let text = ptx(work.path());
    for arch in ARCHS {
        let usages = ptxas
            .assemble(&text, arch, work.path())
            .expect("the PTX assembles");
        let [usage] = &usages[..] else {
            panic!("one kernel: {usages:?}")
        };
        assert_eq!(
            (usage.kernel.as_str(), usage.spill_stores, usage.stack),
            ("histogram", 0, 0),
            "{arch}"
        );
    }
}
