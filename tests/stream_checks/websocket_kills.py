"""Kills a replica under open WebSockets, and checks that no client misses an event.

The whole product with two replicas on its embedded chain. A third of the clients follow an account, a third the logs of
a wallet, a third new coins. Each does what streams/README.md tells a client to do: connect again, subscribe again, and
ask for the events in between (an account's contents, the signatures of an address; signals by their cursor). Fails when
a client misses an event, or has one that never was, or when the ledger differs from what was delivered by more than one
allowance for each account, name and killed replica. `python -m bench stream-kills` is the long run.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import base58
import httpx
import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from bench.product import Product
from tests.customers import Customer
from tests.stream_checks.chain_events import Driver
from tests.stream_checks.waiting import Stalled, until_all

ALLOWANCE_CREDITS = 50  # money rule 10.
CONNECT_CREDITS, ACCOUNT_CREDITS, SIGNATURES_CREDITS = 5, 1, 5
_WALLETS = 10
_LAUNCHES_BEFORE, _LAUNCHES_AFTER = 5, 10  # Of the kill, and of the return of every client.
_POSTED_SECONDS = 60.0  # Without any further charge. Allowances are posted after 10 s.
# For a handshake and for one answer while 500 clients begin at once: only a client that hangs takes so long.
_ANSWER_SECONDS = 120.0
# No pings of a client's own: the service sends some, and a busy machine answers late.
_CONNECT: dict[str, Any] = {"compression": None, "ping_interval": None, "open_timeout": _ANSWER_SECONDS}


class StreamsDiffer(Exception):
    """The text names the events that a client missed, or the charges that differ."""


class Payer(Protocol):
    """Whose key pays."""

    @property
    def api_key(self) -> str: ...


@dataclass(eq=False)
class Client(ABC):
    """One client. `run` is the documented pattern; the fields hold what it has learned. payer: pays for it."""

    url: str
    payer: Payer
    topic: str = ""
    delivered_tenths: int = 0  # Tenths of a credit, for all that this client has received.
    free_tenths: int = 0  # The part of it that a replay may deliver free of charge.
    opened: int = 0
    lost: int = 0  # Connections that ended, or could not be made.
    codes: list[int] = field(default_factory=list)  # With which its sockets were closed; 1006: without one.
    socket: ClientConnection | None = None  # While its subscription is open.
    _next_id: int = 0

    async def run(self) -> None:
        while True:
            try:
                header = {"X-Api-Key": self.payer.api_key}
                async with connect(self._address(), additional_headers=header, **_CONNECT) as socket:
                    await self._serve(socket)
            except (OSError, ConnectionClosed, InvalidMessage, InvalidStatus, TimeoutError) as error:
                if isinstance(error, ConnectionClosed):
                    self.codes.append(1006 if error.rcvd is None else error.rcvd.code)
                self.lost, self.socket = self.lost + 1, None
                await asyncio.sleep(random.uniform(0.2, 1))

    def _address(self) -> str:
        """Return the URL of the next connection."""
        return self.url

    async def is_lost_since(self, lost: int) -> bool:
        """Return whether it has lost more connections than this; if not, its replica has answered a ping."""
        while self.lost == lost:
            with contextlib.suppress(ConnectionClosed):
                if self.socket is not None:
                    await (await self.socket.ping())
                    return self.lost != lost
            await asyncio.sleep(0.1)
        return True

    async def _serve(self, socket: ClientConnection) -> None:
        await self._ask(socket, *self._subscription())
        self.opened, self.socket = self.opened + 1, socket
        self.delivered_tenths += CONNECT_CREDITS * 10
        if self.opened > 1:
            await self._fill(socket)
        while True:
            self._take(orjson.loads(await socket.recv()))

    async def _ask(self, socket: ClientConnection, method: str, params: Sequence[Any]) -> Any:
        """Call until there is a result: a call above the account's limits is refused, and made again later."""
        while True:
            self._next_id += 1
            call = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
            await socket.send(orjson.dumps(call).decode())
            async with asyncio.timeout(_ANSWER_SECONDS):
                while (said := orjson.loads(await socket.recv())).get("id") != self._next_id:
                    self._take(said)
            if "result" in said:
                return said["result"]
            await asyncio.sleep(random.uniform(0.5, 2))

    @abstractmethod
    def _subscription(self) -> tuple[str, list[Any]]:
        """Return method and parameters, also after a reconnect."""

    @abstractmethod
    async def _fill(self, socket: ClientConnection) -> None:
        """Ask for the events in between, after a reconnect."""

    @abstractmethod
    def _take(self, said: dict[str, Any]) -> None:
        """Take in one message."""


