"""The notebooks run from top to bottom, and objects show themselves in them."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
MOST_SECONDS = 60


def test_there_are_two():
    assert len(NOTEBOOKS) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_stands_in_it(path, tmp_path):
    written = nbformat.read(path, as_version=4)
    again = nbformat.from_dict(written.copy())
    client = NotebookClient(again, timeout=MOST_SECONDS, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert list(map(texts, again.cells)) == list(map(texts, written.cells))
    shown = [output.data for cell in again.cells for output in cell.get("outputs", []) if "data" in output]
    assert sum("text/html" in data for data in shown) >= 2
    assert any("image/svg+xml" in data for data in shown)


def texts(cell):
    """Return what a cell prints as text; times by the wall stand only in its tables of HTML."""
    outputs = cell.get("outputs", [])
    return [output.get("text") or output.get("data", {}).get("text/plain") for output in outputs]
