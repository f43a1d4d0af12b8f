#!/bin/bash
# Plants bugs, one after the other, and says which of them no test notices: tests/mutations.sh --help
exec python3 "$(dirname "$0")/mutations/run.py" "$@"
