"""Pictures: what is drawn is what was decoded."""

import numpy as np
import pytest

import ut_decoding as ut

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("svg")


@pytest.fixture(autouse=True)
def closed():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def drawn(ax):
    return np.ma.filled(ax.collections[0].get_array(), 0)


def test_a_hit_counts_along_its_strip(fixtures, v5, tmp_path):
    hits = ut.decode(fixtures / "v5/events.mdf", v5)
    for layer in range(4):
        ax = ut.plot.hit_map(hits, layer, bins=(1, 1))
        n = (ut.plot.layer_of(hits) == layer).sum()
        assert drawn(ax).sum() == pytest.approx(n / hits.n_events) and n > 0
        assert ax.get_title() == f"layer {ut.plot.LAYERS[layer]}"
    # Strips of 50 and 100 mm cross one or more rows of 10 mm.
    rows = drawn(ut.plot.hit_map(hits, 0, bins=(1, 130))).sum() * hits.n_events / (ut.plot.layer_of(hits) == 0).sum()
    assert 5 < rows < 12
    ax.figure.savefig(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").stat().st_size > 1000
    with pytest.raises(ValueError, match="layer: 4"):
        ut.plot.hit_map(hits, 4)


def test_counts_are_means_of_events(fixtures, v5):
    import matplotlib.pyplot as plt

    hits = ut.decode(fixtures / "v5/events.mdf", v5)
    fig, (left, right) = plt.subplots(1, 2)
    assert ut.plot.hits_per_event(hits, left, label="a run") is left
    assert ut.plot.hits_per_layer(hits, right) is right
    steps = right.patches[0].get_data()
    assert steps.values.sum() == pytest.approx(len(hits) / hits.n_events)


def test_nothing_is_an_empty_picture(v5):
    nothing = ut.decode(b"", v5)
    assert drawn(ut.plot.hit_map(nothing)).sum() == 0
    ut.plot.hits_per_event(nothing)
    ut.plot.hits_per_layer(nothing)
