"""Opens what `ut-decode decode` writes with the programs that people open it with, and compares what each of them reads.

    python tests/outputs.py target/debug/ut-decode

needs pyarrow, pandas, polars, duckdb, awkward and numpy. Ends with an error at the first difference.
"""

import csv
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import awkward
import duckdb
import numpy
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet

# Columns of docs/files.md with their types.
INTEGERS = {"event": "uint64", "run": "uint32", "event_number": "uint64", "group": "uint16", "lhcb_id": "uint32"}
FLOATS = ["x_at_y_eq0", "z_at_y_eq0", "y_begin", "y_end", "dx_dy", "weight"]
TYPES = {**INTEGERS, **dict.fromkeys(FLOATS, "float32")}
NUMBERS = list(TYPES)
METADATA = {
    "version", "commit", "backend", "layout", "clustering", "position", "max_cluster_size", "save_above_max", "flip",
    "grouping", "boards", "geometry", "bank_version", "geometry_version", "inputs", "complete",
}


def check(condition, what):
    if not condition:
        sys.exit(f"outputs.py: {what}")


def same(found, expected, what):
    """Compares columns bit for bit, whatever the library calls their types."""
    for name in NUMBERS:
        if name not in expected:
            continue
        a = numpy.asarray(found[name])
        b = expected[name]
        check(len(a) == len(b), f"{what}: {name} has {len(a)} values, not {len(b)}")
        a = a.astype(b.dtype, casting="unsafe")
        check(numpy.array_equal(a.view(f"u{b.dtype.itemsize}"), b.view(f"u{b.dtype.itemsize}")), f"{what}: {name}")


def with_run(mdf, run, numbers_from):
    """The events of an MDF file with another run, in their ODIN banks and sub-headers; without checksums."""
    out, at = bytearray(mdf), 0
    number = numbers_from
    while at < len(out):
        (size,) = struct.unpack_from("<I", out, at)
        out[at + 12 : at + 16] = bytes(4)
        struct.pack_into("<I", out, at + 20 + 16, run)
        odin = at + 48
        check(out[odin + 4] == 16, "the first bank of a generated event is ODIN's")
        struct.pack_into("<I", out, odin + 8, run)
        struct.pack_into("<Q", out, odin + 8 + 32, number)
        number += 1
        at += size
    return bytes(out)


class Job:
    def __init__(self, tool, folder):
        self.tool, self.folder = tool, folder

    def run(self, *args):
        subprocess.run([self.tool, *args], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def decode(self, *args):
        # The inputs are one file under several names.
        self.run("decode", *args, "--allow-repeated", "--boards", "boards.bin", "--geometry", "geometry.bin", "--quiet")


def parquet_everywhere(path, expected, files, metadata):
    """One Parquet file through every library that reads it."""
    table = pyarrow.parquet.read_table(path)
    schema = {field.name: str(field.type).replace("float", "float32") for field in table.schema}
    check(schema == {**TYPES, "file": "string"}, f"{path}: the schema is {schema}")
    nullable = {field.name for field in table.schema if field.nullable}
    check(nullable == {"run", "event_number"}, f"{path}: {nullable} may be null")
    found = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    found = {key.removeprefix("ut-decode."): value for key, value in found.items() if key.startswith("ut-decode.")}
    check(METADATA <= set(found), f"{path}: the metadata lack {METADATA - set(found)}")
    for key, value in metadata.items():
        check(found[key] == value, f"{path}: {key} is {found[key]!r}")
    same({name: table[name].to_numpy() for name in NUMBERS}, expected, f"{path} in pyarrow")
    check(table["file"].to_pylist() == files, f"{path}: file in pyarrow")
    same(pandas.read_parquet(path), expected, f"{path} in pandas")
    frame = polars.read_parquet(path)
    check([str(frame.schema[name]).lower() for name in NUMBERS] == list(TYPES.values()), f"{path}: {frame.schema}")
    same({name: frame[name].to_numpy() for name in NUMBERS}, expected, f"{path} in polars")
    check(frame["file"].to_list() == files, f"{path}: file in polars")
    rows = duckdb.sql(f"select * from read_parquet('{path}')")
    same(rows.fetchnumpy(), expected, f"{path} in duckdb")
    array = awkward.from_parquet(path)
    same({name: awkward.to_numpy(array[name]) for name in NUMBERS if name not in ("run", "event_number")},
         {name: values for name, values in expected.items() if name not in ("run", "event_number")}, f"{path} in awkward")
    for name in ("run", "event_number"):
        check(array[name].to_list() == expected[name].tolist(), f"{path}: {name} in awkward")


def main(tool):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        job = Job(str(Path(tool).resolve()), folder)
        job.run("generate", "--events", "12", "--output", ".", "--quiet")
        mdf = (folder / "events.mdf").read_bytes()
        (folder / "a.mdf").write_bytes(with_run(mdf, 7, 2**40))
        (folder / "b,\"c\".mdf").write_bytes(with_run(mdf, 4_000_000_000, 5))
        inputs = ["a.mdf", "b,\"c\".mdf"]

        # CSV is the plainest: read with Python's own reader, it is what the others are compared with.
        job.decode(*inputs, "--output", "hits.csv", "--columns", "run,event_number")
        with open(folder / "hits.csv", newline="") as text:
            rows = list(csv.DictReader(text))
        files = [row["file"] for row in rows]
        check(sorted(set(files)) == inputs, f"files {set(files)}")
        expected = {name: numpy.array([row[name] for row in rows]).astype(kind)
                    for name, kind in TYPES.items() if name in rows[0]}
        event = expected["event"]
        first = numpy.array([file == "a.mdf" for file in files])
        whole = {
            **expected,
            "run": numpy.where(first, 7, 4_000_000_000).astype("uint32"),
            "event_number": numpy.where(first, 2**40 + event, 5 + event).astype("uint64"),
        }
        check(all(numpy.array_equal(whole[name], expected[name]) for name in expected), "run and event_number in CSV")
        same(pandas.read_csv(folder / "hits.csv", dtype={name: TYPES[name] for name in expected}), expected, "CSV in pandas")
        kinds = {name: getattr(polars, TYPES[name].capitalize().replace("Ui", "UI")) for name in expected}
        frame = polars.read_csv(folder / "hits.csv", schema_overrides=kinds)
        same({name: frame[name].to_numpy() for name in expected}, expected, "CSV in polars")
        rows = duckdb.sql(f"select * from read_csv('{folder / 'hits.csv'}')").fetchnumpy()
        same(rows, expected, "CSV in duckdb")

        job.decode(*inputs, "--output", "hits.parquet", "--batch", "5")
        metadata = {"inputs": "\n".join(inputs), "complete": "true", "clustering": "true", "bank_version": "4 (format v5)"}
        parquet_everywhere(folder / "hits.parquet", whole, files, metadata)

        # A folder with a file an input: each is as if it were alone.
        job.decode(*inputs, "--output", "each", "--format", "parquet")
        for name, part in [("a.parquet", first), ("b,\"c\".parquet", ~first)]:
            source = name.replace(".parquet", ".mdf")
            parquet_everywhere(folder / "each" / name, {key: values[part] for key, values in whole.items()},
                               [source] * int(part.sum()), {"inputs": source})

        print(f"outputs.py: {len(files)} hits are the same in CSV and Parquet, in pyarrow {pyarrow.__version__}, "
              f"pandas {pandas.__version__}, polars {polars.__version__}, duckdb {duckdb.__version__} and "
              f"awkward {awkward.__version__}")


if __name__ == "__main__":
    check(len(sys.argv) == 2, "name the tool")
    main(sys.argv[1])
