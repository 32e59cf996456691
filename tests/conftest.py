"""Fixtures for every ring: real stores, started once a session by the product's own means."""

import asyncio
import gc
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import redis

from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.local_servers.embedded_redis import EmbeddedRedis
from tests.databases import as_role, bring_up, drop, of_database

if TYPE_CHECKING:
    from tests.devnode.local_node import LocalNode

# A slow machine is no reason to fail: properties are about answers, not about time. Each run draws new examples.
hypothesis.settings.register_profile(
    "project",
    max_examples=500 if "LONG_TESTS" in os.environ else 30,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.load_profile("project")

# Their tests share one running product.
WHOLE_PRODUCT = ("tests/clients/", "tests/cluster/", "tests/bench/test_many_accounts.py")
# Of these, the files whose tests start products of their own, so that another worker can run them.
OWN_PRODUCTS = tuple(f"tests/cluster/test_{name}.py" for name in ("machines", "spare", "standing_readers"))

# And those that share a second running product, on another worker: about half of the time that all of them take.
SECOND_PRODUCT = (
    "tests/clients/",
    *(
        f"tests/cluster/test_{name}"
        for name in ("close_codes", "command_line", "console", "replays", "sends", "tls", "webhook", "x402")
    ),
)

_database_numbers = itertools.count(1)


def pytest_collection_finish() -> None:
    """Leave the tests and modules that are loaded by now out of each pass of the garbage collector, which takes seconds
    over ten thousand tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """With several workers (`-n`): tests are given out in groups, in the order in which they were collected."""
    if getattr(config.option, "numprocesses", None):
        config.option.dist, config.option.loadscopereorder = "loadscope", False


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers: two of them run the tests of the whole product, first, as they take longest; each has one
    running product. Every other file stays with one worker, as its tests share a database.

    By the path alone: pytest 9.1 and newer do not take the names of groups that pytest-xdist's marks would set.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            if not path.startswith(WHOLE_PRODUCT) or path in OWN_PRODUCTS:
                return path
            return "second product" if path.startswith(SECOND_PRODUCT) else "product"

    return ByGroup(config, log)


class _FailuresAtOnce:
    """Print a failure when it happens: a run that is stopped before its end would not tell it."""

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._reporter.write_line(f"\nFAILED {report.nodeid} ({report.when})\n{report.longreprtext[-4_000:]}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register it where the run is told: with several workers, in the process that they report to."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailuresAtOnce(reporter))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Tests of the whole product first. Of those, the ones that need it whole before the ones that damage it. Then the
    tidy tests, among which are the types, so that no worker is left with them alone at the end. The tests with products
    of their own come last: three products at once are too many for two cores."""
    if item.nodeid.startswith(OWN_PRODUCTS):
        return 5
    if item.nodeid.startswith(WHOLE_PRODUCT):
        return 2 if item.get_closest_marker("stops") else 1 if item.get_closest_marker("kills") else 0
    return 3 if item.nodeid.startswith("tests/tidy/") else 4


def in_a_thread(work: Callable[[], Awaitable[object]]) -> None:
    """Run a coroutine from a synchronous fixture without touching the event loops of the tests."""
    failures: list[BaseException] = []

    def run() -> None:
        async def outer() -> None:
            await work()

        try:
            asyncio.run(outer())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the fixture.
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


@pytest.fixture(scope="session")
def data_dir() -> Iterator[DataDir]:
    """A data folder for the session. Not below pytest's own folder, which is closed to the user the servers run as."""
    path = Path(tempfile.mkdtemp(prefix="ledger-gateway-tests-"))
    path.chmod(0o711)
    try:
        with DataDir(path) as data:
            yield data
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def supervisor(data_dir: DataDir) -> Iterator[Supervisor]:
    with Supervisor() as started:
        yield started


@pytest.fixture(scope="session")
def postgres_server(data_dir: DataDir, supervisor: Supervisor) -> EmbeddedPostgres:
    server = EmbeddedPostgres(data_dir)
    supervisor.start(server.child)
    return server


@pytest.fixture(scope="session")
def redis_server(data_dir: DataDir, supervisor: Supervisor) -> EmbeddedRedis:
    server = EmbeddedRedis(data_dir)
    supervisor.start(server.child)
    return server


@pytest.fixture(scope="session")
def template(postgres_server: EmbeddedPostgres) -> str:
    """Name of a database with every context's tables, which is copied for each test module."""
    name = "tests_template"
    in_a_thread(lambda: as_role(postgres_server.migrations_url, f"CREATE DATABASE {name}"))
    in_a_thread(lambda: bring_up(postgres_server, name))
    return name


@pytest.fixture(scope="module")
def _database(postgres_server: EmbeddedPostgres, template: str) -> Iterator[str]:
    name = f"test_{next(_database_numbers)}"
    in_a_thread(lambda: as_role(postgres_server.migrations_url, f"CREATE DATABASE {name} TEMPLATE {template}"))
    yield name
    in_a_thread(lambda: drop(postgres_server.migrations_url, name))


@pytest.fixture(scope="module")
def postgres_url(postgres_server: EmbeddedPostgres, _database: str) -> str:
    """URL of a database of this test module's own: every context's tables, empty, with the product's restricted role,
    so that each test of a store proves that its rights suffice."""
    return of_database(postgres_server.url, _database)


@pytest.fixture(scope="module")
def owner_url(postgres_server: EmbeddedPostgres, _database: str) -> str:
    """URL of the same database with the role that owns the tables: to empty them, and to do what an intruder does."""
    return of_database(postgres_server.migrations_url, _database)


@pytest.fixture(scope="module")
def redis_url(redis_server: EmbeddedRedis) -> str:
    """URL of a real Redis, empty at the start of this test module."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture
def local(tmp_path: Path) -> Iterator["LocalNode"]:
    """The embedded chain inside the test, sealed step by step."""
    from tests.devnode.local_node import LocalNode  # Here, as most runs need no chain.

    node = LocalNode(tmp_path)
    yield node
    node.close()


@contextmanager
def a_server_of_its_own() -> Iterator[tuple[EmbeddedPostgres, Supervisor]]:
    """A PostgreSQL that no other test uses."""
    path = Path(tempfile.mkdtemp(prefix="ledger-gateway-tests-"))
    path.chmod(0o711)
    try:
        with DataDir(path) as data, Supervisor() as supervisor:
            server = EmbeddedPostgres(data)
            supervisor.start(server.child)
            yield server, supervisor
    finally:
        shutil.rmtree(path, ignore_errors=True)
