"""Pictures of hits, on axes of matplotlib: save them as SVG or PNG, or put several on one figure."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ._hits import Hits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LAYERS = ("aX", "aU", "bV", "bX")
"""The layers, in the order in which particles cross them."""


def layer_of(hits: Hits) -> Any:
    """Layer of each hit, 0 to 3 for aX, aU, bV and bX; uint8, shape (hits,)."""
    # Bits 18 and 19 of the ChannelID (docs/format.md).
    return (hits.lhcb_id >> np.uint32(18)).astype(np.uint8) & np.uint8(3)


def hit_map(hits: Hits, layer: int = 0, ax: "Axes | None" = None, *, bins: tuple[int, int] = (200, 120)) -> "Axes":
    """Hits of a layer over x and y, seen along the beam.

    A hit knows its strip, not where along it the particle went: it counts in every bin that its strip crosses, at the x of
    the strip's middle.

    Args:
        hits: hits with `lhcb_id`, `x_at_y_eq0`, `y_begin`, `y_end` and `dx_dy`.
        layer: 0 to 3 for aX, aU, bV and bX.
        ax: axes to draw on; without them, new ones.
        bins: bins in x and y.
    """
    if layer not in range(4):
        raise ValueError(f"layer: {layer} is none of 0, 1, 2, 3 (aX, aU, bV, bX)")
    of_layer = layer_of(hits) == layer
    low, high = hits.y_begin[of_layer], hits.y_end[of_layer]
    x = hits.x_at_y_eq0[of_layer] + hits.dx_dy[of_layer] * (low + high) / 2
    x_edges = np.linspace(*_range(x), bins[0] + 1)
    y_edges = np.linspace(*_range(np.concatenate([low, high])), bins[1] + 1)
    # A strip adds one where it begins and takes it away where it ends: the sums along y are the strips that cross a bin.
    steps = np.zeros((bins[0], bins[1] + 1))
    column = np.clip(np.searchsorted(x_edges, x, "right") - 1, 0, bins[0] - 1)
    np.add.at(steps, (column, np.clip(np.searchsorted(y_edges, low, "right") - 1, 0, bins[1])), 1)
    np.add.at(steps, (column, np.clip(np.searchsorted(y_edges, high, "left"), 0, bins[1])), -1)
    counts = steps.cumsum(axis=1)[:, :-1]
    ax = _axes(ax)
    # What is empty stays white.
    shown = np.ma.masked_equal(counts.T / max(hits.n_events, 1), 0)
    mesh = ax.pcolormesh(x_edges, y_edges, shown, rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, label="hits per event and bin")
    ax.set(xlabel="x [mm]", ylabel="y [mm]", title=f"layer {LAYERS[layer]}", aspect="equal")
    return ax


def hits_per_event(hits: Hits, ax: "Axes | None" = None, *, label: str | None = None) -> "Axes":
    """How many hits events have, as shares of the events."""
    counts = hits.hits_per_event
    ax = _axes(ax)
    ax.hist(counts, bins=min(50, max(5, hits.n_events // 10)), histtype="step", label=label, weights=_shares(counts))
    ax.set(xlabel="hits of an event", ylabel="share of events")
    return ax


def hits_per_layer(hits: Hits, ax: "Axes | None" = None, *, label: str | None = None) -> "Axes":
    """Mean hits of an event in each layer."""
    means = np.bincount(layer_of(hits), minlength=4) / max(hits.n_events, 1)
    ax = _axes(ax)
    ax.stairs(means, np.arange(5) - 0.5, label=label)
    ax.set(xticks=range(4), xticklabels=LAYERS, xlabel="layer", ylabel="hits per event", ylim=(0, None))
    return ax


def _range(values: Any) -> tuple[float, float]:
    """Least and greatest value; something to draw where there is none."""
    return (float(values.min()), float(values.max())) if len(values) > 0 else (-1.0, 1.0)


def _shares(counts: Any) -> Any:
    return np.full(len(counts), 1 / max(len(counts), 1))


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]
