"""Cutting a job into splits that other processes do. What engine starts those processes is not known here.

A split is a file, first and last byte, and the events before it; it can be pickled, with the tables it needs. The hits of
all splits, one behind the other, are the hits of the files: how they were cut changes nothing.
"""

import atexit
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Unpack

from . import _native
from ._decode import Name, Options, SplitOptions, files_of, request_of
from ._hits import BrokenEvent, Hits, Summary
from ._split import Split
from ._tables import Tables

_OWNER = os.getpid()


@atexit.register
def _remove_unfinished() -> None:
    """After Ctrl-C the thread that writes may still wait for its input; a process forked from this one owns no file."""
    if os.getpid() == _OWNER:
        _native.remove_unfinished()


def plan(
    files: Name | Iterable[Name],
    tables: Tables | None = None,
    *,
    events: int = 50_000,
    count: bool = False,
    **options: Unpack[SplitOptions],
) -> list[Split]:
    """Cuts files into splits of `events` events, the last of a file with fewer; MEP packets stay whole.

    Looks at the headers of events only. A compressed file or a dump is one split, and nothing of it is read but its
    beginning. A damaged file is cut as far as it can be followed; who decodes its last split gets the error.

    Args:
        files: files, folders and patterns, as of `decode`. Their names must mean the same where the splits are decoded:
            make them absolute if that is another folder.
        tables: the detector, which goes with each split.
        events: events of a split.
        count: count the events of what is not read otherwise, too, as far as others come behind it, so that every split knows
            its `first_place`: `run_sums` needs it. Compressed files are unpacked for it.
        **options: see `SplitOptions`; they go with each split.

    Raises:
        InputError: a file cannot be opened, or is of a format that is not taken.
    """
    if events < 1:
        raise ValueError(f"events: {events} is less than 1")
    for name in options.keys() - SplitOptions.__annotations__.keys():
        raise TypeError(f"{name}: no option of a split, which does not know its place among all events")
    several = [files] if isinstance(files, str | os.PathLike) else files
    asked = dict(options)
    splits = [
        Split(file, *section, tables, asked)
        for one in several
        for file in files_of(one)
        for section in _native.sections(file, events)
    ]
    uncounted = [split for split in splits[:-1] if split.n_events is None] if count else []
    return placed(splits, {id(split): count_events(split) for split in uncounted})


def count_events(split: Split) -> int:
    """The events of a split, which is read for it; with the option `keep_going`, those before damage."""
    part = (split.file, split.start, split.stop, split.first_event)
    return _native.count(part, bool(split.options.get("keep_going")))


def placed(splits: list[Split], counts: dict[int, int]) -> list[Split]:
    """The splits with their `first_place`, as far as their numbers of events are known, from `counts` by the `id` of a split,
    if not otherwise."""
    found: list[Split] = []
    place: int | None = 0
    for split in splits:
        found.append(replace(split, first_place=place))
        n_events = counts.get(id(split), split.n_events)
        place = None if place is None or n_events is None else place + n_events
    return found


def decode_to_parquet(
    inputs: Any,
    path: Name,
    tables: Tables | None = None,
    *,
    compression: str = "zstd",
    **options: Unpack[Options],
) -> Summary:
    """Decodes into a Parquet file with the columns of `docs/files.md`, without the hits in memory.

    The file appears under its name when it is whole, or not at all; a second attempt replaces it by the same rows.

    Args:
        inputs, tables, **options: as of `decode`; a file has all of `Hits.COLUMNS`, and those of `Hits.DETECTOR_COLUMNS`
            that `columns` names.
        path: the file.
        compression: "zstd", or "lz4", which is faster and larger.

    Raises:
        As `decode`, and OutputError where the file cannot be written.
    """
    request, files = request_of(inputs, tables, options)
    native = request["tables"]
    entries = {
        "version": _native.VERSION,
        "backend": request["backend"],
        "layout": "as read",
        "clustering": str(request["clustering"]).lower(),
        "position": request["position"],
        "max_cluster_size": request["max_cluster_size"],
        "save_above_max": str(request["save_above_max"]).lower(),
        "flip": request["flip"],
        "grouping": native.grouping,
        "boards": native.boards,
        "geometry": native.geometry,
        "bank_version": native.bank_version,
        "inputs": "\n".join(files),
    }
    named = [(key, str(value)) for key, value in entries.items()]
    done = _native.to_parquet(request, os.fspath(path), compression, named)
    report = dict(zip(Hits.COUNTS, done["counts"], strict=True))
    broken = [BrokenEvent(*row) for row in done["damages"]]
    return Summary(done["events"], done["hits"], report, broken, done["failures"])
