"""The whole product, started once a session for every test that needs it, and shown to leave no process behind.

A pytest plugin: the folders whose tests need it register it (see tests/cluster/conftest.py), so that the tests which do
not need it never meet it.
"""

import contextlib
import json
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.product import Product, free_ports
from tests.operator_process import OperatorProcess

# Everything comes from one address here; the limit per address has its own tests.
_SETTINGS = {
    "LEDGER_IDENTITY__ADDRESS_REQUESTS_PER_MINUTE": "1000000",
    "LEDGER_GATEWAY__REPLICAS": "2",
    "LEDGER_SENDS__BLOCK_ENGINE_REQUESTS_PER_SECOND": "1000",  # The embedded engine has no limit.
    "LEDGER_WEBHOOKS__ALLOW_LOOPBACK": "true",  # Receivers of tests are on this machine.
    "LEDGER_PRICING__LISTS": '{"wholesale": {"percent": 60, "methods": {"getBlock": 7}}}',
    "LEDGER_SERVE__TLS": "true",
    "LEDGER_MEMOS__ENABLED": "true",  # Paid for with play money, once an hour.
    "LEDGER_DEVNODE__SLOT_MS": "200",  # Half of the usual: much of the time of these tests is the wait for finality.
}
_WHOLE = {"ray::ServeReplica": 2, "ray::AccountShard": 1, "redis-server": 1, "haproxy.cfg": 1}
_WHOLE_SECONDS = 120.0
_SHARED = "ray::SharedProcessActor"  # Has the first actor of each kind, unless `serve.small_actors` is "apart".
KILL_AT = "kill-at"  # A file beside the data folder.


class StaffedProduct(Product):
    """With an operator who stays: the commands of `operator` run in one process, which leaves before the product
    stops. `Product.operator` gives a command as a process of its own."""

    _staff: OperatorProcess | None = None

    def operator(self, *arguments: str) -> str:
        return self.command("accounts", *arguments)

    def command(self, *arguments: str) -> str:
        """What an operator's command printed."""
        if self._staff is None:
            self._staff = OperatorProcess(self.data_dir, self.ports.settings())
        return self._staff.run(*arguments)

    def scale(self, kind: str, count: int) -> dict[str, Any]:
        """Have so many actors of a kind, with even shares of the work. Returns what the command told."""
        told: dict[str, Any] = json.loads(self.command("cluster", "scale", kind, str(count), "--json"))
        assert told["is_even"] and len(told["slices"]) == count, told
        return told

    def ended(self, act: Callable[[], None]) -> int:
        self._leave()
        return super().ended(act)

    def kill(self) -> None:
        self._leave()
        super().kill()

    def _leave(self) -> None:
        staff, self._staff = self._staff, None
        if staff is not None:
            staff.close()


def processes_of(product: Product, mark: str) -> list[int]:
    """The processes with small actors of a kind, which all of them share their first one's process with.

    mark: of those that have processes of their own.
    """
    return [*product.running(_SHARED), *product.running(mark)]


def _take_turn(shared: Path) -> None:
    """At most as many products run side by side as the tests are divided into."""
    for name in ("product", "second product"):
        with contextlib.suppress(FileExistsError):
            (shared / name).mkdir()
            return
    raise AssertionError("a third worker wants a product: tests/conftest.py divides their tests into two groups")


@pytest.fixture(scope="session")
def product_in_any_state(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The session's product, which runs or not. Stopping it fails when a process of it is left.

    When a test has failed, its logs are kept, and where they are is printed.
    """
    if hasattr(request.config, "workerinput"):
        _take_turn(tmp_path_factory.getbasetemp().parent)  # The folder above a worker's own is the whole session's.
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-tests-"))
    folder.chmod(0o711)  # Run by root, the stores run as another user, who must be able to pass through.
    # A test of the racer writes into this file at which step the racer is to kill itself.
    ports = free_ports()
    settings = _SETTINGS | {
        "LEDGER_SENDS__FAULT_FILE": str(folder / KILL_AT),
        # With TLS the default is the edge's address; most tests call the plain port.
        "LEDGER_SERVE__PUBLIC_URL": f"http://127.0.0.1:{ports.http}",
    }
    running = StaffedProduct(folder / "data", settings, ports)
    try:
        yield running
    except BaseException:
        running.kill()
        _keep_logs(running, request.config)
        raise
    else:
        running.stop()
    finally:
        if request.session.testsfailed:
            _keep_logs(running, request.config)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def product(product_in_any_state: Product) -> Product:
    """Ready to serve: it is started again for the next test after one that has stopped it."""
    product_in_any_state.start()
    return product_in_any_state


@pytest.fixture(autouse=True)
def _product_runs(request: pytest.FixtureRequest) -> None:
    if "product" not in request.fixturenames:
        return
    running: Product = request.getfixturevalue("product")
    if not running.is_running:
        running.start()
    # Tests that kill begin with a product that is whole: what the one before has killed is back.
    if any(request.node.get_closest_marker(mark) for mark in ("kills", "stops")):
        deadline = time.monotonic() + _WHOLE_SECONDS
        while not _is_whole(running):
            assert time.monotonic() < deadline, "what was killed has not come back"
            time.sleep(0.2)


def _is_whole(running: Product) -> bool:
    """Every replica and every server is there, and each replica that answers takes paid calls."""
    if any(len(running.running(mark)) < number for mark, number in _WHOLE.items()):
        return False
    try:
        for _ in range(6):
            with urllib.request.urlopen(f"{running.http_url}/health", timeout=10) as answer:
                if not json.loads(answer.read()).get("paid_traffic_ready"):
                    return False
    except (OSError, ValueError):  # Of a front without replicas, among others.
        return False
    return True


def _keep_logs(running: Product, config: pytest.Config) -> None:
    kept = Path(tempfile.mkdtemp(prefix="ledger-gateway-failed-"))
    for path in (running.output_path, *running.data_dir.glob("logs/*")):
        shutil.copy(path, kept)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"\nlogs of the product under test: {kept}")
