"""Hits as a sequence of events, and what is known of each hit."""

import html.parser

import awkward as ak
import numpy as np
import pytest

import ut_decoding as ut


@pytest.fixture(scope="module")
def hits(busy, synthetic):
    return ut.decode([busy, busy], synthetic, limit=900)


def test_hits_are_a_sequence_of_events(hits):
    assert len(hits) == hits.n_events == 900
    assert ut.Hits.concatenate(hits) == hits
    assert hits[3] == hits[-897] == hits.of_events(3, 4) and hits[3].n_events == 1
    assert hits[5:8] == hits.of_events(5, 8) and hits[:] == hits and len(hits[8:5]) == 0
    array = hits.to_awkward()
    for which in ([5, 2, 5], np.array([899, 0]), slice(10, 0, -3), [], np.arange(900)[::7]):
        some = hits[which]
        assert some.to_awkward().tolist() == array[which].tolist()
        assert some.events.event.tolist() == hits.events.event[which].tolist() and some.files == hits.files
    for wrong in (900, -901):
        with pytest.raises(IndexError):
            hits[wrong]
    for wrong in ([900], [-901], np.zeros((2, hits.n_hits), bool), np.ones(7, bool), True, None, (0, 1), 1.5):
        with pytest.raises(IndexError, match="possible are a place, a slice|there is no event at place"):
            hits[wrong]
    for wrong in ([1.5], slice("3"), hits.to_awkward().lhcb_id):
        with pytest.raises(TypeError):
            hits[wrong]
    with pytest.raises(KeyError, match="there is no column 'chrge'"):
        hits["chrge"]


def test_events_and_hits_are_selected_as_in_awkward(hits):
    busy, array = hits.hits_per_event > 400, hits.to_awkward()
    assert hits[busy].to_awkward().tolist() == array[busy].tolist() and hits[busy] == hits[list(busy)]
    far = hits[hits.x_at_y_eq0 > 300]
    assert hits[array.x_at_y_eq0 > 300] == far == hits[hits.to_awkward(groups=False).x_at_y_eq0 > 300]
    assert hits[ak.num(hits.to_awkward(groups=False)) > 400] == hits[busy]
    for wrong in (array[:3].x_at_y_eq0 > 300, array[::-1].x_at_y_eq0 > 300):
        with pytest.raises(IndexError, match="a jagged mask has a truth value for each hit"):
            hits[wrong]
    one = hits[np.flatnonzero(hits.hits_per_event)[:1]][[0]]
    alone = one[np.arange(one.n_hits) == 0]
    with pytest.raises(IndexError, match="may mean events or hits"):
        alone[[True]]


def test_columns_are_chosen_by_their_names(hits):
    some = hits[["x_at_y_eq0", "lhcb_id"]]
    assert some.fields == ["x_at_y_eq0", "lhcb_id"] and some.n_events == 900
    assert some.x_at_y_eq0 is hits.x_at_y_eq0 and not hasattr(some, "weight")
    with pytest.raises(KeyError, match="decoded without the column charge"):
        hits[["charge"]]
    with pytest.raises(KeyError, match="run belongs to events"):
        hits[["lhcb_id", "run"]]
    with pytest.raises(TypeError, match="does not support item assignment"):
        hits.columns["weight"] = hits.lhcb_id


def test_no_private_name_is_listed(hits):
    for one in (ut, hits, hits.events):
        assert not [name for name in dir(one) if name.startswith("_") and not name.startswith("__")]
    assert {"decode", "Hits", "dask", "plot", "__version__"} <= {*dir(ut)} and "typing" not in dir(ut)


def test_a_mask_keeps_hits_of_all_events(hits):
    mask = hits.x_at_y_eq0 > 0
    right = hits[mask]
    assert right.n_events == 900 and right.n_hits == mask.sum() > 0 and right.report == hits.report
    assert np.array_equal(right.x_at_y_eq0, hits.x_at_y_eq0[mask]) and np.array_equal(right.group, hits.group[mask])
    jagged = hits.to_awkward(groups=False)
    assert right.to_awkward(groups=False).tolist() == jagged[jagged.x_at_y_eq0 > 0].tolist()
    assert hits[np.zeros(hits.n_hits, bool)].n_hits == 0 and hits[np.ones(hits.n_hits, bool)] == hits


def test_selections_keep_the_broken_events_they_contain(fixtures, v5):
    hits = ut.decode(fixtures / "v5/troubles.mdf", v5)
    broken = hits.broken_events[0]
    (place,) = np.flatnonzero(hits.events.event == broken.event)
    assert hits[[int(place)]].broken_events == [broken] and hits[[int(place) - 1]].broken_events == []


def test_each_hit_knows_its_event(hits, busy, synthetic):
    assert hits.fields == list(ut.Hits.COLUMNS) and hits["lhcb_id"] is hits.lhcb_id and hits["run"] is hits.run
    starts = np.repeat(np.arange(900), hits.hits_per_event)
    assert np.array_equal(hits.event_index, starts) and np.array_equal(hits.event, starts % 700)
    assert hits.run.tolist() == [1] * hits.n_hits and np.array_equal(hits.event_number, starts % 700)
    assert set(hits.file) == {busy} and hits.file.shape == (hits.n_hits,)
    for column in (hits.event_index, hits.run, hits.file):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
    # The number stays where events are chosen, and goes on from step to step and split to split.
    assert hits[[7, 3]].events.index.tolist() == [7, 3]
    steps = list(ut.iterate([busy, busy], synthetic, step=333))
    splits = [ut.decode(split) for split in ut.plan([busy, busy], synthetic, events=450)]
    for parts in (steps, splits):
        assert np.concatenate([part.events.index for part in parts]).tolist() == list(range(1400))
    assert ut.Hits.concatenate([hits, hits]).events.index.tolist() == list(range(1800))


