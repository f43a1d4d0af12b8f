"""Checks that what the pages (*.md) point to is there: files and headings behind links, paths of this repository, and names
from the code such as `SizeBins` or `warp_scan::warp_inclusive`.

    python3 tests/documents.py

Ends with an error after listing everything that is not there.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = "benches|capi|docs|examples|fixtures|fuzz|host|kernels|page|python|simt|tests|tuner"
# A path of this repository: not one behind another folder, as in a link, and no pattern.
PATH = re.compile(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]*[\w/](?![\w*<>…])")
# Pages full of names from other projects, single names of others, and folders that are there only after a run.
ELSEWHERE = {"docs/tables.md"}
OTHERS = {"AllenConf", "AllenCore", "decode_ut", "decode_ut_v2", "decode_ut_v3", "decoder_version", "mul_add", "ut_reconstruction"}
MADE = {"fuzz/corpus", "fuzz/crashes"}


def headings(page):
    """The anchors of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        yield re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")


def main():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True)
    files = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    there = set(files) | {str(folder) for name in files for folder in Path(name).parents}
    # Not this file, which names what is not there.
    sources = (name for name in files if not name.endswith((".md", ".svg", ".csv")) and name != "tests/documents.py")
    words = {word for name in sources for word in re.findall(r"\w+", (ROOT / name).read_text(errors="replace"))}
    words |= OTHERS | {Path(name).stem for name in files}
    pages = [name for name in files if name.endswith(".md")]
    wrong = []
    for name in pages:
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            here = f"{name}:{number}"
            for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", line):
                page = Path(os.path.normpath(Path(name).parent / target)) if target else Path(name)
                if str(page) not in there:
                    wrong.append(f"{here}: no file {page}")
                elif anchor and anchor not in headings(ROOT / page):
                    wrong.append(f"{here}: {page} has no heading #{anchor}")
            for path in PATH.findall(line):
                beside = os.path.normpath(Path(name).parent / path)
                if path.rstrip("/") not in there | MADE and beside not in there:
                    wrong.append(f"{here}: no file {path}")
            if name in ELSEWHERE:
                continue
            for code in re.findall(r"`([^`]+)`", line):
                for word in re.findall(r"\w+(?:::\w+)+|\b[A-Z]\w*[a-z]\w*[A-Z]\w*|\b[a-z]\w*_\w*[a-z0-9]\b(?!…)", code):
                    if gone := [part for part in word.split("::") if part not in words]:
                        wrong.append(f"{here}: nothing is called {gone[0]} in `{code}`")
    print("\n".join(wrong) or f"{len(pages)} pages, everything that they point to is there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
