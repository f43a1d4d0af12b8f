"""Hits in awkward, Arrow, polars and duckdb: the same numbers, without a copy of the columns."""

import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest

import ut_decoding as ut

from conftest import without

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


def test_awkward_takes_views_and_empty_hits(hits, v5):
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


@pytest.mark.parametrize("version", ["v4", "v5"])
def test_only_requested_columns_are_in_memory_and_in_files(fixtures, v4, v5, tmp_path, version):
    from pyarrow import parquet

    file, path, names = fixtures / version / "events.mdf", tmp_path / "hits.parquet", ["lhcb_id", "detector", "sector_id"]
    tables = v4 if version == "v4" else v5
    hits = ut.decode(file, tables, columns=names)
    table = hits.to_arrow()
    ut.decode_to_parquet(file, path, tables, columns=names)
    rows = parquet.read_table(path)
    some = {"event", "run", "event_number", "group", "file"}
    assert set(rows.column_names) == set(table.column_names) == {"lhcb_id", *ut.Hits.DETECTOR_COLUMNS, *some}
    for name in table.column_names:
        assert table[name].to_pylist() == rows[name].to_pylist(), name
    assert pa.types.is_boolean(table["flipped"].type)
    # v4 banks do not tell the clusters, as the files say, too.
    unknown = {"charge", "n_strips", "first_strip"} if version == "v4" else set()
    assert {name for name in names[:1] + [*ut.Hits.DETECTOR_COLUMNS] if table[name].null_count} == unknown
    for name in unknown:
        for access in (lambda: getattr(hits, name), lambda: hits[name]):
            with pytest.raises((AttributeError, KeyError), match="v4 banks do not tell what a hit was made of"):
                access()
        assert not hasattr(hits, name) and name not in hits.columns and name in hits.fields
        assert hits.to_awkward(groups=False)[0][name].tolist() == [None] * hits[0].n_hits
        assert hits.to_pandas()[name].isna().all() and not hasattr(ut.Hits.concatenate([hits, hits]), name)
    ut.decode_to_parquet(file, path, tables, columns=["x_at_y_eq0"])
    assert parquet.read_table(path).column_names == ["event", "run", "event_number", "group", "x_at_y_eq0", "file"]


def test_arrow_tables_outlive_the_hits(fixtures, v5):
    table = ut.decode(fixtures / "v5/events.mdf", v5).to_arrow()
    again = ut.decode(fixtures / "v5/events.mdf", v5)
    assert np.array_equal(table["lhcb_id"].to_numpy(), again.lhcb_id)


def test_polars_and_duckdb_read_hits(hits):
    frame = pl.DataFrame(hits)
    assert frame.shape == (hits.n_hits, 12)
    assert np.array_equal(frame["x_at_y_eq0"].to_numpy(), hits.x_at_y_eq0)
    assert pl.from_arrow(hits).struct.unnest().equals(frame)
    assert pl.from_arrow(hits.to_arrow())["lhcb_id"].equals(frame["lhcb_id"])
    rows = duckdb.sql("select count(*), sum(lhcb_id), count(distinct file) from hits").fetchall()
    assert rows == [(hits.n_hits, int(hits.lhcb_id.sum(dtype=np.uint64)), 2)]


def test_no_hits_give_a_table_without_rows(v5):
    nothing = ut.decode(b"", v5)
    assert pl.DataFrame(nothing).shape == (0, 12)
    assert nothing.to_arrow().num_rows == nothing.events.to_arrow().num_rows == 0
    assert pl.DataFrame(nothing.events).is_empty() and nothing.events.to_pandas().empty


def test_unknown_runs_are_null(fixtures, v5):
    hits = ut.decode(fixtures / "v5/events.mdf", v5)
    assert without(hits, "run").to_arrow()["run"].null_count == hits.n_hits


def test_pandas_has_the_columns_of_arrow_and_unknown_runs(hits):
    pd = pytest.importorskip("pandas")
    table, frame = hits.to_arrow(), hits.to_pandas()
    assert list(frame.columns) == ["event_index", *table.column_names] and frame["run"].dtype == "UInt32"
    for name in table.column_names:
        assert frame[name].tolist() == table[name].to_pylist(), name
    hits = without(hits, "run")
    assert hits.to_pandas()["run"].isna().all()
    assert hits.to_polars().drop("event_index").equals(pl.DataFrame(hits)) and pd.DataFrame(hits.troubles).columns[0] == "file"


