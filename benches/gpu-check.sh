#!/bin/bash
# The GPU check: on a machine with an NVIDIA GPU, from a folder that benches/gpu-check-build.sh filled. Needs bash,
# coreutils, awk, tar and the driver; no cargo, no network, no toolkit (compute-sanitizer is used where it is found).
#
#   gpu-check.sh [--quick] [--only PART,…] [--events N] [RESULTS]
#
# Parts: suite, sanitizer, throughput, ablation, sweep; without --only all of them. --events N measures N events only, for a
# trial where every event takes long. RESULTS is a folder, by default $OUT, else gpu-check-results. It gets at most eight
# files, renewed after every step: summary.md, everything.tar.gz, and the results that one wants to see first.
# A step that fails is noted, and the next one begins.
# Exit code: 0 all is well; 1 a step failed; 3 there is no GPU that the kernels run on; 2 usage.
# UT_DECODE_DATA may name a folder with real events and tables for the suite; without it those tests say that they skip.
set -uo pipefail

bundle=$(cd "$(dirname "$0")" && pwd)
usage() {
    sed -n '2,/^set/{/^#/p}' "$0" >&2
    exit 2
}
quick=0
only=suite,sanitizer,throughput,ablation,sweep
events=
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 ;;
    --only) only=${2:-} && shift ;;
    --events) events=${2:-} && shift ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
[ $# -le 1 ] && [ -n "$only" ] || usage
for part in ${only//,/ }; do
    case $part in suite | sanitizer | throughput | ablation | sweep) ;; *) usage ;; esac
done
[[ $events =~ ^[0-9]*$ ]] || usage
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

failed=0
gpu=none
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
        echo
        echo "| step | result | s | command |"
        echo "|---|---|---|---|"
        tail -n +2 steps.tsv | awk -F'\t' '{ printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 ? "`" $4 "`" : "" }'
        for table in throughput.log throughput-fused.log ablation.log; do
            [ -s "$table" ] && printf '\n```\n%s\n```\n' "$(cat "$table")"
        done
        if cat ./suite-*.log 2>/dev/null | grep -q SKIPPED; then
            printf '\nTests that were skipped:\n\n'
            cat ./suite-*.log | grep -h SKIPPED | sort | uniq -c | sed 's/^/- /'
        fi
    } >summary.md
    tar -C "$work" -czf "$results/everything.tar.gz" gpu-check
    local file
    for file in summary.md throughput.json throughput-fused.json batches.json batches-fused.json ablation.json; do
        [ -e "$file" ] && cp "$file" "$results/"
    done
    [ -e sweep-cluster/sweep.html ] && cp sweep-cluster/sweep.html "$results/sweep.html"
    return 0
}

# step NAME LIMIT COMMAND...: runs a command for LIMIT seconds at the most, its output into NAME.log.
step() {
    local name=$1 limit=$2 start status result
    shift 2
    start=$SECONDS
    timeout "$limit" "$@" >"$name.log" 2>&1
    status=$?
    case $status in
    0) result=ok ;;
    124) result="FAILED: longer than $limit s" ;;
    *) result="FAILED: exit code $status" ;;
    esac
    [ $status -eq 0 ] || failed=1
    printf '%s\t%s\t%s\t%s\n' "$name" "$result" $((SECONDS - start)) "${*//$bundle\//}" >>steps.tsv
    log "$name: $result ($((SECONDS - start)) s)$([ $status -eq 0 ] || echo "; the end of $name.log:")"
    [ $status -eq 0 ] || tail -n 5 "$name.log" | sed 's/^/    /'
    save "not finished"
    return $status
}

