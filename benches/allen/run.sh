#!/bin/bash
# Allen's own UT decoder beside ours: the same events, the same machine, the same run. Needs an Allen checkout (its newest
# UT decoder, device/UT/decode_ut), clang++ and cargo. README.md says what is measured, and how.
#
#   run.sh --allen DIR [--duration S] [--rounds N] [--batch N] [--data DIR] [--json FILE]
#
# S seconds (3) are measured of each workload in each of N rounds (3); --batch: events of a batch (256). The events are 1000
# synthetic ones a format; with --data also those of a folder with v5/*.mdf and tables/. CXX may name another clang++.
# Exit code: 0 both make the same hits; 1 they do not, or something failed; 2 usage.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
usage() {
    sed -n '2,/^set/{/^#/p}' "$0" >&2
    exit 2
}
allen=""
duration=3
rounds=3
batch=256
data=""
json=""
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
    --allen) allen=$2 ;;
    --duration) duration=$2 ;;
    --rounds) rounds=$2 ;;
    --batch) batch=$2 ;;
    --data) data=$2 ;;
    --json) json=$2 ;;
    *) usage ;;
    esac
    shift 2
done
[ -n "$allen" ] && [[ $rounds =~ ^[1-9][0-9]*$ && $batch =~ ^[1-9][0-9]*$ && $duration =~ ^[0-9]*\.?[0-9]+$ ]] || usage
[ -n "$json" ] && json=$(realpath "$json")
[ -n "$data" ] && data=$(realpath "$data")
sources=$allen/device/UT/decode_ut/src
if [ ! -d "$sources" ]; then
    echo "run.sh: $sources is not there: DIR must be an Allen checkout of 2025 or later" >&2
    exit 1
fi
allen=$(realpath "$allen")
sources=$allen/device/UT/decode_ut/src
cxx=${CXX:-clang++}
command -v "$cxx" >/dev/null || { echo "run.sh: no $cxx: Allen's CPU target is built with clang" >&2 && exit 1; }

cd "$here/../.."
cargo build --release -p ut-decoding-c -p ut-decoding
release=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Allen's flags, and the same without fused multiply-adds, which round differently: only then can bits be compared.
includes=(-I "$here/shims" -I "$here" -I capi/include)
for folder in main/include device/event_model/UT/include device/UT/decode_ut/include device/utils/prefix_sum/include \
    device/utils/sorting/include; do
    includes+=(-I "$allen/$folder")
done
flags=(-std=c++20 -O3 -march=native -DNDEBUG -DTARGET_DEVICE_CPU "${includes[@]}")
for program in fused exact; do
    contract=()
    [ $program = exact ] && contract=(-ffp-contract=off)
    objects=()
    for source in GetBankOffsets GetHitOffsets PredecodeHits HitClustering DecodeClusters; do
        "$cxx" "${flags[@]}" "${contract[@]}" -x c++ -c "$sources/UTDecoding$source.cu" -o "$work/$source.$program.o"
        objects+=("$work/$source.$program.o")
    done
    "$cxx" "${flags[@]}" "${contract[@]}" -Wall -Wextra "$here/beside.cpp" "${objects[@]}" "$release/libut_decoding_c.a" \
        -lpthread -ldl -lm -o "$work/$program"
done

# A workload is its name, boards, geometry, events and options.
workloads=()
for format in v5 v4; do
    "$release/ut-decode" generate --format $format --events 1000 --output "$work/$format" >/dev/null
    workloads+=("synthetic-$format $work/$format/boards.bin $work/$format/geometry.bin $work/$format/events.mdf")
    [ $format = v5 ] && workloads+=("${workloads[-1]/-v5/-v5-unclustered} --no-clustering")
