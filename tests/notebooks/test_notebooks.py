"""Every notebook runs top to bottom, each cell in under a minute, and is kept without outputs."""

from pathlib import Path

import pytest

from tests.notebooks.executing import assert_runs, paths


@pytest.mark.parametrize("path", paths(needs_gateway=False), ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_kept_without_outputs(path: Path, tmp_path: Path) -> None:
    """Rule: a reader gets it to run with one command. Those on a gateway are run with the clients' tests."""
    pytest.importorskip("nbclient")
    assert_runs(path, tmp_path, {})


def test_there_are_notebooks() -> None:
    """An empty list would pass every test."""
    assert len(paths(needs_gateway=False)) >= 2 and len(paths(needs_gateway=True)) >= 3
