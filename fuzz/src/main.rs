//! libFuzzer on the target that `FUZZ_TARGET` names. `FUZZ_SEEDS=FOLDER` writes what each target begins with, instead.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target, fuzzer_mutate};
use ut_fuzz::{TARGETS, TEXT_TARGETS, Target, seeds, text};

static TARGET: LazyLock<(&str, Target)> = LazyLock::new(|| {
    if let Some(folder) = std::env::var_os("FUZZ_SEEDS").map(PathBuf::from) {
        for (target, inputs) in seeds::all() {
            std::fs::create_dir_all(folder.join(target)).expect("a folder");
            for (i, input) in inputs.iter().enumerate() {
                std::fs::write(folder.join(target).join(format!("seed-{i}")), input).expect("a file");
            }
        }
        // An input of `store` or `sums` is a list of changes to one of these; changes.py reads them, too.
        std::fs::write(folder.join("store.db"), seeds::store()).expect("a file");
        std::fs::write(folder.join("sums.json"), seeds::sums().to_string()).expect("a file");
        std::process::exit(0);
    }
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(other, _)| *other == name);
    *found.unwrap_or_else(|| panic!("FUZZ_TARGET is one of {:?}", TARGETS.map(|(name, _)| name)))
});

static IS_TEXT: LazyLock<bool> = LazyLock::new(|| TEXT_TARGETS.contains(&TARGET.0));

fuzz_target!(|data: &[u8]| TARGET.1(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if *IS_TEXT && seed & 1 == 0 {
        let before = data[..size].to_vec();
        text::mutate(&before, &before, seed >> 1, &mut data[..max_size])
    } else {
        fuzzer_mutate(data, size, max_size)
    }
});

// 0 lets libFuzzer pick another mutation: its own crossover of bytes is among those of `fuzzer_mutate`.
fuzz_crossover!(|one: &[u8], other: &[u8], out: &mut [u8], seed: u32| {
    if *IS_TEXT { text::mutate(one, other, seed, out) } else { 0 }
});
