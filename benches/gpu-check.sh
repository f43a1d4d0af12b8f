#!/bin/bash
#   tar xf gpu-check.tar.xz && gpu-check/gpu-check.sh --call 1 [RESULTS]          (then --call 2)
# The GPU check, on a machine with an NVIDIA GPU: what benches/gpu-check-build.sh packed, in two calls with time between them to
# look and to mend. Needs bash, coreutils, awk, tar, xz, glibc 2.35 and the driver; ncu, compute-sanitizer, nvidia-smi and
# PyTorch are used where they are. No cargo, no network.
#
#   gpu-check.sh [--call 1|2] [--only PART,…] [--quick] [--events N] [--budget S] [RESULTS]
#
# --call 1, 240 s: alone, real, again, sanitizer, throughput, profile, copy. --call 2, 300 s: tune, grids, batches,
# inputs, ladder, suite. What one wants most comes first; --only takes parts of either call. Every step has a limit,
# none more than what is left of --budget; what there was no time for is listed. In "alone" each pipeline decodes by itself:
# one that is wrong, hangs or fails is looked at by memcheck at once, and the rest goes on without it.
# --quick measures for seconds. --events N works on N small events, for a trial where every event takes long.
# RESULTS is a folder, by default $OUT, else gpu-check-results. It gets at most eight files of at most 16 MiB, renewed after
# every step: summary.md, everything.tar.gz, and the results that one wants to see first.
# Exit code: 0 all is well; 1 a step failed, or there was no time for it; 3 there is no GPU that the kernels run on;
# 2 usage, or what this machine lacks.
set -uo pipefail

bundle=$(cd "$(dirname "$0")" && pwd)
usage() {
    sed -n '2,/^set/{/^#/p}' "$0" >&2
    exit 2
}
parts1=alone,real,again,sanitizer,throughput,profile,copy
parts2=tune,grids,batches,inputs,ladder,suite
call=1 quick=0 only='' events='' budget=''
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 ;;
    --call) call=${2:-} && shift ;;
    --only) only=${2:-} && shift ;;
    --events) events=${2:-} && shift ;;
    --budget) budget=${2:-} && shift ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
case $call in
1) only=${only:-$parts1} budget=${budget:-240} ;;
2) only=${only:-$parts2} budget=${budget:-300} ;;
*) usage ;;
esac
[ $# -le 1 ] && [[ $events =~ ^[0-9]*$ && $budget =~ ^[0-9]+$ ]] || usage
for part in ${only//,/ }; do
    [[ ,$parts1,$parts2, == *,$part,* ]] || usage
done
tool=$bundle/ut-decode
if [ ! -x "$tool" ]; then
    echo "gpu-check: $tool is not there: run benches/gpu-check-build.sh first, and this script from what it packed" >&2
    exit 2
fi
lacks=
for program in awk tar gzip timeout; do
    command -v $program >/dev/null || lacks="$lacks $program"
done
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }') needs=$(cat "$bundle/glibc")
if [ "$(printf '%s\n' "$needs" "${glibc:-0}" | sort -V | tail -n 1)" != "${glibc:-0}" ]; then
    lacks="$lacks glibc-$needs (here is ${glibc:-another C library})"
fi
if [ -n "$lacks" ]; then
    echo "gpu-check: this machine lacks$lacks" >&2
    exit 2
fi
results=${1:-${OUT:-gpu-check-results}}
mkdir -p "$results" || exit 2
results=$(cd "$results" && pwd)
work=$(mktemp -d) || exit 2
mkdir "$work/gpu-check"
cd "$work/gpu-check" || exit 2
clocks=
trap '[ -n "$clocks" ] && kill "$clocks" 2>/dev/null; rm -rf "$work"' EXIT
export UT_DECODE_DATA=${UT_DECODE_DATA:-$bundle/data} UT_DECODE_FIXTURES=$bundle/fixtures
# What the driver compiles is kept from step to step. Nothing is taken from a store of tuned values.
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$work/compiled} UT_DECODE_TUNE_DB=$work/tune.sqlite

