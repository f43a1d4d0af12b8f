#!/bin/bash
# Packs what benches/gpu-check.sh runs on a machine with a GPU, which needs neither cargo nor a network:
#   benches/gpu-check-build.sh          leaves gpu-check.tar.xz in the checkout, ignored by git; at most 30 MiB
# It holds the tool, the suite that runs on every backend, small inputs, the script, and the real events and tables if
# UT_DECODE_DATA (default ../shared/data) has them. There:
#   tar xf gpu-check.tar.xz && gpu-check/gpu-check.sh --call 1
# PROFILE=dev builds faster, for a trial of the script; its measurements say nothing.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
profile=${PROFILE:-release}
folder=target/gpu-check
archive=gpu-check.tar.xz

UT_DECODE_COMMIT=$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
export UT_DECODE_COMMIT

rm -rf "$folder" "$archive"
mkdir -p "$folder/tests" "$folder/fixtures"
# The tests take the tool with them.
cargo test --profile "$profile" --no-run --test decode --message-format=json-render-diagnostics >"$folder/messages"
# built NAME TO: what cargo built under this name, from its messages.
built() {
    local binary
    binary=$(sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p' "$folder/messages" | tail -n 1)
    [ -n "$binary" ] || { echo "cargo built no $1" >&2; exit 1; }
    strip -o "$folder/$2" "$binary"
}
built ut-decode ut-decode
built decode tests/decode
rm "$folder/messages"
GLIBC=2.35 capi/check-glibc.sh "$folder/ut-decode" "$folder/tests/decode"
echo 2.35 >"$folder/glibc"
cp -R fixtures/v4 fixtures/v5 fixtures/expected.json "$folder/fixtures/"
cp benches/gpu-check.sh "$folder/"
data=${UT_DECODE_DATA:-../shared/data}
if [ -d "$data/tables" ]; then
    mkdir "$folder/data"
    cp -R --no-preserve=mode "$data/tables" "$data/minibrunel" "$data/v5" "$folder/data/"
else
    echo "no real events: UT_DECODE_DATA names no folder with them" >&2
fi
echo "$UT_DECODE_COMMIT" >"$folder/commit"
(cd "$folder" && sha256sum ut-decode tests/* >sha256)
# A trial's archive may be larger: it goes nowhere.
tar -C target -c gpu-check | xz -T0 "-$([ "$profile" = release ] && echo 9 || echo 1)" >"$archive"
size=$(stat -c %s "$archive")
echo "$archive: $((size / 1024)) KiB"
[ "$size" -le $((30 << 20)) ] || { echo "that is more than 30 MiB" >&2; exit 1; }
