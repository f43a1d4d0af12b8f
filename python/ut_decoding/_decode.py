"""From files to hits: `decode` and `iterate`, and their arguments."""

import atexit
import glob
import io
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeAlias, Unpack

from . import _native
from ._errors import InputError, NoSuchFileError
from ._hits import Hits
from ._loss import Loss, judge
from ._options import DEFAULTS, Options, checked, integer, places, takes
from ._split import Split
from ._tables import Tables

Name = str | os.PathLike[str]


class Readable(Protocol):
    """A binary file object that is open for reading."""

    def read(self, n: int, /) -> bytes: ...


Input: TypeAlias = Name | bytes | bytearray | memoryview | Readable | Split
"""A file, folder, pattern or URL; the bytes of a file; a binary file object; or a split of `plan`."""

Inputs: TypeAlias = Input | Iterable[Input]
"""One input or several."""

NO_FILE = re.compile(r"-|boards|geometry|bytes(-\d+)?")
"""Names of inputs and tables that came as bytes, or from standard input."""

_UNITS = {"B": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_MOST = 2**63 - 1
_OWNER = os.getpid()


@atexit.register
def _remove_unfinished() -> None:
    """After Ctrl-C the thread that writes may still wait for its input; a process forked from this one owns no file."""
    if os.getpid() == _OWNER:
        _native.remove_unfinished()


@takes(Options)
def decode(inputs: Inputs, tables: Tables | None = None, **options: Unpack[Options]) -> Hits:
    """Decodes all events of the inputs.

    Args:
        inputs: a file, a folder (its files by name), a pattern ("run*.mdf"), a URL ("root://…", "zip://*.mdf::run.zip", by
            fsspec; a folder where it ends with a slash), a binary file object, the bytes of a file, a split of `plan`, or
            several of these. MDF files, MEP packets and Allen-layout dumps, in zstd or gzip or not; "-" is standard input.
        tables: the detector; not needed for splits that were planned with tables.
        **options

    Returns:
        The hits, ordered by event, sector group, x and LHCbID. Damaged data cost only themselves and are counted:
        `Hits.report`, `Hits.troubles`, `Hits.loss`.

    Raises:
        InputError: a file cannot be opened, or not be followed any more, or none of its UT banks has the version of the
            board table. With `keep_going`, only the last.
        LossError: more was lost than `max_loss`.
        DecodeError: the backend cannot work on this machine.
        MemoryError: the hits do not fit into memory: `iterate`, or ask for fewer `columns`.
        ValueError: an option is invalid.
    """
    request, files = request_of(inputs, tables, options)
    job = _native.Job(request)
    piece = job.next()
    if piece is None:
        raise KeyboardInterrupt
    job.next()
    hits = Hits._of_piece(piece, files, _first_place(inputs))
    judge(hits.loss, request["max_loss"])
    return hits


@takes(Options)
def iterate(
    inputs: Inputs, tables: Tables | None = None, *, step: int | str = "32 MB", **options: Unpack[Options]
) -> Iterator[Hits]:
    """Decodes the inputs some events at a time, in bounded memory: while you work on some, the next are decoded.

    Args:
        inputs, tables: as of `decode`.
        step: events of each but the last `Hits`, or the memory that its columns take at most: "100 MB". Where they are
            those of a batch, the rest of the batch's memory is kept, too: to collect all hits, use `decode`.
        **options

    Raises:
        As `decode`; the hits before an InputError come first.
    """
    limits = _step(step)
    request, files = request_of(inputs, tables, options)
    # The hits of batches so large need not be copied.
    lends = request["batch"] is None and isinstance(step, str) and request["backend"] == "cpu"
    if lends:
        request["batch"] = 256
    job = _native.Job(request, (*limits, lends))

    def pieces(place: int) -> Iterator[Hits]:
        loss = Loss()
        try:
            while (piece := job.next()) is not None:
                hits = Hits._of_piece(piece, files, place)
                # A variable of ours would keep the columns while the caller waits for the next ones.
                del piece
                place += hits.n_events
                loss += hits.loss
                if hits.n_events > 0 or hits.failures:
                    yield hits
                del hits
            judge(loss, request["max_loss"], 2)
        finally:
            job.close()

    return pieces(_first_place(inputs))


def _step(step: int | str) -> tuple[int, int]:
    """Events and bytes of a step."""
    if not isinstance(step, str):
        events = integer("step", step)
        if events < 1:
            raise ValueError(f"step: {events} is less than 1")
        return events, _MOST
    found = re.fullmatch(r"\s*(\d+\.?\d*)\s*(\w+)\s*", step)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f'step: {step!r} is neither a number of events nor an amount of memory such as "100 MB"')
    return _MOST, min(int(float(found[1]) * _UNITS[found[2]]), _MOST)


def _first_place(inputs: Any) -> int:
    """Number of events before the first split, as far as it is known."""
    first = inputs[0] if isinstance(inputs, list) and inputs else inputs
    return first.first_place or 0 if isinstance(first, Split) else 0


def request_of(inputs: Any, tables: Tables | None, options: Any) -> tuple[dict[str, Any], list[str]]:
    """Returns the request for the compiled part, and the names of the inputs."""
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
        raise TypeError("tables: say which detector the banks come from, with Tables(boards, geometry)")
    if not isinstance(tables, Tables):
        raise TypeError(f"tables must be Tables, not {type(tables).__name__}")
    request = DEFAULTS | checked(options)
    parts = _named([part for one in several for part in _parts(one)])
    names = [part[0] if isinstance(part, tuple) else part for part in parts]
    request |= {
        "parts": parts,
        "tables": tables._tables,
        "columns": list(Hits.COLUMNS) if request["columns"] is None else list(request["columns"]),
        "events": places(request["events"]),
        "read": [*tables._files, *([request["mask"]] if request["mask"] else []), *(os.path.abspath(name) for part, name in zip(parts, names, strict=True) if _is_file(part, name))],
    }
    return request, names


