"""Files in, hits out."""

import datetime
import gzip
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import ut_decoding as ut

from conftest import with_odin, without


@pytest.mark.parametrize("version", ["v4", "v5"])
@pytest.mark.parametrize("grouping", ["y-rows", "unique-x"])
def test_the_fixtures_give_the_numbers_of_the_reference(fixtures, version, grouping):
    expected = json.loads((fixtures / "expected.json").read_text())[f"{version}/events.mdf"]
    folder = fixtures / version
    tables = ut.Tables(folder / "boards.bin", folder / "geometry.bin", grouping=grouping)
    hits = ut.decode(folder / "events.mdf", tables)
    assert hits.n_hits == expected["hits"][grouping]["number"]
    assert hits.n_events == 4
    assert hits.n_groups == tables.n_groups
    assert {name: n for name, n in hits.report.items() if n} == {name: n for name, n in expected["report"].items() if n}


@pytest.mark.parametrize("backend", ["reference", "emulated"])
def test_every_backend_gives_the_same_bits(fixtures, v5, backend):
    file = fixtures / "v5/troubles.mdf"
    assert ut.decode(file, v5, backend=backend) == ut.decode(file, v5)


def test_columns_equal_the_csv_of_the_tool(fixtures, v5, tmp_path):
    file, csv = fixtures / "v5/events.mdf", tmp_path / "hits.csv"
    tables = ["--boards", v5.boards, "--geometry", v5.geometry]
    subprocess.run([sys.executable, "-m", "ut_decoding", "decode", file, *tables, "-o", csv, "-q"], check=True)
    rows = np.genfromtxt(csv, delimiter=",", names=True, dtype=None)
    hits = ut.decode(file, v5)
    assert len(rows) == hits.n_hits > 0
    assert np.array_equal(rows["event"], hits.event)
    assert np.array_equal(rows["group"], hits.group)
    for name in ut.Hits.COLUMNS:
        assert np.array_equal(rows[name].astype(hits.columns[name].dtype), hits.columns[name]), name


def test_columns_are_read_only_views_of_the_decoders_memory(busy, synthetic):
    hits = ut.decode(busy, synthetic)
    for name, column in hits.columns.items():
        assert type(column.base).__name__ == "Array", name
        address = column.base.__array_interface__["data"][0]
        assert column.ctypes.data == address
        assert not column.flags.writeable and column.flags.c_contiguous
        assert column.shape == (hits.n_hits,)
    with pytest.raises(ValueError, match="read-only"):
        hits.x_at_y_eq0[0] = 1


def test_a_column_outlives_its_hits(busy, synthetic):
    x = ut.decode(busy, synthetic).x_at_y_eq0
    copy = x.copy()
    [ut.decode(busy, synthetic) for _ in range(3)]
    assert np.array_equal(x, copy)


def test_steps_threads_and_batches_change_nothing(busy, synthetic):
    whole = ut.decode(busy, synthetic, threads=1)
    assert whole.n_events == 700
    for step, threads, batch in [(1000, 3, 256), (699, 2, 7), (100, 4, 33), (1, 2, 256)]:
        parts = list(ut.iterate(busy, synthetic, step=step, threads=threads, batch=batch))
        assert [part.n_events for part in parts[:-1]] == [step] * (len(parts) - 1)
        assert ut.Hits.concatenate(parts) == whole
        assert all(part.offsets[0] == 0 for part in parts)


def test_hits_from_iterate_stay_valid_during_later_steps(busy, synthetic):
    whole = ut.decode(busy, synthetic)
    kept, first = [], 0
    for hits in ut.iterate(busy, synthetic, step=50):
        kept.append(hits)
        if len(kept) > 3:
            kept.pop(0)
        for hits in kept:
            n = hits.n_hits
        first += 50
        assert kept[-1] == whole.of_events(first - 50, first)
        assert n == kept[-1].n_hits


def test_files_folders_patterns_bytes_and_lists_are_inputs(busy, synthetic, tmp_path, monkeypatch):
    data = open(busy, "rb").read()
    whole = ut.decode(busy, synthetic)
    for name in ["b.mdf", "a.mdf"]:
        shutil.copy(busy, tmp_path / name)
    (tmp_path / ".hidden").write_bytes(b"no data")
    twice = ut.decode(tmp_path, synthetic)
    assert [os.path.basename(name) for name in twice.files] == ["a.mdf", "b.mdf"]
    assert twice.n_events == 1400
    assert np.array_equal(twice.x_at_y_eq0, np.tile(whole.x_at_y_eq0, 2))
    assert ut.decode(str(tmp_path / "*.mdf"), synthetic) == twice
    assert ut.decode([tmp_path / "a.mdf", tmp_path / "b.mdf"], synthetic) == twice
    for content in [data, bytearray(data), memoryview(data), gzip.compress(data, 1)]:
        hits = ut.decode(content, synthetic)
        assert hits.files == ["bytes"]
        assert np.array_equal(hits.x_at_y_eq0, whole.x_at_y_eq0)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ut.InputError, match="no file fits"):
        ut.decode("nothing*.mdf", synthetic)
    os.mkdir("empty")
    with pytest.raises(ut.InputError, match="no file in this folder"):
        ut.decode("empty", synthetic)