@dataclass(eq=False)
class AccountClient(Client):
    slot: int = 0
    lamports: int = 0

    def _subscription(self) -> tuple[str, list[Any]]:
        return "accountSubscribe", [self.topic, {"commitment": "confirmed", "encoding": "base64"}]

    async def _fill(self, socket: ClientConnection) -> None:
        config = {"commitment": "confirmed", "encoding": "base64"}
        self._now_is(await self._ask(socket, "getAccountInfo", [self.topic, config]))
        self.delivered_tenths += ACCOUNT_CREDITS * 10

    def _take(self, said: dict[str, Any]) -> None:
        if "params" in said:
            self.delivered_tenths += 1
            self._now_is(said["params"]["result"])

    def _now_is(self, result: dict[str, Any]) -> None:
        if result["context"]["slot"] >= self.slot and result["value"] is not None:
            self.slot, self.lamports = result["context"]["slot"], result["value"]["lamports"]


@dataclass(eq=False)
class LogsClient(Client):
    signatures: list[str] = field(default_factory=list)

    def _subscription(self) -> tuple[str, list[Any]]:
        return "logsSubscribe", [{"mentions": [self.topic]}, {"commitment": "confirmed"}]

    async def _fill(self, socket: ClientConnection) -> None:
        config: dict[str, Any] = {"commitment": "confirmed", "limit": 1_000}
        if self.signatures:
            config["until"] = self.signatures[-1]
        found = await self._ask(socket, "getSignaturesForAddress", [self.topic, config])
        self.delivered_tenths += SIGNATURES_CREDITS * 10
        self._add(*(one["signature"] for one in reversed(found)))

    def _take(self, said: dict[str, Any]) -> None:
        if "params" in said:
            self.delivered_tenths += 1
            self._add(said["params"]["result"]["value"]["signature"])

    def _add(self, *signatures: str) -> None:
        """Add those that are new: after a reconnect, subscription and answer may both have one."""
        self.signatures += [one for one in signatures if one not in self.signatures]


@dataclass(eq=False)
class SignalClient(Client):
    mints: list[str] = field(default_factory=list)
    cursor: str = ""
    launched: dict[str, float] = field(default_factory=dict)  # Of the driver: coin to the time of its launch.
    _opened_at: float = 0.0

    def _subscription(self) -> tuple[str, list[Any]]:
        return "subscribeSignal", [{"kinds": ["newPair"]} | ({"since": self.cursor} if self.cursor else {})]

    async def _fill(self, socket: ClientConnection) -> None:
        self._opened_at = time.monotonic()

    def _take(self, said: dict[str, Any]) -> None:
        if "params" not in said:
            return
        result = said["params"]["result"]
        self.cursor = result.get("cursor", self.cursor)
        if "gap" in result:
            raise StreamsDiffer(f"a client with a cursor was sent a gap: {result}")
        self.delivered_tenths += 10
        if self.launched.get(result["mint"], 0.0) < self._opened_at:
            self.free_tenths += 10
        self.mints.append(result["mint"])


async def killed(product: Product, payers: Sequence[Customer], streams: int) -> dict[str, Any]:
    """Kill a replica under so many clients. payers: at least two, with credits enough. Raises StreamsDiffer."""

    async def kill() -> None:
        os.kill(product.running("ray::ServeReplica")[0], signal.SIGKILL)

    return await disturbed(product, payers, streams, kill)


async def disturbed(
    product: Product, payers: Sequence[Customer], streams: int, disturb: Callable[[], Awaitable[None]]
) -> dict[str, Any]:
    """As `killed`, with another disturbance, which returns when the replicas that end with it have ended."""
    wallets = [base58.b58encode(random.randbytes(32)).decode() for _ in range(_WALLETS)]
    async with httpx.AsyncClient(timeout=60) as http:
        driver = Driver(str(product.ready["node_url"]), wallets, http)
        for wallet in wallets:
            await driver.fund(wallet)
        clients = _clients(product, payers, streams, driver)
        running = [asyncio.create_task(client.run()) for client in clients]

        def check() -> None:
            for task in running:
                if task.done():
                    task.result()  # A client never ends by itself.

        try:
            await until_all(clients, lambda one: one.opened > 0, "not all streams could be opened", check)
            first = await driver.launch()  # From here on each client of signals has a cursor.
            of_signals = [one for one in clients if isinstance(one, SignalClient)]
            await until_all(of_signals, lambda one: first in one.mints, "not all had a first signal", check)
            driving = asyncio.create_task(driver.run())
            running.append(driving)
            await driver.launches(_LAUNCHES_BEFORE, check)
            lost_before, opened_before = ({one: one.lost for one in clients}, {one: one.opened for one in clients})
            disturbed_at = time.monotonic()
            await disturb()
            async with asyncio.timeout(_ANSWER_SECONDS):
                found_lost = await asyncio.gather(*(one.is_lost_since(lost_before[one]) for one in clients))
            lost = [one for one, is_lost in zip(clients, found_lost, strict=True) if is_lost]
            await until_all(lost, lambda one: one.opened > opened_before[one], "not all came back", check)
            back_seconds = time.monotonic() - disturbed_at
            await driver.launches(_LAUNCHES_AFTER, check)
            running.remove(driving)
            driver.is_over = True
            await driving
            await _until_known(clients, driver, check)
        finally:
            for task in running:
                task.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
    faults = [one for one in ended if isinstance(one, Exception)]
    if faults:
        raise faults[0]
    unposted = await _unposted(product, payers, clients)
    heard = sum(client.delivered_tenths - 50 * client.opened for client in clients)
    return {
        "streams": streams,
        "lost their connection": len(lost),
        "all back after s": round(back_seconds, 1),
        "closed with": dict(Counter(code for client in clients for code in client.codes)),
        "transfers": sum(map(len, driver.signatures.values())),
        "coins": len(driver.launched),
        "credits delivered": heard // 10,
        "credits replayed free, at most": sum(client.free_tenths for client in clients) // 10,
        "credits unposted, least of an account": min(unposted),
        "credits unposted, most of an account": max(unposted),
        "credits unposted, of all": sum(unposted),
    }


