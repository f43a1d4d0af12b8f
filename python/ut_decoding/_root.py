"""Hits in ROOT files, by uproot."""

import os
import tempfile
from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np

from ._decode import Name, iterate, request_of, several_of, spare
from ._hits import Hits, Summary
from ._options import Options, takes
from ._tables import Tables


@takes(Options)
def decode_to_root(
    inputs: Any,
    path: Name,
    tables: Tables | None = None,
    *,
    format: str = "rntuple",
    step: int | str = "32 MB",
    **options: Unpack[Options],
) -> Summary:
    """Decodes into a ROOT file, in bounded memory, with uproot.

    `hits` has an entry a hit: `event_index`, `group`, and the columns. `events` has an entry an event: `index`, to which
    `event_index` refers, `event` (the place in its file), `file` (the place among the lines of `files`), `run` and
    `event_number` (0 where unknown, as `has_run` and `has_event_number` say), `first_hit` and `n_hits`. What has no value is the
    greatest of its type. The file appears under its name when it is whole.

    Args:
        inputs, tables: as of `decode`.
        path: the file.
        format: "rntuple", or "ttree" for ROOT before 6.36.
        step: events, or memory, of a cluster of entries.
        **options

    Raises:
        As `decode`; ValueError where it would replace an input or a table.
    """
    inputs = several_of(inputs)
    spare(path, request_of(inputs, tables, options)[0]["read"])
    return write(iterate(inputs, tables, step=step, **options), path, format)


def write(parts: Iterator[Hits], path: Name, format: str) -> Summary:
    """Writes hits of events that follow each other."""
    import uproot

    if format not in ("rntuple", "ttree"):
        raise ValueError(f"format: {format!r} is neither rntuple nor ttree")
    summary, files, tables = Summary(), [""], dict[str, Any]()
    folder, name = os.path.split(os.path.abspath(path))
    with tempfile.TemporaryDirectory(prefix=".ut-decode-", dir=folder) as made:
        with uproot.recreate(os.path.join(made, name)) as file:
            make = file.mkrntuple if format == "rntuple" else file.mktree
            for hits in parts:
                for table, columns in (("hits", _hits(hits)), ("events", _events(hits, summary.hits))):
                    if table not in tables:
                        tables[table] = make(table, {key: values.dtype for key, values in columns.items()})
                    tables[table].extend(columns)
                summary, files = summary + hits.summary, hits.files
            file["files"] = "\n".join(os.fsencode(one).decode(errors="backslashreplace") for one in files)
        os.replace(os.path.join(made, name), path)
    return summary


def _hits(hits: Hits) -> dict[str, Any]:
    """The columns of `hits`; what is masked gets the greatest value."""
    columns: dict[str, Any] = {"event_index": hits.event_index, "group": hits.group} | hits.columns
    return {name: np.ma.filled(values, _greatest(values)) for name, values in columns.items()}


def _greatest(values: Any) -> Any:
    return np.iinfo(values.dtype).max if values.dtype.kind == "u" else None


def _events(hits: Hits, first: int) -> dict[str, Any]:
    """The columns of `events`, with `first` hits before."""
    events, n = hits.events, hits.hits_per_event
    columns = {"index": events.index, "event": events.event, "file": events.file}
    for name in ("run", "event_number"):
        values = getattr(events, name)
        columns |= {name: np.ma.filled(values, 0), f"has_{name}": ~np.ma.getmaskarray(values)}
    return columns | {"first_hit": first + np.cumsum(n) - n, "n_hits": n}
