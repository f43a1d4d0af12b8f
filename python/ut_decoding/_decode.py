"""Files in, hits out: `decode` and `iterate`, and what they take."""

import atexit
import glob
import operator
import os
from collections.abc import Iterable, Iterator
from typing import Any, TypedDict, Unpack, get_args, get_type_hints

from . import _native
from ._errors import InputError
from ._hits import Hits
from ._split import Split
from ._tables import Tables

Name = str | os.PathLike[str]

_OWNER = os.getpid()


@atexit.register
def _remove_unfinished() -> None:
    """After Ctrl-C the thread that writes may still wait for its input; a process forked from this one owns no file."""
    if os.getpid() == _OWNER:
        _native.remove_unfinished()


class EventOptions(TypedDict, total=False):
    """Which events of a file to take, and how their strips become clusters."""

    run: int | None
    """Only events of this run."""
    event_number: int | None
    """Only events with this event number."""
    clustering: bool
    """Join neighbouring strips to clusters; otherwise every strip is a hit. v5 banks only, as the next four."""
    position: str
    """Position of a cluster: "adc", mean of the strips weighted by ADC counts, or "geometric", plain mean."""
    max_cluster_size: int
    """Strips that a cluster may have; larger ones are dropped. Default 128."""
    save_above_max: bool
    """Keep the first strips of larger clusters instead."""
    flip: int
    """Strips of flipped sectors count from 511 (default; Allen since v7r9) or from 512 (Allen before)."""
    threads: int
    """Threads that decode; 0 (default): one a core."""
    checksum: bool
    """Compare checksums. Default yes."""
    keep_going: bool
    """Where a file cannot be read further, go on with the next one; `failures` of the result has the errors."""


class PlaceOptions(TypedDict, total=False):
    """Which events to take, by their place counted over all inputs from 0."""

    events: str | int | Iterable[int] | None
    """Only these events: "3,10-20" (both ends are meant), or integers."""
    skip: int
    """Leave out the first so many of these places."""
    limit: int | None
    """Take at most so many places."""
    shard: tuple[int, int] | None
    """Part i of n parts of all events (i from 1): contiguous, and together the whole. Reads the inputs once more."""


class SplitOptions(EventOptions, total=False):
    """Options that mean the same for a whole job and for a part of it. None of them changes a hit, but for those of the
    clustering."""

    columns: Iterable[str] | None
    """Columns of hits to keep, by name; default `Hits.COLUMNS`. Fewer take less memory and time. Those of
    `Hits.DETECTOR_COLUMNS` come on request; "detector" stands for all of them but `sector_id`."""
    backend: str
    """"cpu" (default), "reference", "emulated" or "cuda": the same bits from each."""
    batch: int | None
    """Events that are decoded at a time. Default 64, whose bytes stay in a core's caches; on a device, and for a row group of
    Parquet, 256."""


class Options(SplitOptions, PlaceOptions, total=False):
    """The options of `decode`, `iterate` and `decode_to_parquet`."""


OPTIONS: dict[str, Any] = get_type_hints(Options)
"""The types of the options by name; their defaults are in the compiled part."""


def decode(inputs: Any, tables: Tables | None = None, **options: Unpack[Options]) -> Hits:
    """Decodes all events of the inputs.

    Args:
        inputs: a file, a folder (its files by name), a pattern ("run*.mdf"), the bytes of a file, a split of `plan`, or
            several of these. MDF files, MEP packets and Allen-layout dumps, in zstd or gzip or not; "-" is standard input.
        tables: the detector; not needed for splits that were planned with tables.
        **options: see `Options`.

    Returns:
        The hits, ordered by event, sector group, x and LHCbID. Damaged data cost only themselves and are counted:
        `Hits.report`, `Hits.troubles`.

    Raises:
        InputError: a file cannot be opened, or not be followed any more, or none of its UT banks has the version of the
            board table. With `keep_going`, only the last.
        DecodeError: the backend cannot work on this machine.
        MemoryError: the hits do not fit into memory: `iterate`, or ask for fewer `columns`.
        ValueError: an option is invalid.
    """
    request, files = request_of(inputs, tables, options)
    piece = _native.Job(request).next()
    if piece is None:
        raise KeyboardInterrupt
    return Hits._of_piece(piece, files)


def iterate(
    inputs: Any, tables: Tables | None = None, *, step: int = 10_000, **options: Unpack[Options]
) -> Iterator[Hits]:
    """Decodes the inputs `step` events at a time, in bounded memory: while you work on some, the next are decoded.

    Args:
        inputs, tables, **options: as of `decode`.
        step: events of each but the last `Hits`.

    Raises:
        As `decode`; the hits before an InputError come first.
    """
    step = integer("step", step)
    if step < 1:
        raise ValueError(f"step: {step} is less than 1")
    request, files = request_of(inputs, tables, options)
    job = _native.Job(request, step)

    def pieces() -> Iterator[Hits]:
        try:
            while (piece := job.next()) is not None:
                hits = Hits._of_piece(piece, files)
                # A variable of ours would keep the columns while the caller waits for the next ones.
                del piece
                if hits.n_events > 0 or hits.failures:
                    yield hits
                del hits
        finally:
            job.close()

    return pieces()


