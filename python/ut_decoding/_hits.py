"""Hits as columns."""

import html
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import Error
from ._table import Columns, Table, file_column, frozen, known

if TYPE_CHECKING:
    import awkward

T = TypeVar("T", bound=np.generic)

_OF_EVENTS = ("file", "event", "event_index", "run", "event_number")


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
    """Description of the damage."""


@dataclass(frozen=True, eq=False)
class Events(Table):
    """Facts about each event. All arrays have a row an event and are read-only; facts that an event does not tell are masked.

    `to_polars()`, `to_pandas()` and `to_arrow()` give a table with the columns of `ut-decode decode --event-table`
    (`docs/files.md`).
    """

    event: npt.NDArray[np.uint64]
    """Place of the event in its file, from 0."""
    file: npt.NDArray[np.uint32]
    """File of the event, as a place in `files`."""
    counts: npt.NDArray[np.uint32]
    """Counters of the event, shape (events, 15): the columns are `Hits.COUNTS`."""
    index: npt.NDArray[np.uint64]
    """Number of the event among those that a call gives of all its inputs, from 0: no two events have the same."""
    hits: npt.NDArray[np.int64]
    """Number of hits."""
    run: Any
    """Run number, from ODIN or the container; uint32."""
    event_number: Any
    """Event number, from ODIN or the container; uint64."""
    time: Any
    """Time in UTC, from ODIN like everything below; datetime64 in microseconds."""
    bcid: Any
    """Bunch crossing of the orbit, 0 to 3563; uint16."""
    crossing: Any
    """Bunches that crossed: 0 none, 1 of beam 1, 2 of beam 2, 3 of both; int32. Tables have words."""
    trigger_type: Any
    """Type of the trigger, a number of ODIN's; uint8."""
    event_type: Any
    """Bits of the event type; uint16."""
    orbit: Any
    """Orbit of the LHC, counted within the run; uint32."""
    tck: Any
    """Trigger configuration key; uint32."""
    tae: Any
    """Place in a time alignment event: 0 the central crossing, 1 a neighbour; int32. Tables have words."""
    odin_version: Any
    """Version of the ODIN bank; uint8."""
    files: list[str]
    """Names of the inputs."""

    def __post_init__(self) -> None:
        for name, *_ in _native.FACTS:
            object.__setattr__(self, name, _frozen_masked(getattr(self, name)))
        for array in (self.event, self.file, self.counts, self.index, self.hits):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.event)

    def _rows(self, rows: Any, hits: npt.NDArray[np.int64]) -> "Events":
        arrays = {one.name: getattr(self, one.name)[rows] for one in fields(self) if one.name not in ("files", "hits")}
        return Events(**arrays, hits=hits, files=self.files)

    def _arrow(self) -> Columns:
        def fact(name: str, kind: str, words: list[str]) -> Any:
            column = getattr(self, name)
            values = np.ma.getdata(column)
            # The buffer protocol has no times.
            values = values.view(np.int64) if kind.startswith("<M8") else values
            return name, kind, values, known(column), words or None

        file, words = file_column(self.files, self.file)
        counts = [(name, "<u4", frozen(self.counts[:, i].copy()), None, None) for i, name in enumerate(Hits.COUNTS)]
        return [
            ("file", "<i4", file, None, words),
            ("event", "<u8", self.event, None, None),
            *(fact(*one) for one in _native.FACTS),
            ("hits", "<u4", frozen(self.hits.astype(np.uint32)), None, None),
            *counts,
        ]


