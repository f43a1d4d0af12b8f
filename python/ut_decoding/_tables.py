"""A detector's tables."""

import os
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _native


Grouping: TypeAlias = Literal["y-rows", "unique-x"]
"""Rule by which sectors form the groups in which hits are sorted."""


class Connection(NamedTuple):
    """A lane of a board, and the strips of a sector that it reads."""

    board: int
    lane: int
    sector: int
    first_strip: int
    last_strip: int


class Tables:
    """The sensor on each lane of each board, its position, and the groups of sectors. Immutable.

    Args:
        boards: boards file of your detector, `ut_boards*.bin`.
        geometry: geometry file of your detector, `ut_geometry*.bin`.
        grouping: how sectors form the groups in which hits are sorted: "y-rows", 18 rows in y a layer, or "unique-x",
            columns of distinct x.
        trust: take boards and geometry that do not fit each other, and events that are not of their detector.

    Raises:
        TablesError: a file cannot be read (a FileNotFoundError, too, where it is not there), is no such table, or the
            geometry is not that of these boards.

    Tables are pickled by their content: a process on another machine does not need the files.
    """

    __slots__ = ("_files", "_tables")
    _tables: _native.Tables
    _files: tuple[str, ...]
    """Absolute paths of the files: the process may change its folder."""

    def __init__(
        self,
        boards: str | os.PathLike[str],
        geometry: str | os.PathLike[str],
        *,
        grouping: Grouping = "y-rows",
        trust: bool = False,
    ) -> None:
        self._tables = _native.Tables(boards, geometry, grouping=grouping, trust=trust)
        self._files = (os.path.abspath(boards), os.path.abspath(geometry))

    @classmethod
    def _of(cls, native: _native.Tables, files: tuple[str, ...] = ()) -> "Tables":
        tables = cls.__new__(cls)
        tables._tables, tables._files = native, files
        return tables

    @classmethod
    def synthetic(cls, version: Literal["v4", "v5"] = "v5", *, grouping: Grouping = "y-rows", trust: bool = False) -> "Tables":
        """Tables of a synthetic detector, to which the events of `generate` and `ut-decode generate` belong.

        Its sectors lie where the real ones do, to a fraction of a millimetre; its cabling is not the real one, so real banks
        give wrong hits.

        Args:
            version: format of the banks, "v4" (bank version 3) or "v5" (bank version 4).
            grouping: as of `Tables`.
            trust: take events that do not bear the mark of `generate`, too, as those of MEP packets and dumps cannot.
        """
        return cls._of(_native.Tables.synthetic(version, grouping=grouping, trust=trust))

    @classmethod
    def from_bytes(
        cls, boards: bytes, geometry: bytes, *, grouping: Grouping = "y-rows", trust: bool = False
    ) -> "Tables":
        """Tables from the bytes of the two files."""
        return cls._of(_native.Tables.from_bytes(boards, geometry, grouping, ("boards", "geometry"), trust))

    def to_bytes(self) -> tuple[bytes, bytes]:
        """The bytes of the boards file and of the geometry file."""
        return self._tables.to_bytes()

    @property
    def boards(self) -> str:
        """Name of the boards file."""
        return self._tables.boards

    @property
    def geometry(self) -> str:
        """Name of the geometry file."""
        return self._tables.geometry

    @property
    def grouping(self) -> str:
        """The grouping: "y-rows" or "unique-x"."""
        return self._tables.grouping

    @property
    def bank_version(self) -> str:
        """Format of the banks: "v4" or "v5"."""
        return self._tables.bank_version

    @property
    def n_boards(self) -> int:
        """Boards of the table, used or not."""
        return self._tables.n_boards

    @property
    def n_groups(self) -> int:
        """Sector groups of an event."""
        return self._tables.n_groups

    @property
    def is_synthetic(self) -> bool:
        """True for the tables of the synthetic detector."""
        return self._tables.is_synthetic

    @property
    def groups(self) -> npt.NDArray[np.uint16]:
        """Group of each sector, shape (1048,)."""
        return np.asarray(self._tables.groups())

    def connections(self, *, sector: int | None = None, board: int | None = None) -> list[Connection]:
        """Returns the strips of a sector that each lane reads: of all lanes, or of a sector's or a board's."""
        found = (Connection(*found) for found in self._tables.connections())
        return [c for c in found if sector in (None, c.sector) and board in (None, c.board)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tables) and self._tables == other._tables

    def __hash__(self) -> int:
        return hash((self.to_bytes(), self.grouping))

    def __reduce__(self) -> tuple[Any, ...]:
        names = None if self.is_synthetic else (self.boards, self.geometry)
        return _unpickled, (*self.to_bytes(), self.grouping, names, self._tables.is_trusted, self._files)

    def __repr__(self) -> str:
        return repr(self._tables)


def _unpickled(
    boards: bytes,
    geometry: bytes,
    grouping: str,
    names: tuple[str, str] | None,
    trust: bool,
    files: tuple[str, ...] = (),
) -> Tables:
    return Tables._of(_native.Tables.from_bytes(boards, geometry, grouping, names, trust), files)
