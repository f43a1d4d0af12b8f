#!/bin/sh
# Builds what benches/gpu-check.sh runs on a machine with a GPU, which needs neither cargo nor a network:
#   benches/gpu-check-build.sh [FOLDER]      (default target/gpu-check)
# FOLDER then holds the tool, the test binaries of the suite, small inputs and the script itself, less than 60 MiB in all.
# Copy it, and run
#   FOLDER/gpu-check.sh
# PROFILE=dev builds faster, for a trial of the script; its measurements say nothing.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$top/target/gpu-check}
profile=${PROFILE:-release}
cd "$top"

UT_DECODE_COMMIT=$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
export UT_DECODE_COMMIT

# The program with the suites that run on every backend.
suites="decode"

# The path of what cargo built under the name $1, from its messages.
built() {
    sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p' "$folder/messages" | tail -n 1
}

rm -rf "$folder"
mkdir -p "$folder/tests" "$folder/fixtures"
# The tests take the tool with them.
# shellcheck disable=SC2046 # each suite is a word of its own
cargo test --profile "$profile" --no-run $(printf ' --test %s' $suites) --message-format=json-render-diagnostics >"$folder/messages"
for name in ut-decode $suites; do
    binary=$(built "$name")
    [ -n "$binary" ] || { echo "cargo built no $name" >&2; exit 1; }
    case $name in ut-decode) to=$folder/$name ;; *) to=$folder/tests/$name ;; esac
    cp "$binary" "$to"
    strip "$to"
done
rm "$folder/messages"
cp -R fixtures/v4 fixtures/v5 "$folder/fixtures/"
for file in fixtures/*; do [ -f "$file" ] && cp "$file" "$folder/fixtures/"; done
cp benches/gpu-check.sh "$folder/"
echo "$UT_DECODE_COMMIT" >"$folder/commit"
(cd "$folder" && sha256sum ut-decode tests/* >sha256)
size=$(du -sk "$folder" | cut -f 1)
echo "$folder: $size KiB"
[ "$size" -lt 61440 ] || { echo "that is more than 60 MiB" >&2; exit 1; }
