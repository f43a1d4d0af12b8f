"""A job cut into splits."""

import gzip
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys

import pytest

import ut_decoding as ut


@pytest.fixture(scope="module")
def packets(busy, tmp_path_factory):
    """The events three times, in a MEP packet each, with and without zeros up to the end of a page between them."""
    path = tmp_path_factory.mktemp("packets") / "busy.mep"
    subprocess.run([sys.executable, "-m", "ut_decoding", "convert", busy, "-o", path, "-q"], check=True)
    packet = path.read_bytes()
    path.write_bytes(packet + packet + bytes(-2 * len(packet) % 4096) + packet)
    return str(path)


@pytest.mark.parametrize("events", [1, 100, 300, 700, 10_000])
def test_hits_do_not_depend_on_the_splits(busy, synthetic, events):
    whole = ut.decode(busy, synthetic)
    splits = ut.plan(busy, synthetic, events=events)
    assert [split.n_events for split in splits] == [events] * (700 // events) + [700 % events] * (700 % events > 0)
    assert splits[0].start == 0
    assert [split.stop for split in splits[:-1]] == [split.start for split in splits[1:]]
    if events == 1:
        splits = splits[:20] + splits[-20:]
        whole = ut.Hits.concatenate([whole.of_events(0, 20), whole.of_events(680, 700)])
    parts = [ut.decode(pickle.loads(pickle.dumps(split))) for split in splits]
    assert ut.Hits.concatenate(parts) == whole
    assert sum((part.summary for part in parts), ut.Summary()) == whole.summary
    together = ut.decode(splits)
    assert together.n_events == whole.n_events and together.lhcb_id.tolist() == whole.lhcb_id.tolist()


def test_packets_are_not_cut(packets):
    # Packets do not bear the mark of generated events.
    synthetic = ut.Tables.synthetic(trust=True)
    whole = ut.decode(packets, synthetic)
    splits = ut.plan(packets, synthetic, events=10)
    assert [(split.first_event, split.n_events) for split in splits] == [(0, 700), (700, 700), (1400, 700)]
    assert whole.n_events == 2100
    assert len(ut.plan(packets, synthetic, events=800)) == 2
    assert ut.Hits.concatenate([ut.decode(split) for split in splits]) == whole


def test_what_cannot_be_cut_is_one_split(busy, synthetic, tmp_path):
    packed = tmp_path / "busy.mdf.gz"
    packed.write_bytes(gzip.compress(open(busy, "rb").read(), 1))
    (split,) = ut.plan(packed, synthetic, events=10)
    assert split.n_events is None and split.first_event == 0
    assert ut.decode(split).n_events == 700
    (tmp_path / "empty.mdf").touch()
    (split,) = ut.plan(tmp_path / "empty.mdf", synthetic)
    assert split.n_events == 0 and ut.decode(split).n_events == 0


def test_damage_is_found_by_who_decodes_the_last_split(busy, synthetic, tmp_path):
    data = bytearray(open(busy, "rb").read())
    at = ut.plan(busy, events=250)[1].start
    data[at : at + 4] = b"\0\0\0\1"
    damaged = tmp_path / "damaged.mdf"
    damaged.write_bytes(data)
    splits = ut.plan(damaged, synthetic, events=100)
    assert [split.n_events for split in splits] == [100, 100, None]
    with pytest.raises(ut.InputError) as caught:
        ut.decode(splits[2])
    assert (caught.value.event, caught.value.byte) == (250, at)
    kept = ut.decode(splits[2], keep_going=True)
    assert kept.n_events == 50 and [failure.byte for failure in kept.failures] == [at]


def test_what_a_killed_worker_left_goes_with_the_next_file(busy, synthetic, tmp_path, monkeypatch):
    left = tmp_path / ".ut-decode-dead.part"
    for folder, name in ((tmp_path, tmp_path / "hits.parquet"), (tmp_path, "more.parquet")):
        left.write_bytes(b"half")
        monkeypatch.chdir(folder)
        ut.decode_to_parquet(busy, name, synthetic, limit=3)
        assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hits.parquet", "more.parquet"]


def test_options_go_with_splits(busy, synthetic):
    splits = ut.plan(busy, synthetic, events=400, columns=["lhcb_id"], clustering=False)
    hits = ut.decode(splits[1])
    assert list(hits.columns) == ["lhcb_id"]
    assert hits == ut.decode(busy, synthetic, columns=["lhcb_id"], clustering=False).of_events(400, 700)
    assert splits[0].options["columns"] == ("lhcb_id",) and hash(splits[0]) != hash(splits[1])
    for option in ({"limit": 3}, {"skip": 1}, {"shard": (1, 2)}):
        with pytest.raises(TypeError, match="does not know its place"):
            ut.plan(busy, synthetic, **option)
    with pytest.raises(ValueError, match="events"):
        ut.plan(busy, synthetic, events=0)
    with pytest.raises(ValueError, match="different options"):
        ut.decode([splits[0], *ut.plan(busy, synthetic)])


def test_files_of_splits_hold_the_rows_of_the_whole(busy, synthetic, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    whole = ut.decode(busy, synthetic)
    summaries, tables = [], []
    for i, split in enumerate(ut.plan(busy, synthetic, events=300)):
        path = tmp_path / f"{i}.parquet"
        summaries.append(ut.decode_to_parquet(split, path))
        tables.append(parquet.read_table(path))
    assert sum(summaries, ut.Summary()) == whole.summary
    names = [name for name in whole.to_arrow().column_names if name != "file"]
    import pyarrow

    assert pyarrow.concat_tables(tables).select(names).to_pylist() == whole.to_arrow().select(names).to_pylist()
    metadata = parquet.read_metadata(path).metadata
    assert metadata[b"ut-decode.complete"] == b"true" and metadata[b"ut-decode.boards"] == b"embedded synthetic detector"


def test_options_of_splits_are_checked_by_plan(busy, synthetic):
    with pytest.raises(ValueError, match="threads"):
        ut.plan(busy, synthetic, threads=-1)
    with pytest.raises(TypeError, match="no option 'theads'"):
        ut.plan(busy, synthetic, theads=1)
    first, second = ut.plan(busy, synthetic, events=400, columns=(name for name in ["lhcb_id", "weight"]))
    assert [*ut.decode(first).columns] == [*ut.decode(second).columns] == ["lhcb_id", "weight"]


def test_plan_takes_only_files(busy, synthetic, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for once in (pipe, "-"):
        with pytest.raises(ValueError, match=f"{once} can be read only once"):
            ut.plan(once, synthetic)
    for wrong in (b"data", ut.plan(busy, synthetic), [bytearray(b"data")]):
        with pytest.raises(TypeError, match="plan takes names of files"):
            ut.plan(wrong, synthetic)
    assert ut.plan((name for name in [busy, busy]), synthetic)[1].first_place == 700


def test_splits_with_different_tables_are_refused(busy, synthetic):
    others = ut.Tables.synthetic(grouping="unique-x")
    splits = [*ut.plan(busy, synthetic), *ut.plan(busy, others)]
    with pytest.raises(ValueError, match="different tables"):
        ut.decode(splits)
    assert ut.decode(splits, synthetic).n_groups == synthetic.n_groups
    # Tables that came another way are the same.
    assert ut.decode([splits[0], pickle.loads(pickle.dumps(splits[0]))]).n_events == 1400


def test_an_output_does_not_replace_its_inputs(busy, fixtures, tmp_path):
    for name in ("events.mdf", "boards.bin", "geometry.bin"):
        shutil.copy(fixtures / "v5" / name, tmp_path)
    data, tables = tmp_path / "events.mdf", ut.Tables(tmp_path / "boards.bin", tmp_path / "geometry.bin")
    (tmp_path / "link.parquet").symlink_to(data)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for inputs in (data, ut.plan(data, tables)):
        for path in (*before, str(data)):
            with pytest.raises(ValueError, match="would replace"):
                ut.decode_to_parquet(inputs, path, tables)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    # Another file is replaced, and bytes have no file, whatever they are called.
    for name, inputs in (("hits.parquet", data), ("bytes", data.read_bytes())):
        for _ in range(2):
            assert ut.decode_to_parquet(inputs, tmp_path / name, tables).events == 4


def test_a_file_has_the_metadata_of_the_tool(busy, fixtures, synthetic, v5, measured_event, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    python, tool = tmp_path / "python.parquet", tmp_path / "tool.parquet"
    command = [sys.executable, "-m", "ut_decoding", "decode", "-q", "-o", tool]
    measured = tmp_path / "measured.mdf"
    measured.write_bytes(measured_event)
    files = ["--boards", v5.boards, "--geometry", v5.geometry]
    trusted = (measured, ut.Tables.synthetic(trust=True), ["--synthetic-detector"])
    for file, tables, args in ((busy, synthetic, []), (fixtures / "v5/events.mdf", v5, files), trusted):
        environment = {**os.environ, "UT_DECODE_CONFIG": ""}
        subprocess.run([*command, file, "--no-checksum", *args], check=True, env=environment, stderr=subprocess.DEVNULL)
        ut.decode_to_parquet(file, python, tables, checksum=False)
        assert parquet.read_metadata(python).metadata == parquet.read_metadata(tool).metadata
    assert b"synthetic" in parquet.read_metadata(python).metadata[b"ut-decode.warning"]


def test_a_split_that_fails_leaves_no_file(busy, synthetic, tmp_path):
    cut = tmp_path / "cut.mdf"
    cut.write_bytes(open(busy, "rb").read()[:-1])
    path = tmp_path / "hits.parquet"
    with pytest.raises(ut.InputError):
        ut.decode_to_parquet(cut, path, synthetic)
    assert [file.name for file in tmp_path.iterdir()] == ["cut.mdf"]
    summary = ut.decode_to_parquet(cut, path, synthetic, keep_going=True)
    assert summary.events == 699 and len(summary.failures) == 1
    with pytest.raises(ut.OutputError) as caught:
        ut.decode_to_parquet(busy, tmp_path / "absent/hits.parquet", synthetic)
    assert caught.value.file.endswith("absent/hits.parquet")


def test_splits_are_decoded_by_a_process_pool(busy, synthetic):
    splits = ut.plan(busy, synthetic, events=200)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = pool.map(ut.decode, splits)
    assert ut.Hits.concatenate(parts) == ut.decode(busy, synthetic)
