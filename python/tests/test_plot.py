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


def test_a_hit_counts_along_its_strip(fixtures, v5):
    hits = ut.decode(fixtures / "v5/events.mdf", v5)
    n = np.bincount(ut.plot.layer_of(hits), minlength=4)
    # In all of y once, in every other bin as often as its strip crosses one: those of 50 and 100 mm, rows of 10 mm.
    assert ut.occupancy(hits, bins=(1, 1)).values().ravel().tolist() == n.tolist() and n.min() > 0
    rows = ut.occupancy(hits, bins=(1, 140)).values().sum(axis=(1, 2)) / n
    assert ((5 < rows) & (rows < 12)).all()
    whole = ut.occupancy(hits, bins=(190, 1))
    x = hits.x_at_y_eq0 + hits.dx_dy * (hits.y_begin + hits.y_end) / 2
    for layer, name in enumerate(ut.plot.LAYERS):
        expected = np.histogram(x[ut.plot.layer_of(hits) == layer], 190, (-950, 950))[0]
        assert np.abs(whole[name, :, sum].values() - expected).sum() <= 2
    assert ut.occupancy(ut.iterate(fixtures / "v5/events.mdf", v5, step=1)) == ut.occupancy(hits)


def test_maps_of_layers_have_one_scale(fixtures, v5, tmp_path):
    hits = ut.decode(fixtures / "v5/events.mdf", v5)
    counts = ut.occupancy(hits, bins=(50, 40)).values() / hits.n_events
    figure = ut.plot.hit_maps(hits, bins=(50, 40))
    maps = [ax.collections[0] for ax in figure.axes[:4]]
    assert {one.get_clim() for one in maps} == {(0, counts.max())} and len(figure.axes) == 5
    for layer, one in enumerate(maps):
        assert np.allclose(np.ma.filled(one.get_array(), 0), counts[layer].T)
        assert figure.axes[layer].get_title() == f"layer {ut.plot.LAYERS[layer]}"
    figure.savefig(tmp_path / "map.svg")
    ax = ut.plot.hit_map(hits, 2, bins=(50, 40))
    assert np.allclose(np.ma.filled(ax.collections[0].get_array(), 0), counts[2].T)
    with pytest.raises(ValueError, match="layer: 4"):
        ut.plot.hit_map(hits, 4)


def test_charges_are_a_histogram_that_mplhep_draws(fixtures, v4, v5):
    mplhep = pytest.importorskip("mplhep")
    hits = ut.decode(fixtures / "v5/events.mdf", v5, columns=["layer", "charge"])
    counts = ut.charge(hits)
    expected = [np.bincount(np.minimum(hits.charge[hits.layer == layer], 256), minlength=257) for layer in range(4)]
    assert np.array_equal(counts.view(flow=True)[:, 1:], expected)
    assert counts.metadata["events"] == 4 and counts.axes.name == ("layer", "charge")
    mplhep.histplot(counts["aX", :])
    with pytest.raises(AttributeError, match="v4 banks do not tell"):
        ut.charge(ut.decode(fixtures / "v4/events.mdf", v4, columns=["layer", "charge"]))


def test_sums_of_a_run_are_histograms(fixtures, busy, synthetic, v5):
    hits = ut.decode(fixtures / "v5/events.mdf", v5, columns=["layer", "charge", "n_strips", "sector_id", "strip"])
    found = ut.run_sums(fixtures / "v5/events.mdf", v5).histograms()
    strips = np.zeros((1048, 512), int)
    np.add.at(strips, (hits.sector_id, hits.strip), 1)
    assert np.array_equal(found["strips"].values(), strips)
    for name, n in (("charge", 255), ("n_strips", 63)):
        for layer in range(4):
            expected = np.bincount(np.minimum(hits[name][hits.layer == layer], n), minlength=n + 1)
            assert np.array_equal(found[name].view(flow=True)[layer], expected)
    events = ut.run_sums(open(busy, "rb").read(), synthetic).histograms()["events"]
    assert events.sum() == 700 and events.axes[0].name == "place" and events.axes[0].edges[0] == 0
    nothing = ut.run_sums(b"", synthetic).histograms()
    assert all(one.sum(flow=True) == 0 for one in nothing.values())


def test_counts_are_means_of_events(fixtures, v5):
    import matplotlib.pyplot as plt

    hits = ut.decode(fixtures / "v5/events.mdf", v5)
    fig, (left, right) = plt.subplots(1, 2)
    assert ut.plot.hits_per_event(hits, left, label="a run") is left
    assert ut.plot.hits_per_layer(hits, right) is right
    steps = right.patches[0].get_data()
    assert steps.values.sum() == pytest.approx(hits.n_hits / hits.n_events)


def test_no_hits_give_an_empty_picture(v5):
    nothing = ut.decode(b"", v5)
    ut.plot.hit_maps(nothing).canvas.draw()
    ut.plot.hits_per_event(nothing)
    ut.plot.hits_per_layer(nothing)
