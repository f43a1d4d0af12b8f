#!/bin/sh
# Builds what benches/gpu-check.sh runs on a machine with a GPU, which needs neither cargo nor a network:
#   benches/gpu-check-build.sh [FOLDER]      (default target/gpu-check)
# FOLDER then holds the tool, the test binaries of the suite, small inputs and the script itself. Copy it, and run
#   FOLDER/gpu-check.sh
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$top/target/gpu-check}
cd "$top"

UT_DECODE_COMMIT=$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
export UT_DECODE_COMMIT

# The suites that run on every backend, and any that are there for the GPU alone.
suites="backends"
for suite in tests/cuda*.rs; do
    [ -e "$suite" ] && suites="$suites $(basename "$suite" .rs)"
done

rm -rf "$folder"
mkdir -p "$folder/tests" "$folder/fixtures"
cargo build --release --bin ut-decode
cp target/release/ut-decode "$folder/ut-decode"
for suite in $suites; do
    binary=$(cargo test --release --no-run --test "$suite" --message-format=json |
        sed -n 's/.*"name":"'"$suite"'".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    [ -n "$binary" ] || { echo "cargo built no test binary of $suite" >&2; exit 1; }
    cp "$binary" "$folder/tests/$suite"
done
strip "$folder/ut-decode" "$folder"/tests/*
cp -R fixtures/v4 fixtures/v5 "$folder/fixtures/"
cp benches/gpu-check.sh "$folder/"
echo "$UT_DECODE_COMMIT" >"$folder/commit"
(cd "$folder" && sha256sum ut-decode tests/* >sha256)
du -sh "$folder"
