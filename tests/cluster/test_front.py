"""The front of a real run: HAProxy with the configuration that Serve renders, real replicas, real sockets.

Rules: threats 35, 48, 49 and 58; interface, "HTTP statuses and bodies".
"""

import asyncio
import contextlib
import http.client
import json
import os
import resource
import signal
import stat
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import redis

from bench.product import Product
from tests.cluster.test_admission import replica_urls
from tests.cluster.test_faults import eventually, is_well
from tests.customers import Customer, request, rpc_body

_ATTACKERS = 4_096
_ATTACK_SECONDS = 8.0  # A slow client is cut off after 5 s, and begins again.
_BACK_SECONDS = 90.0
_CALL = rpc_body("getSlot")


def asked_from(
    source: str, url: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
) -> http.client.HTTPResponse:
    """The answer to a client at this address of the machine. Its body is read."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=90, source_address=(source, 0))
    with contextlib.closing(connection):
        connection.request("GET" if body is None else "POST", path, body, headers or {})
        answer = connection.getresponse()
        answer.read()
        return answer


# --- what listens, and who may pass


@pytest.mark.threat(58)
def test_every_socket_of_a_run_on_loopback_is_on_loopback(product: Product) -> None:
    """Threat 58: the product was told 127.0.0.1, and so were all of its parts: HAProxy's figures, Ray's own
    processes, the owners of accounts, replicas, the chain. As psutil sees every process of the run."""
    opened = []
    for process in product.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # Some come and go.
            opened += [
                (process.name(), connection.laddr.ip, connection.laddr.port)
                for connection in process.net_connections("inet")
                if connection.laddr and (connection.status == psutil.CONN_LISTEN or not connection.raddr)
            ]
    assert len(opened) > 10
    loopback = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
    assert [found for found in opened if found[1] not in loopback] == []


def front_folder(product: Product) -> Path:
    """Where HAProxy of this run has its files."""
    pid = product.running("haproxy.cfg")[0]
    command = psutil.Process(pid).cmdline()
    return Path(command[command.index("-f") + 1]).parent


@pytest.mark.threat(58)
def test_sockets_and_secrets_are_in_folders_of_this_user(product: Product) -> None:
    """Threat 58: HAProxy's admin socket, the front's token, the wallets' keys."""
    node = front_folder(product)
    closed = (node, node.parent, product.data_dir / "run", product.data_dir / "secrets")
    assert {str(folder): stat.S_IMODE(folder.stat().st_mode) for folder in closed} == {
        str(folder): 0o700 for folder in closed
    }
    for path in (node / "admin.sock", node / "haproxy.cfg", node.parent / "front.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


# --- whose address is counted


def almost_used_up(client: redis.Redis, name: str) -> None:
    left_seconds = 60 - time.time() % 60
    if left_seconds < 10:  # Requests on both sides of a minute's end would be within both allowances.
        time.sleep(left_seconds)
    minute = int(time.time()) // 60
    for number in (minute, minute + 1):  # It may turn while the test runs.
        client.set(f"identity:address:{number}:{name}", 1_000_000 - 60, ex=130)


@pytest.mark.threat(49)
def test_one_place_behind_the_front_stops_nobody_else(product: Product, counted: redis.Redis) -> None:
    """Threat 49: everybody comes through one HAProxy. Who uses up the allowance of one address, with or without
    credentials, is refused there, whatever it writes into headers; the same paths go on for another address."""
    stranger, others = "127.0.0.2", "127.0.0.1"
    customer = Customer(product)
    for name in (stranger, f"without credentials {stranger}"):
        almost_used_up(counted, name)
    for headers in ({}, {"X-Api-Key": "nonsense"}):
        statuses = [asked_from(stranger, product.http_url, "/account/info", headers).status for _ in range(61)]
        assert statuses == [402 if not headers else 401] * 60 + [429]
    forged = {"X-Forwarded-For": others, "X-Front-Peer": others, "X-Api-Key": customer.api_key}
    assert asked_from(stranger, product.http_url, "/account/info", forged).status == 429
    challenge = json.dumps({"pubkey": customer.pubkey}).encode()
    assert asked_from(stranger, product.http_url, "/auth/challenge", None, challenge).status == 429
    assert asked_from(others, product.http_url, "/account/info", customer.key_headers).status == 200
    assert asked_from(others, product.http_url, "/auth/challenge", None, challenge).status == 200
    assert request(f"{product.http_url}/x402/settle", {}, b"{}").status == 400


@pytest.mark.threat(49)
def test_requests_for_nothing_lock_nobody_out(product: Product, counted: redis.Redis) -> None:
    """Threat 49: sixty 404s, and as many requests without credentials, from the customers' own address."""
    customer = Customer(product)
    for name in ("127.0.0.1", "without credentials 127.0.0.1"):
        almost_used_up(counted, name)
    for path, status in (("/account/nothing", 404), ("/auth/nothing", 404), ("/account/info", 402)):
        assert {asked_from("127.0.0.1", product.http_url, path).status for _ in range(60)} == {status}
    assert asked_from("127.0.0.1", product.http_url, "/account/info").status == 429
    assert asked_from("127.0.0.1", product.http_url, "/account/info", customer.key_headers).status == 200


@pytest.mark.threat(49)
def test_a_replicas_own_port_believes_no_header(product: Product, counted: redis.Redis) -> None:
    """Who reaches a replica past the front is counted under the address that it comes from."""
    replica = replica_urls(product)[0]
    almost_used_up(counted, "without credentials 127.0.0.3")
    forged = {"X-Forwarded-For": "203.0.113.7", "X-Front-Peer": f"{'0' * 32} 203.0.113.7"}
    statuses = [asked_from("127.0.0.3", replica, "/account/info", forged).status for _ in range(61)]
    assert statuses == [402] * 60 + [429]


# --- requests that never end


class Attack:
    """Clients that send a byte a second: half of them of a header, half of a body. Each begins again when it is cut
    off, so that as many are there all the time."""

    def __init__(self, product: Product, clients: int) -> None:
        parts = urlsplit(product.http_url)
        self._host, self._port = parts.hostname, parts.port
        self._clients = clients
        self.connected = 0
        self.at_work = asyncio.Event()  # More than half of them are connected.
        self.held_seconds: list[float] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Attack":
        self._tasks = [asyncio.create_task(self._client(number)) for number in range(self._clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _client(self, number: int) -> None:
        head = b"POST / HTTP/1.1\r\nhost: a\r\n"
        beginning = head + (b"x-slow: " if number % 2 else b"content-length: 9999\r\n\r\n")
        while True:
            try:
                reader, writer = await asyncio.open_connection(self._host, self._port)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            began = time.monotonic()
            self.connected += 1
            if self.connected >= self._clients * 0.6:
                self.at_work.set()
            try:
                writer.write(beginning)
                await self._drip(reader, writer)
            except OSError:
                pass
            finally:
                self.connected -= 1
                writer.close()
            self.held_seconds.append(time.monotonic() - began)

    @staticmethod
    async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended = asyncio.ensure_future(reader.read(1))
        try:
            while not ended.done():
                writer.write(b"x")
                await asyncio.wait((ended,), timeout=1)
            ended.result()
        finally:
            ended.cancel()


@pytest.mark.threat(48)
async def test_slow_clients_cost_honest_ones_nothing(product: Product, heavy_customer: Customer) -> None:
    """Threat 48: 4,096 clients that send a byte a second, all the time. Honest calls are answered as ever, and
    each slow connection is gone within seconds."""
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
    clients = _ATTACKERS if files_max == resource.RLIM_INFINITY else min(_ATTACKERS, files_max // 3)
    async with Attack(product, clients) as attack:
        await asyncio.wait_for(attack.at_work.wait(), _BACK_SECONDS)
        deadline = time.monotonic() + _ATTACK_SECONDS
        seconds: list[float] = []
        slow_clients: list[int] = []  # Beside each call. They are cut off together, and come back together.
        statuses: Counter[int] = Counter()
        while not attack.held_seconds or time.monotonic() < deadline:
            began = time.monotonic()
            slow_clients.append(attack.connected)
            answer = await asyncio.to_thread(heavy_customer.call, "getSlot")
            seconds.append(time.monotonic() - began)
            statuses[answer.status] += 1
        assert max(slow_clients) >= clients / 2, slow_clients
    assert set(statuses) == {200}
    # A call that waited for slow clients would wait for ever, as they begin again. This process plays all of them, so
    # it is slow itself on a busy machine.
    assert statuses[200] >= 3, statuses
    assert max(seconds) < _BACK_SECONDS
    assert (
        max(attack.held_seconds) < _BACK_SECONDS
    )  # They would send for hours. Seen by a test that is busy with 4,096 of them.


# --- when nobody is behind the front


def said_by_the_front(product: Product, customer: Customer) -> tuple[int, str | None, str | None, object] | None:
    """Status, type, hint and code of an answer that is not the call's; None when the connection was closed."""
    parts = urlsplit(product.http_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=90)
    with contextlib.closing(connection):
        try:
            connection.request("POST", "/", _CALL, customer.key_headers)
            answer = connection.getresponse()
            body = json.loads(answer.read())
        except (http.client.HTTPException, OSError):
            return None
    code = body["error"]["code"] if "error" in body else None
    return answer.status, answer.headers["Content-Type"], answer.headers["Retry-After"], code


_UNAVAILABLE = (503, "application/json", "5", -32003)
_BROKEN_OFF = (502, "application/json", "2", "UPSTREAM_ERROR")
_ANSWERED = (200, "application/json", None, None)


@pytest.mark.kills
def test_replicas_that_hang_are_503_as_the_interface_has_it(product: Product, heavy_customer: Customer) -> None:
    """Interface: -32003 with `retry_after_secs` and Retry-After, as soon as the health checks have failed; a call that
    a replica had is answered when it goes on."""
    pids = product.running("ray::ServeReplica")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert eventually(lambda: request(f"{product.http_url}/-/healthz", {}).status == 503, _BACK_SECONDS)
        assert said_by_the_front(product, heavy_customer) == _UNAVAILABLE
        body = request(f"{product.http_url}/health", {}).body
        assert body["error"]["data"]["retry_after_secs"] == 5
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert eventually(lambda: said_by_the_front(product, heavy_customer) == _ANSWERED, _BACK_SECONDS)
    assert eventually(lambda: is_well(product), _BACK_SECONDS)


@pytest.mark.kills
def test_replicas_that_are_killed_leave_no_plain_text(product: Product, heavy_customer: Customer) -> None:
    """Interface: until Serve has started others, every answer is the interface's 502 or 503, or the connection ends."""
    pids = product.running("ray::ServeReplica")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    said = []

    def serves() -> bool:
        said.append(said_by_the_front(product, heavy_customer))
        return said[-1] == _ANSWERED

    assert eventually(serves, _BACK_SECONDS)
    assert set(said) <= {_UNAVAILABLE, _BROKEN_OFF, _ANSWERED, None}, Counter(said)
    assert _UNAVAILABLE in said
    assert eventually(lambda: len(product.running("ray::ServeReplica")) == len(pids), _BACK_SECONDS)
    assert eventually(lambda: is_well(product), _BACK_SECONDS)