def test_events_are_chosen_by_place_run_and_number(busy, synthetic):
    whole = ut.decode(busy, synthetic)

    def places(**options):
        return ut.decode(busy, synthetic, **options).events.event.tolist()

    assert places(events="3,10-12") == [3, 10, 11, 12]
    assert places(events=range(690, 800)) == list(range(690, 700))
    assert places(events=[5, 2, 5]) == [2, 5]
    assert places(events=7) == [7]
    assert places(skip=2, limit=3) == [2, 3, 4]
    assert places(event_number=9) == [9]
    assert places(run=1, limit=2) == [0, 1]
    assert places(run=2) == places(limit=0) == []
    shards = [ut.decode(busy, synthetic, shard=(i, 3)) for i in (1, 2, 3)]
    assert ut.Hits.concatenate(shards) == whole
    assert whole.events.run.tolist() == [1] * 700
    assert whole.events.event_number.tolist() == list(range(700))


def test_numpy_integers_are_accepted_and_booleans_are_not(busy, synthetic):
    integer = np.int64(3)
    hits = ut.decode(busy, synthetic, threads=integer, skip=integer, limit=np.uint8(2), batch=integer, run=np.int32(1))
    assert hits.events.event.tolist() == [3, 4]
    assert ut.decode(busy, synthetic, events=integer).events.event.tolist() == [3]
    assert ut.decode(busy, synthetic, events=np.array([5, 2])).events.event.tolist() == [2, 5]
    for wrong in (True, [True], np.array([1.5])):
        with pytest.raises(TypeError, match="events"):
            ut.decode(busy, synthetic, events=wrong)


def test_any_iterable_of_inputs_is_accepted(busy, synthetic):
    twice = ut.decode([busy, busy], synthetic)
    assert ut.decode((name for name in [busy, busy]), synthetic) == twice
    assert ut.run_sums((name for name in [busy, busy]), synthetic).events == 1400
    assert ut.Hits.concatenate(iter(ut.iterate([busy, busy], synthetic, step=500))).n_events == 1400


def test_a_file_named_twice_is_one_dictionary_entry_in_arrow(busy, synthetic):
    pytest.importorskip("pyarrow")
    splits = ut.plan(busy, synthetic, events=400)
    file = ut.decode([*splits, ut.generate(1)]).to_arrow()["file"].combine_chunks()
    assert file.dictionary.to_pylist() == [busy, "bytes"]
    n = ut.decode(splits).n_hits
    assert set(file.to_pylist()[:n]) == {busy} and set(file.to_pylist()[n:]) == {"bytes"}


def test_columns_of_events_are_read_only_even_after_pickling(busy, synthetic):
    hits = ut.decode(busy, synthetic, limit=5)
    for one in (hits, hits.of_events(1, 3), pickle.loads(pickle.dumps(hits)), ut.Hits.concatenate([hits, hits])):
        for array in (one.events.run, one.events.event_number):
            for value in (1, np.ma.masked):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = value


def test_an_unknown_number_is_not_zero(busy, synthetic):
    hits = ut.decode(busy, synthetic, limit=1)
    assert hits.events.event_number.tolist() == [0]
    unknown = without(hits, "event_number")
    assert unknown != hits and unknown == unknown and np.isnan(unknown.events.event_number).all()


def test_parts_of_hits_keep_the_reasons_for_broken_events_and_files(busy, synthetic, fixtures, v5, tmp_path):
    hits = ut.decode(fixtures / "v5/troubles.mdf", v5)
    for parts in ([hits.of_events(i, i + 1) for i in range(hits.n_events)], [hits.of_events(0, 2), hits.of_events(2, 99)]):
        assert [broken for part in parts for broken in part.broken_events] == hits.broken_events
        assert all(len(part.broken_events) == part.report["broken_event"] for part in parts)
    cut = tmp_path / "cut.mdf"
    cut.write_bytes(open(busy, "rb").read()[:-1])
    hits = ut.decode(["no-such.mdf", cut, busy], synthetic, keep_going=True)
    assert [failure.file for failure in hits.failures] == ["no-such.mdf", str(cut)]
    parts = [hits.of_events(0, 698), hits.of_events(698, 699), hits.of_events(699, 1399)]
    assert [[failure.file for failure in part.failures] for part in parts] == [["no-such.mdf"], [str(cut)], []]