failed=0 skipped=0 gpu=none
printf 'step\tresult\tseconds\tcommand\n' >steps.tsv

log() { echo "gpu-check: $*" | tee -a gpu-check.log; }

# Finds a program of the toolkit, which is not always on the path.
toolkit() { command -v "$1" || command -v "/usr/local/cuda/bin/$1" || ls -d /opt/nvidia/nsight-compute/*/"$1" 2>/dev/null | tail -n 1; }

# Prints batch size, mode and median events/s of a result of throughput, a line each.
rates() {
    awk '/"batch":/ { batch = $2 + 0 } /"events_per_second": \{/ { inside = 1 }
        inside && /"median":/ { rate = $2 + 0; inside = 0 } /"mode":/ { gsub(/[",]/, "", $2); print batch, $2, rate }' "$1"
}

# How fast, against what, and what limits it: the head of the summary.
findings() {
    local pipeline name allen size mode rate other
    echo "## How fast, against what"
    echo
    echo "Events a second, median; \`allen\` is the seven kernels, the same input in the same call."
    echo
    echo "| step | events a batch | mode | events/s | times allen |"
    echo "|---|---|---|---|---|"
    for name in throughput-* batches-* inputs-*; do
        name=${name%.json}
        [ -s "$name.json" ] && [ -s "$name.log" ] || continue
        allen=${name/ranked/allen}.json
        rates "$name.json" | while read -r size mode rate; do
            other=$([ -s "$allen" ] && rates "$allen" | awk -v s="$size" -v m="$mode" '$1 == s && $2 == m { print $3 }')
            awk -v n="$name" -v s="$size" -v m="$mode" -v r="$rate" -v o="${other:-0}" 'BEGIN {
                printf "| %s | %s | %s | %.0f | %s |\n", n, s, m, r, (o > 0 ? sprintf("%.2f", r / o) : "unknown") }'
        done
    done | sort -u
    echo
    echo "## What limits it"
    echo
    echo "- memory's ceiling, a large copy on the device: $(tail -n 1 copy.log 2>/dev/null | grep GB/s || echo 'not measured')"
    for pipeline in ranked allen; do
        if [ -s limits-$pipeline.txt ]; then
            printf -- '- %s, its heaviest kernel by ncu (stalls by line in stalls-%s.csv):\n\n```\n%s\n```\n' \
                $pipeline $pipeline "$(cat limits-$pipeline.txt)"
        else
            echo "- $pipeline: no profile"
        fi
    done
    [ -s clocks.csv ] && echo "- clocks meanwhile, MHz (lowest, highest): $(awk -F, 'NR > 1 { c = $2 + 0; if (!n++ || c < low) low = c; if (c > high) high = c } END { print low, high }' clocks.csv)"
    return 0
}

# Writes the summary and the archive.
save() {
    local file table
    {
        echo "# GPU check, call $call"
        echo
        echo "- result: $1"
        echo "- GPU: $gpu"
        echo "- date: $(date -u +%Y-%m-%dT%H:%M:%SZ); commit $(cat "$bundle/commit"); $(uname -sm)"
        [ -z "$absent" ] || echo "- this machine has no:$absent"
        [ -s nvidia-smi.csv ] && printf '\n```\n%s\n```\n' "$(cat nvidia-smi.csv)"
        echo
        findings
        printf '\n## Steps\n\n| step | result | s | command |\n|---|---|---|---|\n'
        tail -n +2 steps.tsv | awk -F'\t' '{ printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 ? "`" $4 "`" : "" }'
        for table in throughput-ranked throughput-allen tune grids batches-* inputs-* ladder; do
            table=${table%.log}
            [ -s "$table.log" ] && printf '\n## %s\n\n```\n%s\n```\n' "$table" "$(cat "$table.log")"
        done
    } >summary.md
    find . -size +8M -print >large.txt
    tar -C "$work" --exclude-from=<(sed 's|^\./|gpu-check/|' large.txt) -czf "$results/everything.tar.gz" gpu-check
    cp summary.md "$results/"
    for file in throughput-ranked.json throughput-allen.json stalls-ranked.csv stalls-allen.csv ranked.ncu-rep; do
        [ -e "$file" ] && [ "$(stat -c %s "$file")" -lt 16000000 ] && cp "$file" "$results/"
    done
    [ -e tune/sweep.html ] && cp tune/sweep.html "$results/tune.html"
    return 0
}

noted() {
    local command=${4//$bundle\//}
    [[ $command == *$'\n'* ]] && command="${command%%$'\n'*}…"
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${command//|/\\|}" >>steps.tsv
}

# within S: the steps that follow have S seconds together.
until=0
within() { until=$((SECONDS + slow * $1)); }

# step NAME LIMIT COMMAND...: runs a command for at most LIMIT seconds, its output into NAME.log.
slow=${GPU_CHECK_SLOW:-$([ -z "$events" ] && echo 1 || echo 10)}
step() {
    local name=$1 limit=$2 start left status result
    shift 2
    left=$((budget - SECONDS))
    [ $until -eq 0 ] || [ $((until - SECONDS)) -ge $left ] || left=$((until - SECONDS))
    if [ $left -lt 2 ]; then
        failed=1
        noted "$name" "NOT RUN: no time left" 0 "$*"
        log "$name: not run: no time left"
        save "not finished"
        return 1
    fi
    limit=$((slow * limit))
    [ "$limit" -le $left ] || limit=$left
    start=$SECONDS
    timeout -k 2 "$limit" "$@" >"$name.log" 2>&1
    status=$?
    case $status in
    0) result=ok ;;
    124 | 137) result="FAILED: longer than $limit s" failed=1 ;;
    *) result="FAILED: exit code $status" failed=1 ;;
    esac
    noted "$name" "$result" $((SECONDS - start)) "$*"
    log "$name: $result ($((SECONDS - start)) s)$([ $status -eq 0 ] || echo "; the end of $name.log:")"
    [ $status -eq 0 ] || tail -n 5 "$name.log" | sed 's/^/    /'
    save "not finished"
    return $status
}

skip() {
    skipped=$((skipped + 1))
    noted "$1" "skipped: $2" 0 ""
    log "$1: skipped: $2"
}

finish() {
    save "$2"
    log "$2; see $results/summary.md"
    exit "$1"
}

# part NAME: is it one that is wanted? Its steps have no common limit at first.
part() {
    until=0
    [[ ,$only, == *,$1,* ]]
}

# ---- the machine
ncu=$(toolkit ncu) sanitizer=$(toolkit compute-sanitizer) smi=$(command -v nvidia-smi) absent=
python3 -c 'import torch' 2>/dev/null && torch=1 || torch=0
[ -n "$ncu" ] || absent="$absent ncu"
[ -n "$sanitizer" ] || absent="$absent compute-sanitizer"
[ -n "$smi" ] || absent="$absent nvidia-smi"
[ $torch -eq 1 ] || absent="$absent PyTorch"
{
    date -u
    uname -a
    cat "$bundle/commit" "$bundle/sha256"
    command -v lscpu >/dev/null && lscpu
    echo "no:$absent"
} >machine.txt 2>&1
if [ -n "$smi" ]; then
    timeout 10 nvidia-smi -q >nvidia-smi.txt 2>&1
    facts=name,driver_version,memory.total,ecc.mode.current,mig.mode.current,power.limit,clocks.max.sm,clocks.max.mem
    facts=$facts,pcie.link.gen.max,pcie.link.width.max,temperature.gpu
    timeout 10 nvidia-smi --query-gpu=$facts --format=csv >nvidia-smi.csv 2>&1
    # The clocks beside all that follows. Drivers before 535 know the reasons by another name.
    reasons=clocks_event_reasons.active
    timeout 10 nvidia-smi --query-gpu=$reasons --format=csv >/dev/null 2>&1 || reasons=clocks_throttle_reasons.active
    nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,temperature.gpu,power.draw,$reasons --format=csv,nounits -lms 500 \
        >clocks.csv 2>/dev/null &
    clocks=$!
fi
step version 10 "$tool" --version

# ---- inputs: many events, or few for a trial
seconds=8
[ $quick -eq 0 ] || seconds=2
many=(--n-events 10000) batch=10000 sizes=1000,10000
if [ -n "$events" ]; then
    many=(--n-events "$events" --profile pp-low) batch=$events sizes=$events
fi
measured=("${many[@]}" --backend cuda)
pipelines="ranked allen"

# decode NAME LIMIT "BACKEND OPTIONS" EVENTS BOARDS GEOMETRY MORE...: decodes into NAME.csv, run by MORE.
decode() {
    local name=$1 limit=$2 backend=$3 input=$4 boards=$5 geometry=$6
    shift 6
    # shellcheck disable=SC2086 # options are words
    step "$name" "$limit" "$@" "$tool" decode "$input" --boards "$boards" --geometry "$geometry" --backend $backend --untuned \
        --output "$name.csv"
}
# fixture NAME LIMIT "BACKEND OPTIONS" FORMAT INPUT MORE...: the same of embedded events.
fixture() {
    local at=$bundle/fixtures/$4
    decode "$1" "$2" "$3" "$at/$5" "$at/boards.bin" "$at/geometry.bin" "${@:6}"
}

# ---- each pipeline by itself; whatever was asked for, what is wrong is not measured
for format in v5 v4; do
    fixture reference-$format 10 reference $format events.mdf
done
good=
for pipeline in $pipelines; do
    within 25
    if fixture alone-$pipeline-v5 25 "cuda --pipeline $pipeline" v5 events.mdf &&
        step same-$pipeline-v5 5 cmp reference-v5.csv alone-$pipeline-v5.csv &&
        fixture alone-$pipeline-v4 25 "cuda --pipeline $pipeline" v4 events.mdf &&
        step same-$pipeline-v4 5 cmp reference-v4.csv alone-$pipeline-v4.csv; then
        good="$good $pipeline"
        continue
    fi
    until=0
    if grep -qE 'no NVIDIA driver|driver is too old|finds no GPU|of compute capability' alone-$pipeline-v5.log; then
        finish 3 "there is no GPU here that the kernels run on; nothing was checked or measured"
    fi
    if [ -n "$sanitizer" ]; then
        fixture memcheck-$pipeline 15 "cuda --pipeline $pipeline" v5 events.mdf "$sanitizer" --tool memcheck --error-exitcode 9
    else
        skip memcheck-$pipeline "compute-sanitizer is not on this machine"
    fi
    skip $pipeline "it is wrong, hangs or fails: see alone-$pipeline-v5.log, same-$pipeline-v5.log, memcheck-$pipeline.log"
done
until=0
[ -n "$good" ] || finish 1 "neither pipeline gives the reference's hits: see memcheck-*.log"
# shellcheck disable=SC2086 # one of the words
best=$(set -- $good && echo "$1")
step gpu 20 "$tool" throughput --backend cuda --pipeline "$best" --n-events 1 --batch 1 --profile pp-low --duration 0 --untuned
gpu=$(sed -n 's/^gpu  *//p' gpu.log | head -n 1)
log "GPU: ${gpu:=unknown}"

# ---- call 1
if part real; then
    if [ -d "$UT_DECODE_DATA/tables" ]; then
        within 25
        tables=$UT_DECODE_DATA/tables
        v4=("$UT_DECODE_DATA"/minibrunel/*.mdf "$tables/ut_boards_v4_240.bin" "$tables/ut_geometry_2018.bin")
        v5=("$UT_DECODE_DATA"/v5/*.mdf "$tables/ut_boards_v5_216.bin" "$tables/ut_geometry_sim10.bin")
        for grouping in y-rows unique-x; do
            for format in v5 v4; do
                declare -n input=$format
                decode real-reference-$format-$grouping 10 "reference --grouping $grouping" "${input[@]}"
                for pipeline in $good; do
                    for layout in allen mep; do
                        name=real-$pipeline-$format-$grouping-$layout
                        decode "$name" 10 "cuda --pipeline $pipeline --grouping $grouping --set layout=$layout" "${input[@]}" &&
                            step "same-$name" 5 cmp "real-reference-$format-$grouping.csv" "$name.csv"
                    done
                done
                rm -f real-*-$format-$grouping*.csv
            done
        done
    else
        skip real "UT_DECODE_DATA names no folder with real events, and the bundle has none"
    fi
fi
# The digest of the hits of many events, of one decoding after another: hundreds of blocks are in flight.
again() {
    local pipeline=$1 end=$((SECONDS + $2)) first='' n=0 digest
    while [ $n -lt 2 ] || [ $SECONDS -lt $end ]; do
        "$tool" decode many/events.mdf --boards many/boards.bin --geometry many/geometry.bin --backend cuda \
            --pipeline "$pipeline" --batch "$batch" --untuned --output again.csv || return 1
        digest=$(sha256sum <again.csv) && rm again.csv
        first=${first:-$digest} n=$((n + 1))
        if [ "$digest" != "$first" ]; then
            echo "decoding $n of the same events gave $digest, the first $first"
            return 1
        fi
    done
    echo "$n times the same hits, $first"
}
export -f again
export tool batch
if part again; then
    within 20
    step many 15 "$tool" generate "${many[@]}" --output many
    for pipeline in $good; do
        step again-$pipeline 12 bash -c "again $pipeline $((quick ? 1 : 6))"
        rm -f again.csv
    done
fi
if part sanitizer; then
    for check in memcheck racecheck initcheck; do
        if [ -z "$sanitizer" ]; then
            skip $check "compute-sanitizer is not on this machine"
        else
            for pipeline in $good; do
                [ "$pipeline" = allen ] && [ "$good" != " allen" ] ||
                    fixture $check-$pipeline 15 "cuda --pipeline $pipeline" v5 events.mdf "$sanitizer" --tool $check --error-exitcode 9
            done
        fi
    done
fi
if part throughput; then
    for pipeline in $good; do
        step throughput-$pipeline 32 "$tool" throughput "${measured[@]}" --untuned --pipeline $pipeline --batch $sizes \
            --duration $seconds --json throughput-$pipeline.json
    done
fi
if part profile; then
    for pipeline in $good; do
        if [ -z "$ncu" ]; then
            skip profile-$pipeline "ncu is not on this machine"
            continue
        fi
        # The kernel with the largest share of the time.
        kernel=$([ -s throughput-$pipeline.json ] && awk '/"kernel":/ { gsub(/[",]/, "", $2); name = $2 } /"share":/ && $2 + 0 > most { most = $2 + 0; found = name } END { print found }' throughput-$pipeline.json)
        kernel=${kernel:-$([ $pipeline = ranked ] && echo cluster || echo cluster_and_predecode)}
        step profile-$pipeline 25 "$ncu" --clock-control none --cache-control none --set full --import-source yes \
            -k "regex:^${kernel}__" -s 3 -c 1 -f -o $pipeline "$tool" throughput "${measured[@]}" --untuned --pipeline $pipeline \
            --batch "$batch" --duration 0 || continue
        "$ncu" --import $pipeline.ncu-rep --page source --csv >stalls-$pipeline.csv 2>stalls-$pipeline.log
        "$ncu" --import $pipeline.ncu-rep --page details >details-$pipeline.txt 2>&1
        grep -E '^  [a-z_0-9]+|Duration|Throughput|Hit Rate|Achieved Occupancy|Registers Per Thread|Spill|Each warp|each warp' \
            details-$pipeline.txt | head -n 40 >limits-$pipeline.txt
        # A block an event, or what fills a GPU: less is a launch of the warm-up.
        step grid-$pipeline 10 awk -v batch="$batch" '/Grid Size/ { gsub(/,/, "", $NF); grid = $NF + 0 }
            END { print "grid size " grid; exit !(grid >= batch || grid >= 512) }' details-$pipeline.txt
    done
fi
if part copy; then
    if [ $torch -eq 1 ]; then
        step copy 20 python3 -c '
import torch
a = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda"); b = torch.empty_like(a)
b.copy_(a); torch.cuda.synchronize()
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record(); [b.copy_(a) for _ in range(20)]; end.record(); torch.cuda.synchronize()
print(f"{2 * 20 * a.numel() / start.elapsed_time(end) / 1e6:.0f} GB/s read and written")'
    else
        skip copy "there is no PyTorch on this machine"
    fi
fi

# ---- call 2
# Sweeps and the ladder take their events from a file.
if { part tune || part grids || part ladder; } && [ ! -e many ]; then
    step many 15 "$tool" generate "${many[@]}" --output many
fi
# sweep NAME LIMIT MORE...: in device-resident mode unless told.
sweep() {
    local name=$1 limit=$2
    shift 2
    step "$name" "$limit" "$tool" sweep many/events.mdf --backend cuda --set batch="$batch" --rounds $((quick ? 2 : 5)) \
        --output "$name" "$@"
}
# Where the pipeline ranked is not right, nothing of it is tuned.
if part tune && [ "$best" = ranked ]; then
    if [ -n "$events" ]; then
        sweep tune 60 --axis cuda.registers=0,40 --axis ranked.carve_out=0,100
    else
        sweep tune 60 --axis cuda.registers=0,32,40,48 --axis ranked.carve_out=0,1,100
    fi
fi
if part grids && [ "$best" = ranked ]; then
    if [ -n "$events" ]; then
        sweep grids 40 --axis ranked.sort_grid=0,1 --axis ranked.make_hits_grid=0,1
    else
        sweep grids 40 --axis ranked.sort_block_x=64,256 --axis ranked.sort_grid=0,2,16 --axis ranked.make_hits_grid=0,2,16
    fi
fi
if part batches; then
    small=10,100,1000,10000,100000
    [ -z "$events" ] || small=$sizes
    step batches-$best 50 "$tool" throughput "${measured[@]}" --untuned --pipeline "$best" --batch $small \
        --duration $((seconds * 2)) --json batches-$best.json
fi
if part inputs; then
    for pipeline in $good; do
        for input in "--set layout=mep" "--bank-format v4" "--grouping unique-x"; do
            # shellcheck disable=SC2086 # options are words
            step "inputs-$pipeline-${input##*[ =]}" 12 "$tool" throughput "${measured[@]}" --untuned --pipeline $pipeline \
                --batch "$batch" $input --duration $((seconds / 2)) --json "inputs-$pipeline-${input##*[ =]}.json"
        done
    done
fi
if part ladder; then
    step ladder 45 "$tool" ablation many/events.mdf --backend cuda --set batch="$batch" --duration $((seconds * 3)) --json ladder.json
fi
if part suite; then
    # That generate makes the same files again needs the tool where it was built; the emulated kernels need minutes.
    for suite in "$bundle"/tests/*; do
        UT_DECODE_TEST_WITHOUT=${UT_DECODE_TEST_WITHOUT:-emulated} step "suite-$(basename "$suite")" 60 "$suite" backends:: \
            fixtures:: --test-threads 4 --nocapture --include-ignored --skip generate_makes --skip real_
    done
fi

result="all steps are well"
[ $failed -eq 0 ] || result="some steps failed, or were not run: $(awk -F'\t' '$2 ~ /^(FAILED|NOT)/ { printf "%s%s", n++ ? ", " : "", $1 }' steps.tsv)"
[ $skipped -eq 0 ] || result="$result; $skipped were skipped"
finish $failed "$result"
