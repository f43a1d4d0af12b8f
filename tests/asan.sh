#!/bin/bash
# Runs the suite under the address sanitizer, with every level of vector instructions that the CPU has. Rustup's stable
# compiler will do: it has the sanitizer's runtime, and RUSTC_BOOTSTRAP lets it. Arguments go to the test program.
#
# The emulated backend is left out: the sanitizer does not know the stacks of its coroutines.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address UT_DECODE_TEST_WITHOUT=emulated
cargo test --no-default-features --features cuda,emulated,synth --target x86_64-unknown-linux-gnu --target-dir target/asan --test decode -- backends:: "$@"