@pytest.mark.parametrize("step", [1, 2, 7, 300])
def test_iterate_gives_broken_events_with_the_reason(busy, synthetic, fixtures, v5, tmp_path, step):
    data = bytearray(open(busy, "rb").read())
    ends = [split.stop for split in ut.plan(busy, events=1)]
    for event in (0, 1, 63, 64, 299, 500):
        data[ends[event] - 1] ^= 0x40  # a checksum that does not fit any more
    damaged = tmp_path / "damaged.mdf"
    damaged.write_bytes(data)
    # A file that is named twice has the same events twice.
    for inputs, tables, n in (
        (fixtures / "v5/troubles.mdf", v5, None),
        ([damaged, busy], synthetic, 6),
        ([damaged, damaged], synthetic, 12),
    ):
        whole = ut.decode(inputs, tables)
        parts = list(ut.iterate(inputs, tables, step=step, threads=2))
        assert len(whole.broken_events) == n or n is None
        assert [broken for part in parts for broken in part.broken_events] == whole.broken_events
        for part in parts:
            assert len(part.broken_events) == part.report["broken_event"]
            assert {broken.event for broken in part.broken_events} <= set(part.events.event.tolist())


def test_no_thread_is_left_after_a_call_returns(v5):
    def threads():
        found = 0
        for task in os.listdir("/proc/self/task"):
            try:
                name, _, rest = open(f"/proc/self/task/{task}/stat").read().rpartition(") ")
            except OSError:
                continue  # It has ended.
            is_exiting = int(rest.split()[6]) & 4  # The kernel may list it a little longer.
            found += name.endswith("(ut-decoding") and not is_exiting
        return found

    def left():
        ut.Tables(v5.boards, v5.geometry)
        return threads()

    before = threads()
    assert max(left() for _ in range(300)) <= before


def test_names_that_are_not_utf8_are_kept(busy, synthetic, fixtures, v5, tmp_path):
    broken, cut = (os.fsdecode(os.fsencode(tmp_path) + name) for name in (b"/\xff.mdf", b"/cut-\xff.mdf"))
    shutil.copy(fixtures / "v5/troubles.mdf", broken)
    hits = ut.decode(broken, v5)
    assert hits.files == [broken] and {one.file for one in hits.broken_events} == {broken}
    assert hits.of_events(0, hits.n_events).broken_events == hits.broken_events
    assert set(hits.troubles["file"]) == {broken} and pickle.loads(pickle.dumps(hits)) == hits
    with open(cut, "wb") as file:
        file.write(open(busy, "rb").read()[:-1])
    parts = ut.decode([cut, busy], synthetic, keep_going=True)
    assert [one.file for one in parts.failures] == [cut]
    assert [len(parts.of_events(*some).failures) for some in ((0, 698), (698, 699), (699, 1399))] == [0, 1, 0]
    pytest.importorskip("pyarrow")
    assert set(hits.to_arrow()["file"].to_pylist()) == {rf"{tmp_path}/\xff.mdf"}
    other = broken.replace("\udcff", "\udcfe")
    shutil.copy(broken, other)
    words = ut.decode([broken, other], v5).to_arrow()["file"].to_pylist()
    assert {word: words.count(word) for word in words} == {rf"{tmp_path}/{name}.mdf": hits.n_hits for name in (r"\xff", r"\xfe")}


def test_only_requested_columns_are_kept(busy, synthetic):
    whole = ut.decode(busy, synthetic)
    hits = ut.decode(busy, synthetic, columns=["x_at_y_eq0", "lhcb_id", "lhcb_id"])
    assert list(hits.columns) == ["x_at_y_eq0", "lhcb_id"]
    assert np.array_equal(hits.lhcb_id, whole.lhcb_id)
    assert hits.n_hits == whole.n_hits
    with pytest.raises(AttributeError, match="without the column weight"):
        _ = hits.weight
    none = ut.decode(busy, synthetic, columns=[])
    assert none.report == whole.report and none.n_hits == whole.n_hits and none.columns == {}


def test_columns_of_the_detector_come_on_request(fixtures, v5, v4, tmp_path):
    file = fixtures / "v5/events.mdf"
    plain = ut.decode(file, v5)
    hits = ut.decode(file, v5, columns=[*ut.Hits.COLUMNS, "detector", "sector_id"])
    assert list(hits.columns) == [*ut.Hits.COLUMNS, *ut.Hits.DETECTOR_COLUMNS]
    for name in ut.Hits.COLUMNS:
        assert np.array_equal(hits.columns[name], plain.columns[name])
    for name in ut.Hits.DETECTOR_COLUMNS:
        column = getattr(hits, name)
        assert column is hits.columns[name] and column.shape == (hits.n_hits,)
    assert np.array_equal(hits.layer, hits.lhcb_id >> 18 & 3)
    assert np.array_equal(hits.strip, hits.lhcb_id & 511)
    assert set(hits.side) == {0, 1} and set(hits.face) == {0, 1} and hits.stave.max() <= 8 and hits.module.max() <= 7
    assert np.array_equal(v5.groups[hits.sector_id], hits.group)
    assert hits.board.max() < v5.n_boards and hits.lane.max() <= 5
    assert hits.n_strips.min() >= 1 and hits.charge.min() >= 1 and hits.flipped.dtype == bool
    # A cluster holds the strip of its id, up to rounding.
    assert ((hits.strip + 1 >= hits.first_strip) & (hits.strip <= hits.first_strip + hits.n_strips)).all()
    steps = list(ut.iterate(file, v5, step=1, columns=["n_strips", "x_at_y_eq0", "flipped"], threads=2, batch=1))
    together = ut.Hits.concatenate(steps)
    assert all(np.array_equal(together.columns[name], hits.columns[name]) for name in together.columns)
    unclustered = ut.decode(file, v5, clustering=False, columns=["n_strips", "charge"])
    assert (unclustered.n_strips == 1).all() and unclustered.n_hits > hits.n_hits
    assert unclustered.charge.sum() == hits.charge.sum()
    assert ut.decode(fixtures / "v4/events.mdf", v4, columns=["layer", "board"]).board.max() < 240
    with pytest.raises(ut.DecodeError, match="reference and cpu"):
        ut.decode(file, v5, columns=["charge"], backend="emulated")


