#!/bin/sh
# Builds the C interface and installs it for C and C++ programs: header, shared and static library, pkg-config file and
# CMake package. (tuner/c/install.sh installs the tuner's in the same way.)
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
name=${LIBRARY:-ut_decoding}
case $name in
    ut_decoding)
        crate=ut-decoding-c
        headers="capi/include/ut_decoding.h capi/include/ut_decoding.hpp"
        about="Decoding of LHCb Upstream Tracker raw banks into hits"
        ;;
    online_tuner)
        crate=tuner-c
        headers=tuner/c/include/online_tuner.h
        about="Tuning of launch parameters while kernels do real work"
        ;;
    *) echo "LIBRARY is ut_decoding or online_tuner, not $name" >&2; exit 2 ;;
esac
BUILT=${BUILT:+$(cd "$BUILT" && pwd)}
cd "$(dirname "$0")/.."
libdir=${LIBDIR:-lib}
if [ -z "$BUILT" ]; then
    # Messages of panics name source files: by crate, not by the folders of whoever built it.
    sources=${CARGO_HOME:-$HOME/.cargo}
    export RUSTFLAGS="${RUSTFLAGS-} --remap-path-prefix=$PWD=ut_decoding --remap-path-prefix=$sources=cargo"
    cargo build --release -p "$crate"
    BUILT=${CARGO_TARGET_DIR:-target}/release
fi
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
package=$root/$libdir/cmake/$name
built=$BUILT/lib$(printf %s "$crate" | tr - _)
mkdir -p "$root/include" "$root/$libdir/pkgconfig" "$package"
# shellcheck disable=SC2086 # several files
install -m 644 $headers "$root/include/"
install -m 755 "$built.so" "$root/$libdir/lib$name.so.1"
ln -sf "lib$name.so.1" "$root/$libdir/lib$name.so"
install -m 644 "$built.a" "$root/$libdir/lib$name.a"
# For pkg-config, which takes a space for the end of an option; then for the right side of sed's s|||.
as_it_is() { printf '%s\n' "$1" | sed -e 's/[ \\]/\\&/g' -e 's/[&|\\]/\\&/g'; }
fill() {
    sed -e "s|@PREFIX@|$(as_it_is "$prefix")|" -e "s|@LIBDIR@|$(as_it_is "$libdir")|" -e "s|@VERSION@|$version|" \
        -e "s|@NAME@|$name|g" -e "s|@ABOUT@|$about|" "capi/cmake/$1" >"$2"
}
fill package.pc.in "$root/$libdir/pkgconfig/$name.pc"
fill Config.cmake.in "$package/${name}Config.cmake"
fill ConfigVersion.cmake.in "$package/${name}ConfigVersion.cmake"
echo "$name $version is in $root"
