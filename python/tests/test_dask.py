"""A cluster of four processes on this machine: what dies or fails is done again, and the bits are those of one process."""

import concurrent.futures
import functools
import gzip
import os
import signal
import threading
import time

import pytest

import ut_decoding as ut

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    dask.config.set({"distributed.worker.daemon": False, "distributed.scheduler.allowed-failures": 10})
    cluster = distributed.LocalCluster(
        n_workers=4, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def fails_twice(split, folder):
    """Decodes a split; the first of the file fails twice before."""
    if split.first_event == 0:
        attempt = len(os.listdir(folder))
        open(os.path.join(folder, str(attempt)), "x").close()
        if attempt < 2:
            raise OSError(f"attempt {attempt} fails on purpose")
    return ut.decode(split)


def slowly(split):
    """Decodes a split after a while, the last one after a longer one."""
    time.sleep(2 if split.first_event >= 600 else 0.3)
    return ut.decode(split)


def test_a_bag_has_the_bits_of_one_process(client, busy, synthetic):
    from ut_decoding.dask import to_bag

    parts = to_bag(ut.plan(busy, synthetic, events=50, threads=1)).compute()
    assert ut.Hits.concatenate(parts) == ut.decode(busy, synthetic)


def test_a_split_that_fails_twice_is_tried_again(client, busy, synthetic, tmp_path):
    splits = ut.plan(busy, synthetic, events=200)
    parts = client.gather(client.map(fails_twice, splits, folder=str(tmp_path), retries=2, pure=False))
    assert len(os.listdir(tmp_path)) == 3
    assert ut.Hits.concatenate(parts) == ut.decode(busy, synthetic)


def test_a_killed_worker_and_a_slow_split_change_nothing(client, busy, synthetic):
    splits = ut.plan(busy, synthetic, events=50, threads=1)
    jobs = client.map(slowly, splits, pure=False)
    time.sleep(0.5)
    workers = client.scheduler_info(n_workers=-1)["workers"]
    victim = client.run(os.getpid, workers=[next(iter(workers))])
    os.kill(next(iter(victim.values())), signal.SIGKILL)
    assert ut.Hits.concatenate(client.gather(jobs)) == ut.decode(busy, synthetic)


def test_files_are_complete_or_absent_and_reports_add_up(client, busy, synthetic, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    from ut_decoding.dask import to_parquet

    folder = tmp_path / "hits"
    whole = ut.decode(busy, synthetic)
    summary = to_parquet(busy, folder, synthetic, client=client, events=150, threads=1)
    assert summary == whole.summary
    names = sorted(os.listdir(folder))
    assert names == [f"part-{i:05}.parquet" for i in range(5)]
    rows = [row for name in names for row in parquet.read_table(folder / name)["lhcb_id"].to_pylist()]
    assert rows == whole.lhcb_id.tolist()
    cut = tmp_path / "cut.mdf"
    cut.write_bytes(open(busy, "rb").read()[:-1])
    with pytest.raises(ut.InputError) as caught:
        to_parquet(cut, tmp_path / "some", synthetic, client=client, events=150, retries=1)
    assert caught.value.event == 699
    assert "part-00004.parquet" not in os.listdir(tmp_path / "some")


@pytest.mark.parametrize("fails", [2, 3])
def test_without_a_cluster_a_split_is_retried_as_often_as_requested(busy, synthetic, tmp_path, monkeypatch, fails):
    import ut_decoding.dask

    # Threads instead of processes, in which nothing could be made to fail.
    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", lambda **_: concurrent.futures.ThreadPoolExecutor(1))
    tries = {}

    def decode_to_parquet(split, path, **options):
        tries[path] = tries.get(path, 0) + 1
        if split.first_event > 0 and tries[path] <= fails:
            raise OSError("on purpose")
        return ut.decode_to_parquet(split, path, **options)

    monkeypatch.setattr(ut_decoding.dask, "decode_to_parquet", decode_to_parquet)
    convert = functools.partial(ut_decoding.dask.to_parquet, busy, tmp_path / "hits", synthetic, events=400, retries=2)
    if fails == 2:
        assert convert().events == 700
    else:
        with pytest.raises(OSError, match="on purpose"):
            convert()
    assert list(tries.values()) == [1, 3]


def test_dask_works_with_local_processes(busy, synthetic, tmp_path):
    from ut_decoding.dask import to_parquet

    summary = to_parquet(busy, tmp_path / "hits", synthetic, events=400, threads=1)
    assert summary == ut.decode(busy, synthetic).summary
    assert sorted(os.listdir(tmp_path / "hits")) == ["part-00000.parquet", "part-00001.parquet"]


def test_collections_have_the_events_of_all_splits(client, busy, synthetic, monkeypatch):
    import ut_decoding.dask
    from ut_decoding.dask import from_files

    whole = ut.decode(busy, synthetic)
    bag = from_files(busy, synthetic, events=200, threads=1)
    assert bag.npartitions == 4 and bag.map(lambda hits: hits.n_hits).sum().compute() == whole.n_hits
    frame = from_files(busy, synthetic, kind="dataframe", events=200, threads=1)
    assert frame.compute().lhcb_id.tolist() == whole.lhcb_id.tolist()
    assert float(frame.x_at_y_eq0.max().compute()) == whole.x_at_y_eq0.max()
    # Only what is used is decoded.
    asked = []
    monkeypatch.setattr(ut_decoding.dask, "decode", lambda split, **options: asked.append(options) or ut.decode(split, **options))
    frame[["event", "weight"]].sum().compute(scheduler="synchronous")
    assert asked == [{"columns": ["weight"]}] * 4
    with pytest.raises(ValueError, match="kind"):
        from_files(busy, synthetic, kind="list")


def test_dask_awkward_has_the_events_of_all_splits(busy, synthetic):
    pytest.importorskip("dask_awkward")
    from ut_decoding.dask import from_files

    array = from_files(busy, synthetic, kind="awkward", events=200, threads=1)
    try:
        found = array.x_at_y_eq0.compute(scheduler="synchronous")
    except ValueError as error:
        pytest.xfail(f"dask-awkward does not work with this dask: {error}")
    assert found.tolist() == ut.decode(busy, synthetic).to_awkward().x_at_y_eq0.tolist()


def test_a_cluster_draws_the_page_of_one_process_even_if_a_worker_dies(client, busy, synthetic, tmp_path):
    from ut_decoding.dask import report

    packed = tmp_path / "packed.mdf.gz"
    packed.write_bytes(gzip.compress(open(busy, "rb").read(), 1))
    files, page = [str(packed), busy], tmp_path / "run.html"
    found = ut.report(files, synthetic, page, compare=busy)
    expected = page.read_bytes()
    before = set(client.run(os.getpid).values())
    killer = threading.Timer(0.1, os.kill, (next(iter(before)), signal.SIGKILL))
    killer.start()
    assert report(files, synthetic, page, client, compare=busy, events=10, threads=1) == found
    killer.join()
    assert page.read_bytes() == expected
    client.wait_for_workers(4)
    assert set(client.run(os.getpid).values()) != before
    with pytest.raises(ValueError, match="would replace"):
        report(files, synthetic, busy, client)
    assert report([], synthetic, page, client)["events"] == 0
