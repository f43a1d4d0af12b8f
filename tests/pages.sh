#!/bin/bash
# Opens the pages that the tool writes (report, comparison, tuner, sweep) in headless Chromium, 400 and 1400 pixels wide,
# light and dark, and fails on script errors, charts that were not drawn, sideways scrolling and text below 10 pixels; then
# uses each without a mouse, reads it as a screen reader does, and prints it (tests/accessibility.py).
# Needs chromium; CHROMIUM names another. UT_DECODE names the tool (default: built here). KEEP=FOLDER keeps pages and
# screenshots, to be looked at. A page given as an argument is checked instead.
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
        (cd "$here" && cargo build --quiet)
        tool=$(cd "$here" && cargo build --quiet --message-format=json 2>/dev/null |
            sed -n 's/.*"executable":"\([^"]*ut-decode\)".*/\1/p' | tail -1)
    fi
    export UT_DECODE_CONFIG=
    "$tool" generate --profile pp-low --events 300 -o "$work/a" >/dev/null
    "$tool" generate --profile pp-low --events 300 --seed 2 -o "$work/b" >/dev/null
    "$tool" generate --profile pp-low --events 20 --format v4 -o "$work/v4" >/dev/null
    "$tool" report "$work/a/events.mdf" -o "$folder/report.html" --quiet >/dev/null
    "$tool" report "$work/a/events.mdf" --compare "$work/b/events.mdf" -o "$folder/compare.html" --quiet >/dev/null
    "$tool" report "$work/v4/events.mdf" -o "$folder/v4.html" --quiet >/dev/null
    "$tool" tune run --backend synthetic:seed=3 --budget 30 --tune-db "$work/db" --report "$work/tune" --quiet >/dev/null
    "$tool" sweep "$work/a/events.mdf" --events 20 --axis batch=10,20 --axis threads=1,2 --rounds 1 --output "$work/sweep" \
        --quiet >/dev/null
    find "$work/tune"* -name '*.html' -exec cp {} "$folder/tune.html" \;
    find "$work/sweep" -name '*.html' -exec cp {} "$folder/sweep.html" \;
    pages=("$folder"/{report,compare,v4,tune,sweep}.html)
fi

# Before the page's own scripts: keeps errors.
first='<script>window.__errors=[];addEventListener("error",e=>__errors.push(e.message));
addEventListener("unhandledrejection",e=>__errors.push(String(e.reason)));</script>'
# After them: what is wrong, for the page around it.
last='<script>addEventListener("load",()=>setTimeout(()=>{
const wrong=[...__errors],page=document.documentElement;
if(page.scrollWidth>innerWidth+1)wrong.push("scrolls sideways: "+page.scrollWidth+" of "+innerWidth);
for(const chart of document.querySelectorAll("figure[id^=chart-]"))
  if(![...chart.querySelectorAll("svg")].some(svg=>svg.checkVisibility())&&!chart.closest("details:not([open])"))wrong.push("not drawn: "+chart.dataset.name);
const small=new Set,walk=document.createTreeWalker(document.body,NodeFilter.SHOW_TEXT);
for(let node;node=walk.nextNode();){const box=node.parentElement;
  if(!node.textContent.trim()||/^(SCRIPT|STYLE|NOSCRIPT)$/.test(box.tagName)||!box.getClientRects().length)continue;
  const matrix=box.getScreenCTM?box.getScreenCTM():null,scale=matrix?Math.hypot(matrix.c,matrix.d):1;
  const size=parseFloat(getComputedStyle(box).fontSize)*scale;
  if(size<9.95)small.add(size.toFixed(1)+"px: "+node.textContent.trim().slice(0,30));}
wrong.push(...[...small].slice(0,5));
window.__checked=innerWidth+" "+(wrong.join("; ")||"good");},1500));</script>'

look() { # light|dark, width, height, more arguments
    local scheme=$1 width=$2 height=$3
    shift 3
    local flags=(--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update
        --disable-sync --hide-scrollbars --allow-file-access-from-files --user-data-dir="$(mktemp -d -p "$work")"
        --window-size="$width,$height" --virtual-time-budget=20000)
    [[ $scheme == light ]] || flags+=(--blink-settings=preferredColorScheme=0)
    timeout 120 "$chromium" "${flags[@]}" "$@" 2>/dev/null
}

# Opens $work/NAME.checked.html and prints what is wrong with it, or "NAME, 400 px, light: good".
check() { # name, width, light|dark
    local name=$1 width=$2 scheme=$3 frame found
    frame=$work/frame-$scheme.html
    # A browser's window may have a least width: the page is opened in a frame.
    echo "<body style=margin:0><iframe id=f style='border:0;width:${width}px;height:900px' src='$name.checked.html'></iframe>
        <script>const t=setInterval(()=>{if(!f.contentWindow.__checked)return;clearInterval(t);
        document.body.append('CHECK'+'ED '+f.contentWindow.__checked)},200)</script>" >"$frame"
    found=$(look "$scheme" 1500 1000 --dump-dom "file://$frame" | grep -o 'CHECKED [^<]*' | tail -1 || true)
    found=${found#"CHECKED $width "}
    echo "$name, $width px, $scheme: ${found:-not opened}"
}

failed=0
for page in "${pages[@]}"; do
    name=$(basename "$page" .html)
    python3 - "$page" "$work/$name.checked.html" "$first" "$last" <<'PYTHON'
import sys
page, out, first, last = sys.argv[1:]
text = open(page, encoding="utf-8").read().replace("<head>", "<head>" + first, 1)
head, end = text.rsplit("</body>", 1)
open(out, "w", encoding="utf-8").write(head + last + "</body>" + end)
PYTHON
    for width in 400 1400; do
        # Two browsers at a time, since one does not keep two cores busy.
        for scheme in light dark; do check "$name" $width $scheme >"$work/$scheme.found" & done
        wait
        cat "$work"/{light,dark}.found
        [[ $(cat "$work"/{light,dark}.found | grep -c ': good$') == 2 ]] || failed=1
    done
    if [[ -n ${KEEP-} ]]; then
        for scheme in light dark; do
            for width in 400 1400; do
                echo "<body style=margin:0><iframe style='border:0;width:${width}px;height:${HEIGHT:-9000}px' src='$page'></iframe>" >"$folder/.frame.html"
                look $scheme "$((width > 500 ? width : 500))" "${HEIGHT:-9000}" --screenshot="$folder/$name-$width-$scheme.png" \
                    "file://$folder/.frame.html" || true
            done
        done
        rm -f "$folder/.frame.html"
    fi
done
python3 "$here/tests/accessibility.py" "$chromium" "${pages[@]}" || failed=1
exit $failed
