#!/bin/sh
# Builds the C interface and the tool for Enterprise Linux 9 on any machine: with zig's linker, which knows the symbols that
# glibc 2.34 has and takes no later ones. Checks what it made, and prints where it is.
#
#     capi/build-el9.sh [TARGET]     TARGET: x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu; default: this machine's
#     BUILT="$(capi/build-el9.sh | tail -n 1)" LIBDIR=lib64 capi/install.sh PREFIX
#
# Needs python3 with venv; takes ziglang and cargo-zigbuild from PyPI into target/zig, once.
set -eu
cd "$(dirname "$0")/.."
target=${1:-$(uname -m)-unknown-linux-gnu}
mkdir -p "${CARGO_TARGET_DIR:-target}"
# Absolute: build scripts look for zig from folders of their own.
folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
[ -x "$folder/zig/bin/cargo-zigbuild" ] || {
    python3 -m venv "$folder/zig"
    "$folder/zig/bin/pip" install --quiet ziglang==0.17.1 cargo-zigbuild==0.24.0
}
rustup target list --installed 2>/dev/null | grep -qx "$target" || rustup target add "$target"
PATH="$folder/zig/bin:$PATH" cargo zigbuild --release --target "$target.2.34" -p ut-decoding-c -p ut-decoding --features ut-decoding/full >&2
capi/check-glibc.sh "$folder/$target/release/libut_decoding_c.so" "$folder/$target/release/ut-decode" >&2
echo "$folder/$target/release"
