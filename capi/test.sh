#!/bin/sh
# Compiles the C++ example against the C interface, decodes the events of the fixtures with it, and compares its hits
# with those of the tool. Runs the package's own tests first. Needs a C++ compiler.
set -eu
cd "$(dirname "$0")/.."
if ! command -v "${CXX:-g++}" >/dev/null; then
    echo "skipped: no C++ compiler (CXX, else g++)"
    exit 0
fi
cargo test -p ut-decoding-c
cargo build --release -p ut-decoding-c -p ut-decoding
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=${CARGO_TARGET_DIR:-target}/release
"${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror -I capi/include capi/examples/decode_dump.cpp \
    "$target/libut_decoding_c.a" -lpthread -ldl -lm -o "$work/decode_dump"
for format in v4 v5; do
    tables="fixtures/$format/boards.bin fixtures/$format/geometry.bin"
    "$target/ut-decode" convert "fixtures/$format/events.mdf" --output "$work/$format" >/dev/null
    "$target/ut-decode" decode "fixtures/$format/events.mdf" --boards "fixtures/$format/boards.bin" \
        --geometry "fixtures/$format/geometry.bin" --output "$work/$format.csv" >/dev/null
    tail -n +2 "$work/$format.csv" | cut -d, -f2,3 | tr , ' ' >"$work/expected"
    for dump in "$work/$format"/*.bin; do
        # shellcheck disable=SC2086 # two file names
        "$work/decode_dump" $tables "$dump" 2>/dev/null | cut -d' ' -f1,2
    done >"$work/found"
    cmp "$work/expected" "$work/found"
    echo "$format: $(wc -l <"$work/found") hits from C++ as from the tool"
done
if "$work/decode_dump" none none "$dump" 2>"$work/error"; then
    echo "a missing boards file was no error" >&2
    exit 1
fi
grep -q none "$work/error"
