"""Hits that are decoded on a GPU and stay there."""

from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from . import _native
from ._decode import Options, request_of
from ._hits import Hits
from ._tables import Tables

DeviceColumn = _native.DeviceColumn


class DeviceHits:
    """Hits of consecutive events in the memory of a GPU.

    Every column has `__dlpack__` and `__cuda_array_interface__`: `torch.from_dlpack(hits.x_at_y_eq0)` and
    `cupy.from_dlpack` take it without a copy. It is whole when you get it, so that any stream may use it, and stays where it
    is until the last user drops it.
    """

    n_events: int
    """Events."""
    n_groups: int
    """Sector groups of an event."""
    columns: dict[str, DeviceColumn]
    """The columns of `Hits.COLUMNS` that were asked for, by name; shape (hits,)."""
    offsets: DeviceColumn
    """The hits of group g of event e are `offsets[e * n_groups + g]` to the next offset; uint32, shape
    (events * groups + 1,)."""
    report: DeviceColumn
    """What the device counted of each event, event by event: the columns of `Hits.COUNTS`; uint32, shape (events * 15,). What
    only the reader knows is beside it."""
    other_banks: npt.NDArray[np.uint32]
    """Of each event, banks that were left out because their type is none of the UT's: they add to `other_types`."""
    broken: npt.NDArray[np.bool_]
    """Events that were given up before their end, `broken_event` of `Hits.report`."""
    event: npt.NDArray[np.uint64]
    """Place of each event in its file, in the memory of the host."""
    file: npt.NDArray[np.uint32]
    """File of each event: `files[file]`."""
    files: list[str]
    """The names of the inputs."""

    def __init__(self, batch: dict[str, Any], names: list[str], files: list[str]) -> None:
        self.columns = {name: batch["columns"][name] for name in names}
        self.offsets, self.n_groups, self.files = batch["offsets"], batch["n_groups"], files
        self.report = batch["report"]
        self.other_banks, self.broken = np.asarray(batch["other_banks"]), np.asarray(batch["broken"])
        self.event, self.file = np.asarray(batch["event"]), np.asarray(batch["file"])
        self.n_events, self._len = len(self.event), len(batch["columns"]["lhcb_id"])

    def __getattr__(self, name: str) -> DeviceColumn:
        if name in Hits.COLUMNS and name in self.columns:
            return self.columns[name]
        raise AttributeError(f"these hits have no {name!r}")

    def __len__(self) -> int:
        return self._len

    def __repr__(self) -> str:
        return f"DeviceHits({self.n_events} events, {len(self)} hits)"


def iterate_on_gpu(
    inputs: Any, tables: Tables | None = None, *, device: int = 0, stream: int | None = None, **options: Unpack[Options]
) -> Iterator[DeviceHits]:
    """Decodes the inputs on an NVIDIA GPU and leaves the hits there, a batch at a time: the bits of `decode`.

    Args:
        inputs, tables, **options: as of `decode`; `batch` is the number of events at a time, at most.
        device: which GPU, numbered from 0.
        stream: do the work on this stream, a number as `torch.cuda.Stream().cuda_stream` or `cupy.cuda.Stream().ptr`, behind
            what is on it. It must be a stream of that GPU's primary context, which these libraries use, and live until the
            iterator is done: the driver cannot tell whether a number is one. 1 is the default stream.

    Raises:
        As `decode`; DecodeError where there is no GPU that can do it; ValueError for `keep_going`, another backend, and columns
            of the detector.
    """
    request, files = request_of(inputs, tables, {"backend": "cuda", **options})
    names = list(request["columns"])
    job = _native.DeviceJob(request, device, stream)

    def batches() -> Iterator[DeviceHits]:
        while (batch := job.next()) is not None:
            yield DeviceHits(batch, names, files)

    return batches()
