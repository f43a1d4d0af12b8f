"""Runs the notebooks of this folder, each in its own folder, and fails if a cell does. With a folder as argument,
the figures they save are kept there: `python run.py ../../docs/figures`."""

import pathlib
import shutil
import sys
import tempfile

import nbclient
import nbformat

EXPECTED = {
    "cluster_studies.ipynb": ["514,195 strips became 339,396 hits; charge kept: 1.0000"],
    "first_look.ipynb": ["Hits(500 events, 566446 hits)", "'strips': 859224", "event 0: group 59, 69 hits over 1600 mm"],
    "two_runs.ipynb": ["(600, 239764, False)", "(600, 676808, False)", "chi2 81 for 87 degrees of freedom"],
}
"""Numbers that the text of each notebook must contain: generated events are the same everywhere."""

for path in sorted(pathlib.Path(__file__).parent.glob("*.ipynb")):
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(
            book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}
        ).execute()
        outputs = [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]
        text = "\n".join(out.get("text", "") or out.get("data", {}).get("text/plain", "") for out in outputs)
        for number in EXPECTED[path.name]:
            assert number in text, f"{path.name} does not print {number}, but\n{text}"
        figures = sorted(pathlib.Path(folder).glob("*.svg"))
        assert figures, f"{path.name} saved no figure"
        if len(sys.argv) > 1:
            for figure in figures:
                shutil.copy(figure, sys.argv[1])
    print(
        f"{path.name}: {sum(cell.cell_type == 'code' for cell in book.cells)} cells, {', '.join(f.name for f in figures)}"
    )
