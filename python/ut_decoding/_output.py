"""Destinations of results: local files, URLs of fsspec, and file objects of Python."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ._decode import is_url
from ._errors import OutputError


class Writable(Protocol):
    """A binary file object that is open for writing."""

    def write(self, data: bytes, /) -> object: ...


Target = str | os.PathLike[str] | Writable
"""A local path, a URL that fsspec knows ("s3://bucket/hits.parquet"), or a binary file object."""


@contextmanager
def written(target: Target) -> Iterator[str]:
    """Yields the path of a local file to write; when the block ends without an error, it becomes the target.

    A local target appears under its name when it is complete. A URL is written to in one go, and a file object last of all, so
    that a failure before leaves both as they were.

    Raises:
        OutputError: the URL cannot be written.
        TypeError: the target is of another kind.
    """
    if not isinstance(target, str | os.PathLike):
        write = getattr(target, "write", None)
        if write is None:
            raise TypeError(f"hits are written to a path, a URL or a binary file object, not to {type(target).__name__}")
        with _temporary(None, "hits") as made:
            yield made
            with open(made, "rb") as file:
                shutil.copyfileobj(file, target)
        return
    name = os.fspath(target)
    if is_url(name):
        with _temporary(None, "hits") as made:
            yield made
            _upload(made, name)
        return
    folder, base = os.path.split(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise OutputError(f"{name}: cannot be written: there is no folder {folder}", name)
    with _temporary(folder, base) as made:
        yield made
        os.replace(made, name)


@contextmanager
def _temporary(folder: str | None, name: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix=".ut-decode-", dir=folder) as made:
        yield os.path.join(made, name)


def _upload(made: str, url: str) -> None:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise OutputError(f"{url}: writing to URLs needs fsspec, which is not installed", url) from None
    try:
        system, path = url_to_fs(url)
        system.put_file(made, path)
    except Exception as error:
        reason: Any = str(error) or type(error).__name__
        raise OutputError(f"{url}: cannot be written: {reason}", url) from error
