#!/bin/bash
# Makes a page of each kind that the tool writes (report, comparison, tuner, chain, sweep) and checks them in headless Chromium
# (tests/accessibility.py): drawn without errors at any width, light and dark, used without a mouse, read aloud, printed.
# Needs chromium; CHROMIUM names another. UT_DECODE and TUNER name the tools (default: built here). KEEP=FOLDER keeps pages and
# screenshots, to be looked at. Pages given as arguments are checked instead.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
chromium=${CHROMIUM:-chromium}
command -v "$chromium" >/dev/null || { echo "no $chromium: apt-get install chromium, or say CHROMIUM=..."; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=${KEEP:-$work/pages}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if (($# > 0)); then
    pages=("$@")
else
    tool=${UT_DECODE:-}
    if [[ -z $tool ]]; then
        (cd "$here" && cargo build --quiet --workspace --bin ut-decode --bin tuner)
        tool=$(cd "$here" && cargo build --quiet --message-format=json 2>/dev/null |
            sed -n 's/.*"executable":"\([^"]*ut-decode\)".*/\1/p' | tail -1)
    fi
    tuner=${TUNER:-$(dirname "$tool")/tuner}
    export UT_DECODE_CONFIG=
    "$tool" generate --profile pp-low --n-events 300 -o "$work/a" >/dev/null
    "$tool" generate --profile pp-low --n-events 300 --seed 2 -o "$work/b" >/dev/null
    "$tool" generate --profile pp-low --n-events 20 --bank-format v4 -o "$work/v4" >/dev/null
    "$tool" report "$work/a/events.mdf" -o "$folder/report.html" --quiet >/dev/null
    "$tool" report "$work/a/events.mdf" --reference "$work/b/events.mdf" -o "$folder/compare.html" --quiet >/dev/null
    "$tool" report "$work/v4/events.mdf" -o "$folder/v4.html" --quiet >/dev/null
    { echo block,tile,status,mean_ms; for b in 32 64 128 256; do for t in 1 2 4 8 16 32 64 128; do
        echo "$b,$t,ok,1.$(((b * t) % 97))"; done; done; } >"$work/space.csv"
    export TUNER_TUNE_DB=$work/db
    "$tuner" run --replay "$work/space.csv" --budget 30 --report "$work/tune" --quiet >/dev/null
    "$tool" sweep "$work/v4/events.mdf" --axis batch=10,20 --axis threads=1,2 --rounds 1 --output "$work/sweep" --quiet >/dev/null
    (cd "$here/tuner/examples/chain" && "$tuner" chain chain.toml --others 100 --report "$work/chain" --quiet >/dev/null)
    find "$work/tune"* -name '*.html' -exec cp {} "$folder/tune.html" \;
    cp "$work/chain/chain.html" "$folder/chain.html"
    find "$work/sweep" -name '*.html' -exec cp {} "$folder/sweep.html" \;
    pages=("$folder"/{report,compare,v4,tune,chain,sweep}.html)
fi

python3 "$here/tests/accessibility.py" "$chromium" "${pages[@]}"
