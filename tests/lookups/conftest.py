"""A chain with some wallets on it, a new one for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.local.close()
