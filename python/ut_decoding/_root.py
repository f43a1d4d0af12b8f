"""Hits in ROOT files, by uproot."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from ._decode import Inputs, iterate, request_of, several_of, spare
from ._hits import Hits, Summary
from ._options import Options, takes
from ._output import Target, written
from ._tables import Tables

if TYPE_CHECKING:
    import awkward

FACTS = ("run", "event_number", "time", "bcid", "crossing")
"""Facts about events that ROOT files have."""


@takes(Options)
def decode_to_root(
    inputs: Inputs,
    path: Target,
    tables: Tables | None = None,
    *,
    format: Literal["rntuple", "ttree"] = "rntuple",
    jagged: bool = True,
    step: int | str = "32 MB",
    **options: Unpack[Options],
) -> Summary:
    """Decodes into a ROOT file, in bounded memory, with uproot.

    `events` has one entry per event: `event_index`, `event` (its place in the file), `file` (the place among the lines of
    `files`), `run`, `event_number`, `time` (microseconds since 1970, UTC), `bcid`, `crossing` (0 none, 1 beam 1, 2 beam 2, 3
    both), the counters by name, `first_hit` and `n_hits`. A fact that the event does not tell is 0, and `has_run` and its like
    are false.

    The hits are jagged branches of `events`, `group` and one per column: RDataFrame reads each as an `RVec`. In a TTree their
    counter branch is `n_hits`. With `jagged=False`, `hits` has one entry per hit instead, whose `event_index` refers to
    `events`. Columns that v4 banks do not tell have no branch.

    Args:
        inputs, tables: as of `decode`.
        path: the file: a local path, a URL that fsspec writes to, or a binary file object. It appears under its name when it
            is whole.
        format: "rntuple", or "ttree" for ROOT before 6.36.
        jagged: one entry per event with all its hits; otherwise one entry per hit.
        step: events, or memory, of a cluster of entries.
        **options

    Raises:
        As `decode`; OutputError where the file cannot be written; ValueError where it would replace an input or a table.
    """
    inputs = several_of(inputs)
    spare(path, request_of(inputs, tables, options)[0]["read"])
    return write(iterate(inputs, tables, step=step, **options), path, format, jagged)


def write(parts: Iterator[Hits], path: Target, format: str, jagged: bool) -> Summary:
    """Writes hits of consecutive events."""
    import uproot

    if format not in ("rntuple", "ttree"):
        raise ValueError(f"format: {format!r} is neither rntuple nor ttree")
    summary, files, trees = Summary(), [""], dict[str, Any]()
    with written(path) as made, uproot.recreate(made) as file:
        for hits in parts:
            tables = {"events": _events(hits, summary.hits)}
            if not jagged:
                tables["hits"] = {"event_index": hits.event_index, "group": hits.group, **hits.columns}
            elif format == "ttree":
                # uproot makes one counter branch for the fields of a record.
                del tables["events"]["n_hits"]
                tables["events"]["hits"] = _records(hits)
            else:
                tables["events"] |= _lists(hits)
            for name, columns in tables.items():
                if name not in trees:
                    trees[name] = _tree(file, format, name, columns)
                trees[name].extend(columns)
            summary, files = summary + hits.summary, hits.files
        file["files"] = "\n".join(os.fsencode(one).decode(errors="backslashreplace") for one in files)
    return summary


def _tree(file: Any, format: str, name: str, columns: dict[str, Any]) -> Any:
    types = {key: getattr(values, "dtype", None) or values.layout.form.type for key, values in columns.items()}
    if format == "rntuple":
        return file.mkrntuple(name, types)
    return file.mktree(name, types, counter_name=lambda counted: f"n_{counted}", field_name=lambda outer, inner: inner or outer)


def _lists(hits: Hits) -> "dict[str, awkward.Array]":
    """Returns `group` and the columns as lists of events."""
    import awkward as ak

    ends = ak.index.Index64(hits.offsets[:: hits.n_groups])
    columns = {"group": hits.group, **hits.columns}
    return {
        name: ak.Array(ak.contents.ListOffsetArray(ends, ak.contents.NumpyArray(column))) for name, column in columns.items()
    }


def _records(hits: Hits) -> "awkward.Array":
    """Returns the hits of each event as a list of records with `group` and the columns."""
    import awkward as ak

    return ak.zip(_lists(hits))


def _events(hits: Hits, first: int) -> dict[str, Any]:
    """Returns the columns of `events`, with `first` hits in the entries before."""
    events, n = hits.events, hits.hits_per_event
    columns: dict[str, Any] = {"event_index": events.index, "event": events.event, "file": events.file}
    for name in FACTS:
        values, known = events._facts[name]
        values = values.view(np.int64) if values.dtype.kind == "M" else values
        columns |= {name: np.where(known, values, np.zeros((), values.dtype)), f"has_{name}": known.astype(bool)}
    columns |= {name: events.counts[:, i] for i, name in enumerate(Hits.COUNTS)}
    return columns | {"first_hit": first + np.cumsum(n) - n, "n_hits": n}