skipped=0
skip() {
    skipped=$((skipped + 1))
    printf '%s\tskipped: %s\t0\t\n' "$1" "$2" >>steps.tsv
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
command -v nvidia-smi >/dev/null && nvidia-smi -q >nvidia-smi.txt 2>&1
step version 60 "$tool" --version

# ---- a single event, to see whether the kernels run at all
if ! step probe 120 "$tool" throughput --backend cuda --threads 1 --events 1 --batch 1 --profile pp-low --duration 0 \
    --json probe.json; then
    finish 3 "there is no GPU here that the kernels run on; nothing was checked or measured"
fi
gpu=$(sed -n 's/^gpu  *//p' probe.log | head -n 1)
log "GPU: $gpu"

# ---- the same bits
decode() { # NAME "BACKEND OPTIONS" FORMAT INPUT MORE...
    local name=$1 backend=$2 fixture=$bundle/fixtures/$3 input=$4
    shift 4
    step "$name" 300 "$@" "$tool" decode "$fixture/$input" --boards "$fixture/boards.bin" \
        --geometry "$fixture/geometry.bin" --backend $backend --untuned --output "$name.csv"
}
for format in v4 v5; do
    decode "reference-$format" reference $format events.mdf
    for pipeline in allen fused; do
        decode "$pipeline-$format" "cuda --pipeline $pipeline" $format events.mdf
        step "same-bits-$pipeline-$format" 60 cmp "reference-$format.csv" "$pipeline-$format.csv"
    done
done
if part suite; then
    for suite in "$bundle"/tests/*; do
        # That generate makes the same files again needs the tool where it was built.
        step "suite-$(basename "$suite")" 600 "$suite" --test-threads 4 --nocapture --skip generate_makes
    done
fi

# ---- the sanitizer
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
        for pipeline in allen fused; do
            backend="cuda --pipeline $pipeline"
            for format in v4 v5; do
                decode "$check-$pipeline-$format" "$backend" $format events.mdf "$sanitizer" --tool $check --error-exitcode 9
            done
            decode "$check-$pipeline-troubles" "$backend" v5 troubles.mdf "$sanitizer" --tool $check --error-exitcode 9
        done
    done
fi

# ---- the measurements, with the clocks beside them
if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_throttle_reasons.active \
        --format=csv -lms 500 >clocks.csv 2>/dev/null &
    clocks=$!
fi
seconds=20
[ $quick -eq 1 ] && seconds=3
sample=() batch=1000 batches=1,10,100,1000,10000
if [ -n "$events" ]; then
    sample=(--events "$events" --profile pp-low) batch=$events batches=1,$events
fi
measured=("${sample[@]}" --backend cuda)
# The one launch, beside Allen's pipeline, which is what is measured where nothing is said.
fused=(--pipeline fused)
if part throughput; then
    step throughput 300 "$tool" throughput "${measured[@]}" --batch "$batch" --duration $seconds --json throughput.json
    step throughput-fused 300 "$tool" throughput "${measured[@]}" "${fused[@]}" --batch "$batch" --duration $seconds \
        --json throughput-fused.json
    step batches-fused 600 "$tool" throughput "${measured[@]}" "${fused[@]}" --batch $batches --duration $((2 * seconds)) \
        --json batches-fused.json
    step batches 600 "$tool" throughput "${measured[@]}" --batch $batches --duration $((2 * seconds)) --json batches.json
    step throughput-mep 300 "$tool" throughput "${measured[@]}" --batch "$batch" --layout mep --duration $seconds \
        --json throughput-mep.json
    step throughput-v4 300 "$tool" throughput "${measured[@]}" --batch "$batch" --format v4 --duration $seconds \
        --json throughput-v4.json
    step throughput-cpu 300 "$tool" throughput "${sample[@]}" --backend cpu --duration $seconds --json throughput-cpu.json
fi
if part ablation; then
    step ablation 600 "$tool" ablation "${measured[@]}" --batch "$batch" --duration $((3 * seconds)) --json ablation.json
fi
if part sweep; then
    rounds=6
    [ $quick -eq 1 ] && rounds=2
    sweep() { # NAME AXES...
        local name=$1
        shift
        step "$name" 900 "$tool" sweep "${measured[@]}" --batch "$batch" --rounds $rounds --output "$name" "$@"
    }
    if [ -n "$events" ]; then
        sweep sweep-cluster --axis cluster.block_x=16,32 --axis cluster.block_y=1,2
    else
        sweep sweep-cluster --axis cluster.block_x=32,64,128 --axis cluster.block_y=1,2,4,8
        sweep sweep-count --axis count.block_x=64,128,256 --axis count.bins=8,16
        sweep sweep-sort --axis sort.block_x=64,128,256 --axis sort.run=64,128,256
        sweep sweep-fused "${fused[@]}" --axis fused.block_x=128,256,512 --axis fused.tile=2048,2560,3072 \
            --axis fused.stage=18432,24576
        sweep sweep-streams --mode end-to-end --axis 'batch[pow2]=6:12:2' --axis streams=1,2,4,8
    fi
fi

result="all steps are well"
[ $failed -eq 0 ] || result="some steps failed"
[ $skipped -eq 0 ] || result="$result; $skipped were skipped"
finish $failed "$result"
