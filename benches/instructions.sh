#!/bin/bash
# Counts the instructions that the CPU decoder takes for an event, with AVX2, and compares them with the committed counts:
# a guard against becoming slower that does not depend on what else the machine does. Needs valgrind.
# Usage: benches/instructions.sh           exit 1 where a count is more than 2 % above or below the committed one
#        benches/instructions.sh --write   commit to the counts of this compiler
# Another compiler makes other code: then it prints NOT COMPARED.
set -euo pipefail
cd "$(dirname "$0")/.."
counts=benches/results/instructions.txt
compiler=$(rustc --version)
cargo build --release --quiet --bin ut-decode --features full
tool=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/ut-decode
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The four stages together, and the events that went through them.
count() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" \
        "$tool" throughput --untuned --threads 1 --set cpu.simd=avx2 --n-events 64 --batch 64 --duration 0.1 "$@" >/dev/null 2>"$work/err" ||
        { cat "$work/err" >&2; exit 1; }
    callgrind_annotate --tree=calling --inclusive=yes --show-percs=no --threshold=100 "$work/out" 2>/dev/null | tr -d ',' |
        sed -nE 's/^ *([0-9]+) +> .*level::avx2::(find_lanes|copy_lanes|find_clusters|make_hits) \(([0-9]+)x\).*/\2 \1 \3/p' |
        sort -u | awk '{ sum += $2 / $3; n++ } END { if (n != 4) exit 1; printf "%.0f\n", sum }' ||
        { echo "the stages are not in what valgrind says" >&2; exit 1; }
}

measured=$(
    echo "v5 $(count)"
    echo "v5-without-clustering $(count --no-clustering)"
    echo "v5-mep $(count --set layout=mep)"
    echo "v4 $(count --bank-format v4)"
)
if [ "${1:-}" = --write ]; then
    printf '# Instructions an event with AVX2; benches/instructions.sh --write\n# %s\n%s\n' "$compiler" "$measured" >"$counts"
    cat "$counts"
elif ! grep -qxF "# $compiler" "$counts"; then
    echo "$measured"
    echo "NOT COMPARED: $counts is of $(sed -n 's/^# rustc/rustc/p' "$counts"), this is $compiler"
else
    awk 'NR == FNR { if (!/^#/) committed[$1] = $2; next }
        {
            change = 100 * ($2 / committed[$1] - 1)
            worse = change > 2 || change < -2
            bad += worse
            printf "%-24s %7d, committed %7d: %+.1f %%%s\n", $1, $2, committed[$1], change, worse ? " BEYOND 2 %" : ""
        }
        END { exit bad > 0 }' "$counts" - <<<"$measured"
fi
