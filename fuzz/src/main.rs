//! Runs libFuzzer on the target that `FUZZ_TARGET` names.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ut_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(other, _)| *other == name);
    found
        .unwrap_or_else(|| panic!("FUZZ_TARGET is one of {:?}", TARGETS.map(|(name, _)| name)))
        .1
});

fuzz_target!(|data: &[u8]| TARGET(data));
