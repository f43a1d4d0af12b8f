"""Hits as columns."""

import html
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import Error
from ._loss import Loss
from ._table import Columns, Partial, Table, ends, file_column, frozen, html_table

if TYPE_CHECKING:
    import awkward

    from ._output import Target

T = TypeVar("T", bound=np.generic)

_OF_EVENTS = ("file", "event", "event_index", "run", "event_number")

_CLUSTER_KINDS = {"charge": "<u2", "n_strips": "|u1", "first_strip": "<u2"}
"""Columns that v4 banks do not have, and NumPy's names of their types."""

_POSSIBLE = (
    "possible are a place, a slice or a list of places of events, truth values (one for each event, or one for each hit), a jagged "
    "mask, the name of a column, or a list of names"
)


class BrokenEvent(NamedTuple):
    """An event that was given up before its end, and why."""

    file: str
    """The file."""
    event: int
    """Event of the file, from 0."""
    bank: int | None
    """Bank of the event, from 0, if the damage is in a single bank."""
    byte: int
    """Byte of the file at which the event begins."""
    message: str
    """Description of the damage."""


class _Fact:
    """A fact about events as an attribute of `Events`."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: object, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, events: None, owner: object) -> "_Fact": ...
    @overload
    def __get__(self, events: "Events", owner: object) -> npt.NDArray[Any]: ...
    def __get__(self, events: "Events | None", owner: object) -> "_Fact | npt.NDArray[Any]":
        return self if events is None else events._facts[self._name].plain(self._name)

    def __set__(self, events: "Events", value: object) -> None:
        raise AttributeError(f"{self._name} is read-only")


class Events(Table):
    """Facts about each event. All arrays have one row per event and are read-only.

    A fact that some events do not tell, because they have no ODIN bank or one of an unknown version, is NaN for them, and so the
    array is float64 instead of an integer type; a time is NaT. `to_polars()`, `to_pandas()` and `to_arrow()` give a table with
    the columns of `ut-decode decode --event-table` (`docs/files.md`), in which such a fact is null and integers stay integers.
    """

    event: npt.NDArray[np.uint64]
    """Place of the event in its file, from 0."""
    file: npt.NDArray[np.uint32]
    """File of the event, as a place in `files`."""
    counts: npt.NDArray[np.uint32]
    """Counters of the event, shape (events, counters): the columns are `Hits.COUNTS`."""
    losses: npt.NDArray[np.uint32]
    """Account of loss of the event, a row of `Loss.numbers`; `Hits.loss` adds them up."""
    masked_hits: npt.NDArray[np.uint32]
    """Number of hits that the option `mask` left out."""
    index: npt.NDArray[np.int64]
    """Number of the event among all events that a call returns, from 0: unique over all its inputs."""
    hits: npt.NDArray[np.int64]
    """Number of hits."""
    files: list[str]
    """Names of the inputs."""
    run = _Fact("Run number, from ODIN or the container; uint32.")
    event_number = _Fact("Event number, from ODIN or the container; uint64.")
    time = _Fact("Time in UTC, from ODIN like everything below; datetime64 in microseconds.")
    bcid = _Fact("Bunch crossing of the orbit, 0 to 3563; uint16.")
    crossing = _Fact("Bunches that crossed: 0 none, 1 of beam 1, 2 of beam 2, 3 of both; int32. In tables as words.")
    trigger_type = _Fact("Trigger type, as ODIN numbers them; uint8.")
    event_type = _Fact("Bits of the event type; uint16.")
    orbit = _Fact("Orbit of the LHC, counted within the run; uint32.")
    tck = _Fact("Trigger configuration key; uint32.")
    tae = _Fact("Place in a time alignment event: 0 the central crossing, 1 a neighbour; int32. In tables as words.")
    odin_version = _Fact("Version of the ODIN bank; uint8.")

    def __init__(
        self,
        event: npt.NDArray[np.uint64],
        file: npt.NDArray[np.uint32],
        counts: npt.NDArray[np.uint32],
        losses: npt.NDArray[np.uint32],
        masked_hits: npt.NDArray[np.uint32],
        index: npt.NDArray[np.int64],
        hits: npt.NDArray[np.int64],
        files: list[str],
        facts: Mapping[str, Partial],
    ) -> None:
        self.event, self.file, self.counts = frozen(event), frozen(file), frozen(counts)
        self.losses, self.masked_hits = frozen(losses), frozen(masked_hits)
        self.index, self.hits = frozen(index), frozen(hits)
        self.files = files
        self._facts = {name: Partial(frozen(fact.values), frozen(fact.known)) for name, fact in facts.items()}

    def __len__(self) -> int:
        return len(self.event)

    def __repr__(self) -> str:
        return f"Events({len(self)} events, {int(self.hits.sum())} hits)"

    def _repr_html_(self) -> str:
        """Returns the first and last events as a notebook shows them."""
        names = [name for name, fact in self._facts.items() if fact.known.any()]
        facts = [self._facts[name] for name in names]

        def row(i: int) -> list[object]:
            shown = [fact.values[i] if fact.known[i] else "" for fact in facts]
            return [self.index[i], self.files[self.file[i]], self.event[i], *shown, self.hits[i]]

        rows = (None if i is None else row(i) for i in ends(len(self)))
        head = f"<b>Events</b>: {_counted(len(self), 'event')}, {_counted(int(self.hits.sum()), 'hit')}"
        return head + html_table(["event_index", "file", "event", *names, "hits"], rows)

    def _rows(self, rows: Any, hits: npt.NDArray[np.int64]) -> "Events":
        facts = {name: Partial(values[rows], known[rows]) for name, (values, known) in self._facts.items()}
        event, file, counts, losses = self.event[rows], self.file[rows], self.counts[rows], self.losses[rows]
        return Events(event, file, counts, losses, self.masked_hits[rows], self.index[rows], hits, self.files, facts)

    def _index(self) -> npt.NDArray[np.int64]:
        return self.index

    def _arrow(self) -> Columns:
        def fact(name: str, kind: str, words: list[str]) -> Any:
            values, known = self._facts[name]
            # The buffer protocol has no times.
            values = values.view(np.int64) if kind.startswith("<M8") else values
            return name, kind, values, known, words or None

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
        if self._name not in hits._columns:
            raise AttributeError(f"these hits were decoded without the column {self._name}: columns={hits.fields}")
        column = hits._columns[self._name]
        if column is None:
            raise AttributeError(f"{self._name}: v4 banks do not tell what a hit was made of; only v5 banks have this column")
        return column

    def __set__(self, hits: "Hits", value: object) -> None:
        raise AttributeError(f"{self._name} is read-only")


class Hits(Table):
    """The hits of consecutive events, one NumPy array per column; ordered by event, sector group, x and LHCbID.

    Columns are read-only and lie in the memory that the decoder wrote: nothing is copied. They have one item per hit and are
    attributes: `hits.x_at_y_eq0`, or `hits["x_at_y_eq0"]`. v4 banks do not tell `charge`, `n_strips` and `first_strip`: to ask
    for them there is an error, and in tables they are null. Hits of v4 and v5 that were put together have NaN in them.

    As in awkward, hits are a sequence of events: `len(hits)` is their number, and `for event in hits` goes through them.

    | selection | gives |
    |---|---|
    | `hits[3]`, `hits[10:20]`, `hits[[3, 5]]` | events by their place |
    | `hits[hits.hits_per_event > 500]` | events for which an array of `n_events` truth values is True |
    | `hits[hits.layer == 2]` | all events, with the hits for which an array of `n_hits` truth values is True |
    | `hits[array.layer == 2]` | the same with a jagged mask, where `array = hits.to_awkward()` |
    | `hits["charge"]`, `hits[["charge", "lhcb_id"]]` | one column as an array, or `Hits` with only these columns |

    `Hits` can be pickled, go to pyarrow, polars or duckdb through Arrow's C interface, and to awkward and pandas.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = tuple(_native.COLUMNS)
    """Names of the default columns."""
    DETECTOR_COLUMNS: ClassVar[tuple[str, ...]] = tuple(_native.DETECTOR_COLUMNS)
    """Names of the columns that come on request (`columns=`), `docs/columns.md`."""
    ALL_COLUMNS: ClassVar[tuple[str, ...]] = (*COLUMNS, *DETECTOR_COLUMNS)
    """Names of all columns."""
    COUNTS: ClassVar[tuple[str, ...]] = tuple(name for name, _ in _native.COUNTS)
    """Names of the counters."""
    TROUBLES: ClassVar[tuple[str, ...]] = tuple(name for name, kind in _native.COUNTS if kind == "trouble")
    """Names of the counters of trouble."""

    offsets: npt.NDArray[np.int64]
    """Ends of groups, shape (events * groups + 1,): the hits of group g of event e are
    `offsets[e * n_groups + g]` to `offsets[e * n_groups + g + 1]`."""
    n_groups: int
    """Sector groups of an event."""
    events: Events
    """Facts about each event."""
    broken_events: list[BrokenEvent]
    """Reasons that the first damaged events were given up. `report["broken_event"]` counts all."""
    failures: list[Error]
    """With `keep_going`: reasons that files could not be read to their end."""

    def __init__(
        self,
        columns: Mapping[str, npt.NDArray[Any] | None],
        offsets: npt.NDArray[np.int64],
        n_groups: int,
        events: Events,
        broken_events: list[BrokenEvent],
        failures: list[Error],
    ) -> None:
        self._columns = {name: None if column is None else frozen(column) for name, column in columns.items()}
        self.offsets, self.n_groups, self.events = frozen(offsets), n_groups, events
        self.broken_events, self.failures = broken_events, failures

    @classmethod
    def _of_piece(cls, piece: dict[str, Any], files: list[str], first: int) -> "Hits":
        def fact(name: str, kind: str) -> Partial:
            values, known = map(np.asarray, piece["facts"][name])
            return Partial(values.view(kind) if kind.startswith("<M8") else values.astype(kind), known)

        asarray = np.asarray
        offsets, event = asarray(piece["offsets"]), asarray(piece["event"])
        events = Events(
            event=event,
            file=asarray(piece["file"]),
            counts=asarray(piece["counts"]),
            losses=asarray(piece["losses"]),
            masked_hits=asarray(piece["masked"]),
            index=np.arange(first, first + len(event), dtype=np.int64),
            hits=np.diff(offsets[:: piece["n_groups"]]),
            files=files,
            facts={name: fact(name, kind) for name, kind, _ in _native.FACTS},
        )
        columns = {name: None if name in piece["missing"] else asarray(column) for name, column in piece["columns"].items()}
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
    flipped = _Column[np.bool_]("True if the sector's strips are numbered against x.")
    sector_id = _Column[np.uint16]("Sector id, 0 to 1047.")

    @property
    def columns(self) -> Mapping[str, npt.NDArray[Any]]:
        """The columns by name; read-only."""
        return MappingProxyType({name: column for name, column in self._columns.items() if column is not None})

    @property
    def files(self) -> list[str]:
        """Names of the inputs."""
        return self.events.files

    @property
    def n_events(self) -> int:
        """Number of events, including events without hits."""
        return len(self.events.event)

    @property
    def n_hits(self) -> int:
        """Hits."""
        return int(self.offsets[-1])

    @property
    def fields(self) -> list[str]:
        """Names of the requested columns."""
        return [*self._columns]

    def __len__(self) -> int:
        return self.n_events

    def __iter__(self) -> "Iterator[Hits]":
        return (self.of_events(i, i + 1) for i in range(self.n_events))

    @overload
    def __getitem__(self, which: str) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(
        self, which: "SupportsIndex | slice | Sequence[int] | Sequence[bool] | list[str] | npt.NDArray[Any] | awkward.Array"
    ) -> "Hits": ...
    def __getitem__(self, which: Any) -> Any:
        """Returns a column, several columns, events or hits: the table in the description of `Hits` has every selection."""
        if isinstance(which, str):
            return self._named(which)
        if isinstance(which, slice):
            for part in (which.start, which.stop, which.step):
                if part is not None and not isinstance(part, SupportsIndex):
                    raise TypeError(f"a slice of events has whole numbers, not {part!r}")
            if which.step in (None, 1):
                return self.of_events(*which.indices(self.n_events)[:2])
            return self._at(np.arange(self.n_events)[which])
        if isinstance(which, SupportsIndex) and not isinstance(which, bool | np.ndarray):
            place = operator.index(which)
            if not -self.n_events <= place < self.n_events:
                raise IndexError(f"there is no event at place {place}: there are {self.n_events}")
            place %= self.n_events
            return self.of_events(place, place + 1)
        if type(which).__module__.startswith("awkward"):
            return self._jagged(which)
        return self._chosen(which)

    def _named(self, name: str) -> Any:
        """Returns the column of this name."""
        known = (*self._columns, *_OF_EVENTS, "group")
        if name in known:
            try:
                return getattr(self, name)
            except AttributeError as error:
                raise KeyError(str(error)) from None
        if name in self.ALL_COLUMNS:
            raise KeyError(f"these hits were decoded without the column {name}: columns={self.fields}")
        raise KeyError(f"there is no column {name!r}; there are {', '.join(known)}")

    def _chosen(self, which: Any) -> "Hits":
        """Returns the columns, events or hits that a sequence chooses."""
        choice = _POSSIBLE + f"; these have {self.n_events} events and {self.n_hits} hits"
        if isinstance(which, tuple) or which is None or which is Ellipsis or np.ndim(which) != 1:
            raise IndexError(f"hits cannot be chosen by {_short(which)}: {choice}")
        chosen = np.asarray(which)
        if chosen.dtype.kind in "UT" or (chosen.dtype == object and all(isinstance(one, str) for one in which)):
            names = [str(name) for name in which]
            for name in names:
                if name not in self._columns:
                    self._named(name)
                    raise KeyError(f"{name} belongs to events, not to hits: it is always there, as hits.{name}")
            return Hits(
                {name: self._columns[name] for name in names},
                self.offsets, self.n_groups, self.events, self.broken_events, self.failures,
            )
        if chosen.dtype == np.bool_:
            if len(chosen) == self.n_events == self.n_hits > 0:
                raise IndexError(
                    f"a mask of {len(chosen)} truth values may mean events or hits, as there are as many of both: choose events "
                    "by hits[numpy.flatnonzero(mask)], hits by a jagged mask of hits.to_awkward()"
                )
            if len(chosen) == self.n_events:
                return self._at(np.flatnonzero(chosen))
            if len(chosen) != self.n_hits:
                raise IndexError(f"a mask of {len(chosen)} truth values fits neither events nor hits: {choice}")
            before = np.concatenate([[0], np.cumsum(chosen, dtype=np.int64)])
            return self._part(slice(None), chosen, before[self.offsets])
        if chosen.size == 0:
            return self._at(np.arange(0))
        if chosen.dtype.kind not in "iu":
            raise TypeError(f"hits cannot be chosen by {_short(which)}: {choice}")
        places = chosen.astype(np.intp)
        wrong = places[(places < -self.n_events) | (places >= self.n_events)]
        if wrong.size:
            raise IndexError(f"there is no event at place {wrong[0]}: there are {self.n_events}")
        return self._at(places % max(self.n_events, 1))

    def _jagged(self, mask: Any) -> "Hits":
        """Returns the selection of an awkward array: with a truth value per hit, hits; with one value per event, events."""
        import awkward as ak

        if mask.ndim == 1:
            return self._chosen(ak.to_numpy(ak.fill_none(mask, False)))
        groups = mask.ndim == 3
        sizes = np.diff(self.offsets).reshape(self.n_events, self.n_groups)
        right = len(mask) == self.n_events and mask.ndim in (2, 3)
        if right:
            counts = ak.num(mask, axis=-1)
            counts = ak.to_numpy(ak.flatten(counts, axis=None)) if groups else ak.to_numpy(counts)
            right = np.array_equal(counts, sizes.ravel() if groups else sizes.sum(axis=1))
        if not right:
            raise IndexError(
                "a jagged mask has a truth value for each hit, in lists by event, as hits.to_awkward(groups=False), or by event and "
                f"group, as hits.to_awkward(): this one is {mask.type}"
            )
        flat = ak.to_numpy(ak.fill_none(ak.flatten(mask, axis=None), False))
        if self.n_hits and flat.dtype != np.bool_:
            raise TypeError(f"a jagged mask has truth values, not {flat.dtype}")
        before = np.concatenate([[0], np.cumsum(flat, dtype=np.int64)])
        return self._part(slice(None), flat.astype(bool), before[self.offsets])

    def _at(self, places: npt.NDArray[np.intp]) -> "Hits":
        """Returns the hits of the events at these places."""
        sizes = np.diff(self.offsets).reshape(self.n_events, self.n_groups)[places]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        # Distance that the hits of each event move.
        moves = self.offsets[: -1 : self.n_groups][places] - offsets[: -1 : self.n_groups]
        hits = np.arange(offsets[-1]) + np.repeat(moves, sizes.sum(axis=1))
        return self._part(places, hits, offsets)

    def _part(self, rows: Any, hits: Any, offsets: npt.NDArray[np.int64]) -> "Hits":
        columns = {name: None if column is None else column[hits] for name, column in self._columns.items()}
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
        """Place of each hit's event in its file, from 0. Computed on access."""
        return self._per_hit(self.events.event)

    @cached_property
    def event_index(self) -> npt.NDArray[np.int64]:
        """`events.index` of each hit's event, unique over all inputs of a call. Computed on access."""
        return self._per_hit(self.events.index)

    @cached_property
    def run(self) -> npt.NDArray[Any]:
        """Run number of each hit's event; float64 with NaN if some have none. Computed on access."""
        return self._fact("run").plain("run")

    @cached_property
    def event_number(self) -> npt.NDArray[Any]:
        """Number of each hit's event; float64 with NaN if some have none. Computed on access."""
        return self._fact("event_number").plain("event_number")

    @cached_property
    def file(self) -> npt.NDArray[np.object_]:
        """Name of each hit's file. Computed on access."""
        return self._per_hit(np.array(self.files or [""], object)[self.events.file])

    def _fact(self, name: str) -> Partial:
        return Partial(*map(self._per_hit, self.events._facts[name]))

    def _index(self) -> npt.NDArray[np.int64]:
        return self.event_index

    @cached_property
    def group(self) -> npt.NDArray[np.uint16]:
        """Sector group of each hit. Computed on access."""
        groups = np.tile(np.arange(self.n_groups, dtype=np.uint16), self.n_events)
        return frozen(np.repeat(groups, np.diff(self.offsets)))

    @property
    def report(self) -> dict[str, int]:
        """Counts over all events, by name: `docs/policy.md` says what the names mean."""
        sums = self.events.counts.sum(axis=0, dtype=np.uint64)
        return dict(zip(self.COUNTS, map(int, sums), strict=True))

    @property
    def loss(self) -> Loss:
        """The lost part of the data, and the reasons."""
        return Loss(tuple(map(int, self.events.losses.sum(axis=0, dtype=np.uint64))))

    @property
    def masked_hits(self) -> int:
        """Number of hits that the option `mask` left out: `masked_hits` in the JSON of `ut-decode decode`."""
        return int(self.events.masked_hits.sum(dtype=np.uint64))

    @property
    def has_trouble(self) -> bool:
        """True if anything is wrong with the data."""
        report = self.report
        return any(report[name] > 0 for name in self.TROUBLES)

    @property
    def troubles(self) -> npt.NDArray[np.void]:
        """Troubles, with one row for each trouble of each event: `file`, `event` (place in the file), `trouble` (its name)
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
        report, masked = self.report, self.masked_hits
        return Summary(self.n_events, self.n_hits, report, self.broken_events, self.failures, self.loss, masked)

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
        """Returns the hits of several `Hits`, one after the other. If their events do not ascend, they are numbered anew."""
        parts = list(parts)
        if not parts:
            raise ValueError("there are no hits to concatenate")
        first = parts[0]
        if any(part.n_groups != first.n_groups or part._columns.keys() != first._columns.keys() for part in parts):
            raise ValueError("only hits with the same columns and groups can be concatenated")
        files = list(dict.fromkeys(name for part in parts for name in part.files))
        places = {name: place for place, name in enumerate(files)}
        # An input without a name of its own is one name, too.
        file = [np.array([places[name] for name in part.files] or [0], np.uint32)[part.events.file] for part in parts]
        before = np.cumsum([0] + [part.n_hits for part in parts])
        ends = [np.zeros(1, np.int64)] + [part.offsets[1:] + n for part, n in zip(parts, before, strict=False)]
        events = [part.events for part in parts]
        index = np.concatenate([table.index for table in events])
        facts = {
            name: Partial(*map(np.concatenate, zip(*(table._facts[name] for table in events), strict=True)))
            for name in first.events._facts
        }
        return Hits(
            {name: _joined(parts, name) for name in first._columns},
            np.concatenate(ends),
            first.n_groups,
            Events(
                event=np.concatenate([table.event for table in events]),
                file=np.concatenate(file),
                counts=np.concatenate([table.counts for table in events]),
                losses=np.concatenate([table.losses for table in events]),
                masked_hits=np.concatenate([table.masked_hits for table in events]),
                # Of different calls, events may have the same number.
                index=index if (index[1:] > index[:-1]).all() else np.arange(len(index), dtype=np.int64),
                hits=np.concatenate([table.hits for table in events]),
                files=files,
                facts=facts,
            ),
            [broken for part in parts for broken in part.broken_events],
            [failure for part in parts for failure in part.failures],
        )

    def __eq__(self, other: object) -> bool:
        """Returns true if events and every bit of every hit are equal, whatever the names of the files."""
        if not isinstance(other, Hits):
            return NotImplemented
        mine, others = self.events, other.events

        def same(a: npt.NDArray[Any] | None, b: npt.NDArray[Any] | None) -> bool:
            return a is b or (a is not None and b is not None and a.tobytes() == b.tobytes())

        return (
            self.n_groups == other.n_groups
            and self._columns.keys() == other._columns.keys()
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(mine.event, others.event)
            and np.array_equal(mine.counts, others.counts)
            and np.array_equal(mine.losses, others.losses)
            and all(_same_fact(fact, others._facts[name]) for name, fact in mine._facts.items())
            and all(same(column, other._columns[name]) for name, column in self._columns.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        trouble = ", trouble" if self.has_trouble else ""
        return f"Hits({self.n_events} events, {self.n_hits} hits{trouble})"

    def _repr_html_(self) -> str:
        """Returns counts, what is wrong, and the first and last hits, as a notebook shows them."""
        ends_of_events = self.offsets[:: self.n_groups]

        def row(hit: int) -> list[object]:
            event = int(np.searchsorted(ends_of_events, hit, "right")) - 1
            group = int(np.searchsorted(self.offsets, hit, "right")) - 1 - event * self.n_groups
            place = [self.files[self.events.file[event]], self.events.event[event], group]
            return [*place, *("" if column is None else column[hit] for column in self._columns.values())]

        troubles = [f"{name} {n:,}" for name, n in self.report.items() if n > 0 and name in self.TROUBLES]
        wrong = f"<br>trouble: {', '.join(troubles)}" if troubles else ""
        numbers = {"event": self.n_events, "hit": self.n_hits, "input": len(self.files)}
        head = "<b>Hits</b>: " + ", ".join(_counted(n, word) for word, n in numbers.items()) + wrong
        rows = (None if hit is None else row(hit) for hit in ends(self.n_hits))
        return head + html_table(["file", "event", "group", *self._columns], rows)

    def __reduce__(self) -> tuple[Any, ...]:
        events = self.events
        rows = [events.event, events.file, events.counts, events.losses, events.masked_hits]
        rows += [events.index, events.hits, events.files]
        facts = {name: tuple(fact) for name, fact in events._facts.items()}
        columns = self._columns
        return _unpickled, (columns, self.offsets, self.n_groups, rows, facts, self.broken_events, self.failures)

    def to_awkward(self, groups: bool = True) -> "awkward.Array":
        """The hits as `events * groups * var * hit`, records with the columns, or without `groups` as `events * var * hit`. The
        columns are not copied. Columns that v4 banks do not have are None."""
        import awkward as ak

        def content(name: str) -> Any:
            kind, values, known = self._nullable(name)
            array = ak.contents.NumpyArray(values)
            return array if known is None else ak.contents.ByteMaskedArray(ak.index.Index8(known.view(np.int8)), array, True)

        columns = [content(name) for name in self._columns]
        records = ak.contents.RecordArray(columns, self.fields, length=self.n_hits)
        if not groups:
            return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(self.offsets[:: self.n_groups]), records))
        lists = ak.contents.ListOffsetArray(ak.index.Index64(self.offsets), records)
        return ak.Array(ak.contents.RegularArray(lists, self.n_groups, zeros_length=self.n_events))

    def to_root(self, path: "Target", format: Literal["rntuple", "ttree"] = "rntuple", *, jagged: bool = True) -> None:
        """Writes the hits into a ROOT file, as `decode_to_root` does."""
        from ._root import write

        write(iter([self]), path, format, jagged)

    def to_parquet(self, path: "Target") -> None:
        """Writes the rows of `to_arrow` into a Parquet file, which appears under its name when it is complete; needs pyarrow.

        Args:
            path: a local file, a URL of fsspec, or a binary file object.

        Raises:
            OutputError: the file cannot be written.
        """
        from pyarrow import parquet

        from ._output import written

        with written(path) as file:
            parquet.write_table(self.to_arrow(), file, compression="zstd")

    def _nullable(self, name: str) -> tuple[str, npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
        """Returns NumPy's name of the type of a column, its values, and where they are known, if not everywhere."""
        column, kind = self._columns[name], _CLUSTER_KINDS.get(name)
        if column is None:
            unknown = frozen(np.zeros(self.n_hits, bool))
            return kind or "<u2", frozen(np.zeros(self.n_hits, kind or "<u2")), unknown
        if kind is not None and column.dtype.kind == "f":
            known = ~np.isnan(column)
            return kind, frozen(np.where(known, column, 0).astype(kind)), frozen(known)
        return column.dtype.str, column, None

    def _flagged(self, name: str) -> tuple[str, npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
        """Returns `_nullable`, with flags for each column that v4 banks lack, so that its type is the same for all banks."""
        kind, values, known = self._nullable(name)
        return kind, values, frozen(np.ones(self.n_hits, bool)) if known is None and name in _CLUSTER_KINDS else known

    def _arrow(self) -> Columns:
        """Returns one row per hit, with the columns of Parquet files (`docs/files.md`)."""
        of_file, words = file_column(self.files, self.events.file)
        run, number = self._fact("run"), self._fact("event_number")

        def columns(names: Iterable[str]) -> Columns:
            return [(name, *self._flagged(name), None) for name in names]

        return [
            ("event", "<u8", self.event, None, None),
            ("run", "<u4", *run, None),
            ("event_number", "<u8", *number, None),
            ("group", "<u2", self.group, None, None),
            *columns(name for name in self.COLUMNS if name in self._columns),
            ("file", "<i4", self._per_hit(of_file), None, words),
            *columns(name for name in self._columns if name not in self.COLUMNS),
        ]


def _is_of(files: list[str], events: Events, file: str | None) -> npt.NDArray[np.bool_]:
    """Returns true for each event of a file."""
    return np.isin(events.file, [place for place, name in enumerate(files) if name == file])


def _joined(parts: list[Hits], name: str) -> npt.NDArray[Any] | None:
    """Returns a column of several hits, with NaN where only some of them have it."""
    columns = [part._columns[name] for part in parts]
    if all(column is None for column in columns):
        return None
    unknown = [np.full(part.n_hits, np.nan, np.float32) for part, column in zip(parts, columns, strict=True) if column is None]
    missing = iter(unknown)
    return np.concatenate([next(missing) if column is None else column for column in columns])


def _counted(n: int, word: str) -> str:
    return f"{n:,} {word}{'s' * (n != 1)}"


def _short(value: object) -> str:
    """Returns the text of a value, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__} {text[:50]}…"


def _same_fact(a: Partial, b: Partial) -> bool:
    return np.array_equal(a.known, b.known) and np.array_equal(a.values[a.known], b.values[b.known])


def _unpickled(columns: Any, offsets: Any, n_groups: int, rows: Any, facts: Any, *rest: Any) -> Hits:
    events = Events(*[*rows, {name: Partial(*fact) for name, fact in facts.items()}])
    return Hits(columns, offsets, n_groups, events, *rest)


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
    """Reasons that the first damaged events of each part were given up."""
    failures: list[Error] = field(default_factory=list)
    """With `keep_going`: reasons that files could not be read to their end."""
    loss: Loss = field(default_factory=Loss)
    """The lost part of the data, and the reasons."""
    masked_hits: int = 0
    """Hits that the option `mask` left out."""

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
            self.loss + later.loss,
            self.masked_hits + later.masked_hits,
        )
