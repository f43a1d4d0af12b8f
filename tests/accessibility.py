"""Checks pages that the tool wrote; tests/pages.sh runs it.

    accessibility.py CHROMIUM PAGE.html…

400 and 1400 pixels wide, light and dark: no script error, every chart drawn, no sideways scrolling, no text below 10 pixels.
By keyboard and ear: every chart and every control has a name of its own and is reached by Tab, arrow keys go through a chart
and say what is there, its table opens, a click on a sector of a map chooses its strips. On paper: no chart is cut.

Speaks with Chromium over its pipe, so that nothing but Python is needed. KEEP=FOLDER keeps screenshots and the paper."""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# Roles of what a reader looks at or uses; each must have a name.
NAMED = {"application", "image", "graphics-document", "figure", "button", "combobox", "link", "textbox", "checkbox",
         "region", "DisclosureTriangle", "columnheader"}


# What is wrong with the look of a page.
LOOK = """(() => {
    const wrong = [...__errors], page = document.documentElement, small = new Set;
    if (page.scrollWidth > innerWidth + 1) wrong.push(`scrolls sideways: ${page.scrollWidth} of ${innerWidth}`);
    for (const chart of document.querySelectorAll('figure[id^=chart-]'))
        if (![...chart.querySelectorAll('svg')].some(svg => svg.checkVisibility()) && !chart.closest('details:not([open])')) wrong.push('not drawn: ' + chart.getAttribute('aria-label'));
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; node = walk.nextNode();) {
        const box = node.parentElement, text = node.textContent.trim();
        if (!text || /^(SCRIPT|STYLE|NOSCRIPT)$/.test(box.tagName) || !box.getClientRects().length) continue;
        const matrix = box.getScreenCTM?.(), scale = matrix ? Math.hypot(matrix.c, matrix.d) : 1;
        const size = parseFloat(getComputedStyle(box).fontSize) * scale;
        if (size < 9.95) small.add(`${size.toFixed(1)} px: ${text.slice(0, 30)}`);
    }
    return [...wrong, ...[...small].slice(0, 5)];
})()"""
# Keeps errors, before the page's own scripts.
ERRORS = """window.__errors = []; addEventListener('error', e => __errors.push(e.message));
    addEventListener('unhandledrejection', e => __errors.push(String(e.reason)))"""
# Colours of series on a light page, as they are written.
COLOURS = ["#0B5CAD", "#D9730D", "#2A8A5E", "#8E44AD", "#C0392B", "#17A2B8", "#7A4B2A", "#DB5FA4", "#8A8F00", "#4A4F57"]