def _clients(product: Product, payers: Sequence[Customer], streams: int, driver: Driver) -> list[Client]:
    """Make the clients. Signals have payers of their own: only for them is a replay free of charge."""
    url, half = str(product.ready["ws_url"]), len(payers) // 2
    made: list[Client] = []
    for number in range(streams):
        payer, wallet = payers[number % half], driver.wallets[number // 3 % len(driver.wallets)]
        if number % 3 == 2:
            made.append(SignalClient(url, payers[half + number % (len(payers) - half)], launched=driver.launched))
        else:
            made.append((AccountClient if number % 3 else LogsClient)(url, payer, wallet))
    return made


async def _until_known(clients: Sequence[Client], driver: Driver, check: Callable[[], None]) -> None:
    """Wait until every client has all events and no others. Raises StreamsDiffer with the differences."""
    lamports, coins = dict[str, int](), list(driver.launched)

    async def look() -> None:
        while True:  # The newest transfers are confirmed a little later.
            lamports.update({wallet: await driver.lamports(wallet) for wallet in driver.wallets})
            await asyncio.sleep(1)

    looking = asyncio.create_task(look())
    try:
        await until_all(clients, lambda one: not _difference(one, driver, lamports, coins), "not all know all", check)
    except Stalled as stalled:
        wrong = [text for client in clients if (text := _difference(client, driver, lamports, coins))]
        raise StreamsDiffer("\n".join([str(stalled), *wrong[:10]])) from None
    finally:
        looking.cancel()


def _difference(client: Client, driver: Driver, lamports: dict[str, int], coins: list[str]) -> str:
    name = f"{type(client).__name__} (lost {client.lost} times)"
    if isinstance(client, AccountClient):
        return "" if client.lamports == lamports.get(client.topic) else f"{name}: {client.lamports} lamports"
    if isinstance(client, SignalClient):
        return "" if sorted(client.mints) == sorted(coins) else f"{name}: {len(client.mints)} of {len(coins)} coins"
    assert isinstance(client, LogsClient)
    wanted, found = set(driver.signatures[client.topic]), set(client.signatures)
    # The first transfer was made before the client came.
    missing, extra = wanted - found - {driver.signatures[client.topic][0]}, found - wanted
    return f"{name}: {len(missing)} signatures missing, {len(extra)} extra" if missing or extra else ""


async def _unposted(product: Product, payers: Sequence[Customer], clients: Sequence[Client]) -> list[int]:
    """Return the credits that each account heard events for and was not charged. Raises StreamsDiffer."""
    charged_before, moved_at = -1, time.monotonic()
    while True:
        found, wrong, all_charged = [], [], 0
        for payer in payers:
            mine = [client for client in clients if client.payer is payer]
            delivered, free = (sum(one.delivered_tenths for one in mine), sum(one.free_tenths for one in mine))
            charged = await asyncio.to_thread(_charged, product, payer)
            all_charged += charged
            unposted = delivered // 10 - charged
            # A subscription, or an answer to fill the gap, may have been charged and then lost with its replica.
            in_doubt = (CONNECT_CREDITS + SIGNATURES_CREDITS) * sum(one.lost for one in mine)
            # Tenths that make no whole credit are free, for each replica and name.
            if not -in_doubt - 2 <= unposted <= ALLOWANCE_CREDITS + free // 10 + 4:
                wrong.append(
                    f"{payer.pubkey}: {delivered / 10} delivered, {free / 10} of it replayed, {charged} charged"
                )
            found.append(unposted)
        if not wrong:
            return found
        if all_charged != charged_before:
            charged_before, moved_at = all_charged, time.monotonic()
        elif time.monotonic() - moved_at > _POSTED_SECONDS:
            raise StreamsDiffer("\n".join(wrong))
        await asyncio.sleep(1)


def _charged(product: Product, payer: Customer) -> int:
    total, offset = 0, 0
    with httpx.Client(headers={"X-Api-Key": payer.api_key}, timeout=60) as http:
        while True:
            url = f"{product.http_url}/account/ledger?offset={offset}&limit=500"
            entries = http.get(url).raise_for_status().json()["entries"]
            total -= sum(int(entry["amount"]) for entry in entries if entry["type"] in ("debit", "refund"))
            offset += len(entries)
            if len(entries) < 500:
                return total
