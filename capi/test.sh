#!/bin/sh
# Checks the C interface, and how the tuner's installs, as their users have them. Installs it into a folder of its own; compiles header, examples and
# tests/interface.cpp against that, by pkg-config and by CMake; compares the hits of both layouts with those of the tool; and
# runs interface.cpp plainly and under AddressSanitizer. Takes what `cargo test` has built; with PROFILE=release it builds and
# tests the optimised library, also under valgrind. Needs a C and a C++ compiler, and pkg-config; without CMake or valgrind
# their part is left out, and said to be.
set -eu
cd "$(dirname "$0")/.."
CXX=${CXX:-g++}
CC=${CC:-gcc}
for tool in "$CXX" "$CC" pkg-config; do
    command -v "$tool" >/dev/null || { echo "there is no $tool"; exit 1; }
done
if [ "${PROFILE-}" = release ]; then
    cargo test --release --no-run --test cli --test cuda --test versions
    built=${CARGO_TARGET_DIR:-target}/release
else
    cargo test --no-run --test cli --test cuda --test versions
    built=${CARGO_TARGET_DIR:-target}/debug
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Dependencies of tests, which cargo leaves there.
BUILT=$built/deps capi/install.sh "$work/ut"
export PKG_CONFIG_PATH="$work/ut/lib/pkgconfig" LD_LIBRARY_PATH="$work/ut/lib"
tool=$built/ut-decode
warnings="-Wall -Wextra -Werror"

# shellcheck disable=SC2046,SC2086 # several options
compile() { "$CXX" -std=c++17 -O1 -g $warnings "$@" $(pkg-config --cflags --libs ut_decoding); }
# shellcheck disable=SC2086
"$CC" -std=c99 -pedantic $warnings -fsyntax-only -x c "$work/ut/include/ut_decoding.h"
for example in decode_dump decode_mep decode_hits; do compile "capi/examples/$example.cpp" -o "$work/$example"; done
compile -Wshadow -pthread -fsanitize=thread capi/examples/decode_threads.cpp -o "$work/decode_threads"
compile capi/tests/interface.cpp -o "$work/interface"
sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"
# shellcheck disable=SC2086
compile $sanitize capi/tests/interface.cpp -o "$work/interface_asan"
# The algorithm for Allen, over a stub of its contract.
# shellcheck disable=SC2086
compile $sanitize -I capi/tests/allen -I capi/examples/allen capi/tests/allen/wrapper.cpp -o "$work/allen"
# shellcheck disable=SC2086
compile -fsanitize=thread -I capi/tests/allen -I capi/examples/allen capi/tests/allen/wrapper.cpp -o "$work/allen_threads"
# The GPU's part, on the stand-in for the driver, which is as late as a GPU may be.
mkdir "$work/driver"
ln -s "$(cd "$built/deps" && pwd)/libfake_cuda.so" "$work/driver/libcuda.so"
compile_cuda() { compile -I capi/tests/cuda "$@" -L "$work/driver" -lcuda; }
compile_cuda capi/examples/decode_cuda.cpp -o "$work/decode_cuda"
# shellcheck disable=SC2086
compile_cuda $sanitize capi/tests/cuda/interface.cpp -o "$work/interface_cuda"
# shellcheck disable=SC2086
compile_cuda $sanitize -DTARGET_DEVICE_CUDA -I capi/tests/allen -I capi/examples/allen capi/tests/allen/wrapper.cpp \
    -o "$work/allen_cuda"
# Runs a program on the stand-in, with settings for it; what it says of wrong use is an error.
on_stand_in() {
    env LD_LIBRARY_PATH="$work/driver:$LD_LIBRARY_PATH" FAKE_CUDA_PAGEABLE=refuse "$@" 2>"$work/error" ||
        { cat "$work/error" >&2; return 1; }
    if grep "fake cuda:" "$work/error" | grep -v "this is not a GPU\|note:\|left" >&2; then return 1; fi
}
# The tuner's library: by pkg-config, shared and static.
cargo build ${PROFILE:+--profile "$PROFILE"} -p tuner-c
BUILT=$built tuner/c/install.sh "$work/tuner"
export PKG_CONFIG_PATH="$work/tuner/lib/pkgconfig:$PKG_CONFIG_PATH"
# shellcheck disable=SC2046,SC2086
"$CC" -std=c99 -pedantic $warnings -O2 tuner/c/examples/loop.c $(pkg-config --cflags --libs online_tuner) -o "$work/loop"
readelf -d "$work/loop" | grep -q 'NEEDED.*\[libonline_tuner\.so\.1\]'
LD_LIBRARY_PATH="$work/tuner/lib" "$work/loop"
nm -D "$work/tuner/lib/libonline_tuner.so" | grep -q tuner_version
programs="decode_dump decode_mep decode_hits decode_threads"
if command -v cmake >/dev/null; then
    cmake -S capi/tests/cmake -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/ut;$work/tuner" -DCMAKE_CXX_COMPILER="$CXX" >"$work/log" &&
        cmake --build "$work/cmake" >>"$work/log" || { cat "$work/log"; exit 1; }
    programs="$programs cmake/decode_dump_shared cmake/decode_dump_static"
    "$work/cmake/loop_static"