def test_an_input_without_events_gives_no_hits_but_all_columns(synthetic):
    hits = ut.decode(b"", synthetic)
    assert (hits.n_events, hits.n_hits, hits.has_trouble) == (0, 0, False)
    assert hits.x_at_y_eq0.shape == (0,) and hits.offsets.tolist() == [0]
    assert hits.events.counts.shape == (0, 15)
    assert list(ut.iterate(b"", synthetic)) == []
    assert ut.decode([], synthetic).n_events == 0


def test_troubles_are_a_table_that_adds_up_to_the_report(fixtures, v5):
    hits = ut.decode(fixtures / "v5/troubles.mdf", v5)
    assert hits.has_trouble and "trouble" in repr(hits)
    table = hits.troubles
    assert set(table["trouble"]) == set(ut.Hits.TROUBLES)
    for name in ut.Hits.TROUBLES:
        assert table["count"][table["trouble"] == name].sum() == hits.report[name]
    assert set(table["file"]) == {str(fixtures / "v5/troubles.mdf")}
    assert hits.report["broken_event"] == len(hits.broken_events) > 0
    broken = hits.broken_events[0]
    assert broken.file.endswith("troubles.mdf") and broken.byte > 0 and broken.message
    assert not ut.decode(fixtures / "v5/events.mdf", v5).troubles.size


def test_loss_adds_up_and_is_a_warning_or_on_request_an_error(busy, synthetic, tmp_path):
    good = ut.decode(busy, synthetic, max_loss=0)
    assert not good.loss and good.loss.share == 0 and str(good.loss) == "nothing"
    data = bytearray(open(busy, "rb").read())
    ends = [split.stop for split in ut.plan(busy, events=1)]
    for event in range(35):
        data[ends[event] - 1] ^= 0x40  # a checksum that does not fit any more
    damaged = tmp_path / "damaged.mdf"
    damaged.write_bytes(data)
    with pytest.warns(ut.LossWarning, match="wrong checksum"):
        hits = ut.decode(damaged, synthetic)
    loss = hits.loss
    assert loss and loss.events == (35, 700) and loss.banks.lost == loss.causes["checksum"] > 0
    assert str(loss).startswith(f"{loss.banks.lost:,} of {loss.banks.of:,} banks (5.0 %): wrong checksum")
    assert sum((part.loss for part in hits), ut.Loss()) == loss and hits[35:].loss.share == 0
    with pytest.warns(ut.LossWarning):
        parts = list(ut.iterate(damaged, synthetic, step=100, max_loss=0.05 + 1e-9))
    assert ut.Hits.concatenate(parts).loss == loss == pickle.loads(pickle.dumps(hits)).loss
    with pytest.warns(ut.LossWarning):
        summary = ut.decode_to_parquet(damaged, tmp_path / "hits.parquet", synthetic)
    assert summary.loss == loss and (summary + summary).loss == loss + loss
    for call in (ut.decode, lambda *args, **more: list(ut.iterate(*args, **more))):
        with pytest.raises(ut.LossError, match="more than max_loss=0.01"):
            call(damaged, synthetic, max_loss=0.01)
    for wrong, error in ((2, ValueError), (-0.1, ValueError), ("10%", TypeError), (True, TypeError)):
        with pytest.raises(error, match="max_loss"):
            ut.decode(busy, synthetic, max_loss=wrong)


def test_a_truncated_file_raises_with_its_place_and_iterate_gives_earlier_events(busy, synthetic, tmp_path):
    data = open(busy, "rb").read()
    cut = tmp_path / "cut.mdf"
    cut.write_bytes(data[:-100])
    with pytest.raises(ut.InputError) as caught:
        ut.decode(cut, synthetic)
    error = caught.value
    assert (error.file, error.event, error.bank) == (str(cut), 699, None)
    last = ut.plan(busy, events=699)[1]
    assert error.byte == last.start
    assert str(error).count(str(cut)) == 1 and "truncated" in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.byte) == (ut.InputError, str(error), error.byte)
    seen = 0
    with pytest.raises(ut.InputError):
        for hits in ut.iterate(cut, synthetic, step=100):
            seen += hits.n_events
    assert seen == 699
    both = ut.decode([cut, busy], synthetic, keep_going=True)
    assert both.n_events == 1399
    assert [(failure.file, failure.event) for failure in both.failures] == [(str(cut), 699)]


