"""Hits in awkward, Arrow, polars and duckdb: the same numbers, without a copy of the columns."""

import dataclasses

import numpy as np
import pytest

import ut_decoding as ut

ak = pytest.importorskip("awkward")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def hits(fixtures, v5):
    return ut.decode([fixtures / "v5/events.mdf", fixtures / "v5/troubles.mdf"], v5)


def address(array) -> int:
    return np.asarray(array).ctypes.data


def test_awkward_has_events_groups_and_hits_without_a_copy(hits):
    array = hits.to_awkward()
    assert str(array.type).startswith(
        f"{hits.n_events} * {hits.n_groups} * var * {{lhcb_id: uint32, x_at_y_eq0: float32"
    )
    assert len(array) == hits.n_events
    assert ak.sum(ak.num(array, axis=2), axis=1).tolist() == hits.hits_per_event.tolist()
    first, end = hits.offsets[30], hits.offsets[31]
    assert array[0, 30].x_at_y_eq0.tolist() == hits.x_at_y_eq0[first:end].tolist()
    records = array.layout.content.content
    for name, column in hits.columns.items():
        assert address(records.content(name).data) == address(column), name


def test_awkward_takes_views_and_nothing(hits, v5):
    assert hits.of_events(2, 4).to_awkward().tolist() == hits.to_awkward()[2:4].tolist()
    assert ut.decode(b"", v5).to_awkward().tolist() == []


def test_arrow_has_the_columns_of_the_files_without_a_copy(hits, fixtures, v5, tmp_path):
    table = hits.to_arrow()
    names = ["event", "run", "event_number", "group", *ut.Hits.COLUMNS, "file"]
    assert table.column_names == names
    for name, column in hits.columns.items():
        assert table[name].chunk(0).buffers()[1].address == address(column), name
    from pyarrow import parquet

    path = tmp_path / "hits.parquet"
    ut.decode_to_parquet([fixtures / "v5/events.mdf", fixtures / "v5/troubles.mdf"], path, v5)
    file = parquet.read_table(path)
    assert file.column_names == names
    for name in names:
        mine, theirs = table[name].to_pylist(), file[name].to_pylist()
        assert mine == theirs, name
    assert table.schema.field("run").nullable and not table.schema.field("event").nullable


def test_columns_of_the_detector_are_those_of_the_file(fixtures, v5, tmp_path):
    from pyarrow import parquet

    file, path, names = fixtures / "v5/events.mdf", tmp_path / "hits.parquet", ["detector", "sector_id"]
    table = ut.decode(file, v5, columns=names).to_arrow()
    ut.decode_to_parquet(file, path, v5, columns=names)
    rows = parquet.read_table(path)
    assert rows.num_columns == 12 + len(ut.Hits.DETECTOR_COLUMNS)
    for name in ut.Hits.DETECTOR_COLUMNS:
        assert table[name].to_pylist() == rows[name].to_pylist(), name
    assert pa.types.is_boolean(table["flipped"].type)


def test_what_arrow_holds_outlives_the_hits(fixtures, v5):
    table = ut.decode(fixtures / "v5/events.mdf", v5).to_arrow()
    again = ut.decode(fixtures / "v5/events.mdf", v5)
    assert np.array_equal(table["lhcb_id"].to_numpy(), again.lhcb_id)


def test_polars_and_duckdb_read_hits(hits):
    frame = pl.DataFrame(hits)
    assert frame.shape == (len(hits), 12)
    assert np.array_equal(frame["x_at_y_eq0"].to_numpy(), hits.x_at_y_eq0)
    assert pl.from_arrow(hits).struct.unnest().equals(frame)
    assert pl.from_arrow(hits.to_arrow())["lhcb_id"].equals(frame["lhcb_id"])
    rows = duckdb.sql("select count(*), sum(lhcb_id), count(distinct file) from hits").fetchall()
    assert rows == [(len(hits), int(hits.lhcb_id.sum(dtype=np.uint64)), 2)]


def test_nothing_is_a_table_of_no_rows(v5):
    nothing = ut.decode(b"", v5)
    assert pl.DataFrame(nothing).shape == (0, 12)
    assert nothing.to_arrow().num_rows == 0


def test_runs_that_nobody_knows_are_null(fixtures, v5):
    hits = ut.decode(fixtures / "v5/events.mdf", v5)
    hits.events = dataclasses.replace(hits.events, run=np.ma.masked_all_like(hits.events.run))
    assert hits.to_arrow()["run"].null_count == len(hits)


def test_troubles_are_a_frame(hits):
    frame = pl.DataFrame(hits.troubles)
    assert frame.columns == ["file", "event", "trouble", "count"]
    assert frame["count"].sum() == sum(hits.report[name] for name in ut.Hits.TROUBLES)
