#!/bin/bash
# Compiles the suite for 64-bit ARM and runs it on an emulated CPU of that kind, with all levels of the cpu backend that it
# has (portable and NEON), after the tests of the levels' single operations. For Debian hosts of another kind, as root: the
# compiler, its library for that machine, the linker and qemu are packages of Debian's unstable branch, put into a folder of
# their own with mmdebstrap the first time. That folder is kept (2 GB); UT_DECODE_SID may name another one. Arguments go to
# the test program.
#
# The emulated backend is left out: it is slow enough without an emulated CPU.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v mmdebstrap >/dev/null || { echo "aarch64.sh: needs mmdebstrap (a Debian package)" >&2 && exit 1; }
sid=${UT_DECODE_SID:-target/sid}
mkdir -p "$sid"
sid=$(realpath "$sid")
if [ ! -e "$sid/complete" ]; then
    packages=ca-certificates,rustc,cargo,libstd-rust-dev:arm64,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,qemu-user
    mmdebstrap --variant=apt --architectures="$(dpkg --print-architecture)",arm64 --include=$packages \
        --aptopt='Acquire::Check-Valid-Until "false"' sid "$sid"
    touch "$sid/complete"
fi
# The network and its certificates, as outside.
cp /etc/resolv.conf "$sid/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$sid/etc/ssl/certs/ca-certificates.crt"
# Copied, not mounted: that needs no more rights than the rest, and leaves nothing behind.
rm -rf "$sid/src" "$sid/data"
mkdir -p "$sid/src" "$sid/data"
git ls-files -co --exclude-standard -z | xargs -0 tar cf - | tar xf - -C "$sid/src"
data=${UT_DECODE_DATA:-../shared/data}
[ ! -d "$data" ] || cp -R "$data/." "$sid/data"
# shellcheck disable=SC2016 # the inner shell's variables
exec chroot "$sid" env -i HOME=/root PATH=/usr/bin:/bin TERM="${TERM:-dumb}" CARGO_TARGET_DIR=/build UT_DECODE_DATA=/data \
    UT_DECODE_TEST_WITHOUT=emulated \
    CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /' \
    sh -c 'cd /src && test="cargo test --release --target aarch64-unknown-linux-gnu"
        $test -p ut-decoders --lib cpu::simd && exec $test -p ut-decoding --no-default-features --features containers,cuda,emulated,report,synth --test decode backends:: "$@"' sh -- "$@"