def test_a_missing_file_is_also_a_file_not_found_error(v5, fixtures):
    for error in (ut.InputError, FileNotFoundError):
        with pytest.raises(error, match="no-such.mdf") as caught:
            ut.decode("no-such.mdf", v5)
        assert (caught.value.filename, caught.value.file) == ("no-such.mdf", "no-such.mdf")
    for error in (ut.TablesError, FileNotFoundError):
        with pytest.raises(error, match="no-such.bin"):
            ut.Tables("no-such.bin", fixtures / "v5/geometry.bin")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, FileNotFoundError) and str(copy) == str(caught.value)


def test_files_that_are_no_tables_are_refused_with_the_byte(fixtures, tmp_path):
    damaged = bytearray((fixtures / "v5/boards.bin").read_bytes())
    damaged[-1] ^= 0xFF
    (tmp_path / "boards.bin").write_bytes(damaged)
    with pytest.raises(ut.TablesError) as caught:
        ut.Tables(tmp_path / "boards.bin", fixtures / "v5/geometry.bin")
    assert caught.value.file.endswith("boards.bin") and caught.value.byte is not None
    with pytest.raises(ValueError, match="y-rows or unique-x"):
        ut.Tables.synthetic(grouping="rows")
    with pytest.raises(ValueError, match="v4 and v5"):
        ut.Tables.synthetic("v6")


def test_tables_of_the_other_format_are_refused(fixtures, v4):
    with pytest.raises(ut.InputError, match=r"none of its UT banks .* version 4 \(format v5\)") as caught:
        ut.decode(fixtures / "v5/events.mdf", v4)
    assert caught.value.file.endswith("v5/events.mdf")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"position": "middle"}, ValueError),
        ({"flip": 510}, ValueError),
        ({"max_cluster_size": 0}, ValueError),
        ({"backend": "gpu"}, ValueError),
        ({"threads": 5000}, ValueError),
        ({"threads": -1}, ValueError),
        ({"threads": True}, TypeError),
        ({"limit": 1 << 64}, ValueError),
        ({"run": "1"}, TypeError),
        ({"events": "3-1"}, ValueError),
        ({"events": []}, ValueError),
        ({"shard": (0, 3)}, ValueError),
        ({"shard": (4, 3)}, ValueError),
        ({"shard": (-1, 3)}, ValueError),
        ({"shard": (1, 1 << 64)}, ValueError),
        ({"shard": "1/2"}, TypeError),
        ({"shard": (1, 2, 3)}, TypeError),
        ({"time": "2026-02-03"}, ValueError),
        ({"time": "2026-02-30..2026-03-01"}, ValueError),
        ({"time": "2026-02-03..2026-02-03"}, ValueError),
        ({"time": (np.datetime64("NaT"), None)}, ValueError),
        ({"time": 5}, ValueError),
        ({"crossing": "beam3"}, ValueError),
        ({"crossing": [1]}, TypeError),
        ({"mask": 1.0}, TypeError),
        ({"batch": 0}, ValueError),
        ({"batch": 1 << 40}, ValueError),
        ({"columns": ["chrge"]}, ValueError),
        ({"columns": "lhcb_id"}, TypeError),
        ({"colums": ["lhcb_id"]}, TypeError),
        ({"clustering": "no"}, TypeError),
    ],
)
def test_impossible_options_are_refused(synthetic, options, error):
    with pytest.raises(error) as caught:
        ut.decode(b"", synthetic, **options)
    assert next(iter(options)) in str(caught.value) and "Request" not in str(caught.value)


