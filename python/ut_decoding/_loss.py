"""The account of lost data (`docs/policy.md`, "Loss")."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

from . import _native
from ._errors import LossError, LossWarning

_N = 8 + len(_native.CAUSES)

_WARN_FROM = 0.01


class LossPart(NamedTuple):
    """The lost part of a number of things."""

    lost: int
    """Number of lost things."""
    of: int
    """Number of all things, including lost ones."""

    @property
    def share(self) -> float:
        """Lost share, 0 to 1; 0 of nothing."""
        return self.lost / self.of if self.lost else 0.0


@dataclass(frozen=True)
class Loss:
    """Account of all data and lost data: true if anything was lost. Accounts are added; `str(loss)` is, for instance,
    "4,320 of 4,320 banks (100 %): wrong checksum"."""

    numbers: tuple[int, ...] = (0,) * _N
    """The parts, each with the numbers of lost and of all things, and the losses by cause."""

    def _part(self, i: int) -> LossPart:
        return LossPart(*self.numbers[i : i + 2])

    @property
    def events(self) -> LossPart:
        """Events with UT banks; lost if no bank was decoded."""
        return self._part(0)

    @property
    def banks(self) -> LossPart:
        """UT banks."""
        return self._part(2)

    @property
    def strips(self) -> LossPart:
        """Strips of the decoded banks."""
        return self._part(4)

    @property
    def clusters(self) -> LossPart:
        """Clusters of the strips."""
        return self._part(6)

    @property
    def causes(self) -> dict[str, int]:
        """Losses by cause: clusters for "zero_charge", strips for "unconnected_lane", banks for the others."""
        return dict(zip(_native.CAUSES, self.numbers[8:], strict=True))

    @property
    def share(self) -> float:
        """The largest of the four lost shares, 0 to 1."""
        return max(self._part(i).share for i in (0, 2, 4, 6))

    def __bool__(self) -> bool:
        return self.share > 0

    def __add__(self, other: "Loss") -> "Loss":
        return Loss(tuple(a + b for a, b in zip(self.numbers, other.numbers, strict=True)))

    def __str__(self) -> str:
        return _native.loss_text(list(self.numbers))


def judge(loss: Loss, max_loss: float | None, stacklevel: int = 3) -> None:
    """Raises LossError if more was lost than `max_loss`; otherwise warns from 1 % on."""
    if max_loss is not None and loss.share > max_loss:
        raise LossError(f"lost: {loss}; that is more than max_loss={max_loss}")
    if loss.share >= _WARN_FROM:
        warnings.warn(f"lost: {loss}", LossWarning, stacklevel=stacklevel)
