#!/bin/bash
# Builds the wheel, installs it with everything that it works with into a virtual environment of its own, and runs its tests
# there; with --notebooks, also the notebooks. Needs Python 3.11 or newer with venv, and the package index. Shares what
# `cargo test` has built; PROFILE=release builds an optimised wheel.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
export PATH="$work/venv/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1
MATURIN_PEP517_ARGS="--profile ${PROFILE:-dev}" pip wheel --quiet --no-deps --wheel-dir "$work" .
wheel=$(echo "$work"/ut_decoding-*.whl)
pip install --quiet "$wheel[test]"
# What is tested is what was installed, not the folder beside the tests.
cp -r tests pyproject.toml "$work"
mkdir "$work/outside"
cd "$work/outside"
UT_DECODE_FIXTURES="$OLDPWD/../fixtures" pytest -c "$work/pyproject.toml" --rootdir "$work" "$work/tests"
mypy --config-file "$work/pyproject.toml"
[[ ${1-} != --notebooks ]] || python "$OLDPWD/notebooks/run.py"
