"""Runs the notebooks of this folder, each in a folder of its own, and fails where a cell does. With a folder as argument,
the figures they save are kept there: `python run.py ../../docs/figures`."""

import pathlib
import shutil
import sys
import tempfile

import nbclient
import nbformat

for path in sorted(pathlib.Path(__file__).parent.glob("*.ipynb")):
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(
            book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}
        ).execute()
        figures = sorted(pathlib.Path(folder).glob("*.svg"))
        assert figures, f"{path.name} saved no figure"
        if len(sys.argv) > 1:
            for figure in figures:
                shutil.copy(figure, sys.argv[1])
    print(
        f"{path.name}: {sum(cell.cell_type == 'code' for cell in book.cells)} cells, {', '.join(f.name for f in figures)}"
    )
