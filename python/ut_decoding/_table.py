"""Rows for the libraries that take tables."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _native

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Columns = list[tuple[str, str, npt.NDArray[Any], npt.NDArray[Any] | None, list[str] | None]]
"""Name, NumPy's name of the type, values, where they are known (`None`: everywhere), and the words that the values number."""


class Table:
    """A table that goes to pyarrow, polars and duckdb through Arrow's C interface, and to pandas."""

    def _arrow(self) -> Columns:
        raise NotImplementedError

    def to_arrow(self) -> "pyarrow.Table":
        """Returns a table of Arrow. Columns that lie in memory are not copied."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> "polars.DataFrame":
        """Returns a data frame of polars, with the columns of `to_arrow`. Columns that lie in memory are not copied."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns a data frame of pandas, with the columns of `to_arrow`: what may be unknown as nullable integers or times,
        words as categories."""
        import pandas

        def series(kind: str, values: Any, known: Any, words: list[str] | None) -> Any:
            if words is not None:
                return pandas.Categorical.from_codes(values if known is None else np.where(known, values, -1), words)
            if kind.startswith("<M8"):
                return pandas.DatetimeIndex(np.where(known, values.view(kind), np.datetime64("NaT"))).tz_localize("UTC")
            return values if known is None else pandas.arrays.IntegerArray(values, ~known)

        columns = {name: series(kind, values, known, words) for name, kind, values, known, words in self._arrow()}
        return pandas.DataFrame(columns, copy=False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns Arrow's C stream in a capsule; as the protocol allows, without converting to a requested schema."""
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


def known(column: Any) -> npt.NDArray[np.bool_] | None:
    """Returns where values are known, if some may be unknown."""
    return frozen(~np.ma.getmaskarray(column)) if isinstance(column, np.ma.MaskedArray) else None