class Browser:
    def __init__(self, program, folder):
        to_browser, our_end = os.pipe()
        self.input, from_browser = os.pipe()
        self.output = our_end

        def ends():
            # Those that Chromium reads from and writes to; beyond its own first.
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--remote-debugging-pipe", "--window-size=1400,1000", "--user-data-dir=" + folder]
        self.process = subprocess.Popen([program, *flags], preexec_fn=ends, close_fds=False, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.session, self.target, self.rest, self.events = 0, None, None, b"", []

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.input, 1 << 16)
            if not more:
                sys.exit("the browser has gone")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer.get("method"))

    def wait_for(self, event):
        while event not in self.events:
            self.events.append(self.message().get("method"))
        self.events.clear()

    def open(self, page, width=1400, scheme="light"):
        old, self.session = self.target, None
        self.target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        if old:
            self.ask("Target.closeTarget", targetId=old)
        self.session = self.ask("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        self.ask("Page.enable")
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=ERRORS)
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.ask("Page.navigate", url=pathlib.Path(page).resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def js(self, text):
        result = self.ask("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"{text}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def press(self, key, code=None, text=None):
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=code or key,
                     windowsVirtualKeyCode={"Tab": 9, "Enter": 13}.get(key, 0), **more)
            more = {}


def keep(page, ending, data):
    """Keeps what the browser made of a page, if a folder for it is named."""
    if folder := os.environ.get("KEEP"):
        pathlib.Path(folder, f"{pathlib.Path(page).stem}{ending}").write_bytes(base64.b64decode(data))


def look(browser, page, width, scheme):
    browser.open(page, width, scheme)
    # Charts are drawn after the page has loaded.
    browser.js("new Promise(done => setTimeout(done, 500))")
    if os.environ.get("KEEP"):
        picture = browser.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        keep(page, f"-{width}-{scheme}.png", picture)
    return browser.js(LOOK)


def check(browser, page):
    wrong = []
    browser.open(page)
    js = browser.js
    charts = js("[...document.querySelectorAll('figure[id^=chart-]')].map(c => c.getAttribute('aria-label'))")

    # The tree that a screen reader is given.
    browser.ask("Accessibility.enable")
    nodes = [node for node in browser.ask("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
    names = {}
    for node in nodes:
        role, name = node["role"].get("value"), node.get("name", {}).get("value", "").strip()
        names.setdefault(role, []).append(name)
        if role in NAMED and not name:
            wrong.append(f"a {role} without a name")
    if len(charts) != len(set(charts)):
        wrong.append("charts with the same name: " + "; ".join(sorted({name for name in charts if charts.count(name) > 1})))
    missing = set(charts) - set(names.get("application", []))
    folded = js("[...document.querySelectorAll('details:not([open]) figure')].map(c => c.getAttribute('aria-label'))")
    if missing - set(folded):
        wrong.append(f"charts that are not in the tree: {missing}")
    buttons = [name for name in names.get("button", []) if not name.startswith("Sort by")]
    if len(buttons) != len(set(buttons)):
        wrong.append("buttons with the same name: " + "; ".join(sorted({b for b in buttons if buttons.count(b) > 1})))

    # Everything that can be used is reached by Tab, in the order of the page.
    wanted = js("""(() => { window.stops = [...document.querySelectorAll('figure,button,select,summary,.scroll,a[href]')]
        .filter(e => e.checkVisibility()); return stops.length })()""")
    js("document.activeElement.blur()")
    reached = []
    for _ in range(wanted):
        browser.press("Tab")
        reached.append(js("stops.indexOf(document.activeElement)"))
    if reached != list(range(wanted)):
        lost = js(f"{sorted(set(range(wanted)) - set(reached))[:3]}.map(i => stops[i].outerHTML.slice(0, 80))")
        wrong.append(f"Tab goes another way, or does not reach {lost}")

    for number in range(len(charts)):
        if js(f"!document.getElementById('chart-{number}').checkVisibility()"):
            continue
        js(f"document.getElementById('chart-{number}').focus()")
        said = []
        for _ in range(2):
            browser.press("ArrowRight")
            said.append(js("document.querySelector('.said').textContent"))
        data = json.loads(js(f"document.getElementById('data-{number}').textContent"))
        several = data.get("map") or data.get("heat") or any(len(series["x"]) > 2 for series in data["series"])
        if not said[0] or several and said[0] == said[1] or "undefined" in "".join(said) or "NaN" in "".join(said):
            wrong.append(f"the arrow keys in \"{charts[number]}\" say {said}")
        if js("document.querySelector('.tip').hidden || !document.querySelector('.here')"):
            wrong.append(f"the arrow keys in \"{charts[number]}\" show nothing")
        # A histogram's line breaks only where bins are empty.
        for i, series in enumerate(data["series"]):
            there = [y is not None for y in series["y"]]
            pieces = sum(now and not before for before, now in zip([False, *there], there))
            lines = js(f"""(svg => [...svg.querySelectorAll('polyline[stroke="' + {COLOURS}[{i} % 10] + '"][stroke-width="6"]')].length)
                (document.querySelector('#chart-{number} svg'))""")
            if series["look"] == "bins" and not data.get("choices") and pieces != lines:
                wrong.append(f"{series['name']} of \"{charts[number]}\" is drawn in {lines} pieces, not in {pieces}")
        button = f"document.getElementById('chart-{number}').nextElementSibling.querySelector('[aria-expanded]')"
        js(button + ".focus()")
        browser.press("Enter", text="\r")
        rows = js(button + ".closest('.bar').nextElementSibling?.querySelectorAll('tbody tr').length")
        cells = js(button + ".closest('.bar').nextElementSibling?.textContent") or ""
        if not rows or js(button + ".ariaExpanded") != "true" or "undefined" in cells or "NaN" in cells:
            wrong.append(f"the table of \"{charts[number]}\" has {rows} rows")
        browser.press("Enter", text="\r")

    # A click on a sector of a map chooses its strips, and so does Enter.
    if js("document.querySelector('.bar select') !== null"):
        place = js("""(() => { const map = document.querySelector('.charts:is(.large,.three) figure'); map.scrollIntoView();
            const data = JSON.parse(document.getElementById(map.id.replace('chart', 'data')).textContent).map;
            const areas = [...map.querySelectorAll('path')].slice(-data.at.length - data.marks.flatMap(m => m.which).length);
            // One that can be chosen, and is not.
            const box = document.querySelector('.bar select'), key = i => data.key + Math.floor(i / (data.parts?.[1] ?? 1));
            const is = i => box.keys.includes(key(i)) && box.keys[0] !== key(i);
            const at = [40, ...data.at.keys()].find(is) ?? 0;
            window.wanted = at ? key(at) : box.keys[0];
            const area = areas[at].getBoundingClientRect();
            return [area.x + area.width / 2, area.y + area.height / 2] })()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            browser.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
            js("new Promise(done => setTimeout(done, 150))")
        chosen = "document.querySelector('.bar select').keys[document.querySelector('.bar select').value]"
        if js(chosen) != js("wanted"):
            wrong.append(f"a click on sector {js('wanted')} chooses {js(chosen)}")
        js("document.querySelector('.charts:is(.large,.three) figure').focus()")
        browser.press("ArrowRight")
        sector = js("document.querySelector('.said').textContent").split(", ")[0]
        browser.press("Enter", text="\r")
        options = js("[...document.querySelector('.bar select').options].map(option => option.textContent)")
        can_be_chosen = any(sector in option for option in options)
        if can_be_chosen and sector not in js("document.querySelector('.bar select').selectedOptions[0].textContent"):
            wrong.append("Enter on a sector does not choose it")

    # Dragging zooms into a picture, two clicks show the whole one.
    if js("document.querySelector('.charts:is(.large,.three) figure') !== null"):
        box = js("""(() => { window.zoomed = [...document.querySelectorAll('.charts:is(.large,.three) figure svg')][0]; zoomed.scrollIntoView();
            const box = zoomed.getBoundingClientRect(); return [box.x, box.y, box.width, box.height] })()""")
        whole, seen = js("zoomed.getAttribute('viewBox')"), []
        drag = [("mousePressed", 0.4, 1), ("mouseMoved", 0.5, 1), ("mouseReleased", 0.6, 1)]
        for steps in (drag, [(kind, 0.5, clicks) for clicks in (1, 2) for kind in ("mousePressed", "mouseReleased")]):
            for kind, share, clicks in steps:
                browser.ask("Input.dispatchMouseEvent", type=kind, x=box[0] + share * box[2], y=box[1] + share * box[3],
                            button="left", clickCount=clicks)
            seen.append(js("zoomed.getAttribute('viewBox')"))
        if seen[0] == whole or seen[1] != whole:
            wrong.append(f"dragging and two clicks show {seen} of {whole}")

    # On paper: light, and no chart wider than its place.
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    pdf = browser.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"]
    keep(page, ".pdf", pdf)
    browser.ask("Emulation.setEmulatedMedia", media="print")
    browser.ask("Emulation.setDeviceMetricsOverride", width=703, height=1000, deviceScaleFactor=1, mobile=False)
    cut = js("""[...document.querySelectorAll('figure[id^=chart-]')].filter(c => c.checkVisibility())
        .filter(c => { const svg = [...c.querySelectorAll('svg')].find(svg => svg.checkVisibility()).getBoundingClientRect(), box = c.getBoundingClientRect();
            return svg.right > Math.min(box.right, innerWidth) + 2 || svg.bottom > box.bottom + 2 })
        .map(c => c.getAttribute('aria-label'))""")
    if cut:
        wrong.append(f"cut on paper: {cut}")
    ink = js("getComputedStyle(document.querySelector('figure text') || document.body).fill")
    if charts and ink != "rgb(31, 41, 51)":
        wrong.append(f"on paper the text of charts is {ink}")

    # Heads of tables sort by numbers as they are written: sourceIDs have 16 for their base.
    order = js("""(() => { const button = document.querySelector('th:first-child button'); if (!button) return [];
        const body = button.closest('table').tBodies[0], row = body.rows[0];
        body.replaceChildren(...['0x9', '0x2801', '0x402'].map(text => {
            const copy = row.cloneNode(true); copy.cells[0].textContent = text; return copy; }));
        button.closest('th').removeAttribute('aria-sort');
        return [0, 1].map(() => { button.click(); return [...body.rows].map(row => row.cells[0].textContent).join() }) })()""")
    if order not in ([], ["0x2801,0x402,0x9", "0x9,0x402,0x2801"]):
        wrong.append(f"tables sort sourceIDs as {order}")
    return wrong


def main():
    program, *pages = sys.argv[1:]
    failed = False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            for page in pages:
                looks = [(width, scheme) for width in (400, 1400) for scheme in ("light", "dark")]
                found = {f"{width} px, {scheme}": look(browser, page, width, scheme) for width, scheme in looks}
                found["by keyboard, ear and on paper"] = check(browser, page)
                for how, wrong in found.items():
                    failed |= bool(wrong)
                    print(f"{pathlib.Path(page).stem}, {how}: {'; '.join(wrong) or 'good'}", flush=True)
        finally:
            browser.process.terminate()
            browser.process.wait()
    sys.exit(failed)


main()