@pytest.mark.parametrize("step", ["300 kB", "1.5 MB", "1 MiB", "1B"])
def test_a_step_may_be_an_amount_of_memory(busy, synthetic, step):
    whole = ut.decode(busy, synthetic)
    parts = list(ut.iterate(busy, synthetic, step=step, threads=2, batch=50))
    assert ut.Hits.concatenate(parts) == whole
    assert [part.n_events for part in parts] == [part.n_events for part in ut.iterate(busy, synthetic, step=step, threads=1)]
    most = {"300 kB": 3e5, "1.5 MB": 1.5e6, "1 MiB": 2**20, "1B": 1}[step]

    def size(part):
        return sum(column.nbytes for column in part.columns.values()) + part.offsets[1:].nbytes + part.events.counts.nbytes

    assert all(part.n_events == 1 or size(part) <= most for part in parts)
    assert step == "1B" or size(parts[0]) > 0.8 * most


def test_kept_steps_do_not_change_when_others_are_dropped(busy, synthetic):
    whole = ut.decode([busy] * 4, synthetic, columns="all")
    kept, n = [], 0
    for hits in ut.iterate([busy] * 4, synthetic, columns="all", threads=2):
        n += 1
        if n % 2 == 0:
            kept.append(hits)
        del hits
    assert n >= 8
    for hits in kept:
        assert hits == whole[hits.events.index[0] : hits.events.index[-1] + 1]


def test_events_are_chosen_by_run_and_number(busy, synthetic):
    def numbers(pairs):
        return ut.decode(busy, synthetic, run_events=pairs).events.event_number.tolist()

    assert numbers([(1, 9), (1, 3), (2, 5), (1, 9)]) == [3, 9]
    assert numbers(np.array([[1, 699], [1, 0]])) == [0, 699] and numbers([]) == []
    (split, *_) = ut.plan(busy, synthetic, run_events=iter([(1, 7)]))
    assert ut.decode(split).events.event.tolist() == ut.decode(split).events.event.tolist() == [7]
    assert ut.run_sums(busy, synthetic, run_events=[(1, 7)]).events == 1
    for wrong in ([1], [(1, 2, 3)], ["12"], [(1, "2")]):
        with pytest.raises(TypeError, match="run_events"):
            numbers(wrong)


def test_progress_is_reported_and_may_end_a_call(busy, synthetic, tmp_path):
    calls = {
        "decode": lambda **options: ut.decode(busy, synthetic, **options),
        "iterate": lambda **options: list(ut.iterate(busy, synthetic, step=50, **options)),
        "parquet": lambda **options: ut.decode_to_parquet(busy, tmp_path / "hits.parquet", synthetic, **options),
        "sums": lambda **options: ut.run_sums(busy, synthetic, **options),
    }
    for name, call in calls.items():
        told = []
        call(progress=lambda events, share: told.append((events, share)))
        assert told == sorted(told) and told[-1] == (700, 1.0), name

        def stop(events, share):
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            call(progress=stop)
    told = []
    ut.decode(open(busy, "rb"), synthetic, progress=lambda *now: told.append(now))
    assert told[-1] == (700, None)


def test_wrong_arguments_are_named(busy, synthetic, fixtures):
    for call, said in (
        (lambda: ut.decode(busy, synthetic, events=-1), "events: -1 is negative"),
        (lambda: ut.decode(busy, synthetic, events=[3, -1]), "events: -1 is negative"),
        (lambda: ut.decode(busy, synthetic, events=range(-2, 5)), "events: -2 is negative"),
        (lambda: ut.decode(busy, synthetic, columns=[1]), "columns: 1 is not the name of a column"),
        (lambda: ut.decode(busy, synthetic, columns=["chrge"]), "there is no column 'chrge'; there are lhcb_id, "),
        (lambda: ut.iterate(busy, synthetic, step="100 events"), "step: '100 events' is neither"),
        (lambda: ut.decode(synthetic, busy), "tables must be Tables, not str|not Tables"),
        (lambda: ut.Tables(fixtures / "v5/geometry.bin", fixtures / "v5/boards.bin"), "is a geometry file"),
    ):
        with pytest.raises((TypeError, ValueError, ut.TablesError), match=said):
            call()


def test_a_notebook_shows_counts_and_some_hits(fixtures, v5, tmp_path, synthetic):
    file = tmp_path / "<b>.mdf"
    file.write_bytes((fixtures / "v5/troubles.mdf").read_bytes())
    hits = ut.decode(file, v5)
    shown = hits._repr_html_()
    rows = []

    class Rows(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            rows.append(tag)

    Rows().feed(shown)
    assert rows.count("tr") == 12 and "trouble: " in shown and f"{hits.n_hits:,} hits" in shown and "&lt;b&gt;" in shown
    assert str(hits.x_at_y_eq0[-1]) in shown
    assert f"<td>{hits.events.event_number[0]:.0f}</td>" in hits.events._repr_html_()
    assert "0 hits" in ut.decode(b"", synthetic)._repr_html_()
