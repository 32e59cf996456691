"""Measures webhook deliveries a second, beside receivers that hang or are slow, and through kills.

PostgreSQL runs as a process, the dispatcher as another one, with an account owner in it (in the product the owner has a
process of its own). The receiver is in this process. Events are queued first; the time from the first delivery to the
last one is measured. Every delivery is charged. `kill -9` ends the dispatcher at once; a new one goes on. The cores
that receiver and dispatcher take tell which of the two is the limit.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
import uvloop

from actors.accounts.actor import AccountShard
from actors.accounts.api import AccountStanding, AdjustCredits, Command, OwnerReply
from actors.clock import SystemClock
from actors.config import PaymentsConfig
from actors.ownership.held import HeldSlices
from actors.ownership.store import PostgresOwnership
from actors.storage.connections import connect_postgres
from actors.telemetry.metrics import Metrics
from actors.units import base58_text
from actors.webhooks.actor import WebhookDispatcher
from actors.webhooks.api import CreateWebhook
from actors.webhooks.commands import WebhookCommands
from actors.webhooks.payloads import QueuedEvent
from actors.webhooks.payments import METHOD
from actors.webhooks.postgres_store import PostgresWebhookStore
from actors.webhooks.resolver import GuardedResolver
from actors.webhooks.sealing import SecretSeal
from actors.webhooks.sender import WebhookSender
from actors.webhooks.slices import KIND, SLICES
from actors.webhooks.targets import EgressRules
from bench import scenario, stores, systems
from bench.processes import cpu_seconds
from bench.product import ROOT

ACCOUNTS = 20
TARGET_PER_SECOND = 500
_BODY = '{"event":"transaction","filler":"' + "x" * 1_000 + '"}'
_QUEUED_AT_ONCE = 500
_SECRET = b"b" * 32
_NETWORK = PaymentsConfig(network="devnet")
_RULES = EgressRules(allow_loopback=True)
_STILL_SECONDS = 60.0  # A run is given up only when no event was delivered for this long.
_SLOW_SECONDS, SLOW_HOOKS, _SLOW_EVENTS = 5.0, 50, 40


class Outcome(NamedTuple):
    per_second: float
    delivered: int  # Different events.
    duplicates: int
    charged: int
    receiver_cores: float
    dispatcher_cores: float  # Of the last process, if some were killed.


class Receiver(asyncio.Protocol):
    """Answers 204 to every request, and counts event ids. A request to /hang is never answered, one to /slow late."""

    counts: ClassVar[Counter[bytes]] = Counter()
    first = last = 0.0

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            length = int(_header(head, b"content-length"))
            if len(self._data) < end + 4 + length:
                return
            self._data = self._data[end + 4 + length :]
            if head.startswith(b"post /hang"):
                continue
            if head.startswith(b"post /slow"):
                asyncio.get_running_loop().call_later(_SLOW_SECONDS, self._answer)
                continue
            cls = type(self)
            cls.last = time.monotonic()
            cls.first = cls.first or cls.last
            cls.counts[_header(head, b"x-webhook-event-id")] += 1
            self._answer()

    def _answer(self) -> None:
        if not self._transport.is_closing():  # The dispatcher may have been killed in the meantime.
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


def _header(head: bytes, name: bytes) -> bytes:
    start = head.index(b"\r\n" + name + b":") + len(name) + 3
    return head[start : head.find(b"\r\n", start) if head.find(b"\r\n", start) > 0 else len(head)].strip()


class Owner:
    """The account owner of this process, as an OwnersClient."""

    def __init__(self, shard: AccountShard) -> None:
        self.ask, self.ask_many = shard.ask, shard.ask_many


async def dispatch(postgres_url: str, redis_url: str) -> None:
    """Deliver until this process is ended."""
    clock = SystemClock()
    shard = await stores.account_owner(postgres_url, redis_url, _NETWORK)
    pool = await connect_postgres(postgres_url, connections_max=8, application="bench-dispatcher")
    sender = WebhookSender(_RULES, GuardedResolver(_RULES), clock)
    held = HeldSlices()
    held.took(range(SLICES), await PostgresOwnership(pool).claim(KIND, range(SLICES), "bench"))
    dispatcher = WebhookDispatcher(
        "bench",
        PostgresWebhookStore(pool, held),
        sender,
        Owner(shard),
        SecretSeal(_SECRET),
        clock,
        Metrics(),
        held,
        kept_ms=86_400_000,
    )
    dispatcher.start()
    await asyncio.Event().wait()


async def _rich(pubkey: bytes) -> AccountStanding:
    return AccountStanding(pubkey, balance=1_000_000, is_active=True, available=1_000_000)


class Bench:
    def __init__(self, postgres_url: str, redis_url: str) -> None:
        self._urls = postgres_url, redis_url
        self._child: subprocess.Popen[bytes] | None = None
        self._events = 0

    async def open(self) -> None:
        self._pool = await connect_postgres(self._urls[0], connections_max=4, application="bench-parent")
        self._held = HeldSlices()
        self.store = PostgresWebhookStore(self._pool, self._held)
        server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        sender = WebhookSender(_RULES, GuardedResolver(_RULES), SystemClock())
        seal, clock = SecretSeal(_SECRET), SystemClock()
        commands = WebhookCommands(self.store, sender, seal, clock, os.urandom, _rich, lambda: None)
        shard = await stores.account_owner(*self._urls, _NETWORK)
        for number in range(ACCOUNTS + 2):
            pubkey = number.to_bytes(32, "big")
            grant: Command[Any] = AdjustCredits(pubkey, 1_000_000, "bench", f"bench-{number}")
            reply: OwnerReply[Any] = await shard.ask(grant)
            assert reply.refusal is None, reply
            path = {ACCOUNTS: "hang", ACCOUNTS + 1: "slow"}.get(number, "hook")
            fields = {"url": f"http://127.0.0.1:{self._port}/{path}", "filter_type": "my_account"}
            for _ in range(SLOW_HOOKS if path == "slow" else 1):
                made = await commands.ask(CreateWebhook(pubkey, fields=fields))
                assert isinstance(made, dict), made
        await shard.stop()
        await sender.close()

    async def queue(self, count: int, hanging: int = 0, slow: int = 0) -> None:
        """Queue events of the accounts in turn. hanging, slow: events for each such webhook, queued before these."""
        # From the dispatcher that was killed before; the next one takes them when it starts.
        self._held.took(range(SLICES), await PostgresOwnership(self._pool).claim(KIND, range(SLICES), "bench-parent"))
        now_ms = SystemClock().now_ms()
        subjects = [ACCOUNTS] * hanging + [ACCOUNTS + 1] * slow + [number % ACCOUNTS for number in range(count)]
        for start in range(0, len(subjects), _QUEUED_AT_ONCE):
            events = []
            for number in subjects[start : start + _QUEUED_AT_ONCE]:
                self._events += 1
                subject = base58_text(number.to_bytes(32, "big"))
                events.append(QueuedEvent(f"bench:{self._events}", "my_account", subject, None, None, now_ms, _BODY))
            await self.store.queue(events, now_ms)

    async def measure(self, count: int, kills: int = 0) -> Outcome:
        """Deliver `count` queued events; the dispatcher is killed so often on the way, at even shares."""
        Receiver.counts.clear()
        Receiver.first = Receiver.last = 0.0
        charged_before = await self.charges()
        self.start()
        cpu, began = self._cpu_seconds(), time.monotonic()
        before, since, done = -1, began, 0
        while len(Receiver.counts) < count:
            if len(Receiver.counts) != before:
                before, since = len(Receiver.counts), time.monotonic()
            assert time.monotonic() < since + _STILL_SECONDS, f"{before} of {count} were delivered"
            if done < kills and len(Receiver.counts) >= count * (done + 1) // (kills + 1):
                self.kill()
                done += 1
                self.start()
                cpu, began = self._cpu_seconds(), time.monotonic()
            await asyncio.sleep(0.01)
        cores = [(now - then) / (time.monotonic() - began) for now, then in zip(self._cpu_seconds(), cpu, strict=True)]
        since = time.monotonic()
        while await self.unfinished():
            assert time.monotonic() < since + _STILL_SECONDS, "jobs are left"
            await asyncio.sleep(0.1)
        self.kill()
        sent = sum(Receiver.counts.values())
        seconds = Receiver.last - Receiver.first
        charged = await self.charges() - charged_before
        return Outcome(count / seconds, len(Receiver.counts), sent - count, charged, *cores)

    def _cpu_seconds(self) -> tuple[float, float]:
        """Return the processor time so far of this process, which is the receiver, and of the dispatcher."""
        assert self._child is not None
        return time.process_time(), sum(cpu_seconds((self._child.pid,)).values())

    async def forget_slow(self) -> None:
        """Delete the slow webhooks with the events that wait for them."""
        await self._pool.execute("DELETE FROM webhooks WHERE url LIKE '%/slow'")

    async def charges(self) -> int:
        """Return the credits that the ledger has for deliveries to receivers that answer at once."""
        found = await self._pool.fetchval(
            "SELECT coalesce(-sum(amount), 0) FROM ledger WHERE method = $1 AND pubkey < $2",
            *(METHOD, ACCOUNTS.to_bytes(32, "big")),
        )
        return int(found)

    async def unfinished(self) -> int:
        """Return the number of waiting jobs, without those of receivers that hang or are slow."""
        found = await self._pool.fetchval(
            "SELECT count(*) FROM webhook_jobs j JOIN webhooks w ON w.id = j.webhook_id"
            " WHERE j.state IN (0, 1, 5) AND w.url LIKE '%/hook'"
        )
        return int(found)

    def start(self) -> None:
        self._child = subprocess.Popen([sys.executable, "-m", "bench.webhooks", *self._urls], cwd=ROOT)

    def kill(self) -> None:
        assert self._child is not None
        self._child.kill()
        self._child.wait()


async def measure_all(urls: tuple[str, str], events: int, kill_events: int, kills: int) -> list[tuple[str, Outcome]]:
    bench = Bench(*urls)
    await bench.open()
    found = []
    await bench.queue(events)
    found.append((f"{events} events, {ACCOUNTS} webhooks", await bench.measure(events)))
    await bench.queue(events, hanging=1_000)
    found.append(("the same, with 1,000 events of a webhook that hangs", await bench.measure(events)))
    await bench.queue(events, slow=_SLOW_EVENTS)
    name = f"the same, beside {SLOW_HOOKS} webhooks of one account that answer after {_SLOW_SECONDS:g} s"
    found.append((name, await bench.measure(events)))
    await bench.forget_slow()
    await bench.queue(kill_events)
    found.append((f"{kill_events} events, killed {kills} times", await bench.measure(kill_events, kills)))
    return found


def main(
    events: Annotated[int, typer.Option(min=100, help="Events of each run without kills.")] = 10_000,
    kill_events: Annotated[int, typer.Option(min=100, help="Events of the run with kills.")] = 5_000,
    kills: Annotated[int, typer.Option(min=0, help="How often the dispatcher is killed.")] = 3,
) -> dict[str, Any]:
    """Measure deliveries; takes about a minute. Fails on a lost event, or on one that was charged twice."""
    with systems.temporary_folder() as folder, stores.running(folder) as urls:
        asyncio.run(urls.migrate())
        found = dict(uvloop.run(measure_all((urls.postgres, urls.redis), events, kill_events, kills)))
    headings = ("run", "deliveries/s", "events", "duplicates", "charged", "receiver cores", "dispatcher cores")
    scenario.show("webhooks", headings, ((name, *outcome) for name, outcome in found.items()))
    slowest = min(outcome.per_second for outcome in list(found.values())[:-1])
    scenario.show_targets([scenario.at_least("deliveries/s without kills", TARGET_PER_SECOND, slowest)])
    figures = {name: outcome._asdict() for name, outcome in found.items()}
    if any(outcome.charged != outcome.delivered for outcome in found.values()):
        raise scenario.Wrong("not every event was charged once", figures)
    return figures


if __name__ == "__main__":  # The dispatcher's process.
    uvloop.run(dispatch(*sys.argv[1:]))
