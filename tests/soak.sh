#!/bin/bash
# Random batches of random sizes, options and corruption through every backend, each twice: the same hits and reports on
# all of them and the second time, in memory that does not grow.
#   tests/soak.sh [SECONDS]     3600 unless told otherwise; UT_DECODE_SOAK_SEED chooses the batches
# A failure names its batch and seed; the same seed makes the same batches.
set -euo pipefail
cd "$(dirname "$0")/.."
UT_DECODE_SOAK_SECONDS=${1:-3600} exec cargo test --test decode -- --ignored --nocapture soak::
