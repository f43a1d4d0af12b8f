#!/bin/bash
# Runs a fuzzing target under libFuzzer, on stable Rust: no nightly, no cargo-fuzz.
#   fuzz/run.sh TARGET [SECONDS [OPTION…]]     60 seconds unless told otherwise; options as libFuzzer takes them
#   fuzz/run.sh build                          the program alone
#   fuzz/run.sh minimise TARGET                the kept inputs, as few as give the same edges, into fixtures/fuzz
# Needs a C++ compiler. What it finds is in fuzz/corpus/TARGET; what panics is written to fuzz/crashes.
set -euo pipefail
cd "$(dirname "$0")/.."
minimise=
if [[ ${1-} == minimise ]]; then minimise=yes; shift; fi
target=${1:?which target: see fuzz/src/lib.rs}
seconds=${2:-60}
# The profile of tests has overflow checks and debug assertions, and its dependencies are built already. Our own packages
# are optimised besides, and instrumented by instrument.sh.
CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=1 RUSTC_WORKSPACE_WRAPPER=$PWD/fuzz/instrument.sh \
    cargo build --quiet -p ut-fuzz --features libfuzzer
[[ $target != build ]] || exit 0
program=${CARGO_TARGET_DIR:-target}/debug/fuzz
[[ -d fuzz/corpus/$target ]] || FUZZ_SEEDS=fuzz/corpus "$program" -runs=0
mkdir -p "fuzz/corpus/$target" "fuzz/crashes" "fixtures/fuzz/$target"
export FUZZ_TARGET=$target
common=(-max_len=4096 -timeout=20 -rss_limit_mb=2048 "-artifact_prefix=fuzz/crashes/$target-")
if [[ -n $minimise ]]; then
    new=$(mktemp -d)
    "$program" -merge=1 "${common[@]}" "$new" "fuzz/corpus/$target" "fixtures/fuzz/$target"
    rm -rf "fixtures/fuzz/$target" && mv "$new" "fixtures/fuzz/$target" && chmod 755 "fixtures/fuzz/$target"
else
    exec "$program" "fuzz/corpus/$target" "fixtures/fuzz/$target" "${common[@]}" -max_total_time="$seconds" \
        -print_final_stats=1 "${@:3}"
fi
