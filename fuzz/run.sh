#!/bin/bash
# Runs fuzzing targets under libFuzzer, on stable Rust: no nightly, no cargo-fuzz. Needs a C++ compiler.
#   fuzz/run.sh TARGET [SECONDS [OPTION…]]   60 seconds unless told otherwise; options as libFuzzer takes them
#   fuzz/run.sh all [SECONDS]                every target, as many at a time as there are cores
#   fuzz/run.sh minimise TARGET              writes the fewest inputs that reach the same edges to fuzz/corpus/TARGET.min
# What it finds is in fuzz/corpus/TARGET; inputs that panic are in fuzz/crashes, and make it fail.
set -euo pipefail
cd "$(dirname "$0")/.."
minimise=
[[ ${1-} != minimise ]] || { minimise=yes && shift; }
target=${1:?which target: see fuzz/src/lib.rs}
seconds=${2:-60}
# The profile of tests: overflow checks, debug assertions, and the dependencies are built already. Our own packages are built
# once more, instrumented by instrument.sh.
CARGO_INCREMENTAL=0 RUSTC_WORKSPACE_WRAPPER=$PWD/fuzz/instrument.sh cargo build --bin fuzz --features ut-fuzz/libfuzzer
program=${CARGO_TARGET_DIR:-target}/debug/fuzz
fuzz() {
    local name=$1
    shift
    mkdir -p "fuzz/corpus/$name" fuzz/crashes
    FUZZ_TARGET=$name "$program" -max_len=4096 -timeout=20 -rss_limit_mb=2048 "-artifact_prefix=fuzz/crashes/$name-" "$@"
}
if [[ -n $minimise ]]; then
    mkdir -p "fuzz/corpus/$target.min"
    fuzz "$target" -set_cover_merge=1 -use_counters=0 "fuzz/corpus/$target.min" "fuzz/corpus/$target" "fixtures/fuzz/$target"
elif [[ $target == all ]]; then
    export -f fuzz
    export program seconds
    # shellcheck disable=SC2016 # the inner shell expands
    ls fixtures/fuzz | xargs -P "$(nproc)" -I '{}' bash -ec \
        'fuzz "$1" "fuzz/corpus/$1" "fixtures/fuzz/$1" -max_total_time="$seconds" -print_final_stats=1' _ '{}'
else
    fuzz "$target" "fuzz/corpus/$target" "fixtures/fuzz/$target" -max_total_time="$seconds" -print_final_stats=1 "${@:3}"
fi
