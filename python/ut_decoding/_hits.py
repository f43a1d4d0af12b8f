"""Hits as columns."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import Error

if TYPE_CHECKING:
    import awkward
    import pyarrow

Floats = npt.NDArray[np.float32]


class BrokenEvent(NamedTuple):
    """An event that was given up before its end, and why."""

    file: str
    """The file."""
    event: int
    """Event of the file, from 0."""
    bank: int | None
    """Bank of the event, from 0, where it is a single one."""
    byte: int
    """Byte of the file at which the event begins."""
    message: str
    """What is wrong."""


@dataclass(frozen=True, eq=False)
class Events:
    """What is known of each event. All arrays have a row an event and are read-only."""

    event: npt.NDArray[np.uint64]
    """Place of the event in its file, from 0."""
    file: npt.NDArray[np.uint32]
    """Its file, as a place in `Hits.files`."""
    run: Any
    """Run number, masked where neither ODIN nor the container tells it; uint32."""
    event_number: Any
    """Event number, masked where ODIN does not tell it; uint64."""
    counts: npt.NDArray[np.uint32]
    """What was counted, shape (events, 15): the columns are `Hits.COUNTS`."""

    def __post_init__(self) -> None:
        for name in ("run", "event_number"):
            object.__setattr__(self, name, _frozen_masked(getattr(self, name)))
        for array in (self.event, self.file, self.counts):
            array.setflags(write=False)

    def _rows(self, rows: slice) -> "Events":
        return Events(self.event[rows], self.file[rows], self.run[rows], self.event_number[rows], self.counts[rows])


class Hits:
    """The hits of events that follow each other, a NumPy array a column; ordered by event, sector group, x and LHCbID.

    Columns are read-only and lie in the memory that the decoder wrote: nothing is copied. They have one item a hit and are
    attributes: `hits.x_at_y_eq0`. `len(hits)` is the number of hits.

    `Hits` can be pickled, go to pyarrow, polars or duckdb through Arrow's C interface, and to awkward.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = tuple(_native.COLUMNS)
    """Names of the columns that there are where none are asked for."""
    DETECTOR_COLUMNS: ClassVar[tuple[str, ...]] = tuple(_native.DETECTOR_COLUMNS)
    """Names of the columns that come on request (`columns=`), `docs/columns.md`."""
    COUNTS: ClassVar[tuple[str, ...]] = tuple(name for name, _ in _native.COUNTS)
    """Names of what is counted."""
    TROUBLES: ClassVar[tuple[str, ...]] = tuple(name for name, kind in _native.COUNTS if kind == "trouble")
    """Those of them that say that something is wrong with the data."""

    columns: dict[str, npt.NDArray[Any]]
    """The columns that were asked for, by name."""
    offsets: npt.NDArray[np.int64]
    """Ends of groups, shape (events * groups + 1,): the hits of group g of event e are
    `offsets[e * n_groups + g]` to `offsets[e * n_groups + g + 1]`."""
    n_groups: int
    """Sector groups of an event."""
    events: Events
    """What is known of each event."""
    files: list[str]
    """Names of the inputs."""
    broken_events: list[BrokenEvent]
    """Of the first events that were given up before their end, why. `report["broken_event"]` counts all."""
    failures: list[Error]
    """With `keep_going`: why files could not be read to their end."""

    def __init__(
        self,
        columns: dict[str, npt.NDArray[Any]],
        offsets: npt.NDArray[np.int64],
        n_groups: int,
        events: Events,
        files: list[str],
        broken_events: list[BrokenEvent],
        failures: list[Error],
    ) -> None:
        self.columns, self.offsets, self.n_groups, self.events = columns, offsets, n_groups, events
        self.files, self.broken_events, self.failures = files, broken_events, failures
        for array in [*columns.values(), offsets]:
            array.setflags(write=False)

    @classmethod
    def _of_piece(cls, piece: dict[str, Any], files: list[str]) -> "Hits":
        def masked(name: str) -> Any:
            known = np.asarray(piece[f"has_{name}"])
            return np.ma.MaskedArray(np.asarray(piece[name]), mask=~known)

        asarray = np.asarray
        events = Events(
            asarray(piece["event"]),
            asarray(piece["file"]),
            masked("run"),
            masked("event_number"),
            asarray(piece["counts"]),
        )
        columns = {name: asarray(column) for name, column in piece["columns"].items()}
        broken = [BrokenEvent(*row) for row in piece["damages"]]
        return cls(columns, asarray(piece["offsets"]), piece["n_groups"], events, files, broken, piece["failures"])

    def _column(self, name: str) -> Any:
        if name not in self.columns:
            raise AttributeError(f"these hits were decoded without the column {name}: columns={[*self.columns]}")
        return self.columns[name]

    @property
    def lhcb_id(self) -> npt.NDArray[np.uint32]:
        """LHCbID of the strip."""
        return self._column("lhcb_id")

    @property
    def x_at_y_eq0(self) -> Floats:
        """x at y = 0, mm."""
        return self._column("x_at_y_eq0")

    @property
    def z_at_y_eq0(self) -> Floats:
        """z at y = 0, mm."""
        return self._column("z_at_y_eq0")

    @property
    def y_begin(self) -> Floats:
        """y of the strip's lower end, mm."""
        return self._column("y_begin")

    @property
    def y_end(self) -> Floats:
        """y of the strip's upper end, mm."""
        return self._column("y_end")

    @property
    def dx_dy(self) -> Floats:
        """Slope dx/dy of the strip."""
        return self._column("dx_dy")

    @property
    def weight(self) -> Floats:
        """Inverse variance 12/pitch², 1/mm²."""
        return self._column("weight")

    @property
    def layer(self) -> npt.NDArray[np.uint8]:
        """Layer, 0 to 3: aX, aU, bV, bX. On request: `columns=[…, "layer"]`."""
        return self._column("layer")

    @property
    def side(self) -> npt.NDArray[np.uint8]:
        """Side: 0 is C, 1 is A. On request: `columns=[…, "side"]`."""
        return self._column("side")

    @property
    def stave(self) -> npt.NDArray[np.uint8]:
        """Stave of the half-layer, from the beam, 0 to 8. On request: `columns=[…, "stave"]`."""
        return self._column("stave")

    @property
    def face(self) -> npt.NDArray[np.uint8]:
        """Face of the stave, 0 or 1. On request: `columns=[…, "face"]`."""
        return self._column("face")

    @property
    def module(self) -> npt.NDArray[np.uint8]:
        """Module of the stave, 0 to 7. On request: `columns=[…, "module"]`."""
        return self._column("module")

    @property
    def sector(self) -> npt.NDArray[np.uint8]:
        """Sector of the module, 0 or 1. On request: `columns=[…, "sector"]`."""
        return self._column("sector")

    @property
    def strip(self) -> npt.NDArray[np.uint16]:
        """Strip of the id, 0 to 511. On request: `columns=[…, "strip"]`."""
        return self._column("strip")

    @property
    def board(self) -> npt.NDArray[np.uint8]:
        """Board that reads the strip. On request: `columns=[…, "board"]`."""
        return self._column("board")

    @property
    def lane(self) -> npt.NDArray[np.uint8]:
        """Lane of the board, 0 to 5. On request: `columns=[…, "lane"]`."""
        return self._column("lane")

    @property
    def charge(self) -> npt.NDArray[np.uint16]:
        """Sum of the ADC counts of the strips that the hit was made of. v5 banks only. On request: `columns=[…, "charge"]`."""
        return self._column("charge")

    @property
    def n_strips(self) -> npt.NDArray[np.uint8]:
        """Strips that the hit was made of. v5 banks only. On request: `columns=[…, "n_strips"]`."""
        return self._column("n_strips")

    @property
    def first_strip(self) -> npt.NDArray[np.uint16]:
        """Lowest strip of the cluster, 0 to 511. v5 banks only. On request: `columns=[…, "first_strip"]`."""
        return self._column("first_strip")

    @property
    def flipped(self) -> npt.NDArray[np.bool_]:
        """Whether the sector's strips are numbered against x. On request: `columns=[…, "flipped"]`."""
        return self._column("flipped")

    @property
    def sector_id(self) -> npt.NDArray[np.uint16]:
        """Sector id, 0 to 1047. On request: `columns=[…, "sector_id"]`."""
        return self._column("sector_id")

    @property
    def n_events(self) -> int:
        """Events, those without hits included."""
        return len(self.events.event)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @property
    def hits_per_event(self) -> npt.NDArray[np.int64]:
        """Hits of each event, shape (events,)."""
        return np.diff(self.offsets[:: self.n_groups])

    def _per_hit(self, of_event: Any) -> Any:
        return _frozen(np.repeat(of_event, self.hits_per_event))

    @cached_property
    def event(self) -> npt.NDArray[np.uint64]:
        """Of each hit: the place of its event in its file, from 0. Made when it is asked for."""
        return self._per_hit(self.events.event)

    @cached_property
    def group(self) -> npt.NDArray[np.uint16]:
        """Of each hit: its sector group. Made when it is asked for."""
        groups = np.tile(np.arange(self.n_groups, dtype=np.uint16), self.n_events)
        return _frozen(np.repeat(groups, np.diff(self.offsets)))

    @property
    def report(self) -> dict[str, int]:
        """What was counted over all events, by name: `docs/policy.md` says what the names mean."""
        sums = self.events.counts.sum(axis=0, dtype=np.uint64)
        return dict(zip(self.COUNTS, map(int, sums), strict=True))

    @property
    def has_trouble(self) -> bool:
        """Whether anything is wrong with the data."""
        report = self.report
        return any(report[name] > 0 for name in self.TROUBLES)

    @property
    def troubles(self) -> npt.NDArray[np.void]:
        """What is wrong, a row for each trouble of each event: `file`, `event` (place in the file), `trouble` (its name)
        and `count`. A structured array, as `pandas.DataFrame` and `polars.DataFrame` take it."""
        places = [self.COUNTS.index(name) for name in self.TROUBLES]
        found = self.events.counts[:, places]
        rows, kinds = np.nonzero(found)
        names, files = np.array(self.TROUBLES), np.array(self.files or [""])
        dtype = [("file", files.dtype), ("event", np.uint64), ("trouble", names.dtype), ("count", np.uint32)]
        table = np.empty(len(rows), dtype)
        table["file"], table["event"] = files[self.events.file[rows]], self.events.event[rows]
        table["trouble"], table["count"] = names[kinds], found[rows, kinds]
        return table

    @property
    def summary(self) -> "Summary":
        """Events, hits and report in a few numbers, which can be added."""
        return Summary(self.n_events, len(self), self.report, self.broken_events, self.failures)

    def of_events(self, first: int, end: int) -> "Hits":
        """The hits of events `first` to `end` - 1 of these, without a copy of the columns; of `broken_events` those among them,
        and `failures` with the last event before each."""
        first, end, _ = slice(first, end).indices(self.n_events)
        offsets = self.offsets[first * self.n_groups : max(first, end) * self.n_groups + 1]
        hits = slice(int(offsets[0]), int(offsets[-1]))
        columns = {name: column[hits] for name, column in self.columns.items()}
        rows = slice(first, max(first, end))
        events = self.events._rows(rows)
        broken = [
            one
            for one in self.broken_events
            if (self._is_of(one.file)[rows] & (events.event == one.event)).any()
        ]
        # A file without events has failed before the first of all.
        last = [max(np.flatnonzero(self._is_of(one.file)), default=0) for one in self.failures]
        failures = [one for one, row in zip(self.failures, last, strict=True) if first <= row < max(end, 1)]
        return Hits(columns, offsets - offsets[0], self.n_groups, events, self.files, broken, failures)

    def _is_of(self, file: str | None) -> npt.NDArray[np.bool_]:
        """Which events are of a file."""
        return np.isin(self.events.file, [place for place, name in enumerate(self.files) if name == file])

    @staticmethod
    def concatenate(parts: "Iterable[Hits]") -> "Hits":
        """The hits of several, one behind the other."""
        parts = list(parts)
        if not parts:
            raise ValueError("there are no hits to concatenate")
        first = parts[0]
        if any(part.n_groups != first.n_groups or part.columns.keys() != first.columns.keys() for part in parts):
            raise ValueError("hits with other columns or groups cannot be concatenated")
        files = list(dict.fromkeys(name for part in parts for name in part.files))
        places = {name: place for place, name in enumerate(files)}
        # An input without a name of its own is one name, too.
        file = [np.array([places[name] for name in part.files] or [0], np.uint32)[part.events.file] for part in parts]
        before = np.cumsum([0] + [len(part) for part in parts])
        ends = [np.zeros(1, np.int64)] + [part.offsets[1:] + n for part, n in zip(parts, before, strict=False)]
        events = [part.events for part in parts]
        return Hits(
            {name: np.concatenate([part.columns[name] for part in parts]) for name in first.columns},
            np.concatenate(ends),
            first.n_groups,
            Events(
                np.concatenate([table.event for table in events]),
                np.concatenate(file),
                np.ma.concatenate([table.run for table in events]),
                np.ma.concatenate([table.event_number for table in events]),
                np.concatenate([table.counts for table in events]),
            ),
            files,
            [broken for part in parts for broken in part.broken_events],
            [failure for part in parts for failure in part.failures],
        )

    def __eq__(self, other: object) -> bool:
        """Whether events and every bit of every hit are equal."""
        if not isinstance(other, Hits):
            return NotImplemented
        mine, others = self.events, other.events
        names = [np.array(hits.files or [""])[hits.events.file] for hits in (self, other)]
        return (
            self.n_groups == other.n_groups
            and self.columns.keys() == other.columns.keys()
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(mine.event, others.event)
            and np.array_equal(mine.counts, others.counts)
            and _same_masked(mine.run, others.run)
            and _same_masked(mine.event_number, others.event_number)
            and np.array_equal(names[0], names[1])
            and all(column.tobytes() == other.columns[name].tobytes() for name, column in self.columns.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        trouble = ", trouble" if self.has_trouble else ""
        return f"Hits({self.n_events} events, {len(self)} hits{trouble})"

    def __reduce__(self) -> tuple[Any, ...]:
        events = self.events
        state = (events.event, events.file, events.run, events.event_number, events.counts)
        return _unpickled, (
            self.columns,
            self.offsets,
            self.n_groups,
            state,
            self.files,
            self.broken_events,
            self.failures,
        )

    def to_awkward(self) -> "awkward.Array":
        """The hits as `events * groups * var * hit`: records with the columns. The columns are not copied."""
        import awkward as ak

        columns = [ak.contents.NumpyArray(column) for column in self.columns.values()]
        records = ak.contents.RecordArray(columns, list(self.columns), length=len(self))
        groups = ak.contents.ListOffsetArray(ak.index.Index64(self.offsets), records)
        return ak.Array(ak.contents.RegularArray(groups, self.n_groups, zeros_length=self.n_events))

    def to_arrow(self) -> "pyarrow.Table":
        """The hits as a table of Arrow, a row a hit, with the columns of Parquet files (`docs/files.md`): `event`, `run`,
        `event_number`, `group`, the columns, and `file`. The columns are not copied, the others are made."""
        import pyarrow

        return pyarrow.table(self)

    def _arrow(self) -> list[tuple[str, str, npt.NDArray[Any], npt.NDArray[Any] | None, list[str] | None]]:
        def masked(of_event: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
            known = ~np.ma.getmaskarray(of_event)
            return self._per_hit(of_event.data), self._per_hit(known)

        run, has_run = masked(self.events.run)
        number, has_number = masked(self.events.event_number)
        # Arrow strings are UTF-8; file names need not be.
        words = [os.fsencode(name).decode(errors="backslashreplace") for name in dict.fromkeys(self.files)]
        # A file of several splits is one word: pandas takes no dictionary that has a word twice.
        places = {name: place for place, name in enumerate(dict.fromkeys(self.files))}
        of_file = np.array([places[name] for name in self.files] or [0], np.int32)
        file = self._per_hit(of_file[self.events.file])
        columns = [(name, column.dtype.str, column, None, None) for name, column in self.columns.items()]
        return [
            ("event", "<u8", self.event, None, None),
            ("run", "<u4", run, has_run, None),
            ("event_number", "<u8", number, has_number, None),
            ("group", "<u2", self.group, None, None),
            *columns,
            ("file", "<i4", file, None, words),
        ]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's C stream, in a capsule; as the protocol allows, it does not convert to a requested schema."""
        return _native.arrow_stream(self._arrow())

    def __arrow_c_schema__(self) -> object:
        """The schema of the stream, in a capsule."""
        return _native.arrow_schema(self._arrow())


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


def _frozen_masked(array: Any) -> Any:
    mask, data = np.ma.getmaskarray(array).view(), np.ma.getdata(array).view()
    return np.ma.MaskedArray(_frozen(data), mask=_frozen(mask))


def _same_masked(a: Any, b: Any) -> bool:
    return np.array_equal(np.ma.getmaskarray(a), np.ma.getmaskarray(b)) and np.array_equal(a.filled(0), b.filled(0))


def _unpickled(columns: Any, offsets: Any, n_groups: int, events: Any, *rest: Any) -> Hits:
    return Hits(columns, offsets, n_groups, Events(*events), *rest)


@dataclass(frozen=True)
class Summary:
    """What became of a job or a part of it. Summaries are added: `sum(summaries, Summary())`."""

    events: int = 0
    """Events."""
    hits: int = 0
    """Hits."""
    report: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Hits.COUNTS, 0))
    """What was counted, by name."""
    broken_events: list[BrokenEvent] = field(default_factory=list)
    """Of the first events of each part that were given up before their end, why."""
    failures: list[Error] = field(default_factory=list)
    """With `keep_going`: why files could not be read to their end."""

    @property
    def has_trouble(self) -> bool:
        """Whether anything is wrong with the data."""
        return any(self.report[name] > 0 for name in Hits.TROUBLES)

    def __add__(self, later: "Summary") -> "Summary":
        return Summary(
            self.events + later.events,
            self.hits + later.hits,
            {name: count + later.report[name] for name, count in self.report.items()},
            self.broken_events + later.broken_events,
            self.failures + later.failures,
        )
