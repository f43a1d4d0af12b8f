#!/bin/bash
# Counts what a mean event costs in each pipeline: the interpreter of the tests runs the committed PTX. Needs the real events
# (UT_DECODE_DATA). It takes minutes, prints a table and writes kernels/ptx/counts.json.
# Usage: benches/kernel-counts.sh [WORD,…]
# With words, only the rows whose title has them all ("real v4,unique-x,Allen,ranked"), line by line; nothing is written.
set -euo pipefail
cd "$(dirname "$0")/.."
UT_DECODE_COUNTS=${1:-} cargo test --quiet --test cuda counts::table -- --ignored --nocapture
