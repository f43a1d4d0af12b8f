"""Cuts a job into splits for other processes. Any engine may start those processes.

A split is a file, first and last byte, and the events before it; it can be pickled, with the tables it needs. The hits of
all splits, one after the other, are the hits of the files: how they were cut changes nothing.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Unpack

from . import _native
from ._decode import Inputs, Name, files_of, is_url, part_of, request_of, several_of, spare
from ._hits import BrokenEvent, Hits, Summary
from ._loss import Loss, judge
from ._options import DEFAULTS, Options, SplitOptions, checked, integer, takes
from ._output import Target, written
from ._split import Split
from ._tables import Tables


@takes(SplitOptions)
def plan(
    files: Name | Iterable[Name],
    tables: Tables | None = None,
    *,
    events: int = 50_000,
    count: bool = False,
    **options: Unpack[SplitOptions],
) -> list[Split]:
    """Cuts files into splits of `events` events, the last of a file with fewer; MEP packets stay whole.

    Looks at the headers of events only. A compressed file, a dump or a URL is one split, and nothing of it is read but its
    beginning. A damaged file is cut as far as it can be followed; who decodes its last split gets the error.

    Args:
        files: files, folders and patterns, as of `decode`. Their names must mean the same where the splits are decoded:
            make them absolute if that is another folder.
        tables: the detector, which goes with each split.
        events: events of a split.
        count: count the events of what is not read otherwise, too, so that every split knows its `n_events`, and its
            `first_place`, which `run_sums` needs. Compressed files are unpacked for it.
        **options

    Raises:
        InputError: a file cannot be opened, or is of a format that is not taken; or it is counted and damaged, without
            `keep_going`.
        ValueError: an option is invalid, or a file is a pipe or standard input: who decodes a split opens it again.
    """
    events = integer("events", events)
    if events < 1:
        raise ValueError(f"events: {events} is less than 1")
    for name in sorted(options.keys() & DEFAULTS.keys() - SplitOptions.__annotations__.keys()):
        raise TypeError(f"{name}: plan has no such option: a split does not know its place among all events")
    several = several_of(files)
    for one in several:
        if not isinstance(one, str | os.PathLike):
            raise TypeError(f"plan takes names of files, which other processes open, not {type(one).__name__}")
    asked = checked(options)
    splits = [
        Split(file, *section, tables, asked)
        for one in several
        for file in files_of(one)
        for section in ([(0, 0, 0, None)] if is_url(file) else _native.sections(file, events))
    ]
    uncounted = [split for split in splits if split.n_events is None] if count else []
    return placed(splits, {id(split): count_events(split) for split in uncounted})


def count_events(split: Split) -> int:
    """The events of a split, which is read for it; with the option `keep_going`, those before damage."""
    return _native.count(part_of(split), bool(split.options.get("keep_going")))


def placed(splits: list[Split], counts: dict[int, int]) -> list[Split]:
    """The splits with `n_events` and `first_place`, as far as their numbers of events are known, from `counts` by the `id` of a
    split, if not otherwise."""
    found: list[Split] = []
    place: int | None = 0
    for split in splits:
        n_events = counts.get(id(split), split.n_events)
        found.append(replace(split, n_events=n_events, first_place=place))
        place = None if place is None or n_events is None else place + n_events
    return found


@takes(Options)
def decode_to_parquet(
    inputs: Inputs,
    path: Target,
    tables: Tables | None = None,
    **options: Unpack[Options],
) -> Summary:
    """Decodes into a Parquet file, without the hits in memory: `event`, `run`, `event_number`, `group`, `file` and the columns.

    The file appears under its name when it is complete, or not at all; a second attempt replaces it by the same rows.

    Args:
        inputs, tables: as of `decode`.
        path: the file: a local path, a URL that fsspec writes to, or a binary file object.
        **options

    Raises:
        As `decode`, and OutputError where the file cannot be written; ValueError where it would replace an input or a table.
    """
    request, _ = request_of(inputs, tables, options)
    spare(path, request["read"])
    if isinstance(path, str | os.PathLike) and not is_url(os.fspath(path)):
        done = _native.to_parquet(request, os.fspath(path))
    else:
        with written(path) as file:
            done = _native.to_parquet(request, file)
    report = dict(zip(Hits.COUNTS, done["counts"], strict=True))
    broken = [BrokenEvent(*row) for row in done["damages"]]
    loss = Loss(tuple(done["loss"]))
    judge(loss, request["max_loss"])
    return Summary(done["events"], done["hits"], report, broken, done["failures"], loss, done["masked"])
