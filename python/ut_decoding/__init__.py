"""Raw banks of LHCb's Upstream Tracker (UT), decoded into hits.

>>> import ut_decoding as ut
>>> tables = ut.Tables.synthetic()  # or ut.Tables("ut_boards.bin", "ut_geometry.bin")
>>> hits = ut.decode(ut.generate(3), tables)
>>> hits
Hits(3 events, 3959 hits)
>>> hits.x_at_y_eq0.dtype, hits.x_at_y_eq0.shape
(dtype('float32'), (3959,))

`decode` reads everything, `iterate` some events at a time, `plan` cuts files into pieces that other processes decode.
"""

from typing import TYPE_CHECKING

# The command `ut-decode` goes through here, and starts itself again for each measurement of `tune`: what takes time to
# import is imported when it is used.
if TYPE_CHECKING:
    from . import dask as dask
    from . import plot as plot
    from ._decode import decode as decode
    from ._decode import iterate as iterate
    from ._errors import DecodeError as DecodeError
    from ._errors import Error as Error
    from ._errors import InputError as InputError
    from ._errors import OutputError as OutputError
    from ._errors import TablesError as TablesError
    from ._hits import BrokenEvent as BrokenEvent
    from ._hits import Hits as Hits
    from ._hits import Summary as Summary
    from ._histograms import charge as charge
    from ._histograms import occupancy as occupancy
    from ._native import generate as generate
    from ._options import Options as Options
    from ._options import SplitOptions as SplitOptions
    from ._options import SumsOptions as SumsOptions
    from ._plan import decode_to_parquet as decode_to_parquet
    from ._plan import plan as plan
    from ._report import RunSums as RunSums
    from ._report import report as report
    from ._report import run_sums as run_sums
    from ._root import decode_to_root as decode_to_root
    from ._split import Split as Split
    from ._tables import Connection as Connection
    from ._tables import Tables as Tables

_WHERE = {
    "BrokenEvent": "_hits",
    "Connection": "_tables",
    "DecodeError": "_errors",
    "Error": "_errors",
    "Hits": "_hits",
    "InputError": "_errors",
    "Options": "_options",
    "OutputError": "_errors",
    "RunSums": "_report",
    "Split": "_split",
    "SplitOptions": "_options",
    "Summary": "_hits",
    "SumsOptions": "_options",
    "Tables": "_tables",
    "TablesError": "_errors",
    "charge": "_histograms",
    "decode": "_decode",
    "decode_to_parquet": "_plan",
    "decode_to_root": "_root",
    "generate": "_native",
    "iterate": "_decode",
    "occupancy": "_histograms",
    "plan": "_plan",
    "report": "_report",
    "run_sums": "_report",
}

__all__ = [*_WHERE, "__version__"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        return import_module("._native", __name__).VERSION
    if name in ("dask", "plot"):
        return import_module(f".{name}", __name__)
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "dask", "plot"})