def several_of(inputs: Any) -> list[Any]:
    """Yields the inputs, where there may be one or several."""
    if isinstance(inputs, str | os.PathLike | Split) or hasattr(inputs, "read") or _is_bytes(inputs):
        return [inputs]
    if not isinstance(inputs, Iterable):
        raise TypeError(f"an input is the name of a file, a binary file object, bytes or a split, not {type(inputs).__name__}")
    return list(inputs)


def spare(output: Any, files: Iterable[Name]) -> None:
    """Refuses to write over one of the files that a request has `read`."""
    if not isinstance(output, str | os.PathLike):
        return
    for file in files:
        if os.path.isfile(output) and os.path.exists(file) and os.path.samefile(output, file):
            raise ValueError(f"{os.fspath(output)} would replace {os.fspath(file)}, which is read")


class _Remote:
    """A URL that is opened when its first byte is read."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: Any = None
        self._file: Any = None

    def read(self, n: int) -> Any:
        if self._file is None:
            import fsspec

            # An archive is closed when what opened it is dropped.
            self._opened = fsspec.open(self._url, "rb")
            self._file = self._opened.open()
        return self._file.read(n)


def is_url(name: str) -> bool:
    """Returns true if fsspec opens the name."""
    return "://" in name and not os.path.exists(name)


def part_of(split: Split) -> Any:
    """Returns a split as the compiled part takes it."""
    return (split.file, _Remote(split.file)) if is_url(split.file) else (split.file, split.start, split.stop, split.first_event)


def _parts(one: Any) -> list[Any]:
    """Returns an input as the compiled part takes it: files, or a name with bytes or a file object, or a section of a file."""
    if isinstance(one, Split):
        return [part_of(one)]
    if _is_bytes(one):
        return [("bytes", bytes(one))]
    if hasattr(one, "read"):
        if isinstance(one, io.TextIOBase) or not isinstance(one.read(0), bytes):
            raise TypeError(f'{one!r} is not read as bytes: open(…, "rb")')
        names = (getattr(one, name, None) for name in ("name", "full_name", "path"))
        return [(next((name for name in names if isinstance(name, str) and name), "bytes"), one)]
    return [(name, _Remote(name)) if is_url(name) else name for name in files_of(one)]


def _is_bytes(one: Any) -> bool:
    """Returns true for memory with bytes: bytes, memoryview, mmap, an array of uint8."""
    try:
        return memoryview(one).format in ("B", "b", "c")
    except TypeError:
        return False


def _named(parts: list[Any]) -> list[Any]:
    """Returns the inputs; inputs that are not files get unique names."""
    used = {part[0] if isinstance(part, tuple) else part for part in parts if not _is_read_here(part)}
    found = []
    for part in parts:
        if _is_read_here(part):
            name, n = part[0], 1
            while name in used:
                n += 1
                name = f"{part[0]}-{n}"
            used.add(name)
            part = (name, part[1])
        found.append(part)
    return found


def _is_file(part: Any, name: str) -> bool:
    """Returns true if the input comes from a file of this machine, by its name."""
    return name != "-" and not (_is_read_here(part) and NO_FILE.fullmatch(name))


def _is_read_here(part: Any) -> bool:
    return isinstance(part, tuple) and len(part) == 2 and not isinstance(part[1], _Remote)


def files_of(one: Name) -> list[str]:
    """The files that a name stands for: a folder or a pattern for several, by name."""
    if not isinstance(one, str | os.PathLike):
        raise TypeError(f"an input is the name of a file, a binary file object, bytes or a split, not {type(one).__name__}")
    name = os.fspath(one)
    if not isinstance(name, str):
        raise TypeError(f"an input is a name or bytes, not {type(one).__name__}")
    if is_url(name):
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise InputError(f"{name}: opening URLs needs fsspec, which is not installed", name) from None
        head, *chain = name.split("::")
        is_folder = head.endswith("/")
        if "*" not in head and not is_folder:
            return [name]
        try:
            system, path = url_to_fs(name)
            if is_folder:
                inside = (one["name"] for one in system.ls(path, detail=True) if one["type"] == "file")
                paths = [one for one in inside if not one.rpartition("/")[2].startswith(".")]
            else:
                paths = system.glob(path)
        except FileNotFoundError:
            raise NoSuchFileError(f"{name}: there is no such folder", name) from None
        except Exception as error:
            # Drivers raise errors of any type.
            raise InputError(f"{name}: cannot be listed: {type(error).__name__}: {error}", name) from error
        if not paths:
            raise InputError(f"{name}: {'there is no file in this folder' if is_folder else 'no file fits this pattern'}", name)
        return ["::".join([system.unstrip_protocol(path), *chain]) for path in sorted(paths)]
    if os.path.isdir(name):
        here = sorted(entry.path for entry in os.scandir(name) if entry.is_file() and not entry.name.startswith("."))
        if not here:
            raise InputError(f"{name}: there is no file in this folder", name)
        return here
    if name != "-" and any(c in name for c in "*?[") and not os.path.exists(name):
        fitting = sorted(glob.glob(name, recursive=True))
        if not fitting:
            raise InputError(f"{name}: no file fits this pattern", name)
        return fitting
    return [name]
