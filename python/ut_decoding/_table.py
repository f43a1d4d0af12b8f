"""Rows for libraries of tables."""

import html
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _native

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Columns = list[tuple[str, str, npt.NDArray[Any], npt.NDArray[Any] | None, list[str] | None]]
"""Name, NumPy's name of the type, values, where they are known (`None`: everywhere), and the words that the values number."""


class Partial(NamedTuple):
    """Values, some of which may be unknown."""

    values: npt.NDArray[Any]
    known: npt.NDArray[np.bool_]
    """True where the value is known; elsewhere the value has no meaning."""

    def plain(self, name: str) -> npt.NDArray[Any]:
        """Returns the values as NumPy has them: integers where all are known, else float64 with NaN; times with NaT."""
        values, known = self
        if known.all():
            return values
        if values.dtype.kind == "M":
            return frozen(np.where(known, values, np.datetime64("NaT")))
        if values.dtype.itemsize == 8 and known.any() and values[known].max() > 2**53:
            raise ValueError(
                f"{name}: some values are unknown and some are above 2**53, which float64 cannot hold exactly; "
                "to_arrow() and to_polars() have them as integers and nulls"
            )
        return frozen(np.where(known, values, np.nan))


class Table:
    """A table that goes to pyarrow, polars and duckdb through Arrow's C interface, and to pandas."""

    def _arrow(self) -> Columns:
        raise NotImplementedError

    def _index(self) -> npt.NDArray[np.int64]:
        """Returns `event_index` of each row, the column that data frames have besides those of `to_arrow`."""
        raise NotImplementedError

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name.startswith("__") or not name.startswith("_")]

    def to_arrow(self) -> "pyarrow.Table":
        """Returns a table of Arrow. Columns that lie in memory are not copied."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> "polars.DataFrame":
        """Returns a data frame of polars: `event_index`, by which hits and events are joined, then the columns of `to_arrow`.
        Columns that lie in memory are not copied."""
        import polars

        return polars.DataFrame(self).insert_column(0, polars.Series("event_index", self._index()))

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns a data frame of pandas: `event_index`, by which hits and events are joined, then the columns of `to_arrow`. What
        may be unknown becomes nullable integers or times; words become categories."""
        import pandas

        def series(kind: str, values: Any, known: Any, words: list[str] | None) -> Any:
            if words is not None:
                return pandas.Categorical.from_codes(values if known is None else np.where(known, values, -1), words)
            if kind.startswith("<M8"):
                return pandas.DatetimeIndex(np.where(known, values.view(kind), np.datetime64("NaT"))).tz_localize("UTC")
            return values if known is None else pandas.arrays.IntegerArray(values, ~known)

        columns = {"event_index": self._index()}
        columns |= {name: series(kind, values, known, words) for name, kind, values, known, words in self._arrow()}
        return pandas.DataFrame(columns, copy=False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns Arrow's C stream in a capsule; a requested schema is ignored, as the protocol allows."""
        return _native.arrow_stream(self._arrow())

    def __arrow_c_schema__(self) -> object:
        """Returns the schema of the stream in a capsule."""
        return _native.arrow_schema(self._arrow())


def file_column(files: list[str], file: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Returns the numbers of the files of rows, given as places in `files`, and the words that they number."""
    # Arrow strings are UTF-8; file names need not be.
    words = [os.fsencode(name).decode(errors="backslashreplace") for name in dict.fromkeys(files)]
    # A file of several splits is one word: pandas takes no dictionary that has a word twice.
    places = {name: place for place, name in enumerate(dict.fromkeys(files))}
    return frozen(np.array([places[name] for name in files] or [0], np.int32)[file]), words


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the array, read-only from now on."""
    array.setflags(write=False)
    return array


def html_table(names: Sequence[str], rows: Iterable[Sequence[object] | None]) -> str:
    """Returns a table in HTML; a row that is None stands for rows that are left out."""

    def line(cells: Iterable[object]) -> str:
        return "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"

    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    return f"<table><tr>{head}</tr>{''.join(line(row or ['⋮'] * len(names)) for row in rows)}</table>"


def ends(n: int) -> list[int | None]:
    """Returns the first and last five of `n` rows, with None for the rows between them."""
    return [*range(n)] if n <= 10 else [*range(5), None, *range(n - 5, n)]
