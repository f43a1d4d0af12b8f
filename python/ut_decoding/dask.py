"""Splits on a Dask cluster.

The work is done by `decode` and `decode_to_parquet`, one split per task. A task depends on nothing but its split, writes
its file whole or not at all, and gives the same hits wherever and however often it runs; so Dask may run it again on another
worker when one dies.
"""

import operator
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Unpack

from ._decode import Name, decode, request_of, several_of, spare
from ._hits import Hits, Summary
from ._options import SplitOptions, takes
from ._plan import count_events, decode_to_parquet, placed, plan
from ._report import RunSums, of_every_run, run_sums
from ._split import Split
from ._tables import Tables

if TYPE_CHECKING:
    import awkward
    import pandas
    from distributed import Client

Files = Name | Iterable[Name]

ADDED_AT_A_TIME = 16
"""Sums that one task adds."""


@takes(SplitOptions)
def from_files(
    files: Files, tables: Tables, *, kind: str = "bag", events: int = 50_000, **options: Unpack[SplitOptions]
) -> Any:
    """The hits of files as a Dask collection, one partition per split. Nothing is decoded before it is computed.

    Args:
        files: files, folders and patterns, under names that every worker knows.
        tables: the detector.
        kind: "bag", a `dask.bag.Bag` of `Hits`; "dataframe", a `dask.dataframe.DataFrame` with the columns of `Hits.to_pandas`,
            of which only those that are used are decoded (`event_index` is not among them if a compressed file, whose events are
            not counted, comes before another); or "awkward", a `dask_awkward.Array` as of `Hits.to_awkward`,
            which dask-awkward 2025.3.0 cannot compute with the dask of today (2026.8).
        events: events of a split.
        **options
    """
    if kind not in ("bag", "dataframe", "awkward"):
        raise ValueError(f"kind: {kind!r} is neither bag, dataframe nor awkward")
    splits = plan(files, tables, events=events, **options)
    if kind == "bag":
        return to_bag(splits)
    nothing = decode(b"", tables, **options)
    if kind == "dataframe":
        import dask.dataframe
        from dask.dataframe.utils import clear_known_categories

        frames = _Frames(all(split.first_place is not None for split in splits))
        # Each partition has the files of its split as categories.
        return dask.dataframe.from_map(frames, splits, meta=clear_known_categories(frames.of(nothing), ["file"]))
    import awkward as ak
    import dask_awkward

    form = ak.Array(nothing.to_awkward().layout.to_typetracer(forget_length=True))
    return dask_awkward.from_map(_awkward, splits, label="ut-hits", meta=form)


def to_bag(splits: list[Split]) -> Any:
    """Returns splits as a bag of `Hits`, one per partition."""
    import dask.bag

    return dask.bag.from_sequence(splits, partition_size=1).map(decode)


@takes(SplitOptions)
def to_parquet(
    files: Files,
    folder: Name,
    tables: Tables,
    *,
    client: "Client | None" = None,
    events: int = 50_000,
    retries: int = 3,
    **options: Unpack[SplitOptions],
) -> Summary:
    """Decodes files into a folder of Parquet files, `part-00000.parquet` and so on, one per split, in the order of events.

    Every file is complete or absent, even if workers die; where a split fails `retries` times more, its error is raised, and
    the files of the other splits stay. Called again with the same arguments it writes the same rows.

    Args:
        files, tables, events: as of `from_files`.
        folder: a folder that every worker can write to; made if it is not there.
        client: the cluster; without it, processes of this machine; if one of them dies, the call fails.
        retries: how often a split that failed is tried again.
        **options

    Returns:
        What was decoded and what was wrong, over all splits.
    """
    splits = plan(files, tables, events=events, **options)
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(os.path.abspath(folder), f"part-{i:05}.parquet") for i in range(len(splits))]
    if client is None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            return sum(pool.map(partial(_tried, retries), splits, paths), Summary())
    # What a task does is not a pure function of its arguments: it writes a file.
    jobs = client.map(decode_to_parquet, splits, paths, retries=retries, pure=False)
    return sum(client.gather(jobs), Summary())


@takes(SplitOptions)
def report(
    files: Files,
    tables: Tables,
    page: Name,
    client: "Client",
    *,
    compare: Files | None = None,
    events: int = 50_000,
    retries: int = 3,
    **options: Unpack[SplitOptions],
) -> dict[str, Any]:
    """`ut_decoding.report` by the workers of a cluster: they sum up a split each and add the sums, and here the page is drawn,
    byte for byte that of one process.

    Args:
        files, tables, page, compare: as of `ut_decoding.report`; workers must know the files by the same names.
        client: the cluster.
        events: events of a split.
        retries: how often a split that failed is tried again.
        **options

    Returns:
        What stands out, and the sums.
    """
    files, compare = several_of(files), None if compare is None else several_of(compare)
    spare(page, request_of([*files, *(compare or [])], tables, {})[0]["read"])
    first = _sums(files, tables, client, events, retries, options)
    second = None if compare is None else _sums(compare, tables, client, events, retries, of_every_run(options))
    return first.write_page(page, second)


def _sums(files: Files, tables: Tables, client: "Client", events: int, retries: int, options: Any) -> RunSums:
    """The sums of a run."""
    splits = plan(files, tables, events=events, **options)
    if not splits:
        return run_sums([], tables, **options)
    uncounted = [split for split in splits[:-1] if split.n_events is None]
    counts = client.gather(client.map(count_events, uncounted, retries=retries))
    splits = placed(splits, dict(zip(map(id, uncounted), counts, strict=True)))
    parts = client.map(run_sums, splits, retries=retries)
    while len(parts) > 1:
        groups = [parts[i : i + ADDED_AT_A_TIME] for i in range(0, len(parts), ADDED_AT_A_TIME)]
        parts = client.map(_add, groups, retries=retries)
    return client.gather(parts[0])


def _add(parts: list[RunSums]) -> RunSums:
    return reduce(operator.add, parts)


@dataclass(frozen=True)
class _Frames:
    """Splits as data frames, with only the columns that Dask asks for."""

    has_index: bool

    def of(self, hits: Hits) -> "pandas.DataFrame":
        frame = hits.to_pandas()
        return frame if self.has_index else frame.drop(columns="event_index")

    def __call__(self, split: Split, columns: list[str] | None = None) -> "pandas.DataFrame":
        known: Any = split.options.get("columns") if columns is None else [name for name in columns if name in Hits.ALL_COLUMNS]
        frame = self.of(decode(split, columns=known))
        return frame if columns is None else frame[columns]


def _awkward(split: Split) -> "awkward.Array":
    return decode(split).to_awkward()


def _tried(retries: int, split: Split, path: str) -> Summary:
    """`decode_to_parquet`, retried if there is no cluster that retries."""
    for _ in range(retries):
        with suppress(Exception):
            return decode_to_parquet(split, path)
    return decode_to_parquet(split, path)
