#!/bin/bash
# Checks that streams of any length take no more memory than docs/trust.md says. Pipes MDF, MDF with compressed events, MEP
# packets and zstd into the tool, one after the other, and compares its peak memory with the limit.
#   tests/bounded-memory.sh [GB]     GB of each format, 20 by default; about a minute each
# UT_DECODE is the program, THREADS its threads.
set -euo pipefail
cd "$(dirname "$0")/.."
gb=${1:-20} threads=${THREADS:-4} limit_kb=$((512 * 1000))
tool=${UT_DECODE:-$PWD/target/release/ut-decode}
[[ -x $tool ]] || { echo "no $tool: cargo build --release --features full"; exit 1; }
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here"
faults=(--corrupt truncated=0.001 --corrupt unsorted_lanes=0.001 --corrupt bad_header=0.001)
make() { "$tool" -q generate --n-events 5000 --output "$1" "${faults[@]}" "${@:2}" >/dev/null; }
make plain; make blocks --pack blocks; make packets --mep; make zstd --pack zstd
failed=0
for file in plain/events.mdf blocks/events.mdf packets/events.mep zstd/events.mdf.zst; do
    size=$(stat -c %s "$file")
    times=$((gb * 1000000000 / size + 1))
    {
        for ((i = 0; i < times; i++)); do
            cat "$file"
            # Packets begin at multiples of a page.
            [[ $file != *.mep ]] || head -c $(((4096 - size % 4096) % 4096)) /dev/zero
        done
    } | {
        "$tool" -q decode --allow-repeated --threads "$threads" --boards plain/boards.bin --geometry plain/geometry.bin --json summary.json - \
            </dev/stdin >/dev/null &
        decoder=$! most=0
        while kill -0 "$decoder" 2>/dev/null; do
            now=$(awk '/VmHWM/ { print $2 }' "/proc/$decoder/status" 2>/dev/null || true)
            ((${now:-0} > most)) && most=$now
            sleep 0.5
        done
        wait "$decoder"
        echo "$most" >most
    }
    most=$(<most) events=$(sed -n 's/^ *"events": \([0-9]*\),*$/\1/p' summary.json | head -1)
    # (A MEP packet is held beside it.)
    [[ $file != *.mep ]] || limit_kb=$((512 * 1000 + size / 1000 / 50))
    echo "$file: $times times, $((size * times / 1000000)) MB, $events events: $((most / 1000)) MB at most"
    [[ $events == $((5000 * times)) ]] || { echo "  $((5000 * times)) events were written"; failed=1; }
    ((most > 0 && most <= limit_kb)) || { echo "  more than $((limit_kb / 1000)) MB"; failed=1; }
done
exit $failed
