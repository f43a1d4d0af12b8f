"""Pictures of hits, on axes of matplotlib: save them as SVG or PNG, or put several on one figure."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ._histograms import LAYERS as LAYERS
from ._histograms import layer_of as layer_of
from ._histograms import occupancy
from ._hits import Hits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

def hit_map(
    hits: Hits | Iterable[Hits], layer: int = 0, ax: "Axes | None" = None, *, bins: tuple[int, int] = (200, 120)
) -> "Axes":
    """Hits of a layer over x and y, seen along the beam: of `occupancy`, in which a hit counts in every bin that its strip
    crosses.

    Args:
        hits: hits with `lhcb_id`, `x_at_y_eq0`, `y_begin`, `y_end` and `dx_dy`, or those of `iterate`.
        layer: 0 to 3 for aX, aU, bV and bX.
        ax: axes to draw on; without them, new ones.
        bins: bins in x and y.
    """
    if layer not in range(4):
        raise ValueError(f"layer: {layer} is none of 0, 1, 2, 3 (aX, aU, bV, bX)")
    ax = _axes(ax)
    _draw(occupancy(hits, bins=bins), [layer], [ax])
    return ax


def hit_maps(hits: Hits | Iterable[Hits], *, bins: tuple[int, int] = (200, 120)) -> "Figure":
    """The maps of all four layers, on one scale.

    Args:
        hits, bins: as of `hit_map`.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 8), sharex=True, sharey=True, layout="constrained")
    _draw(occupancy(hits, bins=bins), range(4), list(axes.flat))
    return figure


def _draw(counts: Any, layers: Iterable[int], axes: "list[Axes]") -> None:
    """Draws layers of an occupancy on one scale."""
    values, (_, x, y) = counts.values(), counts.axes
    # Empty bins stay white.
    shown = [np.ma.masked_equal(values[layer].T / max(counts.metadata["events"], 1), 0) for layer in layers]
    most = max((float(one.max()) for one in shown if one.count()), default=1.0)
    for layer, ax, one in zip(layers, axes, shown, strict=True):
        mesh = ax.pcolormesh(x.edges, y.edges, one, vmin=0, vmax=most, rasterized=True)
        ax.set(xlabel=x.label, ylabel=y.label, title=f"layer {LAYERS[layer]}", aspect="equal")
    axes[0].figure.colorbar(mesh, ax=axes, label="hits per event and bin")


def hits_per_event(hits: Hits, ax: "Axes | None" = None, *, label: str | None = None) -> "Axes":
    """Distribution of hits per event, as shares of the events."""
    counts = hits.hits_per_event
    ax = _axes(ax)
    ax.hist(counts, bins=min(50, max(5, hits.n_events // 10)), histtype="step", label=label, weights=_shares(counts))
    ax.set(xlabel="hits of an event", ylabel="share of events")
    return ax


def hits_per_layer(hits: Hits, ax: "Axes | None" = None, *, label: str | None = None) -> "Axes":
    """Mean hits per event in each layer."""
    means = np.bincount(layer_of(hits), minlength=4) / max(hits.n_events, 1)
    ax = _axes(ax)
    ax.stairs(means, np.arange(5) - 0.5, label=label)
    ax.set(xticks=range(4), xticklabels=LAYERS, xlabel="layer", ylabel="hits per event", ylim=(0, None))
    return ax


def _shares(counts: Any) -> Any:
    return np.full(len(counts), 1 / max(len(counts), 1))


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]
