"""Guards that whoever deploys imports no part of a replica, and that the replica gets all of them."""

import subprocess
import sys
from typing import Any

import pytest

from actors.config import Config
from actors.launch.assembly import opening, replica


async def test_a_replica_is_assembled_where_it_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def assemble(config: Config) -> Any:
        return config, None

    monkeypatch.setattr(replica, "assemble", assemble)
    config = Config()
    assert await opening.assembled(config) == (config, None)


def test_whoever_deploys_imports_no_part_of_a_replica() -> None:
    code = "import sys, actors.launch.assembly.opening; assert 'actors.launch.assembly.replica' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