@pytest.mark.parametrize("format", ["rntuple", "ttree"])
def test_root_has_hits_and_events(hits, fixtures, v4, v5, tmp_path, format):
    uproot = pytest.importorskip("uproot")
    inputs, path = [fixtures / "v5/events.mdf", fixtures / "v5/troubles.mdf"], tmp_path / "hits.root"
    summary = ut.decode_to_root(inputs, path, v5, format=format, step=3, jagged=False)
    assert summary == hits.summary and [one.name for one in tmp_path.iterdir()] == ["hits.root"]
    with uproot.open(path) as file:
        rows, events = file["hits"].arrays(), file["events"].arrays()
        assert rows.fields == ["event_index", "group", *ut.Hits.COLUMNS] and str(file["files"]).split("\n") == hits.files
        assert file["hits"].classname == ("TTree" if format == "ttree" else "ROOT::RNTuple")
    for name in rows.fields:
        assert rows[name].to_numpy().tobytes() == hits[name].tobytes(), name
    assert events.event.tolist() == hits.events.event.tolist() and events.n_hits.tolist() == hits.hits_per_event.tolist()
    assert events.event_index.tolist() == list(range(len(hits))) and events.first_hit[1] == events.n_hits[0]
    numbers = hits.events.event_number
    assert events.event_number[events.has_event_number].tolist() == numbers[~np.isnan(numbers)].tolist()
    again = tmp_path / "again.root"
    hits.to_root(again, format=format, jagged=False)
    with uproot.open(again) as file:
        assert file["hits"].arrays().tolist() == rows.tolist()
    ut.decode_to_root(fixtures / "v4/events.mdf", again, v4, columns=["charge"], format=format, jagged=False)
    with uproot.open(again) as file:
        assert file["hits"].keys() == ["event_index", "group"]
    with pytest.raises(ut.InputError):
        ut.decode_to_root("no-such.mdf", tmp_path / "none.root", v5, format=format)
    with pytest.raises(ValueError, match="would replace"):
        ut.decode_to_root(again, again, v5)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["again.root", "hits.root"]


@pytest.mark.parametrize("format", ["rntuple", "ttree"])
def test_root_has_the_hits_of_an_event_in_one_entry(hits, tmp_path, format):
    uproot = pytest.importorskip("uproot")
    path = tmp_path / "hits.root"
    hits.to_root(path, format)
    with uproot.open(path) as file:
        events = file["events"].arrays()
        if format == "ttree":
            assert file["events"]["x_at_y_eq0"].count_branch.name == "n_hits"
    assert events.n_hits.tolist() == hits.hits_per_event.tolist()
    array = hits.to_awkward(groups=False)
    for name in hits.fields:
        assert events[name].tolist() == array[name].tolist(), name
    assert ak.flatten(events.group).tolist() == hits.group.tolist()
    assert events.strips.tolist() == hits.events.counts[:, ut.Hits.COUNTS.index("strips")].tolist()


def test_hits_of_v4_and_v5_together_have_nan_and_null(fixtures, v4, v5):
    old = ut.decode(fixtures / "v4/events.mdf", v4, columns=["lhcb_id", "charge"])
    new = ut.decode(fixtures / "v5/events.mdf", v5, columns=["lhcb_id", "charge"])
    both = ut.Hits.concatenate([old, new])
    assert np.isnan(both.charge[: old.n_hits]).all() and both.charge[old.n_hits :].tolist() == new.charge.tolist()
    assert both.to_arrow()["charge"].to_pylist() == [None] * old.n_hits + new.charge.tolist()
    assert ak.flatten(both.to_awkward().charge, axis=None).tolist() == new.charge.tolist()
    assert pa.concat_tables([old.to_arrow(), new.to_arrow()])["charge"].null_count == old.n_hits
    counts = ut.charge(both)
    assert counts.sum(flow=True) == new.n_hits


def test_hits_and_events_join_by_a_signed_integer(hits):
    pytest.importorskip("pandas")
    rows, events = hits.to_pandas(), hits.events.to_pandas()
    joined = rows.merge(events[["event_index", "hits"]], on="event_index")
    assert joined["event_index"].dtype == np.int64 and len(joined) == hits.n_hits
    assert joined.groupby("event_index").size().tolist() == hits.hits_per_event[hits.hits_per_event > 0].tolist()
    frame = hits.to_polars().join(hits.events.to_polars(), on="event_index")
    assert frame["event_index"].dtype == pl.Int64 and len(frame) == hits.n_hits


def test_parquet_files_read_with_a_dictionary_join_arrow_tables(hits, fixtures, v5, tmp_path):
    from pyarrow import parquet

    inputs = [fixtures / "v5/events.mdf", fixtures / "v5/troubles.mdf"]
    ut.decode_to_parquet(inputs, tmp_path / "hits.parquet", v5)
    file = parquet.read_table(tmp_path / "hits.parquet", read_dictionary=["file"])
    both = pa.concat_tables([file.replace_schema_metadata(), hits.to_arrow()])
    assert both.num_rows == 2 * hits.n_hits and both["file"].type == hits.to_arrow()["file"].type
    ut.decode_to_parquet(inputs, tmp_path / "all.parquet", v5, columns="all")
    schema = parquet.read_schema(tmp_path / "all.parquet").remove_metadata()
    file = schema.get_field_index("file")
    arrow = ut.decode(inputs, v5, columns="all").to_arrow().schema
    assert schema.set(file, arrow.field("file")).equals(arrow)