@pytest.fixture(scope="session")
def timed(tmp_path_factory):
    """A file with an event a minute."""
    path = tmp_path_factory.mktemp("timed") / "timed.mdf"
    times = np.datetime64("2026-02-03T04:00") + np.arange(4)
    path.write_bytes(with_odin(ut.generate(4, profile="pp-low"), times, [3, 0, 3, 1]))
    return path


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({"time": "2026-02-03T04:01..2026-02-03T04:03"}, [1, 2]),
        ({"time": "..2026-02-03T04:01:00Z"}, [0]),
        ({"time": (np.datetime64("2026-02-03T04:02"), None)}, [2, 3]),
        ({"time": (datetime.date(2026, 2, 3), datetime.datetime(2026, 2, 3, 4, 1))}, [0]),
        ({"time": (datetime.datetime(2026, 2, 3, 5, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=1))), "")}, [3]),
        ({"time": "2027-01-01.."}, []),
        ({"crossing": "beam-crossing"}, [0, 2]),
        ({"crossing": ["no-beam", "beam1"], "time": "2026-02-03T04:03.."}, [3]),
        ({"crossing": []}, []),
    ],
)
def test_times_and_crossings_choose_events(timed, synthetic, options, places):
    hits = ut.decode(timed, synthetic)
    assert ut.decode(timed, synthetic, **options) == hits[places]
    (split,) = ut.plan(timed, synthetic, **options)
    assert ut.decode(split) == hits[places]
    assert sum(len(some) for some in ut.iterate(timed, synthetic, **options)) == len(places)
    assert ut.run_sums(timed, synthetic, **options).events == len(places)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"time": "2026-01-01.."}, "time: no event has a time: no ODIN bank"),
        ({"skip": 700}, "skip: the input has no more events than 700"),
        ({"events": [700, 900]}, "events: all of these places are beyond the end"),
    ],
)
def test_a_selection_that_no_event_could_meet_is_refused(busy, synthetic, tmp_path, options, why):
    events, at = bytearray(pathlib.Path(busy).read_bytes()), 0
    while at < len(events):
        # The first bank is ODIN's: one of an unknown version, and no checksum.
        events[at + 12 : at + 16], events[at + 53] = bytes(4), 9
        at += int.from_bytes(events[at : at + 4], "little")
    timeless = tmp_path / "timeless.mdf"
    timeless.write_bytes(events)
    for call in (
        lambda: ut.decode(timeless, synthetic, **options),
        lambda: list(ut.iterate(timeless, synthetic, **options)),
        lambda: ut.run_sums(timeless, synthetic, **options),
        lambda: ut.decode_to_parquet(timeless, tmp_path / "hits.parquet", synthetic, **options),
    ):
        with pytest.raises(ValueError, match=why):
            call()
    assert list(tmp_path.iterdir()) == [timeless]
    assert len(ut.decode(timeless, synthetic, shard=(1, 2), **options)) == 0


def sum_of(parts):
    total = sum((part.summary for part in parts), ut.Summary())
    return total.hits, total.masked_hits


def test_a_mask_leaves_hits_out(busy, synthetic, tmp_path):
    all_columns = ut.decode(busy, synthetic, columns="all")
    sector = int(all_columns.sector_id[0])
    kept = all_columns.sector_id != sector
    mask = tmp_path / "known.mask"
    mask.write_text(f"sector {sector}  # noisy\n")
    hits = ut.decode(busy, synthetic, columns="all", mask=mask)
    assert 0 < hits.n_hits == kept.sum() < all_columns.n_hits and hits == all_columns[kept]
    assert hits.loss == all_columns.loss
    left_out = all_columns.n_hits - hits.n_hits
    assert hits.masked_hits == left_out == hits[:300].masked_hits + hits[300:].masked_hits
    assert np.array_equal(hits.events.masked_hits, all_columns.hits_per_event - hits.hits_per_event)
    again = pickle.loads(pickle.dumps(ut.Hits.concatenate([hits, hits])))
    assert again.summary.masked_hits == 2 * left_out and all_columns.masked_hits == 0
    written = ut.decode_to_parquet(busy, tmp_path / "hits.parquet", synthetic, mask=mask)
    assert (written.hits, written.masked_hits) == (hits.n_hits, left_out) == sum_of(ut.iterate(busy, synthetic, mask=mask))
    splits = ut.plan(busy, synthetic, events=400, mask=mask, count=True)
    masked = [pickle.loads(pickle.dumps(ut.run_sums(split))) for split in splits]
    assert sum(ut.decode(split).n_hits for split in splits) == (masked[0] + masked[1]).hits == hits.n_hits
    (masked[0] + masked[1]).write_page(tmp_path / "sums.html")
    ut.report(busy, synthetic, tmp_path / "page.html", mask=mask)
    page = (tmp_path / "page.html").read_text()
    assert "known.mask" in page and page == (tmp_path / "sums.html").read_text()
    with pytest.raises(ValueError, match=r"mask: one has .*known.mask, the other None"):
        masked[0] + ut.run_sums(busy, synthetic, skip=400)
    with pytest.raises(ValueError, match="would replace"):
        ut.decode_to_parquet(busy, mask, synthetic, mask=mask)


def test_an_invalid_mask_is_refused(synthetic, tmp_path):
    mask = tmp_path / "known.mask"
    with pytest.raises(FileNotFoundError, match=r"known\.mask") as caught:
        ut.decode(b"", synthetic, mask=mask)
    assert isinstance(caught.value, ut.TablesError)
    mask.write_text("# none\n")
    with pytest.raises(ValueError, match=r"mask: .*known\.mask names no strip"):
        ut.decode(b"", synthetic, mask=mask)
    mask.write_text("\nsector 4000\n")
    with pytest.raises(ut.TablesError, match=r"known\.mask, line 2: "):
        ut.decode(b"", synthetic, mask=mask)


