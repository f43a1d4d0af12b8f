#!/bin/bash
# What cargo calls in place of rustc for packages of this repository: the code that reads bytes from outside is compiled with
# coverage of edges and of comparisons, as libFuzzer wants it, by flags that stable Rust passes to LLVM. Build
# scripts cannot be: nothing there counts.
compiler=$1
shift
if [[ " $* " =~ " --crate-name "(ut_[a-z_]+|tuner|fuzz)" " ]]; then
    set -- "$@" -Cpasses=sancov-module
    for option in level=4 inline-8bit-counters pc-table trace-compares; do
        set -- "$@" "-Cllvm-args=-sanitizer-coverage-$option"
    done
fi
exec "$compiler" "$@"
