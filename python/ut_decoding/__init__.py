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

if TYPE_CHECKING:
    from ._public import *


# The command `ut-decode` goes through here, and starts itself again for each measurement of `tune`: what takes time to
# import is imported when a name is first used.
def __getattr__(name: str) -> object:
    if name == "__version__":
        from ._native import VERSION

        return VERSION
    # `from . import _native` asks for the name before it imports the module.
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    public = import_module("._public", __name__)
    names = [one for one in vars(public) if not one.startswith("_")]
    if name == "__all__":
        return [*names, "__version__"]
    if name not in names:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = vars(public)[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from importlib import import_module

    public = [name for name in vars(import_module("._public", __name__)) if not name.startswith("_")]
    return sorted({*public, *(name for name in globals() if name.startswith("__")), "__version__"})
