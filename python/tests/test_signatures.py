"""What `help`, a notebook and a type checker know of the functions."""

import inspect
import pathlib
import re
import subprocess
import sys
import typing

import pytest

import ut_decoding as ut
import ut_decoding.dask
from ut_decoding._native import FACTS
from ut_decoding._options import CROSSINGS, DEFAULTS, Column

PREAMBLE = """
import glob
import dask.bag, duckdb, fsspec, polars as pl
import matplotlib.pyplot as plt
import numpy as np
import ut_decoding as ut

files: list[str] = []
tables = ut.Tables.synthetic()
hits = ut.decode(b"", tables)
summaries: list[ut.Summary] = []
"""


@pytest.mark.parametrize(
    "function", [ut.decode, ut.iterate, ut.decode_to_parquet, ut.decode_to_root, ut.plan, ut.run_sums, ut.report]
    + [ut_decoding.dask.from_files, ut_decoding.dask.to_parquet, ut_decoding.dask.report]
)
def test_every_option_is_in_the_signature_and_the_docstring(function):
    parameters = inspect.signature(function).parameters
    assert not any(one.kind is one.VAR_KEYWORD for one in parameters.values()) and "keep_going" in parameters
    for name, parameter in parameters.items():
        assert re.search(rf"\n        ([\w, ]+, )?{name}(, [\w, ]+)?: ", function.__doc__), name
        if name in DEFAULTS and not (name == "events" and parameter.default == 50_000):
            assert parameter.default == DEFAULTS[name]
    assert "**" not in function.__doc__ and max(map(len, function.__doc__.splitlines())) <= 130


def test_the_page_has_every_option_of_python_and_of_the_command(fixtures):
    text = (fixtures.parent / "docs/python.md").read_text().split("## Inputs and options")[1].split("\n## ")[0]
    rows = [[re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:3]] for line in text.splitlines() if line.startswith("| `")]
    assert sorted(name for names, _ in rows for name in names) == sorted(DEFAULTS)
    for command in ("decode", "report"):
        shown = subprocess.run([sys.executable, "-m", "ut_decoding", command, "--help"], capture_output=True, text=True, check=True)
        has = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", shown.stdout, re.M)) - {"--help"}
        assert has - {f"--{name.replace('_', '-')}" for name in DEFAULTS} - set(re.findall(r"--[\w-]+", text)) == set(), command


def test_types_list_the_existing_names():
    assert [*ut.Hits.ALL_COLUMNS, "detector"] == list(typing.get_args(Column))
    assert [list(CROSSINGS)] == [words for name, _, words in FACTS if name == "crossing"]


def test_a_notebook_completes_options():
    completer = pytest.importorskip("IPython.core.completer")
    for is_static in (True, False):
        shell = completer.IPCompleter(namespace={"ut": ut, "hits": ut.decode(b"", ut.Tables.synthetic())})
        shell.use_jedi = is_static
        with completer.provisionalcompleter():
            for text, name in (("ut.decode('f', keep_", "keep_going="), ("hits.x_at", "x_at_y_eq0")):
                found = [one.text for one in shell.completions(text, len(text))]
                assert any(one.lstrip(".") == name for one in found), (is_static, found)


def test_every_documented_line_passes_mypy(fixtures, tmp_path):
    docs = fixtures.parent / "docs"
    for page in (docs / "python.md", docs / "many-machines.md", fixtures.parent / "python/README.md"):
        blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
        assert blocks
        # What a page shows beside each other may give a name twice.
        functions = [f"def _{i}() -> None:\n" + "".join(f"    {line}\n" for line in block.splitlines()) for i, block in enumerate(blocks)]
        (tmp_path / f"{page.stem.replace('-', '_').lower()}.py").write_text(PREAMBLE + "\n".join(functions))
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\nignore_missing_imports = True\nuntyped_calls_exclude = dask, distributed\n")
    command = [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", tmp_path / "cache", *tmp_path.glob("*.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