done
if [ -n "$data" ]; then
    tables=$data/tables
    for file in "$data"/v5/*.mdf; do
        workloads+=("real-v5 $tables/ut_boards_v5_216.bin $tables/ut_geometry_sim10.bin $file")
    done
fi

# The numbers behind "median" and "max" (or "best") of an object of a JSON file.
spread() { tr -d ' \n' <"$1" | sed -n "s/.*\"$2\":{[^}]*\"$3\":\([0-9.e+]*\).*/\1/p"; }
middle() { sort -g | awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'; }
highest() { sort -g | tail -n 1; }

load_before=$(cut -d' ' -f1-3 /proc/loadavg)
status=0
for ((round = 1; round <= rounds; ++round)); do
    for workload in "${workloads[@]}"; do
        read -r name boards geometry mdf options <<<"$workload"
        run=$work/$name.$round
        for program in fused exact; do
            # shellcheck disable=SC2086 # options are words
            "$work/$program" "$boards" "$geometry" "$mdf" --batch "$batch" --duration "$duration" $options \
                --json "$run.$program.json" >"$run.$program.txt"
        done
        flip=$(tr -d ' \n' <"$run.exact.json" | sed -n 's/.*"flip":\([0-9]*\).*/\1/p')
        # shellcheck disable=SC2086
        "$release/ut-decode" throughput "$mdf" --boards "$boards" --geometry "$geometry" --threads 1 --batch "$batch" \
            --duration "$duration" --flip "$flip" $options --json "$run.throughput.json" >/dev/null
        if [ $round = 1 ]; then
            echo "== $name, compiled as Allen is"
            cat "$run.fused.txt"
            echo "== $name, without fused multiply-adds"
            cat "$run.exact.txt"
            grep -q '"agreed": true' "$run.exact.json" || { echo "run.sh: $name: not the same hits" >&2 && status=1; }
        fi
    done
done

machine=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
printf '\n%s, %s, %s rounds of %s s, load %s before and %s after\n' "$machine" "$("$cxx" --version | head -n 1)" "$rounds" \
    "$duration" "$load_before" "$(cut -d' ' -f1-3 /proc/loadavg)"
printf 'Events a second of CPU time, one thread; throughput: by the clock. Medians of %s rounds, and the best turn.\nThe ratio is the median of the turns, each with the turn before it; then that of the best.\n' "$rounds"
row='%-24s%9s%9s%9s%9s%7s%7s%11s%11s\n'
# shellcheck disable=SC2059 # the format is above
printf "$row" workload Allen best ours best ratio best throughput best
for workload in "${workloads[@]}"; do
    name=${workload%% *}
    numbers=()
    ratio=$(for file in "$work/$name".*.fused.json; do spread "$file" ratio_of_cpu_time median_of_turns; done | middle)
    for who in fused.allen fused.ours; do
        for of in median best; do
            all=$(for file in "$work/$name".*."${who%.*}.json"; do spread "$file" "${who#*.}\":{\"events_per_cpu_second" $of; done)
            [ $of = median ] && numbers+=("$(middle <<<"$all")") || numbers+=("$(highest <<<"$all")")
        done
    done
    all=$(for file in "$work/$name".*.throughput.json; do spread "$file" events_per_second median; done)
    numbers+=("$(middle <<<"$all")")
    all=$(for file in "$work/$name".*.throughput.json; do spread "$file" events_per_second max; done)
    numbers+=("$(highest <<<"$all")")
    awk -v name="$name" -v n="${numbers[*]}" -v ratio="$ratio" -v row="$row" 'BEGIN {
        split(n, x, " ")
        printf row, name, sprintf("%.0f", x[1]), sprintf("%.0f", x[2]), sprintf("%.0f", x[3]), sprintf("%.0f", x[4]),
            sprintf("%.2f", ratio), sprintf("%.2f", x[4] / x[2]), sprintf("%.0f", x[5]), sprintf("%.0f", x[6])
    }'
done
if [ -n "$json" ]; then
    {
        printf '{\n"machine": "%s",\n"compiler": "%s",\n"load_before": "%s",\n"load_after": "%s",\n"workloads": {' "$machine" \
            "$("$cxx" --version | head -n 1)" "$load_before" "$(cut -d' ' -f1-3 /proc/loadavg)"
        separator=
        for workload in "${workloads[@]}"; do
            name=${workload%% *}
            printf '%s\n"%s": [' "$separator" "$name"
            separator=,
            between=
            for ((round = 1; round <= rounds; ++round)); do
                printf '%s{"as_allen": %s, "without_fused": %s, "throughput": %s}' "$between" \
                    "$(cat "$work/$name.$round.fused.json")" "$(cat "$work/$name.$round.exact.json")" \
                    "$(cat "$work/$name.$round.throughput.json")"
                between=,
            done
            printf ']'
        done
        printf '\n}\n}\n'
    } >"$json"
fi
exit $status
