"""The page of a run, as `ut-decode report` draws it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from ._decode import Name, files_of
from ._errors import Error
from ._tables import Tables


def report(
    files: Name | Iterable[Name],
    tables: Tables,
    page: Name,
    *,
    compare: Name | Iterable[Name] | None = None,
    threads: int = 0,
    checksum: bool = True,
    keep_going: bool = False,
) -> dict[str, Any]:
    """Draws what the detector did during a run on a page that needs nothing else: events, troubles, maps of hits and charge,
    what is dead or hot, and all of it against time. `docs/report.md` says what each picture means. Memory does not grow with
    the number of events.

    Args:
        files: files, folders and patterns, as of `decode`.
        tables: the detector.
        page: the HTML file to write, whole or not at all.
        compare: a second run, which is drawn beside the first.
        threads, checksum, keep_going: as of `decode`.

    Returns:
        What stands out, and the sums: the JSON of `ut-decode report --json`.

    Raises:
        Error: a file cannot be read, or the page cannot be written.

    The tool does the work, in a process of its own.
    """
    with tempfile.TemporaryDirectory() as folder:
        boards, geometry, found = (os.path.join(folder, name) for name in ("boards.bin", "geometry.bin", "report.json"))
        for path, content in zip((boards, geometry), tables.to_bytes(), strict=True):
            with open(path, "wb") as file:
                file.write(content)
        options = ["--boards", boards, "--geometry", geometry, "--grouping", tables.grouping]
        options += ["--output", os.fspath(page), "--json", found, "--threads", str(threads), "--quiet"]
        options += [] if checksum else ["--no-checksum"]
        options += ["--keep-going"] if keep_going else []
        for name in _all(compare) if compare is not None else []:
            options += ["--compare", name]
        command = [sys.executable, "-P", "-m", __package__, "report", *options, "--", *_all(files)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if done.returncode != 0:
            message = done.stderr.decode(errors="replace").strip()
            raise Error(message.removeprefix("error: ") or f"ut-decode report ended with {done.returncode}")
        with open(found, encoding="utf-8") as file:
            return dict(json.load(file))


def _all(names: Name | Iterable[Name]) -> list[str]:
    several = [names] if isinstance(names, str | os.PathLike) else names
    return [file for name in several for file in files_of(name)]
