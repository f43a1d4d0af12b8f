"""A part of a job that another process can do."""

from dataclasses import dataclass, field
from typing import Any

from ._tables import Tables


@dataclass(frozen=True)
class Split:
    """A part of a job, for `decode(split)` or `decode_to_parquet(split, path)` anywhere that the file can be read."""

    file: str
    """The file."""
    start: int
    """First byte."""
    stop: int
    """Byte after the last one."""
    first_event: int
    """Events of the file before it."""
    n_events: int | None
    """Events of the split; None where they are not counted: files that are compressed, dumps, and after damage."""
    tables: Tables | None = field(default=None, repr=False)
    """The detector."""
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    """Options of `decode`."""
    first_place: int | None = None
    """Events of all files before it; None where there are files among them whose events are not counted."""
