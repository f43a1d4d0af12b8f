"""Hits and sums of a run as histograms of `hist`, which plots, adds, projects and pickles them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ._hits import Hits

if TYPE_CHECKING:
    import hist

LAYERS = ("aX", "aU", "bV", "bX")
"""The layers, in the order in which particles cross them."""

_X, _Y = 950.0, 700.0
"""Half the width and the height of the detector, mm."""


def layer_of(hits: Hits) -> Any:
    """Layer of each hit, 0 to 3 for aX, aU, bV and bX; uint8, shape (hits,)."""
    if "layer" in hits.columns:
        return hits.layer
    # Bits 18 and 19 of the ChannelID (docs/format.md).
    return (hits.lhcb_id >> np.uint32(18)).astype(np.uint8) & np.uint8(3)


def occupancy(hits: Hits | Iterable[Hits], *, bins: tuple[int, int] = (200, 120)) -> "hist.Hist[Any]":
    """Hits by layer, x and y; `metadata["events"]` of the histogram is the number of events.

    A hit knows its strip, not where along it the particle went: it counts in every bin that its strip crosses, at the x of
    the strip's middle.

    Args:
        hits: hits with `lhcb_id` or `layer`, `x_at_y_eq0`, `y_begin`, `y_end` and `dx_dy`; or those of `iterate`, one after the
            other.
        bins: bins in x and y.
    """
    import hist

    x = hist.axis.Regular(bins[0], -_X, _X, name="x", label="x [mm]")
    y = hist.axis.Regular(bins[1], -_Y, _Y, name="y", label="y [mm]")
    counts = hist.Hist(_layers(), x, y, storage=hist.storage.Int64(), metadata={"events": 0})
    height = 2 * _Y / bins[1]
    for part in _parts(hits):
        layers = layer_of(part)
        first = np.floor((part.y_begin + _Y) / height)
        n = np.maximum(np.ceil((part.y_end + _Y) / height) - first, 1).astype(np.intp)
        middle = part.x_at_y_eq0 + part.dx_dy * (part.y_begin + part.y_end) / 2
        for layer, name in enumerate(LAYERS):
            of_layer = layers == layer
            m = n[of_layer]
            row = first[of_layer].repeat(m) + np.arange(m.sum()) - (m.cumsum() - m).repeat(m)
            counts.fill(name, middle[of_layer].repeat(m), (row + 0.5) * height - _Y)
        counts.metadata["events"] += part.n_events
    return counts


def charge(hits: Hits | Iterable[Hits]) -> "hist.Hist[Any]":
    """Hits by layer and charge in ADC counts; `metadata["events"]` of the histogram is the number of events.

    Args:
        hits: hits of v5 banks with `charge`, and with `lhcb_id` or `layer`; or those of `iterate`, one after the other.
    """
    import hist

    axis = hist.axis.Integer(0, 256, name="charge", label="charge [ADC counts]")
    counts = hist.Hist(_layers(), axis, storage=hist.storage.Int64(), metadata={"events": 0})
    for part in _parts(hits):
        charge, layers = part.charge, layer_of(part)
        # Hits of v4 banks among those of v5 have no charge.
        known = ~np.isnan(charge)
        for layer, name in enumerate(LAYERS):
            counts.fill(name, charge[known & (layers == layer)].astype(np.int64))
        counts.metadata["events"] += part.n_events
    return counts


def of_sums(numbers: dict[str, Any], against: str) -> "dict[str, hist.Hist[Any]]":
    """The histograms of the sums of a run."""
    import hist

    def filled(values: Any, *axes: Any) -> Any:
        counts = hist.Hist(*axes, storage=hist.storage.Int64())
        values = np.asarray(values).reshape([axis.extent - axis.traits.underflow for axis in axes])
        counts.view(flow=True)[tuple(slice(int(axis.traits.underflow), None) for axis in axes)] = values
        return counts

    def integers(n: int, name: str, label: str, overflow: bool) -> Any:
        return hist.axis.Integer(0, n, name=name, label=label, underflow=False, overflow=overflow)

    edges, events = np.asarray(numbers["spans"]), np.asarray(numbers["events"])
    if len(events) == 0:
        edges, events = np.arange(2), np.zeros(1)
    spans = hist.axis.Regular(len(events), edges[0], edges[-1], name=against, underflow=False, overflow=False)
    # The last bin of charge and size has everything above.
    sectors = integers(1048, "sector_id", "sector", False), integers(512, "strip", "strip", False)
    return {
        "strips": filled(numbers["strips"], *sectors),
        "charge": filled(numbers["charge_of_layer"], _layers(), integers(255, "charge", "charge [ADC counts]", True)),
        "n_strips": filled(numbers["size_of_layer"], _layers(), integers(63, "n_strips", "strips of the cluster", True)),
        "events": filled(events, spans),
    }


def _layers() -> Any:
    """The axis of the layers."""
    import hist

    return hist.axis.StrCategory(LAYERS, name="layer", label="layer", overflow=False)


def _parts(hits: Hits | Iterable[Hits]) -> Iterable[Hits]:
    return [hits] if isinstance(hits, Hits) else hits
