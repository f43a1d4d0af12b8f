#!/bin/bash
# The GPU check: on a machine with an NVIDIA GPU, from a folder that benches/gpu-check-build.sh filled. Needs bash,
# coreutils and the driver; no cargo, no network, no toolkit (compute-sanitizer is used where it is found).
#
#   gpu-check.sh [--quick] [RESULTS]         (default: results-<date> in the current folder)
#
# Leaves everything in RESULTS, which summary.md explains, and RESULTS.tar.gz of it.
# Exit code: 0 all is well; 1 a step failed; 3 no GPU; 4 the tool has no cuda backend; 2 usage.
# UT_DECODE_DATA may name a folder with real events and tables for the suite; without it those tests say that they skip.
set -uo pipefail

bundle=$(cd "$(dirname "$0")" && pwd)
quick=0
if [ "${1:-}" = --quick ]; then
    quick=1
    shift
fi
if [ $# -gt 1 ] || [[ ${1:-} == -* ]]; then
    sed -n '2,/^set/{/^#/p}' "$0" >&2
    exit 2
fi
results=${1:-results-$(date -u +%Y%m%dT%H%M%SZ)}
tool=$bundle/ut-decode
if [ ! -x "$tool" ]; then
    echo "gpu-check: $tool is not there: run benches/gpu-check-build.sh first, and this script from its folder" >&2
    exit 2
fi
mkdir -p "$results" || exit 2
results=$(cd "$results" && pwd)
cd "$results" || exit 2
export UT_DECODE_DATA=${UT_DECODE_DATA:-$bundle/data}

log() { echo "gpu-check: $*" | tee -a gpu-check.log; }

failed=0
printf 'step\tstatus\tseconds\tcommand\n' >steps.tsv

# step NAME LIMIT COMMAND...: runs a command for LIMIT seconds at the most, its output into NAME.log.
step() {
    local name=$1 limit=$2 start status
    shift 2
    start=$SECONDS
    timeout "$limit" "$@" >"$name.log" 2>&1
    status=$?
    printf '%s\t%s\t%s\t%s\n' "$name" "$status" $((SECONDS - start)) "$*" >>steps.tsv
    if [ $status -eq 0 ]; then
        log "ok      $name ($((SECONDS - start)) s)"
    else
        log "FAILED  $name: exit code $status$([ $status -eq 124 ] && echo ", longer than $limit s"); see $name.log"
        failed=1
    fi
    return $status
}

summary() {
    {
        echo "# GPU check"
        echo
        echo "- date: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
        echo "- commit: $(cat "$bundle/commit" 2>/dev/null || echo unknown)"
        echo "- GPU: ${gpu:-none}"
        echo "- host: $(uname -srm)"
        echo "- result: $1"
        echo
        echo "| step | exit code | s | command |"
        echo "|---|---|---|---|"
        tail -n +2 steps.tsv | awk -F'\t' '{ printf "| %s | %s | %s | `%s` |\n", $1, $2, $3, $4 }'
        echo
        echo "Tests that were skipped, for want of data:"
        echo
        cat ./suite-*.log 2>/dev/null | grep -h SKIPPED | sort | uniq -c | sed 's/^/- /' || true
    } >summary.md
    tar -C "$(dirname "$results")" -czf "$results.tar.gz" "$(basename "$results")"
    log "$1; everything is in $results and $results.tar.gz"
}

finish() {
    summary "$2"
    exit "$1"
}

# ---- the machine
{
    date -u
    uname -a
    echo "commit $(cat "$bundle/commit" 2>/dev/null || echo unknown)"
    cat "$bundle/sha256" 2>/dev/null
    command -v lscpu >/dev/null && lscpu
} >machine.txt 2>&1
gpu=
if command -v nvidia-smi >/dev/null; then
    nvidia-smi -q >nvidia-smi.txt 2>&1
    gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap,clocks.max.sm,clocks.max.mem,memory.total,pcie.link.gen.max,pcie.link.width.max \
        --format=csv,noheader 2>/dev/null | head -n 1)
