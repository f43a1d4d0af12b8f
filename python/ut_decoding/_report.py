"""Sums over the events of a run, and the page drawn from them."""

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from . import _native
from ._decode import NO_FILE, Name, request_of, several_of, spare
from ._errors import InputError
from ._options import SumsOptions, takes
from ._split import Split
from ._tables import Tables

if TYPE_CHECKING:
    import hist

class RunSums:
    """Sums over the events of a run, or of a part of it: the numbers behind the page of `report`.

    Their size does not grow with the number of events. They are pickled, and added with `+`: the sums of all parts, added in
    whatever groups, are those of the whole, and so is the page. In the order of the parts, so is the list of files, too.

    Raises:
        ValueError: what is added is of another detector, of other options, or against another axis of time; or it is of the same
            part of the same files, whose events would count twice. Sums of bytes and pipes are not recognised.
    """

    __slots__ = ("_files", "_mask", "_sums")
    _sums: _native.RunSums
    _files: tuple[str, ...]
    """Absolute paths of the files that were read: the process may change its folder."""
    _mask: str | None
    """File of the strips whose hits were left out."""

    def __init__(self) -> None:
        raise TypeError("run_sums and RunSums.from_bytes make RunSums")

    @classmethod
    def _of(cls, native: _native.RunSums, files: Iterable[str], mask: str | None = None) -> "RunSums":
        sums = cls.__new__(cls)
        sums._sums, sums._files, sums._mask = native, tuple(dict.fromkeys(files)), mask
        return sums

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "bytes") -> "RunSums":
        """Sums from the bytes of a file that `ut-decode report --sums` wrote, or of `to_bytes`.

        Raises:
            InputError: these are not sums; the message calls them `name`.
        """
        sums = _native.RunSums.from_bytes(data, name)
        names = [os.fspath(name) for name in (*sums.files, *sums.tables)]
        return cls._of(sums, (os.path.abspath(name) for name in names if not NO_FILE.fullmatch(name)))

    def to_bytes(self) -> bytes:
        """The bytes of a file that `ut-decode report --merge` takes, some 100 kB."""
        return self._sums.to_bytes()

    @property
    def events(self) -> int:
        """Events."""
        return self._sums.events

    @property
    def hits(self) -> int:
        """Hits."""
        return self._sums.hits

    @property
    def files(self) -> list[str]:
        """The files, each once."""
        return self._sums.files

    @property
    def against(self) -> str:
        """Time axis of the pictures: "number", the event number, if the first event of the first file has one; otherwise
        "place", the event's place among all."""
        return self._sums.against

    @property
    def failures(self) -> list[str]:
        """With `keep_going`: reasons that files could not be read to their end."""
        return self._sums.failures

    def histograms(self) -> "dict[str, hist.Hist[Any]]":
        """The numbers behind the pictures: `strips`, hits by sector and strip; `charge` and `n_strips`, by layer, of v5 banks;
        `events`, against time: against what `against` says."""
        from ._histograms import of_sums

        return of_sums(self._sums.numbers(), self.against)

    def write_page(self, page: Name, compare: "RunSums | None" = None) -> dict[str, Any]:
        """Draws the page into a file, whole or not at all; `compare`: a second run next to this one.

        Returns:
            What stands out, and the sums, as `ut-decode report --json` writes them.

        Raises:
            OutputError: the page cannot be written.
            InputError: no bank of a file has the version of the board table.
            ValueError: the second run is of another detector or of other clustering, or the page would replace a file of raw
                data or a table.
        """
        if compare is not None:
            self._check_mask(compare)
        for sums in (self, compare):
            if sums is not None and sums._sums.wrong_version is not None:
                raise InputError(sums._sums.wrong_version)
            if sums is not None:
                spare(page, sums._files)
        return dict(json.loads(self._sums.draw(page, None if compare is None else compare._sums, self._mask)))

    def _check_mask(self, other: "RunSums") -> None:
        if self._mask != other._mask:
            raise ValueError(f"mask: one has {self._mask}, the other {other._mask}")

    def __add__(self, other: "RunSums") -> "RunSums":
        if not isinstance(other, RunSums):
            return NotImplemented
        self._check_mask(other)
        return RunSums._of(self._sums.plus(other._sums), self._files + other._files, self._mask)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.to_bytes(), self._files, self._mask)

    def __repr__(self) -> str:
        return f"RunSums({self.events} events, {self.hits} hits, {len(self.files)} files)"


def _unpickled(data: bytes, files: tuple[str, ...], mask: str | None) -> RunSums:
    return RunSums._of(_native.RunSums.from_bytes(data, "bytes"), files, mask)


@takes(SumsOptions)
def run_sums(inputs: Any, tables: Tables | None = None, **options: Unpack[SumsOptions]) -> RunSums:
    """Sums up the events of a run, or of a part of it: a split of `plan`, or with `shard=(i, n)`.

    Args:
        inputs: files, folders, patterns or bytes, as of `decode`, or one split.
        tables: the detector; not needed for a split that was planned with tables.
        **options

    Raises:
        As `decode`; ValueError for a split of which nobody knows how many events come before it: see `plan`'s `count`.
    """
    first_place = 0
    several = several_of(inputs)
    if any(isinstance(one, Split) for one in several):
        if len(several) > 1:
            raise ValueError("run_sums takes one split at a time; add what it returns")
        (split,) = several
        if split.first_place is None:
            raise ValueError(
                f"{split.file} comes after files whose events are not counted: plan(..., count=True) counts them"
            )
        first_place = split.first_place
    request, _ = request_of(several, tables, options)
    return RunSums._of(_native.run_sums(request, first_place), request["read"], request["mask"])


@takes(SumsOptions)
def report(
    files: Any,
    tables: Tables,
    page: Name,
    *,
    compare: Any = None,
    **options: Unpack[SumsOptions],
) -> dict[str, Any]:
    """Draws what the detector did during a run on a page that needs nothing else: events, troubles, maps of hits and charge,
    what is dead or hot, and all of it against time. `docs/report.md` says what each picture means. Memory does not grow with
    the number of events.

    Args:
        files: files, folders and patterns, as of `decode`.
        tables: the detector.
        page: the HTML file to write, whole or not at all.
        compare: a second run, which is drawn beside the first: files, as the first. Places that `options` choose are those
            of the first.
        **options

    Returns:
        What stands out, and the sums, as `ut-decode report --json` writes them.

    Raises:
        As `decode`, and OutputError where the page cannot be written; ValueError where it would replace an input or a table.
    """
    files, compare = several_of(files), None if compare is None else several_of(compare)
    spare(page, request_of([*files, *(compare or [])], tables, {})[0]["read"])
    first = run_sums(files, tables, **options)
    if compare is None:
        return first.write_page(page)
    return first.write_page(page, run_sums(compare, tables, **of_every_run(options)))


def of_every_run(options: Any) -> Any:
    """The options except the choice of events of one run."""
    chosen = ("events", "skip", "limit", "shard", "run", "event_number", "run_events", "time", "crossing")
    return {name: value for name, value in options.items() if name not in chosen}
