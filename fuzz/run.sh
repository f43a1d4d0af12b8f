#!/bin/bash
# Runs fuzzing targets under libFuzzer, on stable Rust: no nightly, no cargo-fuzz.
#   fuzz/run.sh TARGET [SECONDS [OPTION…]]     60 seconds unless told otherwise; options as libFuzzer takes them
#   fuzz/run.sh all SECONDS [TARGET…]          all, or those named, one on each core until they are done; may be run again
#   fuzz/run.sh table                          what `all` has reached, as in docs/fuzzing.md
#   fuzz/run.sh build                          the program alone
#   fuzz/run.sh variants TARGET                systematic variants of the seeds, for targets that read text, store and sums;
#                                              those that reach new edges are kept
#   fuzz/run.sh minimise TARGET                the kept inputs, as few as give the same edges, into fixtures/fuzz
# Don't run `variants` or `minimise` on a target while it is being fuzzed: libFuzzer deletes inputs that it has shortened, and a
# merge that misses one retries forever.
# Needs a C++ compiler. What it finds is in FOLDER/corpus/TARGET; what panics is written to FOLDER/crashes: FOLDER is
# fuzz, or what FUZZ_STATE says. FUZZ_PROGRAM is a program that `build` has made, which then is not built again.
set -euo pipefail
cd "$(dirname "$0")/.."
how=
if [[ ${1-} == minimise || ${1-} == variants ]]; then how=$1; shift; fi
target=${1:?which target: see fuzz/src/lib.rs}
seconds=${2:-60}
state=${FUZZ_STATE:-fuzz}
[[ $target != table ]] || exec python3 fuzz/rotate.py table
program=${FUZZ_PROGRAM-}
if [[ -z $program ]]; then
    # The profile of tests has overflow checks and debug assertions, and its dependencies are built already. Our own packages
    # are optimised besides, and instrumented by instrument.sh.
    CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=1 RUSTC_WORKSPACE_WRAPPER=$PWD/fuzz/instrument.sh \
        cargo build --quiet -p ut-fuzz --features libfuzzer
    program=${CARGO_TARGET_DIR:-target}/debug/fuzz
fi
[[ $target != build ]] || exit 0
[[ $target != all ]] || exec python3 fuzz/rotate.py run "$program" "$seconds" "${@:3}"
# libFuzzer takes an end of the program for a failure.
[[ -d $state/corpus/$target ]] || FUZZ_SEEDS=$state/corpus "$program" -exact_artifact_path=/dev/null >/dev/null 2>&1 || true
mkdir -p "$state/corpus/$target" "$state/crashes" "fixtures/fuzz/$target"
export FUZZ_TARGET=$target
common=(-max_len=4096 -timeout=20 -rss_limit_mb=2048 "-artifact_prefix=$state/crashes/$target-")
if [[ -n $how ]]; then
    new=$(mktemp -d)
    trap 'rm -rf "$new"' EXIT
fi
if [[ $how == variants ]]; then
    case $target in
        store) python3 fuzz/changes.py "$new" store "$state/corpus/store.db" ;;
        sums) python3 fuzz/changes.py "$new" sums "$state/corpus/sums.json" ;;
        *) python3 fuzz/variants.py "$new" "$state/corpus/$target"/seed-* ;;
    esac
    "$program" -merge=1 "${common[@]}" "$state/corpus/$target" "fixtures/fuzz/$target" "$new"
elif [[ $how == minimise ]]; then
    # One input for each edge, however often that is run.
    "$program" -set_cover_merge=1 -use_counters=0 "${common[@]}" "$new" "$state/corpus/$target" "fixtures/fuzz/$target"
    rm -rf "fixtures/fuzz/$target" && mv "$new" "fixtures/fuzz/$target" && chmod 755 "fixtures/fuzz/$target"
else
    # Some targets take the same bytes: each starts from what the other found, too.
    case $target in
        *-emulated) kin=("fixtures/fuzz/${target%-emulated}") ;;
        banks | batch) kin=("fixtures/fuzz/$target-emulated") ;;
        file) kin=(fixtures/fuzz/mdf fixtures/fuzz/packets) ;;
        import) kin=(fixtures/fuzz/recording) ;;
        *) kin=() ;;
    esac
    # Keywords of text formats: the fuzzer would hardly ever guess them.
    words=fuzz/words/$target.dict
    [[ -f $words ]] || words=
    exec "$program" "$state/corpus/$target" "fixtures/fuzz/$target" "${kin[@]}" ${words:+"-dict=$words"} "${common[@]}" \
        -max_total_time="$seconds" -print_final_stats=1 "${@:3}"
fi
