"""The options, each defined once: type, default and meaning; and functions that take them."""

import datetime
import inspect
import operator
import os
import textwrap
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from ._hits import Hits

F = TypeVar("F", bound=Callable[..., Any])

Column: TypeAlias = Literal[
    "lhcb_id", "x_at_y_eq0", "z_at_y_eq0", "y_begin", "y_end", "dx_dy", "weight", "layer", "side", "stave", "face", "module",
    "sector", "strip", "board", "lane", "charge", "n_strips", "first_strip", "flipped", "sector_id", "detector",
]  # fmt: skip
"""Name of a column of hits; "detector" stands for all columns of the detector but `sector_id`."""

Crossing: TypeAlias = Literal["no-beam", "beam1", "beam2", "beam-crossing"]
"""Type of a bunch crossing."""

Moment: TypeAlias = str | datetime.date | np.datetime64 | None
"""A time in UTC: text such as "2026-02-03T04:05:06", or an object; one without a time zone is UTC. None: no limit."""


class EventOptions(TypedDict, total=False):
    """Choice of events of a file, and rules by which their strips become clusters."""

    run: Annotated[int | None, None, "Only events of this run."]
    event_number: Annotated[int | None, None, "Only events with this event number."]
    run_events: Annotated[
        Iterable[tuple[int, int]] | None, None, "Only these events: pairs of run and event number, in any order."
    ]
    time: Annotated[
        str | tuple[Moment, Moment] | None,
        None,
        'Only events of this time by ODIN, UTC: "2026-02-03T04:05..2026-02-03T05:00", or a pair such as two of `events.time`; '
        "the end is excluded, and either may be left out.",
    ]
    crossing: Annotated[
        Crossing | Iterable[Crossing] | None,
        None,
        'Only events of these types of bunch crossings by ODIN: "no-beam", "beam1", "beam2", "beam-crossing".',
    ]
    mask: Annotated[
        str | os.PathLike[str] | None,
        None,
        "Leave out hits on the strips, sectors, lanes and boards that this text file names (`docs/tables.md`). They are not lost: `Hits.masked_hits` counts them.",
    ]
    clustering: Annotated[
        bool, True, "Join neighbouring strips to clusters; otherwise every strip is a hit. v5 banks only, like the next four options."
    ]
    position: Annotated[
        Literal["adc", "geometric"], "adc", 'Position of a cluster: "adc", mean of the strips weighted by ADC counts, or "geometric", plain mean.'
    ]
    max_cluster_size: Annotated[int, 128, "Maximum number of strips of a cluster; larger clusters are dropped."]
    save_above_max: Annotated[bool, False, "Keep the first strips of larger clusters instead."]
    flip: Annotated[int, 511, "Strips of flipped sectors count from 511 (Allen since v7r9) or from 512 (Allen before)."]
    threads: Annotated[int, 0, "Threads that decode; 0: one per core."]
    checksum: Annotated[bool, True, "Compare checksums."]
    keep_going: Annotated[
        bool, False, "Where a file cannot be read further, go on with the next one; `failures` of the result has the errors."
    ]


class PlaceOptions(TypedDict, total=False):
    """Choice of events by their place, counted over all inputs from 0; and a listener to the progress of the call."""

    events: Annotated[
        str | int | Iterable[int] | None, None, 'Only these events, by place: "3,10-20" (both ends are meant), or integers.'
    ]
    skip: Annotated[int, 0, "Leave out this many of these places, from the first."]
    limit: Annotated[int | None, None, "Take at most this many places."]
    shard: Annotated[
        tuple[int, int] | None,
        None,
        "Part i of n parts of all events (i from 1): contiguous, and together the whole. Reads the inputs once more.",
    ]
    progress: Annotated[
        Callable[[int, float | None], object] | None,
        None,
        "Called some 20 times a second with the number of events, and the share of the inputs' bytes that are read, or None "
        "where their size is not known. An exception that it raises ends the call.",
    ]


class SplitOptions(EventOptions, total=False):
    """Options that mean the same for a whole job and for a part of it. None of them changes a hit, but for those of the
    clustering."""

    columns: Annotated[
        Iterable[Column] | Literal["all"] | None,
        None,
        "Columns of hits to keep, and no others; default `Hits.COLUMNS`. Fewer take less memory and time. "
        '`Hits.DETECTOR_COLUMNS` come on request; "detector" stands for all of them but `sector_id`, and columns="all" for '
        "every column.",
    ]
    backend: Annotated[Literal["cpu", "reference", "emulated", "cuda"], "cpu", '"cpu", "reference", "emulated" or "cuda": the same bits from each.']
    batch: Annotated[
        int | None,
        None,
        "Events that are decoded at a time. Default 64, whose bytes stay in a core's caches; for a row group of Parquet, and "
        "in `iterate` with a step in bytes, 256; on a device 256, on a GPU four times as many as it clusters at once, if that is more.",
    ]


class Options(SplitOptions, PlaceOptions, total=False):
    """The options of `decode`, `iterate` and the functions that write files."""

    max_loss: Annotated[
        float | None,
        None,
        "Raise LossError if more of the data than this share, 0 to 1, was lost. Without it, LossWarning says so from 0.01 on.",
    ]


class SumsOptions(EventOptions, PlaceOptions, total=False):
    """The options of `decode` that change sums."""


HINTS = get_type_hints(Options, include_extras=True)
CROSSINGS: tuple[str, ...] = get_args(Crossing)
DEFAULTS: dict[str, Any] = {name: hint.__metadata__[0] for name, hint in HINTS.items()}


