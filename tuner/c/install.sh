#!/bin/sh
# Builds and installs the tuner for C and C++ programs, as capi/install.sh does the decoder, with the same settings:
# online_tuner.h, libonline_tuner, online_tuner.pc and the CMake package online_tuner.
#
#     tuner/c/install.sh PREFIX
LIBRARY=online_tuner exec "$(dirname "$0")/../../capi/install.sh" "$@"
