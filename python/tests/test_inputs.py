"""Inputs that are no files of this machine: file objects, memory and URLs."""

import gzip
import io
import mmap
import os
import pathlib
import sys
import tempfile
import threading
import zipfile

import numpy as np
import pytest

import ut_decoding as ut

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(scope="module")
def whole(busy, synthetic):
    return ut.decode(busy, synthetic)


def piped(data):
    read, write = os.pipe()

    def feed():
        with open(write, "wb") as writer:
            writer.write(data)

    threading.Thread(target=feed, daemon=True).start()
    return open(read, "rb")


def zipped(data):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("busy.mdf", data)
    return zipfile.ZipFile(archive).open("busy.mdf")


def spooled(data):
    file = tempfile.TemporaryFile()
    file.write(data)
    file.seek(0)
    return file


def mapped(path):
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def in_memory(data):
    with fsspec.open("memory://object/busy.mdf", "wb") as file:
        file.write(data)
    return fsspec.open("memory://object/busy.mdf", "rb").open()


KINDS = {
    "bytes": lambda path, data: io.BytesIO(data),
    "open": lambda path, data: open(path, "rb"),
    "unbuffered": lambda path, data: open(path, "rb", buffering=0),
    "mmap": lambda path, data: mapped(path),
    "gzip": lambda path, data: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data, 1))),
    "packed": lambda path, data: io.BytesIO(gzip.compress(data, 1)),
    "zip": lambda path, data: zipped(data),
    "temporary": lambda path, data: spooled(data),
    "pipe": lambda path, data: piped(data),
    "fsspec": lambda path, data: in_memory(data),
    "array": lambda path, data: np.frombuffer(data, np.uint8),
}


@pytest.mark.parametrize("kind", KINDS)
def test_binary_file_objects_and_memory_are_read(busy, synthetic, whole, kind):
    hits = ut.decode(KINDS[kind](busy, open(busy, "rb").read()), synthetic)
    assert hits.n_events == 700 and np.array_equal(hits.lhcb_id, whole.lhcb_id) and hits.report == whole.report
    parts = [part.n_events for part in ut.iterate([KINDS[kind](busy, open(busy, "rb").read())], synthetic, step=300)]
    assert parts == [300, 300, 100]


class Broken:
    def read(self, n=-1):
        if n:
            raise OSError("the tape tore")
        return b""


def test_an_input_that_does_not_return_bytes_is_a_type_error(busy, synthetic):
    for wrong in (open(busy), io.StringIO("text"), 3, None, 1.5, [3], [None], np.arange(3), object(), synthetic):
        for call in (ut.decode, ut.iterate, ut.run_sums):
            with pytest.raises(TypeError, match="input|read as bytes"):
                call(wrong, synthetic)
    with pytest.raises(ut.InputError, match="the tape tore"):
        ut.decode(Broken(), synthetic)
    cut = io.BytesIO(open(busy, "rb").read()[:-100])
    with pytest.raises(ut.InputError, match="bytes: .*truncated") as caught:
        ut.decode(cut, synthetic)
    assert (caught.value.file, caught.value.event) == ("bytes", 699)
    with pytest.raises(ValueError, match="can be read only once"):
        ut.decode(io.BytesIO(), synthetic, shard=(1, 2))


def test_a_file_object_has_the_name_of_its_file_which_is_not_replaced(busy, synthetic, tmp_path):
    path = tmp_path / "busy.mdf"
    path.write_bytes(open(busy, "rb").read())
    with open(path, "rb") as file:
        assert ut.decode(file, synthetic).files == [str(path)]
        with pytest.raises(ValueError, match="would replace"):
            ut.decode_to_parquet(file, path, synthetic)


def test_inputs_without_a_name_are_numbered(synthetic):
    data = [ut.generate(2, profile="pp-low", seed=seed) for seed in (1, 2, 3)]
    hits = ut.decode([data[0], data[1], io.BytesIO(data[2])], synthetic)
    assert hits.files == ["bytes", "bytes-2", "bytes-3"]
    frame = hits.to_polars().group_by("file", "event").len()
    assert len(frame) == 6
    sums = ut.run_sums(data, synthetic)
    assert ut.RunSums.from_bytes(sums.to_bytes()).files == ["bytes", "bytes-2", "bytes-3"]


def test_archives_and_folders_are_read_by_url(busy, synthetic, tmp_path):
    import tarfile
    import zipfile

    data = pathlib.Path(busy).read_bytes()
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.writestr("a.mdf", data)
        archive.writestr("b.mdf", data)
    with tarfile.open(tmp_path / "run.tar", "w") as archive:
        archive.add(busy, "a.mdf")
    once = ut.decode(busy, synthetic)
    for url in (f"zip://a.mdf::{tmp_path}/run.zip", f"tar://a.mdf::{tmp_path}/run.tar"):
        assert ut.decode(url, synthetic) == once
    both = ut.decode(f"zip://*.mdf::{tmp_path}/run.zip", synthetic)
    assert both == ut.decode([busy, busy], synthetic)
    assert both.files == [f"zip://{name}.mdf::{tmp_path}/run.zip" for name in "ab"]
    folder = fsspec.filesystem("memory")
    folder.pipe({"/day/1.mdf": data, "/day/.hidden": b"", "/day/more/2.mdf": b"", "/empty/more/2.mdf": b""})
    assert ut.decode("memory://day/", synthetic) == once
    with pytest.raises(ut.InputError, match="there is no file in this folder"):
        ut.decode("memory://empty/", synthetic)


def test_urls_are_opened_by_fsspec(busy, synthetic, whole, monkeypatch):
    for name in ("a", "b"):
        with fsspec.open(f"memory://run/{name}.mdf", "wb") as file:
            file.write(open(busy, "rb").read())
    one = ut.decode("memory://run/a.mdf", synthetic)
    assert np.array_equal(one.lhcb_id, whole.lhcb_id) and one.files == ["memory://run/a.mdf"]
    assert ut.decode(f"file://{busy}", synthetic).n_events == 700
    splits = ut.plan("memory://run/*.mdf", synthetic, count=True)
    assert [(split.file[-5:], split.n_events, split.first_place) for split in splits] == [("a.mdf", 700, 0), ("b.mdf", 700, 700)]
    assert np.array_equal(ut.decode(splits[1]).lhcb_id, whole.lhcb_id)
    with pytest.raises(FileNotFoundError, match="memory://run/c.mdf"):
        ut.decode("memory://run/c.mdf", synthetic)
    with pytest.raises(ut.InputError, match="no file fits"):
        ut.decode("memory://none/*.mdf", synthetic)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ut.InputError, match="needs fsspec, which is not installed"):
        ut.decode("memory://run/a.mdf", synthetic)
