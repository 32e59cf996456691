"""Every notebook runs top to bottom in under a minute by the command a reader uses, and is kept without outputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS_MAX = 60  # Of one cell; the kernel is then stopped and the command fails.


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_kept_without_outputs(path: Path, tmp_path: Path) -> None:
    """Rule: a reader gets it to run with one command; outputs would hide that it does not."""
    pytest.importorskip("nbclient")
    cells = json.loads(path.read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    done = tmp_path / path.name
    command = [str(Path(sys.executable).with_name("jupyter")), "execute", str(path), f"--timeout={SECONDS_MAX}"]
    ran = subprocess.run(
        [*command, f"--output={done.with_suffix('')}"], cwd=FOLDER.parent, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    executed = [cell for cell in json.loads(done.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in executed)


def test_there_are_notebooks() -> None:
    """An empty folder would pass every test."""
    assert NOTEBOOKS
