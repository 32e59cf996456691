from collections.abc import Iterator
from pathlib import Path

import pytest

from .pad import Pad


@pytest.fixture
def pad(tmp_path: Path) -> Iterator[Pad]:
    pad = Pad(tmp_path)
    yield pad
    pad.local.close()
