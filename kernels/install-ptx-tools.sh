#!/bin/bash
# Installs what rebuilding the PTX needs, on Debian: the compiler with its source by apt (as root), and ptxas by pip
# into target/ptx-tools, where build.rs looks for it. Does nothing that is done already.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
for package in rustc-web rust-web-src python3-venv; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if ((${#missing[@]})); then
    as_root=()
    ((EUID)) && as_root=(sudo)
    "${as_root[@]}" apt-get update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
fi

tools=target/ptx-tools
if [[ ! -x $tools/bin/ptxas ]]; then
    python3 -m venv "$tools/venv"
    # ptxas alone: what else the package names as its dependencies is not needed to assemble.
    "$tools/venv/bin/pip" install --no-deps nvidia-cuda-nvcc==13.0.88
    mkdir -p "$tools/bin"
    found=$(find "$tools/venv" -type f -name ptxas -print -quit)
    ln -sf "../${found#"$tools"/}" "$tools/bin/ptxas"
fi
/usr/bin/rustc --version
"$tools/bin/ptxas" --version
