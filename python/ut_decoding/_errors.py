"""The exceptions of this package, with the place in the data."""

import errno


class Error(Exception):
    """Any error of this package about data, files and devices.

    Attributes:
        file: the file, as it was named, or None.
        event: event of that file, from 0, or None.
        bank: bank of that event, from 0, or None.
        byte: byte of that file, from 0, or None.
    """

    file: str | None
    event: int | None
    bank: int | None
    byte: int | None

    def __init__(
        self,
        message: str,
        file: str | None = None,
        event: int | None = None,
        bank: int | None = None,
        byte: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file, self.event, self.bank, self.byte = file, event, bank, byte

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[type["Error"], tuple[object, ...]]:
        return type(self), (self.message, self.file, self.event, self.bank, self.byte)


class InputError(Error):
    """A file of raw data cannot be read, or not any further. Earlier events are valid."""


class TablesError(Error):
    """A boards or geometry file is refused."""


class DecodeError(Error):
    """A backend cannot work on this machine, or failed."""


class OutputError(Error):
    """A file of hits cannot be written."""


class LossError(Error):
    """More of the data was lost than `max_loss` allows."""


class LossWarning(UserWarning):
    """A hundredth or more of the data was lost."""


class _NoSuchFile(Error, FileNotFoundError):
    def __init__(self, message: str, file: str | None = None, *place: int | None) -> None:
        super().__init__(message, file, *place)
        self.errno, self.filename = errno.ENOENT, file


class NoSuchFileError(_NoSuchFile, InputError):
    """A file of raw data does not exist."""


class NoSuchTablesError(_NoSuchFile, TablesError):
    """A boards or geometry file does not exist."""