@pytest.mark.parametrize(("number", "error"), [(0, ValueError), (1 << 64, ValueError), (1.5, TypeError), (True, TypeError)])
def test_invalid_numbers_of_events_are_refused(busy, synthetic, number, error):
    with pytest.raises(error, match="step: "):
        ut.iterate(busy, synthetic, step=number)
    with pytest.raises(error, match="events: "):
        ut.plan(busy, synthetic, events=number)


def test_without_tables_nothing_is_decoded(busy):
    with pytest.raises(TypeError, match="which detector"):
        ut.decode(busy)
    with pytest.raises(TypeError, match="must be Tables, not str"):
        ut.decode(busy, "boards.bin")


def test_hits_and_tables_are_pickled_by_content(busy, synthetic):
    hits = ut.decode(busy, synthetic)
    for protocol in (2, 5):
        assert pickle.loads(pickle.dumps(hits, protocol)) == hits
    buffers = []
    small = pickle.dumps(hits, 5, buffer_callback=buffers.append)
    assert len(small) < 1e5 and pickle.loads(small, buffers=buffers) == hits
    tables = pickle.loads(pickle.dumps(synthetic))
    assert tables == synthetic and hash(tables) == hash(synthetic) and tables.is_synthetic
    assert tables != ut.Tables.synthetic(grouping="unique-x")
    assert tables == ut.Tables.from_bytes(*synthetic.to_bytes())
    assert ut.decode(busy, tables) == hits


def test_python_threads_decode_concurrently(busy, synthetic):
    whole, found = ut.decode(busy, synthetic), []
    threads = [threading.Thread(target=lambda: found.append(ut.decode(busy, synthetic))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(found) == 4 and all(hits == whole for hits in found)


WAITS = """
import ut_decoding as ut, sys
try:
    print("ready", flush=True)
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        "ut.decode(sys.argv[1], ut.Tables.synthetic())",
        "next(ut.iterate(sys.argv[1], ut.Tables.synthetic(), step=10))",
        "ut.decode_to_parquet(sys.argv[1], sys.argv[1] + '.parquet', ut.Tables.synthetic())",
        "ut.report(sys.argv[1], ut.Tables.synthetic(), sys.argv[1] + '.html')",
        "ut.Tables(sys.argv[1], sys.argv[1])",
    ],
)
def test_ctrl_c_ends_a_call_that_waits_for_a_pipe(tmp_path, call):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen([sys.executable, "-c", WAITS.format(call=call), pipe], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    # The writer keeps the pipe open and sends nothing.
    with open(pipe, "wb"):
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert out == "interrupted\n" and process.returncode == 0
    assert os.listdir(tmp_path) == ["pipe"]


def test_ctrl_c_ends_a_page_written_to_a_pipe_without_reader(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    call = "ut.run_sums(ut.generate(1), ut.Tables.synthetic()).write_page(sys.argv[1])"
    # First nobody opens the pipe, then nobody reads from it, which takes the beginning of the page.
    for is_open in (False, True):
        process = subprocess.Popen([sys.executable, "-c", WAITS.format(call=call), pipe], stdout=subprocess.PIPE, text=True)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) if is_open else None
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=20)
        finally:
            process.kill()
            if reader is not None:
                os.close(reader)
        assert out == "interrupted\n" and process.returncode == 0


@pytest.fixture(scope="module")
def much(tmp_path_factory):
    """A compressed file, whose members follow each other: 30 GB, for which nobody waits."""
    path = tmp_path_factory.mktemp("much") / "much.mdf.gz"
    path.write_bytes(gzip.compress(ut.generate(1) * 1000, 3) * 1700)
    return path


@pytest.mark.parametrize(
    "call",
    [
        "ut.decode(sys.argv[1], ut.Tables.synthetic(), shard=(1, 2))",
        "ut.decode_to_parquet(sys.argv[1], sys.argv[1] + '.parquet', ut.Tables.synthetic(), shard=(1, 2))",
        "ut.run_sums(sys.argv[1], ut.Tables.synthetic(), shard=(1, 2))",
    ],
)
def test_ctrl_c_ends_the_counting_of_a_shard(much, call):
    process = subprocess.Popen([sys.executable, "-c", WAITS.format(call=call), much], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert out == "interrupted\n" and process.returncode == 0


def test_inputs_that_can_be_read_only_once_have_no_shards(tmp_path, synthetic):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for once in (pipe, "-"):
        with pytest.raises(ValueError, match=f"shard: {once} can be read only once"):
            ut.decode(once, synthetic, shard=(1, 2))
    with pytest.raises(ValueError, match="standard input can be read only once"):
        ut.decode(["-", "-"], synthetic)


NO_THREAD = """
import resource, sys
import ut_decoding as ut
plan = ut.plan
taken = 1024 * next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize:"))
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 20),) * 2)  # less than a stack
try:
    plan(sys.argv[1])
except RuntimeError as error:
    print(error, flush=True)
