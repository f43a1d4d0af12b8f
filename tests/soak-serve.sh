#!/bin/bash
# Feeds a server small and large files, good and bad, at random; kills it at random; then compares its outputs with those
# of one undisturbed server.
#   tests/soak-serve.sh [FILES [LARGE]]     100000 small files and 100 large ones unless told otherwise
# SEED chooses the order, UT_DECODE the program.
set -euo pipefail
cd "$(dirname "$0")/.."
files=${1:-100000} large=${2:-100}
RANDOM=${SEED:-1}
tool=${UT_DECODE:-$PWD/target/release/ut-decode}
[[ -x $tool ]] || { echo "no $tool: cargo build --release"; exit 1; }
here=$(mktemp -d)
trap '[[ -z ${server-} ]] || kill -9 "$server" 2>/dev/null || true; rm -rf "$here"' EXIT
cd "$here"
mkdir in
"$tool" -q generate --events 1 --output small >/dev/null
"$tool" -q generate --events 2000 --output large >/dev/null
options=(-- --boards small/boards.bin --geometry small/geometry.bin)
serve_once() { "$tool" -q serve --watch in --output "$1" --settle 0.5 --match '*.mdf' --once "${options[@]}"; }

feed() {
    local i name
    for ((i = 0; i < files; i++)); do
        name=in/$((i % 100))/$i.mdf
        mkdir -p "${name%/*}"
        case $((RANDOM % 10)) in
            0) head -c $((RANDOM % 9000)) small/events.mdf >"$name" ;;      # cut, or empty
            1) { head -c 5000 small/events.mdf; sleep 0.01; tail -c +5001 small/events.mdf; } >"$name" ;;
            *) cp small/events.mdf "$name.part" && mv "$name.part" "$name" ;;
        esac
        if ((large > 0 && i % (files / large + 1) == 0)); then
            cp large/events.mdf "in/large$i.part" && mv "in/large$i.part" "in/large$i.mdf"
        fi
    done
}

start=$SECONDS kills=0 most=0
feed & feeder=$!
while kill -0 "$feeder" 2>/dev/null; do
    # With exec, the process to kill is the server itself.
    (exec "$tool" -q serve --watch in --output disturbed --settle 0.5 --match '*.mdf' "${options[@]}") 2>>said & server=$!
    for ((turn = RANDOM % 40; turn >= 0; turn--)); do
        sleep 0.1
        rss=$(awk '/VmRSS/ { print $2 }' "/proc/$server/status" 2>/dev/null || echo 0)
        ((${rss:-0} > most)) && most=$rss
    done
    kill -9 "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    ((++kills))
done
wait "$feeder"
server=
serve_once disturbed 2>>said || true
middle=$SECONDS
serve_once undisturbed 2>>said || true
diff -r --exclude=.serve disturbed undisturbed
entries() { sed -E 's/,"seconds".*//' "$1/.serve/journal.jsonl" | sort -u; }
diff <(entries disturbed) <(entries undisturbed)
echo "$files small and $large large files, $kills kills, $((middle - start)) s; undisturbed $((SECONDS - middle)) s;" \
    "server at most $most kB; outputs and entries equal"
