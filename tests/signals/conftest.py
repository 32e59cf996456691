"""Fixtures: one embedded chain for the tests that need a real node."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from actors.config import UpstreamConfig
from actors.upstream.client import NodeClient
from tests.devnode.conftest import Process


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(Path(tmp_path_factory.mktemp("signals")) / "chain")
    yield process
    process.terminate()


@pytest.fixture
async def node(chain: Process) -> AsyncIterator[NodeClient]:
    client = NodeClient(UpstreamConfig(node_url=chain.url), chain.url)
    yield client
    await client.close()