"""


def test_running_out_of_threads_is_an_error(busy):
    done = subprocess.run([sys.executable, "-c", NO_THREAD, busy], capture_output=True, text=True, timeout=60)
    assert "cannot start a thread" in done.stdout, done.stderr


FORKED = """
import os, signal, sys
import ut_decoding as ut
hits = ut.iterate(sys.argv[1], ut.Tables.synthetic(), step=100)
next(hits)
if os.fork() == 0:
    signal.alarm(20)
    try:
        next(hits)
    except RuntimeError as error:
        print(error, flush=True)
    hits.close()
    del hits
    print(ut.decode(sys.argv[1], ut.Tables.synthetic()).n_events, flush=True)
    os._exit(0)
os.wait()
print(sum(part.n_events for part in hits), flush=True)
"""


def test_an_iterator_in_a_forked_process_is_an_error(busy):
    done = subprocess.run([sys.executable, "-c", FORKED, busy], capture_output=True, text=True, timeout=60)
    error, *events = done.stdout.splitlines()
    assert "forked" in error and events == ["700", "600"], done


LITTLE_MEMORY = """
import resource, sys
import ut_decoding as ut
decode, generate, tables = ut.decode, ut.generate, ut.Tables.synthetic()
taken = 1024 * next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize:"))
resource.setrlimit(resource.RLIMIT_AS, (taken + ({megabytes} << 20),) * 2)
try:
    print({call}, flush=True)
except MemoryError as error:
    print(error, flush=True)
"""


@pytest.mark.parametrize(
    ("call", "megabytes", "said"),
    [
        ("generate(10**8, profile='pp-low')", 64, "the events would take about"),
        ("decode(sys.argv[1], tables, limit=10, threads=1)", 3000, "Hits(10 events, "),
        ("decode(sys.argv[1], tables, events='3,5', threads=1)", 3000, "Hits(2 events, "),
    ],
)
def test_with_little_memory_what_fits_is_decoded_and_the_rest_is_an_error(busy, tmp_path, call, megabytes, said):
    large = tmp_path / "large.mdf"
    shutil.copy(busy, large)
    os.truncate(large, 64 << 30)
    code = LITTLE_MEMORY.format(call=call, megabytes=megabytes)
    done = subprocess.run([sys.executable, "-c", code, large], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(said), done


def test_the_gil_is_released_while_a_call_waits(tmp_path, synthetic):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    waiting = threading.Thread(target=lambda: found.append(ut.decode(pipe, synthetic)))
    waiting.start()
    # This thread runs, or there would be no writer, and the other one would wait forever.
    with open(pipe, "wb") as writer:
        writer.write(ut.generate(2))
    waiting.join(timeout=20)
    assert found[0].n_events == 2


def test_generated_events_are_the_same_for_the_same_seed():
    assert ut.generate(2, seed=5) == ut.generate(2, seed=5) != ut.generate(2, seed=6)
    assert ut.generate(0) == b""
    with pytest.raises(ValueError, match="pp-nominal"):
        ut.generate(1, profile="pp")


def test_lanes_and_sectors_are_looked_up_both_ways(v5):
    every = v5.connections()
    assert len(every) == 1192 and every[0] == (0, 0, every[0].sector, every[0].first_strip, every[0].last_strip)
    of_board = v5.connections(board=17)
    assert of_board and {c.board for c in of_board} == {17}
    for c in of_board:
        assert c in v5.connections(sector=c.sector)
        assert sum(d.last_strip - d.first_strip + 1 for d in v5.connections(sector=c.sector)) == 512


def test_events_and_tables_that_do_not_belong_together_are_refused(
    busy, fixtures, v4, v5, synthetic, measured_event, tmp_path
):
    trusted = ut.Tables.synthetic(trust=True)
    geometry = bytearray(pathlib.Path(v5.geometry).read_bytes())
    geometry[4 + 4 * 6 * 1048] ^= 1
    others = ut.Tables.from_bytes(pathlib.Path(v5.boards).read_bytes(), bytes(geometry))
    for events, tables, part in [
        (measured_event, synthetic, "ut-decode generate did not make"),
        (measured_event, pickle.loads(pickle.dumps(synthetic)), "ut-decode generate did not make"),
        (ut.generate(1), others, "ut-decode generate made"),
        (ut.generate(1, version="v4"), v5, "board table's version"),
    ]:
        with pytest.raises(ut.InputError, match=part):
            ut.decode(events, tables, checksum=False)
        with pytest.raises(ut.InputError, match=part):
            ut.decode_to_parquet(events, tmp_path / "hits.parquet", tables, checksum=False)
    assert not (tmp_path / "hits.parquet").exists()
    for tables in (trusted, pickle.loads(pickle.dumps(trusted))):
        assert len(ut.decode(measured_event, tables, checksum=False)) > 0
    with pytest.raises(ut.TablesError, match="does not fit boards of format v5"):
        ut.Tables(v5.boards, v4.geometry)
    assert ut.Tables(v5.boards, v4.geometry, trust=True).bank_version == "v5"