def takes(options: type) -> Callable[[F], F]:
    """Shows each of the options in the signature and the docstring of a function that takes them as `**options`."""

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        names = get_type_hints(options)
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[name], annotation=HINTS[name].__origin__)
            for name in names
        ]
        others = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        function.__dict__["__signature__"] = signature.replace(parameters=others + keywords)
        texts = [textwrap.fill(f"{name}: {HINTS[name].__metadata__[1]}", 110, subsequent_indent="    ") for name in names]
        lines = textwrap.indent("\n".join(texts), " " * 8)
        function.__doc__ = (function.__doc__ or "").replace("        **options\n", lines + "\n")
        return function

    return shown


def checked(options: Any) -> dict[str, Any]:
    """The options as they are kept: NumPy integers as Python integers, and iterables as tuples."""
    unknown = options.keys() - DEFAULTS.keys()
    if unknown:
        raise TypeError(f"there is no option {min(unknown)!r}; there are {', '.join(DEFAULTS)}")
    return {name: _checked(name, value) for name, value in options.items()}


def _checked(name: str, value: Any) -> Any:
    """The value, which is refused if it is of the wrong type, or a negative number."""
    kinds = get_args(HINTS[name].__origin__) or (HINTS[name].__origin__,)
    if name == "events" or (value is None and type(None) in kinds):
        return value
    if name == "max_loss":
        if isinstance(value, bool) or not hasattr(value, "__float__"):
            raise TypeError(f"max_loss: {value!r} is not a number")
        if not 0 <= float(value) <= 1:
            raise ValueError(f"max_loss: {value} is not a share from 0 to 1")
        return float(value)
    if name == "columns":
        return _columns(value)
    if name == "time":
        return _time(value)
    if name == "crossing":
        return tuple(_one_of(name, one, CROSSINGS) for one in ([value] if isinstance(value, str) else value))
    if name == "mask" and isinstance(value, str | os.PathLike):
        # A split may be decoded in another folder.
        return os.path.abspath(value)
    if name == "run_events":
        return tuple(_pair(name, pair, "run and event number, such as (3000, 17)", (32, 63)) for pair in value)
    if name == "shard":
        return _pair(name, value, "ints, such as (1, 4)", (63, 63))
    if name == "progress":
        if not callable(value):
            raise TypeError(f"progress: {value!r} cannot be called")
        return value
    if kinds[0] is int:
        return integer(name, value, 32 if name in ("run", "max_cluster_size", "flip") else 63)
    if get_origin(HINTS[name].__origin__) is Literal:
        return _one_of(name, value, kinds)
    if not isinstance(value, kinds[0]):
        raise TypeError(f"{name}: {value!r} is no {kinds[0].__name__}")
    return value


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: {value!r} is not a string")
    if value not in known:
        raise ValueError(f"{name}: {value!r} is none of {', '.join(known)}")
    return value


def _time(value: Any) -> tuple[int, int]:
    """Beginning and end in microseconds since 1970."""
    if isinstance(value, str):
        value = value.split("..")
    if not hasattr(value, "__len__") or len(value) != 2:
        raise ValueError(f'time: {value!r} is not "FROM..TO", such as "2026-02-03T04:05..2026-02-03T05:00", nor a pair')
    begin, end = _microseconds(value[0], 0), _microseconds(value[1], 2**64 - 1)
    if end <= begin:
        raise ValueError(f"time: the end {value[1]} is not after the beginning {value[0]}")
    return begin, end


def _microseconds(moment: Any, otherwise: int) -> int:
    if moment is None or moment == "":
        return otherwise
    if isinstance(moment, int):
        # Checked before.
        return moment
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    try:
        return integer("time", np.datetime64(moment.removesuffix("Z") if isinstance(moment, str) else moment, "us").astype(int))
    except ValueError:
        raise ValueError(f"time: {moment!r} is not a time, such as 2026-02-03T04:05:06") from None


def _columns(names: Any) -> tuple[str, ...]:
    """The columns that names stand for, each once."""
    if isinstance(names, str):
        if names == "all":
            return Hits.ALL_COLUMNS
        raise TypeError('columns: a list of names, such as ["lhcb_id"], or "all"')
    found: list[str] = []
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns: {name!r} is not the name of a column")
        known = (*Hits.ALL_COLUMNS, "detector")
        if name not in known:
            raise ValueError(f"columns: there is no column {name!r}; there are {', '.join(known)}")
        found += Hits.DETECTOR_COLUMNS[:-1] if name == "detector" else [name]
    return tuple(dict.fromkeys(found))


def _pair(name: str, value: Any, of: str, bits: tuple[int, int]) -> tuple[int, ...]:
    if isinstance(value, str) or not hasattr(value, "__len__") or len(value) != 2:
        raise TypeError(f"{name}: {value!r} is not a pair of {of}")
    return tuple(integer(name, number, most) for number, most in zip(value, bits, strict=True))


def integer(name: str, value: Any, bits: int = 63) -> int:
    """The value as an int, refused if it is not one, negative, or has more bits."""
    # True is an int in Python, but not a number of threads.
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: {value!r} is not an int")
    number = operator.index(value)
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{name}: {value} is {'negative' if number < 0 else 'out of range'}")
    return number


def places(events: Any) -> str | None:
    """Places as the tool writes them: "3,10-20"."""
    if events is None or isinstance(events, str):
        return events
    if isinstance(events, range) and events.step == 1 and len(events) > 0:
        return f"{integer('events', events.start)}-{events[-1]}"
    found = [str(integer("events", place)) for place in (events if isinstance(events, Iterable) else [events])]
    if not found:
        raise ValueError("events: the selection is empty; to decode no event, use limit=0")
    return ",".join(found)
