#!/bin/bash
# Checks the memory safety of what has unsafe code or calls C: the CPU decoder at every vector level that the CPU has, and
# under the address sanitizer also what reads files (zstd, zlib), and the tuner with its store (SQLite):
#   1. with debug assertions, which check each access that the fast path makes without bounds checks, and on guard pages:
#      behind the last byte of a batch nothing can be read;
#   2. under the address sanitizer, which sees accesses outside of each allocation. The emulated backend is left out: the
#      sanitizer does not know the stacks of its coroutines;
#   3. in Miri, where `rustup +nightly component add miri` has been done: pointer provenance and uninitialised memory,
#      at the portable level: the vector operations, and one event after another. Decoding an event takes it a minute, so
#      that the damaged ones are left to the other two.
# Usage: tests/memory-safety.sh [debug|asan|miri ...]; without arguments, all three.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- debug asan miri

for check in "$@"; do
    case $check in
        debug)
            cargo test -p ut-decoders --lib cpu::
            UT_DECODE_TEST_WITHOUT=emulated PROPTEST_CASES=40 \
                cargo test -p ut-decoding --no-default-features --features containers,cuda,emulated,report,synth --test decode -- backends::
            ;;
        asan)
            # Rustup's stable compiler has the sanitizer's runtime, and RUSTC_BOOTSTRAP lets it be used.
            export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address UT_DECODE_TEST_WITHOUT=emulated PROPTEST_CASES=40
            in_asan=(cargo test --target "$(rustc --print host-tuple)" --target-dir target/asan)
            "${in_asan[@]}" -p ut-decoding --no-default-features --features containers,cuda,emulated,report,synth --test decode -- \
                backends:: first:: parts:: into:: input:: in_place:: packets:: sections::
            "${in_asan[@]}" -p tuner --test tuner -- store:: interchange:: spaces:: replay:: --skip processes::
            unset RUSTC_BOOTSTRAP RUSTFLAGS UT_DECODE_TEST_WITHOUT PROPTEST_CASES
            ;;
        miri)
            if ! cargo +nightly miri --version >/dev/null 2>&1; then
                echo "SKIPPED: the nightly compiler has no Miri here" >&2
                continue
            fi
            # Stacked Borrows and strict provenance, the stricter of what Miri offers.
            MIRIFLAGS=-Zmiri-strict-provenance \
                cargo +nightly miri test -p ut-decoders --lib -- cpu::simd:: cpu::tests::strips_of_the_event_before
            ;;
        *)
            echo "unknown check: $check (debug, asan or miri)" >&2
            exit 2
            ;;
    esac
done