def test_results_go_to_urls_and_file_objects(hits, fixtures, v5, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    from pyarrow import parquet

    inputs = [fixtures / "v5/events.mdf", fixtures / "v5/troubles.mdf"]
    local = tmp_path / "hits.parquet"
    ut.decode_to_parquet(inputs, local, v5)
    ut.decode_to_parquet(inputs, "memory://hits/a.parquet", v5)
    with fsspec.open("memory://hits/a.parquet") as file:
        assert file.read() == local.read_bytes()
    with open(tmp_path / "object.parquet", "wb") as file:
        ut.decode_to_parquet(inputs, file, v5)
    assert (tmp_path / "object.parquet").read_bytes() == local.read_bytes()
    hits.to_parquet(tmp_path / "again.parquet")
    assert parquet.read_table(tmp_path / "again.parquet").to_pylist() == parquet.read_table(local).to_pylist()
    hits.to_root("memory://hits/a.root")
    assert fsspec.filesystem("memory").size("/hits/a.root") > 0
    for target, error, said in (
        (tmp_path / "no" / "a.parquet", ut.OutputError, "there is no folder"),
        ("nothing://a.parquet", ut.OutputError, "cannot be written"),
        (3, TypeError, "a path, a URL or a binary file object"),
    ):
        with pytest.raises(error, match=said):
            hits.to_parquet(target)
    with pytest.raises(ut.InputError):
        ut.decode_to_parquet("no-such.mdf", "memory://hits/none.parquet", v5)
    assert not fsspec.filesystem("memory").exists("/hits/none.parquet")


def test_troubles_are_a_frame(hits):
    frame = pl.DataFrame(hits.troubles)
    assert frame.columns == ["file", "event", "trouble", "count"]
    assert frame["count"].sum() == sum(hits.report[name] for name in ut.Hits.TROUBLES)


def odin(number: int, time: int, crossing: int, version: int = 7) -> bytes:
    """An MDF event with an ODIN bank."""
    words = (8, 0x10, time & 0xFFFFFFFF, time >> 32, 0xAB, 0, 0x63 | crossing << 12 | 4 << 23, 77, number, 0)
    bank = struct.pack("<HHBBH10I", 0xCBCB, 48, 16, version, 0, *words)
    size = 48 + len(bank)
    return struct.pack("<5I7I", size, size, size, 0, 0x0137 << 8, 0, 0, 0, 0, 5, 6, 7) + bank


def test_the_table_of_events_has_odins_facts(tmp_path):
    noon = 1_722_513_600_000_000
    path = tmp_path / "odin.mdf"
    path.write_bytes(odin(1, noon, 3) + odin(2, 0, 1) + odin(3, noon, 0, version=9) + ut.generate(2))
    hits = ut.decode(path, ut.Tables.synthetic(trust=True))
    events = hits.events
    assert events.time.dtype == "datetime64[us]" and np.isnat(events.time).tolist() == [False, True, True, False, False]
    assert events.time[0] == np.datetime64("2024-08-01T12:00") and events.crossing[:2].tolist() == [3, 1]
    assert np.isnan(events.crossing[2]) and hits[:2].events.crossing.dtype == np.int32
    assert events.bcid[0] == 0x63 and events.orbit[1] == 77 and events.odin_version.tolist()[:3] == [7, 7, 9]
    with pytest.raises(ValueError, match="read-only"):
        events.time[0] = 0
    again = pickle.loads(pickle.dumps(ut.Hits.concatenate([hits[:2], hits[2:]])))
    assert again == hits and again.events.to_polars().equals(events.to_polars())
    few = hits[hits.x_at_y_eq0 > 0].events
    assert few.hits.sum() == (hits.x_at_y_eq0 > 0).sum() and few.time[0] == events.time[0]
    # The table of the tool, column by column.
    command = ["decode", path, "--synthetic-detector", "-o", tmp_path / "hits.csv"]
    subprocess.run([sys.executable, "-m", "ut_decoding", *command, "--event-table", tmp_path / "events.parquet"], check=True)
    theirs = pl.read_parquet(tmp_path / "events.parquet")
    mine = pl.DataFrame(events)
    assert mine.columns == theirs.columns and len(mine) == len(hits) == 5
    for name in mine.columns:
        assert mine[name].to_list() == theirs[name].to_list(), name
    frame = events.to_pandas()
    assert str(frame["time"][0]) == "2024-08-01 12:00:00+00:00" and frame["crossing"].tolist()[:2] == ["beam-crossing", "beam1"]
    assert frame["run"].tolist()[:2] == [8, 8] and frame["crossing"].isna()[2] and events.to_arrow().num_rows == 5