def request_of(inputs: Any, tables: Tables | None, options: Any) -> tuple[dict[str, Any], list[str]]:
    """What the compiled part takes, and the names of the inputs."""
    several = several_of(inputs)
    splits = [part for part in several if isinstance(part, Split)]
    if splits:
        first = splits[0]
        if any(split.options != first.options for split in splits):
            raise ValueError("splits with different options cannot be decoded together")
        if tables is None:
            tables = first.tables
            if any(split.tables is not tables and split.tables != tables for split in splits):
                raise ValueError("splits with different tables cannot be decoded together")
        options = first.options | options
    if tables is None:
        raise TypeError("tables: which detector the banks come from is not known; Tables(boards, geometry)")
    if not isinstance(tables, Tables):
        raise TypeError(f"tables must be Tables, not {type(tables).__name__}")
    request = checked(options)
    parts = [part for one in several for part in _parts(one)]
    names = [str(part[0]) if isinstance(part, tuple) else part for part in parts]
    columns = request.get("columns")
    request |= {
        "parts": parts,
        "tables": tables._tables,
        "columns": list(Hits.COLUMNS) if columns is None else _columns(columns),
        "events": _places(request.get("events")),
        "read": [*tables._files, *_files(parts)],
    }
    return request, names


def several_of(inputs: Any) -> list[Any]:
    """Inputs one by one, where there may be one or several."""
    is_one = isinstance(inputs, str | os.PathLike | bytes | bytearray | memoryview | Split)
    return [inputs] if is_one else list(inputs)


def spare(output: Name, files: Iterable[Name]) -> None:
    """Refuses to write over one of some files: those that a request has `read`."""
    for file in files:
        if os.path.isfile(output) and os.path.exists(file) and os.path.samefile(output, file):
            raise ValueError(f"{os.fspath(output)} would replace {os.fspath(file)}, which is read")


def _files(parts: list[Any]) -> Iterator[str]:
    """Absolute paths of the files among inputs: the process may change its folder."""
    for part in parts:
        # Of a section, the file comes first; bytes come with a name that is no file's, and "-" is standard input.
        name = part[0] if isinstance(part, tuple) else part
        if name != "-" and not (isinstance(part, tuple) and isinstance(part[1], bytes)):
            yield os.path.abspath(name)


def _columns(names: Iterable[str]) -> list[str]:
    """The columns that names stand for, each once."""
    found: list[str] = []
    for name in names:
        found += Hits.DETECTOR_COLUMNS[:-1] if name == "detector" else [name]
    return list(dict.fromkeys(found))


def checked(options: Any) -> dict[str, Any]:
    """The options as they are kept: integers of NumPy as those of Python, and columns to be read more than once."""
    unknown = options.keys() - OPTIONS.keys()
    if unknown:
        raise TypeError(f"there is no option {min(unknown)!r}; there are {', '.join(OPTIONS)}")
    return {name: _checked(name, value) for name, value in options.items()}


def _checked(name: str, value: Any) -> Any:
    """The value, which is refused if it is of the wrong type, or a negative number."""
    kinds = get_args(OPTIONS[name]) or (OPTIONS[name],)
    if name == "events" or (value is None and type(None) in kinds):
        return value
    if name == "columns":
        if isinstance(value, str):
            raise TypeError('columns: several names, as ["lhcb_id"]')
        return tuple(value)
    if name == "shard":
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise TypeError(f"shard: {value!r} is not a pair of ints, such as (1, 4)")
        return tuple(integer(name, number) for number in value)
    if kinds[0] is int:
        return integer(name, value, 32 if name in ("run", "max_cluster_size", "flip") else 63)
    if not isinstance(value, kinds[0]):
        raise TypeError(f"{name}: {value!r} is no {kinds[0].__name__}")
    return value


def integer(name: str, value: Any, bits: int = 63) -> int:
    """The value as an int, refused if it is not one, negative, or has more bits."""
    # True is an int to Python, and no number of threads.
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: {value!r} is not an int")
    number = operator.index(value)
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{name}: {value} is out of range")
    return number


def _parts(one: Any) -> list[Any]:
    """An input as the compiled part takes it: files, or bytes with a name, or a section of a file."""
    if isinstance(one, Split):
        return [(one.file, one.start, one.stop, one.first_event)]
    if isinstance(one, bytes | bytearray | memoryview):
        return [("bytes", bytes(one))]
    return [*files_of(one)]


def files_of(one: Name) -> list[str]:
    """The files that a name stands for: a folder or a pattern for several, by name."""
    name = os.fspath(one)
    if not isinstance(name, str):
        raise TypeError(f"an input is a name or bytes, not {type(one).__name__}")
    if os.path.isdir(name):
        inside = sorted(entry.path for entry in os.scandir(name) if entry.is_file() and not entry.name.startswith("."))
        if not inside:
            raise InputError(f"{name}: there is no file in this folder", name)
        return inside
    if name != "-" and any(c in name for c in "*?[") and not os.path.exists(name):
        fitting = sorted(glob.glob(name, recursive=True))
        if not fitting:
            raise InputError(f"{name}: no file fits this pattern", name)
        return fitting
    return [name]


def _places(events: Any) -> str | None:
    """Places as the tool writes them: "3,10-20"."""
    if events is None or isinstance(events, str):
        return events
    if not isinstance(events, Iterable):
        return str(_place(events))
    if isinstance(events, range) and events.step == 1 and len(events) > 0:
        return f"{events.start}-{events[-1]}"
    places = [str(_place(place)) for place in events]
    if not places:
        raise ValueError("events: there are none; to take no event, say limit=0")
    return ",".join(places)


def _place(place: Any) -> int:
    # True is an int to Python, and no place.
    if isinstance(place, bool) or not hasattr(place, "__index__"):
        raise TypeError(f"events: {place!r} is not an int")
    return operator.index(place)
