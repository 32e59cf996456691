from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.streams.geyser_world import GeyserWorld, geyser_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[GeyserWorld]:
    async with geyser_world(tmp_path) as made:
        yield made
