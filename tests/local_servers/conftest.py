"""Folders for servers that a test kills or damages."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.local_servers.datadir import DataDir


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the servers' user may pass through, for servers that a test does bad things to."""
    path = Path(tempfile.mkdtemp(prefix="ledger-gateway-tests-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def data(place: Path) -> Iterator[DataDir]:
    with DataDir(place / "data") as opened:
        yield opened
