#!/bin/bash
# The GPU check: on a machine with an NVIDIA GPU, from a folder that benches/gpu-check-build.sh filled. Needs bash,
# coreutils, awk, tar and the driver; no cargo, no network, no toolkit (compute-sanitizer is used where it is found).
#
#   gpu-check.sh [--quick] [--only PART,…] [--events N] [--budget S] [RESULTS]
#
# Parts, in this order, what one wants most first: suite, throughput, pipelines, graphs, ablation, sweep, sanitizer;
# without --only all of them. It ends within --budget seconds (540 unless told): every step has a limit, none more than
# what is left, and what there is no time for is listed. --quick measures for seconds. --events N measures N small events
# only, for a trial where every event takes long. RESULTS is a folder, by default $OUT, else gpu-check-results. It gets at
# most eight files, renewed after every step: summary.md, everything.tar.gz, and the results that one wants to see first.
# A step that fails is noted, and the next one begins.
# Exit code: 0 all is well; 1 a step failed, or there was no time for it; 3 there is no GPU that the kernels run on;
# 2 usage.
# UT_DECODE_DATA may name a folder with real events and tables for the suite; without it those tests say that they skip.
set -uo pipefail

bundle=$(cd "$(dirname "$0")" && pwd)
usage() {
    sed -n '2,/^set/{/^#/p}' "$0" >&2
    exit 2
}
parts=suite,throughput,pipelines,graphs,ablation,sweep,sanitizer
quick=0 only=$parts events='' budget=540
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 ;;
    --only) only=${2:-} && shift ;;
    --events) events=${2:-} && shift ;;
    --budget) budget=${2:-} && shift ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