else
    echo "NOT RUN: there is no cmake"
fi
if readelf -d "$work/decode_dump" | grep -q 'NEEDED.*\[libut_decoding\.so\.1\]'; then
    echo "programs ask for libut_decoding.so.1"
else
    echo "programs do not ask for libut_decoding.so.1" >&2
    exit 1
fi

for format in v4 v5; do
    tables="fixtures/$format/boards.bin fixtures/$format/geometry.bin"
    "$tool" convert "fixtures/$format/events.mdf" --output "$work/$format" >/dev/null
    "$tool" decode "fixtures/$format/events.mdf" --boards "fixtures/$format/boards.bin" \
        --geometry "fixtures/$format/geometry.bin" --output "$work/$format.csv" >/dev/null
    tail -n +2 "$work/$format.csv" | cut -d, -f2,3 | tr , ' ' >"$work/expected"
    for program in $programs; do
        # shellcheck disable=SC2086 # two file names
        "$work/$program" $tables "$work/$format"/*.bin 2>/dev/null | cut -d' ' -f2,3 >"$work/found"
        cmp "$work/expected" "$work/found"
    done
    echo "$format: $(wc -l <"$work/found") hits from C++ as from the tool, by $programs"
    for settings in FAKE_CUDA_SEED=0 FAKE_CUDA_SEED=1 "FAKE_CUDA_SEED=0 MEP=1" "FAKE_CUDA_SEED=2 MEP=1"; do
        # shellcheck disable=SC2086
        on_stand_in $settings "$work/decode_cuda" $tables "$work/$format"/*.bin >"$work/hits"
        cut -d' ' -f2,3 "$work/hits" | cmp "$work/expected" -
    done
    echo "$format: the same hits by decode_cuda, on the stand-in for the driver"
    for seed in 0 1; do
        # shellcheck disable=SC2086
        on_stand_in FAKE_CUDA_SEED=$seed "$work/interface_cuda" $tables "$work/$format"/*.bin
        # shellcheck disable=SC2086
        on_stand_in FAKE_CUDA_SEED=$seed "$work/allen_cuda" $tables "$work/$format"/*.bin
    done
    # shellcheck disable=SC2086
    "$work/allen" $tables "$work/$format"/*.bin
    # shellcheck disable=SC2086
    "$work/allen_threads" $tables "$work/$format"/*.bin
    # shellcheck disable=SC2086
    "$work/interface" $tables "$work/$format"/*.bin
    # shellcheck disable=SC2086
    "$work/interface_asan" $tables "$work/$format"/*.bin
    if [ "${PROFILE-}" != release ]; then
        :
    elif command -v valgrind >/dev/null; then
        # shellcheck disable=SC2086
        UT_ROUNDS=5 valgrind --quiet --leak-check=full --show-leak-kinds=definite \
            --errors-for-leak-kinds=definite --error-exitcode=9 \
            "$work/interface" $tables "$work/$format"/*.bin
    else
        echo "NOT RUN: there is no valgrind"
    fi
done
if "$work/decode_dump" none none "$work"/v4/*.bin 2>"$work/error"; then
    echo "a missing boards file was no error" >&2
    exit 1
fi
grep -q none "$work/error"
# As many banks as 32 bits can count, or nearly.
for n_banks in '\377' '\376'; do
    printf "$n_banks"'\377\377\377\0\0\0\0' >"$work/not_a_dump"
    if "$work/decode_dump" $tables "$work/not_a_dump" 2>"$work/error"; then
        echo "a file that is no dump was no error" >&2
        exit 1
    fi
    grep -q "is not a dump" "$work/error"
done