class _Column(Generic[T]):
    """A column of hits as an attribute."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: object, name: str) -> None:
        self._name = name
        if name in _native.DETECTOR_COLUMNS:
            self.__doc__ = f'{self.__doc__} On request: `columns=[…, "{name}"]`.'

    @overload
    def __get__(self, hits: None, owner: object) -> "_Column[T]": ...
    @overload
    def __get__(self, hits: "Hits", owner: object) -> npt.NDArray[T]: ...
    def __get__(self, hits: "Hits | None", owner: object) -> "_Column[T] | npt.NDArray[T]":
        if hits is None:
            return self
        if self._name not in hits.columns:
            raise AttributeError(f"these hits were decoded without the column {self._name}: columns={hits.fields}")
        return hits.columns[self._name]

    def __set__(self, hits: "Hits", value: object) -> None:
        raise AttributeError(f"{self._name} is read-only")


class Hits(Table):
    """The hits of events that follow each other, a NumPy array a column; ordered by event, sector group, x and LHCbID.

    Columns are read-only and lie in the memory that the decoder wrote: nothing is copied. They have one item a hit and are
    attributes: `hits.x_at_y_eq0`, or `hits["x_at_y_eq0"]`. Of v4 banks, `charge`, `n_strips` and `first_strip` are masked.

    As in awkward, hits are a sequence of events: `len(hits)` is their number, `hits[3]` is the event at place 3, `hits[a:b]` and
    `hits[[3, 5]]` are several, and `for event in hits` goes through them, each `Hits`, too. `hits[hits.layer == 2]` with a truth
    value a hit keeps these hits, and all events. `hits.n_hits` is the number of hits.

    `Hits` can be pickled, go to pyarrow, polars or duckdb through Arrow's C interface, and to awkward and pandas.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = tuple(_native.COLUMNS)
    """Names of the columns that there are where none are asked for."""
    DETECTOR_COLUMNS: ClassVar[tuple[str, ...]] = tuple(_native.DETECTOR_COLUMNS)
    """Names of the columns that come on request (`columns=`), `docs/columns.md`."""
    ALL_COLUMNS: ClassVar[tuple[str, ...]] = (*COLUMNS, *DETECTOR_COLUMNS)
    """Names of all columns."""
    COUNTS: ClassVar[tuple[str, ...]] = tuple(name for name, _ in _native.COUNTS)
    """Names of what is counted."""
    TROUBLES: ClassVar[tuple[str, ...]] = tuple(name for name, kind in _native.COUNTS if kind == "trouble")
    """Counters of trouble with the data."""

    columns: dict[str, npt.NDArray[Any]]
    """The columns that were asked for, by name."""
    offsets: npt.NDArray[np.int64]
    """Ends of groups, shape (events * groups + 1,): the hits of group g of event e are
    `offsets[e * n_groups + g]` to `offsets[e * n_groups + g + 1]`."""
    n_groups: int
    """Sector groups of an event."""
    events: Events
    """Facts about each event."""
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
        broken_events: list[BrokenEvent],
        failures: list[Error],
    ) -> None:
        self.columns, self.offsets, self.n_groups, self.events = columns, offsets, n_groups, events
        self.broken_events, self.failures = broken_events, failures
        for name, column in columns.items():
            columns[name] = _frozen_masked(column) if isinstance(column, np.ma.MaskedArray) else frozen(column)
        frozen(offsets)

    @classmethod
    def _of_piece(cls, piece: dict[str, Any], files: list[str], first: int) -> "Hits":
        def fact(name: str, kind: str) -> Any:
            values, known = map(np.asarray, piece["facts"][name])
            return np.ma.MaskedArray(values.view(kind) if kind.startswith("<M8") else values.astype(kind), mask=~known)

        asarray = np.asarray
        offsets, event = asarray(piece["offsets"]), asarray(piece["event"])
        events = Events(
            event=event,
            file=asarray(piece["file"]),
            counts=asarray(piece["counts"]),
            index=np.arange(first, first + len(event), dtype=np.uint64),
            hits=np.diff(offsets[:: piece["n_groups"]]),
            files=files,
            **{name: fact(name, kind) for name, kind, _ in _native.FACTS},
        )
        columns = {name: asarray(column) for name, column in piece["columns"].items()}
        columns |= {name: np.ma.MaskedArray(columns[name], mask=True) for name in piece["missing"]}
        broken = [BrokenEvent(*row) for row in piece["damages"]]
        return cls(columns, offsets, piece["n_groups"], events, broken, piece["failures"])

    lhcb_id = _Column[np.uint32]("LHCbID of the strip.")
    x_at_y_eq0 = _Column[np.float32]("x at y = 0, mm.")
    z_at_y_eq0 = _Column[np.float32]("z at y = 0, mm.")
    y_begin = _Column[np.float32]("y of the strip's lower end, mm.")
    y_end = _Column[np.float32]("y of the strip's upper end, mm.")
    dx_dy = _Column[np.float32]("Slope dx/dy of the strip.")
    weight = _Column[np.float32]("Inverse variance 12/pitch², 1/mm².")
    layer = _Column[np.uint8]("Layer, 0 to 3: aX, aU, bV, bX.")
    side = _Column[np.uint8]("Side: 0 is C, 1 is A.")
    stave = _Column[np.uint8]("Stave of the half-layer, from the beam, 0 to 8.")
    face = _Column[np.uint8]("Face of the stave, 0 or 1.")
    module = _Column[np.uint8]("Module of the stave, 0 to 7.")
    sector = _Column[np.uint8]("Sector of the module, 0 or 1.")
    strip = _Column[np.uint16]("Strip of the id, 0 to 511.")
    board = _Column[np.uint8]("Board that reads the strip.")
    lane = _Column[np.uint8]("Lane of the board, 0 to 5.")
    charge = _Column[np.uint16]("Sum of the ADC counts of the strips that the hit was made of. v5 banks only.")
    n_strips = _Column[np.uint8]("Strips that the hit was made of. v5 banks only.")
    first_strip = _Column[np.uint16]("Lowest strip of the cluster, 0 to 511. v5 banks only.")
    flipped = _Column[np.bool_]("Whether the sector's strips are numbered against x.")
    sector_id = _Column[np.uint16]("Sector id, 0 to 1047.")

    @property
    def files(self) -> list[str]:
        """Names of the inputs."""
        return self.events.files

    @property
    def n_events(self) -> int:
        """Events, those without hits included."""
        return len(self.events.event)

    @property
    def n_hits(self) -> int:
        """Hits."""
        return int(self.offsets[-1])

    @property
    def fields(self) -> list[str]:
        """Names of the columns."""
        return [*self.columns]

    def __len__(self) -> int:
        return self.n_events

    def __iter__(self) -> "Iterator[Hits]":
        return (self.of_events(i, i + 1) for i in range(self.n_events))

    @overload
    def __getitem__(self, which: str) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, which: SupportsIndex | slice | Sequence[int] | npt.NDArray[Any]) -> "Hits": ...
    def __getitem__(self, which: Any) -> Any:
        """A column by its name; the event at a place; events of a slice, or at some places; or, of all events, the hits for which
        an array has True."""
        if isinstance(which, str):
            if which not in (*self.columns, *_OF_EVENTS, "group"):
                raise KeyError(f"there is no column {which!r}; there are {', '.join((*self.columns, *_OF_EVENTS, 'group'))}")
            return getattr(self, which)
        if isinstance(which, slice) and which.step in (None, 1):
            return self.of_events(*which.indices(self.n_events)[:2])
        if isinstance(which, SupportsIndex) and not isinstance(which, bool | np.ndarray):
            place = range(self.n_events)[operator.index(which)]
            return self.of_events(place, place + 1)
        if isinstance(which, slice):
            return self._at(np.arange(self.n_events)[which])
        chosen = np.ma.filled(which, False) if isinstance(which, np.ma.MaskedArray) else np.asarray(which)
        if chosen.dtype != np.bool_:
            return self._at(np.arange(self.n_events)[chosen.astype(np.intp, casting="same_kind") if chosen.size else []])
        if chosen.shape != (self.n_hits,):
            raise IndexError(
                f"a mask has a truth value for each of {self.n_hits} hits, this one has {chosen.shape}; events are chosen by "
                "their places: hits[numpy.flatnonzero(mask)]"
            )
        before = np.concatenate([[0], np.cumsum(chosen, dtype=np.int64)])
        return self._part(slice(None), chosen, before[self.offsets])

    def _at(self, places: npt.NDArray[np.intp]) -> "Hits":
        """The hits of the events at these places."""
        sizes = np.diff(self.offsets).reshape(self.n_events, self.n_groups)[places]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        # Of each event: how far its hits move.
        moves = self.offsets[: -1 : self.n_groups][places] - offsets[: -1 : self.n_groups]
        hits = np.arange(offsets[-1]) + np.repeat(moves, sizes.sum(axis=1))
        return self._part(places, hits, offsets)

    def _part(self, rows: Any, hits: Any, offsets: npt.NDArray[np.int64]) -> "Hits":
        columns = {name: column[hits] for name, column in self.columns.items()}
        events = self.events._rows(rows, np.diff(offsets[:: self.n_groups]))
        broken = [one for one in self.broken_events if (_is_of(self.files, events, one.file) & (events.event == one.event)).any()]
        return Hits(columns, offsets, self.n_groups, events, broken, self.failures)

    @property
    def hits_per_event(self) -> npt.NDArray[np.int64]:
        """Hits of each event, shape (events,)."""
        return np.diff(self.offsets[:: self.n_groups])

    def _per_hit(self, of_event: Any) -> Any:
        return frozen(np.repeat(of_event, self.hits_per_event))

    @cached_property
    def event(self) -> npt.NDArray[np.uint64]:
        """Of each hit: the place of its event in its file, from 0. Made when it is asked for."""
        return self._per_hit(self.events.event)

    @cached_property
    def event_index(self) -> npt.NDArray[np.uint64]:
        """Of each hit: `events.index` of its event, which no other event of all inputs has. Made when it is asked for."""
        return self._per_hit(self.events.index)

    @cached_property
    def run(self) -> Any:
        """Of each hit: the run number of its event, masked where it is unknown. Made when it is asked for."""
        return self._masked(self.events.run)

    @cached_property
    def event_number(self) -> Any:
        """Of each hit: the number of its event, masked where it is unknown. Made when it is asked for."""
        return self._masked(self.events.event_number)

    @cached_property
    def file(self) -> npt.NDArray[np.object_]:
        """Of each hit: the name of its file. Made when it is asked for."""
        return self._per_hit(np.array(self.files or [""], object)[self.events.file])

    def _masked(self, of_event: Any) -> Any:
        known = self._per_hit(np.ma.getmaskarray(of_event))
        return _frozen_masked(np.ma.MaskedArray(self._per_hit(np.ma.getdata(of_event)), known))

    @cached_property
    def group(self) -> npt.NDArray[np.uint16]:
        """Of each hit: its sector group. Made when it is asked for."""
        groups = np.tile(np.arange(self.n_groups, dtype=np.uint16), self.n_events)
        return frozen(np.repeat(groups, np.diff(self.offsets)))

    @property
    def report(self) -> dict[str, int]:
        """Counts over all events, by name: `docs/policy.md` says what the names mean."""
        sums = self.events.counts.sum(axis=0, dtype=np.uint64)
        return dict(zip(self.COUNTS, map(int, sums), strict=True))

    @property
    def has_trouble(self) -> bool:
        """True if anything is wrong with the data."""
        report = self.report
        return any(report[name] > 0 for name in self.TROUBLES)

    @property
    def troubles(self) -> npt.NDArray[np.void]:
        """Troubles, a row for each trouble of each event: `file`, `event` (place in the file), `trouble` (its name)
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
        return Summary(self.n_events, self.n_hits, self.report, self.broken_events, self.failures)

    def of_events(self, first: int, end: int) -> "Hits":
        """As `hits[first:end]`: the hits of events `first` to `end` - 1 of these, without a copy of the columns; of
        `broken_events` those among them, and `failures` with the last event before each."""
        first, end, _ = slice(first, end).indices(self.n_events)
        end = max(first, end)
        offsets = self.offsets[first * self.n_groups : end * self.n_groups + 1]
        part = self._part(slice(first, end), slice(int(offsets[0]), int(offsets[-1])), offsets - offsets[0])
        # A file without events has failed before the first of all.
        last = [max(np.flatnonzero(_is_of(self.files, self.events, one.file)), default=0) for one in self.failures]
        part.failures = [one for one, row in zip(self.failures, last, strict=True) if first <= row < max(end, 1)]
        return part

    @staticmethod
    def concatenate(parts: "Iterable[Hits]") -> "Hits":
        """The hits of several, one behind the other. Where their events are not numbered upwards, they are numbered anew."""
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
        before = np.cumsum([0] + [part.n_hits for part in parts])
        ends = [np.zeros(1, np.int64)] + [part.offsets[1:] + n for part, n in zip(parts, before, strict=False)]
        events = [part.events for part in parts]
        index = np.concatenate([table.index for table in events])
        return Hits(
            {name: _joined([part.columns[name] for part in parts]) for name in first.columns},
            np.concatenate(ends),
            first.n_groups,
            Events(
                event=np.concatenate([table.event for table in events]),
                file=np.concatenate(file),
                counts=np.concatenate([table.counts for table in events]),
                # Of different calls, events may have the same number.
                index=index if (index[1:] > index[:-1]).all() else np.arange(len(index), dtype=np.uint64),
                hits=np.concatenate([table.hits for table in events]),
                files=files,
                **{name: np.ma.concatenate([getattr(table, name) for table in events]) for name, *_ in _native.FACTS},
            ),
            [broken for part in parts for broken in part.broken_events],
            [failure for part in parts for failure in part.failures],
        )

    def __eq__(self, other: object) -> bool:
        """Returns true if events and every bit of every hit are equal."""
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
            and all(_same_masked(getattr(mine, name), getattr(others, name)) for name, *_ in _native.FACTS)
            and np.array_equal(names[0], names[1])
            and all(column.tobytes() == other.columns[name].tobytes() for name, column in self.columns.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        trouble = ", trouble" if self.has_trouble else ""
        return f"Hits({self.n_events} events, {self.n_hits} hits{trouble})"

    def _repr_html_(self) -> str:
        """Counts, what is wrong, and the first and last hits, as a notebook shows them."""
        rows = sorted({*range(min(5, self.n_hits)), *range(max(0, self.n_hits - 5), self.n_hits)})
        names = ["file", "event", "group", *self.columns]
        ends = self.offsets[:: self.n_groups]
        lines = []
        for row in rows:
            event = int(np.searchsorted(ends, row, "right")) - 1
            group = int(np.searchsorted(self.offsets, row, "right")) - 1 - event * self.n_groups
            place = [self.files[self.events.file[event]], self.events.event[event], group]
            cells = [html.escape(str(cell)) for cell in (*place, *(column[row] for column in self.columns.values()))]
            lines.append(f"<tr><td>{'</td><td>'.join(cells)}</td></tr>")
            if row == 4 and self.n_hits > 10:
                lines.append("<tr>" + "<td>⋮</td>" * len(names) + "</tr>")
        troubles = [f"{name} {n:,}" for name, n in self.report.items() if n > 0 and name in self.TROUBLES]
        wrong = f"<br>trouble: {', '.join(troubles)}" if troubles else ""
        numbers = {"event": self.n_events, "hit": self.n_hits, "input": len(self.files)}
        head = "<b>Hits</b>: " + ", ".join(f"{n:,} {word}{'s' * (n != 1)}" for word, n in numbers.items()) + wrong
        return f"{head}<table><tr><th>{'</th><th>'.join(names)}</th></tr>{''.join(lines)}</table>"

    def __reduce__(self) -> tuple[Any, ...]:
        events = {one.name: getattr(self.events, one.name) for one in fields(self.events)}
        return _unpickled, (self.columns, self.offsets, self.n_groups, events, self.broken_events, self.failures)

    def to_awkward(self, groups: bool = True) -> "awkward.Array":
        """The hits as `events * groups * var * hit`, records with the columns, or without `groups` as `events * var * hit`. The
        columns are not copied."""
        import awkward as ak

        def content(column: Any) -> Any:
            values = ak.contents.NumpyArray(np.ma.getdata(column))
            if not isinstance(column, np.ma.MaskedArray):
                return values
            return ak.contents.ByteMaskedArray(ak.index.Index8(np.ma.getmaskarray(column).view(np.int8)), values, False)

        columns = [content(column) for column in self.columns.values()]
        records = ak.contents.RecordArray(columns, self.fields, length=self.n_hits)
        if not groups:
            return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(self.offsets[:: self.n_groups]), records))
        lists = ak.contents.ListOffsetArray(ak.index.Index64(self.offsets), records)
        return ak.Array(ak.contents.RegularArray(lists, self.n_groups, zeros_length=self.n_events))

    def to_root(self, path: str | os.PathLike[str], format: str = "rntuple") -> None:
        """Writes the hits into a ROOT file, as `decode_to_root` does."""
        from ._root import write

        write(iter([self]), path, format)

    def _arrow(self) -> Columns:
        """A row a hit, with the columns of Parquet files (`docs/files.md`)."""
        of_file, words = file_column(self.files, self.events.file)
        columns = {name: getattr(self, name) for name in ("event", "run", "event_number", "group")} | self.columns
        return [
            *((name, column.dtype.str, np.ma.getdata(column), known(column), None) for name, column in columns.items()),
            ("file", "<i4", self._per_hit(of_file), None, words),
        ]


def _is_of(files: list[str], events: Events, file: str | None) -> npt.NDArray[np.bool_]:
    """Returns true for each event of a file."""
    return np.isin(events.file, [place for place, name in enumerate(files) if name == file])


def _joined(columns: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    is_masked = any(isinstance(column, np.ma.MaskedArray) for column in columns)
    return np.ma.concatenate(columns) if is_masked else np.concatenate(columns)


def _frozen_masked(array: Any) -> Any:
    mask, data = np.ma.getmaskarray(array).view(), np.ma.getdata(array).view()
    return np.ma.MaskedArray(frozen(data), mask=frozen(mask))


def _same_masked(a: Any, b: Any) -> bool:
    return np.array_equal(np.ma.getmaskarray(a), np.ma.getmaskarray(b)) and np.array_equal(a.filled(0), b.filled(0))


def _unpickled(columns: Any, offsets: Any, n_groups: int, events: Any, *rest: Any) -> Hits:
    return Hits(columns, offsets, n_groups, Events(**events), *rest)


@dataclass(frozen=True)
class Summary:
    """Outcome of a job or a part of it. Summaries are added: `sum(summaries, Summary())`."""

    events: int = 0
    """Events."""
    hits: int = 0
    """Hits."""
    report: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Hits.COUNTS, 0))
    """Counts, by name."""
    broken_events: list[BrokenEvent] = field(default_factory=list)
    """Of the first events of each part that were given up before their end, why."""
    failures: list[Error] = field(default_factory=list)
    """With `keep_going`: why files could not be read to their end."""

    @property
    def has_trouble(self) -> bool:
        """True if anything is wrong with the data."""
        return any(self.report[name] > 0 for name in Hits.TROUBLES)

    def __add__(self, later: "Summary") -> "Summary":
        return Summary(
            self.events + later.events,
            self.hits + later.hits,
            {name: count + later.report[name] for name, count in self.report.items()},
            self.broken_events + later.broken_events,
            self.failures + later.failures,
        )