fi

# ---- what needs no GPU, so that a log from anywhere says something
step version 60 "$tool" --version
step ablation-emulated 300 "$tool" ablation --backend emulated --json ablation-emulated.json
for format in v4 v5; do
    fixture=$bundle/fixtures/$format
    step "reference-$format" 60 "$tool" decode "$fixture/events.mdf" --boards "$fixture/boards.bin" \
        --geometry "$fixture/geometry.bin" --backend reference --output "reference-$format.csv"
done
if [ -z "$gpu" ]; then
    log "there is no NVIDIA GPU here (nvidia-smi finds none): nothing of the GPU was checked or measured"
    finish 3 "no GPU"
fi
log "GPU: $gpu"
if ! "$tool" throughput --help | grep -qw cuda; then
    log "this tool has no cuda backend: nothing of the GPU was checked or measured"
    finish 4 "no cuda backend in this tool"
fi

# ---- the same bits
for suite in "$bundle"/tests/*; do
    step "suite-$(basename "$suite")" 600 "$suite" --test-threads 4 --nocapture
done
decode() { # NAME FORMAT INPUT MORE...
    local name=$1 fixture=$bundle/fixtures/$2 input=$3
    shift 3
    step "$name" 300 "$@" "$tool" decode "$fixture/$input" --boards "$fixture/boards.bin" \
        --geometry "$fixture/geometry.bin" --backend cuda --output "$name.csv"
}
for format in v4 v5; do
    decode "cuda-$format" $format events.mdf && step "same-bits-$format" 60 cmp "reference-$format.csv" "cuda-$format.csv"
done

# ---- the sanitizer
sanitizer=
for candidate in compute-sanitizer /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda*/bin/compute-sanitizer; do
    found=$(command -v "$candidate") && sanitizer=$found && break
done
if [ -z "$sanitizer" ]; then
    log "compute-sanitizer is not there: memcheck, racecheck, synccheck and initcheck were NOT run"
    printf 'sanitizer\tskipped\t0\tcompute-sanitizer is not on this machine\n' >>steps.tsv
else
    for check in memcheck racecheck synccheck initcheck; do
        for format in v4 v5; do
            decode "$check-$format" $format events.mdf "$sanitizer" --tool $check --error-exitcode 9
        done
        decode "$check-troubles" v5 troubles.mdf "$sanitizer" --tool $check --error-exitcode 9
    done
fi

# ---- the measurements, with the clocks beside them
nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_throttle_reasons.active \
    --format=csv -lms 500 >clocks.csv 2>/dev/null &
clocks=$!
trap 'kill $clocks 2>/dev/null' EXIT
seconds=10
[ $quick -eq 1 ] && seconds=2
for batch in 256 1000 4000; do
    step "throughput-$batch" 300 "$tool" throughput --backend cuda --batch $batch --duration $seconds \
        --json "throughput-$batch.json"
done
step throughput-cpu 300 "$tool" throughput --backend cpu --duration $seconds --json throughput-cpu.json
step ablation 600 "$tool" ablation --backend cuda --duration $((3 * seconds)) --json ablation.json
blocks="cluster.block_x=32,64"
[ $quick -eq 0 ] && blocks="cluster.block_x=32,64,128"
step sweep-cluster 900 "$tool" sweep --backend cuda --axis $blocks --axis cluster.block_y=1,2,4,8 --output sweep-cluster
step sweep-count 900 "$tool" sweep --backend cuda --axis count.block_x=64,128,256 --axis count.bins=8,16 --output sweep-count
step sweep-batch 900 "$tool" sweep --backend cuda --axis 'batch[pow2]=6:12:2' --output sweep-batch
kill $clocks 2>/dev/null

if [ $failed -eq 0 ]; then finish 0 "all steps are well"; else finish 1 "some steps failed"; fi
