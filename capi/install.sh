#!/bin/sh
# Builds the C interface and installs it for C and C++ programs: header, shared and static library, pkg-config file and
# CMake package.
#
#     capi/install.sh PREFIX            builds, then installs into PREFIX/include and PREFIX/lib
#     LIBDIR=lib64 capi/install.sh …    into PREFIX/lib64, as Enterprise Linux has it
#     DESTDIR=ROOT capi/install.sh …    into ROOT/PREFIX, for a package; PREFIX, absolute, is what the files name
#     BUILT=FOLDER capi/install.sh …    takes the libraries from FOLDER, for example from another build
set -eu
[ $# -eq 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
DESTDIR=${DESTDIR:-}
if [ -z "$DESTDIR" ]; then
    mkdir -p "$1"
    prefix=$(cd "$1" && pwd)
else
    case $1 in /*) prefix=$1 ;; *) echo "with DESTDIR, PREFIX is an absolute path, not $1" >&2; exit 2 ;; esac
    mkdir -p "$DESTDIR"
    DESTDIR=$(cd "$DESTDIR" && pwd)
fi
root=$DESTDIR$prefix
BUILT=${BUILT:+$(cd "$BUILT" && pwd)}
cd "$(dirname "$0")/.."
libdir=${LIBDIR:-lib}
if [ -z "$BUILT" ]; then
    # Messages of panics name source files: by crate, not by the folders of whoever built it.
    sources=${CARGO_HOME:-$HOME/.cargo}
    export RUSTFLAGS="${RUSTFLAGS-} --remap-path-prefix=$PWD=ut_decoding --remap-path-prefix=$sources=cargo"
    cargo build --release -p ut-decoding-c
    BUILT=${CARGO_TARGET_DIR:-target}/release
fi
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
package=$root/$libdir/cmake/ut_decoding
mkdir -p "$root/include" "$root/$libdir/pkgconfig" "$package"
install -m 644 capi/include/ut_decoding.h capi/include/ut_decoding.hpp "$root/include/"
install -m 755 "$BUILT/libut_decoding_c.so" "$root/$libdir/libut_decoding.so.1"
ln -sf libut_decoding.so.1 "$root/$libdir/libut_decoding.so"
install -m 644 "$BUILT/libut_decoding_c.a" "$root/$libdir/libut_decoding.a"
# For pkg-config, which takes a space for the end of an option; then for the right side of sed's s|||.
as_it_is() { printf '%s\n' "$1" | sed -e 's/[ \\]/\\&/g' -e 's/[&|\\]/\\&/g'; }
sed -e "s|@PREFIX@|$(as_it_is "$prefix")|" -e "s|@LIBDIR@|$(as_it_is "$libdir")|" -e "s|@VERSION@|$version|" \
    capi/ut_decoding.pc.in >"$root/$libdir/pkgconfig/ut_decoding.pc"
install -m 644 capi/cmake/ut_decodingConfig.cmake "$package/"
sed "s|@VERSION@|$version|" capi/cmake/ut_decodingConfigVersion.cmake.in >"$package/ut_decodingConfigVersion.cmake"
echo "ut_decoding $version is in $root"
