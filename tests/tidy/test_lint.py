"""The linters, as tests, so that one command says whether the project is in order."""

import subprocess
import sys

from tests.tidy.sources import ROOT

PLACES = (
    "actors",
    "bench",
    "devnode",
    "ledger_gateway",
    "tests",
    "serve_app.py",
)  # Not the examples in Markdown, which are laid out for readers.


def run(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing() -> None:
    """Rules in pyproject.toml."""
    run("ruff", "check", "--quiet", *PLACES)


def test_the_code_is_formatted() -> None:
    """One layout, nobody's taste."""
    run("ruff", "format", "--quiet", "--check", *PLACES)


def test_types_agree() -> None:
    """mypy --strict over the product and the benchmark."""
    run("mypy")
