"""What tests ask of the embedded servers."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from actors.local_servers import server_files
from actors.local_servers.child_processes import Child

ROOT = Path(server_files.__file__).parents[2]
WAIT_SECONDS = 60.0  # Only ever reached when something is broken.
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as another user")


def query(url: str, *statements: str) -> object:
    """Run the statements and give the last one's first value."""

    async def run() -> object:
        connection = await asyncpg.connect(url, timeout=WAIT_SECONDS)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    return asyncio.run(run())


def counted(child: Child) -> tuple[Child, Callable[[int], None]]:
    """The child, and a function that waits until it was ready for the n-th time."""
    changed, births = threading.Condition(), [0]

    def is_ready(pid: int) -> bool:
        if not child.is_ready(pid):
            return False
        with changed:
            births[0] += 1
            changed.notify_all()
        return True

    def wait(number: int) -> None:
        with changed:
            assert changed.wait_for(lambda: births[0] >= number, WAIT_SECONDS)

    fields = {name: getattr(child, name) for name in Child.__slots__} | {"is_ready": is_ready}
    return Child(**fields), wait