[ $# -le 1 ] && [ -n "$only" ] && [[ $events =~ ^[0-9]*$ && $budget =~ ^[0-9]+$ ]] || usage
for part in ${only//,/ }; do
    [[ ,$parts, == *,$part,* ]] || usage
done
results=${1:-${OUT:-gpu-check-results}}
tool=$bundle/ut-decode
if [ ! -x "$tool" ]; then
    echo "gpu-check: $tool is not there: run benches/gpu-check-build.sh first, and this script from its folder" >&2
    exit 2
fi
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

# Writes the summary and the archive.
save() {
    {
        echo "# GPU check"
        echo
        echo "- date: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
        echo "- commit: $(cat "$bundle/commit" 2>/dev/null || echo unknown)"
        echo "- GPU: $gpu"
        echo "- host: $(uname -srm)"
        echo "- result: $1"
        if [ -s nvidia-smi.csv ]; then
            printf '\n```\n%s\n```\n' "$(cat nvidia-smi.csv)"
        fi
        echo
        echo "| step | result | s | command |"
        echo "|---|---|---|---|"
        tail -n +2 steps.tsv | awk -F'\t' '{ printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 ? "`" $4 "`" : "" }'
        local table
        for table in throughput-fused throughput-allen latency-fused latency-allen pipelines-*.log graphs graphs-fused \
            ablation; do
            table=${table%.log}
            [ -s "$table.log" ] && printf '\n%s\n\n```\n%s\n```\n' "$table" "$(cat "$table.log")"
        done
    } >summary.md
    tar -C "$work" -czf "$results/everything.tar.gz" gpu-check
    local file
    for file in summary.md throughput-fused.json throughput-allen.json pipelines.json ablation.json; do
        [ -e "$file" ] && cp "$file" "$results/"
    done
    [ -e graphs/sweep.json ] && cp graphs/sweep.json "$results/graphs.json"
    [ -e sweep-fused/sweep.html ] && cp sweep-fused/sweep.html "$results/sweep-fused.html"
    return 0
}

noted() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${4//$bundle\//}" >>steps.tsv; }

# step NAME LIMIT COMMAND...: runs a command for at most LIMIT seconds, its output into NAME.log. Exit codes in $fine
# are well.
fine=0 slow=1
step() {
    local name=$1 limit=$2 start left status result
    shift 2
    left=$((budget - SECONDS))
    if [ $left -lt 5 ]; then
        failed=1
        noted "$name" "NOT RUN: no time left" 0 "$*"
        log "$name: not run: no time left"
        save "not finished"
        return 1
    fi
    limit=$((slow * limit))
    [ "$limit" -le $left ] || limit=$left
    start=$SECONDS
    timeout -k 5 "$limit" "$@" >"$name.log" 2>&1
    status=$?
    case " $fine " in
    *" $status "*) result=ok status=0 ;;
    *) result="FAILED: exit code $status" failed=1 ;;
    esac
    [ $status -eq 124 ] || [ $status -eq 137 ] && result="FAILED: longer than $limit s"
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

part() { [[ ,$only, == *,$1,* ]]; }

# ---- the machine
{
    date -u
    uname -a
    echo "commit $(cat "$bundle/commit" 2>/dev/null || echo unknown)"
    cat "$bundle/sha256" 2>/dev/null
    command -v lscpu >/dev/null && lscpu
} >machine.txt 2>&1
if command -v nvidia-smi >/dev/null; then
    timeout 20 nvidia-smi -q >nvidia-smi.txt 2>&1
    timeout 20 nvidia-smi topo -m >topology.txt 2>&1
    facts=name,driver_version,vbios_version,memory.total,ecc.mode.current,mig.mode.current,power.limit,clocks.max.sm
    facts=$facts,clocks.max.mem,clocks.applications.graphics,pcie.link.gen.max,pcie.link.width.max,temperature.gpu
    timeout 20 nvidia-smi --query-gpu=$facts --format=csv >nvidia-smi.csv 2>&1
    # The clocks beside all that follows.
    nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_throttle_reasons.active \
        --format=csv -lms 500 >clocks.csv 2>/dev/null &
    clocks=$!
fi
step version 60 "$tool" --version

# ---- a single event, to see whether the kernels run at all
if ! step probe 120 "$tool" throughput --backend cuda --threads 1 --events 1 --batch 1 --profile pp-low --duration 0 \
    --json probe.json; then
    finish 3 "there is no GPU here that the kernels run on; nothing was checked or measured"
fi
gpu=$(sed -n 's/^gpu  *//p' probe.log | head -n 1)
log "GPU: $gpu"

# ---- the same bits
# decode NAME "BACKEND OPTIONS" FORMAT INPUT MORE...: decodes a fixture into NAME.csv, run by MORE.
decode() {
    local name=$1 backend=$2 fixture=$bundle/fixtures/$3 input=$4
    shift 4
    # shellcheck disable=SC2086 # options are words
    step "$name" 60 "$@" "$tool" decode "$fixture/$input" --boards "$fixture/boards.bin" \
        --geometry "$fixture/geometry.bin" --backend $backend --untuned --output "$name.csv"
}
if part suite; then
    for format in v4 v5; do
        decode "reference-$format" reference $format events.mdf
        for pipeline in fused allen; do
            decode "$pipeline-$format" "cuda --pipeline $pipeline" $format events.mdf
            step "same-bits-$pipeline-$format" 60 cmp "reference-$format.csv" "$pipeline-$format.csv"
        done
    done
    # That generate makes the same files again needs the tool where it was built; the emulated kernels need minutes.
    for suite in "$bundle"/tests/*; do
        UT_DECODE_TEST_WITHOUT=${UT_DECODE_TEST_WITHOUT:-emulated} \
            step "suite-$(basename "$suite")" 150 "$suite" backends:: fixtures:: --test-threads 4 --nocapture --include-ignored --skip generate_makes --skip real_
    done
fi

# ---- the measurements
seconds=20 rounds=6
[ $quick -eq 0 ] || seconds=3 rounds=2
# Large batches of enough events that they do not fit into the GPU's cache; small ones of the usual thousand.
sample=() many=(--events 10000) batch=1000 large=1000,10000 small=1,10,100 input=()
if [ -n "$events" ]; then
    # Where every event takes long, so does every step.
    slow=10
    sample=(--events "$events" --profile pp-low) many=("${sample[@]}") batch=$events large=$events small=1
    step generate 60 "$tool" generate --events "$events" --profile pp-low --output small
    input=(small/events.mdf --boards small/boards.bin --geometry small/geometry.bin)
fi
measured=("${sample[@]}" --backend cuda)
sizes=$(printf '%s\n' ${small//,/ } ${large//,/ } | sort -nu)
if part throughput; then
    for pipeline in fused allen; do
        step throughput-$pipeline 75 "$tool" throughput "${many[@]}" --backend cuda --pipeline $pipeline --batch $large \
            --duration $seconds --json throughput-$pipeline.json
    done
    for pipeline in fused allen; do
        step latency-$pipeline 60 "$tool" throughput "${measured[@]}" --pipeline $pipeline --batch $small \
            --duration $((seconds * 2 / 3)) --json latency-$pipeline.json
    done
    other=(--duration $((seconds / 3)))
    step throughput-fused-mep 45 "$tool" throughput "${measured[@]}" --pipeline fused --batch "$batch" --layout mep \
        "${other[@]}" --json throughput-fused-mep.json
    step throughput-fused-v4 45 "$tool" throughput "${measured[@]}" --pipeline fused --batch "$batch" --format v4 \
        "${other[@]}" --json throughput-fused-v4.json
    step throughput-cpu 45 "$tool" throughput "${sample[@]}" --backend cpu "${other[@]}" --json throughput-cpu.json
fi
# Both pipelines in one process, in turn: the change, with its interval. Whichever is faster, it is a result.
if part pipelines; then
    looks=(--looks 10,20,40)
    [ $quick -eq 0 ] || looks=(--looks 4 --rounds 2)
    for size in $sizes; do
        fine="0 3 4" step "pipelines-$size" 30 "$tool" compare --backend cuda "pipeline=allen,batch=$size" \
            "pipeline=fused,batch=$size" "${input[@]}" "${looks[@]}" --json "pipelines-$size.json"
    done
    # One file, by batch size.
    {
        echo '{'
        comma=
        for size in $sizes; do
            [ -s "pipelines-$size.json" ] || continue
            printf '%s"%s": ' "$comma" "$size"
            cat "pipelines-$size.json"
            comma=,
        done
        echo '}'
    } >pipelines.json
fi
# sweep NAME MORE...: in device-resident mode unless told.
sweep() {
    local name=$1
    shift
    step "$name" 60 "$tool" sweep "${measured[@]}" --set batch="$batch" --rounds $rounds --output "$name" "$@"
}
# Launch by launch, and as graphs: where launches dominate.
if part graphs; then
    sweep graphs --axis pipeline=fused,allen --axis cuda.graph=0,1 --axis batch=$small,$batch
    step graphs-fused 60 "$tool" throughput "${measured[@]}" --pipeline fused --set cuda.graph=1 --batch $small \
        --duration $((seconds * 2 / 3)) --json graphs-fused.json
fi
if part ablation; then
    step ablation 90 "$tool" ablation "${measured[@]}" --set batch="$batch" --duration $((seconds * 3 / 2)) --json ablation.json
fi
if part sweep; then
    if [ -n "$events" ]; then
        sweep sweep-fused --set pipeline=fused --axis fused.block_x=128,256
        sweep sweep-cluster --axis cluster.block_x=16,32 --axis cluster.block_y=1,2
    else
        sweep sweep-fused --set pipeline=fused --axis fused.block_x=64,128,192,256,384,512 --axis fused.strips=2048,2400,3264
        sweep sweep-streams --set pipeline=fused --mode end-to-end --axis 'batch[pow2]=8:12:2' --axis streams=1,2,4,8
        sweep sweep-cluster --axis cluster.block_x=32,64,128 --axis cluster.block_y=1,2,4,8
        sweep sweep-sort --axis sort.block_x=64,128,256 --axis sort.run=64,128,256
    fi
fi

# ---- the sanitizer, with what time is left
if part sanitizer; then
    sanitizer=
    for candidate in compute-sanitizer /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda*/bin/compute-sanitizer; do
        found=$(command -v "$candidate") && sanitizer=$found && break
    done
    for check in memcheck racecheck synccheck initcheck; do
        if [ -z "$sanitizer" ]; then
            skip $check "compute-sanitizer is not on this machine"
            continue
        fi
        for pipeline in fused allen; do
            checked=("$sanitizer" --tool $check --error-exitcode 9)
            decode "$check-$pipeline-v5" "cuda --pipeline $pipeline" v5 events.mdf "${checked[@]}"
            decode "$check-$pipeline-v4" "cuda --pipeline $pipeline" v4 events.mdf "${checked[@]}"
            decode "$check-$pipeline-troubles" "cuda --pipeline $pipeline" v5 troubles.mdf "${checked[@]}"
        done
    done
fi

result="all steps are well"
[ $failed -eq 0 ] || result="some steps failed, or were not run: $(awk -F'\t' '$2 ~ /^(FAILED|NOT)/ { printf "%s%s", n++ ? ", " : "", $1 }' steps.tsv)"
[ $skipped -eq 0 ] || result="$result; $skipped were skipped"
finish $failed "$result"
