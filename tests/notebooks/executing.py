"""Runs a notebook by the command that a reader uses."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "notebooks"
_ASKS = re.compile(r"from lab import [^\n]*\bgateway\b")
SECONDS_MAX = 60  # Of one cell; the kernel is then stopped and the command fails.


def paths(needs_gateway: bool) -> list[Path]:
    """Return the notebooks that ask a whole gateway, or those that need a chain of their own at most."""
    return [path for path in sorted(FOLDER.glob("*.ipynb")) if bool(_ASKS.search(path.read_text())) is needs_gateway]


def assert_runs(path: Path, folder: Path, settings: Mapping[str, str]) -> None:
    """Run it top to bottom into `folder`. Outputs that were kept would hide that it does not run."""
    cells = json.loads(path.read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    done = folder / path.name
    command = [str(Path(sys.executable).with_name("jupyter")), "execute", str(path), f"--timeout={SECONDS_MAX}"]
    ran = subprocess.run(
        [*command, f"--output={done.with_suffix('')}"],
        cwd=FOLDER.parent,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    executed = [cell for cell in json.loads(done.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in executed)
