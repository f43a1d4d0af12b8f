"""The page of a run: of one process, and of parts that several processes sum up."""

import functools
import gzip
import multiprocessing
import operator
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import pytest

import ut_decoding as ut


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Files of a run, the second compressed, with troubles in the third."""
    folder = tmp_path_factory.mktemp("run")
    data = [ut.generate(n, profile="pp-low", seed=seed) for n, seed in ((150, 1), (90, 2), (120, 3))]
    (folder / "1.mdf").write_bytes(data[0])
    (folder / "2.mdf.gz").write_bytes(gzip.compress(data[1], 1))
    third = bytearray(data[2])
    third[len(third) // 2] ^= 0x40  # a checksum that does not fit any more
    (folder / "3.mdf").write_bytes(third)
    return sorted(map(str, folder.iterdir()))


@pytest.fixture(scope="module")
def whole(several, synthetic, tmp_path_factory):
    """The page that one process draws, and what it found."""
    page = tmp_path_factory.mktemp("page") / "run.html"
    found = ut.report(several, synthetic, page)
    assert found["events"] == 360 and found["report"]["broken_event"] == 1
    assert len(found["troubles"]) == 1 and 240 <= found["troubles"][0]["first_event"] < 360
    return page.read_bytes(), found


def test_a_page_is_written_and_what_stands_out_is_returned(busy, synthetic, tmp_path):
    page = tmp_path / "run.html"
    found = ut.report(busy, synthetic, page, compare=[busy])
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    assert "(B)" in page.read_text()
    assert found["events"] == 700 and found["complete"] is True
    assert ut.report(busy, synthetic, page, skip=600)["events"] == 100


def test_the_page_equals_the_page_of_the_tool(several, synthetic, whole, tmp_path):
    page = tmp_path / "run.html"
    subprocess.run([sys.executable, "-m", "ut_decoding", "report", *several, "-o", page, "-q"], check=True)
    assert page.read_bytes() == whole[0]


@pytest.mark.parametrize("events", [40, 1000])
def test_sums_of_splits_equal_the_sums_of_the_run_in_any_grouping(
    several, synthetic, tmp_path, events
):
    page = tmp_path / "run.html"
    found = ut.report(several, synthetic, page)
    expected = page.read_bytes()
    splits = ut.plan(several, synthetic, events=events, count=True, threads=1)
    assert len(splits) == (8 if events == 40 else 3)
    parts = [ut.run_sums(pickle.loads(pickle.dumps(split))) for split in splits]
    assert sum(part.events for part in parts) == 360
    left = functools.reduce(operator.add, [pickle.loads(pickle.dumps(part)) for part in parts])
    right = functools.reduce(lambda later, earlier: earlier + later, reversed(parts))
    pairs = [functools.reduce(operator.add, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    for sums in (left, right, functools.reduce(operator.add, pairs)):
        assert sums.write_page(page) == found
        assert page.read_bytes() == expected
    # In another order, all but the list of files is the same.
    shuffled = functools.reduce(operator.add, parts[::-1])
    assert shuffled.write_page(page) == found and shuffled.files != left.files


def test_the_tool_draws_shards_summed_by_separate_processes(several, synthetic, whole, tmp_path):
    tool = [sys.executable, "-m", "ut_decoding", "report", "--quiet"]
    files = [pathlib.Path(file).relative_to(pathlib.Path(several[0]).parent) for file in several]
    expected = tmp_path / "whole.html"
    folder = pathlib.Path(several[0]).parent
    subprocess.run([*tool, *files, "-o", expected], check=True, cwd=folder)
    names = [tmp_path / f"part-{i}.sums" for i in (1, 2, 3, 4)]
    jobs = [
        subprocess.Popen([*tool, *files, "--shard", f"{i}/4", "--sums", name, "--threads", "1"], cwd=folder)
        for i, name in enumerate(names, 1)
    ]
    assert [job.wait() for job in jobs] == [0] * 4
    page = tmp_path / "run.html"
    subprocess.run([*tool, "--merge", *names, "-o", page], check=True)
    assert page.read_bytes() == expected.read_bytes()
    # The files are those of Python, too.
    read = [ut.RunSums.from_bytes(name.read_bytes(), str(name)) for name in names]
    assert sum(part.events for part in read) == 360
    functools.reduce(operator.add, read).write_page(page)
    assert page.read_bytes() == expected.read_bytes()


def test_a_process_pool_draws_the_page_of_one_process(several, synthetic, whole, tmp_path):
    splits = ut.plan(several, synthetic, events=50, count=True, threads=1)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = pool.map(ut.run_sums, splits)
    page = tmp_path / "run.html"
    functools.reduce(operator.add, parts).write_page(page)
    assert page.read_bytes() == whole[0]


def test_a_split_after_uncounted_events_has_no_place(several, synthetic):
    splits = ut.plan(several, synthetic)
    assert [split.first_place for split in splits] == [0, 150, None]
    counted = ut.plan([*several, several[1]], synthetic, count=True)
    assert [(split.first_place, split.n_events) for split in counted] == [(0, 150), (150, 90), (240, 120), (360, 90)]
    with pytest.raises(ValueError, match="count=True"):
        ut.run_sums(splits[2])
    with pytest.raises(ValueError, match="one split at a time"):
        ut.run_sums(splits[:2])


def test_sums_that_do_not_belong_together_are_not_added(busy, synthetic, v4):
    sums = ut.run_sums(busy, synthetic, limit=10)
    assert repr(sums) == f"RunSums(10 events, {sums.hits} hits, 1 files)"
    others = {
        "clustering": ut.run_sums(busy, synthetic, limit=10, clustering=False),
        "event numbers": ut.run_sums(pathlib.Path(busy).read_bytes(), synthetic, limit=10),
        "detectors": ut.run_sums(b"", v4),
    }
    for why, other in others.items():
        with pytest.raises(ValueError, match=why):
            sums + other
    with pytest.raises(TypeError):
        sums + 1
    # Nor drawn beside each other: the page says detector and clustering once.
    for why in ("detectors", "clustering"):
        with pytest.raises(ValueError, match=why):
            sums.write_page("/nowhere/run.html", others[why])


def test_sums_of_the_same_part_are_not_added_twice(several, busy, synthetic, tmp_path):
    tool = [sys.executable, "-m", "ut_decoding", "report", "--quiet"]
    shards = [ut.run_sums(busy, synthetic, shard=(i, 4)) for i in (1, 2, 3, 4)]
    splits = [ut.run_sums(split) for split in ut.plan(several, synthetic, events=50, count=True)]
    for parts in (shards, splits, [ut.run_sums(busy, synthetic)]):
        whole = functools.reduce(operator.add, map(pickle.loads, map(pickle.dumps, parts)))
        for part in (*parts, whole):
            with pytest.raises(ValueError, match="both contain .* count twice"):
                whole + part
            with pytest.raises(ValueError, match="both contain .* count twice"):
                pickle.loads(pickle.dumps(part)) + whole
    # The tool knows the parts of added sums, and Python those of the tool.
    names = [tmp_path / name for name in ("1-2.sums", "3.sums", "4.sums")]
    names[0].write_bytes((shards[0] + shards[1]).to_bytes())
    names[1].write_bytes(shards[2].to_bytes())
    subprocess.run([*tool, busy, "--shard", "4/4", "--sums", names[2]], check=True)
    merge = [*tool[:-1], "--merge", "-o", tmp_path / "run.html"]
    said = [
        subprocess.run([*merge, *some], capture_output=True, text=True).stderr
        for some in (names, names[:2], [*names, names[0]])
    ]
    assert "missing" not in said[0] and "first of them 4/4" in said[1] and "count twice" in said[2], said
    with pytest.raises(ValueError, match="part 4 of 4 of busy.mdf"):
        shards[3] + ut.RunSums.from_bytes(names[2].read_bytes())


def test_sums_of_possibly_different_events_are_added(busy, synthetic, tmp_path):
    # Nobody can tell whether bytes are the same.
    data = ut.generate(3, profile="pp-low")
    assert sum((ut.run_sums(data, synthetic) for _ in range(2)), ut.run_sums(data, synthetic)).events == 9
    # Who names a file twice wants it so, in one process and in several.
    splits = ut.plan([busy, busy], synthetic, events=400)
    assert functools.reduce(operator.add, map(ut.run_sums, splits)).events == 1400
    # Files without events add nothing, whatever they are called.
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.mdf").write_bytes(gzip.compress(b""))
    assert (ut.run_sums(tmp_path / "a/run.mdf", synthetic) + ut.run_sums(tmp_path / "b/run.mdf", synthetic)).events == 0


def test_bytes_that_are_no_sums_are_refused(busy, synthetic):
    good = ut.run_sums(busy, synthetic, limit=3).to_bytes()
    assert ut.RunSums.from_bytes(good).events == 3
    for bad in (b"", b"no sums", good[:100], good[:-7], gzip.compress(good), good[:40] + bytes(100) + good[140:]):
        with pytest.raises(ut.InputError, match="day.sums"):
            ut.RunSums.from_bytes(bad, "day.sums")


def test_a_run_that_cannot_be_read_is_an_error_with_its_place_and_leaves_no_page(busy, synthetic, v4, tmp_path):
    page = tmp_path / "page" / "run.html"
    page.parent.mkdir()
    with pytest.raises(FileNotFoundError, match="no-such.mdf"):
        ut.report("no-such.mdf", synthetic, page)
    cut = tmp_path / "cut.mdf"
    cut.write_bytes(open(busy, "rb").read()[:-1])
    with pytest.raises(ut.InputError) as caught:
        ut.report(cut, synthetic, page)
    assert caught.value.event == 699 and caught.value.file == str(cut)
    with pytest.raises(ut.InputError, match="none of its UT banks"):
        ut.report(busy, v4, page)
    assert list(page.parent.iterdir()) == []
    found = ut.report(cut, synthetic, page, keep_going=True)
    assert found["events"] == 699 and found["complete"] is False
    with pytest.raises(ut.OutputError):
        ut.report(busy, synthetic, tmp_path / "absent" / "run.html")


def test_a_page_does_not_replace_its_inputs(fixtures, tmp_path):
    for name in ("events.mdf", "boards.bin", "geometry.bin"):
        shutil.copy(fixtures / "v5" / name, tmp_path)
    data, tables = tmp_path / "events.mdf", ut.Tables(tmp_path / "boards.bin", tmp_path / "geometry.bin")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    sums = ut.run_sums(data, tables)
    for path in before:
        with pytest.raises(ValueError, match="would replace"):
            ut.report(data, tables, path)
        with pytest.raises(ValueError, match="would replace"):
            ut.report(b"", tables, path, compare=(name for name in [data]))
        with pytest.raises(ValueError, match="would replace"):
            sums.write_page(path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    # Nothing was decoded before: it would have failed.
    with pytest.raises(ValueError, match="would replace"):
        ut.report([data, "no-such.mdf"], tables, data)


def test_a_page_does_not_replace_a_file_whose_name_is_not_utf8(fixtures, tmp_path):
    names = [os.fsdecode(os.fsencode(tmp_path / name) + b"\xff") for name in ("events.mdf", "boards.bin", "geometry.bin")]
    for name in names:
        shutil.copy(fixtures / "v5" / os.path.basename(name)[:-1], name)
    before = [pathlib.Path(name).read_bytes() for name in names]
    tables = pickle.loads(pickle.dumps(ut.Tables(*names[1:])))
    assert [tables.boards, tables.geometry] == names[1:]
    sums = ut.run_sums(names[0], tables)
    for one in (sums, pickle.loads(pickle.dumps(sums))):
        assert one.files == names[:1]
        for name in names:
            with pytest.raises(ValueError, match="would replace"):
                one.write_page(name)
    for name in names:
        with pytest.raises(ValueError, match="would replace"):
            ut.report(names[0], tables, name)
    assert [pathlib.Path(name).read_bytes() for name in names] == before


def test_files_are_recognised_from_another_folder(fixtures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["events.mdf", "boards.bin", "geometry.bin"]
    for name in names:
        shutil.copy(fixtures / "v5" / name, name)
    tables = ut.Tables("boards.bin", "geometry.bin")
    sums = ut.run_sums("events.mdf", tables)
    read = ut.RunSums.from_bytes(sums.to_bytes())
    assert (tables.boards, sums.files) == ("boards.bin", ["events.mdf"])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    nothing = ut.run_sums(b"", tables)
    for one in (sums, read, pickle.loads(pickle.dumps(sums)), nothing + sums):
        for name in names:
            with pytest.raises(ValueError, match="would replace"):
                one.write_page(tmp_path / name)
    for one in (tables, pickle.loads(pickle.dumps(tables))):
        for name in names[1:]:
            with pytest.raises(ValueError, match="would replace"):
                ut.report(b"", one, tmp_path / name)
            with pytest.raises(ValueError, match="would replace"):
                ut.decode_to_parquet(b"", tmp_path / name, one)
    # Of the same names here, nothing was read.
    for name in names:
        pathlib.Path(name).touch()
        assert sums.write_page(name)["events"] == 4


def test_outputs_may_have_the_names_of_inputs_that_are_not_files(fixtures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables = ut.Tables.from_bytes(*((fixtures / "v5" / name).read_bytes() for name in ("boards.bin", "geometry.bin")))
    data = (fixtures / "v5/events.mdf").read_bytes()
    sums = ut.run_sums(data, tables)
    for name in ("bytes", "boards", "geometry", "-"):
        page = pathlib.Path(name)
        page.touch()
        for one in (sums, pickle.loads(pickle.dumps(sums)), ut.RunSums.from_bytes(sums.to_bytes())):
            assert one.write_page(page.absolute())["events"] == 4
        assert ut.report(data, tables, page.absolute())["events"] == 4
        assert ut.decode_to_parquet(data, page.absolute(), pickle.loads(pickle.dumps(tables))).events == 4


def test_table_files_may_have_the_names_of_the_synthetic_tables(fixtures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(fixtures / "v5/boards.bin", "synthetic detector")
    shutil.copy(fixtures / "v5/geometry.bin", "geometry.bin")
    tables = ut.Tables("synthetic detector", "geometry.bin")
    for one in (tables, pickle.loads(pickle.dumps(tables))):
        assert not one.is_synthetic
        for name in ("synthetic detector", "geometry.bin"):
            with pytest.raises(ValueError, match="would replace"):
                ut.report(fixtures / "v5/events.mdf", one, name)


def test_damage_in_the_middle_of_a_run_does_not_depend_on_the_splits(busy, several, synthetic, tmp_path):
    cut = tmp_path / "cut.mdf"
    cut.write_bytes(open(busy, "rb").read()[:-1])
    files, page = [str(cut), *several], tmp_path / "run.html"
    found = ut.report(files, synthetic, page, keep_going=True)
    expected = page.read_bytes()
    splits = ut.plan(files, synthetic, events=300, count=True, keep_going=True)
    parts = [ut.run_sums(split) for split in splits]
    assert functools.reduce(operator.add, parts).write_page(page) == found
    assert page.read_bytes() == expected
