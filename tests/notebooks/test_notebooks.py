"""Every notebook runs top to bottom in under a minute, and is kept without outputs."""

import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS_MAX = 60  # Of one cell; the kernel is then stopped and the test fails.


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_kept_without_outputs(path: Path) -> None:
    """Rule: a reader gets it to run with one command; outputs would hide that it does not."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(path, 4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    resources = {"metadata": {"path": str(FOLDER.parent)}}
    began = time.monotonic()
    nbclient.NotebookClient(notebook, timeout=SECONDS_MAX, resources=resources).execute()
    print(f"{path.stem}: {time.monotonic() - began:.1f} s")


def test_there_are_notebooks() -> None:
    """An empty folder would pass every test."""
    assert NOTEBOOKS
