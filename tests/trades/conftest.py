"""A chain with the launch platform, and customers who trade on it; JavaScript clients where a test wants one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.devnode.pad import Pad
from tests.gateway.world import a_world
from tests.idempotency.memory_store import MemoryIdempotencyStore

from .scene import PadNode, Trading


def pytest_configure(config: pytest.Config) -> None:
    # Not `pytest_plugins`: pytest takes that from the outermost conftest only.
    if not config.pluginmanager.has_plugin("tests.npm"):
        config.pluginmanager.import_plugin("tests.npm")


@pytest.fixture
def pad(tmp_path: Path) -> Iterator[Pad]:
    made = Pad(tmp_path)
    yield made
    made.local.close()


@pytest.fixture
async def trading(pad: Pad) -> AsyncIterator[Trading]:
    node = PadNode(pad)
    async with a_world(node, quotes=node.methods().handlers(), idempotency=MemoryIdempotencyStore()) as world:
        yield Trading(pad, node, world)
